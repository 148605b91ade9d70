"""A joint law of many columns from small tables: a junction tree, its marginals, and draws from it.

Columns are nodes; two are joined if some table holds both. Filling in the graph until it has no long cycle gives cliques
that form a tree, along which all marginals are found by passing messages [Lauritzen and Spiegelhalter 1988]. A spanning tree of
pairs is the simplest case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.progress import progress

Clique = tuple[int, ...]
Mask = npt.NDArray[np.bool_]

LEAST = 1e-300
_TINY = 1e-280


@dataclass(frozen=True, slots=True)
class Zeros:
    """Which cells of these columns can hold a record."""

    columns: Clique
    possible: Mask


@dataclass(frozen=True, slots=True)
class Junction:
    """Cliques in an order where each comes after its parent, and what a clique shares with its parent."""

    shape: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parent: tuple[int, ...]  # -1 for the first of each part
    shared: tuple[Clique, ...]

    @property
    def size(self) -> int:
        return sum(prod(self.shape[i] for i in clique) for clique in self.cliques)

    def home(self, columns: Clique) -> int:
        """The smallest clique that holds these columns."""
        held = [k for k, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(held, key=lambda k: prod(self.shape[i] for i in self.cliques[k]))

    def between(self, columns: Clique) -> tuple[set[int], set[int]]:
        """The cliques that join these columns, and of each part of the tree the highest; what hangs below them adds up to 1.

        Cliques with a column are joined to one another, and a parent comes first: so the first of them is the highest.
        """
        homes = {next(k for k, clique in enumerate(self.cliques) if column in clique) for column in columns}
        needed: set[int] = set()
        for k in homes:
            while k >= 0 and k not in needed:
                needed.add(k)
                k = self.parent[k]
        below: dict[int, list[int]] = {}
        for k in needed:
            below.setdefault(self.parent[k], []).append(k)
        tops: set[int] = set()
        for k in below[-1]:
            while k not in homes and len(below[k]) == 1:
                needed.discard(k)
                (k,) = below[k]
            tops.add(k)
        return tops, needed

    def size_with(self, columns: Clique) -> int:
        """Cells if all these columns joined each clique between them: what some tree with such a table needs at most."""
        if any(set(columns) <= set(clique) for clique in self.cliques):
            return self.size
        _, needed = self.between(columns)
        grown = [set(self.cliques[k]) | set(columns) for k in needed]
        held = sum(prod(self.shape[i] for i in self.cliques[k]) for k in needed)
        return self.size - held + sum(prod(self.shape[i] for i in clique) for clique in grown)

    def rooted(self, first: int) -> tuple[Junction, list[int]]:
        """The same tree, seen from one of its cliques; and which one each of its cliques was."""
        near: dict[int, list[int]] = {k: [] for k in range(len(self.cliques))}
        for k, p in enumerate(self.parent):
            if p >= 0:
                near[k].append(p)
                near[p].append(k)
        order: list[int] = []
        parent: list[int] = []
        for start in (first, *near):
            waiting = [] if start in order else [(start, -1)]
            while waiting:
                k, above = waiting.pop()
                waiting += [(other, len(order)) for other in near[k] if above < 0 or other != order[above]]
                order.append(k)
                parent.append(above)
        cliques = [self.cliques[k] for k in order]
        shared = [
            tuple(sorted(set(clique) & set(cliques[p]))) if p >= 0 else ()
            for clique, p in zip(cliques, parent, strict=True)
        ]
        return Junction(self.shape, tuple(cliques), tuple(parent), tuple(shared)), order

    def zeros(self) -> list[Floats]:
        return [np.zeros([self.shape[i] for i in clique]) for clique in self.cliques]

    def marginals(self, potentials: Sequence[Floats]) -> list[Floats]:
        """The law of every clique, under weights that are the exponentials of the potentials."""
        beliefs = [np.array(potential) for potential in potentials]
        upward: dict[int, Floats] = {}
        for k in reversed(range(len(self.cliques))):
            if self.parent[k] >= 0:
                upward[k] = _log_sum(beliefs[k], self.cliques[k], self.shared[k])
                beliefs[self.parent[k]] += spread_axes(
                    upward[k], self.shared[k], self.cliques[self.parent[k]]
                )
        for k in range(len(self.cliques)):
            if self.parent[k] >= 0:
                down = (
                    _log_sum(beliefs[self.parent[k]], self.cliques[self.parent[k]], self.shared[k])
                    - upward[k]
                )
                beliefs[k] += spread_axes(down, self.shared[k], self.cliques[k])
        laws = []
        for belief in beliefs:
            weight = np.exp(belief - belief.max())
            laws.append(weight / weight.sum())
        return laws

    def support(self, zeros: Sequence[Zeros]) -> list[Mask]:
        """Which cells of every clique belong to a record that is possible at all. By truth values alone: nothing is rounded."""
        there = [np.ones([self.shape[i] for i in clique], np.bool_) for clique in self.cliques]
        for one in zeros:
            k = self.home(one.columns)
            there[k] &= spread_axes(one.possible, one.columns, self.cliques[k])
        for k in reversed(range(len(self.cliques))):
            if self.parent[k] >= 0:
                up = self._any(there[k], k, self.shared[k])
                there[self.parent[k]] &= spread_axes(up, self.shared[k], self.cliques[self.parent[k]])
        for k in range(len(self.cliques)):
            if self.parent[k] >= 0:
                down = self._any(there[self.parent[k]], self.parent[k], self.shared[k])
                there[k] &= spread_axes(down, self.shared[k], self.cliques[k])
        if not all(one.any() for one in there):  # parts that share nothing: where one is impossible, all is
            there = [np.zeros_like(one) for one in there]
        return there

    def _any(self, there: Mask, k: int, keep: Clique) -> Mask:
        axes = tuple(place for place, axis in enumerate(self.cliques[k]) if axis not in keep)
        return np.asarray(there.any(axis=axes))

    def draw(
        self,
        laws: Sequence[Floats],
        n: int,
        rng: np.random.Generator,
        support: Sequence[Mask] | None = None,
        given: tuple[int, npt.NDArray[np.int64]] | None = None,
    ) -> list[npt.NDArray[np.int64]]:
        """n records: within every group that agrees so far, each value occurs as often as it should, but for rounding.

        `given` is a column of the first clique whose values are there already.

        With `support` no record leaves it, whatever a law has lost to rounding: what is given so far lies in it, so something in it follows.
        """
        columns: dict[int, npt.NDArray[np.int64]] = {} if given is None else dict([given])
        for k, clique in enumerate(self.cliques):
            known = tuple(
                i for i in clique if i in columns
            )  # what it shares with its parent, or what is given
            new = tuple(i for i in clique if i not in columns)
            law = np.transpose(laws[k], [clique.index(i) for i in (*known, *new)])
            sizes = [self.shape[i] for i in known]
            group = (
                np.ravel_multi_index([columns[i] for i in known], sizes) if known else np.zeros(n, np.int64)
            )
            rows = law.reshape(prod(sizes), -1)
            if support is not None:
                there = np.transpose(support[k], [clique.index(i) for i in (*known, *new)])
                rows = _within(rows, there.reshape(rows.shape))
            cell = spread_evenly(rows, np.asarray(group), rng)
            if support is not None:  # the ends of intervals are rounded
                cell = np.where(rows[group, cell] > 0, cell, rows.argmax(axis=1)[group])
            drawn = np.unravel_index(cell, [self.shape[i] for i in new]) if new else ()
            columns |= {i: np.asarray(values) for i, values in zip(new, drawn, strict=True)}
        return [columns[i] for i in range(len(self.shape))]


def _within(rows: Floats, there: Mask) -> Floats:
    """Laws without what is impossible; where nothing is left of one, all that is possible is alike."""
    kept = np.where(there, rows, 0.0)
    most = kept.max(axis=1, keepdims=True)
    kept = np.where(
        most < _TINY, kept / np.where(most > 0, most, 1.0), kept
    )  # or the sum would be rounded away
    return np.where(most > 0, kept, there.astype(np.float64))


def junction_tree(shape: Sequence[int], tables: Iterable[Clique]) -> Junction:
    """The junction tree for these tables, by eliminating first the column that makes the smallest clique."""
    return _ordered(tuple(shape), _cliques(shape, tables))


def size_of_tree(shape: Sequence[int], tables: Iterable[Clique]) -> int:
    """How many cells that tree has."""
    return sum(prod(shape[i] for i in clique) for clique in _cliques(shape, tables))


def _cliques(shape: Sequence[int], tables: Iterable[Clique]) -> list[frozenset[int]]:
    near: dict[int, set[int]] = {i: set() for i in range(len(shape))}
    for table in tables:
        for a, b in combinations(table, 2):
            near[a].add(b)
            near[b].add(a)
    cells = {i: prod([shape[j] for j in others], start=shape[i]) for i, others in near.items()}
    cliques: list[frozenset[int]] = []
    while near:
        node = min(cells, key=lambda i: (cells[i], i))
        others = near.pop(node)
        del cells[node]
        clique = frozenset({node, *others})
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for a in others:
            near[a] |= others
            near[a] -= {a, node}
        for a in others:
            cells[a] = prod([shape[j] for j in near[a]], start=shape[a])
    return cliques


def _ordered(shape: tuple[int, ...], cliques: list[frozenset[int]]) -> Junction:
    """A tree that shares as much as it can [a heaviest spanning tree has the running intersection], grown from one clique."""
    left = list(range(1, len(cliques)))
    order, parent = [0], [-1]
    while left:
        _, new, old = max((len(cliques[k] & cliques[j]), -k, -j) for k in left for j in order)
        left.remove(-new)
        parent.append(order.index(-old) if cliques[-new] & cliques[-old] else -1)
        order.append(-new)
    chosen = [tuple(sorted(cliques[k])) for k in order]
    shared = [tuple(sorted(set(chosen[k]) & set(chosen[p]))) if p >= 0 else () for k, p in enumerate(parent)]
    return Junction(shape, tuple(chosen), tuple(parent), tuple(shared))


def sum_axes(table: Floats, axes: Clique, keep: Clique) -> Floats:
    """The table of `keep` alone; both lists are in increasing order."""
    return np.asarray(table.sum(axis=tuple(place for place, axis in enumerate(axes) if axis not in keep)))


def spread_axes(table: Any, axes: Clique, onto: Clique) -> Any:
    """The same numbers, to be broadcast over the axes of a larger table."""
    sizes = dict(zip(axes, table.shape, strict=True))
    return table.reshape([sizes.get(axis, 1) for axis in onto])


def spread_evenly(
    laws: Floats, group: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """One draw for each record from the law of its group, evenly spaced within the group after a random start.

    Each draw has its law; together they come closer to it than independent draws would. Which record of a
    group gets which draw is random.
    """
    order = rng.permutation(group.size)
    order = order[np.argsort(group[order], kind="stable")]
    held = np.bincount(group, minlength=laws.shape[0])
    rank = np.arange(group.size) - np.repeat(np.cumsum(held) - held, held)
    start = rng.random((laws.shape[0],))
    sorted_group = group[order]
    u = (rank + start[sorted_group]) / held[sorted_group]
    running: Floats = np.cumsum(laws, axis=1)
    running = running / np.maximum(running[:, -1:], LEAST)
    flat = (running + np.arange(laws.shape[0]).reshape(-1, 1)).ravel()
    at = np.searchsorted(flat, sorted_group + u, side="right") - sorted_group * laws.shape[1]
    out = np.empty(group.size, np.int64)
    out[order] = np.minimum(at, laws.shape[1] - 1)
    return out


def with_evidence(
    junction: Junction, potentials: Sequence[Floats], evidence: Mapping[int, Floats]
) -> list[Floats]:
    """The potentials with each column's law multiplied by what is known of it."""
    changed = [np.array(potential) for potential in potentials]
    for column, weight in evidence.items():
        k = junction.home((column,))
        logs = np.log(np.maximum(weight, LEAST))
        changed[k] += spread_axes(logs, (column,), junction.cliques[k])
    return changed


