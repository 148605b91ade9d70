"""The workers of a Spark, as those who do tasks; workers.py has processes of one machine.

Each task is a partition of its own. What it holds, keys of streams among it, goes from the driver's memory to the worker that does it: by
sockets, through the memory of Spark's own processes. It is in no name, description, plan or setting of a job, which is what event logs
and Spark's pages show, nor in an error: a task that fails gives the kind of its exception, and to Spark it has not failed.

Spark does a task again if its worker dies, and with speculation twice at once. Each attempt reads what was written down before the first
bit, compares its hash, and begins its streams from the same keys: so all attempts give the same (noise/streams.py).
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from oboro._version import __version__
from oboro.engine.cluster import SparkTable, in_words
from oboro.errors import DataError, ParameterError, setting, told
from oboro.kinds import path_of
from oboro.tables.subtrees.workers import Task, attempt, failed


def shared_by_workers(shared: object, data: object) -> str:
    """The folder that all workers reach. Refuses data that lies in no Spark, or in one that hands out no tasks."""
    place = path_of("shared", shared)
    if not isinstance(data, SparkTable):
        raise ParameterError(
            "a folder is shared by the workers of a Spark",
            given=f"data that is no table of a Spark: {type(data).__name__}",
            needed="ob.engine.spark(session).table(...)",
            fix=setting(shared=None),
            argument="shared",
        )
    if type(data.frame.sparkSession).__module__.startswith("pyspark.sql.connect"):
        raise ParameterError(
            "by Spark Connect no tasks are handed out",
            given="a table of a Connect server",
            needed="a SparkSession that this program has started: ob.engine.spark(session)",
            fix=setting(shared=None, workers=2),
            argument="shared",
        )
    if not place.is_absolute() or not place.is_dir():
        raise ParameterError(
            "this is no folder that workers could share",
            given=told(shared=str(place)),
            needed="the path of a folder that there is, from the root: the same on every machine",
            fix=setting(shared="/mnt/private"),
            argument="shared",
        )
    return str(place)


def in_cluster(data: SparkTable) -> int:
    """How many tasks the cluster does at once."""
    with in_words():
        return int(data.frame.sparkSession.sparkContext.defaultParallelism)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a worker has: its oboro, and whether it can write to the folders."""

    folders: tuple[str, ...]

    def do(self) -> tuple[str, bool]:
        return __version__, all(os.access(folder, os.W_OK | os.X_OK) for folder in self.folders)


class Executors:
    """The workers of the Spark that a table lies in."""

    def __init__(self, table: SparkTable) -> None:
        self._context = table.frame.sparkSession.sparkContext
        self._at_once = in_cluster(table)

    def check(self, folders: Sequence[str]) -> None:
        """Refuses workers that have no oboro or another one, or that cannot write to the folders. Before anything is paid for."""
        with in_words("the workers of the cluster cannot load oboro", given="a first job, which failed"):
            found = [one for _, one in self._replies([Reach(tuple(folders))] * (2 * self._at_once))]
        if versions := {version for version, _ in found} - {__version__}:
            raise DataError(
                "the workers of the cluster have another oboro",
                given=", ".join(sorted(versions)),
                needed=__version__,
            )
        if not all(reached for _, reached in found):
            raise DataError(
                "not all workers of the cluster can write to the folders",
                given=", ".join(str(Path(folder).parent) for folder in folders),
                needed="folders that every worker reaches by the same path, as the user that runs this program",
            )

    @contextmanager
    def job(self) -> Iterator[None]:
        """Around a job that Spark does by itself: if it is not waited for any more, it is told to end. It may still take a while."""
        tag = f"oboro-{secrets.token_hex(8)}"
        self._context.addJobTag(tag)
        try:
            yield
        except Exception:
            with suppress(Exception):
                self._context.removeJobTag(tag)
            raise
        except BaseException:
            # what this thread says to Spark would wait until the job is done: another one has a line of its own
            teller = Thread(target=self._cancel, args=(tag,))
            teller.start()
            teller.join()
            raise
        self._context.removeJobTag(tag)

    def _cancel(self, tag: str) -> None:
        with suppress(Exception):
            self._context.cancelJobsWithTag(tag)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        with in_words("the workers of the cluster could not do their part"):
            replies = self._replies(tasks)
        for good, found in replies:
            if not good:
                raise failed(found)
        return [found for _, found in replies]

    def _replies(self, tasks: Sequence[Task]) -> list[tuple[bool, Any]]:
        handed = [pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks]
        if not handed:
            return []
        return [pickle.loads(reply) for reply in _handed_out(self._context, handed).map(_done).collect()]

    def close(self) -> None:
        """They are not ours to end."""


def _done(task: bytes) -> bytes:
    return pickle.dumps(attempt(_Packed(task)), pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A task that is unpacked where it is done: if that fails, no more is told of it than of the task itself."""

    task: bytes

    def do(self) -> Any:
        return pickle.loads(self.task).do()


def _handed_out(context: Any, tasks: list[bytes]) -> Any:
    """Each in a partition of its own. By a socket: with its encryption of files off, Spark would write them to one on their way."""
    by_socket = context._encryption_enabled
    context._encryption_enabled = True
    try:
        return context.parallelize(tasks, len(tasks))
    finally:
        context._encryption_enabled = by_socket
