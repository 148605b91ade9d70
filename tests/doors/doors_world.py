"""A folder with everything that commands read, a line for each of them, and a way to type one."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import oboro as ob
from oboro.cli import main
from oboro.cli.terminal import whole_command

PEOPLE = "age,region\n" + "".join(f"{a % 90},{'north' if a % 3 else 'south'}\n" for a in range(60))
COLUMNS = """
[[columns]]
kind = "integer"
name = "age"
low = 0
high = 99
[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""
DECLARED = f"""data = "people.csv"
ledger = "people.ledger"
[unit]
kind = "row"
{COLUMNS}"""
SERVICE = """address = "127.0.0.1:8750"
database = "service.db"
[[datasets]]
declared = "people.toml"
rows = 100
"""
GRID = """[[columns]]
kind = "grid"
names = ["row", "col"]
shape = [8, 8]
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
PARTIES = "--identity bob.pem --peer alice.crt"

# Every command that writes what one names: the line without its output, how the output is named, what it must end
# in, and what the command reads or keeps beside what it reads.
LEDGER = "people.ledger people.ledger.key people.ledger-wal people.ledger-journal people.ledger-shm"
WRITING = {
    "histogram release": (
        "histogram release people.csv --domain domain.toml --column region --eps 0.01 --ledger people.ledger",
        "-o",
        ".csv",
        f"people.csv domain.toml {LEDGER}",
    ),
    "histogram forecast": (
        "histogram forecast --domain domain.toml --unit row --column region --eps 1",
        "--save-plan",
        "",
        "domain.toml",
    ),
    "table release": (
        "table release grid.csv --domain grid.toml --count count --eps 0.01 --ledger cells.ledger",
        "-o",
        ".csv",
        "grid.csv grid.toml cells.ledger cells.ledger.key cells.ledger-wal",
    ),
    "table forecast": ("table forecast --domain grid.toml --eps 1", "-o", ".html", "grid.toml"),
    "table map": (
        "table map table.parquet --domain grid.toml",
        "-o",
        ".html",
        "table.parquet grid.toml table.parquet.certificate.json",
    ),
    "table series": (
        "table series --domain grid.toml --ticks 2 --max-ticks 2 --count count --eps 0.01 --ledger cells.ledger --name hours2",
        "-o",
        ".toml",
        "grid.toml cells.ledger cells.ledger.key cells.ledger-wal",
    ),
    "table tick": (
        "table tick hours.csv --series series.toml --tick 1",
        "-o",
        ".csv",
        "hours.csv series.toml cells.ledger cells.ledger.key cells.ledger-wal",
    ),
    "table final": (
        "table final --series series.toml --incomplete",
        "-o",
        ".csv",
        "series.toml cells.ledger cells.ledger.key cells.ledger-wal",
    ),
    "table play": ("table play 00.parquet", "-o", ".html", "00.parquet"),
    "query": (
        "query people.toml count --eps 0.01",
        "-o",
        ".csv",
        f"people.toml people.csv {LEDGER}",
    ),
    "sql": (
        "sql people.toml SELECT/**/COUNT(*)/**/FROM/**/people --eps 0.01",  # without white space: lines are split there
        "-o",
        ".csv",
        f"people.toml people.csv {LEDGER}",
    ),
    "run": (
        "run plan.toml people.csv --ledger people.ledger",
        "-o",
        ".csv",
        f"plan.toml people.csv {LEDGER}",
    ),
    "synth draft": ("synth draft people.csv", "-o", "", "people.csv"),
    "synth forecast": (
        "synth forecast --domain domain.toml --unit row --eps 1 --delta 1e-6",
        "--save-plan",
        "",
        "domain.toml",
    ),
    "synth release": (
        "synth release people.csv --domain domain.toml --eps 0.01 --delta 1e-9 --ledger approx.ledger",
        "-o",
        ".oboro",
        "people.csv domain.toml approx.ledger approx.ledger.key approx.ledger-wal",
    ),
    "synth sample": ("synth sample model.oboro -n 5", "-o", ".csv", "model.oboro"),
    "synth check": ("synth check made.csv --model model.oboro", "-o", ".csv", "made.csv model.oboro"),
    "synth report": ("synth report people.csv made.csv", "-o", ".html", "people.csv made.csv"),
    "dynamics plan": (
        "dynamics plan system.toml --eps 1 --delta 1e-3 --column load",
        "--save-plan",
        "",
        "system.toml",
    ),
    "dynamics forecast": (
        "dynamics forecast --system system.toml --eps 1 --delta 1e-3 --column load",
        "--save-plan",
        "",
        "system.toml",
    ),
    "dynamics release": (
        "dynamics release load.csv --system system.toml --column load --eps 0.01 --delta 1e-3 --ledger signal.ledger",
        "-o",
        ".csv",
        "load.csv system.toml signal.ledger signal.ledger.key signal.ledger-wal",
    ),
    "dynamics band": ("dynamics band output.csv", "-o", ".html", "output.csv output.csv.certificate.json"),
    "secure encrypt": ("secure encrypt 7 --low 0 --high 20 --key alice.public", "-o", "", "alice.public"),
    "secure add": ("secure add answer.enc answer.enc", "-o", "", "answer.enc"),
    "secure urns": (
        "secure urns --plan noise.toml --key alice.secret",
        "-o",
        "",
        "noise.toml alice.secret alice.secret.urns alice.secret.urns-journal",
    ),
    "secure draw": (
        "secure draw --urns urns.enc --plan noise.toml --answer answer.enc --ledger secure.ledger",
        "-o",
        "",
        "urns.enc noise.toml answer.enc secure.ledger secure.ledger.key secure.ledger-wal secure.ledger.urns",
    ),
    "ledger fetch": ("ledger fetch people.ledger --name first", "-o", ".csv", LEDGER),
    "ledger export": ("ledger export people.ledger", "-o", "", LEDGER),
    "ledger backup": ("ledger backup people.ledger", "-o", "", LEDGER),
    "audit": ("audit plan.toml --trials 1000", "-o", "", "plan.toml"),
}
OTHERS = {  # commands that write nothing that one names, or read no file
    "ledger create": "ledger create new.ledger --dataset people --domain people.toml --eps 1",
    "ledger show": "ledger show people.ledger",
    "ledger verify": "ledger verify people.ledger",
    "ledger rotate-key": "ledger rotate-key people.ledger",
    "ledger upgrade": "ledger upgrade people.ledger --backup before.ledger",
    "table check": "table check grid.csv --domain grid.toml --count count",
    "table compare": "table compare grid.csv --domain grid.toml --unit cells:1:1 --eps 1 --count count --strategy tree",
    "table ask": "table ask table.parquet row=0..3",
    "histogram check": "histogram check people.csv --domain domain.toml",
    "secure plan": "secure plan --eps 2 --delta 0.1 --urns 1 --seconds 0.05 --excess 0.5 -o plan2.toml",
    "secure verify": "secure verify noise.toml",
    "secure compare": "secure compare --eps 2 --delta 0.1 --seconds 0.05",
    "secure figure": "secure figure kii-fig1 -o figure.svg",
    "secure keys": "secure keys carol",
    "secure assumption": "secure assumption",
    "secure serve": "secure serve --plan noise.toml --listen nowhere:99999 --key alice.secret --identity alice.pem --peer bob.crt",
    "secure open": "secure open drawn.enc --plan noise.toml --key alice.secret",
    "synth check": "synth check made.csv --model model.oboro",
    "synth account": "synth account --n 1000 --dims 2 --ridge 0.1 --records 10 --delta 1e-5",
    "dynamics outliers": "dynamics outliers --eps 1 --delta 1e-3 -o outliers.html",
    "dynamics demo": "dynamics demo -o household",
    "certificate verify": "certificate verify published.csv.certificate.json",
    "check": "check people.toml",
    "forecast": "forecast plan.toml",
    "demo": "demo -o city",
    "reproduce": "reproduce kii-table1",
    "studio": "studio nowhere/people.toml --no-browser",
    "serve": "serve nowhere.toml",  # one that starts would stay: tests/service has those
    "analyst add": "analyst add service.toml lab-3 --dataset people --eps 0.5 --per month",
    "analyst list": "analyst list service.toml",
    "analyst password": "analyst password service.toml nobody",
    "token create": "token create service.toml nobody",
    "token revoke": "token revoke service.toml 0123456789abcdef",
    "token list": "token list service.toml",
}
READING_NOTHING = {  # commands that write and read no file; what `reproduce --data` reads is tried with its page
    "reproduce",
    "secure plan",
    "secure figure",
    "dynamics outliers",
    "dynamics demo",
    "demo",
    "serve",
}
SETUP = [
    "ledger create people.ledger --dataset people --unit row --eps 1000",
    "ledger create approx.ledger --dataset people --unit row --eps 1000 --delta 0.5",
    "ledger create cells.ledger --dataset city --unit cells:1:1 --eps 1000",
    "ledger create signal.ledger --dataset household --unit signal:1 --eps 1000 --delta 0.9",
    "histogram forecast --domain domain.toml --unit row --column region --eps 0.01 --save-plan plan.toml",
    "run plan.toml people.csv --ledger people.ledger --name first -o published.csv",
    "table release grid.csv --domain grid.toml --count count --eps 1 --ledger cells.ledger --name table -o table.parquet",
    "table series --domain grid.toml --ticks 2 --max-ticks 2 --count count --eps 1 --ledger cells.ledger --name hours -o series.toml",
    "table tick hours.csv --series series.toml --tick 0 -o 00.parquet",
    "synth release people.csv --domain domain.toml --ledger approx.ledger --eps 1 --delta 1e-9 -o model.oboro",
    "synth sample model.oboro -n 30 -o made.csv",
    "dynamics release load.csv --system system.toml --column load --eps 1 --delta 1e-3 --ledger signal.ledger -o output.csv",
    "secure plan --eps 2 --delta 1e-2 --urns 1 -o noise.toml",
    "secure keys alice",
    "secure keys bob",
    "secure encrypt 7 --low 0 --high 20 --key alice.public -o answer.enc",
    "secure urns --plan noise.toml --key alice.secret -o urns.enc",
    "ledger export people.ledger -o export.json",
]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Terminal(io.StringIO):
    """A screen that keeps everything that is sent to it, escape codes too."""

    def isatty(self) -> bool:
        return True


def typed(folder: Path, words: list[str], out: Any = "", err: Any = "", **environment: str) -> Result:
    """Types one command; `out` and `err` stand for the terminal, and None for none at all."""
    out, err = (io.StringIO() if stream == "" else stream for stream in (out, err))
    with (
        chdir(folder),
        mock.patch.dict(os.environ, {"COLUMNS": "200", **environment}),
        mock.patch.object(sys, "argv", ["oboro", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    said = [stream.getvalue() if isinstance(stream, io.StringIO) else "" for stream in (out, err)]
    return Result(code, *said)


def make_world(folder: Path, names: Mapping[str, str] = {}) -> Path:
    """Fills a folder; `names` are what things in it are called otherwise."""
    for name, text in {
        "people.csv": PEOPLE,
        "people.toml": DECLARED,
        "domain.toml": COLUMNS,
        "grid.toml": GRID,
        "grid.csv": "row,col,count\n0,0,5\n3,4,2\n7,7,1\n",
        "hours.csv": "tick,row,col,count\n0,0,0,5\n1,3,4,2\n1,7,7,1\n",
        "system.toml": SYSTEM,
        "service.toml": SERVICE,
        "load.csv": "load\n" + "0.5\n" * 9,
    }.items():
        path = folder / names.get(name, name)
        if path.suffix == ".parquet":  # in which any text is a name
            rows = [[names.get(word, word) for word in line.split(",")] for line in text.splitlines()]
            columns = {head: [_value(row[i]) for row in rows[1:]] for i, head in enumerate(rows[0])}
            pq.write_table(pa.table(columns), path)
        elif name.endswith(".csv"):
            path.write_text(text)
        else:
            path.write_text(re.sub(r'"([\w.]+)"', lambda found: in_toml(names.get(found[1], found[1])), text))
    for line in SETUP:
        made = typed(folder, words_of(line, names))
        assert made.code == 0, (line, made.err)
    budget = ob.Conditional(ob.Approx(1000, "0.9"), ob.secure.ASSUMPTION)
    with ob.Ledger.create(
        folder / "secure.ledger", dataset="sum", unit=ob.Unit.row(), budget=budget
    ) as ledger:
        assert ledger.id
    return folder


def _value(text: str) -> Any:
    return float(text) if "." in text else int(text) if text.isdigit() else text


def in_toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def words_of(line: str, names: Mapping[str, str] = {}) -> list[str]:
    """A line as it is typed where things are called otherwise. The first word is always a command."""
    first, *rest = line.split()
    return [first, *(names.get(word, word) for word in rest)]


@contextmanager
def copied(world: Path, to: Path) -> Iterator[Path]:
    """A copy that may be spoiled."""
    shutil.copytree(world, to)
    yield to
    shutil.rmtree(to)


def commands() -> dict[str, Any]:
    """Every command that the program knows, by its words."""

    def walk(group: Any, before: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{before}{name} ")
            else:
                yield f"{before}{name}", command

    return dict(walk(whole_command("en"), ""))


def reservations(folder: Path) -> dict[str, int]:
    """How many times each ledger was charged."""
    counts = {}
    for path in sorted(folder.glob("*.ledger")):
        with ob.Ledger.open(path) as ledger:
            counts[path.name] = sum(entry.kind == "reserve" for entry in ledger.history())
    return counts
