"""Nothing that comes from a file or a stranger reaches a terminal as a sign that it obeys, and no output holds a password.

A catalogue of all commands, taken from the program itself: a new command without a sample fails the first test.
"""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors_world import (
    OTHERS,
    WRITING,
    Result,
    Terminal,
    commands,
    in_toml,
    make_world,
    typed,
    words_of,
)
from test_doors_signed import places, signed

import oboro as ob
from oboro.cli import terminal
from oboro.cli import terminal as spelling
from oboro.ledger.chain import in_order, laid_out

SAMPLES = {
    **{
        name: f"{line} {option} out-{name.replace(' ', '-')}{suffix}"
        for name, (line, option, suffix, _) in WRITING.items()
    },
    **OTHERS,
}
SLOW = {"demo", "dynamics demo", "audit", "reproduce", "secure figure", "synth report", "dynamics outliers"}
# a title, a cleared screen, a forged line, letters from right to left, letters without room, C1, tags, half a letter
HOSTILE = "x\x1b]0;t\x07\x1b[2J\nFORGED\u202e\u200b\x85\x9b2J\r\x08\u2028\ufeff\U000e0041"
PASSWORD = "hunter2canary"
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
OURS = re.compile(r"\x1b\[(\?25[lh]|2K|\d*A|[0-9;]*m)|\r")  # colours and progress bars


