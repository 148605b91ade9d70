"""The one way to compile a loop: Numba, strict IEEE arithmetic, kept in a cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def compiled(function: Compiled) -> Compiled:
    """Machine code with strict IEEE arithmetic: no reordering, no approximation. Only the first call ever waits."""
    return cast(Compiled, numba.njit(cache=True, error_model="numpy", nogil=True)(function))
