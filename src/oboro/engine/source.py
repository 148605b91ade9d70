"""Opens data: Parquet, CSV, Arrow, pandas, Polars, DuckDB.

What the schema says is public and may be refused with an error: a file that is not there, a column that is
missing. What a value says never is. So text files are read as text, every line of them, whatever it holds
(text_files.py); a value that cannot be cast becomes a null and follows the rule of its column; a time that no
calendar holds counts as the first or the last (memory.py).
A file that is not what it was when it was opened is not read any more (careful.py).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oboro.engine.careful import READABLE, Careful, Edition, damaged
from oboro.engine.cluster import ADDRESS, from_address
from oboro.engine.codes import literal, quoted
from oboro.engine.duck import DuckTable
from oboro.engine.memory import (
    check_names,
    coarse_times,
    in_microseconds,
    on_clocks,
    to_arrow,
    within_reach,
    without_maps,
    zones_in,
)
from oboro.engine.protocol import Source
from oboro.engine.text_files import open_text
from oboro.errors import DataError, told
from oboro.files import reads
from oboro.kinds import path_of

if TYPE_CHECKING:
    from oboro.arrays import Array, Connection, Data, Kind, Table

# Arrow files, and whether their arrays hang together.
#
# An Arrow file is used as it lies on the disk, and so is a table that somebody else read from one. Where a damaged one says that a text begins beyond the end of its bytes,
# whoever follows that reads foreign memory, and the program dies. So offsets and indices are checked before anything is read.
# They say how the file is built. Values are not looked at: a text that is not UTF-8, or a date that is none, follows
# the rule of its column like any other value.


def read_arrow(path: Path) -> Table:
    """The table in an Arrow or Feather file; refused if the file is damaged."""
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = feather.read_table(path, memory_map=True)
        _check_all(table)
        return table
    except (pa.ArrowException, OSError):
        raise damaged(path) from None


def _sound(table: Table) -> Table:
    """A table that came as Arrow; refused if it is damaged."""
    import pyarrow as pa

    try:
        _check_all(table)
    except pa.ArrowException:
        raise DataError(
            "the Arrow table is damaged",
            given="offsets or indices that lead beyond its bytes",
            needed="a table that hangs together: table.validate(full=True) says what is wrong",
            fix="read the data anew from where they came from",
        ) from None
    return table


def _check_all(table: Table) -> None:
    table.validate()
    for column in table.columns:
        for chunk in column.chunks:
            _check(chunk)


def _check(array: Array) -> None:
    """Raises where an offset or an index leads outside."""
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        codes = array.indices.drop_null()
        found = codes.to_numpy(zero_copy_only=False)
        if found.size and not 0 <= found.min() <= found.max() < len(array.dictionary):
            raise pa.ArrowInvalid("an index beyond its dictionary")
        _check(array.dictionary)
    elif (plain := _plain(array.type)) is not None:
        array.view(plain).validate(full=True)


def _plain(kind: Kind) -> Kind | None:
    """The same layout with bytes in place of texts and whole numbers in place of dates; None for what has no offsets."""
    import pyarrow as pa

    as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    if hasattr(pa, "string_view"):  # since pyarrow 16
        as_bytes[pa.string_view()] = pa.binary_view()
    if kind in as_bytes or kind in as_bytes.values():
        return as_bytes.get(kind, kind)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _inner(part.type), part.nullable) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(_inner(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_inner(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_inner(kind.value_type), kind.list_size)
    if pa.types.is_nested(kind):  # maps, unions and runs: as they are
        return kind
    return None


def _inner(kind: Kind) -> Kind:
    import pyarrow as pa

    if pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_time32(kind):
        return pa.int32()
    return _plain(kind) or kind


def open_data(data: Data | Source, argument: str = "data") -> Source:
    """Opens `data`, which `argument` named, for reading. Nothing is copied that need not be.

    A relation of your own DuckDB connection is computed there, with whatever that connection has open, and taken over
    as a table: from then on nothing but that table is looked at.

    >>> ob.engine.open_data({"age": [31, 54]}).types
    {'age': 'VARCHAR'}
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str) and data.startswith(ADDRESS):
        return from_address(data)
    if isinstance(data, str | Path):
        return _from_file(path_of(argument, data), argument)
    table = to_arrow(data)
    if type(data).__module__.startswith("pyarrow."):  # all else was made into Arrow just now
        _sound(table)
    return _opened(table, table=table)


def _from_file(path: Path, argument: str) -> DuckTable:
    if not os.path.isfile(path):  # False also for a name that no system would take
        if os.path.exists(path):  # a pipe, whose rows cannot be read twice; a folder
            raise DataError(
                f"not a regular file: {path}",
                given=str(path) if argument == "data" else told(**{argument: str(path)}),
                needed=READABLE,
                fix="write it to a file, and give its path",
                argument=argument,
            )
        raise DataError(
            f"no such file: {path}",
            given=str(path) if argument == "data" else told(**{argument: str(path)}),
            needed=READABLE,
            fix="the path of the data" if argument == "data" else "the path of a table",
            argument=argument,
        )
    reads(path)
    named, path = path, path.absolute()  # once, here: where the program stands later is nothing to the data
    edition, name = Edition.of(path), path.name.lower()
    if name.endswith((".arrow", ".feather")):
        table = in_microseconds(read_arrow(path))
        return _opened(table, edition, table=table)
    if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
        read = open_text(path, "\t" if ".tsv" in name[-7:] else ",")
        return _opened(read, edition, header=read.header)
    if name.endswith(".parquet"):
        dataset, times, zones, half = coarse_times(path)
        return _opened(dataset, edition, times=times, zones=zones, unread=half, parquet=path)
    raise DataError(
        f"the file type of {path.name} is unknown",
        given=path.suffix or "no extension",
        needed=READABLE,
        fix=_fix_of_kind(named),
    )


