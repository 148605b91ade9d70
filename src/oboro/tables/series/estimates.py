"""Least squares over whatever parts of a series are there, and how far off its answers are.

Places are regular: all nodes of a level have the same number of leaves, and averaging over the nodes of one level commutes with that of
another. So the space of all places splits into orthogonal components W_j, one for each level j, on which counts of level k are heard n_k-fold if k is as fine
as j, and not at all otherwise (tree/planner.py). Components that hear the same counts are taken together: a *voice*, with the projection

    Q = the sum over levels l of c_l P_l,    c_l = the sum over s in {0, 1}^columns of (-1)^|s| [l + s belongs to the voice].

Time is a tree that may lack any of its nodes: blocks that are not over, and ticks that were lost. In each voice least squares is that of a tree with
one number at a node (research by way of two passes; exact for any tree). With q_v the precision of what is counted at node v, the sum of n_k p_k over the counts
of v that the voice hears, and y_v = Q b_v / q_v, b_v the sum of p_k times the counts spread over their leaves:

    up     a leaf has a = 1/q, z = y; a node has S = sum of a_c, s = sum of z_c, a = 1/(q + 1/S), z = a (q y + s/S)
    down   x_root = z_root, x_c = z_c + (a_c/S) (x_v - s)

Where nothing is counted a is infinite. One such child is what the node has beyond the others; several share that alike, and nothing is said about how far off each is.
A block of time that is over, and has none longer that is, is so solved by itself: what a tick publishes is the answer of its longest block. A
filled-up tick holds nobody for certain: a = 0.

All of this is post-processing: it sees noisy counts and public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.series.clock import Clock
from oboro.tables.strategy import Noise
from oboro.tables.tree.errors import Error, Kinds, kinds_of
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.planner import coefficients
from oboro.tables.tree.workload import Design, block, precision

Node = tuple[int, int]  # of time: its level and its number
Counts = Mapping[tuple[int, int], Integers]  # by the place in the design, and the number of the block of time


@dataclass(frozen=True)
class Voice:
    """Components of the places that hear the same counts."""

    heard: tuple[int, ...]  # places in the design
    c: Floats
    level: Level  # the finest that its projection needs
    members: Bools

    @cached_property
    def terms(self) -> list[tuple[Level, float]]:
        return [(tuple(map(int, at)), float(self.c[tuple(at)])) for at in np.argwhere(self.c)]


@dataclass(frozen=True)
class Estimates:
    """What a series says when the counts of some ticks are there."""

    clock: Clock
    places: Lattice
    design: Design
    noises: tuple[Noise, ...]
    done: frozenset[int]  # ticks that were published

    def counted(self, level: int, node: int) -> bool:
        """Whether what is counted of a block of time is there."""
        span = self.clock.span(level, node)
        return bool(span) and span[-1] in self.done

    @cached_property
    def voices(self) -> list[Voice]:
        """Which components hear which counts; those that hear none say nothing."""
        groups: dict[tuple[int, ...], Bools] = {}
        for at in np.ndindex(*self.places.shape):
            heard = tuple(
                i
                for i, (_, *level) in enumerate(self.design.levels)
                if all(own >= here for own, here in zip(level, at, strict=True))
            )
            groups.setdefault(heard, np.zeros(self.places.shape, np.bool_))[at] = True
        found = []
        for heard, members in groups.items():
            if heard:
                c = coefficients(np.where(members, 1.0, math.inf))
                level = tuple(int(axis.max()) for axis in np.nonzero(c))
                found.append(Voice(heard, c, level, members))
        return found

    @cached_property
    def precisions(self) -> list[float]:
        return [precision(noise) for noise in self.noises]

    def _heard(self, voice: Voice, level: int, node: int) -> list[int]:
        """What a voice hears of a block of time that is counted."""
        if not self.counted(level, node):
            return []
        return [i for i in voice.heard if self.design.levels[i][0] == level]

    def _precision(self, voice: Voice, level: int, node: int) -> float:
        return sum(
            self.places.under(self.design.levels[i][1:]) * self.precisions[i]
            for i in self._heard(voice, level, node)
        )

    def _solved(
        self, voice: Voice, y: Mapping[Node, Floats], wanted: Sequence[Node]
    ) -> dict[Node, tuple[Floats, float]]:
        """What a voice says of some blocks of time, and its variance for a component of length 1: the two passes above."""
        tree = self.clock.tree
        a: dict[Node, float] = {}
        z: dict[Node, Floats | float] = {}
        for level in range(tree.depth, -1, -1):
            for node in range(tree.nodes(level)):
                at = (level, node)
                if not self.clock.span(level, node):
                    a[at], z[at] = 0.0, 0.0
                    continue
                q = self._precision(voice, level, node)
                children = [(level + 1, child) for child in _children(tree, level, node)]
                spread = sum(a[child] for child in children) if children else math.inf
                held = sum((z[child] for child in children if a[child] < math.inf), 0.0)
                if q == 0:
                    a[at], z[at] = spread, held if spread < math.inf else 0.0
                elif spread == math.inf:
                    a[at], z[at] = 1 / q, y[at]
                else:
                    a[at] = 1 / (q + (1 / spread if spread else math.inf))
                    z[at] = a[at] * (q * y[at] + (held / spread if spread else 0.0)) if spread else held
        found: dict[Node, tuple[Floats, float]] = {}
        needed = {up for at in wanted for up in self._above(at)}
        zero = next(iter(y.values())) * 0.0 if y else np.zeros(())
        for level in range(tree.depth + 1):
            for node in sorted(node for own, node in needed if own == level):
                at = (level, node)
                if level == 0 or a[at] == 0:
                    found[at] = (zero + z[at], a[at])
                    continue
                above = (level - 1, node // tree.arities[level - 1])
                x, v = found[above]
                siblings = [(level, child) for child in _children(tree, *above)]
                lacking = sum(a[one] == math.inf for one in siblings)
                share = (a[at] == math.inf) / lacking if lacking else a[at] / sum(a[one] for one in siblings)
                if share == 0:
                    found[at] = (zero + z[at], a[at])
                    continue
                rest = sum((z[one] for one in siblings if a[one] < math.inf), 0.0)
                spread = sum(a[one] for one in siblings if a[one] < math.inf)
                value = zero + (z[at] if a[at] < math.inf else 0.0) + share * (x - rest)
                if a[at] < math.inf:
                    variance = a[at] - share**2 * (spread - v) if v < math.inf else a[at]
                    if v == math.inf:
                        value = zero + z[at]
                else:
                    variance = v + spread if lacking == 1 else math.inf
                found[at] = (value, variance)
        return {at: found[at] for at in wanted}

    def _above(self, at: Node) -> list[Node]:
        """A block of time and all that hold it."""
        tree, first = self.clock.tree, at[1] * self.clock.tree.under(at[0])
        return [(level, first // tree.under(level)) for level in range(at[0] + 1)]

    # What is where

    def values(
        self, counts: Counts, wanted: Sequence[Node], level: Level, possible: Bools | None
    ) -> dict[Node, Floats]:
        """The answers for all nodes of a level of places, in some blocks of time."""
        found = {at: np.zeros(self.places.nodes(level)) for at in wanted}
        size = self.places.under(level)
        cleaned: dict[tuple[int, int], Floats] = {}
        for voice in self.voices:
            y: dict[Node, Floats] = {}
            for i in voice.heard:
                time, *own = self.design.levels[i]
                for node in range(self.clock.tree.nodes(time)):
                    if self.counted(time, node):
                        if (i, node) not in cleaned:
                            cleaned[i, node] = self._known(counts[i, node], tuple(own), possible)
                        part = self._projected(voice, cleaned[i, node], tuple(own)) * self.precisions[i]
                        y[time, node] = y[time, node] + part if (time, node) in y else part
            for at in y:
                y[at] = y[at] / self._precision(voice, *at)
            for at, (value, _) in self._solved(voice, y, wanted).items():
                if value.ndim:
                    found[at] += size * regrid(value, voice.level, level, self.places)
        return found

    def _known(self, counts: Integers, level: Level, possible: Bools | None) -> Floats:
        """Counts of a level; nodes without a possible cell hold 0 for certain."""
        held = counts.reshape(self.places.nodes(level)).astype(float)
        return held if possible is None else np.where(self.places.sums(possible, level) > 0, held, 0.0)

    def _projected(self, voice: Voice, counts: Floats, level: Level) -> Floats:
        """Q of counts spread over their leaves, on the nodes of the voice's level."""
        total = np.zeros(self.places.nodes(voice.level))
        for at, c in voice.terms:
            total += c * regrid(regrid(counts, level, at, self.places), at, voice.level, self.places)
        return total

    # How far off it is

    def error(self, at: Node, level: Level) -> Error | None:
        """The error of the answer for one node of a level of places in a block of time; None where nothing tells."""
        weights = self._weights(at, level)
        if weights is None:
            return None
        kinds = [_kinds_of_node(tree, here) for tree, here in zip(self.places.trees, level, strict=True)]
        found = Error()
        for (i, _), c in weights.items():
            own = [each[here] for each, here in zip(kinds, self.design.levels[i][1:], strict=True)]
            each, times = c, np.ones(())
            for tree, one in zip(self.places.trees, own, strict=True):
                each = np.tensordot(each, one.averaged(tree), axes=(0, 1))
                times = np.multiply.outer(times, one.times)
            found += Error.of(self.precisions[i] * each.reshape(-1), times.reshape(-1), self.noises[i])
        return _joined(found)

    def variance(self, at: Node, level: Level) -> float:
        """That of the same answer; infinite where nothing tells."""
        total = 0.0 if self._heard_at(level) else math.inf
        for voice, share in self._asked(level):
            total += share * self._solved(voice, self._units(voice), [at])[at][1]
        return total

    def detail(self, at: Node, axis: int, level: int) -> float:
        """The variance of a component of length 1 of one level of a column, for each single value of the other columns."""
        profile = np.ones(())
        for i, tree in enumerate(self.places.trees):
            own = np.eye(tree.depth + 1)[level] if i == axis else block(tree, tree.depth)
            profile = np.multiply.outer(profile, own)
        shares = ((voice, float(profile[voice.members].sum())) for voice in self.voices)
        return sum(
            share * self._solved(voice, self._units(voice), [at])[at][1] for voice, share in shares if share
        )

    def _heard_at(self, level: Level) -> bool:
        """Whether every component of the question about one node is heard: some level that is counted is as fine."""
        return any(
            all(own >= here for own, here in zip(counted[1:], level, strict=True))
            for counted in self.design.levels
        )

    def _asked(self, level: Level) -> list[tuple[Voice, float]]:
        """Which voices the question about one node needs, and how much of it each is."""
        profile = np.ones(())
        for tree, here in zip(self.places.trees, level, strict=True):
            profile = np.multiply.outer(profile, block(tree, here))
        shares = ((voice, float(profile[voice.members].sum())) for voice in self.voices)
        return [(voice, share) for voice, share in shares if share > 0]

    def _units(self, voice: Voice) -> dict[Node, Floats]:
        """For each counted block of time that a voice hears a unit vector: what is then found are weights."""
        tree = self.clock.tree
        heard = [
            (level, node)
            for level in sorted({self.design.levels[i][0] for i in voice.heard})
            for node in range(tree.nodes(level))
            if self.counted(level, node)
        ]
        return dict(zip(heard, np.eye(len(heard)), strict=True))

    def _weights(self, at: Node, level: Level) -> dict[tuple[int, int], Floats] | None:
        """For each noisy count its weight, by the coefficients of averages of the question over the levels of places."""
        if not self._heard_at(level):
            return None
        found: dict[tuple[int, int], Floats] = {}
        for voice, _ in self._asked(level):
            units = self._units(voice)
            value, variance = self._solved(voice, units, [at])[at]
            if variance == math.inf:
                return None
            for (time, node), weight in zip(units, value, strict=True):
                part = float(weight) / self._precision(voice, time, node) * voice.c
                for i in self._heard(voice, time, node):
                    found[i, node] = found.get((i, node), 0.0) + part
        return found

    def without(self, ticks: frozenset[int]) -> Estimates:
        return replace(self, done=ticks)


