"""How far apart two tables are, and how much of that chance alone would make: distances, correlations, means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.language import plain
from oboro.synth.codes import Compared


def distance_of(one: Integers, two: Integers, size: int) -> tuple[float, float, float]:
    """How far apart two tables are, how far they would be if chance alone had drawn both from one law, and the spread of that.

    Of t rows in a cell of both tables a binomial number is then in the first one, whose mean deviation de Moivre knew.
    """
    from scipy.special import gammaln

    counts = [np.bincount(bins, minlength=size) for bins in (one, two)]
    n, m = (max(bins.size, 1) for bins in (one, two))
    share, (t, cells) = n / (n + m), np.unique(counts[0] + counts[1], return_counts=True)
    k = np.floor(t * share) + 1
    ways = gammaln(t + 1) - gammaln(k + 1) - gammaln(t - k + 1)
    deviation = 2 * k * np.exp(ways + k * np.log(share) + (t - k + 1) * np.log1p(-share))
    by_chance = float(cells[t > 0] @ deviation[t > 0]) * (1 / n + 1 / m) / 2
    used = int(cells[t > 0].sum())
    variance = float(cells @ np.maximum(t * share * (1 - share) - np.where(t > 0, deviation, 0.0) ** 2, 0.0))
    # rows that one cell lacks are in others; and of few cells the law has a longer tail than the normal one, hence a fifth more
    spread = 1.2 * (variance * used / max(used - 1, 1)) ** 0.5 * (1 / n + 1 / m) / 2 if used > 1 else 0.0
    return float(np.abs(counts[0] / n - counts[1] / m).sum() / 2), by_chance, spread


def pair_distance(one: Compared, two: Compared) -> tuple[float, float, float]:
    real = one.real_bins * two.size + two.real_bins
    made = one.synthetic_bins * two.size + two.synthetic_bins
    return distance_of(real, made, one.size * two.size)


def most_errors(count: int) -> float:
    """How many standard errors the largest of so many figures is off by chance, one time in a hundred at most."""
    from scipy.special import ndtri

    return float(-ndtri(0.005 / max(count, 1)))


def beyond_chance(distances: object, chance: object) -> Floats:
    """What is left of distances without what chance adds to them: the squares of independent errors add up."""
    squares = np.square(np.asarray(distances, np.float64)) - np.square(np.asarray(chance, np.float64))
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def correlations(columns: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Of the rows where both are known, and their standard errors; nan where one of them does not vary among these.

    The errors are by the jackknife: a correlation that hangs on a few rows of huge numbers has a large one.
    """
    count = len(columns)
    out, errors = np.eye(count), np.zeros((count, count))
    for i, j in combinations(range(count), 2):
        known = ~(np.isnan(columns[i]) | np.isnan(columns[j]))
        one, two = unit_length(columns[i][known]), unit_length(columns[j][known])
        varied = one.any() and two.any()
        out[i, j] = out[j, i] = value = float(np.clip(one @ two, -1, 1)) if varied else np.nan
        errors[i, j] = errors[j, i] = _jackknife(value, one, two)
    return out, errors


def _jackknife(value: float, one: Floats, two: Floats) -> float:
    """The standard error of a correlation of two columns of mean 0 and length 1, from what it is without each of the rows."""
    factor = one.size / max(one.size - 1, 1)
    left = np.maximum(1 - factor * one**2, 0.0) * np.maximum(1 - factor * two**2, 0.0)
    varied = left > 1e-24  # without this row neither is constant
    without = np.where(varied, (value - factor * one * two) / np.sqrt(np.where(varied, left, 1.0)), 0.0)
    return float(np.sqrt(np.square(without - without.mean()).sum() / factor)) if one.size else 0.0


