"""What several releases cost together.

`compose` adds costs: exact, and valid however the questions depend on earlier answers. With `delta=` it
gives tighter figures for a batch that is fixed in advance:

    method      what it does                                        100 x Laplace at eps 0.1, delta 1e-6
    "basic"     sums                                                10
    "advanced"  Dwork, Rothblum, Vadhan 2010, pure parts            6.31
    "zcdp"      sums of rho, converted by the simple rule           5.76
    "renyi"     dp-accounting, best order                           4.98
    "pld"       dp-accounting, privacy loss distributions           4.69

`parallel` is for releases about disjoint groups of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from oboro.errors import GuaranteeError, ParameterError
from oboro.exact import Number, show
from oboro.kinds import each_of, takes
from oboro.privacy.event import Composed, Event, GaussianNoise, LaplaceNoise, Repeated, Spend
from oboro.privacy.guarantee import (
    ZCDP,
    Approx,
    Conditional,
    Guarantee,
    Pure,
    Renyi,
    _positive_delta,
    round_up,
)
from oboro.privacy.unit import Unit

METHODS = ("basic", "advanced", "zcdp", "renyi", "pld")


@takes(parts=each_of(Guarantee, Event))
def compose(*parts: Guarantee | Event, delta: Number | None = None, method: str | None = None) -> Guarantee:
    """What all `parts` cost together.

    Without `delta` the costs are added in the weakest currency among them: exact rationals, valid for
    adaptive questions. With `delta` the batch must be fixed in advance and the answer is an `Approx`;
    `method` defaults to the tightest, "pld".
    """
    events = [part if isinstance(part, Event) else Spend(part) for part in parts]
    if delta is None:
        if method not in (None, "basic"):
            raise ParameterError(
                f"method {method!r} needs delta",
                given="delta=None",
                needed="a number above 0",
                fix='delta="1e-6"',
            )
        return _sum(events)
    small = _positive_delta(delta)
    method = method or "pld"
    if method not in METHODS:
        raise ParameterError(
            "method is unknown", given=f"method={method!r}", needed=", ".join(METHODS), fix='method="pld"'
        )
    assumptions = sorted({text for event in events for text in cost_of(event).assumptions})
    total = {"basic": _basic, "advanced": _advanced, "zcdp": _zcdp, "renyi": _renyi, "pld": _pld}[method](
        events, small
    )
    return Conditional(total, assumptions) if assumptions else total


def cost_of(event: Event) -> Guarantee:
    """The guarantee of one event by exact sums. Refuses an event that it does not know."""
    if type(event) is Spend:
        return event.guarantee
    if type(event) is LaplaceNoise or type(event) is GaussianNoise:
        return event.guarantee
    if type(event) is Repeated or type(event) is Composed:
        return _sum([event])
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


@takes(guarantees=each_of(Guarantee), unit=Unit, inside=each_of(Guarantee))
def parallel(*guarantees: Guarantee, unit: Unit, inside: Sequence[Guarantee] | None = None) -> Guarantee:
    """What releases about disjoint groups of rows or cells cost together.

    `guarantees` are each group's cost of adding or removing one unit's data in that group. A unit that may
    touch k groups costs the k largest together: the maximum where a unit is one row. Under "replace" the
    old data leave k groups and the new ones enter k groups, perhaps the same: twice the sum in eps, four
    times in rho. `inside` may give each group's cost of a replacement inside it where it is known to be
    smaller; then, for one row, it is the larger of the worst of these and the two largest together (a row
    that moves touches two groups).
    """
    if not guarantees:
        return Pure(0)
    assumptions = sorted({text for part in (*guarantees, *(inside or ())) for text in part.assumptions})
    costs = _one_currency([part.unconditional for part in guarantees])
    if unit.adjacency == "add/remove":
        total = _largest(costs, unit.contributions)
    elif inside is None or unit.contributions > 1:
        total = _replaced(_largest(costs, unit.contributions))
    else:
        if len(inside) != len(guarantees):
            raise ParameterError(
                "inside does not fit the groups",
                given=f"{len(inside)} costs for {len(guarantees)} groups",
                needed="the cost of a replacement inside each group, in their order",
                fix="inside=None",
            )
        within = [part.unconditional for part in inside]
        total = _largest(_one_currency([_largest(costs, 2), *within]), 1)
    return Conditional(total, assumptions) if assumptions else total


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


def _sum(events: Iterable[Event]) -> Guarantee:
    """All costs in the weakest currency among them, added there: to convert sums would cost more."""
    costs = [(cost_of(event), count) for event, count in _counted(events).items()]
    costs = [(cost, count) for cost, count in costs if cost.unconditional != Pure(0) or cost.assumptions]
    if not costs:
        return Pure(0)
    assumptions = sorted({text for cost, _ in costs for text in cost.assumptions})
    same = _one_currency([cost.unconditional for cost, _ in costs])
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


def _one_currency(costs: Sequence[Guarantee]) -> list[Guarantee]:
    """All in the weakest kind among them; pure is the strongest, zCDP next, Approx and Rényi do not mix."""
    renyi = [cost for cost in costs if isinstance(cost, Renyi)]
    if renyi:
        target: Guarantee = min(renyi, key=lambda cost: cost.order)
    else:
        strength = {Pure: 0, ZCDP: 1, Approx: 2}
        target = max(costs, key=lambda cost: strength[type(cost)])
    return [convert(cost, target) for cost in costs]


def _largest(costs: Sequence[Guarantee], count: int) -> Guarantee:
    """The `count` most expensive of several costs of one kind, together; coordinate by coordinate."""

    def top(values: Iterable[Fraction]) -> Fraction:
        return sum(sorted(values, reverse=True)[:count], Fraction(0))

    if all(isinstance(cost, Approx) for cost in costs):
        return Approx(
            top(c.eps for c in costs if isinstance(c, Approx)),
            top(c.delta for c in costs if isinstance(c, Approx)),
        )
    if all(isinstance(cost, ZCDP) for cost in costs):
        return ZCDP(top(c.rho for c in costs if isinstance(c, ZCDP)))
    if all(isinstance(cost, Renyi) for cost in costs):
        return Renyi(costs[0].order, top(c.eps for c in costs if isinstance(c, Renyi)))  # type: ignore[attr-defined]
    return Pure(top(c.eps for c in costs if isinstance(c, Pure)))


def _replaced(cost: Guarantee) -> Guarantee:
    from oboro.privacy.unit import _two_steps

    return _two_steps(cost)


def _basic(events: Sequence[Event], delta: Fraction) -> Approx:
    return _sum(events).unconditional.to_approx(delta)


def _advanced(events: Sequence[Event], delta: Fraction) -> Approx:
    """sqrt(2 ln(1/delta) sum e^2) + sum e (exp(e) - 1), for pure costs."""
    from oboro.noise.lazy import ball

    costs = [(cost_of(event).unconditional, count) for event, count in _counted(events).items()]
    if not all(isinstance(cost, Pure) for cost, _ in costs):
        raise GuaranteeError(
            "advanced composition is for pure costs", needed="Pure parts", fix='method="pld"'
        )
    eps = [(cost.eps, count) for cost, count in costs if isinstance(cost, Pure)]
    if not eps:
        return Approx(0, delta)
    squares = sum((e * e * count for e, count in eps), Fraction(0))

    def total() -> Any:
        drift = sum((ball(e) * (ball(e).exp() - 1) * count for e, count in eps), ball(0))
        return (-2 * ball(delta).log() * ball(squares)).sqrt() + drift

    return Approx(min(round_up(total), sum((e * count for e, count in eps), Fraction(0))), delta)


def _zcdp(events: Sequence[Event], delta: Fraction) -> Approx:
    costs = ((cost_of(event).unconditional.to_zcdp(), count) for event, count in _counted(events).items())
    rho = sum((cost.rho * count for cost, count in costs), Fraction(0))
    return ZCDP(rho).to_approx(delta, rule="simple")


def _renyi(events: Sequence[Event], delta: Fraction) -> Approx:
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant()
    for event, count in _counted(events).items():
        accountant.compose(_dp_event(event), count)
    return _approx_above(accountant.get_epsilon(float(delta)), delta)


def _pld(events: Sequence[Event], delta: Fraction) -> Approx:
    """Privacy loss distributions, discretised pessimistically by dp-accounting.

    A cost of which only the guarantee is known enters as the worst mechanism with that guarantee.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = None
    for event, count in _counted(events).items():
        one = _loss(pld, event)
        one = one.self_compose(count) if count > 1 else one
        total = one if total is None else total.compose(one)
    return (
        Approx(0, delta) if total is None else _approx_above(total.get_epsilon_for_delta(float(delta)), delta)
    )


