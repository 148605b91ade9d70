"""How the cells of a domain lie in one row: keys of up to 62 bits, and the binary tree that they form.

The key of a cell is the codes of its columns, one after the other, the first column highest. Each code has
the bits that its column needs. So a node of the tree, the cells that share the first bits of their keys, is a
block of the first columns summed over all the others.

Not every key is a cell: 20 ages need 5 bits, which leave room for 32. What is no cell is impossible, in
public, and so is whatever a mask rules out (the sea). A node with only one possible half gives it all that it
has: nothing is measured there. So room that is left over costs time, not accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.domain import Category, Column, Domain, Grid, Mesh
from oboro.domain.mesh import Groups, Pattern, chain_patterns, unweave, weave, width
from oboro.errors import DomainError

MOST_BITS = 62


@dataclass(frozen=True)
class Layout:
    """Keys of the cells of a domain. `allowed` are the possible heads, if a mask was given: the first bits of keys."""

    domain: Domain
    allowed: tuple[int, Integers] | None = None  # how many bits a head has, and all heads in increasing order

    def __post_init__(self) -> None:
        if self.bits > MOST_BITS:
            raise DomainError(
                "the domain has too many cells",
                given=f"{self.bits} bits: "
                + " + ".join(f"{column.name} {_bits(column)}" for column in self.domain),
                needed=f"at most {MOST_BITS} bits",
                fix="larger steps, or fewer columns",
            )

    @cached_property
    def groups(self) -> Groups:
        return tuple(group for column in self.domain for group in column_groups(column))

    @cached_property
    def bits(self) -> int:
        """The height of the tree: every cell is so many halvings below the root."""
        return sum(_bits(column) for column in self.domain)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many places each axis has."""
        return tuple(size for group in self.groups for size in group)

    @cached_property
    def cells(self) -> int:
        """How many cells are possible."""
        if self.allowed is None:
            return prod(self.sizes)
        head_bits, heads = self.allowed
        below = [
            size
            for size, places in zip(self.sizes, self.pattern, strict=True)
            if not places or places[-1] < self.bits - head_bits
        ]
        return int(heads.size) * prod(below)

    @cached_property
    def distinct(self) -> bool:
        """Whether different values are always different cells. Bounds, steps and `missing` join some."""
        return all(
            isinstance(column, Grid | Mesh) or (isinstance(column, Category) and column.missing is None)
            for column in self.domain
        )

    @cached_property
    def pattern(self) -> Pattern:
        return chain_patterns(self.groups)

    def keys(self, axes: Sequence[npt.ArrayLike]) -> Integers:
        """Keys of cells from their places on every axis."""
        return weave(axes, self.pattern)

    def places(self, keys: npt.ArrayLike) -> list[Integers]:
        """The place of each cell on every axis."""
        return unweave(keys, self.pattern)

    @cached_property
    def limits(self) -> tuple[Integers, Integers]:
        """For each halving from the root: (mask, limit), so that a second half is possible if key & mask <= limit.

        The mask picks the bits of the halved axis down to this one; the limit is that part of its last place.
        Bits of one axis keep their order in the key, so comparing them compares places.
        """
        masks, limits = np.zeros(self.bits, np.int64), np.zeros(self.bits, np.int64)
        for size, places in zip(self.sizes, self.pattern, strict=True):
            mask = limit = 0
            for bit in reversed(range(len(places))):
                mask |= 1 << places[bit]
                limit |= ((size - 1) >> bit & 1) << places[bit]
                depth = self.bits - 1 - places[bit]
                masks[depth], limits[depth] = mask, limit
        return masks, limits

    @cached_property
    def heads(self) -> tuple[int, Integers]:
        """The mask in the form that the compiled loops take: no bits where there is none."""
        return (0, np.zeros(1, np.int64)) if self.allowed is None else self.allowed

    def possible(self, keys: Integers) -> npt.NDArray[np.bool_]:
        """Which keys are cells."""
        good = np.ones(keys.shape, np.bool_)
        for size, places in zip(self.sizes, self.pattern, strict=True):
            if size & (size - 1):
                mask = sum(1 << place for place in places)
                last = sum(((size - 1) >> bit & 1) << place for bit, place in enumerate(places))
                good &= (keys & mask) <= last
        if self.allowed is not None:
            head_bits, heads = self.allowed
            head = keys >> (self.bits - head_bits)
            at = np.searchsorted(heads, head)
            good &= heads[np.minimum(at, heads.size - 1)] == head if heads.size else False
        return good

    def all_possible(self) -> npt.NDArray[np.bool_]:
        """Which of all keys are cells; for domains that are listed in full."""
        return self.possible(np.arange(1 << self.bits, dtype=np.int64))


def column_groups(column: Column) -> Groups:
    """The axes of a column: those of a group are woven, and groups follow one another."""
    return column.groups if isinstance(column, Grid | Mesh) else ((column.size,),)


def _bits(column: Column) -> int:
    return sum(width(size) for group in column_groups(column) for size in group)
