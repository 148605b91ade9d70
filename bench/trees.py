"""Trees: errors against the wavelet on real windows and the generated city; time against OpenDP; memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.measure import Row, seconds
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables import blocks, city, never_worse, squares
from oboro.tables.cells import Cells, Layout, block_errors
from oboro.tables.strategy import Strategy
from oboro.tables.tree.planner import plan_shares
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.tree.workload import DEFAULT, SIDES, Workload
from oboro.tables.wavelet import Wavelet

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DATA = Path(os.environ.get("OBORO_DATA", "../shared/data"))
CITY = Layout(Domain([Grid("row", "col", shape=(512, 512))]))
TRIALS = 40  # large blocks are few: their errors need many runs


def rows() -> Iterator[Row]:
    yield against_opendp()
    for name, table in windows():
        for eps in (Fraction(1, 10), Fraction(1)):
            yield from ratios(f"{name}, eps {eps}", table, eps)
    yield from many_categories()
    yield from a_country()
    yield from intervals_of_a_country()


def windows() -> Iterator[tuple[str, Integers]]:
    """512 x 512 cells each: the generated city, and what there is of the real ones."""
    yield "city", city()
    europe = DATA / "eurostat_census2021_1km.parquet"
    if europe.exists():
        import pyarrow.parquet as pq

        cells = pq.read_table(europe, columns=["x", "y", "T"])
        x, y, people = (cells.column(name).to_numpy() for name in ("x", "y", "T"))
        for name, x0, y0 in (("Europe A", 4656, 2414), ("Europe B", 3440, 2286)):
            inside = (x >= x0) & (x < x0 + 512) & (y >= y0) & (y < y0 + 512) & (people > 0)
            yield name, _table(y[inside] - y0, x[inside] - x0, people[inside])
    tokyo = DATA / "pop_grid500m_5339_2015.parquet"
    if tokyo.exists():
        import pyarrow.parquet as pq

        from oboro.domain import Mesh

        cells = pq.read_table(tokyo)
        codes = np.array(cells.column("grid500m").to_pylist(), np.int64)
        row, col = Mesh("code", "500m", region=[5339]).locate(codes)
        people = np.rint(cells.column("pop").to_numpy()).astype(np.int64)
        yield "Tokyo", _table(row - row.min(), col - col.min(), people)
    activity = DATA / "yjmob100k" / "activity.csv"
    if activity.exists():
        import pyarrow.csv as csv

        cells = csv.read_csv(activity)
        x, y, people = (cells.column(i).to_numpy().astype(np.int64) for i in range(3))
        yield "YJMob", _table(x - x.min(), y - y.min(), people)


def _table(row: Integers, col: Integers, people: Integers) -> Integers:
    table = np.zeros((512, 512), np.int64)
    np.add.at(table, (row, col), people)
    return table


def ratios(name: str, table: Integers, eps: Fraction) -> Iterator[Row]:
    """Geometric means of RMSE over the wavelet's."""
    facts = (CITY, Pure(eps), Unit.cells())
    theirs = measured(Wavelet(*facts), table)
    paper_blocks, paper_squares = block_rmse(theirs, table), square_rmse(theirs, table)

    def planned(workload: Workload) -> list[Cells]:
        return measured(PlannedTree(*facts, workload=workload), table)

    def row(what: str, found: float, most: float) -> Row:
        return Row(f"{name}: {what}", found, "the most it may be of wavelet", most, "", most / found, 1)

    for workload, most in ((blocks(), 0.60), (DEFAULT, 0.68)):
        mine = planned(workload)
        yield row(f"for {workload}, blocks", mean(block_rmse(mine, table)[:-1] / paper_blocks[:-1]), most)
        if workload is DEFAULT:
            yield row(f"for {workload}, squares", mean(square_rmse(mine, table) / paper_squares), 0.47)
            yield row(f"for {workload}, cells", float(block_rmse(mine, table)[0] / paper_blocks[0]), 0.34)
    mine = planned(squares())
    yield row("for squares, squares", mean(square_rmse(mine, table) / paper_squares), 0.40)
    mine = planned(never_worse())
    worst = (block_rmse(mine, table) / paper_blocks)[:-1]  # the whole is a single number in each run
    yield row("never worse, worst block", float(worst.max()), 0.90)


def measured(strategy: Strategy, table: Integers) -> list[Cells]:
    cells = _cells(table)
    return [strategy.measure(cells, system_bits())[0] for _ in range(TRIALS)]


def _cells(table: Integers) -> Cells:
    places = np.nonzero(table)
    keys = CITY.keys(places)
    order = np.argsort(keys)
    return Cells(keys[order], table[places][order])


def block_rmse(results: list[Cells], table: Integers) -> Floats:
    truth = _cells(table)
    squares = [[error.rmse**2 for error in block_errors(truth, result, CITY)] for result in results]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))


