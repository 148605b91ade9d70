"""Several machines share one database: no front takes, loses or deletes what another has. And what changed while a question waited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from service_town import DATASET, MEAN, Town, closed, made, opened, town

from oboro.ledger import Ledger
from oboro.privacy import Pure
from oboro.service import database as schema
from oboro.service import desk as desks
from oboro.service import jobs, people, worker
from oboro.service.database import Database
from oboro.service.desk import Desk
from oboro.service.server import Workers
from oboro.service.settings import read_settings
from oboro.service.slots import Slot

FOREIGN = "people 1999"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path / "here") as found:
        yield found


def another(found: Town, datasets: list[Any] | None = None) -> Desk:
    """A second front at the same database, of the same datasets or of others."""
    served = list(found.desk.datasets.values()) if datasets is None else datasets
    other = Desk(found.settings, found.desk.database, served)
    other.front = "elsewhere:0:"
    return other


def state_of(found: Town, number: str) -> str | None:
    with found.desk.database.reading() as connection:
        row = jobs.find(connection, number)
    return None if row is None else str(row.state)


# Two fronts


def test_a_front_that_starts_leaves_what_another_is_admitting(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, seen = desks.reserve, []

    def slow(*given: Any, **more: Any) -> Any:
        another(here).recover()  # before it is paid for
        found = reserve(*given, **more)
        another(here).recover()  # and when it is paid for, and not admitted
        another(here, []).recover()
        seen.append(state_of(here, given[2]))
        return found

    monkeypatch.setattr(desks, "reserve", slow)
    assert here.answered()["state"] == "done"
    assert seen == ["asked"]
    assert "lost" not in here.send("GET", "/v1/alerts", "anna").text


@pytest.mark.parametrize("is_paid", [False, True])
def test_what_a_front_that_died_was_admitting_is_put_right_by_another(
    here: Town, monkeypatch: pytest.MonkeyPatch, is_paid: bool
) -> None:
    class Killed(BaseException):
        pass

    reserve = desks.reserve

    def dies(*given: Any, **more: Any) -> None:
        if is_paid:
            reserve(*given, **more)
        raise Killed

    monkeypatch.setattr(desks, "reserve", dies)
    with pytest.raises(Killed):
        here.desk.ask(people.Person("lab-3", "analyst", ""), here.desk.datasets[DATASET], MEAN)
    monkeypatch.undo()
    number = here.send("GET", "/v1/questions").json()[0]["id"]
    other = another(here)
    other.recover(others=True)
    assert state_of(here, number) == "asked"  # it may be at work still
    monkeypatch.setattr(desks, "now", lambda: schema.now() + jobs.SILENT + 1_000)
    another(here, []).recover()  # it cannot know whether that was paid for
    assert state_of(here, number) == "asked"
    other.recover(others=True)
    assert state_of(here, number) == ("lost" if is_paid else None)
    assert here.ledger.spent == Pure("0.1" if is_paid else 0)


def test_a_worker_leaves_what_it_cannot_open_to_those_who_can(here: Town) -> None:
    here.ask()
    store = here.desk.database
    assert jobs.claim(store, "elsewhere:0:1", None, ["other"]) is None
    row = jobs.claim(
        store, f"{here.desk.front}1", None, []
    )  # its own front's, whatever it has open: it is lost, not left for ever
    assert row is not None
    here.ask({**MEAN, "eps": "0.2"})
    assert jobs.claim(store, "elsewhere:0:1", None, [DATASET, "other"]) is not None


def test_two_fronts_start_at_once(here: Town) -> None:
    for _ in range(2):
        another(here)
    with here.desk.database.reading() as connection:
        assert len(list(connection.execute(sa.select(schema.lanes)))) == here.settings.workers


def test_a_key_and_a_question_are_one_at_two_fronts(here: Town) -> None:
    lab, data = people.Person("lab-3", "analyst", ""), here.desk.datasets[DATASET]
    fronts = (here.desk, another(here))
    assert len({front.ask(lab, data, MEAN, "k1").id for front in fronts}) == 1
    with pytest.raises(desks.Conflict, match="another question"):
        fronts[1].ask(lab, data, {**MEAN, "eps": "0.2"}, "k1")
    assert here.ledger.spent == Pure("0.1")


# While a question waits, or is answered


def test_an_answer_that_was_entered_before_its_worker_died_is_free_and_the_same(here: Town) -> None:
    first = here.ask().json()
    row = jobs.claim(here.desk.database, "w")
    assert row is not None
    kept = worker.measured(here.desk.datasets[DATASET], row)()  # entered, and then it dies
    assert kept is not None
    jobs.bury(here.desk.database, "w")
    assert here.wait(first["id"])["state"] == "lost"
    again = here.ask()
    assert again.status_code == 200
    assert again.json()["answer"] == worker.json.loads(kept)
    assert here.ledger.spent == Pure("0.1")
    assert not jobs.finish(here.desk.database, row.id, "w", answer=kept)  # it was not dead after all
    assert here.send("GET", f"/v1/questions/{first['id']}").json()["state"] == "lost"


@contextmanager
def waiting(folder: Path) -> Iterator[tuple[Town, str]]:
    with town(folder, approve_above="0.3") as found:
        yield found, found.ask({**MEAN, "eps": "0.4"}).json()["id"]


def test_a_grant_that_was_lowered_or_taken_away_keeps_a_question_waiting(tmp_path: Path) -> None:
    with waiting(tmp_path / "here") as (found, number):
        approve = f"/v1/questions/{number}/approve"
        found.ledger.grant("lab-3", Pure("0.3"), by="anna")
        assert found.send("POST", approve, "anna").status_code == 409
        found.ledger.revoke("lab-3", by="anna")
        assert found.send("POST", approve, "anna").status_code == 409
        assert found.ledger.spent == Pure(0)
        assert state_of(found, number) == "waiting"
        found.ledger.grant("lab-3", Pure("0.4"), by="anna")
        assert found.send("POST", approve, "anna").status_code == 200
        assert found.ledger.spent == Pure("0.4")


def test_a_revoked_token_gets_no_answer_and_another_of_the_same_analyst_does(tmp_path: Path) -> None:
    with waiting(tmp_path / "here") as (found, number):
        fresh = people.create_token(found.desk.database, "lab-3")
        people.revoke_token(found.desk.database, found.tokens["lab-3"].split("_")[1])
        assert found.send("POST", f"/v1/questions/{number}/approve", "anna").status_code == 200
        assert found.wait(number, fresh)["state"] == "done"
        for rest in ("", "/release", "/certificate", "/events"):
            assert found.send("GET", f"/v1/questions/{number}{rest}").status_code == 401


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("people.toml", '"west"', '"far west"'), ("service.toml", '"2026"', '"2027"')],
    ids=["declaration", "edition"],
)
@pytest.mark.few(1, "promises of a service")
def test_what_waited_while_the_dataset_became_another_is_not_paid_for(
    tmp_path: Path, file: str, old: str, new: str
) -> None:
    """The plan that is approved would not be the one that was asked: a worker would lose it."""
    dear = {**MEAN, "where": "region != 'north'", "eps": "0.4"}
    settings, tokens = made(tmp_path / "here", approve_above="0.3")
    before = opened(settings, tokens)
    number = before.ask(dear).json()["id"]
    closed(before)
    changed = settings.file.parent / file
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new))
    after = opened(read_settings(settings.file), tokens)
    refused = after.send("POST", f"/v1/questions/{number}/approve", "anna")
    assert (refused.status_code, refused.json()["error"]) == (409, "Conflict")
    assert after.ledger.spent == Pure(0)
    assert after.send("POST", f"/v1/questions/{number}/decline", "anna").json()["state"] == "declined"
    again = after.ask(dear).json()["id"]
    assert after.send("POST", f"/v1/questions/{again}/approve", "anna").status_code == 200
    assert after.wait(again)["state"] == "done"
    closed(after)


def test_what_workers_hold_when_the_service_stops_is_waited_for(tmp_path: Path) -> None:
    """An answer is entered when its slot says so, not when it is ready: a stop that came before lost it."""
    with town(tmp_path / "here", slot=Slot(1, 3_600_000)) as found:
        workers = Workers(found.settings, found.desk.database, found.desk)
        workers._running = {"w": None}  # type: ignore[dict-item]
        assert workers._grace() == 30.0
        found.ask()
        jobs.claim(found.desk.database, "w")
        assert workers._grace() > 1_800


# What takes the same work


def test_a_foreign_and_a_missing_dataset_take_the_same_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at ledgers are counted, and hops to other threads: neither depends on whether there is a dataset of this name."""
    from oboro.service import api

    looks: list[str] = []
    account, hop = Ledger.account, api.run_in_threadpool
    with town(tmp_path / "here", granted=("lab-3",)) as found:
        forecast = {"question": MEAN}
        for _ in range(2):
            found.send("POST", f"/v1/datasets/{DATASET}/forecast", "lab-3", forecast)  # slots are known here

        def looked(self: Ledger, name: str) -> Any:
            looks.append("ledger")
            return account(self, name)

        async def hopped(*given: Any) -> Any:
            looks.append("thread")
            return await hop(*given)

        monkeypatch.setattr(Ledger, "account", looked)
        monkeypatch.setattr(api, "run_in_threadpool", hopped)
        worked = []
        for name in (DATASET, FOREIGN, DATASET, FOREIGN):
            for verb, rest, body in (
                ("GET", "", None),
                ("POST", "/forecast", forecast),
                ("POST", "/questions", MEAN),
            ):
                found.desk.forget_grants()
                for _ in range(2):  # for the first time, and again
                    looks.clear()
                    assert found.send(verb, f"/v1/datasets/{name}{rest}", "lab-5", body).status_code == 404
                    worked.append((name, rest, tuple(looks)))
        ours, theirs = ([one[1:] for one in worked if one[0] == name] for name in (DATASET, FOREIGN))
        assert ours == theirs


