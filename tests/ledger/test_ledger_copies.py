"""Exports that anyone may check, and backups that can take a ledger's place."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_help import assert_sound, spend

from kills import collect, in_child
from oboro.errors import LedgerError, OboroError, TamperError
from oboro.ledger import Head, Ledger, verify_export
from oboro.ledger.chain import laid_out
from oboro.privacy import Pure

Create = Callable[..., Ledger]


def used(create: Create) -> Ledger:
    ledger = create(Pure(50))
    ledger.commit(spend(ledger, "0.1", "first"), b"what was released", facts={"noise": "laplace"})
    ledger.rotate_key()
    ledger.commit(spend(ledger, "0.2", "人口"), b"x" * 100_000, facts={})
    spend(ledger, "0.3")
    return ledger


def test_an_export_verifies_without_the_ledger(create: Create, tmp_path: Path) -> None:
    ledger = used(create)
    head = ledger.export(tmp_path / "export.json")
    assert head == ledger.head()
    checked = verify_export(tmp_path / "export.json", head)
    assert (checked.head, checked.spent, checked.budget) == (head, ledger.spent, ledger.budget)
    assert (checked.entries, checked.reservations, checked.commits, checked.contents) == (7, 3, 2, None)
    assert list(checked.keys) == ledger.keys()
    assert b"what was released" not in (tmp_path / "export.json").read_bytes()
    assert json.loads((tmp_path / "export.json").read_text()) == ledger.export_dict()


def test_a_newer_export_takes_the_place_of_an_older_one(create: Create, tmp_path: Path) -> None:
    ledger = used(create)
    old = ledger.export(tmp_path / "export.json")
    spend(ledger, "0.1")
    ledger.export(tmp_path / "export.json")
    assert verify_export(tmp_path / "export.json", old).head == ledger.head()
    assert sorted(p.name for p in tmp_path.glob("export*")) == ["export.json"]


def _drop_tail(record: dict[str, Any]) -> None:
    del record["entries"][-1]


def _drop_tail_and_say_so(record: dict[str, Any]) -> None:
    del record["entries"][-1]
    record["head"] = {key: record["entries"][-1][key] for key in ("position", "hash")}


def _edit(record: dict[str, Any]) -> None:
    record["entries"][1]["body"]["cost"]["eps"] = "0.01"


def _swap(record: dict[str, Any]) -> None:
    entries = record["entries"]
    entries[1], entries[2] = entries[2], entries[1]


def _other_id(record: dict[str, Any]) -> None:
    record["id"] = "0"


def _other_keys(record: dict[str, Any]) -> None:
    record["keys"] = record["keys"][:1]


def _no_entries(record: dict[str, Any]) -> None:
    record["entries"] = []


def _nonsense(record: dict[str, Any]) -> None:
    record["entries"][2] = {"position": 2}


def _wrong_type(record: dict[str, Any]) -> None:
    record["entries"][2]["signature"] = 7


@pytest.mark.parametrize(
    "change",
    [
        _drop_tail,
        _drop_tail_and_say_so,
        _edit,
        _swap,
        _other_id,
        _other_keys,
        _no_entries,
        _nonsense,
        _wrong_type,
    ],
)
def test_an_altered_export_does_not_verify(
    create: Create, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    ledger = used(create)
    record = copy.deepcopy(ledger.export_dict())
    change(record)
    (tmp_path / "export.json").write_bytes(laid_out(record, 1))
    with pytest.raises(TamperError):
        verify_export(tmp_path / "export.json", ledger.head())


def test_an_export_with_a_float_is_none(create: Create, tmp_path: Path) -> None:
    record = copy.deepcopy(used(create).export_dict())
    record["entries"][2]["body"]["size"] = 17.0
    (tmp_path / "export.json").write_bytes(laid_out(record, 1))
    with pytest.raises(LedgerError, match="not the export"):
        verify_export(tmp_path / "export.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "oboro ledger export"}', "[" * 100_000, "\x00"])
def test_what_is_not_an_export_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "export.json").write_text(text)
    with pytest.raises(LedgerError, match="not the export"):
        verify_export(tmp_path / "export.json")


def test_an_export_that_is_not_there_or_cannot_be_written_is_told_in_words(
    create: Create, tmp_path: Path
) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        verify_export(tmp_path / "nowhere.json")
    with pytest.raises(OboroError, match="cannot be written"):
        create().export(tmp_path / "nowhere" / "export.json")


def test_an_export_of_another_version_is_refused(create: Create, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_bytes(laid_out({**create().export_dict(), "version": 4}, 1))
    with pytest.raises(LedgerError, match="version"):
        verify_export(tmp_path / "export.json")


def test_a_backup_is_the_same_ledger_without_its_key(create: Create, tmp_path: Path) -> None:
    ledger = used(create)
    ledger.backup(tmp_path / "backup.ledger")
    assert sorted(p.name for p in tmp_path.glob("backup*")) == ["backup.ledger"]
    copied = Ledger.open(tmp_path / "backup.ledger")
    assert copied.verify(ledger.head()) == ledger.verify()
    assert copied.history() == ledger.history()
    assert (copied.id, copied.dataset, copied.unit) == (ledger.id, ledger.dataset, ledger.unit)
    stored = copied.find("first")
    assert stored is not None
    assert stored.content() == b"what was released"
    with pytest.raises(LedgerError, match="private key"):
        spend(copied, "0.1")


def test_a_backup_can_take_the_place_of_a_ledger_that_is_lost(create: Create, tmp_path: Path) -> None:
    ledger = used(create)
    ledger.backup(tmp_path / "backup.ledger")
    copied = Ledger.open(tmp_path / "backup.ledger", key=ledger._key_path)
    spend(copied, "0.1")
    assert_sound(copied)


def test_a_backup_overwrites_nothing(create: Create, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    ledger = create()
    with pytest.raises(LedgerError, match="overwrite"):
        ledger.backup(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "precious"
    with pytest.raises(LedgerError, match="cannot be written"):
        ledger.backup(tmp_path / "nowhere" / "backup")


@pytest.mark.long("races")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_backup_is_consistent_while_others_write(create: Create, tmp_path: Path) -> None:
    ledger = create(Pure(50))

    def work(_: int) -> None:
        for _i in range(60):
            ledger.commit(spend(ledger, "1/7"), b"x" * 10_000, facts={})

    child = in_child(work)
    heads: list[Head] = []
    for number in range(4):
        ledger.backup(tmp_path / f"backup{number}")
        heads.append(Ledger.open(tmp_path / f"backup{number}").verify().head)
    assert collect(*child)[0] == 0
    for head in heads:
        ledger.verify(head)
