"""A worker: a process of its own that takes jobs and answers them. What it reads is an edition, what it draws noise with is its own.

A worker is spawned, not forked: it shares no memory, no connection and no random bits with any other.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from pathlib import Path

from oboro.errors import OboroError
from oboro.ledger.chain import plan_hash
from oboro.ledger.records import Reservation
from oboro.noise.bits import system_bits
from oboro.privacy import guarantee_from
from oboro.release import plan_from
from oboro.release.run import Quote, keep
from oboro.service import answers, edition, jobs
from oboro.service.database import Database
from oboro.service.edition import Opened
from oboro.service.settings import read_settings

_IDLE = 0.005  # seconds between two looks at the table
_BEAT = 5.0


def answer(opened: Opened, row: jobs.Row) -> bytes | None:
    """Runs what was reserved: prepare, measure, store, commit, sign. The answer, if it is small enough to be kept beside its job."""
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
    release = keep(quote, opened.ledger, reservation, table, bits, getattr(data, "engine", None))
    found = answers.packed(release)
    return found if len(found) <= answers.KEPT else None


def serve_jobs(file: str, name: str | None = None) -> None:
    """Takes jobs until it is asked to stop, or whoever started it is gone; a job that was begun is finished first."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    settings = read_settings(Path(file))
    database, parent = Database(settings.database), os.getppid()
    datasets = {one.facts.dataset: one for one in edition.opened(settings)}
    for one in datasets.values():
        one.source.need()
    worker = name or f"{uuid.uuid4()}"
    print("ready", flush=True)
    threading.Thread(target=_live, args=(database, worker, stopped), daemon=True).start()
    while not stopped.is_set() and os.getppid() == parent:
        row = jobs.claim(database, worker)
        if row is None:
            time.sleep(_IDLE)
            continue
        why, found = None, None
        try:
            found = answer(datasets[row.dataset], row)
        except Exception as error:  # whatever it is, the analyst sees one word, at the time that was said
            why = error.message if isinstance(error, OboroError) else type(error).__name__
        jobs.finish(database, row.id, worker, answer=found, why=why)
    database.close()


def _live(database: Database, worker: str, stopped: threading.Event) -> None:
    while not stopped.wait(_BEAT):
        try:
            jobs.beat(database, worker)
        except Exception:  # the database is away for a while
            continue


if __name__ == "__main__":
    import sys

    serve_jobs(sys.argv[1], sys.argv[2])
