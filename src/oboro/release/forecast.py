"""The error that a plan will have, before anything is spent."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oboro.exact import about
from oboro.language import left, phrase, right, room, said


class Noise(Protocol):
    """A law of noise that knows its own size."""

    @property
    def sd(self) -> float: ...

    @property
    def mean_abs(self) -> float: ...

    def interval(self, level: float = 0.95) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Forecast:
    """A small table of expected errors, with what it leaves out. Prints well; free; never touches data."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, noise: Noise, *, each: str, step: float = 1.0, notes: Sequence[str] = ()) -> Forecast:
        """For answers that all carry the same noise."""
        row = (each, noise.sd * step, noise.mean_abs * step, noise.interval(0.95)[1] * step)
        columns = ("of each", "standard error", "mean |error|", "95% within ±")
        return cls(f"expected error of each {each}", columns, (row,), tuple(notes))

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[_plain(value) for value in row] for row in self.rows],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """In the reader's language."""
        cells = [
            [said(name) for name in self.columns],
            *[[phrase(_show(value)) for value in row] for row in self.rows],
        ]
        widths = [max(room(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [said(self.title)]
        for row in cells:
            shown = [
                left(row[0], widths[0]),
                *[right(text, width) for text, width in zip(row[1:], widths[1:], strict=True)],
            ]
            lines.append("  " + "  ".join(shown).rstrip())
        return "\n".join([*lines, *[f"  {said('note')}: {said(note)}" for note in self.notes]])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(said(name))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(phrase(_show(v)))}</td>" for v in row) + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<p><small>{html.escape(said(note))}</small></p>" for note in self.notes)
        return (
            f"<table><caption>{html.escape(said(self.title))}</caption><tr>{head}</tr>{body}</table>{notes}"
        )


def _show(value: Any) -> str:
    return value if isinstance(value, str) else about(value)


def _plain(value: Any) -> Any:
    """Certificates hold no floating-point numbers: a rounded text has one spelling everywhere."""
    return value if isinstance(value, str | int) else f"{float(value):.6g}"
