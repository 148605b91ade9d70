"""The wavelet method: what it keeps, what it promises, and that sparse is dense."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.arrays import Integers
from oboro.domain import Category, Domain, Grid
from oboro.noise import DiscreteLaplace, system_bits
from oboro.privacy import Unit
from oboro.tables import city, wavelet
from oboro.tables.cells import Cells, Layout, block_errors

CITY = Layout(Domain([Grid("row", "col", shape=(512, 512))]))
DOMAINS = [
    Domain([Grid("r", "c", shape=(1, 1))]),
    Domain([Grid("r", "c", shape=(8, 8))]),
    Domain([Grid("r", "c", shape=(5, 7)), Category("s", ["a", "b", "c"])]),
    Domain([Category("s", ["a", "b", "c", "d", "e"]), Grid("r", "c", shape=(3, 2))]),
]


def city_cells() -> Cells:
    row, col = np.nonzero(city())
    keys = CITY.keys([row, col])
    order = np.argsort(keys)
    return Cells(keys[order], city()[row, col][order])


def visited(published: Integers, possible: Any) -> list[int]:
    """The nodes that a depth-first walk measures, in its order: those that hold something and have two possible halves."""
    sums, alive = [published], [possible]
    while sums[-1].size > 1:
        sums.append(sums[-1][0::2] + sums[-1][1::2])
        alive.append(alive[-1][0::2] | alive[-1][1::2])
    bits = len(sums) - 1
    nodes = []
    for depth in range(bits):
        halves = alive[bits - depth - 1]
        live = (sums[bits - depth] > 0) & halves[0::2] & halves[1::2]
        nodes += [
            (int(node) << (bits - depth), depth, (1 << depth) + int(node)) for node in np.flatnonzero(live)
        ]
    return [node for _, _, node in sorted(nodes)]


def both_ways(
    layout: Layout, counts: Integers, noise: Integers, coins: Integers
) -> tuple[Integers, Integers]:
    """T1, and T2 with the same noise at every node; T2 must use exactly the noise of the nodes that T1 keeps alive."""
    possible = layout.all_possible()
    dense = wavelet.dense(counts, noise, coins, possible)
    order = visited(dense, possible)
    handed_out = 0

    def draw(count: int) -> tuple[Integers, Integers]:
        nonlocal handed_out
        nodes = order[handed_out : handed_out + count]
        handed_out += len(nodes)
        some, flips = np.full(count, 10**9, np.int64), np.zeros(-(-count // 64) * 64, np.uint64)
        some[: len(nodes)], flips[: len(nodes)] = noise[nodes], coins[nodes]
        words = (flips.reshape(-1, 64) << np.arange(64, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
        return some, words.view(np.int64)

    root = np.maximum(counts.sum() + noise[:1], 0)
    sparse, starts = wavelet.sparse(Cells.from_dense(counts), layout, root, draw)
    assert starts.tolist() == [0]
    assert handed_out == len(order)
    return dense, sparse.dense(layout.bits)


def with_mask(domain: Domain, data: st.DataObject) -> Layout:
    layout = Layout(domain)
    if not data.draw(st.booleans()):
        return layout
    first = Layout(Domain(domain.columns[:1]))
    heads = np.flatnonzero(first.all_possible())
    kept = data.draw(st.lists(st.sampled_from(heads.tolist()), min_size=1, unique=True))
    return Layout(domain, (first.bits, np.array(sorted(kept), np.int64)))


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(DOMAINS), st.sampled_from([1, 10, 300]), st.integers(0, 2**32), st.data())
def test_sparse_and_dense_agree_bit_for_bit(
    domain: Domain, scale: int, seed: int, data: st.DataObject
) -> None:
    layout = with_mask(domain, data)
    rng = np.random.default_rng(seed)
    n = 1 << layout.bits
    full = layout.all_possible() & (rng.random(n) < rng.random())
    counts = np.where(full, rng.integers(0, data.draw(st.sampled_from([2, 100, 2**40])), n), 0)
    noise, coins = DiscreteLaplace(scale).sample(n), rng.integers(0, 2, n)
    dense, sparse = both_ways(layout, counts, noise, coins)
    assert (dense == sparse).all()
    assert dense.min() >= 0
    assert dense.sum() == max(0, counts.sum() + noise[0])  # every node holds the sum of its halves
    assert not dense[~layout.all_possible()].any()


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.integers(0, 2**40 - 1), st.integers(1, 2**30), max_size=60),
    st.sampled_from([1, 40, 4000]),
)
def test_any_table_gives_whole_numbers_above_zero_in_order(cells: dict[int, int], scale: int) -> None:
    layout = Layout(Domain([Grid("r", "c", shape=(2**20, 2**20))]))
    keys = np.array(sorted(cells), np.int64)
    given_cells = Cells(keys, np.array([cells[key] for key in keys.tolist()], np.int64))
    published, starts = wavelet.measure(given_cells, layout, DiscreteLaplace(scale), system_bits(), trials=3)
    assert (published.counts > 0).all()
    for part in np.split(published.keys, starts[1:]):
        assert (np.diff(part) > 0).all()


def test_blocks_that_run_out_do_not_change_the_result() -> None:
    layout = Layout(Domain([Grid("r", "c", shape=(64, 64))]))
    rng = np.random.default_rng(5)
    counts = rng.integers(
        0, 4000, 4096
    )  # full: many more nodes and cells than the first block of noise or room
    noise, coins = DiscreteLaplace(3).sample(4096), rng.integers(0, 2, 4096)
    dense, sparse = both_ways(layout, counts, noise, coins)
    assert (dense == sparse).all()


def test_without_noise_a_table_is_published_as_it_is() -> None:
    layout = Layout(DOMAINS[2])
    counts = np.where(layout.all_possible(), np.arange(1 << layout.bits) % 7, 0)
    nothing = np.zeros(counts.size, np.int64)
    assert (wavelet.dense(counts, nothing, nothing, layout.all_possible()) == counts).all()


def test_a_public_total_is_kept() -> None:
    published, _ = wavelet.measure(city_cells(), CITY, DiscreteLaplace(360), system_bits(), total=40_000_000)
    assert published.counts.sum() == 40_000_000


def moved(change: Integers) -> int:
    """By how much the root's sum and all differences move, in all."""
    total, sums = 0, change
    while sums.size > 1:
        total += int(np.abs(sums[0::2] - sums[1::2]).sum())
        sums = sums[0::2] + sums[1::2]
    return total + int(abs(sums[0]))


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_the_sensitivity_of_cells_is_never_exceeded_and_is_reached(depth: int, cells: int) -> None:
    n = 1 << depth
    for adjacency in ("add/remove", "replace"):
        worst = 0
        for change in itertools.product((-2, 0, 2) if adjacency == "replace" else (0, 2), repeat=n):
            added, removed = sum(c > 0 for c in change), sum(c < 0 for c in change)
            if max(added, removed) <= cells:
                worst = max(worst, moved(np.array(change)))
        claimed = wavelet.sensitivity(Unit.cells(cells, 2, adjacency), depth)
        assert worst <= claimed
        if cells <= (depth + 1 if adjacency == "add/remove" else 1):  # where the claim is tight
            assert worst == claimed


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_sensitivity_of_rows_is_never_exceeded_and_is_reached(depth: int, rows: int) -> None:
    n = 1 << depth
    for adjacency in ("add/remove", "replace"):
        worst = 0
        for change in itertools.product(range(-rows, rows + 1), repeat=n):
            added, removed = sum(c for c in change if c > 0), -sum(c for c in change if c < 0)
            if added <= rows and removed <= (rows if adjacency == "replace" else 0):
                worst = max(worst, moved(np.array(change)))
        unit = Unit.person("who", rows, adjacency)
        assert worst == wavelet.sensitivity(unit, depth)
        joined = Unit.cells(rows, 1, adjacency)  # cells that a bound may join are like rows
        assert worst == wavelet.sensitivity(joined, depth, distinct=False)


