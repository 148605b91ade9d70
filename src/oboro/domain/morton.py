"""Bits of several numbers woven into one key, and back.

Morton order takes bits from the numbers in turn, the highest first: (row, col) becomes r c r c ... r c. Cells
that share the first bits of their keys form a block: a square, or two squares side by side. A number with
fewer bits than the others joins in where its bits begin.

Weaving goes by tables of 2^12 entries, a few look-ups for each number, whatever the pattern of bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers

Pattern = tuple[tuple[int, ...], ...]  # for each number the places of its bits in the key, the lowest first

_CHUNK = 12


def width(size: int) -> int:
    """How many bits the numbers 0, ..., size - 1 need."""
    return (size - 1).bit_length()


def morton_pattern(widths: Sequence[int], above: int = 0) -> Pattern:
    """Where the bits of numbers of these widths go in Morton order; the lowest `above` bits are left free."""
    places: list[list[int]] = [[] for _ in widths]
    place = above
    for level in range(max(widths, default=0)):
        for axis in reversed(
            range(len(widths))
        ):  # the first number has the higher bit, as in the paper's eq. 55
            if level < widths[axis]:
                places[axis].append(place)
                place += 1
    return tuple(tuple(each) for each in places)


def weave(numbers: Sequence[npt.ArrayLike], pattern: Pattern) -> Integers:
    """Keys from numbers, each within its width."""
    arrays = np.broadcast_arrays(*[np.asarray(number, np.int64) for number in numbers])
    keys = np.zeros(arrays[0].shape, np.int64)
    place, part = (
        np.empty_like(keys),
        np.empty_like(keys),
    )  # used again and again: fresh memory costs more than the work
    for number, tables in zip(arrays, _spread(pattern), strict=True):
        for chunk, table in enumerate(tables):
            np.right_shift(number, chunk * _CHUNK, out=place)
            np.bitwise_and(place, table.size - 1, out=place)
            table.take(place, out=part, mode="clip")  # clips nothing, but needs no copy
            np.bitwise_or(keys, part, out=keys)
    return keys


def unweave(keys: npt.ArrayLike, pattern: Pattern) -> list[Integers]:
    """The numbers that a key was woven from."""
    given = np.asarray(keys, np.int64)
    numbers = []
    for tables in _gather(pattern):
        number = np.zeros(given.shape, np.int64)
        for chunk, table in tables:
            number |= table[(given >> (chunk * _CHUNK)) & (table.size - 1)]
        numbers.append(number)
    return numbers


@lru_cache(maxsize=64)
def _spread(pattern: Pattern) -> tuple[tuple[Integers, ...], ...]:
    """For each number, for each chunk of its bits, where that chunk goes."""
    chunks = [
        [places[start : start + _CHUNK] for start in range(0, len(places), _CHUNK)] for places in pattern
    ]
    return tuple(
        tuple(_table(dict(enumerate(places)), len(places)) for places in number) for number in chunks
    )


@lru_cache(maxsize=64)
def _gather(pattern: Pattern) -> tuple[tuple[tuple[int, Integers], ...], ...]:
    """For each number, for each chunk of the key that holds some of its bits, what that chunk says."""
    numbers = []
    for places in pattern:
        chunks: dict[int, dict[int, int]] = {}
        for bit, place in enumerate(places):
            chunks.setdefault(place // _CHUNK, {})[place % _CHUNK] = bit
        numbers.append(tuple((chunk, _table(moves, _CHUNK)) for chunk, moves in chunks.items()))
    return tuple(numbers)


def _table(moves: dict[int, int], bits: int) -> Integers:
    """All words of so many bits with bit a moved to bit moves[a]."""
    words = np.arange(1 << bits, dtype=np.int64)
    table = np.zeros_like(words)
    for source, target in moves.items():
        table |= ((words >> source) & 1) << target
    table.setflags(write=False)
    return table
