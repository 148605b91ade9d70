"""The ledger: what has been spent about one named dataset, for one unit, and what may still be."""

from __future__ import annotations

import os
import shlex
import unicodedata
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oboro._version import __version__
from oboro.errors import BudgetError, LedgerError, NameTakenError, ParameterError, setting, told
from oboro.exact import whole
from oboro.files import BESIDE_SQLITE, reads
from oboro.kinds import path_of, shown, takes
from oboro.language import plain, without_password
from oboro.ledger import copies, keys, records, replay, schema
from oboro.ledger import copies as checking
from oboro.ledger.chain import TAG, Entry, Head, canonical, plan_hash, root_of, sha256, signer_of
from oboro.ledger.database import Connection, Database
from oboro.ledger.file import Place
from oboro.ledger.keys import PublicKey
from oboro.ledger.records import Reservation, Stored, tampered
from oboro.ledger.replay import Verification
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.records import Record

# Making a ledger, recognising one, and upgrading one of an older oboro.
#
# A ledger is made in one transaction, on either database: a creation that is killed leaves nothing behind
# but perhaps an empty file, which is taken up when it is tried again, and a key that is of no use. Of two who
# create the same ledger at once, one wins and the other is told that it exists.

_CREATING = 0x6F626F726F  # the advisory lock that creators on one PostgreSQL database take turns with


def create(
    place: Place, *, dataset: str, unit: Unit, budget: Guarantee, key: str | os.PathLike[str] | None
) -> tuple[Database, Path, Entry]:
    """A new ledger with its first entry."""
    dataset = printable("dataset", dataset)
    if not isinstance(unit, Unit):
        raise ParameterError(
            "unit is not a unit",
            given=repr(unit)[:80],
            needed="who is protected",
            fix=setting(unit=Unit.row()),
        )
    replay.checked_budget(budget)
    assumed = f"{budget} {unit}"
    if without_password(assumed) != assumed:
        raise ParameterError(
            "the budget or the unit holds an address with a password",
            given="not shown: it may hold a password",
            needed="words that anybody may read: they are written down for good",
        )
    if place.path is not None and not place.path.parent.is_dir():
        raise LedgerError(
            "the folder does not exist",
            given=place.shown,
            fix=f"mkdir -p {shlex.quote(str(place.path.parent))}",
        )
    ledger_id = uuid.uuid4().hex
    key_path = place.key_path(ledger_id, key)
    if place.path is not None and not place.path.exists():
        keys.refuse_used(key_path, pending=True)  # before an empty file is there
    database = Database(place, create=True)
    with database.writing() as connection:
        _claim(connection, place)
        schema.create(connection, ledger_id)
        # on disk before the entry that names it
        private = keys.make(key_path, alone=place.path is not None and key is None)
        facts = {
            "id": ledger_id,
            "schema": schema.VERSION,
            "dataset": dataset,
            "unit": unit.to_dict(),
            "budget": budget.to_dict(),
            "spent": replay.nothing(budget).to_dict(),
            "key": keys.public_half(private),
        }
        first = records.append(connection, None, "create", facts, private)
    keys.promote(key_path, keys.public_half(private))
    return database, key_path, first


def recognise(place: Place) -> tuple[Database, Entry]:
    """An existing ledger and its first entry. Refuses what is not a ledger, or is from a newer oboro."""
    if place.path is not None and not place.path.exists():
        raise LedgerError(
            "there is no ledger here",
            given=place.shown,
            fix=f"oboro ledger create {shlex.quote(place.shown)} --dataset TEXT --unit UNIT --eps NUMBER",
        )
    database = Database(place)
    with database.reading() as connection:
        if not _has_ledger(connection):
            raise LedgerError(
                "this is not a ledger, or its creation was cut short",
                given=place.shown,
                fix="if it is empty, a ledger can be created in it again",
            )
        schema_of(connection, place)
        first = records.first_entry(connection)
        database.saw(records.furthest(connection))
    database.end_log()
    return database, first


def schema_of(connection: Connection, place: Place) -> int:
    """The schema of a ledger, if this version of oboro knows it."""
    found = connection.one("SELECT schema FROM oboro_ledger")
    version = found if isinstance(found, int) else 0  # a cell of SQLite holds anything
    if version not in range(1, schema.VERSION + 1):
        raise LedgerError(
            "the ledger was written by a newer oboro"
            if version > schema.VERSION
            else "the ledger is damaged",
            given=f"{place.shown}: schema {version}",
            needed=f"schema {schema.VERSION}",
            fix="pip install --upgrade oboro",
        )
    return int(version)


