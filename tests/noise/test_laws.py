"""Laws: the two ways to evaluate each agree, and the forecasts are right."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from oboro.errors import ParameterError
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits
from oboro.noise.laws import Cauchy, Laplace, Law, Normal, PositiveStable, StudentT, interval
from oboro.noise.lazy import Uniform, precision

LAWS: list[Law] = [
    Cauchy(),
    Laplace(),
    Normal(),
    StudentT(Fraction(2)),
    StudentT(Fraction(7, 3)),
    StudentT(Fraction(1, 10)),
    StudentT(Fraction(1000)),
    PositiveStable(Fraction(1, 2)),
    PositiveStable(Fraction(9, 10)),
    PositiveStable(Fraction(1, 5)),
]
LAST = (1 << 64) - 1
HALF = 1 << 63
EDGES = [
    0,
    1,
    2,
    1 << 20,
    1 << 62,
    HALF - 1,
    HALF,
    HALF + 1,
    HALF + (1 << 62),
    LAST - (1 << 20),
    LAST - 1,
    LAST,
]


def check(law: Law, words: list[list[int]]) -> None:
    """Each float ball contains the law's value at reals that begin with these words: both ends and between."""
    bits, more = Bits(), 300
    mid, rad = law.enclose(np.array(words, np.uint64))
    with precision(900):
        for i, column in enumerate(zip(*words, strict=True)):
            for tail in (0, (1 << more) - 1, bits.integer(more)) if rad[i] < math.inf else ():
                point = law.ball(*(Uniform(bits, (word << more) | tail, 64 + more).ball() for word in column))
                assert not point.is_finite() or arb(float(mid[i]), float(rad[i])).contains(point), (
                    law,
                    column,
                )


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.few(4, "laws")
def test_float_balls_contain_the_ideal_value(law: Law) -> None:
    random = Bits().words(law.uniforms * 1000).reshape(law.uniforms, -1)
    check(law, random.tolist())
    extreme = np.stack(np.meshgrid(*[np.array(EDGES, np.uint64)] * law.uniforms)).reshape(law.uniforms, -1)
    check(law, extreme.tolist())
    tails = [[int(w) >> int(s) for w, s in zip(row, np.arange(1000) % 64, strict=True)] for row in random]
    check(law, tails)
    check(law, [[LAST - word for word in row] for row in tails])


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_float_balls_are_narrow_for_nearly_all_draws(law: Law) -> None:
    mid, rad = law.enclose(Bits().words(law.uniforms * 10_000).reshape(law.uniforms, -1))
    assert np.isfinite(rad).mean() > 0.9  # StudentT(1/10) leaves the floats; the others do not
    assert np.median(rad / abs(mid)) < 4000 * fb.U  # and far fewer but for StudentT(1000)


@pytest.mark.parametrize("law", [Cauchy(), Laplace()], ids=repr)
@given(word=st.integers(1 << 44, LAST - (1 << 44)))
def test_one_uniform_means_the_quantile_function(law: Law, word: int) -> None:
    mid, _ = law.enclose(np.array([[word]], np.uint64))
    assert mid[0] == pytest.approx(law.quantile(word / 2**64), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_ball_shrinks_to_a_point_as_bits_come(law: Law) -> None:
    bits = Bits()
    uniforms = [Uniform(bits, bits.integer(64), 64) for _ in range(law.uniforms)]
    with precision(600):
        before = law.ball(*(u.ball() for u in uniforms))
        for u in uniforms:
            u.extend(192)
        after = law.ball(*(u.ball() for u in uniforms))
    assert before.contains(after)
    assert after.rel_accuracy_bits() > 180


def test_a_laplace_ball_across_the_median_holds_both_sides() -> None:
    for known in (0, 64):
        across = Uniform(Bits(), (1 << known) // 2, known).ball() if known else arb(0.5, 0.25)
        assert Laplace().ball(across).contains(arb(0))
    assert Laplace().ball(arb(0.5, 0.25)).contains(arb(0.5).log())
    assert Laplace().ball(arb(0.5, 0.25)).contains(-arb(0.5).log())


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.77, 0.99])
def test_quantile_inverts_cdf(law: Law, p: float) -> None:
    assert law.cdf(law.quantile(p)) == pytest.approx(p, rel=1e-6)


def test_known_values() -> None:
    assert interval(Normal(), 0.95) == pytest.approx((-1.959964, 1.959964), abs=1e-6)
    assert interval(Laplace(), 0.95) == pytest.approx((-math.log(20), math.log(20)))
    assert interval(Cauchy(), 0.5) == pytest.approx((-1, 1))
    assert StudentT(Fraction(2)).cdf(1.0) == pytest.approx(0.5 + 1 / (2 * math.sqrt(3)))
    for x in (0.01, 0.3, 5.0, 1e8):  # the law of index 1/2 is Lévy's
        assert PositiveStable(Fraction(1, 2)).cdf(x) == pytest.approx(
            math.erfc(1 / (2 * math.sqrt(x))), rel=1e-9
        )
    assert PositiveStable(Fraction(1, 2)).cdf(-1.0) == 0


@pytest.mark.parametrize("alpha", [Fraction(1, 5), Fraction(1, 2), Fraction(9, 10)])
def test_the_stable_law_has_its_laplace_transform(alpha: Fraction) -> None:
    mid, _ = PositiveStable(alpha).enclose(Bits().words(2_000_000).reshape(2, -1))
    for s in (0.5, 1.0, 2.0):
        values = np.exp(-s * mid)
        assert abs(values.mean() - math.exp(-(s ** float(alpha)))) < 6 * values.std() / 1000


def test_parameters_are_checked_and_exact() -> None:
    assert StudentT(Fraction(3)) == StudentT(3)  # type: ignore[arg-type]
    assert PositiveStable("0.5").alpha == Fraction(1, 2)  # type: ignore[arg-type]
    for wrong in (0, 1, 2, -1):
        with pytest.raises(ParameterError):
            PositiveStable(Fraction(wrong))
    with pytest.raises(ParameterError):
        StudentT(Fraction(0))
