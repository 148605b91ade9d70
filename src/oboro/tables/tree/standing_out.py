"""Which cells stand out: a false-discovery test over all cells of live blocks, without listing the empty ones.

Let t be a public floor. Dense, every cell of the live blocks would be noised, and those below t forgotten. For empty
cells that is the same as drawing how many reach t, which ones, and their values given that (rivals/threshold.py has
the proof). The test then looks at all that reached t, stored or not, with C, the number of all cells of live blocks: a
cut from the stored cells alone would depend on where people are.

A candidate with value v has p(v) = P(noise >= v). The cut is the least v >= t with C p(v) <= 0.1 R(v), where R(v) is
how many reach v [Benjamini, Hochberg 1995]. With C and R known it is about ln(C / (0.2 R)) times the scale.
"""

from __future__ import annotations

import math

import numpy as np

from oboro.arrays import Integers
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.tables.cells import Cells
from oboro.tables.papers.threshold import empty_reaching

FALSE = 0.1  # the share of published cells that may be empty
_TOGETHER = 1 << 20  # cells that are noised at once
_MOST_EMPTY = 1 << 24  # empty cells that may reach the floor


def stand_out(
    cells: Cells, live: Integers, below: int, total: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers, int, int]:
    """Cells of live blocks that pass the test: keys in order, noisy values, the cut, and how many were tested."""
    if live.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), 1, 0
    candidates = live.size << below
    floor = _floor(candidates, total, law)
    stored, near, values = _noised(cells, live, below, floor, law, bits)
    empty, more = empty_reaching(stored, candidates, law, floor, bits)
    near, values = np.concatenate([near, empty]), np.concatenate([values, more])
    cut = cut_of(values, candidates, floor, law)
    kept = values >= cut
    near, values = near[kept], values[kept]
    order = np.argsort(near)
    near, values = near[order], values[order]
    return (live[near >> below] << below) | (near & ((1 << below) - 1)), values, cut, candidates


def _noised(
    cells: Cells, live: Integers, below: int, floor: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers, Integers]:
    """Stored cells of live blocks: all of them, and those whose noisy values reach the floor, with these.

    With live blocks side by side, a cell is the number of its block among them, and its place there.
    """
    stored = np.empty(cells.keys.size, np.int64)
    reached: list[tuple[Integers, Integers]] = []
    size = 0
    for start in range(0, max(cells.keys.size, 1), _TOGETHER):
        keys, counts = (each[start : start + _TOGETHER] for each in (cells.keys, cells.counts))
        place = np.minimum(np.searchsorted(live, keys >> below), live.size - 1)
        inside = live[place] == keys >> below
        own = (place[inside] << below) | (keys[inside] & ((1 << below) - 1))
        noisy = counts[inside] + law.sample(own.size, bits)
        stored[size : size + own.size] = own
        size += own.size
        reached.append((own[noisy >= floor], noisy[noisy >= floor]))
    near, values = (np.concatenate([each[i] for each in reached]) for i in (0, 1))
    return stored[:size], near, values


def _floor(candidates: int, total: int, law: DiscreteLaplace) -> int:
    """Below this no cell can pass: no more than `total` cells can be published (or than memory holds)."""
    most = max(1, min(total, _MOST_EMPTY))
    return max(1, math.floor(as_float(law.scale) * math.log(max(candidates / (2 * FALSE * most), 1.0))))


def cut_of(values: Integers, candidates: int, floor: int, law: DiscreteLaplace) -> int:
    """The least value v at which C p(v) <= 0.1 R(v); above all of them if there is none."""
    known, counts = np.unique(values, return_counts=True)
    reaching = counts[::-1].cumsum()[::-1]
    chance = law.cdf(-known)  # P(noise >= v), by symmetry
    passing = known[candidates * chance <= FALSE * reaching]
    return int(passing.min()) if passing.size else (int(known.max()) + 1 if known.size else floor)


def within(blocks: Integers, values: Integers, held: Integers) -> Integers:
    """Published cells hold no more than their block: what is too much is taken from all of them alike, down to 0."""
    from oboro.tables.tree._compiled import keep_within

    out = values.copy()
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    keep_within(np.append(starts, values.size), values.astype(float), held[blocks[starts]], out)
    return out
