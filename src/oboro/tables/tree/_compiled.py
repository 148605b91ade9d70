"""The compiled loops of the projection. Compiled once, then read from a cache on disk.

Rows are filled and copied number by number: a slice that is assigned an array would have Numba compile the text of the error for
shapes that do not fit, which takes longer than all the rest, and a slice that is passed on is compiled, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled, compiled_within

if TYPE_CHECKING:
    from oboro.arrays import Bools, Floats, Integers

_ROUNDS = 12  # of proportional fitting: after these, counts hardly move
_SEED = 1e-3  # of what is estimated at 0 or less: it takes people only where margins leave no other place


@compiled
def _nearest(total: float, parts: int, wanted: Floats, allowed: Bools, sorted_: Floats, out: Floats) -> None:
    """The point nearest to the first parts of `wanted` among those that are 0 or more, 0 where not allowed, and add up to `total`."""
    size = 0
    for i in range(parts):
        if allowed[i]:
            at = size
            while at > 0 and sorted_[at - 1] < wanted[i]:
                sorted_[at] = sorted_[at - 1]
                at -= 1
            sorted_[at] = wanted[i]
            size += 1
    cut, running = 0.0, 0.0
    for i in range(size):
        running += sorted_[i]
        level = (running - total) / (i + 1)
        if i == 0 or sorted_[i] > level:
            cut = level
        else:
            break
    for i in range(parts):
        out[i] = max(wanted[i] - cut, 0.0) if allowed[i] else 0.0


_TIE = 1e-6  # people: remainders that differ by less are equal


@compiled
def _rounded(total: int, parts: int, wanted: Floats, allowed: Bools, carry: Floats, out: Integers) -> None:
    """Whole numbers for the first parts of `wanted` that add up to `total`, by largest remainder. `carry` is what earlier rounding took from each.

    Cells of one block differ by whole numbers, so that their remainders are equal, and the first of them goes first. What
    floating point adds to them must not decide: `how_far` follows the same rule.
    """
    left, near = total, min(_TIE + 1e-12 * total, 0.25)
    for i in range(parts):
        out[i] = int(np.floor(wanted[i] + near))
        left -= out[i]
        carry[i] += wanted[i] - out[i]
    while left != 0:
        best = -1
        for i in range(parts):
            if not allowed[i] or (left < 0 and out[i] == 0):
                continue
            if best < 0 or (carry[i] > carry[best] + near if left > 0 else carry[i] < carry[best] - near):
                best = i
        # sums beyond 2^53 are not exact in floating point: what is then left over goes to one part at once
        step = 1 if 0 < left <= parts else (max(left, -out[best]) if left < 0 else left)
        out[best] += step
        carry[best] -= step
        left -= step


@compiled
def _quarters(total: int, w0: float, w1: float, w2: float, w3: float, carry: Floats, out: Integers) -> None:
    """`_nearest` and `_rounded` of four parts that are all allowed, as most are: the same numbers, without their branches."""
    a, b, c, d = max(w0, w1), min(w0, w1), max(w2, w3), min(w2, w3)
    first, last = max(a, c), min(b, d)
    a, b = min(a, c), max(b, d)
    second, third = max(a, b), min(a, b)
    whole = float(total)
    running = first
    cut = running - whole
    running += second
    level = (running - whole) / 2
    going = second > level
    cut = level if going else cut
    running += third
    level = (running - whole) / 3
    going &= third > level
    cut = level if going else cut
    running += last
    level = (running - whole) / 4
    going &= last > level
    cut = level if going else cut
    near = min(_TIE + 1e-12 * total, 0.25)
    carry[0], carry[1], carry[2], carry[3] = (
        max(w0 - cut, 0.0),
        max(w1 - cut, 0.0),
        max(w2 - cut, 0.0),
        max(w3 - cut, 0.0),
    )
    left = total
    for i in range(4):
        out[i] = int(np.floor(carry[i] + near))
        left -= out[i]
        carry[i] -= out[i]
    while left != 0:
        best = -1
        for i in range(4):
            if left < 0 and out[i] == 0:
                continue
            if best < 0 or (carry[i] > carry[best] + near if left > 0 else carry[i] < carry[best] - near):
                best = i
        step = 1 if 0 < left <= 4 else (max(left, -out[best]) if left < 0 else left)
        out[best] += step
        carry[best] -= step
        left -= step


@compiled
def share_out(held: Integers, wanted: Floats, allowed: Bools, all_allowed: bool, out: Integers) -> None:
    """Each node's count shared out among its children, as near as can be to what is wanted of each."""
    parts = wanted.shape[1]
    sorted_, near, carry = np.empty(parts), np.empty(parts), np.empty(parts)
    good = np.ones(parts, np.bool_)
    for node in range(held.size):
        if held[node] == 0:
            for i in range(parts):
                out[node, i] = 0
            continue
        if all_allowed and parts == 4:
            _quarters(
                held[node],
                wanted[node, 0],
                wanted[node, 1],
                wanted[node, 2],
                wanted[node, 3],
                carry,
                out[node],
            )
            continue
        for i in range(parts):
            carry[i] = 0.0
            if not all_allowed:
                good[i] = allowed[node, i]
        _nearest(float(held[node]), parts, wanted[node], good, sorted_, near)
        _rounded(held[node], parts, near, good, carry, out[node])


