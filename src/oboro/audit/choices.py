"""The true cost of a quantile: the law of the exponential mechanism on a small grid, computed from the proof's own score.

The score of each value is computed here from its definition, by counting rows, not by the code that draws. That `measure`
draws by this law is replayed: it and this module see the same bits, and each uniform number must lie between the two edges
of the law that its answer says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.audit.enumeration import REPLAYED, SameBits
from oboro.audit.findings import Finding
from oboro.noise import system_bits
from oboro.release import Chosen

LARGEST = 2**16  # values of the column


def chosen_findings(plan: Any, form: Chosen, worlds: Sequence[Any], why: str) -> list[Finding]:
    """eps of one quantile for each group: groups are independent, so their largest losses add up."""
    if form.size > LARGEST:
        return []
    if not all(_replays(plan, form, prepared) for prepared in worlds):
        return []
    eps = 0.0
    for one, other in zip(*worlds, strict=True):
        eps += max(float(np.abs(_log_law(form, one) - _log_law(form, other)).max()), 0.0)
    return [Finding(why, Fraction(0), plan.guarantee.eps, eps, None, "computed")]


def _log_law(form: Chosen, ranks: Any) -> Floats:
    """ln P(value) for each value of the column: -eta * score, less the logarithm of the total."""
    q, size = form.quantile, form.size
    rows = np.zeros(size, np.int64)
    rows[ranks.codes] = np.diff(np.concatenate([[0], ranks.upto]))
    at_or_below = np.cumsum(rows)
    below, n = at_or_below - rows, int(rows.sum())
    score = np.maximum(
        0, np.maximum(q.denominator * below - q.numerator * n, q.numerator * n - q.denominator * at_or_below)
    )
    weight = -float(form.eta) * (score - score.min()).astype(float)
    return np.asarray(weight - math.log(math.fsum(np.exp(weight))))


def _replays(plan: Any, form: Chosen, prepared: Any) -> bool:
    """Whether each answer lies where the law puts the uniform number that it was drawn with."""
    seed = system_bits().words(6).tobytes()
    drawn = np.asarray(plan.measure(prepared, SameBits(seed), REPLAYED))[:, :, 0]
    bits = SameBits(seed)
    for group, ranks in enumerate(prepared):
        uniform = bits.words(REPLAYED).astype(float) * 2.0**-64
        edges = np.concatenate([[0.0], np.cumsum(np.exp(_log_law(form, ranks)))])
        starts, stops = _runs(ranks.codes, form.size, drawn[:, group])
        if np.any(uniform < edges[starts] - 1e-12) or np.any(uniform > edges[stops] + 1e-12):
            return False
        _skip(bits, starts, stops)
    return True


def _runs(codes: Any, size: int, drawn: Any) -> tuple[Any, Any]:
    """The run of values that are drawn together with each answer: a value that rows have, or those between two."""
    after = np.searchsorted(codes, drawn, side="left")
    bounds = np.concatenate([codes, [size]])
    own = bounds[np.minimum(after, codes.size)] == drawn
    starts = np.where(own, drawn, np.concatenate([[0], codes + 1])[after])
    return starts, np.where(own, drawn + 1, bounds[after])


def _skip(bits: SameBits, starts: Any, stops: Any) -> None:
    """Draws the places within the runs again, as `measure` did, so that the next group sees the same bits."""
    from oboro.noise.draws import uniform_integers

    for start in np.unique(starts):
        mine = starts == start
        uniform_integers(int(stops[mine][0] - start), int(mine.sum()), bits)
