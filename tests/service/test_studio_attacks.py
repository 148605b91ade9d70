"""The studio attacked: forged requests, the token that opens once, files beyond the folder, hostile names, confirmations that race."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service_town import DATASET, QUICK, Town, closed, knock, made, opened, town
from test_studio import ASK, MEAN, PLACE, Browser, pages_of, settled

from oboro.domain import Category, Domain, Grid, Integer
from oboro.ledger import Ledger
from oboro.privacy import Approx, Pure, Unit
from oboro.service import jobs
from oboro.service.arrivals import Arrivals
from oboro.service.questions import Shape
from oboro.service.settings import read_settings
from oboro.service.slots import Slot
from oboro.service.studio import (
    ask,
    budgets,
    declare,
    entrance,
    hours,
    office,
    releases,
    routes,
    synthetic,
    tables,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "{{7*7}}",
)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path / "here", granted=("lab-3", "lab-4", "anna"), approve_above="0.3") as found:
        yield found


@pytest.fixture
def declaring(here: Town) -> Town:
    """A service whose stewards may put files into a folder of at most 2000 bytes each."""
    folder = here.settings.file.parent / "declared"
    folder.mkdir()
    text = here.settings.file.read_text() + '\n[studio]\nfolder = "declared"\nupload = 2000\n'
    here.settings.file.write_text(text)
    here.desk.settings = here.door.settings = read_settings(here.settings.file)
    pages_of(here).state.arrivals = Arrivals(here.desk, lambda *_: {Shape("mean", 1): QUICK})
    return here


def put(found: Town, name: str, body: bytes, who: str = "anna") -> int:
    kept = "; ".join(f"{key}={value}" for key, value in Browser(found, who).cookies.items())
    headers = {"cookie": kept, "origin": "http://127.0.0.1"}
    sent = knock(found.door, "PUT", f"/studio/declare/file?name={quote(name)}", body, headers)
    return int(found.loop.run(sent).status_code)


def addresses(found: Town) -> list[tuple[str, str]]:
    """Every address of the studio, with something in each hole."""
    row = found.desk.listed(_person("anna", "steward"))[:1]
    holes = {"dataset": PLACE, "id": row[0].id if row else "q-1", "file": "more.csv", "entry:int": "3", "number:int": "3",
             "language": "en", "name": "studio.css"}  # fmt: skip
    listed = []
    own: list[Any] = [
        route
        for module in (ask, declare, hours, office, releases, routes, synthetic, tables)
        for route in module.router.routes
    ]
    for route in own:
        path = route.path
        for hole, value in holes.items():
            path = path.replace("{" + hole + "}", value)
        listed += [(verb, f"/studio{path}") for verb in sorted(route.methods - {"HEAD"})]
    assert len(listed) > 40
    assert not [path for _, path in listed if "{" in path]
    return listed


def _person(name: str, role: str) -> Any:
    from oboro.service.people import Person

    return Person(name, role, "t")  # type: ignore[arg-type]


def test_nothing_changes_by_a_request_that_no_page_of_this_address_sent(declaring: Town) -> None:
    """Without an Origin, with null, with another port, host or a lookalike, or from another site: 403, and nothing is written."""
    here = declaring
    Browser(here, "lab-3").answered(**MEAN)
    before = here.ledger.head().hash
    foreign: list[dict[str, str]] = [
        {}, {"origin": "null"}, {"origin": "http://127.0.0.1:81"}, {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "http://evil.example"}, {"origin": "http://evil.example/http://127.0.0.1"}, {"origin": "http://a@127.0.0.1"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"}, {"origin": "http://127.0.0.1", "sec-fetch-site": "same-site"},
    ]  # fmt: skip
    for verb, path in addresses(here):
        if verb != "GET":
            for headers in foreign:
                answer = Browser(here, "anna").send(verb, path, {"account": "lab-3", "eps": "1"}, headers)
                assert answer.status_code == 403, (verb, path, headers)
    assert here.ledger.head().hash == before


@pytest.mark.long("attacks on the studio")
def test_an_analyst_who_types_the_address_of_a_steward_finds_nothing(here: Town) -> None:
    """Every address there is, by an analyst without a share, an auditor, and nobody: no page, no file, no figure, no change."""
    other = Browser(here, "lab-3").answered(**MEAN)
    before = here.ledger.head().hash
    common = (
        "/studio/",
        "/studio/login",
        "/studio/enter",
        "/studio/static/studio.css",
        "/studio/language/en",
        "/studio/logout",
    )
    lists = {"/studio/ask", "/studio/tables", "/studio/synthetic", "/studio/releases"}
    account = {f"/studio/account{rest}" for rest in ("", f"/{PLACE}", f"/{PLACE}/export", f"/{PLACE}/verify")}
    assert other.startswith("/studio/releases/")
    for verb, path in addresses(here):
        if path in common:
            continue
        for name, allowed in (("lab-5", lists), ("carl", account), (None, set())):
            answer = Browser(here, name).send(
                verb,
                path,
                None if verb == "GET" else {},
                {} if verb == "GET" else {"origin": "http://127.0.0.1"},
            )
            if path not in allowed:
                gone = answer.headers.get("location", answer.headers.get("hx-redirect", ""))
                known = answer.status_code in (403, 404, 405, 413, 422) or gone.startswith("/studio/login")
                assert known, (name, verb, path, answer.status_code)
            assert "income" not in answer.text or path in account, (name, path)
    assert here.ledger.head().hash == before


def test_of_two_who_open_the_address_at_once_one_comes_in(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is given up before anybody can look at it again."""
    state, meeting = pages_of(here).state, threading.Barrier(2, timeout=1)
    state.once = "opens once"
    found = routes.hmac.compare_digest

    def slow(*given: Any) -> bool:
        with suppress(threading.BrokenBarrierError):
            meeting.wait()
        return found(*given)

    monkeypatch.setattr(routes.hmac, "compare_digest", slow)
    monkeypatch.setattr(here.desk, "owner", "anna")
    came: list[int] = []

    def come() -> None:
        import asyncio

        answer = asyncio.run(knock(here.door, "GET", "/studio/enter?token=opens%20once", None, {}))
        came.append("set-cookie" in answer.headers)

    two = [threading.Thread(target=come) for _ in range(2)]
    for one in two:
        one.start()
    for one in two:
        one.join()
    assert sorted(came) == [False, True]