def _joined(error: Error) -> Error:
    """Noises of one law and weight as one term."""
    found: dict[tuple[float, Noise], float] = {}
    for weight, times, noise in error.terms:
        key = (float(f"{weight:.9g}"), noise)
        found[key] = found.get(key, 0.0) + times
    return Error(tuple((weight, times, noise) for (weight, noise), times in found.items()), error.rest)


def _children(tree: Tree, level: int, node: int) -> range:
    if level == tree.depth:
        return range(0)
    arity = tree.arities[level]
    return range(node * arity, (node + 1) * arity)


@lru_cache(maxsize=32)
def _kinds_of_node(tree: Tree, level: int) -> list[Kinds]:
    """What is asked for of all nodes of a column, if one node of a level is."""
    choice = np.zeros(tree.leaves, np.bool_)
    choice[: tree.under(level)] = True
    return kinds_of(tree, choice)


def regrid(values: Floats, level: Level, to: Level, places: Lattice) -> Floats:
    """Values of the leaves, given as means of the nodes of one level, as means of those of another."""
    for axis, (tree, here, there) in enumerate(zip(places.trees, level, to, strict=True)):
        before, after = values.shape[:axis], values.shape[axis + 1 :]
        if there < here:
            parts = tree.nodes(here) // tree.nodes(there)
            values = values.reshape(*before, tree.nodes(there), parts, *after).mean(axis=axis + 1)
        elif there > here:
            values = np.repeat(values, tree.nodes(there) // tree.nodes(here), axis=axis)
    return values
