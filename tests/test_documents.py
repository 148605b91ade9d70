"""Documents tell the truth: their code runs, their commands exist, the reference is fresh."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from oboro.cli.terminal import whole_command
from support import mostly_long

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.ja.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [
    page
    for page in PAGES
    if page.name not in ("reference.md", "modules.md") and page.parent.name != "reference"
]


# runs commands one after the other, up to the first that fails
RUN = """
import json, runpy, sys
for command in json.loads(sys.argv[1]):
    print(*command)
    sys.argv = command
    try:
        runpy.run_module("oboro", run_name="__main__")
    except SystemExit as stop:
        if stop.code:
            raise
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize(
    "page",
    mostly_long("documents", PAGES, [ROOT / "README.md"]),
    ids=lambda page: page.name,
)
def test_every_code_block_runs(page: Path, tmp_path: Path) -> None:
    """Python blocks run one after the other, then commands line by line, all in one empty folder.

    A process for each, as a reader has it; for README.md, whose commands README.ja.md repeats, one for all.
    """
    for number, body in enumerate(blocks(page, "toml")):
        name = "people.toml" if number == 0 else f"block{number}.toml"
        (tmp_path / name).write_text(body, encoding="utf-8")
    code = "\n".join(blocks(page, "python"))
    if code:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    lines = re.findall(r"^\$ oboro (.*)$", "\n".join(blocks(page, "console")), re.M)
    commands = [["oboro", *shlex.split(line.split("  #")[0])] for line in lines]
    for some in [commands] if page == ROOT / "README.md" else [[command] for command in commands]:
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(some)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout[-500:], done.stderr)


def test_the_reference_is_fresh() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import build_reference
    finally:
        sys.path.pop(0)
    written = build_reference.build()
    assert {path: path.read_text(encoding="utf-8") for path in written} == written, (
        "run python docs/build_reference.py"
    )
    assert {*build_reference.FOLDER.glob("*.md")} < set(written)
    assert build_reference.modules() == build_reference.MODULES.read_text(encoding="utf-8"), (
        "run python docs/build_reference.py"
    )


def test_no_line_of_an_example_stands_in_a_sentence_of_the_reference() -> None:
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        assert ">>>" not in prose, page.name


def test_the_list_of_modules_fits_two_screens() -> None:
    assert len((ROOT / "docs" / "modules.md").read_text(encoding="utf-8").splitlines()) <= 100


def unknown(text: str) -> list[str]:
    """Modules that a text names, as `tables/plan.py` or, in the first cell of a row, as `tables.plan`, and nobody has."""
    source = ROOT / "src" / "oboro"
    files = {
        name
        for name in re.findall(r"`([\w/]+\.py)`", text)
        if not any((at / name).exists() for at in (source, ROOT))
    }
    cells = {
        name
        for row in re.findall(r"^\| (`[^|]*`) \|", text, re.M)
        for name in re.findall(r"`([a-z_.]+)`", row)
    }
    dotted = {
        name
        for name in cells
        if not list((source / name.replace(".", "/")).parent.glob(f"{name.split('.')[-1]}*"))
    }
    return sorted(files | dotted)


def test_the_architecture_names_modules_that_exist() -> None:
    assert unknown((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")) == []
    assert unknown("`tables/nothing.py` and\n| `statistics.nothing` | x |") == [
        "statistics.nothing",
        "tables/nothing.py",
    ]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def typed(text: str) -> tuple[list[str], list[str]]:
    """The lines of oboro that a page would have typed, in any block of code, and those that it speaks of."""
    fenced = [body for _, body in re.findall(r"^```(sh|console|text)\n(.*?)^```", text, re.M | re.S)]
    indented = re.findall(r"^ {4}.*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    lines = re.sub(r"\\\n\s*", " ", "\n".join([*fenced, *indented]))
    whole = re.findall(r"^(?: {4})?(?:\$ )?oboro ([a-z][^#\n]*)", lines, re.M)
    spoken = re.findall(r"`oboro ([a-z][^`]*)`", text)
    return whole, [line for line in spoken if not re.fullmatch(r"[a-z ]+ \d", line)]  # versions of formats


def misspelt(line: str, whole: bool) -> str | None:
    """What a line of oboro has that no command knows, or lacks."""
    command: Any = whole_command("en")
    words = [word for word in shlex.split(line) if word not in ("...", "…", "|", "\\")]
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return f"no command {words[0]}" if not words[0].startswith("-") else None
        command = command.commands[words.pop(0)]
    known = {name for one in command.params for name in one.opts} | {"--help"}
    unknown = [
        word for word in words if re.match(r"--[a-z]|-[a-z]$", word) and word.split("=")[0] not in known
    ]
    if unknown:
        return f"no option {unknown[0]}"
    if whole and not re.search(r"\.\.\. |\.\.\.$|…", line):
        try:
            command.make_context("oboro", words)
        except USAGE as error:
            return str(error)
    return None


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"],
    ids=lambda page: page.name,
)
def test_every_line_that_a_page_shows_can_be_typed(page: Path) -> None:
    whole, spoken = typed(page.read_text(encoding="utf-8"))
    found = {line: misspelt(line, True) for line in whole} | {line: misspelt(line, False) for line in spoken}
    assert not {line: why for line, why in found.items() if why}


def test_a_line_that_cannot_be_typed_is_found() -> None:
    assert typed("```sh\noboro ledger head x\n```\n`oboro tabel`") == (["ledger head x"], ["tabel"])
    assert misspelt("ledger head x", True) == "no command head"
    assert misspelt("ledger show x --jsn", False) == "no option --jsn"
    assert misspelt("ledger backup a.ledger copy", True)
    assert misspelt("ledger backup a.ledger", True)
    assert misspelt("ledger backup", False) is None
    assert misspelt("ledger backup a.ledger -o copy.ledger", True) is None


def test_make_sets_nothing_that_the_bench_reads() -> None:
    """A variable that the Makefile sets reaches its commands in place of what a user typed before `make bench`."""
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    read = {
        name
        for path in (ROOT / "bench").glob("*.py")
        for name in re.findall(
            r"(?:environ(?:\.get\(|\[)|_listed\()\"(\w+)\"", path.read_text(encoding="utf-8")
        )
    }
    assert {"PEERS", "SHOW", "ROWS"} <= read
    assert not read & set(re.findall(r"^(\w+) *:?=", made, re.M))


def test_kept_runs_are_of_somebody() -> None:
    lines = (ROOT / "bench" / "synth_runs.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    ours = {"real rows", "marginals", "quality", "quality-singly"}
    assert {run["by"] for run in runs} == ours | {"AIM", "AIM-even", "AIM-round", "MST"}
    assert len({(run["by"], run["task"], run["eps"], run["repeat"]) for run in runs}) == len(runs)


def test_the_licence_of_whatever_is_vendored_goes_into_the_wheel() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "license-files"
    ]
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*LICENSE*")}
    assert {"LICENSE", *found} == set(declared)


def test_the_readme_fits_two_screens() -> None:
    for name in ("README.md", "README.ja.md"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 80
        first = [line for line in lines if line][:6]
        assert any(line.startswith("![") for line in first), "it leads with a picture"
        assert sum(line.startswith("    make ") for line in first) == 2, "and two commands"
