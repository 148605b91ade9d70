"""Bad values: what a caller might hand in by mistake, or in malice."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 7, 10**6 + 1, 2**48, 2**63, 2**64, -(2**63), 10**30, 10**400,
    0.0, -0.0, 0.5, -1.5, 1e-300, 5e-324, 1e300, math.inf, -math.inf, math.nan,
    Fraction(1, 3), Fraction(-7, 2), Fraction(10**50, 3), Fraction(1, 10**50),
    Decimal("0.1"), Decimal("NaN"), Decimal("Infinity"), Decimal("1e9999"), Decimal("sNaN"),
    "", " ", "0", "1", "-1", "0.1", "1/3", "1/0", "1e5", "1e999", "1e-999", "nan", "inf", "٣", "²", "½", "1_000",
    "9" * 5000, "\0", "a\nb", "人口", "🌙", "\ud800", "'; DROP TABLE entries; --", "../..", "age", "region", "person",
    "a" * 5000, "(" * 200, "age >= 20", "postgresql://", "sqlite://", "file:///etc", "2026-02-30", "0000-00-00",
    b"", b"bytes", b"\xff\xfe\0", bytearray(b"x"), memoryview(b"x"),
    [], [None], [[]], [1, 2], [math.nan], ["age"], ["age", "age"], [1, [2, [3]]], (), (0,), (1, 2), (-1, 2), {}, {"a": 1},
    {"kind": "pure"}, {1: 2}, {"kind": None}, {"columns": [1]}, set(), {1}, range(3), range(0),
    np.int8(3), np.int64(-1), np.uint64(2**64 - 1), np.float64("nan"), np.float32(0.1), np.float64(1e308), np.bool_(True),
    np.array([]), np.array([1, 2]), np.array([[1.0, math.nan]]), np.array(3), np.array("x"), np.array([None]), np.zeros((0, 3)),
    np.datetime64("2026-01-01"), np.datetime64("NaT"), np.ma.masked, 1j, object, object(), print, len, ..., NotImplemented,
]  # fmt: skip


@cache
def any_value() -> st.SearchStrategy[Any]:
    """One bad value: a listed one, or a generated one of any kind and depth."""
    leaf = (
        st.integers(-(10**6), 10**6)
        | st.floats()
        | st.text(max_size=20)
        | st.binary(max_size=20)
        | st.fractions(max_denominator=10**9)
        | st.sampled_from(HOSTILE)
    )
    nested = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=5,
    )
    return st.sampled_from(HOSTILE) | nested


def near(value: Any) -> st.SearchStrategy[Any]:
    """A value close to a good one, so that the first checks let it pass."""
    if isinstance(value, bool) or value is None:
        return st.sampled_from([True, False, None])
    if isinstance(value, int):
        double = float(value) if abs(value) < 2**1000 else 1e300
        return st.sampled_from([value, value + 1, value - 1, -value, 0, double, str(value), value * 1000])
    if isinstance(value, float | Fraction):
        return st.sampled_from([value, value * 2, -value, 0, 1, str(value), 1e-9, 1e9])
    if isinstance(value, str):
        return mutated_text(value)
    if isinstance(value, list | tuple) and value:
        kind = type(value)
        edits = [kind(value[:-1]), kind([*value, value[0]]), kind(reversed(value))]
        try:
            return st.sampled_from(edits) | any_value().map(lambda bad: kind([*value[:-1], bad]))
        except TypeError:  # pragma: no cover
            return st.just(value)
    if isinstance(value, dict) and value:
        return mutated_record(value)
    return st.just(value)


def mutated_text(text: str) -> st.SearchStrategy[str]:
    """A text with a piece taken out, doubled, exchanged or put in."""

    @st.composite
    def edit(draw: st.DrawFn) -> str:
        now = text
        for _ in range(draw(st.integers(1, 3))):
            a = draw(st.integers(0, len(now)))
            b = draw(st.integers(a, min(len(now), a + 20)))
            put = draw(
                st.just("")
                | st.text(max_size=4)
                | st.sampled_from(
                    ["0", "-", "nan", "9" * 30, "'", '"', "[", "]", "\n", "\0", "=", now[a:b] * 2]
                )
            )
            now = now[:a] + put + now[b:]
        return now

    return edit()


def mutated_bytes(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes with flipped bits, a cut, a piece taken out, doubled or overwritten."""

    @st.composite
    def edit(draw: st.DrawFn) -> bytes:
        now = bytearray(data)
        for _ in range(draw(st.integers(1, 4))):
            place = draw(st.integers(0, max(0, len(now) - 1)))
            what = draw(st.sampled_from(["flip", "cut", "delete", "double", "write"]))
            length = draw(st.integers(1, 64))
            if what == "flip" and now:
                now[place] ^= 1 << draw(st.integers(0, 7))
            elif what == "cut":
                del now[place:]
            elif what == "delete":
                del now[place : place + length]
            elif what == "double":
                now[place:place] = now[place : place + length]
            else:
                now[place : place + length] = draw(st.binary(max_size=length))
        return bytes(now)

    return edit()


def mutated_record(record: Any) -> st.SearchStrategy[Any]:
    """A nested record with one or two parts exchanged, taken out or added."""

    @st.composite
    def edit(draw: st.DrawFn) -> Any:
        now = record
        for _ in range(draw(st.integers(1, 2))):
            paths = list(_paths(now))
            path = draw(st.sampled_from(paths))
            now = _changed(now, path, draw)
        return now

    return edit()


def _paths(record: Any, before: tuple[Any, ...] = ()) -> Any:
    yield before
    inside = (
        record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    )
    for key, value in inside:
        yield from _paths(value, (*before, key))


def _changed(record: Any, path: tuple[Any, ...], draw: st.DrawFn) -> Any:
    if not path:
        if isinstance(record, dict) and draw(st.booleans()):
            return {**record, draw(st.text(max_size=5)): draw(any_value())}
        return draw(near(record) if not isinstance(record, dict | list) else any_value())
    key, *rest = path
    if isinstance(record, dict):
        if not rest and draw(st.integers(0, 4)) == 0:
            return {name: value for name, value in record.items() if name != key}
        return {**record, key: _changed(record[key], tuple(rest), draw)}
    copy = list(record)
    if not rest and draw(st.integers(0, 4)) == 0:
        del copy[key]
        return copy
    copy[key] = _changed(copy[key], tuple(rest), draw)
    return copy
