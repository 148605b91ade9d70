"""Statements of SQL: the figures of the equivalent batch, DuckDB's answers without noise, refusals that cost nothing."""

from __future__ import annotations

import math
import operator
import random
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_grammar import CHOICES, DOMAIN, FIGURES, UNIT, asked, bent, people, statement

import oboro as ob
from oboro.engine import open_data
from oboro.engine.duck import on_this_machine
from oboro.engine.persons import joined_records, one_record_each
from oboro.errors import InputError
from oboro.noise import Bits
from oboro.release import plan_from
from oboro.statistics.session import Plans
from oboro.statistics.statement import Call, Figure

ROWS = people()


class Known(Bits):
    """The same bits every time."""

    safe = False
    description = "known bits, for tests"

    def _entropy(self) -> bytes:
        return bytes(range(48))


def released(text: str, data: Any = None, **price: Any) -> list[dict[str, Any]]:
    plan = asked().sql(text, **(price or {"eps": 10**7}))
    found: list[dict[str, Any]] = plan.publish(
        plan.measure(plan.prepare(ROWS if data is None else data), Bits())
    ).to_pylist()
    return found


@pytest.fixture
def session(tmp_path: Path) -> ob.Session:
    ledger = ob.Ledger.create(tmp_path / "people.ledger", dataset="people", unit=UNIT, budget=ob.Pure(2))
    return ob.Session(ROWS, domain=DOMAIN, ledger=ledger, name="people")


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> ob.Session:
    where = tmp_path_factory.mktemp("unspent") / "people.ledger"
    return ob.Session(
        ROWS, domain=DOMAIN, name="people",
        ledger=ob.Ledger.create(where, dataset="people", unit=UNIT, budget=ob.Pure(2)),
    )  # fmt: skip


def test_a_statement_is_one_table_and_one_payment(session: ob.Session) -> None:
    release = session.sql(
        "SELECT region, AVG(age), COUNT(*) FROM people WHERE age >= 20 GROUP BY region", eps="0.1"
    )
    table = release.to_arrow()
    assert table["region"].to_pylist() == ["north", "south", "west"]
    assert table.column_names[1:4] == ["avg(age)", "avg(age) low", "avg(age) high"]
    assert session.ledger.remaining == ob.Pure("1.9")
    assert "95%" in str(session.forecast.sql("SELECT COUNT(*) FROM people", eps="0.1", expected_n=5000))
    assert session.ledger.remaining == ob.Pure("1.9")


def test_a_named_statement_is_given_again(session: ob.Session) -> None:
    ask = "SELECT COUNT(*) FROM people"
    first = session.sql(ask, eps="0.1", name="count")
    assert session.sql(ask, eps="0.1", name="count").to_arrow() == first.to_arrow()
    assert session.ledger.remaining == ob.Pure("1.9")


def questions(text: str) -> list[str]:
    return [type(plan).__name__ for plan in asked().sql(text, eps=1).batch.plans]


def test_average_sum_and_count_share_a_measurement() -> None:
    assert questions("SELECT AVG(age), SUM(age), COUNT(age) FROM people") == ["MeanPlan"]
    assert questions("SELECT SUM(age), COUNT(age) FROM people") == ["MeanPlan"]
    assert questions("SELECT SUM(age) FROM people") == ["SumPlan"]
    assert questions("SELECT AVG(age), COUNT(*) FROM people") == [
        "MeanPlan",
        "CountPlan",
    ]  # age may be missing
    assert questions("SELECT AVG(age), COUNT(*) FROM people WHERE age >= 20") == ["MeanPlan"]
    assert questions("SELECT VAR_POP(age), STDDEV_POP(age) FROM people") == ["CovariancePlan"]
    assert questions("SELECT MEDIAN(age), QUANTILE_CONT(age, 0.9) FROM people") == ["QuantilePlan"]
    assert questions("SELECT MODE(age), APPROX_TOP_K(age, 3) FROM people") == ["TopPlan"]


def test_a_covariance_pays_for_one_number() -> None:
    plan = asked().sql("SELECT COVAR_POP(age, income) FROM people", eps=1).batch.plans[0]
    assert [part.of for part in plan.parts] == ["sum of age", "sum of income", "sum of age x income", "count"]
    three = asked().covariance(["age", "income"], eps=1)
    assert plan.terms[2].sd < three.terms[3].sd / 2
    sure = ob.statistics.session.Plans(
        ob.Domain([ob.Integer("a", 0, 9, missing=0), ob.Integer("b", 0, 9, missing=0)]),
        ob.Unit.row("replace"),
        50,
    )
    assert len(sure.cross_covariance("a", "b", eps=1).terms) == 1