NAMES = ["../x.csv", "..\\x.csv", "/tmp/x.csv", "a/b.csv", "%2e%2e/x.csv", "x.csv\n", "x.csv\0.csv", "~/x.csv", ".x.csv", "x.toml", "x.csv.toml",
         "x.ledger", "x" * 120 + ".csv", "e\u0301.csv", "／x.csv", "．．x.csv", "x .csv", "<script>.csv"]  # fmt: skip


@pytest.mark.long("attacks on the studio")
def test_no_file_is_put_or_found_beyond_the_folder(declaring: Town) -> None:
    folder = declaring.settings.file.parent
    before = sorted(path for path in folder.rglob("*") if "service.db" not in path.name)
    anna = Browser(declaring, "anna")
    for name in NAMES:
        assert put(declaring, name, b"a\n1\n") == 422, name
        for verb, path in (("GET", ""), ("POST", "/toml"), ("POST", "/check"), ("POST", "")):
            fields = None if verb == "GET" else {"toml": ""}
            where = f"/studio/declare/{quote(name, safe='')}{path}"
            answer = anna.send(verb, where, fields, {"origin": "http://127.0.0.1"})
            assert answer.status_code in (404, 405, 422), (name, path, answer.status_code)
    assert sorted(path for path in folder.rglob("*") if "service.db" not in path.name) == before


