"""Who was in the data? The attack on synthetic records alone, as the PWS Cup plays it.

`run` looks at what a plan measures. Here an attacker sees synthetic records, from any generator, and a target: was the target among the rows that they
were made from? What gives it away is how close the records come: how many are the target, how far the nearest is, how many are near. Those
numbers, from many draws with the target and without, go through the same judgement as every other attack, so what it
certifies is a lower bound of the eps of the generator, wrong with probability `alarm` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.audit.findings import AuditReport
from oboro.audit.run import ALARM, judge_worlds
from oboro.exact import whole
from oboro.kinds import numbers_of, takes
from oboro.privacy import Guarantee


@takes(one=numbers_of, other=numbers_of, target=numbers_of, guarantee=Guarantee)
def membership(
    draw: Callable[[Floats], npt.ArrayLike],
    one: npt.ArrayLike,
    other: npt.ArrayLike,
    target: Sequence[float],
    guarantee: Guarantee,
    *,
    trials: int = 2000,
    alarm: float = ALARM,
) -> AuditReport:
    """Draws records from data with the target (`one`) and without (`other`), `trials` times each, and judges how close they come to it.

    `draw` makes records, rows of numbers, from such rows. A model that copies a row is found out:

    >>> rows = [[1, 1], [2, 5], [9, 9]]
    >>> found = ob.audit.membership(lambda data: data[-1:], rows, rows[:2], [9, 9], ob.Pure(1))
    >>> found.verdict
    'broken'
    """
    count = whole("trials", trials, least=100, most=10**7)
    at = np.asarray(target, float).ravel()
    first, second = np.asarray(one, float), np.asarray(other, float)
    width = np.maximum(np.ptp(np.concatenate([first, second]), axis=0), 1e-300)
    with_it, without = (
        np.array([_closeness(draw(data), at, width) for _ in range(count)]) for data in (first, second)
    )
    why = "the target among the rows, or not"
    return AuditReport(
        "synthetic records", guarantee, count, tuple(judge_worlds(with_it, without, guarantee, why, alarm))
    )


def _closeness(records: npt.ArrayLike, target: Floats, width: Floats) -> list[float]:
    """How many records are the target, how far the nearest one is, how many lie within a tenth of the range, and where their mean lies, seen from it."""
    away = (np.asarray(records, float).reshape(-1, target.size) - target) / width
    if not len(away):
        return [0.0, np.inf, 0.0, 0.0]
    largest = np.abs(away).max(axis=1)
    return [
        float((largest == 0).sum()),
        float(largest.min()),
        float((largest <= 0.1).sum()),
        float(np.abs(away.mean(axis=0)).sum()),
    ]
