"""Brings data, and bounds contributions.

Its examples begin with:

>>> import oboro as ob
>>> columns = [ob.Integer("age", 0, 99), ob.Category("sex", ["f", "m"])]
>>> source = ob.engine.open_data({"age": [31, 54, 200, None], "sex": ["f", "m", "m", "f"]})
"""

from oboro.engine.cluster import spark
from oboro.engine.protocol import (
    Source,
    add_up,
    check_columns,
    check_width,
    count_cells,
    count_persons,
    count_ticks,
    count_units,
    stream_codes,
)
from oboro.engine.rules import check_rules
from oboro.engine.source import open_data

__all__ = [
    "Source",
    "add_up",
    "check_columns",
    "check_rules",
    "check_width",
    "count_cells",
    "count_persons",
    "count_ticks",
    "count_units",
    "open_data",
    "spark",
    "stream_codes",
]


def __dir__() -> list[str]:
    return __all__
