"""Several quantiles by recursive splitting, and one quantile on the grid; both sampled exactly.

    one quantile       inverse sensitivity: the score of a value is how many ranks it is away from the quantile
    recursive          the middle quantile first, then those below among the rows below, and so on [Kaplan, Schnapp,
                       Stemmer 2022]: a row takes part once in each level, so levels share the price, not quantiles

The exponential mechanism picks a value with probability proportional to e^(-eta score). It is given whole
scores with how many values share them, so that it costs as much as there are distinct values, not as the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.arrays import Integers
from oboro.noise import Bits, exponential_mechanism, uniform_integer
from oboro.noise.draws import exponential_choices, uniform_integers
from oboro.statistics.ranks import Ranks, fineness

_GRAIN = 2**24  # of a score: the denominators of shares of shares have up to 60 bits
_HIGHEST = 2**62  # score; with fewer than 2^38 rows none is as high


def grid_quantile(ranks: Ranks, size: int, q: Fraction, eta: Fraction, bits: Bits) -> int:
    """A code near the q-quantile: each is taken with probability proportional to e^(-eta * score).

    With a rows below the value, b at or below it and n in all, the score is
    denominator * max(0, a - qn, qn - b), a whole number: exactly 0 at the quantile, ties or not.
    """
    scores, starts, counts = _grid(ranks, size, q)
    chosen = exponential_mechanism(scores, eta, counts, bits)
    return int(starts[chosen]) + uniform_integer(int(counts[chosen]), bits)


def grid_quantiles(ranks: Ranks, size: int, q: Fraction, eta: Fraction, bits: Bits, trials: int) -> Integers:
    """Many independent draws of `grid_quantile` at once."""
    scores, starts, counts = _grid(ranks, size, q)
    chosen = exponential_choices(scores, eta, trials, counts, bits)
    found = starts[chosen]
    for index in np.unique(chosen):
        mine = chosen == index
        found[mine] += uniform_integers(int(counts[index]), int(mine.sum()), bits)
    return found


def _grid(ranks: Ranks, size: int, q: Fraction) -> tuple[Integers, Integers, Integers]:
    """Scores of the values before the first code, of the first code, of those between, of the second code, ...;
    the first value of each, and how many there are."""
    n, p, s = ranks.rows, q.numerator, q.denominator
    codes = ranks.codes
    below = np.concatenate([[0], ranks.upto])  # below[i]: rows below the i-th distinct code
    starts = np.empty(2 * codes.size + 1, np.int64)
    counts = np.empty_like(starts)
    starts[1::2], counts[1::2] = codes, 1
    starts[0::2] = np.concatenate([[0], codes + 1])
    counts[0::2] = np.concatenate([codes, [size]]) - starts[0::2]
    a = np.repeat(below, 2)[:-1]
    b = np.repeat(below, 2)[1:]
    scores = np.maximum(0, np.maximum(s * a - p * n, p * n - s * b))
    return scores, starts, counts


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows first, ..., last - 1 lie on places low, ..., high - 1; the quantiles between `below` and `above` are
    looked for here."""

    first: int
    last: int
    low: int
    high: int
    below: Fraction
    above: Fraction


def levels(quantiles: int) -> int:
    """How often the rows are split: ceil(log2(quantiles + 1))."""
    return quantiles.bit_length()


def split_errors(quantiles: Sequence[Fraction], own: Callable[[Fraction], float]) -> list[float]:
    """How far each quantile may be off, if one that is looked for at a share of a part is off by own(share) more.

    The ends of a part are off as well. They move what is looked for in proportion to how near they are.
    """
    found = [0.0] * len(quantiles)
    parts = [(0, len(quantiles), Fraction(0), Fraction(1), 0.0, 0.0)]
    while parts:
        first, last, below, above, off_below, off_above = parts.pop()
        if first < last:
            middle = (first + last) // 2
            q = quantiles[middle]
            share = (q - below) / (above - below)
            found[middle] = own(share) + float(1 - share) * off_below + float(share) * off_above
            parts.append((first, middle, below, q, off_below, found[middle]))
            parts.append((middle + 1, last, q, above, found[middle], off_above))
    return found


