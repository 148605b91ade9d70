"""Releases by smooth sensitivity: admissible noise, its proofs in numbers, attacks, and what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import oboro as ob
from oboro import audit
from oboro.errors import DataError, GuaranteeError, InputError, ParameterError, UnitError
from oboro.noise import Cauchy, Laplace, StudentT, sample_rounded
from oboro.privacy import ZCDP, Approx, Pure
from oboro.release import Pair, load_plan, plan_from, save_plan
from oboro.statistics import sensitivity
from oboro.statistics.graphs import MstCostPlan, TrianglesPlan, mst_cost_plan, triangles_plan
from oboro.statistics.own import own_function_plan
from oboro.statistics.scope import Scope
from oboro.statistics.sensitivity.orders import Sorted, order_statistic
from oboro.statistics.session import Plans
from oboro.statistics.smooth import smooth_quantile_plan, trimmed_mean_plan
from oboro.statistics.smooth_noise import Decaying, LaplaceLogNormal, calibrate, smooth_guarantee

AGE = ob.Integer("age", 0, 20)
TRIALS = 60_000


def scope_of(n: int, **changes: Any) -> Scope:
    return Scope(ob.Unit.row("replace"), n=n, **changes)


def median_plan(n: int = 11, guarantee: Any = None, column: Any = AGE, **changes: Any) -> Any:
    return smooth_quantile_plan(scope_of(n), column, "1/2", guarantee=guarantee or Pure(1), **changes)


# -- units that come and go ----------------------------------------------------------------------------------


@pytest.mark.parametrize("q", ["0", "1/4", "1/2", "2/3", "1"])
def test_a_quantile_of_units_that_come_and_go_has_a_smooth_bound(q: str) -> None:
    """Of every dataset of up to five values: not below the definition, and never more than e^beta apart between neighbours."""
    column, beta = ob.Integer("age", 0, 3), Fraction(1, 2)
    plan = smooth_quantile_plan(Scope(ob.Unit.row()), column, q, guarantee=Pure(1), beta=beta)

    def answer(rows: Any) -> int:
        return rows[plan.rank(len(rows)) - 1] if rows else 3

    every = sensitivity.of(answer, range(4), 6, adjacency="add/remove")
    found = {}
    for size in range(6):
        for rows in itertools.combinations_with_replacement(range(4), size):
            ready = Sorted.of(np.asarray(rows, np.int64), 0, 3)
            assert ready.at(plan.rank(size)) == answer(rows)
            found[rows] = float(order_statistic(ready, plan.rank(size), beta))
            assert found[rows] >= every.local(rows)
            assert found[rows] >= every.smooth(rows, beta) * (1 - 1e-12)
    for rows, here in found.items():
        for place in range(len(rows)):
            fewer = found[rows[:place] + rows[place + 1 :]]
            assert max(here, fewer) <= min(here, fewer) * math.exp(beta) * (1 + 1e-12)
    assert min(found.values()) < 2  # the bound is not idle


def test_who_is_left_out_is_not_there_where_units_come_and_go() -> None:
    domain = ob.Domain([AGE, ob.Category("region", ["north", "south"])])
    data = {"age": [3, 5, None, 9, 30], "region": ["north", "north", "north", "south", None]}
    plans = Plans(domain, ob.Unit.row(), None)
    plan = plans.median("age", method="smooth", eps=1)
    assert plan.prepare(data).centre == 5  # of 3, 5, 9 and 20
    north = plans.where("region = 'north'").median("age", method="smooth", eps=1)
    assert north.prepare(data).centre == 3
    nobody = plan.prepare({"age": pa.array([], pa.int64()), "region": pa.array([], pa.string())})
    assert nobody.centre == 20
    assert float(nobody.sensitivity) == 20
    assert "expected_n" in str(plan.forecast())
    assert "evenly" in str(plans.median("age", method="smooth", eps=1, expected_n=1000).forecast())
    with pytest.raises(UnitError, match="one row each"):
        Plans(domain, ob.Unit.person("who", 2), None).median("age", method="smooth", eps=1)
    with pytest.raises(UnitError, match="replaced"):
        plans.trimmed_mean("age", eps=1)


@pytest.mark.parametrize("q", ["1/2", "1/3"])
@pytest.mark.long("audits of sound plans")
def test_a_smooth_quantile_of_units_that_come_and_go_holds_under_attack(q: str) -> None:
    for guarantee in (Pure(1), Approx(1, "0.01")):
        plan = smooth_quantile_plan(Scope(ob.Unit.row()), AGE, q, guarantee=guarantee)
        report = audit.run(plan, TRIALS)
        assert report.verdict == "holds", str(report)
        assert report.eps_lower > 0.2, str(report)  # at the jump of the quantile, which every q finds


# -- admissible noise ----------------------------------------------------------------------------------------


def log_density(law: Any, z: np.ndarray) -> np.ndarray:
    if isinstance(law, Cauchy):
        return -np.log1p(z * z)
    nu = float(law.nu)
    return -(nu + 1) / 2 * np.log1p(z * z / nu)


@pytest.mark.parametrize("law", [Cauchy(), StudentT(1), StudentT(3), StudentT("1/2"), StudentT(10)])
@pytest.mark.parametrize("eps", ["0.1", "1", "4"])
def test_pure_noise_costs_eps_at_the_worst_slide_and_dilation_and_no_less(law: Any, eps: str) -> None:
    """Ties the proof to the code: the privacy loss over all slides up to s and dilations up to beta."""
    noise = calibrate(law, Pure(eps))
    s, beta = float(noise.s), float(noise.beta)
    z = np.concatenate([-np.logspace(-3, 6, 4000), [0], np.logspace(-3, 6, 4000)])
    worst = 0.0
    for lam in np.linspace(-beta, beta, 9):
        for eta in np.linspace(-1, 1, 9) * s * min(1.0, math.exp(lam)):
            loss = lam + log_density(law, z) - log_density(law, math.exp(-lam) * (z + eta))
            worst = max(worst, float(np.abs(loss).max()))
    assert worst <= float(Fraction(eps)) * (1 + 1e-9)
    assert worst > 0.4 * float(Fraction(eps))  # the bound is not idle


@pytest.mark.parametrize(
    ("law", "guarantee"),
    [
        (Cauchy(), Pure("1/3")),
        (StudentT(1), Pure("1/3")),
        (StudentT("7/3"), Pure("0.7")),
        (Laplace(), Approx("1/3", "1/700")),
        (LaplaceLogNormal(), ZCDP("1/3")),
        (LaplaceLogNormal("0.5"), ZCDP(2)),
    ],
)
def test_the_cost_follows_from_law_s_and_beta_and_is_what_was_promised(law: Any, guarantee: Any) -> None:
    noise = calibrate(law, guarantee)
    assert guarantee.covers(noise.cost)
    for name in ("eps", "delta", "rho"):
        if hasattr(guarantee, name):
            assert float(getattr(noise.cost, name)) == pytest.approx(
                float(getattr(guarantee, name)), rel=1e-10
            )
    for more in (replace(noise, s=noise.s * Fraction(101, 100)), replace(noise, beta=noise.beta * 2)):
        assert not guarantee.covers(more.cost)


def test_a_smooth_plan_with_too_little_noise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> list[Any]:
        return [lambda: median_plan(), lambda: triangles_plan(5, guarantee=Pure(1)), lambda: own(Pure(1))]

    for make in made():
        assert make().cost == Pure(1)

    def less(*given: Any, **named: Any) -> Any:
        noise = calibrate(*given, **named)
        return replace(noise, s=noise.s * Fraction(20, 19))

    monkeypatch.setattr("oboro.statistics.smooth_noise.calibrate", less)
    for make in made():
        with pytest.raises(GuaranteeError, match="does not keep its promise"):
            make()


def test_the_promise_of_ones_own_function_names_it() -> None:
    plan = own(Pure(1))
    with pytest.raises(GuaranteeError, match="conditional"):
        replace(plan, guarantee=ob.Conditional(Pure(1), "the moon is full"))
    with pytest.raises(InputError, match="cannot be read"):
        plan_from(plan.to_dict())


def own(guarantee: Any) -> Any:
    return own_function_plan(
        sum,
        lambda data, beta: 1,
        name="a sum",
        bounds=(0, 9),
        step=1,
        unit=ob.Unit.row(),
        guarantee=guarantee,
    )


def test_cauchy_parameters_add_up_to_eps() -> None:
    noise = calibrate(Cauchy(), Pure("0.5"))
    assert noise.s + noise.beta == Fraction(1, 2)
    assert calibrate(Cauchy(), Pure("0.5"), beta="0.1").s == Fraction(2, 5)


def test_laplace_parameters_are_those_of_the_proof() -> None:
    noise = calibrate(Laplace(), Approx(1, "1e-6"))
    assert noise.s == Fraction(1, 2)
    assert float(noise.beta) == pytest.approx(1 / (2 * math.log(2e6)), rel=1e-12)
    assert noise.beta <= 1 / (2 * math.log(2e6)) * (1 + 1e-15)


@pytest.mark.parametrize(("eps", "delta"), [("5", "1e-6"), ("20", "1e-6"), ("1", "0.2"), ("1", "0")])
def test_laplace_is_refused_where_nothing_is_proved(eps: str, delta: str) -> None:
    with pytest.raises(GuaranteeError, match=r"4\.7"):
        calibrate(Laplace(), Approx(eps, delta))


def test_laplace_noise_keeps_eps_and_delta_within_its_range() -> None:
    """The exact delta between scales that differ by e^beta, and between centres that differ by S."""
    for eps, delta in ((1.0, 1e-3), (4.7, 0.1), (0.1, 1e-6)):
        noise = calibrate(Laplace(), Approx(str(eps), str(delta)))
        for ratio in (float(noise.beta), -float(noise.beta)):
            for shift in (0.0, min(1.0, math.exp(ratio))):  # no more than either local sensitivity
                assert laplace_delta(
                    eps, 1 / float(noise.s), math.exp(ratio) / float(noise.s), shift
                ) <= delta * (1 + 1e-6)


def laplace_delta(eps: float, one: float, other: float, shift: float) -> float:
    """P(E) - e^eps Q(E) for the best E, by integration."""
    x = np.linspace(-60 * max(one, other), 60 * max(one, other), 2_000_001)
    p = np.exp(-np.abs(x) / one) / (2 * one)
    q = np.exp(-np.abs(x - shift) / other) / (2 * other)
    return float(np.maximum(p - math.exp(eps) * q, 0).sum() * (x[1] - x[0]))


@pytest.mark.parametrize("rho", ["0.005", "0.5", "2"])
def test_laplace_log_normal_parameters_satisfy_the_theorem_and_are_near_the_best(rho: str) -> None:
    noise = calibrate(None, ZCDP(rho))
    sigma, s, beta = float(noise.law.sigma), float(noise.s), float(noise.beta)
    eps = math.sqrt(2 * float(Fraction(rho)))
    assert math.exp(1.5 * sigma**2) * s + beta / sigma <= eps * (1 + 1e-12)
    assert math.exp(1.5 * sigma**2) * s + beta / sigma > eps * (1 - 1e-9)
    assert abs(5 * eps / beta * sigma**3 - 5 * sigma**2 - 1) < 0.1


def test_the_log_normal_law_is_what_it_says(test_bits: Any) -> None:
    law = LaplaceLogNormal("0.5")
    draws = sample_rounded(law, 200_000, scale=100, step=1, bits=test_bits) / 100
    for x in (-2.0, -0.5, 0.1, 1.0, 4.0):
        assert abs(np.mean(draws <= x + 0.005) - law.cdf(x + 0.005)) < 5.3 * math.sqrt(
            0.25 / 200_000
        )  # alarm 1e-7
    other = LaplaceLogNormal("0.75")
    assert any(
        abs(np.mean(draws <= x) - other.cdf(x)) > 5.3 * math.sqrt(0.25 / 200_000)
        for x in (-4.0, -2.0, 2.0, 4.0)
    )
    assert law.cdf(law.quantile(0.9)) == pytest.approx(0.9)
    with pytest.raises(InputError, match="sigma"):
        LaplaceLogNormal().quantile(0.9)


def test_a_guarantee_is_eps_or_eps_and_delta_or_rho() -> None:
    assert smooth_guarantee(1, None, None) == Pure(1)
    assert smooth_guarantee(1, "1e-6", None) == Approx(1, "1e-6")
    assert smooth_guarantee(None, None, 1) == ZCDP(1)
    for wrong in ((None, None, None), (1, None, 1), (None, "1e-6", None), (0, None, None)):
        with pytest.raises(InputError):
            smooth_guarantee(*wrong)
    for law, guarantee in (
        (Cauchy(), Approx(1, "1e-6")),
        (StudentT(3), ZCDP(1)),
        (LaplaceLogNormal(), Pure(1)),
    ):
        with pytest.raises(GuaranteeError):
            calibrate(law, guarantee)
    for beta in (0, 1, 2):
        with pytest.raises(InputError):
            calibrate(Cauchy(), Pure(1), beta=beta)


# -- the false claim -----------------------------------------------------------------------------------------------


def test_the_claim_of_the_slides_is_refused_with_its_counterexample() -> None:
    with pytest.raises(GuaranteeError, match="no pure guarantee") as refused:
        median_plan(noise=Laplace())
    assert "0.197" in str(refused.value)
    assert "Cauchy" in str(refused.value)


def test_the_counterexample_is_one() -> None:
    """Both medians are 0; the scales are e^-5 and e^-4; delta at eps = 1 is 0.197."""
    scales = [
        sensitivity.smooth_order_statistic([0] * (11 - ones) + [1] * ones, 6, (0, 1), 1) for ones in (0, 1)
    ]
    assert scales == pytest.approx([math.exp(-5), math.exp(-4)])
    assert laplace_delta(1.0, scales[1], scales[0], 0.0) == pytest.approx(0.197, abs=5e-4)


class SlidesPlan:
    """Lap(S/eps) at beta = eps, promised as Pure(eps): what is refused."""

    kind = "test.slides"
    guarantee = Pure(1)

    def __init__(self) -> None:
        self.sound = median_plan(column=ob.Real("age", 0, 1, "0.001"), beta="0.999")

    def prepare(self, data: Any) -> Any:
        return self.sound.prepare(data)

    def measure(self, prepared: Any, bits: Any, trials: int | None = None) -> Any:
        return sample_rounded(Laplace(), (trials, 1), scale=prepared.sensitivity, step=1, bits=bits)

    def neighbours(self) -> Any:
        yield Pair({"age": [0] * 11}, {"age": [0] * 10 + [1]}, "one value at the other end")


def test_the_audit_breaks_the_claim_of_the_slides() -> None:
    report = audit.run(SlidesPlan(), TRIALS)  # type: ignore[arg-type]
    assert report.verdict == "broken", str(report)


# -- the plans, attacked -------------------------------------------------------------------------------------------

PROMISES: list[tuple[Any, Any]] = [
    (None, Pure(1)),
    (StudentT(3), Pure(1)),
    (None, Approx(1, "0.01")),
    (None, ZCDP("0.5")),
]


@pytest.mark.parametrize(("law", "guarantee"), PROMISES)
@pytest.mark.few(1, "audits of sound plans")
def test_a_smooth_median_holds_under_attack(law: Any, guarantee: Any) -> None:
    report = audit.run(median_plan(guarantee=guarantee, noise=law), TRIALS)
    assert report.verdict == "holds", str(report)


def test_the_attack_on_a_smooth_median_comes_near_its_promise() -> None:
    assert audit.run(median_plan(guarantee=Pure(2)), TRIALS).eps_lower > 0.6


@pytest.mark.parametrize(
    "plan",
    [
        trimmed_mean_plan(scope_of(9), AGE, "0.2", guarantee=Pure(1)),
        mst_cost_plan({(0, 1): 0, (1, 2): 0, (0, 2): 0}, cap=10, guarantee=Pure(1)),
        triangles_plan(6, guarantee=Pure(1)),
    ],
    ids=lambda plan: plan.kind,
)
def test_other_smooth_releases_hold_under_attack(plan: Any) -> None:
    report = audit.run(plan, TRIALS)
    assert report.verdict == "holds", str(report)


# -- what is released ----------------------------------------------------------------------------------------------


def test_answers_are_right_when_the_budget_is_large(test_bits: Any) -> None:
    rows = {"age": [3, 1, 4, 1, 5, 9, 2, 6, 5]}
    generous = Pure(10**6)
    median = smooth_quantile_plan(scope_of(9), AGE, "1/2", guarantee=generous)
    assert median.publish(median.measure(median.prepare(rows), test_bits)).to_pylist() == [{"value": 4}]
    trimmed = trimmed_mean_plan(scope_of(9), AGE, "1/4", guarantee=generous)
    assert trimmed.publish(trimmed.measure(trimmed.prepare(rows), test_bits)).to_pylist() == [{"value": 3.8}]
    graph = {(0, 1): 1, (0, 2): 2, (0, 3): 3, (1, 2): 4, (1, 3): 5, (2, 3): 6}
    tree = mst_cost_plan(graph, cap=10, guarantee=generous)
    assert tree.publish(tree.measure(tree.prepare(graph), test_bits)).to_pylist() == [{"value": 6.0}]
    wheel = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)]
    count = triangles_plan(4, guarantee=generous)
    assert count.publish(count.measure(count.prepare(wheel), test_bits)).to_pylist() == [{"value": 2}]


def test_the_plan_uses_the_smooth_sensitivity_of_the_study_functions() -> None:
    x = [1, 2, 3, 4, 100]
    plan = smooth_quantile_plan(scope_of(5), ob.Integer("x", 0, 100), "1/2", guarantee=Pure(1), beta="1/6")
    assert float(plan.prepare({"x": x}).sensitivity) == pytest.approx(82.1087273144, abs=1e-9)
    mean = trimmed_mean_plan(scope_of(5), ob.Integer("x", 0, 100), "1/5", guarantee=Pure(1), beta="1/6")
    assert mean.prepare({"x": x}).centre == 3
    assert float(mean.prepare({"x": x}).sensitivity) == sensitivity.smooth_trimmed_mean(x, 1, (0, 100), "1/6")


def test_a_record_that_is_left_out_is_one_replacement_and_does_not_move_the_median() -> None:
    """Distances between what is sorted: never more than one value, whatever a record turns into."""
    rng = np.random.default_rng(1)
    plan = median_plan(21)
    for _ in range(12):
        rows: list[Any] = rng.integers(0, 21, 21).tolist()
        for i in rng.choice(21, 5, replace=False):
            rows[i] = None
        other = list(rows)
        other[int(rng.integers(21))] = [None, 0, 20, "odd", math.inf][int(rng.integers(5))]
        one, two = (plan.prepare({"age": pa_array(values)}) for values in (rows, other))
        assert abs(one.centre - two.centre) <= float(one.sensitivity) * (1 + 1e-9)
        ratio = float(one.sensitivity) / float(two.sensitivity)
        assert math.exp(-float(plan.beta)) * (1 - 1e-9) <= ratio <= math.exp(float(plan.beta)) * (1 + 1e-9)
    half_missing = {"age": pa_array([7] * 10 + [None] * 11)}
    assert plan.prepare(half_missing).centre == 7


def pa_array(values: list[Any]) -> Any:
    return [None if value is None else str(value) for value in values]


def test_conditions_pick_rows_without_changing_n() -> None:
    domain = ob.Domain([AGE, ob.Category("region", ["north", "south"])])
    from oboro.statistics.where import parse

    scope = scope_of(6, where=parse("region = 'north'", domain))
    plan = smooth_quantile_plan(scope, AGE, "1/2", guarantee=Pure(1))
    rows = {"age": [1, 2, 3, 18, 19, 20], "region": ["north"] * 3 + ["south"] * 3}
    assert plan.prepare(rows).centre == 2
    assert load_round_trip(plan) == plan
    assert audit.run(plan, 20_000).verdict == "holds"


def load_round_trip(plan: Any) -> Any:
    from oboro.release import plan_from

    return plan_from(plan.to_dict())


def test_one_row_is_data_too(test_bits: Any) -> None:
    for plan in (median_plan(1), trimmed_mean_plan(scope_of(1), AGE, "0.4", guarantee=Pure(1))):
        assert plan.measure(plan.prepare({"age": [None]}), test_bits).shape == (1,)
        assert len(list(plan.neighbours())) == 2
        for pair in plan.neighbours():
            assert plan.prepare(pair.one) != plan.prepare(pair.other)


def test_nothing_shows_the_sensitivity() -> None:
    plan = median_plan()
    assert plan.intervals is None
    described = str(plan.describe())
    assert "private" in described
    for part in (plan.describe()["noise"], plan.to_dict()):
        assert "sensitivity" not in part


def test_a_forecast_needs_no_data_and_bounds_the_worst() -> None:
    forecast = median_plan(1001).forecast()
    even, worst = forecast.rows
    assert 0 < even[1] < worst[1]
    x = np.linspace(0, 20, 1003)[1:-1]
    made_up = sensitivity.smooth_order_statistic(np.round(x, 6), 501, (0, 20), median_plan(1001).beta)
    assert even[1] == pytest.approx(made_up / float(median_plan(1001).noise.s), rel=0.05)
    assert "follows the data" in str(forecast)


def test_plans_read_back_from_toml(tmp_path: Path) -> None:
    graph = {(0, 1): 1, (2, 1): 3}
    for plan in (
        median_plan(guarantee=ZCDP("0.1")),
        median_plan(noise=StudentT("5/2"), guarantee=Pure("1/3")),
        trimmed_mean_plan(scope_of(9), ob.Real("x", 0, 1, "0.25"), "0.1", guarantee=Approx(1, "1e-5")),
        mst_cost_plan(graph, cap="2.5", step="0.5", guarantee=Pure(1)),
        triangles_plan(10, guarantee=Pure(1), beta="0.2"),
    ):
        save_plan(plan, tmp_path / "plan.toml")
        assert load_plan(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: smooth_quantile_plan(Scope(ob.Unit.person("who", 2)), AGE, "1/2", guarantee=Pure(1)),
        lambda: smooth_quantile_plan(Scope(ob.Unit.row("replace")), AGE, "1/2", guarantee=Pure(1)),
        lambda: smooth_quantile_plan(
            Scope(ob.Unit.person("who", 2, "replace"), n=5), AGE, "1/2", guarantee=Pure(1)
        ),
        lambda: smooth_quantile_plan(scope_of(5), AGE, "3/2", guarantee=Pure(1)),
        lambda: smooth_quantile_plan(scope_of(5), ob.Category("c", ["a", "b"]), "1/2", guarantee=Pure(1)),
        lambda: trimmed_mean_plan(scope_of(5), AGE, "1/2", guarantee=Pure(1)),
        lambda: trimmed_mean_plan(
            scope_of(5), ob.Date("d", "2026-01-01", "2026-01-02"), 0, guarantee=Pure(1)
        ),
        lambda: mst_cost_plan({}, cap=1, guarantee=Pure(1)),
        lambda: mst_cost_plan({(0, 1): 1}, cap=1, step="0.3", guarantee=Pure(1)),
        lambda: triangles_plan(2, guarantee=Pure(1)),
    ],
)
def test_bad_public_facts_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        wrong()


def test_one_row_for_each_person_is_enough_for_a_smooth_median() -> None:
    plan = smooth_quantile_plan(
        Scope(ob.Unit.person("who", 1, "replace"), n=3), AGE, "1/2", guarantee=Pure(1)
    )
    assert plan.prepare({"who": ["a", "b", "c", "c"], "age": [4, 5, 6, 6]}).centre == 5
    with pytest.raises(DataError):
        plan.prepare({"who": ["a", "b"], "age": [4, 5]})
    with pytest.raises(UnitError):
        smooth_quantile_plan(Scope(ob.Unit.person("who", 3, "replace"), n=3), AGE, "1/2", guarantee=Pure(1))


def test_graph_data_of_any_kind_never_raises_on_a_value() -> None:
    tree = mst_cost_plan({(0, 1): 0, (1, 2): 0}, cap=10, guarantee=Pure(1))
    for odd in (None, math.nan, "text", -5, 10**30, math.inf):
        assert 0 <= tree.prepare({(1, 0): odd, (1, 2): 3}).centre <= 13
    assert tree.prepare({(0, 1): None, (1, 2): 3}).centre == 13  # missing counts as the cap
    with pytest.raises(DataError):
        tree.prepare({(0, 1): 1, (0, 2): 3})
    whole = mst_cost_plan([1, 2, 3], cap=10, guarantee=Pure(1))
    for odd in (None, math.nan, "text", -5, 10**400, math.inf, [1], np.zeros((2, 2)), object()):
        assert 0 <= whole.prepare([1, 2, odd]).centre <= 3
        matrix: list[list[Any]] = [[0, 1, 2], [1, 0, odd], [2, odd, 0]]
        assert 0 <= whole.prepare(matrix).centre <= 3
        array = np.empty((3, 3), object)
        for u, v in itertools.product(range(3), repeat=2):
            array[u, v] = matrix[u][v]
        assert 0 <= whole.prepare(array).centre <= 3
    assert mst_cost_plan(
        np.array([[0, 1, np.nan], [1, 0, 2], [np.nan, 2, 0]]), cap=3, guarantee=Pure(1)
    ).edges == ((0, 1), (1, 2))
    count = triangles_plan(4, guarantee=Pure(1))
    assert count.prepare([(0, 1), (1, 2), (0, 2), (0, 99), ("x", None), (1,), (2, 2), (0.5, 1)]).centre == 1
    triangle = [(0, 1), (1, 2), (0, 2)]
    for odd in (
        None,
        5,
        "ab",
        (1, "a"),
        (0, math.nan),
        (0, [1]),
        (0, 1, 3),
        (3, math.inf),
        b"",
        {},
        object(),
        2.5,
    ):
        assert count.prepare([*triangle, odd]).centre == 1
        matrix = [[0, 1, 1, odd], [1, 0, 1, odd], [1, 1, 0, odd], [odd, odd, odd, 0]]
        array = np.empty((4, 4), object)
        for u, v in itertools.product(range(4), repeat=2):
            array[u, v] = matrix[u][v]
        assert count.prepare(array).centre in (1, 4)
    for kind in (int, float, np.int64, np.uint8, np.float32):
        assert count.prepare([(kind(u), kind(v)) for u, v in triangle]).centre == 1
    assert count.prepare({*triangle}).centre == count.prepare(np.array(triangle)).centre == 1
    assert count.prepare(np.ones((4, 4))).centre == 4
    for wrong in (5, None, "edges", pd.DataFrame({"u": [0], "v": [1]})):
        with pytest.raises(ParameterError, match="not a graph"):
            count.prepare(wrong)
    assert isinstance(tree, MstCostPlan)
    assert isinstance(count, TrianglesPlan)


# -- one's own function ------------------------------------------------------------------------------------------


def own_plan(function: Any, smooth: Any = lambda data, beta: 1.0, **changes: Any) -> Any:
    options = {
        "name": "test",
        "bounds": (0, 10),
        "step": "0.1",
        "unit": ob.Unit.row("replace"),
        "guarantee": Pure(10**6),
    }
    return own_function_plan(function, smooth, **{**options, **changes})


def test_ones_own_function_has_a_conditional_guarantee(test_bits: Any) -> None:
    plan = own_plan(lambda data: sum(data) / len(data), pairs=(Pair([1, 2], [1, 3], "one changes"),))
    assert plan.guarantee.unconditional == Pure(10**6)
    assert "test" in plan.guarantee.assumption
    assert plan.publish(plan.measure(plan.prepare([3, 4]), test_bits)).to_pylist() == [{"value": 3.5}]
    assert len(list(plan.neighbours())) == 1
    with pytest.raises(InputError, match="own function"):
        load_round_trip(plan)


def test_ones_own_function_may_fail_or_lie_without_a_trace(test_bits: Any, capfd: Any) -> None:
    def fails(data: Any) -> float:
        print("secret", data)
        raise ValueError(f"secret {data}")

    for function in (
        fails,
        lambda data: math.nan,
        lambda data: "text",
        lambda data: [1, 2],
        lambda data: None,
    ):
        prepared = own_plan(function, lambda data, beta: 0.0).measure([1], test_bits)
        assert 0 <= int(prepared[0]) <= 100
    assert own_plan(lambda data: 4, lambda data, beta: math.inf).measure([1], test_bits).shape == (1,)
    assert int(own_plan(lambda data: 10**9, lambda data, beta: 0).measure([1], test_bits)[0]) == 100
    assert "secret" not in "".join(capfd.readouterr())


def test_decaying_terms_scale_exactly() -> None:
    half = Decaying([(1, 0), (3, 2)], 1).times(Fraction(1, 2))
    assert half.terms == ((Fraction(1, 2), 0), (Fraction(3, 2), 2))
    assert float(half) == 0.5
