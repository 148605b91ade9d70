"""The small world that the calls of `fixes_calls` are made in: names, and files in the folder where they are made."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.parquet import write_table

import oboro as ob
from oboro.domain.domain import DRAFT_HEADER

COLUMN = '[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120\n'
COLUMNS = [
    ob.Integer("age", 0, 120),
    ob.Integer("income", 0, 100_000, step=100),
    ob.Real("height", 0, 250, "0.1"),
    ob.Integer("odd", 1, 301, step=3),
    ob.Integer("wide", 0, 2**40),
    ob.Category("region", ["north", "south"]),
    ob.Category("smokes", ["no", "yes"]),
    ob.Category("drinks", ["no", "yes"]),
    ob.Category("drinks2", ["no", "yes"]),
    ob.Date("day", "2026-01-01", "2026-12-31"),
]
PEOPLE = "age,income,height,odd,wide,region,smokes,drinks,drinks2,day,person\n" + (
    "30,2000,170.5,4,5,north,no,yes,no,2026-02-03,a\n" * 4
)


class Names(dict[str, Any]):
    """What a call may name; made when it is named first."""

    def __init__(self, more: dict[str, Any] | None = None) -> None:
        super().__init__(
            more or {},
            ob=ob,
            np=np,
            numpy=np,
            pa=pa,
            math=math,
            tomllib=tomllib,
            Fraction=Fraction,
            COLUMN=COLUMN,
        )
        self["areas"] = pa.table({"town": ["a", "a", "b"], "mesh": ["1", "2", "3"]})
        self["domain"] = ob.Domain(COLUMNS)
        self["small"] = self["domain"].only("age", "region")
        self["thirds"] = ob.Domain([ob.Category("part", ["a", "b", "c"])])
        self["grid"] = ob.Domain([ob.Grid("row", "col", shape=(16, 16))])
        self["huge"] = ob.Domain([ob.Integer("a", 0, 2**40), ob.Integer("b", 0, 2**40)])
        self["indices"] = np.array([1.5, 2.5])
        self["values"] = np.array([1 / 3, 1e-17])
        self["sigma"] = np.array([[1.0, 0.5], [0.25, 1.0]]) * 100
        self["draft"] = DRAFT_HEADER + "\n" + COLUMN
        self.update(
            {
                one.__name__: one
                for one in (text_file, toml, shell, oboro, typed, estat, fresh_ledger, counted, block, steps)
            }
        )
        self.update(
            {one.__name__: one for one in (*_MORE, Mine, Noiseless, Cheap)},
            PEOPLE=PEOPLE,
            Facts=SimpleNamespace,
            LEDGER=LEDGER,
            DATASETS=DATASETS,
            Path=Path,
            os=os,
        )

    def __missing__(self, name: str) -> Any:
        make = MADE.get(name)
        if make is None:
            raise KeyError(name)
        self[name] = make(self)
        return self[name]


def _ledger(unit: ob.Unit, budget: ob.Guarantee) -> ob.Ledger:
    return ob.Ledger.create(_free("made.ledger"), dataset="people", unit=unit, budget=budget)


_NUMBERS = count()


def _free(name: str) -> Path:
    return Path(f"{next(_NUMBERS)}-{name}").absolute()


def _session(names: Names, unit: ob.Unit, ledger: str) -> ob.Session:
    return ob.Session("people.csv", domain=names["domain"], unit=unit, ledger=names[ledger], name="people")


def _kmeans(_: Names) -> Any:
    from oboro.statistics.estimators import KMeans

    return KMeans


MADE: dict[str, Callable[[Names], Any]] = {
    "row_ledger": lambda _: _ledger(ob.Unit.row(), ob.Pure(1000)),
    "replaced_ledger": lambda _: _ledger(ob.Unit.row("replace"), ob.Approx(1000, "0.1")),
    "person_ledger": lambda _: _ledger(ob.Unit.person("person", 2), ob.Pure(1000)),
    "signal_ledger": lambda _: _ledger(ob.Unit.signal(1), ob.Approx(1000, "0.1")),
    "people": lambda names: _session(names, ob.Unit.row(), "row_ledger"),
    "replaced": lambda names: _session(names, ob.Unit.row("replace"), "replaced_ledger"),
    "persons": lambda names: _session(names, ob.Unit.person("person", 2), "person_ledger"),
    "sensitivity": lambda _: ob.statistics.sensitivity,
    "dynamics": lambda _: ob.dynamics,
    "lag": lambda _: ob.dynamics.system_from(([[0.5]], [[1.0]], [[1.0]], [[0.0]])),
    "two": lambda _: ob.dynamics.system_from(([[0.5]], [[1.0, 1.0]], [[1.0]], [[0.0, 0.0]])),
    "unstable": lambda _: ob.dynamics.system_from(([[2.0]], [[1.0]], [[1.0]], [[0.0]])),
    "signal": lambda names: ob.dynamics.plan(
        names["lag"], unit=ob.Unit.signal(1), horizon=3, eps="0.01", delta="1e-3"
    ),
    "inputs_only": lambda names: ob.dynamics.plan(
        names["lag"], unit=ob.Unit.signal(1), horizon=3, eps="0.01", delta="1e-3", protect=("u",)
    ),
    "from_start": lambda names: ob.dynamics.plan(
        names["lag"], unit=ob.Unit.signal(1), horizon=3, eps="0.01", delta="1e-3", protect=("x0", "u")
    ),
    "noise": lambda _: ob.secure.plan(eps=2, delta="0.1", seconds=1),
    "control": lambda _: import_module("control"),
    "continuous": lambda names: names["control"].ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]]),
    "singular": lambda _: np.ones((2, 2)) * 10**6,
    "with_sigma": lambda names: ob.dynamics.plan(
        names["lag"], unit=ob.Unit.signal(1), horizon=1, eps=1, delta="1e-3", sigma=np.eye(2) * 10**6
    ),
    "gaussian": lambda names: ob.synth.plan(
        names["small"].only("age"),
        unit=ob.Unit.row("replace"),
        n=32561,
        method="gaussian",
        eps=3,
        delta="1e-5",
        records=5,
    ),
    "towns": lambda names: ob.Domain([ob.Areas("mesh", ["town", "mesh"], table=names["areas"])]),
    "KMeans": _kmeans,
    "cells_ledger": lambda _: _ledger(ob.Unit.cells(2), ob.Pure(1000)),
    "series_plan": lambda names: ob.tables.plan(
        names["grid"], unit=ob.Unit.cells(2), eps="0.1", ticks=2, max_ticks=2, count="people"
    ),
    "conditional": lambda names: names["people"].plan.sample_and_aggregate(
        "def f(rows):\n    return 1.0\n",
        columns=["age"],
        blocks=2,
        bounds=(0, 1),
        eps="0.1",
        isolation="none",
    ),
}


def write_files() -> None:
    """The files that the calls name, in the working folder."""
    Path("people.csv").write_text(PEOPLE)
    Path("city.toml").write_text(COLUMN)
    write_table(
        pa.table(
            {"prefecture": ["p", "p"], "municipality": ["a", "b"], "town": ["a", "b"], "mesh": ["1", "2"]}
        ),
        "areas.parquet",
    )


def text_file(text: str, name: str = "bent.toml") -> str:
    """A file with this text."""
    path = _free(name)
    path.write_text(text)
    return str(path)


def toml(text: str, *more: str) -> ob.Domain:
    """The domain that lines of TOML declare."""
    return ob.Domain.from_toml(text_file("\n".join([text, *more])))


def shell(line: str) -> None:
    subprocess.run(["sh", "-c", line], check=True)


def oboro(line: str) -> None:
    """Types a command, which must succeed."""
    from oboro.cli import main

    argv, sys.argv = sys.argv, shlex.split(line)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
            main()
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"{line}: {said.getvalue()}") from None
    finally:
        sys.argv = argv


WORLD = """
ledger create people.ledger --dataset people --domain people.toml --eps 1000
ledger create replaced.ledger --dataset people --unit row,replace --eps 1000 --delta 0.1
ledger create cells.ledger --dataset city --unit cells:1:1 --eps 1000
ledger create signal.ledger --dataset load --unit signal:1 --eps 1000 --delta 0.1
table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger -o table.parquet
table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger --strategy wavelet -o wavelet.parquet
table series --domain grid.toml --ticks 2 --max-ticks 2 --count people --eps 1 --ledger cells.ledger --name hours -o series.toml
histogram forecast --domain people.toml --unit row --column region --eps 1 --save-plan plan.toml
secure keys dora
"""
LEDGER = 'data = "people.csv"\nledger = "people.ledger"\n[unit]\nkind = "row"\n'
SYSTEM = "[system]\nA = [[0.5]]\nB = [[1]]\nC = [[1]]\nD = [[0]]\n"


def _write_more() -> None:
    """The files that command lines name."""
    region = '[[columns]]\nkind = "category"\nname = "region"\nvalues = ["north", "south"]\n'
    Path("people.toml").write_text(LEDGER + COLUMN + region)
    Path("grid.toml").write_text('[[columns]]\nkind = "grid"\nnames = ["row", "col"]\nshape = [16, 16]\n')
    Path("cells.csv").write_text("row,col,people\n3,4,500\n")
    Path("system.toml").write_text(SYSTEM)
    Path("load.csv").write_text("load\n1\n2\n3\n")
    Path("g.py").write_text("def g(row):\n    return row['age'] / 120\n")
    Path("tables.toml").write_text('ledger = "people.ledger"\n[tables.people]\ndata = "people.csv"\n')
    for line in WORLD.split("\n"):
        if line:
            oboro(f"oboro {line}")


def typed(line: str) -> None:
    """Types a command. What it complains of comes out as it is, and knows its fix as the command line shows it."""
    from oboro.cli import terminal

    if not Path("people.toml").exists():
        _write_more()
    program = sys.modules["oboro.cli.main"]
    usual, caught = program._failed, []  # type: ignore[attr-defined]

    def failed(error: BaseException, made: Any) -> int:
        if isinstance(error, ob.OboroError):
            error.typed = terminal.typed(error.fix or "")  # type: ignore[attr-defined]
            error.line = shlex.split(line)  # type: ignore[attr-defined]
            caught.append(error)
        return int(usual(error, made))

    program._failed = failed  # type: ignore[attr-defined]
    try:
        oboro(f"oboro {line}")
    except RuntimeError:
        if caught:
            raise caught[-1] from None
        raise
    finally:
        program._failed = usual  # type: ignore[attr-defined]


def estat() -> str:
    path = _free("estat.txt")
    path.write_bytes(
        "KEY_CODE,HTKSYORI,HTKSAKI,GASSAN,T001\n,,,,　人口（総数）\n533945263,0,,,12\n".encode("cp932")
    )
    return str(path)


def fresh_ledger() -> ob.Ledger:
    return _ledger(ob.Unit.row(), ob.Pure(1000))


def counted() -> ob.Release:
    plan = ob.histogram_plan(ob.Domain(COLUMNS), "region", unit=ob.Unit.row(), eps=1)
    return ob.run(plan, "people.csv", fresh_ledger())


def steps(stream: Any, count: int) -> None:
    for _ in range(count):
        stream.step(1)


def block(people: ob.Session, first: str, inside: str) -> None:
    """Runs the line that opens a batch, with a question inside."""
    exec(f"{first}\n{textwrap.indent(inside, '    ')}", {"people": people, "session": people, "ob": ob})


# -- for `fixes_more` ---------------------------------------------------------------------------------------------------


def reread(plan: Any, **changed: Any) -> Any:
    """The plan as it is read from its record, with some of it changed."""
    return ob.release.plan_from({**plan.to_dict(), **changed})


def without(module: str, work: Callable[[], Any]) -> Any:
    """Does something where a module is not installed."""
    kept, sys.modules[module] = sys.modules.get(module), None  # type: ignore[assignment]
    try:
        return work()
    finally:
        if kept is None:
            del sys.modules[module]
        else:
            sys.modules[module] = kept


def extra(fix: str) -> None:
    """A line that installs an extra names one that there is."""
    found = re.fullmatch(r"""pip install ['"]oboro\[([a-z-]+)\]['"]""", fix)
    assert found, fix
    assert found[1] in (importlib.metadata.metadata("oboro").get_all("Provides-Extra") or []), fix


