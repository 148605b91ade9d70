"""The search of the planner: compiled once, then read from a cache on disk, or, for few levels, not compiled at all.

SciPy has such a search, but its linear algebra starts threads for every step, which on a busy machine takes a hundred
times as long as the step itself. Loops add numbers up one after the other, so that a plan is the same on every machine.
They take few arrays and make none: that is most of what compiling them costs. All of it is written so that lists of
lists serve as well as arrays: of lists Python reads a number in a third of the time (`interpreted`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
    at, slope, direction, there = known[AT], known[SLOPE], known[DIRECTION], known[THERE]
    new_slope, along = known[NEW_SLOPE], known[ALONG]
    size = len(at)
    first = len(known) - size  # of the inverse
    new = single[STEPS] == 0
    if not new and not value <= single[VALUE] + 1e-4 * single[LENGTH] * single[DESCENT]:
        single[HALVINGS] += 1
        single[LENGTH] /= 2
        for i in range(size):
            there[i] = at[i] + single[LENGTH] * direction[i]
        return bool(single[HALVINGS] < _MOST_HALVINGS)
    curve = bent = 0.0
    for i in range(size):
        inverse, sum_ = known[first + i], 0.0
        for k in range(size):
            sum_ += inverse[k] * (new_slope[k] - slope[k])
        along[i] = sum_
        turned = new_slope[i] - slope[i]
        curve += (there[i] - at[i]) * turned
        bent += turned * sum_
    if not new and curve > 1e-14:  # what the step says about the Hessian
        factor = (1 + bent / curve) / curve
        for i in range(size):
            inverse, moved, own = known[first + i], there[i] - at[i], along[i] / curve
            for k in range(size):
                other = there[k] - at[k]
                inverse[k] += factor * (moved * other) - (own * other + moved * along[k] / curve)
    single[QUIET] = single[QUIET] + 1 if not new and single[VALUE] - value < gain else 0.0
    single[VALUE] = value
    descent = 0.0
    for i in range(size):
        at[i], slope[i] = there[i], new_slope[i]
    if single[QUIET] == 2 or single[STEPS] == steps:
        return False
    single[STEPS] += 1
    single[HALVINGS] = 0.0
    for i in range(size):
        inverse, sum_ = known[first + i], 0.0
        for k in range(size):
            sum_ -= inverse[k] * slope[k]
        direction[i] = sum_
        descent += sum_ * slope[i]
    if descent >= 0:  # nothing is known, or the model went wrong: begin it again
        descent = 0.0
        for i in range(size):
            inverse = known[first + i]
            for k in range(size):
                inverse[k] = 1.0 if i == k else 0.0
            direction[i] = -slope[i]
            descent -= slope[i] * slope[i]
    longest = 1e-300
    for i in range(size):
        longest = max(longest, abs(direction[i]))
    single[DESCENT], single[LENGTH] = descent, min(1.0, 0.5 / longest)
    for i in range(size):
        there[i] = at[i] + single[LENGTH] * direction[i]
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
    shares, under, inverse, of_shares = levels[SHARES], levels[UNDER], levels[INVERSE], levels[OF_SHARES]
    aims, pull = profiles[AIMS], profiles[PULL]
    size, number = len(shares), len(aims)
    questions = number - held
    first = len(levels) - number  # of the profiles
    for i in range(size):
        inverse[i] = under[i] * (shares[i] if power == 1 else shares[i] * shares[i])
        of_shares[i] = 0.0
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):  # mu: see `moments`
        for i in range(size - 1, -1, -1):
            if (i // stride) % shape[axis] < shape[axis] - 1:
                inverse[i] += inverse[i + stride]
        stride *= shape[axis]
    for i in range(size):
        inverse[i] = 1 / max(inverse[i], 1e-12)
    value, top = 0.0, -math.inf
    for q in range(number):
        profile, variance = levels[first + q], 0.0
        for i in range(size):
            variance += profile[i] * inverse[i]
        over = math.log(variance) - aims[q]
        if q >= questions:
            over = max(over, 0.0)
            value += steepness * over * over
            pull[q] = 2 * steepness * over / variance
        elif sharpness == 0:
            value += aims[q] * (over + aims[q])
            pull[q] = aims[q] / variance
        else:
            pull[q] = over
            top = max(top, over)
    if sharpness > 0:
        total = 0.0
        for q in range(questions):
            total += math.exp(sharpness * (pull[q] - top))
        value += top + math.log(total) / sharpness
        for q in range(questions):
            over = pull[q]
            pull[q] = math.exp(sharpness * (over - top) - over - aims[q]) / total
    for q in range(number):
        profile, much = levels[first + q], pull[q]
        if much != 0:
            for i in range(size):
                of_shares[i] -= much * profile[i]
    for i in range(size):
        of_shares[i] *= inverse[i] * inverse[i]
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        for i in range(size):
            if (i // stride) % shape[axis] > 0:
                of_shares[i] += of_shares[i - stride]
        stride *= shape[axis]
    for i in range(size):
        of_shares[i] *= under[i] * (1.0 if power == 1 else 2 * shares[i])
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
    shares, of_shares, there, new_slope = levels[SHARES], levels[OF_SHARES], known[THERE], known[NEW_SLOPE]
    more = True
    while more:
        total = along = 0.0
        for i in range(len(kept)):
            total += there[i] * there[i]
        for i in range(len(shares)):
            shares[i] = 0.0
        for i in range(len(kept)):
            shares[kept[i]] = there[i] * there[i] / total
        value = objective(levels, profiles, shape, power, held, sharpness, steepness)
        for i in range(len(kept)):
            along += of_shares[kept[i]] * shares[kept[i]]
        for i in range(len(kept)):
            new_slope[i] = 2 * there[i] / total * (of_shares[kept[i]] - along)
        more = advance(known, single, value, steps, gain)
