"""Questions to a published table: a value, a list or a range for any of its columns; all of the others.

row=100..131   col=7   sex=F   code=5339,5340   age=20..64
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Bools, Floats, Integers
from oboro.domain import Areas, Column, Grid, Mesh
from oboro.errors import ParameterError, Setting, asked, told
from oboro.kinds import nearest
from oboro.tables.cells import Layout, column_groups
from oboro.tables.strategy import Noise
from oboro.tables.tree.errors import Error, counted, error_of
from oboro.tables.tree.intervals import Choice
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.planner import least_squares, moments
from oboro.tables.tree.workload import precision

Where = Mapping[str, object]


def check_names(layout: Layout, where: Where) -> None:
    """Refuses a question about columns that the table does not have."""
    known = [name for column in layout.domain for name in column.sources]
    for name in where:
        if name not in known:
            raise ParameterError(
                "the question names a column that the table does not have",
                given=str(name),
                needed=", ".join(known),
                fix=_example(layout, nearest(name, known) or known[0]),
            )


def _example(layout: Layout, name: str) -> Setting:
    column = next(column for column in layout.domain if name in column.sources)
    return asked(name, example(column, name))


def choices(layout: Layout, lattice: Lattice, where: Where) -> list[Choice]:
    """The leaves that a question chooses in each column."""
    check_names(layout, where)
    return [
        chosen_leaves(tree, column, where) for tree, column in zip(lattice.trees, layout.domain, strict=True)
    ]


def read_question(words: list[str]) -> dict[str, object]:
    """A question from the command line: COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH."""
    where: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name or not text:
            raise ParameterError(
                "the question is not understood",
                given=word,
                needed="COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH",
                fix=told(row="100..131"),
            )
        low, dots, high = text.partition("..")
        where[name] = (low, high) if dots else text.split(",")
    return where


def chosen_leaves(tree: Tree, column: Column, where: Where) -> Choice:
    along = [np.arange(tree.side(axis, 0)) < size for axis, size in enumerate(tree.sizes)]
    asked = [(name, where[name]) for name in column.sources if name in where]
    if isinstance(column, Mesh):
        inside = tree.product(along)
        for _, values in asked:
            places = tree.places(np.arange(tree.leaves))
            codes = column.from_axes(
                [np.minimum(p, s - 1) for p, s in zip(places, _sizes(column), strict=True)]
            )
            inside &= meshes_named(column, codes, names_of(column, column.name, values))
        return inside
    for name, values in asked:
        axis = column.names.index(name) if isinstance(column, Grid) else 0
        own = places_named(column, name, values) if isinstance(column, Grid) else _codes(column, name, values)
        along[axis] &= np.isin(np.arange(along[axis].size), own)
    return tree.product(along)


def places_named(column: Grid, name: str, values: object) -> Integers:
    """Places along one side of a grid."""
    side = column.shape[column.names.index(name)]
    try:
        if isinstance(values, tuple) and len(values) == 2:
            found = np.arange(max(int(values[0]), 0), min(int(values[1]), side - 1) + 1)
        else:
            found = np.array([int(value) for value in listed(values)], np.int64)
    except (TypeError, ValueError, OverflowError):
        raise no_value(column, name, values) from None
    if found.size == 0 or found.min() < 0 or found.max() >= side:
        raise no_value(column, name, values)
    return found


def meshes_named(column: Mesh, codes: Integers, values: list[object]) -> Choice:
    """Which of these codes lie in meshes that are named: of this size or of any larger one."""
    chosen = np.zeros(codes.shape, np.bool_)
    for value in values:
        text = str(value)
        if not is_code(column, text):
            raise no_value(column, column.name, value)
        named = codes // 10 ** (column.digits - len(text)) == int(text)
        if not named.any():
            raise no_value(column, column.name, value)
        chosen |= named
    return chosen


def is_code(column: Mesh, text: str) -> bool:
    """Whether a text is as long as a code of this mesh, or of a coarser one: 4, 6, 8, 9 or 10 digits."""
    return (
        text.isdecimal() and text.isascii() and len(text) in (4, 6, 8, 9, 10) and len(text) <= column.digits
    )


def _sizes(column: Mesh) -> list[int]:
    return [size for group in column.groups for size in group]


def _codes(column: Column, name: str, values: object) -> Integers:
    if isinstance(values, tuple) and len(values) == 2:
        low, high = (code_of(column, name, value) for value in values)
        return np.arange(low, high + 1)
    return np.array([code_of(column, name, value) for value in listed(values)], np.int64)


def code_of(column: Column, name: str, value: object) -> int:
    """The code of a value; on the command line numbers come as texts."""
    known = getattr(column, "values", None)
    if known is not None:
        by_text = {str(each): i for i, each in enumerate(known)}
        if str(value) not in by_text:
            raise no_value(column, name, value)
        return by_text[str(value)]
    found = column.code(value)
    if found is None:
        raise no_value(column, name, value)
    return found


def listed(values: object) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | set | range) else [values]


def names_of(column: Column, name: str, values: object) -> list[Any]:
    """One value or several, of what has names and so no range from one to another."""
    if isinstance(values, tuple) and len(values) == 2:
        raise ParameterError(
            f"column {name!r} has no ranges",
            given=told(**{name: f"{values[0]}..{values[1]}"}),
            needed="one code or name, or several with commas between them",
            fix=asked(name, example(column, name)),
        )
    return listed(values)


def no_value(column: Column, name: str, value: object) -> ParameterError:
    needed = "values of the domain: one, several, or a range from low to high"
    if isinstance(column, Mesh):
        coarser = [str(digits) for digits in (4, 6, 8, 9) if digits < column.digits]
        needed = f"mesh codes of the region, of {column.digits} digits"
        needed += f", or {', '.join(coarser)} for a coarser mesh" if coarser else ""
    return ParameterError(
        f"column {name!r} has no such value",
        given=told(**{name: repr(value)}),
        needed=needed,
        fix=asked(name, example(column, name)),
    )


def example(column: Column, name: str) -> str | tuple[int, int]:
    """A value that a question may name: one that the column has."""
    if isinstance(column, Grid):
        return 0, column.shape[column.names.index(name)] - 1
    if isinstance(column, Areas) and name in column.levels[:-1]:
        return column.labels(name)[0]
    if isinstance(column, Areas) and isinstance(column.of, Grid):
        return example(column.of, name)
    if isinstance(column, Mesh):
        return str(column.region[0])
    if (values := getattr(column, "values", None)) is not None:
        return str(values[0])
    return str(column.value(0))


# The cells that a question chooses, without listing them: ranges along every axis of the keys.
#
# A block of keys, the cells that share their first bits, is a range along each axis. So how many cells of a block are
# asked for is a product of lengths, whatever the size of the table. Codes of meshes of several sizes are several boxes
# that do not overlap.


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

    @property
    def first(self) -> Integers:
        """The key of its first cell along every axis."""
        places = [
            np.array([min(int(ranges.starts[0]) for ranges in axis)])
            for axis in zip(*self.boxes, strict=True)
        ]
        return self.layout.keys(places)


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
        return _meshes_within(column, names_of(column, column.name, asked[column.name]), sizes)
    ranges = [Ranges.whole(size) for size in sizes]
    for name, values in asked.items():
        axis = column.names.index(name) if isinstance(column, Grid) else 0
        ranges[axis] = _places(column, name, values, sizes[axis])
    return [tuple(ranges)]


def _places(column: Column, name: str, values: object, size: int) -> Ranges:
    def place(value: Any) -> int:
        if not isinstance(column, Grid):
            return code_of(column, name, value)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise no_value(column, name, values) from None

    if isinstance(values, tuple) and len(values) == 2:
        low, high = max(place(values[0]), 0), min(place(values[1]), size - 1)
        if low > high:
            raise no_value(column, name, values)
        return Ranges(np.array([low], np.int64), np.array([high + 1], np.int64))
    found = [place(value) for value in listed(values)]
    if not found or min(found) < 0 or max(found) >= size:
        raise no_value(column, name, values)
    return Ranges.of(found)


def _meshes_within(column: Mesh, values: list[object], sizes: list[int]) -> list[tuple[Ranges, ...]]:
    """Codes of this mesh or of any coarser one; a code within another adds nothing."""
    texts = sorted({str(value) for value in values}, key=len)
    kept: list[str] = []
    for text in texts:
        if not text.startswith(tuple(kept)):
            kept.append(text)
    return [_mesh(column, text, sizes) for text in kept]


def _mesh(column: Mesh, text: str, sizes: list[int]) -> tuple[Ranges, ...]:
    """The first digits say which primary mesh; then come row and column of each finer one, or a quarter's number."""
    wrong = no_value(column, column.name, text)
    if not is_code(column, text) or int(text[:4]) not in column.region:
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


