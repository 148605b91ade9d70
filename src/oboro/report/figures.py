"""Figures of a map: answers of the table, as `ask` gives them, with their intervals; of blocks, of areas, of all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Areas, Domain
from oboro.errors import OboroError
from oboro.records import Record
from oboro.release import plan_from
from oboro.report import cells
from oboro.report.cells import Cells, Layers, Place, Window
from oboro.report.packed import folded, pack
from oboro.tables.plan import TablePlan
from oboro.tables.tree.intervals import NOISY, plan_in
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.partition import rows_cols

_MOST_ASKED = 2048  # blocks, where each is a question of its own; the coarsest first
_MOST_LOOKED_AT = 2**28  # cells, by all questions together
_MOST_ROWS = 500_000  # that are given their intervals; of one column, which are quick, ten times as many
_MOST_LISTED = 2**20  # blocks of a size: where there are more, empty ones are left out
_LEVEL = 0.95

Ends = tuple[Integers, Integers, Integers]  # values, and both ends of their intervals


def plan_of(table: Table, domain: Domain) -> TablePlan | None:
    """The plan that the table carries, if it can be asked and is about this domain."""
    try:
        plan = plan_from(plan_in(table))
    except OboroError:
        return None
    if not isinstance(plan, TablePlan) or not plan.mechanism.carries or plan.domain != domain:
        return None
    return plan if NOISY in (table.schema.metadata or {}) else None


def is_partial(plan: TablePlan | None, record: Mapping[str, object]) -> bool:
    """Whether the sum of the published cells is not what the table says."""
    noise = record.get("noise")
    stated = noise.get("strategy") if isinstance(noise, Mapping) else None
    if plan is not None and plan.publish_share is not None:
        return True
    return "filtered" in (stated, None if plan is None else plan.strategy)


def with_ends(table: Table, plan: TablePlan | None) -> Table:
    """The table with the interval of each row."""
    if plan is None or plan.intervals is None:
        return table
    if table.num_rows > (10 if len(plan.domain) == 1 else 1) * _MOST_ROWS:
        return table
    if set(cells.INTERVAL) & {*table.column_names, *plan.key_columns}:
        return table
    for name, end in zip(cells.INTERVAL, plan.intervals(table, _LEVEL), strict=True):
        table = table.append_column(name, [end])
    return table


def choices(layers: Layers) -> list[tuple[str, dict[str, object]]]:
    """What a reader may choose, as the page writes it, and the question that it is: all, or one value of one column."""
    return list(_choices(layers))


def _choices(layers: Layers) -> Iterator[tuple[str, dict[str, object]]]:
    none = [-1] * len(layers.shown)
    yield ",".join(map(str, none)), {}
    for at, column in enumerate(layers.shown):
        for code in range(column.size):
            yield ",".join(map(str, [*none[:at], code, *none[at + 1 :]])), {column.name: [column.value(code)]}


@dataclass
class Figures:
    """What goes onto the page: facts by what a reader chooses, and packed numbers, as long as there is room."""

    room: int  # bytes
    payloads: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, *streams: Integers) -> bool:
        """Packs numbers onto the page, unless they do not fit."""
        packed = pack(*streams)
        if len(packed) > self.room:
            return False
        self.room -= len(packed)
        self.payloads[name] = packed
        return True

    def answers(
        self,
        table: Table,
        plan: TablePlan,
        place: Place,
        layers: Layers,
        window: Window,
        sides: Sequence[int],
    ) -> dict[str, Record]:
        """What the table says about all of it and about blocks: values, and both ends of the interval of 95%."""
        published = plan.mechanism.published(table)
        left = min(_MOST_ASKED, _MOST_LOOKED_AT // max(min(plan.layout.cells, _MOST_LOOKED_AT), 1))
        chosen = choices(layers)[: left + 1]
        found: dict[str, Record] = {}
        for key, beside in chosen:
            whole = plan.mechanism.answer(published, beside, _LEVEL)
            found[key] = {"total": [str(n) for n in (whole.value, whole.low, whole.high)], "sides": {}}
        left -= len(found)
        rows = len(plan.domain) - 1  # other columns: a cell by one value of each is a row
        for side in sorted(sides, reverse=True):
            asked = [one for one in chosen if side > 1 or len(one[1]) < rows]
            if not asked:
                continue
            blocks = plan.mechanism.of_blocks(published, side, [beside for _, beside in asked], _LEVEL)
            part = window.at(side)
            for number, (key, beside) in enumerate(asked):
                if blocks is not None:
                    position, ends = _within(part, blocks.row, blocks.col, blocks.answers[number])
                else:
                    price = part.rows * part.cols * (1 if plan.strategy == "tree" else place.codes_in(side))
                    if price > left:
                        return found
                    left -= price
                    position, ends = _one_by_one(plan, published, place, part, side, beside)
                name = f"oboro-answers-{chosen.index((key, beside))}-{side}"
                if not self.put(name, *_streams(position, ends)):
                    return found
                found[key]["sides"][str(side)] = {"id": name, "size": int(position.size)}
        return found

    def areas(
        self,
        column: Areas,
        window: Window,
        layers: Layers,
        shown: Cells,
        table: Table,
        plan: TablePlan | None,
    ) -> Record | None:
        """Where areas lie, what they are called, and how many each holds."""
        of = column.of
        if of is None:
            return None
        row, col = rows_cols(of, column.decode(np.arange(column.size)))
        last = np.repeat(
            np.arange(column.bounds(column.levels[-2]).size - 1), np.diff(column.bounds(column.levels[-2]))
        )
        runs = _runs(window, row, col, last)
        if not self.put("oboro-areas", *runs):
            return None
        levels = column.levels[:-1]
        bounds = [column.bounds(level) for level in levels]
        above = [
            (np.searchsorted(coarse, fine[:-1], "right") - 1).tolist() for coarse, fine in pairwise(bounds)
        ]
        totals: dict[str, str] = {}
        for number, (key, beside) in enumerate(choices(layers)):
            if plan is None:
                ends = _sums(column, bounds, layers, shown, beside, row, col)
            else:
                ends = _of_areas(plan, table, levels, beside, layers)
            value, low, high = ends
            if self.put(f"oboro-area-totals-{number}", value, value - low, high - value):
                totals[key] = f"oboro-area-totals-{number}"
        return {
            "id": "oboro-areas",
            "runs": int(runs[0].size),
            "levels": list(levels),
            "labels": [list(column.labels(level)) for level in levels],
            "above": above,
            "totals": totals,
            "intervals": plan is not None,
        }


def _within(part: Window, row: Integers, col: Integers, ends: Ends) -> tuple[Integers, Ends]:
    inside = (
        (row >= part.row) & (row < part.row + part.rows) & (col >= part.col) & (col < part.col + part.cols)
    )
    if int(inside.sum()) > _MOST_LISTED:
        inside &= ends[0] > 0
    position = (row[inside] - part.row) * part.cols + col[inside] - part.col
    order = np.argsort(position)
    value, low, high = (each[inside][order] for each in ends)
    return position[order], (value, low, high)


def _streams(position: Integers, ends: Ends) -> tuple[Integers, ...]:
    """Positions as gaps, then values, then how far the interval reaches to both sides: small numbers."""
    value, low, high = ends
    return np.diff(position, prepend=-1), value, value - low, high - value


def _one_by_one(
    plan: TablePlan, published: Measured, place: Place, part: Window, side: int, beside: dict[str, object]
) -> tuple[Integers, Ends]:
    found: list[tuple[int, int, int, int]] = []
    for at in range(part.rows * part.cols):
        where = place.question(part.row + at // part.cols, part.col + at % part.cols, side)
        if where is not None:
            answer = plan.mechanism.answer(published, {**where, **beside}, _LEVEL)
            found.append((at, answer.value, answer.low, answer.high))
    numbers = np.array(found, np.int64).reshape(-1, 4).T
    return numbers[0], (numbers[1], numbers[2], numbers[3])


def _runs(window: Window, row: Integers, col: Integers, last: Integers) -> tuple[Integers, ...]:
    """Cells side by side of one area: from where the run before ended to where it begins, its length, and the area."""
    inside = (
        (row >= window.row)
        & (row < window.row + window.rows)
        & (col >= window.col)
        & (col < window.col + window.cols)
    )
    position = (row[inside] - window.row) * window.cols + col[inside] - window.col
    order = np.argsort(position)
    position, area = position[order], last[inside][order]
    new = (
        (np.diff(position, prepend=-2) != 1)
        | (np.diff(area, prepend=-1) != 0)
        | (position % window.cols == 0)
    )
    starts = np.flatnonzero(new)
    length = np.diff(np.append(starts, position.size))
    first = position[starts]
    gaps = first - np.concatenate([[0], (first + length)[:-1]])[: first.size]
    return gaps, length, folded(np.diff(area[starts], prepend=0))


def _of_areas(
    plan: TablePlan, table: Table, levels: Sequence[str], beside: dict[str, object], layers: Layers
) -> Ends:
    published = plan.mechanism.published(table)
    parts: list[list[Integers]] = [[], [], []]
    for level in levels:
        found = plan.mechanism.by(published, [level, *beside], "count", _LEVEL)
        code, size = 0, 1
        for column in (one for one in layers.shown if one.name in beside):
            size = column.size
            code = next(i for i in range(size) if [column.value(i)] == beside[column.name])
        for numbers, name in zip(parts, ("count", "low", "high"), strict=True):
            numbers.append(np.asarray(found[name].to_numpy(), np.int64).reshape(-1, size)[:, code])
    value, low, high = (np.concatenate(each) for each in parts)
    return value, low, high


def _sums(
    column: Areas,
    bounds: Sequence[Integers],
    layers: Layers,
    shown: Cells,
    beside: dict[str, object],
    row: Integers,
    col: Integers,
) -> Ends:
    """Of a table that does not carry what intervals come from."""
    layer, keep = shown.layer, np.ones(shown.layer.size, np.bool_)
    for own in reversed(layers.shown):
        layer, code = np.divmod(layer, own.size)
        if own.name in beside:
            keep &= np.array([own.value(i) for i in range(own.size)], object)[code] == beside[own.name][0]  # type: ignore[index]
    across = int(max(col.max(initial=0), shown.col.max(initial=0))) + 1
    key = row * across + col
    order = np.argsort(key)
    wanted = shown.row[keep] * across + shown.col[keep]
    at = np.minimum(np.searchsorted(key[order], wanted), key.size - 1)
    known = key[order][at] == wanted
    counts = np.zeros(column.size, np.int64)
    np.add.at(counts, order[at[known]], shown.count[keep][known])
    value = np.concatenate([np.add.reduceat(counts, each[:-1]) for each in bounds])
    return value, value, value
