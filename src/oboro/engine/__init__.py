"""Brings data, and bounds contributions.

Its examples begin with:

>>> import oboro as ob
>>> columns = [ob.Integer("age", 0, 99), ob.Category("sex", ["f", "m"])]
>>> source = ob.engine.open_data({"age": [31, 54, 200, None], "sex": ["f", "m", "m", "f"]})
"""

from oboro.engine.codes import (
    add_up,
    check_columns,
    check_width,
    code_sql,
    count_cells,
    count_units,
    counted_rows,
)
from oboro.engine.persons import count_persons
from oboro.engine.source import Source, open_data

__all__ = [
    "Source",
    "add_up",
    "check_columns",
    "check_width",
    "code_sql",
    "count_cells",
    "count_persons",
    "count_units",
    "counted_rows",
    "open_data",
]


def __dir__() -> list[str]:
    return __all__
