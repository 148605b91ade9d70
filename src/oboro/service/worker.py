"""A worker: a process of its own that takes jobs and answers them. What it reads is an edition, what it draws noise with is its own.

A worker is spawned, not forked: it shares no memory, no connection and no random bits with any other.
"""

from __future__ import annotations

import heapq
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from oboro.errors import OboroError
from oboro.ledger.chain import plan_hash
from oboro.ledger.records import Reservation
from oboro.noise.bits import system_bits
from oboro.privacy import guarantee_from
from oboro.release import plan_from
from oboro.release.run import Quote, keep
from oboro.service import answers, edition, jobs
from oboro.service.calibration import rehearse
from oboro.service.database import Database, now
from oboro.service.edition import Opened
from oboro.service.settings import Settings, read_settings
from oboro.service.slots import APART, enters_from

_IDLE = 0.005, 0.05  # seconds between two looks at the table: at work, and after a while without any
_IDLE_CLERK = 500  # milliseconds between two looks at the clock, at most
_BEAT = 5.0


Enter = Callable[[], bytes | None]


def answer(opened: Opened, row: jobs.Row) -> bytes | None:
    """Runs what was reserved: prepare, measure, store, commit, sign. The answer, if it is small enough to be kept beside its job."""
    return measured(opened, row)()


def measured(opened: Opened, row: jobs.Row) -> Enter:
    """Draws what was reserved. What comes back stores it, commits and signs, and gives the answer if it is small."""
    record = json.loads(row.plan)
    kept = json.loads(row.reservation)
    cost = guarantee_from(kept["cost"])
    reservation = Reservation(kept["position"], kept["hash"], kept["name"], cost, kept["digest"])
    if plan_hash(record) != reservation.plan_hash:
        raise OboroError("the plan is not the one that was reserved")
    plan = plan_from(record)
    quote = Quote(plan, record, plan.describe(), plan.forecast(), cost)
    data = plan.open(opened.source)
    bits = system_bits()
    table = plan.publish(plan.measure(plan.prepare(data), bits))
    engine = getattr(data, "engine", None)

    def enter() -> bytes | None:
        found = answers.packed(keep(quote, opened.ledger, reservation, table, bits, engine))
        return found if len(found) <= answers.KEPT else None

    return enter


def why_of(error: Exception) -> str:
    """What the steward is told. The analyst sees one word, at the time that was said."""
    return error.message if isinstance(error, OboroError) else type(error).__name__


class Clerk:
    """Enters into the ledger what was measured, at public times.

    A certificate says when its entry was made and where it stands among the others. Were it made as soon as the work is done, an
    analyst who asks small questions meanwhile could read from the order of entries how long the work took.
    """

    def __init__(self, database: Database, worker: str) -> None:
        self.database, self.worker = database, worker
        self._held: list[tuple[int, int, str, Enter]] = []  # when, its slot, its job
        self._lock = threading.Condition()

    def take(self, row: jobs.Row, enter: Enter, time: int) -> None:
        """What is measured at `time`: it is entered when its slot says so."""
        with self._lock:
            heapq.heappush(self._held, (enters_from(row.due, row.slot, time), row.slot, row.id, enter))
            self._lock.notify()

    def enter(self, time: int) -> int:
        """Enters all whose time has come; how many are held still. What is too far ahead was said by a clock that was."""
        while True:
            with self._lock:
                if not self._held or time < self._held[0][0] <= time + self._held[0][1] + APART:
                    return len(self._held)
                _, _, number, enter = heapq.heappop(self._held)
            why, found = None, None
            try:
                found = enter()
            except Exception as error:
                why = why_of(error)
            jobs.finish(self.database, number, self.worker, answer=found, why=why)

    def run(self, stopped: threading.Event) -> None:
        """Until it is stopped, and nothing is held. What cannot be written down ends the whole worker: what it had is lost."""
        try:
            while self.enter(now()) or not stopped.is_set():
                with self._lock:
                    ahead = self._held[0][0] - now() if self._held else _IDLE_CLERK
                    self._lock.wait(min(max(ahead, 1), _IDLE_CLERK) / 1000)
        except BaseException:
            os._exit(70)


class Shelf:
    """The datasets that a worker has open. One that is declared meanwhile is opened when its edition is seen, or when it is asked about."""

    def __init__(self, file: Path, state: Path) -> None:
        self.file, self.state = file, state
        self._open: dict[str, Opened] = {}
        self._seen = 0

    def fill(self, settings: Settings) -> None:
        self._seen = self.state.stat().st_mtime_ns
        have = {one.settings.ledger for one in self._open.values()}
        for dataset in settings.datasets:
            if dataset.ledger not in have and edition.path_of(settings, dataset).exists():
                one = edition.open_one(settings, dataset)
                one.source.need()
                rehearse(settings, dataset, one.ledger.unit, one.ledger.budget)
                self._open[one.facts.dataset] = one

    @property
    def names(self) -> list[str]:
        return list(self._open)

    def look(self) -> None:
        """Opens what is new. What cannot be read is left to whoever asks about it."""
        try:
            if self.state.stat().st_mtime_ns != self._seen:
                self.fill(read_settings(self.file))
        except (OboroError, OSError):
            return

    def find(self, name: str) -> Opened:
        if name not in self._open:
            self.fill(read_settings(self.file))
        return self._open[name]


def serve_jobs(file: str, name: str, front: int) -> None:
    """Takes jobs until it is asked to stop, or the front that started it is gone; a job that was begun is finished first."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    settings = read_settings(Path(file))
    database = Database(settings.database)
    shelf = Shelf(Path(file), settings.state)
    shelf.fill(settings)
    print("ready", flush=True)
    gone = threading.Event()
    threading.Thread(target=_live, args=(database, name, gone), daemon=True).start()
    clerk, ended = Clerk(database, name), threading.Event()
    entering = threading.Thread(target=clerk.run, args=(ended,))
    entering.start()
    try:
        _take(database, name, shelf, clerk, lambda: stopped.is_set() or os.getppid() != front)
    finally:
        ended.set()
        entering.join()
        gone.set()
    database.close()


def _take(database: Database, worker: str, shelf: Shelf, clerk: Clerk, over: Callable[[], bool]) -> None:
    idle = _IDLE[0]
    while not over():
        shelf.look()
        row = jobs.claim(database, worker, now(), shelf.names)
        if row is None:
            time.sleep(idle)
            idle = min(1.1 * idle, _IDLE[1])
            continue
        idle = _IDLE[0]
        try:
            clerk.take(row, measured(shelf.find(row.dataset), row), now())
        except Exception as error:
            jobs.finish(database, row.id, worker, why=why_of(error))


def _live(database: Database, worker: str, stopped: threading.Event) -> None:
    while not stopped.wait(_BEAT):
        try:
            jobs.beat(database, worker)
        except Exception:  # the database is away for a while
            continue


if __name__ == "__main__":
    import sys

    serve_jobs(sys.argv[1], sys.argv[2], int(sys.argv[3]))
