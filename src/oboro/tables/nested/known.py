"""Totals that are public from elsewhere: constants, which what is published holds exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Areas
from oboro.errors import ParameterError, told
from oboro.exact import whole
from oboro.kinds import nearest
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.nested.lattice import AreaLattice, Known

KNOWN = (
    "known totals are constants fixed beforehand; eps bounds what this release adds to them. They are not protected by it, and "
    "if they count the same people, whoever knows all others learns the last one's area. Intervals assume that they are true"
)


@dataclass(frozen=True)
class KnownTotals:
    """Totals of areas of one level that are public from elsewhere: constants, fixed beforehand."""

    level: str
    areas: tuple[str, ...]
    totals: tuple[int, ...]


def known_by_level(lattice: AreaLattice, known: Iterable[KnownTotals], total: int | None) -> Known | None:
    """The known totals, by level of the tree, with all that follows from them; refuses what cannot be.

    For areas within areas that is decided by public facts: a total is no less than what the areas within are known to hold, and
    just that where all of them are known.
    """
    branches = lattice.branches
    found = {at: np.full(branches.nodes(at), -1, np.int64) for at in range(branches.depth + 1)}
    if total is not None:
        found[0][0] = total
    given = list(known)
    for one in given:
        at, labels = _level(branches.column, one.level)
        place = {label: i for i, label in enumerate(labels)}
        if len(one.areas) != len(one.totals) or len(set(one.areas)) != len(one.areas):
            raise ParameterError("known totals need one total for each area", given=one.level)
        for label, number in zip(one.areas, one.totals, strict=True):
            if label not in place:
                close = nearest(label, place)
                raise ParameterError(
                    f"there is no {one.level} of this name" + (f": did you mean {close!r}?" if close else ""),
                    given=told(known=f"{one.level} {label}"),
                    needed="areas of the domain",
                    argument="known",
                )
            found[at][place[label]] = whole(f"known total of {label}", number, least=0, most=LARGEST_TOTAL)
    if total is None and not given:
        return None
    for at in range(len(branches.column.levels) - 2, -1, -1):
        first = branches.firsts[at][:-1]
        inside, low = found[at + 1], np.add.reduceat(np.maximum(_least(found, branches, at + 1), 0), first)
        complete = np.logical_and.reduceat(inside >= 0, first)
        own = found[at]
        wrong = np.flatnonzero((own >= 0) & ((own < low) | (complete & (own != low))))
        if wrong.size:
            node = int(wrong[0])
            raise ParameterError(
                "known totals contradict one another",
                given=f"{_named(branches.column, at, node)}: {own[node]:,}, and {low[node]:,} in areas within it",
                needed="as many as the areas within it hold" if complete[node] else "at least as many",
                argument="known",
            )
        found[at] = np.where(complete, low, own)
    return {at: each for at, each in found.items() if (each >= 0).any()}


def _least(found: dict[int, Integers], branches: Any, at: int) -> Integers:
    """What each node is known to hold at least."""
    if at == branches.depth:
        return found[at]
    below = np.add.reduceat(np.maximum(_least(found, branches, at + 1), 0), branches.firsts[at][:-1])
    return np.where(found[at] >= 0, found[at], below)


def _level(column: Areas, name: str) -> tuple[int, tuple[str, ...]]:
    if name == "total":
        return 0, ("total",)
    if name not in column.levels[:-1]:
        close = nearest(name, column.levels)
        raise ParameterError(
            "known totals are of areas of a level" + (f": did you mean {close!r}?" if close else ""),
            given=told(known=name),
            needed=", ".join(("total", *column.levels[:-1])),
            argument="known",
        )
    return 1 + column.levels.index(name), column.labels(name)


def _named(column: Areas, at: int, node: int) -> str:
    return "all areas" if at == 0 else f"{column.levels[at - 1]} {column.labels(column.levels[at - 1])[node]}"
