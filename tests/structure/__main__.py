"""The long run of the structural attacks, outside CI: every sample of every plan, every hostile value, and the stopwatch.

python tests/structure
"""

from __future__ import annotations

import argparse
import sys

import oboro as ob
from oboro.audit import structure

TIMED = (
    "histogram",
    "mean",
    "quantile",
    "smooth median, Cauchy",
    "table, tree",
    "synthetic, marginals",
    "signal",
)


def main() -> None:
    options = argparse.ArgumentParser(description="Structural attacks on every plan.")
    options.add_argument("--trials", type=int, default=1000, help="measurements in each world, for the grid")
    options.add_argument("--rounds", type=int, default=1000, help="of the stopwatch")
    given = options.parse_args()
    samples = ob.audit.samples()
    broken = 0
    for name, plan in samples.items():
        found = structure.attack(plan, trials=given.trials)
        if found.verdict != "holds":
            broken += 1
            print(f"{name}: {found}", flush=True)
    print(f"{len(samples)} plans, {broken} broken", flush=True)
    for name in TIMED:
        plan = samples[name]
        print(
            f"{name:<24} {structure.timing(plan, next(iter(plan.neighbours())), rounds=given.rounds)}",
            flush=True,
        )
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
