from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.errors import GuaranteeError, ParameterError
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, guarantee_from

some = st.fractions(min_value=0, max_value=20, max_denominator=1000)
small = st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 2), max_denominator=10**9)
guarantees: st.SearchStrategy[Guarantee] = st.one_of(
    st.builds(Pure, some),
    st.builds(Approx, some, small),
    st.builds(ZCDP, some),
    st.builds(Renyi, st.fractions(min_value=Fraction(11, 10), max_value=100, max_denominator=100), some),
)


def test_numbers_are_kept_exactly() -> None:
    assert Pure(0.1).eps == Fraction(1, 10)
    assert Pure("1/3") == Pure(Fraction(1, 3))
    assert repr(Approx("0.5", "1e-6")) == "Approx('0.5', '1e-6')"


@given(st.one_of(guarantees, st.builds(Conditional, guarantees, st.just("the parties do not collude"))))
def test_a_guarantee_reads_back(guarantee: Guarantee) -> None:
    assert guarantee_from(guarantee.to_dict()) == guarantee
    assert guarantee.covers(guarantee)
    assert str(guarantee)


@given(guarantees, guarantees, guarantees)
def test_covers_is_transitive(a: Guarantee, b: Guarantee, c: Guarantee) -> None:
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


def test_pure_implies_the_others_and_never_the_reverse() -> None:
    pure = Pure(1)
    assert Approx(1, 0).covers(pure)
    assert pure.covers(Approx(1, 0))
    assert ZCDP("0.5").covers(pure)
    assert not ZCDP("0.499").covers(pure)
    assert Renyi(2, 1).covers(pure)
    assert pure.to_renyi(Fraction(3, 2)) == Renyi(Fraction(3, 2), Fraction(3, 4))
    assert pure.to_renyi(5).eps == 1
    for weaker in (Approx(1, "1e-9"), ZCDP("1e-9"), Renyi(2, "1e-9")):
        assert not pure.covers(weaker)
    assert not ZCDP(9).covers(Approx(1, "1e-9"))
    assert not ZCDP(9).covers(Renyi(2, "1e-9"))
    assert not Renyi(2, 9).covers(Approx(1, "1e-9"))


def test_a_higher_order_covers_less() -> None:
    assert Renyi(2, 1).covers(Renyi(8, 1))
    assert not Renyi(8, 1).covers(Renyi(2, 1))
    with pytest.raises(GuaranteeError, match="higher"):
        Renyi(2, 1).to_renyi(3)


def test_reference_conversions() -> None:
    assert float(ZCDP("0.5").to_approx("1e-6", rule="simple").eps) == pytest.approx(5.7565217697, abs=1e-9)
    # Canonne, Kamath, Steinke: rho = 0.5 at delta = 1e-6 through the best order
    assert float(ZCDP("0.5").to_approx("1e-6").eps) == pytest.approx(5.2215344445, abs=1e-8)
    assert float(Renyi(8, 1).to_approx("1e-5", rule="simple").eps) == pytest.approx(
        1 + math.log(1e5) / 7, rel=1e-12
    )
    tight = 1 + math.log(1e5) / 7 + math.log(7 / 8) - math.log(8) / 7
    assert float(Renyi(8, 1).to_approx("1e-5").eps) == pytest.approx(tight, rel=1e-12)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=10, max_denominator=1000), small)
def test_conversion_rounds_up_and_tight_is_never_worse(rho: Fraction, delta: Fraction) -> None:
    simple, tight = ZCDP(rho).to_approx(delta, rule="simple"), ZCDP(rho).to_approx(delta)
    formula = float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta))
    assert float(simple.eps) >= formula * (1 - 1e-12)
    assert float(simple.eps) == pytest.approx(formula, rel=1e-6)
    assert tight.eps <= simple.eps * (1 + Fraction(1, 10**6))


@given(st.fractions(min_value=Fraction(11, 10), max_value=50, max_denominator=50), some, small)
def test_renyi_to_approx_never_claims_less_than_the_formula(
    order: Fraction, eps: Fraction, delta: Fraction
) -> None:
    a = float(order)
    formula = float(eps) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
    assert float(Renyi(order, eps).to_approx(delta).eps) >= min(formula, 0 if eps == 0 else formula) - 1e-9


def test_conversions_in_invalid_directions_are_refused() -> None:
    for wrong in (
        lambda: Approx(1, "1e-6").to_zcdp(),
        lambda: Approx(1, 0).to_renyi(2),
        lambda: Renyi(2, 1).to_zcdp(),
    ):
        with pytest.raises(GuaranteeError, match="does not imply"):
            wrong()
    with pytest.raises(GuaranteeError, match="smaller delta"):
        Approx(1, "1e-6").to_approx("1e-7")
    assert Approx(1, "1e-7").to_approx("1e-6") == Approx(1, "1e-6")


def test_conditional_never_becomes_unconditional() -> None:
    cond = Conditional(Pure(1), "A")
    assert not Pure(5).covers(cond)
    assert Conditional(Pure(1), "A").covers(Pure(1))
    assert Conditional(Pure(1), ["B", "A"]).covers(cond)
    assert not Conditional(Pure(1), "B").covers(cond)
    assert cond.to_zcdp() == Conditional(ZCDP("0.5"), "A")
    assert Conditional(cond, "B") == Conditional(Pure(1), ["A", "B"])
    assert "provided that A" in str(cond)
    for bad in ("", " ", [], [""]):
        with pytest.raises(ParameterError, match="assumption"):
            Conditional(Pure(1), bad)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Pure(-1),
        lambda: Approx(1, 1),
        lambda: Approx(1, -1),
        lambda: Renyi(1, 1),
        lambda: ZCDP("x"),
        lambda: Pure(None),
        lambda: ZCDP(1).to_approx(0),
        lambda: ZCDP(1).to_approx("1e-6", rule="best"),
        lambda: guarantee_from({}),
        lambda: guarantee_from({"kind": "pure"}),
        lambda: guarantee_from(3),
    ],
)
def test_bad_parameters_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError):
        wrong()  # type: ignore[operator]
