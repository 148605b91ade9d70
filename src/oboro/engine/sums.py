"""Exact sums of codes and of their products, in 128 bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from oboro.domain import Column
from oboro.engine.arrays import held
from oboro.engine.codes import all_rows, code_sql, dropped_rows, full_rows, rows_of_nobody
from oboro.engine.source import Source
from oboro.errors import DomainError
from oboro.privacy import Unit

MOST_ROWS = 2**38  # more than any table has; sums of so many rows fit
Term = tuple[int, ...]  # which columns are multiplied; () is a count


def add_up(
    source: Source,
    columns: Sequence[Column],
    terms: Sequence[Term],
    unit: Unit,
    *,
    by: Sequence[Column] = (),
    condition: str | None = None,
) -> dict[int, list[int]]:
    """For each group, by its mixed-radix number: the sum over its rows of each term. Groups without rows are absent.

    (0,) is the sum of the first column's codes, (0, 1) that of the products of the first two, () the count.

    >>> added = ob.engine.add_up(source, columns, [(0,), ()], ob.Unit.row(), by=columns[1:])
    >>> added == {0: [31, 1], 1: [153, 2]}
    True
    """
    check_width(columns, terms)
    source.need(*[column.name for column in (*columns, *by)])
    group = "0::BIGINT"
    for column in by:
        group = f"({group}) * {column.size} + ({code_sql(column, source.types[column.name])})"
    fields = {f"c{i}": code_sql(column, source.types[column.name]) for i, column in enumerate(columns)}
    fields = {**fields, "g": group} if by or not fields else fields
    sums = ", ".join(_sum(columns, term) for term in terms)
    grouped = " GROUP BY g HAVING count(c0) > 0" if by and columns else " GROUP BY g" if by else ""

    def added(rows: str) -> dict[int, list[int]]:
        query = f"SELECT {'g' if by else '0'}, {sums} FROM ({rows}){grouped}"
        found = source.connection.execute(query).fetchall()
        return {int(row[0]): [int(value or 0) for value in row[1:]] for row in found if row[0] is not None}

    alone = condition is None and not by and len(columns) == 1 and set(terms) <= {(), (0,)}
    if alone and (stored := held(source, columns[0])) is not None:
        count, total = stored.add_up()
        totals = {0: [total if term else count for term in terms]}
        left_out = [] if unit.kind == "row" else [rows_of_nobody(source, fields, unit)]
    else:
        # sums skip nulls by themselves: with one column at most no row need be looked at twice
        rows = all_rows if len(columns) <= 1 else full_rows
        totals, left_out = added(rows(source, fields, unit, condition)), []
    if unit.kind == "person":
        left_out.append(dropped_rows(source, fields, unit, condition))
    for query in left_out:
        for place, less in added(query).items():
            totals[place] = [total - part for total, part in zip(totals[place], less, strict=True)]
    return totals


def check_width(columns: Sequence[Column], terms: Sequence[Term]) -> None:
    """Refuses what could overflow 128 bits, by public bounds alone.

    >>> ob.engine.check_width(columns, [(0, 0)])
    >>> ob.engine.check_width([ob.Integer("n", 0, 2**60)], [(0, 0)])
    Traceback (most recent call last):
        ...
    oboro.errors.DomainError: products of n are too large to add up
      given   1152921504606846977 x 1152921504606846977
      needed  at most 2^88 in all
      fix     a larger step
    """
    for term in terms:
        largest = prod(columns[i].size for i in term)
        if largest * MOST_ROWS >= 2**127:
            names = ", ".join(dict.fromkeys(columns[i].name for i in term))
            raise DomainError(
                f"products of {names} are too large to add up",
                given=" x ".join(str(columns[i].size) for i in term),
                needed="at most 2^88 in all",
                fix="a larger step",
            )


def _sum(columns: Sequence[Column], term: Term) -> str:
    if not term:
        return "count(c0)" if columns else "count(*)"
    wide = "HUGEINT" if prod(columns[i].size for i in term) >= 2**62 else "BIGINT"
    factors = " * ".join(f"c{i}::{wide}" if len(term) > 1 else f"c{i}" for i in term)
    return f"sum({factors})"
