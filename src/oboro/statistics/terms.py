"""Whole numbers with noise: what counts, sums, means and covariances are made of.

A term is a sum over rows of a whole number that is at most `reach` away from 0 for each row. Two ways to pay:

    Pure(eps)    discrete Laplace noise of scale k reach/e costs e, if a unit has k rows; costs of terms add up
    ZCDP(rho)    discrete Gaussian noise of variance (k reach)^2/(2 r) costs r; costs of terms add up

Both are for adding or removing k rows. Replacing them costs what each plan says.

A very large reach is counted in multiples of a public power of two, the quantum, rounded down:
|floor(a/q) - floor(b/q)| <= ceil(|a - b|/q), so the reach in multiples is ceil(reach/q) for one row, and k times
that for k rows. Then noise fits into 64 bits, and what the rounding adds is lost in the noise.

Groups are disjoint: a row comes or goes in one of them, and `in_groups` says what that may cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.domain import Column, Date, Integer, Real
from oboro.errors import DomainError, ParameterError, question, setting
from oboro.exact import Number, about, positive
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.privacy import ZCDP, Pure, Unit, parallel
from oboro.release.part import Choice, Part, Selection
from oboro.release.part import part as privacy_part

Noise = DiscreteLaplace | DiscreteGaussian
Promise = Pure | ZCDP

# what a row of a unit that is replaced can do
COMES, INSIDE, MOVES = (
    "a row comes or goes",
    "a row is replaced within its group",
    "a row moves to another group",
)
LARGEST_REACH = 2**26  # in quanta; times 2^36 rows it still fits into 64 bits, and beyond `counted` clamps
_MOST = 2**62  # of a sum in quanta, either way; noise is far smaller


@dataclass(frozen=True, slots=True)
class Term:
    """One released number for each group: the noise on it, and the multiples in which it is counted."""

    name: str
    noise: Noise
    quantum: int

    @property
    def sd(self) -> float:
        return self.noise.sd * self.quantum

    def within(self, level: float) -> float:
        """How far the noise goes with this probability, and what rounding to multiples adds."""
        return float(self.noise.interval(level)[1] * self.quantum + (self.quantum - 1))

    def to_dict(self) -> dict[str, object]:
        counted = {"multiples": self.quantum} if self.quantum > 1 else {}
        return {"of": self.name, **self.noise.to_dict(), **counted}


@dataclass(frozen=True, slots=True)
class Vector:
    """Terms that one unit moves together, all with the same noise; and how far, in the norm of that noise (`part`).

    `comes`: where all its rows come or go. `inside`: so many times as far where they are replaced within their groups.
    """

    of: str
    terms: tuple[Term, ...]
    comes: Fraction
    inside: Fraction

    @property
    def noise(self) -> Noise:
        return self.terms[0].noise


def term(name: str, reach: int, rows: int, price: Promise, *, split: bool = False) -> Term:
    """The term that costs `price` when `rows` rows are added or removed. `split`: its reach is shared with another
    term of the same quantum, and each of the two rounds."""
    quantum, steps = counting(reach, rows, split=split)
    return Term(name, noise_for(steps, price), quantum)


def counting(reach: int, rows: int, *, split: bool = False) -> tuple[int, int]:
    """The multiples in which a term is counted, and by how many of them `rows` rows move it that come or go."""
    quantum = 1
    while reach * rows > LARGEST_REACH * quantum:
        quantum *= 2
    return quantum, rows * max(1, -(-reach // quantum) + (1 if split and quantum > 1 else 0))


def shared(
    names: Sequence[str],
    reach: int,
    rows: int,
    price: Promise,
    inside: Fraction | int,
    *,
    of: str | None = None,
    split: bool = True,
) -> Vector:
    """Terms that cost `price` together when `rows` rows are added or removed, each of which moves them by at most `reach`
    in all. (Then in the 2-norm, too.)"""
    quantum, steps = counting(reach, rows, split=split)
    noise = noise_for(steps, price)
    terms = tuple(Term(name, noise, quantum) for name in names)
    return Vector(of or names[0], terms, _in_norm(steps, price), Fraction(inside))


def vector(
    of: str, names: Sequence[str], reach: int, rows: int, price: Promise, inside: Fraction | int
) -> Vector:
    """Terms that cost `price` together when `rows` rows are added or removed, each of which moves the vector of
    them by at most `reach`: in the 1-norm for eps, in the 2-norm for rho.

    Rounding to multiples moves each coordinate by less than one more. Rows of one unit may lie in as many groups, each
    of which rounds k coordinates: k rows in the 1-norm, sqrt(k rows) in the 2-norm. (Replaced within their groups they
    round no more coordinates, and moving to others twice as many: less than in proportion.)
    """
    quantum, k = 1, len(names)
    while reach * rows > LARGEST_REACH * quantum:
        quantum *= 2
    touched = 0 if quantum == 1 else k * rows
    rounding = touched if isinstance(price, Pure) or not touched else isqrt(touched - 1) + 1
    steps = max(1, -(-reach * rows // quantum) + rounding)
    noise = noise_for(steps, price)
    terms = tuple(Term(name, noise, quantum) for name in names)
    return Vector(of, terms, _in_norm(steps, price), Fraction(inside))


def _in_norm(steps: int, price: Promise) -> Fraction:
    """Laplace noise counts steps, Gaussian noise their square."""
    return Fraction(steps) if isinstance(price, Pure) else Fraction(steps) ** 2


def vector_parts(vectors: Sequence[Vector], *, groups: int, replaced: bool, sure: bool) -> tuple[Part, ...]:
    """The parts of vectors, for each thing that a unit can do. `sure`: every row counts, so that it is replaced and
    nothing else."""
    found: list[Part] = []
    for one in vectors:
        inside = one.comes * one.inside
        if sure:
            found.append(privacy_part(one.noise, one.of, moves=inside))
        else:
            found += cases(one.noise, one.of, one.comes, inside, groups=groups, replaced=replaced)
    return tuple(found)


def moved_parts(
    noise: Noise,
    of: str,
    *,
    rows: int,
    groups: int,
    replaced: bool,
    comes: Fraction | int,
    inside: Fraction | int,
) -> tuple[Part, ...]:
    """The parts of noise on a sum over rows, for each thing that a unit can do.

    One row that comes or goes moves the numbers of its group by `comes`, in all for Laplace noise, in the 2-norm for
    Gaussian; one that is replaced within its group by `inside`. k rows: k times as much [group privacy].
    """
    power = 2 if isinstance(noise, DiscreteGaussian) else 1
    moves = [(rows * Fraction(reach)) ** power for reach in (comes, inside)]
    return cases(noise, of, moves[0], moves[1], groups=groups, replaced=replaced)


def cases(
    law: Noise | Choice | Selection,
    of: str,
    comes: Fraction,
    inside: Fraction,
    *,
    groups: int,
    replaced: bool,
) -> tuple[Part, ...]:
    """The parts of noise or of choices in each group, with how far all rows of a unit move them that come or go, or are
    replaced within their groups, in the norm of the law.

    A row that moves goes here and comes there: twice as far as one that comes, in squares as well. Of a unit's rows some
    may come and others be replaced: that costs no more than the worse of both for all of them, as norms add up.
    """
    if not replaced:
        return (privacy_part(law, of, moves=comes),)
    moved = [(COMES, comes), (INSIDE, inside), *([(MOVES, 2 * comes)] if groups > 1 else [])]
    return tuple(privacy_part(law, of, moves=moves, case=case) for case, moves in moved)


def noise_for(reach: int, price: Promise) -> Noise:
    """Noise on a whole number that a unit moves by at most `reach`."""
    if isinstance(price, Pure):
        return DiscreteLaplace(Fraction(reach) / positive("eps", price.eps))
    return DiscreteGaussian(Fraction(reach) ** 2 / (2 * positive("rho", price.rho)))


def part(price: Promise, share: Fraction | int) -> Promise:
    """A share of a price."""
    return Pure(price.eps * share) if isinstance(price, Pure) else ZCDP(price.rho * share)


def in_groups(promise: Promise, adjacency: str, groups: int, inside: Fraction | int) -> Promise:
    """What a row that comes or goes may cost in its group, so that all groups together keep the promise.

    `inside` is how many times as much a row costs that is replaced within its group. A row that is left out afterwards
    has gone; one that moves goes here and comes there. `parallel` puts these together. A unit of k rows
    has k times the noise of one, wherever its rows are [group privacy].
    """
    # more groups than a row can touch change nothing
    return part(
        promise, Fraction(*_share(isinstance(promise, Pure), adjacency, min(groups, 2), Fraction(inside)))
    )


@lru_cache(maxsize=64)
def _share(pure: bool, adjacency: str, alike: int, inside: Fraction) -> tuple[int, int]:
    """Which part of the promise that is, over which: whole numbers, for what is kept must not be written to."""
    one: Promise = Pure(1) if pure else ZCDP(1)
    cost = parallel(*[one] * alike, unit=Unit.row(adjacency), inside=[part(one, inside)] * alike)
    assert isinstance(cost, Pure | ZCDP)
    return (1 / (cost.eps if isinstance(cost, Pure) else cost.rho)).as_integer_ratio()


def promised(eps: Number | None, rho: Number | None) -> Promise:
    """The guarantee that was asked for: eps or rho, one of them, never defaulted."""
    if (eps is None) == (rho is None):
        raise ParameterError(
            "say eps, or rho",
            given="neither" if eps is None else "both",
            needed="eps for Laplace noise and a pure guarantee, or rho for Gaussian noise and zCDP",
            fix=setting(eps="0.1") if eps is None else setting(rho=None),
        )
    return Pure(positive("eps", eps)) if eps is not None else ZCDP(positive("rho", rho))


def counted(terms: Sequence[Term], groups: int, found: Mapping[int, Sequence[int]]) -> Integers:
    """Exact sums of each group, in multiples of each term's quantum; groups without rows are 0.

    None is further than 2^62 from 0. Clamping brings no two sums further apart.
    """
    table = np.zeros((groups, len(terms)), np.int64)
    for group, sums in found.items():
        table[group] = [
            max(-_MOST, min(_MOST, value // term.quantum)) for value, term in zip(sums, terms, strict=True)
        ]
    return table


def measured(terms: Sequence[Term], prepared: Integers, bits: Bits, trials: int | None) -> Integers:
    """The sums with their noise; with `trials`, so many times."""
    shape = prepared.shape[:1] if trials is None else (trials, *prepared.shape[:1])
    noise = [term.noise.sample(shape, bits) for term in terms]
    return prepared + np.stack(noise, axis=-1)


def values(terms: Sequence[Term], noisy: Integers) -> npt.NDArray[np.float64]:
    """Noisy sums in units of 1, for publishing. (Half a quantum makes up for rounding down.)"""
    quanta = np.asarray([term.quantum for term in terms], float)
    return np.asarray(noisy * quanta + (quanta - 1) / 2, float)


def ends(column: Column) -> tuple[Fraction, Fraction]:
    """The lowest value and the step of a number column; refuses a column of another kind."""
    if isinstance(column, Integer | Real):
        return Fraction(column.low), Fraction(column.step)
    raise DomainError(
        f"column {column.name!r} has no numbers to add up",
        given=f"a column of kind {column.kind!r}",
        needed="an Integer or Real column",
        fix=question("median" if isinstance(column, Date) else "histogram", column.name),
        argument="column",
    )


# Whether counts and groups will stand out of the noise: a note for forecasts, from public facts alone.

MANY = 100  # parts from which on it is worth a note, if nobody knows how many rows there are


def noise_note(parts: int, rows: int | None, least: float, each: str = "count") -> tuple[str, ...]:
    """Says so where most of `parts` will be noise: each needs `least` rows to stand out, of `rows` in all.

    `rows` is public or a guess. Without it the note says how many rows it takes, if there are many parts.
    """
    if parts < 2 or (rows is None and parts < MANY):
        return ()
    if rows is None:
        return (
            f"a {each} of fewer than {about(least)} rows is mostly noise: with fewer than {about(least * parts)} "
            f"rows in all, so are most of these {parts:,}",
        )
    if rows >= least * parts:
        return ()
    return (
        f"most will be noise: a {each} has {about(rows / parts)} of {rows:,} rows on average, and needs "
        f"{about(least)} to stand out; fewer and larger ones say more",
    )
