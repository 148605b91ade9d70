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

# How many times fewer trials a kind gets, because one takes so long. What is computed needs few to begin with.
SLOW = {
    "statistics.tree": 40,
    "statistics.lloyd_clusters": 40,
    "statistics.sample_and_aggregate": 20,
    "statistics.perceptron": 4,
    "statistics.quantile joint": 20,
    "statistics.quantile splitting": 100,
    "synth.marginals": 100,
    "synth.quality": 100,
    "synth.moments": 100,
    "tables.table tree": 40,
    "tables.table filtered": 100,
    "tables.table fourier": 100,
    "tables.table threshold": 50,
    "tables.table adaptive": 100,
    "tables.table hierarchy": 10,
    "tables.table privelet2d": 4,
    "dynamics.signal discrete": 20,
}


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
        slow = slowness(plan)
        report = run(
            plan,
            max(FEWEST, trials // slow),
            search=search if slow < 20 else search // 4,
            alarm=alarm / len(chosen),
            bits=bits,
        )
        yield replace(report, name=name)


def slowness(plan: Any) -> int:
    """How many times fewer trials a plan gets."""
    forms = [getattr(plan, name, None) for name in ("strategy", "method", "noise")]
    found = [SLOW.get(f"{plan.kind} {form}", 1) for form in forms if isinstance(form, str)]
    return max([SLOW.get(plan.kind, 1), *found])
