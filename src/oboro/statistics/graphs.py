"""Releases about a graph: the cost of its minimum spanning tree, and how many triangles it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Real
from oboro.domain.columns import LARGEST
from oboro.errors import DataError, ParameterError, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.ledger import Ledger
from oboro.noise.bits import Bits
from oboro.privacy import Unit
from oboro.release import Forecast, Pair, Release, register, run
from oboro.statistics.sensitivity import networks
from oboro.statistics.sensitivity.networks import count_triangles, edges_of, joined_pairs, tree_cost
from oboro.statistics.smooth import Smooth
from oboro.statistics.smooth_noise import SmoothLaw, SmoothPlan, SmoothPromise, calibrate, smooth_guarantee

if TYPE_CHECKING:
    from oboro.noise.laws import Law

MOST_NODES = 2**20
_NOTE = "the noise follows the graph, privately: where no edge matters much it is far smaller"


@register
@dataclass(frozen=True)
class MstCostPlan(SmoothPlan):
    """The cost of a minimum spanning tree, with noise in proportion to its smooth sensitivity.

    Privacy
        A unit is the weight of one edge, replaced by any other in [0, cap]; which edges there are is public. Weights
        are put on the public grid of `step` first; one that is missing counts as cap. S is the beta-smooth
        sensitivity of the cost [Nissim, Raskhodnikova, Smith 2007, section 3.2], an exact real
        (sensitivity/networks.py). The cost plus (S/s) Z, rounded to the grid by certified rounding, keeps the
        guarantee for the admissible s and beta of smooth_noise.py. S is private: there is no interval.

    >>> roads = [(0, 1, 4), (1, 2, 7), (0, 2, 9)]
    >>> plan = ob.statistics.mst_cost_plan(roads, cap=10, guarantee=ob.Pure(1))
    >>> plan.edges
    ((0, 1), (0, 2), (1, 2))
    """

    edges: tuple[tuple[int, int], ...]
    cap: Fraction
    step: Fraction
    guarantee: SmoothPromise
    law: SmoothLaw
    beta: Fraction
    kind = "statistics.mst_cost"

    def check(self) -> None:
        """Edges of different nodes, each once, in order; a step that leads to cap."""
        for name in ("cap", "step"):
            positive(name, getattr(self, name))
        inside = all(0 <= u < v < MOST_NODES for u, v in self.edges)
        if not self.edges or not inside or any(one >= other for one, other in pairwise(self.edges)):
            raise ParameterError(
                "the edges of the plan are no graph",
                given=f"{len(self.edges):,} edges",
                needed=f"one or more pairs of nodes (u, v), u < v < {MOST_NODES:,}, each once, in order",
                fix="{(0, 1): 3, (1, 2): 5}",
            )
        if self.nodes * self.weight.size > LARGEST:  # what is published is a number of 64 bits
            raise ParameterError(
                "cap is out of range",
                given=told(cap=show(self.cap)) + f", in steps of {show(self.step)}, {self.nodes} nodes",
                needed="at most 2^62 steps for the edges of a tree together",
                fix="a larger step",
            )

    @property
    def unit(self) -> Unit:
        return Unit.row("replace")

    @cached_property
    def weight(self) -> Real:
        """What a weight can be: its rule for values that are missing, odd or out of bounds."""
        return Real("weight", 0, self.cap, self.step, missing=self.cap)

    @cached_property
    def nodes(self) -> int:
        return max(max(edge) for edge in self.edges) + 1

    def forecast(self) -> Forecast:
        worst = float(self.cap)
        row = ("the worst graph", self.noise.within(worst, 0.5), self.noise.within(worst, 0.95))
        return Forecast(
            "expected error of the cost", ("for", "half within ±", "95% within ±"), (row,), (_NOTE,)
        )

    def prepare(self, data: object) -> Smooth:
        pairs, values = edges_of(data, self.edges)
        found = {_edge(u, v): value for (u, v), value in zip(pairs.tolist(), values, strict=True)}
        if found.keys() != set(self.edges):
            raise DataError(
                "the graph has other edges than the plan, and which edges there are is public",
                given=f"{len(found):,} edges",
                needed=f"the {len(self.edges):,} edges of the plan",
                fix="a plan made for this graph",
            )
        codes = [self.weight.code(found[edge]) or 0 for edge in self.edges]
        weights, edges = np.asarray(codes, np.int64), np.asarray(self.edges, np.int64)
        cost = tree_cost(edges, weights, self.nodes)
        return Smooth(Fraction(cost), networks.mst_cost(edges, weights, self.weight.size - 1, self.beta))

    def measure(self, prepared: Smooth, bits: Bits, trials: int | None = None) -> Integers:
        most = (self.nodes - 1) * (self.weight.size - 1)
        return self.noise.draw(prepared.centre, prepared.sensitivity, Fraction(1), most, bits, trials)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": [float(self.step * int(index)) for index in measured]})

    def describe(self) -> dict[str, object]:
        what = f"cost of the minimum spanning tree of {self.nodes} nodes, {len(self.edges)} edges"
        return {
            "released": what,
            "noise": self.noise.to_dict(),
            "domain": {"columns": [self.weight.to_dict()]},
        }

    def random_pair(self, random: np.random.Generator) -> Pair:
        """One weight of a random graph changes."""
        weights = {edge: self.weight.value(int(random.integers(0, self.weight.size))) for edge in self.edges}
        edge = self.edges[int(random.integers(0, len(self.edges)))]
        changed = self.weight.value(int(random.integers(0, self.weight.size)))
        return Pair(weights, {**weights, edge: changed}, "a random weight of a random graph")

    def neighbours(self) -> Iterator[Pair]:
        """One edge is replaced, among edges that all cost nothing, or all cost the most."""
        for rest, one in ((0, self.cap), (self.cap, 0)):
            same = dict.fromkeys(self.edges, rest)
            yield Pair(
                same,
                {**same, self.edges[0]: one},
                f"one weight of {show(Fraction(one))} among {show(Fraction(rest))}",
            )


@register
@dataclass(frozen=True)
class TrianglesPlan(SmoothPlan):
    """How many triangles a graph has, with noise in proportion to its smooth sensitivity.

    Privacy
        A unit is one edge, a row of the edge list, added or removed; the nodes are public. S is the beta-smooth
        sensitivity of the count [Nissim, Raskhodnikova, Smith 2007, section 3.3], an exact real
        (sensitivity/networks.py). The count plus (S/s) Z, rounded to whole numbers by certified rounding, keeps the
        guarantee for the admissible s and beta of smooth_noise.py. S is private: there is no interval.

    >>> ob.statistics.triangles_plan(100, guarantee=ob.Pure(1)).unit
    Unit.row()
    """

    nodes: int
    guarantee: SmoothPromise
    law: SmoothLaw
    beta: Fraction
    kind = "statistics.triangles"

    def check(self) -> None:
        whole("nodes", self.nodes, least=3, most=MOST_NODES)

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def forecast(self) -> Forecast:
        worst = float(self.nodes - 2)
        row = ("the worst graph", self.noise.within(worst, 0.5), self.noise.within(worst, 0.95))
        return Forecast(
            "expected error of the count", ("for", "half within ±", "95% within ±"), (row,), (_NOTE,)
        )

    def prepare(self, data: object) -> Smooth:
        joined = joined_pairs(data, self.nodes)
        return Smooth(Fraction(count_triangles(joined)), networks.triangles(joined, self.beta))

    def measure(self, prepared: Smooth, bits: Bits, trials: int | None = None) -> Integers:
        most = min(comb(self.nodes, 3), 2**62)
        return self.noise.draw(prepared.centre, prepared.sensitivity, Fraction(1), most, bits, trials)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": measured})

    def describe(self) -> dict[str, object]:
        return {"released": f"triangles of a graph of {self.nodes} nodes", "noise": self.noise.to_dict()}

    def random_pair(self, random: np.random.Generator) -> Pair:
        """One edge of a random graph comes or goes."""
        every = [(u, v) for v in range(self.nodes) for u in range(v)]
        density = random.random()
        kept = [edge for edge in every if random.random() < density]
        edge = every[int(random.integers(0, len(every)))]
        without = [other for other in kept if other != edge]
        return Pair(without, [*without, edge], "a random edge of a random graph")

    def neighbours(self) -> Iterator[Pair]:
        """Two nodes are joined, or not, when all others are joined to both; and when nobody else is joined."""
        wheel = [(u, v) for u in (0, 1) for v in range(2, self.nodes)]
        yield Pair(wheel, [*wheel, (0, 1)], "an edge that closes a triangle with every other node")
        yield Pair([], [(0, 1)], "one edge or none")


def mst_cost_plan(
    graph: object,
    *,
    cap: Number,
    step: Number = 1,
    guarantee: SmoothPromise,
    noise: Law | None = None,
    beta: Number | None = None,
) -> MstCostPlan:
    """A plan for the cost of a minimum spanning tree. Of `graph` only the edges are used, not the weights.

    >>> roads = [(0, 1, 4), (1, 2, 7), (0, 2, 9)]
    >>> ob.statistics.mst_cost_plan(roads, cap=10, guarantee=ob.Pure(1)).unit
    Unit.row(adjacency='replace')
    """
    edges, _ = edges_of(graph)
    if not edges.size:
        raise ParameterError("the graph has no edges", needed="at least one", fix="{(0, 1): 3, (1, 2): 5}")
    chosen = calibrate(noise, guarantee, beta=beta)
    ordered = tuple(sorted(_edge(u, v) for u, v in edges.tolist()))
    return MstCostPlan(
        ordered, rational("cap", cap), rational("step", step), guarantee, chosen.law, chosen.beta
    )


def mst_cost(
    graph: object,
    *,
    cap: Number,
    ledger: Ledger,
    eps: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    step: Number = 1,
    noise: Law | None = None,
    beta: Number | None = None,
    name: str | None = None,
) -> Release:
    """Releases the cost of a minimum spanning tree; one row of the ledger's unit is the weight of one edge.

    >>> roads = [(0, 1, 4), (1, 2, 7), (0, 2, 9)]
    >>> release = ob.statistics.mst_cost(roads, cap=10, eps=1, ledger=ledger)
    >>> type(release.value), ledger.remaining
    (<class 'float'>, Approx(1, '1e-5'))
    """
    guarantee = smooth_guarantee(eps, delta, rho)
    plan = mst_cost_plan(graph, cap=cap, step=step, guarantee=guarantee, noise=noise, beta=beta)
    return run(plan, graph, ledger, name)


def triangles_plan(
    nodes: int, *, guarantee: SmoothPromise, noise: Law | None = None, beta: Number | None = None
) -> TrianglesPlan:
    """A plan for the number of triangles of a graph with public nodes 0, ..., nodes - 1.

    >>> plan = ob.statistics.triangles_plan(100, guarantee=ob.Pure(1))
    >>> plan.nodes, plan.cost
    (100, Pure(1))
    """
    chosen = calibrate(noise, guarantee, beta=beta)
    return TrianglesPlan(whole("nodes", nodes, least=3, most=MOST_NODES), guarantee, chosen.law, chosen.beta)


def triangles(
    graph: object,
    *,
    nodes: int,
    ledger: Ledger,
    eps: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    noise: Law | None = None,
    beta: Number | None = None,
    name: str | None = None,
) -> Release:
    """Releases how many triangles a graph has; one row of the ledger's unit is one edge.

    `graph` is a list of edges (u, v), or a square matrix.

    >>> friends = ob.Ledger.create("friends.ledger", dataset="friends", unit=ob.Unit.row(), budget=ob.Pure(1))
    >>> release = ob.statistics.triangles([(0, 1), (1, 2), (0, 2)], nodes=5, eps=1, ledger=friends)
    >>> type(release.value), friends.remaining
    (<class 'int'>, Pure(0))
    """
    guarantee = smooth_guarantee(eps, delta, rho)
    return run(triangles_plan(nodes, guarantee=guarantee, noise=noise, beta=beta), graph, ledger, name)


def _edge(u: int, v: int) -> tuple[int, int]:
    return (u, v) if u < v else (v, u)
