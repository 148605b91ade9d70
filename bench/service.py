"""A service under load, on this machine: new answers, forecasts and repeated answers a second. Its workers are processes.

Two rows for each. What the machine carried while it was measured, by the clock, which says little where others work on it too. And
what two quiet cores carry by the processor time of each request: that of the front, which is one process and has one core, and that of
all together, clients and PostgreSQL included, which have two. So many requests are counted, whatever time they take, after every client
has asked once: what is opened and loaded at first is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.measure import Row, tree_time

REQUESTS = {"forecast": 1_500, "repeated": 800, "new": 240}
CLIENTS = 8
PATH = "/v1/datasets/people%202026"


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "sqlite") as running:
        yield from rate("forecasts", 500, running, forecast)
        yield from rate("repeated answers", 300, running, repeated)
        yield from rate("new answers on SQLite", 40, running, new)
        yield overrun("SQLite", running)
        yield slider(running)
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder) / "server") as (url, server):
        os.environ["OBORO_KEYS"] = str(Path(folder) / "keys")
        with serving(Path(folder) / "postgres", url, server) as running:
            yield from rate("new answers on PostgreSQL", 30, running, new)
            yield overrun("PostgreSQL", running)


@dataclass(frozen=True)
class Running:
    """A service that runs: where, what opens it, and the processes that it is made of."""

    port: int
    token: str
    steward: str
    front: int
    postgres: int | None = None

    def spent(self) -> tuple[float, float]:
        """Processor time of the front, and of all: the front, its workers, PostgreSQL, and the clients here."""
        stat = Path(f"/proc/{self.front}/stat").read_text().rpartition(")")[2].split()
        own = sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")
        others = 0.0 if self.postgres is None else tree_time(self.postgres)
        return own, tree_time(self.front) + others + time.process_time()


def forecast(line: HTTPConnection, headers: dict[str, str], number: int) -> None:
    question = {"question": "mean", "columns": ["income"], "eps": f"0.1{number:08}"}
    send(line, "POST", f"{PATH}/forecast", headers, {"question": question})


def repeated(line: HTTPConnection, headers: dict[str, str], number: int) -> None:
    question = {"question": "mean", "columns": ["income"], "eps": "0.001"}
    while send(line, "POST", f"{PATH}/questions", headers, question)["state"] != "done":
        time.sleep(0.1)


def new(line: HTTPConnection, headers: dict[str, str], number: int) -> None:
    question = {"question": "mean", "columns": ["income"], "eps": f"0.00001{number:08}"}
    job = send(line, "POST", f"{PATH}/questions", headers, question)
    while job["state"] == "pending":
        time.sleep(job["due_in"])
        job = send(line, "GET", f"/v1/questions/{job['id']}", headers)
    assert job["state"] == "done"


def send(line: HTTPConnection, verb: str, path: str, headers: dict[str, str], body: object = None) -> Any:
    line.request(verb, path, None if body is None else json.dumps(body), headers)
    answer = line.getresponse()
    found = json.loads(answer.read())
    assert answer.status < 300, found
    return found


def rate(what: str, target: float, running: Running, one: Any) -> Iterator[Row]:
    """How many a second, by several clients at once; new answers wait for their slots, so more of them ask."""
    clients = CLIENTS if one is not new else 8 * CLIENTS
    numbers, lock, done = iter(range(10**8)), threading.Lock(), []
    headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
    lines = [HTTPConnection("127.0.0.1", running.port) for _ in range(clients)]

    def ask(line: HTTPConnection) -> None:
        with lock:
            number = next(numbers)
        one(line, headers, number)

    def client(line: HTTPConnection) -> None:
        for _ in range(max(1, REQUESTS[one.__name__] // clients)):
            ask(line)
            done.append(time.perf_counter())

    ask(lines[0])  # loads what the others have
    with ThreadPoolExecutor(clients) as many:
        list(many.map(ask, lines))
        began, before = time.perf_counter(), running.spent()
        list(many.map(client, lines))
    front, all_of_it = (after - was for after, was in zip(running.spent(), before, strict=True))
    found = len(done) / (max(done) - began)
    carried = min(len(done) / front, 2 * len(done) / all_of_it)
    each = f"target, {1000 * front / len(done):.1f} ms in front, {1000 * all_of_it / len(done):.1f} in all"
    yield Row(f"service: {what}, as measured", found, "target", target, "1/s", found / target)
    yield Row(f"service: {what}, by CPU", carried, each, target, "1/s", carried / target, 1.0)


def slider(running: Running) -> Row:
    """The slowest of a studio's forecasts while the slider moves: processor time of the front, for an error that is new each time."""
    line, where = HTTPConnection("127.0.0.1", running.port), "/studio/ask/people%202026/forecast"
    cookie = {"Cookie": f"oboro_session_{running.port}={running.token}", "HX-Request": "true"}
    slowest = 0.0
    for within in (500, *range(100, 400, 25)):  # the first loads what the others have
        before = running.spent()[0]
        for times in range(10):  # the clock of a process ticks a hundred times a second
            line.request(
                "GET", f"{where}?question=mean&columns=income&within={within + times / 10}", headers=cookie
            )
            answer = line.getresponse()
            assert b"data-eps" in answer.read()
        slowest = max(slowest, (running.spent()[0] - before) / 10) if within != 500 else 0.0
    return Row(
        "service: a studio's forecast, by CPU", slowest, "target", 0.5, "s", 0.5 / max(slowest, 0.001), 1.0
    )


