"""What oboro says, in the reader's language.

Code says everything in English. A catalogue beside this file gives the same in another language, sentence by
sentence, with `{}` for what changes: names, numbers, lines of code. So nothing in the code knows that there is
more than one language, and a sentence without a translation is simply said in English.

The names of things ("mean of age by region") are put together from turns ("{} by {}") that are too short to be
looked for in any text. They stand under `parts`, in the order in which a name is taken apart, and are used by
`phrase`, and for a hole that the translation marks: `{+}`; a condition, which is code, stays as it is: `{!}`. Sentences of pages, whose holes have names, stand under `pages`;
what reproductions of the papers say, under `papers`, where `{+}` is a hole with a text of the same kind.

The language is that of OBORO_LANGUAGE, or else of the locale (LC_ALL, LC_MESSAGES, LANG). What programs read
(JSON, certificates, attributes of errors) is always English.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

LANGUAGES = ("en", "ja")
LONGEST = 1000  # signs of one text of anybody's that are shown
_UNSEEN = (
    "Cc",
    "Cf",
    "Cs",
    "Co",
    "Cn",
    "Zl",
    "Zp",
)  # controls, formats, half signs, ends of lines, signs of nobody
# spaces and fillers that look like a space, and marks that change nothing that is seen
_BLANK = re.compile(
    r"[^\S \u3000]|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ODD = re.compile(
    r"[^ -~\u3000-\u3029\u3030-\u3098\u309b-\u30ff\u3400-\u9fff]"
)  # what is looked at: not the commonest
_ODD_OR_SPACES = re.compile(_ODD.pattern + r"|(?<=[ \u3000])[ \u3000]")
_HOLE = re.compile(r"\{(\d*)([+!]?)\}")
_NAMED = re.compile(r"\{(\w+)\}")
_BY, _EACH = "\u5225", "\u3054\u3068"
_JAPANESE = re.compile("[\u3005-\u3007\u3041-\u30ff\u4e00-\u9fff]")


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


def reproduced(text: str, language: str | None = None) -> str:
    """What a reproduction of a paper says, in the language of this process. Names, numbers and formulas stay."""
    language = language or chosen()
    if language == "en":
        return text
    known, patterns = _papers(language)
    if text in known:
        return known[text]
    for pattern, other in patterns:
        if found := pattern.fullmatch(text):
            return _with(
                other, list(found.groups()), lambda word, mark: reproduced(word, language) if mark else word
            )
    return text


class Lines(str):
    """A text whose ends of lines are ours: foreign words in it went through `plain` before."""

    __slots__ = ()


def plain(text: str, *, lines: bool = False) -> str:
    """A text of anybody's as it may be shown: on one line, and without a sign that a terminal or a reader's eye obeys.

    Escape codes, carriage returns, signs that turn the direction of writing, take no room or look like a space: all are
    written out, as \\u001b. So is every space after a space, for many of them would begin a line of the terminal, and a
    long text is cut. With `lines`, and in `Lines`, the ends of lines, the spaces and the length stay.
    """
    if lines or isinstance(text, Lines):
        return _ODD.sub(lambda found: found[0] if found[0] == "\n" else _seen(found), text)
    if len(text) > LONGEST + 20:  # with what is said of the rest it is not cut once more
        text = f"{text[:LONGEST]}… (+{len(text) - LONGEST})"
    return _ODD_OR_SPACES.sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    """A sign as it is, or written out if it would not be seen. A mark is seen on a letter, with one more mark at most."""
    sign, at = found[0], found.start()
    kind = unicodedata.category(sign)
    unseen = sign in " \u3000" or kind in _UNSEEN or _BLANK.match(sign) is not None
    if not unseen and kind in ("Mn", "Me"):
        before = [unicodedata.category(one)[0] for one in found.string[max(0, at - 2) : at]]
        unseen = before[-1:] != ["L"] and before != ["L", "M"]
    return "".join(f"\\u{half:04x}" for half in _halves(sign)) if unseen else sign


def without_password(text: str) -> str:
    """A text in which an address of a database shows no password, even if the address was mistyped: for errors and logs."""
    text = re.sub(r"[^\s\"]+", lambda word: _without_password(word[0]), text) if _AT.search(text) else text
    text = _masked(text)
    if text.isascii() and not re.search(r"[%\\]", text):
        return text
    plainly = opened(text)
    shown = _masked(plainly)
    return shown if shown != plainly else text


def _masked(text: str) -> str:
    """Without the password of an address that was cut off, and without that of an option."""
    text = _UNENDED.sub(lambda found: found[1] + _after_password(found[2]), text)
    return _OPTION.sub(r"\1***", text)


def opened(text: str) -> str:
    """A text as whoever typed it meant it: full-width signs, look-alikes and escapes (%40) as plain ones, all slashes alike."""
    for _ in range(3):
        text = unicodedata.normalize("NFKC", unquote(text))
    return text.translate(_ALIKE)


# What looks like a sign of an address, or comes from its key: a yen or a won where a backslash is elsewhere.
_ALIKE = {
    ord(sign): plainly
    for plainly, signs in {
        ":": "\u02d0\u02f8\u0589\u05c3\u1361\u205a\u2236\u2982\ua4fd\ua789",
        "/": "\\\xa5\u20a9\u2041\u2044\u2215\u2216\u2571\u2572\u27cb\u27cd\u29f5\u29f8\u29f9\u3033",
    }.items()
    for sign in signs
}

_OPTION = re.compile(
    r"(password\s*=\s*)(?!\*\*\*)(?:'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?|(?:\\.|[^&\s\"'\\])+)",
    re.IGNORECASE,
)
# an address with a space or a quote in its password, or one that was cut off before its @; but a number may be a port: before a slash, or where no @ follows
_UNENDED = re.compile(
    r"(postgres\w*(?:\+\w+)?:/+[^\s:/@]*:)(?!\*\*\*|\d{0,5}(?:[/?]|(?:[\s\"',;.)]|$)(?!(?:(?!postgres)[^\n@])*@)))([^\n]*)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"postgres[\w+]*:?/*|:/+", re.IGNORECASE)  # a path has one slash less than was typed
_COLON = re.compile(r":|%3a", re.IGNORECASE)
_AT = re.compile(r"[@\ufe6b\uff20]|%(25)*40")


def _without_password(word: str) -> str:
    """A word without the password of an address, read plainly if there is one only then, or more of it."""
    plainly = opened(word)
    shown = _between(plainly)
    return shown if shown != plainly else _between(word)


def _between(word: str) -> str:
    """Leaves out what stands between the name of a user and the last @, also where a slash of the address is missing."""
    end, address = word.rfind("@"), _ADDRESS.search(word)
    colon = _COLON.search(word, address.end(), end) if address and address.end() < end else None
    return f"{word[: colon.start()]}:***{word[end:]}" if colon else word


def _after_password(rest: str) -> str:
    """What follows on a line after the name of a user, without the password: that ends with the last @, or with the word."""
    at = rest.rfind("@")
    return "***" + (rest[at:] if at >= 0 else re.sub(r"^[^\s\"]*", "", rest))


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


def aligned(
    rows: Sequence[Sequence[str]], sides: str = "<>", *, indent: int = 2, screen: int | None = None
) -> list[str]:
    """The lines of a table. `sides` says of each column where its cells stand, the last sign holding for the rest:
    texts on the left, `<`, and numbers on the right, `>`.

    Where it is wider than the screen, columns that find no room follow below, the first one repeated: nothing is cut.
    What is written to a file or to another program has no width; `screen` gives one.

    >>> print(*aligned([["noise", "5", "10"], ["stable", "1.0%", "12.5%"]]), sep="\\n")
      noise      5     10
      stable  1.0%  12.5%
    """
    if not rows:
        return []
    columns = len(rows[0])
    sides = sides[:columns] + sides[-1] * (columns - len(sides))
    widths = [max(room(row[i]) for row in rows) for i in range(columns)]
    most = (_screen() if screen is None else screen) - indent
    blocks = [[0]]
    for i in range(1, columns):
        if sum(widths[j] + 2 for j in blocks[-1]) + widths[i] > most and blocks[-1] != [0]:
            blocks.append([0])
        blocks[-1].append(i)
    lines: list[str] = []
    for block in blocks:
        lines += [""] if lines else []
        for row in rows:
            cells = (left(row[i], widths[i]) if sides[i] == "<" else right(row[i], widths[i]) for i in block)
            lines.append((" " * indent + "  ".join(cells)).rstrip(" "))
    return lines


def _screen() -> int:
    """How many columns the reader's terminal has; no end of them where nobody looks on."""
    try:
        watched = sys.stdout is not None and sys.stdout.isatty()
    except ValueError:  # it was closed
        watched = False
    return shutil.get_terminal_size().columns if watched else sys.maxsize


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
            named_parts = list(found.groups())
            return _with(
                other, named_parts, lambda word, mark: word if mark == "!" else _said(word, language, named)
            )
    for pattern, other in patterns:
        if found := pattern.fullmatch(text):
            return _filled(other, list(found.groups()), language)
    first, stop, rest = text.partition(". ")
    return known[f"{first}."] + _said(rest, language) if stop and f"{first}." in known else text


