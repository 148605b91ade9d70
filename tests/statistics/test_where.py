"""Conditions: read, refused when they are written, and the same in DuckDB as in words."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.domain import Category, Date, Domain, Integer, Real
from oboro.engine import open_data
from oboro.engine.duck import condition_sql
from oboro.errors import BoundsError, InputError
from oboro.statistics.where import parse

DOMAIN = Domain(
    [
        Integer("age", 0, 120),
        Integer("income", 0, 10_000, step=1000),
        Real("score", 0, 1, "0.25"),
        Category("region", ["north", "south", "it's"]),
        Category("grade", [1, 2, 3]),
        Date("day", "2026-01-01", "2026-12-31"),
        Integer("not", 0, 3),
        Integer("two words", 0, 3),
    ]
)
ROWS = {
    "age": [19, 20, None, 200, 33],
    "income": [0, 1499, 1500, 99_999, None],
    "score": [0.0, 0.3, 0.9, None, float("nan")],
    "region": ["north", "south", "it's", None, "east"],
    "grade": [1, 2, 3, 4, None],
    "day": ["2026-01-01", "2026-06-30", "2030-01-01", "x", None],
    "not": [0, 1, 2, 3, 0],
    "two words": [0, 1, 2, 3, 0],
}


def met(text: str) -> list[int]:
    source = open_data(ROWS)
    rows = source.connection.execute(
        f"SELECT r FROM (SELECT *, row_number() OVER () - 1 AS r FROM {source.relation}) WHERE {condition_sql(source, parse(text, DOMAIN))}"
    ).fetchall()
    return sorted(row[0] for row in rows)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("age >= 20", [1, 3, 4]),
        ("age < 20", [0]),
        ("not age < 20", [1, 3, 4]),  # a row without an age is left out of both
        ("age = 120", [3]),  # beyond the bound counts as the bound
        ("income >= 1500", [2, 3]),  # 1500 goes to the step 2000, and 1499 to 1000
        ("income > 1999", [2, 3]),
        ("income <= 1000", [0, 1]),
        ("score > .3", [2]),  # 0.3 goes to 0.25
        ("score == 0.25", [1]),
        ("region = 'it''s'", [2]),
        ("region != 'north'", [1, 2]),
        ("region in ('north', 'south')", [0, 1]),
        ("grade in (1, 3)", [0, 2]),
        ("day >= '2026-06-30'", [1, 2]),
        ("age >= 20 and region = 'south' or age < 20", [0, 1]),
        ("(age >= 20 or age < 20) and not (region = 'north')", [1]),
        ("NOT NOT age <> 19 AND grade<>3", [1]),
        ('"not" = 2', [2]),
        ('"two words" <= 1', [0, 1, 4]),
        ("age>=1_0 and score<1e0", [0, 1]),
    ],
)
def test_conditions_mean_what_they_say(text: str, rows: list[int]) -> None:
    assert met(text) == rows
    condition = parse(text, DOMAIN)
    assert parse(str(condition), DOMAIN) == condition  # the canonical form reads back


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "age", "age >", "age >= ", "20 <= age", "age >= 'x'", "age = 200", "age = -1", "age = 2.5",
        "age >= income", "region < 'north'", "region = 'east'", "region = 1", "grade = 'x'", "grade = 1.5",
        "day > 'x'", "day > '2026-01-01 10:00'", "day > '2030-01-01'", "day > 3", "score = 0.3", "score < 2",
        "1/(age-41) = 0", "sqrt(4) = 2", "age >= 20 or", "(age >= 20", "age >= 20)", "age >= 20; DROP TABLE x",
        "age >= 20 -- x", "age between 1 and 2", "age in ()", "age in (1,)", "age in 1", "age ! 3", "age = null",
        "not " * 80 + "age = 1", "(" * 80 + "age = 1" + ")" * 80, "age = 1 " + "and age = 1 " * 400, "age = 1e999999",
    ],
)  # fmt: skip
def test_what_could_fail_is_refused_when_it_is_written(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text, DOMAIN)
    assert refused.value.fix


def test_a_column_that_is_not_declared_is_refused_with_the_line_to_add() -> None:
    with pytest.raises(BoundsError) as refused:
        parse("salary > 3", DOMAIN)
    assert refused.value.fix == 'ob.Integer("salary", 0, 120)'
    for wrong in (None, 3, ["age > 3"]):
        with pytest.raises(InputError):
            parse(wrong, DOMAIN)  # type: ignore[arg-type]


TESTS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


@given(
    st.recursive(
        st.tuples(st.sampled_from(["age", "grade"]), st.sampled_from(list(TESTS)), st.integers(1, 3)),
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
        ),
        max_leaves=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_condition_is_the_same_in_duckdb_and_in_python(tree: Any) -> None:
    def text(node: Any) -> str:
        if node[0] == "not":
            return f"not ({text(node[1])})"
        if node[0] in ("and", "or"):
            return f"({text(node[1])}) {node[0]} ({text(node[2])})"
        op = node[1] if node[0] == "age" or node[1] in ("=", "!=") else "="
        return f"{node[0]} {op} {node[2]}"

    def holds(node: Any, row: dict[str, int]) -> bool:
        if node[0] == "not":
            return not holds(node[1], row)
        if node[0] in ("and", "or"):
            return (all if node[0] == "and" else any)([holds(node[1], row), holds(node[2], row)])
        op = node[1] if node[0] == "age" or node[1] in ("=", "!=") else "="
        return bool(TESTS[op](row[node[0]], node[2]))

    rows = {"age": [0, 1, 2, 3, 4] * 3, "grade": [1] * 5 + [2] * 5 + [3] * 5, "r": list(range(15))}
    condition = parse(text(tree), DOMAIN)
    found = SOURCE.connection.execute(
        f"SELECT r FROM {SOURCE.relation} WHERE {condition_sql(SOURCE, condition)}"
    ).fetchall()
    expected = [r for r in range(15) if holds(tree, {"age": rows["age"][r], "grade": rows["grade"][r]})]
    assert sorted(int(row[0]) for row in found) == expected
    assert all(condition.tree.holds(codes) for codes in condition.examples())


SOURCE = open_data({"age": [0, 1, 2, 3, 4] * 3, "grade": [1] * 5 + [2] * 5 + [3] * 5, "r": list(range(15))})


THIRDS = Domain([*DOMAIN, Real("third", "1/3", 2, "1/3")])
LEAVES = st.one_of(
    st.tuples(st.sampled_from(["age", '"two words"']), st.sampled_from(list(TESTS)), st.integers(0, 3)),
    st.tuples(
        st.just("third"), st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["0.5", "1", "1.9", "2"])
    ),
    st.tuples(st.just("income"), st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from([0, 999, 10_000])),
    st.tuples(st.just("region"), st.sampled_from(["=", "!="]), st.sampled_from(["'north'", "'it''s'"])),
    st.tuples(st.just("day"), st.sampled_from(["<", ">"]), st.just("'2026-06-30'")),
    st.tuples(st.sampled_from(["age", "region", "day"]), st.sampled_from(["is null", "is not null"])),
).map(lambda parts: " ".join(map(str, parts)))
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map("not ({})".format), st.tuples(inner, inner).map(" and ".join).map("({})".format),
        st.tuples(inner, inner).map(" or ".join).map("({})".format),
    ),
    max_leaves=6,
)  # fmt: skip


@given(CONDITIONS)
@settings(max_examples=100, deadline=None)
def test_one_spelling_picks_the_same_rows_and_is_its_own(text: str) -> None:
    condition = parse(text, THIRDS)
    normal = condition.normal
    assert parse(str(normal), THIRDS) == normal == normal.normal
    assert {column.name for column in normal.needed} == {column.name for column in condition.needed}
    found = [
        MANY.connection.execute(
            f"SELECT r FROM {MANY.relation} WHERE {condition_sql(MANY, one)} ORDER BY r"
        ).fetchall()
        for one in (condition, normal)
    ]
    assert found[0] == found[1]


MANY = open_data(
    {
        **{name: [values[(place * step) % 5] for place in range(60)] for step, (name, values) in enumerate(ROWS.items(), 1)},
        "third": [place % 7 / 3 if place % 8 else None for place in range(60)],
        "r": list(range(60)),
    }
)  # fmt: skip
