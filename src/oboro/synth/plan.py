"""What the plans that learn a model share: every column on its own, then further steps, all paid from one rho, or from one eps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from oboro.arrays import Data, Floats, Integers, Table
from oboro.domain import Domain
from oboro.engine import Source, open_data
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, remembered, show, whole
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace, exponential_mechanism, permute_and_flip
from oboro.privacy import ZCDP, Approx, Guarantee, Pure, Unit
from oboro.privacy.guarantee import positive_delta
from oboro.release import Choice, Forecast, Pair, Part, Plan, Selection, part
from oboro.release.plan import BUNDLE
from oboro.synth.codes import check_synthesisable, code_count, read_codes
from oboro.synth.junction import Clique, Law, Noisy, fit, size_of_tree
from oboro.synth.levels import (
    COUNTINGS,
    MOST_BLOCKS,
    Counting,
    Level,
    Noise,
    counting_of,
    measure_column,
    total_of,
)
from oboro.synth.measured import Binned, Measured, binned, to_rows, variances
from oboro.synth.rules import check_rules, cut, modelled, most_bins_in, tied_by, zeros_of
from oboro.synth.shape import shape_of

# How a plan's privacy is split between its steps: exact rationals that never add up to more than was promised.

_DIGITS = 6
MOST_RHO = 500


Price = Pure | ZCDP  # what steps are paid in: their eps add up, or their rho do


def promised(eps: Number | None, delta: Number | None, rho: Number | None) -> Pure | Approx | ZCDP:
    """What is promised: eps, eps with delta, or rho."""
    if rho is None and eps is not None and delta is None:
        return Pure(positive("eps", eps))
    if rho is not None and eps is None and delta is None:
        return ZCDP(positive("rho", rho))
    if rho is None and eps is not None and delta is not None:
        return Approx(positive("eps", eps), positive("delta", delta))
    raise ParameterError(
        "the privacy to spend is not said",
        given=", ".join(
            name for name, value in (("eps", eps), ("delta", delta), ("rho", rho)) if value is not None
        )
        or "nothing",
        needed="eps and delta, eps alone, or rho for a ledger of zCDP",
        fix=setting(eps=1, delta="1e-6", **({} if rho is None else {"rho": None})),
    )


@remembered(64)  # one run asks for it many times
def rho_within(guarantee: Guarantee) -> Fraction:
    """The largest rho, to six digits, whose zCDP implies the guarantee. At most 500: beyond, noise is 0 in doubles."""
    if isinstance(guarantee, ZCDP):
        return _checked(positive("rho", guarantee.rho), "rho", guarantee.rho)
    assert isinstance(guarantee, Approx)
    positive_delta(guarantee.delta)
    low, high = Fraction(0), guarantee.eps  # rho < eps always, for the conversion adds something positive
    for _ in range(60):
        middle = _rounded((low + high) / 2)
        if middle in (low, high):
            break
        low, high = (
            (middle, high) if ZCDP(middle).to_approx(guarantee.delta).eps <= guarantee.eps else (low, middle)
        )
    if low == 0:
        raise ParameterError(
            "eps is too small",
            given=told(eps=show(guarantee.eps)),
            needed="an eps that buys some rho",
            fix=setting(eps="0.1"),
        )
    return _checked(low, "eps", guarantee.eps)


def price_within(guarantee: Guarantee) -> Price:
    """What the steps may cost together: all of an eps alone, at most 500, or the rho that the guarantee buys."""
    if isinstance(guarantee, Pure):
        return Pure(_checked(positive("eps", guarantee.eps), "eps", guarantee.eps))
    return ZCDP(rho_within(guarantee))


def share_of(price: Price, share: Fraction) -> Price:
    """A part of a price, in the same currency."""
    return Pure(price.eps * share) if isinstance(price, Pure) else ZCDP(price.rho * share)


def _checked(rho: Fraction, name: str, said: Fraction) -> Fraction:
    """The noise of the least share has a variance of about 2 e^(-rho), which what follows divides by."""
    if rho > MOST_RHO:
        raise ParameterError(
            f"{name} is out of range",
            given=told(**{name: show(said)}),
            needed=f"a rho of at most {MOST_RHO}, or an eps that buys no more",
            fix=setting(eps=1, delta="1e-6"),
        )
    return rho


def squared_sensitivity(unit: Unit) -> int:
    """How far, squared, one unit moves any one table of counts in the 2-norm.

    All of a unit's m rows lie in one cell at worst: m^2. Under replace they leave one cell and enter another: 2 m^2.
    """
    m = unit.contributions
    return m * m * (2 if unit.adjacency == "replace" else 1)


def summed_sensitivity(unit: Unit) -> int:
    """How far one unit moves any one table of counts in all: m, or 2m under replace."""
    return unit.contributions * (2 if unit.adjacency == "replace" else 1)


def noise_for(unit: Unit, price: Price) -> Noise:
    """The noise that makes one table of counts cost this: discrete Laplace for an eps, discrete Gaussian for a rho."""
    if isinstance(price, Pure):
        return DiscreteLaplace(summed_sensitivity(unit) / price.eps)
    return DiscreteGaussian(Fraction(squared_sensitivity(unit)) / (2 * price.rho))


def moved_by(noise: Noise, unit: Unit) -> int:
    """How far one unit moves a table of counts, in the norm of this noise."""
    return summed_sensitivity(unit) if isinstance(noise, DiscreteLaplace) else squared_sensitivity(unit)


def choice_eps(price: Price) -> Fraction:
    """The eps of a choice that costs at most this: all of an eps; for a rho eps^2/8 <= rho [Cesar and Rogers 2021]."""
    if isinstance(price, Pure):
        return price.eps
    scaled = 8 * price.rho * 10 ** (2 * 12)
    return Fraction(math.isqrt(math.floor(scaled)), 10**12)


def chooser(unit: Unit, price: Price) -> Choice | Selection:
    """How a table is chosen for this price: weights e^(eta score), eta = eps / (2 D), where one unit moves a score by at most D.

    Permute-and-flip for an eps: it costs the same as the exponential mechanism, and is never worse [McKenna, Sheldon 2020]. For a rho
    the exponential mechanism, whose smaller range makes it cheaper.
    """
    eta = choice_eps(price) / (2 * summed_sensitivity(unit))
    return Selection(eta) if isinstance(price, Pure) else Choice(eta)


def _rounded(number: Fraction) -> Fraction:
    """To six digits, downwards."""
    if number == 0:
        return number
    if 1e-300 < number < 1e300:
        places = _DIGITS - math.ceil(math.log10(number))
    else:
        places = _DIGITS + len(str(number.denominator)) - len(str(number.numerator))
    scale = Fraction(10) ** places
    return Fraction(math.floor(number * scale)) / scale


# What all plans for synthetic data have in common: checks, worst cases for the audit, words for the certificate.

MOST_CATEGORIES = 2**16


def check_n(unit: Unit, n: Any) -> None:
    """Under replace the number of rows is public and part of the plan; under add/remove it is private and must not be."""
    if unit.kind == "row" and unit.adjacency == "replace":
        if n is None:
            raise ParameterError(
                "n is needed: under replace the number of rows is public",
                given=told(n="None"),
                needed="the number of rows of the data",
                fix=setting(n=...),
            )
        whole("n", n, least=1, open=True)
    elif n is not None:
        raise ParameterError(
            "n is private for this unit",
            given=told(n=f"{n}") + f", {unit}",
            needed="no n: the model estimates it from noisy counts",
            fix=setting(n=None),
        )


def repeated(once: Callable[[], Integers], trials: int) -> Integers:
    """Many independent measurements, one row each, filled up with zeros where one has fewer numbers than another."""
    if trials > 100:
        import oboro.noise._compiled  # noqa: F401  # a few draws at a time, very often: now the loops pay
    rows = [once() for _ in range(trials)]
    out = np.zeros((trials, max(row.size for row in rows)), np.int64)
    for place, row in enumerate(rows):
        out[place, : row.size] = row
    return out


def neighbours_of(domain: Domain, unit: Unit, n: int | None) -> Iterator[Pair]:
    """A crowd at the first values; one unit with all its rows at the last ones, or not there, or in the crowd."""
    first = {column.name: column.value(0) for column in domain}
    last = {column.name: column.value(column.size - 1) for column in domain}
    rows = unit.contributions
    crowd = (n or 20) - (rows if n is not None else 0)

    def data(odd: dict[str, object] | None) -> dict[str, list[Any]]:
        table = {
            name: [first[name]] * crowd + ([odd[name]] * rows if odd is not None else []) for name in first
        }
        if unit.kind == "person":
            assert unit.column is not None
            table[unit.column] = [f"crowd {i}" for i in range(crowd)] + (
                ["someone"] * rows if odd is not None else []
            )
        return table

    if unit.adjacency == "replace":
        yield Pair(data(first), data(last), "all rows of one unit move from the first values to the last")
    else:
        yield Pair(data(last), data(None), "one unit with all its rows at the last values, or nobody")


def describe_plan(plan: ModelPlan, released: str, noise: Noise) -> dict[str, object]:
    price = plan.price
    cost = (
        {"sensitivity": str(summed_sensitivity(plan.unit)), "eps in all": show(price.eps)}
        if isinstance(price, Pure)
        else {"squared sensitivity": str(squared_sensitivity(plan.unit)), "rho in all": show(price.rho)}
    )
    return {
        "released": released,
        "noise": {**noise.to_dict(), **cost},
        "domain": plan.domain.to_dict(),
    }


def _about(number: float) -> int:
    """To two digits, upwards."""
    unit: int = 10 ** max(0, len(str(int(number))) - 2)
    return math.ceil(number / unit) * unit


# The steps that plans share: every column on its own, choosing a table by its error, measuring it, and fitting a law.


@dataclass(frozen=True)
class Ones:
    """Every column on its own: its levels share the part of the price that its weight gives it."""

    domain: Domain
    unit: Unit
    price: Price
    n: int | None
    counting: Counting

    @cached_property
    def noises(self) -> list[list[Noise]]:
        weights = [self.counting.weight(column) for column in self.domain]
        return [
            [
                noise_for(self.unit, share_of(self.price, Fraction(weight, sum(weights)) * share))
                for share in self.counting.shares(column)
            ]
            for column, weight in zip(self.domain, weights, strict=True)
        ]

    def measure(self, codes: Integers, bits: Bits) -> list[list[Level]]:
        return [
            measure_column(
                codes[i],
                column,
                self.counting.blocks(column),
                self.noises[i],
                bits,
                again=self.counting.again,
                most=MOST_BLOCKS // len(self.domain),
            )
            for i, column in enumerate(self.domain)
        ]

    def total(self, levels: Sequence[Sequence[Level]]) -> float:
        return float(self.n) if self.n is not None else total_of(levels, self.noises)

    def binned(
        self, levels: Sequence[Sequence[Level]], most: int, categories: int, least: float
    ) -> list[Binned]:
        """Shapes and bins, from noisy counts alone."""
        total = self.total(levels)
        return [
            cut(
                binned(shape_of(levels[i], self.noises[i], column, total), column, most, categories, least),
                column,
                self.domain,
            )
            for i, column in enumerate(self.domain)
        ]

    def tables(self, levels: Sequence[Sequence[Level]], bins: Sequence[Binned], total: float) -> list[Noisy]:
        """Each column's bins as a table for the fit."""
        found = []
        for i, column in enumerate(bins):
            if self.counting.again:
                variance = variances(column, levels[i], self.noises[i])
            else:  # as earlier versions took it: a model is read as it was when it was released
                blocks = np.bincount(column.bins_of(levels[i][0].start), minlength=column.size)
                variance = np.maximum(blocks, 1) * self.noises[i][0].sd ** 2
            found.append(self.counting.noisy((i,), column.mass, variance, total))
        return found


