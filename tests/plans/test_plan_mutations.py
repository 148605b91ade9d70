"""Plans that no function makes: records with one field changed, and objects altered in memory."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pytest

import oboro as ob
from oboro.errors import GuaranteeError, InputError
from oboro.records import functions_of
from oboro.release import Plan, plan_from
from oboro.release.plan import made_again
from support import audited

SAMPLES = audited()


@pytest.mark.long("plans altered in memory")
def test_a_record_with_one_field_changed_is_refused_or_keeps_its_promise() -> None:
    outcome = mutations.attempt(400, seed=7)
    assert outcome.broken == []
    assert outcome.refused > 200
    assert outcome.held > 10


@pytest.mark.long("plan records with a field changed")
def test_thousands_of_changed_records() -> None:
    """`python tests/plans --tries 100000` makes as many as asked."""
    outcome = mutations.attempt(4000, seed=11)
    assert outcome.broken == []
    assert outcome.refused > 2000
    assert outcome.held > 100


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
@pytest.mark.few(16, "plans altered in memory")
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


@pytest.mark.parametrize("name", SAMPLES)
def test_a_plan_made_again_shares_nothing_that_can_be_altered(name: str) -> None:
    """Neither a cached layout nor the Fraction of a cached scale: what a caller writes there must not reach a run."""
    plan = SAMPLES[name]
    again = made_again(plan)
    handed = {id(one) for value in functions_of(plan).values() for one in alterable(value)}
    ours, theirs = ({id(one): one for one in alterable(derived(each))} for each in (plan, again))
    assert [one for key, one in ours.items() if key in theirs and key not in handed] == []


def test_a_cached_fact_that_was_altered_reaches_no_run() -> None:
    unit = ob.Unit.cells(max_cells=1000)
    domain = ob.Domain([ob.Integer("x", 0, 7)])
    plan: Any = ob.tables.plan(
        domain, unit=unit, eps=1, count="n", strategy="wavelet", possible={"x": [0, 1]}
    )
    scale = plan.noise.scale
    object.__setattr__(plan.layout, "distinct", True)
    with pytest.raises(ValueError, match="read-only"):
        plan.mask.heads[:] = [6, 7]
    for again in (made_again(plan), plan_from(plan.to_dict())):
        assert again.noise.scale == scale
        assert again.layout.possible(np.arange(8)).tolist() == [True] * 2 + [False] * 6


def derived(plan: Any) -> Any:
    """The plan, with all that it derives from its fields derived."""
    for name in dir(type(plan)):
        with suppress(Exception):  # some only hold for other guarantees
            getattr(plan, name)
    return plan


def alterable(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Everything that a value reaches and that can be written to, at least by force."""
    seen = set() if seen is None else seen
    plain = value is None or type(value) in (bool, int, float, str, bytes)
    if plain or id(value) in seen or isinstance(value, type) or callable(value):
        return
    seen.add(id(value))
    if type(value) is not tuple and not (isinstance(value, np.ndarray) and not value.flags.writeable):
        yield value
    if isinstance(value, tuple | list | set | frozenset):
        inside = list(value)
    elif isinstance(value, dict):
        inside = list(value.values())
    else:
        slots = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
        inside = [
            getattr(value, name) for name in {*getattr(value, "__dict__", ()), *slots} if hasattr(value, name)
        ]
    for one in inside:
        yield from alterable(one, seen)


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


@pytest.mark.parametrize("below", [ob.Pure, ob.Conditional, ob.privacy.Guarantee])
def test_nobody_adds_a_promise_from_outside(below: Any) -> None:
    """One that says it covers anything could be a plan's, a budget's, or the inside of a conditional one."""
    for room in ("mine", "oboro.privacy.guarantee"):
        with pytest.raises(TypeError, match="from outside"):
            type("Cheap", (below,), {"kind": "cheap", "covers": lambda *_: True, "__module__": room})
    batch = SAMPLES["batch"]
    with pytest.raises(InputError, match="unknown kind"):
        plan_from({**batch.to_dict(), "guarantee": {"kind": "cheap", "eps": "0.001"}})


def test_a_quote_cannot_be_run(tmp_path: Path) -> None:
    """Its words could have been altered: a run makes its own."""
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=ob.Unit.row(), budget=ob.Pure(9))
    plan = SAMPLES["histogram"]
    quoted: Any = ob.release.quote(plan, ledger)
    with pytest.raises(InputError, match="not a plan"):
        ob.run(quoted, next(iter(plan.neighbours())).one, ledger)
    told: list[object] = []
    ob.run(plan, next(iter(plan.neighbours())).one, ledger, tell=told.append)
    assert told == [quoted.forecast]


@pytest.mark.parametrize("room", ["__main__", "cli", "audit", "_version"])
def test_a_plan_file_opens_no_room_but_a_capability(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    with pytest.raises(InputError, match="unknown kind"):
        plan_from({"kind": f"{room}.x"})
    assert imported == []


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
