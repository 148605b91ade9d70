"""How far apart two tables are, and how much of that chance alone would make: distances, correlations, means, spreads, tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.exact import about
from oboro.language import plain
from oboro.synth.codes import Compared

KNOWN = 30  # values, in both tables: of fewer neither a mean nor a spread, a correlation or a tail is judged


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

    The errors are by the jackknife: a correlation that hangs on a few rows of huge numbers has a large one; one of hardly any rows may be anything.
    """
    count = len(columns)
    out, errors = np.eye(count), np.zeros((count, count))
    for i, j in combinations(range(count), 2):
        known = ~(np.isnan(columns[i]) | np.isnan(columns[j]))
        one, two = unit_length(columns[i][known]), unit_length(columns[j][known])
        varied = one.any() and two.any()
        out[i, j] = out[j, i] = value = float(np.clip(one @ two, -1, 1)) if varied else np.nan
        errors[i, j] = errors[j, i] = _jackknife(value, one, two) if one.size >= KNOWN else 2.0
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
    """A column of numbers or days whose mean or standard deviation is another than among real rows."""

    name: str
    real: float
    synthetic: float
    beyond: float  # of a mean in standard deviations, as `_moved` has them; of a standard deviation the factor, as `_spread` has it
    shown: tuple[str, str]  # the two for people's eyes

    def to_dict(self) -> dict[str, object]:
        return {
            "column": self.name,
            "real": self.real,
            "synthetic": self.synthetic,
            "by": round(self.beyond, 6),
        }

    def __str__(self) -> str:
        return f"{plain(self.name)} is {self.shown[1]}, and {self.shown[0]} among real rows"


def worst_mean(columns: Sequence[Compared]) -> Moved | None:
    """The column whose mean is farthest off, beyond chance."""
    return _farthest(columns, _moved)


def worst_spread(columns: Sequence[Compared]) -> Moved | None:
    """The column whose standard deviation is off by the largest factor, beyond chance."""
    return _farthest(columns, _spread)


