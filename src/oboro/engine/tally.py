"""How often each whole number comes up, added up as numbers stream past: memory for the counts, not for the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.engine.source import Source

_BATCH = 2**20  # rows
LARGE = 2**18  # from so many rows on, waiting for the compiled loops pays


def stream_counts(source: Source, query: str, size: int, most: int | None = None) -> npt.NDArray[Any]:
    """How often each number below `size` comes up in the one column of `query`, whole and never null.

    With `most`, counting stops there, and the counts take no more room than that needs.
    """
    kind = np.dtype(np.int64) if most is None else np.min_scalar_type(most)
    counts = np.zeros(size, kind)
    for numbers in _streamed(source, query):
        tally(counts, numbers, most, large=numbers.size >= LARGE)
    return counts


def tally(
    counts: npt.NDArray[Any], numbers: npt.NDArray[Any], most: int | None = None, *, large: bool
) -> None:
    """Adds how often each number comes up to its count, none above `most`. The same by either of two ways."""
    limit = 2**62 if most is None else most
    if large:
        from oboro.engine._compiled import count_places

        count_places(counts, numbers, limit)
        return
    found, times = np.unique(numbers, return_counts=True)
    counts[found] = np.minimum(counts[found].astype(np.int64) + times, limit)


def _streamed(source: Source, query: str) -> Iterator[npt.NDArray[Any]]:
    relation = source.connection.sql(query)
    # fetch_arrow_reader is its name in DuckDB 1
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in stream(_BATCH):
        yield whole_numbers(batch.column(0))


def whole_numbers(column: Any) -> npt.NDArray[Any]:
    """What an Arrow array of whole numbers holds, without a copy. Where it is null, the number means nothing."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
