"""How a noise plan is made: digit urns by search, or the paper's urn by its algorithm. Verified before it is given."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, about, not_negative, positive, show, usable, whole
from oboro.kinds import shown, text_of, unknown
from oboro.noise.laplace import as_float
from oboro.privacy import Approx
from oboro.secure.batch import MOST_ANSWERS
from oboro.secure.digits import digit_urns, optimum, scaled
from oboro.secure.law import Urn, conditions, drawer_delta, law_of
from oboro.secure.noise_plan import METHODS, MOST_SENT, NoisePlan, check_printed, rounded_up
from oboro.secure.papers.kii import algorithm2, init_is_too_small

Progress = Callable[[float], None]
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
    answers: int = 1,
    urn_delta: Number | None = None,
    excess: Number | None = None,
    seconds: float = 30,
    progress: Progress | None = None,
) -> NoisePlan:
    """Noise for an answer that one unit moves by at most `sensitivity`.

    method="digits": `urns` distinct digit urns (and one more where the sensitivity is above 1), with the fewest
    entries found in `seconds` for which E|Z| is at most (1 + `excess`) times that of the discrete Laplace law.
    method="paper": Algorithm 2 for `draws` draws from one urn, with the stop rule behind its tables, or
    stop="proof"; `init` is the count of the largest value. Refused where Theorem 4.1 does not hold.
    method="printed": the same urn, sent once and drawn from `draws` times by one party, as the paper prints it. `delta` is the
    promise to that party too, which knows its indices; `urn_delta` is what Algorithm 2 is given, `delta` if left out.

    `answers`: a batch, of which one unit moves one answer. The answers share urns that are as many times as large as it
    takes, and no entry is drawn twice. It saves bytes from some hundreds of answers on, and costs noise: `excess` is 0.4 there,
    and 0.032 otherwise.

    >>> noise = ob.secure.plan(eps=1, delta="1e-3", method="paper", draws=2)
    >>> noise.entries, float(noise.mean_abs), float(noise.optimum)
    (61, 1.7242..., 0.8509...)
    """
    promise = Approx(positive("eps", eps), positive("delta", delta))
    usable("eps", promise.eps, (-9, 2))  # the search is in doubles
    usable("delta", promise.delta)
    sensitivity = whole("sensitivity", sensitivity, least=1)
    if promise.delta >= Fraction(1, 2):
        raise ParameterError(
            "delta must be below 1/2",
            given=told(delta=show(promise.delta)),
            needed="a small number",
            fix=setting(delta="1e-10"),
        )
    if text_of("method", method) not in METHODS:
        raise unknown("method", method, list(METHODS))
    answers = whole("answers", answers, least=1, most=MOST_ANSWERS)
    if urn_delta is not None and method != "printed":
        raise ParameterError(
            "urn_delta is for the protocol as printed",
            given=told(urn_delta=shown(urn_delta), method=repr(method)),
            needed="delta alone: it is what the urns are made for",
            fix=setting(method="printed"),
        )
    limit = not_negative("excess", excess if excess is not None else "0.032" if answers == 1 else "0.4")
    time_limit = as_float(positive("seconds", seconds))
    if method == "printed":
        check_printed(answers, 1)
        aimed = promise.delta if urn_delta is None else positive("urn_delta", urn_delta)
        urn = _paper(Approx(promise.eps, aimed), sensitivity, draws, stop, init)
        return _as_printed(promise, aimed, sensitivity, urn, draws)
    if method == "paper" and answers == 1:
        return NoisePlan(
            promise, sensitivity, method, (_paper(promise, sensitivity, draws, stop, init),), draws
        )
    if answers == 1:
        found = _digits(promise, urns, limit, time_limit, progress)
        return NoisePlan(promise, sensitivity, method, scaled(found, sensitivity))

    def make(aimed: Approx, within: Fraction, time_limit: float) -> tuple[Urn, ...]:
        if method == "paper":
            return (algorithm2(aimed.eps, aimed.delta, sensitivity, draws, init=init, stop=stop),)
        return scaled(_digits(aimed, urns, within, time_limit, None), sensitivity)

    return _batch(
        promise,
        sensitivity,
        method,
        draws if method == "paper" else 1,
        answers,
        make,
        limit,
        time_limit,
        progress,
    )


def _digits(
    promise: Approx, urns: int, excess: Fraction, seconds: float, progress: Progress | None
) -> tuple[Urn, ...]:
    count = whole("urns", urns, least=1, most=MOST_DIGITS)
    if count == 1:  # nothing to search: built from its ends inwards, each count as large as eps allows
        return (algorithm2(promise.eps, promise.delta, 1, 1, stop="proof"),)
    return digit_urns(promise.eps, promise.delta, count, excess=excess, seconds=seconds, progress=progress)


def _as_printed(promise: Approx, aimed: Fraction, sensitivity: int, urn: Urn, draws: int) -> NoisePlan:
    """Protocol 1 with this urn, for what its drawer is promised."""
    kept = drawer_delta(urn, draws, promise.eps, sensitivity)
    if kept.high > promise.delta:
        raise GuaranteeError(
            "the party that draws knows its indices, and the noise does not keep the promise to it",
            given=f"delta({show(promise.eps)}) = {about(kept.high, 8)}",
            needed=f"at most {show(promise.delta)}",
            fix=told(delta=repr(show(rounded_up(kept))), urn_delta=repr(show(aimed))),
        )
    return NoisePlan(promise, sensitivity, "printed", (urn,), draws)


# A batch: urns for a somewhat smaller eps, which leaves room for what other answers took, made larger until it is enough.

_SHARES = tuple(Fraction(percent, 100) for percent in (97, 95, 90, 85, 80, 75, 70, 60, 50))
_ROUNDING = Fraction(1, 20)  # how far urns may exceed the law that they stand for
_Make = Callable[[Approx, Fraction, float], tuple[Urn, ...]]


def _batch(
    promise: Approx,
    sensitivity: int,
    method: str,
    draws: int,
    answers: int,
    make: _Make,
    excess: Fraction,
    seconds: float,
    progress: Progress | None,
) -> NoisePlan:
    """The fewest entries over all shares of eps with which E|Z| stays within the excess."""

    def larger(urns: tuple[Urn, ...], times: int) -> NoisePlan | None:
        """Every count so many times as large, if that keeps the promise."""
        try:
            grown = tuple(Urn(urn.first, urn.step, [times * count for count in urn.counts]) for urn in urns)
            return NoisePlan(promise, sensitivity, method, grown, draws, answers)
        except (GuaranteeError, ParameterError):
            return None

    best: NoisePlan | None = None
    for number, share in enumerate(_SHARES):
        within = (1 + excess) * Fraction(
            optimum(promise.eps, sensitivity) / optimum(share * promise.eps, sensitivity)
        ) - 1
        if progress is not None:
            progress(number / len(_SHARES))
        if within < 0:
            continue
        try:
            urns = make(
                Approx(share * promise.eps, 3 * promise.delta / 4),
                min(within, _ROUNDING),
                seconds / len(_SHARES),
            )
        except GuaranteeError:
            continue
        entries = draws * sum(urn.size for urn in urns)
        low, high, found = 0, 1, larger(urns, 1)
        while found is None and high * entries <= MOST_SENT:
            low, high = high, 2 * high
            found = larger(urns, high)
        while found is not None and high - low > 1:
            middle = (low + high) // 2
            smaller = larger(urns, middle)
            low, high, found = (middle, high, found) if smaller is None else (low, middle, smaller)
        if found is not None and (best is None or found.entries_sent < best.entries_sent):
            best = found
    if best is None:
        raise GuaranteeError(
            "no urns were found that keep the promise to a batch",
            given=told(answers=f"{answers}", excess=show(excess)),
            needed="more noise or time, fewer answers, or a larger delta; or separate draws",
            fix=told(excess=show(max(2 * excess, Fraction(2, 5))), seconds=f"{4 * seconds:g}"),
        )
    return best


def _paper(promise: Approx, sensitivity: int, draws: int, stop: str, init: int | None) -> Urn:
    """The urn of Algorithm 2, if Theorem 4.1 holds for it."""
    urn = algorithm2(promise.eps, promise.delta, sensitivity, draws, init=init, stop=stop)
    holds = conditions(law_of((urn,), draws), promise.eps, promise.delta, sensitivity)
    if not holds["iii"]:
        raise init_is_too_small(promise.eps / sensitivity, draws, urn.counts[0])
    failed = [name for name, held in holds.items() if not held]
    if failed:
        raise GuaranteeError(
            f"Algorithm 2 fails here: condition ({failed[0]}) of Theorem 4.1 does not hold (Conjecture 4.2.1 is false)",
            given=told(draws=f"{draws}", init=f"{urn.counts[0]}"),
            needed="an urn that the theorem covers",
            fix=setting(method="digits"),
        )
    return urn
