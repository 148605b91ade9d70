"""Plan, forecast, run, release, certificate.

Its examples begin with:

>>> import oboro as ob
>>> ages = ob.Domain([ob.Integer("age", 0, 9)])
>>> plan = ob.histogram_plan(ages, "age", unit=ob.Unit.row(), eps="0.1")
>>> ledger = ob.Ledger.create("people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1))
>>> data = {"age": [3, 4, 4, 7]}
"""

from oboro.release.certificate import Certificate, read_certificate, verify_certificate
from oboro.release.forecast import Forecast
from oboro.release.part import (
    Additive,
    Choice,
    Chosen,
    Part,
    Selection,
    Weighted,
    noise_by_column,
    noise_by_plan,
    part,
    same_noise,
)
from oboro.release.plan import Pair, Plan, load_plan, plan_from, register, save_plan, upgrade
from oboro.release.release import Release
from oboro.release.reproduction import Reproducible, Reproduction
from oboro.release.run import Quote, fetch, price, quote, run

__all__ = [
    "Additive",
    "Certificate",
    "Choice",
    "Chosen",
    "Forecast",
    "Pair",
    "Part",
    "Plan",
    "Quote",
    "Release",
    "Reproducible",
    "Reproduction",
    "Selection",
    "Weighted",
    "fetch",
    "load_plan",
    "noise_by_column",
    "noise_by_plan",
    "part",
    "plan_from",
    "price",
    "quote",
    "read_certificate",
    "register",
    "run",
    "same_noise",
    "save_plan",
    "upgrade",
    "verify_certificate",
]


def __dir__() -> list[str]:
    return __all__
