"""Whoever can write to the ledger's file, but has no key of it, must not get anything signed by it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import oboro as ob
from oboro.errors import LedgerError
from oboro.ledger import keys
from oboro.ledger.chain import canonical, entry_hash, seal
from oboro.ledger.keys import public_half

PLAN = {"kind": "test"}


def make(path: Path) -> ob.Ledger:
    return ob.Ledger.create(path, dataset="city", unit=ob.Unit.row(), budget=ob.Pure(1))


def spend(ledger: ob.Ledger, name: str | None = None) -> None:
    paid = ledger.reserve(plan=PLAN, unit=ledger.unit, guarantee=ob.Pure("0.5"), name=name)
    ledger.commit(paid, b"what was released", facts={"rows": 1})


def loosen(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path)
    for (trigger,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        file.execute(f"DROP TRIGGER {trigger}")
    return file


def test_a_key_entry_that_a_stranger_appends_does_not_bring_the_budget_back(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = make(path)
    spend(ledger)
    spend(ledger)
    stranger = Ed25519PrivateKey.generate()
    last = ledger.history()[-1]
    facts = {
        "key": ledger.public_key,
        "replaces": public_half(stranger),
        "spent": {"kind": "pure", "eps": "0"},
    }
    forged, _, _ = seal(last, "key", facts, stranger)
    with loosen(path) as file:
        row = (forged.position, "key", canonical(forged.body), forged.previous, forged.hash, forged.signature)
        file.execute("INSERT INTO oboro_entries VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", row)
    with pytest.raises(LedgerError):
        spend(ob.Ledger.open(path))


def test_a_ledger_made_anew_under_another_key_does_not_verify_with_ours(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.ledger", tmp_path / "theirs.ledger"
    spend(make(ours))
    public = ob.Ledger.open(ours).public_key
    other = make(theirs)
    last = other.history()[-1]
    stranger = keys.load(Path(f"{theirs}.key"))
    facts = {"key": public, "replaces": public_half(stranger)}
    forged, _, _ = seal(last, "key", facts, stranger)
    with loosen(theirs) as file:
        row = (forged.position, "key", canonical(forged.body), forged.previous, forged.hash, forged.signature)
        file.execute("INSERT INTO oboro_entries VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", row)
    other.close()
    shutil.copy(f"{ours}.key", f"{theirs}.key")  # the stranger's file in the place of ours
    with pytest.raises(LedgerError):
        ob.Ledger.open(theirs).verify()
    with pytest.raises(LedgerError):
        spend(ob.Ledger.open(theirs))


def test_a_stored_release_that_was_exchanged_is_not_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = make(path)
    spend(ledger, name="counts")
    spend(ledger)
    ledger.close()
    false = b"what was never released"
    stranger = Ed25519PrivateKey.generate()
    commit = next(entry for entry in ledger.history() if entry.kind == "commit")
    ledger.close()
    body = {
        **commit.body,
        "size": len(false),
        "sha256": hashlib.sha256(false).hexdigest(),
        "key": public_half(stranger),
    }
    digest = entry_hash(commit.previous, commit.position, "commit", canonical(body))
    signature = stranger.sign(f"oboro ledger entry 1\n{digest}".encode()).hex()
    with loosen(path) as file:
        file.execute(
            "UPDATE oboro_entries SET body = ?, hash = ?, signature = ? WHERE position = ?",
            (json.dumps(body, sort_keys=True, separators=(",", ":")), digest, signature, commit.position),
        )
        file.execute("UPDATE oboro_parts SET data = ?", (false,))
    with pytest.raises(LedgerError):
        ob.Ledger.open(path).find("counts")


def test_what_older_keys_signed_is_still_given_back(tmp_path: Path) -> None:
    ledger = make(tmp_path / "a.ledger")
    spend(ledger, name="counts")
    ledger.rotate_key()
    ledger.rotate_key()
    assert ledger.verify().keys[-1].public_key == ledger.public_key
    found = ledger.find("counts")
    assert found is not None
    assert found.content() == b"what was released"