def test_an_unknown_token_and_one_that_is_revoked_take_the_same_work(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = people.create_token(here.desk.database, "lab-3")
    people.revoke_token(here.desk.database, revoked.split("_")[1])
    unknown = f"oboro_{16 * '0'}_{64 * '0'}"
    wrong = f"{here.tokens['lab-3'][:-64]}{64 * '0'}"
    compare, first, done = people.hmac.compare_digest, Database.first, []  # type: ignore[var-annotated]

    def compared(one: bytes, other: bytes) -> bool:
        done.append(("compare", len(one), len(other)))
        return compare(one, other)

    def looked(self: Database, *given: Any, **more: Any) -> Any:
        done.append(("look",))
        return first(self, *given, **more)

    monkeypatch.setattr(people.hmac, "compare_digest", compared)
    monkeypatch.setattr(Database, "first", looked)
    worked = []
    for token in (unknown, revoked, wrong):
        done.clear()
        assert here.send("GET", "/v1/datasets", token).status_code == 401
        worked.append(list(done))
    assert worked == [[("look",), ("compare", 32, 32)]] * 3


# What not every database takes as a text


def odd(found: Town) -> None:
    for rest in ("", "/events", "/release", "/certificate", "/plan"):
        assert found.send("GET", f"/v1/questions/\x00{rest}", "anna").status_code == 404
    for rest in ("/approve", "/decline"):
        assert found.send("POST", f"/v1/questions/\x00{rest}", "anna").status_code == 404
    assert found.send("DELETE", "/v1/tokens/\x00", "anna").status_code == 404
    assert (
        found.send("POST", "/v1/login", None, {"name": "a\x00", "password": "\x00" * 12}).status_code == 401
    )
    assert found.send("POST", "/v1/tokens", "anna", {"name": "a\x00"}).status_code == 422
    dear = found.ask({**MEAN, "eps": "0.4"}).json()["id"]
    assert (
        found.send("POST", f"/v1/questions/{dear}/decline", "anna", {"why": "a\x00b"}).json()["why"] == "ab"
    )
    assert found.ask({**MEAN, "where": "region = 'a\x00'"}).status_code in (202, 422)
    for body in (
        {**MEAN, "\ud800": 1},
        {"question": "histogram", "columns": ["age"], "edges": {"\ud800": [1]}, "eps": "0.1"},
        {"question": "histogram", "columns": ["region"], "edges": {"region": ["\ud800"]}, "eps": "0.1"},
    ):
        assert found.ask(body).status_code == 422  # half a sign, where the refusal says which name it was
    for name in (f"{DATASET}\x00", f"{DATASET}%00", "e\u0301", "\u00e9", "x" * 5_000, "\U0001f600", "."):
        for verb, rest, body in (
            ("GET", "", None),
            ("POST", "/forecast", {"question": MEAN}),
            ("POST", "/questions", MEAN),
        ):
            answer = found.send(verb, f"/v1/datasets/{name}{rest}", "lab-5", body)
            missing = found.send(verb, f"/v1/datasets/{FOREIGN}{rest}", "lab-5", body)
            assert (answer.status_code, answer.content) == (404, missing.content)


def test_odd_names_are_not_found(tmp_path: Path) -> None:
    with town(tmp_path / "here", approve_above="0.3") as found:
        odd(found)


@pytest.mark.long("services as processes")
def test_odd_names_are_not_found_on_postgresql(tmp_path: Path, postgres: str, postgres_url: str) -> None:
    with town(tmp_path / "here", approve_above="0.3", ledger=postgres, database=postgres_url) as found:
        odd(found)


@pytest.mark.long("services as processes")
def test_two_fronts_on_one_postgresql_pay_once_and_answer_all(
    tmp_path: Path, postgres: str, postgres_url: str
) -> None:
    """Questions go to either front, their workers take from one table, and both are asked about each answer."""
    from service_town import listening

    import oboro as ob

    settings, tokens = made(tmp_path / "one", budget=Pure("0.3"), ledger=postgres, database=postgres_url)
    folder = tmp_path / "two"
    folder.mkdir()
    for file in ("people.parquet", "people.toml", "service.toml"):
        (folder / file).write_bytes((settings.file.parent / file).read_bytes())
    with ExitStack() as stack:
        fronts = [opened(one, tokens) for one in (settings, read_settings(folder / "service.toml"))]
        for one in fronts:
            stack.callback(closed, one)
        assert fronts[0].desk.front != fronts[1].desk.front
        addresses = [stack.enter_context(listening(one)) for one in fronts]
        answers = []
        for number in range(40):
            asker = ob.connect(addresses[number % 2], token=tokens["lab-3" if number % 3 else "lab-4"])[
                DATASET
            ]
            try:
                answers.append(asker.where(f"age >= {number}").mean("income", eps="0.01").value)
            except ob.errors.BudgetError:
                answers.append(None)
        assert sum(one is not None for one in answers) == 30
        ids = [row["id"] for row in fronts[0].send("GET", "/v1/questions", "anna").json()]
        for number in ids:
            seen = {one.send("GET", f"/v1/questions/{number}", "anna").content for one in fronts}
            assert len(seen) == 1
        assert fronts[1].ledger.verify().spent == Pure("0.3")
