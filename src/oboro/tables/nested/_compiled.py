"""The compiled loops of the projection onto a tree of any form. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled
from oboro.tables.tree._compiled import share_out

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
    rigid: bool,
    fixed: Integers,
    low: Integers,
    floor: Integers,
    stages: Integers,
    out: Integers,
) -> None:
    """Each node's counts by category shared out among its children, as near as can be to what is wanted of each.

    held [node, category]; wanted, allowed, out [child, category]; fixed, low [child]; floor, stages as `_share_crossed` has them

    The totals of the children come first: known ones (0 or more in `fixed`) as they are, the others no less than `low`, which
    those below them are known to hold. What is wanted of each child and category is then scaled, in turn, to these totals and to
    the node's counts by category, and made whole so that both hold: no category takes more than a child has left. Where some
    combinations are impossible totals give way, unless they are `rigid`: then what is possible is the same in all places.
    """
    widest = 1
    for node in range(held.shape[0]):
        widest = max(widest, firsts[node + 1] - firsts[node])
    real, whole, may = _room(widest, held.shape[1])
    for node in range(held.shape[0]):
        start, end = firsts[node], firsts[node + 1]
        good = allowed if all_allowed else allowed[start:end]
        if floor.shape[0] > 0:
            _share_crossed(
                held[node],
                wanted[start:end],
                good,
                all_allowed,
                fixed[start:end],
                low[start:end],
                floor[start:end],
                stages,
                out[start:end],
            )
            continue
        _share_node(
            held[node],
            wanted[start:end],
            good,
            all_allowed,
            rigid,
            fixed[start:end],
            low[start:end],
            out[start:end],
            real,
            whole,
            may,
        )


@compiled
def _share_crossed(
    held: Integers,
    wanted: Floats,
    allowed: Bools,
    all_allowed: bool,
    fixed: Integers,
    low: Integers,
    floor: Integers,
    stages: Integers,
    out: Integers,
) -> None:
    """One node whose children are known, or bounded from below, by values of the other columns too.

    stages [stage, category]   which value a category is of, by ways of dividing that are finer and finer; the first has one value
    floor [child, value]       what each child holds at least, the values of all stages but the first one beside the other

    Stage by stage: the totals that the stage before found are rows, the node's own counts columns, and what is held at
    least is taken off both. In the end come the categories.
    """
    size, groups = wanted.shape
    real, whole, may = _room(size, groups)
    number = stages.shape[0]
    rows, first = fixed.reshape(-1, 1).copy(), 0  # what each child holds of each value of the stage before
    for stage in range(1, number + 1):
        values = int(np.max(stages[stage])) + 1 if stage < number else groups
        found = np.zeros((size, values), np.int64)
        for above in range(np.max(stages[stage - 1]) + 1):
            # the values of this stage that are parts of one value of the stage before
            column, columns = np.full(values, -1), 0
            for g in range(groups):
                value = stages[stage, g] if stage < number else g
                if stages[stage - 1, g] == above and column[value] < 0:
                    column[value] = columns
                    columns += 1
            own, asked = np.zeros(columns, np.int64), np.zeros((size, columns))
            good = np.zeros((size, columns), np.bool_)
            for g in range(groups):
                if stages[stage - 1, g] == above:
                    at = column[stages[stage, g] if stage < number else g]
                    own[at] += held[g]
                    for i in range(size):
                        if all_allowed or allowed[i, g]:
                            asked[i, at] += wanted[i, g]
                            good[i, at] = True
            totals, least = rows[:, above].copy(), np.zeros(size, np.int64)
            if stage == 1:
                least[:] = low
            for value in range(values):
                if column[value] >= 0 and stage < number:
                    for i in range(size):
                        taken = floor[i, first + value]
                        own[column[value]] -= taken
                        asked[i, column[value]] -= taken
                        if totals[i] >= 0:
                            totals[i] -= taken
                        else:
                            least[i] -= taken
            shared = np.empty((size, columns), np.int64)
            _share_node(own, asked, good, False, True, totals, least, shared, real, whole, may)
            for value in range(values):
                if column[value] >= 0:
                    for i in range(size):
                        taken = floor[i, first + value] if stage < number else 0
                        found[i, value] = shared[i, column[value]] + taken
        if stage < number:
            first += values
        rows = found
    out[:, :] = rows


@compiled
def share_root(
    total: int,
    wanted: Floats,
    good: Bools,
    floor: Integers,
    stages: Integers,
    cut: int,
    crossing: Integers,
    margins: Integers,
    out: Integers,
) -> None:
    """A total by all categories, where some are known, or bounded from below, by values of the other columns.

    floor, stages       as `_share_crossed` has them, of this one node
    crossing, margins   by a way of dividing that crosses the stages: the value of each category, and that of what both
                        share; and what is known of each value, -1 where nothing is

    Stage by stage from the total down. Before stage `cut` comes what crosses those so far, with the last of them as rows and the
    known totals as columns, for each value of what both share. In the end come the categories.
    """
    groups, number = wanted.size, stages.shape[0]
    room = _room(groups, groups)
    rows, above, first = np.array([total]), stages[0], 0
    across = margins.size > 0 and margins[0] >= 0
    for stage in range(1, number + 1):
        of = stages[stage] if stage < number else np.arange(groups)
        values = int(np.max(of)) + 1
        least = np.zeros(values, np.int64)
        if stage < number and floor.shape[0] > 0:
            least[:] = floor[0, first : first + values]
        first = first + values
        if across and stage == cut:
            rows = _crossed(rows, above, crossing, margins, of, least, wanted, good, room)
            above = above * margins.size + crossing[0]
        rows = _divided(rows, above, of, least, wanted, good, room)
        above = of
    out[:] = rows


@compiled
def _crossed(
    rows: Integers,
    own: Integers,
    crossing: Integers,
    margins: Integers,
    of: Integers,
    least: Integers,
    wanted: Floats,
    good: Bools,
    room: tuple[Floats, Integers, Bools],
) -> Integers:
    """Counts by pairs of a value of the last stage and one of what crosses it: `margins` and `rows` are known. `least` is of a stage
    that divides both."""
    groups, width = own.size, margins.size
    low = np.zeros(rows.size * width, np.int64)
    done = np.zeros(least.size, np.bool_)
    for g in range(groups):
        if not done[of[g]]:
            low[own[g] * width + crossing[0, g]] += least[of[g]]
            done[of[g]] = True
    other, shared = crossing[0], crossing[1]
    counts = np.zeros(rows.size * width, np.int64)
    for value in range(np.max(shared) + 1):
        row, column = np.full(rows.size, -1), np.full(width, -1)
        size, columns = 0, 0
        for g in range(groups):
            if shared[g] == value:
                if row[own[g]] < 0:
                    row[own[g]] = size
                    size += 1
                if column[other[g]] < 0:
                    column[other[g]] = columns
                    columns += 1
        asked, may_be = np.zeros((size, columns)), np.zeros((size, columns), np.bool_)
        totals, held = np.zeros(size, np.int64), np.zeros(columns, np.int64)
        for g in range(groups):
            if shared[g] == value:
                totals[row[own[g]]] = rows[own[g]]
                held[column[other[g]]] = margins[other[g]]
                if good[g]:
                    asked[row[own[g]], column[other[g]]] += wanted[g]
                    may_be[row[own[g]], column[other[g]]] = True
        for i in range(rows.size):
            for j in range(width):
                if row[i] >= 0 and column[j] >= 0:
                    taken = low[i * width + j]
                    totals[row[i]] -= taken
                    held[column[j]] -= taken
                    asked[row[i], column[j]] -= taken
        found, nothing = np.empty((size, columns), np.int64), np.zeros(size, np.int64)
        _share_node(held, asked, may_be, False, True, totals, nothing, found, room[0], room[1], room[2])
        for i in range(rows.size):
            for j in range(width):
                if row[i] >= 0 and column[j] >= 0:
                    counts[i * width + j] = found[row[i], column[j]] + low[i * width + j]
    return counts


@compiled
def _divided(
    rows: Integers,
    above: Integers,
    of: Integers,
    least: Integers,
    wanted: Floats,
    good: Bools,
    room: tuple[Floats, Integers, Bools],
) -> Integers:
    """Counts by one way of dividing, shared out among the values of a finer one: each at least so much."""
    values = least.size
    found = np.zeros(values, np.int64)
    asked, may_be, parent = np.zeros((values, 1)), np.zeros((values, 1), np.bool_), np.zeros(values, np.int64)
    for g in range(of.size):
        parent[of[g]] = above[g]
        if good[g]:
            asked[of[g], 0] += wanted[g]
            may_be[of[g], 0] = True
    for value in range(rows.size):
        inside = np.flatnonzero(parent == value)
        if inside.size == 0:
            continue
        held, free = rows[value : value + 1].copy(), np.full(inside.size, -1)
        shared = np.empty((inside.size, 1), np.int64)
        _share_node(
            held,
            asked[inside],
            may_be[inside],
            False,
            True,
            free,
            least[inside],
            shared,
            room[0],
            room[1],
            room[2],
        )
        for i in range(inside.size):
            found[inside[i]] = shared[i, 0]
    return found


@compiled
def _room(widest: int, groups: int) -> tuple[Floats, Integers, Bools]:
    """Room to work in: for as many children and categories."""
    return np.empty((4 + groups, widest)), np.empty((3, widest), np.int64), np.empty(widest, np.bool_)


@compiled
def _share_node(
    held: Integers,
    wanted: Floats,
    allowed: Bools,
    all_allowed: bool,
    rigid: bool,
    fixed: Integers,
    low: Integers,
    out: Integers,
    real: Floats,
    whole: Integers,
    may: Bools,
) -> None:
    """One node, as `share_nodes` says it; the last three are room to work in."""
    size, groups = wanted.shape
    sums, near, carry, sized, fitted = real[0], real[1], real[2], real[3], real[4:]
    totals, room, found = whole[0], whole[1], whole[2]
    total = 0
    for g in range(groups):
        total += held[g]
    if total == 0:
        out[:, :] = 0
        return
    left = total
    for i in range(size):
        sums[i] = -low[i]
        may[i] = False
        for g in range(groups):
            if all_allowed or allowed[i, g]:
                may[i] = True
                sums[i] += wanted[i, g]
        if fixed[i] >= 0:
            may[i] = False
            left -= fixed[i]
        else:
            left -= low[i]
    for i in range(size):
        room[i] = left if may[i] else 0
        carry[i] = 0.0
    _nearest(float(left), sums[:size], may[:size], near[:size])
    for i in range(size):
        if not may[i]:
            near[i] = 0.0
    _whole(left, near[:size], room[:size], carry[:size], totals[:size])
    for i in range(size):
        totals[i] += fixed[i] if fixed[i] >= 0 else low[i]
    if groups == 1:
        for i in range(size):
            out[i, 0] = totals[i]
        return
    for i in range(size):
        for g in range(groups):
            good = (all_allowed or allowed[i, g]) and held[g] > 0 and totals[i] > 0
            fitted[g, i] = max(wanted[i, g], _SEED) if good else 0.0
    for step in range(_ROUNDS):
        sums[:size] = 0.0
        for g in range(groups):
            row = 0.0
            for i in range(size):
                row += fitted[g, i]
            factor = held[g] / row if row > 0 else 0.0
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
            if all_allowed or allowed[i, g]:
                room[i] = totals[i] if all_allowed or rigid else held[g]
            else:
                room[i] = 0
        _whole(held[g], fitted[g, :size], room[:size], carry[:size], found[:size])
        for i in range(size):
            out[i, g] = found[i]
            totals[i] -= found[i]


@compiled
def _beside(
    total: int, leaves: Integers, arities: Integers, wanted: Floats, good: Bools, all_allowed: bool
) -> Integers:
    """A total shared out among the values of the other columns, as `measure.beside` does it."""
    held, before, at = np.array([total]), 1, 0
    for column in range(leaves.size):
        before *= leaves[column]
        later = wanted.size // before
        under = leaves[column]
        while under > 1:
            arity = arities[at]
            at += 1
            under //= arity
            run = under * later
            of_children = np.zeros((held.size, arity))
            may = np.zeros((held.size, arity), np.bool_)
            for node in range(held.size):
                for i in range(arity):
                    first = (node * arity + i) * run
                    for g in range(first, first + run):
                        of_children[node, i] += wanted[g]
                        may[node, i] |= all_allowed or good[g]
            children = np.empty((held.size, arity), np.int64)
            share_out(held, of_children, may, all_allowed, children)
            held = children.reshape(-1)
    return held


@compiled
def still_held(
    leaves: Integers,
    groups: Integers,
    more: float,
    starts: Integers,
    firsts: Integers,
    parents: Integers,
    wanted: Floats,
    allowed: Bools,
    all_allowed: bool,
    rigid: bool,
    fixed: Integers,
    low: Integers,
    floor: Integers,
    stages: Integers,
    cut: int,
    crossing: Integers,
    margins: Integers,
    good: Bools,
    begin: int,
    a: Floats,
    sums: Floats,
    weights: Floats,
    parts: Floats,
    columns: Integers,
    arities: Integers,
    most: int,
    out: Bools,
) -> None:
    """Whether each cell would be published if its noisy count alone were `more` larger: as `project` does it, along its path.

    starts             where the nodes of each level begin among all nodes, the root first
    firsts, parents    of each node, among all nodes: the first child and the one after the last, and the node above
    wanted, allowed, fixed, low, a, sums    of each node; floor of those of the first levels
    stages, cut, crossing, margins, good    as `share_root` has them, of the nodes of the level `begin`, where sharing out begins
    weights, parts     what each orthogonal part makes of a noisy count of a cell, and its projection [part, category, category]

    Cells of one node and category that follow one another share their path: their noisy counts have the same variance.
    """
    depth, size = starts.size - 2, parts.shape[1]
    number = weights.size
    widest = 1
    for node in range(starts[depth]):
        widest = max(widest, firsts[node, 1] - firsts[node, 0])
    real, whole, may = _room(widest, size)
    asked, shared = np.empty((widest, size)), np.empty((widest, size), np.int64)
    root, held, ready = np.empty(size), np.zeros(size, np.int64), np.zeros(size, np.int64)
    path = np.empty(depth + 1, np.int64)
    z, x = np.empty((depth + 1, number)), np.empty((depth + 1, number))
    last_parent, last_group = -1, -1
    for row in range(leaves.size):
        group = groups[row]
        path[depth] = starts[depth] + leaves[row]
        for level in range(depth - 1, -1, -1):
            path[level] = parents[path[level + 1]]
        again = depth > 0 and path[depth - 1] == last_parent and group == last_group
        if not again:
            for j in range(number):
                z[depth, j] = more * weights[j]
                for level in range(depth - 1, -1, -1):
                    node = path[level]
                    below = sums[j, node]
                    z[level, j] = z[level + 1, j] * (a[j, node] / below if below > 0 else 1.0)
                x[0, j] = z[0, j]
                for level in range(1, depth + 1):
                    below = sums[j, path[level - 1]]
                    share = a[j, path[level]] / below if below > 0 else 0.0
                    x[level, j] = z[level, j] + share * (x[level - 1, j] - z[level, j])
            top, whole_root = path[begin], 0.0
            for g in range(size):
                root[g] = wanted[top, g]
                for j in range(number):
                    root[g] += x[begin, j] * parts[j, group, g]
                whole_root += root[g]
            total = fixed[top]
            if total < 0:
                total = max(np.int64(np.rint(min(max(whole_root, 0.0), float(most)))), low[top])
            if stages.shape[0] > 1 or crossing.shape[0] > 0:
                known = margins[top - starts[begin]]
                share_root(total, root, good, floor[top : top + 1], stages, cut, crossing, known, held)
            else:
                held[:] = _beside(
                    total, columns, arities, root, allowed[0] if not all_allowed else may[:0], all_allowed
                )
        else:
            held[:] = ready
        for level in range(depth - 1 if again else begin, depth):
            if level == depth - 1:
                ready[:] = held
            if held[group] == 0:
                break
            node = path[level]
            start, end = firsts[node, 0], firsts[node, 1]
            own = path[level + 1]
            for child in range(start, end):
                for g in range(size):
                    asked[child - start, g] = wanted[child, g]
                for j in range(number):
                    below = sums[j, node]
                    change = (a[j, child] / below if below > 0 else 0.0) * (x[level, j] - z[level + 1, j])
                    if child == own:
                        change += z[level + 1, j]
                    for g in range(size):
                        asked[child - start, g] += change * parts[j, group, g]
            count = end - start
            can = allowed if all_allowed else allowed[start:end]
            if start < floor.shape[0]:
                _share_crossed(
                    held,
                    asked[:count],
                    can,
                    all_allowed,
                    fixed[start:end],
                    low[start:end],
                    floor[start:end],
                    stages,
                    shared[:count],
                )
            else:
                _share_node(
                    held,
                    asked[:count],
                    can,
                    all_allowed,
                    rigid,
                    fixed[start:end],
                    low[start:end],
                    shared[:count],
                    real,
                    whole,
                    may,
                )
            for g in range(size):
                held[g] = shared[own - start, g]
            if level < depth - 1 and held[group] == 0:
                ready[:] = held
                break
        if depth > 0:
            last_parent, last_group = path[depth - 1], group
        out[row] = held[group] > 0