@compiled
def share_out_leaves(
    held: Integers,
    start: Floats,
    slope: float,
    leaves: Integers,
    allowed: Bools,
    all_allowed: bool,
    parts: int,
    first: int,
    end: int,
    places: Integers,
    people: Integers,
) -> int:
    """Shares the counts of the nodes from `first` to `end` out among their leaves; returns how many hold somebody.

    Of a leaf start + slope times its noisy count is wanted, which is 0 where it is not allowed. What holds somebody is written down by its place.
    """
    sorted_, near, carry, wanted = np.empty(parts), np.empty(parts), np.empty(parts), np.empty(parts)
    good, whole = np.ones(parts, np.bool_), np.empty(parts, np.int64)
    size = 0
    for node in range(first, end):
        if held[node] == 0:
            continue
        for i in range(parts):
            place = node * parts + i
            if not all_allowed:
                good[i] = allowed[place]
            wanted[i] = start[node] + (slope * leaves[place] if good[i] else 0.0)
            carry[i] = 0.0
        if all_allowed and parts == 4:
            _quarters(held[node], wanted[0], wanted[1], wanted[2], wanted[3], carry, whole)
        else:
            _nearest(float(held[node]), parts, wanted, good, sorted_, near)
            _rounded(held[node], parts, near, good, carry, whole)
        for i in range(parts):
            if whole[i] != 0:
                places[size] = node * parts + i
                people[size] = whole[i]
                size += 1
    return size


@compiled
def how_far(
    leaves: Integers,
    most: int,
    estimate: float,
    total: int,
    largest: int,
    estimates: Floats,
    allowed: Bools,
    all_allowed: bool,
    arities: Integers,
    under: Integers,
    follow: Floats,
    numbers: Floats,
    good: Bools,
    whole: Integers,
    kept: Integers,
    out: Integers,
) -> None:
    """By how much, up to `most`, the noisy count of each leaf may be smaller so that the leaf still holds somebody.

    `estimates` and `allowed` are those of all nodes below the root, the coarsest level first; `estimate` is that of the
    root, which holds `total` if that is not negative, and at most `largest`. If a noisy count is 1 less, the estimates
    above it are `follow` less than their siblings', level by level. Leaves that hold somebody do so with any larger count
    (`Estimates.row_ends`), so that halving the range finds the least. `under` are the leaves of a node of each level;
    `numbers`, `good` and `whole` are room for as many as the widest node has children: to make it here would be compiled, too.

    What the nodes above a leaf would hold is the same for all leaves below them, with the same number less. It is kept for some
    numbers, [number % of them, 0 or 1, level]: which node of each level was looked at last, and what it held (of level 0,
    the number), -1 to begin with. Leaves in order share nearly all of it: the cost of a leaf is that of its own level.
    """
    for row in range(leaves.size):
        low, high, less = 0, most + 1, most
        while high - low > 1:
            own = kept[less % kept.shape[0]]
            if own[0, 0] != less:
                for level in range(own.shape[1]):
                    own[0, level] = -1
                own[0, 0] = less
            root = total
            if total < 0:
                root = int(np.rint(min(max(estimate - less * follow[0], 0.0), float(largest))))
            if _held(
                leaves[row],
                root,
                estimates,
                allowed,
                all_allowed,
                arities,
                under,
                float(less),
                follow,
                numbers,
                good,
                whole,
                own,
            ):
                low = less
            else:
                high = less
            less = (low + high) // 2
        out[row] = low


