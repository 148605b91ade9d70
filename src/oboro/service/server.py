"""The processes of a service: one in front that admits questions, and workers that answer them.

The front holds no data. A worker that dies is replaced, and what it had is lost. Asked to stop, the front takes no more questions,
workers finish what they have, and what was admitted waits for the next start.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from oboro.errors import LedgerError, OboroError
from oboro.service import database as schema
from oboro.service import edition, jobs, slots
from oboro.service.database import Database, now
from oboro.service.desk import Desk
from oboro.service.door import log, log_lines
from oboro.service.settings import Settings, refuse_open

_LOOK = 0.05  # seconds between two looks at the workers
_GRACE = 30.0  # seconds that a worker has to finish what it has, after the last answer is due that it holds


class Workers:
    """The worker processes of one service, kept at their number."""

    def __init__(self, settings: Settings, database: Database, desk: Desk) -> None:
        self.settings, self.database, self.desk = settings, database, desk
        self.prefix = jobs.front_of(settings.file)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = threading.Event()
        self._watch = threading.Thread(target=self._replace_dead, daemon=True)

    def start(self) -> None:
        self._bury_older()
        started = [self._begin() for _ in range(self.settings.workers)]
        for worker in started:  # each says one line when it is ready
            assert worker.stdout is not None
            if not worker.stdout.readline():
                self.stop()
                raise LedgerError(
                    "a worker could not start",
                    needed="datasets and ledgers that can be opened",
                    fix=f"OBORO_TRACEBACK=1 oboro serve {shlex.quote(str(self.settings.file))}",
                )
        self._watch.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._watch.is_alive():
            self._watch.join()
        for worker in self._running.values():
            worker.terminate()
        end = time.monotonic() + self._grace()
        for name, worker in self._running.items():
            try:
                worker.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            jobs.bury(self.database, name)
        self._running.clear()

    def _grace(self) -> float:
        """Seconds until the last of the answers is due that workers hold: they are entered at public times, also when the service stops."""
        table = schema.jobs
        held = sa.and_(table.c.state == "running", table.c.worker.in_(list(self._running)))
        try:
            with self.database.reading() as connection:
                last = connection.execute(sa.select(sa.func.max(table.c.due)).where(held)).scalar()
        except (sa.exc.SQLAlchemyError, OSError):  # the database is away
            last = None
        return _GRACE + max(0, (last or 0) - now()) / 1000

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in list(self._running.values())]

    def _begin(self) -> subprocess.Popen[bytes]:
        name = f"{self.prefix}{uuid.uuid4()}"
        command = [
            sys.executable,
            "-m",
            "oboro.service.worker",
            str(self.settings.file),
            name,
            f"{os.getpid()}",
        ]
        worker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self._running[name] = worker
        return worker

    def _replace_dead(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(_LOOK):
            try:
                for name, worker in list(self._running.items()):
                    if worker.poll() is not None:
                        jobs.bury(self.database, name)
                        del self._running[name]
                        log.warning("worker died", extra={"facts": {"code": worker.returncode}})
                        self._begin()
                if time.monotonic() - last > 10:
                    last = time.monotonic()
                    if slots.settle(self.database, now()):
                        log.warning("the clock was ahead", extra={"facts": {"at": now()}})
                    jobs.bury(self.database, own=self.prefix)
                    self.desk.recover(others=True)
            except (
                OboroError,
                sa.exc.SQLAlchemyError,
                OSError,
            ):  # the database, or a disk, is away for a while
                self._stopped.wait(1)

    def _bury_older(self) -> None:
        """Workers of this service that ran here before are gone: what they had is lost."""
        table = schema.jobs
        with self.database.reading() as connection:
            found = connection.execute(
                sa.select(table.c.worker).where(table.c.state == "running").distinct()
            ).scalars()
            older = [name for name in found if name is not None and name.startswith(self.prefix)]
        for name in older:
            jobs.bury(self.database, name)


class Service:
    """A service that runs: its front in this process, in a thread of its own or in the foreground."""

    def __init__(self, settings: Settings) -> None:
        refuse_open(settings)
        self.settings = settings
        self._alone = _alone(settings)
        self.database = Database(settings.database)
        self.datasets = edition.make(settings)
        for one in self.datasets:
            edition.refuse_address(one.facts.dataset)
        self.desk = Desk(settings, self.database, self.datasets)
        self.desk.recover()
        self.workers = Workers(settings, self.database, self.desk)

    def run(self, ready: Callable[[str], None] | None = None, *, handle: list[Any] | None = None) -> None:
        """Serves until it is asked to stop; `ready` is told the address."""
        import uvicorn

        from oboro.service.api import create_app
        from oboro.service.studio.readiness import Readiness

        log_lines()
        readiness = Readiness(self.desk)
        door, _ = create_app(self.desk)
        config = uvicorn.Config(
            door,
            host=self.settings.host,
            port=self.settings.port,
            ssl_certfile=self.settings.certificate,
            ssl_keyfile=self.settings.key,
            proxy_headers=self.settings.behind_proxy,
            forwarded_allow_ips=self.settings.proxy,
            server_header=False,
            date_header=True,
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=10,
        )
        server = uvicorn.Server(config)
        if handle is not None:
            handle.append(server)
        try:
            self.workers.start()
            readiness.wait()
            threading.Thread(target=_tell, args=(server, self.settings, ready), daemon=True).start()
            server.run()
        finally:
            readiness.stop()
            self.workers.stop()
            self.close()

    def close(self) -> None:
        edition.close(self.settings)
        for one in self.desk.datasets.values():
            one.ledger.close()
        self.database.close()
        os.close(self._alone)


def _alone(settings: Settings) -> int:
    """A lock on the file of the service. A second copy would take the editions away from the first, and bury its questions."""
    import fcntl

    place = settings.file.parent / f".{settings.file.stem}-lock"
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LedgerError(
            "the service is running already", given=str(settings.file), needed="one copy at a time"
        ) from None
    return handle


def _tell(server: Any, settings: Settings, ready: Callable[[str], None] | None) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.01)
    log.info(
        "started", extra={"facts": {"address": settings.address, "workers": settings.workers, "at": now()}}
    )
    if ready is not None:
        ready(settings.address)
