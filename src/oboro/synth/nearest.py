"""How close synthetic rows come to real ones, beside how close real rows come to one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.synth.reading import Compared

ASKED = 500  # rows whose nearest neighbour is looked for
AMONG = 20_000  # real rows among which it is looked for


@dataclass(frozen=True, slots=True)
class Nearness:
    """Distance to the nearest real row: the mean over columns of 0 to 1, by range for numbers, equal or not for labels."""

    median: float
    real_median: float
    copies: float  # share of synthetic rows that equal a real one
    real_copies: float  # share of real rows that equal another
    distances: tuple[float, ...]
    real_distances: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "median": round(self.median, 6),
            "real_median": round(self.real_median, 6),
            "copies": round(self.copies, 6),
            "real_copies": round(self.real_copies, 6),
        }


def nearness(columns: Sequence[Compared], rng: np.random.Generator) -> Nearness:
    """Synthetic rows, and as many real rows that are taken out, against the same other real rows."""
    order = rng.permutation(columns[0].real.size)
    asked, among = order[: min(ASKED, order.size // 2)], order[min(ASKED, order.size // 2) :][:AMONG]
    made = rng.permutation(columns[0].synthetic.size)[:ASKED]
    if not among.size or not made.size or not asked.size:
        return Nearness(0.0, 0.0, 0.0, 0.0, (), ())
    base = _scaled(columns, True, among)
    synthetic = _nearest(_scaled(columns, False, made), base, columns)
    real = _nearest(_scaled(columns, True, asked), base, columns)
    return Nearness(
        float(np.median(synthetic)),
        float(np.median(real)),
        float(np.mean(synthetic < 1e-9)),
        float(np.mean(real < 1e-9)),
        tuple(synthetic.tolist()),
        tuple(real.tolist()),
    )


def _scaled(columns: Sequence[Compared], real: bool, rows: Any) -> Floats:
    table = []
    for column in columns:
        values = (column.real if real else column.synthetic)[rows]
        if column.numeric:
            known = column.real[~np.isnan(column.real)]
            width = float(known.max() - known.min()) if known.size else 1.0
            values = values / (width or 1.0)
        table.append(np.nan_to_num(values, nan=-9.0))  # missing is near missing only
    return np.stack(table)


def _nearest(rows: Floats, base: Floats, columns: Sequence[Compared]) -> Floats:
    best = np.empty(rows.shape[1])
    for i in range(rows.shape[1]):
        total = np.zeros(base.shape[1])
        for j, column in enumerate(columns):
            away = np.abs(base[j] - rows[j, i])
            total += np.minimum(away, 1.0) if column.numeric else away > 0
        best[i] = total.min() / len(columns)
    return best
