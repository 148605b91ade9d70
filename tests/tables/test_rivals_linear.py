"""The rivals that measure linear sums: what they measure, how much noise that takes, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro.domain.mesh import morton_pattern, weave, width
from oboro.errors import DomainError, ParameterError
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers import fourier, hierarchy, laplace, matrix, privelet, privelet2d
from support import mostly_long

EPS = Fraction(1, 10)


@dataclass(frozen=True)
class Rival:
    """One rival with its options filled in; cells always come in one row, in Morton order."""

    name: str
    transform: Callable[[Any], Any]
    noise: Callable[..., DiscreteLaplace]  # (k, eps, sensitivity)
    estimate: Callable[[Any, int], Any]  # (noisy, k)
    measure: Callable[..., Any]
    block_variance: Callable[..., float]

    def rows(self, k: int) -> Any:
        """What is measured, as a matrix: the transform of every unit vector is a column."""
        return np.stack([self.transform(cell) for cell in np.eye(2**k, dtype=np.int64)], axis=1)


def tree(arity: int) -> Rival:
    return Rival(
        f"hierarchy of {arity}",
        lambda counts: hierarchy.transform(counts, arity),
        lambda k, eps, sensitivity=1: hierarchy.noise(k, eps, sensitivity, arity),
        lambda noisy, k: hierarchy.estimate(noisy, k, arity),
        lambda counts, eps, bits, sensitivity=1: hierarchy.measure(counts, eps, bits, sensitivity, arity),
        lambda k, eps, level, sensitivity=1: hierarchy.block_variance(k, eps, level, sensitivity, arity),
    )


RIVALS = [
    Rival(
        "laplace",
        lambda counts: counts,
        lambda k, eps, sensitivity=1: laplace.noise(eps, sensitivity),
        lambda noisy, k: noisy,
        laplace.measure,
        laplace.block_variance,
    ),
    Rival(
        "privelet",
        privelet.transform,
        privelet.noise,
        lambda noisy, k: privelet.estimate(noisy),
        privelet.measure,
        privelet.block_variance,
    ),
    Rival(
        "privelet2d",
        lambda counts: privelet2d.transform(privelet2d.square(counts)).reshape(-1),
        lambda k, eps, sensitivity=1: privelet2d.noise(k // 2, (k + 1) // 2, eps, sensitivity),
        lambda noisy, k: privelet2d.morton(privelet2d.estimate(noisy.reshape(-1, 2 ** (k // 2)))),
        lambda counts, *rest: privelet2d.morton(privelet2d.measure(privelet2d.square(counts), *rest)),
        privelet2d.block_variance,
    ),
    tree(2),
    tree(4),
    tree(8),
    Rival(
        "fourier",
        fourier.transform,
        fourier.noise,
        lambda noisy, k: fourier.estimate(noisy),
        fourier.measure,
        fourier.block_variance,
    ),
    Rival("matrix", matrix.transform, matrix.noise, matrix.estimate, matrix.measure, matrix.block_variance),
]

each = pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)


def blocks(values: Any, level: int) -> Any:
    return values.reshape(-1, 2**level).sum(axis=1)


@each
@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("sensitivity", [1, 6])
def test_one_unit_costs_exactly_eps(rival: Rival, k: int, sensitivity: int) -> None:
    """Over all cells: the change of all that is measured over the scale of its noise is at most eps, and reaches it."""
    rows = rival.rows(k)
    assert rows.dtype == np.int64
    scale = rival.noise(k, EPS, sensitivity).scale
    costs = [sensitivity * Fraction(int(np.abs(rows[:, cell]).sum())) / scale for cell in range(2**k)]
    assert max(costs) == EPS


@each
@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_unit_in_several_cells_costs_no_more(rival: Rival, k: int) -> None:
    rows = rival.rows(k)
    rng = np.random.default_rng(k)
    for _ in range(50):
        change = rng.multinomial(4, np.full(2**k, 2.0**-k)) * rng.choice([-1, 1], 2**k)
        assert int(np.abs(rows @ change).sum()) / rival.noise(k, EPS, 4).scale <= EPS


@each
@pytest.mark.parametrize("k", [0, 1, 2, 5, 6])
def test_without_noise_the_counts_come_back(rival: Rival, k: int) -> None:
    counts = np.random.default_rng(k).integers(0, 10**6, 2**k)
    np.testing.assert_allclose(rival.estimate(rival.transform(counts), k), counts, rtol=1e-9, atol=1e-6)


@each
@pytest.mark.parametrize("k", [1, 4, 5, 6])
def test_the_variance_of_blocks_is_what_the_algebra_says(rival: Rival, k: int) -> None:
    """Every noise enters the estimates linearly: its weights, squared and added up, give the variance."""
    size = rival.rows(k).shape[0]
    weights = np.stack([rival.estimate(one, k) for one in np.eye(size, dtype=np.int64)], axis=1)
    for level in range(k + 1):
        squares = (weights.reshape(-1, 2**level, size).sum(axis=1) ** 2).sum(axis=1)
        expected = rival.noise(k, EPS, 3).variance * squares.mean()
        assert rival.block_variance(k, EPS, level, 3) == pytest.approx(expected, rel=1e-9)


def far(errors: Any, variance: float) -> float:
    """How many standard errors the mean square of each trial's errors is off; beyond 6: below 1e-8 by chance."""
    ratios = np.array([np.mean(error**2) for error in errors]) / variance
    return float(abs(ratios.mean() - 1) / (ratios.std(ddof=1) / np.sqrt(ratios.size)))


