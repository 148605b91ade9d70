"""Private outputs of linear systems under heavy-tailed noise.

Its examples begin with:

>>> import oboro as ob
>>> feeder = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])  # x(t+1) = 0.9 x(t) + 0.1 u(t), y(t) = x(t)
>>> unit = ob.Unit.signal(distance=1)
>>> plan = ob.dynamics.plan(feeder, unit=unit, horizon=3, eps=1, delta="1e-3")
>>> ledger = ob.Ledger.create("load.ledger", dataset="load", unit=unit, budget=ob.Approx(1, "1e-3"))
"""

from oboro.dynamics.calibration import calibrate, delta, pure_eps
from oboro.dynamics.gains import gain
from oboro.dynamics.outliers import alpha_for, detections
from oboro.dynamics.plan import SignalPlan, plan, release
from oboro.dynamics.receiver import estimate
from oboro.dynamics.sigma import condition, design
from oboro.dynamics.stable import EllipticalStable, Stable, SymmetricStable
from oboro.dynamics.streams import Stream, stream
from oboro.dynamics.system import Operator, System, observability, system_from, toeplitz

__all__ = [
    "EllipticalStable",
    "Operator",
    "SignalPlan",
    "Stable",
    "Stream",
    "SymmetricStable",
    "System",
    "alpha_for",
    "calibrate",
    "condition",
    "delta",
    "design",
    "detections",
    "estimate",
    "gain",
    "observability",
    "plan",
    "pure_eps",
    "release",
    "stream",
    "system_from",
    "toeplitz",
]


def __dir__() -> list[str]:
    return __all__
