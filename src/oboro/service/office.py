"""The service's API for stewards and auditors: approvals, grants, people, tokens, the ledger."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request, Response

from oboro.errors import OboroError
from oboro.ledger.accounts import Account
from oboro.records import Record
from oboro.service import database as schema
from oboro.service import models, people
from oboro.service.api import REFUSED, Anybody, AtDesk, at, job, role
from oboro.service.desk import Desk, Forbidden, Unknown
from oboro.service.grants import amount_of
from oboro.service.people import Person

router = APIRouter(responses=REFUSED)
Steward = Annotated[Person, Depends(role("steward"))]
Reader = Annotated[Person, Depends(role("steward", "auditor"))]


@router.post("/v1/questions/{id}/approve", response_model=models.Job)
def approve(id: str, desk: AtDesk, person: Steward) -> models.Job:
    """Admits a question that waits; not by whoever asked it."""
    return job(desk, desk.approve(person, desk.job(id, person)), person)


@router.post("/v1/questions/{id}/decline", response_model=models.Job)
def decline(id: str, desk: AtDesk, person: Steward, asked: models.ToDecline | None = None) -> models.Job:
    """Refuses a question that waits. Nothing is spent."""
    return job(desk, desk.decline(person, desk.job(id, person), None if asked is None else asked.why), person)


@router.get("/v1/questions/{id}/plan")
def plan(id: str, desk: AtDesk, person: Steward) -> Record:
    """The plan of a question, in words and with its forecast: what a steward sees before approving."""
    import json

    row = desk.job(id, person)
    asked = desk.quoted(desk.datasets[row.dataset], json.loads(row.question))
    return {
        "words": asked.quote.words,
        "forecast": asked.quote.forecast.to_dict(),
        "plan": asked.quote.record,
    }


# Who may ask, and how much


@router.get("/v1/datasets/{dataset}/grants", response_model=list[models.Grant])
def grants(dataset: str, desk: AtDesk, person: Steward) -> list[models.Grant]:
    """The accounts of a dataset."""
    return [_grant(one) for one in desk.dataset(dataset, person).ledger.accounts()]


@router.post("/v1/datasets/{dataset}/grants", response_model=models.Grant, status_code=201)
def grant(dataset: str, asked: models.ToGrant, desk: AtDesk, person: Steward) -> models.Grant:
    """Gives an analyst a share of the budget, or changes it. It is an entry of the ledger."""
    ledger = desk.dataset(dataset, person).ledger
    if people.role_of(desk.database, asked.account) is None:
        raise Unknown("there is nobody of this name", needed="somebody who was added")
    amount = amount_of(ledger.budget, asked.eps, asked.delta, asked.rho)
    limit = (
        None
        if asked.approve_above is None
        else amount_of(
            ledger.budget,
            asked.approve_above if asked.rho is None else None,
            asked.delta,
            asked.approve_above if asked.rho is not None else None,
        )
    )
    ledger.grant(asked.account, amount, per=asked.per, approve_above=limit, by=person.name)
    desk.forget_grants()
    found = ledger.account(asked.account)
    assert found is not None
    return _grant(found)


@router.post("/v1/datasets/{dataset}/grants/revoke", response_model=models.Grant)
def revoke(dataset: str, asked: models.ToRevoke, desk: AtDesk, person: Steward) -> models.Grant:
    """Takes an analyst's grant away. What was spent is never forgotten."""
    ledger = desk.dataset(dataset, person).ledger
    found = ledger.account(asked.account)
    if found is None or found.granted is None:
        raise Unknown("there is no such account", needed="an account of this dataset")
    ledger.revoke(asked.account, by=person.name)
    desk.forget_grants()
    found = ledger.account(asked.account)
    assert found is not None
    return _grant(found)


def _grant(account: Account) -> models.Grant:
    limit = account.approve_above
    return models.Grant(
        account=account.name, amount=account.amount.to_dict(), per=account.per, spent=account.spent.to_dict(),
        available=account.available.to_dict(), granted=account.granted is not None, approve_above=None if limit is None else limit.to_dict(),
    )  # fmt: skip


# People and their tokens


@router.get("/v1/analysts", response_model=list[models.Known])
def analysts(desk: AtDesk, person: Steward) -> list[models.Known]:
    """Everybody who is known."""
    return [
        models.Known(name=name, role=role, since=at(since) or "")
        for name, role, since in people.listed(desk.database)
    ]


@router.post("/v1/analysts", response_model=models.Known, status_code=201)
def add_analyst(asked: models.ToAdd, desk: AtDesk, person: Steward) -> models.Known:
    """Makes somebody known; a grant says what they may ask."""
    if asked.role == "steward":
        raise _two_of_one("a steward is added on the machine of the service", asked.name)
    people.add(desk.database, asked.name, asked.role)
    return next(one for one in analysts(desk, person) if one.name == asked.name)


