"""Tables whose strategy nobody names, beside the best of ours: is what public facts choose near it?

On generated shapes that no choice is made by, but that were looked at when the made-up tables of `tables/tree/trial.py` were put together; on
others that were made up when all of it was done; and on DPBench's, which nothing was fitted to, where OBORO_DPBENCH names a folder with them. For tables of two dimensions and of
one, from few people to many, at eps 1 (people times eps is all that counts), for rectangles with any two ends, for single cells, and
for blocks and squares, the default. Each row is the worst over the numbers of people: the error of what was chosen over the
smallest of a tree for the questions, one that looks, the default tree, adaptive and wavelet, in the geometric mean over shapes. With `n` the
choice is told how many people there are; without, a plan may ask for it first. Tables with few cells are run more often, since there chance
leaves more.

Rows by size are about blocks where they lie, and `sized`: of each size of block the error over that of a tree, in the geometric mean over
shapes and numbers of people, and the worst size. All of the table is left out: one number a run, whose noise is the same in both. The last rows are
one large table, the generated city.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from bench import accuracy_tables
from bench.measure import Row
from bench.rivals import Floats, Integers
from oboro import tables
from oboro.domain import Domain, Grid, Integer
from oboro.noise import system_bits
from oboro.privacy import Unit
from oboro.tables.tree.trial import log_error, log_errors
from oboro.tables.tree.workload import DEFAULT, Workload

SETTINGS = ((64, 64), (128, 128), (256, 256), (256,), (1024,), (4096,))
PEOPLE = (10**3, 10**4, 10**5, 10**6)
ASKED: dict[str, Workload] = {
    "rectangles": tables.rectangles(),
    "cells": tables.cells(),
    "blocks and squares": DEFAULT,
}
RUNS = int(os.environ.get("OBORO_RUNS", "10")) // 2
MOST = 1.1
AFTERWARDS, DPBENCH = "made up afterwards, ", "DPBench, "


def rows() -> Iterator[Row]:
    yield from _rows("", SETTINGS)
    for sides in SETTINGS:
        yield _by_size(sides)
    yield from _city()
    yield from _rows(AFTERWARDS, SETTINGS[1::3])
    if "OBORO_DPBENCH" in os.environ:
        yield from _rows(DPBENCH, SETTINGS[:2])


def _rows(source: str, settings: tuple[tuple[int, ...], ...]) -> Iterator[Row]:
    for sides in settings:
        for name, workload in ASKED.items():
            worst: dict[str, tuple[float, int]] = {}
            for people in PEOPLE:
                found = _ratios(source, sides, name, workload, people)
                worst = {told: max(worst.get(told, (0.0, 0)), (own, people)) for told, own in found.items()}
            for told, (ratio, people) in worst.items():
                what = f"{source}{' x '.join(map(str, sides))}, {name}, {told}"
                unit = f"of the best, worst at {people:,} people"
                yield Row(what, ratio, "what it may be", MOST, unit, MOST / ratio, 1)


def _ratios(
    source: str, sides: tuple[int, ...], name: str, workload: Workload, people: int
) -> dict[str, float]:
    domain = _domain(sides)
    facts: dict[str, Any] = {"unit": Unit.cells(), "eps": 1}
    asked = None if workload == DEFAULT else workload
    picked = {
        "with n": tables.plan(domain, **facts, workload=asked, expected_total=people),
        "without": tables.plan(domain, **facts, workload=asked),
    }
    ours = [
        tables.TablePlan(domain, Unit.cells(), picked["without"].guarantee, "tree", workload=workload),
        tables.plan(domain, **facts, strategy="tree"),
        tables.plan(domain, **facts, strategy="adaptive"),
        tables.plan(domain, **facts, strategy="adaptive", workload=workload),
        tables.plan(domain, **facts, strategy="wavelet"),
    ]
    every = list(dict.fromkeys([*ours, *picked.values()]))
    logs = dict.fromkeys(every, 0.0)
    shapes = {"": _shapes, AFTERWARDS: _afterwards, DPBENCH: _dpbench}[source](sides)
    for shape in shapes:
        truth = np.random.default_rng(3).multinomial(people, shape.reshape(-1)).reshape(sides)
        for plan in every:
            logs[plan] += log_error(
                plan.mechanism, truth, _questions(name, sides), _runs(sides), system_bits()
            ) / len(shapes)
    best = min(logs[plan] for plan in ours)
    return {told: math.exp(logs[plan] - min(best, logs[plan])) for told, plan in picked.items()}


def _by_size(sides: tuple[int, ...]) -> Row:
    asked, logs = _questions("blocks and squares", sides)[:-2:2], 0.0
    shapes, domain = _shapes(sides), _domain(sides)
    plans = [
        tables.plan(domain, unit=Unit.cells(), eps=1, strategy="sized"),
        tables.plan(domain, unit=Unit.cells(), eps=1, strategy="tree"),
    ]
    for people in PEOPLE:
        for shape in shapes:
            truth = np.random.default_rng(3).multinomial(people, shape.reshape(-1)).reshape(sides)
            own, tree = (
                log_errors(plan.mechanism, truth, asked, _runs(sides), system_bits()) for plan in plans
            )
            logs = logs + (own - tree) / (len(PEOPLE) * len(shapes))
    worst = int(np.argmax(logs))
    ratio = math.exp(np.max(logs))
    what = f"{' x '.join(map(str, sides))}, blocks by size, without"
    unit = f"of a tree's, worst at blocks of side {1 << worst}"
    return Row(what, ratio, "what it may be", MOST, unit, MOST / ratio, 1)


def _city() -> Iterator[Row]:
    """The city of 512 x 512 cells with 800,000 people at eps 0.5: errors of blocks by size."""
    sides = (512, 512)
    facts: dict[str, Any] = {"unit": Unit.cells(), "eps": "0.5"}
    shape = tables.city() / tables.city().sum()
    truth = np.random.default_rng(3).multinomial(800_000, shape.reshape(-1)).reshape(sides)
    asked = _questions("blocks and squares", sides)[::2]
    found = {
        name: np.exp(
            log_errors(
                tables.plan(_domain(sides), **facts, strategy=name).mechanism,
                truth,
                asked,
                RUNS,
                system_bits(),
            )
        )
        for name in ("sized", "adaptive", "tree")
    }
    for side in (1, 4, 16, 64):
        at = side.bit_length() - 1
        for name in ("sized", "adaptive"):
            ours, tree = float(found[name][at]), float(found["tree"][at])
            yield Row(f"city, blocks of {side} x {side}, {name}", ours, "tree", tree, "error", tree / ours)


def _domain(sides: tuple[int, ...]) -> Domain:
    return Domain([Grid("row", "col", shape=sides) if len(sides) == 2 else Integer("at", 0, sides[0] - 1)])


def _runs(sides: tuple[int, ...]) -> int:
    return RUNS * max(2**14 // math.prod(sides), 1) if len(sides) == 2 else 8 * RUNS


@lru_cache(maxsize=8)
def _shapes(sides: tuple[int, ...]) -> list[Floats]:
    """Shapes of two dimensions; in one their rows, added up, and others beside them."""
    before, accuracy_tables.SIDE = accuracy_tables.SIDE, sides[0] if len(sides) == 2 else 128
    held = [
        own
        for name, own in accuracy_tables.generated()
        if name in ("metropolis", "region", "ridge", "roads", "blobs")
    ]
    accuracy_tables.SIDE = before
    if len(sides) == 2:
        return held
    at, random = np.arange(sides[0]), np.random.default_rng(8)
    lines = [
        np.exp(-(((at / sides[0] - 0.4) / 0.15) ** 2) / 2) + 0.05,
        random.lognormal(0, 1.5, at.size) * (random.random(at.size) < 0.3),
        np.repeat(random.lognormal(0, 1.5, 16), at.size // 16),
        (1 + random.permutation(at.size)) ** -1.2,
    ]
    return [own / own.sum() for own in lines]


@lru_cache(maxsize=4)
def _afterwards(sides: tuple[int, ...]) -> list[Floats]:
    """A coast, rings around a centre, a checkered plain, a few crowds in a desert; on a line waves, tails, months, and a wall."""
    random = np.random.default_rng(21)
    if len(sides) == 2:
        row, col = np.indices(sides) / sides[0]
        far = np.hypot(row - 0.55, col - 0.45)
        coast = (col < 0.4 + 0.2 * np.sin(7 * row)) * np.exp(-8 * (0.4 + 0.2 * np.sin(7 * row) - col))
        desert = np.full(sides, 1e-3)
        desert[tuple(random.integers(0, sides[0], (2, 40)))] = random.pareto(0.8, 40) + 1
        found = [
            coast * random.lognormal(0, 0.4, sides),
            np.exp(-4 * far) * (1 + np.cos(40 * far)) + 1e-3,
            ((row * 8).astype(int) + (col * 8).astype(int)) % 2 + 0.05 * random.random(sides),
            desert,
        ]
    else:
        at = np.arange(sides[0]) / sides[0]
        found = [
            1.05 + np.sin(25 * at),
            (at + 1 / sides[0]) ** -0.5,
            np.repeat(random.dirichlet(np.full(12, 0.7)), sides[0] // 12 + 1)[: sides[0]],
            np.where(at > 0.7, 0.01, np.exp(3 * at)),
        ]
    return [own / own.sum() for own in found]


@lru_cache(maxsize=4)
def _dpbench(sides: tuple[int, ...]) -> list[Floats]:
    side, by = sides[0], 128 // sides[0]
    return [own.reshape(side, by, side, by).sum(axis=(1, 3)) for _, own in accuracy_tables.datasets()]


def _questions(name: str, sides: tuple[int, ...]) -> list[Integers]:
    """Kinds of questions: lower and upper ends along every axis."""
    random = np.random.default_rng(1)
    if name == "rectangles":
        ends = np.sort([random.integers(0, side, (2, 1000)) for side in sides], axis=1)
        return [np.stack([ends[:, 0], ends[:, 1] + 1])]
    lengths = [1] if name == "cells" else [1 << at for at in range(sides[0].bit_length())]
    kinds = []
    for own in lengths:
        low = [random.integers(0, side // own, 1000) * own for side in sides]
        kinds.append(np.array([low, [at + own for at in low]]))
        if name != "cells":
            low = [random.integers(0, side - own + 1, 1000) for side in sides]
            kinds.append(np.array([low, [at + own for at in low]]))
    return kinds
