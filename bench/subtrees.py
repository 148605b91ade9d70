"""Tables whose sub-trees are measured by two workers, beside the same in one piece: processor time, and memory of each process.

CELLS=1e7 python -m bench subtrees          (CELLS=1e6 by default; STRATEGY=filtered for one of them; STRATEGY=tree for the largest of those)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure import Row

LEVELS = 50  # 2^50 cells in all
PEOPLE = {
    "filtered": 300,
    "wavelet": 10,
}  # in a cell on average; of fewer among so many cells `filtered` would publish none
LIMIT = 3.0  # GB for each process
ONE_PIECE = 10**7  # of more cells, so many are measured in one piece, and compared by what a cell costs
_ONE = """
import json, resource, sys, time
from pathlib import Path
import oboro as ob
from oboro.noise import system_bits
from oboro.tables.subtrees.spread import Spread

start = time.monotonic()
data, strategy, workers, into = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
domain = ob.Domain([ob.Grid("row", "col", shape=(2 ** int(sys.argv[5]),) * 2)])
plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps=1, count="people", strategy=strategy)
if workers:
    with Spread(data, workers, None if strategy == "tree" else into) as spread:
        measured = plan.measure(plan.prepare(plan.open(spread)), system_bits())
        rows = measured.keys.size if strategy == "tree" else sum(part.rows for part in measured.found)
else:
    prepared = plan.prepare(plan.open(data))
    measured = plan.measure(prepared, system_bits())
    rows = measured.keys.size
    del prepared
if strategy == "tree" or not workers:
    (Path(into) / "one.parquet").write_bytes(plan.encoded(plan.publish(measured), ".parquet"))
own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
clock = time.monotonic() - start
print(json.dumps({"rows": rows, "cpu": cpu, "clock": clock, "driver": own.ru_maxrss / 2**20, "worker": others.ru_maxrss / 2**20}))
"""


def rows() -> Iterator[Row]:
    cells = int(float(os.environ.get("CELLS", "1e6")))
    with tempfile.TemporaryDirectory() as place:
        for strategy in os.environ.get("STRATEGY", "filtered wavelet").split():
            if strategy == "tree":
                yield from listed(Path(place))
                continue
            people = PEOPLE[strategy]
            fewer = min(cells, ONE_PIECE)
            one = measured(written(fewer, Path(place), people), strategy, 0)
            two = measured(written(cells, Path(place), people), strategy, 2)
            name = f"{strategy}, {cells:.0e} cells in 2^50"
            beside = "one piece" if fewer == cells else f"one piece, {fewer:.0e}"
            theirs, ours = (
                found["cpu"] / size / LEVELS * 1e9 for found, size in ((one, fewer), (two, cells))
            )
            target = 0.5 if cells >= ONE_PIECE else None  # of fewer the start of processes weighs more
            yield Row(f"{name}, two workers, CPU", two["cpu"], beside, one["cpu"], "s", theirs / ours, target)
            yield Row(f"{name}, two workers, clock", two["clock"], beside, one["clock"], "s", theirs / ours)
            yield Row(f"{name}, a cell level", ours, beside, theirs, "ns", theirs / ours, target)
            for process in ("driver", "worker"):
                yield Row(
                    f"{name}, {process} (limit 3 GB)",
                    two[process],
                    beside,
                    one["driver"],
                    "GB",
                    LIMIT / two[process],
                    1.0,
                )


def listed(place: Path) -> Iterator[Row]:
    """The largest tree that there is: it lists every cell, so that it needs the same however few hold anybody."""
    data = written(10**6, place, 300, bits=13)
    for workers, how in ((0, "in one piece"), (2, "by two workers")):
        found = measured(data, "tree", workers, bits=13)
        name = f"tree, 2^26 cells {how} ({found['cpu']:.0f} s of CPU)"
        yield Row(name, found["driver"], "limit", LIMIT, "GB", LIMIT / found["driver"], 1.0)


def measured(data: Path, strategy: str, workers: int, bits: int = LEVELS // 2) -> dict[str, Any]:
    """In a process of its own, from a Parquet file to Parquet."""
    with tempfile.TemporaryDirectory() as into:
        done = subprocess.run(
            [sys.executable, "-c", _ONE, str(data), strategy, str(workers), into, str(bits)],
            stdout=subprocess.PIPE,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def written(cells: int, folder: Path, mean: int, bits: int = LEVELS // 2) -> Path:
    """Cells at places that come in clusters, as people do: more bits of a place are 0 than 1."""
    path, random = folder / "cells.parquet", np.random.default_rng(1)
    schema = pa.schema([("row", pa.int32()), ("col", pa.int32()), ("people", pa.int32())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, cells, 1 << 20):
            size = min(1 << 20, cells - start)
            row, col = (
                np.bitwise_and(*random.integers(0, 2**bits, (2, size), dtype=np.int32)) for _ in range(2)
            )
            people = random.geometric(1 / mean, size).astype(np.int32)
            writer.write_table(pa.table([row, col, people], schema=schema))
    return path
