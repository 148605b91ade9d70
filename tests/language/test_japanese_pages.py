"""Pages speak both languages: no sentence on them is English in the Japanese version."""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path

import pyarrow as pa
import pytest
from sentences import is_prose

import oboro as ob
from oboro import language
from oboro.audit import run
from oboro.audit.samples import samples
from oboro.domain import Domain, Grid
from oboro.language import of_pages
from oboro.privacy import Unit
from oboro.report.audit import write_audit
from oboro.report.band import write_band, write_outliers
from oboro.report.forecast import write_forecast
from oboro.report.page import Words, both, say


def english_only(page: str) -> list[str]:
    """Prose that is the same in both languages, and prose that stands outside of them."""
    pairs = re.findall(r'data-(?:label-)?en="([^"]*)" data-(?:label-)?ja="([^"]*)"', page)
    same = [html.unescape(en) for en, ja in pairs if en == ja]
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page.partition("<body>")[2], flags=re.DOTALL)
    bare = re.findall(r"<(?![^>]*data-en=)[^>]*>([^<]+)<", body)
    return [text for text in [*same, *map(html.unescape, bare)] if is_prose(text.strip())]


def test_a_sentence_in_english_only_would_be_found() -> None:
    assert english_only("<body><p>this was never translated</p></body>")
    assert english_only("<body>" + say(Words.same("this was never translated"), "p") + "</body>")
    assert not english_only("<body>" + say(Words("this was translated", "訳しました"), "p") + "</body>")


def studio_says(folder: Path) -> set[str]:
    """What the pages of the studio say: in their templates, and by `here.say` in Python."""
    said = {
        text
        for path in folder.glob("templates/*.html")
        for text in re.findall(r'say\("([^"]*)"', path.read_text(encoding="utf-8"))
    }
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", ""))
            if named == "say" and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                said.add(node.args[0].value)  # type: ignore[attr-defined]
    assert len(said) > 100
    return said


def test_a_template_of_the_studio_says_nothing_past_the_catalogue() -> None:
    import oboro.service.studio.page as studio

    for path in (Path(studio.__file__).parent / "templates").glob("*.html"):
        text = re.sub(
            r"{%.*?%}|{{.*?}}|<title>.*?</title>", "\0", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        bare = re.findall(r">([^<]+)<", text.replace("\0", ""))
        assert not [one for one in bare if is_prose(one.strip())], path.name
        assert not re.findall(r'(?:aria-label|placeholder|title)="[a-z][^"]* [^"]*"', text), path.name


@pytest.mark.long("words in Japanese")
def test_the_catalogue_has_what_pages_say_and_nothing_else() -> None:
    """All Japanese stands in one file, with the same names in braces; a sentence without it fails when it is said."""
    root = Path(ob.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    calls = [
        node for text in sources.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)
    ]
    said = {
        ast.literal_eval(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "both"
    }
    said |= studio_says(root / "service" / "studio")
    pages = language._file("ja")[2]
    assert set(pages) <= said
    assert all(of_pages(text, "ja") for text in said)
    assert not [
        en for en, ja in pages.items() if set(re.findall(r"{\w*}", en)) != set(re.findall(r"{\w*}", ja))
    ]
    button = ">日本語</button>"  # a language is named in itself
    assert not [
        path for path, text in sources.items() if re.search("[ぁ-んァ-ヶ一-龠]", text.replace(button, ""))
    ]
    with pytest.raises(KeyError):
        both("this was never translated")


@pytest.mark.long("languages of a process")
def test_forecast_audit_band_and_outliers_pages(tmp_path: Path) -> None:
    domain = Domain([Grid("row", "col", shape=(8, 8))])
    plan = ob.tables.plan(domain, unit=Unit.cells(), eps=1, count="people")
    write_forecast(plan, tmp_path / "forecast.html", expected_total=1000)
    write_audit([run(samples()["count"], 2000)], tmp_path / "audit.html")
    write_outliers(tmp_path / "outliers.html", eps="1", delta="1e-3")
    system = ([["0.9"]], [["1"]], [["1"]], [["0"]])
    signal = ob.dynamics.plan(system, unit=Unit.signal(1), horizon=9, eps=1, delta="1e-3")
    table = pa.table({"t": list(range(10)), "y": [0.5] * 10})
    write_band(tmp_path / "band.html", signal, table, truth=[0.0] * 10, private=False)
    for page in sorted(tmp_path.glob("*.html")):
        assert not english_only(page.read_text(encoding="utf-8")), page.name


def test_without_a_language_the_browser_decides(tmp_path: Path) -> None:
    domain = Domain([Grid("row", "col", shape=(8, 8))])
    plan = ob.tables.plan(domain, unit=Unit.cells(), eps=1, count="people")
    for chosen in (None, "ja"):
        page = write_forecast(plan, tmp_path / "page.html", language=chosen).read_text(encoding="utf-8")
        assert ('data-language="ja"' in page.partition("<head>")[0]) == (chosen == "ja")
        assert "navigator.language" in page
