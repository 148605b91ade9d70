"""The service's API, for analysts: what there is, what it would cost, and questions. All of it under /v1."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from oboro._version import __version__
from oboro.errors import AccountError, BudgetError, InputError, LedgerError, OboroError, ParameterError
from oboro.records import Record
from oboro.release import Release
from oboro.release.certificate import certify_file
from oboro.release.release import checked_ending
from oboro.service import answers, jobs, models, people
from oboro.service.database import now
from oboro.service.desk import Conflict, Crowded, Desk, Forbidden, Unknown
from oboro.service.door import Door, Metrics, Rates
from oboro.service.edition import Opened
from oboro.service.made_up import made_up
from oboro.service.misshapen import misshapen
from oboro.service.people import Person
from oboro.service.questions import plan_of, with_eps

REFUSED: dict[int | str, Record] = {
    status: {"model": models.Refusal, "description": why}
    for status, why in {
        400: "not understood",
        401: "no token, or one that opens nothing",
        403: "not for this role",
        404: "there is no such thing, or not for you",
        409: "the budget does not cover it, or a key was used for another question",
        413: "too large",
        422: "refused by public facts; nothing was spent",
        429: "too many at once",
    }.items()
}
router = APIRouter(responses=REFUSED)


def status_of(error: OboroError) -> int:
    for kind, status in (
        (Unknown, 404),
        (Forbidden, 403),
        (Crowded, 429),
        (Conflict, 409),
        (BudgetError, 409),
        (AccountError, 409),
        (InputError, 422),
    ):
        if isinstance(error, kind):
            return status
    return 503 if isinstance(error, LedgerError) else 422


class Plain(JSONResponse):
    """JSON that may repeat what was sent: of a sign that came in half, which no answer can hold, a question mark is left."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def refusal(error: OboroError) -> JSONResponse:
    name = type(error).__name__
    headers = {"Retry-After": "6"} if isinstance(error, Crowded) else None
    return Plain({**error.to_dict(), "error": name}, status_code=status_of(error), headers=headers)


# Who asks


async def desk_of(request: Request) -> Desk:  # async, since what is not takes a thread
    desk: Desk = request.app.state.desk
    return desk


def role(*roles: str) -> Callable[[Request], Awaitable[Person]]:
    """Somebody in one of these roles."""

    async def signed_in(request: Request) -> Person:
        person: Person = request.state.person
        if person.role not in roles:
            raise Forbidden("this is not for your role", given=person.role, needed=" or ".join(roles))
        return person

    return signed_in


AtDesk = Annotated[Desk, Depends(desk_of)]
Asker = Annotated[Person, Depends(role("analyst", "steward"))]
Anybody = Annotated[Person, Depends(role("analyst", "steward", "auditor"))]


def rated(request: Request, what: str, person: Person, per_minute: int) -> None:
    if not request.app.state.rates.take(what, person.name, per_minute):
        raise Crowded("too many requests at once", needed=f"at most {per_minute} a minute")


def at(time: int | None) -> str | None:
    return (
        None if time is None else datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
    )


# What there is


@router.get("/v1/healthz", response_model=models.Health)
def healthz() -> models.Health:
    """Whether the service answers."""
    return models.Health()


@router.get("/v1/datasets", response_model=list[models.Listed])
def datasets(desk: AtDesk, person: Asker) -> list[models.Listed]:
    """The datasets that you may ask about."""
    return [models.Listed(name=one.facts.dataset, edition=one.facts.edition) for one in desk.visible(person)]


@router.get("/v1/datasets/{dataset}", response_model=models.Described)
def described(dataset: str, desk: AtDesk, person: Asker) -> models.Described:
    """Public facts about a dataset: its domain, who is protected, what is left, whose key signs."""
    opened = desk.dataset(dataset, person)
    facts, ledger = opened.facts, opened.ledger
    limits = {name: getattr(facts.limits, name) for name in facts.limits.__slots__}
    return models.Described(
        name=facts.dataset, edition=facts.edition, table=facts.table, domain=facts.domain.to_dict(), unit=facts.unit.to_dict(), n=facts.n, count=facts.count,
        budget=ledger.budget.to_dict(), remaining=ledger.available.to_dict(), account=account_of(desk, dataset, person.name), ledger=ledger.id,
        public_key=ledger.public_key, limits=limits, sharing=opened.settings.sharing, software=f"oboro {__version__}",
    )  # fmt: skip


