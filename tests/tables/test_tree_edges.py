"""Questions whose edge runs through blocks of a table that looks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro import tables
from oboro.domain import Domain, Grid
from oboro.noise import DiscreteLaplace, system_bits
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.privacy import Unit
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree.answers import Round, least_squares_top, region_of
from oboro.tables.tree.division import Nodes
from oboro.tables.tree.edges import bounds_across
from oboro.tables.tree.pruned import _of_keys
from oboro.tables.tree.workload import DEFAULT, precision

SHAPE = (16, 13)  # some nodes have no cell
LAYOUT = Layout(Domain([Grid("row", "col", shape=SHAPE)]))
LAWS = [DiscreteLaplace(Fraction(own)) for own in (5, 3, 2, 4)]


def _counted(steps: tuple[int, ...]) -> tuple[Any, list[Round], list[Nodes]]:
    """Blocks of 4 x 4 with a level above them, and two rounds that divide them at random."""
    random = np.random.default_rng(4)
    lattice, levels = _of_keys([2, 4])
    noisy = [random.integers(0, 90, 4), random.integers(0, 40, 16)]
    top = least_squares_top(LAYOUT, 4, lattice, levels, LAWS[:2], noisy)
    nodes, rounds, every = Nodes.of_depth(LAYOUT, 4), [], []
    for law in LAWS[2:]:
        own = np.minimum(random.choice(steps, nodes.size), nodes.heights)
        finer = nodes.divided(own)
        found = np.where(finer.possible(LAYOUT), random.integers(-3, 20, finer.size), 0)
        rounds.append(Round(nodes.starts, nodes.heights - own, np.left_shift(1, own), found, law))
        nodes = finer
        every.append(nodes)
    return top, rounds, every


def _by_normal_equations(
    top: Any, rounds: list[Round], every: list[Nodes], where: dict[str, tuple[int, int]]
) -> tuple[float, float]:
    """The sum of all parts inside: blocks on the edge by their parts as unknowns, the others as they were counted."""
    places = np.indices(SHAPE).reshape(2, -1)
    asked = np.ones(places.shape[1], np.bool_)
    for axis, name in enumerate(("row", "col")):
        low, high = where[name]
        asked &= (places[axis] >= low) & (places[axis] <= high)
    keys = LAYOUT.keys(list(places))
    parts, weights, value, below = every[-1], np.zeros(16), 0.0, 0.0
    for block in range(16):
        held = keys >> 4 == block
        if not held.any() or not asked[held].any() or asked[held].all():
            weights[block] = float(held.any() and asked[held].all())
            continue
        own = np.flatnonzero((parts.starts >> 4 == block) & parts.possible(LAYOUT))
        chosen = np.array([asked[parts.place(keys) == part].all() for part in own], float)
        rows, seen, sizes = [np.ones(own.size)], [top.estimates[block]], [1 / top.variance]
        for nodes, each in zip(every, rounds, strict=True):
            for node in np.flatnonzero((nodes.starts >> 4 == block) & nodes.possible(LAYOUT)):
                rows.append((nodes.place(parts.starts[own]) == node).astype(float))
                seen.append(each.noisy[node])
                sizes.append(precision(each.noise))
        a, w = np.array(rows), np.array(sizes)
        of_counts = chosen @ np.linalg.solve(a.T @ (w[:, None] * a), a.T * w)
        weights[block] = of_counts[0]
        value += float(of_counts[1:] @ np.array(seen)[1:])
        below += float((of_counts[1:] ** 2 / w[1:]).sum())
    return value + float(top.estimates @ weights), below + top.error(weights).variance


@pytest.mark.parametrize("where", [{"row": (1, 10), "col": (2, 9)}, {"row": (3, 4), "col": (0, 12)}])
def test_blocks_on_the_edge_are_taken_by_least_squares_over_all_that_was_counted_of_them(
    where: dict[str, tuple[int, int]],
) -> None:
    top, rounds, every = _counted((4,))  # down to cells
    found = bounds_across(top, rounds, region_of(LAYOUT, where), 0.9)
    value, variance = _by_normal_equations(top, rounds, every, where)
    assert found.estimate == pytest.approx(value, rel=1e-9)
    assert found.error.variance == pytest.approx(variance, rel=1e-9)


def test_rounds_that_divide_in_steps_and_count_again_are_put_together() -> None:
    """The edge lies between parts: blocks are halved along it or not cut at all."""
    where = {"row": (2, 9), "col": (4, 9)}
    top, rounds, every = _counted((2, 4))
    found = bounds_across(top, rounds, region_of(LAYOUT, where), 0.9)
    value, variance = _by_normal_equations(top, rounds, every, where)
    assert found.estimate == pytest.approx(value, rel=1e-9)
    assert found.error.variance == pytest.approx(variance, rel=1e-9)


def test_parts_that_are_cut_through_count_for_the_high_end_alone() -> None:
    top, rounds, _ = _counted((0,))  # nothing is divided
    found = bounds_across(top, rounds, region_of(LAYOUT, {"row": (1, 10), "col": (2, 9)}), 0.9)
    inside = bounds_across(top, rounds, region_of(LAYOUT, {"row": (4, 7), "col": (4, 7)}), 0.9)
    assert found.estimate is None
    assert found.low == pytest.approx(inside.low, rel=1e-9)  # the one block that is whole
    assert found.high > found.low


def test_where_many_people_live_squares_are_as_sure_as_a_trees() -> None:
    """Standard errors of answers, which are those of the plan and the question alone."""
    side = 32
    domain = Domain([Grid("row", "col", shape=(side, side))])
    plans = [
        tables.plan(domain, unit=Unit.cells(), eps=1, strategy=name, workload=DEFAULT)
        for name in ("adaptive", "tree")
    ]
    layout = plans[0].layout
    cells = Cells(np.arange(side**2), np.full(side**2, 10**5))
    with pytest.warns(UnsafeBitsWarning):
        bits = UnsafeDeterministicBits("squares")
    found = [plan.mechanism.measure(cells, bits)[0] for plan in plans]
    assert layout.bits == 10
    for low, high in ((1, 7), (3, 17), (2, 29)):
        where = {"row": (low, high), "col": (low + 1, high + 1)}
        own, tree = (
            plan.mechanism.answer(one, where, 0.95).standard_error
            for plan, one in zip(plans, found, strict=True)
        )
        assert own < 1.15 * tree


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize("people", [2_000, 60_000])
def test_squares_across_blocks_are_covered(people: int) -> None:
    """480 squares in 120 tables, at 80%: a share below .8 - 5.2 sd has a chance below 1e-6 if squares were independent of one another."""
    side, level = 32, 0.8
    domain = Domain([Grid("row", "col", shape=(side, side))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, strategy="adaptive", workload=DEFAULT)
    random = np.random.default_rng(6)
    density = random.lognormal(0, 1.5, (side, side))
    true = random.multinomial(people, (density / density.sum()).reshape(-1)).reshape(side, side)
    keys = plan.layout.keys(np.nonzero(true))
    order = np.argsort(keys)
    cells = Cells(keys[order], true[np.nonzero(true)][order].astype(np.int64))
    held = []
    for _ in range(120):
        published = plan.mechanism.measure(cells, system_bits())[0]
        for own in (3, 7, 13, 21):
            row, col = random.integers(0, side - own + 1, 2).tolist()
            where = {"row": (row, row + own - 1), "col": (col, col + own - 1)}
            answer = plan.mechanism.answer(published, where, level)
            held.append(answer.low <= true[row : row + own, col : col + own].sum() <= answer.high)
    assert np.mean(held) > level - 5.2 * math.sqrt(level * (1 - level) / len(held))
