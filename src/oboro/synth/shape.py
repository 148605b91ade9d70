"""What is believed of one column, from its noisy counts alone: how many records lie in each of its blocks.

Counts of a block and of its parts tell of one another: sums of parts are averaged into their block. Then every block that was cut is divided
between its parts, as its counts and the noise on them make it likely. Nobody knows how smooth a column is: so many ways to be are
weighed against one another, by how likely each makes the counts, and what a column shows in one place is expected in others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Column
from oboro.synth.levels import STANDS_OUT, Level, Noise


@dataclass(frozen=True, slots=True)
class Shape:
    """What is believed of one column: disjoint blocks of codes that cover it, and how many records lie in each.

    `values` is the number of its values: a block that begins there holds what is missing.
    """

    start: Integers
    stop: Integers
    mass: Floats
    values: int

    def block_of(self, codes: Integers) -> Integers:
        return np.searchsorted(self.start, codes, side="right") - 1


def shape_of(levels: Sequence[Level], noises: Sequence[Noise], column: Column, total: float) -> Shape:
    """The levels made one: counts that are not negative, add up to the total, and agree with one another."""
    first, *further = _with_parts(averaged(levels, noises))
    seen = first.count.copy()
    missing = first.start >= column.size
    by_noise = seen < STANDS_OUT * np.sqrt(first.variance)
    seen[missing & by_noise] = 0.0  # nulls that the noise alone could have made
    mass = on_simplex(seen, total)
    if not seen[missing].any() and missing.any():
        mass = np.where(missing, 0.0, on_simplex(np.where(missing, -np.inf, seen), total))
    shape = Shape(first.start, first.stop, mass, column.size)
    for level in further:
        shape = _refined(shape, level)
    return shape


@dataclass(frozen=True, slots=True)
class Averaged:
    """Blocks, what was counted in them on average, and the variance of that."""

    start: Integers
    stop: Integers
    count: Floats
    variance: Floats


def averaged(levels: Sequence[Level], noises: Sequence[Noise]) -> list[Averaged]:
    """The blocks that are new at each level; counts of a block at later levels are averaged into its first, each by its variance."""
    found: list[Averaged] = []
    for level, noise in zip(levels, noises, strict=False):
        new = np.ones(level.start.size, np.bool_)
        for earlier in found:
            at = np.minimum(np.searchsorted(earlier.start, level.start), earlier.start.size - 1)
            same = (earlier.start[at] == level.start) & (earlier.stop[at] == level.stop)
            place, variance = at[same], earlier.variance[at[same]]
            both = variance + noise.sd**2
            earlier.count[place] += variance / both * (level.count[same] - earlier.count[place])
            earlier.variance[place] = variance * noise.sd**2 / both  # never 0, however little noise there is
            new &= ~same
        if new.any():
            variances = np.full(np.count_nonzero(new), noise.sd**2)
            found.append(
                Averaged(level.start[new], level.stop[new], level.count[new].astype(float), variances)
            )
    return found


def _with_parts(levels: list[Averaged]) -> list[Averaged]:
    """Sums of parts, averaged into the count of their block; from the smallest parts up [Hay et al. 2010]."""
    for place in reversed(range(1, len(levels))):
        parts = levels[place]
        owned = np.zeros(parts.start.size, np.bool_)
        for above in reversed(
            levels[:place]
        ):  # all parts of a block are of one level, and the block of any before
            at = np.maximum(np.searchsorted(above.start, parts.start, side="right") - 1, 0)
            mine = ~owned & (above.start[at] <= parts.start) & (parts.stop <= above.stop[at])
            owned |= mine
            blocks, owner = np.unique(at[mine], return_inverse=True)
            summed = np.bincount(owner, parts.count[mine], minlength=blocks.size)
            variance = np.bincount(owner, parts.variance[mine], minlength=blocks.size)
            both = above.variance[blocks] + variance
            above.count[blocks] += above.variance[blocks] / both * (summed - above.count[blocks])
            above.variance[blocks] *= variance / both
    return levels


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest point with no negative part that adds up to the total."""
    order = np.sort(values)[::-1]
    excess = np.cumsum(np.where(np.isfinite(order), order, 0.0)) - total
    ranks = np.arange(1, order.size + 1)
    keep = max(1, int(np.count_nonzero(order - excess / ranks > 0)))
    return np.asarray(np.maximum(values - excess[keep - 1] / keep, 0.0))


def _refined(shape: Shape, level: Averaged) -> Shape:
    """Each block that was cut is replaced by its parts, divided as the blocks beside it suggest and its counts make it likely."""
    parent = shape.block_of(level.start)
    start, stop, mass = [], [], []
    kept = np.ones(shape.start.size, bool)
    kept[parent] = False
    slope = _slopes(shape)
    blocks, first = np.unique(parent, return_index=True)  # parts of a block follow one another
    splits = []
    for block, inside in zip(blocks, map(slice, first, [*first[1:], parent.size]), strict=True):
        width = (level.stop[inside] - level.start[inside]).astype(float)
        off_middle = (level.start[inside] + level.stop[inside] - shape.start[block] - shape.stop[block]) / 2
        guess = (shape.mass[block] / width.sum() + slope[block] * off_middle) * width
        splits.append(Split(guess, level.count[inside] - guess, level.variance[inside]))
        start.append(level.start[inside])
        stop.append(level.stop[inside])
    for block, split, away in zip(blocks, splits, _likely(splits), strict=True):
        mass.append(on_simplex(split.guess + away, float(shape.mass[block])))
    starts = np.concatenate([shape.start[kept], *start])
    order = np.argsort(starts)
    return Shape(
        starts[order],
        np.concatenate([shape.stop[kept], *stop])[order],
        np.concatenate([shape.mass[kept], *mass])[order],
        shape.values,
    )