def test_the_figures_are_those_of_the_equivalent_batch_bit_for_bit(session: ob.Session) -> None:
    plan = session.plan.sql(
        "SELECT region, AVG(age), SUM(income), MEDIAN(age) FROM people WHERE age < 80 GROUP BY region",
        eps="0.3",
    )
    narrowed = session.where("age < 80").by("region")
    batch = narrowed.batch(eps="0.3")
    batch.mean("age"), batch.sum("income"), batch.median("age")
    assert plan.batch == batch.plan
    ours = plan.publish(plan.measure(plan.prepare(ROWS), Known()))
    theirs = batch.plan.publish(batch.plan.measure(batch.plan.prepare(ROWS), Known()))
    numbers = theirs["value"].to_pylist()
    assert ours["avg(age)"].to_pylist() == numbers[:3]
    assert ours["sum(income)"].to_pylist() == numbers[3:6]
    assert ours["median(age)"].to_pylist() == numbers[6:9]
    assert ours["avg(age) low"].to_pylist() == theirs["low"].to_pylist()[:3]


# -- without noise, DuckDB's answer -----------------------------------------------------------------------------------------------


BINS = "CREATE MACRO bins(x, w) AS (x // w * w)::VARCHAR || ' to ' || least(x // w * w + w - 1, 99)::VARCHAR"


def by_duckdb(text: str, rows: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    people = pa.table(rows)  # found by its name
    connection = duckdb.connect()
    connection.execute(BINS)
    connection.register("people", people)
    return connection.execute(text).fetchall()


def compared(text: str, rows: dict[str, list[Any]]) -> None:
    ours = asked().sql(text, eps=10**7)
    names = [output.name for output in ours.outputs]
    table = ours.publish(ours.measure(ours.prepare(rows), Bits())).select(names).to_pylist()
    groups = sum(type(output.of).__name__ == "Group" for output in ours.outputs)
    mine = {tuple(row.values())[:groups]: tuple(row.values())[groups:] for row in table}
    theirs = by_duckdb(text, rows)
    assert len(theirs) <= len(mine)
    for row in theirs:
        for one, other in zip(mine[row[:groups]], row[groups:], strict=True):
            if other is None or math.isnan(float(other)):
                continue
            assert one == pytest.approx(float(other), rel=1e-6, abs=1e-4), (text, row)


@pytest.mark.few(8, "statements against DuckDB")
@pytest.mark.parametrize("seed", range(40))
def test_without_noise_every_statement_has_duckdbs_answer(seed: int) -> None:
    figures = [one for one in FIGURES if not one.startswith("CORR")] if seed % 2 else FIGURES
    compared(statement(random.Random(seed), figures), ROWS)


def uneven() -> dict[str, list[Any]]:
    """Out of bounds, beyond the limit of rows, missing; 60 equal rows about a quantile, and no two values as frequent."""
    rows: dict[str, list[Any]] = {name: [] for name in ROWS}
    person = 0
    for which, (region, ages) in enumerate(
        {"north": (21, 40, -5), "south": (35, 120, 50), "west": (64, 63, 20)}.items()
    ):
        for place, age in enumerate(ages):
            for same in range(20 + 5 * place + which):  # persons with 5 rows that are alike, of which 3 count
                person += 1
                for _ in range(5):
                    income = None if same == 0 else 100 * (same % 7) if same % 9 else 99_900
                    values = (
                        person,
                        age,
                        income,
                        region,
                        date(2025 + (place > 1), 12 - 5 * which, 1 + place),
                    )
                    for name, value in zip(rows, values, strict=True):
                        rows[name].append(value)
    return rows


UNEVEN = uneven()
BOUNDED = """CREATE TABLE people AS SELECT person, greatest(least(age, 99), 0) AS age, income + least(0, 10000 - income) AS income, region,
greatest(least(day, DATE '2026-12-31'), DATE '2025-11-15') AS day FROM (SELECT *, row_number() OVER (PARTITION BY person) AS nth FROM raw) WHERE nth <= 3"""


@pytest.mark.few(6, "statements against DuckDB")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), COUNT(income), SUM(age), SUM(income), AVG(income), VAR_POP(age), STDDEV_POP(income) FROM people",
        "SELECT COVAR_POP(age, income), CORR(age, income), COUNT(DISTINCT person) FROM people WHERE income IS NOT NULL",
        "SELECT region, COUNT(DISTINCT person), COUNT(*) FROM people GROUP BY region ORDER BY 1",
        "SELECT MEDIAN(age), QUANTILE_CONT(age, 0.9), PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM people",
        "SELECT bins(age, 10), COUNT(*), AVG(income) FROM people GROUP BY bins(age, 10) HAVING COUNT(*) > 0.5 ORDER BY 1",
        "SELECT year(day), month(day), COUNT(*) AS n FROM people GROUP BY year(day), month(day) HAVING n > 0.5 ORDER BY 1, 2",
        "SELECT region, month(day), SUM(age) FROM people GROUP BY 1, 2 HAVING COUNT(*) > 0.5 ORDER BY 3 DESC",
        "SELECT strftime(day, '%Y-%m') AS m, SUM(age) FROM people GROUP BY m HAVING COUNT(*) > 0.5 ORDER BY m",
        "SELECT COUNT(*) FROM people WHERE age = 0 OR age <> 40 AND age < 64 AND age <= 63 AND age > 1 AND age >= 21",
        "SELECT COUNT(*) FROM people WHERE age BETWEEN 30 AND 70 AND region IN ('north', 'west') AND NOT age = 64",
        "SELECT COUNT(*) FROM people WHERE day >= DATE '2025-12-02' AND day < '2026-07-01'",
        "SELECT COUNT(*), SUM(age) FROM people WHERE income IS NULL",
        "SELECT region, COUNT(*) FROM people WHERE income IS NULL OR income > 300 GROUP BY region ORDER BY region",
        "SELECT MODE(age), MODE(region), MODE(day) FROM people",
        "SELECT region, MODE(age) FROM people GROUP BY region ORDER BY region",
        "SELECT APPROX_TOP_K(age, 3) FROM people",
        "SELECT region, SUM(age) / COUNT(*) AS ratio, ROUND(AVG(age) - 2 * 3, 1) AS less, -COUNT(*) * 1.5 AS minus "
        "FROM people GROUP BY region HAVING AVG(age) BETWEEN 20 AND 65 AND NOT COUNT(*) > 230 ORDER BY ratio DESC LIMIT 2",
        "SELECT region, AVG(age) FROM people GROUP BY region ORDER BY 2 DESC LIMIT 1",
        "SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY COUNT(*) LIMIT 0",
        "SELECT p.region, AVG(p.age) AS a FROM people AS p GROUP BY p.region ORDER BY a",
    ],
)  # fmt: skip
def test_without_noise_what_can_be_asked_is_duckdbs_answer_on_clamped_bounded_rows(text: str) -> None:
    """Every kind of figure, group and condition that docs/sql.md lists; rows in the order of ORDER BY."""
    raw = pa.table(UNEVEN)
    connection = duckdb.connect()
    connection.register("raw", raw)
    connection.execute(BINS)
    connection.execute(BOUNDED)
    theirs = [one for row in connection.execute(text).fetchall() for one in flat(row)]
    plan = asked().sql(text, eps=10**8)
    names = [output.name for output in plan.outputs]
    table = plan.publish(plan.measure(plan.prepare(UNEVEN), Bits())).select(names).to_pylist()
    ours = [one for row in table for one in row.values()]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        number = isinstance(one, int | float)
        assert one == (pytest.approx(float(other), rel=1e-6, abs=1e-4) if number else other), (ours, theirs)


