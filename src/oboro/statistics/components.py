"""Principal components: the second moments of the rows with noise; what follows is linear algebra in public."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column
from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, positive, remembered, show, usable, whole
from oboro.noise.bits import Bits
from oboro.privacy import ZCDP, Approx, Guarantee, Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, part, register
from oboro.statistics.balls import Ball, InBall, streamed
from oboro.statistics.points import check_columns, one_unit
from oboro.statistics.scope import Scope, ScopedPlan

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball as Enclosure

# How much Gaussian noise (eps, delta) takes, exactly: the analytic Gaussian mechanism.


@remembered(256)
def analytic_sigma(eps: Fraction, delta: Fraction) -> Fraction:
    """A standard deviation, for sensitivity 1, that is enough beyond doubt, and within 1e-6 of the least.

    Enough if Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s) <= delta [Balle, Wang 2018], which falls as s grows.
    A float search suggests s; ball arithmetic decides.
    """
    from oboro.noise.lazy import precision

    guess = _search(usable("eps", eps), usable("delta", delta, (-250, 0)))
    for extra in (2e-7, 1e-6, 1e-5, 1e-3, 0.1, 1.0):
        sigma = Fraction(guess * (1 + extra)).limit_denominator(10**8)
        with precision(256):
            if spent(sigma, eps) <= _ball(delta):
                return sigma
    raise GuaranteeError(
        "no Gaussian noise was found for this guarantee", given=told(eps=f"{eps}", delta=f"{delta}")
    )


def spent(sigma: Fraction, eps: Fraction) -> Enclosure:
    """The delta that Gaussian noise costs at eps, enclosed."""
    root, half = _ball(Fraction(2)).sqrt(), _ball(1 / (2 * sigma))
    first = ((_ball(eps * sigma) - half) / root).erfc() / 2
    second = ((_ball(eps * sigma) + half) / root).erfc() / 2
    return first - _ball(eps).exp() * second


def _search(eps: float, delta: float) -> float:
    from scipy.special import log_ndtr

    def cost(sigma: float) -> float:
        first = log_ndtr(1 / (2 * sigma) - eps * sigma)
        second = eps + log_ndtr(-1 / (2 * sigma) - eps * sigma)
        return float(math.exp(first) * -math.expm1(min(0.0, second - first)))

    low, high = 1e-6, 1.0
    while cost(high) > delta and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > delta else (low, middle)
    return high


def _ball(number: Fraction) -> Enclosure:
    from oboro.noise.lazy import ball

    return ball(number)


RADIUS = 2**14  # of the ball of whole numbers that rows are put into


@dataclass(frozen=True, slots=True)
class RoundedGaussian:
    """Gaussian noise on a symmetric matrix, rounded to whole numbers: of half the variance off the diagonal."""

    variance: Fraction

    def to_dict(self) -> dict[str, str]:
        return {"law": "Gaussian, rounded", "variance": show(self.variance), "off the diagonal": "half of it"}


@register
@dataclass(frozen=True)
class ComponentsPlan(ScopedPlan):
    """The directions in which the rows reach furthest: eigenvectors of their noisy second moments.

    Privacy
        A row is a vector of whole numbers about a public origin, made no longer than `radius` in whole numbers (balls.py), and
        put on a coarser grid, towards 0: x with |x| <= R in the `norm`-norm. A unit of m rows adds a matrix M = sum x x'.
          Gaussian, norm 2: |M|_F <= m R^2; replaced, |M - M'|_F <= sqrt(2) m R^2, as tr(M M') >= 0. Noise of variance
          v on the diagonal and v/2 above it weighs the change by its Frobenius norm D: (eps, delta) for the least
          v/D^2 of the analytic Gaussian mechanism [Balle, Wang 2018], and D^2/(2v)-zCDP. Certified rounding to
          whole numbers is post-processing.
          Laplace: the upper triangle of x x' has L1 norm (|x|_1^2 + |x|_2^2)/2, at most R^2 (d+1)/2 for norm 2 and R^2
          for norm 1. D is m times that. Replaced, with d = 1 not more: two squares; else twice for norm 1, and for norm 2
          sqrt(d (d+3)/2) R^2: an entry off the diagonal counts half of its two, so by Cauchy and Schwarz the triangle has
          sqrt(d + d (d-1)/4) |M - M'|_F. Discrete Laplace noise of scale D/eps is eps-DP [Ghosh, Roughgarden,
          Sundararajan 2009]. (The slides' Lap(4 gamma^2) has no eps in it, and noises both triangles.)
        The matrix is mirrored and its eigenvectors are taken afterwards. [Dwork et al. 2014]

    >>> plan = people.plan.components(["age", "income"], 1, radius=5_000, eps=1, delta="1e-6")
    >>> plan.guarantee.covers(plan.cost)
    True
    """

    columns: tuple[Column, ...]
    k: int
    radius: Fraction
    origin: tuple[Fraction, ...]
    norm: Literal[1, 2]
    scope: inline[Scope]
    guarantee: Pure | Approx | ZCDP
    kind = "statistics.components"

    def check(self) -> None:
        self.scope.check_whole("components have")
        check_columns(self.columns)
        whole("k", self.k, least=1, most=self.d)
        positive("radius", self.radius)
        if len(self.origin) != self.d:
            raise ParameterError(
                "the origin has a number for each column",
                given=f"{len(self.origin)} numbers",
                needed=f"{self.d} numbers",
            )
        if self.norm == 1 and not isinstance(self.guarantee, Pure):
            raise GuaranteeError(
                "the slides' way has a pure guarantee",
                given=str(self.guarantee),
                fix=setting(delta=None) if isinstance(self.guarantee, Approx) else setting(eps="1"),
            )
        spends = self.guarantee.rho if isinstance(self.guarantee, ZCDP) else self.guarantee.eps
        if spends == 0:
            raise GuaranteeError("nothing is to be spent", given=str(self.guarantee), fix=setting(eps="1"))
        if isinstance(self.guarantee, Approx) and self.guarantee.delta == 0:
            raise GuaranteeError(
                "Gaussian noise needs a delta above 0", given=str(self.guarantee), fix=setting(delta="1e-6")
            )
        self.frame.check()
        self.forecast()  # refuses what cannot be drawn

    @property
    def d(self) -> int:
        return len(self.columns)

    @property
    def _moved(self) -> Fraction:
        """How far one unit moves the matrix: the square of the Frobenius norm."""
        return Fraction(self.scope.rows * RADIUS**2) ** 2 * (2 if self.scope.replaced else 1)

    @cached_property
    def _sigma(self) -> Fraction:
        """The standard deviation for a sensitivity of 1, under (eps, delta)."""
        assert isinstance(self.guarantee, Approx)
        return analytic_sigma(self.guarantee.eps, self.guarantee.delta)

    @cached_property
    def variance(self) -> Fraction:
        """Of Gaussian noise on the diagonal, in whole-number units squared."""
        if isinstance(self.guarantee, ZCDP):
            usable("rho", self.guarantee.rho)
            return self._moved / (2 * self.guarantee.rho)
        return self._moved * self._sigma**2

    @cached_property
    def laplace_scale(self) -> Fraction:
        """Of Laplace noise on the upper triangle."""
        from oboro.noise import DiscreteLaplace

        assert isinstance(self.guarantee, Pure)
        return DiscreteLaplace(
            self._triangle_moved / self.guarantee.eps
        ).scale  # refuses what cannot be drawn

    @property
    def _triangle_moved(self) -> Fraction:
        """How far one unit moves the upper triangle, in the 1-norm."""
        d, square = self.d, RADIUS**2 * self.scope.rows
        if not self.scope.replaced:
            return Fraction(square if self.norm == 1 else math.ceil(Fraction(square * (d + 1), 2)))
        if d == 1:
            return Fraction(square)
        return Fraction(2 * square if self.norm == 1 else math.isqrt(square**2 * d * (d + 3) // 2) + 1)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        from oboro.noise import DiscreteLaplace
        from oboro.privacy.guarantee import round_up

        if isinstance(self.guarantee, Pure):
            law = DiscreteLaplace(self.laplace_scale)
            return (part(law, "upper triangle of the second moments", moves=self._triangle_moved),)
        if isinstance(self.guarantee, ZCDP):
            costs: Guarantee = ZCDP(self._moved / (2 * self.variance))
        else:  # delta at this eps, by the analytic Gaussian mechanism
            eps, sigma = self.guarantee.eps, self._sigma
            costs = Approx(eps, min(Fraction(1), round_up(lambda: spent(sigma, eps))))
        return (Part(RoundedGaussian(self.variance), "second moments", self._moved, costs),)

    def added(self) -> Additive | None:
        """Laplace noise on the upper triangle, which is mirrored afterwards."""
        from oboro.noise import DiscreteLaplace

        if not isinstance(self.guarantee, Pure):
            return None
        above, law = np.triu_indices(self.d), DiscreteLaplace(self.laplace_scale)

        def draw(prepared: Integers, bits: Bits, trials: int) -> Integers:
            noise = np.zeros((trials, *prepared.shape), np.int64)
            noise[:, above[0], above[1]] = law.sample((trials, len(above[0])), bits)
            noise[:, above[1], above[0]] = noise[:, above[0], above[1]]
            return noise

        return Additive(lambda prepared: [law] * len(above[0]), lambda prepared: prepared[above], draw)

    def forecast(self) -> Forecast:
        """The largest eigenvalue of the noise is about sqrt(d) times twice the standard error off the diagonal."""
        if isinstance(self.guarantee, Pure):
            sd = float(self.laplace_scale) * math.sqrt(2) / RADIUS**2
        else:
            sd = math.sqrt(self.variance / 2) / RADIUS**2
        noise = 2 * math.sqrt(self.d) * sd
        size = self.scope.size
        row = ("second moment", sd, noise, "?" if size is None else noise / max(1, size))
        columns = (
            "of each",
            "standard error, in radius²",
            "largest eigenvalue of the noise",
            "of all that there can be",
        )
        drowns = size is not None and noise / max(1, size) > 1 / self.k
        notes = [
            "a component with a smaller share of the rows' squared length than that is lost in the noise"
        ]
        return Forecast(
            "expected error of the second moments",
            columns,
            (row,),
            tuple(notes + ["the noise will drown the answer"] * drowns),
        )

    @property
    def frame(self) -> InBall:
        """How rows become vectors of whole numbers."""
        return InBall(self.columns, Ball(f"l{self.norm}", self.radius, self.origin))

    def prepare(self, data: Data) -> Integers:
        total, frame = np.zeros((self.d, self.d), np.int64), self.frame
        for _, codes in streamed(self.scope, self.columns, data):
            total += second_moments(in_ball(frame, codes))
        return total

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        """The upper triangle with noise, mirrored."""
        above = np.triu_indices(self.d)
        flat = prepared[above]
        shape = flat.shape if trials is None else (trials, *flat.shape)
        noisy = self._with_noise(np.broadcast_to(flat, shape), above[0] == above[1], bits)
        matrix = np.zeros((*shape[:-1], self.d, self.d), np.int64)
        matrix[..., above[0], above[1]] = noisy
        matrix[..., above[1], above[0]] = noisy
        return matrix

    def _with_noise(self, flat: Integers, diagonal: npt.NDArray[np.bool_], bits: Bits) -> Integers:
        from oboro.noise import DiscreteLaplace, Normal, sample_rounded
        from oboro.noise.lazy import ball

        if isinstance(self.guarantee, Pure):
            return flat + DiscreteLaplace(self.laplace_scale).sample(flat.shape, bits)
        noisy = flat.copy()
        for which, variance in ((diagonal, self.variance), (~diagonal, self.variance / 2)):

            def scale(square: Fraction = variance) -> Enclosure:
                return ball(square).sqrt()

            if which.any():
                centre = np.ascontiguousarray(flat[..., which])
                noisy[..., which] = sample_rounded(
                    Normal(), centre.shape, scale=scale, step=1, centre=centre, bits=bits
                )
        return noisy

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        size, vectors = np.linalg.eigh(measured.astype(float) / RADIUS**2 * float(self.radius) ** 2)
        order = np.argsort(-size, kind="stable")[: self.k]
        loadings = vectors[:, order].T
        top = np.abs(loadings).argmax(axis=1)
        loadings = loadings * np.sign(loadings[np.arange(self.k), top])[:, None]
        table: dict[str, object] = {"component": np.arange(1, self.k + 1), "squared length": size[order]}
        return pa.table(table | {column.name: loadings[:, i] for i, column in enumerate(self.columns)})

    def describe(self) -> dict[str, object]:
        if isinstance(self.guarantee, Pure):
            noise = {"law": "discrete Laplace", "scale": show(self.laplace_scale)}
        else:
            noise = RoundedGaussian(self.variance).to_dict()
        return self.wording(
            f"{self.k} components of {', '.join(column.name for column in self.columns)}",
            {**noise, "radius": f"{RADIUS} for {show(self.radius)}"},
        )

    def neighbours(self) -> Iterator[Pair]:
        """A unit as long as can be, along the first column, against the last, or nobody."""
        if self.scope.nobody:
            return
        rest = [column.code(at) or 0 for column, at in zip(self.columns, self.origin, strict=True)]
        ends = [
            column.code(at + self.radius) or 0 for column, at in zip(self.columns, self.origin, strict=True)
        ]
        first, last = [ends[0], *rest[1:]], [*rest[:-1], ends[-1]]
        one = one_unit(self.scope, self.columns, first, rest)
        if self.scope.replaced:
            other = one_unit(self.scope, self.columns, last, rest)
            yield Pair(one, other, "one unit turns from the first axis to the last")
        else:
            nobody = one_unit(self.scope, self.columns, None, rest)
            yield Pair(one, nobody, "one unit or nobody")
            yield Pair(
                one_unit(self.scope, self.columns, ends, rest), nobody, "one unit in a corner, or nobody"
            )


def components_plan(
    scope: Scope,
    columns: Sequence[Column],
    k: int,
    *,
    radius: Number,
    guarantee: Guarantee,
    origin: Sequence[Number] | None = None,
    method: str | None = None,
) -> ComponentsPlan:
    """A plan for k principal components about a public origin, 0 where none is given.

    Rows further than `radius` from the origin are moved to that distance. Gaussian noise for (eps, delta) or rho, Laplace
    noise for eps alone. `method="slides"` is the slides' way, corrected: lengths in the 1-norm, Laplace noise.

    >>> from oboro.statistics.scope import Scope
    >>> scope = Scope(unit, n=1_000)
    >>> plan = ob.statistics.components_plan(scope, domain.columns, 1, radius=5_000, guarantee=ob.ZCDP("0.1"))
    >>> plan == people.plan.components(["age", "income"], 1, radius=5_000, rho="0.1")
    True
    """
    if method not in (None, "slides") or not isinstance(guarantee, Pure | Approx | ZCDP):
        raise ParameterError("method is unknown", given=told(method=repr(method)), needed='"slides", or none')
    at = tuple(Fraction(0) for _ in columns) if origin is None else tuple(Fraction(x) for x in origin)
    return ComponentsPlan(
        tuple(columns),
        whole("k", k, least=1),
        positive("radius", radius),
        at,
        1 if method == "slides" else 2,
        scope,
        guarantee,
    )


def in_ball(frame: InBall, codes: Integers) -> Integers:
    """Rows as whole numbers of length at most RADIUS; longer rows are shortened. No float decides."""
    rows = frame.vectors(codes)  # no longer than frame.radius, which has 21 bits
    return np.asarray(np.sign(rows) * (np.abs(rows) * RADIUS // frame.radius), np.int64)


def second_moments(rows: Integers) -> Integers:
    """Sum of x x', exactly: products of at most 2^28, of at most 2^20 rows, add up to less than 2^53 in doubles.

    Sums of more rows are taken modulo 2^64, and so is what is noisy: then that is post-processing.
    """
    part = rows.astype(np.float64)
    return (part.T @ part).astype(np.int64)
