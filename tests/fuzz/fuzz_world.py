"""A small world of valid things, made once: from these, bad calls, documents and command lines are bent."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import chdir, closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import oboro as ob

LEDGERS = ("people", "row", "cells", "signal", "edge")
REFUSED = (2, 3, 4)  # exit codes that promise that nothing was spent
PEOPLE = "age,region,who\n" + "".join(
    f"{a % 100},{'north' if a % 3 else 'south'},{a % 40}\n" for a in range(120)
)
QUERY = """data = "people.csv"
ledger = "people.ledger"
[unit]
kind = "row"
adjacency = "replace"
[[columns]]
kind = "integer"
name = "age"
low = 0
high = 120
[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""
SYSTEM = """horizon = 8
[system]
A = [[0.5]]
B = [[1.0]]
C = [[1.0]]
D = [[0.0]]
[unit]
kind = "signal"
distance = "1"
"""
ESTAT = (
    "KEY_CODE,HTKSYORI,HTKSAKI,GASSAN,T001\n,,,,　人口（総数）\n533945263,0,,,12\n533945264,2,533945263,,*\n"
)


@dataclass(frozen=True)
class World:
    """Files, ledgers and plans in one folder."""

    folder: Path
    known: dict[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def make(cls) -> World:
        memory = Path("/dev/shm")  # where syncing costs nothing, if there is such a place
        folder = Path(
            tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None, prefix="oboro-fuzz-")
        )
        world = cls(folder)
        world._write()
        shutil.copytree(folder, folder / "pristine")
        world.stamps, world.entries  # noqa: B018 - taken now, before anything is bent
        return world

    @cached_property
    def domain(self) -> ob.Domain:
        return ob.Domain([ob.Integer("age", 0, 120), ob.Category("region", ["north", "south"])])

    @cached_property
    def grid(self) -> ob.Domain:
        return ob.Domain([ob.Grid("row", "col", shape=(8, 8))])

    @cached_property
    def ledger(self) -> ob.Ledger:
        return ob.Ledger.open(self.path("people.ledger"))

    @cached_property
    def ledgers(self) -> dict[str, ob.Ledger]:
        return {name: ob.Ledger.open(self.path(f"{name}.ledger")) for name in LEDGERS}

    @cached_property
    def session(self) -> Any:
        return ob.Session(self.path("people.csv"), domain=self.domain, ledger=self.ledger)

    @cached_property
    def histogram(self) -> Any:
        return ob.histogram_plan(self.domain, "region", unit=ob.Unit.row("replace"), eps="1e-9")

    @cached_property
    def table(self) -> Any:
        return ob.tables.plan(self.grid, unit=ob.Unit.cells(), eps="1e-9", strategy="wavelet")

    @cached_property
    def series(self) -> Any:
        return ob.tables.plan(
            self.grid, unit=ob.Unit.cells(), eps="1e-9", ticks=2, max_ticks=2, count="count"
        )

    @cached_property
    def hours(self) -> Any:
        import pyarrow as pa

        return pa.table({"tick": [0, 0, 1], "row": [0, 1, 7], "col": [0, 2, 7], "count": [3, 4, 5]})

    @cached_property
    def opened(self) -> Any:
        return ob.tables.series(self.series, ledger=self.ledgers["cells"], name="opened")

    @cached_property
    def tick(self) -> Any:
        return self.opened.publish(self.hours, tick=1).interval()

    @cached_property
    def system(self) -> Any:
        return ob.dynamics.system_from(([[0.5]], [[1.0]], [[1.0]], [[0.0]]))

    @cached_property
    def signal(self) -> Any:
        return ob.dynamics.plan(
            self.system, unit=ob.Unit.signal(1), horizon=4, eps="1e-3", delta="1e-3", columns=["age"]
        )

    @cached_property
    def noise(self) -> Any:
        return ob.secure.NoisePlan.load(self.path("noise.toml"))

    @cached_property
    def release(self) -> Any:
        return ob.run(self.histogram, self.path("people.csv"), self.ledger, "kept")

    @cached_property
    def counts(self) -> Any:
        import pyarrow as pa

        return pa.table({"row": [0, 1, 7], "col": [0, 2, 7], "count": [3, 4, 5]})

    def path(self, name: str) -> Path:
        return self.folder / name

    def spent(self) -> dict[str, int]:
        """How long every ledger is: what must not change when a call is refused. Asked only if a file was touched."""
        files = [self.path(f"{name}.ledger") for name in LEDGERS]
        stamps = tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists())
        if self.known.get("stamps") != stamps:
            heads = {name: ledger.head().position for name, ledger in self.ledgers.items()}
            self.known.update(stamps=stamps, heads=heads)
        return dict(self.known["heads"])

    def command(self, words: list[str]) -> int:
        """Runs one command line in a copy of the folder, which is put right afterwards; its exit code.

        A foreign exception comes out, and so does the news that a line was refused and spent all the same.
        """
        code = self._typed(words, self.line)
        changed = _stamps(self.line) != self.stamps
        if changed and code in REFUSED and _entries(self.line) != self.entries:
            raise AssertionError(f"exit code {code}, and yet something was spent")
        if changed:
            self._refresh()
        return code

    def _typed(self, words: list[str], folder: Path) -> int:
        from oboro.cli import main

        argv, sys.argv = sys.argv, ["oboro", *words]
        os.environ["OBORO_TRACEBACK"] = "1"  # a foreign exception comes out
        try:
            with chdir(folder), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                main()
        except SystemExit as stop:
            return int(stop.code or 0)
        finally:
            sys.argv = argv
            del os.environ["OBORO_TRACEBACK"]
        return 0

    @cached_property
    def scratch(self) -> Path:
        """Where files go whose path somebody bent."""
        folder = self.folder / "a" / "b" / "c"
        folder.mkdir(parents=True)
        return folder

    @cached_property
    def line(self) -> Path:
        """Where command lines run."""
        folder = self.folder / "line"
        self._refresh(folder)
        return folder

    @cached_property
    def stamps(self) -> dict[str, tuple[int, int]]:
        return _stamps(self.line)

    @cached_property
    def entries(self) -> dict[str, int]:
        return _entries(self.line)

    def _refresh(self, folder: Path | None = None) -> None:
        """The files as they were: changed ones written again, new ones taken away."""
        folder = folder or self.line
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "pristine", folder)

    def _write(self) -> None:
        self.path("people.csv").write_text(PEOPLE)
        self.path("people.toml").write_text(QUERY)
        self.path("system.toml").write_text(SYSTEM)
        self.path("estat.txt").write_bytes(ESTAT.encode("cp932"))
        self.grid.to_toml(self.path("grid.toml"))
        self.domain.to_toml(self.path("domain.toml"))
        self.path("load.csv").write_text("age\n" + "0.5\n" * 9)
        self.path("edges.csv").write_text("one,two\n1,2\n2,3\n1,3\n")
        self.path("grid.csv").write_text("row,col,count\n0,0,5\n3,4,2\n7,7,1\n")
        self.path("hours.csv").write_text("tick,row,col,count\n0,0,0,5\n1,3,4,2\n1,7,7,1\n")
        lines = [
            "ledger create people.ledger --dataset people --unit row,replace --eps 1000000 --delta 0.9",
            "ledger create row.ledger --dataset people --unit row --eps 1000000",
            "ledger create cells.ledger --dataset city --unit cells:1:1 --eps 1000000",
            "ledger create signal.ledger --dataset load --unit signal:1 --eps 1000000 --delta 0.9",
            "histogram forecast --domain domain.toml --unit row,replace --column region --eps 1e-9 --save-plan plan.toml",
            "run plan.toml people.csv --ledger people.ledger -o published.parquet --name published",
            "table forecast --domain grid.toml --eps 1e-9 --strategy wavelet --save-plan table.toml",
            "table release grid.csv --domain grid.toml --count count --eps 1e-2 --ledger cells.ledger -o table.parquet",
            "table series --domain grid.toml --ticks 2 --max-ticks 2 --count count --eps 1e-9 --ledger cells.ledger --name hours -o series.toml",
            "table tick hours.csv --series series.toml --tick 1 -o 01.parquet",
            "synth release people.csv --domain domain.toml --ledger people.ledger --eps 1e-3 --delta 1e-9 -o model.oboro",
            "synth release people.csv --domain domain.toml --ledger people.ledger --eps 1e-3 --delta 1e-9 -o made.parquet --method gaussian --records 30 --n 120",
            "secure plan --eps 2 --delta 1e-2 --urns 1 -o noise.toml",
            "secure keys alice",
            "secure keys bob",
            "secure encrypt 7 --low 0 --high 20 --key alice.public -o answer.bin",
            "secure urns --plan noise.toml --key alice.secret -o urns.bin",
            "dynamics plan system.toml --eps 1e-3 --delta 1e-3 --column age --horizon 8 --save-plan signal.toml",
            "dynamics release load.csv --system system.toml --column age --horizon 8 --eps 1e-3 --delta 1e-3 --ledger signal.ledger -o output.csv",
            "ledger export people.ledger -o export.json",
        ]
        for line in lines:
            with suppress(SystemExit):
                self.made(line)
        unit = ob.Unit.row("replace")
        with suppress(ob.OboroError):
            ob.Ledger.create(
                self.path("edge.ledger"), dataset="graph", unit=unit, budget=ob.Approx(10**6, "0.9")
            )

    def made(self, line: str) -> None:
        code = self._typed(line.split(), self.folder)
        if code != 0:
            print(f"exit {code}: {line}", file=sys.stderr)


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """What changes when a file does. Copies keep the times of their originals."""
    found = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


def _entries(folder: Path) -> dict[str, int]:
    """How many reservations each ledger holds."""
    counts = {}
    for name in LEDGERS:
        with suppress(sqlite3.Error), closing(sqlite3.connect(folder / f"{name}.ledger")) as connection:
            query = "SELECT count(*) FROM oboro_entries WHERE kind = 'reserve'"
            counts[name] = int(connection.execute(query).fetchone()[0])
    return counts