def counts_of(bins: Sequence[Integers], sizes: Sequence[int], columns: Clique) -> Integers:
    """True counts of the bins of these columns."""
    shape = [sizes[i] for i in columns]
    cell = np.ravel_multi_index([bins[i] for i in columns], shape)
    return np.bincount(cell, minlength=prod(shape)).reshape(shape).astype(np.int64)


def choose_table(
    true: Iterable[Integers],
    expected: Iterable[Floats],
    sd: float,
    unit: Unit,
    price: Price,
    bits: Bits,
    *,
    chance: bool = False,
) -> int:
    """The table that is expected worst, by `chooser`: costs at most `price`.

    The score of a table is the sum of |true - expected|, with the expected counts rounded to whole numbers, less what the
    noise itself would add to it and, with `chance`, less what chance would: rows that are drawn from what is expected fall into cells
    unevenly, and the more so the more cells there are; the two add up as independent errors do. One unit moves the sum by at most `summed_sensitivity`; the rest is public,
    for it follows from the expected counts, which come from noisy ones.
    """
    scores = [
        score_of(counts, guess, sd, chance=chance) for counts, guess in zip(true, expected, strict=True)
    ]
    return choose(scores, unit, price, bits)


def score_of(counts: Integers, guess: Floats, sd: float, *, chance: bool) -> int:
    """How far a table is from what is expected of it, beyond noise and chance, in records."""
    away = int(np.abs(counts - np.rint(guess).astype(np.int64)).sum())
    return away - round(math.hypot(0.8 * sd * counts.size, by_chance(guess) if chance else 0.0))


