"""What reports are made of: packed integers, colours, words, charts, promises."""

from __future__ import annotations

import math
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro import language
from oboro.cli.options import _a_page
from oboro.errors import ParameterError
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.report import cells, chart, page, promise
from oboro.report import chart as areas
from oboro.report.map import pack, unpack
from oboro.report.page import INTERNAL, MAP, PAGE, PROMISE, Words, asset, render, safe_json, say, write_page


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300)))
def test_packed_integers_come_out_as_they_went_in(numbers: list[int]) -> None:
    assert unpack(pack(np.array(numbers, np.int64))).tolist() == numbers


def test_the_same_counts_make_the_same_page() -> None:
    assert pack(np.arange(9)) == pack(np.arange(9))
    with pytest.raises(ValueError, match="negative"):
        pack(np.array([-1]))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_are_ordered_by_lightness_in_even_steps(theme: str) -> None:
    colours = cells.sequential(theme)
    light = [cells.lightness(each) for each in colours]
    assert light == sorted(light, reverse=theme == "light")
    steps = [math.dist(cells.to_lab(one), cells.to_lab(other)) for one, other in pairwise(colours)]
    assert max(steps) < 1.35 * min(steps)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_too_few_and_too_many_differ_along_blue_and_yellow_which_nearly_everyone_sees(theme: str) -> None:
    colours = cells.diverging(theme)
    half = len(colours) // 2
    assert all(
        cells.to_lab(below)[2] > 0 > cells.to_lab(above)[2]
        for below, above in zip(colours[:half], colours[half:], strict=True)
    )


def test_both_languages_say_the_same_things() -> None:
    for key, words in {**PAGE, **PROMISE, **MAP, **INTERNAL}.items():
        assert isinstance(words, Words)
        assert words.en, key
        assert words.ja, key
        assert set(re.findall(r"{(\w+)}", words.en)) == set(re.findall(r"{(\w+)}", words.ja)), key


def test_the_script_says_only_what_has_words() -> None:
    said = set(re.findall(r'say\((?:[^")]*\? )?"(\w+)"', asset("map.js") + asset("page.js")))
    assert said
    assert said <= {*PAGE, *MAP}


