"""Learnt events, divergences and random neighbours: what they find, and that they cry wolf at nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.audit.events import judge, judge_divergence, statistics
from oboro.audit.run import random_pairs
from oboro.noise import DiscreteGaussian
from oboro.noise.bits import system_bits
from oboro.release import Pair
from oboro.statistics import HistogramPlan
from support import audited

SAMPLES = audited()
N = 20_000


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(10)


def certified(one: Any, other: Any, delta: float = 0.0) -> float:
    return judge(*statistics(one.astype(float), other.astype(float)), delta, 1e-7).eps_lower


def test_numbers_that_tell_nothing_alone_are_told_apart_together(random: np.random.Generator) -> None:
    """Two coins that agree three times out of four, or disagree so often: no threshold on either sees it."""
    first = random.integers(0, 2, (2, N, 1))
    agrees = random.random((N, 1)) < 0.75
    one = np.concatenate([first[0], np.where(agrees, first[0], 1 - first[0])], axis=1)
    other = np.concatenate([first[1], np.where(agrees, 1 - first[1], first[1])], axis=1)
    assert 0.8 < certified(one, other) < math.log(3)


@pytest.mark.long("statistical tests")
def test_many_weak_numbers_are_added_up_by_their_likelihood_ratio(random: np.random.Generator) -> None:
    """Twelve coins of 0.6 against 0.5: each alone is worth ln 1.25, all together twelve times that at most."""
    one, other = (random.random((N, 12)) < chance for chance in (0.6, 0.5))
    assert 2 * math.log(1.25) < certified(one, other) < 12 * math.log(1.25)


def test_a_density_with_a_hole_is_found_by_histograms(random: np.random.Generator) -> None:
    """Uniform on 100 numbers, against the same without every second one where that is rare."""
    one = random.integers(0, 20, (N, 1))
    other = np.where((one % 2 == 1) & (random.random((N, 1)) < 0.8), one - 1, one)
    assert certified(one, other) > 1.0


def test_equal_worlds_are_never_told_apart(random: np.random.Generator) -> None:
    for _ in range(40):
        worlds = random.integers(0, 5, (2, 2000, 3))
        assert certified(worlds[0], worlds[1]) < 0.01


def test_a_divergence_is_certified_from_below_and_near_the_truth() -> None:
    noise = DiscreteGaussian(4)
    one, other = (noise.sample((100_000, 1)) + move for move in (0, 2))
    features = statistics(one.astype(float), other.astype(float))
    for order in (2.0, 4.0):
        truth = order * 4 / (2 * 4)
        assert 0.5 * truth < judge_divergence(*features, order, 1e-7) <= truth
    same = statistics(*(noise.sample((20_000, 1)).astype(float) for _ in range(2)))
    assert judge_divergence(*same, 2.0, 1e-7) < 0.01


@dataclass(frozen=True)
class Shifted:
    """Gaussian noise on a number that one unit moves by 1, with a promise of our choice."""

    guarantee: Any
    kind = "test.shifted"

    def prepare(self, data: int) -> Any:
        return np.asarray([data])

    def measure(self, prepared: Any, bits: Any, trials: int) -> Any:
        return prepared + DiscreteGaussian(1).sample((trials, 1), bits)

    def neighbours(self) -> Any:
        yield Pair(0, 1, "one more")


@pytest.mark.parametrize(("promise", "verdict"), [("0.5", "holds"), ("0.3", "broken")])
def test_a_renyi_promise_is_tested_as_a_divergence(promise: str, verdict: str) -> None:
    """The truth of order 2 is 1: a promise of 2 rho that is less is broken by the divergence itself."""
    for guarantee in (ob.ZCDP(promise), ob.Renyi(2, 2 * Fraction(promise))):
        report = audit.run(Shifted(guarantee), 100_000)  # type: ignore[arg-type]
        found = [finding for finding in report.findings if finding.order == 2]
        assert found
        assert all(finding.holds for finding in found) == (verdict == "holds"), str(report)


# -- random neighbours -----------------------------------------------------------------------------------------------


def rows_of(table: Any) -> list[Any]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("name", ["histogram", "histogram, replaced", "mean by region, replaced, zCDP"])
def test_random_rows_differ_in_one_row(name: str) -> None:
    plan = SAMPLES[name]
    for pair in random_pairs(plan, 20, system_bits()):
        one, other = rows_of(pair.one), rows_of(pair.other)
        assert len(one) - len(other) == (0 if plan.unit.adjacency == "replace" else 1)
        for row in other:
            if row in one:
                one.remove(row)
        assert len(one) <= 1


def test_random_persons_differ_in_one_person_who_may_have_too_many_rows() -> None:
    plan = SAMPLES["sum, persons"]
    longest = 0
    for pair in random_pairs(plan, 40, system_bits()):
        left, kept = [[row["who"] for row in table.to_pylist()] for table in (pair.one, pair.other)]
        assert len(set(left) - set(kept)) == 1
        longest = max(longest, len(left) - len(kept))
    assert longest > plan.unit.contributions


def test_random_tables_graphs_signals_and_answers_are_neighbours() -> None:
    bits = system_bits()
    for pair in random_pairs(SAMPLES["table, wavelet"], 10, bits):
        assert pair.one.column("n").to_numpy().sum() - pair.other.column("n").to_numpy().sum() == 1
    for pair in random_pairs(SAMPLES["triangles"], 10, bits):
        assert len(set(pair.other) - set(pair.one)) == 1
    for pair in random_pairs(SAMPLES["spanning tree"], 10, bits):
        assert sum(pair.one[edge] != pair.other[edge] for edge in pair.one) <= 1
    for pair in random_pairs(SAMPLES["secure draw, sensitivity 3"], 10, bits):
        assert 0 <= pair.other - pair.one <= 3
    for pair in random_pairs(SAMPLES["signal"], 10, bits):
        moved = np.concatenate([np.ravel(pair.one[part] - pair.other[part]) for part in ("u", "x0")])
        assert np.linalg.norm(moved) <= 1
    assert random_pairs(SAMPLES["own function"], 10, bits) == []


class Hidden(HistogramPlan):
    """A histogram that forgets its noise where a middle value occurs: the plan's own neighbours are at the ends."""

    def measure(self, prepared: Any, bits: Any, trials: int | None = None) -> Any:
        noisy = super().measure(prepared, bits, trials)
        return prepared + 0 * noisy if prepared[1] + prepared[2] > 0 else noisy


@pytest.mark.long("statistical tests")
def test_the_search_finds_what_the_plan_did_not_think_of() -> None:
    made: Any = SAMPLES["histogram"]
    plan = Hidden(made.bins, made.unit, made.guarantee)
    assert audit.run(plan, 2000, search=0).verdict == "holds"
    assert audit.run(plan, 2000, search=12).verdict == "broken"
