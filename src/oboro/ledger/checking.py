"""Checking a whole ledger: its chain, the columns that repeat it, stored content, and our own key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, select

from oboro.errors import LedgerError
from oboro.ledger import keys, records, schema
from oboro.ledger.chain import Entry, Head
from oboro.ledger.database import Database
from oboro.ledger.records import tampered
from oboro.ledger.replay import Replay, Verification, content_fault


def verify(database: Database, key_path: Path, expected: Head | None) -> Verification:
    """Raises TamperError at the first thing that is wrong."""
    with database.reading() as connection:
        replay = Replay.of(_rows(connection), expected)
        assert replay.last is not None
        records.refuse_torn(connection, replay.last.position)
        if replay.schema != connection.scalar(select(schema.about.c.schema)):
            raise tampered(0, "the schema is not the one that the chain speaks of")
        if replay.ledger_id != connection.scalar(select(schema.about.c.id)):
            raise tampered(0, "its id is not that of the ledger")
        _check_contents(connection, replay)
    _check_key(key_path, replay)
    return replay.verification(contents=len(replay.commits))


def _rows(connection: Connection) -> Iterator[tuple[Entry, str]]:
    for row in records.all_rows(connection):
        entry = records.entry_of(row)
        if (row.name, row.reservation) != (entry.body.get("name"), entry.body.get("reservation")):
            raise tampered(entry.position, "its name or reservation column differs from its body")
        yield entry, row.body


def _check_contents(connection: Connection, replay: Replay) -> None:
    for reservation, commit in replay.commits.items():
        wrong = content_fault(records.read_parts(connection, reservation), commit)
        if wrong is not None:
            raise tampered(commit.position, wrong)
    for reservation in connection.scalars(select(schema.parts.c.reservation).distinct()):
        if reservation not in replay.commits:
            raise tampered(reservation, "content is stored for it that was never committed")


def _check_key(path: Path, replay: Replay) -> None:
    """A chain that a stranger made anew under a key of their own is whole in itself, but does not fit our key."""
    ours = None
    with suppress(LedgerError):  # checking needs no key: one that is not here, or not readable, says nothing
        ours = keys.public_half(keys.load(path))
    if ours is not None and ours not in {key.public_key for key in replay.keys}:
        raise tampered(0, f"the private key in {path} is none of the keys that the chain was signed with")