def flat(row: tuple[Any, ...]) -> list[Any]:
    """The k most frequent values are k columns of ours."""
    return [one for value in row for one in (value if isinstance(value, list) else [value])]


def test_quantiles_lie_where_that_share_of_rows_does() -> None:
    found = released(
        "SELECT region, QUANTILE_CONT(age, 0.9), MEDIAN(age) FROM people GROUP BY region ORDER BY 1"
    )
    for row in found:
        ages = [
            age for age, region in zip(ROWS["age"], ROWS["region"], strict=True) if region == row["region"]
        ]
        for share, value in ((0.9, row["quantile_cont(age, 0.9)"]), (0.5, row["median(age)"])):
            below, upto = (sum(test(age, value) for age in ages) for test in (operator.lt, operator.le))
            assert below - 1 <= share * len(ages) <= upto + 1  # several quantiles together: to a rank


def test_the_most_frequent_values_are_those_of_duckdb() -> None:
    rows = {**ROWS, "region": ["north"] * 300 + ["west"] * 200 + ["south"] * 100}
    found = released("SELECT MODE(region), APPROX_TOP_K(region, 2) FROM people", rows)[0]
    assert list(found.values()) == ["north", "north", "west"]


def test_nulls_follow_the_rule_of_their_column() -> None:
    rows: dict[str, list[Any]] = {
        **ROWS,
        "age": [None if row % 5 == 0 else age for row, age in enumerate(ROWS["age"])],
    }
    for text in (
        "SELECT COUNT(*), COUNT(age), AVG(age) FROM people",
        "SELECT COUNT(*) FROM people WHERE age IS NULL",
        "SELECT COUNT(*) FROM people WHERE age IS NULL OR age > 50",
        "SELECT COUNT(*) FROM people WHERE NOT (age IS NULL) AND region = 'north'",
        "SELECT COUNT(*), SUM(income) FROM people WHERE age > 50",
    ):
        compared(text, rows)
    # not SQL's: a comparison with nothing leaves the row out, whatever stands beside it
    picked = released("SELECT COUNT(*) FROM people WHERE age > 50 OR region = 'north'", rows)[0]["count(*)"]
    wanted = sum(
        age is not None and (age > 50 or region == "north")
        for age, region in zip(rows["age"], rows["region"], strict=True)
    )
    assert picked == wanted


# -- what is worked out afterwards ------------------------------------------------------------------------------------------------


