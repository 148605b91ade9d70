"""With delta: discrete Gaussian noise, accounted in zCDP and promised as (eps, delta)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from oboro.errors import GuaranteeError, ParameterError
from oboro.exact import show
from oboro.privacy import ZCDP, Approx, Pure
from oboro.tables.tree.design import Design
from oboro.tables.tree.workload import Workload

_DIGITS = 10**6


@lru_cache(maxsize=64)
def rho_of(promise: Approx) -> Fraction:
    """The largest rho, to six digits, for which rho-zCDP keeps the promise [Canonne, Kamath, Steinke 2020, Prop. 12]."""
    if promise.delta <= 0:
        raise GuaranteeError(
            "Gaussian noise needs a delta above 0", given="delta=0", needed="such as 1e-10", fix="delta=None"
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
            fix="delta=None",
        )
    return low * unit


def check_promise(
    promise: Pure | Approx, strategy: str, workload: Workload | None, design: Design | None
) -> None:
    """Refuses a design that does not keep the promise, and a delta or a workload where nothing uses it."""
    if strategy != "tree" and (workload is not None or design is not None):
        raise ParameterError(
            "only a tree is planned for a workload",
            given=f"workload={str(workload)!r}, strategy={strategy!r}",
            needed='strategy="tree"',
            fix='strategy="tree"',
        )
    if isinstance(promise, Approx) and strategy != "tree":
        raise GuaranteeError(
            "only a tree uses a delta",
            given=f"strategy={strategy!r}",
            needed='strategy="tree"',
            fix="delta=None",
        )
    if design is None:
        return
    kept = design.rho is None if isinstance(promise, Pure) else _kept(promise, design.rho)
    if not kept:
        raise GuaranteeError(
            "the noise of the plan does not keep its promise",
            given=f"{promise}, rho = {'none' if design.rho is None else show(design.rho)}",
            needed="a plan as ob.tables.plan makes it",
        )


def _kept(promise: Approx, rho: Fraction | None) -> bool:
    return rho is not None and promise.covers(ZCDP(rho))
