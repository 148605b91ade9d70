"""The page of a signal, used as a reader uses it: by its buttons and by its keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import oboro as ob
from oboro.report.band import write_band
from support import CHROMIUM

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.long("pages in a browser"),
]


def test_a_year_is_zoomed_by_a_button_and_shown_whole_by_a_key(tmp_path: Path) -> None:
    plan = ob.dynamics.plan("identity", unit=ob.Unit.signal(1), horizon=8759, eps=1, delta="1e-3")
    write_band(
        tmp_path / "band.html",
        plan,
        pa.table({"t": range(8760), "y": [float(hour % 24) for hour in range(8760)]}),
        start="2026-01-01",
        every="1h",
        measured_in="kWh",
    )
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(locale="en-US")
        page.goto((tmp_path / "band.html").as_uri())
        shown = page.locator("#shown")
        first = shown.inner_text()
        assert "2026-01-01" in first
        page.click("#closer")
        closer = shown.inner_text()
        assert closer != first
        page.keyboard.press("Control+0")  # the browser's own
        assert shown.inner_text() == closer
        page.keyboard.press("0")  # the button was used last
        assert "2026-01-01 00:00" in shown.inner_text()
        assert "2026-12-31 23:00" in shown.inner_text()
        page.keyboard.press("+")
        assert "2026-12-31 23:00" not in shown.inner_text()
        assert "kWh" in page.inner_text("h2")
        browser.close()
