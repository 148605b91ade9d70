"""A plan: what will be measured, with which noise, at which guarantee. Made of public facts only.

Everything that oboro can release is a plan, and `run` is the one way to run it. A plan neither charges,
signs nor brings its own randomness, so it cannot forget to. And it proves itself: its guarantee must cover what its parts
cost, which is checked whenever one comes into being, by its constructor, by `dataclasses.replace`, or from its record.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_type_hints

from oboro.arrays import Table
from oboro.domain import Column, Domain, read_toml
from oboro.errors import GuaranteeError, InputError, ParameterError, told
from oboro.files import write_whole
from oboro.kinds import path_of, shown, takes
from oboro.noise.bits import Bits
from oboro.privacy import Approx, Conditional, Guarantee, Pure, Unit
from oboro.records import (
    Columns,
    Record,
    check_fields,
    functions_of,
    has_field,
    read,
    read_fields,
    write,
    write_fields,
)
from oboro.release import workbook
from oboro.release.forecast import Forecast
from oboro.release.part import Form, Part, cost_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Tables as bytes of every format; and a table with its certificate in one file.

FORMATS = (".parquet", ".csv", ".arrow", ".json")
_MARK = b"\xef\xbb\xbf"
ROW_GROUP = 1 << 16  # rows of a Parquet file that are read together: who asks for a part reads few of them
BUNDLE = ".oboro"  # a file that carries its certificate within


def encoded(table: pa.Table, suffix: str) -> bytes:
    """A table as .parquet, .csv, .arrow or .json.

    CSV is UTF-8. Where a name or a value in it is more than ASCII it begins with a byte order mark, by which Excel knows that.
    """
    if suffix == ".parquet":
        return _parquet(table)
    sink = io.BytesIO()
    if suffix == ".csv":
        import pyarrow.csv as csv

        csv.write_csv(table, sink)
        if not sink.getvalue().isascii():
            return _MARK + sink.getvalue()
    elif suffix == ".arrow":
        import pyarrow as pa

        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        import json

        sink.write(json.dumps(table.to_pylist(), ensure_ascii=False, default=str, indent=1).encode())
    return sink.getvalue()


def _parquet(table: pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    if table.num_rows <= _FEW:  # nothing to be saved in them: packing takes longer than all the rest
        pq.write_table(table, sink, compression="none", use_dictionary=False, write_statistics=False)
        return bytes(sink.getvalue())
    # differences of sorted keys are small: two fifths fewer bytes, in a third of the time
    packed = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=[name for name in table.column_names if name not in packed],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED") or None,
        row_group_size=ROW_GROUP,
    )
    return bytes(sink.getvalue())


_FEW = 100  # rows
_SYSTEMS = (3, 0)  # what a packed file says it was made on; 0.1 wrote 0 on Windows


def bundled(parts: Mapping[str, bytes], system: int = _SYSTEMS[0]) -> bytes:
    """Several files as one, always with the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as file:
        for name, content in parts.items():
            one = zipfile.ZipInfo(name)
            one.create_system = system
            file.writestr(one, content)
    return sink.getvalue()


def unbundled(content: bytes, names: tuple[str, ...]) -> dict[str, bytes]:
    """What `bundled` wrote, byte for byte. Anything else raises what `zipfile` raises: more in it, before it or after it."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        inside = [(one.filename, one.compress_type) for one in file.infolist()]
        if inside != [(name, zipfile.ZIP_STORED) for name in names]:
            raise ValueError
        parts = {name: file.read(name) for name in names}
    if content not in [bundled(parts, system) for system in _SYSTEMS]:
        raise ValueError
    return parts


CAPABILITIES = ("tables", "statistics", "synth", "dynamics", "secure")  # whose plans a file may name
VERSION = 2  # of plan records; those of oboro 0.1 carry none


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring datasets, as `prepare` takes them: a worst case for the audit.

    >>> pair = next(plan.neighbours())
    >>> pair.one.to_pydict(), pair.other.to_pydict(), pair.why
    ({'age': [0]}, {'age': []}, 'one unit with all its rows, or nobody')
    """

    one: object
    other: object
    why: str