def test_counts_of_a_statement_are_given_raw_and_at_zero_or_more(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Integer("age", 0, 120), ob.Integer("yellow", 0, 199)])
    ledger = ob.Ledger.create(tmp_path / "x.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(9))
    people = ob.Session({"age": [3] * 50, "yellow": [1] * 50}, domain=domain, ledger=ledger)
    release = people.sql("SELECT yellow, COUNT(*) AS n FROM data GROUP BY yellow ORDER BY n", eps=1)
    found = release.not_negative()
    names = ["n", "n low", "n high", "n at 0 or more", "n at 0 or more low", "n at 0 or more high"]
    assert found.column_names == ["yellow", *names]
    n, low, high, cut, cut_low, cut_high = (found.column(name).to_numpy() for name in names)
    assert n[0] < 0  # of 200, but for 1 in 10^30
    assert (cut == np.maximum(n, 0)).all()
    assert (low < n).all()
    assert (high > n).all()
    assert (cut_low == np.maximum(low, 0)).all()
    assert (cut_high == np.maximum(high, 0)).all()
    release.save(tmp_path / "n.csv", not_negative=True)
    assert (tmp_path / "n.csv").read_text().splitlines()[0].replace('"', "") == ",".join(["yellow", *names])
    mean = people.sql('SELECT COUNT(age) AS n, AVG(age) AS "n at 0 or more" FROM data', eps=1)
    assert (
        "n at 0 or more here" in mean.not_negative().column_names
    )  # the count beside a mean, and a name that is taken
    with pytest.raises(ob.OboroError, match="no counts"):
        people.sql("SELECT AVG(age) FROM data", eps=1).not_negative()


def test_order_limit_and_having_look_at_released_figures() -> None:
    every = released("SELECT region, AVG(age) AS a, COUNT(*) AS n FROM people GROUP BY region", eps=5)
    plan = asked().sql(
        "SELECT region, AVG(age) AS a, COUNT(*) AS n FROM people GROUP BY region HAVING n > 1 ORDER BY 2 DESC LIMIT 2",
        eps=5,
    )
    found = plan.publish(plan.measure(plan.prepare(ROWS), Bits())).to_pylist()
    assert len(every) == 3
    assert len(found) == 2
    assert found[0]["a"] >= found[1]["a"]
    assert "no interval is promised" in plan.footnote
    assert released("SELECT region, COUNT(*) AS n FROM people GROUP BY 1 HAVING n < -1e6", eps=5) == []


def test_a_name_of_the_result_comes_before_a_column_in_the_order() -> None:
    rows = released("SELECT region, AVG(age) AS age FROM people GROUP BY region ORDER BY age DESC")
    ages = [row["age"] for row in rows]
    assert ages == sorted(ages, reverse=True)
    assert len(set(ages)) == 3


@pytest.mark.parametrize("way", ["", "DESC"])
def test_what_could_not_be_worked_out_comes_last_and_meets_no_condition(way: str) -> None:
    apart = "(COUNT(*) - COUNT(*)) / (COUNT(*) - COUNT(*))"
    ask = f"SELECT region, {apart} AS x, COUNT(*) AS n FROM people GROUP BY region"
    assert [row["x"] for row in released(ask)] == [None] * 3
    for test in ("x > 1", "NOT x > 1", "x <> 1", "NOT (x > 1 AND n > 0)"):
        assert released(f"{ask} HAVING {test}") == []
    assert len(released(f"{ask} HAVING x > 1 OR n > -1000")) == 3
    most = max(row["n"] for row in released(ask))
    text = f"SELECT region, 1 / (COUNT(*) - {most}) AS x FROM people GROUP BY region ORDER BY x {way}"
    values = [row["x"] for row in released(text)]
    assert values[-1] is None
    assert None not in values[:-1]


@pytest.mark.long("intervals tried often")
def test_arithmetic_has_intervals_that_hold_together() -> None:
    text = "SELECT SUM(income) / COUNT(*) AS ratio, ROUND(AVG(age), 1) AS age FROM people WHERE age >= 0"
    missed = 0
    truth = sum(ROWS["income"]) / len(ROWS["income"])
    plan = asked().sql(text, eps=1)
    prepared = plan.prepare(ROWS)
    for _ in range(200):
        row = plan.publish(plan.measure(prepared, Bits())).to_pylist()[0]
        missed += not row["ratio low"] <= truth <= row["ratio high"]
        assert row["age"] == round(row["age"], 1)
    assert missed <= 30  # 10 are expected at most; 30 or more of 200 at 5% happen less than once in 10^6
    exact = released(text)[0]
    assert exact["ratio"] == pytest.approx(truth, rel=1e-6)
    assert released("SELECT COUNT(*) / (COUNT(*) - COUNT(*)) AS none FROM people")[0]["none"] is None


@pytest.mark.long("intervals tried often")
def test_sums_and_counts_of_a_mean_have_intervals_that_hold() -> None:
    plan = asked().sql("SELECT AVG(age), SUM(age), COUNT(age) FROM people", eps="0.5")
    prepared, truth = plan.prepare(ROWS), (sum(ROWS["age"]), len(ROWS["age"]))
    rows = [plan.publish(plan.measure(prepared, Bits())).to_pylist()[0] for _ in range(400)]
    for name, value in zip(("sum(age)", "count(age)"), truth, strict=True):
        held = np.mean([row[f"{name} low"] <= value <= row[f"{name} high"] for row in rows])
        assert held > 0.88  # 95%; less than 0.88 of 400 happens less than once in 10^6


def test_a_plan_with_an_expression_that_cannot_be_worked_out_is_refused() -> None:
    plan = asked().sql("SELECT MODE(region), COUNT(*) FROM people", eps=1)
    for of in (Figure(7), Figure(1, "sum"), Call("negative", (Figure(0),)), Call("exec", (Figure(1),))):
        record = plan.to_dict()
        record["outputs"] = [{"name": "x", "of": ob.records.write(of)}]
        with pytest.raises(InputError):
            plan_from(record)


# -- refused ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "SELECT", "SELECT 1", "SELECT 1 FROM people", "SELECT region FROM people GROUP BY region", "SELECT * FROM people",
        "SELECT age FROM people", "SELECT COUNT(*)", "SELECT COUNT(*) FROM other", "SELECT COUNT(*) FROM people, people",
        "SELECT COUNT(*) FROM people TABLESAMPLE 10%", "SELECT COUNT(*) FROM read_parquet('/etc/passwd')",
        "SELECT COUNT(*) FROM '/etc/passwd'", "SELECT COUNT(*) FROM main.people", "SELECT COUNT(*) FROM (SELECT * FROM people)",
        "WITH p AS (SELECT * FROM people) SELECT COUNT(*) FROM p", "SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM people",
        "SELECT COUNT(*) FROM people; DROP TABLE people", "SELECT COUNT(*) FROM people JOIN people USING (person)",
        "SELECT DISTINCT COUNT(*) FROM people", "SELECT COUNT(DISTINCT age) FROM people", "SELECT COUNT(DISTINCT person, age) FROM people",
        "SELECT SUM(DISTINCT age) FROM people", "SELECT AVG(age) FILTER (WHERE age > 3) FROM people", "SELECT SUM(age) OVER () FROM people",
        "SELECT MAX(age) FROM people", "SELECT MIN(age) FROM people", "SELECT VARIANCE(age) FROM people", "SELECT SUM(age + 1) FROM people",
        "SELECT SUM(region) FROM people", "SELECT AVG(nobody) FROM people", "SELECT person, COUNT(*) FROM people GROUP BY person",
        "SELECT COUNT(*) FROM people WHERE age > income", "SELECT COUNT(*) FROM people WHERE age + 1 > 3",
        "SELECT COUNT(*) FROM people WHERE age > 1e99", "SELECT COUNT(*) FROM people WHERE age IN (SELECT 1)",
        "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1)", "SELECT COUNT(*) FROM people WHERE region LIKE 'n%'",
        "SELECT COUNT(*) FROM people WHERE region = 'nowhere'", "SELECT COUNT(*) FROM people WHERE RANDOM() < 0.5",
        "SELECT COUNT(*) FROM people GROUP BY ALL", "SELECT COUNT(*) FROM people GROUP BY ROLLUP (region)",
        "SELECT region, COUNT(*) FROM people GROUP BY region, region", "SELECT COUNT(*) FROM people GROUP BY bins(age, 0)",
        "SELECT COUNT(*) FROM people GROUP BY year(age)", "SELECT COUNT(*) FROM people HAVING region = 'north'",
        "SELECT COUNT(*) FROM people ORDER BY 3", "SELECT COUNT(*) FROM people LIMIT 5 OFFSET 2", "SELECT COUNT(*) FROM people LIMIT -1",
        "SELECT COUNT(*) FROM people LIMIT ALL", "SELECT COUNT(*) FROM people FOR UPDATE", "SELECT COUNT(*) INTO x FROM people",
        "SELECT QUANTILE_CONT(age, 1.5) FROM people", "SELECT QUANTILE_CONT(region, 0.5) FROM people", "SELECT MODE(region) + 1 FROM people",
        "SELECT APPROX_TOP_K(age, 3) + 1 FROM people", "SELECT APPROX_TOP_K(age, 0) FROM people", "SELECT CORR(age, age) FROM people",
        "SELECT CASE WHEN 1 THEN COUNT(*) END FROM people", "SELECT getenv('HOME'), COUNT(*) FROM people", "SELECT COUNT(*) FROM people WHERE age = ?",
        "SELECT /*+ HINT */ COUNT(*) FROM people QUALIFY 1", "SELECT COUNT(*) FROM people WINDOW w AS ()", "SELECT COUNT(*) FROM other.people",
        "SELECT other.age, COUNT(*) FROM people GROUP BY other.age", "SELECT ROUND(AVG(age), 1.5) FROM people", "INSERT INTO people VALUES (1)",
        "SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR region IN ('a'))", "COPY people TO 'x'", "PRAGMA x", "(" * 5000, "x" * 20_000,
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_and_costs_nothing(unspent: ob.Session, text: str) -> None:
    with pytest.raises(InputError):
        unspent.sql(text, eps="0.1")
    assert unspent.ledger.spent == ob.Pure(0)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) * 1e400 FROM people",  # no float
        "SELECT COUNT(*) FROM people HAVING COUNT(*) > -1e400",
        'SELECT COUNT(*) AS "\ud800" FROM people',  # no text that a file can hold
        'SELECT COUNT(*) AS a, AVG(age) AS "a low" FROM people',  # one would hide the other
    ],
)
def test_what_could_not_be_published_is_refused_before_it_is_paid_for(unspent: ob.Session, text: str) -> None:
    with pytest.raises(InputError) as error:
        unspent.sql(text, eps="0.1")
    assert str(error.value).encode()
    assert unspent.ledger.spent == ob.Pure(0)


