"""The ledger under fault, a few times each: `python tests/ledger --kills 1000` is the long run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from ledger_faults import (
    Killed,
    Raced,
    _reckon,
    all_names,
    fill_disk,
    grab_together,
    hard_links,
    kill_often,
    race_by_names,
    small_plan,
    tiny_disk,
    ways_to,
)
from ledger_help import mounts_are_allowed

import oboro as ob
from oboro.ledger import Ledger
from oboro.privacy import Pure, Unit

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.long("kills")
def test_kills_in_the_middle_of_whole_releases_lose_and_double_nothing(
    create: Callable[..., Ledger], where: str
) -> None:
    create(Pure(1000)).close()
    killed = kill_often(where, 8)
    assert (killed.kills, killed.lost, killed.doubled) == (8, 0, 0)
    assert killed.in_hand >= 8


@pytest.mark.parametrize(
    "title",
    [
        pytest.param("a symbolic link", marks=pytest.mark.long("kills by another name")),
        pytest.param("a folder that is a link, and dots", marks=pytest.mark.long("kills by another name")),
        "a mounted folder",
    ],
)
def test_kills_by_another_name_lose_and_double_nothing(tmp_path: Path, title: str) -> None:
    path = tmp_path / "data" / "city.ledger"
    path.parent.mkdir()
    Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1000)).close()
    way = ways_to(path).get(title)
    if way is None:
        pytest.skip("this system allows no mounts of our own")
    killed = kill_often(str(path), 4, way=way)
    assert (killed.kills, killed.lost, killed.doubled) == (4, 0, 0)


@pytest.mark.long("races")
def test_races_between_names_grant_a_budget_once(tmp_path: Path) -> None:
    raced = race_by_names(tmp_path, 3, all_names)
    assert (raced.granted, raced.refused) == (6, 3 if mounts_are_allowed() else 0)


def test_races_between_hard_links_grant_nothing(tmp_path: Path) -> None:
    assert race_by_names(tmp_path, 3, hard_links) == Raced(3, 0, 6)


def test_clocks_that_jump_change_no_sum(create: Callable[..., Ledger], where: str) -> None:
    create(Pure(3)).close()
    assert grab_together(where, 3, "1/10", clock=True) == 30
    times = [entry.time for entry in Ledger.open(where).history()]
    assert times == sorted(times)
    assert times[-1] - times[0] > timedelta(days=365)  # the clocks did jump


@pytest.mark.long("kills")
def test_a_disk_that_fills_up_at_any_moment(tmp_path: Path) -> None:
    assert fill_disk(tmp_path, 4)["refused"] == 4


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    granted = tiny_disk(tmp_path, 160, sys.executable, Path(__file__).parent)
    if granted is None:
        pytest.skip("this system allows no file system of our own")
    assert granted > 0


# -- what the reckoning sees ---------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "city.ledger", dataset="x", unit=Unit.row(), budget=Pure(5))
    ob.run(small_plan("1/7"), None, made, "one")
    return made


def in_hand(ledger: Ledger) -> dict[str, str]:
    return {"one": str(ledger.head())}


def test_a_release_that_is_there_counts_as_kept(ledger: Ledger) -> None:
    assert _reckon(ledger, 1, in_hand(ledger)) == Killed(1, 1, 1, 1, 0, 0)


def test_a_release_that_the_ledger_does_not_know_is_lost(ledger: Ledger) -> None:
    assert _reckon(ledger, 1, {**in_hand(ledger), "two": f"9:{'0' * 64}"}).lost == 1
    assert _reckon(ledger, 1, {"one": f"2:{'0' * 64}"}).lost == 1


def test_a_name_that_was_paid_for_twice_is_doubled(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    create, reserve, commit = ledger.history()
    again = replace(reserve, position=3)
    monkeypatch.setattr("ledger_faults.assert_sound", lambda _: None)
    monkeypatch.setattr(Ledger, "history", lambda _: [create, reserve, commit, again])
    assert _reckon(ledger, 1, {}).doubled == 1
    monkeypatch.setattr(Ledger, "history", lambda _: [create, reserve, commit, replace(commit, position=3)])
    assert _reckon(ledger, 1, {}).doubled == 1
