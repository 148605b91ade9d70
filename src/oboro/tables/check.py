"""What is wrong with the data: for the steward's eyes. A release never says any of this."""

from __future__ import annotations

from typing import Any

import numpy as np

from oboro.domain import Domain
from oboro.engine import Source, open_data
from oboro.engine.source import quoted
from oboro.kinds import takes, text_of
from oboro.tables.cells import cap
from oboro.tables.layout import Layout
from oboro.tables.reading import batches, double_sql, fields_of, keys_of


@takes(domain=Domain, count=text_of)
def check(
    data: Any, domain: Domain, count: str | None = None, layout: Layout | None = None
) -> list[dict[str, Any]]:
    """FOR THE STEWARD'S EYES: how many records each rule applies to. These figures are not private."""
    layout = layout or Layout(domain)
    source = open_data(data)
    source.need(*[name for column in domain for name in column.sources])
    problems: dict[str, str] = {"records": "true"}
    fields = []
    for column in domain:
        for (sql, _), name in zip(fields_of(column, source), column.sources, strict=True):
            fields.append(sql)
            problems[f"{name}: missing"] = f"{quoted(name)} IS NULL"
            problems[f"{name}: not in the domain"] = f"{quoted(name)} IS NOT NULL AND ({sql}) IS NULL"
    if count is not None:
        source.need(count)
        number = double_sql(count, source)
        problems |= {
            f"{count}: missing": f"{quoted(count)} IS NULL",
            f"{count}: not a number": f"{quoted(count)} IS NOT NULL AND ({number} IS NULL OR isnan({number}))",
            f"{count}: negative": f"{number} < 0",
            f"{count}: a fraction": f"isfinite({number}) AND {number} <> floor({number})",
            f"{count}: above {cap(layout):,}": f"NOT isnan({number}) AND {number} > {cap(layout)}",
        }
    filters = ", ".join(f"count(*) FILTER ({test})" for test in problems.values())
    found = source.connection.execute(f"SELECT {filters} FROM {source.relation}").fetchall()[0]
    rows = [{"problem": name, "records": number} for name, number in zip(problems, found, strict=True)]
    return rows + _repeated(source, fields, layout, count)


def _repeated(source: Source, fields: list[str], layout: Layout, count: str | None) -> list[dict[str, Any]]:
    """Problems of cells: unknown to the domain or the mask though every column is inside, and listed more than once."""
    chosen = ", ".join(f"{sql} AS f{i}" for i, sql in enumerate(fields))
    known = " AND ".join(f"f{i} IS NOT NULL" for i in range(len(fields)))
    query = f"SELECT * FROM (SELECT {chosen} FROM {source.relation}) WHERE {known}"
    parts = [keys_of(layout, values) for values in batches(source, query)]
    keys = np.concatenate([np.empty(0, np.int64), *parts])
    unknown = int((keys < 0).sum())
    keys = keys[keys >= 0]
    rows = [{"problem": "cells that are no place, or ruled out by the mask", "records": unknown}]
    if count is not None:
        rows.append(
            {
                "problem": "records of a cell that has an earlier one",
                "records": int(keys.size - np.unique(keys).size),
            }
        )
    return rows
