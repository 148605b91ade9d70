"""A service as it runs: a front, workers that are processes, many clients at once, and kill -9."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from service_town import DATASET, free_port, made, town

import oboro as ob
from oboro.errors import BudgetError
from oboro.ledger import Ledger
from oboro.privacy import Approx, Pure
from oboro.service import database as schema
from oboro.service.people import Person
from oboro.service.server import Service
from oboro.service.settings import Settings
from oboro.service.slots import Slot


@contextmanager
def running(settings: Settings) -> Iterator[tuple[Service, str]]:
    """The service, with its workers, at a real address."""
    service, handle = Service(settings), []  # type: ignore[var-annotated]
    thread = threading.Thread(target=service.run, kwargs={"handle": handle}, daemon=True)
    thread.start()
    while not (handle and handle[0].started):
        assert thread.is_alive()
        time.sleep(0.05)
    try:
        yield service, f"http://127.0.0.1:{handle[0].servers[0].sockets[0].getsockname()[1]}"
    finally:
        handle[0].should_exit = True
        thread.join(60)


def states(settings: Settings) -> Counter[str]:
    store = schema.Database(settings.database)
    with store.reading() as connection:
        found = Counter(connection.execute(sa.select(schema.jobs.c.state)).scalars())
    store.close()
    return found


@pytest.mark.long("services as processes")
def test_fifty_clients_at_once_spend_no_more_than_there_is(
    tmp_path: Path, postgres: str, postgres_url: str
) -> None:
    settings, tokens = made(
        tmp_path / "here",
        budget=Pure("0.3"),
        ledger=postgres,
        database=postgres_url,
        workers=4,
        slot=Slot(200, 3_000),
    )
    with running(settings) as (_, address):

        def one(age: int) -> str:
            people = ob.connect(address, token=tokens["lab-3" if age % 2 else "lab-4"])[DATASET]
            try:
                people.where(f"age >= {age}").mean("income", eps="0.01")
            except BudgetError:
                return "refused"
            return "answered"

        with ThreadPoolExecutor(50) as many:
            ended = Counter(many.map(one, range(1, 51)))
    assert ended == {"answered": 30, "refused": 20}
    assert states(settings) == {"done": 30}
    with Ledger.open(postgres) as ledger:
        assert ledger.verify().spent == Pure("0.3")


def test_another_process_does_not_take_itself_for_the_last(tmp_path: Path) -> None:
    """Whoever is the last to close a database that is written ahead deletes what was: nobody may think so while it is open."""
    settings, _ = made(tmp_path / "here")
    store = schema.Database(settings.database)
    with store.reading() as connection:
        connection.execute(sa.select(schema.people)).all()
    schema.Database(settings.database).close()  # the locks of the first are still there
    code = f"from oboro.service import database, people; d = database.Database({settings.database!r}); people.listed(d); d.close()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert Path(f"{settings.database}-wal").exists()
    store.close()
    assert not Path(f"{settings.database}-wal").exists()


def killed(settings: Settings, tokens: dict[str, str], times: int) -> None:
    """Kills workers while they work, so many times; afterwards every job is done or lost, once, and all are paid for."""
    draw = random.Random(5)
    with running(settings) as (service, address):
        people = ob.connect(address, token=tokens["lab-3"])[DATASET]
        stopped = threading.Event()

        def ask() -> None:
            number = 0
            while not stopped.is_set():
                number += 1
                question = {
                    "question": "mean",
                    "columns": ["income"],
                    "where": f"age >= {number % 99}",
                    "eps": f"0.000{number}1",
                }
                with suppress(ob.OboroError):
                    people._line.post(people._path("/questions"), question, f"k{number}")
                time.sleep(0.02)

        asker = threading.Thread(target=ask)
        asker.start()
        dead: set[int] = set()
        while len(dead) < times:
            fresh = [pid for pid in service.workers.pids if pid not in dead]
            if fresh and states(settings)["running"]:
                dead.add(fresh[0])
                os.kill(fresh[0], signal.SIGKILL)
            time.sleep(draw.random() * 0.02)
        stopped.set()
        asker.join()
        while states(settings)["admitted"] + states(settings)["running"]:
            time.sleep(0.1)
    ended = states(settings)
    assert set(ended) <= {"done", "lost"}
    assert ended["done"] > 0
    assert ended["lost"] > 0
    with Ledger.open(settings.datasets[0].ledger) as ledger:
        kinds = Counter(entry.kind for entry in ledger.history())
        assert kinds["reserve"] == ended["done"] + ended["lost"]  # none doubled, none refunded
        assert ended["done"] <= kinds["commit"] <= kinds["reserve"]
        ledger.verify()


@pytest.mark.long("services as processes")
@pytest.mark.parametrize("times", [40])  # OBORO_KILLS=200 asks for more
def test_killed_workers_lose_what_they_had_and_nothing_else(tmp_path: Path, times: int) -> None:
    settings, tokens = made(tmp_path / "here", budget=Pure(1000), slot=Slot(1, 50))
    killed(settings, tokens, int(os.environ.get("OBORO_KILLS", times)))


@pytest.mark.long("services as processes")
def test_what_was_admitted_survives_a_killed_front(tmp_path: Path) -> None:
    settings, tokens = made(tmp_path / "here", slot=Slot(1, 50), port=free_port())
    command = [sys.executable, "-m", "oboro", "serve", str(settings.file)]
    front = _started(command)
    people = ob.connect(settings.address, token=tokens["lab-3"])[DATASET]
    asked = [
        people._line.post(people._path("/questions"), {"question": "count", "eps": f"0.{n}"}, f"k{n}")
        for n in range(1, 5)
    ]
    front.kill()
    front.wait()
    time.sleep(1)  # its workers see that it is gone
    front = _started(command)
    ended = []
    for job in asked:
        while (found := people._line.get(f"/v1/questions/{job['id']}"))["state"] == "pending":
            time.sleep(0.05)
        ended.append(found["state"])
    assert set(ended) <= {"done", "lost"}
    front.terminate()
    assert front.wait(60) == 0
    assert not settings.state.exists()
    with Ledger.open(settings.datasets[0].ledger) as ledger:
        assert ledger.spent == Pure(1)


def _started(command: list[str]) -> subprocess.Popen[Any]:
    front = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert front.stdout is not None
    assert any("serving" in line for line in front.stdout) or front.poll() is None
    return front


@pytest.mark.long("services as processes")
def test_a_dataset_that_is_declared_while_the_service_runs_is_served_by_workers_old_and_new(
    tmp_path: Path,
) -> None:
    """It is calibrated for real; a worker that is killed is replaced by one that knows every dataset by its own edition."""
    from oboro.service import slots
    from oboro.service.arrivals import Account, Arrivals
    from oboro.service.settings import read_settings

    folder = tmp_path / "here" / "declared"
    folder.mkdir(parents=True)
    settings, tokens = made(tmp_path / "here", slot=Slot(50, 3_000))
    settings.file.write_text(settings.file.read_text() + '\n[studio]\nfolder = "declared"\n')
    (folder / "a.csv").write_text("age\n" + "7\n" * 400)
    declared = folder / "a.toml"
    declared.write_text(
        'data = "a.csv"\nledger = "a.ledger"\n[service]\nrows = 400\n'
        '[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 9\n'
    )
    budget = Approx(10_000, "1e-3")
    with running(read_settings(settings.file)) as (service, address):
        begun = Arrivals(service.desk).begin(declared, Account("a", ob.Unit.row(), budget))
        begun.join()
        with service.database.reading() as connection:
            kinds = {shape.kind for shape in slots.all_of(connection, "a")}
        assert {"mean", "count", "histogram", "table", "synthetic"} <= kinds
        service.desk.datasets["a"].ledger.grant("lab-3", budget, by="anna")
        both = ob.connect(address, token=tokens["lab-3"])
        before = service.workers.pids
        for _ in range(2):
            assert both["a"].sum("age", eps=100).value == pytest.approx(2800, abs=9)
            assert both[DATASET].mean("age", eps=1).value > 9
            for pid in before:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            while len(set(service.workers.pids) - set(before)) < settings.workers:
                time.sleep(0.05)
            both = ob.connect(address, token=tokens["lab-3"])
            both["a"].count(eps=100)
    assert len(read_settings(settings.file).datasets) == 2


@pytest.mark.long("services as processes")
def test_a_new_answer_takes_few_ways_to_a_server_and_back(
    tmp_path: Path, postgres: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many an account has asked before."""
    import psycopg

    sent: list[str] = []
    execute, command = psycopg.Cursor.execute, psycopg.Connection._exec_command

    def counted(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *given, **more)

    def commanded(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        sent.append(str(query))
        return command(self, query, *given, **more)

    with town(tmp_path / "here", ledger=postgres, database=postgres_url) as found:
        for number in range(12):
            if number in (3, 11):
                monkeypatch.setattr(psycopg.Cursor, "execute", counted)
                monkeypatch.setattr(psycopg.Connection, "_exec_command", commanded)
            job = found.ask({"question": "count", "eps": f"0.0{number + 1}"}).json()
            found.work()
            found.desk.job(job["id"], Person("lab-3", "analyst", ""))
            if number == 3:
                before = len(sent)
            monkeypatch.undo()
            monkeypatch.setenv("OBORO_KEYS", str(tmp_path / "keys"))
    assert before <= 50
    assert len(sent) - before <= before + 4
