"""What values are possible: columns and domains.

Its examples begin with:

>>> import oboro as ob
"""

from oboro.domain.areas import Areas
from oboro.domain.columns import Category, Column, Date, Integer, Real
from oboro.domain.domain import Domain, column_from, read_toml
from oboro.domain.mesh import Grid, Mesh

__all__ = [
    "Areas",
    "Category",
    "Column",
    "Date",
    "Domain",
    "Grid",
    "Integer",
    "Mesh",
    "Real",
    "column_from",
    "read_toml",
]


def __dir__() -> list[str]:
    return __all__
