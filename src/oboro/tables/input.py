"""What users bring, as sorted cells: keys and counts.

Two forms of data. Counted: one record for each cell, with a column that says how many. Rows: every record
counts 1, and the engine counts them, after bounding what a person contributes.

One rule for every record, and nothing of it ever raises an error:

    a count that is a fraction                goes to the nearest whole number, downwards if it is half way
    a count that is negative                  becomes 0
    a count beyond what its type tells apart  counts as that: 2^24 in floats of 32 bits, 2^53 in doubles
    a count that is missing, NaN or a text    becomes 0
    several records of one cell               add up; a cell holds at most `cap`, so that no sum overflows
    a cell that the domain does not know      is dropped, and so is one that the mask rules out
    an empty table                            is a table

The sensitivity is that of counts after this rule. None of its steps makes two counts differ by more than they
did, if what a unit adds to a count is a whole number m, also where a computer added it and rounded: a double x goes to k - 1 or less
if x <= k - 1/2; then x + m <= k + m - 1/2, a double, and rounding keeps the order, so what stands for x + m goes to k + m - 1 or
less. (Upwards at the half would move 0.49999999999999994 and 1.5 by 2.) Beyond 2^24, or 2^53, floats lie 2 apart and more. Texts and decimals are read digit by digit.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from oboro.arrays import Bools, Data, Integers
from oboro.domain import Areas, Category, Column, Domain, Grid, Mesh
from oboro.engine import Source, count_cells, open_data
from oboro.engine.cluster import SparkTable, read_keys
from oboro.engine.protocol import Field, Whole, need_fields
from oboro.errors import DataError, setting
from oboro.exact import whole
from oboro.kinds import path_of, takes, text_of
from oboro.privacy import Unit
from oboro.tables.cells import Cells, Layout, cap, loops_loading, sort_cells

TICK = "tick"  # the column of a series' data that says when
MOST_TICKS = 1024
_ROOM = 1 << 20  # records to begin with; from 4 MB on NumPy asks for large pages
_LARGE_FILE = 1 << 20  # bytes


def read_cells(data: Data, layout: Layout, unit: Unit, count: str | None, *, public: bool = False) -> Cells:
    """The cells of `data`, by the rule above. Only a missing column or an unreadable file is refused.

    `public`: they are those of a release.
    """
    source, most = open_data(data), cap(layout)
    keys, counts, size = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64), 0
    with loops_loading(large=count is not None and _is_large(source)):
        for found, values, good in _keyed(source, layout, unit, count):
            end = size + int(np.count_nonzero(good))
            if end > keys.size:
                keys, counts = _with_room(keys[:size], end), _with_room(counts[:size], end)
            keys[size:end] = found[good]
            counts[size:end] = values[good]
            size = end
        return sort_cells(keys[:size], counts[:size], layout.bits, most, public=public)


def blocks_of_records(
    data: Data, layout: Layout, unit: Unit, count: str | None
) -> Iterator[tuple[Integers, Integers]]:
    """The same as keys and counts, some records at a time, as they come: a cell may come more than once."""
    for found, values, good in _keyed(open_data(data), layout, unit, count):
        yield found[good], values[good]


def _keyed(
    source: Source, layout: Layout, unit: Unit, count: str | None
) -> Iterator[tuple[Integers, Integers, Bools]]:
    """Keys and counts of records, and which of them are cells."""
    fields = _read_of(source, layout, count)
    if count is None:
        yield _of_groups(layout, *count_cells(source, fields, _counted(unit)))
        return
    for values in source.stream_keys(fields, count, cap(layout)):
        found = keys_of(layout, values[:-1])
        yield found, values[-1], found >= 0


def write_records(source: SparkTable, layout: Layout, unit: Unit, count: str | None, address: str) -> None:
    """Has a cluster write what `blocks_of_records` would bring here; `records_in` reads one of its files."""
    source.write_keys(_read_of(source, layout, count), _counted(unit), count, cap(layout), address)


def records_in(path: str, layout: Layout, count: str | None) -> Iterator[tuple[Integers, Integers]]:
    for *values, counts in read_keys(path, count, cap(layout)):
        if count is None:
            found, numbers, good = _of_groups(layout, values[0], counts)
        else:
            found, numbers = keys_of(layout, values), counts
            good = found >= 0
        yield found[good], numbers[good]


def _read_of(source: Source, layout: Layout, count: str | None) -> list[Field]:
    """What is read; refuses columns that are not there, or that cannot be counted together."""
    fields = need_columns(source, layout.domain, count)
    if count is None and prod(field.size for field in fields) > 2**62:
        raise DataError(
            "the columns are too wide to be counted together",
            needed="at most 2^62 combinations",
            fix=setting(count="people"),
        )
    return fields


def _counted(unit: Unit) -> Unit:
    """Rows of cells that are counted already count 1 each."""
    return unit if unit.kind == "person" else Unit.row()


def _of_groups(layout: Layout, numbers: Integers, counts: Integers) -> tuple[Integers, Integers, Bools]:
    """Groups that the engine counted, with each person's rows bounded. Fields became one number, the first highest."""
    fields = [field for column in layout.domain for field in fields_of(column)]
    values: list[Any] = []
    for field in reversed(fields):
        numbers, digit = np.divmod(numbers, field.size)
        values.append(digit)
    keys = keys_of(layout, values[::-1])
    return keys, np.minimum(counts, cap(layout)), keys >= 0


