"""What else two parties could do, side by side: what is sent, how large the noise is, who knows it.

What other work costs follows from formulas; nothing of it is built here.

    bitwise circuits   [Dwork et al. 2006; Champion et al. 2019] A discrete Laplace variable is the difference of two geometric
                       ones, whose binary digits are independent coins: digit j is 1 with chance 1/(1 + e^(rate 2^j)). b digits
                       of each, coins of d fair bits compared with a constant: 2 b d AND gates, and b for the difference. Its
                       distance from the law is at most tau = 2 e^(-rate 2^b) + 2 b 2^-d, and delta at most (1 + e^eps) tau. An AND
                       gate of a garbled circuit takes 32 bytes [half gates, 128 bits].
    lists of noise     [UnLynx, Froelicher et al. 2017] 1/delta Laplace variables, encrypted and shuffled, one of them drawn; a new
                       list for each noise. An entry takes the 64 bytes of one of ours.
    Pólya shares       [Goryczka et al. 2013, for one] Each of two parties adds the difference of two Pólya variables of
                       order 1/2; the sum is discrete Laplace. Each can take its own off again, and is left with a share whose
                       delta(eps) is what it is promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from oboro.errors import GuaranteeError, InputError
from oboro.exact import Number, about, positive, whole
from oboro.kinds import list_of, takes
from oboro.noise.laplace import as_float
from oboro.release import Forecast
from oboro.release.forecast import Row
from oboro.secure.batch import MOST_ANSWERS
from oboro.secure.elgamal import CIPHERTEXT
from oboro.secure.noise_plan import NoisePlan, verify
from oboro.secure.planner import plan

GATE = 32  # bytes of an AND gate
_LONGEST = 2**22  # of a Fourier transform
_SLOWEST = Fraction(80, _LONGEST)


@takes(urns=list_of, draws=list_of)
def compare(
    *,
    eps: Number,
    delta: Number,
    sensitivity: int = 1,
    urns: tuple[int, ...] = (2, 3, 4),
    draws: tuple[int, ...] = (1, 2, 3, 4),
    answers: int = 1,
    seconds: float = 30,
    progress: Callable[[float], None] | None = None,
) -> Forecast:
    """The paper's urns, digit urns, what other work does, noise that each party adds by itself, and noise that one party adds.

    With `answers` above 1 also digit urns that so many answers share; everything is told for one of them.

    >>> found = ob.secure.compare(eps=1, delta="1e-2", urns=(2,), draws=(1, 2), seconds=60)
    >>> for name, entries, sent, *_ in found.rows:
    ...     print(f"{name}: {entries}, {sent} sent")
    paper, 1 draw from one urn: 207, 207 sent
    paper, 2 draws from one urn: 26, 52 sent
    2 digit urns: 35, 35 sent
    bitwise circuits: 0, 0 sent
    lists of noise: 100, 100 sent
    Pólya shares: 0, 0 sent
    each party adds its own: 0, 0 sent
    one party adds: 0, 0 sent
    """
    seconds = as_float(positive("seconds", seconds))
    answers = whole("answers", answers, least=1, most=MOST_ANSWERS)
    rows: list[Row] = []
    for n in [whole("draws", each, least=1, most=100) for each in draws]:
        name = f"paper, {n} draw{'s' * (n > 1)} from one urn"
        try:
            rows.append(
                _row(name, plan(eps=eps, delta=delta, sensitivity=sensitivity, method="paper", draws=n))
            )
        except (GuaranteeError, InputError):
            rows.append((name, "-", "-", "-", "-", "refused", "-", "nobody"))
    searches = [(whole("urns", m, least=1, most=100), k) for m in urns for k in sorted({1, answers})]
    for number, (m, k) in enumerate(searches):

        def part(share: float, number: int = number) -> None:
            if progress is not None:
                progress((number + share) / len(searches))

        name = f"{m} digit urns" if k == 1 else f"{m} digit urns that {k} answers share"
        try:
            made = plan(
                eps=eps,
                delta=delta,
                sensitivity=sensitivity,
                urns=m,
                answers=k,
                seconds=seconds / len(searches),
                progress=part,
            )
            rows.append(_row(name, made))
        except GuaranteeError:
            rows.append((name, "-", "-", "-", "-", "none found", "-", "nobody"))
    asked, aimed = positive("eps", eps), positive("delta", delta)
    rate = asked / whole("sensitivity", sensitivity, least=1)
    best = 1 / math.sinh(float(rate))
    gates, kept = circuit(asked, aimed, rate)
    listed = math.ceil(1 / aimed)
    half = half_delta(asked, rate, sensitivity)
    alone = "-" if half is None else about(half, 4)
    rows += [
        ("bitwise circuits", "0", "0", f"{GATE * gates:,}", best, about(kept, 4), about(kept, 4), "nobody"),
        (
            "lists of noise",
            f"{listed:,}",
            f"{listed:,}",
            f"{CIPHERTEXT * listed:,}",
            float(1 / rate),
            about(aimed, 4),
            about(aimed, 4),
            "nobody",
        ),
        ("Pólya shares", "0", "0", str(CIPHERTEXT), best, "0", alone, "each its own share"),
        (
            "each party adds its own",
            "0",
            "0",
            str(CIPHERTEXT),
            two_laplace(rate),
            "0",
            "0",
            "each its own part",
        ),
        ("one party adds", "0", "0", str(CIPHERTEXT), best, "0", "no privacy", "that party, all of it"),
    ]
    return Forecast(
        f"two parties, eps = {eps}, delta = {delta}, sensitivity {sensitivity}",
        (
            "",
            "entries",
            "entries sent",
            "bytes",
            "E|Z|",
            "delta",
            "delta for the drawer",
            "who knows the noise",
        ),
        tuple(rows),
        notes=(
            "entries sent: oboro sends the paper's urn once for each draw. The drawer's delta is that of a party that draws as the "
            "paper says, all from one urn, knows its indices and sees the result; with an urn for each draw it is the first delta",
            f"bitwise circuits: {gates:,} AND gates of {GATE} bytes, 2 b d + b for b digits of d bits; lists of noise: 1/delta entries; "
            "Pólya shares: each party can take its own off again, and the delta beside it is what it then gets. None of the three is "
            "built here",
            "if only one party sees the result, the other may simply add discrete Laplace noise itself",
        ),
    )


def circuit(eps: Fraction, delta: Fraction, rate: Fraction) -> tuple[int, float]:
    """How many AND gates a bitwise circuit takes, with as few digits and bits as delta allows; and its delta.

    >>> from fractions import Fraction
    >>> from oboro.secure.compare import circuit
    >>> circuit(Fraction(1), Fraction(1, 10**10), Fraction(1))[0]
    395
    """
    spread, limit = 1 + math.exp(float(eps)), float(delta)
    digits = max(1, math.ceil(math.log2(math.log(4 * spread / limit) / float(rate))))
    tail = 2 * math.exp(-float(rate) * 2**digits)
    fine = math.ceil(math.log2(2 * digits * spread / (limit - spread * tail)))
    return 2 * digits * fine + digits, spread * (tail + 2 * digits * 2.0**-fine)


def half_delta(eps: Fraction, rate: Fraction, sensitivity: int) -> float | None:
    """delta(eps) of the difference of two Pólya variables of order 1/2, which is half of a discrete Laplace variable.

    Its characteristic function is the root of that of the whole, (1 - p)/|1 - p e^(it)| with p = e^-rate; the law comes from
    it by a Fourier transform so long that what it folds back is below 1e-17. None where that would be too long.

    >>> from fractions import Fraction
    >>> from oboro.secure.compare import half_delta
    >>> round(half_delta(Fraction(1), Fraction(1), 1), 4)
    0.3592
    """
    if rate < _SLOWEST or sensitivity > _LONGEST // 4:
        return None
    size = 1 << math.ceil(math.log2(max(80 / float(rate), 4 * sensitivity)))
    p = math.exp(-float(rate))
    turn = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
    law = np.fft.irfft((1 - p) / np.abs(1 - p * turn), size)
    over = (law - math.exp(float(eps)) * np.roll(law, s) for s in range(1, sensitivity + 1))
    return max(float(np.maximum(one, 0).sum()) for one in over)


def two_laplace(rate: Fraction) -> float:
    """E|X + Y| of two independent discrete Laplace variables.

    With p = e^-rate, P(X + Y = k) = ((1-p)/(1+p))^2 p^|k| (|k| + (1+p^2)/(1-p^2)).
    """
    p = math.exp(-float(rate))
    q = -math.expm1(-float(rate))
    return 2 * (q / (1 + p)) ** 2 * (p * (1 + p) / q**3 + (1 + p * p) / (q * (1 + p)) * p / q**2)


def _row(name: str, made: NoisePlan) -> Row:
    seen = verify(made)
    sent = -(-made.entries_sent // made.answers)
    drawer = about(seen.drawer.high if made.answers == 1 else made.delta, 4)
    return (
        name,
        f"{made.entries:,}",
        f"{sent:,}",
        f"{CIPHERTEXT * sent:,}",
        float(made.mean_abs),
        about(made.delta, 4),
        drawer,
        "nobody",
    )
