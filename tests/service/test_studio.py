"""The studio without a browser: who comes in, what is refused, and that every page says what the ledger says."""

from __future__ import annotations

import html
import io
import json
import re
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from service_town import DATASET, QUICK, Response, Town, knock, town

from oboro.domain import Category, Domain, Integer
from oboro.errors import DataError
from oboro.privacy import Approx, Pure, Unit
from oboro.release import verify_certificate
from oboro.service import people
from oboro.service.arrivals import Arrivals
from oboro.service.questions import Shape
from oboro.service.studio import entrance
from oboro.service.studio.declare import columns_in, rules_in
from oboro.service.studio.local import Studio
from oboro.synth import check

PLACE = quote(DATASET)
ASK = f"/studio/ask/{PLACE}"
PASSWORD = "a long password"
PAGES = {  # who may open what
    "/studio/": {"lab-3", "anna", "carl"},
    ASK: {"lab-3", "anna"},
    f"{ASK}/forecast": {"lab-3", "anna"},
    "/studio/releases": {"lab-3", "anna"},
    "/studio/approvals": {"anna"},
    "/studio/analysts": {"anna"},
    f"/studio/account/{PLACE}": {"anna", "carl"},
    f"/studio/account/{PLACE}/export": {"anna", "carl"},
}


class Browser:
    """Somebody at the studio: keeps the cookie, says where requests come from."""

    def __init__(self, found: Town, name: str | None = None) -> None:
        self.found, self.cookies = found, {"oboro_language": "en"}
        if name is not None:
            self.cookies[entrance.cookie_name(found.settings)] = found.tokens[name]

    def get(self, path: str, **headers: str) -> Response:
        return self.send("GET", path, None, headers)

    def post(self, path: str, **fields: str) -> Response:
        return self.send("POST", path, fields, {"origin": "http://127.0.0.1"})

    def send(self, verb: str, path: str, fields: Any, headers: dict[str, str]) -> Response:
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None if fields is None else urlencode(fields).encode()
        where, question, query = path.partition("?")
        from urllib.parse import unquote

        answer = self.found.loop.run(
            knock(self.found.door, verb, unquote(where) + question + query, body, {"cookie": kept, **headers})
        )
        if "set-cookie" in answer.headers:
            name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def asked(self, **fields: str) -> dict[str, str]:
        """The hidden fields that a forecast offers."""
        part = self.get(f"{ASK}/forecast?{urlencode(fields)}").text
        return {
            name: html.unescape(value)
            for name, value in re.findall(r'name="(asked|key)" value="([^"]*)"', part)
        }

    def answered(self, **fields: str) -> str:
        """Asks and waits: the address of the release."""
        where = self.post(ASK, **self.asked(**fields)).headers["location"]
        while True:
            self.found.work()
            answer = self.get(where)
            if answer.status_code == 303:
                return answer.headers["location"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(
        tmp_path_factory.mktemp("studio") / "here", granted=("lab-3", "lab-4", "anna"), approve_above="0.3"
    ) as found:
        people.set_password(found.desk.database, "anna", PASSWORD)
        yield found


MEAN = {"question": "mean", "columns": "income", "first": "eps", "eps": "0.1"}


def test_nobody_comes_in_without_a_name(here: Town) -> None:
    for path in PAGES:
        answer = Browser(here).get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/studio/login?back=%2Fstudio%2F")
    part = Browser(here).get(f"{ASK}/forecast", **{"hx-request": "true"})
    assert part.headers["hx-redirect"].startswith("/studio/login")
    assert here.send("GET", "/", None).headers["location"] == "/studio/"


def test_a_password_gives_a_cookie_that_opens_the_studio_and_nothing_else(here: Town) -> None:
    browser = Browser(here)
    assert browser.post("/studio/login", name="anna", password="a wrong password").status_code == 401
    answer = browser.post("/studio/login", name="anna", password=PASSWORD, back="/studio/analysts")
    assert (answer.status_code, answer.headers["location"]) == (303, "/studio/analysts")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/studio" in cookie
    assert browser.get("/studio/analysts").status_code == 200
    assert browser.get("/v1/datasets").status_code == 401, "a cookie never opens the API"
    assert browser.post("/studio/logout").status_code == 303
    browser.cookies[entrance.cookie_name(here.settings)] = cookie.partition("=")[2].partition(";")[0]
    assert browser.get("/studio/analysts").status_code == 303, "a session that ended opens nothing"


@pytest.mark.parametrize(
    "back",
    [
        "https://elsewhere.example/studio/",
        "//elsewhere.example/studio/",
        "/v1/datasets",
        "\\\\elsewhere",
        "/studio/\\@x",
        "javascript:alert(1)",
    ],
)
def test_a_login_leads_back_to_the_studio_alone(back: str, here: Town) -> None:
    assert entrance.back_to(back) == "/studio/"
    assert entrance.back_to("/studio/releases?search=age") == "/studio/releases?search=age"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9", "sec-fetch-site": "same-site"},
    ],
)
def test_what_changes_anything_must_come_from_a_page_of_the_studio(
    headers: dict[str, str], here: Town
) -> None:
    browser = Browser(here, "lab-3")
    spent = here.ledger.spent
    asked = browser.asked(**{**MEAN, "eps": "0.017"})
    answer = browser.send("POST", ASK, asked, headers)
    assert answer.status_code == 403
    assert here.ledger.spent == spent


