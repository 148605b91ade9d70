"""Reading a signal: whatever it holds becomes finite numbers, by one rule for every sample.

The rule
    A sample that is missing, not a number or infinite is read as 0. One beyond the public limit counts as the
    limit. The promise is about signals as they are read. Clamping never moves two signals further apart, in
    any norm.
How many samples there are, and of how many inputs, is public, and refused if it does not fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.arrays import Floats, Table
from oboro.dynamics import mixing_variable
from oboro.dynamics.sigma import floats_of
from oboro.dynamics.system import Matrix, Operator, row_norms
from oboro.errors import DataError, setting, told
from oboro.exact import about, show
from oboro.noise.laplace import check_level
from oboro.release import Forecast, Pair

if TYPE_CHECKING:
    from oboro.dynamics.plan import SignalPlan


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A start x0 (n) and an input u (samples x m), finite and within the limit."""

    x0: Floats
    u: Floats


def read_record(
    data: object, *, states: int, inputs: int, most: int, columns: tuple[str, ...], limit: float
) -> Record:
    """The record in `data`: a mapping with "u" and "x0", an input alone, or a table with the columns of the input."""
    x0, u = None, data
    if isinstance(data, Mapping) and "u" in data:
        x0, u = data.get("x0"), data["u"]
    elif _is_table(data):
        u = from_table(data, columns)
    samples = numbers(u, inputs)
    if samples.ndim == 1:
        samples = samples.reshape(-1, 1) if inputs == 1 else samples.reshape(1, -1)
    if samples.ndim != 2 or samples.shape[1] != inputs:
        raise DataError(
            "the input does not fit the system",
            given=f"an array of shape {samples.shape}",
            needed=f"samples x {inputs}",
            fix="u.reshape(-1, 1)" if inputs == 1 else f"u.reshape(-1, {inputs})",
        )
    if not 1 <= len(samples) <= most:
        raise DataError(
            "the input is longer than the plan's horizon" if len(samples) else "the input has no samples",
            given=f"{len(samples)} samples",
            needed=f"1 to {most}: times 0 to the horizon",
            fix=told(horizon=f"{len(samples) - 1}") if len(samples) else "a signal of one sample at least",
        )
    start = np.zeros(states) if x0 is None else numbers(x0).ravel()
    check_start(start.size, states)
    return Record(cleaned(start, limit), cleaned(samples, limit))


def check_start(size: int, states: int) -> None:
    """Refuses a start of another number of states than the system has."""
    if size != states:
        raise DataError(
            "x0 does not fit the system",
            given=f"{size} numbers",
            needed=f"{states}, one for each state",
            fix=setting(x0=None),
        )


def cleaned(values: Floats, limit: float) -> Floats:
    """The rule."""
    return np.clip(np.where(np.isfinite(values), values, 0.0), -limit, limit)


