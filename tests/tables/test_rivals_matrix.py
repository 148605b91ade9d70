"""The matrix mechanism: its strategy is whole, public, and no worse than the rivals that it contains."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from oboro.errors import ParameterError
from oboro.noise.bits import Bits
from oboro.tables.papers import hierarchy, laplace, matrix, privelet

EPS = Fraction(1, 10)
workloads = pytest.mark.parametrize("workload", matrix.WORKLOADS)


def error(rows: Any, variance: float, target: Any) -> float:
    rows = rows.astype(float)
    return float(variance * np.trace(target @ np.linalg.inv(rows.T @ rows)))


def rows_of(module: ModuleType, k: int) -> Any:
    return np.stack([module.transform(cell) for cell in np.eye(2**k, dtype=np.int64)], axis=1)


@workloads
@pytest.mark.parametrize("k", [0, 1, 3, 6])
@pytest.mark.few(4, "tests of the papers' tables")
def test_columns_add_up_to_the_same_whole_number(workload: str, k: int) -> None:
    rows = matrix.strategy(k, workload)
    assert rows.dtype == np.int64
    assert rows.min() >= 0
    assert rows.sum(axis=0).tolist() == [matrix.COLUMN] * 2**k
    assert np.diag(rows).min() >= 1  # so that every cell can be told


@workloads
@pytest.mark.parametrize("k", [1, 4, 6])
def test_no_rival_that_it_contains_answers_the_workload_better(workload: str, k: int) -> None:
    target = matrix.gram(k, workload)
    ours = error(matrix.strategy(k, workload), matrix.noise(k, EPS).variance, target)
    assert ours <= 1.01 * laplace.noise(EPS).variance * np.trace(target)  # 1%: rounding of the strategy
    for module in (privelet, hierarchy):
        assert ours <= error(rows_of(module, k), module.noise(k, EPS).variance, target)


def test_the_gram_matrix_of_ranges_counts_them() -> None:
    n = 8
    ranges = np.array(
        [[start <= i < end for i in range(n)] for start in range(n) for end in range(start + 1, n + 1)]
    )
    np.testing.assert_allclose(matrix.gram(3, "ranges"), ranges.T.astype(float) @ ranges / len(ranges))


def test_the_gram_matrix_of_blocks_weighs_all_sizes_alike() -> None:
    """For unit variance of the cells, the mean variance over sizes 1, 2, ..., n is the mean of the sizes."""
    assert np.trace(matrix.gram(4, "blocks")) == pytest.approx((1 + 2 + 4 + 8 + 16) / 5)


def test_the_gradient_of_the_search_is_right() -> None:
    target = matrix.gram(3, "ranges")
    weights = np.random.default_rng(0).random((3, 8))
    _, slope = matrix._error(target, weights)
    for i, j in ((0, 0), (1, 5), (2, 7)):
        step = np.zeros_like(weights)
        step[i, j] = 1e-6
        change = matrix._error(target, weights + step)[0] - matrix._error(target, weights - step)[0]
        assert change / 2e-6 == pytest.approx(slope[i, j], rel=1e-5)


def test_a_strategy_is_the_same_every_time() -> None:
    first = matrix.strategy(5).copy()
    matrix.strategy.cache_clear()
    assert np.array_equal(first, matrix.strategy(5))


def test_ranges_can_be_measured() -> None:
    counts = np.arange(16, dtype=np.int64)
    assert matrix.measure(counts, Fraction(100), Bits(), workload="ranges").round().astype(
        int
    ).sum() == pytest.approx(counts.sum(), abs=16)


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ParameterError, match="unknown workload"):
        matrix.measure(np.zeros(4, np.int64), EPS, Bits(), workload="squares")
