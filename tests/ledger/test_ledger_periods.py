"""Periods and accounts: never above the lifetime, never above what was opened, never above a grant."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_help import PLAN, assert_sound, spend

from kills import collect, in_child
from oboro.errors import AccountError, BudgetError, LedgerError, ParameterError, TamperError
from oboro.ledger import Entry, Ledger, periods, records, verify_export
from oboro.privacy import ZCDP, Approx, Guarantee, Pure, Renyi, Unit

START = datetime(2026, 1, 31, 23, 0, tzinfo=UTC)
BUDGETS: list[tuple[Guarantee, Guarantee]] = [
    (Pure(12), Pure(1)),
    (Approx(12, "1e-5"), Approx(1, "1e-6")),
    (ZCDP(12), ZCDP(1)),
    (Renyi(8, 12), Renyi(8, 1)),
]
_numbers = itertools.count()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(periods, "clock", found)
    return found


def make(where: Any, unused: str = "kept", budget: Guarantee = Pure(12), part: Guarantee = Pure(1)) -> Ledger:  # noqa: B008
    return Ledger.create(
        where, dataset="x", unit=Unit.row(), budget=budget, per="month", instalment=part, unused=unused
    )


def part_of(budget: Guarantee, share: Fraction) -> Guarantee:
    return periods.like(budget, tuple(one * share for one in periods.amounts(budget)))


@pytest.mark.parametrize(("budget", "part"), BUDGETS)
def test_what_is_kept_can_be_spent_later_and_never_more_than_the_whole(
    where: str, clock: Clock, budget: Guarantee, part: Guarantee
) -> None:
    ledger = make(where, "kept", budget, part)
    assert ledger.available == part
    spend(ledger, part_of(part, Fraction(1, 4)))
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)  # an hour later, another month
    assert ledger.available == part_of(part, Fraction(7, 4))
    with pytest.raises(BudgetError, match="open now"):
        spend(ledger, part_of(part, Fraction(2)))
    clock.now = datetime(2100, 1, 1, tzinfo=UTC)
    assert ledger.available == ledger.remaining == periods.less(budget, part_of(part, Fraction(1, 4)))
    again = Ledger.open(where)
    assert again.periods == ledger.periods
    assert_sound(again)


def test_what_lapses_is_gone_for_good(where: str, clock: Clock) -> None:
    ledger = make(where, "lapses", Pure("2.5"))
    spend(ledger, "1/4")
    clock.now = datetime(2026, 2, 3, tzinfo=UTC)
    assert ledger.available == Pure(1)
    spend(ledger, 1)
    with pytest.raises(BudgetError):
        spend(ledger, "1/100")
    clock.now = datetime(2026, 3, 3, tzinfo=UTC)
    assert ledger.available == Pure("1/2")  # the last instalment is what is left of the whole
    clock.now = datetime(2026, 4, 3, tzinfo=UTC)
    assert ledger.available == Pure(0)
    assert_sound(ledger)


def test_a_clock_that_goes_back_opens_nothing(where: str, clock: Clock) -> None:
    ledger = make(where, "lapses")
    clock.now = datetime(2026, 3, 1, tzinfo=UTC)
    spend(ledger, 1)
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)  # a month in which nothing was spent
    assert ledger.available == Pure(0)
    with pytest.raises(BudgetError):
        spend(ledger, "1/100")
    entry = ledger.grant("lab", Pure(1))
    assert entry.time == datetime(2026, 3, 1, tzinfo=UTC)
    assert_sound(ledger)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"per": "month"}, "instalment"),
        ({"instalment": Pure(1)}, "instalment"),
        ({"per": "fortnight", "instalment": Pure(1)}, "per"),
        ({"per": "month", "instalment": Pure(1), "unused": "burns"}, "unused"),
        ({"per": "month", "instalment": Pure(13)}, "instalment"),
        ({"per": "month", "instalment": Pure(0)}, "instalment"),
        ({"per": "month", "instalment": ZCDP(1)}, "instalment"),
        ({"per": "month", "instalment": 1}, "instalment"),
    ],
)
def test_periods_that_make_no_sense_are_refused(tmp_path: Path, more: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        Ledger.create(tmp_path / "x", dataset="x", unit=Unit.row(), budget=Pure(12), **more)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("per", "moments"),
    [
        ("hour", ["2026-01-31T23:59:59", "2026-02-01T00:00:00"]),
        ("day", ["2026-01-31T23:59:59", "2026-02-01T00:00:00"]),
        ("week", ["2026-02-01T23:59:59", "2026-02-02T00:00:00"]),  # a Sunday and a Monday
        ("month", ["2026-01-31T23:59:59", "2026-02-01T00:00:00"]),
        ("year", ["2026-12-31T23:59:59", "2027-01-01T00:00:00"]),
    ],
)
def test_periods_are_those_of_the_calendar(per: str, moments: list[str]) -> None:
    first, second = (datetime.fromisoformat(f"{moment}+00:00") for moment in moments)
    assert periods.number_of(per, second) == periods.number_of(per, first) + 1
    assert periods.number_of(per, first - timedelta(seconds=1)) == periods.number_of(per, first)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
def test_periods_know_nothing_of_time_zones(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the machine may stand in any zone, and change over for summer: entries are in UTC."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = periods.clock()
        assert now.utcoffset() == timedelta(0)
        assert abs(now.timestamp() - time.time()) < 60
        for moment in (
            "2026-03-08T06:59:59+00:00",
            "2026-11-01T05:59:59+00:00",
        ):  # an hour is left out, or comes twice
            at = datetime.fromisoformat(moment)
            numbers = [periods.number_of("hour", at + timedelta(hours=hour)) for hour in range(4)]
            assert [one - numbers[0] for one in numbers] == [0, 1, 2, 3]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_every_second_of_two_years_is_in_one_period_and_they_come_one_after_the_other() -> None:
    """Ends of months, the 29th of February, the end of a year: at each midnight and just before it, in every hour."""
    start = datetime(2027, 12, 1, tzinfo=UTC)  # 2028 has a 29th of February
    for per in periods.PERIODS:
        before = periods.number_of(per, start)
        for hour in range(24 * 800):
            at = start + timedelta(hours=hour)
            numbers = [
                periods.number_of(per, at),
                periods.number_of(per, at + timedelta(minutes=59, seconds=59)),
            ]
            assert numbers[0] == numbers[1]
            assert numbers[0] in (before, before + 1)
            if numbers[0] > before:
                assert at.hour == 0 or per == "hour"
                assert per != "month" or at.day == 1
                assert per != "week" or at.weekday() == 0
                assert per != "year" or (at.month, at.day) == (1, 1)
            before = numbers[0]


@pytest.mark.parametrize("unused", ["kept", "lapses"])
def test_a_series_that_is_open_over_the_end_of_a_period_is_paid_in_the_one_in_which_it_opened(
    where: str, clock: Clock, unused: str
) -> None:
    import oboro as ob

    person = Unit.person("who", 2)
    ledger = Ledger.create(
        where, dataset="x", unit=person, budget=Pure(3), per="month", instalment=Pure(1), unused=unused
    )
    plan = ob.tables.plan(
        ob.Domain([ob.Category("sex", ["f", "m"])]), unit=person, eps="3/4", ticks=2, max_ticks=2
    )
    data = {"who": ["a", "b"], "tick": [0, 1], "sex": ["f", "m"]}
    clock.now = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    series = ob.tables.series(plan, ledger=ledger, name="night")
    series.publish(data, tick=0)
    assert ledger.available == Pure("1/4")
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)
    series.publish(data, tick=1)
    series.final()
    assert ledger.available == (Pure("5/4") if unused == "kept" else Pure(1))
    ob.tables.series(plan, ledger=ledger, name="the next night")
    with pytest.raises(BudgetError):  # of February 1/4 is left, and 1/4 of January if it was kept
        ob.tables.series(plan, ledger=ledger, name="one more")
    assert ledger.spent == Pure("3/2")
    assert_sound(ledger)


def test_what_was_reserved_before_the_end_of_a_period_takes_nothing_of_the_next(
    where: str, clock: Clock
) -> None:
    ledger = make(where, "lapses", Pure(3))
    paid = spend(ledger, "3/4")
    assert ledger.available == Pure("1/4")
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)
    ledger.commit(paid, b"late", facts={})
    assert ledger.available == Pure(1)
    clock.now = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)  # back again: January does not come twice
    assert ledger.available == Pure(1)
    spend(ledger, 1)
    assert ledger.available == Pure(0)
    clock.now = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert ledger.available == Pure(0)
    spend_all = periods.less(ledger.budget, ledger.spent)
    with pytest.raises(BudgetError):
        spend(ledger, spend_all)
    assert_sound(ledger)


# Accounts


def asked(ledger: Ledger, cost: str, account: str = "lab", **more: Any) -> Any:
    return ledger.reserve(plan=PLAN, unit=ledger.unit, guarantee=Pure(cost), account=account, **more)


def test_an_account_is_held_to_its_grant_and_to_the_budget(where: str, clock: Clock) -> None:
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(1))
    with pytest.raises(AccountError, match="no grant"):
        asked(ledger, "0.1")
    ledger.grant("lab", Pure("0.5"), by="steward")
    ledger.grant("other", Pure("0.9"))
    asked(ledger, "0.4")
    with pytest.raises(BudgetError) as refused:
        asked(ledger, "0.2")
    assert refused.value.argument == "account"
    asked(ledger, "0.6", "other")
    with pytest.raises(BudgetError, match="budget"):  # the account has it, the dataset has not
        asked(ledger, "0.1", "other")
    assert not ledger.affords(Pure("0.1"), account="other")
    assert [(one.name, one.spent) for one in ledger.accounts()] == [
        ("lab", Pure("0.4")),
        ("other", Pure("0.6")),
    ]
    assert_sound(ledger)


def test_a_new_grant_forgets_nothing(where: str, clock: Clock) -> None:
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(9))
    ledger.grant("lab", Pure(1), per="month")
    asked(ledger, "0.8")
    for per in ("month", "year", "week", None):
        ledger.grant("lab", Pure(1), per=per)
        found = ledger.account("lab")
        assert found is not None
        assert (found.spent, found.available) == (Pure("0.8"), Pure("0.2"))
    ledger.revoke("lab", by="steward")
    with pytest.raises(AccountError, match="revoked"):
        asked(ledger, "0.1")
    with pytest.raises(AccountError):
        ledger.revoke("lab")
    ledger.grant("lab", Pure(1), per="month", unused="kept")
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)
    found = ledger.account("lab")
    assert found is not None
    assert found.available == Pure("1.2")
    assert_sound(ledger)


def test_four_eyes_above_a_threshold(where: str) -> None:
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(9))
    ledger.grant("lab", Pure(5), approve_above=Pure("0.5"))
    asked(ledger, "0.5")
    with pytest.raises(AccountError, match="alone"):
        asked(ledger, "0.6")
    decided = {"plan": PLAN, "unit": ledger.unit, "guarantee": Pure("0.6")}
    with pytest.raises(ParameterError, match="by"):
        ledger.approve("lab", by="LAB", **decided)
    declined = ledger.decline("lab", by="steward", why="too much", **decided)
    approved = ledger.approve("lab", by="steward", **decided)
    for wrong in (declined.position, 0, 99):
        with pytest.raises(AccountError, match="approval"):
            asked(ledger, "0.6", approval=wrong)
    with pytest.raises(AccountError, match="approval"):
        asked(ledger, "0.7", approval=approved.position)
    with pytest.raises(AccountError, match="approval"):
        asked(ledger, "0.6", approval=approved.position, edition="another")
    asked(ledger, "0.6", approval=approved.position)
    with pytest.raises(AccountError, match="used before"):
        asked(ledger, "0.6", approval=approved.position)
    assert_sound(ledger)


def test_the_same_question_has_the_same_answer(where: str) -> None:
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(9))
    ledger.grant("lab", Pure(5))
    lost = asked(ledger, "0.5", edition="2026-01")
    assert ledger.answered(PLAN, "2026-01") is None
    ledger.commit(asked(ledger, "0.5", edition="2026-01"), b"first", facts={})
    ledger.commit(lost, b"late", facts={})
    found = ledger.answered(PLAN, "2026-01")
    assert found is not None
    assert found.content() == b"late"
    assert ledger.answered(PLAN, "2026-02") is None
    assert ledger.answered({**PLAN, "eps": "0.2"}, "2026-01") is None
    assert ledger.answered(PLAN, "2026-01", accounts=["other"]) is None
    assert ledger.answered(PLAN, "2026-01", accounts=["lab"]) is not None
    assert_sound(ledger)


# Random interleavings of everything

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("spend"), st.sampled_from([None, "a", "b"]), st.integers(1, 12)),
        st.tuples(
            st.just("grant"),
            st.sampled_from(["a", "b"]),
            st.integers(1, 12),
            st.sampled_from([None, "month"]),
        ),
        st.tuples(st.just("revoke"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("time"), st.integers(-40, 70)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, unused=st.sampled_from(["kept", "lapses"]), which=st.sampled_from(range(len(BUDGETS))))
def test_whatever_happens_no_limit_is_passed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], unused: str, which: int
) -> None:
    """The limits are computed here from the history alone, by their definition, in another way than the ledger's."""
    budget, part = BUDGETS[which]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(periods, "clock", clock := Clock())
        ledger = make(tmp_path_factory.mktemp("l") / f"{next(_numbers)}", unused, budget, part)
        for step in steps:
            with suppress(BudgetError, AccountError):  # refused, as it may be
                _do(ledger, clock, part, step)
        _check_limits(ledger.history(), budget, part, unused)
        ledger.verify()
        ledger.close()


