"""Sub-trees measured by workers: the same table however the work is cut, and the law of the table in one piece."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.errors import DataError, LedgerError, PaidError, ParameterError, StoredError
from oboro.noise import DiscreteLaplace, system_bits
from oboro.noise.bits import Bits
from oboro.noise.streams import Streams
from oboro.tables import wavelet
from oboro.tables.cells import Cells
from oboro.tables.input import read_cells
from oboro.tables.plan import TablePlan
from oboro.tables.subtrees import store, tasks
from oboro.tables.subtrees.parts import Into, check_apart
from oboro.tables.subtrees.places import places_of
from oboro.tables.subtrees.spread import Parted, Spread
from oboro.tables.subtrees.workers import Processes, Task, attempt, failed
from support import fits, repeatable

UNIT = ob.Unit.cells()


class Here:
    """Workers that are none: tasks are done in this process, each as often as `times` says; the last one counts."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def run(self, some: Sequence[Task]) -> list[Any]:
        found = []
        for task in some:
            for _ in range(self.times):
                good, result = attempt(pickle.loads(pickle.dumps(task)))
                if not good:
                    raise failed(result)
            found.append(pickle.loads(pickle.dumps(result)))
        return found

    def close(self) -> None:
        pass


def planned(strategy: str, side: int, eps: object = 1, **more: Any) -> TablePlan:
    domain = ob.Domain([ob.Grid("row", "col", shape=(side, side - 3))])
    return ob.tables.plan(domain, unit=UNIT, eps=eps, count="people", strategy=strategy, **more)


