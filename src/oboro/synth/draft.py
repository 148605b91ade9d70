"""A first draft of a domain, made by looking at data. Looking is not private: the draft is to be edited from knowledge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine import open_data
from oboro.engine.source import Source, quoted
from oboro.files import write_whole
from oboro.kinds import path_of

WARNING = (
    "made by looking at the data, which is not private: set bounds and values from what is known without it"
)
MOST_VALUES = 100  # a text column with more has no draft
RARE = 10  # a value that fewer rows hold may tell of them: it is marked
RARE_MARK = f"# RARE: held by fewer than {RARE} rows. Keep it only if it is known without the data"
_STEPS = 1000


def draft_domain(data: Any) -> tuple[Domain, list[str]]:
    """A column for everything that can be guessed, and the names of those that cannot."""
    return _drafted(open_data(data))


def draft(data: Any, path: str | Path) -> tuple[Domain, list[str]]:
    """Writes the draft as TOML, with a warning on top, and a mark at every value that few rows hold."""
    import tomli_w

    source = open_data(data)
    domain, left_out = _drafted(source)
    lines = [
        f"# A draft, {WARNING}.",
        "# NOT PRIVATE: not to be shown to others until every bound and value in it is known without the data.",
        *(f"# left out, say what is possible: {name}" for name in left_out),
        "",
    ]
    marked = _marked(tomli_w.dumps(domain.to_dict()), rare_values(source, domain))
    write_whole(path_of("path", path), ("\n".join(lines) + marked).encode())
    return domain, left_out


def rare_values(source: Source, domain: Domain) -> dict[str, list[str]]:
    """Values of text columns that fewer than ten rows hold. Not private: for the steward's eyes."""
    found = {}
    for column in domain:
        if isinstance(column, Category):
            field = quoted(column.name)
            rows = source.connection.execute(
                f"SELECT CAST({field} AS VARCHAR) AS v FROM {source.relation} "
                f"WHERE nullif(trim(v), '') IS NOT NULL GROUP BY v HAVING count(*) < {RARE}"
            ).fetchall()
            found[column.name] = sorted(str(row[0]) for row in rows)
    return {name: values for name, values in found.items() if values}


def marked_values(path: str | Path) -> int:
    """How many values of a draft are marked as rare."""
    return Path(path).read_text(encoding="utf-8").count(f"  {RARE_MARK}\n")


def _marked(text: str, rare: Mapping[str, Sequence[str]]) -> str:
    """The text of a domain with a mark behind each rare value."""
    first, *blocks = text.split("[[columns]]\n")
    names = {_spelled("name", name): values for name, values in rare.items()}
    done = []
    for block in blocks:
        rows = block.split("\n")
        values = next((values for line, values in names.items() if line in rows), [])
        told = {f"    {_spelled('v', value).removeprefix('v = ')}," for value in values}
        done.append("\n".join(f"{row}  {RARE_MARK}" if row in told else row for row in rows))
    return "[[columns]]\n".join([first, *done])


def _spelled(key: str, value: str) -> str:
    """As it stands in a TOML file."""
    import tomli_w

    text: str = tomli_w.dumps({key: value})
    return text.strip()


def _drafted(source: Source) -> tuple[Domain, list[str]]:
    found = [(name, _guess(source, name)) for name in source.types]
    columns = [column for _, column in found if column is not None]
    return Domain(columns), [name for name, column in found if column is None]


def _guess(source: Source, name: str) -> Column | None:
    field = quoted(name)
    text = f"nullif(trim(CAST({field} AS VARCHAR)), '')"
    number, day = f"TRY_CAST({text} AS DOUBLE)", f"TRY_CAST({text} AS DATE)"
    query = (
        f"SELECT count({text}), count({number}), min({number}), max({number}), "
        f"count(*) FILTER ({number} = floor({number})), count({day}), min({day}), max({day}), count(DISTINCT {text}) FROM {source.relation}"
    )
    known, numbers, low, high, wholes, days, first, last, distinct = source.connection.execute(
        query
    ).fetchone()
    if known == 0:
        return None
    if numbers == known and wholes == known and max(abs(low), abs(high)) < 2**53:
        return Integer(name, *_rounded(int(low), int(high)))
    if numbers == known and math.isfinite(low) and math.isfinite(high):
        step = 10 ** math.floor(math.log10(max((high - low) / _STEPS, 1e-12)))
        bottom, top = math.floor(low / step), math.ceil(high / step)
        places = max(0, -round(math.log10(step)))
        return Real(name, f"{bottom * step:.{places}f}", f"{top * step:.{places}f}", f"{step:.{places}f}")
    if days == known:
        return Date(name, date(first.year, 1, 1), date(last.year, 12, 31))
    if distinct > MOST_VALUES:
        return None
    rows = source.connection.execute(
        f"SELECT DISTINCT CAST({field} AS VARCHAR) FROM {source.relation} WHERE {text} IS NOT NULL"
    ).fetchall()
    return Category(name, sorted(row[0] for row in rows))


def _rounded(low: int, high: int) -> tuple[int, int]:
    """Outwards to one round number on either side, so that the draft does not print the extremes themselves."""
    step = 10 ** max(0, len(str(max(abs(low), abs(high)))) - 1)
    step = step if high - low >= step else 1
    return math.floor(low / step) * step, math.ceil(high / step) * step
