"""A SQLite ledger by every name that its file can have: it is one account, or it is refused.

Names that only a container has are tried in a world of mounts of their own, where the system allows one.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from ledger_help import assert_sound, enter_mounts, mounts_are_allowed, spend

from kills import collect, in_child
from oboro.errors import LedgerError, OboroError, TamperError
from oboro.ledger import Ledger, file, records
from oboro.privacy import Pure, Unit
from oboro.secure import Shelf

PAGE = 4096


@pytest.fixture
def needs_mounts() -> None:
    if not mounts_are_allowed():
        pytest.skip("this system allows no mounts of our own")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger in a folder of its own."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "city.ledger"
    Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(10)).close()
    return path


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as opened:
        yield opened


def beside(path: Path) -> set[str]:
    return {found.name for found in path.parent.iterdir()}


def in_a_child(work: Callable[[], object]) -> str:
    """What a child reports: that it is done, or what an error says."""

    def report(pipe: int) -> None:
        try:
            os.write(pipe, f"done {work()}".encode())
        except (OboroError, OSError) as error:
            os.write(pipe, str(error).encode())

    code, said = collect(*in_child(report))
    assert code == 0
    return said.decode()


def written_meanwhile(ledger: Ledger) -> set[str]:
    """What stands beside a ledger while it is written to."""
    seen: set[str] = set()
    with suppress(ZeroDivisionError), ledger._database.writing() as connection:
        connection.run("PRAGMA user_version = 99")
        seen = beside(Path(str(ledger._database.place.path)))
        raise ZeroDivisionError  # nothing is recorded
    return seen


# One file by several ways to write its path


def ways(path: Path) -> list[str]:
    home = path.parent.parent
    (home / "link.ledger").symlink_to(path)
    (home / "second.ledger").symlink_to(home / "link.ledger")
    (home / "folder").symlink_to(path.parent, target_is_directory=True)
    (home / "far" / "inner").mkdir(parents=True)
    (home / "into").symlink_to(home / "far" / "inner", target_is_directory=True)
    (home / "far" / "city.ledger").symlink_to(path)
    return [
        str(path),
        f"{home}/./folder/../data//city.ledger",
        str(home / "link.ledger"),
        str(home / "second.ledger"),
        str(home / "folder" / "city.ledger"),
        f"{home}/into/../city.ledger",  # far/city.ledger, where the system goes; by the text alone it is not there
        os.path.relpath(path),
        os.path.relpath(home / "link.ledger"),
    ]


def test_every_way_to_write_its_path_is_one_ledger_with_one_journal_and_one_key(path: Path) -> None:
    found = ways(path)
    for number, where in enumerate(found, start=1):
        with Ledger.open(where) as ledger:
            assert written_meanwhile(ledger) == {"city.ledger", "city.ledger.key", "city.ledger-journal"}
            spend(ledger, "0.5")
            assert ledger.spent == Pure(f"{number}/2")
    assert beside(path) == {"city.ledger", "city.ledger.key"}
    assert_sound(Ledger.open(path))


def test_a_new_ledger_by_a_link_stands_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "link.ledger"
    link.symlink_to(tmp_path / "data" / "real.ledger")
    Ledger.create(link, dataset="x", unit=Unit.row(), budget=Pure(1)).close()
    assert beside(tmp_path / "data" / "real.ledger") == {"real.ledger", "real.ledger.key"}
    assert beside(link) == {"data", "link.ledger"}


def test_a_key_that_was_made_beside_a_link_is_still_found(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    shutil.move(f"{path}.key", f"{link}.key")  # where 0.1 made it
    with Ledger.open(link) as ledger:
        spend(ledger, "1")
        ledger.rotate_key()
        spend(ledger, "1")
    assert beside(link) == {"data", "link.ledger", "link.ledger.key"}


def test_a_link_that_leads_elsewhere_meanwhile_changes_nothing_for_those_who_are_there(
    path: Path, tmp_path: Path
) -> None:
    other, link = tmp_path / "other.ledger", tmp_path / "link.ledger"
    Ledger.create(other, dataset="y", unit=Unit.row(), budget=Pure(1)).close()
    link.symlink_to(path)
    with Ledger.open(link) as ledger:
        link.unlink()
        link.symlink_to(other)
        spend(ledger, "1")
    assert Ledger.open(path).spent == Pure(1)
    assert Ledger.open(link).dataset == "y"


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_a_ledger_does_not_take_a_name_that_sqlite_would_delete(path: Path, end: str) -> None:
    with pytest.raises(LedgerError, match="SQLite's own"):
        Ledger.create(f"{path}{end}", dataset="x", unit=Unit.row(), budget=Pure(1))
    with pytest.raises(LedgerError, match="SQLite's own"):
        Ledger.open(path).backup(f"{path}{end}")
    assert beside(path) == {"city.ledger", "city.ledger.key"}


# Two hard links


def test_a_file_with_two_names_is_refused_by_both(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    os.link(path, other)
    for where in (path, other):
        with pytest.raises(LedgerError, match="second name") as error:
            Ledger.open(where)
        assert "2 hard links" in str(error.value)
    with pytest.raises(LedgerError, match="second name"):
        Ledger.create(other, dataset="x", unit=Unit.row(), budget=Pure(1))
    other.unlink()
    assert spend(Ledger.open(path), "1")


def test_an_empty_file_with_two_names_becomes_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    os.link(tmp_path / "one", tmp_path / "two")
    with pytest.raises(LedgerError, match="second name"):
        Ledger.create(tmp_path / "two", dataset="x", unit=Unit.row(), budget=Pure(1))
    assert (tmp_path / "one").stat().st_size == 0


def test_a_second_name_that_comes_while_the_ledger_is_open_stops_it(
    ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    os.link(path, tmp_path / "other")
    with pytest.raises(LedgerError, match=r"second name.*Nothing was recorded"):
        spend(ledger, "1")
    with pytest.raises(LedgerError, match="second name"):
        _ = ledger.spent
    (tmp_path / "other").unlink()
    assert ledger.spent == Pure(0)
    spend(ledger, "1")


@pytest.mark.parametrize("change", ["link", "move", "remove", "replace"])
def test_what_happens_to_the_file_while_it_is_written_to_is_noticed_before_the_spend_counts(
    ledger: Ledger, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Between the first and the second look: whoever reserves is not told that it was granted."""
    original = records.append

    def append(*arguments: Any, **more: Any) -> object:
        entry = original(*arguments, **more)
        if change == "link":
            os.link(path, tmp_path / "other")
        elif change == "move":
            path.rename(tmp_path / "other")
        elif change == "remove":
            path.unlink()
        else:
            shutil.copy(path, tmp_path / "other")
            os.replace(tmp_path / "other", path)
        return entry

    monkeypatch.setattr(records, "append", append)
    with pytest.raises(LedgerError, match=r"second name|moved, removed or replaced") as error:
        spend(ledger, "1")
    assert "may have been recorded" in error.value.message