def _filled(template: str, words: list[str], language: str) -> str:
    """The template with its holes filled: `{}` in order, `{1}` the second of the English sentence."""

    def fill(word: str, mark: str) -> str:
        # a single word may be the name of a column
        return word if word.isidentifier() and not mark else _said(word, language, bool(mark))

    return _with(template, words, fill)


def _with(template: str, words: list[str], fill: Callable[[str, str], str]) -> str:
    """The template with each hole filled by what `fill` makes of its word, and of the mark of the hole."""
    rest, filled, at = iter(words), "", 0
    for hole in _HOLE.finditer(template):
        word = fill(words[int(hole[1])] if hole[1] else next(rest), hole[2])
        filled, at = _joined(_joined(filled, template[at : hole.start()]), word), hole.end()
    return _joined(filled, template[at:])


def _joined(before: str, after: str) -> str:
    """One after the other. The space that keeps a word of other letters apart goes where both sides are Japanese."""
    if (
        before[-1:] == after.lstrip(" ")[:1] == _BY
    ):  # by a column whose own name ends so, such as that of the sexes
        return before + _EACH + after.lstrip(" ")[1:]
    if before[-1:] == " " and _JAPANESE.fullmatch(before[-2:-1]) and _JAPANESE.match(after):
        return before[:-1] + after
    if after[:1] == " " and _JAPANESE.fullmatch(before[-1:]) and _JAPANESE.match(after[1:]):
        return before + after[1:]
    return before + after


def filled(text: str, values: Mapping[str, str]) -> str:
    """A sentence of a page with its braces filled, by their names."""
    told, at = "", 0
    for hole in _NAMED.finditer(text):
        told, at = _joined(_joined(told, text[at : hole.start()]), values[hole[1]]), hole.end()
    return _joined(told, text[at:])


def of_pages(text: str, language: str) -> str:
    """A sentence of a page, its braces left open."""
    entries, _, pages, _ = _file(language)
    return pages.get(text) or entries[text]


Patterns = list[tuple[re.Pattern[str], str]]


@lru_cache
def _catalogue(language: str) -> tuple[dict[str, str], Patterns, Patterns]:
    """Sentences without holes, patterns for the others, and turns that names are put together from."""
    entries, parts, _, _ = _file(language)
    return *_sorted(entries), [(_pattern(text), other) for text, other in parts.items()]


@lru_cache
def _papers(language: str) -> tuple[dict[str, str], Patterns]:
    return _sorted(_file(language)[3])


def _sorted(entries: dict[str, str]) -> tuple[dict[str, str], Patterns]:
    """Sentences without holes, and patterns for the others: those that say most are tried first."""
    holed = sorted((text for text in entries if "{}" in text), key=lambda text: -len(text.replace("{}", "")))
    return (
        {text: other for text, other in entries.items() if "{}" not in text},
        [(_pattern(text), entries[text]) for text in holed],
    )


@lru_cache
def _file(language: str) -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]:
    """Sentences, turns of names, sentences of pages and of reproductions, as they stand in the file."""
    import tomllib

    entries = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    parts, pages, papers = (entries.pop(name) for name in ("parts", "pages", "papers"))
    return entries, parts, pages, papers


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(part) for part in template.split("{}")))
