"""Faults in the account of what was spent."""

from __future__ import annotations

from typing import Any

from mutants.planting import planted
from oboro.privacy import ZCDP, Renyi

ACCOUNT = "tests/ledger/test_ledger_account.py"
TAMPER = "tests/ledger/test_ledger_tamper.py"
CURRENCY = "tests/ledger/test_ledger_currency.py"
NAMES = "tests/ledger/test_ledger_names.py"
UPGRADE = "tests/ledger/test_ledger_upgrade.py"


@planted(
    "oboro.ledger.replay:remaining",
    caught_by=f"{ACCOUNT}::test_ten_times_one_tenth_is_one_and_not_a_grain_more[sqlite]",
)
def total_not_checked(original: Any, budget: Any, spent: Any) -> Any:
    """Each cost is compared with the budget by itself; what was spent before is not taken off."""
    return budget


@planted(
    "oboro.ledger.periods:fits",
    caught_by=f"{ACCOUNT}::test_ten_times_one_tenth_is_one_and_not_a_grain_more[sqlite]",
)
def total_checked_in_floats(original: Any, cost: Any, room: Any) -> bool:
    """The budget is compared in floating point, so that grains can be spent for ever."""
    from oboro.ledger.replay import amounts

    return all(1.0 + float(a) <= 1.0 + float(b) for a, b in zip(amounts(cost), amounts(room), strict=True))


@planted("oboro.ledger.periods:fits", caught_by=f"{CURRENCY}::test_approx_counts_eps_and_delta")
def delta_not_counted(original: Any, cost: Any, room: Any) -> bool:
    """Only the eps of an (eps, delta) budget runs out."""
    from oboro.ledger.replay import amounts

    return amounts(cost)[0] <= amounts(room)[0]


@planted(
    "oboro.ledger.replay:convert",
    caught_by=f"{CURRENCY}::test_renyi_counts_at_the_order_of_the_budget",
)
def best_renyi_order_at_the_end(original: Any, guarantee: Any, currency: Any) -> Any:
    """Each cost is entered at whichever Rényi order flatters it, as if the order could be chosen at the end."""
    if isinstance(currency, Renyi) and isinstance(guarantee, ZCDP):
        return Renyi(currency.order, min(guarantee.to_renyi(order).eps for order in (2, 8, 32)))
    return original(guarantee, currency)


@planted(
    "oboro.ledger.replay:price",
    caught_by=f"{CURRENCY}::test_a_conditional_plan_needs_a_ledger_with_its_assumption",
)
def assumption_not_asked_for(original: Any, unit: Any, guarantee: Any, ledger_unit: Any, budget: Any) -> Any:
    """A plan that rests on an assumption is paid from a ledger that was created without it."""
    return original(unit, guarantee.unconditional, ledger_unit, budget)


@planted(
    "oboro.ledger.replay:translate",
    caught_by=f"{ACCOUNT}::test_a_plan_for_another_unit_is_translated_or_refused[sqlite]",
)
def unit_not_compared(original: Any, guarantee: Any, made_for: Any, wanted: Any) -> Any:
    """A plan made for one unit is paid at its face value in the ledger of another."""
    return guarantee


@planted(
    "oboro.ledger.keys:verify_signature",
    caught_by=f"{TAMPER}::test_every_value_is_protected_also_with_hashes_computed_anew",
)
def signature_not_checked(original: Any, public_key: str, message: bytes, signature: bytes) -> bool:
    """Any signature of an entry is taken as good."""
    return True


@planted(
    "oboro.ledger.book:root_of",
    caught_by=f"{TAMPER}::test_a_budget_that_was_exchanged_is_noticed_at_once",
)
def budget_exchanged(original: Any, entry: Any) -> Any:
    """An entry is not tied to the first one, so that another budget can be put under an old history."""
    return AnyRoot(original(entry))


