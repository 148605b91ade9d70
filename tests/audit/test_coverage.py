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


def test_a_short_run_finds_nothing() -> None:
    """The short version, in CI: every strategy and statistic that has an interval, a few times."""
    found = list(coverage(4, eps=("0.5",), levels=(0.95,)))
    assert [str(one) for one in found if not one.holds] == []
    names = {one.what for one in found}
    assert names >= {
        "tree, rows that hold people",
        "tree, rows that hold nobody",
        "tree, all",
        "mean by region",
    }
    assert names >= {f"{strategy}, all" for strategy in ("filtered", "adaptive", "tree, Gaussian")}
    assert names >= {"ranks, joint", "batch, delta", "covariances by region, replaced", "signal, shared"}


def test_every_kind_of_plan_with_an_interval_is_tried() -> None:
    """But sealed draws, whose interval is that of their law alone (tests/secure)."""
    tried = [plan for replaced in (False, True) for plan in statistics_plans("1", replaced=replaced).values()]
    kinds = {plan.kind for plan in (*tried, *signal_plans("1").values())} | {"tables.table"}
    with_interval = {plan.kind for plan in audit.samples().values() if plan.intervals is not None}
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
    found = list(coverage(40))
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
