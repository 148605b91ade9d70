"""What Kashima's slides claim, computed again: `oboro reproduce kashima-sensitivities`, for one.

The slides print formulas and one example. Each formula stands here beside what is proved and beside the definition itself,
computed for every dataset of a small domain (`sensitivity.of`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from oboro.arrays import Floats
from oboro.domain import Column, Real
from oboro.noise.bits import system_bits
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Plan
from oboro.release.reproduction import Curve, Curves, Reproducible, Reproduction, Row, bars_of, curves_of
from oboro.statistics import sensitivity
from oboro.statistics.clusters import LloydPlan, clusters_plan, nearest
from oboro.statistics.components import components_plan
from oboro.statistics.points import REACH
from oboro.statistics.scope import Scope
from oboro.statistics.sensitivity.enumeration import Function, Rows

N, GAMMA = 3, 1  # of the small domains
_CORNERS = ((1, 0), (-1, 0), (0, 1), (0, -1))  # of the L1 ball, and on the edge of the L2 ball
_ROUND = tuple((math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)) for turn in range(16))
_TILT = math.atan(1 / 2) / 2  # where one triangle of second moments moves the furthest
_TILTED = ((math.cos(_TILT), math.sin(_TILT)), (-math.sin(_TILT), math.cos(_TILT)))


# Slide 18: global sensitivities.


def sensitivities() -> Reproduction:
    """Global sensitivities, printed, proved and by brute force."""
    rows: list[Row] = []
    for name, printed, proved, function, values, norm in _ITEMS:
        found = sensitivity.of(function, values, N, norm=norm, ordered=False)
        gone = ""
        if name in _COMES:
            gone = f"{sensitivity.of(function, values, N, norm=norm, adjacency='add/remove').largest:g}"
        rows.append((name, printed, proved, found.largest, gone))
    return Reproduction(
        "kashima-sensitivities",
        f"Slide 18: global sensitivities, for gamma = {GAMMA} and n = {N} rows in two dimensions",
        ("", "printed", "proved", "brute force", "a row comes or goes"),
        tuple(rows),
        errors=(
            "slide 9 calls {1, 2, 3} and {1, 2} neighbours: a row comes or goes. The formulas of slide 18 are for a row that is replaced.",
            "the mean's 2 gamma/n holds if data and noise use the same norm. With lengths in the 2-norm and Laplace noise it is "
            "2 gamma sqrt(d)/n: as printed, the noise is too small by sqrt(d).",
            "covariance: 8 gamma²/n is valid, and loose: 6 gamma² (n-1)/n² for all entries, 5 for one triangle, 4 in the 2-norm.",
            "subset sums: 4 gamma is twice too much. A row leaves one sum and enters another: 2 gamma.",
        ),
        notes=(
            "brute force: every dataset of n rows at corners of the ball, or at eight points of the circle, where the worst lies: it "
            "reaches what is proved",
            "a row comes or goes: where the sensitivity does not depend on n",
        ),
        figures=(
            bars_of(
                "global sensitivities of slide 18",
                rows,
                ("printed", "proved", "brute force"),
                below="sensitivity",
            ),
        ),
    )


def _mean(rows: Rows) -> Floats:
    return np.asarray(np.asarray(rows, float).mean(axis=0))


def _covariance(rows: Rows) -> Floats:
    points = np.asarray(rows, float)
    away = points - points.mean(axis=0)
    return np.asarray(away.T @ away / len(points))


def _triangle(rows: Rows) -> Floats:
    return np.asarray(_covariance(rows)[np.triu_indices(2)])


def _histogram(rows: Rows) -> list[int]:
    return [rows.count(value) for value in range(3)]


def _subset_sums(rows: Rows) -> list[int]:
    return [sum(value for group, value in rows if group == place) for place in range(2)]


_SPREAD = Fraction(N - 1, N * N)
_ITEMS: tuple[tuple[str, float, float, Function, Sequence[object], str], ...] = (
    ("sum of g in [0, 1]", 1, 1, sum, (0, 0.5, 1), "l1"),
    ("mean, one norm for data and noise", 2 / N, 2 / N, _mean, _CORNERS, "l1"),
    ("mean, 2-norm data, Laplace noise", 2 / N, 2 * math.sqrt(2) / N, _mean, _ROUND[::2], "l1"),
    ("covariance, L1 ball, all entries", 8 / N, float(6 * _SPREAD), _covariance, _CORNERS, "l1"),
    ("covariance, L1 ball, one triangle", 8 / N, float(5 * _SPREAD), _triangle, _CORNERS, "l1"),
    ("covariance, L2 ball, 2-norm", 8 / N, float(4 * _SPREAD), _covariance, _ROUND[::2], "l2"),
    ("histogram", 2, 2, _histogram, (0, 1, 2), "l1"),
    (
        "subset sums of g in [-gamma, gamma]",
        4,
        2,
        _subset_sums,
        [(g, x) for g in (0, 1) for x in (-1, 1)],
        "l1",
    ),
)
_COMES = ("sum of g in [0, 1]", "histogram", "subset sums of g in [-gamma, gamma]")


# Slides 24 to 27: the median of zeros and ones.

ONES, BETA = 7, 1


def median() -> Reproduction:
    """Local, smooth and global sensitivity of the median of seven zeros and ones."""
    middle = (ONES + 1) // 2
    every = sensitivity.of(lambda rows: sorted(rows)[middle - 1], (0, 1), ONES)
    rows: list[Row] = []
    for ones in range(ONES + 1):
        data = [0] * (ONES - ones) + [1] * ones
        found = sensitivity.smooth_order_statistic(data, middle, (0, 1), BETA)
        local = sensitivity.local_order_statistic(data, middle, (0, 1))
        text = "".join(str(value) for value in data)
        rows.append(
            (text, data[middle - 1], local, every.local(data), found, every.smooth(data, BETA), every.largest)
        )
    wide = sensitivity.of(lambda rows: sorted(rows)[2], range(4), 5)
    between = [
        wide.local(data) <= wide.smooth(data, BETA) <= wide.largest for data in product(range(4), repeat=5)
    ]
    return Reproduction(
        "kashima-median",
        f"Slides 24-27: the median of {ONES} zeros and ones; smooth with beta = {BETA}",
        ("data", "median", "LS", "brute force", "S*", "brute force", "GS"),
        tuple(rows),
        figures=(
            curves_of(
                "LS <= S* <= GS",
                range(ONES + 1),
                [(name, *(row[at] for row in rows)) for at, name in ((2, "LS"), (4, "S*"), (6, "GS"))],
                below="ones",
                beside="sensitivity",
            ),
        ),
        errors=(
            "slide 26 writes eps for the exponent. It is beta, and noise that is eps-DP needs a smaller one: s + beta <= eps for "
            "Cauchy noise.",
            "slide 25's LS is for an odd n. For an even n the middle two are averaged, and LS is another; an order statistic has no such case.",
            "slide 27's windows leave the data where k is large: places beyond its ends hold the bounds.",
        ),
        notes=(
            f"LS <= S* <= GS: in every row above, and in {sum(between):,} of all {len(between):,} datasets of five values from 0 to 3",
            "LS is 0 for all but two rows: noise of that size would publish the median as it is, and tell the two rows apart from the rest",
            "brute force: the definition, for all 2^7 datasets",
        ),
    )


# Slide 26: "Lap(S*/eps) is eps-DP".

COPIES = 11


def laplace() -> Reproduction:
    """What noise of scale S*/eps really costs, beside noise that keeps its promise."""
    epses = (0.1, 0.5, 1.0, 2.0)
    rows: list[Row] = [
        ("Laplace, LS/eps: slide 25, refuted there", *["1"] * len(epses)),
        ("Laplace, S*/eps, beta = eps: slide 26", *[worst_delta(eps, eps, eps) for eps in epses]),
    ]
    small = 1e-6
    halves = [eps / 2 / math.log(2 / small) for eps in epses]
    found = [worst_delta(eps, eps / 2, beta) for eps, beta in zip(epses, halves, strict=True)]
    rows += [
        ("Laplace, 2 S*/eps, beta = eps/(2 ln(2/delta)), delta = 1e-6", *found),
        ("Laplace, GS/eps: slide 15", *["0"] * len(epses)),
        ("Cauchy, S*/s, s + beta = eps: the largest eps seen", *[_cauchy(eps) for eps in epses]),
    ]
    return Reproduction(
        "kashima-laplace",
        f"Slide 26: delta of Laplace noise with a smooth sensitivity, median of {COPIES} zeros and ones",
        ("noise, scale", *[f"eps = {eps:g}" for eps in epses]),
        tuple(rows),
        errors=(
            f"Lap(S*/eps) is not eps-DP. {COPIES} zeros against {COPIES - 1} zeros and a one: both medians are 0, S* is e^-5 and e^-4 at "
            f"beta = 1, and the tails give them away: delta = {worst_delta(1, 1, 1):.3f} at eps = 1.",
        ),
        notes=(
            "the worst over all pairs of neighbours: centres and scales are exact, delta in closed form",
            "a smaller scale has no tail to speak of, so the ratio of two Laplace densities of unlike scale has no bound; that of two "
            "Cauchy densities is at most e^beta",
        ),
        figures=(_deltas(small),),
    )


def _deltas(small: float) -> Curves:
    """Delta against eps: what the slides say is 0, and what is promised with a delta."""
    epses = [0.1 * 1.25**step for step in range(15)]
    mended = [(eps, worst_delta(eps, eps / 2, eps / 2 / math.log(2 / small))) for eps in epses]
    curves = (
        Curve(
            "Laplace, S*/eps, beta = eps: slide 26", tuple((eps, worst_delta(eps, eps, eps)) for eps in epses)
        ),
        Curve("delta = 1e-6, promised", tuple((eps, small) for eps in epses)),
        Curve("Laplace, 2 S*/eps, beta = eps/(2 ln(2/delta)), delta = 1e-6", tuple(mended)),
    )
    return Curves("the true delta", curves, "eps", "delta", log_x=True, log_y=True)


def worst_delta(eps: float, s: float, beta: float) -> float:
    """The delta at eps of Laplace noise of scale S*/s on the median of zeros and ones, over all neighbours."""
    return max(
        laplace_delta(eps, one[0] - other[0], one[1] / s, other[1] / s)
        for pair in pairwise(_medians(beta))
        for one, other in (pair, pair[::-1])
    )


def _medians(beta: float) -> list[tuple[float, float]]:
    """The median and its smooth sensitivity for 0, 1, ... ones of 11: e^(-beta k), k changes away from a jump."""
    half = COPIES // 2  # with so many ones the median is still 0, and jumps with one more
    away = [half - ones if ones <= half else ones - half - 1 for ones in range(COPIES + 1)]
    return [(float(ones > half), math.exp(-beta * k)) for ones, k in enumerate(away)]


def laplace_delta(eps: float, shift: float, scale: float, other: float) -> float:
    """sup over sets of P(set) - e^eps Q(set), P = shift + Lap(scale), Q = Lap(other): where p > e^eps q.

    ln p/q = ln(other/scale) - |x - shift|/scale + |x|/other is straight but for corners at 0 and at the shift: it crosses eps
    at most once in each part.
    """

    def loss(x: float) -> float:
        return math.log(other / scale) - abs(x - shift) / scale + abs(x) / other - eps

    corners = [-math.inf, *sorted({0.0, shift}), math.inf]
    cuts = list(corners)
    for low, high in pairwise(corners):
        left, right = high - 1 if low == -math.inf else low, low + 1 if high == math.inf else high
        rise = (loss(right) - loss(left)) / (right - left)
        if rise and low < (at := left - loss(left) / rise) < high:
            cuts.append(at)
    total = 0.0
    for low, high in pairwise(sorted(cuts)):
        inside = high - 1 if low == -math.inf else low + 1 if high == math.inf else (low + high) / 2
        if loss(inside) > 0:
            total += _between(low - shift, high - shift, scale) - math.exp(eps) * _between(low, high, other)
    return total


def _between(low: float, high: float, scale: float) -> float:
    """How likely Laplace noise lies between; far tails keep their digits."""
    if high <= 0:
        return _between(-high, -low, scale)
    if low < 0:
        return _between(0, -low, scale) + _between(0, high, scale)
    return (math.exp(-low / scale) - math.exp(-high / scale)) / 2


def _cauchy(eps: float) -> float:
    """The largest log-ratio of Cauchy densities at s = 3 eps/5, beta = 2 eps/5: a slide at the jump, a dilation elsewhere."""
    return max(2 * math.asinh(3 * eps / 5 / 2), 2 * eps / 5)


# Slide 19: k-means.

POINTS, CLUSTERS, TRIALS = 2000, 4, 20


def kmeans() -> Reproduction:
    """What the slides' noise costs in each round, and how good the centres are."""
    columns, table = _blobs()
    scope = Scope(Unit.row("replace"), n=POINTS)
    rows: list[Row] = []
    every = (1, 3, 5, 10)
    for rounds in every:
        # counts have Lap(2/eps'), sums Lap(4 gamma/eps'), eps' = eps/2: each round costs eps' + eps'/2
        printed = LloydPlan(columns, CLUSTERS, rounds, Fraction(1, 3), scope, Pure(Fraction(3, 4) * rounds))
        rows.append((f"slides as printed, T = {rounds}", 1, _spent(printed), _inertia(printed, table)))
    for rounds in every:
        mended = LloydPlan(columns, CLUSTERS, rounds, Fraction(1, 2), scope, Pure(1))
        rows.append((f"slides corrected, T = {rounds}", 1, _spent(mended), _inertia(mended, table)))
    for method in ("lloyd", "grid"):
        plan = clusters_plan(scope, columns, CLUSTERS, eps=1, method=method)
        rows.append((f'oboro, method="{method}"', 1, _spent(plan), _inertia(plan, table)))
    exact = LloydPlan(columns, CLUSTERS, 10, Fraction(1, 2), scope, Pure(10**6))
    rows.append(("without noise, T = 10", None, None, _inertia(exact, table)))
    return Reproduction(
        "kashima-kmeans",
        f"Slide 19: k-means of {POINTS:,} rows in two columns, {CLUSTERS} clusters, a row replaced",
        ("", "eps as said", "eps spent", "inertia"),
        tuple(rows),
        errors=(
            "eps' = eps/2 is for one round: with T rounds the sanitizer costs T times as much, and needs eps/(2 T).",
            "(Lap(2/eps'))^d: there are k counts, not d. A noisy count may be 0 or less, and is divided by.",
            "Lap(4 gamma/eps') on the sums is twice what they need; so one round costs 3/4 eps, not eps.",
        ),
        notes=(
            "data: four blobs, made up, scaled to [-1, 1]; gamma is the length in the 1-norm, 2; fresh random bits each time",
            f"inertia: the mean squared distance to the nearest centre, mean of {TRIALS} runs; all start from the same public centres",
        ),
        figures=(
            curves_of(
                "eps that T rounds spend, where eps = 1 is said",
                every,
                [
                    ("slides as printed", *(row[2] for row in rows[:4])),
                    ("printed", *(row[1] for row in rows[:4])),
                    ("slides corrected", *(row[2] for row in rows[4:8])),
                ],
                below="T",
                beside="eps",
            ),
            curves_of(
                "mean squared distance to the nearest centre",
                every,
                [
                    ("slides as printed", *(row[3] for row in rows[:4])),
                    ("slides corrected", *(row[3] for row in rows[4:8])),
                    *[(str(row[0]), *[row[3]] * len(every)) for row in rows[8:]],
                ],
                below="T",
                beside="inertia",
                log_y=True,
            ),
        ),
    )


