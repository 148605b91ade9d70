"""A release of someone's own function with its own smooth sensitivity.

Both functions see all of the data, so the promise rests on whoever wrote them. They may still fail, hang, print or return
nonsense, and whether they do may depend on private values. So each runs

    in a process of its own        made by fork: data of any kind is there already, and nothing that it keeps reaches the next
    in silence                     its streams lead nowhere, and files that were open are closed to it
    for a limited time             after which it is killed, with all that it started
    by one rule for every outcome  numbers of the right count that are finite are taken; anything else is None
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
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from oboro.arrays import Integers, Table
from oboro.domain import Column, Real
from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, rational, show
from oboro.kinds import list_of, takes
from oboro.noise.bits import Bits
from oboro.privacy import Conditional, Guarantee, Unit
from oboro.release import Forecast, Pair, register
from oboro.statistics.seal import flat
from oboro.statistics.smooth_noise import Decaying, SmoothLaw, SmoothPlan, calibrate

if TYPE_CHECKING:
    from oboro.noise.laws import Law

MOST_SECONDS = 86_400  # a day
Numbers = tuple[float, ...]
ASSUMPTION = (
    "the smooth sensitivity that was given for {name} is right, also where the function fails, "
    "and neither passes on what it sees"
)


@register
@dataclass(frozen=True)
class OwnFunctionPlan(SmoothPlan):
    """Your function of the data, with noise in proportion to the smooth sensitivity that you give for it.

    Privacy
        Nobody but you has proved that `sensitivity(data, beta)` is a beta-smooth bound on the local sensitivity of
        `function` under `unit`. So the guarantee is conditional on that. Given it, f + (S/s) Z, rounded to the
        public grid by certified rounding, keeps the guarantee for the admissible s and beta of smooth_noise.py
        [Nissim, Raskhodnikova, Smith 2007]. Both functions run after the reservation, each in a process of its own
        with a time limit; the value is clamped to the bounds. Where one fails, the lowest value stands for the answer and
        the whole range for its sensitivity.

    >>> plan = ob.statistics.own_function_plan(
    ...     max, lambda rows, beta: 100, name="max 1", bounds=(0, 100), step=1, unit=unit, guarantee=ob.Pure(1)
    ... )
    >>> plan.law, plan.beta
    (Cauchy(), Fraction(2, 5))
    """

    name: str
    function: Callable[[Any], object]
    sensitivity: Callable[[Any, float], object]
    range: Real
    unit: Unit
    guarantee: Conditional
    law: SmoothLaw
    beta: Fraction
    seconds: Fraction
    pairs: tuple[Pair, ...] = field(default=(), metadata={"handed": True})
    kind = "statistics.own_function"

    def check(self) -> None:
        if not self.name:
            raise ParameterError("your own function has no name", fix=setting(name="midrange, version 1"))
        if not 0 < self.seconds <= MOST_SECONDS:
            raise ParameterError(
                "seconds are out of range",
                given=told(seconds=show(self.seconds)),
                needed=f"more than 0, at most {MOST_SECONDS:,}",
                fix=setting(seconds=5),
            )
        if (assumed := ASSUMPTION.format(name=self.name)) not in self.guarantee.assumptions:
            raise GuaranteeError(
                "the promise of your own function is conditional on it",
                given=str(self.guarantee),
                needed=f"provided that {assumed}",
            )

    def forecast(self) -> Forecast:
        worst = float(self.range.high - self.range.low)
        row = ("the worst data", self.noise.within(worst, 0.5), self.noise.within(worst, 0.95))
        columns = ("for", "half within ±", "95% within ±")
        return Forecast(
            f"expected error of {self.name}", columns, (row,), ("the noise follows the data, privately",)
        )

    def prepare(self, data: object) -> object:
        return (
            data  # the functions are run after the reservation: they may fail, and nobody may see it for free
        )

    def measure(self, prepared: object, bits: Bits, trials: int | None = None) -> Integers:
        limit, beta = float(self.seconds), float(self.beta)
        value = call_apart(self.function, prepared, 1, limit)
        size = call_apart(lambda data: self.sensitivity(data, beta), prepared, 1, limit)
        most = self.range.size - 1
        code = 0 if value is None else self.range.code(value[0]) or 0
        bad = value is None or size is None or size[0] < 0
        steps = Fraction(most) if bad or size is None else Fraction(size[0]) / self.range.step
        return self.noise.draw(
            Fraction(code), Decaying([(steps, 0)], self.beta), Fraction(1), most, bits, trials
        )

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": [self.range.value(int(code)) for code in measured]})

    def describe(self) -> dict[str, object]:
        return {
            "released": self.name,
            "noise": self.noise.to_dict(),
            "domain": {"columns": [self.range.to_dict()]},
        }

    @property
    def reads(self) -> tuple[Column, ...]:
        """Only its owner knows what it takes."""
        return ()

    def neighbours(self) -> Iterator[Pair]:
        """Those that were given with the plan."""
        yield from self.pairs


@takes(bounds=list_of, unit=Unit, guarantee=Guarantee)
def own_function_plan(
    function: Callable[[Any], object],
    sensitivity: Callable[[Any, float], object],
    *,
    name: str,
    bounds: tuple[Number, Number],
    step: Number,
    unit: Unit,
    guarantee: Guarantee,
    noise: Law | None = None,
    beta: Number | None = None,
    seconds: Number = 10,
    pairs: tuple[Pair, ...] = (),
) -> OwnFunctionPlan:
    """A plan for `function(data)`, a number within `bounds`, published on a grid of `step`.

    `sensitivity(data, beta)` must be at least the largest change that one unit can make to the function, and at most
    e^beta times what it is for any neighbour. `name` is how the certificate calls it, with its version.

    >>> def spread(rows):
    ...     return max(rows) - min(rows)
    >>> plan = ob.statistics.own_function_plan(
    ...     spread,
    ...     lambda rows, beta: 100,  # how far one unit may move it: here whatever the rows are
    ...     name="spread 1",
    ...     bounds=(0, 100),
    ...     step=1,
    ...     unit=unit,
    ...     guarantee=ob.Pure(1),
    ... )
    >>> plan.guarantee.unconditional
    Pure(1)
    >>> plan.guarantee.assumptions[0][:59]
    'the smooth sensitivity that was given for spread 1 is right'
    """
    check_fork()
    if not isinstance(name, str) or not name or not callable(function) or not callable(sensitivity):
        raise ParameterError(
            "a plan for your own function needs the function, its smooth sensitivity and a name",
            given=told(name=repr(name)),
            fix=setting(name="midrange, version 1")
            if callable(function) and callable(sensitivity)
            else told(function="midrange", sensitivity="midrange_sensitivity"),
        )
    if len(bounds) != 2:
        raise ParameterError(
            "bounds are two numbers", given=f"{len(bounds)} of them", fix=setting(bounds=(0, 10))
        )
    low, high = (rational("bounds", bound) for bound in bounds)
    conditional = Conditional(guarantee, ASSUMPTION.format(name=name))
    chosen = calibrate(noise, guarantee.unconditional, beta=beta)
    grid = Real("value", low, high, step)
    return OwnFunctionPlan(
        name,
        function,
        sensitivity,
        grid,
        unit,
        conditional,
        chosen.law,
        chosen.beta,
        rational("seconds", seconds),
        pairs,
    )


# -- a process of its own ------------------------------------------------------------------------------------------


def check_fork() -> None:
    """Refuses where processes cannot be forked."""
    if not hasattr(os, "fork"):
        raise ParameterError(
            "your own function cannot be run in a process of its own here",
            given=os.name,
            needed="a system with fork: Linux or macOS",
            fix="a container with Linux",
        )


def call_apart(
    function: Callable[[Any], object], argument: object, count: int, seconds: float
) -> Numbers | None:
    """`count` finite numbers that the function returned within `seconds`, or None."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # From 3.12 on Python warns of other threads, whose locks the child may find taken. It then gives no answer in time.
        warnings.simplefilter("ignore", DeprecationWarning)
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


def _work(function: Callable[[Any], object], argument: object, count: int, writing: int) -> None:
    """The child: computes, answers with 8 bytes for each number, and ends without any farewell."""
    try:
        os.setsid()
        answer = _alone(writing)
        numbers = flat(function(argument))
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
