"""A database that an earlier oboro made is opened by this one: nobody loses a token, a question or an answer."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from service_town import DATASET, MEAN, Town, closed, made, opened

from oboro.errors import LedgerError
from oboro.ledger import Ledger
from oboro.service import database as schema
from oboro.service.database import Database

# as they were before versions were written down
EARLIER = (
    "CREATE TABLE people (name TEXT NOT NULL, role TEXT NOT NULL, password TEXT, since BIGINT NOT NULL, PRIMARY KEY (name))",
    "CREATE TABLE tokens (id TEXT NOT NULL, person TEXT NOT NULL, hash {bytes} NOT NULL, since BIGINT NOT NULL, until BIGINT, revoked BIGINT, PRIMARY KEY (id))",
    "CREATE TABLE jobs (id TEXT NOT NULL, dataset TEXT NOT NULL, account TEXT NOT NULL, question TEXT NOT NULL, plan TEXT NOT NULL, digest TEXT NOT NULL, "
    "state TEXT NOT NULL, cost TEXT NOT NULL, kind TEXT NOT NULL, size BIGINT NOT NULL, asked BIGINT NOT NULL, due BIGINT, slot BIGINT, leaves BIGINT, "
    "reservation TEXT, entry BIGINT, worker TEXT, beat BIGINT, answer {bytes}, leader TEXT, by TEXT, why TEXT, PRIMARY KEY (id))",
    "CREATE INDEX jobs_state ON jobs (state, due)",
    "CREATE UNIQUE INDEX jobs_once ON jobs (dataset, digest, account) WHERE state IN ('asked', 'waiting', 'admitted', 'running', 'done', 'follows')",
    "CREATE TABLE keys (account TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, job TEXT NOT NULL, since BIGINT NOT NULL, PRIMARY KEY (account, key))",
    "CREATE TABLE lanes (number INTEGER NOT NULL, free BIGINT NOT NULL, PRIMARY KEY (number))",
    "CREATE TABLE slots (dataset TEXT NOT NULL, kind TEXT NOT NULL, size BIGINT NOT NULL, work BIGINT NOT NULL, slot BIGINT NOT NULL, PRIMARY KEY (dataset, kind, size))",
    "CREATE TABLE alerts (number {serial}, time BIGINT NOT NULL, job TEXT, words TEXT NOT NULL, PRIMARY KEY (number))",
)
KINDS = {
    "sqlite": {"bytes": "BLOB", "serial": "INTEGER NOT NULL"},
    "postgresql": {"bytes": "BYTEA", "serial": "BIGSERIAL NOT NULL"},
}
TABLES = ("people", "tokens", "jobs", "keys", "lanes", "slots", "alerts")


def columns(store: Database) -> dict[str, dict[str, tuple[bool, str]]]:
    """Of each table its columns: whether they may be empty, and of which kind they are as SQLAlchemy reads them."""
    kinds = {"BIGINT": "INTEGER"} if store.sqlite else {}  # SQLite has one kind of whole number
    there, own = sa.inspect(store.engine), None if store.sqlite else schema.SCHEMA
    return {
        name: {
            one["name"]: (bool(one["nullable"]), kinds.get(str(one["type"]), str(one["type"])))
            for one in there.get_columns(name, schema=own)
        }
        for name in there.get_table_names(schema=own)
    }


def put_back(store: Database) -> None:
    """The same database as an earlier oboro had it."""
    own = "" if store.sqlite else f"{schema.SCHEMA}."
    with store.writing() as connection:
        rows = {
            name: list(connection.exec_driver_sql(f"SELECT * FROM {own}{name}").mappings()) for name in TABLES
        }
        for name in (*TABLES, "version"):
            connection.exec_driver_sql(f"DROP TABLE {own}{name}")
        for line in EARLIER:
            connection.exec_driver_sql(line.format(**KINDS[connection.dialect.name]))
        for name, found in rows.items():
            known = sa.Table(name, sa.MetaData(), autoload_with=connection)
            own_numbers = {"number"} if name == "alerts" else set()  # the database counts them
            for row in sorted(found, key=lambda row: row["number"]) if own_numbers else found:
                values = {
                    key: value for key, value in row.items() if key in known.c and key not in own_numbers
                }
                connection.execute(known.insert().values(values))


def goes_on(folder: Path, ledger: str = "people.ledger", database: str = "service.db") -> None:
    settings, tokens = made(folder, approve_above="0.3", ledger=ledger, database=database)
    fresh = Database(settings.database)
    expected = columns(fresh)
    fresh.close()
    found = opened(settings, tokens)
    answered, waiting = found.answered(), found.ask({**MEAN, "eps": "0.4"}).json()
    alert = found.send("GET", "/v1/alerts", "anna").json()
    put_back(found.desk.database)
    assert columns(found.desk.database) != expected
    closed(found)

    found = opened(settings, tokens)
    assert columns(found.desk.database) == expected
    assert found.ask().json()["answer"] == answered["answer"]  # with the token of then
    assert found.send("GET", "/v1/alerts", "anna").json() == alert
    assert found.send("POST", f"/v1/questions/{waiting['id']}/approve", "anna").json()["state"] == "pending"
    assert found.wait(waiting["id"])["state"] == "done"
    made_by(found)
    closed(found)
    again = opened(settings, tokens)  # what is up is left as it is
    assert columns(again.desk.database) == expected
    closed(again)
    with Ledger.open(settings.datasets[0].ledger) as chain:
        chain.verify()


def made_by(found: Town) -> None:
    """A token takes along what it made: the column that the earlier tables had not."""
    first = found.send("POST", "/v1/tokens", "lab-3", {"name": "lab-3"}).json()
    second = found.send("POST", "/v1/tokens", first["token"], {"name": "lab-3"}).json()["token"]
    assert found.send("DELETE", f"/v1/tokens/{first['id']}").status_code == 204
    assert found.send("GET", "/v1/datasets", second).status_code == 401


@pytest.mark.long("promises of a service")
def test_a_file_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    goes_on(tmp_path / "here")


def four_eyes(folder: Path, ledger: str = "people.ledger", database: str = "service.db") -> None:
    """Tokens of the version before, which knew who made them: whoever did approves nothing that is asked with them."""
    settings, tokens = made(folder, approve_above="0.3", ledger=ledger, database=database)
    found = opened(settings, tokens)
    theirs = found.send("POST", "/v1/tokens", "anna", {"name": "lab-3"}).json()["token"]
    further = found.send("POST", "/v1/tokens", theirs, {"name": "lab-3"}).json()["token"]
    store = found.desk.database
    own = "" if store.sqlite else f"{schema.SCHEMA}."
    with store.writing() as connection:
        for table, column in (("people", "password_by"), ("tokens", '"by"'), ("jobs", "through")):
            connection.exec_driver_sql(f"ALTER TABLE {own}{table} DROP COLUMN {column}")
        connection.exec_driver_sql(f"UPDATE {own}version SET number = 2")
    closed(found)
    found = opened(settings, tokens)
    for eps, token, status in (("0.4", theirs, 422), ("0.5", further, 422), ("0.6", None, 200)):
        asked = found.ask({**MEAN, "eps": eps}, token or "lab-3").json()["id"]
        assert found.send("POST", f"/v1/questions/{asked}/approve", "anna").status_code == status, eps
    closed(found)


def test_who_made_a_token_of_the_version_before_is_known(tmp_path: Path) -> None:
    four_eyes(tmp_path / "here")


@pytest.mark.long("services as processes")
def test_who_made_a_token_is_known_to_a_postgresql_too(
    tmp_path: Path, postgres: str, postgres_url: str
) -> None:
    four_eyes(tmp_path / "here", postgres, postgres_url)


@pytest.mark.long("services as processes")
def test_a_postgresql_of_an_earlier_version_goes_on(tmp_path: Path, postgres: str, postgres_url: str) -> None:
    goes_on(tmp_path / "here", postgres, postgres_url)


def test_what_a_newer_oboro_made_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    Database(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE version SET number = 99")
    with pytest.raises(LedgerError, match="newer oboro"):
        Database(str(path))


def test_what_is_no_database_of_a_service_is_left_alone(tmp_path: Path) -> None:
    settings, _ = made(tmp_path / "here")
    before = Path(settings.datasets[0].ledger).read_bytes()
    with pytest.raises(LedgerError, match="no database of a service"):
        Database(settings.datasets[0].ledger)
    assert Path(settings.datasets[0].ledger).read_bytes() == before
    with Ledger.open(settings.datasets[0].ledger) as chain:
        assert chain.dataset == DATASET


def test_every_version_has_its_step() -> None:
    assert list(schema.STEPS) == list(range(2, schema.VERSION + 1))