@compiled_within
def _held(
    leaf: int,
    root: int,
    estimates: Floats,
    allowed: Bools,
    all_allowed: bool,
    arities: Integers,
    under: Integers,
    less: float,
    follow: Floats,
    numbers: Floats,
    good: Bools,
    whole: Integers,
    kept: Integers,
) -> bool:
    """Whether a leaf would hold somebody if its noisy count were so much less, and the nodes above it followed.

    As `share_out` does it, but along one path; at the last level it is enough to know whether there is one for the leaf:
    there is, if the others take less than all before it is its turn. With f the leaf's part, a sibling that exceeds it by d
    has f + d: the floor of d, and one more that goes before the leaf's unless its remainder is smaller, or equal and it comes
    later.
    """
    wanted, sorted_, near, carry = numbers[0], numbers[1], numbers[2], numbers[3]
    depth = arities.size
    held, first, nodes = root, 0, 1
    for level in range(depth):
        parts = arities[level]
        nodes *= parts
        child = leaf // under[level + 1]
        if level < depth - 1 and kept[0, level + 1] == child:
            held = kept[1, level + 1]
            first += nodes
            continue
        if held == 0:
            break
        start = first + child - child % parts
        own = child % parts
        for i in range(parts):
            wanted[i] = estimates[start + i]
            good[i] = all_allowed or allowed[start + i]
        wanted[own] -= less * follow[level + 1]
        if level == depth - 1:
            taken = 0.0
            near_ = min(_TIE + 1e-12 * held, 0.25)
            for i in range(parts):
                more = wanted[i] - wanted[own]
                if i < own and good[i] and more > -near_:
                    taken += np.floor(more + near_) + 1
                elif i > own and good[i] and more > near_:
                    taken += np.ceil(more - near_)
            held = 1 if taken < held else 0
        else:
            _nearest(float(held), parts, wanted, good, sorted_, near)
            for i in range(parts):
                carry[i] = 0.0
            _rounded(held, parts, near, good, carry, whole)
            held = whole[own]
            kept[0, level + 1], kept[1, level + 1] = child, held
        first += nodes
    return bool(held > 0)


