"""What was paid in a run: so that whoever tells of a failure never says that nothing was spent.

From the reservation on, every failure of a run is a PaidError. Whoever runs a whole command (`payments`) also sees
what was paid before a failure that comes later still: a file that cannot be written, a reader that went away.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oboro.errors import LedgerError, OboroError, PaidError, StoredError

NOTHING_RECORDED = "Nothing was recorded, so nothing more is spent."
PERHAPS_RECORDED = "It may have been recorded all the same; if so, it stays spent."


@dataclass(slots=True)
class Payment:
    """One reservation. Without an `entry` it was asked for, and nobody knows yet whether it was recorded."""

    ledger: str
    entry: int | None = None
    stored: bool | None = (
        False  # the release is in the ledger, and can be had again at no cost; None: it may be
    )
    delivered: bool = False  # and its file was written
    of: str = "release"  # or "tick" or "final" of a series, which was paid for when it was opened


_payments: list[Payment] | None = None


@contextmanager
def payments() -> Iterator[list[Payment]]:
    """All that is paid while this lasts, by whatever is run."""
    global _payments
    before, _payments = _payments, []
    try:
        yield _payments
    finally:
        _payments = before


@contextmanager
def paying(ledger: str) -> Iterator[Payment]:
    """Around a reservation: a failure in it leaves a payment behind only if it may have been recorded."""
    payment = Payment(ledger)
    if _payments is not None:
        _payments.append(payment)
    try:
        yield payment
    except Exception as error:
        recorded = isinstance(error, LedgerError) and PERHAPS_RECORDED in error.message
        if _payments is not None and not recorded:
            _payments.remove(payment)
        raise


@contextmanager
def paid(
    ledger: str,
    entry: int,
    *,
    stored: bool = False,
    look: Callable[[], bool] | None = None,
    of: str = "release",
) -> Iterator[None]:
    """Around what a run does after its reservation, or after its release was stored: a failure there says so.

    `look` is for the storing itself: it says whether the ledger has the release. A failure may come just after it was
    recorded, and nobody must be told to pay again for what is there.
    """
    known = [one for one in _payments or () if (one.ledger, one.entry) == (ledger, entry)]
    payment = known[-1] if known else Payment(ledger, entry)
    payment.stored, payment.of = stored, of
    try:
        yield
    except PaidError:
        raise
    except BaseException as error:
        if look is not None:
            payment.stored = _found(look)
        if isinstance(error, Exception):
            raise failed(payment, error) from error
        error.add_note(str(failed(payment, error)))  # somebody stopped it: that goes on as it is, with a word
        error.stored = payment.stored  # type: ignore[attr-defined]  # as a PaidError has it
        raise


def _found(look: Callable[[], bool]) -> bool | None:
    try:
        return look()
    except BaseException:  # the ledger cannot be asked now, or somebody stops that too: it may be there
        return None


def delivered() -> None:
    """Says that the file of the last release was written, with its certificate."""
    for payment in (_payments or [])[-1:]:
        payment.delivered = True


def failed(payment: Payment, error: BaseException) -> PaidError:
    """The error that says what became of a payment. The text of a foreign error may quote a value: only its kind is told."""
    why = error.message if isinstance(error, OboroError) else type(error).__name__
    why = why.removesuffix(NOTHING_RECORDED).rstrip()  # true of what failed, and not of what was paid before
    detail = f"{why} ({error.given})" if isinstance(error, OboroError) and error.given else why
    # an address is shown without its options, among which may be a password: so it is not one to be typed again
    where = "LEDGER" if "://" in payment.ledger else payment.ledger
    if payment.stored:
        return StoredError(
            "the release was paid for and is stored in the ledger, but what came after failed",
            given=detail,
            needed="nothing more is to be paid",
            fix=f"oboro ledger fetch {shlex.quote(where)} --entry {payment.entry} -o FILE",
        )
    if payment.stored is None:
        unsure = PaidError(
            "it was paid for and may be stored in the ledger: look there before anything is paid again",
            given=f"entry {payment.entry}: {detail}",
            needed="the release from the ledger, at no cost, if it is there",
            fix=f"oboro ledger fetch {shlex.quote(where)} --entry {payment.entry} -o FILE",
        )
        unsure.stored = None
        return unsure
    if payment.entry is None:
        return PaidError(
            "it may have been paid for, and nothing was released",
            given=detail,
            needed="a look at what the ledger says is spent",
            fix=f"oboro ledger show {shlex.quote(where)}",
        )
    if payment.of == "tick":
        return PaidError(
            "the tick was begun, and it did not finish: it is lost, and never drawn again",
            given=f"entry {payment.entry}: {detail}",
            needed="the other ticks of the series: nothing more is to be paid",
        )
    if payment.of == "final":
        return PaidError(
            "the final table was not stored; the ticks are there, and nothing more is to be paid",
            given=f"entry {payment.entry}: {detail}",
            needed="the final table, asked for again",
        )
    return PaidError(
        "it was paid for, but it did not finish: what it cost is spent, and nothing was released",
        given=f"entry {payment.entry}: {detail}",
        needed="another run, which is paid for again, under another name",
    )
