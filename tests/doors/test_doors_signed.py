"""Signed pages have one reading: only the bytes that oboro writes are accepted, and odd fields are refused in words."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sqlite3
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from doors_world import typed

import oboro as ob
from oboro.errors import CertificateError, DataError, LedgerError, OboroError, TamperError
from oboro.ledger import canonical, plan_hash, verify_export
from oboro.ledger.chain import NO_HASH, TAG, Entry, entry_hash, in_order, laid_out, sha256
from oboro.ledger.copies import export_of
from oboro.ledger.keys import public_half
from oboro.ledger.records import lookups
from oboro.ledger.schema import VERSION
from oboro.release import read_certificate, verify_certificate
from oboro.release.certificate import BUNDLED, unpacked
from oboro.release.plan import bundled
from oboro.synth.model import load

STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NEXT = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
ASKED: dict[str, object] = {"kind": "mine"}
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    "",
    "x",
    "a\0b",
    "..",
    [],
    [1],
    {},
    {"x": 1},
    {"kind": []},
    [[[]]],
]
_DEEP: Any = 1
for _ in range(150):
    _DEEP = {"a": [_DEEP]}
ODDER: list[Any] = [
    2**62 + 1,
    "1/0",
    "\ud800",
    "2026-99-99T00:00:00Z",
    "0" * 64,
    {"kind": 5},
    {"kind": "conditional"},
    {"kind": "pure"},
    {"kind": "row"},
    {"kind": "approx", "eps": "1", "delta": "0.1"},
    _DEEP,
]
CHANGES: dict[str, Callable[[str], str]] = {
    "a guarantee before the signed one": lambda text: text.replace("{", '{"guarantee": {"eps": "1/100"},', 1),
    "a guarantee behind the signed one": lambda text: text.rstrip()[:-1] + ', "guarantee": {"eps": "1/100"}}',
    "twice the same": lambda text: text.replace('"dataset":', '"dataset": "another city", "dataset":', 1),
    "an escape for a letter": lambda text: text.replace('"format"', '"\\u0066ormat"', 1),
    "spaces": lambda text: text.replace(": ", ":  ", 1),
    "no spaces": lambda text: json.dumps(json.loads(text)),
    "other line ends": lambda text: text.replace("\n", "\r\n"),
    "no last line end": lambda text: text.rstrip("\n"),
    "a mark in front": lambda text: "\ufeff" + text,
    "something behind": lambda text: text + " ",
    "a second document": lambda text: text + text,
    "a comment": lambda text: "/* */" + text,
    "another order of parts": lambda text: reordered(text, lambda inner: len(inner) == 0),
    "another order within a part": lambda text: reordered(text, lambda inner: len(inner) == 1),
    "another order far within": lambda text: reordered(text, lambda inner: len(inner) > 1),
    "another order everywhere": lambda text: reordered(text, lambda inner: True),
    "a decimal point": lambda text: re.sub(r": (\d+)(,?)\n", r": \1.0\2\n", text, count=1),
    "a power of ten": lambda text: re.sub(r": (\d+)(,?)\n", r": \1e0\2\n", text, count=1),
}


def reordered(text: str, where: Callable[[tuple[Any, ...]], bool]) -> str:
    """The same page, laid out in the same way, the names of some of its tables from the last to the first."""

    def turned(value: Any, inner: tuple[Any, ...]) -> Any:
        if isinstance(value, list):
            return [turned(one, (*inner, None)) for one in value]
        if not isinstance(value, dict):
            return value
        names = reversed(value) if where(inner) else iter(value)
        return {name: turned(value[name], (*inner, name)) for name in names}

    indent = len(text) - len(text.lstrip("{\n ")) - 2
    return laid_out(turned(json.loads(text), ()), indent).decode()


def signed(record: dict[str, Any]) -> dict[str, Any]:
    """A stranger's certificate."""
    record = {**record, "public_key": public_half(STRANGER)}
    record.pop("signature", None)
    return {**record, "signature": STRANGER.sign(canonical(record).encode()).hex()}


