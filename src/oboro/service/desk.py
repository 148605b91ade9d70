"""Where questions are admitted. Refusals are by public facts alone and come before anything is reserved; afterwards there are none."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from oboro.errors import LedgerError, OboroError, PaidError, ParameterError
from oboro.ledger.accounts import Account
from oboro.ledger.chain import sha256
from oboro.privacy import Guarantee, Pure
from oboro.release import plan_from
from oboro.release.run import Quote, reserve
from oboro.service import answers, jobs, slots
from oboro.service import database as schema
from oboro.service.database import Database, now
from oboro.service.edition import Opened
from oboro.service.people import Person
from oboro.service.questions import Question, Shape, canonical_question, digest_of, plan_of
from oboro.service.settings import Settings
from oboro.service.slots import Slot

T = TypeVar("T")
_FRESH = 2.0  # seconds that it may take until a grant is seen; what is paid is decided by the ledger itself


class Conflict(OboroError):
    """The same key with another question."""


class Crowded(OboroError):
    """Too many questions at once."""


class Unknown(OboroError):
    """There is no such thing here, or not for whoever asks: nobody can tell which."""


class Forbidden(OboroError):
    """Not for this role."""


class Recent(Generic[T]):
    """What was made lately, by its key; the oldest goes first."""

    def __init__(self, most: int, weigh: Callable[[T], int] = lambda _: 1) -> None:
        self._most, self._weigh, self._held = most, weigh, 0
        self._found: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> T | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        return None

    def put(self, key: object, value: T) -> T:
        with self._lock:
            if key not in self._found:
                self._held += self._weigh(value)
            self._found[key] = value
            while self._held > self._most and len(self._found) > 1:
                _, old = self._found.popitem(last=False)
                self._held -= self._weigh(old)
        return value


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the quote that was made of it, and what it is recognised by."""

    question: str
    quote: Quote
    shape: Shape
    digest: str