def overrun(where: str, running: Running) -> Row:
    """Answers that were not ready when they were due."""
    headers = {"Authorization": f"Bearer {running.steward}"}
    line = HTTPConnection("127.0.0.1", running.port)
    found = send(line, "GET", "/v1/alerts?most=1000", headers)
    late = [alert["job"] for alert in found if "not ready" in alert["words"]]
    asked = 1 + 8 * CLIENTS + REQUESTS["new"]
    of = f"of {asked} answers, by the clock: calibrate with as much going on as there will be"
    return Row(f"service: slots overrun on {where}", len(late), of, 0, "", 1.0 if not late else 0.0)


@contextmanager
def serving(folder: Path, url: str | None = None, postgres: int | None = None) -> Iterator[Running]:
    """The demonstration, calibrated, without limits of rates, in processes of its own."""
    from oboro.ledger import Ledger
    from oboro.privacy import Pure
    from oboro.service import demo
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    made = demo.make(folder, port := free())
    text = made.settings.file.read_text()
    rates = "".join(f"{name}_per_minute = 1_000_000\n" for name in ("questions", "forecasts", "requests"))
    made.settings.file.write_text(text + "\n[limits]\n" + rates)
    token, steward = made.analyst, made.steward
    if url is not None:
        from oboro.service import people

        ledger = Ledger.create(
            f"{url}&options=-csearch_path%3Dpeople", dataset=demo.DATASET, unit=demo.UNIT, budget=Pure(10)
        )
        declared = folder / "people.toml"
        declared.write_text(
            declared.read_text().replace('"people.ledger"', f'"{url}&options=-csearch_path%3Dpeople"')
        )
        made.settings.file.write_text(made.settings.file.read_text().replace('"service.db"', f'"{url}"'))
        database = Database(read_settings(made.settings.file).database)
        people.add(database, "lab-3")
        token = people.create_token(database, "lab-3")
        people.add(database, "steward", "steward")
        steward = people.create_token(database, "steward")
        ledger.grant("lab-3", Pure(1))
    subprocess.run(
        [sys.executable, "-m", "oboro", "serve", str(made.settings.file), "--calibrate"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "oboro", "serve", str(made.settings.file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    assert "serving" in server.stdout.readline()
    try:
        yield Running(port, token, steward, server.pid, postgres)
    finally:
        server.terminate()
        server.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, int]]:
    import pgserver
    import psycopg

    server = pgserver.get_server(folder)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA people")
    try:
        yield server.get_uri(), int((folder / "postmaster.pid").read_text().split()[0])
    finally:
        server.cleanup()


def free() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
