"""An analyst with a stopwatch: one person with no rows, or with 200,000. The times of answers do not tell which."""

from __future__ import annotations

import http.client
import json
import os
import random
import time
from contextlib import ExitStack
from math import sqrt
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.parquet
import pytest
from service_town import DATASET, made, table
from test_service_processes import running

from oboro.privacy import Pure
from oboro.service import edition
from oboro.service.slots import Slot

ROUNDS = int(os.environ.get("OBORO_ROUNDS", 100))


def world(many: int) -> pa.Table:
    others = table(2_000)
    crowd = {
        "who": [10**6] * many,
        "age": [40] * many,
        "income": [100 * (n % 200) for n in range(many)],
        "region": ["north"] * many,
    }
    return pa.concat_tables([others, pa.table(crowd).cast(others.schema)])


def timed(address: str, token: str, question: dict[str, Any]) -> float:
    """Seconds from the question to the event that says that it is done."""
    line = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    began = time.perf_counter()
    line.request("POST", f"/v1/datasets/{quote(DATASET)}/questions", json.dumps(question), headers)
    job = json.loads(line.getresponse().read())
    line.request("GET", f"/v1/questions/{job['id']}/events", headers=headers)
    told = line.getresponse().read()
    ended = time.perf_counter()
    assert b"event: done" in told
    line.close()
    return ended - began


def measured(folder: Path, slot: Slot, rounds: int) -> tuple[list[float], list[float]]:
    """The times of both worlds, asked in turns, in an order by chance."""
    draw, found = random.Random(1), ([], [])  # type: ignore[var-annotated]
    with ExitStack() as stack:
        worlds = []
        for number, many in enumerate((0, 200_000)):
            settings, tokens = made(
                folder / str(number), world(many), budget=Pure(1000), slot=slot, workers=1
            )
            worlds.append((stack.enter_context(running(settings))[1], tokens["lab-3"]))
        for turn in range(rounds + 3):
            for number in draw.sample((0, 1), 2):
                question = {
                    "question": "mean",
                    "columns": ["income"],
                    "where": f"age >= {turn % 90}",
                    "eps": f"0.00{turn + 1}",
                }
                took = timed(*worlds[number], question)
                if turn >= 3:  # the first load what the others have
                    found[number].append(took)
    return found


def auc(one: list[float], other: list[float]) -> float:
    """How often a time of the other world is the longer one."""
    return sum((a < b) + 0.5 * (a == b) for a in one for b in other) / (len(one) * len(other))


@pytest.mark.long("a stopwatch at a service")
def test_a_stopwatch_does_not_tell_how_many_rows_a_person_has(tmp_path: Path) -> None:
    few, many = measured(tmp_path, Slot(10, 400), ROUNDS)
    deviation = sqrt((2 * ROUNDS + 1) / (12 * ROUNDS**2))
    assert abs(auc(few, many) - 0.5) < 4.9 * deviation  # false alarm below 1e-6


@pytest.mark.long("a stopwatch at a service")
def test_without_slots_and_editions_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edition, "coded", lambda dataset, unit: pa.parquet.read_table(dataset.data))
    # other work on the machine hides it now and then, and only ever hides it
    seen = (auc(*measured(tmp_path / str(turn), Slot(1, 1), 20)) for turn in range(4))
    assert any(told > 0.9 for told in seen)