@compiled
def _jointly(held: Integers, wanted: Floats, allowed: Bools, all_allowed: bool, out: Integers) -> None:
    """One node's counts by category shared out among its children, joint with the children's totals.

    held, wanted, out   [category], [child, category], [child, category]

    The totals of the children are projected first. What is wanted of each child and category is then scaled, in
    turn, to these totals and to the node's counts by category. In the end the latter hold exactly; rounding keeps
    the former within one, by carrying what it took from one category to the next.
    """
    parts, groups = wanted.shape
    total = 0
    for g in range(groups):
        total += held[g]
    if total == 0:
        for i in range(parts):
            for g in range(groups):
                out[i, g] = 0
        return
    sorted_, totals, carry = np.empty(parts), np.empty(parts), np.empty(parts)
    sums, near = np.empty(parts), np.empty(parts)
    good, any_good = np.ones(parts, np.bool_), np.ones(parts, np.bool_)
    fitted = np.empty((groups, parts))
    whole = np.empty(parts, np.int64)
    for i in range(parts):
        sums[i] = 0.0
        any_good[i] = all_allowed
        for g in range(groups):
            if all_allowed or allowed[i, g]:
                any_good[i] = True
                sums[i] += wanted[i, g]
                fitted[g, i] = max(wanted[i, g], _SEED) if held[g] > 0 else 0.0
            else:
                fitted[g, i] = 0.0
    _nearest(float(total), parts, sums, any_good, sorted_, totals)
    for step in range(_ROUNDS):
        sums[:] = 0.0
        for g in range(groups):
            if held[g] == 0:
                continue
            row = 0.0
            for i in range(parts):
                row += fitted[g, i]
            factor = held[g] / row if row > 0 else 0.0
            for i in range(parts):
                fitted[g, i] *= factor
                sums[i] += fitted[g, i]
        worst = 0.0
        for i in range(parts):
            worst = max(worst, abs(sums[i] - totals[i]))
            near[i] = totals[i] / sums[i] if sums[i] > 0 else 0.0
        if worst < 0.05 or step == _ROUNDS - 1:
            break  # the counts by category hold; the totals nearly
        for g in range(groups):
            for i in range(parts):
                fitted[g, i] = max(fitted[g, i] * near[i], 1e-9 if fitted[g, i] > 0 else 0.0)
    carry[:] = 0.0
    for g in range(groups):
        if held[g] == 0:
            for i in range(parts):
                out[i, g] = 0
            continue
        if not all_allowed:
            for i in range(parts):
                good[i] = allowed[i, g]
        _rounded(held[g], parts, fitted[g], good, carry, whole)
        for i in range(parts):
            out[i, g] = whole[i]


@compiled
def share_out_jointly(
    held: Integers, wanted: Floats, allowed: Bools, all_allowed: bool, out: Integers
) -> None:
    """Each node's counts by category shared out among its children.

    held, wanted, out   [node, category], [node, child, category], [node, child, category]
    """
    for node in range(held.shape[0]):
        _jointly(held[node], wanted[node], allowed[0 if all_allowed else node], all_allowed, out[node])


@compiled
def still_held_jointly(
    places: Integers,
    group: int,
    root: Integers,
    estimates: Floats,
    allowed: Bools,
    all_allowed: bool,
    arities: Integers,
    less: Floats,
    out: Integers,
) -> None:
    """How many cells of one category would hold if their noisy counts were smaller: as `share_out_jointly` does it,
    along the path down to each. What a node above a cell would hold is kept for the next one: neighbours share it.

    estimates, allowed   [node, category], those of all levels below the root, the coarsest first
    less                 [level, 1 for the node above the cell and 0 for its siblings, category]: how much less is wanted
    root                 what each category then holds in all
    """
    depth, groups = arities.size, root.size
    widest = arities.max() if depth else 1
    wanted, shared = np.empty((widest, groups)), np.empty((widest, groups), np.int64)
    good, held = np.ones((widest, groups), np.bool_), np.empty((depth + 1, groups), np.int64)
    under, first = np.ones(depth + 1, np.int64), np.zeros(depth + 1, np.int64)
    for level in range(depth - 1, -1, -1):
        under[level] = under[level + 1] * arities[level]
    for level in range(1, depth + 1):
        first[level] = first[level - 1] + under[0] // under[level]
    for g in range(groups):
        held[0, g] = root[g]
    known = 0  # down to which level what is held is that of the last row
    for row in range(places.size):
        level = 0
        while level < known and places[row] // under[level + 1] == places[row - 1] // under[level + 1]:
            level += 1
        while level < depth and held[level, group] != 0:
            parts = arities[level]
            child = places[row] // under[level + 1]
            own = child % parts
            start = first[level] + child - own
            for i in range(parts):
                for g in range(groups):
                    wanted[i, g] = estimates[start + i, g] - less[level, 1 if i == own else 0, g]
                    if not all_allowed:
                        good[i, g] = allowed[start + i, g]
            _jointly(held[level], wanted[:parts], good[:parts], all_allowed, shared[:parts])
            for g in range(groups):
                held[level + 1, g] = shared[own, g]
            level += 1
        known = level
        out[row] = held[level, group]


