"""Whatever goes wrong, the words help, and no foreign exception comes out."""

from __future__ import annotations

import contextlib
import linecache
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_help import spend
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from oboro.errors import LedgerError, OboroError, ParameterError, TamperError
from oboro.ledger import Ledger, database, records
from oboro.ledger.file import Place, Progress, in_words
from oboro.privacy import Pure, Unit


def make(where: Any, **more: Any) -> Ledger:
    return Ledger.create(where, **{"dataset": "x", "unit": Unit.row(), "budget": Pure(1), **more})


def test_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger here"):
        Ledger.open(tmp_path / "nowhere")
    assert not list(tmp_path.iterdir())


def test_a_place_that_is_taken(create: Callable[..., Ledger], where: str) -> None:
    create()
    with pytest.raises(LedgerError, match="exists already"):
        create()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="folder does not exist"):
        make(tmp_path / "nowhere" / "city.ledger")


def test_files_that_are_something_else(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes " * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    before = text.read_bytes(), other.read_bytes()
    for path, opened, created in (
        (text, "not a ledger", "not a ledger"),
        (other, "not a ledger", "something else"),
        (tmp_path, "not a file", "not a file"),
    ):
        with pytest.raises(LedgerError, match=opened):
            Ledger.open(path)
        with pytest.raises(LedgerError, match=created):
            make(path)
    assert (text.read_bytes(), other.read_bytes()) == before
    assert not list(tmp_path.glob("*.key"))


def test_an_empty_file_is_no_ledger_but_can_become_one(tmp_path: Path) -> None:
    path = tmp_path / "city.ledger"
    path.touch()
    with pytest.raises(LedgerError, match="cut short"):
        Ledger.open(path)
    spend(make(path), "0.5")


def test_odd_characters_in_a_path(tmp_path: Path) -> None:
    for name in ("a b?mode=ro#x%41.ledger", "人口.ledger", "it's;--.ledger"):
        with make(tmp_path / name) as ledger:
            spend(ledger, "0.5")
        assert Ledger.open(tmp_path / name).spent == Pure("0.5")
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    "where",
    [
        "mysql://u:secret@host/db",
        "sqlite:///city.ledger",
        "",
        "  ",
        "a\0b",
        b"city",
        None,
        "postgresql://h:port/x",
    ],
)
def test_places_that_cannot_be_used(where: Any) -> None:
    with pytest.raises(ParameterError) as refused:
        Ledger.open(where)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("dataset", ""), ("dataset", "a\nb"), ("dataset", None), ("unit", "row"), ("unit", None)],
)
def test_arguments_that_cannot_be_used(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        make(tmp_path / "city.ledger", **{name: value})
    assert not list(tmp_path.iterdir())


def test_a_ledger_that_others_keep_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "city.ledger").close()
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    ledger = Ledger.open(tmp_path / "city.ledger")
    with sqlite3.connect(tmp_path / "city.ledger", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="busy"):
            spend(ledger, "0.1")
        assert ledger.spent == Pure(0)  # reading goes on
        other.execute("ROLLBACK")
    other.close()
    spend(ledger, "0.1")


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://u:s3@cret@127.0.0.1:1/db",
        "postgresql://u:a/s3cret@127.0.0.1:1/db",
        "postgresql://u:s3cret@127.0.0.1:1/db\n",
        "postgresql://u:a s3cret@127.0.0.1:1/db",
        "postgresql://u%3As3cret@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=u:s3cret",
        "postgresql://127.0.0.1:1/u:s3cret@db",
        "postgresql://u@127.0.0.1:1/db&password=s3cret",
        "postgresql://u@127.0.0.1:1/db?host=h@s3cret",
        "postgresql:/u:s3cret@127.0.0.1/db",
        "postgresql:/127.0.0.1/db?pass%77ord=s3cret",
        " postgresql://u:s3cret@127.0.0.1/db",
        "mysql://u:s3cret@127.0.0.1/db",
        "user:s3cret@127.0.0.1/db",
        "/user:s3cret@127.0.0.1/db",
        "u%3as3cret@127.0.0.1",
        "127.0.0.1/db?pass%77ord=s3cret",
        "./db?password=s3cret",
        "host=h user=u password='s3cret'",
        "password = s3cret",
        "service=s3cret",
    ],
)
def test_what_may_hold_a_password_is_neither_shown_nor_made_a_file(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (Ledger.open, make):
        with pytest.raises(ParameterError) as refused:
            use(where)
        shown = f"{refused.value}{refused.value!r}{refused.value.to_dict()}"
        assert "cret" not in shown
    assert not list(tmp_path.iterdir())


def test_paths_and_addresses_that_are_what_they_seem(tmp_path: Path) -> None:
    for path in ("city.ledger", "./year=2026/city.ledger", f"{tmp_path}/a=b", "a@b.ledger", "a%41;b'.ledger"):
        assert Place.of(path).shown == path
    for url, shown in {
        "postgresql://u:s3%40cret@h:5432/db?sslmode=require": "postgresql://u@h:5432/db",
        "postgres:///db?host=/run/postgresql": "postgresql:///db?host=/run/postgresql",
        "postgresql://u:s3cret@/db?host=/run/pg&port=5433": "postgresql://u@:5433/db?host=/run/pg",
        "postgresql://u%40office:s3cret@[::1]:5432/db": "postgresql://u%40office@[::1]:5432/db",
    }.items():
        assert Place.of(url).shown == shown
        assert Place.of(shown).shown == shown  # what an error shows can be typed


def test_a_server_that_does_not_answer_and_a_password_that_nobody_sees() -> None:
    url = "postgresql://steward:s3cret@127.0.0.1:1/city?connect_timeout=2&sslpassword=hidd3n"
    with pytest.raises(LedgerError, match="cannot connect") as refused:
        Ledger.open(url)
    shown = "".join(traceback.format_exception(refused.value)) + repr(refused.value)
    assert "steward@127.0.0.1:1/city" in shown
    assert "s3cret" not in shown
    assert "hidd3n" not in shown
    assert "s3cret" not in repr(Place.of(url))


def test_a_server_that_repeats_the_password_is_not_quoted() -> None:
    place = Place.of("postgresql://steward:s3cret@host/city?sslpassword=hidd3n")
    with pytest.raises(LedgerError) as refused, in_words(place, Progress(), (RuntimeError,)):
        raise RuntimeError("no such user:s3cret, hidd3n")
    assert "no such user:***, ***" in str(refused.value)


def test_the_database_itself_refuses_content_without_a_reservation(create: Callable[..., Ledger]) -> None:
    ledger = create()
    with pytest.raises(LedgerError, match="Nothing was recorded"), ledger._database.writing() as connection:
        records.write_parts(connection, 7, b"x")
    assert ledger.verify()


def test_postgres_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError) as refused:
        Ledger.open("postgresql://localhost/city")
    assert refused.value.fix == "pip install 'oboro[postgres]'"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("SQLITE_FULL", "disk is full"),
        ("SQLITE_IOERR_WRITE", "disk could not be"),
        ("SQLITE_BUSY_SNAPSHOT", "busy"),
        ("SQLITE_NOTADB", "not a ledger"),
        ("SQLITE_CORRUPT", "damaged"),
        ("SQLITE_READONLY", "permission"),
        ("SQLITE_CANTOPEN", "permission"),
        ("SQLITE_ERROR", "cannot be used"),
    ],
)
def test_each_failure_of_sqlite_has_its_words(code: str, words: str) -> None:
    raw = sqlite3.OperationalError("what SQLite says")
    raw.sqlite_errorname = code
    place = Place.of("city.ledger")
    with pytest.raises(LedgerError, match=words) as refused, in_words(place, Progress(), (sqlite3.Error,)):
        raise raw
    assert "OperationalError" not in "".join(traceback.format_exception(refused.value))


