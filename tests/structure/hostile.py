"""Values that nobody should write into data, of every type, and every way in which data comes.

Of each type the first value is tame. A way in makes data from a table of Arrow columns, or says that it has no place for such values.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import itertools
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

LONG = 1_500_000
BIG = 2**63 - 1
NAN, INF = float("nan"), float("inf")
EDGES = [0, 1, -1, BIG, -BIG, -BIG - 1, BIG - 1, 2**40, 10**15, 2**60, -(10**18), 253402300800, -62135596801]
TEXTS = [
    "0", "", " ", "NULL", "nan", "infinity", "-infinity", "1e400", "-1e400", "1e-400", "-0.0", "epoch", "today", "now",
    "0000-00-00", "9999-12-31", "10000-01-01", "99999-01-01", "5881580-07-10", "5881580-07-11", "2000-02-30",
    "290309-12-22 (BC) 00:00:00", "1970-01-01 25:00:00", "infinity BC", "2026-01-01 00:30:00+99:99", "0x10", "1_000",
    "  7 ", "１２", "1e18446744073709551616", "\0", "a\0b", "9" * 5000, "1." + "0" * 5000 + "1", "'; DROP TABLE x; --",
    "true", "{}", "[1, 2]", '{"a": 1}', "\\x00", "%s", "\r\n", '"', ",", "\u202e", "\U0001f4a3", "½", "٣", "x" * LONG,
]  # fmt: skip
BYTES = [b"0", b"", b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"\xf0\x9f", b"\\x", b"1e400", b"z" * LONG]
FLOATS = [0.0, -0.0, NAN, -NAN, INF, -INF, 5e-324, -5e-324, 1e308, -1.7e308, 2.0**53, 2.0**63, -(2.0**63), 2.0**64,
          9.3e18, 1.8e38, 0.49999999999999994, 1e-320, 4503599627370497.5]  # fmt: skip


def _whole(bits: int, sign: bool) -> list[int]:
    top = 2 ** (bits - sign) - 1
    return [0, 1, top, top - 1, *([-1, -top, -top - 1] if sign else [top // 2])]


def _typed() -> dict[str, tuple[pa.DataType, list[Any]]]:
    found: dict[str, tuple[pa.DataType, list[Any]]] = {}
    for bits in (8, 16, 32, 64):
        found[f"int{bits}"] = (getattr(pa, f"int{bits}")(), _whole(bits, True))
        found[f"uint{bits}"] = (getattr(pa, f"uint{bits}")(), _whole(bits, False))
    found["double"] = (pa.float64(), FLOATS)
    found["float"] = (pa.float32(), [0.0, -0.0, NAN, INF, -INF, 1e-45, 3.4e38, -3.4e38, 2.0**24 + 2, 2.0**63])
    found["half"] = (pa.float16(), [np.float16(x) for x in (0, -0.0, NAN, INF, -INF, 6e-8, 65504)])
    found["boolean"] = (pa.bool_(), [False, True])
    found["null"] = (pa.null(), [None, None])
    for digits, scale in ((38, 0), (38, 37), (38, 38), (18, 3), (4, 4), (38, -10)):
        with decimal.localcontext(prec=60):
            unit = Decimal(1).scaleb(-scale)
            values = [Decimal(0), unit, -unit, (10**digits - 1) * unit, -(10**digits - 1) * unit]
        found[f"decimal({digits},{scale})"] = (pa.decimal128(digits, scale), values)
    found["decimal256"] = (pa.decimal256(76, 0), [Decimal(0), Decimal(10**75)])
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Asia/Tokyo", "+09:00"):
            found[f"timestamp {unit} {zone}"] = (pa.timestamp(unit, zone), EDGES)
        found[f"duration {unit}"] = (pa.duration(unit), EDGES)
    found["date32"] = (
        pa.date32(),
        [0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1, 2932896, -719529],
    )
    found["date64"] = (
        pa.date64(),
        [day * 86_400_000 for day in (0, 1, -1, 2**31, -(2**31), 10**11, 2932896)] + [1],
    )
    found["time32"] = (pa.time32("s"), [0, 1, -1, 86399, 86400, 2**31 - 1])
    found["time64"] = (pa.time64("us"), [0, 1, -1, 86_400_000_000, BIG])
    found["interval"] = (
        pa.month_day_nano_interval(),
        [(0, 0, 0), (2**31 - 1, 2**31 - 1, BIG), (-(2**31), -(2**31), -BIG)],
    )
    found["text"] = (pa.string(), TEXTS)
    found["large text"] = (pa.large_string(), TEXTS[:30])
    found["text that is not UTF-8"] = (pa.string(), BYTES)
    found["bytes"] = (pa.binary(), BYTES)
    found["bytes of a size"] = (pa.binary(2), [b"00", b"\xff\xfe", b"\0\0"])
    found["dictionary"] = (pa.dictionary(pa.int8(), pa.string()), ["0", "", "infinity", "\0", "1e400"])
    found["dictionary of numbers"] = (pa.dictionary(pa.int32(), pa.float64()), [x for x in FLOATS if x == x])
    found["list"] = (pa.list_(pa.int64()), [[1], [], [None], [BIG] * 50])
    found["list of texts"] = (pa.list_(pa.string()), [["a"], [], ["\0"], ["'", '"'], [None, ""]])
    found["list of lists"] = (pa.list_(pa.list_(pa.float64())), [[[0.0]], [[]], [[NAN, INF]], [None]])
    found["record"] = (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": None}, {"a": BIG}])
    mapped = pa.map_(pa.string(), pa.int64())
    maps: list[Any] = [[("a", 1)], [], [("", None)], [("a", 1), ("a", 2)]]  # the last has one key twice
    found["map"] = (mapped, maps)
    found["list of maps"] = (pa.list_(mapped), [[one] for one in maps])
    found["record of a map"] = (pa.struct([("m", mapped)]), [{"m": one} for one in maps])
    return found


TYPED = _typed()


def array(name: str, values: list[Any] | None = None) -> Any:
    """Values of a type, with a null at the end, as an Arrow array; raw numbers and bytes, unchecked, where Arrow would check."""
    kind, known = TYPED[name]
    given = [*known, None] if values is None else values
    raw = {"date32": pa.int32(), "time32": pa.int32(), "date64": pa.int64(), "time64": pa.int64()}.get(
        name.split()[0]
    )
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        raw = pa.int64()
    if name == "text that is not UTF-8":
        raw = pa.binary()
    if pa.types.is_dictionary(kind):
        return pa.array(given, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(given, kind) if raw is None else pa.array(given, raw).view(kind)


_NUMBERS = itertools.count()  # each file has a name of its own


# -- ways in -----------------------------------------------------------------------------------------------------


def _parquet(table: Any, path: Path) -> Any:
    import pyarrow.parquet as pq

    file = path / f"{next(_NUMBERS)}.parquet"
    pq.write_table(table, file)
    return file


def _feather(table: Any, path: Path) -> Any:
    from pyarrow import feather

    file = path / f"{next(_NUMBERS)}.arrow"
    feather.write_feather(table, file, compression="uncompressed")
    return file


def _csv(table: Any, path: Path) -> Any:
    """Texts as they are; everything else as Arrow would write it."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_string(kind):
            column = pa.chunked_array([chunk.view(pa.binary()) for chunk in column.chunks])
        elif not (pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
            column = column.cast(pa.string())
        columns.append(column.to_pylist())
    head = ",".join(table.column_names).encode()
    lines = [b",".join(map(_field, row)) for row in zip(*columns, strict=True)]
    file = path / f"{next(_NUMBERS)}.csv"
    file.write_bytes(b"\n".join([head, *lines, b""]))
    return file


def _field(value: Any) -> bytes:
    text = b"" if value is None else value.encode() if isinstance(value, str) else value
    return b'"' + text.replace(b'"', b'""') + b'"'


def _pandas(table: Any, path: Path) -> Any:
    return table.to_pandas()


def _pandas_arrow(table: Any, path: Path) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _polars(table: Any, path: Path) -> Any:
    import polars as pl

    kind = table.schema[0].type
    if pa.types.is_null(kind) or pa.types.is_decimal256(kind) or pa.types.is_interval(kind):
        raise TypeError("Polars has none of these")  # it would print a trace on the way
    return pl.from_arrow(table)


def _duckdb(table: Any, path: Path) -> Any:
    """What DuckDB itself can hold."""
    import duckdb

    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE held AS SELECT * FROM given")
    table = connection.table("held").arrow()  # what DuckDB cannot hand out is not ours
    if hasattr(table, "read_all"):
        table.read_all()
    return connection.table("held")


def _numpy(table: Any, path: Path) -> Any:
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _lists(table: Any, path: Path) -> Any:
    return table.to_pydict()


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "Arrow": lambda table, path: table,
    "Parquet": _parquet,
    "Feather": _feather,
    "CSV": _csv,
    "pandas": _pandas,
    "pandas with Arrow": _pandas_arrow,
    "Polars": _polars,
    "DuckDB": _duckdb,
    "NumPy": _numpy,
    "lists": _lists,
}


