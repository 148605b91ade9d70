"""Urns, and the exact law of a sum of draws from them: whole-number weights over a common total."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from flint import fmpz_poly

from oboro.errors import ParameterError, setting
from oboro.exact import whole
from oboro.kinds import list_of, takes
from oboro.noise.laplace import check_level

LARGEST_VALUE = 2**48
MOST_VALUES = 2**16  # different values in one urn
MOST_ENTRIES = 2**62
LONGEST_SUPPORT = 2**22


@dataclass(frozen=True, slots=True)
class Urn:
    """A multiset of whole numbers: `counts[i]` entries of the value `first + i * step`."""

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
    """P(Z = lowest + i) = weights[i] / total, exactly."""

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
