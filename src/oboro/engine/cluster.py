"""Apache Spark: what protocol.py asks for, as columns of DataFrames.

Only expressions that are total: a cast that fails gives a null (`try_cast`), a text is admitted by the grammar first, sums are
split so that none passes 64 bits, whole numbers are divided as whole numbers. So no value makes a job fail, whatever its settings
for ANSI are. What does fail, a cluster that is gone or a table that is not there, is told in oboro's words: Spark's own text
might quote what it found, and is repeated neither to the user nor to a log.

Nothing here is random: a task that is repeated, or run twice at once, gives what it gave. Noise is drawn by oboro, in the driver,
after the reservation.
"""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Date, Integer, Real
from oboro.engine.expressions import Codes, Expression, Frame, functions_for
from oboro.engine.memory import check_names
from oboro.engine.protocol import FACTOR, MIXED, WORD, Binned, Condition, Field, Limits, Source, Term
from oboro.errors import DataError, OboroError, told
from oboro.kinds import takes, text_of

if TYPE_CHECKING:
    from oboro.arrays import Integers
    from oboro.privacy import Unit

ADDRESS = "spark+connect://"
_REFUSED = re.compile(r"^(binary|array|map|struct|interval|variant|time\b|geo)|udt", re.IGNORECASE)
_LIMB = 24  # bits of a part of a sum: 2^38 rows of it stay below 2^62
_BLOCK = 2**16  # copies of an equal row that are numbered at a time
_MOST_KEPT = 100_000  # the largest k of min_by
_RETRIES = 6  # to reach a server that is gone: about a minute, where Spark's client by itself takes ten
_SETTINGS = {  # what a cluster may have set otherwise, and a value could then show by
    "spark.sql.ansi.enabled": "true",  # how a decimal is written hangs on it: 1E-10 or 0.0000000001
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # else one folder code=x makes texts of all other codes
    "spark.sql.session.timeZone": "UTC",  # not that of a machine
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # else a day before 1582 may fail the job
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Spark that answers: tables of its catalogue, and files that it can reach."""

    session: Any = field(repr=False)

    @takes(name=text_of)
    def table(self, name: str) -> SparkTable:
        """A table or view of the catalogue."""
        return self._opened(lambda: self.session.table(name), "table", name)

    @takes(path=text_of)
    def parquet(self, path: str) -> SparkTable:
        """Parquet files, by a path or an address that the cluster can read."""
        return self._opened(lambda: self.session.read.parquet(path), "path", path)

    def _opened(self, read: Callable[[], Frame], what: str, name: str) -> SparkTable:
        with in_words(f"the cluster has no such {what}: {name}", given=told(**{what: repr(name)})):
            frame = read()
            types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
            version = str(self.session.version)
        check_names(list(types))
        return SparkTable(frame, types, version)


def spark(session: Any) -> Cluster:
    """Apache Spark as an engine: by the address of a Connect server, `sc://host:15002`, or by a SparkSession that there is.

    The session that is used is a new one beside yours, with its time zone at UTC. Needs the extra `spark`, or for Connect alone `spark-client`.

    >>> ob.engine.spark("a cluster")
    Traceback (most recent call last):
        ...
    oboro.errors.DataError: a cluster is named by the address of its Connect server
      given   'a cluster'
      needed  sc://host:port
      fix     ob.engine.spark("sc://cluster:15002")
    """
    if isinstance(session, str):
        if not session.startswith("sc://"):
            raise DataError(
                "a cluster is named by the address of its Connect server",
                given=repr(session.partition("/;")[0]),
                needed="sc://host:port",
                fix='ob.engine.spark("sc://cluster:15002")',
            )
        builder = _builder()
        with in_words("the cluster does not answer", given=session.partition("/;")[0]):
            _knock(session)
            return Cluster(_set(builder.remote(session).create()))
    if type(session).__module__.partition(".")[0] != "pyspark" or not hasattr(session, "table"):
        raise DataError(
            "this is no Spark",
            given=type(session).__name__,
            needed="a SparkSession, or the address of a Connect server",
            fix='ob.engine.spark("sc://cluster:15002")',
        )
    with in_words("the cluster does not answer"):
        return Cluster(_set(session.newSession()))


def from_address(address: str) -> SparkTable:
    """The table that an address such as spark+connect://cluster:15002/warehouse.people names. What follows a ? goes to the server."""
    parts = urlsplit(address)
    table = parts.path.strip("/")
    if not parts.netloc or not table:
        raise DataError(
            "the address names no table of a cluster",
            given=repr(address.partition("?")[0]),
            needed="spark+connect://host:port/table",
            fix="spark+connect://cluster:15002/warehouse.people",
        )
    told_server = ";".join(f"{name}={value}" for name, value in parse_qsl(parts.query))
    return spark(f"sc://{parts.netloc}" + (f"/;{told_server}" if told_server else "")).table(table)


def _knock(address: str) -> None:
    """Raises if nobody answers there: Spark's client would try again for ten minutes. Through a proxy only gRPC can know."""
    bare = address.partition("/;")[0]
    if not any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        place = urlsplit(bare)
        socket.create_connection((place.hostname or "", place.port or 15002), timeout=20).close()

    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder, states = DefaultChannelBuilder(address), SimpleQueue[Any]()
    channel = builder.toChannel()
    channel.subscribe(states.put, try_to_connect=True)
    try:
        while (state := states.get(timeout=30).name) in ("IDLE", "CONNECTING"):
            pass
    finally:
        channel.close()
    if state == "READY":
        return
    if builder.secure:
        raise DataError(
            "the cluster does not answer by TLS",
            given=f"{bare} with use_ssl or a token, which goes by TLS alone",
            needed="a server with TLS, by itself or by a proxy before it, and a certificate that is trusted here",
            fix=f"without TLS: {bare}",
        )
    raise ConnectionError


def _builder() -> Any:
    try:
        with warnings.catch_warnings():  # it warns of a pandas that oboro does not use with it
            warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
            from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder
    except (ImportError, SystemExit):  # it leaves the program where a part of its own is missing
        raise DataError(
            "Spark's client is not installed",
            needed="the extra spark-client, or spark",
            fix="pip install 'oboro[spark-client]'",
        ) from None


def _set(session: Any) -> Any:
    if ".connect." in type(session).__module__:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


@contextmanager
def in_words(message: str = "the cluster could not answer", given: str | None = None) -> Iterator[None]:
    """Around whatever asks Spark. Its errors and what its client would log of them stay here."""
    try:
        with _in_silence():
            yield
    except OboroError:
        raise
    except Exception:
        raise DataError(
            message,
            given=given or "a job that failed, whatever the reason",
            needed="a cluster that answers, with room for the job, and data that can be read to its end",
            fix="look at the cluster's own pages: they show data, so they are for the steward alone",
        ) from None


_silence = threading.Lock()
_asking: list[None] = []  # one for each thread that asks now
_silenced: dict[logging.Logger, int] = {}  # and the level that it had


@contextmanager
def _in_silence() -> Iterator[None]:
    """What Spark's client would log is not logged as long as anybody asks: the last thread that is done lets it speak again."""
    with _silence:
        _made_known()
        _asking.append(None)
        for name in list(logging.root.manager.loggerDict):
            if _SPEAKS.search(name) and (logger := logging.getLogger(name)) not in _silenced:
                _silenced[logger] = logger.level
                logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        with _silence:
            _asking.pop()
            while _silenced and not _asking:
                logger, level = _silenced.popitem()
                logger.setLevel(level)


def _made_known() -> None:
    """Loggers that pyspark makes only when it quotes a failed expression, values included: made before, so that they can be silenced."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name)


_SPEAKS = re.compile(
    r"^(pyspark|py4j|grpc|SQLQueryContextLogger|DataFrameQueryContextLogger)|spark", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SparkTable(Source):
    """A DataFrame of a cluster, and what can be asked of it."""

    limits: ClassVar[Limits] = Limits(widest=127, most_kept=_MOST_KEPT)

    frame: Frame = field(repr=False)
    types: dict[str, str]
    version: str

    @property
    def engine(self) -> str:
        return f"Spark {self.version}"

    def unreadable(self, name: str) -> bool:
        return bool(_REFUSED.search(self.types[name]))

    @property
    def codes(self) -> Codes:
        return Codes(functions_for(self.frame), self.types)

    def without_rows(self, units: Mapping[str | None, int] | None = None) -> SparkTable:
        return replace(self, frame=self.frame.limit(0))

    def count_units(self, unit: Unit) -> int:
        """Counted whenever it is asked for: a table of a cluster may have changed, and a plan with another n is then refused."""
        f = functions_for(self.frame)
        with in_words():
            if unit.kind == "row":
                return int(self.frame.count())
            person = self.codes.person(self.person(unit))
            return int(self.frame.select(f.count_distinct(person)).collect()[0][0])

    def add_up(
        self,
        columns: Sequence[Column],
        terms: Sequence[Term],
        unit: Unit,
        by: Sequence[Column] = (),
        condition: Condition | None = None,
    ) -> dict[int, list[int]]:
        f, codes = functions_for(self.frame), self.codes
        with in_words():
            named = {f"c{i}": codes.code(column) for i, column in enumerate(columns)}
            if by or not named:
                named["g"] = codes.group(by)
            rows = self._rows(named, (*columns, *by), unit, condition)
            parts = [list(_parts(codes, columns, term)) for term in terms]
            sums = [
                f.sum(part).alias(f"s{i}_{j}")
                for i, some in enumerate(parts)
                for j, (part, _) in enumerate(some)
            ]
            grouped = rows.groupBy("g") if by else rows.groupBy()
            found = grouped.agg(f.count(f.lit(1)).alias("n"), *sums).collect()
        totals = {}
        for row in found:
            totals[int(row["g"]) if by else 0] = [
                sum((int(row[f"s{i}_{j}"] or 0) << shift for j, (_, shift) in enumerate(some)), 0)
                if terms[i]
                else int(row["n"])
                for i, some in enumerate(parts)
            ]
        return totals

    def count_cells(
        self, fields: Sequence[Field], unit: Unit, condition: Condition | None = None
    ) -> tuple[Integers, Integers]:
        with in_words():
            table = self._counted(fields, unit, condition).toArrow()
        return _array(table, "g"), _array(table, "n")

    def _counted(self, fields: Sequence[Field], unit: Unit, condition: Condition | None = None) -> Frame:
        f = functions_for(self.frame)
        rows = self._rows({"g": self.codes.group(fields)}, fields, unit, condition)
        return rows.groupBy("g").agg(f.count(f.lit(1)).alias("n"))

    def count_persons(
        self, by: Sequence[Binned], unit: Unit, most: int, condition: Condition | None = None
    ) -> dict[int, int]:
        f, codes = functions_for(self.frame), self.codes
        with in_words():
            group = codes.whole(0)
            for column, runs, size in by:
                group = group * codes.whole(size) + codes.binned(codes.code(column), runs)
            pairs = self._owned({"g": group}, [column for column, _, _ in by], unit, condition).distinct()
            placed = _placed(codes, pairs.withColumn("copy", codes.whole(1)), ["g"], self.person(unit))
            kept = placed.groupBy("person").agg(f.min_by("g", f.struct("place", "g"), most).alias("kept"))
            groups = kept.select(f.explode("kept").alias("g")) if by else pairs
            found = groups.groupBy("g").agg(f.count(f.lit(1)).alias("n")).collect()
        return {int(row["g"]): int(row["n"]) for row in found}

    def count_ticks(self, fields: Sequence[Field], unit: Unit, most: int) -> tuple[Integers, Integers]:
        f, codes = functions_for(self.frame), self.codes
        under = math.prod(one.size for one in fields[1:])
        with in_words():
            pairs = self._owned({"g": codes.group(fields)}, fields, unit, None).distinct()
            placed = _placed(codes, pairs.withColumn("copy", codes.whole(1)), ["g"], self.person(unit))
            tick = f.call_function("div", f.col("g"), codes.whole(under))
            one = placed.withColumn("t", tick).groupBy("person", "t")
            chosen = one.agg(f.min_by("g", f.struct("place", "g")).alias("g"))
            if most < fields[0].size:
                first = chosen.groupBy("person").agg(f.min_by("g", f.col("t"), most).alias("kept"))
                chosen = first.select(f.explode("kept").alias("g"))
            table = chosen.groupBy("g").agg(f.count(f.lit(1)).alias("n")).toArrow()
        return _array(table, "g"), _array(table, "n")

    def stream_codes(
        self,
        columns: Sequence[Column],
        unit: Unit,
        condition: Condition | None = None,
        by: Sequence[Column] = (),
        *,
        keep: bool = False,
    ) -> Iterator[Integers]:
        f, codes = functions_for(self.frame), self.codes
        with in_words():
            named = {f"c{i}": codes.code(column) for i, column in enumerate(columns)}
            if keep:
                named = {
                    name: f.coalesce(code, codes.whole(column.size))
                    for (name, code), column in zip(named.items(), columns, strict=True)
                }
            if by or not named:
                named["g"] = codes.group(by)
            largest = {f"c{i}": column.size for i, column in enumerate(columns)}
            largest["g"] = math.prod(one.size for one in by)
            rows = self._rows(named, by if keep else (*columns, *by), unit, condition)
            table = rows.select(
                *(f.col(name).cast(_width(largest[name])).alias(name) for name in named)
            ).toArrow()
        yield np.stack([_array(table, name) for name in named], axis=1)

    def stream_keys(
        self, fields: Sequence[Field], count: str | None, most: int
    ) -> Iterator[list[npt.NDArray[Any]]]:
        with in_words():
            table = self._keyed(fields, count, most).toArrow()
        yield _keys_and_counts(table, count, most)

    def write_keys(
        self, fields: Sequence[Field], unit: Unit, count: str | None, most: int, address: str
    ) -> None:
        """Has the cluster write what `stream_keys` brings here, or without `count` what `count_cells` does: as Parquet, for `read_keys`."""
        with in_words():
            frame = self._counted(fields, unit) if count is None else self._keyed(fields, count, most)
            frame.write.parquet(address, compression="snappy")

    def _keyed(self, fields: Sequence[Field], count: str | None, most: int) -> Frame:
        f, codes = functions_for(self.frame), self.codes
        names = [f"f{i}" for i in range(len(fields))]
        counted = codes.whole(1) if count is None else codes.count(count, most)
        places = [codes.place(one).alias(name) for name, one in zip(names, fields, strict=True)]
        rows = self.frame.select(*places, counted.alias("n"))
        for name in names:
            rows = rows.where(f.col(name).isNotNull())
        rows = rows.where(f.col("n") > 0)
        if count is not None:
            limbs = [
                f.sum(part).alias(f"s{i}") for i, (part, _) in enumerate(_limbs(codes, f.col("n"), 2**62))
            ]
            rows = rows.groupBy(*names).agg(*limbs)
        return rows

    def check(self, columns: Sequence[Column]) -> list[dict[str, object]]:
        codes = self.codes
        names = ("rows", "missing", "unknown", "below", "above")
        with in_words():
            tests = [test for column in columns for test in _tests(codes, column)]
            found = self._tally(tests)
        return [
            {"column": column.name} | dict(zip(names, found[5 * i : 5 * i + 5], strict=True))
            for i, column in enumerate(columns)
        ]

    def check_keys(self, fields: Sequence[tuple[str, Field]], count: str | None, most: int) -> dict[str, int]:
        f, codes = functions_for(self.frame), self.codes
        with in_words():
            problems: dict[str, Expression] = {"records": f.lit(True)}
            for name, one in fields:
                there = codes.field(name).isNotNull()
                problems[f"{name}: missing"] = ~there
                problems[f"{name}: not in the domain"] = there & codes.place(one).isNull()
            if count is not None:
                number, there = codes.number(count), codes.field(count).isNotNull()
                cut = f.when(f.abs(number) < float(2**53), number).try_cast("bigint").cast("double")
                problems |= {
                    f"{count}: missing": ~there,
                    f"{count}: not a number": there & (number.isNull() | f.isnan(number)),
                    f"{count}: negative": number < 0,
                    f"{count}: a fraction": cut != number,
                    f"{count}: above {most:,}, the most that a cell can hold here": ~f.isnan(number)
                    & (number > float(most)),
                }
            found = self._tally(tuple(problems.values()))
        return dict(zip(problems, found, strict=True))

    def _tally(self, tests: Sequence[Expression]) -> list[int]:
        f = functions_for(self.frame)
        counts = [f.count(f.when(test, f.lit(1))).alias(f"t{i}") for i, test in enumerate(tests)]
        return [int(number) for number in self.frame.agg(*counts).collect()[0]]

    def _rows(
        self,
        named: Mapping[str, Expression],
        needed: Sequence[Field],
        unit: Unit,
        condition: Condition | None,
    ) -> Frame:
        """The rows that count, with these codes. Those count that have a code in every column that is needed."""
        if unit.kind == "row":
            chosen = [code.alias(name) for name, code in named.items()]
            return self._met(condition, needed).select(*chosen)
        owned = self._owned(named, needed, unit, condition)
        return _kept(self.codes, owned, list(named), self.person(unit), unit.contributions)

    def _owned(
        self,
        named: Mapping[str, Expression],
        needed: Sequence[Field],
        unit: Unit,
        condition: Condition | None,
    ) -> Frame:
        """The rows that belong to somebody and have every code, with their person and that person's word."""
        codes, column = self.codes, self.person(unit)
        person = codes.person(column)
        chosen = [code.alias(name) for name, code in named.items()]
        rows = self._met(condition, needed).where(person.isNotNull())
        return rows.select(person.alias("person"), codes.word(column, person).alias("word"), *chosen)

    def _met(self, condition: Condition | None, needed: Sequence[Field]) -> Frame:
        codes, rows = self.codes, self.frame
        if condition is not None:
            rows = rows.where(codes.holds(condition))
        for present in map(codes.present, needed):
            if present is not None:
                rows = rows.where(present)
        return rows


def read_keys(path: str, count: str | None, most: int) -> Iterator[list[npt.NDArray[Any]]]:
    """What `write_keys` wrote into one file, some records at a time: fields or groups, and counts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1 << 20):
            yield _keys_and_counts(pa.Table.from_batches([batch]), count, most)


def _keys_and_counts(table: Any, count: str | None, most: int) -> list[npt.NDArray[Any]]:
    names = [name for name in table.column_names if name[0] in "fg"]
    counts = (
        _array(table, "n") if count is None else _joined([_array(table, f"s{i}") for i in range(3)], most)
    )
    return [*(_array(table, name) for name in names), counts]


def _tests(codes: Codes, column: Column) -> list[Expression]:
    """What the steward is told of a column: every row, those without a value, with one that is none, below and above the bounds."""
    f = codes.functions
    there, bare = codes.field(column.name).isNotNull(), codes.bare(column)
    below = above = f.lit(False)
    if isinstance(column, Integer | Real):
        number = codes.number(column.name)
        below = ~f.isnan(number) & (number < float(column.low))
        above = ~f.isnan(number) & (number > float(column.high))
    elif isinstance(
        column, Date
    ):  # as numbers: a date as a literal goes through another calendar before 1582
        since = codes.since(column)
        below, above = since < codes.whole(0), since > codes.whole(column.size - 1)
    return [f.lit(True), ~there, there & bare.isNull(), below, above]


def _kept(codes: Codes, rows: Frame, names: list[str], column: str, most: int) -> Frame:
    """At most so many rows of each person: the first in the order of protocol.py.

    Equal rows of a person are counted first, wherever they lie, and numbered. Then an aggregate keeps the smallest places: each task
    does so for the rows that it has, and hands on no more, so that a person with a fifth of all rows is no task's burden.
    """
    f = codes.functions
    copies = rows.groupBy("person", *names).agg(f.count(f.lit(1)).alias("copies"))
    # a sequence of all copies at once might be too long for an array: by blocks
    last = f.call_function("div", f.col("copies") - 1, codes.whole(_BLOCK))
    blocks = copies.withColumn("block", f.explode(f.sequence(codes.whole(0), last)))
    start = f.col("block") * codes.whole(_BLOCK)
    numbered = blocks.withColumn(
        "copy", f.explode(f.sequence(start + 1, f.least(start + codes.whole(_BLOCK), f.col("copies"))))
    )
    placed = _placed(codes, numbered, names, column)
    row = f.struct(*names)
    first = placed.groupBy("person").agg(f.min_by(row, f.struct("place", *names, "copy"), most).alias("kept"))
    return first.select(f.explode("kept").alias("kept")).select(
        *[f.col(f"kept.{name}").alias(name) for name in names]
    )


def _placed(codes: Codes, rows: Frame, names: Sequence[str], column: str) -> Frame:
    """The same rows with their place in the order of protocol.py. A person's word follows from the person: it is no key to group by."""
    f = codes.functions
    place = codes.whole(1)
    own = codes.word(column, f.col("person"))
    for word in (own, *(f.col(name) % WORD for name in names), f.col("copy") % WORD):
        place = (place + word) * codes.whole(FACTOR) % codes.whole(WORD)
    placed = rows.withColumn("place", place)
    for shift, factor in MIXED:
        mixed = f.col("place").bitwiseXOR(f.shiftright("place", shift)) * codes.whole(factor)
        placed = placed.withColumn("place", mixed.bitwiseAND(codes.whole(WORD)))
    return placed


def _parts(codes: Codes, columns: Sequence[Column], term: Term) -> Iterator[tuple[Expression, int]]:
    """What is added up for a product of codes, in 64 bits: parts, and how far each is shifted in the sum.

    Factors are multiplied as long as the product stays below 2^62: two numbers are left at most, for all together have 88 bits.
    Each is cut in half, and each product of halves into parts of 24 bits, which 2^38 rows do not overflow.
    """
    f = codes.functions
    held = [(f.col(f"c{i}"), columns[i].size) for i in term]
    held.sort(key=lambda one: one[1])
    numbers: list[tuple[Expression, int]] = []
    for factor, size in held:
        for place, (other, width) in enumerate(numbers):
            if width * size < 2**62:
                numbers[place] = (other * factor, width * size)
                break
        else:
            numbers.append((factor, size))
    if len(numbers) == 1:
        yield from _limbs(codes, *numbers[0])
        return
    if not numbers:
        return
    assert len(numbers) == 2
    halves = [
        ((number.bitwiseAND(codes.whole(WORD)), 0), (f.shiftright(number, 31), 31)) for number, _ in numbers
    ]
    for one, left in halves[0]:
        for other, right in halves[1]:
            for part, shift in _limbs(codes, one * other, 2**62):
                yield part, left + right + shift


def _limbs(codes: Codes, number: Expression, size: int) -> Iterator[tuple[Expression, int]]:
    """A number below `size`, of at most 2^62, in parts whose sums stay below 2^63."""
    if size <= 2**_LIMB:
        yield number, 0
        return
    mask = codes.whole(2**_LIMB - 1)
    for shift in range(0, (size - 1).bit_length(), _LIMB):
        yield (codes.functions.shiftright(number, shift) if shift else number).bitwiseAND(mask), shift


def _joined(limbs: list[Integers], most: int) -> Integers:
    """Numbers from sums of their parts of 24 bits, at most `most`, which is below 2^62."""
    low, middle, high = limbs
    mask = 2**_LIMB - 1
    middle = middle + (low >> _LIMB)
    high = high + (middle >> _LIMB)
    total = (np.minimum(high, 2**13) << (2 * _LIMB)) + ((middle & mask) << _LIMB) + (low & mask)
    return np.minimum(np.where(high >= 2**13, most, total), most)


def _width(largest: int) -> str:
    """The narrowest type for whole numbers from 0 to this one: rows of many codes have to pass through the driver's memory."""
    widths = {"tinyint": 7, "smallint": 15, "int": 31}
    return next((kind for kind, bits in widths.items() if largest < 2**bits), "bigint")


def _array(table: Any, name: str) -> Integers:
    """A column of whole numbers without nulls."""
    column = table.column(name)
    width = np.dtype(column.type.to_pandas_dtype())
    parts = [
        np.frombuffer(chunk.buffers()[1], width, len(chunk), chunk.offset * width.itemsize)
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])
