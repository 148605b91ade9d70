"""Time as a tree: the whole horizon, blocks of ticks, single ticks; and which of them are over after a tick."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oboro.domain.mesh import width
from oboro.tables.input import TICK
from oboro.tables.tree.lattice import Step, Tree, radices

_WIDEST = 31  # blocks of time have at most so many parts


@dataclass(frozen=True)
class Clock:
    """So many ticks, from 0 on, and how they are divided.

    By the prime factors of their number, the largest first: 24 hours into 3 of 8, those into halves. Where a factor is too large
    the number is filled up, as a side of a grid is, by ticks that never come.
    """

    ticks: int

    @cached_property
    def tree(self) -> Tree:
        factors = _factors(self.ticks)
        parts = radices(self.ticks) if factors[0] > _WIDEST else factors
        steps: tuple[Step, ...] = tuple(((0, part),) for part in parts)
        return Tree(TICK, (self.ticks,), steps, ((0,),))

    @property
    def depth(self) -> int:
        return self.tree.depth

    def length(self, level: int) -> int:
        """How many ticks the longest block of a level has."""
        return min(self.tree.under(level), self.ticks)

    def span(self, level: int, node: int) -> range:
        """The ticks of a block; none where it is filled up."""
        under = self.tree.under(level)
        return range(min(node * under, self.ticks), min((node + 1) * under, self.ticks))

    def closing(self, tick: int) -> list[tuple[int, int]]:
        """The blocks that are over with this tick: level and number, the longest first."""
        found = []
        for level in range(self.depth + 1):
            node = tick // self.tree.under(level)
            if self.span(level, node)[-1] == tick:
                found.append((level, node))
        return found

    def block(self, first: int, last: int) -> tuple[int, int] | None:
        """The longest block that has exactly these ticks, if there is one."""
        for level in range(self.depth + 1):
            node = first // self.tree.under(level)
            if self.span(level, node) == range(first, last + 1):
                return level, node
        return None

    def open_since(self, tick: int) -> int:
        """The level of the longest block that holds this tick and is over with it."""
        return self.closing(tick)[0][0]


def _factors(number: int) -> tuple[int, ...]:
    """The prime factors, the largest first."""
    found, rest, factor = [], number, 2
    while rest > 1:
        if factor * factor > rest:
            factor = rest
        if rest % factor == 0:
            found.append(factor)
            rest //= factor
        else:
            factor += 1
    return tuple(reversed(found))


def digits(ticks: int) -> int:
    """How many digits a tick is written with: files then stand in their order."""
    return max(2, width(ticks) * 3 // 10 + 1)