def _spent(plan: Plan) -> float:
    """What its noise costs, by its parts."""
    cost = plan.cost
    assert isinstance(cost, Pure)
    return float(cost.eps)


def _blobs() -> tuple[tuple[Column, ...], dict[str, Floats]]:
    """Four blobs in a square, the same each time."""
    rng = np.random.default_rng(19)
    centres = np.asarray([(-0.6, -0.5), (0.5, -0.6), (-0.4, 0.6), (0.6, 0.5)])
    points = np.clip(centres[rng.integers(0, CLUSTERS, POINTS)] + rng.normal(0, 0.12, (POINTS, 2)), -1, 1)
    columns = tuple(Real(name, -1, 1, Fraction(1, 1024)) for name in ("x", "y"))
    return columns, {column.name: points[:, i] for i, column in enumerate(columns)}


def _inertia(plan: Plan, table: dict[str, Floats]) -> float:
    prepared, bits = plan.prepare(table), system_bits()
    points = np.stack(list(table.values()), axis=1)
    total = 0.0
    for measured in plan.measure(prepared, bits, trials=TRIALS):
        found = plan.publish(measured)
        centres = np.stack([found.column(name).to_numpy() for name in table], axis=1)
        near = nearest(np.rint(points * REACH).astype(np.int64), np.rint(centres * REACH).astype(np.int64))
        total += float(((points - centres[near]) ** 2).sum(axis=1).mean())
    return total / TRIALS


