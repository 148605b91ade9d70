"""Queries whose failures are told in oboro's words.

A file may open and still be damaged further down. DuckDB's own text might quote what it found there, so it is
not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oboro.errors import DataError


class Careful:
    """A DuckDB connection, or what it hands out: a relation, a result, a reader of batches."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            with in_words():
                return _wrapped(found(*args, **named))

        return call

    def __iter__(self) -> Iterator[Any]:
        with in_words():
            yield from self._inner


def _wrapped(result: Any) -> Any:
    kind = type(result)
    lazy = kind.__module__.startswith(("duckdb", "_duckdb")) or kind.__name__ == "RecordBatchReader"
    return Careful(result) if lazy else result


@contextmanager
def in_words() -> Iterator[None]:
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError):
        raise DataError(
            "the data cannot be read to its end",
            given="a file that is damaged, or more than this machine can hold",
            needed="whole data",
        ) from None
