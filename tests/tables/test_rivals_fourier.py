"""Walsh-Hadamard coefficients of low order, and the linear program that ends with a proper table."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from oboro.errors import DomainError
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers import fourier, laplace

EPS = Fraction(1, 10)


def parity(a: int, b: int) -> int:
    return -1 if (a & b).bit_count() % 2 else 1


def test_coefficients_are_sums_with_signs() -> None:
    counts = np.random.default_rng(0).integers(0, 100, 16)
    expected = [sum(parity(a, x) * int(counts[x]) for x in range(16)) for a in range(16)]
    assert fourier.transform(counts).tolist() == expected


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_a_cell_enters_every_measured_coefficient_once(order: int) -> None:
    k = 5
    keep = fourier.measured(k, order)
    assert keep.tolist() == [index.bit_count() <= order for index in range(2**k)]
    rows = fourier.transform(np.eye(2**k, dtype=np.int64))[:, keep]
    scale = fourier.noise(k, EPS, 2, order).scale
    assert max(2 * Fraction(int(np.abs(cell).sum())) / scale for cell in rows) == EPS


def test_marginals_of_low_order_come_from_few_coefficients() -> None:
    """Without noise, order 2 gives every marginal of two bits exactly."""
    k = 6
    counts = np.random.default_rng(1).integers(0, 100, 2**k)
    coefficients = np.where(fourier.measured(k, 2), fourier.transform(counts), 0)
    tables = [table.reshape((2,) * k) for table in (counts, fourier.estimate(coefficients))]
    for i in range(k):
        for j in range(i):
            others = tuple(axis for axis in range(k) if axis not in (i, j))
            np.testing.assert_allclose(tables[0].sum(axis=others), tables[1].sum(axis=others))


def test_the_variance_of_blocks_at_low_order() -> None:
    k, order = 6, 2
    keep = fourier.measured(k, order)
    weights = np.stack([fourier.estimate(row) for row in np.eye(2**k, dtype=np.int64)[keep]])
    for level in range(k + 1):
        squares = (weights.reshape(len(weights), -1, 2**level).sum(axis=2) ** 2).sum(axis=0)
        expected = fourier.noise(k, EPS, 1, order).variance * squares
        np.testing.assert_allclose(fourier.block_variance(k, EPS, level, 1, order), expected)


def test_for_whole_tables_it_is_sqrt_n_worse_than_noise_on_cells() -> None:
    for level in range(11):
        worse = fourier.block_variance(10, EPS, level) / laplace.block_variance(10, EPS, level)
        assert worse == pytest.approx(2**10, rel=1e-2)


@pytest.mark.parametrize("order", [None, 2])
def test_the_linear_program_gives_whole_numbers_none_negative(order: int | None) -> None:
    for k in (0, 1, 4, 6):
        counts = np.random.default_rng(k).integers(0, 5, 2**k) ** 3
        table = fourier.measure_table(counts, EPS, Bits(), order=order)
        assert table.dtype == np.int64
        assert table.shape == counts.shape
        assert table.min() >= 0


def test_the_linear_program_gives_back_a_table_without_noise() -> None:
    counts = np.random.default_rng(3).integers(0, 1000, 64) * 10**6
    everything = np.ones(64, np.bool_)
    assert fourier.closest_table(fourier.transform(counts), everything).tolist() == counts.tolist()


def test_no_table_is_closer_than_the_program_says() -> None:
    """For two cells by hand: sum 10, difference 14 (so -2 and 12); the closest table has error 2: 12 and 0."""
    table = fourier.closest_table(np.array([10, 14]), np.ones(2, np.bool_))
    assert table.tolist() == [12, 0]


def test_the_program_is_never_worse_than_the_truth() -> None:
    """The true table is a candidate, so the largest difference is at most that of the noise (and rounding)."""
    counts = np.random.default_rng(4).integers(0, 40, 64)
    noise = DiscreteLaplace(640).sample(64, Bits())
    table = fourier.closest_table(fourier.transform(counts) + noise, np.ones(64, np.bool_))
    left = np.abs(fourier.transform(counts) + noise - fourier.transform(table)).max()
    assert left <= np.abs(noise).max() + 64 / 2 + 1


def test_the_program_says_where_it_ends() -> None:
    with pytest.raises(DomainError) as caught:
        fourier.measure_table(np.zeros(2 * fourier.largest_table, np.int64), EPS, Bits())
    assert fourier.why_table in str(caught.value)


def test_numbers_of_coefficients() -> None:
    assert fourier.noise(18, EPS, order=2).scale == 10 * (1 + 18 + math.comb(18, 2))
    assert fourier.noise(18, EPS).scale == 10 * 2**18
