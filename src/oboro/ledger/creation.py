"""How a ledger comes into being, is recognised, and is upgraded from an older oboro."""

from __future__ import annotations

import os
import shlex
import unicodedata
import uuid
from pathlib import Path

from oboro._version import __version__
from oboro.errors import LedgerError, ParameterError, setting, told
from oboro.kinds import shown
from oboro.language import plain, without_password
from oboro.ledger import keys, periods, records, replay, schema
from oboro.ledger.chain import Entry
from oboro.ledger.database import Connection, Database
from oboro.ledger.file import Place
from oboro.ledger.periods import Periods
from oboro.privacy import Guarantee, Unit
from oboro.records import Record

# A ledger is made in one transaction, on either database: a creation that is killed leaves nothing behind
# but perhaps an empty file, which is taken up when it is tried again, and a key that is of no use. Of two who
# create the same ledger at once, one wins and the other is told that it exists.

_CREATING = 0x6F626F726F  # the advisory lock that creators on one PostgreSQL database take turns with


def create(
    place: Place,
    *,
    dataset: str,
    unit: Unit,
    budget: Guarantee,
    pace: Periods | None,
    key: str | os.PathLike[str] | None,
) -> tuple[Database, Path, Entry]:
    """A new ledger with its first entry."""
    dataset = printable("dataset", dataset)
    if not isinstance(unit, Unit):
        raise ParameterError(
            "unit is not a unit",
            given=repr(unit)[:80],
            needed="who is protected",
            fix=setting(unit=Unit.row()),
        )
    replay.checked_budget(budget)
    assumed = f"{budget} {unit}"
    if without_password(assumed) != assumed:
        raise ParameterError(
            "the budget or the unit holds an address with a password",
            given="not shown: it may hold a password",
            needed="words that anybody may read: they are written down for good",
        )
    if place.path is not None and not place.path.parent.is_dir():
        raise LedgerError(
            "the folder does not exist",
            given=place.shown,
            fix=f"mkdir -p {shlex.quote(str(place.path.parent))}",
        )
    ledger_id = uuid.uuid4().hex
    key_path = place.key_path(ledger_id, key)
    if place.path is not None and not place.path.exists():
        keys.refuse_used(key_path, pending=True)  # before an empty file is there
    database = Database(place, create=True)
    with database.writing() as connection:
        _claim(connection, place)
        schema.create(connection, ledger_id)
        # on disk before the entry that names it
        private = keys.make(key_path, alone=place.path is not None and key is None)
        facts: Record = {
            "id": ledger_id,
            "schema": schema.VERSION,
            "dataset": dataset,
            "unit": unit.to_dict(),
            "budget": budget.to_dict(),
            "spent": periods.nothing(budget).to_dict(),
            "key": keys.public_half(private),
        }
        if pace is not None:
            facts |= {"periods": pace.to_dict(), "period": {"per": pace.per, "spent": facts["spent"]}}
        first = records.append(connection, None, "create", facts, private)
    keys.promote(key_path, keys.public_half(private))
    return database, key_path, first


def recognise(place: Place) -> tuple[Database, Entry]:
    """An existing ledger and its first entry. Refuses what is not a ledger, or is from a newer oboro."""
    if place.path is not None and not place.path.exists():
        raise LedgerError(
            "there is no ledger here",
            given=place.shown,
            fix=f"oboro ledger create {shlex.quote(place.shown)} --dataset TEXT --unit UNIT --eps NUMBER",
        )
    database = Database(place)
    with database.reading() as connection:
        if not _has_ledger(connection):
            raise LedgerError(
                "this is not a ledger, or its creation was cut short",
                given=place.shown,
                fix="if it is empty, a ledger can be created in it again",
            )
        schema_of(connection, place)
        first = records.first_entry(connection)
        database.saw(records.furthest(connection))
    database.end_log()
    return database, first


def schema_of(connection: Connection, place: Place) -> int:
    """The schema of a ledger, if this version of oboro knows it."""
    found = connection.schema
    if found is None:
        found = connection.one("SELECT schema FROM oboro_ledger")
        if connection.sqlite:
            connection.schema = found
    version = found if isinstance(found, int) else 0  # a cell of SQLite holds anything
    if version not in range(1, schema.VERSION + 1):
        raise LedgerError(
            "the ledger was written by a newer oboro"
            if version > schema.VERSION
            else "the ledger is damaged",
            given=f"{place.shown}: schema {version}",
            needed=f"schema {schema.VERSION}",
            fix="pip install --upgrade oboro",
        )
    return int(version)


def refuse_older(connection: Connection, place: Place) -> None:
    """Only the newest schema is written to: what this version promises of a ledger is promised of that."""
    version = schema_of(connection, place)
    if version != schema.VERSION:
        raise LedgerError(
            "the ledger is of an older oboro: it can be read, and spent from once it is upgraded",
            given=f"{place.shown}: schema {version}",
            needed=f"schema {schema.VERSION}",
            fix=f"oboro ledger upgrade {shlex.quote(place.shown)}",
        )


def upgrade_facts(connection: Connection, place: Place) -> Record:
    """What an entry says about the upgrade of a ledger to the newest schema."""
    version = schema_of(connection, place)
    if version == schema.VERSION:
        raise LedgerError(
            "there is nothing to upgrade",
            given=f"{place.shown}: schema {version}",
            needed="a ledger of an older oboro",
        )
    return {"from": version, "schema": schema.VERSION, "software": f"oboro {__version__}"}


def printable(name: str, value: str) -> str:
    """A text that people can read, type and tell apart: composed (NFC), trimmed, and all of it seen."""
    written = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not 1 <= len(written) <= 200 or plain(written) != written or without_password(written) != written:
        raise ParameterError(
            f"{name} cannot be used",
            given=told(**{name: shown(value)})
            if without_password(written) == written
            else "an address with a password",
            needed="1 to 200 characters that are seen, with one space at a time",
            fix=setting(**{name: "city 2026"}),
        )
    return written


def _claim(connection: Connection, place: Place) -> None:
    """Makes sure that nothing is there yet, and that no other creator is at work."""
    if not connection.sqlite:
        connection.one("SELECT pg_advisory_xact_lock(:key)", key=_CREATING)
        if place.schema is not None:
            connection.run(f'CREATE SCHEMA IF NOT EXISTS "{place.schema}"')
    if _has_ledger(connection):
        raise LedgerError(
            "the ledger exists already",
            given=place.shown,
            needed="a new place",
            fix=f"oboro ledger show {shlex.quote(place.shown)}",
        )
    if connection.sqlite and schema.found(connection):
        raise LedgerError("the file is a database of something else", given=place.shown, fix='"a new path"')


def _has_ledger(connection: Connection) -> bool:
    return "oboro_ledger" in schema.found(connection)
