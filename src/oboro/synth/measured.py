"""What a plan measured, as numbers and as the table that goes out: noisy counts, and how blocks were put into bins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.domain import Category, Column, Domain
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.synth.codes import code_count
from oboro.synth.junction import Clique, Noisy

Noise = DiscreteGaussian | DiscreteLaplace

# Each column on its own: noisy counts of blocks of codes, split further where there is something to see.
#
# A column of up to 32 values, or of categories, is counted value by value. A longer one is cut into at most 16 blocks of
# equal width. Blocks whose noisy count stands out from the noise are cut again, and so on down to single values; the others are counted
# again. So a spike at 0 among a hundred thousand possible amounts is found, without a bin being chosen by hand; and where there is little
# to see, noise is on few blocks: of 121 ages counted one by one, those that nobody has would take records from the others.

STANDS_OUT = 4.0  # standard deviations of the noise


@dataclass(frozen=True, slots=True)
class Counting:
    """How columns are counted, and what that costs. Public facts alone."""

    parts: int  # a block is cut into at most so many; up to twice as many values are counted one by one
    again: bool  # whether blocks that are not cut are counted again at every further level
    least: float = 0.0  # a variance below it is taken for it when a law is fitted: else the steps follow the one table that is all but exact, and never the others

    def blocks(self, column: Column) -> int:
        """How many blocks its first level has."""
        depth = self._depth(column)
        return column.size if depth == 1 else math.ceil(column.size ** (1 / depth) - 1e-9)

    def shares(self, column: Column) -> list[Fraction]:
        """How a column's price is split between its levels: as 1 to 2 to 3; or half for the first, the rest evenly."""
        levels = self._depth(column)
        if self.again or levels == 1:
            return [Fraction(2 * place, levels * (levels + 1)) for place in range(1, levels + 1)]
        return [Fraction(1, 2)] + [Fraction(1, 2 * (levels - 1))] * (levels - 1)

    def weight(self, column: Column) -> int:
        """What a column costs beside the others.

        Of k cells, noise of standard deviation s moves about k s records; at prices in proportion to k^(2/3) the sum over columns is least.
        Of very many categories few hold anybody: cells beyond those that numbers can have count no more.
        """
        return round(100 * min(self.blocks(column), 2 * self.parts) ** (2 / 3)) if self.again else 1

    def noisy(self, columns: Clique, counts: Integers | Floats, variance: Floats, total: float) -> Noisy:
        """A table for the fit, as shares of all records."""
        return Noisy(columns, counts / total, total**2 / np.maximum(variance, self.least))

    def _depth(self, column: Column) -> int:
        if isinstance(column, Category) or column.size <= 2 * self.parts:
            return 1
        return math.ceil(math.log(column.size) / math.log(self.parts) - 1e-9)


COUNTINGS = 3  # so many ways there are: the last is that of new plans


def counting_of(number: int) -> Counting:
    """The way with this number; 1 is that of plans which do not say. A value of its own for each plan."""
    if number == 1:
        return Counting(64, again=False)
    return Counting(16, again=True, least=0.01 if number > 2 else 0.0)


@dataclass(frozen=True, slots=True)
class Level:
    """Blocks [start, stop) of codes that were counted together, and their noisy counts."""

    start: Integers
    stop: Integers
    count: Integers


@dataclass(frozen=True, slots=True)
class Shape:
    """What is believed of one column: disjoint blocks of codes that cover it, and how many records lie in each.

    `values` is the number of its values: a block that begins there holds what is missing.
    """

    start: Integers
    stop: Integers
    mass: Floats
    values: int

    def block_of(self, codes: Integers) -> Integers:
        return np.searchsorted(self.start, codes, side="right") - 1


