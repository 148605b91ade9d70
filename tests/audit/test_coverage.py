"""`oboro audit --coverage`: what is printed covers as often as it says, and an interval that is too short is caught."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from oboro import audit
from oboro.arrays import Integers
from oboro.audit.coverage import (
    LEVELS,
    Covered,
    _asked,
    _likely,
    _tree,
    coverage,
    signal_plans,
    statistics_plans,
)
from oboro.cli.main import app
from oboro.noise import DiscreteLaplace
from oboro.tables.tree.intervals import Estimates
from support import mostly_long

MODULE = sys.modules["oboro.audit.coverage"]  # its name in the package is that of the function


def tree_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_made", lambda: {"tree": _tree})


def short_by_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: both ends of the rows of trees a tenth nearer to the estimate."""
    whole = Estimates.row_ends

    def short(self: Estimates, leaves: Integers, published: Integers, level: float) -> Any:
        low, high = whole(self, leaves, published, level)
        y = np.maximum(self.raw[leaves], 0)
        return np.ceil(y - 0.9 * (y - low)).astype(np.int64), np.floor(y + 0.9 * (high - y)).astype(np.int64)

    monkeypatch.setattr(Estimates, "row_ends", short)


NAMED = {
    "tree": {
        "tree, rows that hold people",
        "tree, rows that hold nobody",
        "tree, all",
        "tree, odd rectangles",
    },
    "tree by sex": {"tree by sex, rows that hold people", "tree by sex, blocks of 4 x 4"},
    "tree, Gaussian": {"tree, Gaussian, rows that hold nobody", "tree, Gaussian, cells"},
    "tree, publish 0.1": {"tree, publish 0.1, rows that hold people", "tree, publish 0.1, all"},
    "filtered": {"filtered, rows that hold people", "filtered, blocks of 16 x 16"},
    "adaptive": {"adaptive, rows that hold people", "adaptive, all"},
    "statistics": {"mean by region", "sum by region", "covariances", "sum, Gaussian", "histogram"},
    "statistics, replaced": {
        "mean by region, replaced",
        "covariances by region, replaced",
        "query, replaced",
    },
    "quantiles": {"ranks, single", "ranks, independent", "ranks, splitting", "ranks, joint"},
    "batch": {"batch, eps", "batch, rho", "batch, delta"},
    "signals": {"signal", "signal, Gaussian", "signal, shared", "signal, discrete", "signal, at the output"},
}


@pytest.mark.parametrize(
    "name",
    mostly_long(
        "intervals tried often", NAMED, ("tree", "tree, publish 0.1", "quantiles", "batch", "signals")
    ),
)
def test_a_short_run_finds_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short version, in CI: every strategy and statistic that has an interval, a few times."""
    made = MODULE._made()
    assert set(made) == set(NAMED)
    monkeypatch.setattr(MODULE, "_made", lambda: {name: made[name]})
    found = list(coverage(4, eps=("0.5",), levels=(0.5, 0.95)))
    assert [str(one) for one in found if not one.holds] == []
    assert {one.what for one in found} >= NAMED[name]


def test_every_kind_of_plan_with_an_interval_is_tried() -> None:
    """But sealed draws, whose interval is that of their law alone (tests/secure), and means over blocks, whose truth is computed
    only when they are measured (tests/statistics)."""
    tried = [plan for replaced in (False, True) for plan in statistics_plans("1", replaced=replaced).values()]
    kinds = {plan.kind for plan in (*tried, *signal_plans("1").values())} | {"tables.table"}
    with_interval = {plan.kind for plan in audit.samples().values() if plan.intervals is not None}
    with_interval -= {"statistics.sample_and_aggregate"}
    assert {kind for kind in with_interval if not kind.startswith("secure.")} <= kinds


def test_an_interval_a_tenth_too_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tree_only(monkeypatch)
    short_by_a_tenth(monkeypatch)
    found = list(coverage(12, eps=("0.1",), levels=(0.5, 0.95)))
    assert any(not one.holds for one in found if "rows" in one.what)


def test_so_it_is_in_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each interval of Laplace noise a tenth shorter than its law says."""
    true = DiscreteLaplace.interval

    def short(self: DiscreteLaplace, level: float) -> tuple[int, int]:
        _, high = true(self, level)
        return -math.floor(0.9 * high), math.floor(0.9 * high)

    def histogram(tally: Any, name: str, eps: str, levels: Any, runs: int, bits: Any) -> None:
        _asked(
            tally, {"histogram": statistics_plans(eps, replaced=False)["histogram"]}, "", levels, runs, bits
        )

    monkeypatch.setattr(MODULE, "_made", lambda: {"histogram": histogram})
    assert all(one.holds for one in coverage(200, eps=("0.1",), levels=(0.95,)))
    monkeypatch.setattr(DiscreteLaplace, "interval", short)
    assert not all(one.holds for one in coverage(200, eps=("0.1",), levels=(0.95,)))


@pytest.mark.long("intervals tried often")
def test_everything_that_has_an_interval_covers() -> None:
    found = list(coverage(16))
    assert [str(one) for one in found if not one.holds] == []
    assert {one.level for one in found} == set(LEVELS)


def test_chance_is_allowed_for_and_no_more() -> None:
    assert _likely(930, 1000, 0.95, 1e-6)
    assert not _likely(900, 1000, 0.95, 1e-6)
    assert _likely(960, 1000, 0.95, 1e-6)


def test_the_command_line_says_what_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Covered("tree, all", "1", 0.95, 0.96, 100, 12.0, True)
    bad = Covered("tree, cells", "1", 0.95, 0.5, 100, 12.0, False)
    monkeypatch.setattr(MODULE, "coverage", lambda *_, **__: iter([good]))
    done = CliRunner().invoke(app, ["audit", "--coverage"])
    assert done.exit_code == 0
    assert "96.0%" in done.output
    monkeypatch.setattr(MODULE, "coverage", lambda *_, **__: iter([good, bad]))
    done = CliRunner().invoke(app, ["audit", "--coverage"])
    assert done.exit_code != 0
    assert "falls short" in done.output
