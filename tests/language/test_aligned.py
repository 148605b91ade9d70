"""One printer of tables: texts left, numbers right, Japanese signs two wide, and nothing cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import oboro
from oboro import language
from oboro.language import Lines, aligned, room

ROWS = [["region", "people", "95% interval"], ["北海道", "5,224", "5,200 to 5,248"], ["Nara", "7", "0 to 31"]]


def test_texts_stand_left_and_numbers_right_whatever_they_are_written_in() -> None:
    assert aligned(ROWS) == [
        "  region  people    95% interval",
        "  北海道   5,224  5,200 to 5,248",
        "  Nara         7         0 to 31",
    ]
    assert len({room(Lines(line)) for line in aligned(ROWS)}) == 1


def test_the_last_side_holds_for_the_rest_and_no_line_ends_in_spaces() -> None:
    assert aligned(ROWS, "><", indent=0) == [
        "region  people  95% interval",
        "北海道  5,224   5,200 to 5,248",
        "  Nara  7       0 to 31",
    ]
    assert aligned(ROWS, "<<>>>>") == aligned(ROWS, "<<>")
    assert aligned([["a", ""], ["", ""]], "<") == ["  a", ""]
    assert aligned([]) == []


def test_what_finds_no_room_on_the_screen_follows_below_with_the_first_column() -> None:
    assert aligned(ROWS, screen=32) == aligned(ROWS)
    assert aligned(ROWS, screen=31) == [
        "  region  people",
        "  北海道   5,224",
        "  Nara         7",
        "",
        "  region    95% interval",
        "  北海道  5,200 to 5,248",
        "  Nara           0 to 31",
    ]
    assert aligned(ROWS, screen=1) == aligned(ROWS, screen=31), "one column beside the first is always told"


@pytest.mark.parametrize("watched", [True, False])
def test_only_a_terminal_has_a_width(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def isatty(self) -> bool:
            return watched

    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(language.sys, "stdout", Stream())
    assert (len(aligned(ROWS)) == 7) is watched
    monkeypatch.setattr(language.sys, "stdout", None)
    assert len(aligned(ROWS)) == 3


def test_a_cell_of_anybodys_stays_in_its_place() -> None:
    first, second = aligned([["a\nb   c", "1"], [Lines("  ours"), "2"]])
    assert first == "  a\\u000ab \\u0020\\u0020c  1"
    assert second.startswith("    ours ")
    assert len(first) == len(second)


def test_nobody_else_lays_out_columns() -> None:
    """`ljust` and `rjust` know nothing of Japanese; widths of columns are taken in one place."""
    own = re.compile(r"\.[lr]just\((?!.*\"0\")|max\(\s*(?:room|len)\((?:row|line|column)\[")
    assert own.search("line[0].ljust(widths[0])")
    assert own.search("[max(room(row[i]) for row in cells)]")
    root = Path(oboro.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path != root / "language" / "__init__.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if own.search(line)
    ]
    assert found == []
