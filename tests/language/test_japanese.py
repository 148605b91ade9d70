"""Errors in Japanese: every sentence has one, and its holes fit."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sentences import is_prose, sentences

import oboro as ob
from oboro import language

JAPANESE = tomllib.loads((Path(language.__file__).parent / "ja.toml").read_text())


def test_every_sentence_of_an_error_has_a_translation() -> None:
    missing = {text: where for text, where in sentences().items() if is_prose(text) and text not in JAPANESE}
    assert not missing, "\n".join(f"{where}: {text}" for text, where in missing.items())


def wrong_holes(english: str, japanese: str) -> bool:
    """All holes are numbered or none is, and together they say what the English sentence says."""
    holes = re.findall(r"\{(\d*)\}", japanese)
    wanted = english.count("{}")
    return sorted(holes) not in ([""] * wanted, [str(place) for place in range(wanted)])


def test_the_holes_fit() -> None:
    assert not [english for english, japanese in JAPANESE.items() if wrong_holes(english, japanese)]
    assert wrong_holes("{} of {}", "{}")
    assert wrong_holes("{} of {}", "{1}、{}")
    assert not wrong_holes("{} of {}", "{1} の {0}")


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


def test_a_sentence_that_says_more_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert language.said("nothing that anybody has translated", "ja") == "nothing that anybody has translated"
    assert language.said("column 'x' has no bounds", "ja") == "列 'x' に範囲が宣言されていません"
