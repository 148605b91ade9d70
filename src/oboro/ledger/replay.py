"""Going through a chain from its first entry, believing nothing.

What is found: an entry that was altered, left out, put elsewhere or forged; a total that is wrong or over
the budget; a commit without its reservation; a name used twice; content that is not what was committed.

What cannot be found from the ledger alone: a tail that was cut off, or an older copy put in its place,
because every beginning of a chain is a chain. A head that was kept elsewhere shows both.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from oboro.errors import GuaranteeError, InputError, ParameterError, TamperError, setting
from oboro.exact import sum_fits, sum_of
from oboro.ledger import accounts
from oboro.ledger.chain import NO_HASH, Entry, Head, fault, plan_hash, signer_of
from oboro.ledger.keys import PublicKey
from oboro.ledger.periods import Periods, amount_of, amounts, carried, fits, like, nothing, periods_from, plus
from oboro.ledger.records import lookups, tampered
from oboro.privacy import (
    Conditional,
    Guarantee,
    Pure,
    Renyi,
    Unit,
    convert,
    guarantee_from,
    translate,
    unit_from,
)
from oboro.privacy.proposals import proposals
from oboro.privacy.unit import check_unit
from oboro.records import Record

# The privacy filter: what a plan costs in the currency of a ledger, and whether that is still there.
#
# The currency is the kind of the budget, fixed when the ledger is created: eps; eps and delta; rho; or eps
# at one Rényi order. Costs are added, coordinate by coordinate, as exact rationals, and a plan is admitted
# if and only if no coordinate passes the budget. This stays valid when each question depends on the answers
# before it [Rogers, Roth, Ullman, Vadhan 2016; for zCDP and Rényi of a fixed order Feldman, Zrnic 2021].

_CURRENCIES = {  # what a ledger keeps, and what can be paid from it
    "pure": ("eps alone", "eps alone"),
    "approx": ("eps and delta", "eps, or eps and delta"),
    "zcdp": ("rho (zCDP)", "eps alone, or rho"),
    "renyi": ("eps of one Rényi order", "eps alone, rho, or eps of that order or a higher one"),
}
LONGEST = 6000  # bits of a numerator or denominator: what can still be written down and read back
_BEYOND = 1 << LONGEST


def price(unit: Unit, guarantee: Guarantee, ledger_unit: Unit, budget: Guarantee) -> Guarantee:
    """What a plan for `unit` with `guarantee` costs in a ledger; refused where no proved rule says so."""
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "guarantee is not a guarantee", given=repr(guarantee)[:80], fix=setting(guarantee=Pure(1))
        )
    if not isinstance(unit, Unit):
        raise ParameterError("unit is not a unit", given=repr(unit)[:80], fix=setting(unit=Unit.row()))
    if type(guarantee) is Pure and type(budget) is Pure and guarantee.eps and unit == ledger_unit:
        _writable(guarantee)
        return guarantee  # about the same unit, in the same currency: as `translate` and `convert` give it
    check_unit(unit, ledger_unit, budget)
    unknown = sorted(set(guarantee.assumptions) - set(budget.assumptions))
    if unknown:
        raise GuaranteeError(
            "the plan rests on an assumption that the ledger was not created with",
            given="; ".join(unknown),
            needed="; ".join(budget.assumptions) or "no assumption at all",
            fix=setting(
                unit=ledger_unit, budget=Conditional(budget.unconditional, [*budget.assumptions, *unknown])
            ),
        )
    _writable(guarantee)
    moved = translate(guarantee, unit, ledger_unit).unconditional
    cost = _converted(moved, budget.unconditional, guarantee)
    if not any(amounts(cost)):
        raise GuaranteeError(
            "a plan that costs nothing cannot be reserved",
            given=str(guarantee),
            needed="a guarantee above 0",
            fix=setting(guarantee=Pure("0.1")),
        )
    _writable(cost)
    return Conditional(cost, guarantee.assumptions) if guarantee.assumptions else cost


def _converted(cost: Guarantee, budget: Guarantee, asked: Guarantee) -> Guarantee:
    """The cost in the ledger's currency, or an error that says which that is and what to ask for in it.

    Another ledger is no fix: with one for each currency the budget would be none.
    """
    try:
        return convert(cost, budget)
    except GuaranteeError:
        kept, taken = _CURRENCIES[budget.kind]
        found = proposals(asked, budget)
        raise GuaranteeError(
            f"the ledger keeps {kept}: a cost of {cost} cannot be paid from it",
            given=str(asked),
            needed=f"a plan with {taken}",
            fix=setting(guarantee=found[0] if found else Pure("0.1")),
            argument="guarantee",
        ) from None


def checked_budget(budget: Guarantee) -> Guarantee:
    """A budget that something can be bought with."""
    if not isinstance(budget, Guarantee):
        raise ParameterError(
            "budget is not a guarantee", given=repr(budget)[:80], fix=setting(budget=Pure(1))
        )
    if amounts(budget)[0] <= 0:
        raise ParameterError(
            "the budget must be positive",
            given=str(budget),
            needed="eps or rho above 0",
            fix=setting(budget=Pure(1)),
        )
    _writable(budget)
    return budget


def remaining(budget: Guarantee, spent: Guarantee) -> Guarantee:
    """What is left: with `spent` it makes exactly the budget."""
    return like(budget, tuple(b - s for b, s in zip(amounts(budget), amounts(spent), strict=True)))


def states_otherwise(plan: Record, unit: Unit, guarantee: Guarantee) -> bool:
    """Whether the record of a plan states another unit or guarantee than it is paid for. Some state none, or in other words."""
    for name, read, paid in (("unit", unit_from, unit), ("guarantee", guarantee_from, guarantee)):
        with suppress(InputError):
            if name in plan and plan[name] != paid.to_dict() and read(plan[name]) != paid:
                return True
    return False


def _enough(cost: Guarantee, due: Guarantee) -> bool:
    """Whether what was taken, in the currency of the budget, is all that was due: later versions may round up less."""
    return cost.assumptions == due.assumptions and all(
        taken >= least for taken, least in zip(amounts(cost), amounts(due), strict=True)
    )


def within(budget: Guarantee, spent: Guarantee) -> bool:
    """Whether a total can be one of this budget: in its currency, and not above it."""
    same = same_currency(spent, budget) and spent.assumptions == budget.assumptions
    return same and fits(spent, budget)


def affords(budget: Guarantee, spent: Guarantee, cost: Guarantee) -> bool:
    """Whether `cost`, in the currency of the budget, can be paid."""
    sums = zip(amounts(spent), amounts(cost), amounts(budget), strict=True)
    return all(sum_fits(s, c, b) for s, c, b in sums)


def added(budget: Guarantee, spent: Guarantee, cost: Guarantee) -> Guarantee:
    """The new total after a cost that the budget affords."""
    both = zip(amounts(spent), amounts(cost), strict=True)
    total = like(budget, tuple(sum_of(s, c) for s, c in both))
    _writable(total)
    return total


def _writable(guarantee: Guarantee) -> None:
    """Sums of many unlike fractions grow without end; one that could not be read back must not be written."""
    plain = guarantee.unconditional
    if type(plain) is Pure and plain.eps.numerator < _BEYOND > plain.eps.denominator:
        return
    numbers = (*amounts(plain), plain.order) if isinstance(plain, Renyi) else amounts(plain)
    if any(max(n.numerator.bit_length(), n.denominator.bit_length()) > LONGEST for n in numbers):
        raise GuaranteeError(
            "the exact amount would be too long to write down",
            given=f"a fraction of more than {LONGEST} bits",
            needed="costs whose denominators have much in common",
            fix=setting(eps="0.125"),
        )


_LATER = (
    "grant",
    "revoke",
    "approve",
    "decline",
    "tick",
)  # kinds, and parts of bodies, that came with schema 3
_LATER_PARTS = {"account", "edition", "approval", "periods", "period", "ticks"}


def same_currency(amount: Guarantee, budget: Guarantee) -> bool:
    """Whether two amounts can be compared."""
    one, other = amount.unconditional, budget.unconditional
    if isinstance(one, Renyi) and isinstance(other, Renyi):
        return one.order == other.order
    return type(one) is type(other)


def in_currency(entry: Entry, budget: Guarantee) -> bool:
    """Whether every amount that is added up or compared with another is in the currency of the budget."""
    body = entry.body
    account, terms = body.get("account", {}), body.get("terms", {})
    found = [
        body.get("cost"),
        body.get("period", {}).get("spent"),
        *(account.get(name) for name in ("spent", "since", "lately")),
        *(terms.get(name) for name in ("amount", "approve_above")),
    ]
    return all(same_currency(guarantee_from(one), budget) for one in found if one is not None)


def same_person(one: str, other: str) -> bool:
    """Whether two names may be of one: upper and lower case are alike."""
    return unicodedata.normalize("NFKC", one).casefold() == unicodedata.normalize("NFKC", other).casefold()


def ticks_of(entry: Entry) -> int | None:
    """How many ticks a reservation is drawn in; None where it is drawn at once."""
    return entry.body.get("ticks") if entry.kind == "reserve" else None


def approves(approval: Entry, body: Record, account: str, cost: Guarantee) -> bool:
    """Whether an approval is one for what a reservation says of itself."""
    said = approval.body
    return (
        approval.kind == "approve"
        and (said["asker"], said["plan_hash"]) == (account, body["plan_hash"])
        and said["edition"] == body.get("edition")
        and fits(cost, guarantee_from(said["cost"]))
    )


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, all of it sound. `contents` is None where the releases themselves were not at hand.

    >>> found = ledger.verify()
    >>> found.entries, found.spent, found.budget
    (1, Pure(0), Pure(1))
    """

    head: Head
    entries: int
    reservations: int
    commits: int
    contents: int | None
    keys: tuple[PublicKey, ...]
    budget: Guarantee
    spent: Guarantee
    schema: int
    grants: int = 0
    periods: Periods | None = None