# -- NumPy and pandas, by their own types --------------------------------------------------------------------------


def arrays() -> dict[str, Any]:
    """Arrays of types that Arrow does not have, or reads in its own way; the first value is tame."""
    import pandas as pd

    found: dict[str, Any] = {
        f"datetime64[{unit}]": np.array(
            [0, 1, -1, 2**31, -(2**31), 2**40, BIG, -BIG, -BIG - 1], np.int64
        ).view(f"datetime64[{unit}]")
        for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "as")
    }
    found |= {
        name.replace("date", "timedelta").replace("timetime", "time"): each.view(
            str(each.dtype).replace("datetime", "timedelta")
        )
        for name, each in found.items()
    }
    surrogate = ["0", "\ud800", "", "\0", "9" * 400]
    found["texts"] = np.array(surrogate)
    found["bytes"] = np.array([b"0", b"\xff\xfe", b"", b"\0a"])
    found["long doubles"] = np.array(["0", "1e4000", "-1e4000", "nan", "1e-4000"], np.longdouble)
    found["complex"] = np.array([0, 1j, NAN, INF])
    found["big endian"] = np.array([0, NAN, INF, 1e308], ">f8")
    found["half"] = np.array([0, NAN, INF, 65504], np.float16)
    found["booleans"] = np.array([False, True])
    found["masked"] = np.ma.MaskedArray([0.0, 1e308, NAN, 5.0], [False, True, False, True])
    found["records"] = np.array([(0, "a"), (BIG, "\ud800")], [("a", np.int64), ("b", "U5")])
    found["a series of texts"] = pd.Series(surrogate, dtype=pd.StringDtype("python"))
    found["a series of objects"] = pd.Series(
        [0, None, "x", NAN, 10**400, Raising(), RaisingFloat(1.5), pd.NA, pd.NaT, "\ud800"], dtype=object
    )
    found["categories"] = pd.Series(pd.Categorical(pd.Series(["0", None, "\ud800", "x"], dtype=object)))
    found["periods"] = pd.Series(pd.PeriodIndex(["2026-01", "9999-12", "0001-01"], freq="M"))
    found["intervals"] = pd.Series(pd.IntervalIndex.from_tuples([(0, 1), (1, INF)]))
    found["sparse"] = pd.Series(pd.arrays.SparseArray([0.0, NAN, INF]))
    found["nullable"] = pd.Series([0, None, BIG, -BIG - 1], dtype="Int64")
    found["a series of times"] = pd.Series(np.array([0, BIG, -BIG, -BIG - 1], np.int64).view("datetime64[s]"))
    return found


