"""A page with a published output in its band over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oboro.dynamics.outliers import SIZES, Detection, detections
from oboro.dynamics.plan import SignalPlan
from oboro.errors import CertificateError
from oboro.exact import Number, about
from oboro.files import write_whole
from oboro.release import Certificate
from oboro.report import axes, promise
from oboro.report.page import INTERNAL, Words, both, escape, render, say

_MOST_POINTS = 600

BAND_WORDS = {
    "output": both("The published output"),
    "over_time": both("published output over time"),
    "band": both("The shaded band holds the true output at each time with probability 95%."),
    "cut": both(
        "What lies beyond the axis is drawn at its edge: under heavy tails an error is now and then very large."
    ),
    "time": both("time, in samples"),
    "axis": both("output, in its own unit"),
    "typical": both("holds half of all errors"),
    "wide": both("holds 95% of all errors"),
    "samples": both("samples published"),
    "published": both("published"),
    "true": both("true"),
    "interval": both("95% band"),
}


def write_band(
    path: str | Path,
    plan: SignalPlan,
    published: Any,
    *,
    truth: Sequence[float] | None = None,
    private: bool = True,
    certificate: Certificate | Mapping[str, object] | None = None,
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
    told = say(BAND_WORDS["band"], "p") + (say(BAND_WORDS["cut"], "p") if cut else "")
    record = _record(plan, certificate)
    page = render(
        title=Words.same(record["dataset"]) if "dataset" in record else BAND_WORDS["output"],
        body=f"<main class='sheet'><div class='side wide'><section class='card'>{say(BAND_WORDS['output'], 'h2')}{told}{drawn}"
        f"{_band_key(truth is not None)}<div class='figures'>{_figures(plan, len(y))}</div></section>{promise.promise(record)}</div></main>",
        subtitle=promise.chip(record),
        language=language,
        internal=None if truth is None else INTERNAL["signal" if private else "made_up"],
    )
    write_whole(Path(path), page.encode())


def _record(plan: SignalPlan, certificate: Certificate | Mapping[str, object] | None) -> dict[str, object]:
    """What is promised: as certified, or else by the plan."""
    own = {
        **plan.describe(),
        "unit": {**plan.unit.to_dict(), "in_words": str(plan.unit)},
        "guarantee": {**plan.guarantee.to_dict(), "in_words": str(plan.guarantee)},
    }
    signed = certificate.record if isinstance(certificate, Certificate) else certificate
    if signed and any(signed.get(part) != own[part] for part in ("unit", "guarantee")):
        raise CertificateError(
            "the certificate is that of another release",
            given=f"a certificate of {signed.get('released', 'something else')}",
            needed="the certificate that was written beside the signal",
        )
    return {**own, **(signed or {})}


def _figures(plan: SignalPlan, count: int) -> str:
    """How far off the output is, by the plan alone: at a time in the middle."""
    typical, wide = (float(np.median(plan.band(level)[:, 0])) for level in (0.5, 0.95))
    shown = [
        (f"± {about(typical, 3)}", BAND_WORDS["typical"]),
        (f"± {about(wide, 3)}", BAND_WORDS["wide"]),
        (f"{count:,}", BAND_WORDS["samples"]),
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
    line = axes.polyline(across, [py(b) for b in y], BAND_WORDS["published"])
    parts.append(f'<g class="series s0"><polygon class="band" points="{outline}"/>{line}</g>')
    if truth is not None:
        dark = axes.polyline(across[: len(truth)], [py(b) for b in truth], BAND_WORDS["true"])
        parts.append(f'<g class="series truth">{dark}</g>')
    beyond = any(not bottom <= value <= top for value in (*y, *low, *high))
    return axes.chart(
        BAND_WORDS["over_time"], parts, below=BAND_WORDS["time"], beside=BAND_WORDS["axis"]
    ), beyond


def _band_key(truth: bool) -> str:
    items = [("s0", "published"), ("s0 area", "interval"), *([("truth", "true")] if truth else [])]
    return (
        '<ul class="series-key">'
        + "".join(say(BAND_WORDS[word], "li", f'class="{look}"') for look, word in items)
        + "</ul>"
    )


# A page about noise on systems: how well an outlier hides.

OUTLIER_WORDS = {
    "found": both("How often an outlier is found"),
    "equal": both("At equal privacy"),
    "median": both("At equal median noise"),
    "how": both(
        "The most powerful test for an outlier of known size in one number, at {alarm}% false alarms. Lower hides better."
    ),
    "part": both(
        "Part of what heavy tails hide is simply more noise; here every noise has the same median size, {median}."
    ),
    "shared": both(
        "“One A, long record” is the noise of the paper's Theorem 1: whoever sees the whole record learns its scale, and a single outlier "
        "stands out again. Independent noise at every time is the outlier mode."
    ),
    "size": both("size of the outlier, in units of the distance"),
    "rate": both("how often it is found"),
    "noise": both("noise"),
    "middle": both("median of |noise|"),
    "sizes": both("found, by the size of the outlier"),
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
        ("equal", equal, OUTLIER_WORDS["how"].fill(alarm=1)),
        ("median", same, OUTLIER_WORDS["part"].fill(median=about(median))),
    ):
        drawn = rates(curves) + _outlier_key(curves) + _table(curves)
        body += f"<section class='card'>{say(OUTLIER_WORDS[title], 'h2')}{say(told, 'p')}{drawn}</section>"
    body += f"<section class='card'>{say(OUTLIER_WORDS['shared'], 'p')}</section></main>"
    page = render(
        title=OUTLIER_WORDS["found"],
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
    return axes.chart(
        OUTLIER_WORDS["found"], parts, below=OUTLIER_WORDS["size"], beside=OUTLIER_WORDS["rate"]
    )


def _look(curve: Detection) -> str:
    """A colour for each law; the same with dashes where one A is shared."""
    law = curve.noise.partition(",")[0]
    colour = {"Gaussian": 0, "Laplace (pure eps)": 1, "stable 1.5": 2, "stable 1": 5}.get(law, 3)
    return f"s{colour}" + (" dashed" if "one A" in curve.noise else "")


def _outlier_key(curves: Sequence[Detection]) -> str:
    items = "".join(say(Words.sentence(curve.noise), "li", f'class="{_look(curve)}"') for curve in curves)
    return f'<ul class="series-key">{items}</ul>'


def _table(curves: Sequence[Detection]) -> str:
    shown = [i for i, size in enumerate(curves[0].sizes) if size in SIZES]
    first, middle = (say(OUTLIER_WORDS[word], "th", 'rowspan="2"') for word in ("noise", "middle"))
    over = say(OUTLIER_WORDS["sizes"], "th", f'colspan="{len(shown)}"')
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
