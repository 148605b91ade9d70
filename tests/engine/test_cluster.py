"""Apache Spark gives the integers of DuckDB and of Python; nothing of it depends on a value but those integers.

Needs Java and the extra `spark`: `make test-spark` makes an environment of its own for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from engine.conformance import AGE, answers, differences, expected, nasty
from oboro.engine import add_up, open_data
from oboro.privacy import Unit

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:.*pandas.*:FutureWarning"),
]
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
FEW = (
    Unit.row(),
    Unit.person("who", 3),
    Unit.person("named", 1),
    Unit.person("nearly", 3),
    Unit.person("exact", 200),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config(
        "spark.sql.warehouse.dir", str(folder / "warehouse")
    )
    for name, value in QUIET.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    yield made
    made.stop()


def written(table: pa.Table, folder: Path, name: str = "nasty") -> str:
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=max(100, table.num_rows // 4))
    return str(path)


def test_spark_answers_a_session(session: Any, folder: Path) -> None:
    path = written(pa.table({"x": [1, 2, 300, None], "name": ["a", "a", "a", "b"]}), folder, "smoke")
    source = ob.engine.spark(session).parquet(path)
    assert add_up(source, [AGE], [(), (0,)], Unit.person("name", 2)) == add_up(
        open_data(path), [AGE], [(), (0,)], Unit.person("name", 2)
    )
    ledger = ob.Ledger.create(folder / "smoke.ledger", dataset="smoke", unit=Unit.row(), budget=ob.Pure(10))
    people = ob.Session(source, domain=ob.Domain([AGE]), ledger=ledger)
    release = people.sum("x", eps=5)
    assert source.engine in release.certificate.record["software"]
    assert source.engine.startswith("Spark 4")


@pytest.mark.long("Spark: conformance")
def test_spark_gives_the_integers_of_duckdb_and_of_python(session: Any, folder: Path) -> None:
    table = nasty(3000)
    found = dict(answers(ob.engine.spark(session).parquet(written(table, folder)), FEW))
    assert differences(iter(found.items()), expected(table, FEW)) == []
    assert differences(iter(found.items()), answers(open_data(table), FEW)) == []


@pytest.mark.long("Spark: conformance")
def test_a_million_rows_give_the_same_integers(session: Any, folder: Path) -> None:
    table, units = nasty(1_000_000, seed=2), (Unit.row(), Unit.person("named", 3))
    path = written(table, folder, "million")
    found = dict(answers(ob.engine.spark(session).parquet(path), units))
    assert differences(iter(found.items()), answers(open_data(path), units)) == []
    assert differences(iter(found.items()), expected(table, units)) == []
