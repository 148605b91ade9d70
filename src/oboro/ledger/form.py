"""What a signed record looks like: the kind of each of its parts, checked where its bytes are read.

A signature says who wrote something, not that it makes sense: anybody can sign a time that is no time. So whatever
comes from a ledger, an export or a certificate is compared with its form first, part by part, and who works with it
afterwards finds what the form says, or nothing.

A form is one of

    str, int, dict      a value of exactly this kind; what is inside a table is not looked at
    a pattern           a text that fits it
    a function          one that reads the value, and raises ValueError where it cannot (as every InputError is one)
    a tuple             one of several forms
    a list of one form  a list, each of its values of this form
    a table             the same names and no others, each with its form; a name that ends in "?" may be missing
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from oboro.privacy import guarantee_from, unit_from

DEEPEST = 100  # tables and lists within one another: far beyond any plan, and far from where Python gives up
_LARGEST = 2**62  # of a whole number that a database keeps

HASH = re.compile(r"[0-9a-f]{64}")  # also a public key, which is as long
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

Form = Any
_NO_LIST = object()  # fits no form


def misfit(value: object, form: Form, where: str = "") -> str | None:
    """The first part that is missing, unknown or not of its form, by its name; None if all is well."""
    if isinstance(form, dict):
        return _in_table(value, form, where)
    if isinstance(form, list):
        each = value if type(value) is list else [_NO_LIST]
        return next((wrong for one in each if (wrong := misfit(one, form[0], where)) is not None), None)
    return None if _fits(value, form) else where


def _in_table(value: object, form: dict[str, Form], where: str) -> str | None:
    if type(value) is not dict:
        return where
    before = f"{where}." if where else ""
    names = {name.removesuffix("?"): name for name in form}
    if unknown := [name for name in value if name not in names]:
        return f"{before}{unknown[0]}"
    for name, spelt in names.items():
        if name in value:
            wrong = misfit(value[name], form[spelt], f"{before}{name}")
        else:
            wrong = None if spelt.endswith("?") else f"{before}{name}"
        if wrong is not None:
            return wrong
    return None


def _fits(value: object, form: Form) -> bool:
    if isinstance(form, tuple):
        return any(misfit(value, one) is None for one in form)
    if isinstance(form, re.Pattern):
        return isinstance(value, str) and form.fullmatch(value) is not None
    if isinstance(form, type):
        return type(value) is form
    try:
        form(value)
    except ValueError:
        return False
    return True


def writable(value: object, deepest: int = DEEPEST) -> bool:
    """Whether a value can be written, read and shown by all: not nested without end, and no half letters in its texts."""
    try:
        text = json.dumps(value)
        if text.count("[") + text.count("{") <= deepest and "\\ud" not in text:
            return True  # as nearly every record: so few brackets are not nested deeper, and no letter is half of one
    except (ValueError, TypeError, RecursionError):
        pass
    return all(depth <= deepest and _encodes(text) for depth, text in _texts(value))


def _texts(value: object) -> Iterator[tuple[int, str]]:
    """How deep each table and list is, and each text that is in it; without recursion, for there may be no end of it."""
    waiting: list[tuple[int, object]] = [(0, value)]
    while waiting:
        depth, one = waiting.pop()
        if isinstance(one, str):
            yield depth, one
        elif isinstance(one, dict | list | tuple):
            yield depth + 1, ""
            inner = [*one, *one.values()] if isinstance(one, dict) else one
            waiting.extend((depth + 1, part) for part in inner)


def _encodes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


# What functions of a form read.


def a_time(value: object) -> datetime:
    """A moment, to the second, as every entry has one."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        return datetime.fromisoformat(value)
    raise ValueError(value)


def a_number(value: object) -> int:
    """How many, or at which place."""
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    raise ValueError(value)


def nothing(value: object) -> None:
    if value is not None:
        raise ValueError(value)


def worded(read: Callable[[object], object]) -> Callable[[object], object]:
    """A promise or a unit with words beside it."""

    def both(value: object) -> object:
        if type(value) is not dict or type(value.get("in_words")) is not str:
            raise ValueError(value)
        return read({name: part for name, part in value.items() if name != "in_words"})

    return both


# An entry, and its body by its kind. `schema` came with 0.2: a ledger without it is of schema 1.

_STATE: dict[str, Form] = {"spent": guarantee_from, "key": HASH, "time": a_time}
_LATER = {**_STATE, "root": HASH}
BODIES: dict[str, dict[str, Form]] = {
    "create": {
        **_STATE,
        "id": re.compile(r"[0-9a-f]{32}"),
        "schema?": a_number,
        "dataset": str,
        "unit": unit_from,
        "budget": guarantee_from,
    },
    "reserve": {
        **_LATER,
        "name": (str, nothing),
        "plan": dict,
        "plan_hash": HASH,
        "unit": unit_from,
        "guarantee": guarantee_from,
        "cost": guarantee_from,
    },
    "commit": {
        **_LATER,
        "reservation": a_number,
        "reservation_hash": HASH,
        "size": a_number,
        "sha256": HASH,
        "facts": dict,
    },
    "key": {**_LATER, "replaces": HASH},
    "upgrade": {**_LATER, "from": a_number, "schema": a_number, "software": str},
}
ENTRY: dict[str, Form] = {
    "position": a_number,
    "kind": re.compile("|".join(BODIES)),
    "body": dict,
    "previous": HASH,
    "hash": HASH,
    "signature": str,
}
