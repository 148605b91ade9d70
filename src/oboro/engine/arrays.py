"""A column of numbers is added up and counted as it is stored, in memory or in a Parquet file, without a query.

Which way is taken depends on public facts alone: the declared column, the type in the schema, the question. What
comes out is what DuckDB would give, by the same rule of domain/columns.py. Values are clamped in their own type,
some at a time, and codes are added up in 64 bits, which so few of them cannot overflow, then without limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from oboro.arrays import Array, Bools, Codes, Integers, Kind, Schema, Table
from oboro.domain import Column, Integer, Real
from oboro.engine.careful import Edition, in_words
from oboro.engine.protocol import FACTOR, MIXED, WORD

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from oboro.engine.duck import DuckTable

# How often each whole number comes up, added up as numbers stream past: memory for the counts, not for the rows.

_BATCH = 2**20  # rows
LARGE = 2**18  # from so many rows on, waiting for the compiled loops pays


def stream_counts(source: DuckTable, query: str, size: int, most: int | None = None) -> Codes:
    """How often each number below `size` comes up in the one column of `query`, whole and never null.

    With `most`, counting stops there, and the counts take no more room than that needs.
    """
    kind = np.dtype(np.int64) if most is None else np.min_scalar_type(most)
    counts = np.zeros(size, kind)
    for numbers in _streamed(source, query):
        tally(counts, numbers, most, large=numbers.size >= LARGE)
    return counts


def tally(counts: Codes, numbers: Codes, most: int | None = None, *, large: bool) -> None:
    """Adds how often each number comes up to its count, none above `most`. The same by either of two ways."""
    limit = 2**62 if most is None else most
    if large:
        from oboro.engine._compiled import count_places

        count_places(counts, numbers, limit)
        return
    found, times = np.unique(numbers, return_counts=True)
    counts[found] = np.minimum(counts[found].astype(np.int64) + times, limit)


def _streamed(source: DuckTable, query: str) -> Iterator[Codes]:
    relation = source.connection.sql(query)
    # fetch_arrow_reader is its name in DuckDB 1
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in stream(_BATCH):
        yield whole_numbers(batch.column(0))


def whole_numbers(column: Array) -> Codes:
    """What an Arrow array of numbers holds, without a copy. Where it is null, the number means nothing."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


_RANGE = 2**26  # of whole numbers: so many can be counted one by one


def frequent(source: DuckTable, name: str, most: int) -> tuple[Codes, Codes | None] | None:
    """The whole numbers that come up more than `most` times in a column, and where their rows stand if all are in memory.

    None where the column is not stored as whole numbers, or they lie too far apart to be counted one by one. Nulls do
    not count.
    """
    table, path = source.table, source.parquet
    if table is not None and _is_whole(table.schema, name):
        parts: list[Codes] = [*map(_not_null, table.column(name).chunks)]
        return _counted_one_by_one(parts, _ends(parts), table.num_rows, most, table)
    if table is not None or path is None or "." in name:
        return None
    with in_words(source.edition):
        file = _opened(path)
        groups = list(range(file.metadata.num_row_groups))
        if not groups or not _is_whole(file.schema_arrow, name):
            return None
        read = map(_not_null, _read(path, file.metadata, name, groups))
        return _counted_one_by_one(read, _stated(file.metadata, name), file.metadata.num_rows, most, None)


