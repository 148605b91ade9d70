"""The compiled searches: the best window in sorted data, and minimum cuts as edges are added one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Integers


@compiled
def conquer(
    gap: int,
    a: Integers,
    g: Integers,
    b: Integers,
    h: Integers,
    beta: float,
    margin: float,
    wanted: float,
    out_w: Integers,
    out_k: Integers,
) -> tuple[float, int]:
    """The best score log w - beta k, and the (w, k) whose score is `wanted` or more, without copies in a row.

    For a middle left end, every right end within `margin` of the best may be the true best. Left ends further out
    need right ends no further than the furthest of these, left ends further in no nearer than the nearest. So the
    true best is never left out, whatever the floats round.
    """
    best = -np.inf
    found = 0
    last_w, last_k = -1, -1
    stack = [(0, a.size - 1, 0, b.size - 1)]
    while len(stack) > 0:
        first, last, near, far = stack.pop()
        middle = (first + last) // 2
        top = -np.inf
        for j in range(near, far + 1):
            w = gap + g[middle] + h[j]
            k = a[middle] + b[j] - 1
            if w > 0 and k >= 0:
                score = np.log(float(w)) - beta * float(k)
                top = max(top, score)
                if score >= wanted and not (w == last_w and k == last_k):
                    if found < out_w.size:
                        out_w[found], out_k[found] = w, k
                    found += 1
                    last_w, last_k = w, k
        best = max(best, top)
        nearest, furthest = far, near
        for j in range(near, far + 1):
            w = gap + g[middle] + h[j]
            k = a[middle] + b[j] - 1
            if (w > 0 and k >= 0 and np.log(float(w)) - beta * float(k) >= top - margin) or top == -np.inf:
                nearest, furthest = min(nearest, j), max(furthest, j)
        if first < middle:
            stack.append((first, middle - 1, nearest, far))
        if middle < last:
            stack.append((middle + 1, last, near, furthest))
    return best, found


@compiled
def grow(edges: Integers, starts: Integers, source: int, sink: int) -> Integers:
    count, nodes = edges.shape[0], starts.size - 1
    out = np.zeros(count, np.int64)
    incident = np.empty(2 * count, np.int64)  # the edges at each node, so far
    filled = starts[:-1].copy()
    flow = np.zeros(count, np.int64)  # +1 from the first end to the second, -1 back
    came_by = np.full(nodes, -1, np.int64)  # the edge by which a node was reached; -2 for the source
    queue = np.empty(nodes, np.int64)
    came_by[source] = -2
    total = 0
    for i in range(count):
        u, v = edges[i, 0], edges[i, 1]
        incident[filled[u]], incident[filled[v]] = i, i
        filled[u] += 1
        filled[v] += 1
        length = 0
        if came_by[u] != -1 and came_by[v] == -1:
            came_by[v] = i
            queue[0] = v
            length = 1
        elif came_by[v] != -1 and came_by[u] == -1:
            came_by[u] = i
            queue[0] = u
            length = 1
        at = 0
        while at < length and came_by[sink] == -1:
            at, length = _spread(edges, starts, filled, incident, flow, came_by, queue, at, length)
        if came_by[sink] != -1:
            node = sink
            while node != source:  # push one unit along the path
                edge = came_by[node]
                if edges[edge, 1] == node:
                    flow[edge] += 1
                    node = edges[edge, 0]
                else:
                    flow[edge] -= 1
                    node = edges[edge, 1]
            total += 1
            came_by[:] = -1  # and look again what can be reached
            came_by[source] = -2
            queue[0] = source
            at, length = 0, 1
            while at < length:
                at, length = _spread(edges, starts, filled, incident, flow, came_by, queue, at, length)
        out[i] = total
    return out


@compiled
def _spread(
    edges: Integers,
    starts: Integers,
    filled: Integers,
    incident: Integers,
    flow: Integers,
    came_by: Integers,
    queue: Integers,
    at: int,
    length: int,
) -> tuple[int, int]:
    """Reaches the neighbours of one node through edges that still have room that way."""
    node = queue[at]
    for place in range(starts[node], filled[node]):
        edge = incident[place]
        forward = edges[edge, 0] == node
        other = edges[edge, 1] if forward else edges[edge, 0]
        room = flow[edge] < 1 if forward else flow[edge] > -1
        if room and came_by[other] == -1:
            came_by[other] = edge
            queue[length] = other
            length += 1
    return at + 1, length
