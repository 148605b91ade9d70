"""A table whose sub-trees are measured by workers: the top of the tree here, all below public prefixes there.

    prepare   cells are written down, sorted and hashed, by workers (store.py): no bit is drawn before
    measure   a master key; the top of the tree, here; then passes over the sub-trees, each with keys of its own

`wavelet`     the root and the nodes above prefixes here, then one pass: what a prefix holds is shared out below it.
`filtered`    blocks here, by their sums, with least squares and projection; then a pass for each division of live blocks, one that
              looks for cells above the floor, and one that keeps those above the cut, which all prefixes decide together.
`tree`        of one column: levels above the cut here, those below it by workers; least squares and projection of all counts here.

Privacy
    The law is that of `measure` of the strategy: the same numbers get the same noise, all draws are independent
    (noise/streams.py), and what follows them is the same post-processing. Where these draw for many places at once, sub-trees do so one
    by one: sums of counts over blocks are exact integers however they are added up; empty cells that reach the floor are a
    binomial number of those below a prefix, uniform among them, and independent of other prefixes (cells.py), which is the law of
    drawing their number for all prefixes at once; the cut is computed from how often each value occurs in all of them.
    How the cells are cut into files follows from the data, and stays inside. How the release is cut into parts follows from what the top
    of the tree holds after its noise, and from the number of parts that was asked for.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from oboro.arrays import Data, Integers
from oboro.engine import Source, open_data
from oboro.engine.cluster import SparkTable
from oboro.errors import ParameterError, setting, told
from oboro.exact import whole
from oboro.kinds import path_of
from oboro.noise import Bits
from oboro.noise.streams import Streams, keys_of
from oboro.progress import progress
from oboro.tables import wavelet
from oboro.tables.cells import Cells, cap
from oboro.tables.input import blocks_of_records, write_records
from oboro.tables.subtrees import store
from oboro.tables.subtrees.executors import Executors, in_cluster, shared_by_workers
from oboro.tables.subtrees.parts import Into, Parts, Published, check_apart
from oboro.tables.subtrees.places import Places, cut_level, places_of
from oboro.tables.subtrees.tasks import Count, Divide, Gather, Keep, Look, Range, Share, Sort, in_numbers
from oboro.tables.subtrees.workers import Pool, Processes
from oboro.tables.tree import filtered
from oboro.tables.tree.measure import Measured, least_of, project, publish
from oboro.tables.tree.strategy import PlannedTree

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan

_FILE = 1 << 20  # about so many in a file: each task reads all of those that its range touches
_ROWS = 1 << 22  # about so many published cells in a part, if nothing else is said
_MOST_PARTS = 64  # unless there are many workers
_MOST_WORKERS = 1024


def check_spread(plan: TablePlan, parts: object = None) -> None:
    """Refuses a table that is measured in one piece only; and a folder of parts for one that is not measured in parts."""
    mechanism = plan.mechanism
    if isinstance(mechanism, PlannedTree) and len(mechanism.lattice.trees) == 1:
        if parts is None:
            return
        raise ParameterError(
            "a tree goes into one file: all of its cells are put together",
            given=told(strategy=repr(plan.strategy), parts=str(parts)),
            needed=setting(strategy="filtered") + " or " + setting(strategy="wavelet"),
            fix=setting(parts=None),
            argument="parts",
        )
    if not isinstance(mechanism, wavelet.Wavelet | filtered.Filtered):
        raise ParameterError(
            "this table is measured in one piece",
            given=told(strategy=repr(plan.strategy)) + ", and workers",
            needed="one of strategies filtered and wavelet, or of strategy tree for one column: these are cut into sub-trees",
            fix=setting(strategy="tree") if mechanism.sized else setting(workers=None),
            argument="workers",
        )


@contextmanager
def spread_over(
    data: Data,
    plan: TablePlan,
    workers: int | None,
    parts: str | Path | None = None,
    shared: str | Path | None = None,
) -> Iterator[Data | Spread]:
    """The data as `run` takes it: by itself, or with workers that measure it as long as this lasts."""
    if workers is None and shared is None:
        if parts is not None:
            raise ParameterError(
                "parts are written by workers",
                given=told(parts=str(parts)),
                needed=setting(workers=2),
                fix=setting(workers=2),
                argument="parts",
            )
        yield data
        return
    check_spread(plan, parts)
    with Spread(data, workers, parts, shared=shared) as spread:
        yield spread


def written(plan: TablePlan) -> str:
    """The record of a plan, which workers make it from."""
    return json.dumps(plan.to_dict(), ensure_ascii=False, sort_keys=True)


class Spread:
    """Data, and who measures it. As long as the run lasts: what was written down goes when this ends, also by a signal."""

    def __init__(
        self,
        data: Any,
        workers: int | None,
        parts: str | Path | None = None,
        partitions: int | None = None,
        pool: Pool | None = None,
        shared: str | Path | None = None,
    ) -> None:
        self.data = data
        self.shared = None if shared is None else shared_by_workers(shared, data)
        if workers is None:
            workers = min(in_cluster(data), _MOST_WORKERS)
        self.workers = whole("workers", workers, least=1, most=_MOST_WORKERS)
        self.parts = None if parts is None else path_of("parts", parts)
        if self.parts is not None:
            check_apart(self.parts, self.shared)
        self.into: Into | None = None
        self.partitions = partitions
        self._pool = pool
        self._private: store.Private | None = None
        self._signals: dict[int, Any] = {}

    def __enter__(self) -> Spread:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:  # a program's own way to end stays as it is
                    self._signals[number] = signal.signal(number, _end)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            with _undisturbed():
                if self._pool is not None:
                    self._pool.close()
                if self._private is not None:
                    self._private.remove()
                if self.into is not None:
                    lost = (
                        getattr(error, "stored", None) is False
                    )  # of a PaidError, or of a signal after the payment
                    self.into.give_up() if lost else self.into.finish()
        finally:
            for number, handler in self._signals.items():
                signal.signal(number, handler)

    @property
    def pool(self) -> Pool:
        if self._pool is None:
            if self.shared is None:
                self._pool = Processes(self.workers)
            else:
                workers = Executors(self.data)
                workers.check((self.folder, *(() if self.into is None else (self.into.writing,))))
                self._pool = workers
        return self._pool

    @property
    def folder(self) -> str:
        """Where cells are written: readable by whoever runs this alone."""
        if self._private is None:
            self._private = store.Private(self.shared)
        return self._private.path

    def seal(self) -> None:
        """An empty file comes to stand where the folder of cells was."""
        if self._private is not None:
            self._private.sealed = True

    def opened(self) -> Opened:
        if self.parts is not None:
            self.into = Into.made(self.parts)
        return Opened(self, open_data(self.data))


def _end(number: int, _: object) -> NoReturn:
    """An orderly end, with the exit code that a shell gives this signal."""
    raise SystemExit(128 + number)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait: a second Ctrl-C would end the deleting, and leave what is as secret as the data."""
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


