"""The audit page: what each plan promises, and what an attack on it could certify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oboro.audit import AuditReport
from oboro.exact import about
from oboro.release.files import write_whole
from oboro.report.page import escape, render, say
from oboro.report.words import Words

HEADS = (
    Words("plan", "計画"),
    Words("neighbours", "隣り合うデータ"),
    Words("delta", "delta"),
    Words("promised eps", "約束した eps"),
    Words("certified from below", "確かめた下限"),
    Words("verdict", "判定"),
)
MEANING = Words(
    "An attack can show that a promise is false. That it finds nothing does not prove the promise; the proofs do. "
    "Each lower bound is wrong with probability below 1e-6.",
    "攻撃は約束が偽であることを示せます。何も見つからないことは約束の証明ではなく、証明は別にあります。下限が誤る確率はそれぞれ 1e-6 未満です。",
)


def write_audit(reports: Sequence[AuditReport], path: str | Path, *, language: str | None = None) -> Path:
    """One self-contained page with a row for each pair of neighbours."""
    head = "".join(f"<th>{say(words)}</th>" for words in HEADS)
    rows = []
    for report in reports:
        for finding in report.findings:
            cells = (
                f"{report.plan}, {report.guarantee}",
                finding.why,
                about(finding.delta),
                about(finding.promised),
                about(finding.eps_lower),
                "holds" if finding.holds else "BROKEN",
            )
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    broken = sum(report.verdict != "holds" for report in reports)
    chip = f'<span class="chip">{len(reports)} plans, {broken} broken</span>'
    body = (
        f'<main><section class="card">{say(MEANING, "p")}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section></main>"
    )
    target = Path(path)
    write_whole(target, render(title="Audit", body=body, subtitle=chip, language=language).encode())
    return target
