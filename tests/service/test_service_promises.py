"""What a service promises to data about people whose analysts it does not trust."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from service_town import DATASET, MEAN, Town, table, town

import oboro as ob
from oboro.privacy import Approx, Pure
from oboro.service import calibration, jobs, slots, worker
from oboro.service.questions import Shape, plan_of
from oboro.service.slots import Slot, first_from


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path / "here") as found:
        yield found


# 1. Questions, not plans, travel


def test_a_plan_is_made_of_the_servers_own_facts(here: Town) -> None:
    assert here.ask({**MEAN, "unit": {"kind": "row"}}).status_code == 422
    assert here.ask({"kind": "statistics.mean", "guarantee": {"eps": "0.1"}}).status_code == 422
    assert here.ask({**MEAN, "columns": ["who"]}).status_code == 422
    found = here.answered()
    plan = ob.release.plan_from(found["answer"]["certificate"]["plan"])
    facts = here.desk.datasets[DATASET].facts
    assert plan == plan_of(MEAN, facts)[0]
    assert plan.unit == facts.unit


@pytest.mark.long("promises of a service")
def test_a_histogram_of_2_to_the_26_bins_is_refused_at_once(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Integer("one", 0, 2**13 - 1), ob.Integer("two", 0, 2**13 - 1)])
    data = pa.table({"who": [1, 2], "one": [3, 4], "two": [5, 6]})
    with town(tmp_path / "here", data, domain=domain) as found:
        tracemalloc.start()
        answer = found.ask({"question": "histogram", "columns": ["one", "two"], "eps": "1"})
        assert answer.status_code == 422
        assert answer.json()["given"] == f"{2**26:,} bins"
        assert found.ask({"question": "table", "eps": "1"}).status_code == 422
        assert found.ask({"question": "count", "by": ["one", "two"], "eps": "1"}).status_code == 422
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26  # bytes: no bin was made
        assert found.ledger.spent == Pure(0)


# 2. Refusals before anything is reserved; afterwards done or lost


def test_what_is_refused_spends_nothing_and_leaves_nothing(here: Town) -> None:
    wrong = [
        {**MEAN, "columns": ["wealth"]}, {**MEAN, "eps": "0"}, {**MEAN, "eps": "-1"}, {**MEAN, "eps": None}, {**MEAN, "rho": "1"},
        {**MEAN, "where": "age >="}, {**MEAN, "by": ["nothing"]}, {"question": "quantile", "columns": ["age"], "quantiles": ["2"], "eps": "1"},
        {**MEAN, "eps": "11"}, {"question": "guess"}, {}, [], "mean", {**MEAN, "eps": "1e-400"}, {**MEAN, "columns": [""]},
        {"question": "batch", "questions": [MEAN], "eps": "0.1"},  # one price for all, not one of its own beside it
    ]  # fmt: skip
    for body in wrong:
        assert here.ask(body).status_code in (409, 422), body
    assert here.ledger.spent == Pure(0)
    assert here.send("GET", "/v1/questions", "anna").json() == []


@pytest.mark.long("promises of a service")
def test_what_fails_after_the_reservation_is_lost_and_says_so_at_the_same_time(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bytes:
        raise ValueError("the income of a person is 4711")

    first = here.ask()
    monkeypatch.setattr(worker, "answer", broken)
    ended = here.wait(first.json()["id"])
    assert ended["state"] == "lost"
    assert ended["answer"] is None
    assert ended["why"] is None
    assert here.ledger.spent == Pure("0.1")
    seen = here.send("GET", f"/v1/questions/{ended['id']}", "anna")
    assert seen.json()["why"] == "ValueError"
    assert "4711" not in seen.text
    assert any(alert["job"] == ended["id"] for alert in here.send("GET", "/v1/alerts", "anna").json())
    monkeypatch.undo()
    again = here.answered()  # the same question is paid for again
    assert again["state"] == "done"
    assert here.ledger.spent == Pure("0.2")


def test_a_lost_answer_looks_like_any_other_until_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path / "here", slot=Slot(1, 60_000)) as found:
        good, bad = found.ask().json(), found.ask({**MEAN, "eps": "0.2"}).json()
        row = jobs.claim(found.desk.database, "w")
        assert row is not None
        jobs.finish(found.desk.database, row.id, "w", answer=worker.answer(found.desk.datasets[DATASET], row))
        row = jobs.claim(found.desk.database, "w")
        assert row is not None
        jobs.finish(found.desk.database, row.id, "w", why="broken")
        for job in (good, bad):
            seen = found.send("GET", f"/v1/questions/{job['id']}").json()
            assert (seen["state"], seen["answer"], seen["due"]) == ("pending", None, job["due"])
            assert found.send("GET", f"/v1/questions/{job['id']}/release").status_code == 404
        assert found.ask({**MEAN, "eps": "0.2"}).json()["id"] == bad["id"]


# 3. Answers leave at public times


@pytest.mark.long("promises of a service")
def test_turns_follow_from_the_clock_and_what_was_admitted_alone(tmp_path: Path) -> None:
    with town(tmp_path / "here", slot=Slot(100, 1_000)) as found, found.desk.database.writing() as connection:
        due = [slots.take_turn(connection, 2, Slot(100, 1_000), 50_000) for _ in range(6)]
        assert due == [51_000, 51_000, 51_100, 51_100, 51_200, 51_200]
        assert slots.take_turn(connection, 2, Slot(100, 1_000), 90_000) == 91_000


def test_an_overrun_takes_the_next_slot_and_alerts_the_steward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path / "here", slot=Slot(1, 1_000)) as found:
        found.ask()
        row = jobs.claim(found.desk.database, "w")
        assert row is not None
        answer = worker.answer(found.desk.datasets[DATASET], row)
        monkeypatch.setattr(jobs, "now", lambda: row.due + 1_001)
        jobs.finish(found.desk.database, row.id, "w", answer=answer)
        with found.desk.database.reading() as connection:
            ended = jobs.find(connection, row.id)
        assert ended is not None
        assert ended.leaves == row.due + 2_000
        assert jobs.state_at(ended, row.due + 1) == ("pending", row.due + 1_000)
        assert jobs.state_at(ended, row.due + 1_999) == ("pending", row.due + 2_000)
        assert jobs.state_at(ended, row.due + 2_000) == ("done", row.due + 2_000)
        assert "2 slots later" in found.send("GET", "/v1/alerts", "anna").text


def test_a_question_above_all_that_was_calibrated_has_a_longer_slot() -> None:
    found = {Shape("mean", 16): Slot(10, 100), Shape("mean", 256): Slot(20, 300), Shape("top", 1): Slot(1, 1)}
    sizes = (1, 16, 256, 4_096)
    assert [slots.fitting(found, Shape("mean", size)).slot for size in sizes] == [100, 100, 300, 4_800]
    assert slots.fitting(found, Shape("count", 1)) == slots.UNCALIBRATED


def test_an_answer_is_entered_at_a_public_time_however_soon_it_was_ready(tmp_path: Path) -> None:
    """Its certificate says where it stands among the entries: an analyst's own small questions would be a stopwatch."""
    with town(tmp_path / "here", slot=Slot(1, 60_000)) as found:
        found.ask()
        row = jobs.claim(found.desk.database, "w")
        assert row is not None
        clerk = worker.Clerk(found.desk.database, "w")
        clerk.take(row, worker.measured(found.desk.datasets[DATASET], row), row.due - 59_000)
        assert clerk.enter(row.due - 30_001) == 1
        assert [entry.kind for entry in found.ledger.history()][-1] == "reserve"
        assert clerk.enter(row.due - 30_000) == 0
        assert [entry.kind for entry in found.ledger.history()][-1] == "commit"
        assert [slots.enters_from(100, 40, ready) for ready in (0, 80, 81, 120, 121)] == [
            80,
            80,
            120,
            120,
            160,
        ]


