"""The page about the quality of synthetic data, as it is seen: on a desk and in a hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.report.page import named
from oboro.report.quality import write_quality
from support import CHROMIUM


def people() -> pa.Table:
    rng = np.random.default_rng(1)
    words = ["strongly_agree_with_a_long_statement", "agree", "neutral", "no", "never"]
    return pa.table(
        {
            "age": rng.integers(0, 90, 600),
            "born": np.datetime64("1941-01-28") + rng.integers(0, 20_000, 600),
            "joined": np.datetime64("2001-01-28") + rng.integers(0, 5_000, 600),
            "said": np.array(words)[rng.integers(0, 5, 600)],
            "a_column_with_a_name_that_takes_more_than_a_line": rng.integers(0, 90, 600),
        }
    )


LINES = """() => [...document.querySelectorAll(".columns .ends span")].filter(one => /\\d{4}-\\d\\d/.test(one.textContent)).map(one => {
  const text = document.createRange(); text.selectNodeContents(one);
  return new Set([...text.getClientRects()].map(box => Math.round(box.top))).size;
})"""
TOPS = """() => [...document.querySelectorAll(".columns .bars svg")].map(one => Math.round(one.getBoundingClientRect().top))"""


@pytest.mark.long("pages in a browser")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize(("width", "across"), [(1200, 4), (390, 2)])
def test_dates_stay_whole_and_charts_stand_in_line(width: int, across: int, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    table = people()
    write_quality(ob.synth.quality(table, table), tmp_path / "q.html")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "q.html").as_uri())
        assert page.evaluate(LINES) == [1] * 4
        tops = page.evaluate(TOPS)
        assert [len(set(tops[at : at + across])) for at in range(0, len(tops), across)] == [1] * -(
            -5 // across
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()


SQUARES = """() => [...document.querySelectorAll(".matrix")].map(one => {
  one.scrollLeft = 200;
  const names = one.querySelector("ul"), all = one.getBoundingClientRect(), rows = one.querySelectorAll("li");
  const cells = [...one.querySelectorAll("rect.cell")].map(cell => Math.round(cell.getBoundingClientRect().top));
  return {stays: Math.round(names.getBoundingClientRect().left - all.left), share: names.offsetWidth / all.width,
    whole: [...rows].every(row => row.scrollHeight <= row.clientHeight + 1 && row.scrollWidth <= row.clientWidth + 1),
    lines: [...rows].every(row => cells.some(top => Math.abs(top - row.getBoundingClientRect().top) < 3))};
})"""


@pytest.mark.long("pages in a browser")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize(("width", "count"), [(400, 12), (400, 3), (1200, 40)])
def test_names_of_rows_stay_beside_their_squares_and_leave_them_room(
    width: int, count: int, tmp_path: Path
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    draw = np.random.default_rng(2)
    table = {f"a_rather_long_name_{i}": draw.normal(size=60) for i in range(count)}
    write_quality(ob.synth.quality(table, table), tmp_path / "q.html")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "q.html").as_uri())
        found = page.evaluate(SQUARES)
        assert len(found) == 4
        assert all(
            one["stays"] == 0 and one["share"] < 0.35 and one["lines"] and one["whole"] for one in found
        ), found
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()


def test_a_long_name_breaks_where_its_words_end() -> None:
    assert named("agree_with<b>_1") == "agree_<wbr>with&lt;b&gt;_<wbr>1"
    assert named("年齢") == "年齢"
