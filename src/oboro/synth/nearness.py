"""How close synthetic rows come to real ones, beside how close real rows come to one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.synth.codes import Compared

ASKED = 500  # rows whose nearest neighbour is looked for
AMONG = 20_000  # real rows among which it is looked for
LEAST = 100  # rows of both tables, below which near copies are not looked for
CLOSE = 0.1  # of the median distance of real rows: a row that lies closer to a real one is a near copy


@dataclass(frozen=True, slots=True)
class Nearness:
    """Distance to the nearest real row: the mean over columns of 0 to 1, by range for numbers, equal or not for labels."""

    median: float
    real_median: float
    copies: float  # share of all synthetic rows that equal a real one
    real_copies: float  # share of all real rows that equal another
    single: float  # share of all synthetic rows that equal a real row of which there is one
    real_single: float  # share of all real rows that equal just one other: without themselves there is one
    close: float  # share of synthetic rows that equal no real row and lie very close to one
    real_close: float  # the same of real rows
    distances: tuple[float, ...]
    real_distances: tuple[float, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "median": round(self.median, 6),
            "real_median": round(self.real_median, 6),
            "copies": round(self.copies, 6),
            "real_copies": round(self.real_copies, 6),
            "single": round(self.single, 6),
            "real_single": round(self.real_single, 6),
            "close": round(self.close, 6),
            "real_close": round(self.real_close, 6),
        }


def nearness(columns: Sequence[Compared], rng: np.random.Generator) -> Nearness:
    """Synthetic rows, and as many real rows that are taken out, against the same other real rows."""
    order = rng.permutation(columns[0].real.size)
    asked, among = order[: min(ASKED, order.size // 2)], order[min(ASKED, order.size // 2) :][:AMONG]
    made = rng.permutation(columns[0].synthetic.size)[:ASKED]
    if not among.size or not made.size or not asked.size:
        return Nearness(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (), ())
    base = _scaled(columns, True, among)
    synthetic = _nearest(_scaled(columns, False, made), base, columns)
    real = _nearest(_scaled(columns, True, asked), base, columns)
    # rows that repeat are at 0: how far apart the others are usually is what counts
    usual = float(np.median(real[real > 0])) if real.any() else 0.0
    close, real_close = (float(np.mean((away > 0) & (away < CLOSE * usual))) for away in (synthetic, real))
    return Nearness(
        float(np.median(synthetic)),
        float(np.median(real)),
        *_copies(columns),
        close,
        real_close,
        tuple(synthetic.tolist()),
        tuple(real.tolist()),
    )


def _copies(columns: Sequence[Compared]) -> tuple[float, float, float, float]:
    """Shares of copies, as `Nearness` has them: of all rows, none is left out."""
    real, made = (_hashes(columns, which) for which in (True, False))
    rows, where, count = np.unique(real, return_inverse=True, return_counts=True)
    place = np.minimum(np.searchsorted(rows, made), rows.size - 1)
    same = rows[place] == made
    return (
        float(same.mean()),
        float((count[where] > 1).mean()),
        float((same & (count[place] == 1)).mean()),
        float((count[where] == 2).mean()),
    )


def _hashes(columns: Sequence[Compared], real: bool) -> Integers:
    """64 bits for each row, equal where rows are."""
    mixed = np.zeros((columns[0].real if real else columns[0].synthetic).size, np.uint64)
    for column in columns:
        values = np.nan_to_num(column.real if real else column.synthetic, nan=-1.7e308) + 0.0  # -0 is 0
        mixed = (mixed ^ values.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def _scaled(columns: Sequence[Compared], real: bool, rows: Integers) -> Floats:
    table = []
    for column in columns:
        values = (column.real if real else column.synthetic)[rows]
        if column.numeric:
            known = column.real[~np.isnan(column.real)]
            half = float(known.max() / 2 - known.min() / 2) if known.size else 0.5  # never overflows
            with np.errstate(over="ignore"):  # a value far beyond all real ones
                values = np.clip(values / 2 / (half or 0.5), -1e300, 1e300)
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
