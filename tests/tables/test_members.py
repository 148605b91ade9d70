"""Intervals of rows of several columns with Gaussian noise: computed, not drawn, for sets without any order."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro.arrays import Integers
from oboro.noise import DiscreteGaussian
from oboro.tables.tree.measure import cut_of_cells
from oboro.tables.tree.members import Members, members
from support import mostly_long

COINS = 32
TRIED = (
    ("0.3", 0.8, 2.0),
    ("9", 0.5, 2.0),
    ("9", 0.99, 0.4),
    ("70", 0.5, 0.4),
    ("70", 0.95, math.inf),
    ("300", 0.8, 2.0),
)


def sets(kind: str, y: Integers, sd: float, rng: np.random.Generator) -> Any:
    if kind == "from a threshold on":
        return y >= rng.integers(int(-2 * sd) - 1, int(3 * sd) + 2)
    if kind == "up to a count":
        return y <= rng.integers(int(-2 * sd) - 1, int(4 * sd) + 2)
    if kind == "any":
        return rng.random(y.size) < rng.uniform(0.05, 0.95)
    turns = np.cumsum(rng.random(y.size) < 1 / (2 * sd + 1))  # stretches
    return turns % 2 == rng.integers(0, 2)


def covered(
    rule: Members, law: Any, level: float, z: float, y: Integers, values: Integers, x: int, coins: int
) -> tuple[float, float]:
    """The chance that x is held, given that the cell is published, and published or not."""
    near = np.abs(y - x) < 8 * law.sd + 8
    shown, hidden = np.flatnonzero(near & (values > 0)), np.flatnonzero(near & (values == 0))

    def held(some: Integers, more: int) -> Integers:
        at = shown[some] + more
        return np.where((at >= 0) & (at < y.size), values[np.clip(at, 0, y.size - 1)], 0)

    inside = np.zeros(shown.size)
    for turn in range(max(coins, 1)):
        coin = np.full(shown.size, (turn + 0.5) / coins) if coins else None
        low, high = rule.ends(y[shown], np.full(shown.size, z), level, coin, held)
        assert (low <= np.maximum(y[shown], 0)).all()
        assert (high >= y[shown]).all()
        inside += ((low <= x) & (x <= high)) / max(coins, 1)
    chance = law.pmf(y[shown] - x)
    given = float((chance * inside).sum() / chance.sum()) if chance.sum() > 1e-9 else 1.0
    bare = law.pmf(y[hidden] - x) * (x <= np.maximum(y[hidden] + rule.hidden, 0))
    return given, float((chance * inside).sum() + bare.sum())


@pytest.mark.parametrize(
    "kind",
    mostly_long("many sets", ("from a threshold on", "up to a count", "any", "in stretches"), ("any",)),
)
def test_whatever_is_published_is_covered(kind: str) -> None:
    rng = np.random.default_rng(4)
    for variance, level, spread in TRIED[: 2 if kind == "any" else None]:
        law = DiscreteGaussian(variance)
        rule, sd = members(law, level, spread), law.sd
        y = np.arange(-int(26 * sd) - 20, int(30 * sd) + 20)
        for coins in (0, COINS):
            published = sets(kind, y, sd, rng)
            printed = np.maximum(y + rng.integers(-int(2 * sd) - 1, 2), 1)
            for x in (0, int(rng.integers(0, int(4 * sd) + 2))):
                found = covered(
                    rule,
                    law,
                    level,
                    float(rng.normal(0, 3 * sd)),
                    y,
                    np.where(published, printed, 0),
                    x,
                    coins,
                )
                assert min(found) >= level - (1 / coins if coins else 1e-9), (variance, level, x)


def test_where_all_is_published_no_more_is_covered_than_needed() -> None:
    """And where z is right, intervals are as short as those of least squares but for a few percent."""
    law, level, spread = DiscreteGaussian(90), 0.8, 2.0
    rule, sd = members(law, level, spread), law.sd
    y = np.arange(-400, 400)
    values = np.maximum(y, 1)
    given, both = covered(rule, law, level, 100.0, y, values, 100, COINS)
    assert given == pytest.approx(level, abs=0.01)
    assert both == pytest.approx(level, abs=0.01)
    rng = np.random.default_rng(1)
    z = 100 + rng.normal(0, math.sqrt(spread) * sd, 4000)
    own = np.rint(100 + rng.normal(0, sd, 4000)).astype(np.int64)
    low, high = rule.ends(own, z, level, rng.random(4000), lambda some, more: np.maximum(own[some] + more, 1))
    exact = 2 * 1.2816 * sd * math.sqrt(spread / (1 + spread))
    assert (high - low).mean() < 1.06 * exact
    assert ((low <= 100) & (high >= 100)).mean() == pytest.approx(level, abs=0.04)


def test_without_a_member_above_the_interval_goes_on_to_the_next() -> None:
    rule = members(DiscreteGaussian(9), 0.95, 2.0)
    y = np.array([40, 40])
    far = np.array([60 * rule.step, 10**12])
    _, high = rule.ends(
        y, y.astype(float), 0.95, None, lambda some, more: 1 * ((more <= 0) | (more >= far[some]))
    )
    assert 60 < high[0] <= 40 + 70 * rule.step
    assert high[1] >= 40 + 10**12


@pytest.mark.parametrize("share", ["0.02", "0.1", "0.4"])
@pytest.mark.few(1, "intervals tried often")
def test_the_cut_of_a_published_cell_does_not_depend_on_its_own_count(share: str) -> None:
    """With `publish=`: every count with which it would be published reaches the cut, and no other."""
    rng, noise = np.random.default_rng(5), DiscreteGaussian(Fraction(40))
    tried = 0
    for _ in range(60):
        people = np.where(rng.random(30) < rng.choice([0.05, 0.5]), rng.integers(5, 60, 30), 0)
        raw = people + np.rint(rng.normal(0, noise.sd, 30)).astype(np.int64)
        possible = None if rng.random() < 0.5 else rng.random(30) < 0.9
        cut = cut_of_cells(raw, possible, noise, Fraction(share))
        good = np.ones(30, bool) if possible is None else possible
        for cell in np.flatnonzero((raw >= cut) & good)[:3]:
            tried += 1
            for count in range(-5, 60):
                other = raw.copy()
                other[cell] = count
                would = count >= cut_of_cells(other, possible, noise, Fraction(share))
                assert would == (count >= cut), (raw, cell, count)
    assert tried > 40
