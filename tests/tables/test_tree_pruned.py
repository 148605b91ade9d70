"""A tree that looks: divided at each of its levels only as far as the people found so far allow."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from oboro import audit, tables
from oboro.arrays import Integers
from oboro.domain import Category, Date, Domain, Grid, Integer, Mesh
from oboro.errors import DataError, DomainError, ParameterError
from oboro.noise import system_bits
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.privacy import ZCDP, Pure, Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree import trial
from oboro.tables.tree.division import Counted
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.planner import least_squares
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.sized import Way
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.tree.workload import DEFAULT, precision

SIDE = 64
TOWN = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
LINE = Domain([Integer("age", 0, 1023)])
REPLACE = Unit.cells(adjacency="replace")


def made(domain: Domain = TOWN, eps: str = "1", **facts: Any) -> tables.TablePlan:
    own = {"unit": Unit.cells(), "workload": DEFAULT, **facts}
    return tables.plan(domain, eps=eps, strategy="adaptive", **own)


def pruned(plan: tables.TablePlan) -> Pruned:
    assert isinstance(plan.mechanism, Pruned)
    return plan.mechanism


def cells_of(table: Integers, layout: Layout) -> Cells:
    places = np.nonzero(table)
    keys = layout.keys(places)
    order = np.argsort(keys)
    return Cells(keys[order], table[places][order].astype(np.int64))


def town(people: int) -> Integers:
    density = tables.city()[200 : 200 + SIDE, 200 : 200 + SIDE].reshape(-1) + 1.0
    return np.random.default_rng(0).multinomial(people, density / density.sum()).reshape(SIDE, SIDE)


@pytest.mark.parametrize(
    "domain",
    [
        TOWN,
        LINE,
        Domain([Grid("row", "col", shape=(100, 70))]),
        Domain([Grid("row", "col", shape=(300, 5))]),
        Domain([Mesh("code", region=[5339, 5340], level="1km")]),
        Domain([Date("day", "2026-01-01", "2026-12-31")]),
        Domain([Integer("age", 0, 99)]),
        Domain([Category("sex", ["f", "m"])]),
    ],
    ids=["town", "line", "uneven", "narrow", "mesh", "dates", "ages", "category"],
)
def test_shares_add_up_to_one_and_a_file_is_read_whatever_the_column(domain: Domain) -> None:
    for unit in (Unit.cells(), Unit.cells(2, 3, "replace")):
        plan = made(domain, unit=unit)
        assert plan.cost == Pure(1)
        assert sum(part.moves / part.noise.scale for part in plan.parts) == 1  # type: ignore[union-attr]
        assert plan_from(plan.to_dict()) == plan
    gaussian = made(domain, delta="1e-6")
    assert isinstance(gaussian.cost, ZCDP)
    rng, layout = np.random.default_rng(1), plan.layout
    keys = np.unique(layout.keys([rng.integers(0, size, 50) for size in layout.sizes]))
    cells = Cells(keys, rng.poisson(40, keys.size) + 1)
    for strategy in (pruned(plan), pruned(gaussian)):
        found = strategy.measure(cells, system_bits())[0]
        assert (found.counts > 0).all()
        low, high = strategy.intervals(found, 0.95)
        assert found.estimates is not None
        for printed in (found.counts, found.estimates):
            assert ((low <= printed) & (printed <= high)).all()
        answer = strategy.answer(found, {}, 0.95)
        assert answer.low <= answer.value <= answer.high


@pytest.mark.long("statistical tests")
def test_noise_is_on_every_node_and_has_the_scale_that_the_parts_say() -> None:
    """At every level, in tables where hardly anybody is, and where all are in one cell. A scale a tenth off is seen; a false alarm is five standard errors."""
    plan = made(Domain([Grid("row", "col", shape=(256, 256))]), eps="0.5")
    strategy = pruned(plan)
    assert len(strategy._rounds) == 3
    for people in (3, 200_000):
        cells = Cells(np.array([5], np.int64), np.array([people], np.int64))
        laws: dict[Any, list[Integers]] = {}
        for _ in range(900):
            counted, _ = strategy._read(plan.measure(cells, system_bits()))
            for own, (_, law) in zip(counted, strategy._levels, strict=True):
                assert own.noise == law
                laws.setdefault(own.noise, []).append(own.noisy - own.nodes.sums(cells))
        assert laws.keys() == {part.noise for part in plan.parts}
        for law, off in laws.items():
            noise = np.concatenate(off)
            spread = math.sqrt(5 / noise.size)  # of the mean of squares: Laplace noise has a kurtosis of 6
            assert np.mean(noise**2.0) == pytest.approx(law.variance, rel=5 * spread)
            assert 5 * spread < 0.19


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(
    "domain",
    [Domain([Grid("row", "col", shape=(8, 8))]), Domain([Integer("at", 0, 255)])],
    ids=["places", "line"],
)
def test_one_person_hardly_changes_how_a_table_is_divided(domain: Domain) -> None:
    """Just where one more would have a place divided. At eps 0.5 no event is e^0.5 times likelier; chance adds five standard errors."""
    strategy, runs = pruned(made(domain, eps="0.5")), 1500
    assert strategy.crowds
    for crowd in strategy.crowds:
        divided = []
        for people in (crowd, crowd + 1):
            cells = Cells(np.array([0], np.int64), np.array([people], np.int64))
            found = strategy.measure(cells, system_bits(), runs)
            divided.append(np.mean([each.noisy[-2][0] > 0 for each in found]))
        for one, other in (divided, divided[::-1]):
            assert one <= math.exp(0.5) * other + 5 * math.sqrt(0.25 * 2.7 / runs) * 1.5


def test_what_is_counted_next_is_chosen_without_the_cells() -> None:
    assert "cells" not in Pruned._steps.__code__.co_varnames
    assert Pruned._division.__code__.co_varnames == ("self", "nodes", "counted")


@pytest.mark.parametrize("domain", [TOWN, LINE])
def test_where_many_people_live_it_is_the_tree(domain: Domain) -> None:
    """Every place is divided down to each level, and least squares is the tree's."""
    strategy = pruned(made(domain, eps="3"))
    layout = strategy.layout
    cells = Cells(np.arange(layout.cells), np.full(layout.cells, 1000))
    counted, _ = strategy._read(strategy.measure(cells, system_bits())[0])
    for own, (height, _) in zip(counted, strategy._levels, strict=True):
        assert own.nodes.size == 1 << (layout.bits - height)
    tree = PlannedTree(layout, strategy.guarantee, strategy.unit)
    order = np.argsort([tree.lattice.under(level) for level in tree.chosen.levels])[::-1]
    levels, noises = [tree.chosen.levels[at] for at in order], [tree.noises[at] for at in order]
    assert [own.noise for own in counted] == noises
    expected = least_squares(
        tree.lattice, levels, [precision(law) for law in noises], [own.noisy for own in counted]
    )
    found = strategy._division(counted[-1].nodes, counted).estimates[-1]
    assert np.allclose(found, expected.reshape(-1))


