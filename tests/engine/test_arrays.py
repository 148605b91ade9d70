"""Numbers as they are stored: by the domain's rule, as DuckDB does it, whatever the type, the pieces and the nulls."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.domain import Domain, Integer, Real
from oboro.engine import Source, add_up, arrays, count_cells, open_data
from oboro.engine import arrays as tally
from oboro.engine.arrays import held
from oboro.engine.duck import DuckTable
from oboro.engine.protocol import order_of, word_of
from oboro.errors import DataError
from oboro.privacy import Unit
from oboro.statistics.where import parse

X = Integer("x", 0, 9)
ROW = Unit.row()
TYPES = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64())
COLUMNS = (
    Integer("x", 0, 100),
    Integer("x", -3, 9, step=4),
    Integer("x", 5, 50, step=5, missing=30),
    Integer("x", -1000, 1000, missing=-7),  # beyond some of the types
    Integer("x", 200, 900),
    Integer("x", 0, 5000),  # more codes than `_FEW`
    Integer("x", -(2**40), 2**40, step=2**20),
)


def queried(source: Source) -> Source:
    """The same data, read by DuckDB."""
    assert isinstance(source, DuckTable)
    return DuckTable(source.connection, source.relation, source.types)


def by_the_rule(column: Integer | Real, values: Sequence[float | None]) -> list[int]:
    codes = (column.code(value) for value in values)
    return [code for code in codes if code is not None]


def cells(found: tuple[Any, Any]) -> dict[int, int]:
    return dict(zip(found[0].tolist(), found[1].tolist(), strict=True))


@st.composite
def stored(draw: st.DrawFn) -> pa.Table:
    """A column of some type, in pieces that begin anywhere, with nulls or without."""
    kind = draw(st.sampled_from(TYPES))
    limits = np.iinfo(kind.to_pandas_dtype())
    near = st.integers(max(-20, limits.min), min(120, limits.max))
    value = st.one_of(near, st.integers(limits.min, limits.max), st.sampled_from([limits.min, limits.max]))
    nullable = st.one_of(st.none(), value) if draw(st.booleans()) else value
    pieces = draw(st.lists(st.lists(nullable, max_size=40), max_size=3))
    skipped = draw(st.integers(0, 12))
    arrays = [pa.array([0] * skipped + piece, kind).slice(skipped) for piece in pieces]
    return pa.table({"x": pa.chunked_array(arrays, kind)})


@pytest.mark.long("arrays of every type")
@given(stored(), st.sampled_from(COLUMNS), st.sampled_from([3, 8, 2**17]))
@settings(max_examples=80, deadline=None)
def test_in_memory_the_rule_is_the_same(table: pa.Table, column: Integer, block: int) -> None:
    source = open_data(table)
    codes = by_the_rule(column, table.column("x").to_pylist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_BLOCK", block)
        patch.setattr(arrays, "_READ", max(block, 5))
        assert held(source, column) is not None
        assert add_up(source, [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}
        counted = cells(count_cells(source, [column], ROW))
    assert counted == cells(count_cells(queried(source), [column], ROW))
    assert sum(counted.values()) == len(codes)
    assert sum(code * count for code, count in counted.items()) == sum(codes)


FRACTIONS = (
    *COLUMNS,
    Real("x", 0, 10, step="0.1"),
    Real("x", "-1/3", "20/3", step="1/3", missing=2),
    Real("x", 10**17, 10**17 + 100, step=1),  # doubles do not tell its values apart
    Real("x", "-1e-9", "1e-9", step="1e-12"),
)


@st.composite
def fractions(draw: st.DrawFn) -> pa.Table:
    """Floats of either width, or whole numbers, with what is not a number, infinities, halves, zeros of both signs, and nulls."""
    kind = draw(st.sampled_from([pa.float64(), pa.float32(), pa.int32(), pa.int64()]))
    steps = st.one_of(st.integers(-60, 120), st.integers(10**17 - 40, 10**17 + 140))
    width = 32 if kind == pa.float32() else 64
    odd = st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 1e300, 5e-324, 0.05, 1 / 3, 1e-12])
    value = st.one_of(steps.map(lambda n: n / 4), steps.map(float), odd, st.floats(width=width), st.none())
    if pa.types.is_integer(kind):
        value = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-60, 120), st.none())
    values = draw(st.lists(value, max_size=60))
    skipped = draw(st.integers(0, 12))
    column = pa.array([0] * skipped + values, kind, from_pandas=False).slice(skipped)
    return pa.table({"x": pa.chunked_array([column], kind)})


@pytest.mark.long("arrays of every type")
@given(fractions(), st.sampled_from(FRACTIONS), st.sampled_from([3, 2**17]))
@settings(max_examples=300, deadline=None)
def test_fractions_in_memory_follow_the_same_rule(
    table: pa.Table, column: Integer | Real, block: int
) -> None:
    source = open_data(table)
    codes = by_the_rule(column, table.column("x").to_pylist())
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(arrays, "_BLOCK", block)
        assert held(source, column) is not None
        assert add_up(source, [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}
    assert add_up(queried(source), [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 2**40)), max_size=40),
    st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_rows_beyond_the_limit_follow_the_order_of_the_protocol(
    rows: list[tuple[int, int, int]], most: int
) -> None:
    person, *codes = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    seen: Counter[tuple[int, ...]] = Counter()
    placed: dict[int, list[tuple[int, ...]]] = {}
    for row in rows:
        seen[row] += 1
        placed.setdefault(row[0], []).append((order_of(word_of(row[0]), row[1:], seen[row]), *row[1:]))
    wanted = sorted((who, *one[1:]) for who, places in placed.items() for one in sorted(places)[most:])
    assert sorted(rows[i] for i in arrays.beyond(person, codes, most)) == wanted


def test_a_null_that_is_taken_for_its_neighbour_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    column = Integer("x", 0, 100)
    source = open_data(pa.table({"x": [1, None, 3, 4, None, 6, 7, 8, 9]}))
    right = add_up(source, [column], [(), (0,)], ROW)
    present = arrays._present
    monkeypatch.setattr(arrays, "_present", lambda values: np.roll(present(values), 1))
    assert add_up(source, [column], [(), (0,)], ROW) != right == {0: [7, 38]}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Integer("x", 0, 9), pa.uint64()),
        (Integer("x", -(2**60), 2**60, step=2**40), pa.float64()),
        (Integer("x", 0, 9), pa.string()),
        (Integer("x", 0, 2**50), pa.int64()),
        (Integer("x", 2**61, 2**62, step=2**40), pa.int64()),
    ],
)
def test_the_schema_and_the_domain_alone_decide_the_way(column: Integer, kind: pa.DataType) -> None:
    for values in ([], [1, 2, None]):
        source = open_data(pa.table({"x": pa.array([1, 2, None]).slice(0, len(values)).cast(kind)}))
        assert held(source, column) is None
        codes = by_the_rule(column, values)
        assert add_up(source, [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("column", [Integer("x", 0, 100), Integer("x", -9, 6000, step=3, missing=0)])
def test_a_parquet_file_is_read_in_parts_that_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: Integer, threads: int
) -> None:
    draw = np.random.default_rng(4)
    x = pa.array(draw.integers(-100, 7000, 5000).astype(np.int16), mask=draw.random(5000) < 0.1)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": x}), path, row_group_size=700)
    monkeypatch.setattr(arrays, "_threads", lambda: threads)
    monkeypatch.setattr(arrays, "_READ", 300)
    source = open_data(path)
    stored = held(source, column)
    assert stored is not None
    assert len(stored.parts) == threads
    codes = by_the_rule(column, x.to_pylist())
    for counts_in_memory in (1, 2**22):
        monkeypatch.setattr(arrays, "_COUNTS", counts_in_memory)
        assert stored.count().tolist() == np.bincount(codes, minlength=column.size).tolist()
    assert add_up(source, [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}
    assert add_up(queried(source), [column], [(), (0,)], ROW) == {0: [len(codes), sum(codes)]}


def test_a_parquet_file_with_a_point_in_a_name_or_without_rows_is_fine(tmp_path: Path) -> None:
    for name, values in (("a.b", [1, 2, 30]), ("x", [])):
        pq.write_table(pa.table({name: pa.array(values, pa.int32())}), tmp_path / "p.parquet")
        column = Integer(name, 0, 9)
        codes = by_the_rule(column, values)
        found = add_up(open_data(tmp_path / "p.parquet"), [column], [(), (0,)], ROW)
        assert found == {0: [len(codes), sum(codes)]}
        assert cells(count_cells(open_data(tmp_path / "p.parquet"), [column], ROW)) == dict(
            zip(*np.unique(codes, return_counts=True), strict=True)
        )


def test_a_file_that_is_damaged_further_down_is_told_in_our_words(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"x": np.arange(100_000)}), path, compression="snappy", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[5000:6000] = b"\xff" * 1000
    path.write_bytes(content)
    for question in (lambda s: add_up(s, [X], [(0,)], ROW), lambda s: count_cells(s, [X], ROW)):
        with pytest.raises(DataError, match="cannot be read to its end"):
            question(open_data(path))


def test_a_question_with_groups_a_condition_or_persons_goes_to_duckdb() -> None:
    column, group = Integer("x", 0, 9), Integer("g", 0, 1)
    source = open_data(pa.table({"x": [1, 2, None, 30], "g": [0, 1, 1, 1], "who": [1, 1, 1, 1]}))
    assert add_up(source, [column], [(), (0,)], ROW, by=[group]) == {0: [1, 1], 1: [2, 11]}
    assert add_up(
        source, [column], [(), (0,)], ROW, condition=parse("g = 1", Domain([Integer("g", 0, 9)]))
    ) == {0: [2, 11]}
    assert add_up(source, [column], [()], Unit.person("who", 2)) == {0: [2]}
    assert add_up(source, [column, group], [(), (0,), (0, 1)], ROW) == {0: [3, 12, 11]}
    assert cells(count_cells(source, [column, group], ROW)) == {2: 1, 5: 1, 19: 1}


def test_sums_in_memory_do_not_overflow_64_bits() -> None:
    column = Integer("x", 0, 2**44)
    table = pa.table({"x": np.full(2**20, 2**44)})
    assert held(open_data(table), column) is not None
    assert add_up(open_data(table), [column], [(0,)], ROW) == {0: [2**64]}


@pytest.mark.parametrize("most", [None, 1, 21, 300])
def test_both_ways_to_tally_are_one(most: int | None) -> None:
    numbers = np.random.default_rng(3).integers(0, 50, 9000).astype(np.int32)
    kind = np.dtype(np.int64) if most is None else np.min_scalar_type(most)
    plain, compiled = np.zeros(51, kind), np.zeros(51, kind)
    for part in np.split(numbers, 3):
        tally.tally(plain, part, most, large=False)
        tally.tally(compiled, part, most, large=True)
    true = np.bincount(numbers, minlength=51)
    assert plain.tolist() == compiled.tolist() == np.minimum(true, most or true.max()).tolist()
    assert most is None or plain.max() == min(most, true.max())


@pytest.mark.few(14, "types of numbers")
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("ends", [(0, 100), (-100, 27), (5, 5), (0, 127), (60, 1000), (-(2**31), 2**31 - 1)])
def test_numbers_added_up_as_they_are_stored_are_the_sum_of_their_codes(
    kind: Any, ends: tuple[int, int]
) -> None:
    """Also where lines of the type are full: every value at an end, and more rows than a block by a few."""
    column, limits = Integer("x", *ends), np.iinfo(kind)
    draw = np.random.default_rng(3)
    sizes = (0, 1, arrays._LINE, arrays._WIDE + 7, 3 * arrays._WIDE - 1)
    ways = 0
    for size in sizes:
        for values in (
            draw.integers(limits.min, limits.max, size, kind, endpoint=True),
            np.full(size, limits.max, kind),
            np.full(size, limits.min, kind),
        ):
            clipped = np.clip(values.astype(object), *ends) if size else values
            wanted = size, int(sum(clipped.tolist())) - column.low * size
            piece = pa.array(values)
            assert arrays._one_by_one(piece, column) == wanted
            found = arrays._as_stored(piece, column)
            assert found in (None, wanted)
            ways += found is not None
    within = limits.min <= ends[0] and ends[1] <= limits.max
    assert ways == (3 * len(sizes) if within else 0)
    holes = pa.array(
        [None if i % 97 == 5 and i < 200 else i % 120 for i in range(arrays._WIDE + 9)],
        pa.from_numpy_dtype(kind),
    )
    assert arrays._as_stored(holes, column) in (None, arrays._one_by_one(holes, column))
    assert arrays._as_stored(pa.array([1.0]), column) is None


@pytest.mark.parametrize(
    "ends", [(0, 100), (-100, 27), (5, 5), (0, 2**30), (-(2**31), 2**31 - 1), (0, 2**40)]
)
def test_doubles_added_up_as_they_are_stored_are_the_sum_of_their_codes(ends: tuple[int, int]) -> None:
    """Halves, what is no number, what is far outside, and every value at an end; nulls in some blocks alone."""
    column, draw = Integer("x", *ends), np.random.default_rng(4)
    odd = np.asarray(
        [np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, 1e300, -1e300, -0.0, 5e-324, ends[1] + 0.5, ends[0] - 0.5]
    )
    for size in (0, 1, arrays._WIDE, 2 * arrays._WIDE + 3):
        for values in (
            draw.normal(0, 200, size),
            np.full(size, float(ends[1])),
            np.full(size, float(ends[0])),
        ):
            assert _both(pa.array(values), column)
    values = np.round(draw.normal(0, 200, 3 * arrays._WIDE) * 2) / 2
    values[arrays._WIDE : arrays._WIDE + odd.size] = odd
    assert _both(pa.array(values), column)
    holes = np.zeros(values.size, bool)
    holes[2 * arrays._WIDE + 5] = True
    assert _both(pa.array(values, mask=holes), column)
    assert _both(pa.array(values, mask=holes)[7:], column)
    assert arrays._as_doubles(pa.array([1]), column) is None
    assert arrays._as_doubles(pa.array([1.0]), Integer("x", 0, 10, step=5)) is None
    assert arrays._as_doubles(pa.array([1.0]), Real("x", 0, 10, step=1)) is None


def _both(piece: Any, column: Integer) -> bool:
    found = arrays._as_doubles(piece, column)
    return found in ([arrays._one_by_one(piece, column)] if column.size < 2**36 else [None])
