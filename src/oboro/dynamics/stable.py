"""Stable laws: the symmetric one as certified rounding draws it, and the paper's definitions for study.

`SymmetricStable` is a law of `noise.laws`, evaluated in balls; it is the noise of the releases.
`EllipticalStable` and `Stable` are floats, for studying what the paper says: characteristic functions, tails,
samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Words
from oboro.dynamics import mixing_variable
from oboro.dynamics.calibration import check_alpha
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, whole
from oboro.kinds import numbers_of
from oboro.noise import floatball as fb
from oboro.noise._enclosures import float_balls, folded, run
from oboro.noise.bits import Bits, system_bits
from oboro.noise.compiler import compiled
from oboro.noise.lazy import Ball, ball


@dataclass(frozen=True, slots=True)
class SymmetricStable:
    """Characteristic function exp(-|t|^alpha), 0 < alpha <= 2 [Chambers, Mallows, Stuck 1976].

    Z = sin(alpha f) / cos(f)^(1/alpha) * (cos((1-alpha) f) / E)^((1-alpha)/alpha), f = pi (U - 1/2), E = -log
    V. alpha = 1 is Cauchy; alpha = 2 is 2 sin(f) sqrt(E), normal with variance 2.

    >>> from fractions import Fraction
    >>> heavy = ob.dynamics.SymmetricStable(Fraction(3, 2))
    >>> ob.noise.sample_rounded(heavy, (2, 3), scale=10, step=1).shape
    (2, 3)
    """

    alpha: Fraction
    uniforms: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        object.__setattr__(self, "alpha", rational("alpha", self.alpha))

    def ball(self, *u: Ball) -> Ball:
        turn = u[0] - ball(Fraction(1, 2))
        inner = (ball(1 - self.alpha) * turn).cos_pi() / -u[1].log()
        power = (ball(1 - self.alpha) * inner.log() - u[0].sin_pi().log()) / ball(self.alpha)
        return (ball(self.alpha) * turn).sin_pi() * power.exp()

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        rest = 1 - self.alpha
        return run(_symmetric, words, *float_balls(self.alpha, rest, abs(rest)))

    def cdf(self, x: float) -> float:
        tail = mixing_variable.tail(float(self.alpha), abs(x)) / 2
        return tail if x < 0 else 1 - tail

    def quantile(self, p: float) -> float:
        return (
            math.copysign(mixing_variable.size(float(self.alpha), abs(2 * p - 1)), p - 0.5)
            if p != 0.5
            else 0.0
        )


@compiled
def _symmetric(
    words: Words,
    alpha: float,
    alpha_rad: float,
    rest: float,
    rest_rad: float,
    size: float,
    size_rad: float,
    mid: Floats,
    rad: Floats,
) -> None:
    """With t = min(U, 1-U): f = sign pi (1/2 - t), and cos(f) = sin(pi t), accurate at both ends."""
    for i in range(mid.size):
        t, t_rad, sign = folded(words[0, i])
        v, v_rad = fb.unit_ball(words[1, i])
        s, s_rad = fb.add_ball(0.5, 0.0, -t, t_rad)
        x, x_rad = fb.mul_ball(s, s_rad, size, size_rad)
        _, _, x, x_rad = fb.sin_cos_pi_ball(x, x_rad)
        e, e_rad = fb.log_ball(v, v_rad)
        x, x_rad = fb.div_ball(x, x_rad, -e, e_rad)
        x, x_rad = fb.log_ball(x, x_rad)
        x, x_rad = fb.mul_ball(x, x_rad, rest, rest_rad)
        y, y_rad, _, _ = fb.sin_cos_pi_ball(t, t_rad)
        y, y_rad = fb.log_ball(y, y_rad)
        x, x_rad = fb.add_ball(x, x_rad, -y, y_rad)
        x, x_rad = fb.div_ball(x, x_rad, alpha, alpha_rad)
        x, x_rad = fb.exp_ball(x, x_rad)
        y, y_rad = fb.mul_ball(s, s_rad, alpha, alpha_rad)
        y, y_rad, _, _ = fb.sin_cos_pi_ball(y, y_rad)
        y, rad[i] = fb.mul_ball(x, x_rad, y, y_rad)
        mid[i] = sign * y


# -- for study: floats -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stable:
    """The paper's S(alpha, sigma, beta), Definition 2: alpha other than 1, skewness beta in [-1, 1].

    >>> ob.dynamics.Stable(1.5, 1, beta=0.5).sample(1000).shape
    (1000,)
    """

    alpha: Fraction
    sigma: Fraction
    beta: Fraction

    def __init__(self, alpha: Number, sigma: Number, beta: Number = 0) -> None:
        check_alpha(alpha)
        object.__setattr__(self, "alpha", rational("alpha", alpha))
        object.__setattr__(self, "sigma", positive("sigma", sigma))
        object.__setattr__(self, "beta", rational("beta", beta))
        if abs(self.beta) > 1:
            raise ParameterError(
                "beta is out of range", given=told(beta=f"{beta}"), needed="-1 to 1", fix=setting(beta=0)
            )
        if self.alpha == 1 and self.beta != 0:
            raise ParameterError(
                "alpha = 1 has no skewness in this definition",
                given=told(beta=f"{beta}"),
                needed="alpha other than 1",
                fix=setting(beta=0),
            )

    def characteristic(self, t: npt.ArrayLike) -> Any:
        """E exp(i t X)."""
        at = numbers_of("t", t)
        skew = 0.0 if not self.beta else float(self.beta) * math.tan(math.pi * float(self.alpha) / 2)
        return np.exp(-(np.abs(float(self.sigma) * at) ** float(self.alpha)) * (1 - 1j * skew * np.sign(at)))

    def sample(self, size: int, bits: Bits | None = None) -> Floats:
        """[Chambers, Mallows, Stuck 1976], in floats."""
        alpha, beta, size = float(self.alpha), float(self.beta), whole("size", size)
        u, v = _uniforms(bits or system_bits(), 2, size)
        f, e = np.pi * (u - 0.5), -np.log(v)
        skew = beta * math.tan(math.pi * alpha / 2) if beta else 0.0
        shift, stretch = math.atan(skew) / alpha, (1 + skew * skew) ** (1 / (2 * alpha))
        turned = alpha * (f + shift)
        out = (
            stretch
            * np.sin(turned)
            / np.cos(f) ** (1 / alpha)
            * (np.cos(f - turned) / e) ** ((1 - alpha) / alpha)
        )
        return np.asarray(float(self.sigma) * out)


@dataclass(frozen=True, slots=True, eq=False)
class EllipticalStable:
    """The paper's SG_d(alpha, Sigma), Definition 1: E exp(i t'X) = exp(-(t' Sigma t)^(alpha/2)), X = sqrt(A) G.

    >>> law = ob.dynamics.EllipticalStable(2, [[1, 0], [0, 1]])
    >>> float(law.characteristic([1, 0])), law.sample(10).shape
    (0.3678..., (10, 2))

    Sigma may be singular: the law then lies in a subspace, and has no density. A singular Sigma on the output that keeps the paper's condition (10) is noise on the input
    that went through the system: `law.map(M)` with M = [O_T N_T], which is where="input" of a plan.
    """

    alpha: Fraction
    shape: Floats

    def __init__(self, alpha: Number, shape: npt.ArrayLike) -> None:
        check_alpha(alpha)
        object.__setattr__(self, "alpha", rational("alpha", alpha))
        matrix = np.atleast_2d(numbers_of("shape", shape))
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        values = np.linalg.eigvalsh(matrix) if square and np.allclose(matrix, matrix.T) else np.array([-1.0])
        if values[0] < -1e-12 * max(values[-1], 0.0) or values[-1] <= 0:
            raise ParameterError(
                "Sigma must be symmetric and without negative eigenvalues",
                given=f"shape {matrix.shape}",
                needed="d x d",
                fix=told(shape="numpy.eye(3)"),
            )
        object.__setattr__(self, "shape", matrix)

    def characteristic(self, t: npt.ArrayLike) -> Any:
        """E exp(i t'X) for a vector t, or for each row of a matrix."""
        at = self._fitting("t", t)
        size = np.einsum("ij,jk,ik->i", at, self.shape, at)
        # where Sigma is singular t' Sigma t may be 0, which floats miss on either side
        return np.squeeze(np.exp(-(np.maximum(size, 0.0) ** (float(self.alpha) / 2))))

    def map(self, matrix: npt.ArrayLike) -> EllipticalStable:
        """The law of M X: SG(alpha, M Sigma M'), as E exp(i t'MX) = exp(-((M't)' Sigma (M't))^(alpha/2)). Stable laws are closed under linear maps.

        >>> ob.dynamics.EllipticalStable("1.5", [[1, 0], [0, 1]]).map([[1, 1], [2, 2]]).shape.tolist()
        [[2.0, 4.0], [4.0, 8.0]]
        """
        by = self._fitting("matrix", matrix)
        with np.errstate(over="ignore", invalid="ignore"):
            found, most = by @ self.shape @ by.T, float((by * by).sum()) * float(np.trace(self.shape))
        if not np.isfinite(found).all() or not np.trace(found) > 1e-12 * most:
            raise ParameterError(
                "the matrix takes the law to a single point, or beyond what floats hold",
                given=f"shape {by.shape}",
                needed="M Sigma M' other than 0, and finite",
                fix=told(matrix=f"numpy.eye({len(self.shape)})"),
            )
        return EllipticalStable(self.alpha, (found + found.T) / 2)

    def _fitting(self, name: str, matrix: npt.ArrayLike) -> Floats:
        """Rows as long as X, at least one."""
        rows: Floats = np.atleast_2d(numbers_of(name, matrix))
        if rows.ndim != 2 or rows.shape[1] != len(self.shape) or not len(rows):
            raise ParameterError(
                "the matrix does not fit the law",
                given=told(**{name: f"shape {rows.shape}"}),
                needed=f"{len(self.shape)} columns",
                fix=told(**{name: f"numpy.eye({len(self.shape)})"}),
            )
        return rows

    def tail(self, coordinate: int) -> float:
        """Proposition 1: the limit of x^alpha P(X_i > x), for alpha < 2."""
        alpha, coordinate = float(self.alpha), whole("coordinate", coordinate, most=len(self.shape) - 1)
        if alpha == 2:
            raise ParameterError(
                "a Gaussian has no power law",
                given=told(alpha="2"),
                needed="alpha below 2",
                fix=setting(alpha=1.5),
            )
        # (1 - alpha)/(2 Gamma(2 - alpha) cos(pi alpha/2)) as printed, without its hole at alpha = 1
        constant = math.gamma(alpha) * math.sin(math.pi * alpha / 2) / math.pi
        return float(constant * float(self.shape[coordinate, coordinate]) ** (alpha / 2))

    def sample(self, size: int, bits: Bits | None = None) -> Floats:
        """Rows of sqrt(A) G: A by Kanter's formula, G by Box and Muller, in floats."""
        bits, size = bits or system_bits(), whole("size", size)
        dims = len(self.shape)
        u, v = _uniforms(bits, 2, size * dims)
        values, axes = np.linalg.eigh(self.shape)
        root = axes * np.sqrt(
            np.where(values > 1e-12 * values[-1], values, 0.0)
        )  # root root' = Sigma, which may be singular
        g = (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).reshape(size, dims) @ root.T
        return np.asarray(np.sqrt(mixing_sample(float(self.alpha), size, bits))[:, None] * g)


def mixing_sample(alpha: float, size: int, bits: Bits) -> Floats:
    """The mixing variable A in floats, for study: E e^(-s A) = exp(-(2 s)^(alpha/2))."""
    if alpha == 2:
        return np.full(size, 2.0)
    b = alpha / 2
    u, v = _uniforms(bits, 2, size)
    power = (np.sin((1 - b) * np.pi * u) / -np.log(v)) ** ((1 - b) / b)
    return np.asarray(2 * power * np.sin(b * np.pi * u) / np.sin(np.pi * u) ** (1 / b))


def _uniforms(bits: Bits, rows: int, size: int) -> Floats:
    """Floats in (0, 1)."""
    return np.asarray((bits.words(rows * size).reshape(rows, size) >> np.uint64(11)) * 2.0**-53 + 2.0**-54)
