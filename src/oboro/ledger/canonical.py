"""One text for one value: JSON with sorted keys, no spaces, ASCII only, and no floats.

A hash is only as good as the text that it is taken of. Two programs that hold the same plan must write
the same bytes, today and in ten years, so numbers that print differently from machine to machine are
refused: exact rationals are written as text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from oboro.errors import ParameterError


def canonical(value: Any, name: str = "value") -> str:
    """The canonical JSON text of `value`; `name` is how an error calls it."""
    try:
        _check(value, name)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except RecursionError:
        raise ParameterError(f"{name} is nested too deeply", needed="a plain table of facts") from None
    except ParameterError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise ParameterError(f"{name} cannot be written as JSON", given=str(error)) from None


def plan_hash(plan: dict[str, Any]) -> str:
    """What tells one plan from another: the SHA-256 of its canonical text."""
    return sha256(canonical(plan, "plan").encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _check(value: Any, name: str) -> None:
    if value is None or isinstance(value, bool | int | str):
        return
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{name}[{index}]")
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParameterError(
                    f"{name} has a key that is not a text", given=repr(key), fix=f"{key!r} as a text"
                )
            _check(item, f"{name}.{key}")
        return
    raise ParameterError(
        f"{name} cannot be kept in a ledger",
        given=f"{type(value).__name__} {value!r}"[:80],
        needed="texts, whole numbers, true, false, null, and lists and tables of them",
        fix='an exact number as a text, such as "0.1" or "1/3"',
    )