def test_aliases_of_aliases_do_not_grow_without_end() -> None:
    """Each stands for two of the one before: 2^35 parts from a short text."""
    doubled = "".join(f", a{i} + a{i} AS a{i + 1}" for i in range(35))
    with pytest.raises(InputError, match="too long"):
        asked().sql(f"SELECT COUNT(*) AS a0{doubled} FROM people", eps=1)
    assert asked().sql("SELECT COUNT(*) AS a, a + a AS b, b * b AS c FROM people ORDER BY c", eps=1)


def test_every_condition_that_is_understood_can_be_read_back() -> None:
    """Also where COUNT(region) adds a condition to it, or the session has its own."""
    long = asked().where(" and ".join(["age >= 10"] * 200))
    refusals = 0
    deep = [(asked(), "NOT " * size + "age > 5") for size in range(20, 30)]
    for base, where in [*deep, *((long, " OR ".join(["age > 5"] * size)) for size in (5, 150))]:
        try:
            plan = base.sql(f"SELECT COUNT(region) FROM people WHERE {where}", eps=1)
        except InputError:
            refusals += 1
            continue
        assert plan_from(plan.to_dict()) == plan
    assert 1 < refusals < 10


def test_a_price_that_is_not_said_is_refused(session: ob.Session) -> None:
    for price in ({}, {"eps": "0.1", "rho": "0.1"}, {"eps": 0}, {"eps": "0.1", "weight": 2}):
        with pytest.raises(InputError):
            session.sql("SELECT COUNT(*) FROM people", **price)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(1, "statements by chance")
