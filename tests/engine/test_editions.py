"""What was opened is what is answered from, or the question is refused by facts that anyone sees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import oboro as ob
from oboro.errors import DataError

REPLACED = ob.Unit.row("replace")
DOMAIN = ob.Domain([ob.Integer("x", 0, 100, missing=0)])


def write(path: Path, values: list[int]) -> Path:
    table = pa.table({"x": pa.array(values, pa.int32())})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        path.write_text("x\n" + "".join(f"{value}\n" for value in values))
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> ob.Ledger:
    return ob.Ledger.create(tmp_path / "l.ledger", dataset="d", unit=REPLACED, budget=ob.Pure(50))


def grown(path: Path) -> None:
    write(path, [0] * 1000)


def replaced(path: Path) -> None:
    stat = path.stat()
    write(path.with_name("other" + path.suffix), [1] * 10).rename(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("form", ["p.csv", "p.parquet", "p.arrow"])
@pytest.mark.parametrize("change", [grown, replaced, touched, gone])
@pytest.mark.few(4, "editions")
def test_a_session_does_not_answer_from_another_edition(
    tmp_path: Path, ledger: ob.Ledger, form: str, change: Any
) -> None:
    path = write(tmp_path / form, [0] * 10)
    session = ob.Session(path, domain=DOMAIN, ledger=ledger)
    session.variance("x", eps=1)
    session.histogram("x", eps=1)
    plan = session.plan.variance("x", eps=1)
    change(path)
    asked = (
        lambda: session.variance("x", eps=1),
        lambda: session.sum("x", eps=1),
        lambda: session.histogram("x", eps=1),
    )
    for ask in asked:
        with pytest.raises(DataError, match="has changed since it was opened"):
            ask()
    assert ledger.spent == ob.Pure(2)
    if change is grown:  # a plan has the n that it was made for, and says so
        with pytest.raises(DataError, match="another number of units"):
            ob.run(plan, path, ledger)
    elif change is not gone:
        ob.run(plan, path, ledger)


@pytest.mark.parametrize("form", ["p.csv", "p.parquet", "p.arrow"])
def test_a_file_that_grows_while_it_is_read_is_not_answered_from(
    tmp_path: Path, ledger: ob.Ledger, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the count of units and the sums: the worst moment."""
    from oboro.statistics import scope

    path = write(tmp_path / form, [0] * 10)
    plan = ob.Session(path, domain=DOMAIN, ledger=ledger).plan.variance("x", eps=1)
    count = scope.count_units

    def count_and_grow(source: ob.engine.Source, unit: ob.Unit) -> int:
        found = count(source, unit)
        write(path, [0] * 9 + [100])
        return found

    monkeypatch.setattr(scope, "count_units", count_and_grow)
    with pytest.raises(DataError, match="has changed"):
        ob.run(plan, path, ledger)
    assert ledger.spent == ob.Pure(0)


def in_place() -> tuple[Any, Any]:
    frame = pd.DataFrame({"x": np.zeros(10)})
    return frame, lambda: frame.loc.__setitem__((0, "x"), 100.0)


def whole_numbers() -> tuple[Any, Any]:
    frame = pd.DataFrame({"x": pd.array([0] * 10, dtype="Int64")})
    return frame, lambda: frame.loc.__setitem__((0, "x"), 100)


def columns() -> tuple[Any, Any]:
    array = np.zeros(10, np.int64)
    return {"x": array}, lambda: array.__setitem__(0, 100)


def series() -> tuple[Any, Any]:
    one = pd.Series(np.zeros(10))
    return {"x": one}, lambda: one.__setitem__(0, 100.0)


def a_list() -> tuple[Any, Any]:
    values = [0] * 10
    return {"x": values}, lambda: values.extend([100] * 5)


def relation() -> tuple[Any, Any]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 0 AS x FROM range(10)")
    return connection.table("t"), lambda: connection.execute("INSERT INTO t SELECT 100 FROM range(90)")


def lazy() -> tuple[Any, Any]:
    values = [0] * 10
    frame = pl.LazyFrame({"i": range(10)}).select(
        x=pl.col("i").map_batches(lambda _: pl.Series(list(values)))
    )
    return frame, lambda: values.__setitem__(0, 100)


@pytest.mark.parametrize("make", [in_place, whole_numbers, columns, series, a_list, relation, lazy])
def test_data_in_memory_is_taken_as_it_was(ledger: ob.Ledger, make: Any) -> None:
    data, change = make()
    session = ob.Session(data, domain=DOMAIN, ledger=ledger)
    plan = session.plan.sum("x", eps=1)
    change()
    assert session.n == 10
    assert int(plan.prepare(session.source).sum()) == 0  # type: ignore[attr-defined]


def test_the_facts_are_those_of_the_file_and_not_of_a_link_to_it(tmp_path: Path, ledger: ob.Ledger) -> None:
    first, second = write(tmp_path / "a.csv", [0] * 10), write(tmp_path / "b.csv", [0] * 1000)
    link = tmp_path / "link.csv"
    link.symlink_to(first)
    session = ob.Session(link, domain=DOMAIN, ledger=ledger)
    link.unlink()
    link.symlink_to(second)
    with pytest.raises(DataError, match="has changed"):
        session.sum("x", eps=1)


def test_a_folder_left_behind_does_not_change_what_a_path_means(
    tmp_path: Path, ledger: ob.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "p.csv", [0] * 10)
    write(tmp_path / "elsewhere" / "p.csv", [0] * 1000)
    monkeypatch.chdir(tmp_path)
    session = ob.Session("p.csv", domain=DOMAIN, ledger=ledger)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert session.sum("x", eps=1).value is not None
    assert session.n == 10
