"""The quality of synthetic records as one page: real beside synthetic. Internal: it shows real data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.release import Certificate
from oboro.release.files import write_whole
from oboro.report import promise
from oboro.report.page import escape, render, say
from oboro.report.words import Words

if TYPE_CHECKING:
    from oboro.synth import Quality
    from oboro.synth.reading import Compared

WORDS = {
    "title": Words("Quality of synthetic data", "合成データの品質"),
    "one": Words("one-way distance, mean", "1 次元距離（平均）"),
    "two": Words("two-way distance, mean", "2 次元距離（平均）"),
    "correlation": Words("correlation error, mean", "相関の誤差（平均）"),
    "auc": Words(
        "AUC for {target}: trained on synthetic, tested on real ({real} if trained on real)",
        "{target} の AUC：合成データで学習し実データで評価（実データ学習では {real}）",
    ),
    "copies": Words(
        "of synthetic rows equal a real row ({real} among real rows)",
        "の合成行が実在の行と一致（実データどうしでは {real}）",
    ),
    "columns": Words("Each column", "各列"),
    "columns_note": Words(
        "Numbers are shown in bins that hold about equally many real rows. The distance is the share of rows that would have to change.",
        "数値は、実データの行数がほぼ等しくなる区間で示します。距離は、一致させるために変える必要がある行の割合です。",
    ),
    "real": Words("real", "実データ"),
    "made": Words("synthetic", "合成データ"),
    "pairs": Words("Two columns at a time: distance", "2 列ずつの距離"),
    "correlations": Words("Correlations", "相関"),
    "real_correlation": Words("real", "実データ"),
    "made_correlation": Words("synthetic", "合成データ"),
    "difference": Words("difference", "差"),
    "near": Words("Distance to the nearest real row", "最も近い実データの行までの距離"),
    "near_note": Words(
        "Synthetic rows should not come closer to real rows than real rows come to one another. This is a check on sight, not a guarantee: the guarantee is the promise below.",
        "合成行が、実データの行どうしよりも実データに近づくことは望ましくありません。これは目安であって保証ではありません。保証は下の約束です。",
    ),
    "unpromised": Words(
        "No model was given with these records, so this page makes no promise about them (--model).",
        "モデルが添えられていないため、このページは何も約束しません（--model）。",
    ),
    "spent": Words("The privacy spent", "使われたプライバシー"),
}


def write_quality(
    quality: Quality, path: str | Path, *, certificate: Certificate | None = None, language: str | None = None
) -> None:
    """Writes the page. It is marked as internal on every screen and on paper."""
    record = {} if certificate is None else certificate.record
    page = render(
        title=WORDS["title"],
        subtitle=promise.chip(record) if record else "",
        body=_body(quality, record),
        language=language,
        internal=True,
        styles=("quality.css",),
    )
    write_whole(Path(path), page.encode("utf-8"))


def _body(quality: Quality, record: Any) -> str:
    columns = "".join(
        _column(column, distance) for column, distance in zip(quality.columns, quality.one_way, strict=True)
    )
    key = f'<ul class="key">{say(WORDS["real"], "li", "class=real")}{say(WORDS["made"], "li", "class=made")}</ul>'
    names = [column.name for column in quality.columns]
    change = quality.synthetic_correlation - quality.correlation
    promised = (
        promise.promise(record)
        if record
        else f'<section class="card promise">{say(WORDS["spent"], "h2")}{say(WORDS["unpromised"], "p")}</section>'
    )
    return f"""<main class="quality">
