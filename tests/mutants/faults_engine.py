"""Faults between a user's table and the integers that are noised."""

from __future__ import annotations

from typing import Any

from mutants.planting import planted

ENGINE = "tests/engine/test_engine.py"
SUMS = "tests/engine/test_sums.py"


@planted(
    "oboro.engine.codes:code_sql",
    caught_by=f"{ENGINE}::test_duckdb_follows_the_rule_of_the_domain[i-values3]",
)
def raw_data_after_clipping(original: Any, column: Any, type_name: str) -> str:
    """The clipped value is computed, and the raw one is used."""
    from oboro.domain import Integer
    from oboro.engine.source import quoted

    clipped = original(column, type_name)
    return f"({quoted(column.name)} - ({column.low}))" if isinstance(column, Integer) else clipped


@planted("oboro.engine.arrays:_coded", caught_by=f"{SUMS}::test_sums_of_codes_and_products_by_group")
def raw_data_in_the_quick_way(original: Any, values: Any, column: Any) -> Any:
    """Numbers that lie in memory are added up as they are, without their bounds."""
    original(values, column)
    return values.drop_null().to_numpy() - column.low


@planted("oboro.engine.codes:code_sql", caught_by=f"{ENGINE}::test_mixed_objects_in_pandas_do_not_raise")
def missing_values_dropped(original: Any, column: Any, type_name: str) -> str:
    """A value that is not a number takes its record out, though the domain says what such a record counts as."""
    from oboro.engine.codes import bare_sql, base_type
    from oboro.engine.source import quoted

    return bare_sql(column, quoted(column.name), base_type(type_name))


@planted(
    "oboro.engine.duck:DuckTable.count_units",
    caught_by=f"{SUMS}::test_a_person_adds_at_most_max_rows[who0]",
)
def missing_values_dropped_before_the_count(original: Any, source: Any, unit: Any) -> int:
    """The public n leaves out records with a missing value: it then depends on private values."""
    from oboro.engine.source import quoted

    whole = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in source.types)
    row = source.connection.execute(f"SELECT count(*) FROM {source.relation} WHERE {whole}").fetchone()
    return int(row[0]) if unit.kind == "row" else original(source, unit)


@planted(
    "oboro.engine.contributions:dropped_rows",
    caught_by=f"{ENGINE}::test_a_person_counts_at_most_max_rows_times_whatever_the_order",
)
def contributions_not_bounded(
    original: Any, source: Any, fields: Any, unit: Any, condition: Any
) -> list[str]:
    """A person's rows beyond the limit are counted all the same."""
    return []


@planted("oboro.engine.contributions:dropped_rows", caught_by=f"{ENGINE}::test_kept_rows_are_spread_evenly")
def contributions_bounded_by_value(
    original: Any, source: Any, fields: Any, unit: Any, condition: Any
) -> list[str]:
    """Of a person's rows the smallest values are kept, so that what is published leans to one side."""
    names = ", ".join(fields)
    return [
        query.replace(f"ORDER BY place, {names}, copy", f"ORDER BY {names}, copy")
        for query in original(source, fields, unit, condition)
    ]


@planted(
    "oboro.engine.contributions:dropped_rows",
    caught_by=f"{ENGINE}::test_one_persons_rows_do_not_move_anothers",
)
def contributions_bounded_together(
    original: Any, source: Any, fields: Any, unit: Any, condition: Any
) -> list[str]:
    """The limit is on all heavy persons together, so that one person's rows push out another's."""
    return [
        query.replace("(PARTITION BY person ORDER BY", "(ORDER BY")
        for query in original(source, fields, unit, condition)
    ]


@planted(
    "oboro.engine.memory:_from_columns",
    caught_by="tests/engine/test_reading.py::test_one_more_value_in_a_list_does_not_change_how_the_others_are_read[0]",
)
def one_value_decides_how_others_are_read(original: Any, data: Any) -> Any:
    """The type of a column is guessed from its values, so that one odd value turns all the others into text."""
    import pyarrow as pa

    try:
        return pa.table({name: pa.array(values) for name, values in data.items()})
    except (pa.ArrowException, TypeError):
        return pa.table({name: pa.array([str(value) for value in values]) for name, values in data.items()})


@planted("oboro.engine.duck:_sum", caught_by=f"{SUMS}::test_sums_do_not_overflow_64_bits")
def sums_in_floating_point(original: Any, columns: Any, term: Any) -> str:
    """Sums are added up as floats, so that their low digits depend on the order of rows."""
    text = original(columns, term)
    return text if not term else f"sum(({text.removeprefix('sum(').removesuffix(')')})::DOUBLE)"