def _do(ledger: Ledger, clock: Clock, part: Guarantee, step: tuple[Any, ...]) -> None:
    if step[0] == "spend":
        cost = part_of(part, Fraction(step[2], 8))
        ledger.reserve(plan=PLAN, unit=ledger.unit, guarantee=cost, account=step[1])
    elif step[0] == "grant":
        ledger.grant(step[1], part_of(part, Fraction(step[2], 8)), per=step[3])
    elif step[0] == "revoke":
        ledger.revoke(step[1])
    else:
        clock.now += timedelta(days=step[1])


def _month(entry: Entry) -> int:
    return entry.time.year * 12 + entry.time.month


def _check_limits(history: list[Entry], budget: Guarantee, part: Guarantee, unused: str) -> None:
    first = _month(history[0])
    paid = [entry for entry in history if entry.kind == "reserve"]
    for axis in range(len(periods.amounts(budget))):

        def sum_of(entries: list[Entry], axis: int = axis) -> Fraction:
            return sum((periods.amounts(e.cost)[axis] for e in entries if e.cost), Fraction(0))

        whole, each = periods.amounts(budget)[axis], periods.amounts(part)[axis]
        assert sum_of(paid) <= whole
        for entry in paid:
            count = _month(entry) - first + 1
            assert sum_of([e for e in paid if e.position <= entry.position]) <= min(whole, count * each)
            if unused == "lapses":
                assert sum_of([e for e in paid if _month(e) == _month(entry)]) <= each
        for entry in paid:
            if entry.account is None:
                continue
            own = [e for e in paid if e.account == entry.account and e.position <= entry.position]
            decided = [
                e
                for e in history
                if e.kind in ("grant", "revoke")
                and e.account == entry.account
                and e.position < entry.position
            ]
            assert decided[-1].kind == "grant"
            terms = decided[-1].body["terms"]
            amount = periods.amounts(periods.guarantee_from(terms["amount"]))[axis]
            within = own if terms["per"] is None else [e for e in own if _month(e) == _month(entry)]
            assert sum_of(within) <= amount


