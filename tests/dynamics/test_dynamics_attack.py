"""Monte Carlo: worst neighbours, the best event, and the noise that is really drawn.

By Neyman and Pearson P(S) - e^eps P'(S) is largest where S holds every x that is likelier by e^eps. The two chances are
counted over runs of the mechanism itself. A count strays by more than 5.5 standard errors once in 2.6e7 tests; the
noise drawn here is the same every time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import oboro as ob
from oboro.dynamics import SignalPlan, plan
from oboro.dynamics.radial import levels
from oboro.noise.bits import Bits
from oboro.release import Pair
from support import forged

LAG = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])
UNIT = ob.Unit.signal(distance=1)
EPS, DELTA, TRIALS, SURE = "0.3", "0.05", 150_000, 5.5

Floats = npt.NDArray[np.float64]


def log_density(dims: int, r: Floats) -> Floats:
    """log f at radius r of stable noise of index 1.5 and scale 1."""
    law = levels(1.5, dims)
    s = np.linspace(1e-4, law.last, 40_000)
    log_r = law.partners(s, 1.0).log_r
    return np.asarray(np.interp(np.log(np.maximum(r, 1e-9)), log_r, law.log_shell(s, log_r) - dims * log_r))


def attack(made: SignalPlan, pair: Pair, bits: Bits) -> tuple[float, float]:
    """P(S) - e^eps P'(S) for the best S at the scale of the plan, and its standard error."""
    scale, step = float(made.scale), float(made.step)
    one, other = made.prepare(pair.one), made.prepare(pair.other)
    shift = (other.u - one.u).ravel() / scale
    chances = []
    for record in (one, other):
        x = made.measure(record, bits, TRIALS) * (step / scale) - one.u.ravel() / scale
        if made.noise == "independent":
            loss = (log_density(1, np.abs(x)) - log_density(1, np.abs(x - shift))).sum(axis=1)
        else:
            size = [np.linalg.norm(y, axis=1) for y in (x, x - shift)]
            loss = log_density(made.dims, size[0]) - log_density(made.dims, size[1])
        chances.append(float((loss >= float(EPS)).mean()))
    lift = math.exp(float(EPS))
    error = math.sqrt(sum(k * p * (1 - p) for k, p in zip((1, lift**2), chances, strict=True)) / TRIALS)
    return chances[0] - lift * chances[1], error


def made_with(dims: int, **said: Any) -> SignalPlan:
    return plan(LAG, unit=UNIT, horizon=dims - 1, eps=EPS, delta=DELTA, protect="u", **said)


@pytest.mark.parametrize("dims", [1, 10])
def test_exact_noise_gives_away_what_it_promised_and_not_less(dims: int, test_bits: Bits) -> None:
    made = made_with(dims, noise="shared", method="exact")
    (pair,) = made.neighbours()
    found, error = attack(made, pair, test_bits)
    assert abs(found - float(DELTA)) < SURE * error
    assert SURE * error < 0.25 * float(DELTA)  # close
    weak = forged(made, scale=made.scale * 4 / 5)
    found, error = attack(weak, pair, test_bits)
    assert found > float(DELTA) + SURE * error  # four fifths of the noise would be caught


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        (1, {}),
        (10, {}),
        (1, {"noise": "shared"}),
        (10, {"noise": "shared"}),
        (10, {"noise": "shared", "method": "theorem1"}),
    ],
    ids=str,
)
@pytest.mark.few(2, "attacks on signals")
def test_no_noise_gives_away_more_than_it_promised(dims: int, said: dict[str, Any], test_bits: Bits) -> None:
    made = made_with(dims, **said)
    for pair in made.neighbours():
        found, error = attack(made, pair, test_bits)
        assert 0 < found < float(DELTA) + SURE * error
    weak = forged(made, scale=made.scale / 4)
    assert max(attack(weak, pair, test_bits)[0] for pair in made.neighbours()) > float(DELTA) + 0.03
