"""Numbers that may tell two worlds apart, learnt from the first quarter of the trials.

The best event against a promise is {likelihood ratio above a threshold}. The ratio is not known, so several guesses
at it are learnt, each a plain function of one measurement:

    some numbers that were measured, and sums over all of them
    how much nearer the measurement is to the one world's middle than to the other's: right for Laplace noise
    histograms: the log ratio of counts of each number by itself, added up: right if the numbers are independent
    whole outcomes: the log ratio of counts of the measurement as a whole, where there are not too many different ones
    a logistic regression on the numbers, their distances and their squares: right for Gaussian noise, and for numbers
    that only tell something together

What they were learnt from is not judged, so a bad guess is a weak attack and never a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oboro.arrays import Floats

Feature = Callable[[Floats], Floats]

_TELLING = 24  # numbers that are looked at one by one
_BINS = 64
_OUTCOMES = 4000  # different whole outcomes, at most
_ROWS = 20_000  # for the regression
_FINE = 9  # digits of a learnt number: so that equal outcomes have equal numbers


def statistics(one: Floats, other: Floats, most: int = _TELLING) -> tuple[Floats, Floats]:
    """For each trial of both worlds a row of numbers that may tell the worlds apart."""
    learn = max(1, len(one) // 4)
    features = learnt(one[:learn], other[:learn], most)

    def of(world: Floats) -> Floats:
        return np.column_stack(
            [np.round(part, _FINE) for feature in features for part in _columns(feature(world))]
        )

    return of(one), of(other)


def learnt(one: Floats, other: Floats, most: int = _TELLING) -> list[Feature]:
    """Functions from measurements to numbers."""
    centre = [np.median(world, axis=0) for world in (one, other)]
    spread = sum(np.median(np.abs(world - c), axis=0) for world, c in zip((one, other), centre, strict=True))
    width = np.maximum(spread, 1e-12)
    gap = np.clip((centre[0] - centre[1]) / width, -1e6, 1e6)
    mean_gap = np.abs(one.mean(axis=0) - other.mean(axis=0)) / width
    telling = np.argsort(-np.maximum(np.abs(gap), mean_gap), kind="stable")[:most]
    direction = np.sign(gap)
    return [
        lambda world: world[:, telling],
        lambda world: world @ direction,
        lambda world: world @ gap,
        lambda world: (np.abs(world - centre[1]) - np.abs(world - centre[0])) @ (1 / width),
        _histograms(one[:, telling], other[:, telling], telling),
        *_outcomes(one, other),
        _regression(
            one[:, telling], other[:, telling], telling, [c[telling] for c in centre], width[telling]
        ),
    ]


def _columns(values: Floats) -> list[Floats]:
    return [values] if values.ndim == 1 else list(values.T)


def _histograms(one: Floats, other: Floats, telling: Any) -> Feature:
    """The sum over numbers of log(count in the one world / count in the other), by bins."""
    edges, ratios = [], []
    for i in range(len(telling)):
        both = np.sort(np.concatenate([one[:, i], other[:, i]]))
        values = np.unique(both)
        if values.size > _BINS:
            values = np.unique(both[np.linspace(0, both.size - 1, _BINS).astype(np.int64)])
        counts = [
            np.bincount(np.searchsorted(values, world[:, i], side="right"), minlength=values.size + 1)
            for world in (one, other)
        ]
        edges.append(values)
        ratios.append(np.log((counts[0] + 0.5) / (counts[1] + 0.5)))

    def feature(world: Floats) -> Floats:
        total = np.zeros(len(world))
        for place, values, ratio in zip(telling, edges, ratios, strict=True):
            total += ratio[np.searchsorted(values, world[:, place], side="right")]
        return total

    return feature


def _outcomes(one: Floats, other: Floats) -> list[Feature]:
    """log(count in the one world / count in the other) of whole outcomes, named by a random combination."""
    weights = np.random.default_rng(1).integers(1, 2**20, one.shape[1]).astype(np.float64)
    names = [world @ weights for world in (one, other)]
    known, place = np.unique(np.concatenate(names), return_inverse=True)
    if known.size > _OUTCOMES or (one.shape[1] == 1 and known.size <= _BINS):
        return []  # too many to count; or the histogram of the only number has them all
    counts = [np.bincount(part, minlength=known.size) for part in np.split(place, [len(one)])]
    ratio = np.concatenate([np.log((counts[0] + 0.5) / (counts[1] + 0.5)), [0.0]])

    def feature(world: Floats) -> Floats:
        named = world @ weights
        at = np.minimum(np.searchsorted(known, named), known.size - 1)
        return np.asarray(ratio[np.where(known[at] == named, at, known.size)])

    return [feature]


def _regression(one: Floats, other: Floats, telling: Any, centre: list[Floats], width: Floats) -> Feature:
    """The linear predictor of a logistic regression, by a few Newton steps with a ridge."""

    def inputs(world: Floats) -> Floats:
        away = np.clip((world - centre[1]) / width, -50, 50)
        back = np.clip((world - centre[0]) / width, -50, 50)
        return np.column_stack([np.ones(len(world)), away, np.abs(away) - np.abs(back), away * away / 50])

    rows = np.concatenate([inputs(one[:_ROWS]), inputs(other[:_ROWS])])
    label = np.repeat([1.0, 0.0], [min(len(one), _ROWS), min(len(other), _ROWS)])
    weights = np.zeros(rows.shape[1])
    for _ in range(6):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (label - chance) - weights
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(rows.shape[1])
        weights = np.clip(weights + np.linalg.solve(curve, slope), -100, 100)
    return lambda world: inputs(world[:, telling]) @ weights