class Plan:
    """What a capability implements: a frozen dataclass below this class, with its parts, its proof and its neighbours.

    The fields of the dataclass are the plan's record, by their annotations. Everything that a release or the audit may
    ask of a plan stands here, with what holds if the plan says nothing.

    >>> isinstance(plan, ob.Plan), plan.guarantee, plan.cost
    (True, Pure('0.1'), Pure('0.1'))
    >>> plan.parts
    (Part(noise=DiscreteLaplace('10'), of='counts', moves=Fraction(1, 1), costs=Pure('0.1'), case=''),)
    """

    kind: ClassVar[str]  # such as "statistics.histogram": the package that knows it, and its name there
    if TYPE_CHECKING:

        @property
        def unit(self) -> Unit:
            """Who is protected."""

        @property
        def guarantee(self) -> Guarantee:
            """What is promised."""

    # What is said with a release

    intervals: Callable[[Any, float], tuple[Any, Any]] | None = None  # (table, level) to (low, high)
    raw_intervals: Callable[[Any, float], tuple[Any, Any]] | None = None  # the same for counts, not cut at 0
    ask: Callable[..., Any] | None = None  # (table, where, level): a part of the table, with its interval
    table_by: Callable[..., Any] | None = None  # (table, columns, level): a table of its own, with intervals
    outlined: Callable[..., Any] | None = None  # (such a table, columns, file): with the shape of each area
    with_shapes: tuple[str, ...] = ()  # endings of files that have them
    light: ClassVar[bool] = (
        False  # whether what is derived from its fields takes so little room that `run` may keep it; each class says it for itself
    )

    @property
    def has_counts(self) -> bool:
        """Whether it releases counts that noise can take below 0."""
        return self.raw_intervals is not None

    def not_negative(self, table: Any, level: float) -> Any:
        """Its counts raw and at 0 or more, with the interval of each; where it has counts."""
        from oboro.release.release import raw_and_cut

        assert self.raw_intervals is not None
        assert self.intervals is not None
        counts = table.column(table.num_columns - 1)
        return raw_and_cut(table, counts, self.raw_intervals(table, level), self.intervals(table, level))

    @property
    def leaves_out(self) -> str:
        """What an interval covers, and what not."""
        return "covers the noise alone"

    @property
    def footnote(self) -> str | None:
        """What a reader should know. By the plan alone, whatever the values are."""
        return None

    @property
    def interval_in_files(self) -> bool:
        """Whether files carry low and high beside each value."""
        return False

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Whole numbers that are names: they are printed as they are, 533900054, 2026."""
        return ()

    def heading(self, name: str) -> str:
        """What a column is called in print."""
        return name

    @property
    def readable(self) -> bool:
        """Whether the table is for people: it is printed then."""
        return True

    @property
    def formats(self) -> tuple[str, ...]:
        """How the files of a release end, the first of them proposed. None: a file of any name."""
        return (*FORMATS, workbook.ENDING)

    @property
    def published_rows(self) -> int | None:
        """How many rows go out at most, by public facts; None where they are few, or nobody can say."""
        return None

    @property
    def published_columns(self) -> int:
        """How many columns go out at most, where they can be many."""
        return 1

    @property
    def longest_text(self) -> int:
        """How many signs a text that goes out has at most, by public facts: that of all labels of a row together."""
        texts = (getattr(column, "values", ()) for column in self.reads)
        return sum(max((len(str(one)) for one in values), default=0) for values in texts)

    def check_file(self, ending: str, rows: int | None = None) -> None:
        """Refuses, before anything is paid for, what a file with this ending cannot hold, or nothing here can write.

        `rows`: how many there are, where what was released is known.
        """
        if ending == workbook.ENDING:
            most = self.published_rows if rows is None else rows
            workbook.check_room(most, self.published_columns, self.longest_text)

    def filed(self, table: Table) -> Table:
        """The published table as files and JSON carry it: the same figures, perhaps laid out in another way."""
        return table

    def encoded(self, table: Table, ending: str) -> bytes:
        """The bytes of such a file, from the table that goes out."""
        return encoded(table, ending)

    @property
    def slowness(self) -> int:
        """How many times fewer trials the audit makes than of a simple count, because one takes so long."""
        return 1

    def __post_init__(self) -> None:
        check_fields(self, "the plan")
        self.check()
        if not self.parts and self.guarantee != Pure(0):
            raise GuaranteeError(
                "a plan without noise promises that it tells nothing",
                given=f"{self.guarantee}, and no parts",
                needed="a part for each noise, or eps = 0",
                fix='ob.release.part(noise, "count", moves=1)',
            )
        cost = self.cost
        if not self.guarantee.covers(cost):
            raise GuaranteeError(
                "the noise of the plan does not keep its promise",
                given=f"{self.guarantee}",
                needed=f"at least {cost}",
                fix="a plan as its function makes it",
            )

    def check(self) -> None:
        """Refuses what public facts rule out. The guarantee is checked by itself, against the parts."""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Each noise, what it is added to, how far one unit moves that, what it costs."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def cost(self) -> Guarantee:
        """What the parts cost together, in the worst case. A plan with a tighter theorem than adding up overrides this."""
        return cost_of(self.parts)

    def could_promise(self, guarantee: Guarantee) -> bool:
        """Whether the same may be planned with another guarantee, by what the class says of its own; a delta only where it speaks of one."""
        try:
            stated = get_type_hints(type(self)).get("guarantee", Guarantee)
        except (
            NameError
        ):  # pragma: no cover  # a class of somebody else's, with names that are not there any more
            stated = Guarantee
        if stated is Guarantee:
            return not isinstance(guarantee, Approx)
        return isinstance(guarantee, get_args(stated) or stated)

    def forecast(self) -> Forecast:
        """The error that this plan will have. Never touches data."""
        raise NotImplementedError  # pragma: no cover

    def open(self, data: Any) -> Any:
        """What a caller handed in as data, opened: an engine then says its name and version, for the certificate."""
        return data

    def look(self, source: Any) -> None:
        """Refuses what a run would refuse by the names and types of columns alone: `source` has those, and no row."""
        self.prepare(self.open(source))

    def prepare(self, data: Any) -> Any:
        """Reads, clips, puts on the public grid, aggregates. No randomness, and no complaint about any value."""
        raise NotImplementedError  # pragma: no cover

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        """The only place where noise is drawn, from the bits that are handed in.

        With `trials`, that many independent measurements along a new first axis, for the audit.
        """
        raise NotImplementedError  # pragma: no cover

    def publish(self, measured: Any) -> Table:
        """The noisy measurements as the table that goes out: post-processing, without data or noise."""
        raise NotImplementedError  # pragma: no cover

    def describe(self) -> Record:
        """For the certificate: {"released": what, "noise": law and public parameters, "domain": where there is one}."""
        raise NotImplementedError  # pragma: no cover

    def neighbours(self) -> Iterator[Pair]:
        """Worst-case neighbouring datasets under the plan's unit."""
        raise NotImplementedError  # pragma: no cover

    @property
    def reads(self) -> tuple[Column, ...]:
        """The columns of the rows that it reads: the audit makes up such rows. None where its data are not rows."""
        domain = self.describe().get("domain")
        return () if domain is None else Domain.from_dict(domain).columns

    def random_pair(self, random: np.random.Generator) -> Pair | None:
        """Random neighbours, by a NumPy generator: where its data are not rows."""
        return None

    def added(self) -> Form | None:
        """The law of what `measure` gives, where it can be computed: for the audit, which believes no word of it."""
        return None

    def __getstate__(self) -> dict[str, object]:
        """What a pickle carries: the fields, and nothing that was derived from them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """The record: texts, integers, lists and dictionaries, with the plan's kind, and the columns that it uses."""
        columns: Columns = {}
        record = write_fields(self, columns)
        if columns and "domain" not in record:
            record["domain"] = {"columns": [write(column) for column in columns.values()]}
        return {"kind": record.pop("kind"), "version": VERSION, **record}

    def as_record(self, columns: Columns | None) -> dict[str, object]:
        """A plan inside another is a record of its own."""
        return self.to_dict()

    @classmethod
    def from_record(cls, record: Record, columns: Columns | None, where: str) -> Plan:
        return plan_from(record)


