"""Bounds on what one synthetic record costs, in ball arithmetic: certain, and stable however large n is.

The mechanism takes n records in [-1, 1]^d, with mean mu and covariance S (divided by n), and draws from
N(mu, S), or with a ridge r from N(mu, S + r I). Clipping and rounding come after and cost nothing. Write

    tau = 4d / min_eigenvalue  or  4d / ridge,    k = (n-1)/n^2,
    h(l) = (a ln(1+l) - ln(1+a l)) / (2(a-1)),    a = order.

Each function gives the divergence of that order for any two neighbours, or None outside its conditions.
`min_eigenvalue` is an assumption about the data, which nobody can check without looking; a ridge needs none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy.rounding import round_up

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


def _above(value: Any, order: Fraction) -> Fraction:
    """The value, rounded up; never below it."""

    def real() -> Ball:
        with precision(BITS):
            return value(ball(order))

    return round_up(real)
