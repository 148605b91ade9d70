"""The one way to run a plan.

    prepare ▸ reserve ▸ measure ▸ store ▸ commit ▸ sign

Whatever fails before the reservation spends nothing. After it nothing is refunded: a crash leaves it spent,
because nobody can prove that the noise was not seen. The noise is drawn only after the reservation is on
disk, and what fails from there on is a PaidError: it says what became of the payment. A named release that was
committed is returned as it was stored, without looking at data again.
"""

from __future__ import annotations

from typing import Any

from oboro._version import __version__
from oboro.errors import BudgetError, LedgerError, ParameterError
from oboro.exact import whole
from oboro.kinds import takes, text_of
from oboro.ledger import Ledger, plan_hash
from oboro.ledger.records import Reservation
from oboro.noise.bits import Bits, system_bits
from oboro.payment import paid, paying
from oboro.privacy import Guarantee
from oboro.release.plan import Plan, a_plan, plan_from
from oboro.release.release import Release, from_content, to_content


@takes(plan=a_plan, ledger=Ledger)
def price(plan: Plan, ledger: Ledger) -> Guarantee:
    """What `plan` would cost in the ledger's currency; raises if it cannot be paid. Spends nothing."""
    cost = ledger.price(plan.unit, plan.guarantee)
    if not ledger.affords(cost):
        raise BudgetError(
            "the budget does not cover this plan",
            given=f"cost: {cost}",
            needed=f"at most what remains: {ledger.remaining}",
            fix="a smaller eps, or a new budget decided by those who answer for the data",
        )
    return cost


@takes(plan=a_plan, ledger=Ledger)
def run(
    plan: Plan, data: Any, ledger: Ledger, name: str | None = None, *, bits: Bits | None = None
) -> Release:
    """Runs `plan` on `data`, once, and pays for it from `ledger`.

    `name` makes the release findable: the same name with the same plan gives the stored release back and
    costs nothing. A name that another plan has, or whose run died, is refused. `bits` is for tests only; the
    certificate says so if they are not safe.
    """
    if name is not None and (stored := ledger.find(name)) is not None:
        record, cost = plan.to_dict(), stored.reserved.cost
        if stored.committed is not None and stored.plan_hash == plan_hash(record) and cost is not None:
            return from_content(plan, ledger, name, cost, stored.committed, stored.content())
        ledger.refuse_used(name, record)
    price(plan, ledger)
    prepared = plan.prepare(data)
    source = bits or system_bits()
    reservation = reserve(plan, ledger, name)
    with paid(ledger.where, reservation.position):
        table = plan.publish(plan.measure(prepared, source))
        return keep(plan, ledger, reservation, table, source)


def reserve(plan: Plan, ledger: Ledger, name: str | None) -> Reservation:
    """Pays for `plan`. From here on nothing is refunded, and noise may be drawn.

    What its certificate will say is computed first: a plan that cannot say it spends nothing.
    """
    plan.describe()
    plan.forecast()
    with paying(ledger.where) as payment:
        reservation = ledger.reserve(plan=plan.to_dict(), unit=plan.unit, guarantee=plan.guarantee, name=name)
        payment.entry = reservation.position
    return reservation


def keep(plan: Plan, ledger: Ledger, reservation: Reservation, table: Any, bits: Bits) -> Release:
    """Stores what was measured under a reservation, commits it and signs: the end of every run, also of one in steps."""
    content = to_content(table)
    facts = {
        "software": f"oboro {__version__}",
        "bits": bits.description,
        **plan.describe(),
        "rows": table.num_rows,
    }
    committed = ledger.commit(reservation, content, facts=facts)
    with paid(ledger.where, reservation.position, stored=True):
        return from_content(plan, ledger, reservation.name, reservation.cost, committed, content, table)


@takes(ledger=Ledger, name=text_of)
def fetch(ledger: Ledger, *, name: str | None = None, entry: int | None = None) -> Release:
    """A release that was paid for, as it was stored: by its name, or by the number of its entry. Spends nothing."""
    entry = None if entry is None else whole("entry", entry, least=0, most=2**62)
    if (name is None) == (entry is None):
        raise ParameterError(
            "say which release",
            given="neither" if name is None else "both",
            needed="a name, or the number of an entry",
            fix="entry=1",
        )
    stored = ledger.find(name) if name is not None else ledger.find_entry(entry or 0)
    cost = None if stored is None else stored.reserved.cost
    if stored is None or cost is None:
        raise LedgerError(
            "the ledger has no such release",
            given=f"name={name!r}" if name is not None else f"entry={entry}",
            needed="one that is listed",
            fix=f"oboro ledger show {ledger.where}",
        )
    content = stored.content()
    assert stored.committed is not None
    plan = plan_from(stored.reserved.body["plan"])
    return from_content(plan, ledger, stored.reserved.name, cost, stored.committed, content)
