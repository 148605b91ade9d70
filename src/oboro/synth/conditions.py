"""Conditions on sampling: which codes of a column are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column, Domain
from oboro.errors import ParameterError, setting, told
from oboro.kinds import nearest, takes
from oboro.synth.coding import code_count
from oboro.synth.oneway import Shape


@dataclass(frozen=True, slots=True)
class Wanted:
    """Disjoint ranges [start, stop) of codes, in order."""

    start: Integers
    stop: Integers


@takes(where=Mapping)
def wanted_codes(domain: Domain, where: Mapping[str, Any] | None = None) -> dict[int, Wanted]:
    """For each column named: one value, a list of values, a tuple (lowest, highest) of a number or date, or None for missing."""
    return {
        domain.names.index(domain[name].name): _wanted(domain[name], value)
        for name, value in (where or {}).items()
    }


def _wanted(column: Column, value: Any) -> Wanted:
    if isinstance(value, tuple) and not isinstance(column, Category):
        if len(value) != 2:
            raise _not_there(column, value)
        low, high = (_code(column, end) for end in value)
        if high < low or column.size in (low, high):
            raise _not_there(column, value)
        return Wanted(np.array([low]), np.array([high + 1]))
    values = value if isinstance(value, list | set | tuple | range) else [value]
    codes = np.unique([_code(column, one) for one in values]).astype(np.int64)
    if not codes.size:
        raise _not_there(column, value)
    return Wanted(codes, codes + 1)


def _code(column: Column, value: Any) -> int:
    if value is None and code_count(column) > column.size:
        return column.size
    code = column.code(value)
    strange = isinstance(column, Category) and value not in column.values
    if code is None or value is None or strange:
        raise _not_there(column, value)
    return code


def _not_there(column: Column, value: Any) -> ParameterError:
    close = nearest(value, map(str, column.values)) if isinstance(column, Category) else None
    example = next((one for one in getattr(column, "values", ()) if str(one) == close), column.value(0))
    return ParameterError(
        f"column {column.name!r} has no such value",
        given=told(where=f"{{{column.name!r}: {value!r}}}"),
        needed="a value of the domain, a list of them, or a tuple (lowest, highest) of a number or date",
        fix=setting(where={column.name: example}),
    )


@dataclass(frozen=True, slots=True)
class Segments:
    """Ranges of codes that may be drawn, how many records lie in each, and the block of the shape that each is in."""

    start: Integers
    stop: Integers
    mass: Floats
    block: Integers


def restricted(shape: Shape, wanted: Wanted | None) -> Segments:
    """The blocks of a shape, cut down to what is wanted; within a block all codes are alike."""
    if wanted is None:
        return Segments(shape.start, shape.stop, shape.mass, np.arange(shape.start.size))
    pieces = []
    for low, high in zip(wanted.start.tolist(), wanted.stop.tolist(), strict=True):
        first, last = int(shape.block_of(np.asarray(low))), int(shape.block_of(np.asarray(high - 1)))
        block = np.arange(first, last + 1)
        start, stop = np.maximum(shape.start[block], low), np.minimum(shape.stop[block], high)
        part = (stop - start) / (shape.stop[block] - shape.start[block])
        pieces.append((start, stop, shape.mass[block] * part, block))
    return Segments(*(np.concatenate([piece[i] for piece in pieces]) for i in range(4)))
