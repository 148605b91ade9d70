"""The law of any few columns under a junction tree, also where no clique holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.synth.inference import Law
from oboro.synth.junction import Clique, sum_axes

_LEAST = 1e-300


def joint_law(law: Law, laws: Sequence[Floats], columns: Clique) -> Floats:
    """The marginal of `columns`: the tree is folded up from its leaves, keeping only what is asked for or shared."""
    junction = law.junction
    for k in range(len(junction.cliques)):
        if set(columns) <= set(junction.cliques[k]):
            return sum_axes(laws[k], junction.cliques[k], columns)
    folded: dict[int, list[tuple[Clique, Floats]]] = {}
    roots: list[tuple[Clique, Floats]] = []
    for k in reversed(range(len(junction.cliques))):
        axes, table = junction.cliques[k], laws[k]
        if junction.parent[k] >= 0:  # the law of this clique given what it shares with its parent
            below = sum_axes(table, axes, junction.shared[k])
            table = table / np.maximum(below, _LEAST).reshape(
                [n if a in junction.shared[k] else 1 for a, n in zip(axes, table.shape, strict=True)]
            )
        keep = tuple(sorted({*junction.shared[k], *(set(columns) & set(axes))}))
        for more_axes, _ in folded.get(k, []):
            keep = tuple(sorted({*keep, *(set(more_axes) & set(columns))}))
        result = _product([(axes, table), *folded.pop(k, [])], keep)
        if junction.parent[k] >= 0:
            folded.setdefault(junction.parent[k], []).append((keep, result))
        else:
            roots.append((keep, result))
    return _product(roots, columns)


def _product(parts: Sequence[tuple[Clique, Floats]], keep: Clique) -> Floats:
    operands: list[Any] = []
    for axes, table in parts:
        operands += [table, list(axes)]
    return np.asarray(np.einsum(*operands, list(keep), optimize=len(parts) > 2))
