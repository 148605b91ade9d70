"""Laplace noise with a log-normal scale: tails heavy enough for a smooth sensitivity, light enough for zCDP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from oboro.arrays import Floats
from oboro.errors import ParameterError
from oboro.exact import positive
from oboro.noise.bits import Words
from oboro.noise.laws import Laplace, Normal
from oboro.noise.lazy import Ball, ball


@dataclass(frozen=True, slots=True)
class LaplaceLogNormal:
    """Z = L e^(sigma N), L Laplace and N normal, independent [Bun and Steinke 2019].

    Without `sigma`, the one that suits the guarantee is derived when a plan is made.
    """

    sigma: Fraction | None = None
    uniforms: ClassVar[int] = 3
    kind = "Laplace-log-normal"

    def __post_init__(self) -> None:
        if self.sigma is not None:
            object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    def ball(self, *u: Ball) -> Ball:
        return Laplace().ball(u[0]) * (ball(self._sigma) * Normal().ball(*u[1:])).exp()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        from oboro.noise import _enclosures  # loads the compiler

        mid, rad = Laplace().enclose(words[:1])
        normal, normal_rad = Normal().enclose(words[1:])
        sigma, sigma_rad = _enclosures.float_balls(self._sigma)
        _enclosures.scaled(normal, normal_rad, sigma, sigma_rad, mid, rad)
        return mid, rad

    def cdf(self, x: float) -> float:
        """The mean of the Laplace law's over N, by Gauss-Hermite."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        tail = np.exp(-abs(x) * np.exp(-float(self._sigma) * nodes)) @ weights / weights.sum() / 2
        return float(tail if x < 0 else 1 - tail)

    def quantile(self, p: float) -> float:
        from scipy.optimize import brentq

        if p < 0.5:
            return -self.quantile(1 - p)
        return float(brentq(lambda x: self.cdf(x) - p, 0.0, 1e6))

    @property
    def _sigma(self) -> Fraction:
        if self.sigma is None:
            raise ParameterError(
                "LaplaceLogNormal has no sigma yet",
                needed="a plan, which derives it from rho, or a number",
                fix='LaplaceLogNormal("0.5")',
            )
        return self.sigma
