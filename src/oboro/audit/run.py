"""The attack on any plan: neighbouring data through the same `prepare` and `measure` as a real release.

What it can show is that a promise is false. That it finds nothing does not prove a promise; the proofs do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.audit.events import Event, Floats, judge, statistics
from oboro.errors import ParameterError
from oboro.exact import about, whole
from oboro.noise.bits import Bits, system_bits
from oboro.privacy import Approx, Guarantee, Pure
from oboro.release import Pair, Plan

ALARM = 1e-7  # of one audit: all its pairs and deltas together
DELTAS = (Fraction(1, 100), Fraction(1, 10_000))  # where a Rényi or zCDP promise is looked at


@dataclass(frozen=True, slots=True)
class Finding:
    """One pair at one delta: what was promised there, and what the trials certify."""

    why: str
    delta: Fraction
    promised: Fraction
    eps_lower: float
    event: Event | None

    @property
    def holds(self) -> bool:
        return self.eps_lower <= self.promised


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an attack found. `eps_lower` is certified: larger than the truth with probability below 1e-6."""

    plan: str
    guarantee: Guarantee
    trials: int
    findings: tuple[Finding, ...]

    @property
    def eps_lower(self) -> float:
        return max((finding.eps_lower for finding in self.findings), default=0.0)

    @property
    def verdict(self) -> str:
        """ "holds" (nothing was found against the promise) or "broken"."""
        return "holds" if all(finding.holds for finding in self.findings) else "broken"

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "guarantee": self.guarantee.to_dict(),
            "trials": self.trials,
            "verdict": self.verdict,
            "eps_lower": self.eps_lower,
            "findings": [
                {
                    "pair": f.why,
                    "delta": float(f.delta),
                    "promised": float(f.promised),
                    "eps_lower": f.eps_lower,
                    "holds": f.holds,
                }
                for f in self.findings
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.plan}, {self.guarantee}, {self.trials:,} trials a world"]
        for f in self.findings:
            sign = "<=" if f.holds else "> "
            lines.append(
                f"  measured eps >= {about(f.eps_lower)} {sign} {about(f.promised)} promised at delta {about(f.delta)}: {f.why}"
            )
        return "\n".join(lines)


def run(
    plan: Plan, trials: int = 200_000, *, pairs: Iterable[Pair] | None = None, bits: Bits | None = None
) -> AuditReport:
    """Attacks a plan on its own worst-case neighbours, or on `pairs`. Spends nothing: the data are made up."""
    trials = whole("trials", trials, least=1000, most=10**8)
    chosen = list(plan.neighbours() if pairs is None else pairs)
    if not chosen:
        raise ParameterError(
            "the plan names no neighbours",
            given=plan.kind,
            needed="at least one pair to attack",
            fix="pairs=[Pair(one, other, why)]",
        )
    source = bits or system_bits()
    levels = promised(plan.guarantee)
    findings = []
    for pair in chosen:
        worlds = [
            flat(plan.measure(plan.prepare(data), source, trials), trials) for data in (pair.one, pair.other)
        ]
        if worlds[0].shape != worlds[1].shape:  # how much comes out tells the worlds apart for certain
            findings += [Finding(pair.why, delta, eps, math.inf, None) for delta, eps in levels]
            continue
        one, other = statistics(worlds[0], worlds[1])
        for delta, eps in levels:
            found = judge(one, other, float(delta), ALARM / (len(chosen) * len(levels)))
            findings.append(Finding(pair.why, delta, eps, found.eps_lower, found.event))
    return AuditReport(plan.kind, plan.guarantee, trials, tuple(findings))


def promised(guarantee: Guarantee) -> list[tuple[Fraction, Fraction]]:
    """The promise as a list of (delta, eps) that can be tested."""
    plain = guarantee.unconditional
    if isinstance(plain, Pure):
        return [(Fraction(0), plain.eps)]
    if isinstance(plain, Approx):
        return [(plain.delta, plain.eps)]
    return [(delta, plain.to_approx(delta).eps) for delta in DELTAS]


def flat(measured: Any, trials: int) -> Floats:
    """Measurements of any shape as one row of numbers for each trial."""
    parts = (
        measured.values()
        if isinstance(measured, dict)
        else measured
        if isinstance(measured, tuple | list)
        else [measured]
    )
    rows = [np.asarray(part).reshape(trials, -1) for part in parts]
    return np.concatenate(rows, axis=1).astype(np.float64)
