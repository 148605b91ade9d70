"""Algorithm 2 of Kii: one urn from which n entries are drawn, so that their sum is nearly discrete Laplace.

The urn is built from its ends inwards. With counts a_0, ..., a_L of the values -+(L), ..., 0 the next count is the
largest for which the n-fold convolution c rises by at most e^(eps/sensitivity) from place L to L + 1. Only one
coefficient of the convolution is new in each step [J.C.P. Miller's recurrence, exact integers]:
    a_0 m c_m = sum over k = 1..m of (n k - (m - k)) a_k c_(m-k).

Three choices are not printed, or printed wrongly, and are those that give the paper's tables: solutions are rounded
down; the count of 0 is the last of D (line 16 prints D[i]); and the printed tables stop by the sum of D, not of the
symmetric D that the proof speaks of. Conjecture 4.2.1 is false, so what comes out must be verified before use.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import about, positive, whole
from oboro.secure.law import Urn
from oboro.secure.promise import MOST_DRAWS, exp_between

STOPS = ("tables", "proof")
MOST_STEPS = 3000
MOST_INIT = 10**6


def algorithm2(
    eps: Fraction,
    delta: Fraction,
    sensitivity: int,
    draws: int,
    *,
    init: int | None = None,
    stop: str = "tables",
) -> Urn:
    """The urn of Algorithm 2. Not verified: `oboro.secure.plan` does that.

    `stop="tables"` is the rule behind the paper's tables, `stop="proof"` the one its proof needs; it ends earlier.
    """
    draws = whole("draws", draws, least=1, most=MOST_DRAWS)
    if not isinstance(stop, str) or stop not in STOPS:
        raise ParameterError(
            "stop is unknown",
            given=told(stop=repr(stop)),
            needed='"tables" or "proof"',
            fix=setting(stop="tables"),
        )
    eps, delta = positive("eps", eps), positive("delta", delta)
    sensitivity = whole("sensitivity", sensitivity, least=1)
    rate = eps / sensitivity
    start = smallest_init(rate, draws) if init is None else whole("init", init, least=1, most=MOST_INIT)
    counts: list[int] = []
    ends, inner = 0, 0  # the sum of c_k for k < sensitivity; the sum of all counts but the last
    for last, coefficient in _steps(rate, draws, start, counts):
        if len(counts) <= sensitivity:
            ends += coefficient
        if len(counts) >= 2:
            total = inner + last if stop == "tables" else 2 * inner + last
            # L + 1 >= sensitivity, with L + 1 = len(counts)
            if len(counts) >= sensitivity and ends <= delta * total**draws:
                return Urn.symmetric(1, counts[::-1])
        inner += last
    raise AssertionError  # pragma: no cover  # _steps raises first


def smallest_init(rate: Fraction, draws: int) -> int:
    """The smallest I such that every init >= I satisfies the paper's (4): floor(e^rate init / n) > init / n."""
    if rate < Fraction(draws, MOST_INIT):
        raise ParameterError(
            "Algorithm 2 needs too large an init",
            given=f"eps / sensitivity = {about(rate)}, " + told(draws=f"{draws}"),
            needed=f"eps / sensitivity of at least draws / {MOST_INIT:,}",
            fix="a larger eps, or a coarser step of the answer",
        )
    e = exp_between(rate, 256)
    enough = ceil(draws / (e.low - 1))  # from here on the two sides differ by 1 or more
    for init in range(enough, 0, -1):
        if int(e.low * init / draws) <= Fraction(init, draws):
            return init + 1
    return 1


def _steps(rate: Fraction, draws: int, init: int, counts: list[int]) -> Iterator[tuple[int, int]]:
    """Appends to `counts`, each time yielding the new count and the new coefficient of the convolution."""
    counts.append(init)
    convolution = [init**draws]
    yield init, convolution[0]
    slope = draws * init ** (draws - 1)
    while len(counts) < MOST_STEPS:
        m = len(counts)
        known = sum((draws * k - (m - k)) * counts[k] * convolution[m - k] for k in range(1, m))
        rest = known // (init * m)
        count = _largest(convolution[-1], rest, slope, rate)
        if count < 0:
            raise GuaranteeError(
                "Algorithm 2 asks for a negative number of entries",
                given=told(init=f"{init}"),
                needed="a larger init",
                fix=told(init=f"{2 * init}"),
            )
        counts.append(count)
        convolution.append(rest + slope * count)
        yield count, convolution[-1]
    raise ParameterError(
        "Algorithm 2 does not end soon enough",
        given=f"{MOST_STEPS:,} steps without reaching delta",
        needed="a larger eps for this sensitivity, or a larger delta",
        fix="a coarser step of the answer",
    )


def _largest(before: int, rest: int, slope: int, rate: Fraction) -> int:
    """floor((e^rate before - rest) / slope), beyond doubt."""
    bits = 64 + before.bit_length()
    while True:
        e = exp_between(rate, bits)
        low, high = ((bound * before - rest) // slope for bound in (e.low, e.high))
        if low == high:
            return low
        bits *= 2
