"""The package as a user meets it: one import, layers, speed of start."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import oboro

SOURCE = Path(oboro.__file__).parent
LAYERS = [  # imports go down, never up or sideways
    {"cli"},
    {"service"},
    {"report"},
    {"audit"},
    {"tables", "statistics", "synth", "dynamics", "secure"},
    {"engine"},
    {"release"},
    {"ledger"},
    {"privacy", "domain"},
    {"noise"},
    {"files", "payment", "separators"},
    {"records"},
    {"exact", "kinds", "progress"},
    {"errors", "_version"},
    {"language", "arrays"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports(path: Path) -> set[str]:
    """The packages of oboro that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.level == 0
            and node.module.split(".")[0] == "oboro"
        ):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("relative import")
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("oboro.")}
    return found


def test_modules_are_nouns() -> None:
    doing = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*ing.py")}
    assert doing == {"noise/rounding.py"}, "certified rounding is a word of the documents"


def test_every_module_has_a_place_in_the_layers() -> None:
    top = {
        path.stem if path.is_file() else path.name
        for path in SOURCE.iterdir()
        if not path.name.startswith("__")
    }
    assert top - {"py"} - {"py.typed"} <= set(LEVEL) | {"py"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    own = relative.parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return  # the front door names everything, lazily
    wrong = {name for name in imports(path) - {own} if name not in LEVEL or LEVEL[name] <= LEVEL[own]}
    assert not wrong, f"{relative} imports {wrong}"


def test_the_layer_test_sees_an_import_that_goes_up(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from oboro.tables import plan\n")
    assert imports(bad) == {"tables"}
    assert LEVEL["tables"] < LEVEL["noise"]


def test_all_names_load_and_nothing_else_is_promised() -> None:
    for name in oboro.__all__:
        assert getattr(oboro, name) is not None
    assert sorted(oboro.__all__) == dir(oboro)
    with pytest.raises(AttributeError, match="no attribute"):
        oboro.nothing  # noqa: B018


HEAVY = {
    "numpy",
    "numba",
    "pyarrow",
    "duckdb",
    "sqlalchemy",
    "flint",
    "scipy",
    "dp_accounting",
    "pandas",
    "cryptography",
}


def loaded(*arguments: str) -> set[str]:
    """What Python imports for a command, beyond what it imports for none. How long that takes is for `make bench`."""

    def names(*arguments: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
        )
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()[1:]}

    return names(*arguments) - names("-c", "pass")


@pytest.mark.parametrize(
    ("arguments", "most"), [(("-c", "import oboro"), 60), (("-m", "oboro", "--help"), 400)], ids=str
)
def test_little_is_imported_at_the_door(arguments: tuple[str, ...], most: int) -> None:
    found = loaded(*arguments)
    assert "oboro" in found
    assert not {name.partition(".")[0] for name in found} & HEAVY
    assert len(found) < most


def test_a_heavy_import_at_the_door_is_seen() -> None:
    found = loaded("-c", "import oboro; oboro.Domain, oboro.run")
    assert "numpy" in found
    assert len(found) > 60


@pytest.mark.parametrize("room", sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
def test_a_package_shows_what_a_user_may_use_and_nothing_else(room: str) -> None:
    """Rooms inside a package are not listed: `statistics.sensitivity` alone is a public part of another."""
    package = importlib.import_module(f"oboro.{room}")
    if room == "language":  # one file, for all others
        return
    assert dir(package) == sorted(package.__all__)
    modules = [name for name in dir(package) if inspect.ismodule(getattr(package, name))]
    assert modules == (["sensitivity"] if room == "statistics" else [])


def test_any_is_rare() -> None:
    """Arrays, tables and records have names of their own: `Any` is for what could be anything, below 8 in 1,000 lines."""
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    uses = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
    assert 1000 * uses < 8 * sum(len(text.splitlines()) for text in texts)
