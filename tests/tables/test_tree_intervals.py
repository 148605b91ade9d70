"""Intervals and questions: from the published file alone, and as sure as they say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import oboro as ob
from oboro import tables
from oboro.arrays import Integers
from oboro.cli.table import app
from oboro.domain import Category, Date, Domain, Grid, Integer, Mesh
from oboro.errors import DataError, ParameterError
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import Cells
from oboro.tables.tree.answers import choices, read_question
from oboro.tables.tree.lattice import lattice_of

DOMAIN = Domain([Grid("row", "col", shape=(64, 64)), Category("sex", ["F", "M"])])


def people() -> Integers:
    counts = tables.city()[200:264, 220:284]
    women = counts // 2
    return np.stack([women, counts - women], axis=2)


def as_data(table: Integers) -> pa.Table:
    row, col, sex = np.nonzero(table)
    return pa.table(
        {"row": row, "col": col, "sex": np.array(["F", "M"])[sex], "people": table[row, col, sex]}
    )


@pytest.fixture
def release(tmp_path: Path) -> Any:
    account = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=Unit.cells(), budget=Pure(5))
    plan = tables.plan(DOMAIN, unit=Unit.cells(), eps="0.5")
    assert plan.strategy == "tree"
    return tables.release(as_data(people()), plan, count="people", ledger=account)


def test_the_file_alone_answers_any_question(release: Any, tmp_path: Path) -> None:
    release.save(tmp_path / "published.parquet")
    published = release.to_arrow()
    assert tables.ask(tmp_path / "published.parquet").value == sum(published.column("people").to_pylist())
    where = {"row": (10, 25), "col": [3, 4, 5], "sex": "F"}
    answer = tables.ask(tmp_path / "published.parquet", where)
    rows = published.to_pylist()
    assert answer.value == sum(
        r["people"] for r in rows if 10 <= r["row"] <= 25 and r["col"] in (3, 4, 5) and r["sex"] == "F"
    )
    assert answer.low <= answer.value <= answer.high
    assert release.interval(row=(10, 25), col=[3, 4, 5], sex="F") == answer
    wide = tables.ask(published, where, level=0.999)
    assert wide.low <= answer.low
    assert wide.high > answer.high


@pytest.mark.parametrize("strategy", ["tree", "filtered", "adaptive"])
def test_what_was_added_beside_the_counts_is_not_counted(strategy: str) -> None:
    """Such as the ends of intervals: the plan in the file names the column."""
    moved = Unit.cells(adjacency="replace")
    domain = Domain([Grid("low", "col", shape=(64, 64))])
    plan = tables.plan(
        domain,
        unit=moved,
        eps=1,
        count="people",
        strategy=strategy,
        total=900 if strategy == "adaptive" else None,
    )
    prepared = plan.prepare({"low": [3, 40, 60], "col": [4, 5, 6], "people": [300] * 3})
    table = plan.publish(plan.measure(prepared, system_bits()))
    assert plan.intervals is not None
    low, high = plan.intervals(table, 0.95)
    wanted = tables.ask(table, {"low": (0, 31)})
    wide = table.append_column("interval low", [low]).append_column("high", [high])
    for other in (
        wide,
        wide.select(["high", "people", "col", "low"]),
        table.append_column("note", [pa.nulls(table.num_rows)]),
    ):
        assert tables.ask(other, {"low": (0, 31)}) == wanted
        assert np.array_equal(plan.intervals(other, 0.95)[1], high)
    with pytest.raises(DataError, match="no column 'people'"):
        tables.ask(table.drop_columns(["people"]))
    with pytest.raises(DataError, match="two columns"):
        tables.ask(table.append_column("people", table.column("people")))


def test_a_release_with_its_intervals_is_asked_like_the_release(release: Any) -> None:
    assert tables.ask(release.interval(), {"row": (0, 30)}) == tables.ask(
        release.to_arrow(), {"row": (0, 30)}
    )


def test_the_command_line_asks(release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release.save("published.parquet")
    release.save("published.csv")
    answer = tables.ask("published.parquet", {"row": (10, 25), "sex": "F"})
    done = CliRunner().invoke(app, ["ask", "published.parquet", "row=10..25", "sex=F"])
    assert done.exit_code == 0
    assert str(answer) in done.output
    done = CliRunner().invoke(app, ["ask", "published.parquet", "--json"])
    assert '"standard_error"' in done.output
    for wrong in (["row=99"], ["row"], ["town=3"], ["sex=X"], ["row=a..b"]):
        with pytest.raises(ParameterError):
            tables.ask("published.parquet", read_question(wrong))
    with pytest.raises(DataError):
        tables.ask("published.csv")
    pq.write_table(release.to_arrow().replace_schema_metadata(None), "bare.parquet")
    with pytest.raises(DataError, match="does not carry what intervals come from"):
        tables.ask("bare.parquet")


@pytest.mark.parametrize("strategy", ["tree", "filtered", "sized", "adaptive", "wavelet"])
def test_a_table_with_intervals_says_for_which_rows_they_are_not_promised(strategy: str) -> None:
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(16, 16))]), unit=Unit.cells(), eps=1, strategy=strategy
    )
    told = plan.footnote is not None and "not for the largest one" in plan.footnote
    assert told == (plan.intervals is not None)


@pytest.mark.few(3, "rows beside answers")
@pytest.mark.parametrize("eps", ["0.1", "3"])
@pytest.mark.parametrize(
    "facts",
    [
        {"strategy": "tree"},
        {"strategy": "tree", "publish": "0.1"},
        {"strategy": "tree", "delta": "1e-6"},
        {"strategy": "filtered"},
        {"strategy": "adaptive"},
        {"strategy": "adaptive", "workload": tables.blocks()},
        {"strategy": "sized"},
        {"strategy": "sized", "workload": tables.cells()},
    ],
    ids=str,
)
def test_a_row_has_the_numbers_that_ask_gives_and_a_note_that_says_which_to_use(
    facts: dict[str, Any], eps: str
) -> None:
    plan = tables.plan(
        Domain([Grid("row", "col", shape=(16, 16))]), unit=Unit.cells(), eps=eps, count="n", **facts
    )
    true = np.random.default_rng(4).poisson(np.where(np.arange(256) < 60, 400.0, 1.0)).reshape(16, 16)
    row, col = np.nonzero(true)
    data = {"row": row.tolist(), "col": col.tolist(), "n": true[row, col].tolist()}
    table = plan.publish(plan.measure(plan.prepare(data), system_bits()))
    two = "estimate" in table.column_names
    assert two == ("for a single row use estimate" in str(plan.footnote))
    assert plan.intervals is not None
    low, high = (each.tolist() for each in plan.intervals(table, 0.95))
    for at, own in enumerate(table.slice(0, 25).to_pylist()):
        answer = plan.ask(table, {"row": own["row"], "col": own["col"]})
        estimate = own.get("estimate")
        estimate = own["n"] if estimate is None else estimate
        assert (answer.value, answer.low, answer.high) == (own["n"], low[at], high[at])
        assert (answer.value if answer.estimate is None else answer.estimate) == estimate
        assert answer.low <= min(answer.value, estimate) <= max(answer.value, estimate) <= answer.high


@pytest.mark.long("statistical tests")
def test_intervals_cover() -> None:
    """Over many runs: every published cell, non-zero cells, blocks and categories."""
    plan = tables.plan(DOMAIN, unit=Unit.cells(), eps="0.5", count="people")
    truth = people()
    prepared = plan.prepare(as_data(truth))
    questions: list[dict[str, Any]] = [
        {"row": (0, 7), "col": (8, 15)},
        {"row": (3, 40), "col": (11, 50), "sex": "F"},
        {"sex": "M"},
        {"row": 5, "col": 9, "sex": "F"},
    ]
    real = [truth[0:8, 8:16].sum(), truth[3:41, 11:51, 0].sum(), truth[:, :, 1].sum(), truth[5, 9, 0]]
    hits, cells, lived, runs = np.zeros(4), [], [], 25
    too_sure = dataclasses.replace(
        plan, guarantee=Pure("0.75")
    ).intervals  # as if there were less noise: must be seen
    missed = []
    for _ in range(runs):
        table = plan.publish(plan.measure(prepared, system_bits()))
        intervals = plan.intervals
        assert intervals is not None
        low, high = intervals(table, 0.95)
        where = [table.column(name).to_numpy() for name in ("row", "col")]
        sex = np.array(table.column("sex").combine_chunks().indices)
        true = truth[where[0], where[1], sex]
        inside = (low <= true) & (true <= high)
        cells.append(inside.mean())
        lived.append(inside[true > 0].mean())
        assert too_sure is not None
        low, high = too_sure(table, 0.95)
        missed.append(((low <= true) & (true <= high))[true > 0].mean())
        for i, (question, value) in enumerate(zip(questions, real, strict=True)):
            answer = plan.ask(table, question)
            hits[i] += answer.low <= value <= answer.high
    # over 25 runs of some 6,000 cells each these means are known to about 0.001: a false alarm is out of the question
    assert np.mean(cells) > 0.94
    assert np.mean(lived) > 0.90
    assert np.mean(missed) < 0.94
    assert hits.sum() / (4 * runs) > 0.94 - 3 * np.sqrt(0.05 * 0.95 / (4 * runs))


@pytest.mark.parametrize(
    ("domain", "where", "size"),
    [
        (Domain([Mesh("code", "500m", region=[5339, 5340])]), {"code": "5339"}, 25600),
        (Domain([Mesh("code", "500m", region=[5339, 5340])]), {"code": [53394577, 533945781]}, 5),
        (Domain([Integer("age", 0, 99)]), {"age": ("20", "64")}, 45),
        (Domain([Integer("age", 0, 99)]), {"age": 7}, 1),
        (Domain([Date("day", "2026-01-01", "2026-03-31")]), {"day": ("2026-01-30", "2026-02-02")}, 4),
        (Domain([Category("n", [1, 2, 3])]), {"n": ["1", "3"]}, 2),
        (Domain([Grid("r", "c", shape=(5, 7))]), {"r": 4}, 7),
        (Domain([Grid("r", "c", shape=(5, 7))]), {}, 35),
    ],
)
def test_questions_choose_what_they_name(domain: Domain, where: dict[str, Any], size: int) -> None:
    plan = tables.plan(domain, unit=Unit.row(), eps=1)
    (chosen,) = choices(plan.layout, lattice_of(domain), where)
    assert chosen.sum() == size


# -- a table whose noisy counts do not fit into a file --------------------------------------------------------------------


def _towns() -> Domain:
    row, col = (each.reshape(-1) for each in np.indices((8, 8)))
    town = np.array(["a", "b"])[(row > 2).astype(int)]
    own = pa.table({"town": town, "row": row, "col": col})
    grid = Grid("row", "col", shape=(8, 8))
    return Domain([ob.Areas("row,col", levels=["town", "row,col"], table=own, of=grid)])


SMALL = Domain([Grid("row", "col", shape=(16, 16))])


@pytest.mark.parametrize(
    ("domain", "facts"),
    [
        (SMALL, {}),
        (SMALL, {"publish": "0.1"}),
        (SMALL, {"eps": "3"}),
        (SMALL, {"delta": "1e-6"}),
        (SMALL, {"strategy": "filtered"}),
        (
            Domain([Grid("row", "col", shape=(64, 64))]),
            {"strategy": "adaptive", "unit": Unit.cells(adjacency="replace"), "total": 320},
        ),
        (Domain([Grid("row", "col", shape=(8, 8)), Category("sex", ["F", "M"])]), {}),
        (_towns(), {}),
    ],
    ids=["tree", "publish", "coins", "gaussian", "filtered", "adaptive", "several", "areas"],
)
def test_where_noisy_counts_do_not_fit_the_rows_carry_their_own_intervals(
    domain: Domain, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tables.plan(domain, **{"unit": Unit.cells(), "eps": "0.5", "count": "people", **facts})
    data = {"row": np.arange(8), "col": np.arange(8), "people": np.full(8, 40)}
    beside = {"sex": ["F", "M"] * 4} if "sex" in domain.names else {}
    measured = plan.measure(plan.prepare(pa.table({**data, **beside})), system_bits())
    full = plan.publish(measured)
    assert plan.intervals is not None
    low, high = plan.intervals(full, 0.95)
    monkeypatch.setattr("oboro.tables.tree.intervals.MOST", 1)
    table = plan.publish(measured)
    assert table.column_names == [*full.column_names, "low", "high"]
    assert table.select(full.column_names).equals(full)
    assert (table["low"].to_numpy() == low).all()
    assert (table["high"].to_numpy() == high).all()
    assert full.num_rows > 0
    with pytest.raises(DataError, match="does not carry its noisy counts") as error:
        tables.ask(table, {"row": 3})
    assert error.value.given == "the 95% intervals of its rows, as columns"


def test_a_release_of_such_a_table_gives_its_own_intervals_and_files_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oboro.tables.tree.intervals.MOST", 1)
    account = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=Unit.cells(), budget=Pure(5))
    domain = Domain([Grid("row", "low", shape=(16, 16))])  # a column whose name is taken
    data = {"row": np.arange(8), "low": np.arange(8), "people": np.full(8, 80)}
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, count="people")
    tables.release(data, plan, ledger=account, name="a")
    again = tables.release(data, plan, ledger=account, name="a")  # from the ledger
    assert again.interval().equals(again.to_arrow())
    assert again.to_arrow().column_names[-2:] == ["interval low", "high"]
    with pytest.raises(DataError, match="does not carry its noisy counts"):
        again.interval(0.8)
    for name in ("a.parquet", "a.csv", "a.xlsx"):
        again.save(tmp_path / name)
    assert (
        (tmp_path / "a.csv").read_text().startswith('"row","low","people","estimate","interval low","high"\n')
    )
    assert pq.read_table(tmp_path / "a.parquet").equals(again.to_arrow())


@pytest.mark.filterwarnings("error")
def test_one_cell_with_a_public_total_and_a_delta_is_answered_without_a_warning() -> None:
    unit = Unit.cells(adjacency="replace")
    domain = Domain([Grid("row", "col", shape=(1, 1))])
    strategy = tables.plan(domain, unit=unit, eps=1, delta="1e-6", total=10, strategy="tree").mechanism
    (published,) = strategy.measure(Cells(np.array([0]), np.array([10])), system_bits())
    found = strategy.answer(published, {"row": 0, "col": 0}, 0.95)
    assert found.low <= 10 <= found.high
