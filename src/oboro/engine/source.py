"""Opens data: Parquet, CSV, Arrow, pandas, Polars, DuckDB.

What the schema says is public and may be refused with an error: a file that is not there, a column that is
missing. What a value says never is. So text files are read as text, every line of them, whatever it holds
(text_files.py); a value that cannot be cast becomes a null and follows the rule of its column. Nor does a value decide how another is read: a Python list
and a column of Python objects become text, value by value, whatever stands beside it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from oboro.engine.arrow_files import read_arrow
from oboro.engine.careful import Careful
from oboro.engine.text_files import TextFile, open_text
from oboro.errors import DataError, ParameterError
from oboro.files import reads
from oboro.kinds import list_of, nearest, path_of, shown

READABLE = ".parquet .csv .tsv .csv.gz .arrow .feather"
# Types of which some stored values cannot be read at all: refused by their name, before a value is seen.
FRAGILE = ("TIME", "TIME_NS", "TIME WITH TIME ZONE", "JSON")


@dataclass(frozen=True, slots=True)
class Source:
    """An open table: a DuckDB connection, a relation to select from, and its columns with their types."""

    connection: Any
    relation: str
    types: dict[str, str]
    counted: dict[str | None, int] = field(
        default_factory=dict, repr=False, compare=False
    )  # units, counted once
    table: Any = field(
        default=None, repr=False, compare=False
    )  # the same as an Arrow table, if it is in memory
    parquet: Path | None = field(default=None, repr=False, compare=False)  # the file, if it is such a one
    headed: bool = field(default=False, repr=False, compare=False)  # by the first line of a text file
    met: set[str] = field(default_factory=set, repr=False, compare=False)  # asked for, and there

    def need(self, *names: str) -> None:
        """Refuses if a column is not there."""
        self.met.update(name for name in names if isinstance(name, str) and name in self.types)
        for name in names:
            if not isinstance(name, str) or name not in self.types:
                # the first line of a text file may be a record, if somebody left the header out; where a declared
                # column has been found in it, it is a header, and its names are public
                hidden = self.headed and not self.met
                close = None if hidden else nearest(name, self.types)
                raise DataError(
                    f"the data has no column {name!r}" + (f": did you mean {close!r}?" if close else ""),
                    given=f"a first line of {len(self.types)} names"
                    if hidden
                    else f"columns: {', '.join(self.types) or 'none'}",
                    needed=shown(name),
                    fix=f"name the column {close!r}" if close else f"a file with a column {name!r}",
                )
            if self.types[name].upper() in FRAGILE:
                raise DataError(
                    f"column {name!r} has a type that cannot be read safely",
                    given=self.types[name],
                    needed="text, numbers, dates or times with a date",
                    fix=f"write column {name!r} as text",
                )


def open_data(data: Any) -> Source:
    """Opens `data` for reading. Nothing is copied that need not be.

    A relation of your own DuckDB connection is computed there, with whatever that connection has open, and taken over
    as a table: from then on nothing but that table is looked at.
    """
    import duckdb

    if isinstance(data, Source):
        return data
    given: Any = None
    relation = "given"
    if isinstance(data, str | Path):
        path = path_of("data", data)
        _must_exist(path)
        name = path.name.lower()
        if name.endswith(".parquet"):
            # text that is not UTF-8 is read as it stands; folders such as year=2026 are no columns
            relation = (
                f"read_parquet({_this_file(path)}, utf8_validation = 'ignore', hive_partitioning = false)"
            )
        elif name.endswith((".arrow", ".feather")):
            given = _steady(read_arrow(path, READABLE))
        elif name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
            given = open_text(path, "\t" if ".tsv" in name[-7:] else ",")
        else:
            raise DataError(
                f"the file type of {path.name} is unknown",
                given=path.suffix or "no extension",
                needed=READABLE,
            )
    else:
        given = _to_arrow(data)
    connection = _connection(*([] if given is not None else [Path(data)]))
    try:
        if given is not None:
            connection.register("given", given)
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error:
        if hasattr(given, "schema"):  # its text would show values
            raise DataError(
                "the data has a column of a type that cannot be read",
                given=", ".join(f"{column.name}: {column.type}" for column in given.schema),
                needed="numbers, texts, dates, times and what is made of them",
                fix="data without that column",
            ) from None
        raise DataError(
            f"{data} cannot be read",
            given="a file that is damaged, or not what its name says",
            needed=READABLE,
        ) from None
    types = {row[0]: row[1] for row in described}
    text = isinstance(given, TextFile)
    file = Path(data) if given is None else None
    return Source(
        Careful(connection), relation, types, table=None if text else given, parquet=file, headed=text
    )


def _connection(*files: Path) -> Any:
    """A DuckDB of our own to which `files`, and nothing else outside memory, are open.

    By itself DuckDB would fetch and load extensions, read any file that a query names, find secrets in the home folder and
    take variables of the program for tables. All that is off here, and cannot be switched on again.
    """
    import duckdb

    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
        }
    )
    # the pattern is what a query names, the path is what DuckDB finds by it
    named = [name for path in files for name in (literal(os.path.realpath(path)), _this_file(path))]
    for setting, value in (
        ("enable_progress_bar", "false"),
        ("preserve_insertion_order", "false"),  # the order of rows does not matter here
        ("temp_directory", literal(_spill_folder(connection))),
        ("allowed_paths", f"[{', '.join(named)}]"),
        ("enable_external_access", "false"),
        ("allowed_configs", "['preserve_insertion_order']"),
        ("lock_configuration", "true"),
    ):
        connection.execute(f"SET {setting} = {value}")
    return connection


def _spill_folder(connection: Any) -> str:
    """Where what does not fit into memory goes: for our eyes only, and gone with the connection.

    DuckDB alone would leave it to the folder that the program happens to run in, readable as the umask says.
    """
    try:
        folder = tempfile.mkdtemp(prefix="oboro-")
    except OSError:
        return ""  # nowhere to write: nothing is spilled
    weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return folder


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def _must_exist(path: Path) -> None:
    """Whether the file is there: the very one that is read, with no `~` or pattern in its name that only one of us knows."""
    if not os.path.isfile(path):  # False also for a name that no system would take
        raise DataError(f"no such file: {path}", given=str(path), needed=READABLE, fix="the path of the data")
    reads(path)


def _this_file(path: Path) -> str:
    """A path as an SQL string that means this file alone.

    DuckDB takes *, ? and [ for patterns, and a name such as s3:/x for an address; a path from the root is never one.
    """
    return literal(re.sub(r"([*?\[])", r"[\1]", os.path.realpath(path)))


def _to_arrow(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table | pa.RecordBatch):
        return _steady(data if isinstance(data, pa.Table) else pa.Table.from_batches([data]))
    if isinstance(data, dict):
        return _to_arrow(_series_to_table(data))
    module = type(data).__module__.partition(".")[0]
    if module == "polars":
        return _steady((data.collect() if hasattr(data, "collect") else data).to_arrow())
    if module == "pandas":
        return _steady(_from_pandas(data))
    if module in ("duckdb", "_duckdb") and hasattr(data, "arrow"):
        table = data.arrow()
        return _steady(table.read_all() if hasattr(table, "read_all") else table)
    if hasattr(data, "to_table"):  # a pyarrow dataset
        return _steady(data.to_table())
    raise DataError(
        "the data cannot be read",
        given=type(data).__name__,
        needed=f"a path ({READABLE}), or an Arrow, pandas, Polars or DuckDB table",
        fix='"people.parquet"',
    )


def _from_pandas(frame: Any) -> Any:
    import pyarrow as pa

    columns = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        kind = getattr(column.dtype, "categories", column).dtype
        try:
            if str(kind) == "object" or getattr(kind, "storage", None) == "python":
                texts = column.astype(object).map(_text, na_action="ignore")
                columns.append(pa.array(texts, pa.string(), from_pandas=True))
            else:
                columns.append(pa.array(column, from_pandas=True))
        except (pa.ArrowException, TypeError):
            raise DataError(
                f"column {name!r} has a type that cannot be read",
                given=str(column.dtype),
                needed="numbers, texts, categories, dates or truth values",
                fix=f"frame.drop(columns={name!r})",
            ) from None
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _series_to_table(data: dict[str, Any]) -> Any:
    """A dictionary of columns: what has a type keeps it, a Python list is read as text."""
    import pyarrow as pa

    columns = {}
    for name, values in data.items():
        typed = hasattr(values, "dtype") and values.dtype != object and getattr(values, "ndim", 1) == 1
        if typed or isinstance(values, pa.Array | pa.ChunkedArray):
            columns[str(name)] = pa.array(values) if typed else values
        else:
            columns[str(name)] = pa.array(
                [_text(value) for value in _list_of(str(name), values)], pa.string()
            )
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError("the columns have different lengths", needed="one value for each row in every column")
    return pa.table(columns)


def _list_of(name: str, values: Any) -> list[Any]:
    """The values of a column; an error shows their kind alone."""
    try:
        return list_of(name, values)
    except ParameterError:
        raise DataError(
            f"column {name!r} is not a list", given=type(values).__name__, needed="a list of values"
        ) from None


def _text(value: Any) -> str | None:
    """One value as text, by itself: how it is read must not depend on the values beside it."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)  # equal numbers, equal texts
    try:
        text = str(value)
    except ValueError:  # a whole number of thousands of digits
        text = str(Decimal(value))
    return text.encode("utf-8", "backslashreplace").decode()


def _steady(table: Any) -> Any:
    """Times in seconds or milliseconds become microseconds here: DuckDB would raise on one that is out of range."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        kind = column.type
        if pa.types.is_duration(kind) and kind.unit in ("s", "ms"):
            finer = pa.duration("us")
        elif pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms"):
            finer = pa.timestamp("us", kind.tz)
        else:
            continue
        table = table.set_column(place, column.name, table.column(place).cast(finer, safe=False))
    return table
