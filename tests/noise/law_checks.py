"""Helpers of the tests of draws, laws and rounding."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from oboro.arrays import Words
from oboro.noise.bits import Bits

FALSE_ALARM = 1e-8  # of each test: all of them together stay below 1e-6


def fits(counts: npt.ArrayLike, probabilities: npt.ArrayLike) -> bool:
    """Pearson's chi-square, after merging cells of less than 20 expected counts into one."""
    seen, chance = np.asarray(counts, float), np.asarray(probabilities, float)
    assert abs(chance.sum() - 1) < 1e-6
    expected = seen.sum() * chance
    rare = expected < 20
    if rare.any():
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 20:  # still too few to speak of: join them to the largest
            largest = int(expected[:-1].argmax())
            seen[largest] += seen[-1]
            expected[largest] += expected[-1]
            seen, expected = seen[:-1], expected[:-1]
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return bool(chdtrc(seen.size - 1, statistic) > FALSE_ALARM)


class Scripted(Bits):
    """Hands out chosen words first; then `rest` for ever, or true bits if there is none."""

    safe = False
    description = "a script, for tests"

    def __init__(self, script: Iterable[int], rest: int | None = None) -> None:
        super().__init__()
        self._script = [int(word) for word in script]
        self._rest = rest
        self.handed_out = 0

    def words(self, count: int) -> Words:
        told, self._script = self._script[:count], self._script[count:]
        self.handed_out += count
        missing = count - len(told)
        tail = super().words(missing) if self._rest is None else np.full(missing, self._rest, np.uint64)
        return np.concatenate([np.array(told, np.uint64), tail])
