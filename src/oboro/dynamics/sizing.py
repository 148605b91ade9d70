"""How much noise a plan needs: the sensitivity, rounded up, and the scale, with the calibration's margin."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from oboro.dynamics.calibration import MARGIN, calibrate, delta_above
from oboro.dynamics.gains import gain
from oboro.dynamics.operators import Operator
from oboro.dynamics.system import System
from oboro.errors import DomainError, setting
from oboro.noise.lazy import ball
from oboro.privacy import Approx, Pure, Unit
from oboro.privacy.rounding import round_up


@lru_cache(maxsize=256)
def sensitivity(
    system: System, horizon: int, unit: Unit, where: str, protect: tuple[str, ...], noise: str, step: Fraction
) -> Fraction:
    """An upper bound of the Euclidean distance of neighbours, where the noise is added."""
    count = Operator(system, horizon, protect).coordinates
    reach = euclidean(unit, count)
    if where == "output":
        grown = gain(system, horizon, protect)
        if grown == 0:
            raise DomainError(
                "nothing that is protected reaches the output",
                given=f"a gain of 0 from {' and '.join(protect)} over times 0 to {horizon}",
                needed="a later horizon, or noise on the input",
                fix=setting(where="input"),
            )
        return reach * Fraction(grown)
    if noise == "discrete":  # each number moves by half a step at most when it is put on the grid
        return reach + round_up(lambda: ball(step) * ball(count).sqrt())
    return reach


def euclidean(unit: Unit, count: int) -> Fraction:
    """The unit's distance in the Euclidean norm: |x|_2 <= N^max(0, 1/2 - 1/p) |x|_p."""
    distance = unit.distance
    assert distance is not None
    excess = Fraction(1, 2) - (0 if unit.norm is None else 1 / unit.norm)
    if excess <= 0 or count == 1:
        return distance
    return round_up(lambda: ball(distance) * (ball(count).log() * ball(excess)).exp())


def needed_scale(
    reach: Fraction, guarantee: Approx | Pure, alpha: Fraction, method: str, dims: int, margin: float = MARGIN
) -> Fraction:
    """The least scale, with a margin for the errors of the calibration, rounded up to 12 digits."""
    small = guarantee.delta if isinstance(guarantee, Approx) else None
    z = calibrate(alpha=alpha, eps=guarantee.eps, delta=small, method=method, dims=dims)
    scale, more = rounded_up(reach / Fraction(z * (1 - margin)), 12), Fraction(MARGIN)
    while more < 1 and kept_delta(reach, scale, guarantee.eps, alpha, method, dims) > (small or 0):
        scale, more = (
            rounded_up(scale * (1 + more), 12),
            2 * more,
        )  # far from what is used delta is a little rough
    return scale


def kept_delta(
    reach: Fraction, scale: Fraction, eps: Fraction, alpha: Fraction, method: str, dims: int
) -> Fraction:
    """The delta that noise of this scale keeps at eps; 0 where eps is pure, and 1 where nothing is kept.

    From above: the distance is taken longer than it is, by more than the errors of a calibration.
    """
    z = reach / scale * (1 + Fraction(MARGIN) / 4)
    return Fraction(min(delta_above(alpha=alpha, eps=eps, z=z, method=method, dims=dims), 1.0))


def default_step(reach: Fraction) -> Fraction:
    """The power of ten below a thousandth of the sensitivity: rounding is then lost in the noise."""
    return Fraction(10) ** (math.floor(math.log10(reach)) - 3)


def rounded_up(number: Fraction, digits: int) -> Fraction:
    grid = Fraction(10) ** (digits - 1 - math.floor(math.log10(number)))
    return Fraction(math.ceil(number * grid)) / grid


def rounded_root(number: Fraction) -> Fraction:
    """About the square root, for choosing a grid."""
    return rounded_up(Fraction(math.sqrt(number)), 3)
