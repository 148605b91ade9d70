"""The compiled loop of the search for digit urns. It proposes; exact integers decide."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Floats, Integers


@compiled
def judge(
    steps: Integers, sizes: Integers, counts: Floats, growth: float, law: Floats, spare: Floats
) -> tuple[float, float, float]:
    """Entries, delta(eps) and E|Z| of symmetric urns, in floating point; growth = e^eps."""
    urns = steps.size
    middle = law.size // 2
    law[:] = 0.0
    law[middle] = 1.0
    reach = 0
    entries = 0.0
    for j in range(urns):
        size = counts[j, 0]
        for d in range(1, sizes[j]):
            size += 2.0 * counts[j, d]
        entries += size
        wider = reach + steps[j] * (sizes[j] - 1)
        for k in range(middle - wider, middle + wider + 1):
            spare[k] = 0.0
        for k in range(middle - reach, middle + reach + 1):
            at = law[k] / size
            if at > 0.0:
                spare[k] += at * counts[j, 0]
                for d in range(1, sizes[j]):
                    part = at * counts[j, d]
                    spare[k + d * steps[j]] += part
                    spare[k - d * steps[j]] += part
        reach = wider
        for k in range(middle - reach, middle + reach + 1):
            law[k] = spare[k]
    delta = 0.0
    mean = 0.0
    for k in range(middle - reach, middle + reach + 1):
        over = law[k] - growth * law[k - 1]
        if over > 0.0:
            delta += over
        mean += abs(k - middle) * law[k]
    return entries, delta, mean


@compiled
def anneal(
    steps: Integers,
    sizes: Integers,
    counts: Floats,
    growth: float,
    delta: float,
    mean: float,
    rounds: int,
    hot: float,
    seed: int,
) -> float:
    """Changes steps and counts at random, less and less; returns the cost of the best found, left in the arguments.

    The cost is ln(entries), and more where delta or E|Z| exceed what is wanted.
    """
    urns = steps.size
    most = 3
    for j in range(urns):
        most += 2 * (steps[j] + 2) * (sizes[j] - 1)
    law, spare = np.zeros(2 * most + 3), np.zeros(2 * most + 3)
    best_steps, best_counts = steps.copy(), counts.copy()
    entries, found, error = judge(steps, sizes, counts, growth, law, spare)
    now_entries, now_found, now_error = entries, found, error
    best = cost_of(entries, found, error, delta, mean, 1.0)
    state = np.uint64(seed * 2654435761 + 88172645463325252)
    for r in range(rounds):
        heat = hot * (0.002 ** (r / rounds))
        hard = min(1.0, 0.05 + r / (0.7 * rounds))
        now = cost_of(now_entries, now_found, now_error, delta, mean, hard)
        state = _next(state)
        j = int(state >> np.uint64(33)) % urns
        state = _next(state)
        kind = int(state >> np.uint64(33)) % 16
        state = _next(state)
        u = float(state >> np.uint64(11)) * 2.0**-53
        state = _next(state)
        v = float(state >> np.uint64(11)) * 2.0**-53
        sign = 1.0 if v < 0.5 else -1.0
        saved = counts[j].copy()
        saved_step = steps[j]
        if kind == 0 and j > 0:
            steps[j] += 1 if v < 0.5 else -1
            if steps[j] < 1 or 2 * steps[j] > 4 * best_steps[j]:
                steps[j] = saved_step
                continue
        elif kind <= 2:
            factor = math.exp(sign * 0.2 * u * u)
            for d in range(sizes[j]):
                counts[j, d] = max(1.0, np.rint(counts[j, d] * factor))
        else:
            d = 0 if kind <= 8 else int(u * 1e9) % sizes[j]
            change = np.rint(counts[j, d] * 0.15 * u * u * u)
            counts[j, d] = max(1.0, counts[j, d] + sign * max(1.0, change))
        reach = 0
        for i in range(urns):
            reach += steps[i] * (sizes[i] - 1)
        if reach + 2 > law.size // 2:
            cost = 1e300
        else:
            entries, found, error = judge(steps, sizes, counts, growth, law, spare)
            cost = cost_of(entries, found, error, delta, mean, hard)
        state = _next(state)
        w = float(state >> np.uint64(11)) * 2.0**-53
        if cost <= now or w < math.exp((now - cost) / heat):
            now_entries, now_found, now_error = entries, found, error
            cost = cost_of(entries, found, error, delta, mean, 1.0)
            if cost < best:
                best = cost
                _copy(steps, counts, best_steps, best_counts)
        else:
            for d in range(counts.shape[1]):
                counts[j, d] = saved[d]
            steps[j] = saved_step
    _copy(best_steps, best_counts, steps, counts)
    return best


@compiled
def _copy(steps: Integers, counts: Floats, to_steps: Integers, to_counts: Floats) -> None:
    """Number by number: assigning slices would compile for longer than all the rest, as in tables/tree/_compiled.py."""
    for j in range(steps.size):
        to_steps[j] = steps[j]
        for d in range(counts.shape[1]):
            to_counts[j, d] = counts[j, d]


@compiled
def cost_of(entries: float, found: float, error: float, delta: float, mean: float, hard: float) -> float:
    cost = math.log(entries)
    if found > delta:
        cost += hard * (0.001 + 3.0 * math.log(found / delta))
    if error > mean:
        cost += hard * (0.001 + 60.0 * (error / mean - 1.0))
    return cost


@compiled
def _next(state: np.uint64) -> np.uint64:
    """xorshift64: which designs are tried is no secret, and the same question should give the same plan."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state
