"""Budgets as people read them: how much of how much, by whom, in the currency of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from markupsafe import Markup

from oboro.exact import about, show
from oboro.ledger.periods import amounts, like
from oboro.privacy import Guarantee
from oboro.service.studio import figures

if TYPE_CHECKING:
    from oboro.ledger import Ledger
    from oboro.ledger.accounts import Account
    from oboro.service.studio.page import Visit

_DIGITS = 15  # signs of a price that are read


def share(part: Guarantee, whole: Guarantee) -> float:
    """How much of a budget something is; of two amounts (eps and delta) the larger share."""
    pairs = zip(amounts(part.unconditional), amounts(whole.unconditional), strict=False)
    return max((float(a / b) for a, b in pairs if b), default=0.0)


def _less(whole: Guarantee, left: Guarantee) -> Guarantee:
    """What is gone of a whole, in each of its amounts."""
    gone = (
        max(a - b, Fraction(0))
        for a, b in zip(amounts(whole.unconditional), amounts(left.unconditional), strict=True)
    )
    return like(whole.unconditional, tuple(gone))


def amount(guarantee: Guarantee) -> str:
    """In few words: "eps = 0.1"; long fractions are rounded."""
    bare = guarantee.unconditional
    eps, rho, delta = (getattr(bare, name, None) for name in ("eps", "rho", "delta"))
    if eps is not None:
        return f"ε {about(float(eps))}" + (f", δ {about(float(delta))}" if delta else "")
    return f"ρ {about(float(rho))}" if rho is not None else str(bare)


def price(guarantee: Guarantee) -> str:
    """What is paid: digit by digit where it has few, otherwise rounded up. Nobody pays more than was shown."""
    bare = guarantee.unconditional
    signs = {"eps": "ε", "rho": "ρ", "delta": "δ"}
    parts = [
        f"{sign} {_at_most(value)}" for name, sign in signs.items() if (value := getattr(bare, name, None))
    ]
    return ", ".join(parts) or amount(guarantee)


def _at_most(value: Fraction) -> str:
    if len(text := show(value)) <= _DIGITS:
        return text
    up = Context(prec=4, rounding=ROUND_CEILING)
    return f"{up.divide(Decimal(value.numerator), Decimal(value.denominator)):.4g}"


@dataclass(frozen=True)
class Budget:
    """A budget with its bar."""

    whole: str
    spent: str
    granted: str
    free: str
    now: str | None  # what may be spent now, where a period keeps some back
    per: str | None
    left: float
    drawn: Markup


def of_ledger(visit: Visit, ledger: Ledger, extra: Guarantee | None = None) -> Budget:
    """A dataset's: spent, promised to analysts, free."""
    budget, spent, remaining = ledger.budget, ledger.spent, ledger.remaining
    accounts = [one for one in ledger.accounts() if one.granted is not None] if not visit.local else []
    used = share(spent, budget)
    granted = min(sum(share(one.available, budget) for one in accounts), 1 - used)
    more = 0.0 if extra is None else share(extra, budget)
    per = getattr(getattr(ledger, "periods", None), "per", None)
    available = ledger.available
    parts = [("spent", used, visit.say("spent: {amount}", amount=amount(spent)))]
    if extra is not None:
        parts.append(("asked", more, visit.say("this question: {amount}", amount=amount(extra))))
    elif granted:
        parts.append(
            ("granted", granted, visit.say("granted, not yet spent: {share}", share=f"{granted:.0%}"))
        )
    return Budget(
        whole=amount(budget),
        spent=amount(spent),
        granted=f"{granted:.0%}",
        free=amount(remaining),
        now=None if available == remaining else amount(available),
        per=per,
        left=max(0.0, 1 - used - more),
        drawn=figures.bar(
            parts, describe=visit.say("{spent} of {whole} spent", spent=amount(spent), whole=amount(budget))
        ),
    )


def of_account(visit: Visit, account: Account, extra: Guarantee | None = None) -> Budget:
    """An analyst's: what is left now of what was granted, in all or for a period."""
    whole = account.amount
    left = 1 - share(_less(whole, account.available), whole)
    more = 0.0 if extra is None else share(extra, whole)
    used = max(0.0, 1 - left)
    parts = [("spent", used, visit.say("spent: {amount}", amount=amount(account.spent)))]
    if extra is not None:
        parts.append(("asked", more, visit.say("this question: {amount}", amount=amount(extra))))
    return Budget(
        whole=amount(whole),
        spent=amount(account.spent),
        granted=amount(whole),
        free=amount(account.available),
        now=None,
        per=account.per,
        left=max(0.0, left - more),
        drawn=figures.bar(
            parts,
            describe=visit.say("{left} of {whole} left", left=amount(account.available), whole=amount(whole)),
        ),
    )
