"""No value raises, and none decides how another is read."""

from __future__ import annotations

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
from oboro.errors import DataError

WHOLE = ob.Integer("a", 0, 10)
LONG = 2**63 - 1


def counts(
    data: Any, column: ob.Integer | ob.Category = WHOLE, unit: ob.Unit | None = None
) -> dict[int, int]:
    cells, found = count_cells(open_data(data), [column], unit or ob.Unit.row())
    return dict(zip(cells.tolist(), found.tolist(), strict=True))


def raw(values: list[int | None], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), pa.array(values, pa.int64()).buffers())


@pytest.mark.parametrize(
    "more", ["x", 2.5, "\ud800", 2**70, 10**5000, b"\xff", object()], ids=map(str, range(7))
)
def test_one_more_value_in_a_list_does_not_change_how_the_others_are_read(more: Any) -> None:
    texts = ob.Category("a", ["1", "2"])
    for values, column in (([True] * 5, WHOLE), ([1] * 5, texts), ([1.0] * 5, WHOLE)):
        alone, together = counts({"a": values}, column), counts({"a": [*values, more]}, column)
        assert sum(abs(together.get(cell, 0) - alone.get(cell, 0)) for cell in {*alone, *together}) <= 1


@pytest.mark.parametrize(
    "more", ["\ud800", 10**5000, None, float("nan"), pd.NaT, pd.NA], ids=map(str, range(6))
)
def test_no_object_of_a_pandas_column_raises(more: Any) -> None:
    assert counts(pd.DataFrame({"a": pd.Series(["1", more], dtype=object)}))[1] == 1


def test_mixed_categories_and_odd_column_names_of_pandas() -> None:
    assert counts(pd.DataFrame({"a": pd.Categorical([1, "x", "1"])})) == {1: 2}
    assert counts(pd.DataFrame({"a": [1], 5: pd.Series(["q"], dtype=object)})) == {1: 1}
    with pytest.raises(DataError, match="two columns of one name"):
        counts(pd.DataFrame([["1", "x"]], columns=["a", "a"]))


def test_text_in_parquet_that_is_not_utf8_does_not_raise(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(pa.string(), 3, pa.array([b"1", b"\xff\xfe", b"2"]).buffers())
    pq.write_table(pa.table({"a": text}), tmp_path / "t.parquet")
    assert counts(tmp_path / "t.parquet") == {1: 1, 2: 1}
    assert counts(tmp_path / "t.parquet", unit=ob.Unit.person("a", 1)) == {1: 1, 2: 1}


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.duration("s")]
)
def test_no_moment_is_out_of_range(kind: pa.DataType) -> None:
    assert counts(pa.table({"a": raw([0, None, LONG, -LONG], kind)})) == {}


@pytest.mark.parametrize("kind", [pa.timestamp("s", "UTC"), pa.date32()])
@pytest.mark.parametrize("values", [[0, 1], [0, None], []])
@pytest.mark.parametrize("of", ["row", "people"])
def test_places_and_counts_of_dates_are_refused_by_their_type_alone(
    kind: pa.DataType, values: list[int | None], of: str
) -> None:
    days = pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    columns = {name: days if name == of else [1] * len(values) for name in ("row", "col", "people")}
    grid = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
    with pytest.raises(DataError, match="whole numbers are read from it"):
        ob.tables.check(pa.table(columns), grid, "people")


@pytest.mark.parametrize("values", [[0, 1], [0, LONG]])
def test_times_of_day_are_refused_by_their_type_alone(values: list[int]) -> None:
    with pytest.raises(DataError, match="cannot be read safely"):
        counts(pa.table({"a": raw(list(values), pa.time64("us"))}))


def test_a_table_that_cannot_be_read_is_not_printed() -> None:
    table = pa.table({"a": pa.array(np.array([1234.0], np.float16))})
    with pytest.raises(DataError) as refused:
        counts(table)
    assert "1234" not in str(refused.value)


def test_lists_of_decimals_are_no_numbers() -> None:
    assert counts(pa.table({"a": pa.array([["1.5"]]).cast(pa.list_(pa.decimal128(9, 2)))})) == {}


def test_zero_is_one_person_and_not_a_number_is_nobody() -> None:
    one = ob.Unit.person("p", 1)
    assert sum(counts(pa.table({"p": [0.0, -0.0], "a": [1, 2]}), unit=one).values()) == 1
    assert counts(pa.table({"p": [float("nan")] * 2, "a": [1, 2]}), unit=one) == {}


def test_a_path_means_one_file_and_its_own_columns(tmp_path: Path) -> None:
    folder = tmp_path / "a=7"
    folder.mkdir()
    for name, values in (("x[1]", [1]), ("x1", [2, 2]), ("y*", [1]), ("yy", [2])):
        pq.write_table(pa.table({"a": values}), folder / f"{name}.parquet")
        (folder / f"{name}.csv").write_text("a\n" + "".join(f"{value}\n" for value in values))
    for name in ("x[1]", "y*"):
        assert counts(folder / f"{name}.parquet") == counts(folder / f"{name}.csv") == {1: 1}


def test_arrow_files_are_read(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"a": [1]}), tmp_path / "t.arrow")
    assert counts(tmp_path / "t.arrow") == {1: 1}
    (tmp_path / "bad.feather").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError):
        open_data(tmp_path / "bad.feather")


def test_bounds_beyond_2_53_are_exact_for_text() -> None:
    low = 1_700_000_000_000_000_000
    column = ob.Integer("a", low, low + 100)
    values = [low, low + 1, low + 50, low + 99, low - 1, low + 101]
    assert counts(pa.table({"a": [str(value) for value in values]}), column) == {
        0: 2,
        1: 1,
        50: 1,
        99: 1,
        100: 1,
    }
