"""The table that goes out: whole numbers of 0 or more, with what their intervals come from.

One row for each block that can hold anybody, whatever it holds, so that the form of the table is public:

    tick       the last tick that it covers
    ticks      how many it covers: 1, or all of a block of time. The mean over them is the count divided by this
    ...        the first cell of the block, by the columns of the domain
    cells      how many cells it has
    count      how many, whole and 0 or more; over all ticks that it covers. What noise hides among the cells of a block is shared out as the blocks around it suggest (shrinkage.py)
    estimate   the least-squares answer that it comes from, unbiased: the interval is its own
    state      provisional, final, or lost: the tick of its own was lost, and the blocks of time around it tell what they can
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.errors import DataError
from oboro.tables.cells import Layout
from oboro.tables.input import TICK
from oboro.tables.series.clock import Clock
from oboro.tables.series.estimates import Estimates, Node
from oboro.tables.series.shrinkage import shrunk
from oboro.tables.strategy import key_columns
from oboro.tables.tree.intervals import hull
from oboro.tables.tree.lattice import Lattice, Level
from oboro.tables.tree.measure import down, project, spine_of

TICKS, CELLS, ESTIMATE, STATE = "ticks", "cells", "estimate", "state"
NAMES = (TICK, TICKS, CELLS, ESTIMATE, STATE)
PROVISIONAL, FINAL, LOST = "provisional", "final", "lost"
STATES = (PROVISIONAL, FINAL, LOST)
SERIES = b"oboro.series"  # in the metadata of a table: which ticks it rests on


@dataclass(frozen=True)
class Family:
    """Blocks of one size in one block of time: what they are estimated at, and what is published of them."""

    at: Node
    level: Level
    estimates: Floats
    counts: Integers
    state: str


def cut(places: Lattice, level: Level) -> Lattice:
    """The same places down to a level."""
    trees = zip(places.trees, level, strict=True)
    return Lattice(tuple(replace(tree, steps=tree.steps[:at]) for tree, at in trees))


def whole(estimates: Floats, places: Lattice, level: Level, possible: Bools | None) -> Integers:
    """Whole numbers of 0 or more, for the nodes of a level, near to their estimates."""
    return project(cut(places, level), estimates, _some(places, level, possible))


def _some(places: Lattice, level: Level, possible: Bools | None) -> Bools | None:
    return None if possible is None else np.asarray(places.sums(possible, level) > 0)


def provisional(
    estimates: Estimates, values: Any, tick: int, shown: Level, possible: Bools | None
) -> list[Family]:
    """What a tick publishes: its own blocks, and single cells of the longest block of time that is over with it and was counted by them."""
    places, depth = estimates.places, estimates.clock.depth
    wanted: list[tuple[Node, Level]] = [((depth, tick), shown)]
    wanted += [
        (at, places.finest)
        for at in estimates.clock.closing(tick)
        if at[0] < depth and len(estimates.clock.span(*at)) > 1
    ]
    found: list[Family] = []
    for at, level in wanted:
        longer = any(one.at[0] < depth for one in found)
        if longer or not known(estimates, at, level):
            continue
        own = values([at], level)[at]
        counts = whole(own, places, level, possible) if at[0] == depth else None
        if counts is None:
            held = whole(values([at], shown)[at], places, shown, possible)
            counts = _below(estimates, at, shown, held, own, possible)
        found.append(Family(at, level, own, counts, PROVISIONAL))
    return found


def final(estimates: Estimates, values: Any, shown: Level, possible: Bools | None) -> list[Family]:
    """What the whole series publishes: blocks at each tick, and single cells over all ticks, which add up to the same."""
    places, clock = estimates.places, estimates.clock
    ticks = [(clock.depth, tick) for tick in range(clock.ticks)]
    told = [at for at in ticks if known(estimates, at, shown)]
    hours = values(told, shown)
    counts: Mapping[Node, Integers] = {}
    if len(told) == clock.ticks:
        counts = dict(
            zip(ticks, _jointly(estimates, [hours[at] for at in ticks], shown, possible), strict=True)
        )
    else:
        counts = {at: whole(hours[at], places, shown, possible) for at in told}
    found = [
        Family(at, shown, hours[at], counts[at], FINAL if at[1] in estimates.done else LOST) for at in told
    ]
    day: Node = (0, 0)
    if known(estimates, day, places.finest):
        own = values([day], places.finest)[day]
        if len(told) == clock.ticks:
            held = np.sum([counts[at] for at in ticks], axis=0)
        else:
            held = whole(values([day], shown)[day], places, shown, possible)
        published = _below(estimates, day, shown, held, own, possible)
        found.append(Family(day, places.finest, own, published, FINAL))
    return found


def known(estimates: Estimates, at: Node, level: Level) -> bool:
    """Whether what is there tells anything about such blocks."""
    return estimates.variance(at, level) < np.inf


def _jointly(
    estimates: Estimates, hours: Sequence[Floats], level: Level, possible: Bools | None
) -> list[Integers]:
    """All ticks together, so that they are near their estimates and so are their sums."""
    places, clock = estimates.places, estimates.clock
    tree = clock.tree
    wanted = np.stack([*hours, *[np.zeros_like(hours[0])] * (tree.leaves - clock.ticks)])
    some = _some(places, level, possible)
    good = None
    if some is not None or tree.filled_up:
        comes = np.arange(tree.leaves) < clock.ticks
        good = np.logical_and.outer(comes, np.ones(wanted.shape[1:], np.bool_) if some is None else some)
    return list(project(Lattice((tree, *cut(places, level).trees)), wanted, good)[: clock.ticks])


def _below(
    estimates: Estimates, at: Node, level: Level, held: Integers, wanted: Floats, possible: Bools | None
) -> Integers:
    """What blocks hold in a block of time, shared out among their cells."""
    places = estimates.places
    spine = spine_of(places)
    order = [spine, *(i for i in range(len(places.trees)) if i != spine)]
    tree = places.trees[spine]
    rest = replace(tree, steps=tree.steps[level[spine] :])
    roots = tree.nodes(level[spine])

    def flat(values: Any, leaves: int) -> Any:
        return np.ascontiguousarray(values.transpose(order)).reshape(leaves, -1)

    good = None if possible is None else flat(possible, tree.leaves)
    noise = [estimates.detail(at, spine, finer) for finer in range(level[spine] + 1, tree.depth + 1)]
    own = flat(held, roots)
    cells = shrunk(flat(wanted, tree.leaves), own, tree, level[spine], noise, good)
    counts = down(own, rest, cells, good)
    shape = [places.trees[i].leaves for i in order]
    return np.ascontiguousarray(counts.reshape(shape).transpose(np.argsort(order)))


def table_of(
    families: Sequence[Family],
    estimates: Estimates,
    layout: Layout,
    possible: Bools | None,
    count: str,
    tick: int | None,
) -> Table:
    """The rows of all families, in the order of time and place."""
    import pyarrow as pa

    nodes = {one.level: _nodes(layout, estimates.places, one.level, possible) for one in families}
    none = np.zeros(0, np.int64)
    parts = [_rows(one, estimates.clock, layout, nodes[one.level], count) for one in families]
    table = pa.concat_tables([_rows(None, estimates.clock, layout, (none, none, none), count), *parts])
    said = {"tick": tick, "done": sorted(estimates.done)}
    return table.replace_schema_metadata({SERIES: json.dumps(said).encode()})


def _rows(family: Family | None, clock: Clock, layout: Layout, of: Nodes, count: str) -> Table:
    import pyarrow as pa

    keys, nodes, cells = of
    size = nodes.size
    span = range(1) if family is None else clock.span(*family.at)
    held = np.zeros(0, np.int64) if family is None else family.counts.reshape(-1)[nodes]
    told = np.zeros(0) if family is None else family.estimates.reshape(-1)[nodes]
    state = PROVISIONAL if family is None else family.state
    return pa.table(
        {
            TICK: pa.array(np.full(size, span[-1], np.int32)),
            TICKS: pa.array(np.full(size, len(span), np.int32)),
            **dict(key_columns(keys, layout)),
            CELLS: pa.array(cells),
            count: pa.array(held.astype(np.int64)),
            ESTIMATE: pa.array(np.rint(told).astype(np.int64)),
            STATE: pa.repeat(pa.scalar(state, pa.string()), size),
        }
    )


Nodes = tuple[Integers, Integers, Integers]


def _nodes(layout: Layout, places: Lattice, level: Level, possible: Bools | None) -> Nodes:
    """The nodes of a level that can hold anybody, in the order of their first cells: keys, nodes, how many cells."""
    shape = places.nodes(level)
    cells = np.full(shape, places.under(level), np.int64)
    if possible is not None:
        cells = np.asarray(places.sums(possible, level), np.int64)
    nodes = np.flatnonzero(cells)
    first = [
        at * tree.under(here)
        for at, tree, here in zip(np.unravel_index(nodes, shape), places.trees, level, strict=True)
    ]
    leaves = np.ravel_multi_index(tuple(first), tuple(tree.leaves for tree in places.trees))
    keys = places.keys(layout, leaves.astype(np.int64))
    order = np.argsort(keys)
    return keys[order], nodes[order], cells.reshape(-1)[nodes][order]


# Intervals


def rests_on(table: Table) -> frozenset[int]:
    """The ticks that a published table rests on."""
    try:
        record = json.loads((table.schema.metadata or {})[SERIES])
        return frozenset(int(tick) for tick in record["done"])
    except (KeyError, ValueError, TypeError, RecursionError):
        raise DataError(
            "the table does not say which ticks it rests on",
            needed="a Parquet or Arrow file of a series, as oboro wrote it",
        ) from None


def intervals(
    table: Table, estimates: Estimates, shown: Level, count: str, level: float
) -> tuple[Integers, Integers]:
    """The lowest and highest count of each row: the estimate and how far it may be off, from 0 on, with the published count.

    An estimate may be below 0, so that sums of many are unbiased. It is printed, and so the interval reaches down to it.
    """
    last, many = (np.asarray(table[name], np.int64) for name in (TICK, TICKS))
    own = replace(estimates, done=rests_on(table))
    low, high = np.zeros(last.size, np.int64), np.zeros(last.size, np.int64)
    for tick, ticks in np.unique(np.stack([last, many], axis=1), axis=0).tolist():
        rows = np.flatnonzero((last == tick) & (many == ticks))
        at = estimates.clock.block(tick - ticks + 1, tick)
        error = None if at is None else own.error(at, shown if ticks == 1 else estimates.places.finest)
        if error is None:
            raise DataError(
                "the table holds a row that its ticks do not tell", needed="the table as it was released"
            )
        # the estimate is shown as a whole number
        reach = error.reach(level) + 0.5
        told, held = (np.asarray(table[name].take(rows), np.int64) for name in (ESTIMATE, count))
        _, lowest, high[rows] = hull(told, reach, held)
        low[rows] = np.minimum(lowest, told)
    return low, high
