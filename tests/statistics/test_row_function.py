"""The sum of a function of each row: a public table, looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.errors import InputError
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.release import Pair, plan_from
from oboro.statistics.row_function import ASSUMPTION, row_function_plan
from oboro.statistics.scope import Scope

AGE, SEX = ob.Integer("age", 0, 100), ob.Category("sex", ["F", "M"])
SMALL = ob.Integer("age", 0, 3)


def plan_of(function: Any, columns: Any = (AGE,), scope: Scope | None = None, **changes: Any) -> Any:
    price = changes.pop("price", ob.Pure(1))
    return row_function_plan(scope or Scope(ob.Unit.row()), columns, function, price, **changes)


def old(row: Any) -> float:
    return row["age"] / 100


def exact(plan: Any, data: Any) -> float:
    value: float = plan.publish(plan.prepare(data)).to_pylist()[0]["value"]
    return value


def test_every_row_adds_what_the_function_gives_for_it() -> None:
    ages = [0, 7, 50, 100, 140, None]
    assert exact(plan_of(old), {"age": ages}) == pytest.approx(
        0.07 + 0.5 + 1 + 1
    )  # 140 is clamped, None left out
    woman = "def woman(row): return 0.25 + row['age'] / 200 if row['sex'] == 'F' else 0"
    data = {"age": [50, 50, 0], "sex": ["F", "M", "F"]}
    assert exact(plan_of(woman, (AGE, SEX)), data) == pytest.approx(0.5 + 0.25)
    assert exact(plan_of(old), {"age": np.zeros(0, np.int64)}) == 0


def test_the_noise_is_for_one_whole_row_of_each_unit() -> None:
    assert plan_of(old).term.noise == DiscreteLaplace(1000)
    person = Scope(ob.Unit.person("who", 3, "replace"), n=5)
    assert plan_of(old, scope=person).term.noise == DiscreteLaplace(3000)
    assert plan_of(old, price=ob.ZCDP("0.5")).term.noise == DiscreteGaussian(1000**2)


def test_a_function_that_keeps_what_it_saw_keeps_nothing_of_the_data() -> None:
    """Whatever it remembers are rows of the domain, the same for all data: the table is computed before any are read."""
    sneaky = """
seen = []
def sneaky(row):
    seen.append(row['age'])
    return len(seen) / 4
"""
    plan = plan_of(sneaky, (SMALL,))
    one, other = (plan.prepare({"age": ages}) for ages in ([3, 0, 0], [0, 0, 0, 0]))
    assert one[0, 0] == 1000 + 2 * 250
    assert other[0, 0] == 4 * 250


@pytest.mark.long("audits of sound plans")
def test_it_holds_under_attack_and_its_neighbours_reach_its_price() -> None:
    for scope in (Scope(ob.Unit.row()), Scope(ob.Unit.row("replace"), n=3)):
        plan = plan_of("def middle(row): return 1 if row['age'] == 2 else 0", (SMALL,), scope)
        found = audit.exact(plan)
        assert found.verdict == "holds"
        assert found.eps_lower == pytest.approx(1)
    short = plan_of("def f(row): return row['age'] / 3", (SMALL,))
    object.__setattr__(short, "term", plan_of(old, price=ob.Pure(2)).term)
    pair = Pair({"age": [3]}, {"age": np.zeros(0, np.int64)}, "one or nobody")
    assert audit.run(short, 4000, pairs=[pair]).verdict != "holds"


@pytest.mark.parametrize(
    "text",
    [
        "def f(row): return 1.5",
        "def f(row): return -0.001",
        "def f(row): return float('nan')",
        "def f(row): return 1 / row['age']",
        "def f(row): return 'much'",
        "def f(row): return open('/etc/passwd').read()",
    ],
)
def test_what_goes_wrong_is_told_before_data_are_read(text: str) -> None:
    with pytest.raises(InputError, match="nothing was reserved"):
        plan_of(text, (SMALL,)).prepare({"age": [1]})


def test_bad_public_facts_are_refused() -> None:
    wide = ob.Integer("income", 0, 10**6)
    for wrong in (
        lambda: plan_of(old, (AGE, wide)),
        lambda: plan_of(old, ()),
        lambda: plan_of(old, (AGE, AGE)),
        lambda: plan_of(old, seconds=0),
        lambda: plan_of(old, label=""),
        lambda: plan_of(old, isolation="fork"),
        lambda: plan_of("x = 1"),
        lambda: plan_of(lambda row: 1),
    ):
        with pytest.raises(InputError):
            wrong()
    plain = plan_of(old, isolation="none")
    assert plain.guarantee == ob.Conditional(ob.Pure(1), ASSUMPTION)
    sealed = plan_of(old, isolation="sealed").to_dict()
    with pytest.raises(InputError):
        plan_from({**sealed, "isolation": "none"})
    assert plan_from(sealed) == plan_of(old, isolation="sealed")
