"""One text for one value: JSON with sorted keys, no spaces, ASCII only, and no floats.

A hash is only as good as the text that it is taken of. Two programs that hold the same plan must write
the same bytes, today and in ten years, so numbers that print differently from machine to machine are
refused: exact rationals are written as text.
"""

from __future__ import annotations

import hashlib
import json
import re
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


def laid_out(record: dict[str, Any], indent: int) -> bytes:
    """A record as the file that people can open: the one form in which a signed page goes out."""
    return (json.dumps(record, ensure_ascii=False, indent=indent) + "\n").encode()


def read_laid_out(content: bytes, indent: int) -> dict[str, Any] | None:
    """The record that `laid_out` made a file of, to the byte; None for everything else.

    JSON has many readings: of a name that stands there twice one program takes the first and another the last. A
    signature covers what we read. So nothing is accepted but the bytes that we write ourselves for what we read.
    """
    try:
        record = json.loads(content.decode("utf-8"))
        same = isinstance(record, dict) and laid_out(record, indent) == content
    except (ValueError, RecursionError):
        return None
    return record if same else None


def is_hex(text: Any, size: int) -> bool:
    """Whether a text is `size` bytes in the one way that we write them."""
    return isinstance(text, str) and re.fullmatch(rf"[0-9a-f]{{{2 * size}}}", text) is not None


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
