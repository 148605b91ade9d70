"""A disk that is full: nothing half-written, a clear error, and usable later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ledger_help import assert_sound, spend

from kills import collect, in_child
from oboro.errors import LedgerError
from oboro.ledger import Ledger
from oboro.privacy import Pure, Unit


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "city.ledger", dataset="x", unit=Unit.row(), budget=Pure(50))


def fill_up(ledger: Ledger) -> None:
    """No page more than there are now."""
    with ledger._database.raw() as driver:
        (pages,) = driver.execute("PRAGMA page_count").fetchone()
        driver.execute(f"PRAGMA max_page_count = {pages}")


def test_a_release_that_does_not_fit_is_not_stored_in_part(ledger: Ledger) -> None:
    reservation = spend(ledger, "1/7", "big")
    fill_up(ledger)
    with pytest.raises(LedgerError, match=r"disk is full.*Nothing was recorded"):
        ledger.commit(reservation, b"x" * 20_000_000, facts={})
    assert ledger.spent == Pure("1/7")  # the reservation is not given back
    ledger.close()  # room again
    assert_sound(ledger)
    ledger.commit(reservation, b"x" * 20_000_000, facts={})
    assert ledger.verify().contents == 1


def test_a_reservation_that_does_not_fit_is_not_spent(ledger: Ledger) -> None:
    fill_up(ledger)
    before = ledger.spent
    with pytest.raises(LedgerError, match=r"disk is full.*Nothing was recorded"):
        spend(ledger, "1/7", plan={"large": "x" * 100_000})
    assert ledger.spent == before
    ledger.close()
    spend(ledger, "1/7")
    assert_sound(ledger)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("room", [0, 5_000, 30_000, 100_000])
def test_a_file_that_may_not_grow_any_more(ledger: Ledger, room: int) -> None:
    """The operating system refuses the write itself, in the middle of whatever SQLite is doing."""
    import resource

    path = ledger.where
    ledger.close()

    def work(pipe: int) -> None:
        child = Ledger.open(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            while True:
                reservation = spend(child, "1/70")
                os.write(pipe, f"{reservation.position}\n".encode())
        except LedgerError as error:
            os.write(pipe, b"refused\n" if "disk" in error.message else str(error).encode())

    *positions, last = collect_lines(*in_child(work))
    assert last == "refused"
    history = {entry.position for entry in ledger.history()}
    assert {int(position) for position in positions} <= history
    assert_sound(ledger)
    spend(ledger, "1/7")


def collect_lines(child: int, reading: int) -> list[str]:
    code, report = collect(child, reading)
    assert code == 0
    return report.decode().splitlines()


def test_a_creation_without_room_can_be_tried_again(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "new.ledger"

    def work(pipe: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        try:
            Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
        except LedgerError:
            os.write(pipe, b"refused\n")

    assert collect_lines(*in_child(work)) == ["refused"]
    ledger = Ledger.create(path, dataset="x", unit=Unit.row(), budget=Pure(1))
    spend(ledger, "1")
    assert_sound(ledger)
