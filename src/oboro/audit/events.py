"""Finding an event that tells two worlds apart, and judging it on fresh trials.

A guarantee (eps, delta) says P(E) <= e^eps Q(E) + delta for every event E. The trials are used in three parts:
numbers that may tell the worlds apart are learnt on the first quarter, an event is chosen on the
second quarter by looking, and it is judged on the second half, once, with Clopper-Pearson bounds. So learning and
looking cost nothing: the judgement is a plain confidence statement about one fixed event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers, Table
from oboro.exact import about, show
from oboro.language import plain
from oboro.privacy import Approx, Guarantee, Pure, Renyi

# What an attack found: one finding for each pair of neighbours and each form of the promise.

DELTAS = (Fraction(1, 100), Fraction(1, 10_000))  # where a Rényi or zCDP promise is looked at as (eps, delta)
ORDERS = (Fraction(2), Fraction(4))  # and the orders at which a zCDP promise is looked at
EXACT = 1e-12  # how well what is computed is known


@dataclass(frozen=True, slots=True)
class Finding:
    """One pair: what was promised, and what was certified by trials ("measured") or is so ("computed").

    With an `order` both are Rényi divergences of that order; otherwise both are eps at `delta`.

    >>> finding = ob.audit.exact(plan).closest
    >>> finding.why, finding.promised, finding.how
    ('one unit with all its rows, or nobody', Fraction(1, 2), 'computed')
    """

    why: str
    delta: Fraction
    promised: Fraction
    eps_lower: float
    event: Event | None
    how: str = "measured"
    order: Fraction | None = None

    @property
    def holds(self) -> bool:
        return self.eps_lower <= self.promised + (Fraction(EXACT) if self.how == "computed" else 0)

    @property
    def where(self) -> str:
        """ "at delta 0.01" or "of order 2"."""
        return f"at delta {about(self.delta)}" if self.order is None else f"of order {show(self.order)}"

    def to_dict(self) -> dict[str, object]:
        return {
            "pair": self.why,
            "how": self.how,
            **({"delta": float(self.delta)} if self.order is None else {"order": float(self.order)}),
            "promised": float(self.promised),
            "eps_lower": self.eps_lower if self.eps_lower < float("inf") else "infinite",
            "holds": self.holds,
        }

    def __str__(self) -> str:
        sign = "<=" if self.holds else ">"
        what = "eps" if self.order is None else "divergence"
        is_so = "=" if self.how == "computed" else ">="
        return (
            f"{self.how} {what} {is_so} {about(self.eps_lower)} {sign} {about(self.promised)} promised "
            f"{self.where}: {self.why}"
        )


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an attack found. `eps_lower` is certified: larger than the truth with probability below 1e-6.

    >>> print(ob.audit.exact(plan))
    holds: statistics.histogram, eps = 0.5, computed
      computed eps = 0.5 <= 0.5 promised at delta 0: one unit with all its rows, or nobody
      computed eps = 0.5 <= 0.5 promised at delta 0: one unit with all its rows, or nobody
    """

    plan: str
    guarantee: Guarantee
    trials: int
    findings: tuple[Finding, ...]
    name: str = ""

    @property
    def eps_lower(self) -> float:
        """The largest eps that was certified, at a promised delta."""
        return max((finding.eps_lower for finding in self.findings if finding.order is None), default=0.0)

    @property
    def verdict(self) -> str:
        """ "holds" (nothing was found against the promise) or "broken"."""
        return "holds" if all(finding.holds for finding in self.findings) else "broken"

    @property
    def how(self) -> str:
        """ "computed" if the truth about every pair is known, otherwise "measured"."""
        known = {finding.why for finding in self.findings if finding.how == "computed"}
        return "computed" if known >= {finding.why for finding in self.findings} else "measured"

    @property
    def closest(self) -> Finding:
        """What comes nearest to the promise, or furthest beyond it. The truth goes before what was measured."""
        chosen = [finding for finding in self.findings if finding.how == self.how or not finding.holds]
        return max(chosen, key=lambda finding: finding.eps_lower / max(float(finding.promised), 1e-12))

    def to_dict(self) -> dict[str, object]:
        return {
            **({"name": self.name} if self.name else {}),
            "plan": self.plan,
            "guarantee": self.guarantee.to_dict(),
            "trials": self.trials,
            "how": self.how,
            "verdict": self.verdict,
            "eps_lower": self.eps_lower if self.eps_lower < float("inf") else "infinite",
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        named = f"{self.name}: {self.plan}" if self.name else self.plan
        how = f"{self.trials:,} trials a world" if self.trials else "computed"
        head = plain(f"{self.verdict}: {named}, {self.guarantee}, {how}")
        return "\n".join([head, *(f"  {plain(str(finding))}" for finding in self.findings)])


def promised(guarantee: Guarantee) -> list[tuple[Fraction, Fraction]]:
    """The promise as a list of (delta, eps) that can be tested."""
    plain = guarantee.unconditional
    if isinstance(plain, Pure):
        return [(Fraction(0), plain.eps)]
    if isinstance(plain, Approx):
        return [(plain.delta, plain.eps)]
    return [(delta, plain.to_approx(delta).eps) for delta in DELTAS]


def promised_divergences(guarantee: Guarantee) -> list[Renyi]:
    """The promise as Rényi divergences, where it is one."""
    plain = guarantee.unconditional
    if isinstance(plain, Renyi):
        return [plain]
    return [] if isinstance(plain, Pure | Approx) else [plain.to_renyi(order) for order in ORDERS]


# Numbers that may tell two worlds apart, learnt from the first quarter of the trials.
#
# The best event against a promise is {likelihood ratio above a threshold}. The ratio is not known, so several guesses
# at it are learnt, each a plain function of one measurement:
#
#     some numbers that were measured, and sums over all of them
#     how much nearer the measurement is to the one world's middle than to the other's: right for Laplace noise
#     histograms: the log ratio of counts of each number by itself, added up: right if the numbers are independent
#     whole outcomes: the log ratio of counts of the measurement as a whole, where there are not too many different ones
#     a logistic regression on the numbers, their distances and their squares: right for Gaussian noise, and for numbers
#     that only tell something together
#
# What they were learnt from is not judged, so a bad guess is a weak attack and never a false alarm.

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


def _histograms(one: Floats, other: Floats, telling: Integers) -> Feature:
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


def _regression(
    one: Floats, other: Floats, telling: Integers, centre: list[Floats], width: Floats
) -> Feature:
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


# A certified lower bound on a Rényi divergence, from trials.
#
# Cut the outputs into cells, with probabilities p_i in the one world and q_i in the other. By the data processing
# inequality D_a(P || Q) >= log(sum p_i^a q_i^(1-a)) / (a - 1), whatever the cells. Each summand grows with p_i and falls
# with q_i (a > 1), so Clopper-Pearson bounds from below on all p_i and from above on all q_i give a lower bound that is
# wrong with probability `alarm` at most. The cells are chosen on trials that are not judged.

CELLS = (2, 4, 8, 16)


def judge_divergence(one: Floats, other: Floats, order: float, alarm: float) -> float:
    """The largest divergence of this order, in either direction, that the second half of the trials certifies."""
    half = len(one) // 2
    looked_at = slice(half // 2, half)
    best, chosen = 0.0, None
    for swapped, (p, q) in ((False, (one, other)), (True, (other, one))):
        for statistic, edges in _partitions(p[looked_at], q[looked_at]):
            counts = _counts(p[looked_at], statistic, edges), _counts(q[looked_at], statistic, edges)
            suggested = _bound(*counts, order, 1e-3)
            if suggested > best:
                best, chosen = suggested, (swapped, statistic, edges)
    if chosen is None:
        return 0.0
    swapped, statistic, edges = chosen
    p, q = (other, one) if swapped else (one, other)
    return _bound(_counts(p[half:], statistic, edges), _counts(q[half:], statistic, edges), order, alarm)


def _partitions(one: Floats, other: Floats) -> Iterator[tuple[int, Floats]]:
    for statistic in range(one.shape[1]):
        both = np.sort(np.concatenate([one[:, statistic], other[:, statistic]]))
        for cells in CELLS:
            places = np.linspace(0, both.size, cells + 1)[1:-1].astype(np.int64)
            edges = np.unique(both[places])
            if edges.size:
                yield statistic, edges


def _counts(world: Floats, statistic: int, edges: Floats) -> list[int]:
    at = np.searchsorted(edges, world[:, statistic], side="right")
    return [int(count) for count in np.bincount(at, minlength=edges.size + 1)]


def _bound(p_hits: list[int], q_hits: list[int], order: float, alarm: float) -> float:
    trials, share = sum(p_hits), alarm / (2 * len(p_hits))
    total = 0.0
    for p, q in zip(p_hits, q_hits, strict=True):
        low, high = lower(p, trials, share), upper(q, trials, share)
        total += low**order * high ** (1 - order)
    return max(0.0, math.log(total) / (order - 1)) if total > 0 else 0.0


# Measurements and releases of any shape as rows of numbers.


def flat(measured: Any, trials: int) -> Floats:
    """Measurements of any shape as one row of numbers for each trial."""
    parts = list(measured.values()) if isinstance(measured, dict) else measured
    rows = [
        np.asarray(part).reshape(trials, -1)
        for part in (parts if isinstance(parts, tuple | list) else [parts])
    ]
    return np.concatenate(rows, axis=1).astype(np.float64)


def alike(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Both with as many columns, filled up with zeros: some plans measure more numbers or fewer by chance."""
    width = max(one.shape[1], other.shape[1], 1)
    return _widened(one, width), _widened(other, width)


def released(tables: list[Table]) -> Floats:
    """The tables of many releases as a row of numbers each: first how long it is, then its cells."""
    rows = [_numbers(table) for table in tables]
    wide = np.zeros((len(rows), max(len(row) for row in rows)))
    for place, row in enumerate(rows):
        wide[place, : len(row)] = row
    return wide


def _numbers(table: Table) -> list[float]:
    numbers: list[float] = [float(table.num_rows)]
    for name in table.column_names:
        for value in table.column(name).to_pylist():
            if isinstance(value, str):  # the same text is the same number
                value = float(sum((i + 1) * ord(letter) for i, letter in enumerate(value)))
            numbers.append(float(value) if isinstance(value, int | float) and value == value else 0.0)
    return numbers


def _widened(world: Floats, width: int) -> Floats:
    missing = width - world.shape[1]
    return np.pad(world, ((0, 0), (0, missing))) if missing else world
