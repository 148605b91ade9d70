"""Whatever a published file holds, who reads it gets an answer or an error of oboro's: forged and damaged files of every strategy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from oboro import report, tables
from oboro.errors import DataError
from oboro.release import plan_from
from oboro.release.plan import encoded
from oboro.tables.plan import TablePlan
from oboro.tables.tree.intervals import NOISY, PLAN, _packed, _unpacked, plan_in
from support import repeatable

UNIT = ob.Unit.cells()
GRID = ob.Grid("row", "col", shape=(32, 32))
SEX = ob.Category("sex", ["F", "M"])
EXTREMES = (0, 1, -1, 2, 31, 62, 63, 64, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63))
Random = np.random.Generator


def towns() -> ob.Areas:
    row, col = (part.reshape(-1) for part in np.mgrid[:8, :8])
    table = pa.table(
        {"town": [f"t{(r // 4) * 2 + c // 4}" for r, c in zip(row, col, strict=True)], "row": row, "col": col}
    )
    return ob.Areas(
        "row,col", levels=["town", "row,col"], table=table, of=ob.Grid("row", "col", shape=(8, 8))
    )


def plans() -> dict[str, Any]:
    one, two, areas = ob.Domain([GRID]), ob.Domain([GRID, SEX]), ob.Domain([towns(), SEX])
    asked: dict[str, Any] = {"unit": UNIT, "count": "n", "eps": 1}
    return {
        "tree": lambda: tables.plan(one, strategy="tree", **asked),
        "tree of two columns": lambda: tables.plan(two, strategy="tree", **asked),
        "tree with few empty cells": lambda: tables.plan(one, strategy="tree", publish="0.1", **asked),
        "wavelet": lambda: tables.plan(one, strategy="wavelet", **asked),
        "filtered": lambda: tables.plan(one, strategy="filtered", **asked),
        "adaptive": lambda: tables.plan(one, strategy="adaptive", **asked),
        "tree that looks": lambda: tables.plan(one, strategy="adaptive", workload=tables.blocks(), **asked),
        "sized": lambda: tables.plan(one, strategy="sized", workload=tables.cells(), **asked),
        "sized for blocks": lambda: tables.plan(one, strategy="sized", **asked),
        "areas": lambda: tables.plan(areas, strategy="tree", **asked),
    }  # fmt: skip


def released(name: str) -> pa.Table:
    plan = plans()[name]()
    rng = np.random.default_rng(4)
    side = 8 if name == "areas" else 32
    places = rng.choice(side * side, 40, replace=False)
    data = {
        "row": places // side,
        "col": places % side,
        "n": rng.integers(1, 400, 40),
        "sex": ["F", "M"] * 20,
    }
    return plan.publish(plan.measure(plan.prepare(pa.table(data)), repeatable("forged")))


# -- what is done to a table -----------------------------------------------------------------------------------------------


def arrays_changed(table: pa.Table, rng: Random) -> pa.Table:
    """The noisy counts: other numbers, other lengths, other orders, other arrays."""
    metadata = dict(table.schema.metadata)
    arrays = [_unpacked(line) for line in metadata[NOISY].split(b"\n")]
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(arrays)))
        arrays[place] = numbers_changed(arrays[place], rng)
        if rng.random() < 0.2:
            kind = int(rng.integers(3))
            if kind == 0 and len(arrays) > 1:
                del arrays[place]
            elif kind == 1:
                arrays.insert(place, arrays[int(rng.integers(len(arrays)))])
            else:
                other = int(rng.integers(len(arrays)))
                arrays[place], arrays[other] = arrays[other], arrays[place]
    metadata[NOISY] = b"\n".join(_packed(each) for each in arrays)
    return table.replace_schema_metadata(metadata)


def numbers_changed(numbers: np.ndarray[Any, Any], rng: Random) -> np.ndarray[Any, Any]:
    found = numbers.copy()
    kind = int(rng.integers(7))
    if kind == 0 or not found.size:
        return np.append(found, rng.choice(EXTREMES))
    if kind == 1:
        return found[: int(rng.integers(found.size))]
    if kind == 2:
        return found[::-1].copy()
    if kind == 3:
        return np.repeat(found, 2)
    some = rng.integers(found.size, size=int(rng.integers(1, 4)))
    if kind == 4:
        found[some] = rng.choice(EXTREMES, some.size)
    elif kind == 5:
        found[some] += rng.integers(-3, 4, some.size)
    else:
        found[:] = rng.choice(EXTREMES)
    return found


def rows_changed(table: pa.Table, rng: Random) -> pa.Table:
    """The rows: other values, fewer, twice, other columns and types."""
    kind = int(rng.integers(6))
    place = int(rng.integers(table.num_columns))
    name, column = table.column_names[place], table.column(place)
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(name, column)
    if kind == 2:
        return table.take(rng.integers(table.num_rows, size=table.num_rows))
    if kind == 3:
        return table.slice(0, int(rng.integers(table.num_rows)))
    if kind == 4:
        return table.set_column(place, name, column.cast(pa.string()))
    values = column.to_pylist()
    for at in rng.integers(len(values), size=3):
        values[at] = None if rng.random() < 0.3 or isinstance(values[at], str) else int(rng.choice(EXTREMES))
    return table.set_column(place, name, pa.array(values, column.type))


def footer_changed(table: pa.Table, rng: Random) -> pa.Table:
    """The bytes of what lies in the metadata."""
    metadata = dict(table.schema.metadata)
    key = PLAN if rng.random() < 0.5 else NOISY
    content = bytearray(metadata[key])
    for _ in range(int(rng.integers(1, 4))):
        content[int(rng.integers(len(content)))] = int(rng.choice(list(b'0123456789+ \n"{}[],:-ne')))
    if rng.random() < 0.2:
        content = content[: int(rng.integers(len(content)))]
    metadata[key] = bytes(content)
    return table.replace_schema_metadata(metadata)


def plan_changed(table: pa.Table, rng: Random) -> pa.Table:
    """One entry of the plan: gone, or something else."""
    metadata = dict(table.schema.metadata)
    record = json.loads(metadata[PLAN])
    places = list(_places(record))
    within, key = places[int(rng.integers(len(places)))]
    if rng.random() < 0.3:
        del within[key]
    else:
        within[key] = [None, True, "", "x", [], {}, 0, 1, -1, 7, 2**63, 1e300, "1/3"][int(rng.integers(13))]
    metadata[PLAN] = json.dumps(record).encode()
    return table.replace_schema_metadata(metadata)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


CHANGES: tuple[Callable[[pa.Table, Random], pa.Table], ...] = (arrays_changed, rows_changed, footer_changed, plan_changed)  # fmt: skip


# -- who reads it ------------------------------------------------------------------------------------------------------------


def readings(table: pa.Table, folder: Path, map: bool = False) -> Iterator[Callable[[], object]]:
    file = folder / "published.parquet"
    where: list[dict[str, Any]] = [{}, {"row": (0, 3), "col": (0, 3)}, {"row": (1, 6), "col": (2, 5)}]
    where += [{"row": 4, "col": 5}, {"row": 0, "col": 0}]
    if table.num_rows and {"row", "col"} <= set(table.column_names):
        first = table.slice(0, 1).to_pylist()[0]
        if isinstance(first["row"], int) and isinstance(first["col"], int):
            where.append({"row": first["row"], "col": first["col"]})
    yield from ((lambda part=part: tables.ask(table, part)) for part in where)
    yield lambda: pq.write_table(table, file)
    yield lambda: tables.ask(file, where[1])
    yield lambda: tables.unallocated(table)

    def rows() -> object:
        plan = plan_from(plan_in(table))
        if not isinstance(plan, TablePlan):
            return None
        if plan.intervals is not None:
            plan.intervals(table, 0.95)
        return report.write_map(table, plan.domain, folder / "map.html") if map else None

    yield rows


def foreign(table: pa.Table, folder: Path, map: bool = False) -> str | None:
    """An error that is not oboro's, of one who reads this."""
    for reading in readings(table, folder, map):
        try:
            reading()
        except ob.OboroError:
            continue
        except Exception as error:
            return repr(error)
    return None


