"""Who is who: analysts, stewards and auditors, their tokens and passwords. Neither is kept: only what it hashes to."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import sqlalchemy as sa

from oboro.errors import ParameterError, setting, told
from oboro.kinds import shown
from oboro.service import database as schema
from oboro.service.database import Database, now

Role = Literal["analyst", "steward", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN = re.compile(r"oboro_([0-9a-f]{16})_([0-9a-f]{64})")
_DAY = 24 * 60 * 60 * 1000
SESSION = _DAY // 2  # how long a token lives that a password gave


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is known to the service."""

    name: str
    role: Role
    token: str  # the public half: its id
    through: str | None = (
        None  # who else could have the token: whoever made it for them, or set their password
    )


def add(database: Database, name: str, role: str = "analyst") -> None:
    """Makes somebody known; the same again changes nothing, another role is refused."""
    checked_name(name)
    if role not in ROLES:
        raise ParameterError(
            "the role is unknown",
            given=told(role=shown(role)),
            needed=", ".join(ROLES),
            fix=setting(role="analyst"),
        )
    with database.writing() as connection:
        known = connection.execute(
            sa.select(schema.people.c.role).where(schema.people.c.name == name)
        ).scalar()
        if known is None:
            connection.execute(schema.people.insert().values(name=name, role=role, since=now()))
        elif known != role:
            raise ParameterError(
                f"{name} has another role already",
                given=told(role=shown(role)),
                needed=str(known),
                fix=setting(role=str(known)),
            )


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            "name cannot be used",
            given=told(name=shown(name)),
            needed="1 to 64 letters, digits, dots, dashes",
            fix=setting(name="lab-3"),
        )
    return name


def listed(database: Database) -> list[tuple[str, str, int]]:
    """Name, role and since when."""
    with database.reading() as connection:
        rows = connection.execute(sa.select(schema.people).order_by(schema.people.c.name))
        return [(row.name, row.role, row.since) for row in rows]


def role_of(database: Database, name: str) -> str | None:
    if not _NAME.fullmatch(name):  # nor can every database be asked about it
        return None
    with database.reading() as connection:
        found = connection.execute(
            sa.select(schema.people.c.role).where(schema.people.c.name == name)
        ).scalar()
        return None if found is None else str(found)


def create_token(
    database: Database,
    name: str,
    *,
    days: int | None = None,
    lasting: int | None = None,
    maker: str | None = None,
    by: str | None = None,
) -> str:
    """A new token, 256 bits of it secret. It is shown once: what is kept is its hash.

    `maker`: the id of the token that asks for it. Whoever revokes that one revokes all that it made. What is asked with a token is not
    for whoever made it to approve, nor, if it was made with such a one, for whoever made that. `by`: the same of a password.
    """
    if role_of(database, name) is None:
        raise ParameterError(
            "there is nobody of this name",
            given=told(name=shown(name)),
            needed="an analyst, steward or auditor who was added",
            fix=f"oboro analyst add service.toml {name} ...",
        )
    number, secret = secrets.token_hex(8), secrets.token_hex(32)
    since = now()
    until = since + days * _DAY if days is not None else since + lasting if lasting is not None else None
    with database.writing() as connection:
        if maker is not None:  # locked, so that it is not revoked meanwhile
            made = schema.tokens
            opens = sa.select(made.c.person, made.c.by).where(made.c.id == maker, made.c.revoked.is_(None))
            found = connection.execute(opens.with_for_update()).first()
            if found is None:
                raise ParameterError("the token was revoked", needed="a token that opens something")
            by = found.person if found.person != name else found.by
        connection.execute(
            schema.tokens.insert().values(
                id=number, person=name, hash=_hash(secret), since=since, until=until, maker=maker, by=by
            )
        )
    return f"oboro_{number}_{secret}"