def choose(scores: Sequence[int], unit: Unit, price: Price, bits: Bits) -> int:
    """One of several scores, each of which one unit moves by at most `summed_sensitivity`: the highest is the likeliest."""
    law = chooser(unit, price)
    draw = permute_and_flip if isinstance(law, Selection) else exponential_mechanism
    return draw(-np.asarray(scores, np.int64), law.eta, bits=bits)


def by_chance(expected: Floats) -> float:
    """About how far in all counts are from what is expected of them, where that is their law and the sums over each column are right.

    E|X - g| of Poisson counts, less as the sums leave fewer of them free: (k - 1)(l - 1) of k l.
    """
    mean = np.maximum(expected, 0.0)
    free = prod(1 - 1 / size for size in expected.shape)
    return float(np.where(mean < 0.5, mean, 0.8 * np.sqrt(mean)).sum()) * math.sqrt(free)


@dataclass(frozen=True)
class ModelPlan(Plan):
    """A model of every column and of how they go together. Each kind says its steps, forecasts, and measures once."""

    domain: Domain
    unit: Unit
    guarantee: Pure | Approx | ZCDP
    n: int | None = None
    counting: int = 1  # how columns are counted; earlier plans do not say
    most_bins: ClassVar[int] = 1  # of a column of numbers or dates
    shares: ClassVar[tuple[Fraction, ...]]  # of the price: that of the columns first

    def check(self) -> None:
        check_synthesisable(self.domain, self.unit)
        check_n(self.unit, self.n)
        whole("counting", self.counting, least=1, most=COUNTINGS)
        check_rules(self.domain, self.n, self.most_bins, self.categories)
        for column in self.domain:
            if column.kind == "category" and column.size > MOST_CATEGORIES:
                raise ParameterError(
                    f"column {column.name!r} has too many categories",
                    given=f"{column.size:,}",
                    needed=f"at most {MOST_CATEGORIES:,}",
                    fix="fewer, broader values",
                )

    @property
    def categories(self) -> int:
        """How many bins a column of categories has at most: so few that public facts bound every table that can be chosen."""
        return MOST_CATEGORIES

    @cached_property
    def price(self) -> Price:
        """What all steps may cost together."""
        return price_within(self.guarantee)

    @cached_property
    def learned(self) -> Domain:
        """The columns that are counted: a column that is the sum of others is added up when records are drawn."""
        return modelled(self.domain)

    @property
    def steps(self) -> int:
        """How many steps follow the columns: none where there is but one column."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def ones(self) -> Ones:
        """The first step: every column on its own."""
        share = self.shares[0] if self.steps else Fraction(1)
        return Ones(self.learned, self.unit, share_of(self.price, share), self.n, counting_of(self.counting))

    def column_parts(self) -> tuple[Part, ...]:
        """The levels of every column: of each, blocks that do not overlap."""
        return tuple(
            part(noise, f"counts of {column.name}", moves=moved_by(noise, self.unit))
            for column, noises in zip(self.learned, self.ones.noises, strict=True)
            for noise in noises
        )

    @property
    def slowness(self) -> int:
        return 100

    formats = (BUNDLE,)
    readable = False
    footnote = "as many records as you like can be drawn from it, at no further cost: oboro synth sample, or model.sample"

    def forecast_with(self, more: Sequence[tuple[str, float, int]], notes: Sequence[str]) -> Forecast:
        """The error of the counts of every column, and of what else is counted."""
        rows = [
            (f"count of {column.name}", noise[0].sd, noise[0].interval()[1])
            for column, noise in zip(self.learned, self.ones.noises, strict=True)
        ]
        title = "expected error of each count that the model is made of"
        columns = ("of each", "standard error", "95% within ±")
        return Forecast(title, columns, (*rows, *more), (*notes, *self._with_delta()))

    def _with_delta(self) -> tuple[str, ...]:
        """What a promise of eps alone gives up."""
        if not isinstance(self.guarantee, Pure):
            return ()
        other = replace(self, guarantee=Approx(self.guarantee.eps, Fraction(1, 10**6)))
        ratios = [one.sd / another.sd for one, another in zip(self.noises, other.noises, strict=True)]
        least, most = f"{max(1, min(ratios)):.1f}", f"{max(ratios):.1f}"
        if max(ratios) < 1.05:
            return ()
        return (
            f"eps alone: with a delta of 1e-6 beside it, the same eps would have {most} times less noise"
            if least == most
            else f"eps alone: with a delta of 1e-6 beside it, the same eps would have {least} to {most} times less noise",
        )

    @property
    def noises(self) -> list[Noise]:
        """That of every count, once each."""
        return [noise for noises in self.ones.noises for noise in noises]

    def open(self, data: Data) -> Source:
        return open_data(data)

    def look(self, source: Source) -> None:
        read_codes(source, self.learned, self.unit)

    def prepare(self, data: Data) -> Integers:
        return read_codes(data, self.learned, self.unit, self.n if self.unit.kind == "row" else None)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Any:
        if trials is None:
            return self.measure_once(prepared, bits)
        return repeated(lambda: self.measure_once(prepared, bits).numbers(), trials)

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        """All steps, one after the other."""
        raise NotImplementedError  # pragma: no cover

    def publish(self, measured: Measured) -> Table:
        return to_rows(measured, self.learned)

    def neighbours(self) -> Iterator[Pair]:
        return neighbours_of(self.domain, self.unit, self.n)


FIT_STEPS = 1000  # at most, of the fit of everything that was measured


@dataclass(frozen=True)
class TablesPlan(ModelPlan):
    """A model of tables of several columns, each step a table that is chosen and counted.

    `shares` are those of the columns, of choosing, and of counting what was chosen.
    """

    least_in_noise: ClassVar[int]  # a bin holds at least so many standard deviations of a table's noise

    @property
    def choice_price(self) -> Price:
        """What choosing one table costs."""
        return share_of(self.price, self.shares[1] / self.steps)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each table that is chosen; of the column itself where there is but one."""
        if not self.steps:
            return self.ones.noises[0][0]
        return noise_for(self.unit, share_of(self.price, self.shares[2] / self.steps))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if not self.steps:
            return self.column_parts()
        choice, moved = chooser(self.unit, self.choice_price), Fraction(summed_sensitivity(self.unit))
        tables = part(
            self.noise,
            "counts of each chosen table",
            moves=moved_by(self.noise, self.unit),
            times=self.steps,
        )
        # weights e^(eta score) cost 2 eta D; by the exponential mechanism (2 eta D)^2/8 of zCDP, too [Cesar and Rogers 2021]
        eps = 2 * choice.eta * moved
        cost = Pure(self.steps * eps) if isinstance(choice, Selection) else ZCDP(self.steps * eps**2 / 8)
        return (*self.column_parts(), tables, Part(choice, "the choice of each table", moved, cost))

    @property
    def noises(self) -> list[Noise]:
        return [*super().noises, *([self.noise] if self.steps else [])]

    def bins_for(self, total: float) -> int:
        """How many bins of numbers or dates are aimed at, among so many records."""
        return self.most_bins

    @property
    def tied_cells(self) -> int:
        """How large what is impossible makes the model by itself, at most: it ties columns together. Public."""
        tied = tied_by(self.domain)
        return size_of_tree(most_bins_in(self.domain, self.most_bins, self.categories), tied) if tied else 0

    def carried(self, widest: int) -> list[str]:
        """How many tables of two columns up to the widest the budget can carry: their noise moves less than a tenth of the records elsewhere.

        Of k cells, noise of standard error s moves about 0.4 k s records. By public facts: bins are counted as many as are aimed at.
        """
        known = self.n
        aimed_at = self.most_bins if known is None else self.bins_for(known)
        sizes = [
            min(code_count(column), self.categories if column.kind == "category" else aimed_at)
            for column in self.learned
        ]
        words = []
        for width, name in ((2, "pairs"), (3, "triples")):
            if not width <= min(widest, len(sizes)):
                continue
            needed = sorted(4 * self.noise.sd * prod(one) for one in combinations(sizes, width))
            if known is not None:
                fits = sum(one <= known for one in needed)
                words.append(
                    f"the budget can carry {fits:,} of {len(needed):,} {name} of columns: noise within a tenth of the {known:,} records"
                )
            else:
                half, every = (_about(needed[place]) for place in ((len(needed) - 1) // 2, -1))
                words.append(
                    f"the budget can carry all {name} of columns, {len(needed):,}, from about {every:,} records on: noise within a tenth of them"
                    if half == every
                    else f"the budget can carry half of the {len(needed):,} {name} of columns from about {half:,} records on, all from {every:,}: noise within a tenth of them"
                )
        return words

    def noisy(self, columns: Clique, counts: Integers, total: float) -> Noisy:
        """A chosen table for the fit."""
        variance = np.full(counts.shape, self.noise.sd**2)
        return counting_of(self.counting).noisy(columns, counts, variance, total)

    def law(self, measured: Measured, steps: int = FIT_STEPS) -> Law:
        """The joint law of the bins, from what was measured."""
        total = self.ones.total(measured.levels)
        ones = self.ones.tables(measured.levels, measured.bins, total)
        chosen = [self.noisy(columns, counts, total) for columns, counts in measured.tables]
        sizes = [column.size for column in measured.bins]
        zeros = zeros_of(self.learned, measured.bins)
        return fit(sizes, [*ones, *chosen], steps=steps, stage="fitting the model", zeros=zeros)
