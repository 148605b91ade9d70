"""Quantiles and medians, for each of several groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column, Date, Integer, Real
from oboro.domain.columns import LARGEST
from oboro.engine import count_cells
from oboro.errors import DomainError, ParameterError, question, setting, told
from oboro.exact import Number, rational, show, usable
from oboro.noise import Bits
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Choice, Chosen, Forecast, Pair, Part, Selection, register
from oboro.statistics import joint
from oboro.statistics.joint import Joint
from oboro.statistics.ranks import (
    Ranks,
    fineness,
    grid_quantile,
    grid_quantiles,
    levels,
    split_errors,
    split_quantiles,
)
from oboro.statistics.scope import Scope, ScopedPlan, fold_groups
from oboro.statistics.terms import cases

METHODS = ("single", "joint", "splitting", "independent")
MOST_QUANTILES = 1000
_FINEST = 10**6  # largest denominator of a quantile
_TIES = 16  # bits of a step that tied rows are spread over, at least


@register
@dataclass(frozen=True)
class QuantilePlan(ScopedPlan):
    """Values of a column at given quantiles, for each group. Ties, tiny n and constant columns are fine.

        single        one quantile: permute-and-flip on the public grid, exact where values are tied
        joint         several at once, at any n: the joint exponential mechanism (joint.py)
        splitting     more than 12, or where eps is tiny: the middle one first, then those on either side of it
        independent   each by itself, by name only

    Privacy
        One quantile, and each of several by itself, is chosen by permute-and-flip (noise/selection.py), the others by exponential
        mechanisms, with probability proportional to e^(-eta score). Both cost 2 eta D if a unit moves every score by at most D
        [McKenna, Sheldon 2020; McSherry, Talwar 2007]; scores are whole numbers, the draws exact. With a rows below a value, b
        at or below it, n in all:
        - the score max(a - qn, qn - b) moves by at most max(q, 1-q) if a row comes or goes, as both terms do (each of a and b
          by 0 or 1, qn by q), and by 1 if it is replaced. So a median under replace costs twice what it does under
          add/remove, and no less: where nearly all values lie on one side of the median, a row that moves across it costs
          2 eta in full. It is not cut off at 0: below 0 it says how many rows share the value with the quantile, so that a
          value that many rows share is found more often, at the same price;
        - the joint score sum |size of a piece - wanted size| moves by at most 2 (1 - the smallest wanted share) if a
          row comes or goes (one size by one, all wanted sizes by their share), and by 2 if it is replaced; cut off
          at a public height, it moves no more;
        - splitting: given the outputs so far, a row is in one part of each level, so each of L levels costs
          eps/L where a row comes or goes, and twice that where it is replaced.
        k rows of a unit cost k times as much. `Scope.price` puts groups together: a row comes or goes in one of them;
        replaced, it may leave one and enter another, twice that of coming or going.

    >>> plan = people.plan.quantile("income", [0.1, 0.5, 0.9], eps="0.3")
    >>> plan.parts[0].of, plan.parts[0].noise
    ('all quantiles', Choice(eta=Fraction(3, 40)))
    """

    column: Column
    quantiles: tuple[Fraction, ...]
    method: str  # one of METHODS
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.quantile"
    light = True

    def check(self) -> None:
        self.scope.check_groups(besides=self.column)
        _check_order(self.column)
        _check_quantiles(self.quantiles)
        check_eps(self.guarantee)
        self._check_method()
        coarse = self.method in ("joint", "splitting") and fineness(self.column.size) < _TIES
        if coarse or prod(one.size for one in (*self.scope.by_columns, self.column)) > LARGEST:
            raise DomainError(
                f"column {self.column.name!r} has too many values for this question",
                given=f"{self.column.size} values, {self.scope.groups} groups, {len(self.quantiles)} quantiles",
                needed="at most 2^45 values for several quantiles, and 2^62 in all groups together",
                fix="a larger step",
            )

    def _check_method(self) -> None:
        best = self.best
        wrong = self.method not in METHODS or (self.method == "single") != (len(self.quantiles) == 1)
        if wrong or (self.method == "joint" and best != "joint"):
            raise ParameterError(
                f"the method {self.method!r} does not fit",
                given=f"{len(self.quantiles)} quantiles, " + told(n=f"{self.scope.n}"),
                needed=f"single for one; splitting or independent for several; joint for up to {joint.MOST_QUANTILES}, where "
                f"eps is so large that at most {joint.MOST_NEAR:,} rows are near each",
                fix=setting(method=best),
            )

    @property
    def best(self) -> str:
        """The method that public facts choose: several together, if few rows lie near each, and else by splitting."""
        m = len(self.quantiles)
        if m == 1:
            return "single"
        if m > joint.MOST_QUANTILES or self.scope.groups > joint.MOST_GROUPS:
            return "splitting"
        near = joint.near(self.column.size, m, self.joint_eta)
        if self.scope.n is not None:
            near = min(near, self.scope.n * self.scope.rows + 1)
        return "joint" if near <= joint.MOST_NEAR else "splitting"

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        rows, found = self.scope.rows, list[tuple[Choice | Selection, str, Fraction, Fraction]]()
        if self.method == "joint":  # the smallest share moves the score the most
            found = [(Choice(self.joint_eta), "all quantiles", self._joint_apart, Fraction(2))]
        elif (
            self.method == "splitting"
        ):  # a score counts in multiples of what a row moves it that comes or goes
            deep = Fraction(levels(len(self.quantiles)))
            found = [(Choice(self.level_price / 2), f"{deep} levels of splitting", deep, 2 * deep)]
        else:
            for q in self.quantiles:
                comes, inside = Fraction(_apart(q)), Fraction(q.denominator)
                found.append((Selection(self.eta(q)), f"{show(q)}-quantile", comes, inside))
        return tuple(
            one
            for law, of, comes, inside in found
            for one in cases(
                law, of, rows * comes, rows * inside, groups=self.scope.groups, replaced=self.scope.replaced
            )
        )

    @property
    def slowness(self) -> int:
        return {"joint": 20, "splitting": 100}.get(self.method, 1)

    def added(self) -> Chosen | None:
        """One quantile by itself has a law that can be written down."""
        if self.method != "single":
            return None
        return Chosen(self.column.size, self.quantiles[0], self.eta(self.quantiles[0]))

    def row_price(self, inside: Fraction | int) -> Fraction:
        """What a row that comes or goes may cost; `inside` times as much if it is replaced within its group."""
        price = self.scope.price(self.guarantee, inside)
        assert isinstance(price, Pure)
        return price.eps / self.scope.rows

    def eta(self, q: Fraction) -> Fraction:
        """For whole scores: denominator * max(a - qn, qn - b), of one quantile by itself."""
        apart = _apart(q)
        shares = len(self.quantiles) if self.method == "independent" else 1
        return self.row_price(Fraction(q.denominator, apart)) / (2 * apart * shares)

    @cached_property
    def joint_eta(self) -> Fraction:
        return self.row_price(2 / self._joint_apart) / (2 * self._joint_apart)

    @property
    def _joint_apart(self) -> Fraction:
        """How far a row moves the joint score that comes or goes."""
        cuts = [Fraction(0), *self.quantiles, Fraction(1)]
        return 2 * (1 - min(b - a for a, b in pairwise(cuts)))

    @cached_property
    def level_price(self) -> Fraction:
        """What each level of splitting may cost where a row comes or goes."""
        return self.row_price(2) / levels(len(self.quantiles))

    def forecast(self) -> Forecast:
        rows = tuple(
            (f"rank of the {show(q)}-quantile", error)
            for q, error in zip(self.quantiles, self.rank_errors(), strict=True)
        )
        notes = (
            f"method: {self.method}. In ranks: how far that is in values depends on the data, which is private",
            "a bound for all data on this grid and all quantiles at once; usually it is a fifth of this or less",
        )
        title = f"expected error of quantiles of {self.column.name}"
        return Forecast(title, ("of each", "95% within ±"), rows, notes)

    def rank_errors(self, level: float = 0.95) -> list[int]:
        """With probability `level` all answers are at most so many ranks away, whatever the data.

        Permute-and-flip: the winner's exponential variable is larger than eta times its score less that of the best, which is at
        most 0; that any of so many is larger than x has a probability of at most their number times e^-x. Exponential
        mechanisms: the weight of all outputs with a score above s is at most their number times e^(-eta s), and one
        of score 0, or nearly, exists.
        """
        m, cells = len(self.quantiles), self.column.size
        miss = (1 - level) / m
        if self.method in ("single", "independent"):
            each = [math.log(cells / miss) / float(self.eta(q) * q.denominator) for q in self.quantiles]
            return [math.ceil(error) for error in each]
        places = cells << fineness(cells)
        if self.method == "joint":  # the score is at least twice the largest error in ranks
            outputs = math.log(math.comb(places + m - 1, m)) - math.log(1 - level)
            return [math.ceil(outputs / float(self.joint_eta) / 2 + m / 2 + 1)] * m
        price = float(self.level_price)

        def own(share: Fraction) -> float:
            return math.log(places / miss) * 2 * float(max(share, 1 - share)) / price + 1

        return [math.ceil(error) for error in split_errors(self.quantiles, own)]

    def prepare(self, data: Data) -> tuple[Ranks, ...]:
        source, condition = self.scope.open(data)
        columns = [*self.scope.by_columns, self.column]
        cells, counts = count_cells(source, columns, self.scope.unit, condition)
        if not self.scope.by:
            return (Ranks.of(cells, counts),)
        group, codes = np.divmod(cells, self.column.size)
        group = fold_groups(self.scope.by, group)
        return tuple(Ranks.of(codes[group == g], counts[group == g]) for g in range(self.scope.groups))

    def measure(self, prepared: tuple[Ranks, ...], bits: Bits, trials: int | None = None) -> Integers:
        """Codes: one row for each group, one column for each quantile."""
        if trials is not None and self.method in ("single", "independent"):
            return np.stack([self._many(ranks, bits, trials) for ranks in prepared], axis=1)
        if trials is not None and self.method == "splitting":
            prepared = tuple(ranks.looked_up(fineness(self.column.size)) for ranks in prepared)
        drawn = list[list[Sequence[int]]]()
        for ranks in prepared:  # one group after the other: the tables of one are enough to hold
            draw = self._drawer(ranks)
            drawn.append([draw(bits) for _ in range(trials or 1)])
        codes = np.asarray(drawn, np.int64).swapaxes(0, 1)
        return codes[0] if trials is None else codes

    def _drawer(self, ranks: Ranks) -> Callable[[Bits], Sequence[int]]:
        size, quantiles = self.column.size, self.quantiles
        if self.method == "joint":
            return Joint.of(ranks, size, quantiles, self.joint_eta).draw
        if self.method == "splitting":
            price = self.level_price
            return lambda bits: split_quantiles(ranks, size, quantiles, price, bits)
        # answers that come out in another order than their quantiles are put in order: post-processing
        return lambda bits: sorted(grid_quantile(ranks, size, q, self.eta(q), bits) for q in quantiles)

    def _many(self, ranks: Ranks, bits: Bits, trials: int) -> Integers:
        """What `_drawer` draws for quantiles by themselves, many times at once."""
        each = [grid_quantiles(ranks, self.column.size, q, self.eta(q), bits, trials) for q in self.quantiles]
        return np.sort(np.stack(each, axis=1), axis=1)

    @property
    def published_rows(self) -> int:
        return self.scope.groups * len(self.quantiles)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        groups, m = measured.shape
        labels = {
            name: column.take(pa.array(np.repeat(np.arange(groups), m)))
            for name, column in self.scope.labels().items()
        }
        found = [self.column.value(int(code)) for code in measured.ravel()]
        return pa.table(
            {
                **labels,
                "quantile": [float(q) for q in self.quantiles] * groups,
                "value": pa.array(found, pa.date32()) if isinstance(self.column, Date) else found,
                "ranks within (95%)": [*self.rank_errors()] * groups,
            }
        )

    def describe(self) -> dict[str, object]:
        which = ", ".join(show(q) for q in self.quantiles)
        name = "median" if self.quantiles == (Fraction(1, 2),) else f"quantiles {which}"
        chosen = "exponential mechanism" if self.method in ("joint", "splitting") else "permute-and-flip"
        law = {"law": chosen, "method": self.method}
        if self.method == "joint":
            law["eta"] = show(self.joint_eta)
        elif self.method == "splitting":
            law["eps of each level"] = show(self.level_price)
        else:
            law["eta"] = ", ".join(show(self.eta(q)) for q in self.quantiles)
        return self.wording(f"{name} of {self.column.name}{self.scope.words()}", law)

    def neighbours(self) -> Iterator[Pair]:
        """One unit at either end, by itself and among others that lie at both ends."""
        yield from self.scope.pairs([self.column])
        yield from self.scope.divided_pairs([self.column], self.quantiles[0])


def quantile_plan(
    column: Column,
    quantiles: Number | Sequence[Number],
    scope: Scope,
    promise: Pure,
    *,
    method: str | None = None,
) -> QuantilePlan:
    """Quantiles of a number or date column; `method` is chosen by public facts unless it is given."""
    given = (
        list(quantiles) if isinstance(quantiles, Sequence) and not isinstance(quantiles, str) else [quantiles]
    )
    exact = tuple(rational("quantiles", q) for q in given)
    if method is None:
        several = "single" if len(exact) == 1 else "splitting"
        method = QuantilePlan(column, exact, several, scope, promise).best
    return QuantilePlan(column, exact, method, scope, promise)


def _apart(q: Fraction) -> int:
    """How far a row moves the whole score of a quantile that comes or goes."""
    return max(q.numerator, q.denominator - q.numerator)


def _check_order(column: Column) -> None:
    if not isinstance(column, Integer | Real | Date):
        raise DomainError(
            f"column {column.name!r} has no order",
            given=f"a column of kind {column.kind!r}",
            needed="an Integer, Real or Date column",
            fix=question("histogram", column.name),
            argument="column",
        )


def _check_quantiles(quantiles: Sequence[Fraction]) -> None:
    fine = all(0 < q < 1 and q.denominator <= _FINEST for q in quantiles)
    if not fine or not 1 <= len(quantiles) <= MOST_QUANTILES or sorted(set(quantiles)) != list(quantiles):
        raise ParameterError(
            "the quantiles cannot be used",
            given=told(quantiles=f"{[show(q) for q in quantiles[:6]]}"),
            needed=f"up to {MOST_QUANTILES} increasing numbers strictly between 0 and 1",
            fix=setting(quantiles=[0.1, 0.5, 0.9]),
        )


def check_eps(promise: Pure) -> None:
    if promise.eps * 2**40 < 1:  # as for noise: then every answer is as likely, and ranks have no numbers
        raise ParameterError(
            "eps is too small",
            given=told(eps=show(promise.eps)),
            needed="at least 2^-40",
            fix=setting(eps="0.1"),
        )
    usable("eps", promise.eps)
