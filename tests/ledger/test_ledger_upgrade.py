"""Ledgers of 0.1: they can be read, they are upgraded as a whole or not at all, and then they are spent from."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger_help import assert_sound, spend
from typer.testing import CliRunner

import oboro as ob
from kills import collect, in_child, kills
from oboro.cli.main import app
from oboro.errors import LedgerError, ParameterError, TamperError
from oboro.ledger import Head, Ledger, schema, verify_export
from oboro.ledger.database import Database
from oboro.ledger.file import Place

FIXTURES = Path(__file__).parents[1] / "fixtures" / "0.1"
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def brought(name: str, folder: Path) -> Path:
    """A ledger of 0.1 in a folder of its own; its private key is its owner's alone."""
    shutil.copytree(FIXTURES / name, folder)
    (folder / "city.ledger.key").chmod(0o600)
    return folder / "city.ledger"


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    return brought("closed", tmp_path / "closed")


@pytest.fixture
def in_use(tmp_path: Path) -> Path:
    return brought("in-use", tmp_path / "in-use")


@pytest.fixture(params=["sqlite", "postgres"])
def old(request: pytest.FixtureRequest, closed: Path) -> Iterator[Ledger]:
    """The closed ledger of 0.1, on each database in turn."""
    if request.param == "sqlite":
        where = str(closed)
    else:
        where = request.getfixturevalue("postgres")
        with (
            closing(Database(Place.of(where))) as target,
            target.writing() as connection,
            closing(sqlite3.connect(closed)) as source,
        ):
            source.row_factory = sqlite3.Row
            schema.create(connection, *source.execute("SELECT id, schema FROM oboro_ledger").fetchone())
            for table in ("oboro_entries", "oboro_parts"):
                for row in source.execute(f"SELECT * FROM {table}").fetchall():
                    schema.insert(connection, table, **dict(row))
    with Ledger.open(where, key=f"{closed}.key") as ledger:
        yield ledger


def kept_head(path: Path) -> Head:
    return Head.parse(path.with_name("head.txt").read_text())


def journal_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_an_older_ledger_is_read_but_not_spent_from(old: Ledger, tmp_path: Path) -> None:
    assert old.schema == 1
    before = old.head()
    with pytest.raises(LedgerError, match="older oboro") as error:
        spend(old, "1")
    assert "oboro ledger upgrade" in str(error.value)
    with pytest.raises(LedgerError, match="older oboro"):
        old.rotate_key()
    assert old.verify().head == before
    old.backup(tmp_path / "copy")
    assert Ledger.open(tmp_path / "copy").verify().head == before
    old.export(tmp_path / "export.json")
    assert json.loads((tmp_path / "export.json").read_text())["version"] == 1  # 0.1 reads it
    assert verify_export(tmp_path / "export.json").schema == 1


def test_a_run_on_an_older_ledger_is_refused_before_data_is_read(closed: Path) -> None:
    domain = ob.Domain([ob.Category("region", ["north", "south"])])
    plan = ob.histogram_plan(domain, "region", unit=ob.Unit.row(), eps="0.1")
    with Ledger.open(closed) as ledger, pytest.raises(LedgerError, match="older oboro"):
        ob.run(plan, "there is no such file.csv", ledger)


def test_an_upgrade_says_so_in_the_chain_and_keeps_a_copy_of_what_was(old: Ledger, tmp_path: Path) -> None:
    before, spent = old.head(), old.spent
    entry = old.upgrade(tmp_path / "before")
    assert (entry.kind, entry.position) == ("upgrade", before.position + 1)
    assert (entry.body["from"], entry.body["schema"], entry.body["software"]) == (
        1,
        3,
        f"oboro {ob.__version__}",
    )
    assert old.schema == old.verify(before).schema == 3
    assert old.spent == spent
    copy = Ledger.open(tmp_path / "before")
    assert (copy.schema, copy.verify().head, copy.find("regions")) == (1, before, old.find("regions"))
    spend(old, "1")
    old.rotate_key()
    assert_sound(old)
    old.export(tmp_path / "export.json")
    assert verify_export(tmp_path / "export.json", before).schema == 3
    old.backup(tmp_path / "copy")
    assert_sound(Ledger.open(tmp_path / "copy"))


def test_a_ledger_that_is_of_this_version_is_left_alone(old: Ledger, tmp_path: Path) -> None:
    old.upgrade(tmp_path / "before")
    head = old.head()
    with pytest.raises(LedgerError, match="nothing to upgrade"):
        old.upgrade(tmp_path / "again")
    assert old.head() == head
    assert not (tmp_path / "again").exists()