def scattered(side: int, cells: int = 3000, most: int = 400) -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {
        "row": random.integers(0, side // 2, cells),  # the other half stores nothing
        "col": random.integers(0, side - 3, cells),
        "people": random.integers(1, most, cells),
    }


def measured(
    plan: TablePlan, data: Any, partitions: int | None = None, bits: Bits | None = None, pool: Any = None
) -> Any:
    with Spread(data, 2, partitions=partitions, pool=pool or Here()) as spread:
        prepared = plan.prepare(plan.open(spread))
        return plan.measure(prepared, bits or system_bits())


def same(one: Any, other: Any) -> bool:
    return (
        np.array_equal(one.keys, other.keys)
        and np.array_equal(one.counts, other.counts)
        and len(getattr(one, "noisy", ())) == len(getattr(other, "noisy", ()))
        and all(map(np.array_equal, getattr(one, "noisy", ()), getattr(other, "noisy", ())))
    )


CASES = [
    ("wavelet", 64),
    ("filtered", 64),
    ("tree", 64),
    pytest.param("filtered", 1 << 16, marks=pytest.mark.long("sub-trees")),
]


@pytest.mark.parametrize(("strategy", "side"), CASES)
@pytest.mark.few(2, "sub-trees")
def test_the_same_bits_give_the_same_table_however_it_is_cut(strategy: str, side: int) -> None:
    plan, data = planned(strategy, side), scattered(side)
    found = [
        measured(plan, data, partitions, repeatable("cut"), Here(times))
        for partitions, times in ((1, 1), (3, 1), (7, 2))
    ]
    assert found[0].keys.size > 100
    assert all(same(found[0], other) for other in found[1:])
    assert not same(found[0], measured(plan, data, 3, repeatable("other")))
    assert (np.diff(found[0].keys) > 0).all()
    assert found[0].counts.min() > 0
    assert plan.layout.possible(found[0].keys).all()


@pytest.mark.parametrize("strategy", ["wavelet", "filtered"])
def test_what_is_written_down_is_what_is_read_in_one_piece(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro.tables.subtrees import spread as module

    monkeypatch.setattr(module, "_FILE", 500)
    monkeypatch.setattr(store, "_RECORDS", 500)  # many runs, many files
    plan, data = planned(strategy, 1 << 12), scattered(1 << 12, 6000)
    data["row"][3000:] = data["row"][:3000]  # cells that come twice, in other runs
    data["col"][3000:] = data["col"][:3000]
    whole = read_cells(data, plan.layout, UNIT, "people")
    with Spread(data, 3, pool=Here()) as spread:
        prepared = plan.prepare(plan.open(spread))
        assert isinstance(prepared, Parted)
        assert len(prepared.files) > 5
        cut = places_of(plan)
        found = store.cells_of(prepared.files, 0, cut.prefixes, cut.below)
        assert same(whole, found)
        assert prepared.sums.sum() == whole.counts.sum()
        folder = Path(spread.folder)
        assert folder.stat().st_mode & 0o077 == 0
        assert {path.suffix for path in folder.iterdir()} == {".arrow"}
    assert not folder.exists()


def test_rows_of_persons_are_bounded_before_they_are_written_down() -> None:
    unit = ob.Unit.person("who", 2)
    domain = ob.Domain([ob.Grid("row", "col", shape=(16, 16))])
    plan = ob.tables.plan(domain, unit=unit, eps=1, strategy="wavelet")
    data = {"who": ["a"] * 9 + ["b"], "row": [3] * 10, "col": [*range(9), 1]}
    with Spread(data, 1, pool=Here()) as spread:
        prepared = plan.prepare(plan.open(spread))
        assert prepared.sums.sum() == 3


@pytest.mark.parametrize(("strategy", "side"), [("wavelet", 16), ("filtered", 64), ("tree", 16)])
def test_nobody_at_all_is_a_table_too(strategy: str, side: int) -> None:
    empty = {"row": [], "col": [], "people": []}
    plan = planned(strategy, side, eps="0.1")
    assert all(measured(plan, empty).counts.size >= 0 for _ in range(3))


# The law


def reference(plan: TablePlan, cells: Cells, depth: int, held: int, prefix: int, draw: Any) -> dict[int, int]:
    """T2 below a node, in plain Python, with one draw after the other."""
    bits, found = plan.layout.bits, {}
    stored = dict(zip(cells.keys.tolist(), cells.counts.tolist(), strict=True))
    noise, coins = draw

    def may(start: int, height: int) -> bool:
        return bool(plan.layout.possible(np.arange(start, start + (1 << height))).any())

    def visit(start: int, height: int, total: int) -> None:
        if total == 0:
            return
        if height == 0:
            found[start] = total
            return
        second = start + (1 << (height - 1))
        share = total
        if may(start, height - 1) and may(second, height - 1):
            here = sum(n for key, n in stored.items() if start <= key < second)
            there = sum(n for key, n in stored.items() if second <= key < start + (1 << height))
            both = total + max(-total, min(total, here - there + next(noise)))
            coin = next(coins)
            share = both // 2 + (both & 1 & coin)
        elif may(second, height - 1):
            share = 0
        visit(start, height - 1, share)
        visit(second, height - 1, total - share)

    visit(prefix << (bits - depth), bits - depth, held)
    return found


@pytest.mark.parametrize("masked", [False, pytest.param(True, marks=pytest.mark.long("sub-trees"))])
def test_a_sub_tree_is_shared_out_as_its_node_in_the_whole_tree(masked: bool) -> None:
    domain = ob.Domain([ob.Category("kind", ["a", "b", "c"]), ob.Grid("row", "col", shape=(13, 8))])
    more = {"possible": {"kind": ["a", "c"]}} if masked else {}
    plan = ob.tables.plan(domain, unit=UNIT, eps=1, count="people", strategy="wavelet", **more)
    layout, random = plan.layout, np.random.default_rng(3)
    for depth in (0, 2, 4):
        for prefix in range(1 << depth):
            span = np.arange(prefix << (layout.bits - depth), (prefix + 1) << (layout.bits - depth))
            span = span[layout.possible(span)]
            if span.size == 0:
                continue
            keys = np.sort(random.choice(span, max(1, span.size // 3), replace=False))
            cells = Cells(keys, random.integers(1, 9, keys.size))
            noise = random.integers(-9, 9, 1 << 13)
            words = random.integers(-(2**62), 2**62, 1 << 7)
            coins = iter([(int(words[i >> 6]) >> (i & 63)) & 1 for i in range(noise.size)])
            at = [0]

            def draw(count: int, at: list[int] = at, noise: Any = noise, words: Any = words) -> Any:
                start, at[0] = at[0], at[0] + count
                return noise[start : at[0]], words[start // 64 : at[0] // 64]

            found = wavelet.below(cells, layout, depth, prefix, 40, draw)
            wanted = reference(plan, cells, depth, 40, prefix, (iter(noise.tolist()), coins))
            assert dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True)) == wanted


@pytest.mark.long("sub-trees")
def test_every_difference_of_the_wavelet_has_its_noise_and_shows_a_wrong_scale() -> None:
    """Of a table so full that nothing is clamped: halves of a node differ by their noise, above prefixes and below."""
    domain = ob.Domain([ob.Grid("row", "col", shape=(256, 256))])
    bits, full = 16, 10**7
    places = np.arange(1 << bits)
    data = {"row": places >> 8, "col": places & 255, "people": np.full(1 << bits, full)}
    law = DiscreteLaplace(Fraction(wavelet.sensitivity(UNIT, bits)) * 2)
    for eps, good in (("0.5", True), ("0.475", False)):
        plan = ob.tables.plan(domain, unit=UNIT, eps=eps, count="people", strategy="wavelet")
        off = measured(plan, data).counts - full
        sums = [off.reshape(-1, 1 << height).sum(axis=1) for height in range(bits)]
        drawn = [each[0::2] - each[1::2] for each in sums]
        # the mean of 65,535 has an error of 0.4%: 2.3% are almost 6 of them, here and from what is 5% off
        mean = np.abs(np.concatenate(drawn)).mean()
        assert (abs(mean / law.mean_abs - 1) < 0.023) == good
        below = np.concatenate([each.reshape(256, -1) for each in drawn[:8]], axis=1)
        alike = np.corrcoef(below) - np.eye(256)  # of 255 draws each: 0.063 is one standard deviation
        assert np.abs(alike).max() < 0.55


@pytest.mark.long("sub-trees")
def test_draws_of_a_filtered_table_have_their_laws_and_show_a_wrong_scale() -> None:
    """One table: counts of parts and of cells less the truth, and how many empty cells are published."""
    side = 1 << 12
    plan = planned("filtered", side)
    random = np.random.default_rng(5)
    chosen = np.sort(random.choice(side * (side - 3), 40_000, replace=False))
    data = {"row": chosen // (side - 3), "col": chosen % (side - 3), "people": np.full(chosen.size, 500)}
    truth = read_cells(data, plan.layout, UNIT, "people")
    found = measured(plan, data, 5)
    _, _, facts, keys, noisy, *rest = found.noisy
    mechanism = plan.mechanism
    levels = len(mechanism.blocks.levels)
    below = plan.layout.bits - mechanism.blocks.bits
    _, of_parts, of_cells = mechanism.noises
    for division, (law, finer) in enumerate(zip(of_parts, facts[4:].tolist(), strict=True)):
        assert finer > 0
        blocks, counts = rest[levels + 2 * division : levels + 2 * division + 2]
        below -= finer
        parts = (np.repeat(blocks, 1 << finer) << finer) + np.tile(np.arange(1 << finer), blocks.size)
        ends = np.searchsorted(truth.keys, np.stack([parts << below, (parts + 1) << below]))
        before = np.concatenate([[0], np.cumsum(truth.counts)])
        _compared(counts - (before[ends[1]] - before[ends[0]]), law)
    stored = np.isin(keys, truth.keys)
    assert stored.sum() > 35_000
    _compared(noisy[stored] - 500, of_cells)
    cut, candidates = int(facts[2]), int(facts[0])
    expected = float((candidates - stored.sum()) * of_cells.cdf(-cut))
    assert abs((~stored).sum() - expected) < 6 * max(expected, 1) ** 0.5 + 6


@pytest.mark.long("sub-trees")
@pytest.mark.parametrize("more", [{}, {"delta": "1e-6"}])
def test_draws_of_a_tree_have_their_laws_and_show_a_wrong_scale(more: dict[str, Any]) -> None:
    """One table whose sides are not powers of two: counts of nodes less the truth, above the cut and below."""
    rows, cols = 480, 401
    domain = ob.Domain([ob.Grid("row", "col", shape=(rows, cols))])
    plan = ob.tables.plan(domain, unit=UNIT, eps=1, count="people", strategy="tree", **more)
    random = np.random.default_rng(9)
    chosen = np.sort(random.choice(rows * cols, 20_000, replace=False))
    data = {
        "row": chosen // cols,
        "col": chosen % cols,
        "people": random.integers(1, 10**6, chosen.size),
    }
    truth = read_cells(data, plan.layout, UNIT, "people")
    found = measured(plan, data, 5)
    mechanism = plan.mechanism
    lattice, cut = mechanism.lattice, places_of(plan)
    assert 100 < cut.prefixes < 1 << cut.prefix_bits
    counts = np.zeros(lattice.leaves, np.int64)
    counts[lattice.leaf(plan.layout, truth.keys)] = truth.counts
    compared = 0
    for level, law, noisy in zip(mechanism.chosen.levels, mechanism.noises, found.noisy, strict=True):
        off = noisy - lattice.sums(counts, level)
        assert np.abs(off).max() < 60 * law.sd
        if off.size > 30_000:
            assert fits(off, law)
            ratio = np.mean(off**2.0) / law.variance  # its own error is below 1%
            assert abs(ratio - 1) < 0.06
            assert abs(ratio / 1.07**2 - 1) > 0.06  # a scale that is 7% off shows
            compared += 1
    assert compared
    assert plan.layout.possible(found.keys).all()


def _compared(draws: Any, law: DiscreteLaplace) -> None:
    """The mean of n absolute values has an error of 1/sqrt(n): 6 of them are allowed, and a scale that is 7% off shows."""
    assert fits(draws, law)
    reach = 6 / draws.size**0.5
    assert reach < 0.035
    mean = np.abs(draws).mean()
    assert abs(mean / law.mean_abs - 1) < reach
    assert abs(mean / DiscreteLaplace(law.scale * Fraction(107, 100)).mean_abs - 1) > reach


# What a repeated task sees


def test_cells_that_changed_since_they_were_written_down_are_not_measured(tmp_path: Path) -> None:
    """With other cells under the same keys two attempts would differ by the cells, without noise."""
    plan, data = planned("wavelet", 64), scattered(64)
    for change in ("other", "gone"):
        with Spread(data, 2, partitions=3, pool=Here()) as spread:
            prepared = plan.prepare(plan.open(spread))
            path = Path(prepared.files[0].path)
            if change == "gone":
                path.unlink()
            else:
                keys, counts = (each.copy() for each in store.read(str(path)))
                counts[0] += 1
                path.write_bytes(
                    Path(store.written(str(tmp_path), "cells", {"key": keys, "count": counts})).read_bytes()
                )
            with pytest.raises(DataError, match="not what they were"):
                plan.measure(prepared, system_bits())


def test_no_bit_is_drawn_before_all_cells_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, data = planned("filtered", 64), scattered(64)
    done: list[str] = []
    original = Bits.words

    def words(self: Bits, count: int) -> Any:
        done.append("bits")
        return original(self, count)

    class Watched(Here):
        def run(self, some: Sequence[Task]) -> list[Any]:
            done.extend(type(task).__name__ for task in some)
            return super().run(some)

    monkeypatch.setattr(Bits, "words", words)
    with Spread(data, 2, pool=Watched()) as spread:
        prepared = plan.prepare(plan.open(spread))
        assert set(done) == {"Sort"}
        plan.measure(prepared, system_bits())
    first = done.index("bits")
    assert "Sort" not in done[first:]
    assert {"Divide", "Look", "Keep"} <= set(done[first:])


def test_no_two_passes_or_sub_trees_have_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    original = tasks.SubtreeBits

    def begun(key: bytes) -> Any:
        keys.append(key)
        return original(key)

    monkeypatch.setattr(tasks, "SubtreeBits", begun)
    measured(planned("filtered", 64), scattered(64), 3)
    assert len(keys) > 60
    assert len(set(keys)) == len(keys)


# Processes


@pytest.mark.long("workers")
def test_a_worker_that_is_killed_changes_nothing() -> None:
    plan, data = planned("filtered", 64), scattered(64)
    wanted = measured(plan, data, 3, repeatable("killed"))

    class Killed(Processes):
        def run(self, some: Sequence[Task]) -> list[Any]:
            for worker in self.ids:
                os.kill(worker, signal.SIGKILL)
            return super().run(some)

    assert same(wanted, measured(plan, data, 3, repeatable("killed"), Killed(2)))


@pytest.mark.long("workers")
@pytest.mark.parametrize("strategy", ["filtered", "tree"])
def test_a_release_by_workers_is_a_release(strategy: str, tmp_path: Path) -> None:
    plan = planned(strategy, 64)
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))
    release = ob.tables.release(scattered(64), plan, ledger=ledger, workers=2, name="mesh")
    assert ledger.remaining == ob.Pure(0)
    where = release.save(tmp_path / "mesh.parquet")
    ob.verify_certificate(where, public_key=ledger.public_key)
    assert release.interval(row=(0, 31)).low > 0
    again = ob.tables.release({}, plan, ledger=ledger, workers=2, name="mesh")
    assert again.to_arrow().equals(release.to_arrow())


class Failing:
    def do(self) -> None:
        raise ValueError("a true count of 12345")


@pytest.mark.long("workers")
def test_what_fails_on_a_worker_is_told_without_its_words(tmp_path: Path) -> None:
    pool = Processes(1)
    try:
        with pytest.raises(DataError) as caught:
            pool.run([Failing()])
        assert "12345" not in str(caught.value)
        with pytest.raises(DataError, match="cannot be written down"):
            pool.run([tasks.Sort(str(tmp_path / "nowhere"), (), 0, 1, 0, 0, 1, 0)])
    finally:
        pool.close()


def test_what_is_measured_in_one_piece_only_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))
    columns = [ob.Grid("row", "col", shape=(16, 16)), ob.Category("sex", ["f", "m"])]
    two = ob.tables.plan(ob.Domain(columns), unit=UNIT, eps=1, count="people", strategy="tree")
    for plan in (planned("adaptive", 64), two):
        with pytest.raises(ParameterError, match="in one piece"):
            ob.tables.release(scattered(64), plan, ledger=ledger, workers=2)
    with pytest.raises(ParameterError, match="goes into one file"):
        ob.tables.release(
            scattered(64), planned("tree", 64), ledger=ledger, workers=2, parts=tmp_path / "parts"
        )
    for wrong in (0, -1, 10**6, "many"):
        with pytest.raises(ob.OboroError, match="workers"):
            ob.tables.release(scattered(64), planned("wavelet", 64), ledger=ledger, workers=wrong)  # type: ignore[arg-type]
    assert ledger.spent == ob.Pure(0)


# A folder of parts


def in_parts(plan: TablePlan, data: Any, folder: Path, ledger: ob.Ledger, name: str | None = None) -> Any:
    from oboro.release import run
    from oboro.tables.subtrees.parts import keep_list

    with Spread(data, 2, folder, partitions=4, pool=Here()) as spread:
        released = run(plan, spread, ledger, name)
    keep_list(released, folder, ledger)
    return released


@pytest.mark.parametrize("strategy", ["wavelet", "filtered"])
def test_parts_are_the_table_and_the_ledger_keeps_their_hashes(strategy: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    plan, data, folder = planned(strategy, 64), scattered(64), tmp_path / "published"
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(3))
    released = in_parts(plan, data, folder, ledger, "mesh")
    files = sorted(path.name for path in folder.iterdir())
    assert files == [
        "manifest.parquet",
        "manifest.parquet.certificate.json",
        *(f"part-{i:05d}.parquet" for i in range(4)),
    ]
    assert ob.verify_certificate(folder, public_key=ledger.public_key)["dataset"] == "city"
    assert ledger.find("mesh").content() == (folder / "manifest.parquet").read_bytes()
    tables = [pq.read_table(folder / name) for name in files[2:]]
    assert sum(table.num_rows for table in tables) == sum(released.to_arrow()["rows"].to_pylist())
    rows = [key for table in tables for key in read_cells(table, plan.layout, UNIT, "people").keys.tolist()]
    assert rows == sorted(set(rows))
    if strategy == "filtered":
        for table in tables:
            low, high, people = (table[name].to_numpy() for name in ("low", "high", "people"))
            assert ((low <= people) & (people <= high)).all()
        with pytest.raises(DataError, match="list of the parts"):
            released.interval(row=(0, 3))
        with pytest.raises(DataError, match="list of the parts"):
            ob.tables.ask(folder, {"row": 3})
        assert "part-00000.parquet" in str(released)
    again = in_parts(plan, data, folder, ledger, "mesh")
    assert again.to_arrow().equals(released.to_arrow())
    with pytest.raises(DataError, match="not in the folder"):
        in_parts(plan, data, tmp_path / "elsewhere", ledger, "mesh")
    for ask in (
        lambda: ob.tables.release(data, plan, ledger=ledger, name="mesh"),
        lambda: ob.run(plan, data, ledger, name="mesh"),
    ):
        with pytest.raises(DataError, match="went into a folder of parts"):
            ask()
    with pytest.raises(ParameterError, match="not empty"):
        in_parts(plan, data, folder, ledger)
    assert ledger.spent == ob.Pure(1)


class Broken(Here):
    """Does some tasks of the last pass, and fails at the next."""

    def run(self, some: Sequence[Task]) -> list[Any]:
        if isinstance(some[0], tasks.Keep):
            super().run(some[:2])
            raise failed("Died")
        return super().run(some)


def test_a_run_that_fails_in_the_middle_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, data, folder = planned("filtered", 64), scattered(64), tmp_path / "published"
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(9))

    def tried(pool: Any) -> None:
        with Spread(data, 2, folder, partitions=4, pool=pool) as spread:
            ob.run(plan, spread, ledger)  # type: ignore[arg-type]

    with pytest.raises(PaidError, match="nothing was released"):
        tried(Broken())
    assert not list(folder.iterdir())

    def full(*_: object, **__: object) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(ob.Ledger, "commit", full)
        with pytest.raises(PaidError, match="nothing was released"):
            tried(Here())
        assert not list(folder.iterdir())
        patch.setattr(ob.Ledger, "find_entry", full)  # nobody knows whether it is stored: then its parts stay
        with pytest.raises(PaidError, match="may be stored"):
            tried(Here())
    assert sorted(path.name for path in folder.iterdir()) == [f"part-{i:05d}.parquet" for i in range(4)]


