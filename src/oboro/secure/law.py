"""Urns, and the exact law of a sum of draws from them: whole-number weights over a common total."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import factorial, prod
from operator import mul

from flint import arb, fmpz_poly

from oboro.errors import ParameterError, setting, told
from oboro.exact import remembered, whole
from oboro.kinds import list_of, takes
from oboro.noise.laplace import check_level
from oboro.noise.lazy import ball, precision

LARGEST_VALUE = 2**48
MOST_VALUES = 2**16  # different values in one urn
MOST_ENTRIES = 2**62
LONGEST_SUPPORT = 2**22


@dataclass(frozen=True, slots=True)
class Urn:
    """A multiset of whole numbers: `counts[i]` entries of the value `first + i * step`.

    >>> urn = ob.secure.Urn.symmetric(1, [4, 2, 1])
    >>> urn.size, urn.entries()
    (10, [-2, -1, -1, 0, 0, 0, 0, 1, 1, 2])
    """

    first: int
    step: int
    counts: tuple[int, ...]

    @takes(counts=list_of)
    def __init__(self, first: int, step: int, counts: Iterable[int]) -> None:
        inside = tuple(whole("counts", count, most=MOST_ENTRIES) for count in counts)
        object.__setattr__(self, "first", whole("first", first, least=-LARGEST_VALUE, most=LARGEST_VALUE))
        object.__setattr__(self, "step", whole("step", step, least=1, most=LARGEST_VALUE))
        object.__setattr__(self, "counts", inside)
        if not inside or len(inside) > MOST_VALUES or not inside[0] or not inside[-1]:
            raise ParameterError(
                "the counts of an urn do not describe one",
                given=f"{len(inside)} counts, {list(inside[:4])}...",
                needed=f"1 to {MOST_VALUES} counts, the first and the last above 0",
                fix="counts = [1, 3, 1]",
            )

    @classmethod
    def symmetric(cls, step: int, counts: Sequence[int]) -> Urn:
        """`counts` of 0, of +-step, of +-2 steps, ..."""
        return cls(-step * (len(counts) - 1), step, (*reversed(counts[1:]), *counts))

    @property
    def size(self) -> int:
        """How many entries it has."""
        return sum(self.counts)

    @property
    def last(self) -> int:
        return self.first + self.step * (len(self.counts) - 1)

    def entries(self) -> list[int]:
        """Every entry, in order of value."""
        return [
            self.first + self.step * index for index, count in enumerate(self.counts) for _ in range(count)
        ]

    def stretched(self, times: int = 1) -> Law:
        """The law of one entry, multiplied by `times`."""
        weights = [0] * (times * (self.last - self.first) + 1)
        weights[:: times * self.step] = self.counts
        return Law(times * self.first, tuple(weights))


@dataclass(frozen=True, slots=True)
class Law:
    """P(Z = lowest + i) = weights[i] / total, exactly.

    >>> law = ob.secure.Urn.symmetric(1, [4, 2, 1]).stretched()
    >>> law, law.mean_abs, law.interval(0.75)
    (Law(lowest=-2, weights=(1, 2, 4, 2, 1)), Fraction(4, 5), (-1, 1))
    """

    lowest: int
    weights: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.weights)

    @property
    def highest(self) -> int:
        return self.lowest + len(self.weights) - 1

    @property
    def symmetric(self) -> bool:
        return self.weights == self.weights[::-1]

    @property
    def mean_abs(self) -> Fraction:
        """E|Z|."""
        sizes = (abs(k) * weight for k, weight in enumerate(self.weights, self.lowest))
        return Fraction(sum(sizes), self.total)

    @property
    def variance(self) -> Fraction:
        first = Fraction(sum(k * weight for k, weight in enumerate(self.weights, self.lowest)), self.total)
        second = Fraction(
            sum(k * k * weight for k, weight in enumerate(self.weights, self.lowest)), self.total
        )
        return second - first**2

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """The smallest symmetric range that holds a draw with at least this probability."""
        allowed = (1 - Fraction(check_level(level))) * self.total
        reach = max(abs(self.lowest), abs(self.highest))
        outside = 0
        while reach > 0:
            outside += self._weight(reach) + self._weight(-reach)
            if outside > allowed:
                break
            reach -= 1
        return -reach, reach

    def __add__(self, other: Law) -> Law:
        """The law of the sum of two independent draws."""
        product = fmpz_poly(list(self.weights)) * fmpz_poly(list(other.weights))
        return Law(self.lowest + other.lowest, tuple(int(weight) for weight in product.coeffs()))

    def to_dict(self) -> dict[str, str | int]:
        """The law and its public parameters, for certificates."""
        return {"law": "sum of draws from urns", "lowest": self.lowest, "highest": self.highest}

    def _weight(self, k: int) -> int:
        index = k - self.lowest
        return self.weights[index] if 0 <= index < len(self.weights) else 0


def law_of(urns: Sequence[Urn], draws: int = 1) -> Law:
    """The law of the sum of `draws` entries from each urn, every entry drawn from the whole urn."""
    if not urns or draws < 1:
        raise ParameterError(
            "there is nothing to draw from",
            given=f"{len(urns)} urns, {draws} draws",
            needed="at least one of each",
            fix=setting(draws=1),
        )
    support = draws * sum(urn.last - urn.first for urn in urns) + 1
    if support > LONGEST_SUPPORT:
        raise ParameterError(
            "the noise has too many possible values",
            given=f"{support:,}",
            needed=f"at most {LONGEST_SUPPORT:,}",
            fix="a larger eps, or a coarser step of the answer",
        )
    return reduce(Law.__add__, [urn.stretched() for urn in urns for _ in range(draws)])


# What noise from urns promises, exactly: delta(eps), for everybody and for the party that drew.
#
# For two answers that differ by s, the smallest delta that goes with eps is
#     delta_s = sum over k of max(0, P(Z = k) - e^eps P(Z = k - s)),
# and the promise needs the largest of these over 1 <= |s| <= sensitivity. All weights are integers. e^eps is
# transcendental for rational eps > 0 (Lindemann), and is enclosed between two rationals with ball arithmetic;
# that gives two rationals around delta, with more bits until the question is settled. No float decides.
#
# Privacy
#     Theorem 4.1 of Kii is the special case where the weights rise to the middle and no step up exceeds
#     e^(eps/sensitivity): then only the ends count, and delta_s is their weight. It is right, and tight. What
#     is checked here needs none of its conditions, and holds for every law.

MOST_WORK = 2**25  # words of 64 bits that are compared: some ten seconds
MOST_DRAWS = 6  # set partitions of the draws are listed: 203 of them


@dataclass(frozen=True, slots=True)
class Between:
    """A real number between two rationals; known exactly where they are equal."""

    low: Fraction
    high: Fraction


def exact_delta(law: Law, eps: Fraction, sensitivity: int, *, bits: int = 128) -> Between:
    """delta(eps) over all shifts up to the sensitivity, within a relative error of about 2^-bits.

    >>> from fractions import Fraction
    >>> law = ob.secure.Urn.symmetric(1, [4, 2, 1]).stretched()
    >>> ob.secure.exact_delta(law, Fraction(1), sensitivity=1)
    Between(low=Fraction(1, 10), high=Fraction(1, 10))
    """
    sensitivity = whole("sensitivity", sensitivity, least=1)
    bits += law.total.bit_length()
    check_work(len(law.weights), law.total, sensitivity)
    e = _exp_floor(eps, bits)
    shifts = range(1, min(sensitivity, len(law.weights)) + 1)  # beyond that nothing overlaps: delta = 1
    ways = (law.weights,) if law.symmetric else (law.weights, law.weights[::-1])
    high, worst, shift = max((_excess(way, s, e, bits), way, s) for way in ways for s in shifts)
    unit = law.total << bits
    return Between(Fraction(_excess(worst, shift, e + 1, bits), unit), Fraction(high, unit))


def check_work(values: int, total: int, sensitivity: int, laws: int = 1) -> None:
    """Refuses what would take minutes: `laws` laws of so many values and so large a total, at every shift."""
    words = 3 + 2 * total.bit_length() // 64
    if laws * values * min(sensitivity, values) * words > MOST_WORK:
        raise ParameterError(
            "the noise has too many values to be verified at every shift",
            given=f"{values:,} values, sensitivity {sensitivity}",
            needed=f"a product of at most {MOST_WORK // (laws * words):,}",
            fix="a coarser step of the answer: round it, and divide the sensitivity",
        )


def keeps(law: Law, eps: Fraction, delta: Fraction, sensitivity: int) -> bool:
    """Whether delta(eps) <= delta, decided beyond doubt."""
    bits = 128
    while True:
        found = exact_delta(law, eps, sensitivity, bits=bits)
        if found.high <= delta or found.low > delta:
            return found.high <= delta
        bits *= 2  # ends: delta(eps) is rational and then found exactly, or it is not and differs from delta


def drawer_delta(urn: Urn, draws: int, eps: Fraction, sensitivity: int) -> Between:
    """delta(eps) for a party that drew `draws` times from one urn, knows its indices, and sees the noisy answer.

    Indices that coincide show that the same entry was added several times, and different indices that the
    entries were drawn without replacement. Given which indices coincide (a set partition with blocks of sizes
    b_1, ..., b_m) the noise is b_1 X_1 + ... + b_m X_m for m different entries; delta is the mean over partitions.

    >>> from fractions import Fraction
    >>> ob.secure.drawer_delta(ob.secure.Urn.symmetric(1, [4, 2, 1]), 2, Fraction(1), sensitivity=1)
    Between(low=Fraction(7, 50), high=Fraction(7, 50))
    """
    draws = whole("draws", draws, least=1, most=MOST_DRAWS)
    low = high = Fraction(0)
    span = draws * (urn.last - urn.first) + 1
    check_work(span, urn.size**draws, sensitivity, laws=len(_partition_types(draws)))
    sums = {blocks: _sum_of(urn, blocks) for blocks, _ in _partition_types(draws)}
    for blocks, ways in _partition_types(draws):
        chance = Fraction(ways * prod(urn.size - i for i in range(len(blocks))), urn.size**draws)
        if chance > 0:
            law = Law(draws * urn.first, _without_replacement(sums, blocks))
            found = exact_delta(law, eps, sensitivity)
            low, high = low + chance * found.low, high + chance * found.high
    return Between(low, high)


def conditions(law: Law, eps: Fraction, delta: Fraction, sensitivity: int) -> dict[str, bool]:
    """The five conditions of Theorem 4.1, which are enough for (eps, delta), but not needed.

    Condition (iii) is taken without its strictness, and w > 1 is dropped: the proof needs neither.

    >>> from fractions import Fraction
    >>> law = ob.secure.Urn.symmetric(1, [4, 2, 1]).stretched()
    >>> ob.secure.conditions(law, Fraction(1), Fraction(1, 5), sensitivity=1)
    {'i': True, 'ii': True, 'iii': True, 'iv': True, 'v': True}
    """
    rise = law.weights[: len(law.weights) // 2 + 1]
    pairs = list(pairwise(rise))
    rate = eps / sensitivity
    return {
        "i": law.symmetric and law.lowest == -law.highest,
        "ii": min(law.weights) > 0,
        "iii": all(a <= b for a, b in pairs),
        "iv": all(_at_most_exp(Fraction(b, a), rate) for a, b in pairs if a > 0),
        "v": Fraction(sum(law.weights[:sensitivity]), law.total) <= delta,
    }


def exp_between(rate: Fraction, bits: int) -> Between:
    """e^rate within 2^-bits."""
    e = _exp_floor(rate, bits)
    return Between(Fraction(e, 1 << bits), Fraction(e + 1, 1 << bits))


def _excess(weights: tuple[int, ...], shift: int, e: int, bits: int) -> int:
    """2^bits times the sum of max(0, weight - (e / 2^bits) weight one shift before)."""
    total = sum(weights[:shift]) << bits
    for here, before in zip(weights[shift:], weights, strict=False):
        over = (here << bits) - e * before
        if over > 0:
            total += over
    return total


def _at_most_exp(ratio: Fraction, rate: Fraction) -> bool:
    bits = 128
    while True:
        e = exp_between(rate, bits)
        if ratio <= e.low or ratio > e.high:
            return ratio <= e.low
        bits *= 2


@remembered(64)
def _exp_floor(rate: Fraction, bits: int) -> int:
    """floor(2^bits e^rate), beyond doubt."""
    if not 0 < rate <= 64:
        raise ParameterError(
            "eps is out of range",
            given=told(eps=f"{rate}"),
            needed="above 0 and at most 64",
            fix=setting(eps=1),
        )
    digits = bits + 160
    while True:
        with precision(digits):
            scaled = ball(rate).exp() * arb(2) ** bits
            low, high = (int(end.floor().unique_fmpz()) for end in (scaled.lower(), scaled.upper()))
        if low == high:
            return low
        digits *= 2


def _sum_of(urn: Urn, blocks: tuple[int, ...]) -> fmpz_poly:
    """The weights of b_1 X_1 + ... + b_m X_m for independent entries; its lowest value is always that of as many draws."""
    return reduce(mul, (fmpz_poly(list(urn.stretched(size).weights)) for size in blocks))


def _without_replacement(sums: dict[tuple[int, ...], fmpz_poly], blocks: tuple[int, ...]) -> tuple[int, ...]:
    """The weights of the same for different entries, by Möbius inversion over which of them may coincide.

    A coarser partition is known by its block sizes: 11 sums serve all 203 partitions of six draws.
    """
    signs: dict[tuple[int, ...], int] = {}
    for coarse in _set_partitions(list(blocks)):
        sizes = tuple(sorted(sum(group) for group in coarse))
        sign = prod((-1) ** (len(group) - 1) * factorial(len(group) - 1) for group in coarse)
        signs[sizes] = signs.get(sizes, 0) + sign
    weights = sum((sign * sums[sizes] for sizes, sign in signs.items()), fmpz_poly([]))
    found = [int(weight) for weight in weights.coeffs()]
    return (*found, *[0] * (sums[blocks].length() - len(found)))  # the highest value may be out of reach


def _partition_types(n: int) -> list[tuple[tuple[int, ...], int]]:
    """Block sizes of all set partitions of n draws, and how many partitions have them."""
    found: dict[tuple[int, ...], int] = {}
    for partition in _set_partitions([1] * n):
        blocks = tuple(sorted(sum(group) for group in partition))
        found[blocks] = found.get(blocks, 0) + 1
    return list(found.items())


def _set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """All ways to put items, told apart by their places, into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in _set_partitions(rest):
        yield [[first], *partition]
        for index, group in enumerate(partition):
            yield [*partition[:index], [first, *group], *partition[index + 1 :]]
