"""Learning a decision tree: ID3 on noisy counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.errors import DomainError
from oboro.exact import Number, positive, whole
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Forecast, Pair, Part, Plan, part, register
from oboro.statistics.decoding import counted_codes
from oboro.statistics.points import check_different
from oboro.statistics.scope import Scope

MOST_COUNTS = 2**20


@register
@dataclass(frozen=True)
class TreePlan(Plan):
    """A tree of `depth` questions about attributes with few values, and the likeliest label at each leaf.

    Privacy
        At each level, for each leaf so far and each attribute, rows are counted by value and label. A row is at one leaf,
        and adds 1 to one count for each of d attributes: a unit of m rows moves the counts of a level by m d in all,
        replaced by twice that. Discrete Laplace noise of scale D/(eps/depth) costs eps/depth [Ghosh, Roughgarden,
        Sundararajan 2009]; the next level's leaves follow from noisy counts only, so eps in all. Labels are read off the
        counts of the last level. [Blum, Dwork, McSherry, Nissim 2005, section 4.3]
    """

    attributes: tuple[Column, ...]
    label: Column
    depth: int
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.tree"

    def check(self) -> None:
        self.scope.check_whole("a tree has")
        check_different((*self.attributes, self.label))
        if not self.attributes:
            raise DomainError("a tree needs attributes", given="none", fix='["smokes", "drinks"]')
        whole("depth", self.depth, least=1, most=min(20, len(self.attributes)))
        if self.branches**self.depth * len(self.attributes) * self.label.size > MOST_COUNTS:
            raise DomainError(
                "the tree has too many counts",
                given=f"{self.branches} values, {self.depth} questions deep, {len(self.attributes)} attributes",
                needed=f"at most {MOST_COUNTS:,}",
                fix="a smaller depth, or columns with fewer values",
            )

    @property
    def unit(self) -> Unit:
        return self.scope.unit

    @property
    def sensitivity(self) -> int:
        return self.scope.rows * len(self.attributes) * (2 if self.scope.replaced else 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.sensitivity) * self.depth / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The counts of each level, one after the other."""
        return (part(self.noise, "counts of each level", moves=self.sensitivity, times=self.depth),)

    @property
    def slowness(self) -> int:
        return 40

    @property
    def branches(self) -> int:
        """Values of the attribute that has the most. A question with fewer leaves the other branches empty."""
        return max(column.size for column in self.attributes)

    def forecast(self) -> Forecast:
        notes = []
        leaves = self.branches**self.depth
        if self.scope.size is not None and 4 * self.noise.sd > self.scope.size / leaves:
            notes = [
                f"the noise will drown the answer at many of up to {leaves:,} leaves: a smaller depth, or more eps"
            ]
        return Forecast.of(self.noise, each="count of a value and a label at a leaf", notes=notes)

    def prepare(self, data: Any) -> Integers:
        return counted_codes(self.scope, (*self.attributes, self.label), data)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> list[Integers]:
        """The noisy counts [leaf, attribute, value, label] of each level."""
        d, values, labels = len(self.attributes), self.branches, self.label.size
        noise = [  # drawn together, as no noise depends on any answer
            self.noise.sample((trials or 1, values**level, d, values, labels), bits)
            for level in range(self.depth)
        ]
        for trial in range(trials or 1):
            self._levels(prepared, [level[trial] for level in noise])
        return [level[0] for level in noise] if trials is None else noise

    def _levels(self, rows: Integers, noisy: list[Integers]) -> None:
        """Adds what is true to the noise, level by level."""
        leaf = np.zeros(len(rows), np.int64)
        for level, counts in enumerate(noisy):
            for i in range(len(self.attributes)):
                np.add.at(counts[:, i], (leaf, rows[:, i], rows[:, -1]), 1)
            asked = self._questions(noisy[: level + 1])[-1]
            leaf = leaf * self.branches + np.take_along_axis(rows, asked[leaf][:, None], axis=1)[:, 0]

    def _questions(self, found: Sequence[Integers]) -> list[Integers]:
        """For each level the attribute that is asked at each leaf: the one that tells most, among those not yet asked."""
        asked: list[Integers] = []
        used = np.zeros((1, len(self.attributes)), np.bool_)
        for noisy in found:
            counts = np.maximum(noisy, 0).astype(float)
            for i, column in enumerate(self.attributes):
                counts[:, i, column.size :] = 0
            totals = counts.sum(axis=3, keepdims=True)
            part = counts / np.maximum(totals, 1e-12)
            left = -(counts * np.log(np.maximum(part, 1e-12))).sum(
                axis=(2, 3)
            )  # entropy that is left, times rows
            left = left / np.maximum(counts.sum(axis=(2, 3)), 1e-12)
            best = np.where(used, np.inf, left).argmin(axis=1)
            asked.append(best)
            used = used.copy()
            used[np.arange(len(best)), best] = True
            used = np.repeat(used, self.branches, axis=0)
        return asked

    def publish(self, measured: list[Integers]) -> Any:
        """A row for each leaf: the values on the way to it, and the label."""
        import pyarrow as pa

        asked = self._questions(measured)
        last, question = measured[-1], asked[-1]
        conditions, labels = [], []
        for leaf in range(self.branches**self.depth):
            path = [leaf // self.branches ** (self.depth - 1 - i) for i in range(self.depth)]
            steps = [
                (self.attributes[int(asked[i][at // self.branches])], at % self.branches)
                for i, at in enumerate(path)
            ]
            if all(value < column.size for column, value in steps):
                counts = last[leaf // self.branches, question[leaf // self.branches], leaf % self.branches]
                conditions.append(
                    " and ".join(f"{column.name} = {column.value(value)}" for column, value in steps)
                )
                labels.append(str(self.label.value(int(counts.argmax()))))
        return pa.table({"where": conditions, self.label.name: labels})

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"tree for {self.label.name}, {self.depth} questions deep",
            "noise": {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
            "domain": Domain(self.scope.columns((*self.attributes, self.label))).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """A row at one end of every column, or at the other, or away."""
        yield from self.scope.pairs((*self.attributes, self.label))


def tree_plan(
    scope: Scope, attributes: Sequence[Column], label: Column, *, eps: Number, depth: int = 3
) -> TreePlan:
    """A plan for a decision tree, not deeper than there are attributes."""
    deep = min(whole("depth", depth, least=1, most=20), max(1, len(attributes)))
    return TreePlan(tuple(attributes), label, deep, scope, Pure(positive("eps", eps)))
