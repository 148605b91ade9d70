"""The audit of everything: a sample of every kind of plan, with one false alarm in a million full runs at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from oboro.audit.findings import AuditReport
from oboro.audit.run import SEARCHED, run
from oboro.audit.samples import samples
from oboro.noise.bits import Bits

FULL_ALARM = 5e-7  # of a full run, whatever it holds
TRIALS = 40_000
FEWEST = 200


def everything(
    trials: int = TRIALS,
    *,
    plans: Mapping[str, Any] | None = None,
    search: int = SEARCHED,
    alarm: float = FULL_ALARM,
    bits: Bits | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Iterator[AuditReport]:
    """Audits the samples, or `plans` by name, with `search` random pairs each, fewer for slow ones.

    `alarm` is how likely any sound plan among them may be called broken. `watch` is told the name of each before it
    begins, how many are done, and how many there are.
    """
    chosen = samples() if plans is None else dict(plans)
    for done, (name, plan) in enumerate(chosen.items()):
        if watch is not None:
            watch(name, done, len(chosen))
        slow = plan.slowness
        report = run(
            plan,
            max(FEWEST, trials // slow),
            search=search if slow < 20 else search // 4,
            alarm=alarm / len(chosen),
            bits=bits,
        )
        yield replace(report, name=name)