def unit_length(values: Floats) -> Floats:
    """What is known of a column, moved to mean 0 and scaled to length 1 without overflow; all 0 where it does not vary."""
    values = values[~np.isnan(values)]
    for _ in range(2):  # small differences between large numbers are scaled once more
        values = values / (np.abs(values).max(initial=0) or 1.0)
        values = values - (values.mean() if values.size else 0.0)
    return values / (float(np.linalg.norm(values)) or 1.0)


@dataclass(frozen=True, slots=True)
class Changed:
    """Two columns whose correlation is another than in the real table."""

    names: tuple[str, str]
    real: float
    synthetic: float

    @property
    def distance(self) -> float:
        return abs(self.real - self.synthetic)

    def to_dict(self) -> dict[str, object]:
        return {
            "columns": list(self.names),
            "real": round(self.real, 6),
            "synthetic": round(self.synthetic, 6),
        }

    def __str__(self) -> str:
        names = " × ".join(map(plain, self.names))
        return f"{names} is {self.synthetic:.3f}, and {self.real:.3f} among real rows"


@dataclass(frozen=True, slots=True)
class Moved:
    """A column of numbers or days whose mean is off."""

    name: str
    real: float
    synthetic: float
    beyond: float  # in standard deviations, as `_moved` has them
    told: str

    def to_dict(self) -> dict[str, object]:
        return {
            "column": self.name,
            "real": self.real,
            "synthetic": self.synthetic,
            "by": round(self.beyond, 6),
        }

    def __str__(self) -> str:
        return self.told


def worst_mean(columns: Sequence[Compared]) -> Moved | None:
    """The column whose mean is farthest off, beyond chance."""
    numbers = [column for column in columns if column.numeric]
    found = [moved for column in numbers if (moved := _moved(column, most_errors(len(numbers))))]
    return max(found, key=lambda moved: moved.beyond, default=None)


def _moved(column: Compared, errors: float) -> Moved | None:
    """How far a mean is off, within bins and in all; distances of columns say how rows are shared out among bins.

    By standard deviations of the real rows, or tenths of their range where those are more: so rows that are few do not weigh by
    their rarity. Numbers are scaled first, so that none overflows.
    """
    known = [~np.isnan(values) for values in (column.real, column.synthetic)]
    real, made = column.real[known[0]], column.synthetic[known[1]]
    scale = float(np.abs(real).max(initial=0))
    if not scale or not made.size:
        return None
    with np.errstate(over="ignore"):
        one, two = real / scale, np.clip(made / scale, -1e100, 1e100)
    bins = column.real_bins[known[0]], column.synthetic_bins[known[1]]
    counts = np.bincount(bins[0], minlength=column.size)
    means = np.bincount(bins[0], one, minlength=column.size) / np.maximum(counts, 1)
    low, high = float(one.min()), float(one.max())
    apart = [
        one - means[bins[0]],
        two - np.where(counts[bins[1]] > 0, means[bins[1]], np.clip(two, low, high)),
    ]
    error = max(float(np.sqrt(np.mean(part**2))) for part in apart) * (1 / one.size + 1 / two.size) ** 0.5
    # of a column of one value nothing says what is much, but the value
    unit = max(float(one.std()), (high - low) / 10) if high > low else 1.0
    inside = float(beyond_chance(abs(float(apart[1].mean())), errors * error))
    # of all rows, too, where bins hold several values: among few rows they do not show that all of them moved a little
    sd = max(float(one.std()), float(two.std())) if apart[0].any() else np.inf
    moved = abs(float(two.mean() - one.mean()))
    all_in_all = float(beyond_chance(moved, errors * sd * (1 / one.size + 1 / two.size) ** 0.5))
    beyond = max(inside, all_in_all) / unit
    if not beyond:
        return None
    most = float(np.abs(made).max())
    centres = float(one.mean()) * scale, float((made / (most or 1.0)).mean()) * most
    told = (
        f"{plain(column.name)} is {column.shown(centres[1])}, and {column.shown(centres[0])} among real rows"
    )
    return Moved(column.name, *centres, beyond, told)
