"""schemathesis: requests that the OpenAPI allows and forbids, to every endpoint, with all checks. Nothing breaks, and nobody pays for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as how
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from service_town import DATASET, MEAN, Town, town

from oboro.privacy import Pure
from oboro.service import database as schema

READERS = {"GET /v1/alerts", "GET /v1/metrics", "GET /v1/analysts", "POST /v1/analysts"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(
        tmp_path_factory.mktemp("fuzz") / "here", limits={"table_cells": 4096}, budget=Pure(3), grant=Pure(1)
    ) as found:
        found.answered()
        yield found


def operations(here: Town) -> list[Any]:
    # a column that is not declared, a cost that is not covered: schema-valid, and refused with 422 by public facts
    config = SchemathesisConfig.from_dict(
        {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", 401, 403, 404, 409, 422, 429]}}}
    )
    found = schemathesis.openapi.from_asgi("/v1/openapi.json", here.door, config=config)
    return [operation.ok() for operation in found.get_all_operations()]


def tried(here: Town, examples: int) -> None:
    listed = operations(here)
    assert len(listed) > 25
    job = here.ask().json()["id"]
    for operation in listed:
        steward = "ledger" in operation.path or "grants" in operation.path or operation.label in READERS
        attempts(here, operation, "anna" if steward else "lab-3", job, examples)()
    here.work()
    paid(here)


def attempts(here: Town, operation: Any, who: str, job: str, examples: int) -> Any:
    @how(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
        derandomize=True,
    )
    @given(case=operation.as_strategy(), known=st.booleans())
    def one(case: Any, known: bool) -> None:
        if known:  # what is there, where a path names something
            case.path_parameters = {
                name: DATASET if name == "dataset" else job for name in case.path_parameters or {}
            }
        answer = case.call(headers={"Authorization": f"Bearer {here.tokens[who]}"})
        assert answer.status_code < 500
        case.validate_response(answer)

    return one


def paid(here: Town) -> None:
    """What the ledger says is spent is what was admitted, to the last digit, and never above what was granted."""
    with here.desk.database.reading() as connection:
        rows = list(
            connection.execute(sa.select(schema.jobs.c.cost, schema.jobs.c.state, schema.jobs.c.account))
        )
    spent = {name: Fraction(0) for name in ("lab-3", "lab-4", "anna")}
    for row in rows:
        if row.state in ("admitted", "running", "done", "lost"):
            spent[row.account] += Fraction(json.loads(row.cost)["eps"])
    assert here.ledger.spent == Pure(sum(spent.values()))
    assert all(amount <= 1 for amount in spent.values())
    here.ledger.verify()


@pytest.mark.long("requests by chance")
def test_no_request_breaks_the_service(here: Town) -> None:
    tried(here, 3)


@pytest.mark.long("requests by schemathesis")
def test_no_request_breaks_the_service_many_times(here: Town) -> None:
    tried(here, 150)


def test_the_schema_is_that_of_the_questions(here: Town) -> None:
    assert here.ask(MEAN).status_code in (200, 202)
    known = here.send("GET", "/v1/openapi.json", None).json()["components"]["schemas"]
    assert {"Mean", "Histogram", "Table", "Batch", "Refusal", "Job"} <= set(known)


def test_the_door_takes_what_no_client_sends(here: Town, tmp_path: Path) -> None:
    for path in (
        "//",
        "/v1/datasets/%00",
        "/v1/questions/" + "x" * 5000,
        "/v1/../v1/datasets",
        "/v1/datasets/" + "é",
    ):
        assert here.send("GET", path).status_code in (404, 405, 400)
    for verb in ("PUT", "PATCH", "TRACE", "OPTIONS", "FOO"):
        assert here.send(verb, "/v1/datasets").status_code in (404, 405)
    assert here.send("GET", "/v1/datasets", None, authorization="Basic x").status_code == 401
