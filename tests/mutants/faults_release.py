"""Faults in the one way to run a plan, and in the page that goes out with a release."""

from __future__ import annotations

from typing import Any

from mutants.planting import planted

RUN = "tests/release/test_run.py"


@planted(
    "oboro.release.run:run",
    caught_by=f"{RUN}::test_noise_is_drawn_only_after_the_reservation_is_on_disk",
)
def drawn_before_reserved(
    original: Any, plan: Any, data: Any, ledger: Any, name: Any = None, *, bits: Any = None
) -> Any:
    """Random words for the noise are drawn ahead, before anything is reserved."""
    from oboro.noise.bits import system_bits

    (bits or system_bits()).words(1)
    return original(plan, data, ledger, name, bits=bits)


@planted(
    "oboro.release.run:run",
    caught_by=f"{RUN}::test_after_the_reservation_nothing_is_refunded",
)
def spent_only_if_it_worked(
    original: Any, plan: Any, data: Any, ledger: Any, name: Any = None, *, bits: Any = None
) -> Any:
    """The measurement is made first and the spend recorded after it, so that a crash has seen noise for nothing."""
    from oboro.noise.bits import system_bits

    plan.measure(plan.prepare(data), bits or system_bits())
    return original(plan, data, ledger, name, bits=bits)


@planted(
    "oboro.release.run:run",
    caught_by=f"{RUN}::test_what_fails_before_the_reservation_spends_nothing",
)
def reserved_before_data_are_read(
    original: Any, plan: Any, data: Any, ledger: Any, name: Any = None, *, bits: Any = None
) -> Any:
    """A file that is not there costs as much as a release."""
    ledger.reserve(plan=plan.to_dict(), unit=plan.unit, guarantee=plan.guarantee, name=name)
    return original(plan, data, ledger, name, bits=bits)


@planted(
    "oboro.statistics.histogram:HistogramPlan.prepare",
    "oboro.release.release:certify",
    caught_by=f"{RUN}::test_a_certificate_holds_what_it_should_and_nothing_private",
)
def certificate_carries_a_private_count(original: Any, *given: Any, **more: Any) -> Any:
    """The certificate says how many rows there were, where that is private."""
    if original.__name__ == "prepare":
        counts = original(*given, **more)
        COUNTED.append(int(counts.sum()))
        return counts
    facts = given[4].body["facts"]
    facts["released"] += f", of {COUNTED[-1]} rows"
    return original(*given, **more)


COUNTED: list[int] = []


@planted(
    "oboro.release.certificate:Certificate.verify_signature",
    caught_by=f"{RUN}::test_any_change_of_a_certificate_is_found",
)
def certificate_not_checked(original: Any, self: Any, public_key: Any = None) -> None:
    """A certificate is believed without its signature."""


@planted(
    "oboro.release.certificate:verify_certificate",
    caught_by=f"{RUN}::test_saved_files_verify_and_altered_ones_do_not[out.csv]",
)
def released_file_not_compared(original: Any, path: Any, *, data: Any = None, public_key: Any = None) -> Any:
    """The signature of a certificate is checked, and the file that it speaks of is not."""
    from oboro.release.certificate import read_certificate

    certificate = read_certificate(path)
    certificate.verify_signature(public_key)
    return certificate.record


@planted(
    "oboro.release.run:same_plan",
    caught_by=f"{RUN}::test_a_named_release_is_given_back_without_looking_at_data",
)
def name_given_to_any_plan(original: Any, plan: Any, written: Any) -> Any:
    """A stored release is given back for any plan that asks by its name."""
    return True
