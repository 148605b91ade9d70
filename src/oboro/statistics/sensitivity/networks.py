"""Sensitivities of graphs: the cost of a minimum spanning tree, and the number of triangles.

What these functions return depends on the data and is private: they are for study. Releases use the same
numbers without showing them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.errors import ParameterError, told
from oboro.exact import Number, positive, rational
from oboro.statistics.smooth_noise import Decaying, largest_terms

Pair = tuple[int, int]
MOST_NODES = 2**20
_BLOCK = 512  # rows of a product of matrices at a time


def local_mst_cost(weights: object, cap: Number) -> float:
    """How far replacing the weight of one edge moves the cost of a minimum spanning tree, for this very graph.

    >>> from oboro.statistics.sensitivity import local_mst_cost
    >>> local_mst_cost([(0, 1, 4), (1, 2, 7), (0, 2, 9)], 10)
    7.0
    """
    edges, grid, most, step = _on_grid(weights, cap)
    return float(step * int(_reach(edges, grid, most)[0]))


def smooth_mst_cost(weights: object, cap: Number, beta: Number) -> float:
    """The beta-smooth sensitivity of the cost of a minimum spanning tree, when the weight of one edge is replaced.

    `weights` are {(u, v): weight}, or a list of tuples (u, v, weight), or a square matrix with NaN where there is no edge,
    or the weights of a complete graph in lexicographic order. Weights lie in [0, cap]. Which edges there are is public.

    >>> from oboro.statistics.sensitivity import smooth_mst_cost
    >>> smooth_mst_cost([(0, 1, 4), (1, 2, 7), (0, 2, 9)], 10, 1)
    7.0
    """
    edges, grid, most, step = _on_grid(weights, cap)
    return float(mst_cost(edges, grid, most, beta).times(step))


def _on_grid(weights: object, cap: Number) -> tuple[Integers, Integers, int, Fraction]:
    """Edges, weights and cap as whole numbers of a common step, and the step."""
    edges, values = edges_of(weights)
    exact = [min(max(rational("weights", value), Fraction(0)), rational("cap", cap)) for value in values]
    step = Fraction(1, math.lcm(*(number.denominator for number in (*exact, rational("cap", cap)))))
    if not 0 <= rational("cap", cap) / step <= 2**61:
        raise ParameterError(
            "cap is out of range",
            given=told(cap=f"{cap}") + f", in steps of {step}",
            needed="0 or more, and at most 2^61 steps",
            fix="weights and cap with fewer digits",
        )
    grid = np.asarray([int(number / step) for number in exact], np.int64)
    return edges, grid, int(rational("cap", cap) / step), step


def local_triangles(adjacency: npt.ArrayLike) -> float:
    """How far adding or removing one edge moves the number of triangles, for this very graph: the most neighbours
    that two nodes have in common.

    >>> from oboro.statistics.sensitivity import local_triangles
    >>> local_triangles([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    1.0
    """
    return float(max(_most_common(adjacency_of(adjacency)).max(initial=0), 0))


def smooth_triangles(adjacency: npt.ArrayLike, beta: Number) -> float:
    """The beta-smooth sensitivity of the number of triangles, when one edge is added or removed.

    >>> from oboro.statistics.sensitivity import smooth_triangles
    >>> smooth_triangles([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], 1)
    1.0
    """
    return float(triangles(adjacency_of(adjacency), beta))


def mst_cost(edges: Integers, weights: Integers, cap: int, beta: Number) -> Decaying:
    """max over k of e^(-beta k) A_k, A_k = max over cuts of max(w_(k+1), w_(k+2) - w_1).

    w_1 <= w_2 <= ... are the weights of the edges across a cut, and cap where there are no more. After k
    replacements, one more moves the cost by A_k at most: an edge that enters or leaves the tree does so across some
    cut, where k edges have been made as large or as small as can be [Nissim, Raskhodnikova, Smith 2007, section 3.2].

    A cut has w_(k+1) >= t if at most k of its edges are below t. So the best w_(k+1) is the largest t for which a
    minimum cut of the edges below t has at most k edges, and the best w_(k+2) - w_1 with an edge (u, v) of weight
    w_1 across the cut is the same with k + 1, less that weight, for cuts between u and v.
    """
    rate = positive("beta", beta)
    largest = _reach(edges, weights, cap)
    return Decaying(largest_terms(largest, np.arange(largest.size), rate), rate)


def _reach(edges: Integers, weights: Integers, cap: int) -> Integers:
    """[k] = A_k, until it is as large as can be."""
    order = np.argsort(weights, kind="stable")
    edges, weights = edges[order], weights[order]
    nodes = int(edges.max()) + 1 if edges.size else 1
    largest = np.zeros(edges.shape[0] + 2, np.int64)
    for node in range(1, nodes):
        reached = _thresholds(edges, weights, cap, 0, node)
        largest[: reached.size] = np.maximum(largest[: reached.size], reached)
        largest[reached.size :] = cap
    for (u, v), weight in zip(edges.tolist(), weights.tolist(), strict=True):
        reached = _thresholds(edges, weights, cap, u, v)[1:] - weight
        largest[: reached.size] = np.maximum(largest[: reached.size], reached)
        largest[reached.size :] = np.maximum(largest[reached.size :], cap - weight)
    return largest


def _thresholds(edges: Integers, weights: Integers, cap: int, source: int, sink: int) -> Integers:
    """[k] = the largest t such that some cut between two nodes has at most k edges below t; at the end it is cap."""
    flow = _fewest_below(edges, source, sink)  # [i] = edges in a minimum cut among the i + 1 lightest
    most = int(flow[-1]) if flow.size else 0
    # the edge that lifts the minimum cut to k + 1 has the weight up to which k edges are enough
    lifts = np.searchsorted(flow, np.arange(1, most + 1))
    return np.append(weights[lifts], cap)


def _fewest_below(edges: Integers, source: int, sink: int) -> Integers:
    """[i] = how many of the first i + 1 edges a cut between the two nodes must cross at least.

    By maximum flow: each new edge lifts it by one at most, along one new path. What can be reached from the source
    is kept, so that an edge that opens nothing new costs nothing.
    """
    from oboro.statistics.sensitivity._compiled import grow

    nodes = int(edges.max()) + 1 if edges.size else 1
    degree = np.bincount(edges.ravel(), minlength=nodes)
    starts = np.concatenate([[0], np.cumsum(degree)])
    grown: Integers = grow(edges, starts, source, sink)
    return grown


def triangles(adjacency: npt.NDArray[np.bool_], beta: Number) -> Decaying:
    """max over k of e^(-beta k) max over pairs of min(a + floor((k + min(k, b))/2), n - 2).

    Adding or removing the edge of a pair changes the count by a, the number of its common neighbours. A node that is
    joined to one of the two (there are b) becomes common with one more edge, any other with two. So k changes add
    floor((k + min(k, b))/2) to a, until all n - 2 others are common [Nissim, Raskhodnikova, Smith 2007, section 3.3].
    """
    rate = positive("beta", beta)
    n = adjacency.shape[0]
    if n < 3:
        return Decaying((), rate)
    best = _most_common(adjacency)
    b = np.flatnonzero(best >= 0)
    k = np.arange(2 * n)[:, None]
    reach = np.minimum(best[b] + (k + np.minimum(k, b)) // 2, n - 2).max(axis=1)
    return Decaying(largest_terms(reach, np.arange(2 * n), rate), rate)


def _most_common(adjacency: npt.NDArray[np.bool_]) -> Integers:
    """[b] = the most neighbours in common of a pair of nodes of which b others are joined to one only; -1 if there is none."""
    n = adjacency.shape[0]
    best = np.full(2 * n, -1, np.int64)
    degree = adjacency.sum(axis=1, dtype=np.int64)
    plain = adjacency.astype(np.float32)  # products count to n < 2^24, exactly
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        common = (plain[rows] @ plain).astype(np.int64)
        one = degree[rows, None] + degree - 2 * common - 2 * adjacency[rows]
        pair = np.arange(n)[rows, None] < np.arange(n)
        np.maximum.at(best, one[pair], common[pair])
    return best


def edges_of(weights: object, known: Collection[Pair] = ()) -> tuple[Integers, list[object]]:
    """The edges of a graph as pairs of node numbers, and their weights, in any of the forms that are accepted.

    Which edges there are is public, and refused if they make no graph. Weights are handed on as they are, whatever they are: in a
    matrix None or NaN says that there is no edge, but where one is `known` it is a weight that is missing.
    """
    if isinstance(weights, dict):
        pairs, values = list(weights), list(weights.values())
    elif (listed := _triples(weights)) is not None:
        pairs, values = [(u, v) for u, v, _ in listed], [weight for _, _, weight in listed]
    elif (square := _square(weights)) is not None:
        public, every = set(known), ((u, v) for u in range(len(square)) for v in range(u + 1, len(square)))
        pairs = [(u, v) for u, v in every if (u, v) in public or not _absent(square[u][v])]
        values = [square[u][v] for u, v in pairs]
    else:
        values = _listed(weights)
        n = int((1 + (1 + 8 * len(values)) ** 0.5) / 2)
        if n * (n - 1) // 2 != len(values) or not values:
            raise _no_graph(f"{len(values)} weights")
        pairs = [(u, v) for u in range(n) for v in range(u + 1, n)]
    found = [_ends(pair, MOST_NODES) for pair in pairs]
    clean = [ends for ends in found if ends is not None]
    if len(clean) != len(found):
        raise _no_graph("an edge that is no pair of node numbers")
    if any(u == v for u, v in clean) or len({frozenset(ends) for ends in clean}) != len(clean):
        raise _no_graph("a loop, or an edge that is given twice")
    return np.asarray(clean, np.int64).reshape(-1, 2), values


def adjacency_of(graph: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """A square matrix of who is joined to whom: symmetric, without loops. Nodes are joined by a number that is not 0."""
    if isinstance(graph, np.ndarray) and graph.ndim == 2 and graph.dtype.kind in "biuf":
        joined = np.asarray((graph != 0) & (graph == graph), np.bool_)
    else:
        rows = _square(graph) or []
        joined = np.asarray([[_joins(entry) for entry in row] for row in rows], np.bool_)
    if joined.ndim != 2 or joined.shape[0] != joined.shape[1]:
        raise _no_graph("no square matrix")
    joined = joined | joined.T
    np.fill_diagonal(joined, False)
    return joined


def joined_pairs(graph: object, nodes: int) -> npt.NDArray[np.bool_]:
    """The same from a list of edges or a matrix, for public nodes. What is no edge between them is left out."""
    if isinstance(graph, np.ndarray) and graph.shape == (nodes, nodes) and nodes != 2:
        return adjacency_of(graph)
    joined = np.zeros((nodes, nodes), np.bool_)
    for pair in _listed(graph):
        ends = _ends(pair, nodes)
        if ends is not None:
            joined[ends] = True
    return adjacency_of(joined)


def _listed(graph: object) -> list[object]:
    """The entries of a list, whatever they are. Only what is no list at all is refused."""
    if isinstance(graph, np.ndarray) and graph.ndim in (1, 2):
        return list(graph.tolist())
    if isinstance(graph, Sequence | Set | Mapping | Iterator) and not isinstance(graph, str | bytes):
        return list(graph)
    raise _no_graph(f"a {type(graph).__name__}")


def _triples(graph: Any) -> Sequence[tuple[Any, Any, object]] | None:
    """A list of (u, v, weight), each a tuple; None if it is something else. (The rows of a matrix are lists.)"""
    rows = isinstance(graph, list | tuple) and len(graph) > 0
    return graph if rows and all(isinstance(row, tuple) and len(row) == 3 for row in graph) else None


def _square(graph: Any) -> Sequence[Sequence[object]] | None:
    """The rows of a square matrix of two nodes or more; None if it is something else."""
    if isinstance(graph, np.ndarray):
        return graph.tolist() if graph.ndim == 2 and graph.shape[0] == graph.shape[1] > 1 else None
    rows = isinstance(graph, list | tuple) and len(graph) > 1
    whole = rows and all(
        isinstance(row, list | tuple | np.ndarray) and len(row) == len(graph) for row in graph
    )
    return graph if whole else None


def _ends(pair: Any, nodes: int) -> Pair | None:
    """Two numbers of nodes, if it is that."""
    try:
        first, second = pair
        ends = (_node(first, nodes), _node(second, nodes))
    except Exception:  # whatever an entry may do when it is looked at
        return None
    return None if None in ends else ends  # type: ignore[return-value]


def _node(end: Any, nodes: int) -> int | None:
    return int(end) if _is_number(end) and 0 <= end < nodes and end == int(end) else None


def _absent(entry: object) -> bool:
    return entry is None or (isinstance(entry, float | np.floating) and bool(entry != entry))


def _joins(entry: object) -> bool:
    """By the number that it is; what is none joins nothing."""
    return _is_number(entry) and bool(entry != 0 and entry == entry)


def _is_number(entry: object) -> bool:
    """Also one of NumPy's; its durations call themselves integers, and are none."""
    known = isinstance(entry, int | float | np.integer | np.floating)
    return known and not isinstance(entry, np.timedelta64)


def count_triangles(joined: npt.NDArray[np.bool_]) -> int:
    """Each triangle is found at each of its edges, from either side: six times."""
    plain = joined.astype(np.float32)  # paths of length two count to n < 2^24, exactly
    total = 0
    for start in range(0, joined.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        total += int(((plain[rows] @ plain).astype(np.int64) * joined[rows]).sum())
    return total // 6


def tree_cost(edges: Integers, weights: Integers, nodes: int) -> int:
    """Kruskal: edges by weight, each one kept that joins two parts."""
    parent = list(range(nodes))

    def part(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    cost = 0
    for i in np.argsort(weights, kind="stable").tolist():
        u, v = part(int(edges[i, 0])), part(int(edges[i, 1]))
        if u != v:
            parent[u] = v
            cost += int(weights[i])
    return cost


def _no_graph(given: str) -> ParameterError:
    return ParameterError(
        "this is not a graph",
        given=given,
        needed="{(u, v): weight} with nodes 0, 1, ... below 2^20, or a square matrix",
        fix="{(0, 1): 3, (1, 2): 5, (0, 2): 4}",
    )
