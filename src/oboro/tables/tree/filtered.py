"""Very sparse tables: a few cells that hold people among more than can be listed.

What is measured, each once
    1. Counts of blocks, dense, of all sizes down to 2^18 blocks: least squares and projection as in the tree.
       Blocks are those of keys (layout.py): cells that share their first bits.
    2. Blocks that hold somebody after that are live. They are divided into 16 parts, each counted, and the block's
       count is shared out among them; then again.
    3. In parts that are still live, every cell. Only cells that stand out are published: a false-discovery test
       [Benjamini, Hochberg 1995] at 10%.
    What a part holds beyond its published cells stays unallocated: it is known at the part, and at no place in it.

Without listing the empty cells
    Let t be a public floor. Dense, every cell of the live blocks would be noised, and those below t forgotten. For
    empty cells that is the same as drawing how many reach t, which ones, and their values given that
    (rivals/threshold.py has the proof). The test then looks at all that reached t, stored or not, with C, the number
    of all cells of live blocks: a cut from the stored cells alone would depend on where people are.

    A candidate with value v has p(v) = P(noise >= v). The cut is the least v >= t with C p(v) <= 0.1 R(v), where R(v)
    is how many reach v. With C and R known it is about ln(C / (0.2 R)) times the scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.domain.morton import width
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.privacy import Unit
from oboro.tables import progress, wavelet
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.rivals.threshold import empty_reaching
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.design import precision
from oboro.tables.tree.lattice import Floats, Integers, Lattice, Level, Tree
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.planner import plan_shares
from oboro.tables.tree.project import Bools, project
from oboro.tables.tree.solve import least_squares, moments
from oboro.tables.tree.workload import block, never_worse

FALSE = 0.1  # the share of published cells that may be empty
_DENSE_BITS = 18
_MOST_PARTS = 1 << 24  # parts that are counted at once
_MOST_EMPTY = 1 << 24  # empty cells that may reach the floor
_STEP = 4  # live blocks are divided into 2^4 parts, twice
_PARTS = (Fraction(12, 100), Fraction(12, 100))
CELLS = Fraction(26, 100)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks that are counted: all keys by their first `bits` bits, and some coarser ones."""

    bits: int
    lattice: Lattice
    levels: tuple[Level, ...]
    shares: tuple[Fraction, ...]
    possible: Bools


