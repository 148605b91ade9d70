"""What is read from the tables and written to them, inside a transaction that someone else began."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oboro.errors import LedgerError, TamperError
from oboro.ledger import schema
from oboro.ledger.chain import Entry, Head, fault, odd, seal, sha256
from oboro.ledger.database import Connection, Database
from oboro.privacy import Guarantee, Unit

PART = 8 << 20  # bytes


class Line(NamedTuple):
    """A row of the table of entries, as it is stored."""

    position: int
    kind: str
    body: str
    previous: str
    hash: str
    signature: str
    name: str | None
    reservation: int | None


# What is asked at every answer.
_LINES = f"SELECT {', '.join(Line._fields)} FROM oboro_entries"
_APPEND = f"INSERT INTO oboro_entries ({', '.join(Line._fields)}) VALUES ({', '.join(f':{name}' for name in Line._fields)})"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to run one plan once. What it cost is spent, whatever happens next.

    >>> reservation = ledger.reserve(plan={"kind": "mine"}, unit=unit, guarantee=ob.Pure("0.1"), name="mine")
    >>> reservation.cost, ledger.remaining
    (Pure('0.1'), Pure('0.9'))
    """

    position: int
    hash: str
    name: str | None
    cost: Guarantee
    plan_hash: str


class Due(NamedTuple):
    """What is to be paid for, and what it costs here: the record of a plan, its hash, and the unit and guarantee that it states."""

    plan: dict[str, Any]
    plan_hash: str
    unit: Unit
    guarantee: Guarantee
    cost: Guarantee


@dataclass(frozen=True, slots=True)
class Stored:
    """A release: its reservation and, unless its run died, its commit.

    >>> domain = ob.Domain([ob.Category("sex", ["f", "m"])])
    >>> _ = ob.histogram({"sex": ["f", "m"]}, domain, "sex", eps="0.5", ledger=ledger, name="sexes")
    >>> stored = ledger.find("sexes")
    >>> stored.reserved.cost, stored.committed.position
    (Pure('0.5'), 2)
    """

    reserved: Entry
    committed: Entry | None
    _database: Database = field(repr=False, compare=False)

    @property
    def plan_hash(self) -> str:
        return str(self.reserved.body["plan_hash"])

    def content(self) -> bytes:
        """What was released, checked against the hash in the ledger."""
        if self.committed is None:
            raise LedgerError(
                "there is nothing to read: the run of this release did not finish",
                given=f"entry {self.reserved.position}",
                fix="run the plan again: it is paid for again",
            )
        with self._database.reading() as connection:
            content = b"".join(read_parts(connection, self.reserved.position))
        if len(content) != self.committed.body["size"] or sha256(content) != self.committed.body["sha256"]:
            raise tampered(self.committed.position, "the stored content is not what was committed")
        return content


def last_entry(connection: Connection, *, lock: bool = False) -> Entry:
    """The last entry, checked by itself; with `lock`, nobody else can append before this transaction ends.

    It is the one that is kept, where it was checked before: to be read, and never handed out nor written to.
    """
    if lock:
        connection.serialise()
    if connection.tip is not None:
        return connection.tip
    row = connection.first(f"{_LINES} ORDER BY position DESC LIMIT 1")
    if row is None:
        raise tampered(0, "there is no entry")
    last = _whole.get(row) or checked(Line(*row))
    refuse_torn(connection, last.position)
    if connection.sqlite or lock:  # on a server it is the last for as long as the lock is held
        connection.tip = last
    return last


def first_entry(connection: Connection) -> Entry:
    entry = entry_at(connection, 0)
    if entry is None:
        raise tampered(0, "there is no entry")
    return entry


def entry_named(connection: Connection, name: str) -> Entry | None:
    return _found(connection, "WHERE name = :name", name=name)


def entry_at(connection: Connection, position: int) -> Entry | None:
    return _found(connection, "WHERE position = :position", position=position)


def furthest(connection: Connection) -> Head:
    """How far the ledger has come, as it says itself; nothing of it is checked."""
    last = connection.first("SELECT position, hash FROM oboro_entries ORDER BY position DESC LIMIT 1")
    if last is None:
        raise tampered(0, "there is no entry")
    return Head(*last)


