"""What `oboro reproduce` says in Japanese: no sentence, label or caption of it is left in English."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oboro import language
from oboro.cli.checks import reproductions
from oboro.cli.main import app
from oboro.language import reproduced
from oboro.release.reproduction import Bars, Cells, Curves, Reproduction
from oboro.report.papers import write_papers

# names, and words of formulas, that are the same in every language
FORMULAS = "alpha beta delta eps gamma init iv ln log mu rho sensitivity sinh sqrt"
CODE = "oboro reproduce secure figure synth account method lloyd grid slides moments data adult kii miura fig conjecture svg"
SAME = {*FORMULAS.split(), *CODE.split()}
QUICK = [name for name in reproductions() if name.startswith(("kii", "miura"))]


def texts(one: Reproduction) -> Iterator[str]:
    """Everything that a reproduction shows, on a terminal or on a page."""
    yield from (one.title, *one.columns, *one.errors, *one.notes)
    yield from (value.strip() for row in one.rows for value in row if isinstance(value, str))
    for figure in one.figures:
        yield figure.title
        if isinstance(figure, Curves):
            yield from (figure.below, figure.beside, figure.dots, *(curve.name for curve in figure.curves))
        if isinstance(figure, Bars):
            yield from (figure.below, *figure.names, *(name for name, _ in figure.series))


def english(text: str) -> list[str]:
    """The English words of a text in Japanese."""
    return [
        word
        for word in re.findall(r"(?<![A-Za-zé0-9_^-])[a-z]{2,}(?![A-Za-z0-9_(])", text)
        if word not in SAME
    ]


def test_a_label_in_english_would_be_found() -> None:
    assert english("rows, one after the other")
    assert english("記録 of the mean")
    assert not english("eps = 0.1、delta = 1e-6 での ln P(k+1) - ln P(k)")


@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_left_in_english(name: str) -> None:
    found = reproductions()[name]
    shown = [reproduced(text, "ja") for text in (found.title, *texts(found.make()))]
    assert not [text for text in shown if english(text)]


def test_the_list_and_a_table_speak_the_language_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    monkeypatch.delenv("OBORO_LANGUAGE", raising=False)
    monkeypatch.delenv("LC_ALL", raising=False)
    listed = CliRunner().invoke(app, ["reproduce"]).output
    assert len(listed.splitlines()) == len(reproductions())
    assert not [line for line in listed.splitlines() if english(line.strip().partition(" ")[2])]
    shown = CliRunner().invoke(app, ["reproduce", "miura-triangle"]).output
    assert "✗ 論文の誤り：弱三角不等式" in shown
    assert not [line for line in shown.splitlines() if english(line)]
    assert '"title": "Lemma' in CliRunner().invoke(app, ["reproduce", "miura-triangle", "--json"]).output


def test_a_page_speaks_both(tmp_path: Path) -> None:
    found = reproductions()["kii-conjecture"].make()
    page = write_papers([found], tmp_path / "page.html").read_text(encoding="utf-8")
    pairs = re.findall(r'data-en="([^"]*)" data-ja="([^"]*)"', page)
    assert ("the limit", "極限") in pairs
    assert not [ja for en, ja in pairs if english(html.unescape(ja)) and en == ja]


@pytest.mark.long("pages of reproductions")
def test_every_reproduction_is_said_in_japanese_and_drawn(tmp_path: Path) -> None:
    """All of them at once, with those on data of one's own; and the catalogue has nothing that is never said."""
    adult, mesh = tmp_path / "adult.data", tmp_path / "mesh.txt"
    numbers = [[(7 * i + k * k * i * i) % 97 for k in range(6)] for i in range(40)]
    adult.write_text(
        "\n".join(f"{a}, x, {b}, x, {c}, x, x, x, x, x, {d}, {e}, {f}, x, x" for a, b, c, d, e, f in numbers)
    )
    mesh.write_text("\n".join(f"{code},0,,,{code % 50}" for code in range(533900001, 533900005)))
    known = reproductions()
    made = [one.make() for one in known.values()]
    given = [known["miura-adult"].given, known["terada-table2"].given]
    made += [make([str(file)]) for make, file in zip(given, (adult, mesh), strict=True) if make is not None]
    said = {text for one in made for text in texts(one)} | {one.title for one in known.values()}
    assert not [text for text in said if english(reproduced(text, "ja"))]
    for one in made:
        assert one.figures, one.name
        for figure in one.figures:
            assert isinstance(figure, Cells) or _drawn(figure) > 1, (one.name, figure.title)
    page = write_papers(made, tmp_path / "papers.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in known)
    exact, patterns = language._papers("ja")
    said |= {"the paper errs: {}", "note: {}", "Proposed", "Privelet (2D)", "Privelet (Morton)"}
    assert not [text for text in exact if text not in said]
    assert not [text.pattern for text, _ in patterns if not any(text.fullmatch(one) for one in said)]


def _drawn(figure: Curves | Bars) -> int:
    if isinstance(figure, Bars):
        return sum(value is not None for _, values in figure.series for value in values)
    return sum(len(curve.points) for curve in figure.curves)
