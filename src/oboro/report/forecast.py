"""The forecast of a table as one page: what a steward shows the boss before anything is spent. Public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oboro.exact import about
from oboro.release import Forecast
from oboro.release.files import write_whole
from oboro.report import chart, promise
from oboro.report.page import escape, render, say
from oboro.report.words import Words

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan
    from oboro.tables.tree.outlook import Outlook

WORDS = {
    "title": Words("Forecast: {released}", "見積もり：{released}"),
    "free": Words(
        "Nothing has been spent and no data was looked at. These figures follow from public facts.",
        "まだ何も使わず、データも見ていません。数値は公開の事実だけから求めました。",
    ),
    "trusted": Words("of inhabited cells within 20% of the truth", "の居住セルが真の値の 20% 以内"),
    "people": Words("of the people live in those cells", "の人がそれらのセルに住む"),
    "published": Words("of all cells would be published", "のセルが公開される"),
    "published_count": Words("cells would be published", "セルが公開される"),
    "empty": Words("of published cells hold nobody in truth", "の公開セルは実際には無人"),
    "tried": Words(
        "Tried out on a generated city of {total} people: made-up data, made-up noise. Where people live closer together, more cells can be trusted.",
        "生成した都市（{total} 人）で試した結果です。データもノイズも作り物です。人が密に住むほど、信頼できるセルは増えます。",
    ),
    "unknown": Words(
        "How many cells can be trusted depends on how many people there are: give --expected-total.",
        "信頼できるセルの割合は人数によります。--expected-total を指定してください。",
    ),
    "error": Words("Error by area", "面積ごとの誤差"),
    "axis": Words("standard error, by size of the area", "標準誤差（横軸：区域の大きさ）"),
    "table": Words("All figures", "すべての数値"),
    "measured": Words("What is measured", "測定するもの"),
    "measured_note": Words(
        "Shares of the privacy budget. They were chosen for these questions: {workload}.",
        "プライバシー予算の配分。想定する質問：{workload}。",
    ),
    "notes": Words("What the figures mean", "数値の意味"),
}
HEADS = {
    "area": Words("area", "区域"),
    "cells": Words("cells", "セル数"),
    "standard error": Words("standard error", "標準誤差"),
    "95% within ±": Words("95% within ±", "95% の誤差 ±"),
    "trusted at ±20% from": Words("trusted at ±20% from", "±20% で信頼できる人数"),
}
_SERIES = 6


def write_forecast(
    plan: TablePlan, path: str | Path, *, expected_total: int | None = None, language: str | None = None
) -> Path:
    """Writes the page."""
    total = expected_total if expected_total is not None else plan.total
    found = plan.forecast(total)
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
        body=_body(plan, found, outlook, promise.promise(record)),
        language=language,
        styles=("forecast.css",),
    )
    target = Path(path)
    write_whole(target, page.encode("utf-8"))
    return target


def _body(plan: TablePlan, found: Forecast, outlook: Outlook | None, promised: str) -> str:
    measured = _measured(plan) if plan.levels else ""
    notes = "".join(say(Words.sentence(note), "li") for note in found.notes)
    return f"""<main class="forecast">
<section class="card">{say(WORDS["free"], "p")}{_figures(outlook)}</section>
<div class="side">
<section class="card">{say(WORDS["error"], "h2")}{_chart(found)}</section>
{promised}
</div>
<section class="card">{say(WORDS["table"], "h2")}{_table(found)}</section>
<div class="side">{measured}
<section class="card">{say(WORDS["notes"], "h2")}<ul class="notes">{notes}</ul></section>
</div>
</main>"""


def _figures(outlook: Outlook | None) -> str:
    """The four numbers that a boss asks for."""
    if outlook is None:
        return say(WORDS["unknown"], "p", 'class="quiet"')
    share = outlook.published / outlook.cells
    published = (
        (_percent(share), WORDS["published"])
        if share >= 0.001
        else (about(outlook.published, 2), WORDS["published_count"])
    )
    shown = [
        (_percent(outlook.trusted), WORDS["trusted"]),
        (_percent(outlook.people), WORDS["people"]),
        published,
        (_percent(outlook.empty), WORDS["empty"]),
    ]
    figures = "".join(
        f'<div><div class="figure">{escape(value)}</div>{say(words, "p")}</div>' for value, words in shown
    )
    tried = say(WORDS["tried"].fill(total=f"{outlook.total:,}"), "p", 'class="quiet"')
    return f'<div class="figures">{figures}</div>{tried}'


def _chart(found: Forecast) -> str:
    """Standard errors by size of area: one line for all values of the other columns together, and one for each breakdown."""
    names = [str(row[0]).split("; ") for row in found.rows]
    if len({len(parts) for parts in names}) == 1:
        area = max(range(len(names[0])), key=lambda i: len({parts[i] for parts in names}))
    else:
        area = 0
        names = [[", ".join(parts)] for parts in names]
    lines: dict[str, dict[str, float]] = {}
    for parts, row in zip(names, found.rows, strict=True):
        breakdown = ", ".join(part for i, part in enumerate(parts) if i != area) or "each area"
        lines.setdefault(breakdown, {})[parts[area]] = float(row[2])
    labels = list(dict.fromkeys(parts[area] for parts in names))
    kept = {name: own for name, own in lines.items() if len(own) == len(labels)}
    kept = dict(list(kept.items())[:_SERIES])
    series = {name: [own[label] for label in labels] for name, own in kept.items()}
    drawn = chart.lines([_short(label) for label in labels], series, describe=Words.sentence(found.title))
    key = "".join(say(Words.name(name), "li", f'class="s{i}"') for i, name in enumerate(series))
    drawn += say(WORDS["axis"], "p", 'class="axis"')
    return drawn + (f'<ul class="series-key">{key}</ul>' if len(series) > 1 else "")


def _short(label: str) -> str:
    """ "8 x 8 of row,col" is 8²; "500 m mesh" is 500 m."""
    if label.startswith("all of"):
        return "all"
    first = label.partition(" of ")[0].removesuffix(" mesh")
    sides = first.split(" x ")
    return f"{sides[0]}²" if len(sides) == 2 and sides[0] == sides[1] else first


def _table(found: Forecast) -> str:
    head = "".join(say(HEADS.get(name, Words.sentence(name)), "th") for name in found.columns)
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in found.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cells(row: Sequence[object]) -> str:
    shown = [value if isinstance(value, str) else about(float(str(value))) for value in row]
    return "".join(say(Words.name(value), "td") for value in shown)


def _measured(plan: TablePlan) -> str:
    """Levels and their shares of the budget, as bars."""
    pairs = sorted(zip(plan.shares, plan.levels, strict=True), reverse=True)[:16]
    top = float(pairs[0][0])
    bars = "".join(
        f'<div class="share">{say(Words.name(name))}'
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width="{100 * float(share) / top:.2f}" height="10"/></svg>'
        f"<b>{float(share):.1%}</b></div>"
        for share, name in pairs
    )
    note = WORDS["measured_note"].fill(workload=Words.name(plan.workload))
    return f'<section class="card">{say(WORDS["measured"], "h2")}{say(note, "p")}{bars}</section>'


def _percent(share: float) -> str:
    return f"{about(100 * share, 2)}%"
