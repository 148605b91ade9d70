"""The tree on data: what it promises, what it publishes, and how far off that is."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oboro as ob
from oboro import audit, tables
from oboro.arrays import Floats, Integers
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.errors import GuaranteeError, ParameterError
from oboro.noise import DiscreteGaussian, DiscreteLaplace, system_bits
from oboro.privacy import ZCDP, Approx, Pure, Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells, Layout, block_errors
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.measure import estimated, project
from oboro.tables.tree.strategy import PlannedTree, design_for
from oboro.tables.tree.workload import DEFAULT, SIDES, Design, Workload
from oboro.tables.wavelet import Wavelet
from support import forged

CITY = Layout(Domain([Grid("row", "col")]))
TENTH, ONE = Fraction(1, 10), Fraction(1)
TRIALS = 8


def as_cells(layout: Layout, table: Integers) -> Cells:
    places = np.nonzero(table)
    keys = layout.keys(places)
    order = np.argsort(keys)
    return Cells(keys[order], table[places][order])


def as_table(layout: Layout, cells: Cells, shape: tuple[int, ...]) -> Integers:
    table = np.zeros(shape, np.int64)
    table[tuple(layout.places(cells.keys))] = cells.counts
    return table


def block_rmse(results: list[Cells]) -> Floats:
    truth = as_cells(CITY, tables.city())
    squares = [[error.rmse**2 for error in block_errors(truth, result, CITY)] for result in results]
    return np.sqrt(np.mean(squares, axis=0))


def square_rmse(results: list[Cells]) -> Floats:
    """Over squares of every side at every place."""
    found = []
    for side in SIDES:
        squares = []
        for result in results:
            off = np.pad(
                (as_table(CITY, result, (512, 512)) - tables.city()).cumsum(0).cumsum(1), ((1, 0), (1, 0))
            )
            sums = off[side:, side:] - off[:-side, side:] - off[side:, :-side] + off[:-side, :-side]
            squares.append(np.mean(sums.astype(float) ** 2))
        found.append(np.sqrt(np.mean(squares)))
    return np.array(found)


def mean_ratio(mine: Floats, theirs: Floats) -> float:
    return float(np.exp(np.log(mine / theirs).mean()))


@pytest.fixture(scope="module", params=[TENTH, ONE], ids=["eps 0.1", "eps 1"])
def wavelet(request: pytest.FixtureRequest) -> tuple[Fraction, list[Cells]]:
    truth = as_cells(CITY, tables.city())
    return request.param, list(
        Wavelet(CITY, Pure(request.param), Unit.cells()).measure(truth, system_bits(), TRIALS)
    )


def measured(workload: Workload, eps: Fraction) -> list[Cells]:
    strategy = PlannedTree(CITY, Pure(eps), Unit.cells(), workload=workload)
    truth = as_cells(CITY, tables.city())
    return list(strategy.measure(truth, system_bits(), TRIALS))


@pytest.mark.long("statistical tests")
def test_the_default_reaches_its_numbers(wavelet: tuple[Fraction, list[Cells]]) -> None:
    eps, theirs = wavelet
    mine = measured(DEFAULT, eps)
    ours, paper = block_rmse(mine), block_rmse(theirs)
    assert mean_ratio(ours[:-1], paper[:-1]) <= 0.68  # the whole is one number, and left out
    assert mean_ratio(square_rmse(mine), square_rmse(theirs)) <= 0.47
    assert ours[0] / paper[0] <= 0.34


@pytest.mark.long("statistical tests")
def test_planned_for_blocks_or_squares_is_better_there(wavelet: tuple[Fraction, list[Cells]]) -> None:
    eps, theirs = wavelet
    assert mean_ratio(block_rmse(measured(tables.blocks(), eps))[:-1], block_rmse(theirs)[:-1]) <= 0.60
    assert mean_ratio(square_rmse(measured(tables.squares(), eps)), square_rmse(theirs)) <= 0.40


@pytest.mark.long("statistical tests")
def test_never_worse_is_better_at_every_size(wavelet: tuple[Fraction, list[Cells]]) -> None:
    """Sizes of 2^14 and 2^16 have 16 and 4 blocks, and need more runs. The whole is one number: its error is known from
    the forecast (test_tree_planner.py), of which 24 runs would only give a rough idea."""
    eps, theirs = wavelet
    ratio = block_rmse(measured(tables.never_worse(), eps)) / block_rmse(theirs)
    assert (ratio[:7] <= 0.90).all()
    paper = Wavelet(CITY, Pure(eps), Unit.cells())
    more = paper.measure(as_cells(CITY, tables.city()), system_bits(), 24)
    mine = [result for _ in range(3) for result in measured(tables.never_worse(), eps)]
    large = (block_rmse(mine) / block_rmse([*theirs, *more]))[7:9]
    assert (large <= 0.90).all()


def test_the_forecast_is_what_is_measured() -> None:
    """Before non-negativity; for sizes with at least 64 blocks, within 3%."""
    lattice, design = lattice_of(CITY.domain), design_for(CITY, Unit.cells())
    noises = design.noises(TENTH, Unit.cells())
    squares = np.zeros(7)
    trials = 12
    for _ in range(trials):
        noise = [law.sample(lattice.nodes(level)) for level, law in zip(design.levels, noises, strict=True)]
        off = estimated(noise, lattice, design, noises, None, None)
        squares += [np.mean(np.asarray(lattice.sums(off, (9 - k,))) ** 2) for k in range(7)]
    plan = tables.plan(CITY.domain, unit=Unit.cells(), eps="0.1", strategy="tree")
    expected = np.array([row[2] for row in plan.forecast().rows[:7]])
    assert np.sqrt(squares / trials) == pytest.approx(expected, rel=0.03 + 2.5 / np.sqrt(trials * 64) * 0.5)
    assert np.sqrt(squares / trials)[:5] == pytest.approx(expected[:5], rel=0.03)


def test_mesh_by_sex_and_age() -> None:
    shape = (64, 64, 2, 20)
    domain = Domain(
        [Grid("row", "col", shape=(64, 64)), Category("sex", ["F", "M"]), Category("age", list(range(20)))]
    )
    layout, rng = Layout(domain), np.random.default_rng(1)
    people = tables.city()[200:264, 220:284].reshape(-1)
    pyramid = np.exp(-0.5 * ((np.arange(20) - 9) / 6) ** 2) + 0.2
    mix = np.concatenate([0.51 * pyramid, 0.49 * pyramid]) * rng.gamma(30, 1 / 30, (people.size, 40))
    truth = rng.multinomial(people, mix / mix.sum(axis=1, keepdims=True)).reshape(shape)
    cells = as_cells(layout, truth)
    tree = tables.plan(domain, unit=Unit.cells(), eps="0.1", strategy="tree").mechanism

    def errors(strategy: Any, trials: int) -> Floats:
        found = []
        for result in strategy.measure(cells, system_bits(), trials):
            off = (as_table(layout, result, shape) - truth).astype(float)
            row = []
            for side in (1, 4, 16, 64):
                blocks = off.reshape(64 // side, side, 64 // side, side, 2, 20).sum(axis=(1, 3))
                row += [np.mean(blocks.sum(axis=axes) ** 2) for axes in ((2, 3), 3, 2, ())]
            found.append(row)
        return np.sqrt(np.mean(found, axis=0))

    assert mean_ratio(errors(tree, 3), errors(Wavelet(layout, Pure(TENTH), Unit.cells()), 3)) < 0.60


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([1, 50, 2**55]), st.booleans())
def test_what_is_published_is_whole_not_negative_and_adds_up(seed: int, size: int, masked: bool) -> None:
    domain = Domain(
        [Category("sex", ["F", "M"]), Grid("r", "c", shape=(6, 9)), Category("age", ["a", "b", "c"])]
    )
    lattice, rng = lattice_of(domain), np.random.default_rng(seed)
    shape = tuple(tree.leaves for tree in lattice.trees)
    wanted = rng.normal(0, size, shape) * (rng.random(shape) < 0.5)
    possible = rng.random(shape) < 0.6 if masked else None
    if possible is not None:
        possible.reshape(-1)[0] = True
    total = int(rng.integers(0, 4 * size))
    counts = project(lattice, wanted, possible, total)
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    assert counts.sum() == total
    assert possible is None or not counts[~possible].any()


def test_estimates_that_fit_are_published_as_they_are() -> None:
    domain = Domain([Grid("r", "c", shape=(8, 8)), Category("sex", ["F", "M"])])
    truth = np.random.default_rng(0).integers(0, 30, (64, 2))
    assert (project(lattice_of(domain), truth.astype(float), None) == truth).all()


@pytest.mark.parametrize("total", [None, 5000])
@pytest.mark.parametrize(
    "column",
    [
        Grid("r", "c", shape=(64, 64)),
        Grid("r", "c", shape=(57, 91)),
        Grid("r", "c", shape=(300, 5)),
        Integer("x", 0, 4999),
    ],
    ids=str,
)
def test_one_column_is_solved_level_by_level_as_all_leaves_together_are(
    column: Grid | Integer, total: int | None, test_bits: Any
) -> None:
    layout, random = Layout(Domain([column])), np.random.default_rng(1)
    sides = column.shape if isinstance(column, Grid) else (5000,)
    keys = np.unique(layout.keys([random.integers(0, side, 300) for side in sides]))
    cells, lattice = Cells(keys, random.integers(1, 50, keys.size)), lattice_of(layout.domain)
    for eps in ("0.1", "2"):
        tree = PlannedTree(layout, Pure(eps), Unit.cells(), total=total)
        found = tree.measure(cells, test_bits)[0]
        possible = lattice.possible(layout)
        estimates = estimated(found.noisy, lattice, tree.chosen, tree.noises, possible, total)
        counts = project(lattice, estimates, possible, total).reshape(-1)
        leaves = np.sort(lattice.leaf(layout, found.keys))
        assert np.array_equal(leaves, np.flatnonzero(counts))
        assert np.array_equal(found.counts[np.argsort(lattice.leaf(layout, found.keys))], counts[leaves])


@pytest.mark.parametrize(
    "domain", [Domain([Grid("r", "c", shape=(570, 910))]), Domain([Integer("x", 0, 10**6)])]
)
def test_many_leaves_are_looked_up_as_each_is_computed(domain: Domain) -> None:
    (tree,) = lattice_of(domain).trees
    random = np.random.default_rng(2)
    places = [random.integers(0, size, 500_000) for size in tree.sizes]
    leaves = tree.leaf(places)
    assert all(np.array_equal(*both) for both in zip(tree.places(leaves), places, strict=True))
    few = [place[:40] for place in places]
    assert np.array_equal(tree.leaf(few), leaves[:40])
    assert all(np.array_equal(*both) for both in zip(tree.places(leaves[:40]), few, strict=True))


@pytest.mark.parametrize(
    "domain",
    [
        Domain([Grid("r", "c", shape=(60, 91))]),
        Domain([Mesh("code", "500m", region=[5339, 5340])]),
        Domain([Category("a", list(range(20))), Grid("r", "c", shape=(30, 13)), Category("b", list("xyz"))]),
    ],
    ids=lambda domain: " ".join(domain.names),
)
def test_many_cells_are_looked_up_as_each_is_computed(domain: Domain) -> None:
    layout, lattice = Layout(domain), lattice_of(domain)
    keys = layout.keys([np.random.default_rng(2).integers(0, size, 50_000) for size in layout.sizes])
    leaves = lattice.leaf(layout, keys)
    assert np.array_equal(
        leaves, np.concatenate([lattice.leaf(layout, some) for some in np.split(keys, 500)])
    )
    assert np.array_equal(lattice.keys(layout, leaves), keys)
    assert np.array_equal(
        np.concatenate([lattice.keys(layout, some) for some in np.split(leaves, 500)]), keys
    )


def test_the_sensitivity_of_all_levels_together_is_that_of_the_promise() -> None:
    """One unit moves each level by no more than `counts_move`; scaled by the noise that is really drawn, eps in all."""
    domain = Domain([Grid("r", "c", shape=(8, 8)), Category("sex", ["F", "M"])])
    layout, lattice = Layout(domain), lattice_of(domain)
    for unit, moved in ((Unit.cells(2, 3), 6), (Unit.cells(2, 3, "replace"), 12), (Unit.person("who", 4), 4)):
        design = design_for(layout, unit)
        noises = design.noises(ONE, unit)
        assert all(isinstance(noise, DiscreteLaplace) for noise in noises)
        change = np.zeros((64, 2), np.int64)
        change[0, 0], change[63, 1] = (moved, 0) if unit.adjacency != "replace" else (moved // 2, -moved // 2)
        cost = sum(
            Fraction(int(np.abs(lattice.sums(change, level)).sum())) / noise.scale
            for level, noise in zip(design.levels, noises, strict=True)
            if isinstance(noise, DiscreteLaplace)
        )
        assert cost <= 1
        if unit.adjacency != "replace":
            assert cost == 1


def with_two_levels(plan: tables.TablePlan) -> tables.TablePlan:
    """The quarters of a small grid and its cells, half of the budget each."""
    return dataclasses.replace(plan, design=Design(((1,), (2,)), (Fraction(1, 2), Fraction(1, 2))))


@pytest.mark.parametrize("unit", [Unit.cells(2, 2), Unit.cells(adjacency="replace")], ids=str)
@pytest.mark.long("audits of sound plans")
def test_the_audit_finds_nothing_in_a_tree(unit: Unit) -> None:
    domain = Domain([Grid("r", "c", shape=(4, 4))])
    plan = tables.plan(domain, unit=unit, eps=1, count="n", strategy="tree")
    plan = with_two_levels(plan)
    report = audit.run(plan, 2_000)
    assert report.verdict == "holds", str(report)


@pytest.mark.long("audits of faults")
def test_the_audit_sees_a_level_that_was_not_paid_for() -> None:
    domain = Domain([Grid("r", "c", shape=(4, 4))])
    plan = with_two_levels(tables.plan(domain, unit=Unit.cells(), eps=1, count="n", strategy="tree"))
    assert plan.design is not None
    with pytest.raises(ParameterError):
        dataclasses.replace(plan.design, shares=(Fraction(3),) * len(plan.shares))
    careless = forged(plan, design=forged(plan.design, shares=(Fraction(3),) * len(plan.shares)))
    assert not careless.guarantee.covers(careless.cost)
    with pytest.raises(ParameterError):
        plan_from(careless.to_dict())
    assert audit.run(careless, 2_000).verdict != "holds"


def test_a_design_that_does_not_divide_the_budget_is_refused() -> None:
    record = tables.plan(CITY.domain, unit=Unit.cells(), eps=1, strategy="tree").to_dict()
    design = record["design"]
    for wrong in (
        {**design, "shares": ["0.9", *design["shares"][1:]]},
        {**design, "shares": design["shares"][1:]},
        {**design, "levels": [[1], [3], [6], [8]]},
        {**design, "levels": [[1], [3], [3], [9]]},
        {**design, "shares": ["-1", "1", "0.5", "0.5"]},
        {"levels": 3},
    ):
        with pytest.raises(ParameterError):
            plan_from({**record, "design": wrong})
    with pytest.raises(GuaranteeError):
        plan_from({**record, "design": {**design, "rho": "1"}})


def test_with_delta_the_noise_is_gaussian_and_the_promise_kept() -> None:
    plan = tables.plan(CITY.domain, unit=Unit.cells(), eps=1, delta="1e-6", strategy="tree")
    assert plan.guarantee == Approx(1, "1e-6")
    assert plan_from(plan.to_dict()) == plan
    assert plan.design is not None
    assert plan.design.rho is not None
    assert plan.guarantee.covers(ZCDP(plan.design.rho))
    assert not plan.guarantee.covers(ZCDP(plan.design.rho * Fraction(101, 100)))
    noises = plan.design.noises(ONE, plan.unit)
    assert all(isinstance(noise, DiscreteGaussian) for noise in noises)
    spent = sum(
        (1 / (2 * noise.sigma2) for noise in noises if isinstance(noise, DiscreteGaussian)), Fraction(0)
    )
    assert spent == plan.design.rho
    with pytest.raises(GuaranteeError):
        tables.plan(CITY.domain, unit=Unit.cells(), eps=1, delta="1e-6", strategy="wavelet")
    record = plan.to_dict()
    with pytest.raises(GuaranteeError):
        plan_from({**record, "design": {**record["design"], "rho": "5"}})


def test_a_public_total_is_published() -> None:
    plan = tables.plan(
        Domain([Grid("r", "c", shape=(8, 8))]),
        unit=Unit.row("replace"),
        eps="0.1",
        total=500,
        strategy="tree",
    )
    assert plan.measure(plan.prepare({"r": [1] * 500, "c": [2] * 500}), system_bits()).counts.sum() == 500


@pytest.mark.parametrize("data", [{"r": [], "c": []}, {"r": ["x", None, -1], "c": [0, 1, 99]}])
def test_whatever_the_values_a_table_comes_out(data: dict[str, list[Any]], tmp_path: Path) -> None:
    domain = Domain([Grid("r", "c", shape=(5, 3)), Integer("age", 0, 99)])
    plan = tables.plan(domain, unit=Unit.row(), eps="0.1", strategy="tree")
    account = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=Unit.row(), budget=Pure(1))
    release = tables.release({**data, "age": [1] * len(data["r"])}, plan, ledger=account)
    assert release.interval().column_names == ["r", "c", "age", "count", "estimate", "low", "high"]
