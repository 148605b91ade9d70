"""The same words as they are typed: an error that shows a line of Python shows an option or lines of TOML here.

Below the command line an error says `eps="0.1"` or `ob.Integer("age", 0, 120)`. On it, the running command decides:
an argument that is one of its options becomes that option, a column becomes a `[[columns]]` table, a unit and a
budget become what `--unit` and `oboro ledger create` take. What is no line of Python stays as it is.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from oboro.errors import OboroError
from oboro.language import chosen, left, plain, said

_UNREADABLE = (  # what a text that only looks like Python may raise: then it is shown as it is
    OboroError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
_COLUMN = re.compile(r"^(?:ob\.)?(Integer|Real|Category|Date|Grid|Mesh)\(.*\)$")
_UNIT = re.compile(r"(?:ob\.)?Unit\.(row|person|cells|signal)(\((?:[^()]|\([^()]*\))*\))?")
_ARGUMENT = re.compile(
    r"""(?<![\w"'-])([a-z][a-z0-9_]*)=("[^"]*"|'[^']*'|-?[\w./:*,+]*[\w*]|None)(?![\w(\[{"'])"""
)
_BUDGET = re.compile(r"^(?:guarantee|budget)=ob\.(.*)$|budget=ob\.(.*)\)$")
_TOML = ("missing", "low", "high", "step", "region", "level", "kind", "values", "first", "last", "sigma", "n")
_PHRASES = {  # what has another form altogether
    r"session\.n, which is (\S+)": r"n = \1",
    r"model\.sample\(\w+\)(, after the release)?": "oboro synth sample model.oboro -n 10000 -o records.parquet",
    r"(?:ob\.statistics\.)?Ball\(\"(l\d)\", radius=(\d+)\)": r"\1:\2",
    r"edges=range\(0, 121, 10\)": "--edges COLUMN=0:120:10",
    r"edges=\[(\S+), \.\.\., (\S+)\]": r"--edges COLUMN=\1:\2:WIDTH",
    r"edges=\{'(\w+)': \.\.\.\}": r"--edges \1=FIRST:LAST:WIDTH",
    r"quantiles=\[\.1, \.5, \.9\]": '"quantile income 0.1 0.5 0.9"',
    r"workload=ob\.tables\.(\w+)\(\)": r"--workload \1",
    r"Ledger\.open\(\.\.\., key=\"path of the key\"\)": "put the key back where it was",
    r"Ledger\.open\(\"(.*)\"\)": r"oboro ledger show \1",
    r"Ledger\.create\(\"(.*?)\", .*\)": r"oboro ledger create \1 --dataset TEXT --unit UNIT --eps NUMBER",
    r"ledger\.history\(\)": "oboro ledger show",
    r"ledger\.find\('(.*)'\)\.content\(\)": r'oboro ledger fetch LEDGER --name "\1"',
    r"where=\{'(\w+)': '?([^'}]*)'?\}": r"--where \1=\2",
    r'adjacency="replace"': "--unit ...,replace",
    r"a tuple \(lowest, highest\)": "LOW..HIGH",
    r"domain\.only\(.*\)": "a domain file with fewer [[columns]]",
    r"oboro\.tables\b": "oboro table release",
    r"(?:oboro\.\w+\.)?(?:plan|write_map)\(\.\.\., (.*?)\)": r"\1",
    r"release\(u, plan, x0=x0, ledger=ledger\)|(?<![\w-])x0=x0": "--x0 NUMBERS",
    r'^columns="(\w+)"$': r"--column \1",
    r"^Domain\(\[Grid\(.*\]\)$": '[[columns]]\nkind = "grid"\nnames = ["row", "col"]\nshape = [512, 512]',
    r"^(region|values)=(\[.*\])$": r"\1 = \2",
}


def typed(text: str, options: Mapping[str, str] | None = None) -> str:
    """A part of an error, or a note, in the words of the command that runs; `options` are its arguments."""
    as_it_is = text.startswith(("--", "oboro ", "[[", "-o ")) or any(text in word for word in sys.argv[1:])
    if as_it_is or not re.search(r"[a-z]=|\w\(|\w_\w|[a-z]\.[a-z]", text):
        return text
    known = running_options() if options is None else options
    if lines := _column(text):
        return lines
    if (budget := _BUDGET.search(text)) and (flags := _flags(budget[1] or budget[2])):
        unit = _UNIT.search(text)
        protected = _unit_text(unit[1], unit[2]) if unit else "UNIT"
        return f"oboro ledger create new.ledger --dataset TEXT --unit {protected} {flags}"
    for pattern, words in _PHRASES.items():
        text = re.sub(pattern, words, text)
    text = _unit(text, known)
    text = re.sub(r"(?<=\d)_(?=\d{3})", "", text)
    text = _ARGUMENT.sub(lambda found: _option(found, known), text)
    for name, option in known.items():
        if "_" in name:
            text = re.sub(rf"(?<![\w-]){name}(?!\w)", option, text)
    parts = text.split(", ")
    return " ".join(parts) if all(part.startswith("--") for part in parts) else text


def complaint(error: OboroError) -> str:
    """The whole error, in the reader's language and as it is typed."""
    lines = [typed(said(plain(error.message)))]
    for label, part in (("given", error.given), ("needed", error.needed), ("fix", error.fix)):
        if part is not None:
            shown = typed(said(plain(part)))
            lines.append(f"  {left(said(label), 7)} " + shown.replace("\n", "\n" + " " * 10))
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))


