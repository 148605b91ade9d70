"""The one way to run a plan.

    prepare ▸ reserve ▸ measure ▸ store ▸ commit ▸ sign

Whatever fails before the reservation spends nothing. After it nothing is refunded: a crash leaves it spent,
because nobody can prove that the noise was not seen. The noise is drawn only after the reservation is on
disk. A named release that was committed is returned as it was stored, without looking at data again.
"""

from __future__ import annotations

from typing import Any

from oboro._version import __version__
from oboro.errors import BudgetError, NameTakenError
from oboro.ledger import Ledger
from oboro.noise.bits import Bits, system_bits
from oboro.privacy import Guarantee
from oboro.release.plan import Plan, plan_hash
from oboro.release.release import Release, from_content, to_content


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


def run(plan: Plan, data: Any, ledger: Ledger, name: str | None = None, *, bits: Bits | None = None) -> Release:
    """Runs `plan` on `data`, once, and pays for it from `ledger`.

    `name` makes the release findable: the same name with the same plan gives the stored release back and
    costs nothing. `bits` is for tests only; a certificate says so if they are not safe.
    """
    if name is not None and (stored := ledger.find(name)) is not None:
        if stored.plan_hash != plan_hash(plan):
            raise NameTakenError(
                f"the name {name!r} belongs to another plan",
                given="a plan that differs from the stored one",
                needed="the same plan, or another name",
                fix=f'name="{name} 2"',
            )
        if stored.commit is not None:
            return from_content(plan, ledger, stored)
        # falls through: reserve refuses a name whose run died, and says why
    price(plan, ledger)
    prepared = plan.prepare(data)
    reservation = ledger.reserve(plan=plan.to_dict(), unit=plan.unit, guarantee=plan.guarantee, name=name)
    source = bits or system_bits()
    table = plan.publish(plan.measure(prepared, source))
    content = to_content(table)
    facts = {"software": f"oboro {__version__}", "bits": source.description, **plan.describe(), "rows": table.num_rows}
    ledger.commit(reservation, content, facts=facts)
    stored = ledger.find_position(reservation.position)
    return from_content(plan, ledger, stored, table=table, content=content)
