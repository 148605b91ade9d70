"""What is shown of a text of anybody's: all of it seen, of bounded length, and no line that it could imitate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from doors_world import typed

import oboro as ob
from oboro import language
from oboro.errors import NameTakenError, ParameterError
from oboro.language import LONGEST, Lines, plain, without_password


@pytest.mark.parametrize(
    "sign",
    ["\u034f", "\ufe0f", "\u3164", "\u2800", "\u00a0", "\u2003", "\uffa0", "\u115f", "\U000e0101", "\ue000"],
)
def test_a_sign_that_is_not_seen_is_written_out(sign: str) -> None:
    for lines in (False, True):
        assert plain(f"city{sign}", lines=lines).startswith("city\\u")
        assert json.loads(f'"{plain(f"a{sign}b", lines=lines)}"') == f"a{sign}b"


def test_marks_are_shown_on_letters_alone() -> None:
    assert plain("か\u3099は\u309ae\u0301ที่") == "か\u3099は\u309ae\u0301ที่"
    assert plain("1 \u0301") == r"1 \u0301"
    assert plain("e\u0301\u0301\u0301") == "e\u0301\u0301\\u0301"
    assert plain("東京　都 カフェ") == "東京　都 カフェ"


def test_spaces_cannot_begin_a_line_of_the_terminal() -> None:
    for space in (" ", "\u3000"):
        shown = plain("city 2026" + space * 60 + "signed by  4bc7")
        assert not re.search(r"[ \u3000]{2}", shown)
        assert plain(shown) == shown
    assert plain(Lines("a  b\n  c")) == "a  b\n  c"


def test_a_long_text_is_cut_once() -> None:
    shown = plain("x" * 10**6)
    assert len(shown) <= LONGEST + 20
    assert shown.endswith(f"… (+{10**6 - LONGEST})")
    assert plain(shown) == shown
    assert plain("x" * 5000, lines=True) == "x" * 5000


def test_masking_looks_at_each_sign_a_few_times_at_most() -> None:
    """Counted in searches, not seconds: each of them begins where the last one ended."""
    text = "://a:" * 40_000 + "@" + " " + "x" * 40_000 + " password" * 10_000
    words = re.findall(r"[^\s\"]+", text)
    assert without_password(text) == text.replace(words[0], "://a:***@", 1)
    assert "w*" not in language._OPTION.pattern  # nothing is looked for before the word


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:s3cret@h/db", "postgresql://u:***@h/db"),
        ("postgres:/u:a@s3cret@h/db", "postgres:/u:***@h/db"),
        ("postgresql://u%3As3cret@h/db", "postgresql://u:***@h/db"),
        ("host=h password = 's3 cret' x", "host=h password = *** x"),
        ("password='s3cret", "password=***"),
        ("db?sslpassword=s3cret&x=1", "db?sslpassword=***&x=1"),
        ("no file postgresql://u:a s3cret@h/db there", "no file postgresql://u:***@h/db there"),
        ('postgresql://u:a"s3cret@h/db', "postgresql://u:***@h/db"),
        ("postgresql://u:s3cret is cut off", "postgresql://u:*** is cut off"),
        (f"postgresql://u:{'s3cret' * 400}@h/db", "postgresql://u:***@h/db"),
        ("password='it\\'s s3cret' x", "password=*** x"),
        ("db?passwor%64=s3cret", "db?password=***"),
        ("postgresql∶∕∕u∶s3cret@h/db", "postgresql://u:***@h/db"),
        ("postgresql：／／u：s3:cret＠h/db", "postgresql://u:***@h/db"),
        ("postgresql∶∕∕u∶s3cret:x@h/db", "postgresql://u:***@h/db"),
        ("postgresql:¥¥u:s3cret@h¥db", "postgresql://u:***@h/db"),
        ("postgresql∶∕∕u∶s3cret is cut off", "postgresql://u:*** is cut off"),
        ("password＝s3cret", "password=***"),
        ("postgresql://u:12 s3cret@h/db", "postgresql://u:***@h/db"),
        ('postgresql://u:1"s3cret@h/db', "postgresql://u:***@h/db"),
        ("postgresql://u:\u3000s3cret@h/db", "postgresql://u:***@h/db"),
        (
            "postgresql://h:5432 is not postgresql://u:1 s3cret@h/db",
            "postgresql://h:5432 is not postgresql://u:***@h/db",
        ),
        ('password="s3 cret" x', "password=*** x"),
        ("password=a\\ s3cret x", "password=*** x"),
    ],
)
def test_an_error_shows_no_password(text: str, shown: str) -> None:
    assert without_password(text) == shown
    assert "s3" not in str(ParameterError(text, given=text, fix=text))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h:5432/db: x@y",
        "postgresql://u@h:1/db",
        "postgresql://u:***, x@y",
        "data¥人口∶男女@50%25.csv",
        "postgresql∶∕∕u∶*** x",
    ],
)
def test_a_port_is_no_password_and_nothing_is_masked_twice(text: str) -> None:
    assert without_password(text) == text


def test_what_is_released_is_not_masked(folder: Path) -> None:
    sites = ["https://a:443/@x", "https://a:80/@x", "password=one", "password=two"]
    (folder / "u.csv").write_text("site\n" + "".join(f"{site}\n" * 50 for site in sites))
    (folder / "u.toml").write_text(
        f'[unit]\nkind = "row"\n[[columns]]\nkind = "category"\nname = "site"\nvalues = {json.dumps(sites)}\n'
    )
    asked = [
        "histogram",
        "release",
        "u.csv",
        "--domain",
        "u.toml",
        "--column",
        "site",
        "--eps",
        "1",
        "--ledger",
        "people.ledger",
    ]
    assert [row["site"] for row in json.loads(typed(folder, [*asked, "--json"]).out)["table"]] == sites
    assert all(site in typed(folder, asked).out for site in sites)


def test_names_that_look_alike_are_one_name(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Category("region", ["a", "b"])])
    ledger = ob.Ledger.create(tmp_path / "x.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(10))
    plan = ob.histogram_plan(domain, ["region"], unit=ob.Unit.row(), eps=1)
    data = {"region": ["a", "b"]}
    first = ob.release.run(plan, data, ledger, "カフェが")
    for name in ("カフェか\u3099", " カフェが ", "カフェが\n"):
        again = ob.release.run(plan, data, ledger, name)
        assert (again.name, again.certificate.record["name"]) == (
            "カフェが",
            first.certificate.record["name"],
        )
    for name in ("カフェが\ufe0f", "a  b", "\u3164", "postgresql://u:s3cret@h/db"):
        with pytest.raises(ParameterError) as refused:
            ob.release.run(plan, data, ledger, name)
        assert "s3cret" not in str(refused.value.to_dict())
    with pytest.raises(NameTakenError):
        ledger.reserve(plan={}, unit=ob.Unit.row(), guarantee=ob.Pure(1), name="カフェか\u3099")
    assert ledger.spent == ob.Pure(1)
