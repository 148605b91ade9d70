"""The joint law that agrees best with noisy tables, and otherwise assumes nothing: of all that fit, the one of highest entropy.

Mirror descent on the potentials of a junction tree [McKenna, Sheldon, Miklau 2019]. It sees noisy counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Floats
from oboro.synth.junction import Clique, Junction, junction_tree, spread_axes, sum_axes


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
) -> Law:
    """The law of least weighted squares, sum of weight * (law - share)^2, reached from the uniform one or from `start`."""
    junction = junction_tree(shape, [table.columns for table in tables])
    potentials = junction.zeros() if start is None else start.carried(junction)
    homes = [junction.home(table.columns) for table in tables]
    laws = junction.marginals(potentials)
    loss, slopes = _loss(junction, laws, tables, homes)
    rate = 1.0 / max(1.0, max(float(table.weight.max()) for table in tables))
    best = loss
    for step in range(steps):
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