def test_statements_by_chance_are_refused_or_become_plans(seed: int) -> None:
    rng, planned = random.Random(1000 + seed), 0
    for place in range(100):
        good = statement(rng, [*FIGURES, *CHOICES])
        try:
            plan = asked().sql(good if place % 3 == 0 else bent(rng, good), eps=1)
        except InputError:
            assert place % 3
            continue
        planned += 1
        assert plan_from(plan.to_dict()) == plan
        assert plan.guarantee.covers(plan.cost)
    assert planned > 30


# -- person tables ----------------------------------------------------------------------------------------------------------------

OWN = ob.Domain([ob.Category("region", ["north", "south"]), ob.Integer("born", 1900, 2020)])
VISITS = ob.Domain([ob.Integer("days", 0, 30)])
PEOPLE = {
    "person": ["1", "2", "3", "3"],
    "region": ["north", "south", "south", "north"],
    "born": [1980, 1990, 2000, 1999],
}
STAYS = {"person": [1, 1, 2, 3, 9], "days": [3, 5, 7, 9, 30]}


@pytest.fixture
def tables(tmp_path: Path) -> ob.PersonTables:
    unit = ob.Unit.person("person", 5)
    ledger = ob.Ledger.create(tmp_path / "v.ledger", dataset="visits", unit=unit, budget=ob.Pure(10**9))
    return ob.PersonTables(
        {"people": (PEOPLE, OWN), "visits": (STAYS, VISITS)}, one_row=["people"], ledger=ledger
    )


def test_a_persons_columns_say_the_groups_of_their_visits(tables: ob.PersonTables) -> None:
    for text in ("visits JOIN people USING (person)", "people JOIN visits USING (person)"):
        found = tables.sql(
            f"SELECT region, SUM(days), COUNT(DISTINCT person) FROM {text} GROUP BY region", eps=10**6
        )
        rows = found.to_arrow().to_pylist()
        # of person 3 the record that comes first by its columns counts: north, 1999
        assert [(row["region"], row["sum(days)"], row["count(distinct person)"]) for row in rows] == [
            ("north", 17, 2),
            ("south", 7, 1),
        ]


