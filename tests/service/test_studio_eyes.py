"""The studio and four eyes: who could have asked a question does not approve it, and what is approved is what was asked."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from service_town import Town, closed, knock, made, opened, town
from test_studio import ASK, MEAN, PASSWORD, PLACE, Browser, pages_of, settled

from oboro.privacy import Pure, Unit
from oboro.service import people, slots
from oboro.service.arrivals import Arrivals
from oboro.service.questions import Shape
from oboro.service.settings import read_settings
from oboro.service.studio.local import Studio

DEAR = {"question": "mean", "columns": ["income"], "eps": "0.5"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path / "here", granted=("lab-3", "lab-4"), approve_above="0.3") as found:
        yield found


def test_whoever_made_the_token_that_asked_does_not_approve(here: Town) -> None:
    """Nor a token that was made with it, nor a session of it; another steward does, and the maker may decline."""
    made_by_anna = here.send("POST", "/v1/tokens", "anna", {"name": "lab-3"}).json()["token"]
    further = here.send("POST", "/v1/tokens", made_by_anna, {"name": "lab-3"}).json()["token"]
    session = Browser(here)
    session.post("/studio/login", token=made_by_anna)
    number = (
        session.post(ASK, asked=json.dumps({**DEAR, "eps": "0.4"})).headers["location"].rpartition("/")[2]
    )
    asked = [
        here.ask({**DEAR, "eps": eps}, token).json()["id"]
        for eps, token in (("0.5", made_by_anna), ("0.6", further))
    ]
    for one in (number, *asked):
        refused = here.send("POST", f"/v1/questions/{one}/approve", "anna")
        assert refused.status_code == 422, one
        assert "made the token" in refused.json()["message"]
        page = Browser(here, "anna").get(f"/studio/approvals/{one}").text
        assert "of your making" in page
        assert f"{one}/approve" not in page
        assert f"{one}/decline" in page
    assert here.ledger.spent == Pure(0)
    assert here.send("POST", f"/v1/questions/{asked[0]}/approve", "ben").json()["state"] == "pending"
    assert here.send("POST", f"/v1/questions/{asked[1]}/decline", "anna").json()["state"] == "declined"
    own = here.ask({**DEAR, "eps": "0.7"}).json()[
        "id"
    ]  # with a token that was made on the machine of the service
    assert here.send("POST", f"/v1/questions/{own}/approve", "anna").json()["state"] == "pending"


def test_whoever_set_the_password_does_not_approve(here: Town) -> None:
    Browser(here, "anna").post("/studio/analysts/password", name="lab-3", password=PASSWORD)
    lab = Browser(here)
    lab.post("/studio/login", name="lab-3", password=PASSWORD)
    where = lab.post(ASK, asked=json.dumps(DEAR)).headers["location"].replace("questions", "approvals")
    assert Browser(here, "anna").post(f"{where}/approve").status_code == 422
    people.set_password(
        here.desk.database, "lab-3", PASSWORD + "!"
    )  # on the machine of the service: nobody's
    again = Browser(here)
    again.post("/studio/login", name="lab-3", password=PASSWORD + "!")
    other = (
        again.post(ASK, asked=json.dumps({**DEAR, "eps": "0.6"}))
        .headers["location"]
        .replace("questions", "approvals")
    )
    assert Browser(here, "anna").post(f"{other}/approve").status_code == 303
    assert Browser(here, "ben").post(f"{where}/approve").status_code == 303


def test_what_was_asked_of_another_edition_is_asked_again(tmp_path: Path) -> None:
    """The steward is told, can only decline, and nothing is spent; the same question of the new data waits by itself."""
    settings, tokens = made(tmp_path / "here", approve_above="0.3")
    before = opened(settings, tokens)
    number = before.ask(DEAR).json()["id"]
    closed(before)
    file = settings.file
    file.write_text(file.read_text().replace('edition = "2026"', 'edition = "2027"'))
    found = opened(read_settings(file), tokens)
    try:
        refused = found.send("POST", f"/v1/questions/{number}/approve", "anna")
        assert refused.status_code == 409
        assert "another by now" in refused.json()["message"]
        page = Browser(found, "anna").get("/studio/approvals").text
        assert "another by now" in page
        assert f"{number}/approve" not in page
        new = found.ask(DEAR).json()["id"]
        assert new != number
        assert found.send("POST", f"/v1/questions/{new}/approve", "anna").json()["state"] == "pending"
        assert found.send("POST", f"/v1/questions/{number}/decline", "anna").json()["state"] == "declined"
        assert found.ledger.spent == Pure("0.5")
    finally:
        closed(found)


def test_a_studio_answers_to_names_of_this_machine_alone(tmp_path: Path) -> None:
    """A page of somebody else's, whose name was led to this machine, reads nothing: not even the way in."""
    from oboro.service.api import create_app

    made(tmp_path / "here")
    studio = Studio(tmp_path / "here" / "people.toml")
    try:
        door, _ = create_app(studio.desk)

        def visit(path: str, host: str) -> int:
            return int(asyncio.run(knock(door, "GET", path, None, {"host": host})).status_code)

        for host in (
            "evil.example",
            "evil.example:8750",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "[::2]:1",
            "[::1].evil.example:8750",
            "127.0.0.1:8750, evil.example",
            "0.0.0.0",
        ):
            for path in (
                "/studio/",
                "/studio/login",
                "/studio/static/studio.css",
                "/healthz",
                "/v1/datasets",
            ):
                assert visit(path, host) == 403, (host, path)
        for host in ("127.0.0.1", "127.0.0.1:8750", "localhost:9", "[::1]:9"):
            assert visit("/studio/login", host) == 200, host
    finally:
        studio.close()


