"""kill -9 in the middle of the work: by the clock, and by a count of steps that no load can change.

A kill by the clock lands anywhere, also between two writes of a database, but how far the child has come depends on the
machine. A kill at a step comes at the same place on every machine. Tests use both, and expect nothing of the clock.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

Work = Callable[
    [int], None
]  # is given the writing end of a pipe; its first report, "!", says that it is ready
Kill = Callable[[Work], bytes]
MEASURED = 4  # times that `kills` does the work itself, to know how long it is


def in_child(work: Work) -> tuple[int, int]:
    """Forks a child that does `work` with the writing end of a pipe; gives its id and the reading end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            work(writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return child, reading


def collect(child: int, reading: int) -> tuple[int, bytes]:
    """Waits for a child; its exit code, and all that it reported."""
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), report


def kill_after(seconds: float, work: Work) -> bytes:
    """Kills a child so long after it was ready; gives the reports that follow."""
    child, reading = in_child(work)
    assert os.read(reading, 1) == b"!"
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return collect(child, reading)[1]


def kill_at(step: int, work: Work) -> bytes:
    """Kills a child at the step-th call or return, of Python or of C, after it was ready; gives the reports that follow."""

    def watched(pipe: int) -> None:
        left: int | None = None

        def look(_: Any, event: str, called: Any) -> None:
            nonlocal left
            if left is None:
                left = step if event == "c_return" and called is os.write else None
            elif left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                left -= 1

        sys.setprofile(look)
        work(pipe)

    child, reading = in_child(watched)
    assert os.read(reading, 1) == b"!"
    return collect(child, reading)[1]


def kills(count: int, once: Callable[[], object], times: int, seed: int = 7) -> list[Kill]:
    """As many kills as asked, one by the clock and one at a step in turn, while work like `once` is done so many times.

    The first come early and the last come late, each at random within its share of the work.
    """
    source = random.Random(seed)
    seconds, steps = (min(measure(once) for _ in range(MEASURED // 2)) for measure in (_seconds, _steps))
    places = [times * (number + source.random()) / count for number in range(count)]
    return [
        partial(kill_at, int(place * steps)) if number % 2 else partial(kill_after, place * seconds)
        for number, place in enumerate(places)
    ]


def _seconds(once: Callable[[], object]) -> float:
    start = time.perf_counter()
    once()
    return time.perf_counter() - start


def _steps(once: Callable[[], object]) -> int:
    count = 0

    def look(*_: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(look)
    try:
        once()
    finally:
        sys.setprofile(None)
    return count
