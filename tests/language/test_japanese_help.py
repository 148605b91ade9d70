"""`--help` in Japanese: every sentence of every command has one."""

from __future__ import annotations

import re
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oboro import language
from oboro.cli import main
from oboro.cli.terminal import whole_command

JAPANESE = tomllib.loads((Path(language.__file__).parent / "ja.toml").read_text(encoding="utf-8"))


def helps(command: Any) -> Iterator[str]:
    """What the help of a command says, and of all commands below it."""
    yield from (command.help or "").strip().split("\n\n")
    yield from (one.help for one in command.params if getattr(one, "help", None))
    for inner in getattr(command, "commands", {}).values():
        yield from helps(inner)


def test_every_help_has_a_translation() -> None:
    said = {text.strip() for text in helps(whole_command("as it is written"))}
    assert len(said) > 150  # else this looks in the wrong place
    assert not {text for text in said if text and text not in JAPANESE}


def ends(command: Any) -> Iterator[str]:
    """What stands below the help of a command and of all below it, and the headings under which they are listed."""
    yield from (text for text in (command.epilog, getattr(command, "rich_help_panel", None)) if text)
    for inner in getattr(command, "commands", {}).values():
        yield from ends(inner)


def test_what_stands_below_a_help_and_above_a_list_of_commands_has_a_translation() -> None:
    said = set(ends(whole_command("as it is written")))
    assert len(said) > 20  # else this looks in the wrong place
    assert not {text for text in said if language.said(text, "ja") == text}


def test_help_speaks_the_language_of_the_locale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    monkeypatch.setattr(sys, "argv", ["oboro", "ledger", "fetch", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert "支払い済みの公開" in shown
    assert "例：oboro ledger fetch people.ledger" in shown
    words = set(re.findall(r"[A-Za-z]{2,}", shown))
    assert not words & {"Options", "Arguments", "Show", "Print", "Gives", "the", "its", "Where", "to", "in"}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    inner = getattr(command, "commands", {})
    yield path
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


def _columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_help_is_cut_short_on_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], language: str
) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", language)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    for path in leaves(whole_command("as it is written")):
        monkeypatch.setattr(sys, "argv", ["oboro", *path, "--help"])
        with pytest.raises(SystemExit):
            main()
        shown = capsys.readouterr().out
        assert "…" not in shown, path
        assert max(_columns(line.rstrip()) for line in shown.splitlines()) <= 80, path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ledger create", "引数 'LEDGER' がありません"),
        ("table map x.parquet", "オプション '--domain' がありません"),
        ("ledger creat", "コマンド 'creat' はありません。'create' のことですか"),
        ("nonsense", "コマンド 'nonsense' はありません"),
        ("query p.toml --esp 1", "オプション --esp はありません（候補"),
        ("query p.toml --zzz 1", "オプション --zzz はありません。"),
        ("ledger fetch x.ledger --entry abc", "'--entry' の値が正しくありません：整数が必要です"),
        ("ledger fetch x.ledger --entry", "オプション '--entry' には値が必要です"),
        ("ledger show --json=3 x.ledger", "オプション '--json' は値をとりません"),
        ("ledger show x.ledger more", "余分な引数があります（more）。"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said_in_japanese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert says in shown.replace("\n", "")
    words = set(re.findall(r"[A-Za-z]{2,}", shown))
    assert not words & {"Usage", "Try", "for", "Error", "Missing", "No", "such", "Got", "Invalid", "should"}


def test_what_the_system_says_and_what_a_plan_costs_are_said_in_japanese() -> None:
    for text in (
        "x.csv: No space left on device",
        "entry 3: the system refused (x.csv: No space left on device)",
        "cost: eps = 5",
    ):
        shown = language.said(text, "ja")
        assert not re.findall(r"[A-Za-z]{4,}", shown), shown


@pytest.mark.parametrize(
    "line",
    [
        "tabel",
        "table ask",
        "table map x --domain y",
        "table forecast --domain x --esp 1",
        "query --eps",
        "ledger show a b c",
        "table ask a --level x",
        "table compare x --domain y --eps 1 --trials 0",
        "table compare x --domain y --eps 1 --trials two",
        "dynamics forecast --horizon abc --system f --eps 1",
        "token create service.toml lab --days 9999",
        "token create service.toml lab --days 0",
    ],
)
def test_a_line_that_is_misspelt_is_refused_in_japanese(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = [
        part
        for part in capsys.readouterr().err.replace("│", " ").splitlines()
        if re.search(r"[a-z]{3}", part)
    ]
    for part in said:  # what is left in letters are names: of commands, options and what was typed
        left = re.sub(r"oboro|\[?OPTIONS\]?|COMMAND|ARGS|--?[a-z-]+|'[^']*'|（[^）]*）", "", part)
        left = re.sub(rf"\b({'|'.join(map(re.escape, line.split()))})\b", "", left)
        assert not re.search(r"[a-z]{3}", left), part
