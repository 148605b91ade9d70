"""A table of a paper, computed again and set beside what was printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from oboro.arrays import Floats
from oboro.exact import about
from oboro.language import Lines, aligned, plain, reproduced
from oboro.release.forecast import Cell

Row = tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a figure, ours; or what a paper prints, as dots."""

    name: str
    points: tuple[tuple[float, float], ...]
    printed: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """A figure of curves: what its axes show, and whether they are logarithmic."""

    title: str
    curves: tuple[Curve, ...]
    below: str
    beside: str
    log_x: bool = False
    log_y: bool = False
    dots: str = "dots: as printed"


@dataclass(frozen=True, slots=True)
class Cells:
    """A figure of cells: the darker the more, negative ones in red."""

    title: str
    values: Floats  # rows and columns


@dataclass(frozen=True, slots=True)
class Bars:
    """A figure of bars that lie: for each name one bar of each series. What a paper prints is drawn in outline."""

    title: str
    names: tuple[str, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]
    below: str
    log_x: bool = False
    printed: tuple[str, ...] = ()  # the series that are a paper's


Figure = Curves | Cells | Bars


def curves_of(
    title: str,
    xs: Sequence[float],
    rows: Iterable[Row],
    *,
    below: str,
    beside: str,
    log_x: bool = False,
    log_y: bool = False,
) -> Curves:
    """The rows of a table as curves; a row called "printed" is what the paper has for the one before."""
    found: list[Curve] = []
    for name, *values in rows:
        own, printed = str(name).strip(), str(name).strip() == "printed"
        points = tuple(
            (float(x), float(value)) for x, value in zip(xs, values, strict=True) if value is not None
        )
        found.append(Curve(found[-1].name if printed else own, points, printed))
    return Curves(title, tuple(found), below, beside, log_x, log_y)


def bars_of(
    title: str,
    rows: Iterable[Row],
    series: Sequence[str],
    *,
    below: str,
    log_x: bool = False,
    printed: Sequence[str] = ("printed",),
) -> Bars:
    """Rows of (name, one value of each series) as bars."""
    kept = list(rows)
    names = tuple(str(row[0]).strip() for row in kept)
    values = [
        tuple(None if row[at] is None else float(row[at] or 0) for row in kept)
        for at in range(1, len(series) + 1)
    ]
    return Bars(title, names, tuple(zip(series, values, strict=True)), below, log_x, tuple(printed))


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Rows of (label, printed values, our values, ...) with the paper's errors marked.

    >>> print(ob.release.Reproduction("example", "Table 1", ("n", "printed", "ours"), ((10, "0.5", "0.5"),)))
    Table 1
    <BLANKLINE>
      n   printed  ours
      10      0.5   0.5
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    errors: tuple[str, ...] = field(default=())  # where the paper is wrong, one sentence each
    notes: tuple[str, ...] = field(default=())  # how it was computed: data, seedless, tolerance
    figures: tuple[Figure, ...] = field(default=(), compare=False)  # for the page

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "errors": list(self.errors),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        cells = [[text_of(value) for value in row] for row in (self.columns, *self.rows)]
        errs, note = reproduced("the paper errs: {}"), reproduced("note: {}")
        lines = [
            reproduced(self.title),
            "",
            *aligned(cells),
            "",
            *["  ✗ " + errs.replace("{}", reproduced(error)) for error in self.errors],
            *["  " + note.replace("{}", reproduced(each)) for each in self.notes],
        ]
        return "\n".join(lines).rstrip()


@dataclass(frozen=True, slots=True)
class Reproducible:
    """An entry of the list that `oboro reproduce` shows.

    >>> made = ob.release.Reproduction("example", "Table 1", ("n", "printed", "ours"), ((10, "0.5", "0.5"),))
    >>> ob.release.Reproducible("example", "Table 1", lambda: made).make() is made
    True
    """

    name: str
    title: str
    make: Callable[[], Reproduction]
    given: Callable[[Sequence[str]], Reproduction] | None = None  # the same on data of your own, from files


def text_of(value: Cell | None, language: str | None = None) -> str:
    """A figure or a label as it is shown, in the language of this process."""
    if value is None:
        return "-"
    if isinstance(value, str):  # a label may be indented
        bare = value.lstrip(" ")
        return Lines(value[: len(value) - len(bare)] + plain(reproduced(bare, language)))
    if isinstance(value, bool):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else about(value, 5)
