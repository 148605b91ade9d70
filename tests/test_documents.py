"""Documents tell the truth: their code runs, their commands exist, the reference is fresh."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