@pytest.mark.long("attacks on the studio")
def test_a_declaration_reads_no_other_file_and_writes_over_none(declaring: Town) -> None:
    """A table of areas elsewhere, data elsewhere, a file of another's name: refused, or not followed."""
    folder = declaring.settings.file.parent
    anna = Browser(declaring, "anna")
    (folder / "secret.csv").write_text("area,cell\nsecret place,1\n")
    assert put(declaring, "more.csv", b"age\n1\n2\n") == 200
    areas = '[unit]\nkind = "row"\n[[columns]]\nkind = "areas"\nname = "x"\nlevels = ["area", "cell"]\ntable = "{}"\n'
    for place in (folder / "secret.csv", "../secret.csv", folder / "nowhere.csv"):
        for step in ("", "/check", "/fields"):
            answer = anna.post(f"/studio/declare/more.csv{step}", toml=areas.format(place), name="x", eps="1")
            assert answer.status_code == 422, step
            assert "secret place" not in answer.text
            assert "cannot be named in a page" in answer.text, "whether the file is there is not told"
    toml = 'data = "../secret.csv"\nledger = "../people.ledger"\n[unit]\nkind = "row"\n[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 9\n'
    (folder / "declared" / "more.toml").write_text("[tool.other]\nkept = true\n")
    assert anna.post("/studio/declare/more.csv", toml=toml, name="x", eps="1").status_code == 422
    assert "kept" in (folder / "declared" / "more.toml").read_text(), (
        "a file that is no declaration is not written over"
    )
    (folder / "declared" / "more.toml").unlink()
    where = anna.post("/studio/declare/more.csv", toml=toml, name="x", eps="1").headers["location"]
    assert "It is served." in settled(anna, where)
    opened = declaring.desk.datasets["x"]
    assert opened.settings.data == folder / "declared" / "more.csv"
    assert opened.settings.ledger == str(folder / "declared" / "more.ledger")
    assert put(declaring, "rubbish.parquet", b"\x00" * 99) == 200
    assert anna.get("/studio/declare/rubbish.parquet").status_code == 422


@pytest.mark.long("attacks on the studio")
def test_hostile_names_are_text_on_every_page(tmp_path: Path) -> None:
    """Columns, labels, datasets, analysts' reasons, conditions, files, errors: in pages, in parts of pages, in maps."""
    names = [f"{text} {at}" for at, text in enumerate(HOSTILE)]
    domain = Domain(
        [Grid(names[0], names[1], shape=(4, 4)), Integer(names[2], 0, 9), Category(names[3], HOSTILE)]
    )
    data = pa.table(
        {"who": [1, 2], names[0]: [1, 2], names[1]: [0, 3], names[2]: [3, 4], names[3]: list(HOSTILE[:2])}
    )
    with town(
        tmp_path / "here",
        data,
        domain=domain,
        unit=Unit.person("who", 2),
        granted=("lab-3", "anna"),
        approve_above="3",
    ) as found:
        lab, anna, ben = (Browser(found, name) for name in ("lab-3", "anna", "ben"))
        seen = []
        for fields in (
            {"question": "mean", "columns": names[2], "by": names[3]},
            {"question": "histogram", "columns": names[3]},
        ):
            seen += [lab.answered(**fields, first="eps", eps="0.1")]
        table = lab.post(ASK, asked='{"question": "table", "eps": "0.5"}').headers["location"]
        while (answer := lab.get(table)).status_code != 303:
            found.work()
        seen += [answer.headers["location"], answer.headers["location"] + "/map"]
        waits = lab.post(ASK, asked='{"question": "count", "eps": "5"}').headers["location"]
        refused = ben.post(waits.replace("questions", "approvals") + "/decline", why=HOSTILE[0])
        assert refused.status_code == 303
        seen += [
            waits,
            "/studio/",
            ASK,
            f"/studio/tables/{PLACE}",
            f"/studio/synthetic/{PLACE}",
            "/studio/releases",
            f"/studio/account/{PLACE}",
            "/studio/analysts",
        ]
        for text in HOSTILE:
            word = quote(text)
            seen += [f"{ASK}?where={word}&columns={word}&eps={word}", f"/studio/releases?search={word}", f"/studio/login?back={word}", f"/studio/ask/{word}",
                     f"/studio/questions/{word}", f"/studio/{word}"]  # fmt: skip
            seen += [f"{place}/forecast?{urlencode({'question': 'mean', 'columns': text, name: text})}"
                     for place in (ASK, f"/studio/tables/{PLACE}", f"/studio/synthetic/{PLACE}") for name in ("where", "eps", "within", "delta", "by", "k")]  # fmt: skip
        for path in seen:
            for browser in (lab, anna, ben):
                text = browser.get(path).text
                assert "<script>alert" not in text, path
                assert "<img" not in text, path
                assert "49" not in html.unescape(text) or "{{7*7}}" not in path, path
        for fields in ({"name": HOSTILE[0]}, {"name": "x", "role": HOSTILE[0]}):
            answer = anna.post("/studio/analysts", **fields)
            assert answer.status_code == 422
            assert "<script>alert" not in answer.text


