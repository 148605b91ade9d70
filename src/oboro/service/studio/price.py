"""What a question would give and what it would cost: the part that Ask, Tables and Synthetic data have in common.

A page says which question its fields mean, which error it shows, and what it draws beside. The rest is here: how exact first and the
price follows, or the other way; the curve between; what would be left; and the question that is confirmed, with its eps.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from fastapi.responses import Response
from pydantic import TypeAdapter, ValidationError

from oboro.errors import OboroError, ParameterError
from oboro.exact import about, rational
from oboro.records import Record
from oboro.release import Forecast
from oboro.service import database as schema
from oboro.service import jobs, models, slots
from oboro.service.api import rated
from oboro.service.database import now
from oboro.service.desk import Asked, Desk
from oboro.service.edition import Opened
from oboro.service.misshapen import misshapen
from oboro.service.questions import Facts, plan_of
from oboro.service.studio import budgets, figures
from oboro.service.studio.answer import forecast_rows
from oboro.service.studio.page import Form, Visit, gone_to, query_of, shown, to, told_of

_QUESTION: TypeAdapter[Any] = TypeAdapter(models.Question)
LEAST, MOST = 0.001, 10.0  # eps of the slider's ends
_CURVE = ("0.001", "0.01", "0.1", "1", "10")
_ROWS = re.compile(r"for [\d,]+ rows")  # how many a forecast is made for
_SMALL = 0.0001  # an error that is drawn in place of none


@dataclass(frozen=True)
class Outlook:
    """What a question would give, and what it would cost."""

    question: Record
    asked: Asked
    reach: float | None
    low: float | None  # the error at the dear end of the slider, and at the cheap one
    high: float | None
    points: list[tuple[float, float]]
    decided: str  # what was chosen: the error, or the price


Error = Callable[[Forecast], float | None]
Question = Callable[[Form, Facts], Record]
More = Callable[[Visit, Opened, Outlook, Form], Record]


def nothing_more(here: Visit, opened: Opened, found: Outlook, asked: Form) -> Record:
    return {}


def widest(found: Forecast) -> float | None:
    """How far errors reach in 95 of 100 cases: the widest of its rows."""
    for name, times in (("95% within ±", 1.0), ("standard error", 1.96)):
        if name in found.columns:
            place = found.columns.index(name)
            values = [float(row[place]) for row in found.rows if not isinstance(row[place], str)]
            return times * max(values) if values else None
    return None


def of_cells(found: Forecast) -> float | None:
    """The same of the smallest blocks: single cells."""
    name = "95% within ±"
    if name not in found.columns or not found.rows:
        return None
    value = found.rows[0][found.columns.index(name)]
    return None if isinstance(value, str) else max(float(value), _SMALL)


@dataclass(frozen=True)
class Way:
    """How one page prices its questions."""

    place: str  # the word of its address
    question: Question
    first: str  # eps, as long as nothing was chosen
    error: Error = widest
    more: More = nothing_more
    steps: tuple[int, int] = (-4_000, 4_000)  # eps is looked for from 10^(first/1000) to 10^(last/1000)


def checked(record: Record) -> Record:
    """A question as the API would take it."""
    try:
        found: Record = _QUESTION.validate_python(record).model_dump(exclude_none=True, exclude_defaults=True)
    except ValidationError as error:
        raise misshapen(error.errors(), skip=1) from None
    return found


def sent_question(sent: Form) -> Record:
    """The question that was forecast, as the page sends it back."""
    try:
        found = json.loads(sent.get("asked", ""))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ParameterError(
            "the request is not understood", given="the question", needed="the one that was forecast"
        )
    return checked(found)


def chosen_dataset(here: Visit, place: str, title: str, *, cells: bool = False) -> Response:
    """Which dataset a page is about, where there is more than one. `cells`: also those that are counted already."""
    datasets = [one for one in here.desk.visible(here.person) if cells or not one.facts.tabled]
    if len(datasets) == 1:
        return gone_to(to(place, datasets[0].facts.dataset))
    listed = [(one.facts.dataset, here.sentence(one.facts.unit)) for one in datasets]
    return shown(here, "choose.html", what=title, where=place, datasets=listed)


def forecast_part(here: Visit, dataset: str, asked: Form, way: Way) -> Response:
    """The part of a page that follows the slider. Free, and touches no data."""
    desk = here.desk
    opened = desk.dataset(dataset, here.person)
    rated(here.request, "forecasts", here.person, desk.settings.limits.forecasts_per_minute)
    try:
        found = outlook(here.desk, opened, asked, way)
        facts = {**_facts(here, opened, found), **way.more(here, opened, found, asked)}
    except OboroError as error:
        return shown(here, "ask_refused.html", 200, error=told_of(here, error))
    response = shown(here, f"{way.place}_forecast.html", **facts)
    chosen = {name: value for name, value in asked.items() if value and name != "slider"}
    response.headers["hx-replace-url"] = to(way.place, dataset) + "?" + query_of(chosen)
    return response


def outlook(desk: Desk, opened: Opened, asked: Form, way: Way) -> Outlook:
    """The forecast of a question at the price or the error that was chosen."""
    plain = way.question(asked, opened.facts)

    def quoted(eps: str) -> tuple[Record, Asked, float | None]:
        question = checked({**plain, "eps": eps})
        found = desk.quoted(opened, question)
        return question, found, way.error(found.quote.forecast)

    curve = [(float(eps), error) for eps in _CURVE if (error := quoted(eps)[2])]
    within = asked.get("within", "").replace(",", "").strip()
    by_error = asked.get("first", "accuracy") == "accuracy" and bool(within) and bool(curve)
    eps = (
        _eps_for(opened.facts, plain, _target(within), way)
        if by_error
        else asked.get("eps", "").strip() or way.first
    )
    question, found, reach = quoted(eps)
    errors = [error for _, error in curve]
    return Outlook(
        question,
        found,
        reach,
        min(errors, default=None),
        max(errors, default=None),
        curve,
        "error" if by_error else "price",
    )


def _eps_for(facts: Facts, plain: Record, within: float, way: Way) -> str:
    """The smallest eps of three digits at which no error is above what was asked for."""

    def good(step: int) -> bool:
        plan, _ = plan_of(checked({**plain, "eps": _three(step)}), facts)
        found = way.error(plan.forecast())
        return found is not None and found <= within

    low, high = way.steps
    if not good(high):
        raise ParameterError(
            "no eps is large enough for this error",
            given=f"{within}",
            needed="a larger error, or fewer columns",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return _three(high)


def _three(thousandths: int) -> str:
    return f"{10 ** (thousandths / 1000):.3g}"


def _target(within: str) -> float:
    try:
        return float(models.Target(within=float(within)).within)
    except (ValueError, ValidationError):
        raise ParameterError(
            "the error is not understood", given=within[:100], needed="a number above 0", fix="500"
        ) from None


def _facts(here: Visit, opened: Opened, found: Outlook) -> Record:
    """What a forecast shows, whatever was asked."""
    desk, quote = here.desk, found.asked.quote
    with desk.database.reading() as connection:
        slot = slots.slot_of(connection, opened.facts.dataset, found.asked.shape)
    account = None if here.local else opened.ledger.account(here.person.name)
    payer = None if here.local else here.person.name
    has_own = account is not None and account.granted is not None
    again = _again(here, opened, found.asked)
    paid = None if again else quote.cost
    budget = (
        budgets.of_account(here, account, paid)
        if has_own and account is not None
        else budgets.of_ledger(here, opened.ledger, paid)
    )
    eps = float(rational("eps", found.question["eps"]))
    drawn = (
        figures.error_curve(
            found.points,
            (eps, found.reach),
            describe=here.say("Error by price: more eps, smaller error"),
            below=here.say("price, ε"),
            beside=here.say("error, 95% within ±"),
        )
        if found.reach and found.points and LEAST <= eps <= 10 * MOST
        else ""
    )
    return {
        "dataset": opened.facts.dataset,
        "question": json.dumps(found.question, ensure_ascii=False),
        "key": secrets.token_hex(16),
        "words": here.name(quote.words["released"]),
        "reach": None if found.reach is None else about(found.reach, 3),
        "ranks": any("rank" in str(row[0]) for row in quote.forecast.rows),
        "exact_reach": found.reach,
        "decided": found.decided,
        "low": found.low,
        "high": found.high,
        "eps": found.question["eps"],
        "cost": budgets.price(quote.cost),
        "meant": [here.sentence(note) for note in quote.forecast.notes if _ROWS.match(note)],
        "budget": budget,
        "affords": opened.ledger.affords(quote.cost, account=payer),
        "granted": has_own or here.local,
        "approval": desk.needs_approval(opened, here.person.name, quote.cost),
        "again": again,
        "slot": about(slot.slot / 1000),
        "curve": drawn,
        **forecast_rows(here, quote.forecast),
    }


def _again(here: Visit, opened: Opened, asked: Asked) -> bool:
    """Whether asking this is free. Of what is on its way only that is told: when it is ready is told by the clock alone."""
    table, shared = schema.jobs, here.local or opened.settings.sharing
    rows = sa.select(table.c.account, table.c.state).where(
        table.c.dataset == opened.facts.dataset,
        table.c.digest == asked.digest,
        sa.or_(table.c.state.in_(jobs.ACTIVE), sa.and_(table.c.state == "lost", table.c.leaves > now())),
    )
    with here.desk.database.reading() as connection:
        found = list(connection.execute(rows))
    # what waits for approval may be declined: whoever else asks it, asks and pays
    if any(row.account == here.person.name or (shared and row.state in jobs.SHARED) for row in found):
        return True
    among = None if shared else [here.person.name]
    return opened.ledger.answered(asked.quote.record, opened.facts.edition, accounts=among) is not None
