"""Methods of others for tables of two dimensions, written from the ideas of their papers. For comparison alone.

They are measured with floating-point noise and are told the true number of people where their papers take it as public,
so that nothing here keeps a promise. All serve square tables with a side that is a power of two.

    HB      counts at all levels of a tree, with the branching that is best for its size [Qardaji, Yang, Li 2013]
    UGrid   one grid, as fine as the number of people allows [Qardaji, Yang, Li 2013]
    AGrid   a coarse grid, and in each of its blocks one as fine as the block's noisy count allows [the same]
    DAWA    cells along a curve, joined where they are alike by a noisy measure, then a tree over what was joined
            [Li, Hay, Miklau, Wang 2014]. Two facts are from its authors' public implementation, not from the paper: the
            cost of a single cell has no noise, and no noisy cost is below that of one count. Ours is otherwise four times worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numba
import numpy as np
import numpy.typing as npt

from oboro.domain import Domain, Grid
from oboro.tables import rectangles
from oboro.tables.tree.lattice import Lattice, lattice_of
from oboro.tables.tree.planner import moments
from oboro.tables.tree.workload import profiles

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Random = np.random.Generator
Questions = Integers  # rows from, to, columns from, to


def answers(table: npt.NDArray[np.generic], asked: Questions) -> Floats:
    """The sums of a table over rectangles."""
    sums = np.pad(np.asarray(table, float).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    top, bottom, left, right = asked.T
    return np.asarray(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])


# HB


def hb(table: Integers, eps: float, asked: Questions, random: Random) -> Floats:
    """A tree of counts, all levels below the root alike, and least squares."""
    side = len(table)
    sides = _best_branching(side)
    share = eps / len(sides)
    up: list[tuple[Floats, Floats]] = []
    for own in sides:
        blocks = _blocks(table, own)
        up.append((blocks + random.laplace(0, 1 / share, blocks.shape), np.full(blocks.shape, 2 / share**2)))
    values, variances = [up[-1][0]], [up[-1][1]]
    for (noisy, variance), own, finer in zip(up[-2::-1], sides[-2::-1], sides[:0:-1], strict=True):
        factor = own // finer
        below, spread = _blocks(values[-1], factor), _blocks(variances[-1], factor)
        values.append((noisy / variance + below / spread) / (1 / variance + 1 / spread))
        variances.append(1 / (1 / variance + 1 / spread))
    found = values[-1]
    for at in range(len(sides) - 1):
        factor = sides[at] // sides[at + 1]
        z, v = values[-2 - at], variances[-2 - at]
        off = (found - _blocks(z, factor)) / _blocks(v, factor)
        found = z + np.kron(off, np.ones((factor, factor))) * v
    return found


@lru_cache(maxsize=8)
def _best_branching(side: int) -> tuple[int, ...]:
    """Sides of blocks, coarse to fine: as many equal steps as make rectangles most accurate, after least squares."""
    bits = side.bit_length() - 1
    (tree,) = lattice_of(Domain([Grid("row", "col", shape=(side, side))])).trees

    def error(height: int) -> float:
        ends = np.cumsum(_steps(bits, height)).tolist()
        steps = tuple(((0, 1 << own), (1, 1 << own)) for own in _steps(bits, height))
        lattice = Lattice((replace(tree, steps=steps),))
        levels = [(at + 1,) for at in range(len(ends))]
        mu = moments(lattice, levels, [1 / height**2] * height)
        return float(np.log(profiles(rectangles(), lattice)[0] @ (1 / mu.reshape(-1))).mean())

    height = min(range(1, bits + 1), key=error)
    sides, left = [], side
    for own in _steps(bits, height):
        left >>= own
        sides.append(left)
    return tuple(sides)


def _steps(bits: int, height: int) -> list[int]:
    return [bits // height + (i < bits % height) for i in range(height)]


def _blocks(table: npt.NDArray[np.generic], side: int) -> Floats:
    rows, cols = (size // side for size in table.shape)
    return np.asarray(table.reshape(rows, side, cols, side).sum(axis=(1, 3)), float)


# UGrid and AGrid
#
# With the parameters of DPBench's code (c = 10, c2 = 5, half of eps for each level of AGrid), and its grids: cells have a whole
# number of places a side, rounded down, and the last row and column are smaller. So a grid is never coarser than the rule says: in a
# grid with as many cells as the rule says, of one or two places a side, people are spread evenly over two, which costs far more than noise.

_PEOPLE_PER_CELL, _OF_AGRID = 10.0, 5.0


def ugrid(table: Integers, eps: float, asked: Questions, random: Random) -> Floats:
    """One grid of sqrt(N eps / 10) cells a side or somewhat more, people spread evenly within them."""
    width = _width(table.shape, math.sqrt(table.sum() * eps / _PEOPLE_PER_CELL))
    return _even(_noisy(table, width, eps, random), table.shape, width)


def agrid(table: Integers, eps: float, asked: Questions, random: Random) -> Floats:
    """A grid of max(10, sqrt(N eps / 10) / 4) blocks a side; each divided as its count allows; both together."""
    side, half = len(table), eps / 2
    wide = _width(table.shape, max(10, math.floor(math.sqrt(table.sum() * eps / _PEOPLE_PER_CELL) / 4)))
    found = np.zeros(table.shape)
    for top in range(0, side, wide):
        for left in range(0, side, wide):
            block = table[top : top + wide, left : left + wide]
            noisy = block.sum() + random.laplace(0, 1 / half)
            finer = max(math.floor(math.sqrt(max(noisy, 0) * half / _OF_AGRID)), 1)
            width = _width(block.shape, finer)
            inside = _noisy(block, width, half, random)
            m = finer**2
            best = (m * noisy + inside.sum()) / (m + 1)  # their variances are as 1 and m
            inside += (best - inside.sum()) / inside.size
            found[top : top + wide, left : left + wide] = _even(inside, block.shape, width)
    return found


def _width(shape: tuple[int, ...], parts: float) -> int:
    """Places a side of each cell, so that there are about so many of them a side: rounded down."""
    return max(math.floor(math.sqrt(math.prod(shape)) / max(parts, 1.0)), 1)


def _noisy(table: Integers, width: int, eps: float, random: Random) -> Floats:
    starts = [np.arange(0, size, width) for size in table.shape]
    counts = np.add.reduceat(np.add.reduceat(table, starts[0], axis=0), starts[1], axis=1)
    return np.asarray(counts + random.laplace(0, 1 / eps, counts.shape))


def _even(counts: Floats, shape: tuple[int, ...], width: int) -> Floats:
    """Each count spread evenly over its part of a table."""
    rows, cols = (np.minimum(width, size - np.arange(0, size, width)) for size in shape)
    return np.repeat(np.repeat(counts / np.outer(rows, cols), rows, axis=0), cols, axis=1)


# DAWA

_OF_PARTITION = 0.25
_GROWTH = (0.6, 0.8, 1.0, 1.25, 1.6, 2.0)  # of the shares of a tree, level by level downwards


@dataclass(frozen=True, eq=False)
class Curve:
    """The cells of a table along Hilbert's curve, and how unlike the cells of every run of 2^k of them are."""

    order: Integers
    counts: Floats
    deviations: Floats  # [k, start]

    @classmethod
    def of(cls, table: Integers) -> Curve:
        order = _hilbert(len(table))
        counts = table.reshape(-1)[order].astype(float)
        return cls(order, counts, _deviations(counts, counts.size.bit_length()))


