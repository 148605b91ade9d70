"""What means and covariances share: rows as vectors of whole numbers about a public centre, and the plan around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from math import prod
from typing import Any

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.engine import add_up
from oboro.errors import DomainError
from oboro.noise import Bits
from oboro.privacy import Unit
from oboro.records import inline
from oboro.release import Additive, Pair, Part, Plan, noise_by_column
from oboro.statistics.balls import Ball, InBall, Totals
from oboro.statistics.scope import Scope
from oboro.statistics.sums import ends
from oboro.statistics.terms import Promise, Term, Vector, measured, part, shared, vector_parts

MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Box:
    """Vectors within the bounds of the columns: a code c in 0, ..., M becomes s = 2c - M in [-M, M]."""

    columns: tuple[Column, ...]

    @property
    def spans(self) -> list[int]:
        return [column.size - 1 for column in self.columns]

    def unit(self, i: int) -> float:
        """What one whole number is worth."""
        return float(ends(self.columns[i])[1]) / 2

    def centre(self, i: int) -> float:
        return (self.low(i) + self.high(i)) / 2

    def low(self, i: int) -> float:
        return float(ends(self.columns[i])[0])

    def high(self, i: int) -> float:
        low, step = ends(self.columns[i])
        return float(low + step * (self.columns[i].size - 1))

    def rounding(self, i: int) -> float:
        """How far the grid moves a value that is within bounds."""
        return 0.0

    def spread(self, i: int, j: int) -> float:
        """The largest variance, or covariance, that the bounds allow."""
        return prod(self.unit(c) * self.spans[c] for c in (i, j))

    def sums(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        """The sum of each column, which share the price. `inside`: see `Vector`."""
        each = part(price, Fraction(1, len(self.columns)))
        return tuple(
            shared([f"sum of {column.name}"], column.size - 1, rows, each, inside) for column in self.columns
        )

    def products(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        """The sum of products of each pair, which share the price."""
        each = part(price, Fraction(1, len(self._pairs)))
        return tuple(
            shared([f"sum of {self._name(pair)}"], self._reach(pair), rows, each, inside)
            for pair in self._pairs
        )

    def covariances(self, others: int, price: Promise) -> tuple[Vector, ...]:
        """n^2 times the covariance of each pair, if n - 1 = others, where rows are replaced."""
        each = part(price, Fraction(1, len(self._pairs)))
        return tuple(
            shared(
                [f"n^2 covariance of {self._name(pair)}"],
                4 * others * self._reach(pair),
                1,
                each,
                1,
                split=False,
            )
            for pair in self._pairs
        )

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return upper_triangle(len(self.columns))

    def _name(self, pair: tuple[int, int]) -> str:
        return " x ".join(self.columns[i].name for i in pair)

    def _reach(self, pair: tuple[int, int]) -> int:
        return prod(self.spans[i] for i in pair)

    def totals(self, scope: Scope, data: Any, products: bool) -> dict[int, Totals]:
        """The rows, the sums of s and of products s t in each group that has rows, exactly."""
        source, condition = scope.open(data)
        d, spans = len(self.columns), self.spans
        pairs = self._pairs if products else []
        asked = [(), *((i,) for i in range(d)), *pairs]
        by = [bins.column for bins in scope.by]
        found = add_up(source, self.columns, asked, scope.unit, by=by, condition=condition)

        def moved(n: int, codes: Sequence[int], both: Sequence[int]) -> Totals:
            s = [2 * code - span * n for code, span in zip(codes, spans, strict=True)]
            st = [
                4 * product - 2 * spans[j] * codes[i] - 2 * spans[i] * codes[j] + spans[i] * spans[j] * n
                for product, (i, j) in zip(both, pairs, strict=True)
            ]
            return n, s, st

        return {group: moved(n, rest[:d], rest[d:]) for group, (n, *rest) in found.items()}


@dataclass(frozen=True)
class Moments(Plan):
    """A plan of noisy sums over rows of several columns, within their bounds or clipped to a ball."""

    columns: tuple[Column, ...]
    scope: inline[Scope]
    guarantee: Promise
    ball: Ball | None = None

    def check(self) -> None:
        """Different number columns, not too many of them; groups that are not too many; a ball that fits."""
        self.scope.check_groups()
        for column in self.columns:
            ends(column)
        names = [column.name for column in self.columns]
        if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) != len(names):
            raise DomainError(
                "the columns must be different, and some",
                given=", ".join(names) or "no column",
                needed=f"1 to {MOST_COLUMNS} different number columns",
                fix='"income"',
            )
        if self.ball is not None:
            InBall(self.columns, self.ball).check()

    @property
    def unit(self) -> Unit:
        return self.scope.unit

    @cached_property
    def frame(self) -> Box | InBall:
        """How rows become vectors of whole numbers."""
        return Box(self.columns) if self.ball is None else InBall(self.columns, self.ball)

    @cached_property
    def sure(self) -> bool:
        """Whether every row counts, so that n is public and a row is replaced and nothing else."""
        return self.scope.all_count(self.columns)

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """The noisy sums, by what one unit moves together."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The noisy sums, in order."""
        return tuple(term for vector in self.vectors for term in vector.terms)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return vector_parts(
            self.vectors, groups=self.scope.groups, replaced=self.scope.replaced, sure=self.sure
        )

    def added(self) -> Additive:
        return noise_by_column(term.noise for term in self.terms)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured(self.terms, prepared, bits, trials)

    def neighbours(self) -> Iterator[Pair]:
        yield from self.scope.pairs(self.columns)
        if isinstance(self.frame, InBall):
            yield from self.frame.pairs(self.scope)

    def described(self, what: str, **facts: Any) -> dict[str, Any]:
        """What is released, and with which noise."""
        names = ", ".join(column.name for column in self.columns)
        clipped = {} if self.ball is None else {"clipped to": str(self.ball)}
        return {
            "released": f"{what} of {names}{self.scope.words()}",
            "noise": {"terms": [term.to_dict() for term in self.terms], **facts, **clipped},
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def size_in_words(self, missing: str) -> str:
        """For how many rows a forecast speaks."""
        size = self.scope.size
        if size is None:
            return f"how many rows there are is private: say expected_n for {missing}"
        return f"for {size:,} rows" + (" in each group" if self.scope.by else "")


def upper_triangle(d: int) -> list[tuple[int, int]]:
    return list(combinations_with_replacement(range(d), 2))
