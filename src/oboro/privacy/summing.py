"""Costs, added exactly: rationals in one currency, valid however the questions depend on earlier answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from oboro.errors import GuaranteeError
from oboro.kinds import takes
from oboro.privacy.event import Composed, Event, GaussianNoise, LaplaceNoise, Repeated, Spend
from oboro.privacy.guarantee import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi


def cost_of(event: Event) -> Guarantee:
    """The guarantee of one event by exact sums. Refuses an event that it does not know."""
    if type(event) is Spend:
        return event.guarantee
    if type(event) is LaplaceNoise or type(event) is GaussianNoise:
        return event.guarantee
    if type(event) is Repeated or type(event) is Composed:
        return added([event])
    raise _unknown(event)


def times(guarantee: Guarantee, count: int) -> Guarantee:
    """`count` releases with the same guarantee, by sums."""
    if isinstance(guarantee, Pure):
        return Pure(guarantee.eps * count)
    if isinstance(guarantee, Approx):
        return Approx(guarantee.eps * count, guarantee.delta * count)
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho * count)
    if isinstance(guarantee, Renyi):
        return Renyi(guarantee.order, guarantee.eps * count)
    assert isinstance(guarantee, Conditional)
    return Conditional(times(guarantee.guarantee, count), guarantee.assumptions)


def added(events: Iterable[Event]) -> Guarantee:
    """All costs in the weakest currency among them, added there: to convert sums would cost more."""
    costs = [(cost_of(event), count) for event, count in counted(events).items()]
    costs = [(cost, count) for cost, count in costs if cost.unconditional != Pure(0) or cost.assumptions]
    if not costs:
        return Pure(0)
    assumptions = sorted({text for cost, _ in costs for text in cost.assumptions})
    same = one_currency([cost.unconditional for cost, _ in costs])
    total = reduce(_add, (times(cost, count) for cost, (_, count) in zip(same, costs, strict=True)))
    return Conditional(total, assumptions) if assumptions else total


def _add(one: Guarantee, two: Guarantee) -> Guarantee:
    """Two costs of one kind."""
    if isinstance(one, Pure) and isinstance(two, Pure):
        return Pure(one.eps + two.eps)
    if isinstance(one, Approx) and isinstance(two, Approx):
        return Approx(one.eps + two.eps, one.delta + two.delta)
    if isinstance(one, ZCDP) and isinstance(two, ZCDP):
        return ZCDP(one.rho + two.rho)
    assert isinstance(one, Renyi)
    assert isinstance(two, Renyi)
    return Renyi(one.order, one.eps + two.eps)


def one_currency(costs: Sequence[Guarantee]) -> list[Guarantee]:
    """All in the weakest kind among them; pure is the strongest, zCDP next, Approx and Rényi do not mix."""
    renyi = [cost for cost in costs if isinstance(cost, Renyi)]
    if renyi:
        target: Guarantee = min(renyi, key=lambda cost: cost.order)
    else:
        strength = {Pure: 0, ZCDP: 1, Approx: 2}
        target = max(costs, key=lambda cost: strength[type(cost)])
    return [convert(cost, target) for cost in costs]


@takes(guarantee=Guarantee, currency=Guarantee)
def convert(guarantee: Guarantee, currency: Guarantee) -> Guarantee:
    """`guarantee` in the kind of `currency`, by a proved rule, or refused. What it rests on stays with it.

    This is what a ledger does: its currency is fixed when it is created, because choosing the best one at
    the end is not valid for questions that depend on answers.
    """
    plain, kind = guarantee.unconditional, currency.unconditional
    if guarantee.assumptions:
        return Conditional(convert(plain, kind), guarantee.assumptions)
    if isinstance(kind, Pure) and isinstance(plain, Pure):
        return plain
    if isinstance(kind, Approx) and isinstance(plain, Pure):
        return plain.to_approx(0)
    if isinstance(kind, Approx) and isinstance(plain, Approx):
        return plain
    if isinstance(kind, ZCDP) and isinstance(plain, Pure | ZCDP):
        return plain.to_zcdp()
    if isinstance(kind, Renyi) and isinstance(plain, Pure | ZCDP | Renyi):
        return plain.to_renyi(kind.order)
    raise GuaranteeError(
        f"a cost of {plain} cannot be paid in {type(kind).__name__}",
        given=repr(plain),
        needed={
            "Pure": "Pure",
            "Approx": "Pure or Approx",
            "ZCDP": "Pure or ZCDP",
            "Renyi": "Pure, ZCDP, or Renyi of the same or a higher order",
        }[type(kind).__name__],
        fix=f"a plan with such a guarantee, or a ledger whose budget is {type(plain).__name__}",
    )


def counted(events: Iterable[Event], repeats: int = 1) -> dict[Event, int]:
    """The single events in a batch, and how often each happens."""
    counts: dict[Event, int] = {}
    for event in events:
        if type(event) is Composed:
            inner = counted(event.events, repeats)
        elif type(event) is Repeated:
            inner = counted([event.event], repeats * event.times)
        elif type(event) in (Spend, LaplaceNoise, GaussianNoise):
            inner = {event: repeats}
        else:
            raise _unknown(event)
        for single, count in inner.items():
            counts[single] = counts.get(single, 0) + count
    return counts


def _unknown(event: object) -> GuaranteeError:
    return GuaranteeError(
        "an event that this accountant does not know",
        given=type(event).__name__,
        needed="Spend, LaplaceNoise, GaussianNoise, Repeated or Composed",
        fix="Spend(guarantee), with the guarantee that was proved for it",
    )
