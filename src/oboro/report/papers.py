"""The page of reproductions: each table of a paper beside ours, its figures drawn anew, and where the paper errs."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oboro.arrays import Bytes
from oboro.language import reproduced
from oboro.release.forecast import Cell
from oboro.release.reproduction import Bars, Cells, Curve, Curves, Figure, Reproduction, text_of
from oboro.report import axes
from oboro.report.page import LANGUAGES, Words, both, escape, label, render, say, write_page

PAPERS = {
    "terada": both("Large tables: wavelets, Morton order and non-negative refinement (Terada et al.)"),
    "kashima": both("Output perturbation (Kashima)"),
    "kii": both("Secure sampling from small tables (Kii et al.)"),
    "ito": both("Stable noise on linear systems (Ito et al.)"),
    "miura": both("The privacy of synthetic data itself (Miura et al.)"),
}
TITLE = both("The papers, computed again")
ERRS, NOTES = both("Where the paper errs"), both("How this was computed")
NEGATIVE = both("negative cells in red")
CONTENTS = both("What is here")
INTRO = both(
    "Every table and figure of five works on differential privacy, computed by oboro and set beside what was printed. "
    "Where the two differ, it says why."
)
_MOST_TICKS = 6
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def write_papers(found: Sequence[Reproduction], path: str | Path, *, language: str | None = None) -> Path:
    """One self-contained page with every table and figure that is given."""
    papers = {name: [one for one in found if one.name.split("-")[0] == name] for name in PAPERS}
    parts = (
        [f'<section class="card">{say(INTRO, "p")}{_contents(papers)}</section>'] if len(found) > 1 else []
    )
    for name, own in papers.items():
        if own and len(found) > 1:
            parts.append(say(PAPERS[name], "h2", 'class="paper"'))
        parts += [_card(one) for one in own]
    title = TITLE if len(found) != 1 else _told(found[0].title)
    wrong = sum(len(one.errors) for one in found)
    facts = ((both("{number} tables and figures"), len(found)), (both("{number} errors"), wrong))
    chips = "".join(f'<span class="chip">{say(words.fill(number=number))}</span>' for words, number in facts)
    target = Path(path)
    body = f'<main class="sheet papers">{"".join(parts)}</main>'
    page = render(
        title=title,
        body=body,
        subtitle=chips if len(found) > 1 else "",
        language=language,
        styles=("papers.css",),
    )
    write_page(target, page)
    return target


def _contents(papers: dict[str, list[Reproduction]]) -> str:
    items = "".join(
        f'<li><a href="#{escape(one.name)}">{say(_told(one.title))}</a>{"" if not one.errors else " ✗"}</li>'
        for own in papers.values()
        for one in own
    )
    return f'{say(CONTENTS, "h2")}<ul class="contents">{items}</ul>'


def _card(one: Reproduction) -> str:
    head = "".join(f"<th>{say(_told(column))}</th>" for column in one.columns)
    rows = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in one.rows)
    told = _listed(ERRS, one.errors, "errs") + _listed(NOTES, one.notes, "quiet")
    figures = "".join(_figure(each) for each in one.figures)
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    if (
        one.figures and len(one.rows) > 12
    ):  # the picture says it; the figures are there for those who want them
        table = f"<details>{say(both('The figures'), 'summary')}{table}</details>"
    name = f'<p class="quiet"><code>oboro reproduce {escape(one.name)}</code></p>'
    return f'<section class="card" id="{escape(one.name)}">{say(_told(one.title), "h2")}{name}{figures}{table}{told}</section>'


def _told(text: str) -> Words:
    return Words(text, reproduced(text, "ja"))


def _cell(value: Cell | None) -> str:
    words = Words(*(text_of(value, language).strip() for language in LANGUAGES))
    return f"<td>{escape(words.en)}</td>" if words.en == words.ja else say(words, "td")


def _listed(title: Words, sentences: Sequence[str], look: str) -> str:
    if not sentences:
        return ""
    items = "".join(say(_told(sentence), "li") for sentence in sentences)
    return f'{say(title, "h3")}<ul class="{look}">{items}</ul>'


def _figure(figure: Figure) -> str:
    if isinstance(figure, Curves):
        return _curves(figure)
    return _bars(figure) if isinstance(figure, Bars) else _cells(figure)


def _curves(figure: Curves) -> str:
    points = [point for curve in figure.curves for point in curve.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across, upwards = _Axis(xs, figure.log_x), _Axis(ys, figure.log_y)
    px = axes.across(across.place(across.low), across.place(across.high))
    py = axes.upwards(upwards.place(upwards.low), upwards.place(upwards.high))
    parts = [axes.rule(py(upwards.place(value)), upwards.text(value)) for value in upwards.ticks]
    parts += [
        axes.tick(px(across.place(value)), across.text(value), minor=place % 2 == 1)
        for place, value in enumerate(across.ticks)
    ]
    ours = [curve.name for curve in figure.curves if not curve.printed]
    for curve in figure.curves:
        look = ours.index(curve.name) if curve.name in ours else len(ours)
        at = [(px(across.place(x)), py(upwards.place(y))) for x, y in curve.points]
        parts.append(f'<g class="series s{look % 7}">{_drawn(curve, at)}</g>')
    key = "".join(say(_told(name), "li", f'class="s{place % 7}"') for place, name in enumerate(ours))
    dots = (
        say(_told(figure.dots), "p", 'class="quiet"') if any(curve.printed for curve in figure.curves) else ""
    )
    drawn = axes.chart(_told(figure.title), parts, below=_told(figure.below), beside=_told(figure.beside))
    return f'<figure>{say(_told(figure.title), "h3")}{drawn}<ul class="series-key">{key}</ul>{dots}</figure>'


def _drawn(curve: Curve, at: list[tuple[float, float]]) -> str:
    if not curve.printed:
        return axes.polyline([x for x, _ in at], [y for _, y in at], _told(curve.name))
    return "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3">{say(Words.same(f"{_number(a)}: {_number(b)}"), "title")}</circle>'
        for (x, y), (a, b) in zip(at, curve.points, strict=True)
    )


_LABEL, _BAR = 17, 13  # room for a name above its bars, and for each of them


def _bars(figure: Bars) -> str:
    known = [value for _, values in figure.series for value in values if value is not None and value > 0]
    axis = _Axis(known, figure.log_x, from_zero=not figure.log_x)
    place = axes.scale(
        axis.place(axis.low), axis.place(axis.high), axes.LEFT / 4, axes.WIDTH - 4 * axes.RIGHT
    )
    first, top, parts = axes.LEFT / 4, 8.0, list[str]()
    for at, name in enumerate(figure.names):
        parts.append(say(_told(name), "text", f'x="{first:.1f}" y="{top + 11:.1f}"'))
        top += _LABEL
        for look, (series, values) in enumerate(figure.series):
            value = values[at]
            if value is None:
                continue
            width = max(place(axis.place(value)) - first, 1.0)
            kind = " printed" if series in figure.printed else ""
            parts.append(
                f'<g class="series s{look % 7}{kind}"><rect x="{first:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR - 4}" rx="1.5"/></g>'
                f'<text x="{first + width + 5:.1f}" y="{top + _BAR - 5:.1f}">{escape(_number(value))}</text>'
            )
            top += _BAR
        top += 5
    marks = "".join(
        f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{top:.1f}"/>'
        f'<text x="{x:.1f}" y="{top + 13:.1f}" text-anchor="middle">{escape(axis.text(value))}</text>'
        for value, x in ((value, place(axis.place(value))) for value in axis.ticks)
    )
    named = say(
        _told(figure.below),
        "text",
        f'x="{axes.WIDTH - axes.RIGHT}" y="{top + 28:.1f}" text-anchor="end"',
    )
    drawn = (
        f'<div class="plot"><svg class="chart large" viewBox="0 0 {axes.WIDTH} {top + 34:.0f}" role="img" '
        f"{label(_told(figure.title))}>{marks}{''.join(parts)}{named}</svg></div>"
    )
    key = "".join(
        say(
            _told(name),
            "li",
            f'class="s{look % 7}{" outline" if name in figure.printed else " area-full"}"',
        )
        for look, (name, _) in enumerate(figure.series)
    )
    return f'<figure>{say(_told(figure.title), "h3")}{drawn}<ul class="series-key">{key}</ul></figure>'


class _Axis:
    """From the least to the largest value, on a plain or a logarithmic scale, and round values between."""

    def __init__(self, values: Sequence[float], logarithmic: bool, *, from_zero: bool = False) -> None:
        self.logarithmic = logarithmic
        known = [value for value in values if value > 0] if logarithmic else list(values)
        ends = self.place(min(known)), self.place(max(known))
        margin = 0.04 * ((ends[1] - ends[0]) or 1.0)
        low: float = 0.0 if from_zero else ends[0] - margin
        high: float = ends[1] + margin
        self.low: float = 10.0**low if logarithmic else low
        self.high: float = 10.0**high if logarithmic else high
        self.powers = False
        self.ticks = self._log_ticks(low, high) if logarithmic else axes.round_ticks(low, high, _MOST_TICKS)

    def _log_ticks(self, low: float, high: float) -> list[float]:
        """Powers of ten; where there are few of them, 2 and 5 times these too."""
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        if last - first >= 2:
            self.powers = first < -3 or last > 5
            return [10.0**k for k in range(first, last + 1, max(1, round((last - first) / _MOST_TICKS)))]
        few = [times * 10.0**k for k in range(first - 1, last + 2) for times in (1, 2, 5)]
        return [value for value in few if low - 1e-9 <= math.log10(value) <= high + 1e-9]

    def text(self, value: float) -> str:
        raised = str(round(math.log10(value))).translate(_RAISED) if self.powers else ""
        return f"10{raised}" if raised else _number(value)

    def place(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value


def _number(value: float) -> str:
    digits, power, exponent = f"{value:.4g}".partition("e")
    raised = str(int(exponent)).translate(_RAISED) if power else ""
    return (("" if digits == "1" else f"{digits}·") + f"10{raised}" if power else digits).replace("-", "−")


def _cells(figure: Cells) -> str:
    values = np.asarray(figure.values, float)
    depth = np.sqrt(np.clip(np.abs(values) / max(np.quantile(np.abs(values), 0.999), 1.0), 0, 1))
    ink = np.where(values[..., None] < 0, [196, 30, 42], [22, 54, 92])
    share = np.where(values < 0, 0.45 + 0.55 * depth, depth)[..., None]
    shades = np.rint(255 - share * (255 - ink)).astype(np.uint8)
    picture = base64.b64encode(_png(shades)).decode("ascii")
    red = say(NEGATIVE, "p", 'class="quiet"') if (values < 0).any() else ""
    name = _told(figure.title)
    image = f'<img class="cells" src="data:image/png;base64,{picture}" alt="{escape(name.en)}" {label(name)}>'
    return f"<figure>{say(name, 'h3')}{image}{red}</figure>"


def _png(shades: Bytes) -> bytes:
    """Rows of red, green and blue as a picture [PNG specification, 2003]."""
    height, width, _ = shades.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), shades.reshape(height, -1)], axis=1).tobytes()

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )
