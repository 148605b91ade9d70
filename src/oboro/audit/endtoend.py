"""The same attack through the front door: real releases of neighbouring data, paid for from a real ledger.

`run` looks at what is measured. What goes out passes further hands: the runner, `publish`, the ledger's stored file. So a
few hundred releases are made of each world, read back as a reader gets them, and judged likewise; and the ledger must
have spent exactly what they cost, no more and no less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oboro.audit.findings import AuditReport
from oboro.audit.flattening import alike, released
from oboro.audit.run import ALARM, judge_worlds
from oboro.engine import open_data
from oboro.errors import ParameterError, setting
from oboro.exact import whole
from oboro.kinds import each_of, takes
from oboro.ledger import Ledger
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, compose
from oboro.release import Pair, run
from oboro.release.plan import attackable


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What releases through the runner showed, and whether the ledger's total is theirs."""

    report: AuditReport
    releases: int
    spent: Guarantee
    owed: Guarantee

    @property
    def verdict(self) -> str:
        """ "holds", or "broken": by the released values, or by the ledger."""
        return "holds" if self.report.verdict == "holds" and self.spent == self.owed else "broken"


@takes(plan=attackable, pairs=each_of(Pair))
def end_to_end(
    plan: Any,
    runs: int = 200,
    *,
    pairs: Iterable[Pair] | None = None,
    folder: str | Path | None = None,
    alarm: float = ALARM,
) -> EndToEnd:
    """Releases each world of the plan's first pair, or of `pairs`, `runs` times, with a ledger in a temporary file."""
    runs = whole("runs", runs, least=20, most=10**6)
    chosen = list(plan.neighbours())[:1] if pairs is None else list(pairs)
    total = 2 * runs * len(chosen)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        ledger = Ledger.create(
            Path(place) / "audit.ledger",
            dataset="made up",
            unit=plan.unit,
            budget=_times(plan.guarantee, total),
        )
        findings = []
        for pair in chosen:
            worlds = [
                released([run(plan, data, ledger).to_arrow() for _ in range(runs)])
                for data in (_opened(pair.one), _opened(pair.other))
            ]
            findings += judge_worlds(*alike(*worlds), plan.guarantee, pair.why, alarm / len(chosen))
        spent = ledger.spent
    owed = compose(*[plan.guarantee] * total)
    report = AuditReport(plan.kind, plan.guarantee, runs, tuple(findings))
    return EndToEnd(report, total, _plain(spent), _plain(owed))


def _opened(data: Any) -> Any:
    """Tables are opened once for all releases, as a session does."""
    import pyarrow as pa

    return open_data(data) if isinstance(data, pa.Table) else data


def _times(cost: Guarantee, count: int) -> Guarantee:
    if isinstance(cost, Conditional):
        return Conditional(_times(cost.unconditional, count), list(cost.assumptions))
    if isinstance(cost, Pure):
        return Pure(cost.eps * count)
    if isinstance(cost, ZCDP):
        return ZCDP(cost.rho * count)
    assert isinstance(cost, Approx)
    if cost.delta * count >= 1:
        raise ParameterError(
            "so many releases have no delta left",
            given=f"{count} releases at {cost}",
            needed="fewer runs, or a plan with a smaller delta",
            fix=setting(runs=20),
        )
    return Approx(cost.eps * count, cost.delta * count)


def _plain(guarantee: Guarantee) -> Guarantee:
    return guarantee.unconditional if isinstance(guarantee, Conditional) else guarantee