# Intervals where the table was divided as people were found: blocks counted first, then parts of those that hold some.
#
# Let e be the noise of what was counted first (blocks, all of them), and of each later round: the parts of a node are
# counted with fresh noise once it was decided, from earlier rounds, to divide it. So given what was divided, the noise of
# any sum of parts has mean 0 and a known variance. What must not be done is to add up nodes that were chosen because
# they came out low or high.
#
# A question cuts through some nodes. Those wholly inside it give a lower bound for the true number: sum them up, at
# every round. For an upper bound start with all blocks that it touches. If all that it cuts through were divided, take
# the parts that it touches instead; from the first round on where some were not, take off the parts of the others that
# lie outside. Either way only whole rounds are chosen, one of (rounds + 1) ways, and each bound is made for a chance of
# error that many times smaller. A question that cuts through no block has the least-squares answer, and needs none of
# this.
#
# Conservative: people may be anywhere in a node that is cut through and not divided.


@dataclass(frozen=True)
class Top:
    """The blocks that were counted first: all of them, each 2^height cells, with least-squares estimates."""

    layout: Layout
    height: int
    estimates: Floats
    error: Callable[[Floats], Error]  # of the sum of blocks with weights from 0 to 1

    def sum(self, weights: Floats) -> Sum:
        return Sum(float(self.estimates @ weights), self.error(weights))

    @cached_property
    def variance(self) -> float:
        """Of one block."""
        one = np.zeros(self.estimates.size)
        one[0] = 1
        return self.error(one).variance


