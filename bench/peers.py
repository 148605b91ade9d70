"""Beside tmlt.analytics and PipelineDP, each in an environment of its own: mean and histogram of 10^6 rows (or ROWS) on one machine.

`make bench PART=peers` makes the environments. Processor time of all processes that take part, for one answer, in the best of
several, when everything is loaded and compiled. Ours is from a Parquet file, on DuckDB, with reservation, certificate and signature.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oboro as ob
from bench.measure import Row, seconds

ROWS = int(float(os.environ.get("ROWS", "1e6")))
HERE = Path(__file__).parents[1]
DOMAIN = ob.Domain([ob.Integer("age", 0, 120), ob.Integer("income", 0, 1_000_000)])
PEERS = {  # a name, the module that runs in its environment, and what a unit is there
    "PipelineDP": ("pipelinedp", ob.Unit.person("user_id", max_rows=10)),
    "tmlt.analytics": ("tmlt", ob.Unit.row()),
}


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        draw = np.random.default_rng(1)
        table = {
            "user_id": draw.integers(0, ROWS // 5, ROWS),
            "income": draw.integers(0, 1_000_001, ROWS),
            "age": draw.integers(0, 121, ROWS),
        }
        pq.write_table(pa.table(table), path)
        for peer, (name, unit) in PEERS.items():
            python = HERE / f".venv-{name}" / "bin" / "python"
            if not python.exists():
                print(f"{peer} is not here: make bench PART=peers makes its environment")
                continue
            theirs = _theirs(python, f"bench.beside_{name}", path)
            ledger = ob.Ledger.create(
                path.with_name(f"{name}.ledger"), dataset="people", unit=unit, budget=ob.Pure(10**6)
            )
            session = ob.Session(path, domain=DOMAIN, ledger=ledger)
            questions = {
                "mean": lambda s=session: s.mean("income", eps=1),
                "histogram": lambda s=session: s.histogram("age", edges=range(0, 121, 10), eps=1),
            }
            for what, question in questions.items():
                ours = seconds(question)
                yield Row(
                    f"{what}, {ROWS:.0e} rows, a unit is a {unit.kind}",
                    ours,
                    peer,
                    theirs[what],
                    "s of processor",
                    theirs[what] / ours,
                    10,
                )


def _theirs(python: Path, module: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [str(python), "-W", "ignore", "-m", module, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        cwd=path.parent,  # Spark leaves its warehouse where it runs
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
