"""DuckDB passes the conformance suite: the integers are those of plain Python. test_cluster.py does the same for Spark."""

from __future__ import annotations

from engine.conformance import answers, differences, expected, nasty
from oboro.engine import open_data
from oboro.privacy import Unit

FEW = (
    Unit.row(),
    Unit.person("who", 3),
    Unit.person("named", 1),
    Unit.person("nearly", 3),
    Unit.person("exact", 200),
    Unit.person("parted", 2),
)


def test_duckdb_gives_the_integers_of_python() -> None:
    table = nasty(800)
    assert differences(answers(open_data(table), FEW), expected(table, FEW)) == []