def test_every_page_by_everybody(here: Town) -> None:
    for path, who in PAGES.items():
        for name in ("lab-3", "anna", "carl"):
            answer = Browser(here, name).get(path)
            allowed = answer.status_code == 200
            assert allowed == (name in who), (path, name, answer.status_code)
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
    foreign = Browser(here, "lab-5").get(ASK)
    missing = Browser(here, "lab-5").get("/studio/ask/nothing%20here")
    assert foreign.status_code == missing.status_code == 404
    cleaned = [re.sub(r"/studio/ask/[^\"&]*|back=[^\"]*", "", one.text) for one in (foreign, missing)]
    assert cleaned[0] == cleaned[1], "what is not for you and what is not there look the same"


def test_the_error_comes_first_and_the_price_follows(here: Town) -> None:
    browser = Browser(here, "lab-3")
    part = browser.get(
        f"{ASK}/forecast?{urlencode({'question': 'mean', 'columns': 'income', 'within': '2000'})}"
    ).text
    eps = re.search(r'data-eps="([^"]+)"', part)
    reach = re.search(r'data-reach="([^"]+)"', part)
    assert eps is not None
    assert reach is not None
    assert 1900 < float(reach[1]) <= 2000
    again = browser.get(f"{ASK}/forecast?{urlencode({**MEAN, 'eps': eps[1]})}").text
    assert re.search(r'data-reach="([^"]+)"', again)[1] == reach[1]  # type: ignore[index]
    for wrong in ("nothing", "-5", "1e-9", "nan"):
        refused = browser.get(
            f"{ASK}/forecast?{urlencode({'question': 'mean', 'columns': 'income', 'within': wrong})}"
        )
        assert 'class="refusal"' in refused.text, wrong
    assert here.ledger.account("lab-3").spent == Pure(0)  # type: ignore[union-attr]


def test_an_answer_its_files_and_asking_again(here: Town, tmp_path: Path) -> None:
    browser = Browser(here, "lab-3")
    place = browser.answered(**MEAN)
    page = browser.get(place)
    assert page.status_code == 200
    assert "The promise" in page.text
    spent = here.ledger.spent
    for ending in (".csv", ".parquet", ".xlsx"):
        found = next(one for one in re.findall(r'href="([^"]+)" download', page.text) if one.endswith(ending))
        (tmp_path / f"answer{ending}").write_bytes(browser.get(found).content)
        name = found.rpartition("/")[2]
        (tmp_path / name).write_bytes(browser.get(found).content)
        (tmp_path / f"{name}.certificate.json").write_bytes(browser.get(f"{found}.certificate.json").content)
        signed = verify_certificate(tmp_path / f"{name}.certificate.json", public_key=here.ledger.public_key)
        assert signed["dataset"] == DATASET
    assert "asked before" in browser.get(f"{ASK}/forecast?{urlencode(MEAN)}").text
    assert browser.answered(**MEAN) == place
    assert here.ledger.spent == spent, "the same question is free"
    assert Browser(here, "lab-4").get(place).status_code == 404, "another analyst's answer is not there"
    assert Browser(here, "anna").get(place).status_code == 200
    assert Browser(here, "carl").get(place).status_code == 403


