"""Certified rounding: exactly the ideal value's cell, whatever the scale, on one public grid."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from law_checks import Scripted, fits

from oboro.arrays import Floats, Words
from oboro.errors import ParameterError
from oboro.noise import rounding
from oboro.noise.bits import Bits
from oboro.noise.laws import Cauchy, Laplace, Law, Normal, PositiveStable, StudentT
from oboro.noise.lazy import Ball, precision
from oboro.noise.rounding import round_to_grid, sample_rounded

LAWS: list[Law] = [Cauchy(), Laplace(), Normal(), StudentT(Fraction(3)), PositiveStable(Fraction(1, 2))]
HALF = 1 << 63
LAST = (1 << 64) - 1


@pytest.fixture(autouse=True)
def compiled_however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few draws are settled without the compiled loops; here those are what is tried."""
    monkeypatch.setattr(rounding, "_FEW", 0)


@dataclass(frozen=True)
class Undecided:
    """A law whose float balls never know: everything goes the slow way."""

    law: Law

    @property
    def uniforms(self) -> int:
        return self.law.uniforms

    def ball(self, *u: Ball) -> Ball:
        return self.law.ball(*u)

    def enclose(self, words: Words) -> tuple[Floats, Floats]:
        return np.zeros(words.shape[1]), np.full(words.shape[1], math.inf)

    def cdf(self, x: float) -> float:
        return self.law.cdf(x)

    def quantile(self, p: float) -> float:
        return self.law.quantile(p)


def cells(law: Law, scale: float, start: float, stop: float, centre: float = 0.0) -> list[float]:
    """P(index = k) for k from start to stop, and what is left."""
    edges = [law.cdf((k - 0.5 - centre) / scale) for k in np.arange(start, stop + 2)]
    inner = np.diff(edges)
    return [*inner, 1 - inner.sum()]


def tally(indices: np.ndarray, start: int, stop: int) -> list[int]:
    inner = indices[(indices >= start) & (indices <= stop)] - start
    return [*np.bincount(inner, minlength=stop - start + 1), indices.size - inner.size]


# -- the law


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("centre", [Fraction(0), Fraction(7, 3)])
def test_cells_have_their_probabilities(law: Law, centre: Fraction) -> None:
    draws = sample_rounded(law, 2_000_000, scale=7, step=1, centre=centre)
    seen = tally(draws, -30, 60)
    assert fits(seen, cells(law, 7, -30, 60, float(centre)))
    assert not fits(seen, cells(law, 7 * 1.02, -30, 60, float(centre)))
    assert not fits(seen, cells(law, 7 / 1.02, -30, 60, float(centre)))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.few(2, "laws")
def test_the_slow_way_has_the_same_law(law: Law) -> None:
    draws = sample_rounded(Undecided(law), 10_000, scale=2, step=1)
    assert fits(tally(draws, -5, 9), cells(law, 2, -5, 9))
    assert not fits(tally(draws, -5, 9), cells(law, 2.6, -5, 9))


def test_one_draw_has_the_same_law_at_an_irrational_scale() -> None:
    bits = Bits()
    draws = np.array(
        [
            round_to_grid(Cauchy(), centre=0, scale=lambda: arb(2).sqrt(), step="0.5", bits=bits)
            for _ in range(8000)
        ]
    )
    assert fits(tally(draws, -9, 9), cells(Cauchy(), 2 * math.sqrt(2), -9, 9))
    assert not fits(tally(draws, -9, 9), cells(Cauchy(), 2 * math.sqrt(2) * 1.3, -9, 9))


def test_many_draws_at_an_irrational_scale() -> None:
    draws = sample_rounded(Normal(), 1_000_000, scale=lambda: arb(2).sqrt(), step=Fraction(1, 3))
    assert fits(tally(draws, -20, 20), cells(Normal(), 3 * math.sqrt(2), -20, 20))
    assert not fits(tally(draws, -20, 20), cells(Normal(), 3 * 1.43, -20, 20))


