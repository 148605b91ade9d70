"""The compiled loops of the projection onto a tree of any form. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Bools, Floats, Integers

_ROUNDS = 12  # of proportional fitting: after these, counts hardly move
_SEED = 1e-3  # of what is estimated at 0 or less: it takes people only where margins leave no other place


@compiled
def _nearest(total: float, wanted: Floats, allowed: Bools, out: Floats) -> None:
    """The point nearest to `wanted` among those that are 0 or more, 0 where not allowed, and add up to `total`."""
    size = 0
    for i in range(wanted.size):
        if allowed[i]:
            out[size] = -wanted[i]
            size += 1
    if size == 0:
        return
    largest_first = np.sort(out[:size])
    cut, running = 0.0, 0.0
    for i in range(size):
        running -= largest_first[i]
        level = (running - total) / (i + 1)
        if i == 0 or -largest_first[i] > level:
            cut = level
        else:
            break
    for i in range(wanted.size):
        out[i] = max(wanted[i] - cut, 0.0) if allowed[i] else 0.0


@compiled
def _whole(total: int, parts: Floats, room: Integers, carry: Floats, out: Integers) -> None:
    """Whole numbers of at most `room` that add up to `total`, by largest remainder. `carry` is what rounding took before."""
    left = total
    for i in range(parts.size):
        out[i] = min(int(np.floor(parts[i] + 1e-6)), room[i])
        left -= out[i]
        carry[i] += parts[i] - out[i]
    if left == 0:
        return
    order = np.argsort(np.round(-carry if left > 0 else carry, 6), kind="mergesort")
    while left != 0:  # once around, mostly
        moved = 0
        for place in range(parts.size):
            i = order[place]
            if left > 0 and out[i] < room[i]:
                step = 1 if left <= parts.size else min(left, room[i] - out[i])
            elif left < 0 and out[i] > 0:
                step = -1 if -left <= parts.size else -min(-left, out[i])
            else:
                continue
            out[i] += step
            carry[i] -= step
            left -= step
            moved += 1
            if left == 0:
                break
        if moved == 0:
            return


@compiled
def share_nodes(
    firsts: Integers,
    held: Integers,
    wanted: Floats,
    allowed: Bools,
    all_allowed: bool,
    fixed: Integers,
    low: Integers,
    out: Integers,
) -> None:
    """Each node's counts by category shared out among its children, as near as can be to what is wanted of each.

    held [node, category]; wanted, allowed, out [child, category]; fixed, low [child]

    The totals of the children come first: known ones (0 or more in `fixed`) as they are, the others no less than `low`, which
    those below them are known to hold. What is wanted of each child and category is then scaled, in turn, to these totals and to
    the node's counts by category, and made whole so that both hold: no category takes more than a child has left.
    """
    groups = held.shape[1]
    widest = 1
    for node in range(held.shape[0]):
        widest = max(widest, firsts[node + 1] - firsts[node])
    sums, near, totals = np.empty(widest), np.empty(widest), np.empty(widest, np.int64)
    may, room = np.empty(widest, np.bool_), np.empty(widest, np.int64)
    carry, sized = np.empty(widest), np.empty(widest)
    fitted = np.empty((groups, widest))
    found = np.empty(widest, np.int64)
    for node in range(held.shape[0]):
        start, size = firsts[node], firsts[node + 1] - firsts[node]
        total = 0
        for g in range(groups):
            total += held[node, g]
        if total == 0:
            out[start : start + size, :] = 0
            continue
        left = total
        for i in range(size):
            sums[i] = -low[start + i]
            may[i] = False
            for g in range(groups):
                if all_allowed or allowed[start + i, g]:
                    may[i] = True
                    sums[i] += wanted[start + i, g]
            if fixed[start + i] >= 0:
                may[i] = False
                left -= fixed[start + i]
            else:
                left -= low[start + i]
            room[i] = left if may[i] else 0
        for i in range(size):
            room[i] = left if may[i] else 0
            carry[i] = 0.0
        _nearest(float(left), sums[:size], may[:size], near[:size])
        for i in range(size):
            if not may[i]:
                near[i] = 0.0
        _whole(left, near[:size], room[:size], carry[:size], totals[:size])
        for i in range(size):
            totals[i] += fixed[start + i] if fixed[start + i] >= 0 else low[start + i]
        if groups == 1:
            for i in range(size):
                out[start + i, 0] = totals[i]
            continue
        for i in range(size):
            for g in range(groups):
                good = (all_allowed or allowed[start + i, g]) and held[node, g] > 0 and totals[i] > 0
                fitted[g, i] = max(wanted[start + i, g], _SEED) if good else 0.0
        for step in range(_ROUNDS):
            sums[:size] = 0.0
            for g in range(groups):
                row = 0.0
                for i in range(size):
                    row += fitted[g, i]
                factor = held[node, g] / row if row > 0 else 0.0
                for i in range(size):
                    fitted[g, i] *= factor
                    sums[i] += fitted[g, i]
            worst = 0.0
            for i in range(size):
                worst = max(worst, abs(sums[i] - totals[i]))
                sized[i] = totals[i] / sums[i] if sums[i] > 0 else 0.0
            if worst < 0.05 or step == _ROUNDS - 1:
                break
            for g in range(groups):
                for i in range(size):
                    fitted[g, i] = max(fitted[g, i] * sized[i], 1e-9 if fitted[g, i] > 0 else 0.0)
        carry[:size] = 0.0
        for g in range(groups):
            for i in range(size):
                # where some combinations are impossible, totals of children may give way, by little
                room[i] = totals[i] if all_allowed else (held[node, g] if allowed[start + i, g] else 0)
            _whole(held[node, g], fitted[g, :size], room[:size], carry[:size], found[:size])
            for i in range(size):
                out[start + i, g] = found[i]
                totals[i] -= found[i]