STOPPED = """
import os, signal, sys
import oboro as ob
from oboro.tables.subtrees import workers
def struck(owner, name, when=lambda *given: True):
    original = getattr(owner, name)
    def called(*given, **more):
        if when(*given):
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*given, **more)
    setattr(owner, name, called)
if sys.argv[1] == "commit":
    struck(ob.Ledger, "commit")
else:
    struck(workers.Processes, "run", lambda _, some: type(some[0]).__name__ == sys.argv[1])
struck(workers.Processes, "close")  # and once more, by somebody who does not want to wait
domain = ob.Domain([ob.Grid("row", "col", shape=(64, 61))])
unit = ob.Unit.cells()
plan = ob.tables.plan(domain, unit=unit, eps=1, count="people", strategy="filtered")
ledger = ob.Ledger.create("a.ledger", dataset="city", unit=unit, budget=ob.Pure(1))
cells = {"row": list(range(60)), "col": list(range(60)), "people": [300] * 60}
ob.tables.release(cells, plan, ledger=ledger, workers=1, parts="published")
"""


@pytest.mark.long("workers")
@pytest.mark.parametrize("when", ["Sort", "Keep", "commit"])
def test_a_run_that_is_told_to_end_leaves_no_cells_and_no_part(when: str, tmp_path: Path) -> None:
    meanwhile = tmp_path / "meanwhile"
    meanwhile.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, when],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(meanwhile)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert not list(meanwhile.glob("oboro-cells-*"))
    assert not list((tmp_path / "published").iterdir())
    spent = ob.Ledger.open(tmp_path / "a.ledger").spent
    assert spent == ob.Pure(0 if when == "Sort" else 1)


