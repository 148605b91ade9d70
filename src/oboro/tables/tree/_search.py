"""The compiled search of the planner. Compiled once, then read from a cache on disk.

SciPy has such a search, but its linear algebra starts threads for every step, which on a busy machine takes a hundred
times as long as the step itself. Loops add numbers up one after the other, so that a plan is the same on every machine.
They take few arrays and make none: that is most of what compiling them costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Floats, Integers

AT, SLOPE, DIRECTION, THERE, NEW_SLOPE, ALONG = range(
    6
)  # what a search knows: rows, a number for each unknown
VALUE, DESCENT, LENGTH, QUIET, HALVINGS, STEPS = range(6)  # and single numbers
_MOST_HALVINGS = 30


@compiled
def advance(known: Floats, single: Floats, value: float, steps: int, gain: float) -> bool:
    """One step of a quasi-Newton search: BFGS with step halving, for a few dozen unknowns.

    It is told the objective at the place that it asked for, `known[THERE]`, with the gradient in `known[NEW_SLOPE]`, and
    asks for another. False if there is none: then `known[AT]` is the minimum, found when two steps gained less than
    `gain`. The last rows are the inverse of the Hessian, as far as it is known. All begin as zeros, but for the start.
    """
    size = known.shape[1]
    first = known.shape[0] - size  # of the inverse
    new = single[STEPS] == 0
    if not new and not value <= single[VALUE] + 1e-4 * single[LENGTH] * single[DESCENT]:
        single[HALVINGS] += 1
        single[LENGTH] /= 2
        for i in range(size):
            known[THERE, i] = known[AT, i] + single[LENGTH] * known[DIRECTION, i]
        return bool(single[HALVINGS] < _MOST_HALVINGS)
    curve = bent = 0.0
    for i in range(size):
        known[ALONG, i] = 0.0
        for k in range(size):
            known[ALONG, i] += known[first + i, k] * (known[NEW_SLOPE, k] - known[SLOPE, k])
        turned = known[NEW_SLOPE, i] - known[SLOPE, i]
        curve += (known[THERE, i] - known[AT, i]) * turned
        bent += turned * known[ALONG, i]
    if not new and curve > 1e-14:  # what the step says about the Hessian
        for i in range(size):
            moved = known[THERE, i] - known[AT, i]
            for k in range(size):
                other = known[THERE, k] - known[AT, k]
                known[first + i, k] += (1 + bent / curve) * (moved * other) / curve
                known[first + i, k] -= (known[ALONG, i] * other + moved * known[ALONG, k]) / curve
    single[QUIET] = single[QUIET] + 1 if not new and single[VALUE] - value < gain else 0.0
    single[VALUE] = value
    descent = 0.0
    for i in range(size):
        known[AT, i], known[SLOPE, i] = known[THERE, i], known[NEW_SLOPE, i]
    if single[QUIET] == 2 or single[STEPS] == steps:
        return False
    single[STEPS] += 1
    single[HALVINGS] = 0.0
    for i in range(size):
        known[DIRECTION, i] = 0.0
        for k in range(size):
            known[DIRECTION, i] -= known[first + i, k] * known[SLOPE, k]
        descent += known[DIRECTION, i] * known[SLOPE, i]
    if descent >= 0:  # nothing is known, or the model went wrong: begin it again
        descent = 0.0
        for i in range(size):
            for k in range(size):
                known[first + i, k] = 1.0 if i == k else 0.0
            known[DIRECTION, i] = -known[SLOPE, i]
            descent -= known[SLOPE, i] * known[SLOPE, i]
    longest = 1e-300
    for i in range(size):
        longest = max(longest, abs(known[DIRECTION, i]))
    single[DESCENT], single[LENGTH] = descent, min(1.0, 0.5 / longest)
    for i in range(size):
        known[THERE, i] = known[AT, i] + single[LENGTH] * known[DIRECTION, i]
    return True


SHARES, UNDER, INVERSE, OF_SHARES = range(4)  # a number for each level; then follow the profiles
AIMS, PULL = range(2)  # a number for each profile


@compiled
def objective(
    levels: Floats,
    profiles: Floats,
    shape: Integers,
    power: int,
    held: int,
    sharpness: float,
    steepness: float,
) -> float:
    """The mean log variance of the questions; its gradient with respect to the shares goes to `levels[OF_SHARES]`.

    The last `held` profiles are of blocks whose log variances should not exceed their aim. Those of the questions are how
    much each counts; with a sharpness they are references, and the smooth maximum of what log variances exceed them by
    is taken instead.
    """
    size, number = levels.shape[1], profiles.shape[1]
    questions = number - held
    first = levels.shape[0] - number  # of the profiles
    for i in range(size):
        share = levels[SHARES, i]
        levels[INVERSE, i] = levels[UNDER, i] * (share if power == 1 else share * share)
        levels[OF_SHARES, i] = 0.0
    stride = 1
    for axis in range(shape.size - 1, -1, -1):  # mu: see `moments`
        for i in range(size - 1, -1, -1):
            if (i // stride) % shape[axis] < shape[axis] - 1:
                levels[INVERSE, i] += levels[INVERSE, i + stride]
        stride *= shape[axis]
    for i in range(size):
        levels[INVERSE, i] = 1 / max(levels[INVERSE, i], 1e-12)
    value, top = 0.0, -np.inf
    for q in range(number):
        variance = 0.0
        for i in range(size):
            variance += levels[first + q, i] * levels[INVERSE, i]
        over = np.log(variance) - profiles[AIMS, q]
        if q >= questions:
            over = max(over, 0.0)
            value += steepness * over * over
            profiles[PULL, q] = 2 * steepness * over / variance
        elif sharpness == 0:
            value += profiles[AIMS, q] * (over + profiles[AIMS, q])
            profiles[PULL, q] = profiles[AIMS, q] / variance
        else:
            profiles[PULL, q] = over
            top = max(top, over)
    if sharpness > 0:
        total = 0.0
        for q in range(questions):
            total += np.exp(sharpness * (profiles[PULL, q] - top))
        value += top + np.log(total) / sharpness
        for q in range(questions):
            over = profiles[PULL, q]
            profiles[PULL, q] = np.exp(sharpness * (over - top) - over - profiles[AIMS, q]) / total
    for q in range(number):
        for i in range(size):
            levels[OF_SHARES, i] -= profiles[PULL, q] * levels[first + q, i] * levels[INVERSE, i] ** 2
    stride = 1
    for axis in range(shape.size - 1, -1, -1):
        for i in range(size):
            if (i // stride) % shape[axis] > 0:
                levels[OF_SHARES, i] += levels[OF_SHARES, i - stride]
        stride *= shape[axis]
    for i in range(size):
        levels[OF_SHARES, i] *= levels[UNDER, i] * (1.0 if power == 1 else 2 * levels[SHARES, i])
    return value


@compiled
def improve(
    kept: Integers,
    known: Floats,
    single: Floats,
    levels: Floats,
    profiles: Floats,
    shape: Integers,
    power: int,
    held: int,
    sharpness: float,
    steepness: float,
    steps: int,
    gain: float,
) -> None:
    """A search for the best shares of some levels, which are u^2 / sum u^2."""
    more = True
    while more:
        total = along = 0.0
        for i in range(kept.size):
            total += known[THERE, i] * known[THERE, i]
        for i in range(levels.shape[1]):
            levels[SHARES, i] = 0.0
        for i in range(kept.size):
            levels[SHARES, kept[i]] = known[THERE, i] * known[THERE, i] / total
        value = objective(levels, profiles, shape, power, held, sharpness, steepness)
        for i in range(kept.size):
            along += levels[OF_SHARES, kept[i]] * levels[SHARES, kept[i]]
        for i in range(kept.size):
            known[NEW_SLOPE, i] = 2 * known[THERE, i] / total * (levels[OF_SHARES, kept[i]] - along)
        more = advance(known, single, value, steps, gain)