class Desk:
    """Admits questions to the datasets that are open, and says what became of them."""

    def __init__(
        self, settings: Settings, database: Database, datasets: list[Opened], owner: str | None = None
    ) -> None:
        """`owner`: who pays from the datasets' budgets themselves, without an account: the steward of one machine."""
        self.settings, self.database, self.owner = settings, database, owner
        self.front = jobs.front_of(settings.file)
        self.datasets = {one.facts.dataset: one for one in datasets}
        self._asked: Recent[Asked] = Recent(2_000)
        self._answers: Recent[bytes] = Recent(1 << 28, len)
        self._shares: dict[str, tuple[float, dict[str, Account | None]]] = {}
        self._slots: dict[str, tuple[float, dict[Shape, Slot]]] = {}
        with database.writing() as connection:
            for number in range(settings.workers):  # another front may be doing the same
                connection.execute(_LANE, {"number": number})

    def serve(self, opened: Opened) -> None:
        """One dataset more, while others are asked about."""
        self.datasets = {**self.datasets, opened.facts.dataset: opened}
        self.forget_grants()

    # Who may see what

    def dataset(self, name: str, person: Person) -> Opened:
        """A dataset, if it is there for this person. One that is not there and one that is not for them are alike: what is looked up does
        not depend on the name."""
        if name not in self._seen(person):
            raise Unknown("there is no such dataset", needed="a dataset that was granted to you")
        return self.datasets[name]

    def visible(self, person: Person) -> list[Opened]:
        seen = self._seen(person)
        return [one for name, one in self.datasets.items() if name in seen]

    def _seen(self, person: Person) -> Container[str]:
        """The names of the datasets that are there for somebody."""
        if person.role != "analyst":
            return self.datasets
        shares = self._shares_of(person.name)
        return {name for name, one in shares.items() if one is not None and one.granted is not None}

    def _shares_of(self, name: str) -> dict[str, Account | None]:
        """Somebody's accounts in all datasets, as they were a moment ago: who sees what, and who needs approval. What is paid is decided by
        the ledger itself."""
        seen, shares = self._shares.get(name, (-_FRESH, {}))
        if time.monotonic() - seen >= _FRESH:
            shares = {dataset: one.ledger.account(name) for dataset, one in self.datasets.items()}
            self._shares[name] = (time.monotonic(), shares)
        return shares

    def is_fresh(self, dataset: str, person: Person) -> bool:
        """Whether all is known here that a forecast needs, and no database has to be asked. Of a dataset that is not for them it never is."""
        fresh = time.monotonic() - _FRESH
        if self._shares.get(person.name, (0.0, {}))[0] <= fresh or dataset not in self._seen(person):
            return False
        return self._slots.get(dataset, (0.0, {}))[0] > fresh

    def forget_grants(self) -> None:
        self._shares.clear()

    def slot(self, dataset: str, shape: Shape) -> Slot:
        """The slot of a question, as it was a moment ago."""
        seen, found = self._slots.get(dataset, (-_FRESH, {}))
        if time.monotonic() - seen >= _FRESH:
            with self.database.reading() as connection:
                found = slots.all_of(connection, dataset)
            self._slots[dataset] = (time.monotonic(), found)
        return slots.fitting(found, shape)

    # What a question would cost, and how exact its answer would be

    def quoted(self, opened: Opened, question: Question) -> Asked:
        """The plan that the server makes of a question, and what it would cost. Free; touches no data."""
        text = canonical_question(question)
        key = (opened.facts.dataset, text)
        if (found := self._asked.get(key)) is not None:
            return found
        plan, shape = plan_of(question, opened.facts)
        cost = opened.ledger.price(plan.unit, plan.guarantee)
        record = plan.to_dict()
        quote = Quote(plan, record, plan.describe(), plan.forecast(), cost)
        return self._asked.put(key, Asked(text, quote, shape, digest_of(record, opened.facts.edition)))

    # Asking

    def ask(
        self,
        person: Person,
        opened: Opened,
        question: Question,
        key: str | None = None,
        *,
        free: bool = False,
    ) -> jobs.Row:
        """Admits a question, or gives the job that it already is. Raises before anything is reserved, or not at all.

        `free`: whoever asks was told that it costs nothing. If it does by now, it is refused.
        """
        asked = self.quoted(opened, question)
        body = sha256(f"{opened.facts.dataset}\n{asked.question}".encode())
        for _ in range(3):
            if key is not None and (known := self._by_key(person.name, key, body)) is not None:
                return known
            if (same := self._same(person.name, opened, asked, key, body)) is not None:
                return same
            if free:
                raise Conflict(
                    "this is not free any more: what was asked before is gone; nothing was spent",
                    needed="another look at the price",
                )
            approval = self.needs_approval(opened, person.name, asked.quote.cost)
            # what needs no approval is paid at once, and refused there if it cannot be
            if approval and not opened.ledger.affords(asked.quote.cost, account=self._payer(person.name)):
                self._refuse_unaffordable(opened, person.name, asked)
            state = "waiting" if approval else "asked"
            number = self._write(person.name, opened, asked, state, key, body, through=person.through)
            if number is not None:
                break
        else:
            raise Crowded("the same question is being asked at this moment", needed="a little patience")
        return self._found(number) if approval else self._admit(number, opened, asked, person.name)

    def approve(self, steward: Person, job: jobs.Row) -> jobs.Row:
        """Admits a question that waits, by a steward who did not ask it; the approval is an entry of the ledger.

        What was asked of another edition, or under another declaration, is not what would be answered: it is asked again.
        """
        opened = self._waiting(steward, job)
        if job.through == steward.name:
            raise ParameterError(
                "whoever made the token or the password that a question was asked with does not approve it",
                given=steward.name,
                needed="a steward who could not have asked it",
            )
        asked = self.quoted(opened, json.loads(job.question))
        self.refuse_outdated(job, asked)
        if not opened.ledger.affords(asked.quote.cost, account=self._payer(job.account)):
            self._refuse_unaffordable(opened, job.account, asked)  # it goes on waiting
        if not self._move(job.id, "waiting", state="asked", by=steward.name, worker=self.front, beat=now()):
            raise Conflict("the question does not wait any more", needed="one that waits for approval")
        plan, record = asked.quote.plan, asked.quote.record
        try:
            entry = opened.ledger.approve(
                job.account,
                plan=record,
                unit=plan.unit,
                guarantee=plan.guarantee,
                by=steward.name,
                edition=opened.facts.edition,
            )
        except OboroError:
            self._wait_again(job.id)
            raise
        return self._admit(job.id, opened, asked, job.account, entry.position)

    def refuse_outdated(self, job: jobs.Row, asked: Asked) -> None:
        """Refuses what was asked of other data, or of another plan, than would be answered now."""
        if asked.digest != job.digest:  # a worker would refuse to run it, when it is paid for
            raise Conflict(
                "the dataset is another by now than when the question was asked; nothing was spent",
                needed="a declaration and an edition that did not change",
                fix="decline it, so that it can be asked again",
            )

    def decline(self, steward: Person, job: jobs.Row, why: str | None = None) -> jobs.Row:
        """Refuses a question that waits. Nothing was spent, and nothing is."""
        opened = self._waiting(steward, job)
        record = json.loads(
            job.plan
        )  # as it was asked: a declaration that changed since keeps nobody from saying no
        plan = plan_from(record)
        why = None if why is None else why.replace("\x00", "")  # PostgreSQL has no such sign
        if not self._move(job.id, "waiting", state="declined", by=steward.name, why=why):
            raise Conflict("the question does not wait any more", needed="one that waits for approval")
        opened.ledger.decline(
            job.account,
            plan=record,
            unit=plan.unit,
            guarantee=plan.guarantee,
            by=steward.name,
            edition=opened.facts.edition,
            why=why or None,
        )
        return self._found(job.id)

    def _waiting(self, steward: Person, job: jobs.Row) -> Opened:
        if job.state != "waiting":
            raise Conflict("the question does not wait any more", needed="one that waits for approval")
        if steward.name == job.account:
            raise ParameterError(
                "nobody approves a question of their own",
                given=steward.name,
                needed="a steward who did not ask it",
            )
        return self.datasets[job.dataset]

    # What became of it

    def job(self, number: str, person: Person) -> jobs.Row:
        """A job, for whoever asked it and for stewards."""
        with self.database.reading() as connection:
            row = jobs.find(connection, number)
        if (
            row is None
            or (person.role != "steward" and row.account != person.name)
            or row.dataset not in self.datasets
        ):
            raise Unknown("there is no such question", needed="the id of a question that you asked")
        return row

    def listed(self, person: Person, *, waiting: bool = False, most: int = 200) -> list[jobs.Row]:
        """Questions of this person, or for a steward everybody's; the newest first."""
        table = schema.jobs
        query = (
            sa.select(table)
            .where(table.c.dataset.in_(list(self.datasets)))
            .order_by(table.c.asked.desc())
            .limit(most)
        )
        query = query if person.role == "steward" else query.where(table.c.account == person.name)
        with self.database.reading() as connection:
            return list(connection.execute(query.where(table.c.state == "waiting") if waiting else query))

    def leader(self, row: jobs.Row) -> jobs.Row:
        if row.leader is None:
            return row
        with self.database.reading() as connection:
            return jobs.resolved(connection, row)

    def answer(self, row: jobs.Row) -> bytes:
        """The answer of a job that is done, and has left."""
        led = self.leader(row)
        if jobs.state_at(led, now())[0] != "done":
            raise Unknown("there is no answer yet, or none at all", needed="a question that is done")
        if (known := self._answers.get(led.id)) is not None:
            return known
        found = (
            led.answer
            if led.answer is not None
            else answers.stored(self.datasets[led.dataset].ledger, led.entry)
        )
        return self._answers.put(led.id, bytes(found))

    def recover(self, *, others: bool = False) -> None:
        """After a start: what was asked here and not admitted is lost if it was paid for, and was never asked if not. What another front is
        admitting at this moment is left to it, unless it has been silent for long; `others`: that alone."""
        table = schema.jobs
        silent = sa.or_(table.c.beat.is_(None), table.c.beat < now() - jobs.SILENT)
        left = silent if others else sa.or_(table.c.worker == self.front, silent)
        with self.database.reading() as connection:
            rows = list(connection.execute(sa.select(table).where(table.c.state == "asked", left)))
        for row in rows:
            opened = self.datasets.get(row.dataset)
            if opened is None:  # its ledger says whether it was paid for
                continue
            stored = opened.ledger.find(row.id)
            if stored is None and row.by is not None:
                self._wait_again(row.id)
            elif stored is None:
                self._unwrite(row.id)
            else:
                self._lose(row.id, "the service stopped while it was admitted")

    # Helpers

    def _payer(self, name: str) -> str | None:
        return None if name == self.owner else name

    def _same(self, name: str, opened: Opened, asked: Asked, key: str | None, body: str) -> jobs.Row | None:
        """The same question, asked before: by the same analyst, or by anybody where answers are shared."""
        time = now()
        with self.database.reading() as connection:
            asking = {"dataset": opened.facts.dataset, "digest": asked.digest, "time": time}
            rows = list(connection.execute(_SAME, asking))
            # what others asked in private changes nothing that is said here
            if not any(opened.settings.sharing or row.account == name for row in rows):
                self._refuse_crowd(connection, name)
        for row in rows:
            if row.account == name and not self._followed_a_lost(row, time):
                self._note_key(name, key, body, row.id)
                return row
        shared = [row for row in rows if row.state in jobs.SHARED] if opened.settings.sharing else []
        if shared:
            number = self._write(name, opened, asked, "follows", key, body, leader=shared[0].id)
            return None if number is None else self._found(number)
        among = None if opened.settings.sharing or name == self.owner else [name]
        before = opened.ledger.answered(asked.quote.record, opened.facts.edition, accounts=among)
        if before is None:
            return None
        found = {"due": time, "leaves": time, "slot": 1, "entry": before.reserved.position}
        number = self._write(name, opened, asked, "done", key, body, **found)
        return None if number is None else self._found(number)

    def _followed_a_lost(self, row: jobs.Row, time: int) -> bool:
        """Whether the answer that this job waited for is known to be lost. Then it is lost too, and may be asked again."""
        if row.leader is None or jobs.state_at(led := self.leader(row), time)[0] != "lost":
            return False
        self._move(row.id, "follows", state="lost", due=led.due, slot=led.slot, leaves=led.leaves)
        return True

    def _refuse_crowd(self, connection: sa.Connection, name: str) -> None:
        many = connection.execute(_OPEN, {"name": name}).scalar()
        if (many or 0) >= self.settings.limits.waiting:
            raise Crowded(
                "too many of your questions are on their way",
                given=f"{many}",
                needed=f"at most {self.settings.limits.waiting}",
            )

    def needs_approval(self, opened: Opened, name: str, cost: Guarantee) -> bool:
        account = self._shares_of(name).get(opened.facts.dataset)
        limits = [None if account is None else account.approve_above, opened.settings.approve_above]
        budget = opened.ledger.budget
        return any(above(cost, limit, budget) for limit in limits if limit is not None)

    def _refuse_unaffordable(self, opened: Opened, name: str, asked: Asked) -> None:
        """Says what the ledger says, of the budget or of the account: without a reservation."""
        from oboro.errors import BudgetError

        account = opened.ledger.account(name)
        left = opened.ledger.available if account is None else account.available
        raise BudgetError(
            "the budget does not cover this question; nothing was spent",
            given=f"a cost of {asked.quote.cost.unconditional}",
            needed=f"at most what may be spent now: {left} of the account, {opened.ledger.available} of the dataset",
            fix="a smaller eps, or the next period",
        )

    def _admit(
        self, number: str, opened: Opened, asked: Asked, name: str, approval: int | None = None
    ) -> jobs.Row:
        """Pays, and takes a turn. What is refused here was not paid for: it leaves nothing behind, or waits as before if it was approved."""
        edition = opened.facts.edition
        try:
            reservation = reserve(
                asked.quote,
                opened.ledger,
                number,
                account=self._payer(name),
                edition=edition,
                approval=approval,
            )
        except PaidError as error:
            self._lose(number, error.message)
            return self._found(number)
        except OboroError:
            if approval is None:
                self._unwrite(number)
            else:
                self._wait_again(number)
            raise
        written = json.dumps(
            {
                "position": reservation.position,
                "hash": reservation.hash,
                "name": reservation.name,
                "cost": reservation.cost.to_dict(),
                "digest": reservation.plan_hash,
            }
        )
        try:
            return self._queued(number, opened, asked, reservation.position, written)
        except Exception as error:  # it is paid for: there is no refusal any more
            self._lose(number, f"it could not be queued: {type(error).__name__}")
            return self._found(number)

    def _queued(self, number: str, opened: Opened, asked: Asked, entry: int, written: str) -> jobs.Row:
        slot = self.slot(opened.facts.dataset, asked.shape)
        with self.database.writing() as connection:
            due = slots.take_turn(connection, self.settings.workers, slot, now())
            values = {"its_due": due, "its_slot": slot.slot, "its_reservation": written}
            values |= {"number": number, "its_entry": entry}
            return connection.execute(_ADMIT, values).one()

    def _write(
        self, name: str, opened: Opened, asked: Asked, state: str, key: str | None, body: str, **more: object
    ) -> str | None:
        """A new job; None if the same question was written down by another at this moment."""
        number = jobs.new_id()
        values = {
            "id": number, "dataset": opened.facts.dataset, "account": name, "question": asked.question, "digest": asked.digest,
            "plan": json.dumps(asked.quote.record, ensure_ascii=False), "state": state, "asked": now(),
            "cost": json.dumps(asked.quote.cost.to_dict() if state in ("asked", "waiting") else nothing(asked.quote.cost)),
            "kind": asked.shape.kind, "size": asked.shape.size, "worker": self.front, "beat": now(), **more,
        }  # fmt: skip
        try:
            with self.database.single() if key is None else self.database.writing() as connection:
                connection.execute(schema.jobs.insert(), values)
                if key is not None:
                    connection.execute(
                        schema.keys.insert().values(account=name, key=key, body=body, job=number, since=now())
                    )
        except sa.exc.IntegrityError:
            return None
        return number

    def _unwrite(self, number: str) -> None:
        with self.database.writing() as connection:
            connection.execute(schema.keys.delete().where(schema.keys.c.job == number))
            connection.execute(schema.jobs.delete().where(schema.jobs.c.id == number))

    def _wait_again(self, number: str) -> None:
        """A question whose approval came to nothing waits for another."""
        self._move(number, "asked", state="waiting", by=None)

    def _lose(self, number: str, why: str) -> None:
        with self.database.writing() as connection:
            time = now()
            connection.execute(
                schema.jobs.update()
                .where(schema.jobs.c.id == number)
                .values(state="lost", due=time, leaves=time, slot=1, why=why)
            )
            jobs.alert(connection, number, f"lost: {why}")

    def _move(self, number: str, was: str, **values: object) -> bool:
        """From one state to another, by one alone."""
        table = schema.jobs
        with self.database.writing() as connection:
            moved = table.update().where(table.c.id == number, table.c.state == was).values(**values)
            return connection.execute(moved).rowcount > 0

    def _by_key(self, name: str, key: str, body: str) -> jobs.Row | None:
        table = schema.keys
        with self.database.reading() as connection:
            known = connection.execute(
                sa.select(table).where(table.c.account == name, table.c.key == key)
            ).first()
            if known is None:
                return None
            if known.body != body:
                raise Conflict("the key was used for another question", needed="a new key for a new question")
            return jobs.find(connection, known.job)

    def _note_key(self, name: str, key: str | None, body: str, number: str) -> None:
        if key is None:
            return
        try:
            with self.database.writing() as connection:
                connection.execute(
                    schema.keys.insert().values(account=name, key=key, body=body, job=number, since=now())
                )
        except sa.exc.IntegrityError:
            self._by_key(name, key, body)  # raises if it is another's

    def _found(self, number: str) -> jobs.Row:
        with self.database.reading() as connection:
            row = jobs.find(connection, number)
        if row is None:
            raise LedgerError("the question is gone", given=number)
        return row