def measure_column(
    codes: Integers, column: Column, parts: int, noises: Sequence[Noise], bits: Bits, *, again: bool
) -> list[Level]:
    """Noisy counts, level by level; which blocks are cut, into so many, depends on noisy counts alone.

    The blocks of a level do not overlap: so those that were not cut are counted `again` at no further cost.
    """
    size = column.size
    edges = _cut(0, size, parts)
    start, stop = edges[:-1], edges[1:]
    if code_count(column) > size:  # missing is a block of its own
        start, stop = np.append(start, size), np.append(stop, size + 1)
    levels: list[Level] = []
    for noise in noises:
        levels.append(Level(start, stop, _counts(codes, start, stop) + noise.sample(start.size, bits)))
        wide = (levels[-1].count >= STANDS_OUT * noise.sd) & (stop - start > 1)
        if not (wide.any() or again):
            break
        cuts = [
            _cut(int(a), int(b), parts if cut else 1)
            for a, b, cut in zip(start, stop, wide, strict=True)
            if cut or again
        ]
        start, stop = np.concatenate([cut[:-1] for cut in cuts]), np.concatenate([cut[1:] for cut in cuts])
    return levels


def total_of(columns: Sequence[Sequence[Level]], noises: Sequence[Sequence[Noise]]) -> float:
    """How many records there are, from all first levels together: each sum weighs as the inverse of its variance."""
    sums = np.array([float(levels[0].count.sum()) for levels in columns])
    weights = np.array(
        [1 / (levels[0].count.size * noise[0].sd ** 2) for levels, noise in zip(columns, noises, strict=True)]
    )
    return max(1.0, float(sums @ weights / weights.sum()))


def shape_of(levels: Sequence[Level], noises: Sequence[Noise], column: Column, total: float) -> Shape:
    """The levels made one: counts that are not negative, add up to the total, and agree with one another."""
    first, *further = _averaged(levels, noises)
    seen = first.count.copy()
    missing = first.start >= column.size
    by_noise = seen < STANDS_OUT * np.sqrt(first.variance)
    seen[missing & by_noise] = 0.0  # nulls that the noise alone could have made
    mass = on_simplex(seen, total)
    if not seen[missing].any() and missing.any():
        mass = np.where(missing, 0.0, on_simplex(np.where(missing, -np.inf, seen), total))
    shape = Shape(first.start, first.stop, mass, column.size)
    for level in further:
        shape = _refined(shape, level)
    return shape


@dataclass(frozen=True, slots=True)
class Averaged:
    """Blocks, what was counted in them on average, and the variance of that."""

    start: Integers
    stop: Integers
    count: Floats
    variance: Floats


