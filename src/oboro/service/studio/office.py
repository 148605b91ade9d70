"""What stewards decide and auditors read: approvals, analysts with their grants and tokens, the account itself.

Each page does what the API's own functions do, by their names: nothing is decided here.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError

from oboro.errors import OboroError
from oboro.ledger.chain import Entry
from oboro.privacy import guarantee_from
from oboro.records import Record
from oboro.release import plan_from
from oboro.release.run import Quote
from oboro.service import jobs, models, office, people
from oboro.service.edition import Opened
from oboro.service.misshapen import misshapen
from oboro.service.studio import budgets, figures
from oboro.service.studio.answer import forecast_rows
from oboro.service.studio.page import Form, Visit, fields, for_roles, form, gone_to, shown, to, told_of

router = APIRouter()
Fields = Annotated[Form, Depends(fields)]
Sent = Annotated[Form, Depends(form)]
M = TypeVar("M", bound=BaseModel)
_PAGE = 100


Steward = Annotated[Visit, Depends(for_roles("steward"))]
Reader = Annotated[Visit, Depends(for_roles("steward", "auditor"))]


def model(kind: type[M], **given: Any) -> M:
    """What the API would be sent; refused as it refuses."""
    try:
        return kind(**{name: value for name, value in given.items() if value not in (None, "")})
    except ValidationError as error:
        raise misshapen(error.errors()) from None


# Approvals


@router.get("/approvals")
def approvals(here: Steward) -> Response:
    """What waits for a decision."""
    rows = here.desk.listed(here.person, waiting=True)
    return shown(here, "approvals.html", waiting=[_waiting(here, row) for row in rows])


@router.get("/approvals/{id}")
def approval(id: str, here: Steward) -> Response:
    """One question that waits: an address for a colleague."""
    row = here.desk.job(id, here.person)
    if row.state != "waiting":
        return gone_to(to("questions", id))
    return shown(here, "approvals.html", waiting=[_waiting(here, row)])


def _waiting(here: Visit, row: jobs.Row) -> Record:
    """The plan in words with its forecast: what a steward sees before approving."""
    opened = here.desk.datasets[row.dataset]
    wrong = None
    try:
        asked = here.desk.quoted(opened, json.loads(row.question))
        here.desk.refuse_outdated(row, asked)
        quote = asked.quote
    except (
        OboroError
    ) as error:  # the data or the declaration is another by now: it can be declined, and no longer answered
        record: Any = json.loads(row.plan)
        plan = plan_from(record)
        quote = Quote(plan, record, plan.describe(), plan.forecast(), guarantee_from(json.loads(row.cost)))
        told = told_of(here, error)
        wrong = here.say("{what}. It can be declined, and asked again.", what=told["message"])
    account = opened.ledger.account(row.account)
    words = {
        name: value for name, value in quote.words.items() if isinstance(value, str) and name != "released"
    }
    return {
        "id": row.id,
        "dataset": row.dataset,
        "account": row.account,
        "own": row.account == here.person.name,
        "through": row.through == here.person.name,
        "wrong": wrong,
        "when": here.when(row.asked),
        "words": here.name(quote.words["released"]),
        "more": [(here.sentence(name), here.name(value)) for name, value in words.items()],
        "unit": here.sentence(quote.plan.unit),
        "guarantee": here.sentence(quote.plan.guarantee),
        "cost": budgets.price(quote.cost),
        "budget": budgets.of_ledger(here, opened.ledger, quote.cost),
        "theirs": None if account is None else budgets.amount(account.available),
        "forecast": forecast_rows(here, quote.forecast),
    }


@router.post("/approvals/{id}/approve")
def approve(id: str, here: Steward) -> Response:
    """Admits it: an entry of the ledger, by a steward who did not ask it."""
    here.desk.approve(here.person, here.desk.job(id, here.person))
    return gone_to(to("approvals"))


@router.post("/approvals/{id}/decline")
def decline(id: str, here: Steward, sent: Sent) -> Response:
    """Says no. Nothing is spent."""
    why = model(models.ToDecline, why=sent.get("why", "").strip()).why
    here.desk.decline(here.person, here.desk.job(id, here.person), why)
    return gone_to(to("approvals"))


# Analysts


@router.get("/analysts")
def analysts(here: Steward) -> Response:
    """Who may ask, and how much."""
    return _analysts(here)


def _analysts(here: Visit, token: tuple[str, str] | None = None) -> Response:
    desk = here.desk
    known = people.listed(desk.database)
    tokens = [one for one in people.tokens_of(desk.database) if one.revoked is None]
    listed = [
        {
            "name": name,
            "role": here.sentence(role),
            "since": here.when(since),
            "tokens": [
                (one.id, here.when(one.since), here.when(one.until)) for one in tokens if one.person == name
            ],
        }
        for name, role, since in known
    ]
    grants = [
        {
            "dataset": opened.facts.dataset,
            "budget": budgets.of_ledger(here, opened.ledger),
            "delta": getattr(opened.ledger.budget.unconditional, "delta", None) is not None,
            "rho": opened.ledger.budget.unconditional.to_dict()["kind"] == "zcdp",
            "accounts": [
                {
                    "name": one.name,
                    "granted": one.granted is not None,
                    "budget": budgets.of_account(here, one),
                    "above": None if one.approve_above is None else budgets.amount(one.approve_above),
                }
                for one in opened.ledger.accounts()
            ],
        }
        for opened in desk.datasets.values()
    ]
    return shown(
        here,
        "analysts.html",
        people=listed,
        grants=grants,
        token=token,
        askers=[name for name, role, _ in known if role != "auditor"],
    )


@router.post("/analysts")
def add(here: Steward, sent: Sent) -> Response:
    """Makes somebody known."""
    asked = model(models.ToAdd, name=sent.get("name", "").strip(), role=sent.get("role", "analyst"))
    office.add_analyst(asked, here.desk, here.person)
    return gone_to(to("analysts"))


@router.post("/analysts/password")
def password(here: Steward, sent: Sent) -> Response:
    """Sets a password, kept by argon2id: one's own, or that of somebody who is no steward."""
    office.set_password(sent.get("name", ""), sent.get("password", ""), here.desk, here.person)
    return gone_to(to("analysts"))


