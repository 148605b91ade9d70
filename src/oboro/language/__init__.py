"""What oboro says, in the reader's language.

Code says everything in English. A catalogue beside this file gives the same in another language, sentence by
sentence, with `{}` for what changes: names, numbers, lines of code. So nothing in the code knows that there is
more than one language, and a sentence without a translation is simply said in English.

The language is that of OBORO_LANGUAGE, or else of the locale (LC_ALL, LC_MESSAGES, LANG). What programs read
(JSON, certificates, attributes of errors) is always English.
"""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("en", "ja")
_HOLE = re.compile(r"\{(\d*)\}")


def chosen() -> str:
    """The language of this process."""
    for name in ("OBORO_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(name):
            return value[:2].lower() if value[:2].lower() in LANGUAGES else "en"
    return "en"


def said(text: str, language: str | None = None) -> str:
    """An English sentence, or several lines of them, in the language of this process."""
    language = language or chosen()
    if language == "en":
        return text
    whole = _said(text, language)
    return whole if whole != text else "\n".join(_said(line, language) for line in text.split("\n"))


def room(text: str) -> int:
    """How many columns of a terminal a text takes: Japanese signs take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def left(text: str, columns: int) -> str:
    """The text with spaces after it."""
    return text + " " * (columns - room(text))


def right(text: str, columns: int) -> str:
    """The text with spaces before it."""
    return " " * (columns - room(text)) + text


def labelled(label: str, text: str) -> str:
    """A line of a summary: what it is about, and what it says."""
    return f"{left(said(label), 10)} {text}"


def _said(text: str, language: str) -> str:
    known, patterns = _catalogue(language)
    if text in known:
        return known[text]
    for pattern, other in patterns:
        if found := pattern.fullmatch(text):
            return _filled(other, [known.get(part, part) for part in found.groups()])
    return text


def _filled(template: str, parts: list[str]) -> str:
    """The template with its holes filled: `{}` in order, `{1}` the second of the English sentence."""
    rest = iter(parts)
    return _HOLE.sub(lambda hole: parts[int(hole[1])] if hole[1] else next(rest), template)


@lru_cache
def _catalogue(language: str) -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """Sentences without holes, and patterns for the others: those that say most are tried first."""
    import tomllib

    entries = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    holed = sorted((text for text in entries if "{}" in text), key=lambda text: -len(text.replace("{}", "")))
    return (
        {text: other for text, other in entries.items() if "{}" not in text},
        [(_pattern(text), entries[text]) for text in holed],
    )


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(part) for part in template.split("{}")), re.DOTALL)
