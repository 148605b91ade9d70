"""Rows that nobody is: drawn evenly from the domain alone, to develop with and to calibrate slots on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.domain import Areas, Column, Domain, Grid, Mesh
from oboro.privacy import Unit
from oboro.records import Record

if TYPE_CHECKING:
    from oboro.arrays import Table

_LISTED = 1 << 16


def made_up(domain: Domain, unit: Unit, rows: int, *, seed: int = 0, count: str | None = None) -> Table:
    """So many rows of the domain, each value as likely as any other. No data is looked at.

    >>> from oboro.service.made_up import made_up
    >>> made_up(ob.Domain([ob.Integer("age", 0, 99)]), ob.Unit.row(), 3).num_rows
    3
    """
    import pyarrow as pa

    random = np.random.default_rng(seed)
    found: Record = {}
    for column in domain:
        found |= _column(column, rows, random)
    if unit.column is not None:
        persons = max(1, rows // (unit.max_rows or 1))
        found[unit.column] = pa.array(random.integers(0, persons, rows))
    if count is not None:
        found[count] = pa.array(random.integers(1, 100, rows))
    return pa.table(found)


def _column(column: Column, rows: int, random: np.random.Generator) -> Record:
    import pyarrow as pa

    if isinstance(column, Grid):
        return {
            name: pa.array(random.integers(0, side, rows))
            for name, side in zip(column.names, column.shape, strict=True)
        }
    codes = random.integers(0, column.size, rows)
    if isinstance(column, Mesh):
        return {column.name: pa.array(column.decode(codes))}
    if isinstance(column, Areas):
        return {
            name: pa.array(values) for name, values in zip(column.sources, _areas(column, codes), strict=True)
        }
    if column.size <= _LISTED:  # each value is written once
        return {
            column.name: pa.array([column.value(code) for code in range(column.size)]).take(pa.array(codes))
        }
    return {column.name: pa.array([column.value(int(code)) for code in codes])}


def _areas(column: Areas, codes: Any) -> list[Any]:
    if column.of is None:
        return [[str(column.value(int(code))) for code in codes]]
    return [np.asarray(place) for place in column.decode(codes)]
