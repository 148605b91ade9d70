"""The start, in processor time: an import, help, a first private mean, and the first demo against a later one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bench.measure import Row

MEAN = """
import sys, oboro as ob
domain = ob.Domain([ob.Integer("age", 0, 120), ob.Integer("income", 0, 1_000_000)])
ledger = ob.Ledger.create(sys.argv[1] + ".ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1))
print(ob.Session("people.csv", domain=domain, ledger=ledger).mean("income", eps="0.5"))
"""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder, number = Path(name), count()
        people = "".join(f"{i % 90},{1000 * i % 99_000}\n" for i in range(5000))
        (folder / "people.csv").write_text("age,income\n" + people)
        yield _limit("start: import oboro", min(used(folder, "-c", "import oboro") for _ in range(6)), 0.2)
        yield _limit("start: oboro --help", min(used(folder, "-m", "oboro", "--help") for _ in range(6)), 0.4)
        means = (used(folder, "-c", MEAN, str(next(number))) for _ in range(6))
        yield _limit("start: a private mean of a CSV file", min(means), 0.8)

        def demo(cache: int) -> float:
            line = ("-m", "oboro", "demo", "-o", f"demo{next(number)}")
            return used(folder, *line, NUMBA_CACHE_DIR=str(folder / f"compiled{cache}"))

        first = min(demo(cache) for cache in range(3))
        later = min(demo(0) for _ in range(3))
        yield Row("start: the first oboro demo", first, "a later one", later, "s", later / first, 0.5)


def used(folder: Path, *arguments: str, **variables: str) -> float:
    """Seconds of processor time of one Python process, from its start to its end."""
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, **variables}
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, arguments)
    return usage.ru_utime + usage.ru_stime


def _limit(what: str, taken: float, most: float) -> Row:
    return Row(what, taken, "the limit", most, "s", most / taken, 1.0)
