"""Tests that see faults which the others let pass: noise that answers share, empty bins, an eps that was left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.privacy import ZCDP, Pure
from oboro.statistics.blocks import sample_aggregate_plan
from oboro.statistics.components import components_plan
from oboro.statistics.scope import Scope
from oboro.statistics.session import Plans

DOMAIN = ob.Domain([ob.Integer("age", 0, 3), ob.Category("region", ["north", "south"])])
ROW, SWAP = ob.Unit.row(), ob.Unit.row("replace")


@pytest.mark.parametrize("unit", [ROW, SWAP], ids=["row", "row swap"])
def test_every_bin_takes_noise_of_its_own(unit: ob.Unit) -> None:
    report = audit.run(ob.histogram_plan(DOMAIN, "age", unit=unit, eps=1), 10_000)
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.6


@pytest.mark.parametrize("unit", [ROW, SWAP], ids=["row", "row swap"])
def test_the_sums_of_a_mean_take_noise_of_their_own(unit: ob.Unit) -> None:
    report = audit.run(Plans(DOMAIN, unit, 5 if unit is SWAP else None).mean("age", eps=1), 10_000)
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.4


def test_the_noise_of_components_grows_as_the_guarantee_tightens() -> None:
    """The slides leave eps out of the scale, which nobody sees at eps = 1."""
    square = [ob.Real(name, -1, 1, "0.001") for name in "ab"]

    def plan(guarantee: ob.Guarantee, method: str | None = None) -> Any:
        return components_plan(Scope(ROW), square, 1, radius=1, guarantee=guarantee, method=method)

    for method in (None, "slides"):
        assert plan(Pure("0.25"), method).laplace_scale == 4 * plan(Pure(1), method).laplace_scale
    assert plan(ZCDP("0.125")).variance == 4 * plan(ZCDP("0.5")).variance
    assert plan(ob.Approx("0.25", "1e-6")).variance > 9 * plan(ob.Approx(1, "1e-6")).variance


def test_where_n_is_private_blocks_are_drawn_and_not_dealt(test_bits: Any) -> None:
    """Dealt in turn, one unit that comes or goes would move all that follow it to other blocks."""
    plan = sample_aggregate_plan(
        Scope(ROW), [DOMAIN["age"]], "def one(rows): return 1.0", blocks=5, bounds=(0, 3), eps=1
    )
    first, second = (plan._places(np.arange(10_000), test_bits) for _ in range(2))
    assert abs((first == second).mean() - 0.2) < 6 * 0.4 / 100  # six standard errors
    assert abs((first[1:] == first[:-1]).mean() - 0.2) < 6 * 0.4 / 100
