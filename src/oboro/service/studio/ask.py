"""Ask: what, of which column, where, by; how exact first, and the price follows, or the other way.

What travels is a question, as over the API: the plan is the server's. What is confirmed is the question that was forecast, with its eps.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from oboro.domain import Category, Column, Integer, Real
from oboro.exact import about
from oboro.privacy import guarantee_from
from oboro.records import Record
from oboro.service import jobs
from oboro.service.api import rated
from oboro.service.database import now
from oboro.service.edition import Opened
from oboro.service.made_up import made_up
from oboro.service.questions import Facts, plan_of
from oboro.service.studio import budgets, figures
from oboro.service.studio.answer import picture, rows_of
from oboro.service.studio.page import Form, Visit, fields, for_roles, form, gone_to, query_of, shown, to
from oboro.service.studio.price import LEAST, MOST, Way, chosen_dataset, forecast_part, sent_question
from oboro.service.studio.releases import released

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Fields = Annotated[Form, Depends(fields)]
Sent = Annotated[Form, Depends(form)]
_NUMERIC = (Integer, Real)
EXPECTED = "10000"  # rows, where their number is private and nobody said what to expect
_REHEARSED = 2_000  # made-up rows


@dataclass(frozen=True)
class Kind:
    """A kind of question, and what it needs."""

    word: str
    label: str
    columns: str  # "none", "number", "any", "several"
    more: str = ""  # a field of its own


def kinds(here: Visit, facts: Facts) -> list[Kind]:
    say = here.say
    listed = [
        Kind("count", say("how many rows"), "none"),
        Kind("mean", say("mean"), "number"),
        Kind("sum", say("sum"), "number"),
        Kind("median", say("median"), "number"),
        Kind("quantile", say("quantiles"), "number", "quantiles"),
        Kind("variance", say("variance"), "number"),
        Kind("histogram", say("histogram: counts of each value"), "several"),
        Kind("mode", say("most frequent value"), "any"),
        Kind("top", say("the k most frequent values"), "any", "k"),
    ]
    if facts.unit.kind == "person":
        listed.insert(1, Kind("persons", say("how many persons"), "none"))
    return listed


def columns_for(facts: Facts, kind: Kind) -> list[Column]:
    plain = [column for column in facts.domain if len(column.sources) == 1]
    if kind.columns == "number":
        return [column for column in plain if isinstance(column, _NUMERIC)]
    if kind.columns in ("any", "several"):
        return [column for column in plain if column.size <= facts.limits.cells]
    return []


def grouped(facts: Facts) -> list[Column]:
    """Columns that answers can be given by: few values, each of which has a name."""
    return [
        column
        for column in facts.domain
        if len(column.sources) == 1
        and column.size <= min(facts.limits.groups, 200)
        and (isinstance(column, Category) or column.size <= 50)
    ]


# From the fields of a page to a question


def question_of(asked: Form, facts: Facts) -> Record:
    """A question without a price, as it travels; what is not understood is refused as the API refuses it."""
    kind = asked.get("question", "count")
    made: Record = {"question": kind}
    names = [name for name in asked.get("columns", "").split("\n") if name]
    if kind not in ("count", "persons"):
        made["columns"] = names if kind == "histogram" else names[:1]
    if kind == "quantile":
        made["quantiles"] = asked.get("quantiles", "0.25 0.5 0.75").replace(",", " ").split()
    if kind == "top":
        made["k"] = _whole(asked.get("k") or "3")
    if where := asked.get("where", "").strip():
        made["where"] = where
    if by := [name for name in asked.get("by", "").split("\n") if name]:
        made["by"] = by
    expected = asked.get("expected_n", "").replace(",", "").strip()
    # of a public n, a guess says how many a condition picks; that it picks all is no guess
    if expected and (facts.n is None or (where and expected != str(facts.n))):
        made["expected_n"] = _whole(expected)
    return made


def _whole(text: str) -> int | str:
    return int(text) if text.strip().isdigit() and len(text) < 15 else text


# Pages


@router.get("/ask")
def ask_page(here: Here) -> Response:
    """Which dataset."""
    return chosen_dataset(here, "ask", here.say("Ask"))


@router.get("/ask/{dataset}")
def ask_about(dataset: str, here: Here, asked: Fields) -> Response:
    """The form; its fields stand in the address, which can be sent to a colleague."""
    opened = here.desk.dataset(dataset, here.person)
    facts = opened.facts
    if facts.tabled:
        return gone_to(to("tables", dataset))
    listed = kinds(here, facts)
    start = opening(opened)
    chosen = next(
        (kind for kind in listed if kind.word == asked.get("question", start["question"])), listed[0]
    )
    offered = columns_for(facts, chosen)
    names = [column.name for column in offered]
    picked = [name for name in asked.get("columns", "").split("\n") if name in names] or names[:1]
    filled = {
        **dict.fromkeys(("where", "within", "eps", "k"), ""),
        "expected_n": start["expected_n"],
        **asked,
        "question": chosen.word,
        "columns": "\n".join(picked),
        "first": "eps" if asked.get("first") == "eps" else "accuracy",
    }
    whole = here.request.headers.get("hx-request") != "true"
    return shown(
        here,
        "ask.html" if whole else "ask_form.html",
        dataset=dataset,
        facts=facts,
        kinds=listed,
        kind=chosen,
        columns=[(column.name, _range(here, column)) for column in offered],
        picked=picked,
        groups=[column.name for column in grouped(facts)],
        by=[name for name in asked.get("by", "").split("\n") if name],
        asked=filled,
        n=facts.n,
        quantiles=asked.get("quantiles", "0.25 0.5 0.75"),
        example=_example(facts),
        least=LEAST,
        most=MOST,
    )


def opening(opened: Opened) -> Form:
    """What the page asks when it is opened."""
    numbers = [column.name for column in opened.facts.domain if isinstance(column, _NUMERIC)]
    return {
        "question": "mean" if numbers else "count",
        "columns": "\n".join(numbers[:1]),
        "expected_n": EXPECTED if opened.facts.n is None else str(opened.facts.n),
    }


def _range(here: Visit, column: Column) -> str:
    if isinstance(column, _NUMERIC):
        return here.say("{low} to {high}", low=_number(column.low), high=_number(column.high))
    return here.say("{count} values", count=f"{column.size:,}")


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else about(value)


def _example(facts: Facts) -> str:
    for column in facts.domain:
        if isinstance(column, _NUMERIC):
            return (
                f"{column.name} >= {about(column.low + (column.high - column.low) / 5, 2).replace(',', '')}"
            )
        if isinstance(column, Category):
            return f"{column.name} = '{column.values[0]}'"
    return ""


WAY = Way("ask", question_of, "0.1")


@router.get("/ask/{dataset}/forecast")
def forecast(dataset: str, here: Here, asked: Fields) -> Response:
    """The part of the page that follows the slider."""
    return forecast_part(here, dataset, asked, WAY)


@router.post("/ask/{dataset}/rehearsal")
def rehearse(dataset: str, here: Here, sent: Sent) -> Response:
    """The same question asked of rows that nobody is. Nothing is spent; it tells nothing about the data."""
    opened = here.desk.dataset(dataset, here.person)
    rated(here.request, "rehearsals", here.person, here.desk.settings.limits.questions_per_minute)
    question = sent_question(sent)
    head, rows, drawn = rehearsed(here, opened, question)
    return shown(here, "rehearsal.html", head=head, rows=rows, drawn=drawn, many=f"{_REHEARSED:,}")


def rehearsed(here: Visit, opened: Opened, question: Record) -> tuple[list[str], list[list[str]], Any]:
    from oboro.engine import count_units, open_data
    from oboro.noise.bits import system_bits

    facts = opened.facts
    table = made_up(facts.domain, facts.unit, _REHEARSED, count=facts.count)
    data = open_data(table)
    plan, _ = plan_of(
        question,
        replace(facts, n=None if facts.n is None else count_units(data, facts.unit)),
    )
    found = plan.publish(plan.measure(plan.prepare(plan.open(data)), system_bits()))
    if plan.intervals is not None:
        for name, end in zip(("low", "high"), plan.intervals(found, 0.95), strict=True):
            found = found.append_column(name, [end])
    head, rows, _ = rows_of(here, found, plan.key_columns)
    return head, rows, picture(here, found, plan)


@router.post("/ask/{dataset}")
def ask(dataset: str, here: Here, sent: Sent) -> Response:
    """Asks and pays: what was forecast, at the price that was shown. Never refunded."""
    desk = here.desk
    opened = desk.dataset(dataset, here.person)
    rated(here.request, "questions", here.person, desk.settings.limits.questions_per_minute)
    key = sent.get("key", "")[:64]
    free = sent.get("free") == "yes"  # what the page said: nothing is paid that was not shown
    row = desk.ask(
        here.person, opened, sent_question(sent), key if key.isascii() and key.isalnum() else None, free=free
    )
    here.request.app.state.metrics.count("oboro_questions_total", dataset=dataset, kind=row.kind)
    return gone_to(to("questions", row.id))


@router.get("/questions/{id}")
def question(id: str, here: Here) -> Response:
    """What became of a question: a clock, until its answer leaves; then the answer itself."""
    desk = here.desk
    row = desk.job(id, here.person)
    led = desk.leader(row)
    state, due = jobs.state_at(led, now())
    if state == "done":
        return gone_to(to("releases", row.dataset, led.entry))
    wait = 2.0 if due is None else max(0.05, (due - now()) / 1000)
    return shown(
        here,
        "question.html",
        row=row,
        state=state,
        words=here.name(released(json.loads(row.plan))),
        cost=budgets.price(guarantee_from(json.loads(row.cost))),
        wait=math.ceil(wait),
        milliseconds=math.ceil(1000 * wait) + 30,
        clock=figures.clock(
            wait, describe=here.say("The answer leaves in {seconds} s", seconds=math.ceil(wait))
        ),
        why=row.why if here.person.role == "steward" else None,
        again=_form_of(row),
    )


def _form_of(row: jobs.Row) -> str:
    """The form with this question filled in."""
    asked = json.loads(row.question)
    if asked["question"] in ("table", "batch"):
        return to("tables", row.dataset)
    filled = {
        name: "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in asked.items()
    }
    place = "synthetic" if asked["question"] == "synthetic" else "ask"
    return to(place, row.dataset) + "?" + query_of({**filled, "first": "eps"})
