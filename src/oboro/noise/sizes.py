"""How many draws are wanted, and in which shape."""

from __future__ import annotations

import math
from typing import Any

from oboro.errors import ParameterError, setting
from oboro.exact import whole

Size = int | tuple[int, ...]

MOST = 1 << 27  # draws at once, 1 GB: more than most machines can hold is refused before it is asked for


def checked_size(size: Any) -> tuple[Size, int]:
    """A number of draws or the shape of an array of them, and how many that are in all."""
    if type(size) is int and 0 <= size <= MOST:
        return size, size
    shape: Size = (
        tuple(whole("size", side, most=MOST) for side in size)
        if isinstance(size, tuple | list)
        else whole("size", size, most=MOST)
    )
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    if count > MOST:
        raise ParameterError(
            "size is too large", given=f"{count:,} draws", needed=f"at most {MOST:,}", fix=setting(size=1000)
        )
    return shape, count
