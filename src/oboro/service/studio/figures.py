"""What the studio draws: small SVG of public numbers. Colours come from the stylesheet; nothing is styled inline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup

from oboro.exact import about
from oboro.service.studio.page import escape

Say = Callable[..., str]
_MOST_BARS = 60


def bar(parts: Sequence[tuple[str, float, str]], *, describe: str) -> Markup:
    """A bar of parts that together are one: a class, a share and a name for each."""
    drawn, at = [], 0.0
    for kind, share, name in parts:
        width = max(0.0, min(share, 1.0 - at))
        if width > 0:
            drawn.append(
                f'<rect class="{kind}" x="{1000 * at:.2f}" width="{1000 * width:.2f}" height="20"><title>{escape(name)}</title></rect>'
            )
        at += width
    return Markup(
        f'<svg class="budget" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label="{escape(describe)}">'
        f'<rect class="room" width="1000" height="20"/>{"".join(drawn)}</svg>'
    )


def error_curve(
    points: Sequence[tuple[float, float]], at: tuple[float, float], *, describe: str, below: str, beside: str
) -> Markup:
    """The error by the price, both on a logarithmic scale, and where the question stands."""
    if len(points) < 2:
        return Markup("")
    width, height, left, right, top, bottom = 420, 170, 52, 12, 20, 34
    lows = [min(value[i] for value in (*points, at)) for i in (0, 1)]
    highs = [max(value[i] for value in (*points, at)) for i in (0, 1)]
    if lows[1] <= 0:
        return Markup("")
    if highs[1] / lows[1] < 2:
        lows[1], highs[1] = lows[1] / 1.5, highs[1] * 1.5

    def x(value: float) -> float:
        return left + math.log(value / lows[0]) / math.log(highs[0] / lows[0]) * (width - left - right)

    def y(value: float) -> float:
        return (
            height
            - bottom
            - math.log(value / lows[1]) / math.log(highs[1] / lows[1]) * (height - top - bottom)
        )

    parts = [
        f'<div class="plot"><svg class="chart curve" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(describe)}">'
    ]
    for tick in _decades(*lows[1:], *highs[1:]):
        parts.append(
            f'<line class="rule" x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{left - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{escape(_short(tick))}</text>'
        )
    for tick in _decades(lows[0], highs[0]):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{height - bottom + 16}" text-anchor="middle">{escape(f"{tick:g}")}</text>'
        )
    parts.append(f'<text x="2" y="10">{escape(beside)}</text>')
    parts.append(f'<text x="{width - right}" y="{height - 4}" text-anchor="end">{escape(below)}</text>')
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
    parts.append(f'<g class="series s0"><polyline points="{line}"/></g>')
    ax, ay = x(at[0]), y(at[1])
    parts.append(
        f'<line class="here" x1="{left}" x2="{ax:.1f}" y1="{ay:.1f}" y2="{ay:.1f}"/>'
        f'<line class="here" x1="{ax:.1f}" x2="{ax:.1f}" y1="{ay:.1f}" y2="{height - bottom}"/>'
        f'<circle class="at" cx="{ax:.1f}" cy="{ay:.1f}" r="5"/>'
    )
    return Markup("".join([*parts, "</svg></div>"]))


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0,) if last - first > 2 else (1.0, 3.0) if last - first > 1 else (1.0, 2.0, 5.0)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _short(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def intervals(
    rows: Sequence[tuple[str, float, float | None, float | None]], *, describe: str, interval: str
) -> Markup:
    """Values with what surrounds them in 95 of 100 cases: a line for each, or columns where they are many."""
    rows = [row for row in rows if row[1] is not None and math.isfinite(row[1])]
    if not rows:
        return Markup("")
    ends = [value for row in rows for value in row[1:] if value is not None and math.isfinite(value)]
    low, high = min(ends), max(ends)
    span = (high - low) or abs(high) or 1.0
    if len(rows) > 1 and low > 0 and low < 0.5 * high:
        low = 0.0
    elif low < 0 < high or low >= 0:
        low = min(low, 0.0) if len(rows) > 1 else low - 0.25 * span
    high += (0.25 if len(rows) == 1 else 0.04) * span
    if low < 0 and len(rows) > 1:
        low -= 0.02 * span
    return (
        _columns(rows, low, high, describe, interval)
        if len(rows) > 12
        else _lines(rows, low, high, describe, interval)
    )


def _told(row: tuple[str, float, float | None, float | None], interval: str) -> str:
    name, value, low, high = row
    ends = "" if low is None or high is None else f" ({interval} {_number(low)} – {_number(high)})"
    return f"{name}: {_number(value)}{ends}" if name else f"{_number(value)}{ends}"


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else about(value)


def _ticks(low: float, high: float, most: int) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / most or 1))
    step = next(step * times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= most)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _wide(text: str) -> int:
    """How many letters wide a text is: signs of Japanese are twice as wide."""
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _lines(rows: Sequence[Any], low: float, high: float, describe: str, interval: str) -> Markup:
    named = any(row[0] for row in rows)
    longest = max(_wide(name) for name, *_ in rows)
    left = (
        min(250, 14 + int(10.6 * longest)) if named else 14
    )  # on a phone letters are larger beside the same lines
    width, each = 640, 28
    height = 14 + each * len(rows) + 26

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - 24)

    parts = [
        f'<div class="plot"><svg class="chart whiskers" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(describe)}">'
    ]
    for tick in _ticks(low, high, 6):
        parts.append(
            f'<line class="rule" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="6" y2="{height - 22}"/>'
            f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{escape(_number(tick))}</text>'
        )
    for number, row in enumerate(rows):
        y = 14 + each * number + each / 2
        name, value, first, last = row
        cut = name
        while _wide(cut) > 22:
            cut = cut.removesuffix("…")[:-1] + "…"
        if named:
            parts.append(
                f'<text class="name" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(cut)}</text>'
            )
        parts.append(f'<g class="whisker"><title>{escape(_told(row, interval))}</title>')
        if first is not None and last is not None:
            parts.append(
                f'<rect class="reach" x="{x(first):.1f}" y="{y - 6:.1f}" width="{max(x(last) - x(first), 1):.1f}" height="12" rx="6"/>'
            )
        parts.append(f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="5"/></g>')
    return Markup("".join([*parts, "</svg></div>"]))


def _columns(rows: Sequence[Any], low: float, high: float, describe: str, interval: str) -> Markup:
    every = math.ceil(len(rows) / 400)
    rows = rows[::every] if every > 1 else rows
    width, height, left, bottom, top = 640, 230, 56, 30, 10
    each = (width - left - 8) / len(rows)

    def y(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - top - bottom)

    parts = [
        f'<div class="plot"><svg class="chart whiskers" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(describe)}">'
    ]
    for tick in _ticks(low, high, 5):
        parts.append(
            f'<line class="rule" x1="{left}" x2="{width - 8}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{left - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{escape(_number(tick))}</text>'
        )
    spoken = math.ceil(max(len(name) for name, *_ in rows) * 6.4 / each) if each else 1
    for number, row in enumerate(rows):
        x = left + each * number
        name, value, first, last = row
        base = y(max(low, min(0.0, high)))
        parts.append(f'<g class="whisker"><title>{escape(_told(row, interval))}</title>')
        parts.append(
            f'<rect class="stick" x="{x + each * 0.08:.2f}" y="{min(y(value), base):.1f}" width="{each * 0.84:.2f}" height="{max(abs(y(value) - base), 0.6):.1f}"/>'
        )
        if first is not None and last is not None and each >= 2:
            parts.append(
                f'<line class="reach" x1="{x + each / 2:.2f}" x2="{x + each / 2:.2f}" y1="{y(first):.1f}" y2="{y(last):.1f}"/>'
            )
        parts.append("</g>")
        if number % max(spoken, 1) == 0:
            parts.append(
                f'<text x="{x + each / 2:.1f}" y="{height - bottom + 15}" text-anchor="middle">{escape(name)}</text>'
            )
    return Markup("".join([*parts, "</svg></div>"]))


def heat(values: Any, *, describe: str, south: bool = True, most: float | None = None) -> Markup:
    """Counts of a grid as a picture, in blocks: the map itself has every cell. `most` is the darkest of several pictures."""
    import numpy as np

    rows, columns = values.shape
    side = max(1, math.ceil(max(rows, columns) / 72))
    padded = np.zeros((-(-rows // side) * side, -(-columns // side) * side))
    padded[:rows, :columns] = np.maximum(values, 0)
    blocks = padded.reshape(padded.shape[0] // side, side, padded.shape[1] // side, side).sum((1, 3))
    blocks = blocks[::-1] if south else blocks
    most = most or float(blocks.max()) or 1.0
    parts = [
        f'<svg class="heat" viewBox="0 0 {blocks.shape[1]} {blocks.shape[0]}" role="img" aria-label="{escape(describe)}">'
        f'<rect class="sea" width="{blocks.shape[1]}" height="{blocks.shape[0]}"/>'
    ]
    for row, col in np.argwhere(blocks > 0).tolist():
        level = min(8, 1 + int(8 * math.sqrt(float(blocks[row, col]) / most) - 1e-9))
        parts.append(f'<rect class="h{level}" x="{col}" y="{row}" width="1.02" height="1.02"/>')
    return Markup("".join([*parts, "</svg>"]))


def scale(most: float, *, describe: str) -> Markup:
    """What the colours of such a picture mean: from none to the most."""
    steps = "".join(
        f'<rect class="h{level}" x="{10 * level}" width="10.2" height="8"/>' for level in range(1, 9)
    )
    return Markup(
        f'<p class="scale"><span>0</span><svg viewBox="0 0 90 8" preserveAspectRatio="none" role="img" aria-label="{escape(describe)}">'
        f'<rect class="sea" width="10.2" height="8"/>{steps}</svg><span>{escape(f"{round(most):,}")}</span></p>'
    )


def strip(ticks: Sequence[tuple[str, int | None, str]], at: int, *, describe: str) -> Markup:
    """A bar for each tick, as long as what was published of it; one that was not published is a mark at the foot."""
    most = max((total for _, total, _ in ticks if total is not None), default=1) or 1
    parts = []
    for number, (name, total, state) in enumerate(ticks):
        height = 3.0 if total is None else max(3.0, 40 * max(total, 0) / most)
        kind = ("absent" if total is None else "stick") + (" here-now" if number == at else "")
        told = f"{name}: {state}" if total is None else f"{name}: {total:,} ({state})"
        parts.append(
            f'<rect class="{kind}" x="{10 * number + 1}" y="{40 - height:.1f}" width="8" height="{height:.1f}"><title>{escape(told)}</title></rect>'
        )
    return Markup(
        f'<svg class="strip" viewBox="0 0 {10 * len(ticks)} 40" preserveAspectRatio="none" role="img" aria-label="{escape(describe)}">{"".join(parts)}</svg>'
    )


def clock(seconds: float, *, describe: str) -> Markup:
    """A ring that closes when an answer is due. It knows the time and nothing else."""
    around = 2 * math.pi * 40
    return Markup(
        f'<svg class="clock" viewBox="0 0 100 100" role="img" aria-label="{escape(describe)}"><circle class="room" cx="50" cy="50" r="40"/>'
        f'<circle class="hand" cx="50" cy="50" r="40" transform="rotate(-90 50 50)" stroke-dasharray="{around:.1f}" stroke-dashoffset="{around:.1f}">'
        f'<animate attributeName="stroke-dashoffset" from="{around:.1f}" to="0" dur="{max(seconds, 0.1):.2f}s" fill="freeze"/></circle></svg>'
    )


def qr(text: str, *, describe: str) -> Markup:
    import segno

    drawn = segno.make(text, error="m").svg_inline(
        scale=4, border=2, dark="#000", light="#fff", svgclass="qr", omitsize=True
    )
    return Markup(drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(describe)}" ', 1))
