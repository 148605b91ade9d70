"""The published table as a map: one page, complete in itself.

    write_map(release.to_arrow(), domain, "map.html", certificate=release.certificate)

The page carries the counts themselves, packed, and sums them to blocks as the reader asks. Where the table has
more cells than a page can carry they are summed to blocks beforehand, and the page says so.

True counts are never on a page unless `internal` brings them. Such a page says on every screen and on paper that
it must not be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Table
from oboro.domain import Domain
from oboro.errors import ParameterError, told
from oboro.exact import rational
from oboro.files import write_whole
from oboro.kinds import path_of, takes, text_of
from oboro.kinds import shown as shown_value
from oboro.release import Certificate
from oboro.report import colour, promise
from oboro.report.cells import Blocks, Layers, count_column, finest, read_cells, window_of
from oboro.report.map_body import Shown, map_body
from oboro.report.page import check_language, render
from oboro.report.payload import pack
from oboro.report.place import Place, Window
from oboro.report.words import INTERNAL, MAP

__all__ = ["Comparison", "write_map"]


MOST_BLOCKS = 2**23  # what a browser draws with ease: 2896 x 2896, or all of Japan in square kilometres
MOST_ENTRIES = 2_000_000  # counts that are not zero; about 1.5 bytes each in the page


@dataclass(frozen=True, slots=True)
class Comparison:
    """The true table and releases of it at several eps, for the steward's own eyes.

        Comparison(true=cells, releases={"0.1": one, "1": other})

    The keys are shown as they are, and sorted if they are numbers.
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
)
def write_map(
    table: Table,
    domain: Domain,
    path: str | Path,
    *,
    certificate: Certificate | Mapping[str, Any] | None = None,
    internal: Comparison | None = None,
    title: str | None = None,
    language: str | None = None,
    count: str | None = None,
) -> Path:
    """Writes the published `table` as a map and returns where it is.

    `table` has the columns of the domain and one of counts: `count`, or the last that is neither a column of
    the domain nor `low` or `high`. With `low` and `high`, as `Release.interval()` appends them, the page shows
    the interval of each cell. `certificate` gives the promise that is printed beside the map, and the name of
    the dataset, which is the title unless another is given. `language` is
    "en" or "ja"; without it the reader's browser decides. `internal` puts true counts on the page, side by
    side with what is released, and marks it so.
    """
    if not hasattr(table, "column_names"):
        raise ParameterError(
            "table is not a table", given=told(table=f"{shown_value(table)}"), needed="what to_arrow() gives"
        )
    check_language(language)
    place = Place.of(domain)
    layers = Layers.of(domain, place)
    shown = _tables(table, internal, place, layers, count)
    record = certificate.record if isinstance(certificate, Certificate) else dict(certificate or {})
    window = window_of([each.cells for each in shown], place.whole, MOST_BLOCKS)
    sources, payloads = _sources(shown, place, layers, window)
    smallest = min(source["side"] for source in sources[0])
    sides = [side for side in place.sides if side >= smallest]
    data = {
        "place": place.to_dict(),
        "window": [window.row, window.col, window.rows, window.cols],
        "northUp": place.north_up,
        "aspect": place.aspect(window),
        "sides": sides,
        "columns": layers.labels(),
        "count": count or count_column(table, place, layers),
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
        "widths": promise.widths(record.get("forecast") or {}) if not layers.shown else {},
        "colours": {
            theme: {"scale": colour.sequential(theme), "difference": colour.diverging(theme)}
            for theme in ("light", "dark")
        },
    }
    page = render(
        title=title or promise.title(record) or MAP["published_table"],
        subtitle=promise.chip(record, titled=title is None),
        body=map_body(shown, place, layers, window, sources, sides, record, internal is not None),
        language=language,
        internal=None if internal is None else INTERNAL["counts"],
        styles=("map.css",),
        scripts=("map-counts.js", "map-classes.js", "map-names.js", "map.js"),
        words=MAP,
        data=data,
        payloads=payloads,
    )
    where = Path(path)
    write_whole(where, page.encode("utf-8"))
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
) -> tuple[list[list[dict[str, Any]]], dict[str, str]]:
    """The packed counts of each table: by layer, and the sum of the layers too where that can be shown finer."""
    tables = [each.cells for each in shown]
    limits = {"blocks": MOST_BLOCKS if len(tables) == 1 else MOST_BLOCKS // 4, "entries": MOST_ENTRIES}
    kinds = [finest(tables, window, place.sides, by_layer=True, **limits)]
    if layers.shown:
        together = finest(tables, window, place.sides, by_layer=False, **limits)
        if together[0].side < kinds[0][0].side:
            kinds.insert(0, together)
    sources: list[list[dict[str, Any]]] = [[] for _ in tables]
    payloads: dict[str, str] = {}
    for kind, each_kind in enumerate(kinds):
        for number, blocks in enumerate(each_kind):
            name = f"counts-{number}-{kind}"
            header, payloads[name] = _packed(blocks, summed=kind == 0 and len(kinds) == 2)
            sources[number].append({"id": name, **header})
    return sources, payloads


def _packed(blocks: Blocks, *, summed: bool) -> tuple[dict[str, Any], str]:
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
