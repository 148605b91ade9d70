"""The compiled loops of the integer samplers. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oboro.noise.compiler import compiled
from oboro.noise.floatball import exp

if TYPE_CHECKING:
    from oboro.arrays import Bytes, HalfWords, Integers


@compiled
def fill_laplace(
    halves: HalfWords, floors: HalfWords, guide: Bytes, out: Integers, filled: int, used: int
) -> tuple[int, int, bool]:
    """Draws from half-words until `out` is full, the half-words are used up, or a draw is open.

    Returns (filled, used, open): if open, the half-words of that draw start at `used`.
    """
    digits = floors.shape[0]
    total = out.size
    last = halves.size - digits
    while filled < total and used <= last:
        magnitude = 0
        unsure = False
        for i in range(digits):
            u = halves[used + i] >> 1
            d = int(guide[i, u >> 19])
            while u < floors[i, d]:  # ends at 255 at the latest, where the floor is 0
                d += 1
            unsure |= u == floors[i, d]
            magnitude += d << (8 * i)
        if unsure:
            return filled, used, True
        minus = int(halves[used] & 1)
        used += digits
        out[filled] = (magnitude ^ -minus) + minus  # the sign without a branch
        filled += 1 - (minus & int(magnitude == 0))  # (minus, 0) will be overwritten
    return filled, (used if used <= last else halves.size), False


@compiled
def accept_gaussian(
    proposals: Integers, halves: HalfWords, shift: float, rate: float, out: Integers, filled: int, start: int
) -> tuple[int, int, bool]:
    """Keeps proposal y with probability exp(-(|y| - shift)^2 rate); stops where that is open.

    Returns (filled, next proposal, open).
    """
    margin = 2.0**-30
    for i in range(start, proposals.size):
        if filled == out.size:
            return filled, i, False
        y = proposals[i]
        away = abs(float(y)) - shift
        x = away * away * rate
        u = float(halves[i]) * 2.0**-32  # the uniform real lies in [u, u + 2^-32)
        if x <= 40.0:
            chance = exp(-x)
            if u + 2.0**-32 <= chance * (1.0 - margin):
                out[filled] = y
                filled += 1
            elif u < chance * (1.0 + margin):
                return filled, i, True
        elif halves[i] == 0:  # e^-40 < 2^-57: anything but zeros is certain to fail
            return filled, i, True
    return filled, proposals.size, False
