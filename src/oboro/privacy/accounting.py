"""What a batch that is fixed in advance costs at a delta, one function for each method of `compose`.

Every figure is an exact rational that is certainly not below the real number that it stands for: no float decides one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from oboro.errors import GuaranteeError, setting, told
from oboro.exact import show
from oboro.privacy.event import Event, GaussianNoise, LaplaceNoise
from oboro.privacy.guarantee import ZCDP, Approx, Guarantee, Pure, Renyi
from oboro.privacy.rounding import round_up
from oboro.privacy.summing import added, cost_of, counted
from oboro.privacy.unconditional import bottom

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

    def total() -> Any:
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

    def divergence(order: Fraction, event: Event, cost: Guarantee) -> Any:
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
