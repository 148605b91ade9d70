"""A page with a published output in its band over time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.outliers import SIZES, Detection, detections
from oboro.dynamics.plan import SignalPlan
from oboro.errors import CertificateError, ParameterError, setting
from oboro.errors import told as told_
from oboro.exact import Number, about
from oboro.release import Certificate
from oboro.report import axes, promise
from oboro.report.page import INTERNAL, Words, both, escape, label, render, say, write_page

_MOST_POINTS = 200_000  # on a page: eleven years of half hours; of more, each point is the mean of several
_AT_FIRST = 672  # samples that are shown first where there are more: a fortnight of half hours

BAND_WORDS = {
    "output": both("The published output"),
    "over_time": both("published output over time"),
    "band": both("The shaded band holds the true output at each time with probability 95%."),
    "cut": both(
        "What lies beyond the axis is drawn at its edge: under heavy tails an error is now and then very large."
    ),
    "output_of": both("{what}, in {unit}"),
    "from_to": both("{first} to {last}"),
    "reading": both("{when}: {value}{unit} (95% band {low} to {high})"),
    "steer": both("Scroll or + and − to zoom, drag or arrow keys to move, 0 for all."),
    "crowded": both(
        "Where several values fall on one point of the screen, the line is their median, and the darker shade holds all of them."
    ),
    "closer": both("Zoom in"),
    "wider": both("Zoom out"),
    "back": both("Earlier"),
    "on": both("Later"),
    "everything": both("Show all"),
    "means": both("Each point is the mean of {every} samples; its band is the widest of theirs."),
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
    start: str | None = None,
    every: str | None = None,
    measured_in: str | None = None,
) -> None:
    """The first output of a release with its 95% band. With a `truth` the page is marked as internal.

    `private=False` says that the truth is made up, and the mark says so too. `certificate` gives the name of
    the dataset and what was spent. `start` ("2026-04-01" or "2026-04-01 00:30") and `every` ("30min", "1h", "1d") give the
    samples dates, `measured_in` the unit of the output.
    """
    begin, step = _clock(start, every)
    table = published.to_arrow() if hasattr(published, "to_arrow") else published
    low, high = plan.intervals(table, 0.95)
    keep = slice(None, None, plan.system.outputs)
    t, y = table.column("t").to_numpy()[keep], table.column("y").to_numpy()[keep]
    several = -(-len(y) // _MOST_POINTS)
    low, high = low[keep], high[keep]
    bottom, top = _ends(low, high)
    cut = bool((low < bottom).any() or (high > top).any())
    true = None if truth is None else _thinned(np.array(truth, np.float64)[: len(y)], several, np.mean)
    data = {
        "y": _short(_thinned(y, several, np.mean)),
        "width": _short(_thinned((high - low) / 2, several, np.max)),
        "truth": None if true is None else _short(true),
        "bottom": bottom,
        "top": top,
        "from": int(t[0]),
        "every": several,
        "start": begin,
        "step": step,
        "unit": measured_in or "",
        "window": _AT_FIRST,
    }
    told = [BAND_WORDS["band"], *([BAND_WORDS["cut"]] if cut else [])]
    told += [BAND_WORDS["means"].fill(every=several)] if several > 1 else []
    told += [BAND_WORDS["crowded"]] if len(y) > _CROWDED else []
    record = _record(plan, certificate)
    name: Words = BAND_WORDS["output"]
    if measured_in:
        name = BAND_WORDS["output_of"].fill(what=name, unit=measured_in)
    page = render(
        title=Words.same(record["dataset"]) if "dataset" in record else BAND_WORDS["output"],
        body=f"<main class='sheet band-page'><div class='side wide'><section class='card'>{say(name, 'h2')}"
        f"{''.join(say(each, 'p') for each in told)}{_canvases()}{_band_key(truth is not None)}"
        f"<div class='figures'>{_figures(plan, len(y))}</div></section>{promise.promise(record)}</div></main>",
        subtitle=promise.chip(record),
        language=language,
        internal=None if truth is None else INTERNAL["signal" if private else "made_up"],
        styles=("band.css",),
        scripts=("band.js",),
        words=BAND_WORDS,
        data=data,
    )
    write_page(Path(path), page)


_CROWDED = 500  # values of which some share a point of a small screen
_EVERY = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def _clock(start: str | None, every: str | None) -> tuple[float | None, int]:
    """The first sample in seconds since 1970, and how far apart samples are; a time zone is not meant, and none is used."""
    found = re.fullmatch(r"(\d{1,6})(s|min|h|d)", every or "1h")
    wrong = ParameterError(
        "the dates of the samples are not understood",
        given=told_(start=repr(start), every=repr(every)),
        needed="the first date, and how far samples are apart: a whole number of s, min, h or d",
        fix=setting(start="2026-04-01T00:30", every="30min"),
    )
    if found is None or int(found[1]) == 0 or (start is None and every is not None):
        raise wrong
    if start is None:
        return None, 1
    try:
        first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        raise wrong from None
    return first.timestamp(), int(found[1]) * _EVERY[found[2]]


def _ends(low: Floats, high: Floats) -> tuple[float, float]:
    """Of the axis: it follows the middle of what is published, for one wild error must not flatten everything."""
    ordered = np.sort(np.concatenate([low, high]))
    bottom, top = float(ordered[ordered.size // 50]), float(ordered[-1 - ordered.size // 50])
    margin = 0.05 * ((top - bottom) or 1.0)
    return bottom - margin, top + margin


def _thinned(values: Floats, several: int, by: Callable[..., Any]) -> Floats:
    """One number for so many."""
    if several == 1:
        return values
    filled = np.concatenate([values, np.full(-len(values) % several, values[-1])])
    return np.asarray(by(filled.reshape(-1, several), axis=1))


def _short(values: Floats) -> list[float]:
    """To five digits: more cannot be seen."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def _canvases() -> str:
    buttons = "".join(
        f'<button type="button" id="{name}" {label(BAND_WORDS[name])}>{sign}</button>'
        for name, sign in (("back", "◂"), ("on", "▸"), ("closer", "+"), ("wider", "−"), ("everything", "⤢"))
    )
    return (
        f'<div class="plot"><canvas id="detail" tabindex="0" role="img" {label(BAND_WORDS["over_time"])}></canvas>'
        f'<canvas id="whole" aria-hidden="true"></canvas></div><p id="reading" role="status"></p>'
        f'<div class="steer">{buttons}<span id="shown"></span></div>{say(BAND_WORDS["steer"], "p", "class=quiet")}'
    )


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
    write_page(Path(path), page)
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