def _slopes(shape: Shape) -> Floats:
    """How fast records become more or fewer for each value within a block, by the blocks beside it; 0 at a peak, a valley, and both ends.

    Never so fast that a neighbour's level is overshot [van Leer 1977, the monotonized central slope], or that fewer than none are left at an end of the block.
    """
    found = np.zeros(shape.start.size)
    known = np.flatnonzero(shape.start < shape.values)  # what is missing lies beside nothing
    start, stop = shape.start[known], shape.stop[known]
    width = (stop - start).astype(float)
    # from middle to middle; of more than 2^53 values the middles themselves may be one and the same double
    apart = (np.diff(start).astype(float) + np.diff(stop).astype(float)) / 2
    density = shape.mass[known] / width
    if density.size < 3:
        return found
    step = np.diff(density) / apart
    before, after = step[:-1], step[1:]
    across = (density[2:] - density[:-2]) / (apart[:-1] + apart[1:])
    most = np.minimum(2 * np.minimum(np.abs(before), np.abs(after)), 2 * density[1:-1] / width[1:-1])
    found[known[1:-1]] = np.where(before * after > 0, np.clip(across, -most, most), 0.0)
    return found


# How a block is divided. A way to be says how far parts lie from the guess, as shares of the part that each would have on average: each
# for itself, or drifting from one to the next, or one of them anywhere. The law of each is normal, so what is expected is a product of matrices.

_ALONE = (0.0, 0.1, 0.3, 1.0, 3.0)
_DRIFTING = (0.0, 0.3, 1.0)
_SPIKE = (
    0.3  # how likely it is beforehand that one part stands out: a round number, or the only value that occurs
)
_ROUNDS = 8
_LEAST_VARIANCE = 0.01  # of a record, squared


@dataclass(frozen=True, slots=True)
class Split:
    """A block that was cut: what each part is guessed to hold, how far it was counted from that, and the variance of the count."""

    guess: Floats
    away: Floats
    variance: Floats


@lru_cache(maxsize=256)
def _ways(parts: int) -> tuple[Floats, Floats]:
    """Directions that leave the sum of so many parts as it is, in columns; and the covariances of each way to be, along them."""
    across = np.linalg.qr(np.column_stack([np.ones(parts), np.eye(parts)[:, 1:]]))[0][:, 1:]
    place = np.arange(parts)
    drift = (
        -np.abs(place[:, None] - place) / parts
    )  # of a walk: where the sum is given, constants do not count
    covariances = [a**2 * np.eye(parts) + d**2 * drift for d, a in product(_DRIFTING, _ALONE)]
    return across, across.T @ np.array(covariances) @ across


def _likely(splits: Sequence[Split]) -> Iterator[Floats]:
    """How far the parts of each block lie from the guess, on average over all ways to be.

    How often each way occurs is learned from all blocks of the level at once [Dempster, Laird and Rubin 1977]; it counts beside
    one more block that could be any.
    """
    found = [_expected(split) for split in splits]
    evidence = np.array([log for log, _ in found])
    evidence = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    often = np.full(evidence.shape[1], 1 / evidence.shape[1])
    for _ in range(_ROUNDS):
        belief = evidence * often
        belief /= belief.sum(axis=1, keepdims=True)
        often = (belief.sum(axis=0) + 1 / often.size) / (len(found) + 1)
    belief = evidence * often
    belief /= belief.sum(axis=1, keepdims=True)
    for weights, (_, means) in zip(belief, found, strict=True):
        yield weights @ means


def _expected(split: Split) -> tuple[Floats, Floats]:
    """For each way to be, the logarithm of how likely it makes the counts, and how far the parts are expected from the guess."""
    across, ways = _ways(split.guess.size)
    seen = split.away @ across
    mean = max(float(split.guess.mean()), 1e-9)
    prior = ways * mean**2
    noise = (across.T * np.maximum(split.variance, _LEAST_VARIANCE)) @ across
    precision = np.linalg.inv(prior + noise)
    weighed = precision @ seen
    log = (np.linalg.slogdet(precision)[1] - weighed @ seen) / 2
    # one part anywhere: a rank more, for each part in turn [Sherman and Morrison 1950]
    anywhere = (mean * split.guess.size) ** 2
    toward = precision @ across.T
    inside = 1 + anywhere * np.einsum("pk,wpk->wk", across.T, toward)
    off = weighed @ across.T
    logs = log[:, None] + (anywhere * off**2 / inside - np.log(inside)) / 2
    logs = np.column_stack([log + np.log(1 - _SPIKE), logs + np.log(_SPIKE / split.guess.size)])
    most = logs.max(axis=1)
    shares = np.exp(logs - most[:, None])
    whole = shares.sum(axis=1)
    pulled = shares[:, 1:] / whole[:, None] * (anywhere * off / inside)
    spiked = np.einsum("ij,wjk,wk->wi", noise, toward, pulled)
    means = np.einsum("wij,wj->wi", prior, weighed) + spiked
    return most + np.log(whole), means @ across.T
