"""Structural attacks on every kind of plan, and a planted fault for each attack."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.audit import structure
from oboro.audit.structure import HOSTILE, Trait, attack, lattice
from oboro.noise.bits import Bits, system_bits
from oboro.release import register
from oboro.statistics import HistogramPlan
from support import audited, mostly_long

DOMAIN = ob.Domain([ob.Integer("age", 0, 3), ob.Category("region", ["north", "south"])])
SAMPLES = audited()
FIRST = {plan.kind: name for name, plan in reversed(SAMPLES.items())}  # one plan of each kind


def small(cls: type[HistogramPlan] = HistogramPlan) -> Any:
    made = ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps="1/10")
    return cls(made.bins, made.unit, made.guarantee)


NOW = ("statistics.histogram", "tables.table")


@pytest.mark.parametrize("kind", mostly_long("attacks on structure", FIRST, NOW))
def test_the_form_of_a_release_tells_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "HOSTILE", HOSTILE[1:8:3])  # all of them: python tests/structure
    found = attack(SAMPLES[FIRST[kind]], trials=60)
    assert found.verdict == "holds", str(found)


@pytest.mark.long("attacks on structure")
def test_all_hostile_values_and_enough_trials() -> None:
    found = attack(small(), trials=2000)
    assert found.verdict == "holds", str(found)
    assert "14 kinds of data" in found.traits[1].seen


# -- planted faults: each is caught by the attack that it names ------------------------------------------------


class FloatNoise(HistogramPlan):
    """Noise from a float sampler, as libraries draw it."""

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        return prepared + 10 * np.tan(np.pi * (super().measure(prepared, bits, trials) / 7919 % 1 - 0.5))

    def publish(self, measured: Any) -> Any:
        return super().publish(np.rint(measured).astype(np.int64))


class EvenNoise(HistogramPlan):
    """Whole numbers, but noise on even ones only: parity gives the truth away."""

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        return prepared + 2 * (super().measure(prepared, bits, trials) - prepared)


class Complaining(HistogramPlan):
    """An error about a value."""

    def prepare(self, data: Any) -> Any:
        if "NaN" in str(data):
            raise ob.errors.DataError("the data hold a value that is not a number")
        return super().prepare(data)


class Warning(HistogramPlan):
    """A warning about a value, as numerical libraries give them."""

    def prepare(self, data: Any) -> Any:
        counts = super().prepare(data)
        if counts.sum() == 0:
            warnings.warn("mean of empty slice", stacklevel=2)
        return counts


class Logging(HistogramPlan):
    """A log line with a true count."""

    def prepare(self, data: Any) -> Any:
        counts = super().prepare(data)
        logging.getLogger("plan").debug("counted %s", counts.sum())
        return counts


class Printing(HistogramPlan):
    def prepare(self, data: Any) -> Any:
        counts = super().prepare(data)
        print("rows:", counts.sum())
        return counts


class Shaped(HistogramPlan):
    """A column that is there only where somebody is."""

    def publish(self, measured: Any) -> Any:
        table = super().publish(measured)
        return table if self.seen else table.drop_columns(["count"])

    def prepare(self, data: Any) -> Any:
        counts = super().prepare(data)
        object.__setattr__(self, "where", None)
        type(self).seen = bool(counts.sum())  # type: ignore[attr-defined]
        return counts


class Ordered(HistogramPlan):
    """The first row is counted twice."""

    def prepare(self, data: Any) -> Any:
        first = data["region"][0] if len(data["region"]) else None
        return super().prepare(data) + (str(first) == "north")


class Early(HistogramPlan):
    """Noise before the reservation, from bits of its own."""

    def prepare(self, data: Any) -> Any:
        return super().prepare(data) + self.noise.sample(2, system_bits())


class Telling(HistogramPlan):
    """A true count on the certificate, written there while it is signed: its words are from before data was seen."""

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        measured = super().measure(prepared, bits, trials)
        object.__setattr__(self, "guarantee", ob.Pure(1 + int(prepared.sum())))
        return measured


for each in HistogramPlan.__subclasses__():
    if each.__module__ == __name__:  # what `run` is to run must be registered
        each.kind = f"test.{each.__name__.lower()}"
        register(each)


@pytest.mark.parametrize(
    ("fault", "attack_that_sees_it"),
    [
        (FloatNoise, "grid"),
        (EvenNoise, "grid"),
        (Complaining, "silence"),
        (Warning, "silence"),
        (Logging, "silence"),
        (Printing, "silence"),
        (Shaped, "silence"),
        (Ordered, "order"),
        (Early, "ledger"),
        (Telling, "certificate"),
    ],
)
@pytest.mark.few(3, "faults for the structure attacks")
def test_a_planted_fault_is_caught(fault: type[HistogramPlan], attack_that_sees_it: str) -> None:
    rows = ["north", "north", "south"]
    one, other = ({"region": part, "age": ["1"] * len(part)} for part in (rows, []))
    pair = ob.release.Pair(one, other, "three rows or none")
    plan = small(fault)
    if attack_that_sees_it == "grid":
        traits: tuple[Trait, ...] = (
            structure.grid(plan, next(iter(plan.neighbours())), 3000, system_bits()),
        )
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traits = attack(plan, pair, trials=10).traits
    assert attack_that_sees_it in [trait.attack for trait in traits if not trait.holds], traits


def test_bits_that_are_drawn_after_the_reservation_are_seen_as_such() -> None:
    pair = next(iter(small().neighbours()))
    assert structure.spending(small(), pair).seen == "reserved, then drawn"


def test_a_lattice_is_its_step_and_where_it_begins() -> None:
    numbers = np.arange(100)
    assert lattice(6 * numbers + 2) == (6, 2)
    assert lattice(numbers) == (1, 0)
    assert lattice(numbers[:10]) is None


# -- shares of a budget ------------------------------------------------------------------------------------------


def spreads(plan: Any, trials: int = 4000) -> list[float]:
    """The mean size of the noise in each part of a batch, in steps."""
    pair = next(iter(plan.neighbours()))
    prepared = plan.prepare(pair.one)
    measured = plan.measure(prepared, system_bits(), trials)
    return [float(np.abs(part - base).mean()) for part, base in zip(measured, prepared, strict=True)]


def batch(shares: tuple[str, str], *, swapped: bool = False) -> Any:
    from oboro.statistics.questions import BatchPlan
    from oboro.statistics.session import Plans

    plans = Plans(DOMAIN, ob.Unit.row(), None)
    asked = [plans.where("age >= 2").count(eps=share) for share in shares]
    made = BatchPlan(tuple(asked), ob.Pure(sum(map(ob.exact.rational, ("a", "b"), shares))))
    if swapped:
        object.__setattr__(made, "plans", tuple(reversed(asked)))
    return made


def declared(shares: tuple[str, str]) -> list[float]:
    """E|Z| of discrete Laplace noise of scale 1/eps: 1 / sinh(eps)."""
    return [float(1 / np.sinh(float(share))) for share in shares]


@pytest.mark.parametrize("shares", [("0.1", "0.4"), ("0.4", "0.1")])
def test_the_shares_of_a_budget_go_where_the_plan_says(shares: tuple[str, str]) -> None:
    found = spreads(batch(shares))
    assert np.allclose(found, declared(shares), rtol=0.1)
    assert not np.allclose(spreads(batch(shares, swapped=True)), declared(shares), rtol=0.5)


# -- timing ------------------------------------------------------------------------------------------------------


class Stopwatch:
    """Goes by what is done, a unit for every look: on a busy machine too, the same work takes the same time."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        self.now += 1
        return self.now


@dataclass(frozen=True, slots=True)
class Slow:
    """Takes longer where somebody is."""

    inner: Any
    watch: Stopwatch

    def prepare(self, data: Any) -> Any:
        return self.inner.prepare(data)

    def measure(self, prepared: Any, bits: Bits) -> Any:
        self.watch.now += min(1, int(prepared.sum()))
        return self.inner.measure(prepared, bits)


def test_a_stopwatch_sees_work_that_depends_on_data(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, watch = small(), Stopwatch()
    pair = next(iter(plan.neighbours()))
    real = structure.timing(plan, pair, rounds=60)
    assert 0.5 <= real.advantage <= 1
    assert "told apart" in str(real)
    monkeypatch.setattr("oboro.audit.structure.time", watch)
    found = structure.timing(Slow(plan, watch), pair, rounds=60)  # type: ignore[arg-type]
    assert found.advantage == 1
    fair = structure.timing(plan, pair, rounds=60)
    assert fair.advantage == 0.5
