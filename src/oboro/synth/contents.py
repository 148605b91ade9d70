"""What a Parquet or Arrow file says of its records before any is read: their mark, their columns, and how many there are.

A small file may hold a table of any size: packed values, one page for millions of rows, a long text that rows only point to.
So the mark, names, types and the number of rows come from the footer, with what the records take unpacked; whoever made sure of
these reads the records in batches.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Schema, Table
from oboro.domain import Category, Column, Domain
from oboro.errors import DataError
from oboro.synth.codes import to_table

ROWS = 2**16  # of a batch
_BESIDES = 16  # bytes: what stands beside a value at most, such as where a text begins
_DRAWING = 64  # bytes that a value takes while records are drawn and compared, beside its text
_SLACK = 2**20


@dataclass(frozen=True, slots=True)
class Contents:
    """What the footer of a file says. It may lie: so batches are counted as they are read."""

    schema: Schema
    metadata: Mapping[bytes, bytes]
    rows: int
    unpacked: int  # bytes
    packed: int  # of the file
    _file: Any = field(repr=False)
    _ending: str

    def fits(self, domain: Domain, rows: int) -> bool:
        """Whether these may be so many records of a domain, of which no value is larger than one can be."""
        if (self.rows, self.schema.names) != (rows, [*domain.names]):
            return False
        most = rows * sum(_width(column) + _BESIDES for column in domain) + 4 * self.packed + _SLACK
        return self.unpacked <= most

    def batches(self, domain: Domain) -> Iterator[Any]:
        """Records of this domain, some at a time."""
        return self.read(records_of(domain), [_width(column) for column in domain])

    def read(self, found: Schema, widths: Sequence[int]) -> Iterator[Any]:
        """Rows of such columns, some at a time; of texts `widths` are the longest. Whatever is damaged or not as the footer says raises, as pyarrow does or `ValueError`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        left = self.rows
        if (self.schema.names, self.schema.types) != (found.names, found.types):
            raise ValueError("other columns")
        for batch in self._batches(found):
            batch.validate(full=True)  # before anything follows where a text begins
            left -= batch.num_rows
            if left < 0:
                raise ValueError("more rows than the footer says")
            columns = []
            for width, one in zip(widths, batch.columns, strict=True):
                if pa.types.is_dictionary(
                    one.type
                ):  # of texts: each is there once, however many rows point to it
                    longest = pc.max(pc.binary_length(one.dictionary).take(one.indices)).as_py() or 0
                    if longest > width:
                        raise ValueError("a longer text than any can be")
                    one = one.cast(pa.string())
                columns.append(one)
            yield pa.RecordBatch.from_arrays(columns, schema=found)
        if left:
            raise ValueError("fewer rows than the footer says")

    def _batches(self, found: Schema) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._ending == ".parquet":
            texts = [one.name for one in found if pa.types.is_string(one.type)]
            file = pq.ParquetFile(self._file, read_dictionary=texts)
            yield from file.iter_batches(ROWS, use_threads=False)
            return
        reader = pa.ipc.open_file(self._file)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)


