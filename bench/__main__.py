"""Runs every measurement: `make bench`, or one part: `make bench PART=tables`. Prints ratios, saves bench-results.json."""

from __future__ import annotations

import importlib
import importlib.util
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import oboro
from bench.measure import Row

PARTS = (
    "accuracy",
    "start",
    "ledger",
    "noise",
    "statistics",
    "before",
    "selections",
    "learning",
    "tables",
    "trees",
    "areas",
    "series",
    "widths",
    "sparse",
    "subtrees",
    "secure",
    "dynamics",
    "synth",
    "cluster",
    "service",
    "peers",
)


TOGETHER = {
    "accuracy": ("accuracy", "accuracy_tables", "accuracy_choices"),
    "synth": ("synth", "synth_wide", "synth_table"),
}  # parts that are several modules, whichever are there; each can be asked for by its own name


def modules(part: str) -> list[str]:
    names = [f"bench.{name}" for name in TOGETHER.get(part, (part,))]
    return [name for name in names if importlib.util.find_spec(name) is not None]


def main() -> None:
    asked = sys.argv[1:] or PARTS
    if unknown := set(asked) - {*PARTS, *(name for several in TOGETHER.values() for name in several)}:
        sys.exit(f"PART={' '.join(sorted(unknown))}: no such part; there are {', '.join(PARTS)}")
    done: list[Row] = []
    print(f"{'':42} {'ours':>10} {'peer':>10}  {'ratio':>8} {'target':>8}")
    for part in asked:
        every = (row for name in modules(part) for row in importlib.import_module(name).rows())
        for row in every:
            done.append(row)
            mark = "" if row.target is None else ("reached" if row.reached else "MISSED")
            target = "" if row.target is None else f"{row.target:g}"
            print(
                f"{row.what:42} {row.ours:10.4g} {row.theirs:10.4g}  {row.ratio:8.3g} {target:>8} {row.unit}, {row.peer} {mark}",
                flush=True,
            )
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "oboro": oboro.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rows": [row.to_dict() for row in done],
    }
    Path("bench-results.json").write_text(json.dumps(record, indent=1))
    print("\nsaved bench-results.json")


main()
