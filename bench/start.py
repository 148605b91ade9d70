"""The start: what the first import and the first help cost, in processor time, against the limits that were set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from bench.measure import Row

STARTS = {
    "start: import oboro": (("-c", "import oboro"), 0.2),
    "start: oboro --help": (("-m", "oboro", "--help"), 0.4),
}


def rows() -> Iterator[Row]:
    for what, (arguments, most) in STARTS.items():
        taken = min(used(arguments) for _ in range(6))
        yield Row(what, taken, "the limit", most, "s", most / taken, 1.0)


def used(arguments: tuple[str, ...]) -> float:
    """Seconds of processor time of one Python process, from its start to its end."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, arguments)
    return usage.ru_utime + usage.ru_stime
