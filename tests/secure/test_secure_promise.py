"""delta(eps) by integers, against the definition of privacy itself; and every number of the notes."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import exp, factorial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_help import digits

import oboro as ob
from oboro.errors import GuaranteeError, ParameterError
from oboro.records import read
from oboro.secure import Law, Urn, conditions, drawer_delta, exact_delta
from oboro.secure.digits import scaled, uniform_urn
from oboro.secure.law import keeps, law_of
from support import forged

ONE = Fraction(1)
NOTES = ((1, (89, 33, 12, 4)), (4, (104, 2)), (8, (2184, 1)), (16, (2493, 1)))


def by_definition(law: Law, eps: Fraction, sensitivity: int) -> float:
    """The largest of Pr[q + Z in S] - e^eps Pr[q' + Z in S] over all sets S and all |q - q'| <= sensitivity."""
    probability = {law.lowest + i: weight / law.total for i, weight in enumerate(law.weights)}
    worst = 0.0
    for shift in range(-sensitivity, sensitivity + 1):
        outputs = sorted({*probability, *(k + shift for k in probability)})
        gains = [probability.get(k, 0) - exp(eps) * probability.get(k - shift, 0) for k in outputs]
        for chosen in itertools.product((False, True), repeat=len(outputs)):
            worst = max(worst, sum(gain for gain, inside in zip(gains, chosen, strict=True) if inside))
    return worst


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    st.fractions("1/10", 3, max_denominator=20),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_delta_is_what_the_definition_says(inner: list[int], eps: Fraction, sensitivity: int) -> None:
    law = Law(-2, (1, *inner, 2))
    found = exact_delta(law, eps, sensitivity)
    assert found.low <= found.high
    assert float(found.high - found.low) < 1e-30
    assert float(found.high) == pytest.approx(by_definition(law, eps, sensitivity), abs=1e-12)


def test_the_decision_is_exact_at_the_very_edge() -> None:
    law = Law(-1, (1, 2, 1))  # rises by 2 < e: only the end counts, so delta(1) = 1/4 exactly
    assert keeps(law, ONE, Fraction(1, 4), 1)
    assert not keeps(law, ONE, Fraction(1, 4) - Fraction(1, 10**60), 1)
    steep = Law(-1, (1, 3, 1))  # 3 > e: delta(1) = (1 + 3 - e)/5, irrational
    near = Fraction("0.2563436343081909529279425")  # (4 - e)/5, cut off
    assert not keeps(steep, ONE, near, 1)
    assert keeps(steep, ONE, near + Fraction(1, 10**25), 1)


def by_all_orders(urn: Urn, draws: int, eps: Fraction, sensitivity: int) -> float:
    """What P2 knows are its indices; the urn was shuffled. All orders of all entries, for all indices."""
    entries = urn.entries()
    total = 0.0
    for indices in itertools.product(range(len(entries)), repeat=draws):
        counted: dict[int, int] = {}
        for order in itertools.permutations(entries):
            noise = sum(order[i] for i in indices)
            counted[noise] = counted.get(noise, 0) + 1
        low, high = min(counted), max(counted)
        law = Law(low, tuple(counted.get(k, 0) for k in range(low, high + 1)))
        assert law.total == factorial(len(entries))
        total += float(exact_delta(law, eps, sensitivity).high)
    return total / len(entries) ** draws


@pytest.mark.parametrize(
    ("urn", "draws"),
    [
        (Urn(-1, 1, (1, 2, 1)), 2),
        (Urn(-1, 1, (1, 3, 1)), 2),
        (Urn(0, 2, (2, 1, 1)), 3),
        (Urn(-1, 1, (1, 2, 1)), 3),
    ],
)
def test_the_view_of_a_party_that_knows_its_indices(urn: Urn, draws: int) -> None:
    found = drawer_delta(urn, draws, Fraction(1, 2), 1)
    assert float(found.high) == pytest.approx(by_all_orders(urn, draws, Fraction(1, 2), 1), abs=1e-12)


def test_the_paper_promises_more_than_its_drawer_gets() -> None:
    plan = ob.secure.plan(eps=1, delta="1e-10", method="paper", draws=2)
    assert (plan.entries, len(plan.urns), plan.draws) == (295_384, 1, 2)
    assert plan.delta == Fraction(1, 295_384**2)
    seen = ob.secure.verify(plan)
    assert float(seen.drawer.high) == pytest.approx(3.39e-6, rel=1e-3)
    assert all(seen.conditions.values())
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        ob.secure.verify(plan, view="drawer")
    # hence the protocol sends an urn for each draw
    assert plan.sent == plan.urns * 2


def test_theorem_4_1_is_tight() -> None:
    for draws in (1, 2, 3, 4):
        plan = ob.secure.plan(eps="0.5", delta="1e-6", method="paper", draws=draws)
        assert plan.delta == Fraction(plan.law.weights[0], plan.law.total)


@pytest.mark.parametrize(
    ("delta", "stop", "weights"),
    [
        ("0.45", "tables", (361, 380, 822, 380, 361)),
        ("0.2", "proof", (361, 380, 822, 380, 361)),
        ("0.01", "proof", None),
    ],
)
def test_the_counterexamples_to_conjecture_4_2_1_are_refused(
    delta: str, stop: str, weights: tuple[int, ...] | None
) -> None:
    urn = ob.secure.algorithm2(Fraction("0.1"), Fraction(delta), 1, 2, init=19, stop=stop)
    law = law_of([urn], 2)
    assert not conditions(law, Fraction("0.1"), Fraction(delta), 1)["iv"]
    if weights is None:
        assert urn.size == 193
        assert float(exact_delta(law, Fraction("0.1"), 1).high) == pytest.approx(1.7885e-2, rel=1e-4)
    else:
        assert law.weights == weights
    with pytest.raises(GuaranteeError, match=r"condition \(iv\).*Conjecture 4.2.1 is false"):
        ob.secure.plan(eps="0.1", delta=delta, method="paper", draws=2, init=19, stop=stop)


def test_the_urns_of_the_notes() -> None:
    plan = digits(*NOTES, delta="1e-10")
    seen = ob.secure.verify(plan)
    assert plan.entries == 4976
    assert float(seen.delta.low) == pytest.approx(9.99994708808e-11, rel=1e-11)
    assert float(plan.mean_abs) == pytest.approx(0.8774495196, abs=1e-10)
    assert (plan.law.lowest, plan.law.highest) == (-31, 31)
    other = digits((1, (65, 24, 9, 3)), (4, (152, 3)), (8, (531, 1)), delta="1e-6")
    assert other.entries == 828
    assert float(ob.secure.verify(other).delta.high) == pytest.approx(9.998e-7, rel=1e-3)


def test_one_entry_less_breaks_the_promise() -> None:
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        digits(*NOTES[:3], (16, (2492, 1)), delta="1e-10")
    broken = forged(
        digits(*NOTES, delta="1e-10"), urns=digits(*NOTES[:3], (16, (2492, 1)), delta="1e-9").urns
    )
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        ob.secure.verify(broken)
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        read(ob.secure.NoisePlan, broken.to_dict(), "the noise plan")


@pytest.mark.parametrize("sensitivity", [2, 3, 4, 7])
def test_a_larger_sensitivity(sensitivity: int) -> None:
    urns = digits(*NOTES).urns
    z = exact_delta(law_of(urns), ONE, 1)
    law = law_of(scaled(urns, sensitivity))
    found = exact_delta(law, ONE, sensitivity)
    assert law.symmetric
    if sensitivity % 2:
        assert float(found.high) == pytest.approx(float(z.high), rel=1e-12)
        assert float(exact_delta(law, ONE, 1).high) == pytest.approx(float(z.high) / sensitivity, rel=1e-12)
    else:
        assert found.high <= z.high
    assert uniform_urn(sensitivity).size == sensitivity * (2 - sensitivity % 2)


def test_steps_multiplied_by_the_sensitivity_protect_nothing() -> None:
    wide = tuple(Urn(3 * urn.first, 3 * urn.step, urn.counts) for urn in digits(*NOTES).urns)
    assert exact_delta(law_of(wide), ONE, 3).high == 1
    with pytest.raises(GuaranteeError):
        ob.secure.NoisePlan(ob.Approx(1, "1e-10"), 3, "digits", wide)
    plan = digits(*NOTES, delta="1e-10")
    with pytest.raises(GuaranteeError):
        ob.secure.verify(forged(plan, sensitivity=3, urns=wide))


def test_plan_files(tmp_path: Path) -> None:
    plan = digits(*NOTES, delta="1e-10")
    path = tmp_path / "noise.toml"
    plan.save(path)
    assert ob.secure.NoisePlan.load(path) == plan
    text = path.read_text()
    for old, new, error in [
        ("2493", "2400", GuaranteeError),  # the promise fails
        ("2493", "2600", ParameterError),  # it holds, but these are not the urns that were described
        ('eps = "1"', 'eps = "0.5"', GuaranteeError),
        ("4976", "4977", ParameterError),
        ("first = -16", 'first = "x"', ParameterError),
        ("sensitivity = 1", "sensitivity = 2", GuaranteeError),
        ("sensitivity = 1", "", ParameterError),
        ('method = "digits"', 'method = "magic"', ParameterError),
        ("draws = 1", "draws = 99999999", ParameterError),
    ]:
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(error):
            ob.secure.NoisePlan.load(path)


def test_bad_parameters() -> None:
    for wrong in (
        {"eps": 0},
        {"eps": 100},
        {"delta": 0},
        {"delta": "0.7"},
        {"sensitivity": 0},
        {"method": "x"},
    ):
        with pytest.raises(ParameterError):
            ob.secure.plan(**{"eps": 1, "delta": "1e-6", "method": "paper", **wrong})  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        Urn(0, 1, ())
    with pytest.raises(ParameterError):
        Urn(0, 0, (1,))


def test_a_plan_is_read_without_the_view_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one who drew all from one urn would learn takes far longer than the promise: a file must not make us wait."""
    flat = ob.secure.NoisePlan(ob.Approx(1, "0.9"), 1, "paper", (Urn(-50, 1, [1] * 101),), 6)
    record = flat.to_dict()

    def refuse(*args: object) -> None:
        raise AssertionError("computed for nothing")

    with monkeypatch.context() as patch:
        patch.setattr(ob.secure.noise_plan, "drawer_delta", refuse)
        assert read(ob.secure.NoisePlan, record, "the noise plan") == flat
        assert ob.secure.draw_plan(flat, low=0, high=9, unit=ob.Unit.row()).noise == flat
        with pytest.raises(AssertionError, match="for nothing"):
            assert ob.secure.verify(flat).drawer
    assert ob.secure.verify(flat).drawer.high > 0


def test_six_draws_take_eleven_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = ob.secure.law._sum_of
    monkeypatch.setattr(
        ob.secure.law, "_sum_of", lambda urn, blocks: made.append(blocks) or real(urn, blocks)
    )
    drawer_delta(Urn(-2, 1, [1, 2, 3, 2, 1]), 6, ONE, 1)
    assert sorted(made) == sorted(set(made))
    assert len(made) == 11


def test_what_would_take_minutes_is_refused_by_name() -> None:
    wide = Urn(-20_000, 1, [1 + i % 7 for i in range(40_001)])
    with pytest.raises(ParameterError, match="too many values to be verified"):
        ob.secure.NoisePlan(ob.Approx(1, "0.9"), 60, "paper", (wide,), 6)
    with pytest.raises(ParameterError, match="too many values to be verified"):
        drawer_delta(wide, 6, ONE, 60)
