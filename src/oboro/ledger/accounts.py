"""Accounts: an analyst's share of a ledger, decided by a grant and kept in the chain.

Privacy
    An account only refuses more. What is promised is the budget of the dataset, which every reservation is held to in the same
    transaction, whoever pays: so analysts who collude learn no more than one who had the whole budget. What an account has
    spent is never forgotten, neither when its terms change nor when they are revoked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from oboro.ledger.chain import Entry
from oboro.ledger.periods import Periods, fits, less, nothing, number_of, plus
from oboro.privacy import Guarantee, guarantee_from
from oboro.records import Record


@dataclass(frozen=True, slots=True)
class Account:
    """What an account may spend, and what it has. `granted` is the entry of its terms, None if they were revoked.

    >>> _ = ledger.grant("lab-3", ob.Pure("0.5"), per="month")
    >>> account = ledger.account("lab-3")
    >>> account.amount, account.per, account.spent, account.available
    (Pure('0.5'), 'month', Pure(0), Pure('0.5'))
    """

    name: str
    granted: int | None
    amount: Guarantee
    per: str | None
    unused: str
    approve_above: Guarantee | None
    spent: Guarantee
    available: Guarantee


def terms_of(
    amount: Guarantee, per: str | None, unused: str, approve_above: Guarantee | None, by: str | None
) -> Record:
    """What a grant says."""
    return {
        "amount": amount.to_dict(),
        "per": per,
        "unused": unused,
        "approve_above": None if approve_above is None else approve_above.to_dict(),
        "by": by,
    }


def granted(
    name: str,
    before: Record | None,
    position: int,
    per: str | None,
    now: datetime,
    paid: Iterable[tuple[datetime, Guarantee]],
    zero: Guarantee,
) -> Record:
    """The state of an account after a grant. `paid`: when it paid, and how much; what it paid in this period counts."""
    spent = zero if before is None else guarantee_from(before["spent"])
    lately = zero
    for time, cost in paid:
        if per is not None and number_of(per, time) == number_of(per, now):
            lately = plus(lately, cost)
    return {
        "name": name,
        "spent": spent.to_dict(),
        "grant": position,
        "since": less(spent, lately).to_dict(),
        "lately": lately.to_dict(),
    }


def revoked(before: Record) -> Record:
    """The state of an account that may spend nothing more."""
    return {**before, "grant": None}


def lately(state: Record, terms: Record, before: datetime, now: datetime) -> Guarantee:
    """What it spent in the period of now."""
    spent = guarantee_from(state["lately"])
    per = terms["per"]
    return spent if per is None or number_of(per, before) == number_of(per, now) else nothing(spent)


def room(state: Record, grant: Entry, before: datetime, now: datetime) -> Guarantee:
    """What the account may spend now, by its own terms. `before` is the time of the entry that holds `state`."""
    terms, spent = grant.body["terms"], guarantee_from(state["spent"])
    amount = guarantee_from(terms["amount"])
    if terms["per"] is None:
        return less(amount, spent)
    counted = less(spent, guarantee_from(state["since"]))
    pace = Periods(terms["per"], amount, terms["unused"])
    return pace.room(None, grant.time, now, counted, lately(state, terms, before, now))


def charged(state: Record, grant: Entry, before: datetime, now: datetime, cost: Guarantee) -> Record:
    """The state of an account after a cost that it has room for."""
    spent, recent = guarantee_from(state["spent"]), lately(state, grant.body["terms"], before, now)
    return {**state, "spent": plus(spent, cost).to_dict(), "lately": plus(recent, cost).to_dict()}


def needs_approval(grant: Entry, cost: Guarantee) -> bool:
    """Whether a cost is above what the account may spend with two eyes."""
    above = grant.body["terms"]["approve_above"]
    return above is not None and not fits(cost, guarantee_from(above))
