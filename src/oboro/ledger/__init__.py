"""What has been spent: the durable account of one named dataset and one unit.

Its examples begin with:

>>> import oboro as ob
>>> unit = ob.Unit.row()
>>> ledger = ob.Ledger.create("people.ledger", dataset="people", unit=unit, budget=ob.Pure(1))
"""

from oboro.ledger.account import Ledger
from oboro.ledger.accounts import Account
from oboro.ledger.chain import Entry, Head, canonical, plan_hash
from oboro.ledger.copies import verify_export
from oboro.ledger.keys import PublicKey, verify_signature
from oboro.ledger.periods import Periods
from oboro.ledger.records import Reservation, Stored
from oboro.ledger.replay import Verification

__all__ = [
    "Account",
    "Entry",
    "Head",
    "Ledger",
    "Periods",
    "PublicKey",
    "Reservation",
    "Stored",
    "Verification",
    "canonical",
    "plan_hash",
    "verify_export",
    "verify_signature",
]


def __dir__() -> list[str]:
    return __all__
