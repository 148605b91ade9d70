"""A table that is divided unevenly: nodes of many sizes, least squares over all that was counted of them, whole numbers.

A node is the cells that share the first bits of their keys. Every division is into four (the first into two, where the
bits are odd in number), or into two where a `step` of one bit is asked for. A *partition* is nodes that do not overlap and cover all keys; the finest one that was counted
has the parts, and all that was counted is a part or lies above parts. So the nodes form one uneven tree.

Least squares in it is exact, in two passes. Let z be the best estimate of a node from what was counted in it, with
precision a; y and p those of the node's own counts together; c its children.

    up      1/q = sum of 1/a_c,   a = p + q,   z = (p y + q sum of z_c) / a
    down    x_c = z_c + (x - sum of z_c) (1/a_c) q,   from x = z at the root, or a public total

Then each node's whole number is shared out among its children, as near as can be to their x (`share_out`), and that of a
part evenly among its cells, the odd ones by chance. All of this is post-processing of noisy numbers and public facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.noise import Bits
from oboro.tables.cells import LARGEST_TOTAL, Cells, Layout
from oboro.tables.strategy import Noise
from oboro.tables.tree.measure import whole_total
from oboro.tables.tree.workload import precision

_CERTAIN = 1e15  # the precision of what is 0 in public, next to that of any noise


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes that do not overlap, in the order of keys: the first key of each, and how many bits lie below it."""

    starts: Integers
    heights: Integers

    @classmethod
    def of_depth(cls, layout: Layout, depth: int) -> Nodes:
        """All keys by their first bits."""
        height = layout.bits - depth
        return cls(np.arange(1 << depth, dtype=np.int64) << height, np.full(1 << depth, height))

    @property
    def size(self) -> int:
        return self.starts.size

    def some(self, which: Bools) -> Nodes:
        return Nodes(self.starts[which], self.heights[which])

    def divided(self, steps: Integers) -> Nodes:
        """Each node in 2^steps parts, or as it is where the step is 0."""
        arities = np.left_shift(1, steps)
        heights = np.repeat(self.heights - steps, arities)
        inside = np.arange(heights.size) - np.repeat(np.cumsum(arities) - arities, arities)
        return Nodes(np.repeat(self.starts, arities) + (inside << heights), heights)

    def beside(self, others: Nodes) -> Nodes:
        """Both, in the order of keys."""
        starts = np.concatenate([self.starts, others.starts])
        order = np.argsort(starts, kind="stable")
        return Nodes(starts[order], np.concatenate([self.heights, others.heights])[order])

    def place(self, keys: Integers) -> Integers:
        """Which node each key lies in, or would if the nodes left no gaps."""
        return np.searchsorted(self.starts, keys, side="right") - 1

    def hold(self, keys: Integers) -> tuple[Integers, Bools]:
        """Which node each key lies in, and whether there is one."""
        if self.size == 0:
            return np.zeros(keys.size, np.int64), np.zeros(keys.size, np.bool_)
        place = np.maximum(self.place(keys), 0)
        return place, (keys >> self.heights[place]) == (self.starts[place] >> self.heights[place])

    def sums(self, cells: Cells) -> Integers:
        """What each of them holds, exactly."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(cells.counts)])
        first = np.searchsorted(cells.keys, self.starts)
        last = np.searchsorted(cells.keys, self.starts + (np.int64(1) << self.heights))
        return np.asarray(before[last] - before[first])

    def possible(self, layout: Layout) -> Bools:
        """Which of them have a possible cell: its first cell has the lowest place on every axis."""
        good = Layout(layout.domain).possible(self.starts)
        if layout.allowed is not None:
            head_bits, heads = layout.allowed
            below = layout.bits - head_bits
            first = np.searchsorted(heads, self.starts >> below)
            last = np.searchsorted(heads, (self.starts + (np.int64(1) << self.heights) - 1) >> below, "right")
            good &= last > first
        return good


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts of nodes."""

    nodes: Nodes
    noisy: Integers
    noise: Noise


def count(nodes: Nodes, cells: Cells, layout: Layout, noise: Noise, bits: Bits) -> Counted:
    """Noise on every node, empty or not; 0 where nobody can be, in public. The only place that looks at cells."""
    noisy = nodes.sums(cells) + noise.sample(nodes.size, bits)
    return Counted(nodes, np.where(nodes.possible(layout), noisy, 0), noise)


@dataclass(frozen=True, eq=False)
class _Level:
    """The nodes of one size, and how the children of those that are divided follow."""

    nodes: Nodes
    divided: Bools
    possible: Bools
    p: Floats  # of the node's own counts
    y: Floats


