"""The tables, the same for SQLite and PostgreSQL.

`name` and `reservation` repeat what stands in the body, so that they can be looked up and be unique.
`verify` checks that they agree.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)

# 1  oboro 0.1
# 2  a SQLite ledger commits into its file, and its first page says how long it is; the chain says which schema it is
VERSION = 2

metadata = MetaData()
_Position = BigInteger().with_variant(Integer, "sqlite")

# One row. It says what the file is, and on PostgreSQL it is the lock that writers take turns with.
about = Table(
    "oboro_ledger",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("schema", Integer, nullable=False),
    Column("id", Text, nullable=False),
)

entries = Table(
    "oboro_entries",
    metadata,
    Column("position", _Position, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("signature", Text, nullable=False),
    Column("name", Text, unique=True),
    Column("reservation", _Position, ForeignKey("oboro_entries.position"), unique=True),
)

# What was released, in pieces, under the position of its reservation.
parts = Table(
    "oboro_parts",
    metadata,
    Column(
        "reservation", _Position, ForeignKey("oboro_entries.position"), primary_key=True, autoincrement=False
    ),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

_REFUSAL = "a ledger is append-only"


def _run(target: Table | MetaData, when: str, dialect: str, statement: str) -> None:
    event.listen(target, when, DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]


def _trigger(table: Table, action: str) -> str:
    return (
        f"CREATE TRIGGER {table.name}_no_{action.lower()} BEFORE {action} ON {table.name} "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    )


# Against mistakes, not against an attacker: whoever can write to the file can also drop a trigger.
for _table in (about, entries, parts):
    for _action in ("UPDATE", "DELETE"):
        _run(_table, "after_create", "sqlite", _trigger(_table, _action))
    _run(
        _table,
        "after_create",
        "postgresql",
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {_table.name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION oboro_append_only()",
    )
_run(
    metadata,
    "before_create",
    "postgresql",
    "CREATE OR REPLACE FUNCTION oboro_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$",
)


def state(connection: Connection, version: int) -> None:
    """Changes the one thing that ever changes: which schema the ledger is of."""
    sqlite = connection.dialect.name == "sqlite"
    before = (
        f"DROP TRIGGER {about.name}_no_update"
        if sqlite
        else f"ALTER TABLE {about.name} DISABLE TRIGGER append_only"
    )
    after = _trigger(about, "UPDATE") if sqlite else f"ALTER TABLE {about.name} ENABLE TRIGGER append_only"
    connection.exec_driver_sql(before)
    connection.execute(about.update().values(schema=version))
    connection.exec_driver_sql(after)
