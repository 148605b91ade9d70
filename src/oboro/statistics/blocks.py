"""Sample and aggregate: any function at all, computed on disjoint blocks of the data; their median is released.

One unit lies in one block, and changes the function's value there only, however wild the function is: each block is
computed in a sealed process (isolation.py). So what is left to protect is the median of some numbers of which one may change.
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

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column, Domain, Real
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import list_of, shown, unknown
from oboro.noise.bits import Bits
from oboro.privacy import Conditional, Pure, Unit
from oboro.records import apart, inline
from oboro.release import Choice, Forecast, Pair, Part, Plan, part, register
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
from oboro.statistics.scope import Scope

Prepared = tuple[Integers, Integers, Job]
ASSUMPTION = (
    "functions that are run without a seal look at nothing but their block, and leave nothing for another"
)
MOST_BLOCKS = 10**6
MOST_OUTPUTS = 1000
MOST_SECONDS = 86_400  # of a block: a day
MADE_UP = 100  # rows of a rehearsal, at most
STEPS = 10_000  # of the grid between the bounds, where no step is given


@register
@dataclass(frozen=True)
class SampleAggregatePlan(Plan):
    r"""The coordinate-wise median over blocks of a function's values, chosen by inverse sensitivity on a public grid.

    Privacy
        Under replace, the row at position i is in block i mod `blocks`, so a replaced row changes one block. In any
        other case each unit draws its block by itself, uniformly: adding, removing or replacing a unit, with the
        others' draws unchanged, changes one block, and a mixture of pairs that are each eps-close is eps-close.
        A block's values are computed after the reservation in a sealed process, which was made before it had the block,
        out of a program that never had any, and can do nothing but compute and answer (seal.py): so they follow from
        that block alone. They are clamped to the public grid; where the function fails, takes longer than `seconds`, or
        returns nonsense they are the middle of the bounds. With isolation "none" nothing holds the function back, and
        the guarantee is conditional on what it does.
        So of `blocks` grid points, in each of d coordinates, one changes. The score
        max(0, #{x < t} - r + 1, r - #{x <= t}) of grid point t, r the middle rank, then changes by at most 1, and the
        exponential mechanism with e^(-eta score) costs 2 eta [McSherry, Talwar 2007]. eta = eps/(2 d): eps in all.
        [Nissim, Raskhodnikova, Smith 2007, section 4; the aggregator is Asi and Duchi's, 2020.]

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
    kind = "statistics.sample_and_aggregate"

    def check(self) -> None:
        called(self.function)
        whole("blocks", self.blocks, least=1, most=MOST_BLOCKS)
        positive("seconds", self.seconds)
        if self.seconds > MOST_SECONDS:
            raise ParameterError(
                "seconds are too many",
                given=told(seconds=show(self.seconds)),
                needed=f"at most {MOST_SECONDS:,}",
                fix=setting(seconds=5),
            )
        check_different(self.columns)
        check_different(self.outputs)
        if not self.label.isprintable() or not 0 < len(self.label) <= 200:
            raise ParameterError(
                "label is no name for a certificate",
                given=told(label=shown(self.label)),
                needed="up to 200 printable characters",
                fix=setting(label="ratio, version 1"),
            )
        if not self.columns or not 1 <= len(self.outputs) <= MOST_OUTPUTS:
            raise ParameterError(
                "sample and aggregate needs columns and outputs",
                given=f"{len(self.columns)} columns, {len(self.outputs)} outputs",
                needed=f"at least one of each, and at most {MOST_OUTPUTS:,} outputs, on grids of real numbers",
                fix=setting(columns=["age"], bounds=(0, 120)),
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

    @property
    def unit(self) -> Unit:
        return self.scope.unit

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """One block changes, and with it every score by at most 1: a choice for each output."""
        return (part(Choice(self.eta), "median of each output", moves=1, times=len(self.outputs)),)

    @property
    def slowness(self) -> int:
        return 20

    @property
    def eta(self) -> Fraction:
        eps = self.guarantee.unconditional
        assert isinstance(eps, Pure)
        return eps.eps / (2 * len(self.outputs))

    @property
    def rank(self) -> int:
        return (self.blocks + 1) // 2

    @property
    def by_position(self) -> bool:
        return self.scope.replaced and self.unit.kind == "row"

    def forecast(self) -> Forecast:
        """At least one grid point has score 0, so P(score >= k) <= size e^(-eta k)."""
        rows, notes = [], []
        for output in self.outputs:
            ranks = math.ceil(math.log(output.size / 0.05) / float(self.eta))
            rows.append((output.name, ranks, self.blocks))
            if 2 * ranks >= self.blocks:
                notes = [
                    "the noise may drown the answer: more blocks, fewer outputs, a coarser step or more eps"
                ]
        columns = ("of", "95% within ± ranks", "of so many blocks")
        return Forecast("expected error of each median", columns, tuple(rows), tuple(notes))

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
                found = [self._value(compute, codes, place == block, known) for block in range(self.blocks)]
                table = np.asarray(found, np.int64)
                values.setdefault(table.tobytes(), table)
                alike.setdefault(table.tobytes(), []).extend(range(count) if self.by_position else [trial])
        draws = np.zeros((count, len(self.outputs)), np.int64)
        for key, chosen in alike.items():
            for i, output in enumerate(self.outputs):
                draws[chosen, i] = middles(
                    values[key][:, i], output.size, self.rank, self.eta, bits, len(chosen)
                )
        return draws[0] if trials is None else draws

    def _places(self, units: Integers, bits: Bits) -> Integers:
        """The block of each row."""
        from oboro.noise import uniform_integers

        if self.by_position:
            return units % self.blocks
        count = int(units.max()) + 1 if units.size else 0
        return uniform_integers(self.blocks, count, bits)[units] if count else units

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

        values = [output.value(int(code)) for output, code in zip(self.outputs, measured, strict=True)]
        if len(values) == 1:
            return pa.table({"value": values})
        return pa.table({"output": [output.name for output in self.outputs], "value": values})

    def describe(self) -> dict[str, object]:
        law = {"law": "exponential mechanism", "eta": show(self.eta), "blocks": str(self.blocks)}
        return {
            "released": f"median over blocks of {self.label}" + self.scope.words(),
            "noise": law,
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """One unit at one end of every column or at the other, or away; by itself and among others at both ends."""
        yield from self.scope.pairs(self.columns)
        yield from self.scope.divided_pairs(self.columns, Fraction(1, 2))


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
) -> SampleAggregatePlan:
    """A plan for `function(rows)`, rows being a dictionary of arrays, one for each column.

    The function is given as text, as "module:function", or as it is (functions.py). `bounds` are (low, high) for one
    number, or a list of such pairs for several. `seconds` is the time that each block has. `label` is how the certificate calls
    the function, with its version. `isolation` is "sealed" where this system can seal a process; where it cannot, and if
    "none" is asked for, the function is run as it is, and the guarantee is conditional on what it does.
    """
    text = text_of(function)
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
    )


def middle(codes: Integers, size: int, rank: int, eta: Fraction, bits: Bits) -> int:
    """One draw of `middles`."""
    return int(middles(codes, size, rank, eta, bits, 1)[0])


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
