"""Few people in many cells: the adaptive grid, under its public rule alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from oboro import audit, tables
from oboro.arrays import Floats
from oboro.domain import Category, Domain, Grid
from oboro.errors import DomainError, ParameterError
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells, Layout, block_errors
from oboro.tables.strategy import Strategy
from oboro.tables.tree import adaptive
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.wavelet import Wavelet

CITY = Domain([Grid("row", "col")])
REPLACE = Unit.cells(adjacency="replace")


def test_it_is_better_than_the_tree_where_the_rule_holds() -> None:
    layout, eps, people = Layout(CITY), Fraction(1, 10), 300_000
    assert adaptive.worth_it(people, eps, layout.cells)
    density = tables.city().reshape(-1) / tables.city().sum()
    table = np.random.default_rng(0).multinomial(people, density).reshape(512, 512)
    places = np.nonzero(table)
    keys = layout.keys(places)
    order = np.argsort(keys)
    truth = Cells(keys[order], table[places][order])

    def errors(strategy: type[Strategy]) -> Floats:
        results = strategy(layout, Pure(eps), Unit.cells()).measure(truth, system_bits(), 4)
        return np.sqrt(
            np.mean([[e.rmse**2 for e in block_errors(truth, r, layout)] for r in results], axis=0)
        )

    mine, tree, paper = errors(adaptive.Adaptive), errors(PlannedTree), errors(Wavelet)
    assert mine[0] / paper[0] < 0.36
    assert mine[0] < 0.65 * tree[0]
    assert np.log(mine[:-1] / paper[:-1]).mean() < np.log(0.60)
    assert np.log(mine[:-1] / tree[:-1]).mean() < np.log(0.80)


def test_the_rule_is_public_and_kept() -> None:
    plan = tables.plan(CITY, unit=REPLACE, eps="0.1", total=100_000, strategy="adaptive")
    assert plan_from(plan.to_dict()) == plan
    assert "spread evenly" in str(plan.forecast())
    for wrong in ({"total": 10**7}, {"total": None}):
        with pytest.raises(ParameterError, match="few people"):
            tables.plan(CITY, unit=REPLACE, eps="0.1", strategy="adaptive", **wrong)
    other = Domain([Grid("row", "col"), Category("sex", ["F", "M"])])
    with pytest.raises(DomainError):
        tables.plan(other, unit=REPLACE, eps="0.1", total=1000, strategy="adaptive")


def test_everybody_is_published_once() -> None:
    domain = Domain([Grid("row", "col", shape=(64, 64))])
    sea = {"row": [0, 0, 1], "col": [0, 1, 1]}
    plan = tables.plan(domain, unit=REPLACE, eps="0.5", total=500, strategy="adaptive", impossible=sea)
    published = plan.measure(plan.prepare({"row": [5] * 500, "col": [6] * 500}), system_bits())
    assert published.counts.sum() == 500
    assert plan.layout.possible(published.keys).all()


def test_shares_add_up_to_one() -> None:
    assert sum(1 / law.scale for law in adaptive.noises(Fraction(1), Unit.cells())) == 1


@pytest.mark.long("statistical tests")
def test_the_audit_finds_nothing_in_an_adaptive_table() -> None:
    domain = Domain([Grid("row", "col", shape=(64, 64))])
    plan = tables.plan(domain, unit=REPLACE, eps=1, total=200, strategy="adaptive", count="n")
    assert audit.run(plan, 1_000).verdict == "holds"
