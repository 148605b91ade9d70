"""How far off a published output will be: medians and bands, because heavy tails have no variance.

where="output": every output has the noise itself, of scale sqrt(sigma_ii) if its shape is sigma. where="input": the error of an output is a sum of noise
over the row of M that belongs to it. Independent stable noise of scale s sums to stable noise of scale s (sum
|M_ij|^alpha)^(1/alpha); with one A for the record the sum is s sqrt(A) times a normal number of variance sum
M_ij^2. Both are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics import mixing
from oboro.dynamics.operators import row_norms
from oboro.noise.laplace import check_level
from oboro.release import Forecast

if TYPE_CHECKING:
    from oboro.dynamics.plan import SignalPlan


def error_scales(plan: SignalPlan) -> Floats:
    """The scale of the stable error of each output at each time."""
    if plan.sigma:
        diagonal = np.sqrt([float(plan.sigma[i][i]) for i in range(len(plan.sigma))])
        return diagonal.reshape(plan.horizon + 1, plan.system.outputs)
    if plan.where == "output":
        return np.full((plan.horizon + 1, plan.system.outputs), float(plan.scale))
    power = float(plan.alpha) if plan.noise == "independent" else 2.0
    return float(plan.scale) * row_norms(plan.system, plan.horizon, plan.protect, power)


def error_sizes(plan: SignalPlan, level: float) -> Floats:
    """The size that the error stays within with probability `level`."""
    return plan.error_scales * mixing.size(float(plan.alpha), check_level(level))


def forecast_of(plan: SignalPlan) -> Forecast:
    """The median error and the 95% band at a few times."""
    scales = plan.error_scales
    alpha = float(plan.alpha)
    median, wide = mixing.size(alpha, 0.5), mixing.size(alpha, 0.95)
    several = plan.system.outputs > 1
    rows = [
        (f"{t}, output {j + 1}" if several else str(t), median * scales[t, j], wide * scales[t, j])
        for t in _times(plan.horizon)
        for j in range(plan.system.outputs)
    ]
    size = "of shape sigma" if plan.sigma else f"of scale {float(plan.scale):.6g}"
    notes = [f"noise {size} on {plan.dims:,} numbers, calibrated by {plan.method!r}"]
    if alpha < 2:
        notes.append(
            "heavy tails: there is no variance"
            + (", and no mean" if alpha <= 1 else "")
            + "; now and then an error is much larger"
        )
    if plan.noise != "independent" and alpha < 2:
        notes.append("all errors of a record share one scale: a record is good or bad as a whole")
    if plan.where == "input" and plan.system.radius >= 1:
        notes.append("the system is not stable: its response to the noise grows without end")
    return Forecast(
        "expected error of the output over time",
        ("time", "median |error|", "95% within ±"),
        tuple(rows),
        tuple(notes),
    )


def interval_columns(plan: SignalPlan, table: Any, level: float) -> tuple[Floats, Floats]:
    sizes = error_sizes(plan, level)
    t = table.column("t").to_numpy()
    channel = (
        table.column("output").to_numpy() - 1 if "output" in table.column_names else np.zeros(len(t), int)
    )
    y = table.column("y").to_numpy()
    return y - sizes[t, channel], y + sizes[t, channel]


def _times(horizon: int) -> list[int]:
    """0, 1, 2, 5, 10, ... and the last."""
    times = {0, horizon}
    size = 1
    while size <= horizon:
        times |= {size * k for k in (1, 2, 5) if size * k <= horizon}
        size *= 10
    return sorted(times)
