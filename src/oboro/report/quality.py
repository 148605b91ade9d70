"""The quality of synthetic records as one page: real beside synthetic. Internal: it shows real data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oboro.records import Facts
from oboro.release import Certificate
from oboro.report import promise
from oboro.report.page import INTERNAL, Words, both, escape, label, named, render, say, write_page

if TYPE_CHECKING:
    from oboro.arrays import Floats
    from oboro.synth import Quality
    from oboro.synth.codes import Compared

WORDS = {
    "title": both("Quality of synthetic data"),
    "one": both("distance of a column, on average (0 is best, 1 worst)"),
    "two": both("distance of a pair of columns, on average"),
    "correlation": both("error of a correlation, on average"),
    "auc": both("AUC for {target}: trained on synthetic, tested on real ({real} if trained on real)"),
    "copies": both("of synthetic rows equal a real row ({real} among real rows)"),
    "columns": both("Each column"),
    "columns_note": both(
        "Shares of rows. Numbers are shown in bins that hold about equally many real rows, texts by how frequent they are. "
        "The distance is the share of rows that would have to change."
    ),
    "distance": both("distance {value}"),
    "most": both("highest bar: {share}"),
    "shares": both("{name}: shares of rows, real and synthetic"),
    "told": Words.same("{label}: {real} → {made}"),
    "missing": both("missing"),
    "others": both("others"),
    "real": both("real"),
    "made": both("synthetic"),
    "pairs": both("Two columns at a time: distance"),
    "worst": both("What came out worst"),
    "worst_note": both(
        "The columns that go together least as in the real table, and those whose numbers are most off. Triples are compared in at most five bins a column. What is most beyond what chance alone would make comes first."
    ),
    "worst_distance": both("distance"),
    "beyond": both("beyond chance"),
    "worst_numbers": both("numbers"),
    "worst_mean": both("mean"),
    "worst_spread": both("standard deviation"),
    "above": both("rows above {value}"),
    "below": both("rows below {value}"),
    "worst_pairs": both("pairs"),
    "worst_triples": both("triples"),
    "worst_labels": both("columns of many labels, each by itself"),
    "or_more": both("{value} or more"),
    "or_beyond": both("{value} or beyond"),
    "correlations": both("Correlations"),
    "real_correlation": both("real"),
    "made_correlation": both("synthetic"),
    "difference": both("difference"),
    "near": both("Distance to the nearest real row"),
    "farther": both("{value} or farther"),
    "near_note": both(
        "Synthetic rows should not come closer to real rows than real rows come to one another. This is a check on sight, not a guarantee: the guarantee is the promise below."
    ),
    "unpromised": both(
        "These records name no release, and no model was given with them, so this page makes no promise about them (--model)."
    ),
    "changed": both(
        "These records are not those that the model of their mark draws, so this page makes no promise about them."
    ),
    "proved": both(
        "That the records came from this release is proved by oboro synth check, not by this page."
    ),
    "spent": both("The privacy spent"),
}

LARGER = (
    1.3  # than its own units a picture of squares is shown, so that names are as large as other small words
)
THIRD, HALF = (
    365,
    555,
)  # how wide a picture may be, so that three or two of them stand side by side without losing much


def write_quality(
    quality: Quality, path: str | Path, *, certificate: Certificate | None = None, language: str | None = None
) -> None:
    """Writes the page. It is marked as internal on every screen and on paper.

    The promise on it is that of `certificate`, or else of the release that the records or their model name.
    """
    certificate = certificate or quality.certificate
    record = {} if certificate is None else certificate.record
    page = render(
        title=promise.title(record) or WORDS["title"],
        subtitle=(say(WORDS["title"], "span", 'class="chip"') + promise.chip(record)) if record else "",
        body=_body(quality, record),
        language=language,
        internal=INTERNAL["records"],
    )
    write_page(Path(path), page)


def _body(quality: Quality, record: Facts) -> str:
    columns = "".join(
        _column(column, distance) for column, distance in zip(quality.columns, quality.one_way, strict=True)
    )
    items = (("real", "s6 area"), ("made", "s1 outline"))
    key = "".join(say(WORDS[word], "li", f'class="{look}"') for word, look in items)
    key = f'<ul class="series-key">{key}</ul>'
    cautions = "".join(say(Words.sentence(caution), "p") for caution in quality.cautions)
    names = [column.name for column in quality.columns]
    change = quality.synthetic_correlation - quality.correlation
    pairs = f'<section class="card">{say(WORDS["pairs"], "h2")}{_squares(WORDS["pairs"], names, quality.two_way, 0.3)}</section>'
    wide, beside = (f"{pairs}\n", "") if _room(names) > HALF else ("", f"{pairs}\n")
    promised = (
        promise.promise(record, WORDS["proved"])
        if record
        else f'<section class="card promise">{say(WORDS["spent"], "h2")}{say(WORDS["changed" if quality.changed else "unpromised"], "p")}</section>'
    )
    return f"""<main class="sheet">
