from __future__ import annotations

import math
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.domain import Category, Date, Domain, Integer, Real
from oboro.errors import BoundsError, DomainError, InputError

DOMAIN = Domain(
    [
        Integer("age", 0, 120, missing=0),
        Integer("income", -1000, 10_000_000, step=1000),
        Real("weight", "0.5", 200, "0.5"),
        Category("region", ["north", "south"], missing="south"),
        Category("grade", [1, 2, 3]),
        Date("born", "1900-01-01", date(2026, 12, 31)),
    ]
)


def test_a_domain_reads_back_from_toml(tmp_path: Path) -> None:
    DOMAIN.to_toml(tmp_path / "people.toml")
    assert Domain.from_toml(tmp_path / "people.toml") == DOMAIN


def test_sizes_are_exact_far_beyond_an_integer() -> None:
    assert DOMAIN["income"].size == 10_002
    assert Integer("x", -(2**61), 2**61 - 1).size == 2**62
    wide = Domain([Integer("a", 0, 2**40), Integer("b", 0, 2**40)])
    assert wide.size == (2**40 + 1) ** 2
    with pytest.raises(DomainError, match="too many cells"):
        wide.cells  # noqa: B018
    assert Domain([Integer("a", 0, 2**31 - 1), Integer("b", 0, 2**31 - 1)]).cells == 2**62


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("age", 200, 120),
        ("age", -5, 0),
        ("age", "41", 41),
        ("age", 41.5, 42),
        ("age", math.inf, 120),
        ("age", math.nan, 0),
        ("age", "x", 0),
        ("income", None, None),
        ("income", 499, 1),
        ("income", 500, 2),
        ("weight", "0.74", 0),
        ("weight", 0.75, 1),
        ("region", "east", 1),
        ("region", None, 1),
        ("grade", "2", 1),
        ("grade", 2.0, 1),
        ("grade", 2.5, None),
        ("grade", True, 0),
        ("born", "2026-12-31T23:59:59", DOMAIN["born"].size - 1),
        ("born", datetime(1900, 1, 2, 8), 1),
        ("born", "1850-01-01", 0),
        ("born", "31/12/2026", None),
    ],
)
def test_every_value_follows_the_one_rule(column: str, value: object, code: int | None) -> None:
    assert DOMAIN[column].code(value) == code


@pytest.mark.long("values by chance")
@given(
    st.one_of(
        st.none(),
        st.text(),
        st.floats(),
        st.integers(),
        st.dates(),
        st.booleans(),
        st.binary(),
        st.lists(st.integers()),
    )
)
def test_no_value_ever_raises(value: object) -> None:
    for column in DOMAIN:
        code = column.code(value)
        assert code is None or 0 <= code < column.size


