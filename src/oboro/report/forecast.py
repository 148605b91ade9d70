"""The forecast of a table as one page: what a steward shows the boss before anything is spent. Public facts alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oboro.exact import about, percent
from oboro.release import Forecast
from oboro.release.forecast import in_labels
from oboro.report import chart, promise
from oboro.report.page import PROMISE, Words, both, escape, render, say, write_page

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan
    from oboro.tables.tree.outlook import Outlook

WORDS = {
    "title": both("Forecast: {released}"),
    "free": both("Nothing has been spent and no data was looked at. These figures follow from public facts."),
    "trusted": both("of inhabited cells within 20% of the truth"),
    "people": both("of the people live in those cells"),
    "published": both("of all cells would be published"),
    "published_count": both("cells would be published"),
    "empty": both("of published cells hold nobody in truth"),
    "tried": both(
        "Tried out on a generated city of {total} people: made-up data, made-up noise. Where people live closer together, more cells can be trusted."
    ),
    "unknown": both(
        "How many cells can be trusted depends on how many people there are: give --expected-total."
    ),
    "measured": both("What is measured"),
    "measured_note": both("Shares of the privacy budget. They were chosen for these questions: {workload}."),
    "notes": both("What the figures mean"),
}


def write_forecast(
    plan: TablePlan, path: str | Path, *, expected_total: int | None = None, language: str | None = None
) -> Path:
    """Writes the page."""
    total = expected_total if expected_total is not None else plan.total
    found = plan.forecast(total).in_labels(dict(plan.domain.labels))
    described = plan.describe()
    record = {
        "released": described["released"],
        "unit": {**plan.unit.to_dict(), "in_words": str(plan.unit)},
        "guarantee": {**plan.guarantee.to_dict(), "in_words": str(plan.guarantee)},
    }
    title = WORDS["title"].fill(released=Words.name(described["released"]))
    outlook = None if total is None else plan.outlook(total)
    page = render(
        title=title,
        subtitle=f'<span class="chip">{say(Words.sentence(plan.guarantee))}</span><span class="chip">{escape(plan.strategy)}</span>',
        body=_body(plan, found, total, outlook, promise.promise(record)),
        language=language,
    )
    target = Path(path)
    write_page(target, page)
    return target


def _body(plan: TablePlan, found: Forecast, total: int | None, outlook: Outlook | None, promised: str) -> str:
    measured = _measured(plan) if plan.levels else ""
    # what a number of people adds to the notes stands in the figures, where there are some
    told = found if outlook is None else plan.forecast().in_labels(dict(plan.domain.labels))
    kept = [note for note in told.notes if not (measured and note.startswith("measured: "))]
    notes = "".join(say(Words.sentence(note), "li") for note in kept)
    return f"""<main class="sheet">
<section class="card">{say(WORDS["free"], "p")}{_figures(outlook) if total is None or outlook is not None else ""}</section>
<div class="side wide">
<div class="stack"><section class="card">{say(PROMISE["error"], "h2")}{chart.error_chart(found)}{chart.error_table(found)}</section></div>
<div class="stack">{promised}{measured}
<section class="card">{say(WORDS["notes"], "h2")}<ul class="notes">{notes}</ul></section></div>
</div>
</main>"""


def _figures(outlook: Outlook | None) -> str:
    """The four numbers that a boss asks for."""
    if outlook is None:
        return say(WORDS["unknown"], "p", 'class="quiet"')
    share = outlook.published / outlook.cells
    published = (
        (percent(share), WORDS["published"])
        if share >= 0.001
        else (about(outlook.published, 2), WORDS["published_count"])
    )
    shown = [
        (percent(outlook.trusted), WORDS["trusted"]),
        (percent(outlook.people), WORDS["people"]),
        published,
        (percent(outlook.empty), WORDS["empty"]),
    ]
    figures = "".join(
        f'<div><div class="figure">{escape(value)}</div>{say(words, "p")}</div>' for value, words in shown
    )
    tried = say(WORDS["tried"].fill(total=f"{outlook.total:,}"), "p", 'class="quiet"')
    return f'<div class="figures">{figures}</div>{tried}'


def _measured(plan: TablePlan) -> str:
    """Levels and their shares of the budget, as bars."""
    labels = dict(plan.domain.labels)
    named = chart.block_words([in_labels(level, labels) for level in plan.levels])
    pairs = sorted(zip(plan.shares, named, strict=True), reverse=True)[:16]
    top = float(pairs[0][0])
    bars = "".join(
        f'<div class="share">{say(name)}'
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width="{100 * float(share) / top:.2f}" height="10"/></svg>'
        f"<b>{float(share):.1%}</b></div>"
        for share, name in pairs
    )
    note = WORDS["measured_note"].fill(workload=Words.name(plan.workload))
    return f'<section class="card">{say(WORDS["measured"], "h2")}{say(note, "p")}{bars}</section>'