def test_a_join_that_is_asked_often_is_kept_once(tables: ob.PersonTables) -> None:
    """Also where no answer is wanted yet: a forecast or a plan that nobody runs leaves nothing behind."""
    text = "SELECT region, SUM(days) FROM visits JOIN people USING (person) GROUP BY region"
    answers = [tables.sql(text, eps=10**6).to_arrow() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    tables.forecast(text, eps=1)
    kept = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    for source in tables.sources.values():
        names = [row[0] for row in source.connection.execute(kept).fetchall()]
        assert sum(name.startswith("person_records") for name in names) <= 1
        assert len(names) <= 3


def test_a_join_to_records_that_have_changed_since_is_refused(tmp_path: Path) -> None:
    unit = ob.Unit.person("person", 5)
    ledger = ob.Ledger.create(tmp_path / "v.ledger", dataset="visits", unit=unit, budget=ob.Pure(10**9))
    people = tmp_path / "people.parquet"
    pq.write_table(pa.table(PEOPLE), people)
    tables = ob.PersonTables(
        {"people": (people, OWN), "visits": (STAYS, VISITS)}, one_row=["people"], ledger=ledger
    )
    text = "SELECT COUNT(*) FROM visits JOIN people USING (person)"
    tables.sql(text, eps=1)
    pq.write_table(pa.table({name: values[:3] for name, values in PEOPLE.items()}), people)
    spent = ledger.spent
    with pytest.raises(ob.OboroError, match="has changed since"):
        tables.sql(text, eps=1)
    assert ledger.spent == spent


@pytest.mark.parametrize(
    "text",
    [
        "SELECT region, COUNT(*), SUM(days), AVG(days), COUNT(DISTINCT person) FROM visits JOIN people USING (person) "
        "GROUP BY region ORDER BY region",
        "SELECT COUNT(*), CORR(days, born) FROM people JOIN visits USING (person) WHERE born >= 1970 AND days < 20",
        "SELECT bins(born, 10) AS decade, COUNT(DISTINCT person) FROM people GROUP BY decade HAVING COUNT(*) > 0.5 ORDER BY 1",
    ],
)  # fmt: skip
def test_without_noise_a_join_is_duckdbs(tmp_path: Path, text: str) -> None:
    """Persons of one table alone, of both, and with more visits than count: 7 that are alike, of which 5 do."""
    rng, unit = random.Random(3), ob.Unit.person("person", 5)
    own = {"person": list(range(60)), "region": [rng.choice(["north", "south"]) for _ in range(60)],
           "born": [rng.randint(1900, 2020) for _ in range(60)]}  # fmt: skip
    stays = [(person, rng.randint(0, 30)) for person in range(20, 90)]
    visits = {"person": [person for person, _ in stays for _ in range(person % 8)],
              "days": [days for person, days in stays for _ in range(person % 8)]}  # fmt: skip
    ledger = ob.Ledger.create(tmp_path / "v.ledger", dataset="v", unit=unit, budget=ob.Pure(10**9))
    tables = ob.PersonTables(
        {"people": (own, OWN), "visits": (visits, VISITS)}, one_row=["people"], ledger=ledger
    )
    found = tables.sql(text, eps=10**8)
    names = [output.name for output in found.plan.outputs]  # type: ignore[attr-defined]
    ours = [tuple(row.values()) for row in found.to_arrow().select(names).to_pylist()]
    connection = duckdb.connect()
    connection.execute(BINS.replace("99", "2020"))
    connection.register("people", pa.table(own))
    connection.register("every", pa.table(visits))
    connection.execute(
        "CREATE VIEW visits AS SELECT person, days FROM (SELECT *, row_number() OVER (PARTITION BY person) AS nth FROM every) "
        "WHERE nth <= 5"
    )
    theirs = connection.execute(text).fetchall()
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert [x if isinstance(x, str) else pytest.approx(x, rel=1e-6) for x in one] == list(other)


def test_a_table_of_one_record_each_counts_each_person_once(tables: ob.PersonTables) -> None:
    plan = tables.plan("SELECT COUNT(*) FROM people", eps=1)
    assert plan.unit.max_rows == 1
    assert tables.sql("SELECT COUNT(*) FROM people", eps=10**6).to_arrow()["count(*)"].to_pylist() == [3]
    assert tables.plan("SELECT COUNT(*) FROM visits", eps=1).unit.max_rows == 5


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits JOIN people USING (days)",
        "SELECT COUNT(*) FROM visits JOIN people ON visits.person = people.person",
        "SELECT COUNT(*) FROM visits LEFT JOIN people USING (person)",
        "SELECT COUNT(*) FROM visits CROSS JOIN people",
        "SELECT COUNT(*) FROM visits NATURAL JOIN people",
        "SELECT COUNT(*) FROM visits JOIN visits USING (person)",
        "SELECT COUNT(*) FROM people JOIN people USING (person)",
        "SELECT COUNT(*) FROM visits JOIN homes USING (person)",
        "SELECT COUNT(*) FROM visits JOIN people USING (person) JOIN people USING (person)",
        "SELECT region, COUNT(*) FROM visits GROUP BY region",
    ],
)
def test_other_joins_are_refused(tables: ob.PersonTables, text: str) -> None:
    with pytest.raises(InputError):
        tables.sql(text, eps=1)
    assert tables.ledger.spent == ob.Pure(0)


