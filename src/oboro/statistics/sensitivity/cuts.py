"""Minimum cuts between two nodes, as edges are added one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.noise.compiling import compiled

Integers = npt.NDArray[np.int64]


def fewest_below(edges: Integers, source: int, sink: int) -> Integers:
    """[i] = how many of the first i + 1 edges a cut between the two nodes must cross at least.

    By maximum flow: each new edge lifts it by one at most, along one new path. What can be reached from the source
    is kept, so that an edge that opens nothing new costs nothing.
    """
    nodes = int(edges.max()) + 1 if edges.size else 1
    degree = np.bincount(edges.ravel(), minlength=nodes)
    starts = np.concatenate([[0], np.cumsum(degree)])
    grown: Integers = _grow(edges, starts, source, sink)
    return grown


@compiled
def _grow(edges: Any, starts: Any, source: int, sink: int) -> Any:
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
    edges: Any,
    starts: Any,
    filled: Any,
    incident: Any,
    flow: Any,
    came_by: Any,
    queue: Any,
    at: int,
    length: int,
) -> Any:
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
