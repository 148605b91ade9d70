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
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.audit import losses
from oboro.audit.findings import ORDERS, AuditReport, Finding
from oboro.audit.flattening import flat
from oboro.errors import ParameterError
from oboro.kinds import each_of, takes
from oboro.noise import Bits, system_bits
from oboro.noise.draws import uniform_integers
from oboro.privacy import ZCDP, Approx, Pure, Renyi
from oboro.release import Pair
from oboro.release.plan import attackable

Integers = npt.NDArray[np.int64]
Draw = Callable[
    [Any, Bits, int], Any
]  # the noise alone, for as many trials: what `measure` gives minus what was prepared
REPLAYED = 64  # trials
ALIKE = ("histogram", "grid_clusters", "conjunction", "query")  # one noise for all numbers
KINDS = {
    "secure.draw",
    *(
        f"statistics.{name}"
        for name in (*ALIKE, "batch", "components", "count", "covariance", "mean", "quantile", "sum")
    ),
}


@dataclass(frozen=True, slots=True)
class Additive:
    """Prepared numbers plus independent noise: the noise of each number, and how `measure` draws it."""

    noises: Callable[[Any], list[losses.Noise]]
    numbers: Callable[[Any], Integers]
    draw: Draw


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
    if plan.kind not in KINDS:
        return []
    worlds = [plan.prepare(data) for data in (pair.one, pair.other)] if prepared is None else list(prepared)
    if plan.kind == "secure.draw":
        return _urns(plan, worlds, pair.why)
    if plan.kind == "statistics.quantile":
        from oboro.audit.choices import quantile_findings

        return quantile_findings(plan, worlds, pair.why)
    form = _form(plan)
    if form is None:
        return []
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


# -- what a plan adds ------------------------------------------------------------------------------------------------


def _form(plan: Any) -> Additive | None:
    """How a plan adds noise, if it does."""
    if plan.kind in ("statistics.count", "statistics.sum"):
        return None if getattr(plan, "public", False) else _terms((plan.term,))
    if plan.kind in ("statistics.mean", "statistics.covariance"):
        return _terms(plan.terms)
    if plan.kind.removeprefix("statistics.") in ALIKE:
        return _alike(plan.noise)
    if plan.kind == "statistics.components" and isinstance(plan.guarantee, Pure):
        return _triangle(plan)
    if plan.kind == "statistics.batch":
        return _several(plan.plans)
    return None


def _terms(terms: Iterable[Any]) -> Additive:
    """Groups by terms; each term's noise is drawn for all groups at once."""
    laws = [term.noise for term in terms]

    def draw(prepared: Any, bits: Bits, trials: int) -> Any:
        return np.stack([law.sample((trials, *prepared.shape[:1]), bits) for law in laws], axis=-1)

    return Additive(lambda prepared: laws * len(prepared), np.ravel, draw)


def _alike(noise: Any) -> Additive:
    """The same noise on every number."""
    return Additive(
        lambda prepared: [noise] * prepared.size,
        np.ravel,
        lambda prepared, bits, trials: noise.sample((trials, *prepared.shape), bits),
    )


def _triangle(plan: Any) -> Additive:
    """Noise on the upper triangle of a matrix, which is mirrored afterwards."""
    from oboro.noise import DiscreteLaplace

    above = np.triu_indices(plan.d)
    law = DiscreteLaplace(plan.laplace_scale)

    def draw(prepared: Any, bits: Bits, trials: int) -> Any:
        noise = np.zeros((trials, *prepared.shape), np.int64)
        noise[:, above[0], above[1]] = law.sample((trials, len(above[0])), bits)
        noise[:, above[1], above[0]] = noise[:, above[0], above[1]]
        return noise

    return Additive(lambda prepared: [law] * len(above[0]), lambda prepared: prepared[above], draw)


def _several(plans: Iterable[Any]) -> Additive | None:
    forms = [_form(plan) for plan in plans]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None

    def each(prepared: Any) -> Iterable[tuple[Additive, Any]]:
        return zip(known, prepared, strict=True)

    return Additive(
        lambda prepared: [noise for form, part in each(prepared) for noise in form.noises(part)],
        lambda prepared: np.concatenate([form.numbers(part) for form, part in each(prepared)]),
        lambda prepared, bits, trials: [form.draw(part, bits, trials) for form, part in each(prepared)],
    )


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


# -- urns ----------------------------------------------------------------------------------------------------------------


def _urns(plan: Any, worlds: Sequence[Any], why: str) -> list[Finding]:
    """A sum of uniform draws from urns: weights that are whole numbers."""
    from oboro.secure.law import law_of

    if not all(isinstance(prepared, int) and _urn_replays(plan, prepared) for prepared in worlds):
        return []
    law = law_of(plan.noise.sent)
    one, other = (
        {prepared + law.lowest + i: weight for i, weight in enumerate(law.weights) if weight}
        for prepared in worlds
    )
    directions = [partial(losses.weights_delta, p, q, law.total) for p, q in ((one, other), (other, one))]
    promise = plan.guarantee.unconditional
    eps = losses.eps_at(directions, float(promise.delta))
    return [Finding(why, promise.delta, promise.eps, eps, None, "computed")]


def _urn_replays(plan: Any, prepared: int) -> bool:
    seed = system_bits().words(6).tobytes()
    bits = SameBits(seed)
    noise = np.zeros(REPLAYED, np.int64)
    for urn in plan.noise.sent:
        noise += np.asarray(urn.entries(), np.int64)[uniform_integers(urn.size, REPLAYED, bits)]
    return bool(np.array_equal(plan.measure(prepared, SameBits(seed), REPLAYED), prepared + noise))
