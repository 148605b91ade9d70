"""kill -9 at any moment. Children are forked, so that many rounds fit into a few seconds."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_help import assert_sound, spend

from kills import kills
from oboro.errors import LedgerError
from oboro.ledger import Ledger
from oboro.privacy import Pure, Unit

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_whatever_a_killed_process_reported_is_in_the_ledger(
    create: Callable[..., Ledger], where: str
) -> None:
    create(Pure(50)).close()
    content = b"x" * 20_000
    reported: set[str] = set()
    committed: set[str] = set()

    def work(pipe: int) -> None:
        ledger = Ledger.open(where)
        os.write(pipe, b"!")
        for number in itertools.count():
            reservation = spend(ledger, "1/7", f"{os.getpid()}-{number}")
            os.write(pipe, f"r {reservation.position} {reservation.hash}\n".encode())
            ledger.commit(reservation, content, facts={})
            os.write(pipe, f"c {reservation.position} {reservation.hash}\n".encode())

    for kill in kills(20, lambda: spend(Ledger.open(where), "1e-9"), times=8):
        lines = kill(work).decode().splitlines()
        reported.update(line[2:] for line in lines if line.startswith("r"))
        committed.update(line[2:] for line in lines if line.startswith("c"))
        spend(Ledger.open(where), "1e-9")  # at once usable by the next
    ledger = Ledger.open(where)
    assert_sound(ledger)
    history = {entry.position: entry for entry in ledger.history()}
    for line in reported:
        position, digest = line.split()
        assert history[int(position)].hash == digest
    stored = {entry.body["reservation"] for entry in history.values() if entry.kind == "commit"}
    assert {int(line.split()[0]) for line in committed} <= stored
    assert len(reported) > 10


@pytest.mark.long("kills")
def test_a_killed_creation_leaves_a_ledger_or_room_for_one(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    names = itertools.count()

    def create() -> None:
        path = tmp_path / f"measured{next(names)}"
        Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1)).close()

    for number, kill in enumerate(kills(24, create, times=4)):
        path = tmp_path / f"{number}.ledger"

        def work(pipe: int, path: Path = path) -> None:
            os.write(pipe, b"!")
            Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))

        kill(work)
        try:
            ledger = Ledger.open(path)
            outcomes.add("made")
        except LedgerError:
            ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
            outcomes.add("made anew")
        spend(ledger, "0.5")
        assert_sound(ledger)
        ledger.close()
    assert outcomes == {"made", "made anew"}


@pytest.mark.long("kills")
def test_a_killed_rotation_leaves_a_key_that_works(create: Callable[..., Ledger], where: str) -> None:
    create(Pure(50)).close()

    def work(pipe: int) -> None:
        ledger = Ledger.open(where)
        os.write(pipe, b"!")
        while True:
            ledger.rotate_key()

    for kill in kills(15, lambda: spend(Ledger.open(where), "1e-9"), times=8):
        kill(work)
        spend(Ledger.open(where), "1/7")
    ledger = Ledger.open(where)
    assert len(ledger.keys()) > 3
    assert_sound(ledger)


@pytest.mark.parametrize("dies_after", ["write_pending", "append"])
def test_a_rotation_that_dies_between_two_steps_is_finished_or_forgotten(
    create: Callable[..., Ledger], where: str, dies_after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro.ledger import keys, records

    ledger = create()
    before = ledger.public_key

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    # Dying in `append` is dying before the commit; dying in `promote` is dying after it.
    module, name = (records, "append") if dies_after == "write_pending" else (keys, "promote")
    with monkeypatch.context() as patch:
        patch.setattr(module, name, die)
        with pytest.raises(Killed):
            ledger.rotate_key()
    again = Ledger.open(where)
    spend(again, "0.1")
    assert (again.public_key == before) == (dies_after == "write_pending")
    again.rotate_key()
    assert [path.name for path in again._key_path.parent.glob("*.key*")] == [again._key_path.name]
    spend(again, "0.1")
    assert_sound(again)