@pytest.mark.parametrize(
    "rival",
    mostly_long("statistical tests", RIVALS, [rival for rival in RIVALS if rival.name != "matrix"]),
    ids=lambda rival: rival.name,
)
def test_measured_errors_have_the_variance_that_is_promised(rival: Rival) -> None:
    k, trials = 7, 600
    counts = np.random.default_rng(1).integers(0, 50, 2**k)
    bits = Bits()
    errors = [rival.measure(counts, EPS, bits, 2) - counts for _ in range(trials)]
    for level in (0, 2, 4):
        sums = [blocks(error, level) for error in errors]
        promised = rival.block_variance(k, EPS, level, 2)
        assert far(sums, promised) < 6
        if level == 0:  # a scale that is 15% off is seen
            assert far(sums, promised * 1.15**2) > 6
            assert far(sums, promised * 0.85**2) > 6
    means = np.array([error.mean() for error in errors])
    assert abs(means.mean()) < 6 * means.std(ddof=1) / np.sqrt(trials)  # no bias


@pytest.mark.parametrize("module", [laplace, privelet, hierarchy, fourier, matrix])
def test_what_cannot_be_served_is_refused_and_says_why(module: Any) -> None:
    too_large = np.broadcast_to(np.int64(0), (2 * module.largest,))  # takes no memory
    with pytest.raises(DomainError) as caught:
        module.measure(too_large, EPS, Bits())
    assert module.why in str(caught.value)
    with pytest.raises(DomainError, match="power of two"):
        module.measure(np.zeros(12, np.int64), EPS, Bits())


def test_morton_order_is_that_of_the_domain() -> None:
    for rows, columns in ((8, 8), (4, 8), (1, 1), (1, 2)):
        places = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        keys = weave(places, morton_pattern([width(rows), width(columns)]))
        table = np.random.default_rng(0).permutation(rows * columns).reshape(rows, columns)
        assert np.array_equal(privelet2d.morton(table)[keys], table)
        assert np.array_equal(privelet2d.square(privelet2d.morton(table)), table)


def test_a_table_of_two_dimensions_is_needed_for_privelet2d() -> None:
    with pytest.raises(DomainError, match="rows and columns"):
        privelet2d.measure(np.zeros(16, np.int64), EPS, Bits())
    with pytest.raises(DomainError, match="power of two"):
        privelet2d.measure(np.zeros((4, 3), np.int64), EPS, Bits())
    with pytest.raises(DomainError, match="too large"):
        privelet2d.measure(np.broadcast_to(np.int64(0), (2**14, 2**14)), EPS, Bits())


@pytest.mark.parametrize(("eps", "sensitivity"), [(Fraction(0), 1), (Fraction(-1), 1), (EPS, 0)])
def test_parameters_that_promise_nothing_are_refused(eps: Fraction, sensitivity: int) -> None:
    for module in (laplace, privelet, hierarchy, fourier, matrix):
        with pytest.raises(ParameterError):
            module.measure(np.zeros(4, np.int64), eps, Bits(), sensitivity)


def test_variances_of_the_paper() -> None:
    """One cell of 2^18 at eps 0.1: 14.14, 471.4, and sqrt(24067), which the paper prints as 153.13."""
    assert laplace.block_variance(18, EPS, 0) ** 0.5 == pytest.approx(14.142, rel=1e-3)
    assert privelet2d.block_variance(18, EPS, 0) ** 0.5 == pytest.approx(471.4, rel=1e-3)
    assert privelet.block_variance(18, EPS, 0) ** 0.5 == pytest.approx(24067**0.5, rel=1e-4)
    assert round(24067**0.5, 2) == 155.14


def test_least_squares_over_the_tree_beats_any_one_level() -> None:
    for level in range(9):
        alone = hierarchy.noise(8, EPS).variance
        assert hierarchy.block_variance(8, EPS, level) < alone


def test_the_tree_is_consistent_after_least_squares() -> None:
    """Two passes give the normal equations' solution: no other cells fit the noisy nodes better."""
    for arity, k in ((2, 5), (4, 5), (8, 6)):
        counts = np.random.default_rng(arity).integers(0, 20, 2**k)
        noisy = hierarchy.transform(counts, arity) + DiscreteLaplace(20).sample(
            hierarchy.transform(counts, arity).size
        )
        rows = tree(arity).rows(k).astype(float)
        best, *_ = np.linalg.lstsq(rows, noisy.astype(float), rcond=None)
        np.testing.assert_allclose(hierarchy.estimate(noisy, k, arity), best, atol=1e-8)


def test_a_root_that_joins_fewer_children() -> None:
    assert hierarchy.sizes(5, 4) == [1, 4, 16, 32]
    assert hierarchy.sizes(4, 4) == [1, 4, 16]
    assert hierarchy.sizes(0, 4) == [1]
    with pytest.raises(DomainError, match="power of two"):
        hierarchy.sizes(4, 3)
