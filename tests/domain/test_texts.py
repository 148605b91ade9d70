"""Public tables in CSV, by which a domain is declared: their texts are read as they are written, or the reason is said."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oboro as ob
from oboro.domain.texts import texts_of
from oboro.errors import DomainError, InputError

COLUMNS: list[Any] = [ob.Category("性別", ["男", "女", "01", "1"]), ob.Integer("年齢", 0, 99)]
GARBLED = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")])  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "text", "command"),
    [
        ("cp932", "性別,年齢\r\n男,10\r\n", "iconv -f CP932 -t UTF-8"),
        ("cp932", "sex,age\n男,10\n", "iconv -f CP932 -t UTF-8"),
        ("utf-16", "性別,年齢\n男,10\n", "iconv -f UTF-16 -t UTF-8"),
    ],
)
def test_a_table_that_is_not_utf8_is_refused_with_the_command_that_makes_it_so(
    encoding: str, text: str, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "never.csv"
    path.write_bytes(text.encode(encoding))
    for refuse in (
        lambda: ob.Domain(COLUMNS, impossible=path),
        lambda: ob.Areas("年齢", levels=["性別", "年齢"], table=path),
    ):
        with pytest.raises(DomainError, match="cannot be read") as refused:
            refuse()
        assert refused.value.given is not None
        assert "not UTF-8" in str(refused.value.given)
        assert str(refused.value.fix).startswith(f"{command} ")
        assert str(refused.value.fix).endswith("utf8-never.csv")


def test_of_a_file_of_a_domain_the_file_of_combinations_is_said(tmp_path: Path) -> None:
    (tmp_path / "never.csv").write_bytes("性別\n男\n".encode("cp932"))
    (tmp_path / "people.toml").write_text(
        'impossible = "never.csv"\n[[columns]]\nkind = "category"\nname = "性別"\nvalues = ["男", "女"]\n',
        encoding="utf-8",
    )
    with pytest.raises(DomainError, match=r"never\.csv cannot be read") as refused:
        ob.Domain.from_toml(tmp_path / "people.toml")
    assert "people.toml" in str(refused.value.given)


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_cells_are_texts_whatever_the_header_is_like(start: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'{start}"pre\nfecture","a, ""b""",c\n01,true,\n1,"x\ny",1e3\n', encoding="utf-8")
    table = texts_of(path, "table", ("c",))
    assert table.to_pylist() == [
        {"pre\nfecture": "01", 'a, "b"': "true", "c": ""},
        {"pre\nfecture": "1", 'a, "b"': "x\ny", "c": "1e3"},
    ]
    assert texts_of(path, "table", ("c",), empty_is_null=True)["c"].to_pylist() == [None, "1e3"]


@pytest.mark.parametrize("table", [pa.table({"性別": GARBLED}), pa.record_batch({"性別": GARBLED}), pa.table([["a"]], [b"\xff"])], ids=["table", "batch", "name"])  # fmt: skip
def test_an_arrow_table_of_texts_that_are_not_utf8_is_refused(table: Any) -> None:
    with pytest.raises(DomainError, match=r"cannot be read|not understood|is not declared"):
        ob.Domain(COLUMNS, impossible=table)


HUGE = 10**5000


@pytest.mark.parametrize("value", [HUGE, -HUGE, [HUGE], {HUGE}, (0, HUGE), (HUGE, None), range(HUGE)], ids=["above", "below", "list", "set", "end", "open", "range"])  # fmt: skip
@pytest.mark.parametrize("column", [ob.Category("a", ["x"]), ob.Category("a", [1, 2]), ob.Integer("a", 0, 9), ob.Real("a", 0, 1, 1)], ids=["texts", "numbers", "integer", "real"])  # fmt: skip
def test_a_number_of_more_digits_than_python_writes_is_refused_in_words(column: Any, value: Any) -> None:
    from oboro.synth.conditions import wanted_codes

    for refuse in (
        lambda: ob.Domain([column], impossible=[{"a": value}]),
        lambda: ob.Domain([column], known={"a": {HUGE: 3}}),
        lambda: ob.Domain([column], sums={"a": [HUGE, HUGE]}),
        lambda: wanted_codes(ob.Domain([column]), {HUGE: value}),  # type: ignore[dict-item]
    ):
        with pytest.raises(InputError) as refused:
            refuse()
        assert str(refused.value)
    with suppress(InputError):  # of a range what is within the bounds is meant
        wanted_codes(ob.Domain([column]), {"a": value})
