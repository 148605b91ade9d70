"""Every alteration of a ledger is found. The attacker has the file, but not the private key."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from ledger_help import spend

from oboro.errors import LedgerError, TamperError
from oboro.ledger import Head, Ledger, canonical, keys, verify_export
from oboro.ledger.chain import TAG, entry_hash, fault, laid_out, seal
from oboro.ledger.keys import public_half
from oboro.privacy import Pure, Unit

LAST = 8


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """0 create, 1 reserve, 2 commit, 3 reserve (died), 4 key, 5 reserve, 6 reserve, 7 commit of 6, 8 commit of 5."""
    path = tmp_path_factory.mktemp("original") / "city.ledger"
    with Ledger.create(path, dataset="city 2026", unit=Unit.row(), budget=Pure(2)) as ledger:
        ledger.commit(spend(ledger, "0.1", "first"), b"first content", facts={"noise": "laplace"})
        spend(ledger, "0.2", "died")
        ledger.rotate_key()
        second, third = spend(ledger, "0.3", "second"), spend(ledger, "0.4")
        ledger.commit(third, b"third content", facts={})
        ledger.commit(second, b"second content", facts={})
        assert ledger.verify().head.position == LAST
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    copy = tmp_path / original.name
    shutil.copy2(original, copy)
    shutil.copy2(f"{original}.key", f"{copy}.key")
    return copy


def alter(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Writes to the file behind the back of oboro."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            text, values = (statement, ()) if isinstance(statement, str) else statement
            assert connection.execute(text, values).rowcount != 0, "nothing was altered"
    connection.close()


def rows(path: Path) -> list[dict[str, Any]]:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute("SELECT * FROM oboro_entries ORDER BY position")]
    connection.close()
    return found


def write_back(path: Path, entries: list[dict[str, Any]]) -> None:
    columns = "position", "kind", "body", "previous", "hash", "signature", "name", "reservation"
    insert = f"INSERT INTO oboro_entries ({', '.join(columns)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    alter(
        path, "DELETE FROM oboro_entries", *((insert, tuple(entry[c] for c in columns)) for entry in entries)
    )


def found(path: Path, at: int, expected: Head | None = None) -> None:
    """Verification fails, and names this position."""
    with (
        pytest.raises(TamperError, match=rf"^entry {at} of the ledger") as error,
        Ledger.open(path) as ledger,
    ):
        ledger.verify(expected)
    assert "does not verify" in str(error.value)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from leaves(value[index], (*path, index))
    else:
        yield path


def with_another(body: dict[str, Any], path: tuple[Any, ...]) -> str:
    changed = json.loads(json.dumps(body))
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    old = inner[path[-1]]
    inner[path[-1]] = old + 1 if isinstance(old, int) else f"{old}0" if isinstance(old, str) else "x"
    return canonical(changed)


def test_every_value_in_every_body_is_protected(path: Path) -> None:
    count = 0
    for row in rows(path):
        for leaf in leaves(json.loads(row["body"])):
            changed = with_another(json.loads(row["body"]), leaf)
            alter(path, ("UPDATE oboro_entries SET body = ? WHERE position = ?", (changed, row["position"])))
            found(path, row["position"])
            alter(
                path, ("UPDATE oboro_entries SET body = ? WHERE position = ?", (row["body"], row["position"]))
            )
            count += 1
    assert count > 60
    assert Ledger.open(path).verify()


def test_every_value_is_protected_also_with_hashes_computed_anew(path: Path) -> None:
    """Without the key the new hashes cannot be signed."""
    for position in range(LAST + 1):
        entries = rows(path)
        body = json.loads(entries[position]["body"])
        body["time"] = "1999-01-01T00:00:00Z"
        entries[position]["body"] = canonical(body)
        for i in range(position, LAST + 1):
            entry = entries[i]
            entry["previous"] = entries[i - 1]["hash"] if i else entry["previous"]
            entry["hash"] = entry_hash(entry["previous"], i, entry["kind"], entry["body"])
        forged = path.with_name(f"forged{position}")
        shutil.copy2(path, forged)
        write_back(forged, entries)
        found(forged, position)


@pytest.mark.parametrize("column", ["kind", "previous", "hash", "signature", "name", "reservation"])
@pytest.mark.parametrize("position", [0, 2, 4, 5, LAST])
def test_every_column_is_protected(path: Path, column: str, position: int) -> None:
    value = 3 if column == "reservation" else "ab" * 32
    alter(path, (f"UPDATE oboro_entries SET {column} = ? WHERE position = ?", (value, position)))
    found(path, position)


@pytest.mark.parametrize("position", range(LAST))
def test_a_missing_entry_is_found(path: Path, position: int) -> None:
    alter(path, f"DELETE FROM oboro_entries WHERE position = {position}")
    found(path, position)


@pytest.mark.parametrize("position", range(LAST))
def test_a_missing_entry_is_found_also_when_the_gap_is_closed(path: Path, position: int) -> None:
    alter(
        path,
        f"DELETE FROM oboro_entries WHERE position = {position}",
        f"UPDATE oboro_entries SET position = -position WHERE position > {position}",
        f"UPDATE oboro_entries SET position = -position - 1 WHERE position < -{position}",
    )
    found(path, position)


@pytest.mark.parametrize(("one", "two"), [(1, 3), (5, 6), (7, 8), (2, 4)])
def test_swapped_entries_are_found(path: Path, one: int, two: int) -> None:
    alter(
        path,
        f"UPDATE oboro_entries SET position = -1 WHERE position = {one}",
        f"UPDATE oboro_entries SET position = {one} WHERE position = {two}",
        f"UPDATE oboro_entries SET position = {two} WHERE position = -1",
    )
    found(path, one)


def forge(entries: list[dict[str, Any]], stranger: Ed25519PrivateKey, **facts: Any) -> dict[str, Any]:
    """One more reservation, by someone who has a key, but not ours."""
    last = entries[-1]
    body = {
        **json.loads(entries[5]["body"]),
        "spent": json.loads(last["body"])["spent"],
        "name": None,
        **facts,
    }
    text, position = canonical(body), len(entries)
    digest = entry_hash(last["hash"], position, "reserve", text)
    return {
        "position": position,
        "kind": "reserve",
        "body": text,
        "previous": last["hash"],
        "hash": digest,
        "signature": stranger.sign(f"{TAG}\n{digest}".encode()).hex(),
        "name": None,
        "reservation": None,
    }


@pytest.mark.parametrize("claims_key", [True, False])
def test_an_entry_that_a_stranger_appended_is_found(path: Path, claims_key: bool) -> None:
    stranger, entries = Ed25519PrivateKey.generate(), rows(path)
    facts = {"key": public_half(stranger)} if claims_key else {}
    write_back(path, [*entries, forge(entries, stranger, **facts)])
    found(path, LAST + 1)


def test_a_reservation_does_not_build_on_a_forged_entry(path: Path) -> None:
    alter(path, f"UPDATE oboro_entries SET body = replace(body, '\"1\"', '\"0\"') WHERE position = {LAST}")
    ledger = Ledger.open(path)
    with pytest.raises(TamperError):
        spend(ledger, "0.1")
    with pytest.raises(TamperError):
        _ = ledger.remaining


def test_a_budget_that_was_exchanged_is_noticed_at_once(path: Path, tmp_path: Path) -> None:
    """The first entry of another, richer ledger does not fit this history, though it is sound in itself."""
    Ledger.create(tmp_path / "rich", dataset="city 2026", unit=Unit.row(), budget=Pure(100)).close()
    write_back(path, [rows(tmp_path / "rich")[0], *rows(path)[1:]])
    with pytest.raises(TamperError):
        spend(Ledger.open(path), "5")
    found(path, 1)


def test_a_chain_that_was_made_anew_does_not_fit_the_private_key(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as ledger:
        kept = ledger.head()
    with Ledger.create(tmp_path / "anew", dataset="city 2026", unit=Unit.row(), budget=Pure(2)) as anew:
        for _ in range(LAST):
            spend(anew, "0.1")
    shutil.copy2(tmp_path / "anew", path)
    found(path, 0)
    Path(f"{path}.key").unlink()
    assert Ledger.open(path).verify()  # nothing is left to compare with,
    found(path, LAST, kept)  # unless a head was kept


@pytest.mark.parametrize("keep", [1, 3, 5, LAST - 1])
def test_a_tail_that_was_cut_off_is_found_by_a_head_that_was_kept(path: Path, keep: int) -> None:
    with Ledger.open(path) as ledger:
        kept = ledger.head()
    alter(
        path,
        f"DELETE FROM oboro_entries WHERE position > {keep}",
        "DELETE FROM oboro_parts WHERE reservation > 1",
        f"PRAGMA user_version = {keep + 1}",
    )
    if keep < 2:
        alter(path, "DELETE FROM oboro_parts")
    with (
        Ledger.open(path) as ledger,
        pytest.raises(TamperError, match=f"ends at position {keep}, .* reached {LAST}"),
    ):
        ledger.verify(kept)


def test_an_older_copy_is_found_by_a_head_that_was_kept(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(path)
    ledger.backup(tmp_path / "old")
    spend(ledger, "0.1")
    kept = ledger.head()
    assert ledger.verify(kept)
    with pytest.raises(TamperError, match="older copy"):
        Ledger.open(tmp_path / "old").verify(kept)


def test_content_that_was_changed_is_found(path: Path) -> None:
    alter(path, "UPDATE oboro_parts SET data = x'00' WHERE reservation = 1")
    found(path, 2)
    stored = Ledger.open(path).find("first")
    assert stored is not None
    with pytest.raises(TamperError):
        stored.content()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM oboro_parts WHERE reservation = 1",
        "UPDATE oboro_parts SET part = 1 WHERE reservation = 1",
        "INSERT INTO oboro_parts VALUES (1, 1, x'00')",
    ],
)
def test_content_that_is_missing_or_added_is_found(path: Path, statement: str) -> None:
    alter(path, statement)
    found(path, 2)


def test_content_of_a_release_that_was_never_committed_is_found(path: Path) -> None:
    alter(path, "INSERT INTO oboro_parts VALUES (3, 0, x'00')")
    found(path, 3)


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"a":1.5}', "nonsense", '{"spent":{"kind":"pure","eps":"x"}}', "[" * 100_000]
)
def test_a_body_of_nonsense_is_found(path: Path, body: str) -> None:
    alter(path, ("UPDATE oboro_entries SET body = ? WHERE position = 3", (body,)))
    found(path, 3)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE oboro_entries SET body = '{}'",
        "DELETE FROM oboro_entries WHERE position = 8",
        "DELETE FROM oboro_parts",
    ],
)
def test_a_slip_of_the_hand_is_refused_by_the_database(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_a_newer_schema_is_refused(path: Path) -> None:
    alter(path, "UPDATE oboro_ledger SET schema = 4")
    with pytest.raises(LedgerError, match="newer oboro"):
        Ledger.open(path)


def test_another_id_is_found(path: Path) -> None:
    alter(path, "UPDATE oboro_ledger SET id = 'x'")
    found(path, 0)


def by_the_owner(path: Path, kind: str, facts: dict[str, Any]) -> None:
    """An entry that breaks the rules but is signed with the true key: a fault of a program, not a forgery."""
    from oboro.ledger import records

    with Ledger.open(path) as ledger, ledger._database.writing() as connection:
        last = records.last_entry(connection, lock=True)
        records.append(connection, last, kind, facts, ledger._private_key(last))


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("reserve", {"cost": {"kind": "pure", "eps": "5"}, "spent": {"kind": "pure", "eps": "6"}}),
        ("reserve", {"cost": {"kind": "pure", "eps": "0"}, "spent": {"kind": "pure", "eps": "1"}}),
        ("reserve", {"cost": {"kind": "zcdp", "rho": "0.1"}, "spent": {"kind": "pure", "eps": "1.1"}}),
        ("reserve", {"cost": {"kind": "pure", "eps": "0.1"}, "spent": {"kind": "pure", "eps": "1"}}),
        (
            "reserve",
            {"cost": {"kind": "pure", "eps": "0.1"}, "plan": {}, "spent": {"kind": "pure", "eps": "1.1"}},
        ),
        ("commit", {"reservation": 4, "reservation_hash": "0" * 64}),
        ("commit", {"reservation": 3, "reservation_hash": "0" * 64}),
        ("key", {"key": "00" * 32, "replaces": "11" * 32}),
        (
            "reserve",
            {"cost": {"kind": "pure", "eps": "0.1"}, "spent": {"kind": "pure", "eps": "1.1"}, "root": "00"},
        ),
        ("create", {}),
        ("refund", {}),
    ],
)
def test_an_entry_that_breaks_the_rules_is_found_though_it_is_signed(
    path: Path, kind: str, facts: dict[str, Any]
) -> None:
    base = {
        k: v
        for k, v in json.loads(rows(path)[5]["body"]).items()
        if k in ("plan", "plan_hash", "unit", "guarantee")
    }
    by_the_owner(path, kind, {**(base if kind == "reserve" else {}), "name": None, **facts})
    with pytest.raises(TamperError, match=rf"^entry {LAST + 1} "):
        Ledger.open(path).verify()


def test_a_stranger_cannot_put_a_key_in_force(path: Path) -> None:
    stranger, entries = Ed25519PrivateKey.generate(), rows(path)
    public = public_half(stranger)
    forged = forge(entries, stranger, key=public, replaces=public)
    forged["kind"] = "key"
    forged["hash"] = entry_hash(forged["previous"], forged["position"], "key", forged["body"])
    forged["signature"] = stranger.sign(f"{TAG}\n{forged['hash']}".encode()).hex()
    write_back(path, [*entries, forged])
    found(path, LAST + 1)


@pytest.mark.parametrize(
    ("copied", "what"), [(2, "second time"), (1, "was taken before"), (5, "was taken before")]
)
def test_what_the_tables_forbid_does_not_pass_in_an_export_either(path: Path, copied: int, what: str) -> None:
    """A name or a commit that comes twice, signed with the true key."""
    with Ledger.open(path) as ledger:
        record, history = ledger.export_dict(), ledger.history()
        facts = {k: v for k, v in history[copied].body.items() if k not in ("key", "root", "spent")}
        entry, _, _ = seal(history[-1], history[copied].kind, facts, keys.load(Path(f"{path}.key")))
    record["entries"].append(entry.to_dict())
    record["head"] = entry.head.to_dict()
    export = path.with_name("export.json")
    export.write_bytes(laid_out(record, 1))
    with pytest.raises(TamperError, match=rf"^entry {LAST + 1} .*{what}"):
        verify_export(export)


@pytest.mark.parametrize(
    "change", [lambda text: text.replace('":', '": '), lambda text: '{"time":"x",' + text[1:]]
)
def test_one_body_has_one_text(path: Path, change: Callable[[str], str]) -> None:
    """Spaces and repeated keys would let one signature stand for two readings."""
    key = keys.load(Path(f"{path}.key"))
    with Ledger.open(path) as ledger:
        entry = ledger.history()[LAST]
    text = change(canonical(entry.body))
    assert json.loads(text) == entry.body
    digest = entry_hash(entry.previous, LAST, entry.kind, text)
    signed = replace(entry, hash=digest, signature=key.sign(f"{TAG}\n{digest}".encode()).hex())
    assert fault(entry, canonical(entry.body)) is None
    assert fault(signed, text) == "its body is not in canonical form"