# Slide 21: SVD.

WIDTH, LONG, KEPT = 16, 5000, 3


def svd() -> Reproduction:
    """What Lap(4 gamma²) costs, and how much of the variance the components keep."""
    rows: list[Row] = []
    for name, proved, function, values in (
        ("L1 ball, all entries", 2.0, _moments, _CORNERS),
        ("L1 ball, one triangle", 2.0, _moments_above, _CORNERS),
        ("L2 ball, all entries", 2 * math.sqrt(2), _moments, _ROUND),
        ("L2 ball, one triangle", math.sqrt(5), _moments_above, (*_ROUND, *_TILTED)),
    ):
        moved = sensitivity.of(function, values, 2, ordered=False).largest
        rows.append((f"Lap(4 gamma²), d = 2, {name}", moved, proved, proved / 4, None))
    columns, table = _directions()
    scope = Scope(Unit.row("replace"), n=LONG)
    half, one = Pure(Fraction(1, 2)), Pure(1)
    for label, guarantee, method in (
        ("as printed, but mirrored", half, "slides"),
        ('method="slides", eps = 1', one, "slides"),
        ("Laplace in an L2 ball, eps = 1", one, None),
        ("Gaussian, eps = 1, delta = 1e-6", Approx(1, "1e-6"), None),
    ):
        plan = components_plan(scope, columns, KEPT, radius=1, guarantee=guarantee, method=method)
        rows.append((f"{label}, d = {WIDTH}", None, None, float(guarantee.eps), _kept(plan, table)))
    return Reproduction(
        "kashima-svd",
        f"Slide 21: noise on A A^T; and how much of the best {KEPT} components is kept, {LONG:,} rows",
        ("", "moves, brute force", "proved", "eps", "variance kept"),
        tuple(rows),
        errors=(
            "Lap(4 gamma²) has no eps in it. With lengths in the 1-norm it is 0.5-DP, whatever was promised; in the 2-norm its eps "
            "grows as d sqrt(2)/4.",
            "noise on all d² entries: B is not symmetric, and need not have real eigenvectors. One triangle, mirrored, is enough.",
        ),
        notes=(
            "gamma = 1, a row replaced; brute force over the corners of the L1 ball, or 18 points of the circle",
            f"data: made up, {WIDTH} columns, three strong directions, lengths up to 1; mean of {TRIALS} runs, fresh random bits each time",
        ),
        figures=(
            bars_of(
                "eps of noise without eps in it: d = 2",
                [(str(row[0]).partition("d = 2, ")[2], row[3]) for row in rows[:4]],
                ("Lap(4 gamma²)",),
                below="eps",
            ),
            bars_of(
                f"variance that {KEPT} components lose: d = {WIDTH}",
                [(row[0], 1 - float(row[4] or 0)) for row in rows[4:]],
                ("lost",),
                below="part of the best components' variance",
                log_x=True,
            ),
        ),
    )