_P = TypeVar("_P", bound=type["Plan"])
_known: dict[str, type[Plan]] = {}
_upgrades: dict[str, Callable[[dict[str, object]], dict[str, object]]] = {}


def register(cls: _P) -> _P:
    """Makes a plan class loadable by its `kind`, which no other class may take.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Taken(ob.Plan):
    ...     kind = "statistics.histogram"
    >>> ob.release.register(Taken)
    Traceback (most recent call last):
        ...
    TypeError: HistogramPlan has the kind 'statistics.histogram' already
    """
    kind = cls.kind
    if _known.setdefault(kind, cls) is not cls:
        raise TypeError(f"{_known[kind].__qualname__} has the kind {kind!r} already")
    return cls


def upgrade(capability: str, function: Callable[[dict[str, object]], dict[str, object]]) -> None:
    """Registers how the records of oboro 0.1 of a capability become today's."""
    _upgrades[capability] = function


def plan_from(record: Record, handed: dict[str, object] | None = None) -> Plan:
    """The plan that `to_dict` wrote, also in oboro 0.1. `handed`: functions, which no record can carry.

    >>> ob.release.plan_from(plan.to_dict()) == plan
    True
    >>> plan.to_dict()["kind"]
    'statistics.histogram'
    """
    kind = record.get("kind") if isinstance(record, dict) else None
    if isinstance(kind, str) and kind not in _known and kind.partition(".")[0] in CAPABILITIES:
        importlib.import_module(f"oboro.{kind.partition('.')[0]}")  # they lie above this layer
    if not isinstance(kind, str) or kind not in _known:
        raise ParameterError(
            "the plan has an unknown kind",
            given=told(kind=shown(kind)),
            needed="a plan that this version of oboro can make",
            fix="for a plan of your own: Python that has imported its class first",
        )
    cls = _known[kind]
    try:
        return _read(cls, kind, record, handed)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ParameterError(
            f"the plan of kind {kind!r} is incomplete", given=f"{type(error).__name__}: {error}"
        ) from None


