"""A function travels as text, and only if the text is the whole function."""

from __future__ import annotations

import contextlib
import math
from math import sqrt
from statistics import fmean as average
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.linalg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.errors import ParameterError
from oboro.statistics.isolation import MOST, called, imported, label_of, text_of

if TYPE_CHECKING:
    from oboro.domain import Domain

DATA = [1, 2, 3]


def plain(rows: Any, scale: float = 2.0) -> float:
    """Says what it does: 'quotes' and all."""

    def inner(value: float, *more: Any) -> float:
        total: float = value
        left: Domain | None
        left = None
        return total if left is None else sum(more)

    squares = [inner(one) ** 2 for one in rows]
    return scale * sum(squares) / max(1, len(squares))


def with_imports(rows: Domain) -> Any:
    import datetime

    return sqrt(math.pi) + np.mean(rows) + average([1.0]) + numpy.linalg.norm([3, 4]) + datetime.MINYEAR


def with_a_global(rows: Any) -> Any:
    return rows[0] in DATA


def with_a_hidden_global(rows: Any) -> Any:
    return [(lambda: DATA)() for _ in rows]


def with_a_helper(rows: Any) -> Any:
    return plain(rows)


def with_a_default(rows: Any, data: Any = DATA) -> Any:
    return data


def with_a_strange_name(rows: Any) -> Any:
    return nowhere_to_be_found  # noqa: F821


def that_assigns(rows: Any) -> Any:
    global DATA
    DATA = rows


def decorated_by(function: Any) -> Any:
    return function


@decorated_by
def with_a_decorator(rows: Any) -> Any:
    return 1


class Something:
    def method(self, rows: Any) -> Any:
        return 1

    def __call__(self, rows: Any) -> Any:
        return 1

    @staticmethod
    def static(rows: Any) -> Any:
        return 2


def fresh(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(text, space)
    return space[called(text)]


def test_a_whole_function_becomes_its_text() -> None:
    text = text_of(plain)
    assert "float" not in text.replace("'", "")  # annotations mean nothing when it runs
    assert fresh(text)([1, 2]) == plain([1, 2]) == 5
    assert label_of(plain, text) == f"{__name__}.plain"


def test_modules_and_what_they_hold_become_imports() -> None:
    text = text_of(with_imports)
    assert set(imported(text)) >= {"math", "numpy", "statistics", "datetime"}
    assert fresh(text)(3) == with_imports(3)  # type: ignore[arg-type]
    assert fresh(text_of(Something.static))([]) == 2


def closure() -> Any:
    held = [1, 2, 3]

    def inner(rows: Any) -> Any:
        return held

    return inner


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (with_a_global, "DATA"),
        (with_a_hidden_global, "DATA"),
        (with_a_helper, "plain"),
        (with_a_default, "DATA"),
        (with_a_strange_name, "nowhere"),
        (with_a_decorator, "decorated_by"),
        (closure(), "held"),
        (lambda rows: 1, "plain function"),
        (Something(), "plain function"),
        (Something().method, "plain function"),
        (len, "plain function"),
        (np.median, "plain function"),
        (Something, "plain function"),
        (None, "plain function"),
        (7, "plain function"),
        (eval("lambda rows: 1"), "plain function"),
    ],
)
def test_whatever_needs_its_surroundings_is_refused(function: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        text_of(function)


def test_a_global_that_is_only_made_is_its_own() -> None:
    assert fresh(text_of(that_assigns))([5]) is None


def test_a_function_without_a_text_is_refused() -> None:
    space: dict[str, Any] = {}
    exec("def f(rows): return 1", space)
    with pytest.raises(ParameterError, match="give the text itself"):
        text_of(space["f"])


def test_paths_and_texts() -> None:
    assert text_of("statistics:fmean") == "from statistics import fmean\n"
    assert label_of("statistics:fmean", text_of("statistics:fmean")) == "statistics:fmean"
    text = text_of("""
        import numpy as np
        from scipy import stats, special
        def helper(x): return x
        def ratio(rows):
            from collections import Counter
            return 1
    """)
    assert called(text) == label_of(text, text) == "ratio"
    expected = "numpy scipy scipy.stats scipy.special collections collections.Counter"
    assert set(imported(text)) == set(expected.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "rows",
        "def",
        "def f(rows): return 1\nx = 2",
        "import math",
        "from math import sqrt, pi",
        "from . import f",
        "from .m import f",
        "from math import *",
        "async def f(rows): return 1",
        "class f: pass",
        "f = lambda rows: 1",
        "a b:c",
        "1:2",
        "module:",
        "def f(rows): return '" + "x" * MOST + "'",
        "def f(rows): return " + "(" * 5000 + ")" * 5000,
        "def f(rows): return " + "-" * 50_000 + "1",
        "def f(rows):\0 return 1",
        "def f(rows): return '\ud800'",
        "def f(rows):\n  yield\n  return = 1",
    ],
)
def test_a_text_that_does_not_end_with_a_function_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        text_of(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(ParameterError):
        assert called(text_of(text)).isidentifier()
