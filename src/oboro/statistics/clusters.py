"""Clusters from a noisy grid: one histogram, then k-means on it as often as anyone likes. For few columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from oboro.arrays import Data, Floats, Integers, Table
from oboro.domain import Column
from oboro.errors import DomainError, ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import unknown
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Part, part, register, same_noise
from oboro.statistics.points import REACH, centres_table, check_columns, points
from oboro.statistics.scope import Scope, ScopedPlan

# k-means on points that are public already, and the whole-number steps of a private one.


def nearest(points: Integers, centres: Integers) -> Integers:
    """The index of the nearest centre, in whole numbers; of equally near ones the first."""
    square = (centres * centres).sum(axis=1)
    return np.asarray(np.argmin(square - 2 * (points @ centres.T), axis=1), np.int64)


@lru_cache(maxsize=64)
def starting_centres(k: int, dimension: int) -> Integers:
    """k centres far from one another and from the walls, the same for all data: greedily, from fixed candidates."""
    rng = np.random.default_rng(dimension * 1000 + k)  # public: it decides nothing about anyone
    candidates = rng.uniform(-0.6, 0.6, (max(200, 20 * k), dimension))
    chosen = [0]
    away = np.linalg.norm(candidates - candidates[0], axis=1)
    for _ in range(k - 1):
        chosen.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(candidates - candidates[chosen[-1]], axis=1))
    centres = np.rint(candidates[chosen] * REACH).astype(np.int64)
    centres.setflags(write=False)
    return centres


def weighted_kmeans(points: Floats, weights: Floats, k: int, starts: int = 6) -> Floats:
    """k-means++ and Lloyd's steps, the best of some starts with fixed seeds. For public points."""
    best, best_cost = points[:k], np.inf
    for seed in range(starts):
        rng = np.random.default_rng(seed)
        centres = _seeds(points, weights, k, rng)
        cost = np.inf
        for _ in range(100):
            distance = _distances(points, centres)
            label = distance.argmin(axis=1)
            before, cost = cost, float(weights @ distance[np.arange(len(points)), label])
            if before - cost <= 1e-9 * abs(cost):
                break
            total = np.bincount(label, weights, minlength=k)
            for axis in range(points.shape[1]):
                sums = np.bincount(label, weights * points[:, axis], minlength=k)
                centres[:, axis] = np.where(total > 0, sums / np.maximum(total, 1e-12), centres[:, axis])
        if cost < best_cost:
            best, best_cost = centres, cost
    return best


def _seeds(points: Floats, weights: Floats, k: int, rng: np.random.Generator) -> Floats:
    centres = points[[rng.choice(len(points), p=weights / weights.sum())]]
    for _ in range(k - 1):
        mass = weights * _distances(points, centres).min(axis=1)
        chance = mass / mass.sum() if mass.sum() > 0 else weights / weights.sum()
        centres = np.concatenate([centres, points[[rng.choice(len(points), p=chance)]]])
    return centres


def _distances(points: Floats, centres: Floats) -> Floats:
    square = (points * points).sum(axis=1)[:, None] + (centres * centres).sum(axis=1)
    return np.asarray(np.maximum(square - 2 * points @ centres.T, 0))


# Clusters by Lloyd's steps with noise: for many columns, where a grid has too many cells.