def text_at(path: str, text: str) -> str:
    Path(path).write_text(text)
    return path


def bytes_at(path: str, content: bytes) -> str:
    Path(path).write_bytes(content)
    return path


def database_at(path: str, statement: str = "CREATE TABLE theirs (x)") -> str:
    """A database of somebody else."""
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def modelled() -> ob.Release:
    """A release without intervals."""
    plan = ob.synth.plan(ob.Domain(COLUMNS).only("age", "region"), unit=ob.Unit.row(), eps=1, delta="1e-6")
    ledger = _ledger(ob.Unit.row(), ob.Approx(10, "0.1"))
    return ob.run(plan, "people.csv", ledger)


def saved() -> str:
    """A release with its certificate."""
    counted().save("saved.csv")
    return "saved.csv.certificate.json"


def rewritten(path: str, indent: int = 2, **changed: Any) -> str:
    """A certificate or an export with some of it changed, laid out as oboro does."""
    record = {**json.loads(Path(path).read_text()), **changed}
    other = _free("altered.certificate.json")
    other.write_text(json.dumps(record, indent=indent, ensure_ascii=False) + "\n")
    return str(other)


def moved(path: str) -> str:
    """A certificate whose file went elsewhere."""
    Path("saved.csv").replace("elsewhere.csv")
    return path