def account_of(desk: Desk, dataset: str, name: str) -> models.Account | None:
    found = desk.datasets[dataset].ledger.account(name)
    if found is None:
        return None
    return models.Account(
        account=name,
        amount=found.amount.to_dict(),
        per=found.per,
        spent=found.spent.to_dict(),
        available=found.available.to_dict(),
    )


@router.get("/v1/datasets/{dataset}/made-up", response_model=models.MadeUp)
def made_up_rows(
    dataset: str,
    desk: AtDesk,
    person: Asker,
    rows: Annotated[int, Query(ge=1, le=100_000)] = 100,
    seed: Annotated[int, Query(ge=0, le=2**32)] = 0,
) -> models.MadeUp:
    """Rows made from the domain alone, to develop with. No data is looked at."""
    facts = desk.dataset(dataset, person).facts
    table = made_up(facts.domain, facts.unit, min(rows, facts.limits.rows), seed=seed, count=facts.count)
    return models.MadeUp(
        columns={name: [_plain(value) for value in values] for name, values in table.to_pydict().items()}
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else str(value)


# What it would cost


@router.post("/v1/datasets/{dataset}/forecast", response_model=models.Forecasted)
async def forecast(
    dataset: str, asked: models.ToForecast, request: Request, desk: AtDesk, person: Asker
) -> Response:
    """The error of an answer before it is asked for, from its price; with a target, the price from the error. Free."""
    if asked.target is None and _is_light(asked.question) and desk.is_fresh(dataset, person):
        return _forecast(dataset, asked, request, desk, person)  # a thread would take longer than the work
    return await run_in_threadpool(_forecast, dataset, asked, request, desk, person)


def _is_light(question: Any) -> bool:
    return question.question in ("count", "sum", "mean") and not question.by and question.where is None


def _forecast(
    dataset: str, asked: models.ToForecast, request: Request, desk: Desk, person: Person
) -> Response:
    opened = desk.dataset(dataset, person)
    rated(request, "forecasts", person, desk.settings.limits.forecasts_per_minute)
    question = asked.question.model_dump(exclude_none=True, exclude_defaults=True)
    if asked.target is not None:
        question = dict(with_eps(question, eps_for(opened, question, asked.target)))
        question.pop("rho")
    quoted = desk.quoted(opened, question)
    return told(
        models.Forecasted(
            question=question,
            cost=quoted.quote.cost.to_dict(),
            forecast=models.Forecast.model_validate(quoted.quote.forecast.to_dict()),
            words=str(quoted.quote.words["released"]),
            slot=desk.slot(dataset, quoted.shape).slot / 1000,
            approval=desk.needs_approval(opened, person.name, quoted.quote.cost),
        )
    )


def told(found: BaseModel, status: int = 200, answer: bytes | None = None) -> Response:
    """A response as it is: checked when it was made, and not once more. An answer goes in as the JSON that it was packed as."""
    content = found.model_dump_json().encode()
    if answer is not None:
        content = content.removesuffix(b'"answer":null}') + b'"answer":' + answer + b"}"
    return Response(content, status, media_type="application/json")


def eps_for(opened: Opened, question: Record, target: models.Target) -> str:
    """The smallest eps of three digits at which no error is above the target."""

    def good(eps: str) -> bool:
        plan, _ = plan_of({**question, "eps": eps, "rho": None}, opened.facts)
        found = plan.forecast()
        names = ("standard error",) if target.of == "standard error" else ("95% within ±", "standard error")
        place = next((found.columns.index(name) for name in names if name in found.columns), None)
        if place is None:
            raise ParameterError(
                "this question has no such error", given=target.of, needed=", ".join(found.columns)
            )
        times = 1.0 if found.columns[place] == names[0] else 1.96
        return all(
            times * float(row[place]) <= float(target.within)
            for row in found.rows
            if not isinstance(row[place], str)
        )

    low, high = -4_000, 4_000  # eps is 10^(k/1000), rounded up to three digits
    if not good(_three(high)):
        raise ParameterError(
            "no eps is large enough for this error",
            given=f"{target.within}",
            needed="a larger error, or fewer columns",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(_three(middle)) else (middle, high)
    return _three(high)


def _three(thousandths: int) -> str:
    return f"{10 ** (thousandths / 1000):.3g}"


# Questions


@router.post(
    "/v1/datasets/{dataset}/questions",
    response_model=models.Job,
    status_code=202,
    responses={200: {"model": models.Job, "description": "asked before: the same answer, free"}},
)
def ask(
    dataset: str,
    question: models.Question,
    request: Request,
    desk: AtDesk,
    person: Asker,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
    ] = None,
) -> Response:
    """Asks. The answer leaves at a public time; what it costs is reserved before this returns, and never refunded."""
    opened = desk.dataset(dataset, person)
    rated(request, "questions", person, desk.settings.limits.questions_per_minute)
    row = desk.ask(
        person, opened, question.model_dump(exclude_none=True, exclude_defaults=True), idempotency_key
    )
    request.app.state.metrics.count("oboro_questions_total", dataset=dataset, kind=row.kind)
    made = job(desk, row, person)
    return told(made, 200 if made.state == "done" else 202, answer_of(desk, row, made))


def job(desk: Desk, row: jobs.Row, person: Person) -> models.Job:
    """A job as its asker may see it: a clock, until its answer leaves."""
    time = now()
    state, due = jobs.state_at(desk.leader(row), time)
    return models.Job(
        id=row.id, dataset=row.dataset, account=row.account, question=json.loads(row.question), state=state, cost=json.loads(row.cost),
        due=at(due), due_in=None if due is None else max(0, due - time) / 1000, why=row.why if person.role == "steward" else None,
    )  # fmt: skip


def answer_of(desk: Desk, row: jobs.Row, made: models.Job) -> bytes | None:
    """The answer that goes with a job, unless it is so large that it has to be asked for."""
    if made.state != "done":
        return None
    found = desk.answer(row)
    return found if len(found) <= answers.KEPT else None


@router.get("/v1/questions", response_model=list[models.Job])
def questions(
    desk: AtDesk, person: Asker, state: Annotated[str | None, Query(pattern="^(waiting|open)$")] = None
) -> list[models.Job]:
    """Your questions, the newest first; for a steward everybody's."""
    return [job(desk, row, person) for row in desk.listed(person, waiting=state == "waiting")]


@router.get("/v1/questions/{id}", response_model=models.Job)
def question(id: str, desk: AtDesk, person: Asker) -> Response:
    """What became of a question."""
    row = desk.job(id, person)
    made = job(desk, row, person)
    return told(made, answer=answer_of(desk, row, made))


@router.get(
    "/v1/questions/{id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {}}}}},
)
async def events(id: str, request: Request, desk: AtDesk, person: Asker) -> StreamingResponse:
    """The clock of a question as server-sent events, and its end."""
    row = await run_in_threadpool(desk.job, id, person)
    watched: Counter[str] = request.app.state.watched
    if watched[person.name] >= desk.settings.limits.streams:
        raise Crowded("too many clocks are watched at once", needed=f"at most {desk.settings.limits.streams}")

    async def clock() -> AsyncIterator[str]:
        if watched[person.name] >= desk.settings.limits.streams:
            return  # of many that came at once, none had begun when it was looked
        watched[person.name] += 1
        try:
            async for line in ticks():
                yield line
        finally:
            watched[person.name] -= 1

    async def ticks() -> AsyncIterator[str]:
        while True:
            if not await run_in_threadpool(people.is_open, desk.database, person.token):
                return  # revoked, or over
            seen = await run_in_threadpool(lambda: job(desk, desk.job(row.id, person), person))
            yield f"event: {seen.state}\ndata: {seen.model_dump_json(exclude={'answer'})}\n\n"
            if seen.state not in ("pending", "waiting"):
                return
            wait = 1.0 if seen.due_in is None else min(seen.due_in, 5.0)
            await asyncio.sleep(max(wait, 0.001))

    return StreamingResponse(
        clock(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )  # a proxy passes each event on


NotNegative = Annotated[bool, Query(description="counts raw and at 0 or more, with the 95% interval of each")]
_FILES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "json": "application/json"}


@router.get(
    "/v1/questions/{id}/release",
    response_class=Response,
    responses={
        200: {
            "content": {
                kind: {"schema": {"type": "string"}} for kind in _FILES.values() if kind != "application/json"
            }
            | {"application/json": {"schema": models.Answer.model_json_schema()}}
        }
    },
)
def release(
    id: str,
    desk: AtDesk,
    person: Asker,
    format: Annotated[str, Query(pattern="^(json|csv|parquet)$")] = "json",
    not_negative: NotNegative = False,
) -> Response:
    """The answer: as JSON with its certificate, or the file alone. With `not_negative` counts are given raw and at 0 or more."""
    found = desk.answer(desk.job(id, person))
    if format == "json" and not not_negative:
        return Response(found, media_type="application/json")
    given = _released(desk, id, person)
    if format == "json":
        counts = given.not_negative().to_pylist()
        whole = json.dumps({**json.loads(found), "counts": counts}, ensure_ascii=False, default=str)
        return Response(whole, media_type="application/json")
    return Response(_file(given, f".{format}", not_negative, format == "parquet"), media_type=_FILES[format])


def _file(given: Release, ending: str, not_negative: bool, stored: bool = False) -> bytes:
    """A release as a file, byte for byte as `save` writes it; `stored`: as the ledger keeps it."""
    table = given.not_negative() if not_negative else given.outgoing()
    same = not not_negative and ending == ".parquet" and (stored or table is given.to_arrow())
    return given.content if same else bytes(given.plan.encoded(table, ending))


@router.get(
    "/v1/questions/{id}/certificate",
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
def certificate(
    id: str,
    desk: AtDesk,
    person: Asker,
    file: Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f]+$")] = None,
    not_negative: NotNegative = False,
) -> Response:
    """The certificate of an answer; with the name of a file, bound to that file as oboro writes it."""
    given = _released(desk, id, person)
    signed = given.certificate
    if file is not None:
        from pathlib import Path

        content = _file(given, checked_ending(given.plan, Path(file)), not_negative)
        signed = certify_file(signed, file, content, _opened(desk, id, person).ledger.sign)
    return Response(signed.to_bytes(), media_type="application/json")


def _opened(desk: Desk, id: str, person: Person) -> Opened:
    return desk.datasets[desk.job(id, person).dataset]


def _released(desk: Desk, id: str, person: Person) -> Release:
    row = desk.job(id, person)
    ledger = desk.datasets[row.dataset].ledger
    return answers.unpacked(
        json.loads(desk.answer(row)), ledger.sign, public_key=None, dataset=ledger.dataset, ledger=ledger.id
    )


@router.post("/v1/login", response_model=models.NewToken)
def log_in(asked: models.ToLogIn, request: Request, desk: AtDesk) -> models.NewToken:
    """A token of half a day, for a password."""
    if not request.app.state.rates.take("login", asked.name, 10) or not request.app.state.rates.take(
        "login", "", 120
    ):
        raise Crowded("too many attempts", needed="a little patience")
    token = people.log_in(desk.database, asked.name, asked.password)
    if token is None:
        raise HTTPException(401)
    return models.NewToken(id=token.split("_")[1], token=token)


def create_app(desk: Desk) -> Any:
    """The whole service as an ASGI application."""
    from oboro.service.office import router as office
    from oboro.service.studio.routes import create_studio

    app = FastAPI(
        title="oboro",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would lead to whatever host the request named
        openapi_url="/v1/openapi.json",
        separate_input_output_schemas=False,
    )
    app.state.desk, app.state.rates, app.state.metrics = desk, Rates(), Metrics()
    app.state.watched = Counter()
    app.include_router(router)
    app.include_router(office)
    app.add_api_route("/healthz", healthz, include_in_schema=False)
    app.add_api_route("/", lambda: RedirectResponse("/studio/"), include_in_schema=False)
    app.mount("/studio", create_studio(desk, app.state.rates, app.state.metrics))
    app.add_api_route("/studio", lambda: RedirectResponse("/studio/"), include_in_schema=False)

    @app.exception_handler(OboroError)
    async def refused(_: Request, error: OboroError) -> JSONResponse:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def unlike(_: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(misshapen(error.errors(), skip=1))

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        words = {
            401: "the name or the password is wrong",
            404: "there is no such thing",
            405: "there is no such verb here",
        }
        wrong = OboroError(words.get(error.status_code, "the request is not understood"))
        name = {401: "Unauthorized", 404: "Unknown"}.get(error.status_code, "ParameterError")
        return JSONResponse(
            {**wrong.to_dict(), "error": name}, status_code=error.status_code, headers=error.headers
        )

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(
            {
                **OboroError("the service failed; nothing more can be said").to_dict(),
                "error": "InternalError",
            },
            status_code=500,
        )

    app.openapi_schema = _with_tokens(app.openapi())
    return Door(app, desk.database, desk.settings, app.state.rates, app.state.metrics), app


def _with_tokens(schema: Record) -> Record:
    """The schema says that tokens are needed, and where not."""
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, verbs in schema["paths"].items():
        for verb in verbs.values():
            if path not in ("/v1/healthz", "/v1/login"):
                verb["security"] = [{"token": []}]
    return schema
