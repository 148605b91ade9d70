"""No command writes over what it reads, however the output is named; what is written is there whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors_world import LEDGER, READING_NOTHING, WRITING, commands, reservations, typed

import oboro as ob
from oboro import files
from oboro.errors import DataError, OboroError, ParameterError

# the others: a ledger with a hard link is not even opened, no copy is called as SQLite calls what is its own, and a draft replaces drafts alone, a page pages
REFUSED = (
    "overwrite an input",
    "the file has a second name",
    "the file has a name of SQLite's own",
    "is there, and is no draft",
    "is not known to hold synthetic records alone",
    "is there, and is no page that oboro made",
)


def spellings(option: str, name: str) -> list[list[str]]:
    if option == "-o":
        return [["-o", name], [f"-o{name}"], ["--output", name], [f"--output={name}"]]
    return [[option, name], [f"{option}={name}"]]


def names_of(folder: Path, name: str, suffix: str) -> Iterator[str]:
    """Everything that the same file can be called, if it may end as the command wants it."""
    if name.endswith(suffix):
        yield name
        yield f"../{folder.name}/{name}"
        yield str((folder / name).absolute())
    if (folder / name).exists():
        (folder / f"soft{suffix}").symlink_to(name)
        yield f"soft{suffix}"
        os.link(folder / name, folder / f"hard{suffix}")
        yield f"hard{suffix}"
    (folder / "elsewhere").symlink_to(".")
    if name.endswith(suffix):
        yield f"elsewhere/{name}"


def test_every_command_that_writes_is_tried() -> None:
    outputs = {"output", "save_plan"}
    writing = {name for name, one in commands().items() if outputs & {p.name for p in one.params}}
    assert writing == set(WRITING) | READING_NOTHING


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.few(6, "outputs given the name of an input")
def test_an_output_never_replaces_an_input(command: str, folder: Path) -> None:
    line, option, suffix, inputs = WRITING[command]
    before = reservations(folder)
    tried = 0
    for name in inputs.split():
        kept = (folder / name).read_bytes() if (folder / name).exists() else None
        for called in names_of(folder, name, suffix):
            for words in spellings(option, called)[: 1 if tried >= 4 else None]:
                result = typed(folder, [*line.split(), *words])
                now = (folder / name).read_bytes() if (folder / name).exists() else None
                assert result.code in (1, 4), (words, result)
                assert now == kept, words
                assert any(text in result.err for text in REFUSED), (words, result.err)
                tried += 1
        for link in ("soft", "hard"):
            (folder / f"{link}{suffix}").unlink(missing_ok=True)
        (folder / "elsewhere").unlink()
    assert tried >= 4
    assert reservations(folder) == before  # and nothing was paid
    assert not list(folder.glob(".oboro-*"))


@pytest.mark.long("commands that read and show")
def test_the_same_commands_write_elsewhere(folder: Path) -> None:
    """Else the test above proves nothing."""
    for command, (line, option, suffix, _) in WRITING.items():
        target = f"elsewhere-{command.replace(' ', '-')}{suffix}"
        result = typed(folder, [*line.split(), option, target])
        assert result.code == 0, (command, result.err)
        assert (folder / target).stat().st_size > 0


def test_a_certificate_never_replaces_an_input(folder: Path) -> None:
    os.link(folder / "people.csv", folder / "out.csv.certificate.json")
    before = reservations(folder)
    result = typed(folder, [*WRITING["run"][0].split(), "-o", "out.csv"])
    assert result.code == 4
    assert "overwrite an input" in result.err
    assert reservations(folder) == before


def test_an_input_that_comes_into_being_after_the_check_is_spared_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is where the file is written: here the output becomes a link to the data while the plan runs."""
    real = ob.Ledger.commit

    def commit(*args: object, **kwargs: object) -> object:
        (folder / "out.csv").symlink_to("people.csv")
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(ob.Ledger, "commit", commit)
    kept = (folder / "people.csv").read_bytes()
    result = typed(folder, [*WRITING["run"][0].split(), "-o", "out.csv"])
    assert (folder / "people.csv").read_bytes() == kept
    assert result.code not in (0, 2, 3, 4)
    assert "paid for" in result.err