def revoke_token(database: Database, number: str, *, alone: bool = False) -> bool:
    """From now on the token opens nothing, nor does any that it made. Whether there was such a one.

    `alone`: what it made stays, as when somebody logs out.
    """
    table, time, known = schema.tokens, now(), 0
    with database.writing() as connection:
        found = [number]
        while found:  # those that were revoked before are passed through: what they made may be younger
            here = sa.and_(table.c.id.in_(found), table.c.revoked.is_(None))
            known += connection.execute(table.update().where(here).values(revoked=time)).rowcount
            made = sa.select(table.c.id).where(table.c.maker.in_(found))
            found = [] if alone else list(connection.execute(made).scalars())
    return known > 0


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token: nothing that opens anything."""

    id: str
    person: str
    since: int
    until: int | None
    revoked: int | None


def tokens_of(database: Database, name: str | None = None) -> list[Token]:
    """All tokens, or those of one person, the oldest first."""
    table = schema.tokens
    query = sa.select(table.c.id, table.c.person, table.c.since, table.c.until, table.c.revoked)
    query = query.order_by(table.c.since, table.c.id)
    with database.reading() as connection:
        rows = connection.execute(query if name is None else query.where(table.c.person == name))
        return [Token(row.id, row.person, row.since, row.until, row.revoked) for row in rows]


def is_open(database: Database, number: str) -> bool:
    """Whether a token opens anything still."""
    table = schema.tokens
    with database.reading() as connection:
        row = connection.execute(
            sa.select(table.c.until, table.c.revoked).where(table.c.id == number)
        ).first()
    return row is not None and row.revoked is None and (row.until is None or row.until > now())


def recognise(database: Database, token: str) -> Person | None:
    """Whose a token is; None for one that opens nothing, whatever the reason."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    row = database.first(_who(), number=found[1])
    known = hmac.compare_digest(_hash(found[2]), bytes(32) if row is None else row.hash)
    if row is None or not known or row.revoked is not None or (row.until is not None and row.until <= now()):
        return None
    return Person(row.person, row.role, row.id, row.by)


@cache
def _who() -> sa.Select[tuple[str, str, bytes, int | None, int | None, str | None, str]]:
    tokens, people = schema.tokens, schema.people
    return (
        sa.select(
            tokens.c.id,
            tokens.c.person,
            tokens.c.hash,
            tokens.c.until,
            tokens.c.revoked,
            tokens.c.by,
            people.c.role,
        )
        .join(people, people.c.name == tokens.c.person)
        .where(tokens.c.id == sa.bindparam("number"))
    )


def set_password(database: Database, name: str, password: str, by: str | None = None) -> None:
    """A password, kept by argon2id. For people; programs have tokens. `by`: who set it, if somebody else did."""
    from nacl import pwhash

    if not 12 <= len(password) <= 1000:
        raise ParameterError(
            "the password is too short, or far too long", given="not shown", needed="12 to 1,000 signs"
        )
    kept = pwhash.argon2id.str(password.encode()).decode()
    with database.writing() as connection:
        found = connection.execute(
            schema.people.update()
            .where(schema.people.c.name == (name if _NAME.fullmatch(name) else ""))
            .values(password=kept, password_by=by)
        )
        if found.rowcount == 0:
            raise ParameterError(
                "there is nobody of this name", given=told(name=shown(name)), needed="somebody who was added"
            )


def log_in(database: Database, name: str, password: str) -> str | None:
    """A token of half a day, for a password; None if it is wrong. It takes as long for a name that is unknown."""
    from nacl import exceptions, pwhash

    known = name if _NAME.fullmatch(name) else ""  # the same is done for a name that nobody can have
    with database.reading() as connection:
        table = schema.people
        row = connection.execute(
            sa.select(table.c.password, table.c.password_by).where(table.c.name == known)
        ).first()
    kept, by = (None, None) if row is None else (row.password, row.password_by)
    try:
        right = pwhash.verify((kept or _nobody()).encode(), password.encode())
    except (exceptions.InvalidkeyError, exceptions.CryptoError):
        right = False
    return create_token(database, name, lasting=SESSION, by=by) if right and kept is not None else None


@cache
def _nobody() -> str:
    from nacl import pwhash

    return str(pwhash.argon2id.str(secrets.token_bytes(32)).decode())


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