def dawa(table: Integers, eps: float, asked: Questions, random: Random, curve: Curve | None = None) -> Floats:
    """Runs of the curve by least noisy cost: what is lost by joining, and the noise of one count more for each run."""
    along = curve or Curve.of(table)
    first, second = _OF_PARTITION * eps, (1 - _OF_PARTITION) * eps
    noisy = along.deviations + random.laplace(0, 2 / first, along.deviations.shape)
    noisy[0] = 0.0  # a single cell is like itself
    ends = _cheapest(np.maximum(noisy, 0.0) + 1 / second)  # nothing is more alike than what is equal
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.concatenate([[0.0], along.counts.cumsum()])
    counts = sums[ends] - sums[starts]
    place = np.repeat(np.arange(ends.size), ends - starts)
    weights = _weights(along.order, place, ends - starts, len(table), asked)
    levels = max(math.ceil(math.log2(max(ends.size, 1))), 0) + 1
    best, least = np.full(levels, second / levels), math.inf
    trial = np.random.default_rng(1)
    for growth in _GROWTH:
        shares = growth ** np.arange(levels)
        shares = shares / shares.sum() * second
        error = np.mean([(weights @ _over_runs(np.zeros(ends.size), shares, trial)) ** 2 for _ in range(3)])
        if error < least:
            best, least = shares, float(error)
    found = _over_runs(counts, best, random)
    cells = np.empty(table.size)
    cells[along.order] = (found / (ends - starts))[place]
    return cells.reshape(table.shape)


