"""What a plan measured, as numbers and as the table that goes out: noisy counts, and how blocks were put into bins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Domain
from oboro.synth.binning import Binned
from oboro.synth.junction import Clique
from oboro.synth.oneway import Level, Shape

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

    parts = [part for part in _parts(measured, domain.names) if len(part[-1])]
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


def _parts(measured: Measured, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
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


def from_rows(table: Any, domain: Domain) -> Measured:
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