@dataclass(frozen=True)
class Mine(ob.Plan):
    """A plan that nobody registered."""

    unit: ob.Unit
    guarantee: ob.Pure
    kind = "mine.count"
    noise = ob.noise.DiscreteLaplace(1)

    @property
    def parts(self) -> Any:
        return (ob.release.part(self.noise, "count", moves=1),)


@dataclass(frozen=True)
class Noiseless(Mine):
    """A plan that has no noise and promises something."""

    kind = "mine.noiseless"

    @property
    def parts(self) -> Any:
        return ()


@dataclass(frozen=True)
class Cheap(Mine):
    """A plan whose noise may be too little."""

    kind = "mine.cheap"


def public_of(name: str) -> Any:
    """The public key of a party, whose keys are made if they are not there."""
    if not Path(f"{name}.public").exists():
        ob.secure.create(name)
    return ob.secure.load_public(f"{name}.public")


def towns_release() -> ob.Release:
    """A table over areas."""
    areas = pa.table({"town": ["a", "a", "b"], "mesh": ["1", "2", "3"]})
    plan = ob.tables.plan(
        ob.Domain([ob.Areas("mesh", ["town", "mesh"], table=areas)]),
        unit=ob.Unit.cells(),
        eps=1,
        count="people",
    )
    data = pa.table({"mesh": ["1"], "people": [5]})
    return ob.tables.release(data, plan, ledger=_ledger(ob.Unit.cells(), ob.Pure(10)))