def test_an_upgrade_overwrites_no_file(old: Ledger, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("notes")
    with pytest.raises(LedgerError, match="overwrite"):
        old.upgrade(tmp_path / "taken")
    assert old.schema == 1
    assert (tmp_path / "taken").read_text() == "notes"


def test_a_ledger_that_does_not_verify_is_not_upgraded(closed: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(closed)) as connection, connection:
        connection.execute("DROP TRIGGER oboro_parts_no_update")
        connection.execute("UPDATE oboro_parts SET data = x'00'")
    with pytest.raises(TamperError):
        Ledger.open(closed).upgrade(tmp_path / "before")
    assert Ledger.open(closed).schema == 1


def test_a_new_ledger_says_its_schema_and_an_altered_one_is_found(tmp_path: Path) -> None:
    path = tmp_path / "new.ledger"
    with Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)) as ledger:
        assert ledger.history()[0].body["schema"] == ledger.schema == 3
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER oboro_ledger_no_update")
        connection.execute("UPDATE oboro_ledger SET schema = 1")
    with pytest.raises(TamperError, match="schema"):
        Ledger.open(path).verify()


def test_the_one_row_that_an_upgrade_changes_is_guarded_again_afterwards(
    closed: Path, tmp_path: Path
) -> None:
    with Ledger.open(closed) as ledger:
        ledger.upgrade(tmp_path / "before")
    with (
        closing(sqlite3.connect(closed)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute("UPDATE oboro_ledger SET schema = 1")


# The write-ahead log


def test_the_log_of_a_killed_process_goes_into_the_file_when_it_is_opened(in_use: Path) -> None:
    with Ledger.open(in_use) as ledger:
        assert ledger.verify(kept_head(in_use)).reservations == 2
    assert journal_of(in_use) == "delete"
    assert not in_use.with_name("city.ledger-wal").exists()
    alone = in_use.with_name("alone.ledger")
    shutil.copy(in_use, alone)  # the file by itself holds everything
    assert Ledger.open(alone).verify(kept_head(in_use))


def test_a_ledger_that_others_have_open_with_its_log_is_read_but_not_upgraded(
    in_use: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(in_use)) as other:
        assert other.execute("SELECT count(*) FROM oboro_entries").fetchone() == (3,)
        with Ledger.open(in_use) as ledger:
            assert ledger.verify(kept_head(in_use))
            with pytest.raises(LedgerError, match=r"write-ahead log.*Nothing was recorded"):
                ledger.upgrade(tmp_path / "before")
            assert journal_of(in_use) == "wal"
    with Ledger.open(in_use) as ledger:
        ledger.upgrade(tmp_path / "after")
        spend(ledger, "1/4")
        assert ledger.spent == ledger.budget
        assert_sound(ledger)


def test_a_log_that_someone_switches_on_is_ended_again(tmp_path: Path) -> None:
    path = tmp_path / "new.ledger"
    with Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)) as ledger:
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA journal_mode = WAL")
            with pytest.raises(LedgerError, match="write-ahead log"):
                spend(ledger, "1/2")
            assert ledger.spent == ob.Pure(0)
        ledger.close()
        with Ledger.open(path) as again:
            spend(again, "1/2")
        spend(ledger, "1/2")
    assert journal_of(path) == "delete"


# Killed, and many at once


@needs_fork
@pytest.mark.parametrize("name", ["closed", "in-use"])
@pytest.mark.long("kills")
def test_a_killed_upgrade_leaves_the_old_ledger_or_the_new_one(tmp_path: Path, name: str) -> None:
    measured = itertools.count()

    def once() -> None:
        path = brought(name, tmp_path / f"measured {next(measured)}")
        Ledger.open(path).upgrade(f"{path}.before")

    for number, kill in enumerate(kills(12, once, times=1)):
        path = brought(name, tmp_path / str(number))

        def work(pipe: int, path: Path = path) -> None:
            os.write(pipe, b"!")
            Ledger.open(path).upgrade(f"{path}.before")

        kill(work)
        with Ledger.open(path) as ledger:
            assert ledger.verify(kept_head(path)).schema == ledger.schema
            if ledger.schema == 1:
                ledger.upgrade(f"{path}.again")
            spend(ledger, "1/8")
            assert_sound(ledger)