@pytest.mark.long("promises of a service")
def test_a_rehearsal_asks_one_question_of_every_kind_and_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has loaded what answers need before its first slot begins; the rows are made up, and so is the ledger."""
    timed, asked = calibration._timed, []

    def seen(plan: Any, source: Any, ledger: Any) -> float:
        asked.append((plan.kind, ledger.dataset))
        return timed(plan, source, ledger)

    monkeypatch.setattr(calibration, "_timed", seen)
    with town(tmp_path / "here") as found:
        (dataset,) = found.desk.settings.datasets
        before = len(list(found.ledger.history()))
        calibration.rehearse(found.desk.settings, dataset, found.ledger.unit, found.ledger.budget)
        assert {"statistics.mean", "statistics.histogram", "tables.table"} <= {kind for kind, _ in asked}
        assert {name for _, name in asked} == {"made up"}
        assert len(list(found.ledger.history())) == before
        monkeypatch.setattr(
            calibration, "made_up", lambda *_, **__: 1 / 0
        )  # and keeps no worker from its work
        calibration.rehearse(found.desk.settings, dataset, found.ledger.unit, found.ledger.budget)


@pytest.mark.long("promises of a service")
def test_a_turn_leaves_half_of_a_core_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where turns are as long as the work, seven in ten of the answers that come one after the other leave late."""
    monkeypatch.setattr(calibration, "_timed", lambda *_: 5.0)
    with town(tmp_path / "here") as found:
        (dataset,) = found.desk.settings.datasets
        slots_ = calibration.slots_of(found.desk.settings, dataset, found.ledger.unit, found.ledger.budget)
    crowd = max(1.0, found.desk.settings.workers / (os.cpu_count() or 1))
    assert all(slot.work >= crowd * 2 * (5 + 10) and slot.slot >= 400 for slot in slots_.values())