def _read(cls: type[Plan], kind: str, record: Record, handed: dict[str, object] | None) -> Plan:
    given = dict(record)
    version = given.pop("version", 1)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ParameterError(
            "the plan was written by another version of oboro",
            given=told(version=shown(version)),
            needed=f"a version up to {VERSION}",
            fix="a newer oboro",
        )
    if version == 1 and (older := _upgrades.get(kind.partition(".")[0])) is not None:
        given = older(given)
    columns: Columns = {}
    if "domain" in given and not has_field(cls, "domain"):
        domain = read(Domain, given.pop("domain"), "plan.domain")
        columns = {column.name: column for column in domain}
    return read_fields(cls, given, "plan", columns, handed)


def made_again(plan: Plan) -> Any:
    """The plan that this object says it is, made anew from its record: what a caller holds is never run.

    Copies, pickles and `object.__setattr__` pass every constructor by; a record does not. Functions are the one thing
    that a record cannot carry: they are taken over as they are, and the promise must be conditional on them.
    """
    handed = functions_of(plan)
    made = plan_from(record_of(plan), handed)
    if handed and not isinstance(made.guarantee, Conditional):
        raise GuaranteeError(
            "a plan with a function of your own has a conditional promise",
            given=str(made.guarantee),
            needed="Conditional(..., what is assumed about the function)",
        )
    return made


def record_of(plan: Plan) -> dict[str, object]:
    """The record that a plan of a registered class writes of itself."""
    cls = type(plan)
    if cls is not _known.get(getattr(plan, "kind", "")):
        raise ParameterError(
            "the plan is of a class that is not registered",
            given=cls.__qualname__,
            needed="a plan of a registered class",
            fix="@ob.release.register",
        )
    try:
        return plan.to_dict()
    except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise ParameterError(
            "the plan cannot be written down", given=f"{type(error).__name__}: {error}"
        ) from None


def a_plan(name: str, value: object) -> Any:
    """`value`, if it can be run as a plan."""
    return _with(name, value, "unit", "guarantee", "prepare", "measure", "publish", "to_dict")


def attackable(name: str, value: object) -> object:
    """`value`, if it can be measured and promises something; it need not be able to be released."""
    return _with(name, value, "kind", "guarantee", "prepare", "measure")


def _with(name: str, value: object, *parts: str) -> object:
    if not isinstance(value, type) and all(hasattr(value, part) for part in parts):
        return value
    raise ParameterError(
        f"{name} is not a plan",
        given=told(**{name: shown(value)}),
        needed="what a plan function of oboro returns",
        fix='ob.histogram_plan(domain, "age", unit=ob.Unit.row(), eps=1)',
    )


@takes(plan=a_plan, path=path_of)
def save_plan(plan: Plan, path: str | Path) -> None:
    """Writes a plan as TOML: for a colleague to read, to keep in version control, to run later.

    >>> ob.save_plan(plan, "ages.toml")
    >>> ob.load_plan("ages.toml") == plan
    True
    """
    import tomli_w

    write_whole(Path(path), tomli_w.dumps(plan.to_dict()).encode())


def load_plan(path: str | Path) -> Plan:
    """Reads a plan from TOML.

    >>> ob.save_plan(plan, "ages.toml")
    >>> ob.load_plan("ages.toml").guarantee
    Pure('0.1')
    """
    return plan_from(read_toml(path))
