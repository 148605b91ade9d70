"""The door: what every request passes before anything of the service sees it, and every response on its way out.

Who it is, how often, how large; the headers that a browser obeys; a line in the log; a number for Prometheus. None of it knows an answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread
from starlette.concurrency import run_in_threadpool

from oboro.service import people
from oboro.service.database import THREADS, Database
from oboro.service.people import Person
from oboro.service.settings import Settings
from oboro.service.studio import entrance

Message = MutableMapping[str, Any]
Scope = Message
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/", "/healthz", "/v1/healthz", "/v1/openapi.json", "/v1/login")  # for whoever knocks
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"strict-transport-security", b"max-age=31536000"),
)
log = logging.getLogger("oboro.service")


class Rates:
    """So many a minute for each name, with a burst of five, or of a tenth of a minute's."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, what: str, who: str, per_minute: int, at: float | None = None) -> bool:
        at = time.monotonic() if at is None else at
        most = max(5.0, per_minute / 10)
        with self._lock:
            if len(self._left) > 100_000:
                self._left.clear()
            left, seen = self._left.get((what, who), (most, at))
            left = min(most, left + (at - seen) * per_minute / 60)
            self._left[what, who] = (left - 1 if left >= 1 else left, at)
            return left >= 1


class Metrics:
    """Counts of what was asked and answered by public facts: no time that work took, nothing that data decides."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._lock = threading.Lock()

    def count(self, name: str, **labels: str) -> None:
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += 1

    def __str__(self) -> str:
        with self._lock:
            counts = sorted(self._counts.items())
        lines: list[str] = []
        for (name, labels), number in counts:
            if f"# TYPE {name} counter" not in lines:
                lines.append(f"# TYPE {name} counter")
            written = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels)
            lines.append(f"{name}{{{written}}} {number}" if written else f"{name} {number}")
        return "\n".join([*lines, ""])


class Door:
    """ASGI around the service."""

    def __init__(
        self, app: App, database: Database, settings: Settings, rates: Rates, metrics: Metrics
    ) -> None:
        self.app, self.database, self.settings, self.rates, self.metrics = (
            app,
            database,
            settings,
            rates,
            metrics,
        )
        self.limits = settings.limits
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop = loop
            to_thread.current_default_thread_limiter().total_tokens = (
                THREADS  # more would wait for one another
            )
        status = 500
        person: Person | None = None

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _headed(message["headers"], studio, path)}
            await send(message)

        path = scope["path"]
        studio = entrance.is_here(path)
        known = entrance.is_open(path) if studio else path in OPEN
        client = (scope.get("client") or ("?", 0))[0]
        try:
            if self.settings.alone and entrance.is_named_otherwise(scope["headers"]):
                await refuse(
                    sent,
                    403,
                    "Forbidden",
                    "the studio is not called by this name",
                    needed="the address that oboro studio printed",
                )
                return
            given = {
                name: value
                for name, value in scope["headers"]
                if name in (b"authorization", b"content-length")
            }
            length = given.get(b"content-length", b"0")
            most = self.settings.upload if path == entrance.UPLOAD else self.limits.body
            if not length.isdigit() or int(length) > most:
                await refuse(
                    sent,
                    413,
                    "TooLarge",
                    "the request is too large",
                    needed=f"at most {most:,} bytes",
                )
                return
            if studio:
                token = entrance.token_in(scope["headers"], self.settings)
                person = None if token is None or path.startswith(entrance.STATIC) else await self._who(token)
            elif not known:
                scheme, _, token = given.get(b"authorization", b"").decode("latin-1").partition(" ")
                person = await self._who(token) if scheme.lower() == "bearer" else None
            who = client if person is None else person.name
            if not self.rates.take("requests", who, self.limits.requests_per_minute):
                await refuse(
                    sent,
                    429,
                    "Crowded",
                    "too many requests",
                    needed=f"at most {self.limits.requests_per_minute} a minute",
                    retry=True,
                )
                return
            if studio and entrance.is_foreign(scope["method"], scope["headers"]):
                await refuse(
                    sent,
                    403,
                    "Forbidden",
                    "this was not sent by a page of the studio",
                    needed="its own pages",
                )
                return
            if studio and person is None and not known:
                part = (b"hx-request", b"true") in scope["headers"]
                status_to, headers = entrance.to_login(path, scope["query_string"], part)
                await sent({"type": "http.response.start", "status": status_to, "headers": headers})
                await sent({"type": "http.response.body", "body": b""})
                return
            if person is None and not known:
                await refuse(
                    sent, 401, "Unauthorized", "a token is needed", needed="Authorization: Bearer TOKEN"
                )
                return
            scope.setdefault("state", {})["person"] = person
            await self.app(scope, self._bounded(receive, most), sent)
        finally:
            route = getattr(scope.get("route"), "path", None) or ("/healthz" if path in OPEN else "other")
            route = "/studio" if studio else route
            self.metrics.count("oboro_requests_total", route=route, method=_method(scope), status=str(status))
            log.info(
                "request",
                extra={
                    "facts": {
                        "route": route,
                        "method": _method(scope),
                        "status": status,
                        "who": None if person is None else person.name,
                    }
                },
            )

    async def _who(self, token: str) -> Person | None:
        if self.database.sqlite:  # a fifth of a millisecond: a thread would take longer
            return people.recognise(self.database, token)
        return await run_in_threadpool(people.recognise, self.database, token)

    def _bounded(self, receive: Receive, most: int) -> Receive:
        """A body without a length cannot be longer than one with it: what is beyond is not there."""
        had = 0

        async def bounded() -> Message:
            nonlocal had
            message = await receive()
            had += len(message.get("body", b""))
            return message if had <= most else {"type": "http.disconnect"}

        return bounded


def _headed(own: list[tuple[bytes, bytes]], studio: bool, path: str) -> list[tuple[bytes, bytes]]:
    """What a browser obeys. A page of the studio may say its own policy; files that never change may be kept."""
    if not studio:
        kept = [one for one in own if one[0] not in (b"cache-control", b"server")]
        return [*kept, *HEADERS]
    names = {name for name, _ in own}
    added = [*entrance.HEADERS, *(one for one in HEADERS if one[0] == b"strict-transport-security")]
    if b"content-security-policy" not in names:
        added.append((b"content-security-policy", entrance.POLICY.encode()))
    if not path.startswith(entrance.STATIC):
        added.append((b"cache-control", b"no-store"))
    return [*(one for one in own if one[0] != b"server"), *added]


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


async def refuse(
    send: Send, status: int, error: str, message: str, *, needed: str, retry: bool = False
) -> None:
    """A refusal that needs nothing of the service."""
    body = json.dumps(
        {"error": error, "message": message, "given": None, "needed": needed, "fix": None, "argument": None}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if retry:
        headers.append((b"retry-after", b"6"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Lines(logging.Formatter):
    """A log that programs read: one JSON object a line, of named facts alone. No message of anybody's is in it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = getattr(record, "facts", {})
        return json.dumps(
            {
                "time": at,
                "level": record.levelname.lower(),
                "event": record.msg if facts or record.name == log.name else record.name,
                **facts,
            },
            ensure_ascii=False,
        )


def log_lines(level: int = logging.INFO) -> None:
    """Logs go to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False
