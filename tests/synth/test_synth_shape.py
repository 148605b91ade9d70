"""What is believed of a column, from counts of its blocks and of their parts: beside values that were found another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.arrays import Floats
from oboro.noise import DiscreteGaussian
from oboro.synth.levels import Level
from oboro.synth.shape import _ALONE, _DRIFTING, _SPIKE, Averaged, Split, _expected, _with_parts, shape_of


def _of(start: list[int], stop: list[int], count: list[float], variance: list[float]) -> Averaged:
    return Averaged(
        np.array(start), np.array(stop), np.array(count, dtype=float), np.array(variance, dtype=float)
    )


def test_sums_of_parts_tell_of_their_block_as_least_squares_has_it() -> None:
    """Blocks of three levels, one of them cut late; beside the solution of all observations of the last parts at once."""
    levels = [
        _of([0, 10, 20], [10, 20, 30], [50, 70, 10], [9, 4, 1]),
        _of([0, 5], [5, 10], [30, 14], [2, 3]),
        _of([5, 7, 10, 15], [7, 10, 15, 20], [3, 4, 50, 31], [1, 2, 5, 7]),
    ]
    leaves = [(0, 5), (5, 7), (7, 10), (10, 15), (15, 20), (20, 30)]
    rows, seen, weight = [], [], []
    for level in levels:
        for a, b, count, variance in zip(level.start, level.stop, level.count, level.variance, strict=True):
            rows.append([float(a <= low and high <= b) for low, high in leaves])
            seen.append(count)
            weight.append(1 / variance)
    design, inverse = np.array(rows), np.diag(weight)
    covariance = np.linalg.inv(design.T @ inverse @ design)
    best = covariance @ design.T @ inverse @ np.array(seen)
    first = _with_parts(levels)[0]
    for place, inside in enumerate([[0, 1, 2], [3, 4], [5]]):
        assert first.count[place] == pytest.approx(best[inside].sum())
        assert first.variance[place] == pytest.approx(covariance[np.ix_(inside, inside)].sum())


@pytest.mark.parametrize("away", [0.0, 3.0, -25.0, 400.0])
def test_how_two_parts_differ_is_expected_as_numbers_say(away: float) -> None:
    """Of two parts only the difference is open: a number with a prior that is a mixture of normals, seen under noise. Integrated on a fine grid."""
    guess, variance = np.array([60.0, 40.0]), np.array([30.0, 50.0])
    logs, means = _expected(Split(guess, np.array([away / 2, -away / 2]), variance))
    d = np.linspace(-3000, 3000, 1_200_001)  # first less second part, from what was guessed
    seen = np.exp(-((d - away) ** 2) / (2 * variance.sum()))
    way = 0
    found = []
    for drift in _DRIFTING:
        for alone in _ALONE:
            # two values of their own, or two ends of a walk that is as long as the block: half a block apart
            spread = 50.0**2 * (2 * alone**2 + drift**2)
            spikes = [(1 - _SPIKE, spread), (_SPIKE, spread + 100.0**2)]
            if spread:
                prior = sum(share * np.exp(-(d**2) / (2 * v)) / v**0.5 for share, v in spikes)
                expected = float((prior * seen * d).sum() / (prior * seen).sum())
                assert means[way] == pytest.approx([expected / 2, -expected / 2], abs=1e-3)
                found.append((logs[way], np.log((prior * seen).sum())))
            way += 1
    gaps = [
        ours - theirs for ours, theirs in found
    ]  # likelihoods are the same but for what all have in common
    assert gaps == pytest.approx([gaps[0]] * len(gaps), abs=1e-6)


def _cut_once(parts: Floats, sd: float, seed: int, blocks: int) -> tuple[Floats, Floats]:
    """What is believed of the parts of each of several blocks, and how they were counted."""
    rng = np.random.default_rng(seed)
    size = len(parts)
    edges = np.arange(0, size * blocks + 1, size)
    real = np.tile(parts, blocks)
    noisy = np.rint(real + rng.normal(0, sd, real.size)).astype(np.int64)
    whole = np.rint(real.reshape(blocks, size).sum(axis=1) + rng.normal(0, sd, blocks)).astype(np.int64)
    places = np.arange(size * blocks)
    levels = [Level(edges[:-1], edges[1:], whole), Level(places, places + 1, noisy)]
    noises: Any = [DiscreteGaussian(round(sd**2))] * 2
    column = ob.Integer("x", 0, size * blocks - 1, missing=0)
    return shape_of(levels, noises, column, float(real.sum())).mass, noisy


@pytest.mark.parametrize(
    ("parts", "less"),
    [
        ([100] * 16, 0.5),  # even
        (list(range(60, 140, 5)), 0.6),  # a slope
        ([5] * 7 + [1500] + [5] * 8, 0.75),  # one value, and hardly another
        ([200, 10] * 8, 1.05),  # nothing to be learned from the neighbours
    ],
)
def test_what_is_believed_of_parts_is_closer_than_what_was_counted(parts: list[int], less: float) -> None:
    """Records that are misplaced, beside those by counts alone, over many columns whose noise is the same in every run."""
    real = np.tile(np.array(parts, float), 6)
    ours = theirs = 0.0
    for seed in range(30):
        believed, counted = _cut_once(np.array(parts, float), 25, seed, 6)
        ours += np.abs(believed - real).sum()
        theirs += np.abs(np.maximum(counted, 0) - real).sum()
    assert ours < less * theirs


def test_a_value_that_stands_out_keeps_its_records() -> None:
    """Among fifteen that hold few: smoothing takes less than a hundredth of it."""
    parts = np.array([5.0] * 7 + [1500.0] + [5.0] * 8)
    held = np.mean([_cut_once(parts, 25, seed, 6)[0][7::16].mean() for seed in range(30)])
    assert held == pytest.approx(1500, rel=0.01)
