"""What a first run costs: what is compiled and imported, counted. The seconds are rows of `make bench`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import json, sys
import numba.core.event as events
from typer.testing import CliRunner

class Compiled(events.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__module__ + "." + event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass

events.register("numba:compile", Compiled())
from oboro.cli.main import app
done = CliRunner().invoke(app, sys.argv[1:])
assert done.exit_code == 0, done.output
print(json.dumps(Compiled.names))
"""
MEAN = """
import json, sys
import oboro as ob
domain = ob.Domain([ob.Integer("age", 0, 120), ob.Integer("income", 0, 1_000_000)])
ledger = ob.Ledger.create("people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1))
print(ob.Session("people.csv", domain=domain, ledger=ledger).mean("income", eps="0.5"), file=sys.stderr)
print(json.dumps(sorted(sys.modules)))
"""


def said_by(code: str, folder: Path, *arguments: str) -> list[str]:
    """What a script prints as JSON, in a folder of its own, with nothing compiled before."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "compiled")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.long("first runs")
def test_a_first_demo_compiles_what_it_uses_and_no_texts_of_errors(tmp_path: Path) -> None:
    compiled = said_by(WATCHED, tmp_path, "demo", "-o", "demo")
    ours = {name for name in compiled if name.startswith("oboro.")}
    assert "oboro.tables.tree._compiled.share_out" in ours
    assert not any(name.startswith("oboro.dynamics") for name in ours), "a week of half hours needs no loops"
    assert not [name for name in compiled if "unicode" in name], "texts: 3 s of compiling"
    assert len(compiled) < 60
    assert said_by(WATCHED, tmp_path, "demo", "-o", "again") == []  # what was compiled is kept


def test_a_first_mean_compiles_nothing_and_imports_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "age,income\n" + "".join(f"{i % 90},{1000 * i % 99_000}\n" for i in range(5000))
    )
    imported = said_by(MEAN, tmp_path)
    heavy = {"numba", "scipy", "sklearn", "control", "dp_accounting", "matplotlib", "IPython", "pandas"}
    assert not heavy & set(imported)
    assert "oboro.statistics.means" in imported
    assert not (tmp_path / "compiled").exists()
