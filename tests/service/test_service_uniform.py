"""Ten hostile datasets: what a service says and how it says it is the same for all, but for the noisy numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from service_town import MEAN, table, town

from oboro.privacy import Unit

NAN, LARGE = float("nan"), 1e308
PLAIN = {"who": pa.string(), "age": pa.float64(), "income": pa.float64(), "region": pa.string()}


def rows(who: list[Any], age: list[Any], income: list[Any], region: list[Any]) -> pa.Table:
    values = dict(zip(PLAIN, (who, age, income, region), strict=True))
    return pa.table({name: pa.array(values[name], kind) for name, kind in PLAIN.items()})


def hostile() -> list[pa.Table]:
    usual = table(100).to_pydict()
    return [
        rows([], [], [], []),
        rows([None] * 9, [None] * 9, [None] * 9, [None] * 9),
        rows(["a"] * 5000, [1.0] * 5000, [LARGE] * 5000, ["north"] * 5000),
        rows(list(map(str, range(50))), [NAN] * 50, [NAN] * 50, ["x"] * 50),
        rows(["a", "b"], [-LARGE, LARGE], [-0.0, 5e-324], ["", "\x00"]),
        rows(["a"], [float("inf")], [float("-inf")], ["north' OR 1=1 --"]),
        rows(
            ["\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")] * 3,
            [20.0] * 3,
            [100.0] * 3,
            ["東"] * 3,
        ),
        rows(
            [str(n % 7) for n in range(3000)],
            [float(n) for n in range(3000)],
            [n + 0.5 for n in range(3000)],
            ["west"] * 3000,
        ),
        rows(
            list(map(str, usual["who"])),
            list(map(float, usual["age"])),
            list(map(float, usual["income"])),
            usual["region"],
        ),
        rows(["a", None, "a"], [None, 20.0, NAN], [1.0, None, 2.0], [None, "east", "south"]),
    ]


QUESTIONS = [
    MEAN,
    {"question": "count", "by": ["region"], "eps": "0.1"},
    {"question": "median", "columns": ["age"], "eps": "0.1"},
    {"question": "histogram", "columns": ["age"], "edges": {"age": [20, 65]}, "eps": "0.1"},
    {"question": "persons", "where": "region = 'north'", "eps": "0.1"},
    {"question": "table", "columns": ["region"], "workload": [{"kind": "cells"}], "eps": "0.1"},
    {
        "question": "batch",
        "questions": [{"question": "mean", "columns": ["age"]}, {"question": "count"}],
        "eps": "0.1",
    },
]
NOISY = {
    "content",
    "signature",
    "sha256",
    "hash",
    "id",
    "ledger",
    "public_key",
    "time",
    "due",
    "due_in",
    "asked",
    "name",
    "plan_hash",
}


def shape(value: Any) -> Any:
    """A body without its noise: what is left of a noisy number is its place."""
    if isinstance(value, dict):
        return {
            key: type(inner).__name__ if key in NOISY and not isinstance(inner, dict) else shape(inner)
            for key, inner in value.items()
        }
    return [shape(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.long("hostile data at a service")
@pytest.mark.parametrize("many", [10])
def test_hostile_data_changes_noisy_numbers_alone(tmp_path: Path, many: int) -> None:
    seen = []
    for number, data in enumerate(hostile()[:many]):
        with town(tmp_path / str(number), data, unit=Unit.person("who", 4)) as found:
            said: list[Any] = []
            for question in QUESTIONS:
                first = found.ask(question)
                ended = found.wait(first.json()["id"])
                last = found.send("GET", f"/v1/questions/{ended['id']}")
                headers = {
                    name: value
                    for name, value in last.headers.items()
                    if name not in ("date", "content-length")
                }
                released = ended.pop("answer")
                assert ended["state"] == "done"
                released["certificate"].pop("content")  # a table of cells has as many rows as its noise says
                said.append(
                    (
                        first.status_code,
                        last.status_code,
                        headers,
                        shape(ended),
                        shape(released["certificate"]),
                    )
                )
            asked = found.send("GET", "/v1/metrics", "anna").text
            said.append([line for line in asked.splitlines() if line.startswith("oboro_questions_total")])
            seen.append(said)
    for other in seen[1:]:
        assert other == seen[0]