@pytest.fixture(autouse=True)
def same_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # which a traceback exchanges


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that anybody logs, at the lowest level."""
    seen, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(seen), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield seen
    root.removeHandler(handler)
    root.setLevel(level)


def assert_plain(result: Result, where: Any, own: re.Pattern[str] | None = None) -> None:
    """No sign that a terminal obeys, and no line that begins with what was forged."""
    shown = own.sub("", result.text) if own else result.text
    obeyed = {sign for sign in shown if unicodedata.category(sign) in UNSEEN} - {"\n"}
    assert not obeyed, (where, obeyed, result)
    assert not any(line.lstrip(" │╭╰─").startswith("FORGED") for line in shown.splitlines()), (where, result)


def assert_secret(result: Result, where: Any) -> None:
    assert PASSWORD not in result.text, (where, result)


def test_every_command_has_a_sample() -> None:
    assert set(SAMPLES) == set(commands())
    for name, line in SAMPLES.items():
        assert f"{line} ".startswith(f"{name} ")


# -- everything that can be typed ------------------------------------------------------------------------------------


def exchanged(name: str, value: str) -> Iterator[list[str]]:
    """The sample with each of its words in turn exchanged, and with each option that it does not have."""
    kept, words = len(name.split()), SAMPLES[name].split()
    for place in range(kept, len(words)):
        if not words[place].startswith("-"):
            yield [*words[:place], value + Path(words[place]).suffix, *words[place + 1 :]]
    for one in commands()[name].params:
        option = next((opt for opt in getattr(one, "opts", []) if opt.startswith("-")), None)
        if option is not None and option not in words and not getattr(one, "is_flag", False):
            yield [*words, option, value]
    yield [*words, f"--{value}"]
    yield [*words[:kept], value]
    yield [*words[: kept - 1], value]


def walk(folder: Path, name: str, value: str, **environment: str) -> Iterator[tuple[list[str], Result]]:
    for words in exchanged(name, value):
        json_too = [[*words, "--json"]] if any(p.name == "json" for p in commands()[name].params) else []
        for line in [words, *json_too]:
            yield line, typed(folder, line, COLUMNS="4000", **environment)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long("commands with hostile words")) if number % 4 else name
        for number, name in enumerate(sorted(SAMPLES))
    ],
)
@pytest.mark.few(4, "commands that read and show")
def test_whatever_is_typed_is_shown_as_letters(folder: Path, name: str) -> None:
    for words, result in walk(folder, name, HOSTILE + "\udc9b"):
        assert_plain(result, words)


ADDRESSES = [
    f"postgresql://user:{PASSWORD}@127.0.0.1:1/db",
    f"postgresql://user@127.0.0.1:1/db?password={PASSWORD}",
    f"postgresql://user:{PASSWORD}@[::1/db",
    f"postgres:/user:{PASSWORD}@127.0.0.1/db",
    f"mysql://user:{PASSWORD}@127.0.0.1/db",
    f"postgresql://user:a:b/{PASSWORD}@127.0.0.1:port/db",
    f"postgresql://user:a@{PASSWORD}@127.0.0.1:1/db",
    f"host=h user=u password='{PASSWORD}'",
    f"postgresql：／／user：{PASSWORD}＠127.0.0.1／db",  # typed with a Japanese keyboard
    f"postgresql:\\\\user:{PASSWORD}@127.0.0.1\\db",
    f"  POSTGRESQL://user:{PASSWORD}@127.0.0.1/db",
    f"\ufeffpostgresql://user:{PASSWORD}@127.0.0.1/db",
    f"%70ostgresql%3A//user%3A{PASSWORD}%40127.0.0.1/db",
    f"postgresql∶∕∕user∶{PASSWORD}@127.0.0.1/db",
    f"postgresql:¥¥user:{PASSWORD}@127.0.0.1¥db",
    f"postgresql∶∕∕user∶{PASSWORD}:x@127.0.0.1/db",
    f"host＝h password＝{PASSWORD}",
    f"postgresql://user:a {PASSWORD}@127.0.0.1/db",
    f'postgresql://user:a"{PASSWORD}@127.0.0.1/db',
    f"postgresql://user:{PASSWORD}",
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long("commands with a password")) if number % 4 else name
        for number, name in enumerate(sorted(SAMPLES))
    ],
)
@pytest.mark.few(4, "commands that read and show")
def test_a_password_in_any_place_of_a_command_is_not_shown(
    folder: Path, name: str, logged: io.StringIO
) -> None:
    """Also where no address belongs: everybody slips."""
    for words, result in walk(folder, name, ADDRESSES[0], OBORO_TRACEBACK="1"):
        if "--count" in words and words[words.index("--count") + 1] == ADDRESSES[0]:
            continue  # the name of a column is data, and what is released is not changed
        assert_secret(result, words)
    assert PASSWORD not in logged.getvalue()


@pytest.mark.few(4, "passwords that are not shown")
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_password_for_a_ledger_is_not_shown(folder: Path, address: str, logged: io.StringIO) -> None:
    """As an argument, in the environment, and in the file that declares the data."""
    paying = {n: line for n, line in SAMPLES.items() if "ledger" in {p.name for p in commands()[n].params}}
    assert len(paying) >= 12
    declared = (folder / "people.toml").read_text().replace('"people.ledger"', in_toml(address))
    (folder / "declared.toml").write_text(declared)
    lines = [
        line.replace("people.toml", "declared.toml").split() for line in (SAMPLES["query"], SAMPLES["check"])
    ]
    for words in map(str.split, paying.values()):
        at = words.index("--ledger") if "--ledger" in words else None
        lines.append(
            [*words[:2], address, *words[3:]] if at is None else [*words[: at + 1], address, *words[at + 2 :]]
        )
        if at is not None:
            lines.append([*words[:at], *words[at + 2 :]])  # from the environment
    for words in lines:
        for more in ([], ["--json"]):
            result = typed(folder, [*words, *more], OBORO_LEDGER=address, OBORO_TRACEBACK="1")
            assert_secret(result, words)
            assert result.code != 0 or words[0] == "check"
    assert PASSWORD not in logged.getvalue()


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_mistyped_where_a_file_belongs_is_not_shown(folder: Path, address: str) -> None:
    """The name of a file that is not there is part of the error."""
    for words in (
        ["forecast", address],
        ["histogram", "check", address, "--domain", "domain.toml"],
        ["table", "tick", address, "--series", "series.toml", "--tick", "1"],
        ["certificate", "verify", address],
    ):
        assert_secret(typed(folder, words), words)


def test_a_traceback_shows_neither(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(where: str) -> None:
        raise RuntimeError(f"no way to {where} {HOSTILE}")

    monkeypatch.setattr(ob.Ledger, "open", broken)
    err = io.StringIO()
    with pytest.raises(RuntimeError) as caught:
        typed(folder, ["ledger", "show", ADDRESSES[0]], err=err, OBORO_TRACEBACK="1")
    assert sys.excepthook is terminal.trace
    monkeypatch.setattr(sys, "stderr", err)
    sys.excepthook(caught.type, caught.value, caught.tb)
    result = Result(1, "", err.getvalue())
    assert "RuntimeError" in result.err
    assert_plain(result, "traceback")
    assert_secret(result, "traceback")
    result = typed(folder, ["ledger", "show", ADDRESSES[0]])
    assert "InternalError: RuntimeError" in result.err
    assert_secret(result, "without one")


# -- a ledger on a server that is there -------------------------------------------------------------------------------


@pytest.mark.long("a ledger on PostgreSQL with a password")
def test_a_password_that_opens_a_ledger_stays_out_of_all_that_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, logged: io.StringIO, tmp_path: Path
) -> None:
    pgserver = pytest.importorskip("pgserver", reason="pgserver does not exist for this platform")
    import psycopg

    server = pgserver.get_server(tmp_path / "server")
    monkeypatch.setenv("OBORO_KEYS", str(folder / "keys"))
    address = server.get_uri().replace("postgres:@", f"postgres:{PASSWORD}@")
    assert PASSWORD in address
    try:
        domain = (folder / "people.toml").read_text().replace('"people.ledger"', in_toml(address))
        (folder / "people.toml").write_text(domain)
        kept = domain  # the one file that holds it, because its owner wrote it there
        made = typed(folder, ["ledger", "create", address, "--dataset", "d", "--unit", "row", "--eps", "100"])
        assert made.code == 0, made
        assert_secret(made, "create")
        here = {
            name: [address if word == "people.ledger" else word for word in line.split()]
            for name, line in SAMPLES.items()
            if "people.ledger" in line or name == "query"
        }
        fetched = ["ledger", "fetch", address, "--entry", "1", "-o", "fetched.csv"]
        for words in [here["query"], here["histogram release"], here["run"], *here.values(), fetched]:
            for more in ([], ["--json"]):
                assert_secret(typed(folder, [*words, *more], OBORO_TRACEBACK="1"), words)
        assert (folder / "out-run.csv").exists()
        assert (folder / "out-ledger-export").exists()
        assert (folder / "fetched.csv").exists()
        with psycopg.connect(server.get_uri()) as connection:
            rows = [
                connection.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("oboro_entries", "oboro_ledger")
            ]
        assert len(rows[0]) > 5
        assert PASSWORD not in str(rows)
    finally:
        server.cleanup()
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "people.toml":
            assert PASSWORD.encode() not in path.read_bytes(), path
    assert (folder / "people.toml").read_text() == kept
    assert PASSWORD not in logged.getvalue()


# -- everything that is read -------------------------------------------------------------------------------------------

NAMES = {
    **{word: word + HOSTILE for word in ("load", "age", "region", "north", "south", "col")},
    **{
        name: f"{Path(name).stem}{HOSTILE}.parquet"
        for name in ("people.csv", "grid.csv", "hours.csv", "load.csv", "table.parquet")
    },
    **{name: f"{Path(name).stem}{HOSTILE}.csv" for name in ("published.csv", "output.csv", "made.csv")},
}
NAMES["published.csv.certificate.json"] = f"{NAMES['published.csv']}.certificate.json"


@pytest.fixture(scope="module")
def hostile_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every dataset, column, value, release and file has a name that a terminal would obey."""
    return make_world(tmp_path_factory.mktemp("hostile"), NAMES)


