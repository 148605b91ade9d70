"""Areas: a tree that a public table gives, kept whole in every record."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob

LEVELS = ["prefecture", "municipality", "mesh"]
TABLE: dict[str, list[Any]] = {
    "prefecture": ["13", "34", "13", "34"],
    "municipality": ["13102", "34101", "13101", "34101"],
    "mesh": [53394612, 51323359, 53394611, 51323358],
}


def areas(**changed: list[Any]) -> ob.Areas:
    return ob.Areas("mesh", levels=LEVELS, table={**TABLE, **changed})


def test_cells_are_numbered_in_the_order_of_the_tree() -> None:
    own = areas()
    assert own.labels("prefecture") == ("13", "34")
    assert own.labels("municipality") == ("13101", "13102", "34101")
    assert own.bounds("prefecture").tolist() == [0, 2, 4]
    assert own.bounds("municipality").tolist() == [0, 1, 2, 4]
    assert [own.value(code) for code in range(4)] == [53394611, 53394612, 51323358, 51323359]
    assert [own.code(own.value(code)) for code in range(4)] == [0, 1, 2, 3]
    assert own.encode([53394612, 53394613, -1, 51323359]).tolist() == [1, -1, -1, 3]
    assert own.of == ob.Mesh("mesh", level="1km", region=[5132, 5339])


def test_the_order_of_the_table_does_not_matter() -> None:
    turned = {name: values[::-1] for name, values in TABLE.items()}
    assert ob.Areas("mesh", levels=LEVELS, table=turned) == areas()


def test_a_record_carries_the_areas_themselves(tmp_path: Path) -> None:
    own = ob.Domain([areas(), ob.Category("sex", ["F", "M"])])
    assert ob.Domain.from_dict(own.to_dict()) == own
    own.to_toml(tmp_path / "own.toml")
    assert ob.Domain.from_toml(tmp_path / "own.toml") == own
    assert pickle.loads(pickle.dumps(own)) == own


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_toml_file_names_the_table_beside_it(tmp_path: Path, ending: str) -> None:
    beside = tmp_path / f"areas.{ending}"
    if ending == "csv":
        rows = ["prefecture,municipality,mesh", "01,01101,53394611", "13,13101,53394612"]
        beside.write_text("\n".join(rows) + "\n")
    else:
        pq.write_table(
            pa.table(
                {"prefecture": ["01", "13"], "municipality": ["01101", "13101"], "mesh": [53394611, 53394612]}
            ),
            beside,
        )
    text = f'[[columns]]\nkind = "areas"\nname = "mesh"\nlevels = {LEVELS}\ntable = "areas.{ending}"\n'
    (tmp_path / "domain.toml").write_text(text)
    found = ob.Domain.from_toml(tmp_path / "domain.toml")["mesh"]
    assert isinstance(found, ob.Areas)
    assert found.labels("prefecture") == ("01", "13")  # a code that begins with 0 is no number


def test_cells_of_a_grid_and_cells_that_are_names() -> None:
    grid = ob.Grid("row", "col", shape=(4, 4))
    table = {"town": ["b", "a", "a"], "row": [0, 3, 1], "col": [2, 1, 1]}
    own = ob.Areas("row,col", levels=["town", "row,col"], table=table, of=grid)
    assert own.sources == ("row", "col")
    assert [own.value(code) for code in range(3)] == [(1, 1), (3, 1), (0, 2)]
    assert own.code((0, 2)) == 2
    assert own.code((0, 0)) is None
    named = ob.Areas("cell", levels=["town", "cell"], table={"town": ["b", "a"], "cell": ["x1", "x2"]})
    assert named.of is None
    assert [named.value(0), named.code("x1"), named.code("nowhere"), named.code(3)] == ["x2", 1, None, None]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mesh": [53394612, 51323359, 53394612, 51323358]}, "mesh 53394612 in municipality 13102 and 13101"),
        ({"prefecture": ["13", None, "13", "34"]}, "mesh 51323359, whose prefecture is empty"),
        (
            {"municipality": ["13102", "34101", "34101", "34101"]},
            "municipality 34101 in prefecture 13 and 34",
        ),
        ({"municipality": ["13102", "34101", "13101", "\x07"]}, "cannot be printed"),
    ],
)
def test_what_is_no_tree_is_refused_by_name(changed: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(ob.OboroError, match=said):
        areas(**changed)


def test_a_cell_that_is_listed_twice_and_what_is_no_cell_are_refused() -> None:
    table = {name: [*values, values[0]] for name, values in TABLE.items()}
    with pytest.raises(ob.OboroError, match="53394612, and 0 more"):
        ob.Areas("mesh", levels=LEVELS, table=table)
    with pytest.raises(ob.OboroError, match="no cell of the mesh"):
        ob.Areas("mesh", levels=LEVELS, table=TABLE, of=ob.Mesh("mesh", level="500m"))
    with pytest.raises(ob.OboroError, match="no column 'municipality'"):
        ob.Areas("mesh", levels=LEVELS, table={"prefecture": ["13"], "mesh": [53394611]})
    with pytest.raises(ob.OboroError, match="declared twice"):
        ob.Domain([areas(), ob.Category("prefecture", ["a"])])


def test_a_record_that_was_changed_is_refused_or_another_column() -> None:
    """Any byte of what is packed: never the same column with another tree, never a fault inside."""
    own = areas()
    record = own.to_dict()
    random = np.random.default_rng(5)
    for part in ("areas", "cells"):
        text = str(record[part])
        for _ in range(200):
            at = int(random.integers(len(text)))
            changed = text[:at] + chr(33 + int(random.integers(90))) + text[at + 1 :]
            try:
                found = ob.domain.column_from({**record, part: changed})
            except ob.OboroError:
                continue
            assert isinstance(found, ob.Areas)
            assert (found == own) == (changed == text)


def test_a_plan_that_names_a_file_is_refused() -> None:
    column = {"kind": "areas", "name": "mesh", "levels": LEVELS, "table": "areas.csv"}
    with pytest.raises(ob.OboroError, match="names a table of areas"):
        ob.Domain.from_record({"columns": [column]}, None, "the plan")
