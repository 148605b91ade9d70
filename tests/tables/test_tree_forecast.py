"""What a steward shows before spending: the page, and what the plan means for cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from oboro import tables
from oboro.cli.table import app
from oboro.domain import Areas, Category, Domain, Grid, Integer, Mesh
from oboro.errors import ParameterError
from oboro.ledger import Ledger
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.release import Forecast
from oboro.report.chart import block_words
from oboro.report.forecast import write_forecast
from oboro.tables.cells import Cells
from oboro.tables.plan import STRATEGIES
from oboro.tables.tree import intervals
from oboro.tables.tree.intervals import NOISY
from oboro.tables.tree.outlook import SHAPES, _scattered, range_of, tree_outlook
from oboro.tables.tree.strategy import PlannedTree

CITY = Domain([Grid("row", "col")])
TOML = """
[[columns]]
kind = "grid"
names = ["row", "col"]
shape = [64, 64]

[[columns]]
kind = "category"
name = "sex"
values = ["F", "<M>"]
"""


def test_the_outlook_of_a_tree_is_what_happens_in_the_city() -> None:
    plan = tables.plan(CITY, unit=Unit.cells(), eps="0.1")
    outlook = plan.outlook(40_000_000)
    assert outlook is not None
    truth = tables.city().reshape(-1)
    row, col = np.nonzero(tables.city())
    keys = plan.layout.keys([row, col])
    order = np.argsort(keys)
    found = plan.measure(Cells(keys[order], tables.city()[row, col][order]), system_bits())
    table = np.zeros((512, 512), np.int64)
    table[tuple(plan.layout.places(found.keys))] = found.counts
    published = table.reshape(-1)
    near = (np.abs(published - truth) <= 0.2 * truth) & (truth > 0)
    assert near.sum() / (truth > 0).sum() == pytest.approx(outlook.trusted, abs=0.05)
    assert truth[near].sum() / truth.sum() == pytest.approx(outlook.people, abs=0.02)
    assert (published > 0).sum() == pytest.approx(outlook.published, rel=0.15)
    assert (truth[published > 0] == 0).mean() == pytest.approx(outlook.empty, abs=0.08)


def test_the_outlook_of_a_filtered_table_is_what_happens() -> None:
    domain = Domain([Grid("row", "col", shape=(2**17, 2**17))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1)
    outlook = plan.outlook(300_000)
    assert outlook is not None
    truth = _scattered(plan.layout, 300_000)
    assert truth.counts.sum() == pytest.approx(300_000, rel=0.2)
    (found,) = plan.mechanism.measure(truth, system_bits())
    assert found.keys.size == pytest.approx(outlook.published, rel=0.15)
    assert 1 - np.isin(found.keys, truth.keys).mean() == pytest.approx(outlook.empty, abs=0.06)
    assert 0 < outlook.trusted < outlook.people < 1
    notes = plan.forecast(300_000).notes
    assert any("within 20% of the truth" in note for note in notes)
    assert any("hold nobody in truth" in note for note in notes)


@pytest.mark.few(3, "forecast pages")
@pytest.mark.parametrize(
    ("domain", "strategy"),
    [
        (Domain([Grid("row", "col", shape=(64, 64)), Category("sex", ["F", "<M>"])]), None),
        (Domain([Mesh("code", "250m"), Integer("age", 0, 99)]), None),
        (Domain([Category("sex", ["F"])]), None),
        (Domain([Grid("row", "col", shape=(64, 64))]), "wavelet"),
    ],
    ids=["by sex", "filtered", "one cell", "wavelet"],
)
@pytest.mark.parametrize("total", [None, 100_000])
def test_the_page_has_errors_and_what_they_mean(
    domain: Domain, strategy: str | None, total: int | None, tmp_path: Path
) -> None:
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.5", strategy=strategy)
    page = write_forecast(plan, tmp_path / "forecast.html", expected_total=total).read_text()
    assert "<M>" not in page
    assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", page)
    assert "Nothing has been spent" in page
    for name in block_words([str(row[0]) for row in plan.forecast().folded().rows]):
        assert name.en.replace("<", "&lt;").replace(">", "&gt;") in page
    if total is not None and plan.outlook(total) is not None:
        assert page.count('class="figure"') == 4
    elif total is None:
        assert "--expected-total" in page


def test_the_command_line_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("city.toml").write_text(TOML)
    line = "forecast --domain city.toml --eps 0.5 --expected-total 100000 -o forecast.html --language ja"
    more = "--workload blocks --workload squares:3,15 --workload marginals:sex --save-plan plan.toml"
    done = CliRunner().invoke(app, [*line.split(), *more.split()])
    assert done.exit_code == 0, done.output
    assert "written    forecast.html" in done.output
    assert "within 20% of the truth" in done.output
    assert 'lang="ja"' in Path("forecast.html").read_text()
    assert 'kind = "marginals"' in Path("plan.toml").read_text()
    with pytest.raises(ParameterError, match="page"):
        CliRunner().invoke(
            app, ["forecast", "--domain", "city.toml", "--eps", "1", "-o", "a.png"], catch_exceptions=False
        )
    with pytest.raises(ParameterError, match="workload"):
        CliRunner().invoke(
            app,
            ["forecast", "--domain", "city.toml", "--eps", "1", "--workload", "magic"],
            catch_exceptions=False,
        )
    done = CliRunner().invoke(
        app,
        ["forecast", "--domain", "city.toml", "--eps", "1", "--delta", "1e-6", "--workload", "never_worse"],
    )
    assert "the delta" in done.output


def test_the_printed_forecast_folds_areas_of_equal_error() -> None:
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(512, 512))]), unit=Unit.cells(), eps=1, strategy="wavelet"
    )
    found = plan.forecast()
    assert len(found.rows) == 10  # the object keeps every area
    folded = found.folded().rows
    assert folded[0][:2] == ("1 x 1 to 64 x 64 of row,col", "2^0 to 2^12")
    assert folded[0][2] == max(row[2] for row in found.rows[:7])  # never told smaller than it is
    assert len(folded) == 4
    assert "1 x 1 to 64 x 64 of row,col  2^0 to 2^12" in str(found)


def test_cells_are_counted_in_one_way_and_columns_are_called_by_their_labels(tmp_path: Path) -> None:
    meshes = Domain([Mesh("KEY_CODE", level="500m", region=[5132])], labels={"KEY_CODE": "mesh of 500 m"})
    plan = tables.plan(meshes, unit=Unit.cells(), eps=1, strategy="wavelet")
    assert [row[1] for row in plan.forecast().rows] == ["1", "4", "400", "25,600"]  # not 2^0, 2^2, 400
    adaptive = tables.plan(meshes, unit=Unit.cells(), eps=1, strategy="adaptive")
    page = write_forecast(adaptive, tmp_path / "f.html", expected_total=90_000).read_text()
    assert "KEY_CODE" not in page.partition("<main")[2]
    assert "90,000 people" in page
    assert "give --expected-total" not in page
    assert "give --expected-total" in write_forecast(plan, tmp_path / "f.html").read_text()


def test_areas_are_folded_only_if_they_differ_in_one_column() -> None:
    def fold(*names: str, error: float = 1.0) -> list[str]:
        rows = tuple((name, 4**i, 2.0 * error**i, 5.0) for i, name in enumerate(names))
        return [row[0] for row in Forecast("t", ("block size", "cells", "e", "w"), rows).folded().rows]

    assert fold("500 m mesh", "1 km mesh", "10 km mesh") == ["500 m to 10 km mesh"]
    assert fold("4 x 4 of r,c; each sex", "8 x 8 of r,c; each sex") == ["4 x 4 to 8 x 8 of r,c; each sex"]
    apart = ["1 x 1 of r,c; each sex", "2 x 2 of r,c; all of sex"]
    assert fold(*apart) == apart
    assert fold("1 x 1 of r,c", "2 x 2 of r,c", error=1.01) == ["1 x 1 of r,c", "2 x 2 of r,c"]
    assert fold("all of code", "all of code") == ["all of code"]  # one primary mesh is the whole region
    other = Forecast("t", ("of each", "error"), (("count of age", 1.0), ("count of sex", 1.0)))
    assert other.folded() == other


# -- what a file will not carry -----------------------------------------------------------------------------------------

LACKS = "the file will carry intervals of single rows alone"
TREE = ("--strategy", "tree")


def carries(plan: tables.TablePlan) -> bool:
    cells = plan.prepare({"row": np.arange(8), "col": np.arange(8)})
    table = plan.publish(plan.measure(cells, system_bits()))
    return NOISY in table.schema.metadata


def test_a_forecast_says_before_anything_is_spent_that_a_file_will_carry_no_intervals(tmp_path: Path) -> None:
    """31 million cells: they were released and paid for, and only then could not be shown with intervals."""
    domain = tmp_path / "large.toml"
    domain.write_text(TOML.partition("\n\n")[0].replace("[64, 64]", "[5700, 5500]"))
    for language, words in (("en", LACKS), ("ja", "区間は一つ一つの行のものだけ")):
        words_typed = ["forecast", "--domain", str(domain), "--eps", "0.5", "--unit", "cells:1:1", *TREE]
        shown = CliRunner().invoke(app, words_typed, env={"OBORO_LANGUAGE": language})
        assert shown.exit_code == 0
        assert words in shown.output
    where = str(tmp_path / "l.ledger")
    Ledger.create(where, dataset="d", unit=Unit.cells(), budget=Pure(1)).close()
    unread = tmp_path / "cells.csv"
    unread.write_text("row,col\n")
    line = [
        "release",
        str(unread),
        "--domain",
        str(domain),
        "--eps",
        "0.5",
        "--ledger",
        where,
        "--dry-run",
        *TREE,
    ]
    dry = CliRunner().invoke(app, line)
    assert dry.exit_code == 0, dry.output
    assert LACKS in dry.output
    assert LACKS in CliRunner().invoke(app, [*line, "--json"]).output


@pytest.mark.parametrize(("most", "room"), [(10**9, 10**9), (4100, 10**9), (10**9, 2000), (10**9, 20_000)])
def test_what_a_forecast_says_of_intervals_is_what_happens(
    monkeypatch: pytest.MonkeyPatch, most: int, room: int
) -> None:
    monkeypatch.setattr(intervals, "MOST", most)
    monkeypatch.setattr(intervals, "_MOST_BYTES", room)
    domain = Domain([Grid("row", "col", shape=(64, 64))])
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.01", strategy="tree")
    notes = " ".join(plan.forecast().notes)
    assert carries(plan) == (LACKS not in notes)
    assert ("rows alone" in notes) == (min(most, room) < 10_000)
    asks = " ".join(tables.plan(domain, unit=Unit.cells(), eps="0.01").forecast().notes)
    assert LACKS not in asks  # that depends on which way is gone
    assert ("the file may carry intervals of single rows alone" in asks) == (min(most, room) < 10_000)


def test_a_forecast_says_where_it_comes_close(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain([Grid("row", "col", shape=(64, 64))])
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.01", strategy="tree")
    sizes = [int(np.prod(plan.mechanism.lattice.nodes(level))) for level in plan.design.levels]  # type: ignore[union-attr,attr-defined]
    bits = sum(n * (np.log2(noise.sd) + 1.94) for n, noise in zip(sizes, plan.mechanism.noises, strict=True))  # type: ignore[attr-defined]
    monkeypatch.setattr(intervals, "_MOST_BYTES", int(bits / 6 * 1.1))
    assert any(
        "the file may carry intervals of single rows" in note for note in plan.mechanism.forecast().notes
    )


def test_the_grid_that_adapts_says_so_at_its_largest() -> None:
    for side, said in ((4096, False), (8192, True)):
        grid = Domain([Grid("row", "col", shape=(side, side))])
        few = {"unit": Unit.cells(adjacency="replace"), "total": 10**9}
        plan = tables.plan(grid, eps="0.1", strategy="adaptive", **few)
        assert any("may carry intervals of single rows" in note for note in plan.forecast().notes) == said


def test_the_outlook_holds_a_table_that_is_no_map() -> None:
    """By age and hours, half of them at 40: few values of the second column hold most people."""
    rng = np.random.default_rng(2)
    age = np.clip(rng.gamma(8, 4.8, 32_000), 17, 90).astype(int)
    odd = np.clip(rng.normal(38, 14, age.size), 1, 99).astype(int)
    often = rng.choice([35, 45, 50, 60, 20, 30], age.size)
    hours = np.where(rng.random(age.size) < 0.47, 40, np.where(rng.random(age.size) < 0.7, often, odd))
    plan = tables.plan(Domain([Integer("age", 0, 99), Integer("hours", 0, 99)]), unit=Unit.row(), eps=1)
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    prepared = plan.prepare({"age": age.tolist(), "hours": hours.tolist()})
    found = plan.measure(prepared, system_bits())
    facts = (strategy.lattice, plan.layout.cells, strategy.chosen, strategy.noises, age.size, None)
    tried = [tree_outlook(*facts, shape) for shape in SHAPES]
    empty = 1 - np.isin(found.keys, prepared.keys).mean()
    assert min(one.empty for one in tried) < empty < max(one.empty for one in tried)
    assert min(one.published for one in tried) < found.keys.size < max(one.published for one in tried)


@pytest.mark.long("plans tried out")
def test_the_outlook_is_a_range_over_shapes_of_place() -> None:
    """The city's own figures lie in it, and shapes differ."""

    domain = Domain([Grid("row", "col", shape=(128, 128))])
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.1", strategy="tree")
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    facts = (strategy.lattice, 128 * 128, strategy.chosen, strategy.noises, 500_000, None)
    found = [tree_outlook(*facts, shape) for shape in SHAPES]
    assert len({one.published for one in found}) == len(SHAPES)
    assert range_of(found) in plan.forecast(500_000).notes
    assert max(one.published for one in found) > 1.5 * min(one.published for one in found)


