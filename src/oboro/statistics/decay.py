"""Sensitivities that fade with distance: the largest of finitely many terms w e^(-beta k), as an exact real.

Every smooth sensitivity here has this form: w is how far the answer can move once k records have been changed.
Which term is the largest is not decided by floats. They only sort out terms that are smaller beyond doubt; the
maximum of the others is enclosed in ball arithmetic. Two different terms are never equal: e^x is transcendental
for rational x other than 0 [Lindemann].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.exact import Number, not_negative, positive
from oboro.noise.laplace import as_float

SLACK = 2.0**-36  # far above the relative error of a float logarithm, product and difference


@dataclass(frozen=True, slots=True)
class Decaying:
    """max of w e^(-beta k) over `terms` (w, k); 0 if there are none. Calling it encloses it: a `lazy.Real`."""

    terms: tuple[tuple[Fraction, int], ...]
    beta: Fraction

    def __init__(self, terms: Iterable[tuple[Number, int]], beta: Number) -> None:
        kept = {(not_negative("a term", w), int(k)) for w, k in terms}
        object.__setattr__(self, "terms", tuple(sorted(term for term in kept if term[0] > 0)))
        object.__setattr__(self, "beta", positive("beta", beta))

    def __call__(self) -> Any:
        from oboro.noise.lazy import ball

        largest = ball(0)
        for w, k in self.terms:
            largest = largest.max(ball(w) * ball(-self.beta * k).exp())
        return largest

    def times(self, factor: Fraction) -> Decaying:
        """The same, `factor` times as large."""
        return Decaying(((w * factor, k) for w, k in self.terms), self.beta)

    def __float__(self) -> float:
        from oboro.noise.lazy import precision

        with precision(192):
            return float(self().mid())


def largest_terms(w: Integers, k: Integers, beta: Fraction) -> list[tuple[int, int]]:
    """Those (w, k) that may be the largest w e^(-beta k): all that floats cannot rule out."""
    keep = w > 0
    w, k = w[keep], k[keep]
    if not w.size:
        return []
    score = np.log(w.astype(np.float64)) - _rate(beta) * k
    best = score.max()
    near = score >= best - slack(beta, int(k[int(score.argmax())]))
    return sorted(set(zip(w[near].tolist(), k[near].tolist(), strict=True)))


def slack(beta: Fraction, k: int) -> float:
    """More than floats can be wrong about log w - beta k, for terms as large as one at distance k.

    A term that is as large at distance k' has beta (k' - k) <= log w' - log w <= 44, as w < 2^63.
    """
    return SLACK * (64 + _rate(beta) * k)


def _rate(beta: Fraction) -> float:
    """A float near beta; beyond 1e250 the order of the terms is the same as there."""
    return min(as_float(beta), 1e250)
