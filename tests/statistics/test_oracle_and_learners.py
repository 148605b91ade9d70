"""Statistical queries and what is learnt from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.errors import InputError
from oboro.noise import DiscreteLaplace
from oboro.privacy import Pure
from oboro.release import plan_from, run
from oboro.statistics.learners import conjunction_plan, perceptron_plan, tree_plan
from oboro.statistics.oracle import Oracle, query_plan, query_price
from oboro.statistics.scope import Scope
from oboro.statistics.where import parse

DOMAIN = ob.Domain([ob.Integer("age", 0, 100), ob.Category("sick", ["no", "yes"])])
REPLACE = ob.Unit.row("replace")


def bits_columns(count: int) -> list[Any]:
    return [ob.Category(f"a{i}", ["no", "yes"]) for i in range(count)]


# -- queries -------------------------------------------------------------------------------------------------------


def test_the_price_of_a_query() -> None:
    """0.046 at n = 10^4 and a tolerance of 0.01: the continuous ln(1/failure)/(n tolerance), and a little less."""
    price = query_price(10_000, Fraction(1, 100), Fraction(1, 100))
    continuous = math.log(100) / 100
    assert round(float(price), 3) == 0.046
    assert round(continuous, 3) == 0.046
    assert price < Fraction(continuous)


@pytest.mark.parametrize(
    ("n", "tolerance", "failure"), [(10_000, "0.01", "0.01"), (100, "0.001", "0.1"), (10**6, "1/3", "1e-9")]
)
def test_the_price_is_the_least_that_keeps_the_promise(n: int, tolerance: str, failure: str) -> None:
    price = query_price(n, Fraction(tolerance), Fraction(failure))
    m = math.floor(n * Fraction(tolerance))

    def misses(eps: float) -> float:
        return 2 * math.exp(-eps * (m + 1)) / (1 + math.exp(-eps))

    assert misses(float(price)) <= float(Fraction(failure)) * (1 + 1e-9)
    assert misses(float(price) * (1 - 1e-4)) > float(Fraction(failure))
    assert 1 - sum(DiscreteLaplace(1 / price).pmf(np.arange(-m, m + 1))) == pytest.approx(
        misses(float(price)), abs=1e-9
    )


def test_answers_are_within_the_tolerance_as_often_as_promised(test_bits: Any) -> None:
    plan = query_plan(Scope(REPLACE, parse("age >= 50", DOMAIN), n=1000), tolerance="0.02", failure="0.1")
    rows = {"age": list(range(100)) * 10, "sick": ["no"] * 1000}
    prepared = plan.prepare(rows)
    assert prepared.tolist() == [500]
    off = np.abs(plan.measure(prepared, test_bits, trials=100_000)[:, 0] - 500) > 20
    assert abs(off.mean() - 0.1) < 0.006  # six standard errors
    low, high = plan.intervals(plan.publish(np.asarray([500])), 0.9)
    assert (low[0], high[0]) == (0.48, 0.52)


@pytest.mark.long("audits of sound plans")
def test_a_query_holds_under_attack_and_near_its_price() -> None:
    plan = query_plan(Scope(REPLACE, parse("age >= 50", DOMAIN), n=50), tolerance="0.05", failure="0.1")
    report = audit.run(plan, 100_000)
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.7 * float(plan.guarantee.eps)
    assert plan_from(plan.to_dict()) == plan


def test_the_oracle_prices_for_free_and_asks_for_that_price(tmp_path: Any) -> None:
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="d", unit=REPLACE, budget=Pure(1))
    rows = {"age": [10, 60] * 500, "sick": ["no", "yes"] * 500}
    oracle = Oracle(DOMAIN, Scope(REPLACE, n=1000), lambda plan, name: run(plan, rows, ledger, name))
    price = oracle.price(tolerance=0.05)
    assert ledger.spent == Pure(0)
    answer = oracle.ask("age >= 50 and sick = 'yes'", tolerance=0.05)
    assert ledger.spent == price
    assert abs(answer.value - 0.5) < 0.2
    assert "interval" in str(answer)
    for wrong in (
        lambda: oracle.price(0),
        lambda: oracle.price(1),
        lambda: oracle.ask("age >= 50", 0.1, 2),
        lambda: oracle.ask("x > 1", 0.1),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="replaced"):
        Oracle(DOMAIN, Scope(ob.Unit.row()), oracle.run).price(0.1)


# -- conjunctions --------------------------------------------------------------------------------------------------


def conjunction_data(n: int, seed: int) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, 20))
    chosen = rng.choice(20, 3, replace=False)
    wanted = rng.integers(0, 2, 3)
    label = (x[:, chosen] == wanted).all(axis=1)
    names = np.asarray(["no", "yes"])
    rows: dict[str, Any] = {f"a{i}": names[x[:, i]] for i in range(20)}
    rows["label"] = names[label.astype(int)]
    return rows, {(f"a{i}", str(names[w])) for i, w in zip(chosen, wanted, strict=True)}


@pytest.mark.parametrize("unit", [REPLACE, ob.Unit.row()], ids=str)
@pytest.mark.long("learners")
def test_conjunctions_are_recovered_exactly(unit: ob.Unit) -> None:
    """Total eps 0.49 at n = 2 10^4. Of 24,000 runs one was not exact; two of these eight by chance: below 1e-6."""
    scope = Scope(unit, n=20_000) if unit.adjacency == "replace" else Scope(unit, expected_n=20_000)
    plan = conjunction_plan(scope, bits_columns(20), ob.Category("label", ["no", "yes"]), eps="0.49")
    assert plan.noise.scale == 21 / Fraction("0.49")
    exact = []
    for seed in range(4):
        rows, target = conjunction_data(20_000, seed)
        for noisy in plan.measure(plan.prepare(rows), ob.noise.system_bits(), trials=2):
            table = plan.publish(noisy).to_pylist()
            exact.append({(row["attribute"], row["equals"]) for row in table} == target)
    assert sum(exact) >= 7


@pytest.mark.parametrize("unit", [REPLACE, ob.Unit.row(), ob.Unit.person("who", 2, "replace")], ids=str)
@pytest.mark.long("random neighbours")
def test_the_sensitivity_of_a_conjunction_is_that_of_its_worst_neighbours(unit: ob.Unit) -> None:
    scope = Scope(unit, n=3) if unit.adjacency == "replace" else Scope(unit)
    plan = conjunction_plan(scope, bits_columns(4), ob.Category("label", ["no", "yes"]), eps=1)
    moved = [np.abs(plan.prepare(pair.one) - plan.prepare(pair.other)).sum() for pair in plan.neighbours()]
    assert max(moved) == plan.sensitivity == 5 * unit.contributions
    assert audit.run(plan, 20_000).verdict == "holds"
    assert plan_from(plan.to_dict()) == plan


# -- perceptron and tree -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [REPLACE, ob.Unit.row()], ids=str)
def test_a_perceptron_finds_a_linear_rule(unit: ob.Unit) -> None:
    """n = 10^4, 3 attributes, eps = 1. In 500 runs each: 0.992 right, deviation 0.004, 0.968 at least."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (10_000, 3))
    label = x @ np.asarray([1.0, -0.5, 0.25]) + 0.2 > 0
    columns = [ob.Real(f"x{i}", -1, 1, "0.01") for i in range(3)]
    scope = Scope(unit, n=10_000) if unit.adjacency == "replace" else Scope(unit, expected_n=10_000)
    plan = perceptron_plan(scope, columns, ob.Category("label", ["no", "yes"]), eps=1)
    rows = {**{f"x{i}": x[:, i] for i in range(3)}, "label": np.where(label, "yes", "no")}
    weights = (
        plan.publish(plan.measure(plan.prepare(rows), ob.noise.system_bits())).column("weight").to_numpy()
    )
    right = (x @ weights[:3] + weights[3] > 0) == label
    assert right.mean() > 0.9
    assert "drown" not in str(plan.forecast())
    assert plan_from(plan.to_dict()) == plan
    for pair in plan.neighbours():
        moved = (
            np.abs(plan.prepare(pair.one).sum(axis=0) - plan.prepare(pair.other).sum(axis=0)).sum()
            if len(pair.one["label"]) < 50
            else None
        )
        assert moved is None or moved == plan.sensitivity


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize("unit", [ob.Unit.row("replace"), ob.Unit.row()], ids=str)
def test_learners_hold_under_attack(unit: ob.Unit) -> None:
    scope = Scope(unit, n=3) if unit.adjacency == "replace" else Scope(unit)
    label = ob.Category("label", ["no", "yes"])
    perceptron = perceptron_plan(scope, [ob.Integer("x", 0, 10)], label, eps=1, rounds=2)
    tree = tree_plan(scope, bits_columns(2), label, eps=1, depth=2)
    for plan in (perceptron, tree):
        for pair in plan.neighbours():
            one, other = (plan.prepare(data) for data in (pair.one, pair.other))
            if plan is perceptron:  # all rows are wrong at first: the first round's sums
                assert np.abs(one.sum(axis=0) - other.sum(axis=0)).sum() == plan.sensitivity
        report = audit.run(plan, 3000)
        assert report.verdict == "holds", str(report)


