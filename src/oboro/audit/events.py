"""Finding an event that tells two worlds apart, and judging it on fresh trials.

A guarantee (eps, delta) says P(E) <= e^eps Q(E) + delta for every event E. The trials are used in three parts:
numbers that may tell the worlds apart are learnt on the first quarter (learning.py), an event is chosen on the
second quarter by looking, and it is judged on the second half, once, with Clopper-Pearson bounds. So learning and
looking cost nothing: the judgement is a plain confidence statement about one fixed event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.audit.learning import statistics

__all__ = ["Event", "Floats", "Judgement", "judge", "lower", "promising", "statistics", "upper"]

_THRESHOLDS = 400


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


def judge(one: Floats, other: Floats, delta: float, alarm: float) -> Judgement:
    """The largest eps that the trials certify at `delta`, wrong with probability `alarm` at most."""
    half = len(one) // 2
    looked_at = slice(half // 2, half)
    found = max(_candidates(one[looked_at], other[looked_at], delta), default=None, key=lambda pair: pair[0])
    if found is None:
        return Judgement(0.0, None, 0.0, 0.0)
    event = found[1]
    first, second = (other, one) if event.swapped else (one, other)
    hits_p, hits_q = int(event.holds(first[half:]).sum()), int(event.holds(second[half:]).sum())
    fresh = len(one) - half
    p, q = lower(hits_p, fresh, alarm / 2), upper(hits_q, fresh, alarm / 2)
    return Judgement(max(0.0, math.log((p - delta) / q)) if p > delta else 0.0, event, p, q)


def promising(one: Floats, other: Floats, delta: float) -> float:
    """How much the trials suggest, without proof: for choosing what to look at more closely."""
    looked_at = slice(len(one) // 4, None)
    return max(
        (score for score, _ in _candidates(one[looked_at], other[looked_at], delta)), default=-math.inf
    )


def _candidates(one: Floats, other: Floats, delta: float) -> Iterator[tuple[float, Event]]:
    """Every threshold among some quantiles, each with what these trials suggest for it."""
    n = len(one)
    for statistic in range(one.shape[1]):
        sorted_one, sorted_other = np.sort(one[:, statistic]), np.sort(other[:, statistic])
        grid = _thresholds(np.concatenate([sorted_one, sorted_other]))
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


def _thresholds(both: Floats) -> Floats:
    both.sort(kind="stable")
    fresh = np.concatenate([[True], both[1:] != both[:-1]])
    if int(fresh.sum()) <= _THRESHOLDS:
        return np.asarray(both[fresh])
    return np.unique(both[np.linspace(0, both.size - 1, _THRESHOLDS).astype(np.int64)])


def lower(hits: int, trials: int, alarm: float) -> float:
    """Clopper-Pearson: the probability is below this with probability `alarm` at most."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alarm))


def upper(hits: int, trials: int, alarm: float) -> float:
    """Clopper-Pearson: the probability is above this with probability `alarm` at most."""
    from scipy.special import betainccinv

    return 1.0 if hits == trials else float(betainccinv(hits + 1, trials - hits, alarm))