# Many at once


def test_of_many_processes_none_passes_a_limit(where: str) -> None:
    """Four processes ask for 0.01 each until they are refused: of an instalment of 0.3, thirty are paid, of an account's 0.1 ten."""
    ledger = make(where, "kept", Pure(3), Pure("0.3"))
    ledger.grant("lab", Pure("0.1"))
    ledger.close()

    def work(account: str | None) -> Callable[[int], None]:
        def ask(_: int) -> None:
            with Ledger.open(where) as own:
                for _ in range(40):
                    try:
                        asked(own, "0.01", account) if account else spend(own, "0.01")  # type: ignore[arg-type]
                    except BudgetError:
                        return

        return ask

    children = [in_child(work(account)) for account in ("lab", "lab", None, None)]
    assert [collect(*child)[0] for child in children] == [0] * 4
    assert ledger.spent == Pure("0.3")
    found = ledger.account("lab")
    assert found is not None
    assert periods.fits(found.spent, Pure("0.1"))
    assert_sound(ledger)


def test_an_approval_is_used_by_one_of_two_processes(where: str) -> None:
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(9))
    ledger.grant("lab", Pure(5), approve_above=Pure("0.1"))
    ledger.grant("other", Pure(5), approve_above=Pure("0.1"))
    approved = ledger.approve("lab", plan=PLAN, unit=ledger.unit, guarantee=Pure(1), by="steward").position
    ledger.close()
    with pytest.raises(AccountError, match="something else"):  # it is not theirs
        asked(ledger, "1", "other", approval=approved)
    with pytest.raises(AccountError, match="something else"):  # it is of another plan
        ledger.reserve(
            plan={**PLAN, "x": 1}, unit=ledger.unit, guarantee=Pure(1), account="lab", approval=approved
        )

    def ask(_: int) -> None:
        with Ledger.open(where) as own, suppress(AccountError):
            asked(own, "1", approval=approved)

    assert [collect(*child)[0] for child in [in_child(ask) for _ in range(3)]] == [0] * 3
    assert ledger.spent == Pure(1)
    assert_sound(ledger)