def test_what_a_server_was_asked_is_not_shown() -> None:
    place = Place.of("postgresql://host/city")
    with pytest.raises(LedgerError) as refused, in_words(place, Progress(), (SQLAlchemyError,)):
        raise OperationalError("INSERT private", {"plan": "parameters"}, RuntimeError("what it says"))
    assert "parameters" not in "".join(traceback.format_exception(refused.value))


def test_only_a_failing_commit_leaves_a_doubt() -> None:
    assert Progress().outcome == ""
    assert "Nothing was recorded" in Progress(writing=True).outcome
    assert "may have been recorded" in Progress(writing=True, committing=True).outcome


@pytest.mark.long("damaged files")
def test_a_damaged_file_never_ends_in_a_foreign_error(tmp_path: Path) -> None:
    with make(tmp_path / "city.ledger") as ledger:
        for number in range(20):
            ledger.commit(spend(ledger, "1e-3", f"{number}"), b"x" * 3000, facts={})
    whole = (tmp_path / "city.ledger").read_bytes()
    broken = tmp_path / "broken.ledger"
    seen = 0
    for start in range(0, len(whole), 2048):
        broken.write_bytes(whole[:start] + b"\xa5" * 256 + whole[start + 256 :])
        try:
            with Ledger.open(broken) as opened:
                opened.verify()
        except (LedgerError, TamperError):
            seen += 1
        except OboroError as other:  # pragma: no cover
            pytest.fail(f"unexpected {other!r}")
        for extra in tmp_path.glob("broken.ledger-*"):
            extra.unlink()
    assert seen > len(whole) / 2048 / 2


