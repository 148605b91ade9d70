"""The audit page: what each plan promises, and what an attack on it could certify, as bars against a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from oboro.audit import AuditReport, Finding
from oboro.exact import about
from oboro.files import write_whole
from oboro.report.page import Words, escape, label, render, say

HEADS = (
    Words("neighbours", "隣り合うデータ"),
    Words("", ""),
    Words("promised", "約束"),
    Words("found", "見つかった値"),
    Words("how", "方法"),
    Words("verdict", "判定"),
)
MEANING = Words(
    "Each bar is the privacy loss that neighbouring data really showed; the line is what the plan promises. A bar beyond "
    "the line is a broken promise. An attack can show that a promise is false. That it finds nothing does not prove "
    "the promise; the proofs do.",
    "棒は隣り合うデータが実際に示したプライバシー損失、線は計画の約束です。棒が線を越えれば約束は破られています。攻撃は約束が偽であることを示せますが、"
    "何も見つからないことは約束の証明ではなく、証明は別にあります。",
)
COMPUTED = Words(
    "computed from the law of the output: the truth, to 1e-12", "出力の分布から計算した真の値(誤差 1e-12)"
)
MEASURED = Words(
    "measured: certified from below, a false alarm below 1e-6 in all",
    "測定:確かめた下限。誤って破れたとする確率は全体で 1e-6 未満",
)
LINE = Words("the promise", "約束")
ABOVE = (
    Words("plan", "計画"),
    Words("promise", "約束"),
    Words("loss found, against the promise", "見つかった損失（約束に対して）"),
    Words("part of the promise", "約束に対する割合"),
)
CAPABILITIES = {
    "statistics": Words("Statistics", "統計量"),
    "tables": Words("Tables", "表"),
    "synth": Words("Synthetic data", "合成データ"),
    "dynamics": Words("Dynamical systems", "動的システム"),
    "secure": Words("Secure draws", "秘匿抽選"),
}
HOLDS, BROKEN = Words("holds", "守られた"), Words("BROKEN", "破られた")
_WIDTH, _LINE = 100.0, 76.0  # of a bar's room; where the promise stands


def write_audit(reports: Sequence[AuditReport], path: str | Path, *, language: str | None = None) -> Path:
    """One self-contained page with a bar for each plan, and a row for each pair of neighbours behind it."""
    broken = [report for report in reports if report.verdict != "holds"]
    cards = [_card(Words("Broken promises", "破られた約束"), broken)] if broken else []
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
        f'<span class="chip">{say(Words(f"{len(reports)} plans", f"計画 {len(reports)} 件"))}</span>'
        f'<span class="chip">{say(Words(f"{known} computed", f"計算 {known} 件"))}</span>'
        f'<span class="chip">{say(Words(f"{len(broken)} broken", f"破れ {len(broken)} 件"))}</span>'
    )
    body = f'<main class="sheet">{intro}{"".join(cards)}</main>'
    target = Path(path)
    page = render(
        title=Words("Audit: every promise under attack", "監査：すべての約束への攻撃"),
        body=body,
        subtitle=chips,
        language=language,
    )
    write_whole(target, page.encode())
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
        f'{say(Words("trials in each world", "回の試行(それぞれ)"))}</p><div class="scroll"><table><thead><tr>{head}</tr>'
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
    described = Words("{how}: {share} of the promise", "{how}：約束の {share}").fill(
        how=Words.sentence(how), share=_percent(share)
    )
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