# Moved, removed, replaced


def test_a_file_that_is_moved_away_and_back(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    spend(ledger, "1")
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match=r"moved, removed or replaced.*Nothing was recorded"):
        spend(ledger, "1")
    with pytest.raises(LedgerError, match="moved, removed or replaced"):
        ledger.verify()
    (tmp_path / "elsewhere").rename(path)
    spend(ledger, "1")
    assert ledger.spent == Pure(2)
    assert_sound(ledger)


def test_a_folder_that_is_moved_while_the_ledger_is_open(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    """The name of the journal would be in the folder that took its place."""
    spend(ledger, "1")
    path.parent.rename(tmp_path / "moved")
    path.parent.mkdir()
    with pytest.raises(LedgerError, match="moved, removed or replaced"):
        spend(ledger, "1")
    assert beside(path) == set()
    with Ledger.open(tmp_path / "moved" / path.name) as found:
        spend(found, "1")
        assert found.spent == Pure(2)
        assert_sound(found)


def test_another_ledger_that_took_its_place_is_not_spent_from(
    ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.ledger"
    Ledger.create(other, dataset="x", unit=Unit.row(), budget=Pure(10)).close()
    os.replace(other, path)
    with pytest.raises(LedgerError, match="moved, removed or replaced"):
        spend(ledger, "1")
    ledger.close()  # and a new connection finds another chain
    with pytest.raises(TamperError):
        spend(ledger, "1")


@pytest.mark.parametrize("put_back", ["written over", "in its place"])
def test_an_older_copy_is_refused_by_those_who_saw_more(
    ledger: Ledger, path: Path, tmp_path: Path, put_back: str
) -> None:
    spend(ledger, "1")
    ledger.backup(tmp_path / "older")
    spend(ledger, "2")
    if put_back == "written over":
        path.write_bytes((tmp_path / "older").read_bytes())
    else:
        os.replace(tmp_path / "older", path)
        ledger.close()
    with pytest.raises(TamperError, match="older copy"):
        spend(ledger, "1")
    # spent from meanwhile, by one who knows no better: it has the length again, and another story
    with Ledger.open(path) as other:
        spend(other, "3")
        spend(other, "3")
    with pytest.raises(TamperError, match="older copy"):
        spend(ledger, "1")


@pytest.mark.parametrize("saw", ["opened", "read"])
def test_an_older_copy_is_refused_by_those_who_only_read(
    ledger: Ledger, path: Path, tmp_path: Path, saw: str
) -> None:
    ledger.backup(tmp_path / "older")
    if saw == "read":
        reader = Ledger.open(path)
        spend(ledger, "9")
        assert reader.remaining == Pure(1)
    else:
        spend(ledger, "9")
        reader = Ledger.open(path)
    ledger.close()
    path.write_bytes((tmp_path / "older").read_bytes())
    for use in (lambda: spend(reader, "9"), lambda: reader.remaining, reader.history, reader.verify):
        with pytest.raises(TamperError, match="older copy"):
            use()


# Torn: a write was cut short, and its journal is somewhere else


def tears(before: bytes, after: bytes) -> Iterator[bytes]:
    """Every file that a write from one state to the other can leave behind, page by page, in any order."""
    count = max(len(before), len(after)) // PAGE
    changed = [
        n for n in range(count) if before[n * PAGE : (n + 1) * PAGE] != after[n * PAGE : (n + 1) * PAGE]
    ]
    for size in range(len(changed) + 1):
        for pages in itertools.combinations(changed, size):
            mixed = bytearray(before)
            for n in pages:
                mixed.extend(bytes(max(0, (n + 1) * PAGE - len(mixed))))
                mixed[n * PAGE : (n + 1) * PAGE] = after[n * PAGE : (n + 1) * PAGE]
            yield bytes(mixed)


def states_after_a_loss(path: Path) -> Counter[str]:
    """What becomes of each torn state of two reservations: refused as torn, otherwise refused, or how it counts."""
    seen: Counter[str] = Counter()
    torn = path.with_name("torn.ledger")
    for number in range(2):
        before = path.read_bytes()
        with Ledger.open(path) as ledger:
            granted = ledger.spent.unconditional
            spend(ledger, "1/100", f"name {number}")
        for state in tears(before, path.read_bytes()):
            torn.write_bytes(state)
            try:
                with Ledger.open(torn) as found:
                    spent = found.spent.unconditional
                seen["forgets" if spent.eps < granted.eps else "granted, or more"] += 1  # type: ignore[attr-defined]
            except LedgerError as error:
                seen["torn" if "torn" in error.message else "refused"] += 1
    return seen


def test_no_torn_file_shows_less_than_was_granted(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(path.parent, tmp_path / "again")
    seen = states_after_a_loss(path)
    assert seen.total() >= 64
    assert seen["forgets"] == 0
    assert seen["torn"] > 0
    monkeypatch.setattr(records, "refuse_torn", lambda *_: None)  # without the mark these would be believed
    assert states_after_a_loss(tmp_path / "again" / path.name)["granted, or more"] > seen["granted, or more"]


def test_a_torn_file_says_what_it_needs(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(LedgerError, match="torn") as error:
        spend(Ledger.open(path), "1")
    assert "-journal" in str(error.value)
    with pytest.raises(LedgerError, match="torn"):
        Ledger.open(path).verify()


# Mounts


@pytest.mark.usefixtures("needs_mounts")
def test_a_file_that_is_mounted_by_itself_is_refused_and_its_folder_is_not(
    path: Path, tmp_path: Path
) -> None:
    """As a container gets it. What was spent by way of the folder is there when the container was killed."""
    inside = tmp_path / "container"
    inside.mkdir()
    (inside / path.name).touch()
    (inside / f"{path.name}.key").touch()

    def single() -> None:
        enter_mounts((path, inside / path.name), (f"{path}.key", inside / f"{path.name}.key"))
        Ledger.open(inside / path.name)

    assert "mounted by itself" in in_a_child(single)
    assert beside(inside / path.name) == {path.name, f"{path.name}.key"}

    def folder(_: int) -> None:
        enter_mounts((path.parent, inside))
        spend(Ledger.open(inside / path.name), "9")
        os.kill(os.getpid(), signal.SIGKILL)

    assert collect(*in_child(folder))[0] == -signal.SIGKILL
    assert Ledger.open(path).spent == Pure(9)


@pytest.mark.usefixtures("needs_mounts")
def test_no_ledger_is_made_in_a_file_that_is_mounted_by_itself(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "there.ledger").touch()

    def create() -> None:
        enter_mounts((tmp_path / "empty", tmp_path / "there.ledger"))
        Ledger.create(tmp_path / "there.ledger", dataset="x", unit=Unit.row(), budget=Pure(1))

    assert "mounted by itself" in in_a_child(create)
    assert (tmp_path / "empty").stat().st_size == 0


@pytest.mark.usefixtures("needs_mounts")
@pytest.mark.parametrize("what", ["the file", "the folder"])
def test_what_is_mounted_over_an_open_ledger_stops_it(path: Path, tmp_path: Path, what: str) -> None:
    shutil.copytree(path.parent, tmp_path / "copy")

    def work() -> None:
        enter_mounts()
        with Ledger.open(path) as ledger:
            spend(ledger, "1")
            if what == "the file":
                enter_mounts((tmp_path / "copy" / path.name, path))
            else:
                enter_mounts((tmp_path / "copy", path.parent))
            spend(ledger, "1")

    assert ("mounted by itself" if what == "the file" else "moved, removed") in in_a_child(work)
    assert Ledger.open(path).spent == Pure(1)


@pytest.mark.usefixtures("needs_mounts")
def test_a_name_by_way_of_another_world_of_mounts_is_refused(path: Path, tmp_path: Path) -> None:
    """/proc/PID/root leads into the mounts of that process, and its real path to another file."""
    (tmp_path / "other").mkdir()
    Ledger.create(tmp_path / "other" / path.name, dataset="y", unit=Unit.row(), budget=Pure(1)).close()
    ready, go = os.pipe()

    def hold(pipe: int) -> None:
        enter_mounts((tmp_path / "other", path.parent))
        os.write(pipe, b"!")
        os.close(go)
        os.read(ready, 1)

    child, reading = in_child(hold)
    assert os.read(reading, 1) == b"!"
    try:
        with pytest.raises(LedgerError, match="no name that can be relied on"):
            Ledger.open(f"/proc/{child}/root{path}")
    finally:
        os.close(go)
        collect(child, reading)
        os.close(ready)
    assert Ledger.open(path).dataset == "x"


@pytest.mark.usefixtures("needs_mounts")
def test_a_layer_of_a_container_keeps_a_ledger_while_it_lasts(path: Path, tmp_path: Path) -> None:
    """An overlay: what is spent in the container is not seen outside, where the ledger is another file."""
    for name in ("disk", "inside"):
        (tmp_path / name).mkdir()

    def work() -> object:
        enter_mounts(("none", tmp_path / "disk"), kind="tmpfs")
        for name in ("upper", "work"):
            (tmp_path / "disk" / name).mkdir()
        layers = f"lowerdir={path.parent},upperdir={tmp_path}/disk/upper,workdir={tmp_path}/disk/work"
        enter_mounts(("none", tmp_path / "inside"), kind="overlay", options=layers)
        with Ledger.open(tmp_path / "inside" / path.name) as ledger:
            spend(ledger, "4")
        with Ledger.open(tmp_path / "inside" / path.name) as ledger:
            spend(ledger, "4")
            assert_sound(ledger)
            return ledger.spent

    said = in_a_child(work)
    if "mount:" in said:
        pytest.skip("this system allows no overlay of our own")
    assert said == "done eps = 8"
    assert Ledger.open(path).spent == Pure(0)


# Network file systems


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "fuse.sshfs", "fuse.gcsfuse"]
)
def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(file, "_file_system", lambda *_: kind)
    with pytest.raises(LedgerError, match="network file system") as error:
        Ledger.open(path)
    assert kind in str(error.value)
    with pytest.raises(LedgerError, match="network file system"):
        Ledger.create(path.with_name("new"), dataset="x", unit=Unit.row(), budget=Pure(1))
    assert not path.with_name("new").exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "apfs", ""])
