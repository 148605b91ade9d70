"""The pages people look at: one look, self-contained, in English and Japanese.

Its examples begin with:

>>> import oboro as ob
"""

from oboro.report.map import Comparison, write_map

__all__ = ["Comparison", "write_map"]


def __dir__() -> list[str]:
    return __all__
