"""A session as a user meets it: every line of the issue, batches, bad data, and nothing private in what is shown."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from oboro.errors import (
    BoundsError,
    BudgetError,
    DataError,
    GuaranteeError,
    InputError,
    ParameterError,
    UnitError,
)
from oboro.release import load_plan, save_plan
from oboro.statistics.questions import BatchPlan, as_pure, shares
from oboro.statistics.session import Batch, Forecasts, Plans

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Integer("income", 0, 10_000_000, step=1000),
        ob.Category("region", ["north", "south"]),
    ]
)


def people(n: int = 500) -> pa.Table:
    rng = np.random.default_rng(6)
    return pa.table(
        {
            "age": rng.integers(0, 100, n),
            "income": rng.integers(0, 100_000, n),
            "region": rng.choice(["north", "south"], n),
            "user_id": rng.integers(0, max(1, n // 4), n),
        }
    )


def ledger_for(path: Path, unit: ob.Unit, budget: ob.privacy.Guarantee | None = None) -> ob.Ledger:
    return ob.Ledger.create(
        path / "people.ledger", dataset="people", unit=unit, budget=budget or ob.Pure(100)
    )


@pytest.fixture
def swapped(tmp_path: Path) -> ob.Session:
    pq.write_table(people(), tmp_path / "people.parquet")
    unit = ob.Unit.row("replace")
    return ob.Session(
        tmp_path / "people.parquet", domain=DOMAIN, unit=unit, ledger=ledger_for(tmp_path, unit)
    )


def test_a_batch_with_one_set_of_groups_is_a_file_with_a_row_for_each(
    swapped: ob.Session, tmp_path: Path
) -> None:
    with swapped.by("region").batch(eps=20) as batch:
        mean, both = batch.mean("age"), batch.sum(["age", "income"])
        old, count = batch.where("age >= 50").count(), batch.count()
        quartiles, most = batch.quantile("age", [0.25, 0.75]), batch.top("age", 2)
    for name in ("b.parquet", "b.csv", "b.json", "b.arrow"):
        batch.release.save(tmp_path / name)
    wide = pq.read_table(tmp_path / "b.parquet")
    assert pd.read_csv(tmp_path / "b.csv").columns.tolist() == wide.column_names
    assert pd.read_json(tmp_path / "b.json").columns.tolist() == wide.column_names
    assert wide["region"].to_pylist() == ["north", "south"]
    for name, long in (
        ("mean of age", mean.table), ("sum of age", both.table[:2]), ("sum of income", both.table[2:]),
        ("count where age >= 50", old.table), ("count", count.table),
    ):  # fmt: skip
        for column, end in ((name, "value"), (f"{name} low", "low"), (f"{name} high", "high")):
            assert wide[column].to_pylist() == long[end].to_pylist()
    assert wide["quantile 0.75 of age"].to_pylist() == quartiles.table["value"].to_pylist()[1::2]
    assert wide["most frequent value of age 1"].to_pylist() == most.table["value"].to_pylist()[::2]
    with swapped.batch(eps=1) as batch:  # no groups, or different ones: a row for each number
        batch.by("region").mean("age")
        batch.count()
    assert batch.release.outgoing().num_rows == 3


def test_every_line_of_the_example_runs(swapped: ob.Session) -> None:
    assert "500 (public under replace)" in str(swapped.describe())
    mean = swapped.mean("income", eps="0.1")
    assert "95% interval" in str(mean)
    assert "eps = 0.1" in str(mean)
    assert isinstance(mean.value, float)
    counts = swapped.where("age >= 20").by("region").count(eps="0.1")
    assert counts.to_arrow().column("region").to_pylist() == ["north", "south"]
    deciles = swapped.quantile("income", [0.1, 0.5, 0.9], eps="0.2")
    assert deciles.to_arrow().num_rows == 3
    ages = swapped.histogram("age", edges=range(0, 121, 10), by="region", eps="0.2")
    assert ages.to_arrow().num_rows == 24
    spent = swapped.ledger.spent
    assert spent == ob.Pure("0.6")
    assert "mean of income" in str(swapped.forecast.mean("income", eps="0.1"))
    assert swapped.ledger.spent == spent  # free
    with swapped.batch(eps="0.5") as batch:
        count, income, age = batch.count(), batch.mean("income"), batch.median("age")
        assert "eps = 0.25" in str(batch.forecast)  # the split is shown
    assert swapped.ledger.spent == ob.Pure("1.1")
    assert count.value == 500
    assert 0 <= income.value <= 10_000_000
    assert 0 <= age.value <= 120
    assert batch.release.to_arrow().num_rows == 3


def test_people_rather_than_rows(tmp_path: Path) -> None:
    unit = ob.Unit.person("user_id", max_rows=20)
    session = ob.Session(people(), domain=DOMAIN, ledger=ledger_for(tmp_path, unit))
    assert session.unit == unit
    assert session.n is None
    release = session.mean("age", eps=50)
    assert release.value == pytest.approx(np.mean(people()["age"].to_numpy()), abs=3)
    assert "say expected_n" in str(session.forecast.mean("age", eps=1))
    assert "for 100 rows" in str(session.forecast.mean("age", eps=1, expected_n=100))


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.few(1, "threads")
def test_threads_that_ask_at_once_get_their_own_answers(where: str, tmp_path: Path) -> None:
    """A connection has one result, the last: without turns a question is answered with that of another."""
    columns: dict[str, Any] = {"who": [i % 40 for i in range(500)], "a": [i % 7 for i in range(500)]}
    columns["b"] = [i % 90 for i in range(500)]
    data: Any = pa.table(columns)
    if where == "file":
        columns["who"] = [f"person {i}" for i in columns["who"]]
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
        data = tmp_path / "rows.parquet"
    domain = ob.Domain([ob.Integer("a", 0, 10), ob.Integer("b", 0, 100)])
    ledger = ob.Ledger.create(
        tmp_path / "ledger", dataset="rows", unit=ob.Unit.person("who", 5), budget=ob.Pure(10**9)
    )
    session = ob.Session(data, domain=domain, ledger=ledger)
    eps = 10**6  # so much that no noise is seen

    def ask(i: int) -> Any:
        column = ("a", "b")[i % 2]
        answers = (
            lambda: session.sum(column, eps=eps),
            lambda: session.where("a > 2").sum(column, eps=eps),
            lambda: session.histogram(column, eps=eps),
        )
        return answers[i % 3]().to_arrow()

    wanted = [ask(i) for i in range(6)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(48)))
    assert all(one == wanted[i % 6] for i, one in enumerate(found))


def test_every_kind_of_data_gives_the_same_answer(tmp_path: Path) -> None:
    table = people(200)
    pq.write_table(table, tmp_path / "p.parquet")
    table.to_pandas().to_csv(tmp_path / "p.csv", index=False)
    relation = __import__("duckdb").connect().from_arrow(table)
    ledger = ledger_for(tmp_path, ob.Unit.row())
    seen = set()
    for data in (
        table,
        table.to_pandas(),
        pl.from_arrow(table),
        relation,
        tmp_path / "p.parquet",
        tmp_path / "p.csv",
    ):
        session = ob.Session(data, domain=DOMAIN, ledger=ledger)
        plan = session.where("age >= 20").plan.mean("income", eps=1)
        seen.add(tuple(plan.prepare(session.source).ravel().tolist()))
    assert len(seen) == 1


BAD: dict[str, Any] = {
    "empty": {
        "age": pa.array([], pa.int64()),
        "income": pa.array([], pa.int64()),
        "region": pa.array([], pa.string()),
    },
    "one row": {"age": [5], "income": [5], "region": ["north"]},
    "all equal": {"age": [7] * 50, "income": [1000] * 50, "region": ["south"] * 50},
    "nothing but nulls": {"age": pa.nulls(5), "income": pa.nulls(5), "region": pa.nulls(5)},
    "nan and infinity": {
        "age": [np.nan, np.inf, -np.inf],
        "income": [1.0, np.nan, 1e300],
        "region": ["north"] * 3,
    },
    "text in numbers": {
        "age": ["x", "12", ""],
        "income": ["1e3", None, "--"],
        "region": ["north", "east", ""],
    },
    "dates in numbers": {
        "age": [date(2026, 1, 1)] * 2,
        "income": [date(2026, 1, 1)] * 2,
        "region": ["north"] * 2,
    },
    "far out of bounds": {"age": [-(2**62), 2**62], "income": [-1, 10**18], "region": ["north", "south"]},
}


@pytest.mark.parametrize("adjacency", ["add/remove", "replace"])
@pytest.mark.parametrize("name", list(BAD))
@pytest.mark.few(6, "values through sessions")
def test_no_value_ever_raises(name: str, adjacency: str, tmp_path: Path) -> None:
    """All questions on the worst data: an answer of the same shape, within bounds, at the same cost."""
    unit = ob.Unit.row(adjacency)
    session = ob.Session(pa.table(BAD[name]), domain=DOMAIN, unit=unit, ledger=ledger_for(tmp_path, unit))
    with session.batch(eps=7) as batch:
        batch.where("age >= 20 and income < 5000").count()
        batch.sum("income")
        answers = [batch.mean("income"), batch.median("age")]
        batch.by("region").mean(["age", "income"])
        batch.variance("age")
        batch.covariance(["age", "income"])
        batch.quantile("income", [0.1, 0.5, 0.9])
        batch.histogram("age", edges=[0, 60, 120])
    assert session.ledger.spent == ob.Pure(7)
    assert batch.release.to_arrow().num_rows == 1 + 1 + 1 + 1 + 4 + 1 + 3 + 3 + 2
    assert 0 <= answers[0].value <= 10_000_000
    assert 0 <= answers[1].value <= 120


def test_public_mistakes_are_refused_and_cost_nothing(swapped: ob.Session, tmp_path: Path) -> None:
    with pytest.raises(BoundsError) as refused:
        swapped.mean("salary", eps=1)
    assert "ob.Integer" in str(refused.value)
    for wrong in (
        lambda: swapped.mean("income", eps=0),
        lambda: swapped.mean("income"),
        lambda: swapped.count(eps=1),  # n is public
        lambda: swapped.batch(eps=1, rho=1),
        lambda: swapped.batch(rho=1, delta="1e-6"),
        lambda: swapped.batch(eps=1).mean("income", eps=1),
        lambda: swapped.batch(eps=1).mean("income", weight=0),
        lambda: swapped.batch(eps=1).mean("salary"),
        lambda: swapped.batch(eps=1).release,
        lambda: swapped.batch(eps=1).mean("income").value,
        lambda: swapped.batch(eps=1).plan,
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(BudgetError):
        swapped.mean("income", eps=1000)
    with pytest.raises(UnitError):
        ob.Session(people(), domain=DOMAIN, unit=ob.Unit.person("user_id", 3), ledger=swapped.ledger)
    with pytest.raises(DataError):
        ob.Session(people().drop_columns(["age"]), domain=DOMAIN, ledger=swapped.ledger)
    batch = swapped.batch(eps=1)
    batch.median("age")
    batch.__exit__(RuntimeError, RuntimeError(), None)  # a block that fails asks nothing
    with swapped.batch(eps=1):
        pass
    assert swapped.ledger.spent == ob.Pure(0)


def test_nothing_private_is_described(swapped: ob.Session) -> None:
    shown = str(swapped.describe()) + repr(swapped) + str(swapped.where("age < 5").describe())
    assert "income" in shown
    for secret in (people()["income"].to_pylist()[0], people()["income"].to_pylist()[-1]):
        assert str(secret) not in shown


def test_names_plans_and_zcdp(tmp_path: Path) -> None:
    ledger = ledger_for(tmp_path, ob.Unit.row(), ob.ZCDP(2))
    session = ob.Session(people(), domain=DOMAIN, ledger=ledger)
    first = session.mean("age", rho="0.5", name="age")
    assert session.mean("age", rho="0.5", name="age").value == first.value
    assert ledger.spent == ob.ZCDP("0.5")
    with session.batch(rho="0.5") as batch:
        batch.mean("age", weight=3)
        batch.median("age")
    assert batch.plan.plans[0].guarantee == ob.ZCDP("0.375")
    assert batch.plan.plans[1].guarantee == ob.Pure("0.5")  # eps^2/2 = 0.125
    assert ledger.spent == ob.ZCDP(1)
    assert as_pure(ob.ZCDP(1)).eps ** 2 / 2 <= 1
    save_plan(batch.plan, tmp_path / "batch.toml")
    assert load_plan(tmp_path / "batch.toml") == batch.plan
    assert session.run(session.plan.count(rho="0.1")).guarantee == ob.ZCDP("0.1")
    assert len(list(batch.plan.neighbours())) >= 4


def test_an_answer_of_a_batch_prints_what_was_released(swapped: ob.Session) -> None:
    with swapped.batch(eps=1) as batch:
        mean, regions = batch.mean("age"), batch.by("region").count()
        assert str(mean) == "the batch has not been asked yet"
    title, _, head, row = str(mean).split("\n")
    assert (title, head.split()) == ("mean of age", ["value", "low", "high"])
    assert float(row.split()[0]) == pytest.approx(mean.value, rel=1e-4)
    assert [line.split()[0] for line in str(regions).split("\n")[2:]] == ["of", "north", "south"]


def test_a_batch_with_delta_is_composed_tightly(tmp_path: Path) -> None:
    """40 questions at eps = 1 in all: each gets more than 1/40, and the promise is checked again when it is read."""
    ledger = ledger_for(tmp_path, ob.Unit.row(), ob.Approx(2, "1e-5"))
    session = ob.Session(people(), domain=DOMAIN, ledger=ledger)
    with session.batch(eps=1, delta="1e-6") as batch:
        for _ in range(40):
            batch.count()
        plan = batch.plan
    each = plan.plans[0].guarantee
    assert isinstance(each, ob.Pure)
    assert each.eps > ob.Pure("0.032").eps
    assert ledger.spent == ob.Approx(1, "1e-6")
    assert "one by one" in str(plan.forecast())
    few = shares(ob.Approx(1, "1e-6"), [ob.Pure(1).eps] * 2)
    assert few == [ob.Pure("1/2")] * 2  # two questions: sums are best
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        BatchPlan(plan.plans, ob.Pure("0.5"))
    with pytest.raises(ParameterError):
        BatchPlan((), ob.Pure(1))


def test_mixed_types_in_pandas_are_fine(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"age": ["1", 2, None, "x"], "income": [1, "2", 3.5, {}], "region": ["north", 1, None, "south"]}
    )
    session = ob.Session(frame, domain=DOMAIN, ledger=ledger_for(tmp_path, ob.Unit.row()))
    assert session.by("region").mean("age", eps=1).to_arrow().num_rows == 2


ASKED: dict[str, Any] = {  # every question that takes words beyond those of its own signature
    "count": lambda on, **more: on.count(**more),
    "sum": lambda on, **more: on.sum("age", **more),
    "mean": lambda on, **more: on.mean("age", **more),
    "variance": lambda on, **more: on.variance("age", **more),
    "covariance": lambda on, **more: on.covariance(["age"], **more),
    "cross_covariance": lambda on, **more: on.cross_covariance("age", "income", **more),
    "mode": lambda on, **more: on.mode("age", **more),
    "top": lambda on, **more: on.top("age", 1, **more),
    "persons": lambda on, **more: on.persons(**more),
    "sql": lambda on, **more: on.sql("SELECT AVG(age) FROM data", **more),
    "quantile": lambda on, **more: on.quantile("age", 0.5, **more),
    "median": lambda on, **more: on.median("age", method="smooth", **more),
    "histogram": lambda on, **more: on.histogram("age", **more),
    "trimmed_mean": lambda on, **more: on.trimmed_mean("age", **more),
    "sample_and_aggregate": lambda on, **more: on.sample_and_aggregate(
        "def f(rows): return 1", blocks=5, bounds=(0, 1), **more
    ),
    "sum_of": lambda on, **more: on.sum_of("def f(row): return 1", columns=["age"], **more),
    "kmeans": lambda on, **more: on.kmeans(["age"], 1, **more),
    "components": lambda on, **more: on.components(["age"], 1, radius=1, **more),
}


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    unit = ob.Unit.row("replace")
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="x", unit=unit, budget=ob.Pure(9))
    session = ob.Session(
        {"age": [1] * 9}, domain=ob.Domain([ob.Integer("age", 0, 120, missing=0)]), ledger=ledger
    )
    yield session
    assert len(ledger.history()) == 1  # nothing was reserved


@pytest.mark.parametrize("question", ASKED)
def test_a_word_that_no_question_knows_is_refused_before_anything_is_reserved(
    question: str, asked: Any
) -> None:
    for on in (asked, asked.forecast, asked.plan):
        for word in ("nonsense", "dleta", "epz"):
            with pytest.raises(ob.errors.ParameterError, match="has no argument"):
                ASKED[question](on, eps=1, **{word: 3})
        with pytest.raises(ob.errors.ParameterError, match="weight is for the questions of a batch"):
            ASKED[question](on, eps=1, weight=2)


def test_no_other_question_takes_words_beyond_its_signature() -> None:
    for kind in (ob.Session, Forecasts, Plans, Batch, ob.statistics.Oracle, ob.Domain, ob.Ledger):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            free = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(method).parameters.values())
            assert name.startswith("_") or not free or name in ASKED, name


def test_edges_of_a_column_that_is_not_counted_are_refused(asked: Any) -> None:
    for on in (asked, asked.forecast, asked.plan):
        with pytest.raises(ob.errors.DomainError, match="edges for 'aeg', which is not counted"):
            on.histogram("age", edges={"aeg": [0, 120]}, eps=1)


def test_a_release_without_parts_is_not_asked_for_one(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(9))
    session = ob.Session({"age": [1] * 9}, domain=ob.Domain([ob.Integer("age", 0, 120)]), ledger=ledger)
    for release in (session.mean("age", eps=1), session.kmeans(["age"], 1, eps=1)):
        with pytest.raises(ob.errors.ParameterError, match="no parts to ask for"):
            release.interval(lvel=0.9)


def test_several_figures_of_groups_are_one_row_a_group_in_a_file(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Integer("age", 0, 9), ob.Integer("pay", 0, 9), ob.Category("column", ["a", "b"])])
    rows = {"age": [1, 2, 3, 4], "pay": [5, 6, 7, 8], "column": ["a", "a", "b", "b"]}
    ledger = ob.Ledger.create(tmp_path / "l", dataset="l", unit=ob.Unit.row(), budget=ob.Pure(10**8))
    groups = ob.Session(rows, domain=domain, ledger=ledger).by("column")
    found = groups.sum(["age", "pay"], eps=10**7).outgoing().to_pylist()
    assert [(row["column"], row["sum of age"], row["sum of pay"]) for row in found] == [
        ("a", 3, 11),
        ("b", 7, 15),
    ]
    means = groups.mean(["age", "pay"], eps=10**7).outgoing()
    assert [round(value, 3) for value in means["mean of pay"].to_pylist()] == [5.5, 7.5]
    assert means.num_rows == 2
    assert {"mean of age low", "mean of age high", "mean of age count"} <= set(means.column_names)


def test_a_question_that_is_asked_again_is_the_same_only_if_every_word_is(tmp_path: Path) -> None:
    """What is equal to Python but not to us, another condition, another domain put in by force: each has its own plan."""
    ledger = ob.Ledger.create(tmp_path / "a", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(20))
    domain = ob.Domain([ob.Integer("age", 0, 120)])
    session = ob.Session({"age": [30, 40, 50]}, domain=domain, ledger=ledger)
    tenth = Fraction(0.1)  # the double itself, which equals 0.1, and is not one tenth
    assert tenth == 0.1
    for eps, paid in (
        (0.1, Fraction(1, 10)),
        (tenth, tenth),
        (0.1, Fraction(1, 10)),
        (1, 1),
        ("1", 1),
        (1.0, 1),
    ):
        assert session.mean("age", eps=eps).cost == ob.Pure(paid)
    with pytest.raises(ob.OboroError):
        session.mean("age", eps=True)
    old = session.where("age >= 40")
    for _ in range(2):
        assert session.mean("age", eps=1).plan.scope.where is None
        assert old.mean("age", eps=1).plan.scope.where is not None
        assert session.count(eps=1).plan != old.count(eps=1).plan
    first, second = session.mean("age", eps=1), session.mean("age", eps=1)
    assert first.plan == second.plan
    assert first.plan is not second.plan
    object.__setattr__(session, "domain", ob.Domain([ob.Integer("age", 0, 60)]))
    assert session.mean("age", eps=1).plan.columns[0].high == 60
    ledger.verify()


def test_columns_that_are_called_as_a_word_of_a_question_are_not_that_word(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "a", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(20))
    names = ["age", "expected_n", "100"]
    domain = ob.Domain([ob.Category(name, ["a", "b"]) for name in names])
    session = ob.Session({name: ["a", "b"] for name in names}, domain=domain, ledger=ledger)
    grouped = session.histogram("age", by=["expected_n", "100"], eps=1)
    assert grouped.to_arrow().column_names == ["expected_n", "100", "age", "count"]
    with pytest.raises(ob.OboroError, match="expected_n"):
        session.histogram("age", expected_n="100", eps=1)


def test_what_gets_hold_of_a_plan_cannot_change_the_next_answer(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "a", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(20))
    session = ob.Session({"age": [30, 40, 50]}, domain=ob.Domain([ob.Integer("age", 0, 120)]), ledger=ledger)
    for _ in range(3):
        release = session.mean("age", eps="0.5")
        assert release.plan.terms[0].noise.scale == 240
        assert release.certificate.record["plan"]["guarantee"] == {"kind": "pure", "eps": "0.5"}
        release.plan.guarantee.eps._numerator = 1000  # by force
        release.plan.terms[0].noise.scale._numerator = 1
        release.certificate.record["plan"]["guarantee"]["eps"] = "1000"
        release.certificate.record["noise"].clear()
    assert ledger.spent == ob.Pure("1.5")
    ledger.verify()
