"""The last entry is not read again where nobody else has written: nothing can be slipped in by that."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ledger_help import assert_sound, spend

from oboro.errors import BudgetError, LedgerError, TamperError
from oboro.ledger import Ledger, records
from oboro.privacy import Pure, Unit


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "city.ledger", dataset="city", unit=Unit.row(), budget=Pure(10))
    spend(made, "1")
    return made


def test_the_last_entry_is_read_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(records, "checked", lambda row: read.append(row))
    spend(ledger, "1")
    assert (ledger.spent, ledger.affords(Pure(9)), read) == (Pure(2), False, [])


def test_what_was_handed_out_can_be_written_to_and_nothing_comes_of_it(ledger: Ledger) -> None:
    reservation = spend(ledger, "1")
    entry = ledger.commit(reservation, b"content", facts={"rows": ["1"]})
    entry.body["spent"]["eps"] = "0"
    entry.body["key"], entry.body["facts"]["rows"][0] = "0" * 64, "2"
    assert ledger.spent == Pure(2)
    with pytest.raises(BudgetError):
        spend(ledger, "9")
    spend(ledger, "8")
    assert_sound(ledger)


def test_what_others_write_is_seen_at_once(ledger: Ledger) -> None:
    other = Ledger.open(ledger.where)
    for number in range(3):
        spend(other, "1")
        assert ledger.spent == Pure(2 * number + 2)
        spend(ledger, "1")
        assert other.spent == Pure(2 * number + 3)
    assert_sound(ledger)


@pytest.mark.parametrize("column", ["body", "hash", "signature", "previous", "kind"])
def test_an_entry_that_was_altered_since_it_was_written_is_refused(ledger: Ledger, column: str) -> None:
    with sqlite3.connect(ledger.where) as stranger:
        stranger.execute("DROP TRIGGER oboro_entries_no_update")
        stranger.execute(
            f"UPDATE oboro_entries SET {column} = replace({column}, '1', '2') || ' ' WHERE position = 1"
        )
    stranger.close()
    with pytest.raises(TamperError):
        spend(ledger, "1")
    with pytest.raises(TamperError):
        _ = ledger.spent


def test_of_a_transaction_that_failed_nothing_is_known(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(records, "mark", failing)
        with pytest.raises(OSError, match="no"):
            spend(ledger, "1")
    assert ledger.spent == Pure(1)
    assert spend(ledger, "1").position == 2
    assert_sound(ledger)


@pytest.mark.parametrize("change", ["removed", "shown", "emptied", "exchanged"])
def test_a_key_that_is_no_longer_what_it_was_signs_nothing(
    ledger: Ledger, tmp_path: Path, change: str
) -> None:
    key = Path(f"{ledger.where}.key")
    if change == "removed":
        key.unlink()
    elif change == "shown":
        key.chmod(0o644)
    elif change == "emptied":
        os.truncate(key, 0)
    else:
        Ledger.create(tmp_path / "other.ledger", dataset="other", unit=Unit.row(), budget=Pure(1))
        os.replace(tmp_path / "other.ledger.key", key)
    with pytest.raises(LedgerError):
        spend(ledger, "1")
    assert ledger.spent == Pure(1)


def test_a_key_that_another_has_changed_is_used_from_then_on(ledger: Ledger) -> None:
    new = Ledger.open(ledger.where).rotate_key()
    assert spend(ledger, "1").position == 3
    assert ledger.public_key == new.public_key
    assert_sound(ledger)
