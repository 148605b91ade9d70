"""The frame of a wide chart as inline SVG: rules with their values, ticks below, lines. Colours come from the stylesheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from oboro.report.page import Words, escape, label, say

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 62, 16, 36, 50

Place = Callable[[float], float]


def scale(first: float, last: float, start: float, end: float) -> Place:
    """Where a value between `first` and `last` lies between two places."""
    span = (last - first) or 1.0
    return lambda value: start + (value - first) / span * (end - start)


def across(first: float, last: float) -> Place:
    return scale(first, last, LEFT, WIDTH - RIGHT)


def upwards(bottom: float, top: float) -> Place:
    """The same from the bottom of the chart to its top; what lies beyond is drawn at the edge."""
    place = scale(bottom, top, HEIGHT - BOTTOM, TOP)
    return lambda value: place(min(max(value, bottom), top))


def chart(describe: Words, parts: Iterable[str], *, below: Words, beside: Words) -> str:
    """The whole; `below` and `beside` say what the two axes show."""
    start = f'<div class="plot"><svg class="chart large" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {label(describe)}>'
    named = say(beside, "text", f'x="2" y="{TOP - 18}"')
    named += say(below, "text", f'x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end"')
    return "".join([start, *parts, named, "</svg></div>"])


def rule(y: float, text: str) -> str:
    line = f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'


def tick(x: float, text: str, *, minor: bool = False) -> str:
    """A value under the axis; a minor one is left out where there is little room."""
    look = ' class="minor"' if minor else ""
    return f'<text{look} x="{x:.1f}" y="{HEIGHT - BOTTOM + 19}" text-anchor="middle">{escape(text)}</text>'


def polyline(xs: Sequence[float], ys: Sequence[float], told: Words) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return f'<polyline points="{points}">{say(told, "title")}</polyline>'


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values between two, 1, 2 or 5 times a power of ten apart, about so many."""
    span = (high - low) or 1.0
    base = 10.0 ** math.floor(math.log10(span / about))
    step = next(base * times for times in (1, 2, 5, 10) if span / (base * times) <= about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
