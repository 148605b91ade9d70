"""Accounts: an analyst's share of a dataset's budget. The share is checked where the question is written down, in one transaction;
the dataset's budget is the ledger's, and is what is promised: whoever colludes gains nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from oboro.errors import BudgetError, LedgerError, ParameterError, setting, told
from oboro.kinds import shown
from oboro.ledger import Ledger, periods, replay
from oboro.privacy import Guarantee, guarantee_from
from oboro.service import database as schema
from oboro.service.database import Database, now

PERIODS = ("hour", "day", "week", "month", "year")
_PAID = ("asked", "admitted", "running", "done", "lost")


@dataclass(frozen=True, slots=True)
class Account:
    """What an analyst may spend, by the terms of the grant, and has."""

    name: str
    amount: Guarantee
    per: str | None
    approve_above: Guarantee | None
    granted: bool
    spent: Guarantee
    available: Guarantee


@dataclass(frozen=True)
class Accounts:
    """The accounts of one dataset."""

    database: Database
    ledger: Ledger

    def grant(
        self,
        name: str,
        amount: Guarantee,
        *,
        per: str | None = None,
        approve_above: Guarantee | None = None,
        by: str | None = None,
    ) -> None:
        """Gives an analyst a share, or changes it. What was spent is never forgotten."""
        if per is not None and per not in PERIODS:
            raise ParameterError(
                "the period is unknown",
                given=told(per=shown(per)),
                needed=", ".join(PERIODS),
                fix=setting(per="month"),
            )
        self.ledger.price(self.ledger.unit, amount)  # refuses another currency
        if not replay.within(self.ledger.budget, amount):
            raise ParameterError(
                "a grant is within the dataset's budget",
                given=str(amount),
                needed=f"at most {self.ledger.budget}",
            )
        table = schema.grants
        values = {
            "amount": json.dumps(amount.to_dict()), "per": per, "by": by, "since": now(), "granted": True,
            "approve_above": None if approve_above is None else json.dumps(approve_above.to_dict()),
        }  # fmt: skip
        here = (table.c.dataset == self.ledger.dataset) & (table.c.account == name)
        with self.database.writing() as connection:
            if connection.execute(table.update().where(here).values(**values)).rowcount == 0:
                connection.execute(table.insert().values(dataset=self.ledger.dataset, account=name, **values))

    def revoke(self, name: str) -> None:
        """Takes a grant away."""
        table = schema.grants
        here = (table.c.dataset == self.ledger.dataset) & (table.c.account == name)
        with self.database.writing() as connection:
            connection.execute(table.update().where(here).values(granted=False))

    def account(self, name: str) -> Account | None:
        with self.database.reading() as connection:
            return self._account(connection, name)

    def accounts(self) -> list[Account]:
        table = schema.grants
        query = (
            sa.select(table.c.account)
            .where(table.c.dataset == self.ledger.dataset)
            .order_by(table.c.since, table.c.account)
        )
        with self.database.reading() as connection:
            found = [self._account(connection, name) for name in connection.execute(query).scalars()]
        return [one for one in found if one is not None]

    def affords(self, cost: Guarantee, name: str) -> bool:
        """Whether it could be paid now; only the transaction decides."""
        account = self.account(name)
        return (
            account is not None
            and account.granted
            and replay.within(account.available, cost)
            and self.ledger.affords(cost)
        )

    def pay(self, connection: sa.Connection, name: str, cost: Guarantee) -> None:
        """Refuses, in the transaction that writes the question down, what the account does not cover."""
        if not self.database.sqlite:
            connection.execute(
                sa.text("SELECT pg_advisory_xact_lock(hashtext(:who))"), {"who": f"{self.ledger.id} {name}"}
            )
        account = self._account(connection, name)
        if account is None or not account.granted:
            raise LedgerError("there is no account of this name", given=name, needed="a grant of the dataset")
        if not replay.affords(account.amount, account.spent, cost):
            raise BudgetError(
                "the account does not cover this question; nothing was spent",
                given=f"a cost of {cost.unconditional}",
                needed=f"at most what you may spend now: {account.available}",
                fix="a smaller eps, or the next period",
                argument="account",
            )

    def _account(self, connection: sa.Connection, name: str) -> Account | None:
        table = schema.grants
        row = connection.execute(
            sa.select(table).where(table.c.dataset == self.ledger.dataset, table.c.account == name)
        ).first()
        if row is None:
            return None
        amount = guarantee_from(json.loads(row.amount))
        spent = self._spent(connection, name, amount, None if row.per is None else begun(row.per, now()))
        limit = None if row.approve_above is None else guarantee_from(json.loads(row.approve_above))
        left = replay.remaining(amount, spent) if replay.within(amount, spent) else periods.nothing(amount)
        return Account(name, amount, row.per, limit, bool(row.granted), spent, left)

    def _spent(self, connection: sa.Connection, name: str, amount: Guarantee, since: int | None) -> Guarantee:
        """What was spent in this period, or ever."""
        table = schema.jobs
        query = sa.select(table.c.cost).where(
            table.c.dataset == self.ledger.dataset, table.c.account == name, table.c.state.in_(_PAID)
        )
        query = query if since is None else query.where(table.c.asked >= since)
        spent = periods.nothing(self.ledger.budget)
        for cost in connection.execute(query).scalars():
            spent = replay.added(
                self.ledger.budget,
                spent,
                self.ledger.price(self.ledger.unit, guarantee_from(json.loads(cost))),
            )
        return spent


def begun(per: str, time: int) -> int:
    """When the period began that a time lies in: by the calendar, in UTC."""
    at = datetime.fromtimestamp(time / 1000, UTC).replace(minute=0, second=0, microsecond=0)
    if per != "hour":
        at = at.replace(hour=0)
    if per == "week":
        at -= timedelta(days=at.weekday())
    if per in ("month", "year"):
        at = at.replace(day=1)
    if per == "year":
        at = at.replace(month=1)
    return int(at.timestamp() * 1000)
