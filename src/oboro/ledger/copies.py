"""Copies of a ledger: an export that anyone may check, and a backup that can take its place.

Neither holds the private key. A backup of which the key is copied too could spend the budget a second
time, so bring one back only when the original is gone, and check it against the last head that you kept.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oboro.errors import LedgerError, TamperError
from oboro.files import reads, refuse_input, write_whole
from oboro.kinds import path_of, takes
from oboro.ledger import keys, records, schema
from oboro.ledger.chain import Entry, Head, canonical, in_order, laid_out, read_laid_out
from oboro.ledger.database import PATIENCE, Connection, Database
from oboro.ledger.file import Place, Progress, in_words, real_path, sync_folder
from oboro.ledger.records import tampered
from oboro.ledger.replay import Replay, Verification, content_fault
from oboro.records import Record

FORMAT = "oboro ledger export"
_INDENT = 1


def export_of(entries: list[Entry]) -> Record:
    """All entries, the head and the public keys. What was released is not in it."""
    first, last = entries[0], entries[-1]
    return {
        "format": FORMAT,
        "version": next(
            entry.body.get("schema", 1) for entry in reversed(entries) if entry.kind in ("create", "upgrade")
        ),
        "id": first.body["id"],
        "dataset": first.body["dataset"],
        "head": last.head.to_dict(),
        "keys": [
            {"position": entry.position, "public_key": entry.body["key"]}
            for entry in entries
            if entry.kind in ("create", "key")
        ],
        "entries": [{**entry.to_dict(), "body": in_order(entry.body)} for entry in entries],
    }


def write_export(
    record: Record, path: str | os.PathLike[str], spare: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Writes an export. An older one is replaced as a whole; the files of the ledger itself are not."""
    write_whole(Path(path), laid_out(record, _INDENT), spare=spare)