# -- Python objects ----------------------------------------------------------------------------------------------


class Raising:
    """Whatever is asked of it, it raises."""

    def _no(self, *args: Any) -> Any:
        raise RuntimeError("a secret")

    __str__ = __repr__ = __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = _no
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __add__ = __getitem__ = __array__ = __getattr__ = (
        _no
    )
    __hash__ = _no


class RaisingFloat(float):
    """A number whose own methods raise."""

    def _no(self, *args: Any) -> Any:
        raise RuntimeError("a secret")

    __str__ = __repr__ = __eq__ = __ne__ = __lt__ = __gt__ = __float__ = __int__ = is_integer = (
        as_integer_ratio
    ) = _no
    __hash__ = float.__hash__


class RaisingText(str):
    """A text whose own methods raise."""

    __slots__ = ()

    def _no(self, *args: Any) -> Any:
        raise RuntimeError("a secret")

    __str__ = __repr__ = __eq__ = encode = strip = _no
    __hash__ = str.__hash__


class Telling:
    """Not a number, with text that is none either: half characters."""

    def __str__(self) -> str:
        return "\ud800"


def objects() -> list[Any]:
    """Things in place of a value, each of them as wrong as can be."""
    import pandas as pd

    looped: list[Any] = []
    looped.append(looped)
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    return [
        None, True, False, 1, -1, 10**400, -(10**5000), 2**63, 2**64 - 1, *FLOATS, 1j, *TEXTS, *BYTES, "\ud800", bytearray(b"\xff"),
        memoryview(b"1"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), fractions.Fraction(1, 3),
        dt.date.min, dt.date.max, dt.datetime.max, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.timedelta.max, dt.time(25 % 24),
        np.int64(1), np.uint64(2**64 - 1), np.float16("nan"), np.float32("inf"), np.float64(1e308), np.longdouble("1e4000"), np.bool_(True),
        np.complex128(1 + 2j), np.datetime64("NaT"), np.datetime64(2**62, "s"), np.timedelta64(5, "D"), np.str_("x"), np.bytes_(b"\xff"),
        np.void(b"ab"), np.array(1.0), np.array([1.0]), np.array([1.0, 2.0]), np.array([[1.0]]), np.array([]), np.ma.masked,
        pd.NA, pd.NaT, pd.Timestamp.max, pd.Interval(0, 1), pd.Series([1]), uuid.UUID(int=0), Path("x"), object, object(), len, ...,
        NotImplemented, [], [1], (1, 2), (1, 2, 3), {}, {"a": 1}, set(), frozenset({1}), range(3), iter([1]), looped, deep, lambda: 1,
        Raising(), RaisingFloat(1.5), RaisingText("x"), Telling(),
    ]  # fmt: skip