def _log_sum(table: Floats, axes: Clique, keep: Clique) -> Floats:
    top = float(table.max())
    return np.log(np.maximum(sum_axes(np.exp(table - top), axes, keep), LEAST)) + top


# The joint law that agrees best with noisy tables, and otherwise assumes nothing: of all that fit, the one of highest entropy.
#
# Mirror descent on the potentials of a junction tree [McKenna, Sheldon, Miklau 2019]. It sees noisy counts only.


@dataclass(frozen=True, slots=True)
class Noisy:
    """A noisy table of some columns, as shares of all records, and the weight of each cell: one over its variance."""

    columns: Clique
    share: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class Law:
    """A junction tree with its potentials: a law on all columns."""

    junction: Junction
    potentials: tuple[Floats, ...]

    def marginals(self) -> list[Floats]:
        return self.junction.marginals(self.potentials)

    def carried(self, junction: Junction) -> list[Floats]:
        """The same potentials on another tree, each in a clique that holds it if there is one."""
        into = junction.zeros()
        for clique, potential in zip(self.junction.cliques, self.potentials, strict=True):
            if any(set(clique) <= set(other) for other in junction.cliques):
                k = junction.home(clique)
                into[k] = into[k] + spread_axes(potential, clique, junction.cliques[k])
        return into


