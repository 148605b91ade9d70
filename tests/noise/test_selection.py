"""Permute-and-flip has its law, exactly, and costs what its proof says."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from law_checks import Scripted, fits

from oboro.noise import selection
from oboro.noise.bits import Bits
from oboro.noise.selection import permute_and_flip, permuted_and_flipped


def law(scores: list[int], eta: float, counts: list[int] | None = None) -> list[float]:
    """By its definition: all orders, a coin for each candidate in turn."""
    owners = [i for i, n in enumerate(counts or [1] * len(scores)) for _ in range(n)]
    chance = [0.0] * len(scores)
    heads = [math.exp(-eta * (score - min(scores))) for score in scores]
    orders = list(permutations(owners))
    for order in orders:
        left = 1.0
        for i in order:
            chance[i] += left * heads[i] / len(orders)
            left *= 1 - heads[i]
    return chance


@pytest.mark.parametrize("counts", [None, [1, 3, 1, 2]])
def test_it_has_the_law_of_permute_and_flip(counts: list[int] | None) -> None:
    scores = [7, 5, 9, 6]
    drawn = permuted_and_flipped(scores, Fraction(1, 2), 200_000, counts, Bits())
    seen = np.bincount(drawn, minlength=4)
    assert fits(seen, law(scores, 0.5, counts))
    assert not fits(seen, law(scores, 0.53, counts))  # six percent off is seen
    weights = np.asarray(counts or [1] * 4) * np.exp(-0.5 * np.asarray(scores))
    assert not fits(seen, weights / weights.sum())  # nor is it the exponential mechanism


def test_balls_choose_as_floats_do() -> None:
    words = Bits().words(400).reshape(100, 4)
    scores, counts = np.array([3, 0, 5, 1], np.uint64), np.array([1, 1, 2**40, 3])
    from oboro.noise import floatball

    by_floats = floatball.largest_keys(words, scores, counts, 0.5, 0.0)
    order, race = selection._race(scores, counts, Fraction(1, 2))
    by_balls = [race.by_balls(row, Bits()) for row in words]
    assert order.tolist() == [0, 1, 2, 3]
    assert by_floats.tolist() == by_balls


@pytest.mark.parametrize(
    ("scores", "counts", "far"),
    [([0, 3, 2, 4], [1, 2, 1, 2], -1.0), ([5, 0, 1], [3, 1, 1], -1.6), ([0, 1, 2], [1, 1, 4], -1.6)],
)
@pytest.mark.long("statistical tests")
def test_candidates_that_are_drawn_together_have_the_same_law(
    monkeypatch: pytest.MonkeyPatch, scores: list[int], counts: list[int], far: float
) -> None:
    """Where the line to those far away is drawn changes nothing; here they win often, which takes balls."""
    monkeypatch.setattr(selection, "_FAR", far)
    _, race = selection._race(np.array(scores, np.uint64), np.array(counts), Fraction(1, 2))
    assert 0 < race.near < len(scores)
    seen = np.bincount(
        permuted_and_flipped(scores, Fraction(1, 2), 20_000, counts, Bits()), minlength=len(scores)
    )
    assert fits(seen, law(scores, 0.5, counts))
    assert not fits(seen, law(scores, 0.6, counts))


def test_a_choice_among_many_takes_few_numbers() -> None:
    """Only candidates that may win are drawn one by one: 3,000 of a million here."""
    scores = np.abs(np.arange(-500_000, 500_000))
    _, race = selection._race(scores.astype(np.uint64), np.ones_like(scores), Fraction(1, 20))
    assert race.near < 4_000
    assert abs(permute_and_flip(scores, Fraction(1, 20)) - 500_000) < 1_000


def test_what_64_bits_leave_open_is_settled_by_more() -> None:
    same = 1 << 63
    assert (
        permute_and_flip([4, 4], 1, bits=Scripted([same, same, 1, 2])) == 0
    )  # the smaller U has the larger key
    assert permute_and_flip([4, 4], 1, bits=Scripted([same, same, 2, 1])) == 1
    assert permute_and_flip([4, 4], 1, bits=Scripted([0, 0, 5, 4])) == 1


def test_huge_counts_are_as_many_candidates() -> None:
    """However many of them share a score."""
    drawn = permuted_and_flipped([0, 1000], Fraction(1, 1000), 20_000, [1, 10**12], Bits())
    assert np.bincount(drawn, minlength=2)[0] == 0
    few = permuted_and_flipped([0, 30], 1, 20_000, [1, 10**13], Bits())
    # the best wins unless a heads of 10^13 coins of e^-30 comes before it: E of 1/(1 + X), X Poisson of mean 0.9358
    mean = 10**13 * math.exp(-30)
    assert fits(
        np.bincount(few, minlength=2), [(1 - math.exp(-mean)) / mean, 1 - (1 - math.exp(-mean)) / mean]
    )


def test_it_costs_no_more_than_the_range_of_what_moves() -> None:
    """Exactly, by its law: e^(eta r) is kept, and met where all scores but one move."""
    eta = 0.7
    worst = 0.0
    for change in ([0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]):
        for scores in ([0, 0, 0], [3, 0, 1], [0, 5, 5], [9, 0, 0]):
            one = law(scores, eta)
            other = law([score + more for score, more in zip(scores, change, strict=True)], eta)
            worst = max([worst, *(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))])
    assert worst <= eta * (1 + 1e-12)
    assert worst > 0.99 * eta
