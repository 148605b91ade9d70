"""Numbers and days in texts: one grammar for Python and for every engine.

    number   blanks [sign] digits [. [digits]] [exponent] blanks, or with the point first: . digits
             blanks [sign] inf blanks, or infinity, in any case
    exponent e or E, [sign] digits
    whole    blanks [sign] digits [. zeros] blanks: a number that is also known exactly, however long it is
    day      blanks YYYY-MM-DD, a day of the years 0001 to 9999; what follows, mostly a time of day, is left off
    blanks   spaces, tabs, line ends, vertical tabs, form feeds, or nothing
    digits   0 to 9

Nothing else is a number or a day: no 1_000, no 0x10, no 1/2, no 1d, no digits of other scripts, no 2026-1-5. A number counts as
the double nearest to it, so that 1e400 is infinite and 1e-400 is 0.

An engine may use casts of its own for texts that this grammar admits. tests/engine/test_grammar.py holds them against it.
"""

from __future__ import annotations

import re
from datetime import date

BLANKS = r"[\t-\r ]*"
PLAIN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
ENDLESS = r"[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
WHOLE = r"([+-]?[0-9]+)(?:\.0*)?"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"

_NUMBER = re.compile(f"{BLANKS}({PLAIN}|{ENDLESS}){BLANKS}")
_WHOLE = re.compile(f"{BLANKS}{WHOLE}{BLANKS}")
_DAY = re.compile(f"{BLANKS}({DAY})")
_SAFE = 4000  # digits: Python refuses to read whole numbers of many more


def double_of(text: str) -> float | None:
    """The double nearest to the number that a text is; None if it is none."""
    found = _NUMBER.fullmatch(text)
    return None if found is None else float(found[1])


def whole_of(text: str) -> int | None:
    """The whole number that a text is, if it is written in digits; beyond 4,000 digits one as far from every bound."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    digits = found[1].lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _SAFE else 10**_SAFE
    return -number if found[1].startswith("-") else number


def day_of(text: str) -> date | None:
    """The day that a text begins with; None if it does not."""
    found = _DAY.match(text)
    try:
        return None if found is None else date.fromisoformat(found[1])
    except ValueError:  # no day of the calendar
        return None
