"""Finds, in the source, every sentence that an error or the command line can say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import oboro
from oboro import errors
from oboro.secure import group

SOURCE = Path(oboro.__file__).parent
ERRORS = {name for module in (errors, group) for name in vars(module) if name.endswith("Error")}


def sentences() -> dict[str, str]:
    """Templates with `{}` for what changes, each with a place where it is said: of our errors, and of those made of them."""
    found: dict[str, str] = {}
    every = {path: list(ast.walk(ast.parse(path.read_text()))) for path in sorted(SOURCE.rglob("*.py"))}
    own = {
        node.name
        for nodes in every.values()
        for node in nodes
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") in ERRORS for base in node.bases)
    }
    for path, nodes in every.items():
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ERRORS | own
            ):
                said = [
                    *node.args[:1],
                    *[k.value for k in node.keywords if k.arg in ("given", "needed", "fix")],
                ]
                for text in (text for part in said for text in templates(part)):
                    found.setdefault(text, f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def spoken() -> dict[str, str]:
    """What the command line hands to `said`, and its labels."""
    found: dict[str, str] = {}
    for path, node in calls("said", "labelled"):
        for text in templates(node.args[0]):
            if any(sign.isalpha() for sign in text.replace("{}", "")):
                found.setdefault(text, f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def echoed() -> dict[str, str]:
    """What the command line prints without `said`."""
    return {
        text: f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, node in calls("echo")
        for text in templates(node.args[0])
    }


def calls(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    """Calls of these functions in the command line, with an argument."""
    for path in sorted((SOURCE / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                called = getattr(node.func, "id", getattr(node.func, "attr", None))
                if called in names:
                    yield path, node


def templates(node: ast.expr) -> Iterator[str]:
    """What an expression can say; nothing for what is computed altogether."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.replace("{", "{{").replace("}", "}}") if "{}" in node.value else node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}"
            for part in node.values
        )
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setting", "told"):
        yield "{}"  # arguments with their values: the same in every language
    elif isinstance(node, ast.IfExp):
        yield from templates(node.body)
        yield from templates(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from templates(value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        # a sentence that another may be added to: both are looked for by themselves
        for left in templates(node.left):
            for right in list(templates(node.right)) or [""]:
                yield left + right


def is_prose(text: str) -> bool:
    """Whether a part is words to be translated rather than code, a number or a name; four words are a sentence, whatever signs it has."""
    words = text.replace("{}", " ").split()
    plain = [word for word in words if word.strip(",.;:()").isalpha() and word.islower()]
    if text.startswith(("oboro ", "--", "pip ")):
        return False
    return len(plain) >= (4 if any(sign in text for sign in "=[]<>_/\"'`$") else 2)
