"""How often what is printed covers the truth: intervals of rows and of answers, tried out on made-up data.

For tables the rows that are published and hold people, those that are published and hold nobody, cells, blocks, odd
rectangles and totals that were chosen beforehand, by every strategy with intervals, with Laplace and Gaussian noise; for
statistics each number with an interval, alone, by group and in a batch, and the ranks of quantiles; for signals each output
under each kind of noise; for series what each tick prints, and what the final table does, also where a tick was lost. Each at several eps and levels. Coverage must be at least the level, within what chance allows: a
full run calls sound intervals short once in a million times.

A table of one's own can be tried in the same way: its plan and its data, for the steward's eyes, since shares are those of true
counts.

What is not promised, and not measured: the interval of the largest row, or of rows that a reader picks by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from oboro.audit.figures import QUESTIONS, SIZES, Covered, Tally, made, run_table
from oboro.domain import Areas, Category, Column, Grid, Mesh
from oboro.errors import ParameterError
from oboro.exact import positive, rational, show, whole
from oboro.kinds import list_of
from oboro.noise import Bits, system_bits
from oboro.release import Plan
from oboro.tables.cells import Cells, column_groups
from oboro.tables.nested.strategy import AreaTree
from oboro.tables.plan import TablePlan
from oboro.tables.tree.answers import region_of

EPS = ("0.1", "0.5", "1", "3")
LEVELS = (0.5, 0.8, 0.95, 0.99)
RUNS = 200
ALARM = 1e-6  # of a full run
_MOST_KINDS = 24  # of intervals in one of the things that are tried


def coverage(
    runs: int = RUNS,
    *,
    eps: Sequence[str] = EPS,
    levels: Sequence[float] = LEVELS,
    plan: TablePlan | None = None,
    data: object = None,
    bits: Bits | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Iterator[Covered]:
    """Runs everything that has an interval so many times and counts. The data are made up; nothing is spent.

    With the `plan` of a table and its `data` that table alone is tried. What is found is for the steward: it is computed from
    true counts, and is not to be published.

    >>> found = list(ob.audit.coverage(1, eps=["1"], levels=[0.95]))
    >>> [one.what for one in found][:2], all(one.holds for one in found)
    (['tree, rows that hold people', 'tree, rows that hold nobody'], True)
    """
    runs = whole("runs", runs, least=1, most=10**6)
    asked = [show(positive("eps", each)) for each in list_of("eps", eps)]
    wanted = [float(rational("levels", each, 0.95)) for each in list_of("levels", levels)]
    if plan is not None:
        if not isinstance(plan, TablePlan) or plan.intervals is None:
            raise ParameterError(
                "only tables with intervals can be tried on data of one's own",
                given=plan.kind if isinstance(plan, Plan) else repr(type(plan)),
                needed="the plan of a table by strategy tree, filtered, adaptive or sized",
                fix="oboro table forecast ... --save-plan plan.toml",
            )
        return _own(runs, wanted, plan, data, bits or system_bits(), watch)
    return _tried(runs, asked, wanted, bits or system_bits(), watch)


def _own(
    runs: int,
    levels: Sequence[float],
    plan: TablePlan,
    data: object,
    bits: Bits,
    watch: Callable[[str, int, int], None] | None,
) -> Iterator[Covered]:
    prepared = plan.prepare(data)
    questions = list(_own_questions(plan, prepared))
    tally = Tally()
    for done in range(runs):
        if watch is not None:
            watch(plan.strategy, done, runs)
        run_table(tally, plan.strategy, plan, prepared, questions, levels, bits)
    yield from tally.result(show(plan.mechanism.eps), ALARM / (_MOST_KINDS * max(len(levels), 1)))


def _own_questions(plan: TablePlan, cells: Cells) -> Iterator[tuple[str, dict[str, object], int]]:
    """Chosen from the domain alone, the same in all runs: cells, blocks, odd rectangles, areas, all."""
    rng, layout = np.random.default_rng(1), plan.layout

    def held(where: dict[str, object]) -> int:
        if isinstance(plan.mechanism, AreaTree):
            return int(cells.counts[plan.mechanism.inside(cells.keys, where)].sum())
        return int(cells.counts[region_of(layout, where).hold(cells.keys)].sum())

    for what, high, wide in SIZES:
        for _ in range(QUESTIONS):
            where: dict[str, object] = {}
            for column in layout.domain:
                where |= _choice(column, high, wide, rng)
            areas = high > 1 and isinstance(plan.mechanism, AreaTree)
            yield "areas" if areas else what, where, held(where)
    yield "all", {}, int(cells.counts.sum())


def _choice(column: Column, high: int, wide: int, rng: np.random.Generator) -> dict[str, object]:
    """Of a grid a rectangle, of numbers and dates a range, of categories one or all, of meshes one or a coarser one,
    of areas a cell or an area of some level."""
    if isinstance(column, Grid):
        found: dict[str, object] = {}
        for name, side, size in zip(column.names, (high, wide), column.shape, strict=True):
            first = int(rng.integers(0, max(size - side, 0) + 1))
            first = first // side * side if high == wide else first
            found[name] = (first, min(first + side, size) - 1)
        return found
    if isinstance(column, Areas):
        if high == 1:
            values = np.atleast_1d(np.asarray(column.value(int(rng.integers(0, column.size)))))
            return dict(zip(column.sources, values.tolist(), strict=True))
        level = column.levels[min(int(rng.integers(0, len(column.levels))), len(column.levels) - 2)]
        names = column.labels(level)
        return {level: names[int(rng.integers(0, len(names)))]}
    name = column.sources[0]
    if isinstance(column, Mesh):
        place = [rng.integers(0, size, 1) for group in column_groups(column) for size in group]
        code = str(int(column.from_axes(place)[0]))
        lengths = [4, *(4 + each for each in accumulate(2 - (side == 2) for side, _ in column.groups[1:]))]
        coarser = 1 if high == 1 else 2 if high == 4 else 3  # the mesh itself, the next one, the one after
        return {name: code[: lengths[-min(coarser, len(lengths))]]}
    if isinstance(column, Category):
        return {name: column.value(int(rng.integers(0, column.size)))} if high in (1, 13) else {}
    first = int(rng.integers(0, max(column.size - wide, 0) + 1))
    first = first // wide * wide if high == wide else first
    return {name: (column.value(first), column.value(min(first + wide, column.size) - 1))}


def _tried(
    runs: int,
    eps: Sequence[str],
    levels: Sequence[float],
    bits: Bits,
    watch: Callable[[str, int, int], None] | None,
) -> Iterator[Covered]:
    tried = [(name, make, each) for each in eps for name, make in made().items()]
    alarm = ALARM / max(len(tried) * _MOST_KINDS * len(levels), 1)
    for done, (name, make, each) in enumerate(tried):
        if watch is not None:
            watch(name, done, len(tried))
        tally = Tally()
        make(tally, name, each, levels, runs, bits)
        yield from tally.result(each, alarm)


def summary(found: Iterable[Covered]) -> list[tuple[str, bool, list[float]]]:
    """For each kind: whether it holds, and the smallest share that was covered at each level, over all eps."""
    kinds: dict[str, list[Covered]] = {}
    for one in found:
        kinds.setdefault(one.what, []).append(one)
    return [
        (
            what,
            all(one.holds for one in own),
            [min(one.share for one in own if one.level == level) for level in sorted({o.level for o in own})],
        )
        for what, own in kinds.items()
    ]