@register
@dataclass(frozen=True)
class LloydPlan(ScopedPlan):
    """k centres of the rows, by a few rounds of k-means with noisy counts and noisy sums.

    Privacy
        Rows are points of whole numbers from -R to R. Given the centres, which are public from round to round, each
        row adds 1 to one count and at most R in each of d coordinates to one sum. Adding or removing a unit of m rows
        moves the counts by m in all and the sums by m d R (L1); replacing it moves both by twice that. Discrete
        Laplace noise of scale D/eps' on each costs eps' [Ghosh, Roughgarden, Sundararajan 2009], and `rounds` times
        (counts + sums) add up to eps, adaptively. The slides charge eps/2 for each part once; it is due in every round.
        Centres are divided, clamped and rounded from noisy numbers only; a noisy count that is not positive, or no
        larger than its noise, leaves a centre where it was. [Blum, Dwork, McSherry, Nissim 2005; Su et al. 2016]

    >>> plan = people.plan.kmeans(["age", "income"], 2, eps=1, method="lloyd")
    >>> plan.rounds, plan.cost
    (3, Pure(1))
    """

    columns: tuple[Column, ...]
    k: int
    rounds: int
    share: Fraction  # of each round's eps that the sums get; the counts get the rest
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.lloyd_clusters"

    def check(self) -> None:
        self.scope.check_whole("clusters have")
        check_columns(self.columns)
        whole("k", self.k, least=1, most=10_000)
        whole("rounds", self.rounds, least=1, most=1000)
        if not 0 < self.share < 1:
            raise ParameterError(
                "share must lie between 0 and 1", given=told(share=show(self.share)), fix=setting(share="1/2")
            )

    @cached_property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self._moved(1) / ((1 - self.share) * self.guarantee.eps / self.rounds))

    @cached_property
    def sum_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(
            self._moved(REACH * len(self.columns)) / (self.share * self.guarantee.eps / self.rounds)
        )

    def _moved(self, by_a_row: int) -> Fraction:
        return Fraction(self.scope.rows * by_a_row * (2 if self.scope.replaced else 1))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        moved, spread = self._moved(1), self._moved(REACH * len(self.columns))
        return (
            part(self.count_noise, "rows of each cluster, in each round", moves=moved, times=self.rounds),
            part(self.sum_noise, "sums of each cluster, in each round", moves=spread, times=self.rounds),
        )

    @property
    def slowness(self) -> int:
        return 40

    def forecast(self) -> Forecast:
        columns = ("with rows in a cluster", "standard error of a centre, in each column of width 2")
        sizes = [self.scope.size // self.k] if self.scope.size else [100, 1000, 10_000]
        errors = [self.sum_noise.sd / REACH / max(1, size) for size in sizes]
        notes: tuple[str, ...] = ()
        if self.scope.size and errors[0] > 0.3:
            notes = ("the noise will drown the answer: more eps, fewer columns or fewer clusters",)
        rows = tuple((f"{size:,}", error) for size, error in zip(sizes, errors, strict=True))
        return Forecast("expected error of each centre", columns, rows, notes)

    def prepare(self, data: Data) -> Integers:
        return points(self.scope, self.columns, data)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        """The noisy sums and count of each cluster in each round: all that the centres are made of."""
        d = len(self.columns)
        shape = (trials or 1, self.rounds, self.k)
        noise = np.concatenate(  # drawn together, as no noise depends on any answer
            [self.sum_noise.sample((*shape, d), bits), self.count_noise.sample((*shape, 1), bits)], axis=3
        )
        for run in noise:
            self._rounds(prepared, run)
        return noise[0] if trials is None else noise

    def _rounds(self, rows: Integers, noisy: Integers) -> None:
        """Adds what is true to the noise, round by round."""
        d = len(self.columns)
        centres = starting_centres(self.k, d)
        for found in noisy:
            label = nearest(rows, centres)
            for axis in range(d):
                np.add.at(found[:, axis], label, rows[:, axis])
            found[:, d] += np.bincount(label, minlength=self.k)
            centres = self._moved_centres(centres, found)

    def _moved_centres(self, centres: Integers, noisy: Integers) -> Integers:
        """noisy sum / noisy count, to the nearest point of the box."""
        count = noisy[:, -1:]
        known = count > float(self.count_noise.scale)
        divided = (2 * noisy[:, :-1] + count) // np.maximum(2 * count, 1)
        return np.where(known, np.clip(divided, -REACH, REACH), centres)

    def publish(self, measured: Integers) -> Table:
        centres = starting_centres(self.k, len(self.columns))
        for noisy in measured:
            centres = self._moved_centres(centres, noisy)
        return centres_table(self.columns, centres)

    def describe(self) -> dict[str, object]:
        return self.wording(
            f"{self.k} clusters of {', '.join(column.name for column in self.columns)}",
            {
                "law": "discrete Laplace",
                "counts": show(self.count_noise.scale),
                "sums": show(self.sum_noise.scale),
            },
        )


def lloyd_plan(
    scope: Scope,
    columns: Sequence[Column],
    k: int,
    *,
    eps: Number,
    slides: bool = False,
    rounds: int | None = None,
    share: Number | None = None,
) -> LloydPlan:
    """Clusters by Lloyd's steps: three rounds with a good split of eps; as the slides have it, five with halves."""
    d = len(check_columns(columns))
    # The error of a centre is (d^3/a^2 + 0.2 d/b^2), a and b the shares: least at a : b = d : (0.2 d)^(1/3).
    best = Fraction(d / (d + (0.2 * d) ** (1 / 3))).limit_denominator(100)
    return LloydPlan(
        tuple(columns),
        whole("k", k, least=1, most=10_000),
        whole("rounds", (5 if slides else 3) if rounds is None else rounds, least=1, most=1000),
        (Fraction(1, 2) if slides else best) if share is None else rational("share", share),
        scope,
        Pure(positive("eps", eps)),
    )


MOST_CELLS = 2**20
METHODS = ("grid", "lloyd", "slides")


@register
@dataclass(frozen=True)
class GridClustersPlan(ScopedPlan):
    """k centres of the rows, found by k-means on a noisy histogram of the columns' box.

    Privacy
        The box is cut into bins^d cells of a public grid. Adding or removing a unit changes the counts by at most
        `unit.max_rows` in all, replacing it by twice that: the L1 sensitivity D. Discrete Laplace noise of scale D/eps
        on each count, of empty cells too, is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]. What follows, k-means
        on the cells whose noisy count is well above the noise, looks at nothing else [Su et al. 2016].

    >>> plan = people.plan.kmeans(["age", "income"], 2, eps=1, method="grid")
    >>> plan.bins, plan.cost
    (14, Pure(1))
    """

    columns: tuple[Column, ...]
    k: int
    bins: int
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.grid_clusters"

    def check(self) -> None:
        self.scope.check_whole("clusters have")
        check_columns(self.columns)
        whole("bins", self.bins, least=2, most=MOST_CELLS)
        if self.bins ** len(self.columns) > MOST_CELLS:
            raise DomainError(
                "the grid has too many cells",
                given=f"{self.bins} bins in each of {len(self.columns)} columns",
                needed=f"at most {MOST_CELLS:,} cells",
                fix=setting(method="lloyd"),
            )
        whole("k", self.k, least=1, most=min(self.bins ** len(self.columns), 10_000))

    @property
    def sensitivity(self) -> int:
        return self.scope.rows * (2 if self.scope.replaced else 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.sensitivity) / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, "rows of each cell", moves=self.sensitivity),)

    def added(self) -> Additive:
        return same_noise(self.noise)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.bins,) * len(self.columns)

    def forecast(self) -> Forecast:
        reach = 4 * float(self.noise.scale)
        row = ("cell", self.noise.sd, reach, 2 / self.bins)
        columns = ("of each", "standard error", "counts below are taken for noise", "width, of a box of 2")
        size = self.scope.size
        notes = []
        if size is not None and size / self.k < 2 * reach:
            notes = [f"the noise will drown the answer: a cluster has about {size / self.k:.0f} rows"]
        return Forecast("expected error of each cell", columns, (row,), tuple(notes))

    def prepare(self, data: Data) -> Integers:
        place = (points(self.scope, self.columns, data) + REACH) * self.bins // (2 * REACH + 1)
        flat = np.ravel_multi_index(tuple(place.T), self.shape)
        return np.bincount(flat, minlength=self.bins ** len(self.columns)).astype(np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        shape = prepared.shape if trials is None else (trials, *prepared.shape)
        return prepared + self.noise.sample(shape, bits)

    def publish(self, measured: Integers) -> Table:
        centre = np.stack(np.unravel_index(np.arange(measured.size), self.shape), axis=1)
        at = (2 * centre + 1) / self.bins - 1
        clear = np.flatnonzero(measured > 4 * float(self.noise.scale))
        if clear.size < self.k:  # not enough stand out: the k largest
            clear = np.argsort(-measured, kind="stable")[: self.k]
        found = weighted_kmeans(at[clear], np.maximum(measured[clear], 1).astype(float), self.k)
        return centres_table(self.columns, found * REACH)

    def describe(self) -> dict[str, object]:
        return self.wording(
            f"{self.k} clusters of {', '.join(column.name for column in self.columns)}",
            {
                **self.noise.to_dict(),
                "sensitivity": str(self.sensitivity),
                "cells": str(self.bins ** len(self.columns)),
            },
        )


def clusters_plan(
    scope: Scope, columns: Sequence[Column], k: int, *, eps: Number, method: str | None = None
) -> GridClustersPlan | LloydPlan:
    """A plan for k cluster centres.

    "grid" is best for few columns, "lloyd" above; without a method, the number of columns, eps and the public or
    expected number of rows decide. "slides" is Lloyd's way as the slides have it, corrected: a share of eps for each
    round, halved between counts and sums.

    >>> from oboro.statistics.scope import Scope
    >>> plan = ob.statistics.clusters_plan(Scope(unit, n=1_000), domain.columns, 2, eps=1)
    >>> plan == people.plan.kmeans(["age", "income"], 2, eps=1)
    True
    """
    check_columns(columns)
    if method is None:
        scale = as_float(scope.rows * (2 if scope.replaced else 1) / positive("eps", eps))
        fit = _bins(scope.size or 1000, scale, len(columns))
        method = "grid" if fit >= 3 and fit ** len(columns) <= MOST_CELLS else "lloyd"
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "grid":
        return grid_clusters_plan(scope, columns, k, eps=eps)
    return lloyd_plan(scope, columns, k, eps=eps, slides=method == "slides")


def grid_clusters_plan(
    scope: Scope, columns: Sequence[Column], k: int, *, eps: Number, bins: int | None = None
) -> GridClustersPlan:
    """Clusters from a noisy grid. Without `bins`, as many in each column as the noise leaves room for."""
    scale = as_float(scope.rows * (2 if scope.replaced else 1) / positive("eps", eps))
    if bins is None:
        room = math.ceil(math.pow(whole("k", k, least=1, most=10_000), 1 / max(1, len(columns))))
        bins = max(room, _bins(scope.size or 1000, scale, len(columns)))
    chosen = whole("bins", bins, least=2, most=MOST_CELLS)
    return GridClustersPlan(tuple(columns), whole("k", k, least=1), chosen, scope, Pure(positive("eps", eps)))


def _bins(rows: int, scale: float, dimension: int) -> int:
    """Fine enough for the data, but not so fine that cells hold less than the noise (chosen on iris and on blobs)."""
    signal = max(1.0, rows / max(scale, 1e-9))
    fine, held = 3 * math.pow(signal, 1 / (dimension + 2)), math.pow(signal, 1 / dimension)
    return max(2, round(min(fine, held)))
