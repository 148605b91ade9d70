"""How a plan's privacy is split between its steps: exact rationals that never add up to more than was promised."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, show
from oboro.noise import DiscreteGaussian
from oboro.privacy import ZCDP, Approx, Guarantee, Unit
from oboro.privacy.parameters import positive_delta

_DIGITS = 6
MOST_RHO = 500


def promised(eps: Number | None, delta: Number | None, rho: Number | None) -> Approx | ZCDP:
    """What is promised: eps with delta, or rho."""
    if rho is not None and eps is None and delta is None:
        return ZCDP(positive("rho", rho))
    if rho is None and eps is not None and delta is not None:
        return Approx(positive("eps", eps), positive("delta", delta))
    raise ParameterError(
        "the privacy to spend is not said",
        given=", ".join(
            name for name, value in (("eps", eps), ("delta", delta), ("rho", rho)) if value is not None
        )
        or "nothing",
        needed="eps and delta, or rho for a ledger of zCDP",
        fix=setting(eps=1, delta="1e-6"),
    )


@lru_cache(maxsize=64)  # one run asks for it many times
def rho_within(guarantee: Guarantee) -> Fraction:
    """The largest rho, to six digits, whose zCDP implies the guarantee. At most 500: beyond, noise is 0 in doubles."""
    if isinstance(guarantee, ZCDP):
        return _checked(positive("rho", guarantee.rho))
    assert isinstance(guarantee, Approx)
    positive_delta(guarantee.delta)
    low, high = Fraction(0), guarantee.eps  # rho < eps always, for the conversion adds something positive
    for _ in range(60):
        middle = _rounded((low + high) / 2)
        if middle in (low, high):
            break
        low, high = (
            (middle, high) if ZCDP(middle).to_approx(guarantee.delta).eps <= guarantee.eps else (low, middle)
        )
    if low == 0:
        raise ParameterError(
            "eps is too small",
            given=told(eps=show(guarantee.eps)),
            needed="an eps that buys some rho",
            fix=setting(eps="0.1"),
        )
    return _checked(low)


def _checked(rho: Fraction) -> Fraction:
    """The noise of the least share has a variance of about 2 e^(-rho), which what follows divides by."""
    if rho > MOST_RHO:
        raise ParameterError(
            "rho is out of range",
            given=told(rho=show(rho)),
            needed=f"at most {MOST_RHO}, or an eps that buys no more",
            fix=setting(eps=1, delta="1e-6"),
        )
    return rho


def squared_sensitivity(unit: Unit) -> int:
    """How far, squared, one unit moves any one table of counts in the 2-norm.

    All of a unit's m rows lie in one cell at worst: m^2. Under replace they leave one cell and enter another: 2 m^2.
    """
    m = unit.contributions
    return m * m * (2 if unit.adjacency == "replace" else 1)


def summed_sensitivity(unit: Unit) -> int:
    """How far one unit moves any one table of counts in all: m, or 2m under replace."""
    return unit.contributions * (2 if unit.adjacency == "replace" else 1)


def noise_for(unit: Unit, rho: Fraction) -> DiscreteGaussian:
    """The noise that makes one table of counts rho-zCDP."""
    return DiscreteGaussian(Fraction(squared_sensitivity(unit)) / (2 * rho))


def choice_eps(rho: Fraction) -> Fraction:
    """The eps of an exponential mechanism that costs at most rho: eps^2/8 <= rho [Cesar and Rogers 2021]."""
    scaled = 8 * rho * 10 ** (2 * 12)
    return Fraction(math.isqrt(math.floor(scaled)), 10**12)


def _rounded(number: Fraction) -> Fraction:
    """To six digits, downwards."""
    if number == 0:
        return number
    if 1e-300 < number < 1e300:
        places = _DIGITS - math.ceil(math.log10(number))
    else:
        places = _DIGITS + len(str(number.denominator)) - len(str(number.numerator))
    scale = Fraction(10) ** places
    return Fraction(math.floor(number * scale)) / scale
