"""What workers do: each task is a frozen value, and doing it twice gives the same.

A task that draws reads cells by `store.cells_of`, which compares their hashes, and begins the stream of each of its sub-trees from the
key that it was handed. Nothing else on a worker is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from oboro.arrays import Integers
from oboro.domain.mesh import width
from oboro.noise import Bits
from oboro.noise.streams import SubtreeBits
from oboro.tables import wavelet
from oboro.tables.cells import Cells, cap
from oboro.tables.input import records_in
from oboro.tables.subtrees import store
from oboro.tables.subtrees.parts import Into, Published
from oboro.tables.subtrees.places import cut_level, numbered, places_of
from oboro.tables.tree import filtered
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.strategy import PlannedTree

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan


@lru_cache(maxsize=2)
def plan_of(record: str) -> TablePlan:
    """The plan, made anew from its record, once for each worker."""
    import json

    import oboro.tables  # noqa: F401  # plans are known once their capability is loaded
    from oboro.release.plan import plan_from

    return cast("TablePlan", plan_from(json.loads(record)))


@dataclass(frozen=True, slots=True)
class Gather:
    """Writes what a cluster wrote into one file of records as sorted runs. Draws nothing."""

    record: str
    folder: str
    path: str

    def do(self) -> tuple[Integers, list[str]]:
        plan = plan_of(self.record)
        places = places_of(plan)
        records = in_numbers(plan, records_in(self.path, plan.layout, plan.count))
        return store.write_runs(self.folder, records, places.bits, places.prefix_bits, cap(plan.layout))


def in_numbers(
    plan: TablePlan, records: Iterator[tuple[Integers, Integers]]
) -> Iterator[tuple[Integers, Integers]]:
    """Records of keys, as they are numbered in files."""
    for keys, counts in records:
        yield numbered(plan, keys), counts


@dataclass(frozen=True, slots=True)
class Sort:
    """Writes down the cells of a range of prefixes. Draws nothing."""

    folder: str
    runs: tuple[str, ...]
    first: int
    end: int
    below: int
    bits: int
    most: int
    blocks: int  # sums are told of blocks by so many first bits

    def do(self) -> tuple[store.File, Integers, Integers]:
        file, cells = store.write_file(
            self.folder, self.runs, self.first, self.end, self.below, self.bits, self.most
        )
        heads = cells.keys >> (self.bits - self.blocks)
        starts = np.flatnonzero(np.diff(heads, prepend=-1))
        sums = np.add.reduceat(cells.counts, starts) if starts.size else cells.counts[:0]
        return file, heads[starts], sums


@dataclass(frozen=True, slots=True)
class Range:
    """A range of prefixes: the plan, where cells lie, and the keys of its sub-trees for one pass."""

    record: str
    folder: str
    files: tuple[store.File, ...]
    prefix_bits: int
    prefixes: Integers  # those of this task that are visited, in order
    keys: tuple[bytes, ...]  # of their streams, for this pass
    first: int  # the range of prefixes
    end: int

    def trees(self) -> Iterator[tuple[int, int, Cells, Bits]]:
        """Place, prefix, cells and bits of each sub-tree."""
        under = places_of(plan_of(self.record)).below
        cells = store.cells_of(self.files, self.first, self.end, under)
        starts = np.searchsorted(cells.keys, self.prefixes << under)
        ends = np.searchsorted(cells.keys, (self.prefixes + 1) << under)
        for place, (prefix, a, b) in enumerate(
            zip(self.prefixes.tolist(), starts.tolist(), ends.tolist(), strict=True)
        ):
            own = Cells(cells.keys[a:b], cells.counts[a:b])
            yield place, prefix, own, SubtreeBits(self.keys[place])


def _published(plan: TablePlan, measured: Cells, folder: str, into: Into | None, number: int) -> Published:
    if into is not None:
        return into.written(plan.encoded(plan.part(measured), ".parquet"), number, measured.keys.size)
    columns = {"key": measured.keys, "count": measured.counts}
    if isinstance(measured, Measured) and measured.estimates is not None:
        columns["noisy"] = measured.estimates
    return Published(store.written(folder, "published", columns), measured.keys.size)


@dataclass(frozen=True, slots=True)
class Share:
    """The wavelet below prefixes: shares out what the top of the tree gave them."""

    of: Range
    held: Integers
    into: Into | None
    number: int

    def do(self) -> Published:
        plan = plan_of(self.of.record)
        layout = plan.layout
        assert isinstance(plan.mechanism, wavelet.Wavelet)
        found = []
        for place, prefix, cells, bits in self.of.trees():
            draw = wavelet.drawing(plan.mechanism.noise, bits)
            found.append(
                wavelet.below(cells, layout, self.of.prefix_bits, prefix, int(self.held[place]), draw)
            )
        keys, counts = (
            np.concatenate([np.empty(0, np.int64), *(getattr(one, name) for one in found)])
            for name in ("keys", "counts")
        )
        return _published(plan, Cells(keys, counts), self.of.folder, self.into, self.number)


@dataclass(frozen=True, slots=True)
class Count:
    """Tree: the noisy counts of all nodes below the cut, level by level, in the order of nodes."""

    of: Range

    def do(self) -> tuple[str, ...]:
        mechanism = plan_of(self.of.record).mechanism
        assert isinstance(mechanism, PlannedTree)
        (tree,) = mechanism.lattice.trees
        cut = cut_level(tree)
        finer = [
            (at, noise)
            for (at,), noise in zip(mechanism.chosen.levels, mechanism.noises, strict=True)
            if at > cut
        ]
        found: list[list[Integers]] = [[] for _ in finer]
        for _, prefix, cells, bits in self.of.trees():
            leaves = cells.keys - (prefix << width(tree.under(cut)))
            for into, (at, noise) in zip(found, finer, strict=True):
                counts = noise.sample(tree.under(cut) // tree.under(at), bits)
                np.add.at(counts, leaves // tree.under(at), cells.counts)
                into.append(counts)
        return tuple(
            store.written(self.of.folder, "noisy", {"noisy": np.concatenate(each)}) for each in found
        )


@dataclass(frozen=True, slots=True)
class Divide:
    """Filtered: the noisy counts of the parts of live blocks, and which of these are live."""

    of: Range
    live: Integers
    held: Integers
    below: int
    finer: int
    division: int  # which of the divisions it is

    def do(self) -> tuple[Integers, Integers, Integers]:
        mechanism = plan_of(self.of.record).mechanism
        assert isinstance(mechanism, filtered.Filtered)
        law = mechanism.noises[1][self.division]
        bounds = _bounds(
            self.live, self.of.prefixes, mechanism.layout.bits - self.of.prefix_bits - self.below
        )
        found = []
        for place, _, cells, bits in self.of.trees():
            own = slice(bounds[place], bounds[place + 1])
            noisy = filtered.noisy_parts(cells, self.live[own], self.below, self.finer, law, bits)
            found.append((*filtered.divided(self.live[own], self.held[own], self.finer, noisy), noisy))
        live, held, noisy = (
            np.concatenate([np.empty(0, np.int64), *(one[i] for one in found)]) for i in range(3)
        )
        return live, held, noisy


@dataclass(frozen=True, slots=True)
class Look:
    """Filtered, first pass over cells: those that reach the floor, and how often each value does."""

    of: Range
    live: Integers
    below: int
    floor: int

    def do(self) -> tuple[str, Integers, Integers]:
        mechanism = plan_of(self.of.record).mechanism
        assert isinstance(mechanism, filtered.Filtered)
        law, below = mechanism.noise, self.below
        bounds = _bounds(self.live, self.of.prefixes, mechanism.layout.bits - self.of.prefix_bits - below)
        found = []
        for place, _, cells, bits in self.of.trees():
            live = self.live[bounds[place] : bounds[place + 1]]
            near, values = filtered.reaching(cells, live, below, self.floor, law, bits)
            order = np.argsort(near)
            near, values = near[order], values[order]
            found.append(((live[near >> below] << below) | (near & ((1 << below) - 1)), values))
        keys, values = (np.concatenate([np.empty(0, np.int64), *(one[i] for one in found)]) for i in (0, 1))
        known, counts = np.unique(values, return_counts=True)
        return store.written(self.of.folder, "near", {"key": keys, "noisy": values}), known, counts


@dataclass(frozen=True, slots=True)
class Keep:
    """Filtered, second pass: of what reached the floor, what passes the cut, within what its part holds. Draws nothing."""

    record: str
    folder: str
    near: str
    cut: int
    facts: Integers
    live: Integers
    held: Integers
    rounds: tuple[Integers, ...]
    into: Into | None
    number: int

    def do(self) -> Published:
        plan = plan_of(self.record)
        assert isinstance(plan.mechanism, filtered.Filtered)
        below = int(self.facts[3])
        keys, values = store.read(self.near)
        kept = values >= self.cut
        found = filtered.kept(plan.layout, keys[kept], values[kept], self.live, self.held, below)
        levels = [np.empty(0, np.int64)] * len(plan.mechanism.blocks.levels)
        own = (self.live, self.held, self.facts, found.keys, found.noisy[0], *levels, *self.rounds)
        measured = Measured(found.keys, found.counts, own, found.noisy[0])
        return _published(plan, measured, self.folder, self.into, self.number)


def _bounds(live: Integers, prefixes: Integers, bits: int) -> Integers:
    """Where the blocks of each prefix begin among those of a task, and where the last end; `bits` come between."""
    return np.searchsorted(live >> bits, np.append(prefixes, np.iinfo(np.int64).max))
