"""Discrete Laplace and discrete Gaussian: the law, its tails, its rare paths, its forecasts."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.errors import ParameterError
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.noise._compiled import fill_gaussian, fill_laplace
from oboro.noise.gaussian import _shape, _Table, _table
from oboro.noise.laplace import _FEW, _Tables, _tables, certain_floor
from support import ScriptedBits, fits

TEN_MILLION = 10_000_000


def test_scale_is_exact() -> None:
    draws = DiscreteLaplace(190).sample(TEN_MILLION)
    assert fits(draws, DiscreteLaplace(190))
    assert not fits(draws, DiscreteLaplace(Fraction(1919, 10)))  # one percent off is seen
    assert not fits(draws, DiscreteLaplace(Fraction(1881, 10)))


@pytest.mark.long("statistical tests")
def test_variance_is_exact() -> None:
    draws = DiscreteGaussian(190**2).sample(TEN_MILLION)
    assert fits(draws, DiscreteGaussian(190**2))
    assert not fits(draws, DiscreteGaussian(Fraction(1919, 10) ** 2))


@pytest.mark.parametrize(
    "scale", ["1/20", "1/2", "1", "7", "7.99", "8.01", "255", "2047", "2049", "1e6", 2**40]
)
def test_laplace_of_every_size(scale: str) -> None:
    law = DiscreteLaplace(scale)
    draws = law.sample(400_000)
    assert fits(draws, law)
    if law.scale >= 1:
        assert not fits(draws, DiscreteLaplace(law.scale * Fraction(90, 100)))


@pytest.mark.parametrize("variance", ["1/20", "1/3", "1", "2.5", "100", "65535", "65536", "1e8", 2**80])
def test_gaussian_of_every_size(variance: str) -> None:
    law = DiscreteGaussian(variance)
    draws = law.sample(400_000)
    assert fits(draws, law)
    if law.sigma2 >= 1:
        assert not fits(draws, DiscreteGaussian(law.sigma2 * Fraction(8, 10)))


@pytest.mark.parametrize("law", [DiscreteLaplace("3/2"), DiscreteGaussian(3)])
def test_a_few_draws_at_a_time_have_the_same_law(law: DiscreteLaplace | DiscreteGaussian) -> None:
    """Small samples take another path, without the compiled loop."""
    draws = np.concatenate([law.sample(50) for _ in range(400)])
    assert fits(draws, law, cells=20)


def test_zero_is_not_twice_as_likely() -> None:
    draws = DiscreteLaplace(1).sample(1_000_000)
    share = float(np.mean(draws == 0))
    expected = math.tanh(0.5)
    assert abs(share - expected) < 6 * math.sqrt(expected * (1 - expected) / draws.size)


def test_compiled_and_exact_paths_agree_on_the_same_bits(test_bits) -> None:
    for scale in (Fraction(1, 3), Fraction(5), Fraction(190), Fraction(10**6), Fraction(2**40)):
        tables = _tables(scale.numerator, scale.denominator)
        halves = test_bits.halves(tables.digits * 2000)
        out = np.zeros(2000, np.int64)
        filled, used, unsure = fill_laplace(halves, tables.floors, tables.guide, out, 0, 0)
        assert not unsure
        assert used == halves.size
        exact = [
            tables.resolve(halves[i : i + tables.digits], test_bits)
            for i in range(0, halves.size, tables.digits)
        ]
        assert [draw for draw in exact if draw is not None] == out[:filled].tolist()


@pytest.mark.parametrize("scale", ["1/50", "10", "1000000000001/3"])
def test_the_first_draws_of_a_scale_find_the_same_digits_without_tables(scale: str, test_bits) -> None:
    """A few draws search the floors that they need; the rest look them up."""
    made, fresh = (_Tables(Fraction(scale)) for _ in range(2))
    for digit in range(made.digits):
        for floor in map(int, made.floors[digit, [0, 1, 2, 127, 253, 254, 255]]):
            for known in (max(0, floor - 1), floor, floor + 1):
                above = np.count_nonzero(made.floors[digit] > known)
                assert fresh.searched(digit, known) == above
    halves = test_bits.halves(40 * made.digits)
    found = []
    made._drawn = _FEW  # it is past its first draws
    for tables in (made, fresh):
        found.append(np.zeros(8, np.int64))
        assert tables.fill(halves, found[-1], 0, test_bits) == 8
    assert found[0].tolist() == found[1].tolist()
    assert "floors" not in vars(fresh)


def test_a_draw_on_a_threshold_is_open_until_more_bits_come(test_bits) -> None:
    tables = _tables(5, 1)
    floor = int(tables.floors[0, 3])  # V lies where the digit may be 3 or 4
    halves = np.asarray([floor << 1], np.uint32)
    out = np.zeros(1, np.int64)
    assert fill_laplace(halves, tables.floors, tables.guide, out, 0, 0) == (0, 0, True)
    low = tables.resolve(halves, ScriptedBits(words=[0]))
    high = tables.resolve(halves, ScriptedBits(words=[2**64 - 1]))
    assert (low, high) == (4, 3)  # V just below S(3) means a larger digit


def test_refinement_splits_an_open_draw_where_the_threshold_lies() -> None:
    """The next 64 bits decide exactly at the next 64 bits of S(3) = e^(-4/5)."""
    from flint import arb, fmpq

    from oboro.noise.lazy import precision

    tables = _tables(5, 1)
    with precision(300):
        digits = int((arb(fmpq(-4, 5)).exp() * arb(2) ** 95).floor().unique_fmpz())
    floor, rest = digits >> 64, digits & (2**64 - 1)
    assert floor == int(tables.floors[0, 3])
    halves = np.asarray([floor << 1], np.uint32)
    assert tables.resolve(halves, ScriptedBits(words=[rest - 1])) == 4
    assert tables.resolve(halves, ScriptedBits(words=[rest + 1])) == 3
    both = {tables.resolve(halves, ScriptedBits(words=[rest, more])) for more in (0, 2**64 - 1)}
    assert both == {3, 4}  # still open after 95 bits: a third piece decides


def test_no_tail_is_cut_off() -> None:
    """All-zero bits of V push the last digit beyond its table."""
    tables = _tables(1, 1)
    draw = tables.resolve(np.asarray([0], np.uint32), ScriptedBits(words=[0] * 6 + [1]))
    assert draw is not None
    assert draw > 256  # P(|Z| > 256) = e^-257: reached only by refinement


def test_minus_zero_is_thrown_away() -> None:
    tables = _tables(1, 1)
    top = 2**32 - 1  # V near 1: magnitude 0; lowest bit 1: minus
    assert tables.resolve(np.asarray([top], np.uint32), ScriptedBits()) is None
    assert tables.resolve(np.asarray([top - 1], np.uint32), ScriptedBits()) == 0


@pytest.mark.parametrize("variance", ["1/20", "1", "100", 255**2, 256**2, 10**7, 2**60, 2**80])
def test_compiled_and_exact_gaussian_draws_agree_on_the_same_bits(variance: str, test_bits) -> None:
    table = _gaussian(variance)
    halves = test_bits.halves(table.each * 3000)
    out = np.zeros(3000, np.int64)
    exact = [table.resolve(halves[i : i + table.each], test_bits) for i in range(0, halves.size, table.each)]
    filled = table.fill(halves, out, 0, test_bits)
    assert [draw for draw in exact if draw is not None] == out[:filled].tolist()
    assert 0.9 * table.kept < filled / 3000 < 1.1 * table.kept


@pytest.mark.parametrize("variance", ["1/20", "3", 190**2, 2**80])
def test_gaussian_floors_are_those_of_the_sums(variance: str) -> None:
    """By another way than the table was made: balls, each sum by itself."""
    table = _gaussian(variance)
    for j in {0, 1, 2, table.floors.size // 3, table.floors.size - 2, table.floors.size - 1}:
        if 0 <= j < table.floors.size:
            assert certain_floor(partial(table.survival, j), 31) == table.floors[j]
    assert table.floors[-1] == 0
    assert np.all(np.diff(table.floors.astype(np.int64)) <= 0)


def test_a_gaussian_draw_on_a_threshold_is_open_until_more_bits_come() -> None:
    table = _gaussian(25)
    halves = np.asarray([int(table.floors[3]) << 1], np.uint32)
    out = np.zeros(100, np.int64)
    assert fill_gaussian(halves, table.floors, table.guide, table.sure, 0, 1 / 50, out, 0, 0) == (0, 0, True)
    assert table.resolve(halves, ScriptedBits(words=[0])) == 4
    assert table.resolve(halves, ScriptedBits(words=[2**64 - 1])) == 3


def test_no_gaussian_tail_is_cut_off() -> None:
    """All-zero bits of V push the draw beyond the table."""
    table = _gaussian(1)
    draw = table.resolve(np.asarray([0], np.uint32), ScriptedBits(words=[0] * 3 + [1]))
    assert draw is not None
    assert draw > 2 * table.floors.size  # P(|Z| > 14) is below 2^-140


def test_whether_a_place_is_kept_is_refined_on_the_edge() -> None:
    """All half-words of a draw: the first picks a block near 3 sigma, the second the last place in it, and V at e^-x."""
    table = _gaussian(10**6)
    u = int(table.floors[700]) + 1  # block 700 or a little before
    h = int(np.count_nonzero(table.floors > u))
    place = (1 << table.low) - 1
    chance = math.exp(-place * (2 * (h << table.low) + place) / (2 * 10**6))
    known = 32 - table.low
    edge = int(chance * 2**known)
    halves = np.asarray([u << 1, edge << table.low | place], np.uint32)
    out = np.zeros(100, np.int64)
    rate = 1 / (2 * 10**6)
    assert fill_gaussian(halves, table.floors, table.guide, table.sure, table.low, rate, out, 0, 0)[2]
    assert table.resolve(halves, ScriptedBits(words=[0])) == (h << table.low) + place
    assert table.resolve(halves, ScriptedBits(words=[2**64 - 1])) is None
    assert chance < table.sure[h] + 1e-4  # and where it is sure, it is: 1 - x <= e^-x
    assert table.sure[h] < chance


def _gaussian(variance: object) -> _Table:
    exact = Fraction(variance)
    return _table(exact.numerator, exact.denominator)


def test_samples_have_shape_and_type() -> None:
    for law in (DiscreteLaplace(3), DiscreteGaussian(9)):
        assert law.sample((3, 5)).shape == (3, 5)
        assert law.sample(0).shape == (0,)
        assert law.sample().dtype == np.int64


@given(st.fractions(min_value=Fraction(1, 50), max_value=10**9, max_denominator=1000))
@settings(max_examples=60, deadline=None)
def test_laplace_forecasts_agree_with_one_another(scale: Fraction) -> None:
    law = DiscreteLaplace(scale)
    low, high = law.interval(0.95)
    assert low == -high
    inside = float(law.cdf(high) - law.cdf(low - 1))
    assert inside >= 0.95 - 1e-9
    if high > 0:
        assert float(law.cdf(high - 1) - law.cdf(low)) < 0.95 + 1e-9
    k = np.arange(-20, 21)
    assert np.allclose(np.diff(law.cdf(k)), law.pmf(k[1:]), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("variance", [Fraction(1, 10), 1, 30, 10**6])
def test_gaussian_forecasts_agree_with_one_another(variance: Fraction) -> None:
    law = DiscreteGaussian(variance)
    k = np.arange(-200_000, 200_001) if variance == 10**6 else np.arange(-5000, 5001)
    p = law.pmf(k)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (k * k * p).sum() == pytest.approx(law.variance, rel=1e-9)
    assert (abs(k) * p).sum() == pytest.approx(law.mean_abs, rel=1e-9)
    assert np.allclose(np.cumsum(p), law.cdf(k), atol=1e-12)


def test_large_gaussians_use_a_formula_that_meets_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    from oboro.noise import gaussian

    summed = _shape(1999**2, 1)
    _shape.cache_clear()
    monkeypatch.setattr(gaussian, "_SUMMED", 1000)
    formula = _shape(1999**2, 1)
    _shape.cache_clear()
    assert formula.total == pytest.approx(summed.total, rel=1e-12)
    assert formula.mean_abs == pytest.approx(summed.mean_abs, rel=1e-12)
    for k in (0.0, 1.0, 1000.0, 5000.0):
        assert float(formula.tail(np.asarray(k))) == pytest.approx(
            float(summed.tail(np.asarray(k))), rel=1e-9
        )


def test_moments_of_tiny_and_huge_scales_do_not_overflow() -> None:
    tiny, huge = DiscreteLaplace(Fraction(1, 10**400)), DiscreteLaplace(2**40)
    assert tiny.variance == 0
    assert tiny.interval(0.95) == (0, 0)
    assert tiny.sample(100).any() == False  # noqa: E712
    assert huge.variance == pytest.approx(2 * 2.0**80, rel=1e-12)
    assert DiscreteGaussian(Fraction(1, 10**400)).sample(100).any() == False  # noqa: E712
    assert DiscreteGaussian(Fraction(1, 10**400)).pmf(0) == 1


@pytest.mark.parametrize("bad", [0, -1, "nan", "inf", None, True, "one", float("nan"), 2**42, [1]])
def test_bad_parameters_are_refused_with_a_fix(bad: object) -> None:
    with pytest.raises(ParameterError) as caught:
        DiscreteLaplace(bad)  # type: ignore[arg-type]
    assert caught.value.fix
    with pytest.raises(ParameterError):
        DiscreteGaussian(2**81 if bad == 2**42 else bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="level"):
        DiscreteLaplace(1).interval(1.0)


def test_laws_are_values() -> None:
    assert DiscreteLaplace(0.1) == DiscreteLaplace("1/10")
    assert hash(DiscreteGaussian("0.25")) == hash(DiscreteGaussian(Fraction(1, 4)))
    assert DiscreteLaplace("0.5").to_dict() == {"law": "discrete Laplace", "scale": "0.5"}
