"""The error that a table will have, by the size of the area asked for. From public facts alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Floats
from oboro.domain import Column, Domain, Grid, Mesh
from oboro.domain.mesh import LEVELS, width
from oboro.exact import about
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.release import Forecast
from oboro.tables.layout import Layout

if TYPE_CHECKING:
    from oboro.tables.strategy import Strategy


_WITHIN = math.log(20) / math.sqrt(
    2
)  # the 95% point of Laplace noise in standard errors: 2.12; mixtures have less


def forecast_of(strategy: Strategy, expected_total: int | None = None) -> Forecast:
    """Standard errors of aligned blocks, before negative counts become 0."""
    layout, rows = strategy.layout, []
    for height in areas(layout):
        error = math.sqrt(strategy.variance(height))
        rows.append((block_name(layout, height), f"2^{height}", error, _WITHIN * error))
    notes = [
        "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
        *strategy.notes,
        *strategy.remarks(expected_total),
    ]
    columns = ("area", "cells", "standard error", "95% within ±")
    return Forecast(
        f"expected error of a table by {strategy.name}, by area", columns, tuple(rows), tuple(notes)
    )


def few_people(strategy: Strategy, total: int) -> list[str]:
    """A warning, if the error of a cell is more than a cell holds on average."""
    mean = total / strategy.layout.cells
    if mean >= math.sqrt(strategy.variance(0)):
        return []
    return [
        f"a cell holds {about(mean, 3)} people on average, less than the error of a cell: trust larger areas only"
    ]


def published_if_even(noise: DiscreteLaplace, depth: int, total: float) -> float:
    """About how many cells the wavelet publishes if the noise alone decides where people go: they are spread evenly.

    f(s), the cells that come of a node that holds s, is E[f((s + z)/2) + f((s - z)/2)] one level up, with z the
    noise cut off at -s and s; one person is one cell. Interpolated between values of s that grow by a constant
    factor, with z at 64 quantiles.
    """
    if total < 1:
        return 0.0
    held = np.geomspace(1, max(total, 2.0), 160)
    levels = (np.arange(64) + 0.5) / 64
    z = as_float(noise.scale) * np.sign(levels - 0.5) * -np.log1p(-np.abs(2 * levels - 1))
    first = np.clip((held[:, None] + z) / 2, 0, held[:, None])
    cells = np.ones_like(held)
    for _ in range(depth):
        cells = (_cells(first, held, cells) + _cells(held[:, None] - first, held, cells)).mean(axis=1)
    return float(_cells(np.array([total]), held, cells)[0])


def _cells(s: Floats, held: Floats, cells: Floats) -> Floats:
    """f between its known values; half a person is a person half of the time."""
    inner = np.exp(np.interp(np.log(np.maximum(s, 1)), np.log(held), np.log(cells)))
    return np.asarray(np.minimum(s, 1) * inner)


def areas(layout: Layout) -> list[int]:
    """Heights of the blocks that people ask for: squares of a grid, meshes of a level, columns as a whole."""
    found, below = {layout.bits}, 0
    for column in reversed(tuple(layout.domain)):
        own = Layout(Domain([column]))
        if isinstance(column, Mesh):
            found |= {below + bits for bits in _mesh_levels(column)}
        else:
            found |= set(
                range(below, below + own.bits, len(column.sources) if isinstance(column, Grid) else 2)
            )
        below += own.bits
    return sorted(found)


def block_name(layout: Layout, height: int) -> str:
    """What a block of 2^height cells is: how much of each column it covers. "8 x 8 of row,col; all of sex"."""
    parts = []
    below = height
    for column in reversed(tuple(layout.domain)):
        own = Layout(Domain([column]))
        covered = min(below, own.bits)
        below -= covered
        if own.bits and (covered or isinstance(column, Grid | Mesh) or len(layout.domain) == 1):
            parts.append(_covered(column, own, covered))
    return "; ".join(reversed(parts)) or "one cell"


def _covered(column: Column, own: Layout, bits: int) -> str:
    if bits == own.bits:
        return f"all of {column.name}"
    if isinstance(column, Mesh) and bits in (levels := _mesh_levels(column)):
        return levels[bits].replace("km", " km").replace("0m", "0 m") + " mesh"
    sides = [
        min(size, 1 << sum(place < bits for place in places))
        for size, places in zip(own.sizes, own.pattern, strict=True)
    ]
    if isinstance(column, Grid):
        return " x ".join(map(str, sides)) + f" of {column.name}"
    return f"{math.prod(sides):,} of {column.name}"


def _mesh_levels(column: Mesh) -> dict[int, str]:
    """How many bits of a code lie below a mesh of each level."""
    widths = [sum(width(side) for side in group) for group in column.groups[1:]]
    return {
        sum(widths[len(groups) :]): level for level, groups in LEVELS.items() if len(groups) <= len(widths)
    }