def test_cells_that_a_killed_run_left_are_deleted_and_those_of_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, held, elsewhere = (tmp_path / name for name in ("oboro-cells-left", "oboro-cells-held", "other"))
    for folder in (left, held, elsewhere):
        folder.mkdir()
        (folder / "cells-1.arrow").write_bytes(b"1")
    (tmp_path / "oboro-cells-link").symlink_to(elsewhere)
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        own = store.Private()
        other = store.Private()
        assert not left.exists()
        assert (held / "cells-1.arrow").exists()
        assert (elsewhere / "cells-1.arrow").exists()
        assert Path(own.path).exists()
        own.remove()
        other.remove()
        assert not Path(own.path).exists()
    finally:
        os.close(lock)


def test_cells_are_written_where_was_asked_or_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another disk than the one that was asked for may not be encrypted; and one that is full has a name."""
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))

    def refused() -> str:
        with pytest.raises(store.NoRoom) as caught, Spread(scattered(64), 1, pool=Here()) as spread:
            ob.run(planned("wavelet", 64), spread, ledger)  # type: ignore[arg-type]
        return str(caught.value)

    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path / "not mounted"))
        assert "not mounted" in refused()
        patch.setenv("TMPDIR", str(tmp_path))
        patch.setattr(os, "fdopen", full)
        assert "full" in refused()
    with pytest.raises(store.NoRoom):
        raise failed("NoRoom")
    assert not list(tmp_path.glob("oboro-cells-*"))
    assert ledger.spent == ob.Pure(0)


def test_cells_and_published_parts_lie_in_folders_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))
    own = tmp_path / "own"
    (own / "within").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(own)
    for wrong in (own, link, own / "within", link / "within" / "new", tmp_path, own / "..", Path("/")):
        with pytest.raises(ParameterError, match="beside published parts"):
            check_apart(wrong, str(own))
    for good in (tmp_path / "other", tmp_path / "own2", own / ".." / "other"):
        check_apart(good, str(own))

    monkeypatch.setattr(tempfile, "tempdir", str(own / "within"))
    monkeypatch.setenv("TMPDIR", str(own / "within"))
    for wrong in (own, own / "within", link / "within"):
        with pytest.raises(ParameterError, match="beside published parts"):
            ob.tables.release(scattered(64), planned("wavelet", 64), ledger=ledger, workers=1, parts=wrong)
    assert ledger.spent == ob.Pure(0)
    assert not list((own / "within").iterdir())
    check_apart(own / "within" / "new", None)  # as most folders lie in that for what is temporary


def test_where_a_job_may_still_write_no_folder_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tasks of a Spark do that are not ended yet: they make all folders of their path."""
    own = store.Private(str(tmp_path))
    original, places = os.rename, []

    def rename(folder: str, gone: str) -> None:
        original(folder, gone)
        places.append(gone)
        if len(places) == 1:  # just between: it was deleted, and the file is not there yet
            os.makedirs(f"{folder}/records")

    os.makedirs(f"{own.path}/records")
    own.sealed = True
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        own.remove()
    assert len(places) == 2
    with pytest.raises(OSError, match="directory"):
        os.makedirs(f"{own.path}/records")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""]


