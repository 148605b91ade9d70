"""What readers will ask of a table: public, declared before data is touched, and all that the planner looks at.

    blocks()         the blocks of the tree: squares of side 1, 2, 4, ... where they lie, up to the whole
    squares(sides)   squares anywhere, not only where blocks lie
    rectangles()     the same with sides of different lengths
    cells()          single cells
    marginals(...)   totals by some of the columns, over all places of the others
    areas(...)       areas of some levels, where the domain has a column of areas
    never_worse()    blocks; no size of block may have a larger error than under the wavelet method

Where there are several columns, each question is asked of one place, value or range of some of them and of all of
the others together, for every choice of which. Workloads add up: blocks() + squares() is the default.

Planning is about relative error: a workload is served well if the geometric mean of the errors of its questions is
small, and a part counts as much as it has questions. Blocks as such (all values of the other columns together) count
as much as all their breakdowns: they are what most readers look at.

A question q over the leaves has the profile t_j(q) = |W_j q|^2 at each level j, which is s_j - s_(j-1) with
s_j = sum over nodes B of level j of |q and B|^2 / n_j. In a product of columns it is the product of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Literal, Protocol, get_args

import numpy as np

from oboro.arrays import Floats
from oboro.errors import ParameterError, setting, told
from oboro.exact import positive, rational, show, whole
from oboro.kinds import list_of, names_of, shown, takes, text_of
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Unit
from oboro.records import Columns, read, write_fields
from oboro.tables.strategy import Noise, counts_move, counts_move_squared
from oboro.tables.tree.lattice import Lattice, Level, Tree

SIDES = (1, 3, 7, 15, 31, 63, 127)
LONG_SIDES = (*SIDES, 255)
_MANY = (
    4000  # questions; with more, columns beside the first are asked for as a whole or by single places only
)


Kind = Literal[
    "blocks",
    "squares",
    "rectangles",
    "cells",
    "marginals",
    "areas",
    "never_worse",
    "each_tick",
    "mean_over_ticks",
]
KINDS = get_args(Kind)
OVER_TICKS = ("each_tick", "mean_over_ticks")  # what a series is asked (tables/series)
_NAMING = ("marginals", "areas", *OVER_TICKS)


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of question."""

    kind: Kind
    sides: tuple[int, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", _sides(self.sides))
        groups = tuple(tuple(text_of("columns", name) for name in names) for names in self.columns)
        object.__setattr__(self, "columns", groups)
        ranged = self.kind in ("squares", "rectangles")
        if self.kind not in KINDS or bool(self.sides) != ranged or (groups and self.kind not in _NAMING):
            raise _unknown(self)


@dataclass(frozen=True, slots=True)
class Workload:
    """Kinds of questions; they add up."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Part) for part in self.parts):
            raise _unknown(self.parts)

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        return Workload(self.parts + other.parts)

    @property
    def minimax(self) -> bool:
        """Whether no block may be worse than under the wavelet method."""
        return any(part.kind == "never_worse" for part in self.parts)

    def check(self, names: Sequence[str]) -> None:
        """Refuses questions about columns that the domain does not have, or about ticks."""
        if any(part.kind in OVER_TICKS for part in self.parts):
            raise ParameterError(
                "the workload asks about ticks, and the table has none",
                given=told(workload=repr(str(self))),
                needed="a series of tables",
                fix=setting(ticks=24, max_ticks=24),
            )
        for name in (name for part in self.parts for group in part.columns for name in group):
            if name not in names:
                raise ParameterError(
                    "the workload names a column that is not in the domain",
                    given=f"marginals({name!r})",
                    needed=", ".join(sorted(names)),
                )

    def as_record(self, columns: Columns | None) -> list[dict[str, object]]:
        return [write_fields(part) for part in self.parts]

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> Workload:
        return cls(read(tuple[Part, ...], record, where))

    def __str__(self) -> str:
        return " and ".join(part.kind.replace("_", " ") for part in self.parts)


def blocks() -> Workload:
    """Blocks of the tree: squares of side 1, 2, 4, ... where they lie, up to the whole.

    >>> ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, strategy="tree", workload=ob.tables.blocks()).levels
    ('16 x 16 of row,col', '4 x 4 of row,col', '1 x 1 of row,col')
    """
    return Workload((Part("blocks"),))


def squares(sides: Sequence[int] = SIDES) -> Workload:
    """Squares of these sides, anywhere.

    >>> ob.tables.plan(mesh, unit=unit, eps=1, strategy="tree", workload=ob.tables.squares([3])).levels
    ('1 x 1 of row,col',)
    """
    return Workload((Part("squares", _sides(sides)),))


def rectangles(sides: Sequence[int] = LONG_SIDES) -> Workload:
    """Rectangles with any two of these sides, anywhere.

    >>> ob.tables.plan(mesh, unit=unit, eps=1, workload=ob.tables.rectangles()).strategy
    'sized'
    """
    return Workload((Part("rectangles", _sides(sides)),))


def cells() -> Workload:
    """Single cells.

    >>> ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, workload=ob.tables.cells()).levels
    ('1 x 1 of row,col',)
    """
    return Workload((Part("cells"),))


def marginals(*columns: Sequence[str]) -> Workload:
    """Totals by each of these groups of columns, over all the others; without any, by each column alone.

    >>> people = ob.Domain([ob.Integer("age", 0, 9), ob.Category("sex", ["f", "m"])])
    >>> ob.tables.plan(people, unit=ob.Unit.row(), eps=1, workload=ob.tables.marginals(["age"])).levels
    ('each age; all of sex', 'each age; each sex')
    """
    groups = tuple(
        (names,) if isinstance(names, str) else tuple(names_of("columns", names)) for names in columns
    )
    return Workload((Part("marginals", columns=groups),))


def areas(*levels: str) -> Workload:
    """Areas of these levels, by all or each of the other columns; without any, those of all levels.

    >>> table = {"town": ["a", "a", "b", "b", "b"], "cell": ["1", "2", "3", "4", "5"]}
    >>> towns = ob.Domain([ob.Areas("cell", levels=["town", "cell"], table=table)])
    >>> ob.tables.plan(towns, unit=unit, eps=1, workload=ob.tables.areas("town")).levels
    ('each town', 'each cell')
    """
    return Workload((Part("areas", columns=tuple((text_of("levels", level),) for level in levels)),))


def never_worse() -> Workload:
    """Blocks, none of which may have a larger error than under the wavelet method.

    >>> len(ob.tables.plan(mesh, unit=unit, eps=1, workload=ob.tables.never_worse()).levels)
    6
    """
    return Workload((Part("never_worse"),))


def profiles(workload: Workload, lattice: Lattice) -> tuple[Floats, Floats]:
    """t_j(q) of every question, one row each, over the levels of the lattice; and how much each counts, 1 in all."""
    workload.check([tree.name for tree in lattice.trees])
    rows = [row for part in workload.parts for row in _rows(part, lattice)]
    main = _main(lattice.trees)
    whole = np.array([all(row[i][1:].sum() == 0 for i in range(len(row)) if i != main) for row in rows])
    weights = np.ones(len(rows))
    if whole.any() and not whole.all():
        weights[whole] = (~whole).sum() / whole.sum()
    return np.array([_outer(row).reshape(-1) for row in rows]), weights / weights.sum()


def sized_profiles(lattice: Lattice, sizes: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """The same for blocks that cover so many places of each column, whole nodes or within one."""
    rows = [[_sized(tree, size) for tree, size in zip(lattice.trees, own, strict=True)] for own in sizes]
    return np.array([_outer(row).reshape(-1) for row in rows]), np.full(len(rows), 1 / len(rows))


def _main(trees: tuple[Tree, ...]) -> int:
    """The column of the places: the deepest."""
    return max(range(len(trees)), key=lambda i: (trees[i].depth, trees[i].leaves))


def _rows(part: Part, lattice: Lattice) -> list[tuple[Floats, ...]]:
    """The questions of a part: a profile for each column."""
    trees = lattice.trees
    if part.kind == "cells":
        return [tuple(block(tree, tree.depth) for tree in trees)]
    if part.kind == "marginals":
        groups = part.columns or tuple((tree.name,) for tree in trees)
        return [
            tuple(block(tree, tree.depth if tree.name in names else 0) for tree in trees) for names in groups
        ]
    if part.kind in ("blocks", "never_worse"):
        every = [[block(tree, level) for level in range(tree.depth + 1)] for tree in trees]
        if part.kind == "blocks" and prod(map(len, every)) > _MANY:
            every[1:] = [[own[0], own[-1]] if len(own) > 1 else own for own in every[1:]]
        return list(product(*every))
    return _ranged(part, trees)


def _ranged(part: Part, trees: tuple[Tree, ...]) -> list[tuple[Floats, ...]]:
    """Squares or rectangles of the deepest column, times all or each of every other."""
    main = _main(trees)
    others = [
        [block(tree, 0)] if tree.depth == 0 else [block(tree, 0), block(tree, tree.depth)] for tree in trees
    ]
    tree = trees[main]
    if tree.depth > 1:
        count = len(tree.directions)
        chosen = (
            product(part.sides, repeat=count)
            if part.kind == "rectangles"
            else ((s,) * count for s in part.sides)
        )
        others[main] = [anywhere(tree, sides) for sides in dict.fromkeys(_fitting(tree, s) for s in chosen)]
    return list(product(*others))


def _fitting(tree: Tree, sides: Sequence[int]) -> tuple[int, ...]:
    """Sides no longer than the column."""
    return tuple(min(side, _length(tree, axes, 0)) for side, axes in zip(sides, tree.directions, strict=True))


def block(tree: Tree, level: int) -> Floats:
    """The profile of one node of a level."""
    return _sized(tree, tree.under(level))


def _sized(tree: Tree, size: int) -> Floats:
    """The profile of so many places, of which every node covers all, or is covered."""
    return _steps([size * min(1.0, size / tree.under(j)) for j in range(tree.depth + 1)])


def anywhere(tree: Tree, sides: Sequence[int]) -> Floats:
    """The mean profile of a range of so many places along each direction, wherever it lies.

    Two places of a range that are d apart are in the same node, B long, with probability 1 - d/B.
    """
    whole = [_length(tree, axes, 0) for axes in tree.directions]
    s = []
    for level in range(tree.depth + 1):
        pairs = 1.0
        for side, axes, longest in zip(sides, tree.directions, whole, strict=True):
            length = _length(tree, axes, level)
            # the sum of (side - d) (1 - d/length) over d up to `most`, where it is 0 or the range ends
            most = min(side - 1, length)
            less = 0.0 if length == longest else (side - (2 * most + 1) / 3) / length
            pairs *= side + 2 * most * side - most * (most + 1) * (1 + less)
        s.append(pairs / tree.under(level))
    return _steps(s)


def chosen(tree: Tree, weights: Floats) -> Floats:
    """The profile of any choice of leaves."""
    return _steps(
        [
            float((weights.reshape(tree.nodes(j), -1).sum(axis=1) ** 2).sum()) / tree.under(j)
            for j in range(tree.depth + 1)
        ]
    )


def _steps(s: Sequence[float]) -> Floats:
    return np.array([max(own - above, 0.0) for own, above in zip(s, [0.0, *s[:-1]], strict=True)])


def _outer(row: Sequence[Floats]) -> Floats:
    found = np.ones(())
    for profile in row:
        found = np.multiply.outer(found, profile)
    return found


def _length(tree: Tree, axes: Sequence[int], level: int) -> int:
    return prod(tree.side(axis, level) for axis in axes)


@takes(sides=list_of)
def _sides(sides: Sequence[int]) -> tuple[int, ...]:
    return tuple(whole("side", side, least=1, most=2**20) for side in sides)


def _unknown(given: object) -> ParameterError:
    return ParameterError(
        "the workload is unknown",
        given=told(workload=shown(given)),
        needed=", ".join(f"{kind}()" for kind in KINDS),
        fix=told(workload="ob.tables.blocks()"),
    )


DEFAULT = blocks() + squares()


# What a tree plan has decided: the levels to count, their shares of the budget, and their noise.


class Levels(Protocol):
    """What has levels: a lattice, of whatever trees."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # pragma: no cover

    @property
    def finest(self) -> Level: ...  # pragma: no cover


