"""`oboro audit --coverage`: what is printed covers as often as it says, and an interval that is too short is caught."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from oboro.arrays import Integers
from oboro.audit.coverage import LEVELS, Covered, _likely, _tree, coverage
from oboro.cli.main import app
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


def test_a_short_run_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short version, in CI: the strategy that most people use."""
    tree_only(monkeypatch)
    found = list(coverage(3, eps=("0.5",), levels=(0.5, 0.95)))
    assert all(one.holds for one in found)
    assert {one.what for one in found} >= {
        "tree, rows that hold people",
        "tree, rows that hold nobody",
        "tree, all",
    }


def test_an_interval_a_tenth_too_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tree_only(monkeypatch)
    short_by_a_tenth(monkeypatch)
    found = list(coverage(12, eps=("0.1",), levels=(0.5, 0.95)))
    assert any(not one.holds for one in found if "rows" in one.what)


@pytest.mark.long("intervals tried often")
def test_everything_that_has_an_interval_covers() -> None:
    found = list(coverage(40))
    assert [str(one) for one in found if not one.holds] == []
    assert {one.level for one in found} == set(LEVELS)
    assert {"signal", "mean by region, replaced", "filtered, all"} <= {one.what for one in found}


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
