"""Tests that see a fault which the audits of small tables do not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from oboro import tables
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree.filtered import Filtered


def test_empty_cells_are_published_as_often_as_the_filter_says() -> None:
    """2,000 crowded cells among 16,384: some of what is published must be empty cells: up to a tenth.

    If only stored cells were looked at, none would be, and a published cell would show that somebody is there.
    """
    layout = Layout(Domain([Grid("row", "col", shape=(128, 128))]))
    stored = np.arange(0, 16_000, 8)
    crowded = Cells(stored, np.full(stored.size, 10**6))
    (published,) = Filtered(layout, Pure(1), Unit.cells()).measure(crowded, system_bits())
    assert np.isin(stored, published.keys).all()
    share = 1 - stored.size / published.keys.size
    assert 0.02 < share < 0.12


def test_every_node_of_a_tree_takes_noise_of_its_own() -> None:
    """An empty table: what is measured is the noise. Differences of neighbouring nodes have twice its variance."""
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(64, 64))]), unit=Unit.cells(), eps=1, strategy="tree"
    )
    assert plan.design is not None
    published = plan.measure(plan.prepare({"row": [], "col": []}), system_bits())
    for noise, noisy in zip(plan.design.noises(Fraction(1), plan.unit), published.noisy, strict=True):
        drawn = noisy.astype(float).reshape(-1)
        if (
            drawn.size >= 1000
        ):  # the variance of a Laplace sample variance is 5 sd^4/n: 35% are five standard errors
            assert abs(drawn.var() / noise.variance - 1) < 0.35
            assert abs(np.diff(drawn).var() / (2 * noise.variance) - 1) < 0.35
    assert max(noisy.size for noisy in published.noisy) == 4096
