"""The frame of a wide chart as inline SVG: rules with their values, ticks below, lines. Colours come from the stylesheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from oboro.report.page import escape, label, say
from oboro.report.words import Words

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 62, 16, 14, 34

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


def chart(describe: Words, parts: Iterable[str]) -> str:
    start = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {label(describe)}>'
    return "".join([start, *parts, "</svg>"])


def rule(y: float, text: str) -> str:
    line = f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def tick(x: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 22}" text-anchor="middle">{escape(text)}</text>'


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
