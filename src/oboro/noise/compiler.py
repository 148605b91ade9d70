"""The one way to compile a loop: Numba, strict IEEE arithmetic, kept in a cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher

Compiled = TypeVar("Compiled", bound=Callable[..., Any])

# nobody calls a loop from C: the code for that would be compiled, too
_OPTIONS = {"cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}


def compiled(function: Compiled) -> Compiled:
    """Machine code with strict IEEE arithmetic: no reordering, no approximation. Only the first call ever waits."""
    return cast(Compiled, numba.njit(**_OPTIONS)(function))


def compiled_within(function: Compiled) -> Compiled:
    """The same, of what one loop calls in one place: it is compiled with that loop alone, and not by itself before that."""
    return cast(Compiled, numba.njit(**_OPTIONS, inline="always")(function))


@cache
def interpreted(loop: Compiled) -> Compiled:
    """The same loop, and those that it calls, without compiling: where there is so little to do that compiling takes longer."""
    own = cast(Dispatcher, loop).py_func
    called = {
        name: found
        for name in own.__code__.co_names
        if isinstance(found := own.__globals__.get(name), Dispatcher)
    }
    names = {**own.__globals__, **{name: interpreted(found) for name, found in called.items()}}
    return cast(Compiled, FunctionType(own.__code__, names, own.__name__, own.__defaults__))