def places(record: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a record."""
    if before:
        yield before
    if isinstance(record, dict):
        for key, value in record.items():
            yield from places(value, (*before, key))


def changed(record: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    record = copy.deepcopy(record)
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return record


# -- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_bytes_that_oboro_writes_are_a_certificate(world: Path, tmp_path: Path, change: str) -> None:
    text = (world / "published.csv.certificate.json").read_text()
    (tmp_path / "published.csv").write_bytes((world / "published.csv").read_bytes())
    path = tmp_path / "published.csv.certificate.json"
    path.write_bytes(text.encode())
    verify_certificate(path)
    assert CHANGES[change](text) != text
    path.write_bytes(CHANGES[change](text).encode())
    for reader in (read_certificate, verify_certificate):
        with pytest.raises(CertificateError, match="not a certificate"):
            reader(path)
    assert typed(tmp_path, ["certificate", "verify", path.name]).code == 1


def test_a_signature_is_spelt_in_one_way(world: Path, tmp_path: Path) -> None:
    record = json.loads((world / "published.csv.certificate.json").read_text())
    path = tmp_path / "c.json"
    for other in (record["signature"].upper(), f" {record['signature']}", record["signature"][:-1]):
        path.write_bytes(laid_out(in_order({**record, "signature": other}), 2))
        with pytest.raises(CertificateError, match="signature does not fit"):
            verify_certificate(path, data=world / "published.csv")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("guarantee", "in_words"), "eps = 0.00007"),
        (("unit", "in_words"), "one person and all that is theirs"),
        (("guarantee",), {"kind": "pure", "eps": "0.00007", "in_words": "eps = 0.00007"}),
        (("plan", "guarantee"), {"kind": "pure", "eps": "0.00007"}),
        (("plan", "unit"), {"kind": "row", "adjacency": "replace"}),
    ],
)
def test_a_certificate_promises_one_thing(
    world: Path, tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    """Words, numbers and plan: a page that shows one of them shows what was signed as the promise."""
    record = json.loads((world / "published.csv.certificate.json").read_text())
    path = tmp_path / "c.json"
    path.write_bytes(laid_out(in_order(signed(record)), 2))
    verify_certificate(path, data=world / "published.csv")
    path.write_bytes(laid_out(in_order(signed(changed(record, place, value))), 2))
    with pytest.raises(CertificateError, match="incomplete"):
        verify_certificate(path, data=world / "published.csv")


@pytest.mark.parametrize("name", ["published.csv", "table.parquet", "output.csv"])
@pytest.mark.long("odd signed entries")
def test_a_strangers_odd_certificate_is_refused_in_words_or_shown(
    world: Path, tmp_path: Path, name: str
) -> None:
    """Every part in turn exchanged for something odd, and signed: nobody stumbles, neither here nor in the terminal."""
    record = json.loads((world / f"{name}.certificate.json").read_text())
    (tmp_path / name).write_bytes((world / name).read_bytes())
    path = tmp_path / f"{name}.certificate.json"
    refused = accepted = 0
    for number, place in enumerate(places(record)):
        if place[-1] in ("signature", "public_key") or len(place) > 3:
            continue
        for odd in [*ODD, KeyError] if len(place) < 3 else [ODD[number % len(ODD)]]:
            path.write_bytes(laid_out(in_order(signed(changed(record, place, odd))), 2))
            try:
                verify_certificate(path)
                accepted += 1
            except OboroError:
                refused += 1
            if number % 7 == 0:
                shown = typed(tmp_path, ["certificate", "verify", path.name], OBORO_TRACEBACK="1")
                assert shown.code in (0, 1), (place, odd, shown.err)
                assert "InternalError" not in shown.err
    assert refused > accepted > 0


def test_what_is_shown_is_what_programs_read(world: Path, tmp_path: Path) -> None:
    """Words that a stranger put beside the guarantee are not believed."""
    record = json.loads((world / "published.csv.certificate.json").read_text())
    (tmp_path / "published.csv").write_bytes((world / "published.csv").read_bytes())
    for place, words in (("guarantee", "eps = 0.0001"), ("unit", "everybody")):
        lie = changed(record, (place, "in_words"), words)
        (tmp_path / "c.json").write_bytes(laid_out(in_order(signed(lie)), 2))
        shown = typed(tmp_path, ["certificate", "verify", "c.json"])
        assert shown.code == 1
        assert f"{place}.in_words" in shown.err
        assert words not in shown.out + shown.err


def test_a_map_shows_only_a_certificate_that_holds(world: Path, tmp_path: Path) -> None:
    line = f"table map table.parquet --domain {world / 'grid.toml'} -o map.html"
    for name in ("table.parquet", "table.parquet.certificate.json"):
        (tmp_path / name).write_bytes((world / name).read_bytes())
    assert typed(tmp_path, line.split()).code == 0
    path = tmp_path / "table.parquet.certificate.json"
    path.write_text(path.read_text().replace('"city"', '"town"'))
    assert typed(tmp_path, line.split()).code == 1


# -- models ---------------------------------------------------------------------------------------------------------


def test_a_model_holds_each_part_once(world: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.oboro"
    path.write_bytes((world / "model.oboro").read_bytes())
    load(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    first, second = parts
    for names, how in (
        ([first, first, second], zipfile.ZIP_STORED),
        ([first, second, "more.txt"], zipfile.ZIP_STORED),
        ([second, first], zipfile.ZIP_STORED),
        ([first, second], zipfile.ZIP_DEFLATED),
    ):
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", how) as file:
            warnings.simplefilter("ignore")  # of a name that is there twice
            for name in names:
                file.writestr(name, parts.get(name, b""))
        with pytest.raises(DataError, match="is not a model"):
            load(path)


def test_a_model_is_checked_against_a_key_by_a_command(world: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.oboro"
    path.write_bytes((world / "model.oboro").read_bytes())
    key = read_certificate(path).record["public_key"]
    told = typed(tmp_path, ["certificate", "verify", path.name, "--key", key])
    assert (told.code, key in told.out) == (0, True)
    other = typed(tmp_path, ["certificate", "verify", path.name, "--key", public_half(STRANGER)])
    assert (other.code, "another key" in other.err) == (1, True)
    with pytest.raises(CertificateError, match="in one file"):
        verify_certificate(path, data=world / "published.csv")
    stolen = read_certificate(path)
    parts = {BUNDLED[0]: b"PAR1 other measurements", BUNDLED[1]: stolen.to_bytes()}
    path.write_bytes(bundled(parts))
    assert typed(tmp_path, ["certificate", "verify", path.name]).code == 1
    with pytest.raises(CertificateError, match="not the file that was certified"):
        load(path)
    path.write_bytes(b"PK\x03\x04 no model")
    assert typed(tmp_path, ["certificate", "verify", path.name]).code == 1


def test_a_certificate_within_a_model_has_one_form(world: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.oboro"
    released, certificate = unpacked((world / "model.oboro").read_bytes()) or (b"", b"")
    path.write_bytes(bundled({BUNDLED[0]: released, BUNDLED[1]: certificate}))
    load(path)
    for change in CHANGES.values():
        path.write_bytes(bundled({BUNDLED[0]: released, BUNDLED[1]: change(certificate.decode()).encode()}))
        for reader in (load, verify_certificate):
            with pytest.raises(CertificateError, match="not a certificate"):
                reader(path)


def test_a_model_is_the_bytes_that_oboro_packs(world: Path, tmp_path: Path) -> None:
    """A reader that goes from the front sees what stands before a packed file; one from the back, what is after."""
    path, whole = tmp_path / "model.oboro", (world / "model.oboro").read_bytes()
    comment = whole[:-2] + (5).to_bytes(2, "little") + b"hello"
    for other in (b"#!/bin/sh\n" + whole, whole + whole, whole + b"x", comment):
        path.write_bytes(other)
        with pytest.raises(DataError, match="is not a model"):
            load(path)


# -- exports and ledgers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_bytes_that_oboro_writes_are_an_export(world: Path, tmp_path: Path, change: str) -> None:
    text = (world / "export.json").read_text()
    path = tmp_path / "export.json"
    path.write_bytes(text.encode())
    assert verify_export(path).entries == 3
    assert CHANGES[change](text) != text
    path.write_bytes(CHANGES[change](text).encode())
    with pytest.raises(LedgerError, match=r"not the export|does not verify"):
        verify_export(path)


def test_all_that_an_export_says_agrees_with_its_entries(world: Path, tmp_path: Path) -> None:
    record = json.loads((world / "export.json").read_text())
    path = tmp_path / "export.json"
    for part in record:
        for odd in [*ODD, KeyError, "another city"]:
            path.write_bytes(laid_out(changed(record, (part,), odd), 1))
            with pytest.raises(LedgerError):
                verify_export(path)
    path.write_bytes(laid_out({**record, "note": "all is well"}, 1))
    with pytest.raises(TamperError, match="its note"):
        verify_export(path)


def test_odd_entries_of_an_export_are_refused_in_words(world: Path, tmp_path: Path) -> None:
    record = json.loads((world / "export.json").read_text())
    path = tmp_path / "export.json"
    for entry in range(len(record["entries"])):
        for part in record["entries"][entry]:
            for odd in [*ODD, KeyError]:
                if (type(odd), odd) == (type(record["entries"][entry][part]), record["entries"][entry][part]):
                    continue  # the first entry stands at 0
                path.write_bytes(laid_out(changed(record, ("entries", entry, part), odd), 1))
                with pytest.raises(TamperError):
                    verify_export(path)


def chain(facts: list[tuple[str, dict[str, Any]]], at: int, place: tuple[Any, ...], odd: Any) -> list[Entry]:
    """A stranger's ledger, all of it properly hashed and signed, with something odd at one place of one body."""
    made: list[Entry] = []
    key = STRANGER
    for number, (kind, body) in enumerate(facts):
        own, keys = {**copy.deepcopy(body), "key": public_half(key)}, [key]
        if number:
            own["root"] = made[0].hash
        if kind == "commit":
            own["reservation_hash"] = made[own["reservation"]].hash
        if kind == "key":
            own["replaces"], own["key"] = public_half(key), public_half(NEXT)
            key, keys = NEXT, [key, NEXT]
        if number == at:
            own = changed(own, place, odd)
            if place[0] == "plan" and "plan" in own:
                own["plan_hash"] = sha256(_text(own["plan"]).encode())
        previous = made[-1].hash if made else NO_HASH
        digest = entry_hash(previous, number, kind, _text(own))
        signature = b"".join(one.sign(f"{TAG}\n{digest}".encode()) for one in keys).hex()
        made.append(Entry(number, kind, own, previous, digest, signature))
    return made


def _text(value: Any) -> str:
    """As `canonical` has it, of what that would refuse, too."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def as_export(entries: list[Entry]) -> bytes:
    try:
        record = export_of(entries)
    except (KeyError, TypeError, AttributeError):  # a stranger has a program of their own
        record = {
            "format": "oboro ledger export",
            "version": 2,
            "id": "0" * 32,
            "dataset": "people",
            "head": entries[-1].head.to_dict(),
            "keys": [{"position": 0, "public_key": public_half(STRANGER)}],
            "entries": [{**entry.to_dict(), "body": in_order(entry.body)} for entry in entries],
        }
    return laid_out(record, 1)


def as_ledger(entries: list[Entry], path: Path) -> None:
    """Puts entries into the file of a ledger in place of its own."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM oboro_lookups")
        connection.execute("DELETE FROM oboro_entries")
        for one in entries:
            repeated = [one.body.get(name) for name in ("name", "reservation")]
            repeated = [None if isinstance(part, list | dict) else part for part in repeated]
            row = (one.position, one.kind, _text(one.body), one.previous, one.hash, one.signature, *repeated)
            with suppress(OverflowError, UnicodeEncodeError, sqlite3.IntegrityError):
                connection.execute(
                    "INSERT INTO oboro_entries (position, kind, body, previous, hash, signature, name, reservation)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                with suppress(KeyError, TypeError):  # no words that it could be found by
                    for key in lookups(one):
                        connection.execute("INSERT INTO oboro_lookups VALUES (?, ?)", (key, one.position))
        connection.execute(f"PRAGMA user_version = {len(entries)}")


def look_at_all(path: Path) -> None:
    """Whatever can be read from a ledger without checking it."""
    with ob.Ledger.open(path) as ledger:
        texts = [
            repr(ledger),
            str(ledger.remaining),
            ledger.public_key,
            str(ledger.head()),
            str(ledger.schema),
        ]
        texts += [f"{entry.time} {entry.name} {entry.cost} {entry.spent}" for entry in ledger.history()]
        assert all(texts)
        laid_out(ledger.export_dict(), 1)
        ledger.keys()
        ledger.find("first")
        ledger.find_entry(1)
        ledger.affords(ob.Pure("0.1"))


def ask_of_accounts(path: Path) -> None:
    """Whatever rests on accounts and periods; what would write is refused at last, for want of the key."""
    unit, little = ob.Unit.row(), ob.Pure("0.01")
    with ob.Ledger.open(path) as ledger:
        uses: list[Callable[[], object]] = [
            lambda: ledger.available,
            ledger.accounts,
            lambda: ledger.account("lab"),
            lambda: ledger.affords(little, account="lab"),
            lambda: ledger.answered(ASKED, "2026"),
            lambda: ledger.grant("lab", little, per="month"),
            lambda: ledger.revoke("lab"),
            lambda: ledger.approve("lab", plan=ASKED, unit=unit, guarantee=little, by="steward"),
        ]
        uses += [
            lambda at=at: ledger.reserve(  # type: ignore[misc]
                plan=ASKED, unit=unit, guarantee=little, account="lab", edition="2026", approval=at
            )
            for at in (None, 2, 3)
        ]
        for use in uses:
            with suppress(OboroError):
                use()


@pytest.fixture(scope="module")
def signed_facts(world: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any]]]:
    """Entries of every kind."""
    path = tmp_path_factory.mktemp("facts") / "facts.ledger"
    for end in ("", ".key"):
        shutil.copy(f"{world / 'people.ledger'}{end}", f"{path}{end}")
    with ob.Ledger.open(path) as ledger:
        ledger.rotate_key()
        found = [(entry.kind, entry.body) for entry in ledger.history()]
    last = found[-1][1]
    upgrade = {**last, "from": VERSION, "schema": VERSION + 1, "software": "oboro"}
    upgrade.pop("replaces")
    return [*found, ("upgrade", upgrade)]