# -- fast and slow, from the same bits


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1), Fraction(10**6, 7), Fraction(1 << 46)])
def test_fast_and_slow_agree(law: Law, scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Bits().words(law.uniforms * 500).tolist()
    fast = sample_rounded(
        law, 500, scale=scale, step=1, centre=Fraction(1, 3), bits=Scripted(words, rest=12345)
    )
    monkeypatch.setattr(rounding, "_FEW", 500)
    few = sample_rounded(
        law, 500, scale=scale, step=1, centre=Fraction(1, 3), bits=Scripted(words, rest=12345)
    )
    assert few.tolist() == fast.tolist()
    monkeypatch.setattr(rounding, "_FEW", 0)
    slow = sample_rounded(
        Undecided(law), 500, scale=scale, step=1, centre=Fraction(1, 3), bits=Scripted(words, rest=12345)
    )
    assert fast.tolist() == slow.tolist()
    rows = [words[i::500] for i in range(500)]
    one = [
        round_to_grid(law, centre=Fraction(1, 3), scale=scale, step=1, bits=Scripted(row, rest=12345))
        for row in rows
    ]
    wrapped = [(k + HALF) % (1 << 64) - HALF for k in one]
    assert fast.tolist() == wrapped


@settings(max_examples=200)
@given(
    word=st.integers(0, LAST),
    centre=st.fractions(max_denominator=1000),
    scale=st.fractions(min_value=0, max_denominator=10**6),
    step=st.fractions(min_value=Fraction(1, 1000), max_value=1000),
)
def test_the_answer_is_the_ideal_one(word: int, centre: Fraction, scale: Fraction, step: Fraction) -> None:
    """Against the definition, with 400 more bits of the uniform at once."""
    k = round_to_grid(Laplace(), centre=centre, scale=scale, step=step, bits=Scripted([word], rest=LAST // 3))
    fine = word
    for _ in range(6):
        fine = (fine << 64) | (LAST // 3)
    with precision(1200):
        u = arb(2 * fine + 1) / arb(2) ** 449
        z = Laplace().ball(u)
        x = (
            arb(centre.numerator) / centre.denominator + arb(scale.numerator) / scale.denominator * z
        ) * step.denominator
        x = x / step.numerator
        assert not x < arb(2 * k - 1) / 2
        assert not x > arb(2 * k + 1) / 2


# -- edges


@pytest.mark.parametrize("law", [Cauchy(), Laplace()], ids=repr)
@pytest.mark.parametrize("centre", [Fraction(1, 2), Fraction(-7, 2)])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 10**300)])
def test_a_centre_on_an_edge_is_settled_by_the_sign(law: Law, centre: Fraction, scale: Fraction) -> None:
    up = math.floor(centre + Fraction(1, 2))
    for word, rest, expected in (
        (HALF - 1, 0, up - 1),
        (HALF, 1, up),
        (HALF - 5, 7, up - 1),
        (HALF + 5, 7, up),
    ):
        assert (
            round_to_grid(law, centre=centre, scale=scale, step=1, bits=Scripted([word], rest=rest))
            == expected
        )
        many = sample_rounded(law, 1, scale=scale, step=1, centre=centre, bits=Scripted([word], rest=rest))
        assert many.tolist() == [expected]


def test_bits_at_an_edge_are_followed_by_more_of_the_same_uniform() -> None:
    with precision(400):  # the uniform at which Laplace noise of scale 1 is exactly 3/2
        edge = int(((1 - (-arb(3) / 2).exp() / 2) * arb(2) ** 192).floor().unique_fmpz())
    first, second, third = edge >> 128, (edge >> 64) & LAST, edge & LAST
    for last, expected in ((third - 1, 1), (third + 1, 2)):
        for draw in (
            lambda bits: round_to_grid(Laplace(), centre=0, scale=1, step=1, bits=bits),
            lambda bits: int(sample_rounded(Laplace(), 1, scale=1, step=1, bits=bits)[0]),
        ):
            bits = Scripted([first, second, 0, last])  # 64 bits, 64 more, then 128, the low word first
            assert draw(bits) == expected
            assert bits.handed_out == 4


def test_uniforms_that_begin_with_zeros_or_ones_are_drawn_further() -> None:
    for law in LAWS:
        for word in (0, LAST):
            script = [word] * law.uniforms
            k = round_to_grid(law, centre=0, scale=1, step=1, bits=Scripted(script, rest=LAST // 7))
            many = sample_rounded(law, 1, scale=1, step=1, bits=Scripted(script, rest=LAST // 7))
            assert (k - int(many[0])) % (1 << 64) == 0


# -- scales


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_tiny_scale_gives_the_rounded_centre_and_a_huge_one_is_not_cut(law: Law) -> None:
    tiny, huge = Fraction(1, 10**300), Fraction(10**300)
    assert round_to_grid(law, centre=Fraction(26, 10), scale=tiny, step=1) == 3
    assert sample_rounded(law, 5, scale=tiny, step=1, centre=Fraction(26, 10)).tolist() == [3] * 5
    far = [round_to_grid(law, centre=0, scale=huge, step=1) for _ in range(5)]
    assert max(abs(k) for k in far) > 10**290
    assert len({k % 1000 for k in far} | {k % 1009 for k in far}) > 2  # the low digits are drawn too
    assert sample_rounded(law, 5, scale=huge, step=1).dtype == np.int64


def test_indices_wrap_modulo_2_to_the_64() -> None:
    words = Bits().words(50).tolist()
    scale = Fraction(1 << 70)
    many = sample_rounded(Laplace(), 50, scale=scale, step=1, bits=Scripted(words, rest=9)).tolist()
    one = [
        round_to_grid(Laplace(), centre=0, scale=scale, step=1, bits=Scripted([word], rest=9))
        for word in words
    ]
    assert max(map(abs, one)) > 1 << 64
    assert all((a - b) % (1 << 64) == 0 for a, b in zip(many, one, strict=True))


@pytest.mark.parametrize(
    ("centre", "step", "index"),
    [
        (Fraction(5, 2), 1, 3),
        (Fraction(-5, 2), 1, -2),
        (Fraction(1, 6), Fraction(1, 3), 1),
        (Fraction(49, 100), 1, 0),
        (10**400, Fraction(1, 7), 7 * 10**400),
        (Fraction(1, 2) + 10**400, 1, 10**400 + 1),
    ],
)
def test_a_scale_of_zero_rounds_halves_up(centre: Fraction, step: Fraction, index: int) -> None:
    for scale in (0, lambda: arb(0)):
        assert round_to_grid(Normal(), centre=centre, scale=scale, step=step) == index
        wrapped = (index + HALF) % (1 << 64) - HALF
        assert sample_rounded(Normal(), 3, scale=scale, step=step, centre=centre).tolist() == [wrapped] * 3


def test_reals_for_centre_and_scale() -> None:
    def centre() -> Ball:
        return arb.pi()

    k = round_to_grid(Laplace(), centre=centre, scale=lambda: arb(2).sqrt() / 10**9, step="0.001")
    assert k == 3142


# -- the grid


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_whole_steps_of_the_centre_move_the_index_and_nothing_else(law: Law) -> None:
    words = Bits().words(law.uniforms * 1000).tolist()
    step = Fraction(1, 10)

    def draw(centre: object) -> np.ndarray:
        return sample_rounded(law, 1000, scale=3, step=step, centre=centre, bits=Scripted(words, rest=5))  # type: ignore[arg-type]

    base = draw(0)
    assert (draw(Fraction(17, 10)) - base == 17).all()
    indices = np.arange(1000) - 500
    assert (draw(indices) - base == indices).all()
    assert (draw(np.full(1000, (1 << 63) - 1)) - base == (1 << 63) - 1).all()  # wraps


def test_shapes_and_refusals() -> None:
    assert sample_rounded(Cauchy(), (3, 4), scale=1, step=1).shape == (3, 4)
    assert sample_rounded(Cauchy(), 0, scale=1, step=1).shape == (0,)
    assert sample_rounded(Cauchy(), (2, 2), scale=1, step=1, centre=np.zeros((2, 2), np.int64)).shape == (
        2,
        2,
    )
    refused: list[Callable[[], object]] = [
        lambda: sample_rounded(Cauchy(), 2, scale=-1, step=1),
        lambda: sample_rounded(Cauchy(), 2, scale=1, step=0),
        lambda: sample_rounded(Cauchy(), 2, scale=1, step=1, centre=np.zeros(3, np.int64)),
        lambda: sample_rounded(Cauchy(), 2, scale=1, step=1, centre=np.zeros(2)),  # type: ignore[arg-type]
        lambda: round_to_grid(Cauchy(), centre=0, scale=-1, step=1),
        lambda: round_to_grid(Cauchy(), centre=0, scale=1, step=-1),
    ]
    for call in refused:
        with pytest.raises(ParameterError):
            call()


def test_threads_take_turns_with_the_precision() -> None:
    """python-flint keeps one for the process: without turns, one thread would compute at another's, and leave it behind."""
    seen = []

    def other() -> None:
        with precision(300):
            seen.append(ctx.prec)

    before, thread = ctx.prec, threading.Thread(target=other)
    with precision(200):
        thread.start()
        thread.join(0.05)
        assert (ctx.prec, seen) == (200, [])
    thread.join()
    assert (ctx.prec, seen) == (before, [300])