<section class="card">{say(Words.sentence(quality.verdict), "p", 'class="lead"')}{cautions}<div class="figures">{_figures(quality)}</div></section>
{_worst(quality)}
<section class="card">{say(WORDS["columns"], "h2")}{say(WORDS["columns_note"], "p")}{key}<div class="columns">{columns}</div></section>
{wide}<div class="side">
{beside}<div class="stack"><section class="card">{say(WORDS["near"], "h2")}{say(WORDS["near_note"], "p")}{key}{_nearness(quality)}</section>
{promised}</div>
</div>
{_correlations(quality, change)}
</main>"""


def _worst(quality: Quality) -> str:
    """The pairs and triples that differ most, by name, columns of many labels, and the columns whose mean, standard deviation and ends do."""
    parts = []
    for word, found in (
        ("worst_pairs", quality.worst_pairs),
        ("worst_triples", quality.worst_triples),
        ("worst_labels", quality.worst_labels),
    ):
        rows = [
            (named(" × ".join(worst.names)), f"{worst.distance:.3f}", f"{worst.beyond:.3f}")
            for worst in found
        ]
        parts += _table(WORDS[word], WORDS["worst_distance"], WORDS["beyond"], rows)
    numbers: list[tuple[str, str, str]] = [
        (
            f"{named(moved.name)} {say(WORDS[word], attributes='class=quiet')}",
            escape(moved.shown[0]),
            escape(moved.shown[1]),
        )
        for word, moved in (("worst_mean", quality.worst_mean), ("worst_spread", quality.worst_spread))
        if moved is not None
    ]
    for ended in (quality.worst_end, quality.worst_far_end):
        if ended is not None:
            beyond = WORDS["above" if ended.highest else "below"].fill(value=ended.value)
            shown = f"{named(ended.name)} {say(beyond, attributes='class=quiet')}"
            numbers.append((shown, f"{ended.real:.2%}", f"{ended.synthetic:.2%}"))
    parts += _table(WORDS["worst_numbers"], WORDS["real"], WORDS["made"], numbers)
    if not parts:
        return ""
    return f'<section class="card">{say(WORDS["worst"], "h2")}{say(WORDS["worst_note"], "p")}<div class="three worst">{"".join(parts)}</div></section>'


def _table(title: Words, first: Words, second: Words, rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Names with two figures each, of cells that are HTML; nothing where there are none."""
    if not rows:
        return []
    head = f"<tr><th></th>{say(first, 'th')}{say(second, 'th')}</tr>"
    body = "".join(f"<tr><td>{name}</td><td>{one}</td><td>{two}</td></tr>" for name, one, two in rows)
    return [f"<div>{say(title, 'h3')}<table><thead>{head}</thead><tbody>{body}</tbody></table></div>"]