@pytest.fixture(scope="module")
def with_accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with entries of the kinds, and with the parts, that only a ledger of periods and accounts has."""
    path = tmp_path_factory.mktemp("facts") / "accounts.ledger"
    unit, cost = ob.Unit.row(), ob.Pure("0.2")
    with ob.Ledger.create(
        path, dataset="people", unit=unit, budget=ob.Pure(9), per="month", instalment=ob.Pure(1)
    ) as ledger:
        ledger.grant("lab", ob.Pure("0.5"), per="week", approve_above=ob.Pure("0.1"), by="steward")
        asked: dict[str, Any] = {"plan": ASKED, "unit": unit, "guarantee": cost, "edition": "2026"}
        for _ in range(2):
            approved = ledger.approve("lab", by="steward", **asked)
        ledger.decline("lab", by="steward", why="too much", **asked)
        paid = ledger.reserve(account="lab", approval=approved.position, **asked)
        ledger.commit(paid, b"mine", facts={})
        ledger.revoke("lab", by="steward")
        ledger.grant("lab", ob.Pure("0.5"))
    return path


@pytest.mark.long("thousands of odd ledgers")
@pytest.mark.parametrize("every", [11])
def test_odd_entries_about_accounts_and_periods_are_refused_in_words(
    tmp_path: Path, with_accounts: Path, every: int
) -> None:
    """The same of grants, approvals and periods: whoever signed them, they are read, asked of and verified."""
    export, ledger = tmp_path / "export.json", tmp_path / "odd.ledger"
    facts = [(entry.kind, entry.body) for entry in ob.Ledger.open(with_accounts).history()]
    shutil.copy(with_accounts, ledger)  # without its key
    as_ledger(chain(facts, -1, (), None), ledger)
    assert ob.Ledger.open(ledger).verify().entries == len(facts)
    kinds = {"create", "grant", "approve", "decline", "reserve", "commit", "revoke"}
    assert {kind for kind, _ in facts} == kinds
    ask_of_accounts(ledger)
    tried = 0
    for at, (_, body) in enumerate(facts):
        for place in places(body):
            for odd in [*ODD, *ODDER, KeyError]:
                tried += 1
                if tried % every:
                    continue
                made = chain(facts, at, place, odd)
                with suppress(UnicodeEncodeError):  # half a letter stands in no file
                    export.write_bytes(as_export(made))
                # what is asked of an account rests on its last entry: so the odd one is the last, too
                with suppress(LedgerError):
                    verify_export(export)
                for entries in (made, made[: at + 1]):
                    as_ledger(entries, ledger)
                    for use in (lambda: ob.Ledger.open(ledger).verify(), lambda: look_at_all(ledger)):
                        with suppress(LedgerError):
                            use()
                    with suppress(LedgerError):
                        ask_of_accounts(ledger)
    assert tried > 3000


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long("thousands of odd ledgers")), 61])
def test_odd_entries_that_a_stranger_signed_are_refused_in_words(
    world: Path, tmp_path: Path, signed_facts: list[tuple[str, dict[str, Any]]], every: int
) -> None:
    """Every part of every kind of entry exchanged for something odd, or left out, and the whole chain signed anew."""
    export, ledger = tmp_path / "export.json", tmp_path / "odd.ledger"
    facts = signed_facts[:-1]  # a file says which schema it is of
    export.write_bytes(as_export(chain(signed_facts, -1, (), None)))
    with pytest.raises(LedgerError, match="another version"):
        verify_export(export)
    export.write_bytes(as_export(chain(facts, -1, (), None)))
    assert verify_export(export).entries == len(facts) == 4
    shutil.copy(world / "people.ledger", ledger)
    as_ledger(chain(facts, -1, (), None), ledger)
    assert ob.Ledger.open(ledger).verify().entries == len(facts)
    look_at_all(ledger)
    tried, codes = 0, Counter[int]()
    for at, (_, body) in enumerate(signed_facts):
        for place in places(body):
            for odd in [*ODD, *ODDER, KeyError]:
                tried += 1
                if tried % every:
                    continue
                made = chain(signed_facts if at == len(facts) else facts, at, place, odd)
                with suppress(UnicodeEncodeError):  # half a letter stands in no file
                    export.write_bytes(as_export(made))
                as_ledger(made, ledger)
                for use in (lambda: verify_export(export), lambda: ob.Ledger.open(ledger).verify()):
                    with suppress(LedgerError):
                        use()
                with suppress(LedgerError):
                    look_at_all(ledger)
                if tried % (7 * every) == 0:
                    for words in ("show", "show --json", "verify", "fetch --entry 1", "export -o out.json"):
                        name, *rest = words.split()
                        typed_ = typed(tmp_path, ["ledger", name, "odd.ledger", *rest])
                        assert "InternalError" not in typed_.err, (at, place, odd)
                        codes[typed_.code] += 1
    assert tried > 2000
    assert codes[1] > 0
    assert set(codes) <= {0, 1, 4}


def test_what_a_reservation_took_covers_what_it_promises(
    world: Path, tmp_path: Path, signed_facts: list[tuple[str, dict[str, Any]]]
) -> None:
    """An entry that promises eps 5 and took 0.01 adds up, and is wrong."""
    path, facts = tmp_path / "export.json", signed_facts[:2]
    for place, odd, wrong in (
        (("guarantee",), {"kind": "pure", "eps": "5"}, "its plan states another"),
        (("plan", "guarantee"), {"kind": "pure", "eps": "5"}, "its plan states another"),
        (("plan", "unit"), {"kind": "row", "adjacency": "replace"}, "its plan states another"),
        (("unit",), {"kind": "row", "adjacency": "replace"}, "its plan states another"),
    ):
        path.write_bytes(as_export(chain(facts, 1, place, odd)))
        with pytest.raises(TamperError, match=wrong):
            verify_export(path)
    silent = copy.deepcopy(facts)
    for part in ("unit", "guarantee"):
        del silent[1][1]["plan"][part]
    silent[1][1]["plan_hash"] = plan_hash(silent[1][1]["plan"])
    for eps, sound in (("0.01", True), ("0.009", True), ("0.0100001", False), ("5", False)):
        path.write_bytes(as_export(chain(silent, 1, ("guarantee", "eps"), eps)))
        if sound:
            assert verify_export(path).entries == 2
        else:
            with pytest.raises(TamperError, match="less than its guarantee costs"):
                verify_export(path)


@pytest.mark.parametrize("odd", [2**62, "x", None, -1, 1.5, "", b"", b"\xff", "a\0b"])
@pytest.mark.few(2, "odd cells of a file")
def test_cells_of_a_file_that_hold_anything_are_refused_in_words(
    world: Path, tmp_path: Path, odd: Any
) -> None:
    """A cell of SQLite takes a value of any kind, whatever its column says."""
    path = tmp_path / "odd.ledger"
    shutil.copy(world / "people.ledger", path)
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("oboro_ledger", "oboro_entries", "oboro_parts")
        }
    for table, names in columns.items():
        for name in names:
            path.write_bytes(whole)
            with closing(sqlite3.connect(path)) as connection, connection:
                triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                for (trigger,) in connection.execute(triggers).fetchall():
                    connection.execute(f"DROP TRIGGER {trigger}")
                try:
                    connection.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = 1", (odd,))
                except sqlite3.Error:
                    continue
            for use in (lambda: ob.Ledger.open(path).verify(), lambda: look_at_all(path)):
                with suppress(LedgerError):
                    use()
            result = typed(tmp_path, ["ledger", "fetch", "odd.ledger", "--entry", "1"])
            assert "InternalError" not in result.err, (table, name, odd)


@pytest.mark.parametrize("depth", [99, 101, 300, 950, 985, 1000, 200_000])
def test_what_is_nested_without_end_is_refused_in_words(tmp_path: Path, depth: int) -> None:
    for indent, reader in ((2, verify_certificate), (1, verify_export)):
        opened = "".join(f'{" " * indent * min(n, 5)}"a": {{\n' for n in range(1, depth))
        path = tmp_path / "deep.json"
        path.write_text('{\n"signature": "x",\n' + opened + '"a": 1' + "}" * depth + "\n")
        with pytest.raises(OboroError):
            reader(path)
    nested: Any = 1
    for _ in range(min(depth, 600)):
        nested = {"a": nested}
    path.write_bytes(laid_out({"a": nested, "signature": "x"}, 2))
    for reader in (verify_certificate, read_certificate, verify_export):
        with pytest.raises(OboroError):
            reader(path)


def test_a_record_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    around: dict[str, Any] = {}
    around["own"] = around
    with ob.Ledger.create(
        tmp_path / "a.ledger", dataset="d", unit=ob.Unit.row(), budget=ob.Pure(1)
    ) as ledger:
        for plan in ({"a": nested}, {"a": "\ud800"}, {"\udfff": 1}, around):
            with pytest.raises(ob.errors.ParameterError):
                ledger.reserve(plan=plan, unit=ob.Unit.row(), guarantee=ob.Pure("0.1"))
        for stated in ({"guarantee": ob.Pure(5).to_dict()}, {"unit": ob.Unit.row("replace").to_dict()}):
            with pytest.raises(ob.errors.ParameterError, match="states another"):
                ledger.reserve(plan=stated, unit=ob.Unit.row(), guarantee=ob.Pure("0.1"))
        assert ledger.verify().entries == 1


def test_entries_of_ones_own_are_listed_and_have_no_certificate(tmp_path: Path) -> None:
    with ob.Ledger.create(
        tmp_path / "a.ledger", dataset="d", unit=ob.Unit.row(), budget=ob.Pure(1)
    ) as ledger:
        for plan in ({}, {"kind": 5}, {"kind": "mine"}):
            paid = ledger.reserve(plan=plan, unit=ob.Unit.row(), guarantee=ob.Pure("0.1"))
            ledger.commit(paid, b"mine", facts={"released": 7} if plan else {})
    for words in (["show", "a.ledger"], ["show", "a.ledger", "--json"], ["verify", "a.ledger"]):
        assert typed(tmp_path, ["ledger", *words]).code == 0
    fetched = typed(tmp_path, ["ledger", "fetch", "a.ledger", "--entry", "1"])
    assert fetched.code != 0
    assert "InternalError" not in fetched.err


@pytest.mark.parametrize("other", [str.upper, lambda text: f"{text} ", lambda text: text + "00"])
def test_verify_refuses_a_signature_that_is_spelt_otherwise(
    world: Path, tmp_path: Path, other: Callable[[str], str]
) -> None:
    path = tmp_path / "copy.ledger"
    with ob.Ledger.open(world / "people.ledger") as ledger:
        ledger.backup(path)
    assert typed(tmp_path, ["ledger", "verify", "copy.ledger"]).code == 0
    with closing(sqlite3.connect(path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        found = connection.execute("SELECT signature FROM oboro_entries WHERE position = 1").fetchone()[0]
        connection.execute("UPDATE oboro_entries SET signature = ? WHERE position = 1", (other(found),))
    checked = typed(tmp_path, ["ledger", "verify", "copy.ledger"])
    assert checked.code == 1
    assert "TamperError" in checked.err
