"""Small things that several tests of the ledger need."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from oboro.ledger import Ledger, Reservation
from oboro.ledger.currency import amounts
from oboro.privacy import Guarantee, Pure

PLAN: dict[str, Any] = {"kind": "histogram", "bins": ["a", "b"], "eps": "0.1"}


def spend(
    ledger: Ledger, cost: Guarantee | str | Fraction, name: str | None = None, **more: Any
) -> Reservation:
    guarantee = cost if isinstance(cost, Guarantee) else Pure(cost)
    return ledger.reserve(
        plan=more.get("plan", PLAN), unit=more.get("unit", ledger.unit), guarantee=guarantee, name=name
    )


def assert_sound(ledger: Ledger) -> None:
    """Everything that must hold whatever happened before."""
    checked = ledger.verify()
    costs = [entry.cost for entry in ledger.history() if entry.cost is not None]
    for i, (spent, budget) in enumerate(zip(amounts(ledger.spent), amounts(ledger.budget), strict=True)):
        assert sum((amounts(cost)[i] for cost in costs), Fraction(0)) == spent <= budget
    assert checked.reservations == len(costs)
