"""The one way to run a plan.

    prepare ▸ reserve ▸ measure ▸ store ▸ commit ▸ sign

Whatever fails before the reservation spends nothing. After it nothing is refunded: a crash leaves it spent,
because nobody can prove that the noise was not seen. The noise is drawn only after the reservation is on
disk, and what fails from there on is a PaidError: it says what became of the payment. A named release that was
committed is returned as it was stored, without looking at data again.

The object that a caller hands in is never run. It is made anew from its record, by the code that reads plan files, and
that is what is priced, described and measured: so a plan that was altered on the way keeps its promise or is refused.
Where the very same record was run a moment ago, what was made of it then is run again: nobody else has held it since.
"""

from __future__ import annotations

import json
import shlex
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oboro._version import __version__
from oboro.errors import (
    BudgetError,
    GuaranteeError,
    InputError,
    LedgerError,
    ParameterError,
    setting,
    told,
)
from oboro.exact import whole
from oboro.kinds import takes, text_of
from oboro.ledger import Ledger
from oboro.ledger.chain import canonical, sha256, written
from oboro.ledger.periods import least, nothing
from oboro.ledger.records import Due, Reservation
from oboro.ledger.replay import states_otherwise
from oboro.noise.bits import Bits, system_bits
from oboro.payment import paid, paying
from oboro.privacy import Guarantee, guarantee_from
from oboro.privacy.proposals import proposals
from oboro.records import Record, functions_of
from oboro.release.folder import check_whole
from oboro.release.forecast import Forecast
from oboro.release.plan import Plan, a_plan, made_again, plan_from, record_of
from oboro.release.release import Release, from_content, to_content

if TYPE_CHECKING:
    from oboro.arrays import Table


@dataclass(frozen=True, slots=True)
class Quote:
    """What a run is about to do, computed once: the plan as it will be run, its record and words, its forecast, its cost.

    `cost` is in the ledger's currency.

    >>> quote = ob.release.quote(plan, ledger)
    >>> quote.cost, quote.words["released"]
    (Pure('0.1'), 'histogram of age')
    """

    plan: Plan
    record: dict[str, object]
    words: dict[str, object]
    forecast: Forecast
    cost: Guarantee


@takes(plan=a_plan, ledger=Ledger)
def quote(plan: Plan, ledger: Ledger) -> Quote:
    """What `plan` would do and cost here; raises if it cannot be paid, or cannot say what its certificate must. Free.

    >>> ob.release.quote(plan, ledger).cost
    Pure('0.1')
    >>> ledger.spent
    Pure(0)
    """
    return _quoted(made_again(plan), ledger)


def _quoted(made: Plan, ledger: Ledger, account: str | None = None) -> Quote:
    cost = price(made, ledger, account)
    return Quote(made, made.to_dict(), made.describe(), made.forecast(), cost)


@dataclass(frozen=True, slots=True)
class Made:
    """A plan made from its record, with its words, forecast and record: as texts, so that what is handed out is nobody else's.

    `own` is the plan for whoever gets the release: where this one is kept, another that is made when it is asked for. Who keeps one
    for a question that is asked again hands it to `run_again`, and to nobody else.
    """

    plan: Plan
    text: str
    words: str
    forecast: Forecast
    kept: bool
    plan_hash: (
        str | None
    )  # unless the record states another unit or guarantee: the ledger says what is wrong then

    @classmethod
    def of(cls, plan: Plan, *, kept: bool) -> Made:
        text, record = written(plan.to_dict())
        words = canonical(plan.describe(), "the words of the plan")
        otherwise = states_otherwise(record, plan.unit, plan.guarantee)
        return cls(plan, text, words, plan.forecast(), kept, None if otherwise else sha256(text.encode()))

    @property
    def record(self) -> Record:
        return _table(self.text)

    @property
    def own(self) -> Plan | Callable[[], Plan]:
        return (lambda: plan_from(self.record)) if self.kept else self.plan

    def quoted(self, cost: Guarantee) -> Quote:
        """For `run` alone: the plan in it is not to be handed out."""
        return Quote(self.plan, self.record, _table(self.words), self.forecast, cost)


def _table(text: str) -> Record:
    found: Record = json.loads(text)
    return found


_MOST = 64  # plans that are kept
_LONGEST = 1 << 14  # signs of the record of one
_lately: OrderedDict[str, Made] = OrderedDict()  # by the text of the record that they were made from


def made(plan: Plan) -> Made:
    """What `made_again` makes: of a record that is kept, what was made of it before."""
    # what a class says of itself holds for its own methods, and not for those of a class made from it
    if not vars(type(plan)).get("light", False) or functions_of(plan):
        return Made.of(made_again(plan), kept=False)
    text = canonical(record_of(plan))
    known = _lately.pop(text, None) or Made.of(made_again(plan), kept=len(text) <= _LONGEST)
    if known.kept:
        _lately[text] = known
        while len(_lately) > _MOST:
            _lately.popitem(last=False)
    return known


