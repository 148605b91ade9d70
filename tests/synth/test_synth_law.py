"""Junction trees, fits and draws, against brute force on small tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.domain import Category, Integer
from oboro.synth.copula import restricted
from oboro.synth.junction import Law, Noisy, fit, joint_law, junction_tree, spread_evenly
from oboro.synth.measured import Binned, binned, most_bins_of
from oboro.synth.model import codes_within
from oboro.synth.shape import Shape, on_simplex

SHAPE = (2, 3, 2, 4, 2)
TABLES = [(0, 1), (1, 2), (2, 3), (0, 3), (4,)]


def full(law: Law) -> np.ndarray:
    total = np.zeros(SHAPE)
    for clique, potential in zip(law.junction.cliques, law.potentials, strict=True):
        total = total + potential.reshape([SHAPE[i] if i in clique else 1 for i in range(len(SHAPE))])
    weight = np.exp(total)
    return weight / weight.sum()


def random_law(seed: int = 1) -> Law:
    rng = np.random.default_rng(seed)
    junction = junction_tree(SHAPE, TABLES)
    return Law(junction, tuple(rng.normal(size=[SHAPE[i] for i in clique]) for clique in junction.cliques))


def test_messages_give_the_marginals_of_the_whole_table() -> None:
    law = random_law()
    whole = full(law)
    for clique, found in zip(law.junction.cliques, law.marginals(), strict=True):
        axes = tuple(i for i in range(len(SHAPE)) if i not in clique)
        assert found == pytest.approx(whole.sum(axis=axes), abs=1e-12)


def test_more_columns_than_there_are_letters_have_a_joint_law() -> None:
    """A release of sixty columns was paid for, and failed."""
    rng = np.random.default_rng(2)
    junction = junction_tree([2] * 60, [(i, i + 1) for i in range(59)])
    law = Law(junction, tuple(rng.normal(size=[2] * len(clique)) for clique in junction.cliques))
    laws = law.marginals()
    pairs = dict(zip(junction.cliques, laws, strict=True))
    first = pairs[0, 1].sum(axis=1)
    expected = np.diag(first)  # of the first column and each further one
    for i in range(59):
        step = pairs[i, i + 1]
        expected = expected @ (step / step.sum(axis=1, keepdims=True))
    assert joint_law(law, laws, (0, 59)) == pytest.approx(expected)
    assert joint_law(law, laws, (0, 30, 59)).sum(axis=1) == pytest.approx(expected)


def test_what_is_empty_in_a_bin_stays_empty_however_wide_it_is() -> None:
    """A thousand thousand million amounts of which one is held: none of the others is drawn; of a bin with nobody, all are alike."""
    start, stop = np.array([0, 1, 10]), np.array([1, 10, 10**12])
    column = Binned(Shape(start, stop, np.array([5.0, 0.0, 0.0]), 10**12), np.array([0, 1, 0]))
    everything = restricted(column.shape, None)
    codes = codes_within(column, everything, np.repeat([0, 1], 900), np.random.default_rng(1))
    assert not codes[:900].any()
    assert np.bincount(codes[900:], minlength=10).tolist() == pytest.approx([0, *[100] * 9], abs=60)


@pytest.mark.parametrize("columns", [(0,), (0, 2), (1, 3), (0, 4), (1, 2, 4), (0, 1, 2, 3, 4)])
def test_any_columns_together_are_found_along_the_tree(columns: tuple[int, ...]) -> None:
    law = random_law(2)
    axes = tuple(i for i in range(len(SHAPE)) if i not in columns)
    assert joint_law(law, law.marginals(), columns) == pytest.approx(full(law).sum(axis=axes), abs=1e-12)


def test_a_fit_to_exact_tables_reaches_them() -> None:
    whole = full(random_law(3))
    tables = []
    for columns in TABLES:
        share = whole.sum(axis=tuple(i for i in range(len(SHAPE)) if i not in columns))
        tables.append(Noisy(columns, share, np.full(share.shape, 1000.0)))
    law = fit(SHAPE, tables, steps=2000)
    for table in tables:
        assert joint_law(law, law.marginals(), table.columns) == pytest.approx(table.share, abs=2e-3)


def test_draws_follow_the_law_more_closely_than_independent_ones_would() -> None:
    law = random_law(4)
    drawn = law.junction.draw(law.marginals(), 40_000, np.random.default_rng(0))
    cells = np.ravel_multi_index(drawn, SHAPE)
    found = np.bincount(cells, minlength=96) / 40_000
    assert np.abs(found - full(law).ravel()).max() < 0.006
    pair = np.bincount(drawn[0] * 3 + drawn[1], minlength=6) / 40_000
    assert np.abs(pair - full(law).sum(axis=(2, 3, 4)).ravel()).max() < 1e-3


def test_even_spreading_gives_each_record_its_law() -> None:
    laws = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    group = np.array([0, 1, 0, 1, 0, 0])
    rng = np.random.default_rng(1)
    draws = np.array([spread_evenly(laws, group, rng) for _ in range(4000)])
    assert np.mean(draws[:, 0] == 0) == pytest.approx(0.5, abs=0.04)
    assert np.all(draws[:, 1] == 1)
    assert set(np.count_nonzero(draws[:, group == 0] == 0, axis=1)) == {2}  # of four records exactly two


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20), st.floats(0.5, 500))
def test_counts_are_put_on_the_simplex(values: list[float], total: float) -> None:
    found = on_simplex(np.array(values), total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-9)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=60), st.integers(1, 40), st.floats(0, 200))
@settings(deadline=None)
def test_bins_are_whole_in_order_and_few(mass: list[float], most: int, least: float) -> None:
    edges = np.arange(len(mass))
    column = Integer("x", 0, len(mass) - 1)
    found = binned(Shape(edges, edges + 1, np.array(mass), len(mass)), column, most, 10, least)
    assert found.bin[0] == 0
    assert set(np.diff(found.bin)) <= {0, 1}
    if any(mass):
        assert found.size <= most_bins_of(column, most, 10)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=60), st.integers(2, 40), st.floats(0, 200))
@settings(deadline=None)
def test_the_most_frequent_categories_keep_their_bins_and_no_more_than_are_allowed(
    mass: list[float], most: int, least: float
) -> None:
    edges = np.arange(len(mass))
    column = Category("x", [f"v{i}" for i in edges])
    shape = Shape(edges, edges + 1, np.array(mass), len(mass))
    found = binned(shape, column, 1, most, least)
    assert found.size <= most_bins_of(column, 1, most)
    alone = np.bincount(found.bin)[found.bin] == 1
    if len(mass) <= most:
        assert found.size == binned(shape, column, 1, 10**6, least).size
    elif not alone.all():
        assert min(shape.mass[alone], default=np.inf) >= max(shape.mass[~alone])
