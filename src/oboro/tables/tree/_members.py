"""The compiled loop of `members`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Floats, Integers

_LEAST = 1e-3  # of what may be missed, that each side has at least
_FLOATS = 1e-9  # by which sums are taken smaller or larger than floating point has them


@compiled
def _excluded(
    first: int,
    last: int,
    upwards: bool,
    y: int,
    held: Integers,
    coin: float,
    upper: Floats,
    law: Floats,
    tail: Floats,
    step: int,
    miss: float,
    all_: float,
    hidden: int,
    below: float,
) -> bool:
    """Whether no x from `first` to `last` belongs to y's interval, as far as its upper end, or its lower one, says.

    `upper` is what the upper side may miss, as a share, at `first` and at `last`. Sums that make exclusion easier are
    bounded from below over all these x and over whatever the counts are that were not looked at, the others from above.
    """
    many = held.size // 2
    least, outside, hid, tested = 0.0, 0.0, 0.0, 0.0
    left, left_most, right, right_most = 0.0, 0.0, 0.0, 0.0  # members below x, and above
    low, low_most, high, high_most = (
        0.0,
        0.0,
        0.0,
        0.0,
    )  # those that are printed with less than x, and with more
    for i in range(-many, many + 1):
        at = y + i * step
        if at < first:
            near, far = first - at, last - at
        elif at > last:
            near, far = at - last, at - first
        else:
            near, far = 0, max(last - at, at - first)
        most, fewest = law[near], law[far]
        value = held[i + many]
        if value == 0:
            outside += most
            continue
        least += fewest
        if at < first - hidden:
            hid += fewest
        left += fewest if at < first else 0.0
        left_most += most if at < last else 0.0
        right += fewest if at > last else 0.0
        right_most += most if at > first else 0.0
        low += fewest if max(at, value) < first else 0.0
        low_most += most if max(at, value) < last else 0.0
        high += fewest if min(at, value) > last else 0.0
        high_most += most if min(at, value) > first else 0.0
        if i == 0:
            tested += coin * most
        elif (i < 0) == upwards:
            tested += most
    above, under = tail[y + (many + 1) * step - last], tail[first - y + (many + 1) * step]
    published = max(least, all_ - outside - above - under)
    budget = min(miss * published, miss * all_ - max(below - hid, 0.0)) * (1 - _FLOATS)
    if upwards:  # what lies below y
        allowed = max(budget - miss * upper[0] * all_, min(budget, miss * (left - right_most - above)))
        allowed = min(max(allowed, budget - high_most - above), low)
        tested += under
    else:
        allowed = min(miss * upper[1] * all_, max(0.0, budget - miss * (left_most + under - right)))
        allowed = max(min(allowed, high), budget - low_most - under)
        tested += above
    allowed = min(max(allowed, _LEAST * budget), (1 - _LEAST) * budget)
    return bool(tested * (1 + _FLOATS) <= allowed)


@compiled
def by_members(
    y: Integers,
    held: Integers,
    coins: Floats,
    middle: Floats,
    upper: Floats,
    each: float,
    law: Floats,
    tail: Floats,
    step: int,
    beyond: float,
    miss: float,
    all_: float,
    hidden: int,
    below: float,
    largest: int,
    low: Integers,
    high: Integers,
) -> None:
    """The ends of each row's interval: x from far away towards y, as many at a time as are all excluded.

    coins       two for each row: how much of y itself counts towards its lower and its upper side
    upper       what the upper side may miss, by (x - middle)/each, from the middle of the array on; falls
    """
    many = held.shape[1] // 2
    reach, half = many * step, upper.size // 2
    shares = np.empty(2)
    for row in range(y.size):
        here, members = y[row], held[row]
        for upwards in (False, True):
            coin = coins[row, 1 if upwards else 0]
            sign = 1 if upwards else -1
            # further away than all that was looked at: the share that is missed only falls
            tested, published = 0.0, 0.0
            for i in range(-many, many + 1):
                if members[i + many] != 0:
                    weight = law[reach - sign * i * step]
                    published += weight
                    tested += (coin * weight) if i == 0 else (weight if sign * i < 0 else 0.0)
            tested += law[reach] * beyond
            sure = tested * (1 + _FLOATS) <= 0.49 * _LEAST * miss * published
            bound = max(here, 0)
            x, size = here + sign * reach, max(1, reach // 4)
            if not upwards and (x < 0 or not sure):
                x = max(x, 0)
                if not sure:
                    low[row] = 0
                    continue
            if upwards and not sure:
                high[row] = largest
                continue
            found = bound
            while (x - bound) * sign > 0:
                end = x - sign * (size - 1)
                end = max(end, bound) if upwards else min(end, bound)
                first, last = min(x, end), max(x, end)
                for k in range(2):
                    where = ((first if k == 0 else last) - middle[row]) / each
                    shares[k] = upper[int(min(max(np.floor(where), -half), half)) + half]
                if _excluded(
                    first,
                    last,
                    upwards,
                    here,
                    members,
                    coin,
                    shares,
                    law,
                    tail,
                    step,
                    miss,
                    all_,
                    hidden,
                    below,
                ):
                    x = end - sign
                    size *= 2
                elif first == last:
                    found = x
                    break
                else:
                    size = max(1, (last - first + 1) // 2)
            if upwards:
                high[row] = max(found, bound)
            else:
                low[row] = min(found, bound)