@needs_fork
def test_of_many_who_upgrade_at_once_one_does(old: Ledger, tmp_path: Path) -> None:
    where, key = old._database.place, old._key_path
    old.close()

    def work(pipe: int) -> None:
        place = str(where.path) if where.url is None else where.url.render_as_string(hide_password=False)
        try:
            Ledger.open(place, key=key).upgrade(tmp_path / f"before {os.getpid()}")
            os.write(pipe, b"done\n")
        except LedgerError as error:
            os.write(pipe, b"nothing\n" if "nothing to upgrade" in error.message else str(error).encode())

    results = [collect(*child) for child in [in_child(work) for _ in range(4)]]
    assert sorted(b"".join(said for _, said in results).split()) == [b"done"] + [b"nothing"] * 3
    assert [entry.kind for entry in old.history()].count("upgrade") == 1
    assert_sound(old)


# The command line


def typed(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_upgrades_and_keeps_a_copy_beside(closed: Path) -> None:
    shown = typed("ledger", "show", closed)
    assert f"oboro ledger upgrade {closed}" in shown
    assert json.loads(typed("ledger", "show", closed, "--json"))["schema"] == 1
    said = typed("ledger", "upgrade", closed)
    assert f"{closed}.schema1" in said
    assert "from schema 1 to 3" in said
    assert "upgrade" not in typed("ledger", "show", closed)
    typed("ledger", "verify", closed, "--head", kept_head(closed))
    assert Ledger.open(f"{closed}.schema1").verify().head == kept_head(closed)
    assert "nothing to upgrade" in typed("ledger", "upgrade", closed)


def test_on_postgresql_the_command_asks_where_the_copy_goes_and_prints_no_password(postgres: str) -> None:
    postgres = postgres.replace("postgres:@", "postgres:s3cret@")
    Ledger.create(postgres, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)).close()
    said = typed("ledger", "upgrade", postgres)
    assert "nothing to upgrade" in said
    assert "s3cret" not in said
    with closing(Database(Place.of(postgres))) as database, database.writing() as connection:
        schema.state(connection, 1)
    done = CliRunner().invoke(app, ["ledger", "upgrade", postgres])
    assert isinstance(done.exception, ParameterError)
    assert "--backup" in str(done.exception)
    said = str(done.exception) + typed("ledger", "show", postgres)
    assert "oboro ledger upgrade 'postgresql://" in said
    assert "s3cret" not in said


def test_an_upgrade_that_is_refused_or_cut_short_does_not_stop_the_next(closed: Path) -> None:
    key = Path(f"{closed}.key")
    key.chmod(0o644)
    with pytest.raises(LedgerError):
        Ledger.open(closed).upgrade(f"{closed}.schema1")
    assert sorted(closed.parent.glob(f"{closed.name}.schema*")) == []
    assert list(closed.parent.glob(".oboro-*")) == []
    key.chmod(0o600)
    Path(f"{closed}.schema1").write_bytes(b"half a copy")
    assert f"{closed}.schema1-2" in typed("ledger", "upgrade", closed)
    assert Path(f"{closed}.schema1").read_bytes() == b"half a copy"
    assert (
        Ledger.open(closed).verify().head.position > Ledger.open(f"{closed}.schema1-2").verify().head.position
    )


@pytest.mark.long("commands that read and show")
def test_in_a_folder_that_cannot_be_written_the_error_says_how_to_copy_it(
    closed: Path, tmp_path: Path
) -> None:
    """The advice is followed to the letter; the copy says what the ledger said. After the upgrade none is needed."""
    before = str(kept_head(closed))
    (there := tmp_path / "there").mkdir()
    program = [sys.executable, "-c", "from oboro.cli import main; main()", "ledger", "show", "--json"]
    folder, show = shlex.quote(str(closed.parent)), shlex.join([*program, str(closed)])
    frozen = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && {show}"

    def shown() -> dict[str, str]:
        done = subprocess.run(["unshare", "-Urm", "sh", "-c", frozen], capture_output=True, text=True)
        if not (done.stdout + done.stderr).startswith("{"):
            pytest.skip("no folder can be mounted here")
        return dict(json.loads(done.stdout or done.stderr))

    fix = shown()["fix"]
    copy, _, rest = fix.removeprefix("to read it: ").partition(" FOLDER")
    assert rest == ", and open the copy in that folder"
    subprocess.run(["sh", "-c", f"{copy} {shlex.quote(str(there))}"], check=True)
    assert str(Ledger.open(there / closed.name).head()) == before
    assert not list(there.glob("*key*"))  # a copy that can pay would pay a second time
    with Ledger.open(closed) as ledger:
        ledger.upgrade(tmp_path / "kept.ledger")
        after = str(ledger.head())
    assert shown()["head"] == after


def test_a_copy_is_kept_where_files_have_no_links(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("oboro.ledger.copies.os.link", refused)
    typed("ledger", "upgrade", closed)
    assert Ledger.open(f"{closed}.schema1").verify().head == kept_head(closed)
    assert list(closed.parent.glob(".oboro-*")) == []
