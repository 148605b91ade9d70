"""What a strategy is: how a table is measured, what that costs, and what comes out, for one plan.

A strategy is bound to the public facts of its plan: where the cells lie, the promise, the unit, a public total, and for a
tree the workload and the design. So whatever follows from them is computed once, and asked for without naming them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.domain import Areas, Category, Column, Date, Domain, Grid, Integer, Mesh
from oboro.domain.mesh import LEVELS, width
from oboro.errors import DataError, DomainError, GuaranteeError, ParameterError, setting, told
from oboro.exact import about, show
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Forecast, Part
from oboro.tables.cells import MOST_BITS, Cells, Layout, column_groups

if TYPE_CHECKING:
    from oboro.tables.nested.known import KnownTotals
    from oboro.tables.tree.answers import Where
    from oboro.tables.tree.intervals import Answer
    from oboro.tables.tree.measure import Measured
    from oboro.tables.tree.outlook import Outlook
    from oboro.tables.tree.partition import Blocks
    from oboro.tables.tree.sized import Way
    from oboro.tables.tree.workload import Design, Workload

# The error that a table will have, by block size. From public facts alone.

_WITHIN = math.log(20) / math.sqrt(
    2
)  # the 95% point of Laplace noise in standard errors: 2.12; mixtures have less


def forecast_of(strategy: Strategy, expected_total: int | None = None) -> Forecast:
    """Standard errors of aligned blocks, before negative counts become 0."""
    layout, rows = strategy.layout, []
    for height in block_heights(layout):
        error = math.sqrt(strategy.variance(height))
        rows.append((block_name(layout, height), block_cells(layout, height), error, _WITHIN * error))
    notes = [
        "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
        *zigzag([float(row[2]) for row in rows]),
        *strategy.notes,
        *strategy.remarks(expected_total),
    ]
    columns = ("block size", "cells", "standard error", "95% within ±")
    return Forecast(
        f"expected error of a table by {strategy.name}, by block size", columns, tuple(rows), tuple(notes)
    )


def zigzag(errors: Sequence[float]) -> list[str]:
    """A note, if a larger block has a smaller error than the one before it: readers ask why. Of a public total nobody does."""
    falls = any(0 < later < 0.999 * error for error, later in pairwise(errors))
    note = (
        "the error may fall from one block size to the next larger one: only some sizes are counted, "
        "and those between are put together from many blocks"
    )
    return [note] if falls else []


def few_people(strategy: Strategy, total: int) -> list[str]:
    """A warning, if the error of a cell is more than a cell holds on average."""
    mean = total / strategy.layout.cells
    if mean >= math.sqrt(strategy.variance(0)):
        return []
    return [
        f"a cell holds {about(mean, 3)} people on average, less than the error of a cell: trust larger blocks only"
    ]


def published_if_even(noise: DiscreteLaplace, depth: int, total: float) -> float:
    """About how many cells the wavelet publishes if the noise alone decides where people go: they are spread evenly.

    f(s), the cells that come of a node that holds s, is E[f((s + z)/2) + f((s - z)/2)] one level up, with z the
    noise cut off at -s and s; one person is one cell. Interpolated between values of s that grow by a constant
    factor, with z at 64 quantiles.
    """
    if total < 1:
        return 0.0
    held = np.geomspace(1, max(total, 2.0), 160)
    levels = (np.arange(64) + 0.5) / 64
    z = as_float(noise.scale) * np.sign(levels - 0.5) * -np.log1p(-np.abs(2 * levels - 1))
    first = np.clip((held[:, None] + z) / 2, 0, held[:, None])
    cells = np.ones_like(held)
    for _ in range(depth):
        cells = (_cells(first, held, cells) + _cells(held[:, None] - first, held, cells)).mean(axis=1)
    return float(_cells(np.array([total]), held, cells)[0])


def _cells(s: Floats, held: Floats, cells: Floats) -> Floats:
    """f between its known values; half a person is a person half of the time."""
    inner = np.exp(np.interp(np.log(np.maximum(s, 1)), np.log(held), np.log(cells)))
    return np.asarray(np.minimum(s, 1) * inner)


def block_heights(layout: Layout) -> list[int]:
    """Heights of the blocks that people ask for: squares of a grid, meshes of a level, columns as a whole."""
    found, below = {layout.bits}, 0
    for column in reversed(tuple(layout.domain)):
        own = Layout(Domain([column]))
        if isinstance(column, Mesh):
            found |= {below + bits for bits in _mesh_levels(column)}
        else:
            found |= set(
                range(below, below + own.bits, len(column.sources) if isinstance(column, Grid) else 2)
            )
        below += own.bits
    return sorted(found)


def block_name(layout: Layout, height: int) -> str:
    """What a block of 2^height cells is: how much of each column it covers. "8 x 8 of row,col; all of sex"."""
    parts = []
    below = height
    for column in reversed(tuple(layout.domain)):
        own = Layout(Domain([column]))
        covered = min(below, own.bits)
        below -= covered
        if own.bits and (covered or isinstance(column, Grid | Mesh) or len(layout.domain) == 1):
            parts.append(_covered(column, own, covered))
    return "; ".join(reversed(parts)) or "one cell"


def block_cells(layout: Layout, height: int) -> str:
    """How many cells of the domain lie in a whole block of 2^height keys, as people read it."""
    powers = all(size & (size - 1) == 0 for size in layout.sizes)  # then every block is one
    return f"2^{height}" if powers else f"{cells_within(layout, height):,}"


def cells_within(layout: Layout, height: int) -> int:
    """The same as a number: sides are filled up to powers of two, with nobody."""
    return math.prod(
        min(size, 1 << sum(place < height for place in places))
        for size, places in zip(layout.sizes, layout.pattern, strict=True)
    )


def _covered(column: Column, own: Layout, bits: int) -> str:
    if bits == own.bits:
        return f"all of {column.name}"
    if isinstance(column, Mesh) and bits in (levels := _mesh_levels(column)):
        return levels[bits].replace("km", " km").replace("0m", "0 m") + " mesh"
    sides = [
        min(size, 1 << sum(place < bits for place in places))
        for size, places in zip(own.sizes, own.pattern, strict=True)
    ]
    if isinstance(column, Grid):
        return " x ".join(map(str, sides)) + f" of {column.name}"
    return f"{math.prod(sides):,} of {column.name}"


def _mesh_levels(column: Mesh) -> dict[int, str]:
    """How many bits of a code lie below a mesh of each level."""
    widths = [sum(width(side) for side in group) for group in column.groups[1:]]
    return {
        sum(widths[len(groups) :]): level for level, groups in LEVELS.items() if len(groups) <= len(widths)
    }


Noise = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Strategy:
    """Takes sorted cells and gives sorted cells, with counts that are whole and above 0."""

    layout: Layout
    guarantee: Pure | Approx
    unit: Unit
    total: int | None = None
    workload: Workload | None = None
    design: Design | None = None
    publish: Fraction | None = (
        None  # the share of published cells that may hold nobody, where a tree limits it
    )
    known: tuple[KnownTotals, ...] = ()  # totals of areas that are public from elsewhere
    by_people: tuple[Way, ...] = ()  # how people are counted by how many there are, where that is asked first

    name: ClassVar[str]
    title: ClassVar[str]
    largest_bits: ClassVar[int] = MOST_BITS
    why: ClassVar[str] = "a cell is named by a number of 62 bits"
    takes_total: ClassVar[bool] = False  # can start from a public total
    takes_known: ClassVar[bool] = False  # can hold known totals of areas
    takes_areas: ClassVar[bool] = False  # can count areas
    takes_delta: ClassVar[bool] = False  # can use a delta
    planned: ClassVar[bool] = False  # counts at levels that were planned for a workload
    looks: ClassVar[bool] = False  # divides the table as people are found in it
    sized: ClassVar[bool] = False  # asks how many people there are, and goes one of several ways
    carries: ClassVar[bool] = False  # the published file carries what intervals come from
    slowness: ClassVar[int] = 1  # see `Plan.slowness`
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def eps(self) -> Fraction:
        return self.guarantee.eps

    def needs(self) -> str | None:
        """What it needs, if the domain is not of the right form."""
        return None

    @property
    def chosen(self) -> Design | None:
        """The levels that are counted, and their shares, where they are planned."""
        return None

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Of eps, in the order of `parts`, where levels are planned."""
        return () if self.chosen is None else self.chosen.shares

    def check_domain(self) -> None:
        """Refuses a domain that this strategy cannot serve."""
        if self.layout.bits > self.largest_bits:
            raise DomainError(
                f"the domain is too large for strategy {self.name!r}",
                given=f"2^{self.layout.bits} cells",
                needed=f"at most 2^{self.largest_bits}: {self.why}",
                fix=setting(strategy="wavelet"),
            )
        areas = any(isinstance(column, Areas) for column in self.layout.domain)
        needed = "a domain without areas" if areas and not self.takes_areas else self.needs()
        if needed is not None:
            raise DomainError(
                f"strategy {self.name!r} cannot serve this domain",
                given=", ".join(self.layout.domain.names),
                needed=needed,
                fix=setting(strategy="tree" if areas else "wavelet"),
            )

    def check(self) -> None:
        """Refuses facts that this strategy cannot serve."""
        if self.total is not None and (self.unit.adjacency != "replace" or not self.takes_total):
            raise ParameterError(
                "a public total cannot be used here",
                given=told(total=f"{self.total}") + f", {self.unit}, " + told(strategy=repr(self.name)),
                needed=setting(strategy="tree")
                + " and "
                + setting(adjacency="replace")
                + ", under which the number of units is public",
                fix=setting(total=None),
            )
        tuned = self.planned or self.sized
        if (self.workload is not None and not tuned) or (self.design is not None and not self.planned):
            raise ParameterError(
                "only a tree is planned for a workload",
                given=told(workload=repr(str(self.workload)), strategy=repr(self.name)),
                needed=setting(strategy="tree"),
                fix=setting(strategy="tree"),
            )
        if self.by_people and not self.sized:
            raise ParameterError(
                "only one strategy goes several ways",
                given=told(by_people=f"{len(self.by_people)} ways", strategy=repr(self.name)),
                needed=setting(strategy="sized"),
                argument="by_people",
            )
        if self.known and not self.takes_known:
            raise ParameterError(
                "only a tree over areas holds known totals",
                given=told(known="; ".join(one.kind for one in self.known), strategy=repr(self.name)),
                needed="a column of areas in the domain, and " + setting(strategy="tree"),
                argument="known",
            )
        if not self.takes_delta and isinstance(self.guarantee, Approx):
            raise GuaranteeError(
                "only a tree uses a delta",
                given=told(strategy=repr(self.name)),
                needed=setting(strategy="tree"),
                fix=setting(delta=None),
            )
        if (not self.planned or self.looks) and self.publish is not None:
            raise ParameterError(
                "only a tree limits the share of empty cells among those that it publishes",
                given=told(publish=show(self.publish), strategy=repr(self.name)),
                needed=setting(strategy="tree"),
                fix=setting(strategy="tree"),
            )
        self.check_domain()

    @cached_property
    def noise(self) -> Noise:
        """The noise of each number that is measured; where there are several, of each cell."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Each noise, what it is added to, how far one unit moves that, what it costs."""
        raise NotImplementedError  # pragma: no cover

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> Sequence[Cells]:
        """The published cells, so many times, each with noise of its own."""
        raise NotImplementedError  # pragma: no cover

    def variance(self, height: int) -> float:
        """Of the sum of an aligned block of 2^height cells, before negative counts become 0."""
        raise NotImplementedError  # pragma: no cover

    def remarks(self, expected_total: int | None) -> Sequence[str]:
        """What a forecast says beyond errors; more, if someone guesses how many people there are."""
        return () if expected_total is None else few_people(self, expected_total)

    def lacking(self, people: int | None) -> list[str]:
        """What a forecast says where the published file will not, or may not, carry what intervals of areas come from."""
        return []

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """The error by block size, and what else there is to say before spending."""
        return forecast_of(self, expected_total)

    @property
    def crowds(self) -> Sequence[int]:
        """How many others in one cell make what a unit does there worst, for the audit."""
        return ()

    def outlook(self, total: int) -> Outlook | None:
        """What so many people would mean for cells, where that can be told."""
        return None

    def words(self) -> dict[str, object]:
        """For the certificate: the noise, and what it was made for."""
        words: dict[str, object] = {**self.noise.to_dict(), "strategy": self.name}
        if isinstance(self.noise, DiscreteLaplace):
            moves = next(part.moves for part in self.parts if part.noise == self.noise)
            words |= {"sensitivity": show(moves)}
        return words

    def published(self, table: Table) -> Measured:
        """What a published table says, and what its file carries for intervals."""
        from oboro.tables.tree.intervals import published_in

        if not self.carries:
            raise self._carries_nothing()
        return published_in(table, self.layout)

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        """The lowest and highest count of each published row, where the file carries what they come from."""
        raise self._carries_nothing()

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        """What the published table says about a part of it, with an interval for the true number."""
        raise self._carries_nothing()

    def part_alone(self, table: Table) -> bool:
        """Whether `answer` looks at no published rows but those of the part that is asked for, in a table that carries so much."""
        return False

    def of_blocks(
        self, published: Measured, side: int, questions: Sequence[Where], level: float
    ) -> Blocks | None:
        """All blocks of so many cells a side at once, for questions about the other columns; None where only `answer` can tell."""
        return None

    def by(self, published: Measured, names: Sequence[str], count: str, level: float) -> Table:
        """A table of its own, of areas and other columns: counts with their intervals."""
        raise DataError(
            "only a table over areas has tables of its own by area",
            given=", ".join(names),
            needed="a domain with a column of areas",
        )

    def unallocated(self, table: Table) -> Table:
        """Blocks that hold people who are in no published cell."""
        raise DataError(
            "only a filtered table leaves people unallocated", needed="a table by strategy filtered"
        )

    def _carries_nothing(self) -> DataError:
        return DataError(
            f"a table by strategy {self.name} carries nothing that intervals could come from",
            needed="a table by one of the strategies tree, filtered, adaptive, sized",
            fix="oboro table release ... --strategy tree -o published.parquet",
        )