def record(error: OboroError) -> dict[str, str | None]:
    """The same for programs: in English."""
    return {
        name: part if part is None or name == "error" else typed(part)
        for name, part in error.to_dict().items()
    }


def running_options() -> dict[str, str]:
    """The options of the command that was typed, by the names of their arguments."""
    command = whole_command(chosen())
    for word in sys.argv[1:]:
        inner = getattr(command, "commands", {})
        if word not in inner:
            break
        command = inner[word]
    return {
        one.name: next((opt for opt in one.opts if opt.startswith("--")), one.opts[0])
        for one in command.params
        if getattr(one, "opts", [""])[0].startswith("-")
    }


@lru_cache
def whole_command(language: str) -> Any:
    """All commands, as they are understood: made once for each language, for it takes a while."""
    import typer

    from oboro.cli.main import app

    return typer.main.get_command(app)


def _option(found: re.Match[str], known: Mapping[str, str]) -> str:
    name, value = found[1], found[2].strip("\"'")
    if name in known:
        return f"without {known[name]}" if value == "None" else f"{known[name]} {_number(value)}"
    return f"{name} = {found[2]}" if name in _TOML and found[0] == found.string else found[0]


def _number(text: str) -> str:
    power = re.fullmatch(r"(\d+)\*\*(\d+)", text)
    return str(int(power[1]) ** int(power[2])) if power else shlex.quote(text) if " " in text else text


def _unit(text: str, known: Mapping[str, str]) -> str:
    """Units as `--unit` takes them, or as the place that says the unit of this command."""
    if "unit" in known:
        place = "--unit "
    elif "ledger" in known:
        place = "oboro ledger create new.ledger --dataset TEXT --eps NUMBER --unit "
    else:  # the file that declares the data says it
        place = "the unit of the file: "
    text = re.sub(r"(?<!\w)unit=(?=(?:ob\.)?Unit\.)", place, text)
    return _UNIT.sub(lambda found: _unit_text(found[1], found[2]), text)


def _unit_text(kind: str, arguments: str | None) -> str:
    from oboro.privacy import Unit

    if arguments is None:
        return kind
    try:
        call = ast.parse(f"f{arguments}", mode="eval").body
        assert isinstance(call, ast.Call)
        unit = getattr(Unit, kind)(
            *map(_literal, call.args), **{str(k.arg): _literal(k.value) for k in call.keywords}
        )
    except _UNREADABLE:
        return kind
    parts = {
        "person": [unit.column, unit.max_rows],
        "cells": [unit.max_cells, unit.max_per_cell],
        "signal": [unit.distance, unit.norm],
    }.get(kind, [])
    replace = ",replace" if unit.adjacency == "replace" and kind != "signal" else ""
    return plain(":".join([kind, *(str(part) for part in parts)])) + replace


def _column(text: str) -> str | None:
    """The lines that declare a column in TOML."""
    from oboro import domain

    found = _COLUMN.match(text)
    if found is None:
        return None
    try:
        call = ast.parse(text.removeprefix("ob."), mode="eval").body
        assert isinstance(call, ast.Call)
        column = getattr(domain, found[1])(
            *map(_literal, call.args), **{str(k.arg): _literal(k.value) for k in call.keywords}
        )
    except _UNREADABLE:
        return None
    return toml_lines(column)


def toml_lines(column: Any) -> str:
    """A column as a `[[columns]]` table."""
    import json

    parts = column.to_dict().items()
    return "\n".join(
        ["[[columns]]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in parts)]
    )


def _flags(text: str) -> str | None:
    """A guarantee as `oboro ledger create` takes it."""
    from oboro import privacy

    names = {"Pure": ["eps"], "Approx": ["eps", "delta"], "ZCDP": ["rho"], "Renyi": ["order", "eps"]}
    try:
        call = ast.parse(text.replace("ob.", ""), mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        if call.func.id == "Conditional":
            inner = _flags(ast.unparse(call.args[0]))
            given = _literal(call.args[1])
            assumed = [given] if isinstance(given, str) else given
            return (
                None if inner is None else plain(" ".join([inner, *(f'--assume "{one}"' for one in assumed)]))
            )
        getattr(privacy, call.func.id)
        values = [str(_literal(one)) for one in call.args]
        return " ".join(f"--{name} {value}" for name, value in zip(names[call.func.id], values, strict=True))
    except _UNREADABLE:
        return None


def _literal(node: ast.expr) -> Any:
    """A constant, or a Fraction that is written out."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Fraction":
        return Fraction(*(ast.literal_eval(one) for one in node.args))
    return ast.literal_eval(node)
