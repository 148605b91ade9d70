"""From m G back to m: baby steps and giant steps over a public range.

A point and its negative differ in one bit of their 32 bytes, so a table of B multiples of the base point recognises
2 B + 1 numbers. The table of sqrt(8 R) multiples for a range of R is made once, by `make_ready` while there is time;
then an opening takes at most a sixteenth as many steps.
The time depends on the number found, which is the noisy answer: public.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from oboro.errors import ParameterError
from oboro.secure import group

LARGEST_RANGE = 2**34
_LARGEST_TABLE = 2**17
_SIGN = 0x80


def check_range(low: int, high: int) -> None:
    """Refuses a range that could not be searched."""
    if high < low or high - low >= LARGEST_RANGE:
        raise ParameterError(
            "the range of the noisy answer cannot be searched",
            given=f"{low} to {high}",
            needed=f"at most {LARGEST_RANGE:,} values, the noise included",
            fix="narrower bounds, or a coarser step of the answer",
        )


def make_ready(low: int, high: int) -> None:
    """Makes the table for a range before it is needed."""
    check_range(low, high)
    _multiples(_reach(low, high))


def find(point: bytes, low: int, high: int) -> int | None:
    """The m in [low, high] with m G = point, or None."""
    check_range(low, high)
    reach = _reach(low, high)
    table = _multiples(reach)
    stride = group.base(group.scalar_of(2 * reach + 1))
    centre = low + reach
    rest = group.subtract(point, group.base(group.scalar_of(centre)))
    while centre - reach <= high:
        j = table.get(_unsigned(rest))
        if j is not None:
            found = centre + j if rest == group.base(group.scalar_of(j)) else centre - j
            return found if low <= found <= high else None
        rest = group.subtract(rest, stride)
        centre += 2 * reach + 1
    return None


def _reach(low: int, high: int) -> int:
    return min(_LARGEST_TABLE, high - low + 1, isqrt(8 * (high - low + 1)) + 1)


@lru_cache(maxsize=4)
def _multiples(reach: int) -> dict[bytes, int]:
    """0, 1, ..., reach times the base point, without their signs."""
    table, one, point = {group.IDENTITY: 0}, group.base(group.scalar_of(1)), group.IDENTITY
    for j in range(1, reach + 1):
        point = group.add(point, one)
        table[_unsigned(point)] = j
    return table


def _unsigned(point: bytes) -> bytes:
    return point[:31] + bytes([point[31] & ~_SIGN])