def test_of_two_runs_that_find_a_folder_empty_at_once_none_writes_over_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, original = tmp_path / "published", Path.mkdir

    def mkdir(self: Path, *given: Any, **more: Any) -> None:
        original(self, *given, **more)
        if self.name.startswith(".writing-") and len(list(folder.iterdir())) == 1:
            original(folder / ".writing-of-another")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(ParameterError, match="not empty"):
        Into.made(folder)
    assert [path.name for path in folder.iterdir()] == [".writing-of-another"]


def test_a_list_that_cannot_be_written_is_told_as_paid_for_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro.release import Release

    plan, data, folder = planned("wavelet", 64), scattered(64), tmp_path / "published"
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))

    def full(*_: object) -> None:
        raise DataError("cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", full)
        with pytest.raises(StoredError, match="--entry 1"):
            in_parts(plan, data, folder, ledger)
    ob.release.fetch(ledger, entry=1).save(folder / "manifest.parquet")
    assert ob.verify_certificate(folder, public_key=ledger.public_key)["dataset"] == "city"


def test_a_master_key_is_over_in_a_child_after_a_fork() -> None:
    streams = Streams(system_bits(), b"plan")
    assert len(streams.key(4, 3, 1)) == 48
    child = os.fork()
    if child == 0:
        try:
            streams.key(4, 3, 1)
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_intervals_of_parts_are_those_of_the_table_in_one_piece(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plan, data = planned("filtered", 64), scattered(64)
    whole = measured(plan, data, 4, repeatable("ends"))
    low, high = plan.mechanism.intervals(whole, 0.95)
    with Spread(data, 2, tmp_path / "parts", partitions=4, pool=Here()) as spread:
        parts = plan.measure(plan.prepare(plan.open(spread)), repeatable("ends"))
    table = pa.concat_tables([pq.read_table(tmp_path / "parts" / one.path) for one in parts.found])
    assert np.array_equal(table["people"].to_numpy(), whole.counts)
    assert np.array_equal(table["low"].to_numpy(), low)
    assert np.array_equal(table["high"].to_numpy(), high)


def test_a_worker_that_cannot_be_replaced_ends_the_work_with_a_known_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from oboro.errors import DataError
    from oboro.tables.subtrees import workers

    pool = workers.Processes(1)
    pool.close()

    def none_left() -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(workers, "_started", none_left)
    with pytest.raises(DataError, match="could not do its part"):
        pool.run([Failing()])


def test_a_folder_with_a_part_that_is_missing_changed_or_added_is_not_what_was_certified(
    tmp_path: Path,
) -> None:
    from oboro.errors import CertificateError

    plan, folder = planned("wavelet", 64), tmp_path / "published"
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(3))
    in_parts(plan, scattered(64), folder, ledger)
    part, listed = folder / "part-00002.parquet", folder / "manifest.parquet"
    certificate = folder / "manifest.parquet.certificate.json"
    for path, what in ((part, "not the part"), (listed, "not the file")):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        for named in (folder, certificate):
            with pytest.raises(CertificateError, match=what):
                ob.verify_certificate(named)
        path.unlink()
        for named in (folder, certificate):
            with pytest.raises(CertificateError, match=r"not the part|not there"):
                ob.verify_certificate(named)
        path.write_bytes(content)
    ob.verify_certificate(folder)
    ob.verify_certificate(certificate)
    for name in ("part-00009.parquet", "part-00009.PARQUET", "rows.csv"):
        (folder / name).write_bytes(part.read_bytes())
        with pytest.raises(CertificateError, match="not certified"):
            ob.verify_certificate(folder)
        (folder / name).unlink()
    content = part.read_bytes()
    part.unlink()
    os.mkfifo(part)  # to open it would wait for ever
    with pytest.raises(CertificateError, match="not the part"):
        ob.verify_certificate(folder)
    part.unlink()
    part.write_bytes(content)
    (folder / "more").mkdir()
    with pytest.raises(CertificateError, match="not certified"):
        ob.verify_certificate(folder)
    with pytest.raises(CertificateError):
        ob.verify_certificate(tmp_path)