def published_towns() -> str:
    if not Path("towns.parquet").exists():
        towns_release().save("towns.parquet")
    return "towns.parquet"


DATASETS = '[[datasets]]\ndeclared = "people.toml"\n'


def settings_of(*parts: str) -> Any:
    """What a file of a service says."""
    from oboro.service.settings import read_settings

    if not Path("people.toml").exists():
        _write_more()
    path = Path("service.toml")
    path.write_text("\n".join(parts) + "\n")
    return read_settings(path)


def store() -> Any:
    """Where a service keeps its people."""
    from oboro.service.database import Database

    return Database("people.db")


def raised(error: Exception) -> None:
    raise error


def altered(path: Any, *statements: str) -> None:
    """Somebody writes to a ledger by hand."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def module(name: str) -> Any:
    """A module that is not loaded with its package."""
    return import_module(f"oboro.{name}")


def write_band(*args: Any, **words: Any) -> None:
    module("report.band").write_band(*args, **words)


def patched(place: str, name: str, value: Any, work: Callable[[], Any]) -> Any:
    """Does something on a system that lacks something."""
    where = import_module(place) if place == "os" else module(place)
    kept = getattr(where, name)
    if value is None:
        delattr(where, name)
    else:
        setattr(where, name, value)
    try:
        return work()
    finally:
        setattr(where, name, kept)


_MORE = (
    patched,
    module,
    write_band,
    settings_of,
    store,
    raised,
    altered,
    public_of,
    towns_release,
    published_towns,
    reread,
    without,
    extra,
    text_at,
    bytes_at,
    database_at,
    modelled,
    saved,
    rewritten,
    moved,
)
