"""How good synthetic records are, measured against the real ones. This touches real data: for the steward's eyes only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.exact import about, whole
from oboro.language import left
from oboro.synth.learning import Usefulness, usefulness
from oboro.synth.nearest import Nearness, nearness
from oboro.synth.reading import Compared, read_both

SEEN = "touches real data and is not private: for the steward's eyes only"


@dataclass(frozen=True, slots=True)
class Quality:
    """Distances between the real and the synthetic table. Everything in it is about real data."""

    rows: int
    synthetic_rows: int
    columns: tuple[Compared, ...] = field(repr=False)
    one_way: tuple[float, ...]  # total variation of each column
    two_way: Floats = field(repr=False)  # of each pair
    correlation: Floats = field(repr=False)  # real, among numbers and columns of two labels
    synthetic_correlation: Floats = field(repr=False)
    correlated: tuple[str, ...]
    useful: Usefulness | None
    near: Nearness

    @property
    def mean_one_way(self) -> float:
        return float(np.mean(self.one_way))

    @property
    def mean_two_way(self) -> float:
        above = self.two_way[np.triu_indices(len(self.columns), 1)]
        return float(above.mean()) if above.size else 0.0

    @property
    def correlation_error(self) -> float:
        above = np.triu_indices(len(self.correlated), 1)
        return (
            float(np.abs(self.correlation - self.synthetic_correlation)[above].mean())
            if above[0].size
            else 0.0
        )

    @property
    def verdict(self) -> str:
        """One line."""
        close = "close" if self.mean_two_way <= 0.05 else "fair" if self.mean_two_way <= 0.15 else "far"
        told = {
            "close": "The synthetic table behaves like the real one",
            "fair": "The synthetic table keeps the main features of the real one",
            "far": "The synthetic table differs a lot from the real one",
        }[close]
        parts = [f"columns differ by {self.mean_one_way:.1%}", f"pairs by {self.mean_two_way:.1%}"]
        if self.useful is not None:
            parts.append(
                f"a classifier trained on it reaches an AUC of {self.useful.synthetic:.3f} ({self.useful.real:.3f} on real data)"
            )
        return f"{told}: {', '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        return {
            "private": True,
            "note": SEEN,
            "verdict": self.verdict,
            "rows": self.rows,
            "synthetic_rows": self.synthetic_rows,
            "one_way": {
                column.name: round(tv, 6) for column, tv in zip(self.columns, self.one_way, strict=True)
            },
            "mean_one_way": round(self.mean_one_way, 6),
            "mean_two_way": round(self.mean_two_way, 6),
            "correlation_error": round(self.correlation_error, 6),
            "useful": None if self.useful is None else self.useful.to_dict(),
            "near": self.near.to_dict(),
        }

    def __str__(self) -> str:
        lines = [f"INTERNAL: {SEEN}", "", self.verdict, ""]
        lines.append(f"  real rows              {self.rows:,}")
        lines.append(f"  synthetic rows         {self.synthetic_rows:,}")
        lines.append(
            f"  one-way distance       {about(self.mean_one_way)} on average, {about(max(self.one_way))} at most"
        )
        lines.append(
            f"  two-way distance       {about(self.mean_two_way)} on average, {about(float(self.two_way.max()))} at most"
        )
        lines.append(f"  correlation error      {about(self.correlation_error)} on average")
        if self.useful is not None:
            lines.append(
                f"  AUC for {left(self.useful.target, 14)} {self.useful.synthetic:.3f} trained on synthetic, {self.useful.real:.3f} on real rows"
            )
        lines.append(
            f"  copies of real rows    {self.near.copies:.2%} of synthetic rows; {self.near.real_copies:.2%} among real rows themselves"
        )
        lines.append(
            f"  nearest real row       {about(self.near.median)} away (median); {about(self.near.real_median)} among real rows themselves"
        )
        return "\n".join(lines)

    __repr__ = __str__


def quality(data: Any, synthetic: Any, *, target: str | None = None, seed: int = 0) -> Quality:
    """Measures how much `synthetic` resembles `data`. Touches real data, and says so: do not publish what it returns.

    Distances are total variation: the share of records that would have to change. Numbers are compared in 20 bins that hold equally many
    real rows. `target` is the column that a classifier learns to tell, by default the last column of two labels; it needs scikit-learn.
    """
    columns = read_both(data, synthetic)
    pairs = np.zeros((len(columns), len(columns)))
    for i, j in combinations(range(len(columns)), 2):
        pairs[i, j] = pairs[j, i] = _pair_distance(columns[i], columns[j])
    used = [column for column in columns if column.numeric or column.size <= 3]
    rng = np.random.default_rng(whole("seed", seed, least=0))
    return Quality(
        columns[0].real.size,
        columns[0].synthetic.size,
        tuple(columns),
        tuple(_distance(column.real_bins, column.synthetic_bins, column.size) for column in columns),
        pairs,
        _correlations([column.real for column in used]),
        _correlations([column.synthetic for column in used]),
        tuple(column.name for column in used),
        usefulness(columns, target, rng),
        nearness(columns, rng),
    )


def _distance(one: Any, two: Any, size: int) -> float:
    shares = [np.bincount(bins, minlength=size) / max(bins.size, 1) for bins in (one, two)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _pair_distance(one: Compared, two: Compared) -> float:
    real = one.real_bins * two.size + two.real_bins
    made = one.synthetic_bins * two.size + two.synthetic_bins
    return _distance(real, made, one.size * two.size)


def _correlations(columns: Sequence[Floats]) -> Floats:
    """Of the rows where both are known; 0 where one of them does not vary."""
    count = len(columns)
    out = np.eye(count)
    for i, j in combinations(range(count), 2):
        known = ~(np.isnan(columns[i]) | np.isnan(columns[j]))
        one, two = columns[i][known], columns[j][known]
        if one.size > 1 and one.std() > 0 and two.std() > 0:
            out[i, j] = out[j, i] = float(np.corrcoef(one, two)[0, 1])
    return out
