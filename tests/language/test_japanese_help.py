"""`--help` in Japanese: every sentence of every command has one."""

from __future__ import annotations

import re
import sys
import tomllib
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


def test_help_speaks_the_language_of_the_locale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    monkeypatch.setattr(sys, "argv", ["oboro", "ledger", "fetch", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert "支払い済みの公開" in shown
    assert "例: oboro ledger fetch people.ledger" in shown
    words = set(re.findall(r"[A-Za-z]{2,}", shown))
    assert not words & {"Options", "Arguments", "Show", "Print", "Gives", "the", "its", "Where", "to", "in"}
