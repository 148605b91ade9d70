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

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oboro.errors import GuaranteeError, ParameterError
from oboro.exact import Number, positive, show, usable
from oboro.kinds import takes
from oboro.noise.bits import Bits
from oboro.privacy import ZCDP, Approx, Guarantee, Pure
from oboro.privacy.guarantee import round_up
from oboro.statistics.decay import Decaying

if TYPE_CHECKING:
    from oboro.noise.laws import Laplace, Law, StudentT
    from oboro.noise.lazy import Ball
    from oboro.statistics.lognormal import LaplaceLogNormal

Integers = npt.NDArray[np.int64]
_LEAST = Fraction(1, 10**100)  # of s, by which a forecast divides
COUNTEREXAMPLE = (
    "Laplace noise of scale S/eps is not eps-DP, though it is often said to be. Eleven values in [0, 1], all 0, or ten "
    "0 and one 1: both medians are 0, the smooth sensitivities at beta = 1 are e^-5 and e^-4, and at eps = 1 the "
    "tails differ by delta = 0.197"
)


@dataclass(frozen=True, slots=True)
class SmoothNoise:
    """A law, with an admissible pair: the scale is S/s for a beta-smooth S."""

    law: Any
    s: Fraction
    beta: Fraction

    def draw(
        self, centre: Fraction, smooth: Decaying, step: Fraction, most: int, bits: Bits, trials: int | None
    ) -> Integers:
        """centre + (S/s) Z on the public grid 0, step, ..., most * step: one index, or one for each trial.

        The grid index of the ideal real answer, exactly; beyond its ends it is moved to the end. Both are
        post-processing of the real-valued mechanism.
        """
        from oboro.noise import round_to_grid, sample_rounded
        from oboro.noise.lazy import ball

        scale: Any = (lambda: smooth() / ball(self.s)) if smooth.terms else Fraction(0)
        if trials is None:
            index = round_to_grid(self.law, centre=centre, scale=scale, step=step, bits=bits)
            return np.asarray([min(max(index, 0), most)], np.int64)
        many = sample_rounded(self.law, (trials, 1), scale=scale, step=step, centre=centre, bits=bits)
        clipped: Integers = np.clip(many, 0, most)
        return clipped

    def within(self, smooth: float, level: float) -> float:
        """How far the noise goes with this probability, for a smooth sensitivity that is made up. For forecasts."""
        return float(self.law.quantile((1 + level) / 2)) * smooth / float(self.s)

    def to_dict(self) -> dict[str, Any]:
        """The law and its public parameters, for certificates. The scale is not among them."""
        record = {**law_to_dict(self.law), "s": show(self.s), "beta": show(self.beta)}
        return {**record, "scale": "private: a smooth sensitivity over s"}


@takes(guarantee=Guarantee)
def calibrate(
    law: Law | None, guarantee: Guarantee, *, share: Fraction = Fraction(2, 5), beta: Number | None = None
) -> SmoothNoise:
    """The admissible noise for a guarantee. `share` of it goes to smoothness where there is a choice."""
    from oboro.noise import Cauchy, Laplace, StudentT
    from oboro.statistics.lognormal import LaplaceLogNormal

    plain = guarantee.unconditional
    law = default_law(plain) if law is None else law
    if isinstance(law, Laplace) and isinstance(plain, Pure):
        raise GuaranteeError(
            "Laplace noise with a smooth sensitivity has no pure guarantee",
            given=f"{plain}. {COUNTEREXAMPLE}",
            needed="Cauchy or Student t noise, or a delta",
            fix='noise=ob.noise.Cauchy(), or eps="1", delta="1e-6"',
        )
    if isinstance(plain, Pure | Approx):
        usable("eps", plain.eps)
    if isinstance(law, Cauchy) and isinstance(plain, Pure):
        smoothness = _beta(beta, plain.eps * share)
        return _checked(SmoothNoise(law, plain.eps - smoothness, smoothness))
    if isinstance(law, StudentT) and isinstance(plain, Pure):
        return _student(law, plain.eps, _beta(beta, plain.eps * share / max(Fraction(1), law.nu)))
    if isinstance(law, Laplace) and isinstance(plain, Approx):
        return _laplace(law, plain, beta)
    if isinstance(law, LaplaceLogNormal) and isinstance(plain, ZCDP):
        return _log_normal(law, plain.rho, beta)
    raise GuaranteeError(
        "this noise does not give this guarantee",
        given=f"{law!r}, {plain}",
        needed="Cauchy or StudentT for eps, Laplace for eps and delta, LaplaceLogNormal for rho",
        fix='noise=ob.noise.Cauchy(), eps="1"',
    )