def commit_of(connection: Connection, reservation: int) -> Entry | None:
    return _found(connection, "WHERE reservation = :reservation", reservation=reservation)


def all_rows(connection: Connection, *kinds: str) -> Iterator[Line]:
    """Entries in their order, a few at a time; of some kinds only, if any are given."""
    named: dict[str, Any] = {f"kind{number}": kind for number, kind in enumerate(kinds)}
    where = f"WHERE kind IN ({', '.join(f':{name}' for name in named)})" if kinds else ""
    for row in connection.rows(f"{_LINES} {where} ORDER BY position", **named):
        yield Line(*row)


def entry_of(row: Line) -> Entry:
    """What stands in a row, of the form that entries have; nothing else of it is checked."""
    try:
        body = json.loads(row.body if isinstance(row.body, str) else "")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise tampered(row.position, "its body cannot be read")
    return well_formed(
        Entry(row.position, row.kind, body, row.previous, row.hash, row.signature), row.position
    )


def well_formed(entry: Entry, position: int) -> Entry:
    """The entry, unless something in it is not what a ledger writes: whoever signed it."""
    if wrong := odd(entry):
        raise tampered(position, f"its {wrong} is missing, or not what a ledger writes")
    return entry


def append(
    connection: Connection,
    last: Entry | None,
    kind: str,
    facts: Mapping[str, object],
    *keys: Ed25519PrivateKey,
    time: datetime | None = None,
) -> Entry:
    """Writes the next entry."""
    entry, text, own = seal(last, kind, facts, *keys, time=time)
    line = Line(
        entry.position,
        kind,
        text,
        entry.previous,
        entry.hash,
        entry.signature,
        entry.body.get("name"),
        entry.body.get("reservation"),
    )
    written: dict[str, Any] = line._asdict()
    named = {f"key{number}": key for number, key in enumerate(lookups(entry))}
    rows = ", ".join(f"(:{name}, :position)" for name in named)
    found_by = f"INSERT INTO oboro_lookups (key, position) VALUES {rows}"
    if not connection.sqlite and named:  # both in one way there and back
        connection.run(f"WITH entry AS ({_APPEND}) {found_by}", **written, **named)
    else:
        connection.run(_APPEND, **written)
        if named:
            connection.run(found_by, position=entry.position, **named)
    mark(connection, entry.position)
    kept = _whole.add(tuple(line), own) if odd(own, text) is None else None
    connection.tip = kept if connection.sqlite else None
    return entry


def lookups(entry: Entry) -> list[str]:
    """By which words an entry is looked up: its account's state, its question, the approval that it used, its series."""
    body, found = entry.body, []
    if "account" in body:
        found.append(f"account {body['account']['name']}")
    if entry.kind == "reserve" and "edition" in body:
        found.append(f"question {body['plan_hash']} {body['edition']}")
    if entry.kind == "reserve" and "approval" in body:
        found.append(f"approval {body['approval']}")
    if entry.kind == "tick":
        found.append(f"series {body['series']}")
    return found


def looked_up(connection: Connection, key: str, order: str = "DESC") -> Iterator[Entry]:
    """The entries that a key leads to, the last one first, each checked by itself."""
    past, ways = (2**62, "<") if order == "DESC" else (-1, ">")
    query = (
        f"SELECT l.position, {', '.join(f'e.{name}' for name in Line._fields)} FROM oboro_lookups l "
        f"LEFT JOIN oboro_entries e ON e.position = l.position WHERE l.key = :key AND l.position {ways} :past "
        f"ORDER BY l.position {order} LIMIT :most"
    )
    most = 1  # mostly one is wanted, and an account has as many as it asked questions
    while rows := connection.all(query, key=key, past=past, most=most):
        for past, *row in rows:
            entry = None if row[0] is None else checked(Line(*row))
            if entry is None or key not in lookups(entry):
                raise tampered(past, "it is looked up by words that are not its own")
            yield entry
        if len(rows) < most:
            return
        most = 256


