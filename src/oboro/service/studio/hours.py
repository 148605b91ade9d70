"""Hours: the tables of a series, one after the other under a slider. All of it was published, tick by tick."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends
from fastapi.responses import Response

from oboro.errors import OboroError
from oboro.ledger.chain import Entry
from oboro.records import Record
from oboro.release import plan_from
from oboro.service.desk import Recent, Unknown
from oboro.service.edition import Opened
from oboro.service.studio import figures
from oboro.service.studio.answer import text_of
from oboro.service.studio.page import Form, Visit, fields, for_roles, shown, to
from oboro.service.studio.releases import whole_page
from oboro.tables.series.plan import SeriesPlan

if TYPE_CHECKING:
    from oboro.arrays import Table
    from oboro.report.hours import Frames
    from oboro.tables.series.series import Series

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Fields = Annotated[Form, Depends(fields)]
_ROWS = 200
_WIDEST = 72  # blocks of a picture, along one side


@dataclass(frozen=True)
class Hours:
    """A series as it is drawn: where its blocks lie, and their counts by tick."""

    pictures: Any  # [tick, row, column]
    south: bool
    frames: Frames


_TICKS: Recent[Table] = Recent(1 << 26, lambda table: int(table.nbytes))
_DRAWN: Recent[tuple[Series, Hours | None]] = Recent(16)


def listed(here: Visit, opened: Opened) -> list[Record]:
    """The series of a dataset, the newest first: a steward's, and everybody's where answers are shared."""
    if here.person.role != "steward" and not opened.settings.sharing:
        return []
    found = []
    for entry in reversed(opened.ledger.history()):
        if _is_series(entry):
            begun = _series(opened, entry)
            found.append(
                {
                    "name": entry.name,
                    "ticks": begun.plan.ticks,
                    "published": len(begun.published),
                    "place": to("tables", opened.facts.dataset, "series", entry.position),
                }
            )
    return found


def _is_series(entry: Entry) -> bool:
    """Whether a series was opened here. A run of the whole plan is none: it has no name to be taken up by, or died under it."""
    return (
        entry.kind == "reserve"
        and "ticks" in entry.body
        and entry.body["plan"].get("kind") == SeriesPlan.kind
    )


def _series(opened: Opened, entry: Entry) -> Series:
    """A series that the ledger has: it is taken up, and nothing is reserved."""
    from oboro.tables import series

    plan = plan_from(entry.body["plan"])
    assert isinstance(plan, SeriesPlan)
    return series(plan, ledger=opened.ledger, name=str(entry.name))


def given(here: Visit, dataset: str, number: int) -> Series:
    """A series, if it is there for whoever looks."""
    opened = _open(here, dataset)
    stored = opened.ledger.find_entry(number) if 0 <= number < 2**62 else None
    if stored is None or not _is_series(stored.reserved):
        raise _unknown()
    return _series(opened, stored.reserved)


def _open(here: Visit, dataset: str) -> Opened:
    """A dataset whose series are there for whoever looks."""
    opened = here.desk.dataset(dataset, here.person)
    if here.person.role != "steward" and not opened.settings.sharing:
        raise _unknown()
    return opened


def _unknown() -> Unknown:
    return Unknown("there is no such series", needed="one of those that are listed")


def tables_of(ledger: str, number: int, begun: Series) -> list[Table]:
    """What of a series was published: its ticks, which stay as they are, and the table of all of them if it is over."""
    tables = []
    for tick in begun.published:
        key = (ledger, number, tick)
        known = _TICKS.get(key)
        tables.append(_TICKS.put(key, begun.publish([], tick).to_arrow()) if known is None else known)
    return [*tables, begun.final().to_arrow()] if begun.over else tables


def drawn(here: Visit, dataset: str, number: int) -> tuple[Series, Hours | None]:
    """The hours of a series; None as long as nothing was published, or if it has no map."""
    from oboro.report.hours import each_hour

    ledger = _open(here, dataset).ledger
    key = (
        ledger.id,
        number,
        ledger.head().position,
    )  # as long as nothing was entered, nothing else was published
    if (known := _DRAWN.get(key)) is not None:
        return known
    begun = given(here, dataset, number)
    try:
        place, (rows, cols), frames = each_hour(tables_of(ledger.id, number, begun))
    except OboroError:
        return _DRAWN.put(key, (begun, None))
    whole = place.whole
    side = max(
        1, -(-max(-(-whole.rows // rows), -(-whole.cols // cols)) // _WIDEST)
    )  # blocks in one of the picture
    pictures = np.zeros((begun.plan.ticks, -(-whole.rows // (rows * side)), -(-whole.cols // (cols * side))))
    at = (frames.rows - whole.row) // (rows * side), (frames.cols - whole.col) // (cols * side)
    for picture, counts in zip(pictures, frames.counts, strict=True):
        np.add.at(picture, at, counts)
    return _DRAWN.put(key, (begun, Hours(pictures, place.north_up, frames)))


@router.get("/tables/{dataset}/series/{number:int}")
def hours(dataset: str, number: int, here: Here, asked: Fields) -> Response:
    """One tick of a series, and the slider that moves it."""
    begun, found = drawn(here, dataset, number)
    part = here.request.headers.get("hx-request") == "true"
    facts: Record = {
        "dataset": dataset,
        "name": begun.name,
        "ticks": begun.plan.ticks,
        "published": len(begun.published),
        "over": begun.over,
        "place": to("tables", dataset, "series", number),
        "release": to("releases", dataset, number),
        "none": found is None,
    }
    if found is None:
        return shown(here, "hours.html", **facts, tick=0)
    text = asked.get("tick", "")
    first = next((at for at, state in enumerate(found.frames.states) if state is not None), 0)
    tick = min(int(text), begun.plan.ticks - 1) if text.isdigit() and len(text) < 9 else first
    state = found.frames.states[tick]
    counts, low, high = (part[tick] for part in (found.frames.counts, found.frames.low, found.frames.high))
    states = {
        "provisional": here.say("provisional"),
        "final": here.say("final"),
        "lost": here.say("lost: told by the blocks of time around it"),
    }
    words = here.say("Tick {tick}", tick=tick)
    most = float(found.pictures.max(initial=1))
    spoken = [None if state is None else states[state] for state in found.frames.states]
    totals = [
        None if one is None else int(counts.sum())
        for one, counts in zip(spoken, found.frames.counts, strict=True)
    ]
    largest = np.argsort(-counts, kind="stable")[:_ROWS].tolist() if state else []
    rows, cols = found.frames.rows.tolist(), found.frames.cols.tolist()
    response = shown(
        here,
        "hours_tick.html" if part else "hours.html",
        **facts,
        tick=tick,
        state=None if state is None else states[state],
        word=state or "absent",
        words=words,
        picture=figures.heat(
            found.pictures[tick],
            describe=f"{begun.name}, {words}",
            south=found.south,
            most=most,
        ),
        scale=figures.scale(most, describe=here.say("From none to the most that a block of any tick has")),
        strip=figures.strip(
            [
                (here.say("Tick {tick}", tick=at), total, one or here.say("not published"))
                for at, (total, one) in enumerate(zip(totals, spoken, strict=True))
            ],
            tick,
            describe=here.say("All counts of each tick together"),
        ),
        total=None if totals[tick] is None else f"{totals[tick]:,}",
        rows=[
            [f"{rows[at]}, {cols[at]}", *(text_of(int(part[at])) for part in (counts, low, high))]
            for at in largest
        ],
        head=[
            here.say("block, by its first cell"),
            here.sentence("count"),
            here.sentence("95% from"),
            here.sentence("95% to"),
        ],
    )
    if part:
        response.headers["hx-replace-url"] = to("tables", dataset, "series", number, tick=str(tick))
    return response


@router.get("/tables/{dataset}/series/{number:int}/play")
def play(dataset: str, number: int, here: Here) -> Response:
    """The page that plays the hours, complete in itself."""
    from oboro.report import write_hours

    begun = given(here, dataset, number)
    tables = tables_of(begun.ledger.id, number, begun)
    if not tables:
        raise Unknown("nothing of this series was published yet", needed="a tick that was published")
    with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
        path = Path(folder, "hours.html")
        write_hours(tables, path, title=begun.name, language=here.language)
        return whole_page(path.read_text(encoding="utf-8"))
