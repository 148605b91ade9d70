"""The truth instead of trials, where the law of the output can be computed.

Many plans add independent noise to whole numbers. Then the privacy loss follows from the law of the noise and from how
far apart the prepared numbers of two neighbours are: eps as an exact rational, deltas and divergences to 1e-12.

That `measure` really is "prepared numbers plus this noise" is not taken on trust. It is replayed: `measure` and the
declared noise draw from two copies of the same bits, and must agree in every number of every trial, in both
worlds. A wrong scale, noise that is reused or left out, a branch that looks at the data: all of them disagree. Then the
law counts as unknown, and trials have to show what is wrong. The samplers themselves are enumerated bit by bit in
walking.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from oboro.audit import losses
from oboro.audit.findings import ORDERS, AuditReport, Finding
from oboro.audit.flattening import flat
from oboro.errors import ParameterError
from oboro.kinds import each_of, takes
from oboro.noise import Bits, system_bits
from oboro.privacy import ZCDP, Approx, Pure, Renyi
from oboro.release import Additive, Chosen, Pair, Weighted
from oboro.release.plan import attackable

Draw = Callable[
    [Any, Bits, int], Any
]  # the noise alone, for as many trials: what `measure` gives minus what was prepared
REPLAYED = 64  # trials


@takes(plan=attackable, pairs=each_of(Pair))
def exact(plan: Any, pairs: Iterable[Pair] | None = None) -> AuditReport:
    """What the plan's worst cases, or `pairs`, really cost. Refuses a plan whose law cannot be computed."""
    findings = []
    for pair in plan.neighbours() if pairs is None else pairs:
        found = computed(plan, pair)
        if not found:
            raise ParameterError(
                "the law of this plan cannot be computed",
                given=plan.kind,
                needed="whole numbers with independent noise, or a draw from urns",
                fix="ob.audit.run(plan), which measures",
            )
        findings += found
    return AuditReport(plan.kind, plan.guarantee, 0, tuple(findings))


def computed(plan: Any, pair: Pair, prepared: Sequence[Any] | None = None) -> list[Finding]:
    """The truth about one pair, whose worlds may be `prepared` already; nothing where it cannot be computed."""
    form = plan.added() if hasattr(plan, "added") else None
    if form is None:
        return []
    worlds = [plan.prepare(data) for data in (pair.one, pair.other)] if prepared is None else list(prepared)
    if isinstance(form, Weighted):
        return _weighted(plan, form, worlds, pair.why)
    if isinstance(form, Chosen):
        from oboro.audit.choices import chosen_findings

        return chosen_findings(plan, form, worlds, pair.why)
    if not all(_replays(plan, form, prepared) for prepared in worlds):
        return []
    one, other = (form.numbers(prepared) for prepared in worlds)
    if one.shape != other.shape:
        return []
    moves = [
        (noise, int(a) - int(b))
        for noise, a, b in zip(form.noises(worlds[0]), one, other, strict=True)
        if a != b
    ]
    try:
        return _judged(plan.guarantee.unconditional, moves, pair.why)
    except losses.TooMany:
        return []


def _judged(promise: Any, moves: list[losses.Move], why: str) -> list[Finding]:
    if isinstance(promise, Pure):
        eps = losses.pure_eps(moves)
        return [
            Finding(why, Fraction(0), promise.eps, math.inf if eps is None else float(eps), None, "computed")
        ]
    if isinstance(promise, Approx):
        law = losses.added(moves)
        eps_true = losses.eps_at([partial(losses.delta_at, law)], float(promise.delta))
        return [Finding(why, promise.delta, promise.eps, eps_true, None, "computed")]
    if isinstance(promise, ZCDP | Renyi):
        orders = ORDERS if isinstance(promise, ZCDP) else (promise.order,)
        return [
            Finding(
                why,
                Fraction(0),
                promise.to_renyi(order).eps,
                losses.divergence(moves, order),
                None,
                "computed",
                order,
            )
            for order in orders
        ]
    return []


# -- replaying ---------------------------------------------------------------------------------------------------------


class SameBits(Bits):
    """A stream that can be had twice: to see what `measure` does with its bits. Never for a release."""

    safe = False
    description = "UNSAFE bits of the audit: protects nobody"

    def __init__(self, seed: bytes) -> None:
        self._given = seed
        super().__init__()

    def _entropy(self) -> bytes:
        return self._given


def _replays(plan: Any, form: Additive, prepared: Any) -> bool:
    """Whether `measure` gives the prepared numbers plus the declared noise, in every number of some trials."""
    seed = system_bits().words(6).tobytes()
    seen = flat(plan.measure(prepared, SameBits(seed), REPLAYED), REPLAYED)
    noise = flat(form.draw(prepared, SameBits(seed), REPLAYED), REPLAYED)
    still = flat([np.asarray(part)[None] for part in _parts(prepared)], 1)
    return seen.shape == noise.shape and bool(np.array_equal(seen - still, noise))


def _parts(prepared: Any) -> list[Any]:
    return list(prepared) if isinstance(prepared, list | tuple) else [prepared]


# -- whole-number weights ------------------------------------------------------------------------------------------------


def _weighted(plan: Any, form: Weighted, worlds: Sequence[Any], why: str) -> list[Finding]:
    """A sum of uniform draws: every output has a weight that is a whole number."""
    if not all(_weighted_replays(plan, form, prepared) for prepared in worlds):
        return []
    one, other = (form.weights(prepared) for prepared in worlds)
    total = sum(one.values())
    directions = [partial(losses.weights_delta, p, q, total) for p, q in ((one, other), (other, one))]
    promise = plan.guarantee.unconditional
    eps = losses.eps_at(directions, float(promise.delta))
    return [Finding(why, promise.delta, promise.eps, eps, None, "computed")]


def _weighted_replays(plan: Any, form: Weighted, prepared: Any) -> bool:
    seed = system_bits().words(6).tobytes()
    drawn = form.draw(prepared, SameBits(seed), REPLAYED)
    return bool(np.array_equal(plan.measure(prepared, SameBits(seed), REPLAYED), drawn))