def _with_room(held: Integers, needed: int) -> Integers:
    """The same numbers, with room for twice as many as are needed now."""
    wider = np.empty(2 * needed, np.int64)
    wider[: held.size] = held
    return wider


def _is_large(source: Source) -> bool:
    """Whether the compiled loops will be needed for certain, as far as one can see from outside."""
    edition = getattr(source, "edition", None)
    return edition is not None and edition.path.stat().st_size > _LARGE_FILE


def keys_of(layout: Layout, values: list[Any]) -> Integers:
    """Keys from the values of fields, -1 for what is no cell. A mesh is one field and several axes."""
    axes: list[Any] = []
    unknown = []
    rest = iter(values)
    for column in layout.domain:
        if isinstance(column, Mesh):
            axes += column.axes(next(rest))
            unknown.append(axes[-1] < 0)
        elif isinstance(column, Areas) and column.of is not None:
            axes.append(column.encode(*(next(rest) for _ in column.sources)))
            unknown.append(axes[-1] < 0)
        else:
            axes += [next(rest) for _ in column.sources]
    keys = layout.keys(axes)
    if layout.allowed is not None:
        unknown.append(~layout.possible(keys))
    for wrong in unknown:
        keys[wrong] = -1
    return keys


def need_columns(source: Source, domain: Domain, count: str | None, ticks: int | None = None) -> list[Field]:
    """What is read of a table, the tick first, where it has one; refused by names and types of columns alone."""
    fields = [field for column in domain for field in fields_of(column)]
    if ticks is not None:
        source.need(TICK)
        _refuse_times(source.types[TICK])
        fields.insert(0, Whole(TICK, ticks))
    need_fields(source, fields if count is None else [*fields, Whole(count, 1)])
    return fields


def _refuse_times(kind: str) -> None:
    """The type of a column is public, and of times none is a tick: every row would be dropped without a word."""
    if kind.upper().startswith(("DATE", "TIME")):
        between = "days" if kind.upper() == "DATE" else "hours"
        raise DataError(
            f"column {TICK!r} is of times, and a tick is a whole number",
            given=f"{TICK}: {kind}",
            needed="which step of the series a row belongs to: 0 for the first, 1 for the next",
            fix=f'pyarrow.compute.{between}_between(start, data["{TICK}"])',
        )


def fields_of(column: Column) -> list[Field]:
    """What is read for a column: a mesh and the sides of a grid as whole numbers, all else by its codes."""
    if isinstance(column, Grid):
        return [Whole(name, side) for name, side in zip(column.names, column.shape, strict=True)]
    if isinstance(column, Areas):
        return [Category(column.name, column.names)] if column.of is None else fields_of(column.of)
    return [Whole(column.name, 10**column.digits)] if isinstance(column, Mesh) else [column]


# Regional mesh statistics as e-Stat, the portal of Japan's official statistics, hands them out.

_TEXT = ("KEY_CODE", "HTKSYORI", "HTKSAKI", "GASSAN")


@takes(path=path_of)
def read_estat(path: str | Path) -> Any:
    r"""An e-Stat mesh file (text in cp932, or its zip) as an Arrow table.

    The first line names the columns (KEY_CODE is the mesh code); a second that names no mesh says what they are, and that
    label is kept as metadata of each field. Counts that the office suppressed are `*` in the file and null in the table.
    A cell with HTKSYORI = 2 is suppressed, and its people are counted in the cell that HTKSAKI names, which has
    HTKSYORI = 1; so totals are complete, and nulls count as 0. A record is never left out: what it lacks is null.

    >>> from pathlib import Path
    >>> _ = Path("mesh.txt").write_text("KEY_CODE,T001\n53394611,12\n53394612,*\n", encoding="cp932")
    >>> ob.tables.read_estat("mesh.txt").to_pydict()
    {'KEY_CODE': [53394611, 53394612], 'T001': [12, None]}
    """
    import pyarrow as pa

    lines = _text(Path(path)).splitlines()
    names = _fields(lines[0]) if lines else []
    if "KEY_CODE" not in names or len(set(names)) != len(names):
        raise DataError(
            f"{path} is not a mesh file of e-Stat",
            given=", ".join(names[:4]) if names else "an empty file",
            needed="a first line with KEY_CODE, ...",
        )
    rows = [_fields(line) for line in lines[1:] if line.strip("\x1a \u3000")]
    key = names.index("KEY_CODE")
    labels = rows.pop(0) if rows and _number(rows[0], key) is None else []
    arrays, fields = [], []
    for index, name in enumerate(names):
        if name in _TEXT and name != "KEY_CODE":
            array = pa.array([_field(row, index) for row in rows], pa.string())
        else:
            array = pa.array([_number(row, index) for row in rows], pa.int64())
        label = _field(labels, index)
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={"label": label} if label else None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error:  # a field of more than 100,000 characters
        return []


