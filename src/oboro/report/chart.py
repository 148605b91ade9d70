"""A small line chart as inline SVG: values by size, on a logarithmic scale. Colours come from the stylesheet."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oboro.exact import about
from oboro.records import Facts
from oboro.release import Forecast
from oboro.report.page import PROMISE, Words, both, say
from oboro.report.page import label as name_of

WIDTH, HEIGHT = 320, 196
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 24, 38


def line_chart(
    labels: Sequence[str | Words],
    series: Mapping[str, Sequence[float]],
    *,
    describe: str | Words,
    below: Words | None = None,
    beside: Words | None = None,
) -> str:
    """One line for each series over evenly spaced labels; nothing below zero, zeros at the foot.

    `below` and `beside` say what the two axes show.
    """
    positive = [value for values in series.values() for value in values if value > 0]
    if len(labels) < 2 or not positive:
        return ""
    named = [Words.of(label) for label in labels]
    low, high = _decade(min(positive), math.floor), _decade(max(positive), math.ceil)
    high = high if high > low else low * 10
    across = (WIDTH - LEFT - RIGHT) / (len(labels) - 1)

    def x(index: int) -> float:
        return LEFT + across * index

    def y(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<div class="plot"><svg class="chart small" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {name_of(Words.of(describe))}>'
    ]
    for tick in _ticks(low, high):
        parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{html.escape(short(tick))}</text>'
        )
    every = max(1, math.ceil(max(len(label.en) for label in named) * 6.2 / across))
    for index, label in enumerate(named):
        if index % every == 0:
            cut = x(index) + 3.1 * len(label.en) > WIDTH  # a long one at the end stands within the picture
            at, anchor = (WIDTH - 2, "end") if cut else (x(index), "middle")
            place = f'x="{at:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="{anchor}"'
            parts.append(say(label, "text", place))
    if beside:
        parts.append(say(beside, "text", 'x="2" y="10"'))
    if below:
        parts.append(say(below, "text", f'x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end"'))
    for number, (name, values) in enumerate(series.items()):
        points = [(x(i), y(value)) for i, value in enumerate(values)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(
            f'<g class="series s{number % 7}{_dash(number)}" data-series="{html.escape(name)}"><polyline points="{path}"/>'
        )
        for (px, py), label, value in zip(points, named, values, strict=False):
            of = Words.name(f"{name}; ") if len(series) > 1 and name else Words.same("")
            told = Words(f"{of.en}{label.en}: {about(value)}", f"{of.ja}{label.ja}：{about(value)}")
            parts.append(_mark(number, px, py, say(told, "title")))
        parts.append("</g>")
    return "".join([*parts, "</svg></div>"])


def _dash(number: int) -> str:
    """Lines are told apart without their colours too: the first is whole, the others are broken, each in its way."""
    return ("", " dashed", " dotted", " long")[number % 4]


def _mark(number: int, x: float, y: float, title: str) -> str:
    """A point of a line: a ring, a square, a triangle, a diamond."""
    if number % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3">{title}</circle>'
    corners = (
        ((-2.7, -2.7), (2.7, -2.7), (2.7, 2.7), (-2.7, 2.7)),
        ((0, -3.5), (3.4, 2.6), (-3.4, 2.6)),
        ((0, -3.8), (3.8, 0), (0, 3.8), (-3.8, 0)),
    )[number % 4 - 1]
    points = " ".join(f"{x + across:.1f},{y + down:.1f}" for across, down in corners)
    return f'<polygon points="{points}">{title}</polygon>'


def key_class(number: int) -> str:
    """The class of a line's name in the key below a chart."""
    return f"s{number % 7}{_dash(number)}"


def short(value: float, thousand: int = 1000) -> str:
    """1k for a thousand; for sides of blocks, which are powers of two, for 1024."""
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if value >= thousand**power:
            return f"{value / thousand**power:g}{letter}"
    return f"{value:g}"


def _decade(value: float, towards: object) -> float:
    """The next of ..., 1, 2, 5, 10, ... downwards or upwards."""
    base = 10.0 ** math.floor(math.log10(value))
    steps = [base * step for step in (1, 2, 5, 10)]
    if towards is math.floor:
        return max(step for step in steps if step <= value * 1.0000001)
    return min(step for step in steps if step >= value * 0.9999999)


def _ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades <= 1.4 else (1.0, 3.0) if decades <= 2.2 else (1.0,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low * 0.9999 <= tick <= high * 1.0001]


# Errors by block size, for any page: their names in few words, a chart, and a table with aligned figures.

_SQUARE = re.compile(r"(?:(\d+) x \1 to )?(\d+) x \2 of ([^;]+)")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_LINES = 6


def forecast_of(record: Facts) -> Forecast | None:
    """The forecast of a certificate, with its figures as numbers again."""
    columns, rows = list(record.get("columns", [])), list(record.get("rows", []))
    if not columns or not rows:
        return None
    read = tuple((str(row[0]), *(_read(value) for value in row[1:])) for row in rows)
    notes = tuple(str(note) for note in record.get("notes", []))
    return Forecast(str(record.get("title", "")), tuple(str(name) for name in columns), read, notes)


def block_words(names: Sequence[str]) -> list[Words]:
    """ "8 x 8 of row,col; each sex" is "8 × 8 cells; each sex", if no other place is named."""
    parts = [name.split("; ") for name in names]
    grid = _only_grid(parts)
    return [_joined([_part(part, grid) for part in one]) for one in parts]


