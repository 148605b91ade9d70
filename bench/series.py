"""Series of tables: errors on generated trajectories against tables of single hours, and what a tick takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from bench.measure import Row
from oboro.domain import Domain, Grid
from oboro.ledger import Ledger
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables import SeriesPlan, TablePlan, each_tick, mean_over_ticks, plan, series
from oboro.tables.cells import Cells
from oboro.tables.series import shrinkage
from oboro.tables.series.visits import Visits
from oboro.tables.tree.intervals import estimates
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.workload import Design, Workload

Integers = npt.NDArray[np.int64]
SIDE, BLOCK, TICKS = 200, 8, 24
DENSITIES = {"sparse": 51_000, "dense": 1_500_000}  # persons an hour
TARGETS = {"dense": (0.55, 0.55), "sparse": (0.6, 0.85)}
PLACES = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
ASKED = each_tick("8x8") + mean_over_ticks("cells")
TRIALS, MANY = 2, 8  # of each error; of those that are nearly alike


def rows() -> Iterator[Row]:
    depth = lattice_of(PLACES).trees[0].depth
    blocks = Design(((depth - 3,), (depth,)), (Fraction(98, 100), Fraction(2, 100)))
    for name, persons in DENSITIES.items():
        true = trajectories(persons)
        usual, best = hours(true, None), hours(true, blocks, MANY)
        block, day, _ = whole(true, ASKED)
        yield _row(f"{name}: blocks", block, usual[0], TARGETS[name][0], "hourly default trees")
        yield _row(f"{name}: daily means by cell", day, usual[1], TARGETS[name][1], "hourly default trees")
        block, day, least = whole(true, each_tick("8x8"), trials=MANY)
        yield _row(f"{name}: blocks, planned for them alone", block, best[0], 1.02, "hours planned so")
        yield _row(f"{name}: daily means then, least squares", least, best[2], 0.25, "hours planned so")
        yield _row(f"{name}: daily means then, published", day, best[1], 0.25, "hours planned so")
        yield _row(
            f"{name}: blocks, delta 1e-6",
            whole(true, ASKED, "1e-6")[0],
            usual[0],
            0.35,
            "hourly default trees",
        )
    for name, true in fresh():
        usual = hours(true, None)
        block, day, _ = whole(true, ASKED)
        yield _row(f"{name}: blocks", block, usual[0], TARGETS["sparse"][0], "hourly default trees")
        yield _row(
            f"{name}: daily means by cell", day, usual[1], TARGETS["sparse"][1], "hourly default trees"
        )
        best, (_, day, _) = hours(true, blocks, TRIALS), whole(true, each_tick("8x8"), trials=TRIALS)
        yield _row(f"{name}: daily means, planned for blocks", day, best[1], None, "hours planned so")
    for name, true in shapes():
        around, alone = neighbours(true)
        yield _row(f"{name}: cells of a day, by blocks around", around, alone, 1.02, "by their block alone")
    slowest = a_tick()
    yield Row("slowest tick of 512 x 512", slowest, "at most", 2.0, "s of CPU", 2.0 / slowest, 1.0)


def _row(what: str, ours: float, theirs: float, most: float | None, peer: str) -> Row:
    """Errors: ours may be at most so many times theirs."""
    return Row(what, ours, peer, theirs, "rms error", theirs / ours, None if most is None else 1 / most)


def trajectories(persons: int, seed: int = 29) -> Integers:
    """Counts by tick and cell: everybody has a home and a place to go to, and goes there and back at times of their own."""
    draw = np.random.default_rng(seed)

    def places(towns: int, spread: float) -> Integers:
        middle = draw.uniform(0.1 * SIDE, 0.9 * SIDE, (towns, 2))
        size = draw.pareto(1.2, towns) + 0.2
        town = draw.choice(towns, persons, p=size / size.sum())
        wide = spread * SIDE * draw.uniform(0.3, 1.5, towns)[town][:, None]
        return np.clip(middle[town] + draw.normal(0, 1, (persons, 2)) * wide, 0, SIDE - 1).astype(np.int64)

    home, away = places(60, 0.04), places(12, 0.02)
    leaves, stays = draw.normal(8, 2, persons), draw.gamma(4, 2, persons)
    goes = draw.random(persons) < 0.7
    counts = np.zeros((TICKS, SIDE, SIDE), np.int64)
    for tick in range(TICKS):
        out = goes & (leaves <= tick) & (tick < leaves + stays)
        at = np.where(out[:, None], away, home)
        counts[tick] = np.bincount(at[:, 0] * SIDE + at[:, 1], minlength=SIDE * SIDE).reshape(SIDE, SIDE)
    return counts


def fresh() -> Iterator[tuple[str, Integers]]:
    """Days that nothing was tuned to: of other towns, of a density in between, and of another geography."""
    for name, persons in DENSITIES.items():
        yield f"{name}, other towns", trajectories(persons, seed=1)
    yield "300,000 an hour", trajectories(300_000, seed=2)
    for name, persons in DENSITIES.items():
        yield f"{name}, two towns and a road", road(persons)


def road(persons: int, seed: int = 3) -> Integers:
    """Two towns, one dense and one wide, and a road: people live in one and work in the other, and are on the road in between."""
    draw = np.random.default_rng(seed)
    towns, wide = np.array([[0.25, 0.3], [0.7, 0.75]]) * SIDE, np.array([6.0, 14.0])
    home = draw.integers(0, 2, persons)

    def near(town: Integers, share: float) -> npt.NDArray[np.float64]:
        return towns[town] + draw.normal(0, 1, (persons, 2)) * share * wide[town][:, None]

    lives, works = near(home, 1), near(1 - home, 0.4)
    leaves, returns = draw.normal(7.5, 1.5, persons), draw.normal(17, 2, persons)
    goes = draw.random(persons) < 0.5
    counts = np.zeros((TICKS, SIDE, SIDE), np.int64)
    for tick in range(TICKS):
        along = draw.random(persons)[:, None]
        between = towns[0] * (1 - along) + towns[1] * along + draw.normal(0, 0.6, (persons, 2))
        drives = goes & ((abs(leaves - tick) < 0.7) | (abs(returns - tick) < 0.7))
        out = goes & (leaves <= tick) & (tick < returns)
        place = np.where(drives[:, None], between, np.where(out[:, None], works, lives))
        at = np.clip(place, 0, SIDE - 1).astype(np.int64)
        counts[tick] = np.bincount(at[:, 0] * SIDE + at[:, 1], minlength=SIDE * SIDE).reshape(SIDE, SIDE)
    return counts


def shapes() -> Iterator[tuple[str, Integers]]:
    """Days on which everybody stays, at places that are anything but smooth towns; and smooth ones."""
    draw = np.random.default_rng(4)
    row, col = np.indices((SIDE, SIDE))
    spots, streets = np.zeros((SIDE, SIDE)), np.full((SIDE, SIDE), 1e-3)
    spots[tuple(draw.integers(0, SIDE, (2, 9)))] = draw.gamma(1, 1, 9)
    streets[draw.integers(0, SIDE, 12)] = streets[:, draw.integers(0, SIDE, 12)] = 1
    kinds = {
        "uniform": np.ones((SIDE, SIDE)),
        "nine spots": spots,
        "streets": streets,
        "yards": (row % 3 > 0) * (col % 4 > 0) * 1.0,
        "a coast": (row + 20 * np.sin(col / 15) > SIDE / 2) * 1.0,
        "a hill": np.exp(-((row - 90) ** 2 + (col - 120) ** 2) / 2000),
    }
    for name, persons in DENSITIES.items():
        for kind, shape in kinds.items():
            yield (
                f"{name}, {kind}",
                np.repeat(draw.poisson(persons * shape / shape.sum())[None], TICKS, axis=0),
            )


def neighbours(true: Integers) -> tuple[float, float]:
    """The error of daily means by cell, planned for blocks: as published, and as if nothing were expected from the blocks around."""
    made = _planned(each_tick("8x8"))
    counts, found = prepared(made, true), []
    for _ in range(TRIALS):
        noisy = made.measure(counts, system_bits())
        with mock.patch.object(shrinkage, "_MOST", 0.0):
            alone = made.publish(noisy)
        found.append([_errors_of(true, table)[1] for table in (made.publish(noisy), alone)])
    around, alone = np.sqrt(np.mean(np.square(found), axis=0)).tolist()
    return around, alone


def errors(true: Integers, blocks: Integers, *days: npt.NDArray[Any]) -> tuple[float, ...]:
    """Root mean square: of blocks at each tick, and of means over ticks by cell, as published and by least squares."""
    off = [blocks - blocked(true), *((day - true.sum(axis=0)) / TICKS for day in days)]
    return tuple(float(np.sqrt((one**2).mean())) for one in off)


def blocked(counts: Integers) -> Integers:
    n = SIDE // BLOCK
    return counts.reshape(len(counts), n, BLOCK, n, BLOCK).sum(axis=(2, 4))


def hours(true: Integers, design: Design | None, trials: int = 1) -> tuple[float, ...]:
    """Each hour a table of its own, at a share of eps."""
    table = TablePlan(PLACES, Unit.cells(), Pure(Fraction(1, TICKS)), "tree", "people", design=design)
    row, col = (axis.reshape(-1) for axis in np.indices((SIDE, SIDE)))
    keys = table.layout.keys([row, col])
    leaves, order, found = lattice_of(PLACES).leaf(table.layout, keys), np.argsort(keys), []
    for _ in range(trials):
        published, least = np.zeros_like(true), np.zeros((SIDE, SIDE))
        for tick in range(TICKS):
            held = true[tick].reshape(-1)[order]
            hour = table.measure(Cells(keys[order][held > 0], held[held > 0]), system_bits())
            at = table.layout.places(hour.keys)
            published[tick][at[0], at[1]] = hour.counts
            told = estimates(table.layout, table.design, table.mechanism.noises, hour.noisy, None)
            least += told.leaves[leaves].reshape(SIDE, SIDE)
        found.append(errors(true, blocked(published), published.sum(axis=0), least))
    return tuple(np.sqrt(np.mean(np.square(found), axis=0)).tolist())


def whole(
    true: Integers, workload: Workload, delta: str | None = None, trials: int = TRIALS
) -> tuple[float, ...]:
    """A series, as its final table has it."""
    made = _planned(workload, delta)
    counts = prepared(made, true)
    found = [_errors_of(true, made.publish(made.measure(counts, system_bits()))) for _ in range(trials)]
    return tuple(np.sqrt(np.mean(np.square(found), axis=0)).tolist())


def _planned(workload: Workload, delta: str | None = None) -> SeriesPlan:
    return plan(
        PLACES,
        unit=Unit.cells(),
        eps=1,
        delta=delta,
        ticks=TICKS,
        max_ticks=TICKS,
        count="people",
        workload=workload,
    )


def _errors_of(true: Integers, table: Any) -> tuple[float, ...]:
    """Those of a final table."""
    tick, ticks, row, col, count, told = (
        np.asarray(table[name]) for name in ("tick", "ticks", "row", "col", "people", "estimate")
    )
    blocks = np.zeros((TICKS, SIDE // BLOCK, SIDE // BLOCK), np.int64)
    day, least = np.zeros((2, SIDE, SIDE))
    one = ticks == 1
    np.add.at(blocks, (tick[one], row[one] // BLOCK, col[one] // BLOCK), count[one])
    day[row[~one], col[~one]], least[row[~one], col[~one]] = count[~one], told[~one]
    return errors(true, blocks, day, least)


def prepared(made: SeriesPlan, true: Integers) -> list[Integers]:
    """What `prepare` makes of rows that count to this."""
    tick, row, col = np.nonzero(true)
    leaves = made.places.leaf(made.layout, made.layout.keys([row, col]))
    visits = Visits(tick.astype(np.int64), leaves, true[tick, row, col])
    return [counts for one in range(TICKS) for counts in made.counted(visits, one)]


def a_tick() -> float:
    """The processor time of the slowest tick of 512 x 512 cells, all but reading: with hardly any data to read."""
    domain = Domain([Grid("row", "col", shape=(512, 512))])
    made = plan(
        domain, unit=Unit.cells(), eps=1, ticks=TICKS, max_ticks=TICKS, count="people", workload=ASKED
    )
    data = {"tick": [0, 23], "row": [7, 9], "col": [3, 4], "people": [12, 40]}
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "a.ledger", dataset="x", unit=Unit.cells(), budget=Pure(1))
        opened, taken = series(made, ledger=ledger, name="day"), []
        for tick in range(TICKS):
            start = time.process_time()
            opened.publish(data, tick=tick)
            taken.append(time.process_time() - start)
    return max(taken)
