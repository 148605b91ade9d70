"""The page of reproductions: every table and figure, drawn, with the paper's errors."""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oboro.cli.main import app
from oboro.errors import ParameterError
from oboro.release.reproduction import Cells, Curve, Curves, Reproduction, bars_of, curves_of
from oboro.report.papers import write_papers

TABLE = Reproduction(
    "kii-example",
    "Figure 0: <an example>",
    ("k", "printed", "ours"),
    ((1, "0.5", 0.25), (2, None, 1e-7)),
    errors=("0.5 is printed where it is 0.25.",),
    notes=("made up",),
    figures=(
        Curves(
            "laws",
            (Curve("ours", ((1.0, 0.25), (2.0, 1e-7))), Curve("ours", ((1.0, 0.5),), printed=True)),
            "k",
            "P(k)",
            log_y=True,
        ),
        Cells("a map", np.array([[0.0, -3.0], [5.0, 0.0]])),
    ),
)


def pixels(page: str) -> np.ndarray:
    """The picture on a page, as rows of red, green and blue."""
    found = re.search(r"data:image/png;base64,([^\"]+)", page)
    assert found
    raw = base64.b64decode(found[1])
    width, height = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    start = raw.index(b"IDAT") + 4
    size = int.from_bytes(raw[start - 8 : start - 4], "big")
    rows = np.frombuffer(zlib.decompress(raw[start : start + size]), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def test_a_page_shows_the_table_its_figures_and_the_errors(tmp_path: Path) -> None:
    page = write_papers([TABLE], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;an example&gt;" in page
    assert "<an example>" not in page
    assert "0.5 is printed where it is 0.25." in page
    assert "1e-7" in page
    assert page.count("<polyline") == 1
    assert page.count("<circle cx=") >= 1
    shown = pixels(page).astype(int)
    assert (shown[0, 0] == 255).all()
    assert shown[0, 1, 0] > shown[0, 1, 2] + 50  # negative: red
    assert shown[1, 0, 2] > shown[1, 0, 0] + 30  # positive: blue
    assert not re.search(r"https?://", page)  # it asks nothing of any server


def test_rows_become_curves_and_what_is_printed_becomes_dots() -> None:
    found = curves_of("t", (1, 2, 4), [("a", 3, None, 5), ("  printed", 3, 4, None)], below="x", beside="y")
    assert [curve.printed for curve in found.curves] == [False, True]
    assert found.curves[0].points == ((1.0, 3.0), (4.0, 5.0))
    assert found.curves[1].name == "a"


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    target = tmp_path / "figure.html"
    done = CliRunner().invoke(app, ["reproduce", "kii-fig3", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_text(encoding="utf-8").count("<polyline") == 5
    both = CliRunner().invoke(app, ["reproduce", "kii-fig3", "--all"])
    assert isinstance(
        both.exception, ParameterError
    )  # one of the two would have been left out without a word
    missing = CliRunner().invoke(app, ["reproduce", "-o", str(target)])
    assert missing.exit_code != 0


def test_a_page_never_replaces_the_data_that_it_is_made_from(tmp_path: Path) -> None:
    cells = tmp_path / "cells.txt"
    cells.write_text("KEY_CODE,T001101001\n5339,7\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["reproduce", "terada-table2", "--data", str(cells), f"-o{cells}"])
    assert done.exit_code != 0
    assert cells.read_text(encoding="utf-8").startswith("KEY_CODE")


def test_bars_have_their_values_and_what_is_printed_is_an_outline(tmp_path: Path) -> None:
    bars = bars_of("sizes", [("a", 2, 3.5), ("b", None, 0.25)], ("printed", "ours"), below="size")
    assert bars.series == (("printed", (2.0, None)), ("ours", (3.5, 0.25)))
    one = Reproduction("kii-example", "Bars", ("", "printed"), (), figures=(bars,))
    page = write_papers([one], tmp_path / "page.html").read_text(encoding="utf-8")
    widths = [
        float(found) for found in re.findall(r'<g class="series[^>]*><rect [^>]*width="([\d.]+)"', page)
    ]
    assert len(widths) == 3
    assert widths[1] / widths[0] == pytest.approx(3.5 / 2, rel=0.01)
    assert page.count(' printed"><rect') == 1
    assert ">3.5</text>" in page
