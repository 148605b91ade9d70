"""`python tests/plans --tries 100000`: plan records with one field changed, as many as asked."""

from __future__ import annotations

import argparse

from mutations import Outcome, all_records, chosen, judge


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    outcome, records = Outcome(), all_records()
    for name, done, record in chosen(given.tries, given.seed):
        judge(name, done, record, records[name], outcome)
        if outcome.tries % 1000 == 0:
            print(outcome, flush=True)
    print(outcome)
    for line in outcome.broken[:50]:
        print(" ", line)
    return 1 if outcome.broken else 0


raise SystemExit(main())
