"""What an analyst types: `ob.connect`, and the questions of a session."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_town import DATASET, Town, listening, town

import oboro as ob
from oboro.errors import BoundsError, BudgetError, CertificateError, InputError, ParameterError
from oboro.service.client import Remote


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, str]]:
    with town(tmp_path_factory.mktemp("service") / "here") as found, listening(found) as address:
        yield found, address


@pytest.fixture
def people(served: tuple[Town, str]) -> Remote:
    found, address = served
    return ob.connect(address, token=found.tokens["lab-3"])[DATASET]


def test_a_question_is_answered_and_its_certificate_is_checked(
    people: Remote, served: tuple[Town, str]
) -> None:
    release = people.where("age >= 20").mean("income", eps="0.1")
    assert release.cost == ob.Pure("0.1")
    assert release.plan == people.where("age >= 20").plan.mean("income", eps="0.1")
    release.certificate.verify_signature(served[0].ledger.public_key)


def test_the_same_question_gives_the_same_answer_free(people: Remote, served: tuple[Town, str]) -> None:
    first = people.count(eps="0.1")
    spent = served[0].ledger.spent
    assert people.count(eps="0.1").content == first.content
    assert served[0].ledger.spent == spent


def test_every_question_of_the_front_page_is_answered(people: Remote) -> None:
    assert people.where("age >= 20").persons(eps="0.1").value is not None
    assert people.by("region").sum("income", eps="0.1").to_arrow().num_rows == 4
    assert people.covariance(["age", "income"], eps="0.1").to_arrow().num_rows == 3
    assert people.variance("age", eps="0.1").value is not None
    assert people.median("age", eps="0.1").value is not None
    assert people.quantile("age", ["0.1", "0.9"], eps="0.1").to_arrow().num_rows == 2
    assert people.histogram("age", edges=[0, 20, 65, 99], eps="0.1").to_arrow().num_rows == 3
    assert people.mode("region", eps="0.1").value in ("north", "east", "south", "west")
    assert people.top("region", 2, eps="0.1").to_arrow().num_rows == 2
    assert people.table(columns=["region"], workload=ob.tables.cells(), eps="0.5").to_arrow().num_rows > 0


def test_a_statement_of_sql_is_read_by_the_server_and_checked_here(
    people: Remote, served: tuple[Town, str]
) -> None:
    text = "SELECT region, COUNT(*) AS n, AVG(income) FROM people WHERE age >= 20 GROUP BY region HAVING n > -1e9 ORDER BY region"
    release = people.sql(text, eps="0.1")
    assert release.plan == people.plan.sql(text, eps="0.1")
    assert release.to_arrow().num_rows == 4
    assert people.sql('SELECT COUNT(*) FROM "people 2026" WHERE age < 9', eps="0.1").value is not None
    assert "mean of income" in str(people.forecast.sql("SELECT AVG(income) FROM people", eps="0.1"))
    spent = served[0].ledger.spent
    for wrong in (
        "SELECT * FROM people",
        "SELECT who FROM people",
        "SELECT COUNT(*) FROM other",
        "SELECT COUNT(*) FROM people JOIN people USING (who)",
        "DROP TABLE jobs",
        "SELECT income, age, AVG(income) FROM people GROUP BY income, age",
        "SELECT " + ", ".join(f"QUANTILE_CONT(age, 0.{n:02})" for n in range(1, 50)) + " FROM people",
    ):
        for ask in (
            people.sql,
            lambda text, eps: people._line.post(
                people._path("/questions"), {"question": "sql", "sql": text, "eps": eps}
            ),
        ):
            with pytest.raises(InputError):
                ask(wrong, eps="0.1")
    with pytest.raises(ParameterError, match="says everything itself"):
        people.where("age >= 20").sql(text, eps="0.1")
    assert served[0].ledger.spent == spent


def test_a_batch_has_one_price(people: Remote, served: tuple[Town, str]) -> None:
    before = served[0].ledger.spent
    with people.batch(eps="0.5") as batch:
        income, age = batch.mean("income", weight=2), batch.median("age")
    assert isinstance(income.value, float)
    assert age.value is not None
    assert batch.release.cost == ob.Pure("0.5")
    assert served[0].ledger.spent.eps - before.eps == ob.Pure("0.5").eps


def test_a_forecast_is_that_of_the_plan_and_costs_nothing(people: Remote, served: tuple[Town, str]) -> None:
    before = served[0].ledger.spent
    assert str(people.forecast.mean("income", eps="0.1")) == str(
        people.plan.mean("income", eps="0.1").forecast()
    )
    eps = people.eps_for(500).mean("income")
    assert max(float(row[2]) for row in people.forecast.mean("income", eps=eps).rows) <= 500
    less = f"{float(eps) * 0.98:.6f}"
    assert max(float(row[2]) for row in people.forecast.mean("income", eps=less).rows) > 500
    assert served[0].ledger.spent == before


def test_facts_are_public_and_rows_are_made_up(people: Remote) -> None:
    assert "yours" in str(people.describe())
    rows = people.made_up(1000)
    assert rows.num_rows == 1000
    assert set(rows.column_names) == {"age", "income", "region", "who"}


def test_a_released_file_carries_a_certificate_of_the_service(
    people: Remote, served: tuple[Town, str], tmp_path: Path
) -> None:
    where = people.by("region").count(eps="0.1").save(tmp_path / "regions.csv")
    record = ob.verify_certificate(where, public_key=served[0].ledger.public_key)
    assert record["dataset"] == DATASET


def test_counts_are_given_raw_and_at_zero_or_more_as_json_csv_and_files(
    people: Remote, served: tuple[Town, str], tmp_path: Path
) -> None:
    names = ["value", "low", "high", "at 0 or more", "at 0 or more low", "at 0 or more high"]
    counted = people.where("age >= 99").count(eps="0.1")
    where = counted.save(tmp_path / "old.csv", not_negative=True)
    assert ob.verify_certificate(where, public_key=served[0].ledger.public_key)["dataset"] == DATASET
    where = people.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY region", eps="0.1").save(
        tmp_path / "n.csv", not_negative=True
    )
    assert "n at 0 or more high" in (tmp_path / "n.csv").read_text()
    for job in people._line.get("/v1/questions"):
        path = f"/v1/questions/{job['id']}/release"
        if job["question"].get("where") != "age >= 99":
            continue
        found = people._line.get(f"{path}?not_negative=true")
        assert found["counts"] == counted.not_negative().to_pylist()
        assert list(found["counts"][0]) == names
        asked = urllib.request.Request(
            f"{served[1]}{path}?not_negative=true&format=csv",
            headers={"Authorization": f"Bearer {served[0].tokens['lab-3']}"},
        )
        with urllib.request.urlopen(asked) as reply:
            assert reply.read() == (tmp_path / "old.csv").read_bytes()
        break
    else:
        raise AssertionError("the question is not in the list")
    people.mean("income", eps="0.1")
    mean = people._line.get("/v1/questions")
    refused = next(job for job in mean if "mean" in str(job["question"]))
    with pytest.raises(ob.OboroError, match="no counts"):
        people._line.get(f"/v1/questions/{refused['id']}/release?not_negative=true")


def test_errors_are_those_of_the_library(people: Remote, served: tuple[Town, str]) -> None:
    with pytest.raises(BoundsError):
        people.mean("wealth", eps="0.1")
    with pytest.raises(BudgetError):
        people.mean("income", eps="100")
    with pytest.raises(ParameterError, match="name"):
        people.mean("income", eps="0.1", name="mine")
    with pytest.raises(ob.OboroError, match="there is no such dataset"):
        ob.connect(served[1], token=served[0].tokens["lab-3"])["people 1999"]
    with pytest.raises(ob.OboroError, match="a token is needed"):
        ob.connect(served[1], token="nothing").datasets  # noqa: B018


def test_an_answer_to_another_question_is_refused(people: Remote) -> None:
    people.count(eps="0.01")
    answer = people._line.get("/v1/questions")[0]["id"]
    content = people._line.get(f"/v1/questions/{answer}/release")
    with pytest.raises(CertificateError, match="another question"):
        people._checked(content, people.plan.mean("income", eps="0.77"), answer)
    content["certificate"]["dataset"] = "other"
    with pytest.raises(CertificateError):
        people._checked(content, people.plan.mean("income", eps="0.77"), answer)


def test_plain_http_is_for_this_machine_alone() -> None:
    with pytest.raises(ParameterError):
        ob.connect("http://stat.example", token="x")


def test_the_client_needs_none_of_the_servers_parts() -> None:
    code = "import sys, oboro as ob; ob.connect('http://127.0.0.1:1', token='x'); import oboro.service.client; print({'fastapi', 'uvicorn', 'pydantic', 'starlette'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )
