"""Which tables a batch measures: shares of its price for margins that several questions have in common.

With Gaussian noise the problem is convex, with Laplace noise it is not. So it starts from several places, one of them each
question alone, and takes what is best and keeps every question at least as exact as alone. That is decided in rationals afterwards,
by `Shared.check`; what does not pass is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError
from oboro.privacy import ZCDP, Pure
from oboro.release import Plan
from oboro.statistics.marginals import MOST_AXES, MOST_MARGINS, MOST_VALUES, Margin, Shared, Strategy
from oboro.statistics.means import MeanPlan
from oboro.statistics.scope import MOST_GROUPS
from oboro.statistics.subjects import Axes, Frame, Subject, What, clusters, subject_of, subsets, targets
from oboro.statistics.sums import SumPlan
from oboro.statistics.terms import Promise

_LEAST_GAIN = 1.02  # in the geometric mean of standard deviations: less is not worth another way to measure
_ROOM = 0.999  # of a variance alone: what rounding of shares and of variances may need
_WIDEST = 1.1  # of a forecast alone: an interval may be so much wider
_SMALL = 2e-3  # of the price: a table with less is left out
_FINE = 10**6
_MOST_CANDIDATES = 24
_ROUNDS = 120

Kind = tuple[Axes, What, int | None]


def strategies(plans: Sequence[Plan]) -> tuple[Strategy, ...]:
    """For each group of questions about the same rows the tables that answer them better than each alone, if there are such."""
    found = []
    for places in clusters(plans):
        subjects = tuple(one for place in places if (one := subject_of(plans[place])) is not None)
        for some, chosen in _divided(places, subjects):
            margins = _margins(chosen)
            if margins is None:
                continue
            shared = Shared(Strategy(some, margins), tuple(plans[place] for place in some))
            if all(_narrow(shared, place) for place in range(len(some))):
                found.append(shared.strategy)
    return tuple(found)


def _narrow(shared: Shared, place: int) -> bool:
    """Whether what is forecast of a question is at most a tenth wider than alone, or one whole number.

    Where there is little noise, what an interval adds since noises are whole numbers may be more than sharing gains.
    """
    plan = shared.plans[place]
    step = 0.0 if isinstance(plan, MeanPlan) else float(plan.grid[0]) if isinstance(plan, SumPlan) else 1.0
    pairs = zip(plan.forecast().rows, shared.forecast(place), strict=True)
    return all(end <= max(_WIDEST * float(alone[-1]), float(alone[-1]) + step) for alone, (_, end) in pairs)


def _divided(
    places: tuple[int, ...], subjects: tuple[Subject, ...]
) -> list[tuple[tuple[int, ...], tuple[Subject, ...]]]:
    """The questions as they are, or as many of the first as have few enough groups and values."""
    kept: list[int] = []
    for at, subject in enumerate(subjects):
        frame = Frame((*(subjects[i] for i in kept), subject))
        kinds = {(frame.axes_of(one), one.what, frame.value_of(one)) for one in frame.subjects}
        if (
            len(frame.axes) <= MOST_AXES
            and len(frame.values) <= MOST_VALUES
            and len(kinds) <= _MOST_CANDIDATES
            and frame.cells(frame.axes_of(subject)) <= MOST_GROUPS
        ):
            kept.append(at)
    if len(kept) < 2:
        return []
    return [(tuple(places[i] for i in kept), tuple(subjects[i] for i in kept))]


@lru_cache(maxsize=64)
def _margins(subjects: tuple[Subject, ...]) -> tuple[Margin, ...] | None:
    frame = Frame(subjects)
    pure = isinstance(subjects[0].price, Pure)
    prices = [_number(one.price) for one in subjects]
    total = sum(prices, Fraction(0))
    kinds = _candidates(frame)
    if any(least <= 0 for one in subjects for _, least in targets(frame, one)):
        return None  # there is hardly any noise to share
    problem = _Problem.of(frame, kinds, total, pure)
    alone = np.zeros(len(kinds))
    for one, price in zip(subjects, prices, strict=True):
        alone[kinds.index((frame.axes_of(one), one.what, frame.value_of(one)))] += float(price / total)
    best, least = None, -math.log(_LEAST_GAIN)
    for start in _starts(frame, kinds, alone):
        shares = problem.improved(start)
        if shares is None:
            continue
        margins = _rounded(kinds, shares, total, pure)
        gain = problem.gain(_as_shares(kinds, margins, total))
        if gain < least and _holds(margins, frame):
            best, least = margins, gain
    return best


def _number(price: Promise) -> Fraction:
    return price.eps if isinstance(price, Pure) else price.rho


def _candidates(frame: Frame) -> list[Kind]:
    """The tables of the questions themselves, and those over axes of several of them."""
    own: list[Kind] = [(frame.axes_of(one), one.what, frame.value_of(one)) for one in frame.subjects]
    found = dict.fromkeys(own)
    sets = {axes for axes, _, _ in own}
    unions = {tuple(sorted({*a, *b})) for a in sets for b in sets} | {tuple(range(len(frame.axes)))} | sets
    fitting = sorted(
        (axes for axes in unions if frame.cells(axes) <= MOST_GROUPS), key=lambda a: (-len(a), a)
    )
    valued: list[tuple[What, int | None]] = [
        ("count", None),
        *(("distances", v) for v in range(len(frame.values))),
    ]
    asked = {(what, value) for _, what, value in own}
    for axes in fitting:
        for what, value in valued:
            useful = (what, value) in asked or ("sum", value) in asked
            if useful and len(found) < 2 * _MOST_CANDIDATES:
                found.setdefault((axes, what, value))
    return list(found)


def _starts(frame: Frame, kinds: list[Kind], alone: Floats) -> list[Floats]:
    """Each question alone; all in the widest tables; and between both."""
    widest = max((axes for axes, _, _ in kinds), key=len)
    wide = np.asarray([float(axes == widest and what != "sum") for axes, what, _ in kinds])
    wide /= wide.sum() if wide.any() else 1
    pairs = np.asarray([float(what == "distances") for _, what, _ in kinds])
    starts = [alone + 0.02 / len(alone), *((1 - share) * alone + share * wide + 1e-3 for share in (0.5, 0.9))]
    if pairs.any():
        starts.append(0.3 * alone + 0.7 * pairs / pairs.sum() + 1e-3)
    return [start / start.sum() for start in starts]


def _rounded(kinds: list[Kind], shares: Floats, total: Fraction, pure: bool) -> tuple[Margin, ...]:
    whole = [int(share * _FINE) for share in shares]
    whole[int(np.argmax(shares))] += _FINE - sum(whole)
    return tuple(
        Margin(
            axes,
            what,
            Pure(total * Fraction(many, _FINE)) if pure else ZCDP(total * Fraction(many, _FINE)),
            value,
        )
        for (axes, what, value), many in zip(kinds, whole, strict=True)
        if many > 0
    )[:MOST_MARGINS]


def _as_shares(kinds: list[Kind], margins: Sequence[Margin], total: Fraction) -> Floats:
    shares = np.zeros(len(kinds))
    for one in margins:
        shares[kinds.index((one.axes, one.what, one.value))] += float(_number(one.price) / total)
    return shares


def _holds(margins: tuple[Margin, ...], frame: Frame) -> bool:
    """Whether every question is at least as exact as alone, in rationals."""
    shared = Shared(Strategy((), margins), ())
    shared.__dict__["frame"] = frame
    try:
        shared.check()
    except ParameterError:
        return False
    return True


@dataclass(frozen=True)
class _Problem:
    """Variances of what the questions ask for, by shares of the price, in doubles; and their derivatives."""

    pure: bool
    precision: Floats  # of each table at the whole price
    outer: Floats  # u u' of each table, summed over its columns
    spread: Floats  # of each table and set of axes: 1 over the cells that are added up; 0 where the set is not in the table
    asked: Floats  # directions
    factor: Floats  # of each direction and set of axes
    alone: Floats
    weights: Floats  # of each direction in the objective of its question
    owner: Floats  # questions by directions

    @classmethod
    def of(cls, frame: Frame, kinds: list[Kind], total: Fraction, pure: bool) -> _Problem:
        every = sorted({kept for one in frame.subjects for kept in subsets(frame.axes_of(one))})
        price: Promise = Pure(total) if pure else ZCDP(total)
        precision, outer, spread = [], [], []
        for axes, what, value in kinds:
            noise = frame.noise(axes, what, value, price)
            variance = 2 * noise.scale**2 if hasattr(noise, "scale") else noise.sigma2
            precision.append(float(frame.reach(what, value) ** 2 / variance))
            u = np.asarray(frame.directions(what, value), float)
            outer.append(u.T @ u)
            spread.append(
                [
                    1 / prod(frame.sizes[i] for i in axes if i not in kept) if set(kept) <= set(axes) else 0.0
                    for kept in every
                ]
            )
        asked, factor, alone, weights, owner = [], [], [], [], []
        for place, one in enumerate(frame.subjects):
            axes = frame.axes_of(one)
            for at, (direction, least) in enumerate(targets(frame, one)):
                asked.append([float(number) for number in direction])
                alone.append(float(least))
                # a mean half way between the middle and a bound
                weights.append(1.0 if at == 0 else 0.25)
                owner.append(place)
                factor.append(
                    [
                        prod(1 - 1 / frame.sizes[i] for i in kept)
                        / prod(frame.sizes[i] for i in axes if i not in kept) ** 2
                        if set(kept) <= set(axes)
                        else 0.0
                        for kept in every
                    ]
                )
        owned = np.asarray(owner)[None, :] == np.arange(len(frame.subjects))[:, None]
        return cls(
            pure,
            np.asarray(precision),
            np.asarray(outer),
            np.asarray(spread),
            np.asarray(asked),
            np.asarray(factor),
            np.asarray(alone),
            np.asarray(weights),
            owned.astype(float),
        )

    def variances(self, shares: Floats) -> tuple[Floats, Floats]:
        """Of each direction, over that alone; and how they change with each share."""
        power = 2 if self.pure else 1
        known = self.precision * shares**power
        slope = self.precision * power * shares ** (power - 1)
        scale = float((self.precision * np.abs(self.outer).max(axis=(1, 2))).max())
        matrix = np.einsum("m,ms,mij->sij", known, self.spread, self.outer)
        matrix = matrix + 1e-13 * scale * np.eye(matrix.shape[1])[None]
        x = np.linalg.solve(matrix, np.broadcast_to(self.asked.T, (len(matrix), *self.asked.T.shape)))
        values = np.einsum("ts,ti,sit->t", self.factor, self.asked, x)
        moved = np.einsum("sit,mij,sjt->mst", x, self.outer, x)
        change = -np.einsum("ts,ms,mst,m->tm", self.factor, self.spread, moved, slope)
        return values / self.alone, change / self.alone[:, None]

    def objective(self, shares: Floats) -> tuple[float, Floats]:
        """The mean logarithm of the questions' standard deviations over those alone; and its slope."""
        values, change = self.variances(shares)
        each = self.owner * self.weights
        mine = each @ values / each.sum(axis=1)
        slope = (each @ change) / each.sum(axis=1)[:, None]
        return float(np.log(mine).mean()) / 2, (slope / mine[:, None]).mean(axis=0) / 2

    def gain(self, shares: Floats) -> float:
        return self.objective(shares)[0]

    def improved(self, start: Floats) -> Floats | None:
        """Shares that are better and keep every direction below its variance alone, as far as doubles tell."""
        from scipy.optimize import minimize

        shares: Floats | None = start
        for _ in range(2):  # once more without the tables that hardly count
            assert shares is not None
            inside = np.flatnonzero(shares > _SMALL * (shares is not start))
            if shares is not start and len(inside) == len(np.flatnonzero(shares)):
                break
            shares = self._improved(minimize, shares, inside)
            if shares is None:
                return None
        return shares

    def _improved(self, minimize: Any, start: Floats, inside: Integers) -> Floats | None:
        def spread(x: Floats) -> Floats:
            whole = np.zeros(len(start))
            whole[inside] = np.maximum(x, 0)
            return whole

        result = minimize(
            lambda x: self.objective(spread(x))[0],
            start[inside] / start[inside].sum(),
            jac=lambda x: self.objective(spread(x))[1][inside],
            bounds=[(0.0, 1.0)] * len(inside),
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(len(x))},
                {
                    "type": "ineq",
                    "fun": lambda x: np.log(_ROOM) - np.log(self.variances(spread(x))[0]),
                    "jac": lambda x: -_relative(*self.variances(spread(x)))[:, inside],
                },
            ],
            method="SLSQP",
            options={"maxiter": _ROUNDS, "ftol": 1e-7},
        )
        shares = spread(result.x)
        return shares / shares.sum() if np.isfinite(shares).all() and shares.sum() > 0 else None


def _relative(values: Floats, change: Floats) -> Floats:
    return np.asarray(change / values[:, None])
