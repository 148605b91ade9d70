"""Laplace noise with a log-normal scale: tails heavy enough for a smooth sensitivity, light enough for zCDP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from oboro.errors import ParameterError
from oboro.exact import positive
from oboro.noise import floatball as fb
from oboro.noise.bits import Words
from oboro.noise.compiling import compiled
from oboro.noise.laws import Floats, Laplace, Normal
from oboro.noise.lazy import Ball, ball, precision


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
        with precision(128):
            sigma = fb.float_ball(ball(self._sigma))
        mid, rad = Laplace().enclose(words[:1])
        _scale(*Normal().enclose(words[1:]), *sigma, mid, rad)
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


@compiled
def _scale(normal: Any, normal_rad: Any, sigma: float, sigma_rad: float, mid: Any, rad: Any) -> None:
    """mid times e^(sigma normal), as float balls."""
    for i in range(mid.size):
        x, x_rad = fb.mul_ball(normal[i], normal_rad[i], sigma, sigma_rad)
        x, x_rad = fb.exp_ball(x, x_rad)
        mid[i], rad[i] = fb.mul_ball(mid[i], rad[i], x, x_rad)
