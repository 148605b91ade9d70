"""Tests that see a fault which the others let pass."""

from __future__ import annotations

import pytest

import oboro as ob
from oboro.synth.curves import rdp_private_n, rdp_public_n

DOMAIN = ob.Domain([ob.Integer("age", 0, 100), ob.Real("score", -1, 1, "0.001")])


@pytest.mark.parametrize("private", [False, True], ids=["n public", "n private"])
def test_a_hundred_records_cost_a_hundred_times_one(private: bool) -> None:
    """The plan's ridge, charged by the functions for people and not by the plan's own curve."""
    facts = {"unit": ob.Unit.row(), "n_min": 2000} if private else {"unit": ob.Unit.row("replace"), "n": 2000}
    plan = ob.synth.plan(DOMAIN, eps=3, delta="1e-5", records=100, method="gaussian", **facts)
    said = {"order": plan.order, "n": 2000, "dims": 2, "ridge": plan.ridge}
    one = max(rdp_public_n(**said), rdp_private_n(**said) if private else 0.0)
    spent = ob.Renyi(plan.order, 100 * one).to_approx("1e-5").eps
    assert 2.9 < float(spent) <= 3 * (1 + 1e-9)
