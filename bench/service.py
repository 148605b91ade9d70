"""A service under load, on this machine: new answers, forecasts and repeated answers a second. Its workers are processes."""

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
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.measure import Row

SECONDS = 10
CLIENTS = 8
PATH = "/v1/datasets/people%202026"


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "sqlite") as (port, token):
        yield rate("service: forecasts", 500, port, token, forecast)
        yield rate("service: repeated answers", 300, port, token, repeated)
        yield rate("service: new answers on SQLite", 40, port, token, new)
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder) / "server") as url:
        os.environ["OBORO_KEYS"] = str(Path(folder) / "keys")
        with serving(Path(folder) / "postgres", url) as (port, token):
            yield rate("service: new answers on PostgreSQL", 30, port, token, new)


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


def rate(what: str, target: float, port: int, token: str, one: Any) -> Row:
    """How many a second, by several clients at once; new answers wait for their slots, so more of them ask."""
    clients = CLIENTS if one is not new else 8 * CLIENTS
    numbers, lock, done = iter(range(10**8)), threading.Lock(), []
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    ends = time.perf_counter() + SECONDS

    def client(_: int) -> None:
        line = HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < ends:
            with lock:
                number = next(numbers)
            one(line, headers, number)
            done.append(time.perf_counter())

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as many:
        list(many.map(client, range(clients)))
    found = len(done) / (max(done) - began)
    return Row(what, found, "target", target, "1/s", found / target, 1.0)


@contextmanager
def serving(folder: Path, url: str | None = None) -> Iterator[tuple[int, str]]:
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
    token = made.analyst
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
        yield port, token
    finally:
        server.terminate()
        server.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    import pgserver
    import psycopg

    server = pgserver.get_server(folder)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA people")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def free() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