def independent(shares: Sequence[Floats]) -> Law:
    """Every column by itself."""
    junction = junction_tree([share.size for share in shares], [])
    return Law(junction, tuple(np.log(np.maximum(shares[clique[0]], 1e-12)) for clique in junction.cliques))


def fit(
    shape: Sequence[int],
    tables: Sequence[Noisy],
    *,
    steps: int = 1000,
    start: Law | None = None,
    tolerance: float = 1e-7,
    stage: str | None = None,
    zeros: Sequence[Zeros] = (),
) -> Law:
    """The law of least weighted squares, sum of weight * (law - share)^2, reached from the uniform one or from `start`.

    What `zeros` rule out has no share; the tree has a clique for the columns of each. Whoever watches is told how far the `stage` has come.
    """
    junction = junction_tree(shape, [*(table.columns for table in tables), *(one.columns for one in zeros)])
    potentials = junction.zeros() if start is None else start.carried(junction)
    for one in zeros:
        k = junction.home(one.columns)
        closed = np.where(one.possible, 0.0, -np.inf)
        potentials[k] = potentials[k] + spread_axes(closed, one.columns, junction.cliques[k])
    homes = [junction.home(table.columns) for table in tables]
    laws = junction.marginals(potentials)
    loss, slopes = _loss(junction, laws, tables, homes)
    rate = 1.0 / max(1.0, max(float(table.weight.max()) for table in tables))
    best = loss
    for step in range(steps):
        if stage is not None:
            progress(stage, step / steps)
        rate *= 2.0
        for _ in range(25):
            moved = [potential - rate * slope for potential, slope in zip(potentials, slopes, strict=True)]
            new_laws = junction.marginals(moved)
            new_loss, new_slopes = _loss(junction, new_laws, tables, homes)
            fall = sum(
                float(np.sum(slope * (old - new)))
                for slope, old, new in zip(slopes, laws, new_laws, strict=True)
            )
            if loss - new_loss >= 0.5 * fall:
                break
            rate *= 0.5
        potentials, laws, loss, slopes = moved, new_laws, new_loss, new_slopes
        if step % 25 == 24:
            if best - loss < tolerance * best:
                break
            best = loss
    return Law(junction, tuple(potential - potential.max() for potential in potentials))