def steps_of_a_reservation(ledger: Ledger) -> int:
    """How many instructions of SQLite's machine one reservation takes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with ledger._database.raw() as driver:
        driver.set_progress_handler(count, 1)
    spend(ledger, "1e-6", f"measured at {ledger.head().position}")
    with ledger._database.raw() as driver:
        driver.set_progress_handler(None, 1)
    return steps


def test_the_work_of_a_reservation_does_not_grow_with_the_history(tmp_path: Path) -> None:
    ledger = make(tmp_path / "city.ledger")
    spend(ledger, "1e-6", "warm")
    few = steps_of_a_reservation(ledger)
    for number in range(200):
        spend(ledger, "1e-6", f"{number}")
    assert 0 < steps_of_a_reservation(ledger) <= few * 1.2


@pytest.mark.parametrize("what", ["write", "read"])
def test_an_interrupt_between_any_two_lines_of_a_transaction_leaves_nothing_locked(
    tmp_path: Path, what: str
) -> None:
    """Ctrl-C, and whatever a handler of a signal raises: the next one of this thread, of another and of another process can go on."""
    ledger = make(tmp_path / "a", budget=Pure(9))
    work = {"write": lambda: spend(ledger, "0.01"), "read": lambda: ledger.spent}[what]
    places, own = 0, ledger._database
    with own.raw() as driver:
        driver.execute("PRAGMA synchronous = OFF")  # no disk is waited for
    work()
    while _interrupted(work, places + 1):
        places += 1
        with contextlib.closing(sqlite3.connect(tmp_path / "a", timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            other.execute("ROLLBACK")
        assert _free(own._turn)
        assert (own._holder, own._leader, [*own._jobs]) == (None, None, [])
    assert places > 30
    work()
    ledger.verify()


def _free(turn: Any) -> bool:
    """Whether another thread can have it."""
    got: list[bool] = []

    def take() -> None:
        got.append(turn.acquire(blocking=False))
        if got[0]:
            turn.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return got[0]


def _interrupted(work: Callable[[], object], place: int) -> bool:
    """Whether the work came to the line of this number within its transaction, at which it was interrupted."""
    left, files = place, (database.__file__, contextlib.__file__)

    def look(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        # no signal is looked at between a lock of the system and its `with`
        if code.co_filename not in files or code.co_qualname in ("Database._in_turn", "Database.write"):
            return None
        if event in ("call", "line") and "_guard" not in linecache.getline(code.co_filename, frame.f_lineno):
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return look

    sys.settrace(look)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
