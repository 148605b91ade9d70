"""A page that plays the hours of a series: the map over time, small multiples, and the line of one place with its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from oboro.arrays import Integers, Table
from oboro.errors import DataError
from oboro.kinds import path_of, shown, takes
from oboro.records import Record
from oboro.release import plan_from
from oboro.report import promise
from oboro.report.cells import Place, sequential
from oboro.report.packed import pack
from oboro.report.page import MAP, both, escape, label, render, say, write_page
from oboro.tables.input import TICK
from oboro.tables.series.figures import STATE, STATES, TICKS
from oboro.tables.series.plan import SeriesPlan
from oboro.tables.tree.intervals import plan_in
from oboro.tables.tree.measure import spine_of

MOST = 6_000_000  # numbers that a page carries

HOURS = {
    "hours": both("Counts over time"),
    "hour": both("tick {tick}"),
    "play": both("Play"),
    "pause": both("Pause"),
    "slider": both("Which tick is shown"),
    "provisional": both("provisional"),
    "final": both("final"),
    "lost": both("lost: told by the blocks of time around it"),
    "absent": both("not published"),
    "mean": both("Mean over {ticks} ticks, single cells"),
    "every": both("Every tick"),
    "every_note": both("All on one scale. A dashed frame is provisional, none is not published."),
    "line": both("One place over time"),
    "line_note": both(
        "The band holds the true count at each tick with probability 95%. Hollow points are provisional."
    ),
    "line_alone": both("Summed over {names}. There is no band: the intervals are those of each value."),
    "pick": both("Point at the map, or choose with the arrow keys."),
    "where": both("{row_name} {row} to {row_end}, {col_name} {col} to {col_end}"),
    "told": both("{count} (95% interval {low} to {high})"),
    "told_alone": both("{count}"),
    "legend": both("{what} in each block of {rows} × {cols} cells"),
    "legend_cell": both("{what} in each cell, mean over ticks"),
    "count": both("count"),
}


@dataclass(frozen=True)
class Frames:
    """What is shown of one family of rows: where, and for each tick the counts with their ends."""

    rows: Integers
    cols: Integers
    counts: Integers  # [tick, block]
    low: Integers
    high: Integers
    states: list[str | None]


@takes(path=path_of)
def write_hours(
    tables: Sequence[Table], path: str | Path, *, title: str | None = None, language: str | None = None
) -> None:
    """Writes a page that plays a series: of its ticks, of its final table, or of both. What is final replaces what was provisional.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=2, max_ticks=2, count="people")
    >>> series = ob.tables.series(plan, ledger=ledger, name="1 March")
    >>> release = series.publish({"tick": [0, 0], **cells}, tick=0)
    >>> ob.report.write_hours([release.interval()], "hours.html")
    """
    plan = _plan(tables)
    place = Place.of(plan.domain)
    beside = _beside(plan, place)
    hours = _frames(tables, plan, place, 1, bool(beside))
    day = _frames(tables, plan, place, plan.ticks, bool(beside))
    rows, cols = _sides(plan)
    if hours.counts.size + day.counts.size > MOST:
        raise DataError(
            "the series is too large for a page",
            given=f"{hours.counts.size + day.counts.size:,} counts",
            needed=f"at most {MOST:,}",
        )
    names = place.keys if len(place.keys) == 2 else (place.keys[0], place.keys[0])
    data: Record = {
        "ticks": plan.ticks,
        "states": hours.states,
        "blocks": len(hours.rows),
        "cells": len(day.rows) if day.states[-1] is not None else 0,
        "side": [rows, cols],
        "window": [place.whole.row, place.whole.col, place.whole.rows, place.whole.cols],
        "north_up": place.north_up,
        "band": not beside,
        "names": [plan.domain.label(name) for name in names],
        "what": plan.domain.label(plan.count_column),
        "colours": {theme: sequential(theme) for theme in ("light", "dark")},
    }
    payloads = {
        "hours-packed": pack(
            hours.rows, hours.cols, *(each.reshape(-1) for each in (hours.counts, hours.low, hours.high))
        ),
        "day-packed": pack(day.rows, day.cols, day.counts[-1], day.low[-1], day.high[-1]),
    }
    facts = {
        **plan.describe(),
        "unit": {**plan.unit.to_dict(), "in_words": str(plan.unit)},
        "guarantee": {**plan.guarantee.to_dict(), "in_words": str(plan.guarantee)},
    }
    page = render(
        title=HOURS["hours"] if title is None else title,
        body=_body(bool(data["cells"]), plan.ticks, [plan.domain.label(name) for name in beside])
        + f"<main class='sheet'>{promise.promise(facts)}</main>",
        subtitle=promise.chip(facts),
        language=language,
        styles=["hours.css"],
        scripts=["hours.js"],
        words={**HOURS, "rounded": MAP["rounded"]},
        data=data,
        payloads=payloads,
    )
    write_page(Path(path), page)


def each_hour(tables: Sequence[Table]) -> tuple[Place, tuple[int, int], Frames]:
    """The ticks of a series as they are drawn: the place, the sides of a block in cells, and the counts of all blocks by tick."""
    plan = _plan(tables)
    place = Place.of(plan.domain)
    return place, _sides(plan), _frames(tables, plan, place, 1, bool(_beside(plan, place)))


def _beside(plan: SeriesPlan, place: Place) -> list[str]:
    return [name for name in plan.key_columns[1:] if name not in place.keys]


def _sides(plan: SeriesPlan) -> tuple[int, int]:
    """Rows and columns of cells in a block that is shown every tick."""
    tree = plan.places.trees[spine_of(plan.places)]
    at = plan.shown[spine_of(plan.places)]
    sides = [prod(tree.side(axis, at) for axis in axes) for axes in tree.directions]
    return (sides[0], sides[1]) if len(sides) == 2 else (1, sides[0])


def _body(day: bool, ticks: int, beside: Sequence[str]) -> str:
    note = HOURS["line_note"] if not beside else HOURS["line_alone"].fill(names=", ".join(beside))
    mean = (
        f'<section class="card">{say(HOURS["mean"].fill(ticks=ticks), "h2")}<canvas id="day" class="plane" role="img" '
        f'{label(HOURS["mean"].fill(ticks=ticks))}></canvas><p class="legend" id="day-legend"></p></section>'
        if day
        else ""
    )
    return f"""<main class="sheet"><div class="side wide">
