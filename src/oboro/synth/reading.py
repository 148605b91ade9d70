"""Two tables side by side, real and synthetic, column by column as numbers or labels. For quality reports; not private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.engine import open_data
from oboro.engine.coding import texts
from oboro.engine.source import Source, quoted
from oboro.engine.types import FLOATS, WHOLE, base_type
from oboro.errors import DataError

BINS = 20
MOST_LABELS = 50

_NUMERIC = (*WHOLE, *FLOATS, "DECIMAL", "BOOLEAN")


@dataclass(frozen=True, slots=True)
class Compared:
    """One column of both tables: numbers with nan where missing, or codes of labels; and both in the same bins."""

    name: str
    numeric: bool
    real: Floats
    synthetic: Floats
    labels: tuple[str, ...]  # of the bins
    real_bins: Integers
    synthetic_bins: Integers

    @property
    def size(self) -> int:
        return len(self.labels)


def read_both(data: Any, synthetic: Any) -> list[Compared]:
    """The columns that the two tables share, in the order of the synthetic one."""
    real, made = open_data(data), open_data(synthetic)
    names = [name for name in made.types if name in real.types]
    if not names:
        raise DataError(
            "the two tables share no column",
            given=f"real: {', '.join(real.types)}; synthetic: {', '.join(made.types)}",
            needed="columns of the same names",
        )
    return [_compared(name, real, made) for name in names]


def _compared(name: str, real: Source, made: Source) -> Compared:
    if _is_number(real, name) and _is_number(made, name):
        one, two = _numbers(real, name), _numbers(made, name)
        days = _is_day(real, name) and _is_day(made, name)
        return Compared(name, True, one, two, *_number_bins(one, two, _day if days else "{:g}".format))
    first, second = _labels(real, name), _labels(made, name)
    return _label_bins(name, first, second)


def _is_number(source: Source, name: str) -> bool:
    """By its type; a text column by whether all that it holds are numbers or dates."""
    base = base_type(source.types[name])
    if base in _NUMERIC or base in ("DATE", "TIMESTAMP"):
        return True
    if base != "VARCHAR":
        return False
    field = quoted(name)
    query = f"SELECT count(*) FILTER ({_as_number(field, base)} IS NULL AND replace({field}, ' ', '') != ''), count({field}) FROM {source.relation}"
    wrong, known = source.connection.execute(query).fetchone()
    return bool(wrong == 0 and known > 0)


def _is_day(source: Source, name: str) -> bool:
    """Whether a column that `_is_number` holds days."""
    base = source.types[name].partition("(")[0].upper()
    if base != "VARCHAR":
        return base in ("DATE", "TIMESTAMP")
    query = f"SELECT count(TRY_CAST({quoted(name)} AS DOUBLE)) FROM {source.relation}"
    return bool(source.connection.execute(query).fetchone()[0] == 0)


def _day(number: float) -> str:
    return str(np.datetime64(0, "D") + int(number))


def _as_number(field: str, base: str) -> str:
    if base in _NUMERIC:
        return f"CAST({field} AS DOUBLE)"
    day = f"TRY_CAST({field} AS DATE) - DATE '1970-01-01'"
    return (
        f"CAST({day} AS DOUBLE)"
        if base in ("DATE", "TIMESTAMP")
        else f"coalesce(TRY_CAST({field} AS DOUBLE), CAST({day} AS DOUBLE))"
    )


def _numbers(source: Source, name: str) -> Floats:
    base = base_type(source.types[name])
    values = source.connection.execute(
        f"SELECT {_as_number(quoted(name), base)} AS v FROM {source.relation}"
    ).fetchnumpy()["v"]
    return np.asarray(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan), float)


def _labels(source: Source, name: str) -> list[str | None]:
    return texts(source, f"SELECT CAST({quoted(name)} AS VARCHAR) FROM {source.relation}")


def _number_bins(
    one: Floats, two: Floats, shown: Callable[[float], str]
) -> tuple[tuple[str, ...], Integers, Integers]:
    """Bins that hold about equally many real records, and a last one for what is missing."""
    known = one[~np.isnan(one)]
    cuts = (
        np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
        if known.size
        else np.zeros(0)
    )
    edges = ["lowest", *(shown(cut) for cut in cuts)]
    labels = [f"up to {edge}" for edge in edges[1:]] + [f"above {edges[-1]}"] + ["missing"]

    def place(values: Floats) -> Integers:
        return np.where(
            np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, np.nan_to_num(values), side="left")
        ).astype(np.int64)

    return tuple(labels), place(one), place(two)


def _label_bins(name: str, one: list[str | None], two: list[str | None]) -> Compared:
    """Labels by how frequent they are among the real ones; the rare ones share a bin, and so does what is missing."""
    counts: dict[str, int] = {}
    for label in one:
        if label is not None:
            counts[label] = counts.get(label, 0) + 1
    for label in two:
        if label is not None:
            counts.setdefault(label, 0)
    order = sorted(counts, key=lambda label: (-counts[label], label))
    shown = order if len(order) <= MOST_LABELS else order[: MOST_LABELS - 1]
    codes = {label: place for place, label in enumerate(order)}
    rest = len(shown)
    labels = [*shown, *(["others"] if len(order) > len(shown) else []), "missing"]

    def coded(values: list[str | None]) -> Floats:
        return np.array([np.nan if value is None else codes[value] for value in values], float)

    def place(values: Floats) -> Integers:
        return np.where(np.isnan(values), len(labels) - 1, np.minimum(np.nan_to_num(values), rest)).astype(
            np.int64
        )

    first, second = coded(one), coded(two)
    return Compared(name, False, first, second, tuple(labels), place(first), place(second))
