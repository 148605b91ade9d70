"""The wavelet method of Terada et al., corrected and on whole numbers.

The cells lie in one row (cells.py) and form a binary tree. What is measured is the sum s of all cells and, at
every node, the difference d of its first half and its second: the Haar wavelet, not divided by anything. Then,
from the root down:

    the root holds         max(0, s + noise)
    a node that holds t    gives (t + d')/2 to its first half and the rest to its second,
                           d' = d + noise, but not below -t and not above t

So every cell is 0 or more, and every node holds exactly the sum of its halves. If t + d' is odd a fair coin
rounds. (At the ends it is even.)

Dense and sparse
    `dense` (the paper's T1) draws noise for every node. `sparse` (T2) goes depth first, only to nodes that
    hold something, and draws noise only there: a node that holds 0 gives 0 to both halves, whatever its noise
    would be. Given the same noise at each node the two agree bit for bit. A node without a single stored cell
    takes noise like any other, if it holds something. Time and memory grow as (m + m') log n, with m cells
    stored, m' published and n possible.

Where the paper differs
    Eqs. 38 and 39 print the noise of level i - 1 as Lap(lambda/2^i). It must be lambda/2^(i-1): as printed
    the cost is 1.89 eps for 2^18 cells. Here all differences have the same noise and the question does not come up.
    Theorem 3, a bound on the variance after clamping, is false (n = 2, (c, 0): 1.36 lambda^2 against
    lambda^2). `block_variance` is the variance before clamping, which mostly makes it smaller.

Patent JP6310345B2 (NTT DOCOMO) lists this method. Where it is in force, its use may need a licence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.exact import about, percent
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.privacy import Unit
from oboro.progress import progress
from oboro.release import Part, part
from oboro.tables.cells import Cells, Layout
from oboro.tables.strategy import Strategy, published_if_even

Draw = Callable[[int], tuple[Integers, Integers]]  # so many draws of noise, and words with as many fair bits

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 18
_SUBTREE_BLOCK = 1 << 13  # of many small trees the last block of each is not used up
_LARGEST_ROOM = 1 << 20  # cells written before memory is asked for again


def sensitivity(unit: Unit, depth: int, distinct: bool = True) -> int:
    """How far one unit moves the root's sum and all differences together, in a tree of this depth.

    Privacy
        Let v be what a unit changes in the cells, and a, b what it changes in the halves of a node. The node's
        difference moves by |a - b| and its sum by |a + b|, together 2 max(|a|, |b|). Summing from the cells up,
        the root's sum and all differences move by

            sum over cells |v| + sum over nodes ||a| - |b||.                                               (*)

        This is convex in v, so that only cells that move by 0 or by all of w need be looked at. With N of those,
        each counts w in at most 1 + depth terms of (*). At the N - 1 nodes where two non-empty sets of them
        meet, at least 2w of that is lost: if a and b differ from 0, ||a| - |b|| <= max(|a|, |b|) - w; if b = 0
        though cells moved there, two or more cancelled and count for nothing. So (*) is at most

            w (N (1 + depth) - 2 (N - 1)) = w (N (depth - 1) + 2).

        Cells (c of weight w): N = c; under replace N = 2c, out with the old and in with the new.
        Amounts that may meet in one cell, r in all (rows of a person; cells whose values a column joins, as a
        bound does): r (1 + depth), for one path carries them all. Under replace each that goes makes a pair
        with one that comes, which moves (*) by at most 2 depth: 2 r depth.
        A node with one possible half is not measured, which only makes (*) smaller.
    """
    replace = unit.adjacency == "replace"
    weight = unit.max_per_cell or 1
    if depth == 0:  # one cell, and its count is the sum
        return weight * (1 if distinct and unit.kind == "cells" else unit.contributions)
    if distinct and unit.kind == "cells":
        return weight * (unit.contributions * (2 if replace else 1) * (depth - 1) + 2)
    return weight * unit.contributions * (2 * depth if replace else 1 + depth)


def sparse(cells: Cells, layout: Layout | Head, roots: Integers, draw: Draw) -> tuple[Cells, Integers]:
    """T2: shares out each of `roots`, the published sums of as many trials; where each trial begins comes second."""
    stack = np.zeros((layout.bits + 2, 7), np.int64)
    return _descended(cells, layout, roots, stack, 0, draw, _FIRST_BLOCK, _LARGEST_BLOCK)


def below(cells: Cells, layout: Layout, depth: int, prefix: int, held: int, draw: Draw) -> Cells:
    """T2 from a node on: shares out what the node of this prefix, `depth` bits long, holds. `cells` are those below it.

    The stack begins with that node, so that what is visited and drawn below it is what `sparse` would.
    """
    stack = np.zeros((layout.bits + 2, 7), np.int64)
    head_bits, heads = layout.heads
    first, last = 0, heads.size
    if head_bits > 0:
        span = head_bits - depth
        ends = (
            [prefix << span, (prefix + 1) << span] if span > 0 else [prefix >> -span, (prefix >> -span) + 1]
        )
        first, last = np.searchsorted(heads, ends).tolist()
    stack[0] = (prefix << (layout.bits - depth), depth, held, 0, cells.keys.size, first, last)
    nothing = np.zeros(0, np.int64)
    published, _ = _descended(
        cells, layout, nothing, stack, 1, draw, _FIRST_BLOCK, _SUBTREE_BLOCK, max(1, held)
    )
    return published


def _descended(
    cells: Cells,
    layout: Layout | Head,
    roots: Integers,
    stack: Integers,
    top: int,
    draw: Draw,
    first_block: int,
    largest_block: int,
    held: int = 0,
) -> tuple[Cells, Integers]:
    """Hands the compiled loop noise and room until all roots, and what lies on the stack, are shared out."""
    from oboro.tables._compiled import descend

    before = np.zeros(cells.counts.size + 1, np.int64)
    np.cumsum(cells.counts, out=before[1:])
    masks, limits = layout.limits
    head_bits, heads = layout.heads
    state = np.zeros(5, np.int64)
    state[1] = top
    starts = np.zeros(roots.size, np.int64)
    out_keys, out_counts = np.empty((2, _FIRST_BLOCK), np.int64)
    noise, coins = draw(first_block)
    block = first_block
    parts: list[tuple[Integers, Integers]] = []
    fixed = (layout.bits, cells.keys, before, masks, limits, head_bits, heads, roots)
    held, shared = held or max(1, int(roots.astype(float).sum())), 0
    while not descend(*fixed, noise, coins, state, stack, starts, out_keys, out_counts):
        if state[0] == noise.size:
            block = min(2 * block, largest_block)
            noise, coins = draw(block)
            state[0] = 0
        else:
            parts.append((out_keys, out_counts))
            state[3], state[4] = 0, state[4] + out_keys.size
            shared += int(out_counts.sum())
            out_keys, out_counts = np.empty((2, min(4 * out_keys.size, _LARGEST_ROOM)), np.int64)
        progress("sharing out", shared / held)
    written = int(state[3])
    parts.append((out_keys[:written], out_counts[:written]))
    keys, counts = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Cells(keys, counts), starts


@dataclass(frozen=True, eq=False)
class Head:
    """The first bits of keys as a layout of their own: the top of the tree, down to prefixes."""

    layout: Layout
    bits: int

    @property
    def limits(self) -> tuple[Integers, Integers]:
        masks, limits = self.layout.limits
        under = self.layout.bits - self.bits
        return masks[: self.bits] >> under, limits[: self.bits] >> under

    @property
    def heads(self) -> tuple[int, Integers]:
        head_bits, heads = self.layout.heads
        if head_bits <= self.bits:
            return head_bits, heads
        return self.bits, np.unique(heads >> (head_bits - self.bits))


def dense(
    counts: Integers, noise: Integers, coins: Integers, possible: npt.NDArray[np.bool_] | None = None
) -> Integers:
    """T1: every cell of every key, from noise and coins of every node.

    `noise[0]` is the root's; `noise[2^t + j]` and `coins[2^t + j]` belong to node j of depth t.
    """
    sums, alive = [counts], [np.ones(counts.size, np.bool_) if possible is None else possible]
    while sums[-1].size > 1:
        sums.append(sums[-1][0::2] + sums[-1][1::2])
        alive.append(alive[-1][0::2] | alive[-1][1::2])
    held = np.maximum(sums[-1] + noise[:1], 0) * alive[-1]
    for depth in range(len(sums) - 1):
        below, here = sums[-2 - depth], slice(1 << depth, 2 << depth)
        both = held + np.clip(below[0::2] - below[1::2] + noise[here], -held, held)
        first = (both >> 1) + (both & coins[here])
        possible_first, possible_second = alive[-2 - depth][0::2], alive[-2 - depth][1::2]
        first = np.where(possible_first & possible_second, first, np.where(possible_first, held, 0))
        held = np.stack([first, held - first], axis=1).reshape(-1)
    return np.asarray(held, np.int64)


def measure(
    cells: Cells,
    layout: Layout | Head,
    noise: DiscreteLaplace,
    bits: Bits,
    *,
    total: int | None = None,
    trials: int = 1,
) -> tuple[Cells, Integers]:
    """Publishes cells `trials` times, each with noise of its own. A public `total` is taken for the root as it is."""
    if total is None:
        # the sum of all counts is below 2^61, by the cap on each
        roots = np.maximum(cells.counts.sum() + noise.sample(trials, bits), 0)
    else:
        roots = np.full(trials, total, np.int64)
    return sparse(cells, layout, roots, drawing(noise, bits))


def drawing(noise: DiscreteLaplace, bits: Bits) -> Draw:
    """Noise and coins from these bits."""
    return lambda count: (noise.sample(count, bits), bits.words(-(-count // 64)).view(np.int64))


def block_variance(noise: DiscreteLaplace, depth: int, height: int, total: int | None = None) -> float:
    """The variance of what a node of 2^height cells holds in a tree of this depth, before clamping.

    Each halving takes half of the sum and half of the difference. The coin adds 1/4 half of the time. A public `total` has
    no noise.
    """
    own = noise.variance
    variance = own if total is None else 0.0
    for _ in range(depth - height):
        variance = (variance + own) / 4 + 1 / 8
    return variance


@dataclass(frozen=True, eq=False)
class Wavelet(Strategy):
    """The sum of all cells and the difference of the halves of every node, each with the same noise.

    Privacy
        These move by `sensitivity` in all. Discrete Laplace noise of scale sensitivity/eps costs eps [Ghosh,
        Roughgarden, Sundararajan 2009]. A public total is not measured.
    """

    name = "wavelet"
    title = "the wavelet method of Terada et al., corrected"
    takes_total = True
    notes = ("keeping counts at 0 or more raises small cells and lowers large ones",)

    @cached_property
    def moves(self) -> int:
        return sensitivity(self.unit, self.layout.bits, self.layout.distinct)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.moves) / self.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (
            part(
                self.noise, "sum of all cells, and difference of the halves of every node", moves=self.moves
            ),
        )

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Cells]:
        published, starts = measure(cells, self.layout, self.noise, bits, total=self.total, trials=trials)
        bounds = [*starts.tolist(), published.keys.size]
        return [Cells(published.keys[a:b], published.counts[a:b]) for a, b in pairwise(bounds)]

    def variance(self, height: int) -> float:
        return block_variance(self.noise, self.layout.bits, height, self.total)

    def remarks(self, expected_total: int | None) -> list[str]:
        cells, bits = self.layout.cells, self.layout.bits
        empty = published_if_even(self.noise, bits, as_float(self.noise.scale) / 2)  # the root's mean
        notes = [
            f"noise alone puts people into cells: an empty table would still show about {about(empty, 2)} cells",
            *super().remarks(expected_total),
        ]
        if expected_total is not None:
            shown = min(published_if_even(self.noise, bits, float(expected_total)), float(cells))
            nobody = math.exp(-expected_total / cells)
            notes.append(
                f"if {expected_total:,} people were spread evenly, about {about(shown, 2)} cells would be published, "
                f"and {percent(nobody)} of them would hold nobody in truth; people who live close together make this better"
            )
        return notes
