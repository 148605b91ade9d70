"""Clusters from a noisy grid: one histogram, then k-means on it as often as anyone likes. For few columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.errors import DomainError, setting
from oboro.exact import Number, positive, whole
from oboro.kinds import unknown
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, Plan, part, register, same_noise
from oboro.statistics.clustering import weighted_kmeans
from oboro.statistics.lloyd import LloydPlan, lloyd_plan
from oboro.statistics.points import REACH, centres_table, check_columns, points
from oboro.statistics.scope import Scope

MOST_CELLS = 2**20
METHODS = ("grid", "lloyd", "slides")


@register
@dataclass(frozen=True)
class GridClustersPlan(Plan):
    """k centres of the rows, found by k-means on a noisy histogram of the columns' box.

    Privacy
        The box is cut into bins^d cells of a public grid. Adding or removing a unit changes the counts by at most
        `unit.max_rows` in all, replacing it by twice that: the L1 sensitivity D. Discrete Laplace noise of scale D/eps
        on each count, of empty cells too, is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]. What follows, k-means
        on the cells whose noisy count is well above the noise, looks at nothing else [Su et al. 2016].
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
    def unit(self) -> Unit:
        return self.scope.unit

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

    def prepare(self, data: Any) -> Integers:
        place = (points(self.scope, self.columns, data) + REACH) * self.bins // (2 * REACH + 1)
        flat = np.ravel_multi_index(tuple(place.T), self.shape)
        return np.bincount(flat, minlength=self.bins ** len(self.columns)).astype(np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        shape = prepared.shape if trials is None else (trials, *prepared.shape)
        return prepared + self.noise.sample(shape, bits)

    def publish(self, measured: Integers) -> Any:
        centre = np.stack(np.unravel_index(np.arange(measured.size), self.shape), axis=1)
        at = (2 * centre + 1) / self.bins - 1
        clear = np.flatnonzero(measured > 4 * float(self.noise.scale))
        if clear.size < self.k:  # not enough stand out: the k largest
            clear = np.argsort(-measured, kind="stable")[: self.k]
        found = weighted_kmeans(at[clear], np.maximum(measured[clear], 1).astype(float), self.k)
        return centres_table(self.columns, found * REACH)

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"{self.k} clusters of {', '.join(column.name for column in self.columns)}",
            "noise": {
                **self.noise.to_dict(),
                "sensitivity": str(self.sensitivity),
                "cells": str(self.bins ** len(self.columns)),
            },
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """One unit at one corner of the box, or at the other, or away."""
        yield from self.scope.pairs(self.columns)


def clusters_plan(
    scope: Scope, columns: Sequence[Column], k: int, *, eps: Number, method: str | None = None
) -> GridClustersPlan | LloydPlan:
    """A plan for k cluster centres.

    "grid" is best for few columns, "lloyd" above; without a method, the number of columns, eps and the public or
    expected number of rows decide. "slides" is Lloyd's way as the slides have it, corrected: a share of eps for each
    round, halved between counts and sums.
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