def _averaged(levels: Sequence[Level], noises: Sequence[Noise]) -> list[Averaged]:
    """The blocks that are new at each level; counts of a block at later levels are averaged into its first, each by its variance."""
    found: list[Averaged] = []
    for level, noise in zip(levels, noises, strict=False):
        new = np.ones(level.start.size, np.bool_)
        for earlier in found:
            at = np.minimum(np.searchsorted(earlier.start, level.start), earlier.start.size - 1)
            same = (earlier.start[at] == level.start) & (earlier.stop[at] == level.stop)
            place, variance = at[same], earlier.variance[at[same]]
            both = variance + noise.sd**2
            earlier.count[place] += variance / both * (level.count[same] - earlier.count[place])
            earlier.variance[place] = variance * noise.sd**2 / both  # never 0, however little noise there is
            new &= ~same
        if new.any():
            variances = np.full(np.count_nonzero(new), noise.sd**2)
            found.append(
                Averaged(level.start[new], level.stop[new], level.count[new].astype(float), variances)
            )
    return found


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest point with no negative part that adds up to the total."""
    order = np.sort(values)[::-1]
    excess = np.cumsum(np.where(np.isfinite(order), order, 0.0)) - total
    ranks = np.arange(1, order.size + 1)
    keep = max(1, int(np.count_nonzero(order - excess / ranks > 0)))
    return np.asarray(np.maximum(values - excess[keep - 1] / keep, 0.0))


def _refined(shape: Shape, level: Averaged) -> Shape:
    """Each block that was cut is replaced by its parts.

    Their counts are drawn towards the split that the blocks beside it suggest, by as much as the noise explains their differences [James and Stein 1961].
    """
    parent = shape.block_of(level.start)
    start, stop, mass = [], [], []
    kept = np.ones(shape.start.size, bool)
    kept[parent] = False
    slope = _slopes(shape)
    blocks, first = np.unique(parent, return_index=True)  # parts of a block follow one another
    for block, inside in zip(blocks, map(slice, first, [*first[1:], parent.size]), strict=True):
        width = (level.stop[inside] - level.start[inside]).astype(float)
        off_middle = (level.start[inside] + level.stop[inside] - shape.start[block] - shape.stop[block]) / 2
        guess = (shape.mass[block] / width.sum() + slope[block] * off_middle) * width
        away = level.count[inside] - guess
        away -= away.mean()
        signal = float(away @ away)
        noise = max(away.size - 3, 0) * float(level.variance[inside].mean())
        trust = max(0.0, 1 - noise / signal) if signal > 0 else 0.0
        start.append(level.start[inside])
        stop.append(level.stop[inside])
        mass.append(on_simplex(guess + trust * away, float(shape.mass[block])))
    starts = np.concatenate([shape.start[kept], *start])
    order = np.argsort(starts)
    return Shape(
        starts[order],
        np.concatenate([shape.stop[kept], *stop])[order],
        np.concatenate([shape.mass[kept], *mass])[order],
        shape.values,
    )


def _slopes(shape: Shape) -> Floats:
    """How fast records become more or fewer for each value within a block, by the blocks beside it; 0 at a peak, a valley, and both ends.

    Never so fast that a neighbour's level is overshot [van Leer 1977, the monotonized central slope], or that fewer than none are left at an end of the block.
    """
    found = np.zeros(shape.start.size)
    known = np.flatnonzero(shape.start < shape.values)  # what is missing lies beside nothing
    start, stop = shape.start[known], shape.stop[known]
    width = (stop - start).astype(float)
    # from middle to middle; of more than 2^53 values the middles themselves may be one and the same double
    apart = (np.diff(start).astype(float) + np.diff(stop).astype(float)) / 2
    density = shape.mass[known] / width
    if density.size < 3:
        return found
    step = np.diff(density) / apart
    before, after = step[:-1], step[1:]
    across = (density[2:] - density[:-2]) / (apart[:-1] + apart[1:])
    most = np.minimum(2 * np.minimum(np.abs(before), np.abs(after)), 2 * density[1:-1] / width[1:-1])
    found[known[1:-1]] = np.where(before * after > 0, np.clip(across, -most, most), 0.0)
    return found


def _cut(start: int, stop: int, parts: int) -> Integers:
    """Edges of so many blocks of all but equal width, exactly."""
    parts = min(parts, stop - start)
    return np.array([start + (stop - start) * i // parts for i in range(parts + 1)], np.int64)


def _counts(codes: Integers, start: Integers, stop: Integers) -> Integers:
    block = np.searchsorted(start, codes, side="right") - 1
    inside = (block >= 0) & (codes < stop[block])
    return np.bincount(block[inside], minlength=start.size).astype(np.int64)


# Blocks of codes put together into few bins, so that tables of two or more columns stay small. From noisy counts alone.


@dataclass(frozen=True, slots=True)
class Binned:
    """A column's shape, and the bin that each of its blocks belongs to."""

    shape: Shape
    bin: Integers

    @property
    def size(self) -> int:
        return int(self.bin.max()) + 1

    @property
    def mass(self) -> Floats:
        """How many records each bin holds."""
        return np.bincount(self.bin, self.shape.mass, minlength=self.size).astype(np.float64)

    def bins_of(self, codes: Integers) -> Integers:
        return self.bin[self.shape.block_of(codes)]