def test_in_python_a_ledger_is_not_replaced_by_its_own_export(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with ob.Ledger.create(path, dataset="d", unit=ob.Unit.row(), budget=ob.Pure(1)) as ledger:
        for name in LEDGER.split():
            own = path.with_name(name.replace("people", "a"))
            with pytest.raises(ParameterError, match="overwrite an input"):
                ledger.export(own)
        ledger.export(tmp_path / "export.json")
        assert ledger.verify().entries == 1


def test_what_a_program_has_read_it_may_write(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Integer("age", 0, 3)])
    domain.to_toml(tmp_path / "d.toml")
    ob.Domain.from_toml(tmp_path / "d.toml").to_toml(tmp_path / "d.toml")
    with files.sparing():
        ob.Domain.from_toml(tmp_path / "d.toml")
        with pytest.raises(ParameterError, match="overwrite an input"):
            domain.to_toml(tmp_path / "d.toml")
    (tmp_path / "never.csv").write_text("age\n3\n")  # what is impossible, which a domain file may name
    with files.sparing():
        ruled = domain.ruled(impossible=tmp_path / "never.csv")
        with pytest.raises(ParameterError, match="overwrite an input"):
            ruled.to_toml(tmp_path / "never.csv")


# -- where and how a file is written -----------------------------------------------------------------------------


def test_nobody_can_lay_a_link_where_a_file_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name cannot be foreseen; and a link that stands there all the same is not followed."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("out.csv.part", ".out.csv.part"):
        (tmp_path / name).symlink_to(victim)
    files.write_whole(tmp_path / "out.csv", b"new")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".oboro-guessed.part").symlink_to(victim)
    with pytest.raises(DataError, match="cannot be written"):
        files.write_whole(tmp_path / "out.csv", b"newer")
    assert victim.read_text() == "precious"
    assert (tmp_path / "out.csv").read_bytes() == b"new"


def test_what_a_link_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    os.link(tmp_path / "old", tmp_path / "second")
    for name in ("link", "second"):
        files.write_whole(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "old").read_text() == "old"


def test_only_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(DataError, match="cannot be written"):
            files.write_whole(tmp_path / name, b"x")
        with pytest.raises(DataError, match="cannot be written"):
            files.check_output(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["x" * 251 + ".csv", "x" * 240 + ".csv", "x.csv/y.csv", "absent/x.csv"])