def numbers(given: Any, width: int = 1) -> Floats:
    """Floats, with nan for what is no number; never complains about a value, nor lets one decide how another is read.

    An array of numbers is taken as it is. Anything else is read sample by sample, as many as there are entries: a sample
    is a number, or `width` of them, and one that is neither is nan throughout.
    """
    kind = getattr(given, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        with np.errstate(all="ignore"):  # a number may be beyond doubles
            return np.array(given, np.float64)
    try:
        values = list(given)
    except TypeError:  # one number, or what stands in its place
        values = None
    if values is None or isinstance(given, str | bytes):
        return np.array(_number(given))
    with warnings.catch_warnings():  # of numbers with an imaginary part
        warnings.simplefilter("ignore")
        samples = [_sample(one, width) for one in values]
    return np.array(samples, np.float64).reshape(len(samples), width)


def one_sample(given: object, width: int) -> Floats:
    """The numbers of one sample, by the same rule: what is no array of numbers, nor `width` of them, is nan throughout."""
    kind = getattr(given, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return numbers(given).ravel()
    if isinstance(kind, np.dtype):  # objects
        given = list(np.asarray(given).ravel())
    with warnings.catch_warnings():  # of numbers with an imaginary part
        warnings.simplefilter("ignore")
        return np.array(_sample(given, width), np.float64)


def _sample(given: Any, width: int) -> list[float]:
    if _is_one(given):
        several = [given] if width == 1 else []
    else:
        several = list(given) if len(given) == width else []
    return [_number(one) for one in several] if len(several) == width else [float("nan")] * width


def _is_one(given: object) -> bool:
    return not isinstance(given, list | tuple) and not (isinstance(given, np.ndarray) and given.ndim)


def _number(given: Any) -> float:
    try:
        return float(given)
    except Exception:  # whatever an object in the data may do when it is asked for its number
        return float("nan")


def _is_table(data: object) -> bool:
    module = type(data).__module__.partition(".")[0]
    return isinstance(data, str | Path | Mapping) or (
        module in ("pandas", "polars", "pyarrow", "duckdb", "_duckdb", "oboro")
        and type(data).__name__ != "Series"
    )


def from_table(data: object, columns: tuple[str, ...]) -> Floats:
    """The columns of the input, in the order of the rows; text that is no number becomes nan."""
    from oboro.engine import open_data
    from oboro.engine.protocol import in_order

    return in_order(open_data(data)).doubles(columns)


# How far off a published output will be: medians and bands, because heavy tails have no variance.
#
# where="output": every output has the noise itself, of scale sqrt(sigma_ii) if its shape is sigma. where="input": the error of an output is a sum of noise
# over the row of M that belongs to it. Independent stable noise of scale s sums to stable noise of scale s (sum
# |M_ij|^alpha)^(1/alpha); with one A for the record the sum is s sqrt(A) times a normal number of variance sum
# M_ij^2. Both are exact.


def error_scales(plan: SignalPlan) -> Floats:
    """The scale of the stable error of each output at each time."""
    if plan.sigma:
        diagonal = np.sqrt([float(plan.sigma[i][i]) for i in range(len(plan.sigma))])
        return diagonal.reshape(plan.horizon + 1, plan.system.outputs)
    if plan.where == "output":
        return np.full((plan.horizon + 1, plan.system.outputs), float(plan.scale))
    power = float(plan.alpha) if plan.noise == "independent" else 2.0
    return float(plan.scale) * row_norms(plan.system, plan.horizon, plan.protect, power)


def error_sizes(plan: SignalPlan, level: float) -> Floats:
    """The size that the error stays within with probability `level`."""
    return plan.error_scales * mixing_variable.size(float(plan.alpha), check_level(level))


def forecast_of(plan: SignalPlan, expected_sd: Fraction | None = None) -> Forecast:
    """The median error and the 95% band at a few times; what that means for an output that varies so much."""
    scales = plan.error_scales
    alpha = float(plan.alpha)
    median, wide = mixing_variable.size(alpha, 0.5), mixing_variable.size(alpha, 0.95)
    several = plan.system.outputs > 1
    rows = [
        (f"{t}, output {j + 1}" if several else str(t), median * scales[t, j], wide * scales[t, j])
        for t in _times(plan.horizon)
        for j in range(plan.system.outputs)
    ]
    size = "of shape sigma" if plan.sigma else f"of scale {float(plan.scale):.6g}"
    notes = [f"noise {size} on {plan.dims:,} numbers, calibrated by {plan.method!r}"]
    if alpha < 2:
        notes.append(
            "heavy tails: there is no variance"
            + (", and no mean" if alpha <= 1 else "")
            + "; now and then an error is much larger"
        )
    if plan.noise != "independent" and alpha < 2:
        notes.append("all errors of a record share one scale: a record is good or bad as a whole")
    if plan.where == "input" and plan.system.radius >= 1:
        notes.append("the system is not stable: its response to the noise grows without end")
    if expected_sd is None:
        notes.append(
            "with expected_sd, how far the output varies, it says what single samples will be good for"
        )
    else:
        notes += _worth(plan, expected_sd)
    return Forecast(
        "expected error of the output over time",
        ("time", "median |error|", "95% within ±"),
        tuple(rows),
        tuple(notes),
    )


def _worth(plan: SignalPlan, expected_sd: Fraction) -> list[str]:
    """How well single samples follow the truth, and how far off means are: from public facts and the guess alone."""
    alpha, scale = float(plan.alpha), float(np.median(plan.error_scales[:, 0]))
    found = rank_correlation(alpha, scale / float(expected_sd))
    notes = [
        f"of an output with a standard deviation of {show(expected_sd)}, single samples follow the truth with a rank "
        f"correlation of {found:.2f}" + ("" if found >= _FOLLOWS else ": too little to read them one by one")
    ]
    wide = mixing_variable.size(alpha, 0.95)
    lengths = [length for length in (2, 10, 24, 100, 168, 1000, 8760) if length <= plan.horizon + 1]
    return notes + [
        f"means of {length:,} samples in a row: 95% within ±{about(wide * mean_scale(plan, length), 4)}"
        for length in lengths[-4:]
    ]


_FOLLOWS = 0.8  # a rank correlation from which on a reader sees the same hills in both


def mean_scale(plan: SignalPlan, length: int) -> float:
    """The scale of the error of the mean of the last samples of the first output. Exact, as `error_scales` is."""
    weights = np.zeros((plan.horizon + 1, plan.system.outputs))
    weights[plan.horizon + 1 - length :, 0] = 1 / length
    power = float(plan.alpha) if plan.noise == "independent" else 2.0
    if plan.sigma:
        flat = weights.ravel()
        return float(np.sqrt(flat @ floats_of(plan.sigma) @ flat))
    if plan.where == "input":
        weights = Operator(plan.system, plan.horizon, plan.protect).adjoint(weights)
    return float(plan.scale) * float((np.abs(weights) ** power).sum() ** (1 / power))


def rank_correlation(alpha: float, scale: float, points: int = 400) -> float:
    """Of a normal number of standard deviation 1 and the same number with stable noise of this scale.

    Of all pairs of their quantiles. Ranks, because under heavy tails the plain correlation is 0 in the long run.
    """
    levels = (np.arange(points) + 0.5) / points
    number = np.array([NormalDist().inv_cdf(level) for level in levels])
    half = np.array(
        [mixing_variable.size(alpha, level) for level in (np.arange(points // 2) + 0.5) / (points // 2)]
    )
    noisy = (number[:, None] + scale * np.concatenate([-half[::-1], half])).ravel()
    ranks = np.empty(noisy.size)
    ranks[np.argsort(noisy, kind="stable")] = np.arange(noisy.size)
    return float(np.corrcoef(ranks.reshape(points, -1).mean(axis=1), np.arange(points))[0, 1]) * float(
        np.std(ranks.reshape(points, -1).mean(axis=1)) / np.std(ranks)
    )


def interval_columns(plan: SignalPlan, table: Table, level: float) -> tuple[Floats, Floats]:
    sizes = error_sizes(plan, level)
    t = table.column("t").to_numpy()
    channel = (
        table.column("output").to_numpy() - 1 if "output" in table.column_names else np.zeros(len(t), int)
    )
    y = table.column("y").to_numpy()
    return y - sizes[t, channel], y + sizes[t, channel]


def _times(horizon: int) -> list[int]:
    """0, 1, 2, 5, 10, ... and the last."""
    times = {0, horizon}
    size = 1
    while size <= horizon:
        times |= {size * k for k in (1, 2, 5) if size * k <= horizon}
        size *= 10
    return sorted(times)


# Worst-case neighbours of a plan, for the audit.


def worst_pairs(plan: SignalPlan) -> Iterator[Pair]:
    operator = Operator(plan.system, plan.horizon, plan.protect)
    count = operator.coordinates
    distance = float(plan.unit.distance or 0)
    power = np.inf if plan.unit.norm is None else float(plan.unit.norm)

    def pair(direction: Floats, why: str) -> Pair:
        size = (
            np.abs(direction).max() if power == np.inf else (np.abs(direction) ** power).sum() ** (1 / power)
        )
        change = direction * (distance / size) * (1 - 1e-12)  # neighbours beyond doubt
        return Pair(_data(plan, operator, 0 * change), _data(plan, operator, change), why)

    first = np.zeros(count)
    first[0] = 1.0
    if plan.where == "input":
        yield pair(first, "all of the change in one number")
        if count > 1 and (plan.noise == "independent" or power > 2):
            spread = (
                np.ones(count) if power > 2 else np.r_[np.ones(min(count, 20)), np.zeros(max(count - 20, 0))]
            )
            yield pair(spread, "the change spread over many numbers")
        return
    direction = _largest(operator) if not plan.sigma else _largest_in(operator, plan.sigma)
    yield pair(direction, "the change that the system amplifies most")


def _largest(operator: Operator) -> Floats:
    """The right singular vector of the largest gain, about: the power iteration."""
    vector = np.linspace(1.0, 1.1, operator.coordinates)
    for _ in range(200):
        vector = operator.adjoint(operator @ vector)
        size = np.linalg.norm(vector)
        if not size > 0:
            return np.linspace(1.0, 1.1, operator.coordinates)
        vector /= size
    return vector


def _largest_in(operator: Operator, sigma: Matrix) -> Floats:
    """The same in the norm of sigma^-1: the right singular vector of L^-1 M."""
    root = np.linalg.cholesky(floats_of(sigma))
    return np.asarray(np.linalg.svd(np.linalg.solve(root, operator.dense()))[2][0])


def _data(plan: SignalPlan, operator: Operator, values: Floats) -> dict[str, object]:
    x0, u = operator.split(values)
    return {"u": u, "x0": x0}


def random_pair(plan: SignalPlan, random: np.random.Generator) -> Pair:
    """A random record, and one as far from it as neighbours may be, in a random direction."""
    operator = Operator(plan.system, plan.horizon, plan.protect)
    distance = float(plan.unit.distance or 0)
    power = np.inf if plan.unit.norm is None else float(plan.unit.norm)
    base = random.normal(size=operator.coordinates) * distance
    direction = random.normal(size=operator.coordinates) * (random.random(operator.coordinates) < 0.7)
    direction[int(random.integers(0, direction.size))] += 1.0
    size = np.linalg.norm(direction, ord=power)
    change = direction * (distance / size) * (1 - 1e-9)  # neighbours beyond doubt, rounding included
    one, other = (
        dict(zip(("x0", "u"), operator.split(values), strict=True)) for values in (base, base + change)
    )
    return Pair(one, other, "a random signal, moved in a random direction")
