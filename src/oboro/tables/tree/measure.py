"""Counting at the levels of a design: exact counts, exact noise, then least squares and projection."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.noise import Bits
from oboro.progress import progress
from oboro.tables.cells import LARGEST_TOTAL, Cells, Layout
from oboro.tables.strategy import Noise
from oboro.tables.tree.lattice import Lattice, Tree, lattice_of
from oboro.tables.tree.planner import least_squares, level_coefficients
from oboro.tables.tree.workload import Design, precision

# From estimates to what is published: whole numbers, 0 or more, and every node the sum of its children.
#
# From the top down. The root holds the nearest whole number to its estimate, or 0. A node that holds t gives its
# children the whole numbers that add up to t and are nearest to their estimates. Steps are small, four children
# mostly: a projection onto many children at once spoils rectangles.
#
# Where there are several columns, the places go last. First the whole is shared out among the values of the other
# columns; then each step of the places shares out all these values together, so that both the children's totals and
# the counts by category stay near their estimates ("joint").
#
# All of this is post-processing of noisy numbers and public facts.


def project(
    lattice: Lattice, estimates: Floats, possible: Bools | None, total: int | None = None
) -> Integers:
    """Whole counts of all leaves, near to `estimates`. A public `total` is shared out as it is."""
    spine = spine_of(lattice)
    order = [spine, *(i for i in range(len(lattice.trees)) if i != spine)]
    wanted = np.ascontiguousarray(estimates.transpose(order))
    good = None if possible is None else np.ascontiguousarray(possible.transpose(order))
    trees = [lattice.trees[i] for i in order]
    total = whole_total(float(wanted.sum())) if total is None else total
    held = beside(
        np.array([total], np.int64),
        trees[1:],
        wanted.sum(axis=0),
        None if good is None else np.asarray(good.any(axis=0)),
    )
    leaves = trees[0].leaves
    counts = down(
        held.reshape(1, -1),
        trees[0],
        wanted.reshape(leaves, -1),
        None if good is None else good.reshape(leaves, -1),
    )
    back = np.argsort(order)
    return np.ascontiguousarray(counts.reshape([tree.leaves for tree in trees]).transpose(back))


def whole_total(estimate: float) -> int:
    """What the root holds."""
    return round(min(max(estimate, 0.0), float(LARGEST_TOTAL)))


def spine_of(lattice: Lattice) -> int:
    """The column that goes last: the deepest, which is that of the places where there is one."""
    return max(range(len(lattice.trees)), key=lambda i: (lattice.trees[i].depth, lattice.trees[i].leaves))


def beside(held: Integers, trees: list[Tree], wanted: Floats, good: Bools | None) -> Integers:
    """Shares out among the values of columns, one column after the other."""
    from oboro.tables.tree._compiled import share_out

    for i, tree in enumerate(trees):
        later = tuple(range(i + 1, len(trees)))
        own = wanted.sum(axis=later).reshape(-1, tree.leaves)
        allowed = None if good is None else good.any(axis=later).reshape(-1, tree.leaves)
        for step, arity in enumerate(tree.arities):
            under = tree.under(step + 1)
            of_children = own.reshape(-1, under).sum(axis=1).reshape(-1, arity)
            may = (
                np.ones((1, arity), np.bool_)
                if allowed is None
                else allowed.reshape(-1, under).any(axis=1).reshape(-1, arity)
            )
            children = np.empty(of_children.shape, np.int64)
            share_out(held, of_children, may, allowed is None, children)
            held = children.reshape(-1)
    return held


def down(held: Integers, tree: Tree, wanted: Floats, good: Bools | None) -> Integers:
    """Shares out among the places, all values of the other columns together."""
    from oboro.tables.tree._compiled import share_out, share_out_jointly

    groups = wanted.shape[1]
    estimates, allowed = by_level(tree, wanted, good)
    for arity, finer, may in zip(tree.arities, estimates, allowed, strict=True):
        own = finer.reshape(-1, arity, groups)
        everywhere = may is None
        may = np.ones((1, arity, groups), np.bool_) if may is None else may.reshape(-1, arity, groups)
        children = np.empty(own.shape, np.int64)
        if groups == 1:
            share_out(held[:, 0], own[:, :, 0], may[:, :, 0], everywhere, children[:, :, 0])
        else:
            share_out_jointly(held, own, may, everywhere, children)
        held = children.reshape(-1, groups)
    return held


def by_level(tree: Tree, wanted: Floats, good: Bools | None) -> tuple[list[Floats], list[Bools | None]]:
    """What the nodes of each level below the root should hold, and which of them can; the coarsest first."""
    if not tree.arities:
        return [], []
    estimates, allowed = [wanted], [good]
    for arity in reversed(tree.arities[1:]):
        estimates.append(_joined(estimates[-1], arity))
        finer = allowed[-1]
        joined = None if finer is None else finer.reshape(-1, arity, wanted.shape[1]).any(axis=1)
        allowed.append(None if joined is None else np.asarray(joined))
    return estimates[::-1], allowed[::-1]


def _joined(values: Floats, arity: int) -> Floats:
    """Sums over every `arity` neighbours."""
    split = values.reshape(-1, arity, values.shape[1])
    total = split[:, 0].copy()  # numpy adds few long rows faster than many short ones
    for part in range(1, arity):
        total += split[:, part]
    return total


_TOGETHER = 1 << 18  # draws
_AT_ONCE = 1 << 22  # draws of a large table
_FEW_NODES = 1 << 16  # of a level: one array more hardly matters


@dataclass(frozen=True, slots=True)
class Measured(Cells):
    """The published cells, and the noisy counts that they come from: these are as public as the table.

    `estimates` are those of the published cells by themselves: the noisy count of each, from 0 on.
    """

    noisy: tuple[Integers, ...] = field(default=(), repr=False)
    estimates: Integers | None = field(default=None, repr=False)


def measure(
    cells: Cells,
    layout: Layout,
    design: Design,
    noises: Sequence[Noise],
    bits: Bits,
    total: int | None = None,
    trials: int = 1,
    share: Fraction | None = None,
) -> list[Measured]:
    """Publishes the table `trials` times, each with noise of its own."""
    lattice = lattice_of(layout.domain)
    possible = lattice.possible(layout)
    if len(lattice.trees) == 1 and trials == 1:
        drawn = _over(cells, layout, lattice, design, noises, bits)
        return [publish(drawn, layout, lattice, design, noises, possible, total, share)]
    counts = np.zeros(tuple(tree.leaves for tree in lattice.trees), np.int64)
    counts.reshape(-1)[lattice.leaf(layout, cells.keys)] = cells.counts
    true = [np.asarray(lattice.sums(counts, level), np.int64) for level in design.levels]
    del counts
    published = []
    for noisy in draws(true, noises, bits, trials):
        published.append(publish(noisy, layout, lattice, design, noises, possible, total, share))
    return published


def _over(
    cells: Cells, layout: Layout, lattice: Lattice, design: Design, noises: Sequence[Noise], bits: Bits
) -> list[Integers]:
    """The noisy counts of each level of one column: noise everywhere, and counts added where there are any."""
    (tree,) = lattice.trees
    leaves = lattice.leaf(layout, cells.keys)
    noisy = []
    for (level,), noise in zip(design.levels, noises, strict=True):
        if tree.nodes(level) <= _AT_ONCE:
            drawn = noise.sample(tree.nodes(level), bits)
        else:
            drawn = np.empty(tree.nodes(level), np.int64)
            for first in range(0, drawn.size, _AT_ONCE):
                part = drawn[first : first + _AT_ONCE]
                part[:] = noise.sample(part.size, bits)
        noisy.append(drawn)
    known: Integers | None = (
        None  # what the nodes of a level hold, if they are few: those above are added up from it
    )
    for (level,), drawn in sorted(zip(design.levels, noisy, strict=True), key=lambda one: -one[0][0]):
        if level == tree.depth:
            drawn[leaves] += cells.counts  # each leaf once
        elif known is not None:
            known = known.reshape(drawn.size, -1).sum(axis=1)
            drawn += known
        elif drawn.size <= _FEW_NODES:
            known = np.zeros(drawn.size, np.int64)
            np.add.at(known, leaves // tree.under(level), cells.counts)
            drawn += known
        else:
            np.add.at(drawn, leaves // tree.under(level), cells.counts)
    return noisy


def draws(
    true: Sequence[Integers], noises: Sequence[Noise], bits: Bits, trials: int
) -> Iterator[list[Integers]]:
    """The noisy counts of each trial. Small tables draw for many trials at once."""
    together = max(1, _TOGETHER // max(counts.size for counts in true))
    for first in range(0, trials, together):
        some = min(together, trials - first)
        drawn = [
            noise.sample((some, *counts.shape), bits) for counts, noise in zip(true, noises, strict=True)
        ]
        for trial in range(some):
            yield [counts + noise[trial] for counts, noise in zip(true, drawn, strict=True)]


def publish(
    noisy: Sequence[Integers],
    layout: Layout,
    lattice: Lattice,
    design: Design,
    noises: Sequence[Noise],
    possible: Bools | None,
    total: int | None,
    share: Fraction | None = None,
) -> Measured:
    """All that follows the noise: post-processing. With `share`, only cells that stand out are published."""
    finest = design.levels.index(lattice.finest)
    raw = noisy[finest].reshape(-1)
    if len(lattice.trees) == 1 and lattice.trees[0].depth > 1:
        leaves, held = _whole_leaves(noisy, lattice, design, noises, possible, total)
    else:
        estimates = estimated(noisy, lattice, design, noises, possible, total)
        progress("making whole", 0.5)
        counts = project(lattice, estimates, possible, total).reshape(-1)
        leaves = np.flatnonzero(counts)
        held = counts[leaves]
    if share is not None:
        standing = raw[leaves] >= cut_of_cells(raw, possible, noises[finest], share)
        leaves, held = leaves[standing], held[standing]
    keys = lattice.keys(layout, leaves)
    own = np.maximum(raw[leaves], 0)
    if not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys)
        keys, held, own = keys[order], held[order], own[order]
    progress("making whole", 1.0)
    return Measured(keys, held, tuple(noisy), own)


# One column: `estimated` and `project` without an array of all leaves but the noisy counts themselves.
#
# With b as in `least_squares`, b is A + p y at a leaf, where p and y are the precision and the count of the finest level
# and A is what the levels above give all leaves of a node alike. So the sum of b below a node of level l is
#
#     S_l = n_l A_l + U_l,    U_l = the sum over its children of p n y + U, from level l+1,
#
# and the estimate of a leaf is g + (c_D)(A + p y), where g is the sum of c_l S_l / n_l over the nodes above it. Everything but the
# last level is a few numbers for each node above the leaves, and the last level is read once, four leaves at a time.


def _whole_leaves(
    noisy: Sequence[Integers],
    lattice: Lattice,
    design: Design,
    noises: Sequence[Noise],
    possible: Bools | None,
    total: int | None,
) -> tuple[Integers, Integers]:
    """The leaves that hold somebody, in order, and how many: as `project` of what `estimated` gives, but for rounding errors."""
    from oboro.tables.tree._compiled import share_out, share_out_leaves

    (tree,), depth = lattice.trees, lattice.trees[0].depth
    good = _possible_by_level(tree, possible)
    precisions = [precision(noise) for noise in noises]
    progress("least squares", 0.0)
    counts = {level: values for (level,), values in zip(design.levels, noisy, strict=True)}
    weights = {level: value for (level,), value in zip(design.levels, precisions, strict=True)}
    c = level_coefficients(lattice, design.levels, precisions)
    leaves = counts[depth]
    sums = _sums_of_leaves(leaves, possible, tree.arities[-1])
    below: list[Floats] = [np.empty(0)] * depth
    below[-1] = sums  # without their precision, which is put in where they are used: one array less
    for level in range(depth - 2, -1, -1):
        finer = below[level + 1] if level + 1 < depth - 1 else sums * weights[depth]
        if level + 1 in counts:
            finer = finer + _measured(counts, weights, good, level + 1) * tree.under(level + 1)
        below[level] = _joined(finer[:, None], tree.arities[level])[:, 0]
    above, solved = np.zeros(1), np.zeros(1)
    for level in range(depth):
        arity, own = tree.arities[level - 1] if level else 1, np.zeros((1, 1))
        if level in counts:
            own = _measured(counts, weights, good, level).reshape(-1, arity)
        above = (above[:, None] + np.broadcast_to(own, (above.size, arity))).reshape(-1)
        finer = np.zeros((1, 1))
        if c[level]:
            each = (weights[depth] if level == depth - 1 else 1.0) / tree.under(level)
            finer = c[level] * (above + below[level] * each)
        finer = np.broadcast_to(finer.reshape(-1, arity) if c[level] else finer, (solved.size, arity))
        solved = (solved[:, None] + finer).reshape(-1)
        below[level] = np.empty(0)
    # from here on in place, and what is done with is let go: each of these is the largest array but the leaves
    start, slope = above, c[depth] * weights[depth]
    start *= c[depth]
    start += solved
    del above, solved, below, finer, own
    sums *= slope
    sums += start * tree.arities[-1]
    wanted = [sums]
    del sums
    for arity in reversed(tree.arities[:-1]):
        wanted.append(_joined(wanted[-1][:, None], arity)[:, 0])
    wanted.reverse()
    if total is not None:
        shift = (total - float(wanted[0][0])) / tree.leaves
        start += shift
        wanted = [each + shift * tree.under(level) for level, each in enumerate(wanted)]
    progress("making whole", 0.5)
    held = np.array([whole_total(float(wanted[0][0])) if total is None else total], np.int64)
    for level, arity in enumerate(tree.arities[:-1]):
        own, may = wanted[level + 1].reshape(-1, arity), good[level + 1]
        children = np.empty(own.shape, np.int64)
        allowed = np.ones((1, arity), np.bool_) if may is None else may.reshape(-1, arity)
        share_out(held, own, allowed, may is None, children)
        held = children.reshape(-1)
        wanted[level + 1] = np.empty(0)
        del own, children
    return _joined_parts(share_out_leaves, held, start, slope, leaves, possible, tree.arities[-1])


def _joined_parts(
    share_out_leaves: Callable[..., int],
    held: Integers,
    start: Floats,
    slope: float,
    leaves: Integers,
    possible: Bools | None,
    arity: int,
) -> tuple[Integers, Integers]:
    """The last step, for some nodes at a time: most leaves hold nobody."""
    found: list[tuple[Integers, Integers]] = []
    flat = np.ones(1, np.bool_) if possible is None else possible.reshape(-1)
    room = min(_TOGETHER, held.size) * arity
    places, people = np.empty(room, np.int64), np.empty(room, np.int64)
    for first in range(0, held.size, _TOGETHER):
        size = share_out_leaves(
            held,
            start,
            slope,
            leaves,
            flat,
            possible is None,
            arity,
            first,
            min(first + _TOGETHER, held.size),
            places,
            people,
        )
        if held.size <= _TOGETHER:
            return places[:size], people[:size]
        found.append((places[:size].copy(), people[:size].copy()))
    return np.concatenate([at for at, _ in found]), np.concatenate([count for _, count in found])


def _measured(
    counts: dict[int, Integers], weights: dict[int, float], good: list[Bools | None], level: int
) -> Floats:
    """What is added for the counts of a level above the leaves; nodes without a possible cell hold 0 for certain."""
    held, may = np.multiply(counts[level], weights[level], dtype=np.float64), good[level]
    return held if may is None else np.where(may, held, 0.0)


def _possible_by_level(tree: Tree, possible: Bools | None) -> list[Bools | None]:
    """Which nodes have a possible cell below them, for each level above the leaves."""
    if possible is None:
        return [None] * tree.depth
    found: list[Bools | None] = []
    finer = possible.reshape(-1)
    for arity in reversed(tree.arities):
        finer = np.asarray(finer.reshape(-1, arity).any(axis=1))
        found.append(finer)
    return found[::-1]


def _sums_of_leaves(leaves: Integers, possible: Bools | None, arity: int) -> Floats:
    """The sums over every `arity` neighbours, of those that can hold somebody."""
    split = leaves.reshape(-1, arity)
    good = None if possible is None else possible.reshape(-1, arity)
    found = np.zeros(len(split))
    for part in range(arity):
        found += split[:, part] if good is None else np.where(good[:, part], split[:, part], 0)
    return found


def cut_of_cells(raw: Integers, possible: Bools | None, noise: Noise, share: Fraction) -> int:
    """The least noisy count with which a cell is published, if only such a share of them may be empty.

    It is the same whatever a published cell's own noisy count is, all others as they are, which intervals rely on: with R
    cells published, one of them is published as long as its count v has C p(v) <= share R, and R stays. The least count that is
    seen among them would not do: for one row it is that row's own.
    """
    tested = raw if possible is None else raw[possible.reshape(-1)]
    seen = least_that_stands_out(tested[tested > 0], tested.size, 1, noise, float(share))
    allowed = float(share) * np.count_nonzero(tested >= seen)
    if not allowed:
        return seen

    def stands_out(count: int) -> bool:
        return bool(tested.size * noise.cdf(np.array([-count]))[0] <= allowed)

    return 1 + bisect_left(range(1, seen), True, key=stands_out)


def least_that_stands_out(values: Integers, candidates: int, floor: int, law: Noise, share: float) -> int:
    """The least value v at which C p(v) <= share R(v) [Benjamini, Hochberg 1995]; above all of them if there is none.

    Of C cells R(v) reach v, and an empty one does with probability p(v). So at most this share of those that reach the cut
    are empty, on average, whatever the others hold.
    """
    known, counts = np.unique(values, return_counts=True)
    return least_of(known, counts, candidates, floor, law, share)


def least_of(known: Integers, counts: Integers, candidates: int, floor: int, law: Noise, share: float) -> int:
    """The same from how often each value occurs, in increasing order."""
    reaching = counts[::-1].cumsum()[::-1]
    chance = law.cdf(-known)  # P(noise >= v), by symmetry
    passing = known[candidates * chance <= share * reaching]
    return int(passing.min()) if passing.size else (int(known.max()) + 1 if known.size else floor)


def estimated(
    noisy: Sequence[Integers],
    lattice: Lattice,
    design: Design,
    noises: Sequence[Noise],
    possible: Bools | None,
    total: int | None,
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Least squares; nodes without a possible cell hold 0 for certain, and count as measured without error.

    That is not the best that could be made of them, but it stays unbiased, and makes errors smaller, not larger.
    """
    counts = list(noisy)
    if possible is not None:
        counts = [
            np.where(lattice.sums(possible, level) > 0, each, 0)  # sums of truth values are counts
            for level, each in zip(design.levels, noisy, strict=True)
        ]
    precisions = [precision(noise) for noise in noises]
    progress("least squares", 0.0)
    return least_squares(lattice, design.levels, precisions, counts, total)
