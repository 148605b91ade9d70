"""Systems: calibrations, the certified gain and exact noise, each against the time that it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import numpy as np

import oboro as ob
from bench.measure import Row, seconds
from oboro.dynamics.calibration import _calibrated
from oboro.dynamics.laws import Values

SECOND_ORDER = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])
SAMPLES = 1_000_000


def rows() -> Iterator[Row]:
    for method, dims in (
        ("theorem1", 1),
        ("mixture", 1),
        ("independent", 1),
        ("discrete", 1),
        ("exact", 1),
        ("exact", 10),
        ("exact", 1000),
    ):
        name = f"{method}, d = {dims}" if method == "exact" else method
        yield _limit(f"dynamics: one calibration, {name}", seconds(_fresh(method, dims), repeat=40), 0.010)
    yield _limit(
        "dynamics: certified gain, T = 10^4",
        seconds(lambda: ob.dynamics.gain(SECOND_ORDER, horizon=10_000), repeat=3),
        2,
    )
    yield _limit(
        "dynamics: certified gain, all times",
        seconds(lambda: ob.dynamics.gain(SECOND_ORDER, horizon=None), repeat=3),
        10,
    )
    values = Values.of(np.sin(np.arange(SAMPLES) / 50))
    generator = np.random.default_rng()
    peer = seconds(lambda: _floats(generator), repeat=3)
    for noise in ("independent", "shared"):
        plan = ob.dynamics.plan(
            SECOND_ORDER,
            unit=ob.Unit.signal(1),
            horizon=SAMPLES,
            eps=1,
            delta="1e-5",
            noise=noise,
            protect="u",
        )
        taken = seconds(partial(plan.mechanism.add, values, ob.noise.system_bits()), repeat=3)
        yield _limit(f"dynamics: 10^6 exact draws, {noise}", taken, 5)
        yield Row(
            f"dynamics: 10^6 draws, {noise}",
            SAMPLES / taken / 1e6,
            "NumPy, Chambers-Mallows-Stuck in floats (not exact, not secure)",
            SAMPLES / peer / 1e6,
            "million/s",
            peer / taken,
        )


def _fresh(method: str, dims: int) -> Callable[[], None]:
    """A calibration that was not made before, each time."""
    number = count()

    def once() -> None:
        _calibrated(1.5, 1 + next(number) / 1000, 1e-5, method, dims)

    return once


def _floats(generator: np.random.Generator) -> None:
    angle, wait = np.pi * (generator.random(SAMPLES) - 0.5), generator.exponential(size=SAMPLES)
    np.rint(
        1000 * np.sin(1.5 * angle) / np.cos(angle) ** (1 / 1.5) * (np.cos(0.5 * angle) / wait) ** (-1 / 3)
    )


def _limit(what: str, taken: float, most: float) -> Row:
    return Row(what, taken, "the limit", most, "s", most / taken, 1.0)
