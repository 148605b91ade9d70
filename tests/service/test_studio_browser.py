"""The studio in a browser: the system's Chromium, driven by Playwright. Skipped where there is none."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from service_town import listening, made, town

from oboro.privacy import Pure
from oboro.release import verify_certificate
from oboro.service import people, slots
from oboro.service.studio.local import Studio

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PASSWORD = "a long password"
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
def test_the_story_of_a_question(chromium: Any, tmp_path: Path) -> None:
    """An analyst asks above the limit, cannot approve it, a steward does; the answer verifies offline, and again it is free."""
    with town(
        tmp_path / "here",
        budget=Pure(2),
        grant=Pure(1),
        granted=("lab-3", "anna"),
        approve_above="0.3",
        slot=slots.Slot(1, 300),
    ) as found:
        for name in ("lab-3", "anna", "ben"):
            people.set_password(found.desk.database, name, PASSWORD)
        with listening(found) as address:
            asker, other = Watched(chromium), Watched(chromium)
            anna = asker.log_in(address, "anna")
            anna.get_by_role("link", name="Ask", exact=True).first.click()
            anna.select_option("select[name=columns]", "income")
            anna.get_by_label("the price first").check()
            anna.fill("#eps", "0.5")
            expect(anna.get_by_text("will have to approve it")).to_be_visible()
            anna.get_by_role("button", name="Ask", exact=True).click()
            anna.get_by_role("button", name="Yes, ask").click()
            expect(anna.get_by_text("It waits for a steward")).to_be_visible()
            question = anna.url
            anna.get_by_role("link", name="Look at it").click()
            expect(anna.get_by_text("another steward decides")).to_be_visible()
            expect(anna.get_by_role("button", name="Approve")).to_have_count(0)

            ben = other.log_in(address, "ben")
            ben.get_by_role("link", name="Look at them").click()
            expect(ben.get_by_role("heading", name="mean of income")).to_be_visible()
            ben.get_by_role("button", name="Approve").click()
            expect(ben.get_by_text("Nothing waits.")).to_be_visible()

            anna.goto(question)
            expect(anna.get_by_role("heading", name="The promise")).to_be_visible(timeout=30_000)
            release = anna.url
            with anna.expect_download() as csv:
                anna.get_by_role("link", name="CSV").click()
            name = csv.value.suggested_filename
            csv.value.save_as(tmp_path / name)
            with anna.expect_download() as signed:
                anna.get_by_role("link", name="Certificate").click()
            parquet = signed.value.suggested_filename
            signed.value.save_as(tmp_path / parquet)
            with anna.expect_download() as file:
                anna.get_by_role("link", name="PARQUET").click()
            file.value.save_as(tmp_path / file.value.suggested_filename)
            record = verify_certificate(tmp_path / parquet, public_key=found.ledger.public_key)
            assert record["dataset"] == found.ledger.dataset

            spent = found.ledger.spent
            assert spent == Pure("0.5")
            anna.goto(f"{address}/studio/ask/people%202026?question=mean&columns=income&first=eps&eps=0.5")
            expect(anna.get_by_text("This was asked before")).to_be_visible()
            anna.get_by_role("button", name="Ask", exact=True).click()
            anna.get_by_role("button", name="Yes, ask").click()
            expect(anna).to_have_url(release)
            assert found.ledger.spent == spent

            anna.goto(f"{address}/studio/ask/people%202026?question=mean&columns=income&first=eps&eps=0.9")
            expect(anna.get_by_text("Nothing is lost")).to_be_visible()
            expect(anna.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
            ben.goto(f"{address}/studio/")
            width = ben.locator(".budget .spent").get_attribute("width")
            assert float(width) == pytest.approx(250)
            asker.holds()
            other.holds()


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
    with town(tmp_path / "here", granted=("lab-3", "anna"), approve_above="0.3") as found:
        people.set_password(found.desk.database, "anna", PASSWORD)
        with listening(found) as address:
            watched = Watched(chromium, bypass_csp=True, **look)
            page = watched.log_in(address, "anna")
            place = (
                f"{address}/studio/ask/people%202026?question=mean&columns=income&by=region&first=eps&eps="
            )
            for eps in ("0.1", "0.4"):
                page.goto(place + eps)
                page.get_by_role("button", name="Ask", exact=True).click()
                page.get_by_role("button", name="Yes, ask").click()
                page.wait_for_url(re.compile("questions|releases"))
            for path in ("", "ask/people%202026", "tables/people%202026", "synthetic/people%202026", "releases",
                         "releases/people%202026/3", "approvals", "analysts", "account/people%202026", "declare"):  # fmt: skip
                page.goto(f"{address}/studio/{path}")
                page.wait_for_load_state("networkidle")
                assert serious(page) == [], path
                wide = page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert wide <= 1, path
            watched.context.close()
