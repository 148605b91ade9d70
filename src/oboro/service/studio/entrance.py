"""Who comes in: a cookie in place of a token, what a browser may send, and what it may load.

A cookie goes to the studio alone and never opens the API. It is SameSite, and whatever changes something must come from a page of
this very address: a page of somebody else's cannot ask, approve or grant. Scripts and styles are our own files, nothing is evaluated,
nothing is loaded from elsewhere.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from starlette.requests import cookie_parser

from oboro.service.settings import Settings

OPEN = ("/studio/login", "/studio/enter", "/studio/language/en", "/studio/language/ja")
STATIC = "/studio/static/"
UPLOAD = "/studio/declare/file"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_SAFE = ("GET", "HEAD")
_HERE = re.compile(
    r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?"
)  # this machine, whatever the port: a tunnel may have another
Headers = list[tuple[bytes, bytes]]


def is_here(path: str) -> bool:
    return path == "/studio" or path.startswith("/studio/")


def is_open(path: str) -> bool:
    """What anybody sees: the way in, and files that are the same for everybody."""
    return path in OPEN or path.startswith(STATIC)


def cookie_name(settings: Settings) -> str:
    """Browsers keep cookies by host, not by port: two studios on one machine must not take each other's."""
    return f"oboro_session_{settings.port}"


def token_in(headers: Headers, settings: Settings) -> str | None:
    for name, value in headers:
        if name == b"cookie":
            # whatever other programs of this host keep in theirs
            return cookie_parser(value.decode("latin-1")).get(cookie_name(settings))
    return None


def cookie(settings: Settings, token: str | None) -> str:
    """The header that sets it, or takes it away."""
    secure = "; Secure" if settings.certificate is not None or settings.behind_proxy else ""
    lasting = "; Max-Age=0" if token is None else ""
    return f"{cookie_name(settings)}={token or ''}; Path=/studio; HttpOnly; SameSite=Lax{secure}{lasting}"


def is_foreign(method: str, headers: Headers) -> bool:
    """Whether something that changes anything was not sent by a page of this address."""
    if method in _SAFE:
        return False
    given = {name: value.decode("latin-1") for name, value in headers}
    if (site := given.get(b"sec-fetch-site")) is not None and site != "same-origin":
        return True
    origin, host = given.get(b"origin"), given.get(b"host")
    return origin is None or host is None or urlsplit(origin).netloc != host


def is_named_otherwise(headers: Headers) -> bool:
    """Whether a request names another host than this machine: a page of somebody else's, whose name was led here."""
    host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
    return _HERE.fullmatch(host) is None


def to_login(path: str, query: bytes, by_part: bool) -> tuple[int, Headers]:
    """Where somebody is sent who is not known: a part of a page takes the whole page there."""
    where = path + (f"?{query.decode('latin-1')}" if query else "")
    login = f"/studio/login?back={quote(where, safe='')}".encode()
    return (200, [(b"hx-redirect", login)]) if by_part else (303, [(b"location", login)])


def back_to(path: str) -> str:
    """Where to go after the login: a page of the studio, whatever the address said."""
    one = urlsplit(path)
    plain = (
        not one.scheme
        and not one.netloc
        and is_here(one.path)
        and "\\" not in path
        and not path.startswith("//")
    )
    return path if plain else "/studio/"
