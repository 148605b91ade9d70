"""Copies of a ledger: an export that anyone may check, and a backup that can take its place.

Neither holds the private key. A backup of which the key is copied too could spend the budget a second
time, so bring one back only when the original is gone, and check it against the last head that you kept.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from oboro.errors import LedgerError, TamperError
from oboro.kinds import path_of, takes
from oboro.ledger import schema
from oboro.ledger.canonical import canonical
from oboro.ledger.chain import Entry, Head
from oboro.ledger.database import Database
from oboro.ledger.failures import Progress, in_words
from oboro.ledger.place import Place
from oboro.ledger.records import tampered
from oboro.ledger.replay import Replay, Verification

FORMAT = "oboro ledger export"
VERSION = 1


def export_of(entries: list[Entry]) -> dict[str, Any]:
    """All entries, the head and the public keys. What was released is not in it."""
    first, last = entries[0], entries[-1]
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": first.body["id"],
        "dataset": first.body["dataset"],
        "head": last.head.to_dict(),
        "keys": [
            {"position": entry.position, "public_key": entry.body["key"]}
            for entry in entries
            if entry.kind in ("create", "key")
        ],
        "entries": [entry.to_dict() for entry in entries],
    }


def write_export(record: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes an export. An older one is replaced as a whole."""
    target = Path(path)
    pending = target.with_name(target.name + ".part")
    try:
        pending.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(pending, target)
    except OSError as error:
        raise LedgerError(
            "the export cannot be written", given=f"{target}: {error.strerror or error}"
        ) from None


@takes(path=path_of, expected=Head)
def verify_export(path: str | os.PathLike[str], expected: Head | None = None) -> Verification:
    """Checks an export without the ledger: chain, signatures, totals, and the head if one was kept."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise LedgerError("the export cannot be read", given=f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        record = None
    if (
        not isinstance(record, dict)
        or record.get("format") != FORMAT
        or not isinstance(record.get("entries"), list)
    ):
        raise LedgerError(
            "the file is not the export of a ledger", given=str(path), needed=f'"format": "{FORMAT}"'
        )
    if record.get("version") != VERSION:
        raise LedgerError(
            "the export was written by another version of oboro",
            given=f"version {record.get('version')}",
            needed=f"version {VERSION}",
            fix="pip install --upgrade oboro",
        )
    replay = Replay.of(_exported(record["entries"]), expected)
    assert replay.last is not None
    keys = [{"position": key.position, "public_key": key.public_key} for key in replay.keys]
    created = {"id": replay.ledger_id, "head": replay.last.head.to_dict(), "keys": keys}
    for part, value in created.items():
        if record.get(part) != value:
            raise TamperError(
                f"the export does not verify: its {part} does not agree with its entries",
                given=str(record.get(part))[:200],
                needed=str(value)[:200],
            )
    return replay.verification(contents=None)


def backup(database: Database, path: str | os.PathLike[str]) -> None:
    """A consistent copy as a new SQLite file, taken while others go on writing."""
    place = Place(shown=str(path), path=Path(os.path.abspath(path)))
    assert place.path is not None
    try:
        os.close(os.open(place.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise LedgerError(
            "the backup would overwrite a file", given=str(path), fix="choose a new path"
        ) from None
    except OSError as error:
        raise LedgerError(
            "the backup cannot be written", given=f"{path}: {error.strerror or error}"
        ) from None
    try:
        with database.reading() as source:
            if database.sqlite:
                _copy_file(source, place)
            else:
                _copy_rows(source, place)
    except BaseException:
        place.path.unlink(missing_ok=True)
        raise


def _copy_file(source: Connection, place: Place) -> None:
    # A bare connection, not a Database: nobody may hold the turns of two, or a fork could wait for ever.
    driver = source.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    assert place.path is not None
    with in_words(place, Progress(), sqlite3.Error), closing(sqlite3.connect(place.path)) as target:
        target.execute("PRAGMA synchronous = FULL")
        driver.backup(target)


def _copy_rows(source: Connection, place: Place) -> None:
    copy = Database(place)
    with closing(copy), copy.writing() as target:
        schema.metadata.create_all(target)
        for table in (schema.about, schema.entries, schema.parts):
            at_a_time = 1 if table is schema.parts else 500
            query = select(table).order_by(*table.primary_key)
            for row in source.execution_options(yield_per=at_a_time).execute(query).mappings():
                target.execute(table.insert().values(**row))


def _exported(entries: list[Any]) -> Iterator[tuple[Entry, str]]:
    for position, record in enumerate(entries):
        try:
            entry = Entry(**record)
            text = canonical(entry.body)
            sound = (
                isinstance(entry.body, dict) and type(entry.position) is int and isinstance(entry.hash, str)
            )
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise tampered(position, "it is not what a ledger writes")
        yield entry, text
