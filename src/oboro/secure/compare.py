"""What else two parties could do, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from oboro.errors import GuaranteeError, InputError
from oboro.exact import Number, about, positive, whole
from oboro.kinds import list_of, takes
from oboro.noise.laplace import as_float
from oboro.release import Forecast
from oboro.release.forecast import Row
from oboro.secure.noise_plan import NoisePlan, plan, verify


@takes(urns=list_of, draws=list_of)
def compare(
    *,
    eps: Number,
    delta: Number,
    sensitivity: int = 1,
    urns: tuple[int, ...] = (2, 3, 4),
    draws: tuple[int, ...] = (1, 2, 3, 4),
    seconds: float = 30,
    progress: Callable[[float], None] | None = None,
) -> Forecast:
    """The paper's urns, digit urns, noise that each party adds by itself, and noise that one party adds.

    >>> found = ob.secure.compare(eps=1, delta="1e-2", urns=(2,), draws=(1, 2), seconds=60)
    >>> for name, entries, *_ in found.rows:
    ...     print(name, entries)
    paper, 1 draw from one urn 207
    paper, 2 draws from one urn 26
    2 digit urns 35
    each party adds its own 0
    one party adds 0
    """
    seconds = as_float(positive("seconds", seconds))
    rows: list[Row] = []
    for n in [whole("draws", each, least=1, most=100) for each in draws]:
        name = f"paper, {n} draw{'s' * (n > 1)} from one urn"
        try:
            rows.append(
                _row(name, plan(eps=eps, delta=delta, sensitivity=sensitivity, method="paper", draws=n))
            )
        except (GuaranteeError, InputError):
            rows.append((name, "-", "-", "refused", "-", "nobody"))
    for number, m in enumerate([whole("urns", each, least=1, most=100) for each in urns]):

        def part(share: float, number: int = number) -> None:
            if progress is not None:
                progress((number + share) / len(urns))

        name = f"{m} digit urns"
        try:
            made = plan(
                eps=eps,
                delta=delta,
                sensitivity=sensitivity,
                urns=m,
                seconds=seconds / len(urns),
                progress=part,
            )
            rows.append(_row(name, made))
        except GuaranteeError:
            rows.append((name, "-", "-", "none found", "-", "nobody"))
    rate = positive("eps", eps) / whole("sensitivity", sensitivity, least=1)
    rows.append(("each party adds its own", "0", float(two_laplace(rate)), "0", "0", "each its own part"))
    rows.append(
        ("one party adds", "0", 1 / math.sinh(float(rate)), "0", "no privacy", "that party, all of it")
    )
    return Forecast(
        f"two parties, eps = {eps}, delta = {delta}, sensitivity {sensitivity}",
        ("", "entries", "E|Z|", "delta", "delta for the drawer", "who knows the noise"),
        tuple(rows),
        notes=(
            "the drawer's delta is that of a party that draws as the paper says, all from one urn, knows its indices and "
            "sees the result; oboro's protocol sends an urn for each draw, and then it is the first delta",
            "if only one party sees the result, the other may simply add discrete Laplace noise itself",
        ),
    )


def two_laplace(rate: Fraction) -> float:
    """E|X + Y| of two independent discrete Laplace variables.

    With p = e^-rate, P(X + Y = k) = ((1-p)/(1+p))^2 p^|k| (|k| + (1+p^2)/(1-p^2)).
    """
    p = math.exp(-float(rate))
    q = -math.expm1(-float(rate))
    return 2 * (q / (1 + p)) ** 2 * (p * (1 + p) / q**3 + (1 + p * p) / (q * (1 + p)) * p / q**2)


def _row(name: str, made: NoisePlan) -> Row:
    seen = verify(made)
    drawer = about(seen.drawer.high, 4)
    return (name, f"{made.entries:,}", float(made.mean_abs), about(made.delta, 4), drawer, "nobody")
