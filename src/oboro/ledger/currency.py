"""The privacy filter: what a plan costs in the currency of a ledger, and whether that is still there.

The currency is the kind of the budget, fixed when the ledger is created: eps; eps and delta; rho; or eps
at one Rényi order. Costs are added, coordinate by coordinate, as exact rationals, and a plan is admitted
if and only if no coordinate passes the budget. This stays valid when each question depends on the answers
before it [Rogers, Roth, Ullman, Vadhan 2016; for zCDP and Rényi of a fixed order Feldman, Zrnic 2021].
"""

from __future__ import annotations

from fractions import Fraction

from oboro.errors import GuaranteeError, ParameterError, setting
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, Unit, convert, translate

_CURRENCIES = {  # what a ledger keeps, and what can be paid from it
    "pure": ("eps alone", "eps alone"),
    "approx": ("eps and delta", "eps, or eps and delta"),
    "zcdp": ("rho (zCDP)", "eps alone, or rho"),
    "renyi": ("eps of one Rényi order", "eps alone, rho, or eps of that order or a higher one"),
}
LONGEST = 6000  # bits of a numerator or denominator: what can still be written down and read back


def price(unit: Unit, guarantee: Guarantee, ledger_unit: Unit, budget: Guarantee) -> Guarantee:
    """What a plan for `unit` with `guarantee` costs in a ledger; refused where no proved rule says so."""
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "guarantee is not a guarantee", given=repr(guarantee)[:80], fix=setting(guarantee=Pure(1))
        )
    if not isinstance(unit, Unit):
        raise ParameterError("unit is not a unit", given=repr(unit)[:80], fix=setting(unit=Unit.row()))
    unknown = sorted(set(guarantee.assumptions) - set(budget.assumptions))
    if unknown:
        raise GuaranteeError(
            "the plan rests on an assumption that the ledger was not created with",
            given="; ".join(unknown),
            needed="; ".join(budget.assumptions) or "no assumption at all",
            fix=setting(budget=Conditional(budget.unconditional, unknown)),
        )
    _writable(guarantee)
    moved = translate(guarantee, unit, ledger_unit).unconditional
    cost = _converted(moved, budget.unconditional, ledger_unit)
    if not any(amounts(cost)):
        raise GuaranteeError(
            "a plan that costs nothing cannot be reserved",
            given=str(guarantee),
            needed="a guarantee above 0",
            fix=setting(guarantee=Pure("0.1")),
        )
    _writable(cost)
    return Conditional(cost, guarantee.assumptions) if guarantee.assumptions else cost


def _converted(cost: Guarantee, budget: Guarantee, unit: Unit) -> Guarantee:
    """The cost in the ledger's currency, or an error that says which that is and how to create another ledger."""
    try:
        return convert(cost, budget)
    except GuaranteeError:
        kept, taken = _CURRENCIES[budget.kind]
        raise GuaranteeError(
            f"the ledger keeps {kept}: a cost of {cost} cannot be paid from it",
            given=str(cost),
            needed=f"a plan with {taken}, or another ledger",
            fix=setting(unit=unit, budget=cost),
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


def nothing(budget: Guarantee) -> Guarantee:
    """Zero in the currency of `budget`."""
    return _like(budget, tuple(Fraction(0) for _ in amounts(budget)))


def remaining(budget: Guarantee, spent: Guarantee) -> Guarantee:
    """What is left: with `spent` it makes exactly the budget."""
    return _like(budget, tuple(b - s for b, s in zip(amounts(budget), amounts(spent), strict=True)))


def affords(budget: Guarantee, spent: Guarantee, cost: Guarantee) -> bool:
    """Whether `cost`, in the currency of the budget, can be paid."""
    sums = zip(amounts(budget), amounts(spent), amounts(cost), strict=True)
    return all(s + c <= b for b, s, c in sums)


def added(budget: Guarantee, spent: Guarantee, cost: Guarantee) -> Guarantee:
    """The new total after a cost that the budget affords."""
    total = _like(budget, tuple(s + c for s, c in zip(amounts(spent), amounts(cost), strict=True)))
    _writable(total)
    return total


def amounts(guarantee: Guarantee) -> tuple[Fraction, ...]:
    """The coordinates that are added up."""
    plain = guarantee.unconditional
    if isinstance(plain, Approx):
        return plain.eps, plain.delta
    if isinstance(plain, ZCDP):
        return (plain.rho,)
    assert isinstance(plain, Pure | Renyi)
    return (plain.eps,)


def _like(budget: Guarantee, values: tuple[Fraction, ...]) -> Guarantee:
    """A guarantee of the kind of `budget`, resting on the same assumptions."""
    plain = budget.unconditional
    made: Guarantee
    if isinstance(plain, Approx):
        made = Approx(*values)
    elif isinstance(plain, ZCDP):
        made = ZCDP(*values)
    elif isinstance(plain, Renyi):
        made = Renyi(plain.order, *values)
    else:
        made = Pure(*values)
    return Conditional(made, budget.assumptions) if budget.assumptions else made


def _writable(guarantee: Guarantee) -> None:
    """Sums of many unlike fractions grow without end; one that could not be read back must not be written."""
    plain = guarantee.unconditional
    numbers = (*amounts(plain), plain.order) if isinstance(plain, Renyi) else amounts(plain)
    if any(max(n.numerator.bit_length(), n.denominator.bit_length()) > LONGEST for n in numbers):
        raise GuaranteeError(
            "the exact amount would be too long to write down",
            given=f"a fraction of more than {LONGEST} bits",
            needed="costs whose denominators have much in common",
            fix=setting(eps="0.125"),
        )