@takes(plan=a_plan, ledger=Ledger)
def price(plan: Plan, ledger: Ledger, account: str | None = None) -> Guarantee:
    """What `plan` would cost in the ledger's currency; raises if it cannot be paid, by an account. Spends nothing.

    >>> ob.price(plan, ledger), ledger.spent
    (Pure('0.1'), Pure(0))
    """
    cost = _in_currency(plan, ledger)
    if not ledger.covers(cost, account=account):
        own = None if account is None else ledger.account(account)
        room = ledger.available
        if account is not None:
            room = least(room, nothing(room) if own is None else own.available)
        raise BudgetError(
            "the budget does not cover this plan",
            given=f"cost: {cost}",
            needed=f"at most what remains: {room}",
            fix="a smaller eps, or a new budget decided by those who answer for the data",
        )
    return cost


def _in_currency(plan: Plan, ledger: Ledger) -> Guarantee:
    """The price in the ledger's currency. Where there is none, the error proposes a guarantee that such a plan can have."""
    try:
        return ledger.price(plan.unit, plan.guarantee)
    except GuaranteeError as error:
        asked, kept = plan.guarantee, ledger.budget
        if error.argument == "guarantee" and asked.unconditional.kind != kept.unconditional.kind:
            able = [one for one in proposals(asked, kept) if plan.could_promise(one)]
            error.fix = (
                setting(guarantee=able[0]) if able else "another method, whose promise is of that kind"
            )
        raise


@takes(plan=a_plan, ledger=Ledger)
def run(
    plan: Plan,
    data: object,
    ledger: Ledger,
    name: str | None = None,
    *,
    account: str | None = None,
    edition: str | None = None,
    approval: int | None = None,
    bits: Bits | None = None,
    tell: Callable[[Forecast], None] | None = None,
) -> Release:
    """Runs `plan` on `data`, once, and pays for it from `ledger`.

    `name` makes the release findable: the same name with the same plan gives the stored release back and
    costs nothing. A name that another plan has, or whose run died, is refused. `account`, `edition` and `approval` are those
    of `Ledger.reserve`. `tell` is told the forecast
    before data is read. `bits` is for tests only; the certificate says so if they are not safe.

    >>> release = ob.run(plan, data, ledger, name="ages")
    >>> release.to_arrow().shape, ledger.remaining
    ((10, 2), Pure('0.9'))
    >>> again = ob.run(plan, data, ledger, name="ages")
    >>> again.to_arrow() == release.to_arrow(), ledger.remaining
    (True, Pure('0.9'))
    """
    return run_again(
        made(plan),
        data,
        ledger,
        name,
        account=account,
        edition=edition,
        approval=approval,
        bits=bits,
        tell=tell,
    )


def run_again(
    known: Made,
    data: object,
    ledger: Ledger,
    name: str | None = None,
    *,
    account: str | None = None,
    edition: str | None = None,
    approval: int | None = None,
    bits: Bits | None = None,
    tell: Callable[[Forecast], None] | None = None,
) -> Release:
    """`run` of a plan that was made from its record before, and that nobody else has held since."""
    made = known.plan
    if name is not None and (found := given_again(made, ledger, name, known.own)) is not None:
        check_whole(found.to_arrow(), data)
        return found
    cost = _in_currency(made, ledger)
    if account is not None or not ledger._lately_covered(
        cost
    ):  # a ledger that was not read yet, or has little left
        cost = price(made, ledger, account)
    quoted = known.quoted(cost)
    if tell is not None:
        tell(replace(quoted.forecast) if known.kept else quoted.forecast)
    with _in_turn(data):
        data = made.open(data)
    with _in_turn(data):
        prepared = made.prepare(data)
    source = bits or system_bits()
    reservation = reserve(
        quoted,
        ledger,
        name,
        account=account,
        edition=edition,
        approval=approval,
        plan_hash=known.plan_hash,
    )
    with paid(ledger.where, reservation.position):
        table = made.publish(made.measure(prepared, source))
    if known.kept:  # the cost may be the very guarantee of the plan
        reservation = replace(reservation, cost=guarantee_from(reservation.cost.to_dict()))
    engine = getattr(data, "engine", None)
    return keep(quoted, ledger, reservation, table, source, engine, own=known.own)


def _in_turn(data: object) -> AbstractContextManager[None]:
    """What an engine's source says of threads that ask it at once; by its class, since a table may have a column of that name."""
    takes_turns = getattr(type(data), "in_turn", None)
    return nullcontext() if takes_turns is None else takes_turns(data)


