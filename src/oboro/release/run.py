"""The one way to run a plan.

    prepare ▸ reserve ▸ measure ▸ store ▸ commit ▸ sign

Whatever fails before the reservation spends nothing. After it nothing is refunded: a crash leaves it spent,
because nobody can prove that the noise was not seen. The noise is drawn only after the reservation is on
disk. A named release that was committed is returned as it was stored, without looking at data again.
"""

from __future__ import annotations

from typing import Any

from oboro._version import __version__
from oboro.errors import BudgetError
from oboro.kinds import takes
from oboro.ledger import Ledger, plan_hash
from oboro.noise.bits import Bits, system_bits
from oboro.privacy import Guarantee
from oboro.release.plan import Plan, a_plan
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
    record = plan.to_dict()
    if name is not None and (stored := ledger.find(name)) is not None:
        cost = stored.reserved.cost
        if stored.committed is not None and stored.plan_hash == plan_hash(record) and cost is not None:
            return from_content(plan, ledger, name, cost, stored.committed, stored.content())
        ledger.refuse_used(name, record)
    price(plan, ledger)
    prepared = plan.prepare(data)
    reservation = ledger.reserve(plan=record, unit=plan.unit, guarantee=plan.guarantee, name=name)
    source = bits or system_bits()
    table = plan.publish(plan.measure(prepared, source))
    content = to_content(table)
    facts = {
        "software": f"oboro {__version__}",
        "bits": source.description,
        **plan.describe(),
        "rows": table.num_rows,
    }
    committed = ledger.commit(reservation, content, facts=facts)
    return from_content(plan, ledger, name, reservation.cost, committed, content, table)
