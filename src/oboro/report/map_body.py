"""The body of the map page: everything on it but the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.errors import ParameterError
from oboro.exact import rational
from oboro.report import chart, promise
from oboro.report.cells import Cells, Layers, sum_blocks
from oboro.report.page import escape, label, say
from oboro.report.place import Place, Window
from oboro.report.words import MAP, PROMISE, Words


@dataclass(frozen=True, slots=True)
class Shown:
    """One table on the page."""

    role: str  # "published", "true" or "release"
    label: str
    cells: Cells

    @property
    def name(self) -> str:
        """The label, which mostly is the eps of a release."""
        try:
            rational("eps", self.label)
        except ParameterError:
            return self.label
        return f"eps = {self.label}"


def map_body(
    shown: Sequence[Shown],
    place: Place,
    layers: Layers,
    window: Window,
    sources: Sequence[Sequence[Mapping[str, Any]]],
    sides: Sequence[int],
    record: Mapping[str, Any],
    internal: bool,
) -> str:
    """Controls, canvases and legend on one side; total, promise, error and notes on the other."""
    panes = (
        _pane(MAP["true"], "true", 0) + _pane(MAP["after"], "after", 1)
        if internal
        else _pane(None, "published", 0)
    )
    cards = [_total_card(), _figures_card(shown, window, sides) if internal else ""]
    if record:
        cards += [
            promise.promise(record),
            promise.error_by_area(record.get("forecast") or {}),
            promise.verify(record),
        ]
    else:
        cards.append(
            f'<section class="card promise">{say(PROMISE["promise"], "h2")}{say(PROMISE["uncertified"], "p")}</section>'
        )
    cards.append(_notes_card(place, layers, window, sources))
    return f"""<main class="map-page{" two" if internal else ""}">
<section class="stage" aria-labelledby="map-name">
<h2 id="map-name" class="spoken">{say(MAP["map"])}</h2>
<div class="controls">
{_category_controls(layers)}<label class="control level">{say(MAP["block"])}<span class="slider"><input type="range" id="level" min="0" max="{len(sides) - 1}" value="0"><output id="level-name" for="level"></output></span></label>
{_release_controls(shown) if internal else ""}<form class="control find" id="find">{say(MAP["find"], "label", 'for="wanted"')}<span class="slider"><input type="text" id="wanted" inputmode="text" autocomplete="off" spellcheck="false"><button type="submit">{say(MAP["go"])}</button></span></form>
</div>
<div class="panes" id="panes">
{panes}
<div class="zoom"><button type="button" id="zoom-in" {label(MAP["zoom_in"])}>+</button><button type="button" id="zoom-out" {label(MAP["zoom_out"])}>−</button><button type="button" id="fit" {label(MAP["fit"])}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5" fill="none" stroke="currentColor" stroke-width="2"/></svg></button>{"" if internal else f'<button type="button" id="picture" {label(MAP["picture"])}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 4v11m0 0-4.5-4.5M12 15l4.5-4.5M5 19.5h14" fill="none" stroke="currentColor" stroke-width="2"/></svg></button>'}</div>
<div id="tip" class="tip" hidden></div>
</div>
<div class="under"><div class="legend" id="legend"></div><p id="reading" class="reading" role="status" aria-live="polite"></p></div>
{say(MAP["keys"], "p", 'class="spoken" id="keys"')}
</section>
<aside class="cards">{"".join(cards)}</aside>
</main>"""


def _pane(caption: Words | None, role: str, number: int) -> str:
    named = say(caption, "figcaption", f'id="caption-{number}"') if caption else ""
    return f'<figure class="pane {role}">{named}<div class="view"><canvas tabindex="0" role="application" aria-describedby="keys" {label(caption or MAP["map"])}></canvas></div></figure>'


def _category_controls(layers: Layers) -> str:
    parts = []
    for number, column in enumerate(layers.labels()):
        options = "".join(
            f'<option value="{code}">{escape(value)}</option>' for code, value in enumerate(column["values"])
        )
        everything = say(MAP["all"], "option", 'value="-1" selected')
        parts.append(
            f'<label class="control"><span>{escape(column["name"])}</span>'
            f'<select class="category" data-column="{number}">{everything}{options}</select></label>\n'
        )
    return "".join(parts)


def _release_controls(shown: Sequence[Shown]) -> str:
    start = next(number for number, each in enumerate(shown) if each.role == "published")
    alone = " hidden" if len(shown) == 2 else ""
    return f"""<label class="control eps"{alone}><span>eps</span><span class="slider"><input type="range" id="release" min="1" max="{len(shown) - 1}" value="{start}"><output id="release-name" for="release"></output></span></label>
<label class="control">{say(MAP["show"])}<select id="side-by-side">{say(MAP["after"], "option", 'value="after"')}{say(MAP["difference"], "option", 'value="difference"')}</select></label>
"""


def _total_card() -> str:
    return f'<section class="card total">{say(MAP["total"], "h2")}<p class="figure" id="total"></p><p class="quiet" id="filled"></p></section>'


def _figures_card(shown: Sequence[Shown], window: Window, sides: Sequence[int]) -> str:
    """Measured error: of the present choice by the script, and by block size for all releases as a chart."""
    rows = "".join(
        f'{say(MAP[key], "dt")}<dd id="figure-{key}"></dd>'
        for key in ("rmse", "mean_abs", "largest", "total_error")
    )
    true, *releases = shown
    drawn = [side for side in sides if window.at(side).rows * window.at(side).cols >= 4] or list(sides[:1])
    errors = {
        each.label or MAP["published"].en: [_rmse(true.cells, each.cells, window, side) for side in drawn]
        for each in releases
    }
    picture = chart.lines(
        [str(side) for side in drawn],
        errors,
        describe=MAP["by_block"],
        below=MAP["block_side"],
        beside=MAP["rmse_axis"],
    )
    key = "".join(
        say(
            Words.same(each.name) if each.label else MAP["published"],
            "li",
            f'class="s{number % 7}" data-release="{number + 1}"',
        )
        for number, each in enumerate(releases)
    )
    return (
        f'<section class="card measured">{say(MAP["figures"], "h2")}<p class="quiet" id="figures-at"></p><dl class="facts numbers">{rows}</dl>'
        f'{picture}<ul class="series-key">{key}</ul></section>'
    )


def _rmse(true: Cells, released: Cells, window: Window, side: int) -> float:
    part = window.at(side)
    difference = np.zeros(part.rows * part.cols)
    for seen, sign in ((released, 1), (true, -1)):
        blocks = sum_blocks(seen, window, side, by_layer=False)
        difference[blocks.position] += sign * blocks.count
    return float(np.sqrt(np.mean(difference**2)))


def _notes_card(
    place: Place, layers: Layers, window: Window, sources: Sequence[Sequence[Mapping[str, Any]]]
) -> str:
    first, last = sources[0][0]["side"], sources[0][-1]["side"]
    notes = []
    if first > 1:
        notes.append(
            MAP["coarse"].fill(rows=f"{place.whole.rows:,}", cols=f"{place.whole.cols:,}", side=first)
        )
    if last > first:
        notes.append(MAP["coarse_layers"].fill(side=last))
    if window != place.whole:
        notes.append(MAP["cropped"])
    if layers.summed:
        notes.append(MAP["summed"].fill(names=", ".join(layers.summed)))
    said = "".join(say(note, "p") for note in notes)
    return f'<section class="card about">{say(MAP["about"], "h2")}{said}{say(MAP["keys"], "p", "class=quiet")}</section>'
