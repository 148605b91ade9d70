"""A stopwatch on two worlds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from oboro.exact import about
from oboro.noise.bits import Bits, system_bits
from oboro.release import Pair, Plan


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a stopwatch tells two worlds apart: 1/2 is never, 1 is always."""

    advantage: float
    error: float  # three standard deviations of the advantage
    rounds: int

    def __str__(self) -> str:
        return f"told apart {about(self.advantage, 3)} ± {about(self.error, 2)} of the time, {self.rounds:,} rounds"


def timing(plan: Plan, pair: Pair, *, rounds: int = 1000, bits: Bits | None = None) -> Timing:
    """Times `measure` in both worlds, in turns. Reported; oboro promises nothing about time."""
    source = bits or system_bits()
    prepared = [plan.prepare(data) for data in (pair.one, pair.other)]
    took = np.empty((2, rounds))
    for turn in range(rounds):
        for world in (turn % 2, 1 - turn % 2):
            start = time.perf_counter_ns()
            plan.measure(prepared[world], source)
            took[world, turn] = time.perf_counter_ns() - start
    first = np.sort(took[0])
    quicker, not_slower = (
        np.searchsorted(first, took[1], side).mean() / rounds for side in ("left", "right")
    )
    below = (
        float(quicker + not_slower) / 2
    )  # P(the first is quicker); a clock that ticks slowly gives ties, half each
    return Timing(max(below, 1 - below), 3 * math.sqrt((2 * rounds + 1) / (12 * rounds**2)), rounds)
