"""The published table as a map: one page, complete in itself.

    write_map(release.to_arrow(), domain, "map.html", certificate=release.certificate)

The page carries the counts themselves, packed, and sums them to blocks as the reader asks. Where the table has
more cells than a page can carry they are summed to blocks beforehand, and the page says so.

True counts are never on a page unless `internal` brings them. Such a page says on every screen and on paper that
it must not be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oboro.arrays import Table
from oboro.domain import Areas, Domain, Grid
from oboro.errors import ParameterError, told
from oboro.exact import rational
from oboro.kinds import path_of, takes, text_of
from oboro.kinds import shown as shown_value
from oboro.records import Facts, Record
from oboro.release import Certificate
from oboro.report import cells, chart, promise
from oboro.report.cells import (
    Blocks,
    Cells,
    Layers,
    Place,
    Window,
    count_column,
    finest,
    read_cells,
    sum_blocks,
    window_of,
)
from oboro.report.earth import Earth, beneath, needs_extra
from oboro.report.figures import Figures, is_partial, plan_of, with_ends
from oboro.report.packed import pack, unpack
from oboro.report.page import (
    INTERNAL,
    MAP,
    PROMISE,
    Words,
    check_language,
    escape,
    label,
    render,
    say,
    write_page,
)

# The body of the map page: everything on it but the counts.


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
    sources: Sequence[Sequence[Facts]],
    sides: Sequence[int],
    record: Facts,
    internal: bool,
    outlined: bool = False,
    intervals: Words | None = None,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Controls, canvases and legend on one side; total, promise, error and notes on the other."""
    labels = labels or {}
    panes = (
        _pane(MAP["true"], "true", 0) + _pane(MAP["after"], "after", 1)
        if internal
        else _pane(None, "published", 0)
    )
    cards = [_total_card(), _figures_card(shown, window, sides) if internal else ""]
    if record:
        cards += [
            promise.promise(record),
            promise.error_by_size(record.get("forecast") or {}, labels),
            promise.verify(record),
        ]
    else:
        cards.append(
            f'<section class="card promise">{say(PROMISE["promise"], "h2")}{say(PROMISE["uncertified"], "p")}</section>'
        )
    cards.append(_notes_card(place, layers, window, sources, outlined, intervals, labels))
    return f"""<main class="map-page{" two" if internal else ""}">
<section class="stage" aria-labelledby="map-name">
<h2 id="map-name" class="spoken">{say(MAP["map"])}</h2>
<div class="controls">
{_category_controls(layers, labels)}<label class="control level">{say(MAP["block"])}<span class="slider"><input type="range" id="level" min="0" max="{len(sides) - 1}" value="0"><output id="level-name" for="level"></output></span></label>
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


def _category_controls(layers: Layers, labels: Mapping[str, str]) -> str:
    parts = []
    for number, column in enumerate(layers.labels()):
        options = "".join(
            f'<option value="{code}">{escape(value)}</option>' for code, value in enumerate(column["values"])
        )
        everything = say(MAP["all"], "option", 'value="-1" selected')
        parts.append(
            f'<label class="control"><span>{escape(labels.get(column["name"], column["name"]))}</span>'
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
    return f'<section class="card total">{say(MAP["total"], "h2")}<p class="figure" id="total"></p><p class="quiet" id="total-interval"></p><p class="quiet" id="filled"></p></section>'


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
    picture = chart.line_chart(
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
            f'class="{chart.key_class(number)}" data-release="{number + 1}"',
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
    place: Place,
    layers: Layers,
    window: Window,
    sources: Sequence[Sequence[Facts]],
    outlined: bool,
    intervals: Words | None,
    labels: Mapping[str, str],
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
    if isinstance(place.column, Grid):
        first_row = {"row_name": labels.get(place.keys[0], place.keys[0])}
        notes.append(MAP["rows_up" if place.north_up else "rows_down"].fill(**first_row))
    if layers.summed:
        notes.append(MAP["summed"].fill(names=", ".join(labels.get(name, name) for name in layers.summed)))
    if intervals is not None:
        notes.append(intervals)
    if needs_extra(place):
        notes.append(MAP["no_land"])
    elif Earth.of(place) is not None:
        notes.append(MAP["outlined"] if outlined else MAP["land"])
    said = "".join(say(note, "p") for note in notes)
    return f'<section class="card about">{say(MAP["about"], "h2")}{said}{say(MAP["keys"], "p", "class=quiet")}</section>'


__all__ = ["Comparison", "unpack", "write_map"]


MOST_BLOCKS = (
    2**23
)  # what a browser draws at once with ease: 2896 x 2896, or all of Japan in square kilometres
MOST_ENTRIES = 6_000_000  # counts that are not zero; about 1.5 bytes each in the page
MOST_BYTES = 15_000_000  # of a page
_FRAME = 400_000  # of them for scripts, words, names and the promise


@dataclass(frozen=True, slots=True)
class Comparison:
    """The true table and releases of it at several eps, for the steward's own eyes.

        Comparison(true=cells, releases={"0.1": one, "1": other})

    The keys are shown as they are, and sorted if they are numbers.

    >>> import pyarrow as pa
    >>> mesh = ob.Domain([ob.Grid("row", "col", shape=(8, 8))])
    >>> true = pa.table({"row": [0, 7], "col": [3, 4], "people": [120, 30]})
    >>> noisy = pa.table({"row": [0, 7], "col": [3, 4], "people": [118, 33]})
    >>> inside = ob.report.Comparison(true=true, releases={"0.5": noisy})
    >>> str(ob.report.write_map(noisy, mesh, "internal.html", internal=inside))
    'internal.html'
    """

    true: Table
    releases: Mapping[str, Table]

    def in_order(self) -> list[tuple[str, Table]]:
        named = [(str(key), table) for key, table in self.releases.items()]
        try:
            return sorted(named, key=lambda pair: rational("eps", pair[0]))
        except ParameterError:
            return named


@takes(
    domain=Domain,
    path=path_of,
    certificate=(Certificate, Mapping),
    internal=Comparison,
    title=text_of,
    language=text_of,
    count=text_of,
    outline=path_of,
)
def write_map(
    table: Table,
    domain: Domain,
    path: str | Path,
    *,
    certificate: Certificate | Facts | None = None,
    internal: Comparison | None = None,
    title: str | None = None,
    language: str | None = None,
    count: str | None = None,
    outline: str | Path | None = None,
) -> Path:
    """Writes the published `table` as a map and returns where it is.

    `table` has the columns of the domain and one of counts: `count`, or the last that is neither a column of
    the domain nor `low` or `high`. With `low` and `high`, as `Release.interval()` appends them, the page shows
    the interval of each cell. `certificate` gives the promise that is printed beside the map, and the name of
    the dataset, which is the title unless another is given. `language` is
    "en" or "ja"; without it the reader's browser decides. `internal` puts true counts on the page, side by
    side with what is released, and marks it so. Beneath the cells lies the land, where the grid says where it is (a mesh does),
    or the `outline` of a GeoJSON file. The page is at most 15 MB: what does not fit is left to `ask`.

    >>> import pyarrow as pa
    >>> mesh = ob.Domain([ob.Grid("row", "col", shape=(8, 8))])
    >>> published = pa.table({"row": [0, 7], "col": [3, 4], "people": [118, 33]})
    >>> str(ob.report.write_map(published, mesh, "map.html", title="A small city"))
    'map.html'
    """
    if not hasattr(table, "column_names"):
        raise ParameterError(
            "table is not a table", given=told(table=f"{shown_value(table)}"), needed="what to_arrow() gives"
        )
    check_language(language)
    place = Place.of(domain)
    layers = Layers.of(domain, place)
    plan = None if internal is not None else plan_of(table, domain)
    shown = _tables(with_ends(table, plan), internal, place, layers, count)
    record = certificate.record if isinstance(certificate, Certificate) else dict(certificate or {})
    window = window_of([each.cells for each in shown], place.whole, MOST_BLOCKS)
    sources, payloads = _sources(shown, place, layers, window)
    given = any(source["intervals"] for found in sources for source in found)
    too_long = given and sum(map(len, payloads.values())) > MOST_BYTES - _FRAME
    if too_long:
        shown = [replace(each, cells=replace(each.cells, below=None, above=None)) for each in shown]
        sources, payloads = _sources(shown, place, layers, window)
    own = (
        given and not too_long and plan is None and internal is None
    )  # of cells alone: there is nothing to ask
    smallest = min(source["side"] for source in sources[0])
    sides = [side for side in place.sides if side >= smallest]
    earth = Earth.of(place)
    if outline is not None and earth is None:
        raise ParameterError(
            "an outline needs a grid that says where it lies",
            given=told(outline=str(outline)),
            needed="a Mesh, or a Grid with crs, origin, cell and rows"
            + (", and pip install 'oboro[geo]' for its crs" if needs_extra(place) else ""),
            argument="outline",
        )
    figures = Figures(MOST_BYTES - _FRAME - sum(map(len, payloads.values())))
    under = None if earth is None else beneath(earth, window, outline)
    land = under is not None and figures.put("oboro-beneath", *under.streams)
    over = next((c for c in domain if isinstance(c, Areas) and c.of is place.column), None)
    areas = None
    if over is not None and internal is None:
        areas = figures.areas(over, window, layers, shown[0].cells, table, plan)
    answers = None if plan is None else figures.answers(table, plan, place, layers, window, sides)
    payloads |= figures.payloads
    partial = is_partial(plan, record)
    data = {
        "place": {**place.to_dict(), "names": [domain.label(name) for name in place.keys]},
        "window": [window.row, window.col, window.rows, window.cols],
        "northUp": place.north_up,
        "aspect": 1.0 if earth is None else earth.aspect(window),
        "earth": None if earth is None else earth.to_dict(window),
        "beneath": under.to_dict() if land and under is not None else None,
        "areas": areas,
        "dense": MOST_BLOCKS,
        "sides": sides,
        "places": [place.blocks(side) for side in sides],
        "columns": layers.labels(),
        "count": domain.label(count or count_column(table, place, layers)),
        "tables": [
            {
                "role": each.role,
                "label": each.label,
                "name": each.name,
                "total": str(each.cells.total),
                "sources": found,
            }
            for each, found in zip(shown, sources, strict=True)
        ],
        "answers": answers,
        "partial": partial,
        "ownIntervals": own,
        "widths": {}
        if layers.shown or plan is not None or partial
        else promise.widths(record.get("forecast") or {}),
        "colours": {
            theme: {"scale": cells.sequential(theme), "difference": cells.diverging(theme)}
            for theme in ("light", "dark")
        },
    }
    page = render(
        title=title or promise.title(record) or MAP["published_table"],
        subtitle=promise.chip(record, titled=title is None),
        body=map_body(
            shown,
            place,
            layers,
            window,
            sources,
            sides,
            record,
            internal is not None,
            outline is not None,
            MAP["own_intervals"] if own else MAP["no_intervals"] if too_long else None,
            dict(domain.labels),
        ),
        language=language,
        internal=None if internal is None else INTERNAL["counts"],
        styles=("map.css",),
        scripts=("map-counts.js", "map-classes.js", "map-names.js", "map-earth.js", "map.js"),
        words=MAP,
        data=data,
        payloads=payloads,
    )
    where = Path(path)
    write_page(where, page)
    return where


def _tables(
    table: Table, internal: Comparison | None, place: Place, layers: Layers, count: str | None
) -> list[Shown]:
    """What the page shows: the published table; or the truth first, then every release."""
    published = Shown("published", "", read_cells(table, place, layers, count))
    if internal is None:
        return [published]
    named = [
        Shown(
            "published" if each is table or each.equals(table) else "release",
            key,
            read_cells(each, place, layers, count),
        )
        for key, each in internal.in_order()
    ]
    if not any(each.role == "published" for each in named):
        named.append(published)
    return [Shown("true", "", read_cells(internal.true, place, layers, count)), *named]


def _sources(
    shown: Sequence[Shown], place: Place, layers: Layers, window: Window
) -> tuple[list[list[Record]], dict[str, str]]:
    """The packed counts of each table: by layer, and the sum of the layers too where that can be shown finer."""
    tables = [each.cells for each in shown]
    # one table is drawn part by part where it is too large to be drawn at once; two side by side are not
    limits = {"blocks": MOST_BLOCKS // 4 if len(tables) > 1 else 2**53, "entries": MOST_ENTRIES}
    kinds = [finest(tables, window, place.sides, by_layer=True, **limits)]
    if layers.shown:
        together = finest(tables, window, place.sides, by_layer=False, **limits)
        if together[0].side < kinds[0][0].side:
            kinds.insert(0, together)
    sources: list[list[Record]] = [[] for _ in tables]
    payloads: dict[str, str] = {}
    for kind, each_kind in enumerate(kinds):
        for number, blocks in enumerate(each_kind):
            name = f"counts-{number}-{kind}"
            header, payloads[name] = _packed(blocks, summed=kind == 0 and len(kinds) == 2)
            sources[number].append({"id": name, **header})
    return sources, payloads


def _packed(blocks: Blocks, *, summed: bool) -> tuple[Record, str]:
    """Positions as gaps that start anew in each layer, then counts, then intervals: most of it small numbers."""
    codes, starts = np.unique(blocks.layer, return_index=True)
    before = np.concatenate([[-1], blocks.position[:-1]])[: blocks.position.size]
    before[starts] = -1
    streams = [blocks.position - before, blocks.count]
    intervals = blocks.below is not None and blocks.above is not None
    if blocks.below is not None and blocks.above is not None:
        streams += [blocks.below, blocks.above]
    header = {
        "side": blocks.side,
        "summed": summed,
        "layers": codes.tolist(),
        "sizes": np.diff(np.append(starts, blocks.layer.size)).tolist(),
        "intervals": intervals,
    }
    return header, pack(*streams)
