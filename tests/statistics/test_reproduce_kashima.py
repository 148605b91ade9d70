"""The claims of Kashima's slides, computed again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oboro.cli.checks import reproductions
from oboro.statistics.papers import kashima


@pytest.mark.parametrize("one", kashima.REPRODUCTIONS, ids=lambda one: one.name)
def test_every_reproduction_runs_and_is_listed(one: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kashima, "TRIALS", 1)
    assert one.name in reproductions()  # type: ignore[attr-defined]
    table = one.make()  # type: ignore[attr-defined]
    assert len(str(table)) > 200
    assert table.errors
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_sensitivities_of_slide_18_reach_what_is_proved_and_no_more() -> None:
    rows = kashima.sensitivities().rows
    assert len(rows) == 8
    for name, _, proved, found, _ in rows:
        assert found == pytest.approx(proved, rel=1e-12), name
    too_small = [row[0] for row in rows if row[1] < row[2] * (1 - 1e-12)]
    assert too_small == ["mean, 2-norm data, Laplace noise"]
    assert [row[4] for row in rows if row[4]] == ["1", "1", "1"]


def test_the_median_of_zeros_and_ones() -> None:
    rows = kashima.median().rows
    for _, _, local, brute_local, smooth, brute_smooth, largest in rows:
        assert local == brute_local <= smooth <= largest == 1
        assert smooth == pytest.approx(brute_smooth, rel=1e-12)
    assert rows[3][1:3] == (0, 1)
    assert rows[4][1:3] == (1, 1)
    assert "1,024 of all 1,024" in kashima.median().notes[0]


def test_laplace_noise_of_scale_smooth_over_eps_misses_by_delta() -> None:
    """0^11 against 0^10 1, at eps = 1: t = 2/(e - 1) scales out the densities are e apart, and the tails decide."""
    t = 2 / (math.e - 1)
    assert kashima.worst_delta(1, 1, 1) == pytest.approx(
        math.exp(-t) - math.e * math.exp(-math.e * t), rel=1e-12
    )
    assert round(kashima.worst_delta(1, 1, 1), 3) == 0.197
    assert 0 < kashima.worst_delta(1, 0.5, 0.5 / math.log(2e6)) < 1e-6


@pytest.mark.parametrize(
    ("eps", "shift", "scale", "other"),
    [
        (1, 0, 1, 1 / math.e),
        (1, 0, 1, 2),
        (0.5, 1, 1, 1),
        (0.3, -1, 1, 2),
        (0.3, 0.7, 2, 1),
        (1, 1, 1, 1),
        (0, 1, 1, 1),
    ],
)
def test_delta_in_closed_form_is_that_of_the_densities(
    eps: float, shift: float, scale: float, other: float
) -> None:
    x = np.linspace(-60, 60, 4_000_001)
    p, q = (np.exp(-np.abs(x - at) / b) / (2 * b) for at, b in ((shift, scale), (0, other)))
    exact = np.maximum(p - math.exp(eps) * q, 0).sum() * (x[1] - x[0])
    assert kashima.laplace_delta(eps, shift, scale, other) == pytest.approx(exact, abs=1e-6)


def test_a_round_of_k_means_costs_what_its_noise_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kashima, "TRIALS", 2)
    table = kashima.kmeans()
    rows = {row[0]: row[2:] for row in table.rows}
    assert [rows[f"slides as printed, T = {t}"][0] for t in (1, 3, 5, 10)] == [0.75, 2.25, 3.75, 7.5]
    assert rows['oboro, method="grid"'][1] < 1.2 * rows["without noise, T = 10"][1]
    assert all(row[3] < 0.6 for row in table.rows)  # of data whose mean squared length is 0.6


def test_noise_without_eps_has_one_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kashima, "TRIALS", 4)
    rows = kashima.svd().rows
    for name, found, proved, eps, _ in rows[:4]:
        assert found == pytest.approx(proved, rel=1e-12), name
        assert eps == proved / 4
    assert [round(row[3], 4) for row in rows[:4]] == [0.5, 0.5, 0.7071, 0.559]
    kept = [row[4] for row in rows[4:]]
    assert all(0.8 < share <= 1 for share in kept)
    assert kept[3] == max(kept)