def test_a_grant_by_the_month_at_the_turn_of_a_month(where: str, clock: Clock) -> None:
    """The last second and the first one of two months: two amounts, and no third by revoking, or by a clock set back."""
    ledger = Ledger.create(where, dataset="x", unit=Unit.row(), budget=Pure(9))
    clock.now = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    ledger.grant("lab", Pure(1), per="month")
    asked(ledger, "1")
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)
    asked(ledger, "1")
    for now in (clock.now, datetime(2026, 1, 31, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC)):
        clock.now = now
        ledger.revoke("lab")
        for per in ("month", "year", "day"):
            ledger.grant("lab", Pure(1), per=per)
            with pytest.raises(BudgetError):
                asked(ledger, "0.01")
    assert ledger.spent == Pure(2)
    assert_sound(ledger)


def test_a_copy_knows_every_grant(tmp_path: Path, clock: Clock) -> None:
    ledger = make(tmp_path / "a.ledger")
    ledger.grant("lab", Pure("0.5"), per="week", approve_above=Pure("0.1"))
    paid: dict[str, Any] = {"plan": PLAN, "unit": ledger.unit, "guarantee": Pure("0.3"), "edition": "2026"}
    approved = ledger.approve("lab", by="steward", **paid).position
    asked(ledger, "0.3", approval=approved, edition="2026")
    ledger.backup(tmp_path / "b.ledger")
    copy = Ledger.open(tmp_path / "b.ledger", key=tmp_path / "a.ledger.key")
    assert (copy.accounts(), copy.available) == (ledger.accounts(), ledger.available)
    with pytest.raises(AccountError, match="used before"):
        asked(copy, "0.1", approval=approved, edition="2026")
    assert_sound(copy)
    ledger.export(tmp_path / "a.json")
    assert verify_export(tmp_path / "a.json").grants == 1


