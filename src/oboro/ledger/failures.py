"""What a database says when something goes wrong, in words that help. No foreign exception leaves the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from oboro.errors import LedgerError
from oboro.ledger.file import moved
from oboro.ledger.place import Place
from oboro.payment import NOTHING_RECORDED, PERHAPS_RECORDED


@dataclass(slots=True)
class Progress:
    """How far a transaction has come: only a failure of its very last step leaves a doubt."""

    writing: bool = False
    committing: bool = False

    @property
    def outcome(self) -> str:
        if not self.writing:
            return ""
        return " " + (PERHAPS_RECORDED if self.committing else NOTHING_RECORDED)


@contextmanager
def in_words(place: Place, progress: Progress, foreign: type[Exception]) -> Iterator[None]:
    """Turns database errors into LedgerError. The cause is not chained: it would show statements and URLs."""
    try:
        yield
    except PoolTimeout:
        raise _busy(place, progress) from None
    except UnicodeDecodeError:  # SQLite quotes the damaged part of a schema in its message
        raise _damaged(place, "it holds what is no text") from None
    except (SQLAlchemyError, foreign) as error:
        raw = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        if isinstance(raw, sqlite3.Error):
            raise _sqlite(place, raw, progress) from None
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        raise _postgres(place, raw, progress, lost=lost) from None


def _sqlite(place: Place, error: sqlite3.Error, progress: Progress) -> LedgerError:
    code = getattr(error, "sqlite_errorname", None) or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy(place, progress)
    if code == "SQLITE_FULL":
        return LedgerError(
            "the disk is full." + progress.outcome,
            given=place.shown,
            needed="free space",
            fix="make room and try again",
        )
    if code.startswith("SQLITE_IOERR"):
        return LedgerError(
            "the disk could not be read or written." + progress.outcome,
            given=f"{place.shown}: {error} ({code})",
            needed="a healthy disk with free space",
            fix="make room, or look at the disk, and try again",
        )
    if code == "SQLITE_NOTADB":
        return LedgerError(
            "the file is not a ledger", given=place.shown, fix="a ledger of its own, in a new file"
        )
    if code.startswith("SQLITE_CORRUPT"):
        return _damaged(place, error)
    if code == "SQLITE_READONLY_DBMOVED":
        return moved(place.shown, progress.outcome)
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return LedgerError(
            "the ledger cannot be opened for this: permission denied, or its folder does not exist."
            + progress.outcome,
            given=f"{place.shown}: {error}",
            needed="the right to read and write the file and its folder",
        )
    return LedgerError("the ledger cannot be used." + progress.outcome, given=f"{place.shown}: {error}")


def _postgres(place: Place, error: BaseException, progress: Progress, *, lost: bool) -> LedgerError:
    state = getattr(error, "sqlstate", None)
    if state in ("55P03", "40001", "40P01"):
        return _busy(place, progress)
    if state in ("53100", "53200"):
        return LedgerError(
            "the disk of the server is full." + progress.outcome, given=place.shown, needed="free space"
        )
    if state is not None and state.startswith("42501"):
        return LedgerError(
            "permission denied by the server", given=f"{place.shown}: {_first_line(error, place)}"
        )
    if lost or (state or "").startswith(("08", "57P", "25P03")):
        return LedgerError(
            "the connection to the ledger was lost." + progress.outcome,
            given=place.shown,
            needed="a reachable server",
            fix=f"oboro ledger show {place.shown}, once the server is back",
        )
    if state is None and not progress.writing and not progress.committing:
        return LedgerError(
            "cannot connect to the ledger", given=f"{place.shown}: {_first_line(error, place)}"
        )
    return LedgerError(
        "the ledger cannot be used." + progress.outcome, given=f"{place.shown}: {_first_line(error, place)}"
    )


def _damaged(place: Place, why: object) -> LedgerError:
    return LedgerError(
        "the file is damaged", given=f"{place.shown}: {why}", fix="restore a backup, then `verify` it"
    )


def _busy(place: Place, progress: Progress) -> LedgerError:
    return LedgerError(
        "the ledger is busy: others have kept it locked for a minute." + progress.outcome,
        given=place.shown,
        fix="try again, or look for a process that hangs",
    )


def _first_line(error: BaseException, place: Place) -> str:
    """The server's own words, without a password that they might repeat."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    secrets = [place.url.password] if place.url is not None and place.url.password else []
    if place.url is not None:
        secrets += [
            value for name, value in place.url.query.items() if "password" in name and isinstance(value, str)
        ]
    for secret in secrets:
        text = text.replace(str(secret), "***")
    return text
