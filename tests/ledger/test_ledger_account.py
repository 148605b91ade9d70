"""What a ledger does, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from ledger_help import PLAN, assert_sound, spend

from oboro.errors import BudgetError, LedgerError, NameTakenError, ParameterError, UnitError
from oboro.ledger import Head, Ledger, PublicKey, Reservation, plan_hash, verify_signature
from oboro.ledger.records import PART
from oboro.privacy import Pure, Unit

Create = Callable[..., Ledger]


def test_a_new_ledger_has_spent_nothing(create: Create) -> None:
    ledger = create(Pure(2), Unit.person("user_id", max_rows=20))
    assert (ledger.spent, ledger.remaining, ledger.budget) == (Pure(0), Pure(2), Pure(2))
    assert (ledger.dataset, ledger.unit) == ("city 2026", Unit.person("user_id", max_rows=20))
    assert [entry.kind for entry in ledger.history()] == ["create"]
    assert_sound(ledger)


def test_an_opened_ledger_is_the_one_that_was_created(create: Create, where: str) -> None:
    made = create()
    spend(made, "0.5")
    opened = Ledger.open(where)
    assert (opened.id, opened.dataset, opened.unit, opened.budget) == (
        made.id,
        made.dataset,
        made.unit,
        made.budget,
    )
    assert (opened.spent, opened.head()) == (made.spent, made.head())


def test_ten_times_one_tenth_is_one_and_not_a_grain_more(create: Create) -> None:
    ledger = create(Pure(1))
    for _ in range(10):
        spend(ledger, "0.1")
    assert (ledger.spent, ledger.remaining) == (Pure(1), Pure(0))
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "1e-18")
    assert refused.value.exit_code == 3
    assert ledger.spent == Pure(1)
    assert_sound(ledger)


def test_a_refusal_says_cost_remainder_and_budget(create: Create) -> None:
    ledger = create(Pure(2))
    spend(ledger, "1.9")
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "1/3")
    text = str(refused.value)
    assert "eps = 1/3" in text
    assert "eps = 0.1" in text
    assert "eps = 2" in text
    assert ledger.spent == Pure("1.9")


def test_price_and_affords_spend_nothing(create: Create) -> None:
    ledger = create(Pure(1))
    assert ledger.price(Unit.row(), Pure("0.25")) == Pure("0.25")
    assert ledger.affords(Pure(1))
    assert not ledger.affords(Pure("1.000000000000000001"))
    assert ledger.head().position == 0


def test_a_plan_for_another_unit_is_translated_or_refused(create: Create) -> None:
    ledger = create(Pure(1), Unit.row("replace"))
    assert spend(ledger, "0.25", unit=Unit.row()).cost == Pure("0.5")
    with pytest.raises(UnitError):
        spend(ledger, "0.25", unit=Unit.person("user_id", max_rows=3))
    with pytest.raises(ParameterError):
        ledger.price("row", Pure(1))  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        ledger.price(Unit.row(), 1)  # type: ignore[arg-type]
    assert ledger.spent == Pure("0.5")
    assert_sound(ledger)


def test_what_was_committed_is_found_by_name(create: Create, where: str) -> None:
    ledger = create()
    content = bytes(range(256)) * (PART // 256) + b"the last part"
    reservation = spend(ledger, "0.5", "first")
    entry = ledger.commit(reservation, content, facts={"software": "oboro 1", "noise": {"scale": "2"}})
    stored = Ledger.open(where).find("first")
    assert stored is not None
    assert stored.content() == content
    assert stored.plan_hash == plan_hash(PLAN) == reservation.plan_hash
    assert stored.reserved.body["plan"] == PLAN
    assert stored.committed == entry
    assert entry.body["facts"] == {"software": "oboro 1", "noise": {"scale": "2"}}
    assert_sound(ledger)


def test_empty_content_is_content(create: Create) -> None:
    ledger = create()
    ledger.commit(spend(ledger, "0.5", "empty"), b"", facts={})
    stored = ledger.find("empty")
    assert stored is not None
    assert stored.content() == b""
    assert ledger.verify().contents == 1


def test_a_name_that_was_never_used_is_not_found(create: Create) -> None:
    ledger = create()
    spend(ledger, "0.5")
    assert ledger.find("first") is None


def test_a_release_without_a_name_may_be_reserved_again_and_again(create: Create) -> None:
    ledger = create()
    for _ in range(3):
        ledger.commit(spend(ledger, "0.5"), b"x", facts={})
    assert ledger.spent == Pure("1.5")
    assert_sound(ledger)


def test_a_name_belongs_to_one_plan(create: Create) -> None:
    ledger = create()
    spend(ledger, "0.1", "first")
    with pytest.raises(NameTakenError, match="another plan"):
        spend(ledger, "0.1", "first", plan={**PLAN, "eps": "0.2"})
    assert ledger.spent == Pure("0.1")


def test_a_name_whose_run_died_is_spent_and_gone(create: Create) -> None:
    ledger = create()
    spend(ledger, "0.1", "first")
    with pytest.raises(NameTakenError, match="spent and gone"):
        spend(ledger, "0.1", "first")
    stored = ledger.find("first")
    assert stored is not None
    assert stored.committed is None
    with pytest.raises(LedgerError, match="did not finish"):
        stored.content()


def test_a_name_that_was_committed_is_not_reserved_again(create: Create) -> None:
    ledger = create()
    ledger.commit(spend(ledger, "0.1", "first"), b"x", facts={})
    with pytest.raises(NameTakenError, match="stored already"):
        spend(ledger, "0.1", "first")
    assert ledger.spent == Pure("0.1")


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "line\nbreak", "nul\0", 7])
def test_a_name_must_be_printable(create: Create, name: Any) -> None:
    ledger = create()
    with pytest.raises(ParameterError):
        spend(ledger, "0.1", name)
    assert ledger.head().position == 0


def test_names_may_be_in_any_script(create: Create) -> None:
    ledger = create()
    ledger.commit(spend(ledger, "0.1", "人口 2026 🌙"), b"x", facts={"注": "朧"})
    assert ledger.find("人口 2026 🌙") is not None
    assert_sound(ledger)


def test_a_reservation_is_committed_once(create: Create) -> None:
    ledger = create()
    reservation = spend(ledger, "0.1")
    ledger.commit(reservation, b"x", facts={})
    with pytest.raises(LedgerError, match="already"):
        ledger.commit(reservation, b"y", facts={})
    assert ledger.verify().commits == 1


def test_only_a_reservation_of_this_ledger_can_be_committed(create: Create) -> None:
    ledger = create()
    real = spend(ledger, "0.1")
    for position, digest in (
        (real.position + 1, real.hash),
        (real.position, "0" * 64),
        (0, ledger.history()[0].hash),
    ):
        with pytest.raises(LedgerError, match="not of this ledger"):
            ledger.commit(Reservation(position, digest, None, real.cost, real.plan_hash), b"x", facts={})
    assert ledger.verify().commits == 0


@pytest.mark.parametrize(
    "plan", [{"eps": 0.1}, {"eps": Fraction(1, 10)}, {1: "one"}, {"deep": [{"x": float("nan")}]}]
)
def test_a_plan_without_one_exact_text_is_refused(create: Create, plan: Any) -> None:
    ledger = create()
    with pytest.raises(ParameterError):
        spend(ledger, "0.1", plan=plan)
    with pytest.raises(ParameterError):
        ledger.commit(spend(ledger, "0.1"), b"x", facts=plan)
    assert ledger.head().position == 1


def test_the_order_of_keys_does_not_make_another_plan() -> None:
    assert (
        plan_hash({"a": 1, "b": [1, 2]})
        == plan_hash({"b": (1, 2), "a": 1})
        != plan_hash({"a": 1, "b": [2, 1]})
    )


def test_entries_say_when_what_and_how_much(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime(2126, 4, 1, 9, 30, 5, tzinfo=tz)

    ledger = create()
    monkeypatch.setattr("oboro.ledger.periods.datetime", Clock)
    spend(ledger, "0.1", "first")
    spend(ledger, "0.2")
    _, first, second = ledger.history()
    assert first.time == datetime(2126, 4, 1, 9, 30, 5, tzinfo=UTC)
    assert (first.name, first.cost, first.spent) == ("first", Pure("0.1"), Pure("0.1"))
    assert (second.name, second.cost, second.spent) == (None, Pure("0.2"), Pure("0.3"))
    assert second.previous == first.hash


def test_the_head_is_the_last_entry_and_reads_back(create: Create) -> None:
    ledger = create()
    spend(ledger, "0.1")
    assert ledger.head() == ledger.history()[-1].head == Head.parse(str(ledger.head()))
    with pytest.raises(ParameterError):
        Head.parse("12:abc")


def test_signatures_verify_with_the_public_key_alone(create: Create) -> None:
    ledger = create()
    signature = ledger.sign(b"certificate")
    assert verify_signature(ledger.public_key, b"certificate", signature)
    assert not verify_signature(ledger.public_key, b"certificatf", signature)
    assert not verify_signature("00" * 32, b"certificate", signature)
    assert not verify_signature("not hex", b"certificate", signature)
    with pytest.raises(ParameterError):
        ledger.sign(b"oboro ledger entry 1\n" + b"0" * 64)


def test_the_key_is_rotated_inside_the_chain(create: Create, where: str) -> None:
    ledger = create()
    spend(ledger, "0.1")
    old = ledger.public_key
    new = ledger.rotate_key()
    spend(ledger, "0.1")
    assert ledger.public_key == new.public_key != old
    assert ledger.keys() == [PublicKey(0, old), new]
    assert new.position == 2
    assert verify_signature(new.public_key, b"m", Ledger.open(where).sign(b"m"))
    assert_sound(ledger)


def test_a_closed_ledger_opens_again_by_itself(create: Create) -> None:
    with create() as ledger:
        spend(ledger, "0.1")
    assert ledger.spent == Pure("0.1")


def test_the_price_of_a_reservation_does_not_depend_on_the_clock(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = create()
    spend(ledger, "0.1")

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime(1999, 1, 1, tzinfo=tz)

    monkeypatch.setattr("oboro.ledger.periods.datetime", Earlier)
    spend(ledger, "0.1")
    history = ledger.history()
    assert history[-1].time == history[-2].time  # an entry is never earlier than the one before it
    assert_sound(ledger)