<section class="card">{say(Words.sentence(quality.verdict), "p", 'class="verdict"')}<div class="figures">{_figures(quality)}</div></section>
<section class="card">{say(WORDS["columns"], "h2")}{say(WORDS["columns_note"], "p")}{key}<div class="columns">{columns}</div></section>
<div class="side">
<section class="card">{say(WORDS["pairs"], "h2")}{_squares(names, quality.two_way, 0.3)}</section>
<section class="card">{say(WORDS["near"], "h2")}{say(WORDS["near_note"], "p")}{_nearness(quality)}{key}</section>
</div>
<section class="card">{say(WORDS["correlations"], "h2")}<div class="three">
<div>{say(WORDS["real_correlation"], "h3")}{_squares(quality.correlated, quality.correlation, 1.0)}</div>
<div>{say(WORDS["made_correlation"], "h3")}{_squares(quality.correlated, quality.synthetic_correlation, 1.0)}</div>
<div>{say(WORDS["difference"], "h3")}{_squares(quality.correlated, change, 0.3)}</div>
</div></section>
{promised}
</main>"""


def _figures(quality: Quality) -> str:
    shown = [
        (f"{quality.mean_one_way:.3f}", WORDS["one"]),
        (f"{quality.mean_two_way:.3f}", WORDS["two"]),
        (f"{quality.correlation_error:.3f}", WORDS["correlation"]),
        (f"{quality.near.copies:.1%}", WORDS["copies"].fill(real=f"{quality.near.real_copies:.1%}")),
    ]
    if quality.useful is not None:
        useful = quality.useful
        shown.insert(
            3, (f"{useful.synthetic:.3f}", WORDS["auc"].fill(target=useful.target, real=f"{useful.real:.3f}"))
        )
    return "".join(
        f'<div><div class="figure">{escape(value)}</div>{say(words, "p")}</div>' for value, words in shown
    )


def _column(column: Compared, distance: float) -> str:
    real = np.bincount(column.real_bins, minlength=column.size) / max(column.real_bins.size, 1)
    made = np.bincount(column.synthetic_bins, minlength=column.size) / max(column.synthetic_bins.size, 1)
    labels = list(column.labels)
    if real[-1] == 0 and made[-1] == 0:  # nothing is missing on either side
        real, made, labels = real[:-1], made[:-1], labels[:-1]
    told = [f"{label}: {a:.2%}, {b:.2%}" for label, a, b in zip(labels, real, made, strict=True)]
    return f"<figure><figcaption><b>{escape(column.name)}</b><span>{distance:.3f}</span></figcaption>{_bars(real, made, told)}</figure>"


def _bars(real: Any, made: Any, told: Sequence[str]) -> str:
    """Real shares as filled bars, synthetic ones as outlines over them."""
    top = max(float(np.max(real, initial=0)), float(np.max(made, initial=0)), 1e-9)
    width = 100 / max(len(told), 1)
    parts = []
    for place, text in enumerate(told):
        heights = (88 * float(real[place]) / top, 88 * float(made[place]) / top)
        parts.append(f"<g><title>{escape(text)}</title>")
        for kind, height in zip(("real", "made"), heights, strict=True):
            parts.append(
                f'<rect class="{kind}" x="{place * width + width * 0.08:.2f}" y="{92 - height:.2f}" width="{width * 0.84:.2f}" height="{height:.2f}"/>'
            )
        parts.append("</g>")
    return (
        f'<svg class="bars" viewBox="0 0 100 92" preserveAspectRatio="none" role="img">{"".join(parts)}</svg>'
    )


def _squares(names: Sequence[str], values: Any, full: float) -> str:
    """A square for every pair: the fuller its colour, the larger the value; `full` is full colour."""
    count, edge, margin = len(names), 22, 92
    size = margin + count * edge
    parts = []
    for i, name in enumerate(names):
        short = name if len(name) <= 16 else name[:15] + "…"
        parts.append(
            f'<text x="{margin - 4}" y="{margin + i * edge + 14}" text-anchor="end">{escape(short)}</text>'
        )
        parts.append(
            f'<text transform="translate({margin + i * edge + 14} {margin - 4}) rotate(-60)">{escape(short)}</text>'
        )
        for j, other in enumerate(names):
            if i == j:
                continue
            value = float(values[i, j])
            told = escape(f"{name}, {other}: {value:.3f}")
            place = f'x="{margin + j * edge}" y="{margin + i * edge}" width="{edge}" height="{edge}"'
            kind = "plus" if value >= 0 else "minus"
            parts.append(
                f'<rect class="{kind}" {place} fill-opacity="{min(1.0, abs(value) / full):.3f}"><title>{told}</title></rect><rect class="cell" {place} pointer-events="none"/>'
            )
    return f'<svg class="squares" viewBox="0 0 {size + 30} {size + 4}" role="img">{"".join(parts)}</svg>'


def _nearness(quality: Quality) -> str:
    made, real = np.asarray(quality.near.distances), np.asarray(quality.near.real_distances)
    if not made.size or not real.size:
        return ""
    edges = np.linspace(0, max(float(np.quantile(np.concatenate([made, real]), 0.99)), 1e-6), 25)
    shares = [np.histogram(np.minimum(values, edges[-1]), edges)[0] / values.size for values in (real, made)]
    told = [
        f"{low:.3f} to {high:.3f}: {a:.1%}, {b:.1%}"
        for low, high, a, b in zip(edges[:-1], edges[1:], shares[0], shares[1], strict=True)
    ]
    return _bars(shares[0], shares[1], told)