def test_a_forecast_does_not_tell_when_an_answer_is_ready(here: Town) -> None:
    """Before its time has come, a page says the same whether a worker has finished or has not begun."""
    browser = Browser(here, "lab-4")
    asked = {**MEAN, "eps": "0.123"}
    browser.post(ASK, **browser.asked(**asked))
    seen = [browser.get(f"{ASK}/forecast?{urlencode(asked)}").text]
    here.work()
    seen.append(browser.get(f"{ASK}/forecast?{urlencode(asked)}").text)
    first, second = (re.sub(r'name="key" value="[0-9a-f]*"', "", one) for one in seen)
    assert "asked before" in first
    assert first == second


def test_above_the_limit_another_steward_decides(here: Town) -> None:
    anna, ben, lab = Browser(here, "anna"), Browser(here, "ben"), Browser(here, "lab-3")
    spent = here.ledger.spent
    number = anna.post(ASK, **anna.asked(**{**MEAN, "eps": "0.4"})).headers["location"].rpartition("/")[2]
    assert "waits" in anna.get(f"/studio/questions/{number}").text
    assert anna.post(f"/studio/approvals/{number}/approve").status_code == 422, "nobody approves their own"
    assert lab.post(f"/studio/approvals/{number}/approve").status_code == 403
    assert "mean of income" in ben.get(f"/studio/approvals/{number}").text
    assert here.ledger.spent == spent
    assert ben.post(f"/studio/approvals/{number}/approve").status_code == 303
    assert here.ledger.spent != spent
    other = lab.post(ASK, **lab.asked(**{**MEAN, "eps": "0.41"})).headers["location"].rpartition("/")[2]
    assert ben.post(f"/studio/approvals/{other}/decline", why="too much").status_code == 303
    page = lab.get(f"/studio/questions/{other}").text
    assert "said no" in page
    assert "too much" not in page
    here.work()


def test_a_steward_adds_grants_and_takes_away(here: Town) -> None:
    anna = Browser(here, "anna")
    assert anna.post("/studio/analysts", name="lab-9", role="analyst").status_code == 303
    assert anna.post("/studio/analysts", name="no good name", role="analyst").status_code == 422
    assert (
        anna.post(f"/studio/analysts/grant/{PLACE}", account="lab-9", eps="0.5", per="month").status_code
        == 303
    )
    assert here.ledger.account("lab-9").available == Pure("0.5")  # type: ignore[union-attr]
    assert anna.post(f"/studio/analysts/grant/{PLACE}", account="nobody", eps="0.5").status_code == 404
    page = anna.post("/studio/analysts/token", name="lab-9").text
    token = re.search(r"oboro_[0-9a-f]{16}_[0-9a-f]{64}", page)
    assert token is not None
    assert people.recognise(here.desk.database, token[0]) is not None
    assert token[0] not in anna.get("/studio/analysts").text, "it is shown once"
    assert anna.post(f"/studio/analysts/token/{token[0].split('_')[1]}/revoke").status_code == 303
    assert people.recognise(here.desk.database, token[0]) is None
    assert anna.post(f"/studio/analysts/grant/{PLACE}/revoke", account="lab-9").status_code == 303
    assert here.ledger.account("lab-9").granted is None  # type: ignore[union-attr]
    assert "hold" in Browser(here, "carl").post(f"/studio/account/{PLACE}/verify").text
    exported = json.loads(Browser(here, "carl").get(f"/studio/account/{PLACE}/export").content)
    assert exported["head"]["hash"] == here.ledger.head().hash


