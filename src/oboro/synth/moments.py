"""Exact sums and products of codes, and the exact factor of a covariance: integers and rationals throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from oboro.arrays import Integers

LARGEST = 2**31  # codes below this are split into two halves of 16 bits
_ROWS = 2**20  # so many products below 2^32 stay below 2^53, where doubles are exact integers

Matrix = list[list[Fraction]]


@dataclass(frozen=True, slots=True)
class Moments:
    """How many records, their sum and their sum of products, exactly. Private: never saved or shown."""

    count: int
    sums: tuple[int, ...]
    products: tuple[tuple[int, ...], ...]


def moments_of(codes: Integers) -> Moments:
    """Of codes below 2^31, one line for each column. The products are matrix products of doubles that are whole and small."""
    dims, n = codes.shape
    products = [[0] * dims for _ in range(dims)]
    sums = [0] * dims
    for first in range(0, n, _ROWS):
        part = codes[:, first : first + _ROWS]
        sums = [
            total + int(more) for total, more in zip(sums, part.sum(axis=1), strict=True)
        ]  # below 2^51 each
        high, low = (part >> 16).astype(float), (part & 0xFFFF).astype(float)
        cross = high @ low.T
        for scale, block in (
            (1 << 32, high @ high.T),
            (1 << 16, cross),
            (1 << 16, cross.T),
            (1, low @ low.T),
        ):
            for i in range(dims):
                for j in range(dims):
                    products[i][j] += scale * int(block[i, j])
    return Moments(n, tuple(sums), tuple(map(tuple, products)))


def factor(moments: Moments, sizes: Sequence[int], ridge: Fraction) -> tuple[Matrix, list[Fraction]]:
    """L and D with L D L' = covariance + ridge, all exact, for codes that stand for [-1, 1].

    L has ones on its diagonal. Where a pivot is 0, so is the rest of its column, because no eigenvalue is negative.
    """
    dims = len(sizes)
    n = moments.count
    half = [Fraction(2, size - 1) if size > 1 else Fraction(0) for size in sizes]  # a step of the code
    rest = [
        [
            half[i]
            * half[j]
            * (Fraction(moments.products[i][j], n) - Fraction(moments.sums[i] * moments.sums[j], n * n))
            + (ridge if i == j else 0)
            for j in range(dims)
        ]
        for i in range(dims)
    ]
    lower: Matrix = [[Fraction(int(i == j)) for j in range(dims)] for i in range(dims)]
    pivots = []
    for k in range(dims):
        pivot = rest[k][k]
        pivots.append(pivot)
        if pivot == 0:
            continue
        for i in range(k + 1, dims):
            lower[i][k] = rest[i][k] / pivot
        for i in range(k + 1, dims):
            for j in range(k + 1, dims):
                rest[i][j] -= lower[i][k] * lower[j][k] * pivot
    return lower, pivots