def test_json_cannot_leave_its_script() -> None:
    text = safe_json({"</script>": "<!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)


@pytest.mark.parametrize(
    ("guarantee", "said"),
    [
        ({"kind": "pure", "eps": "0.1"}, ["a factor of at most 1.11.", "next to nothing about that row"]),
        ({"kind": "pure", "eps": "1"}, ["a factor of at most 2.72.", "says little about that row"]),
        ({"kind": "pure", "eps": "10"}, ["a factor of at most 22,027."]),
        (
            {"kind": "approx", "eps": "1/2", "delta": "1e-6"},
            ["at most 1.65.", "says little", "probability of at most 1e-6"],
        ),
        (
            {"kind": "zcdp", "rho": "0.5", "in_words": "rho = 0.5 (zCDP)"},
            ["any one row is bounded: rho = 0.5 (zCDP)."],
        ),
        (
            {
                "kind": "conditional",
                "guarantee": {"kind": "pure", "eps": "0"},
                "assumptions": ["they do not collude"],
            },
            ["at most 1.00.", "next to nothing", "provided that they do not collude."],
        ),
    ],
)
def test_the_promise_in_plain_words_is_never_rounded_in_its_own_favour(
    guarantee: dict[str, Any], said: list[str]
) -> None:
    sentences = promise.in_words({"unit": {"kind": "row", "adjacency": "add/remove"}, "guarantee": guarantee})
    assert len(sentences) == len(said)
    for sentence, part in zip(sentences, said, strict=True):
        assert part in sentence.en


def test_a_replaced_person_is_promised_something_else() -> None:
    unit = {"kind": "person", "adjacency": "replace", "column": "user_id", "max_rows": 20, "in_words": "..."}
    first = promise.in_words({"unit": unit, "guarantee": {"kind": "pure", "eps": "0.1"}})[0]
    assert first.en.startswith("Whatever the data of any one user_id say")
    assert promise.unit_words(unit).ja == "同じ user_id のすべての行（使うのは最大 20 行）の置き換え"


@pytest.mark.parametrize(
    "unit",
    [
        Unit.row(),
        Unit.row(adjacency="replace"),
        Unit.person("user_id", max_rows=20),
        Unit.cells(),
        Unit.cells(3, 2),
        Unit.cells(1, 1, adjacency="replace"),
        Unit.signal(1),
    ],
    ids=str,
)
def test_a_page_and_the_command_line_name_the_unit_alike(unit: Unit) -> None:
    shown = promise.unit_words(unit.to_dict())
    assert (shown.en, shown.ja) == (str(unit), language.said(str(unit), "ja"))
    assert shown.ja != shown.en


def test_widths_are_read_by_block_and_by_mesh() -> None:
    rows = [["1 x 1", "3"], ["4×4 cells", "1,200"], ["2 x 4", "9"], ["1km", "5"], ["all", "7"]]
    assert promise.widths({"columns": ["block", "95% within ±"], "rows": rows}) == {
        "1": 3.0,
        "4": 1200.0,
        "1 km": 5.0,
    }
    assert promise.widths({"columns": ["block", "standard error"], "rows": rows}) == {}


def test_a_chart_has_a_point_for_each_value_and_none_without() -> None:
    drawn = chart.line_chart(["1", "2", "4"], {"a<b": [1, 10, 0], "c": [5, 50, 500]}, describe='"error"')
    assert drawn.count("<circle") == drawn.count("<polygon") == 3, "each line has marks of its own"
    assert 's0" ' in drawn
    assert 's1 dashed" ' in drawn, "and is told apart without its colour"
    assert "a&lt;b" in drawn
    assert "&quot;error&quot;" in drawn
    assert chart.line_chart(["1"], {"a": [1]}, describe="") == ""
    assert chart.line_chart(["1", "2"], {"a": [0, 0]}, describe="") == ""


def test_what_is_the_same_in_both_languages_is_said_once() -> None:
    assert say(Words.same("a<b"), "td") == "<td>a&lt;b</td>"


def test_areas_are_named_in_cells_where_one_grid_alone_is_meant() -> None:
    plain = [words.en.replace("\u00a0", " ") for words in areas.block_words(["8 x 8 of row,col; each sex"])]
    assert plain == ["8 × 8 cells; each sex"]
    folded = areas.block_words(["2 x 2 to 512 x 512 of row,col", "all of row,col"])
    assert [words.ja.replace("\u00a0", " ") for words in folded] == ["2 × 2 ～ 512 × 512 セル", "全セル"]
    two = "8 x 8 of row,col; 4 x 4 of to_row,to_col"  # which grid is meant must stay
    assert areas.block_words([two])[0].en.replace("\u00a0", " ") == two


def test_figures_of_a_column_have_the_same_decimals() -> None:
    assert [words.en for words in areas.aligned([5.204, 24.9, 1041.38])] == ["5.20", "24.90", "1,041.38"]
    assert [words.en for words in areas.aligned([1, 1024])] == ["1", "1,024"]
    assert [words.ja for words in areas.aligned(["2^0", "2^2 to 2^18"])] == ["2⁰", "2² ～ 2¹⁸"]
    assert areas.aligned([]) == []
    assert [words.en for words in areas.aligned([0.0, 0.0])] == ["0", "0"]


def test_the_forecast_of_a_certificate_is_drawn_by_breakdown() -> None:
    rows = [
        [f"{side} x {side} of row,col; {who} sex", str(side), "1", f"{side}.5"]
        for side in (1, 2)
        for who in ("each", "all of")
    ]
    record = {
        "title": "t",
        "columns": ["block size", "cells", "standard error", "95% within ±"],
        "rows": rows,
    }
    card = promise.error_by_size(record)
    assert card.count("<polyline") == 2
    assert "side of the block, in cells" in card
    assert "<td>2.50</td>" in card
    assert promise.error_by_size({}) == ""
    assert areas.error_chart(Forecast("t", ("block size",), (("all",),))) == ""


def _contrast(one: str, other: str) -> float:
    """Of WCAG, from relative luminances."""
    shown = []
    for sign in (one, other):
        parts = [int(sign[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        shown.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(shown) + 0.05) / (min(shown) + 0.05)


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
def test_every_letter_stands_out_from_its_ground(theme: str) -> None:
    style = asset("page.css")
    block = style[style.index(theme) : style.index("}", style.index(theme))]
    named = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b", block))
    for ink in ("ink", "soft", "warn", "accent"):
        for ground in ("paper", "card", "field"):
            assert _contrast(named[ink], named[ground]) >= 4.5, (ink, ground)
    assert _contrast("#ffffff", named["alarm"]) >= 4.5
    for line in (f"s{i}" for i in range(7)):
        assert _contrast(named[line], named["card"]) >= 3, line  # lines and bars
    assert _contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_a_page_is_written_over_nothing_but_a_page(tmp_path: Path) -> None:
    """Somebody's own page of the same name cannot be made again."""
    path = tmp_path / "page.html"
    write_page(path, render(title="one", body=""))
    write_page(path, render(title="two", body="", language="ja"))
    assert "two" in path.read_text(encoding="utf-8")
    for mine in (
        "<!DOCTYPE html>\n<p>mine",
        "",
        render(title="one", body="").replace("<!DOCTYPE html>", "mine"),
    ):
        path.write_text(mine, encoding="utf-8")
        for door in (lambda: write_page(path, "x"), lambda: _a_page(path)):
            with pytest.raises(ParameterError, match="is no page that oboro made") as refused:
                door()
            assert refused.value.fix == f"-o {shlex.quote(str(tmp_path / 'page-2.html'))}"
        assert path.read_text(encoding="utf-8") == mine


def test_all_pages_are_written_in_one_place() -> None:
    writers = [
        one.name for one in Path(page.__file__).parent.glob("*.py") if "write_whole" in one.read_text("utf-8")
    ]
    assert writers == ["page.py"]
