"""How much of what cells seem to differ by is noise: the rest is what is published of it.

A block of hours by 8 x 8 cells is counted well, its single cells over a day with much noise. The nearest whole numbers of 0 or more then put all that a block holds into the few cells
whose noise happened to be largest: that is worse than to share it out evenly, and worse than the sum of many tables each of which did so by noise of its own. So differences are
shrunk first, as much as they are noise.

Let a block hold t in n cells. What its cells differ by splits into levels: of the nodes of each level from the mean of their parent. Of one level let e be the sum of squares over the cells, of f degrees of
freedom, of which noise of variance v each makes N = f v. What the true differences make, S, is told by two things. By itself e - N, with a variance of about 2 (N + S)^2 / f. And by what blocks
that hold so much have elsewhere: c t^2 / n times the level's part of all degrees of freedom, f / (n - 1), with one c for the whole level, by weighted least squares over all blocks.
That is as uncertain as it is large. Both together, each weighted by its precision, give S, and S / (S + N) of the differences is kept: the best linear answer if S were known
[empirical Bayes, as James and Stein 1961; Efron and Morris 1973].

All of this is post-processing: it sees noisy counts and public facts. It makes counts biased towards the mean of their block; the least-squares estimate is published beside them, with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oboro.arrays import Bools, Floats, Integers

_ROUNDS = 20  # of weighted least squares


def shrunk(
    wanted: Floats, held: Integers, arities: Sequence[int], noise: Sequence[float], good: Bools | None
) -> Floats:
    """What cells should hold: [cell, group], the cells of a block side by side, of blocks that hold `held`, [block, group].

    `arities` are those of the tree below a block, `noise` the variance of a component of length 1 of each of its levels; `good` says which cells can hold anybody.
    """
    blocks, groups = held.shape
    cells = np.ones((blocks, wanted.shape[0] // blocks, groups)) if good is None else None
    number = cells if good is None else good.reshape(blocks, -1, groups).astype(float)
    assert number is not None
    left = wanted.reshape(number.shape) * number
    size = number.sum(axis=1)
    mean = _over(held, size)[:, None, :]
    found, above = mean, _over(left.sum(axis=1), size)[:, None, :]
    nodes, before = 1, (size > 0).astype(float)
    for arity, v in zip(arities, noise, strict=True):
        nodes *= arity
        many = number.reshape(blocks, nodes, -1, groups).sum(axis=2)
        own = _over(left.reshape(blocks, nodes, -1, groups).sum(axis=2), many)
        apart = own - np.repeat(above, arity, axis=1)
        free = (many > 0).sum(axis=1) - before
        kept = _kept((many * apart**2).sum(axis=1), free, v, held.astype(float), size)
        found = np.repeat(found, arity, axis=1) + kept[:, None, :] * apart
        above, before = own, before + free
    return np.ascontiguousarray((found * number).reshape(wanted.shape))


def _kept(energy: Floats, free: Floats, v: float, held: Floats, size: Floats) -> Floats:
    """Which part of the differences of a level is kept, in each block."""
    noise = free * v
    like = _over(held**2 * free, size * np.maximum(size - 1, 1))
    c = 1.0
    for _ in range(_ROUNDS):
        weight = _over(np.ones_like(noise), (noise + c * like) ** 2)
        c = max(float(_over((weight * like * (energy - noise)).sum(), (weight * like**2).sum())), 0.0)
    usual = c * like
    alone = 2 * _over((noise + usual) ** 2, free)
    true = np.maximum(_over((energy - noise) * usual**2 + usual * alone, usual**2 + alone), 0.0)
    return _over(true, true + noise)


def _over(top: Floats | Integers, below: Floats) -> Floats:
    """A quotient, 0 where there is nothing to divide by."""
    return np.asarray(np.divide(top, below, out=np.zeros(np.shape(below)), where=np.asarray(below) > 0))