def default_law(guarantee: Guarantee) -> Law:
    """The law that is taken where none is named."""
    from oboro.noise import Cauchy, Laplace
    from oboro.statistics.lognormal import LaplaceLogNormal

    if isinstance(guarantee, Approx):
        return Laplace()
    return LaplaceLogNormal() if isinstance(guarantee, ZCDP) else Cauchy()


def smooth_guarantee(eps: Number | None, delta: Number | None, rho: Number | None) -> Guarantee:
    """The guarantee that was asked for: eps, or eps and delta, or rho."""
    if rho is not None and eps is None and delta is None:
        return ZCDP(positive("rho", rho))
    if rho is not None or eps is None:
        raise ParameterError(
            "say eps, or eps and delta, or rho",
            given=f"eps={eps}, delta={delta}, rho={rho}",
            needed="one guarantee",
            fix='eps="1"',
        )
    return (
        Pure(positive("eps", eps))
        if delta is None
        else Approx(positive("eps", eps), positive("delta", delta))
    )


def laws() -> dict[str, Any]:
    """The laws with a proof, by the names that plan files use. They load when they are needed."""
    from oboro.noise import Cauchy, Laplace, StudentT
    from oboro.statistics.lognormal import LaplaceLogNormal

    return {
        "Cauchy": Cauchy,
        "Student t": StudentT,
        "Laplace": Laplace,
        "Laplace-log-normal": LaplaceLogNormal,
    }


def law_to_dict(law: Any) -> dict[str, str]:
    """A law as it stands in a plan file."""
    name = next(name for name, kind in laws().items() if type(law) is kind)
    parameter = getattr(law, "nu", getattr(law, "sigma", None))
    return {"law": name} | ({} if parameter is None else {"parameter": show(parameter)})


def law_from(record: dict[str, str]) -> Any:
    known = laws()
    if record.get("law") not in known:
        raise ParameterError("the noise is unknown", given=str(record.get("law")), needed=", ".join(known))
    kind = known[record["law"]]
    return kind(record["parameter"]) if "parameter" in record else kind()


def _student(law: StudentT, eps: Fraction, beta: Fraction) -> SmoothNoise:
    from oboro.noise.lazy import ball

    rest = eps - beta * max(Fraction(1), law.nu)
    s = _round_down(lambda: ball(rest) * 2 * ball(law.nu).sqrt() / ball(law.nu + 1))
    return _checked(SmoothNoise(law, s, beta))


def _laplace(law: Laplace, guarantee: Approx, beta: Number | None) -> SmoothNoise:
    from oboro.noise.lazy import ball

    eps, delta = guarantee.eps, guarantee.delta
    if not (0 < eps <= Fraction("4.7") and 0 < delta <= Fraction(1, 10)):
        raise GuaranteeError(
            "Laplace noise with a smooth sensitivity is proved for eps up to 4.7 and delta up to 0.1 only",
            given=str(guarantee),
            needed="eps <= 4.7 and 0 < delta <= 0.1 (at eps = 20 the claim is false)",
            fix='eps="1", delta="1e-6"',
        )
    most = _round_down(lambda: ball(eps) / (2 * (2 / ball(delta)).log()))
    smoothness = _beta(beta, most)
    if smoothness > most:
        raise _too_smooth(smoothness)
    return SmoothNoise(law, eps / 2, smoothness)


def _log_normal(law: LaplaceLogNormal, rho: Fraction, beta: Number | None) -> SmoothNoise:
    from oboro.noise.lazy import ball
    from oboro.statistics.lognormal import LaplaceLogNormal

    root = Fraction(usable("rho", 2 * rho, (-12, 100)) ** 0.5).limit_denominator(
        10**6
    )  # only guides the choice
    smoothness = _beta(beta, root / 10)
    sigma = law.sigma
    if sigma is None:  # near the best: 5 (eps/beta) sigma^3 - 5 sigma^2 - 1 = 0
        roots = np.roots([5 * float(root / smoothness), -5.0, 0.0, -1.0])
        best = float(roots[np.abs(roots.imag) < 1e-9].real.max())
        sigma = Fraction(best).limit_denominator(1000)
    spread = sigma

    def largest() -> Ball:
        return (ball(2 * rho).sqrt() - ball(smoothness / spread)) * ball(Fraction(-3, 2) * spread**2).exp()

    return _checked(SmoothNoise(LaplaceLogNormal(sigma), _round_down(largest), smoothness))


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
        given=f"beta={show(beta)}",
        needed="a smaller beta, or none: then a good one is derived",
        fix="beta=None",
    )


def _round_down(real: Any) -> Fraction:
    return -round_up(lambda: -real())
