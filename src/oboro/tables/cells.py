"""Cells of a domain: their keys, and those that hold something, sorted, which every strategy works on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import Thread

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column, Domain, Grid, Mesh
from oboro.domain.mesh import Groups, Pattern, chain_patterns, unweave, weave, width
from oboro.errors import DomainError
from oboro.noise import Bits, DiscreteLaplace

# How the cells of a domain lie in one row: keys of up to 62 bits, and the binary tree that they form.
#
# The key of a cell is the codes of its columns, one after the other, the first column highest. Each code has
# the bits that its column needs. So a node of the tree, the cells that share the first bits of their keys, is a
# block of the first columns summed over all the others.
#
# Not every key is a cell: 20 ages need 5 bits, which leave room for 32. What is no cell is impossible, in
# public, and so is whatever a mask rules out (the sea). A node with only one possible half gives it all that it
# has: nothing is measured there. So room that is left over costs time, not accuracy.

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


LARGEST_TOTAL = 2**61
_EXACT_IN_A_DOUBLE = 2**52
_MOST_STORED = 2**31  # cells that are stored at once: more do not fit into memory
_SMALL = 1 << 12  # so few cells are added up without loading the compiler


@dataclass(frozen=True, slots=True)
class Cells:
    """Keys in increasing order, each once, and counts above 0."""

    keys: Integers
    counts: Integers

    def dense(self, bits: int) -> Integers:
        """The counts of all keys of so many bits."""
        counts = np.zeros(1 << bits, np.int64)
        counts[self.keys] = self.counts
        return counts

    @classmethod
    def from_dense(cls, counts: npt.ArrayLike) -> Cells:
        given = np.asarray(counts, np.int64)
        keys = np.flatnonzero(given)
        return cls(keys, given[keys])


def cap(layout: Layout) -> int:
    """The most that one cell may hold: so little that all cells together stay below 2^61. It is public.

    It is at most 2^52. Up to there a double holds every whole number and every half; beyond, a count that came as a
    double, and grew by 1, could be read as having grown by 2.
    """
    return min(LARGEST_TOTAL // min(layout.cells, _MOST_STORED), _EXACT_IN_A_DOUBLE)


def sort_cells(keys: Integers, counts: Integers, bits: int, most: int, *, public: bool = False) -> Cells:
    """Sorted keys, each once, with the sum of their counts, and no zeros. `counts` are 0 to `most`.

    Both arrays are overwritten. What is `public`, and in order, as a released table is, needs no compiled loop: it takes longer to
    load than all the rest. (Of private data that would tell by the clock whether a cell comes twice.)
    """
    if public and (keys[1:] > keys[:-1]).all() and (counts > 0).all():
        return Cells(keys, counts)
    width = int(counts.max(initial=0)).bit_length()
    if bits + width <= 63:  # both fit into one number, which sorts six times as fast as an order of places
        keys <<= width
        keys |= counts
        keys.sort()
        np.bitwise_and(keys, (1 << width) - 1, out=counts)
        keys >>= width
    else:
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    return _added_up(keys, counts, most)


def _added_up(keys: Integers, counts: Integers, most: int) -> Cells:
    """Joins neighbours with the same key, none above `most`."""
    if keys.size > _SMALL:
        from oboro.tables._compiled import add_up

        kept = add_up(keys, counts, most)
        return Cells(keys[:kept], counts[:kept])
    sums: dict[int, int] = {}
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        sums[key] = min(sums.get(key, 0) + count, most)
    held = {key: count for key, count in sums.items() if count > 0}
    return Cells(np.array(list(held), np.int64), np.array(list(held.values()), np.int64))


# Loads the compiled loops while a large file is read.
#
# Loading takes half a second, and most of the reading is done outside Python, by DuckDB and NumPy. So the two go
# side by side. No noise is drawn here.

_TURN = 2e-6  # seconds; with the usual 5 ms the reader would wait for its turn most of the time


@contextmanager
def loops_loading(*, large: bool) -> Iterator[None]:
    """Runs the body with the loops being loaded beside it, if what it reads is large and they are not yet there."""
    if not large or "oboro.tables._compiled" in sys.modules:
        yield
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    loader = Thread(target=_load)
    loader.start()
    try:
        yield
    finally:
        loader.join()
        sys.setswitchinterval(usual)


def _load() -> None:
    from oboro.tables._compiled import add_up

    with _no_search_for_blas():
        add_up(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


@contextmanager
def _no_search_for_blas() -> Iterator[None]:
    """Numba imports SciPy's linear algebra only to see whether it is there. It is: oboro needs SciPy itself.

    About a sixth of the loading time. Whoever multiplies matrices in compiled code still has it loaded then.
    """
    from numba.np import linalg

    search = getattr(linalg, "ensure_blas", None)
    if search is None or "numba.np.arraymath" in sys.modules:
        yield
        return
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath

        numba.np.arraymath.ensure_blas = search
        yield
    finally:
        linalg.ensure_blas = search


# How far a published table is from the true one, by block size.


@dataclass(frozen=True, slots=True)
class BlockError:
    """Error over all aligned blocks of 2^height cells, impossible blocks left out where they are known."""

    height: int
    blocks: int
    rmse: float
    mae: float


def heights(bits: int) -> list[int]:
    """Blocks of 1, 4, 16, ... cells, and all cells together."""
    return sorted({*range(0, bits + 1, 2), bits})


def block_errors(
    truth: Cells, published: Cells, layout: Layout, sizes: Sequence[int] | None = None
) -> list[BlockError]:
    """Works on non-empty cells alone: the domain may be of any size."""
    keys = np.concatenate([truth.keys, published.keys])
    off = np.concatenate([truth.counts, -published.counts])
    order = np.argsort(keys, kind="stable")
    keys, off = keys[order], off[order]
    errors = []
    for height in sorted(heights(layout.bits) if sizes is None else sizes):
        keys, off = _joined(keys, off, height)
        blocks = _blocks(layout, height)
        sizes_off = np.abs(off).astype(float)
        errors.append(
            BlockError(
                height, blocks, float(np.sqrt((sizes_off**2).sum() / blocks)), float(sizes_off.sum() / blocks)
            )
        )
        keys = keys << height
    return errors


def dense_block_errors(
    truth: Integers, published: Floats | Integers, sizes: Sequence[int] | None = None
) -> list[BlockError]:
    """The same for arrays of all 2^k cells in Morton order; `published` may be fractions or negative."""
    bits = truth.size.bit_length() - 1
    off = np.asarray(published, float) - truth
    errors = []
    for height in sorted(heights(bits) if sizes is None else sizes):
        blocks = off.reshape(-1, 1 << height).sum(axis=1)
        errors.append(
            BlockError(
                height, blocks.size, float(np.sqrt(np.mean(blocks**2))), float(np.mean(np.abs(blocks)))
            )
        )
    return errors


def _joined(keys: Integers, off: Integers, height: int) -> tuple[Integers, Integers]:
    """Sums over neighbours that share all but the last `height` bits. Keys are sorted."""
    heads = keys >> height
    starts = np.flatnonzero(np.diff(heads, prepend=-1))
    return heads[starts], np.add.reduceat(off, starts) if starts.size else off[:0]


def _blocks(layout: Layout, height: int) -> int:
    """How many blocks of this height are possible; those that a mask rules out still count where it is coarser."""
    count = 1
    for size, places in zip(layout.sizes, layout.pattern, strict=True):
        below = sum(place < height for place in places)
        count *= -(-size // (1 << below))
    return count


# Empty cells that reach a threshold once they have noise, without listing the others.
#
# Let Z be discrete Laplace noise of scale s. Dense, every cell i gets its own Z_i and is kept, with count c_i + Z_i, if
# that is at least t >= 1. Of N cells with c_i = 0 the Z_i are independent of all others and of one another, so:
# 1. how many reach t is binomial with N trials of P(Z >= t) = e^(-t/s) / (1 + e^(-1/s));
# 2. given how many, which of them is uniform among all sets of that number, by symmetry;
# 3. given which, the counts are independent, each with the law of Z given Z >= t. As P(Z >= t + j) = e^(-j/s) P(Z >= t)
#    for j >= 0, that is t plus a G with P(G >= j) = e^(-j/s), which is the law of Z given Z >= 0.
# These three are drawn, exactly.


def empty_reaching(
    keys: Integers, size: int, law: DiscreteLaplace, threshold: int, bits: Bits
) -> tuple[Integers, Integers]:
    """The empty cells that reach the threshold, by the three steps of the proof. `keys` are sorted."""
    from oboro.noise.draws import binomial, choose
    from oboro.noise.lazy import Ball, ball

    def chance() -> Ball:
        return ball(-threshold / law.scale).exp() / (1 + ball(-1 / law.scale).exp())

    empty = size - keys.size
    number = binomial(empty, chance, bits)
    ranks = choose(empty, number, bits)
    # The empty cell of rank r comes after the stored keys that have at most r empty cells before them.
    found = ranks + np.searchsorted(keys - np.arange(keys.size), ranks, side="right")
    return found, threshold + _not_negative(law, number, bits)


def _not_negative(law: DiscreteLaplace, number: int, bits: Bits) -> Integers:
    """Draws of the law given that they are 0 or more: the others are thrown away."""
    kept = np.empty(0, np.int64)
    while kept.size < number:
        drawn = law.sample(2 * (number - kept.size) + 8, bits)
        kept = np.concatenate([kept, drawn[drawn >= 0]])
    return kept[:number]