def _counted_one_by_one(
    parts: Iterable[Codes], ends: tuple[int, int] | None, rows: int, most: int, table: Table | None
) -> tuple[Codes, Codes | None] | None:
    """`frequent` of numbers between two ends. A part is looked at once, or twice if the table is in memory."""
    if ends is None or ends[1] - ends[0] >= _RANGE:
        return None
    if rows < LARGE:
        found, times = np.unique(np.concatenate([np.empty(0, np.int64), *parts]), return_counts=True)
        return found[times > most].astype(np.int64), None
    from oboro.engine._compiled import count_within, find_marked

    low, counts = ends[0], np.zeros(ends[1] - ends[0] + 1, np.min_scalar_type(most + 1))
    if not all(count_within(counts, part, low, most + 1) for part in parts):
        return None  # a file that states its ends wrongly
    full = np.flatnonzero(counts > most) + low
    if table is None or sum(part.size for part in parts) < rows:  # nulls
        return full, None
    places, first = [np.empty(0, np.int64)], 0
    crowded = np.packbits(counts > most, bitorder="little")  # an eighth of the room: it stays in the cache
    for part in parts:
        room = np.empty(part.size // 8 + 16, np.int64)
        size = find_marked(crowded, part, low, first, room)
        if size > room.size:  # so many that DuckDB may as well look at all of them
            return full, None
        places.append(room[:size])
        first += part.size
    return full, np.concatenate(places)


def takes_rows(schema: Schema) -> bool:
    """Whether Arrow takes rows of each of its columns, and DuckDB reads them: not so of views, runs, halves, maps and the like.

    A fact about types, so that whether anybody is above a limit is nothing that an error could tell.
    """
    import pyarrow as pa

    def plain(kind: Kind) -> bool:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        fixed = pa.types.is_primitive(kind) and not pa.types.is_float16(kind)
        return bool(
            fixed
            or pa.types.is_decimal128(kind)
            or kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        )

    return all(plain(field.type) for field in schema)


def taken(table: Table, places: Codes) -> Table:
    """The rows that stand at these places, which come in order: each part by itself, which is much quicker than all at once."""
    import pyarrow as pa

    parts, first = [table.slice(0, 0)], 0
    for batch in table.to_batches():
        start, stop = np.searchsorted(places, [first, first + len(batch)])
        if start < stop:
            parts.append(pa.Table.from_batches([batch.take(pa.array(places[start:stop] - first))]))
        first += len(batch)
    return pa.concat_tables(parts).combine_chunks()


def beyond(persons: Integers, codes: Sequence[Integers], most: int) -> Integers:
    """Which rows lie beyond the first `most` of each person, in the order of protocol.py; persons are whole numbers."""
    rows = _ordered([persons, *codes])  # equal ones side by side, so that they can be numbered
    persons, codes = persons[rows], [code[rows] for code in codes]
    copy = _numbered([persons, *codes])
    place = np.ones(rows.size, np.int64)
    for word in (persons, *codes, copy):
        place = (place + word % WORD) * FACTOR % WORD
    for shift, factor in MIXED:
        place = ((place ^ (place >> shift)) * factor) & WORD
    # those with one place stay in their order, by their codes and then their numbers
    order = _ordered([persons, place])
    found: Integers = rows[order[_numbered([persons[order]]) > most]]
    return found


def _ordered(columns: Sequence[Integers]) -> Integers:
    """The order of rows by their first column, then the next; those that are equal stay as they are. As one number each, if that fits."""
    ends = [(int(column.min(initial=0)), int(column.max(initial=0))) for column in columns]
    if prod(high - low + 1 for low, high in ends) >= 2**63:
        return np.lexsort(columns[::-1])
    key = columns[0] - ends[0][0]
    for column, (low, high) in zip(columns[1:], ends[1:], strict=True):
        key = key * (high - low + 1) + (column - low)
    return np.argsort(key, kind="stable")


def _numbered(columns: Sequence[Integers]) -> Integers:
    """1, 2, 3, ... in every run of equal rows."""
    at = np.arange(columns[0].size, dtype=np.int64)
    other = np.ones(at.size, np.bool_)
    other[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    numbers: Integers = at - np.maximum.accumulate(np.where(other, at, 0)) + 1
    return numbers


def _not_null(piece: Array) -> Codes:
    return whole_numbers(piece.drop_null() if piece.null_count else piece)


def _ends(parts: Sequence[Codes]) -> tuple[int, int] | None:
    blocks = [part[start : start + _BLOCK] for part in parts for start in range(0, part.size, _BLOCK)]
    ends = [(int(block.min()), int(block.max())) for block in blocks]  # both while it is in the cache
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def _stated(metadata: pq.FileMetaData, name: str) -> tuple[int, int] | None:
    """The least and the largest number of a column, as a Parquet file says itself."""
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    stated = [
        metadata.row_group(i).column(names.index(name)).statistics for i in range(metadata.num_row_groups)
    ]
    if not all(each is not None and each.has_min_max for each in stated):
        return None
    return min(int(each.min) for each in stated), max(int(each.max) for each in stated)


Pieces: TypeAlias = Callable[[], Iterator[Array]]
Found = TypeVar("Found")

_BLOCK = 2**16  # rows at a time: they stay in the processor's cache
_WIDE, _LINE = (
    2**17,
    2**10,
)  # rows at a time where they are added up as they are stored, and in a line of them
_READ = 2**20  # rows at a time from a file
_FEW = 2**12  # so many counts are quickly made and thrown away
_WIDEST = 2**45  # so many codes: a block of them adds up in 64 bits
_LARGEST = 2**61  # bounds below this: nothing overflows on the way to a code
_THREADS = 8  # at most
_COUNTS = 2**22  # counts in memory for all threads together: each has its own


@dataclass(frozen=True, slots=True)
class Held:
    """A column of numbers as it is stored: how many rows, in parts that can be worked on side by side."""

    column: Integer | Real
    rows: int
    parts: Sequence[Pieces]
    edition: Edition | None = None

    def add_up(self) -> tuple[int, int]:
        """How many rows count, and the sum of their codes."""

        def work(part: Pieces) -> tuple[int, int]:
            count = total = 0
            for piece in part():
                more, added = (
                    _as_stored(piece, self.column)
                    or _as_doubles(piece, self.column)
                    or _one_by_one(piece, self.column)
                )
                count, total = count + more, total + added
            return count, total

        with in_words(self.edition):
            found = _side_by_side(work, self.parts)
        return sum(count for count, _ in found), sum(total for _, total in found)

    def count(self) -> Integers:
        """How many rows have each code."""
        size, large = self.column.size, self.rows >= LARGE

        def work(part: Pieces) -> Integers:
            counts = np.zeros(size, np.int64)
            for codes in self._codes(part):
                if size <= _FEW:
                    counts += np.bincount(codes, minlength=size)
                else:
                    tally(counts, codes, large=large)
            return counts

        with in_words(self.edition):
            found = _side_by_side(work, _joined(self.parts, max(1, _COUNTS // size)))
        first, *others = found or [np.zeros(size, np.int64)]
        for more in others:
            first += more
        return first

    def _codes(self, part: Pieces) -> Iterator[Codes]:
        """Codes of the rows that count, a block at a time."""
        for piece in part():
            yield from _blocks(piece, self.column)


def _blocks(piece: Array, column: Integer | Real) -> Iterator[Codes]:
    return (_coded(piece.slice(start, _BLOCK), column) for start in range(0, len(piece), _BLOCK))


def _one_by_one(piece: Array, column: Integer | Real) -> tuple[int, int]:
    """How many rows of a piece count, and the sum of their codes."""
    count = total = 0
    for codes in _blocks(piece, column):
        count += codes.size
        total += int(codes.sum(dtype=np.int64))
    return count, total


def _as_stored(piece: Array, column: Integer | Real) -> tuple[int, int] | None:
    """The same of whole numbers on steps of 1, within bounds that their type holds: no code is worked out, but where nulls are.

    A code is a value without the lowest one: so many times that is taken off in the end. What the type has room for is added up in
    it, line by line, which the processor does for many numbers at once; public bounds say for how many lines that is.
    """
    if not isinstance(column, Integer) or column.step != 1:
        return None
    numbers = whole_numbers(piece)
    farthest = max(abs(column.low), abs(column.high))
    if numbers.dtype.kind == "f" or farthest * _WIDE >= 2**63:
        return None
    limits = np.iinfo(numbers.dtype)
    if column.low < limits.min or column.high > limits.max:
        return None
    room, count, total = np.empty(min(_WIDE, numbers.size), numbers.dtype), 0, 0
    narrow = numbers.dtype.itemsize < 8  # 64 bits add up as quickly by themselves
    lines = max(1, min(int(limits.max) // max(1, farthest), _WIDE // _LINE)) if narrow else 1
    for start in range(0, numbers.size, _WIDE):
        block = numbers[start : start + _WIDE]
        if piece.null_count and (stored := piece.slice(start, _WIDE)).null_count:
            more, added = _one_by_one(stored, column)
            count, total = count + more, total + added
            continue
        count, total = count + block.size, total - column.low * block.size
        block = np.clip(block, column.low, column.high, out=room[: block.size])
        whole = block.size - block.size % (lines * _LINE)
        if lines > 1 and whole:
            folded = block[:whole].reshape(-1, lines, _LINE).sum(axis=1, dtype=block.dtype)
            total += int(folded.sum(dtype=np.int64))
            block = block[whole:]
        total += int(block.sum(dtype=np.int64))
    return count, total


def _as_doubles(piece: Array, column: Integer | Real) -> tuple[int, int] | None:
    """The same of doubles on steps of 1: the codes of `_nearest`, added up as doubles, which are whole and below 2^53 in all.

    A block with a null in it, or with what is not a number, is worked out as all others are.
    """
    if not isinstance(column, Integer) or column.step != 1 or column.size * _WIDE >= 2**53:
        return None
    numbers = whole_numbers(piece)
    if numbers.dtype != np.float64:
        return None
    low, high, room = float(column.low), float(column.high), np.empty(min(_WIDE, numbers.size))
    count = total = 0
    for start in range(0, numbers.size, _WIDE):
        block = numbers[start : start + _WIDE]
        steps = room[: block.size]
        with np.errstate(all="ignore"):  # whatever stands there
            np.clip(block, low, high, out=steps)
            if low != 0:
                steps -= low
            steps += 0.5
            added = float(np.floor(steps, out=steps).sum())
        stored = piece.slice(start, _WIDE)
        if stored.null_count or added != added:
            more, whole = _one_by_one(stored, column)
        else:
            more, whole = block.size, int(added)
        count, total = count + more, total + whole
    return count, total


def held(source: DuckTable, column: Column) -> Held | None:
    """The column as it is stored, if it is declared a number and stored as numbers where we can reach them."""
    if not isinstance(column, Integer | Real) or column.size > _WIDEST:
        return None
    if source.table is not None:
        there = _fits(source.table.schema, column)
        return _in_memory(source.table, column, source.edition) if there else None
    if source.parquet is None or "." in column.name:  # a point means a nested column to the reader of files
        return None
    with in_words(source.edition):
        file = _opened(source.parquet)
        there = _fits(file.schema_arrow, column)
        return _in_file(source.parquet, file.metadata, column, source.edition) if there else None


def _fits(schema: Schema, column: Integer | Real) -> bool:
    """Whether the codes of what is stored can be worked out here: whole numbers as such, or as doubles, which are exact enough."""
    import pyarrow as pa

    if _is_whole(schema, column.name):
        return isinstance(column, Real) or max(abs(column.low), abs(column.high)) < _LARGEST
    once = schema.names.count(column.name) == 1
    double = once and schema.field(column.name).type in (pa.float32(), pa.float64())
    return double and (isinstance(column, Real) or column.exact_in_doubles)


def _is_whole(schema: Schema, name: str) -> bool:
    """Whether the column is there, once, and of a type that 64 bits with a sign can hold."""
    import pyarrow as pa

    if schema.names.count(name) != 1:
        return False
    kind = schema.field(name).type
    return bool(pa.types.is_integer(kind) and kind != pa.uint64())


def _in_memory(table: Table, column: Integer | Real, edition: Edition | None) -> Held:
    chunks = table.column(column.name).chunks
    blocks = [chunk.slice(start, _READ) for chunk in chunks for start in range(0, len(chunk), _READ)]
    threads = _threads()
    parts = [partial(iter, share) for i in range(threads) if (share := blocks[i::threads])]
    return Held(column, table.num_rows, parts, edition)


def _in_file(path: Path, metadata: pq.FileMetaData, column: Integer | Real, edition: Edition | None) -> Held:
    groups = range(metadata.num_row_groups)
    threads = _threads()
    shares = [list(groups[i::threads]) for i in range(threads)]
    parts = [partial(_read, path, metadata, column.name, share) for share in shares if share]
    return Held(column, metadata.num_rows, parts, edition)


def _opened(path: Path, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, metadata=metadata, pre_buffer=False)  # else all row groups are held at once


def _read(path: Path, metadata: pq.FileMetaData, name: str, groups: list[int]) -> Iterator[Array]:
    with _opened(path, metadata) as file:
        for batch in file.iter_batches(_READ, row_groups=groups, columns=[name], use_threads=False):
            yield batch.column(0)


def _joined(parts: Sequence[Pieces], most: int) -> list[Pieces]:
    """The same in `most` parts or fewer."""

    def one(parts: Sequence[Pieces]) -> Iterator[Array]:
        return (piece for part in parts for piece in part())

    return [partial(one, parts[i::most]) for i in range(min(most, len(parts)))]


def _side_by_side(work: Callable[[Pieces], Found], parts: Sequence[Pieces]) -> list[Found]:
    if len(parts) <= 1:
        return [work(part) for part in parts]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(work, parts))


@cache
def _threads() -> int:
    """How many work side by side. The system is asked once: it reads a file to answer."""
    return min(_THREADS, os.cpu_count() or 1)


def _coded(values: Array, column: Integer | Real) -> Codes:
    numbers = whole_numbers(values)
    if isinstance(column, Real) or numbers.dtype.kind == "f":
        return _nearest(numbers, column, _present(values) if values.null_count else None)
    limits = np.iinfo(numbers.dtype)
    if column.low < limits.min or column.high > limits.max:
        numbers = numbers.astype(np.int64)
    codes: Codes = np.clip(numbers, column.low, column.high)
    if column.low != 0 or column.step != 1:
        codes = (codes.astype(np.int64) - column.low + column.step // 2) // column.step
    if values.null_count == 0:
        return codes
    present, missing = _present(values), column.missing_code
    return codes[present] if missing is None else np.where(present, codes, codes.dtype.type(missing))


def _nearest(numbers: Codes, column: Integer | Real, present: Bools | None) -> Codes:
    """By the double nearest to a value, as `nearest_by_double` has it. What is not a number is missing."""
    low, high, step = float(column.low), float(column.high), float(column.step)
    with np.errstate(all="ignore"):  # whatever stands there
        doubles = numbers.astype(np.float64, copy=False)
        steps = np.clip(doubles, low, high)
        known = ~np.isnan(steps) if present is None else present & ~np.isnan(steps)
        if low != 0:
            steps -= low
        if step != 1:
            steps /= step
        steps += 0.5
        np.floor(steps, out=steps)
        if isinstance(column, Real):  # bounds and step are doubles near its own
            steps = np.where(doubles >= high, column.size - 1, np.minimum(steps, column.size - 1))
    if not known.all():
        missing = column.missing_code
        steps = steps[known] if missing is None else np.where(known, steps, missing)
    return steps.astype(np.int64)


def _present(values: Array) -> Bools:
    """Where a value is not null: one bit for each, the lowest first."""
    first, skipped = divmod(values.offset, 8)
    length = -(-(skipped + len(values)) // 8)
    packed = np.frombuffer(values.buffers()[0], np.uint8, length, first)
    return np.unpackbits(packed, bitorder="little")[skipped : skipped + len(values)].view(np.bool_)
