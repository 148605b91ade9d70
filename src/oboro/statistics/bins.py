"""Bins: a column's values put into public groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Date, Domain, Integer, Real
from oboro.domain.columns import as_date
from oboro.errors import DomainError, setting, told
from oboro.exact import rational, show
from oboro.kinds import list_of, shown, takes


@dataclass(frozen=True, slots=True)
class Bins:
    """Every value its own bin, or the intervals [edge, next edge) of a number or date column.

    The last interval includes the last edge. The edges must begin and end at the column's bounds, so that
    every record that is not left out falls into a bin.
    """

    column: Column
    starts: tuple[int, ...] = ()  # the first code of each bin; empty where every value is its own bin

    @takes(column=Column, edges=list_of)
    def __init__(
        self, column: Column, edges: Sequence[Any] | None = None, *, starts: tuple[int, ...] = ()
    ) -> None:
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

    @property
    def size(self) -> int:
        return len(self.starts) or self.column.size

    def fold(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bin of each code."""
        if not self.starts:
            return codes
        return np.searchsorted(np.asarray(self.starts, np.int64), codes, side="right").astype(np.int64) - 1

    def label(self, index: int) -> Any:
        """What a bin is called in the published table."""
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
    def labels(self) -> list[Any]:
        return [self.label(index) for index in range(self.size)]


def bins_of(
    domain: Domain, names: Sequence[str], edges: Mapping[str, Sequence[Any]] | Sequence[Any] | None
) -> tuple[Bins, ...]:
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


def _starts(column: Column, edges: list[Any]) -> tuple[int, ...]:
    if not isinstance(column, Integer | Real | Date):
        raise DomainError(
            f"column {column.name!r} has categories, not intervals",
            given=told(edges=f"{edges[:4]}..."),
            needed="no edges",
            fix=setting(edges=None),
        )
    first, last = column.value(0), column.value(column.size - 1)
    wrong = DomainError(
        f"the edges do not fit column {column.name!r}",
        given=f"edges from {edges[0]} to {edges[-1]}" if edges else "no edges",
        needed=f"increasing values on the column's steps, from {first} to {last} (or one step beyond)",
        fix=setting(edges=[first, ..., last]),
    )
    if len(edges) < 2:
        raise wrong
    codes = [_edge_code(column, edge, wrong) for edge in edges]
    # Integer and date edges may close with the bound itself (included in the last bin) or one step beyond it.
    if codes[0] != 0 or codes[-1] not in (column.size - 1, column.size) or sorted(set(codes)) != codes:
        raise wrong
    return tuple(codes[:-1])


def _edge_code(column: Column, edge: Any, wrong: DomainError) -> int:
    if isinstance(column, Integer | Real):
        place = (rational("edges", edge) - column.low) / column.step
        if place.denominator != 1:
            raise wrong
        return int(place)
    assert isinstance(column, Date)
    return (as_date(column.name, "edges", edge) - column.first).days
