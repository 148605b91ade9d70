"""Plan, forecast, run, release, certificate."""

from oboro.release.certificate import Certificate, read_certificate, verify_certificate
from oboro.release.forecast import Forecast
from oboro.release.plan import Pair, Plan, load_plan, plan_from, register, save_plan
from oboro.release.release import Release
from oboro.release.reproduction import Reproducible, Reproduction
from oboro.release.run import fetch, price, run

__all__ = [
    "Certificate",
    "Forecast",
    "Pair",
    "Plan",
    "Release",
    "Reproducible",
    "Reproduction",
    "fetch",
    "load_plan",
    "plan_from",
    "price",
    "read_certificate",
    "register",
    "run",
    "save_plan",
    "verify_certificate",
]
