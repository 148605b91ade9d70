"""The package as a user meets it: one import, layers, speed of start."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import oboro

SOURCE = Path(oboro.__file__).parent
LAYERS = [  # imports go down, never up or sideways
    {"cli"},
    {"report"},
    {"audit"},
    {"tables", "statistics", "synth", "dynamics", "secure"},
    {"engine"},
    {"release"},
    {"ledger"},
    {"privacy", "domain"},
    {"noise"},
    {"exact", "kinds"},
    {"errors", "_version"},
    {"language"},
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


def best_of(*arguments: str, times: int = 5) -> float:
    """Seconds of work that Python spends on a command, the best of several: a busy machine does not count."""

    def once() -> float:
        child = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "100"}
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        assert status == 0
        return used.ru_utime + used.ru_stime

    once()
    return min(once() for _ in range(times))


def test_import_and_help_are_quick() -> None:
    assert best_of("-c", "import oboro") < 0.2
    assert best_of("-m", "oboro", "--help") < 0.4


def test_nothing_heavy_is_imported_at_the_door() -> None:
    code = "import oboro, oboro.cli, sys; print([m for m in ('numpy','numba','pyarrow','duckdb','sqlalchemy','flint','scipy','dp_accounting','pandas') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