def test_one_person_moves_the_joined_rows_by_no_more_than_its_limit() -> None:
    """Whatever records a person has, in either table: the counts of all others stay, and its own are bounded."""
    rng = random.Random(5)
    unit = ob.Unit.person("person", 2)
    for _ in range(6):
        size = rng.randint(0, 4)
        own = {
            name: [*values, *("x" if name == "person" else rng.choice(values) for _ in range(size))]
            for name, values in PEOPLE.items()
        }
        stays = {"person": [*map(str, STAYS["person"]), *["x"] * 7], "days": [*STAYS["days"], *range(7)]}
        without = {"person": [*map(str, STAYS["person"])], "days": STAYS["days"]}
        counts = []
        for people_, visits in ((own, stays), (PEOPLE, without)):
            records = one_record_each(on_this_machine(open_data(people_), ""), OWN.columns, unit)
            joined = joined_records(
                on_this_machine(open_data(visits), ""), VISITS.columns, records, OWN.columns, unit
            )
            plan = Plans(ob.Domain([*VISITS, *OWN]), unit, None).by("region").count(eps=1)
            counts.append(plan.prepare(joined))
        assert np.abs(counts[0] - counts[1]).sum() == (2 if size else 0)


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(21, 2)])
def test_keys_that_spell_a_person_in_two_ways_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """1 and 1.0 would be two persons: n would tell in how many tables a person is, and a join would find nobody."""
    unit = ob.Unit.person("person", 5, "replace")
    ledger = ob.Ledger.create(tmp_path / "v.ledger", dataset="visits", unit=unit, budget=ob.Pure(1))
    stays = pa.table({"person": pa.array([1, 2], pa.int64()).cast(kind), "days": [3, 4]})
    for people_ in (PEOPLE, {**PEOPLE, "person": [1, 2, 3, 3]}):
        both = {"people": (people_, OWN), "visits": (stays, VISITS)}
        with pytest.raises(InputError, match="two different ways"):
            ob.PersonTables(both, one_row=["people"], ledger=ledger)


def test_a_column_may_have_any_name_in_a_join(tmp_path: Path) -> None:
    unit, name = ob.Unit.person("person", 5), "oboro_key"
    ledger = ob.Ledger.create(tmp_path / "v.ledger", dataset="visits", unit=unit, budget=ob.Pure(10**7))
    stays = {"person": STAYS["person"], name: STAYS["days"]}
    both = {"people": (PEOPLE, OWN), "visits": (stays, ob.Domain([ob.Integer(name, 0, 30)]))}
    tables = ob.PersonTables(both, one_row=["people"], ledger=ledger)
    found = tables.sql(f"SELECT SUM({name}) FROM visits JOIN people USING (person)", eps=10**6)
    assert found.to_arrow()[f"sum({name})"].to_pylist() == [24]


def test_how_many_persons_a_table_has_is_private_where_there_are_several(tmp_path: Path) -> None:
    """Under replace n is the number in all tables together: a person may have no row in one."""
    unit = ob.Unit.person("person", 5, "replace")
    ledger = ob.Ledger.create(tmp_path / "r.ledger", dataset="visits", unit=unit, budget=ob.Pure(10**9))
    parts = {"people": (PEOPLE, OWN), "visits": (STAYS, VISITS)}
    tables = ob.PersonTables(parts, one_row=["people"], ledger=ledger)
    assert tables.n == 4
    for rows, true in (("visits", 4), ("people", 3), ("visits JOIN people USING (person)", 3)):
        text = f"SELECT COUNT(DISTINCT person) AS n FROM {rows}"
        assert tables.plan(text, eps=1).guarantee == ob.Pure(1)
        assert tables.sql(text, eps=10**6).to_arrow()["n"].to_pylist() == [true]


def test_columns_of_several_fields_are_refused_in_person_tables(tmp_path: Path) -> None:
    unit = ob.Unit.person("person", 5)
    ledger = ob.Ledger.create(tmp_path / "g.ledger", dataset="g", unit=unit, budget=ob.Pure(1))
    homes = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
    data = {"person": [1, 2], "row": [1, 2], "col": [1, 2]}
    for one_row in (["homes"], []):
        with pytest.raises(InputError, match="columns of one field each"):
            ob.PersonTables({"homes": (data, homes)}, one_row=one_row, ledger=ledger)


# -- the page ---------------------------------------------------------------------------------------------------------------------


def _said_there() -> list[str]:
    """What the page says that people type here: in the second column of its tables for those who come from elsewhere."""
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.partition("## Coming from elsewhere")[2].splitlines()]
    ours = [row[1] for row in rows if len(row) == 3]
    return [part for cell in ours for part in cell.split("`")[1::2]]


def test_what_the_page_says_to_type_instead_can_be_asked(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    toml = tmp_path / "people.toml"
    toml.write_text(page.partition("```toml\n")[2].partition("```")[0])
    domain = ob.Domain.from_toml(toml)
    ask = Plans(domain, ob.Unit.person("person", 3), None, table="people")
    said = _said_there()
    statements = [text for text in said if text.startswith("SELECT")]
    called = [text for text in said if text.partition("(")[0].isupper() and " " not in text.partition("(")[0]]
    figures = [text if "(" in text else f"{text}(age)" for text in called]
    assert len(statements) >= 3
    assert len(figures) >= 3
    for text in (*statements, *(f"SELECT {figure} FROM people" for figure in figures)):
        assert ask.sql(text, eps="0.1").guarantee == ob.Pure("0.1"), text
    refused = page.rpartition("Refused here, whoever allows it:")[2]
    for text in ("MIN(age)", "MAX(age)", "COUNT(DISTINCT region)"):
        assert text.partition("(")[0] in refused
        with pytest.raises(InputError):
            ask.sql(f"SELECT {text} FROM people", eps="0.1")
    assert ask.sql("SELECT QUANTILE_CONT(age, 0.99) FROM people", eps="0.1").guarantee == ob.Pure("0.1")
