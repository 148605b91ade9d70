"""Tests that see a fault which the audits of small tables do not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from oboro import tables
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree.filtered import Filtered
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.measure import _over, draws


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


def test_a_release_is_noised_as_the_many_trials_of_an_audit_are() -> None:
    """A large table takes a shorter way than trials do: with the same bits both give the same noisy counts."""
    domain = Domain([Grid("row", "col", shape=(64, 64))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, strategy="tree")
    assert plan.design is not None
    lattice, cells = lattice_of(plan.layout.domain), plan.prepare({"row": [3, 3, 60], "col": [5, 5, 0]})
    noises = plan.design.noises(Fraction(1), plan.unit)
    with pytest.warns(UnsafeBitsWarning):
        one, other = (UnsafeDeterministicBits("one") for _ in range(2))
    released = _over(cells, plan.layout, lattice, plan.design, noises, one)
    counts = np.zeros(4096, np.int64)
    counts[lattice.leaf(plan.layout, cells.keys)] = cells.counts
    true = [np.asarray(lattice.sums(counts, level), np.int64) for level in plan.design.levels]
    assert counts.sum() == 3
    for noisy, audited in zip(released, next(draws(true, noises, other, 1)), strict=True):
        assert np.array_equal(noisy, audited)
