"""The shelf: which urns were made and which were used, on disk, so that none is ever used twice.

One small SQLite file for each party. A change is on disk before the call returns (a full sync), so a process that is
killed a moment later leaves the urns used. An older copy of the file that is put back would forget; keep it in place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from oboro.errors import LedgerError
from oboro.files import BESIDE_SQLITE, reads
from oboro.ledger.file import identity, real_path, refuse_network
from oboro.secure.trouble import UsedError

_TABLE = """CREATE TABLE IF NOT EXISTS urns (
    name BLOB PRIMARY KEY, plan TEXT NOT NULL, made TEXT NOT NULL, used TEXT) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The record of one party's urns."""

    path: Path

    def put(self, name: bytes, plan: str, *, used: bool = False) -> None:
        """Writes down new urns, before anyone sees them."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO urns VALUES (?, ?, ?, ?)", (name, plan, _now(), _now() if used else None)
            )

    def use(self, name: bytes, plan: str) -> None:
        """Marks urns of ours as used, once; whoever comes second is refused."""
        with self._writing() as connection:
            found = connection.execute("SELECT plan, used FROM urns WHERE name = ?", (name,)).fetchone()
            if found is None or found[0] != plan:
                raise UsedError(
                    "these urns were not made here for this plan",
                    given=f"urns {name.hex()[:16]}",
                    needed=f"urns that are written down in {self.path}",
                    fix="oboro secure urns",
                )
            if found[1] is not None:
                raise _used(name, found[1])
            connection.execute("UPDATE urns SET used = ? WHERE name = ?", (_now(), name))

    def claim(self, name: bytes, plan: str) -> None:
        """Marks urns of the other party as used, once."""
        with self._writing() as connection:
            found = connection.execute("SELECT used FROM urns WHERE name = ?", (name,)).fetchone()
            if found is not None:
                raise _used(name, found[0])
            connection.execute("INSERT INTO urns VALUES (?, ?, ?, ?)", (name, plan, _now(), _now()))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else can come between, in a file that has one name, as a ledger has."""
        path = real_path(self.path)
        reads(path, *BESIDE_SQLITE)
        refuse_network(path, str(self.path))
        if path.exists():
            identity(path, str(self.path))
        try:
            with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")  # also after a loss of power
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            identity(path, str(self.path))
        except sqlite3.Error as error:
            raise LedgerError(
                "the record of used urns cannot be written",
                given=f"{self.path}: {error}",
                needed="a place that can be written; without it no urn may be used",
                fix="--state urns.state",
            ) from None


def _used(name: bytes, when: str) -> UsedError:
    return UsedError(
        "these urns were used before",
        given=f"urns {name.hex()[:16]}, used {when}",
        needed="fresh urns for every answer: a second draw would show part of the noise",
        fix="oboro secure urns",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
