"""Writes docs/mutants.md: python tests/mutants/page.py"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TARGET = ROOT / "docs" / "mutants.md"
sys.path[:0] = [str(ROOT / "tests")]

from mutants.planting import Mutant  # noqa: E402
from mutants.registry import KNOWN, LAYERS  # noqa: E402

HEAD = """# Planted faults

A test that has never failed has shown nothing yet. Each line below is a fault that was planted in oboro on purpose, in
the running program, and the one test that must catch it. `tests/mutants` plants every one of them, runs its test, and
fails unless the test reached the fault and failed on an assertion of its own. Whoever adds a mechanism adds its faults.

    python tests/mutants/runner.py                        all of them
    python tests/mutants/runner.py "noise reused"         one, with what its test said

This page is written by `python tests/mutants/page.py`. It lists {count} faults.
"""


def build() -> str:
    """The whole page."""
    real = [mutant for mutant in KNOWN.values() if mutant.expected == "caught"]
    parts = [HEAD.format(count=len(real))]
    for layer in LAYERS:
        mine = [mutant for mutant in real if mutant.layer == layer]
        if mine:
            lines = ["| name | what is wrong | planted in | caught by |", "|---|---|---|---|"]
            parts.append("\n".join([f"## {layer}", "", *lines, *map(_line, mine), ""]))
    return "\n".join(parts)


def _line(mutant: Mutant) -> str:
    places = ", ".join(f"`{place.removeprefix('oboro.').replace(':', '.')}`" for place in mutant.places)
    test = mutant.caught_by.removeprefix("tests/").replace("|", "\\|")
    return f"| {mutant.name} | {mutant.story} | {places} | `{test}` |"


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
