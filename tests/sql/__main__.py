"""The long run of statements by chance, outside CI:

    python tests/sql --examples 100000 [--corpus FILE ...]

Each is refused as an input, or becomes a plan whose record makes it again and whose guarantee covers its parts. A corpus is a
file of statements, one a line, such as those that sqlglot is tested with. Prints what was tried; exit code 1 if anything else happens.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from sql_grammar import CHOICES, FIGURES, asked, bent, statement

from oboro.errors import InputError
from oboro.release import plan_from


def tried(text: str) -> str:
    """What becomes of a statement."""
    try:
        plan = asked().sql(text, eps=1)
    except InputError:
        return "refused"
    assert plan_from(plan.to_dict()) == plan
    assert plan.guarantee.covers(plan.cost)
    return "planned"


def main() -> None:
    options = argparse.ArgumentParser(description="Statements of SQL by chance.")
    options.add_argument("--examples", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--corpus", type=Path, nargs="*", default=[])
    given = options.parse_args()
    rng, tally, wrong = random.Random(given.seed), {"refused": 0, "planned": 0}, 0
    lines = [
        line
        for file in given.corpus
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    for place in range(len(lines) + given.examples):
        good = statement(rng, [*FIGURES, *CHOICES])
        text = lines[place] if place < len(lines) else good if place % 4 == 0 else bent(rng, good)
        try:
            tally[tried(text)] += 1
        except Exception as error:
            wrong += 1
            print(f"{type(error).__name__}: {error}\n  {text}", file=sys.stderr)
    print(
        f"{sum(tally.values())} statements: {tally['refused']} refused, {tally['planned']} planned, {wrong} wrong"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
