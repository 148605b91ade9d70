"""Random neighbours: small datasets of a plan's domain, and one unit of them changed.

A plan's own worst cases are what its author thought of. These are what nobody thought of: odd mixtures of bounds,
middles and missing values, persons with more rows than count, crowded cells and empty ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oboro.noise.bits import Bits
from oboro.release import Pair, Plan

Random = np.random.Generator
Row = dict[str, Any]

MOST_OTHERS = 6  # rows or persons beside the one that changes, where their number is not public


def random_pairs(plan: Any, count: int, bits: Bits) -> list[Pair]:
    """So many random pairs for a plan; none for one whose data nobody can make up."""
    if not hasattr(plan, "random_pair") or count < 1:
        return []
    random = np.random.default_rng(int(bits.integer(64)))  # chooses data that are made up: nobody's secret
    columns = _columns(plan)
    found = (
        plan.random_pair(random) or (_rows(plan, columns, random) if columns else None) for _ in range(count)
    )
    return [pair for pair in found if pair is not None]


# -- rows and persons ------------------------------------------------------------------------------------------------


def _rows(plan: Plan, columns: list[Any], random: Random) -> Pair:
    """One unit comes, goes or is replaced among a few others."""
    unit, n = plan.unit, _public_n(plan.to_dict()) if plan.unit.adjacency == "replace" else None
    replaced = unit.adjacency == "replace"
    others = (n - 1) if n is not None else int(random.integers(0, MOST_OTHERS))
    rest = [_unit(unit, columns, random) for _ in range(others)]
    mine = _unit(unit, columns, random)
    changed = _unit(unit, columns, random) if replaced else []
    place = int(random.integers(0, others + 1))
    tables = [_table(unit, columns, [*rest[:place], own, *rest[place:]]) for own in (mine, changed)]
    return Pair(tables[0], tables[1], "a random unit among random others")


def _unit(unit: Any, columns: list[Any], random: Random) -> list[Row]:
    """All rows of one unit; of a person sometimes more than count."""
    rows = 1 if unit.kind == "row" else int(random.integers(1, unit.contributions + 3))
    return [{column.name: _value(column, random) for column in columns} for _ in range(rows)]


def _value(column: Any, random: Random) -> Any:
    chance = random.random()
    if chance < 0.1:
        return None
    code = 0 if chance < 0.35 else column.size - 1 if chance < 0.6 else int(random.integers(0, column.size))
    return column.value(code)


def _table(unit: Any, columns: list[Any], units: list[list[Row]]) -> Any:
    import pyarrow as pa

    rows = [row for own in units for row in own]
    table = {
        column.name: pa.array([column.value(0), *(row[column.name] for row in rows)]).slice(1)
        for column in columns
    }
    if unit.column is not None:
        table[unit.column] = pa.array([who for who, own in enumerate(units) for _ in own], pa.int64())
    return pa.table(table or {"row": pa.array(range(len(rows)), pa.int64())})


def _columns(plan: Plan) -> list[Any]:
    """The columns of the rows that a plan reads, each with a name in the data."""
    return [column for column in plan.reads if column.sources == (column.name,)]


def _public_n(record: dict[str, Any]) -> int | None:
    """The number of units where it is public: of a batch, of its first question."""
    return _public_n(record["plans"][0]) if "plans" in record else record.get("n")
