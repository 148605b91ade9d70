"""Queries whose failures are told in oboro's words.

A file may open and still be damaged further down, or be another one by now. DuckDB's own text might quote what it found there,
so it is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oboro.engine.edition import Edition
from oboro.errors import DataError

READABLE = ".parquet .csv .tsv .csv.gz .arrow .feather"


class Careful:
    """A DuckDB connection, or what it hands out: a relation, a result, a reader of batches."""

    def __init__(self, inner: Any, edition: Edition | None = None) -> None:
        self._inner = inner
        self._edition = edition

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            with in_words(self._edition):
                return self._wrapped(found(*args, **named))

        return call

    def __iter__(self) -> Iterator[Any]:
        with in_words(self._edition):
            yield from self._inner

    def _wrapped(self, result: Any) -> Any:
        kind = type(result)
        lazy = kind.__module__.startswith(("duckdb", "_duckdb")) or kind.__name__ == "RecordBatchReader"
        return Careful(result, self._edition) if lazy else result


@contextmanager
def in_words(edition: Edition | None = None) -> Iterator[None]:
    """Around whatever reads data: of this edition, if it lies in a file."""
    import duckdb
    import pyarrow as pa

    if edition is not None:
        edition.check()
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, UnicodeDecodeError):
        if edition is not None:
            edition.check()
        raise DataError(
            "the data cannot be read to its end",
            given="a file that is damaged, or more than this machine can hold",
            needed="whole data",
        ) from None
    if edition is not None:
        edition.check()


def damaged(path: Path) -> DataError:
    """The error for a file that cannot even be opened."""
    return DataError(
        f"{path} cannot be read",
        given="a file that is damaged, or not what its name says",
        needed=READABLE,
    )