@dataclass(frozen=True, eq=False)
class Division:
    """The uneven tree of a partition, with all that was counted of its nodes."""

    layout: Layout
    parts: Nodes
    counted: Sequence[Counted]
    total: int | None = None
    step: int = 2  # bits of a division

    @cached_property
    def heights(self) -> list[int]:
        """Those of all levels, the root's first."""
        bits, step = self.layout.bits, self.step
        return [bits, *range((bits - 1) // step * step, -1, -step)] if bits else [0]

    @cached_property
    def levels(self) -> list[_Level]:
        found: list[_Level] = []
        nodes = Nodes.of_depth(self.layout, 0)
        for height in self.heights:
            smallest = self.parts.heights[np.searchsorted(self.parts.starts, nodes.starts)]
            divided, possible = np.asarray(smallest < height), nodes.possible(self.layout)
            p, weighted = np.zeros(nodes.size), np.zeros(nodes.size)
            for own in self.counted:
                here = np.flatnonzero(own.nodes.heights == height)
                place = np.searchsorted(nodes.starts, own.nodes.starts[here])
                p[place] += precision(own.noise)
                weighted[place] += precision(own.noise) * own.noisy[here]
            y = np.where(possible, weighted / np.maximum(p, 1e-300), 0.0)
            found.append(_Level(nodes, divided, possible, np.where(possible, p, _CERTAIN), y))
            if not divided.any():
                break
            some = nodes.some(divided)
            step = height - self.heights[len(found)]
            nodes = some.divided(np.full(some.size, step))
        return found

    @cached_property
    def _up(self) -> list[tuple[Floats, Floats, Floats]]:
        """For each level a and z, and for those that are divided the sum of the 1/a of their children."""
        found: list[tuple[Floats, Floats, Floats]] = []
        for at in range(len(self.levels) - 1, -1, -1):
            level = self.levels[at]
            a, z, of_children = level.p.copy(), level.y.copy(), np.zeros(level.nodes.size)
            if level.divided.any():
                below_a, below_z, _ = found[-1]
                several = int(level.divided.sum())
                variance = (1 / below_a).reshape(several, -1).sum(axis=1)
                sums = below_z.reshape(several, -1).sum(axis=1)
                some = level.divided
                of_children[some] = variance
                a[some] = level.p[some] + 1 / variance
                z[some] = (level.p[some] * level.y[some] + sums / variance) / a[some]
            found.append((a, z, of_children))
        return found[::-1]

    @cached_property
    def estimates(self) -> list[Floats]:
        """Least squares: what each node of each level holds."""
        x = self._up[0][1] if self.total is None else np.array([float(self.total)])
        found = [x]
        for at, level in enumerate(self.levels[:-1]):
            a, z, _ = self._up[at + 1]
            several, share = int(level.divided.sum()), self._up[at][2][level.divided]
            by = z.reshape(several, -1)
            off = (found[-1][level.divided] - by.sum(axis=1)) / share
            found.append((by + off[:, None] / a.reshape(several, -1)).reshape(-1))
        return found

    @cached_property
    def held(self) -> list[Integers]:
        """Whole numbers of 0 or more, every node's the sum of its children's."""
        from oboro.tables.tree._compiled import share_out

        root = whole_total(float(self.estimates[0][0])) if self.total is None else self.total
        found = [np.array([root], np.int64)]
        for at, level in enumerate(self.levels[:-1]):
            several = int(level.divided.sum())
            wanted = self.estimates[at + 1].reshape(several, -1)
            children = np.empty(wanted.shape, np.int64)
            may = self.levels[at + 1].possible.reshape(wanted.shape)
            share_out(found[-1][level.divided], wanted, may, False, children)
            found.append(children.reshape(-1))
        return found

    def of_parts(self, values: Sequence[Integers]) -> Integers:
        """Of values of all nodes, those of the parts, in the order of keys."""
        found = np.empty(self.parts.size, np.int64)
        for level, own in zip(self.levels, values, strict=True):
            place = np.searchsorted(self.parts.starts, level.nodes.starts[~level.divided])
            found[place] = own[~level.divided]
        return found

    def above(self, parts: Integers, noise: Noise, most: int) -> Integers:
        """By how much, up to `most`, the noisy counts with this noise of some parts exceed the least with which each holds somebody, all other noise as it is.

        There is a least one. With a larger noisy count the estimates of a part and of all nodes above it are larger, and those of their
        siblings smaller or the same: `x - sum of z_c` falls, since z takes only a share of what z_c gains. The rest is as in a regular
        tree (`Estimates.row_ends`).
        """
        from oboro.tables.tree._compiled import how_far_divided

        child: list[Integers] = []
        arities: list[int] = []
        end = 0
        for level in self.levels:
            end += level.nodes.size
            several = int(level.divided.sum())
            below = self.levels[len(child) + 1].nodes.size if several else 0
            arities.append(below // max(several, 1))
            own = np.full(level.nodes.size, -1, np.int64)
            own[level.divided] = end + np.arange(several) * arities[-1]
            child.append(own)
        depth_of = np.full(self.layout.bits + 1, -1, np.int64)
        depth_of[self.heights] = np.arange(len(self.heights))
        out = np.empty(parts.size, np.int64)
        how_far_divided(
            self.parts.starts[parts],
            depth_of[self.parts.heights[parts]],
            np.array(self.heights, np.int64),
            np.concatenate(child),
            np.array(arities, np.int64),
            np.concatenate([a for a, _, _ in self._up]),
            np.concatenate([v for _, _, v in self._up]),
            np.concatenate(self.estimates),
            np.concatenate([level.possible for level in self.levels]),
            precision(noise),
            most,
            -1 if self.total is None else self.total,
            float(LARGEST_TOTAL),
            out,
        )
        return out


# People of a part, spread over its cells.


def spread(parts: Nodes, held: Integers, layout: Layout, bits: Bits) -> Cells:
    """Every possible cell of a part has the same count, and the odd people go to cells by chance, one each at most."""
    some = held > 0
    nodes, people = parts.some(some), held[some]
    box = _Box(nodes, layout)
    each, odd = np.divmod(people, box.cells)
    more = 2 * odd > box.cells  # then those that get none are picked
    picked = np.where(more, box.cells - odd, odd)
    owner, place = _distinct(picked, box.cells, bits)
    full = np.flatnonzero((each > 0) | more)
    every = np.repeat(full, box.cells[full])
    inside = np.arange(every.size) - np.repeat(np.cumsum(box.cells[full]) - box.cells[full], box.cells[full])
    keys = np.concatenate([box.keys(every, inside), box.keys(owner, place)])
    counts = np.concatenate([(each + more)[every], np.where(more[owner], -1, 1)])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.add.reduceat(counts, first) if first.size else counts
    return Cells(keys[first][counts > 0], counts[counts > 0])


class _Box:
    """The possible cells of nodes, numbered: heads of the mask that lie in a node, times a box of places."""

    def __init__(self, nodes: Nodes, layout: Layout) -> None:
        self.layout = layout
        head_bits, heads = layout.heads
        tail = layout.bits - head_bits
        ends = nodes.starts + (np.int64(1) << nodes.heights) - 1
        self.first = np.searchsorted(heads, nodes.starts >> tail)
        several = np.searchsorted(heads, ends >> tail, "right") - self.first
        self.starts, self.heads, self.tail = nodes.starts & ((1 << tail) - 1), heads, tail
        self.axes = (
            [axis for axis, bits in enumerate(layout.pattern) if bits and min(bits) < tail]
            if head_bits
            else list(range(len(layout.sizes)))
        )
        low = layout.places(self.starts)
        heights = np.minimum(nodes.heights, tail)
        self.low, self.wide = [], []
        for axis in self.axes:
            own = np.array(sorted(layout.pattern[axis]), np.int64)
            side = np.left_shift(1, np.searchsorted(own, heights))
            self.low.append(low[axis])
            self.wide.append(np.minimum(side, np.maximum(layout.sizes[axis] - low[axis], 1)))
        self.inside = np.ones(nodes.size, np.int64)
        for wide in self.wide:
            self.inside = self.inside * wide
        self.cells = self.inside * several

    def keys(self, owner: Integers, place: Integers) -> Integers:
        """The keys of cells by their numbers in their nodes."""
        head, rest = np.divmod(place, self.inside[owner])
        axes = [np.zeros(owner.size, np.int64) for _ in self.layout.sizes]
        for axis, low, wide in zip(self.axes, self.low, self.wide, strict=True):
            rest, digit = np.divmod(rest, wide[owner])
            axes[axis] = low[owner] + digit
        return (self.heads[self.first[owner] + head] << self.tail) | self.layout.keys(axes)


def _distinct(picked: Integers, among: Integers, bits: Bits) -> tuple[Integers, Integers]:
    """So many different numbers below each bound, by chance: whose they are, and the numbers.

    What was drawn twice is drawn again. No number is treated otherwise than another, so that all sets are as likely.
    """
    owner = np.repeat(np.arange(picked.size), picked)
    place = _below(among[owner], bits)
    while True:
        order = np.lexsort((place, owner))
        twice = np.zeros(owner.size, np.bool_)
        same = (np.diff(owner[order]) == 0) & (np.diff(place[order]) == 0)
        twice[order[1:][same]] = True
        again = np.flatnonzero(twice)
        if again.size == 0:
            return owner, place
        place[again] = _below(among[owner[again]], bits)


def _below(bounds: Integers, bits: Bits) -> Integers:
    """Numbers below bounds, as coins that place people: of no use to the promise, so that a remainder is good enough."""
    return np.asarray((bits.words(bounds.size) >> np.uint64(1)).astype(np.int64) % np.maximum(bounds, 1))
