"""What a plan measured, as numbers and as the table that goes out: noisy counts, and how blocks were put into bins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers, Schema, Table
from oboro.domain import Category, Column, Domain
from oboro.synth.codes import code_count
from oboro.synth.junction import Clique
from oboro.synth.levels import Level, Noise
from oboro.synth.shape import Shape, averaged

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
    first, *further = averaged(levels, noises)
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


def schema_of_rows() -> Schema:
    """The columns of that table."""
    import pyarrow as pa

    kinds = (pa.string(), pa.string(), pa.int32(), *[pa.int64()] * 4)
    return pa.schema(list(zip(_FIELDS, kinds, strict=True)))


_ALIKE = 1 << 12  # rows that are written at once


def to_rows(measured: Measured, domain: Domain) -> Any:
    """The release: a long table that says in each line how many records lie where.

    step "one": codes first to second - 1 of a column, at a level. step "bins": these codes are in bin `third`, and about `count`
    records are there. step "joint": bins first, second and third of the columns listed. step "moment": a sum of products.
    """
    import pyarrow as pa

    parts = [part for part in _measured_parts(measured, domain.names) if len(part[-1])]
    columns: list[Any] = []
    for place, kind in enumerate(schema_of_rows().types):
        pieces: list[Any] = []
        for part in parts:
            value, length = part[place], len(part[-1])
            if isinstance(value, np.ndarray):
                pieces.append(pa.array(value, kind))
                continue
            alike = pa.array([value] * min(length, _ALIKE), kind)  # an array of texts has room for 2 GB
            pieces += [alike.slice(0, length - first) for first in range(0, length, _ALIKE)]
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


def longest_text(domain: Domain) -> int:
    """Bytes that no text in that table is longer than: it names up to three columns."""
    return 16 + 3 * max(len(json.dumps(name)) for name in domain.names)


def from_rows(table: Table, domain: Domain) -> Measured:
    """What `to_rows` wrote; what it cannot have written raises, before anything is made as large as it says."""
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
        start, stop, number = whole("first", at), whole("second", at), whole("third", at)
        covered = np.array_equal(np.append(start, code_count(column)), np.append(0, stop))
        if not (start < stop).all() or not covered or not ((number >= 0) & (number < start.size)).all():
            raise ValueError("blocks that do not cover the column once, or a bin without a block")
        bins.append(Binned(Shape(start, stop, whole("count", at) / 1000, column.size), number))
    tables: list[tuple[Clique, Integers]] = []
    joint = kind == "joint"
    starts = np.flatnonzero(joint & (data["first"] <= 0) & (data["second"] <= 0) & (data["third"] <= 0))
    for first, last in zip(
        starts, [*starts[1:], *[np.flatnonzero(joint)[-1] + 1 if joint.any() else 0]], strict=False
    ):
        columns = tuple(place[name] for name in json.loads(of[first]))
        if not columns or list(columns) != sorted(set(columns)):
            raise ValueError("columns out of their order")
        counts = whole("count", slice(first, last))
        tables.append((columns, counts.reshape([bins[i].size for i in columns])))
    return Measured(tuple(levels), tuple(bins), tuple(tables), whole("count", kind == "moment"))
