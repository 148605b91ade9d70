"""The privacy filter in each currency, exactly."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_help import assert_sound, spend

from oboro.errors import BudgetError, GuaranteeError, ParameterError
from oboro.ledger import Ledger
from oboro.ledger.replay import added, affords, amounts, nothing, remaining
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, Unit


def ledger_of(folder: Path, budget: Guarantee) -> Ledger:
    return Ledger.create(folder / "x.ledger", dataset="x", unit=Unit.row(), budget=budget)


def test_approx_counts_eps_and_delta(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, Approx(1, "1e-6"))
    spend(ledger, Approx("0.5", "4e-7"))
    spend(ledger, Pure("0.25"))
    assert ledger.spent == Approx("0.75", "4e-7")
    assert ledger.remaining == Approx("0.25", "6e-7")
    with pytest.raises(BudgetError):  # delta alone is too much
        spend(ledger, Approx("0.1", "6.000001e-7"))
    with pytest.raises(BudgetError):  # eps alone is too much
        spend(ledger, Approx("0.26", 0))
    with pytest.raises(BudgetError):  # together more than a probability can be
        spend(ledger, Approx("0.1", "0.9999999"))
    with pytest.raises(GuaranteeError):
        spend(ledger, ZCDP("0.1"))
    assert_sound(ledger)


def test_a_pure_spend_counts_half_its_square_in_rho(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, ZCDP("0.5"))
    spend(ledger, Pure("0.5"))
    spend(ledger, ZCDP("0.375"))
    assert (ledger.spent, ledger.remaining) == (ZCDP("0.5"), ZCDP(0))
    with pytest.raises(GuaranteeError):
        spend(ledger, Approx(1, "1e-6"))
    assert_sound(ledger)


def test_renyi_counts_at_the_order_of_the_budget(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, Renyi(8, 2))
    spend(ledger, ZCDP("0.125"))
    spend(ledger, Renyi(16, "0.5"))
    assert ledger.spent == Renyi(8, "1.5")
    with pytest.raises(GuaranteeError):
        spend(ledger, Renyi(4, "0.1"))
    assert_sound(ledger)


def test_a_pure_ledger_takes_nothing_weaker(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, Pure(1))
    for weaker in (Approx("0.1", "1e-9"), ZCDP("0.1"), Renyi(2, "0.1")):
        with pytest.raises(GuaranteeError):
            spend(ledger, weaker)
    assert ledger.head().position == 0


def test_a_conditional_plan_needs_a_ledger_with_its_assumption(tmp_path: Path) -> None:
    plain = ledger_of(tmp_path, Pure(1))
    with pytest.raises(GuaranteeError, match="assumption"):
        spend(plain, Conditional(Pure("0.1"), "no collusion"))
    assert plain.spent == Pure(0)


def test_what_a_conditional_ledger_has_spent_is_conditional(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, Conditional(Pure(1), ["no collusion", "bounded rows"]))
    assert spend(ledger, Conditional(Pure("0.25"), "no collusion")).cost == Conditional(
        Pure("0.25"), "no collusion"
    )
    assert spend(ledger, Pure("0.25")).cost == Pure("0.25")
    assert ledger.spent == Conditional(Pure("0.5"), ["no collusion", "bounded rows"])
    assert ledger.remaining == ledger.spent
    with pytest.raises(GuaranteeError, match="assumption"):
        spend(ledger, Conditional(Pure("0.1"), "something else"))
    assert_sound(ledger)


@pytest.mark.parametrize("cost", [Pure(0), Approx(0, 0), ZCDP(0)])
def test_a_plan_that_costs_nothing_is_refused(tmp_path: Path, cost: Guarantee) -> None:
    ledger = ledger_of(tmp_path, type(cost)(1, "0.1") if isinstance(cost, Approx) else type(cost)(1))
    with pytest.raises(GuaranteeError, match="costs nothing"):
        spend(ledger, cost)


@pytest.mark.parametrize(
    "budget", [Pure(0), Approx(0, "1e-6"), ZCDP(0), Renyi(2, 0), Conditional(Pure(0), "x"), 2, None]
)
def test_a_budget_must_be_positive(tmp_path: Path, budget: Guarantee) -> None:
    with pytest.raises(ParameterError):
        ledger_of(tmp_path, budget)
    assert not list(tmp_path.iterdir())


def test_a_total_that_could_not_be_read_back_is_refused_before_it_is_spent(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, Pure(10))
    refused = 0
    for power in range(3, 4000, 400):  # denominators without a common factor: their digits add up
        try:
            spend(ledger, Fraction(1, 2**power - 1))
        except GuaranteeError:
            refused += 1
    assert refused
    assert_sound(ledger)
    with pytest.raises(GuaranteeError, match="too long"):
        spend(ledger, Fraction(1, 10**3990))
    spend(ledger, Fraction(ledger.spent.eps.denominator - 1, ledger.spent.eps.denominator))  # type: ignore[attr-defined]
    assert_sound(ledger)


fractions = st.fractions(min_value=0, max_value=2, max_denominator=10**9)
small = st.fractions(min_value=0, max_value=Fraction(999, 1000), max_denominator=10**12)
of_one_kind = st.one_of(
    st.lists(st.builds(Pure, fractions), min_size=1, max_size=30),
    st.lists(st.builds(ZCDP, fractions), min_size=1, max_size=30),
    st.lists(st.builds(Approx, fractions, small), min_size=1, max_size=30),
    st.lists(st.builds(Renyi, st.just(8), fractions), min_size=1, max_size=30),
)


@pytest.mark.long("sequences by chance")
@given(of_one_kind)
def test_no_sequence_of_costs_passes_the_budget(costs: list[Guarantee]) -> None:
    budget, *asked = costs
    spent = nothing(budget)
    granted = [Fraction(0)] * len(amounts(budget))
    for cost in asked:
        fits = all(g + c <= b for g, c, b in zip(granted, amounts(cost), amounts(budget), strict=True))
        assert affords(budget, spent, cost) == fits
        if fits:
            spent = added(budget, spent, cost)
            granted = [g + c for g, c in zip(granted, amounts(cost), strict=True)]
        left = remaining(budget, spent)
        assert amounts(spent) == tuple(granted)
        assert [s + r for s, r in zip(amounts(spent), amounts(left), strict=True)] == list(amounts(budget))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.fractions(min_value=Fraction(1, 10**6), max_value=1, max_denominator=10**6), max_size=12))
def test_a_real_ledger_grants_exactly_what_fits(costs: list[Fraction]) -> None:
    with tempfile.TemporaryDirectory() as folder, ledger_of(Path(folder), Pure(2)) as ledger:
        granted = Fraction(0)
        for cost in costs:
            try:
                spend(ledger, cost)
                granted += cost
            except BudgetError:
                assert granted + cost > 2
            assert ledger.spent == Pure(granted)
            assert ledger.remaining == Pure(2 - granted)
        assert_sound(ledger)
