"""How many rows break each rule of a domain: for the steward's eyes, before anything is paid. No release looks at any of this."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from oboro.arrays import Bools, Integers
from oboro.domain import Category, Column, Domain
from oboro.engine.protocol import Source, source_of, stream_codes
from oboro.kinds import takes
from oboro.privacy import Unit

_MOST_SHOWN = 8  # values of one condition
_MOST_CELLS = 2**62


@takes(source=source_of, domain=Domain)
def check_rules(source: Source, domain: Domain) -> list[dict[str, object]]:
    """For the steward's eyes: how many rows break each rule of a domain, `impossible`, `known` and `sums`. Not private.

    Values count as a release reads them: beyond a bound as the bound, between steps as the nearest, unknown as missing. What is missing
    meets no condition; a sum is missing where a part is. Every engine streams the codes of the columns that rules speak of, once.

    >>> ages = ob.Domain(columns, impossible=[{"sex": "m", "age": (60, None)}], known={"sex": {"m": 3}})
    >>> for found in ob.engine.check_rules(source, ages):
    ...     print(found)
    {'rule': 'impossible', 'number': 1, 'says': 'age 60.., sex = m', 'rows': 4, 'breaking': 1}
    {'rule': 'known', 'column': 'sex', 'value': 'm', 'declared': 3, 'rows': 4, 'in_data': 2}
    """
    rules = domain.rules
    used = {name for one in rules.impossible for name, _ in one} | {name for name, _ in rules.known}
    used |= {name for total, parts in rules.sums for name in (total, *parts)}
    if not used:
        return []
    columns = [column for column in domain if column.name in used]
    place = {column.name: at for at, column in enumerate(columns)}
    tied = _tied(domain, place)
    edges = {at: _edges(domain, columns[at].name) for clique in tied for at in clique}
    cells: dict[tuple[int, ...], list[tuple[Integers, Integers]]] = {clique: [] for clique in tied}
    held = {name: np.zeros(domain[name].size + 1, np.int64) for name, _ in rules.known}
    wrong, lacking, rows = [0] * len(rules.sums), [0] * len(rules.sums), 0
    for codes in stream_codes(source, columns, Unit.row(), keep=True):
        rows += len(codes)
        for clique, found in cells.items():
            stretches = [np.searchsorted(edges[at], codes[:, at], side="right") for at in clique]
            found.append(_counted(stretches, [edges[at].size + 1 for at in clique]))
        for name, counts in held.items():
            counts += np.bincount(codes[:, place[name]], minlength=counts.size)
        for at, (total, parts) in enumerate(rules.sums):
            broken, lacks = _broken(codes, columns, place[total], [place[part] for part in parts])
            wrong[at] += int(np.count_nonzero(broken))
            lacking[at] += int(np.count_nonzero(broken & lacks))
    report: list[dict[str, object]] = []
    joined = {clique: _joined(found, len(clique)) for clique, found in cells.items()}
    for number, one in enumerate(rules.impossible, 1):
        clique = tuple(place[name] for name, _ in one)
        stretches_of, counts_of = joined[clique]
        met = np.ones(counts_of.size, np.bool_)
        for at, (_, ranges), stretch in zip(clique, one, stretches_of, strict=True):
            within = np.zeros(counts_of.size, np.bool_)
            for ends in ranges:  # both are edges: its codes are the stretches between them
                first, stop = np.searchsorted(edges[at], ends, side="right")
                within |= (stretch >= first) & (stretch < stop)
            met &= within
        says = ", ".join(_said(domain[name], ranges) for name, ranges in one)
        breaking = int(counts_of[met].sum())
        report.append(
            {"rule": "impossible", "number": number, "says": says, "rows": rows, "breaking": breaking}
        )
    for name, totals in rules.known:
        for code, count in totals:
            facts = {"declared": count, "rows": rows, "in_data": int(held[name][code])}
            report.append({"rule": "known", "column": name, "value": domain[name].value(code), **facts})
    for (total, parts), breaking, missing in zip(rules.sums, wrong, lacking, strict=True):
        facts = {"rows": rows, "breaking": breaking, "missing": missing}
        report.append({"rule": "sums", "column": total, "parts": list(parts), **facts})
    return report


def _tied(domain: Domain, place: dict[str, int]) -> list[tuple[int, ...]]:
    """The columns that each condition ties together, each set once: rows are counted by all of them at a time."""
    return list(dict.fromkeys(tuple(place[name] for name, _ in one) for one in domain.rules.impossible))


def _edges(domain: Domain, name: str) -> Integers:
    """Where a condition on a column begins or ends: from one edge to the next all codes are alike."""
    every = {
        edge
        for one in domain.rules.impossible
        for at, ranges in one
        if at == name
        for r in ranges
        for edge in r
    }
    return np.array(sorted(every), np.int64)


def _counted(stretches: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, Integers]:
    """Combinations that occur, one line for each column, and how many rows each has."""
    if prod(sizes) >= _MOST_CELLS:
        found, counts = np.unique(np.stack(stretches), axis=1, return_counts=True)
        return found, counts
    keys, counts = np.unique(np.ravel_multi_index(tuple(stretches), tuple(sizes)), return_counts=True)
    return np.stack(np.unravel_index(keys, tuple(sizes))), counts


def _joined(found: Sequence[tuple[Integers, Integers]], width: int) -> tuple[Integers, Integers]:
    lines = np.concatenate([np.empty((width, 0), np.int64), *(one for one, _ in found)], axis=1)
    return lines, np.concatenate([np.empty(0, np.int64), *(counts for _, counts in found)])


def _broken(
    codes: Integers, columns: Sequence[Column], total: int, parts: Sequence[int]
) -> tuple[Bools, Bools]:
    """The rows of which the total is not what its parts say; and those in which one of them is missing."""
    whole: Any = columns[total]
    summed, offset = np.zeros(len(codes), np.int64), Fraction(-whole.low)
    missing = np.zeros(len(codes), np.bool_)
    for at in parts:
        part: Any = columns[at]
        missing |= codes[:, at] >= part.size
        summed += codes[:, at] * int(Fraction(part.step) / Fraction(whole.step))
        offset += Fraction(part.low)
    expected = np.where(missing, whole.size, summed + int(offset / Fraction(whole.step)))
    return codes[:, total] != expected, missing | (codes[:, total] >= whole.size)


def _said(column: Column, ranges: Sequence[tuple[int, int]]) -> str:
    """One condition, short: employment = retired, age 30.."""
    if isinstance(column, Category):
        values = [
            str(column.value(code)) for start, stop in ranges for code in range(start, min(stop, start + 9))
        ]
        shown = values[:_MOST_SHOWN] + ["..."] * (len(values) > _MOST_SHOWN)
        return f"{column.name} = {' | '.join(shown)}"
    parts = [_span(column, *one) for one in ranges[:_MOST_SHOWN]] + ["..."] * (len(ranges) > _MOST_SHOWN)
    return f"{column.name} {' | '.join(parts)}"


def _span(column: Column, start: int, stop: int) -> str:
    low = "" if start == 0 else str(column.value(start))
    high = "" if stop == column.size else str(column.value(stop - 1))
    return low if low and stop == start + 1 else f"{low}..{high}"
