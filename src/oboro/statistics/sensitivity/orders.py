"""Sensitivities of order statistics and trimmed means, under replacement of one value.

What these functions return depends on the data and is private: they are for study. Releases use the same
numbers without showing them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, whole
from oboro.kinds import list_of, takes
from oboro.statistics.decay import Decaying
from oboro.statistics.sensitivity.windows import Sorted, widest

_DECIMALS = 15
_LARGEST = 2**61  # of a value on its grid: differences still fit into 64 bits


def local_order_statistic(values: npt.ArrayLike, rank: int, bounds: Sequence[Number]) -> float:
    """How far replacing one value moves the value of this rank (1 is the smallest), for these very data."""
    data, step = on_grid(values, bounds)
    rank = whole("rank", rank, least=1, most=data.n)
    here = data.at(rank)
    return float(step * max(data.at(rank + 1) - here, here - data.at(rank - 1)))


def smooth_order_statistic(values: npt.ArrayLike, rank: int, bounds: Sequence[Number], beta: Number) -> float:
    """The beta-smooth sensitivity of the value of this rank: max over k of e^(-beta k) times the largest local
    sensitivity after k replacements.

    >>> smooth_order_statistic([1, 2, 3, 4, 100], 3, (0, 100), 1)
    35.68430579364...
    """
    data, step = on_grid(values, bounds)
    return float(order_statistic(data, whole("rank", rank, least=1, most=data.n), beta).times(step))


def smooth_trimmed_mean(values: npt.ArrayLike, trim: int, bounds: Sequence[Number], beta: Number) -> float:
    """The beta-smooth sensitivity of the mean without the `trim` smallest and the `trim` largest values."""
    data, step = on_grid(values, bounds)
    return float(trimmed_mean(data, trim, beta).times(step))


def order_statistic(data: Sorted, rank: int, beta: Number) -> Decaying:
    """max over i <= rank <= j of (x_j - x_i) e^(-beta (j-i-1)), in steps of the grid.

    After k replacements the value of this rank can be pushed anywhere between x_(rank-k) and x_(rank+k), and one more
    replacement moves it across a window of k + 1 gaps that holds the rank [Nissim, Raskhodnikova, Smith 2007].
    """
    return widest(data, rank, rank, positive("beta", beta))


def trimmed_mean(data: Sorted, trim: int, beta: Number) -> Decaying:
    """max of (x_(n-m+b) - x_(m+1-a)) e^(-beta (a+b-1)) / (n - 2m) over a + b >= 1, in steps of the grid.

    One replacement moves the kept sum by at most the range of the values that are, or could be, kept; k earlier
    ones widen that range by a places at one end and b at the other, a + b = k + 1.
    """
    trim = whole("trim", trim, least=0, most=max(0, (data.n - 1) // 2))
    kept = data.n - 2 * trim
    return widest(data, trim + 1, data.n - trim, positive("beta", beta)).times(Fraction(1, kept))


@takes(bounds=list_of)
def on_grid(values: npt.ArrayLike, bounds: Sequence[Number]) -> tuple[Sorted, Fraction]:
    """Values clamped to their bounds, as whole numbers of a common step, sorted; and the step."""
    if len(bounds) != 2:
        raise ParameterError(
            "bounds are two numbers", given=f"{len(bounds)} of them", fix=setting(bounds=(0, 10))
        )
    low, high = (rational("bounds", bound) for bound in bounds)
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if high < low or array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biuf":
        raise ParameterError(
            "values and bounds do not fit",
            given=f"{array.dtype} values of shape {array.shape}, " + told(bounds=f"{tuple(bounds)}"),
            needed="numbers in one row, at least one, and bounds from the lowest to the highest",
            fix="smooth_order_statistic([1, 2, 3], 2, (0, 10), beta=1)",
        )
    scale = math.lcm(low.denominator, high.denominator)
    if array.dtype.kind == "f":
        scale = math.lcm(scale, _decimal_scale(array))
    top = int(max(abs(low), abs(high)) * scale)
    if max(top, scale) > _LARGEST:
        raise _no_grid()
    if array.dtype.kind == "f":
        scaled = np.rint(np.clip(array, float(low), float(high)) * scale).astype(np.int64)
    else:
        scaled = np.clip(array, math.floor(low), math.ceil(high)).astype(np.int64) * scale
    ends = int(low * scale), int(high * scale)
    return Sorted.of(np.clip(scaled, *ends), *ends), Fraction(1, scale)


def _decimal_scale(array: npt.NDArray[Any]) -> int:
    """The smallest power of ten that makes every float a whole number: a float is the shortest decimal that prints it."""
    finite = array[np.isfinite(array)].astype(np.float64)
    if finite.size < array.size:
        raise _no_grid()
    for places in range(_DECIMALS + 1):
        scale: int = 10**places
        whole_numbers = np.rint(finite * scale)
        # division rounds to the nearest double, so equality says: this decimal is read as that double
        if np.all(np.abs(whole_numbers) < 2.0**53) and np.array_equal(whole_numbers / scale, finite):
            return scale
    raise _no_grid()


def _no_grid() -> ParameterError:
    return ParameterError(
        "the values lie on no common grid",
        given="floats with too many digits, or not finite",
        needed="whole numbers, or decimals with a common number of places",
        fix="np.round(values, 6)",
    )
