"""Apache Spark on `local[2]`: sums, counts and bounded sums, against Spark's own aggregation of the same columns, and DuckDB's cost.

In an environment with the extra `spark`, and with Java: `.venv-spark/bin/python -m bench cluster` after `make test-spark`.
Processor time of the Java process and of this one, in the same run, by turns. ROWS in the environment says how many rows: 10^8 by default.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oboro as ob
from bench.measure import Row, tree_time
from oboro.engine import add_up, count_cells, open_data

ROWS = int(float(os.environ.get("ROWS", "1e8")))
X = ob.Integer("x", 0, 999)
PERSON = ob.Unit.person("who", 10)


def rows() -> Iterator[Row]:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "rows.parquet")
        builder = SparkSession.builder.master("local[2]").config("spark.log.level", "OFF")
        builder = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "4g")
        )
        session = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
        plain, ours, duck = (
            session.read.parquet(path),
            ob.engine.spark(session).parquet(path),
            open_data(path),
        )
        persons = plain.groupBy("who").agg(f.count("x").alias("n"), f.sum("x").alias("s"))
        for what, mine, theirs, ratio in (
            (
                "clamped sum",
                lambda s: add_up(s, [X], [(), (0,)], ob.Unit.row()),
                lambda: plain.agg(f.count("x"), f.sum("x")).collect(),
                1.5,
            ),
            (
                "histogram",
                lambda s: count_cells(s, [X], ob.Unit.row()),
                lambda: plain.groupBy("x").count().collect(),
                1.5,
            ),
            (
                "sums of bounded persons",
                lambda s: add_up(s, [X], [(), (0,)], PERSON),
                lambda: persons.agg(f.sum("n"), f.sum("s")).collect(),
                4,
            ),
        ):
            took = {"ours": 1e9, "theirs": 1e9, "duck": 1e9}
            for _ in range(1 if ROWS >= 10**8 and "persons" in what else 3):  # minutes of processor time each
                took["theirs"] = min(took["theirs"], spent(theirs))
                took["ours"] = min(took["ours"], spent(lambda: mine(ours)))  # noqa: B023
                took["duck"] = min(took["duck"], spent(lambda: mine(duck)))  # noqa: B023
            name = f"{what}, Spark, {ROWS:.0e} rows"
            yield Row(
                name,
                took["ours"],
                "plain Spark",
                took["theirs"],
                "s of processor",
                took["theirs"] / took["ours"],
                1 / ratio,
            )
            yield Row(
                f"{what}, DuckDB",
                took["duck"],
                "ours on Spark",
                took["ours"],
                "s of processor",
                took["ours"] / took["duck"],
            )
        session.stop()


def write(path: Path) -> str:
    """A tenth of the rows a person each on average, so that four persons in ten are above the limit."""
    draw, some = np.random.default_rng(1), min(ROWS, 10**6)
    schema = pa.schema([("who", pa.int64()), ("x", pa.int64())])
    with pq.ParquetWriter(path, schema) as file:
        for _ in range(ROWS // some):
            file.write_table(
                pa.table({"who": draw.integers(0, ROWS // 10, some), "x": draw.integers(-9, 1010, some)})
            )
    return str(path)


def spent(work: Callable[[], Any]) -> float:
    """Processor time of Java and of this process."""
    start = tree_time()
    work()
    return tree_time() - start