def test_a_tree_tells_the_label(test_bits: Any) -> None:
    rng = np.random.default_rng(4)
    names = np.asarray(["no", "yes"])
    x = rng.integers(0, 2, (20_000, 4))
    shade = rng.integers(0, 3, 20_000)
    label = np.where(shade == 2, x[:, 1], 1 - x[:, 3])
    columns = [*bits_columns(4), ob.Category("shade", ["dark", "grey", "light"])]
    rows = {
        **{f"a{i}": names[x[:, i]] for i in range(4)},
        "shade": np.asarray(["dark", "grey", "light"])[shade],
        "label": names[label],
    }
    plan = tree_plan(Scope(REPLACE, n=20_000), columns, ob.Category("label", ["no", "yes"]), eps=2, depth=3)
    table = plan.publish(plan.measure(plan.prepare(rows), test_bits)).to_pylist()
    rule = {frozenset(row["where"].split(" and ")): row["label"] for row in table}
    right = 0
    for i in range(500):
        facts = {f"a{j} = {names[x[i, j]]}" for j in range(4)} | {
            f"shade = {['dark', 'grey', 'light'][shade[i]]}"
        }
        (found,) = [value for path, value in rule.items() if path <= facts]
        right += found == names[label[i]]
    assert right > 480  # a leaf that nobody is at may say anything; all others are right
    assert plan_from(plan.to_dict()) == plan
    tiny = tree_plan(Scope(REPLACE, n=20), columns, ob.Category("label", ["no", "yes"]), eps="0.1", depth=3)
    assert "drown" in str(tiny.forecast())


def test_bad_public_facts_are_refused() -> None:
    scope, label = Scope(REPLACE, n=10), ob.Category("label", ["no", "yes"])
    for wrong in (
        lambda: conjunction_plan(scope, [ob.Integer("x", 0, 5)], label, eps=1),
        lambda: conjunction_plan(scope, [], label, eps=1),
        lambda: perceptron_plan(scope, [], label, eps=1),
        lambda: perceptron_plan(scope, [ob.Integer("x", 0, 5)], ob.Integer("y", 0, 5), eps=1),
        lambda: perceptron_plan(scope, bits_columns(1), label, eps=1),
        lambda: tree_plan(scope, [ob.Integer("x", 0, 10**6)] * 2, label, eps=1),
        lambda: tree_plan(scope, [], label, eps=1),
        lambda: query_plan(Scope(REPLACE), tolerance="0.1"),
    ):
        with pytest.raises(InputError):
            wrong()