@router.post("/analysts/token")
def new_token(here: Steward, sent: Sent) -> Response:
    """A token, shown once: this page cannot be loaded again with it."""
    made = office.create_token(model(models.ToToken, name=sent.get("name", "")), here.desk, here.person)
    return _analysts(here, (sent.get("name", ""), made.token))


@router.post("/analysts/token/{id}/revoke")
def close_token(id: str, here: Steward) -> Response:
    office.revoke_token(id, here.desk, here.person)
    return gone_to(to("analysts"))


@router.post("/analysts/grant/{dataset}")
def grant(dataset: str, here: Steward, sent: Sent) -> Response:
    """Gives an analyst a share of the budget, or changes it. It is an entry of the ledger."""
    asked = model(
        models.ToGrant,
        **{
            name: sent.get(name, "").strip()
            for name in ("account", "eps", "delta", "rho", "per", "approve_above")
        },
    )
    office.grant(dataset, asked, here.desk, here.person)
    return gone_to(to("analysts"))


@router.post("/analysts/grant/{dataset}/revoke")
def take_away(dataset: str, here: Steward, sent: Sent) -> Response:
    office.revoke(dataset, model(models.ToRevoke, account=sent.get("account", "")), here.desk, here.person)
    return gone_to(to("analysts"))


# The account


@router.get("/account")
def accounts(here: Reader) -> Response:
    datasets = here.desk.visible(here.person)
    if len(datasets) == 1:
        return gone_to(to("account", datasets[0].facts.dataset))
    listed = [(one.facts.dataset, here.sentence(one.facts.unit)) for one in datasets]
    return shown(here, "choose.html", what=here.say("Account"), where="account", datasets=listed)


@router.get("/account/{dataset}")
def account(dataset: str, here: Reader, asked: Fields) -> Response:
    """Entries, the head as text and as a picture, verification, export."""
    opened = here.desk.dataset(dataset, here.person)
    history = opened.ledger.history()
    page = int(asked["page"]) if asked.get("page", "").isdigit() and len(asked["page"]) < 9 else 0
    newest = history[::-1][_PAGE * page : _PAGE * (page + 1)]
    head = office.head(dataset, here.desk, here.person)
    line = f"{head.position} {head.hash}"
    return shown(
        here,
        "account.html",
        dataset=dataset,
        budget=budgets.of_ledger(here, opened.ledger),
        unit=here.sentence(opened.ledger.unit),
        entries=[_entry(here, opened, one) for one in newest],
        many=len(history),
        older=page + 1 if _PAGE * (page + 1) < len(history) else None,
        newer=page - 1 if page else None,
        head=line,
        qr=figures.qr(f"oboro {opened.ledger.id} {line}", describe=here.say("The head as a QR code")),
        key=opened.ledger.public_key,
        ledger=opened.ledger.id,
    )


def _entry(here: Visit, opened: Opened, entry: Entry) -> Record:
    from oboro.service.studio.releases import released

    said = {
        "create": here.say("the ledger was created"),
        "reserve": here.say("paid for"),
        "commit": here.say("released"),
        "grant": here.say("granted"),
        "revoke": here.say("grant taken away"),
        "approve": here.say("approved"),
        "decline": here.say("declined"),
    }.get(entry.kind, here.sentence(entry.kind))
    plan, terms = entry.body.get("plan"), entry.body.get("terms")
    about = here.name(released(plan)) if isinstance(plan, dict) else ""
    if entry.kind == "commit":
        about = here.say("entry {number}", number=entry.body["reservation"])
    if isinstance(terms, dict):
        about = budgets.amount(guarantee_from(terms["amount"])) + (
            " " + here.say("each {period}", period=here.sentence(terms["per"])) if terms.get("per") else ""
        )
    by = entry.body.get("by") or (terms or {}).get("by")
    return {
        "position": entry.position,
        "kind": said,
        "about": about,
        "who": entry.account or "",
        "by": by or "",
        "cost": "" if entry.cost is None else budgets.amount(entry.cost),
        "when": here.when(iso=str(entry.body["time"])),
        "hash": entry.hash[:12],
        "place": to("releases", opened.facts.dataset, entry.body["reservation"])
        if entry.kind == "commit" and here.person.role == "steward"
        else None,
    }


@router.post("/account/{dataset}/verify")
def verify(dataset: str, here: Reader) -> Response:
    """Checks every entry and all that is stored."""
    found = office.verification(dataset, here.desk, here.person)
    error = found.refusal
    return shown(
        here,
        "verified.html",
        verified=found.verified,
        entries=found.entries,
        spent=None if found.spent is None else budgets.amount(guarantee_from(found.spent)),
        message=None if error is None else here.sentence(error.message),
    )


@router.get("/account/{dataset}/export")
def export(dataset: str, here: Reader) -> Response:
    """All entries, the head and the public keys, for others to check."""
    written = json.dumps(office.export(dataset, here.desk, here.person), ensure_ascii=False, indent=1)
    headers = {"content-disposition": 'attachment; filename="ledger.json"'}
    return Response(written, media_type="application/json", headers=headers)