@compiled
def add_to_parts(
    keys: Integers, counts: Integers, live: Integers, below: int, finer: int, out: Integers
) -> None:
    """Adds each cell's count to its part. Cells and live blocks are in order; blocks have 2^below cells, 2^finer parts."""
    at = 0
    mask = (1 << finer) - 1
    for i in range(keys.size):
        block = keys[i] >> below
        while at < live.size and live[at] < block:
            at += 1
        if at == live.size:
            break
        if live[at] == block:
            out[(at << finer) + ((keys[i] >> (below - finer)) & mask)] += counts[i]


@compiled
def keep_within(bounds: Integers, wanted: Floats, held: Integers, out: Integers) -> None:
    """Groups of cells, from one bound to the next: those that want more than their block holds share out what it does."""
    for group in range(held.size):
        start, end = bounds[group], bounds[group + 1]
        if wanted[start:end].sum() > held[group]:
            size = end - start
            near, carry, sorted_ = np.empty(size), np.zeros(size), np.empty(size)
            good = np.ones(size, np.bool_)
            _nearest(float(held[group]), size, wanted[start:end], good, sorted_, near)
            _rounded(held[group], size, near, good, carry, out[start:end])


@compiled
def still_within(
    places: Integers,
    starts: Integers,
    ends: Integers,
    wanted: Integers,
    held: Integers,
    less: int,
    out: Bools,
) -> None:
    """Whether cells would keep somebody if they wanted so much less, among those from a start to an end, in `keep_within`."""
    for row in range(places.size):
        own = wanted[places[row]] - less
        taken = 0
        for i in range(starts[row], ends[row]):
            if i != places[row] and wanted[i] > own:
                taken += wanted[i] - own + 1
        out[row] = taken < held[row]


@compiled
def how_far_divided(
    starts: Integers,
    depths: Integers,
    heights: Integers,
    first_child: Integers,
    arities: Integers,
    precisions: Floats,
    variances: Floats,
    estimates: Floats,
    allowed: Bools,
    precision: float,
    most: int,
    total: int,
    largest: float,
    out: Integers,
) -> None:
    """By how much, up to `most`, the noisy count of each part of an uneven tree may be smaller so that the part still holds somebody; -1 if it holds nobody.

    Nodes of all levels are in one row, the root first; `first_child` is negative for parts, `variances` are the sums over
    children of one over their precisions, and `precision` is that of the noisy counts. What is less of a part goes up the path, and
    comes down again as `Division.estimates` has it: first what z is less, then what x is. As in `how_far`, halving the range finds the most.
    """
    deepest = heights.size
    path, by = np.empty(deepest, np.int64), np.empty(deepest)
    widest = max(arities.max(), 1)
    wanted, near, carry, sorted_ = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    good, whole = np.ones(widest, np.bool_), np.empty(widest, np.int64)
    for row in range(starts.size):
        depth = depths[row]
        path[0] = 0
        for at in range(depth):
            digit = (starts[row] >> heights[at + 1]) & (arities[at] - 1)
            path[at + 1] = first_child[path[at]] + digit
        by[depth] = precision / precisions[path[depth]]
        for at in range(depth - 1, -1, -1):
            by[at] = by[at + 1] / (variances[path[at]] * precisions[path[at]])
        low, high, less = -1, most + 1, most
        while high - low > 1:
            gone = 0.0 if total >= 0 else less * by[0]
            held = total
            if total < 0:
                held = int(np.rint(min(max(estimates[0] - gone, 0.0), largest)))
            for at in range(depth):
                if held == 0:
                    break
                parts, first = arities[at], first_child[path[at]]
                rest = gone - less * by[at + 1]
                for i in range(parts):
                    share = 1 / (precisions[first + i] * variances[path[at]])
                    wanted[i] = estimates[first + i] - rest * share
                    good[i] = allowed[first + i]
                    carry[i] = 0.0
                    if first + i == path[at + 1]:
                        wanted[i] -= less * by[at + 1]
                        gone = less * by[at + 1] + rest * share
                _nearest(float(held), parts, wanted, good, sorted_, near)
                _rounded(held, parts, near, good, carry, whole)
                held = whole[path[at + 1] - first]
            if held > 0:
                low = less
            else:
                high = less
            less = (low + high) // 2
        out[row] = low