def refuse_older(connection: Connection, place: Place) -> None:
    """Only the newest schema is written to: what this version promises of a ledger is promised of that."""
    version = schema_of(connection, place)
    if version != schema.VERSION:
        raise LedgerError(
            "the ledger is of an older oboro: it can be read, and spent from once it is upgraded",
            given=f"{place.shown}: schema {version}",
            needed=f"schema {schema.VERSION}",
            fix=f"oboro ledger upgrade {shlex.quote(place.shown)}",
        )


def upgrade_facts(connection: Connection, place: Place) -> Record:
    """What an entry says about the upgrade of a ledger to the newest schema."""
    version = schema_of(connection, place)
    if version == schema.VERSION:
        raise LedgerError(
            "there is nothing to upgrade",
            given=f"{place.shown}: schema {version}",
            needed="a ledger of an older oboro",
        )
    return {"from": version, "schema": schema.VERSION, "software": f"oboro {__version__}"}


def _named(connection: Connection, name: str) -> Entry | None:
    """The entry of this name. Ledgers of 0.1 have names that are not composed or trimmed: those are found as they are."""
    as_it_is = records.entry_named(connection, name) if isinstance(name, str) and name.isprintable() else None
    return as_it_is or records.entry_named(connection, printable("name", name))


def printable(name: str, value: str) -> str:
    """A text that people can read, type and tell apart: composed (NFC), trimmed, and all of it seen."""
    written = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not 1 <= len(written) <= 200 or plain(written) != written or without_password(written) != written:
        raise ParameterError(
            f"{name} cannot be used",
            given=told(**{name: shown(value)})
            if without_password(written) == written
            else "an address with a password",
            needed="1 to 200 characters that are seen, with one space at a time",
            fix=setting(**{name: "city 2026"}),
        )
    return written


def _claim(connection: Connection, place: Place) -> None:
    """Makes sure that nothing is there yet, and that no other creator is at work."""
    if not connection.sqlite:
        connection.one("SELECT pg_advisory_xact_lock(:key)", key=_CREATING)
    if _has_ledger(connection):
        raise LedgerError(
            "the ledger exists already",
            given=place.shown,
            needed="a new place",
            fix=f"oboro ledger show {shlex.quote(place.shown)}",
        )
    if connection.sqlite and schema.found(connection):
        raise LedgerError("the file is a database of something else", given=place.shown, fix='"a new path"')


def _has_ledger(connection: Connection) -> bool:
    return "oboro_ledger" in schema.found(connection)


PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
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

    where: str
    id: str
    dataset: str
    unit: Unit
    budget: Guarantee
    _root: str
    _key_path: Path
    _database: Database = field(repr=False)

    @classmethod
    def create(
        cls, where: PathLike, *, dataset: str, unit: Unit, budget: Guarantee, key: PathLike | None = None
    ) -> Ledger:
        """A new ledger. The kind of the budget is the currency for good; a path means SQLite, a URL PostgreSQL."""
        place = Place.of(where)
        database, key_path, first = create(place, dataset=dataset, unit=unit, budget=budget, key=key)
        return cls._from(place, database, key_path, first)

    @classmethod
    def open(cls, where: PathLike, *, key: PathLike | None = None) -> Ledger:
        """An existing ledger. `key` is the path of its private key, if that is not in its usual place."""
        place = Place.of(where)
        database, first = recognise(place)
        return cls._from(place, database, place.key_path(first.body["id"], key), first)

    @classmethod
    def _from(cls, place: Place, database: Database, key_path: Path, first: Entry) -> Ledger:
        body = first.body
        reads(key_path)
        return cls(
            where=place.shown,
            id=body["id"],
            dataset=body["dataset"],
            unit=unit_from(body["unit"]),
            budget=guarantee_from(body["budget"]),
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

    def price(self, unit: Unit, guarantee: Guarantee) -> Guarantee:
        """What a plan would cost here. Spends nothing; refused where no proved rule gives a price."""
        return replay.price(unit, guarantee, self.unit, self.budget)

    def affords(self, cost: Guarantee) -> bool:
        """Whether a cost about the ledger's unit could be paid now. Others may be quicker: only `reserve` decides.

        Raises LedgerError if the ledger must be upgraded first.
        """
        cost = self.price(self.unit, cost)
        with self._database.reading() as connection:
            refuse_older(connection, self._database.place)
            return replay.affords(self.budget, self._checked_last(connection)[1], cost)

    def reserve(
        self, *, plan: dict[str, object], unit: Unit, guarantee: Guarantee, name: str | None = None
    ) -> Reservation:
        """Pays for a plan before it runs. When this returns, the cost is on disk and is never given back.

        Raises BudgetError if the budget does not cover it and NameTakenError if the name was used; then
        nothing is spent.
        """
        if name is not None:
            name = printable("name", name)
        digest, cost = plan_hash(plan), self.price(unit, guarantee)
        if replay.states_otherwise(plan, unit, guarantee):
            raise ParameterError(
                "the record of the plan states another unit or guarantee than is to be paid for",
                given=f"{guarantee}, for {unit}",
                needed="those of the plan",
            )

        def pay(connection: Connection) -> Entry:
            last, spent = self._turn(connection)
            if name is not None:
                self._refuse_taken(connection, name, digest)
            if not replay.affords(self.budget, spent, cost):
                raise self._too_expensive(cost, spent)
            facts = {
                "name": name,
                "plan": plan,
                "plan_hash": digest,
                "unit": unit.to_dict(),
                "guarantee": guarantee.to_dict(),
                "cost": cost.to_dict(),
                "spent": replay.added(self.budget, spent, cost).to_dict(),
            }
            return records.append(connection, last, "reserve", facts, self._private_key(last))

        entry = self._database.write(pay)
        self._database.saw(entry.head)
        return Reservation(entry.position, entry.hash, name, cost, digest)

    def commit(self, reservation: Reservation, content: bytes, *, facts: dict[str, object]) -> Entry:
        """Stores what was released under a reservation, with public facts about it, in one transaction."""
        canonical(facts, "facts")
        digest = sha256(content)

        def store(connection: Connection) -> Entry:
            self._refuse_foreign(connection, reservation)
            # before the lock of a server: this may take a while
            records.write_parts(connection, reservation.position, content)
            last, _ = self._turn(connection)
            body = {
                "reservation": reservation.position,
                "reservation_hash": reservation.hash,
                "size": len(content),
                "sha256": digest,
                "facts": facts,
            }
            return records.append(connection, last, "commit", body, self._private_key(last))

        entry = self._database.write(store)
        self._database.saw(entry.head)
        return entry

    def find(self, name: str) -> Stored | None:
        """The release that was reserved under `name`, finished or not."""
        with self._database.reading() as connection:
            return self._stored(connection, _named(connection, name))

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
        return checking.verify(self._database, self._key_path, expected)

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
            facts = upgrade_facts(connection, self._database.place)
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

    # Helpers

    def _stored(self, connection: Connection, reserved: Entry | None) -> Stored | None:
        if reserved is None or reserved.kind != "reserve":
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
        if root_of(last) != self._root:
            raise tampered(0, "it is not the first entry that the history rests on")
        spent = last.spent
        if not replay.within(self.budget, spent):
            raise tampered(last.position, "its running total is none that the budget allows")
        self._database.saw(last.head)
        return last, spent

    def _turn(self, connection: Connection, *, older: bool = False) -> tuple[Entry, Guarantee]:
        """The last entry, which nobody else can append to before this transaction ends, and what has been spent by it."""
        found = self._checked_last(connection, lock=True)
        if not older:
            refuse_older(connection, self._database.place)
        return found

    def _private_key(self, last: Entry) -> Ed25519PrivateKey:
        return keys.load_current(self._key_path, last.body["key"])

    def _refuse_taken(self, connection: Connection, name: str, digest: str) -> None:
        taken = _named(connection, name)
        if taken is None:
            return
        fix: str
        if taken.body["plan_hash"] != digest:
            message, fix = "the name belongs to another plan", setting(name="another name")
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
        for row in reversed(list(records.all_rows(connection, "key"))):
            change = records.checked(row)
            if change.body["key"] in ours:  # the newer key has signed this too: it vouches for the older
                ours.add(signer_of(change))
        for entry in entries:
            if signer_of(entry) not in ours or root_of(entry) != self._root:
                raise tampered(entry.position, "it is not signed by a key of this ledger")

    def _refuse_foreign(self, connection: Connection, reservation: Reservation) -> None:
        entry = records.entry_at(connection, reservation.position)
        if entry is None or (entry.kind, entry.hash) != ("reserve", reservation.hash):
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

    def _too_expensive(self, cost: Guarantee, spent: Guarantee) -> BudgetError:
        return BudgetError(
            "the budget does not cover the plan; nothing was spent",
            given=f"a cost of {cost.unconditional}",
            needed=f"at most what remains, {replay.remaining(self.budget, spent).unconditional}, "
            f"of a budget of {self.budget.unconditional}",
            fix="a plan that costs less, or a new ledger if more may be spent about these people",
        )
