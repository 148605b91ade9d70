"""The rows that a question is about, and the groups that it is asked of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Date, Domain, Integer, Real
from oboro.domain.columns import LARGEST, as_date
from oboro.engine import Source, count_units, open_data
from oboro.errors import DataError, DomainError, ParameterError, UnitError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import list_of, shown, takes, text_of
from oboro.privacy import Unit
from oboro.release import Pair, Plan, upgrade
from oboro.statistics.terms import Promise, in_groups
from oboro.statistics.where import Condition

if TYPE_CHECKING:
    import pyarrow as pa

    from oboro.arrays import Data, Table

# Bins: a column's values put into public groups.

MOST_GROUPS = 2**16
MOST_UNITS = 2**38
Edge = Number | date
Edges = Mapping[str, Sequence[Edge]] | Sequence[Edge]


PERIODS = ("year", "month", "year-month")  # of dates; a month is that of any year


@dataclass(frozen=True, slots=True)
class Bins:
    """Every value its own bin, or the intervals [edge, next edge) of a number or date column, or the years or months of dates.

    The last interval includes the last edge. Where the edges do not begin and end at the column's bounds, what lies below
    the first and above the last is an interval as well: every record that is not left out falls into a bin.

    >>> ages = ob.statistics.Bins(domain["age"], edges=[20, 65])
    >>> ages.labels, ages.fold([19, 20, 99])
    (['0 to 19', '20 to 64', '65 to 99'], array([0, 1, 2]))
    """

    column: Column
    starts: tuple[int, ...] = ()  # the first code of each bin; empty where every value is its own bin
    period: str = ""  # of a date column, one of PERIODS: in place of starts

    @takes(column=Column, edges=list_of)
    def __init__(
        self,
        column: Column,
        edges: Sequence[Edge] | None = None,
        *,
        starts: tuple[int, ...] = (),
        period: str = "",
    ) -> None:
        if period and (period not in PERIODS or not isinstance(column, Date) or starts or edges is not None):
            raise DomainError(
                f"column {column.name!r} cannot be put into such periods",
                given=told(period=shown(period)),
                needed=f"a Date column without edges, and one of {', '.join(PERIODS)}",
                fix=setting(period="year"),
            )
        if edges is not None:
            starts = _starts(column, list(edges))
        if starts and (starts[0] != 0 or sorted(set(starts)) != list(starts) or starts[-1] >= column.size):
            raise DomainError(
                f"column {column.name!r}: the bins are not in order",
                given=told(starts=shown(list(starts))),
                needed="increasing codes, the first of them 0",
            )
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "period", period)

    @property
    def name(self) -> str:
        """What its column is called in the published table."""
        return f"{self.period}({self.column.name})" if self.period in ("year", "month") else self.column.name

    @property
    def size(self) -> int:
        return len(self._periods[1]) if self.period else len(self.starts) or self.column.size

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The first code of each run of codes that share a bin, and that bin; empty where every value is its own bin."""
        return self._periods[0] if self.period else tuple((start, i) for i, start in enumerate(self.starts))

    @property
    def far(self) -> int:
        """A code as far from the first as there is in another bin."""
        runs = self.runs
        if not runs or runs[-1][1] != runs[0][1]:
            return self.column.size - 1
        return next((start for start, place in reversed(runs) if place != runs[0][1]), 0)

    @property
    def _periods(self) -> tuple[tuple[tuple[int, int], ...], tuple[object, ...]]:
        assert isinstance(self.column, Date)
        return _periods(self.column.first, self.column.last, self.period)

    def fold(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bin of each code."""
        if not self.runs:
            return codes
        starts, places = np.asarray(self.runs, np.int64).T
        return np.asarray(places[np.searchsorted(starts, codes, side="right") - 1], np.int64)

    def label(self, index: int) -> object:
        """What a bin is called in the published table."""
        if self.period:
            return self._periods[1][index]
        if not self.starts:
            return self.column.value(index)
        first = self.column.value(self.starts[index])
        last = self.column.value(
            (self.starts[index + 1] if index + 1 < len(self.starts) else self.column.size) - 1
        )
        if isinstance(self.column, Real):
            low, step = self.column.low, self.column.step
            end = low + step * (
                self.starts[index + 1] if index + 1 < len(self.starts) else self.column.size - 1
            )
            closed = index + 1 == len(self.starts)
            return f"[{show(low + step * self.starts[index])}, {show(end)}{']' if closed else ')'}"
        return f"{first}" if first == last else f"{first} to {last}"

    @property
    def labels(self) -> list[object]:
        return [self.label(index) for index in range(self.size)]


@lru_cache(maxsize=64)
def _periods(first: date, last: date, period: str) -> tuple[tuple[tuple[int, int], ...], tuple[object, ...]]:
    """Where each year or month begins, as codes, with the number of its bin; and the labels of the bins, in order."""
    begins: list[tuple[date, object]] = []
    for year in range(first.year, last.year + 1):
        for month in range(1, 13):
            begin = max(first, date(year, month, 1))
            if (first.year, first.month) <= (year, month) <= (last.year, last.month):
                label = {"year": year, "month": month}.get(period, f"{year:04}-{month:02}")
                begins.append((begin, label))
    labels = tuple(sorted({label for _, label in begins}, key=lambda label: (str(type(label)), label)))
    place = {label: i for i, label in enumerate(labels)}
    runs = [((begin - first).days, place[label]) for begin, label in begins]
    kept = [run for i, run in enumerate(runs) if i == 0 or run[1] != runs[i - 1][1]]
    return tuple(kept), labels


_GROUP = re.compile(r"(?P<word>\w+)\s*\(\s*(?P<column>.+?)\s*(?:,\s*(?P<width>[^,()]+?)\s*)?\)")


@takes(domain=Domain, text=text_of)
def group_of(domain: Domain, text: str) -> Bins:
    """What a text groups by: a column, bins(age, 10), year(day), month(day); day=year and day=month are calendar years
    and months."""
    if text in domain.names:
        return Bins(domain[text])
    name, equals, period = text.rpartition("=")
    if equals and name in domain.names and period in ("year", "month"):
        return Bins(domain[name], period="year" if period == "year" else "year-month")
    found = _GROUP.fullmatch(text)
    if found is None:
        return Bins(domain[text])
    word, column, width = found["word"].lower(), domain[found["column"]], found["width"]
    if word == "bins" and width is not None:
        return even_bins(column, width)
    if word in ("year", "month") and width is None:
        return Bins(column, period=word)
    raise DomainError(
        "the groups are not understood",
        given=text,
        needed="a column, bins(COLUMN, WIDTH), year(COLUMN), month(COLUMN), COLUMN=year or COLUMN=month",
        fix=f"year({column.name})" if isinstance(column, Date) else column.name,
    )


def even_bins(column: Column, width: Number) -> Bins:
    """Intervals of one width that begin at its multiples: bins(age, 10) are 0 to 9, 10 to 19, and so on."""
    if not isinstance(column, Integer | Real):
        raise DomainError(
            f"column {column.name!r} has no bins of a width",
            given=f"a column of kind {column.kind!r}",
            needed="an Integer or Real column",
            fix=f"year({column.name})" if isinstance(column, Date) else column.name,
        )
    wide = positive("width", rational("width", width))
    steps, low = wide / column.step, Fraction(column.low)
    first = (low // wide + 1) * wide
    at = (first - low) / column.step
    if steps.denominator != 1 or at.denominator != 1:
        raise DomainError(
            f"bins of this width do not fit the steps of column {column.name!r}",
            given=f"a width of {show(wide)}",
            needed=f"multiples of {show(Fraction(column.step))} from {show(low)} on, such that each value lies in one bin",
            fix=f"bins({column.name}, {show(10 * Fraction(column.step))})"
            if low % column.step == 0
            else column.name,  # no width has its multiples on these steps
        )
    if column.size // int(steps) > MOST_GROUPS:
        raise DomainError(
            "there are too many bins",
            given=f"a width of {show(wide)}",
            needed=f"at most {MOST_GROUPS:,} bins",
            fix="a larger width",
        )
    return Bins(column, starts=(0, *range(int(at), column.size, int(steps))))


def columns_of(groups: Sequence[Bins]) -> list[Column]:
    """The columns of groups, each once: what the engine groups by."""
    return list({bins.column.name: bins.column for bins in groups}.values())


def fold_groups(groups: Sequence[Bins], cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """From mixed-radix numbers of the codes of `columns_of(groups)` to those of the bins."""
    codes: dict[str, npt.NDArray[np.int64]] = {}
    for column in reversed(columns_of(groups)):
        cells, codes[column.name] = np.divmod(cells, column.size)
    found, weight = np.zeros(cells.shape, np.int64), 1
    for bins in reversed(groups):
        found += weight * bins.fold(codes[bins.column.name])
        weight *= bins.size
    return found


def bins_of(domain: Domain, names: Sequence[str], edges: Edges | None) -> tuple[Bins, ...]:
    """The bins of the columns that are counted; edges without a name are the first one's."""
    if not names:
        raise DomainError("nothing is counted", given="no column", needed="one column or more", fix='"age"')
    cut = edges if isinstance(edges, Mapping) else {} if edges is None else {names[0]: edges}
    for name in cut:
        if name not in names:
            raise DomainError(
                f"there are edges for {name!r}, which is not counted",
                given=f"edges of {name}",
                needed=f"edges of {', '.join(names)}",
                fix=setting(edges={names[0]: ...}),
            )
    return tuple(Bins(domain[name], cut.get(name)) for name in names)


def _starts(column: Column, edges: list[Edge]) -> tuple[int, ...]:
    if not isinstance(column, Integer | Real | Date):
        raise DomainError(
            f"column {column.name!r} has categories, not intervals",
            given=told(edges=f"{edges[:4]}..."),
            needed="no edges",
            fix=setting(edges=None),
        )
    codes = [_edge_code(column, edge) for edge in edges]
    places = [code for code in codes if code is not None]
    if (
        not codes
        or len(places) < len(codes)
        or places[0] < 0
        or places[-1] > column.size
        or sorted(set(places)) != places
    ):
        first, last = column.value(0), column.value(column.size - 1)
        raise DomainError(
            f"the edges do not fit column {column.name!r}",
            given=f"edges from {edges[0]} to {edges[-1]}" if edges else "no edges",
            needed=f"increasing values on the column's steps, from {first} to {last} (or one step beyond)",
            fix=setting(edges=[first, ..., last]),
        )
    # Integer and date edges may close with the bound itself (included in the last bin) or one step beyond it.
    inner = places[:-1] if places[-1] >= column.size - 1 and len(places) > 1 else places
    return tuple(inner) if inner[0] == 0 else (0, *inner)


def _edge_code(column: Integer | Real | Date, edge: Edge) -> int | None:
    """The code at which a bin begins; None if no step does."""
    if isinstance(column, Date):
        return (as_date(column.name, "edges", edge) - column.first).days
    if type(edge) is int and isinstance(column, Integer) and edge.bit_length() < 64:
        place, rest = divmod(edge - column.low, column.step)
        return None if rest else place
    at = (rational("edges", edge) - column.low) / column.step
    return int(at) if at.denominator == 1 else None


def _of_older(record: dict[str, object]) -> dict[str, object]:
    """A record of oboro 0.1: a group was called by its name, and said that its values stand alone."""
    from oboro.statistics import smooth_noise

    record = smooth_noise.of_older(record)
    if record.get("kind") == "statistics.sample_and_aggregate":
        raise ParameterError(
            "a plan of oboro 0.1 does not hold its function",
            given=f"the plan of {shown(record.get('function'))}",
            needed="the function itself",
            fix="people.sample_and_aggregate(function, ...)",
        )
    groups = record.get("by")
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        return record
    by = [{"column" if key == "name" else key: value for key, value in one.items()} for one in groups]
    return {**record, "by": [{k: v for k, v in one.items() if (k, v) != ("starts", [])} for one in by]}


upgrade("statistics", _of_older)


@dataclass(frozen=True, slots=True)
class Scope:
    """Unit, condition, groups, and what is public about the number of units.

    Under "replace" the number of units `n` is public. It is counted once, when the data is opened, and is part of
    the plan. Under add/remove it is private; `expected_n` is a guess that forecasts use, and nothing else
    depends on it but the choice between two ways to find quantiles. How many of a public n a condition picks
    is private too: there `expected_n` is a guess of that.
    """

    unit: Unit
    where: Condition | None = None
    by: tuple[Bins, ...] = ()
    n: int | None = None
    expected_n: int | None = None

    def __post_init__(self) -> None:
        if self.unit.kind not in ("row", "person"):
            raise UnitError(
                "a statistic is about rows",
                given=str(self.unit),
                needed="a unit of rows or persons",
                fix=setting(unit=Unit.row()),
            )
        if self.n is not None and not self.replaced:
            raise UnitError(
                "n is private under add/remove",
                given=told(n=f"{self.n}"),
                needed="a guess, which need not be right",
                fix=told(expected_n=f"{self.n}"),
            )
        for name, value in (("n", self.n), ("expected_n", self.expected_n)):
            if value is not None:
                object.__setattr__(self, name, whole(name, value, least=0, most=MOST_UNITS))
        names = [bins.name for bins in self.by]
        if len(set(names)) != len(names):
            raise DomainError("the groups name a column twice", given=", ".join(names))

    def check_groups(self, besides: Column | None = None) -> None:
        """Refuses more groups than a table of sums or quantiles should have, and those of a column that is asked about."""
        if besides is not None and any(bins.column.name == besides.name for bins in self.by):
            raise DomainError(
                f"column {besides.name!r} is asked about and says the groups",
                given=f"by {besides.name}",
                needed="groups of another column",
                fix="by another column",
            )
        if self.groups > MOST_GROUPS or prod(column.size for column in self.by_columns) > LARGEST:
            raise DomainError(
                "there are too many groups",
                given=" x ".join(str(bins.size) for bins in self.by),
                needed=f"at most {MOST_GROUPS:,}",
                fix="fewer columns, or a column with fewer values",
            )

    def check_whole(self, what: str) -> None:
        """Refuses groups, for what has none."""
        if self.by:
            raise DomainError(f"{what} no groups", given=self.words().strip(), fix="one release for each")

    @property
    def rows(self) -> int:
        """How many rows of one unit count at most."""
        return self.unit.contributions

    @property
    def replaced(self) -> bool:
        return self.unit.adjacency == "replace"

    @property
    def nobody(self) -> bool:
        """Whether there is no unit, in public: then nobody can be replaced, and there are no neighbours."""
        return self.replaced and self.n == 0

    @property
    def groups(self) -> int:
        return prod(bins.size for bins in self.by)

    @property
    def by_columns(self) -> list[Column]:
        """The columns that groups are made of, each once."""
        return columns_of(self.by)

    def folded(self, found: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[int]]:
        """Sums for each combination of values as sums for each group: by intervals, years, months."""
        if not any(bins.runs for bins in self.by):
            return found
        cells = np.fromiter(found, np.int64, len(found))
        sums: dict[int, list[int]] = {}
        for group, terms in zip(fold_groups(self.by, cells).tolist(), found.values(), strict=True):
            known = sums.get(group)
            sums[group] = list(terms) if known is None else [a + b for a, b in zip(known, terms, strict=True)]
        return sums

    @property
    def units(self) -> int | None:
        """How many units there are, as far as anyone may know or guess: for forecasts."""
        if self.n is None:
            return self.expected_n
        picked = self.n if self.where is None or self.expected_n is None else self.expected_n
        return min(self.n, picked)

    @property
    def size(self) -> int | None:
        """How many rows a group has, as far as anyone may know or guess: for forecasts."""
        return None if self.units is None else max(1, self.units // self.groups)

    def all_count(self, columns: Sequence[Column]) -> bool:
        """Whether every row counts for sure, so that their number is public: nothing is left out or picked."""
        fixed = self.replaced and self.unit.kind == "row" and self.n is not None
        whole_table = self.where is None and not self.by
        return fixed and whole_table and all(column.missing_code is not None for column in columns)

    def price(self, promise: Promise, inside: Fraction | int) -> Promise:
        """What a row that comes or goes may cost; `inside` times as much if it is replaced within its group."""
        return in_groups(promise, self.unit.adjacency, self.groups, inside)

    def open(self, data: Data) -> tuple[Source, Condition | None]:
        """The data and the condition. Refuses data with another public n than the plan's."""
        source = open_data(data)
        if self.n is not None and (found := count_units(source, self.unit)) != self.n:
            raise DataError(
                "the data has another number of units than the plan, and under replace that number is public",
                given=f"{found:,} units",
                needed=f"{self.n:,}",
                fix="a plan with " + setting(n=found),
            )
        return source, self.where

    def labels(self) -> dict[str, pa.Array]:
        """A column of labels for each column of groups, in mixed-radix order."""
        import numpy as np
        import pyarrow as pa

        columns: dict[str, pa.Array] = {}
        repeat, tile = self.groups, 1
        for bins in self.by:
            repeat //= bins.size
            places = np.tile(np.repeat(np.arange(bins.size), repeat), tile)
            columns[bins.name] = pa.array(bins.labels).take(pa.array(places))
            tile *= bins.size
        return columns

    def words(self) -> str:
        """ " by region, where age >= 20", for titles."""
        by = " by " + " and ".join(bins.name for bins in self.by) if self.by else ""
        return by + (f", where {self.where}" if self.where else "")

    def columns(self, used: Iterable[Column]) -> tuple[Column, ...]:
        """Every column that the question uses."""
        condition = self.where.columns if self.where else ()
        every = (*used, *(bins.column for bins in self.by), *condition)
        return tuple({column.name: column for column in every}.values())

    def pairs(self, used: Sequence[Column]) -> Iterator[Pair]:
        """Worst cases for the audit: all rows of one unit at one end, against nobody, the other end, another group."""
        if self.nobody:
            return
        ends = [self._example(used, end) for end in (0, 1)]
        if not self.replaced:
            for end in ends:
                yield self._pair(used, end, None, "one unit with all its rows, or nobody")
            return
        last = {bins.column.name: bins.far for bins in self.by}
        unmet = None if self.where is None else next(self.where.opposite.examples(), None)
        absent = {column.name: None for column in used if column.missing_code is None}
        seen: list[tuple[Mapping[str, int | None], Mapping[str, int | None]]] = []
        for one, other, why in (
            (ends[0], ends[1], "all rows of one unit move from one end to the other"),
            (ends[1], {**ends[1], **last}, "a unit moves to another group"),
            (ends[0], {**ends[1], **last}, "a unit moves to the other end of another group"),
            (ends[0], {**ends[0], **(unmet or {})}, "low rows of one unit no longer meet the condition"),
            (ends[1], {**ends[1], **(unmet or {})}, "high rows of one unit no longer meet the condition"),
            (ends[0], {**ends[0], **absent}, "low values of one unit are missing and left out"),
            (ends[1], {**ends[1], **absent}, "high values of one unit are missing and left out"),
        ):
            if one != other and (one, other) not in seen:
                seen.append((one, other))
                yield self._pair(used, one, other, why)

    def divided_pairs(self, used: Sequence[Column], share: Fraction) -> Iterator[Pair]:
        """Worst cases for answers about order: a `share` of the others lies at one end, the rest at the other end."""
        if self.nobody:
            return
        ends = [self._example(used, end) for end in (0, 1)]
        others = self.n - 1 if self.replaced and self.n is not None else 4
        low = int(share * (others + 1))
        crowd = [*[ends[0]] * min(low, others), *[ends[1]] * max(0, others - low)]
        if self.replaced:
            yield self._crowded(
                used, crowd, ends[0], ends[1], "a unit moves from end to end among others at both"
            )
            return
        for end, where in zip(ends, ("low", "high"), strict=True):
            yield self._crowded(
                used, crowd, end, None, f"a {where} unit or nobody, among others at both ends"
            )

    def _crowded(
        self,
        used: Sequence[Column],
        crowd: Sequence[Mapping[str, int]],
        one: Mapping[str, int],
        other: Mapping[str, int] | None,
        why: str,
    ) -> Pair:
        import pyarrow as pa

        columns = {column.name: column for column in self.columns(used)}

        def table(own: Mapping[str, int] | None) -> Table:
            rows = [*([own] * self.rows if own is not None else []), *crowd]
            values = {
                name: pa.array([column.value(0), *(column.value(row[name]) for row in rows)]).slice(1)
                for name, column in columns.items()
            }
            if self.unit.column is not None:
                values[self.unit.column] = pa.array(
                    [0] * (len(rows) - len(crowd)) + list(range(1, len(crowd) + 1)), pa.int64()
                )
            return pa.table(values)

        return Pair(table(one), table(other), why)

    def _example(self, used: Sequence[Column], end: int) -> dict[str, int]:
        """Codes of a row that counts, with the columns at their lowest or highest."""
        row = {column.name: 0 for column in self.columns(used)}
        row |= {column.name: (column.size - 1) * end for column in used}
        row |= {bins.column.name: 0 for bins in self.by}
        if self.where is not None:
            found = list(islice(self.where.examples(), 1000))
            wanted = [column.name for column in used]
            found.sort(key=lambda codes: tuple(codes.get(name, 0) for name in wanted))
            if found:
                row |= found[-1 if end else 0]
        return row

    def _pair(
        self, used: Sequence[Column], one: dict[str, int], other: Mapping[str, int | None] | None, why: str
    ) -> Pair:
        return Pair(self._table(used, one, one), self._table(used, other, one), why)

    def _table(
        self, used: Sequence[Column], row: Mapping[str, int | None] | None, filler: dict[str, int]
    ) -> Table:
        """A table with the unit's rows, and under replace with as many others as n says."""
        import numpy as np
        import pyarrow as pa

        columns = {column.name: column for column in self.columns(used)}
        others = max(0, (self.n or 1) - 1) if self.replaced else 0
        own = self.rows if row is not None else 0
        place = pa.array(np.repeat([0, 1], [own, others]))
        table = {}
        for name, column in columns.items():
            code = filler[name] if row is None else row[name]
            values = [None if code is None else column.value(code), column.value(filler[name])]
            table[name] = pa.array(values).take(place)
        if self.unit.column is not None:
            table[self.unit.column] = pa.array(
                np.concatenate([np.zeros(own, np.int64), np.arange(1, others + 1)])
            )
        return pa.table(table or {"row": place})


class ScopedPlan(Plan):
    """A plan about the rows of a scope, which says who is protected."""

    if TYPE_CHECKING:

        @property
        def scope(self) -> Scope: ...

    @property
    def unit(self) -> Unit:
        return self.scope.unit

    @property
    def asked(self) -> tuple[Column, ...]:
        """The columns that it is about, beside those of its condition and its groups: those among its fields."""
        held = [getattr(self, one.name) for one in fields(self)]  # type: ignore[arg-type]
        each = [one for value in held for one in (value if isinstance(value, tuple) else (value,))]
        return tuple(one for one in each if isinstance(one, Column))

    @property
    def figures(self) -> tuple[str, ...]:
        """How the figures of a group are called, where it has several: their rows come one figure after the other."""
        return ()

    @property
    def published_columns(self) -> int:
        return len(self.scope.by) + 8 * max(1, len(self.figures))  # a figure, its moments, its interval

    def filed(self, table: Table) -> Table:
        """One row a group, where groups have several figures: each has columns of its own, that begin with its name."""
        import pyarrow as pa

        groups = self.scope.groups
        if not self.scope.by or not self.figures:
            return table
        columns = dict(self.scope.labels())
        kinds = [name for name in table.column_names if name not in (*columns, "column", "with")]
        for place, figure in enumerate(self.figures):
            part = table.slice(place * groups, groups)
            for kind in kinds:
                name = figure if kind == "value" else f"{figure} {kind}"
                while name in columns:
                    name += " (2)"
                columns[name] = part.column(kind)
        return pa.table(columns)

    def neighbours(self) -> Iterator[Pair]:
        """One unit at one end of every column, or at the other, or away."""
        yield from self.scope.pairs(self.asked)

    def wording(self, released: str, noise: Mapping[str, object]) -> dict[str, object]:
        """What `describe` gives, with the domain of all columns that it reads."""
        columns = self.scope.columns(self.asked)
        domain = {"domain": Domain(columns).to_dict()} if columns else {}
        return {"released": released, "noise": noise, **domain}