def error_chart(found: Forecast) -> str:
    """The 95% reach by block size: a line for all values of the other columns together, and one for each breakdown."""
    column = next(
        (i for i, name in enumerate(found.columns) if i and "95" in name), min(1, len(found.columns) - 1)
    )
    if column == 0 or any(isinstance(row[column], str) for row in found.rows):
        return ""
    names = [str(row[0]).split("; ") for row in found.rows]
    alike = len({len(parts) for parts in names}) == 1
    size = max(range(len(names[0])), key=lambda i: len({parts[i] for parts in names})) if alike else 0
    if not alike:  # then only the number of cells tells block sizes apart
        names = [[str(row[1])] for row in found.rows]
    lines: dict[str, dict[str, float]] = {}
    for parts, row in zip(names, found.rows, strict=True):
        breakdown = "; ".join(part for i, part in enumerate(parts) if i != size)
        lines.setdefault(breakdown, {})[parts[size]] = float(row[column])
    places = list(dict.fromkeys(parts[size] for parts in names))
    whole = [(name, own) for name, own in lines.items() if len(own) == len(places)][:_MOST_LINES]
    series = {name: [own[place] for place in places] for name, own in whole}
    labels = [_short(place) for place in places]
    drawn = line_chart(
        labels,
        series,
        describe=Words.sentence(found.title),
        below=PROMISE["error_cells" if not alike else "error_side" if labels[0].en == "1" else "error_size"],
        beside=PROMISE["error_reach"]
        if "95" in found.columns[column]
        else Words.sentence(found.columns[column]),
    )
    key = "".join(say(Words.name(name), "li", f'class="{key_class(i)}"') for i, name in enumerate(series))
    return drawn + (f'<ul class="series-key">{key}</ul>' if drawn and len(series) > 1 else "")


def error_table(found: Forecast, leave_out: Sequence[str] = ()) -> str:
    """Block sizes and their figures; neighbouring ones of equal figures in one row."""
    folded = found.folded()
    kept = [i for i, name in enumerate(folded.columns) if i == 0 or name not in leave_out]
    blocks = block_words([str(row[0]) for row in folded.rows])
    columns = [aligned([row[i] for row in folded.rows]) for i in kept[1:]]
    head = "".join(say(Words.sentence(folded.columns[i]), "th", "scope=col") for i in kept)
    rows = "".join(
        f"<tr>{say(block, 'td')}{''.join(say(value, 'td') for value in values)}</tr>"
        for block, *values in zip(blocks, *columns, strict=True)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def aligned(values: Sequence[Any]) -> list[Words]:
    """Figures of one column, all with as many decimals as the smallest needs for three digits."""
    if any(isinstance(value, str) for value in values):
        return [Words.name(_power(value) if isinstance(value, str) else _plain(value)) for value in values]
    if all(isinstance(value, int) for value in values):
        return [Words.same(f"{value:,}") for value in values]
    sizes = [abs(value) for value in values if value]
    places = 2 - math.floor(math.log10(min(sizes))) if sizes else 0
    if places > 4 or max(sizes, default=0) >= 1e15:
        return [Words.same(about(value)) for value in values]
    return [Words.same(f"{value:,.{max(places, 0)}f}") for value in values]


def _power(text: str) -> str:
    """2^20 with its exponent raised."""
    return re.sub(r"\b2\^(\d+)", lambda found: "2" + found[1].translate(_RAISED), text)


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else about(value)


def _part(part: str, grid: str | None) -> Words:
    found = _SQUARE.fullmatch(part)
    if grid is not None and found:
        sides = [side for side in (found[1], found[2]) if side]
        told = [f"{int(side):,} × {int(side):,}" for side in sides]
        squares = both("{low} to {high}").fill(low=told[0], high=told[1]) if len(told) > 1 else told[0]
        return both("{squares} cells").fill(squares=squares)
    if grid is not None and part == f"all of {grid}":
        return both("all cells")
    return Words.name(part)


def note_words(notes: Sequence[str], names: Sequence[str]) -> list[Words]:
    """Notes, with blocks called as `block_words` calls them."""
    grid = _only_grid([name.split("; ") for name in names])
    said = [Words.sentence(note) for note in notes]
    if grid is None:
        return said
    return [_squared(note, grid) for note in said]


def _squared(note: Words, grid: str) -> Words:
    """A note in which "8 x 8 of row,col" is 8 × 8 cells."""
    for found in re.finditer(rf"\b(\d+) x \1 of {re.escape(grid)}", note.en):
        square = both("{squares} cells").fill(squares=f"{found[1]} × {found[1]}")
        named = Words.name(found[0])
        note = Words(note.en.replace(named.en, square.en), note.ja.replace(named.ja, square.ja))
    return note


def _only_grid(parts: Sequence[Sequence[str]]) -> str | None:
    """The columns of the one grid whose squares are named."""
    grids = {found[3] for one in parts for part in one if (found := _SQUARE.fullmatch(part))}
    return grids.pop() if len(grids) == 1 else None


def _joined(parts: Sequence[Words]) -> Words:
    """A line breaks between parts, and within a part only if it is long."""
    kept = [
        Words(*(text.replace(" ", "\u00a0") if len(text) < 20 else text for text in part)) for part in parts
    ]
    return Words("; ".join(part.en for part in kept), "；".join(part.ja for part in kept))


def _short(place: str) -> Words:
    """For an axis: "8 x 8 of row,col" is 8; "500 m mesh" is 500 m."""
    if place.startswith("all of "):
        return both("all")
    square = _SQUARE.fullmatch(place)
    return (
        Words.same(short(int(square[2]), 1024)) if square else Words.name(_power(place).removesuffix(" mesh"))
    )


def _read(value: object) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return number if math.isfinite(number) else str(value)