def test_a_name_that_cannot_be_written_is_refused_before_anything_is_paid(folder: Path, name: str) -> None:
    (folder / "x.csv").write_text("")
    before = reservations(folder)
    result = typed(folder, [*WRITING["run"][0].split(), "-o", name])
    assert result.code == 4, result
    assert reservations(folder) == before


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(handle: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "x", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_a_file_is_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_whole(tmp_path / "x", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


# -- one meaning for a path -----------------------------------------------------------------------------------------


def test_a_tilde_means_the_same_to_all_who_look_at_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shells know `~`; to us it is a name. What is checked here must not be read in somebody's home there."""
    home, here = tmp_path / "home", tmp_path / "here"
    (here / "~").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    (home / "x.csv").write_text("age\n1\n1\n1\n")
    domain = ob.Domain([ob.Integer("age", 0, 3)])
    with pytest.raises(DataError, match="no such file"):
        ob.engine.open_data("~/x.csv")
    (here / "~" / "x.csv").write_text("age\n2\n")
    source = ob.engine.open_data("~/x.csv")
    assert source.connection.execute(f"SELECT age FROM {source.relation}").fetchall() == [("2",)]
    assert domain.names == ("age",)


def test_an_address_is_no_path(folder: Path) -> None:
    """Libraries follow `file:` and `s3:`. What is checked under one name would be read under another, or from elsewhere."""
    kept = (folder / "table.parquet").read_bytes()
    (folder / "table.parquet.certificate.json").unlink()
    for line in (
        "table ask {}",
        "table map {} --domain grid.toml -o table.parquet",
        "table check {} --domain grid.toml --count count",
        "dynamics band {} -o table.parquet",
        "synth report {} {} -o table.parquet",
        "certificate verify {} --data {}",
        "ledger show {}",
    ):
        for address in (
            f"file:{folder}/table.parquet",
            f"file://{folder}/table.parquet",
            "s3://x/table.parquet",
        ):
            result = typed(folder, line.format(*[address] * line.count("{}")).split())
            assert result.code in (1, 4), (line, result)
            assert "InternalError" not in result.err, (line, result)
            assert (folder / "table.parquet").read_bytes() == kept


# -- what is not to be replaced, whoever asks -------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="the places of Linux")
def test_nothing_of_the_system_is_replaced(folder: Path) -> None:
    """/dev/stdout leads to a common file where it was redirected; to replace it would replace the machine's own name."""
    (folder / "stdout").symlink_to("/proc/self/fd/1")
    (folder / "second").symlink_to(folder / "stdout")
    (folder / "devices").symlink_to("/dev", target_is_directory=True)
    places = ["/dev/stdout", "/dev/x.json", "/proc/self/fd/1", "/sys/x", "stdout", "second", "devices/x"]
    for place in places:
        result = typed(folder, ["ledger", "export", "people.ledger", "-o", place])
        assert result.code == 4, (place, result)
        with pytest.raises(DataError, match="cannot be written"):
            files._refuse_other_than_file(folder / place)
    assert (folder / "second").is_symlink()
    files._refuse_other_than_file(Path("/dev/shm/published.csv"))
    files._refuse_other_than_file(folder / "devices-of-mine" / "proc")


def test_no_ledger_and_no_secret_key_is_written_over(folder: Path) -> None:
    made = ["ledger", "create", "other.ledger", "--dataset", "o", "--unit", "row", "--eps", "1"]
    assert typed(folder, made).code == 0
    assert typed(folder, ["secure", "keys", "carol"]).code == 0
    (folder / "link").symlink_to("other.ledger")
    for name in ("other.ledger", "other.ledger.key", "carol.secret", "link"):
        kept = (folder / name).read_bytes()
        result = typed(folder, ["ledger", "export", "people.ledger", "-o", name])
        assert result.code == 4, (name, result)
        assert (folder / name).read_bytes() == kept
        with pytest.raises(OboroError, match="ledger or a secret key"):
            files.write_whole(folder / name, b"x")
    for text in (b"", b"age\n1\n", b"SQLite"):
        (folder / "old.csv").write_bytes(text)
        files.write_whole(folder / "old.csv", b"new")


def test_a_folder_by_another_mount_is_the_same_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount gives a folder a second real path; device and inode tell."""
    (folder / "mounted").mkdir()
    seen = os.stat

    def looked(path: Any, **more: Any) -> os.stat_result:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
        return seen(str(folder) if text == str(folder / "mounted") else path, **more)

    monkeypatch.setattr(os, "stat", looked)
    with files.sparing():
        files.reads(folder / "people.ledger", "-journal")
        for name in ("people.ledger", "people.ledger-journal"):
            with pytest.raises(OboroError, match="overwrite an input"):
                files.refuse_input(folder / "mounted" / name)
        files.refuse_input(folder / "mounted" / "free.csv")


# -- TOML that no machine wrote -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000 + "]" * 100_000,
        "x = " + "{a=" * 50_000,
        "x = " + "9" * 5000,
        "x." * 2_000 + "y = 1",
    ],
    ids=["lists", "tables", "digits", "dots"],
)
def test_absurd_toml_is_refused_in_our_words(folder: Path, text: str) -> None:
    (folder / "absurd.toml").write_text(text)
    limit = sys.getrecursionlimit()
    for line in (
        "table forecast --domain absurd.toml --eps 1",
        "check absurd.toml",
        "forecast absurd.toml",
        "secure verify absurd.toml",
        "dynamics plan absurd.toml --eps 1",
        "ledger create x.ledger --dataset x --domain absurd.toml --eps 1",
    ):
        result = typed(folder, line.split(), OBORO_TRACEBACK="1")
        assert result.code == 4, (line, result)
        assert "InternalError" not in result.err
    with pytest.raises(OboroError):
        ob.Domain.from_toml(folder / "absurd.toml")
    assert sys.getrecursionlimit() == limit


def test_names_in_fixes_are_quoted_for_a_shell(folder: Path) -> None:
    """What an error says to type is one word for one name."""
    (folder / "q l.csv").write_bytes((folder / "people.csv").read_bytes())
    release = [
        "histogram",
        "release",
        "--domain",
        "domain.toml",
        "--column",
        "region",
        "--eps",
        "0.01",
        "--ledger",
    ]
    drawn = [
        "secure",
        "draw",
        "--urns",
        "urns.enc",
        "--plan",
        "noise.toml",
        "--answer",
        "answer.enc",
        "-o",
        "drawn.enc",
        "--ledger",
    ]
    for words, fix in (
        ([*release, "people.ledger", "q l.csv", "-o", "q l.csv"], "-o 'published-q l.csv'"),
        ([*release, "people.ledger", "people.csv", "-o", "no folder/q l.csv"], "-o 'q l.csv'"),
        ([*release, "people.ledger", "people.csv", "-o", "q l.xyz"], "-o 'q l."),
        ([*release, "q l.ledger", "people.csv", "-o", "out.csv"], "oboro ledger create 'q l.ledger'"),
        ([*drawn, "q l.ledger"], "--eps 2 --delta 0.01 --assume 'the two parties"),
    ):
        told = typed(folder, words)
        assert told.code != 0
        assert fix in told.err, told.err


def test_the_key_that_was_expected_is_named_as_such(folder: Path) -> None:
    expected = "ab" * 32
    line = f"certificate verify published.csv.certificate.json --key {expected}"
    told = typed(folder, line.split()).err
    assert f"needed  {expected}, the key that you expect" in told
    assert f"signed with {expected}" not in told