def test_a_disk_of_this_machine_is_not(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(file, "_file_system", lambda *_: kind)
    assert spend(Ledger.open(path), "1")


@pytest.mark.usefixtures("needs_mounts")
@pytest.mark.parametrize("numbered", [True, False])
def test_linux_tells_what_a_folder_lies_on_and_what_is_mounted_by_itself(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbered: bool
) -> None:
    """By the number of the mount, or where a system gives none, by its place."""
    folder, alone = tmp_path / "a folder \\ of its own", tmp_path / "a file"
    (folder / "inner").mkdir(parents=True)
    alone.touch()
    if not numbered:
        monkeypatch.setattr(file, "_mount_of", lambda _: None)

    def kind() -> str:
        enter_mounts(("none", folder), kind="tmpfs")
        (folder / "inner").mkdir()
        return file._file_system(folder / "inner", file._looked_at(folder / "inner")[1])

    def single() -> None:
        enter_mounts((path, alone))
        Ledger.open(alone)

    assert in_a_child(kind) == "done tmpfs"
    assert "mounted by itself" in in_a_child(single)
    assert spend(Ledger.open(path), "1")


def test_where_linux_does_not_say_nothing_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(name: object, *_: object, **__: object) -> None:
        raise FileNotFoundError(str(name))

    monkeypatch.setattr(file, "open", closed, raising=False)
    assert spend(Ledger.open(path), "1")


# The key


def test_a_key_that_is_a_link_is_replaced_where_it_leads(path: Path, tmp_path: Path) -> None:
    shutil.move(f"{path}.key", tmp_path / "real.key")
    Path(f"{path}.key").symlink_to(tmp_path / "real.key")
    with Ledger.open(path) as ledger:
        ledger.rotate_key()
    with Ledger.open(path, key=tmp_path / "real.key") as ledger:
        spend(ledger, "1")
    assert Path(f"{path}.key").is_symlink()
    assert beside(path) == {"city.ledger", "city.ledger.key"}


def test_a_key_with_two_names_is_not_replaced_under_one(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    os.link(f"{path}.key", tmp_path / "second.key")
    with pytest.raises(LedgerError, match="second name"):
        ledger.rotate_key()
    assert len(ledger.history()) == 1
    spend(ledger, "1")


@pytest.mark.usefixtures("needs_mounts")
def test_a_key_that_is_mounted_by_itself_signs_but_is_not_replaced(path: Path, tmp_path: Path) -> None:
    """As containers get secrets. A new key would stay in the container."""
    (tmp_path / "secret").touch()

    def work() -> None:
        enter_mounts((f"{path}.key", tmp_path / "secret"))
        with Ledger.open(path, key=tmp_path / "secret") as ledger:
            spend(ledger, "1")
            ledger.rotate_key()

    assert "mounted by itself" in in_a_child(work)
    assert len(Ledger.open(path).history()) == 2


# What the looks themselves do


def test_to_look_at_a_file_does_not_drop_the_locks_on_it(ledger: Ledger, path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any handle of it."""
    with ledger._database.writing():
        file.identity(path, "x")
        file.refuse_network(path, "x")
        assert is_locked(path)
        with open(path, "rb"):
            pass
        assert not is_locked(path)  # so there is something to see


def is_locked(path: Path) -> bool:
    """By another process, which inherits nothing."""
    code = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0


# The shelf of urns has the same rules


def test_the_record_of_used_urns_has_one_name(tmp_path: Path) -> None:
    shelf, link = Shelf(tmp_path / "urns"), Shelf(tmp_path / "link")
    link.path.symlink_to(shelf.path)
    link.put(b"one", "plan")
    assert beside(shelf.path) == {"urns", "link"}
    shelf.use(b"one", "plan")
    os.link(shelf.path, tmp_path / "second")
    for name in ("urns", "second", "link"):
        with pytest.raises(LedgerError, match="second name"):
            Shelf(tmp_path / name).put(b"two", "plan")


@pytest.mark.usefixtures("needs_mounts")
def test_the_record_of_used_urns_is_not_mounted_by_itself(tmp_path: Path) -> None:
    Shelf(tmp_path / "urns").put(b"one", "plan")
    (tmp_path / "inside").touch()

    def work() -> None:
        enter_mounts((tmp_path / "urns", tmp_path / "inside"))
        Shelf(tmp_path / "inside").use(b"one", "plan")

    assert "mounted by itself" in in_a_child(work)
    Shelf(tmp_path / "urns").use(b"one", "plan")
