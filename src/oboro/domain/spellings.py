"""Values and ranges as people write them, for the fix of what cannot be read. Nothing that is accepted is read here.

    <30    under 30    less than 30              up to 29, the last step below
    >=65   65+    65-    at least 65             from 65
    0-29   0 to 29    between 0 and 29           from 0 to 29
    1990/1/1   1990-01   1990                    a day, or all days of a month or year
    8,000                                        8000

Full-width signs and every kind of dash count as plain ones. The words and units of Japanese are among them, as escapes: all Japanese that
is said stands in language/. What could be read in two ways is not read: whoever shows a fix shows the form then, with placeholders.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from math import ceil, floor

from oboro.domain.columns import Category, Column, Date, Integer, Real
from oboro.domain.places import meant_place
from oboro.kinds import nearest

Span = tuple[
    int | None, int | None
]  # the first and the last code that are meant; None where an end is left out
LOW, HIGH, VALUE, COLUMN = (
    "LOW",
    "HIGH",
    "VALUE",
    "COLUMN",
)  # what stands in a form for what only the user knows

_LONGEST = 200  # characters of a range; whatever is longer is none
_SIGNS = str.maketrans(
    {**dict.fromkeys("‐‑‒–—―−", "-"), **dict.fromkeys("≥≧⩾", ">="), **dict.fromkeys("≤≦⩽", "<="), "〜": "~"}
)
_BEFORE = {
    ">=": (">=", "=>", "at least", "from", "since", "no less than", "not less than"),
    "<=": ("<=", "=<", "at most", "up to", "until", "no more than", "not more than", "to", "..", "~", ":"),
    "<": ("<", "under", "below", "less than", "fewer than", "younger than", "before"),
    ">": (">", "over", "above", "more than", "greater than", "older than", "after"),
}
_AFTER = {
    ">=": ("or more", "or over", "or older", "or above", "or later", "and over", "and above", "and older", "and up", "\u4ee5\u4e0a", "\u4ee5\u964d", "\u304b\u3089", "+", "-", "~", "..", ":"),
    "<=": ("or less", "or fewer", "or under", "or younger", "or below", "or earlier", "and under", "and below", "and younger", "\u4ee5\u4e0b", "\u4ee5\u524d", "\u307e\u3067"),
    "<": ("\u672a\u6e80",),
    ">": ("\u8d85", "\u3092\u8d85\u3048\u308b", "\u3088\u308a\u5927\u304d\u3044"),
}  # fmt: skip
_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+/\d+|(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:e[+-]?\d+)?)[\u6b73\u624d\u5186\u4eba\u4ef6]?"
_DAY = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}\u5e74(?:\d{1,2}\u6708(?:\d{1,2}\u65e5)?)?|\d{8}|\d{4}[-/.]\d{1,2}|\d{4}"
_BETWEEN = r"\s*(?:\.\.\.?|[-~:ー]|\s(?:to|until|through|and)\s|\u304b\u3089)\s*"


def spelt(text: str) -> str:
    """A text in plain signs: full-width letters, digits and signs are those of every keyboard, and each dash is one."""
    return unicodedata.normalize("NFKC", text).translate(_SIGNS).strip()


def _words(signs: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {word: sign for sign, words in signs.items() for word in words}


def _any_of(words: dict[str, str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_PREFIX, _SUFFIX = _words(_BEFORE), _words(_AFTER)


def _patterns(end: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Of a value alone, of one end, and of both."""
    one = rf"(?:({_any_of(_PREFIX)})\s*({end})|({end})\s*({_any_of(_SUFFIX)}))"
    both = rf"(?:between\s+)?({end}){_BETWEEN}({end})(?:\s*\u307e\u3067)?"
    two = rf"{one}(?:\s*(?:,|、|&|\u304b\u3064|\band\b)\s*|\s*){one}"
    return re.compile(rf"=*\s*({end})|{one}"), re.compile(both), re.compile(two)


_OF_NUMBERS, _OF_DAYS = _patterns(_NUMBER), _patterns(_DAY)


def meant_span(column: Column, value: object) -> Span | None:
    """What a text, a number or a pair of ends may have meant, within the bounds; None where that cannot be said."""
    if not isinstance(column, Integer | Real | Date):
        return None
    if isinstance(value, list | tuple):
        return _between(column, *value) if len(value) == 2 else None
    if not isinstance(value, str):
        return _alone(column, _covered(column, value))
    if len(value) > _LONGEST:
        return None
    text = spelt(value).lower()
    if text.count("..") == 1 and "..." not in text:
        found = _between(column, *(end.strip() or None for end in text.split("..")))
        if found is not None:
            return found
    alone, both, two = _OF_DAYS if isinstance(column, Date) else _OF_NUMBERS
    if (match := alone.fullmatch(text)) is not None:
        if match[1] is not None:
            return _alone(column, _covered(column, match[1]))
        return _compared(column, [match.groups()[1:]])
    if (match := both.fullmatch(text)) is not None:
        return _between(column, *match.groups())
    if (match := two.fullmatch(text)) is not None:
        return _compared(column, [match.groups()[:4], match.groups()[4:]])
    return None


def meant_spans(column: Column, value: object) -> list[Span] | None:
    """The same of a text that may name several, with commas between them."""
    found = meant_span(column, value)
    if found is not None or not isinstance(value, str) or re.fullmatch(r"\d{1,3}(,\d{3})+", spelt(value)):
        return None if found is None else [found]
    if re.search(r"\d,\d", text := spelt(value)) and (
        isinstance(column, Real) or re.search(r"[<>]|,0\d", text)
    ):
        return None  # two values, or one with a decimal comma
    several = [meant_span(column, part) for part in re.split("[,、;]", spelt(value))]
    known = [one for one in several if one is not None]
    return known if len(known) == len(several) else None


