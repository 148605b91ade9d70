"""Synthetic records, with the privacy of sampling itself accounted for.

Its examples begin with:

>>> import oboro as ob
>>> unit = ob.Unit.row()
>>> domain = ob.Domain([ob.Integer("age", 0, 99), ob.Category("sex", ["f", "m"])])
>>> data = {"age": [31, 54, 18, 70] * 25, "sex": ["f", "m", "m", "f"] * 25}
>>> ledger = ob.Ledger.create("people.ledger", dataset="people", unit=unit, budget=ob.ZCDP(1))
"""

from oboro.synth.check import check
from oboro.synth.copula import MomentsPlan
from oboro.synth.curves import Account, account, rdp_private_n, rdp_public_n
from oboro.synth.draft import draft
from oboro.synth.marginals import MarginalsPlan, QualityPlan
from oboro.synth.model import Model, load, plan, release
from oboro.synth.papers.miura import renyi_gaussians
from oboro.synth.quality import Quality, quality
from oboro.synth.records import GaussianPlan

__all__ = [
    "Account",
    "GaussianPlan",
    "MarginalsPlan",
    "Model",
    "MomentsPlan",
    "Quality",
    "QualityPlan",
    "account",
    "check",
    "draft",
    "load",
    "plan",
    "quality",
    "rdp_private_n",
    "rdp_public_n",
    "release",
    "renyi_gaussians",
]


def __dir__() -> list[str]:
    return __all__