def _moments(rows: Rows) -> Floats:
    points = np.asarray(rows, float)
    return np.asarray(points.T @ points)


def _moments_above(rows: Rows) -> Floats:
    return np.asarray(_moments(rows)[np.triu_indices(2)])


def _directions() -> tuple[tuple[Column, ...], dict[str, Floats]]:
    """Rows of length up to 1 that mostly lie in three directions, the same each time."""
    rng = np.random.default_rng(21)
    strong = np.linalg.qr(rng.normal(size=(WIDTH, KEPT)))[0]
    points = rng.normal(size=(LONG, KEPT)) * (0.5, 0.35, 0.25) @ strong.T + rng.normal(0, 0.02, (LONG, WIDTH))
    points /= np.maximum(1, np.linalg.norm(points, axis=1))[:, None]
    columns = tuple(Real(f"x{i}", -1, 1, Fraction(1, 1024)) for i in range(WIDTH))
    return columns, {column.name: points[:, i] for i, column in enumerate(columns)}


def _kept(plan: Plan, table: dict[str, Floats]) -> float:
    """The squared length along the released components, over that along the best."""
    points = np.stack(list(table.values()), axis=1)
    moments = points.T @ points
    best = np.linalg.eigvalsh(moments)[-KEPT:].sum()
    kept = 0.0
    for measured in plan.measure(plan.prepare(table), system_bits(), trials=TRIALS):
        found = plan.publish(measured)
        axes = np.stack([found.column(name).to_numpy() for name in table], axis=1)
        kept += float(np.trace(axes @ moments @ axes.T) / best)
    return kept / TRIALS


REPRODUCTIONS = (
    Reproducible(
        "kashima-sensitivities", "slide 18's sensitivities: printed, proved, by brute force", sensitivities
    ),
    Reproducible("kashima-median", "the median of zeros and ones: LS <= S* <= GS", median),
    Reproducible("kashima-laplace", "why Laplace noise of scale S*/eps is not private", laplace),
    Reproducible("kashima-kmeans", "slide 19's k-means: what each round costs", kmeans),
    Reproducible("kashima-svd", "slide 21's SVD: what noise without eps costs", svd),
)