def contents_of(file: Any, ending: str) -> Contents:
    """Of an open Parquet or Arrow file; whatever is no such file raises, as pyarrow does or what the bytes make of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = file.size()
    if ending == ".parquet":
        footer = pq.ParquetFile(file)
        parts = footer.metadata
        unpacked = sum(parts.row_group(number).total_byte_size for number in range(parts.num_row_groups))
        schema = footer.schema_arrow
        metadata = {**(parts.metadata or {}), **(schema.metadata or {})}
        return Contents(schema, metadata, parts.num_rows, unpacked, packed, file, ending)
    schema = pa.ipc.open_file(file).schema
    rows, unpacked = _arrow_sizes(file)
    return Contents(schema, schema.metadata or {}, rows, unpacked, packed, file, ending)


def records_of(domain: Domain) -> Schema:
    """The names and types of records that are drawn from a domain."""
    return to_table(domain, [np.zeros(0, np.int64) for _ in domain]).schema


def table_of(contents: Contents, domain: Domain) -> Table:
    """All records of a file at once."""
    import pyarrow as pa

    return pa.Table.from_batches(contents.batches(domain), schema=records_of(domain))


def check_room(records: int, domain: Domain, where: Path | str) -> None:
    """Refuses to draw more records again than half of the machine's memory holds: how many there are is anybody's word."""
    each = sum(_DRAWING + 2 * _width(column) for column in domain)
    memory = _memory()
    if records * each > memory // 2:
        raise DataError(
            f"{where} says that it holds more records than this machine has room for",
            given=f"{records:,} records of {len(domain):,} columns",
            needed=f"at most {memory // 2 // each:,}, which take half of {memory / 2**30:.1f} GiB of memory",
            fix="a machine with more memory, or the records in several files",
        )


def no_room(where: Path | str) -> DataError:
    """What is said where memory ended all the same."""
    return DataError(
        f"{where} needs more memory than there is",
        given=str(where),
        needed="room for its records, drawn again",
        fix="a machine with more memory, or the records in several files",
    )


def check_model_room(taken: int, where: Path | str) -> None:
    """Refuses a model that takes more than half of the machine's memory: whoever wrote a file may have signed it."""
    memory = _memory()
    if taken > memory // 2:
        raise DataError(
            f"{where} says that it holds a larger model than this machine has room for",
            given=f"about {taken / 2**30:,.1f} GiB",
            needed=f"at most half of {memory / 2**30:.1f} GiB of memory",
            fix="a machine with more memory, or a model of fewer seconds",
        )


def _memory() -> int:
    """What the machine has in bytes, or what a container may have of it."""
    found = [2**63]
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    known = min(one for one in found if one > 0)
    return known if known < 2**60 else 2**33  # a machine that does not say is taken for a small one


def _width(column: Column) -> int:
    """Bytes of the longest value."""
    if isinstance(column, Category):
        return max(len(str(value).encode("utf-8", "surrogatepass")) for value in column.values)
    return 8


# An Arrow file says how long its batches are before they are unpacked, and pyarrow does not say it: so its own tables are read.


def _arrow_sizes(file: Any) -> tuple[int, int]:
    """Rows, and bytes of the buffers as they are unpacked."""
    size = file.size()
    length = int.from_bytes(_read(file, size - 10, 4), "little", signed=True)
    footer = _read(file, size - 10 - length, length)
    rows = unpacked = 0
    blocks = _field(footer, _root(footer, 0), 3)
    for at in _items(footer, blocks, 24):
        offset, head = struct.unpack_from("<qi", footer, at)
        message = _read(file, offset, head)
        if struct.unpack_from("<i", message)[0] != -1:
            raise ValueError("a message as Arrow wrote it before 0.15")
        batch = _root(message, _needed(_field(message, _root(message, 8), 2)))
        counted = _field(message, batch, 0)
        rows += 0 if counted is None else struct.unpack_from("<q", message, counted)[0]
        compressed = _field(message, batch, 3) is not None
        for place in _items(message, _field(message, batch, 2), 16):
            begin, taken = struct.unpack_from("<qq", message, place)
            if compressed and taken:
                told = int.from_bytes(_read(file, offset + head + begin, 8), "little", signed=True)
                taken = taken if told == -1 else told
            if taken < 0:
                raise ValueError("less than nothing")
            unpacked += taken
    return rows, unpacked


def _read(file: Any, at: int, length: int) -> bytes:
    if at < 0 or length < 0 or at + length > file.size():
        raise ValueError("beyond the file")
    file.seek(at)
    return bytes(file.read(length))


def _root(table: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", table, at)[0])


def _field(table: bytes, at: int, number: int) -> int | None:
    """Where a field of a FlatBuffers table stands; None where it has its default."""
    names = at - struct.unpack_from("<i", table, at)[0]
    if names < 0:
        raise ValueError("before the file")
    if 4 + 2 * number >= struct.unpack_from("<H", table, names)[0]:
        return None
    offset = struct.unpack_from("<H", table, names + 4 + 2 * number)[0]
    return at + offset if offset else None


def _needed(at: int | None) -> int:
    if at is None:
        raise ValueError("nothing there")
    return at


def _items(table: bytes, at: int | None, size: int) -> range:
    """Where the items of a vector stand."""
    if at is None:
        return range(0)
    vector = _root(table, at)
    count = struct.unpack_from("<I", table, vector)[0]
    return range(vector + 4, vector + 4 + count * size, size)
