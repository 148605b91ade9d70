"""With delta: discrete Gaussian noise, accounted in zCDP and promised as (eps, delta)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from oboro.errors import GuaranteeError, setting, told
from oboro.privacy import ZCDP, Approx

_DIGITS = 10**6


@lru_cache(maxsize=64)
def rho_of(promise: Approx) -> Fraction:
    """The largest rho, to six digits, for which rho-zCDP keeps the promise [Canonne, Kamath, Steinke 2020, Prop. 12]."""
    if promise.delta <= 0:
        raise GuaranteeError(
            "Gaussian noise needs a delta above 0",
            given=told(delta="0"),
            needed="such as 1e-10",
            fix=setting(delta=None),
        )
    unit = (
        promise.eps**2 / _DIGITS
    )  # rho is below eps^2 for any delta of use, and above it only for huge ones
    low, high = 0, 1
    while ZCDP(high * unit).to_approx(promise.delta).eps <= promise.eps:
        low, high = high, 2 * high
    while high - low > max(1, low >> 20):
        middle = (low + high) // 2
        low, high = (
            (middle, high)
            if ZCDP(middle * unit).to_approx(promise.delta).eps <= promise.eps
            else (low, middle)
        )
    if low == 0:
        raise GuaranteeError(
            "no Gaussian noise keeps so small a delta at so large an eps",
            given=str(promise),
            needed="a larger delta",
            fix=setting(delta=None),
        )
    return low * unit
