"""One name means one column, for whoever reads it; and one path means one file, wherever the program stands later."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import oboro as ob
from oboro.engine import count_cells, open_data
from oboro.engine.arrays import held
from oboro.statistics import where
from oboro.statistics.where import parse

TWICE = [
    ["x", "X", "X_1"],
    ["x", "x", "x_1"],
    ["x_1", "X", "x"],
    ["é", "É", "É_1"],
    ["", "v0"],
    ["a\0b", "a"],
]


def _parquet(table: Any, folder: Path) -> Any:
    pq.write_table(table, folder / "d.parquet")
    return folder / "d.parquet"


def _parquet_with_times(table: Any, folder: Path) -> Any:
    return _parquet(table.append_column("t", pa.array([0] * len(table), pa.timestamp("ms"))), folder)


def _feather(table: Any, folder: Path) -> Any:
    feather.write_feather(table, folder / "d.arrow", compression="uncompressed")
    return folder / "d.arrow"


def _csv(table: Any, folder: Path) -> Any:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lines = [table.column_names, *([str(value) for value in row] for row in rows)]
    (folder / "d.csv").write_bytes("".join(",".join(line) + "\n" for line in lines).encode())
    return folder / "d.csv"


def _pandas(table: Any, folder: Path) -> Any:
    return pd.DataFrame(
        np.stack([column.to_numpy() for column in table.columns], 1), columns=table.column_names
    )


FILES: dict[str, Callable[[Any, Path], Any]] = {
    "Parquet": _parquet,
    "Parquet with times": _parquet_with_times,
    "Arrow file": _feather,
    "CSV": _csv,
}
WAYS = FILES | {
    "Arrow": lambda table, folder: table,
    "batch": lambda table, folder: table.to_batches()[0],
    "pandas": _pandas,
}


@pytest.mark.parametrize(
    ("names", "way"),
    # in a text file a column without a name is called by its place
    [(names, way) for names in TWICE for way in WAYS if way != "CSV" or "" not in names],
)
def test_columns_that_duckdb_would_rename_are_refused(names: list[str], way: str, tmp_path: Path) -> None:
    table = pa.table([pa.array([place, place]) for place in range(len(names))], names=names)
    with pytest.raises(ob.errors.DataError) as refused:
        open_data(WAYS[way](table, tmp_path))
    assert "name" in str(refused.value)
    if way == "CSV":  # the first line of a text file may be a record
        assert repr(names[0]) not in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
def test_every_reader_finds_the_same_column_by_a_name(way: str, tmp_path: Path) -> None:
    names = ["x", "Y", "y_1", "X_1", "é", "e\u0301", "q'\"q", " "]
    table = pa.table([pa.array([place, place]) for place in range(len(names))], names=names)
    source = open_data(WAYS[way](table, tmp_path))
    for place, name in enumerate(names):
        column = ob.Integer(name, 0, 9)
        cells, counts = count_cells(source, [column], ob.Unit.row())
        assert (cells.tolist(), counts.tolist()) == ([place], [2])
        anyway = where.Condition(where.Test(column, ">=", 0, "it is there"))
        asked, _ = count_cells(source, [column], ob.Unit.row(), anyway)  # by a query in any case
        assert asked.tolist() == [place]
        if (stored := held(source, column)) is not None:
            assert stored.add_up() == (2, 2 * place)


@pytest.mark.parametrize("way", FILES)
def test_a_file_stays_the_same_when_the_program_goes_elsewhere(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, rows in (("here", 3), ("there", 5)):
        (tmp_path / folder).mkdir()
        made = FILES[way](pa.table({"x": [1] * rows}), tmp_path / folder)
    monkeypatch.chdir(tmp_path / "here")
    source = open_data(made.name)
    os.chdir(tmp_path / "there")
    for condition in (
        None,
        parse("x >= 0", ob.Domain([ob.Integer("x", 0, 1)])),
    ):  # as it is stored, and by a query
        cells, counts = count_cells(source, [ob.Integer("x", 0, 1)], ob.Unit.row(), condition)
        assert (cells.tolist(), counts.tolist()) == ([1], [3])
