"""Where a ledger lives: a path means SQLite, a URL means PostgreSQL."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from oboro.errors import ParameterError
from oboro.kinds import path_of
from oboro.ledger.file import real_path


@dataclass(frozen=True, slots=True)
class Place:
    """One of `path` and `url` is set. `path` is the real one; `shown` may be printed: it has no password."""

    shown: str
    path: Path | None = None
    url: URL | None = field(default=None, repr=False)

    @classmethod
    def of(cls, where: str | os.PathLike[str]) -> Place:
        text = os.fspath(where) if isinstance(where, str | os.PathLike) else ""
        if not isinstance(text, str) or not text.strip() or "\0" in text or not text.isprintable():
            raise ParameterError(
                "where names no place", given=repr(where), needed="a path or a URL", fix='"city.ledger"'
            )
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
        if scheme is None:
            return cls(shown=text, path=real_path(path_of("where", text)))
        if scheme[1] not in ("postgresql", "postgres", "postgresql+psycopg"):
            raise ParameterError(
                "where names a database that oboro does not know",
                given=f"{scheme[1]}://...",
                needed="a path (SQLite) or a URL that begins with postgresql://",
                fix='"city.ledger"',
            )
        try:
            url = make_url(text).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            raise ParameterError(
                "where is not a URL", given=f"{scheme[1]}://...", fix='"postgresql://user@host/database"'
            ) from None
        return cls(shown=_without_secrets(url), url=url)

    def key_path(self, ledger_id: str, key: str | os.PathLike[str] | None) -> Path:
        """Where the private key is kept: beside a file, or in the user's own folder for a server."""
        if key is not None:
            return path_of("key", key).absolute()
        if self.path is not None:
            beside = self.path.with_name(self.path.name + ".key")
            named = Path(self.shown + ".key").absolute()  # where 0.1 kept it, beside a symbolic link
            return named if named.exists() and not beside.exists() else beside
        folder = os.environ.get("OBORO_KEYS") or os.path.expanduser("~/.config/oboro/keys")
        return Path(folder, f"{ledger_id}.key").absolute()


def _without_secrets(url: URL) -> str:
    """User, host and database; options are left out, for a password may be among them."""
    host = url.host or url.query.get("host") or "localhost"
    host = host if isinstance(host, str) else ",".join(host)
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{user}{host}{port}/{url.database or ''}"
