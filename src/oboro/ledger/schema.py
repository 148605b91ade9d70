"""The tables of a ledger, the same for SQLite and PostgreSQL but for the names of types.

`name` and `reservation` repeat what stands in the body, so that they can be looked up and be unique. `verify` checks that
they agree.
"""

from __future__ import annotations

from oboro.ledger.database import Connection

# 1  oboro 0.1
# 2  a SQLite ledger commits into its file, and its first page says how long it is; the chain says which schema it is
# 3  accounts and periods: entries are found by what is in `oboro_lookups`, and their times never go back
VERSION = 3

# `oboro_ledger` has one row. It says what the file is, and on PostgreSQL it is the lock that writers take turns with.
# `oboro_parts` holds what was released, in pieces, under the position of its reservation.
TABLES = {
    "oboro_ledger": """
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        schema INTEGER NOT NULL,
        id TEXT NOT NULL""",
    "oboro_entries": """
        position {whole} NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        signature TEXT NOT NULL,
        name TEXT UNIQUE,
        reservation {whole} UNIQUE REFERENCES oboro_entries (position)""",
    "oboro_lookups": """
        key TEXT NOT NULL,
        position {whole} NOT NULL REFERENCES oboro_entries (position),
        PRIMARY KEY (key, position)""",
    "oboro_parts": """
        reservation {whole} NOT NULL REFERENCES oboro_entries (position),
        part INTEGER NOT NULL,
        data {bytes} NOT NULL,
        PRIMARY KEY (reservation, part)""",
}
COLUMNS = {
    "oboro_ledger": ("one", "schema", "id"),
    "oboro_entries": (
        "position",
        "kind",
        "body",
        "previous",
        "hash",
        "signature",
        "name",
        "reservation",
    ),
    "oboro_lookups": ("key", "position"),
    "oboro_parts": ("reservation", "part", "data"),
}
_REFUSAL = "a ledger is append-only"
_ACTIONS = ("UPDATE", "DELETE")


def create(connection: Connection, ledger_id: str, version: int = VERSION) -> None:
    """Makes the tables, in a transaction that someone else began, and says what they are."""
    if not connection.sqlite:
        connection.run(
            "CREATE OR REPLACE FUNCTION oboro_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
        )
    for table in tables_of(version):
        _make(connection, table)
    insert(connection, "oboro_ledger", one=1, schema=version, id=ledger_id)


def tables_of(version: int) -> list[str]:
    """The tables that a ledger of this schema has, in the order in which one leads to another."""
    return [table for table in TABLES if version > 2 or table != "oboro_lookups"]


def _make(connection: Connection, table: str) -> None:
    types = (
        {"whole": "INTEGER", "bytes": "BLOB"} if connection.sqlite else {"whole": "BIGINT", "bytes": "BYTEA"}
    )
    connection.run(f"CREATE TABLE {table} ({TABLES[table].format(**types)})")
    _guard(connection, table)


def _guard(connection: Connection, table: str) -> None:
    """Against mistakes, not against an attacker: whoever can write to the file can also drop a trigger."""
    if connection.sqlite:
        for action in _ACTIONS:
            connection.run(_trigger(table, action))
    else:
        connection.run(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION oboro_append_only()"
        )


def _trigger(table: str, action: str) -> str:
    return (
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    )


def insert(connection: Connection, table: str, **values: object) -> None:
    """Adds a row."""
    connection.run(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)})",
        **values,
    )


def found(connection: Connection) -> list[str]:
    """The names of the tables that are there, whoever made them."""
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if connection.sqlite
        else "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)"
    )
    return [name for (name,) in connection.rows(names)]


def state(connection: Connection, version: int) -> None:
    """Changes the one thing that ever changes: which schema the ledger is of. Tables that it lacks are made."""
    if "oboro_lookups" in tables_of(version) and "oboro_lookups" not in found(connection):
        _make(connection, "oboro_lookups")
    connection.run(
        "DROP TRIGGER oboro_ledger_no_update"
        if connection.sqlite
        else "ALTER TABLE oboro_ledger DISABLE TRIGGER append_only"
    )
    connection.run("UPDATE oboro_ledger SET schema = :version", version=version)
    connection.schema = None
    connection.run(
        _trigger("oboro_ledger", "UPDATE")
        if connection.sqlite
        else "ALTER TABLE oboro_ledger ENABLE TRIGGER append_only"
    )