@dataclass(frozen=True)
class Round:
    """Nodes that were divided, each named by its first key, and the noisy counts of their parts."""

    parents: Integers  # in increasing order
    heights: Integers  # of the parts of each, which have 2^height cells
    arities: Integers  # how many parts each has
    noisy: Integers  # of all parts, one parent after the other
    noise: Noise

    def parts_of(self, nodes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """First keys, heights and noisy counts of the parts of those nodes that were divided; and how many parts each has."""
        places = np.flatnonzero(np.isin(self.parents, nodes))
        arities = self.arities[places]
        starts = (np.cumsum(self.arities) - self.arities)[places]
        own = np.arange(int(arities.sum())) - np.repeat(np.cumsum(arities) - arities, arities)
        heights = np.repeat(self.heights[places], arities)
        first = np.repeat(self.parents[places], arities) + (own << heights)
        return first, heights, self.noisy[np.repeat(starts, arities) + own], arities


@dataclass(frozen=True)
class Sum:
    """A sum of noisy counts, and its error."""

    value: float
    error: Error

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Sum) -> Sum:
        return Sum(self.value - other.value, self.error + other.error)


@dataclass(frozen=True)
class Bounds:
    """The true number is between `low` and `high`; neither is whole yet, and `low` may be negative."""

    low: float
    high: float
    error: Error
    estimate: float | None  # where the question cuts through no block


def least_squares_top(
    layout: Layout,
    height: int,
    lattice: Lattice,
    levels: Sequence[Level],
    noises: Sequence[Noise],
    noisy: Sequence[Integers],
    total: int | None = None,
) -> Top:
    """Blocks from the noisy counts of some of their levels."""
    precisions = [precision(noise) for noise in noises]
    mu = moments(lattice, levels, precisions, total)

    def error(weights: Floats) -> Error:
        return error_of(lattice, levels, noises, mu, [weights]) if weights.any() else Error()

    return Top(layout, height, least_squares(lattice, levels, precisions, noisy, total), error)


def bounds(top: Top, rounds: Sequence[Round], region: Region, level: float, more: int = 0) -> Bounds:
    """A lower and an upper bound for the number of people in a region; `more` others are made for the same question."""
    first = np.arange(top.estimates.size, dtype=np.int64) << top.height
    inside, touched = lies(region, first, np.full(first.size, top.height))
    lower, upper = top.sum(inside.astype(float)), top.sum(touched.astype(float))
    nodes = first[touched & ~inside]
    if nodes.size == 0:
        return around(lower, level)
    all_divided = True
    for each in rounds:
        first, heights, noisy, arities = each.parts_of(nodes)
        inside, touched = lies(region, first, heights)

        def part(some: Bools, noisy: Integers = noisy, noise: Noise = each.noise) -> Sum:
            return Sum(float(noisy[some].sum()), counted(int(some.sum()), noise))

        all_divided = all_divided and arities.size == nodes.size
        upper = lower + part(touched) if all_divided else upper - part(~touched)
        lower = lower + part(inside)
        nodes = first[touched & ~inside]
    own = 1 - (1 - level) / (len(rounds) + 1 + more)
    low, high = lower.value - lower.error.reach(own), upper.value + upper.error.reach(own)
    return Bounds(low, high, upper.error, None)


def around(found: Sum, level: float) -> Bounds:
    """Of a question that has an answer."""
    away = found.error.reach(level)
    return Bounds(found.value - away, found.value + away, found.error, found.value)


def lies(region: Region, first: Integers, heights: Integers) -> tuple[Bools, Bools]:
    """Which nodes lie wholly inside a region, and which touch it. One without cells does neither."""
    asked, whole = np.zeros(first.size, np.int64), np.zeros(first.size, np.bool_)
    every = everything(region.layout)
    for height in np.unique(heights).tolist():
        here = np.flatnonzero(heights == height)
        asked[here] = region.cells(first[here], height)
        some = here[asked[here] > 0]
        whole[some] = asked[some] == every.cells(first[some], height)
    return whole, asked > 0
