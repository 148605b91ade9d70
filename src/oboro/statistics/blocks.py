"""Sample and aggregate: any function at all, computed on blocks of the data; their median or mean is released.

One unit lies in one block, or in a few that it draws, and changes the function's value there only, however wild the function
is: each block is computed in a sealed process (isolation.py). So what is left to protect is the middle of some numbers of
which one may change, or a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oboro.arrays import Data, Ends, Integers, Table, numbers_in
from oboro.domain import Column, Real
from oboro.domain.columns import LARGEST
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import list_of, shown, unknown
from oboro.noise import DiscreteLaplace
from oboro.noise.bits import Bits
from oboro.noise.laws import Cauchy
from oboro.noise.lazy import ball
from oboro.privacy import Conditional, Pure
from oboro.privacy.guarantee import round_up
from oboro.records import apart, inline
from oboro.release import Choice, Forecast, Pair, Part, part, register
from oboro.statistics.isolation import (
    PLAIN,
    SEALED,
    Computing,
    Job,
    called,
    can_seal,
    label_of,
    rehearse,
    text_of,
)
from oboro.statistics.points import Rows, all_codes, check_different, rows_from
from oboro.statistics.quantiles import check_eps
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.sensitivity.orders import Sorted, order_statistic
from oboro.statistics.smooth_noise import Decaying, SmoothNoise, calibrate

Prepared = tuple[Integers, Integers, Job]
ASSUMPTION = (
    "functions that are run without a seal look at nothing but their block, and leave nothing for another"
)
MOST_BLOCKS = 10**6
MOST_COPIES = 1000
AGGREGATORS = ("median", "mean", "smooth")
MOST_OUTPUTS = 1000
MOST_SECONDS = 86_400  # of a block: a day
MADE_UP = 100  # rows of a rehearsal, at most
STEPS = 10_000  # of the grid between the bounds, where no step is given


@register
@dataclass(frozen=True)
class SampleAggregatePlan(ScopedPlan):
    r"""The coordinate-wise median or mean over blocks of a function's values, on a public grid.

    Privacy
        Under replace, the row at position i is in block i mod `blocks`, so a replaced row changes one block. In any
        other case each unit draws its block by itself, uniformly: adding, removing or replacing a unit, with the
        others' draws unchanged, changes one block, and a mixture of pairs that are each eps-close is eps-close.
        A block's values are computed after the reservation in a sealed process, which was made before it had the block,
        out of a program that never had any, and can do nothing but compute and answer (seal.py): so they follow from
        that block alone. They are clamped to the public grid; where the function fails, takes longer than `seconds`, or
        returns nonsense they are the middle of the bounds. With isolation "none" nothing holds the function back, and
        the guarantee is conditional on what it does.
        With c `copies` each unit draws c different blocks by itself, so that blocks are random subsets that overlap: as
        above, c of them change.
        So of `blocks` grid points, in each of d coordinates, c change. Each coordinate has eps/d:
        - "median": the score max(0, #{x < t} - r + 1, r - #{x <= t}) of grid point t, r the middle rank, changes by at
          most c, and the exponential mechanism with e^(-eta score) costs 2 eta c [McSherry, Talwar 2007]. eta = eps/(2 c d).
        - "mean": the sum of the grid points changes by c times their range R, and discrete Laplace noise of scale
          c R d/eps costs eps/d [Ghosh, Roughgarden, Sundararajan 2009]. (Its smooth sensitivity is R for all data.)
        - "smooth": the value of the middle rank r, with Cauchy noise for a beta-smooth bound S, as in smooth_noise.py. One
          changed point moves every window i <= r <= j of places into one that is one gap wider, so c do into one that is c
          gaps wider; and c move the answer within windows of c gaps. So the largest (x_j - x_i) e^(-(beta/c) (j-i-c)) over
          j - i >= c is beta-smooth for c changes, and at least the local sensitivity. S is e^(beta (c-1)/c), rounded
          up, times the (beta/c)-smooth sensitivity for one change, which is no less.
        [Nissim, Raskhodnikova, Smith 2007, section 4; the median's way is Asi and Duchi's, 2020.]

    >>> plan = people.plan.sample_and_aggregate(
    ...     "def oldest(rows):\n    return max(rows['age'])", blocks=50, bounds=(0, 99), eps=1
    ... )
    >>> plan.blocks, plan.cost
    (50, Pure(1))
    """

    label: str
    function: str  # as text
    columns: tuple[Column, ...]
    outputs: apart[tuple[Real, ...]]
    blocks: int
    scope: inline[Scope]
    guarantee: Pure | Conditional
    seconds: Fraction
    isolation: Literal["sealed", "none"]
    aggregator: Literal["median", "mean", "smooth"] = "median"
    copies: int = 1  # of each unit: in how many blocks it is
    kind = "statistics.sample_and_aggregate"
    leaves_out = "covers the noise; not how the mean over blocks differs from the function of all rows"

    @property
    def asked(self) -> tuple[Column, ...]:
        return self.columns

    def check(self) -> None:
        check_run(self.label, self.function, self.seconds)
        whole("blocks", self.blocks, least=1, most=MOST_BLOCKS)
        whole("copies", self.copies, least=1, most=min(self.blocks, MOST_COPIES))
        check_different(self.columns)
        check_different(self.outputs)
        if not self.columns or not 1 <= len(self.outputs) <= MOST_OUTPUTS:
            raise ParameterError(
                "sample and aggregate needs columns and outputs",
                given=f"{len(self.columns)} columns, {len(self.outputs)} outputs",
                needed=f"at least one of each, and at most {MOST_OUTPUTS:,} outputs, on grids of real numbers",
                fix=setting(columns=["age"], bounds=(0, 120)),
            )
        if self.aggregator == "mean" and any(one.size * self.blocks > LARGEST for one in self.outputs):
            raise ParameterError(
                "the outputs have too many values to be added up",
                given=f"{max(one.size for one in self.outputs)} values, {self.blocks} blocks",
                needed="at most 2^62 for all blocks together",
                fix="a larger step",
            )
        self.scope.check_whole("sample and aggregate has")
        promised = self.guarantee.unconditional
        assumed = () if self.isolation == SEALED else (ASSUMPTION,)
        if not isinstance(promised, Pure) or not set(assumed) <= set(self.guarantee.assumptions):
            raise ParameterError(
                "the promise does not fit the plan",
                given=str(self.guarantee),
                needed="an eps, and without a seal the assumption about the function",
                fix=repr(promise(Pure(1), self.isolation)),
            )
        check_eps(promised)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """A few blocks change: for each output a choice, or noise on a mean or on a median."""
        if self.aggregator == "median":
            return (
                part(Choice(self.eta), "median of each output", moves=self.copies, times=len(self.outputs)),
            )
        if self.aggregator == "mean":
            each = zip(self.outputs, self.mean_noises, strict=True)
            return tuple(
                part(noise, f"{output.name}, added up", moves=self.copies * (output.size - 1))
                for output, noise in each
            )
        noise = self.smooth_noise
        return tuple(
            Part(noise, f"median of {output.name}, in smooth sensitivities", Fraction(1), noise.cost)
            for output in self.outputs
        )

    @cached_property
    def mean_noises(self) -> tuple[DiscreteLaplace, ...]:
        """Of the sum over blocks of each output's grid points."""
        return tuple(
            DiscreteLaplace(self.copies * max(1, output.size - 1) / self.each) for output in self.outputs
        )

    @cached_property
    def smooth_noise(self) -> SmoothNoise:
        return calibrate(Cauchy(), Pure(self.each))

    @property
    def slowness(self) -> int:
        return 20

    @property
    def each(self) -> Fraction:
        """The eps of one output."""
        eps = self.guarantee.unconditional
        assert isinstance(eps, Pure)
        return eps.eps / len(self.outputs)

    @property
    def eta(self) -> Fraction:
        return self.each / (2 * self.copies)

    @property
    def rank(self) -> int:
        return (self.blocks + 1) // 2

    @property
    def by_position(self) -> bool:
        return self.scope.replaced and self.unit.kind == "row" and self.copies == 1

    def forecast(self) -> Forecast:
        """Of a median: at least one grid point has score 0, so P(score >= k) <= size e^(-eta k)."""
        drowns = "the noise may drown the answer: more blocks, fewer outputs, a coarser step or more eps"
        if self.aggregator == "median":
            ranks = [math.ceil(math.log(output.size / 0.05) / float(self.eta)) for output in self.outputs]
            rows = [
                (output.name, rank, self.blocks) for output, rank in zip(self.outputs, ranks, strict=True)
            ]
            columns = ("of", "95% within ± ranks", "of so many blocks")
            notes = [drowns] if 2 * max(ranks) >= self.blocks else []
            return Forecast("expected error of each median", columns, tuple(rows), tuple(notes))
        if self.aggregator == "mean":
            reach = [
                (noise.sd * step, noise.interval(0.95)[1] * step)
                for noise, step in zip(self.mean_noises, self._steps, strict=True)
            ]
            errors = [(output.name, *pair) for output, pair in zip(self.outputs, reach, strict=True)]
            half = [float(output.step) * (output.size - 1) / 2 for output in self.outputs]
            notes = [drowns] if any(pair[1] > most for pair, most in zip(reach, half, strict=True)) else []
            columns = ("of", "standard error", "95% within ±")
            return Forecast("expected error of each mean over blocks", columns, tuple(errors), tuple(notes))
        note = "the noise follows the data, privately: for data that crowd near the answer it is smaller"
        noise, worst = self.smooth_noise, []
        for output in self.outputs:
            most = float(output.step) * (output.size - 1) * float(self._wider)
            worst.append((output.name, "the worst data", noise.within(most, 0.5), noise.within(most, 0.95)))
        heads = ("of", "for", "half within ±", "95% within ±")
        return Forecast("expected error of each median", heads, tuple(worst), (note,))

    @property
    def _steps(self) -> list[float]:
        """What a whole number of each sum is worth in a mean."""
        return [float(output.step) / self.blocks for output in self.outputs]

    @cached_property
    def _wider(self) -> Fraction:
        """How many times as large S is for the changes of all copies, for a smoothness of beta / copies."""
        more = self.smooth_noise.beta * (self.copies - 1) / self.copies
        return round_up(lambda: ball(more).exp()) if more else Fraction(1)

    def prepare(self, data: Data) -> Prepared:
        """The data, and the function once it has answered on made-up rows: before it sees any others, and for free."""
        return *all_codes(self.scope, self.columns, data), rehearse(self.job, self.made_up)

    @property
    def job(self) -> Job:
        names = tuple(column.name for column in self.columns)
        return Job(self.function, names, len(self.outputs), float(self.seconds), self.isolation)

    @property
    def made_up(self) -> Rows:
        """Rows that look like a block, from the domain alone: values from all over it, in no order."""
        count = min(MADE_UP, max(2, (self.scope.units or MADE_UP * self.blocks) // self.blocks))
        turns = [
            (i * 40503 + 2 * j * i * i) % 65536 for i in range(1, count + 1) for j in range(len(self.columns))
        ]
        sizes = [column.size for column in self.columns] * count
        codes = [turn * size >> 16 for turn, size in zip(turns, sizes, strict=True)]
        return rows_from(self.columns, np.reshape(np.asarray(codes, np.int64), (count, -1)))

    def measure(self, prepared: Prepared, bits: Bits, trials: int | None = None) -> Integers:
        codes, units, job = prepared
        count = 1 if trials is None else trials
        known: dict[bytes, list[int]] = {}  # of the trials of an audit: a block is the rows that it holds
        alike: dict[bytes, list[int]] = {}  # trials with the same values in all blocks
        values: dict[bytes, Integers] = {}
        with Computing(job) as compute:
            for trial in range(1 if self.by_position else count):
                place = self._places(units, bits)
                found = [
                    self._value(compute, codes, (place == block).any(axis=1), known)
                    for block in range(self.blocks)
                ]
                table = np.asarray(found, np.int64)
                values.setdefault(table.tobytes(), table)
                alike.setdefault(table.tobytes(), []).extend(range(count) if self.by_position else [trial])
        draws = np.zeros((count, len(self.outputs)), np.int64)
        for key, chosen in alike.items():
            for i, output in enumerate(self.outputs):
                draws[chosen, i] = self._aggregated(i, values[key][:, i], output.size, bits, len(chosen))
        return draws[0] if trials is None else draws

    def _aggregated(self, i: int, codes: Integers, size: int, bits: Bits, trials: int) -> Integers:
        """What is released of one output's values: a grid point, or of a mean the sum of them."""
        if self.aggregator == "median":
            return middles(codes, size, self.rank, self.eta, bits, trials)
        if self.aggregator == "mean":
            return int(codes.sum()) + self.mean_noises[i].sample((trials,), bits)
        centre, smooth = self.smooth_of(codes, size)
        return self.smooth_noise.draw(centre, smooth, Fraction(1), size - 1, bits, trials)[:, 0]

    def smooth_of(self, codes: Integers, size: int) -> tuple[Fraction, Decaying]:
        """The value of the middle rank, and its beta-smooth bound. Both are private."""
        data = Sorted.of(codes, 0, size - 1)
        smooth = order_statistic(data, self.rank, self.smooth_noise.beta / self.copies)
        return Fraction(data.at(self.rank)), smooth.times(self._wider)

    def _places(self, units: Integers, bits: Bits) -> Integers:
        """The blocks of each row: one column for each copy."""
        from oboro.noise import uniform_integers

        if self.by_position:
            return (units % self.blocks)[:, None]
        count = int(units.max()) + 1 if units.size else 0
        drawn = np.zeros((count, self.copies), np.int64)
        for copy in range(self.copies if count else 0):
            free = uniform_integers(self.blocks - copy, count, bits)  # of the blocks that it is not in yet
            for taken in np.sort(drawn[:, :copy], axis=1).T:
                free = free + (free >= taken)
            drawn[:, copy] = free
        return drawn[units]

    def _value(
        self,
        compute: Computing,
        codes: Integers,
        inside: npt.NDArray[np.bool_],
        known: dict[bytes, list[int]],
    ) -> list[int]:
        """The function's values on one block, on the grid of the outputs; the middle where it has none."""
        key = np.packbits(inside).tobytes()
        if key not in known:
            rows = codes[inside & (codes >= 0).all(axis=1)]
            found = compute(rows_from(self.columns, rows))
            known[key] = [
                (output.size - 1) // 2 if found is None else output.code(found[i]) or 0
                for i, output in enumerate(self.outputs)
            ]
        return known[key]

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        values = [self._published(i, int(code)) for i, code in enumerate(measured)]
        if len(values) == 1:
            return pa.table({"value": values})
        return pa.table({"output": [output.name for output in self.outputs], "value": values})

    def _published(self, i: int, code: int) -> object:
        """The value of a grid point, or of a mean that of the sum of all, within the bounds."""
        output = self.outputs[i]
        if self.aggregator != "mean":
            return output.value(code)
        inside = min(max(Fraction(code, self.blocks), Fraction(0)), Fraction(output.size - 1))
        return float(output.low + output.step * inside)

    @property
    def intervals(self) -> Callable[[Table, float], Ends] | None:  # type: ignore[override]
        """Of a mean: the range that holds the mean over blocks without noise with this probability."""
        return self._intervals if self.aggregator == "mean" else None

    def _intervals(self, table: Table, level: float) -> Ends:
        value = numbers_in(table, "value")
        reach = [noise.interval(level)[1] for noise in self.mean_noises]
        ends = [(float(one.value(0)), float(one.value(one.size - 1))) for one in self.outputs]
        away = np.asarray([most * step for most, step in zip(reach, self._steps, strict=True)])
        low, high = np.asarray(ends).T
        return np.maximum(value - away, low), np.minimum(value + away, high)

    def describe(self) -> dict[str, object]:
        law: dict[str, object] = {"law": "exponential mechanism", "eta": show(self.eta)}
        if self.aggregator == "mean":
            law = {"parts": [noise.to_dict() for noise in self.mean_noises]}
        elif self.aggregator == "smooth":
            law = self.smooth_noise.to_dict()
        copies = {"copies": str(self.copies)} if self.copies > 1 else {}
        what = "mean" if self.aggregator == "mean" else "median"
        return self.wording(
            f"{what} over blocks of {self.label}" + self.scope.words(),
            {**law, "blocks": str(self.blocks), **copies},
        )

    def neighbours(self) -> Iterator[Pair]:
        """One unit at one end of every column or at the other, or away; by itself and among others at both ends."""
        yield from super().neighbours()
        yield from self.scope.divided_pairs(self.columns, Fraction(1, 2))


def check_run(label: str, function: str, seconds: Fraction) -> None:
    """Refuses a text that is no function, a time that is too long, and what is no name for a certificate."""
    called(function)
    positive("seconds", seconds)
    if seconds > MOST_SECONDS:
        raise ParameterError(
            "seconds are too many",
            given=told(seconds=show(seconds)),
            needed=f"at most {MOST_SECONDS:,}",
            fix=setting(seconds=5),
        )
    if not label.isprintable() or not 0 < len(label) <= 200:
        raise ParameterError(
            "label is no name for a certificate",
            given=told(label=shown(label)),
            needed="up to 200 printable characters",
            fix=setting(label="ratio, version 1"),
        )


def promise(guarantee: Pure, isolation: str) -> Pure | Conditional:
    """What can be promised of a function that is run so."""
    return guarantee if isolation == SEALED else Conditional(guarantee, ASSUMPTION)


def sample_aggregate_plan(
    scope: Scope,
    columns: Sequence[Column],
    function: str | Callable[[Rows], object],
    *,
    blocks: int,
    bounds: Sequence[Number] | Sequence[Sequence[Number]],
    eps: Number,
    step: Number | None = None,
    seconds: Number = 5,
    label: str | None = None,
    isolation: str | None = None,
    aggregator: str = "median",
    copies: int = 1,
) -> SampleAggregatePlan:
    """A plan for `function(rows)`, rows being a dictionary of arrays, one for each column.

    The function is given as text, as "module:function", or as it is (isolation.py). `bounds` are (low, high) for one
    number, or a list of such pairs for several. `seconds` is the time that each block has. `label` is how the certificate calls
    the function, with its version. `isolation` is "sealed" where this system can seal a process; where it cannot, and if
    "none" is asked for, the function is run as it is, and the guarantee is conditional on what it does. `aggregator` is
    "median", "mean", or "smooth" for the median with noise by its smooth sensitivity; `copies` is in how many blocks each
    unit is.
    """
    text = text_of(function)
    if aggregator not in AGGREGATORS:
        raise unknown("aggregator", aggregator, AGGREGATORS)
    way: Any = aggregator
    if isolation not in (None, SEALED, PLAIN):
        raise unknown("isolation", isolation, (SEALED, PLAIN))
    chosen: Any = isolation or (SEALED if can_seal() else PLAIN)
    return SampleAggregatePlan(
        label_of(function, text) if label is None else label,
        text,
        tuple(columns),
        _outputs(bounds, step),
        whole("blocks", blocks, least=1, most=MOST_BLOCKS),
        scope,
        promise(Pure(positive("eps", eps)), chosen),
        positive("seconds", seconds),
        chosen,
        way,
        whole("copies", copies, least=1, most=MOST_COPIES),
    )


def middles(codes: Integers, size: int, rank: int, eta: Fraction, bits: Bits, trials: int) -> Integers:
    """Grid points t below `size` with probability proportional to e^(-eta score(t)): near the value of this rank.

    All points between two neighbouring values share a score, so they are drawn together, and then one of them.
    """
    from oboro.noise.draws import exponential_choices, uniform_integers

    values, counts = np.unique(codes, return_counts=True)
    upto = np.concatenate([[0], np.cumsum(counts)])
    edges = np.concatenate([[-1], values, [size]])
    gap_scores = np.maximum(np.maximum(upto - rank + 1, rank - upto), 0)
    own_scores = np.maximum(np.maximum(upto[:-1] - rank + 1, rank - upto[1:]), 0)
    starts = np.concatenate([edges[:-1] + 1, values])
    widths = np.concatenate([np.diff(edges) - 1, np.ones_like(values)])
    chosen = exponential_choices(np.concatenate([gap_scores, own_scores]), eta, trials, widths, bits)
    drawn = starts[chosen]
    for index in np.unique(chosen):
        mine = chosen == index
        drawn[mine] += uniform_integers(int(widths[index]), int(mine.sum()), bits)
    return drawn


def _outputs(bounds: Sequence[Number] | Sequence[Sequence[Number]], step: Number | None) -> tuple[Real, ...]:
    given = list_of("bounds", bounds)
    several = [list_of("bounds", pair) for pair in given] if np.ndim(given[:1]) > 1 else [given]
    outputs = []
    for i, pair in enumerate(several):
        if len(pair) != 2:
            raise ParameterError(
                "bounds are two numbers", given=f"{len(pair)} of them", fix=setting(bounds=(0, 10))
            )
        low, high = pair
        width = rational("bounds", high) - rational("bounds", low)
        positive("the width of bounds", width)
        outputs.append(Real(f"output {i + 1}", low, high, width / STEPS if step is None else step))
    return tuple(outputs)