def _loss(
    junction: Junction, laws: Sequence[Floats], tables: Sequence[Noisy], homes: Sequence[int]
) -> tuple[float, list[Floats]]:
    slopes = junction.zeros()
    loss = 0.0
    for table, k in zip(tables, homes, strict=True):
        away = sum_axes(laws[k], junction.cliques[k], table.columns) - table.share
        pull = table.weight * away
        loss += 0.5 * float(np.sum(pull * away))
        slopes[k] = slopes[k] + spread_axes(pull, table.columns, junction.cliques[k])
    return loss, slopes


# The law of any few columns under a junction tree, also where no clique holds them all.


def joint_law(law: Law, laws: Sequence[Floats], columns: Clique) -> Floats:
    """The marginal of `columns`: the part of the tree that joins them is folded up, keeping only what is asked for or shared."""
    junction = law.junction
    for k in range(len(junction.cliques)):
        if set(columns) <= set(junction.cliques[k]):
            return sum_axes(laws[k], junction.cliques[k], columns)
    tops, needed = junction.between(columns)
    folded: dict[int, list[tuple[Clique, Floats]]] = {}
    roots: list[tuple[Clique, Floats]] = []
    for k in sorted(needed, reverse=True):
        axes, table = junction.cliques[k], laws[k]
        above = () if k in tops else junction.shared[k]
        if above:  # the law of this clique given what it shares with its parent
            below = sum_axes(table, axes, above)
            table = table / np.maximum(below, LEAST).reshape(
                [n if a in above else 1 for a, n in zip(axes, table.shape, strict=True)]
            )
        keep = tuple(sorted({*above, *(set(columns) & set(axes))}))
        for more_axes, _ in folded.get(k, []):
            keep = tuple(sorted({*keep, *(set(more_axes) & set(columns))}))
        result = _product([(axes, table), *folded.pop(k, [])], keep)
        if k in tops:
            roots.append((keep, result))
        else:
            folded.setdefault(junction.parent[k], []).append((keep, result))
    return _product(roots, columns)


def _product(parts: Sequence[tuple[Clique, Floats]], keep: Clique) -> Floats:
    letters: dict[int, int] = {}  # einsum knows 52 of them, and there may be more columns
    for axes, _ in parts:
        for axis in axes:
            letters.setdefault(axis, len(letters))
    operands: list[Any] = []
    for axes, table in parts:
        operands += [table, [letters[axis] for axis in axes]]
    return np.asarray(np.einsum(*operands, [letters[axis] for axis in keep], optimize=len(parts) > 2))
