"""Tasks that something happens to: for workers of other processes, which load them from here."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oboro.noise.bits import Bits
from oboro.tables.subtrees import store, tasks
from oboro.tables.subtrees.workers import Task


def attempts(marker: str) -> int:
    """How many attempts came before this one."""
    number = 0
    while True:
        try:
            os.close(os.open(f"{marker}-{number}", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            number += 1


@dataclass(frozen=True)
class Dies:
    """Its first attempt kills the Python that does it, or with `all` the process of Spark that this belongs to."""

    task: Task
    marker: str
    all: bool = False

    def do(self) -> Any:
        if attempts(self.marker) == 0:
            own, daemon = os.getpid(), os.getppid()
            above = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(above if self.all else own, signal.SIGKILL)
            threading.Event().wait()
        return self.task.do()


@dataclass(frozen=True)
class Twice:
    """Its first attempt goes on when a second has begun: with speculation they run at the same time."""

    task: Task
    marker: str

    def do(self) -> Any:
        if attempts(self.marker) == 0:
            while not Path(f"{self.marker}-1").exists():
                threading.Event().wait(0.05)
        return self.task.do()


@dataclass(frozen=True)
class Faulty:
    """Done by a worker with a planted fault: bits of its own system, or cells that it reads without their hash."""

    task: Task
    fault: str

    def do(self) -> Any:
        before = tasks.SubtreeBits, store._verified
        try:
            if self.fault == "system bits":
                tasks.SubtreeBits = lambda key: Bits()  # type: ignore[assignment, misc, return-value]
            else:
                store._verified = lambda file: store.read(file.path)
            return self.task.do()
        finally:
            tasks.SubtreeBits, store._verified = before  # type: ignore[misc]
