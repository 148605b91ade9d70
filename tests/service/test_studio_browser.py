"""The studio in a browser: the system's Chromium, driven by Playwright. Skipped where there is none."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from service_town import DATASET, listening, made, town

from oboro.domain import Domain, Grid
from oboro.privacy import Pure, Unit
from oboro.release import verify_certificate
from oboro.service import desk, people, questions, slots
from oboro.service.arrivals import Arrivals
from oboro.service.settings import read_settings
from oboro.service.studio import price
from oboro.service.studio.local import Studio
from support import CHROMIUM

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PASSWORD = "a long password"
SCRIPT = "<script>alert(1)</script>"
NAMED = "people of <b>2026"
PLANS = 24  # of one forecast: a curve of five, fourteen for the eps that an error needs, and the one that is shown
expect = playwright.expect
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page whose every request and complaint is kept."""

    def __init__(self, chromium: Any, **how: Any) -> None:
        self.context = chromium.new_context(locale="en-US", **how)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("console", self._said)

    def _said(self, message: Any) -> None:
        overtaken = (
            "AbortError" in message.text
        )  # a forecast that was still on its way when the slider moved on
        if message.type in ("error", "warning") and not overtaken:
            self.complaints.append(message.text)

    def log_in(self, address: str, name: str) -> Any:
        self.page.goto(f"{address}/studio/")
        self.page.fill("[name=name]", name)
        self.page.fill("[name=password]", PASSWORD)
        self.page.click("button.main")
        return self.page

    def holds(self) -> None:
        assert not [
            url for url in self.requests if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))
        ]
        assert self.complaints == []
        self.context.close()


