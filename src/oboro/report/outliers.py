"""A page about noise on systems: how well an outlier hides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from oboro.dynamics.outliers import SIZES, Detection, detections
from oboro.exact import Number, about
from oboro.files import write_whole
from oboro.report import axes
from oboro.report.page import escape, render, say
from oboro.report.words import Words

WORDS = {
    "found": Words("How often an outlier is found", "外れ値が見つかる割合"),
    "equal": Words("At equal privacy", "プライバシーが等しいとき"),
    "median": Words("At equal median noise", "ノイズの中央値が等しいとき"),
    "how": Words(
        "The most powerful test for an outlier of known size in one number, at {alarm}% false alarms. Lower hides better.",
        "大きさの分かっている外れ値を一つの値から見つける最強力検定（誤警報 {alarm}%）。低いほどよく隠れます。",
    ),
    "part": Words(
        "Part of what heavy tails hide is simply more noise; here every noise has the same median size, {median}.",
        "裾の重いノイズが隠すものの一部は、単にノイズが大きいためです。ここでは中央値をすべて {median} に揃えています。",
    ),
    "shared": Words(
        "“One A, long record” is the noise of the paper's Theorem 1: whoever sees the whole record learns its scale, and a single outlier "
        "stands out again. Independent noise at every time is the outlier mode.",
        "「A が一つ、長い記録」は論文の定理 1 のノイズです。記録全体を見る者はその尺度を知るため、単独の外れ値は再び目立ちます。"
        "外れ値を隠すには各時刻に独立なノイズを使います。",
    ),
    "size": Words("size of the outlier, in units of the distance", "外れ値の大きさ（距離を単位とする）"),
    "rate": Words("how often it is found", "見つかる割合"),
    "noise": Words("noise", "ノイズ"),
    "middle": Words("median of |noise|", "|ノイズ| の中央値"),
    "sizes": Words("found, by the size of the outlier", "外れ値の大きさごとの発見率"),
}


def write_outliers(
    path: str | Path, *, eps: Number, delta: Number, language: str | None = None
) -> tuple[Detection, ...]:
    """Writes the page and returns the curves at equal (eps, delta)."""
    sizes = sorted({*SIZES, *(round(10 ** (k / 16), 3) for k in range(38))})
    equal = detections(eps=eps, delta=delta, sizes=sizes)
    median = equal[0].median
    same = detections(eps=eps, delta=delta, sizes=sizes, median=median)
    body = "<main class='sheet narrow'>"
    for title, curves, told in (
        ("equal", equal, WORDS["how"].fill(alarm=1)),
        ("median", same, WORDS["part"].fill(median=about(median))),
    ):
        drawn = rates(curves) + _key(curves) + _table(curves)
        body += f"<section class='card'>{say(WORDS[title], 'h2')}{say(told, 'p')}{drawn}</section>"
    body += f"<section class='card'>{say(WORDS['shared'], 'p')}</section></main>"
    page = render(
        title=WORDS["found"],
        subtitle=f"<span class='chip'>eps = {escape(eps)}, delta = {escape(delta)}</span>",
        body=body,
        language=language,
    )
    write_whole(Path(path), page.encode())
    return equal


def rates(curves: Sequence[Detection]) -> str:
    """Detection rates against the size of the outlier, on a logarithmic axis."""
    sizes = curves[0].sizes
    px, py = axes.across(math.log(sizes[0]), math.log(sizes[-1])), axes.upwards(0, 1)
    parts = [axes.rule(py(share), f"{100 * share:g}%") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts += [axes.tick(px(math.log(size)), f"{size:g}") for size in SIZES]
    across = [px(math.log(size)) for size in sizes]
    for curve in curves:
        line = axes.polyline(across, [py(rate) for rate in curve.rates], Words.sentence(curve.noise))
        parts.append(f'<g class="series {_look(curve)}">{line}</g>')
    return axes.chart(WORDS["found"], parts, below=WORDS["size"], beside=WORDS["rate"])


def _look(curve: Detection) -> str:
    """A colour for each law; the same with dashes where one A is shared."""
    law = curve.noise.partition(",")[0]
    colour = {"Gaussian": 0, "Laplace (pure eps)": 1, "stable 1.5": 2, "stable 1": 5}.get(law, 3)
    return f"s{colour}" + (" dashed" if "one A" in curve.noise else "")


def _key(curves: Sequence[Detection]) -> str:
    items = "".join(say(Words.sentence(curve.noise), "li", f'class="{_look(curve)}"') for curve in curves)
    return f'<ul class="series-key">{items}</ul>'


def _table(curves: Sequence[Detection]) -> str:
    shown = [i for i, size in enumerate(curves[0].sizes) if size in SIZES]
    first, middle = (say(WORDS[word], "th", 'rowspan="2"') for word in ("noise", "middle"))
    over = say(WORDS["sizes"], "th", f'colspan="{len(shown)}"')
    head = "".join(f"<th>{curves[0].sizes[i]:g}</th>" for i in shown)
    rows = "".join(
        f"<tr>{say(Words.sentence(curve.noise), 'td')}<td>{curve.median:.2f}</td>"
        + "".join(f"<td>{100 * curve.rates[i]:.1f}%</td>" for i in shown)
        + "</tr>"
        for curve in curves
    )
    return (
        f'<div class="scroll"><table><thead><tr>{first}{middle}{over}</tr><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
