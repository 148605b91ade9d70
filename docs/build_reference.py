"""Writes docs/reference.md from the docstrings: `python docs/build_reference.py`."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

PAGES = (
    "oboro",
    "oboro.noise",
    "oboro.privacy",
    "oboro.domain",
    "oboro.release",
    "oboro.ledger",
    "oboro.engine",
    "oboro.errors",
)
TARGET = Path(__file__).with_name("reference.md")


def build() -> str:
    """The whole page."""
    seen: set[int] = set()
    pages = [importlib.import_module(name) for name in PAGES]
    # a name is described where it lives; the front door only lists it
    parts = ["# Reference\n\nMade from the docstrings by `python docs/build_reference.py`.\n"]
    for page in pages:
        parts.append(f"## {page.__name__}\n\n{_text(page)}\n")
        names = getattr(page, "__all__", None) or [
            n for n, v in vars(page).items() if inspect.isclass(v) and v.__module__ == page.__name__
        ]
        if page.__name__ == "oboro":
            parts.append(
                "Everything below is one dot away: "
                + ", ".join(f"`ob.{name}`" for name in names if not name.startswith("_"))
                + ".\n"
            )
            continue
        for name in names:
            value = getattr(page, name)
            if id(value) in seen or isinstance(value, ModuleType):
                continue
            seen.add(id(value))
            parts.append(_entry(name, value))
    return "\n".join(parts)


def _entry(name: str, value: Any) -> str:
    lines = [f"### {name}\n", f"```python\n{name}{_signature(value)}\n```\n", _text(value) + "\n"]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for key, member in vars(value).items():
            plain = member.__func__ if isinstance(member, classmethod) else member
            if key.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
                continue
            text = _text(plain)
            if text:
                lines.append(
                    f"- `.{key}{'' if isinstance(plain, property) else _signature(plain)}` — {' '.join(text.split())}"
                )
        lines.append("")
    return "\n".join(lines)


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    return (
        text.replace("self, ", "")
        .replace("(self)", "()")
        .replace("cls, ", "")
        .replace("'", "")
        .replace(" -> None", "")
    )


def _text(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