@contextmanager
def studio(file: Path) -> Iterator[Studio]:
    """`oboro studio` in this process."""
    found, handle, ready = Studio(file), [], threading.Event()
    thread = threading.Thread(target=lambda: found.run(lambda _: ready.set(), handle=handle), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield found
    finally:
        handle[0].should_exit = True
        thread.join(30)


@contextmanager
def declaring(folder: Path, **how: Any) -> Iterator[Any]:
    """A service whose stewards may declare datasets, with passwords; slots are given, for a test has no time to find them."""
    (folder / "declared").mkdir(parents=True)
    with town(folder, slot=slots.Slot(1, 300), **how) as found:
        found.settings.file.write_text(found.settings.file.read_text() + '\n[studio]\nfolder = "declared"\n')
        found.desk.settings = found.door.settings = read_settings(found.settings.file)
        for name in ("lab-3", "anna", "ben"):
            people.set_password(found.desk.database, name, PASSWORD)
        pages = next(route.app for route in found.app.routes if getattr(route, "path", "") == "/studio")
        given = {questions.Shape(kind, 1 << 20): slots.Slot(1, 300) for kind in questions.KINDS}
        pages.state.arrivals = Arrivals(found.desk, lambda *_: given)
        yield found


def counted(into: list[str], function: Any) -> Any:
    def called(question: Any, facts: Any) -> Any:
        into.append(question["question"])
        return function(question, facts)

    return called


def forecasts(watched: Watched) -> int:
    return sum("/forecast?" in url for url in watched.requests)


def slide(page: Any, times: int, key: str = "ArrowRight") -> None:
    page.locator("#slider").focus()
    for _ in range(times):
        page.keyboard.press(key)


def test_on_one_machine_a_slider_an_answer_and_a_bar_that_moves(chromium: Any, tmp_path: Path) -> None:
    made(tmp_path / "here", budget=Pure(1))
    with studio(tmp_path / "here" / "people.toml") as found:
        watched = Watched(chromium)
        page = watched.page
        page.goto(found.address)
        page.get_by_role("link", name="Ask", exact=True).first.click()
        page.select_option("select[name=columns]", "income")
        forecast = page.locator(".forecast")
        expect(forecast.locator("h2").first).to_have_text("mean of income")
        expect(page.locator("#within")).to_have_value(re.compile(r"\d{3}"))
        before = float(forecast.get_attribute("data-eps"))
        slide(page, 9)
        expect(forecast).not_to_have_attribute("data-eps", "0.1")
        assert float(forecast.get_attribute("data-eps")) > before, "to the right is exact and dear"
        expect(page).to_have_url(re.compile("within="))
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("button", name="Yes, ask").click()
        expect(page.get_by_role("heading", name="The promise")).to_be_visible(timeout=30_000)
        page.goto(page.url.split("/studio")[0] + "/studio/")
        expect(page.locator(".budget .spent")).to_have_count(1)
        watched.holds()


@pytest.mark.long("stories of the studio")
def test_the_whole_story(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A steward declares a file, an analyst moves the slider and asks, a second steward approves, and the budget says no in the end."""
    source = tmp_path / "people.csv"
    rows = "".join(f"{number // 2},{number * 97 % 20_000},{'ab'[number % 2]}\n" for number in range(400))
    source.write_text(f"id,income,{SCRIPT}\n{rows}")
    plans: list[str] = []
    for module in (desk, price):
        monkeypatch.setattr(module, "plan_of", counted(plans, questions.plan_of))
    with declaring(tmp_path / "here") as found, listening(found) as address:
        steward, second, analyst = (Watched(chromium) for _ in range(3))

        # a steward declares a dataset from a file, and grants a share of its budget
        anna = steward.log_in(address, "anna")
        anna.get_by_role("link", name="Declare", exact=True).click()
        anna.set_input_files("#file", source)
        expect(anna.get_by_role("heading", name="Declare people.csv")).to_be_visible()
        anna.select_option("[name='kind.0']", "person")
        anna.fill("[name=max_rows]", "2")
        anna.select_option("[name='kind.1']", "integer")
        anna.fill("[name='low.1']", "0")
        anna.fill("[name='high.1']", "20000")
        anna.select_option("[name='kind.2']", "category")
        anna.fill("[name='values.2']", "a\nb")
        anna.fill("[name='service.rows']", "1000")
        anna.fill("[name='service.approve_above']", "0.3")
        expect(anna.locator("#toml")).to_have_value(re.compile('approve_above = "0.3"'))
        expect(anna.locator("#written .good")).to_be_visible()
        anna.fill("#save [name=name]", NAMED)
        anna.fill("#save [name=eps]", "1")
        anna.get_by_role("button", name="Declare it and create the ledger").click()
        anna.get_by_role("link", name="Grant shares").click()
        own = anna.locator("section", has=anna.get_by_role("heading", name=NAMED))
        own.locator("summary").click()
        own.locator("[name=account]").select_option("lab-3")
        own.locator("[name=eps]").fill("1")
        own.locator("[name=per]").select_option("")
        own.get_by_role("button", name="Grant", exact=True).click()

        # an analyst moves the slider: forecasts follow, each of a bounded number of plans, and none touches data
        lab = analyst.log_in(address, "lab-3")
        card = lab.locator("section", has=lab.get_by_role("heading", name=NAMED))
        expect(card.locator(".budget .spent")).to_have_count(0)
        card.get_by_role("link", name="Ask").click()
        lab.select_option("select[name=columns]", "income")
        forecast = lab.locator(".forecast")
        expect(forecast.locator("h2").first).to_have_text("mean of income")
        expect(lab.locator("#within")).to_have_value(re.compile(r"\d{2}"))
        before, asked, made_before = lab.input_value("#within"), forecasts(analyst), len(plans)
        slide(lab, 5)
        expect(forecast).to_have_attribute("data-decided", "error")
        assert float(lab.input_value("#within")) < float(before), "to the right is exact and dear"
        expect(lab).to_have_url(re.compile("within="))
        assert 1 <= forecasts(analyst) - asked <= 5, "a move of the slider asks once, or not at all"
        assert len(plans) - made_before <= PLANS * (forecasts(analyst) - asked)

        # above the limit it waits; whoever asked it cannot approve it, a second steward can
        lab.get_by_label("the price first").check()
        lab.fill("#eps", "0.5")
        expect(lab.get_by_text("will have to approve it")).to_be_visible()
        lab.get_by_role("button", name="Ask", exact=True).click()
        lab.get_by_role("button", name="Yes, ask").click()
        expect(lab.get_by_text("It waits for a steward")).to_be_visible()
        question = lab.url
        expect(lab.get_by_role("link", name="Approvals")).to_have_count(0)
        refused = lab.request.post(
            f"{address}/studio/approvals/{question.rpartition('/')[2]}/approve", headers={"origin": address}
        )
        assert refused.status == 403
        ben = second.log_in(address, "ben")
        ben.get_by_role("link", name="Look at them").click()
        expect(ben.get_by_role("heading", name="mean of income")).to_be_visible()
        ben.get_by_role("button", name="Approve").click()
        expect(ben.get_by_text("Nothing waits.")).to_be_visible()

        # the answer, its certificate, which verifies offline, and the bar that moved
        lab.goto(question)
        expect(lab.get_by_role("heading", name="The promise")).to_be_visible()
        release = lab.url
        kept = {}
        for name in ("PARQUET", "Certificate"):
            with lab.expect_download() as file:
                lab.get_by_role("link", name=name).click()
            kept[name] = tmp_path / file.value.suggested_filename
            file.value.save_as(kept[name])
        ledger = found.desk.datasets[NAMED].ledger
        record = verify_certificate(kept["Certificate"], public_key=ledger.public_key)
        assert record["dataset"] == NAMED
        lab.goto(f"{address}/studio/")
        assert float(card.locator(".budget .spent").get_attribute("width")) == pytest.approx(500)

        # asking again is free
        lab.goto(f"{address}/studio/ask/{quote(NAMED)}?question=mean&columns=income&first=eps&eps=0.5")
        expect(lab.get_by_text("This was asked before")).to_be_visible()
        lab.get_by_role("button", name="Ask", exact=True).click()
        lab.get_by_role("button", name="Yes, ask").click()
        expect(lab).to_have_url(release)
        assert ledger.spent == Pure("0.5")

        # a budget that does not cover it says no, kindly
        lab.goto(f"{address}/studio/ask/{quote(NAMED)}?question=mean&columns=income&first=eps&eps=0.6")
        expect(lab.get_by_text("Nothing is lost")).to_be_visible()
        expect(lab.get_by_role("button", name="Ask", exact=True)).to_be_disabled()

        # a column called <script> does nothing, wherever it stands
        lab.goto(
            f"{address}/studio/ask/{quote(NAMED)}?question=histogram&columns={quote(SCRIPT)}&first=eps&eps=0.1"
        )
        expect(lab.locator(".forecast h2").first).to_contain_text(SCRIPT)
        lab.get_by_role("button", name="Ask", exact=True).click()
        lab.get_by_role("button", name="Yes, ask").click()
        expect(lab.get_by_role("heading", name=SCRIPT)).to_be_visible()
        for place in ("", "releases", f"account/{quote(NAMED)}", "declare/people.csv"):
            anna.goto(f"{address}/studio/{place}")
            anna.wait_for_load_state("networkidle")
        for watched in (steward, second, analyst):
            watched.holds()


def serious(page: Any) -> list[str]:
    """What axe-core, which the package of the tests ships, finds serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.long("stories of the studio")
def test_a_forecast_that_comes_late_writes_nothing_into_another_question(
    chromium: Any, tmp_path: Path
) -> None:
    """An answer for a mean that is swapped in while the form has become a histogram's: its error is not asked of that."""
    late = """() => {
        const forecast = document.getElementById("forecast");
        const older = { target: forecast, sourceElement: forecast };
        const say = (name) => document.dispatchEvent(new CustomEvent(name, { detail: { ctx: older }, cancelable: true }));
        const kept = forecast.innerHTML;
        const swaps = say("htmx:before:swap");
        forecast.innerHTML = '<section data-low="1" data-high="9" data-eps="8.25" data-reach="1.25" data-decided="price"></section>';
        say("htmx:after:swap");
        forecast.innerHTML = kept;
        return swaps;
    }"""
    with town(tmp_path) as found, listening(found) as address:
        people.set_password(found.desk.database, "lab-3", PASSWORD)
        watched = Watched(chromium)
        page = watched.log_in(address, "lab-3")
        page.goto(f"{address}/studio/ask/people%202026")
        expect(page.locator("#forecast [data-eps]")).to_be_visible()
        page.select_option("#kind", "histogram")
        expect(page.locator("#forecast h2").first).to_contain_text("istogram")
        page.wait_for_load_state("networkidle")
        within, eps = page.input_value("#within"), page.input_value("#eps")
        assert not page.evaluate(late)  # not even shown
        assert (page.input_value("#within"), page.input_value("#eps")) == (within, eps)
        watched.holds()


@pytest.mark.long("stories of the studio")
def test_from_a_file_to_an_answer_on_one_machine(chromium: Any, tmp_path: Path) -> None:
    """A steward drops a file whose column is called <script>, declares it by fields and by TOML, and asks."""
    source = tmp_path / "people.csv"
    rows = "".join(f"{number // 2},{number % 90},{'ab'[number % 2]}\n" for number in range(400))
    source.write_text(f"id,age,<script>alert(1)</script>\n{rows}")
    (tmp_path / "here").mkdir()
    with studio(tmp_path / "here" / "people.toml") as found:
        watched = Watched(chromium)
        page = watched.page
        page.goto(found.address)
        page.get_by_role("link", name="Declare one").click()
        page.set_input_files("#file", source)
        expect(page.get_by_role("heading", name="Declare people.csv")).to_be_visible()
        page.select_option("[name='kind.0']", "person")
        page.fill("[name=max_rows]", "2")
        page.select_option("[name='kind.1']", "integer")
        page.fill("[name='low.1']", "0")
        page.fill("[name='high.1']", "99")
        page.select_option("[name='kind.2']", "category")
        page.fill("[name='values.2']", "a\nb")
        expect(page.locator("#written .good")).to_be_visible()
        expect(page.locator("#protected")).to_contain_text("all rows that share one id")
        toml = page.input_value("#toml")
        page.fill("#toml", toml.replace("high = 99", "high = 120"))
        page.locator("#toml").blur()
        expect(page.locator("[name='high.1']")).to_have_value("120")
        page.get_by_role("button", name="Check the data").click()
        expect(page.locator("#checked table")).to_contain_text("400")
        expect(page.locator(".not-private-band")).to_be_visible()
        page.get_by_role("button", name="Declare it and create the ledger").click()
        expect(page.get_by_role("heading", name="Ask about people")).to_be_visible()
        page.select_option("#kind", "histogram")
        expect(page.get_by_label("<script>alert(1)</script>").first).to_be_visible()
        page.get_by_role("button", name="Rehearse on made-up rows").click()
        expect(page.get_by_text("MADE UP")).to_be_visible()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("button", name="Yes, ask").click()
        expect(page.get_by_role("heading", name="The promise")).to_be_visible()
        page.goto(page.url.split("/studio")[0] + "/studio/account/people")
        page.get_by_role("button", name="Verify now").click()
        expect(page.get_by_text("entries hold")).to_be_visible()
        watched.holds()


@pytest.mark.long("stories of the studio")
@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}])
def test_axe_finds_nothing_serious_and_a_phone_is_wide_enough(
    chromium: Any, tmp_path: Path, look: Any
) -> None:
    """Every page, with something on it: forms with their forecast, a clock, charts, a model, what waits, a series, a declaration."""
    from oboro import tables

    with declaring(
        tmp_path / "here", granted=("lab-3", "anna"), approve_above="0.3", unit=Unit.person("who", 4)
    ) as found:
        folder = tmp_path / "here"
        (folder / "declared" / "more.parquet").write_bytes((folder / "people.parquet").read_bytes())
        domain = Domain([Grid("row", "col", shape=(8, 8))])
        plan = tables.plan(domain, unit=found.ledger.unit, eps="0.1", ticks=2, max_ticks=2)
        series = tables.series(plan, ledger=found.ledger, name="two hours")
        series.publish({"who": [1], "tick": [0], "row": [3], "col": [4]}, 0)
        with listening(found) as address:
            watched = Watched(chromium, bypass_csp=True, **look)
            watched.page.goto(f"{address}/studio/")
            assert serious(watched.page) == [], "the way in"
            page = watched.log_in(address, "anna")
            place = (
                f"{address}/studio/ask/people%202026?question=mean&columns=income&by=region&first=eps&eps="
            )
            seen = []
            for eps in ("0.1", "0.4"):
                page.goto(place + eps)
                page.get_by_role("button", name="Ask", exact=True).click()
                assert serious(page) == [], "the question whether to pay"
                page.get_by_role("button", name="Yes, ask").click()
                page.wait_for_url(re.compile("questions|releases"))
                seen.append(page.url)
            seen += [place + "0.2", place + "99"]
            listed = tables_of(page, address)
            seen += [f"{address}/studio/{path}" for path in (
                "", "tables/people%202026?beside=1", "synthetic/people%202026", "releases", "approvals", "analysts", "account/people%202026",
                "declare", "declare/more.parquet", "nowhere")] + listed  # fmt: skip
            for path in seen:
                page.goto(path)
                page.wait_for_load_state("networkidle")
                assert serious(page) == [], path
                wide = page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert wide <= 1, path
            watched.context.close()