def test_two_uploads_of_one_name_at_once_do_not_meet(here: Town) -> None:
    """Each comes in two pieces, by turns: one is kept whole, the other is refused, and nothing else is left."""
    folder = here.settings.file.parent / "declared"
    folder.mkdir()
    here.desk.settings = here.door.settings = replace(here.settings, folder=folder, upload=10_000)
    cookies = "; ".join(f"{name}={value}" for name, value in Browser(here, "anna").cookies.items())
    begun: list[str] = []
    ended: list[str] = []

    async def put(letter: str) -> int:
        pieces = [letter.encode() * 1000, letter.encode() * 1000]
        status: list[int] = []

        async def receive() -> Any:
            if len(pieces) == 1:
                begun.append(letter)
                while len(begun) + len(ended) < 2:  # until both have sent their first, or one was refused
                    await asyncio.sleep(0)
            return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            status.append(message.get("status", 0))

        headers = {
            "host": "127.0.0.1",
            "origin": "http://127.0.0.1",
            "cookie": cookies,
            "content-length": "2000",
        }
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT", "path": "/studio/declare/file", "raw_path": b"",
            "query_string": b"name=more.csv", "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        try:
            await here.door(scope, receive, send)
        except Exception:
            return 500
        finally:
            ended.append(letter)
        return status[0]

    async def both() -> list[int]:
        return sorted(await asyncio.gather(put("a"), put("b")))

    assert here.loop.run(both()) == [200, 422]
    assert [path.name for path in folder.iterdir()] == ["more.csv"]
    assert (folder / "more.csv").read_text() in ("a" * 2000, "b" * 2000)


def test_what_is_free_says_so_and_takes_nothing_from_the_bar(here: Town) -> None:
    lab = Browser(here, "lab-3")
    lab.answered(**MEAN)
    for language, free, left in (
        ("en", "costs nothing", "is left, and stays"),
        ("ja", "無料", "のまま変わりません"),
    ):
        lab.cookies["oboro_language"] = language
        part = lab.get(f"{ASK}/forecast?{urlencode(MEAN)}").text
        priced = re.search(r'<div class="priced">.*?</div>', part, re.DOTALL)
        assert priced is not None
        assert free in priced[0]
        assert left in priced[0]
        assert "ε 0.1" not in priced[0]
        assert 'class="asked"' not in part, "the bar shows no price"
    other = lab.get(f"{ASK}/forecast?{urlencode({**MEAN, 'eps': '0.11'})}").text
    assert 'class="asked"' in other


