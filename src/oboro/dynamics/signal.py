"""Reading a signal: whatever it holds becomes finite numbers, by one rule for every sample.

The rule
    A sample that is missing, not a number or infinite is read as 0. One beyond the public limit counts as the
    limit. The promise is about signals as they are read. Clamping never moves two signals further apart, in
    any norm.
How many samples there are, and of how many inputs, is public, and refused if it does not fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.errors import DataError, setting, told


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A start x0 (n) and an input u (samples x m), finite and within the limit."""

    x0: Floats
    u: Floats


def read_record(
    data: Any, *, states: int, inputs: int, most: int, columns: tuple[str, ...], limit: float
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
            fix=told(horizon=f"{max(len(samples) - 1, 0)}"),
        )
    start = np.zeros(states) if x0 is None else numbers(x0).ravel()
    if start.shape != (states,):
        raise DataError(
            "x0 does not fit the system",
            given=f"{start.size} numbers",
            needed=f"{states}, one for each state",
            fix=setting(x0=None),
        )
    return Record(cleaned(start, limit), cleaned(samples, limit))


def cleaned(values: Floats, limit: float) -> Floats:
    """The rule."""
    return np.clip(np.where(np.isfinite(values), values, 0.0), -limit, limit)


def numbers(given: Any, width: int = 1) -> Floats:
    """Floats, with nan for what is no number; never complains about a value, nor lets one decide how another is read.

    An array of numbers is taken as it is. Anything else is read sample by sample: a sample is a number, or `width` of
    them, and one that is neither is nan throughout. (A list of `width` numbers is one sample.)
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
    if width > 1 and len(values) == width and all(map(_is_one, values)):
        values = [values]
    with warnings.catch_warnings():  # of numbers with an imaginary part
        warnings.simplefilter("ignore")
        samples = [_sample(one, width) for one in values]
    return np.array(samples, np.float64).reshape(len(samples), width)


def _sample(given: Any, width: int) -> list[float]:
    if _is_one(given):
        several = [given] if width == 1 else []
    else:
        several = list(given) if len(given) == width else []
    return [_number(one) for one in several] if len(several) == width else [float("nan")] * width


def _is_one(given: Any) -> bool:
    return not isinstance(given, list | tuple) and not (isinstance(given, np.ndarray) and given.ndim)


def _number(given: Any) -> float:
    try:
        return float(given)
    except Exception:  # whatever an object in the data may do when it is asked for its number
        return float("nan")


def _is_table(data: Any) -> bool:
    module = type(data).__module__.partition(".")[0]
    return isinstance(data, str | Path | Mapping) or (
        module in ("pandas", "polars", "pyarrow", "duckdb", "_duckdb", "oboro")
        and type(data).__name__ != "Series"
    )


def from_table(data: Any, columns: tuple[str, ...]) -> Floats:
    """The columns of the input, in the order of the rows; text that is no number becomes nan."""
    from oboro.engine import open_data
    from oboro.engine.coding import doubles

    return doubles(open_data(data), columns)
