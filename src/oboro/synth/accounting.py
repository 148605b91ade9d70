"""The cost of synthetic records by the randomness of sampling itself, for people and for plans.

    rdp_public_n(order=4, n=10**7, dims=6, min_eigenvalue="0.01")    one record, one row replaced
    rdp_private_n(order=4, n=10**7, dims=6, min_eigenvalue="0.01")   one record, one row added or removed

N independent records cost N times as much; N must be public. (Publishing as many records as there are rows
reveals their number: under add/remove that is private.) Redrawing a record until it falls inside the box is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import instance
from oboro.privacy import Approx, Renyi
from oboro.synth import bounds

MOST_N = 10**15
Curve = Callable[
    [Fraction], Fraction | None
]  # order to the divergence of one record, None outside the conditions


def rdp_public_n(
    *,
    order: Number,
    n: int,
    dims: int,
    min_eigenvalue: Number | None = None,
    ridge: Number | None = None,
    bound: str = "tight",
) -> float:
    """What one record costs when one of n rows is replaced, at one Rényi order.

    With `ridge` it holds for every dataset in [-1, 1]^dims. With `min_eigenvalue` only for datasets whose covariance has
    no smaller eigenvalue: an assumption that cannot be checked in private. `bound="paper"` is Theorem 3.2.
    """
    return float(_at(order, public_curve(n, dims, min_eigenvalue, ridge, bound)))


def rdp_private_n(
    *,
    order: Number,
    n: int,
    dims: int,
    min_eigenvalue: Number | None = None,
    ridge: Number | None = None,
    bound: str = "exact",
    both: bool = False,
) -> float:
    """What one record costs when a row is added or removed, at one Rényi order; n is the smaller size of the pair.

    A dataset of exactly n rows is also the larger one of the pair (n - 1, n): `both=True` takes the worse of the two.
    With `min_eigenvalue` the assumption is about the smaller dataset. `bound="paper"` is Theorem 3.1.
    """
    instance("both", both, bool)
    cost = _at(order, private_curve(n, dims, min_eigenvalue, ridge, bound))
    if both:
        cost = max(cost, _at(order, private_curve(n - 1, dims, min_eigenvalue, ridge, bound)))
    return float(cost)


def public_curve(
    n: int, dims: int, min_eigenvalue: Number | None = None, ridge: Number | None = None, bound: str = "tight"
) -> Curve:
    size, width, tau = (
        whole("n", n, least=2, most=MOST_N),
        whole("dims", dims, least=1),
        _tau(dims, min_eigenvalue, ridge),
    )
    _check_bound(bound, ("tight", "paper"), ridge)
    del width
    if bound == "paper":
        return lambda order: bounds.public_paper(order, size, tau)
    return lambda order: bounds.public_tight(order, size, tau)


def private_curve(
    n: int, dims: int, min_eigenvalue: Number | None = None, ridge: Number | None = None, bound: str = "exact"
) -> Curve:
    size, width, tau = (
        whole("n", n, least=2, most=MOST_N),
        whole("dims", dims, least=1),
        _tau(dims, min_eigenvalue, ridge),
    )
    _check_bound(bound, ("exact", "paper"), ridge)
    if ridge is not None:
        return lambda order: bounds.private_ridge(order, size, tau, width)
    if bound == "paper":
        return lambda order: bounds.private_paper(order, size, tau, width)
    return lambda order: bounds.private_exact(order, size, 4 * width / tau, width)


@dataclass(frozen=True, slots=True)
class Best:
    """The order at which N records give the smallest eps, and what they cost there."""

    order: Fraction
    renyi: Fraction
    approx: Approx


def best_order(curve: Curve, records: int, delta: Number, rule: str = "tight") -> Best | None:
    """Searches the orders; None if the bound holds at none of them. Any order is valid, so the search may use floats."""
    exact = positive("delta", delta)
    log_delta = math.log(exact.numerator) - math.log(exact.denominator)

    def cost(x: float) -> float:
        order = Fraction(1 + math.exp(x)).limit_denominator(1000)
        one = curve(order) if order > 1 else None
        if one is None:
            return math.inf
        a = float(order)
        more = 0.0 if rule == "simple" else math.log1p(-1 / a) - math.log(a) / (a - 1)
        return records * float(one) - log_delta / (a - 1) + more

    grid = [-4 + 0.5 * i for i in range(36)]  # orders from 1.02 to 10^6
    costs = [cost(x) for x in grid]
    if min(costs) == math.inf:
        return None
    middle = grid[costs.index(min(costs))]
    low, high = middle - 0.5, middle + 0.5
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(34):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if cost(left) <= cost(right) else (left, high)
    best = min((low, high, middle), key=cost)
    order = Fraction(1 + math.exp(best)).limit_denominator(1000)
    one = curve(order)
    assert one is not None
    return Best(order, records * one, Renyi(order, records * one).to_approx(delta, rule=rule))


def ridge_for(
    curve_of: Callable[[Fraction], Curve], records: int, eps: Fraction, delta: Fraction
) -> tuple[Fraction, Fraction]:
    """The smallest ridge, to three digits and rounded up, at which N records keep (eps, delta); and the order that shows it."""

    def good(ridge: Fraction) -> Best | None:
        best = best_order(curve_of(ridge), records, delta)
        return best if best is not None and best.approx.eps <= eps else None

    low, high = -9.0, 6.0  # powers of ten
    if good(Fraction(10**6)) is None:
        raise GuaranteeError(
            "no ridge makes so many records private",
            given=told(records=f"{records}", eps=show(eps), delta=show(delta)),
            needed="fewer records, or more rows to draw them from",
            fix=setting(method="marginals") + ", whose model gives as many records as you like",
        )
    while high - low > 2e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if good(_three_digits(10**middle)) else (middle, high)
    ridge = _three_digits(10**high)
    best = good(ridge)
    assert best is not None
    return ridge, best.order


def _three_digits(value: float) -> Fraction:
    places = 3 - math.ceil(math.log10(value))
    return Fraction(math.ceil(value * 10.0**places - 1e-9)) / Fraction(10) ** places


def _at(order: Number, curve: Curve) -> Fraction:
    exact = rational("order", order)
    if exact <= 1:
        raise ParameterError(
            "order must be above 1",
            given=told(order=show(exact)),
            needed="a number above 1",
            fix=setting(order=4),
        )
    cost = curve(exact)
    if cost is None:
        raise GuaranteeError(
            "the bound does not hold at this order",
            given=told(order=show(exact)),
            needed="an order within the conditions of the bound (oboro.synth.bounds), for this n, dims and eigenvalue",
            fix="a smaller order, a larger n, or a larger ridge",
        )
    return cost


def _tau(dims: int, min_eigenvalue: Number | None, ridge: Number | None) -> Fraction:
    if (min_eigenvalue is None) == (ridge is None):
        raise ParameterError(
            "either min_eigenvalue or ridge is needed",
            given="both" if ridge is not None else "neither",
            needed="ridge, which promises for every dataset, or min_eigenvalue, which assumes something of it",
            fix=setting(ridge="0.01"),
        )
    if min_eigenvalue is None:
        return 4 * whole("dims", dims, least=1) / positive("ridge", ridge)
    least = positive("min_eigenvalue", min_eigenvalue)
    if least > 1:
        raise ParameterError(
            "min_eigenvalue is too large",
            given=told(min_eigenvalue=show(least)),
            needed="at most 1, the largest variance of a column in [-1, 1]",
            fix=setting(min_eigenvalue="0.01"),
        )
    return 4 * dims / least


def _check_bound(bound: str, known: tuple[str, str], ridge: Number | None) -> None:
    if not isinstance(bound, str) or bound not in known:
        raise ParameterError(
            "bound is unknown",
            given=told(bound=repr(bound)),
            needed=" or ".join(known),
            fix=setting(bound=f"{known[0]}"),
        )
    if bound == "paper" and ridge is not None:
        raise ParameterError(
            "the paper has no ridge",
            given=setting(bound="paper") + ", ridge",
            needed="one of them",
            fix=setting(bound=f"{known[0]}"),
        )