@dataclass(frozen=True, slots=True)
class Design:
    """Levels and shares; the shares are rationals that add up to exactly 1. With `rho` the noise is Gaussian."""

    levels: tuple[Level, ...]
    shares: tuple[Fraction, ...]
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        levels = tuple(tuple(whole("level", at) for at in list_of("level", level)) for level in self.levels)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "shares", tuple(rational("share", share) for share in self.shares))
        if len(self.levels) != len(self.shares) or len(set(self.levels)) != len(self.levels):
            raise _wrong(f"{len(self.levels)} levels and {len(self.shares)} shares")
        if any(share <= 0 for share in self.shares) or sum(self.shares) != 1:
            raise _wrong(f"shares {', '.join(show(share) for share in self.shares)}")
        if self.rho is not None:
            object.__setattr__(self, "rho", positive("rho", self.rho))

    def check(self, lattice: Levels) -> None:
        """Refuses levels that the domain does not have, and a design that does not count cells."""
        known = all(
            len(level) == len(lattice.shape)
            and all(0 <= at < size for at, size in zip(level, lattice.shape, strict=True))
            for level in self.levels
        )
        if not known or lattice.finest not in self.levels:
            raise _wrong(f"levels {[list(level) for level in self.levels]}")

    def noises(self, eps: Fraction, unit: Unit) -> Sequence[Noise]:
        """The noise of each level."""
        return self.laplace(eps, unit) if self.rho is None else self.gaussian(self.rho, unit)

    def laplace(self, eps: Fraction, unit: Unit) -> list[DiscreteLaplace]:
        """The noise of each level under pure eps.

        Privacy
            The nodes of a level do not overlap, so that one unit moves their counts by no more, in all, than it
            moves the counts of cells: `counts_move(unit)`, D. Level l has discrete Laplace noise of scale
            D / (share_l eps) and costs share_l eps [Ghosh, Roughgarden, Sundararajan 2009]. Costs add up, and the
            shares add up to 1: eps in all.
        """
        return [DiscreteLaplace(counts_move(unit) / (share * eps)) for share in self.shares]

    def gaussian(self, rho: Fraction, unit: Unit) -> list[DiscreteGaussian]:
        """The noise of each level under zCDP.

        Privacy
            One unit adds at most m = max_cells max_per_cell (or max_rows) to the counts of a level, all of it to one
            node at worst: m in 2-norm. Under replace it also takes away as much elsewhere: m sqrt 2. Discrete
            Gaussian noise of variance D^2 / (2 share_l rho) costs share_l rho [Canonne, Kamath, Steinke 2020,
            Theorem 14]; costs add up to rho.
        """
        moved = counts_move_squared(unit)
        return [DiscreteGaussian(moved / (2 * share * rho)) for share in self.shares]


def precision(noise: Noise) -> float:
    """One over the variance; noise that is all but never anything else than 0 still has one."""
    return 1 / max(noise.variance, 1e-12)


def _wrong(given: str) -> ParameterError:
    return ParameterError(
        "the levels and shares of the plan cannot be used",
        given=given,
        needed="different levels of the domain, that of cells among them, with positive shares that add up to 1",
        fix="a plan as its function makes it",
    )