def blocks_of(layout: Layout) -> Blocks:
    """Four sizes of block, from the whole table to 2^18 blocks (fewer if the table is small)."""
    bits = min(_DENSE_BITS, max(layout.bits - 2, 0))
    widths = [2] * (bits // 2) + [1] * (bits % 2)
    tree = Tree("block", (1 << bits,), tuple(((0, 1 << width),) for width in widths), ((0,),))
    lattice = Lattice((tree,))
    levels, shares = _planned(lattice, layout.bits)
    rest = 1 - CELLS - sum(_PARTS)
    return Blocks(bits, lattice, levels, tuple(share * rest for share in shares), _possible(layout, bits))


def _planned(lattice: Lattice, bits: int) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """Sizes of block and their shares: planned so that none is much worse than under the wavelet method."""
    tree = lattice.trees[0]
    noise = DiscreteLaplace(1000 * (1 + bits))
    heights = [bits - sum(width(a) for a in tree.arities[:at]) for at in range(tree.depth + 1)]
    reference = tuple(wavelet.block_variance(noise, bits, height) / 2e6 for height in heights)
    return plan_shares(lattice, never_worse(), 2, reference)


def _possible(layout: Layout, bits: int) -> Bools:
    """Which blocks have a possible cell: its first cell has the lowest place on every axis."""
    first = np.arange(1 << bits, dtype=np.int64) << (layout.bits - bits)
    good = Layout(layout.domain).possible(first)
    if layout.allowed is not None:
        head_bits, heads = layout.allowed
        if head_bits <= bits:
            good &= np.isin(np.arange(1 << bits) >> (bits - head_bits), heads)
        else:
            good &= np.isin(np.arange(1 << bits), heads >> (head_bits - bits))
    return good


def noises(
    layout: Layout, eps: Fraction, unit: Unit
) -> tuple[list[DiscreteLaplace], list[DiscreteLaplace], DiscreteLaplace]:
    """The noise of each size of block, of parts, and of cells.

    Privacy
        Blocks of one size do not overlap, and neither do parts of one size, or cells: each of these families moves
        by at most D = `counts_move(unit)` when one unit comes or goes. A family with share w of eps has discrete
        Laplace noise of scale D/(w eps), and the shares add up to 1. Which blocks are live, the floor and the cut
        follow from noisy numbers and public facts; what lies in blocks that are not live is not looked at.
    """
    found = blocks_of(layout)
    moved = counts_move(unit)
    shares = found.shares
    return (
        [DiscreteLaplace(moved / (share * eps)) for share in shares],
        [DiscreteLaplace(moved / (share * eps)) for share in _PARTS],
        DiscreteLaplace(moved / (CELLS * eps)),
    )


def measure(
    cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits, total: int | None, trials: int
) -> list[Measured]:
    return [_measured(cells, layout, eps, unit, bits) for _ in range(trials)]


def _measured(cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits) -> Measured:
    found = blocks_of(layout)
    below = layout.bits - found.bits
    of_blocks, of_parts, of_cells = noises(layout, eps, unit)
    held = _counted(cells.keys >> below, cells.counts, found, of_blocks, bits)
    live = np.flatnonzero(held)
    held = held[live]
    for law in of_parts:
        finer = _finer_bits(live.size, below)
        if finer == 0:
            break
        live, held = _divided(cells, live, held, below, finer, law, bits)
        below -= finer
    progress.report("looking for cells", 0.3)
    keys, values, cut, candidates = _stand_out(cells, live, below, int(held.sum()), of_cells, bits)
    possible = layout.possible(keys)
    keys, values = keys[possible], values[possible]
    within = _within(np.searchsorted(live, keys >> below), values, held)
    kept = within > 0
    facts = np.array([candidates, max(int(kept.sum()), 1), cut, below], np.int64)
    progress.report("looking for cells", 1.0)
    return Measured(keys[kept], within[kept], (live, held, facts, keys[kept], values[kept]))


def _counted(
    blocks: Integers, counts: Integers, found: Blocks, laws: Sequence[DiscreteLaplace], bits: Bits
) -> Integers:
    """What each of the finest blocks holds: noisy counts of all sizes, least squares, projection."""
    true = np.zeros(1 << found.bits, np.int64)
    np.add.at(true, blocks, counts)
    noisy = []
    for level, law in zip(found.levels, laws, strict=True):
        sums = np.asarray(found.lattice.sums(true, level), np.int64)
        some = np.asarray(found.lattice.sums(found.possible, level)) > 0
        noisy.append(np.where(some, sums + law.sample(sums.shape, bits), 0))
    precisions = [precision(law) for law in laws]
    return project(
        found.lattice, least_squares(found.lattice, found.levels, precisions, noisy), found.possible
    )


def _finer_bits(live: int, below: int) -> int:
    """Into how many parts, 2 to this power, live blocks are divided: as many as are quick to list."""
    room = (_MOST_PARTS // max(live, 1)).bit_length() - 1
    return max(0, min(_STEP, below, room))


def _divided(
    cells: Cells, live: Integers, held: Integers, below: int, finer: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers]:
    """The parts of live blocks that hold somebody, and what they hold: each part is counted once."""
    from oboro.tables.tree._compiled import share_out

    if live.size == 0:
        return live, held
    parts = cells.keys >> (below - finer)
    place = np.minimum(np.searchsorted(live, parts >> finer), live.size - 1)
    inside = live[place] == parts >> finer
    counts = np.zeros(live.size << finer, np.int64)
    np.add.at(counts, (place[inside] << finer) | (parts[inside] & ((1 << finer) - 1)), cells.counts[inside])
    noisy = counts + law.sample(counts.size, bits)
    done = 0
    while done < finer:
        step = min(2, finer - done)
        done += step
        wanted = noisy.reshape(held.size << step, -1).sum(axis=1).astype(float).reshape(-1, 1 << step)
        children = np.empty(wanted.shape, np.int64)
        share_out(held, wanted, np.ones((1, 1 << step), np.bool_), True, children)
        held = children.reshape(-1)
    kept = np.flatnonzero(held)
    return (live[kept >> finer] << finer) | (kept & ((1 << finer) - 1)), held[kept]


def _stand_out(
    cells: Cells, live: Integers, below: int, total: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers, int, int]:
    """Cells of live blocks that pass the test: keys in order, noisy values, the cut, and how many were tested."""
    place = np.searchsorted(live, cells.keys >> below)
    inside = (
        live[np.minimum(place, live.size - 1)] == cells.keys >> below if live.size else np.zeros(0, np.bool_)
    )
    if live.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), 1, 0
    # live blocks side by side: a cell is the number of its block among them, and its place there
    stored = (place[inside] << below) | (cells.keys[inside] & ((1 << below) - 1))
    candidates = live.size << below
    floor = _floor(candidates, total, law)
    values = cells.counts[inside] + law.sample(stored.size, bits)
    reach = values >= floor
    empty, more = empty_reaching(stored, candidates, law, floor, bits)
    near = np.concatenate([stored[reach], empty])
    values = np.concatenate([values[reach], more])
    cut = _cut(values, candidates, floor, law)
    kept = values >= cut
    near, values = near[kept], values[kept]
    order = np.argsort(near)
    near, values = near[order], values[order]
    return (live[near >> below] << below) | (near & ((1 << below) - 1)), values, cut, candidates


def _floor(candidates: int, total: int, law: DiscreteLaplace) -> int:
    """Below this no cell can pass: no more than `total` cells can be published (or than memory holds)."""
    most = max(1, min(total, _MOST_EMPTY))
    return max(1, math.floor(as_float(law.scale) * math.log(max(candidates / (2 * FALSE * most), 1.0))))


def _cut(values: Integers, candidates: int, floor: int, law: DiscreteLaplace) -> int:
    """The least value v at which C p(v) <= 0.1 R(v); above all of them if there is none."""
    known, counts = np.unique(values, return_counts=True)
    reaching = counts[::-1].cumsum()[::-1]
    chance = law.cdf(-known)  # P(noise >= v), by symmetry
    passing = known[candidates * chance <= FALSE * reaching]
    return int(passing.min()) if passing.size else (int(known.max()) + 1 if known.size else floor)


def _within(blocks: Integers, values: Integers, held: Integers) -> Integers:
    """Published cells hold no more than their block: what is too much is taken from all of them alike, down to 0."""
    from oboro.tables.tree._compiled import share_out

    if blocks.size == 0:
        return values
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    sums = np.add.reduceat(values, starts)
    out = values.copy()
    ends = np.append(starts[1:], values.size)
    for i in np.flatnonzero(sums > held[blocks[starts]]).tolist():
        part = slice(starts[i], ends[i])
        size = int(ends[i] - starts[i])
        shared = np.empty((1, size), np.int64)
        wanted = values[part].astype(float).reshape(1, -1)
        share_out(held[blocks[starts[i : i + 1]]], wanted, np.ones((1, size), np.bool_), True, shared)
        out[part] = shared[0]
    return out


def block_variance(layout: Layout, eps: Fraction, unit: Unit, height: int) -> float:
    """The variance of a block: of those that are counted by least squares, of smaller ones as if all cells were noised."""
    found = blocks_of(layout)
    of_blocks, _, of_cells = noises(layout, eps, unit)
    tree = found.lattice.trees[0]
    below = layout.bits - found.bits
    mu = moments(found.lattice, found.levels, [precision(law) for law in of_blocks])
    level = next((at for at in range(tree.depth + 1) if tree.under(at) << below <= 1 << height), tree.depth)
    profile: Floats = block(tree, level)
    return min(float((profile / mu).sum()), of_cells.variance * 2.0**height)


FILTERED = Strategy(
    name="filtered",
    title="counts of blocks, and cells that stand out",
    noise=lambda layout, eps, unit: noises(layout, eps, unit)[-1],
    measure=measure,
    variance=block_variance,
    notes=(
        "cells are published if they stand out: about 10% of the published cells hold nobody in truth",
        "what a block holds beyond its published cells is known at the block, and at no place in it: tables.unallocated()",
    ),
)
