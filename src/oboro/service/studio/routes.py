"""The studio as an application of its own, below /studio: its pages, its files, the way in and out."""

from __future__ import annotations

import hmac
import json
import threading
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from oboro.errors import OboroError
from oboro.language import LANGUAGES
from oboro.report.page import MARK, asset
from oboro.service import database as schema
from oboro.service import jobs, people
from oboro.service.arrivals import Arrivals
from oboro.service.database import now
from oboro.service.desk import Crowded, Desk, Unknown
from oboro.service.studio import budgets, entrance
from oboro.service.studio.page import SPOKEN, Form, Visit, fields, form, gone_to, refused, shown, to, visit
from oboro.service.studio.releases import released

if TYPE_CHECKING:
    from oboro.service.door import Metrics, Rates

Here = Annotated[Visit, Depends(visit)]
Fields = Annotated[Form, Depends(fields)]
Sent = Annotated[Form, Depends(form)]
router = APIRouter()

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
_ENTRANCE = threading.Lock()
_FILES = ("mark.svg", "studio.css", "studio.js", "htmx.min.js", "htmx.LICENSE", "page.css")


def places(here: Visit) -> list[tuple[str, str, str]]:
    """The pages that somebody may open: address, name, and the word of the address."""
    say, role = here.say, here.person.role
    asks = [
        ("ask", say("Ask")),
        ("tables", say("Tables")),
        ("synthetic", say("Synthetic data")),
        ("releases", say("Releases")),
    ]
    decides = [("approvals", say("Approvals")), ("analysts", say("Analysts"))]
    listed = [("", say("Home"))]
    if role == "steward":
        listed.append(("declare", say("Declare")))
    if role in ("steward", "analyst"):
        listed += asks
    if role == "steward" and not here.local:
        listed += decides
    if role in ("steward", "auditor"):
        listed.append(("account", say("Account")))
    return [(to(word) if word else to(""), name, word) for word, name in listed]


# Home


@router.get("/")
def home(here: Here) -> Response:
    """Each dataset's budget, what happened last, what waits for a decision."""
    desk, person = here.desk, here.person
    listed = []
    for opened in desk.visible(person):
        ledger = opened.ledger
        account = None if here.local else ledger.account(person.name)
        own = account is not None and account.granted is not None and person.role == "analyst"
        listed.append(
            {
                "name": opened.facts.dataset,
                "unit": here.sentence(opened.facts.unit),
                "tabled": opened.facts.tabled,
                "columns": len(opened.facts.domain),
                "budget": budgets.of_account(here, account)
                if own and account
                else budgets.of_ledger(here, ledger),
                "own": own,
            }
        )
    rows = [] if person.role == "auditor" else desk.listed(person, most=12)
    waiting = [] if person.role != "steward" else desk.listed(person, waiting=True)
    return shown(
        here,
        "home.html",
        datasets=listed,
        happened=[told(here, row) for row in rows],
        waiting=len(waiting),
        alerts=_alerts(here),
    )


def told(here: Visit, row: jobs.Row) -> dict[str, Any]:
    """A question as a line of a list, in the words of the plan that was made of it: a declaration may be another by now."""
    led = here.desk.leader(row)
    state, _ = jobs.state_at(led, now())
    return {
        "id": row.id,
        "dataset": row.dataset,
        "account": row.account,
        "state": state,
        "said": state_words(here)[state],
        "words": here.name(released(json.loads(row.plan))),
        "when": here.when(row.asked),
        "cost": _cost(row),
        "place": to("questions", row.id),
    }


def state_words(here: Visit) -> dict[str, str]:
    return {
        "waiting": here.say("waits for approval"),
        "pending": here.say("on its way"),
        "done": here.say("answered"),
        "lost": here.say("lost"),
        "declined": here.say("declined"),
    }


def _cost(row: jobs.Row) -> str:
    from oboro.privacy import guarantee_from

    return budgets.amount(guarantee_from(json.loads(row.cost)))


def _alerts(here: Visit) -> list[tuple[str, str]]:
    if here.person.role != "steward" or here.local:
        return []
    table = schema.alerts
    with here.desk.database.reading() as connection:
        rows = list(connection.execute(sa.select(table).order_by(table.c.number.desc()).limit(5)))
    return [(here.when(row.time), here.sentence(row.words)) for row in rows]


# The way in and out


def _visitor(request: Request) -> Visit:
    return visit(request)