@dataclass(slots=True)
class Replay:
    """The state of a ledger after the entries that were added so far."""

    ledger_id: str = ""
    unit: Unit | None = None
    schema: int = 1
    last: Entry | None = None
    budget: Guarantee | None = None
    spent: Guarantee | None = None
    keys: list[PublicKey] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    reservations: dict[int, str] = field(default_factory=dict)
    commits: dict[int, Entry] = field(default_factory=dict)
    series: dict[int, int] = field(default_factory=dict)  # reservations that are run tick by tick: how many
    ticks: dict[int, str] = field(default_factory=dict)
    periods: Periods | None = None
    began: datetime | None = None
    period: Record | None = None  # what was spent in the period of the last entry
    lookups: set[tuple[str, int]] = field(default_factory=set)
    accounts: dict[str, Entry] = field(default_factory=dict)  # the last entry about each
    paid: dict[str, list[tuple[datetime, Guarantee]]] = field(default_factory=dict)
    grants: dict[int, Entry] = field(default_factory=dict)
    approvals: dict[int, Entry] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)
    _begun: set[tuple[int, int]] = field(default_factory=set)
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
        except InputError:  # a budget or a cost that is none, or that no rule gives
            wrong = "its body is not what a ledger writes"
        if wrong is not None:
            raise tampered(place, wrong)
        self.last = entry
        self.period = entry.body.get("period")
        self.lookups.update((key, entry.position) for key in lookups(entry))

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
            grants=len(self.grants),
            periods=self.periods,
        )

    def _fault(self, entry: Entry, text: str) -> str | None:
        if (entry.kind == "create") != (self.last is None):
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
        if self.schema > 2 and entry.time < self.last.time:
            return "its time is before that of the entry before it"
        if self.schema < 3 and (entry.kind in _LATER or _LATER_PARTS & entry.body.keys()):
            return "the schema of the ledger does not have it"
        assert self.budget is not None
        if not in_currency(entry, self.budget):
            return "an amount in it is in another currency"
        if self.period is not None:
            self.period = carried(self.period, self.last.time, entry.time)
        follows = {
            "grant": self._granted,
            "revoke": self._revoked,
            "approve": self._decided,
            "decline": self._decided,
            "reserve": self._reserved,
            "tick": self._ticked,
            "commit": self._committed,
            "key": self._key_changed,
            "upgrade": self._upgraded,
        }
        return follows[entry.kind](entry) or self._unless_total_is(entry)

    def _created(self, entry: Entry) -> str | None:
        self.budget = checked_budget(guarantee_from(entry.body["budget"]))
        self.spent = nothing(self.budget)
        self.keys = [PublicKey(0, entry.body["key"])]
        self.unit = unit_from(entry.body["unit"])
        self.ledger_id, self.schema = entry.body["id"], entry.body.get("schema", 1)
        self._root, self.began = entry.hash, entry.time
        if "periods" in entry.body:
            self.periods = periods_from(entry.body["periods"])
            amount_of("instalment", self.periods.instalment, self.budget)
            self.period = {"per": self.periods.per, "spent": self.spent.to_dict()}
        if self.schema < 3 and _LATER_PARTS & entry.body.keys():
            return "the schema of the ledger does not have it"
        return self._unless_total_is(entry)

    def _reserved(self, entry: Entry) -> str | None:
        assert self.budget is not None
        assert self.spent is not None
        assert self.unit is not None
        name, cost = entry.body["name"], guarantee_from(entry.body["cost"])
        if name is not None:
            if name in self.names:
                return f"the name {name!r} was taken before"
            self.names.add(name)
        if plan_hash(entry.body["plan"]) != entry.body["plan_hash"]:
            return "its plan does not have the hash that it states"
        if not set(cost.assumptions) <= set(self.budget.assumptions):
            return "its cost rests on an assumption that the ledger was not created with"
        unit, guarantee = unit_from(entry.body["unit"]), guarantee_from(entry.body["guarantee"])
        if states_otherwise(entry.body["plan"], unit, guarantee):
            return "its plan states another unit or guarantee"
        if not _enough(cost, price(unit, guarantee, self.unit, self.budget)):
            return "its cost is less than its guarantee costs"
        if not any(amounts(cost)) or not affords(self.budget, self.spent, cost):
            return "the budget does not cover its cost"
        if self.periods is not None and self.period is not None and self.began is not None:
            recent = guarantee_from(self.period["spent"])
            if not fits(cost, self.periods.room(self.budget, self.began, entry.time, self.spent, recent)):
                return "the instalments that were open do not cover its cost"
            self.period = {**self.period, "spent": plus(recent, cost).to_dict()}
        wrong = self._paid_by(entry, cost)
        if wrong is not None:
            return wrong
        self.spent = added(self.budget, self.spent, cost)
        self.reservations[entry.position] = entry.hash
        if (ticks := ticks_of(entry)) is not None:
            if ticks != entry.body["plan"].get("ticks"):
                return "its plan has another number of ticks"
            self.series[entry.position] = ticks
        return None

    def _ticked(self, entry: Entry) -> str | None:
        series, tick = entry.body["series"], entry.body["tick"]
        if self.reservations.get(series) != entry.body["series_hash"] or tick >= self.series.get(series, 0):
            return "it is a tick of a series that does not exist, or does not have it"
        if (series, tick) in self._begun:
            return f"it begins tick {tick} of series {series} a second time"
        if series in self.commits:
            return f"it begins a tick of series {series}, which is over"
        self._begun.add((series, tick))
        self.ticks[entry.position] = entry.hash
        return None

    def _paid_by(self, entry: Entry, cost: Guarantee) -> str | None:
        """What is wrong with the account that a reservation names, and with its approval."""
        approval = entry.body.get("approval")
        if "account" not in entry.body:
            return None if approval is None else "it has an approval, and no account"
        name = entry.body["account"]["name"]
        before = self.accounts.get(name)
        grant = None if before is None else self.grants.get(before.body["account"]["grant"])
        if before is None or grant is None:
            return "its account has no grant"
        state, now = before.body["account"], entry.time
        if not fits(cost, accounts.room(state, grant, before.time, now)):
            return "the account does not cover its cost"
        if entry.body["account"] != accounts.charged(state, grant, before.time, now, cost):
            return "the running total of its account is wrong"
        if approval is None and accounts.needs_approval(grant, cost):
            return "nobody has approved its cost"
        if approval is not None:
            given = self.approvals.get(approval)
            if given is None or not approves(given, entry.body, name, cost) or approval in self._used:
                return "its approval is for something else, or was used before"
            self._used.add(approval)
        self.accounts[name] = entry
        self.paid.setdefault(name, []).append((now, cost))
        return None

    def _granted(self, entry: Entry) -> str | None:
        assert self.budget is not None
        name, terms = entry.body["account"]["name"], entry.body["terms"]
        before = self.accounts.get(name)
        amount_of("amount", guarantee_from(terms["amount"]), self.budget)
        expected = accounts.granted(
            name,
            None if before is None else before.body["account"],
            entry.position,
            terms["per"],
            entry.time,
            self.paid.get(name, []),
            nothing(self.budget),
        )
        if entry.body["account"] != expected:
            return "the running total of its account is wrong"
        self.accounts[name] = self.grants[entry.position] = entry
        return None

    def _revoked(self, entry: Entry) -> str | None:
        before = self.accounts.get(entry.body["account"]["name"])
        if before is None or before.body["account"]["grant"] is None:
            return "it revokes a grant that is not there"
        if entry.body["account"] != accounts.revoked(before.body["account"]):
            return "the running total of its account is wrong"
        self.accounts[entry.body["account"]["name"]] = entry
        return None

    def _decided(self, entry: Entry) -> str | None:
        if same_person(entry.body["by"], entry.body["asker"]):
            return "who asked has decided"
        asker = self.accounts.get(entry.body["asker"])
        if asker is None or asker.body["account"]["grant"] is None:
            return "its account has no grant"
        if entry.kind == "approve":
            self.approvals[entry.position] = entry
        return None

    def _committed(self, entry: Entry) -> str | None:
        reservation = entry.body["reservation"]
        known = self.reservations.get(reservation) or self.ticks.get(reservation)
        if known != entry.body["reservation_hash"]:
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
        if entry.body["from"] != before or after <= before:
            return "it upgrades from a schema that the ledger did not have"
        self.schema = after
        return None

    def _unless_total_is(self, entry: Entry) -> str | None:
        if entry.body["key"] != self.keys[-1].public_key:
            return "it names a key that is not in force"
        if guarantee_from(entry.body["spent"]) != self.spent or entry.body.get("period") != self.period:
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