def _farthest(
    columns: Sequence[Compared], measure: Callable[[Compared, _Numbers, float], Moved | None]
) -> Moved | None:
    numbers = [(column, found) for column in columns if column.numeric and (found := _numbers(column))]
    errors = most_errors(sum(column.numeric for column in columns))
    moved = [one for column, found in numbers if (one := measure(column, found, errors))]
    return max(moved, key=lambda one: one.beyond, default=None)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What is known of a column, divided by the largest real number, so that nothing overflows."""

    real: Floats
    synthetic: Floats
    # from the mean of the real rows of the same bin, or where it has none from the nearest real number: what bins do not show
    real_apart: Floats
    synthetic_apart: Floats
    unit: float  # what is much: a standard deviation of the real rows

    @property
    def several(self) -> bool:
        """Whether bins hold several values; where each holds one, distances of the column say how rows are shared out."""
        return bool(self.real_apart.any())


def _numbers(column: Compared) -> _Numbers | None:
    known = [~np.isnan(values) for values in (column.real, column.synthetic)]
    real, made = column.real[known[0]], column.synthetic[known[1]]
    scale = float(np.abs(real).max(initial=0))
    if not scale or min(real.size, made.size) < KNOWN:
        return None
    with np.errstate(over="ignore"):
        one, two = real / scale, np.clip(made / scale, -1e60, 1e60)  # whose fourth powers are finite
    bins = column.real_bins[known[0]], column.synthetic_bins[known[1]]
    counts = np.bincount(bins[0], minlength=column.size)
    means = np.bincount(bins[0], one, minlength=column.size) / np.maximum(counts, 1)
    low, high = float(one.min()), float(one.max())
    one_apart = one - means[bins[0]]
    two_apart = two - np.where(counts[bins[1]] > 0, means[bins[1]], np.clip(two, low, high))
    if low == high:
        unit = 1.0  # of a column of one value nothing says what is much, but the value
    elif one_apart.any():
        unit = float(one.std())
    else:  # rows that are few do not weigh by their rarity, where bins show how many they are
        unit = max(float(one.std()), (high - low) / 10)
    return _Numbers(one, two, one_apart, two_apart, unit)


def _moved(column: Compared, found: _Numbers, errors: float) -> Moved | None:
    """How far a mean is off, within bins and in all, in standard deviations of the real rows."""
    one, two = found.real, found.synthetic
    rows = (1 / one.size + 1 / two.size) ** 0.5
    error = max(float(np.sqrt(np.mean(part**2))) for part in (found.real_apart, found.synthetic_apart)) * rows
    beyond = float(beyond_chance(abs(float(found.synthetic_apart.mean())), errors * error))
    if found.several:  # among few rows bins do not show that all of them moved a little
        sd = max(float(one.std()), float(two.std()))
        moved = abs(float(two.mean() - one.mean()))
        beyond = max(beyond, float(beyond_chance(moved, errors * sd * rows)))
    if not beyond:
        return None
    real, made = (scale * float(values.mean()) for values, scale in _known(column))
    return Moved(column.name, real, made, beyond / found.unit, (column.shown(real), column.shown(made)))


def _spread(column: Compared, found: _Numbers, errors: float) -> Moved | None:
    """By which factor a standard deviation is off, within bins and in all: a mean tells nothing of a tail that is too heavy on both
    sides, or too light.

    Variances are compared as means of squares are, so that a few huge numbers, which make a standard deviation what it is, make
    its error as large.
    """
    pairs = [(found.real_apart**2, found.synthetic_apart**2, found.unit**2)]
    if found.several:
        squares = [np.square(values - values.mean()) for values in (found.real, found.synthetic)]
        pairs.append((squares[0], squares[1], 0.0))
    factor = 1.0
    for one, two, added in pairs:
        error = max(float(one.std()), float(two.std())) * (1 / one.size + 1 / two.size) ** 0.5
        least, most = sorted((float(one.mean()), float(two.mean())))
        beyond = float(beyond_chance(most - least, errors * error))
        if beyond:
            factor = max(factor, min((1 + beyond / (least + added or beyond / 1e18)) ** 0.5, 1e9))
    if factor == 1.0:
        return None
    real, made = (scale * float(values.std()) for values, scale in _known(column))
    return Moved(column.name, real, made, factor, (about(real), about(made)))


# The ends of a column: a bin that nothing bounds shows neither that it was cut off nor that it is far too long, and where values are
# huge the errors of means and spreads are, too. So shares of rows beyond a value are compared: their error is known whatever the values are.


@dataclass(frozen=True, slots=True)
class Ended:
    """A column whose highest or lowest values are another share of all than among real rows."""

    name: str
    highest: bool
    value: str  # beyond which the shares differ most, for people's eyes
    real: float
    synthetic: float
    beyond: float  # the difference beyond chance, as a share of the larger of the two ends

    def to_dict(self) -> dict[str, object]:
        return {
            "column": self.name,
            "end": "highest" if self.highest else "lowest",
            "value": self.value,
            "real": round(self.real, 6),
            "synthetic": round(self.synthetic, 6),
            "by": round(self.beyond, 6),
        }

    def __str__(self) -> str:
        which = "above" if self.highest else "below"
        return f"{plain(self.name)} has {self.synthetic:.2%} {which} {self.value}, and {self.real:.2%} among real rows"


def worst_end(columns: Sequence[Compared], share: float) -> Ended | None:
    """The column whose end of this share of the real rows is farthest from theirs, beyond chance."""
    numbers = [column for column in columns if column.numeric]
    # two ends, and of the largest of the differences within one twice the tail of the normal law: as for the maximum of a Brownian path
    errors = most_errors(4 * len(numbers))
    ended = [_ended(column, share, errors, highest) for column in numbers for highest in (True, False)]
    return max((one for one in ended if one), key=lambda one: one.beyond, default=None)


def _ended(column: Compared, share: float, errors: float, highest: bool) -> Ended | None:
    sign = 1 if highest else -1
    real, made = (np.sort(sign * values[~np.isnan(values)]) for values in (column.real, column.synthetic))
    if min(real.size, made.size) < KNOWN:
        return None
    start = real[int(np.ceil(real.size * (1 - share))) - 1]
    tail = 1 - np.searchsorted(real, start, side="right") / real.size
    if tail * min(real.size, made.size) < KNOWN:
        return None
    at = np.unique(np.concatenate([values[values >= start] for values in (real, made)]))
    beyond_real, beyond_made = (
        1 - np.searchsorted(values, at, side="right") / values.size for values in (real, made)
    )
    place = int(np.argmax(np.abs(beyond_real - beyond_made)))
    apart = abs(float(beyond_real[place] - beyond_made[place]))
    most = max(tail, float(1 - np.searchsorted(made, start, side="right") / made.size))
    error = (most * (1 - most) * (1 / real.size + 1 / made.size)) ** 0.5
    beyond = float(beyond_chance(apart, errors * error)) / most
    if not beyond:
        return None
    value = column.shown(sign * float(at[place]))
    return Ended(column.name, highest, value, float(beyond_real[place]), float(beyond_made[place]), beyond)


def _known(column: Compared) -> list[tuple[Floats, float]]:
    """Real and synthetic numbers, divided by the largest of them, and that."""
    found = []
    for values in (column.real, column.synthetic):
        known = values[~np.isnan(values)]
        most = float(np.abs(known).max(initial=0)) or 1.0
        found.append((known / most, most))
    return found
