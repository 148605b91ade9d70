"""The planner: levels and shares from what readers will ask, without data."""

from __future__ import annotations

from fractions import Fraction

import pytest

import oboro as ob
from oboro import tables
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.errors import ParameterError
from oboro.privacy import Pure, Unit
from oboro.records import read, write
from oboro.release import plan_from
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.planner import plan_shares
from oboro.tables.tree.workload import DEFAULT, Workload
from oboro.tables.wavelet import Wavelet
from support import steps

CITY = Domain([Grid("row", "col")])
PEOPLE = Domain([Grid("row", "col"), Category("sex", ["F", "M"]), Category("age", list(range(20)))])


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (tables.blocks(), {2: 0.29, 4: 0.20, 6: 0.21, 9: 0.31}),
        (tables.squares(), {3: 0.05, 6: 0.21, 9: 0.75}),
        (DEFAULT, {1: 0.11, 3: 0.12, 6: 0.23, 9: 0.54}),
        (tables.cells(), {9: 1.0}),
    ],
    ids=str,
)
def test_the_best_shares_are_those_of_the_notes(workload: Workload, expected: dict[int, float]) -> None:
    levels, shares = plan_shares(lattice_of(CITY), workload)
    assert {level: float(share) for (level,), share in zip(levels, shares, strict=True)} == pytest.approx(
        expected, abs=0.011
    )


@pytest.mark.parametrize(
    "domain",
    [CITY, PEOPLE, Domain([Integer("age", 0, 99)]), Domain([Category("s", ["a"])]), Domain([Mesh("code")])],
    ids=lambda domain: " ".join(domain.names),
)
@pytest.mark.parametrize("workload", [DEFAULT, tables.never_worse(), tables.marginals()], ids=str)
def test_shares_are_rationals_that_add_up_to_one(domain: Domain, workload: Workload) -> None:
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.1", strategy="tree", workload=workload)
    assert all(isinstance(share, Fraction) and share > 0 for share in plan.shares)
    assert sum(plan.shares) == 1
    assert len(plan.levels) == len(plan.shares)
    assert plan_from(plan.to_dict()) == plan


@pytest.mark.parametrize(("domain", "most"), [(CITY, 30_000), (PEOPLE, 130_000)], ids=["city", "people"])
def test_planning_is_a_short_search(domain: Domain, most: int) -> None:
    """A fraction of a second, by `make bench`: so it is counted here."""
    plan_shares.cache_clear()  # type: ignore[attr-defined]
    assert 1000 < steps(lambda: plan_shares(lattice_of(domain), DEFAULT)) < most


@pytest.mark.parametrize("domain", [CITY, PEOPLE], ids=lambda domain: " ".join(domain.names))
def test_no_block_is_worse_than_under_the_wavelet(domain: Domain) -> None:
    """At every height of the wavelet's own tree: half squares and ranges of categories too."""
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.1", strategy="tree", workload=tables.never_worse())
    paper = Wavelet(plan.layout, Pure("0.1"), plan.unit)
    for height in range(plan.layout.bits + 1):
        assert plan.mechanism.variance(height) <= 0.83**2 * paper.variance(height), height


def test_planned_for_marginals_is_better_at_marginals() -> None:
    def error(workload: Workload) -> float:
        plan = tables.plan(PEOPLE, unit=Unit.cells(), eps=1, strategy="tree", workload=workload)
        return float({row[0]: row[2] for row in plan.forecast().rows}["all of row,col; each sex; each age"])

    assert error(tables.marginals(["sex", "age"])) < 0.4 * error(DEFAULT)


def test_workloads_add_up_and_are_written_down() -> None:
    workload = ob.tables.blocks() + ob.tables.squares([5]) + ob.tables.marginals("sex", ("sex", "age"))
    assert read(Workload, write(workload), "workload") == workload
    assert str(workload) == "blocks and squares and marginals"


@pytest.mark.parametrize(
    "workload",
    [
        [{"kind": "magic"}],
        [],
        None,
        [{"kind": "squares", "sides": [0]}],
        [{"kind": "squares", "sides": ["3"]}],
        [{"kind": "squares"}],
        [{"kind": "blocks", "sides": [3]}],
        [{"kind": "cells", "columns": [["sex"]]}],
        [{"kind": "marginals", "columns": ["sex"]}],
        "blocks",
    ],
    ids=str,
)
def test_an_unknown_workload_is_refused(workload: object) -> None:
    with pytest.raises(ParameterError):
        read(Workload, workload, "workload")


def test_a_marginal_needs_its_column() -> None:
    with pytest.raises(ParameterError, match="not in the domain"):
        tables.plan(CITY, unit=Unit.cells(), eps=1, strategy="tree", workload=tables.marginals("sex"))
    with pytest.raises(ParameterError, match="only a tree"):
        tables.plan(CITY, unit=Unit.cells(), eps=1, strategy="laplace", workload=tables.blocks())