@pytest.mark.long("attacks on the studio")
def test_what_was_shown_is_what_is_paid(here: Town) -> None:
    """A forecast that said free does not pay when the free answer is gone meanwhile; one that said a price pays that price, once."""
    lab, ben = Browser(here, "lab-3"), Browser(here, "ben")
    dear = {**MEAN, "eps": "0.4"}
    waits = lab.post(ASK, **lab.asked(**dear)).headers["location"]
    shown = lab.get(f"{ASK}/forecast?{urlencode(dear)}").text
    assert "It costs nothing" in shown
    offered = {
        name: html.unescape(value)
        for name, value in re.findall(r'name="(asked|key|free)" value="([^"]*)"', shown)
    }
    assert offered["free"] == "yes"
    ben.post(waits.replace("questions", "approvals") + "/decline")
    answer = lab.post(ASK, **offered)
    assert answer.status_code == 409
    assert "nothing was spent" in answer.text
    assert here.ledger.spent == Pure(0)
    assert [row.state for row in here.desk.listed(_person("lab-3", "analyst"))] == ["declined"]


def test_two_tabs_the_back_button_and_a_form_sent_twice_pay_once(here: Town) -> None:
    import asyncio

    lab = Browser(here, "lab-3")
    forms = [lab.asked(**MEAN) for _ in range(6)]  # a tab each, with a key of its own
    assert len({form["key"] for form in forms}) == 6
    kept = "; ".join(f"{name}={value}" for name, value in lab.cookies.items())
    places: list[str] = []

    def confirm(form: dict[str, str]) -> None:
        sent = knock(
            here.door,
            "POST",
            f"/studio/ask/{DATASET}",
            urlencode(form).encode(),
            {"cookie": kept, "origin": "http://127.0.0.1"},
        )
        places.append(asyncio.run(sent).headers.get("location", ""))

    tabs = [threading.Thread(target=confirm, args=(form,)) for form in (*forms, forms[0], forms[0])]
    for one in tabs:
        one.start()
    for one in tabs:
        one.join()
    assert len(set(places)) == 1, "all of them are one question"
    assert here.ledger.spent == Pure("0.1")
    while lab.get(places[0]).status_code != 303:
        here.work()
    again = lab.post(ASK, **forms[0])
    assert again.headers["location"] == places[0], "the form that the back button shows"
    other = {**forms[1], "asked": forms[1]["asked"].replace('"0.1"', '"0.2"')}
    assert lab.post(ASK, **other).status_code == 409, "a key is of one question"
    assert here.ledger.spent == Pure("0.1")
    assert (
        len([row for row in here.desk.listed(_person("lab-3", "analyst")) if row.state in jobs.ACTIVE]) == 1
    )


# Where two facts meet


@pytest.mark.long("attacks on the studio")
def test_nobody_sets_the_password_of_another_steward(here: Town) -> None:
    """Whoever could, would come in as them, and approve a question of their own."""
    anna, password = Browser(here, "anna"), "a long password"
    sent = anna.post("/studio/analysts/password", name="ben", password=password)
    assert sent.status_code == 403
    assert "analyst password service.toml ben" in sent.text
    assert Browser(here).post("/studio/login", name="ben", password=password).status_code == 401
    for name in ("anna", "lab-3", "carl"):
        assert anna.post("/studio/analysts/password", name=name, password=password).status_code == 303, name


def test_what_waits_is_free_for_nobody_else(tmp_path: Path) -> None:
    """It may be declined: where answers are shared, another analyst is shown the price, and asks."""
    with town(tmp_path / "here", approve_above="0.3", sharing=True) as found:
        dear = {**MEAN, "eps": "0.6"}
        first, second = Browser(found, "lab-3"), Browser(found, "lab-4")
        assert first.post(ASK, **first.asked(**dear)).status_code == 303
        for who, free in ((first, "yes"), (second, "no")):
            part = who.get(f"{ASK}/forecast?{urlencode(dear)}").text
            assert f'name="free" value="{free}"' in part
        assert second.post(ASK, **second.asked(**dear), free="no").status_code == 303


