"""The book behind a ledger: its last entry, what that says is spent and left, and what is refused before another is written."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oboro.errors import AccountError, BudgetError, LedgerError, NameTakenError, setting, told
from oboro.exact import whole
from oboro.files import BESIDE_SQLITE
from oboro.ledger import accounts, creation, keys, periods, records, replay
from oboro.ledger.accounts import Account
from oboro.ledger.chain import Entry, Head, root_of, signer_of
from oboro.ledger.creation import printable
from oboro.ledger.database import Connection, Database
from oboro.ledger.periods import Periods
from oboro.ledger.records import Reservation, Stored, tampered
from oboro.privacy import Guarantee, Unit, guarantee_from
from oboro.records import Record


def named(connection: Connection, name: str) -> Entry | None:
    """The entry of this name. Ledgers of 0.1 have names that are not composed or trimmed: those are found as they are."""
    as_it_is = records.entry_named(connection, name) if isinstance(name, str) and name.isprintable() else None
    composed = printable("name", name)
    return as_it_is or (None if composed == name else records.entry_named(connection, composed))


_DRAWN = ("reserve", "tick")  # what is drawn under, and committed


@dataclass(frozen=True, eq=False, repr=False)
class Book:
    """What a ledger is made of, and how its entries are read, checked and added to. `Ledger` is what people use."""

    where: str
    id: str
    dataset: str
    unit: Unit
    budget: Guarantee
    periods: Periods | None
    _began: datetime
    _root: str
    _key_path: Path
    _database: Database = field(repr=False)
    _sound: list[tuple[Entry, Guarantee]] = field(default_factory=list)  # the last entry that was checked

    def _write(self, kind: str, facts: Callable[[Connection, Entry, datetime], Record]) -> Entry:
        """The next entry, of a kind that spends nothing."""

        def work(connection: Connection) -> Entry:
            last, _ = self._turn(connection)
            now = periods.now_after(last.time)
            body = facts(connection, last, now)
            return records.append(connection, last, kind, body, self._private_key(last), time=now)

        entry = self._database.write(work)
        self._database.saw(entry.head)
        return entry

    def _account_entries(self, connection: Connection, name: str) -> tuple[Entry, Entry | None] | None:
        """The last entry about an account, and its grant unless that was revoked."""
        last = next(records.looked_up(connection, f"account {name}"), None)
        if last is None:
            return None
        at = last.body["account"]["grant"]
        grant = None if at is None else records.entry_at(connection, at)
        if grant is not None and (grant.kind, grant.account) != ("grant", name):
            raise tampered(last.position, "its grant is not one of its account")
        self._refuse_forged(connection, last, *([] if grant is None else [grant]))
        return last, grant

    def _granted(self, connection: Connection, name: str) -> tuple[Entry, Entry]:
        known = self._account_entries(connection, name)
        if known is None or known[1] is None:
            all_of_it = f"ob.{self.budget.unconditional!r}"
            raise AccountError(
                "the account has no grant" if known is None else "the grant of the account was revoked",
                given=told(account=repr(name)),
                needed="a grant",
                fix=f"ledger.grant({name!r}, {all_of_it})",
            )
        return known[0], known[1]

    def _charge(
        self,
        connection: Connection,
        name: str,
        facts: Record,
        cost: Guarantee,
        now: datetime,
        approval: int | None,
    ) -> Record:
        """What a reservation says of the account that pays for it; raises if the account may not."""
        state, grant = self._granted(connection, name)
        room = accounts.room(state.body["account"], grant, state.time, now)
        if not periods.fits(cost, room):
            raise BudgetError(
                "the account does not cover the plan; nothing was spent",
                given=f"a cost of {cost.unconditional}",
                needed=f"at most what the account has left now, {room.unconditional}",
                fix="a plan that costs less",
                argument="account",
            )
        found: Record = {"account": accounts.charged(state.body["account"], grant, state.time, now, cost)}
        if approval is None:
            if accounts.needs_approval(grant, cost):
                raise AccountError(
                    "the plan costs more than the account may spend alone",
                    given=f"a cost of {cost.unconditional}",
                    needed="an approval by somebody else",
                    fix=setting(approval=1),
                )
            return found
        given = records.entry_at(connection, whole("approval", approval, least=0, most=2**62))
        self._refuse_forged(connection, *([] if given is None else [given]))
        used = next(records.looked_up(connection, f"approval {approval}"), None)
        if given is None or not replay.approves(given, facts, name, cost) or used is not None:
            raise AccountError(
                "the approval is for something else, or was used before",
                given=told(approval=f"{approval}"),
                needed="an approval of this plan for this account that was not used",
            )
        return {**found, "approval": approval}

    def _account(self, connection: Connection, name: str, now: datetime) -> Account | None:
        known = self._account_entries(connection, name)
        if known is None:
            return None
        last, grant = known
        terms = None if grant is None else grant.body["terms"]
        state, none = last.body["account"], periods.nothing(self.budget)
        above = None if terms is None else terms["approve_above"]
        return Account(
            name=name,
            granted=state["grant"],
            amount=none if terms is None else guarantee_from(terms["amount"]),
            per=None if terms is None else terms["per"],
            unused="lapses" if terms is None else terms["unused"],
            approve_above=None if above is None else guarantee_from(above),
            spent=guarantee_from(state["spent"]),
            available=none if grant is None else accounts.room(state, grant, last.time, now),
        )

    def _stored(self, connection: Connection, reserved: Entry | None) -> Stored | None:
        if reserved is None or reserved.kind not in _DRAWN:
            return None
        committed = records.commit_of(connection, reserved.position)
        self._refuse_forged(connection, reserved, *([] if committed is None else [committed]))
        return Stored(reserved, committed, self._database)

    def _files(self) -> list[Path]:
        """What no other file may take the place of: the database, what stands beside it, and the key."""
        own = self._database.place.path
        return [
            self._key_path,
            *([] if own is None else [Path(f"{own}{end}") for end in ("", *BESIDE_SQLITE)]),
        ]

    def _last(self) -> Entry:
        with self._database.reading() as connection:
            return self._checked_last(connection)[0]

    def _checked_last(self, connection: Connection, *, lock: bool = False) -> tuple[Entry, Guarantee]:
        """The last entry, and what has been spent by it."""
        last = records.last_entry(connection, lock=lock)
        if self._sound and self._sound[0][0] is last:  # the very entry that was checked by the same budget
            self._database.saw(last.head)
            return self._sound[0]
        if root_of(last) != self._root:
            raise tampered(0, "it is not the first entry that the history rests on")
        spent = last.spent
        if not replay.within(self.budget, spent):
            raise tampered(last.position, "its running total is none that the budget allows")
        paced = None if self.periods is None else self.periods.per
        if last.body.get("period", {}).get("per") != paced or not replay.in_currency(last, self.budget):
            raise tampered(last.position, "its running total is none that the budget allows")
        self._database.saw(last.head)
        self._sound[:] = [(last, spent)]
        return last, spent

    def _vouch(self, connection: Connection, spent: Guarantee) -> None:
        """Keeps, with the entry that was just written, the total in it: it follows from one that was checked."""
        if connection.tip is not None:
            self._sound[:] = [(connection.tip, spent)]

    def _turn(self, connection: Connection, *, older: bool = False) -> tuple[Entry, Guarantee]:
        """The last entry, which nobody else can append to before this transaction ends, and what has been spent by it."""
        found = self._checked_last(connection, lock=True)
        if not older:
            creation.refuse_older(connection, self._database.place)
        return found

    def _private_key(self, last: Entry) -> Ed25519PrivateKey:
        return keys.load_current(self._key_path, last.body["key"])

    def _refuse_taken(self, connection: Connection, name: str, digest: str) -> None:
        taken = named(connection, name)
        if taken is None:
            return
        fix: str
        if taken.body["plan_hash"] != digest:
            message, fix = "the name belongs to another plan", setting(name="another name")
        elif replay.ticks_of(taken) is not None:
            message = "the name is that of a series, which is paid for and published tick by tick"
            fix = f"ob.tables.series(plan, ledger=ledger, name={name!r})"
        elif records.commit_of(connection, taken.position) is None:
            message = "the run under this name died, or is not done yet; what it reserved is spent and gone"
            fix = setting(name="another name") + ", which is paid for again"
        else:
            message, fix = (
                "a release of this name is stored already",
                f"oboro ledger fetch {shlex.quote(self.where)} --name {shlex.quote(name)}",
            )
        raise NameTakenError(
            message, given=told(name=repr(name)) + f", entry {taken.position}", needed="a new name", fix=fix
        )

    def _refuse_forged(self, connection: Connection, *entries: Entry) -> None:
        """What is given back may be signed again, so it must be ours: by the key in force, or one before it."""
        ours = {str(self._checked_last(connection)[0].body["key"])}
        older = any(signer_of(entry) not in ours for entry in entries)
        for row in reversed(list(records.all_rows(connection, "key")) if older else []):
            change = records.checked(row)
            if change.body["key"] in ours:  # the newer key has signed this too: it vouches for the older
                ours.add(signer_of(change))
        for entry in entries:
            if signer_of(entry) not in ours or root_of(entry) != self._root:
                raise tampered(entry.position, "it is not signed by a key of this ledger")
            if not replay.in_currency(entry, self.budget):
                raise tampered(entry.position, "an amount in it is in another currency")

    def _reserved(self, connection: Connection, reservation: Reservation) -> Entry:
        """The entry of a reservation that was not committed yet; refused if it is none."""
        tip = connection.tip
        if (
            tip is not None
            and tip.head == Head(reservation.position, reservation.hash)
            and tip.kind in _DRAWN
        ):
            return tip  # a commit would come after it
        entry = records.entry_at(connection, reservation.position)
        if entry is None or entry.kind not in _DRAWN or entry.hash != reservation.hash:
            raise LedgerError(
                "the reservation is not of this ledger",
                given=repr(reservation),
                needed="what ledger.reserve returned",
            )
        if records.commit_of(connection, reservation.position) is not None:
            raise LedgerError(
                "the reservation was committed already",
                given=repr(reservation),
                needed="one commit for each reservation",
                fix="reserve again",
            )
        return entry

    def _room(self, last: Entry, spent: Guarantee, now: datetime) -> Guarantee:
        """What may be spent at a moment, by whoever pays."""
        rest = replay.remaining(self.budget, spent)
        if self.periods is None:
            return rest
        recent = guarantee_from(periods.carried(last.body["period"], last.time, now)["spent"])
        opened = self.periods.room(self.budget, self._began, now, spent, recent)
        return periods.least(rest, opened)

    def _too_expensive(self, cost: Guarantee, room: Guarantee) -> BudgetError:
        return BudgetError(
            "the budget does not cover the plan; nothing was spent",
            given=f"a cost of {cost.unconditional}",
            needed=f"at most what remains, {room.unconditional}, of a budget of {self.budget.unconditional}"
            if self.periods is None
            else f"at most what is open now, {room.unconditional}, of a budget of {self.budget.unconditional}, "
            f"{self.periods.instalment.unconditional} a {self.periods.per}",
            fix="a plan that costs less, or a new ledger if more may be spent about these people",
        )