def _fix_of_kind(path: Path) -> str | None:
    """What to do with a file of another kind, by its ending."""
    ending, here = path.suffix.lower(), shlex.quote(str(path))
    if ending == ".txt":
        return f"cp {here} {shlex.quote(str(path.with_suffix('.csv')))}"
    if ending in (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"):
        return f"save it as CSV UTF-8 ({path.stem}.csv) in the program that opens it, and give that file"
    if ending == ".toml":
        return "the data in this place: they look swapped with the TOML file"
    if ending == ".oboro":  # a model, where records are read
        return f"oboro synth sample {here} -n 10000 -o synthetic.parquet"
    return None


def _opened(
    given: object,
    edition: Edition | None = None,
    *,
    times: Mapping[str, str] | None = None,
    zones: Mapping[str, str] | None = None,
    unread: Mapping[str, str] | None = None,
    **parts: Any,
) -> DuckTable:
    """What DuckDB selects from: `given`, or where that is None the file itself. `times` is SQL for some columns."""
    import duckdb

    schema = getattr(given, "schema", ())
    if schema:
        check_names(schema.names)
    if zones is None:
        zones = zones_in(schema)
    given, left_out = without_maps(given)
    itself = edition if given is None else None
    connection, relation = _connection(*([itself.path] if itself else [])), "given"
    try:
        if given is not None:
            connection.register("given", given)
        elif itself is not None:
            # a byte that is not UTF-8 is read as ?, but in whoever rows belong to (duck.py); folders such as year=2026 are no columns
            connection.execute(
                f"CREATE VIEW given AS FROM read_parquet({_this_file(itself.path)}, utf8_validation = 'replace', hive_partitioning = false)"
            )
        types = _types(connection, relation)
        if itself is not None:
            parts["unsure"] = {name for name, kind in types.items() if kind == "VARCHAR"}
        strange = {name: zone for name, zone in zones.items() if not _is_zone(connection, zone)}
        safe = {name: within_reach(quoted(name), kind, zones.get(name)) for name, kind in types.items()}
        safe |= times or {}
        replaced = ", ".join(
            f"{sql} AS {quoted(name)}"
            for name, sql in safe.items()
            if sql is not None and name not in strange
        )
        if replaced:
            relation = f"(SELECT * REPLACE ({replaced}) FROM {relation})"
            types = _types(connection, relation)
        types |= (
            left_out
            | dict(unread or {})
            | {name: f"TIME in the unknown zone {zone}" for name, zone in strange.items()}
        )
    except duckdb.Error:  # its text would show values
        if schema:
            raise DataError(
                "the data has a column of a type that cannot be read",
                given=", ".join(f"{column.name}: {column.type}" for column in schema),
                needed="numbers, texts, dates, times and what is made of them",
                fix="data without that column",
            ) from None
        assert edition is not None
        raise damaged(edition.path) from None
    return DuckTable(Careful(connection, edition), relation, types, edition=edition, **parts)


def _types(connection: Connection, relation: str) -> dict[str, str]:
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()}


def _is_zone(connection: Connection, zone: str) -> bool:
    """Whether DuckDB knows the clocks of a zone."""
    import duckdb

    try:
        connection.execute(f"SELECT {on_clocks('make_timestamptz(0)', zone)}")
    except duckdb.Error:
        return False
    return True


def _connection(*files: Path) -> Connection:
    """A DuckDB of our own to which `files`, and nothing else outside memory, are open.

    By itself DuckDB would fetch and load extensions, read any file that a query names, find secrets in the home folder and
    take variables of the program for tables. All that is off here, and cannot be switched on again. So is what it would
    conclude from the least and largest values that a Parquet file states: they leave NaN out, and the answer for all rows
    of a group would hang on one value among them.
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
        ("TimeZone", "'UTC'"),  # not that of this machine
        ("disabled_optimizers", literal("statistics_propagation,compressed_materialization")),
        ("preserve_insertion_order", "false"),  # the order of rows does not matter here
        ("temp_directory", literal(_spill_folder(connection))),
        ("allowed_paths", f"[{', '.join(named)}]"),
        ("enable_external_access", "false"),
        ("allowed_configs", "['preserve_insertion_order']"),
        ("lock_configuration", "true"),
    ):
        connection.execute(f"SET {setting} = {value}")
    return connection


def _spill_folder(connection: Connection) -> str:
    """Where what does not fit into memory goes: for our eyes only, and gone with the connection.

    DuckDB alone would leave it to the folder that the program happens to run in, readable as the umask says.
    """
    try:
        folder = tempfile.mkdtemp(prefix="oboro-")
    except OSError:
        return ""  # nowhere to write: nothing is spilled
    weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return folder


def _this_file(path: Path) -> str:
    """A path as an SQL string that means this file alone.

    DuckDB takes *, ? and [ for patterns, and a name such as s3:/x for an address; a path from the root is never one.
    """
    return literal(re.sub(r"([*?\[])", r"[\1]", os.path.realpath(path)))