def tables_of(page: Any, address: str) -> list[str]:
    """The pages of every series that the Tables page names."""
    page.goto(f"{address}/studio/tables/people%202026")
    found = page.locator("a[href*='/series/']").evaluate_all("all => all.map(one => one.href)")
    assert len(found) == 1
    return list(found)


HOLD = """(path) => {
    // what is asked below a path waits until it is let go: answers come as late as a test wants
    const real = window.fetch.bind(window);
    window.held = [];
    document.addEventListener("htmx:before:request", (event) => {
        const ctx = event.detail.ctx;
        ctx.fetch = async (where, how) => {
            if (String(where).includes(path)) await new Promise((go) => window.held.push(go));
            return real(where, how);
        };
    }, true);
}"""


def held(page: Any, many: int) -> None:
    """Until so many requests wait."""
    while page.evaluate("window.held.length") < many:
        page.wait_for_timeout(20)


@pytest.mark.long("stories of the studio")
def test_a_dialog_that_is_opened_while_a_forecast_is_on_its_way_shows_that_forecast(
    chromium: Any, tmp_path: Path
) -> None:
    """Nobody confirms what an older form said, and no dialog vanishes under the pointer."""
    with town(tmp_path) as found, listening(found) as address:
        people.set_password(found.desk.database, "lab-3", PASSWORD)
        watched = Watched(chromium)
        page = watched.log_in(address, "lab-3")
        page.goto(f"{address}/studio/ask/people%202026?question=mean&columns=income&first=eps&eps=0.1")
        expect(page.locator("#forecast [data-eps='0.1']")).to_be_visible()
        page.wait_for_load_state("networkidle")
        page.evaluate(HOLD, "/forecast")
        page.fill("#eps", "0.25")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator("#confirm")).to_be_hidden()
        held(page, 1)
        page.evaluate("window.held.forEach((go) => go())")
        expect(page.locator("#confirm")).to_be_visible()
        expect(page.locator("#confirm")).to_contain_text("0.25")
        watched.holds()


