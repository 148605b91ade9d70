"""What a caller hands in, by its kind: an argument of the wrong one is refused in oboro's words.

Numbers are `exact`'s business. This is for everything else: a domain where a domain is needed, a path, a list of
names, an array. So a mistake says which argument it was, and never looks like a fault inside.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from oboro.errors import ParameterError, setting, told

P = ParamSpec("P")
R = TypeVar("R")

Kind = type | tuple[type, ...] | Callable[[str, Any], Any]


def takes(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Checks arguments by name before a function runs: `@takes(domain=Domain, path=path_of)`.

    A class is what the argument must be an instance of; a function turns (name, value) into what is handed on.
    An argument whose default is None may be None.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        if strange := kinds.keys() - signature.parameters.keys():
            raise TypeError(f"{function.__name__} has no argument {', '.join(sorted(strange))}")
        optional = {name for name, one in signature.parameters.items() if one.default is None}
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        places = {
            name: place
            for place, (name, one) in enumerate(signature.parameters.items())
            if one.kind in by_place
        }

        rest = {
            name: place
            for place, (name, one) in enumerate(signature.parameters.items())
            if one.kind is inspect.Parameter.VAR_POSITIONAL and name in kinds
        }

        beyond = sys.maxsize  # what is given by name alone
        looked_at = [
            (name, kind, places.get(name, beyond), name in optional)
            for name, kind in kinds.items()
            if name not in rest
        ]

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given: list[Any] = list(args)
            for name, place in rest.items():  # *names: all that is left
                given[place:] = _of_kind(name, tuple(given[place:]), kinds[name])
            for name, kind, place, may_be_none in looked_at:
                named = name in kwargs
                if not named and place >= len(given):
                    continue  # its default, or Python says that it is missing
                value = kwargs[name] if named else given[place]
                if type(value) is kind or (value is None and may_be_none):
                    continue
                value = _of_kind(name, value, kind)
                if named:
                    kwargs[name] = value
                else:
                    given[place] = value
            return function(*given, **kwargs)

        return checked

    return wrap


def instance(name: str, value: object, *kinds: type) -> Any:
    """`value`, if it is one of `kinds`."""
    if isinstance(value, kinds):
        return value
    raise ParameterError(
        f"{name} is of the wrong kind",
        given=told(**{name: shown(value)}),
        needed=" or ".join(kind.__name__ for kind in kinds),
    )


def path_of(name: str, value: object) -> Path:
    """A path that the system can be asked for."""
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if (
            isinstance(path, str)
            and path.strip()
            and "\0" not in path
            and _encodes(path)
            and not _too_long(path)
        ):
            return Path(path)
    raise ParameterError(
        f"{name} is not a path",
        given=told(**{name: shown(value)}),
        needed="the path of a file",
        fix=setting(**{name: "file"}),
    )


def text_of(name: str, value: object) -> str:
    """A text that can be written down: no half characters."""
    if isinstance(value, str) and _encodes(value):
        return value
    raise ParameterError(f"{name} is not a text", given=told(**{name: shown(value)}), needed="a text")


def list_of(name: str, value: object) -> list[Any]:
    """Several things: what can be iterated over, but not a text, a number or a mapping."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview | dict):
        try:
            return list(value)
        except TypeError:  # an array without dimensions
            pass
    raise ParameterError(
        f"{name} is not a list",
        given=told(**{name: shown(value)}),
        needed="a list",
        fix=setting(**{name: [...]}),
    )


def names_of(name: str, value: object) -> str | list[str]:
    """A name, or several."""
    if isinstance(value, str):
        return text_of(name, value)
    return [text_of(name, one) for one in list_of(name, value)]


def numbers_of(name: str, value: object) -> Any:
    """An array of finite numbers, as floats."""
    import numpy as np

    try:
        found = np.asarray(value)
        array = np.array(np.nan) if found.dtype.kind == "c" else np.asarray(found, np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array(np.nan)
    if not np.isfinite(array).all():
        raise ParameterError(
            f"{name} is not an array of numbers", given=told(**{name: shown(value)}), needed="finite numbers"
        )
    return array


def each_of(*kinds: type) -> Callable[[str, Any], tuple[Any, ...]]:
    """Several things, each of one of `kinds`."""

    def check(name: str, value: object) -> tuple[Any, ...]:
        return tuple(instance(name, one, *kinds) for one in list_of(name, value))

    return check


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is spelt most like `name`. Only for names that are public: columns, methods, words."""
    import difflib

    names = {str(one).casefold(): str(one) for one in known}
    try:
        name = str(name)
    except ValueError:  # a whole number of more digits than Python writes
        return None
    if name.isdecimal():  # a code that lost its zeros, as in a spreadsheet: 1 is 01
        for one in names.values():
            if one.isdecimal() and one.lstrip("0") == name.lstrip("0"):
                return one
    # a name in characters has few of them: of two that are spelt alike half may differ
    close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.6 if name.isascii() else 0.5)
    return names[close[0]] if close else None


def unknown(argument: str, value: object, known: Iterable[str]) -> ParameterError:
    """The error for a word that is none of those that an argument may be, with the nearest of them."""
    names = list(known)
    close = nearest(value, names)
    return ParameterError(
        f"{argument} is unknown" + (f": did you mean {close!r}?" if close else ""),
        given=told(**{argument: shown(value)}),
        needed=", ".join(names),
        fix=setting(**{argument: f"{close or names[0]}"}),
    )


def shown(value: object) -> str:
    """A value in an error: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = text.encode("utf-8", "backslashreplace").decode()
    if "\n" in text:  # a table, drawn in lines: cut off, it says nothing
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _of_kind(name: str, value: object, kind: Kind) -> Any:
    if isinstance(kind, type):
        return instance(name, value, kind)
    return instance(name, value, *kind) if isinstance(kind, tuple) else kind(name, value)


def _too_long(path: str) -> bool:
    """Longer than file systems take: 255 bytes for a name, 4,095 in all."""
    return len(os.path.abspath(path).encode()) > 4095 or any(
        len(part.encode()) > 255 for part in Path(path).parts
    )


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
