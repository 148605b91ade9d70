"""The cost of synthetic records by the randomness of sampling itself, for people and for plans.

    rdp_public_n(order=4, n=10**7, dims=6, min_eigenvalue="0.01")    one record, one row replaced
    rdp_private_n(order=4, n=10**7, dims=6, min_eigenvalue="0.01")   one record, one row added or removed

N independent records cost N times as much; N must be public. (Publishing as many records as there are rows
reveals their number: under add/remove that is private.) Redrawing a record until it falls inside the box is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, about, positive, rational, show, whole
from oboro.kinds import instance
from oboro.language import aligned
from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy import Approx, Conditional, Guarantee, Renyi
from oboro.privacy.guarantee import positive_delta, round_up

# Bounds on what one synthetic record costs, in ball arithmetic: certain, and stable however large n is.
#
# The mechanism takes n records in [-1, 1]^d, with mean mu and covariance S (divided by n), and draws from
# N(mu, S), or with a ridge r from N(mu, S + r I). Clipping and rounding come after and cost nothing. Write
#
#     tau = 4d / min_eigenvalue  or  4d / ridge,    k = (n-1)/n^2,
#     h(l) = (a ln(1+l) - ln(1+a l)) / (2(a-1)),    a = order.
#
# Each function gives the divergence of that order for any two neighbours, or None outside its conditions.
# `min_eigenvalue` is an assumption about the data, which nobody can check without looking; a ridge needs none.

BITS = 320  # at n = 10^12 some 80 of them cancel


def public_tight(order: Fraction, n: int, tau: Fraction) -> Fraction | None:
    """n is public, one record is replaced: a/2 tau/(n^2 (1 - a k tau)) + h(-k tau), for a k tau < 1.

    Whiten by S_1. The two eigenvalues of the change satisfy l1^2 + l2^2 <= (k tau)^2, because x - mu' and y - mu'
    lie coordinate by coordinate in an interval of length 2 that contains 0; h(-sqrt t) is convex from 0, so
    their sum is at most h(-k tau). The means differ by at most tau/n^2 in the whitened norm. Only the first
    covariance needs its bound, so with a ridge this holds for every dataset.
    """
    share = Fraction(n - 1, n * n) * tau
    if order * share >= 1:
        return None
    return _above(lambda a: a / 2 * ball(tau / (n * n * (1 - order * share))) + _h(a, ball(-share)), order)


def public_paper(order: Fraction, n: int, tau: Fraction) -> Fraction | None:
    """Theorem 3.2 as printed, for a < n^2 / (tau (n-1))."""
    share = Fraction(n - 1, n * n) * tau
    if order * share >= 1:
        return None

    def value(a: Ball) -> Ball:
        logs = a * (1 + ball(share)).log() - ball(1 - order * share).log()
        return a / 2 * ball(tau / (n * n - order * (n - 1) * tau)) + logs / (2 * (a - 1))

    return _above(value, order)


def private_paper(order: Fraction, n: int, tau: Fraction, dims: int) -> Fraction | None:
    """Theorem 3.1 as printed: sizes n and n + 1, for n/(n+1) < tau and a < min(n+1, n^2/(tau(n+1) - n))."""
    if not Fraction(n, n + 1) < tau or order >= n + 1 or order * (tau * (n + 1) - n) >= n * n:
        return None

    def add(a: Ball) -> Ball:
        top = 1 + order * n * tau / ((n + 1) * (n + 1 - order))
        least = (ball(top).log() - a * ball(1 + tau / (n + 1)).log()).min(ball(0))
        logs = a * dims * ball(Fraction(n, n + 1)).log() - dims * ball(1 - order / (n + 1)).log() - least
        return a / 2 * ball(tau / ((n + 1) * (n + 1 - order))) + logs / (2 * (a - 1))

    def remove(a: Ball) -> Ball:
        top = 1 - order * (n + 1) * tau / ((n + order) * n)
        least = (ball(top).log() - a * ball(1 - tau / n).log()).min(ball(0))
        logs = a * dims * ball(Fraction(n + 1, n)).log() - dims * ball(1 + order / n).log() - least
        return a / 2 * ball(tau / (n * (n + order) - order * (n + 1) * tau)) + logs / (2 * (a - 1))

    return _above(lambda a: add(a).max(remove(a)), order)


def private_exact(order: Fraction, n: int, min_eigenvalue: Fraction, dims: int) -> Fraction | None:
    """n and n + 1 records, the smaller dataset with all eigenvalues at least `min_eigenvalue`: the exact maximum.

    The divergence depends on q = (x - mu)' S^-1 (x - mu) alone, for the record x that is added or removed, and
    q <= q_max = d (1 + sqrt(1 - s))^2 / s. Removing: increasing in q, finite if (a-1) n q < (n+1)(n+a). Adding: for
    a < n+1; increasing in q if a <= (n+1)^2/(2n+1), otherwise it falls and then rises: the larger end counts.
    """
    if order >= n + 1:
        return None
    with precision(BITS):
        q = _q_max(min_eigenvalue, dims)
        if not (ball(order) - 1) * n * q < ball((n + 1) * (n + order)):
            return None

    def add(a: Ball, q: Ball) -> Ball:
        change = (n * q / (n + 1) - 1) / (n + 1)
        return (
            a / 2 * q / ((n + 1) ** 2 * (1 + a * change))
            + _h(a, change)
            + (dims - 1) * _h(a, ball(Fraction(-1, n + 1)))
        )

    def remove(a: Ball, q: Ball) -> Ball:
        below = n * (n + 1 + q)
        change = (n + 1 - n * q) / below
        return (
            a / 2 * q / (below * (1 + a * change)) + _h(a, change) + (dims - 1) * _h(a, ball(Fraction(1, n)))
        )

    def worst(a: Ball) -> Ball:
        most = _q_max(min_eigenvalue, dims)
        both = add(a, most).max(remove(a, most))
        return both if order * (2 * n + 1) <= (n + 1) ** 2 else both.max(add(a, ball(0)))

    return _above(worst, order)


def private_ridge(order: Fraction, n: int, tau: Fraction, dims: int) -> Fraction | None:
    """n and n + 1 records, with a ridge, whatever the data. Not the formula above with another letter: that is false.

    For a < n+1 and (a-1) n tau < (n+1)^2. Decreasing in n, so it holds for all larger sizes too.
    """
    if order >= n + 1 or (order - 1) * n * tau >= (n + 1) ** 2:
        return None
    change = (n * tau / (n + 1) - 1) / (n + 1)
    out, into = Fraction(-1, n + 1), Fraction(1, n)

    def add(a: Ball) -> Ball:
        top = _h(a, ball(out)).max(_h(a, ball(n * tau / (n + 1) ** 2)))
        return a / 2 * ball(tau / ((n + 1) ** 2 * (1 + order * change))) + top + (dims - 1) * _h(a, ball(out))

    def remove(a: Ball) -> Ball:
        top = _h(a, ball(-n * tau / ((n + 1) ** 2 + n * tau))).max(_h(a, ball(into)))
        return (
            a / 2 * ball(tau / ((n + 1) ** 2 - (order - 1) * n * tau)) + top + (dims - 1) * _h(a, ball(into))
        )

    return _above(lambda a: add(a).max(remove(a)), order)


def _h(a: Ball, change: Ball) -> Ball:
    return (a * (1 + change).log() - (1 + a * change).log()) / (2 * (a - 1))


def _q_max(min_eigenvalue: Fraction, dims: int) -> Ball:
    return dims * (1 + ball(1 - min_eigenvalue).sqrt()) ** 2 / ball(min_eigenvalue)


def _above(value: Callable[[Ball], Ball], order: Fraction) -> Fraction:
    """The value, rounded up; never below it."""

    def real() -> Ball:
        with precision(BITS):
            return value(ball(order))

    return round_up(real)


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

    >>> ob.synth.rdp_public_n(order=4, n=1000, dims=2, ridge="0.1")
    0.008904...
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

    >>> ob.synth.rdp_private_n(order=4, n=1000, dims=2, ridge="0.1")
    0.007438...
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
        return lambda order: public_paper(order, size, tau)
    return lambda order: public_tight(order, size, tau)


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
        return lambda order: private_ridge(order, size, tau, width)
    if bound == "paper":
        return lambda order: private_paper(order, size, tau, width)
    return lambda order: private_exact(order, size, 4 * width / tau, width)


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
            needed="an order within the conditions of the bound (oboro.synth.curves), for this n, dims and eigenvalue",
            fix="a smaller order, a larger n, or a larger ridge",
        )
    return cost


def _tau(dims: int, min_eigenvalue: Number | None, ridge: Number | None) -> Fraction:
    if (min_eigenvalue is None) == (ridge is None):
        raise ParameterError(
            "either min_eigenvalue or ridge is needed",
            given="both" if ridge is not None else "neither",
            needed="ridge, which promises for every dataset, or min_eigenvalue, which assumes something of it",
            fix=setting(ridge="0.01") if ridge is None else setting(min_eigenvalue=None),
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


# What N records cost in all, by every bound, in one small table.


@dataclass(frozen=True, slots=True)
class Line:
    """One bound: what it promises by the paper's conversion and by the tight one; None where it holds at no order."""

    adjacency: str
    bound: str
    simple: Best | None
    tight: Best | None


