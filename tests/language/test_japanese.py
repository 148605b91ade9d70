"""Errors in Japanese: every sentence has one, and its holes fit."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sentences import echoed, is_prose, sentences, spoken

import oboro as ob
from oboro import language
from oboro.statistics.session import Plans

JAPANESE = tomllib.loads((Path(language.__file__).parent / "ja.toml").read_text(encoding="utf-8"))
PARTS, PAGES, PAPERS = (JAPANESE.pop(name) for name in ("parts", "pages", "papers"))


@pytest.mark.long("words in Japanese")
def test_every_sentence_of_an_error_has_a_translation() -> None:
    missing = {text: where for text, where in sentences().items() if is_prose(text) and text not in JAPANESE}
    assert not missing, "\n".join(f"{where}: {text}" for text, where in missing.items())


def test_what_the_command_line_says_has_a_translation() -> None:
    said = spoken()
    assert len(said) > 50  # else this looks in the wrong place
    missing = {text: where for text, where in said.items() if text not in JAPANESE}
    assert not missing, "\n".join(f"{where}: {text}" for text, where in missing.items())


def test_the_command_line_prints_no_sentence_past_the_catalogue() -> None:
    """Prose goes through `said` or `labelled`; what is echoed bare is data, JSON or code."""
    bare = {text: where for text, where in echoed().items() if is_prose(text)}
    assert not bare, "\n".join(f"{where}: {text}" for text, where in bare.items())


def wrong_holes(english: str, japanese: str) -> bool:
    """All holes are numbered or none is, and together they say what the English sentence says."""
    holes = re.findall(r"\{(\d*)[+!]?\}", japanese)
    wanted = english.count("{}")
    return sorted(holes) not in ([""] * wanted, [str(place) for place in range(wanted)])


def test_the_holes_fit() -> None:
    every = [*JAPANESE.items(), *PARTS.items(), *PAPERS.items()]
    assert not [english for english, japanese in every if wrong_holes(english, japanese)]
    assert wrong_holes("{} of {}", "{}")
    assert wrong_holes("{} of {}", "{1}、{}")
    assert not wrong_holes("{} of {}", "{1} の {0}")
    assert not wrong_holes("error of {}", "{+} の誤差")


def test_an_error_speaks_the_language_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    with pytest.raises(ob.OboroError) as caught:
        ob.Integer("age", None, 3)  # type: ignore[arg-type]
    assert "列 'age'" in str(caught.value)
    assert caught.value.to_dict()["message"] == "column 'age' has no bounds"
    monkeypatch.setenv("OBORO_LANGUAGE", "en")
    assert str(caught.value).startswith("column 'age' has no bounds")


@pytest.mark.parametrize(
    ("variable", "value"), [("LANG", "ja_JP.UTF-8"), ("LC_ALL", "ja_JP"), ("OBORO_LANGUAGE", "ja")]
)
@pytest.mark.few(1, "languages of a process")
def test_the_locale_decides_on_the_command_line(variable: str, value: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "oboro", "ledger", "show", "nowhere.ledger"],
        env={variable: value, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert re.search("[ぁ-ん]", run.stderr), run.stderr


def test_sentences_that_stand_together_are_said_one_by_one() -> None:
    text = "the disk is full. Nothing was recorded, so nothing more is spent."
    assert (
        language.said(text, "ja")
        == "ディスクがいっぱいです。何も記録されていないので、支出は増えていません。"
    )
    assert (
        language.said("the moon is full. Nothing was recorded.", "ja")
        == "the moon is full. Nothing was recorded."
    )


def test_a_sentence_that_says_more_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert language.said("nothing that anybody has translated", "ja") == "nothing that anybody has translated"
    assert language.said("column 'x' has no bounds", "ja") == "列 'x' に範囲が宣言されていません"


def test_a_name_is_taken_apart_and_its_columns_stay() -> None:
    said = language.phrase("mean of count by region, where age >= 20", "ja")
    assert said == "region 別の count の平均（条件：age >= 20）"
    assert language.phrase("share of yes, version 1", "ja") == "share of yes, version 1"


def test_a_path_or_a_line_of_code_in_a_hole_stays_as_it_is() -> None:
    assert language.said("{'a': 1} cannot be read", "ja") == "{'a': 1} を読めません"
    assert (
        language.said("people by region; 2026.csv cannot be read", "ja")
        == "people by region; 2026.csv を読めません"
    )


def test_every_refusal_of_sql_has_a_translation() -> None:
    """They are said by functions of their own, which the search for errors does not know."""
    from oboro.statistics import sql

    tree = ast.parse(Path(sql.__file__).read_text(encoding="utf-8"))
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
    named = [
        (call, call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""))
        for call in calls
    ]
    texts = [
        arg for call, name in named for arg in {"no": call.args[1:2], "refused": call.args[:1]}.get(name, [])
    ]
    said = [
        one.value
        for arg in texts
        for one in ast.walk(arg)
        if isinstance(one, ast.Constant) and " " in str(one.value)
    ]
    assert len(said) > 20
    for figure in ("MAX", "MIN", "VARIANCE", "STDDEV", "COVAR_SAMP", "APPROX_COUNT_DISTINCT"):
        columns = "age, age" if figure == "COVAR_SAMP" else "age"
        plans = Plans(ob.Domain([ob.Integer("age", 0, 9)]), ob.Unit.row(), None, table="t")
        with pytest.raises(ob.OboroError) as error:
            plans.sql(f"SELECT {figure}({columns}) FROM t", eps=1)
        said.append(str(error.value.message))
    missing = {
        text
        for text in said
        if text not in JAPANESE and not str(text).startswith("this cannot be asked; ask ")
    }
    missing |= {text for text in said[-6:] if text not in JAPANESE}
    assert not missing


def test_no_space_is_left_between_japanese_and_the_japanese_name_of_a_column() -> None:
    assert language.phrase("mean of 年収 by 性別", "ja") == "性別ごとの年収の平均"
    assert language.phrase("mean of income by 性別", "ja") == "性別ごとの income の平均"


def test_a_tick_of_a_series_and_a_table_by_mesh_are_named_in_japanese() -> None:
    said = language.phrase("tick 5 of a series of 24 tables of counts by row by col: provisional", "ja")
    assert said == "row、col 別の件数の時系列表（24 時点）の時点 5（暫定）"
    assert language.phrase("table of counts by mesh", "ja") == "mesh 別の件数の表"
    assert language.phrase("1 km mesh", "ja") == "1 km メッシュ"


def test_two_options_that_a_fix_goes_without_are_named_once() -> None:
    for text, other in (
        ("--rho 0.00542, without --eps, without --delta", "--rho 0.00542、--eps と --delta なし"),
        ("--eps 1, without --rho", "--eps 1、--rho なし"),
        ("nothing", "なし"),
    ):
        assert language.said(text, "ja") == other
