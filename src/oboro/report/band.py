"""A page with a published output in its band over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oboro.dynamics.plan import SignalPlan
from oboro.exact import about
from oboro.files import write_whole
from oboro.release import Certificate
from oboro.report import axes, promise
from oboro.report.page import escape, render, say
from oboro.report.words import INTERNAL, Words

_MOST_POINTS = 600

WORDS = {
    "output": Words("The published output", "公開された出力"),
    "over_time": Words("published output over time", "公開された出力の時間変化"),
    "band": Words(
        "The shaded band holds the true output at each time with probability 95%.",
        "網掛けの帯は、各時刻の真の出力を 95% の確率で含みます。",
    ),
    "cut": Words(
        "What lies beyond the axis is drawn at its edge: under heavy tails an error is now and then very large.",
        "軸の外にある値は端に描かれています。裾の重いノイズでは、誤差がときに非常に大きくなります。",
    ),
    "time": Words("time, in samples", "時刻（標本番号）"),
    "axis": Words("output, in its own unit", "出力（その単位）"),
    "typical": Words("holds half of all errors", "誤差の半分が収まる範囲"),
    "wide": Words("holds 95% of all errors", "誤差の 95% が収まる範囲"),
    "samples": Words("samples published", "公開された標本数"),
    "published": Words("published", "公開値"),
    "true": Words("true", "真の値"),
    "interval": Words("95% band", "95% の帯"),
}


def write_band(
    path: str | Path,
    plan: SignalPlan,
    published: Any,
    *,
    truth: Sequence[float] | None = None,
    private: bool = True,
    certificate: Certificate | Mapping[str, Any] | None = None,
    language: str | None = None,
) -> None:
    """The first output of a release with its 95% band. With a `truth` the page is marked as internal.

    `private=False` says that the truth is made up, and the mark says so too. `certificate` gives the name of
    the dataset and what was spent.
    """
    table = published.to_arrow() if hasattr(published, "to_arrow") else published
    low, high = plan.intervals(table, 0.95)
    keep = slice(None, None, plan.system.outputs)
    t, y = table.column("t").to_numpy()[keep].tolist(), table.column("y").to_numpy()[keep].tolist()
    drawn, cut = _drawn(t, y, low[keep].tolist(), high[keep].tolist(), None if truth is None else list(truth))
    told = say(WORDS["band"], "p") + (say(WORDS["cut"], "p") if cut else "")
    record = _record(plan, certificate)
    page = render(
        title=Words.same(record["dataset"]) if "dataset" in record else WORDS["output"],
        body=f"<main class='sheet'><div class='side wide'><section class='card'>{say(WORDS['output'], 'h2')}{told}{drawn}"
        f"{_key(truth is not None)}<div class='figures'>{_figures(plan, len(y))}</div></section>{promise.promise(record)}</div></main>",
        subtitle=promise.chip(record),
        language=language,
        internal=None if truth is None else INTERNAL["signal" if private else "made_up"],
    )
    write_whole(Path(path), page.encode())


def _record(plan: SignalPlan, certificate: Certificate | Mapping[str, Any] | None) -> dict[str, Any]:
    """What is promised: as certified, or else by the plan."""
    own = {
        **plan.describe(),
        "unit": {**plan.unit.to_dict(), "in_words": str(plan.unit)},
        "guarantee": {**plan.guarantee.to_dict(), "in_words": str(plan.guarantee)},
    }
    signed = certificate.record if isinstance(certificate, Certificate) else certificate
    return {**own, **(signed or {})}


def _figures(plan: SignalPlan, count: int) -> str:
    """How far off the output is, by the plan alone: at a time in the middle."""
    typical, wide = (float(np.median(plan.band(level)[:, 0])) for level in (0.5, 0.95))
    shown = [
        (f"± {about(typical, 3)}", WORDS["typical"]),
        (f"± {about(wide, 3)}", WORDS["wide"]),
        (f"{count:,}", WORDS["samples"]),
    ]
    return "".join(
        f'<div><div class="figure">{escape(value)}</div>{say(words, "p")}</div>' for value, words in shown
    )


def _drawn(
    t: list[int], y: list[float], low: list[float], high: list[float], truth: list[float] | None
) -> tuple[str, bool]:
    """The chart, and whether something lies beyond its axis."""
    every = max(1, len(t) // _MOST_POINTS)
    t, y, low, high = t[::every], y[::every], low[::every], high[::every]
    truth = None if truth is None else truth[: len(t) * every : every]
    # the axis follows the middle of what is published: one wild error must not flatten everything
    ordered = sorted([*low, *high])
    bottom, top = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
    margin = 0.05 * ((top - bottom) or 1.0)
    bottom, top = bottom - margin, top + margin
    px, py = axes.across(t[0], t[-1]), axes.upwards(bottom, top)
    parts = [
        axes.rule(py(value), f"{value:.6g}".replace("-", "−")) for value in axes.round_ticks(bottom, top, 6)
    ]
    times = [time for time in axes.round_ticks(t[0], t[-1], 8) if time == int(time)]
    parts += [axes.tick(px(time), f"{time:g}", minor=place % 2 == 1) for place, time in enumerate(times)]
    around = [*zip(t, high, strict=True), *reversed(list(zip(t, low, strict=True)))]
    outline = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in around)
    across = [px(a) for a in t]
    line = axes.polyline(across, [py(b) for b in y], WORDS["published"])
    parts.append(f'<g class="series s0"><polygon class="band" points="{outline}"/>{line}</g>')
    if truth is not None:
        dark = axes.polyline(across[: len(truth)], [py(b) for b in truth], WORDS["true"])
        parts.append(f'<g class="series truth">{dark}</g>')
    beyond = any(not bottom <= value <= top for value in (*y, *low, *high))
    return axes.chart(WORDS["over_time"], parts, below=WORDS["time"], beside=WORDS["axis"]), beyond


def _key(truth: bool) -> str:
    items = [("s0", "published"), ("s0 area", "interval"), *([("truth", "true")] if truth else [])]
    return (
        '<ul class="series-key">'
        + "".join(say(WORDS[word], "li", f'class="{look}"') for look, word in items)
        + "</ul>"
    )
