"""Runs a command beside processes that keep every core busy: `python tools/busy.py --times 3 make test`.

No test may depend on how busy the machine is. This is how that is tried.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a command on a busy machine.")
    parser.add_argument("--times", type=int, default=1, help="how often")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    failed = 0
    try:
        for number in range(1, given.times + 1):
            start = time.monotonic()
            code = subprocess.run(given.command, check=False).returncode
            failed += code != 0
            minutes = (time.monotonic() - start) / 60
            print(
                f"run {number} of {given.times}, {cores} cores busy: exit code {code}, {minutes:.0f} minutes"
            )
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    sys.exit(f"{failed} of {given.times} runs failed" if failed else 0)


if __name__ == "__main__":
    main()
