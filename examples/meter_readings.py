"""Meter readings: the output of a feeder, published so that no single reading shows, not even a rare large one.

Run it in an empty folder. The household is generated. It leaves published.csv and its certificate.
"""

from collections.abc import Iterable
from statistics import median

import oboro as ob
from oboro.dynamics.system import household_load

READINGS = 336  # a week of half hours
load = household_load(READINGS)

# The feeder answers slowly: x(t+1) = 0.9 x(t) + 0.1 u(t), y(t) = x(t). The system is public.
system = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])
unit = ob.Unit.signal(distance=1)  # two records within 1 kWh of one another shall look alike
ledger = ob.Ledger.create("load.ledger", dataset="household load", unit=unit, budget=ob.Approx(3, "0.01"))

# Heavy tails hide outliers: compare alpha = 2 (Gaussian) with 1.5 before choosing. It is free.
for alpha in ("2", "1.5"):
    plan = ob.dynamics.plan(system, unit=unit, horizon=READINGS - 1, eps=1, delta="1e-3", alpha=alpha)
    print(f"alpha = {alpha}\n{plan.forecast()}\n")

release = ob.dynamics.release(load, plan, x0=[0.4], ledger=ledger, name="a week of load")
release.save("published.csv")

# Whoever reads it knows the system and the noise, and can do better than reading it off.
better = ob.dynamics.estimate(release, plan, sd="0.4", mean="0.4", correlation="0.6", start_sd="0.5")

truth, state = [], 0.4  # for this demonstration only: a real reader has no truth to compare with
for reading in load:
    truth.append(state)
    state = 0.9 * state + 0.1 * reading
published = release.to_arrow().column("y").to_pylist()


def off(values: Iterable[float]) -> float:
    return median(abs(value - true) for value, true in zip(values, truth, strict=True))


print(
    f"median error as published {off(published):.2f} kWh, as estimated by the reader {off(better.y.ravel()):.2f} kWh"
)
print("left in the ledger:", ledger.remaining)
