"""What only a server can do: lose a connection in the middle, or be set up in its own way."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_help import assert_sound, spend

from oboro.errors import LedgerError
from oboro.ledger import Ledger, database, records
from oboro.ledger.database import Connection
from oboro.privacy import Pure, Unit

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def ledger(postgres: str) -> Ledger:
    return Ledger.create(postgres, dataset="x", unit=Unit.row(), budget=Pure(50))


def end_backend_of(connection: Connection, server: str) -> None:
    """The server drops this connection, as when it restarts or a cable is cut."""
    backend = connection.one("SELECT pg_backend_pid()")
    with psycopg.connect(server, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 60000)", (backend,))


def test_a_connection_lost_while_idle_is_not_even_noticed(ledger: Ledger, postgres_server: str) -> None:
    spend(ledger, "1/7")
    with ledger._database.reading() as connection:
        backend = connection.one("SELECT pg_backend_pid()")
    with psycopg.connect(postgres_server, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 60000)", (backend,))
    spend(ledger, "1/7")
    assert_sound(ledger)


def test_a_connection_lost_before_the_entry_is_written_spends_nothing(
    ledger: Ledger, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.append

    def lose_then_append(connection: Connection, *rest: Any, **more: Any) -> Any:
        end_backend_of(connection, postgres_server)
        return real(connection, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(records, "append", lose_then_append)
        with pytest.raises(LedgerError, match=r"lost\. Nothing was recorded"):
            spend(ledger, "1/7", "first")
    assert ledger.find("first") is None
    spend(ledger, "1/7", "first")
    assert_sound(ledger)


def test_a_connection_lost_at_the_commit_leaves_a_doubt_and_says_so(
    ledger: Ledger, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.append

    def append_then_lose(connection: Connection, *rest: Any, **more: Any) -> Any:
        entry = real(connection, *rest, **more)
        end_backend_of(connection, postgres_server)
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(records, "append", append_then_lose)
        with pytest.raises(LedgerError, match=r"lost\. It may have been recorded"):
            spend(ledger, "1/7")
    assert_sound(ledger)


def test_a_connection_lost_while_content_is_stored_leaves_nothing_of_it(
    ledger: Ledger, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.write_parts

    def write_then_lose(connection: Connection, *rest: Any) -> None:
        real(connection, *rest)
        end_backend_of(connection, postgres_server)

    reservation = spend(ledger, "1/7", "first")
    with monkeypatch.context() as patch:
        patch.setattr(records, "write_parts", write_then_lose)
        with pytest.raises(LedgerError, match="lost"):
            ledger.commit(reservation, b"x" * 10_000_000, facts={})
    assert_sound(ledger)
    ledger.commit(reservation, b"x" * 10_000_000, facts={})
    assert ledger.verify().contents == 1


def test_a_rotation_lost_at_the_commit_keeps_a_key_that_works(
    ledger: Ledger, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.append

    def append_then_lose(connection: Connection, *rest: Any, **more: Any) -> Any:
        entry = real(connection, *rest, **more)
        end_backend_of(connection, postgres_server)
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(records, "append", append_then_lose)
        with pytest.raises(LedgerError, match="lost"):
            ledger.rotate_key()
    spend(ledger, "1/7")
    ledger.rotate_key()
    assert_sound(ledger)


def test_a_lock_that_another_keeps(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 2)
    ledger = Ledger.create(postgres, dataset="x", unit=Unit.row(), budget=Pure(1))
    with psycopg.connect(postgres) as other:
        other.execute("SELECT 1 FROM oboro_ledger FOR UPDATE")
        with pytest.raises(LedgerError, match=r"busy.*Nothing was recorded"):
            spend(ledger, "0.1")
        assert ledger.spent == Pure(0)
    spend(ledger, "0.1")


def test_settings_of_the_server_do_not_weaken_the_ledger(postgres: str) -> None:
    careless = f"{postgres}%20-csynchronous_commit%3Doff%20-cdefault_transaction_isolation%3Dserializable"
    ledger = Ledger.create(careless, dataset="x", unit=Unit.row(), budget=Pure(1))
    with ledger._database.writing() as connection:
        assert connection.one("SHOW synchronous_commit") == "on"
        assert connection.one("SHOW transaction_isolation") == "read committed"
    spend(ledger, "0.1")
    assert_sound(ledger)


@pytest.mark.parametrize(
    "statement", ["UPDATE oboro_entries SET body = ''", "DELETE FROM oboro_entries", "TRUNCATE oboro_parts"]
)
def test_a_slip_of_the_hand_is_refused_by_the_server(ledger: Ledger, postgres: str, statement: str) -> None:
    with (
        psycopg.connect(postgres) as other,
        pytest.raises(psycopg.errors.RaiseException, match="append-only"),
    ):
        other.execute(statement)
    assert_sound(ledger)


def test_a_database_without_a_ledger(postgres: str) -> None:
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(postgres)


def test_the_password_is_not_shown(postgres: str) -> None:
    url = postgres.replace("postgres:@", "postgres:s3cret@")
    ledger = Ledger.create(url, dataset="x", unit=Unit.row(), budget=Pure(1))
    assert "s3cret" not in f"{ledger!r} {ledger.where}"
    assert ledger.where.startswith("postgresql://postgres@")