class Odd(str):
    """A text that raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("private")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "value",
    [
        Odd("east"),
        np.array([1, 2]),
        np.array(["east", "west"]),
        np.datetime64("NaT"),
        pd.NA,
        pd.NaT,
        10**5000,
        Fraction(1, 10**5000),
        type("Nobody", (), {"__eq__": Odd.__eq__, "__repr__": Odd.__eq__})(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_object_ever_raises(value: object) -> None:
    for column in DOMAIN:
        code = column.code(value)
        assert code is None or 0 <= code < column.size


def test_a_text_of_another_class_is_its_text() -> None:
    assert DOMAIN["region"].code(Odd("north")) == DOMAIN["region"].code(np.str_("north")) == 0
    assert DOMAIN["born"].code(pd.Timestamp("1900-01-02 08:00")) == 1


@given(st.integers(0, 10_001))
def test_codes_and_values_go_round(code: int) -> None:
    for column in DOMAIN:
        assert column.code(column.value(code % column.size)) == code % column.size


def test_values_on_the_grid_are_exact() -> None:
    assert Real("x", 0, 1, "0.1").value(3) == 0.3
    assert Real("x", 0, 1, 0.1).step == Fraction(1, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Integer("income", None, 3),
        lambda: Integer("x", 5, 1),
        lambda: Integer("x", 0, 10, step=3),
        lambda: Integer("x", 0, 10, step=0),
        lambda: Integer("x", 0, 10, missing=11),
        lambda: Integer("x", 0, 2.5),
        lambda: Integer("", 0, 1),
        lambda: Real("x", 0, 1, 0),
        lambda: Real("x", 0, 1, "0.3"),
        lambda: Real("x", "a", 1, 1),
        lambda: Real("x", 0, "1e-306", "1e-324"),
        lambda: Real("x", 0, "2e-308", "1e-308"),
        lambda: Real("x", "-1e400", "1e400", "1e390"),
        lambda: Real("x", "-1.7e308", "1.7e308", "1e300"),
        lambda: Category("x", []),
        lambda: Category("x", "north"),
        lambda: Category("x", ["a", "a"]),
        lambda: Category("x", ["a", 1]),
        lambda: Category("x", ["a"], missing="b"),
        lambda: Date("x", "2026-01-02", "2026-01-01"),
        lambda: Date("x", "soon", "2026-01-01"),
        lambda: Domain([]),
        lambda: Domain(["age"]),
        lambda: Domain([Integer("a", 0, 1), Integer("a", 0, 2)]),
        lambda: Domain.from_dict({}),
        lambda: Domain.from_dict({"columns": [{"kind": "integer", "name": "a"}]}),
        lambda: Domain.from_dict({"columns": [{"kind": "number", "name": "a"}]}),
        lambda: Domain.from_dict({"columns": ["a"]}),
    ],
)
def test_what_public_facts_rule_out_is_refused(wrong: object) -> None:
    with pytest.raises(InputError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.exit_code == 4


def test_a_column_without_bounds_shows_the_line_to_add() -> None:
    with pytest.raises(BoundsError) as caught:
        DOMAIN["salary"]
    assert str(caught.value) == (
        "column 'salary' has no bounds.\n"
        "  given   salary in no column of the domain (age, income, weight, region, grade, born)\n"
        "  needed  the smallest and largest value that count, known without looking at the data\n"
        '  fix     ob.Integer("salary", 0, 120)'
    )
    with pytest.raises(BoundsError) as caught:
        DOMAIN["incom"]
    assert caught.value.fix == '"income"'


def test_a_bad_toml_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    with pytest.raises(DomainError, match="no such file"):
        Domain.from_toml(path)
    path.write_bytes(b"columns = [")
    with pytest.raises(DomainError, match="not valid TOML"):
        Domain.from_toml(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DomainError, match="not valid TOML"):
        Domain.from_toml(path)
    with pytest.raises(DomainError, match="cannot be read"):
        Domain.from_toml(tmp_path)


COLUMN = '[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 9\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[unti]\nkind = "row"\n' + COLUMN, "did you mean 'unit'"),
        (COLUMN.replace("columns", "column"), "did you mean 'columns'"),
        ('legder = "x"\n' + COLUMN, "did you mean 'ledger'"),
        ("version = 2\n" + COLUMN, "an entry that nobody reads"),
        (COLUMN + "mising = 0\n", "wrong or missing parts"),
    ],
)
def test_an_entry_that_nobody_reads_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "people.toml"
    path.write_text(text)
    with pytest.raises(DomainError, match=said):
        Domain.from_toml(path)


@pytest.mark.parametrize("name", ["data", "ledger"])
def test_a_place_is_a_text_and_swallows_nothing(name: str) -> None:
    columns = {"columns": [{"kind": "integer", "name": "age", "low": 0, "high": 9}]}
    assert Domain.from_dict({**columns, name: "here"}).names == ("age",)
    with pytest.raises(DomainError, match=f"where the {name} is"):
        Domain.from_dict({**columns, name: {"colums": []}})
