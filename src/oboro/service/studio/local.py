"""`oboro studio people.toml`: the same pages on one machine, for one steward. No login, the embedded ledger, loopback alone.

The address that is printed carries a token that opens once; what it gives is a cookie of this browser. What the studio keeps beside
the ledger (questions on their way, the bounded rows) lies in a folder that goes with it.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oboro.errors import DataError, OboroError, ParameterError, setting, told
from oboro.service import jobs, people, slots, worker
from oboro.service.arrivals import Arrivals
from oboro.service.database import Database
from oboro.service.desk import Desk
from oboro.service.questions import KINDS, SIZES, Shape
from oboro.service.settings import Limits, Settings

OWNER = "steward"
UPLOAD = 1 << 30  # bytes of a file that is dropped, at most
_OFTEN = 10**6
_SLOT = slots.Slot(work=1, slot=150)  # whoever holds the data may see how long it takes
_LIMITS = Limits(
    table_cells=1 << 26,
    cells=1 << 20,
    groups=1 << 14,
    forecasts_per_minute=_OFTEN,
    questions_per_minute=_OFTEN,
    requests_per_minute=_OFTEN,
)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        raise ParameterError(
            "the port is taken, or not for you to take",
            given=told(port=f"{port}"),
            needed="a port that nobody listens at; 0 for any",
            fix=setting(port=0),
        ) from None


class Studio:
    """A studio that runs: front and worker in this process."""

    def __init__(self, file: Path | None, port: int = 0) -> None:
        self.place = (Path.cwd() if file is None else file.parent).resolve()
        if not self.place.is_dir():
            raise DataError(
                f"there is no folder {self.place}",
                given=str(file),
                needed="a folder for data, ledger and declaration",
            )
        self.folder = Path(tempfile.mkdtemp(prefix=".oboro-studio-", dir=self.place))
        self._stopped = threading.Event()
        try:
            self.socket = _listening(port)
            self.settings = Settings(
                file=self.folder / "studio.toml",
                host="127.0.0.1",
                port=self.socket.getsockname()[1],
                database=str(self.folder / "studio.db"),
                datasets=(),
                workers=1,
                limits=_LIMITS,
                folder=self.place,
                alone=True,
                upload=UPLOAD,
            )
            self.database = Database(self.settings.database)
            people.add(self.database, OWNER, "steward")
            self.desk = Desk(self.settings, self.database, [], owner=OWNER)
            self.arrivals = Arrivals(self.desk, lambda *_: {Shape(kind, SIZES[-1]): _SLOT for kind in KINDS})
            if file is not None and file.exists():
                self.arrivals.open(file)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.once = secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}/studio/enter?token={self.once}"

    def run(self, ready: Callable[[str], None] | None = None, *, handle: list[Any] | None = None) -> None:
        """Serves until it is asked to stop; `ready` is told the address, once."""
        import uvicorn

        from oboro.service.api import create_app
        from oboro.service.studio.readiness import Readiness

        self.readiness = Readiness(self.desk)
        door, app = create_app(self.desk)
        pages = next(route.app for route in app.routes if getattr(route, "path", "") == "/studio")
        pages.state.once, pages.state.arrivals = self.once, self.arrivals
        config = uvicorn.Config(
            door,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        if handle is not None:
            handle.append(server)
        taking = threading.Thread(target=self._answer, daemon=True)
        taking.start()
        try:
            if ready is not None:
                ready(self.address)
            server.run(sockets=[self.socket])
        finally:
            self._stopped.set()
            self.readiness.stop()
            taking.join(30)
            self.close()

    def _answer(self) -> None:
        """Takes questions one by one. Whatever fails is lost, and the steward sees why."""
        while not self._stopped.is_set():
            row = jobs.claim(self.database, OWNER)
            if row is None:
                self._stopped.wait(0.01)
                continue
            why, found = None, None
            try:
                found = worker.answer(self.desk.datasets[row.dataset], row)
            except Exception as error:
                why = error.message if isinstance(error, OboroError) else type(error).__name__
            jobs.finish(self.database, row.id, OWNER, answer=found, why=why)

    def close(self) -> None:
        self.socket.close()
        for one in self.desk.datasets.values():
            one.ledger.close()
        self.database.close()
        shutil.rmtree(self.folder, ignore_errors=True)