def counts_move(unit: Unit) -> int:
    """How far one unit moves all counts together, in the 1-norm: those of cells, or of any places that do not overlap.

    Privacy
        A unit adds at most `max_per_cell` to each of at most `max_cells` cells, or 1 for each of at most
        `max_rows` rows. Under replace it takes that away in one place and adds it in another.
    """
    return unit.contributions * (unit.max_per_cell or 1) * (2 if unit.adjacency == "replace" else 1)


def counts_move_squared(unit: Unit) -> int:
    """The same in the squared 2-norm.

    Privacy
        All that a unit adds may fall into one place: m = max_cells max_per_cell (or max_rows) in the 2-norm. Under replace
        it also takes away as much elsewhere: m sqrt 2.
    """
    moved = unit.contributions * (unit.max_per_cell or 1)
    return moved**2 * (2 if unit.adjacency == "replace" else 1)


# Sorted cells as the table that goes out: the columns that came in, and a count. And back to records, for the audit.


def to_table(cells: Cells, layout: Layout, count: str, estimates: Integers | None = None) -> Table:
    """One row for each cell that is not 0, in the order of keys; `estimates` beside the counts where they differ."""
    import pyarrow as pa

    columns: dict[str, object] = {}
    for name, values in key_columns(cells.keys, layout):
        columns[name] = values
    columns[count] = _arrow(cells.counts)
    if estimates is not None:
        differ = pa.py_buffer(np.packbits(estimates != cells.counts, bitorder="little"))
        values = pa.py_buffer(np.ascontiguousarray(estimates))
        beside = pa.Array.from_buffers(pa.int64(), estimates.size, [differ, values])
        columns[estimate_name(count, layout.domain)] = beside
    return pa.table(columns)


