"""Finding an event that tells two worlds apart, and judging it on fresh trials.

A guarantee (eps, delta) says P(E) <= e^eps Q(E) + delta for every event E. An event is sought on the first half
of the trials, by looking; it is judged on the second half, once, with Clopper-Pearson bounds. So looking costs
nothing: the judgement is a plain confidence statement about one fixed event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Event:
    """{statistic below, above or at a threshold}, in favour of the first world or of the second."""

    statistic: int
    side: str  # "<=", ">=" or "=="
    threshold: float
    swapped: bool

    def holds(self, values: Floats) -> npt.NDArray[np.bool_]:
        column = values[:, self.statistic]
        if self.side == "<=":
            return column <= self.threshold
        return column >= self.threshold if self.side == ">=" else column == self.threshold


@dataclass(frozen=True, slots=True)
class Judgement:
    """A certified lower bound on eps at one delta, with the event that shows it."""

    eps_lower: float
    event: Event | None
    p: float
    q: float


def statistics(one: Floats, other: Floats, most: int = 24) -> tuple[Floats, Floats]:
    """A few numbers for each trial that may tell the worlds apart: some coordinates, and sums over them.

    The weights are learnt from a third of the first half; they are fixed numbers for the judgement.
    """
    learn = max(1, len(one) // 6)
    centre = [np.median(world[:learn], axis=0) for world in (one, other)]
    spread = np.median(np.abs(one[:learn] - centre[0]), axis=0) + np.median(
        np.abs(other[:learn] - centre[1]), axis=0
    )
    gap = np.divide(centre[0] - centre[1], np.maximum(spread, 1e-12))
    telling = np.argsort(-np.abs(gap), kind="stable")[:most]
    direction = np.sign(gap)

    def features(world: Floats) -> Floats:
        sums = [world @ direction, world @ np.clip(gap, -1e6, 1e6)]
        # how much nearer to the one centre than to the other: what decides for Laplace noise
        nearer = (np.abs(world - centre[1]) - np.abs(world - centre[0])) @ np.divide(
            1.0, np.maximum(spread, 1e-12)
        )
        return np.column_stack([world[:, telling], *sums, np.round(nearer, 9)])

    return features(one), features(other)


def judge(one: Floats, other: Floats, delta: float, alarm: float) -> Judgement:
    """The largest eps that the trials certify at `delta`, wrong with probability `alarm` at most."""
    half = len(one) // 2
    found = max(_candidates(one[:half], other[:half], delta), default=None, key=lambda pair: pair[0])
    if found is None:
        return Judgement(0.0, None, 0.0, 0.0)
    event = found[1]
    first, second = (other, one) if event.swapped else (one, other)
    hits_p, hits_q = int(event.holds(first[half:]).sum()), int(event.holds(second[half:]).sum())
    fresh = len(one) - half
    p, q = lower(hits_p, fresh, alarm / 2), upper(hits_q, fresh, alarm / 2)
    return Judgement(max(0.0, math.log((p - delta) / q)) if p > delta else 0.0, event, p, q)


def _candidates(one: Floats, other: Floats, delta: float) -> Iterator[tuple[float, Event]]:
    """Every threshold among some quantiles, each with what the first half suggests for it."""
    n = len(one)
    for statistic in range(one.shape[1]):
        both = np.concatenate([one[:, statistic], other[:, statistic]])
        values = np.unique(both)
        grid = (
            values
            if values.size <= 400
            else np.unique(np.quantile(both, np.linspace(0, 1, 400), method="inverted_cdf"))
        )
        sorted_one, sorted_other = np.sort(one[:, statistic]), np.sort(other[:, statistic])
        at_most = [np.searchsorted(s, grid, side="right") for s in (sorted_one, sorted_other)]
        below = [np.searchsorted(s, grid, side="left") for s in (sorted_one, sorted_other)]
        hits = {
            "<=": at_most,
            ">=": [n - b for b in below],
            "==": [a - b for a, b in zip(at_most, below, strict=True)],
        }
        for side, (p, q) in hits.items():
            for swapped, (a, b) in ((False, (p, q)), (True, (q, p))):
                # a cautious estimate, so that lucky small counts do not win
                low = (a - 3 * np.sqrt(a + 1)) / n - delta
                score = np.where(
                    low > 0, np.log(np.maximum(low, 1e-300) * n / (b + 3 * np.sqrt(b + 1) + 3)), -np.inf
                )
                best = int(np.argmax(score))
                if np.isfinite(score[best]):
                    yield float(score[best]), Event(statistic, side, float(grid[best]), swapped)


def lower(hits: int, trials: int, alarm: float) -> float:
    """Clopper-Pearson: the probability is below this with probability `alarm` at most."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alarm))


def upper(hits: int, trials: int, alarm: float) -> float:
    """Clopper-Pearson: the probability is above this with probability `alarm` at most."""
    from scipy.special import betaincinv

    return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - alarm))
