"""Clusters by Lloyd's steps with noise: for many columns, where a grid has too many cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Forecast, Pair, Part, Plan, part, register
from oboro.statistics.clustering import nearest, starting_centres
from oboro.statistics.points import REACH, centres_table, check_columns, points
from oboro.statistics.scope import Scope


@register
@dataclass(frozen=True)
class LloydPlan(Plan):
    """k centres of the rows, by a few rounds of k-means with noisy counts and noisy sums.

    Privacy
        Rows are points of whole numbers from -R to R. Given the centres, which are public from round to round, each
        row adds 1 to one count and at most R in each of d coordinates to one sum. Adding or removing a unit of m rows
        moves the counts by m in all and the sums by m d R (L1); replacing it moves both by twice that. Discrete
        Laplace noise of scale D/eps' on each costs eps' [Ghosh, Roughgarden, Sundararajan 2009], and `rounds` times
        (counts + sums) add up to eps, adaptively. The slides charge eps/2 for each part once; it is due in every round.
        Centres are divided, clamped and rounded from noisy numbers only; a noisy count that is not positive, or no
        larger than its noise, leaves a centre where it was. [Blum, Dwork, McSherry, Nissim 2005; Su et al. 2016]
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

    @property
    def unit(self) -> Unit:
        return self.scope.unit

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

    def prepare(self, data: Any) -> Integers:
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

    def publish(self, measured: Integers) -> Any:
        centres = starting_centres(self.k, len(self.columns))
        for noisy in measured:
            centres = self._moved_centres(centres, noisy)
        return centres_table(self.columns, centres)

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"{self.k} clusters of {', '.join(column.name for column in self.columns)}",
            "noise": {
                "law": "discrete Laplace",
                "counts": show(self.count_noise.scale),
                "sums": show(self.sum_noise.scale),
            },
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """One unit at one corner of the box, or at the other, or away."""
        yield from self.scope.pairs(self.columns)


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
