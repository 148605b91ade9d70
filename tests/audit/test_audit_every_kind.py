"""Every kind of plan that can be released has a sample, and every sample is attacked."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest

from oboro.audit.samples import CAPABILITIES, FULL_ALARM, everything
from oboro.release import plan as registry
from oboro.tables.plan import STRATEGIES
from support import audited, mostly_long

SAMPLES = audited()
TRIALS = 3000


def registered() -> set[str]:
    """All kinds, after every module of every capability was read."""
    for name in CAPABILITIES:
        package = importlib.import_module(f"oboro.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"oboro.{name}."):
            importlib.import_module(module.name)
    return {kind for kind in registry._known if kind.partition(".")[0] in CAPABILITIES}


def without_a_sample() -> set[str]:
    return registered() - {plan.kind for plan in SAMPLES.values()}


def test_every_kind_of_plan_has_a_sample() -> None:
    assert without_a_sample() == set(), "add one to src/oboro/audit/samples.py"
    assert len(registered()) >= 26


def test_a_new_kind_without_a_sample_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._known, "statistics.brand_new", dict)
    assert without_a_sample() == {"statistics.brand_new"}


def test_no_capability_is_left_out() -> None:
    found = {
        module.name
        for module in pkgutil.iter_modules(importlib.import_module("oboro").__path__)
        if module.ispkg and _registers(module.name)
    }
    assert found == set(CAPABILITIES)


def _registers(package: str) -> bool:
    path = next(iter(importlib.import_module(f"oboro.{package}").__path__))
    from pathlib import Path

    return package != "release" and any("@register" in file.read_text() for file in Path(path).rglob("*.py"))


def test_every_strategy_of_a_table_has_a_sample() -> None:
    sampled = {plan.strategy for plan in SAMPLES.values() if plan.kind == "tables.table"}
    assert sampled == {*STRATEGIES, "adaptive-0.1"}


def test_both_adjacencies_persons_and_every_form_of_promise_are_sampled() -> None:
    units = {(plan.unit.kind, plan.unit.adjacency) for plan in SAMPLES.values()}
    assert units >= {
        ("row", "add/remove"),
        ("row", "replace"),
        ("person", "add/remove"),
        ("cells", "replace"),
    }
    assert {plan.guarantee.unconditional.kind for plan in SAMPLES.values()} == {"pure", "approx", "zcdp"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_names_neighbours_that_differ(name: str) -> None:
    pairs = list(SAMPLES[name].neighbours())
    assert pairs, "a plan without neighbours cannot be attacked"
    assert all(pair.why for pair in pairs)
    assert any(not _same(pair.one, pair.other) for pair in pairs)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)
    return bool(one == other)


ONE_OF_EACH_KIND = {plan.kind: name for name, plan in reversed(SAMPLES.items())}.values()


@pytest.mark.parametrize("name", mostly_long("samples of the audit", SAMPLES, ONE_OF_EACH_KIND))
def test_a_sample_holds_under_attack(name: str) -> None:
    """Through the same prepare and measure as a release. All samples together: false alarm below 1e-6."""
    (report,) = everything(TRIALS, plans={name: SAMPLES[name]}, search=1, alarm=FULL_ALARM / len(SAMPLES))
    assert report.verdict == "holds", str(report)
    assert report.name == name


def test_slow_kinds_get_fewer_trials_and_alarms_stay_rare() -> None:
    assert SAMPLES["histogram"].slowness == 1
    assert SAMPLES["table, fourier"].slowness > 1
    assert FULL_ALARM <= 1e-6