# Entries that break the rules, signed with the true key: `verify` recomputes everything


def by_the_owner(ledger: Ledger, kind: str, facts: dict[str, Any]) -> None:
    with ledger._database.writing() as connection:
        last = records.last_entry(connection, lock=True)
        records.append(connection, last, kind, facts, ledger._private_key(last))


def body_of(ledger: Ledger, kind: str) -> dict[str, Any]:
    body = next(entry.body for entry in reversed(ledger.history()) if entry.kind == kind)
    return {name: value for name, value in body.items() if name not in ("time", "root", "key")}


@pytest.mark.parametrize(
    "wrong",
    [
        "above the instalment",
        "above the grant",
        "a running total",
        "without a grant",
        "approval used twice",
        "no approval",
        "own approval",
        "period's total",
        "grant forgets",
    ],
)
def test_entries_against_the_rules_are_found(tmp_path: Path, clock: Clock, wrong: str) -> None:
    ledger = make(tmp_path / "x")
    ledger.grant("lab", Pure("0.6"), approve_above=Pure("0.15"))
    approval = ledger.approve("lab", plan=PLAN, unit=ledger.unit, guarantee=Pure("0.2"), by="steward")
    asked(ledger, "0.2", approval=approval.position)
    ledger.verify()
    facts, kind = body_of(ledger, "reserve"), "reserve"
    state = {**facts["account"]}
    cost = "0.1"
    if wrong == "above the instalment":
        cost, state = "0.9", {}
    elif wrong == "above the grant":
        cost = "0.5"
    elif wrong == "without a grant":
        state["name"] = "nobody"
    elif wrong in ("no approval", "approval used twice"):
        cost = "0.2"
    total = Fraction("0.2") + Fraction(cost)
    facts |= {"cost": Pure(cost).to_dict(), "guarantee": Pure(cost).to_dict(), "spent": Pure(total).to_dict()}
    facts["period"] = {"per": "month", "spent": Pure(total).to_dict()}
    if state:
        state |= {"spent": Pure(total).to_dict(), "lately": Pure(total).to_dict()}
        facts["account"] = state
    else:
        del facts["account"]
    if wrong != "approval used twice":
        facts.pop("approval", None)
    if wrong == "a running total":
        facts["account"]["spent"] = Pure("0.2").to_dict()
    if wrong == "period's total":
        facts["period"]["spent"] = Pure("0.1").to_dict()
    if wrong == "own approval":
        kind, facts = "approve", {**body_of(ledger, "approve"), "by": "Lab"}
        del facts["spent"], facts["period"]
    if wrong == "grant forgets":
        kind, facts = "grant", body_of(ledger, "grant")
        del facts["spent"], facts["period"]
        facts["account"] = {**facts["account"], "grant": 4}
    by_the_owner(ledger, kind, facts)
    with pytest.raises(TamperError):
        ledger.verify()
    ledger.export(tmp_path / "export.json")
    with pytest.raises(TamperError):
        verify_export(tmp_path / "export.json")


