"""Continuous laws, each a function of uniform reals: the ideal noise that certified rounding draws from.

A law is written twice. `ball` evaluates it in ball arithmetic of any precision: this is the definition.
`enclose` evaluates the same function in compiled float balls, for uniforms known by their first 64 bits:
it is fast, and gives up (an infinite radius) near a singularity. Both enclose the same real number, so it
never matters which of them decides.

`cdf` and `quantile` are floats for forecasts. They never touch a draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from oboro.arrays import Floats, Words
from oboro.errors import ParameterError, setting, told
from oboro.exact import positive, show
from oboro.noise.lazy import Ball, ball


@runtime_checkable
class Law(Protocol):
    """A real random variable Z, as a function of `uniforms` independent uniform reals on [0, 1)."""

    @property
    def uniforms(self) -> int: ...

    def ball(self, *u: Ball) -> Ball:
        """Encloses Z for all uniforms in `u`. Not finite where Z has no bound there."""
        ...

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        """Float balls (mid, rad) of Z; row j of `words` holds the first 64 bits of uniform j."""
        ...

    def cdf(self, x: float) -> float:
        """P(Z <= x), about."""
        ...

    def quantile(self, p: float) -> float:
        """The x with P(Z <= x) = p, about."""
        ...


def interval(law: Law, level: float) -> tuple[float, float]:
    """Holds Z with probability `level`, and misses it as often on either side. For forecasts."""
    return law.quantile((1 - level) / 2), law.quantile((1 + level) / 2)


@dataclass(frozen=True, slots=True)
class Cauchy:
    """Density 1 / (pi (1 + z^2)). Z = -cot(pi U), its quantile function.

    >>> ob.noise.sample_rounded(ob.noise.Cauchy(), (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    uniforms: ClassVar[int] = 1
    kind = "Cauchy"

    def ball(self, *u: Ball) -> Ball:
        return -u[0].cot_pi()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        return _enclosures.run(_enclosures.cauchy, words)

    def cdf(self, x: float) -> float:
        return 0.5 + math.atan(x) / math.pi

    def quantile(self, p: float) -> float:
        return math.tan(math.pi * (p - 0.5))


@dataclass(frozen=True, slots=True)
class Laplace:
    """Density e^-|z| / 2. Z = log(2U) below the median, -log(2 - 2U) above: its quantile function.

    >>> ob.noise.sample_rounded(ob.noise.Laplace(), (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    uniforms: ClassVar[int] = 1
    kind = "Laplace"

    def ball(self, *u: Ball) -> Ball:
        if u[0] <= 0.5:
            return (2 * u[0]).log()
        if u[0] >= 0.5:
            return -(2 - 2 * u[0]).log()
        return (2 * u[0]).log().union(-(2 - 2 * u[0]).log())  # Z is the one or the other

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        return _enclosures.run(_enclosures.laplace, words)

    def cdf(self, x: float) -> float:
        return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2

    def quantile(self, p: float) -> float:
        return math.log(2 * p) if p < 0.5 else -math.log(2 - 2 * p)


@dataclass(frozen=True, slots=True)
class Normal:
    """Mean 0, variance 1. Z = sqrt(-2 log U) cos(2 pi V) [Box and Muller].

    >>> ob.noise.sample_rounded(ob.noise.Normal(), (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    uniforms: ClassVar[int] = 2

    def ball(self, *u: Ball) -> Ball:
        return (-2 * u[0].log()).sqrt() * (2 * u[1]).cos_pi()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        return _enclosures.run(_enclosures.normal, words)

    def cdf(self, x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    def quantile(self, p: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(p))


@dataclass(frozen=True, slots=True)
class StudentT:
    """Student's t with nu degrees of freedom. Z = sqrt(nu (U^(-2/nu) - 1)) cos(2 pi V) [Bailey 1994].

    Why: in the plane, t has the radius R with P(R > r) = (1 + r^2/nu)^(-nu/2), solved here for r,
    and no preferred direction; Z is one coordinate.

    >>> ob.noise.sample_rounded(ob.noise.StudentT(3), (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    nu: Fraction
    uniforms: ClassVar[int] = 2
    kind = "Student t"

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", positive("nu", self.nu))

    def ball(self, *u: Ball) -> Ball:
        square = ball(self.nu) * (ball(-2 / self.nu) * u[0].log()).expm1()
        return square.sqrt() * (2 * u[1]).cos_pi()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        return _enclosures.run(_enclosures.student, words, *_enclosures.float_balls(self.nu, -2 / self.nu))

    def cdf(self, x: float) -> float:
        from scipy.special import stdtr

        return float(stdtr(float(self.nu), x))

    def quantile(self, p: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(float(self.nu), p))


@dataclass(frozen=True, slots=True)
class PositiveStable:
    """The positive stable law of index alpha: E e^(-sZ) = e^(-s^alpha), for 0 < alpha < 1.

    Z = (A(U) / E)^((1-alpha)/alpha), E = -log V, where [Kanter 1975]
    A(U) = sin((1-alpha) pi U) sin(alpha pi U)^(alpha/(1-alpha)) / sin(pi U)^(1/(1-alpha)).

    >>> ob.noise.sample_rounded(ob.noise.PositiveStable("0.75"), (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    alpha: Fraction
    uniforms: ClassVar[int] = 2

    def __post_init__(self) -> None:
        alpha = positive("alpha", self.alpha)
        if alpha >= 1:
            raise ParameterError(
                "alpha must be below 1",
                given=told(alpha=show(alpha)),
                needed="0 < alpha < 1",
                fix=setting(alpha="0.5"),
            )
        object.__setattr__(self, "alpha", alpha)

    def ball(self, *u: Ball) -> Ball:
        alpha, rest = ball(self.alpha), ball(1 - self.alpha)
        power = (rest * u[0]).sin_pi() / -u[1].log()
        return (alpha * u[0]).sin_pi() * ((power.log() * rest - u[0].sin_pi().log()) / alpha).exp()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        return _enclosures.run(
            _enclosures.stable, words, *_enclosures.float_balls(self.alpha, 1 - self.alpha)
        )

    def cdf(self, x: float) -> float:
        """The mean over U of P(E >= A(U) x^(-alpha/(1-alpha))), by the double exponential rule."""
        if x <= 0:
            return 0.0
        alpha = float(self.alpha)
        t = np.linspace(-4.5, 4.5, 1001)
        u, rest = 1 / (1 + np.exp(-np.pi * np.sinh(t))), 1 / (1 + np.exp(np.pi * np.sinh(t)))
        log_a = (
            np.log(np.sin((1 - alpha) * np.pi * u)) * (1 - alpha)
            + np.log(np.sin(alpha * np.pi * u)) * alpha
            - np.log(np.sin(np.pi * np.minimum(u, rest)))
        ) / (1 - alpha)
        exponent = np.minimum(log_a - math.log(x) * alpha / (1 - alpha), 700.0)
        weight = np.pi * np.cosh(t) * u * rest * (t[1] - t[0])
        return float(np.dot(weight, np.exp(-np.exp(exponent))))

    def quantile(self, p: float) -> float:
        from scipy.optimize import brentq

        return math.exp(brentq(lambda log_x: self.cdf(math.exp(log_x)) - p, -700.0, 700.0))
