"""Algorithm 2 of Kii: one urn from which n entries are drawn, so that their sum is nearly discrete Laplace.

The urn is built from its ends inwards. With counts a_0, ..., a_L of the values -+(L), ..., 0 the next count is the
largest for which the n-fold convolution c rises by at most e^(eps/sensitivity) from place L to L + 1. Only one
coefficient of the convolution is new in each step [J.C.P. Miller's recurrence, exact integers]:
    a_0 m c_m = sum over k = 1..m of (n k - (m - k)) a_k c_(m-k).

Three choices are not printed, or printed wrongly, and are those that give the paper's tables: solutions are rounded
down; the count of 0 is the last of D (line 16 prints D[i]); and the printed tables stop by the sum of D, not of the
symmetric D that the proof speaks of. Conjecture 4.2.1 is false, for large init too, so what comes out must be verified
before use.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import count as counting
from itertools import pairwise
from math import ceil
from operator import mul

import numpy as np
from flint import arb, arb_poly

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import about, positive, whole
from oboro.noise.lazy import ball, precision
from oboro.release.reproduction import Curve, Curves, Reproducible, Reproduction, Row, curves_of
from oboro.secure.law import MOST_DRAWS, Law, Urn, drawer_delta, exact_delta, exp_between, law_of

STOPS = ("tables", "proof")
MOST_STEPS = 3000
MOST_INIT = 10**9


def algorithm2(
    eps: Fraction,
    delta: Fraction,
    sensitivity: int,
    draws: int,
    *,
    init: int | None = None,
    stop: str = "tables",
) -> Urn:
    """The urn of Algorithm 2. Not verified: `oboro.secure.plan` does that.

    `stop="tables"` is the rule behind the paper's tables, `stop="proof"` the one that it prints and its proof needs; it
    ends earlier. An `init` so small that the law falls towards the middle is refused, as its section 4.4 advises.

    >>> from fractions import Fraction
    >>> ob.secure.algorithm2(Fraction(1), Fraction(1, 1000), sensitivity=1, draws=2)
    Urn(first=-5, step=1, counts=(1, 1, 2, 4, 10, 25, 10, 4, 2, 1, 1))
    """
    draws = whole("draws", draws, least=1, most=MOST_DRAWS)
    if not isinstance(stop, str) or stop not in STOPS:
        raise ParameterError(
            "stop is unknown",
            given=told(stop=repr(stop)),
            needed='"tables" or "proof"',
            fix=setting(stop="tables"),
        )
    eps, delta = positive("eps", eps), positive("delta", delta)
    sensitivity = whole("sensitivity", sensitivity, least=1)
    rate = eps / sensitivity
    start = smallest_init(rate, draws) if init is None else whole("init", init, least=1, most=MOST_INIT)
    counts: list[int] = []
    ends, inner = 0, 0  # the sum of c_k for k < sensitivity; the sum of all counts but the last
    for last, coefficient in _steps(rate, draws, start, counts):
        if len(counts) <= sensitivity:
            ends += coefficient
        if len(counts) >= 2:
            total = inner + last if stop == "tables" else 2 * inner + last
            # L + 1 >= sensitivity, with L + 1 = len(counts)
            if len(counts) >= sensitivity and ends <= delta * total**draws:
                return Urn.symmetric(1, counts[::-1])
        inner += last
    raise AssertionError  # pragma: no cover  # _steps raises first


def init_is_too_small(rate: Fraction, draws: int, init: int) -> GuaranteeError:
    """The law falls on its way to the middle: condition (iii). Conjecture 4.2.1, on (iv), speaks of large init alone."""
    return GuaranteeError(
        "Algorithm 2 fails here: condition (iii) of Theorem 4.1 does not hold, because init is too small",
        given=told(draws=f"{draws}", init=f"{init}"),
        needed="an init with which the law rises to its middle",
        fix=told(init=f"{max(smallest_init(rate, draws), init + 1)}"),
    )


def smallest_init(rate: Fraction, draws: int) -> int:
    """The smallest I such that every init >= I satisfies the paper's (4): floor(e^rate init / n) > init / n."""
    if rate < Fraction(draws, MOST_INIT):
        raise ParameterError(
            "Algorithm 2 needs too large an init",
            given=f"eps / sensitivity = {about(rate)}, " + told(draws=f"{draws}"),
            needed=f"eps / sensitivity of at least draws / {MOST_INIT:,}",
            fix="a larger eps, or a coarser step of the answer",
        )
    e = exp_between(rate, 256)
    enough = ceil(draws / (e.low - 1))  # from here on the two sides differ by 1 or more
    for init in range(enough, 0, -1):
        if int(e.low * init / draws) <= Fraction(init, draws):
            return init + 1
    return 1


