"""Small things that several tests of the ledger need."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from oboro.ledger import Ledger, Reservation
from oboro.ledger.currency import amounts
from oboro.privacy import Guarantee, Pure

PLAN: dict[str, Any] = {"kind": "histogram", "bins": ["a", "b"], "eps": "0.1"}


def spend(
    ledger: Ledger, cost: Guarantee | str | Fraction, name: str | None = None, **more: Any
) -> Reservation:
    guarantee = cost if isinstance(cost, Guarantee) else Pure(cost)
    return ledger.reserve(
        plan=more.get("plan", PLAN), unit=more.get("unit", ledger.unit), guarantee=guarantee, name=name
    )


def assert_sound(ledger: Ledger) -> None:
    """Everything that must hold whatever happened before."""
    checked = ledger.verify()
    costs = [entry.cost for entry in ledger.history() if entry.cost is not None]
    for i, (spent, budget) in enumerate(zip(amounts(ledger.spent), amounts(ledger.budget), strict=True)):
        assert sum((amounts(cost)[i] for cost in costs), Fraction(0)) == spent <= budget
    assert checked.reservations == len(costs)


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
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


def kill_after(seconds: float, work: Callable[[int], None]) -> bytes:
    """Kills a child with -9 so long after its first report, its being ready; gives the reports that follow."""
    child, reading = in_child(work)
    assert os.read(reading, 1) == b"!"
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return collect(child, reading)[1]


def collect(child: int, reading: int) -> tuple[int, bytes]:
    """Waits for a child; its exit code, and all that it reported."""
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), report


def moments(count: int, longest: float, seed: int = 7) -> list[float]:
    source = random.Random(seed)
    return [source.uniform(0, longest) for _ in range(count)]


__all__ = ["PLAN", "assert_sound", "collect", "in_child", "kill_after", "moments", "spend"]
