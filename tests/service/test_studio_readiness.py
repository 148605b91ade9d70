"""What forecasts need is there before anybody asks for one: no page waits for an import or for a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from service_town import made

from oboro.privacy import Approx
from oboro.service import server
from oboro.service.studio import readiness

FIRST = """
import asyncio, sys, threading
from pathlib import Path
from numba.core import event
from service_town import knock
from oboro.service.api import create_app
from oboro.service.studio.local import Studio

studio, handle, told = Studio(Path(sys.argv[1])), [], threading.Event()
ran = threading.Thread(target=lambda: studio.run(lambda _: told.set(), handle=handle), daemon=True)
ran.start()
told.wait()
studio.readiness.wait()
door, app = create_app(studio.desk)
next(route.app for route in app.routes if getattr(route, "path", "") == "/studio").state.once = "once"
ask = lambda path, **headers: asyncio.run(knock(door, "GET", path, None, headers))
cookie = ask("/studio/enter?token=once").headers["set-cookie"].partition(";")[0]
ask("/studio/", cookie=cookie)
before, place = set(sys.modules), "people 2026"
with event.install_recorder("numba:compile") as compiled:
    for page in (
        "ask/{}/forecast?question=mean&columns=income&within=300&by=region",
        "ask/{}/forecast?question=median&columns=age&within=30",
        "tables/{}/forecast?within=30&beside=1&columns=age&columns=region",
        "tables/{}/forecast?first=eps&eps=0.3&workload=marginals&columns=age&columns=region",
        "synthetic/{}/forecast?eps=1&delta=1e-6&columns=age&columns=region",
        "synthetic/{}/forecast?eps=1&delta=1e-6&columns=age&columns=region&method=moments",
    ):
        answer = ask(f"/studio/{page.format(place)}", cookie=cookie)
        assert answer.status_code == 200 and 'class="card forecast"' in answer.text, (page, answer.text)
handle[0].should_exit = True
ran.join()
print(sorted(set(sys.modules) - before), len(compiled.buffer))
"""


@pytest.mark.long("stories of the studio")
def test_no_forecast_waits_for_an_import_or_a_compiler(tmp_path: Path) -> None:
    """In a process of its own, whose compiled loops are kept nowhere yet: all is there when the readiness says so."""
    made(tmp_path / "here", budget=Approx(10, "1e-4"))
    places = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    ran = subprocess.run(
        [sys.executable, "-c", FIRST, str(tmp_path / "here" / "people.toml")],
        env={
            "PYTHONPATH": ":".join(places),
            "NUMBA_CACHE_DIR": str(tmp_path / "loops"),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[] 0"


def test_a_service_listens_when_forecasts_are_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    seen: list[str] = []
    found = readiness.Readiness._prepare

    def prepare(self: Any) -> None:
        found(self)
        seen.append("ready")

    monkeypatch.setattr(readiness.Readiness, "_prepare", prepare)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: seen.append("listens"))
    for name in ("start", "stop"):
        monkeypatch.setattr(server.Workers, name, lambda *_: None)
    settings, _ = made(tmp_path / "here")
    server.Service(settings).run()
    assert seen == ["ready", "listens"]