def split_quantiles(
    ranks: Ranks, size: int, quantiles: Sequence[Fraction], eps: Fraction, bits: Bits
) -> list[int]:
    """Codes near all quantiles (in increasing order). Adding or removing a row costs `eps` in each level.

    In one part with n rows and the quantile q of the part, the score of a place with a rows below it is |g a - floor(g q n)|, for
    a public whole number g: the denominator of q, or 2^24 if that is smaller. A row more or less changes g a - g q n by
    -g q or by g (1 - q), hence the score by at most D = ceil(g max(q, 1 - q)), and eta = eps/(2 D) costs eps.
    g a stays below 2^62, as there are fewer than 2^38 rows.
    """
    fine = fineness(size)
    found: list[int] = [0] * len(quantiles)
    parts = [(_Part(0, ranks.rows, 0, size << fine, Fraction(0), Fraction(1)), 0, len(quantiles))]
    while parts:
        part, first, last = parts.pop()
        if first == last:
            continue
        middle = (first + last) // 2
        share = (quantiles[middle] - part.below) / (part.above - part.below)
        place, row = _split(ranks, fine, part, share, eps, bits)
        found[middle] = min(place >> fine, size - 1)
        q = quantiles[middle]
        parts.append(
            (_Part(part.first, row, part.low, max(place, part.low + 1), part.below, q), first, middle)
        )
        parts.append(
            (_Part(row, part.last, min(place, part.high - 1), part.high, q, part.above), middle + 1, last)
        )
    return found


def _split(
    ranks: Ranks, fine: int, part: _Part, share: Fraction, eps: Fraction, bits: Bits
) -> tuple[int, int]:
    """A place near the quantile of a part, and the first row that is not below it.

    Scores are cut off where they no longer matter, at a public height: a minimum with a constant changes no
    more than what it is a minimum of. So only rows near the quantile are looked at one by one.
    """
    n, grain = part.last - part.first, min(share.denominator, _GRAIN)
    wanted = math.floor(grain * share * n)
    eta = eps / (2 * math.ceil(grain * max(share, 1 - share)))
    cut = min(math.ceil((math.log(part.high - part.low) + 60) / eta) + grain, _HIGHEST)
    near = -(-cut // grain)
    start, stop = max(0, wanted // grain - near), min(n, wanted // grain + near + 1)
    # interval i holds the places with i rows of the part below them: (place of row i-1, place of row i]
    edges = np.empty(stop - start + 2, np.int64)
    if n:
        rows = np.arange(max(0, start - 1), min(n, stop + 1), dtype=np.int64) + part.first
        inner = ranks.places(rows, fine)
        edges[(1 if start == 0 else 0) : (1 if start == 0 else 0) + inner.size] = inner
    if start == 0:
        edges[0] = part.low - 1
    if stop == n:
        edges[-1] = part.high - 1
    edges = np.clip(edges, part.low - 1, part.high - 1)
    below = np.arange(start, stop + 1, dtype=np.int64)
    scores = np.minimum(np.abs(grain * below - wanted), cut)
    counts = np.diff(edges)
    left, right = int(edges[0]) - (part.low - 1), part.high - 1 - int(edges[-1])
    chosen = exponential_mechanism(np.append(scores, [cut, cut]), eta, np.append(counts, [left, right]), bits)
    if chosen < counts.size:
        place = int(edges[chosen]) + 1 + uniform_integer(int(counts[chosen]), bits)
        return place, part.first + start + chosen
    far = part.low if chosen == counts.size else int(edges[-1]) + 1
    place = far + uniform_integer(left if chosen == counts.size else right, bits)
    return place, part.first + _rows_below(ranks, fine, part, place)


def _rows_below(ranks: Ranks, fine: int, part: _Part, place: int) -> int:
    """How many rows of the part lie below a place, by bisection."""
    low, high = 0, part.last - part.first
    while low < high:
        middle = (low + high) // 2
        at = int(ranks.places(np.asarray([part.first + middle], np.int64), fine)[0])
        low, high = (middle + 1, high) if at < place else (low, middle)
    return low
