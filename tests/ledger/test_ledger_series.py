"""Series under attack: many processes at once, deaths at every step, edited files, late rows; on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ledger_help import assert_sound

import oboro as ob
from kills import collect, in_child
from oboro.errors import BudgetError, LedgerError, NameTakenError, OboroError, PaidError
from oboro.ledger import Ledger
from oboro.noise import Bits

GRID = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
PERSON = ob.Unit.person("who", 4)
ROWS = [("a", 0, 0, 0), ("a", 1, 1, 0), ("b", 0, 2, 2), ("b", 2, 3, 3), ("c", 3, 0, 3)]


def day(rows: list[tuple[str, int, int, int]] = ROWS) -> pa.Table:
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(("who", "tick", "row", "col"))})


def a_plan(max_ticks: int = 4, **more: Any) -> Any:
    return ob.tables.plan(GRID, **{"unit": PERSON, "eps": 1, "ticks": 4, "max_ticks": max_ticks, **more})


def make(where: str) -> Ledger:
    return Ledger.create(where, dataset="x", unit=PERSON, budget=ob.Pure(1))


def at_once(work: Callable[[], str], count: int = 3) -> list[str]:
    """What so many processes report that do the same, at the same time."""
    gate, opened = os.pipe()

    def child(pipe: int) -> None:
        os.close(opened)
        os.read(gate, 1)
        try:
            told = work()
        except OboroError as error:
            told = type(error).__name__
        os.write(pipe, told.encode())

    children = [in_child(child) for _ in range(count)]
    os.close(gate)
    os.close(opened)
    return sorted(collect(*one)[1].decode() for one in children)


def entries(ledger: Ledger, kind: str) -> int:
    return sum(entry.kind == kind for entry in ledger.history())


def test_three_processes_open_one_series_and_pay_once(where: str) -> None:
    make(where).close()
    plan = a_plan()

    def work() -> str:
        return repr(ob.tables.series(plan, ledger=Ledger.open(where), name="day").missing)

    assert at_once(work) == ["[0, 1, 2, 3]"] * 3
    ledger = Ledger.open(where)
    assert (entries(ledger, "reserve"), ledger.spent) == (1, ob.Pure(1))
    assert_sound(ledger)


def test_three_processes_publish_one_tick_and_one_of_them_draws(where: str) -> None:
    make(where).close()
    plan = a_plan()
    ob.tables.series(plan, ledger=Ledger.open(where), name="day").ledger.close()

    def work() -> str:
        series = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
        drew = []

        class Told(Bits):
            def words(self, count: int) -> Any:
                drew.append(count)
                return super().words(count)

        with suppress(LedgerError):
            series.publish(day(), tick=1, bits=Told())
        return "drew" if drew else "drew nothing"

    assert at_once(work) == ["drew", "drew nothing", "drew nothing"]
    ledger = Ledger.open(where)
    assert (entries(ledger, "tick"), entries(ledger, "commit")) == (1, 1)
    assert_sound(ledger)


def test_the_final_table_that_several_ask_for_is_one(where: str) -> None:
    make(where).close()
    plan = a_plan()
    series = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
    for tick in range(4):
        series.publish(day(), tick=tick)
    series.ledger.close()

    def work() -> str:
        own = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
        return own.final().certificate.record["sha256"]

    assert len(set(at_once(work))) == 1
    assert_sound(Ledger.open(where))


def test_a_run_of_the_whole_that_died_is_not_taken_up_as_a_series(where: str) -> None:
    """It paid, and drew every part: who takes it up would draw them again. It is told so, and a name of its own is paid for."""
    ledger, plan = make(where), a_plan(eps="0.5")

    class Dies(Bits):
        def words(self, count: int) -> Any:
            super().words(count)
            raise OSError("a disk")

    with pytest.raises(PaidError):
        ob.run(plan, day(), ledger, name="day", bits=Dies())
    with pytest.raises(NameTakenError, match="spent and gone"):
        ob.tables.series(plan, ledger=ledger, name="day")
    stored = ledger.find("day")
    assert stored is not None
    reservation = ob.ledger.Reservation(1, stored.reserved.hash, "day", ob.Pure("0.5"), stored.plan_hash)
    with pytest.raises(LedgerError, match="a series of this ledger"):
        ledger.begin(reservation, 0)
    series = ob.tables.series(plan, ledger=ledger, name="another day")
    with pytest.raises(NameTakenError, match="tick by tick"):
        ob.run(plan, day(), ledger, name="another day")
    with pytest.raises(LedgerError, match="tick by tick"):
        ledger.commit(series._reservation, b"all of it, with other noise", facts={})
    with pytest.raises(BudgetError):
        ob.tables.series(plan, ledger=ledger, name="a third")
    assert_sound(ledger)


STEPS: dict[str, tuple[Any, str, bool]] = {
    "recorded, not drawn": (ob.tables.SeriesPlan, "drawn", True),
    "drawn, not stored": (ob.tables.SeriesPlan, "provisional", True),
    "stored, not shown": (sys.modules["oboro.release.run"], "from_content", False),
}


@pytest.mark.few(3, "ticks that are killed")
@pytest.mark.parametrize("step", STEPS)
def test_a_tick_that_is_killed_at_each_step_is_drawn_at_most_once(
    where: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(where).close()
    plan, (owner, name, lost) = a_plan(), STEPS[step]

    class Told(Bits):
        pipe = -1

        def words(self, count: int) -> Any:
            os.write(self.pipe, b"d")
            return super().words(count)

    def work(pipe: int) -> None:
        series = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
        monkeypatch.setattr(owner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        bits = Told()
        bits.pipe = pipe
        series.publish(day(), tick=1, bits=bits)

    code, report = collect(*in_child(work))
    assert code == -signal.SIGKILL
    assert (b"d" in report) == (step != "recorded, not drawn")
    series = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
    assert (series.lost, series.published) == (([1], []) if lost else ([], [1]))
    if lost:
        with pytest.raises(LedgerError, match="never drawn again"):
            series.publish(day(), tick=1)
    else:  # it is durable, and given back as it is
        assert series.publish(day([]), tick=1).to_arrow().num_rows
    for tick in series.missing:
        series.publish(day(), tick=tick)
    assert ("without tick 1" in series.final().certificate.record["released"]) == lost
    assert series.ledger.spent == ob.Pure(1)
    assert_sound(series.ledger)


def test_a_tick_that_fails_says_that_it_is_lost_and_that_nothing_is_to_be_paid(where: str) -> None:
    series = ob.tables.series(a_plan(), ledger=make(where), name="day")

    class Dies(Bits):
        def words(self, count: int) -> Any:
            raise OSError("entropy")

    with pytest.raises(PaidError, match="lost, and never drawn again") as failed:
        series.publish(day(), tick=0, bits=Dies())
    assert "nothing more is to be paid" in str(failed.value)
    assert "paid for again" not in str(failed.value)


def test_a_tick_on_its_way_when_the_final_table_is_stored_is_lost_and_never_shown(where: str) -> None:
    series = ob.tables.series(a_plan(), ledger=make(where), name="day")
    series.publish(day(), tick=0)
    finals: list[Any] = []

    class Overtaken(Bits):
        """Another process gives up the rest while noise is drawn here."""

        def words(self, count: int) -> Any:
            if not finals:
                other = ob.tables.series(a_plan(), ledger=Ledger.open(where), name="day")
                finals.append(other.final(incomplete=True))
            return super().words(count)

    with pytest.raises(PaidError, match="lost, and never drawn again") as failed:
        series.publish(day(), tick=1, bits=Overtaken())
    assert "the series is over" in str(failed.value)
    assert "without tick 1, 2, 3, which was lost" in finals[0].certificate.record["released"]
    assert (series.published, series.lost, series.over) == ([0], [1, 2, 3], True)
    with pytest.raises(LedgerError, match="never drawn again"):
        series.publish(day(), tick=1)
    assert series.final().to_arrow().equals(finals[0].to_arrow())
    assert entries(series.ledger, "commit") == 2  # tick 0 and the final table
    assert series.ledger.spent == ob.Pure(1)
    assert_sound(series.ledger)


def test_a_tick_that_is_published_while_the_final_table_is_made_is_in_it(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = a_plan()
    series = ob.tables.series(plan, ledger=make(where), name="day")
    for tick in (0, 1, 3):
        series.publish(day(), tick=tick)
    rests: list[list[int]] = []
    true = type(plan).final

    def made(self: Any, measured: Any, done: Any) -> Any:
        rests.append(list(done))
        if len(rests) == 1:
            other = ob.tables.series(plan, ledger=Ledger.open(where), name="day")
            other.publish(day(), tick=2)
        return true(self, measured, done)

    monkeypatch.setattr(type(plan), "final", made)
    final = series.final(incomplete=True)
    assert rests == [[0, 1, 3], [0, 1, 2, 3]]
    assert "lost" not in final.certificate.record["released"]
    assert set(final.to_arrow()["state"].to_pylist()) == {"final"}
    assert_sound(series.ledger)


# Late rows


def counted(series: Any, plan: Any, publications: list[tuple[int, list[Any]]]) -> int:
    """In how many ticks a person counts, over ticks that are published one after the other, each from data of its own."""
    total = 0
    for tick, rows in publications:
        seen: list[Any] = []
        true = type(plan).drawn

        def look(self: Any, pieces: Any, counts: Any, *more: Any, seen: Any = seen, true: Any = true) -> Any:
            seen += [
                int(own.sum()) for piece, own in zip(pieces, counts, strict=True) if len(piece.span) == 1
            ]
            return true(self, pieces, counts, *more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(plan), "drawn", look)
            series.publish(day(rows), tick=tick)
        total += sum(seen[:1])
    return total


def test_rows_that_come_late_never_let_a_person_count_more_often(where: str) -> None:
    """Person a is seen at tick 1, and only later known to have been there at tick 0: with one tick for each, that must not be counted too."""
    plan = a_plan(1, workload=ob.tables.each_tick("cells"))
    series = ob.tables.series(plan, ledger=make(where), name="day")
    early, late = [("a", 1, 0, 0)], [("a", 0, 0, 0), ("a", 1, 0, 0)]
    assert counted(series, plan, [(1, early)]) == 1
    with pytest.raises(LedgerError, match="in their order"):
        series.publish(day(late), tick=0)
    assert (series.lost, series.missing) == ([0], [2, 3])
    assert counted(series, plan, [(2, [*late, ("a", 2, 0, 0)]), (3, [*late, ("a", 3, 0, 0)])]) == 0
    assert "without tick 0" in series.final().certificate.record["released"]


def test_a_tick_that_is_begun_while_another_reads_its_data_is_noticed(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = a_plan(1, workload=ob.tables.each_tick("cells"))
    series = ob.tables.series(plan, ledger=make(where), name="day")
    true = type(plan).read

    def slow(self: Any, data: Any) -> Any:
        monkeypatch.setattr(type(plan), "read", true)
        series.publish(day([("a", 0, 0, 0)]), tick=0)  # meanwhile, with a row that this one does not have
        return true(self, data)

    monkeypatch.setattr(type(plan), "read", slow)
    with pytest.raises(LedgerError, match="meanwhile"):
        series.publish(day([("a", 1, 0, 0)]), tick=1)
    assert series.missing == [1, 2, 3]
    series.publish(day(), tick=1)


def test_where_all_ticks_count_the_order_is_free_and_rows_may_even_change(where: str) -> None:
    plan = a_plan(4, workload=ob.tables.each_tick("cells"))
    series = ob.tables.series(plan, ledger=make(where), name="day")
    own = [(tick, [("a", tick, 0, 0)]) for tick in (2, 0, 3, 1)]
    assert counted(series, plan, own) == 4


# What is written down elsewhere


def test_an_edited_file_opens_nothing_else(tmp_path: Path) -> None:
    ledger = make(str(tmp_path / "a.ledger"))
    series = ob.tables.series(a_plan(2), ledger=ledger, name="day")
    series.save(tmp_path / "series.toml")
    series.publish(day(), tick=0)
    text = (tmp_path / "series.toml").read_text()
    make(str(tmp_path / "b.ledger")).close()
    for before, after in [
        ("max_ticks = 2", "max_ticks = 3"),
        ("ticks = 4", "ticks = 5"),
        ('eps = "1"', 'eps = "2"'),
        ('eps = "1"', 'eps = "1/2"'),
        ("4,\n", "8,\n"),
        ('"a.ledger"', '"b.ledger"'),
        ('name = "day"', 'name = "night"'),
        ('column = "who"', 'column = "row"'),
        ('adjacency = "add/remove"', 'adjacency = "replace"'),
    ]:
        assert before in text, before
        (tmp_path / "edited.toml").write_text(text.replace(before, after))
        with pytest.raises(OboroError):
            ob.tables.open_series(tmp_path / "edited.toml").publish(day(), tick=1)
    assert (ledger.spent, entries(ledger, "tick")) == (ob.Pure(1), 1)
    assert entries(Ledger.open(tmp_path / "b.ledger"), "reserve") == 0


def test_a_folder_that_was_copied_is_the_same_series_and_one_without_its_key_publishes_nothing(
    tmp_path: Path,
) -> None:
    """Who copies the key with the ledger has a second ledger (docs say so). A copy of the series' file or of a backup has not."""
    (tmp_path / "one").mkdir()
    ledger = make(str(tmp_path / "one" / "a.ledger"))
    series = ob.tables.series(a_plan(), ledger=ledger, name="day")
    series.save(tmp_path / "one" / "series.toml")
    series.publish(day(), tick=0)
    (tmp_path / "two").mkdir()
    shutil.copy(tmp_path / "one" / "series.toml", tmp_path / "two")
    with pytest.raises(LedgerError):
        ob.tables.open_series(tmp_path / "two" / "series.toml")
    again = ob.tables.open_series(tmp_path / "two" / "series.toml", ledger=ledger)
    assert again.published == [0]
    ledger.backup(tmp_path / "two" / "a.ledger")
    copied = ob.tables.open_series(tmp_path / "two" / "series.toml")
    for tick in (0, 1):
        with pytest.raises(LedgerError, match="key"):
            copied.publish(day(), tick=tick)


def test_rows_in_another_order_and_of_ticks_to_come_change_nothing() -> None:
    plan, rows = a_plan(2), [(f"p{i % 7}", i % 4, i % 3, i * 5 % 4) for i in range(60)]
    for tick in range(4):
        want = plan.counted(plan.read(day([row for row in rows if row[1] <= tick])), tick)
        for other in (rows[::-1], sorted(rows), [*rows, ("new", 3, 1, 1)] if tick < 3 else rows):
            found = plan.counted(plan.read(day(other)), tick)
            assert all((one == own).all() for one, own in zip(found, want, strict=True))