def _correlations(quality: Quality, change: Floats) -> str:
    if len(quality.correlated) < 2:
        return ""
    apart = ~np.eye(len(quality.correlated), dtype=bool)
    both = np.abs([quality.correlation[apart], quality.synthetic_correlation[apart]])
    full = 1.0 if float(np.nan_to_num(both).max()) > 0.6 else 0.5
    shown = (
        ("real_correlation", quality.correlation, full),
        ("made_correlation", quality.synthetic_correlation, full),
        ("difference", change, 0.3),
    )
    parts = "".join(
        f"<div>{say(WORDS[key], 'h3')}{_squares(WORDS[key], quality.correlated, values, full, signed=True)}</div>"
        for key, values, full in shown
    )
    wide = _room(quality.correlated)
    look = "three" if wide <= THIRD else "three two" if wide <= HALF else "stack"
    return (
        f'<section class="card">{say(WORDS["correlations"], "h2")}<div class="{look}">{parts}</div></section>'
    )


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
    labels = [_label(text, column.numeric) for text in column.labels[:-1]] + [WORDS["missing"]]
    if real[-1] == 0 and made[-1] == 0:  # nothing is missing on either side
        real, made, labels = real[:-1], made[:-1], labels[:-1]
    apart = say(WORDS["distance"].fill(value=f"{distance:.3f}"))
    head = f"<figcaption><b>{named(column.name)}</b>{apart}</figcaption>"
    return f'<figure class="bars">{head}{_bars(Words.same(column.name), labels, real, made)}</figure>'


def _label(text: str, numeric: bool) -> Words:
    """What a bin holds."""
    if numeric:
        return Words.same(text.replace("up to ", "≤ ").replace("below ", "< ").replace("above ", "> "))
    return WORDS["others"] if text == "others" else Words.same(text)


def _bars(name: Words, labels: Sequence[Words], real: Floats, made: Floats) -> str:
    """Real shares as filled bars, synthetic ones as outlines over them; below, what the first and the last are."""
    top = max(float(np.max(real, initial=0)), float(np.max(made, initial=0)), 1e-9)
    width = 100 / max(len(labels), 1)
    parts = []
    for place, text in enumerate(labels):
        shares = {"real": float(real[place]), "made": float(made[place])}
        told = WORDS["told"].fill(label=text, **{kind: f"{share:.2%}" for kind, share in shares.items()})
        parts.append(f"<g>{say(told, 'title')}")
        for kind, share in shares.items():
            height = 86 * share / top
            parts.append(
                f'<rect class="{kind}" x="{place * width + width * 0.08:.2f}" y="{92 - height:.2f}" width="{width * 0.84:.2f}" height="{height:.2f}"/>'
            )
        parts.append("</g>")
    named = label(WORDS["shares"].fill(name=name))
    picture = (
        f'<svg viewBox="0 0 100 92" preserveAspectRatio="none" role="img" {named}>{"".join(parts)}</svg>'
    )
    if len(labels) <= 3:
        return f'{picture}<div class="ends each">{"".join(say(each) for each in labels)}</div>'
    ends = _width(labels[0].en) + _width(labels[-1].en)  # long ones leave no room between them
    most = "" if ends > 153 else say(WORDS["most"].fill(share=f"{top:.0%}"), attributes='class="most"')
    return f'{picture}<div class="ends">{say(labels[0])}{most}{say(labels[-1])}</div>'


