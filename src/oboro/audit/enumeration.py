"""The truth instead of trials, where the law of the output can be computed.

Many plans add independent noise to whole numbers. Then the privacy loss follows from the law of the noise and from how
far apart the prepared numbers of two neighbours are: eps as an exact rational, deltas and divergences to 1e-12.

That `measure` really is "prepared numbers plus this noise" is not taken on trust. It is replayed: `measure` and the
declared noise draw from two copies of the same bits, and must agree in every number of every trial, in both
worlds. A wrong scale, noise that is reused or left out, a branch that looks at the data: all of them disagree. Then the
law counts as unknown, and trials have to show what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.audit.events import ORDERS, AuditReport, Finding, flat
from oboro.errors import ParameterError
from oboro.kinds import each_of, takes
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace, system_bits
from oboro.noise.selection import permuted_and_flipped
from oboro.privacy import ZCDP, Approx, Guarantee, Pure, Renyi
from oboro.release import Additive, Chosen, Pair, Plan, Weighted
from oboro.release.plan import attackable

# The privacy loss of noise on whole numbers, computed from its law.
#
# For worlds P and Q the loss of an output is L = ln P/Q. Its law under P says everything: eps is its largest value, the
# delta at eps is the mean of (1 - e^(eps - L))+, the divergence of order a is ln E e^((a-1) L) / (a-1). Losses of
# independent numbers add up.

Noise = DiscreteLaplace | DiscreteGaussian
Move = tuple[Noise, int]  # the noise of a number, and how far apart the worlds are in it
Losses = dict[Fraction, float]  # a loss and its probability

LONGEST = 2_000_000  # terms of a sum
MOST_LOSSES = 200_000
_TAIL = 45  # standard deviations: what lies beyond has a probability below e^-1000


class TooMany(Exception):
    """More terms than are worth adding up."""


def pure_eps(moves: Iterable[Move]) -> Fraction | None:
    """The largest loss, as an exact rational: sum |move| / scale. None where the noise has no largest loss."""
    total = Fraction(0)
    for noise, move in moves:
        if isinstance(noise, DiscreteLaplace):
            total += Fraction(abs(move)) / noise.scale
        elif move:
            return None
    return total


def divergence(moves: Iterable[Move], order: Fraction) -> float:
    """The Rényi divergence of this order, by adding up the law; numbers are independent, so theirs add up."""
    return math.fsum(_one_divergence(noise, abs(move), float(order)) for noise, move in moves if move)


def _one_divergence(noise: Noise, move: int, order: float) -> float:
    if isinstance(noise, DiscreteLaplace):
        rate, reach = float(1 / noise.scale), math.ceil(_TAIL * float(noise.scale)) + order * move
    else:
        rate, reach = float(1 / (2 * noise.sigma2)), _TAIL * math.sqrt(noise.sigma2) + order * move
    if reach > LONGEST:
        raise TooMany
    k = np.arange(-math.ceil(reach), math.ceil(reach) + 1, dtype=np.float64)
    power = 1 if isinstance(noise, DiscreteLaplace) else 2
    weight, moved = -rate * np.abs(k) ** power, -rate * np.abs(k - move) ** power
    mixed = order * weight + (1 - order) * moved
    top = float(mixed.max())
    return (math.log(math.fsum(np.exp(mixed - top))) + top - math.log(math.fsum(np.exp(weight)))) / (
        order - 1
    )


def added(moves: Sequence[Move]) -> Losses:
    """The law of the summed loss under the first world."""
    total: Losses = {Fraction(0): 1.0}
    for noise, move in moves:
        if move:
            own = _laplace_losses(noise, abs(move)) if isinstance(noise, DiscreteLaplace) else None
            if own is None or len(total) * len(own) > MOST_LOSSES:
                raise TooMany
            total = _sum(total, own)
    return total


def _laplace_losses(noise: DiscreteLaplace, move: int) -> Losses:
    """L(k) = (|k - move| - |k|) / scale: move/scale up to k = 0, then two steps less for each k, from k = move on the least."""
    if move > MOST_LOSSES:
        raise TooMany
    step = 1 / noise.scale
    losses = {step * move: float(noise.cdf(0)), -step * move: float(noise.cdf(-move))}
    for k in range(1, move):
        losses[step * (move - 2 * k)] = losses.get(step * (move - 2 * k), 0.0) + float(noise.pmf(k))
    return losses


def _sum(one: Losses, other: Losses) -> Losses:
    total: Losses = {}
    for a, p in one.items():
        for b, q in other.items():
            total[a + b] = total.get(a + b, 0.0) + p * q
    return total


def delta_at(losses: Losses, eps: float) -> float:
    """The least delta at eps, in this direction."""
    return math.fsum(p * -math.expm1(eps - float(loss)) for loss, p in losses.items() if float(loss) > eps)


def weights_delta(one: Mapping[Any, int], other: Mapping[Any, int], total: int, eps: float) -> float:
    """sum of (P - e^eps Q)+ for whole-number weights over one total."""
    return math.fsum(
        max(0.0, weight / total - math.exp(eps) * other.get(output, 0) / total)
        for output, weight in one.items()
    )


def eps_at(delta_of: Sequence[Callable[[float], float]], delta: float) -> float:
    """The least eps at which every function gives at most `delta`, to 1e-13."""
    low, high = 0.0, 700.0

    def worst(eps: float) -> float:
        return max(function(eps) for function in delta_of)

    if worst(high) > delta:
        return math.inf
    if worst(low) <= delta:
        return 0.0
    while high - low > 1e-13 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if worst(middle) <= delta else (middle, high)
    return high


REPLAYED = 64  # trials


@takes(plan=attackable, pairs=each_of(Pair))
def exact(plan: Plan, pairs: Iterable[Pair] | None = None) -> AuditReport:
    """What the plan's worst cases, or `pairs`, really cost. Refuses a plan whose law cannot be computed.

    >>> report = ob.audit.exact(plan)
    >>> report.verdict, round(report.eps_lower, 6)
    ('holds', 0.5)
    """
    findings = []
    for pair in getattr(plan, "neighbours", tuple)() if pairs is None else pairs:
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


def computed(plan: Plan, pair: Pair, prepared: Sequence[object] | None = None) -> list[Finding]:
    """The truth about one pair, whose worlds may be `prepared` already; nothing where it cannot be computed."""
    form = plan.added() if hasattr(plan, "added") else None
    if form is None:
        return []
    worlds = [plan.prepare(data) for data in (pair.one, pair.other)] if prepared is None else list(prepared)
    if isinstance(form, Weighted):
        return _weighted(plan, form, worlds, pair.why)
    if isinstance(form, Chosen):
        return chosen_findings(plan, form, worlds, pair.why)
    if not all(_sums_replay(plan, form, prepared) for prepared in worlds):
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
    except TooMany:
        return []


def _judged(promise: Guarantee, moves: list[Move], why: str) -> list[Finding]:
    if isinstance(promise, Pure):
        eps = pure_eps(moves)
        return [
            Finding(why, Fraction(0), promise.eps, math.inf if eps is None else float(eps), None, "computed")
        ]
    if isinstance(promise, Approx):
        law = added(moves)
        eps_true = eps_at([partial(delta_at, law)], float(promise.delta))
        return [Finding(why, promise.delta, promise.eps, eps_true, None, "computed")]
    if isinstance(promise, ZCDP | Renyi):
        orders = ORDERS if isinstance(promise, ZCDP) else (promise.order,)
        return [
            Finding(
                why,
                Fraction(0),
                promise.to_renyi(order).eps,
                divergence(moves, order),
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


def _sums_replay(plan: Plan, form: Additive, prepared: object) -> bool:
    """Whether `measure` gives the prepared numbers plus the declared noise, in every number of some trials."""
    seed = system_bits().words(6).tobytes()
    seen = flat(plan.measure(prepared, SameBits(seed), REPLAYED), REPLAYED)
    noise = flat(form.draw(prepared, SameBits(seed), REPLAYED), REPLAYED)
    still = flat([np.asarray(part)[None] for part in _parts(prepared)], 1)
    return seen.shape == noise.shape and bool(np.array_equal(seen - still, noise))


def _parts(prepared: object) -> list[object]:
    return list(prepared) if isinstance(prepared, list | tuple) else [prepared]


# -- whole-number weights ------------------------------------------------------------------------------------------------


def _weighted(plan: Any, form: Weighted, worlds: Sequence[Any], why: str) -> list[Finding]:
    """A sum of uniform draws: every output has a weight that is a whole number."""
    if not all(_weighted_replays(plan, form, prepared) for prepared in worlds):
        return []
    one, other = (form.weights(prepared) for prepared in worlds)
    total = sum(one.values())
    directions = [partial(weights_delta, p, q, total) for p, q in ((one, other), (other, one))]
    promise = plan.guarantee.unconditional
    eps = eps_at(directions, float(promise.delta))
    return [Finding(why, promise.delta, promise.eps, eps, None, "computed")]


def _weighted_replays(plan: Plan, form: Weighted, prepared: object) -> bool:
    seed = system_bits().words(6).tobytes()
    drawn = form.draw(prepared, SameBits(seed), REPLAYED)
    return bool(np.array_equal(plan.measure(prepared, SameBits(seed), REPLAYED), drawn))


# The true cost of a quantile: the law of permute-and-flip on a small grid, computed from the proof's own score.
#
# The score of each value is computed here from its definition, by counting rows, not by the code that draws. That `measure`
# draws by it is replayed: it and this module choose with the same bits, each by its own scores, and must choose alike.

LARGEST = 2**16  # values of the column


def chosen_findings(plan: Any, form: Chosen, worlds: Sequence[Any], why: str) -> list[Finding]:
    """eps of one quantile for each group: groups are independent, so their largest losses add up."""
    if form.size > LARGEST:
        return []
    if not all(_choices_replay(plan, form, prepared) for prepared in worlds):
        return []
    eps = 0.0
    for one, other in zip(*worlds, strict=True):
        eps += max(float(np.abs(_log_law(form, one) - _log_law(form, other)).max()), 0.0)
    return [Finding(why, Fraction(0), plan.guarantee.eps, eps, None, "computed")]


def _scores(form: Chosen, ranks: Any) -> Integers:
    q, rows = form.quantile, np.zeros(form.size, np.int64)
    rows[ranks.codes] = np.diff(np.concatenate([[0], ranks.upto]))
    at_or_below = np.cumsum(rows)
    below, n = at_or_below - rows, int(rows.sum())
    over, under = q.denominator * below - q.numerator * n, q.numerator * n - q.denominator * at_or_below
    return np.asarray(np.maximum(over, under), np.int64)


def _log_law(form: Chosen, ranks: Any) -> Floats:
    """ln P(value) for each value of the column.

    Let each arrive at a uniform time and show heads with probability p = e^(-eta gap): the first heads wins. So value i wins
    with p_i times the integral over t from 0 to 1 of the product of 1 - p_j t over all others. In pieces that shrink towards 0,
    where the product falls like e^(-t sum p), and towards 1, where few are left, twelve nodes each give ten digits.
    """
    scores, counts = np.unique(_scores(form, ranks), return_counts=True)
    log_coins = -float(form.eta) * (scores - scores[0]).astype(float)
    halves = 2.0 ** -np.arange(52.0, 0.9, -0.5)
    ends = np.concatenate([[0.0], halves, 1 - halves[-2::-1], [1.0]])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    t = np.minimum((ends[:-1, None] + np.diff(ends)[:, None] * (nodes + 1) / 2).ravel(), 1 - 2.0**-53)
    weight = (np.diff(ends)[:, None] * weights / 2).ravel()
    tails = np.log1p(-np.outer(np.exp(log_coins), t))  # by score and time
    logs = counts @ tails + np.log(weight)
    law = log_coins + np.array([np.logaddexp.reduce(logs - one) for one in tails])
    return np.asarray(law[np.searchsorted(scores, _scores(form, ranks))])


def _choices_replay(plan: Plan, form: Chosen, prepared: Any) -> bool:
    """Whether each answer is what permute-and-flip on these scores gives with the same bits."""
    seed = system_bits().words(6).tobytes()
    drawn = np.asarray(plan.measure(prepared, SameBits(seed), REPLAYED))[:, :, 0]
    bits = SameBits(seed)
    for group, ranks in enumerate(prepared):
        edges = np.unique(np.concatenate([[0], ranks.codes, ranks.codes + 1, [form.size]]))
        starts, stops = edges[:-1], edges[1:]
        scores = _scores(form, ranks)[starts]
        won = permuted_and_flipped(scores, form.eta, REPLAYED, stops - starts, bits)
        if np.any(drawn[:, group] < starts[won]) or np.any(drawn[:, group] >= stops[won]):
            return False
        _skip(bits, starts[won], stops[won])
    return True


def _skip(bits: SameBits, starts: Integers, stops: Integers) -> None:
    """Draws the places within the runs again, as `measure` did, so that the next group sees the same bits."""
    from oboro.noise.draws import uniform_integers

    for start in np.unique(starts):
        mine = starts == start
        uniform_integers(int(stops[mine][0] - start), int(mine.sum()), bits)
