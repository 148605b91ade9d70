"""Reservations with their commits, a second, at full durability: beside what the disk itself takes for a transaction.

By the clock, for here it is the disk that counts, and in the same run and folder a plain SQLite transaction with the same
settings, which keeps a row as large: its speed is the most that any ledger in such a file can have. Each answer is two
transactions, a reservation and a commit, and where many wait they share transactions. The target is in answers a second: 100 of one
thread, 300 of many. A disk with fewer than 200 such transactions a second cannot give the first, whoever asks: so the rows without a target say
how many there were. Their `ratio` is answers a second over half the plain transactions a second: 1 where nothing but the disk is waited for.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import oboro as ob
from bench.measure import Row

SECONDS = 5.0
THREADS = 16
PLAN: dict[str, object] = {"kind": "bench", "words": "x" * 1000}
UNIT = ob.Unit.row()


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        ledger = ob.Ledger.create(folder / "bench.ledger", dataset="bench", unit=UNIT, budget=ob.Pure(10**6))

        def answer() -> None:
            reserved = ledger.reserve(plan=PLAN, unit=UNIT, guarantee=ob.Pure("0.01"))
            ledger.commit(reserved, b"y" * 1000, facts={"rows": 1})

        plain = plain_transaction(folder / "plain.db")
        for threads, wanted in ((1, 100), (THREADS, 300)):
            # by turns, for a disk has its moods
            disk, ours = [], []
            for _ in range(3):
                disk.append(_rate(plain, 1))
                ours.append(_rate(answer, threads))
            most, found = max(disk), max(ours)
            what = f"ledger: answers a second, {threads} thread{'s' if threads > 1 else ''}"
            yield Row(what, found, "what is wanted of a quick disk", wanted, "1/s", found / wanted, 1)
            yield Row(what, found, "half the plain transactions", most / 2, "1/s", found / (most / 2))
        ledger.verify()


def plain_transaction(path: Path) -> Callable[[], None]:
    """A transaction of SQLite alone: as durable, with a row as large as an entry."""
    driver = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "fullfsync = ON"):
        driver.execute(f"PRAGMA {pragma}")
    driver.execute("CREATE TABLE entries (position INTEGER PRIMARY KEY, body TEXT)")

    def transaction() -> None:
        driver.execute("BEGIN IMMEDIATE")
        driver.execute("INSERT INTO entries (body) VALUES (?)", ("x" * 2000,))
        driver.execute("COMMIT")

    return transaction


def _rate(work: Callable[[], None], threads: int) -> float:
    """How often a second, by so many threads at once."""
    work()
    end, done = time.perf_counter() + SECONDS / 3, [0] * threads

    def repeat(place: int) -> None:
        while time.perf_counter() < end:
            work()
            done[place] += 1

    start = time.perf_counter()
    workers = [threading.Thread(target=repeat, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - start)