@dataclass(frozen=True)
class Opened:
    """Opened data, which workers will measure."""

    spread: Spread
    source: Source

    @property
    def engine(self) -> object:
        return getattr(self.source, "engine", None)

    def prepare(self, plan: TablePlan) -> Parted:
        """Writes down the cells; nothing is random, and nothing is drawn before it is done."""
        check_spread(plan, self.spread.parts)
        spread, places, most = self.spread, places_of(plan), cap(plan.layout)
        weights, runs = self._runs(plan, places)
        number = max(spread.workers, -(-int(weights.sum()) // _FILE))
        sums_at = (
            plan.mechanism.blocks.bits
            if isinstance(plan.mechanism, filtered.Filtered)
            else places.prefix_bits
        )
        tasks = [
            Sort(spread.folder, tuple(runs), first, end, places.below, places.bits, most, sums_at)
            for first, end in store.ranges(weights, number)
        ]
        done = spread.pool.run(tasks)
        for run in runs:
            Path(run).unlink(missing_ok=True)
        sums = np.zeros(1 << sums_at, np.int64)
        for _, heads, own in done:
            sums[heads] = own
        return Parted(spread, tuple(file for file, _, _ in done), sums)

    def _runs(self, plan: TablePlan, places: Places) -> tuple[Integers, list[str]]:
        """Sorted runs of records, by the workers of the cluster that has the data, or here; and how many there are below each prefix."""
        folder, pool, layout = self.spread.folder, self.spread.pool, plan.layout  # workers start meanwhile
        if self.spread.shared is None:
            records = blocks_of_records(self.source, layout, plan.unit, plan.count)
            return store.write_runs(
                folder, in_numbers(plan, records), places.bits, places.prefix_bits, cap(layout)
            )
        assert isinstance(self.source, SparkTable)
        place = Path(folder) / "records"
        try:
            with pool.job() if isinstance(pool, Executors) else nullcontext():
                write_records(self.source, layout, plan.unit, plan.count, place.as_uri())
        except BaseException:
            self.spread.seal()  # tasks of that job may go on, and would make a folder anew that is gone
            raise
        record = written(plan)
        found = pool.run([Gather(record, folder, str(path)) for path in sorted(place.glob("*.parquet"))])
        shutil.rmtree(place, ignore_errors=True)
        weights: Integers = sum((one for one, _ in found), np.zeros(1 << places.prefix_bits, np.int64))
        return weights, [run for _, runs in found for run in runs]


@dataclass(frozen=True)
class Parted:
    """Cells that were written down, and what blocks of them hold."""

    spread: Spread
    files: tuple[store.File, ...]
    sums: Integers

    def measure(self, plan: TablePlan, bits: Bits) -> Cells | Parts:
        """Draws the noise: the first bit is that of the master key."""
        record = written(plan)
        run = _Run(self, plan, record, Streams(bits, record.encode()), places_of(plan).prefix_bits)
        try:
            if isinstance(plan.mechanism, PlannedTree):
                return run.tree(plan.mechanism, bits)
            if isinstance(plan.mechanism, filtered.Filtered):
                return run.filtered(plan.mechanism, bits)
            assert isinstance(plan.mechanism, wavelet.Wavelet)
            return run.wavelet(plan.mechanism, bits)
        except BaseException:
            if self.spread.into is not None:  # some of the parts may be there already
                self.spread.into.give_up()
            raise


@dataclass(frozen=True)
class _Run:
    """One measurement: the driver's side of it."""

    cells: Parted
    plan: TablePlan
    record: str
    streams: Streams
    prefix_bits: int

    def wavelet(self, mechanism: wavelet.Wavelet, bits: Bits) -> Cells | Parts:
        stored = np.flatnonzero(self.cells.sums)
        top, _ = wavelet.measure(
            Cells(stored, self.cells.sums[stored]),
            wavelet.Head(self.plan.layout, self.prefix_bits),
            mechanism.noise,
            bits,
            total=mechanism.total,
        )
        held = np.zeros(1 << self.prefix_bits, np.int64)
        held[top.keys] = top.counts
        tasks = [
            Share(own, held[own.prefixes], into=self._into, number=number)
            for number, own in enumerate(self._cut(held, held, epoch=1))
        ]
        return self._joined(self._run(tasks, "sharing out"))

    def tree(self, mechanism: PlannedTree, bits: Bits) -> Measured:
        (tree,), design = mechanism.lattice.trees, mechanism.chosen
        level = cut_level(tree)
        every = np.ones(tree.nodes(level), np.int64)
        sums = self.cells.sums[: every.size]
        coarse = {
            at: sums.reshape(tree.nodes(at), -1).sum(axis=1) + noise.sample(tree.nodes(at), bits)
            for (at,), noise in zip(design.levels, mechanism.noises, strict=True)
            if at <= level
        }
        finer = [at for (at,) in design.levels if at > level]
        done = self._run([Count(of) for of in self._cut(every, every, epoch=1)], "counting") if finer else []
        for place, at in enumerate(finer):
            coarse[at] = np.concatenate([store.read(paths[place])[0] for paths in done])
        noisy = [coarse[at] for (at,) in design.levels]
        possible = mechanism.lattice.possible(self.plan.layout)
        facts = (self.plan.layout, mechanism.lattice, design, mechanism.noises, possible)
        return publish(noisy, *facts, mechanism.total, mechanism.publish)

    def filtered(self, mechanism: filtered.Filtered, bits: Bits) -> Cells | Parts:
        found, layout = mechanism.blocks, self.plan.layout
        below = layout.bits - found.bits
        of_blocks, of_parts, of_cells = mechanism.noises
        stored = np.flatnonzero(self.cells.sums)
        blocks = Cells(stored << below, self.cells.sums[stored])
        carried = filtered.counted_blocks(blocks, below, found, of_blocks, bits)
        all_held = project(found.lattice, filtered.solved(found, of_blocks, carried), found.possible)
        live = np.flatnonzero(all_held)
        held = all_held[live]
        weights = self._by_prefix(live, held, found.bits)
        there = self._by_prefix(live, np.ones_like(live), found.bits)
        divisions: list[int] = []
        rounds: list[Integers] = []
        for division in range(len(of_parts)):
            finer = filtered.finer_bits(live.size, below)
            divisions.append(finer)
            if not finer:
                continue
            done = self._run(
                [
                    Divide(of, live[own], held[own], below, finer, division)
                    for of, own in self._with_live(weights, there, live, below, epoch=1 + division)
                ],
                "looking for cells",
            )
            noisy = _column(done, 2)
            rounds += [live, noisy]
            live, held = _column(done, 0), _column(done, 1)
            below -= finer
            there = self._by_prefix(live, np.ones_like(live), layout.bits - below)
        candidates, total = live.size << below, int(held.sum())
        floor = filtered.floor_of(candidates, total, of_cells) if live.size else 1
        with_live = list(self._with_live(weights, there, live, below, epoch=1 + len(of_parts)))
        looked = self._run(
            [Look(of, live[own], below, floor) for of, own in with_live],
            "looking for cells",
        )
        values, places = np.unique(_column(looked, 1), return_inverse=True)
        often = np.zeros(values.size, np.int64)
        np.add.at(often, places, _column(looked, 2))
        cut = least_of(values, often, candidates, floor, of_cells, filtered.FALSE)
        published = int(often[values >= cut].sum())
        facts = filtered.facts_of(candidates, published, cut, below, divisions)
        kept = self._run(
            [
                Keep(
                    self.record,
                    self.cells.spread.folder,
                    near,
                    cut,
                    facts,
                    live[own],
                    held[own],
                    tuple(_rounds_within(rounds, divisions, found.bits, self.prefix_bits, of.first, of.end)),
                    self._into,
                    number,
                )
                for number, ((of, own), (near, _, _)) in enumerate(zip(with_live, looked, strict=True))
            ],
            "looking for cells",
        )
        joined = self._joined(kept)
        if isinstance(joined, Parts):
            return joined
        assert isinstance(joined, Measured)
        facts = filtered.facts_of(candidates, joined.keys.size, cut, below, divisions)
        assert joined.estimates is not None
        own_arrays = (live, held, facts, joined.keys, joined.estimates)
        return Measured(joined.keys, joined.counts, (*own_arrays, *carried, *rounds), joined.estimates)

    @property
    def _into(self) -> Into | None:
        return self.cells.spread.into

    def _run(self, tasks: list[Any], stage: str) -> list[Any]:
        progress(stage, 0.0)
        done = self.cells.spread.pool.run(tasks)
        progress(stage, 1.0)
        return done

    def _by_prefix(self, places: Integers, values: Integers, bits: int) -> Integers:
        """Sums over the places of each prefix; places have so many bits."""
        sums = np.zeros(1 << self.prefix_bits, np.int64)
        np.add.at(sums, places >> (bits - self.prefix_bits), values)
        return sums

    def _cut(self, weights: Integers, visited: Integers, epoch: int) -> Iterator[Range]:
        """What tasks have in common, range by range. `weights` and `visited` have noise: they decide the parts of the release."""
        number = self.cells.spread.partitions
        if number is None:
            fewest = 4 * self.cells.spread.workers
            number = max(fewest, min(-(-int(weights.sum()) // _ROWS), _MOST_PARTS))
        for first, end in store.ranges(np.maximum(weights, 1), number):
            prefixes = first + np.flatnonzero(visited[first:end])
            keys = keys_of(self.streams, self.prefix_bits, prefixes, epoch)
            files = tuple(one for one in self.cells.files if one.first < end and first < one.end)
            folder = self.cells.spread.folder
            yield Range(self.record, folder, files, self.prefix_bits, prefixes, tuple(keys), first, end)

    def _with_live(
        self, weights: Integers, there: Integers, live: Integers, below: int, epoch: int
    ) -> Iterator[tuple[Range, slice]]:
        """The same, with which live blocks lie in the range."""
        bits = self.plan.layout.bits - below - self.prefix_bits
        for of in self._cut(weights, there, epoch):
            start, end = np.searchsorted(live >> bits, [of.first, of.end]).tolist()
            yield of, slice(start, end)

    def _joined(self, found: list[Published]) -> Cells | Parts:
        if self._into is not None:
            return Parts(tuple(found))
        columns = [store.read(one.path) for one in found]
        keys, counts, *noisy = (np.concatenate(each) for each in zip(*columns, strict=True))
        return Measured(keys, counts, (), noisy[0]) if noisy else Cells(keys, counts)


def _column(done: list[tuple[Any, ...]], place: int) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *(one[place] for one in done)])


def _rounds_within(
    rounds: list[Integers], divisions: list[int], bits: int, prefix_bits: int, first: int, end: int
) -> Iterator[Integers]:
    """What was counted at each division, of the blocks in a range of prefixes; the first blocks have so many bits."""
    for live, noisy, finer in zip(rounds[::2], rounds[1::2], [one for one in divisions if one], strict=True):
        start, stop = np.searchsorted(live >> (bits - prefix_bits), [first, end]).tolist()
        yield live[start:stop]
        yield noisy[start << finer : stop << finer]
        bits += finer
