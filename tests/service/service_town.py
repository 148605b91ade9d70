"""A service to test with: in this process, its workers too where a test does not need processes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from oboro.ledger import Ledger
from oboro.privacy import Guarantee, Pure, Unit
from oboro.service import demo, edition, jobs, people, slots, worker
from oboro.service.api import create_app
from oboro.service.database import Database
from oboro.service.desk import Desk
from oboro.service.questions import KINDS, Shape
from oboro.service.settings import Settings, read_settings

DATASET = "people 2026"
QUICK = slots.Slot(1, 5)
MEAN = {"question": "mean", "columns": ["income"], "eps": "0.1"}
PEOPLE = (
    ("lab-3", "analyst"),
    ("lab-4", "analyst"),
    ("lab-5", "analyst"),
    ("anna", "steward"),
    ("ben", "steward"),
    ("carl", "auditor"),
)


@dataclass(frozen=True)
class Response:
    """What came back."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


async def knock(door: Any, verb: str, path: str, body: bytes | None, headers: dict[str, str]) -> Response:
    """One request to an ASGI application, without a socket."""
    where, _, query = path.partition("?")
    sent = {"host": "127.0.0.1", **{name.lower().replace("_", "-"): value for name, value in headers.items()}}
    if body is not None:
        sent |= {"content-type": "application/json", "content-length": str(len(body))}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": verb, "path": where, "raw_path": quote(where).encode(),
        "query_string": query.encode(), "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
    }  # fmt: skip
    parts: list[Any] = []
    waiting = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        parts.append(message)

    with suppress(Exception):  # a server logs it; what the caller got is what counts
        await door(scope, receive, send)
    start = parts[0]
    found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Response(start["status"], found, b"".join(part.get("body", b"") for part in parts[1:]))


@dataclass
class Town:
    """A service that is open: its desk, its door, and a token of everybody's."""

    settings: Settings
    desk: Desk
    door: Any
    app: Any
    tokens: dict[str, str]
    loop: asyncio.Runner = field(default_factory=asyncio.Runner, repr=False)

    @property
    def ledger(self) -> Ledger:
        return self.desk.datasets[DATASET].ledger

    def send(self, verb: str, path: str, who: str | None = "lab-3", body: Any = None, **headers: str) -> Any:
        if who is not None:
            headers["Authorization"] = f"Bearer {self.tokens.get(who, who)}"
        return self.loop.run(
            knock(self.door, verb, path, None if body is None else json.dumps(body).encode(), headers)
        )

    def ask(self, body: Any = None, who: str = "lab-3", dataset: str = DATASET, **headers: str) -> Any:
        return self.send(
            "POST", f"/v1/datasets/{dataset}/questions", who, MEAN if body is None else body, **headers
        )

    def work(self, name: str = "here") -> int:
        """Answers what was admitted, in this process; how many there were."""
        many = 0
        while (row := jobs.claim(self.desk.database, name)) is not None:
            finished(self.desk, row, name)
            many += 1
        return many

    def wait(self, number: str, who: str = "lab-3") -> dict[str, Any]:
        """The job, when its answer has left."""
        while True:
            found: dict[str, Any] = self.send("GET", f"/v1/questions/{number}", who).json()
            if found["state"] != "pending":
                return found
            self.work()
            time.sleep(found["due_in"] or 0.001)

    def answered(self, body: Any = None, who: str = "lab-3") -> dict[str, Any]:
        return self.wait(self.ask(body, who).json()["id"], who)


def finished(desk: Desk, row: jobs.Row, name: str) -> None:
    why, found = None, None
    try:
        found = worker.answer(desk.datasets[row.dataset], row)
    except Exception as error:
        why = type(error).__name__
    jobs.finish(desk.database, row.id, name, answer=found, why=why)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def table(rows: int = 200, seed: int = 1) -> pa.Table:
    return demo.generated(rows, seed)


def made(
    folder: Path,
    data: pa.Table | None = None,
    *,
    budget: Guarantee | None = None,
    grant: Guarantee | None = None,
    ledger: str = "people.ledger",
    database: str = "service.db",
    unit: Unit = demo.UNIT,
    slot: slots.Slot | None = QUICK,
    workers: int = 2,
    port: int = 0,
    domain: Any = None,
    granted: tuple[str, ...] = ("lab-3", "lab-4"),
    limits: dict[str, int] | None = None,
    **more: Any,
) -> tuple[Settings, dict[str, str]]:
    """The files of a service, its people and their tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table() if data is None else data, folder / "people.parquet")
    declared = {
        "data": "people.parquet",
        "ledger": ledger,
        "unit": unit.to_dict(),
        **(domain or demo.domain()).to_dict(),
    }
    (folder / "people.toml").write_text(tomli_w.dumps(declared))
    quick = {"questions_per_minute": 10**6, "forecasts_per_minute": 10**6, "requests_per_minute": 10**6}
    service = {
        "address": f"127.0.0.1:{port}", "database": database, "workers": workers, "limits": {**quick, **(limits or {})},
        "datasets": [{"declared": "people.toml", "rows": 1000, "edition": "2026", **more}],
    }  # fmt: skip
    (folder / "service.toml").write_text(tomli_w.dumps(service))
    settings = read_settings(folder / "service.toml")
    own = Ledger.create(settings.datasets[0].ledger, dataset=DATASET, unit=unit, budget=budget or Pure(10))
    store = Database(settings.database)
    tokens = {}
    for name, role in PEOPLE:
        people.add(store, name, role)
        tokens[name] = people.create_token(store, name)
    for name in granted:
        own.grant(name, grant or budget or Pure(10), by="anna")
    if slot is not None:
        slots.keep(store, DATASET, {Shape(kind, 1 << 20): slot for kind in KINDS})
    own.close()
    store.close()
    return settings, tokens


def opened(settings: Settings, tokens: dict[str, str]) -> Town:
    desk = Desk(settings, Database(settings.database), edition.make(settings))
    door, app = create_app(desk)
    return Town(settings, desk, door, app, tokens)


@contextmanager
def town(folder: Path, data: pa.Table | None = None, **how: Any) -> Iterator[Town]:
    """A service in this process, without a socket."""
    found = opened(*made(folder, data, **how))
    try:
        yield found
    finally:
        closed(found)


def closed(found: Town) -> None:
    found.loop.close()
    edition.close(found.settings)
    found.ledger.close()
    found.desk.database.close()


@contextmanager
def listening(found: Town, workers: int = 1, **how: Any) -> Iterator[str]:
    """The same at a real address, with workers that are threads."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(found.door, port=0, log_config=None, lifespan="off", access_log=False, **how)
    )
    stopped = threading.Event()

    def take(name: str) -> None:
        while not stopped.is_set():
            row = jobs.claim(found.desk.database, name)
            if row is None:
                stopped.wait(0.002)
            else:
                finished(found.desk, row, name)

    threads = [threading.Thread(target=server.run, daemon=True)]
    threads += [
        threading.Thread(target=take, args=(f"thread {number}",), daemon=True) for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if 'ssl_certfile' in how else 'http'}://127.0.0.1:{port}"
    finally:
        stopped.set()
        server.should_exit = True
        for thread in threads:
            with suppress(RuntimeError):
                thread.join(20)
