"""The grammar of numbers and days in texts, and that Python and DuckDB keep to it."""

from __future__ import annotations

import math
import re
from datetime import date
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.domain.grammar import day_of, double_of, whole_of
from oboro.engine import open_data
from oboro.engine.codes import code_sql

NUMBERS = [
    *(
        "1",
        "+1",
        "-1",
        " 12 ",
        "\t12\n",
        "\v1",
        "\f1",
        "\xa01",
        "1\0",
        "1_000",
        "1__0",
        "_1",
        "1_",
        "1.5",
        ".5",
    ),
    *(
        "5.",
        ".",
        "",
        "-",
        "+",
        "e5",
        "1e5",
        "1E5",
        "1e+5",
        "1e-5",
        "1e",
        "1e+",
        "1.e5",
        ".5e3",
        "inf",
        "-inf",
    ),
    *("+inf", "Infinity", "INF", "infinity", "-Infinity", "infi", "nan", "NaN", "-nan", "1d", "1f", "0x10"),
    *("0b1", "0x1p3", "1e400", "-1e400", "1e-400", "1e99999999999", "1e-99999999999", "١٢", "１２", "1,000"),
    *("1 000", "--1", "+-1", "1..2", "1.2.3", "00012", "-0", "0" * 400 + "1", "1" * 400, "9" * 5000),
    *("0." + "9" * 5000, "true", "½", "1/2", "  ", "1e5.5", "1.5e3.", "1_0.5", "1._5", "1.5_5", "1e1_0", "∞"),
    *(
        "1L",
        "$1",
        "1%",
        "\ufeff1",
        "12 13",
        "1e 5",
        "- 1",
        "+ 1",
        "infx",
        " inf ",
        "nan(1)",
        "snan",
        "2.5",
        "3.5",
    ),
    *(
        f"{2**53 + 1}",
        f"{2**53 + 1}.0",
        f"{2**53 + 1}.5",
        f"-{2**61}",
        "0.49999999999999999999",
        "1e+-5",
        "+.5",
    ),
]
ADMITTED = re.compile(r"[\t-\r ]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)[\t-\r ]*", re.I)
DAYS = [
    *("2026-01-31", "2026-1-5", "2026-01-5", "2026-1-05", "epoch", "infinity", "-infinity", "2026/01/31"),
    *("2026-01-31 10:00", "2026-01-31T10:00:00Z", "2026-01-31Tabc", "2026-01-31abc", " 2026-01-31 "),
    *("2026-02-30", "2026", "2026-02", "20260131", "+2026-01-31", "-2026-01-31", "0001-01-01", "0000-01-01"),
    *("9999-12-31", "10000-01-01", "2026-01-31 (BC)", "2026 01 31", "2026\\01\\31", "2026-W05-6", "2026-031"),
    *(
        "٢٠٢٦-01-31",
        "2026-01-31\0",
        "2026-01-31 25:00",
        "2026-13-01",
        "26-01-31",
        "2026-01-31+09:00",
        "",
        "\v",
    ),
    *(
        "2026.01.31",
        "31/01/2026",
        "2026-Jan-31",
        "2026-01/31",
        "2026-001-31",
        "\n\v\f\r\t 2026-01-31",
        "\xa02026-01-31",
    ),
]
COLUMNS = (
    Integer("x", -5, 100, step=3),
    Integer("x", -(2**61), 2**61, step=2),
    Integer("x", 0, 2**60),
    Real("x", -2, 3, step="0.1"),
    Real("x", 0, Fraction(2**61, 2**490), Fraction(1, 2**490)),
    Category("x", [0, 1, -1, 12, 100_000]),
    Category("x", [7, 2**53 + 1, 2**53 + 2, -(2**61)]),
    Date("x", "2025-12-01", "2026-06-30"),
    Date("x", "0001-01-01", "9999-12-31"),
)


def coded(column: Column, texts: list[str]) -> list[int | None]:
    source = open_data(pa.table({"x": pa.array(texts, pa.string())}))
    query = f"SELECT {code_sql(column, 'VARCHAR')} FROM {source.relation}"
    source.connection.execute("SET preserve_insertion_order = true")
    return [row[0] for row in source.connection.execute(query).fetchall()]


def test_the_grammar_admits_what_its_page_says() -> None:
    for text in NUMBERS:
        assert (double_of(text) is not None) == (ADMITTED.fullmatch(text) is not None and text.isascii())
    assert [text for text in DAYS if day_of(text)] == [
        *("2026-01-31", "2026-01-31 10:00", "2026-01-31T10:00:00Z", "2026-01-31Tabc", "2026-01-31abc"),
        *(" 2026-01-31 ", "0001-01-01", "9999-12-31", "2026-01-31 (BC)", "2026-01-31\0", "2026-01-31 25:00"),
        *("2026-01-31+09:00", "\n\v\f\r\t 2026-01-31"),
    ]
    assert day_of("2026-01-31 10:00") == date(2026, 1, 31)
    assert (double_of("1e400"), double_of("-1e-400"), double_of(" .5\n")) == (math.inf, 0.0, 0.5)
    assert (whole_of(" +12.00 "), whole_of("-0"), whole_of("1e3")) == (12, 0, None)
    assert whole_of("-" + "9" * 5000) == -(10**4000)


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_python_and_duckdb_read_texts_alike(column: Column) -> None:
    texts = NUMBERS + DAYS
    assert coded(column, texts) == [column.code(text) for text in texts]


TEXTS = st.text(st.sampled_from("0123456789+-.eE_ \t\v\0infaINFtyTZ:/"), max_size=14)
NEAR = st.one_of(
    st.from_regex(ADMITTED),
    st.from_regex(r"\s?[0-9]{4}[-/ ][0-9]{1,2}[-/][0-9]{1,2}.?", fullmatch=True),
    st.floats().map(repr),
    st.decimals(allow_nan=False).map(str),
    st.integers(-(2**63), 2**63).map(str),
)


@pytest.mark.parametrize("many", [1, pytest.param(40, marks=pytest.mark.long("random texts"))])
def test_nothing_else_is_read_by_one_of_them_alone(many: int) -> None:
    @settings(max_examples=many)
    @given(st.lists(st.one_of(TEXTS, NEAR), min_size=40, max_size=120))
    @example(["1e-05", "0x", "1e5 ", "- inf"])
    def agree(texts: list[str]) -> None:
        for column in COLUMNS:
            assert coded(column, texts) == [column.code(text) for text in texts]

    agree()