def test_a_budget_that_is_spent_says_no_kindly(tmp_path: Path) -> None:
    with town(tmp_path / "here", grant=Pure("0.1")) as found:
        browser = Browser(found, "lab-3")
        asked = browser.asked(**{**MEAN, "eps": "0.2"})
        part = browser.get(f"{ASK}/forecast?{urlencode({**MEAN, 'eps': '0.2'})}").text
        assert "Nothing is lost" in part
        assert "disabled" in part
        answer = browser.post(ASK, **asked)
        assert answer.status_code == 409
        assert "nothing was spent" in answer.text
        assert found.ledger.spent == Pure(0)


HOSTILE = "<script>alert(1)</script>"


def test_a_column_called_script_does_nothing(tmp_path: Path) -> None:
    domain = Domain([Integer(HOSTILE, 0, 9), Category("\"'><img src=x onerror=alert(1)>", ("a", "<b>"))])
    data = pa.table(
        {"who": [1, 2, 3], HOSTILE: [1, 2, 3], "\"'><img src=x onerror=alert(1)>": ["a", "<b>", "a"]}
    )
    with town(tmp_path / "here", data, domain=domain) as found:
        browser = Browser(found, "lab-3")
        place = browser.answered(question="mean", columns=HOSTILE, first="eps", eps="0.1")
        other = browser.answered(
            question="histogram", columns="\"'><img src=x onerror=alert(1)>", first="eps", eps="0.1"
        )
        for path in (
            "/studio/",
            ASK,
            f"{ASK}?by={quote(HOSTILE)}&where={quote(HOSTILE)}",
            "/studio/releases",
            place,
            other,
            f"/studio/account/{PLACE}",
        ):
            for name in ("lab-3", "anna"):
                text = Browser(found, name).get(path).text
                assert "<script>alert" not in text, path
                assert "<img" not in text, path
        assert "&lt;script&gt;" in browser.get(ASK).text


def test_pages_speak_both_languages(here: Town) -> None:
    place = Browser(here, "anna").answered(**{**MEAN, "eps": "0.05"})
    for path in (
        "/studio/",
        ASK,
        "/studio/releases",
        place,
        "/studio/analysts",
        "/studio/approvals",
        f"/studio/account/{PLACE}",
    ):
        browser = Browser(here, "anna")
        browser.cookies["oboro_language"] = "ja"
        page = browser.get(path)
        assert '<html lang="ja">' in page.text
        assert "data-en" not in page.text
        bare = re.sub(r"<(script|style|svg|pre)\b.*?</\1>", "", page.text, flags=re.DOTALL)
        english = [
            one for one in re.findall(r">([^<]+)<", bare) if re.search(r"\b(the|and|is|was|of)\b", one)
        ]
        assert not english, (path, english)
    first = Browser(here, "anna")
    del first.cookies["oboro_language"]
    assert '<html lang="ja">' in first.get("/studio/", **{"accept-language": "ja,en;q=0.5"}).text


# On one machine