def mark(connection: Connection, position: int) -> None:
    """Writes how long the ledger is into the first page of a SQLite file, with the entry itself.

    If a write was cut short and its journal lost (the file was moved or copied without it), pages of two states stand
    in one file. The first page is of one state or the other, and so is the last entry: unless they agree, something
    that was granted may be missing.
    """
    if connection.sqlite:
        connection.run(f"PRAGMA user_version = {position + 1}")


def refuse_torn(connection: Connection, position: int) -> None:
    """Raises LedgerError unless the entry at `position` is the last by the first page too. 0.1 wrote nothing there."""
    if not connection.sqlite:
        return
    marked = connection.one("PRAGMA user_version")
    if marked not in (0, position + 1):
        raise LedgerError(
            "the file is torn: a write to it was cut short, and its journal is not beside it",
            given=f"its last entry is {position}, and {(marked or 0) - 1} by its first page",
            needed="the file named as the ledger with -journal at its end, from where the ledger was before",
            fix="put it beside the ledger, or restore a backup and `verify` it against a head that was kept",
        )


def write_parts(connection: Connection, reservation: int, content: bytes) -> None:
    view = memoryview(content)
    for part, start in enumerate(range(0, len(view), PART)):
        data = bytes(view[start : start + PART])
        schema.insert(connection, "oboro_parts", reservation=reservation, part=part, data=data)


def read_parts(connection: Connection, reservation: int) -> Iterator[bytes]:
    count = connection.one("SELECT count(*) FROM oboro_parts WHERE reservation = :at", at=reservation) or 0
    for part in range(count):
        data = connection.one(
            "SELECT data FROM oboro_parts WHERE reservation = :at AND part = :part", at=reservation, part=part
        )
        if isinstance(
            data, bytes | memoryview
        ):  # a cell of SQLite holds anything: bytes(2**62) is a lot of memory
            yield bytes(data)


def tampered(position: int, what: str) -> TamperError:
    return TamperError(
        f"entry {position} of the ledger does not verify: {what}",
        given=f"position {position}",
        needed="the ledger as oboro wrote it",
        fix="compare with a backup or an export; what was spent must be taken from the larger of them",
    )


def _found(connection: Connection, where: str, **values: object) -> Entry | None:
    row = connection.first(f"{_LINES} {where}", **values)
    return None if row is None else checked(Line(*row))


class _Whole:
    """Rows that were found whole, or written, by this process a moment ago, and the entries that they are.

    Whether a row is whole follows from its columns alone, all of which are compared. So nothing is believed that was not
    checked: only the same bytes are not checked twice, whoever wrote meanwhile.
    """

    def __init__(self, most: int = 4) -> None:
        self._rows: deque[tuple[tuple[Any, ...], Entry]] = deque(maxlen=most)

    def add(self, row: tuple[Any, ...], own: Entry | None = None) -> Entry:
        """Its entry is read from the row, or `own`, which nobody else holds: what a caller may write to is never kept."""
        position, kind, body, previous, digest, signature = row[:6]
        entry = own or Entry(position, kind, json.loads(body), previous, digest, signature)
        self._rows.append((row, entry))
        return entry

    def get(self, row: tuple[Any, ...]) -> Entry | None:
        for known, entry in tuple(self._rows):
            # by kind, too: 1, 1.0 and True are equal to Python
            if row == known and [*map(type, row)] == [*map(type, known)]:
                return entry
        return None


_whole = _Whole()


def checked(row: Line) -> Entry:
    """An entry that is whole in itself: its hash, its signature, and the columns that repeat its body."""
    if _whole.get(tuple(row)) is not None:
        return Entry(row.position, row.kind, json.loads(row.body), row.previous, row.hash, row.signature)
    entry = entry_of(row)
    wrong = fault(entry, row.body)
    if (row.name, row.reservation) != (entry.body.get("name"), entry.body.get("reservation")):
        wrong = wrong or "its name or reservation column differs from its body"
    if wrong is not None:
        raise tampered(entry.position, wrong)
    _whole.add(tuple(row))
    return entry