def _squares(
    described: Words, names: Sequence[str], values: Floats, full: float, *, signed: bool = False
) -> str:
    """A square for every pair: the fuller its colour, the larger the value; `full` is full colour. Names of rows stand beside the picture."""
    edge, longest, width = _size(names)
    top = int(0.87 * longest) + 14  # names above the columns lean to the right
    height, middle = top + len(names) * edge + 4, edge // 2 + 3
    parts = []
    for i, name in enumerate(names):
        parts.append(
            f'<text transform="translate({i * edge + middle} {top - 5}) rotate(-60)">{escape(name)}</text>'
        )
        for j, other in enumerate(names):
            if i == j:
                continue
            value = float(values[i, j])
            if np.isnan(value):  # cannot be computed
                continue
            told = escape(f"{name}, {other}: {value:.3f}")
            place = f'x="{j * edge}" y="{top + i * edge}" width="{edge}" height="{edge}"'
            kind = "plus" if value >= 0 else "minus"
            parts.append(
                f'<rect class="{kind}" {place} fill-opacity="{min(1.0, abs(value) / full):.3f}"><title>{told}</title></rect><rect class="cell" {place} pointer-events="none"/>'
            )
    # names of rows stay where they are while the squares scroll beneath them
    rows = "".join(f'<li title="{escape(name)}"><span>{named(name)}</span></li>' for name in names)
    picture = f'<svg class="squares" width="{width * LARGER:.0f}" viewBox="0 0 {width:g} {height}" role="img" {label(described)}>{"".join(parts)}</svg>'
    room = _room(names)
    wide = next(
        (look for least, look in ((1400, " widest"), (1150, " wider"), (850, " wide")) if room > least), ""
    )
    return f'<div class="scroll matrix edge{edge}{wide}"><ul aria-hidden="true">{rows}</ul>{picture}</div>{_ramp(full, signed)}'


def _size(names: Sequence[str]) -> tuple[int, float, float]:
    """How wide a square is, larger where they are few; the longest name; and the picture without the names of rows."""
    edge = max(22, min(40, 160 // max(len(names), 1)))
    longest = max(map(_width, names), default=0.0)
    return edge, longest, len(names) * edge + longest // 2 + 6


def _room(names: Sequence[str]) -> float:
    """How wide the whole is, with the names of rows."""
    _, longest, width = _size(names)
    return (width + longest + 14) * LARGER


def _width(name: str) -> float:
    """About how wide a name stands in a picture: letters beyond Latin are twice as wide."""
    return sum(10.0 if ord(letter) > 0x2E7F else 5.9 for letter in name)


def _ramp(full: float, signed: bool) -> str:
    """What the colours of squares mean."""
    steps = 6
    shades = [-k / steps for k in range(steps, 0, -1)] if signed else []
    shades += [k / steps for k in range(steps + 1)]
    parts = "".join(
        f'<rect class="{"plus" if shade >= 0 else "minus"}" x="{place}" width="1.02" height="1" fill-opacity="{abs(shade):.2f}"/>'
        for place, shade in enumerate(shades)
    )
    picture = (
        f'<svg viewBox="0 0 {len(shades)} 1" preserveAspectRatio="none" aria-hidden="true">{parts}</svg>'
    )
    least, most = f"−{full:g}" if signed else "0", Words.same(f"+{full:g}" if signed else f"{full:g}")
    beyond = WORDS["or_beyond" if signed else "or_more"].fill(value=most)
    return f'<p class="ramp"><span>{least}</span>{picture}{say(most if full == 1 else beyond)}</p>'


def _nearness(quality: Quality) -> str:
    made, real = np.asarray(quality.near.distances), np.asarray(quality.near.real_distances)
    if not made.size or not real.size:
        return ""
    edges = np.linspace(0, max(float(np.quantile(np.concatenate([made, real]), 0.99)), 1e-6), 25)
    shares = [np.histogram(np.minimum(values, edges[-1]), edges)[0] / values.size for values in (real, made)]
    labels = [Words.same(f"{low:.2f} – {high:.2f}") for low, high in pairwise(edges)]
    labels[0], labels[-1] = Words.same("0"), WORDS["farther"].fill(value=f"{edges[-2]:.2f}")
    return f'<figure class="bars tall">{_bars(WORDS["near"], labels, shares[0], shares[1])}</figure>'
