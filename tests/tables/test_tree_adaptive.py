"""Tables that look, privately: divided as finely as noisy counts say that people allow."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro import audit, tables
from oboro.arrays import Integers
from oboro.domain import Category, Domain, Grid
from oboro.errors import DataError, ParameterError
from oboro.noise import system_bits
from oboro.privacy import ZCDP, Pure, Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree import adaptive, division
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.answers import Region, region_of
from oboro.tables.tree.division import Counted, Division, Nodes
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.strategy import PlannedTree

SIDE = 128
TOWN = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
REPLACE = Unit.cells(adjacency="replace")


def cells_of(table: Integers, layout: Layout) -> Cells:
    places = np.nonzero(table)
    keys = layout.keys(places)
    order = np.argsort(keys)
    return Cells(keys[order], table[places][order].astype(np.int64))


def town(people: int) -> Integers:
    density = tables.city()[180:308, 180:308].reshape(-1).astype(float)
    return np.random.default_rng(0).multinomial(people, density / density.sum()).reshape(SIDE, SIDE)


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(("people", "most"), [(10_000, 0.80), (1_000_000, 0.97)])
def test_rectangles_are_better_than_those_of_the_default_tree(people: int, most: float) -> None:
    """Measured: about .6 and .85."""
    layout, true, rng = Layout(TOWN), town(people), np.random.default_rng(4)
    corners = np.sort(rng.integers(0, SIDE + 1, (2, 500, 2)), axis=2)

    def error(strategy: Any) -> float:
        off = []
        for found in (strategy.measure(cells_of(true, layout), system_bits())[0] for _ in range(30)):
            table = np.zeros((SIDE, SIDE))
            table[tuple(layout.places(found.keys))] = found.counts
            sums = np.pad((table - true).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
            (top, bottom), (left, right) = corners[0].T, corners[1].T
            off.append(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])
        return float(np.sqrt(np.mean(np.square(off))))

    facts = (layout, Pure("0.1"), Unit.cells())
    assert error(Adaptive(*facts)) < most * error(PlannedTree(*facts))


def test_shares_add_up_to_one_whichever_way_is_taken() -> None:
    for unit in (Unit.cells(), Unit.cells(2, 3, "replace")):
        plan = tables.plan(TOWN, unit=unit, eps=1, strategy="adaptive")
        assert plan.cost == Pure(1)
        for case in ("many people", "few people"):
            own = [part for part in plan.parts if part.case in ("", case)]
            assert sum(part.moves / part.noise.scale for part in own) == 1  # type: ignore[union-attr]
        gaussian = tables.plan(TOWN, unit=unit, eps=1, delta="1e-6", strategy="adaptive")
        assert isinstance(gaussian.cost, ZCDP)
        assert plan_from(gaussian.to_dict()) == gaussian


def test_noise_is_on_every_node_and_has_the_scale_that_the_parts_say() -> None:
    """Both ways, in a table where hardly anybody is. A scale a tenth off is seen; a false alarm is five standard errors."""
    plan = tables.plan(TOWN, unit=Unit.cells(), eps="0.5", strategy="adaptive")
    assert isinstance(plan.mechanism, Adaptive)
    for people in (3, 200_000):
        cells = Cells(np.array([5], np.int64), np.array([people], np.int64))
        laws: dict[Any, list[Integers]] = {}
        for _ in range(60):
            counted, _ = plan.mechanism._read(plan.measure(cells, system_bits()))
            for own in counted:
                laws.setdefault(own.noise, []).append(own.noisy - own.nodes.sums(cells))
        said = {
            part.noise for part in plan.parts if part.case != ("many" if people == 3 else "few") + " people"
        }
        assert laws.keys() == said
        for law, off in laws.items():
            noise = np.concatenate(off)
            spread = math.sqrt(5 / noise.size)  # of the mean of squares: Laplace noise has a kurtosis of 6
            assert np.mean(noise**2.0) == pytest.approx(law.variance, rel=5 * spread)
            assert 5 * spread < 0.19 or noise.size < 1500


@pytest.mark.long("statistical tests")
def test_one_person_hardly_changes_how_a_table_is_divided() -> None:
    """Just where one more would have a block divided. At eps 0.5 no event is e^0.5 times likelier; chance adds five standard errors."""
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(8, 8))]), unit=Unit.cells(), eps="0.5", strategy="adaptive"
    )
    strategy, runs = plan.mechanism, 1500
    assert isinstance(strategy, Adaptive)
    for crowd in strategy.crowds:
        divided = []
        for people in (crowd, crowd + 1):
            cells = Cells(np.array([0], np.int64), np.array([people], np.int64))
            found = strategy.measure(cells, system_bits(), runs)
            divided.append(np.mean([each.noisy[2][0] > 0 for each in found]))
        for one, other in (divided, divided[::-1]):
            assert one <= math.exp(0.5) * other + 5 * math.sqrt(0.25 * 2.7 / runs) * 1.5


def test_what_is_counted_next_is_chosen_without_the_cells() -> None:
    """Two tables with the same noisy counts so far are divided alike: cells are handed to `count` alone."""
    layout = Layout(TOWN)
    strategy = Adaptive(layout, Pure(1), Unit.cells())
    blocks = Nodes.of_depth(layout, 6)
    noisy = np.random.default_rng(1).integers(-20, 4000, 64)
    counted = [Counted(blocks, noisy, strategy.noise_of(Fraction(3, 10)))]
    law = strategy.noise_of(Fraction(6, 10))
    assert np.array_equal(strategy._steps(blocks, counted, law), strategy._steps(blocks, counted, law))
    assert "cells" not in adaptive.steps_of.__code__.co_varnames
    assert "cells" not in Adaptive._steps.__code__.co_varnames


def test_least_squares_in_an_uneven_tree_is_that_of_its_normal_equations() -> None:
    layout = Layout(Domain([Grid("row", "col", shape=(8, 8))]))
    rng = np.random.default_rng(3)
    strategy = Adaptive(layout, Pure(1), Unit.cells())
    blocks = Nodes.of_depth(layout, 2)
    parts = blocks.divided(np.array([0, 2, 4, 2]))
    laws = [strategy.noise_of(Fraction(share, 10)) for share in (3, 7)]
    counted = [
        Counted(nodes, rng.integers(0, 90, nodes.size), law)
        for nodes, law in zip((blocks, parts), laws, strict=True)
    ]
    rows, values, weights = [], [], []
    for own in counted:
        for start, height, value in zip(own.nodes.starts, own.nodes.heights, own.noisy, strict=True):
            inside = (parts.starts >= start) & (parts.starts < start + (1 << height))
            rows.append(inside.astype(float))
            values.append(value)
            weights.append(1 / own.noise.variance)
    design, weight = np.array(rows), np.array(weights)
    for total in (None, 250):
        normal, right = design.T @ (weight[:, None] * design), design.T @ (weight * np.array(values))
        if total is not None:
            size = parts.size
            normal = np.block([[normal, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            right = np.append(right, total)
        wanted = np.linalg.solve(normal, right)[: parts.size]
        found = Division(layout, parts, counted, total)
        got = np.empty(parts.size)
        for level, x in zip(found.levels, found.estimates, strict=True):
            got[np.searchsorted(parts.starts, level.nodes.starts[~level.divided])] = x[~level.divided]
        assert np.allclose(got, wanted)
        held = found.of_parts(found.held)
        assert held.min() >= 0
        assert held.sum() == (round(max(found.estimates[0][0], 0)) if total is None else total)


DOMAINS = {
    "one cell": Domain([Category("c", ["a"])]),
    "three": Domain([Category("c", ["a", "b", "c"])]),
    "odd sides": Domain([Grid("row", "col", shape=(100, 37))]),
    "several": Domain([Grid("row", "col", shape=(20, 9)), Category("c", ["a", "b", "c"])]),
    "2^37": Domain([Grid("row", "col", shape=(2**18, 2**19))]),
}


@pytest.mark.parametrize("total", [40, 40_000])
def test_a_table_with_a_public_total_can_be_described_by_the_noise_of_its_last_round(total: int) -> None:
    """Few people and many: a certificate says which noise the smallest parts have."""
    plan = tables.plan(TOWN, unit=REPLACE, eps=1, total=total, strategy="adaptive")
    words = plan.describe()["noise"]
    assert words["scale"] == plan.parts[-1].noise.to_dict()["scale"]
    assert words["sensitivity"] == "2"


@pytest.mark.few(2, "tables that look")
@pytest.mark.parametrize("name", DOMAINS)
def test_any_domain_total_and_adjacency_is_served(name: str) -> None:
    domain = DOMAINS[name]
    for facts in (
        {"unit": Unit.cells()},
        {"unit": REPLACE, "total": 700},
        {"unit": Unit.cells(), "delta": "1e-6"},
    ):
        plan = tables.plan(domain, eps=1, strategy="adaptive", **facts)  # type: ignore[arg-type]
        rng = np.random.default_rng(1)
        keys = np.unique(plan.layout.keys([rng.integers(0, size, 40) for size in plan.layout.sizes]))
        cells = Cells(keys, np.full(keys.size, 17, np.int64))
        for given in (cells, Cells(keys[:0], keys[:0])):
            found = plan.measure(given, system_bits())
            assert (np.diff(found.keys) > 0).all()
            assert (found.counts > 0).all()
            assert plan.layout.possible(found.keys).all()
            assert facts.get("total") in (None, found.counts.sum())
            low, high = plan.mechanism.intervals(found, 0.9)
            assert ((low <= found.counts) & (found.counts <= high)).all()
            answer = plan.mechanism.answer(found, {}, 0.9)
            assert answer.value == found.counts.sum()
        assert plan_from(json.loads(json.dumps(plan.to_dict()))) == plan
        assert "spread evenly" in str(plan.forecast())


def test_nobody_is_put_where_a_mask_says_that_nobody_can_be() -> None:
    sea = {"row": [i for i in range(64) for _ in range(60)], "col": [j for _ in range(64) for j in range(60)]}
    for domain, mask in (
        (Domain([Grid("row", "col", shape=(64, 64)), Category("c", ["a", "b", "c"])]), sea),
        (Domain([Category("c", ["a", "b", "c"]), Grid("row", "col", shape=(64, 64))]), {"c": ["b"]}),
    ):
        plan = tables.plan(domain, unit=REPLACE, eps="0.5", total=5000, strategy="adaptive", impossible=mask)
        data = {"row": [5] * 9, "col": [61] * 9, "c": ["a"] * 9}
        for _ in range(3):
            found = plan.measure(plan.prepare(data), system_bits())
            assert plan.layout.possible(found.keys).all()
            assert found.counts.sum() == 5000


def test_people_of_a_part_are_spread_evenly_over_its_possible_cells() -> None:
    layout = Layout(Domain([Grid("row", "col", shape=(7, 5))]))
    whole = Nodes.of_depth(layout, 0)
    seen = np.zeros((8, 8))
    for people in (0, 1, 20, 34, 35, 70, 101):
        found = division.spread(whole, np.array([people]), layout, system_bits())
        assert found.counts.sum() == people
        assert set(found.counts.tolist()) <= {people // 35, people // 35 + 1} - {0}
        assert layout.possible(found.keys).all()
    for _ in range(700):
        found = division.spread(whole, np.array([20]), layout, system_bits())
        seen[tuple(layout.places(found.keys))] += 1
    assert np.all(np.abs(seen[:7, :5] - 400) < 6 * math.sqrt(700 * 20 / 35 * 15 / 35))


def test_the_least_count_with_which_a_part_is_published_is_that_of_a_new_projection() -> None:
    """`how_far_divided` walks one path; the reference makes the whole table again."""
    layout = Layout(Domain([Grid("row", "col", shape=(16, 16))]))
    strategy = Adaptive(layout, Pure(1), Unit.cells())
    rng = np.random.default_rng(8)
    blocks = Nodes.of_depth(layout, 4)
    parts = blocks.divided(rng.choice([0, 2, 4], 16))
    laws = [strategy.noise_of(Fraction(share, 10)) for share in (3, 6)]
    noisy = [rng.integers(-3, 60, 16), rng.integers(-3, 12, parts.size)]
    most = 4
    for total in (None, 300):
        counted = [Counted(n, y, law) for n, y, law in zip((blocks, parts), noisy, laws, strict=True)]
        some = np.flatnonzero(parts.heights == 0)
        found = Division(layout, parts, counted, total).above(some, laws[1], most)
        assert {-1, most} < set(found.tolist())
        for place, above in zip(some.tolist()[::3], found.tolist()[::3], strict=True):
            for less in {0, above, above + 1, most} & set(range(most + 1)):
                changed = noisy[1].copy()
                changed[place] -= less
                again = Division(layout, parts, [counted[0], Counted(parts, changed, laws[1])], total)
                assert bool(again.of_parts(again.held)[place] > 0) == (less <= above)


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(("people", "eps"), [(20_000, "0.5"), (400_000, "0.5")])
def test_rows_and_answers_cover(people: int, eps: str) -> None:
    """Rows given that they are published, and questions that cut through blocks, are on the safe side at 80%."""
    plan = tables.plan(TOWN, unit=Unit.cells(), eps=eps, strategy="adaptive")
    layout, true, rng = plan.layout, town(people), np.random.default_rng(5)
    prepared = cells_of(true, layout)
    rows, lived, alone, asked = [], [], [], []
    for _ in range(12):
        found = plan.measure(prepared, system_bits())
        low, high = plan.mechanism.intervals(found, 0.8)
        here = true[tuple(layout.places(found.keys))]
        inside = (low <= here) & (here <= high)
        rows.append(inside.mean())
        lived.append(inside[here > 0].mean())
        counted, _ = plan.mechanism._read(found)  # type: ignore[attr-defined]
        single = counted[-1].nodes.heights[counted[-1].nodes.place(found.keys)] == 0
        if single.any():
            alone.append(inside[single].mean())
        for side in (3, 20, 77):
            row, col = rng.integers(0, SIDE + 1 - side, 2).tolist()
            answer = plan.mechanism.answer(
                found, {"row": (row, row + side - 1), "col": (col, col + side - 1)}, 0.8
            )
            asked.append(answer.low <= true[row : row + side, col : col + side].sum() <= answer.high)
    assert np.mean(rows) > 0.8
    assert np.mean(lived) > 0.78
    assert np.mean(alone) > 0.78
    assert np.mean(asked) > 0.6  # 36 of them: five standard errors below 0.93, what conservative bounds have


def test_a_cell_of_a_part_that_was_not_divided_holds_0_to_the_high_end_of_the_part() -> None:
    plan = tables.plan(TOWN, unit=Unit.cells(), eps="0.1", strategy="adaptive")
    found = plan.measure(cells_of(town(3000), plan.layout), system_bits())
    assert isinstance(plan.mechanism, Adaptive)
    counted, _ = plan.mechanism._read(found)
    low, high = plan.mechanism.intervals(found, 0.95)
    place = counted[-1].nodes.place(found.keys)
    wide = counted[-1].nodes.heights[place] > 0
    law = counted[-1].noise
    reach = next(w for w in range(10_000) if law.cdf(-w - 1) <= 0.05)  # one end can miss, and no more
    assert wide.any()
    assert (low[wide] == 0).all()
    assert (high[wide] == np.maximum(counted[-1].noisy[place] + reach, found.counts)[wide]).all()


def test_what_a_file_carries_is_checked() -> None:
    plan = tables.plan(TOWN, unit=Unit.cells(), eps=1, strategy="adaptive")
    found = plan.measure(cells_of(town(3000), plan.layout), system_bits())
    region: Region = region_of(plan.layout, {})
    assert region.size == SIDE**2
    for wrong in (found.noisy[:2], found.noisy[:-1], (found.noisy[0], *found.noisy[2:], found.noisy[0])):
        with pytest.raises(DataError, match="cannot be read"):
            plan.mechanism.answer(Measured(found.keys, found.counts, wrong), {}, 0.9)
    steps = found.noisy[2].copy()
    steps[0] = 60
    wrong = (*found.noisy[:2], steps, *found.noisy[3:])
    with pytest.raises(DataError, match="cannot be read"):
        plan.mechanism.answer(Measured(found.keys, found.counts, wrong), {}, 0.9)


def test_a_limit_on_empty_cells_is_the_trees_and_a_workload_makes_it_a_tree_that_looks() -> None:
    facts: dict[str, Any] = {"unit": Unit.cells(), "eps": 1, "strategy": "adaptive"}
    for more in ({}, {"workload": tables.squares()}):
        with pytest.raises(ParameterError, match="only a tree limits"):
            tables.plan(TOWN, **facts, **more, publish="0.1")
    assert isinstance(tables.plan(TOWN, **facts, workload=tables.squares()).mechanism, Pruned)
    assert type(tables.plan(TOWN, **facts).mechanism) is Adaptive


@pytest.mark.long("statistical tests")
def test_the_audit_finds_nothing_in_a_table_that_looks() -> None:
    domain = Domain([Grid("row", "col", shape=(8, 8))])
    for facts in ({"unit": Unit.cells()}, {"unit": REPLACE, "total": 40}):
        plan = tables.plan(domain, eps=1, strategy="adaptive", count="n", **facts)  # type: ignore[arg-type]
        assert audit.run(plan, 2_000).verdict == "holds"
