"""Writes docs/reference.md, docs/reference/ and docs/modules.md from the docstrings: `python docs/build_reference.py`.

With `--count` it writes nothing, and counts modules and their lines instead.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import sys
import tokenize
from pathlib import Path
from types import ModuleType
from typing import Any

PAGES = (
    "oboro",
    "oboro.domain",
    "oboro.privacy",
    "oboro.release",
    "oboro.ledger",
    "oboro.tables",
    "oboro.statistics",
    "oboro.synth",
    "oboro.dynamics",
    "oboro.secure",
    "oboro.audit",
    "oboro.report",
    "oboro.service",
    "oboro.engine",
    "oboro.noise",
    "oboro.errors",
)
TARGET = Path(__file__).with_name("reference.md")
FOLDER = Path(__file__).with_name("reference")
MODULES = Path(__file__).with_name("modules.md")
SOURCE = Path(__file__).parent.parent / "src" / "oboro"
LAYERS = (  # as docs/architecture.md draws them, from the top
    *("cli", "service", "report", "audit", "tables", "statistics", "synth", "dynamics", "secure"),
    *("engine", "release", "ledger", "privacy", "domain", "noise", "language"),
)


def build() -> dict[Path, str]:
    """Every page by its path: one for each capability and layer, and the list of all."""
    seen: set[int] = set()
    pages = [importlib.import_module(name) for name in PAGES]
    written: dict[Path, str] = {}
    listed = [
        "# Reference\n\nMade from the docstrings by `python docs/build_reference.py`. `import oboro as ob`, and everything is one dot away.\n",
        f"{_laid_out(_text(pages[0]))}\n",
        _door(pages[0]),
    ]
    for page in pages[1:]:
        # a name is described where it lives; the front door only lists it
        place = page.__name__.removeprefix("oboro.")
        names = getattr(page, "__all__", None) or [
            n for n, v in vars(page).items() if inspect.isclass(v) and v.__module__ == page.__name__
        ]
        entries: dict[str, str] = {}
        for name in names:
            value = getattr(page, name)
            if id(value) in seen or isinstance(value, ModuleType):
                continue
            seen.add(id(value))
            entries[name] = _entry(place, name, value)
        links = " · ".join(f"[{name}](#{_anchor(place, name)})" for name in entries)
        head = f"# {page.__name__}\n\n{_laid_out(_text(page))}\n\n{links}\n\n[All of the reference](../reference.md)\n"
        written[FOLDER / f"{place}.md"] = "\n".join([head, *entries.values()])
        here = " · ".join(f"[{name}](reference/{place}.md#{_anchor(place, name)})" for name in entries)
        listed.append(
            f"## [{page.__name__}](reference/{place}.md)\n\n{_text(page).split(chr(10))[0]}\n\n{here}\n"
        )
    written[TARGET] = "\n".join(listed)
    return written


def _anchor(place: str, name: str) -> str:
    return f"{place}.{name}".replace(".", "").lower()


def _door(front: ModuleType) -> str:
    names = [f"`ob.{name}`" for name in front.__all__ if not name.startswith("_")]
    return "Everything at the front door: " + ", ".join(names) + ".\n"


def _entry(place: str, name: str, value: Any) -> str:
    if not callable(value):
        return f"## {place}.{name}\n\n{_constant(value)}\n"
    lines = [
        f"## {place}.{name}\n",
        f"```python\n{name}{_signature(value)}\n```\n",
        _laid_out(_text(value)) + "\n",
    ]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for key, member in vars(value).items():
            plain = member.__func__ if isinstance(member, classmethod) else member
            if key.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
                continue
            text = _text(plain)
            if text:
                lines.append(
                    f"- `.{key}{'' if isinstance(plain, property) else _signature(plain)}`: {' '.join(text.partition('>>> ')[0].split())}"
                )
        lines.append("")
    return "\n".join(lines)


def _constant(value: Any) -> str:
    """What a name stands for that is neither a function nor a class: its text, or what it lists."""
    return value if isinstance(value, str) else "One of " + ", ".join(f"`{each}`" for each in value) + "."


def _laid_out(text: str) -> str:
    """A docstring as Markdown: its headed sections as paragraphs, its columns of arguments kept in line."""
    parts = []
    for part in text.split("\n\n"):
        head, _, body = part.partition("\n")
        lines = part.splitlines()
        if part.startswith(">>> "):
            parts.append("```pycon\n" + part.replace("<BLANKLINE>", "") + "\n```")
        elif re.fullmatch(r"[A-Z][a-z]+", head) and body.startswith("    "):
            parts.append(f"**{head}.** {inspect.cleandoc(body)}")
        elif len(lines) > 1 and not part.startswith("    ") and _in_columns(lines):
            parts.append(f"```text\n{part}\n```")
        elif part.startswith("    ") and parts and parts[-1].startswith("**"):
            parts.append(inspect.cleandoc(part))
        else:
            parts.append(part)
    return "\n\n".join(parts)


def _in_columns(lines: list[str]) -> bool:
    return all(re.match(r"(\w[\w, *]*\S)? {2,}\S", line) for line in lines)


def _signature(value: Any) -> str:
    try:
        whole = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [each for name, each in whole.parameters.items() if not name.startswith("_")]
    text = str(whole.replace(parameters=shown)).replace("<factory>", "...")
    return (
        text.replace("self, ", "")
        .replace("(self)", "()")
        .replace("cls, ", "")
        .replace("'", "")
        .replace(" -> None", "")
    )


def _text(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def modules() -> str:
    """The page that names every module: a line for each folder, by layer. What a module is for, its first line says."""
    parts = [
        "# Every module\n\nMade from the sources by `python docs/build_reference.py`. The layers, from the top down, are those of the "
        "[architecture](architecture.md). A module is named by its subject, and its first line says what it is.\n\n"
        "| folder | what it is | modules |\n|---|---|---|"
    ]
    for layer in LAYERS:
        folders = sorted({path.parent for path in (SOURCE / layer).rglob("*.py")})
        parts += [_folder(folder, folder.relative_to(SOURCE).as_posix()) for folder in folders]
    parts.append(_folder(SOURCE, "below all layers", "What everything else stands on."))
    return "\n".join([*parts, ""])


def _folder(folder: Path, name: str, what: str | None = None) -> str:
    names = [path.stem for path in sorted(folder.glob("*.py")) if not path.stem.startswith("__")]
    listed = " ".join(f"`{one}`" for one in names if one != "_version")
    return f"| {name} | {what or _first_lines(folder / '__init__.py')} | {listed} |"


def _first_lines(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def counted() -> str:
    """Modules and lines by folder: all lines, and those with code, without comments, docstrings and empty ones."""
    found: dict[str, list[int]] = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        folder = path.relative_to(SOURCE).parts[0] if path.parent != SOURCE else "below all layers"
        own = (int(path.stem != "__init__"), text.count("\n"), len(_lines_of_code(text)))
        found[folder] = [a + b for a, b in zip(found.get(folder, [0, 0, 0]), own, strict=True)]
    found["in all"] = [sum(column) for column in zip(*found.values(), strict=True)]
    rows = [f"{name:18}{modules:8}{lines:8,}{code:8,}" for name, (modules, lines, code) in found.items()]
    return "\n".join([f"{'':18}{'modules':>8}{'lines':>8}{'code':>8}", *sorted(rows[:-1]), rows[-1]])


def _lines_of_code(text: str) -> set[int]:
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            first = node.body[0]
            told |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    words = tokenize.generate_tokens(io.StringIO(text).readline)
    empty = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    lines = {
        line for word in words if word.type not in empty for line in range(word.start[0], word.end[0] + 1)
    }
    return lines - told


if __name__ == "__main__":
    if "--count" in sys.argv:
        print(counted())
    else:
        FOLDER.mkdir(exist_ok=True)
        for path, text in build().items():
            path.write_text(text, encoding="utf-8")
        MODULES.write_text(modules(), encoding="utf-8")
