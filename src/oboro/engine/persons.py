"""How many persons there are in each of several groups, each counted once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from oboro.domain import Column
from oboro.engine.codes import all_rows, code_sql, person_sql
from oboro.engine.source import Source
from oboro.privacy import Unit

Runs = tuple[tuple[int, int], ...]  # the first code of a run of codes that share a bin, and the bin; in order


def count_persons(
    source: Source,
    by: Sequence[tuple[Column, Runs, int]],
    unit: Unit,
    *,
    most: int,
    condition: str | None = None,
) -> dict[int, int]:
    """How many persons have a row in each group, by its mixed-radix number; each in at most `most` groups.

    `by` is a column, how its codes fall into bins (none: each is its own), and how many bins there are. Of a person in
    more groups than `most` so many are kept, by the order of a hash of the person and the group, which depends on that
    person's rows alone.

    >>> visits = ob.engine.open_data({"who": ["a", "a", "b", None], "sex": ["f", "f", "m", "m"]})
    >>> persons = ob.Unit.person("who", 5)
    >>> ob.engine.count_persons(visits, [(columns[1], (), 2)], persons, most=1) == {0: 1, 1: 1}
    True
    """
    source.need(*[column.name for column, _, _ in by])
    group = "0::BIGINT"
    for column, runs, size in by:
        group = f"({group}) * {size} + ({_bin_sql(code_sql(column, source.types[column.name]), runs)})"
    fields = {"person": person_sql(source, unit), "g": group}
    pairs = (
        f"SELECT DISTINCT person, g FROM ({all_rows(source, fields, unit, condition)}) WHERE g IS NOT NULL"
    )
    order = "row_number() OVER (PARTITION BY person ORDER BY hash(person, g), g)"
    kept = f"SELECT person, g FROM ({pairs}) QUALIFY {order} <= {most}" if by else pairs
    found = source.connection.execute(f"SELECT g, count(*) FROM ({kept}) GROUP BY g").fetchall()
    return {int(place): int(count) for place, count in found}


def _bin_sql(code: str, runs: Runs) -> str:
    if not runs:
        return code
    cases = " ".join(
        f"WHEN code < {following} THEN {place}" for (_, place), (following, _) in itertools.pairwise(runs)
    )
    inside = f"CASE WHEN code IS NULL THEN NULL {cases} ELSE {runs[-1][1]} END"
    return f"(SELECT {inside} FROM (SELECT {code} AS code))"
