"""Threshold: the cells that are never listed have the law that they would have if they were."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc

from oboro.errors import ParameterError
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers import laplace, threshold

EPS = Fraction(1, 2)
KEYS, COUNTS, SIZE, LIMIT = np.array([2, 0]), np.array([3, 0]), 4, 2
TOP = 4  # larger published counts are taken together


def empty(dtype: type = np.int64) -> np.ndarray:
    return np.empty(0, dtype)


def cell_law(count: int, eps: Fraction, limit: int) -> list[float]:
    """P(unpublished), P(limit), P(limit + 1), ..., P(TOP or more) of one cell in the dense mechanism."""
    law = DiscreteLaplace(1 / eps)
    inner = [float(law.pmf(value - count)) for value in range(limit, TOP)]
    return [float(law.cdf(limit - 1 - count)), *inner, 1 - float(law.cdf(TOP - 1 - count))]


def misfit(tables: Counter[tuple[int, ...]], eps: Fraction, limit: int = LIMIT) -> float:
    """The chi-square p-value of whole published tables against dense noise followed by the threshold."""
    trials = sum(tables.values())
    laws = [cell_law(count, eps, limit) for count in (0, 0, 3, 0)]
    values = [0, *range(limit, TOP + 1)]
    statistic, rest_seen, rest_due, groups = 0.0, trials, float(trials), 0
    for places in itertools.product(range(len(values)), repeat=SIZE):
        due = trials * float(np.prod([law[place] for law, place in zip(laws, places, strict=True)]))
        if due >= 20:
            seen = tables[tuple(values[place] for place in places)]
            statistic += (seen - due) ** 2 / due
            rest_seen, rest_due, groups = rest_seen - seen, rest_due - due, groups + 1
    statistic += (rest_seen - rest_due) ** 2 / rest_due
    return float(chdtrc(groups, statistic))


def published(trials: int) -> Counter[tuple[int, ...]]:
    tables: Counter[tuple[int, ...]] = Counter()
    bits = Bits()
    for _ in range(trials):
        keys, counts = threshold.measure_sparse(KEYS, COUNTS, SIZE, EPS, bits, LIMIT)
        table = [0] * SIZE
        for key, count in zip(keys, counts, strict=True):
            table[key] = min(int(count), TOP)
        tables[tuple(table)] += 1
    return tables


@pytest.mark.long("statistical tests")
def test_the_law_is_dense_noise_then_the_threshold() -> None:
    """Jointly over all cells, stored or not, a stored 0 among them. False alarm below 1e-6; 20% off is seen."""
    tables = published(6000)
    assert misfit(tables, EPS) > 1e-7
    assert misfit(tables, EPS * Fraction(120, 100)) < 1e-7
    assert misfit(tables, EPS * Fraction(80, 100)) < 1e-7


def test_dense_and_sparse_agree_on_how_many_pass() -> None:
    """The dense Laplace rival, cut at the threshold, publishes as many false cells and with as large counts."""
    size, limit, bits = 2**16, 6, Bits()
    dense = laplace.measure(np.zeros(size, np.int64), EPS, bits)
    dense = dense[dense >= limit]
    keys, sparse = threshold.measure_sparse(empty(), empty(), size, EPS, bits, limit)
    due = size * threshold.passing(limit, EPS)
    for found in (dense, sparse):
        assert abs(found.size - due) < 6 * due**0.5
        # beyond the threshold: geometric of mean p/(1-p) and variance p/(1-p)^2
        p = np.exp(-0.5)
        assert abs((found - limit).mean() - p / (1 - p)) < 6 * (p / (1 - p) ** 2 / found.size) ** 0.5
    assert np.all(np.diff(keys) > 0)
    assert keys[0] >= 0
    assert keys[-1] < size


def test_empty_cells_are_found_all_over_and_never_among_the_stored() -> None:
    size = 2**60
    stored = np.array([0, 5, 6, 7, 2**59, size - 1])
    counts = np.full(stored.size, -(10**9))  # so that none of them is published
    limit = threshold.default_threshold(size // 1000, EPS)
    keys, values = threshold.measure_sparse(stored, counts, size, EPS, Bits(), limit)
    due = size * threshold.passing(limit, EPS)
    assert abs(keys.size - due) < 6 * due**0.5
    assert not np.isin(stored, keys).any()
    assert values.min() >= limit
    halves = np.count_nonzero(keys < size // 2)
    assert abs(halves - keys.size / 2) < 3 * keys.size**0.5


def test_ranks_of_empty_cells_skip_the_stored_ones() -> None:
    """With a low threshold and hardly any noise off 0, every place that is not stored can come up, and no other."""
    stored = np.array([1, 2, 5])
    seen: set[int] = set()
    for _ in range(200):
        keys, _ = threshold.measure_sparse(stored, np.full(3, -1000), 8, EPS, Bits(), 1)
        seen |= set(keys.tolist())
    assert seen == {0, 3, 4, 6, 7}


def test_the_default_lets_one_empty_cell_through_on_average() -> None:
    for size in (1, 2, 2**18, 2**37, 2**62):
        for eps in (Fraction(1, 10), Fraction(1), Fraction(3)):
            limit = threshold.default_threshold(size, eps)
            assert size * threshold.passing(limit, eps) <= 1 + 1e-6 or limit == 1
            assert limit == 1 or size * threshold.passing(limit - 1, eps) > 1 - 1e-6


def test_large_counts_are_published_in_the_order_of_keys() -> None:
    stored = np.array([900, 3, 77])
    keys, counts = threshold.measure_sparse(
        stored, np.array([10**6, 2 * 10**6, 3 * 10**6]), 1000, EPS, Bits()
    )
    assert [key for key in keys.tolist() if key in (3, 77, 900)] == [3, 77, 900]
    assert abs(counts[keys == 3][0] - 2 * 10**6) < 1000


def test_a_full_domain_and_an_empty_one() -> None:
    keys, _ = threshold.measure_sparse(np.arange(4), np.full(4, 10**6), 4, EPS, Bits())
    assert keys.tolist() == [0, 1, 2, 3]
    keys, counts = threshold.measure_sparse(empty(), empty(), 2**62, EPS, Bits())
    assert keys.size == counts.size


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(ParameterError, match="size"):
        threshold.measure_sparse(empty(), empty(), 2**63, EPS, Bits())
    with pytest.raises(ParameterError, match="threshold"):
        threshold.measure_sparse(empty(), empty(), 16, EPS, Bits(), 0)