def variances(column: Binned, levels: Sequence[Level], noises: Sequence[Noise]) -> Floats:
    """Of how many records each bin holds: that of the blocks of the first level in it, and where it has but some parts of one, that of these parts."""
    first, *further = _averaged(levels, noises)
    shape = column.shape
    owner = np.searchsorted(first.start, shape.start, side="right") - 1
    each = first.variance[owner]
    for level in further:
        at = np.maximum(np.searchsorted(level.start, shape.start, side="right") - 1, 0)
        inside = (level.start[at] <= shape.start) & (shape.stop <= level.stop[at])
        each = np.where(inside, level.variance[at], each)
    there, cell = np.unique(owner * column.size + column.bin, return_inverse=True)  # few of all pairs
    block, bin_of = np.divmod(there, column.size)
    share = np.bincount(cell) / np.bincount(owner)[block]
    found = share**2 * first.variance[block] + (1 - share) * np.bincount(cell, each)
    return np.bincount(bin_of, found, minlength=column.size).astype(np.float64)


def most_bins_of(column: Column, most: int, categories: int) -> int:
    """How many bins a column can have at most, by public facts alone: `binned` never makes more."""
    if isinstance(column, Category):
        return min(column.size, categories) + (code_count(column) > column.size)
    return min(code_count(column), most + 2)


def binned(shape: Shape, column: Column, most: int, categories: int, least: float) -> Binned:
    """At most `most` + 1 bins and one for missing, each of at least `least` records where that can be.

    The most frequent `categories` keep their own bins; those too rare to tell anything, or too many, share one. Numbers and dates are gathered from
    the lowest upwards until a bin is full; a value so frequent that it fills a bin has one for itself.
    """
    known = shape.start < column.size
    bins = np.zeros(shape.start.size, np.int64)
    if isinstance(column, Category):
        frequent = known & (shape.mass >= least)
        if column.size > categories and np.count_nonzero(frequent) >= categories:
            order = np.argsort(np.where(frequent, -shape.mass, np.inf), kind="stable")
            frequent[order[categories - 1 :]] = False
        if np.count_nonzero(known & ~frequent) <= 1:
            frequent = known
        bins[frequent] = np.arange(np.count_nonzero(frequent))
        bins[known & ~frequent] = np.count_nonzero(frequent)
    else:
        bins[known] = _gathered(shape.mass[known], most, least)
    for block in np.flatnonzero(~known):  # missing: a bin of its own, unless nothing is there
        bins[block] = bins[known].max() + 1 if shape.mass[block] > 0 else bins[known].max()
    return Binned(shape, bins)


def _gathered(mass: Floats, most: int, least: float) -> Integers:
    """Blocks that fill a bin of equal shares by themselves are set apart; the rest share the bins that are left, as evenly."""
    alone = mass >= max(least, float(mass.sum()) / most)
    full = max(least, float(mass[~alone].sum()) / max(1, most - int(np.count_nonzero(alone))))
    groups: list[list[int]] = []
    held: list[float] = []
    for place, here in enumerate(mass.tolist()):
        if groups and not alone[place] and not alone[groups[-1][-1]] and held[-1] < full:
            groups[-1].append(place)
            held[-1] += here
        else:
            groups.append([place])
            held.append(here)
    few = least / 2
    others = sorted(
        (here for group, here in zip(groups, held, strict=True) if not alone[group[0]]), reverse=True
    )
    room = max(0, most - int(np.count_nonzero(alone)))
    if len(others) > room:
        few = max(few, np.nextafter(others[room], np.inf))
    bins = np.empty(mass.size, np.int64)
    number = -1
    for place, (group, here) in enumerate(zip(groups, held, strict=True)):
        number += (
            place == 0 or here >= few or bool(alone[group[0]])
        )  # a few left over join the bin before them
        bins[group] = number
    return bins


