"""Exact draws: the right law, with power to see a wrong one, and the rare paths, forced."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from law_checks import Scripted, fits
from scipy.special import bdtr, pdtr

from oboro.errors import ParameterError
from oboro.noise import draws
from oboro.noise import draws as counting
from oboro.noise.bits import Bits
from oboro.noise.draws import (
    bernoulli,
    bernoulli_exp,
    binomial,
    choose,
    exponential_mechanism,
    permutation,
    shuffle,
    uniform_integer,
    uniform_integers,
)
from oboro.noise.lazy import Uniform, ball, precision

TOP = 1 << 63
LAST = (1 << 64) - 1


# -- integers


def test_uniform_integers_are_uniform() -> None:
    seen = np.bincount(uniform_integers(7, 1_000_000), minlength=7)
    assert fits(seen, np.full(7, 1 / 7))
    assert not fits(seen, np.array([1.03, 1, 1, 1, 1, 1, 0.97]) / 7)


def test_uniform_integers_reject_rather_than_fold() -> None:
    bits = Scripted([3 << 62, 1 << 62, 3 << 62, 2 << 62])
    assert uniform_integers(3, 2, bits).tolist() == [2, 1]
    assert bits.handed_out == 4


@given(st.integers(1, 1 << 63), st.integers(0, 20))
def test_uniform_integers_stay_below(below: int, size: int) -> None:
    out = uniform_integers(below, size)
    assert out.dtype == np.int64
    assert out.shape == (size,)
    assert all(0 <= int(value) < below for value in out)


@given(st.integers(1, 1 << 300))
def test_uniform_integer_stays_below(below: int) -> None:
    assert 0 <= uniform_integer(below) < below


def test_uniform_integer_is_uniform() -> None:
    bits = Bits()
    seen = Counter(uniform_integer(5, bits) for _ in range(50_000))
    assert fits([seen[i] for i in range(5)], np.full(5, 1 / 5))
    assert not fits([seen[i] for i in range(5)], np.array([1.1, 1, 1, 1, 0.9]) / 5)


def test_uniform_integers_take_the_widest_range_and_any_shape() -> None:
    assert uniform_integers(1 << 63, 1, Scripted([LAST])).tolist() == [(1 << 63) - 1]
    assert uniform_integers(1, (2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(ParameterError):
        uniform_integers((1 << 63) + 1, 1)
    with pytest.raises(ParameterError):
        uniform_integers(0, 1)


# -- orders and subsets


def test_permutations_are_uniform() -> None:
    bits = Bits()
    seen = Counter(tuple(permutation(4, bits).tolist()) for _ in range(50_000))
    counts = [seen[order] for order in permutations(range(4))]
    assert fits(counts, np.full(24, 1 / 24))
    assert not fits(counts, np.repeat([1.08, 0.92], 12) / 24)


def test_equal_words_are_all_drawn_again() -> None:
    bits = Scripted([5, 9, 5, 30, 10, 20])
    assert permutation(3, bits).tolist() == [1, 2, 0]
    assert bits.handed_out == 6


@given(st.lists(st.integers(0, 5), max_size=30))
def test_shuffle_keeps_the_items_and_the_original(items: list[int]) -> None:
    array = np.array(items, np.int64)
    assert sorted(shuffle(array).tolist()) == sorted(items)
    assert array.tolist() == items


def test_shuffle_moves_whole_rows() -> None:
    rows = np.arange(20).reshape(10, 2)
    assert sorted(shuffle(rows).tolist()) == rows.tolist()


@pytest.mark.parametrize("k", [2, 3])
def test_subsets_are_uniform(k: int) -> None:
    bits = Bits()
    seen = Counter(tuple(choose(5, k, bits).tolist()) for _ in range(20_000))
    counts = [seen[subset] for subset in combinations(range(5), k)]
    assert fits(counts, np.full(10, 1 / 10))
    assert not fits(counts, np.repeat([1.1, 0.9], 5) / 10)


@given(st.integers(0, 1 << 62), st.integers(0, 50))
def test_subsets_are_distinct_and_in_range(n: int, k: int) -> None:
    k = min(k, n)
    chosen = choose(n, k).tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == k
    assert all(0 <= value < n for value in chosen)


def test_a_repeated_number_is_drawn_again() -> None:
    assert choose(1 << 62, 3, Scripted([4 << 2, 4 << 2, 8 << 2, 8 << 2, 12 << 2])).tolist() == [4, 8, 12]


# -- coins


def test_coins_have_their_probability() -> None:
    for p in (Fraction(1, 3), Fraction(1, 100)):
        heads = int(bernoulli(p, 1_000_000).sum())
        assert fits([heads, 1_000_000 - heads], [float(p), 1 - float(p)])
        wrong = float(p) * (1.02 if p > Fraction(1, 10) else 1.15)
        assert not fits([heads, 1_000_000 - heads], [wrong, 1 - wrong])


def test_exponential_coins_have_their_probability() -> None:
    for x in (Fraction(1, 2), Fraction(3)):
        heads = int(bernoulli_exp(x, 1_000_000).sum())
        p = math.exp(-x)
        assert fits([heads, 1_000_000 - heads], [p, 1 - p])
        assert not fits([heads, 1_000_000 - heads], [1.06 * p, 1 - 1.06 * p])


def test_certain_coins() -> None:
    extreme = [0, LAST, TOP]
    assert bernoulli(1, 3, Scripted(extreme)).all()
    assert not bernoulli(0, 3, Scripted(extreme)).any()
    assert bernoulli_exp(0, 3, Scripted(extreme)).all()
    assert not bernoulli_exp(10**6, 3, Scripted(extreme)).any()
    assert bernoulli(Fraction(1, 2), (2, 2)).shape == (2, 2)
    with pytest.raises(ParameterError):
        bernoulli(Fraction(3, 2), 1)
    with pytest.raises(ParameterError):
        bernoulli_exp(-1, 1)


@pytest.mark.parametrize(
    "p", [Fraction(1, 3), Fraction(1, 3 << 64), 1 - Fraction(1, 3 << 64), Fraction(5, 7)]
)
def test_a_coin_at_its_threshold_is_settled_by_the_next_bits(p: Fraction) -> None:
    edge = math.floor(p * (1 << 64))
    within = math.floor((p * (1 << 64) - edge) * (1 << 64))
    for real in (p, lambda: ball(p)):
        assert bernoulli(real, 1, Scripted([edge, within - 1])).tolist() == [True]
        assert bernoulli(real, 1, Scripted([edge, within + 1])).tolist() == [False]
        assert bernoulli(real, 1, Scripted([edge, within, 0], rest=0)).tolist() == [True]
        assert bernoulli(real, 1, Scripted([edge, within, LAST], rest=0)).tolist() == [False]


def test_an_exponential_coin_at_its_threshold_is_settled_by_the_next_bits() -> None:
    with precision(200):
        edge = int((arb(-1).exp() * arb(2) ** 64).floor().unique_fmpz())
    assert bernoulli_exp(1, 3, Scripted([edge - 1, 0, edge + 1], rest=LAST)).tolist() == [True, True, False]
    assert bernoulli_exp(1, 1, Scripted([edge, 0])).tolist() == [True]
    assert bernoulli_exp(1, 1, Scripted([edge, LAST])).tolist() == [False]


def test_a_dyadic_coin_is_settled_by_64_bits() -> None:
    bits = Scripted([TOP - 1, TOP])
    assert bernoulli(Fraction(1, 2), 2, bits).tolist() == [True, False]
    assert bits.handed_out == 2


# -- counts


@pytest.mark.parametrize(("n", "p", "off"), [(12, 0.25, 1.1), (100, 0.5, 1.05), (30, 0.9, 0.97)])
@pytest.mark.few(1, "statistical tests")
def test_binomial_has_its_law(n: int, p: float, off: float) -> None:
    bits = Bits()
    seen = np.bincount([binomial(n, p, bits) for _ in range(4000)], minlength=n + 1)
    assert fits(seen, np.diff(bdtr(np.arange(n + 1), n, p), prepend=0))
    assert not fits(seen, np.diff(bdtr(np.arange(n + 1), n, p * off), prepend=0))


@pytest.mark.long("statistical tests")
def test_binomial_of_a_huge_n_and_a_real_p_has_its_law() -> None:
    bits, n = Bits(), 10**10
    mean = n * math.exp(-20)  # the Poisson law is within n p^2 = 4e-8 of it
    seen = np.bincount([binomial(n, lambda: arb(-20).exp(), bits) for _ in range(4000)], minlength=60)
    assert fits(seen, np.diff(pdtr(np.arange(seen.size), mean), prepend=0) + np.eye(seen.size)[-1] * 1e-9)
    assert not fits(seen, np.diff(pdtr(np.arange(seen.size), mean * 1.06), prepend=0))


def test_binomial_of_a_huge_mean() -> None:
    n = 1 << 62
    draws_ = np.array([binomial(n, Fraction(1, 2)) - n // 2 for _ in range(400)]) / (math.sqrt(n) / 2)
    assert abs(draws_.mean()) < 6 / math.sqrt(400)
    assert 0.6 < draws_.var() < 1.6  # six standard errors
    assert fits(np.histogram(draws_, [-99, -0.6745, 0, 0.6745, 99])[0], np.full(4, 0.25))


def test_binomial_at_the_ends() -> None:
    assert binomial(0, Fraction(1, 2)) == 0
    assert binomial(10, 0) == 0
    assert binomial(10, 1) == 10
    assert binomial(1 << 62, lambda: arb(-1000).exp()) == 0
    assert binomial(1 << 62, lambda: 1 - arb(-1000).exp()) == 1 << 62
    for n, p in ((-1, 0.5), ((1 << 62) + 1, 0.5), (3, 1.5), (3, -0.5)):
        with pytest.raises(ParameterError):
            binomial(n, p)


@given(st.integers(1, 60), st.fractions(min_value=Fraction(1, 10**6), max_value=1 - Fraction(1, 10**6)))
def test_the_binomial_proposal_covers_its_law(n: int, p: Fraction) -> None:
    mode, width = counting._mode_and_width(n, lambda: ball(p))
    mass = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    assert mode == min(math.floor((n + 1) * p), n)
    assert width * mass[mode] >= 1
    for k in range(n + 1):
        slab = abs(k - mode) // width
        assert mass[k] * Fraction(2) ** (slab - 1) <= mass[mode]


@pytest.mark.parametrize(
    ("n", "p"), [(9, Fraction(1, 2)), (9, Fraction(1, 10)), (9, Fraction(9, 10)), (1, Fraction(1, 2))]
)
def test_two_modes_are_no_trouble(n: int, p: Fraction) -> None:
    """(n+1)p is whole: a fuzzy enclosure never tells which of two equal values is the mode."""

    def fuzzy() -> object:
        return ball(p) + arb(0, 2.0**-200)

    mode, width = counting._mode_and_width(n, fuzzy)
    mass = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    assert mass[mode] == max(mass)
    assert width * mass[mode] >= 1


# -- choices


@pytest.mark.long("statistical tests")
def test_exponential_mechanism_has_its_law() -> None:
    scores = np.array([3, 1, 1, 7, 2])
    bits = Bits()
    seen = np.bincount(
        [exponential_mechanism(scores, Fraction(1, 2), bits=bits) for _ in range(20_000)], minlength=5
    )
    law, wrong = np.exp(-0.5 * scores), np.exp(-0.6 * scores)
    assert fits(seen, law / law.sum())
    assert not fits(seen, wrong / wrong.sum())


@pytest.mark.long("statistical tests")
def test_exponential_mechanism_counts_candidates() -> None:
    scores, counts = np.array([0, 40, 41, 45]), np.array([1, 1 << 58, 0, 1 << 62])
    bits = Bits()
    seen = np.bincount([exponential_mechanism(scores, 1, counts, bits) for _ in range(20_000)], minlength=4)
    law, wrong = counts * np.exp(-1.0 * scores), counts * np.exp(-0.99 * scores)
    assert seen[2] == 0
    assert fits(seen, law / law.sum())
    assert not fits(seen, wrong / wrong.sum())


def test_a_choice_at_an_edge_is_settled_by_the_next_bits() -> None:
    for count in (None, [1 << 62, 1 << 62]):
        assert exponential_mechanism([4, 4], 1, count, Scripted([TOP - 1, 5])) == 0
        assert exponential_mechanism([4, 4], 1, count, Scripted([TOP, 5])) == 1
    with precision(200):
        edge = int((arb(2) ** 64 / (1 + arb(-1).exp())).floor().unique_fmpz())  # C_0 / C = 1 / (1 + 1/e)
    below, above = Scripted([edge, 0]), Scripted([edge, LAST])
    assert exponential_mechanism([0, 1], 1, bits=below) == 0
    assert exponential_mechanism([0, 1], 1, bits=above) == 1
    assert below.handed_out == above.handed_out == 2


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1 << 62)), min_size=1, max_size=20),
    st.fractions(min_value=0, max_value=2),
    st.integers(0, LAST),
)
def test_float_bounds_and_balls_agree(items: list[tuple[int, int]], eta: Fraction, word: int) -> None:
    scores, counts = np.array(items, np.int64).T
    quick = exponential_mechanism(scores, eta, counts, Scripted([word], rest=77))
    above, weights = draws.candidates(scores, counts)
    assert quick == draws._choose_by_balls(above, weights, eta, Uniform(Scripted([], rest=77), word, 64))


def test_exponential_mechanism_at_the_ends() -> None:
    assert exponential_mechanism([1 << 62, 0, 1 << 62], 1) == 1
    assert exponential_mechanism([-5, (1 << 63) - 1], 3) == 0
    assert exponential_mechanism([900, 0, 1000], 1, [1, 0, 1]) == 0  # certain but for e^-100
    assert exponential_mechanism([1 << 40, 7], 0, [0, 5]) == 1
    assert exponential_mechanism([9], 1) == 0
    for scores, counts in (([], None), ([1.5], None), ([[1]], None), ([1], [0]), ([1, 2], [1]), ([1], [-1])):
        with pytest.raises(ParameterError):
            exponential_mechanism(scores, 1, counts)