def test_the_address_of_a_studio_opens_once(tmp_path: Path) -> None:
    from service_town import made

    made(tmp_path / "here")
    studio = Studio(tmp_path / "here" / "people.toml")
    handle: list[Any] = []
    ready = threading.Event()
    thread = threading.Thread(target=lambda: studio.run(lambda _: ready.set(), handle=handle), daemon=True)
    thread.start()
    ready.wait()

    class Still(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    opener = urllib.request.build_opener(Still)

    def visit(path: str, **headers: str) -> tuple[int, Any]:
        try:
            answer = opener.open(urllib.request.Request(path, headers=headers))
            return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.headers

    root = f"http://127.0.0.1:{studio.settings.port}/studio/"
    try:
        assert visit(root)[0] == 303
        assert visit(f"{root}enter?token=wrong")[0] == 401
        status, headers = visit(studio.address)
        assert status == 303
        assert visit(studio.address)[0] == 401, "it opens once"
        cookie = headers["set-cookie"].partition(";")[0]
        assert visit(root, cookie=cookie)[0] == 200
        assert visit(f"{root}analysts", cookie=cookie)[0] == 200
    finally:
        handle[0].should_exit = True
        thread.join(30)
    assert not list((tmp_path / "here").glob(".oboro-studio-*")), "nothing is left behind"


def test_whoever_holds_the_data_pays_from_the_budget_itself(tmp_path: Path) -> None:
    from service_town import made

    made(tmp_path / "here", budget=Pure("0.5"), unit=Unit.person("who", 4, "replace"))
    studio = Studio(tmp_path / "here" / "people.toml")
    try:
        desk, person = studio.desk, people.Person("steward", "steward", "")
        opened = desk.datasets[DATASET]
        asked = {"question": "mean", "columns": ["income"], "eps": "0.2"}
        desk.ask(person, opened, asked)
        desk.ask(person, opened, asked)
        assert opened.ledger.spent == Pure("0.2")
        entry = next(one for one in opened.ledger.history() if one.kind == "reserve")
        assert entry.account is None
    finally:
        studio.close()


# Tables, synthetic data, declarations


def test_a_table_by_its_error_with_strategies_side_by_side(here: Town) -> None:
    browser = Browser(here, "lab-3")
    where = f"/studio/tables/{PLACE}"
    assert "By what" in browser.get(where).text
    asked = {"within": "300", "beside": "1", "workload": "marginals"}
    part = browser.get(f"{where}/forecast?{urlencode(asked)}&columns=age&columns=region").text
    reach = re.search(r'data-reach="([^"]+)"', part)
    assert reach is not None
    assert 280 < float(reach[1]) <= 300
    assert ">tree</li>" in part
    for wrong in ({"within": "0"}, {"within": "x"}, {"eps": "0", "first": "eps"}, {"columns": "nothing"}):
        assert 'class="refusal"' in browser.get(f"{where}/forecast?{urlencode(wrong)}").text, wrong


@pytest.mark.long("stories of the studio")
def test_a_budget_of_eps_alone_pays_for_synthetic_data_and_says_beforehand_that_they_are_noisier(
    tmp_path: Path,
) -> None:
    for budget, told in ((Pure(2), True), (Approx(2, "1e-5"), False)):
        with town(tmp_path / budget.kind, budget=budget, grant=budget) as found:
            browser = Browser(found, "lab-3")
            page = browser.get(f"/studio/synthetic/{PLACE}").text
            assert ("pays for synthetic data too, with more noise" in page) is told
            asked = {"columns": "age", "method": "marginals", "eps": "1", "delta": ""}
            part = browser.get(f"/studio/synthetic/{PLACE}/forecast?{urlencode(asked)}").text
            assert 'class="refusal"' not in part
            assert ("with a delta of 1e-6 beside it" in part) is False  # one column: nothing to gain


def test_synthetic_data_are_paid_for_once_and_drawn_for_nothing(tmp_path: Path) -> None:
    with town(tmp_path / "here", budget=Approx(4, "1e-4"), grant=Approx(2, "1e-5")) as found:
        browser, anna = Browser(found, "lab-3"), Browser(found, "anna")
        where = f"/studio/synthetic/{PLACE}"
        rules = '[[impossible]]\nregion = "north"\nage = "..29"\n'
        assert 'name="rules"' in browser.get(where).text
        assert rules_in("[[impossible]]\nday = 2026-01-31\n") == {"impossible": [{"day": "2026-01-31"}]}
        said = {"eps": "1", "delta": "1e-6", "rules": rules}
        part = browser.get(f"{where}/forecast?{urlencode(said)}&columns=age&columns=region").text
        for wrong in (
            "[[impossible",
            "[columns]\nx = 1",
            '[[impossible]]\nnobody = "x"',
            "impossible = 'f.csv'",
            "impossible = " + "[" * 3000 + "]" * 3000,
            "[known.region]\nnorth = " + "9" * 5000,
        ):
            refused = browser.get(f"{where}/forecast?{urlencode({**said, 'rules': wrong})}&columns=age")
            assert (refused.status_code, 'class="refusal"' in refused.text) == (200, True), wrong[:50]
        asked = {
            name: html.unescape(value)
            for name, value in re.findall(r'name="(asked|key)" value="([^"]*)"', part)
        }
        assert json.loads(asked["asked"])["question"] == "synthetic"
        assert "the budget can carry" in part
        question = browser.post(ASK, **asked).headers["location"]
        while (answer := browser.get(question)).status_code != 303:
            found.work()
        place = answer.headers["location"]
        model = place.replace("releases", "synthetic")
        spent = found.ledger.spent
        page = browser.get(place).text
        assert f"{model}/records" in page
        assert "quality" not in page
        packed = zipfile.ZipFile(io.BytesIO(browser.get(f"{model}/records?n=50").content))
        packed.extractall(tmp_path / "drawn")
        (name, beside) = packed.namelist()
        assert beside == f"{name}.synthetic.json"
        assert check(tmp_path / "drawn" / name)["records"] == 50
        drawn = (tmp_path / "drawn" / name).read_text().splitlines()
        assert drawn[0].replace('"', "") == "age,region"
        assert len(drawn) == 51
        ages = [line.replace('"', "").split(",") for line in drawn[1:]]
        assert not any(region == "north" and int(age) < 30 for age, region in ages if age and region)
        assert browser.get(f"{model}/records?n=x").status_code == 422
        assert browser.get(f"{model}/quality").status_code == 403, "for the steward alone"
        assert f"{model}/quality" in anna.get(place).text
        assert "INTERNAL" in anna.get(f"{model}/quality").text
        assert Browser(found, "lab-4").get(f"{model}/records").status_code == 404
        assert found.ledger.spent == spent


def test_a_service_without_a_folder_takes_no_file(here: Town) -> None:
    anna = Browser(here, "anna")
    assert "takes no files" in anna.get("/studio/declare").text
    answer = anna.send("PUT", "/studio/declare/file?name=people.csv", {}, {"origin": "http://127.0.0.1"})
    assert answer.status_code in (413, 422)
    assert Browser(here, "lab-3").get("/studio/declare").status_code == 403


def pages_of(found: Town) -> Any:
    return next(route.app for route in found.app.routes if getattr(route, "path", "") == "/studio")


def settled(steward: Browser, where: str) -> str:
    """The page of an opening when it has come to its end."""
    while "data-again" in (page := steward.get(where).text):
        pass
    return page


def test_a_file_with_semicolons_is_no_file_of_one_column(tmp_path: Path) -> None:
    (tmp_path / "excel.csv").write_text("age;region\n31;north\n")
    with pytest.raises(DataError, match="separated by semicolons"):
        columns_in(tmp_path / "excel.csv")


def test_a_steward_declares_a_dataset_from_a_file(tmp_path: Path) -> None:
    """Fields and TOML are two spellings; what was declared is served at once, and at the next start too."""
    from oboro.service.settings import read_settings

    folder = tmp_path / "here" / "declared"
    folder.mkdir(parents=True)
    with town(tmp_path / "here") as found:
        text = found.settings.file.read_text() + '\n[studio]\nfolder = "declared"\nupload = 2000\n'
        found.settings.file.write_text(text)
        settings = read_settings(found.settings.file)
        found.desk.settings = found.door.settings = settings
        anna, lab = Browser(found, "anna"), Browser(found, "lab-3")
        data = b"id,age,<script>\n" + b"".join(b"%d,%d,a\n" % (k // 2, k) for k in range(20))

        def put(browser: Browser, name: str, body: bytes) -> int:
            kept = "; ".join(f"{key}={value}" for key, value in browser.cookies.items())
            headers = {"cookie": kept, "origin": "http://127.0.0.1"}
            sent = knock(found.door, "PUT", f"/studio/declare/file?name={quote(name)}", body, headers)
            return found.loop.run(sent).status_code

        assert put(lab, "more.csv", data) == 403
        for wrong in (
            "../more.csv",
            "a/b.csv",
            ".csv",
            "more.toml",
            "more.csv\0",
            "",
            "\u202ecsv.csv",
            "住" * 80 + ".csv",
        ):
            assert put(anna, wrong, data) == 422, wrong
        assert put(anna, "large.csv", b"x" * 2001) == 413
        assert put(anna, "more.csv", data) == 200
        assert put(anna, "more.csv", data) == 422, "nothing is written over"
        assert [path.name for path in folder.iterdir()] == ["more.csv"]
        assert put(anna, "住民.csv", data) == 200
        assert ">住民.csv<" in anna.get("/studio/declare").text
        assert anna.get("/studio/declare/住民.csv").status_code == 200
        (folder / "住民.csv").unlink()
        page = anna.get("/studio/declare/more.csv").text
        assert "&lt;script&gt;" in page
        assert "<script>\n" not in page.partition("</head>")[2]
        fields = {
            "kind.0": "person", "max_rows": "2", "kind.1": "integer", "low.1": "0", "high.1": "99",
            "kind.2": "category", "values.2": "a\r\nb", "adjacency": "replace",
        }  # fmt: skip
        written = anna.post("/studio/declare/more.csv/toml", **fields).text
        toml = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", written, re.DOTALL)[1])  # type: ignore[index]
        assert "The declaration is complete." in written
        back = anna.post("/studio/declare/more.csv/fields", toml=toml.replace("99", "120")).text
        assert 'name="high.1" value="120"' in back
        assert re.search(r'name="values.2"[^>]*>a\nb</textarea>', back), (
            "categories come back from TOML as well"
        )
        ruled = back.split('name="rules"')[1].partition("</textarea>")[0]
        assert ruled.endswith(">"), "there are no rules yet"
        more = "[[impossible]]\n" + re.findall(r'name = "(.*?)"', toml)[0] + ' = "..9"\n'
        kept = html.unescape(anna.post("/studio/declare/more.csv/toml", **fields, rules=more).text)
        assert "impossible" in kept, "fields and rules are one declaration"
        assert "..9" in kept
        assert "..9" in anna.post("/studio/declare/more.csv/fields", toml=toml + more).text
        for named in ("toml", "fields"):
            own = {"rules": 'impossible = "/etc/passwd"', "toml": 'impossible = "/etc/passwd"\n' + toml}
            answer = anna.post(f"/studio/declare/more.csv/{named}", **fields, **own)
            assert "cannot be named in a page" in answer.text
        checked = anna.post("/studio/declare/more.csv/check", toml=toml).text
        assert "20" in checked
        assert lab.post("/studio/declare/more.csv/check", toml=toml).status_code == 403
        assert anna.post("/studio/declare/more.csv", toml="columns = 3").status_code == 422
        pages_of(found).state.arrivals = Arrivals(found.desk, lambda *_: {Shape("mean", 1): QUICK})
        taken = anna.post("/studio/declare/more.csv", toml=toml, name=DATASET, eps="3")
        assert taken.status_code == 422
        assert not (folder / "more.ledger").exists(), (
            "two of one name would keep the next start from starting"
        )
        absent = toml + '[[columns]]\nkind = "integer"\nname = "nowhere"\nlow = 0\nhigh = 1\n'
        where = anna.post("/studio/declare/more.csv", toml=absent, name="more", eps="3").headers["location"]
        told = settled(anna, where)
        assert "could not be opened" in told
        assert "nowhere" in told, "and says what to do"
        assert not (folder / "more.ledger").exists()
        assert len(read_settings(found.settings.file).datasets) == 1, (
            "the next start is not kept from starting"
        )
        done = anna.post("/studio/declare/more.csv", toml=toml, name="more people", eps="3")
        assert done.headers["location"] == where
        assert "Grant shares" in settled(anna, where)
        assert (
            anna.post("/studio/declare/more.csv", toml=toml, name="more people", eps="3").status_code == 422
        )
        assert lab.get("/studio/ask/more people").status_code == 404, "who has no share sees nothing of it"
        anna.post("/studio/analysts/grant/more people", account="lab-3", eps="1")
        question = json.dumps({"question": "mean", "columns": ["age"], "eps": "1"})
        asked = lab.post("/studio/ask/more people", asked=question).headers["location"]
        while (answer := lab.get(asked)).status_code != 303:
            found.work()
        assert "/releases/more%20people/" in answer.headers["location"]
        again = read_settings(found.settings.file)
        assert [one.ledger.rpartition("/")[2] for one in again.datasets] == ["people.ledger", "more.ledger"]
        assert again.datasets[1].unit == Unit.person("id", 2, "replace")


def test_a_series_is_moved_by_a_slider(tmp_path: Path) -> None:
    """The Tables page names it; each tick is a picture with its figures; what was not published says so; others see nothing of it."""
    from oboro import tables
    from oboro.domain import Grid

    domain = Domain([Grid("row", "col", shape=(8, 8))])
    unit = Unit.person("who", 3)
    data = pa.table({"who": [1, 2, 3], "tick": [0, 1, 2], "row": [1, 2, 3], "col": [4, 5, 6]})
    with town(tmp_path / "here", data, domain=domain, unit=unit) as found:
        plan = tables.plan(domain, unit=unit, eps="1", ticks=3, max_ticks=3)
        series = tables.series(plan, ledger=found.ledger, name=HOSTILE)
        for tick in (0, 2):
            series.publish(data, tick)
        anna, lab = Browser(found, "anna"), Browser(found, "lab-3")
        page = anna.get(f"/studio/tables/{PLACE}").text
        place = re.search(r'href="(/studio/tables/[^"]*/series/\d+)"', page)[1]  # type: ignore[index]
        assert "2 of 3 ticks are published" in page
        shown = anna.get(f"{place}?tick=2").text
        assert 'type="range"' in shown
        assert "provisional" in shown
        assert "not published" in anna.get(f"{place}?tick=1", **{"hx-request": "true"}).text
        for tick in ("x", "-1", "99", ""):
            assert anna.get(f"{place}?tick={tick}").status_code == 200
        played = anna.get(f"{place}/play")
        assert "frame-ancestors 'none'" in played.headers["content-security-policy"]
        for text in (page, shown, played.text):
            assert "<script>alert" not in text
        assert lab.get(place).status_code == 404
        assert "series" not in lab.get(f"/studio/tables/{PLACE}").text.partition("<main")[2]
        series.publish(data, 1)
        series.final()
        assert "final" in anna.get(f"{place}?tick=1").text
        assert place in anna.get(place.replace(f"tables/{PLACE}/series", f"releases/{PLACE}")).text


def test_looking_at_runs_of_a_whole_horizon_opens_no_series(tmp_path: Path) -> None:
    """Without a name, or dead under one: neither is a series, and no page pays for one in its stead."""
    from oboro import run, tables
    from oboro.domain import Grid
    from oboro.errors import PaidError
    from oboro.noise import Bits

    class Dies(Bits):
        def words(self, count: int) -> Any:
            raise OSError("a disk")

    domain, unit = Domain([Grid("row", "col", shape=(8, 8))]), Unit.person("who", 3)
    data = pa.table({"who": [1], "tick": [0], "row": [1], "col": [4]})
    with town(tmp_path / "here", data, domain=domain, unit=unit) as found:
        plan = tables.plan(domain, unit=unit, eps="0.1", ticks=3, max_ticks=3)
        run(plan, data, found.ledger)
        with pytest.raises(PaidError):
            run(plan, data, found.ledger, name="dead", bits=Dies())
        spent, anna = found.ledger.spent, Browser(found, "anna")
        assert anna.get(f"/studio/tables/{PLACE}").status_code == 200
        for entry in range(5):
            assert anna.get(f"/studio/tables/{PLACE}/series/{entry}").status_code == 404
            anna.get(f"/studio/releases/{PLACE}/{entry}")
        assert found.ledger.spent == spent