@takes(path=path_of, expected=Head)
def verify_export(path: str | os.PathLike[str], expected: Head | None = None) -> Verification:
    """Checks an export without the ledger: chain, signatures, totals, and the head if one was kept.

    >>> head = ledger.export("people.json")
    >>> ob.ledger.verify_export("people.json", expected=head).entries
    1
    """
    reads(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise LedgerError("the export cannot be read", given=f"{path}: {error.strerror or error}") from None
    record = read_laid_out(content, _INDENT)
    if record is None or record.get("format") != FORMAT or not isinstance(record.get("entries"), list):
        raise _no_export(path)
    if record.get("version") not in range(1, schema.VERSION + 1):
        raise LedgerError(
            "the export was written by another version of oboro",
            given=f"version {record.get('version')}",
            needed=f"version {schema.VERSION}",
            fix="pip install --upgrade oboro",
        )
    entries = list(_exported(record["entries"]))
    replay = Replay.of(entries, expected)
    told = export_of([entry for entry, _ in entries])
    for part in [*told, *record]:
        if part not in told or canonical(record.get(part)) != canonical(told[part]):
            raise TamperError(
                f"the export does not verify: its {part} does not agree with its entries",
                given=str(record.get(part))[:200],
                needed=str(told.get(part, "nothing"))[:200],
            )
    if content != laid_out(told, _INDENT):  # all that it says is true, but in another order
        raise _no_export(path)
    return replay.verification(contents=None)


def looks_exported(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as an export does, and no ledger."""
    try:
        with open(path, "rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def _no_export(path: str | os.PathLike[str]) -> LedgerError:
    return LedgerError(
        "the file is not the export of a ledger",
        given=str(path),
        needed=f'"format": "{FORMAT}", byte for byte as oboro wrote it',
    )


def backup(database: Database, path: str | os.PathLike[str], spare: Iterable[str | os.PathLike[str]]) -> None:
    """A consistent copy as a new SQLite file."""
    with database.reading() as source:
        copy(database.place, source, path, spare)


def copy(
    original: Place,
    source: Connection,
    path: str | os.PathLike[str],
    spare: Iterable[str | os.PathLike[str]],
) -> None:
    """Writes a new SQLite file that holds what `source` sees, in a transaction that someone else began."""
    place = Place(shown=str(path), path=real_path(path))
    assert place.path is not None
    refuse_input(place.path, spare)  # not beside it either: SQLite would take the copy for a journal
    if os.path.lexists(place.path):
        raise _taken(path)
    try:
        handle, name = tempfile.mkstemp(prefix=".oboro-", dir=place.path.parent)  # for our eyes only
    except OSError as error:
        raise LedgerError(
            "the backup cannot be written", given=f"{path}: {error.strerror or error}"
        ) from None
    os.close(handle)
    pending = Place(shown=str(path), path=Path(name))
    try:  # under its name it is there whole or not at all
        if original.path is not None:
            _copy_file(original.path, pending)
        else:
            _copy_rows(source, pending)
        _name(name, place.path)
    except FileExistsError:
        raise _taken(path) from None
    finally:
        Path(name).unlink(missing_ok=True)
    sync_folder(place.path)


def _name(pending: str, path: Path) -> None:
    """Gives a file its name, which nothing has yet."""
    try:
        os.link(pending, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.rename(pending, path)


def _taken(path: str | os.PathLike[str]) -> LedgerError:
    return LedgerError("the backup would overwrite a file", given=str(path), fix="choose a new path")


def _copy_file(original: Path, place: Place) -> None:
    # Bare connections, not a Database: nobody may hold the turns of two, or a fork could wait for ever. And not the
    # connection that is open: SQLite copies from none that is about to write, as an upgrade is.
    assert place.path is not None
    uri = f"file://{quote(str(original))}?mode=ro"
    with (
        in_words(place, Progress(), (sqlite3.Error,)),
        closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as source,
        closing(sqlite3.connect(place.path)) as target,
    ):
        target.execute("PRAGMA synchronous = FULL")
        source.backup(target)


def _copy_rows(source: Connection, place: Place) -> None:
    made, last = Database(place, copy=True), -1
    with closing(made), made.writing() as target:
        about = source.first("SELECT id, schema FROM oboro_ledger")
        assert about is not None
        schema.create(target, *about)
        for table in schema.tables_of(about[1])[1:]:
            names = schema.COLUMNS[table]
            query = f"SELECT {', '.join(names)} FROM {table} ORDER BY {', '.join(names[:2])}"
            for row in source.rows(query, few=1 if table == "oboro_parts" else 500):
                schema.insert(target, table, **dict(zip(names, row, strict=True)))
                last = max(last, row[0]) if table == "oboro_entries" else last
        records.mark(target, last)


def _exported(entries: list[Any]) -> Iterator[tuple[Entry, str]]:
    for position, record in enumerate(entries):
        try:
            entry = Entry(**record)
        except TypeError:
            raise tampered(position, "it is not what a ledger writes") from None
        yield records.well_formed(entry, position), canonical(entry.body)


# Checking a whole ledger: its chain, the columns that repeat it, stored content, and our own key.


def verify(database: Database, key_path: Path, expected: Head | None) -> Verification:
    """Raises TamperError at the first thing that is wrong."""
    with database.reading() as connection:
        replay = Replay.of(_rows(connection), expected)
        assert replay.last is not None
        records.refuse_torn(connection, replay.last.position)
        if replay.schema != connection.one("SELECT schema FROM oboro_ledger"):
            raise tampered(0, "the schema is not the one that the chain speaks of")
        if replay.ledger_id != connection.one("SELECT id FROM oboro_ledger"):
            raise tampered(0, "its id is not that of the ledger")
        _check_contents(connection, replay)
        _check_lookups(connection, replay)
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
    for (reservation,) in connection.rows("SELECT DISTINCT reservation FROM oboro_parts"):
        if reservation not in replay.commits:
            raise tampered(reservation, "content is stored for it that was never committed")


def _check_lookups(connection: Connection, replay: Replay) -> None:
    """That every entry is found by its words, and by no others."""
    if "oboro_lookups" not in schema.tables_of(replay.schema):
        return
    there = set(connection.rows("SELECT key, position FROM oboro_lookups"))
    if wrong := there ^ replay.lookups:
        raise tampered(min(position for _, position in wrong), "it is not looked up by its own words")


def _check_key(path: Path, replay: Replay) -> None:
    """A chain that a stranger made anew under a key of their own is whole in itself, but does not fit our key."""
    ours = None
    with suppress(LedgerError):  # checking needs no key: one that is not here, or not readable, says nothing
        ours = keys.public_half(keys.load(path))
    if ours is not None and ours not in {key.public_key for key in replay.keys}:
        raise tampered(0, f"the private key in {path} is none of the keys that the chain was signed with")