@pytest.fixture
def hostile(hostile_world: Path, tmp_path: Path) -> Path:
    shutil.copytree(hostile_world, tmp_path / "copy")
    return tmp_path / "copy"


def asked(name: str) -> list[list[str]]:
    """The sample of a command where things have hostile names; more of those that show a lot."""
    words = words_of(SAMPLES[name], NAMES)
    more = {
        "query": [
            ["query", "people.toml", "mean", NAMES["age"], "--by", NAMES["region"], "--eps", "0.1"],
            ["query", "people.toml", "count", "--by", NAMES["region"], "--eps", "0.1", "--name", HOSTILE],
            ["query", "people.toml", "count", "--by", NAMES["region"], "--eps", "0.1", "--dry-run"],
        ],
        "ledger fetch": [["ledger", "fetch", "people.ledger", "--name", "first"]],
        "run": [[*words, "--name", HOSTILE], [*words, "--dry-run"]],
        "secure open": [words_of(WRITING["secure draw"][0] + " -o drawn.enc"), words],
    }
    return [*([] if name == "secure open" else [words]), *more.get(name, [])]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.long("slow commands")) if n in SLOW else n for n in sorted(SAMPLES)],
)
@pytest.mark.few(6, "commands that read and show")
def test_whatever_a_command_reads_is_shown_as_letters(hostile: Path, name: str) -> None:
    for words in asked(name):
        flags = [["--json"]] if any(p.name == "json" for p in commands()[name].params) else []
        for more in ([], *flags):
            for language in ("en", "ja"):
                screen = Terminal() if language == "en" and not more else io.StringIO()
                result = typed(hostile, [*words, *more], out=screen, err=screen, OBORO_LANGUAGE=language)
                assert_plain(result, words, OURS if isinstance(screen, Terminal) else None)
                assert "Traceback" not in result.text
                assert "InternalError" not in result.text


