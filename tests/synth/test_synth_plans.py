"""Plans: what they promise is what their noise and choices cost; bad public facts are refused before anything happens."""

from __future__ import annotations

import importlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synth_people import DOMAIN, people

import oboro as ob
from oboro import audit
from oboro.errors import DataError, GuaranteeError, InputError, UnitError
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.noise.bits import system_bits
from oboro.release import load_plan, save_plan
from oboro.synth.codes import read_codes
from oboro.synth.plan import (
    choice_eps,
    choose_table,
    counts_of,
    rho_within,
    squared_sensitivity,
    summed_sensitivity,
)

METHODS = ("marginals", "quality", "moments")
UNITS = [ob.Unit.row(), ob.Unit.row("replace"), ob.Unit.person("who", 3), ob.Unit.person("who", 3, "replace")]
SMALL = ob.Domain([ob.Category("a", ["x", "y"], missing="x"), ob.Category("b", ["x", "y"], missing="x")])


def plan_of(method: str, unit: ob.Unit, domain: ob.Domain = DOMAIN, **promise: Any) -> Any:
    n = 4000 if unit == ob.Unit.row("replace") else None
    return ob.synth.plan(domain, unit=unit, n=n, method=method, **(promise or {"eps": 1, "delta": "1e-6"}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_all_steps_together_cost_what_was_promised_and_no_more(method: str, unit: ob.Unit) -> None:
    """Ties the Privacy section to the noise that is really drawn: exact sums of sensitivity^2/(2 variance) and eps^2/8."""
    plan = plan_of(method, unit)
    assert plan.cost.rho <= plan.price.rho
    assert plan.cost.rho > plan.price.rho * Fraction(999, 1000)
    assert ob.ZCDP(plan.price.rho).to_approx("1e-6").eps <= 1
    assert ob.ZCDP(plan.price.rho * Fraction(1001, 1000)).to_approx("1e-6").eps > 1
    assert plan_of(method, unit, rho="0.1").guarantee == ob.ZCDP("0.1")
    one = ob.Domain(DOMAIN.columns[:1])
    assert plan_of(method, unit, one).cost.rho <= plan_of(method, unit, one).price.rho


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_eps_alone_is_spent_to_the_last_bit(method: str, unit: ob.Unit) -> None:
    """Sums of 1-norms over scales, and of what choices cost: exactly eps, and no delta anywhere."""
    for domain in (DOMAIN, SMALL, ob.Domain(DOMAIN.columns[:1])):
        plan = plan_of(method, unit, domain, eps="0.7")
        assert plan.guarantee == plan.cost == ob.Pure("0.7")
        assert all(isinstance(part.costs, ob.Pure) for part in plan.parts)
        moved = unit.contributions * (2 if unit.adjacency == "replace" else 1)
        column = plan.parts[0]
        assert column.moves == moved
        assert column.costs == ob.Pure(moved / column.noise.scale)


def test_with_eps_alone_the_forecast_says_what_delta_would_buy() -> None:
    """Of all counts, so whatever the order of the columns."""
    backwards = ob.Domain(DOMAIN.columns[::-1])
    for domain in (DOMAIN, backwards):
        alone, both = (plan_of("marginals", ob.Unit.row(), domain, **said) for said in ({"eps": 1}, {}))
        ratios = [one.sd / other.sd for one, other in zip(alone.noises, both.noises, strict=True)]
        assert len(ratios) == sum(len(noises) for noises in alone.ones.noises) + 1
        times = f"{max(1, min(ratios)):.1f} to {max(ratios):.1f} times less noise"
        note = f"eps alone: with a delta of 1e-6 beside it, the same eps would have {times}"
        assert alone.forecast().notes[-1] == note
        assert not any("eps alone" in note for note in both.forecast().notes)
    one = ob.Domain([ob.Category("sex", ["f", "m"])])
    assert not any(
        "eps alone" in note for note in plan_of("quality", ob.Unit.row(), one, eps=1).forecast().notes
    )


@pytest.mark.long("random neighbours")
def test_a_unit_moves_a_table_by_no_more_than_its_sensitivity() -> None:
    rng = np.random.default_rng(5)
    for unit in UNITS:
        worst, worst_sum = 0, 0
        for _ in range(5):
            rows = {"who": [f"p{i}" for i in range(6)] * 3, "a": rng.choice(["x", "y"], 18).tolist()}
            other = {name: list(values) for name, values in rows.items()}
            if unit.kind == "row":
                other["a"][0] = "y" if rows["a"][0] == "x" else "x"
                if unit.adjacency == "add/remove":
                    other = {name: values[1:] for name, values in rows.items()}
            else:
                mine = [i for i, who in enumerate(rows["who"]) if who == "p0"]
                for i in mine:
                    rows["a"][i], other["a"][i] = "x", "y"
                if unit.adjacency == "add/remove":
                    other = {
                        name: [v for i, v in enumerate(values) if i not in mine]
                        for name, values in rows.items()
                    }
            domain = ob.Domain([SMALL["a"]])
            counts = [counts_of(read_codes(data, domain, unit), [2], (0,)) for data in (rows, other)]
            worst = max(worst, int(((counts[0] - counts[1]) ** 2).sum()))
            worst_sum = max(worst_sum, int(np.abs(counts[0] - counts[1]).sum()))
        assert worst == squared_sensitivity(unit)
        assert worst_sum == summed_sensitivity(unit)


def test_a_person_with_many_rows_is_bounded() -> None:
    rows = {"who": ["one"] * 50 + ["two"] * 2 + [None] * 5, "a": ["x", "y"] * 28 + ["x"]}
    codes = read_codes(rows, ob.Domain([SMALL["a"]]), ob.Unit.person("who", 3))
    assert codes.shape == (1, 5)


@pytest.mark.parametrize(
    "asked", [{"rho": "500001.5"}, {"eps": 1_000_003, "delta": "0.01"}, {"rho": "501"}, {"eps": 501}]
)
def test_more_than_noise_can_follow_is_refused(asked: dict[str, Any]) -> None:
    for method in ("marginals", "quality", "moments"):
        with pytest.raises(ob.errors.ParameterError, match=r"(rho|eps) is out of range"):
            ob.synth.plan(SMALL, unit=ob.Unit.row(), method=method, **asked)
        for most in ({"rho": 500}, {"eps": 500}):
            plan = ob.synth.plan(SMALL, unit=ob.Unit.row(), method=method, **most)
            rows = next(iter(plan.neighbours())).one
            assert plan.publish(plan.measure(plan.prepare(rows), system_bits())).num_rows


def test_persons_are_those_of_every_other_plan() -> None:
    """0.0 and -0.0 are one person, and not a number is nobody."""
    rows = {"who": np.array([0.0, -0.0, 0.0, -0.0, np.nan, np.nan, 1.0]), "a": ["x"] * 7}
    unit, domain = ob.Unit.person("who", 1), ob.Domain([SMALL["a"]])
    assert read_codes(rows, domain, unit).shape == (1, 2)
    counted = ob.histogram_plan(domain, "a", unit=unit, eps=1).prepare(rows)
    assert counted.sum() == 2


def test_a_choice_costs_at_most_its_share() -> None:
    for rho in (Fraction(1, 1000), Fraction(3, 7), Fraction(1, 10**9)):
        assert choice_eps(ob.ZCDP(rho)) ** 2 / 8 <= rho
        assert (choice_eps(ob.ZCDP(rho)) + Fraction(1, 10**11)) ** 2 / 8 > rho


def test_the_worst_table_is_chosen_with_the_chances_that_the_proof_speaks_of(test_bits) -> None:
    """Two tables whose scores differ by 100: the odds are exp(eps 100 / (2 sensitivity)); twice the eps would be seen."""
    unit, rho = ob.Unit.row("replace"), ob.ZCDP("1/5000")
    true = [np.array([100, 0]), np.array([50, 50])]
    guess = [np.array([50.2, 49.9]), np.array([50.0, 50.0])]
    picks = [choose_table(true, guess, 10.0, unit, rho, test_bits) for _ in range(4000)]
    odds = np.exp(float(choice_eps(rho)) * 100 / (2 * 2))
    share = odds / (1 + odds)
    assert abs(np.mean(picks) - (1 - share)) < 6 * (share * (1 - share) / 4000) ** 0.5
    assert abs(np.mean(picks) - 1 / (1 + odds**2)) > 0.02
    paid = ob.Pure("1/25")  # permute-and-flip: the worse one wins if it comes first, and its coin shows heads
    picks = [choose_table(true, guess, 10.0, unit, paid, test_bits) for _ in range(4000)]
    share = np.exp(-float(paid.eps) * 100 / (2 * 2)) / 2
    assert abs(np.mean(picks) - share) < 6 * (share * (1 - share) / 4000) ** 0.5
    assert abs(np.mean(picks) - share**2 * 2) > 0.02


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(
    ("method", "unit"),
    [("marginals", ob.Unit.row("replace")), ("quality", ob.Unit.row()), ("moments", ob.Unit.row("replace"))],
)
def test_the_audit_finds_nothing(method: str, unit: ob.Unit) -> None:
    n = 4 if unit.adjacency == "replace" else None
    plan = ob.synth.plan(SMALL, unit=unit, n=n, rho="0.5", method=method)
    report = audit.run(plan, 1000)
    assert report.verdict == "holds", str(report)


@pytest.mark.long("statistical tests")
def test_the_audit_sees_a_sensitivity_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = importlib.import_module("oboro.synth.plan")

    plan = ob.synth.plan(SMALL, unit=ob.Unit.row("replace"), n=4, rho="0.5")
    monkeypatch.setattr(
        steps, "noise_for", lambda unit, price: DiscreteGaussian(Fraction(1, 200) / price.rho)
    )
    del plan.ones.__dict__["noises"]  # drawn with the small noise from now on
    assert audit.run(plan, 1000).verdict == "broken"
    with pytest.raises(GuaranteeError):  # and no such plan can be made
        ob.synth.plan(SMALL, unit=ob.Unit.row("replace"), n=4, rho="0.5")


@pytest.mark.long("statistical tests")
def test_the_audit_sees_a_scale_of_eps_alone_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = importlib.import_module("oboro.synth.plan")

    asked: dict[str, Any] = {"unit": ob.Unit.row("replace"), "n": 4, "eps": "0.5"}
    plan = ob.synth.plan(SMALL, **asked)
    assert audit.run(plan, 500).verdict == "holds"
    right = steps.noise_for
    monkeypatch.setattr(
        steps, "noise_for", lambda unit, price: DiscreteLaplace(right(unit, price).scale / 50)
    )
    del plan.ones.__dict__["noises"], plan.__dict__["noise"]  # drawn with the small noise from now on
    assert audit.run(plan, 1000).verdict == "broken"
    with pytest.raises(GuaranteeError):  # and no such plan can be made
        ob.synth.plan(SMALL, **asked)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("promise", [{}, {"eps": "1/3"}], ids=["delta", "eps alone"])
def test_plans_read_back_from_toml(method: str, promise: dict[str, Any], tmp_path: Path) -> None:
    plan = plan_of(method, ob.Unit.row("replace"), **promise)
    save_plan(plan, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == plan
    assert "of each" in str(plan.forecast())


def test_the_proof_stands_beside_the_code() -> None:
    for kind in (ob.synth.MarginalsPlan, ob.synth.QualityPlan, ob.synth.MomentsPlan, ob.synth.GaussianPlan):
        assert kind.__doc__ is not None
        assert "Privacy\n" in kind.__doc__


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": None},
        {"n": 0},
        {"n": "many"},
        {"unit": ob.Unit.row()},
        {"unit": ob.Unit.cells()},
        {"unit": ob.Unit.signal(1)},
        {"unit": ob.Unit.person("age", 2), "n": None},
        {"eps": None},
        {"eps": 0},
        {"eps": "1e-300"},
        {"delta": 0},
        {"delta": 1},
        {"rho": 1},
        {"method": "best"},
        {"records": 100},
        {"n_min": 100},
        {"method": "gaussian"},
    ],
    ids=str,
)
def test_bad_public_facts_are_refused(wrong: dict[str, Any]) -> None:
    good = {"unit": ob.Unit.row("replace"), "n": 4000, "eps": 1, "delta": "1e-6"}
    with pytest.raises(InputError):
        ob.synth.plan(DOMAIN, **{**good, **wrong})


def test_bad_domains_are_refused() -> None:
    for make in (
        lambda: ob.Integer("age", 10, 0),
        lambda: ob.Date("day", "2026-01-02", "2026-01-01"),
        lambda: ob.Domain([ob.Integer("age", 0, 9), ob.Integer("age", 0, 9)]),
    ):
        with pytest.raises(InputError):
            make()
    from oboro.domain import Grid

    with pytest.raises(InputError, match="synthesised"):
        ob.synth.plan(ob.Domain([Grid("row", "col", shape=(4, 4))]), unit=ob.Unit.row(), eps=1, delta="1e-6")


def test_what_the_schema_or_the_public_number_of_rows_rules_out_spends_nothing(tmp_path: Path) -> None:
    from synth_people import ledger_in

    ledger = ledger_in(tmp_path)
    plan = plan_of("marginals", ob.Unit.row("replace"))
    for data in (people().drop_columns(["sex"]), people(3999)):
        with pytest.raises(DataError):
            ob.synth.release(data, plan, ledger=ledger)
    assert ledger.remaining == ledger.budget
    with pytest.raises(UnitError):
        ob.synth.release(people(), plan_of("marginals", ob.Unit.person("who", 2)), ledger=ledger)


def test_rho_is_the_largest_that_stays_within_eps() -> None:
    for eps, delta in (("0.1", "1e-9"), (1, "1e-5"), (8, "1e-6"), ("0.01", "1e-6")):
        rho = rho_within(ob.Approx(eps, delta))
        assert ob.ZCDP(rho).to_approx(delta).eps <= Fraction(str(eps))
        assert ob.ZCDP(rho * Fraction(10001, 10000)).to_approx(delta).eps > Fraction(str(eps))
