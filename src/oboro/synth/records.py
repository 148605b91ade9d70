"""The paper's method: records drawn from a Gaussian with the data's mean and covariance. The records are the release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Bools, Data, Floats, Integers, Table, Words
from oboro.domain import Category, Domain
from oboro.domain.rules import Rules
from oboro.engine import Source, open_data
from oboro.errors import DomainError, GuaranteeError, ParameterError, UnitError, setting, told
from oboro.exact import Number, about, positive, remembered, show, whole
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits
from oboro.noise.compiler import compiled
from oboro.noise.laws import Normal
from oboro.noise.lazy import Ball, Uniform, ball, precision
from oboro.privacy import Approx, Conditional, Renyi, Unit
from oboro.privacy.guarantee import renyi_order
from oboro.release import Forecast, Pair, Part, Plan, register
from oboro.synth import curves
from oboro.synth.codes import check_synthesisable, read_codes, to_table
from oboro.synth.curves import Curve, best_order, eigenvalue_assumption, ridge_for
from oboro.synth.marks import mark, marked

# Exact sums and products of codes, and the exact factor of a covariance: integers and rationals throughout.

LARGEST = 2**31  # codes below this are split into two halves of 16 bits
_ROWS = 2**20  # so many products below 2^32 stay below 2^53, where doubles are exact integers

Matrix = list[list[Fraction]]


@dataclass(frozen=True, slots=True)
class Moments:
    """How many records, their sum and their sum of products, exactly. Private: never saved or shown."""

    count: int
    sums: tuple[int, ...]
    products: tuple[tuple[int, ...], ...]


def moments_of(codes: Integers) -> Moments:
    """Of codes below 2^31, one line for each column. The products are matrix products of doubles that are whole and small."""
    dims, n = codes.shape
    products = [[0] * dims for _ in range(dims)]
    sums = [0] * dims
    for first in range(0, n, _ROWS):
        part = codes[:, first : first + _ROWS]
        sums = [
            total + int(more) for total, more in zip(sums, part.sum(axis=1), strict=True)
        ]  # below 2^51 each
        high, low = (part >> 16).astype(float), (part & 0xFFFF).astype(float)
        cross = high @ low.T
        for scale, block in (
            (1 << 32, high @ high.T),
            (1 << 16, cross),
            (1 << 16, cross.T),
            (1, low @ low.T),
        ):
            for i in range(dims):
                for j in range(dims):
                    products[i][j] += scale * int(block[i, j])
    return Moments(n, tuple(sums), tuple(map(tuple, products)))


def factor(moments: Moments, sizes: Sequence[int], ridge: Fraction) -> tuple[Matrix, list[Fraction]]:
    """L and D with L D L' = covariance + ridge, all exact, for codes that stand for [-1, 1].

    L has ones on its diagonal. Where a pivot is 0, so is the rest of its column, because no eigenvalue is negative.
    """
    dims = len(sizes)
    n = moments.count
    half = [Fraction(2, size - 1) if size > 1 else Fraction(0) for size in sizes]  # a step of the code
    rest = [
        [
            half[i]
            * half[j]
            * (Fraction(moments.products[i][j], n) - Fraction(moments.sums[i] * moments.sums[j], n * n))
            + (ridge if i == j else 0)
            for j in range(dims)
        ]
        for i in range(dims)
    ]
    lower: Matrix = [[Fraction(int(i == j)) for j in range(dims)] for i in range(dims)]
    pivots = []
    for k in range(dims):
        pivot = rest[k][k]
        pivots.append(pivot)
        if pivot == 0:
            continue
        for i in range(k + 1, dims):
            lower[i][k] = rest[i][k] / pivot
        for i in range(k + 1, dims):
            for j in range(k + 1, dims):
                rest[i][j] -= lower[i][k] * lower[j][k] * pivot
    return lower, pivots


# What the Gaussian method asks of public facts, what one of its records costs, and that a plan keeps its promise.

MOST_COLUMNS = 64


def record_curve(
    unit: Unit, dims: int, n: int | None, n_min: int | None, ridge: Fraction | None, least: Fraction | None
) -> Curve:
    width = ridge or least
    assert width is not None
    tau = 4 * dims / width
    if unit.adjacency == "replace":
        assert n is not None
        return lambda order: curves.public_tight(order, n, tau)
    assert n_min is not None
    if dims == 1 and least is not None:
        width = min(
            width, Fraction(1, 2)
        )  # up to there the bound falls as n grows, so that n_min stands for all larger sizes
        tau = 4 / width

    def both(order: Fraction) -> Fraction | None:
        one = (
            curves.private_ridge(order, n_min, tau, dims)
            if ridge is not None
            else curves.private_exact(order, n_min, width, dims)
        )
        other = curves.public_tight(order, n_min, tau)  # among datasets that are filled up to n_min
        return None if one is None or other is None else max(one, other)

    return both


def check_facts(domain: Domain, unit: Unit, n: object, n_min: object) -> None:
    check_synthesisable(domain, unit)
    if domain.rules != Rules():
        raise ParameterError(
            "the Gaussian method cannot keep rules: what is impossible, totals, sums",
            given=told(method="gaussian"),
            needed="a method whose model can rule values out",
            fix=setting(method="marginals"),
        )
    if unit.kind != "row":
        raise UnitError(
            "the Gaussian method protects rows",
            given=str(unit),
            needed="a unit of rows",
            fix=setting(method="quality"),
        )
    if len(domain) > MOST_COLUMNS:
        raise DomainError(
            "too many columns for the Gaussian method",
            given=str(len(domain)),
            needed=f"at most {MOST_COLUMNS}",
        )
    for column in domain:
        if isinstance(column, Category) and column.size > 2:
            raise DomainError(
                f"column {column.name!r} is not a number",
                given=f"{column.size} categories",
                needed="numbers, dates, or two categories, for the Gaussian method",
                fix=setting(method="marginals"),
            )
        if column.size > LARGEST:
            raise DomainError(
                f"column {column.name!r} has too many values",
                given=str(column.size),
                needed="at most 2^31",
                fix="a larger step",
            )
    if unit.adjacency == "replace":
        if n is None or n_min is not None:
            raise ParameterError(
                "n is needed: under replace the number of rows is public",
                given=told(n=f"{n}", n_min=f"{n_min}"),
                needed="n",
                fix=setting(
                    **({"n": 32_561} if n is None else {}), **({} if n_min is None else {"n_min": None})
                ),
            )
        whole("n", n, least=2, most=10**15, open=True)
    else:
        if n_min is None or n is not None:
            raise ParameterError(
                "n is private under add/remove: a public lower bound is needed",
                given=told(n=f"{n}", n_min=f"{n_min}"),
                needed="n_min; a dataset with fewer rows is filled up with a public record",
                fix=setting(
                    **({"n_min": 10_000} if n_min is None else {}), **({} if n is None else {"n": None})
                ),
            )
        whole("n_min", n_min, least=3, most=10**15, open=True)


# Gaussian records on a public grid, exactly: certified rounding for vectors.
#
# The ideal record is centre + A z, with z independent standard normals, every coordinate rounded to a whole number and clipped. The
# uniforms behind z are known by their first 64 bits; compiled float balls settle all coordinates of nearly every record. Where a ball
# touches an edge, the whole record is settled in ball arithmetic from the same uniforms, with as many more bits as it takes. So what comes
# out is the ideal record, whatever the private centre and matrix are.

_CHUNK = 1 << 14
_LAW = Normal()

Entry = Callable[[], Ball]  # encloses one entry of the matrix at the precision that is in force


def draw_records(moments: Moments, sizes: Sequence[int], ridge: Fraction, count: int, bits: Bits) -> Integers:
    """`count` records as codes, one line each: N(mean, covariance + ridge) on [-1, 1]^d, clipped, on the grid of codes."""
    dims = len(sizes)
    lower, pivots = factor(moments, sizes, ridge)
    centre = [Fraction(total, moments.count) for total in moments.sums]  # the mean, in codes
    matrix: list[list[Entry]] = [
        [_entry(lower[i][k] * Fraction(sizes[i] - 1, 2), pivots[k]) for k in range(dims)] for i in range(dims)
    ]
    with precision(128):
        centres = np.array([fb.float_ball(ball(c)) for c in centre])
        entries = np.array([[fb.float_ball(entry()) for entry in row] for row in matrix])
    most = np.asarray(sizes, np.int64) - 1
    out = np.empty((count, dims), np.int64)
    for first in range(0, count, _CHUNK):
        part = out[first : first + _CHUNK]
        words = bits.words(2 * dims * len(part)).reshape(dims, 2, len(part))
        mids, rads = np.empty((dims, len(part))), np.empty((dims, len(part)))
        for k in range(dims):
            mids[k], rads[k] = _LAW.enclose(words[k])
        is_open = np.empty(len(part), np.bool_)
        _settle(mids, rads, centres, entries, part, is_open)
        for i in np.flatnonzero(is_open):
            part[i] = _record(words[:, :, i], centre, matrix, most, bits)
        np.clip(part, 0, most, out=part)
    return out


def _entry(scale: Fraction, pivot: Fraction) -> Entry:
    return lambda: ball(scale) * ball(pivot).sqrt()


def _record(
    words: Words, centre: Sequence[Fraction], matrix: Sequence[Sequence[Entry]], most: Integers, bits: Bits
) -> list[int]:
    """All coordinates of one record, by balls; the bits are doubled until each lies in one cell."""
    pairs = [[Uniform(bits, int(word), 64) for word in pair] for pair in words]
    while True:
        with precision(2 * pairs[0][0].known):
            normals = [_LAW.ball(*(u.ball() for u in pair)) for pair in pairs]
            cells = []
            for c, row in zip(centre, matrix, strict=True):
                value = ball(c)
                for entry, z in zip(row, normals, strict=True):
                    width = entry()
                    value = value + (width if width.is_zero() else width * z)  # z need not be finite yet
                cells.append((value + 0.5).floor().unique_fmpz())
        if all(cell is not None for cell in cells):
            return [min(max(int(cell), 0), int(top)) for cell, top in zip(cells, most, strict=True)]
        for pair in pairs:
            for u in pair:
                u.extend(u.known)


@compiled
def _settle(
    mids: Floats, rads: Floats, centres: Floats, entries: Floats, out: Integers, is_open: Bools
) -> None:
    """Rounds every coordinate whose float ball lies in one cell; a record with any other is open.

    Below 2^51, k is a whole number exactly and x - k is right to a factor 1 + u; the margin of 2^-50 covers the test itself.
    """
    dims = centres.shape[0]
    for i in range(out.shape[0]):
        is_open[i] = False
        for j in range(dims):
            x, x_rad = centres[j, 0], centres[j, 1]
            for k in range(j + 1):
                y, y_rad = fb.mul_ball(entries[j, k, 0], entries[j, k, 1], mids[k, i], rads[k, i])
                x, x_rad = fb.add_ball(x, x_rad, y, y_rad)
            cell = np.floor(x + 0.5)
            certain = abs(x - cell) + x_rad < 0.5 - 2.0**-50 and abs(cell) < 2.0**51
            if certain:
                out[i, j] = np.int64(cell)
            else:
                out[i, j] = 0
                is_open[i] = True


@dataclass(frozen=True, slots=True)
class GaussianRecords:
    """The law of a record: what widens it, or what is assumed instead; `order` is where its divergence is bounded."""

    ridge: Fraction | None
    min_eigenvalue: Fraction | None
    order: Fraction

    def to_dict(self) -> dict[str, str]:
        how = (
            {"ridge": show(self.ridge)}
            if self.ridge is not None
            else {"assumed smallest eigenvalue": show(self.min_eigenvalue or 0)}
        )
        return {"law": "Gaussian records, by certified rounding", **how, "order": show(self.order)}


@register
@dataclass(frozen=True)
class GaussianPlan(Plan):
    """`records` independent draws from N(mean, covariance + ridge) of the data in [-1, 1]^d, clipped, on the public grid [Miura et al. 2022].

    Privacy
        No noise is added to anything: the draws themselves are the noise. Under replace, n is public, and one record has a Rényi divergence
        of at most a/2 tau/(n^2 (1 - a k tau)) + h(-k tau), tau = 4d/ridge, k = (n-1)/n^2, for every pair of datasets (`bounds.public_tight`).
        Under add/remove it is the larger of that and of `bounds.private_ridge`, both at a public n_min; a dataset with fewer rows is filled up
        with a public record. Independent records add up: `records` times that, at the plan's order, is converted to (eps, delta) by the tight
        rule [Canonne, Kamath, Steinke 2020]. The number of records is public. Clipping and rounding are post-processing, and certified
        rounding makes the ideal draw the one that happens. With an assumed smallest eigenvalue there is no ridge, tau = 4d/eigenvalue, and
        the promise holds under that assumption alone.

    >>> numbers = ob.Domain([ob.Integer("age", 0, 99), ob.Integer("hours", 0, 99)])
    >>> plan = ob.synth.plan(
    ...     numbers, unit=ob.Unit.row("replace"), n=10_000, eps=1, delta="1e-6", method="gaussian", records=100
    ... )
    >>> plan.records, float(plan.ridge)
    (100, 0.0323)
    """

    domain: Domain
    unit: Unit
    guarantee: Approx | Conditional
    records: int
    order: Fraction
    n: int | None = None
    n_min: int | None = None
    ridge: Fraction | None = None
    min_eigenvalue: Fraction | None = None
    kind = "synth.gaussian"

    def check(self) -> None:
        check_facts(self.domain, self.unit, self.n, self.n_min)
        whole("records", self.records, least=1, most=10**9)
        renyi_order(self.order)
        for name, width in (("ridge", self.ridge), ("min_eigenvalue", self.min_eigenvalue)):
            if width is not None:
                positive(name, width)
        promised = self.guarantee.unconditional
        assumed = () if self.min_eigenvalue is None else (eigenvalue_assumption(self.min_eigenvalue),)
        if (self.ridge is None) == (self.min_eigenvalue is None) or self.guarantee.assumptions != assumed:
            raise ParameterError(
                "a Gaussian plan has a ridge, or an assumption and a conditional promise",
                given=str(self.guarantee),
            )
        if not isinstance(promised, Approx) or promised.delta == 0:
            raise GuaranteeError(
                "a Gaussian plan promises (eps, delta)", given=repr(promised), fix='kind = "approx"'
            )
        if self.curve(self.order) is None:
            raise GuaranteeError(
                "the plan does not keep its promise",
                given=f"order {show(self.order)}, at which nothing is shown",
                needed="a larger ridge, fewer records or a larger eps",
            )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The records themselves, at the plan's order."""
        one = self.curve(self.order)
        assert one is not None
        law = GaussianRecords(self.ridge, self.min_eigenvalue, self.order)
        return (Part(law, "records", Fraction(1), Renyi(self.order, self.records * one)),)

    @cached_property
    def curve(self) -> Curve:
        """What one record costs, by order."""
        return record_curve(self.unit, len(self.domain), self.n, self.n_min, self.ridge, self.min_eigenvalue)

    def forecast(self) -> Forecast:
        rows = []
        for column in self.domain:
            added = float(self.ridge or 0) ** 0.5 * (column.size - 1) / 2
            step = float(getattr(column, "step", 1))
            rows.append((column.name, added * step, (column.size - 1) * step))
        found = (
            f"ridge {about(self.ridge)}"
            if self.ridge is not None
            else "no ridge: the promise rests on an assumption"
        )
        return Forecast(
            "what the ridge adds to the spread of each column",
            ("of each", "added standard deviation", "range"),
            tuple(rows),
            (
                f"{found}, order {about(self.order)}",
                "a Gaussian keeps mean and covariance, not the shape of a column; method='marginals' keeps both",
            ),
        )

    def open(self, data: Data) -> Source:
        return open_data(data)

    def look(self, source: Source) -> None:
        read_codes(source, self.domain, self.unit)

    def prepare(self, data: Data) -> Moments:
        """Exact moments. What is missing counts as the middle of its column."""
        codes = read_codes(data, self.domain, self.unit, self.n)
        middle = np.array([(column.size - 1) // 2 for column in self.domain])[:, None]
        codes = np.where(codes >= np.array([column.size for column in self.domain])[:, None], middle, codes)
        short = (self.n_min or 0) - codes.shape[1]
        if short > 0:
            codes = np.concatenate([codes, np.repeat(middle, short, axis=1)], axis=1)
        return moments_of(codes)

    def measure(self, prepared: Moments, bits: Bits, trials: int | None = None) -> Integers:
        sizes = [column.size for column in self.domain]
        drawn = draw_records(prepared, sizes, self.ridge or Fraction(0), self.records * (trials or 1), bits)
        return drawn if trials is None else drawn.reshape(trials, self.records, len(sizes))

    def publish(self, measured: Integers) -> Table:
        table = to_table(self.domain, [np.ascontiguousarray(column) for column in measured.T])
        return marked(table, mark(self.records))

    def describe(self) -> dict[str, object]:
        return {
            "released": f"{self.records:,} synthetic records",
            "noise": GaussianRecords(self.ridge, self.min_eigenvalue, self.order).to_dict(),
            "domain": self.domain.to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """A crowd in one corner, and one record that goes to the other corner, or leaves."""
        first = {column.name: column.value(0) for column in self.domain}
        last = {column.name: column.value(column.size - 1) for column in self.domain}
        crowd = (self.n or (self.n_min or 2) + 1) - 1
        rows = {name: [value] * crowd for name, value in first.items()}
        there = {name: [*values, last[name]] for name, values in rows.items()}
        if self.unit.adjacency == "replace":
            yield Pair(
                {name: [*values, first[name]] for name, values in rows.items()},
                there,
                "one record moves from the crowd to the other corner",
            )
        else:
            yield Pair(there, rows, "one record in the corner away from the crowd, or nobody")


def gaussian_plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number,
    delta: Number,
    records: int,
    n: int | None = None,
    n_min: int | None = None,
    assume_min_eigenvalue: Number | None = None,
) -> GaussianPlan:
    """Finds the smallest ridge that keeps (eps, delta), or, with an assumed eigenvalue, checks that none is needed."""
    check_facts(domain, unit, n, n_min)
    n, n_min = (None if given is None else whole("n", given, open=True) for given in (n, n_min))
    count = whole("records", records, least=1, most=10**9, open=True)
    wanted = Approx(positive("eps", eps), positive("delta", delta))
    if assume_min_eigenvalue is None:
        ridge, order = _smallest_ridge(unit, len(domain), n, n_min, count, wanted)
        return GaussianPlan(domain, unit, wanted, count, order, n, n_min, ridge)
    least = positive("assume_min_eigenvalue", assume_min_eigenvalue)
    if least > 1:
        raise ParameterError(
            "assume_min_eigenvalue is too large",
            given=told(assume_min_eigenvalue=show(least)),
            needed="at most 1, the largest variance of a column in [-1, 1]",
            fix=setting(assume_min_eigenvalue="0.01"),
        )
    best = best_order(record_curve(unit, len(domain), n, n_min, None, least), count, wanted.delta)
    if best is None or best.approx.eps > wanted.eps:
        raise GuaranteeError(
            "so many records cost more than eps under this assumption",
            given=told(records=f"{count}", assume_min_eigenvalue=show(least), eps=show(wanted.eps)),
            needed="no order shows it" if best is None else f"eps of at least {about(best.approx.eps, 6)}",
            fix="without assume_min_eigenvalue, a ridge is found for the asked eps",
        )
    return GaussianPlan(
        domain,
        unit,
        Conditional(wanted, eigenvalue_assumption(least)),
        count,
        best.order,
        n,
        n_min,
        None,
        least,
    )


@remembered(64)
def _smallest_ridge(
    unit: Unit, dims: int, n: int | None, n_min: int | None, records: int, wanted: Approx
) -> tuple[Fraction, Fraction]:
    return ridge_for(
        lambda ridge: record_curve(unit, dims, n, n_min, ridge, None), records, wanted.eps, wanted.delta
    )
