"""Makes the pictures of docs/studio.md: every page of the studio, in both languages. Needs Chromium and Playwright.

python docs/build_studio.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))

HERE = Path(__file__).parent
PASSWORD = "a long password"
WIDTH, HEIGHT = 1180, 820


def main() -> None:
    import service_town

    from oboro.cli.demo import demo
    from oboro.privacy import Approx, Unit
    from oboro.service import people
    from oboro.service.demo import generated
    from oboro.service.slots import Slot

    folder = Path(tempfile.mkdtemp(prefix="oboro-pictures-"))
    demo(folder / "city")
    with (
        service_town.town(
            folder / "town",
            generated(20_000),
            budget=Approx(10, "1e-4"),
            grant=Approx(2, "1e-5"),
            unit=Unit.person("who", 4),
            granted=("lab-3", "anna"),
            approve_above="0.3",
            slot=Slot(1, 1_500),
        ) as town,
        sync_playwright() as driver,
    ):
        for name in ("lab-3", "anna", "ben"):
            people.set_password(town.desk.database, name, PASSWORD)
        (folder / "town" / "declared").mkdir()
        shutil.copy(folder / "town" / "people.parquet", folder / "town" / "declared" / "people.parquet")
        text = town.settings.file.read_text() + '\n[studio]\nfolder = "declared"\n'
        town.settings.file.write_text(text)
        from oboro.service.settings import read_settings

        town.desk.settings = town.door.settings = read_settings(town.settings.file)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with (
            service_town.listening(town) as address,
            city(folder / "city" / "city.toml") as entrance,
            hourly(folder / "hours") as series,
        ):
            cities = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, locale="en-US")
            cities.new_page().goto(entrance)
            for language in ("en", "ja"):
                pictures(browser, cities.pages[0], address, entrance.partition("/studio")[0], language)
                moved(browser, series, language)
        browser.close()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def city(file: Path) -> Iterator[str]:
    from oboro.service.studio.local import Studio

    studio, handle, ready = Studio(file), [], threading.Event()
    thread = threading.Thread(target=lambda: studio.run(lambda _: ready.set(), handle=handle), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield studio.address
    finally:
        handle[0].should_exit = True
        thread.join(30)


@contextmanager
def hourly(folder: Path) -> Iterator[str]:
    """A day of a town, hour by hour: people come to its middle and go home. Nobody in it is real."""
    import numpy as np
    import pyarrow as pa
    import service_town

    from oboro import tables
    from oboro.domain import Domain, Grid
    from oboro.privacy import Pure, Unit
    from oboro.service import people

    domain, unit = Domain([Grid("row", "col", shape=(64, 64))]), Unit.person("who", 24)
    random = np.random.default_rng(1)
    home = np.stack([random.normal(20, 11, 60_000), random.normal(42, 12, 60_000)])
    work = np.stack([random.normal(38, 5, 60_000), random.normal(26, 6, 60_000)])

    def at(hour: int) -> pa.Table:
        share = max(0.0, 1 - abs(hour - 13) / 7) ** 0.5
        away = random.random(60_000) < share
        here = random.random(60_000) < 0.75 + 0.25 * share
        row, col = np.clip(np.where(away, work, home), 0, 63).astype(int)[:, here]
        return pa.table(
            {"who": np.flatnonzero(here), "tick": np.full(here.sum(), hour), "row": row, "col": col}
        )

    with service_town.town(folder, at(0), domain=domain, unit=unit, budget=Pure(20)) as found:
        people.set_password(found.desk.database, "anna", PASSWORD)
        plan = tables.plan(
            domain, unit=unit, eps="6", ticks=24, max_ticks=24, workload=tables.each_tick("4x4")
        )
        series = tables.series(plan, ledger=found.ledger, name="1 March, hour by hour")
        for hour in (*range(4), *range(5, 19)):
            series.publish(at(hour), hour)
        with service_town.listening(found) as address:
            yield address


def moved(browser: Any, address: str, language: str) -> None:
    """The slider of the hours, moved to one of them."""
    locale = {"en": "en-US", "ja": "ja-JP"}[language]
    page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, locale=locale).new_page()
    page.goto(f"{address}/studio/")
    page.fill("[name=name]", "anna")
    page.fill("[name=password]", PASSWORD)
    page.click("button.main")
    page.goto(f"{address}/studio/tables/people%202026")
    page.locator(".plain.big a").click()
    page.locator("#tick").fill("11")
    page.wait_for_url("**tick=11")
    page.locator("h1").click()
    taken(page, "hours", language)


def taken(page: Any, name: str, language: str) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    kept = HERE / f"studio-{name}-{language}.png"
    page.screenshot(path=kept, full_page=True)
    Image.open(kept).convert("RGB").quantize(160).save(kept, optimize=True)


def pictures(browser: Any, local: Any, address: str, own: str, language: str) -> None:
    def at(name: str, theme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT},
            locale={"en": "en-US", "ja": "ja-JP"}[language],
            color_scheme=theme,
        )
        page = context.new_page()
        page.goto(f"{address}/studio/")
        page.fill("[name=name]", name)
        page.fill("[name=password]", PASSWORD)
        page.click("button.main")
        return page

    where = f"{address}/studio"
    eps = {"en": "0.2", "ja": "0.21"}[language]
    lab, anna, ben = at("lab-3"), at("anna"), at("ben")
    mean = f"{where}/ask/people%202026?question=mean&columns=income&by=region&first=eps&eps={eps}"
    lab.goto(mean)
    lab.wait_for_selector(".forecast")
    lab.wait_for_load_state("networkidle")
    lab.check("[name=first][value=accuracy]")
    taken(lab, "ask", language)
    asked(lab)
    lab.wait_for_url("**/releases/**", timeout=60_000)
    taken(lab, "release", language)
    lab.goto(
        f"{where}/synthetic/people%202026?eps=0.25&delta=1e-6&columns=age&columns=region&columns=income&first=eps"
    )
    lab.wait_for_selector(".forecast", timeout=60_000)
    taken(lab, "synthetic", language)
    anna.goto(f"{where}/ask/people%202026?question=histogram&columns=age&first=eps&eps={eps}9")
    anna.wait_for_selector(".forecast")
    asked(anna)
    anna.wait_for_url("**/releases/**", timeout=60_000)
    anna.goto(
        f"{where}/ask/people%202026?question=median&columns=income&first=eps&eps={eps.replace('0.2', '0.4')}"
    )
    anna.wait_for_selector(".forecast")
    asked(anna)
    for name in ("", "releases", "analysts"):
        anna.goto(f"{where}/{name}")
        taken(anna, name or "home", language)
    anna.goto(f"{where}/declare/people.parquet")
    declared(anna)
    taken(anna, "declare", language)
    ben.goto(f"{where}/approvals")
    taken(ben, "approvals", language)
    ben.locator("button.main").first.click()
    ben.goto(f"{where}/account/people%202026")
    taken(ben, "account", language)
    local.goto(f"{own}/studio/language/{language}")
    local.goto(f"{own}/studio/tables?beside=1&first=eps&eps=0.1")
    local.goto(f"{own}/studio/tables/demo%20city?beside=1&first=eps&eps=0.1")
    local.wait_for_selector(".forecast", timeout=120_000)
    taken(local, "tables", language)
    local.goto(f"{own}/studio/releases/demo%20city/1")
    taken(local, "table", language)
    dark = at("lab-3", "dark")
    dark.set_viewport_size({"width": 390, "height": 844})
    dark.goto(mean)
    dark.wait_for_selector(".forecast")
    taken(dark, "phone", language)


def asked(page: Any) -> None:
    page.click(".forecast button.main")
    page.click("dialog button.main")


def declared(page: Any) -> None:
    page.select_option("[name='kind.0']", "person")
    page.fill("[name=max_rows]", "4")
    for at, low, high in ((1, "0", "99"), (2, "0", "20000")):
        page.select_option(f"[name='kind.{at}']", "integer")
        page.fill(f"[name='low.{at}']", low)
        page.fill(f"[name='high.{at}']", high)
    page.select_option("[name='kind.3']", "category")
    page.fill("[name='values.3']", "north\neast\nsouth\nwest")
    page.wait_for_selector("#written .good")
    page.locator("button.danger").click()
    page.wait_for_selector("#checked table")


if __name__ == "__main__":
    main()
