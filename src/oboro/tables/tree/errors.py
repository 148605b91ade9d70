"""How far off an answer may be: the law of its error, which is a weighted sum of independent discrete noises.

A least-squares answer takes each noisy count with a weight that follows from the design and the question. With M the
normal matrix and v = M^-1 q for a question q, the weight of a node of level l is p_l times the sum of v over its leaves
(planner.py). v is a sum of averages of q, so nodes alike in how much of them, and of the nodes above them, is asked for
have the same weight: a few kinds of node, each with how many there are.

Where there is one noise its own law says how far it reaches. Otherwise the law of the sum comes from its characteristic
function, which is the product of those of the noises: exact but for a blur of a 400th of its standard error, which is
added to the reach. (A fixed number of standard errors is too few for discrete noise, and too many for short intervals:
half of Laplace noise lies within 0.49 of them, half of Gaussian noise within 0.67.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from oboro.arrays import Bools, Floats
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.noise.laplace import as_float, check_level
from oboro.tables.strategy import Noise
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.planner import coefficients
from oboro.tables.tree.workload import precision

Term = tuple[float, float, Noise]  # weight, how many noises have it, their law

_KINDS = 48  # of weights that are taken as they are; the rest, each far smaller, count as Gaussian
_MOST = 1 << 20  # kinds of node that are listed for one question
_BLUR = 400
_NOTHING = -45.0  # the logarithm of what is too little to matter, 22,918 times
_RANGE = 30  # standard errors: beyond them lies less than 1e-16 of Laplace noise


@dataclass(frozen=True)
class Error:
    """The error of an answer: noises with weights, and `rest`, the variance of a Gaussian part."""

    terms: tuple[Term, ...] = ()
    rest: float = 0.0

    @classmethod
    def of(cls, weights: Floats, times: Floats, noise: Noise) -> Error:
        """Noises of one law: signs do not matter, and equal weights are one term."""
        size = np.abs(weights)
        kept = size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)
        # ten digits: what differs by less is rounding
        digits = np.round(size[kept] / max(float(size.max(initial=0.0)), 1e-300), 10)
        known, place = np.unique(digits, return_inverse=True)
        number = np.bincount(place, times[kept], known.size)
        top = float(size.max(initial=0.0))
        return cls(
            tuple((float(w) * top, float(n), noise) for w, n in zip(known, number, strict=True) if n > 0)
        )

    def __add__(self, other: Error) -> Error:
        return Error((*self.terms, *other.terms), self.rest + other.rest)

    @cached_property
    def variance(self) -> float:
        return self.rest + _added(self.terms)

    @property
    def sd(self) -> float:
        return math.sqrt(self.variance)

    def reach(self, level: float) -> float:
        """How far the error reaches to both sides with at least this probability."""
        level = check_level(level)
        law = _variances(self.terms)
        some = [term for term in self.terms if law[id(term[2])] > 0]
        if not some and self.rest <= 0:
            return 0.0
        if len(some) == 1 and some[0][1] == 1 and self.rest <= 0:
            return some[0][0] * some[0][2].interval(level)[1]
        some.sort(key=lambda term: -(term[0] ** 2) * law[id(term[2])])
        return _reach(tuple(some[:_KINDS]), self.rest + _added(some[_KINDS:]), level)


def _variances(terms: Iterable[Term]) -> dict[int, float]:
    """Of every law, by its identity: terms are many, laws few."""
    return {key: law.variance for key, law in {id(law): law for _, _, law in terms}.items()}


def _added(terms: Sequence[Term]) -> float:
    law = _variances(terms)
    return sum(weight**2 * times * law[id(noise)] for weight, times, noise in terms)


@lru_cache(maxsize=1024)
def _reach(terms: tuple[Term, ...], rest: float, level: float) -> float:
    sd = math.sqrt(rest + _added(terms))
    blur = sd / _BLUR
    at = (np.arange(math.ceil(6 * _BLUR * _RANGE / math.pi)) + 0.5) * (math.pi / (_RANGE * sd))
    log = -0.5 * (rest + blur**2) * at**2
    # the widest first: where it says next to nothing the others need not be asked
    for weight, times, noise in terms:
        log += times * _log_characteristic(noise, np.asarray(weight * at))
        kept = log > _NOTHING
        at, log = at[kept], log[kept]
    # P(|X| <= t) = 2/pi times the integral of phi(u) sin(t u)/u: by the rule of midpoints, X modulo 2 _RANGE sd
    over = np.exp(log) / at * (2 / (_RANGE * sd))
    low, high = 0.0, _RANGE / 2 * sd
    while high - low > 1e-4 * sd:
        middle = (low + high) / 2
        low, high = (low, middle) if float((over * np.sin(middle * at)).sum()) >= level else (middle, high)
    return high + 4 * blur


def _log_characteristic(noise: Noise, at: Floats) -> Floats:
    """Of a discrete noise, by its law; it has the period 2 pi."""
    if isinstance(noise, DiscreteLaplace):
        rate = as_float(1 / noise.scale)
        # (1 - p)^2 / (1 - 2 p cos u + p^2) with p = e^-rate
        return np.asarray(-np.log1p((np.sin(at / 2) / math.sinh(min(rate, 700) / 2)) ** 2))
    return _log_gaussian(noise, at)


def _log_gaussian(noise: DiscreteGaussian, at: Floats) -> Floats:
    wrapped = at - 2 * math.pi * np.rint(at / (2 * math.pi))
    if noise.variance > 4:  # the other terms of the theta function are below e^-78
        return np.asarray(-0.5 * as_float(noise.sigma2) * wrapped**2)
    k = np.arange(1, 40)
    values = float(noise.pmf(0)) + 2 * (noise.pmf(k)[:, None] * np.cos(k[:, None] * wrapped)).sum(axis=0)
    return np.asarray(np.log(np.maximum(values, 1e-300)))


# Kinds of nodes: what is asked of a node and of all above it.


@dataclass(frozen=True)
class Kinds:
    """Of one level of a column: for each kind how many leaves are asked for, in the nodes from the root down to it."""

    asked: Floats  # [kind, level from 0 to this one]
    times: Floats

    def averaged(self, tree: Tree) -> Floats:
        """What a node of each kind holds of the question averaged over the nodes of each level: [kind, level]."""
        here = self.asked.shape[1] - 1
        shares = [tree.under(here) / tree.under(above) for above in range(here + 1)]
        return np.concatenate(
            [self.asked * shares, np.repeat(self.asked[:, -1:], tree.depth - here, axis=1)], axis=1
        )


def kinds_of(tree: Tree, choice: Bools | Floats) -> list[Kinds]:
    """Those of every level of a column, for a choice of its leaves, or weights from 0 to 1."""
    counts = [choice.astype(float)]
    for arity in reversed(tree.arities):
        counts.insert(0, counts[0].reshape(-1, arity).sum(axis=1))
    open_, path = np.zeros(1, np.int64), counts[0][:, None]  # nodes of which a part is asked for
    even, times = np.zeros((0, 1)), np.zeros(0)  # kinds of those of which all or nothing is
    found = [Kinds(path, np.ones(1))]
    if counts[0][0] in (0, tree.leaves):
        open_, path, even, times = open_[:0], path[:0], path, np.ones(1)
    for level, arity in enumerate(tree.arities, 1):
        even = np.concatenate([even, even[:, -1:] / arity], axis=1)
        times = times * arity
        nodes = (open_[:, None] * arity + np.arange(arity)).reshape(-1)
        path = np.concatenate([np.repeat(path, arity, axis=0), counts[level][nodes][:, None]], axis=1)
        closed = (path[:, -1] == 0) | (path[:, -1] == tree.under(level))
        even, times = _distinct(
            np.concatenate([even, path[closed]]), np.concatenate([times, np.ones(int(closed.sum()))])
        )
        open_, path = nodes[~closed], path[~closed]
        rows, number = _distinct(path, np.ones(open_.size))
        found.append(Kinds(np.concatenate([even, rows]), np.concatenate([times, number])))
    return found


def _distinct(rows: Floats, times: Floats) -> tuple[Floats, Floats]:
    known, place = np.unique(rows, axis=0, return_inverse=True)
    return known, np.bincount(place.reshape(-1), times, len(known)).astype(float)


def error_of(
    lattice: Lattice,
    levels: Sequence[Level],
    noises: Sequence[Noise],
    mu: Floats,
    choices: Iterable[Bools | Floats],
) -> Error:
    """The error of the least-squares answer to a choice of leaves in each column."""
    kinds = [kinds_of(tree, choice) for tree, choice in zip(lattice.trees, choices, strict=True)]
    c = coefficients(mu)
    found = Error()
    for level, noise in zip(levels, noises, strict=True):
        own = [each[at] for each, at in zip(kinds, level, strict=True)]
        if math.prod(len(each.times) for each in own) > _MOST:
            return Error(rest=_variance(lattice, mu, kinds))
        weights, times = c, np.ones(())
        for tree, each in zip(lattice.trees, own, strict=True):
            # the first axis is summed over, and the kinds of this column become the last
            weights = np.tensordot(weights, each.averaged(tree), axes=(0, 1))
            times = np.multiply.outer(times, each.times)
        found += Error.of(precision(noise) * weights.reshape(-1), times.reshape(-1), noise)
    return found


def _variance(lattice: Lattice, mu: Floats, kinds: Sequence[Sequence[Kinds]]) -> float:
    """From what each level sees of the question."""
    profiles = []
    for tree, each in zip(lattice.trees, kinds, strict=True):
        squares = [float((k.asked[:, -1] ** 2 * k.times).sum()) / tree.under(at) for at, k in enumerate(each)]
        profiles.append(np.maximum(np.diff(squares, prepend=0.0), 0.0))
    total = 0.0
    for level in product(*(range(len(profile)) for profile in profiles)):
        total += math.prod(profile[at] for profile, at in zip(profiles, level, strict=True)) / float(
            mu[level]
        )
    return total


def ends_of(noise: Noise, level: float) -> tuple[int, int]:
    """How far below and above a count with one noise an interval goes: as little as the level allows.

    Whole numbers: below the two-sided reach, above one less where that still misses no more than it may.
    """
    below = above = noise.interval(level)[1]
    missed = float(noise.cdf(-below - 1))
    while above > 0 and missed + float(noise.cdf(-above)) <= 1 - level:
        above -= 1
    return below, above


def counted(times: int, noise: Noise) -> Error:
    """The error of a sum of so many noisy counts."""
    return Error(((1.0, float(times), noise),)) if times else Error()
