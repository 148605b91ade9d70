"""Units, guarantees, events and their composition.

Its examples begin with:

>>> import oboro as ob
"""

from oboro.privacy.events import (
    Composed,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Repeated,
    Spend,
    compose,
    convert,
    parallel,
)
from oboro.privacy.guarantee import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, guarantee_from
from oboro.privacy.unit import Unit, translate, unit_from

__all__ = [
    "ZCDP",
    "Approx",
    "Composed",
    "Conditional",
    "Event",
    "GaussianNoise",
    "Guarantee",
    "LaplaceNoise",
    "Pure",
    "Renyi",
    "Repeated",
    "Spend",
    "Unit",
    "compose",
    "convert",
    "guarantee_from",
    "parallel",
    "translate",
    "unit_from",
]


def __dir__() -> list[str]:
    return __all__
