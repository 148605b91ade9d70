"""Faults in noise that no party knows: urns, their verification, and the protocol."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted

PROMISE = "tests/secure/test_secure_promise.py"
ATTACKS = "tests/secure/test_secure_attacks.py"


@planted(
    "oboro.secure.papers.kii:algorithm2",
    caught_by="tests/secure/test_secure_kii.py::test_the_rule_that_the_proof_needs_stops_earlier",
)
def kii_stop_rule_as_printed(original: Any, *given: Any, stop: str = "tables", **more: Any) -> Any:
    """Algorithm 2 stops by the sum of D as printed, not by that of the symmetric D which its proof speaks of."""
    return original(*given, stop="tables", **more)


@planted(
    "oboro.secure.law:keeps",
    caught_by=f"{PROMISE}::test_one_entry_less_breaks_the_promise",
)
def urns_used_on_trust(original: Any, law: Any, eps: Fraction, delta: Fraction, sensitivity: int) -> bool:
    """An urn of Algorithm 2 is believed if its ends weigh little enough, as Conjecture 4.2.1 would have it."""
    return Fraction(sum(law.weights[:sensitivity]), law.total) <= delta


@planted(
    "oboro.secure.law:exact_delta",
    caught_by=f"{PROMISE}::test_steps_multiplied_by_the_sensitivity_protect_nothing",
)
def only_the_largest_shift_verified(
    original: Any, law: Any, eps: Fraction, sensitivity: int, *, bits: int = 128
) -> Any:
    """Delta is computed for answers that differ by all of the sensitivity, and not for those that differ by less."""
    from oboro.secure.law import Law

    if sensitivity == 1:
        return original(law, eps, 1, bits=bits)
    return original(Law(law.lowest // sensitivity, law.weights[::sensitivity]), eps, 1, bits=bits)


@planted(
    "oboro.secure.law:drawer_delta",
    caught_by=f"{PROMISE}::test_the_paper_promises_more_than_its_drawer_gets",
)
def drawer_forgets_its_indices(original: Any, urn: Any, draws: int, eps: Fraction, sensitivity: int) -> Any:
    """The party that drew twice from one urn is taken not to know whether it drew the same entry."""
    from oboro.secure.law import exact_delta, law_of

    return exact_delta(law_of([urn], draws), eps, sensitivity)


@planted("oboro.secure.elgamal:renew", caught_by=f"{ATTACKS}::test_p1_finds_nothing_when_the_sum_is_renewed")
def re_randomisation_left_out(original: Any, public: bytes, ciphertext: bytes, bits: Any) -> bytes:
    """The drawn sum goes back to P1 as it is, and P1 recognises the entries that it made."""
    return ciphertext


@planted(
    "oboro.secure.group:is_point",
    caught_by=f"{ATTACKS}::test_a_mark_of_small_order_would_survive_and_is_refused",
)
def points_not_checked(original: Any, data: bytes) -> bool:
    """A point with a part of small order is let in, which marks an entry through every renewal."""
    return len(data) == 32


@planted("oboro.secure.draws:permutation", caught_by=f"{ATTACKS}::test_p2_sees_nothing_in_the_urns")
def urns_not_shuffled(original: Any, n: int, bits: Any = None) -> Any:
    """Urns are sent in the order of their values, so that P2 knows what it drew."""
    return np.arange(n)


@planted(
    "oboro.secure.party:Shelf.claim",
    "oboro.secure.party:Shelf.use",
    caught_by="tests/secure/test_secure_protocol.py::test_urns_are_used_once_on_both_sides",
)
def urns_used_twice(original: Any, self: Any, name: bytes, plan: str) -> None:
    """Urns that were used are used again."""


@planted(
    "oboro.secure.batch:uniform_integers",
    caught_by="tests/secure/test_secure_digits.py::test_draws_have_the_law_that_is_verified",
)
def first_entries_never_drawn(original: Any, below: int, size: Any, bits: Any = None) -> Any:
    """The draw from an urn never reaches its rarest values, at the ends."""
    return np.clip(original(below, size, bits), below // 50, below - 1 - below // 50)


@planted(
    "oboro.secure.noise_plan:different",
    caught_by="tests/secure/test_secure_batch.py::test_no_entry_serves_two_answers",
)
def batch_with_replacement(original: Any, below: int, count: int, trials: int, bits: Any) -> Any:
    """Answers of a batch may get the same entry, as the paper's section 3.2 has it."""
    from oboro.noise.draws import uniform_integers

    return uniform_integers(below, (trials, count), bits)


@planted(
    "oboro.secure.noise_plan:joint_delta",
    caught_by="tests/secure/test_secure_batch.py::test_a_batch_costs_the_joint_delta_in_one_part",
)
def batch_priced_as_one_answer(
    original: Any, urns: Any, answers: int, eps: Fraction, sensitivity: int, *, spare: Fraction
) -> Any:
    """A batch is promised what one of its answers would be, as if the others had taken nothing."""
    return original(urns, 1, eps, sensitivity, spare=spare)


@planted(
    "oboro.secure.noise_plan:drawer_delta",
    caught_by="tests/secure/test_secure_batch.py::test_the_protocol_as_printed_carries_its_drawers_delta",
)
def printed_protocol_priced_as_claimed(
    original: Any, urn: Any, draws: int, eps: Fraction, sensitivity: int
) -> Any:
    """The protocol as printed is promised the paper's delta, as if its drawer did not know its indices."""
    from oboro.secure.law import exact_delta, law_of

    return exact_delta(law_of([urn], draws), eps, sensitivity)
