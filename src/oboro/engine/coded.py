"""An edition: rows bounded and coded once, when data is opened, so that what comes later takes no time from any person's rows.

A person with 200,000 rows costs an engine more time than one with none, whenever rows are bounded. Here they are bounded once: what
is left of a person are `max_rows` rows, by the order of protocol.py over all declared columns, and every value is what its code
says. Plans then read the edition as they read any table.

Privacy
    Which rows are kept of a person depends on that person's rows alone, and at most `max_rows` are. A plan that bounds again, after
    a condition, keeps a part of them: one unit still moves its answer as far as the plan says. A value's code is that of its column, so
    coding twice is coding once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.engine.codes import count_sql, field_sql
from oboro.engine.contributions import all_rows, owned_rows
from oboro.engine.duck import on_this_machine
from oboro.engine.protocol import Field, Source
from oboro.privacy import Unit

if TYPE_CHECKING:
    from oboro.arrays import Array, Table

_NOTHING = -1  # the code of a value that leaves its row out


def edition(
    source: Source, fields: Sequence[Field], unit: Unit, count: str | None = None, most: int = 0
) -> Table:
    """The rows of each unit, bounded, as an Arrow table: what each field's code says, null where it has none, and whose a row is.

    `count` is a column that says how many a record counts for, at most `most`.

    >>> people = {"who": ["a", "a", "a", "b"], "age": [1, 2, 300, None]}
    >>> unit = ob.Unit.person("who", 2)
    >>> from oboro.engine.coded import edition
    >>> found = edition(ob.engine.open_data(people), [ob.Integer("age", 0, 99)], unit)
    >>> found.group_by("who").aggregate([("who", "count")]).sort_by("who").column("who_count").to_pylist()
    [2, 1]
    """
    import pyarrow as pa

    here = on_this_machine(source, "a service")
    names = [field.name for field in fields]
    here.need(*names, *([] if count is None else [count]))
    coded = {
        f"c{place}": f"coalesce(({field_sql(field, here.types)})::BIGINT, {_NOTHING})"
        for place, field in enumerate(fields)
    }
    if count is not None:
        coded["n"] = f"({count_sql(count, here.types[count], most)})::BIGINT"
    query = owned_rows(here, coded, unit) if unit.kind == "person" else all_rows(here, coded, Unit.row())
    relation = here.connection.sql(query)
    table = (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)()
    columns = {
        field.name: _decoded(field, table.column(f"c{place}").combine_chunks())
        for place, field in enumerate(fields)
    }
    if count is not None:
        columns[count] = table.column("n")
    if unit.kind == "person":
        assert unit.column is not None
        columns.setdefault(unit.column, table.column("person"))
    return pa.table(columns)


def _decoded(field: Field, codes: Array) -> Array:
    """What codes stand for, null for none."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pc.if_else(pc.less(codes, 0), pa.scalar(None, pa.int64()), codes)
    if isinstance(field, Integer):
        return pc.add(pc.multiply(known, field.step), field.low)
    if isinstance(field, Date):
        first = (field.first - type(field.first)(1970, 1, 1)).days
        return pc.add(known, first).cast(pa.int32()).cast(pa.date32())
    if isinstance(field, Category):
        return pa.array(list(field.values)).take(known)
    if isinstance(field, Real):
        found, places = np.unique(codes.to_numpy(zero_copy_only=False), return_inverse=True)
        values = pa.array([None if code < 0 else field.value(int(code)) for code in found], pa.float64())
        return values.take(pa.array(places))
    assert not isinstance(field, Column)
    return known
