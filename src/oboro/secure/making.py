"""How a noise plan is made: digit urns by search, or the paper's urn by its algorithm. Verified before it is given."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, not_negative, positive, show, whole
from oboro.kinds import text_of, unknown
from oboro.noise.laplace import as_float
from oboro.privacy import Approx
from oboro.secure.digits import digit_urns, scaled
from oboro.secure.kii import algorithm2
from oboro.secure.law import Urn
from oboro.secure.noise_plan import NoisePlan, verify

MOST_DIGITS = 8


def plan(
    *,
    eps: Number,
    delta: Number,
    urns: int = 4,
    sensitivity: int = 1,
    method: str = "digits",
    draws: int = 2,
    stop: str = "tables",
    init: int | None = None,
    excess: Number = "0.032",
    seconds: float = 30,
    progress: Callable[[float], None] | None = None,
) -> NoisePlan:
    """Noise for an answer that one unit moves by at most `sensitivity`.

    method="digits": `urns` distinct digit urns (and one more where the sensitivity is above 1), with the fewest
    entries found in `seconds` for which E|Z| is at most (1 + `excess`) times that of the discrete Laplace law.
    method="paper": Algorithm 2 for `draws` draws from one urn, with the stop rule behind its tables, or
    stop="proof"; `init` is the count of the largest value. Refused where Theorem 4.1 does not hold.
    """
    promise = Approx(positive("eps", eps), positive("delta", delta))
    sensitivity = whole("sensitivity", sensitivity, least=1)
    if promise.delta >= Fraction(1, 2):
        raise ParameterError(
            "delta must be below 1/2",
            given=told(delta=show(promise.delta)),
            needed="a small number",
            fix=setting(delta="1e-10"),
        )
    if text_of("method", method) == "paper":
        return _paper(promise, sensitivity, draws, stop, init)
    if method != "digits":
        raise unknown("method", method, ["digits", "paper"])
    count = whole("urns", urns, least=1, most=MOST_DIGITS)
    if count == 1:  # nothing to search: built from its ends inwards, each count as large as eps allows
        found: tuple[Urn, ...] = (algorithm2(promise.eps, promise.delta, 1, 1, stop="proof"),)
    else:
        limit = not_negative("excess", excess)
        time_limit = as_float(positive("seconds", seconds))
        found = digit_urns(
            promise.eps, promise.delta, count, excess=limit, seconds=time_limit, progress=progress
        )
    return NoisePlan(promise, sensitivity, method, scaled(found, sensitivity))


def _paper(promise: Approx, sensitivity: int, draws: int, stop: str, init: int | None) -> NoisePlan:
    urn = algorithm2(promise.eps, promise.delta, sensitivity, draws, init=init, stop=stop)
    made = NoisePlan(promise, sensitivity, "paper", (urn,), draws)
    failed = [name for name, holds in verify(made).conditions.items() if not holds]
    if failed:
        raise GuaranteeError(
            f"Algorithm 2 fails here: condition ({failed[0]}) of Theorem 4.1 does not hold (Conjecture 4.2.1 is false)",
            given=told(draws=f"{draws}", init=f"{urn.counts[0]}"),
            needed="an urn that the theorem covers",
            fix=setting(method="digits"),
        )
    return made
