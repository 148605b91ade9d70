"""The lattice of levels and least squares over it: the closed forms are the matrices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.arrays import Floats
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.tables.cells import Layout
from oboro.tables.tree.lattice import Lattice, Level, lattice_of, radices
from oboro.tables.tree.planner import coefficients, least_squares, moments
from oboro.tables.tree.workload import anywhere, block, chosen

DOMAINS = [
    Domain([Grid("r", "c", shape=(8, 8))]),
    Domain([Grid("r", "c", shape=(5, 7)), Category("s", ["a", "b", "c"])]),
    Domain([Category("s", ["a", "b", "c"]), Grid("r", "c", shape=(4, 2))]),
    Domain([Integer("age", 0, 99)]),
    Domain([Mesh("code", "10km", region=[5339, 5340, 5440]), Category("s", ["a", "b"])]),
    Domain([Grid("r", "c", shape=(1, 1))]),
    Domain([Grid("x", "y", "z", shape=(4, 2, 9))]),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: " ".join(domain.names))
def test_every_cell_has_a_leaf_of_its_own(domain: Domain) -> None:
    layout, lattice = Layout(domain), lattice_of(domain)
    keys = np.flatnonzero(layout.all_possible())
    leaves = lattice.leaf(layout, keys)
    assert np.unique(leaves).size == keys.size
    assert (lattice.keys(layout, leaves) == keys).all()
    possible = lattice.possible(layout)
    if possible is None:
        assert lattice.leaves == keys.size
    else:
        assert set(np.flatnonzero(possible).tolist()) == set(leaves.tolist())


@given(st.integers(1, 2**31))
def test_a_side_is_filled_up_by_at_most_a_quarter(size: int) -> None:
    parts = radices(size)
    filled = int(np.prod(parts, dtype=np.int64)) if parts else 1
    assert size <= filled <= size * 1.25
    assert size & (size - 1) or filled == size
    assert all(part in (2, 3, 5, 7) for part in parts)


def test_levels_have_names() -> None:
    mesh = lattice_of(Domain([Mesh("code", "500m"), Category("sex", ["F", "M"])]))
    ends = dict(mesh.trees[0].labels)
    assert list(ends.values()) == ["80 km mesh", "10 km mesh", "1 km mesh", "500 m mesh"]
    assert mesh.name(mesh.finest) == "500 m mesh; each sex"
    assert mesh.name((0, 0)) == "all of code; all of sex"
    grid = lattice_of(Domain([Grid("row", "col")]))
    assert grid.name((6,)) == "8 x 8 of row,col"


def test_a_mask_rules_out_leaves() -> None:
    domain = DOMAINS[0]
    layout = Layout(domain, (6, np.array([3, 9], np.int64)))
    possible = lattice_of(domain).possible(layout)
    assert possible is not None
    assert possible.sum() == 2


def matrix(lattice: Lattice, level: Level) -> Floats:
    """One row for each node of a level: which leaves it covers."""
    rows = np.ones((1, 1))
    for tree, at in zip(lattice.trees, level, strict=True):
        rows = np.kron(rows, np.kron(np.eye(tree.nodes(at)), np.ones((1, tree.under(at)))))
    return rows


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(DOMAINS[:3] + DOMAINS[5:]), st.integers(0, 2**32))
def test_the_closed_form_is_least_squares(domain: Domain, seed: int) -> None:
    lattice, rng = lattice_of(domain), np.random.default_rng(seed)
    some = [lattice.levels[i] for i in rng.permutation(len(lattice.levels))[:3]]
    levels = list(dict.fromkeys([*some, lattice.finest]))
    precisions = rng.uniform(0.1, 3, len(levels))
    matrices = [matrix(lattice, level) for level in levels]
    noisy = [rng.integers(-50, 50, rows.shape[0]) for rows in matrices]
    normal = sum(p * rows.T @ rows for p, rows in zip(precisions, matrices, strict=True))
    right = sum(p * rows.T @ y for p, rows, y in zip(precisions, matrices, noisy, strict=True))
    expected = np.linalg.solve(normal, right)
    shaped = [y.reshape(lattice.nodes(level)) for y, level in zip(noisy, levels, strict=True)]
    found = least_squares(lattice, levels, list(precisions), shaped)
    assert found.reshape(-1) == pytest.approx(expected, abs=1e-8)
    # and the variance of any choice of leaves
    choices = [rng.random(tree.leaves) < 0.5 for tree in lattice.trees]
    question, profile = np.ones(1), np.ones(())
    for tree, choice in zip(lattice.trees, choices, strict=True):
        question = np.kron(question, choice)
        profile = np.multiply.outer(profile, chosen(tree, choice.astype(float)))
    variance = float((profile / moments(lattice, levels, list(precisions))).sum())
    assert variance == pytest.approx(float(question @ np.linalg.solve(normal, question)), rel=1e-8)


def test_a_public_total_is_kept() -> None:
    lattice = lattice_of(DOMAINS[1])
    noisy = [np.ones(lattice.nodes(lattice.finest), np.int64)]
    assert least_squares(lattice, [lattice.finest], [1.0], noisy, 1000).sum() == pytest.approx(1000)


def test_few_averages_are_needed() -> None:
    lattice = lattice_of(
        Domain([Grid("r", "c"), Category("sex", ["F", "M"]), Category("age", list(range(20)))])
    )
    levels = [(2, 1, 1), (4, 1, 0), (6, 0, 1), (9, 1, 1)]
    c = coefficients(moments(lattice, levels, [0.3, 0.2, 0.1, 0.4]))
    assert 4 <= np.count_nonzero(c) <= 12


def test_profiles_of_blocks_and_ranges() -> None:
    tree = lattice_of(Domain([Grid("r", "c", shape=(16, 16))])).trees[0]
    for level in range(tree.depth + 1):
        weights = np.zeros(tree.leaves)
        weights[: tree.under(level)] = 1
        assert block(tree, level) == pytest.approx(chosen(tree, weights))
        assert block(tree, level).sum() == pytest.approx(tree.under(level))
    # the mean over all places of a wrapped square of side 3 is what `anywhere` says, for all levels but the root
    total = np.zeros(tree.depth + 1)
    row, col = tree.places(np.arange(tree.leaves))
    for r, c in product(range(16), repeat=2):
        total += chosen(tree, (((row - r) % 16 < 3) & ((col - c) % 16 < 3)).astype(float))
    assert np.cumsum(total / 256) == pytest.approx(np.cumsum(anywhere(tree, (3, 3))), rel=1e-9)


def test_four_parts_are_shared_out_as_any_others() -> None:
    """All of them allowed is the quick way; the same numbers come of the slow one, which looks at each."""
    from oboro.tables.tree._compiled import share_out, share_out_leaves

    rng = np.random.default_rng(5)
    size = 20_000
    held = rng.integers(0, 2 ** rng.integers(1, 62, size))
    leaves = rng.integers(-50, 50, 4 * size) * rng.choice([0, 1, 1000, 10**15], 4 * size)
    start = rng.normal(0, 10, size) * rng.choice([0, 1, 10**12], size)
    every = np.ones(4 * size, np.bool_)
    for slope in (0.0, 0.25, 1.0):
        wanted = (start[:, None] + slope * leaves.reshape(-1, 4)).copy()
        quick, slow = np.empty((2, size, 4), np.int64)
        share_out(held, wanted, every.reshape(-1, 4), True, quick)
        share_out(held, wanted, every.reshape(-1, 4), False, slow)
        assert np.array_equal(quick, slow)
        assert np.array_equal(quick.sum(axis=1), held)
        found = np.empty((2, 2, 4 * size), np.int64)
        facts = (held, start, slope, leaves, every)
        sizes = [
            share_out_leaves(*facts, one, 4, 0, size, *found[place])
            for place, one in enumerate((True, False))
        ]
        assert sizes[0] == sizes[1] == np.count_nonzero(quick)
        assert np.array_equal(found[0][:, : sizes[0]], found[1][:, : sizes[1]])