_FIELDS = ("step", "columns", "level", "first", "second", "third", "count")


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was learned from the data. All of it is noisy, or follows from noisy counts alone."""

    levels: tuple[tuple[Level, ...], ...]  # of each column
    bins: tuple[Binned, ...]
    tables: tuple[tuple[Clique, Integers], ...]  # noisy counts of several columns, in bins
    moments: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def numbers(self) -> Integers:
        """All noisy counts in a row, for the audit."""
        ones = [level.count for levels in self.levels for level in levels]
        return np.concatenate([*ones, *(counts.ravel() for _, counts in self.tables), self.moments])


def to_rows(measured: Measured, domain: Domain) -> Any:
    """The release: a long table that says in each line how many records lie where.

    step "one": codes first to second - 1 of a column, at a level. step "bins": these codes are in bin `third`, and about `count`
    records are there. step "joint": bins first, second and third of the columns listed. step "moment": a sum of products.
    """
    import pyarrow as pa

    parts = [part for part in _measured_parts(measured, domain.names) if len(part[-1])]
    columns: list[Any] = []
    for place, kind in enumerate(
        (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64())
    ):
        pieces = []
        for part in parts:
            value, length = part[place], len(part[-1])
            pieces.append(
                pa.array(value, kind) if isinstance(value, np.ndarray) else pa.array([value] * length, kind)
            )
        columns.append(pa.chunked_array(pieces, kind))
    return pa.table(columns, names=list(_FIELDS)).combine_chunks()


def _measured_parts(measured: Measured, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for name, levels in zip(names, measured.levels, strict=True):
        for number, level in enumerate(levels):
            yield "one", name, number, level.start, level.stop, None, level.count
    for name, bins in zip(names, measured.bins, strict=True):
        shape = bins.shape
        yield (
            "bins",
            name,
            None,
            shape.start,
            shape.stop,
            bins.bin,
            np.rint(shape.mass * 1000).astype(np.int64),
        )
    for columns, counts in measured.tables:
        places = [np.ascontiguousarray(axis.ravel()) for axis in np.indices(counts.shape)] + [None, None]
        yield (
            "joint",
            json.dumps([names[i] for i in columns], ensure_ascii=False),
            None,
            places[0],
            places[1],
            places[2],
            counts.ravel(),
        )
    if measured.moments.size:
        yield "moment", "all", None, np.arange(measured.moments.size), None, None, measured.moments


def from_rows(table: Table, domain: Domain) -> Measured:
    """What `to_rows` wrote."""
    data = {name: table.column(name).fill_null(-1).to_numpy() for name in _FIELDS[2:]}
    kind, of = (table.column(name).to_numpy().astype(object) for name in _FIELDS[:2])
    place = {name: i for i, name in enumerate(domain.names)}

    def whole(name: str, where: Any) -> Integers:
        return np.asarray(data[name][where], np.int64)

    levels, bins = [], []
    for column in domain:
        mine = (kind == "one") & (of == column.name)
        steps = np.unique(data["level"][mine].astype(np.int64))
        levels.append(
            tuple(
                Level(whole("first", at), whole("second", at), whole("count", at))
                for at in (mine & (data["level"] == step) for step in steps)
            )
        )
        at = (kind == "bins") & (of == column.name)
        bins.append(
            Binned(
                Shape(whole("first", at), whole("second", at), whole("count", at) / 1000, column.size),
                whole("third", at),
            )
        )
    tables: list[tuple[Clique, Integers]] = []
    joint = kind == "joint"
    starts = np.flatnonzero(joint & (data["first"] <= 0) & (data["second"] <= 0) & (data["third"] <= 0))
    for first, last in zip(
        starts, [*starts[1:], *[np.flatnonzero(joint)[-1] + 1 if joint.any() else 0]], strict=False
    ):
        columns = tuple(place[name] for name in json.loads(of[first]))
        counts = whole("count", slice(first, last))
        tables.append((columns, counts.reshape([bins[i].size for i in columns])))
    return Measured(tuple(levels), tuple(bins), tuple(tables), whole("count", kind == "moment"))