def test_units_and_assumptions_are_shown_as_letters(hostile: Path) -> None:
    """Also in what an error tells to type, which is read from a line of Python."""
    (hostile / "person.toml").write_text(
        (hostile / "domain.toml").read_text()
        + f'[unit]\nkind = "person"\ncolumn = {in_toml(HOSTILE)}\nmax_rows = 3\n'
    )
    lines = [
        [
            "ledger",
            "create",
            "p.ledger",
            "--dataset",
            "d",
            "--domain",
            "person.toml",
            "--eps",
            "9",
            "--assume",
            HOSTILE,
        ],
        ["ledger", "show", "p.ledger"],
        ["histogram", "forecast", "--domain", "person.toml", "--column", NAMES["region"], "--eps", "1"],
        [
            *("histogram", "forecast", "--domain", "person.toml", "--column", NAMES["region"], "--eps", "1"),
            *("--save-plan", "person-plan.toml"),
        ],
        ["run", "person-plan.toml", NAMES["people.csv"], "--ledger", "people.ledger"],
        ["run", "plan.toml", NAMES["people.csv"], "--ledger", "p.ledger"],
        ["run", "person-plan.toml", NAMES["people.csv"], "--ledger", "p.ledger"],
    ]
    codes = []
    for words in lines:
        for language in ("ja", "en"):
            result = typed(hostile, words, OBORO_LANGUAGE=language)
            assert_plain(result, words)
            assert "InternalError" not in result.err
        codes.append(result.code)
    assert codes[1:5] == [0, 0, 0, 4], codes
    text = f"budget=ob.{ob.Conditional(ob.Pure(1), HOSTILE)!r}"
    assert_plain(Result(0, spelling.typed(text, {}), ""), text)


def test_the_hostile_names_are_really_shown(hostile: Path) -> None:
    """Else the test above proves nothing."""
    by = typed(hostile, ["query", "people.toml", "count", "--by", NAMES["region"], "--eps", "1"])
    assert by.code == 0, by
    assert "north" + r"x\u001b]0;t\u0007\u001b[2J\u000aFORGED\u202e\u200b\u0085\u009b2J\u000d\u0008" in by.out
    record = json.loads(typed(hostile, ["forecast", "plan.toml", "--json"]).out)
    assert NAMES["region"] in record["released"]


def test_what_python_prints_is_letters_too(hostile: Path) -> None:
    ledger = ob.Ledger.open(hostile / "people.ledger")
    plan = ob.release.load_plan(hostile / "plan.toml")
    released = ob.release.fetch(ledger, name="first")
    with pytest.raises(ob.errors.OboroError) as refused:
        ob.release.fetch(ledger, name=HOSTILE)
    texts = [
        str(released),
        repr(released),
        str(plan.forecast()),
        str(refused.value),
        str(ob.Unit.person(HOSTILE, 3)),
    ]
    for text in texts:
        assert_plain(Result(0, text, ""), text)


# -- a stranger's certificate -------------------------------------------------------------------------------------------

SHOWING = {
    "published.csv": "certificate verify published.csv.certificate.json",
    "table.parquet": "table map table.parquet --domain grid.toml -o map.html",
    "output.csv": "dynamics band output.csv -o band.html",
}


@pytest.mark.parametrize("file", SHOWING)
@pytest.mark.few(1, "commands that read and show")
def test_no_signed_field_of_a_certificate_is_obeyed(folder: Path, file: str) -> None:
    """Each part of a stranger's certificate, and each name in it, in turn hostile, and properly signed."""
    path = folder / f"{file}.certificate.json"
    record = json.loads(path.read_text())
    accepted = 0
    for place in places(record):
        if place[-1] in ("signature", "public_key"):
            continue
        for changed in hostile_at(record, place):
            path.write_bytes(laid_out(in_order(signed(changed)), 2))
            for words in (
                f"certificate verify {path.name}",
                f"certificate verify {path.name} --json",
                SHOWING[file],
            ):
                result = typed(folder, words.split(), err=Terminal())
                assert_plain(result, (place, words), OURS)
                accepted += result.code == 0
    assert accepted > 10


def hostile_at(record: dict[str, Any], place: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """The record with this value, and with this name, hostile."""
    for name in (False, True):
        changed = json.loads(json.dumps(record))
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        value = inner[place[-1]]
        if name:
            del inner[place[-1]]
            inner[f"{place[-1]}{HOSTILE}"] = value
        elif isinstance(value, str):
            inner[place[-1]] = value + HOSTILE
        else:
            inner[place[-1]] = [HOSTILE] if isinstance(value, list) else HOSTILE
        yield changed
