"""Worst-case neighbours for the audit, as small tables of the form that the plan reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oboro.noise import DiscreteLaplace
from oboro.privacy import Unit
from oboro.release import Pair
from oboro.tables.cells import Layout
from oboro.tables.strategy import Noise, key_columns

_LISTED_BITS = 16
_CROWDED = 8  # cells that others are in


def pairs(
    layout: Layout,
    unit: Unit,
    count: str | None,
    noise: Noise,
    crowds: Sequence[int] = (),
) -> Iterator[Pair]:
    """One unit or nobody, in an empty table and in a full one; under replace, one unit in two places.

    With `crowds` also in a cell with so many others.

    The cells of a unit branch off one path of the tree, each from its own node: the worst case of the sensitivity.
    """
    possible = some_possible(layout)
    wanted = unit.contributions if unit.kind == "cells" else 1
    path = [0, *(1 << place for place in range(layout.bits))]
    here = [key for key in dict.fromkeys([*path, *possible]) if key in possible][:wanted]
    there = [key for key in reversed(possible) if key not in here][: len(here)] or here
    full = dict.fromkeys(
        [*here, *there][:_CROWDED],
        20 * int(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sd) + 20,
    )
    crowded = [({here[0]: crowd}, f"and {crowd} others in its cell") for crowd in crowds]
    for others, where in (({}, "and nobody else"), (full, "among many"), *crowded):
        if unit.adjacency == "replace":
            one, other = (records(layout, unit, count, others, mine) for mine in (here, there))
            yield Pair(one, other, f"one unit in other cells, {where}")
        else:
            one, other = (records(layout, unit, count, others, mine) for mine in (here, []))
            yield Pair(one, other, f"one unit or none, {where}")


def some_possible(layout: Layout) -> list[int]:
    """Possible keys: all of them in a small domain, otherwise some of the first."""
    if layout.bits <= _LISTED_BITS:
        return [int(key) for key in np.flatnonzero(layout.all_possible())]
    head_bits, heads = layout.heads
    first = int(heads[0]) << (layout.bits - head_bits)
    near = first + np.arange(1 << min(_LISTED_BITS, layout.bits), dtype=np.int64)
    return [int(key) for key in near[layout.possible(near)]]


def records(layout: Layout, unit: Unit, count: str | None, others: dict[int, int], mine: list[int]) -> Any:
    """Data with `others` in some cells, and one unit in the cells `mine`."""
    import pyarrow as pa

    weight = unit.max_per_cell or 1
    if count is not None:
        keys = [*others, *mine]
        beside = {count: pa.array([*others.values(), *([weight] * len(mine))], pa.int64())}
    else:
        own = mine * (weight if unit.kind == "cells" else unit.contributions)
        keys = [key for key, number in others.items() for _ in range(number)]
        people = [f"stranger {i}" for i in range(len(keys))] + ["someone"] * len(own)
        keys += own
        beside = {} if unit.column is None else {unit.column: pa.array(people, pa.string())}
    return pa.table({**dict(key_columns(np.array(keys, np.int64), layout)), **beside})


def random_pair(layout: Layout, unit: Unit, count: str | None, random: np.random.Generator) -> Pair:
    """One unit in random cells of a table, among random counts."""
    possible = some_possible(layout)
    most = unit.contributions if unit.kind == "cells" else 1

    def some(number: int) -> list[int]:
        return [int(key) for key in random.choice(possible, min(number, len(possible)), replace=False)]

    others = {key: int(random.integers(1, 12)) for key in some(int(random.integers(0, 5)))}
    mine, moved = some(most), some(most) if unit.adjacency == "replace" else []
    one, other = (records(layout, unit, count, others, own) for own in (mine, moved))
    return Pair(one, other, "a random unit in a random table")
