"""Measurements and releases of any shape as rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from oboro.arrays import Floats


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


def released(tables: list[Any]) -> Floats:
    """The tables of many releases as a row of numbers each: first how long it is, then its cells."""
    rows = [_numbers(table) for table in tables]
    wide = np.zeros((len(rows), max(len(row) for row in rows)))
    for place, row in enumerate(rows):
        wide[place, : len(row)] = row
    return wide


def _numbers(table: Any) -> list[float]:
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