@pytest.mark.long("forecasts beside answers")
def test_a_public_total_is_forecast_without_error_and_other_blocks_as_they_are_answered(
    tmp_path: Path,
) -> None:
    """The standard errors of the forecast are those of the answers."""
    domain = Domain([Grid("row", "col", shape=(16, 16))])
    unit = Unit.cells(adjacency="replace")
    plan = tables.plan(domain, unit=unit, eps=1, count="n", strategy="tree", total=90)
    data = {"row": [3, 9], "col": [4, 4], "n": [60, 30]}
    table = plan.publish(plan.measure(plan.prepare(data), system_bits()))
    told = {row[1]: row[2] for row in plan.forecast().rows}
    for side in (1, 2, 4, 8, 16):
        answer = tables.ask(table, {"row": (0, side - 1), "col": (0, side - 1)})
        if side > 1:  # a published cell has its own error
            assert told[side * side] == pytest.approx(answer.standard_error, rel=1e-6, abs=1e-9)
    assert told[256] == 0
    assert write_forecast(plan, tmp_path / "forecast.html").exists()


AREAS = Areas(
    "row,col",
    levels=["town", "row,col"],
    table={
        "town": [str(row // 5) for row in range(16) for _ in range(16)],
        "row": [row for row in range(16) for _ in range(16)],
        "col": 16 * list(range(16)),
    },
    of=Grid("row", "col", shape=(16, 16)),
)
SQUARE = Grid("row", "col", shape=(16, 16))
TAKING: dict[str, tuple[Grid | Areas, dict[str, Any]]] = {
    "tree": (SQUARE, {"strategy": "tree"}),
    "tree with delta": (SQUARE, {"strategy": "tree", "delta": "1e-6"}),
    "tree with publish": (SQUARE, {"strategy": "tree", "publish": "0.1"}),
    "areas": (AREAS, {"strategy": "tree"}),
    "adaptive": (SQUARE, {"strategy": "adaptive"}),
    "adaptive with delta": (SQUARE, {"strategy": "adaptive", "delta": "1e-6"}),
    "adaptive, blocks": (SQUARE, {"strategy": "adaptive", "workload": tables.blocks()}),
    "adaptive-0.1": (Grid("row", "col", shape=(64, 64)), {"strategy": "adaptive-0.1"}),
    "wavelet": (SQUARE, {"strategy": "wavelet"}),
    "as it comes": (SQUARE, {}),
}


@pytest.mark.few(8, "forecasts of totals")
@pytest.mark.parametrize("sea", [False, True])
@pytest.mark.parametrize("name", TAKING)
def test_the_total_is_forecast_without_error_where_it_is_public_and_only_there(name: str, sea: bool) -> None:
    column, facts = TAKING[name]
    land = {"row": [row for row in range(10) for _ in range(16)], "col": 10 * list(range(16))}
    more = {**facts, **({"possible": land} if sea and column is SQUARE else {})}
    for total in [90] if name == "adaptive-0.1" else [None, 90]:  # that one needs it
        unit = Unit.cells(adjacency="replace")
        plan = tables.plan(Domain([column]), unit=unit, eps=1, count="n", total=total, **more)
        for guess in (None, 90, 10**5) if "adaptive" in name else (None,):
            *smaller, whole = (float(row[2]) for row in plan.forecast(guess).rows)
            assert (whole == 0) == (total is not None)
            assert min(smaller) > 0


def test_a_public_total_is_typed_and_has_no_error_in_what_is_printed(tmp_path: Path) -> None:
    where = tmp_path / "square.toml"
    where.write_text('[[columns]]\nkind = "grid"\nnames = ["row", "col"]\nshape = [16, 16]\n')
    for strategy in ("tree", "adaptive", "wavelet"):
        line = f"forecast --domain {where} --eps 1 --unit cells,replace --strategy {strategy} --json"
        for more in ([], ["--total", "90"]):
            done = CliRunner().invoke(app, [*line.split(), *more])
            assert done.exit_code == 0, done.output
            whole = json.loads(done.output)["forecast"]["rows"][-1]
            assert (float(whole[2]) == 0) == bool(more), strategy


def test_every_other_strategy_refuses_a_public_total() -> None:
    named = {str(facts.get("strategy")) for _, facts in TAKING.values()}
    assert {name for name, own in STRATEGIES.items() if own.takes_total} <= named
    for name in STRATEGIES.keys() - named:
        with pytest.raises(ParameterError, match="a public total cannot be used here"):
            tables.plan(
                Domain([SQUARE]),
                unit=Unit.cells(adjacency="replace"),
                eps=1,
                count="n",
                total=90,
                strategy=name,
            )
