"""Queries whose failures are told in oboro's words.

A file may open and still be damaged further down, or be another one by now. DuckDB's own text might quote what it found there,
so it is not repeated.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oboro.errors import DataError

# The edition of a file: what was opened is what is answered from.
#
# What is known of a file when it is opened, its columns and under replace its number of rows, goes into plans. A file that has
# grown since would be answered from with the noise of the smaller one. So whenever it is read, its size, its time and which
# file it is are compared with those of its opening, before and after, and a question to another edition is refused. These are
# facts that anyone sees who sees the file.


@dataclass(frozen=True, slots=True)
class Edition:
    """A file as it was when it was opened."""

    path: Path
    facts: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Edition:
        return cls(path.absolute(), _facts(path))

    def check(self) -> None:
        """Refuses if the file is not the one that was opened."""
        try:
            found = _facts(self.path)
        except OSError:
            found = ()
        if found != self.facts:
            raise DataError(
                f"{self.path} has changed since it was opened",
                given="another size or time, or another file" if found else "no such file any more",
                needed="the file as it was: what was counted then would be wrong now",
                fix="open it again: Session(data, ...), or run the plan on the path",
            )


def _facts(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


READABLE = ".parquet .csv .tsv .csv.gz .arrow .feather"


class Careful:
    """A DuckDB connection, or what it hands out: a relation, a result, a reader of batches."""

    def __init__(self, inner: Any, edition: Edition | None = None) -> None:
        self._inner = inner
        self._edition = edition
        self._turn = threading.RLock(), os.getpid()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """One thread at a time: a connection has one result, the last, and whoever fetches gets that, whoever asked for it."""
        if self._turn[1] != os.getpid():  # after a fork nobody is here who could let go of it
            self._turn = threading.RLock(), os.getpid()
        with self._turn[0]:
            yield

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: object, **named: object) -> object:
            with in_words(self._edition):
                return self._wrapped(found(*args, **named))

        return call

    def __iter__(self) -> Iterator[object]:
        with in_words(self._edition):
            yield from self._inner

    def _wrapped(self, result: object) -> object:
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
