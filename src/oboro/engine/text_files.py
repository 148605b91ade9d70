"""Text files: CSV and its kin, every record of them.

The first record names the columns, and is public: a line, or several where a name in quotation marks holds line ends. Below it, whatever a line holds, it is a record: how many records there are must
not depend on what stands in them, for under replace their number is public, and a signal has one for each sample.

    a field that is not there, or is empty      is null
    a field too many                            is passed over
    a text that is not UTF-8                    is a text like any other, and meets no declared value
    a record of more than 16 MB                 is a record of nulls: memory does not depend on what is read
    an empty line                               is a record of nulls
DuckDB's own reader would leave such lines out. It is given a stream instead, as often as it asks for one.
"""

from __future__ import annotations

import csv
import gzip
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from oboro.engine import records
from oboro.errors import DataError
from oboro.files import in_utf8
from oboro.separators import Header

if TYPE_CHECKING:
    import pyarrow as pa

    from oboro.arrays import Array, Bools, Bytes, Places, Schema

LONGEST = 2**24  # bytes of a record
_HEADER = 2**20  # bytes of the first line
_CHUNK = 2**22  # bytes at a time
_FIELDS = 2**18  # at a time
_LARGE = 2**18  # bytes of a file from which on loading the compiled loops pays


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of records, as a table of texts that can be read again and again."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    start: int  # of the first record
    header: Header

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in self.names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema)).__arrow_c_stream__()

    def _batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        reader = _Reader(_loops(self.path), ord(self.delimiter), len(self.names))
        with _opened(self.path) as file:
            file.seek(self.start)
            held, last = b"", False
            while not last:
                chunk = file.read(_CHUNK)
                held, last = held + chunk, not chunk
                place = 0
                while place < len(held):
                    columns, place = reader.columns(held, place, last=last)
                    if not len(columns[0]):
                        break
                    yield pa.record_batch(columns, schema)
                held = held[place:]
                if len(held) > LONGEST and not last:
                    yield pa.record_batch([pa.nulls(1, pa.string())] * len(self.names), schema)
                    held = reader.rest(file, held)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Bytes to columns of texts."""

    loops: ModuleType
    delimiter: int
    width: int

    def columns(self, held: bytes, place: int, *, last: bool) -> tuple[list[Array], int]:
        """The columns of the next records of `held`, and where the first that is left begins."""
        data = held if self.loops is records else np.frombuffer(held, np.uint8)
        shape = (max(1, _FIELDS // self.width), self.width)
        begins, ends, marked = np.empty(shape, np.int32), np.empty(shape, np.int32), np.zeros(shape, np.bool_)
        count, after = self.loops.find_fields(
            data, place, len(held), last, self.delimiter, LONGEST, begins, ends, marked
        )
        texts = (
            self._texts(data, begins[:count, i], ends[:count, i], marked[:count, i])
            for i in range(self.width)
        )
        return list(texts), after

    def _texts(self, data: bytes | Bytes, begins: Places, ends: Places, marked: Bools) -> Array:
        """One column as an Arrow array. Its bytes are not looked at: texts that are not UTF-8 are values too."""
        import pyarrow as pa

        into = np.empty(int((ends - begins).sum(dtype=np.int64)), np.uint8)
        offsets = np.empty(begins.size + 1, np.int32)
        self.loops.copy_fields(data, begins, ends, marked, into, offsets)
        known = np.packbits(np.diff(offsets) > 0, bitorder="little")
        buffers = [pa.py_buffer(part) for part in (known, offsets, into)]
        return pa.Array.from_buffers(pa.string(), begins.size, buffers)

    def rest(self, file: gzip.GzipFile | BufferedReader, held: bytes) -> bytes:
        """Reads on to the end of a record that is too long; what was read beyond it."""
        place, state = -1, records.BEGIN
        while place < 0 and held:
            data = held if self.loops is records else np.frombuffer(held, np.uint8)
            place, state = self.loops.find_end(data, len(held), self.delimiter, state)
            held = file.read(_CHUNK) if place < 0 else held[place:]
        return held


def open_text(path: Path, delimiter: str) -> TextFile:
    """The file, by its header, which is public. Nothing below it is looked at."""
    try:
        with _opened(path) as file:
            line, is_whole = _first_record(file, ord(delimiter))
        text = (line if is_whole else line.partition(b"\n")[0]).decode("utf-8-sig").rstrip("\r\n")
        # of several lines each name is in its marks alone, or a mark was forgotten and they are no header
        header = next(csv.reader([text], delimiter=delimiter, strict="\n" in text), [])
    except UnicodeDecodeError:
        raise DataError(
            f"the header of {path} cannot be read",
            given="a first line that is not UTF-8",
            needed="a first line of column names in UTF-8",
            fix=in_utf8(path, line),
        ) from None
    except (OSError, EOFError, csv.Error):
        raise DataError(
            f"the header of {path} cannot be read", needed="a first line of column names in UTF-8"
        ) from None
    if not is_whole:
        raise DataError(
            f"{path} has no usable header",
            given="a quotation mark in the first line that is not closed",
            needed="a first line of column names",
            fix="a first line such as age,region",
        )
    named = any(header)
    # a column without a name, as that of row numbers which pandas writes first, is called by its place
    header = [name or f"column {place}" for place, name in enumerate(header, 1)]
    usable = named and len({name.casefold() for name in header}) == len(header)
    if not line:
        raise DataError(
            f"{path} is empty",
            given="a file of 0 bytes",
            needed="a first line of column names",
            fix="a first line such as age,region",
        )
    if not usable or "\0" in "".join(header) or len(line) == _HEADER:
        raise DataError(
            f"{path} has no usable header",
            given=f"a first line of {len(header)} fields",
            needed="column names that differ in more than capital letters",
            fix="a first line such as age,region",
        )
    return TextFile(path, delimiter, tuple(header), len(line), Header(path, delimiter, text))


def _first_record(file: gzip.GzipFile | BufferedReader, delimiter: int) -> tuple[bytes, bool]:
    """The bytes of the first record, as all others are found, up to so many; and whether its quotation marks are closed."""
    found, state, end = b"", records.BEGIN, -1
    while end < 0 and (line := file.readline(_HEADER - len(found))):
        data = line if found else line.removeprefix(BOM_UTF8)
        end, state = records.find_end(data, len(data), delimiter, state)
        found += line
    return found, state != records.INSIDE


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


def _loops(path: Path) -> ModuleType:
    """The same loops, compiled for a large file: which ones is decided by its size alone."""
    if path.stat().st_size < _LARGE:
        return records
    from oboro.engine import _compiled

    return _compiled
