"""A certified lower bound on a Rényi divergence, from trials.

Cut the outputs into cells, with probabilities p_i in the one world and q_i in the other. By the data processing
inequality D_a(P || Q) >= log(sum p_i^a q_i^(1-a)) / (a - 1), whatever the cells. Each summand grows with p_i and falls
with q_i (a > 1), so Clopper-Pearson bounds from below on all p_i and from above on all q_i give a lower bound that is
wrong with probability `alarm` at most. The cells are chosen on trials that are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from oboro.arrays import Floats
from oboro.audit.events import lower, upper

CELLS = (2, 4, 8, 16)


def judge_divergence(one: Floats, other: Floats, order: float, alarm: float) -> float:
    """The largest divergence of this order, in either direction, that the second half of the trials certifies."""
    half = len(one) // 2
    looked_at = slice(half // 2, half)
    best, chosen = 0.0, None
    for swapped, (p, q) in ((False, (one, other)), (True, (other, one))):
        for statistic, edges in _partitions(p[looked_at], q[looked_at]):
            counts = _counts(p[looked_at], statistic, edges), _counts(q[looked_at], statistic, edges)
            suggested = _bound(*counts, order, 1e-3)
            if suggested > best:
                best, chosen = suggested, (swapped, statistic, edges)
    if chosen is None:
        return 0.0
    swapped, statistic, edges = chosen
    p, q = (other, one) if swapped else (one, other)
    return _bound(_counts(p[half:], statistic, edges), _counts(q[half:], statistic, edges), order, alarm)


def _partitions(one: Floats, other: Floats) -> Iterator[tuple[int, Floats]]:
    for statistic in range(one.shape[1]):
        both = np.sort(np.concatenate([one[:, statistic], other[:, statistic]]))
        for cells in CELLS:
            places = np.linspace(0, both.size, cells + 1)[1:-1].astype(np.int64)
            edges = np.unique(both[places])
            if edges.size:
                yield statistic, edges


def _counts(world: Floats, statistic: int, edges: Floats) -> list[int]:
    at = np.searchsorted(edges, world[:, statistic], side="right")
    return [int(count) for count in np.bincount(at, minlength=edges.size + 1)]


def _bound(p_hits: list[int], q_hits: list[int], order: float, alarm: float) -> float:
    trials, share = sum(p_hits), alarm / (2 * len(p_hits))
    total = 0.0
    for p, q in zip(p_hits, q_hits, strict=True):
        low, high = lower(p, trials, share), upper(q, trials, share)
        total += low**order * high ** (1 - order)
    return max(0.0, math.log(total) / (order - 1)) if total > 0 else 0.0
