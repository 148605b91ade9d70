"""How a page of the studio is made: who looks at it, in which language, and the templates with their one function, `say`.

Everything that goes into a template is escaped. What the reports draw (charts, promises) comes as `Markup` in both languages, and
`in_language` keeps one of them: the pages need no script to be read.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from oboro._version import __version__
from oboro.errors import OboroError
from oboro.exact import about
from oboro.language import LANGUAGES, filled, of_pages, phrase, plain, said
from oboro.report.page import MARK
from oboro.service.desk import Forbidden

if TYPE_CHECKING:
    import jinja2

    from oboro.service.desk import Desk
    from oboro.service.people import Person

ROOT = "/studio"
SPOKEN = "oboro_language"  # a cookie that says nothing of anybody
Form = Mapping[str, str]


@dataclass(frozen=True)
class Visit:
    """One request: at whose desk, by whom, in which language."""

    request: Request
    desk: Desk
    person: Person
    language: str

    @property
    def local(self) -> bool:
        """On one machine, for one steward, without a login."""
        return self.desk.owner is not None

    def say(self, text: str, **values: object) -> str:
        """A sentence of the catalogue; what goes into its holes is plain text."""
        words = text if self.language == "en" else of_pages(text, self.language)
        return filled(words, {name: plain(str(value)) for name, value in values.items()}) if values else words

    def sentence(self, text: object) -> str:
        """What other code says in English."""
        return said(plain(text if isinstance(text, str) else str(text)), self.language)  # `Lines` stay lines

    def name(self, text: object) -> str:
        """What something is called, such as "mean of age by region"."""
        return phrase(str(text), self.language)

    def when(self, milliseconds: int | None = None, *, iso: str | None = None) -> str:
        if iso is not None:
            return iso[:16].replace("T", " ") + " UTC"
        if milliseconds is None:
            return ""
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def visit(request: Request) -> Visit:
    """What the door found out about a request."""
    return Visit(request, request.app.state.desk, request.state.person, language_of(request))


def for_roles(*roles: str) -> Callable[[Request], Visit]:
    """A visit by somebody in one of these roles."""

    def checked(request: Request) -> Visit:
        found = visit(request)
        if found.person.role not in roles:
            raise Forbidden("this is not for your role", given=found.person.role, needed=" or ".join(roles))
        return found

    return checked


def language_of(request: Request) -> str:
    """What the reader chose, or else what the browser asks for first."""
    chosen = request.cookies.get(SPOKEN)
    if chosen in LANGUAGES:
        return chosen
    first = re.match(r"\s*([A-Za-z]{2})", request.headers.get("accept-language", ""))
    return first[1].lower() if first and first[1].lower() in LANGUAGES else "en"


async def form(request: Request) -> dict[str, str]:
    """The fields of a form; of those that came more than once, all in one, a line each."""
    found: dict[str, str] = {}
    for name, value in parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True):
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def fields(request: Request) -> dict[str, str]:
    """The same of an address."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def to(*parts: object, **query: object) -> str:
    """An address of the studio."""
    where = "/".join([ROOT, *(quote(str(part), safe="") for part in parts)])
    asked = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{where}?{urlencode(asked)}" if asked else where


def shown(visit: Visit, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page, or a part of one."""
    from oboro.service.studio import routes

    person = visit.person
    text = (
        templates()
        .get_template(template)
        .render(
            visit=visit,
            say=visit.say,
            to=to,
            lang=visit.language,
            person=person,
            local=visit.local,
            places=routes.places(visit) if person is not None else [],
            here=visit.request.url.path.removeprefix(ROOT).split("/")[1:2],
            back=visit.request.url.path + (f"?{visit.request.url.query}" if visit.request.url.query else ""),
            version=__version__,
            mark=Markup(MARK.format(more="")),
            **facts,
        )
    )
    return HTMLResponse(text, status_code=status)


def told_of(visit: Visit, error: OboroError) -> dict[str, str | None]:
    """A refusal in the reader's language."""
    parts = {"given": error.given, "needed": error.needed, "fix": error.fix}
    told = {name: visit.sentence(text) if text else None for name, text in parts.items()}
    return {"message": visit.sentence(error.message), **told}


def query_of(chosen: Form) -> str:
    """The fields of a form as they stand in an address."""
    return urlencode([(name, one) for name, value in chosen.items() for one in value.split("\n")])


def refused(visit: Visit, error: OboroError, status: int) -> Response:
    """A refusal, kindly: what was wrong, what was given, what is needed, what to do."""
    told = told_of(visit, error)
    part = visit.request.headers.get("hx-request") == "true"
    return shown(visit, "refusal.html" if part else "refused.html", status, **told)


def gone_to(place: str) -> Response:
    """After something was done: the page that shows it."""
    return RedirectResponse(place, status_code=303)


_SPOKEN = re.compile(r' data-en="([^"]*)" data-ja="([^"]*)">([^<]*)<')
_LABEL = re.compile(r'aria-label="([^"]*)" data-label-en="([^"]*)" data-label-ja="([^"]*)"')


def in_language(drawn: str, language: str) -> Markup:
    """What a report drew in both languages, in one of them."""
    place = 1 + LANGUAGES.index(language)
    text = _SPOKEN.sub(lambda found: f">{found[place]}<", drawn)
    return Markup(_LABEL.sub(lambda found: f'aria-label="{found[place + 1]}"', text))


def escape(value: object) -> str:
    return html.escape(plain(str(value)), quote=True)


@cache
def templates() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("oboro.service.studio"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["about"] = about
    return made
