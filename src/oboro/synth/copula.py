"""A Gaussian copula: the shape of every column, and how they move together, as one matrix of noisy correlations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Pure
from oboro.release import Forecast, Part, part, register
from oboro.synth.conditions import Wanted
from oboro.synth.levels import Noise
from oboro.synth.measured import Binned, Measured
from oboro.synth.plan import MOST_CATEGORIES, ModelPlan, describe_plan, share_of
from oboro.synth.shape import Shape


@dataclass(frozen=True, slots=True)
class Segments:
    """Ranges of codes that may be drawn, how many records lie in each, and the block of the shape that each is in."""

    start: Integers
    stop: Integers
    mass: Floats
    block: Integers


def restricted(shape: Shape, wanted: Wanted | None) -> Segments:
    """The blocks of a shape, cut down to what is wanted; within a block all codes are alike."""
    if wanted is None:
        return Segments(shape.start, shape.stop, shape.mass, np.arange(shape.start.size))
    pieces = []
    for low, high in zip(wanted.start.tolist(), wanted.stop.tolist(), strict=True):
        first, last = int(shape.block_of(np.asarray(low))), int(shape.block_of(np.asarray(high - 1)))
        block = np.arange(first, last + 1)
        start, stop = np.maximum(shape.start[block], low), np.minimum(shape.stop[block], high)
        part = (stop - start) / (shape.stop[block] - shape.start[block])
        pieces.append((start, stop, shape.mass[block] * part, block))
    return Segments(*(np.concatenate([piece[i] for piece in pieces]) for i in range(4)))


STEPS = 1000  # a score goes from -1000 to 1000
WIDTH = 2.5  # standard deviations that this stands for
_MOST_TRIES = 400


@register
@dataclass(frozen=True)
class MomentsPlan(ModelPlan):
    """Noisy counts of every column, and noisy sums of the products of their normal scores.

    Privacy
        The columns: tables of counts under discrete Gaussian noise, as for the tree of pairs. A value's score is the normal quantile of its
        place among the noisy counts, a whole number within ±1000: it depends on what was given out, and on the value. So each of the
        d(d-1)/2 products of two scores lies within ±10^6, and one row moves the sums by at most B = 10^6 sqrt(d(d-1)/2) in the 2-norm;
        the at most m rows of a unit by m B, and by 2 m B under replace, where a product may change its sign. Discrete Gaussian noise of
        variance D^2/(2 rho) on whole numbers makes them rho-zCDP [Canonne, Kamath, Steinke 2020]. rho adds up [Bun and Steinke 2016].
        A promise of eps alone: the columns as for the tree of pairs; one row moves the sums by at most 10^6 d(d-1)/2 in the 1-norm, a unit by m times
        that (replace: 2m), and discrete Laplace noise of scale D/e makes them e-DP [Ghosh, Roughgarden, Sundararajan 2009]. The e of all steps add up to eps.

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5", method="moments")
    >>> [part.of for part in plan.parts]
    ['counts of age', 'counts of age', 'counts of sex', 'sums of products']
    """

    kind = "synth.moments"
    shares = (Fraction(1, 2), Fraction(1, 2))

    def check(self) -> None:
        super().check()
        if self.domain.rules.impossible or self.domain.rules.known:
            raise ParameterError(
                "moments cannot keep what is impossible, nor totals: it keeps columns and their correlations",
                given=told(method="moments"),
                needed="a method whose model can rule values out",
                fix=setting(method="marginals"),
            )

    @property
    def steps(self) -> int:
        """As many sums as there are pairs of columns."""
        return len(self.learned) * (len(self.learned) - 1) // 2

    @property
    def move(self) -> int:
        """How far one unit moves the sums of products, in the norm of their noise: squared for a Gaussian, summed for Laplace."""
        each = self.unit.contributions * STEPS**2 * (2 if self.unit.adjacency == "replace" else 1)
        return self.steps * (each if isinstance(self.price, Pure) else each**2)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each sum of products."""
        price, moved = share_of(self.price, self.shares[1]), Fraction(max(self.move, 1))
        if isinstance(price, Pure):
            return DiscreteLaplace(moved / price.eps)
        return DiscreteGaussian(moved / (2 * price.rho))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if not self.steps:
            return self.column_parts()
        return (*self.column_parts(), part(self.noise, "sums of products", moves=self.move))

    def forecast(self) -> Forecast:
        notes = ["a copula keeps each column and its correlations, not the finer shape of pairs"]
        if self.n is not None and self.steps:
            error = self.noise.sd * (WIDTH / STEPS) ** 2 / self.n
            notes.append(f"standard error of a correlation about {error:.3g}")
        return self.forecast_with([], notes)

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        levels = self.ones.measure(codes, bits)
        bins = self.ones.binned(levels, 1, MOST_CATEGORIES, 0.0)
        scores = np.stack(
            [score_steps(column.shape)[column.shape.block_of(codes[i])] for i, column in enumerate(bins)]
        )
        sums = [int(scores[i] @ scores[j]) for i in range(len(bins)) for j in range(i + 1, len(bins))]
        noisy = np.asarray(sums, np.int64)
        if sums:  # else that noise is no part of the plan, and nobody has looked whether it can be drawn
            noisy += self.noise.sample(len(sums), bits)
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), (), noisy)

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, a Gaussian copula", self.ones.noises[0][0])


