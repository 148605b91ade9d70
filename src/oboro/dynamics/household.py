"""A household that does not exist and a feeder with a lag: data for the demo, the same every time."""

from __future__ import annotations

import math
import random

FEEDER = """horizon = 335

[system]            # x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t)
A = [["0.9"]]
B = [["0.1"]]
C = [["1"]]
D = [["0"]]

[unit]
kind = "signal"
distance = "1"
"""


def household_load(samples: int) -> list[float]:
    """Half-hourly kilowatt hours of a household that does not exist, the same every time. This is data, not noise."""
    draw = random.Random("oboro household")
    out, kettle = [], 0.0
    for t in range(samples):
        hour = t % 48 / 2
        daily = 0.15 + 0.25 * math.exp(-((hour - 7.5) ** 2) / 2) + 0.45 * math.exp(-((hour - 19) ** 2) / 5)
        kettle = draw.choice((1.2, 2.0)) if draw.random() < 0.04 else kettle * 0.3
        out.append(round(daily * draw.uniform(0.7, 1.3) + kettle, 3))
    return out