@pytest.mark.long("stories of the studio")
def test_a_forecast_that_never_came_is_requested_again_before_anything_is_confirmed(
    chromium: Any, tmp_path: Path
) -> None:
    made(tmp_path / "here")
    with studio(tmp_path / "here" / "people.toml") as found:
        watched = Watched(chromium)
        page = watched.page
        page.goto(found.address)
        page.goto(page.url.split("/studio")[0] + f"/studio/ask/{quote(DATASET)}?first=eps&eps=0.1")
        expect(page.locator("#forecast [data-eps='0.1']")).to_be_visible()
        page.route("**/forecast?*", lambda route: route.abort(), times=1)
        page.fill("#eps", "0.9")
        expect(page.locator("#forecast[data-failed]")).to_be_visible()
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator("dialog[open]")).to_contain_text("It costs ε 0.9.")
        watched.complaints.clear()  # of the browser, about the request that did not come back
        watched.holds()


@pytest.mark.long("stories of the studio")
def test_what_is_saved_is_what_the_fields_say(chromium: Any, tmp_path: Path) -> None:
    """Also if it was typed a moment ago, and its TOML is still on its way."""
    with declaring(tmp_path / "here") as found, listening(found) as address:
        (tmp_path / "here" / "declared" / "more.csv").write_text("age\n1\n2\n")
        watched = Watched(chromium)
        page = watched.log_in(address, "anna")
        page.goto(f"{address}/studio/declare/more.csv")
        page.select_option("[name='kind.0']", "integer")
        page.fill("[name='low.0']", "0")
        page.fill("[name='high.0']", "9")
        expect(page.locator("#written .good")).to_be_visible()
        expect(page.locator("#toml")).to_have_value(re.compile(r"high = 9\b"))
        page.evaluate(HOLD, "/toml")
        page.fill("[name='high.0']", "120")
        page.get_by_role("button", name="Declare it and create the ledger").click()
        held(page, 1)
        expect(page).to_have_url(f"{address}/studio/declare/more.csv")
        page.evaluate("window.held.forEach((go) => go())")
        page.get_by_role("link", name="Grant shares").wait_for()
        assert found.desk.datasets["more"].facts.domain["age"].high == 120
        watched.holds()


@pytest.mark.long("stories of the studio")
def test_a_late_answer_is_not_the_address_of_the_page_and_the_last_search_is_shown(
    chromium: Any, tmp_path: Path
) -> None:
    with town(tmp_path) as found, listening(found) as address:
        people.set_password(found.desk.database, "anna", PASSWORD)
        asked = ({"question": "mean", "columns": ["income"]}, {"question": "median", "columns": ["age"]})
        for one in asked:
            lab = people.Person("lab-3", "analyst", "")
            found.desk.ask(lab, found.desk.datasets["people 2026"], {**one, "eps": "0.1"})
        watched = Watched(chromium)
        page = watched.log_in(address, "anna")
        page.goto(f"{address}/studio/releases")
        while page.locator("#found tbody tr").count() < 2:
            page.reload()
        page.evaluate(HOLD, "/releases")
        search = page.locator("[name=search]")
        for many, typed in enumerate(("mean", "medi", "median"), 1):
            search.fill(typed)
            held(page, many)
        page.evaluate("window.held.reverse().forEach((go) => go())")
        expect(page.locator("#found tbody tr")).to_have_count(1)
        expect(page.locator("#found")).to_contain_text("median of age")
        watched.holds()
