"""Irrational costs as rationals: upwards, never downwards."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

DIGITS = 15  # significant digits that are kept


def round_up(real: Any, digits: int = DIGITS) -> Fraction:
    """A short rational that is certainly not below the real number that `real` encloses. `digits`: up to 60."""
    from oboro.noise.lazy import ball, precision

    with precision(256):
        value = real()
        size = abs(value).upper()
        before = math.ceil(float(size.log() / ball(10).log())) if size > 0 else 0  # digits before the point
        grid = Fraction(10) ** (digits - before)
        return Fraction(int((value * ball(grid)).upper().ceil().unique_fmpz())) / grid
