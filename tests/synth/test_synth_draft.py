"""What a draft takes a value for is what a release makes of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oboro as ob
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.errors import ParameterError
from oboro.synth.codes import code_count, read_codes
from oboro.synth.draft import (
    CODES,
    IDENTIFIERS,
    MANY_CODES,
    NOT_UTF8,
    ROUNDED,
    TIMES,
    UNREAD_DATES,
    UNREAD_NUMBERS,
    Draft,
)


def drafted(data: Any, folder: Path) -> tuple[Domain, Draft, str]:
    done = ob.synth.draft(data, folder / "d.toml")
    text = (folder / "d.toml").read_text(encoding="utf-8")
    record = {**tomllib.loads(text), "draft": False}
    return Domain.from_dict(record) if done.columns else Domain([]), done, text


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (["01", "04", "13"], Category, CODES),
        (["001", "002"], Category, CODES),
        (["1", "4", "13"], Integer, None),
        (["0", "-5", "+7"], Integer, None),
        (["0.5", "0", "0.25"], Real, None),
        (["1", "2", "2.5"], Real, None),
        (["2013-10-22", "2014-01-05"], Date, None),
        (["2013-10-22 10:30", "2014-01-05T23:59:59"], Date, TIMES),
        (["2013/10/22", "2014/01/05"], None, UNREAD_DATES),
        (["2013-1-5", "2013-10-22"], None, UNREAD_DATES),
        (["22.10.2013", "5.1.2014"], None, UNREAD_DATES),
        (["2013年10月22日", "2014年1月5日"], None, UNREAD_DATES),
        (["1,234", "56"], Category, UNREAD_NUMBERS),
        (["1_000", "2"], Category, UNREAD_NUMBERS),
        (["12%", "3.5%"], Category, UNREAD_NUMBERS),
        (["１２", "３"], Category, UNREAD_NUMBERS),
        (["¥100", "200円"], Category, UNREAD_NUMBERS),
        (["true", "false"], Category, None),
        (pa.array([True, False, None]), Category, None),
        ([1.0, float("nan"), 3.0], Integer, None),
        (["1", "nan", "3"], Integer, None),
        (["inf", "1"], None, None),
        (["a", "1"], Category, None),
        (list(range(300)), Integer, IDENTIFIERS),
        ([*range(300), 7], Integer, None),
        (list(range(50)), Integer, None),
        ([i / 2 for i in range(301)], Real, None),
        ([f"{i:04}" for i in range(300)], None, MANY_CODES),
        ([f"{i:,}" for i in range(5000, 5300)], None, UNREAD_NUMBERS),
    ],
)
def test_what_a_draft_says_of_odd_values(
    values: Any, kind: type[Column] | None, said: str | None, tmp_path: Path
) -> None:
    domain, done, text = drafted({"a": values, "b": ["x"] * len(values)}, tmp_path)
    found = next((column for column in domain if column.name == "a"), None)
    assert type(found) is (kind or type(None))
    assert done.said.get("a") == said
    if said is not None:
        assert said in text


def test_a_draft_says_which_values_its_steps_round(tmp_path: Path) -> None:
    data = {
        "fine": ["3.95", "58.94"],
        "even": ["3.9", "58.9"],
        "thirds": [1 / 3, 0.5],
        "odd": [0.1, float("nan")],
    }
    _, done, text = drafted(data, tmp_path)
    tables = {tomllib.loads(part)["name"]: part for part in text.split("[[columns]]")[1:]}
    assert {name for name, part in tables.items() if f"# {ROUNDED}" in part} == {"fine", "thirds"}
    assert not done.said


def test_texts_that_are_not_utf_8_are_said_to_be_unread(tmp_path: Path) -> None:
    (tmp_path / "sjis.csv").write_bytes("sex,place,n\n男,a,1\n女,b,2\n女,北,3\n".encode("shift-jis"))
    domain, done, _ = drafted(tmp_path / "sjis.csv", tmp_path)
    assert done.left_out == ("sex",)
    assert done.said == {"sex": NOT_UTF8, "place": NOT_UTF8}
    assert domain.columns[0] == Category("place", ["a", "b"])


@pytest.mark.long("drafts")
@given(
    values=st.one_of(
        *(
            st.lists(st.one_of(st.none(), shape), min_size=1, max_size=8)
            for shape in (
                st.sampled_from(["01", "1", "1.0", " 1", "1 ", "+1", "-0", "00", "1e2", "1e400", "nan", "inf", "", " ", "\t"]),
                st.sampled_from(["1,234", "1_000", "12%", "１２", "0x10", "+-1", "1/2", ".5", "5.", "1d", "٣"]),
                st.sampled_from(
                    ["2013-10-22", " 2013-10-22", "2013-10-22 10:00", "2013/10/22", "2013-1-5", "0001-01-01", "9999-12-31", "2013-02-30", "infinity"]
                ),
                st.sampled_from(["true", "TRUE", "yes", "f", "M ", "é", "女", "'", '"', "\\"]),
                st.integers(-(10**18), 10**18).map(str),
                st.floats(width=32).map(str),
            )
        ),
        st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=8),
        st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=8),
        st.lists(st.one_of(st.none(), st.dates()), min_size=1, max_size=8),
    )
)  # fmt: skip
def test_a_release_reads_every_value_that_a_draft_has_a_column_for(
    values: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = {"a": pa.array(values) if any(v is not None for v in values) else values, "b": ["x"] * len(values)}
    domain, _, _ = drafted(data, tmp_path_factory.mktemp("draft"))
    column = domain.columns[0]
    if column.name != "a":
        return  # left out
    codes = read_codes(data, domain, ob.Unit.row())[0]
    wanted = [value for value in values if not _missing(value, column)]
    assert int((codes < column.size).sum()) == len(wanted)
    assert code_count(column) == column.size + 1
    if isinstance(column, Category):  # texts stay apart
        assert len(set(codes[codes < column.size].tolist())) == len({str(value) for value in wanted})
    elif not isinstance(column, Date):  # 01 is no number
        assert not any(re.match(r"\s*[+-]?0[0-9]", value) for value in wanted if isinstance(value, str))


def _missing(value: object, column: Column) -> bool:
    if value is None or (isinstance(value, str) and not value.replace(" ", "")):
        return True
    return not isinstance(column, Category) and str(value).strip().lower().lstrip("+-") == "nan"


def test_a_draft_replaces_neither_its_data_nor_a_domain(tmp_path: Path) -> None:
    mine, domain = tmp_path / "mine.csv", tmp_path / "mine.toml"
    mine.write_text("age\n3\n4\n")
    domain.write_text('[[columns]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 9\n')
    before = mine.read_bytes(), domain.read_bytes()
    for path in (mine, domain):
        with pytest.raises(ParameterError, match="is there, and is no draft"):
            ob.synth.draft(mine, path)
    assert (mine.read_bytes(), domain.read_bytes()) == before
    for _ in range(2):
        ob.synth.draft(mine, tmp_path / "draft.toml")
