"""Every column on its own: which blocks are counted, what that costs, and how well a few people among many values are known."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oboro as ob
from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError
from oboro.noise import DiscreteGaussian
from oboro.synth.codes import code_count
from oboro.synth.levels import COUNTINGS, MOST_BLOCKS, Level, counting_of, measure_column
from oboro.synth.marginals import Offers
from oboro.synth.measured import Binned, variances
from oboro.synth.model import _sampler
from oboro.synth.shape import Shape, _slopes, shape_of
from support import repeatable

NOW, EARLIER = counting_of(COUNTINGS), counting_of(1)


def _levels(
    codes: Integers, column: Any, variance: Any, bits: Any, counting=NOW, most: int = MOST_BLOCKS
) -> tuple[list[Level], list[Any]]:
    noises = [DiscreteGaussian(variance / share) for share in counting.shares(column)]
    parts, again = counting.blocks(column), counting.again
    return measure_column(codes, column, parts, noises, bits, again=again, most=most), noises


@given(
    size=st.integers(1, 3000) | st.integers(1, 2**62),
    variance=st.integers(1, 10_000),
    seed=st.integers(0, 9),
    most=st.sampled_from([1, 40, MOST_BLOCKS]),
)
@settings(deadline=None, max_examples=60)
def test_the_blocks_of_every_level_cover_the_column_once(
    size: int, variance: int, seed: int, most: int
) -> None:
    """So one unit moves one count of each level, and no part of the price is left unspent."""
    column = ob.Integer("x", 0, size - 1)
    codes = np.minimum(np.random.default_rng(seed).geometric(0.01, 500), code_count(column)) - 1
    levels, noises = _levels(codes, column, variance, ob.noise.system_bits(), most=most)
    assert len(levels) == len(noises)
    for level in levels:
        assert level.start[0] == 0
        assert level.stop[-1] == code_count(column)
        assert np.array_equal(level.start[1:], level.stop[:-1])


@pytest.mark.parametrize("counting", [NOW, EARLIER])
def test_however_many_values_stand_out_the_blocks_are_bounded_and_the_frequent_values_found(
    counting: Any, test_bits
) -> None:
    """All of 20,000 values stand out of noise this small: their number is private, and nothing of it may end the memory after payment."""
    column = ob.Integer("x", 0, 10**9)
    codes = np.random.default_rng(1).integers(0, 10**9, 20_000)
    codes[:2000] = 123_456_789
    levels, _ = _levels(codes, column, Fraction(1, 100), test_bits, counting, most=3000)
    assert max(level.start.size for level in levels) <= 3000
    assert levels[-1].start.size > 2000 or counting is EARLIER
    last = levels[-1]
    found = last.start[last.stop - last.start == 1]
    assert 123_456_789 in found


def test_a_block_that_was_counted_again_is_known_by_all_its_counts() -> None:
    """Counts of 10 and 40 with variances of 4 and 2: 30. A block that was cut is its parts, which add up to it."""
    column = ob.Integer("x", 0, 99, missing=0)
    noises: Any = [DiscreteGaussian(4), DiscreteGaussian(2)]
    halves = np.array([0, 50]), np.array([50, 100])
    levels = [
        Level(*halves, np.array([10, 5000])),
        Level(np.array([0, 50, 75]), np.array([50, 75, 100]), np.array([40, 2000, 3000])),
    ]
    shape = shape_of(levels, noises, column, 5030)
    assert shape.start.tolist() == [0, 50, 75]
    assert shape.mass == pytest.approx([30, 2000, 3000], abs=1)


def _cut_in_five(counts: list[int], block: int, sd: int) -> Floats:
    """Ten blocks of ten values, one of which was cut into five parts, whose counts came out alike; what is believed of these."""
    edges = np.arange(0, 101, 10)
    cut = np.insert(edges, block + 1, edges[block] + np.array([2, 4, 6, 8]))
    finer = np.insert(np.array(counts), block, [counts[block] // 5] * 4)
    finer[block + 4] = counts[block] // 5
    levels = [Level(edges[:-1], edges[1:], np.array(counts)), Level(cut[:-1], cut[1:], finer)]
    noises: Any = [DiscreteGaussian(sd**2)] * 2
    shape = shape_of(levels, noises, ob.Integer("x", 0, 99, missing=0), sum(counts))
    assert shape.mass.min() >= 0
    assert shape.mass.sum() == pytest.approx(sum(counts))
    inside = shape.mass[block : block + 5]
    return inside / inside.sum()


def test_parts_that_noise_hides_follow_the_blocks_beside_them() -> None:
    """Alike at a peak and at either end; never below nobody; and where noise is small, as they were counted."""
    alike = pytest.approx([0.2] * 5, abs=0.001)
    slope = list(range(100, 1100, 100))
    assert _cut_in_five(slope, 4, 1000) == pytest.approx([0.184, 0.192, 0.2, 0.208, 0.216], abs=0.001)
    assert _cut_in_five(slope, 0, 1000) == alike
    assert _cut_in_five(slope, 9, 1000) == alike
    assert _cut_in_five([100, 200, 300, 400, 500, 400, 300, 200, 100, 100], 4, 1000) == alike
    cliff = [0, 0, 0, 1000, 5000, 5000, 0, 0, 0, 0]
    assert _cut_in_five(cliff, 3, 1000) == pytest.approx([0.04, 0.12, 0.2, 0.28, 0.36], abs=0.02)
    assert _cut_in_five(cliff, 3, 1) == pytest.approx([0.2] * 5, abs=0.001)


HUGE = [
    ob.Integer("i", -(2**61), 2**61 - 1),
    ob.Integer("j", -(2**62), 2**62, step=2**40, missing=0),
    ob.Real("r", -(10**15), 10**15, "1e-3"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["quality", "marginals", "moments"])
@pytest.mark.parametrize("alone", [0, 1, 2, None])
def test_very_many_values_are_learned_without_a_warning(method: str, alone: int | None, test_bits) -> None:
    """Single values are cut out at both ends, whose middles no double tells apart; and records come from there."""
    columns = HUGE if alone is None else HUGE[alone : alone + 1]
    domain = ob.Domain(columns)
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=400, method=method)
    ends = {
        "i": [-(2**61), -(2**61) + 1, -(2**61) + 40, 2**61 - 40, 2**61 - 2, 2**61 - 1],
        "j": [-(2**62), -(2**62) + 2**40, 0, None, 2**62 - 2**40, 2**62],
        "r": [-1e15, -1e15 + 0.25, -1e15 + 2, 1e15 - 2, 1e15 - 0.25, 1e15],
    }
    data = {column.name: ends[column.name] * 20 for column in columns}
    measured = plan.publish(plan.measure(plan.prepare(data), test_bits))
    drawn = _sampler(plan, measured).draw(500, {}, np.random.default_rng(1))
    for column, codes in zip(columns, drawn, strict=True):
        middle = (codes > column.size // 8) & (codes < column.size // 8 * 7)
        assert np.count_nonzero(middle) < (250 if column.name == "j" else 50)


@pytest.mark.filterwarnings("error")
def test_a_slope_between_blocks_whose_middles_are_one_double() -> None:
    """As for the same blocks at 0: where they lie is nothing to a slope."""
    edges = np.array([0, 1, 2, 4, 5, 7, 8])
    found = []
    for base in (0, 2**62 - 100):
        mass = np.array([8.0, 6, 8, 2, 2, 1])
        found.append(_slopes(Shape(base + edges[:-1], base + edges[1:], mass, base + 8)))
    assert found[0].any()
    assert np.array_equal(*found)


@pytest.mark.parametrize("method", ["quality", "marginals", "moments"])
@pytest.mark.parametrize("price", ["eps", "rho"])
def test_one_column_is_learned_at_the_least_budget_that_can_be_planned(
    method: str, price: str, test_bits
) -> None:
    """What a plan does not say it draws, it does not draw: that noise could not be made after the payment."""
    domain = ob.Domain([ob.Category("b", ["x", "y"])])

    def planned(budget: Fraction) -> Any:
        try:
            return ob.synth.plan(domain, unit=ob.Unit.row(), method=method, **{price: budget})
        except ParameterError:
            return None

    decades = [Fraction(1, 10**place) for place in range(40)]
    last = max(place for place in range(40) if planned(decades[place]))
    assert 0 < last < 39
    plans = [planned(decades[last] * part / 20) for part in range(20, 0, -1)]
    assert None in plans
    for plan in (plans[0], [plan for plan in plans if plan][-1]):  # the least, within a tenth of it
        plan.publish(plan.measure(plan.prepare({"b": ["x"] * 9}), test_bits))


@given(
    counts=st.lists(st.integers(-50, 5000), min_size=2, max_size=40),
    width=st.integers(2, 9),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=60)
def test_whatever_was_counted_no_part_is_negative_and_all_add_up(
    counts: list[int], width: int, seed: int
) -> None:
    column = ob.Integer("x", 0, len(counts) * width - 1)
    edges = np.arange(0, column.size + 1, width)
    single = np.arange(column.size + 1)
    noisy = np.random.default_rng(seed).integers(-50, 500, column.size + 1)
    levels = [
        Level(np.append(edges[:-1], edges[-1]), np.append(edges[1:], edges[-1] + 1), np.array([*counts, 7])),
        Level(single, single + 1, noisy),
    ]
    noises: Any = [DiscreteGaussian(100), DiscreteGaussian(100)]
    shape = shape_of(levels, noises, column, 3000.0)
    assert np.isfinite(shape.mass).all()
    assert shape.mass.min() >= 0
    assert shape.mass.sum() == pytest.approx(3000)


def test_a_bell_under_much_noise_is_closer_than_by_even_splits(monkeypatch) -> None:
    """5,000 marks in 600 values; noise is the same for both, and in every run of this test."""
    column = ob.Integer("mark", 200, 799, missing=200)
    codes = np.clip(np.random.default_rng(0).normal(285, 48, 5000), 0, 599).astype(np.int64)
    real = np.bincount(codes // 20, minlength=30)

    def away() -> float:
        found = []
        for seed in range(20):
            levels, noises = _levels(codes, column, 5000, repeatable(f"bell {seed}"))
            shape = shape_of(levels, noises, column, 5000.0)
            value = np.repeat(shape.mass / (shape.stop - shape.start), shape.stop - shape.start)
            found.append(np.abs(value.reshape(30, 20).sum(axis=1) - real).sum() / 2 / 5000)
        return float(np.mean(found))

    sloped = away()
    monkeypatch.setattr("oboro.synth.shape._slopes", lambda shape: np.zeros(shape.start.size))
    assert sloped < 0.85 * away()


def test_numbers_have_no_more_bins_than_stand_out_in_pairs(test_bits) -> None:
    """Two columns of k bins under noise of standard deviation s stand out where 2 k^2 s <= n. At any budget there are up to six, and at most 24."""
    domain = ob.Domain([ob.Integer(name, 0, 599) for name in "abc"])
    marks = np.clip(np.random.default_rng(1).normal(285, 48, (3, 5000)), 0, 599).astype(np.int64)
    sizes = {}
    for eps in ("0.01", "0.3", "1", "10"):
        plan: Any = ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=5000, eps=eps, delta="1e-6")
        measured = plan.measure(plan.prepare(dict(zip("abc", marks, strict=True))), test_bits)
        sizes[eps] = max(column.size for column in measured.bins)
        tells = max(6, (5000 / (2 * plan.noise.sd)) ** 0.5)
        assert sizes[eps] <= min(24, tells) + 2  # one more for what is left over, one for what is missing
    assert sizes["0.3"] < sizes["1"] < sizes["10"]
    assert sizes["10"] > 18
    rules: Any = ob.synth.plan(
        domain, unit=ob.Unit.row(), eps=10, delta="1e-6", impossible=[{"a": (0, 9), "b": (0, 9)}]
    )
    assert rules.most_bins == 16


@pytest.mark.parametrize("eps", [100, 150, 300])
def test_where_there_is_next_to_no_noise_records_are_what_was_counted(eps: int, test_bits) -> None:
    """Counts of a block that were averaged have a variance that is tiny, and never 0: weights would be infinite."""
    domain = ob.Domain([ob.Integer("a", 0, 40)], impossible=[{"a": (28, 30)}])
    plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), eps=eps)
    with np.errstate(divide="raise", invalid="raise"):
        measured = plan.measure(plan.prepare({"a": [5] * 900 + [6] * 100}), test_bits)
        sampler: Any = _sampler(plan, plan.publish(measured))
        (drawn,) = sampler.draw(1000, {}, np.random.default_rng(1))
    assert np.bincount(drawn).tolist() == [0, 0, 0, 0, 0, 900, 100]


def test_variances_of_many_categories_take_little_memory() -> None:
    column = ob.Category("k", [f"v{i}" for i in range(30_000)])
    start = np.arange(30_001)
    counts = np.where(start < 3000, 500, 0)
    level, noise = Level(start, start + 1, counts), DiscreteGaussian(25)
    shape = shape_of([level], [noise], column, float(counts.sum()))
    bins = Binned(shape, np.minimum(start, 3000))
    tracemalloc.start()
    try:
        found = variances(bins, [level], [noise])
        assert tracemalloc.get_traced_memory()[1] < 20 << 20  # all pairs of blocks and bins: 700 MB
    finally:
        tracemalloc.stop()
    assert found[:3000] == pytest.approx([25] * 3000)
    assert found[3000] == pytest.approx(25 * 27_001)


def test_the_variance_of_a_bin_is_that_of_what_is_believed_of_it(test_bits) -> None:
    """Bins of whole blocks, of parts of a block that was cut, and across both."""
    column = ob.Integer("x", 0, 99, missing=0)
    codes = np.concatenate([np.arange(30), np.repeat(np.arange(40, 100), 500 + 400 * (np.arange(60) % 2))])
    bins = np.searchsorted([10, 40, 45, 67, 90], np.arange(100), side="right")
    found, said = [], []
    for _ in range(400):
        levels, noises = _levels(codes, column, 900, test_bits)
        shape = shape_of(levels, noises, column, codes.size)
        if np.array_equal(shape.start, [*range(0, 40, 10), *range(40, 100)]):
            binned = Binned(shape, bins[shape.start])
            found.append(binned.mass)
            said.append(variances(binned, levels, noises))
    assert len(found) > 300
    full: Floats = np.mean(said, axis=0)[2:]  # the first two have so few that they are kept at 0
    assert np.var(found, axis=0)[2:] == pytest.approx(full, rel=0.35)


@pytest.mark.parametrize("people", [1000, 3000, 10_000])
def test_few_people_among_many_values_are_known_much_better_than_value_by_value(
    test_bits, people: int
) -> None:
    """Ages, in sixteen quantiles, at the noise of a small budget: the mean distance is less than half of what it was."""
    rng = np.random.default_rng(people)
    column = ob.Integer("age", 0, 120)
    codes = np.clip(rng.normal(40, 12, people), 18, 90).astype(np.int64)
    edges = np.unique(np.quantile(codes, np.arange(1, 16) / 16))
    place = np.searchsorted(edges, np.arange(122), side="right")
    real = np.bincount(place[codes], minlength=16) / people
    far = []
    for counting in (EARLIER, NOW):
        for _ in range(12):
            levels, noises = _levels(codes, column, 10_000, test_bits, counting)
            shape = shape_of(levels, noises, column, people)
            width = shape.stop - shape.start
            mass = np.repeat(shape.mass / width, width)
            far.append(np.abs(np.bincount(place, mass, minlength=16) / people - real).sum() / 2)
    assert np.mean(far[12:]) < np.mean(far[:12]) / 2


def test_columns_cost_by_their_cells_and_together_what_they_cost_before() -> None:
    columns = [
        ob.Category("sex", ["f", "m"]),
        ob.Integer("age", 0, 120),
        ob.Category("place", [f"{i}" for i in range(5000)]),
        ob.Integer("children", 0, 31),
    ]
    plan: Any = ob.synth.plan(ob.Domain(columns), unit=ob.Unit.row(), eps=1)
    costs = {column.name: Fraction(0) for column in columns}
    for part in plan.column_parts():
        costs[part.of.removeprefix("counts of ")] += part.costs.eps
    assert sum(costs.values()) == Fraction(3, 10)
    assert costs["sex"] < costs["age"] < costs["children"] == costs["place"]
    ratio = float(costs["age"] / costs["sex"])
    assert ratio == pytest.approx((11 / 2) ** (2 / 3), rel=0.01)  # 121 ages in eleven blocks


def test_a_plan_of_an_earlier_version_counts_columns_as_it_did() -> None:
    """128 values one by one, 64 blocks, all columns alike: or the noise of a model that was released before would be taken for another."""
    domain = ob.Domain(
        [ob.Integer("age", 0, 120), ob.Integer("amount", 0, 3999), ob.Category("sex", ["f", "m"])]
    )
    for method in ("marginals", "quality", "moments"):
        plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), rho="0.5", method=method)
        record = {key: value for key, value in plan.to_dict().items() if key != "counting"}
        earlier: Any = ob.release.plan_from(record)
        whole = earlier.price.rho * earlier.shares[0] / 3
        prices = [[1 / (2 * noise.sigma2) for noise in noises] for noises in earlier.ones.noises]
        assert prices == [[whole], [whole / 2, whole / 2], [whole]]
        assert [len(noises) for noises in plan.ones.noises] == [2, 3, 1]
        assert earlier.ones.counting == EARLIER
    with pytest.raises(ob.errors.ParameterError, match="counting"):
        ob.release.plan_from(plan.to_dict() | {"counting": COUNTINGS + 1})


def test_a_column_can_be_chosen_again_where_more_is_to_choose_than_one_pair() -> None:
    offers = Offers([2, 3, 4], 1.0, 1000.0, 10**6, all_triples=True)
    assert offers.fitting([]) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert Offers([2, 3], 1.0, 1000.0, 10**6, all_triples=True).fitting([]) == [(0, 1)]


def test_a_model_whose_columns_were_chosen_again_is_read_as_it_was_written(test_bits) -> None:
    from oboro.synth.measured import from_rows, to_rows

    domain = ob.Domain([ob.Integer(name, 0, 2) for name in "abc"])
    rows = {name: np.random.default_rng(1).integers(0, 3, 300) for name in "abc"}
    plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), eps="0.05", delta="1e-6")
    codes = plan.prepare(rows)
    for _ in range(60):
        measured = plan.measure(codes, test_bits)
        if any(len(columns) == 1 for columns, _ in measured.tables):
            break
    else:  # pragma: no cover
        raise AssertionError("no column was chosen in 60 runs")
    again = from_rows(to_rows(measured, domain), domain)
    assert [columns for columns, _ in again.tables] == [columns for columns, _ in measured.tables]
    assert all(
        np.array_equal(one, other) for (_, one), (_, other) in zip(again.tables, measured.tables, strict=True)
    )
