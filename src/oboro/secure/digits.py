"""Digit urns: one small symmetric urn for each digit of the noise, one draw from each.

A discrete Laplace variable is G1 - G2, two geometric ones. In mixed radix the digits of a geometric variable are
independent, so the differences of digits are too: digit d of place value s and radix r has a weight in
proportion to q^|d| (1 - q^(2 (r - |d|))) with q = e^(-eps s). Rounded to whole counts, these urns need about
the m-th root of 1/delta entries each, are drawn once each, and P2 gains nothing from knowing its indices.

Which radices, counts and place values need the fewest entries is found by search: simulated annealing in floating
point, from many starts. A search may be wrong, so exact integers decide: only urns that keep the promise are given.

Privacy
    `oboro.secure.law` computes delta(eps) of what is returned; nothing rests on the search.
    A sensitivity D above 1 is served by D Z + U, with U uniform on D consecutive values from its own urn: at shift
    s its delta is (s/D) delta_Z. Multiplying the place values by D would leave delta = 1 at shift 1. For even D the
    two centred choices of U are mixed half and half, and delta is convex.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations

import numpy as np
import numpy.typing as npt

from oboro.errors import GuaranteeError, InputError, ParameterError, told
from oboro.secure.law import Urn, keeps, law_of

MOST_SENSITIVITY = 10_000
_EDGES = (1, 2, 4, 8, 16, 32, 64)  # entries of the largest digit in the first urn
_FLATTER = (1.0, 0.98, 0.95, 0.9, 0.85)  # a law of a smaller eps leaves room for rounding
_MOST_RADICES = 700
_CANDIDATES = 40  # that are tried exactly, best first
_PHASES = (
    (2000, 0.1, 2, 0.5),
    (40_000, 0.1, 16, 0.75),
    (300_000, 0.1, 3, 1.0),
)  # rounds, heat, kept, share of time

Progress = Callable[[float], None]
_State = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]
]  # place values, radices, counts


def digit_urns(
    eps: Fraction,
    delta: Fraction,
    urns: int,
    *,
    excess: Fraction,
    seconds: float,
    progress: Progress | None = None,
) -> tuple[Urn, ...]:
    """Urns for sensitivity 1 with few entries and E|Z| at most (1 + excess)/sinh(eps), if the time suffices.

    The same question gives the same urns, unless the time limit cuts the search short.
    """
    for state in _search(
        float(eps), float(delta), urns, float(excess), seconds, progress or (lambda share: None)
    ):
        found = _exactly(state, eps, delta)
        if found is not None:
            return found
    raise GuaranteeError(
        "no digit urns were found that keep the promise",
        given=f"{urns} urns within {seconds:g} s",
        needed="more time, more urns, or a larger eps or delta",
        fix=told(urns=f"{urns + 1}", seconds=f"{4 * seconds:g}"),
    )


def uniform_urn(sensitivity: int) -> Urn:
    """U: uniform on `sensitivity` consecutive values around 0; for an even number, on two such ranges in turn."""
    if sensitivity > MOST_SENSITIVITY:
        raise ParameterError(
            "sensitivity is too large for an urn",
            given=told(sensitivity=f"{sensitivity}"),
            needed=f"at most {MOST_SENSITIVITY:,}",
            fix="a coarser step of the answer: round it, and divide the sensitivity",
        )
    half = sensitivity // 2
    if sensitivity % 2:
        return Urn(-half, 1, [1] * sensitivity)
    return Urn(-half, 1, [1, *[2] * (sensitivity - 1), 1])


def scaled(urns: tuple[Urn, ...], sensitivity: int) -> tuple[Urn, ...]:
    """The urns of D Z + U."""
    if sensitivity == 1:
        return urns
    wider = tuple(Urn(urn.first * sensitivity, urn.step * sensitivity, urn.counts) for urn in urns)
    return (*wider, uniform_urn(sensitivity))


def _exactly(state: _State, eps: Fraction, delta: Fraction) -> tuple[Urn, ...] | None:
    """The urns of a state that keep the promise beyond doubt; a few entries more where rounding misled the search."""
    steps, sizes, counts = state
    inside = [[int(c) for c in row[:size]] for row, size in zip(counts, sizes, strict=True)]
    for _ in range(20):
        try:
            urns = tuple(Urn.symmetric(int(step), row) for step, row in zip(steps, inside, strict=True))
        except InputError:  # more entries than an urn holds
            return None
        if keeps(law_of(urns), eps, delta, 1):
            return urns
        inside[-1][0] += 1 + inside[-1][0] // 1000
    return None


def _search(
    eps: float, delta: float, urns: int, excess: float, seconds: float, progress: Progress
) -> list[_State]:
    """States that look good, best first."""
    from oboro.secure._compiled import anneal

    growth, mean = math.exp(eps), (1 + excess) / math.sinh(eps)
    reach = max(1.0, (math.log(1 / delta) + math.log(math.tanh(eps / 2))) / eps)
    radices = _radices(urns, reach)
    one = np.ones(1, np.int64)
    anneal(
        one, one, np.ones((1, 1)), growth, delta, mean, 0, 1.0, 1
    )  # compiles it: the limit is for the search alone
    began, pace = time.monotonic(), math.inf  # seconds for one round, once known
    pool: list[tuple[float, _State]] = []
    before = 0.0
    for phase, (rounds, heat, kept, share) in enumerate(_PHASES):
        starts = [state for _, state in pool[:kept]]
        fresh = (state for some in radices for state in _starts(some, eps, delta, mean)[:kept])
        expected = len(starts) if phase else kept * len(radices)
        for number, state in enumerate(starts if phase else fresh):
            begun = time.monotonic()
            left = began + share * seconds - begun
            if left <= 0 and pool:
                break
            allowed = rounds if not phase else max(1, min(rounds, int(left / pace)))
            steps, sizes, counts = state[0].copy(), state[1].copy(), state[2].copy()
            cost = float(anneal(steps, sizes, counts, growth, delta, mean, allowed, heat, number + 1))
            pace = min(pace, (time.monotonic() - begun) / allowed)
            pool.append((cost, (steps, sizes, counts)))
            progress(before + (share - before) * min(1.0, (number + 1) / expected))
        pool.sort(key=lambda one: one[0])
        before = share
    progress(1.0)
    return [state for _, state in pool[:_CANDIDATES]]


def _starts(radices: tuple[int, ...], eps: float, delta: float, mean: float) -> list[_State]:
    """Rounded ideal digits, at several sizes, best first."""
    from oboro.secure._compiled import cost_of, judge

    steps = np.cumprod([1, *radices[:-1]]).astype(np.int64)
    sizes = np.asarray(radices, np.int64)
    law = np.zeros(2 * math.prod(radices) + 9)
    spare = law.copy()
    share = 3 * (8 / delta) ** (1 / len(radices))
    judged: list[tuple[float, _State]] = []
    for flatter in _FLATTER:
        for edge in _EDGES:
            counts = np.zeros((len(radices), max(radices)))
            for j, radix in enumerate(radices):
                q = max(math.exp(-flatter * eps * float(steps[j])), 5e-324)  # it has a logarithm
                weights = np.asarray(
                    [q**d * -math.expm1(2 * (radix - d) * math.log(q)) for d in range(radix)]
                )
                scale = min(max(1.0, edge / 4**j) / max(weights[-1], 1e-300), share / weights[0])
                counts[j, :radix] = np.maximum(1, np.rint(scale * weights))
            entries, found, error = judge(steps, sizes, counts, math.exp(eps), law, spare)
            cost = float(cost_of(entries, found, error, delta, mean, 1.0))
            judged.append((cost, (steps, sizes, counts)))
    return [state for _, state in sorted(judged, key=lambda one: one[0])]


def _radices(urns: int, reach: float) -> list[tuple[int, ...]]:
    """Radices whose product covers the support that delta asks for; falling ones first, which mostly win."""
    low, high = 0.9 * reach, max(1.9 * reach, 2.0**urns)
    falling = list(_falling(urns, low, high, int(high)))
    thinned = falling[:: -(-len(falling) // _MOST_RADICES)]
    others: list[tuple[int, ...]] = []
    for radices in thinned:
        if len(thinned) + len(others) > _MOST_RADICES:
            break
        others += sorted(set(permutations(radices)) - {radices})
    return [*thinned, *others]


def _falling(urns: int, low: float, high: float, largest: int) -> Iterator[tuple[int, ...]]:
    if urns == 0:
        if low <= 1:
            yield ()
        return
    for radix in range(2, min(largest, int(high / 2 ** (urns - 1))) + 1):
        for rest in _falling(urns - 1, low / radix, high / radix, radix):
            yield (radix, *rest)


def lower_bound(delta: Fraction, draws: int) -> int:
    """No urns with `draws` draws in all have fewer entries: the product of their sizes must reach 1/delta.

    The largest possible value of the noise has a probability of at least 1 / (product of sizes), and at that value
    the answer one unit away is impossible. The sum of numbers of given product is least when they are equal.
    """
    needed = -(-delta.denominator // delta.numerator)
    smaller = round(math.exp(math.log(needed) / draws)) + 1
    while int(smaller**draws) > needed:
        smaller -= 1
    # whole sizes: as few of the larger ones as will do
    larger = next(k for k in range(draws + 1) if (smaller + 1) ** k * smaller ** (draws - k) >= needed)
    return draws * smaller + larger


def optimum(eps: Fraction, sensitivity: int) -> float:
    """E|Z| of the discrete Laplace law, which no eps-DP noise on the integers beats by much: 1/sinh(eps/D)."""
    return 1 / math.sinh(float(eps) / sensitivity)
