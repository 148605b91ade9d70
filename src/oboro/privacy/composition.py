"""What several releases cost together.

`compose` adds costs: exact, and valid however the questions depend on earlier answers. With `delta=` it
gives tighter figures for a batch that is fixed in advance:

    method      what it does                                        100 x Laplace at eps 0.1, delta 1e-6
    "basic"     sums                                                10
    "advanced"  Dwork, Rothblum, Vadhan 2010, pure parts            6.31
    "zcdp"      sums of rho, converted by the simple rule           5.76
    "renyi"     sums of Rényi divergences, best order               4.98
    "pld"       privacy loss distributions (losses.py)              4.69

`parallel` is for releases about disjoint groups of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number
from oboro.kinds import each_of, takes, text_of
from oboro.privacy.events import (
    Event,
    Spend,
    added,
    advanced,
    basic,
    convert,
    cost_of,
    one_currency,
    pld,
    renyi,
    times,
    zcdp,
)
from oboro.privacy.guarantee import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, positive_delta
from oboro.privacy.unit import Unit, two_steps

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
