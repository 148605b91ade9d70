"""The audit page: what each plan promises, and what an attack on it could certify, as bars against a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from oboro.audit import AuditReport, Finding
from oboro.exact import about
from oboro.report.page import Words, both, escape, label, render, say, write_page

HEADS = (
    both("neighbours"),
    Words.same(""),
    both("promised"),
    both("found"),
    both("how"),
    both("verdict"),
)
MEANING = both(
    "Each bar is the privacy loss that neighbouring data really showed; the line is what the plan promises. A bar beyond "
    "the line is a broken promise. An attack can show that a promise is false. That it finds nothing does not prove "
    "the promise; the proofs do."
)
COMPUTED = both("computed from the law of the output: the truth, to 1e-12")
MEASURED = both("measured: certified from below, a false alarm below 1e-6 in all")
LINE = both("the promise")
ABOVE = (
    both("plan"),
    both("promise"),
    both("loss found, against the promise"),
    both("part of the promise"),
)
CAPABILITIES = {
    "statistics": both("Statistics"),
    "tables": both("Tables"),
    "synth": both("Synthetic data"),
    "dynamics": both("Dynamical systems"),
    "secure": both("Secure draws"),
}
HOLDS, BROKEN = both("holds"), both("BROKEN")
_WIDTH, _LINE = 100.0, 76.0  # of a bar's room; where the promise stands


def write_audit(reports: Sequence[AuditReport], path: str | Path, *, language: str | None = None) -> Path:
    """One self-contained page with a bar for each plan, and a row for each pair of neighbours behind it."""
    broken = [report for report in reports if report.verdict != "holds"]
    cards = [_card(both("Broken promises"), broken)] if broken else []
    kind = [report.plan.partition(".")[0] for report in reports]
    for name, group in groupby(sorted(zip(kind, range(len(reports)), strict=True)), key=lambda pair: pair[0]):
        title = CAPABILITIES.get(name, Words(name, name))
        cards.append(_card(title, [reports[place] for _, place in group]))
    legend = (
        f"<span>{_sign('computed')}{say(COMPUTED)}</span><span>{_sign('measured')}{say(MEASURED)}</span>"
        f"<span>{_sign('line')}{say(LINE)}</span>"
    )
    intro = f'<section class="card">{say(MEANING, "p")}<div class="signs">{legend}</div></section>'
    known = sum(report.how == "computed" for report in reports)
    chips = (
        f'<span class="chip">{say(both("{number} plans").fill(number=len(reports)))}</span>'
        f'<span class="chip">{say(both("{number} computed").fill(number=known))}</span>'
        f'<span class="chip">{say(both("{number} broken").fill(number=len(broken)))}</span>'
    )
    body = f'<main class="sheet">{intro}{"".join(cards)}</main>'
    target = Path(path)
    page = render(
        title=both("Audit: every promise under attack"),
        body=body,
        subtitle=chips,
        language=language,
    )
    write_page(target, page)
    return target


def _card(title: Words, reports: Sequence[AuditReport]) -> str:
    above = f'<div class="plan-head">{"".join(say(words) for words in ABOVE)}</div>'
    return f'<section class="card">{say(title, "h2")}{above}{"".join(_plan(report) for report in reports)}</section>'


def _plan(report: AuditReport) -> str:
    held, closest = report.verdict == "holds", report.closest
    share = _share(closest)
    found = f"{'=' if closest.how == 'computed' else '≥'} {_percent(share)}"
    head = "".join(f"<th>{say(words)}</th>" for words in HEADS)
    rows = "".join(_row(finding) for finding in report.findings)
    return (
        f'<details class="plan{"" if held else " broken"}"><summary><span class="name">{escape(report.name or report.plan)}'
        f'</span><span class="promised">{escape(report.guarantee.unconditional)}</span>{_bar(share, closest.how, held)}'
        f'<span class="found">{escape(found)}</span>{say(HOLDS if held else BROKEN, attributes="class=said")}</summary><p class="quiet">{escape(report.plan)}, {report.trials:,} '
        f'{say(both("trials in each world"))}</p><div class="scroll"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div></details>"
    )


def _row(finding: Finding) -> str:
    is_so = "=" if finding.how == "computed" else "≥"
    cells = (
        Words.sentence(finding.where),
        Words.same(about(finding.promised)),
        Words.same(f"{is_so} {about(finding.eps_lower)}"),
        Words.sentence(finding.how),
        HOLDS if finding.holds else BROKEN,
    )
    why = say(Words.sentence(finding.why), "td")
    return f"<tr>{why}{''.join(say(cell, 'td') for cell in cells)}</tr>"


def _bar(share: float, how: str, held: bool) -> str:
    """The found loss as a part of the promise; the line stands at the whole of it."""
    length = min(share * _LINE, _WIDTH)
    described = both("{how}: {share} of the promise").fill(how=Words.sentence(how), share=_percent(share))
    return (
        f'<svg class="bar" viewBox="0 0 {_WIDTH:g} 22" preserveAspectRatio="none" role="img" {label(described)}>'
        f'<rect class="room" x="0" y="4" width="{_LINE:g}" height="14"/>'
        f'<rect class="{how if held else "beyond"}" x="0" y="4" width="{max(length, 0.4):.2f}" height="14"/>'
        f'<line class="line" x1="{_LINE:g}" x2="{_LINE:g}" y1="0" y2="22"/></svg>'
    )


def _sign(name: str) -> str:
    inside = (
        '<line class="line" x1="17" x2="17" y1="0" y2="14"/>'
        if name == "line"
        else f'<rect class="{name}" x="0" y="1" width="34" height="12"/>'
    )
    return f'<svg viewBox="0 0 34 14" aria-hidden="true">{inside}</svg>'


def _share(finding: Finding) -> float:
    return min(finding.eps_lower / max(float(finding.promised), 1e-12), 9.99)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share < 9.99 else "> 999%"
