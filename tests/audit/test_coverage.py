"""`oboro audit --coverage`: what is printed covers as often as it says, and an interval that is too short is caught."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from oboro import audit, tables
from oboro.arrays import Integers
from oboro.audit.coverage import LEVELS, _own_questions, coverage
from oboro.audit.figures import Covered, _asked, _tree, likely, persons_plans, signal_plans, statistics_plans
from oboro.cli.main import app
from oboro.domain import Areas, Category, Date, Domain, Grid, Integer, Mesh
from oboro.errors import ParameterError
from oboro.noise import DiscreteLaplace, system_bits
from oboro.privacy import Unit
from oboro.release import save_plan
from oboro.tables.tree.errors import Error
from oboro.tables.tree.intervals import Estimates
from support import mostly_long

MODULE = sys.modules["oboro.audit.coverage"]  # its name in the package is that of the function


def tree_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "made", lambda: {"tree": _tree})


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
    "tree by sex, Gaussian": {
        "tree by sex, Gaussian, rows that hold people",
        "tree by sex, Gaussian, cells",
    },
    "tree by sex, Gaussian, publish 0.1": {"tree by sex, Gaussian, publish 0.1, rows that hold people"},
    "tree, publish 0.1": {"tree, publish 0.1, rows that hold people", "tree, publish 0.1, all"},
    "tree, total": {"tree, total, rows that hold nobody", "tree, total, odd rectangles"},
    "tree, sea": {"tree, sea, rows that hold people", "tree, sea, all"},
    "filtered": {"filtered, rows that hold people", "filtered, blocks of 16 x 16"},
    "filtered, sea": {"filtered, sea, rows that hold people", "filtered, sea, all"},
    "areas": {"areas, rows that hold nobody", "areas, areas", "areas, cells"},
    "areas, known": {"areas, known, rows that hold people", "areas, known, areas"},
    "adaptive": {"adaptive, rows that hold people", "adaptive, all"},
    "adaptive, blocks": {"adaptive, blocks, rows that hold people", "adaptive, blocks, blocks of 16 x 16"},
    "sized": {"sized, rows that hold people", "sized, all"},
    "series": {
        "series, ticks at once",
        "series, all of the time in the end",
        "series, ticks with one lost",
        "series, cells, ticks in the end",
        "series, Gaussian, ticks at once",
        "series, event level, all of the time at once",
    },
    "statistics": {"mean by region", "sum by region", "covariances", "sum, Gaussian", "histogram"},
    "statistics, replaced": {
        "mean by region, replaced",
        "covariances by region, replaced",
        "query, replaced",
    },
    "persons": {
        "persons",
        "persons by region, Gaussian",
        "persons, replaced",
        "persons by region, replaced, Gaussian",
    },
    "SQL": {"SQL, ratio", "SQL, deviation, replaced", "SQL, correlation"},
    "quantiles": {"ranks, single", "ranks, independent", "ranks, splitting", "ranks, joint"},
    "batch": {"batch, eps", "batch, eps, shared", "batch, rho", "batch, rho, shared", "batch, delta"},
    "signals": {"signal", "signal, Gaussian", "signal, shared", "signal, discrete", "signal, at the output"},
}


@pytest.mark.parametrize(
    "name",
    mostly_long("intervals tried often", NAMED, ("tree", "persons", "quantiles", "batch", "SQL", "signals")),
)
def test_a_short_run_finds_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short version, in CI: every strategy and statistic that has an interval, a few times."""
    made = MODULE.made()
    assert set(made) == set(NAMED)
    monkeypatch.setattr(MODULE, "made", lambda: {name: made[name]})
    found = list(coverage(4, eps=("0.5",), levels=(0.5, 0.95)))
    assert [str(one) for one in found if not one.holds] == []
    assert {one.what for one in found} >= NAMED[name]


def test_every_kind_of_plan_with_an_interval_is_tried() -> None:
    """But sealed draws, whose interval is that of their law alone (tests/secure), means over blocks, whose truth is
    computed only when they are measured (tests/statistics)."""
    tried = [plan for replaced in (False, True) for plan in statistics_plans("1", replaced=replaced).values()]
    others = (*persons_plans("1").values(), *signal_plans("1").values())
    kinds = {plan.kind for plan in (*tried, *others)} | {"tables.table", "tables.series"}
    with_interval = {plan.kind for plan in audit.samples().values() if plan.intervals is not None}
    with_interval -= {"statistics.sample_and_aggregate"}
    assert {kind for kind in with_interval if not kind.startswith("secure.")} <= kinds


def test_an_interval_a_tenth_too_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tree_only(monkeypatch)
    short_by_a_tenth(monkeypatch)
    found = list(coverage(12, eps=("0.1",), levels=(0.5, 0.95)))
    assert any(not one.holds for one in found if "rows" in one.what)


