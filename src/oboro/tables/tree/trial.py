"""Which of our plans serves given questions best, once counts are kept at 0 or more: tried out on made-up tables.

The planner makes errors smallest as least squares leaves them. What follows, keeping counts at 0 or more, helps some plans
far more than others, most of all where people are few, and has no closed form. So plans are tried out: on a small table
that is filled as the city and the country of the outlook are, and as smooth hills, a valley and islands are, with noise from a fixed seed.
If nobody says how many people there are, any number may be right: then it is tried out which plan is best for each order of magnitude, and where that differs
the plan asks for the number first (`sized`). No data is looked at, and the same facts always give the same choice.

What decides most is the *filling*: people times eps/D for each cell. Below about 1, a table that looks is
better for questions of all kinds; above, a tree that is planned for the questions. Where blocks or squares are asked for, what looks is the tree
itself (`Pruned`), which is as good for large blocks; for cells and rectangles it may be `Adaptive`, too.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Domain, Grid, Integer
from oboro.exact import remembered
from oboro.noise.bits import Bits, UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import LARGEST_TOTAL, Cells, Layout
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.outlook import shape_of
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.sized import Sized, Way
from oboro.tables.tree.strategy import PlannedTree, design_for
from oboro.tables.tree.workload import DEFAULT, LONG_SIDES, Part, Workload

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan

# a tree for the questions, the default tree, a table that looks, a tree for the questions that looks
PLANNED, USUAL, LOOKS, DIVIDED = "planned", "usual", "adaptive", "divided"
KINDS = ("blocks", "squares", "rectangles", "cells")  # questions that can be tried out
_SHAPES = ("city", "country", "hills", "valley", "islands")
_PEOPLE = (10**3, 10**8)  # so many there may be where nobody says it
_LEAST, _MOST = -8, 8  # powers of two: of a filling that is tried out
_STEP = 2  # of these powers, where there may be any number of people
_EPS = Fraction(1, 4)
_BITS = {1: 12, 2: 7}  # of a side of the made-up table, at most
_ASKED = 512  # questions of each kind
_RUNS = 12  # on each shape: so many with one filling
_FEWER = 4  # and so many with each of several
_LOOKING = (LOOKS, DIVIDED)
CLEARLY = 0.99  # what looks takes longer, and must be better by as much
FAR = 0.9  # and by as much for the forecast of a tree to say so
# the filling, as a power of two, from which the default tree is nearly as good for the default questions, by bits of a side; with more cells
# than 256 x 256 from where it is within a tenth, since it takes half of the time and memory
_USUAL_FROM = {
    1: {2: -9, 3: -2, 4: 0, 5: 0, 6: 0, 7: 0.5, 8: 1, 9: 1, 10: 1, 11: 1.5, 12: 3},
    2: {2: -9, 3: -0.5, 4: -0.5, 5: 2, 6: 2.5, 7: 6.5, 8: 6.5, 9: 3.5},
}
_TURN = 0.02  # so much, of the sum of log errors over fillings, must one way more gain


def best(made: TablePlan, people: int | None, any_strategy: bool) -> TablePlan:
    """What serves the questions of a tree best, as far as public facts tell: the tree as planned, the default tree, a table that looks, or
    one that asks first how many people there are.
    """
    asked = made.workload or DEFAULT
    if not tried(made.layout, asked) or (asked == DEFAULT and not any_strategy):
        return made
    facts = (made.layout, made.guarantee.eps, made.unit, asked)
    if people is None and any_strategy:
        found = ways(*facts)
        if len(found) > 1:
            return dataclasses.replace(made, strategy=Sized.name, design=None, by_people=found)
        return _bound(made, found[0])
    return _bound(made, _way(made.layout, made.unit, asked, choice(*facts, people, looks=any_strategy)))


def _bound(made: TablePlan, way: Way) -> TablePlan:
    if way.design is None:
        return dataclasses.replace(made, strategy=Adaptive.name, workload=None, design=None)
    return dataclasses.replace(made, strategy=Pruned.name if way.looks else made.strategy, design=way.design)


def _way(layout: Layout, unit: Unit, workload: Workload, name: str, people: int = 0) -> Way:
    """A plan, from so many people on."""
    if name == LOOKS:
        return Way(people)
    return Way(people, design_for(layout, unit, DEFAULT if name == USUAL else workload), name == DIVIDED)


def in_blocks(workload: Workload) -> bool:
    """Whether blocks or squares are asked for: of several sizes, all of which matter, and of which `Adaptive` counts but a few."""
    return any(part.kind in ("blocks", "squares") for part in workload.parts)


def tried(layout: Layout, workload: Workload) -> bool:
    """Whether plans for these questions can be tried out: of one column of places, numbers or dates, and no categories."""
    if any(part.kind not in KINDS for part in workload.parts) or len(layout.domain) != 1:
        return False
    (column,), (tree,) = layout.domain.columns, lattice_of(layout.domain).trees
    return not isinstance(column, Category) and tree.depth > 1


def choice(
    layout: Layout, eps: Fraction, unit: Unit, workload: Workload, people: int | None, *, looks: bool = True
) -> str:
    """The plan with the smallest errors: PLANNED, USUAL or, if it may be, LOOKS or DIVIDED."""
    if workload == DEFAULT and people is not None:
        few = _step(layout, eps, unit, people) < _usual_from(layout)
        return DIVIDED if looks and few else USUAL
    found = ratios(layout, eps, unit, workload, people)
    return min(
        (name for name in found if looks or name not in _LOOKING), key=lambda name: found[name] * _more(name)
    )


def looking(found: dict[str, float]) -> str:
    """The better of those that look."""
    return min((name for name in found if name in _LOOKING), key=lambda name: found[name])


def _more(name: str) -> float:
    return 1 / CLEARLY if name in _LOOKING else 1.0


def ratios(
    layout: Layout, eps: Fraction, unit: Unit, workload: Workload, people: int | None
) -> dict[str, float]:
    """Errors of each plan over those of a tree for the questions, in the geometric mean over kinds and shapes.

    If nobody says how many people there are: over those of the best plan, where that is largest.
    """
    facts = (*_small(layout), workload)
    if people is not None:
        (logs,) = _tried_out(*facts, (_step(layout, eps, unit, people),), _RUNS)
        return {name: math.exp(log - logs[PLANNED]) for name, log in logs.items()}
    found = _tried_out(*facts, _steps(layout, eps, unit), _FEWER)
    return {name: math.exp(max(logs[name] - min(logs.values()) for logs in found)) for name in found[0]}


def ways(layout: Layout, eps: Fraction, unit: Unit, workload: Workload) -> tuple[Way, ...]:
    """Which plan is best from how many people on: between fillings that were tried out, from where two would be as good."""
    if not tried(layout, workload):
        return (Way(0, design_for(layout, unit, workload)),)
    steps = _steps(layout, eps, unit)
    if workload == DEFAULT:
        path, turns = _usual(_usual_from(layout), steps)
    else:
        path, turns = _path(_tried_out(*_small(layout), workload, steps, _FEWER), steps)
    one = counts_move(unit) * layout.cells / eps  # so many people are a filling of 1
    starts = [0, *(min(math.ceil(Fraction(2.0**turn) * one), LARGEST_TOTAL) for turn in turns)]
    return tuple(_way(layout, unit, workload, name, start) for start, name in zip(starts, path, strict=True))


def _usual(turn: float, steps: Sequence[int]) -> tuple[list[str], list[float]]:
    """The same for the default questions, from what was tried out once: whoever names no questions does not wait."""
    if steps[0] < turn <= steps[-1]:
        return [DIVIDED, USUAL], [turn]
    return [USUAL if turn <= steps[0] else DIVIDED], []


def _path(found: Sequence[dict[str, float]], steps: Sequence[int]) -> tuple[list[str], list[float]]:
    """The best plan for each filling with few changes, once each, and where it changes."""
    logs = [{name: log + math.log(_more(name)) for name, log in own.items()} for own in found]
    lowest = {name: (log, [name]) for name, log in logs[0].items()}
    for own in logs[1:]:
        lowest = {
            name: min(
                (value + _TURN * (path[-1] != name) + log, [*path, name]) for value, path in lowest.values()
            )
            for name, log in own.items()
        }
    _, path = min(lowest.values())
    turns = []
    for at, (one, other) in enumerate(pairwise(path)):
        if one != other:
            before, after = (own[other] - own[one] for own in logs[at : at + 2])
            part = before / (before - after) if before > 0 > after else 0.5
            turns.append(steps[at] + part * (steps[at + 1] - steps[at]))
    return [name for name, _ in groupby(path)], turns


def _small(layout: Layout) -> tuple[int, int]:
    """The made-up table for a layout: its dimensions, and the bits of a side."""
    axes, bits = _sides(layout)
    return axes, min(bits, _BITS[axes])


def _sides(layout: Layout) -> tuple[int, int]:
    """Dimensions, and the bits of a side, two at least."""
    axes = len(lattice_of(layout.domain).trees[0].directions)
    return axes, max(round(math.log2(layout.cells) / axes), 2)


def _usual_from(layout: Layout) -> float:
    axes, bits = _sides(layout)
    return _USUAL_FROM[axes][min(bits, max(_USUAL_FROM[axes]))]


def _step(layout: Layout, eps: Fraction, unit: Unit, people: int) -> float:
    """The filling for so many people, as a power of two, to the nearest half."""
    filling = max(people, 1) * eps / (counts_move(unit) * layout.cells)
    power = math.log2(filling.numerator) - math.log2(filling.denominator)  # eps may be beyond any float
    return min(max(round(2 * power) / 2, _LEAST), _MOST)


def _steps(layout: Layout, eps: Fraction, unit: Unit) -> tuple[int, ...]:
    """Fillings for any number of people."""
    first, last = (math.floor(_step(layout, eps, unit, people)) for people in _PEOPLE)
    return tuple(range(first, last + _STEP, _STEP)) if first < last else (first,)


@remembered(32)
def _tried_out(
    axes: int, bits: int, workload: Workload, steps: tuple[float, ...], runs: int
) -> tuple[dict[str, float], ...]:
    """For each filling, the mean logarithm of the errors of each plan."""
    sides = (1 << bits,) * axes
    layout = Layout(
        Domain([Grid("row", "col", shape=sides) if axes == 2 else Integer("at", 0, sides[0] - 1)])
    )
    facts = (layout, Pure(_EPS), Unit.cells())
    plans: dict[str, Strategy] = {
        PLANNED: PlannedTree(*facts, workload=workload),
        USUAL: PlannedTree(*facts),
        DIVIDED: Pruned(*facts, workload=workload),
    }
    if not in_blocks(workload):
        plans[LOOKS] = Adaptive(*facts)
    asked = [own for part in workload.parts for own in _questions(part, sides)]
    found = []
    for step in steps:
        logs = dict.fromkeys(plans, 0.0)
        for shape in _SHAPES:
            truth = _filled(shape, sides, max(round(2.0**step * math.prod(sides) / float(_EPS)), 1))
            for name, plan in plans.items():
                logs[name] += log_error(plan, truth, asked, runs) / len(_SHAPES)
        found.append(logs)
    return tuple(found)


def log_error(
    plan: Strategy, truth: Integers, asked: list[Integers], runs: int, bits: Bits | None = None
) -> float:
    """The mean over kinds of questions of the logarithm of the root mean square error."""
    return float(log_errors(plan, truth, asked, runs, bits).mean())


def log_errors(
    plan: Strategy, truth: Integers, asked: list[Integers], runs: int, bits: Bits | None = None
) -> Floats:
    """The same for each kind."""
    places = np.nonzero(truth)
    keys = plan.layout.keys(places)
    order = np.argsort(keys)
    squares = np.zeros(len(asked))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        bits = bits or UnsafeDeterministicBits("trial")
    for found in plan.measure(Cells(keys[order], truth[places][order]), bits, runs):
        off = -truth.astype(float)
        off[tuple(plan.layout.places(found.keys))] += found.counts
        sums = np.pad(off, [(1, 0)] * off.ndim)
        for axis in range(off.ndim):
            sums = sums.cumsum(axis)
        squares += [np.mean(_answers(sums, kind) ** 2) for kind in asked]
    return np.asarray(np.log(np.maximum(squares / runs, 1e-3)) / 2)


def _questions(part: Part, sides: tuple[int, ...]) -> Iterator[Integers]:
    """The kinds of questions of a part of a workload: of each, the lower and upper ends of some along every axis.

    Rectangles whose sides nobody names are those with any two ends.
    """
    random = np.random.default_rng(7)
    if part.kind == "rectangles" and part.sides == LONG_SIDES:
        ends = np.sort([random.integers(0, side, (2, _ASKED)) for side in sides], axis=1)
        yield np.stack([ends[:, 0], ends[:, 1] + 1])
        return
    if part.kind in ("blocks", "cells"):
        most = 1 if part.kind == "cells" else sides[0].bit_length()
        kinds = [(1 << at,) * len(sides) for at in range(most)]
    elif part.kind == "rectangles" and len(sides) == 2:
        kinds = [(one, other) for one in part.sides for other in part.sides]
    else:
        kinds = [(one,) * len(sides) for one in part.sides]
    for lengths in dict.fromkeys(tuple(map(min, own, sides)) for own in kinds):
        pairs = list(zip(sides, lengths, strict=True))
        if part.kind == "blocks":
            low = [random.integers(0, side // own, _ASKED) * own for side, own in pairs]
        else:
            low = [random.integers(0, side - own + 1, _ASKED) for side, own in pairs]
        yield np.array([low, [at + own for at, own in zip(low, lengths, strict=True)]])


def _answers(sums: Floats, asked: Integers) -> Floats:
    """What lies between the ends, from sums over all that is below them."""
    low, high = asked
    if sums.ndim == 1:
        return np.asarray(sums[high[0]] - sums[low[0]])
    return np.asarray(
        sums[high[0], high[1]] - sums[low[0], high[1]] - sums[high[0], low[1]] + sums[low[0], low[1]]
    )


def _filled(shape: str, sides: tuple[int, ...], people: int) -> Integers:
    """So many people on a small table, as they live in a shape."""
    found = np.random.default_rng(11).multinomial(people, _density(shape, sides).reshape(-1))
    return found.reshape(sides).astype(np.int64)


@lru_cache(maxsize=16)
def _density(shape: str, sides: tuple[int, ...]) -> Floats:
    """The shape on a smaller table; on a line, some rows of it laid end to end."""
    own = {"hills": _hills, "valley": _valley, "islands": _islands}.get(shape)
    whole = shape_of(shape) if own is None else own()
    if len(sides) == 2:
        by = len(whole) // sides[0]
        found = whole.reshape(sides[0], by, sides[0], by).sum(axis=(1, 3))
    else:
        found = whole[:: len(whole) // 8].reshape(sides[0], -1).sum(axis=1)
    return np.asarray(found / found.sum())


def _hills() -> Floats:
    """Twelve of them, from narrow to wide, of any height; nobody far from all."""
    random, at = np.random.default_rng(12), np.arange(512)
    found = np.zeros((512, 512))
    for wide in np.geomspace(6, 60, 12):
        row, col = random.uniform(0, 512, 2)
        near = [np.exp(-(((at - place) / wide) ** 2) / 2) for place in (row, col)]
        found += (random.pareto(1) + 0.1) / wide**2 * np.outer(*near)
    return found


def _valley() -> Floats:
    """People along a bent line, fewer and fewer towards its end."""
    at = np.arange(512)
    middle = 256 + 120 * np.sin(at / 90)
    along = np.exp(-at / 250) * np.random.default_rng(13).lognormal(0, 0.3, 512)
    return np.asarray(along * np.exp(-(((at[:, None] - middle) / 20) ** 2) / 2))


def _islands() -> Floats:
    """A fifteenth of the ground, in patches; nobody can be elsewhere."""
    random, at = np.random.default_rng(14), np.arange(512)
    found = np.zeros((512, 512))
    for wide in np.geomspace(8, 50, 9):
        row, col = random.uniform(0, 512, 2)
        near = np.hypot(at[:, None] - row, at - col) < wide
        found += np.where(near, random.pareto(1) + 0.1, 0)
    return np.asarray(found * random.lognormal(0, 0.5, found.shape))
