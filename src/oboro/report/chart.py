"""A small line chart as inline SVG: values by size, on a logarithmic scale. Colours come from the stylesheet."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from oboro.exact import about
from oboro.report.page import label as name_of
from oboro.report.page import say
from oboro.report.words import Words

WIDTH, HEIGHT = 320, 196
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 24, 38


def lines(
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
            place = f'x="{x(index):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle"'
            parts.append(say(label, "text", place))
    if beside:
        parts.append(say(beside, "text", 'x="2" y="10"'))
    if below:
        parts.append(say(below, "text", f'x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end"'))
    for number, (name, values) in enumerate(series.items()):
        points = [(x(i), y(value)) for i, value in enumerate(values)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(
            f'<g class="series s{number % 7}" data-series="{html.escape(name)}"><polyline points="{path}"/>'
        )
        for (px, py), label, value in zip(points, named, values, strict=False):
            of = Words.name(f"{name}; ") if len(series) > 1 and name else Words.same("")
            told = Words(f"{of.en}{label.en}: {about(value)}", f"{of.ja}{label.ja}：{about(value)}")
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3">{say(told, "title")}</circle>')
        parts.append("</g>")
    return "".join([*parts, "</svg></div>"])


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