@pytest.mark.parametrize("domain", [TOWN, LINE])
def test_the_forecast_has_the_errors_of_the_tree(domain: Domain) -> None:
    plan = made(domain)
    tree = tables.plan(domain, unit=Unit.cells(), eps=1, strategy="tree")
    for height in range(0, plan.layout.bits + 1, 2):
        assert plan.mechanism.variance(height) == pytest.approx(tree.mechanism.variance(height))
    assert any("people are few" in note for note in plan.forecast(2000).notes)


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize("people", [1000, 10_000, 100_000, 1_000_000])
def test_no_size_of_block_is_worse_than_the_forecast_or_far_worse_than_in_a_tree(people: int) -> None:
    """On the made-up tables, in the geometric mean over them: single cells measured up to 1.07 of the tree's, all else less. The noise is the same every time."""
    sides = (SIDE, SIDE)
    plans = [pruned(made()), PlannedTree(Layout(TOWN), Pure(1), Unit.cells())]
    asked = [own for part in tables.blocks().parts for own in trial._questions(part, sides)]
    with pytest.warns(UnsafeBitsWarning):
        bits = UnsafeDeterministicBits("sizes")
    logs = np.zeros((2, len(asked)))
    for shape in trial._SHAPES:
        truth = trial._filled(shape, sides, people)
        for at, plan in enumerate(plans):
            logs[at] += [trial.log_error(plan, truth, [own], 12, bits) / len(trial._SHAPES) for own in asked]
    said = [math.log(math.sqrt(plans[0].variance(2 * at))) for at in range(len(asked))]
    assert (logs[0] <= np.array(said) + math.log(1.25)).all()  # 60 draws of the total leave .2 by chance
    assert (logs[0][:-1] <= logs[1][:-1] + math.log(1.25)).all()
    if people <= 10_000:
        assert logs[0].mean() < logs[1].mean() + math.log(0.95)


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(
    ("people", "facts"), [(5_000, {}), (200_000, {}), (5_000, {"unit": REPLACE, "total": 5_000})]
)
def test_rows_and_answers_cover(people: int, facts: dict[str, Any]) -> None:
    """Rows given that they are published, and questions that cut through blocks or do not, are on the safe side at 80%."""
    plan = made(eps="0.5", **facts)
    strategy, layout, true, rng = pruned(plan), plan.layout, town(people), np.random.default_rng(5)
    prepared = cells_of(true, layout)
    rows, lived, alone = [], [], []
    asked: dict[int, list[bool]] = {side: [] for side in (3, 8, 16, 20, 32, 55)}
    for _ in range(16):
        found = plan.measure(prepared, system_bits())
        low, high = strategy.intervals(found, 0.8)
        here = true[tuple(layout.places(found.keys))]
        inside = (low <= here) & (here <= high)
        rows.append(inside.mean())
        lived.append(inside[here > 0].mean())
        counted, _ = strategy._read(found)
        single = counted[-1].nodes.heights[counted[-1].nodes.place(found.keys)] == 0
        if single.any():
            alone.append(inside[single].mean())
        for side, own in asked.items():
            for _ in range(4):
                by = side if side & (side - 1) == 0 else 1
                row, col = (rng.integers(0, (SIDE - side) // by + 1, 2) * by).tolist()
                where = {"row": (row, row + side - 1), "col": (col, col + side - 1)}
                answer = strategy.answer(found, where, 0.8)
                own.append(bool(answer.low <= true[row : row + side, col : col + side].sum() <= answer.high))
    assert np.mean(rows) > 0.8
    assert np.mean(lived) > 0.78
    assert not alone or np.mean(alone) > 0.78
    for own in asked.values():
        assert np.mean(own) > 0.8 - 5 * math.sqrt(0.16 / len(own))


@pytest.mark.parametrize(
    ("shape", "workload"),
    [((13, 5), DEFAULT), ((8, 4), tables.squares()), ((16, 32), tables.rectangles())],
    ids=["13 x 5", "8 x 4", "16 x 32"],
)
def test_a_table_with_an_odd_number_of_bits_is_divided_from_its_whole(
    shape: tuple[int, int], workload: Any
) -> None:
    """Its first level is all of it, which is halved once, and divided by four from then on, whatever the number of people."""
    plan = made(Domain([Grid("row", "col", shape=shape)]), workload=workload)
    strategy, bits = pruned(plan), plan.layout.bits
    assert bits % 2 == 1
    assert [height for height, _ in strategy._whole] == [bits]
    for people in (0, 1, 3, 5, 8, 20, 100, 10_000, 10**6):
        found = plan.measure(cells_of(np.full((1, 1), people), plan.layout), system_bits())
        counted, _ = strategy._read(found)
        heights = set(counted[-1].nodes.heights.tolist())
        assert heights <= {bits, *range(0, bits, 2)}
        answer = strategy.answer(found, {"row": (0, 1), "col": 0}, 0.9)
        assert answer.low <= answer.value <= answer.high
    assert len(heights) == 1  # so many are divided as far as can be
    (steps,) = strategy._steps(counted[0].nodes, counted[:1], strategy.noise)
    assert steps == bits


def test_shares_and_levels_are_told_in_the_order_of_the_parts() -> None:
    """Whatever the order of the design, in a plan from its function and in one from a record."""
    plan = made(Domain([Grid("row", "col", shape=(256, 256))]))
    assert plan.design is not None
    turned = dataclasses.replace(
        plan,
        design=dataclasses.replace(
            plan.design, levels=plan.design.levels[::-1], shares=plan.design.shares[::-1]
        ),
    )
    for own in (plan, turned, plan_from(turned.to_dict())):
        assert isinstance(own, tables.TablePlan)
        costs = [part.costs for part in own.parts]
        assert costs == [Pure(share) for share in own.shares]
        words: Any = own.mechanism.words()["levels"]
        assert [Pure(level["share"]) for level in words] == costs
        assert [level["level"] for level in words] == list(own.levels) == list(plan.levels)


def test_who_reads_a_table_is_told_of_its_estimates() -> None:
    looks = made()
    assert "use estimate" in str(looks.footnote)
    assert (
        "estimate"
        in looks.publish(looks.measure(cells_of(town(900), looks.layout), system_bits())).column_names
    )
    other = tables.plan(TOWN, unit=Unit.cells(), eps=1, strategy="adaptive")
    assert "estimate" not in str(other.footnote)


def test_a_file_that_claims_more_parts_than_it_has_is_refused_before_they_are_made() -> None:
    """Steps of a forged file may say 2^34 parts and more: there is no room for them."""
    wide = Domain([Grid("row", "col", shape=(2**18, 2**18))])
    plan = tables.plan(wide, unit=Unit.cells(), eps=1, strategy="adaptive")
    found = plan.measure(Cells(np.array([5], np.int64), np.array([9], np.int64)), system_bits())
    forged = (*found.noisy[:2], np.full_like(found.noisy[2], 32), *found.noisy[3:])
    with pytest.raises(DataError, match="cannot be read"):
        plan.mechanism.answer(Measured(found.keys, found.counts, forged), {}, 0.9)


def test_what_a_file_carries_is_checked() -> None:
    plan = made()
    found = plan.measure(cells_of(town(3000), plan.layout), system_bits())
    for wrong in (
        found.noisy[:2],
        found.noisy[:-1],
        (*found.noisy[:-2], found.noisy[-2][1:], found.noisy[-1]),
        (*found.noisy[:-2], np.full_like(found.noisy[-2], 60), found.noisy[-1]),
        (*found.noisy[:-2], np.ones_like(found.noisy[-2]), found.noisy[-1]),
        (*found.noisy[:-1], found.noisy[-1][1:]),
    ):
        with pytest.raises(DataError, match="cannot be read"):
            plan.mechanism.answer(Measured(found.keys, found.counts, wrong), {}, 0.9)


def test_a_limit_on_empty_cells_and_several_columns_are_the_trees() -> None:
    with pytest.raises(ParameterError, match="only a tree limits"):
        made(publish="0.1")
    with pytest.raises(DomainError, match="one column of places"):
        made(Domain([Integer("age", 0, 99), Category("sex", ["f", "m"])]))


def test_ways_of_older_plans_look_as_they_did() -> None:
    """A record without the word has a tree where there is a design, and `adaptive` where there is none."""
    tree = tables.plan(TOWN, unit=Unit.cells(), eps=1, strategy="tree")
    older = dataclasses.replace(
        tree, strategy="sized", design=None, by_people=(Way(0), Way(5000, tree.design))
    )
    record = older.to_dict()
    assert "looks" not in str(record)
    assert plan_from(record) == older
    assert [own.looks for own in older.mechanism.bound] == [True, False]  # type: ignore[attr-defined]
    assert not isinstance(older.mechanism.bound[0], Pruned)  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="has one"):
        Way(0, None, looks=True)


def test_the_estimate_of_a_cell_that_was_counted_is_its_noisy_count() -> None:
    plan = made(eps="3")
    found = plan.measure(cells_of(town(100_000), plan.layout), system_bits())
    counted, _ = pruned(plan)._read(found)
    last: Counted = counted[-1]
    place = last.nodes.place(found.keys)
    alone = last.nodes.heights[place] == 0
    assert alone.any()
    assert (found.estimates[alone] == np.maximum(last.noisy[place][alone], 0)).all()
    assert (found.estimates[~alone] == found.counts[~alone]).all()


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(
    "domain", [Domain([Grid("row", "col", shape=(8, 8))]), Domain([Integer("at", 0, 63)])]
)
def test_the_audit_finds_nothing_in_a_tree_that_looks(domain: Domain) -> None:
    facts: dict[str, Any] = {} if domain.columns[0].name == "at" else {"unit": REPLACE, "total": 40}
    assert audit.run(made(domain, count="n", **facts), 1_000).verdict == "holds"