class AnyRoot(str):
    """A root that equals any other."""

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@planted(
    "oboro.ledger.account:Ledger.reserve",
    caught_by=f"{ACCOUNT}::test_a_name_whose_run_died_is_spent_and_gone[sqlite]",
)
def name_used_again(original: Any, self: Any, *, name: Any = None, **given: Any) -> Any:
    """The reservation of a run that died is taken up by the next of that name: noise drawn twice, paid for once."""
    from oboro.ledger import Reservation

    stored = self.find(name) if name is not None else None
    if stored is None or stored.committed is not None:
        return original(self, name=name, **given)
    entry = stored.reserved
    return Reservation(entry.position, entry.hash, name, entry.cost, stored.plan_hash)


@planted(
    "oboro.ledger.copies:verify",
    caught_by=f"{TAMPER}::test_a_tail_that_was_cut_off_is_found_by_a_head_that_was_kept[3]",
)
def cut_tail_not_noticed(original: Any, database: Any, key_path: Any, expected: Any = None) -> Any:
    """A ledger is verified without the head that was kept elsewhere, so that its last spends can be cut off."""
    return original(database, key_path, None)


@planted(
    "oboro.ledger.database:identity",
    caught_by=f"{NAMES}::test_a_file_with_two_names_is_refused_by_both",
)
def second_name_not_noticed(original: Any, path: Any, shown: Any, outcome: Any = "") -> Any:
    """The file of a ledger is used by two names, each with a journal of its own beside it."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


@planted(
    "oboro.ledger.database:Database._check_file",
    caught_by=f"{NAMES}::test_what_happens_to_the_file_while_it_is_written_to_is_noticed_before_the_spend_counts[remove]",
)
def removed_file_spent_from(original: Any, self: Any, outcome: Any) -> None:
    """A spend counts that was written into a file which stands nowhere any more."""


@planted(
    "oboro.ledger.records:refuse_torn", caught_by=f"{NAMES}::test_no_torn_file_shows_less_than_was_granted"
)
def torn_file_believed(original: Any, connection: Any, position: Any) -> None:
    """Half of a write, whose journal was lost, is taken for the account."""


@planted(
    "oboro.ledger.database:_refuse_older_copy",
    caught_by=f"{NAMES}::test_an_older_copy_is_refused_by_those_who_saw_more[written over]",
)
def older_copy_followed(original: Any, connection: Any, seen: Any) -> None:
    """A process goes on with an older copy that was put in the place of its ledger, and spends again what it had spent."""


@planted(
    "oboro.ledger.database:Database.end_log",
    caught_by=f"{UPGRADE}::test_the_log_of_a_killed_process_goes_into_the_file_when_it_is_opened",
)
def log_beside_the_name_kept(original: Any, self: Any) -> None:
    """What is spent goes into a log beside the name of the file, where another name does not see it."""


@planted(
    "oboro.ledger.creation:refuse_older",
    caught_by=f"{UPGRADE}::test_an_older_ledger_is_read_but_not_spent_from[sqlite]",
)
def older_schema_written_to(original: Any, connection: Any, place: Any) -> None:
    """A ledger that processes of 0.1 may still use, with a log beside it, is spent from."""


PERIODS = "tests/ledger/test_ledger_periods.py"


@planted(
    "oboro.ledger.periods:now_after",
    caught_by=f"{PERIODS}::test_a_clock_that_goes_back_opens_nothing[sqlite]",
)
def clock_that_goes_back_followed(original: Any, last: Any) -> Any:
    """A clock that is set back opens a period again."""
    return original(None)


@planted(
    "oboro.ledger.accounts:needs_approval",
    caught_by=f"{PERIODS}::test_four_eyes_above_a_threshold[sqlite]",
)
def approval_not_asked_for(original: Any, grant: Any, cost: Any) -> bool:
    """What needs four eyes is paid with two."""
    return False


@planted(
    "oboro.ledger.accounts:granted",
    caught_by=f"{PERIODS}::test_a_new_grant_forgets_nothing[sqlite]",
)
def new_grant_refills(original: Any, name: Any, before: Any, *rest: Any) -> Any:
    """An account that is granted something anew begins again at nothing."""
    return original(name, None, *rest)