def square_rmse(results: list[Cells], table: Integers) -> Floats:
    found = np.zeros(len(SIDES))
    for result in results:
        off = np.zeros((512, 512), np.int64)
        off[tuple(CITY.places(result.keys))] = result.counts
        sums = np.pad((off - table).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        for i, side in enumerate(SIDES):
            at = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
            found[i] += np.mean(at.astype(float) ** 2) / len(results)
    return np.sqrt(found)


def mean(ratio: Floats) -> float:
    return float(np.exp(np.log(ratio).mean()))


def against_opendp() -> Row:
    """2^18 cells at eps 0.1: planned, measured, solved and projected, from counts to published counts.

    In a process that plans often: in one that plans once, the search for a plan is not compiled, and takes 0.12 s more.
    """
    import opendp.prelude as dp

    cells, bits = _cells(city()), system_bits()

    def ours() -> None:
        plan_shares.cache_clear()  # type: ignore[attr-defined]
        PlannedTree(CITY, Pure("0.1"), Unit.cells()).measure(cells, bits)

    for _ in range(8):
        ours()
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    tree = (
        space >> dp.t.then_b_ary_tree(leaf_count=2**18, branching_factor=2) >> dp.m.then_laplace(scale=190.0)
    )
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=2)
    counts = cells.dense(CITY.bits).tolist()
    mine, theirs = seconds(ours), seconds(lambda: consistent(tree(counts)), repeat=1)
    return Row("tree, 2^18 cells", mine, "OpenDP b-ary tree, consistent", theirs, "s", theirs / mine, 300)


def many_categories() -> Iterator[Row]:
    """512 x 512 places by 40 categories, in a process of its own, against 30 s and 3 GB."""
    spent, megabytes = alone(_CATEGORIES)
    yield Row("tree, 512 x 512 x 40", spent, "what it may take", 30.0, "s", 30 / spent, 1)
    yield Row("tree, 512 x 512 x 40", megabytes, "what it may take", 3000.0, "MB", 3000 / megabytes, 1)


def a_country() -> Iterator[Row]:
    """5700 x 5500 cells, 2.3 million of them inhabited, in a process of its own, against 6 s and 1 GB (10^9 bytes)."""
    spent, megabytes = alone(_COUNTRY)
    yield Row("tree, 5700 x 5500, 2.3 M inhabited", spent, "what it may take", 6.0, "s", 6 / spent, 1)
    yield Row(
        "tree, 5700 x 5500, 2.3 M inhabited", megabytes, "what it may take", 1000.0, "MB", 1000 / megabytes, 1
    )


def intervals_of_a_country() -> Iterator[Row]:
    """The same: the interval of each published row, which its file has as columns, beside the measurement."""
    ends, spent, megabytes = alone(_COUNTRY.replace("run(", "intervals("))
    yield Row("intervals of its rows", ends, "the release without them", spent, "s", spent / ends)
    yield Row("with intervals of its rows", megabytes, "what it may take", 3000.0, "MB", 3000 / megabytes)


def alone(script: str) -> tuple[float, ...]:
    """Seconds and the most memory that a script took: what it needs before it measures counts as well."""
    done = subprocess.run([sys.executable, "-c", _HEAD + script], check=True, capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()))


_HEAD = """
import re, time
from fractions import Fraction
import numpy as np
from oboro.domain import Category, Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables import city
from oboro.tables.cells import Cells
from oboro.tables.cells import Layout
from oboro.tables.tree.filtered import Filtered
from oboro.tables.tree.strategy import PlannedTree

def run(strategy, cells):
    strategy.measure(Cells(cells.keys[:1], cells.counts[:1]), system_bits())
    start = time.process_time()
    strategy.measure(cells, system_bits())
    spent = time.process_time() - start
    print(spent, most())

def most():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1.024e-3

def intervals(strategy, cells):
    few = strategy.measure(Cells(cells.keys[:1], cells.counts[:1]), system_bits())[0]
    strategy.intervals(few, 0.95)
    start = time.process_time()
    (found,) = strategy.measure(cells, system_bits())
    middle = time.process_time()
    strategy.intervals(found, 0.95)
    print(time.process_time() - middle, middle - start, most())
"""
_CATEGORIES = """
layout = Layout(Domain([Grid("row", "col"), Category("sex", ["F", "M"]), Category("age", list(range(20)))]))
table = np.random.default_rng(3).poisson(np.repeat(city().reshape(-1, 1) / 40, 40, axis=1)).reshape(512, 512, 2, 20)
places = np.nonzero(table)
keys = layout.keys(places)
order = np.argsort(keys)
cells = Cells(keys[order], table[places][order])
del table, places, keys
run(PlannedTree(layout, Pure("0.1"), Unit.cells()), cells)
"""
_COUNTRY = """
layout = Layout(Domain([Grid("row", "col", shape=(5700, 5500))]))
random, shape = np.random.default_rng(3), np.array([5700, 5500])
towns, keys = random.random((3000, 2)) * shape, np.empty(0, np.int64)
while keys.size < 2_300_000:  # towns of many sizes
    town = random.integers(0, 3000, 2**17)
    place = (towns[town] + random.normal(size=(town.size, 2)) * (4 + 8 * random.pareto(1.5, 3000)[town])[:, None]).astype(int)
    place = place[((place >= 0) & (place < shape)).all(axis=1)]
    keys = np.union1d(keys, layout.keys([place[:, 0], place[:, 1]]))
keys = np.sort(random.choice(keys, 2_300_000, replace=False))
run(PlannedTree(layout, Pure(1), Unit.cells()), Cells(keys, random.geometric(0.02, keys.size)))
"""
