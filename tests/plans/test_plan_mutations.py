"""Plans that no function makes: records with one field changed, and objects altered in memory."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import mutations
import pytest

import oboro as ob
from oboro.audit.samples import samples
from oboro.errors import GuaranteeError, InputError
from oboro.release import Plan, plan_from
from oboro.release.plan import made_again

SAMPLES = samples()


def test_a_record_with_one_field_changed_is_refused_or_keeps_its_promise() -> None:
    outcome = mutations.attempt(1200, seed=7)
    assert outcome.broken == []
    assert outcome.refused > 600
    assert outcome.held > 30


@pytest.mark.long("plan records with a field changed")
def test_thousands_of_changed_records() -> None:
    """`python tests/plans --tries 100000` makes as many as asked."""
    outcome = mutations.attempt(3000, seed=11)
    assert outcome.broken == []
    assert outcome.refused > 1500


def test_the_mutations_find_a_plan_that_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose noise is not checked against its promise is called broken."""
    monkeypatch.setattr(Plan, "__post_init__", lambda self: None)
    outcome, records = mutations.Outcome(), mutations.all_records()
    name = "synthetic, gaussian"
    mutations.judge(name, "more records", {**records[name], "records": 10_000}, records[name], outcome)
    assert len(outcome.broken) == 1


def test_a_plan_for_nobody_has_no_neighbours() -> None:
    """Where n is public and 0, nobody can be replaced. The plan is made and keeps its promise, or is refused."""
    made = 0
    for record in mutations.all_records().values():
        if "n" in record:
            try:
                plan = plan_from({**record, "n": 0})
            except InputError:
                continue
            made += 1
            assert mutations.wrong_with(plan) is None
            assert not list(plan.neighbours())
    assert made > 10


@pytest.mark.parametrize("name", SAMPLES)
def test_a_plan_altered_in_memory_is_refused_or_keeps_its_promise(name: str) -> None:
    plan = SAMPLES[name]
    for one in dataclasses.fields(plan):
        value = getattr(plan, one.name)
        for other in others(value):
            altered = copy.copy(plan)
            altered.__dict__.clear()  # nothing that was derived before
            for each in dataclasses.fields(plan):
                object.__setattr__(altered, each.name, getattr(plan, each.name))
            object.__setattr__(altered, one.name, other)
            try:
                made = made_again(altered)
            except InputError:
                continue
            assert mutations.static_wrong(made) is None, f"{one.name} = {other!r}"


@pytest.mark.parametrize("name", [name for name in SAMPLES if not mutations.holds_function(SAMPLES[name])])
def test_what_was_derived_before_is_not_believed(name: str) -> None:
    """Noise that somebody put into a plan's own memory does not survive, nor does a pickle of it."""
    plan = pickle.loads(pickle.dumps(SAMPLES[name]))
    for key in {"parts", "cost", "noise", "term", "terms", "rho"} - {
        one.name for one in dataclasses.fields(plan)
    }:
        plan.__dict__[key] = None
    assert made_again(plan) == SAMPLES[name]
    assert not {
        key for key, value in made_again(plan).__dict__.items() if value is None and key in ("parts", "cost")
    }


def test_the_altered_plans_of_old_are_refused(tmp_path: Path) -> None:
    grid = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
    tree = ob.tables.plan(grid, unit=ob.Unit.cells(), eps=8, delta="1e-9", count="n", strategy="tree")
    signal = SAMPLES["signal"]
    records = SAMPLES["synthetic, gaussian"]
    assert tree.design is not None
    shares = dataclasses.replace  # a design checks itself, too
    for make in (
        lambda: dataclasses.replace(tree, guarantee=ob.Approx("0.01", "1e-9")),
        lambda: dataclasses.replace(
            tree, design=shares(tree.design, shares=(Fraction(50),) * len(tree.shares))
        ),
        lambda: dataclasses.replace(signal, scale=signal.scale / 10**6),
        lambda: dataclasses.replace(records, records=10_000),
    ):
        with pytest.raises(InputError):
            make()
    ledger = ob.Ledger.create(
        tmp_path / "a.ledger", dataset="x", unit=ob.Unit.cells(), budget=ob.Approx(100, "1e-6")
    )
    object.__setattr__(tree, "guarantee", ob.Approx("0.01", "1e-9"))
    with pytest.raises(GuaranteeError):
        ob.run(tree, {"row": [0], "col": [0], "n": [1]}, ledger)
    assert len(ledger.history()) == 1


def test_a_class_that_is_not_registered_is_not_run(tmp_path: Path) -> None:
    class Louder(type(SAMPLES["histogram"])):  # type: ignore[misc]
        def measure(self, prepared: Any, bits: Any, trials: int | None = None) -> Any:
            return prepared

    made = SAMPLES["histogram"]
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1))
    with pytest.raises(InputError, match="not registered"):
        ob.run(Louder(made.bins, made.unit, made.guarantee), {"age": [1]}, ledger)
    assert len(ledger.history()) == 1


def test_no_class_takes_the_kind_of_another() -> None:
    from oboro.release import register

    with pytest.raises(TypeError, match="already"):

        @register
        class Again(type(SAMPLES["histogram"])):  # type: ignore[misc]
            pass


def others(value: Any) -> list[Any]:
    """Other values for a field, of its own kind and of others."""
    found: list[Any] = [None, "nonsense", 0, -1, (), True]
    if isinstance(value, bool):
        found += [not value]
    elif isinstance(value, int):
        found += [value + 1, value * 10, 10**6, 2**70, float(value)]
    elif isinstance(value, Fraction):
        found += [value / 10**6, value * 10, -value, Fraction(0), float(value)]
    elif isinstance(value, tuple):
        found += [value[:-1], value[1:], value * 2, list(value)]
    elif isinstance(value, ob.privacy.Guarantee):
        found += [
            ob.Pure("1e-6"),
            ob.Pure(100),
            ob.Approx("0.01", "1e-9"),
            ob.ZCDP("1e-6"),
            ob.Conditional(ob.Pure(5), "A"),
        ]
    elif isinstance(value, ob.Unit):
        found += [
            ob.Unit.row(),
            ob.Unit.row("replace"),
            ob.Unit.person("who", 7),
            ob.Unit.cells(3, 2),
            ob.Unit.signal(1),
        ]
    return found
