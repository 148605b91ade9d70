"""A noise plan and a draw prove themselves: whatever was altered is refused, by constructor, record and run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from secure_help import digits, make_ledger, small

import oboro as ob
from oboro.errors import GuaranteeError, InputError, ParameterError
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.records import read
from oboro.release import plan_from
from support import forged


def draw() -> ob.secure.DrawPlan:
    return ob.secure.draw_plan(small(), low=0, high=100, unit=ob.Unit.row())


def test_the_cost_is_the_exact_delta_of_the_urns() -> None:
    plan = draw()
    (part,) = plan.parts
    assert part.noise is plan.noise.law
    assert part.moves == plan.noise.sensitivity
    assert plan.cost == ob.Approx(1, ob.secure.verify(plan.noise).delta.high)
    assert plan.guarantee.covers(plan.cost)
    assert not ob.Approx(1, plan.cost.unconditional.delta - 10**-9).covers(plan.cost)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "careless",
    [
        {"promise": ob.Approx("0.1", "0.01")},
        {"promise": ob.Approx(1, "1e-9")},
        {"sensitivity": 2},
        {"sensitivity": 0},
        {"method": "magic"},
        {"draws": 0},
        {"draws": 7},
        {"urns": ()},
        {"urns": (ob.secure.Urn.symmetric(1, (30, 1)),)},
        {"urns": small().urns[:1]},
        {"urns": tuple(ob.secure.Urn(2 * u.first, 2 * u.step, u.counts) for u in small().urns)},
    ],
    ids=str,
)
def test_altered_noise_is_refused_on_every_way(careless: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        dataclasses.replace(small(), **careless)
    altered = forged(draw(), noise=forged(small(), **careless))
    ledger = make_ledger(tmp_path / "p2.ledger")
    with pytest.raises(InputError):
        ob.run(altered, 42, ledger)
    assert ledger.spent.unconditional == ob.Approx(0, 0)


@pytest.mark.parametrize(
    "careless",
    [{"low": 101}, {"high": 2**40}, {"low": -(2**70)}, {"low": True}, {"opened": 1}, {"noise": None}],
    ids=str,
)
def test_altered_bounds_are_refused_on_every_way(careless: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        dataclasses.replace(draw(), **careless)
    with pytest.raises(InputError):
        ob.run(forged(draw(), **careless), 42, make_ledger(tmp_path / "p2.ledger"))


def test_a_record_is_read_strictly() -> None:
    record = draw().to_dict()
    assert plan_from(record) == draw()
    noise = record["noise"]
    for wrong in (
        {**noise, "more": 1},
        {name: value for name, value in noise.items() if name != "entries"},
        {**noise, "kind": "secure.draw"},
        {**noise, "sensitivity": "1"},
        {**noise, "urns": [{**noise["urns"][0], "more": 1}, *noise["urns"][1:]]},
        {**noise, "urns": noise["urns"] * 9},
        [noise],
    ):
        with pytest.raises(InputError):
            plan_from({**record, "noise": wrong})
    with pytest.raises(ParameterError, match="altered"):
        plan_from({**record, "noise": {**noise, "mean_abs": "0.1"}})


def test_one_entry_less_is_refused_in_a_record() -> None:
    """The claimed figures are made to fit, as whoever alters a file would do."""
    noise = digits((1, (89, 33, 12, 4)), (4, (104, 2)), (8, (2184, 1)), (16, (2493, 1)), delta="1e-10")
    less = forged(noise, urns=(*noise.urns[:-1], ob.secure.Urn.symmetric(16, (2492, 1))))
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        read(ob.secure.NoisePlan, less.to_dict(), "the noise plan")


def test_a_draw_says_how_it_adds_its_noise() -> None:
    plan = draw()
    form = plan.added()
    with pytest.warns(UnsafeBitsWarning):
        one, two = UnsafeDeterministicBits("same"), UnsafeDeterministicBits("same")
    assert np.array_equal(plan.measure(7, one, 50), form.draw(7, two, 50))
    law, weights = plan.noise.law, form.weights(7)
    assert sum(weights.values()) == law.total
    assert (min(weights), max(weights)) == (7 + law.lowest, 7 + law.highest)
    (finding,) = ob.audit.exact(plan).findings
    assert 0.9 < finding.eps_lower <= 1
