"""What a steward shows the boss before spending: errors by area and by category, and what they mean for cells.

The errors are exact, for numbers before they are kept at 0 or more. Which cells can be trusted, and how many will
show people though nobody is there, depends on how people live: outlook.py tries that out.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from oboro.release import Forecast
from oboro.tables.tree.lattice import Lattice, Level
from oboro.tables.tree.project import spine_of
from oboro.tables.tree.workload import block

if TYPE_CHECKING:
    from oboro.tables.tree.strategy import PlannedTree

_WITHIN = math.log(20) / math.sqrt(2)  # the 95% point of Laplace noise in standard errors; sums have less
_TRUSTED = 0.2
_MOST_ROWS = 48


def tree_forecast(strategy: PlannedTree, expected_total: int | None) -> Forecast:
    """Errors of the nodes of levels: areas by all of the other columns together, and by each of them."""
    lattice, rows = strategy.lattice, []
    for level in areas(lattice):
        profile = np.ones(())
        for tree, at in zip(lattice.trees, level, strict=True):
            profile = np.multiply.outer(profile, block(tree, at))
        error = math.sqrt(float((profile / strategy.moments).sum()))
        size = lattice.under(level)
        rows.append((lattice.name(level), size, error, _WITHIN * error, _WITHIN * error / _TRUSTED))
    lines = [
        "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
        *strategy.notes,
        *strategy.remarks(expected_total),
    ]
    columns = ("area", "cells", "standard error", "95% within ±", "trusted at ±20% from")
    return Forecast("expected error of a table by tree, by area", columns, tuple(rows), tuple(lines))


def areas(lattice: Lattice) -> list[Level]:
    """Levels that people ask about: each of the places, times all or each of every other column."""
    spine = spine_of(lattice)
    tree = lattice.trees[spine]
    named = [level for level, _ in tree.labels]
    every = [0, *(named or range(1, tree.depth + 1))]
    others = [
        [at] if i == spine else ([0, t.depth] if t.depth else [0])
        for i, t in enumerate(lattice.trees)
        for at in [0]
    ]
    if len(every) * math.prod(len(o) for i, o in enumerate(others) if i != spine) > _MOST_ROWS:
        others = [[0, t.depth] if t.depth else [0] for t in lattice.trees]
        every = [0, tree.depth]
    others[spine] = every
    found = list(product(*others))
    return sorted(found, key=lambda level: (lattice.under(level), level), reverse=False)[:_MOST_ROWS]
