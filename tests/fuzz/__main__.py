"""The long run of the fuzzer, outside CI:

    python tests/fuzz --examples 100000

First each argument of each public function is given each of the hostile values, one at a time; then come so many bad
inputs of every kind by chance. Prints how many bad inputs were tried and every foreign exception, with the input that gives it. Exit code 1 if any.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import time

from fuzz_trying import Tally, bad_inputs, sweep, try_many
from fuzz_world import World

MEMORY = 12 << 30  # bytes: whoever asks for more is stopped
SHARES = {"call": 0.2, "document": 0.06, "record": 0.2, "text": 0.04, "message": 0.48, "command": 0.02}


def main() -> None:
    options = argparse.ArgumentParser(description="Bad inputs for every public function, parser and command.")
    options.add_argument(
        "--examples", type=int, default=100_000, help="bad inputs, beside the sweep of every argument"
    )
    options.add_argument("--only", nargs="+", help="targets whose kind or name begins so")
    given = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    world, tally, start = World.make(), Tally(), time.perf_counter()
    try:
        if not given.only:
            sweep(world, tally)
        for kind, targets in bad_inputs(world).items():
            each = max(1, round(given.examples * SHARES[kind] / len(targets)) + 1)
            for name, bad in targets.items():
                if given.only and not any(
                    text.startswith(only) for text in (kind, name) for only in given.only
                ):
                    continue
                began, found = time.perf_counter(), len(tally.foreign)
                try_many(world, kind, name, bad, each, tally, None)
                took = time.perf_counter() - began
                if took > 20 or len(tally.foreign) > found:
                    print(
                        f"{kind} {name}: {took:.0f} s, {len(tally.foreign) - found} new",
                        file=sys.stderr,
                        flush=True,
                    )
    finally:
        shutil.rmtree(world.folder, ignore_errors=True)
        print(f"{tally}\n{time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(1 if tally.foreign else 0)


if __name__ == "__main__":
    main()
