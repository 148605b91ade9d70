"""Noise for a smooth sensitivity: which multiple of it, and how smooth it must be.

The answer is f + (S/s) Z, rounded to a public grid. S is beta-smooth: it is at least the local sensitivity, and changes
by a factor of at most e^beta between neighbours. So the densities at one point differ by a slide of Z by at most
s, and a dilation by at most e^beta. What both cost together is proved for each law (slide, then dilate):

    Cauchy()               Pure(eps)            s + beta <= eps
    StudentT(nu)           Pure(eps)            s (nu+1)/(2 sqrt nu) + beta max(1, nu) <= eps
    Laplace()              Approx(eps, delta)   s = eps/2, beta = eps/(2 ln(2/delta)); eps <= 4.7, delta <= 0.1
    LaplaceLogNormal()     ZCDP(rho)            e^(1.5 sigma^2) s + beta/sigma <= sqrt(2 rho)   [Bun, Steinke 2019]

For the first two: the slope of -ln(density) is at most 1 and (nu+1)/(2 sqrt nu), and its derivative along a dilation lies in
[-1, 1] and [-nu, 1]. For Laplace noise that derivative has no bound, so it is never pure; outside the stated
range the proof fails (at eps = 20 the claim is false). S and S/s are private. They are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from oboro.arrays import Floats, Integers, Words
from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, not_negative, positive, show, usable
from oboro.kinds import takes
from oboro.noise.bits import Bits
from oboro.noise.laplace import as_float
from oboro.noise.laws import Cauchy, Laplace, Law, Normal, StudentT
from oboro.noise.lazy import Ball, Real, ball
from oboro.privacy import ZCDP, Approx, Guarantee, Pure
from oboro.privacy.guarantee import round_up
from oboro.release import Part, Plan

# Laplace noise with a log-normal scale: tails heavy enough for a smooth sensitivity, light enough for zCDP.


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


# Sensitivities that fade with distance: the largest of finitely many terms w e^(-beta k), as an exact real.
#
# Every smooth sensitivity here has this form: w is how far the answer can move once k records have been changed.
# Which term is the largest is not decided by floats. They only sort out terms that are smaller beyond doubt; the
# maximum of the others is enclosed in ball arithmetic. Two different terms are never equal: e^x is transcendental
# for rational x other than 0 [Lindemann].

SLACK = 2.0**-36  # far above the relative error of a float logarithm, product and difference


@dataclass(frozen=True, slots=True)
class Decaying:
    """max of w e^(-beta k) over `terms` (w, k); 0 if there are none. Calling it encloses it: a `lazy.Real`."""

    terms: tuple[tuple[Fraction, int], ...]
    beta: Fraction

    def __init__(self, terms: Iterable[tuple[Number, int]], beta: Number) -> None:
        kept = {(not_negative("a term", w), int(k)) for w, k in terms}
        object.__setattr__(self, "terms", tuple(sorted(term for term in kept if term[0] > 0)))
        object.__setattr__(self, "beta", positive("beta", beta))

    def __call__(self) -> Ball:
        from oboro.noise.lazy import ball

        largest = ball(0)
        for w, k in self.terms:
            largest = largest.max(ball(w) * ball(-self.beta * k).exp())
        return largest

    def times(self, factor: Fraction) -> Decaying:
        """The same, `factor` times as large."""
        return Decaying(((w * factor, k) for w, k in self.terms), self.beta)

    def __float__(self) -> float:
        from oboro.noise.lazy import precision

        with precision(192):
            return float(self().mid())


def largest_terms(w: Integers, k: Integers, beta: Fraction) -> list[tuple[int, int]]:
    """Those (w, k) that may be the largest w e^(-beta k): all that floats cannot rule out."""
    keep = w > 0
    w, k = w[keep], k[keep]
    if not w.size:
        return []
    score = np.log(w.astype(np.float64)) - _rate(beta) * k
    best = score.max()
    near = score >= best - slack(beta, int(k[int(score.argmax())]))
    return sorted(set(zip(w[near].tolist(), k[near].tolist(), strict=True)))


def slack(beta: Fraction, k: int) -> float:
    """More than floats can be wrong about log w - beta k, for terms as large as one at distance k.

    A term that is as large at distance k' has beta (k' - k) <= log w' - log w <= 44, as w < 2^63.
    """
    return SLACK * (64 + _rate(beta) * k)


def _rate(beta: Fraction) -> float:
    """A float near beta; beyond 1e250 the order of the terms is the same as there."""
    return min(as_float(beta), 1e250)


SmoothLaw = Cauchy | StudentT | Laplace | LaplaceLogNormal  # those with a proof
SmoothPromise = Pure | Approx | ZCDP
_DIGITS = 30  # of a cost, which is rounded up; s and beta were rounded down to 15
_FURTHEST = 9000  # e to the minus this is less than any delta of use
_SPENT = Fraction(1, 2**40), Fraction(2**40)
_NU, _SIGMA = (Fraction(1, 10), Fraction(10**6)), (Fraction(1, 1000), Fraction(10))
_LEAST = Fraction(1, 10**100)  # of s, by which a forecast divides
COUNTEREXAMPLE = (
    "Laplace noise of scale S/eps is not eps-DP, though it is often said to be. Eleven values in [0, 1], all 0, or ten "
    "0 and one 1: both medians are 0, the smooth sensitivities at beta = 1 are e^-5 and e^-4, and at eps = 1 the "
    "tails differ by delta = 0.197"
)


@dataclass(frozen=True, slots=True)
class SmoothNoise:
    """A law, with an admissible pair: the scale is S/s for a beta-smooth S."""

    law: SmoothLaw
    s: Fraction
    beta: Fraction

    @property
    def cost(self) -> SmoothPromise:
        """What the noise costs by the theorem of its law, from s and beta alone; rounded up."""
        law, s, beta = self.law, self.s, self.beta
        if isinstance(law, Cauchy):
            return Pure(s + beta)
        if isinstance(law, StudentT):
            slide = round_up(lambda: ball(s) * ball(law.nu + 1) / (2 * ball(law.nu).sqrt()), _DIGITS)
            return Pure(slide + beta * max(Fraction(1), law.nu))
        if isinstance(law, Laplace):
            away = min(s / beta, Fraction(_FURTHEST))
            return Approx(2 * s, round_up(lambda: 2 * ball(-away).exp(), _DIGITS))
        assert law.sigma is not None  # `calibrate` derives it
        spread = law.sigma

        def rho() -> Ball:
            slide = ball(Fraction(3, 2) * spread**2).exp() * ball(s)
            return (slide + ball(beta / spread)) ** 2 / 2

        return ZCDP(round_up(rho, _DIGITS))

    def draw(
        self, centre: Fraction, smooth: Decaying, step: Fraction, most: int, bits: Bits, trials: int | None
    ) -> Integers:
        """centre + (S/s) Z on the public grid 0, step, ..., most * step: one index, or one for each trial.

        The grid index of the ideal real answer, exactly; beyond its ends it is moved to the end. Both are
        post-processing of the real-valued mechanism.
        """
        from oboro.noise import round_to_grid, sample_rounded

        scale: Fraction | Real = (lambda: smooth() / ball(self.s)) if smooth.terms else Fraction(0)
        if trials is None:
            index = round_to_grid(self.law, centre=centre, scale=scale, step=step, bits=bits)
            return np.asarray([min(max(index, 0), most)], np.int64)
        many = sample_rounded(self.law, (trials, 1), scale=scale, step=step, centre=centre, bits=bits)
        clipped: Integers = np.clip(many, 0, most)
        return clipped

    def within(self, smooth: float, level: float) -> float:
        """How far the noise goes with this probability, for a smooth sensitivity that is made up. For forecasts."""
        return float(self.law.quantile((1 + level) / 2)) * smooth / float(self.s)

    def to_dict(self) -> dict[str, object]:
        """The law and its public parameters, for certificates. The scale is not among them."""
        parameter = getattr(self.law, "nu", getattr(self.law, "sigma", None))
        named = {"law": self.law.kind} | ({} if parameter is None else {"parameter": show(parameter)})
        public = {"s": show(self.s), "beta": show(self.beta)}
        return {**named, **public, "scale": "private: a smooth sensitivity over s"}


class SmoothPlan(Plan):
    """A plan whose answer has noise in proportion to a beta-smooth sensitivity: its `law` and `beta` are public."""

    if TYPE_CHECKING:

        @property
        def law(self) -> SmoothLaw: ...

        @property
        def beta(self) -> Fraction: ...

    @cached_property
    def noise(self) -> SmoothNoise:
        """As much of it as the guarantee allows."""
        found = calibrate(self.law, self.guarantee.unconditional, beta=self.beta)
        if (found.law, found.beta) != (self.law, self.beta):
            raise ParameterError(
                "the noise of the plan is incomplete",
                given=f"{self.law!r}, " + told(beta=repr(self.beta)),
                needed="a law with its parameter, and beta",
                fix=f"{found.law!r}, " + told(beta=show(found.beta)),
            )
        return found

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """One unit moves the answer by its smooth sensitivity at most, and that by a factor of e^beta."""
        return (Part(self.noise, "answer, in smooth sensitivities", Fraction(1), self.noise.cost),)


@takes(guarantee=Guarantee)
def calibrate(
    law: Law | None, guarantee: Guarantee, *, share: Fraction = Fraction(2, 5), beta: Number | None = None
) -> SmoothNoise:
    """The admissible noise for a guarantee. `share` of it goes to smoothness where there is a choice."""
    law = default_law(guarantee) if law is None else law
    if isinstance(guarantee, Pure | Approx):
        _within("eps", guarantee.eps, *_SPENT)
    if isinstance(guarantee, ZCDP):
        _within("rho", guarantee.rho, *_SPENT)
    if isinstance(law, Laplace) and isinstance(guarantee, Pure):
        raise GuaranteeError(
            "Laplace noise with a smooth sensitivity has no pure guarantee",
            given=f"{guarantee}. {COUNTEREXAMPLE}",
            needed="Cauchy or Student t noise, or a delta",
            fix=told(noise="ob.noise.Cauchy()") + ", or " + setting(eps="1", delta="1e-6"),
        )
    if isinstance(law, Cauchy) and isinstance(guarantee, Pure):
        smoothness = _beta(beta, guarantee.eps * share)
        return _checked(SmoothNoise(law, guarantee.eps - smoothness, smoothness))
    if isinstance(law, StudentT) and isinstance(guarantee, Pure):
        return _student(law, guarantee.eps, _beta(beta, guarantee.eps * share / max(Fraction(1), law.nu)))
    if isinstance(law, Laplace) and isinstance(guarantee, Approx):
        return _laplace(law, guarantee, beta)
    if isinstance(law, LaplaceLogNormal) and isinstance(guarantee, ZCDP):
        return _log_normal(law, guarantee.rho, beta)
    raise GuaranteeError(
        "this noise does not give this guarantee",
        given=f"{law!r}, {guarantee}",
        needed="Cauchy or StudentT for eps, Laplace for eps and delta, LaplaceLogNormal for rho",
        fix=told(noise="ob.noise.Cauchy()") + ", " + setting(eps="1"),
    )


def default_law(guarantee: Guarantee) -> SmoothLaw:
    """The law that is taken where none is named."""
    if isinstance(guarantee, Approx):
        return Laplace()
    return LaplaceLogNormal() if isinstance(guarantee, ZCDP) else Cauchy()


def smooth_guarantee(eps: Number | None, delta: Number | None, rho: Number | None) -> SmoothPromise:
    """The guarantee that was asked for: eps, or eps and delta, or rho."""
    if rho is not None and eps is None and delta is None:
        return ZCDP(positive("rho", rho))
    if rho is not None or eps is None:
        raise ParameterError(
            "say eps, or eps and delta, or rho",
            given=told(eps=f"{eps}", delta=f"{delta}", rho=f"{rho}"),
            needed="one guarantee",
            fix=setting(eps="1") if rho is None else setting(eps=None, delta=None),
        )
    return (
        Pure(positive("eps", eps))
        if delta is None
        else Approx(positive("eps", eps), positive("delta", delta))
    )


def of_older(record: dict[str, object]) -> dict[str, object]:
    """The law in a record of oboro 0.1: it was called noise, and had one name for all parameters."""
    noise = record.get("noise")
    if "law" in record or not isinstance(noise, dict) or "law" not in noise:
        return record
    names = {"law": "kind", "parameter": "nu" if noise["law"] == StudentT.kind else "sigma"}
    law = {names.get(name, name): value for name, value in noise.items()}
    return {name: value for name, value in record.items() if name != "noise"} | {"law": law}


def _student(law: StudentT, eps: Fraction, beta: Fraction) -> SmoothNoise:
    _within("nu", law.nu, *_NU)
    rest = eps - beta * max(Fraction(1), law.nu)
    s = _round_down(lambda: ball(rest) * 2 * ball(law.nu).sqrt() / ball(law.nu + 1))
    return _checked(SmoothNoise(law, s, beta))


def _laplace(law: Laplace, guarantee: Approx, beta: Number | None) -> SmoothNoise:
    eps, delta = guarantee.eps, guarantee.delta
    if not (0 < eps <= Fraction("4.7") and 0 < delta <= Fraction(1, 10)):
        raise GuaranteeError(
            "Laplace noise with a smooth sensitivity is proved for eps up to 4.7 and delta up to 0.1 only",
            given=str(guarantee),
            needed="eps <= 4.7 and 0 < delta <= 0.1 (at eps = 20 the claim is false)",
            fix=setting(eps="1", delta="1e-6"),
        )
    most = _round_down(lambda: ball(eps) / (2 * (2 / ball(delta)).log()))
    smoothness = _beta(beta, most)
    if smoothness > most:
        raise _too_smooth(smoothness)
    return SmoothNoise(law, eps / 2, smoothness)


def _log_normal(law: LaplaceLogNormal, rho: Fraction, beta: Number | None) -> SmoothNoise:
    root = Fraction(float(2 * rho) ** 0.5).limit_denominator(10**6)  # only guides the choice
    smoothness = _beta(beta, root / 10)
    sigma = law.sigma
    if sigma is None:  # near the best: 5 (eps/beta) sigma^3 - 5 sigma^2 - 1 = 0
        roots = np.roots([5 * float(root / smoothness), -5.0, 0.0, -1.0])
        best = float(roots[np.abs(roots.imag) < 1e-9].real.max())
        sigma = max(Fraction(best).limit_denominator(1000), _SIGMA[0])
    spread = _within("sigma", sigma, *_SIGMA)

    def largest() -> Ball:
        return (ball(2 * rho).sqrt() - ball(smoothness / spread)) * ball(Fraction(-3, 2) * spread**2).exp()

    return _checked(SmoothNoise(LaplaceLogNormal(sigma), _round_down(largest), smoothness))


def _within(name: str, number: Fraction, least: Fraction, most: Fraction) -> Fraction:
    """What the samplers can draw, and forecasts can say."""
    if least <= number <= most:
        return number
    raise ParameterError(
        f"{name} is out of range",
        given=told(**{name: show(number)}),
        needed=f"{show(least)} to {show(most)}",
        fix=setting(**{name: 1}),
    )


def _beta(given: Number | None, default: Fraction) -> Fraction:
    beta = default if given is None else positive("beta", given)
    usable("beta", beta)
    return beta


def _checked(noise: SmoothNoise) -> SmoothNoise:
    if noise.s < _LEAST:
        raise _too_smooth(noise.beta)
    return noise


def _too_smooth(beta: Fraction) -> ParameterError:
    return ParameterError(
        "beta leaves nothing of the guarantee for the noise",
        given=told(beta=show(beta)),
        needed="a smaller beta, or none: then a good one is derived",
        fix=setting(beta=None),
    )


def _round_down(real: Real) -> Fraction:
    return -round_up(lambda: -real())
