"""The ledger under fault, as often as asked: the short tests run these a few times, `python tests/ledger` a thousand.

Each child runs whole releases through `oboro.run` and reports every release that it has in hand. Afterwards nothing
that was reported may be missing, nothing may be there twice, and the sums must be exact.
"""

from __future__ import annotations

import itertools
import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from ledger_help import assert_sound, enter_mounts, mounts_are_allowed, spend

import oboro as ob
from kills import collect, in_child, kills
from oboro.errors import BudgetError, LedgerError
from oboro.ledger import Ledger, periods
from oboro.release import register
from oboro.statistics import HistogramPlan

DOMAIN = ob.Domain([ob.Category("region", ["north", "south"])])
PREPARED = np.array([3, 4], np.int64)


@register
@dataclass(frozen=True)
class Counted(HistogramPlan):
    """A histogram that was counted before the fork: only what can leave a doubt runs in the children."""

    kind = "test.counted"

    def prepare(self, data: Any) -> Any:
        return PREPARED


def small_plan(eps: str) -> HistogramPlan:
    made = ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps=eps)
    return Counted(made.bins, made.unit, made.guarantee)


def warm() -> None:
    """A release in the parent loads and compiles what the children need, so that kills land in the work itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm.ledger"
        with Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)) as ledger:
            ob.run(small_plan("1/7"), None, ledger)


@dataclass(frozen=True, slots=True)
class Killed:
    """What a series of kills left behind."""

    kills: int
    reservations: int
    commits: int
    in_hand: int  # releases that a child had in hand before it was killed
    lost: int
    doubled: int

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.reservations} reservations, {self.commits} committed, "
            f"{self.in_hand} releases in hand, {self.lost} lost, {self.doubled} doubled"
        )


Way = Callable[[], str]  # in a child: goes where the ledger has another name, and gives that name


def ways_to(path: Path) -> dict[str, Way]:
    """The names that the file of a ledger can have besides its own, and still be one account."""
    home, inside = path.parent.parent, path.parent.parent / "inside"
    (home / "link.ledger").symlink_to(path)
    (home / "folder").symlink_to(path.parent, target_is_directory=True)
    inside.mkdir()

    def mounted() -> str:
        enter_mounts((path.parent, inside))
        return str(inside / path.name)

    ways = {
        "a symbolic link": lambda: str(home / "link.ledger"),
        "a folder that is a link, and dots": lambda: f"{home}/folder/../{path.parent.name}/{path.name}",
    }
    return {**ways, "a mounted folder": mounted} if mounts_are_allowed() else ways


def kill_often(where: str, count: int, *, way: Way | None = None) -> Killed:
    """Kills `count` children at random moments while each makes one named release after another.

    They open the ledger by `way`; what comes after each kill is by its own name.
    """
    warm()
    plan, in_hand = small_plan("1/7"), dict[str, str]()

    def work(pipe: int) -> None:
        ledger = Ledger.open(where if way is None else way())
        os.write(pipe, b"!")
        for number in itertools.count():
            released = ob.run(plan, None, ledger, f"{os.getpid()} {number}")
            entry = released.certificate.record["ledger"]
            os.write(pipe, f"{released.name}:{entry['position']}:{entry['hash']}\n".encode())

    for kill in kills(count, lambda: ob.run(plan, None, Ledger.open(where)), times=12):
        report = kill(work).decode()
        for line in report.splitlines():
            if line.count(":") == 2 and len(line.rpartition(":")[2]) == 64:  # not cut short by the kill
                in_hand[line.partition(":")[0]] = line.partition(":")[2]
        spend(Ledger.open(where), "1e-9")  # at once usable by the next
    return _reckon(Ledger.open(where), count, in_hand)


def _reckon(ledger: Ledger, kills: int, in_hand: dict[str, str]) -> Killed:
    """Holds what the children had in hand against the account."""
    assert_sound(ledger)
    history = ledger.history()
    commits = [entry for entry in history if entry.kind == "commit"]
    reserved = {entry.position: entry for entry in history if entry.kind == "reserve"}
    names = [entry.name for entry in reserved.values() if entry.name is not None]
    committed = {
        reserved[entry.body["reservation"]].name: f"{entry.position}:{entry.hash}" for entry in commits
    }
    lost = sum(committed.get(name) != entry for name, entry in in_hand.items())
    doubled = (len(names) - len(set(names))) + (len(commits) - len({e.body["reservation"] for e in commits}))
    return Killed(kills, len(reserved), len(commits), len(in_hand), lost, doubled)


def grab_together(where: str, writers: int, share: str, *, clock: bool = False) -> int:
    """So many processes take shares at once until none is left; how many were granted in all."""

    def work(pipe: int) -> None:
        if clock:
            set_clock(random.Random(os.getpid()))
        ledger, got = Ledger.open(where), 0
        with suppress(BudgetError):
            while True:
                reservation = spend(ledger, share)
                got += 1
                if got % 3 == 0:
                    ledger.commit(reservation, b"x" * 1000, facts={})
        os.write(pipe, str(got).encode())

    results = [collect(*child) for child in [in_child(work) for _ in range(writers)]]
    assert [code for code, _ in results] == [0] * writers
    assert_sound(Ledger.open(where))
    return sum(int(report) for _, report in results)


@dataclass(frozen=True, slots=True)
class Raced:
    """What came of races for a budget that is enough for two of the shares."""

    races: int
    granted: int
    refused: int  # by a name that no ledger may have

    def __str__(self) -> str:
        return f"{self.races} races, {self.granted} shares granted, {self.refused} names refused"


def race_by_names(folder: Path, races: int, names: Callable[[Path], dict[str, Way]]) -> Raced:
    """In each race one process for each name takes shares of one half from a budget of 1, all at the same moment."""
    granted = refused = 0
    for number in range(races):
        home = folder / str(number)
        path = home / "data" / "city.ledger"
        path.parent.mkdir(parents=True)
        Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)).close()
        ways, (waiting, start) = names(path), os.pipe()

        def work(pipe: int, way: Way, waiting: int = waiting, start: int = start) -> None:
            where = way()
            os.close(start)
            os.read(waiting, 1)  # until the parent lets go
            try:
                ledger = Ledger.open(where)
                for _ in range(2):
                    spend(ledger, "1/2")
                    os.write(pipe, b"g")
            except BudgetError:
                pass
            except LedgerError as error:
                os.write(pipe, b"r" if "second name" in str(error) or "by itself" in str(error) else b"?")

        children = [in_child(lambda pipe, way=way: work(pipe, way)) for way in ways.values()]
        os.close(start)
        results = [collect(*child) for child in children]
        os.close(waiting)
        assert [code for code, _ in results] == [0] * len(ways)
        reports = b"".join(report for _, report in results)
        assert b"?" not in reports
        granted += reports.count(b"g")
        refused += reports.count(b"r")
        for other in home.rglob("*.second"):
            other.unlink()
        with Ledger.open(path) as ledger:
            assert_sound(ledger)
            assert ledger.spent == ob.Pure(f"{reports.count(b'g')}/2")
        shutil.rmtree(home)
    return Raced(races, granted, refused)


def all_names(path: Path) -> dict[str, Way]:
    """Its own name, every other that is allowed, and a mount of the file by itself, which is not."""
    ways = {"its own": lambda: str(path), **ways_to(path)}
    alone = path.parent.parent / "alone.ledger"
    alone.touch()

    def single() -> str:
        enter_mounts((path, alone))
        return str(alone)

    return {**ways, "the file mounted by itself": single} if mounts_are_allowed() else ways


def hard_links(path: Path) -> dict[str, Way]:
    """Its own name and another that is as good: neither is allowed."""
    second = path.with_name("city.ledger.second")
    os.link(path, second)
    return {"its own": lambda: str(path), "a hard link": lambda: str(second)}


def set_clock(source: random.Random) -> None:
    """In a child: every look at the clock gives any moment of eighty years."""

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime(2100, 1, 1, tzinfo=tz or UTC) - timedelta(days=source.randrange(30_000))

    periods.datetime = Jumping  # type: ignore[misc,attr-defined]


def fill_disk(folder: Path, rounds: int, seed: int = 7) -> dict[str, int]:
    """Files that may grow only so far, at a different size every round. What was granted before must be there."""
    import resource

    source, seen = random.Random(seed), {"rounds": 0, "granted": 0, "refused": 0}
    for number in range(rounds):
        path, room = folder / f"{number}.ledger", source.randrange(0, 400_000)
        Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(50)).close()

        def work(pipe: int, path: Path = path, room: int = room) -> None:
            ledger = Ledger.open(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            fill(ledger, lambda text: os.write(pipe, text.encode()))

        _, report = collect(*in_child(work))
        granted = settle(Ledger.open(path), report.decode())
        seen = {
            "rounds": seen["rounds"] + 1,
            "granted": seen["granted"] + granted,
            "refused": seen["refused"] + 1,
        }
        for file in folder.glob(f"{number}.ledger*"):
            file.unlink()
    return seen


def fill(ledger: Ledger, tell: Callable[[str], object]) -> None:
    """Spends and stores until the disk refuses; tells each position once it was granted, then the refusal."""
    try:
        while True:
            reservation = spend(ledger, "1/700")
            tell(f"{reservation.position}\n")
            ledger.commit(reservation, os.urandom(3000), facts={})
    except LedgerError as error:
        tell("refused\n" if "disk" in error.message else f"{error.message}\n")


def settle(ledger: Ledger, report: str) -> int:
    """With room again: all that was granted is there, and the ledger goes on."""
    *positions, last = report.splitlines()
    assert last == "refused", last
    assert {int(position) for position in positions} <= {entry.position for entry in ledger.history()}
    assert_sound(ledger)
    spend(ledger, "1/7")
    assert_sound(ledger)
    ledger.close()
    return len(positions)


_TINY_DISK = """
mount -t tmpfs -o size={size}k none {folder} && {python} {script} --fill {folder}/city.ledger
cp {folder}/* {out}/
"""


def tiny_disk(folder: Path, size: int, python: str, script: Path) -> int | None:
    """The same on a real file system that is full, in a namespace of its own; None where the system forbids one."""
    if shutil.which("unshare") is None:
        return None
    mounted, out = folder / f"disk{size}", folder / f"out{size}"
    mounted.mkdir()
    out.mkdir()
    places = {"folder": mounted, "python": python, "script": script, "out": out}
    command = _TINY_DISK.format(size=size, **{name: shlex.quote(str(at)) for name, at in places.items()})
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", command], capture_output=True, text=True, timeout=600
    )
    if "refused" not in done.stdout:
        assert "mount" in done.stderr or "unshare" in done.stderr, done.stderr
        return None
    return settle(Ledger.open(out / "city.ledger"), done.stdout)


def seconds_of(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start
