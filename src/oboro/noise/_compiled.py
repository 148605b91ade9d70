"""The compiled loops of the integer samplers. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled
from oboro.noise.floatball import exp

if TYPE_CHECKING:
    import numpy.typing as npt

    from oboro.arrays import Bytes, Floats, HalfWords, Integers


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
def fill_gaussian(
    halves: HalfWords,
    floors: HalfWords,
    guide: npt.NDArray[np.uint16],
    sure: Floats,
    low: int,
    rate: float,
    out: Integers,
    filled: int,
    used: int,
) -> tuple[int, int, bool]:
    """Draws from half-words until `out` is full, the half-words are used up, or a draw is open, as `fill_laplace` does.

    rate = 1/(2 variance); gaussian.py says why every decision here is certain.
    """
    each = 1 if low == 0 else 2 if low <= 16 else 3
    margin, unit = 2.0**-40, 2.0 ** -(32 * (each - 1) - low)
    last = halves.size - each
    while filled < out.size and used <= last:
        u = halves[used] >> 1
        h = int(guide[u >> 19])
        while u < floors[h]:  # ends at the last, which is 0
            h += 1
        if u == floors[h]:
            return filled, used, True
        magnitude = h << low
        if low > 0:
            word = np.uint64(halves[used + 1])
            if each == 3:
                word |= np.uint64(halves[used + 2]) << np.uint64(32)
            place = int(word & np.uint64((1 << low) - 1))
            v = float(word >> np.uint64(low)) * unit  # V lies in [v, v + unit)
            if v + unit > sure[h]:
                chance = exp(-float(place) * float(2 * magnitude + place) * rate)
                if v + unit > chance * (1.0 - margin):
                    if v < chance * (1.0 + margin):
                        return filled, used, True
                    used += each
                    continue
            magnitude += place
        minus = int(halves[used] & 1)
        used += each
        out[filled] = (magnitude ^ -minus) + minus
        filled += 1 - (minus & int(magnitude == 0))  # (minus, 0) will be overwritten
    return filled, (used if used <= last else halves.size), False
