"""The search for digit urns: what it must reach, and that nothing rests on it."""

from __future__ import annotations

import contextlib
import itertools
from fractions import Fraction

import numpy as np
import pytest
from secure_help import digits, fits, small

import oboro as ob
from oboro.errors import GuaranteeError, ParameterError
from oboro.noise.bits import UnsafeDeterministicBits
from oboro.secure.compare import two_laplace
from oboro.secure.digits import lower_bound
from support import forged


class Clock:
    """Every look at it takes as long as the last: a search that is cut short ends at the same place on any machine."""

    def __init__(self) -> None:
        self.now, self.tick = 0.0, 1e-6

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("oboro.secure.digits.time", made)
    return made


@pytest.mark.long("long searches")
def test_few_entries_at_eps_1() -> None:
    plan = ob.secure.plan(eps=1, delta="1e-10", urns=4)
    assert plan.entries <= 6000
    assert float(plan.mean_abs) <= 0.88
    assert plan.delta <= Fraction("1e-10")
    assert len(plan.urns) == 4
    assert ob.secure.verify(plan).delta.high <= Fraction("1e-10")
    assert plan == ob.secure.plan(eps=1, delta="1e-10", urns=4)  # the same question, the same urns


@pytest.mark.long("long searches")
def test_small_noise_at_eps_a_tenth(clock: Clock) -> None:
    clock.tick = 0.01
    plan = ob.secure.plan(eps="0.1", delta="1e-6", urns=4, seconds=6)
    assert float(plan.mean_abs) <= 11.5
    assert plan.entries <= 2391  # what the paper needs for three times the noise


def test_sensitivity_3() -> None:
    plan = ob.secure.plan(eps=1, delta="1e-6", urns=3, sensitivity=3)
    assert ob.secure.verify(plan).delta.high <= Fraction("1e-6")
    assert len(plan.urns) == 4
    assert float(plan.mean_abs) <= 1.01 * plan.optimum


@pytest.mark.long("long searches")
def test_two_urns_nearly_reach_the_lower_bound() -> None:
    plan = ob.secure.plan(eps=1, delta="1e-8", urns=2, seconds=10)
    assert plan.fewest == 20_000
    assert plan.fewest <= plan.entries <= 1.01 * plan.fewest


def test_one_urn_needs_no_search() -> None:
    plan = ob.secure.plan(eps=1, delta="1e-4", urns=1)
    assert plan.entries == 11_208


def test_a_time_limit_is_kept(clock: Clock) -> None:
    clock.tick = 0.1
    with contextlib.suppress(GuaranteeError):  # too little time may find nothing, and then says so
        ob.secure.plan(eps="0.02", delta="1e-9", urns=5, seconds=1)
    assert 0.5 < clock.now < 2


def test_progress_is_told() -> None:
    told: list[float] = []
    ob.secure.plan(eps=1, delta="1e-4", urns=3, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1


def test_no_urns_beat_the_lower_bound() -> None:
    for draws, wanted in itertools.product((1, 2, 3), (2, 5, 7, 12, 30)):
        sizes = itertools.product(range(1, wanted + 1), repeat=draws)
        best = min(sum(one) for one in sizes if np.prod(one) >= wanted)
        assert lower_bound(Fraction(1, wanted), draws) == best
    assert lower_bound(Fraction(1, 10**10), 2) == 200_000


def test_what_each_party_adds_by_itself() -> None:
    printed = {"1": 1.367, "0.5": 2.936, "0.25": 5.969, "0.1": 14.988}
    for eps, size in printed.items():
        assert float(two_laplace(Fraction(eps))) == pytest.approx(size, abs=6e-4)


def test_comparison() -> None:
    table = ob.secure.compare(eps=1, delta="1e-4", urns=(2,), seconds=3)
    names = [row[0] for row in table.rows]
    assert names == [*[f"paper, {n} draw{'s' * (n > 1)} from one urn" for n in (1, 2, 3, 4)], "2 digit urns",
                     "bitwise circuits", "lists of noise", "Pólya shares", "each party adds its own", "one party adds"]  # fmt: skip
    assert "1.367" in str(table)
    assert "0.8509" in str(table)


def test_draws_have_the_law_that_is_verified(test_bits: UnsafeDeterministicBits) -> None:
    noise = digits((1, (89, 33, 12, 4)), (4, (104, 2)), (8, (2184, 1)), delta="1e-6")
    plan = ob.secure.DrawPlan(noise, -10, 10, ob.Unit.row())
    for number in (0, 7, 99):  # clamped
        draws = plan.measure(plan.prepare(number), test_bits, trials=400_000)
        assert fits(draws - min(number, 10), noise.law)
    other = digits((1, (89, 32, 12, 4)), (4, (104, 2)), (8, (2184, 1)), delta="0.01")
    draws = plan.measure(0, test_bits, trials=4_000_000)
    assert fits(draws, noise.law)
    assert not fits(draws, other.law)  # a single entry of 255 is seen


def test_a_draw_plan_is_a_plan() -> None:
    plan = ob.secure.draw_plan(small(), low=0, high=100, unit=ob.Unit.row())
    assert isinstance(plan, ob.Plan)
    assert ob.release.plan_from(plan.to_dict()) == plan
    assert plan.guarantee == ob.Conditional(ob.Approx(1, "0.01"), ob.secure.ASSUMPTION)
    assert "mean |error|" in str(plan.forecast())
    (pair,) = plan.neighbours()
    assert (pair.one, pair.other) == (0, 1)
    assert plan.describe()["noise"]["sensitivity"] == "1"
    with pytest.raises(ParameterError, match="cannot be searched"):
        ob.secure.draw_plan(small(), low=0, high=2**40, unit=ob.Unit.row())


def test_the_audit_attacks_a_draw_like_any_plan() -> None:
    honest = ob.secure.draw_plan(small(), low=0, high=100, unit=ob.Unit.row())
    assert str(ob.audit.run(honest)).startswith("holds")
    # planted fault: the same promise on urns that nobody verified
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        digits((1, (30, 1)))
    broken = forged(honest, noise=forged(honest.noise, urns=(ob.secure.Urn.symmetric(1, (30, 1)),)))
    assert str(ob.audit.run(broken)).startswith("broken")