def test_a_worker_takes_nothing_before_its_turn(tmp_path: Path) -> None:
    with town(tmp_path / "here", slot=Slot(1, 60_000)) as found:
        found.ask()
        with found.desk.database.reading() as connection:
            (due,) = connection.execute(
                jobs.schema.jobs.select().with_only_columns(jobs.schema.jobs.c.due)
            ).one()
        assert jobs.claim(found.desk.database, "w", due - 60_001) is None
        assert jobs.claim(found.desk.database, "w", due - 60_000) is not None


@pytest.mark.long("promises of a service")
def test_a_clock_that_was_ahead_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes, answers that were to leave, and what a worker holds: all of it comes as soon after the jump back as it was to come before."""
    from oboro.service import api, desk

    year, time = 365 * 86_400_000, 10**12
    clock = [time + year]
    for module in (api, desk, jobs):
        monkeypatch.setattr(module, "now", lambda: clock[0])
    with town(tmp_path / "here", slot=Slot(50, 4_000)) as found:
        store = found.desk.database
        for number in range(1, 6):
            found.ask({**MEAN, "eps": f"0.0{number}"})
        row = jobs.claim(store, "w", clock[0])
        assert row is not None
        clerk = worker.Clerk(store, "w")
        clerk.take(row, worker.measured(found.desk.datasets[DATASET], row), clock[0])
        clock[0] = time
        assert clerk.enter(time) == 0  # it is not held for a year
        assert jobs.bury(store, own="w") == []
        assert slots.settle(store, time)
        assert not slots.settle(store, time)
        with store.reading() as connection:
            rows = list(connection.execute(jobs.schema.jobs.select()))
        assert sorted(row.due - time for row in rows) == [4_000, 4_000, 4_050, 4_050, 4_100]  # of two lanes
        assert {row.leaves for row in rows} == {None, time + 4_000}
        assert found.ask({**MEAN, "eps": "0.07"}).json()["due_in"] == 4.1
    with town(tmp_path / "turns", slot=Slot(50, 4_000)) as found, found.desk.database.writing() as connection:
        due = [slots.take_turn(connection, 1, Slot(100, 1_000), at) for at in (year, year, 5_000, 5_000)]
        assert due == [year + 1_000, year + 1_100, 6_200, 6_300]  # what was ahead in the queue is ahead still


def test_the_times_of_a_slot_are_multiples_of_it() -> None:
    assert [first_from(100, 10, ready) for ready in (1, 100, 101, 110, 111)] == [100, 100, 110, 110, 120]


@pytest.mark.long("promises of a service")
def test_a_person_with_many_rows_has_as_many_as_any_other_in_the_edition(tmp_path: Path) -> None:
    few, many = table(50), table(50)
    crowd = pa.table(
        {
            "who": [10**6] * 5_000,
            "age": [20] * 5_000,
            "income": list(range(5_000)),
            "region": ["north"] * 5_000,
        }
    )
    many = pa.concat_tables([many, crowd.cast(many.schema)])
    sizes = []
    for name, data in (("few", few), ("many", many)):
        with town(tmp_path / name, data) as found:
            sizes.append(found.desk.datasets[DATASET].source.count_units(ob.Unit.row()))
    assert sizes[1] - sizes[0] == 4


# 5. Same question, same answer, free


@pytest.mark.long("promises of a service")
def test_answers_are_shared_where_the_steward_says_so(tmp_path: Path) -> None:
    for sharing, spent in ((True, "0.1"), (False, "0.2")):
        with town(tmp_path / str(sharing), sharing=sharing) as found:
            mine, other = found.answered(), found.answered(who="lab-4")
            assert (mine["answer"] == other["answer"]) == sharing
            assert found.ledger.spent == Pure(spent)
            assert found.ask(who="lab-4").status_code == 200


@pytest.mark.long("promises of a service")
def test_whoever_followed_a_lost_question_may_ask_it_again(tmp_path: Path) -> None:
    with town(tmp_path / "here", sharing=True) as found:
        leader, follower = found.ask().json(), found.ask(who="lab-4").json()
        assert follower["cost"]["eps"] == "0"
        assert jobs.claim(found.desk.database, "w").id == leader["id"]  # type: ignore[union-attr]
        jobs.bury(found.desk.database, "w")
        assert found.wait(follower["id"], "lab-4")["state"] == "lost"
        assert found.answered(who="lab-4")["state"] == "done"
        assert found.ledger.spent == Pure("0.2")


def test_what_others_asked_in_private_is_not_told_by_a_crowd(tmp_path: Path) -> None:
    with town(tmp_path / "here", limits={"waiting": 1}) as found:
        found.ask({**MEAN, "eps": "0.2"}, "lab-4")
        found.ask({**MEAN, "eps": "0.01"})
        asked = [found.ask({**MEAN, "eps": eps}) for eps in ("0.2", "0.3")]
        assert [one.status_code for one in asked] == [429, 429]
        assert asked[0].content == asked[1].content


def test_an_answer_is_found_in_the_ledger_when_all_else_is_lost(tmp_path: Path) -> None:
    with town(tmp_path / "here") as found:
        first = found.answered()
        with found.desk.database.writing() as connection:
            connection.exec_driver_sql("DELETE FROM jobs")
        again = found.ask()
        assert again.status_code == 200
        assert again.json()["answer"]["content"] == first["answer"]["content"]
        assert found.ledger.spent == Pure("0.1")


@pytest.mark.few(2, "questions in other words")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MEAN, {**MEAN, "eps": "0.10"}),
        (MEAN, {**MEAN, "eps": "1/10", "by": []}),
        ({**MEAN, "where": "age >= 20"}, {**MEAN, "where": " not (AGE<20.0)".replace("AGE", "age")}),
        (
            {**MEAN, "where": "age > 19 and (region = 'north' or region='east')"},
            {**MEAN, "where": "(region in ('east','north', 'east')) AND age>=20"},
        ),
        (
            {"question": "sql", "sql": "SELECT AVG(income) FROM people WHERE age >= 20 AND income < 500", "eps": "0.1"},
            {"question": "sql", "sql": "select avg( p.income ) from people p where 500 > income and (age > 19);", "eps": 0.1},
        ),
    ],
)  # fmt: skip
@pytest.mark.long("promises of a service")
def test_other_words_for_the_same_plan_are_the_same_question(here: Town, one: Any, other: Any) -> None:
    before = here.ledger.spent
    first = here.answered(one)
    again = here.ask(other)
    assert again.status_code == 200
    assert again.json()["answer"] == first["answer"]
    assert here.ledger.spent.eps - before.eps <= Fraction(1, 10)  # type: ignore[attr-defined]


def test_a_condition_that_is_too_long_to_be_read_back_is_refused_and_not_lost(tmp_path: Path) -> None:
    wide = ob.Domain([ob.Integer("income", 0, 10**6), ob.Integer("age", 0, 99), ob.Category("region", ["north", "east", "south", "west"])])  # fmt: skip
    with town(tmp_path / "here", domain=wide) as found:
        asked = {**MEAN, "where": f"income in ({','.join(map(str, range(100, 500)))})"}
        assert found.ask(asked).status_code == 422
        assert found.ledger.spent == Pure(0)


def test_another_edition_is_another_question(here: Town) -> None:
    plan = here.desk.quoted(here.desk.datasets[DATASET], MEAN).quote.record
    here.answered()
    assert here.ledger.answered(plan, "2026", accounts=["lab-3"]) is not None
    assert here.ledger.answered(plan, "2027", accounts=["lab-3"]) is None


# 4. Budgets inside the signed chain


@pytest.mark.long("sequences by chance")
def test_colluding_analysts_stay_within_the_datasets_budget(tmp_path: Path) -> None:
    with town(
        tmp_path / "here", budget=Pure("0.5"), grant=Pure("0.3"), granted=("lab-3", "lab-4", "lab-5")
    ) as found:
        codes = [
            found.ask({**MEAN, "where": f"age >= {age}"}, who).status_code
            for age in range(4)
            for who in ("lab-3", "lab-4", "lab-5")
        ]
        assert codes.count(202) == 5
        assert set(codes) == {202, 409}
        assert found.ledger.spent == Pure("0.5")
        found.work()
        found.ledger.verify()
        assert all(account.spent.eps <= Pure("0.3").eps for account in found.ledger.accounts())


@pytest.mark.long("promises of a service")
def test_a_new_month_opens_an_account_again_and_never_the_datasets_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    from oboro.ledger import periods

    today = datetime.now(UTC)
    monkeypatch.setattr(periods, "now_after", lambda before: max(before, today))
    with town(tmp_path / "here", budget=Pure("0.5"), granted=()) as found:
        found.ledger.grant("lab-3", Pure("0.2"), per="month", by="anna")
        spent = []
        for month in range(4):
            year, at = divmod(today.month - 1 + month, 12)
            when = datetime(today.year + year, at + 1, 28, 23, 59, tzinfo=UTC)
            monkeypatch.setattr(periods, "now_after", lambda before, when=when: max(before, when))
            for age in range(3):
                found.ask({**MEAN, "where": f"age >= {10 * month + age}"})
            spent.append(found.ledger.spent)
        assert spent == [Pure("0.2"), Pure("0.4"), Pure("0.5"), Pure("0.5")]


# 6. Four eyes


def test_above_a_threshold_another_steward_approves(tmp_path: Path) -> None:
    with town(tmp_path / "here", approve_above="0.3", granted=("lab-3", "anna")) as found:
        dear = {**MEAN, "eps": "0.4"}
        job = found.ask(dear, "anna").json()
        assert (job["state"], job["due"]) == ("waiting", None)
        assert found.ledger.spent == Pure(0)
        assert found.send("GET", "/v1/questions?state=waiting", "ben").json()[0]["id"] == job["id"]
        words = found.send("GET", f"/v1/questions/{job['id']}/plan", "ben").json()
        assert "mean of income" in words["words"]["released"]
        assert words["forecast"]["rows"]
        assert found.send("POST", f"/v1/questions/{job['id']}/approve", "anna").status_code == 422
        assert found.send("POST", f"/v1/questions/{job['id']}/approve", "ben").json()["state"] == "pending"
        assert found.wait(job["id"], "anna")["state"] == "done"
        assert found.ledger.spent == Pure("0.4")
        assert found.send("POST", f"/v1/questions/{job['id']}/approve", "ben").status_code == 409
        kinds = [entry.kind for entry in found.ledger.history()]
        assert kinds[-3:] == ["approve", "reserve", "commit"]


def test_what_is_declined_costs_nothing(tmp_path: Path) -> None:
    with town(tmp_path / "here", approve_above="0.3") as found:
        job = found.ask({**MEAN, "eps": "0.4"}).json()
        assert (
            found.send("POST", f"/v1/questions/{job['id']}/decline", "anna", {"why": "too dear"}).status_code
            == 200
        )
        ended = found.wait(job["id"])
        assert (ended["state"], ended["why"]) == ("declined", None)
        assert found.ledger.spent == Pure(0)


def test_what_cannot_be_paid_when_it_is_approved_goes_on_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path / "here", budget=Pure("0.5"), approve_above="0.3") as found:
        dear = found.ask({**MEAN, "eps": "0.4"}, idempotency_key="k1").json()
        found.answered({**MEAN, "eps": "0.2"}, "lab-4")
        path = f"/v1/questions/{dear['id']}"
        for _ in range(2):
            refused = found.send("POST", f"{path}/approve", "anna")
            assert (refused.status_code, refused.json()["error"]) == (409, "BudgetError")
            assert found.send("GET", path).json()["state"] == "waiting"
        assert "approve" not in [entry.kind for entry in found.ledger.history()]
        monkeypatch.setattr(type(found.ledger), "affords", lambda *_, **__: True)  # another was quicker
        assert found.send("POST", f"{path}/approve", "anna").status_code == 409
        assert found.send("GET", path).json()["state"] == "waiting"
        assert found.ask({**MEAN, "eps": "0.4"}, idempotency_key="k1").json()["id"] == dear["id"]
        found.desk._move(dear["id"], "waiting", state="asked", by="anna")  # it stopped between the two
        found.desk.recover()
        assert found.send("GET", path).json()["state"] == "waiting"
        assert found.send("POST", f"{path}/decline", "ben").status_code == 200
        assert found.ledger.spent == Pure("0.2")
        found.ledger.verify()


@pytest.mark.long("promises of a service")
def test_nobody_makes_a_second_steward_of_themselves(tmp_path: Path) -> None:
    with town(tmp_path / "here", approve_above="0.3") as found:
        assert found.send("POST", "/v1/tokens", "anna", {"name": "ben"}).status_code == 403
        assert (
            found.send("POST", "/v1/analysts", "anna", {"name": "new", "role": "steward"}).status_code == 403
        )
        for own in ("anna", "lab-3", "carl"):
            assert found.send("POST", "/v1/tokens", "anna", {"name": own}).status_code == 201


@pytest.mark.long("promises of a service")
def test_most_of_the_delta_is_not_spent_by_one(tmp_path: Path) -> None:
    with town(tmp_path / "here", budget=Approx(10, "1e-3"), approve_above="0.3") as found:
        asked = {"question": "table", "columns": ["age"], "eps": "0.3"}
        assert found.ask({**asked, "delta": "9e-4"}).json()["state"] == "waiting"
        assert found.ask({**asked, "delta": "1e-5"}).json()["state"] == "pending"


def test_what_cannot_be_queued_after_it_was_paid_for_is_lost(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(slots, "take_turn", full)
    assert here.ask().json()["state"] == "lost"
    assert here.ledger.spent == Pure("0.1")


# 8. Idempotency keys


def test_a_key_means_one_question(here: Town) -> None:
    first, again = (here.ask(MEAN, idempotency_key="k1") for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert here.ask({**MEAN, "eps": "0.2"}, idempotency_key="k1").status_code == 409
    assert here.ask({**MEAN, "eps": "0.2"}, "lab-4", idempotency_key="k1").status_code == 202
    assert here.ledger.spent == Pure("0.3")


# Logs and metrics


@pytest.mark.long("promises of a service")
def test_logs_and_metrics_hold_public_facts_alone(here: Town, caplog: pytest.LogCaptureFixture) -> None:
    from oboro.service.door import Lines, log

    log.propagate, before = True, log.propagate
    log.setLevel("INFO")
    try:
        here.answered({**MEAN, "where": "age >= 77"})
    finally:
        log.propagate = before
    lines = [
        json.loads(Lines().format(record)) for record in caplog.records if record.name == "oboro.service"
    ]
    assert lines
    assert all(set(line) == {"time", "level", "event", "route", "method", "status", "who"} for line in lines)
    assert "77" not in "".join(line["route"] for line in lines)
    metrics = here.send("GET", "/v1/metrics", "anna").text
    assert 'oboro_questions_total{dataset="people 2026",kind="mean"} 1' in metrics
    assert "77" not in metrics
    names = {line.split("{")[0] for line in metrics.splitlines() if not line.startswith("#")}
    assert names == {"oboro_questions_total", "oboro_requests_total"}  # no duration, no end, no overrun
