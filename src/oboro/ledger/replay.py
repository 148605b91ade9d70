"""Going through a chain from its first entry, believing nothing.

What is found: an entry that was altered, left out, put elsewhere or forged; a total that is wrong or over
the budget; a commit without its reservation; a name used twice; content that is not what was committed.

What cannot be found from the ledger alone: a tail that was cut off, or an older copy put in its place,
because every beginning of a chain is a chain. A head that was kept elsewhere shows both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from oboro.errors import InputError, TamperError
from oboro.ledger import currency
from oboro.ledger.canonical import plan_hash
from oboro.ledger.chain import KINDS, NO_HASH, Entry, Head, fault, signer_of
from oboro.ledger.keys import PublicKey
from oboro.ledger.records import tampered
from oboro.privacy import Guarantee, guarantee_from, unit_from


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, all of it sound. `contents` is None where the releases themselves were not at hand."""

    head: Head
    entries: int
    reservations: int
    commits: int
    contents: int | None
    keys: tuple[PublicKey, ...]
    budget: Guarantee
    spent: Guarantee
    schema: int


@dataclass(slots=True)
class Replay:
    """The state of a ledger after the entries that were added so far."""

    ledger_id: str = ""
    schema: int = 1
    last: Entry | None = None
    budget: Guarantee | None = None
    spent: Guarantee | None = None
    keys: list[PublicKey] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    reservations: dict[int, str] = field(default_factory=dict)
    commits: dict[int, Entry] = field(default_factory=dict)
    _root: str = ""
    _expected: Head | None = None

    @classmethod
    def of(cls, entries: Iterable[tuple[Entry, str]], expected: Head | None = None) -> Replay:
        """Replays entries with the texts of their bodies; raises TamperError at the first that is wrong."""
        replay = cls(_expected=expected)
        for entry, text in entries:
            replay.add(entry, text)
        if replay.last is None:
            raise tampered(0, "there is no entry")
        if expected is not None and replay.last.position < expected.position:
            raise TamperError(
                f"the ledger ends at position {replay.last.position}, but it once reached {expected.position}: "
                "its tail was cut off, or an older copy was put in its place",
                given=str(replay.last.head),
                needed=str(expected),
                fix="find the newer copy; what it had spent is spent",
            )
        return replay

    def add(self, entry: Entry, text: str) -> None:
        """Checks one more entry against all before it."""
        place = 0 if self.last is None else self.last.position + 1
        if entry.position != place:
            raise tampered(place, f"it is missing; position {entry.position} comes next")
        try:
            wrong = self._fault(entry, text)
        except (InputError, KeyError, TypeError, ValueError, AttributeError):
            wrong = "its body is not what a ledger writes"
        if wrong is not None:
            raise tampered(place, wrong)
        self.last = entry

    def verification(self, contents: int | None) -> Verification:
        assert self.last is not None
        assert self.budget is not None
        assert self.spent is not None
        return Verification(
            head=self.last.head,
            entries=self.last.position + 1,
            reservations=len(self.reservations),
            commits=len(self.commits),
            contents=contents,
            keys=tuple(self.keys),
            budget=self.budget,
            spent=self.spent,
            schema=self.schema,
        )

    def _fault(self, entry: Entry, text: str) -> str | None:
        if entry.kind not in KINDS or (entry.kind == "create") != (self.last is None):
            return f"an entry of kind {entry.kind!r} does not belong here"
        if entry.previous != (NO_HASH if self.last is None else self.last.hash):
            return "it does not follow from the entry before it"
        wrong = fault(entry, text)
        if wrong is not None:
            return wrong
        kept = self._expected
        if kept is not None and kept.position == entry.position and kept.hash != entry.hash:
            return f"the head that was kept has another hash, {kept.hash}: history was rewritten"
        if self.last is None:
            return self._created(entry)
        if signer_of(entry) != self.keys[-1].public_key:
            return "it is signed by a key that was not in force"
        if entry.body["root"] != self._root:
            return "it belongs to another ledger"
        follows = {
            "reserve": self._reserved,
            "commit": self._committed,
            "key": self._key_changed,
            "upgrade": self._upgraded,
        }
        return follows[entry.kind](entry) or self._unless_total_is(entry)

    def _created(self, entry: Entry) -> str | None:
        self.budget = currency.checked_budget(guarantee_from(entry.body["budget"]))
        self.spent = currency.nothing(self.budget)
        self.keys = [PublicKey(0, entry.body["key"])]
        self.ledger_id, self.schema = str(entry.body["id"]), entry.body.get("schema", 1)
        self._root = entry.hash
        unit_from(entry.body["unit"])
        return self._unless_total_is(entry)

    def _reserved(self, entry: Entry) -> str | None:
        assert self.budget is not None
        assert self.spent is not None
        name, cost = entry.body["name"], guarantee_from(entry.body["cost"])
        if name is not None:
            if name in self.names:
                return f"the name {name!r} was taken before"
            self.names.add(name)
        if plan_hash(entry.body["plan"]) != entry.body["plan_hash"]:
            return "its plan does not have the hash that it states"
        if type(cost.unconditional) is not type(self.budget.unconditional):
            return "its cost is in another currency"
        if not set(cost.assumptions) <= set(self.budget.assumptions):
            return "its cost rests on an assumption that the ledger was not created with"
        if not any(currency.amounts(cost)) or not currency.affords(self.budget, self.spent, cost):
            return "the budget does not cover its cost"
        self.spent = currency.added(self.budget, self.spent, cost)
        self.reservations[entry.position] = entry.hash
        return None

    def _committed(self, entry: Entry) -> str | None:
        reservation = entry.body["reservation"]
        if self.reservations.get(reservation) != entry.body["reservation_hash"]:
            return "it commits a reservation that does not exist"
        if reservation in self.commits:
            return f"it commits reservation {reservation} a second time"
        self.commits[reservation] = entry
        return None

    def _key_changed(self, entry: Entry) -> str | None:
        self.keys.append(PublicKey(entry.position, entry.body["key"]))
        return None

    def _upgraded(self, entry: Entry) -> str | None:
        before, after = self.schema, entry.body["schema"]
        if entry.body["from"] != before or type(after) is not int or after <= before:
            return "it upgrades from a schema that the ledger did not have"
        self.schema = after
        return None

    def _unless_total_is(self, entry: Entry) -> str | None:
        if entry.body["key"] != self.keys[-1].public_key:
            return "it names a key that is not in force"
        if guarantee_from(entry.body["spent"]) != self.spent:
            return "its running total is wrong"
        return None


def content_fault(pieces: Iterable[bytes], commit: Entry) -> str | None:
    """What is wrong with stored content, or None."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    if size != commit.body["size"] or digest.hexdigest() != commit.body["sha256"]:
        return "the stored content is not what was committed"
    return None
