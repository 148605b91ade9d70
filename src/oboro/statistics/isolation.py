"""Someone's own function, run where it can do no harm: in a process of its own, with a time limit, in silence.

The function may fail, hang, print, or return nonsense, and whether it does may depend on private values. So:

    a new process for each call    nothing that it keeps reaches the next call
    no output, no traceback        its streams lead nowhere, and files that were open are closed to it
    a limit of time                after which it is killed, with all that it started
    one rule for every outcome     numbers of the right count that are finite are taken; anything else is None
How long it takes can still be seen by whoever can time a release (docs/promise.md).
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from oboro.errors import ParameterError

Numbers = tuple[float, ...]


def check_isolation() -> None:
    """Refuses where processes cannot be forked."""
    if not hasattr(os, "fork"):
        raise ParameterError(
            "your own function cannot be run in a process of its own here",
            given=os.name,
            needed="a system with fork: Linux or macOS",
            fix="a container with Linux",
        )


def call_isolated(
    function: Callable[[Any], Any], argument: Any, count: int, seconds: float
) -> Numbers | None:
    """`count` finite numbers that the function returned within `seconds`, or None."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(function, argument, count, writing)
    os.close(writing)
    try:
        return _read(reading, count, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # its own group: whatever it started, too
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(function: Callable[[Any], Any], argument: Any, count: int, writing: int) -> None:
    """The child: computes, answers with 8 bytes for each number, and ends without any farewell."""
    try:
        os.setsid()
        answer = _alone(writing)
        numbers = _flat(function(argument))
        if len(numbers) == count and all(map(math.isfinite, numbers)):
            os.write(answer, struct.pack(f"<{count}d", *numbers))
    except BaseException:
        pass  # whatever it was, it is not for anyone's eyes
    finally:
        os._exit(0)


def _alone(writing: int) -> int:
    """Leaves no way out but the pipe: files, sockets and streams of the parent are closed, and nothing is logged."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    os.dup2(writing, 3)
    os.closerange(4, 1 << 16)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115
    logging.disable()
    return 3


def _flat(result: Any) -> list[float]:
    if hasattr(result, "ravel"):
        result = result.ravel()
    if hasattr(result, "tolist"):
        result = result.tolist()
    return [float(number) for number in (result if isinstance(result, list | tuple) else [result])]


def _read(pipe: int, count: int, deadline: float) -> Numbers | None:
    wanted, found = 8 * count, b""
    while len(found) < wanted:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return None
        part = os.read(pipe, wanted - len(found))
        if not part:
            return None
        found += part
    return struct.unpack(f"<{count}d", found)
