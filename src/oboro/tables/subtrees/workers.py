"""Processes of this machine that do tasks. One that dies is replaced, and its task is done again: with the same keys, so with the same noise.

Tasks go by pipe: what they hold, cells and keys of streams, is in no argument, environment or file. What a worker would say of an error
might quote a value: only the kind of error comes back.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from oboro.errors import DataError
from oboro.tables.subtrees.store import NoRoom

_LENGTH = struct.Struct("<Q")
_ATTEMPTS = 4
_START = "from oboro.tables.subtrees.workers import serve; serve()"


class Task(Protocol):
    def do(self) -> Any: ...


class Pool(Protocol):
    """Whoever does tasks: all of them, in any order and any number of times; the results in the order of the tasks."""

    def run(self, tasks: Sequence[Task]) -> list[Any]: ...

    def close(self) -> None: ...


class Processes:
    """So many processes of this machine."""

    def __init__(self, number: int) -> None:
        self._places: list[subprocess.Popen[bytes] | None] = [_started() for _ in range(number)]
        self._closed = False

    @property
    def ids(self) -> list[int]:
        """Of the processes that there are."""
        return [process.pid for process in self._places if process is not None]

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        waiting: SimpleQueue[int] = SimpleQueue()
        for number in range(len(tasks)):
            waiting.put(number)
        results: list[Any] = [None] * len(tasks)
        failures: list[str] = []

        def work(place: int) -> None:
            while not failures and not self._closed:
                try:
                    number = waiting.get_nowait()
                except Empty:
                    return
                good, found = self._tried(place, pickle.dumps(tasks[number], pickle.HIGHEST_PROTOCOL))
                if good:
                    results[number] = found
                else:
                    failures.append(found)

        threads = [Thread(target=work, args=(place,), daemon=True) for place in range(len(self._places))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures or self._closed:
            raise failed(failures[0] if failures else "Died")
        return results

    def _tried(self, place: int, task: bytes) -> tuple[bool, Any]:
        for _ in range(_ATTEMPTS):
            if self._closed:
                break
            process = self._places[place]
            try:
                process = self._places[place] = process or _started()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(_LENGTH.pack(len(task)) + task)
                process.stdin.flush()
                reply: tuple[bool, Any] = pickle.loads(_received(process.stdout))
                return reply
            except (OSError, EOFError):
                self._places[place] = None
                if process is not None:
                    _ended(process)
        return False, "Died"

    def close(self) -> None:
        self._closed = True  # where a run was interrupted its threads still wait for answers
        for place, process in enumerate(self._places):
            if process is not None:
                _ended(process)
            self._places[place] = None


def failed(kind: str) -> DataError:
    """What a task that cannot be done becomes; `kind` is the name of an exception, without its words."""
    if kind == "Changed":
        return DataError(
            "the cells that were written down before the noise are not what they were",
            given="a file of another hash, or none",
            needed="a folder for what is written meanwhile that nothing else writes to",
        )
    if kind == "NoRoom":
        return NoRoom()
    return DataError(
        "a worker could not do its part",
        given="one that died again and again" if kind == "Died" else kind,
        needed="memory for a part of the cells, and room for them on disk",
        fix="fewer workers",
    )


def _started() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent yet has nobody to go to
                pipe.close()
    process.wait()


def _received(pipe: Any) -> bytes:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    content: bytes = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content


def attempt(task: Task) -> tuple[bool, Any]:
    """The result of a task; or, if it fails, only how the exception is called."""
    try:
        return True, task.do()
    except Exception as error:
        return False, type(error).__name__


def serve() -> None:
    """The life of a worker: until nobody has tasks any more."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes nowhere
    while True:
        try:
            task = _received(sys.stdin.buffer)
        except EOFError:
            return
        content = pickle.dumps(attempt(pickle.loads(task)), pickle.HIGHEST_PROTOCOL)
        replies.write(_LENGTH.pack(len(content)) + content)
        replies.flush()