def _loss(pld: Any, event: Event) -> Any:
    if type(event) is LaplaceNoise:
        if event.discrete:
            return pld.from_discrete_laplace_mechanism(
                float(1 / event.scale), sensitivity=int(event.sensitivity)
            )
        return pld.from_laplace_mechanism(float(event.scale), sensitivity=float(event.sensitivity))
    if type(event) is GaussianNoise and not event.discrete:
        return pld.from_gaussian_mechanism(math.sqrt(event.variance), sensitivity=float(event.sensitivity))
    cost = cost_of(event).unconditional
    if isinstance(cost, Pure | Approx):
        from dp_accounting.pld import common

        params = common.DifferentialPrivacyParameters(float(cost.eps), float(getattr(cost, "delta", 0)))
        return pld.from_privacy_parameters(params)
    raise GuaranteeError(
        f"a privacy loss distribution is not known for {cost}",
        given=repr(event),
        needed="Laplace noise, continuous Gaussian noise, or a Pure or Approx cost",
        fix='method="zcdp"',
    )


def _dp_event(event: Event) -> Any:
    import dp_accounting

    if type(event) is LaplaceNoise and not event.discrete:
        return dp_accounting.LaplaceDpEvent(float(event.scale / event.sensitivity))
    cost = cost_of(event).unconditional
    if isinstance(cost, Pure | ZCDP):
        return dp_accounting.ZCDpEvent(float(cost.to_zcdp().rho))
    raise GuaranteeError(f"Rényi composition is not known for {cost}", given=repr(event), fix='method="pld"')


def _approx_above(eps: float, delta: Fraction) -> Approx:
    """dp-accounting's figure with a margin for its own rounding."""
    if not math.isfinite(eps):
        raise GuaranteeError(
            "these parts keep no (eps, delta) promise at so small a delta",
            given=f"delta={show(delta)}",
            needed="more than the deltas of the parts together",
            fix='delta="1e-3"',
        )
    return Approx(Fraction(math.ceil(eps * (1 + 1e-9) * 10**12), 10**12), delta)


def _counted(events: Iterable[Event], times: int = 1) -> dict[Event, int]:
    """The single events in a batch, and how often each happens."""
    counts: dict[Event, int] = {}
    for event in events:
        if type(event) is Composed:
            inner = _counted(event.events, times)
        elif type(event) is Repeated:
            inner = _counted([event.event], times * event.times)
        elif type(event) in (Spend, LaplaceNoise, GaussianNoise):
            inner = {event: times}
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
