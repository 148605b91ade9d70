"""Tables: counts of all cells at once, accurate at every scale. What it is asked for, its error by block size, strategies side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from markupsafe import Markup

from oboro.domain import Areas, Grid, Mesh
from oboro.errors import OboroError
from oboro.records import Record
from oboro.release import Forecast
from oboro.report import chart
from oboro.report.page import PROMISE
from oboro.service.edition import Opened
from oboro.service.questions import Facts
from oboro.service.studio import hours
from oboro.service.studio.page import Form, Visit, fields, for_roles, in_language, shown
from oboro.service.studio.price import (
    LEAST,
    MOST,
    Outlook,
    Way,
    checked,
    chosen_dataset,
    forecast_part,
    of_cells,
)

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Fields = Annotated[Form, Depends(fields)]
STRATEGIES = ("tree", "filtered", "wavelet")
_SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def places(opened: Opened) -> list[Any]:
    return [column for column in opened.facts.domain if isinstance(column, Grid | Mesh | Areas)]


@router.get("/tables")
def tables(here: Here) -> Response:
    return chosen_dataset(here, "tables", here.say("Tables"), cells=True)


@router.get("/tables/{dataset}")
def table(dataset: str, here: Here, asked: Fields) -> Response:
    """The form; its fields stand in the address."""
    opened = here.desk.dataset(dataset, here.person)
    facts = opened.facts
    offered = [(column.name, f"{column.size:,}") for column in facts.domain]
    names = [name for name, _ in offered]
    picked = [name for name in asked.get("columns", "").split("\n") if name in names] or opening(opened)[
        "columns"
    ].split("\n")
    placed = any(column.name in picked for column in places(opened))
    return shown(
        here,
        "tables.html",
        dataset=dataset,
        facts=facts,
        columns=offered,
        picked=picked,
        placed=placed,
        sides=_SIDES,
        asked={
            **dict.fromkeys(("within", "eps", "strategy", "workload", "side", "first", "beside"), ""),
            **asked,
        },
        strategies=STRATEGIES,
        series=hours.listed(here, opened),
        least=LEAST,
        most=MOST,
    )


def opening(opened: Opened) -> Form:
    """What the page asks when it is opened: a table of all columns, as long as it stays within the limit."""
    chosen: list[str] = []
    size = 1
    for column in opened.facts.domain:
        if size * column.size <= opened.facts.limits.table_cells:
            size *= column.size
            chosen.append(column.name)
    return {"columns": "\n".join(chosen)}


def question_of(asked: Form, _: Facts) -> Record:
    made: Record = {"question": "table"}
    names = [name for name in asked.get("columns", "").split("\n") if name]
    if names:
        made["columns"] = names
    if (strategy := asked.get("strategy", "")) in STRATEGIES:
        made["strategy"] = strategy
    kind = asked.get("workload", "")
    if kind == "marginals" and names:
        made["workload"] = [{"kind": "marginals", "columns": [[name] for name in names]}]
    elif kind == "cells":
        made["workload"] = [{"kind": "cells"}]
    elif kind == "squares":
        sides = [int(side) for side in asked.get("side", "").split("\n") if side.isdigit() and len(side) < 6]
        made["workload"] = [{"kind": "squares", "sides": sides or [1, 8, 64]}]
    return made


def _more(here: Visit, opened: Opened, found: Outlook, asked: Form) -> Record:
    quote = found.asked.quote
    return {
        "by_size": in_language(chart.error_chart(quote.forecast), here.language),
        "sizes": in_language(chart.error_table(quote.forecast, leave_out=("cells",)), here.language),
        "beside": _beside(here, opened, found) if asked.get("beside") else None,
        "cells": f"{quote.plan.domain.size:,}",  # type: ignore[attr-defined]
    }


def _beside(here: Visit, opened: Opened, found: Outlook) -> Markup:
    """The strategies side by side: the same table, the same price."""
    lines: dict[str, dict[str, float]] = {}
    for name in STRATEGIES:
        try:
            other = here.desk.quoted(opened, checked({**found.question, "strategy": name})).quote.forecast
        except OboroError:
            continue
        lines[name] = _by_size(other)
    shared = [size for size in next(iter(lines.values()), {}) if all(size in line for line in lines.values())]
    drawn = chart.line_chart(
        chart.block_words(shared),
        {name: [line[size] for size in shared] for name, line in lines.items()},
        describe=here.say("Strategies side by side, at the same price"),
        below=PROMISE["error_size"],
        beside=PROMISE["error_reach"],
    )
    key = "".join(f'<li class="{chart.key_class(at)}">{name}</li>' for at, name in enumerate(lines))
    return in_language(f'{drawn}<ul class="series-key">{key}</ul>', here.language)


def _by_size(found: Forecast) -> dict[str, float]:
    place = found.columns.index("95% within ±")
    return {str(row[0]): float(row[place]) for row in found.rows if not isinstance(row[place], str)}


WAY = Way("tables", question_of, "0.5", of_cells, _more, steps=(-3_000, 1_000))


@router.get("/tables/{dataset}/forecast")
def forecast(dataset: str, here: Here, asked: Fields) -> Response:
    """The part of the page that follows the slider."""
    return forecast_part(here, dataset, asked, WAY)
