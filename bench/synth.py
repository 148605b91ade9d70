"""Synthetic data: Gaussian records against NumPy; fitting a model, and what comes of it, against mbi on the same noisy tables.

The data is UCI Adult where it is found (OBORO_DATA), otherwise a generated table of the same shape.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row, seconds
from oboro.domain import Category, Domain, Integer
from oboro.noise import system_bits
from oboro.privacy import Unit
from oboro.synth import plan
from oboro.synth.model import TreeSampler
from oboro.synth.records import draw_records, moments_of

DATA = Path(os.environ.get("OBORO_DATA", "../shared/data"))
COUNT = 1_000_000
DOMAIN = Domain(
    [
        Integer("age", 17, 90),
        Integer("fnlwgt", 10_000, 1_500_000),
        Integer("education-num", 1, 16),
        Integer("capital-gain", 0, 99_999),
        Integer("capital-loss", 0, 5_000),
        Integer("hours-per-week", 1, 99),
        Category("income", ["<=50K", ">50K"]),
    ]
)
PLACES = (0, 2, 4, 10, 11, 12, 14)  # in the file


def rows() -> Iterator[Row]:
    yield gaussian_records()
    yield from against_mbi()


def gaussian_records() -> Row:
    """A million records of six columns, exact and on a grid, against NumPy's multivariate normal."""
    rng = np.random.default_rng(0)
    sizes = [1000] * 6
    moments = moments_of(rng.integers(0, 1000, (6, 5000)))
    mine = (
        COUNT
        / seconds(lambda: draw_records(moments, sizes, Fraction(1, 100), COUNT, system_bits()), repeat=3)
        / 1e6
    )
    covariance = np.cov(rng.normal(size=(6, 100)))
    theirs = COUNT / seconds(lambda: rng.multivariate_normal(np.zeros(6), covariance, COUNT), repeat=3) / 1e6
    return Row(
        "Gaussian records, 6 columns",
        mine,
        "numpy multivariate_normal",
        theirs,
        "million/s",
        mine / theirs,
        1 / 20,
    )


def against_mbi() -> Iterator[Row]:
    """The same noisy tables to both: time to fit and draw, and the mean two-way distance of the records to the data, in bins."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi

    data = _adult()
    made = plan(DOMAIN, unit=Unit.row("replace"), n=len(data["age"]), eps=1, delta="1e-5", method="marginals")
    codes = made.prepare(data)
    measured = made.measure(codes, system_bits())
    bins = [column.bins_of(codes[i]) for i, column in enumerate(measured.bins)]
    sizes = [column.size for column in measured.bins]
    n = codes.shape[1]

    start = time.perf_counter()
    law = made.law(measured)
    drawn = TreeSampler(law, measured.bins).draw(n, {}, np.random.default_rng(0))
    ours = time.perf_counter() - start
    our_bins = [column.bins_of(drawn[i]) for i, column in enumerate(measured.bins)]

    start = time.perf_counter()
    names = list(DOMAIN.names)
    public = mbi.Domain(names, sizes)
    noisy = [
        mbi.LinearMeasurement(column.mass, (names[i],), float(made.ones.noises[i][0].sd))
        for i, column in enumerate(measured.bins)
    ]
    noisy += [
        mbi.LinearMeasurement(counts.ravel().astype(float), tuple(names[i] for i in columns), made.noise.sd)
        for columns, counts in measured.tables
    ]
    model = mbi.estimation.MirrorDescent().estimate(public, noisy, known_total=float(n), iters=1000)
    table = model.synthetic_data(rows=n)
    theirs = time.perf_counter() - start
    frame = table.to_dict() if hasattr(table, "to_dict") else table.df
    their_bins = [np.asarray(frame[name]).astype(np.int64) for name in names]

    yield Row(
        "fit a tree of Adult and draw", ours, "mbi 2 mirror descent", theirs, "seconds", theirs / ours, 1
    )
    mine, other = _two_way(bins, our_bins, sizes), _two_way(bins, their_bins, sizes)
    yield Row(
        "two-way distance to the data",
        mine,
        "mbi 2 mirror descent",
        other,
        "total variation",
        other / mine,
        0.9,
    )


def _two_way(real: list[Any], made: list[Any], sizes: list[int]) -> float:
    found = []
    for i, j in combinations(range(len(sizes)), 2):
        cells = [
            np.bincount(side[i] * sizes[j] + side[j], minlength=sizes[i] * sizes[j]) / side[i].size
            for side in (real, made)
        ]
        found.append(float(np.abs(cells[0] - cells[1]).sum() / 2))
    return float(np.mean(found))


def _adult() -> dict[str, list[Any]]:
    path = DATA / "adult.data"
    if path.exists():
        with path.open(newline="") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if len(line) == 15]
        return {
            column.name: [line[place] for line in lines] for column, place in zip(DOMAIN, PLACES, strict=True)
        }
    rng = np.random.default_rng(1)
    n = 32_561
    age = np.clip(rng.gamma(7, 5.5, n), 17, 90).astype(int)
    learned = np.clip(rng.normal(10, 2.5, n), 1, 16).astype(int)
    rich = rng.random(n) < 1 / (1 + np.exp(8 - age / 15 - learned / 3))
    gain = np.where(rng.random(n) < 0.08, rng.integers(1, 99_999, n), 0)
    loss = np.where(rng.random(n) < 0.05, rng.integers(1, 5_000, n), 0)
    columns = (
        age,
        rng.integers(10_000, 500_000, n),
        learned,
        gain,
        loss,
        np.clip(rng.normal(40, 12, n), 1, 99).astype(int),
    )
    values: list[list[Any]] = [column.tolist() for column in columns]
    return dict(zip(DOMAIN.names, [*values, np.where(rich, ">50K", "<=50K").tolist()], strict=True))