def given_again(
    plan: Plan, ledger: Ledger, name: str, own: Plan | Callable[[], Plan] | None = None
) -> Release | None:
    """The stored release of this name and plan; None where the name is new, and refused where it is taken.

    `own`: the plan that the release is to have, or what makes it.
    """
    stored = ledger.find(name)
    if stored is None:
        return None
    written, cost = stored.reserved.body["plan"], stored.reserved.cost
    if not same_plan(plan, written):
        ledger.refuse_used(name, plan.to_dict())
    elif stored.committed is None or cost is None:
        ledger.refuse_used(name, written)
    else:
        reserved, content = stored.reserved, stored.content()
        return from_content(plan, ledger, reserved.name, cost, stored.committed, content, own=own)
    return None  # pragma: no cover  # a taken name was refused above


def same_plan(plan: Plan, written: dict[str, object]) -> bool:
    """Whether a record, perhaps of an older oboro, is that of this plan."""
    if written == plan.to_dict():
        return True
    try:
        return bool(plan_from(written, functions_of(plan)) == plan)
    except InputError:
        return False


def reserve(
    quoted: Quote,
    ledger: Ledger,
    name: str | None,
    *,
    account: str | None = None,
    edition: str | None = None,
    approval: int | None = None,
    ticks: int | None = None,
    plan_hash: str | None = None,
) -> Reservation:
    """Pays for what was quoted. From here on nothing is refunded, and noise may be drawn: of a series under its ticks alone.

    `plan_hash`: that of the record, where `Made` has worked it out, with what else the ledger would look for in a record.
    """
    with paying(ledger.where) as payment:
        if plan_hash is not None and ticks is None:
            due = Due(quoted.record, plan_hash, quoted.plan.unit, quoted.plan.guarantee, quoted.cost)
            reservation = ledger._pay(due, name, account=account, edition=edition, approval=approval)
            payment.entry = reservation.position
            return reservation
        reservation = ledger.reserve(
            plan=quoted.record,
            unit=quoted.plan.unit,
            guarantee=quoted.plan.guarantee,
            name=name,
            account=account,
            edition=edition,
            approval=approval,
            ticks=ticks,
        )
        payment.entry = reservation.position
    return reservation


def keep(
    quoted: Quote,
    ledger: Ledger,
    reservation: Reservation,
    table: Table,
    bits: Bits | str,
    engine: object = None,
    *,
    of: str = "release",
    ticks: Collection[int] | None = None,
    own: Plan | Callable[[], Plan] | None = None,
) -> Release:
    """Stores what was measured under a reservation, commits it and signs: the end of every run, also of one in steps.

    `bits` are those that it was drawn with, or how they are called. `engine` is the name and version of what added up the data, where
    an engine did. `of`: a release, or the "tick" or the "final" table of a series, which was made of `ticks`. `own`: the plan that the
    release is to have, or what makes it, where that is not the one that was quoted.
    """

    def look() -> bool:
        found = ledger.find_entry(reservation.position)
        return found is not None and found.committed is not None

    with paid(ledger.where, reservation.position, look=look, of=of):
        content = to_content(table)
        facts = {
            "software": f"oboro {__version__}" + (f", {engine}" if isinstance(engine, str) else ""),
            "bits": bits if isinstance(bits, str) else bits.description,
            **quoted.words,
            "rows": table.num_rows,
        }
        committed = ledger.commit(reservation, content, facts=facts, ticks=ticks)
    with paid(ledger.where, reservation.position, stored=True):
        return from_content(
            quoted.plan,
            ledger,
            reservation.name,
            reservation.cost,
            committed,
            content,
            table,
            record=quoted.record,
            forecast=quoted.forecast,
            own=own,
        )


@takes(ledger=Ledger, name=text_of)
def fetch(ledger: Ledger, *, name: str | None = None, entry: int | None = None) -> Release:
    """A release that was paid for, as it was stored: by its name, or by the number of its entry. Spends nothing.

    >>> release = ob.run(plan, data, ledger, name="ages")
    >>> ob.release.fetch(ledger, name="ages").to_arrow() == release.to_arrow()
    True
    """
    entry = None if entry is None else whole("entry", entry, least=0, most=2**62)
    if (name is None) == (entry is None):
        raise ParameterError(
            "say which release",
            given="neither" if name is None else "both",
            needed="a name, or the number of an entry",
            fix=setting(entry=1),
        )
    stored = ledger.find(name) if name is not None else ledger.find_entry(entry or 0)
    # a tick is a part of its series, which has the plan and was paid for
    series = stored.reserved.body.get("series") if stored is not None else None
    owner = stored if series is None else ledger.find_entry(series)
    cost = None if owner is None else owner.reserved.cost
    if stored is None or owner is None or cost is None:
        raise LedgerError(
            "the ledger has no such release",
            given=told(name=repr(name)) if name is not None else told(entry=f"{entry}"),
            needed="one that is listed",
            fix=f"oboro ledger show {shlex.quote(ledger.where)}",
        )
    content = stored.content()
    assert stored.committed is not None
    plan = plan_from(owner.reserved.body["plan"])
    return from_content(plan, ledger, owner.reserved.name, cost, stored.committed, content)
