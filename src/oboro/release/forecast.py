"""The error that a plan will have, before anything is spent."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from oboro.exact import about
from oboro.language import aligned, phrase, plain, said


class Noise(Protocol):
    """A law of noise that knows its own size."""

    @property
    def sd(self) -> float: ...

    @property
    def mean_abs(self) -> float: ...

    def interval(self, level: float = 0.95) -> tuple[int, int]: ...


Cell = str | float | Fraction
Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """A small table of expected errors, with what it leaves out. Prints well; free; never touches data.

    >>> print(plan.forecast())
    expected error of each count
      of each  standard error  mean |error|  95% within ±
      count             14.14         9.983            30
      note: 10 counts; the error of a sum of k of them grows as sqrt(k)
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, noise: Noise, *, each: str, step: float = 1.0, notes: Sequence[str] = ()) -> Forecast:
        """For answers that all carry the same noise."""
        row = (each, noise.sd * step, noise.mean_abs * step, noise.interval(0.95)[1] * step)
        columns = ("of each", "standard error", "mean |error|", "95% within ±")
        return cls(f"expected error of each {each}", columns, (row,), tuple(notes))

    def to_dict(self) -> dict[str, object]:
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[_plain(value) for value in row] for row in self.rows],
            "notes": list(self.notes),
        }

    def folded(self) -> Forecast:
        """The same with neighbouring block sizes of equal figures in one row: "1 x 1 to 512 x 512 of row,col"; and times, if all are alike."""
        if self.columns[:1] == ("time",) and len(self.rows) > 1:
            first, last = self.rows[0], self.rows[-1]
            alike = all(row[1:] == first[1:] for row in self.rows)
            return replace(self, rows=((f"{first[0]} to {last[0]}", *first[1:]),)) if alike else self
        if self.columns[:2] not in (
            ("block size", "cells"),
            ("area", "cells"),
        ):  # the second in certificates of 0.1
            return self
        groups: list[list[Row]] = []
        for row in self.rows:
            if groups and _alike(groups[-1][0], row):
                groups[-1].append(row)
            else:
                groups.append([row])
        return replace(self, rows=tuple(_together(group) for group in groups))

    def in_labels(self, labels: Mapping[str, str]) -> Forecast:
        """The same with columns called by their labels, as the release calls them."""
        rows = tuple(
            tuple(in_labels(cell, labels) if isinstance(cell, str) else cell for cell in row)
            for row in self.rows
        )
        return replace(self, rows=rows, notes=tuple(in_labels(note, labels) for note in self.notes))

    def __str__(self) -> str:
        """In the reader's language, block sizes of equal figures folded into one line."""
        notes = [f"  {said('note: ')}{said(plain(note))}" for note in self.notes]
        return "\n".join([said(plain(self.title)), *aligned(self._cells()), *notes])

    def cells(self) -> list[list[str]]:
        """The same for a sheet: the title, the table and the notes, cell by cell."""
        notes = [[said(plain(note))] for note in self.notes]
        return [[said(plain(self.title))], *self._cells(), *notes]

    def _cells(self) -> list[list[str]]:
        return [
            [said(plain(name)) for name in self.columns],
            *[[phrase(_show(value)) for value in row] for row in self.folded().rows],
        ]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(said(name))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(phrase(_show(v)))}</td>" for v in row) + "</tr>"
            for row in self.folded().rows
        )
        notes = "".join(f"<p><small>{html.escape(said(note))}</small></p>" for note in self.notes)
        return (
            f"<table><caption>{html.escape(said(self.title))}</caption><tr>{head}</tr>{body}</table>{notes}"
        )


def in_labels(text: str, labels: Mapping[str, str]) -> str:
    """What is said of columns, with their labels in place of their names."""
    if not labels:
        return text
    names = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, labels))})(?!\w)")
    return names.sub(lambda found: labels[found[0]], text)


_EQUAL = 1e-3  # figures that differ by no more are told once, by the largest


def _alike(first: Row, row: Row) -> bool:
    """Whether a row may share a line with the first row of a group."""
    both = zip(first[2:], row[2:], strict=True)
    pairs = [(float(a), float(b)) for a, b in both if not isinstance(a, str) and not isinstance(b, str)]
    if len(pairs) < len(first) - 2:
        return False
    equal = all(abs(a - b) <= _EQUAL * max(abs(a), abs(b)) for a, b in pairs)
    return equal and _range(str(first[0]), str(row[0])) is not None


def _together(group: Sequence[Row]) -> Row:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    cells = first[1] if first[1] == last[1] else f"{_show(first[1])} to {_show(last[1])}"
    return (_range(str(first[0]), str(last[0])), cells, *map(max, *(row[2:] for row in group)))


def _range(first: str, last: str) -> str | None:
    """From one block size to another, if they differ in one column alone: "4 x 4 to 8 x 8 of row,col; all of sex"."""
    if first == last:
        return first
    ours, theirs = first.split("; "), last.split("; ")
    if len(ours) != len(theirs):
        return None
    differ = [place for place, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    if len(differ) != 1:
        return None
    one, other = ours[differ[0]], theirs[differ[0]]
    kind = " of " + one.partition(" of ")[2] if " of " in one else " mesh"
    if not one.endswith(kind):
        return None
    shared = one.removesuffix(kind) if other.endswith(kind) else one
    return "; ".join([*ours[: differ[0]], f"{shared} to {other}", *ours[differ[0] + 1 :]])


def _show(value: Cell) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else about(value)


def _plain(value: Cell) -> str | int:
    """Certificates hold no floating-point numbers: a rounded text has one spelling everywhere."""
    return value if isinstance(value, str | int) else f"{float(value):.6g}"
