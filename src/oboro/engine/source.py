"""Opens data: Parquet, CSV, Arrow, pandas, Polars, DuckDB.

What the schema says is public and may be refused with an error: a file that is not there, a column that is
missing. What a value says never is. So text files are read as text, whatever they hold; a line of a CSV file
that does not have enough fields, is not UTF-8 or is longer than 2 MB is left out; a value that cannot be cast
becomes a null and follows the rule of its column.
"""

from __future__ import annotations

import csv
import difflib
import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oboro.errors import DataError

READABLE = ".parquet .csv .tsv .csv.gz .arrow .feather"


@dataclass(frozen=True, slots=True)
class Source:
    """An open table: a DuckDB connection, a relation to select from, and its columns with their types."""

    connection: Any
    relation: str
    types: dict[str, str]
    counted: dict[str | None, int] = field(default_factory=dict, repr=False, compare=False)  # units, counted once

    def need(self, *names: str) -> None:
        """Refuses if a column is not there."""
        for name in names:
            if name not in self.types:
                close = difflib.get_close_matches(name, self.types, n=1)
                raise DataError(
                    f"the data has no column {name!r}",
                    given=f"columns: {', '.join(self.types) or 'none'}",
                    needed=name,
                    fix=f"name the column {close[0]!r} in the domain"
                    if close
                    else f"a file with a column {name!r}",
                )


def open_data(data: Any) -> Source:
    """Opens `data` for reading. Nothing is copied that need not be."""
    import duckdb

    if isinstance(data, Source):
        return data
    connection = duckdb.connect()
    # no progress bar, no file names or settings from the environment; order of rows does not matter here
    connection.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false")
    if isinstance(data, str | Path):
        relation = _from_path(Path(data))
    else:
        connection.register("given", _to_arrow(data))
        relation = "given"
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error:
        raise DataError(
            f"{data} cannot be read",
            given="a file that is damaged, or not what its name says",
            needed=READABLE,
        ) from None
    return Source(connection, relation, {row[0]: row[1] for row in described})


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def _from_path(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"no such file: {path}", given=str(path), needed=READABLE, fix="the path of the data")
    name = path.name.lower()
    if name.endswith(".parquet"):
        return f"read_parquet({literal(str(path))})"
    if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
        return _from_csv(path, "\t" if ".tsv" in name[-7:] else ",")
    raise DataError(
        f"the file type of {path.name} is unknown", given=path.suffix or "no extension", needed=READABLE
    )


def _from_csv(path: Path, delimiter: str) -> str:
    """All columns as text; the header line is public, the rest never raises."""
    opener: Any = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:  # as bytes: decoding more than this line would look at values
            line = file.readline(1 << 20).decode("utf-8-sig")
        header = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(
            f"the header of {path} cannot be read", needed="a first line of column names in UTF-8"
        ) from None
    if not header or len(set(header)) != len(header) or not all(header):
        raise DataError(
            f"{path} has no usable header",
            given=", ".join(header) or "an empty line",
            needed="different column names",
        )
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
    options = "auto_detect = false, header = true, quote = '\"', escape = '\"', ignore_errors = true, strict_mode = false"
    return f"read_csv({literal(str(path))}, delim = {literal(delimiter)}, columns = {{{columns}}}, {options})"


def _to_arrow(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table | pa.RecordBatch):
        return data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    if isinstance(data, dict):
        return _to_arrow(_series_to_table(data))
    module = type(data).__module__.partition(".")[0]
    if module == "polars":
        return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    if module == "pandas":
        # columns of mixed objects would be guessed from their values, and could fail on one of them: text cannot
        texts = {
            name: data[name].map(str, na_action="ignore")
            for name in data.columns
            if data[name].dtype == object
        }
        return pa.Table.from_pandas(data.assign(**texts), preserve_index=False)
    if module in ("duckdb", "_duckdb") and hasattr(data, "arrow"):
        table = data.arrow()
        return table.read_all() if hasattr(table, "read_all") else table
    if hasattr(data, "to_table"):  # a pyarrow dataset
        return data.to_table()
    raise DataError(
        "the data cannot be read",
        given=type(data).__name__,
        needed=f"a path ({READABLE}), or an Arrow, pandas, Polars or DuckDB table",
        fix='"people.parquet"',
    )


def _series_to_table(data: dict[str, Any]) -> Any:
    """A dictionary of lists, for small examples; a list of mixed values is read as text."""
    import pyarrow as pa

    columns = {}
    for name, values in data.items():
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns)