def _steps(rate: Fraction, draws: int, init: int, counts: list[int]) -> Iterator[tuple[int, int]]:
    """Appends to `counts`, each time yielding the new count and the new coefficient of the convolution."""
    counts.append(init)
    convolution = [init**draws]
    yield init, convolution[0]
    slope = draws * init ** (draws - 1)
    while len(counts) < MOST_STEPS:
        m = len(counts)
        known = sum((draws * k - (m - k)) * counts[k] * convolution[m - k] for k in range(1, m))
        rest = known // (init * m)
        count = _largest(convolution[-1], rest, slope, rate)
        if count < 0 or rest + slope * count < convolution[-1]:
            raise init_is_too_small(rate, draws, init)
        counts.append(count)
        convolution.append(rest + slope * count)
        yield count, convolution[-1]
    if init < smallest_init(rate, draws):
        raise init_is_too_small(rate, draws, init)  # the law stays level for ever
    raise ParameterError(
        "Algorithm 2 does not end soon enough",
        given=f"{MOST_STEPS:,} steps without reaching delta",
        needed="a larger eps for this sensitivity, or a larger delta",
        fix="a coarser step of the answer",
    )


def _largest(before: int, rest: int, slope: int, rate: Fraction) -> int:
    """floor((e^rate before - rest) / slope), beyond doubt."""
    bits = 64 + before.bit_length()
    while True:
        e = exp_between(rate, bits)
        low, high = ((bound * before - rest) // slope for bound in (e.low, e.high))
        if low == high:
            return low
        bits *= 2


# The two constructions that the paper refutes: truncated discrete Laplace laws, rounded. For its figures 1 and 2 only.
#
# The paper multiplies by ceil(1/smallest). The sizes that it prints come out with 1/smallest itself.


def rounded_laplace(reach: int) -> Urn:
    """(A): the law on -reach..reach at eps = 1, divided by its smallest value and rounded; drawn once."""
    counts = [exp_between(Fraction(k), 256).low if k else Fraction(1) for k in range(reach, -1, -1)]
    return Urn.symmetric(1, [round(count) for count in counts])


def rounded_root(reach: int) -> Urn:
    """(B): the square root of that law under convolution, by the Fourier transform; drawn twice."""
    size = 2 * reach + 1
    law = np.exp(-np.abs(np.arange(size) - reach).astype(float))
    spectrum = np.fft.fft(np.fft.ifftshift(law / law.sum())).real
    root = np.fft.ifft(np.sqrt(np.abs(spectrum))).real[: reach // 2 + 1]
    return Urn.symmetric(1, [round(float(value)) for value in root / root[-1]])


# The tables and figures of Kii, made again: `oboro reproduce kii-table1`, for one. All exact integers.

DRAWS = (1, 2, 3, 4)
DELTAS = tuple(Fraction(1, 10**power) for power in (4, 6, 8, 10))
EPSES = tuple(Fraction(text) for text in ("1", "0.5", "0.25", "0.1"))
TABLE1 = (
    (30_641, 149, 146, 42),
    (1_662_884, 2_454, 357, 97),
    (246_792_753, 16_505, 2_256, 583),
    (36_627_290_627, 295_384, 14_731, 1_466),
)
TABLE2 = (
    (1_662_884, 2_454, 357, 97),
    (3_278_624, 6_218, 963, 365),
    (8_224_233, 15_452, 1_983, 891),
    (20_537_623, 39_740, 5_483, 2_391),
)
TABLE3 = (
    ("0.852", "1.482", "2.119", "2.923"),
    ("1.919", "3.197", "4.456", "5.953"),
    ("3.959", "6.454", "9.268", "12.187"),
    ("9.986", "16.648", "23.816", "31.365"),
)
_HOW = (
    "solutions rounded down; init the smallest I such that every init >= I satisfies (4); the count of 0 is the last of D; "
    "stopped by the sum of D, not of the symmetric D (the rule that the paper does not print)"
)


def table1() -> Reproduction:
    """Entries by delta and number of draws."""
    rows: list[Row] = []
    for delta, printed in zip(DELTAS, TABLE1, strict=True):
        ours = [algorithm2(Fraction(1), delta, 1, n).size for n in DRAWS]
        proof = [algorithm2(Fraction(1), delta, 1, n, stop="proof").size for n in DRAWS]
        rows += [
            (f"delta {float(delta):.0e}, printed", *printed),
            ("  ours", *ours),
            ("  stopped as the proof needs", *proof),
        ]
    seen = drawer_delta(algorithm2(Fraction(1), DELTAS[3], 1, 2), 2, Fraction(1), 1)
    return Reproduction(
        "kii-table1",
        "Table 1: entries of the urn, eps = 1, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS]),
        tuple(rows),
        errors=(
            "delta = 1e-4, n = 1: 30641 is a misprint of 30461.",
            "Algorithm 2, line 16: the count of 0 is D[L], not D[i].",
            "Conjecture 4.2.1 is false, however large init is: see kii-conjecture.",
            "Proposition 4.3 is false: for n = 2, delta = 1e-10 the rule that it speaks of gives 112,621 entries, above its bound "
            "of (1/delta)^(1/2) init = 100,000. At sensitivity 1 condition (v) says (init/#T)^n <= delta: the bound is one from below.",
            f"Section 3.1 overlooks that P2 knows its indices: for n = 2, delta = 1e-10 its own delta is {float(seen.high):.3g}.",
            "Section 3.1 covers a P1 that receives nothing. One that opens the result recognises its own ciphertexts in the sum, "
            "unless P2 re-randomises.",
        ),
        notes=(_HOW,),
        figures=(_by_draws("entries of the urn", DELTAS, TABLE1, rows[1::3], "delta", "entries"),),
    )


def _by_draws(
    title: str, at: Sequence[Fraction], printed: Sequence[Row], ours: Sequence[Row], below: str, beside: str
) -> Curves:
    """A table whose columns are numbers of draws, as one curve for each, with dots where the paper has a number."""
    lines: list[Row] = []
    for place, n in enumerate(DRAWS):
        lines.append((f"n = {n}", *(row[place + 1] for row in ours)))
        lines.append(("printed", *(row[place] for row in printed)))
    return curves_of(title, [float(x) for x in at], lines, below=below, beside=beside, log_x=True, log_y=True)


def table2() -> Reproduction:
    """Entries by eps and number of draws."""
    rows: list[Row] = []
    for eps, printed in zip(EPSES, TABLE2, strict=True):
        ours = [algorithm2(eps, DELTAS[1], 1, n).size for n in DRAWS]
        rows += [(f"eps {float(eps):g}, printed", *printed), ("  ours", *ours)]
    return Reproduction(
        "kii-table2",
        "Table 2: entries of the urn, delta = 1e-6, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS]),
        tuple(rows),
        notes=(_HOW,),
        figures=(_by_draws("entries of the urn", EPSES, TABLE2, rows[1::2], "eps", "entries"),),
    )


def table3() -> Reproduction:
    """E|Z| by eps and number of draws."""
    rows: list[Row] = []
    for eps, printed in zip(EPSES, TABLE3, strict=True):
        ours = [law_of([algorithm2(eps, DELTAS[1], 1, n)], n).mean_abs for n in DRAWS]
        rows.append((f"eps {float(eps):g}, printed", *printed, ""))
        rows.append(("  ours", *[f"{float(mean):.4f}" for mean in ours], f"{1 / math.sinh(float(eps)):.4f}"))
    return Reproduction(
        "kii-table3",
        "Table 3: E|Z|, delta = 1e-6, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS], "discrete Laplace"),
        tuple(rows),
        errors=(
            "eps = 1, n = 1: 0.8509, not 0.852, which is what delta = 1e-4 gives under the stop rule of line 10 (0.8519).",
            "E|Z| of the discrete Laplace law is 1/sinh(eps/sensitivity), not sensitivity/eps.",
        ),
        notes=(_HOW,),
        figures=(_by_draws("mean size of the noise", EPSES, TABLE3, rows[1::2], "eps", "E|Z|"),),
    )


# Conjecture 4.2.1: "if init is large enough, condition (iv) holds for n > 1".
#
# Without rounding and with init = 1 the counts are those of (1 - e^rate x)^(-1/n): a_k = e^(rate k) C(k - 1 + 1/n, k).
# Algorithm 2 with a large init gives these times init, rounded down. The first L steps of the convolution are e^rate
# exactly. The (n - 1) L steps that follow, up to the middle, are nobody's choice: c_(L+1) - e^rate c_L =
# n (a_(L-1) - a_(L+1)), for one, is above 0 while the counts fall from the end inwards. In short urns the last steps are
# the steepest: in the middle every entry meets its mirror image.


@dataclass(frozen=True, slots=True)
class Limit:
    """What Algorithm 2 tends to for large init at one reach L: the urn over init, and what it keeps. Within 1e-30."""

    reach: int
    size: float  # entries over init
    ends: float  # the sum in condition (v)
    steepest: float  # the largest ln P(k + 1) - ln P(k) up to the middle
    delta: float  # delta(eps), sensitivity 1


def limit(rate: Fraction, draws: int, reach: int) -> Limit:
    """The large-init limit of Algorithm 2 with counts of 0, +-1, ..., +-reach, by ball arithmetic.

    >>> from fractions import Fraction
    >>> from oboro.secure.papers.kii import limit
    >>> found = limit(Fraction("0.1"), 2, 1)
    >>> round(found.ends, 4), round(found.steepest, 4), round(found.delta, 4)
    (0.1535, 0.7352, 0.3198)
    """
    with precision(256 + 4 * reach):
        grow, counts = ball(rate).exp(), [arb(1)]
        for k in range(1, reach + 1):
            counts.append(counts[-1] * grow * (draws * (k - 1) + 1) / (draws * k))
        one = arb_poly([*counts, *counts[-2::-1]])
        law = reduce(mul, [one] * draws).coeffs()
        total, middle = sum(law, arb(0)), draws * reach
        steps = [(law[k + 1] / law[k]).log() for k in range(middle)]
        over = [(after - grow * before).max(0) for before, after in pairwise(law)]
        delta = (law[0] + sum(over, arb(0))) / total
        size = 2 * sum(counts, arb(0)) - counts[-1]
        ends, steepest = law[0] / total, reduce(arb.max, steps)
        found = [float(one.mid()) for one in (size, ends, steepest, delta)]
        if any(float(one.rad()) > 1e-30 * max(1.0, float(one.mid())) for one in (size, steepest, delta)):
            raise AssertionError  # pragma: no cover  # 256 bits are ample
    return Limit(reach, *found)


def limit_for(rate: Fraction, delta: Fraction, draws: int) -> Limit:
    """The same at the reach where line 10, as it is printed, stops."""
    return next(one for L in counting(1) if (one := limit(rate, draws, L)).ends <= delta)


_INITS = (19, 10**3, 10**6, 10**9)
_CASES = tuple(Fraction(text) for text in ("0.2", "0.1", "0.05", "0.01", "0.001"))


def conjecture() -> Reproduction:
    """Algorithm 2 at growing init."""
    rate, rows = Fraction(1, 10), list[Row]()
    for delta in _CASES:
        for init in _INITS:
            urn = algorithm2(rate, delta, 1, 2, init=init, stop="proof")
            law = law_of([urn], 2)
            steepest = max(step for k, step in ratios(law) if k < 0)
            kept = float(exact_delta(law, rate, 1).high)
            rows.append(_case(delta, f"init {init:,}", f"{urn.size:,}", urn.last, steepest, kept))
        tends = limit_for(rate, delta, 2)
        size = f"{tends.size:.4f} init"
        rows.append(_case(delta, "the limit", size, tends.reach, tends.steepest, tends.delta))
    last = [max(L for L in range(1, 60) if limit(rate, n, L).steepest > 0.1 + 1e-12) for n in (2, 3, 4)]
    ends = [f"{limit(rate, n, L).ends:.2g}" for n, L in zip((2, 3, 4), last, strict=True)]
    return Reproduction(
        "kii-conjecture",
        "Conjecture 4.2.1: condition (iv) for large init, n = 2, eps = 0.1, sensitivity 1, stopped as line 10 prints",
        ("delta", "", "entries", "largest value", "steepest ln P(k+1) - ln P(k)", "exact delta", "(iv)"),
        tuple(rows),
        errors=(
            "Conjecture 4.2.1 is false, however large init is. At delta = 0.2 init = 19 gives D = [19, 10] and the convolution "
            "361, 380, 822: a step of ln(822/380) = 0.7716. It tends to 0.7352, and the exact delta to 0.3198.",
            "at delta = 0.01 the exact delta is 0.017885 for init = 19, and tends to 0.015947.",
        ),
        notes=(
            "in the limit the counts are init times the coefficients of (1 - e^eps x)^(-1/n). The first L steps of the law of the sum are "
            "eps; those from there to the middle are nobody's choice, and in a short urn the last ones are too steep",
            f"so it fails in the limit for urns of up to {last[0]}, {last[1]}, {last[2]} values on each side (n = 2, 3, 4), which are "
            f"those for a delta of {ends[0]}, {ends[1]}, {ends[2]} and more; longer ones, up to 59, satisfy (iv). Nothing is proved "
            "for all lengths: every urn is verified",
        ),
        figures=(
            _at_growing_init("steepest step up to the middle", rows, 4, [(None, 0.1)]),
            _at_growing_init("exact delta", rows, 5, [(delta, float(delta)) for delta in _CASES]),
        ),
    )


def _at_growing_init(
    title: str, rows: Sequence[Row], column: int, asked: Sequence[tuple[Fraction | None, float]]
) -> Curves:
    """One curve for each delta, against init, with what was asked for as dots."""
    found = []
    for place, delta in enumerate(_CASES):
        values = [float(str(row[column])) for row in rows[place * (len(_INITS) + 1) :][: len(_INITS)]]
        name = f"delta = {float(delta)}"
        found.append(Curve(name, tuple(zip(map(float, _INITS), values, strict=True))))
        found += [
            Curve(name, tuple((float(init), value) for init in _INITS), printed=True)
            for own, value in asked
            if own == delta
        ]
    found += [
        Curve("eps", tuple((float(init), value) for init in _INITS)) for own, value in asked if own is None
    ]
    return Curves(
        title, tuple(found), "init", title, log_x=True, log_y=True, dots="dots: the delta that is asked for"
    )


def _case(delta: Fraction, name: str, size: str, reach: int, steepest: float, kept: float) -> Row:
    holds = "fails" if steepest > 0.1 + 1e-9 else "holds"
    return (str(float(delta)), name, size, reach, f"{steepest:.6f}", f"{kept:.6f}", holds)


def ratios(law: Law) -> list[tuple[int, float]]:
    """k and ln P(k + 1) - ln P(k), the function that the paper's figures show."""
    pairs = zip(law.weights, law.weights[1:], strict=False)
    return [(k, math.log(b) - math.log(a)) for k, (a, b) in enumerate(pairs, law.lowest)]


def curves(name: str) -> tuple[Urn, int, Law]:
    """The urn of a figure, how often it is drawn from, and the law of the sum."""
    if name == "kii-fig1":
        urn, draws = rounded_laplace(20), 1
    elif name == "kii-fig2":
        urn, draws = rounded_root(20), 2
    elif name == "kii-fig3":
        urn, draws = algorithm2(Fraction(1), DELTAS[3], 1, 2), 2
    else:
        urn, draws = algorithm2(Fraction(1, 10), DELTAS[2], 1, 4), 4
    return urn, draws, law_of([urn], draws)


def _figure(
    name: str, title: str, eps: Fraction, printed: dict[str, str], errors: tuple[str, ...]
) -> Reproduction:
    urn, _, law = curves(name)
    step = dict(ratios(law))
    own = dict(enumerate(urn.counts, urn.first))
    beyond = [k for k, slope in step.items() if abs(slope) > float(eps) * (1 + 1e-12)]
    ends = Fraction(law.weights[0], law.total)
    rows: list[Row] = [
        ("entries", printed.get("entries", "-"), f"{urn.size:,}", ""),
        ("memory at 64 bit", printed.get("memory", "-"), _memory(urn), ""),
        ("P(largest value)", printed.get("delta", "-"), f"{float(ends):.3g}", ""),
        ("exact delta", "-", f"{float(exact_delta(law, eps, 1).high):.3g}", ""),
        ("k with |ln ratio| > eps", "-", str(len(beyond)), ""),
        ("k", "entries of k", "P(k)", "ln P(k+1) - ln P(k)"),
    ]
    for k, weight in enumerate(law.weights, law.lowest):
        slope = f"{step[k]:+.5f}" if k in step else "-"
        rows.append((str(k), own.get(k, 0), f"{weight / law.total:.4e}", slope))
    note = f"`oboro secure figure {name} -o {name}.svg` draws it"
    return Reproduction(
        name,
        title,
        ("", "printed", "ours", ""),
        tuple(rows),
        errors=errors,
        notes=(note, _HOW),
        figures=_pictures(name, eps),
    )


def _pictures(name: str, eps: Fraction) -> tuple[Curves, Curves]:
    """What the paper's figures show: the laws, and ln P(k+1) - ln P(k) between -eps and eps."""
    urn, draws, law = curves(name)
    one = tuple((float(k), c / urn.size) for k, c in enumerate(urn.counts, urn.first) if c)
    total = tuple((float(k), w / law.total) for k, w in enumerate(law.weights, law.lowest) if w)
    laws = [Curve("one draw", one)] + ([Curve(f"the sum of {draws}", total)] if draws > 1 else [])
    steps = ratios(law)
    ends = (float(steps[0][0]), float(steps[-1][0]))
    slopes = [Curve("ln P(k+1) - ln P(k)", tuple((float(k), slope) for k, slope in steps))]
    slopes += [
        Curve(f"{sign}eps", tuple((x, y * float(eps)) for x in ends)) for sign, y in (("", 1), ("-", -1))
    ]
    return (
        Curves("probabilities", tuple(laws), "k", "P(k)", log_y=True),
        Curves("steps of the law of the sum", tuple(slopes), "k", "ln P(k+1) - ln P(k)"),
    )


def _memory(urn: Urn) -> str:
    size = Fraction(8 * urn.size, 2**20)
    return f"{float(size / 1024):.2f} GiB" if size >= 1024 else f"{float(size):.2f} MiB"


def figure1() -> Reproduction:
    printed = {"entries": "1,049,874,877", "memory": "250 GiB", "delta": "9.52e-10"}
    errors = (
        "1,049,874,877 entries of 64 bit are 7.82 GiB, not 250 GiB: 32 times less.",
        "the factor is 1/(smallest value), not its ceiling: that would give one entry more.",
    )
    return _figure(
        "kii-fig1",
        "Figure 1: the rounded truncated discrete Laplace law, refuted",
        Fraction(1),
        printed,
        errors,
    )


def figure2() -> Reproduction:
    printed = {"entries": "184,540", "memory": "45 MiB", "delta": "2.94e-11"}
    errors = (
        "184,540 entries of 64 bit are 1.41 MiB, not 45 MiB: 32 times less.",
        "the factor is 1/(smallest value), not its ceiling: that would give two entries more.",
    )
    return _figure(
        "kii-fig2",
        "Figure 2: its rounded square root under convolution, refuted",
        Fraction(1),
        printed,
        errors,
    )


def figure3() -> Reproduction:
    printed = {"entries": "295,384", "memory": "2.25 MiB", "delta": "1.15e-11"}
    return _figure(
        "kii-fig3", "Figure 3: Algorithm 2, eps = 1, n = 2, delta = 1e-10", Fraction(1), printed, ()
    )


def figure4() -> Reproduction:
    printed = {"delta": "7.08e-10"}
    title = "Figure 4: Algorithm 2, eps = 0.1, n = 4, delta = 1e-8: the law of one draw is shaped like a W"
    return _figure("kii-fig4", title, Fraction(1, 10), printed, ())


REPRODUCTIONS = (
    Reproducible("kii-table1", "entries of the urn by delta and number of draws", table1),
    Reproducible("kii-table2", "entries of the urn by eps and number of draws", table2),
    Reproducible("kii-table3", "E|Z| by eps and number of draws", table3),
    Reproducible("kii-conjecture", "Conjecture 4.2.1 at growing init, and in the limit", conjecture),
    Reproducible("kii-fig1", "a rounded Laplace law, refuted", figure1),
    Reproducible("kii-fig2", "its rounded square root, refuted", figure2),
    Reproducible("kii-fig3", "the law of Algorithm 2 at n = 2", figure3),
    Reproducible("kii-fig4", "the law of Algorithm 2 at n = 4, eps = 0.1", figure4),
)


# The paper's figures as small SVG pictures: probabilities on a logarithmic scale, and their steps against eps.

NAMES = ("kii-fig1", "kii-fig2", "kii-fig3", "kii-fig4")
_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 240, 70, 30
Points = Sequence[tuple[float, float]]


def svg(name: str) -> str:
    """One figure: above the laws of one draw and of the sum, below ln P(k+1) - ln P(k) with +-eps marked."""
    if name not in NAMES:
        raise ParameterError("no such figure", given=name, needed=", ".join(NAMES), fix="kii-fig1")
    urn, draws, law = curves(name)
    eps = 0.1 if name == "kii-fig4" else 1.0
    one = [(k, math.log10(c / urn.size)) for k, c in enumerate(urn.counts, urn.first) if c]
    total = [(k, math.log10(w / law.total)) for k, w in enumerate(law.weights, law.lowest) if w]
    laws = (
        {"log10 of one draw": one}
        if draws == 1
        else {"log10 of one draw": one, f"log10 of the sum of {draws}": total}
    )
    upper = _panel(laws, (), 0)
    lower = _panel({"ln P(k+1) - ln P(k)": ratios(law)}, (-eps, eps), _HEIGHT + 2 * _TOP)
    height = 2 * (_HEIGHT + 2 * _TOP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT + 20} {height}" font-family="sans-serif" font-size="13">'
    return head + '<rect width="100%" height="100%" fill="white"/>' + upper + lower + "</svg>\n"


def _panel(series: Mapping[str, Points], marks: Sequence[float], down: int) -> str:
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points] + list(marks)
    low, high = min(ys), max(ys)

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + _WIDTH * (x - min(xs)) / (max(xs) - min(xs))
        return across, down + _TOP + _HEIGHT * (high - y) / (high - low)

    parts = []
    for y in (*marks, low, high):
        _, at = place(0, y)
        dash = ' stroke-dasharray="5 4"' if y in marks else ""
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#999"{dash}/>'
        )
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:.3g}</text>')
    for x in (min(xs), 0, max(xs)):
        parts.append(
            f'<text x="{place(x, low)[0]:.1f}" y="{down + _TOP + _HEIGHT + 18}" text-anchor="middle">{x:g}</text>'
        )
    for number, (label, points) in enumerate(series.items()):
        colour = ("#1b6ca8", "#c0392b")[number]
        line = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        shown = html.escape(label)
        parts.append(f'<text x="{_LEFT + 8 + 200 * number}" y="{down + 20}" fill="{colour}">{shown}</text>')
    return "".join(parts)