@router.get("/v1/tokens", response_model=list[models.Token])
def tokens(desk: AtDesk, person: Anybody) -> list[models.Token]:
    """Your tokens, without what opens anything; for a steward everybody's."""
    found = people.tokens_of(desk.database, None if person.role == "steward" else person.name)
    return [
        models.Token(
            id=one.id,
            name=one.person,
            since=at(one.since) or "",
            until=at(one.until),
            revoked=at(one.revoked),
        )
        for one in found
    ]


@router.post("/v1/tokens", response_model=models.NewToken, status_code=201)
def create_token(asked: models.ToToken, desk: AtDesk, person: Anybody) -> models.NewToken:
    """A new token: of your own, or by a steward for an analyst."""
    if person.role != "steward" and asked.name != person.name:
        raise Forbidden(
            "a token of somebody else is for stewards to make", given=asked.name, needed=person.name
        )
    known = people.role_of(desk.database, asked.name)
    if known is None:
        raise Unknown("there is nobody of this name", needed="somebody who was added")
    if known == "steward" and asked.name != person.name:
        raise _two_of_one("a token of another steward is made on the machine of the service", asked.name)
    token = people.create_token(desk.database, asked.name, days=asked.days, maker=person.token)
    return models.NewToken(id=token.split("_")[1], token=token)


def set_password(name: str, password: str, desk: Desk, person: Person) -> None:
    """A password of your own, or by a steward for an analyst or auditor: whoever sets another's comes in as them."""
    if name != person.name and people.role_of(desk.database, name) == "steward":
        raise _two_of_one(
            "a password of another steward is set on the machine of the service", name, "analyst password"
        )
    people.set_password(desk.database, name, password, None if name == person.name else person.name)


def _two_of_one(message: str, name: str, command: str = "token create") -> Forbidden:
    """Four eyes are two people's: nobody makes a second steward of themselves."""
    return Forbidden(message, given=name, needed="somebody else", fix=f"oboro {command} service.toml {name}")


@router.delete("/v1/tokens/{id}", status_code=204, response_class=Response)
def revoke_token(id: str, desk: AtDesk, person: Anybody) -> Response:
    """From now on the token opens nothing, nor does any that was made with it."""
    listed = people.tokens_of(desk.database, None if person.role == "steward" else person.name)
    own = {one.id for one in listed}
    if id not in own or not people.revoke_token(desk.database, id):
        raise Unknown("there is no such token", needed="the id of a token of yours that was not revoked")
    return Response(status_code=204)


# The ledger


@router.get("/v1/datasets/{dataset}/ledger")
def entries(
    dataset: str,
    desk: AtDesk,
    person: Reader,
    first: Annotated[int, Query(ge=0, le=2**62)] = 0,
    most: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[Record]:
    """Entries of the ledger, from one on."""
    history = desk.dataset(dataset, person).ledger.history()
    return [
        {"position": one.position, "kind": one.kind, "hash": one.hash, "body": one.body}
        for one in history[first : first + most]
    ]


@router.get("/v1/datasets/{dataset}/ledger/verification", response_model=models.Verified)
def verification(dataset: str, desk: AtDesk, person: Reader) -> models.Verified:
    """Checks every entry and all that is stored."""
    try:
        found = desk.dataset(dataset, person).ledger.verify()
    except Unknown:
        raise
    except OboroError as error:
        return models.Verified(
            verified=False, entries=None, spent=None, refusal=models.Refusal.model_validate(error.to_dict())
        )
    return models.Verified(verified=True, entries=found.entries, spent=found.spent.to_dict())


@router.get("/v1/datasets/{dataset}/ledger/head", response_model=models.Head)
def head(dataset: str, desk: AtDesk, person: Reader) -> models.Head:
    """The last entry in one line. Keep it elsewhere."""
    found = desk.dataset(dataset, person).ledger.head()
    return models.Head(position=found.position, hash=found.hash)


@router.get("/v1/datasets/{dataset}/ledger/export")
def export(dataset: str, desk: AtDesk, person: Reader) -> Record:
    """All entries, the head and the public keys, for others to check."""
    return dict(desk.dataset(dataset, person).ledger.export_dict())


# What a steward watches


@router.get("/v1/alerts", response_model=list[models.Alert])
def alerts(
    desk: AtDesk, person: Steward, most: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> list[models.Alert]:
    """What a steward should see: answers that were not ready when due, and lost ones with the reason. The newest first."""
    table = schema.alerts
    with desk.database.reading() as connection:
        rows = list(connection.execute(sa.select(table).order_by(table.c.number.desc()).limit(most)))
    return [
        models.Alert(number=row.number, time=at(row.time) or "", job=row.job, words=row.words) for row in rows
    ]


@router.get(
    "/v1/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request, person: Steward) -> Response:
    """Counts for Prometheus: by public facts alone."""
    return Response(str(request.app.state.metrics), media_type="text/plain; version=0.0.4")
