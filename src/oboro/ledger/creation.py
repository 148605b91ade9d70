"""Making a ledger, recognising one, and upgrading one of an older oboro.

A ledger is made in one transaction, on either database: a creation that is killed leaves nothing behind
but perhaps an empty file and a key, and both are taken up when it is tried again. Of two who create the
same ledger at once, one wins and the other is told that it exists.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, select, text

from oboro._version import __version__
from oboro.errors import LedgerError, ParameterError, setting
from oboro.ledger import currency, keys, records, schema
from oboro.ledger.chain import Entry
from oboro.ledger.database import Database
from oboro.ledger.place import Place
from oboro.privacy import Guarantee, Unit

_CREATING = 0x6F626F726F  # the advisory lock that creators on one PostgreSQL database take turns with


def create(
    place: Place, *, dataset: str, unit: Unit, budget: Guarantee, key: str | os.PathLike[str] | None
) -> tuple[Database, Path, Entry]:
    """A new ledger with its first entry."""
    printable("dataset", dataset)
    if not isinstance(unit, Unit):
        raise ParameterError(
            "unit is not a unit",
            given=repr(unit)[:80],
            needed="who is protected",
            fix=setting(unit=Unit.row()),
        )
    currency.checked_budget(budget)
    if place.path is not None and not place.path.parent.is_dir():
        raise LedgerError("the folder does not exist", given=place.shown, fix=f"mkdir -p {place.path.parent}")
    ledger_id = uuid.uuid4().hex
    key_path = place.key_path(ledger_id, key)
    database = Database(place, create=True)
    with database.writing() as connection:
        _claim(connection, place)
        schema.metadata.create_all(connection)
        connection.execute(schema.about.insert().values(one=1, schema=schema.VERSION, id=ledger_id))
        private = keys.ensure(key_path)  # on disk before the entry that names it
        facts = {
            "id": ledger_id,
            "schema": schema.VERSION,
            "dataset": dataset,
            "unit": unit.to_dict(),
            "budget": budget.to_dict(),
            "spent": currency.nothing(budget).to_dict(),
            "key": keys.public_half(private),
        }
        first = records.append(connection, None, "create", facts, private)
    return database, key_path, first


def recognise(place: Place) -> tuple[Database, Entry]:
    """An existing ledger and its first entry. Refuses what is not a ledger, or is from a newer oboro."""
    if place.path is not None and not place.path.exists():
        raise LedgerError(
            "there is no ledger here",
            given=place.shown,
            fix=f"oboro ledger create {place.shown} --dataset TEXT --unit UNIT --eps NUMBER",
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
    database.end_log()
    return database, first


def schema_of(connection: Connection, place: Place) -> int:
    """The schema of a ledger, if this version of oboro knows it."""
    version = connection.scalar(select(schema.about.c.schema)) or 0
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
            fix=f"oboro ledger upgrade {place.shown}",
        )


def upgrade_facts(connection: Connection, place: Place) -> dict[str, Any]:
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
    """A text that people can read, type and tell apart."""
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= 200
        or not value.isprintable()
        or not value.strip()
    ):
        raise ParameterError(
            f"{name} cannot be used",
            given=f"{name}={value!r}"[:80],
            needed="1 to 200 printable characters",
            fix=setting(**{name: "city 2026"}),
        )
    return value


def _claim(connection: Connection, place: Place) -> None:
    """Makes sure that nothing is there yet, and that no other creator is at work."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATING})
    if _has_ledger(connection):
        raise LedgerError(
            "the ledger exists already",
            given=place.shown,
            needed="a new place",
            fix=f"oboro ledger show {place.shown}",
        )
    if connection.dialect.name == "sqlite" and inspect(connection).get_table_names():
        raise LedgerError("the file is a database of something else", given=place.shown, fix='"a new path"')


def _has_ledger(connection: Connection) -> bool:
    return inspect(connection).has_table(schema.about.name)
