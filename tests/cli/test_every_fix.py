"""Every fix that an error of the sources can show is one that can be done: a command, an option, Python, TOML or SQL that exists.

`test_fixes` does the most common ones literally; here all of them are found in the sources, and what each consists of is looked up.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import oboro as ob
from oboro.cli.terminal import whole_command
from oboro.domain import column_from
from oboro.errors import declaration, setting

ROOT = Path(__file__).parents[2]
NAMES = {
    "FILE",
    "NAME",
    "TEXT",
    "UNIT",
    "NUMBER",
    "X",
    "...",
    "ID",
    "FOLDER",
    "THEIR.crt",
}  # what stands for the reader's own


def text_of(node: ast.expr) -> str | None:
    """A text with X where the program puts something in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left), text_of(node.right)]
        return None if None in parts else "".join(map(str, parts))
    return None


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """The sources, read once, and not while tests are collected."""
    return [
        (path, node)
        for path in sorted((ROOT / "src" / "oboro").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.FunctionDef | ast.AnnAssign)
    ]


def fixes() -> Iterator[tuple[str, ast.expr]]:
    """Every `fix=` of the sources, both of one that is chosen by a condition."""
    for path, node in nodes():
        for word in node.keywords if isinstance(node, ast.Call) else []:
            if word.arg == "fix":
                chosen = isinstance(word.value, ast.IfExp)
                both = [word.value.body, word.value.orelse] if chosen else [word.value]  # type: ignore[attr-defined]
                for one in both:
                    yield f"{path.relative_to(ROOT)}:{one.lineno}", one


@cache
def every() -> list[tuple[str, ast.expr]]:
    return list(fixes())


@cache
def texts() -> list[tuple[str, str]]:
    return [(place, text) for place, node in every() if (text := text_of(node)) is not None]


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {word}".strip())


COMMANDS = dict(commands(whole_command("as it is written")))
OPTIONS = {option for command in COMMANDS.values() for one in command.params for option in one.opts}


def unknown_in_command(line: str) -> list[str]:
    """What a line names that the command line does not have."""
    words = shlex.split(re.sub(r", .*$", "", line))[1:]
    at = 0
    while at < len(words) and " ".join(words[: at + 1]) in COMMANDS:
        at += 1
    if at == 0:
        return [] if words[:1] == ["X"] else words[:1]  # X: a command that the program puts in
    command = COMMANDS[" ".join(words[:at])]
    if getattr(command, "commands", None) and at < len(words) and words[at] not in NAMES:
        return [words[at]]
    known = {option for one in command.params for option in one.opts}
    return [word for word in words[at:] if re.fullmatch(r"--?[a-z][a-z-]*", word) and word not in known]


@pytest.mark.long("fixes")
def test_the_sweep_sees_the_fixes() -> None:
    assert len(every()) > 500
    assert len(texts()) > 250


@pytest.mark.long("fixes")
def test_a_command_that_a_fix_names_is_there() -> None:
    for place, text in texts():
        if text.startswith("oboro "):
            assert unknown_in_command(text) == [], place


def test_a_command_that_is_not_there_would_be_seen() -> None:
    assert unknown_in_command("oboro tabel ask x") == ["tabel"]
    assert unknown_in_command("oboro table aks x") == ["aks"]
    assert unknown_in_command("oboro table ask x --levl 0.9") == ["--levl"]


def test_options_that_a_fix_names_are_there() -> None:
    for place, text in texts():
        if text.startswith("-") or re.match(r'"[a-z ]+" --', text):
            found = [word for word in shlex.split(text) if re.fullmatch(r"--?[a-z][a-z-]*", word)]
            assert found, place
            assert set(found) <= OPTIONS, place


def test_extras_that_a_fix_installs_are_declared() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for place, text in texts():
        for extra in re.findall(r"oboro\[([\w-]+)\]", text):
            assert extra in extras, place


def test_python_that_a_fix_shows_names_what_exists() -> None:
    seen = 0
    for place, text in texts():
        for name in re.findall(r"\bob((?:\.\w+)+)", text):
            value: Any = ob
            for part in name.strip(".").split("."):
                if part == "X":  # what the program puts in; tests/fixes does it
                    break
                assert hasattr(value, part), (place, text)
                value = getattr(value, part)
            seen += 1
        if re.match(r"ob\.[\w.]+\(.*\)$", text) and "..." not in text:
            compile(text, place, "eval")
    assert seen > 5


def test_a_column_that_a_fix_declares_is_one_in_python_and_in_toml() -> None:
    seen = 0
    for place, node in every():
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "declaration"):
            continue
        if any(word.arg is None for word in node.keywords):
            continue
        try:
            record = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
        except ValueError:
            continue
        made = declaration(ast.literal_eval(node.args[0]), **record)
        assert eval(made, {"ob": ob}), place
        assert column_from(tomllib.loads(made.toml)["columns"][0]), place
        seen += 1
    assert seen > 4


@pytest.mark.long("every fix")
def test_arguments_that_a_fix_sets_can_be_written_in_a_call() -> None:
    """And are arguments of something that a user calls, or options, or entries of a file."""
    words = {
        name.arg
        for _, node in nodes()
        if isinstance(node, ast.FunctionDef)
        for name in (*node.args.args, *node.args.kwonlyargs)
    }
    fields = {
        node.target.id
        for _, node in nodes()
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    seen = 0
    for place, node in every():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setting":
            for word in node.keywords:
                if word.arg is None:
                    continue
                assert word.arg in words | fields, (place, word.arg)
                try:
                    value = ast.literal_eval(word.value)
                except ValueError:
                    continue
                assert eval(f"dict({setting(**{word.arg: value})})"), place
                seen += 1
    assert seen > 80


def test_lines_of_toml_that_a_fix_shows_are_toml() -> None:
    seen = 0
    for _, text in texts():
        if re.match(r"[a-z_]+ = [\[{\"0-9]", text) and "), " not in text:
            tomllib.loads(text.replace(", key", "\nkey"))
            seen += 1
    assert seen > 5