@pytest.mark.long("attacks on the studio")
def test_what_is_lost_and_not_told_yet_is_followed(tmp_path: Path) -> None:
    """Before its time nobody can tell a lost answer from another: not by a price that is due again."""
    with town(tmp_path / "here", sharing=True, slot=Slot(1, 60_000)) as found:
        first, second = Browser(found, "lab-3"), Browser(found, "lab-4")
        first.post(ASK, **first.asked(**MEAN))
        row = jobs.claim(found.desk.database, "here")
        assert row is not None
        jobs.finish(found.desk.database, row.id, "here", why="it failed")
        assert 'name="free" value="yes"' in second.get(f"{ASK}/forecast?{urlencode(MEAN)}").text
        spent = found.ledger.spent
        assert second.post(ASK, **second.asked(**MEAN), free="yes").status_code == 303
        assert found.ledger.spent == spent


@pytest.mark.long("attacks on the studio")
def test_a_declaration_that_changed_since_closes_no_page(tmp_path: Path) -> None:
    """What was asked before names a column that is declared no more: it is listed, and what waits can be declined."""
    settings, tokens = made(tmp_path / "here", approve_above="0.3")
    before = opened(settings, tokens)
    lab = Browser(before, "lab-3")
    lab.answered(**MEAN)
    number = lab.post(ASK, **lab.asked(**{**MEAN, "eps": "0.6"})).headers["location"].rpartition("/")[2]
    closed(before)
    declared = settings.file.parent / "people.toml"
    declared.write_text(declared.read_text().replace('"income"', '"wage"'))
    data = pq.read_table(settings.file.parent / "people.parquet")
    names = ["wage" if name == "income" else name for name in data.column_names]
    pq.write_table(data.rename_columns(names), settings.file.parent / "people.parquet")
    settings.file.write_text(settings.file.read_text().replace('"2026"', '"2027"'))
    after = opened(read_settings(settings.file), tokens)
    lab, anna = Browser(after, "lab-3"), Browser(after, "anna")
    for who, path in ((lab, ""), (anna, ""), (lab, f"questions/{number}"), (anna, f"approvals/{number}")):
        page = who.get(f"/studio/{path}")
        assert page.status_code == 200, path
        assert "mean of income" in page.text, path
    page = anna.get("/studio/approvals").text
    assert 'class="bad">column &#39;income&#39;' in page
    assert f"{number}/approve" not in page
    assert anna.post(f"/studio/approvals/{number}/approve").status_code == 422
    assert anna.post(f"/studio/approvals/{number}/decline", why="too late").status_code == 303
    closed(after)


TOML = '[unit]\nkind = "row"\n[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = {}\n'


@pytest.mark.long("attacks on the studio")
def test_one_file_has_one_ledger_and_what_is_being_opened_stays_as_it_was_declared(declaring: Town) -> None:
    folder, anna = declaring.settings.file.parent / "declared", Browser(declaring, "anna")
    told, go = threading.Event(), threading.Event()

    def slowly(*_: object) -> Any:
        told.set()
        assert go.wait(60)
        return {Shape("mean", 1): QUICK}

    pages_of(declaring).state.arrivals = Arrivals(declaring.desk, slowly)
    assert put(declaring, "more.csv", b"age\n1\n2\n") == 200
    where = anna.post("/studio/declare/more.csv", toml=TOML.format(9), name="x", eps="1").headers["location"]
    assert told.wait(60)
    assert anna.post("/studio/declare/more.csv", toml=TOML.format(77), name="x", eps="1").status_code == 429
    assert "77" not in (folder / "more.toml").read_text(), "workers and the next start read this file"
    go.set()
    assert "It is served." in settled(anna, where)
    # a declaration with a ledger of another name, and a second one of the same file
    assert put(declaring, "own.csv", b"age\n1\n2\n") == 200
    Ledger.create(folder / "main.ledger", dataset="own", unit=Unit.row(), budget=Pure(1)).close()
    for name in ("own.toml", "other.toml"):
        (folder / name).write_text('data = "own.csv"\nledger = "main.ledger"\n' + TOML.format(9))
        answer = anna.post("/studio/declare/own.csv", toml=TOML.format(9), name="own 2", eps="5")
        assert answer.status_code == 422, name
        assert "second budget" in answer.text
        assert "main.ledger" in (folder / name).read_text()
        (folder / name).unlink()
    assert not (folder / "own.ledger").exists()


