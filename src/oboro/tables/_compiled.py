"""The compiled loops of the tables. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Integers


@compiled
def _first_from(sorted_keys: Integers, key: int, low: int, high: int) -> int:
    """The first index in [low, high) whose key is at least `key`, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if sorted_keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def descend(
    bits: int,
    keys: Integers,
    before: Integers,
    masks: Integers,
    limits: Integers,
    head_bits: int,
    heads: Integers,
    roots: Integers,
    noise: Integers,
    coins: Integers,
    state: Integers,
    stack: Integers,
    starts: Integers,
    out_keys: Integers,
    out_counts: Integers,
) -> bool:
    """Shares out the published sum of each root down to the cells, depth first, visiting live nodes alone.

    keys, before    the stored cells in order; before[i] is what the first i of them hold
    masks, limits   which second halves are possible; `heads` the possible first `head_bits` bits of keys
    roots           the published sums to begin with, one for each trial
    noise, coins    one draw and one fair bit for each node that is measured, in the order of visiting
    state           [draws used, height of the stack, roots begun, cells written]: kept between calls
    stack           rows of (key, depth, sum, stored cells from, to, heads from, to)
    starts          where the cells of each root begin in all that was written

    Returns whether all is done; if not, it wants more noise or more room.
    """
    used, top, begun, written = state[0], state[1], state[2], state[3]
    done = False
    while True:
        if top == 0:
            if begun == roots.size:
                done = True
                break
            starts[begun] = written + state[4]
            if roots[begun] > 0 and heads.size > 0:
                stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, roots[begun]
                stack[0, 3], stack[0, 4], stack[0, 5], stack[0, 6] = 0, keys.size, 0, heads.size
                top = 1
            begun += 1
            continue
        if used == noise.size or written == out_keys.size:
            break
        top -= 1
        key, depth, total = stack[top, 0], stack[top, 1], stack[top, 2]
        if depth == bits:
            out_keys[written] = key
            out_counts[written] = total
            written += 1
            continue
        low, high, head_low, head_high = stack[top, 3], stack[top, 4], stack[top, 5], stack[top, 6]
        second = key | (1 << (bits - 1 - depth))
        middle = low if low == high else _first_from(keys, second, low, high)
        head_middle = head_low
        first_possible = True
        second_possible = (second & masks[depth]) <= limits[depth]
        if depth < head_bits:
            head_middle = _first_from(heads, second >> (bits - head_bits), head_low, head_high)
            first_possible = head_middle > head_low
            second_possible = head_high > head_middle
        share = total
        if first_possible and second_possible:
            difference = 2 * before[middle] - before[low] - before[high] + noise[used]
            if difference <= -total:
                share = 0
            elif difference < total:
                both = total + difference
                share = (both >> 1) + (both & 1 & (coins[used >> 6] >> (used & 63)))
            used += 1
        elif second_possible:
            share = 0
        if depth >= head_bits:
            head_middle = head_low  # below the heads their range no longer matters
        if share < total:
            stack[top, 0], stack[top, 1], stack[top, 2] = second, depth + 1, total - share
            stack[top, 3], stack[top, 4], stack[top, 5], stack[top, 6] = middle, high, head_middle, head_high
            top += 1
        if share > 0:
            stack[top, 0], stack[top, 1], stack[top, 2] = key, depth + 1, share
            stack[top, 3], stack[top, 4], stack[top, 5], stack[top, 6] = low, middle, head_low, head_middle
            top += 1
    state[0], state[1], state[2], state[3] = used, top, begun, written
    return done


@compiled
def add_up(keys: Integers, counts: Integers, cap: int) -> int:
    """Joins neighbours with the same key, in place, none above `cap`; drops zeros; returns how many are left."""
    kept = 0
    i = 0
    while i < keys.size:
        key = keys[i]
        total = 0
        while i < keys.size and keys[i] == key:
            total = min(total + counts[i], cap)  # both at most cap <= 2^61: no overflow
            i += 1
        if total > 0:
            keys[kept] = key
            counts[kept] = total
            kept += 1
    return kept
