"""Tests that see a fault which the others let pass."""

from __future__ import annotations

import numpy as np

import oboro as ob
from oboro.dynamics import plan
from oboro.dynamics.laws import on_grid

LAG = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])


def test_rounding_to_the_grid_first_is_paid_for() -> None:
    """Neighbours at distance 1 may be further apart on the grid: the sensitivity covers that, and is not wasteful."""
    made = plan(
        LAG,
        unit=ob.Unit.signal(distance=1),
        horizon=15,
        eps=1,
        delta="1e-3",
        noise="discrete",
        protect="u",
        step="0.1",
    )
    step, spread = float(made.step), 0.25  # 16 numbers that move by 0.25 each: a distance of 1
    one = np.full(16, 0.5 * step - 1e-9)  # rounds down; 0.25 further on it rounds up
    other = one + spread
    apart = np.linalg.norm(on_grid(other, made.step) - on_grid(one, made.step)) * step
    assert np.linalg.norm(other - one) <= 1 + 1e-12
    assert 1.19 < apart <= float(made.sensitivity)
    assert float(made.sensitivity) <= 1 + step * 4 + 1e-9
