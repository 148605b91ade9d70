"""How much of what cells seem to differ by is noise: the rest is what is published of it.

A block of hours by 8 x 8 cells is counted well, its single cells over a day with much noise. The nearest whole numbers of 0 or more then put all that a block holds into the few cells
whose noise happened to be largest: that is worse than to share it out evenly, and worse than the sum of many tables each of which did so by noise of its own. So differences are
shrunk first, as much as they are noise, towards what the blocks around a block lead one to expect.

What cells differ by splits into levels: by how much the nodes of each level differ from the mean of their parent. From the blocks down, for each level:

What is expected. A surface that is as smooth across parents as can be, is 0 or more, and holds in each parent what was found for it [Tobler 1979]. Towns and fields have one; streets do not. So what it says, d, is followed
only as far as the noisy differences y themselves do: by b = the sum of w d y over that of w d^2, over all places, each weighted by its precision, times 1 - 1/(the sum of w d^2 b^2),
or 0 if that is less: b has an error of its own [James and Stein 1961]. Noise of different levels is uncorrelated, so d knows nothing of that of y.

What is kept. Let a block hold t in n cells. Of what is left, y - b d, let e be the sum of squares over the cells, of f degrees of
freedom, of which noise of variance v each makes N = f v. What the true differences make, S, is told by two things. By itself e - N, with a variance of about 2 (N + S)^2 / f. And by what blocks
that hold so much have elsewhere: c t^2 / n times the level's part of all degrees of freedom, f / (n - 1), with one c for the whole level, by weighted least squares over all blocks.
That is as uncertain as it is large. Both together, each weighted by its precision, give S, and S / (S + N) of what is left is kept: the best linear answer if S were known
[empirical Bayes, as Efron and Morris 1973].

All of this is post-processing: it sees noisy counts and public facts. It makes counts biased towards what is expected; the least-squares estimate is published beside them, with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.tree.lattice import Tree

_ROUNDS = 40  # of doubling and of halving
_SMOOTHINGS = 3
_MOST = 1.5  # of what a surface says: it is rather too even than too steep


def shrunk(
    wanted: Floats, held: Integers, tree: Tree, level: int, noise: Sequence[float], good: Bools | None
) -> Floats:
    """What cells should hold: [cell, group], in the order of the tree, of blocks of a level that hold `held`, [block, group].

    `noise` is the variance of a component of length 1 of each level below the blocks; `good` says which cells can hold anybody.
    """
    number = np.ones(wanted.shape) if good is None else good.astype(float)
    left, most = wanted * number, held.astype(float)
    blocks = nodes = held.shape[0]
    many = size = _sums(number, blocks)
    found, above = _over(most, size), _over(_sums(left, blocks), size)
    for step, v in enumerate(noise, level):
        arity, before = tree.arities[step], many
        nodes *= arity
        many = _sums(number, nodes)
        some = many > 0
        own = _over(_sums(left, nodes), many)
        apart = np.where(some, own - np.repeat(above, arity, axis=0), 0.0)
        free = _sums(some, blocks) - _sums(before > 0, blocks)
        usual = _over(most**2 * free, size * np.maximum(size - 1, 1))
        expected = _surface(tree, step, np.maximum(found, 0.0) * before, many)
        mean = _over(_sums(expected * many, nodes // arity), before)
        expected = np.where(some, expected - np.repeat(mean, arity, axis=0), 0.0)
        each = v + _over(_scale(_sums(many * apart**2, blocks), free * v, usual) * usual, free)
        expected *= _followed(apart, expected, _over(many, np.repeat(each, nodes // blocks, axis=0)))
        rest = apart - expected
        kept = _kept(_sums(many * rest**2, blocks), free, v, usual)
        found = np.repeat(found, arity, axis=0) + expected + np.repeat(kept, nodes // blocks, axis=0) * rest
        above = own
    return np.ascontiguousarray(found * number)


def _followed(apart: Floats, expected: Floats, weight: Floats) -> float:
    """How far what is expected is followed: b in the text."""
    sure = float((weight * expected**2).sum())
    b = float((weight * expected * apart).sum()) / sure if sure > 0 else 0.0
    return min(max(b - 1 / (b * sure), 0.0), _MOST) if b > 0 else 0.0


def _kept(energy: Floats, free: Floats, v: float, usual: Floats) -> Floats:
    """Which part of the differences of a level is kept, in each block."""
    noise = free * v
    usual = _scale(energy, noise, usual) * usual
    alone = 2 * _over((noise + usual) ** 2, free)
    true = np.maximum(_over((energy - noise) * usual**2 + usual * alone, usual**2 + alone), 0.0)
    return _over(true, true + noise)


def _scale(energy: Floats, noise: Floats, usual: Floats) -> float:
    """How many times what is usual explains the energy beyond noise: c in the text.

    The c whose weights give c again. The answer falls as c grows, so it is found by halving; to put each answer in again may alternate for ever where one block
    holds nearly everybody.
    """

    def answer(c: float) -> float:
        weight = usual * _over(np.ones_like(noise), (noise + c * usual) ** 2)
        total = float((weight * usual).sum())
        return float((weight * (energy - noise)).sum()) / total if total > 0 else 0.0

    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        if answer(high) <= high:
            break
        low, high = high, 2 * high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if answer(middle) > middle else (low, middle)
    return high


# What the blocks around lead one to expect


def _surface(tree: Tree, step: int, held: Floats, many: Floats) -> Floats:
    """How many a cell has in each child of the nodes that a step divides: smooth, and as many in each node as it holds."""
    weight = _laid_out(tree, step + 1, many)
    total = _laid_out(tree, step, held)
    split = [weight.shape[0] // total.shape[0]]
    split += [fine // coarse for fine, coarse in zip(weight.shape[1:-1], total.shape[1:-1], strict=True)]
    shape = [side for pair in zip(total.shape[:-1], split, strict=True) for side in pair] + [held.shape[1]]
    inner = tuple(range(1, len(shape), 2))
    total = np.expand_dims(total, inner)

    def fitted(values: Floats) -> Floats:
        inside = (values * weight).reshape(shape).sum(axis=inner, keepdims=True)
        return np.asarray((values.reshape(shape) * _over(total, inside)).reshape(weight.shape))

    found = fitted(np.ones(weight.shape))
    for _ in range(_SMOOTHINGS):
        found = fitted(_smoothed(found, weight))
    return _laid_back(tree, step + 1, found)


def _smoothed(values: Floats, weight: Floats) -> Floats:
    """Each place half as it is and half as those beside it are, along one direction after the other: a plane stays what it is."""
    for axis in range(1, values.ndim - 1):
        values = _over(_with_neighbours(values * weight, axis), _with_neighbours(weight, axis))
    return values


def _with_neighbours(values: Floats, axis: int) -> Floats:
    total = 2 * values
    here, there = total.swapaxes(0, axis), values.swapaxes(0, axis)
    here[1:] += there[:-1]
    here[:-1] += there[1:]
    return total


def _digits(tree: Tree, level: int) -> tuple[list[int], list[int], list[int]]:
    """The radices of the nodes of a level; the order that puts those of a direction together, after those of none; and how many nodes lie along each."""
    digits = [pair for step in tree.steps[:level] for pair in step]
    way = {axis: i for i, axes in enumerate(tree.directions, 1) for axis in axes}
    order = sorted(range(len(digits)), key=lambda i: way.get(digits[i][0], 0))
    sides = [
        prod(parts for axis, parts in digits if way.get(axis, 0) == i)
        for i in range(len(tree.directions) + 1)
    ]
    return [parts for _, parts in digits], order, sides


def _laid_out(tree: Tree, level: int, values: Floats) -> Floats:
    """What the nodes of a level hold, [node, group], as it lies: [what has no direction, along each direction, group]."""
    radices, order, sides = _digits(tree, level)
    moved = values.reshape(*radices, -1).transpose(*order, len(order))
    return np.ascontiguousarray(moved.reshape(*sides, values.shape[1]))


def _laid_back(tree: Tree, level: int, values: Floats) -> Floats:
    radices, order, _ = _digits(tree, level)
    moved = values.reshape(*(radices[i] for i in order), -1)
    back = moved.transpose(*np.argsort(order), len(order))
    return np.ascontiguousarray(back.reshape(tree.nodes(level), values.shape[-1]))


def _sums(values: npt.NDArray[np.float64] | Bools, nodes: int) -> Floats:
    """What nodes hold, side by side."""
    return np.asarray(values.reshape(nodes, -1, values.shape[1]).sum(axis=1), np.float64)


def _over(top: Floats, below: Floats) -> Floats:
    """A quotient, 0 where there is nothing to divide by."""
    shape = np.broadcast_shapes(top.shape, below.shape)
    return np.asarray(np.divide(top, below, out=np.zeros(shape), where=below > 0))