@router.get("/login")
def login_page(here: Here, asked: Fields) -> Response:
    """The way in, with a name and a password, or with a token."""
    if here.person is not None:
        return gone_to(entrance.back_to(asked.get("back", "")))
    return shown(here, "login.html", wanted=asked.get("back", ""), wrong=False, entrance=here.local)


@router.post("/login")
def log_in(here: Here, sent: Sent) -> Response:
    """A session of half a day, for a password or a token."""
    state, desk = here.request.app.state, here.desk
    name, password, token = sent.get("name", "")[:64], sent.get("password", "")[:1000], sent.get("token", "")
    if not state.rates.take("login", name, 10) or not state.rates.take("login", "", 120):
        raise Crowded("too many attempts", needed="a little patience")
    made = None
    if token:
        person = people.recognise(desk.database, token.strip())
        if person is not None:
            made = people.create_token(desk.database, person.name, lasting=people.SESSION, maker=person.token)
    elif name and password:
        made = people.log_in(desk.database, name, password)
    if made is None:
        return shown(here, "login.html", 401, wanted=sent.get("back", ""), wrong=True, entrance=here.local)
    return _entered(desk, made, entrance.back_to(sent.get("back", "")))


@router.get("/enter")
def enter(here: Here, asked: Fields) -> Response:
    """The address that `oboro studio` prints: it opens once."""
    state = here.request.app.state
    with _ENTRANCE:  # of two who come at once, one comes in
        once, given = state.once, asked.get("token", "")
        opens = once is not None and hmac.compare_digest(once.encode(), given.encode())
        state.once = None if opens else once
    if not opens:
        if here.person is not None:
            return gone_to(to(""))
        return shown(here, "login.html", 401, wanted="", wrong=True, entrance=True)
    made = people.create_token(here.desk.database, here.desk.owner or "", lasting=people.SESSION)
    return _entered(here.desk, made, to(""))


def _entered(desk: Desk, token: str, place: str) -> Response:
    response = gone_to(place)
    response.headers["set-cookie"] = entrance.cookie(desk.settings, token)
    return response


@router.post("/logout")
def log_out(here: Here) -> Response:
    """The session opens nothing any more."""
    people.revoke_token(here.desk.database, here.person.token, alone=True)
    response = gone_to(to("login"))
    response.headers["set-cookie"] = entrance.cookie(here.desk.settings, None)
    return response


@router.get("/language/{language}")
def speak(language: str, here: Here, asked: Fields) -> Response:
    """The same page in another language."""
    response = RedirectResponse(entrance.back_to(asked.get("back", "")), status_code=303)
    if language in LANGUAGES:
        response.headers["set-cookie"] = f"{SPOKEN}={language}; Path=/studio; SameSite=Lax; Max-Age=31536000"
    return response


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Our own files: style, script, htmx with its licence."""
    if name not in _FILES:
        raise HTTPException(404)
    kind = next(kind for ending, kind in _KINDS.items() if name.endswith(ending))
    return Response(_file(name), media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _file(name: str) -> str:
    if name == "page.css":
        return asset(name)
    if name == "mark.svg":
        return MARK.format(more='xmlns="http://www.w3.org/2000/svg"')
    return resources.files("oboro.service.studio").joinpath("static", name).read_text(encoding="utf-8")


# The application


def create_studio(desk: Desk, rates: Rates, metrics: Metrics) -> FastAPI:
    """The studio as an application; what it refuses, it refuses in the reader's language."""
    from oboro.service.api import status_of
    from oboro.service.studio import ask, declare, hours, office, releases, synthetic, tables

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.desk, app.state.rates, app.state.metrics = desk, rates, metrics
    app.state.once, app.state.arrivals = None, Arrivals(desk)
    for part in (
        router,
        ask.router,
        releases.router,
        office.router,
        tables.router,
        hours.router,
        synthetic.router,
        declare.router,
    ):
        app.include_router(part)

    @app.exception_handler(OboroError)
    async def no(request: Request, error: OboroError) -> Response:
        return refused(visit(request), error, status_of(error))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(HTTPException)
    async def lost(request: Request, _: Exception) -> Response:
        return refused(
            visit(request), Unknown("there is no such page", needed="an address of the studio"), 404
        )

    @app.exception_handler(ClientDisconnect)
    async def long(request: Request, _: Exception) -> Response:
        return refused(visit(request), OboroError("the request is too large", needed="a smaller one"), 413)

    @app.exception_handler(Exception)
    async def broken(request: Request, _: Exception) -> Response:
        return refused(visit(request), OboroError("the service failed; nothing more can be said"), 500)

    return app