def attacked(name: str, tries: int, seed: int, folder: Path) -> list[str]:
    table = released(name)
    rng = np.random.default_rng(seed)
    changes = CHANGES if NOISY in (table.schema.metadata or {}) else (rows_changed,)
    found = []
    for number in range(tries):
        change = changes[number % len(changes)]
        try:
            changed = change(table, rng)
        except (pa.ArrowException, OverflowError):  # no table can hold that
            continue
        if (wrong := foreign(changed, folder, map=number % 8 == 0)) is not None:
            found.append(f"{name}, {number}, {change.__name__}: {wrong}")
    return found


@pytest.mark.parametrize("name", list(plans()))
@pytest.mark.long("forged files")
def test_forged_files_of_every_strategy_end_in_our_errors(name: str, tmp_path: Path) -> None:
    assert not attacked(name, 24, 1, tmp_path)


@pytest.mark.long("forged files")
def test_a_filtered_file_whose_arrays_do_not_hang_together_is_refused(tmp_path: Path) -> None:
    table = released("filtered")
    arrays = [_unpacked(line) for line in table.schema.metadata[NOISY].split(b"\n")]
    live, held, facts, keys, noisy, *rest = arrays

    def asked(*changed: Any) -> None:
        packed = b"\n".join(_packed(np.asarray(each, np.int64)) for each in changed)
        forged = table.replace_schema_metadata({**table.schema.metadata, NOISY: packed})
        assert foreign(forged, tmp_path) is None
        with pytest.raises(DataError, match="cannot be read"):
            tables.ask(forged, {"row": (0, 3)})
        with pytest.raises(DataError, match="cannot be read"):
            tables.unallocated(forged)

    tables.ask(table, {"row": (0, 3)})
    asked(live, held, facts, keys, noisy, *rest[:-1])
    asked(live, held, facts, keys, noisy)
    asked(live, held, facts, keys[:-1], noisy[:-1], *rest)
    asked(live[::-1], held, facts, keys, noisy, *rest)
    asked(live + 2**40, held, facts, keys, noisy, *rest)
    asked(live, -held - 1, facts, keys, noisy, *rest)
    asked(live[:1], held[:1], facts, keys, noisy, *rest)
    asked(live, held, facts[:-1], keys, noisy, *rest)
    for place in range(3, facts.size):
        for wrong in (-1, 3, 62, 2**62):
            other = facts.copy()
            other[place] = wrong
            if (other != facts).any():
                asked(live, held, other, keys, noisy, *rest)