@dataclass(frozen=True, slots=True)
class Account:
    """The cost of `records` synthetic records drawn from n rows; prints as a table.

    >>> cost = ob.synth.account(n=100_000, dims=5, records=1, delta="1e-6", ridge="0.1")
    >>> cost.guarantee("replace")
    Approx('0.01628...', '1e-6')
    """

    n: int
    dims: int
    records: int
    delta: Fraction
    min_eigenvalue: Fraction | None
    ridge: Fraction | None
    lines: tuple[Line, ...] = field(repr=False)

    @property
    def assumption(self) -> str | None:
        return None if self.min_eigenvalue is None else eigenvalue_assumption(self.min_eigenvalue)

    def guarantee(self, adjacency: str = "replace") -> Guarantee:
        """The best that is proved under one adjacency."""
        found = [line.tight.approx for line in self.lines if line.adjacency == adjacency and line.tight]
        best: Guarantee = min(found, key=lambda approx: approx.eps) if found else Approx("1e9", self.delta)
        return best if self.assumption is None else Conditional(best, self.assumption)

    def to_dict(self) -> dict[str, object]:
        def told(best: Best | None) -> dict[str, object] | None:
            if best is None:
                return None
            return {"order": show(best.order), "renyi": show(best.renyi), "eps": show(best.approx.eps)}

        return {
            "n": self.n,
            "dims": self.dims,
            "records": self.records,
            "delta": show(self.delta),
            "min_eigenvalue": None if self.min_eigenvalue is None else show(self.min_eigenvalue),
            "ridge": None if self.ridge is None else show(self.ridge),
            "assumption": self.assumption,
            "bounds": [
                {
                    "adjacency": line.adjacency,
                    "bound": line.bound,
                    "simple": told(line.simple),
                    "tight": told(line.tight),
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        width = (
            f"ridge {show(self.ridge)}"
            if self.ridge is not None
            else f"min_eigenvalue {show(self.min_eigenvalue or 0)}"
        )
        rows = [
            [
                "adjacency",
                "bound",
                "order",
                "Rényi eps",
                "eps (paper's rule)",
                "order",
                "Rényi eps",
                "eps (tight rule)",
            ]
        ]
        for line in self.lines:
            cells = [line.adjacency, line.bound]
            for best in (line.simple, line.tight):
                cells += (
                    ["-", "-", "-"]
                    if best is None
                    else [about(best.order), about(best.renyi, 6), about(best.approx.eps, 7)]
                )
            rows.append(cells)
        title = f"{self.records:,} records from n = {self.n:,} rows of {self.dims} columns, {width}, delta = {show(self.delta)}"
        lines = [
            title,
            "",
            *aligned(rows, "<<>"),
            "",
            "  add/remove: n is the smaller size of the pair, and must be a public lower bound; the number of records is public",
        ]
        if self.assumption is not None:
            lines.append(f"  all of this holds only provided that {self.assumption}")
        return "\n".join(lines)


def account(
    *,
    n: Number,
    dims: int,
    records: Number,
    delta: Number,
    min_eigenvalue: Number | None = None,
    ridge: Number | None = None,
) -> Account:
    """What `records` records cost under both adjacencies, by the paper's bounds and by the tighter ones.

    >>> cost = ob.synth.account(n=100_000, dims=5, records=1, delta="1e-6", ridge="0.1")
    >>> cost.guarantee("replace")
    Approx('0.01628...', '1e-6')
    >>> print(cost)
    1 records from n = 100,000 rows of 5 columns, ridge 0.1, delta = 1e-6
    <BLANKLINE>
      adjacency   bound  order   Rényi eps  eps (paper's rule)  order   Rényi eps  eps (tight rule)
      add/remove  ridge  483.3  0.00260129          0.03124566  472.9  0.00213471        0.01624334
      replace     ridge  482.3  0.00260643          0.03130827    472  0.00213913        0.01628011
    <BLANKLINE>
      add/remove: n is the smaller size of the pair, and must be a public lower bound; the number of records is public
    """
    from oboro.exact import rational

    size, count = whole("n", n, least=2), whole("records", records, least=1, most=10**12)
    small = positive_delta(delta)
    names = [("add/remove", "exact"), ("replace", "tight")]
    if ridge is None:
        names = [("add/remove", "exact"), ("add/remove", "paper"), ("replace", "tight"), ("replace", "paper")]
    lines = []
    for adjacency, bound in names:
        make = private_curve if adjacency == "add/remove" else public_curve
        curve: Curve = make(size, dims, min_eigenvalue, ridge, bound)
        lines.append(
            Line(
                adjacency,
                bound if ridge is None else "ridge",
                best_order(curve, count, small, "simple"),
                best_order(curve, count, small),
            )
        )
    return Account(
        size,
        whole("dims", dims, least=1),
        count,
        small,
        None if min_eigenvalue is None else rational("min_eigenvalue", min_eigenvalue),
        None if ridge is None else rational("ridge", ridge),
        tuple(lines),
    )


def eigenvalue_assumption(least: Fraction) -> str:
    """How a conditional guarantee says what it rests on."""
    return (
        f"the covariance of the data, scaled to [-1, 1], has no eigenvalue below {show(least)}, "
        "and the same is true of every dataset that differs in one row"
    )