def _over_runs(counts: Floats, shares: Floats, random: Random) -> Floats:
    """A binary tree of counts over the runs, with a share of eps for each level, and least squares."""
    size = 1 << (shares.size - 1)
    level = np.zeros(size)
    level[: counts.size] = counts
    sums = [level]
    while sums[-1].size > 1:
        sums.append(sums[-1].reshape(-1, 2).sum(axis=1))
    noisy = [
        own + random.laplace(0, 1 / share, own.size) for own, share in zip(sums[::-1], shares, strict=True)
    ]
    variance = [2 / share**2 for share in shares]
    z, v = [noisy[-1]], [variance[-1]]
    for own, of_own in zip(noisy[-2::-1], variance[-2::-1], strict=True):
        below, of_below = z[-1].reshape(-1, 2).sum(axis=1), 2 * v[-1]
        z.append((own / of_own + below / of_below) / (1 / of_own + 1 / of_below))
        v.append(1 / (1 / of_own + 1 / of_below))
    found = z[-1]
    for own in z[-2::-1]:
        pairs = own.reshape(-1, 2)
        found = (pairs + (found - pairs.sum(axis=1))[:, None] / 2).reshape(-1)
    return found[: counts.size]


def _weights(order: Integers, place: Integers, sizes: Integers, side: int, asked: Questions) -> Floats:
    """How much of each run each of some questions asks for."""
    row, col = np.divmod(order, side)
    found = np.empty((100, sizes.size))
    for i, (top, bottom, left, right) in enumerate(asked[:100]):
        inside = (row >= top) & (row < bottom) & (col >= left) & (col < right)
        found[i] = np.bincount(place, inside, sizes.size) / sizes
    return found


@lru_cache(maxsize=4)
def _hilbert(side: int) -> Integers:
    """The cells of a square along Hilbert's curve: four smaller curves, the first and the last turned over a diagonal."""
    row, col = np.zeros(1, np.int64), np.zeros(1, np.int64)
    size = 1
    while size < side:
        row, col = (
            np.concatenate([col, row, row + size, 2 * size - 1 - col]),
            np.concatenate([row, col + size, col + size, size - 1 - row]),
        )
        size *= 2
    return row * side + col


@numba.njit(cache=True)  # type: ignore[misc]
def _deviations(counts: Floats, lengths: int) -> Floats:
    n = counts.size
    found = np.full((lengths, n), np.inf)
    sums = np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + counts[i]
    for k in range(lengths):
        size = 1 << k
        for start in range(n - size + 1):
            mean = (sums[start + size] - sums[start]) / size
            off = 0.0
            for i in range(start, start + size):
                off += abs(counts[i] - mean)
            found[k, start] = off
    return found


@numba.njit(cache=True)  # type: ignore[misc]
def _cheapest(costs: Floats) -> Integers:
    """The ends of the runs that cost least in all."""
    lengths, n = costs.shape
    best, last = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
    best[0] = 0.0
    for end in range(1, n + 1):
        for k in range(lengths):
            start = end - (1 << k)
            if start < 0:
                break
            cost = best[start] + costs[k, start]
            if cost < best[end]:
                best[end] = cost
                last[end] = start
    ends = np.empty(n, np.int64)
    size, at = 0, n
    while at > 0:
        ends[size] = at
        size += 1
        at = last[at]
    return ends[:size][::-1].copy()


Method = Callable[[Integers, float, Questions, Random], Floats]