def test_the_error_before_clamping_is_the_forecast_and_shows_a_wrong_scale() -> None:
    bits, trials, scale = 6, 4000, 30
    layout = Layout(Domain([Grid("r", "c", shape=(8, 8))]))
    full = Cells(np.arange(64), np.full(64, 10**7))  # so full that nothing is clamped
    for used, fits in ((scale, True), (scale * Fraction(104, 100), False)):
        published, starts = wavelet.measure(full, layout, DiscreteLaplace(used), system_bits(), trials=trials)
        off = published.counts.reshape(trials, 64) - 10**7
        assert (starts == 64 * np.arange(trials)).all()
        close = []
        for height in range(bits + 1):
            sums = off.reshape(trials, -1, 1 << height).sum(axis=2).astype(float)
            expected = wavelet.block_variance(DiscreteLaplace(scale), bits, height)
            if sums.shape[1] >= 8:  # the others share too much noise to be judged by few trials
                close.append(abs(np.mean(sums**2) / expected - 1) < 0.04)
        assert all(close) if fits else not any(close)


def test_errors_on_the_city_are_those_of_the_paper() -> None:
    printed = [66.20, 87.54, 106.18, 121.09, 135.07]  # larger blocks need more trials than a test should take
    noise = DiscreteLaplace(Fraction(wavelet.sensitivity(Unit.cells(), 18)) * 10)
    assert noise.scale == 190
    truth, squares = city_cells(), []
    for _ in range(40):
        published, _ = wavelet.measure(truth, CITY, noise, system_bits())
        squares.append([error.rmse**2 for error in block_errors(truth, published, CITY, range(0, 10, 2))])
    assert np.sqrt(np.mean(squares, axis=0)) == pytest.approx(printed, rel=0.05)


def test_the_coin_is_fair() -> None:
    layout = Layout(Domain([Category("s", ["a", "b"])]))
    one = Cells(np.array([0, 1]), np.array([500, 501]))
    roots = np.full(100_000, 1001)
    bits = system_bits()
    published, _ = wavelet.sparse(
        one, layout, roots, lambda n: (np.ones(n, np.int64), bits.words(-(-n // 64)).view(np.int64))
    )
    first = published.counts[published.keys == 0]  # (1001 + 0)/2 is rounded either way
    assert set(first.tolist()) == {500, 501}
    assert abs(np.mean(first == 501) - 0.5) < 5.5 * 0.5 / 100_000**0.5