def _field(row: list[str], index: int) -> str | None:
    return row[index].strip(" \u3000") or None if index < len(row) else None


def _number(row: list[str], index: int) -> int | None:
    """A whole number that 64 bits hold; null for anything else."""
    text = _field(row, index) or ""
    digits = text.lstrip("0")  # Python refuses more than 4,300 digits, zeros or not
    return int(digits or "0") if text.isascii() and text.isdigit() and len(digits) <= 18 else None


def _text(path: Path) -> str:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                inside = [name for name in archive.namelist() if name.lower().endswith((".txt", ".csv"))]
                if len(inside) != 1:
                    raise DataError(f"{path} does not hold one text file", given=", ".join(inside) or "none")
                content = archive.read(inside[0])
        else:
            content = path.read_bytes()
        return content.decode(
            "cp932", "replace"
        )  # the header is ASCII; a value that is not cp932 is no number
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", given=str(path), fix="the path of an e-Stat file") from None
    except (OSError, zipfile.BadZipFile):
        raise DataError(
            f"{path} cannot be read", needed="a text file in cp932, as e-Stat hands out, or its zip"
        ) from None


# What is wrong with the data: for the steward's eyes. A release never says any of this.


class Problem(TypedDict):
    problem: str
    records: int


@takes(domain=Domain, count=text_of)
def check(
    data: Data,
    domain: Domain,
    count: str | None = None,
    layout: Layout | None = None,
    *,
    ticks: int | None = None,
) -> list[Problem]:
    """FOR THE STEWARD'S EYES: how many records each rule applies to. These figures are not private.

    With `ticks`, of a series: how many records have no tick from 0 on. In a text file a date or a time is none, and its record is left out.

    >>> [row for row in ob.tables.check({"row": [0, 99], "col": [3, 4]}, mesh) if row["records"]]
    [{'problem': 'records', 'records': 2}, {'problem': 'row: not in the domain', 'records': 1}]
    >>> ob.tables.check({"tick": ["08:00"], "row": [0], "col": [3]}, mesh, ticks=24)[2]
    {'problem': 'tick: no whole number below 24', 'records': 1}
    """
    layout = layout or Layout(domain)
    if ticks is not None:
        ticks = whole("ticks", ticks, least=2, most=MOST_TICKS)
    source = open_data(data)
    fields = need_columns(source, domain, count, ticks)
    with source.in_turn():
        found = source.check_keys([(field.name, field) for field in fields], count, cap(layout))
    if ticks is not None:
        wrong = f"{TICK}: not in the domain"
        found = {
            f"{TICK}: no whole number below {ticks}" if name == wrong else name: number
            for name, number in found.items()
        }
    rows: list[Problem] = [{"problem": name, "records": number} for name, number in found.items()]
    with source.in_turn():
        return rows + _repeated(source, fields, layout, count, timed=ticks is not None)


def _repeated(
    source: Source, fields: list[Field], layout: Layout, count: str | None, *, timed: bool
) -> list[Problem]:
    """Problems of cells: unknown to the domain or the mask though every column is inside, and listed more than once (at a tick)."""
    keys, unknown = np.empty(0, np.int64), 0
    for values in source.stream_keys(fields, None, 1):
        found = keys_of(layout, values[1:] if timed else values)
        good = found >= 0
        unknown += int(np.count_nonzero(~good))
        at = values[0][good].astype(np.int64) << layout.bits if timed else 0
        keys = np.concatenate([keys, found[good] | at])
    rows: list[Problem] = [
        {"problem": "cells that are no place, or ruled out by the mask", "records": unknown}
    ]
    if count is not None:
        rows.append(
            {
                "problem": "records of a cell that has an earlier one",
                "records": int(keys.size - np.unique(keys).size),
            }
        )
    return rows