def test_what_is_misshapen_is_said_in_the_language_of_the_reader(here: Town) -> None:
    """No message of a library, whatever is typed into a field; and ends of lines are ends of lines."""
    lab, anna = Browser(here, "lab-3"), Browser(here, "anna")
    wrong = (
        {"eps": "x", "first": "eps"}, {"eps": "-1", "first": "eps"}, {"where": "age >= 9", "expected_n": "many"}, {"where": "age >= 9", "expected_n": "0"}, {"question": "top", "k": "x"},
        {"question": "top", "k": "0"}, {"question": "quantile", "quantiles": "x"}, {"question": "quantile", "quantiles": " "},
        {"question": "nothing"}, {"columns": ""}, {"where": "x" * 3000},
    )  # fmt: skip
    for browser in (lab, anna):
        browser.cookies["oboro_language"] = "ja"
    pages = [lab.get(f"{ASK}/forecast?{urlencode({**MEAN, **fields})}") for fields in wrong]
    pages += [
        anna.post(f"/studio/analysts/grant/{PLACE}", account="lab-3", eps="x"),
        anna.post(f"/studio/analysts/grant/{PLACE}", account="lab-3", eps="1", per="moment"),
        anna.post("/studio/analysts", name="no name"),
        anna.post("/studio/declare/none.csv", toml="x"),
    ]
    for page in pages:
        found = re.search(r'class="refusal".*?</dl>', page.text, re.DOTALL)
        assert found is not None, page.text
        said = re.sub(r"<[^>]*>", " ", found[0].partition(">")[2])
        assert not re.search(r"should|valid|Input|String|pattern|at least|at most|number", said), said
        assert "\\u000a" not in said


def test_of_a_public_number_a_guess_says_how_many_a_condition_picks(tmp_path: Path) -> None:
    """Fewer rows, a larger error; the field is there, and that a condition picks all is no guess."""
    with town(tmp_path / "here", unit=Unit.person("who", 4, "replace")) as found:
        lab, n = Browser(found, "lab-3"), found.desk.datasets["people 2026"].facts.n
        assert n is not None
        form = lab.get(ASK).text
        assert re.search(rf'class="of-where">[^<]*{n:,}.*?name="expected_n"[^>]*value="{n}"', form, re.DOTALL)

        def reach(**fields: str) -> float:
            part = lab.get(f"{ASK}/forecast?{urlencode({**MEAN, **fields})}").text
            return float(re.search(r'data-reach="([^"]+)"', part)[1])  # type: ignore[index]

        few = reach(where="age >= 90", expected_n=str(n // 10))
        assert few > 5 * reach(where="age >= 90", expected_n=str(n))
        assert reach(expected_n="3") == reach(), "of all rows there is nothing to guess"
        asked = lab.asked(**MEAN, where="age >= 90", expected_n=str(n))
        assert "expected_n" not in json.loads(asked["asked"])


@pytest.mark.long("stories of the studio")
def test_a_dataset_that_is_declared_is_calibrated_for_real(here: Town) -> None:
    """From the file to the answer, with slots that were found on made-up rows: of each kind that its columns allow."""
    folder = here.settings.file.parent / "declared"
    folder.mkdir()
    text = here.settings.file.read_text() + '\n[studio]\nfolder = "declared"\nupload = 100000\n'
    here.settings.file.write_text(text)
    here.desk.settings = here.door.settings = read_settings(here.settings.file)
    pages_of(here).state.arrivals = Arrivals(here.desk)
    rows = "".join(f"{k // 2},{k % 90},{'ab'[k % 2]}\n" for k in range(200))
    (folder / "more.csv").write_text(f"id,age,side\n{rows}")
    fields = {
        "kind.0": "person", "max_rows": "2", "kind.1": "integer", "low.1": "0", "high.1": "99", "kind.2": "category", "values.2": "a\nb",
        "service.rows": "200",
    }  # fmt: skip
    anna, lab = Browser(here, "anna"), Browser(here, "lab-3")
    written = anna.post("/studio/declare/more.csv/toml", **fields).text
    toml = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", written, re.DOTALL)[1])  # type: ignore[index]
    where = anna.post("/studio/declare/more.csv", toml=toml, name="more", eps="3").headers["location"]
    assert "Grant shares" in settled(anna, where)
    with here.desk.database.reading() as connection:
        found = slots.all_of(connection, "more")
    assert {"count", "persons", "mean", "median", "histogram", "top", "table", "sql", "batch"} <= {
        shape.kind for shape in found
    }
    assert all(slot.slot >= slot.work > 0 for slot in found.values())
    anna.post("/studio/analysts/grant/more", account="lab-3", eps="1")
    asked = lab.post(
        "/studio/ask/more", asked=json.dumps({"question": "mean", "columns": ["age"], "eps": "1"})
    ).headers["location"]
    row = here.desk.job(asked.rpartition("/")[2], people.Person("anna", "steward", ""))
    assert row.slot == slots.fitting(found, Shape.of("mean", 1)).slot
    while (answer := lab.get(asked)).status_code != 303:
        here.work()
    assert "/releases/more/" in answer.headers["location"]