def test_a_time_that_goes_back_is_found(tmp_path: Path, clock: Clock) -> None:
    ledger = make(tmp_path / "x")
    clock.now -= timedelta(days=40)
    with ledger._database.writing() as connection:
        last = records.last_entry(connection, lock=True)
        records.append(
            connection,
            last,
            "upgrade",
            {"from": 3, "schema": 4, "software": "x"},
            ledger._private_key(last),
            time=clock.now,
        )
    with pytest.raises(TamperError, match="time"):
        ledger.verify()


def test_lookups_that_were_altered_are_found(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x", dataset="x", unit=Unit.row(), budget=Pure(1))
    ledger.grant("lab", Pure(1))
    asked(ledger, "0.5")
    for change in (
        "DELETE FROM oboro_lookups WHERE position = 2",
        "INSERT INTO oboro_lookups VALUES ('account other', 2)",
    ):
        copy = tmp_path / f"copy {len(change)}"
        ledger.backup(copy)
        with Ledger.open(copy) as other:
            with other._database.raw() as driver:
                driver.execute("DROP TRIGGER oboro_lookups_no_delete")
                driver.execute(change)
            with pytest.raises(TamperError, match="looked up"):
                other.verify()


def test_several_ledgers_share_a_database(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OBORO_KEYS", str(tmp_path))
    places = [f"{postgres_server}&schema=people_{number}_{next(_numbers)}" for number in (1, 2)]
    made = [
        Ledger.create(place, dataset=f"people {number}", unit=Unit.row(), budget=Pure(1))
        for number, place in enumerate(places)
    ]
    spend(made[0], "0.5")
    assert [Ledger.open(place).spent for place in places] == [Pure("0.5"), Pure(0)]
    assert "schema=people_1" in made[0].where
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(places[0], dataset="x", unit=Unit.row(), budget=Pure(1))
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(f"{postgres_server}&schema=nothing_here")
    for wrong in ("A", "pg_x", "a;b", "1a", ""):
        with pytest.raises(ParameterError):
            Ledger.open(f"{postgres_server}&schema={wrong}")
    for ledger in made:
        assert_sound(ledger)