<section class="card"><div class="clock">{say(HOURS["hours"], "h2")}<output id="now" class="figure"></output><span id="state" class="state"></span></div>
<canvas id="plane" class="plane" tabindex="0" role="img" {label(HOURS["pick"])}></canvas>
<div class="drive"><button type="button" id="play">{escape(HOURS["play"].en)}</button>
<input type="range" id="slider" min="0" max="{ticks - 1}" value="0" {label(HOURS["slider"])}></div>
<p class="legend" id="legend"></p></section>
<div class="stack"><section class="card">{say(HOURS["line"], "h2")}<p id="where" class="quiet"></p><p id="told" class="lead"></p>
<svg id="line" class="chart" viewBox="0 0 520 240" role="img" {label(HOURS["line"])}></svg>{say(note, "p", 'class="quiet"')}</section>{mean}</div></div>
<section class="card">{say(HOURS["every"], "h2")}{say(HOURS["every_note"], "p", 'class="quiet"')}<div id="every" class="every"></div></section></main>"""


def _plan(tables: Sequence[Table]) -> SeriesPlan:
    """The plan that all tables were made by."""
    import pyarrow as pa

    if not isinstance(tables, list | tuple) or not all(isinstance(table, pa.Table) for table in tables):
        raise DataError(
            "tables is no list of tables", given=shown(tables), needed="what was released", argument="tables"
        )
    records = [plan_in(table) for table in tables]
    found = plan_from(records[0]) if records else None
    if not isinstance(found, SeriesPlan) or any(one != records[0] for one in records):
        raise DataError(
            "these are not tables of one series",
            needed="Parquet files of oboro table tick and oboro table final, of one series",
        )
    return found


def _frames(tables: Sequence[Table], plan: SeriesPlan, place: Place, ticks: int, summed: bool) -> Frames:
    """The rows that cover so many ticks, as one array over time; of a block that is told twice the last state counts."""
    import pyarrow.compute as pc

    best: dict[int, tuple[int, Table]] = {}
    for table in tables:
        own = table.filter(pc.equal(table[TICKS], ticks))
        for tick in pc.unique(own[TICK]).to_pylist():
            part = own.filter(pc.equal(own[TICK], tick))
            rank = STATES.index(part[STATE][0].as_py())
            if tick not in best or (rank > 0) >= (best[tick][0] > 0):
                best[tick] = (rank, part)
    states: list[str | None] = [None] * plan.ticks
    spots: dict[tuple[int, int], int] = {}
    read = {}
    for tick, (rank, part) in best.items():
        states[tick] = STATES[rank]
        rows, cols = place.locate(part)
        count = np.asarray(part[plan.count_column], np.int64)
        if "low" in part.column_names and not summed:
            low, high = (np.asarray(part[name], np.int64) for name in ("low", "high"))
        else:
            low, high = (count, count) if summed else plan.intervals(part, 0.95)
        at = np.array(
            [spots.setdefault(spot, len(spots)) for spot in zip(rows.tolist(), cols.tolist(), strict=True)]
        )
        read[tick] = (at, count, np.maximum(low, 0), high)  # estimates below 0 are not on the page
    shape = (plan.ticks, len(spots))
    counts, lows, highs = (np.zeros(shape, np.int64) for _ in range(3))
    for tick, (at, *values) in read.items():
        for into, own_values in zip((counts, lows, highs), values, strict=True):
            np.add.at(into[tick], at, own_values)
    every = np.array(list(spots), np.int64).reshape(-1, 2)
    return Frames(every[:, 0], every[:, 1], counts, lows, highs, states)
