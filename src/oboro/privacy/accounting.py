"""What a batch that is fixed in advance costs at a delta, one function for each method of `compose`.

dp-accounting works in floats: its figures are taken with a margin of 10^-9, upwards. Those of the other methods are exact
rationals, or certainly not below the real number that they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from oboro.errors import GuaranteeError
from oboro.exact import show
from oboro.privacy.event import Event, GaussianNoise, LaplaceNoise
from oboro.privacy.guarantee import ZCDP, Approx, Pure
from oboro.privacy.rounding import round_up
from oboro.privacy.summing import added, cost_of, counted


def basic(events: Sequence[Event], delta: Fraction) -> Approx:
    """The sum, converted once."""
    return added(events).unconditional.to_approx(delta)


def advanced(events: Sequence[Event], delta: Fraction) -> Approx:
    """sqrt(2 ln(1/delta) sum e^2) + sum e (exp(e) - 1), for pure costs."""
    from oboro.noise.lazy import ball

    costs = [(cost_of(event).unconditional, count) for event, count in counted(events).items()]
    if not all(isinstance(cost, Pure) for cost, _ in costs):
        raise GuaranteeError(
            "advanced composition is for pure costs", needed="Pure parts", fix='method="pld"'
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
    """Rényi divergences of many orders, added by dp-accounting; the best order is converted."""
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant()
    for event, count in counted(events).items():
        accountant.compose(_dp_event(event), count)
    return _approx_above(accountant.get_epsilon(float(delta)), delta)


def pld(events: Sequence[Event], delta: Fraction) -> Approx:
    """Privacy loss distributions, discretised pessimistically by dp-accounting.

    A cost of which only the guarantee is known enters as the worst mechanism with that guarantee.
    """
    from dp_accounting.pld import privacy_loss_distribution as losses

    total = None
    for event, count in counted(events).items():
        one = _loss(losses, event)
        one = one.self_compose(count) if count > 1 else one
        total = one if total is None else total.compose(one)
    return (
        Approx(0, delta) if total is None else _approx_above(total.get_epsilon_for_delta(float(delta)), delta)
    )


def _loss(losses: Any, event: Event) -> Any:
    """The privacy loss distribution of one event, by dp-accounting's module of them."""
    if type(event) is LaplaceNoise:
        if event.discrete:
            return losses.from_discrete_laplace_mechanism(
                float(1 / event.scale), sensitivity=int(event.sensitivity)
            )
        return losses.from_laplace_mechanism(float(event.scale), sensitivity=float(event.sensitivity))
    if type(event) is GaussianNoise and not event.discrete:
        return losses.from_gaussian_mechanism(math.sqrt(event.variance), sensitivity=float(event.sensitivity))
    cost = cost_of(event).unconditional
    if isinstance(cost, Pure | Approx):
        from dp_accounting.pld import common

        params = common.DifferentialPrivacyParameters(float(cost.eps), float(getattr(cost, "delta", 0)))
        return losses.from_privacy_parameters(params)
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
