"""Tables beside methods of others at the same eps: 128 x 128 cells, 2,000 random rectangles, eps 0.1.

On datasets of DPBench where OBORO_DPBENCH names a folder with their .npy files (datafiles/2D of dpcomp_core), which are never
part of this repository; otherwise on generated shapes. What we plan by was chosen on generated shapes alone.

A line of ours is told nothing but eps and the data. Those of others are told how many people there are, where their papers take
that as known. Errors are root mean squares over rectangles and runs; rows are geometric means over datasets, of errors over
those of our default tree, with the standard error that the runs leave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from bench import rivals
from bench.measure import Row
from bench.rivals import Curve, Floats, Integers
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables import plan, rectangles
from oboro.tables.cells import Cells, Layout
from oboro.tables.strategy import Strategy
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.outlook import SHAPES, shape_of
from oboro.tables.tree.strategy import PlannedTree

SIDE, EPS = 128, Fraction(1, 10)
RUNS = int(os.environ.get("OBORO_RUNS", "10"))
SCALES = (10**4, 10**6)
DOMAIN = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
LAYOUT = Layout(DOMAIN)
HELD_OUT = (
    "Adult_2D",
    "BeijingTaxiE",
    "BeijingTaxiS",
    "Loan_2D",
    "MDSalary2D",
    "Stroke_2D",
    "cabspottingE",
    "cabspottingS",
    "checkin",
    "twitter",
)


def rows() -> Iterator[Row]:
    shapes = list(datasets())
    asked = questions()
    for scale in SCALES:
        found = {
            name: errors_of_all(
                np.random.default_rng(3).multinomial(scale, shape.reshape(-1)).reshape(SIDE, SIDE), asked
            )
            for name, shape in shapes
        }
        methods = [method for method in next(iter(found.values())) if method != "default tree"]
        logs = {
            method: np.array([_log_ratio(own[method], own["default tree"]) for own in found.values()])
            for method in methods
        }
        for method in methods:
            mean, spread = _summary(logs[method])
            what = f"rectangles, {scale:,} people, {len(shapes)} sets"
            yield Row(what, 1.0, f"{method} (± {mean * spread:.3f})", mean, "of the default tree", mean)
        ours, theirs = logs["ours, adaptive"][:, 0], logs["DAWA"][:, 0]
        ratio = float(np.exp((ours - theirs).mean()))
        yield Row(f"adaptive over DAWA, {scale:,} people", ratio, "what it may be", 0.85, "", 0.85 / ratio, 1)


def _log_ratio(own: Floats, base: Floats) -> tuple[float, float]:
    """The log of a ratio of root mean squares, and its variance, from the mean squares of runs."""
    noise = sum(float(each.var(ddof=1) / each.size / each.mean() ** 2) for each in (own, base)) / 4
    return float(np.log(own.mean() / base.mean()) / 2), noise


def _summary(logs: Floats) -> tuple[float, float]:
    return float(np.exp(logs[:, 0].mean())), float(np.sqrt(logs[:, 1].sum()) / len(logs))


def questions() -> Integers:
    """Random rectangles: two rows and two columns each, in order, both ends included."""
    random = np.random.default_rng(1)
    ends = np.sort(random.integers(0, SIDE, (2000, 2, 2)), axis=2)
    return np.stack([ends[:, 0, 0], ends[:, 0, 1] + 1, ends[:, 1, 0], ends[:, 1, 1] + 1], axis=1)


def errors_of_all(table: Integers, asked: Integers) -> dict[str, Floats]:
    """Mean squared errors of every run, by method."""
    true, curve = rivals.answers(table, asked), Curve.of(table)
    random = np.random.default_rng(2)
    facts = (LAYOUT, Pure(EPS), Unit.cells())
    ours: dict[str, Strategy] = {
        "default tree": PlannedTree(*facts),
        "ours, adaptive": Adaptive(*facts),
        "ours, for rectangles": plan(DOMAIN, unit=Unit.cells(), eps=EPS, workload=rectangles()).mechanism,
    }
    theirs: dict[str, Callable[[], Floats]] = {
        "HB": lambda: rivals.hb(table, float(EPS), asked, random),
        "UGrid": lambda: rivals.ugrid(table, float(EPS), asked, random),
        "AGrid": lambda: rivals.agrid(table, float(EPS), asked, random),
        "DAWA": lambda: rivals.dawa(table, float(EPS), asked, random, curve),
    }
    cells = _cells(table)
    found: dict[str, Floats] = {}
    for name, strategy in ours.items():
        results = (strategy.measure(cells, system_bits())[0] for _ in range(RUNS))
        found[name] = np.array([_squares(_dense(own), asked, true) for own in results])
    for name, method in theirs.items():
        found[name] = np.array([_squares(method(), asked, true) for _ in range(RUNS)])
    return found


def _squares(table: Floats, asked: Integers, true: Floats) -> float:
    return float(np.mean((rivals.answers(table, asked) - true) ** 2))


def _cells(table: Integers) -> Cells:
    places = np.nonzero(table)
    keys = LAYOUT.keys(places)
    order = np.argsort(keys)
    return Cells(keys[order], table[places][order])


def _dense(cells: Cells) -> Floats:
    table = np.zeros((SIDE, SIDE))
    table[tuple(LAYOUT.places(cells.keys))] = cells.counts
    return table


def datasets() -> Iterator[tuple[str, Floats]]:
    """Shapes that people are drawn from: each adds up to 1."""
    folder = os.environ.get("OBORO_DPBENCH")
    if folder is None:
        yield from generated()
        return
    for name in HELD_OUT:
        path = Path(folder) / f"{name}_256_256.npy"
        if path.exists():
            counts = np.load(path).astype(float)
            yield name, counts.reshape(SIDE, 2, SIDE, 2).sum(axis=(1, 3)) / counts.sum()


def generated() -> Iterator[tuple[str, Floats]]:
    """Places, and tables that are no places: a ridge, blobs, roads, few cells that hold most, two columns with many zeros."""
    for shape in SHAPES:
        density = shape_of(shape)
        by = len(density) // SIDE
        yield shape, _whole(density.reshape(SIDE, by, SIDE, by).sum(axis=(1, 3)))
    random, at = np.random.default_rng(5), np.arange(SIDE)
    along = np.exp(-(((at[:, None] - 0.8 * at - 0.1 * SIDE) / (0.04 * SIDE)) ** 2) / 2)
    yield (
        "ridge",
        _whole(along * np.exp(-at / (0.3 * SIDE))[:, None] * random.lognormal(0, 0.5, (SIDE, SIDE))),
    )
    yield "few cells", _whole(((1 + random.permutation(SIDE**2)) ** -1.6).reshape(SIDE, SIDE))
    blobs = np.zeros((SIDE, SIDE))
    for weight, row, col, wide in zip(
        random.pareto(1, 30) + 0.1,
        random.uniform(0, SIDE, 30),
        random.uniform(0, SIDE, 30),
        random.uniform(0.01, 0.06, 30) * SIDE,
        strict=True,
    ):
        away = (at[:, None] - row) ** 2 + (at - col) ** 2
        blobs += weight / wide**2 * np.exp(-away / (2 * wide**2))
    yield "blobs", _whole(blobs)
    zeros = np.zeros((SIDE, SIDE))
    zeros[0] += np.exp(-at / (0.05 * SIDE)) * (random.random(SIDE) < 0.5)
    zeros[:, 0] += np.exp(-at / (0.1 * SIDE)) * (random.random(SIDE) < 0.3)
    zeros[0, 0] = 2 * zeros.sum() / 3
    yield "many zeros", _whole(zeros)
    roads = np.zeros((SIDE, SIDE))
    for _ in range(25):
        row, col = random.uniform(0, SIDE, 2)
        turn, far = random.uniform(0, 2 * np.pi), np.linspace(-SIDE, SIDE, 6 * SIDE)
        rows_, cols = (row + far * np.sin(turn)).astype(int), (col + far * np.cos(turn)).astype(int)
        inside = (rows_ >= 0) & (rows_ < SIDE) & (cols >= 0) & (cols < SIDE)
        rows_, cols = rows_[inside], cols[inside]
        near = np.exp(-((rows_ - SIDE / 2) ** 2 + (cols - SIDE / 2) ** 2) / (0.18 * SIDE**2))
        np.add.at(roads, (rows_, cols), random.pareto(1.2) * near)
    yield "roads", _whole(roads)


def _whole(density: Floats) -> Floats:
    return np.asarray(density / density.sum())
