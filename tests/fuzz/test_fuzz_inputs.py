"""A small, repeatable part of the fuzzing. The long run is `python tests/fuzz --examples 100000`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import fuzz_calls
import fuzz_commands
import pytest
from fuzz_trying import Tally, attempt, bad_inputs, try_many
from fuzz_world import World
from hypothesis import strategies as st

import oboro as ob

EACH = {"call": 4, "document": 12, "record": 2, "text": 8, "message": 20, "command": 2}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World.make()
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.few(3, "kinds of bad input")
def test_nothing_but_our_own_errors_comes_out_once(world: World, kind: str) -> None:
    """One bad input from each good one."""
    tally = tried_often(world, kind, 1)
    assert not tally.foreign, str(tally)
    assert tally.tries[kind] >= len(bad_inputs(world)[kind])


@pytest.mark.long("kinds of bad input tried often")
@pytest.mark.parametrize("kind", EACH)
def test_nothing_but_our_own_errors_comes_out(world: World, kind: str) -> None:
    tally = tried_often(world, kind, EACH[kind])
    assert not tally.foreign, str(tally)
    assert tally.tries[kind] > 80
    assert tally.refused[kind] > tally.tries[kind] / 10, "hardly anything was bad enough to be refused"


def tried_often(world: World, kind: str, each: int) -> Tally:
    tally = Tally()
    for name, bad in bad_inputs(world)[kind].items():
        try_many(world, kind, name, bad, each, tally, 0)
    return tally


def test_a_new_public_name_must_be_tried() -> None:
    assert fuzz_calls.uncovered() == []


def test_a_name_that_nobody_tries_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ob.tables, "__all__", [*ob.tables.__all__, "publishing"])
    monkeypatch.setattr(ob.tables, "publishing", len, raising=False)
    assert fuzz_calls.uncovered() == ["tables.publishing"]


def test_a_new_command_must_be_tried() -> None:
    assert fuzz_commands.untried() == []


def test_every_good_call_is_good(world: World) -> None:
    """Else all that is bent from it would be refused for the same reason."""
    taken = ("ledger.Ledger.create", "secure.create", "secure.draw_from_file", "tables.unallocated")
    slow = ("synth.quality", "audit.run", "synth.release", "secure.compare")
    for name, good in fuzz_calls.CALLS.items():
        if name not in (*taken, *slow, "engine.spark"):  # a cluster is tried by make test-spark
            fuzz_calls.call(name, good(world))


# -- the fuzzer sees what it is there for ------------------------------------------------------------------------


def tried(world: World, work: Any, kind: str = "call") -> Tally:
    tally = Tally()
    attempt(world, kind, (work, "planted"), tally)
    return tally


def test_a_foreign_exception_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oboro.domain.columns.LARGEST", None)
    found = tried(world, lambda: ob.Integer("age", 0, 9)).foreign
    assert [where.partition(":")[0] for where in found] == ["TypeError at domain/columns.py"]


def test_our_own_errors_and_calls_that_do_not_fit_are_fine(world: World) -> None:
    for work in (lambda: ob.Pure(-1), lambda: ob.Pure(), lambda: ob.Pure(1, 2, 3)):  # type: ignore[call-arg]
        tally = tried(world, work)
        assert not tally.foreign
        assert tally.refused["call"] == 1


@pytest.mark.parametrize("folder", ["/home/me/oboro/tests/fuzz", "/home/me/src/oboro", "/home/me/oboro"])
def test_a_file_in_a_folder_called_oboro_is_not_the_package(world: World, folder: str) -> None:
    """Such as a checkout made by `git clone`: a call that does not fit is still the caller's fault, not oboro's."""
    caller: dict[str, Any] = {"ob": ob}
    exec(compile("def work():\n    ob.Pure(1, 2, 3)", f"{folder}/fuzz_calls.py", "exec"), caller)
    tally = tried(world, caller["work"])
    assert not tally.foreign
    assert tally.refused["call"] == 1


def test_a_refusal_that_spent_is_seen(world: World) -> None:
    def spend_and_refuse() -> None:
        ob.run(world.histogram, world.path("people.csv"), world.ledger)
        raise ob.errors.DataError("too late")

    assert "spent, then refused" in str(tried(world, spend_and_refuse))


def test_a_command_that_spends_and_then_refuses_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = (
        "histogram release people.csv --domain domain.toml --column region --eps 1e-9 --ledger people.ledger"
    )

    def refuse(*_: Any, **__: Any) -> None:
        raise ob.errors.DataError("too late")

    monkeypatch.setattr("oboro.release.release.Release.__str__", refuse)
    assert not tried(
        world, lambda: world.command(line.split()), "command"
    ).foreign  # it says that it was paid
    # as if it did not; the package's `main` is the function
    monkeypatch.setattr(sys.modules["oboro.cli.main"], "_failed", lambda error, made: error.exit_code)
    found = tried(world, lambda: world.command(line.split()), "command").foreign
    assert "something was spent" in str(found)


def test_a_traceback_on_the_command_line_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oboro.domain.read_toml", lambda path, name: 1 / 0)
    found = tried(
        world,
        lambda: world.command(["histogram", "check", "people.csv", "--domain", "domain.toml"]),
        "command",
    )
    assert "ZeroDivisionError" in str(found.foreign)


def test_an_input_that_takes_too_long_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz_trying.PATIENCE", 0.05)
    assert tried(world, lambda: [None for _ in iter(int, 1)]).slow["call"] == 1


def test_the_same_inputs_are_tried_every_time(world: World) -> None:
    seen: list[list[str]] = [[], []]
    for run in seen:
        bad = st.text().map(lambda text, run=run: ((lambda: run.append(text)), text))
        try_many(world, "text", "any", bad, 20, Tally(), 0)
    assert seen[0] == seen[1]
