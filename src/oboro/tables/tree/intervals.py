"""How far off a published number may be, for any question, from what is published alone.

For a question, a choice of places or values in each column, the noisy counts give a least-squares answer with a
known standard error s (solve.py). The interval is

    from the least-squares answer +- f s, cut at 0, widened where needed to hold the published number.

The answer is a weighted sum of noises. For 95% f is 2.12, the point ln 20 / sqrt 2 of a single Laplace noise; sums
have less. It covers the noise of this release, not errors in the data.

The published number is the better one: counts are kept at 0 or more. How far off *it* is depends on the data, and
an interval from its own spread would say too much (a bootstrap from the published table covers 64% instead of 95%).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.exact import about
from oboro.noise.laplace import check_level
from oboro.tables.layout import Layout
from oboro.tables.strategy import Noise
from oboro.tables.tree.design import Design, precision
from oboro.tables.tree.lattice import Lattice, lattice_of
from oboro.tables.tree.measure import estimated
from oboro.tables.tree.solve import moments
from oboro.tables.tree.workload import block, chosen

Choice = npt.NDArray[np.bool_]  # of the leaves of one column


@dataclass(frozen=True, slots=True)
class Answer:
    """A published number and the interval for the true one.

    `spread` of them are in no published cell: known at blocks that the question cuts through, or holds as a whole,
    and taken to live there evenly. Only filtered tables have such people.
    """

    value: int
    low: int
    high: int
    standard_error: float
    level: float
    spread: int = 0

    def to_dict(self) -> dict[str, int | float]:
        return asdict(self)

    def __str__(self) -> str:
        percent = f"{100 * self.level:g}%"
        interval = f"{percent} interval {self.low:,} to {self.high:,}"
        spread = f"; {self.spread:,} of them in no published cell" if self.spread else ""
        return f"{self.value:,}  ({interval}; standard error {about(self.standard_error, 3)}{spread})"


@dataclass(frozen=True)
class Estimates:
    """The least-squares answers to all questions."""

    lattice: Lattice
    leaves: Floats
    mu: Floats

    def errors(self) -> float:
        """The standard error of a cell."""
        profile = _product([block(tree, tree.depth) for tree in self.lattice.trees])
        return math.sqrt(float((profile / self.mu).sum()))

    def answer(self, choices: Sequence[Choice]) -> tuple[float, float]:
        """The sum over a choice of leaves in each column, and its standard error."""
        value = self.leaves
        for choice in reversed(choices):
            value = np.asarray((value * choice).sum(axis=-1))
        profile = _product(
            [
                chosen(tree, choice.astype(float))
                for tree, choice in zip(self.lattice.trees, choices, strict=True)
            ]
        )
        return float(value), math.sqrt(float((profile / self.mu).sum()))


def estimates(
    layout: Layout, design: Design, noises: Sequence[Noise], noisy: Sequence[Integers], total: int | None
) -> Estimates:
    lattice = lattice_of(layout.domain)
    leaves = estimated(noisy, lattice, design, noises, lattice.possible(layout), total)
    return Estimates(lattice, leaves, moments(lattice, design.levels, [precision(noise) for noise in noises]))


@lru_cache(maxsize=8)
def reach(level: float) -> float:
    """How many standard errors an interval reaches: as far as Laplace noise needs, or Gaussian, whichever is more."""
    from scipy.special import ndtri

    level = check_level(level)
    return max(-math.log1p(-level) / math.sqrt(2), float(ndtri(0.5 + level / 2)))


def hull(answer: Floats, error: float, published: Integers, level: float) -> tuple[Integers, Integers]:
    """The interval: whole numbers, 0 or more, that hold the published one."""
    away = reach(level) * error
    low = np.minimum(np.maximum(np.ceil(answer - away), 0).astype(np.int64), published)
    high = np.maximum(np.maximum(np.floor(answer + away), 0).astype(np.int64), published)
    return low, high


def _product(profiles: Sequence[Floats]) -> Floats:
    return reduce(np.multiply.outer, profiles, np.ones(()))
