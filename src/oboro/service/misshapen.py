"""What is wrong with a request whose shape is not what was asked for, in oboro's own words: pydantic's are for programmers, and English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oboro.errors import ParameterError
from oboro.service import models

_NUMBERS = ("int_", "float_", "decimal_", "finite_number")
_OURS = (
    "constrained-",
    "function-",
    "int",
    "float",
    "str",
    "list[",
    "union[",
    "tagged-union",
)  # of loc: which of several shapes


def misshapen(errors: Sequence[Mapping[str, Any]], *, skip: int = 0) -> ParameterError:
    """The first thing that is wrong. `skip`: how many parts of its place say where the request came from."""
    first: Mapping[str, Any] = errors[0] if errors else {"type": "", "loc": ()}
    parts = [part for part in first["loc"][skip:] if not str(part).startswith(_OURS)]
    where = ".".join(str(part) for part in parts)[:200]
    shown = first.get("input")
    typed = f": {shown}" if isinstance(shown, str | int | float) and where else ""
    return ParameterError(
        "the request is not understood",
        given=f"{where}{typed}"[:200] or "the whole of it",
        needed=needed(first),
        argument=where or None,
    )


def needed(error: Mapping[str, Any]) -> str:
    """What a field takes."""
    kind, said = str(error["type"]), error.get("ctx") or {}
    if kind == "string_pattern_mismatch":
        return {models.ABOVE_0: "a number above 0", models.WHO: "1 to 64 letters, digits, dots, dashes"}.get(
            said.get("pattern", ""), "a number"
        )
    if kind.startswith(_NUMBERS):
        return "a whole number" if kind.startswith("int_") else "a number"
    if kind == "union_tag_invalid" or kind in ("literal_error", "enum"):
        return f"one of {str(said.get('expected_tags') or said.get('expected', '')).replace(' or ', ', ')}"[
            :300
        ]
    bounds = {
        "too_short": ("min_length", "at least {} of them"),
        "too_long": ("max_length", "at most {} of them"),
        "string_too_short": ("min_length", "at least {} signs"),
        "string_too_long": ("max_length", "at most {} signs"),
        "greater_than_equal": ("ge", "at least {}"),
        "less_than_equal": ("le", "at most {}"),
        "greater_than": ("gt", "above {}"),
        "less_than": ("lt", "below {}"),
    }
    if kind in bounds:
        name, words = bounds[kind]
        return words.format(said.get(name, ""))
    if kind == "extra_forbidden":
        return "no such field"
    return "it must be said" if kind == "missing" else "another kind of value"
