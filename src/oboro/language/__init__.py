"""What oboro says, in the reader's language.

Code says everything in English. A catalogue beside this file gives the same in another language, sentence by
sentence, with `{}` for what changes: names, numbers, lines of code. So nothing in the code knows that there is
more than one language, and a sentence without a translation is simply said in English.

The names of things ("mean of age by region") are put together from turns ("{} by {}") that are too short to be
looked for in any text. They stand under `parts`, in the order in which a name is taken apart, and are used by
`phrase`, and for a hole that the translation marks: `{+}`.

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
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats, half signs, ends of lines and paragraphs
_HOLE = re.compile(r"\{(\d*)(\+?)\}")


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
    return whole if whole != text else "\n".join(_line(line, language) for line in text.split("\n"))


def phrase(text: str, language: str | None = None) -> str:
    """The name of something, such as "mean of age by region", in the language of this process."""
    language, text = language or chosen(), plain(text)
    return text if language == "en" else _said(text, language, named=True)


class Lines(str):
    """A text whose ends of lines are ours: foreign words in it went through `plain` before."""

    __slots__ = ()


def plain(text: str, *, lines: bool = False) -> str:
    """A text of anybody's as it may be shown: on one line, and without a sign that a terminal or a reader's eye obeys.

    Escape codes, carriage returns, signs that turn the direction of writing or take no room: all are written out, as
    \\u001b. With `lines`, and in `Lines`, the ends of lines stay.
    """
    if text.isprintable():
        return text
    lines = lines or isinstance(text, Lines)
    return "".join(
        sign
        if unicodedata.category(sign) not in _UNSEEN or (lines and sign == "\n")
        else "".join(f"\\u{half:04x}" for half in _halves(sign))
        for sign in text
    )


def _halves(sign: str) -> tuple[int, ...]:
    """A sign as JSON writes it out: beyond 16 bits, two halves."""
    code = ord(sign)
    return (code,) if code < 1 << 16 else (0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code & 0x3FF))


def room(text: str) -> int:
    """How many columns of a terminal a text takes: Japanese signs take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in plain(text))


def left(text: str, columns: int) -> str:
    """The text with spaces after it."""
    return plain(text) + " " * (columns - room(text))


def right(text: str, columns: int) -> str:
    """The text with spaces before it."""
    return " " * (columns - room(text)) + plain(text)


def labelled(label: str, text: str, columns: int = 10) -> str:
    """A line of a summary: what it is about, and what it says."""
    return f"{left(said(label), columns)} {plain(text)}"


def _line(text: str, language: str) -> str:
    """A line with what it is indented by."""
    bare = text.lstrip(" ")
    return text[: len(text) - len(bare)] + _said(bare, language)


def _said(text: str, language: str, named: bool = False) -> str:
    known, patterns, parts = _catalogue(language)
    if text in known:
        return known[text]
    if not any(sign.isalpha() for sign in text):
        return text
    for pattern, other in parts if named else []:
        if found := pattern.fullmatch(text):
            return _filled(other, [_said(one, language, named) for one in found.groups()], language)
    for pattern, other in patterns:
        if found := pattern.fullmatch(text):
            return _filled(other, list(found.groups()), language)
    first, stop, rest = text.partition(". ")
    return known[f"{first}."] + _said(rest, language) if stop and f"{first}." in known else text


def _filled(template: str, words: list[str], language: str) -> str:
    """The template with its holes filled: `{}` in order, `{1}` the second of the English sentence."""
    rest = iter(words)

    def fill(hole: re.Match[str]) -> str:
        word = words[int(hole[1])] if hole[1] else next(rest)
        if hole[2]:
            return _said(word, language, named=True)
        # a single word may be the name of a column
        return word if word.isidentifier() else _said(word, language)

    return _HOLE.sub(fill, template)


Patterns = list[tuple[re.Pattern[str], str]]


@lru_cache
def _catalogue(language: str) -> tuple[dict[str, str], Patterns, Patterns]:
    """Sentences without holes, patterns for the others, and turns that names are put together from."""
    import tomllib

    entries = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    parts = entries.pop("parts", {})
    holed = sorted((text for text in entries if "{}" in text), key=lambda text: -len(text.replace("{}", "")))
    return (
        {text: other for text, other in entries.items() if "{}" not in text},
        [(_pattern(text), entries[text]) for text in holed],  # those that say most are tried first
        [(_pattern(text), other) for text, other in parts.items()],
    )


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(part) for part in template.split("{}")))
