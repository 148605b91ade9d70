"""Sorted values as a search for quantiles sees them: on the public grid, with ties spread over their step.

Several quantiles need values that differ. So each step of the grid is divided into K = 2^24 places (fewer on a huge
grid), and the i-th of the rows that share a value goes to place number `reversed(i)`, the bits of i in reverse
order: 0, 1/2, 1/4, 3/4, 1/8, ... of the step. Which row is the i-th does not matter: rows that share a value are
alike. One row more or less is one place more or less, so neighbours stay neighbours, and the places fill the
step evenly. A place leads back to its value, whatever its part of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oboro.arrays import Integers

_FINEST = 24  # bits


@dataclass(frozen=True, slots=True)
class Ranks:
    """The distinct codes that occur, in order, and how many rows lie at or below each."""

    codes: Integers
    upto: Integers

    @classmethod
    def of(cls, codes: Integers, counts: Integers) -> Ranks:
        order = np.argsort(codes, kind="stable")  # quick where they are in order already
        return cls(codes[order], np.cumsum(counts[order], dtype=np.int64))

    @property
    def rows(self) -> int:
        return int(self.upto[-1]) if self.upto.size else 0

    def places(self, ranks: Integers, bits: int) -> Integers:
        """Where the rows of these ranks (0 is the lowest) lie: code * 2^bits + place in the step."""
        at = np.searchsorted(self.upto, ranks, side="right")
        before = np.concatenate([[0], self.upto])[at]
        return (self.codes[at] << bits) + spread(self.upto[at] - before, ranks - before, bits)


def fineness(size: int) -> int:
    """How many bits of a place in a step fit beside a grid of this size."""
    return max(0, min(_FINEST, 61 - (size - 1).bit_length()))


def spread(ties: Integers, rank: Integers, bits: int) -> Integers:
    """The rank-th smallest of reversed(0), ..., reversed(ties - 1), for each pair.

    Digit by digit: among i < ties with the low bits so far, those whose next bit is 0 come first. There are
    ceil((ties - low bits)/2^(digit + 1)) of them. With more than 2^bits ties the places repeat.
    """
    left, low, place = rank.copy(), np.zeros_like(rank), np.zeros_like(rank)
    for digit in range(bits):
        zeros = np.maximum(0, -(-(ties - low) >> (digit + 1)))
        one = left >= zeros
        left = np.where(one, left - zeros, left)
        low = np.where(one, low + (1 << digit), low)
        place = np.where(one, place + (1 << (bits - 1 - digit)), place)
    return place