@pytest.mark.long("attacks on the studio")
def test_what_is_no_declaration_is_refused_and_nothing_fails(declaring: Town) -> None:
    anna = Browser(declaring, "anna")
    assert put(declaring, "more.csv", b"age\n1\n2\n") == 200
    columns = TOML.format(9).partition("\n[[")[2]
    for toml in (
        "",
        "[[" + columns,
        "unit = 3\n[[" + columns,
        "unit = 3\ncolumns = 3\n",
        TOML.format(9) + "values = 3\n",
    ):
        for step in ("", "/check", "/fields"):
            answer = anna.post(f"/studio/declare/more.csv{step}", toml=toml, name="..", eps="1")
            assert answer.status_code in (200, 422), (toml, step)
    for name in (".", "..", "a/b"):
        answer = anna.post("/studio/declare/more.csv", toml=TOML.format(9), name=name, eps="1")
        assert answer.status_code == 422, "browsers take dots for a folder"
        assert "cannot stand in an address" in answer.text


def test_nobody_pays_more_than_was_shown(here: Town) -> None:
    """Many digits, a fraction, a price that is longer than a line: what is shown is what is paid, or more."""
    lab = Browser(here, "lab-3")
    for eps, shown in (("0.12344999", "0.12344999"), ("1/3", "1/3"), ("0.100000000000000001", "0.1001")):
        part = lab.get(f"{ASK}/forecast?{urlencode({**MEAN, 'eps': eps})}")
        assert part.status_code == 200, eps
        assert f"It costs ε {shown}. What" in part.text
    assert budgets.price(Approx(Fraction(1, 3), Fraction(1, 7**20))) == "ε 1/3, δ 1.254e-17"


def test_a_forecast_says_for_how_many_rows_it_is_made(here: Town) -> None:
    """Groups may be smaller than that, and then errors are larger."""
    part = Browser(here, "lab-3").get(f"{ASK}/forecast?{urlencode({**MEAN, 'by': 'region'})}").text
    found = re.search(r"Reckoned for [0-9,]+ rows in each group: where rows are fewer", part)
    assert found is not None
    assert part.index(found[0]) < part.index("<details"), "beside the error itself"


def test_cookies_of_other_programs_of_the_host_keep_nobody_out(here: Town) -> None:
    for other in ('a[b]={"x": 1}', '"=', "a b", "=;;=", "x=\\777"):
        browser = Browser(here, "anna")
        own = entrance.cookie_name(here.settings)
        kept = f"{other}; {own}={browser.cookies[own]}"
        assert browser.send("GET", "/studio/", None, {"cookie": kept}).status_code == 200, other
    assert here.send("GET", "/studio", None).headers["location"].startswith("/studio/")
    assert Browser(here, "anna").get("/studio").headers["location"] == "/studio/"


def test_a_body_without_a_length_is_no_longer_than_one_with_it(declaring: Town) -> None:
    """It is refused as too large, and nothing of it stays."""
    browser, folder = Browser(declaring, "anna"), declaring.settings.file.parent / "declared"
    kept = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT", "path": "/studio/declare/file", "raw_path": b"",
        "query_string": b"name=big.csv", "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), (b"cookie", kept.encode()), (b"transfer-encoding", b"chunked")],
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"1\n" * 500, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    async def knocked() -> None:
        await declaring.door(scope, receive, send)

    declaring.loop.run(knocked())
    assert sent[0]["status"] == 413
    assert not list(folder.iterdir())


def test_what_is_not_for_a_role_is_said_in_the_language_of_the_reader(here: Town) -> None:
    browser = Browser(here, "lab-3")
    browser.cookies["oboro_language"] = "ja"
    for path in ("approvals", f"account/{PLACE}", "declare"):
        page = browser.get(f"/studio/{path}")
        assert page.status_code == 403
        assert "for your role" not in page.text
        assert "steward or" not in page.text


def test_a_statement_is_rehearsed_of_the_table_that_is_asked(here: Town) -> None:
    sql = {"question": "sql", "sql": "SELECT AVG(age) FROM people", "eps": "0.5"}
    assert Browser(here, "lab-3").post(f"{ASK}/rehearsal", asked=json.dumps(sql)).status_code == 200
