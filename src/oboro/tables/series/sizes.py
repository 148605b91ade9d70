"""What readers ask of a series: blocks of a size at each tick, and means over all ticks."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, prod

from oboro.errors import ParameterError, told
from oboro.kinds import text_of
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.measure import spine_of
from oboro.tables.tree.workload import OVER_TICKS, Part, Workload

CELLS, ALL = "cells", "all"
_USUAL = 64  # cells of a block at each tick, where nothing else is asked for


def each_tick(*sizes: str) -> Workload:
    """Blocks of these sizes at each tick: "8x8", "cells" for single ones, "all" for the whole.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=24, max_ticks=24, workload=ob.tables.each_tick("8x8"))
    >>> plan.levels
    ('all of tick; 1 x 1 of row,col', 'each tick; 8 x 8 of row,col')
    """
    return _workload("each_tick", sizes)


def mean_over_ticks(*sizes: str) -> Workload:
    """The mean over all ticks of blocks of these sizes.

    >>> asked = ob.tables.each_tick("8x8") + ob.tables.mean_over_ticks("cells")
    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=24, max_ticks=24, workload=asked)
    >>> [float(share) for share in plan.shares]
    [0.501, 0.499]
    """
    return _workload("mean_over_ticks", sizes)


def _workload(kind: str, sizes: Sequence[str]) -> Workload:
    if not sizes:
        raise ParameterError(
            "say blocks of which size are asked for",
            given=f"{kind}()",
            needed='a size such as "8x8", or "cells"',
            fix=f'ob.tables.{kind}("8x8")',
        )
    return Workload((Part(kind, columns=tuple((text_of("sizes", size),) for size in sizes)),))  # type: ignore[arg-type]


def usual(places: Lattice) -> Workload:
    """Blocks of about 64 cells at each tick, and the mean of single cells."""
    tree = places.trees[spine_of(places)]
    near = min(range(tree.depth + 1), key=lambda at: abs(log(tree.under(at) / _USUAL)))
    small = tree.leaves < 4 * _USUAL
    return each_tick(CELLS if small else size_of(tree, near)) + mean_over_ticks(CELLS)


def size_of(tree: Tree, level: int) -> str:
    """How the nodes of a level are called: "8x8"."""
    if level == tree.depth:
        return CELLS
    if level == 0:
        return ALL
    labels = dict(tree.labels)
    if level in labels:
        return labels[level].replace(" ", "").removesuffix("mesh")
    return "x".join(str(prod(tree.side(axis, level) for axis in axes)) for axes in tree.directions)


def level_of(tree: Tree, size: str) -> int:
    """The level whose nodes have this size."""
    known = {size_of(tree, level): level for level in range(tree.depth, -1, -1)}
    wanted = size.replace(" ", "").removesuffix("mesh")
    if wanted not in known:
        raise ParameterError(
            "no block of the tree has this size",
            given=repr(size),
            needed=", ".join(known),
            argument="workload",
            fix=told(workload=f'ob.tables.each_tick("{size_of(tree, max(tree.depth - 3, 0))}")'),
        )
    return known[wanted]


def asked(workload: Workload, places: Lattice) -> list[tuple[str, Level]]:
    """What is asked: each tick or the mean, and of which level; of each value of the other columns, and of all together."""
    found: list[tuple[str, Level]] = []
    spine = spine_of(places)
    for part in workload.parts:
        if part.kind not in OVER_TICKS:
            raise ParameterError(
                "a series is planned for what is asked at each tick, or over all of them",
                given=told(workload=repr(str(workload))),
                needed="each_tick(...), mean_over_ticks(...), or their sum",
                fix=told(workload='ob.tables.each_tick("8x8")'),
            )
        for (size,) in part.columns:
            at = level_of(places.trees[spine], size)
            for whole in (True, False) if len(places.trees) > 1 else (False,):
                level = tuple(
                    at if i == spine else 0 if whole else tree.depth for i, tree in enumerate(places.trees)
                )
                found.append((part.kind, level))
    return found


def shown(workload: Workload, places: Lattice) -> Level:
    """The level of the blocks that each tick publishes: the finest that is asked for at each tick."""
    spine = spine_of(places)
    levels = [level for kind, level in asked(workload, places) if kind == "each_tick"]
    at = max((level[spine] for level in levels), default=0)
    return tuple(at if i == spine else tree.depth for i, tree in enumerate(places.trees))
