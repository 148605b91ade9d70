"""The paper's figures as small SVG pictures: probabilities on a logarithmic scale, and their steps against eps."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from oboro.errors import ParameterError
from oboro.secure.papers.kii import curves, ratios

NAMES = ("kii-fig1", "kii-fig2", "kii-fig3", "kii-fig4")
_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 240, 70, 30
Points = Sequence[tuple[float, float]]


def svg(name: str) -> str:
    """One figure: above the laws of one draw and of the sum, below ln P(k+1) - ln P(k) with +-eps marked."""
    if name not in NAMES:
        raise ParameterError("no such figure", given=name, needed=", ".join(NAMES), fix="kii-fig1")
    urn, draws, law = curves(name)
    eps = 0.1 if name == "kii-fig4" else 1.0
    one = [(k, math.log10(c / urn.size)) for k, c in enumerate(urn.counts, urn.first) if c]
    total = [(k, math.log10(w / law.total)) for k, w in enumerate(law.weights, law.lowest) if w]
    laws = (
        {"log10 of one draw": one}
        if draws == 1
        else {"log10 of one draw": one, f"log10 of the sum of {draws}": total}
    )
    upper = _panel(laws, (), 0)
    lower = _panel({"ln P(k+1) - ln P(k)": ratios(law)}, (-eps, eps), _HEIGHT + 2 * _TOP)
    height = 2 * (_HEIGHT + 2 * _TOP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT + 20} {height}" font-family="sans-serif" font-size="13">'
    return head + '<rect width="100%" height="100%" fill="white"/>' + upper + lower + "</svg>\n"


def _panel(series: Mapping[str, Points], marks: Sequence[float], down: int) -> str:
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points] + list(marks)
    low, high = min(ys), max(ys)

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + _WIDTH * (x - min(xs)) / (max(xs) - min(xs))
        return across, down + _TOP + _HEIGHT * (high - y) / (high - low)

    parts = []
    for y in (*marks, low, high):
        _, at = place(0, y)
        dash = ' stroke-dasharray="5 4"' if y in marks else ""
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#999"{dash}/>'
        )
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:.3g}</text>')
    for x in (min(xs), 0, max(xs)):
        parts.append(
            f'<text x="{place(x, low)[0]:.1f}" y="{down + _TOP + _HEIGHT + 18}" text-anchor="middle">{x:g}</text>'
        )
    for number, (label, points) in enumerate(series.items()):
        colour = ("#1b6ca8", "#c0392b")[number]
        line = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        shown = html.escape(label)
        parts.append(f'<text x="{_LEFT + 8 + 200 * number}" y="{down + 20}" fill="{colour}">{shown}</text>')
    return "".join(parts)
