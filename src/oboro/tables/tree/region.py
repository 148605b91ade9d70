"""The cells that a question chooses, without listing them: ranges along every axis of the keys.

A block of keys, the cells that share their first bits, is a range along each axis. So how many cells of a block are
asked for is a product of lengths, whatever the size of the table. Codes of meshes of several sizes are several boxes
that do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.domain import Column, Grid, Mesh
from oboro.tables.layout import Layout, column_groups
from oboro.tables.tree.asking import Where, check_names, code_of, listed, no_value


@dataclass(frozen=True)
class Ranges:
    """Places along one axis: ranges from a start to before an end, in order, none overlapping."""

    starts: Integers
    ends: Integers

    @classmethod
    def of(cls, values: Iterable[int]) -> Ranges:
        starts = np.unique(np.fromiter(values, np.int64))
        return cls(starts, starts + 1)

    @classmethod
    def whole(cls, size: int) -> Ranges:
        return cls(np.zeros(1, np.int64), np.array([size], np.int64))

    @cached_property
    def _before(self) -> Integers:
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)])

    def below(self, places: Integers) -> Integers:
        """How many of them lie before each place."""
        at = np.searchsorted(self.starts, places, side="right") - 1
        near = np.maximum(at, 0)
        inside = self._before[near] + np.minimum(places, self.ends[near]) - self.starts[near]
        return np.where(at < 0, 0, inside)

    def hold(self, places: Integers) -> npt.NDArray[np.bool_]:
        return self.below(places + 1) > self.below(places)


@dataclass(frozen=True)
class Region:
    """Boxes that do not overlap: for every axis of the keys the places that are asked for."""

    layout: Layout
    boxes: tuple[tuple[Ranges, ...], ...]

    def cells(self, first: Integers, height: int) -> Integers:
        """How many cells of each block are asked for. A block of 2^height cells is named by its first key."""
        places = self.layout.places(first)
        sides = [1 << sum(bit < height for bit in bits) for bits in self.layout.pattern]
        total = np.zeros(first.shape, np.int64)
        for box in self.boxes:
            count = np.ones(first.shape, np.int64)
            for ranges, place, side in zip(box, places, sides, strict=True):
                count *= ranges.below(place + side) - ranges.below(place)
            total += count
        return total

    def hold(self, keys: Integers) -> npt.NDArray[np.bool_]:
        """Which cells are asked for."""
        return self.cells(keys, 0) > 0

    @property
    def size(self) -> int:
        return int(self.cells(np.zeros(1, np.int64), self.layout.bits)[0])


def everything(layout: Layout) -> Region:
    return Region(layout, (tuple(Ranges.whole(size) for size in layout.sizes),))


def region_of(layout: Layout, where: Where) -> Region:
    """The cells that a question chooses."""
    check_names(layout, where)
    columns = [_boxes(column, where) for column in layout.domain]
    return Region(layout, tuple(tuple(r for part in parts for r in part) for parts in product(*columns)))


def _boxes(column: Column, where: Where) -> list[tuple[Ranges, ...]]:
    """What is asked of one column: boxes over its axes."""
    sizes = [size for group in column_groups(column) for size in group]
    asked = {name: where[name] for name in column.sources if name in where}
    if isinstance(column, Mesh) and asked:
        return _meshes(column, listed(asked[column.name]), sizes)
    ranges = [Ranges.whole(size) for size in sizes]
    for name, values in asked.items():
        axis = column.names.index(name) if isinstance(column, Grid) else 0
        ranges[axis] = _places(column, name, values, sizes[axis])
    return [tuple(ranges)]


def _places(column: Column, name: str, values: Any, size: int) -> Ranges:
    def place(value: Any) -> int:
        if not isinstance(column, Grid):
            return code_of(column, name, value)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise no_value(name, values) from None

    if isinstance(values, tuple) and len(values) == 2:
        low, high = max(place(values[0]), 0), min(place(values[1]), size - 1)
        if low > high:
            raise no_value(name, values)
        return Ranges(np.array([low], np.int64), np.array([high + 1], np.int64))
    found = [place(value) for value in listed(values)]
    if not found or min(found) < 0 or max(found) >= size:
        raise no_value(name, values)
    return Ranges.of(found)


def _meshes(column: Mesh, values: list[Any], sizes: list[int]) -> list[tuple[Ranges, ...]]:
    """Codes of this mesh or of any coarser one; a code within another adds nothing."""
    texts = sorted({str(value) for value in values}, key=len)
    kept: list[str] = []
    for text in texts:
        if not text.startswith(tuple(kept)):
            kept.append(text)
    return [_mesh(column, text, sizes) for text in kept]


def _mesh(column: Mesh, text: str, sizes: list[int]) -> tuple[Ranges, ...]:
    """The first digits say which primary mesh; then come row and column of each finer one, or a quarter's number."""
    wrong = no_value(column.name, text)
    if not text.isdigit() or not 4 <= len(text) <= column.digits or int(text[:4]) not in column.region:
        raise wrong
    fixed, digits = [column.region.index(int(text[:4]))], text[4:]
    while digits:
        axis = len(fixed)
        if sizes[axis] == 2:
            quarter, digits = int(digits[0]) - 1, digits[1:]
            fixed += [quarter >> 1, quarter & 1]
        else:
            fixed, digits = [*fixed, *(int(digit) for digit in digits[:2])], digits[2:]
    if any(not 0 <= place < size for place, size in zip(fixed, sizes, strict=False)):
        raise wrong
    rest = sizes[len(fixed) :]
    return (*(Ranges.of([place]) for place in fixed), *(Ranges.whole(size) for size in rest))
