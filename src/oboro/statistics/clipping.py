"""Vectors of whole numbers, shortened into a ball by whole numbers alone, and the rows that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column
from oboro.engine import code_sql, counted_rows
from oboro.statistics.scope import Scope

CHUNK = 2**20  # rows: so many products of numbers below 2^21 fit into 63 bits
MOST_COLUMNS = 2**16  # then coordinates still have a bit more than the radius when lengths are computed
_WIDE = 27  # bits of a coordinate then, at most


def clipped(t: Integers, radius: int, norm: str) -> Integers:
    """Vectors of whole numbers below 2^27, each shortened to at most `radius` in its norm, towards 0."""
    if norm == "l1":
        length = np.abs(t).sum(axis=1)
    else:
        square = (t * t).sum(axis=1)
        length = np.sqrt(square.astype(float)).astype(np.int64)  # near enough; whole numbers put it right
        length -= length * length > square
        length += length * length < square  # rounded up: never shorter than the vector
    outside = length > radius
    shorter = np.abs(t[outside]) * radius // length[outside, None]
    out = t.copy()
    out[outside] = np.sign(t[outside]) * shorter
    return out


def shifted(away: Integers, shift: int) -> Integers:
    """Divided by 2^shift, towards 0; a row so far out that this has more than 27 bits is shortened to 27.

    From 128 columns on to fewer: so many that the squares of all coordinates together stay below 2^62.
    """
    size, signs = np.abs(away), np.sign(away)
    widest = _bit_length(size.max(axis=1, initial=0))
    wide = min(_WIDE, (62 - away.shape[1].bit_length()) // 2)
    by = np.minimum(np.maximum(shift, widest - wide), 62)[:, None]
    moved = np.where(by >= 0, size >> np.maximum(by, 0), size << np.maximum(-by, 0))
    return np.asarray(signs * moved, np.int64)


def _bit_length(numbers: Integers) -> Integers:
    """How many bits each number below 2^62 has."""
    powers = np.asarray([2**k for k in range(63)], np.int64)
    return np.searchsorted(powers, numbers, side="right").astype(np.int64)


def streamed(scope: Scope, columns: Sequence[Column], data: Any) -> Iterator[tuple[Integers, Integers]]:
    """Groups and codes of the rows that count, some at a time."""
    source, condition = scope.open(data)
    by = [bins.column for bins in scope.by]
    source.need(*[column.name for column in (*columns, *by)])
    group = "0::BIGINT"
    for column in by:
        group = f"({group}) * {column.size} + ({code_sql(column, source.types[column.name])})"
    fields = {f"c{i}": code_sql(column, source.types[column.name]) for i, column in enumerate(columns)} | {
        "g": group
    }
    relation = source.connection.sql(f"SELECT * FROM ({counted_rows(source, fields, scope.unit, condition)})")
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in stream(CHUNK):
        whole = [batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in fields]
        for start in range(0, batch.num_rows, CHUNK):
            *codes, place = (values[start : start + CHUNK] for values in whole)
            yield place, np.stack(codes, axis=1)
