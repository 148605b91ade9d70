"""An answer as people read it: a chart, a table with its interval, a picture where it is a map. All of it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from oboro.errors import OboroError
from oboro.exact import about
from oboro.service.studio import figures

if TYPE_CHECKING:
    from oboro.arrays import Table
    from oboro.release import Forecast, Plan, Release
    from oboro.service.studio.page import Visit

_SHOWN = 200
_DRAWN = 2_000
_ENDS = ("low", "high")


def table_of(release: Release) -> Table:
    """What was published, with both ends of the interval where it has one and the table is small."""
    table = release.to_arrow()
    if release.plan.intervals is None or table.num_rows > _DRAWN:
        return table
    try:
        return release.interval()
    except OboroError:
        return table


def rows_of(here: Visit, table: Table, keys: Sequence[str]) -> tuple[list[str], list[list[str]], int]:
    """The head and the first rows as text, and how many more there are."""
    names = table.column_names
    head = [here.sentence(_heading(name)) if name not in keys else name for name in names]
    rows = [
        [
            str(value) if name in keys and isinstance(value, int) else text_of(value)
            for name, value in row.items()
        ]
        for row in table.slice(0, _SHOWN).to_pylist()
    ]
    return head, rows, max(0, table.num_rows - _SHOWN)


def _heading(name: str) -> str:
    return {"low": "95% from", "high": "95% to"}.get(name, name)


def text_of(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else about(value, 6)


def forecast_rows(here: Visit, forecast: Forecast) -> dict[str, Any]:
    """A forecast as a table of words."""
    found = forecast.folded()
    return {
        "head": [here.sentence(name) for name in found.columns],
        "rows": [
            [here.name(value) if isinstance(value, str) else about(value) for value in row]
            for row in found.rows
        ],
        "notes": [here.sentence(note) for note in found.notes],
    }


def picture(here: Visit, table: Table, plan: Plan) -> Markup:
    """The chart of an answer: values with their intervals, or a grid of counts as a picture."""
    describe = here.name(plan.describe()["released"])
    if not plan.readable:
        return Markup("")
    grid = grid_of(plan)
    if grid is not None:
        return _map(table, grid, getattr(plan, "count", None) or "count", describe)
    numbers = [
        name
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if name not in (*plan.key_columns, *_ENDS)
        and str(kind).startswith(("int", "uint", "float", "double", "decimal"))
    ]
    shown = next((name for name in ("value", "count", *reversed(numbers)) if name in numbers), None)
    if shown is None or table.num_rows > _DRAWN:
        return Markup("")
    keys = [name for name in table.column_names if name not in (*numbers, *_ENDS)]
    ended = all(name in table.column_names for name in _ENDS)
    rows = [
        (
            ", ".join(
                text_of(row[name]) if not isinstance(row[name], int) else str(row[name]) for name in keys
            ),
            float(row[shown]) if row[shown] is not None else float("nan"),
            float(row["low"]) if ended and row["low"] is not None else None,
            float(row["high"]) if ended and row["high"] is not None else None,
        )
        for row in table.to_pylist()
    ]
    return figures.intervals(rows, describe=describe, interval=here.sentence("95% interval"))


def grid_of(plan: Plan) -> Any:
    """The grid or mesh that a table is about, if it can be drawn as a map."""
    from oboro.domain import Grid, Mesh

    domain = getattr(plan, "domain", None)
    if domain is None or not hasattr(plan, "strategy"):
        return None
    return next((column for column in domain if isinstance(column, Grid | Mesh)), None)


def _map(table: Table, grid: Any, counted: str, describe: str) -> Markup:
    import numpy as np

    from oboro.domain import Grid

    if not isinstance(grid, Grid):
        return Markup("")
    rows, columns = (table.column(name).to_numpy() for name in grid.names)
    values = np.zeros(grid.shape)
    counts = table.column(counted if counted in table.column_names else "count")
    np.add.at(values, (rows, columns), counts.to_numpy())
    return figures.heat(values, describe=describe, south=getattr(grid, "rows", "south") == "south")
