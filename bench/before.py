"""The same questions beside an older version: `git worktree add /tmp/before 40ef273` (that is 0.1), then `BEFORE=/tmp/before python -m bench before`.

Each version in a process of its own, in one environment, by turns, in processor time of all threads; the best of several after one that
is not counted. BEFORE names a checkout of the older version; without it the part has no rows. ROWS says how many, 1e4 1e6 1e7 by default. A ratio below 1 is a row that became slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from bench.measure import Row
from bench.statistics import generated

SIZES = [int(float(size)) for size in os.environ.get("ROWS", "1e4 1e6 1e7").split()]
TURNS = 9
PEOPLE = ("from a file", "in memory")
UNITS = ("a row", "a person", "a person by name")
QUESTIONS = ("mean", "histogram", "quantile", "mean of some", "means by region", "table")
LARGE = 10**7  # from here on only what bench/statistics.py asks too, which takes long enough


def rows() -> Iterator[Row]:
    before = os.environ.get("BEFORE")
    if before is None:
        print("an older version to compare with: BEFORE=/path/of/its/checkout")
        return
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(_people(size), Path(folder) / "people.parquet")
            places = PEOPLE
            if size < LARGE:
                pc.write_csv(pq.read_table(Path(folder) / "people.parquet"), Path(folder) / "people.csv")
                places = (*PEOPLE, "from a CSV file")
            for place in places:
                for unit in UNITS[: 2 if size >= LARGE else None]:
                    yield from _compared(before, folder, size, place, unit)


def _people(size: int) -> pa.Table:
    """As bench/statistics.py has them, with a name for each and a place."""
    table = generated(size)
    named = pa.array([f"p{one}" for one in table.column("user_id").to_pylist()])
    places = pa.array(table.column("income").to_numpy().astype(int) * 7919 % 1024)
    return table.append_column("name", named).append_column("place", places)


def _compared(before: str, folder: str, size: int, place: str, unit: str) -> Iterator[Row]:
    sources = (Path(__file__).parents[1] / "src", Path(before) / "src")
    asked = [_started(source, folder, place, unit) for source in sources]
    try:
        for question in QUESTIONS[: 3 if size >= LARGE else None]:
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(TURNS if size < LARGE else 4):
                for one, times in zip(asked, took, strict=True):
                    times.append(_ask(one, question))
            ours, theirs = (min(times[1:]) for times in took)
            what = f"{question}, {size:,} rows, {place}, a unit is {unit}"
            yield Row(what, ours, "before", theirs, "s", theirs / ours, 1)
    finally:
        for one in asked:
            one.communicate()


def _started(source: Path, folder: str, place: str, unit: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _ANSWERS, place, unit],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


def _ask(one: subprocess.Popen[str], question: str) -> float:
    assert one.stdin is not None
    assert one.stdout is not None
    one.stdin.write(question + "\n")
    one.stdin.flush()
    return float(one.stdout.readline())


_ANSWERS = """
import sys, time, uuid
import pyarrow.parquet as pq
import oboro as ob
place, unit = sys.argv[1:]
data = {
    "from a file": lambda: "people.parquet",
    "in memory": lambda: pq.read_table("people.parquet"),
    "from a CSV file": lambda: "people.csv",
}[place]()
domain = ob.Domain(
    [ob.Integer("age", 0, 120), ob.Integer("income", 0, 10**6), ob.Category("region", ["north", "south"])]
)
held = {
    "a row": ob.Unit.row(),
    "a person": ob.Unit.person("user_id", max_rows=20),
    "a person by name": ob.Unit.person("name", max_rows=20),
}[unit]
ledger = ob.Ledger.create(f"{uuid.uuid4()}.ledger", dataset="bench", unit=held, budget=ob.Pure(10))
session = ob.Session(data, domain=domain, ledger=ledger)
places = ob.Domain([ob.Integer("place", 0, 1023)])
plan = ob.tables.plan(places, unit=held, eps="0.001")
ask = {
    "mean": lambda: session.mean("income", eps="0.001"),
    "mean of some": lambda: session.where("age >= 65 and region = 'north'").mean("income", eps="0.001"),
    "means by region": lambda: session.by("region").mean("income", eps="0.001"),
    "histogram": lambda: session.histogram("age", edges=range(0, 121, 10), eps="0.001"),
    "quantile": lambda: session.median("income", eps="0.001"),
    "table": lambda: plan.prepare(data),
}
for line in sys.stdin:
    start = time.process_time()
    ask[line.strip()]()
    print(time.process_time() - start, flush=True)
"""
