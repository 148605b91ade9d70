"""The ledger: what has been spent about one named dataset, for one unit, and what may still be."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oboro.errors import LedgerError, ParameterError, setting, told
from oboro.exact import whole
from oboro.files import reads
from oboro.kinds import path_of, shown, takes
from oboro.ledger import accounts, copies, creation, keys, periods, records, replay, schema
from oboro.ledger.accounts import Account
from oboro.ledger.book import Book, named
from oboro.ledger.chain import TAG, Entry, Head, plan_hash, sha256
from oboro.ledger.creation import printable, schema_of
from oboro.ledger.database import Connection, Database
from oboro.ledger.file import Place
from oboro.ledger.keys import PublicKey
from oboro.ledger.records import Due, Reservation, Stored, tampered
from oboro.ledger.replay import Verification
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.records import Record

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(Book):
    """The durable account of what has been spent. Make one with `Ledger.create`, use it with `Ledger.open`.

    Every spend is an entry that is never changed: numbered, hashed together with the entry before it, and
    signed. A plan is admitted if what was spent and what it costs stay within the budget, exactly. Many
    processes and threads may share one ledger; each admission is one transaction.

    Reading needs no key. Spending needs the private key, which is kept beside a SQLite ledger as
    `<path>.key` and for PostgreSQL in $OBORO_KEYS or ~/.config/oboro/keys.

    >>> ledger.budget, ledger.spent, ledger.remaining
    (Pure(1), Pure(0), Pure(1))
    >>> ledger.price(unit, ob.Pure("0.1")), ledger.affords(ob.Pure(2))
    (Pure('0.1'), False)
    >>> ob.Ledger.open("people.ledger").verify().entries
    1
    """

    @classmethod
    def create(
        cls,
        where: PathLike,
        *,
        dataset: str,
        unit: Unit,
        budget: Guarantee,
        per: str | None = None,
        instalment: Guarantee | None = None,
        unused: str = "kept",
        key: PathLike | None = None,
    ) -> Ledger:
        """A new ledger. The kind of the budget is the currency for good; a path means SQLite, a URL PostgreSQL.

        With `per` ("hour", "day", "week", "month", "year") and `instalment` the budget is opened bit by bit, and never more than
        the whole of it; what is `unused` in a period is "kept" for later, or "lapses". `oboro.ledger.periods` has the proof.
        """
        place = Place.of(where)
        pace = periods.checked_periods(replay.checked_budget(budget), per, instalment, unused)
        database, key_path, first = creation.create(
            place, dataset=dataset, unit=unit, budget=budget, pace=pace, key=key
        )
        return cls._from(place, database, key_path, first)

    @classmethod
    def open(cls, where: PathLike, *, key: PathLike | None = None) -> Ledger:
        """An existing ledger. `key` is the path of its private key, if that is not in its usual place."""
        place = Place.of(where)
        database, first = creation.recognise(place)
        return cls._from(place, database, place.key_path(first.body["id"], key), first)

    @classmethod
    def _from(cls, place: Place, database: Database, key_path: Path, first: Entry) -> Ledger:
        body = first.body
        budget = guarantee_from(body["budget"])
        pace = periods.periods_from(body["periods"]) if "periods" in body else None
        if pace is not None and not replay.same_currency(pace.instalment, budget):
            raise tampered(0, "an amount in it is in another currency")
        reads(key_path)
        return cls(
            where=place.shown,
            id=body["id"],
            dataset=body["dataset"],
            unit=unit_from(body["unit"]),
            budget=budget,
            periods=pace,
            _began=first.time,
            _root=first.hash,
            _key_path=key_path,
            _database=database,
        )

    # What has been spent, and what may be

    @property
    def spent(self) -> Guarantee:
        """What has been spent, in the currency of the budget; read now, from the last entry."""
        return self._last().spent

    @property
    def remaining(self) -> Guarantee:
        """What is left: budget minus spent, exactly."""
        return replay.remaining(self.budget, self.spent)

    @property
    def available(self) -> Guarantee:
        """What may be spent now: what remains or, where the ledger has periods, what they have opened of it."""
        last = self._last()
        return self._room(last, last.spent, periods.now_after(last.time))

    def price(self, unit: Unit, guarantee: Guarantee) -> Guarantee:
        """What a plan would cost here. Spends nothing; refused where no proved rule gives a price."""
        return replay.price(unit, guarantee, self.unit, self.budget)

    def affords(self, cost: Guarantee, *, account: str | None = None) -> bool:
        """Whether a cost about the ledger's unit could be paid now, by an account. Others may be quicker: only `reserve` decides.

        Raises LedgerError if the ledger must be upgraded first.
        """
        return self.covers(self.price(self.unit, cost), account=account)

    def covers(self, cost: Guarantee, *, account: str | None = None) -> bool:
        """The same of a cost that `price` gave."""
        with self._database.reading() as connection:
            creation.refuse_older(connection, self._database.place)
            last, spent = self._checked_last(connection)
            now = periods.now_after(last.time)
            if account is not None:
                known = self._account_entries(connection, printable("account", account))
                if known is None or known[1] is None:
                    return False
                if not periods.fits(
                    cost, accounts.room(known[0].body["account"], known[1], known[0].time, now)
                ):
                    return False
            return periods.fits(cost, self._room(last, spent, now))

    def _lately_covered(self, cost: Guarantee) -> bool:
        """Whether a cost that `price` gave could be paid by the last entry that was seen here: whoever spends since then spends more.

        So False says nothing, and True is no promise: `reserve` decides, as always. It looks at no file.
        """
        if not self._sound or self.periods is not None:
            return False
        return replay.affords(self.budget, self._sound[0][1], cost)

    def reserve(
        self,
        *,
        plan: dict[str, object],
        unit: Unit,
        guarantee: Guarantee,
        name: str | None = None,
        account: str | None = None,
        edition: str | None = None,
        approval: int | None = None,
        ticks: int | None = None,
    ) -> Reservation:
        """Pays for a plan before it runs. When this returns, the cost is on disk and is never given back.

        An `account` pays from its own share, too; what it may not spend alone needs an `approval`, the number of its entry.
        With an `edition`, a public name of the data as it is now, the release can be found by its question (`answered`).
        With `ticks` it is a series: no noise is drawn but under its ticks (`begin`), so that another process may take it up.

        Raises BudgetError if the budget or the account does not cover it, AccountError if the account may not pay, and
        NameTakenError if the name was used; then nothing is spent.
        """
        digest, cost = plan_hash(plan), self.price(unit, guarantee)
        if ticks is not None and plan.get("ticks") != whole("ticks", ticks, least=1):
            raise ParameterError(
                "the record of the plan states another number of ticks",
                given=told(ticks=f"{ticks}"),
                needed="that of the plan",
            )
        if replay.states_otherwise(plan, unit, guarantee):
            raise ParameterError(
                "the record of the plan states another unit or guarantee than is to be paid for",
                given=f"{guarantee}, for {unit}",
                needed="those of the plan",
            )
        due = Due(plan, digest, unit, guarantee, cost)
        return self._pay(due, name, account=account, edition=edition, approval=approval, ticks=ticks)

    def _pay(
        self,
        due: Due,
        name: str | None = None,
        *,
        account: str | None = None,
        edition: str | None = None,
        approval: int | None = None,
        ticks: int | None = None,
    ) -> Reservation:
        """`reserve` of what is known to be due here: for `run`, which has worked it out from a plan that nobody else holds."""
        account = None if account is None else printable("account", account)
        edition = None if edition is None else printable("edition", edition)
        if name is not None:
            name = printable("name", name)
        plan, digest, unit, guarantee, cost = due

        def write(connection: Connection) -> Entry:
            last, spent = self._turn(connection)
            if name is not None:
                self._refuse_taken(connection, name, digest)
            now = periods.now_after(last.time)
            if self.periods is not None or not replay.affords(self.budget, spent, cost):
                room = self._room(last, spent, now)
                if not periods.fits(cost, room):
                    raise self._too_expensive(cost, room)
            total = replay.added(self.budget, spent, cost)
            facts: Record = {
                "name": name,
                "plan": plan,
                "plan_hash": digest,
                "unit": unit.to_dict(),
                "guarantee": guarantee.to_dict(),
                "cost": cost.to_dict(),
                "spent": total.to_dict(),
            }
            if edition is not None:
                facts["edition"] = edition
            if ticks is not None:
                facts["ticks"] = ticks
            if account is not None:
                facts |= self._charge(connection, account, facts, cost, now, approval)
            if "period" in last.body:
                recent = periods.carried(last.body["period"], last.time, now)
                lately = periods.plus(guarantee_from(recent["spent"]), cost)
                facts["period"] = {**recent, "spent": lately.to_dict()}
            entry = records.append(connection, last, "reserve", facts, self._private_key(last), time=now)
            self._vouch(connection, total)
            return entry

        entry = self._database.write(write)
        self._database.saw(entry.head)
        return Reservation(entry.position, entry.hash, name, cost, digest)

    def commit(
        self,
        reservation: Reservation,
        content: bytes,
        *,
        facts: dict[str, object],
        ticks: Collection[int] | None = None,
    ) -> Entry:
        """Stores what was released under a reservation, with public facts about it, in one transaction.

        `ticks`: it was made of these ticks of a series, and no other was published meanwhile. Otherwise it has noise of its own, and is refused for a series: a part is shown with one noise.
        A tick that is on its way when the final table is stored is lost: the table says so, and it is refused here.
        """
        digest = sha256(content)

        def store(connection: Connection) -> Entry:
            entry = self._reserved(connection, reservation)
            # before the lock of a server: this may take a while
            records.write_parts(connection, reservation.position, content)
            last, spent = self._turn(connection)
            if (ticks is not None) != (replay.ticks_of(entry) is not None):
                raise LedgerError(
                    "a series is published tick by tick, and nothing else is",
                    given=f"entry {reservation.position}",
                    needed="the final table of its ticks",
                )
            if ticks is not None:
                begun = records.looked_up(connection, _series_key(reservation))
                there = {one.body["tick"] for one in begun if records.commit_of(connection, one.position)}
                if there != set(ticks):
                    raise LedgerError(
                        "a tick was published meanwhile",
                        given=f"entry {reservation.position}",
                        needed="the final table of all that were published",
                    )
            elif entry.kind == "tick":
                self._refuse_over(connection, entry.body["series"], entry.body["tick"])
            body = {
                "reservation": reservation.position,
                "reservation_hash": reservation.hash,
                "size": len(content),
                "sha256": digest,
                "facts": facts,
            }
            written = records.append(connection, last, "commit", body, self._private_key(last))
            self._vouch(connection, spent)
            return written

        entry = self._database.write(store)
        self._database.saw(entry.head)
        return entry

    # Series: a plan that is run tick by tick

    def begin(self, series: Reservation, tick: int, *, after: Collection[int] | None = None) -> Reservation:
        """Writes down that a tick of a series is about to be drawn: once, whatever becomes of it. Spends nothing.

        When this returns it is on disk. What is drawn is then committed under the reservation that comes back.
        `after`: where ticks must come in their order, those that were begun when the data was read. Then it comes later than all of
        them, and none was begun meanwhile.
        """
        tick = whole("tick", tick, least=0)

        def write(connection: Connection, last: Entry, now: datetime) -> Record:
            entry = records.entry_at(connection, series.position)
            ticks = None if entry is None else replay.ticks_of(entry)
            if entry is None or entry.hash != series.hash or ticks is None or tick >= ticks:
                raise LedgerError(
                    "the ledger has no such tick",
                    given=told(tick=f"{tick}"),
                    needed=f"a tick from 0 to {ticks - 1}" if ticks else "a series of this ledger",
                )
            self._refuse_over(connection, series.position, tick)
            begun = {one.body["tick"] for one in records.looked_up(connection, _series_key(series))}
            if tick in begun:
                raise LedgerError(
                    "this tick was begun before: it is published, on its way, or lost; it is never drawn again",
                    given=told(tick=f"{tick}"),
                    needed="a tick that was not begun",
                )
            if after is not None and (begun != set(after) or max(begun, default=-1) > tick):
                raise LedgerError(
                    "another tick of the series was begun meanwhile, and they come in their order",
                    given=told(tick=f"{tick}"),
                    needed="one process after the other",
                    fix="publish it again, if it is the next one",
                )
            return {"series": series.position, "series_hash": series.hash, "tick": tick}

        entry = self._write("tick", write)
        return Reservation(entry.position, entry.hash, series.name, series.cost, series.plan_hash)

    def _refuse_over(self, connection: Connection, series: int, tick: int) -> None:
        if records.commit_of(connection, series) is not None:
            raise LedgerError(
                "the series is over: its final table is stored",
                given=told(tick=f"{tick}"),
                needed="a series that is open",
            )

    def ticks(self, series: Reservation) -> dict[int, Stored]:
        """The ticks of a series that were begun; those without a commit are on their way, or lost."""
        with self._database.reading() as connection:
            if schema_of(connection, self._database.place) < 3:
                return {}
            begun = list(records.looked_up(connection, _series_key(series), "ASC"))
            found = {entry.body["tick"]: self._stored(connection, entry) for entry in begun}
        return {tick: stored for tick, stored in sorted(found.items()) if stored is not None}

    # Accounts

    def grant(
        self,
        account: str,
        amount: Guarantee,
        *,
        per: str | None = None,
        unused: str = "lapses",
        approve_above: Guarantee | None = None,
        by: str | None = None,
    ) -> Entry:
        """Lets an account spend so much in all, or so much each period, within the budget of the ledger.

        A later grant replaces the terms; what the account has spent still counts. `approve_above`: a reservation that costs more
        needs an approval by somebody else. `by` says who decided.
        """
        account, amount = printable("account", account), periods.amount_of("amount", amount, self.budget)
        by = None if by is None else printable("by", by)
        periods.chosen(per=per or "month", unused=unused)
        if approve_above is not None and not (
            isinstance(approve_above, Guarantee) and replay.same_currency(approve_above, self.budget)
        ):
            raise ParameterError(
                "approve_above is not in the currency of the ledger",
                given=shown(approve_above),
                fix=setting(approve_above=self.budget.unconditional),
            )
        terms = accounts.terms_of(amount, per, unused, approve_above, by)

        def write(connection: Connection, last: Entry, now: datetime) -> Record:
            key, before, paid = f"account {account}", None, []
            for entry in records.looked_up(connection, key):
                self._refuse_forged(connection, entry)
                before = before or entry.body["account"]
                if entry.cost is not None:
                    if per is None or periods.number_of(per, entry.time) != periods.number_of(per, now):
                        break
                    paid.append((entry.time, entry.cost))
            zero = periods.nothing(self.budget)
            state = accounts.granted(account, before, last.position + 1, per, now, paid, zero)
            return {"account": state, "terms": terms}

        return self._write("grant", write)

    def revoke(self, account: str, *, by: str | None = None) -> Entry:
        """Takes a grant back: the account spends nothing more, until there is another grant."""
        account, by = printable("account", account), None if by is None else printable("by", by)

        def write(connection: Connection, last: Entry, now: datetime) -> Record:
            state, _ = self._granted(connection, account)
            return {"account": accounts.revoked(state.body["account"]), "by": by}

        return self._write("revoke", write)

    def approve(
        self,
        account: str,
        *,
        plan: dict[str, object],
        unit: Unit,
        guarantee: Guarantee,
        by: str,
        edition: str | None = None,
    ) -> Entry:
        """Lets an account reserve this very plan once, though it costs more than it may spend alone. Spends nothing."""
        return self._decide("approve", account, plan, unit, guarantee, by, edition, {})

    def decline(
        self,
        account: str,
        *,
        plan: dict[str, object],
        unit: Unit,
        guarantee: Guarantee,
        by: str,
        edition: str | None = None,
        why: str | None = None,
    ) -> Entry:
        """Writes down that a plan was not approved."""
        said = {"why": None if why is None else printable("why", why)}
        return self._decide("decline", account, plan, unit, guarantee, by, edition, said)

    def account(self, name: str) -> Account | None:
        """The account of this name; None if there never was a grant for it."""
        name = printable("name", name)
        with self._database.reading() as connection:
            if schema_of(connection, self._database.place) < 3:
                return None
            now = periods.now_after(self._checked_last(connection)[0].time)
            return self._account(connection, name, now)

    def accounts(self) -> list[Account]:
        """Every account that was ever granted something, in the order of their first grants."""
        with self._database.reading() as connection:
            now = periods.now_after(self._checked_last(connection)[0].time)
            rows = records.all_rows(connection, "grant")
            names = dict.fromkeys(str(records.checked(row).account) for row in list(rows))
            found = [self._account(connection, name, now) for name in names]
        return [account for account in found if account is not None]

    def answered(
        self, plan: dict[str, object], edition: str, *, accounts: Iterable[str] | None = None
    ) -> Stored | None:
        """The first release of this very plan and edition that was committed: the same question has the same answer, free.

        `accounts`: of these accounts alone.
        """
        key = f"question {plan_hash(plan)} {printable('edition', edition)}"
        among = None if accounts is None else set(accounts)
        with self._database.reading() as connection:
            if schema_of(connection, self._database.place) < 3:
                return None
            for entry in records.looked_up(connection, key, "ASC"):
                if among is None or entry.account in among:
                    stored = self._stored(connection, entry)
                    if stored is not None and stored.committed is not None:
                        return stored
        return None

    def find(self, name: str) -> Stored | None:
        """The release that was reserved under `name`, finished or not."""
        with self._database.reading() as connection:
            return self._stored(connection, named(connection, name))

    def find_entry(self, position: int) -> Stored | None:
        """The release that was reserved, or committed, as the entry of this number: also one without a name."""
        with self._database.reading() as connection:
            entry = records.entry_at(connection, whole("position", position, least=0, most=2**62))
            if entry is not None and entry.kind == "commit":
                entry = records.entry_at(connection, entry.body["reservation"])
            return self._stored(connection, entry)

    def refuse_used(self, name: str, plan: dict[str, object]) -> None:
        """Raises NameTakenError where `reserve` would: before anybody reads data for nothing. Spends nothing."""
        with self._database.reading() as connection:
            self._refuse_taken(connection, name, plan_hash(plan))

    # Signing

    @property
    def public_key(self) -> str:
        """The public key that is in force: hex of the raw Ed25519 key."""
        return str(self._last().body["key"])

    def keys(self) -> list[PublicKey]:
        """All public keys, in order, with the entries that brought them in."""
        with self._database.reading() as connection:
            rows = list(records.all_rows(connection, "create", "key"))
        return [PublicKey(row.position, records.entry_of(row).body["key"]) for row in rows]

    def signer(self, written: Entry | None = None) -> tuple[str, Callable[[bytes], bytes]]:
        """The public key in force, and what signs with it. `written`: an entry of a moment ago, which names the key already."""
        if written is not None:
            with suppress(LedgerError):  # the key was changed since: the ledger says which one it is
                return written.body["key"], self._private_key(written).sign
        last = self._last()
        return last.body["key"], self._private_key(last).sign

    @takes(message=bytes)
    def sign(self, message: bytes) -> bytes:
        """Signs a message that is not an entry, such as a certificate."""
        if message.startswith(TAG.encode()):
            raise ParameterError(
                "message looks like an entry of a ledger", needed="a message of another form"
            )
        return self._private_key(self._last()).sign(message)

    def rotate_key(self) -> PublicKey:
        """Replaces the private key. The change is an entry, signed by the old key; the old key is then gone."""
        with self._database.writing() as connection:
            last, _ = self._turn(connection)
            old, new = self._private_key(last), Ed25519PrivateKey.generate()
            public, path = keys.public_half(new), keys.replaceable(self._key_path)
            keys.discard_pending(path)
            keys.write_pending(path, new)  # on disk before the entry that names it
            facts = {"key": public, "replaces": last.body["key"]}
            entry = records.append(connection, last, "key", facts, old, new)
        self._database.saw(entry.head)
        keys.promote(path, public)
        return PublicKey(entry.position, public)

    # The whole account

    def history(self) -> list[Entry]:
        """Every entry, from the first."""
        with self._database.reading() as connection:
            return [records.entry_of(row) for row in records.all_rows(connection)]

    def head(self) -> Head:
        """The last entry in one line. Keep it elsewhere: it shows later whether a tail was cut off."""
        return self._last().head

    @takes(expected=Head)
    def verify(self, expected: Head | None = None) -> Verification:
        """Checks every entry and all stored content, and that `expected`, a head kept elsewhere, is in the chain."""
        return copies.verify(self._database, self._key_path, expected)

    def export_dict(self) -> Record:
        """All entries, the head and the public keys, for others to check; not what was released."""
        return copies.export_of(self.history())

    @takes(path=path_of)
    def export(self, path: PathLike) -> Head:
        """Writes `export_dict` as JSON; `verify_export` checks such a file. Returns the head that it ends with."""
        record = self.export_dict()
        copies.write_export(record, path, spare=self._files())
        return Head(**record["head"])

    @takes(path=path_of)
    def backup(self, path: PathLike) -> None:
        """A consistent copy as a new SQLite file, with all releases. The private key is not copied."""
        copies.backup(self._database, path, spare=self._files())

    @property
    def schema(self) -> int:
        """How the ledger is kept. One of an older oboro can be read, and spent from once it is upgraded."""
        with self._database.reading() as connection:
            return schema_of(connection, self._database.place)

    @takes(backup=path_of)
    def upgrade(self, backup: PathLike) -> Entry:
        """Upgrades the ledger of an older oboro, for good, and says so in the chain. Older versions refuse it then.

        All of it is verified first, and copied to `backup`, a new file, as `Ledger.backup` does; then everything
        happens in one transaction. No process of an older oboro may have the ledger open.
        """
        self.verify()
        self._database.end_log()
        with self._database.writing() as connection:
            last, _ = self._turn(connection, older=True)
            facts = creation.upgrade_facts(connection, self._database.place)
            key = self._private_key(last)  # before the copy: what is refused leaves nothing behind
            copies.copy(self._database.place, connection, backup, spare=self._files())
            entry = records.append(connection, last, "upgrade", facts, key)
            schema.state(connection, facts["schema"])
        self._database.saw(entry.head)
        return entry

    def close(self) -> None:
        """Closes idle connections. The ledger may still be used; it then opens new ones."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.where!r}, dataset={self.dataset!r}, unit={self.unit!r}, budget={self.budget!r})"

    def _decide(
        self,
        kind: str,
        account: str,
        plan: dict[str, object],
        unit: Unit,
        guarantee: Guarantee,
        by: str,
        edition: str | None,
        more: Record,
    ) -> Entry:
        asker, decider = printable("account", account), printable("by", by)
        if replay.same_person(asker, decider):
            raise ParameterError(
                "by is the one who asked: another must decide",
                given=told(by=repr(by)),
                needed="somebody else",
                fix=setting(by="steward" if not replay.same_person(asker, "steward") else "another steward"),
            )
        facts: Record = {
            "asker": asker,
            "plan_hash": plan_hash(plan),
            "edition": None if edition is None else printable("edition", edition),
            "cost": self.price(unit, guarantee).to_dict(),
            "by": decider,
            **more,
        }

        def write(connection: Connection, last: Entry, now: datetime) -> Record:
            self._granted(connection, asker)
            return facts

        return self._write(kind, write)


def _series_key(series: Reservation) -> str:
    return f"series {series.position}"