_LANE = sa.text("INSERT INTO lanes (number, free, taken) VALUES (:number, 0, 0) ON CONFLICT DO NOTHING")
_SAME = sa.select(schema.jobs).where(
    schema.jobs.c.dataset == sa.bindparam("dataset"),
    schema.jobs.c.digest == sa.bindparam("digest"),
    sa.or_(
        schema.jobs.c.state.in_(jobs.ACTIVE),
        sa.and_(schema.jobs.c.state == "lost", schema.jobs.c.leaves > sa.bindparam("time")),
    ),
)
_OPEN = sa.select(sa.func.count()).where(
    schema.jobs.c.account == sa.bindparam("name"), schema.jobs.c.state.in_(jobs.OPEN)
)
_ADMIT = (
    schema.jobs.update()
    .where(schema.jobs.c.id == sa.bindparam("number"))
    .values(
        state="admitted",
        **{name: sa.bindparam(f"its_{name}") for name in ("due", "slot", "reservation", "entry")},
    )
    .returning(*schema.jobs.c)
)


def above(cost: Guarantee, limit: object, budget: Guarantee) -> bool:
    """Whether a cost is above a limit: a number of eps or rho, or a guarantee.

    A limit that says no delta has the same share of the budget's delta as of its eps.

    >>> from oboro.privacy import Approx, Pure
    >>> from oboro.service.desk import above
    >>> budget, limit = Approx(10, "1e-3"), Pure("0.3")
    >>> above(Approx("0.3", "1e-6"), limit, budget), above(Approx("0.1", "9e-4"), limit, budget)
    (False, True)
    """
    spent, whole = cost.unconditional, budget.unconditional
    first: Any = getattr(spent, "eps", None) or getattr(spent, "rho", None)
    most: Any = getattr(limit, "eps", None) or getattr(limit, "rho", None) or limit
    if first is not None and first > most:
        return True
    delta = getattr(spent, "delta", 0)
    if not delta:
        return False
    share: Any = getattr(limit, "delta", 0) or most * getattr(whole, "delta", 0) / getattr(whole, "eps", most)
    return bool(delta > share)


def nothing(cost: Guarantee) -> object:
    """What an answer costs that was paid for before."""
    del cost
    return Pure(0).to_dict()
