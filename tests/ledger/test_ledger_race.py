"""Many at once: the sum granted never exceeds the budget."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledger_help import assert_sound, spend

from kills import collect, in_child
from oboro.errors import BudgetError, LedgerError, NameTakenError
from oboro.ledger import Ledger
from oboro.privacy import Approx, Pure, Unit

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
Create = Callable[..., Ledger]


def grab(ledger: Ledger, share: str) -> int:
    """Takes shares until none is left; how many it got."""
    got = 0
    while True:
        try:
            reservation = spend(ledger, share)
        except BudgetError:
            return got
        got += 1
        if got % 3 == 0:
            ledger.commit(reservation, b"x" * 1000, facts={})


def test_threads_that_share_a_ledger_share_its_budget(create: Create) -> None:
    ledger = create(Pure(9))
    with ThreadPoolExecutor(8) as pool:
        granted = sum(pool.map(lambda _: grab(ledger, "1/7"), range(8)))
    assert granted == 63
    assert ledger.spent == Pure(9)
    assert_sound(ledger)


@needs_fork
def test_processes_that_share_a_ledger_share_its_budget(create: Create, where: str) -> None:
    create(Approx(10, "1e-6")).close()

    def work(pipe: int) -> None:
        os.write(pipe, str(grab(Ledger.open(where), "1/7")).encode())

    children = [in_child(work) for _ in range(8)]
    results = [collect(*child) for child in children]
    assert [code for code, _ in results] == [0] * 8
    assert sum(int(report) for _, report in results) == 70
    ledger = Ledger.open(where)
    assert ledger.spent == Approx(10, 0)
    assert_sound(ledger)


@needs_fork
def test_one_of_many_gets_a_name(create: Create, where: str) -> None:
    create().close()

    def work(pipe: int) -> None:
        ledger = Ledger.open(where)
        for name in "abcde":
            try:
                spend(ledger, "0.1", name)
                os.write(pipe, name.encode())
            except NameTakenError:
                pass

    children = [in_child(work) for _ in range(6)]
    names = b"".join(collect(*child)[1] for child in children)
    assert sorted(names.decode()) == list("abcde")
    ledger = Ledger.open(where)
    assert ledger.spent == Pure("0.5")
    assert_sound(ledger)


@needs_fork
def test_one_of_many_creates_the_ledger(where: str) -> None:
    def work(pipe: int) -> None:
        try:
            Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(1))
            os.write(pipe, b"made\n")
        except LedgerError as error:
            os.write(pipe, b"exists\n" if "exists" in error.message else str(error).encode())

    children = [in_child(work) for _ in range(6)]
    results = [collect(*child) for child in children]
    assert sorted(b"".join(report for _, report in results).split()) == [b"exists"] * 5 + [b"made"]
    ledger = Ledger.open(where)
    spend(ledger, "0.5")
    assert_sound(ledger)


@needs_fork
def test_rotations_at_once_lose_no_key(create: Create, where: str) -> None:
    create(Pure(50)).close()

    def work(_: int) -> None:
        ledger = Ledger.open(where)
        for _i in range(10):
            ledger.rotate_key()
            spend(ledger, "1/7")

    children = [in_child(work) for _ in range(4)]
    assert [collect(*child)[0] for child in children] == [0] * 4
    ledger = Ledger.open(where)
    assert len(ledger.keys()) == 41
    spend(ledger, "1/7")
    assert_sound(ledger)


@needs_fork
def test_a_child_uses_the_ledger_of_its_parent(create: Create) -> None:
    ledger = create(Pure(50))
    spend(ledger, "1/7")

    def work(_: int) -> None:
        for _i in range(5):
            spend(ledger, "1/7")

    children = [in_child(work) for _ in range(3)]
    for _ in range(5):
        spend(ledger, "1/7")
    assert [collect(*child)[0] for child in children] == [0] * 3
    assert ledger.verify().reservations == 21
    assert_sound(ledger)


@needs_fork
def test_a_fork_in_the_middle_of_the_work_of_other_threads(create: Create, tmp_path: Path) -> None:
    ledger = create(Pure(10**6))
    stop = threading.Event()
    counts: list[int] = []

    def busy(work: Callable[[int], object]) -> None:
        done = 0
        while done == 0 or not stop.is_set():
            work(done)
            done += 1
        counts.append(done)

    def two_more(_: int) -> None:
        spend(ledger, "1/7")
        spend(ledger, "1/7")

    threads = [threading.Thread(target=busy, args=(lambda _: spend(ledger, "1/7"),)) for _ in range(2)]
    threads.append(
        threading.Thread(target=busy, args=(lambda done: ledger.backup(tmp_path / f"{done}.backup"),))
    )
    for thread in threads:
        thread.start()
    try:
        assert [collect(*in_child(two_more))[0] for _ in range(8)] == [0] * 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    backups = len(list(tmp_path.glob("*.backup")))
    assert len(counts) == 3
    assert ledger.verify().reservations == sum(counts) - backups + 16
    assert Ledger.open(tmp_path / f"{backups - 1}.backup").verify()
    assert_sound(ledger)


@needs_fork
def test_a_child_that_outlives_its_parent_shares_the_file_with_strangers(tmp_path: Path) -> None:
    """SQLite's locks are those of the process that opened the file; a child must not live on inherited ones."""
    path = tmp_path / "city.ledger"

    def parent(pipe: int) -> None:
        ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(50))
        spend(ledger, "1/7")
        os.set_inheritable(pipe, True)
        for _ in range(2):
            if os.fork() == 0:
                for _i in range(40):
                    spend(ledger, "1/7")
                os.write(pipe, b"done\n")
                os._exit(0)

    child, reading = in_child(parent)
    os.waitpid(child, 0)
    for _ in range(40):
        with Ledger.open(path) as stranger:  # the last to close a file tidies up after everybody
            spend(stranger, "1/7")
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"done\n" * 2
    ledger = Ledger.open(path)
    assert ledger.verify().reservations == 1 + 3 * 40
    assert_sound(ledger)
