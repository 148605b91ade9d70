"""Rows as vectors that are clipped to a ball of public radius: whole numbers, certain to lie in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from math import gcd, isqrt, lcm
from typing import Literal

import numpy as np
import numpy.typing as npt

from oboro.arrays import Data, Integers
from oboro.domain import Column, Date
from oboro.engine import stream_codes
from oboro.errors import DomainError, ParameterError, Setting, told
from oboro.exact import Number, positive, rational, show, usable
from oboro.kinds import list_of, takes, text_of
from oboro.privacy import Pure
from oboro.release import Pair
from oboro.statistics.points import one_unit
from oboro.statistics.scope import Scope, fold_groups
from oboro.statistics.terms import Promise, Vector, ends, vector

# Vectors of whole numbers, shortened into a ball by whole numbers alone, and the rows that they come from.

CHUNK = 2**20  # rows: so many products of numbers below 2^21 fit into 63 bits
MOST_COLUMNS = 2**16  # then coordinates still have a bit more than the radius when lengths are computed
_WIDE = 27  # bits of a coordinate then, at most


def clipped(t: Integers, radius: int, norm: str) -> Integers:
    """Vectors of whole numbers below 2^27, each shortened to at most `radius` in its norm, towards 0."""
    if norm == "l1":
        length = np.abs(t).sum(axis=1)
    else:
        square = (t * t).sum(axis=1)
        length = np.sqrt(square.astype(float)).astype(np.int64)  # near enough; whole numbers put it right
        length -= length * length > square
        length += length * length < square  # rounded up: never shorter than the vector
    outside = length > radius
    shorter = np.abs(t[outside]) * radius // length[outside, None]
    out = t.copy()
    out[outside] = np.sign(t[outside]) * shorter
    return out


def shifted(away: Integers, shift: int) -> Integers:
    """Divided by 2^shift, towards 0; a row so far out that this has more than 27 bits is shortened to 27.

    From 128 columns on to fewer: so many that the squares of all coordinates together stay below 2^62.
    """
    size, signs = np.abs(away), np.sign(away)
    widest = _bit_length(size.max(axis=1, initial=0))
    wide = min(_WIDE, (62 - away.shape[1].bit_length()) // 2)
    by = np.minimum(np.maximum(shift, widest - wide), 62)[:, None]
    moved = np.where(by >= 0, size >> np.maximum(by, 0), size << np.maximum(-by, 0))
    return np.asarray(signs * moved, np.int64)


def _bit_length(numbers: Integers) -> Integers:
    """How many bits each number below 2^62 has."""
    powers = np.asarray([2**k for k in range(63)], np.int64)
    return np.searchsorted(powers, numbers, side="right").astype(np.int64)


def streamed(scope: Scope, columns: Sequence[Column], data: Data) -> Iterator[tuple[Integers, Integers]]:
    """Groups and codes of the rows that count, some at a time."""
    source, condition = scope.open(data)
    by = scope.by_columns
    for rows in stream_codes(source, columns, scope.unit, condition, by):
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            groups = some[:, len(columns)] if by else np.zeros(len(some), np.int64)
            yield fold_groups(scope.by, groups), some[:, : len(columns)]


NORMS = ("l1", "l2")
_BALL = 'ball=ob.statistics.Ball("l2", 50)'  # on the command line: --ball l2:50
Totals = tuple[
    int, list[int], list[int]
]  # of a group: its rows, the sums, the products of the upper triangle

_FINE = 21  # bits of the radius on the grid: clipping is as fine as a millionth of the radius
_WIDEST = 2**62


@dataclass(frozen=True, slots=True)
class Ball:
    """All rows within `radius` of a public `origin`, in the "l1" or "l2" norm. Rows further out move to its edge.

    The radius and the origin (0 in each column, if none is given) are chosen without looking at the data.

    >>> near = ob.statistics.Ball("l2", radius=3_000, origin=[40, 2_000])
    >>> people.plan.mean(["age", "income"], rho="0.01", ball=near).guarantee
    ZCDP('0.01')
    """

    norm: Literal["l1", "l2"]
    radius: Fraction
    origin: tuple[Fraction, ...] | None = None

    @takes(norm=text_of, origin=list_of)
    def __init__(self, norm: str, radius: Number, origin: Sequence[Number] | None = None) -> None:
        if norm not in NORMS:
            raise ParameterError(
                "the norm of a ball is unknown",
                given=told(norm=repr(norm)),
                needed='"l1" or "l2"',
                fix=Setting(_BALL, ((_BALL, "ball", "l2:50"),)),
            )
        at = None if origin is None else tuple(rational("origin", number) for number in origin)
        object.__setattr__(self, "norm", norm)
        object.__setattr__(self, "radius", positive("radius", radius))
        object.__setattr__(self, "origin", at)
        for number in (self.radius, *(at or ())):
            usable(
                "radius" if number is self.radius else "origin", number, (-150, 150)
            )  # squares are published

    def __str__(self) -> str:
        at = "" if self.origin is None else f" about ({', '.join(show(number) for number in self.origin)})"
        return f"{self.norm} ball of radius {show(self.radius)}{at}"


@dataclass(frozen=True)
class InBall:
    """Vectors t of whole numbers with |t| <= R in the ball's norm, for rows of some columns.

    Values minus the origin are whole multiples of a public step, as are their bounds and the radius. The step is
    halved until the radius has 2^20 steps or more: a row inside the ball is its vector exactly. (A radius of more than
    2^21 steps is counted in multiples of a power of two, rounded towards the origin.) A row outside is
    shortened in whole numbers: t R // |t| for each coordinate, towards 0, with |t| rounded up. So
    |t R // |t|| <= R for certain: no float decides, and each vector depends on its row alone.

    Privacy
        How far a row moves what is released, in the norm of the noise: L1 for Laplace, L2 for Gaussian. d columns.

        Sums of t, where a row comes or goes: R; for an L2 ball with Laplace noise sqrt(d) R, as |t|_1 <= sqrt(d) |t|_2.
        Replaced, twice that: a mean over n rows moves by 2g/n, or by 2 g sqrt(d)/n.

        Products t_i t_j of the upper triangle, where a row comes or goes: Laplace, (|t|_1^2 + |t|_2^2)/2, at most R^2 for an
        L1 ball and R^2 (d+1)/2 for an L2 ball. Gaussian, the Frobenius norm |t|_2^2 <= R^2; replaced, sqrt 2 R^2, as the
        inner product (t.s)^2 of two such matrices is not negative.

        Covariances, n public, row z becomes y, the others have the mean m, which is in the ball too: (n-1)/n^2 times
        A = uu^T - vv^T, u = y - m, v = z - m. With R = 1:
        - L1 ball, Laplace: A = yy^T - zz^T - mw^T - wm^T, w = y - z. All d^2 entries: at most 1 + 1 + 2 |m| |w| <= 6. The upper
          triangle: A is linear in m, so the worst m is a corner, say -e_1. Let a, b be the first coordinates of y, z.
          What depends on y is at most (1+a)^2 + (1+a)(1-|a|) + (1-|a|)^2, which is 3 + a^2 or 3 (1+a)^2: at most 4. What
          depends on z is at most -(1+b)^2 + (1+b)(1-|b|) + (1-|b|)^2, which is 1 - 4b - b^2 or (1+b)^2: at most 1. So 5.
        - Gaussian: |A|^2 = f^2 + g^2 - 2 f g cos^2(u, v), f = |u|^2, g = |v|^2. Linear in m: the worst |m| is 1. Then the ball
          says f <= 4 cos^2 p, g <= 4 cos^2 q for the angles p, q of u, v to -m. Convex in f and in g: if one of them is 0,
          |A| <= 4; else both are largest. If p + q >= 90 degrees, cos^2 q <= 1 - cos^2 p and |A| <= 4. If not,
          cos(u, v) >= c = cos(p + q). With h = cos p cos q, cos^2 p + cos^2 q = 1 - c^2 + 2hc, hence
          |A|^2/16 <= (1 - c^2)(1 - c^2 + 4hc - 2h^2) <= 1 - c^4. So 4, for L2 balls, and the L1 balls in them.
        - L2 ball, Laplace: all d^2 entries together d |A| <= 4d. In the upper triangle an entry off the diagonal counts
          half of its two: sqrt(d + d(d-1)/4) |A| <= 2 sqrt(d(d+3)), which is less. With one column: 4.
        The upper triangle is released, never both.
    """

    columns: tuple[Column, ...]
    ball: Ball

    def check(self) -> None:
        """Refuses an origin that does not fit, and values that the grid would make too wide.

        What is then computed fits into 64 bits: away from the origin |first + step code| < 2^62, and step code < 2^63; of a row
        the squares of all coordinates together < 2^62 (`clipped`); of the rows of a chunk, products of numbers below
        2^21 times 2^20 rows < 2^62. Chunks are added up without limit.
        """
        if len(self.columns) > MOST_COLUMNS:
            raise DomainError(
                "there are too many columns for a ball",
                given=f"{len(self.columns):,} columns",
                needed=f"at most {MOST_COLUMNS:,}",
            )
        if self.ball.origin is not None and len(self.ball.origin) != len(self.columns):
            raise ParameterError(
                "the origin has a number for each column",
                given=f"{len(self.ball.origin)} numbers for {len(self.columns)} columns",
                fix=told(origin=f"{[0] * len(self.columns)}"),
            )
        for column, (first, step) in zip(self.columns, self._whole, strict=True):
            if max(abs(first), step, abs(first + step * (column.size - 1))) >= _WIDEST:
                raise DomainError(
                    f"column {column.name!r} has too many steps for a ball",
                    given=f"bounds {abs(first)} or more common steps from the origin",
                    needed="at most 2^62; one step that divides all steps, the origin and the radius",
                    fix="steps, origin and radius that are multiples of one another",
                )

    @cached_property
    def origin(self) -> tuple[Fraction, ...]:
        return self.ball.origin or (Fraction(0),) * len(self.columns)

    @cached_property
    def _step(self) -> Fraction:
        """The largest step that divides the radius, and the values of every column about the origin."""
        numbers = [self.ball.radius]
        for column, at in zip(self.columns, self.origin, strict=True):
            low, step = line(column)
            numbers += [step, abs(low - at)]
        below = lcm(*(number.denominator for number in numbers))
        return Fraction(gcd(*(int(number * below) for number in numbers)), below)

    @cached_property
    def _whole(self) -> list[tuple[int, int]]:
        """Values about the origin, in steps: first + step * code."""
        found = []
        for column, at in zip(self.columns, self.origin, strict=True):
            low, step = line(column)
            found.append((int((low - at) / self._step), int(step / self._step)))
        return found

    @cached_property
    def _shift(self) -> int:
        """The grid has 2^shift steps; or 2^-shift grid points to a step."""
        return int(self.ball.radius / self._step).bit_length() - _FINE

    @cached_property
    def radius(self) -> int:
        """R, on the grid."""
        steps, shift = int(self.ball.radius / self._step), self._shift
        return steps >> shift if shift > 0 else steps << -shift

    @property
    def step(self) -> Fraction:
        """What one whole number is worth."""
        return self._step * Fraction(2) ** self._shift

    def unit(self, i: int) -> float:
        return float(self.step)

    def centre(self, i: int) -> float:
        return float(self.origin[i])

    def low(self, i: int) -> float:
        """The lowest value that a clipped row may have."""
        return min(
            max(float(line(self.columns[i])[0]), self.centre(i) - float(self.ball.radius)), self.centre(i)
        )

    def high(self, i: int) -> float:
        low, step = line(self.columns[i])
        high = float(low + step * (self.columns[i].size - 1))
        return max(min(high, self.centre(i) + float(self.ball.radius)), self.centre(i))

    def rounding(self, i: int) -> float:
        """How far the grid moves a value that is in the ball: a row just inside may be rounded out, and shortened."""
        return 3 * self.unit(i) if self._shift > 0 else 0.0

    def spread(self, i: int, j: int) -> float:
        """The largest variance, or covariance, of rows in the ball."""
        return float(self.ball.radius) ** 2 / (1 if i == j else 2)

    # -- how far a row moves what is released ---------------------------------------------------------------

    def sum_reach(self, price: Promise) -> int:
        wider = self.ball.norm == "l2" and isinstance(price, Pure)
        return isqrt(len(self.columns) * self.radius**2) if wider else self.radius

    def product_reach(self, price: Promise) -> int:
        wider = self.ball.norm == "l2" and isinstance(price, Pure)
        return self.radius**2 * (len(self.columns) + 1) // 2 if wider else self.radius**2

    def covariance_reach(self, price: Promise, others: int) -> int:
        """Of n^2 times the covariance, if n - 1 = others."""
        d, square = len(self.columns), others * self.radius**2
        if d == 1 or not isinstance(price, Pure):
            return 4 * square
        return 5 * square if self.ball.norm == "l1" else isqrt(4 * d * (d + 3) * square**2)

    def sums(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        names = [f"sum of {column.name}" for column in self.columns]
        return (vector("sums of the columns", names, self.sum_reach(price), rows, price, inside),)

    def products(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        names = [f"sum of {pair}" for pair in self._pairs()]
        return (vector("sums of products", names, self.product_reach(price), rows, price, inside),)

    def covariances(self, others: int, price: Promise) -> tuple[Vector, ...]:
        names = [f"n^2 covariance of {pair}" for pair in self._pairs()]
        return (vector("n^2 covariances", names, self.covariance_reach(price, others), 1, price, 1),)

    def _pairs(self) -> list[str]:
        names = [column.name for column in self.columns]
        return [f"{one} x {other}" for one, other in combinations_with_replacement(names, 2)]

    # -- from rows to sums ------------------------------------------------------------------------------------

    def vectors(self, codes: Integers) -> Integers:
        """The vector of each row of codes, in the ball."""
        away = np.stack([first + step * codes[:, i] for i, (first, step) in enumerate(self._whole)], axis=1)
        return clipped(shifted(away, self._shift), self.radius, self.ball.norm)

    def totals(self, scope: Scope, data: Data, products: bool) -> dict[int, Totals]:
        """The rows, sums and products of each group, exactly; rows stream past."""
        d = len(self.columns)
        pairs = list(combinations_with_replacement(range(d), 2)) if products else []
        found: npt.NDArray[np.object_] = np.zeros((scope.groups, 1 + d + len(pairs)), object)
        for group, codes in streamed(scope, self.columns, data):
            t = self.vectors(codes)
            part = np.zeros(found.shape, np.int64)
            parts = [np.ones(len(t), np.int64), *t.T, *(t[:, i] * t[:, j] for i, j in pairs)]
            for place, values in enumerate(parts):
                np.add.at(part[:, place], group, values)
            found += part.astype(object)
        return {
            group: (int(row[0]), [int(x) for x in row[1 : d + 1]], [int(x) for x in row[d + 1 :]])
            for group, row in enumerate(found)
        }

    def pairs(self, scope: Scope) -> Iterator[Pair]:
        """Further worst cases: a unit turns from one end of an axis to the other, to another axis, or comes."""
        import pyarrow as pa

        if scope.by or scope.where is not None or scope.nobody:
            return
        rest = [column.code(at) or 0 for column, at in zip(self.columns, self.origin, strict=True)]

        def on_axis(i: int, sign: int) -> list[int]:
            edge = self.columns[i].code(self.origin[i] + sign * self.ball.radius) or 0
            return [*rest[:i], edge, *rest[i + 1 :]]

        def table(own: list[int] | None, others: list[int]) -> pa.Table:
            types = {column.name: pa.array([column.value(0)]).type for column in self.columns}
            rows = one_unit(scope, self.columns, own, others)
            return pa.table(
                {name: pa.array(cells, types.get(name, pa.string())) for name, cells in rows.items()}
            )

        first, far, last = on_axis(0, 1), on_axis(0, -1), on_axis(len(rest) - 1, 1)
        if scope.replaced:
            yield Pair(table(first, far), table(far, far), "one unit crosses the ball")
            yield Pair(table(first, far), table(last, far), "one unit turns from the first axis to the last")
        else:
            yield Pair(table(first, rest), table(None, rest), "one unit at the edge of the ball, or nobody")


def line(column: Column) -> tuple[Fraction, Fraction]:
    """The lowest value and the step of a column of numbers; of dates in days since 1970."""
    if isinstance(column, Date):
        return Fraction((column.first - date(1970, 1, 1)).days), Fraction(1)
    return ends(column)
