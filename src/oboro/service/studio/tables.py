"""Tables: counts of all cells at once, accurate at every scale. What it is asked for, its error by block size, strategies side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from markupsafe import Markup

from oboro.domain import Areas, Grid, Mesh
from oboro.errors import OboroError, ParameterError
from oboro.records import Record
from oboro.release import Forecast
from oboro.report import chart
from oboro.report.page import PROMISE
from oboro.service.api import rated
from oboro.service.desk import Asked, Desk
from oboro.service.edition import Opened
from oboro.service.studio import hours
from oboro.service.studio.ask import LEAST, MOST, Outlook, checked, forecast_facts
from oboro.service.studio.page import (
    Form,
    Visit,
    fields,
    for_roles,
    gone_to,
    in_language,
    query_of,
    shown,
    to,
    told_of,
)

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Fields = Annotated[Form, Depends(fields)]
STRATEGIES = ("tree", "filtered", "wavelet")
_FIRST = "0.5"
_SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SMALL = 0.0001


def places(opened: Opened) -> list[Any]:
    return [column for column in opened.facts.domain if isinstance(column, Grid | Mesh | Areas)]


@router.get("/tables")
def tables(here: Here) -> Response:
    datasets = here.desk.visible(here.person)
    if len(datasets) == 1:
        return gone_to(to("tables", datasets[0].facts.dataset))
    listed = [(one.facts.dataset, here.sentence(one.facts.unit)) for one in datasets]
    return shown(here, "choose.html", what=here.say("Tables"), where="tables", datasets=listed)


@router.get("/tables/{dataset}")
def table(dataset: str, here: Here, asked: Fields) -> Response:
    """The form; its fields stand in the address."""
    opened = here.desk.dataset(dataset, here.person)
    facts = opened.facts
    offered = [(column.name, f"{column.size:,}") for column in facts.domain]
    names = [name for name, _ in offered]
    picked = [name for name in asked.get("columns", "").split("\n") if name in names] or _start(opened)
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


def _start(opened: Opened) -> list[str]:
    """The columns that a table begins with: all, as long as it stays within the limit."""
    chosen: list[str] = []
    size = 1
    for column in opened.facts.domain:
        if size * column.size <= opened.facts.limits.table_cells:
            size *= column.size
            chosen.append(column.name)
    return chosen


def question_of(asked: Form) -> Record:
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


def _first_row(asked: Asked) -> float | None:
    """The error of the smallest blocks: single cells."""
    found = asked.quote.forecast
    name = "95% within ±"
    if name not in found.columns or not found.rows:
        return None
    value = found.rows[0][found.columns.index(name)]
    return None if isinstance(value, str) else float(value)


def eps_for_cells(desk: Desk, opened: Opened, plain: Record, within: float) -> str:
    """The smallest eps of three digits at which single cells are within the error."""
    low, high = -3000, 1000

    def good(step: int) -> bool:
        error = _first_row(desk.quoted(opened, checked({**plain, "eps": f"{10 ** (step / 1000):.3g}"})))
        return error is not None and error <= within

    if not good(high):
        raise ParameterError(
            "no eps is large enough for this error",
            given=f"{within}",
            needed="a larger error, or fewer columns",
        )
    while high - low > 4:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return f"{10 ** (high / 1000):.3g}"


@router.get("/tables/{dataset}/forecast")
def forecast(dataset: str, here: Here, asked: Fields) -> Response:
    """The part of the page that follows the slider."""
    desk = here.desk
    opened = desk.dataset(dataset, here.person)
    rated(here.request, "forecasts", here.person, desk.settings.limits.forecasts_per_minute)
    try:
        found = _outlook(desk, opened, question_of(asked), asked)
        shown_part = _facts(here, opened, found, asked)
    except OboroError as error:
        return shown(here, "ask_refused.html", 200, error=told_of(here, error))
    response = shown(here, "tables_forecast.html", **shown_part)
    chosen = {name: value for name, value in asked.items() if value and name != "slider"}
    response.headers["hx-replace-url"] = to("tables", dataset) + "?" + query_of(chosen)
    return response


def _outlook(desk: Desk, opened: Opened, plain: Record, asked: Form) -> Outlook:
    curve = []
    for eps in ("0.001", "0.01", "0.1", "1", "10"):
        error = _first_row(desk.quoted(opened, checked({**plain, "eps": eps})))
        if error is not None:
            curve.append((float(eps), max(error, _SMALL)))
    within, decided = asked.get("within", "").replace(",", "").strip(), "price"
    if asked.get("first", "accuracy") == "accuracy" and within and curve:
        try:
            eps, decided = eps_for_cells(desk, opened, plain, float(within)), "error"
        except ValueError:
            raise ParameterError(
                "the error is not understood", given=within[:100], needed="a number above 0", fix="500"
            ) from None
    else:
        eps = asked.get("eps", "").strip() or _FIRST
    question = checked({**plain, "eps": eps})
    quoted = desk.quoted(opened, question)
    errors = [error for _, error in curve]
    return Outlook(
        question,
        quoted,
        _first_row(quoted),
        min(errors) if errors else None,
        max(errors) if errors else None,
        curve,
        decided,
    )


def _facts(here: Visit, opened: Opened, found: Outlook, asked: Form) -> Record:
    facts = forecast_facts(here, opened, found)
    quote = found.asked.quote
    return {
        **facts,
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
    key = "".join(f'<li class="s{at}">{name}</li>' for at, name in enumerate(lines))
    return in_language(f'{drawn}<ul class="series-key">{key}</ul>', here.language)


def _by_size(found: Forecast) -> dict[str, float]:
    place = found.columns.index("95% within ±")
    return {str(row[0]): float(row[place]) for row in found.rows if not isinstance(row[place], str)}
