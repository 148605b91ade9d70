"""Events, and what a batch of them that is fixed in advance costs at a delta, one function for each method of `compose`.

Every figure is an exact rational that is certainly not below the real number that it stands for: no float decides one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, positive, show, whole
from oboro.kinds import each_of, instance, takes, text_of
from oboro.privacy.guarantee import (
    ZCDP,
    Approx,
    Conditional,
    Guarantee,
    Pure,
    Renyi,
    bottom,
    positive_delta,
    round_up,
)
from oboro.privacy.unit import Unit, two_steps

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball


# What a release does to privacy, as immutable records.
#
# An event says what happened; an accountant says what that costs. An accountant that meets an event it does
# not know refuses: a cost that is not understood is never taken for none.


class Event:
    """Something that costs privacy.

    >>> two = ob.privacy.Composed(ob.privacy.LaplaceNoise(10), ob.privacy.Spend(ob.Pure("0.2")))
    >>> ob.compose(two)
    Pure('0.3')
    """


@dataclass(frozen=True, slots=True)
class Spend(Event):
    """A release of which only the guarantee is known. Always valid, never tighter than the guarantee.

    >>> ob.compose(ob.privacy.Spend(ob.Pure("0.2")), ob.privacy.Spend(ob.ZCDP("0.01")))
    ZCDP('0.03')
    """

    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class LaplaceNoise(Event):
    """One number that a unit moves by at most `sensitivity`, under Laplace noise of this scale.

    `discrete` for integers under discrete Laplace noise: its privacy loss is another one.

    >>> ob.compose(ob.privacy.LaplaceNoise(scale=20, sensitivity=2))
    Pure('0.1')
    """

    scale: Fraction
    sensitivity: Fraction
    discrete: bool

    def __init__(self, scale: Number, sensitivity: Number = 1, *, discrete: bool = True) -> None:
        instance("discrete", discrete, bool)
        object.__setattr__(self, "scale", positive("scale", scale))
        object.__setattr__(
            self,
            "sensitivity",
            Fraction(whole("sensitivity", sensitivity, least=1))
            if discrete
            else positive("sensitivity", sensitivity),
        )
        object.__setattr__(self, "discrete", discrete)

    @property
    def guarantee(self) -> Pure:
        return Pure(self.sensitivity / self.scale)


@dataclass(frozen=True, slots=True)
class GaussianNoise(Event):
    """A vector that a unit moves by at most `sensitivity` in the 2-norm, under Gaussian noise of this variance.

    The discrete Gaussian on integers keeps the same rho [Canonne, Kamath, Steinke 2020, Theorem 14].

    >>> ob.compose(ob.privacy.GaussianNoise(variance=50, sensitivity=1))
    ZCDP('0.01')
    """

    variance: Fraction
    sensitivity: Fraction
    discrete: bool

    def __init__(self, variance: Number, sensitivity: Number = 1, *, discrete: bool = True) -> None:
        instance("discrete", discrete, bool)
        object.__setattr__(self, "variance", positive("variance", variance))
        object.__setattr__(self, "sensitivity", positive("sensitivity", sensitivity))
        object.__setattr__(self, "discrete", discrete)

    @property
    def guarantee(self) -> ZCDP:
        return ZCDP(self.sensitivity**2 / (2 * self.variance))


@dataclass(frozen=True, slots=True)
class Repeated(Event):
    """The same event, independently, `times` times.

    >>> ob.compose(ob.privacy.Repeated(ob.privacy.LaplaceNoise(100), 50))
    Pure('0.5')
    """

    event: Event
    times: int

    def __init__(self, event: Event, times: int) -> None:
        object.__setattr__(self, "event", event)
        object.__setattr__(self, "times", whole("times", times, least=1))


@dataclass(frozen=True, slots=True)
class Composed(Event):
    """Several events on the same data, fixed in advance.

    >>> both = ob.privacy.Composed(ob.privacy.GaussianNoise(50), ob.privacy.GaussianNoise(100))
    >>> ob.compose(both)
    ZCDP('0.015')
    >>> ob.compose(both, delta="1e-6", method="zcdp")
    Approx('0.9254...', '1e-6')
    """

    events: tuple[Event, ...]

    def __init__(self, *events: Event) -> None:
        object.__setattr__(self, "events", events)


# Costs, added exactly: rationals in one currency, valid however the questions depend on earlier answers.


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

    >>> ob.privacy.convert(ob.Pure("0.2"), currency=ob.ZCDP(1))
    ZCDP('0.02')
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
        fix="ob.privacy.Spend(guarantee), with the guarantee that was proved for it",
    )


_HUGE = 10_000  # an eps beyond any use, whose exponential is beyond what is worth computing


def basic(events: Sequence[Event], delta: Fraction) -> Approx:
    """The sum, converted once."""
    return added(events).unconditional.to_approx(delta)


def advanced(events: Sequence[Event], delta: Fraction) -> Approx:
    """sqrt(2 ln(1/delta) sum e^2) + sum e (exp(e) - 1), for pure costs."""
    from oboro.noise.lazy import ball

    costs = [(cost_of(event).unconditional, count) for event, count in counted(events).items()]
    if not all(isinstance(cost, Pure) for cost, _ in costs):
        raise GuaranteeError(
            "advanced composition is for pure costs", needed="Pure parts", fix=setting(method="pld")
        )
    eps = [(cost.eps, count) for cost, count in costs if isinstance(cost, Pure)]
    if not eps:
        return Approx(0, delta)
    plain = sum((e * count for e, count in eps), Fraction(0))
    if max(e for e, _ in eps) > 100:  # e (exp(e) - 1) is beyond any use, and beyond what can be written down
        return Approx(plain, delta)
    squares = sum((e * e * count for e, count in eps), Fraction(0))

    def total() -> Ball:
        drift = sum((ball(e) * (ball(e).exp() - 1) * count for e, count in eps), ball(0))
        return (-2 * ball(delta).log() * ball(squares)).sqrt() + drift

    return Approx(min(round_up(total), plain), delta)


def zcdp(events: Sequence[Event], delta: Fraction) -> Approx:
    """rho + 2 sqrt(rho ln(1/delta)), for the sum rho of what the parts cost as zCDP."""
    costs = ((cost_of(event).unconditional.to_zcdp(), count) for event, count in counted(events).items())
    rho = sum((cost.rho * count for cost, count in costs), Fraction(0))
    return ZCDP(rho).to_approx(delta, rule="simple")


def renyi(events: Sequence[Event], delta: Fraction) -> Approx:
    """Rényi divergences of one order, added and converted. Any order is valid: a search finds a good one."""
    from oboro.noise.lazy import ball

    parts = [(event, cost_of(event).unconditional, count) for event, count in counted(events).items()]
    for event, cost, _ in parts:
        if not isinstance(cost, Pure | ZCDP):
            raise GuaranteeError(
                f"Rényi composition is not known for {cost}", given=repr(event), fix=setting(method="pld")
            )

    def divergence(order: Fraction, event: Event, cost: Guarantee) -> Ball:
        if type(event) is not LaplaceNoise or event.discrete or event.guarantee.eps > _HUGE:
            return ball(cost.to_renyi(order).eps)
        a, e = ball(order), ball(event.guarantee.eps)  # [Mironov 2017, Prop. 6]
        return ((a * ((a - 1) * e).exp() + (a - 1) * (-a * e).exp()) / (2 * a - 1)).log() / (a - 1)

    def eps(x: float) -> Fraction:
        order = Fraction(1 + math.exp(x)).limit_denominator(1000)
        total = round_up(
            lambda: sum((divergence(order, event, cost) * n for event, cost, n in parts), ball(0))
        )
        return Renyi(order, max(Fraction(0), total)).to_approx(delta).eps

    return Approx(eps(bottom(eps, -5.0, 15.0)), delta) if parts else Approx(0, delta)


def pld(events: Sequence[Event], delta: Fraction) -> Approx:
    """Privacy loss distributions, convolved as exact integers.

    A cost of which only the guarantee is known enters as the worst mechanism with that guarantee.
    """
    from oboro.privacy.losses import Bell, Law, Slope, Steps, eps_of

    laws: list[tuple[Law, Fraction, int]] = []
    square = eps = tiny = plain = tells = Fraction(0)
    for event, count in counted(events).items():
        cost = cost_of(event).unconditional
        if type(event) is GaussianNoise and not event.discrete:
            square += 2 * event.guarantee.rho * count
            continue
        if not isinstance(cost, Pure | Approx):
            raise GuaranteeError(
                f"a privacy loss distribution is not known for {cost}",
                given=repr(event),
                needed="Laplace noise, continuous Gaussian noise, or a Pure or Approx cost",
                fix=setting(method="zcdp"),
            )
        small = cost.delta if isinstance(cost, Approx) else Fraction(0)
        plain, tells = plain + cost.eps * count, tells + small * count
        if cost.eps == 0 or cost.eps > _HUGE:  # nothing to gain: added, as the ledger does
            eps, tiny = eps + cost.eps * count, tiny + small * count
        elif type(event) is LaplaceNoise:
            steps = Steps(event.scale, int(event.sensitivity)) if event.discrete else Slope(cost.eps)
            laws.append((steps, small, count))
        else:
            laws.append((Steps(1 / cost.eps), small, count))
    if square > 2 * _HUGE:
        eps, tiny = eps + ZCDP(square / 2).to_approx(delta / 2).eps, tiny + delta / 2
    elif square > 0:
        laws.append((Bell.of(square, delta / 2**40), Fraction(0), 1))
    found = eps_of(laws, delta - tiny) if delta > tiny else None
    valid = [] if found is None else [eps + found]
    if square == 0 and tells <= delta:
        valid.append(plain)
    if not valid:
        raise GuaranteeError(
            "these parts keep no (eps, delta) promise at so small a delta",
            given=told(delta=show(delta)),
            needed="more than the deltas of the parts together",
            fix=setting(delta="1e-3"),
        )
    return Approx(min(valid), delta)


# What several releases cost together.
#
# `compose` adds costs: exact, and valid however the questions depend on earlier answers. With `delta=` it
# gives tighter figures for a batch that is fixed in advance:
#
#     method      what it does                                        100 x Laplace at eps 0.1, delta 1e-6
#     "basic"     sums                                                10
#     "advanced"  Dwork, Rothblum, Vadhan 2010, pure parts            6.31
#     "zcdp"      sums of rho, converted by the simple rule           5.76
#     "renyi"     sums of Rényi divergences, best order               4.98
#     "pld"       privacy loss distributions (losses.py)              4.69
#
# `parallel` is for releases about disjoint groups of rows.

__all__ = ["METHODS", "compose", "convert", "cost_of", "parallel", "times", "worst"]

METHODS: dict[str, Callable[[Sequence[Event], Fraction], Approx]] = {
    "basic": basic,
    "advanced": advanced,
    "zcdp": zcdp,
    "renyi": renyi,
    "pld": pld,
}


@takes(parts=each_of(Guarantee, Event), method=text_of)
def compose(*parts: Guarantee | Event, delta: Number | None = None, method: str | None = None) -> Guarantee:
    """What all `parts` cost together.

    Without `delta` the costs are added in the weakest currency among them: exact rationals, valid for
    adaptive questions. With `delta` the batch must be fixed in advance and the answer is an `Approx`;
    `method` defaults to the tightest, "pld".

    >>> ob.compose(ob.Pure("0.1"), ob.Pure("0.2"))
    Pure('0.3')
    >>> many = [ob.Pure("0.01")] * 200
    >>> ob.compose(*many), ob.compose(*many, delta="1e-9")
    (Pure(2), Approx('0.7580...', '1e-9'))
    """
    events = [part if isinstance(part, Event) else Spend(part) for part in parts]
    if delta is None:
        if method not in (None, "basic"):
            raise ParameterError(
                f"method {method!r} needs delta",
                given=told(delta="None"),
                needed="a number above 0",
                fix=setting(delta="1e-6"),
            )
        return added(events)
    small = positive_delta(delta)
    method = method or "pld"
    if method not in list(METHODS):
        raise ParameterError(
            "method is unknown",
            given=told(method=repr(method)),
            needed=", ".join(METHODS),
            fix=setting(method="pld"),
        )
    assumptions = sorted({text for event in events for text in cost_of(event).assumptions})
    total = METHODS[method](events, small)
    return Conditional(total, assumptions) if assumptions else total


@takes(guarantees=each_of(Guarantee), unit=Unit, inside=each_of(Guarantee))
def parallel(*guarantees: Guarantee, unit: Unit, inside: Sequence[Guarantee] | None = None) -> Guarantee:
    """What releases about disjoint groups of rows or cells cost together.

    `guarantees` are each group's cost of adding or removing one unit's data in that group. A unit that may
    touch k groups costs the k largest together: the maximum where a unit is one row. Under "replace" the
    old data leave k groups and the new ones enter k groups, perhaps the same: twice the sum in eps, four
    times in rho. `inside` may give each group's cost of a replacement inside it where it is known to be
    smaller; then, for one row, it is the larger of the worst of these and the two largest together (a row
    that moves touches two groups).

    >>> groups = [ob.Pure("0.1"), ob.Pure("0.3"), ob.Pure("0.2")]
    >>> ob.parallel(*groups, unit=ob.Unit.row())
    Pure('0.3')
    >>> ob.parallel(*groups, unit=ob.Unit.person("id", max_rows=2))
    Pure('0.5')
    """
    if not guarantees:
        return Pure(0)
    assumptions = sorted({text for part in (*guarantees, *(inside or ())) for text in part.assumptions})
    costs = one_currency([part.unconditional for part in guarantees])
    if unit.adjacency == "add/remove":
        total = _largest(costs, unit.contributions)
    elif inside is None or unit.contributions > 1:
        total = two_steps(_largest(costs, unit.contributions))
    else:
        if len(inside) != len(guarantees):
            raise ParameterError(
                "inside does not fit the groups",
                given=f"{len(inside)} costs for {len(guarantees)} groups",
                needed="the cost of a replacement inside each group, in their order",
                fix=setting(inside=None),
            )
        within = [part.unconditional for part in inside]
        total = _largest(one_currency([_largest(costs, 2), *within]), 1)
    return Conditional(total, assumptions) if assumptions else total


@takes(guarantees=each_of(Guarantee))
def worst(*guarantees: Guarantee) -> Guarantee:
    """What covers each of several costs, of which one arises: in the weakest currency among them, number by number."""
    assumptions = sorted({text for one in guarantees for text in one.assumptions})
    total = _largest(one_currency([one.unconditional for one in guarantees]), 1)
    return Conditional(total, assumptions) if assumptions else total


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
