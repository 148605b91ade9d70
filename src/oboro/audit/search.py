"""Random neighbours: small datasets of a plan's domain, and one unit of them changed.

A plan's own worst cases are what its author thought of. These are what nobody thought of: odd mixtures of bounds,
middles and missing values, persons with more rows than count, crowded cells and empty ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oboro.noise.bits import Bits
from oboro.release import Pair

Random = np.random.Generator
Row = dict[str, Any]

MOST_OTHERS = 6  # rows or persons beside the one that changes, where their number is not public


def random_pairs(plan: Any, count: int, bits: Bits) -> list[Pair]:
    """So many random pairs for a plan; none for a kind whose data nobody can make up."""
    maker = _maker(plan.kind)
    if maker is None or count < 1:
        return []
    random = np.random.default_rng(int(bits.integer(64)))  # chooses data that are made up: nobody's secret
    try:
        return [maker(plan, random) for _ in range(count)]
    except (AttributeError, KeyError):  # a plan of this kind by name only
        return []


def _maker(kind: str) -> Callable[[Any, Random], Pair] | None:
    special: dict[str, Callable[[Any, Random], Pair] | None] = {
        "tables.table": _cells,
        "statistics.mst_cost": _weights,
        "statistics.triangles": _edges,
        "statistics.own_function": None,  # only its owner knows what it takes
        "dynamics.signal": _signal,
        "secure.draw": _answer,
    }
    if kind in special:
        return special[kind]
    return _rows if kind.partition(".")[0] in ("statistics", "synth") else None


# -- rows and persons ------------------------------------------------------------------------------------------------


def _rows(plan: Any, random: Random) -> Pair:
    """One unit comes, goes or is replaced among a few others."""
    unit, columns, n = plan.unit, _columns(plan), _public_n(plan)
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


def _columns(plan: Any) -> list[Any]:
    """The columns that a plan reads, each with a name in the data."""
    from oboro.domain import Domain

    found: dict[str, Any] = {}
    for part in getattr(plan, "plans", (plan,)):
        record = part.describe().get("domain")
        found |= {column.name: column for column in (Domain.from_dict(record) if record else ())}
    return [column for column in found.values() if column.sources == (column.name,)]


def _public_n(plan: Any) -> int | None:
    first = getattr(plan, "plans", (plan,))[0]
    scope = getattr(first, "scope", None)
    n = getattr(first, "n", None) if scope is None else scope.n
    return n if plan.unit.adjacency == "replace" else None


# -- cells, graphs, signals, answers ---------------------------------------------------------------------------------


def _cells(plan: Any, random: Random) -> Pair:
    """One unit in random cells of a table, among random counts."""
    from oboro.tables.neighbours import records, some_possible

    possible = some_possible(plan.layout)
    most = plan.unit.contributions if plan.unit.kind == "cells" else 1

    def some(count: int) -> list[int]:
        return [int(key) for key in random.choice(possible, min(count, len(possible)), replace=False)]

    others = {key: int(random.integers(1, 12)) for key in some(int(random.integers(0, 5)))}
    mine, moved = some(most), some(most) if plan.unit.adjacency == "replace" else []
    one, other = (records(plan.layout, plan.unit, plan.count, others, own) for own in (mine, moved))
    return Pair(one, other, "a random unit in a random table")


def _weights(plan: Any, random: Random) -> Pair:
    """One weight of a random graph changes."""
    weights = {edge: plan.weight.value(int(random.integers(0, plan.weight.size))) for edge in plan.edges}
    edge = plan.edges[int(random.integers(0, len(plan.edges)))]
    changed = plan.weight.value(int(random.integers(0, plan.weight.size)))
    return Pair(weights, {**weights, edge: changed}, "a random weight of a random graph")


def _edges(plan: Any, random: Random) -> Pair:
    """One edge of a random graph comes or goes."""
    every = [(u, v) for v in range(plan.nodes) for u in range(v)]
    density = random.random()
    kept = [edge for edge in every if random.random() < density]
    edge = every[int(random.integers(0, len(every)))]
    without = [other for other in kept if other != edge]
    return Pair(without, [*without, edge], "a random edge of a random graph")


def _signal(plan: Any, random: Random) -> Pair:
    """A random record, and one as far from it as neighbours may be, in a random direction."""
    from oboro.dynamics.operators import Operator

    operator = Operator(plan.system, plan.horizon, plan.protect)
    distance = float(plan.unit.distance)
    power = np.inf if plan.unit.norm is None else float(plan.unit.norm)
    base = random.normal(size=operator.coordinates) * distance
    direction = random.normal(size=operator.coordinates) * (random.random(operator.coordinates) < 0.7)
    direction[int(random.integers(0, direction.size))] += 1.0
    size = np.linalg.norm(direction, ord=power)
    change = direction * (distance / size) * (1 - 1e-9)  # neighbours beyond doubt, rounding included
    records = []
    for values in (base, base + change):
        x0, u = operator.split(values)
        records.append({"u": u, "x0": x0})
    return Pair(records[0], records[1], "a random signal, moved in a random direction")


def _answer(plan: Any, random: Random) -> Pair:
    """A random answer, and one as far from it as a unit may move it."""
    low = int(random.integers(plan.low, plan.high + 1))
    return Pair(
        low, min(low + plan.noise.sensitivity, plan.high), "a random answer, moved as far as it may be"
    )