def test_rows_in_another_order_get_no_interval_of_others(tmp_path: Path) -> None:
    """Sorted by their counts, say, before they are mapped: intervals are by place, and each row has its own."""
    table = released("tree")
    plan = plan_from(json.loads(table.schema.metadata[PLAN]))
    assert isinstance(plan, TablePlan)
    assert plan.intervals is not None
    low, high = plan.intervals(table, 0.95)
    assert (low <= table["n"].to_numpy()).all()
    for other in (table.sort_by([("n", "descending")]), table.slice(0, 9).take([0] * 9)):
        with pytest.raises(DataError, match="not in their order"):
            plan.intervals(other, 0.95)
    few = table.slice(0, 9)  # some of the rows are as good
    assert plan.intervals(few, 0.95)[1].tolist() == high[:9].tolist()


def test_an_arrow_file_whose_texts_lie_beyond_its_bytes_is_refused(tmp_path: Path) -> None:
    """Whoever follows such an offset reads foreign memory, and the program dies."""
    path, table = tmp_path / "a.arrow", released("tree of two columns")
    place = table.column_names.index("sex")
    table = table.set_column(place, "sex", table["sex"].combine_chunks().cast(pa.string()))
    path.write_bytes(encoded(table, ".arrow"))
    tables.ask(path, {"sex": "F"})
    whole, offsets = path.read_bytes(), np.arange(table.num_rows + 1, dtype="<i4").tobytes()
    assert whole.count(offsets) == 1  # of labels of one letter
    at = whole.index(offsets) + 4 * (table.num_rows // 2) + 3
    path.write_bytes(whole[:at] + b"\x40" + whole[at + 1 :])
    with pytest.raises(DataError, match="cannot be read"):
        tables.ask(path, {"sex": "F"})