def score_steps(shape: Shape) -> Integers:
    """The whole-number score of every block: the normal quantile of its middle. What is missing has none."""
    from scipy.special import ndtri

    mass = shape.mass / max(float(shape.mass.sum()), 1e-12)
    middle = np.cumsum(mass) - mass / 2
    scores = np.rint(np.clip(ndtri(np.clip(middle, 1e-9, 1 - 1e-9)) / WIDTH, -1, 1) * STEPS).astype(np.int64)
    return np.where(shape.start >= shape.values, 0, scores)


def correlations(measured: Measured, total: float) -> Floats:
    """The noisy sums as a matrix that is a correlation: no eigenvalue below 0.001, ones on its diagonal."""
    count = len(measured.bins)
    spread = []
    for column in measured.bins:
        mass = column.shape.mass / max(float(column.shape.mass.sum()), 1e-12)
        spread.append(max(float(mass @ score_steps(column.shape).astype(float) ** 2), 1.0))
    matrix = np.eye(count)
    above = np.triu_indices(count, 1)
    matrix[above] = measured.moments / (total * np.sqrt(np.outer(spread, spread))[above])
    matrix = np.clip(matrix + matrix.T - np.eye(count), -0.999, 0.999)
    np.fill_diagonal(matrix, 1.0)
    values, vectors = np.linalg.eigh(matrix)
    repaired = vectors @ np.diag(np.maximum(values, 1e-3)) @ vectors.T
    scale = np.sqrt(np.diag(repaired))
    return np.asarray(repaired / np.outer(scale, scale))


@dataclass(frozen=True, slots=True)
class CopulaSampler:
    """Normal draws with these correlations, each put through its own column's shape."""

    matrix: Floats
    bins: tuple[Binned, ...]

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]:
        """Conditions are met by drawing again; if they are too rare, it says so."""
        kept: list[list[Integers]] = []
        have = 0
        for _ in range(_MOST_TRIES):
            codes = self._codes(max(n, 1000), rng)
            good = np.ones(codes[0].size, bool)
            for i, want in wanted.items():
                at = np.searchsorted(want.start, codes[i], side="right") - 1
                good &= (at >= 0) & (codes[i] < want.stop[np.maximum(at, 0)])
            kept.append([column[good] for column in codes])
            have += int(np.count_nonzero(good))
            if have >= n:
                return [np.concatenate([part[i] for part in kept])[:n] for i in range(len(self.bins))]
        raise ParameterError(
            "records like this are too rare in the model",
            needed="conditions that a record meets more often than once in a few hundred",
            fix=setting(method="marginals") + ", whose model draws under conditions directly",
            argument="where",
        )

    def _codes(self, n: int, rng: np.random.Generator) -> list[Integers]:
        from scipy.special import ndtr

        places = ndtr(rng.standard_normal((n, len(self.bins))) @ np.linalg.cholesky(self.matrix).T)
        found = []
        for i, column in enumerate(self.bins):
            shape = column.shape
            mass = shape.mass
            if (
                not mass.any()
            ):  # few records among many values are rounded away: evenly then, but never a null
                mass = np.where(shape.start < shape.values, (shape.stop - shape.start).astype(float), 0.0)
            running = np.cumsum(mass) / max(float(mass.sum()), 1e-12)
            block = np.minimum(
                np.searchsorted(running, places[:, i], side="right"), np.flatnonzero(mass > 0)[-1]
            )
            width = shape.stop[block] - shape.start[block]
            found.append(shape.start[block] + np.minimum((rng.random(n) * width).astype(np.int64), width - 1))
        return found
