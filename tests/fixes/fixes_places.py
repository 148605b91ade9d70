"""Every place of the sources that shows a fix, and which of them an error came from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import oboro
from oboro.errors import OboroError

PACKAGE = Path(oboro.__file__).parent


@dataclass(frozen=True)
class Place:
    """A call that makes an error, or hands its parts to who makes one, with a `fix`."""

    file: str
    function: str
    fix: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """What it is called: without a number of a line, which any change moves."""
        return f"{self.file} {self.function}: {self.fix}"


@cache
def places() -> tuple[Place, ...]:
    """All of them, with one for each `fix=` of the sources that is not `None`."""
    return tuple(
        place
        for path in sorted(PACKAGE.rglob("*.py"))
        for place in _inside(
            ast.parse(path.read_text(encoding="utf-8")), path.relative_to(PACKAGE).as_posix()
        )
    )


def _inside(node: ast.AST, file: str, function: str = "") -> Iterator[Place]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        inner = f"{function}.{child.name}".strip(".") if named else function  # type: ignore[attr-defined]
        for word in child.keywords if isinstance(child, ast.Call) else ():
            if word.arg == "fix" and ast.unparse(word.value) != "None":
                text = ast.unparse(word.value)
                yield Place(file, function, text, child.lineno, child.end_lineno or child.lineno)  # type: ignore[attr-defined]
        yield from _inside(child, file, inner)


@contextmanager
def remembered() -> Iterator[None]:
    """Errors that are made meanwhile know where: `place_of` tells."""
    usual = OboroError.__init__

    def made(self: OboroError, *args: Any, **parts: Any) -> None:
        usual(self, *args, **parts)
        frame = sys._getframe(1)
        here: list[tuple[str, int]] = []
        for _ in range(3):  # a helper may make it for others
            here.append((frame.f_code.co_filename, frame.f_lineno))
            if frame.f_back is None:
                break
            frame = frame.f_back
        self.made_at = here  # type: ignore[attr-defined]

    OboroError.__init__ = made  # type: ignore[method-assign]
    try:
        yield
    finally:
        OboroError.__init__ = usual  # type: ignore[method-assign]


def places_of(error: OboroError) -> tuple[Place, ...]:
    """Where its fix comes from: the place that made it, and the one that handed the fix to it."""
    found = []
    for filename, line in getattr(error, "made_at", ()):
        path = Path(filename)
        if not path.is_relative_to(PACKAGE):
            continue
        file = path.relative_to(PACKAGE).as_posix()
        near = [one for one in places() if one.file == file and one.first <= line <= one.last]
        if near:
            found.append(min(near, key=lambda one: one.last - one.first))
    return tuple(dict.fromkeys(found))
