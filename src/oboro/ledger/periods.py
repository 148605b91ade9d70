"""Instalments of a budget: what a period of the calendar adds to what may be spent.

Privacy
    What is promised is the lifetime budget B, and nothing else is needed for it: a plan is admitted only if all that was
    admitted before and its own cost stay within B, coordinate by coordinate. That is a valid filter, however each question
    depends on the answers before it [Rogers, Roth, Ullman, Vadhan 2016; for zCDP and Rényi of a fixed order Feldman, Zrnic
    2021], and also while a stream or a series that was paid for is still open [Haney et al. 2023]: its whole horizon is paid
    when it opens, in the period in which it opens, whatever periods it crosses. A period only refuses more. Whether it does is
    a function of the entries before and of a public clock, never of data, so it cannot make a valid filter invalid.

    With an instalment I, by the end of the k-th period at most min(B, k I) was spent where what is unused is kept, and in the
    k-th period at most min(I, B - (k - 1) I) where it lapses: for good, since instalments are parts of B and never a reset. So
    what lapses is lost to B, too.

    Time is that of the entries themselves. An entry is never earlier than the one before it: a clock that goes backwards
    opens nothing, and one that jumps forward opens (or lets lapse) instalments early, but never more than B.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal, get_args

from oboro.errors import ParameterError, setting, told
from oboro.kinds import shown
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, guarantee_from
from oboro.records import Record

Per = Literal["hour", "day", "week", "month", "year"]
Unused = Literal["kept", "lapses"]
PERIODS: tuple[str, ...] = get_args(Per)
UNUSED: tuple[str, ...] = get_args(Unused)


# Arithmetic of what is spent: exact, coordinate by coordinate.


def amounts(guarantee: Guarantee) -> tuple[Fraction, ...]:
    """The coordinates that are added up."""
    if type(guarantee) is Pure:
        return (guarantee.eps,)
    plain = guarantee.unconditional
    if isinstance(plain, Approx):
        return plain.eps, plain.delta
    if isinstance(plain, ZCDP):
        return (plain.rho,)
    assert isinstance(plain, Pure | Renyi)
    return (plain.eps,)


def like(budget: Guarantee, values: tuple[Fraction, ...]) -> Guarantee:
    """A guarantee of the kind of `budget`, resting on the same assumptions."""
    if type(budget) is Pure:
        return Pure(*values)
    plain = budget.unconditional
    made: Guarantee
    if isinstance(plain, Approx):
        made = Approx(*values)
    elif isinstance(plain, ZCDP):
        made = ZCDP(*values)
    elif isinstance(plain, Renyi):
        made = Renyi(plain.order, *values)
    else:
        made = Pure(*values)
    return Conditional(made, budget.assumptions) if budget.assumptions else made


def nothing(budget: Guarantee) -> Guarantee:
    """Zero in the currency of `budget`."""
    return like(budget, tuple(Fraction(0) for _ in amounts(budget)))


def plus(first: Guarantee, second: Guarantee) -> Guarantee:
    """The sum of two amounts of one currency."""
    return like(first, tuple(a + b for a, b in zip(amounts(first), amounts(second), strict=True)))


def less(first: Guarantee, second: Guarantee) -> Guarantee:
    """What is left of the first, coordinate by coordinate, and never below nothing."""
    rest = (a - b for a, b in zip(amounts(first), amounts(second), strict=True))
    return like(first, tuple(max(one, Fraction(0)) for one in rest))


def least(first: Guarantee, second: Guarantee) -> Guarantee:
    """The smaller of both in each coordinate."""
    return like(first, tuple(map(min, amounts(first), amounts(second))))


def fits(cost: Guarantee, room: Guarantee) -> bool:
    """Whether no coordinate of a cost is above what there is room for."""
    return all(a <= b for a, b in zip(amounts(cost), amounts(room), strict=True))


# Time


def clock() -> datetime:
    """Now, to the second, as entries write it."""
    return datetime.now(UTC).replace(microsecond=0)


def now_after(last: datetime | None) -> datetime:
    """The time of the next entry: by the clock, and never before the last one."""
    return clock() if last is None else max(clock(), last)


def number_of(per: str, at: datetime) -> int:
    """The number of the period of the calendar (UTC) that holds a moment; weeks begin on Mondays."""
    days = at.toordinal()
    return {
        "hour": days * 24 + at.hour,
        "day": days,
        "week": (days - 1) // 7,
        "month": at.year * 12 + at.month,
        "year": at.year,
    }[per]


def carried(period: Record, before: datetime, now: datetime) -> Record:
    """What was spent in the period of `now`, after an entry of the time `before` that says so of its own."""
    if number_of(period["per"], before) == number_of(period["per"], now):
        return period
    return {**period, "spent": nothing(guarantee_from(period["spent"])).to_dict()}


@dataclass(frozen=True, slots=True)
class Periods:
    """So much for each period of the calendar, in UTC; what is unused is kept for later, or lapses.

    >>> from datetime import UTC, datetime
    >>> ob.ledger.Periods("month", ob.Pure(1), "kept").per
    'month'
    """

    per: str
    instalment: Guarantee
    unused: str

    def room(
        self,
        whole: Guarantee | None,
        began: datetime,
        now: datetime,
        spent: Guarantee,
        lately: Guarantee,
    ) -> Guarantee:
        """What may be spent now: `spent` since it began, `lately` in the period of now. `whole` is the most in all, if there is one."""
        past = number_of(self.per, now) - number_of(self.per, began)
        if self.unused == "kept":
            opened = self._times(past + 1)
            return less(opened if whole is None else least(whole, opened), spent)
        part = self.instalment
        if whole is not None:
            part = least(part, less(whole, self._times(past)))
        return less(part, lately)

    def _times(self, count: int) -> Guarantee:
        return like(self.instalment, tuple(count * one for one in _bounded(amounts(self.instalment), count)))

    def to_dict(self) -> Record:
        return {"per": self.per, "instalment": self.instalment.to_dict(), "unused": self.unused}


def _bounded(values: tuple[Fraction, ...], count: int) -> tuple[Fraction, ...]:
    # a delta stays below 1 however many periods there are: who counts that far has a whole that is smaller
    if len(values) == 2 and values[1] * count >= 1:
        return values[0], Fraction(99, 100) / count
    return values


def periods_from(record: Record) -> Periods:
    """What `to_dict` wrote; raises an InputError where it makes no sense."""
    return Periods(record["per"], guarantee_from(record["instalment"]), record["unused"])


def checked_periods(
    budget: Guarantee, per: str | None, instalment: Guarantee | None, unused: str
) -> Periods | None:
    """Periods as a user asks for them; None where there are none."""
    if per is None and instalment is None:
        return None
    if instalment is None or per is None:
        tenth = like(budget, tuple(one / 10 for one in amounts(budget)))
        enough = tenth if instalment is None else amount_of("instalment", instalment, budget)
        raise ParameterError(
            "a budget by period needs both, the period and its instalment",
            given="per alone" if instalment is None else "instalment alone",
            needed="how often, and how much each time",
            fix=setting(per=per if per in PERIODS else "month", instalment=enough.unconditional),
        )
    chosen(per=per, unused=unused)
    return Periods(per, amount_of("instalment", instalment, budget), unused)


def chosen(*, per: str, unused: str) -> None:
    """Refuses words that no period has."""
    for name, given, words in (("per", per, PERIODS), ("unused", unused, UNUSED)):
        if given not in words:
            raise ParameterError(
                f"{name} is unknown",
                given=told(**{name: shown(given)}),
                needed=", ".join(words),
                fix=setting(**{name: words[-2]}),
            )


def amount_of(name: str, amount: Guarantee, budget: Guarantee) -> Guarantee:
    """A part of a budget: of its currency, above 0 wherever the budget is, and not above it."""
    if not isinstance(amount, Guarantee):
        raise ParameterError(
            f"{name} is not a guarantee", given=shown(amount), fix=setting(**{name: budget.unconditional})
        )
    same = not set(amount.assumptions) - set(budget.assumptions) and nothing(amount.unconditional) == nothing(
        budget.unconditional
    )
    if not same or not all(
        0 < part <= whole or part == whole
        for part, whole in zip(amounts(amount), amounts(budget), strict=True)
    ):
        raise ParameterError(
            f"{name} is not a part of the budget",
            given=str(amount),
            needed=f"an amount above 0 and at most {budget.unconditional}",
            fix=setting(**{name: budget.unconditional}),
        )
    return like(budget, amounts(amount))
