"""Float balls: the proved bounds hold against 200-bit arithmetic, and are not much too wide."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from oboro.noise import floatball as fb
from oboro.noise.lazy import Ball, ball, precision

PRECISION = 200
MANY = 20_000


def worst(function: Callable[[float], float], truth: Callable[[Ball], Ball], points: list[float]) -> float:
    """The largest relative error, in units of 2^-53."""
    largest = 0.0
    with precision(PRECISION):
        for x in points:
            true = truth(arb(x))
            if true == 0:
                assert function(x) == 0
            else:
                largest = max(largest, float((abs((arb(function(x)) - true) / true)).upper()) / fb.U)
    return largest


def near(point: float, steps: int = 20) -> list[float]:
    """The floats around a point."""
    return [point + i * math.ulp(point) for i in range(-steps, steps + 1)]


def test_log_keeps_its_bound() -> None:
    points = [random.random() for _ in range(MANY)]
    points += [math.exp(random.uniform(-690, 690)) for _ in range(MANY)]
    points += [1 + random.uniform(-1, 1) * 2.0 ** -random.randint(1, 52) for _ in range(MANY)]
    points += (
        near(math.sqrt(0.5)) + near(math.sqrt(2)) + near(1.0) + near(2.0) + [2.0**-1000, 2.0**1000, 2.0**-64]
    )
    error = worst(fb.log, lambda x: x.log(), points)
    assert 2 * fb.U < error * fb.U <= fb.LOG_ERROR


def test_exp_keeps_its_bound() -> None:
    points = [random.uniform(-700, 700) for _ in range(MANY)] + [random.uniform(-1, 1) for _ in range(MANY)]
    points += [x for n in range(-1000, 1000, 7) for x in near((n + 0.5) * math.log(2), 2)]
    points += [0.0, -0.0, 700.0, -700.0, 1e-300, -1e-20]
    error = worst(fb.exp, lambda x: x.exp(), points)
    assert fb.U < error * fb.U <= fb.EXP_ERROR


@pytest.mark.parametrize("which", [0, 1])
def test_sine_and_cosine_keep_their_bound(which: int) -> None:
    points = [random.uniform(0, 2) for _ in range(MANY)] + [
        2.0 ** -random.uniform(0, 90) for _ in range(MANY)
    ]
    points += [x for i in range(1, 8) for x in near(i / 4)] + [0.0, 2.0, math.nextafter(2, 0)]
    error = worst(lambda x: fb.sin_cos_pi(x)[which], lambda x: x.cos_pi() if which else x.sin_pi(), points)
    assert fb.U < error * fb.U <= fb.TRIG_ERROR


def test_the_constants_are_right() -> None:
    with precision(PRECISION):
        low = arb(2).log() - arb(fb._LN2_HIGH)
        assert abs(arb(fb._LN2_LOW) / low - 1) <= fb.U
        assert abs(arb(math.pi) / arb.pi() - 1) <= 0.36 * fb.U
    assert (fb._LN2_HIGH * 2**40).is_integer()


# -- balls

MIDS = (
    st.floats(-1e6, 1e6) | st.floats(-1e-6, 1e-6) | st.sampled_from([0.0, 1.0, -1.0, 1e-320, 1e300, -1e-300])
)
RADII = st.sampled_from([0.0, 1e-300, 2.0**-60, 1e-9, 0.25, 3.0])
PLACES = st.sampled_from([-1, 1]) | st.fractions(min_value=-1, max_value=1, max_denominator=100)


def holds(ball_: tuple[float, float], true: Ball) -> bool:
    mid, rad = ball_
    return not rad < math.inf or bool(abs(arb(mid) - true) <= arb(rad))


def inside(mid: float, rad: float, place: Fraction) -> Ball:
    return arb(mid) + arb(rad) * ball(place)


@given(MIDS, RADII, PLACES, MIDS, RADII, PLACES)
def test_arithmetic_encloses(
    a: float, a_rad: float, s: Fraction, b: float, b_rad: float, t: Fraction
) -> None:
    with precision(4000):
        x, y = inside(a, a_rad, s), inside(b, b_rad, t)
        assert holds(fb.add_ball(a, a_rad, b, b_rad), x + y)
        assert holds(fb.mul_ball(a, a_rad, b, b_rad), x * y)
        if y != 0:
            assert holds(fb.div_ball(a, a_rad, b, b_rad), x / y)


@given(MIDS, RADII, PLACES)
def test_functions_enclose(a: float, a_rad: float, s: Fraction) -> None:
    with precision(4000):
        x = inside(a, a_rad, s)
        if abs(a) < 1e4:
            assert holds(fb.exp_ball(a, a_rad), x.exp())
        if x > 0:
            assert holds(fb.sqrt_ball(a, a_rad), x.sqrt())
            assert holds(fb.log_ball(a, a_rad), x.log())
        sine, sine_rad, cosine, cosine_rad = fb.sin_cos_pi_ball(a, a_rad)
        assert holds((sine, sine_rad), x.sin_pi())
        assert holds((cosine, cosine_rad), x.cos_pi())


def test_radii_are_not_absurd() -> None:
    assert fb.add_ball(1.0, 0.0, 2.0, 0.0)[1] < 4 * fb.U
    assert fb.mul_ball(3.0, 3 * fb.U, 5.0, 5 * fb.U)[1] < 46 * fb.U
    assert fb.div_ball(3.0, 0.0, 5.0, 0.0)[1] < fb.U
    assert fb.sqrt_ball(4.0, 4 * fb.U)[1] < 5 * fb.U
    assert fb.log_ball(10.0, 0.0)[1] < 14 * fb.U
    assert fb.exp_ball(1.0, fb.U)[1] < 12 * fb.U
    assert fb.sin_cos_pi_ball(0.25, 0.0)[1] < 3 * fb.U


def test_what_is_not_known_is_infinite_or_not_a_number() -> None:
    nothing = math.inf
    for rad in (
        fb.div_ball(1.0, 0.0, 0.5, 0.5)[1],
        fb.div_ball(1.0, 0.0, 0.0, 0.0)[1],
        fb.sqrt_ball(1.0, 1.0)[1],
        fb.sqrt_ball(-1.0, 0.0)[1],
        fb.log_ball(0.0, 0.0)[1],
        fb.log_ball(1.0, 1.0)[1],
        fb.log_ball(math.inf, 1.0)[1],
        fb.exp_ball(701.0, 0.0)[1],
        fb.exp_ball(math.nan, 0.0)[1],
        fb.exp_ball(0.0, 0.6)[1],
        fb.sin_cos_pi_ball(2.5, 0.0)[1],
        fb.mul_ball(1e200, 0.0, 1e200, 0.0)[1],
        fb.mul_ball(0.0, 0.0, 1.0, nothing)[1],
        fb.add_ball(1e308, 0.0, 1e308, 0.0)[1],
    ):
        assert not rad < nothing


@given(st.integers(0, (1 << 64) - 1))
def test_a_word_becomes_a_ball_of_all_its_reals(word: int) -> None:
    mid, rad = fb.unit_ball(np.uint64(word))
    for end in (Fraction(word, 1 << 64), Fraction(word + 1, 1 << 64)):
        assert abs(Fraction(mid) - end) <= Fraction(rad)
    assert rad <= (mid + 2.0**-11) * fb.U * 1.001


@given(
    st.fractions() | st.sampled_from([Fraction(10) ** 400, Fraction(10) ** -400, Fraction(0), Fraction(1, 3)])
)
def test_a_rational_becomes_a_float_ball(number: Fraction) -> None:
    with precision(128):
        mid, rad = fb.float_ball(ball(number))
    if rad < math.inf:
        assert abs(Fraction(mid) - number) <= Fraction(rad)
        assert rad <= abs(mid) * 3 * fb.U + 2 * fb.TINY
    else:
        assert abs(number) > 1e300
    if number == int(number) and abs(number) < 2**53:
        assert (mid, rad) == (number, 0)


def test_running_sums_of_weights_are_bounded() -> None:
    scores = np.array([0, 3, 700, 10**6, 1, 1 << 62], np.uint64)
    counts = np.array([1, 1 << 62, 1 << 62, 1 << 62, 0, 5], np.int64)
    eta = Fraction(7, 5)
    with precision(PRECISION):
        low, high = fb.cumulative_weights(scores, counts, *fb.float_ball(ball(eta)))
        total = arb(0)
        for score, count, below, above in zip(scores, counts, low, high, strict=True):
            total += int(count) * ball(-eta * int(score)).exp()
            assert arb(float(below)) <= total
            assert total <= arb(float(above))
            assert above <= below * (1 + 2.0**-45)
