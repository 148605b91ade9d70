"""Two pages about systems: how well an outlier hides, and a published output in its band over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oboro.dynamics.outliers import Detection, detections
from oboro.dynamics.signal_plan import SignalPlan
from oboro.exact import Number, about
from oboro.release.files import write_whole
from oboro.report.page import escape, render, say
from oboro.report.words import Words

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 52, 14, 14, 40

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
    "output": Words("The published output", "公開された出力"),
    "band": Words(
        "The shaded band holds the true output at each time with probability 95%.",
        "網掛けの帯は、各時刻の真の出力を 95% の確率で含みます。",
    ),
    "truth": Words("The dark line is the true output.", "濃い線は真の出力です。"),
    "promise": Words("The promise", "約束"),
}


def write_outliers(
    path: str | Path, *, eps: Number, delta: Number, language: str | None = None
) -> tuple[Detection, ...]:
    """Writes the page and returns the curves at equal (eps, delta)."""
    sizes = [round(10 ** (k / 8), 3) for k in range(21)]
    equal = detections(eps=eps, delta=delta, sizes=sizes)
    median = equal[0].median
    same = detections(eps=eps, delta=delta, sizes=sizes, median=median)
    body = "<main class='sheets'>"
    for title, curves, told in (
        ("equal", equal, WORDS["how"].fill(alarm=1)),
        ("median", same, WORDS["part"].fill(median=about(median))),
    ):
        axis = say(WORDS["size"], "p", 'class="axis"')
        chart = rates(curves) + axis + _key(curves) + _table(curves)
        body += f"<section class='card'>{say(WORDS[title], 'h2')}{say(told, 'p')}{chart}</section>"
    body += f"<section class='card'>{say(WORDS['shared'], 'p')}</section></main>"
    page = render(
        title=WORDS["found"].en,
        subtitle=f"<span class='chip'>eps = {escape(eps)}, delta = {escape(delta)}</span>",
        body=body,
        language=language,
        styles=("sheets.css",),
    )
    write_whole(Path(path), page.encode())
    return equal


def write_band(
    path: str | Path,
    plan: SignalPlan,
    published: Any,
    *,
    truth: Sequence[float] | None = None,
    private: bool = True,
    language: str | None = None,
) -> None:
    """The first output of a release with its 95% band. With a `truth` that is `private` the page is marked as internal."""
    table = published.to_arrow() if hasattr(published, "to_arrow") else published
    low, high = plan.intervals(table, 0.95)
    keep = slice(None, None, plan.system.outputs)
    t, y = table.column("t").to_numpy()[keep].tolist(), table.column("y").to_numpy()[keep].tolist()
    chart = _band(t, y, low[keep].tolist(), high[keep].tolist(), list(truth) if truth is not None else None)
    told = say(WORDS["band"], "p") + (say(WORDS["truth"], "p") if truth is not None else "")
    promise = f"<section class='card'>{say(WORDS['promise'], 'h2')}<p>{escape(plan.guarantee)}; {escape(plan.unit)}</p></section>"
    page = render(
        title=WORDS["output"].en,
        body=f"<main class='sheets'><section class='card'>{say(WORDS['output'], 'h2')}{told}{chart}</section>{promise}</main>",
        subtitle=f"<span class='chip'>{escape(plan.guarantee)}</span>",
        language=language,
        internal=truth is not None and private,
        styles=("sheets.css",),
    )
    write_whole(Path(path), page.encode())


def rates(curves: Sequence[Detection]) -> str:
    """Detection rates against the size of the outlier, on a logarithmic axis."""
    first, last = math.log10(curves[0].sizes[0]), math.log10(curves[0].sizes[-1])

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(rate: float) -> float:
        return HEIGHT - BOTTOM - rate * (HEIGHT - TOP - BOTTOM)

    parts = [_open("detection rates")]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_rule(y(tick), f"{100 * tick:g}%"))
    for size in (1, 2, 5, 10, 20, 50, 100, 200):
        if first <= math.log10(size) <= last + 1e-9:
            parts.append(
                f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size}</text>'
            )
    for number, curve in enumerate(curves):
        points = " ".join(f"{x(s):.1f},{y(r):.1f}" for s, r in zip(curve.sizes, curve.rates, strict=True))
        parts.append(
            f'<g class="series s{number % 7}"><polyline points="{points}"><title>{escape(curve.noise)}</title></polyline></g>'
        )
    return "".join([*parts, "</svg>"])


def _band(
    t: list[int], y: list[float], low: list[float], high: list[float], truth: list[float] | None
) -> str:
    every = max(1, len(t) // 600)  # so many points fit on a page
    t, y, low, high = t[::every], y[::every], low[::every], high[::every]
    truth = None if truth is None else truth[: len(t) * every : every]
    # the axis follows the middle of what is published: one wild error must not flatten everything
    ordered = sorted([*low, *high])
    bottom, top = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
    span = (top - bottom) or 1.0
    bottom, top = bottom - 0.05 * span, top + 0.05 * span

    def px(time: float) -> float:
        return LEFT + (time - t[0]) / max(t[-1] - t[0], 1) * (WIDTH - LEFT - RIGHT)

    def py(value: float) -> float:
        share = (min(max(value, bottom), top) - bottom) / (top - bottom)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [_open("published output over time")]
    for k in range(5):
        value = bottom + (top - bottom) * k / 4
        parts.append(_rule(py(value), about(value, 3)))
    for k in range(5):
        time = t[0] + (t[-1] - t[0]) * k // 4
        parts.append(
            f'<text x="{px(time):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{time}</text>'
        )
    around = [*zip(t, high, strict=True), *reversed(list(zip(t, low, strict=True)))]
    outline = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in around)
    parts.append(f'<g class="series s0"><polygon class="band" points="{outline}"/>{_path(t, y, px, py)}</g>')
    if truth is not None:
        parts.append(f'<g class="series s6">{_path(t[: len(truth)], truth, px, py)}</g>')
    return "".join([*parts, "</svg>"])


def _path(t: list[int], values: list[float], px: Any, py: Any) -> str:
    points = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in zip(t, values, strict=True))
    return f'<polyline points="{points}"/>'


def _open(describe: str) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(describe)}">'


def _rule(y: float, text: str) -> str:
    line = f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'


def _key(curves: Sequence[Detection]) -> str:
    items = "".join(
        f'<li class="s{number % 7}">{escape(curve.noise)}</li>' for number, curve in enumerate(curves)
    )
    return f'<ul class="series-key">{items}</ul>'


def _table(curves: Sequence[Detection]) -> str:
    shown = [i for i, size in enumerate(curves[0].sizes) if i % 4 == 0]
    head = "<th></th><th>median</th>" + "".join(f"<th>{about(curves[0].sizes[i], 3)}</th>" for i in shown)
    rows = "".join(
        f"<tr><td>{escape(curve.noise)}</td><td>{about(curve.median, 3)}</td>"
        + "".join(f"<td>{100 * curve.rates[i]:.1f}%</td>" for i in shown)
        + "</tr>"
        for curve in curves
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