def meant_value(column: Category, value: object) -> str | int | None:
    """The value of a category that was mistyped, if one is near: any other would be another condition."""
    if isinstance(value, str):
        for one in column.values:
            if spelt(str(one)) == spelt(value):
                return one
    close = nearest(value, map(str, column.values))
    if close is None or _denials(str(value)) - _denials(close):
        return None  # `!=Fair` is near to `Fair`, and means all others
    return next((one for one in column.values if str(one) == close), None)


_DENIAL = re.compile(
    r"!|\u2260|<>|~|\b(?:not|no|non|except|without|excluding|other than|all but)\b"
    "|\u4ee5\u5916|\u3067\u306a\u3044|\u3067\u306f\u306a\u3044|\u9664"
)


def _denials(text: str) -> set[str]:
    return set(_DENIAL.findall(spelt(text).lower()))


def meant_columns(text: str, names: Sequence[str]) -> list[str | None]:
    """The columns that a text adds up, in order; None for what is none of them."""
    parts = re.split(r"\s*[+,、&]\s*|\s+and\s+", spelt(text))
    return [meant_column(part, names) for part in parts]


def meant_column(text: str, names: Sequence[str]) -> str | None:
    found = next((name for name in names if spelt(name) == spelt(text)), None)
    if found is None and not re.search(
        r"\s-|-\s|[*/()=]", text
    ):  # nearest would read only a part of a calculation
        found = nearest(text, names)
    return found


def meant_count(value: object) -> int | None:
    """How many: a whole number that is written in another way, such as 4,500 or ４５００."""
    if isinstance(value, str):
        text = spelt(value)
        digits = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text
        return int(digits) if re.fullmatch("[0-9]{1,15}", digits) else None
    try:
        number = int(value)  # type: ignore[call-overload]
        exact = not isinstance(value, bool) and number == value and number >= 0
    except (TypeError, ValueError, OverflowError):
        return None
    return number if exact else None


Covered = tuple[
    Fraction, Fraction
]  # the first and the last place that a value stands for: of a year, its days


def _covered(column: Column, value: object) -> Covered | None:
    if isinstance(column, Date) and isinstance(value, str):
        days = _days(value)
        found = [meant_place(column, day) for day in days] if days else [meant_place(column, value)]
    else:
        if isinstance(value, str) and "," in value and isinstance(column, Real):
            return None  # of a decimal comma nobody knows whether it is one
        text = (
            re.sub("[,\u6b73\u624d\u5186\u4eba\u4ef6]", "", spelt(value)) if isinstance(value, str) else value
        )
        found = [meant_place(column, text)]
    first, last = found[0], found[-1]
    return None if first is None or last is None else (first, last)


def _days(text: str) -> tuple[date, date] | None:
    """The first and the last day of a day, a month or a year."""
    numbers = [int(part) for part in re.findall(r"\d+", spelt(text))]
    if not re.fullmatch(_DAY, spelt(text)) or re.fullmatch(r"\d{8}", spelt(text)):
        return None
    year, month, day = [*numbers, None, None][:3]
    try:
        if month is None:
            return date(year or 0, 1, 1), date(year or 0, 12, 31)
        last = monthrange(year or 0, month)[1]
        return date(year or 0, month, day or 1), date(year or 0, month, last if day is None else day)
    except ValueError:  # no day of the calendar
        return None


def _alone(column: Column, covered: Covered | None) -> Span | None:
    if covered is None or (covered[0] == covered[1] and covered[0].denominator != 1):
        return None
    return _within(column, ceil(covered[0]), floor(covered[1]))


def _between(column: Column, low: object, high: object) -> Span | None:
    """From one end to the other, the other way round where both are values and they are, within the bounds: 1995-98 is no range from 98."""
    ends = [None if end is None or end == "" else _covered(column, end) for end in (low, high)]
    if any(end is None and given not in (None, "") for end, given in zip(ends, (low, high), strict=True)):
        return None
    first, last = ends
    if first is not None and last is not None and first[0] > last[1]:
        if last[0] < 0 or first[1] >= column.size:
            return None
        first, last = last, first
    return _within(
        column, None if first is None else ceil(first[0]), None if last is None else floor(last[1])
    )


def _compared(column: Column, ends: Sequence[Sequence[str | None]]) -> Span | None:
    """Of one or two comparisons: a sign or word before a value, or one after it."""
    low: int | None = None
    high: int | None = None
    for before, first, second, after in ends:
        covered = _covered(column, first or second)
        sign = _PREFIX[before] if before else _SUFFIX[after or ""]
        if covered is None:
            return None
        if sign in (">", ">="):
            if low is not None:
                return None
            low = ceil(covered[0]) if sign == ">=" else floor(covered[1]) + 1
        else:
            if high is not None:
                return None
            high = floor(covered[1]) if sign == "<=" else ceil(covered[0]) - 1
    if (low is None or low <= 0) and (high is None or high >= column.size - 1):
        return None  # of all values nobody says anything
    return _within(column, low, high)


def _within(column: Column, low: int | None, high: int | None) -> Span | None:
    """As far as there are values; None where there are none."""
    if (low is not None and low >= column.size) or (high is not None and high < 0):
        return None
    if low is not None and high is not None and low > high:
        return None
    return (
        None if low is None else max(low, 0),
        None if high is None else min(high, column.size - 1),
    )
