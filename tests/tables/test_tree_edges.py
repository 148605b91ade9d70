"""Questions whose edge runs through blocks of a table that looks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro import tables
from oboro.arrays import Bools, Integers
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

LAYOUT = Layout(Domain([Grid("row", "col", shape=(16, 16))]))
ODD = Layout(Domain([Grid("row", "col", shape=(16, 13))]))  # some nodes have no cell
LAWS = [DiscreteLaplace(Fraction(own)) for own in (5, 3, 2, 4)]
WHERE: tuple[dict[str, tuple[int, int]], ...] = (
    {"row": (1, 10), "col": (2, 9)},
    {"row": (3, 4), "col": (0, 12)},
    {"row": (2, 9), "col": (4, 9)},
)


def _counted(
    layout: Layout, steps: tuple[int, ...], cells: Cells | None = None
) -> tuple[Any, list[Round], list[Nodes]]:
    """Blocks of 4 x 4 with a level above them, and two rounds that divide them at random; without cells counts at random."""
    random = np.random.default_rng(4)
    lattice, levels = _of_keys([2, 4])

    def noisy(nodes: Nodes) -> Integers:
        found = random.integers(-3, 20, nodes.size) if cells is None else nodes.sums(cells)
        return np.where(nodes.possible(layout), found, 0)

    first = [noisy(Nodes.of_depth(layout, depth)) for depth in (2, 4)]
    top = least_squares_top(layout, 4, lattice, levels, LAWS[:2], first)
    nodes, rounds, every = Nodes.of_depth(layout, 4), [], []
    for law in LAWS[2:]:
        own = np.minimum(random.choice(steps, nodes.size), nodes.heights)
        finer = nodes.divided(own)
        rounds.append(Round(nodes.starts, nodes.heights - own, np.left_shift(1, own), noisy(finer), law))
        nodes = finer
        every.append(nodes)
    return top, rounds, every


def _asked(layout: Layout, where: dict[str, tuple[int, int]]) -> tuple[Integers, Bools]:
    """All cells, and which of them are asked for."""
    places = np.indices(layout.sizes).reshape(2, -1)
    asked = np.ones(places.shape[1], np.bool_)
    for axis, name in enumerate(("row", "col")):
        low, high = where[name]
        asked &= (places[axis] >= low) & (places[axis] <= high)
    return layout.keys(list(places)), asked


def _by_normal_equations(
    top: Any, rounds: list[Round], every: list[Nodes], where: dict[str, tuple[int, int]]
) -> tuple[float, float]:
    """The sum of all parts inside: blocks on the edge by their parts as unknowns, the others as they were counted."""
    keys, asked = _asked(LAYOUT, where)
    parts, weights, value, below = every[-1], np.zeros(16), 0.0, 0.0
    for block in range(16):
        held = keys >> 4 == block
        if not asked[held].any() or asked[held].all():
            weights[block] = float(asked[held].all())
            continue
        own = np.flatnonzero(parts.starts >> 4 == block)
        chosen = np.array([asked[parts.place(keys) == part].all() for part in own], float)
        rows, seen, sizes = [np.ones(own.size)], [top.estimates[block]], [1 / top.variance]
        for nodes, each in zip(every, rounds, strict=True):
            for node in np.flatnonzero(nodes.starts >> 4 == block):
                rows.append((nodes.place(parts.starts[own]) == node).astype(float))
                seen.append(each.noisy[node])
                sizes.append(precision(each.noise))
        a, w = np.array(rows), np.array(sizes)
        of_counts = chosen @ np.linalg.solve(a.T @ (w[:, None] * a), a.T * w)
        weights[block] = of_counts[0]
        value += float(of_counts[1:] @ np.array(seen)[1:])
        below += float((of_counts[1:] ** 2 / w[1:]).sum())
    return value + float(top.estimates @ weights), below + top.error(weights).variance


@pytest.mark.parametrize("where", WHERE)
def test_where_all_is_divided_blocks_on_the_edge_are_taken_by_least_squares(
    where: dict[str, tuple[int, int]],
) -> None:
    top, rounds, every = _counted(LAYOUT, (2,))
    found = bounds_across(top, rounds, region_of(LAYOUT, where), 0.9, (2, 0))
    value, variance = _by_normal_equations(top, rounds, every, where)
    assert found.estimate == pytest.approx(value, rel=1e-9)
    assert found.error.variance == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("many", [None, (2, 0)])
@pytest.mark.parametrize("steps", [(0,), (0, 2, 4), (4,)])
@pytest.mark.parametrize("layout", [LAYOUT, ODD], ids=["16 x 16", "16 x 13"])
def test_without_noise_bounds_are_what_the_parts_inside_and_those_touched_hold(
    layout: Layout, steps: tuple[int, ...], many: tuple[int, ...] | None
) -> None:
    """However places were divided: the weights of a part and of all above it add up to 1 or to 0."""
    for where in WHERE:
        keys, asked = _asked(layout, where)
        order = np.argsort(keys)
        held = np.random.default_rng(2).integers(0, 30, keys.size)
        top, rounds, every = _counted(layout, steps, Cells(keys[order], held[order]))
        found = bounds_across(top, rounds, region_of(layout, where), 0.9, many)
        place = every[-1].place(keys)
        inside = np.array([asked[place == own].all() for own in place])
        touched = np.array([asked[place == own].any() for own in place])
        reach = found.error.reach(0.9)  # of the upper end
        assert found.high - reach == pytest.approx(held[touched].sum())
        assert found.low <= held[inside].sum()
        if (inside == touched).all():
            assert found.estimate == pytest.approx(held[asked].sum())


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


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize("workload", [None, DEFAULT], ids=["adaptive", "a tree that looks"])
def test_many_blocks_on_an_edge_add_no_bias(workload: Any) -> None:
    """Empty columns of blocks between full ones, but for every eighth row: 56 tables at 95%; 42 of them or fewer have a chance of 5e-7.

    Least squares over the nodes that there are covers 40 to 55% of them: a block that is empty is divided where its noise was high, which then counts for more.
    """
    side = 128
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(side, side))]),
        unit=Unit.cells(),
        eps=1,
        strategy="adaptive",
        workload=workload,
    )
    cols = [col for col in range(side) if col // 8 % 2 == 0]
    rows = [row for row in range(side) if row % 8]
    true = np.full((side, side), 20)
    true[:, cols] = 0
    true[rows[3], cols[5]] = 5000
    places = np.nonzero(true)
    keys = plan.layout.keys(places)
    order = np.argsort(keys)
    cells, held = Cells(keys[order], true[places][order]), 0
    for _ in range(56):
        published = plan.mechanism.measure(cells, system_bits())[0]
        answer = plan.mechanism.answer(published, {"row": rows, "col": cols}, 0.95)
        held += answer.low <= 5000 <= answer.high
    assert held > 42
