"""The answers of several questions side by side: one row a group, and for each figure a column with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from oboro.errors import ParameterError, told
from oboro.exact import show
from oboro.kinds import shown
from oboro.release import Plan
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.means import MeanPlan
from oboro.statistics.moments import CovariancePlan
from oboro.statistics.persons import PersonsPlan
from oboro.statistics.quantiles import QuantilePlan
from oboro.statistics.scope import Bins
from oboro.statistics.selections import TopPlan
from oboro.statistics.sums import CountPlan, SumPlan, SumsPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from oboro.arrays import Integers, Table

_GROUPED = (CountPlan, SumPlan, SumsPlan, MeanPlan, CovariancePlan, PersonsPlan, QuantilePlan, TopPlan)


def groups_of(plan: Plan) -> tuple[Bins, ...]:
    """The groups that a question is asked of: of a histogram, what it counts."""
    if isinstance(plan, HistogramPlan):
        return plan.bins
    if not isinstance(plan, _GROUPED):
        raise ParameterError(
            "a statement has no such question", given=told(kind=shown(plan.kind)), needed="a question of SQL"
        )
    return plan.scope.by


def labels_of(groups: Sequence[Bins], place: int) -> pa.Array:
    """For every combination of groups the label of the bins at this place."""
    import pyarrow as pa

    return pa.array(groups[place].labels).take(pa.array(codes_of(groups, place)))


def codes_of(groups: Sequence[Bins], place: int) -> Integers:
    """For every combination of groups which of the bins at this place it has."""
    sizes = [bins.size for bins in groups]
    after, before = int(np.prod(sizes[place + 1 :])), int(np.prod(sizes[:place]))
    return np.tile(np.repeat(np.arange(sizes[place]), after), before)


def fit_side_by_side(plans: Sequence[Plan]) -> bool:
    """Whether all questions have the same groups."""
    known = all(isinstance(plan, (HistogramPlan, *_GROUPED)) for plan in plans)
    return known and len({groups_of(plan) for plan in plans}) == 1 and bool(groups_of(plans[0]))


def columns_side_by_side(plans: Sequence[Plan]) -> int:
    """How many columns there are then: the groups, and each figure, with its interval where it has one."""
    each = ((3 if plan.intervals is not None else 1) * sum(1 for _ in _figures(plan, 1)) for plan in plans)
    return len(groups_of(plans[0])) + sum(each)


def side_by_side(plans: Sequence[Plan], table: Table) -> Table:
    """What a batch released, one row a group, where all its questions have the same groups; otherwise as it is.

    The table has a row for each number, question by question, with `value` (or `day`, or `text`), `low` and `high`.
    """
    import pyarrow as pa

    if not fit_side_by_side(plans):
        return table
    groups = groups_of(plans[0])
    columns: dict[str, pa.Array] = {}

    def add(name: str, values: pa.Array, *ends: pa.Array) -> None:
        names = chain([name], (f"{name} ({more})" for more in count(2)))
        free = next(one for one in names if not {one, f"{one} low", f"{one} high"} & columns.keys())
        columns[free] = values
        for side, end in zip(("low", "high"), ends, strict=False):
            columns[f"{free} {side}"] = end

    conditions = [_condition(plan) for plan in plans]
    for place, bins in enumerate(groups):
        add(bins.name, labels_of(groups, place))
    numbers = table.column("number").to_numpy()
    for place, plan in enumerate(plans):
        mine = table.filter(numbers == place).combine_chunks()
        same = len(set(conditions)) == 1 or not conditions[place]
        for figure, rows in _figures(plan, mine.num_rows):
            name = figure if same else f"{figure} where {conditions[place]}"
            part = mine.take(pa.array(rows))
            kinds = [kind for kind in ("value", "day", "text") if kind in part.column_names]
            kind = next((one for one in kinds if part[one].null_count < part.num_rows), "value")
            has_ends = plan.intervals is not None
            add(name, part[kind], *((part["low"], part["high"]) if has_ends else ()))
    return pa.table(columns)


def _condition(plan: Plan) -> str:
    """The rows that a question is about, where not all are."""
    assert isinstance(plan, (HistogramPlan, *_GROUPED))
    condition = plan.where if isinstance(plan, HistogramPlan) else plan.scope.where
    return "" if condition is None else str(condition)


def _figures(plan: Plan, rows: int) -> Iterator[tuple[str, Integers]]:
    """The figures of a question, how they are called, and which of its rows have them, group by group."""
    every = np.arange(rows)
    if isinstance(plan, QuantilePlan) and len(plan.quantiles) > 1:
        for place, share in enumerate(plan.quantiles):
            yield f"quantile {show(share)} of {plan.column.name}", every[place :: len(plan.quantiles)]
    elif isinstance(plan, TopPlan) and plan.k > 1:
        for place in range(plan.k):
            yield f"most frequent value of {plan.column.name} {place + 1}", every[place :: plan.k]
    elif isinstance(plan, MeanPlan | SumsPlan | CovariancePlan) and plan.figures:
        each = rows // len(plan.figures)
        for place, name in enumerate(plan.figures):
            yield name, every[place * each : (place + 1) * each]
    else:
        yield _word(plan), every


def _word(plan: Plan) -> str:
    if isinstance(plan, HistogramPlan | CountPlan):
        return "count"
    if isinstance(plan, PersonsPlan):
        return "persons"
    if isinstance(plan, QuantilePlan):
        share = plan.quantiles[0]
        return f"{'median' if 2 * share == 1 else f'quantile {show(share)}'} of {plan.column.name}"
    if isinstance(plan, TopPlan):
        return f"most frequent value of {plan.column.name}"
    if isinstance(plan, SumPlan):
        return f"sum of {plan.column.name}"
    assert isinstance(plan, MeanPlan | SumsPlan | CovariancePlan)
    word = {MeanPlan: "mean", SumsPlan: "sum", CovariancePlan: "variance"}[type(plan)]
    return f"{word} of {plan.columns[0].name}"