@pytest.mark.long("intervals tried often")
def test_so_it_is_in_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a series prints four tenths shorter than its errors say, at eps 0.5 and 1."""
    from oboro.audit import hours

    whole, asked = Error.reach, tables.each_tick("4x4") + tables.mean_over_ticks("cells")

    def series(tally: Any, name: str, eps: str, levels: Any, runs: int, bits: Any) -> None:
        hours._tried(tally, name, hours._plan(eps, asked), levels, runs, bits)

    monkeypatch.setattr(MODULE, "made", lambda: {"series": series})
    assert all(one.holds for one in coverage(20, eps=("0.5", "1"), levels=(0.8, 0.95)))
    monkeypatch.setattr(Error, "reach", lambda self, level: 0.6 * whole(self, level))
    short = {(one.what, one.eps) for one in coverage(20, eps=("0.5", "1"), levels=(0.95,)) if not one.holds}
    for eps in ("0.5", "1"):
        assert {
            ("series, all of the time at once", eps),
            ("series, all of the time in the end", eps),
        } <= short


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

    monkeypatch.setattr(MODULE, "made", lambda: {"histogram": histogram})
    assert all(one.holds for one in coverage(200, eps=("0.1",), levels=(0.95,)))
    monkeypatch.setattr(DiscreteLaplace, "interval", short)
    assert not all(one.holds for one in coverage(200, eps=("0.1",), levels=(0.95,)))


@pytest.mark.long("intervals tried often")
def test_everything_that_has_an_interval_covers() -> None:
    found = list(coverage(16))
    assert [str(one) for one in found if not one.holds] == []
    assert {one.level for one in found} == set(LEVELS)


def test_chance_is_allowed_for_and_no_more() -> None:
    assert likely(930, 1000, 0.95, 1e-6)
    assert not likely(900, 1000, 0.95, 1e-6)
    assert likely(960, 1000, 0.95, 1e-6)


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


@pytest.mark.few(1, "intervals tried often")
@pytest.mark.parametrize(
    "columns",
    [
        [Grid("row", "col", shape=(20, 30)), Category("sex", ["F", "M"])],
        [Mesh("code", "1km", region=[5339])],
        [Integer("age", 17, 90), Date("day", "2026-01-01", "2026-01-31")],
        [
            Areas(
                "row,col",
                levels=["town", "row,col"],
                table={
                    "town": ["a", "b"] * 70,
                    "row": [i // 7 for i in range(140)],
                    "col": [i % 7 for i in range(140)],
                },
                of=Grid("row", "col", shape=(20, 7)),
            )
        ],
    ],
    ids=["grid", "mesh", "age", "areas"],
)
def test_a_table_of_ones_own_is_tried(columns: list[Any], tmp_path: Path) -> None:
    """By the command that docs/audit.md shows; questions come from the domain, and are true sums of the file."""
    plan = tables.plan(Domain(columns), unit=Unit.row(), eps="0.5")
    save_plan(plan, tmp_path / "plan.toml")
    rows = {
        "row": [i % 20 for i in range(900)],
        "col": [i % 7 for i in range(900)],
        "sex": ["F"] * 900,
        "code": [53394577] * 900,
        "age": [20 + i % 50 for i in range(900)],
        "day": [f"2026-01-{1 + i % 30:02}" for i in range(900)],
    }
    own = pa.table({name: rows[name] for column in columns for name in column.sources})
    pq.write_table(own, tmp_path / "rows.parquet")
    words = ["audit", str(tmp_path / "plan.toml"), "--coverage", "--data", str(tmp_path / "rows.parquet")]
    done = CliRunner().invoke(app, [*words, "--trials", "3", "--json"])
    assert done.exit_code == 0, done.output
    kinds = {one["what"] for one in json.loads(done.output)}
    larger = "areas" if isinstance(columns[0], Areas) else "odd rectangles"
    said = ("rows that hold people", "cells", larger, "all")
    assert {f"{plan.strategy}, {what}" for what in said} <= kinds
    cells = plan.prepare(own)
    for what, where, value in _own_questions(plan, cells):
        assert 0 <= value <= 900
        assert value == 900 or what != "all"
        assert plan.mechanism.answer(plan.measure(cells, system_bits()), where, 0.5).level == 0.5


def test_only_a_table_with_intervals_is_tried_on_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age\n3\n")
    plan = statistics_plans("1", replaced=False)["count"]
    with pytest.raises(ParameterError, match="only tables"):
        coverage(1, plan=plan, data=tmp_path / "rows.csv")  # type: ignore[arg-type]
    done = CliRunner().invoke(app, ["audit", "--coverage", "--data", str(tmp_path / "rows.csv")])
    assert done.exit_code != 0