def estimate_name(count: str, domain: Domain) -> str:
    """What the column of estimates is called."""
    taken = {count, *(name for column in domain for name in column.sources)}
    return "estimate" if "estimate" not in taken else f"estimate of {count}"


def count_name(count: str | None, domain: Domain) -> str:
    """What the column of counts is called: as in the data, if they were counted there."""
    taken = {name for column in domain for name in column.sources}
    return count if count is not None else "count" if "count" not in taken else "noisy count"


def key_columns(keys: Integers, layout: Layout) -> Iterator[tuple[str, Any]]:
    """The columns of the data that say which cell it is."""

    axes = iter(layout.places(keys))
    for column in layout.domain:
        own = [next(axes) for group in column_groups(column) for _ in group]
        if isinstance(column, Grid):
            for name, places in zip(column.names, own, strict=True):
                yield name, _arrow(places.astype(np.int32))
        elif isinstance(column, Mesh):
            yield column.name, _arrow(column.from_axes(own))
        elif isinstance(column, Areas):
            yield from _cells_of(column, own[0])
        else:
            yield column.name, _values(column, own[0])


def _cells_of(column: Areas, codes: Integers) -> Iterator[tuple[str, Any]]:
    """The cells of areas: mesh codes, rows and columns, or names."""
    if column.of is None:
        yield column.name, _values(Category(column.name, column.names), codes)
        return
    narrow = np.int32 if isinstance(column.of, Grid) else np.int64
    for name, places in zip(column.sources, column.decode(codes), strict=True):
        yield name, _arrow(places.astype(narrow))


def _values(column: Column, codes: Integers) -> Any:
    import pyarrow as pa

    if isinstance(column, Integer):
        return _arrow(column.low + codes * column.step)
    if isinstance(column, Category):
        known = pa.array(list(column.values))
        return pa.DictionaryArray.from_arrays(_arrow(codes.astype(np.int32)), known)
    if isinstance(column, Date):
        days = codes + (column.first.toordinal() - 719163)  # days since 1970-01-01
        return _arrow(days.astype(np.int32)).cast(pa.date32())
    unique, places = np.unique(
        codes, return_inverse=True
    )  # exact rationals to the nearest double, once for each value
    return pa.array(np.array([column.value(int(code)) for code in unique], float)[places])


def _arrow(numbers: Any) -> Any:
    """An Arrow array without a copy. (pa.array loads pandas, which takes half a second.)"""
    import pyarrow as pa

    kind = pa.int64() if numbers.dtype == np.int64 else pa.int32()
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(np.ascontiguousarray(numbers))])
