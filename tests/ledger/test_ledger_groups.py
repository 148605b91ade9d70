"""Threads that wait for a SQLite ledger are written down together, and each for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ledger_help import assert_sound, spend

from oboro.errors import BudgetError, LedgerError
from oboro.ledger import Ledger
from oboro.ledger.database import Database
from oboro.ledger.file import Progress
from oboro.payment import NOTHING_RECORDED, PERHAPS_RECORDED
from oboro.privacy import Pure, Unit

THREADS = 8


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "city.ledger", dataset="city", unit=Unit.row(), budget=Pure(10))


@contextmanager
def waiting(ledger: Ledger, work: Callable[[], Any]) -> Iterator[list[Future[Any]]]:
    """Threads that all wait for their turn, which comes when the block ends."""
    database = ledger._database
    with ThreadPoolExecutor(THREADS) as pool, database._in_turn():
        futures = [pool.submit(work) for _ in range(THREADS)]
        while len(database._jobs) < THREADS:
            time.sleep(0.001)
        yield futures


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries stood there when each transaction that writes was done."""
    found: list[int] = []
    writing = Database.writing

    @contextmanager
    def counted(self: Database, *args: Any) -> Iterator[Any]:
        with writing(self, *args) as connection:
            yield connection
            found.append(int(connection.one("SELECT count(*) FROM oboro_entries")))

    monkeypatch.setattr(Database, "writing", counted)
    return found


def test_who_waits_together_is_written_down_together(ledger: Ledger, transactions: list[int]) -> None:
    with waiting(ledger, lambda: spend(ledger, "1/7")) as futures:
        pass
    assert {future.result().position for future in futures} == set(range(1, THREADS + 1))
    assert transactions == [THREADS + 1]
    assert ledger.spent == Pure("8/7")
    assert_sound(ledger)


def test_a_commit_beside_others_stores_its_own(ledger: Ledger, transactions: list[int]) -> None:
    reserved = iter([spend(ledger, "1/7") for _ in range(THREADS)])
    transactions.clear()
    turn = threading.Lock()

    def commit() -> tuple[int, bytes]:
        with turn:
            reservation = next(reserved)
        content = str(reservation.position).encode()
        ledger.commit(reservation, content, facts={})
        return reservation.position, content

    with waiting(ledger, commit) as futures:
        pass
    assert len(transactions) == 1
    for position, content in (future.result() for future in futures):
        stored = ledger.find_entry(position)
        assert stored is not None
        assert stored.content() == content
    assert_sound(ledger)


def test_one_that_is_refused_leaves_nothing_and_harms_nobody(ledger: Ledger, transactions: list[int]) -> None:
    with waiting(ledger, lambda: spend(ledger, "3/2")) as futures:  # six of eight fit into ten
        pass
    errors = [future.exception() for future in futures]
    assert sorted(type(error).__name__ for error in errors if error is not None) == ["BudgetError"] * 2
    assert transactions == [7]
    assert ledger.spent == Pure(9)
    assert isinstance(next(error for error in errors if error is not None), BudgetError)
    assert_sound(ledger)


def test_a_shared_transaction_that_fails_is_tried_by_each_alone(
    ledger: Ledger, transactions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fault is of the last of the group, when all before it have been written."""
    original, calls = Ledger._turn, []

    def turn(self: Ledger, connection: Any, **options: bool) -> Any:
        calls.append(1)
        if len(calls) == THREADS:
            raise OSError("something else")
        return original(self, connection, **options)

    monkeypatch.setattr(Ledger, "_turn", turn)
    with waiting(ledger, lambda: spend(ledger, "1/7")) as futures:
        pass
    assert [future.exception() for future in futures] == [None] * THREADS
    assert transactions == list(range(2, THREADS + 2))
    assert_sound(ledger)
    assert ledger.spent == Pure("8/7")  # and this process believes what is there, not what was undone


def test_after_a_doubt_everyone_is_told_of_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Database._check_file

    def moved(self: Database, progress: Progress) -> None:
        if PERHAPS_RECORDED in progress.outcome:
            raise LedgerError("the file was moved." + progress.outcome)
        check(self, progress)

    monkeypatch.setattr(Database, "_check_file", moved)
    with waiting(ledger, lambda: spend(ledger, "1/7")) as futures:
        pass
    for future in futures:
        error = future.exception()
        assert isinstance(error, LedgerError)
        assert PERHAPS_RECORDED in str(error)
        assert NOTHING_RECORDED not in str(error)
    assert ledger.spent == Pure("8/7")  # once each, not twice


def test_who_is_interrupted_while_waiting_is_not_written_down(ledger: Ledger) -> None:
    database = ledger._database

    class Interrupted(BaseException):
        pass

    @contextmanager
    def interrupted() -> Iterator[None]:
        raise Interrupted
        yield

    original, database._in_turn = database._in_turn, interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        spend(ledger, 1)
    database._in_turn = original  # type: ignore[method-assign]
    spend(ledger, 2)
    assert ledger.spent == Pure(2)
