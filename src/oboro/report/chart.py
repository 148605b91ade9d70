"""A small line chart as inline SVG: values by size, on a logarithmic scale. Colours come from the stylesheet."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from oboro.exact import about
from oboro.report.page import label as name_of
from oboro.report.page import say
from oboro.report.words import Words

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 14, 34


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float]], *, describe: str | Words) -> str:
    """One line for each series over evenly spaced labels; nothing below zero, zeros at the foot."""
    positive = [value for values in series.values() for value in values if value > 0]
    if len(labels) < 2 or not positive:
        return ""
    low, high = _decade(min(positive), math.floor), _decade(max(positive), math.ceil)
    high = high if high > low else low * 10
    across = (WIDTH - LEFT - RIGHT) / (len(labels) - 1)

    def x(index: int) -> float:
        return LEFT + across * index

    def y(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    named = name_of(Words.of(describe))
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {named}>']
    for tick in _ticks(low, high):
        parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{html.escape(short(tick))}</text>'
        )
    every = max(1, math.ceil(max(len(label) for label in labels) * 6.2 / across))
    for index, label in enumerate(labels):
        if index % every == 0:
            place = f'x="{x(index):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle"'
            parts.append(say(Words.name(label), "text", place))
    for number, (name, values) in enumerate(series.items()):
        points = [(x(i), y(value)) for i, value in enumerate(values)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(
            f'<g class="series s{number % 7}" data-series="{html.escape(name)}"><polyline points="{path}"/>'
        )
        for (px, py), label, value in zip(points, labels, values, strict=False):
            told = Words.name(f"{name + '; ' if len(series) > 1 else ''}{label}: {about(value)}")
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3">{say(told, "title")}</circle>')
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def short(value: float) -> str:
    """1k for a thousand."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
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
