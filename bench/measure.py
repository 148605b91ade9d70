"""How a thing is timed, and what a row of the report is."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """Ours against a peer. `ratio` is above 1 where ours is better; `target` is what it must reach."""

    what: str
    ours: float
    peer: str
    theirs: float
    unit: str
    ratio: float
    target: float | None = None

    @property
    def reached(self) -> bool:
        return self.target is None or self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached}


def seconds(work: Callable[[], Any], *, repeat: int = 5) -> float:
    """Processor time of all threads, in the best of several runs, after one that is not counted."""
    work()
    return min(timed(work) for _ in range(repeat))


def timed(work: Callable[[], Any]) -> float:
    """Processor time of all threads: what else the machine does hardly matters."""
    start = time.process_time()
    work()
    return time.process_time() - start


def adopt() -> None:
    """From now on this process takes in what its children leave behind, so that `tree_time` goes on counting it. Linux alone.

    Spark ends the process that its Python workers come from, and they would go to the first process of the system, time and all.
    """
    adopting = 36  # PR_SET_CHILD_SUBREAPER
    if ctypes.CDLL(None, use_errno=True).prctl(adopting, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this system does not let a process take in its grandchildren")


def tree_time(root: int | None = None) -> float:
    """Processor time of a process, or this one, and of all that it started, what has ended included. Linux alone."""
    known = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        known[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total, left = 0, [root or os.getpid()]
    while left:
        one = left.pop()
        total += known[one][1]
        left += [process for process, (parent, _) in known.items() if parent == one]
    return total / os.sysconf("SC_CLK_TCK")


def rate_row(
    what: str,
    ours: Callable[[], Any],
    count: int,
    peer: str,
    theirs: Callable[[], Any],
    peer_count: int,
    target: float,
    repeat: int = 5,
) -> Row:
    """Rates in millions a second."""
    mine = count / seconds(ours, repeat=repeat) / 1e6
    other = peer_count / seconds(theirs, repeat=1 if peer_count < count else repeat) / 1e6
    return Row(what, mine, peer, other, "million/s", mine / other, target)
