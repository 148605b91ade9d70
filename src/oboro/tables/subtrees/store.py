"""The cells of a table, written down before the first bit is drawn: sorted, in files of Arrow, each with its hash.

Two steps. Batches of records, as they come, are sorted and written as *runs*. Then each *file* takes its range of prefixes from all
runs, adds up what is one cell, and is hashed. Which prefixes go into which file follows from how many records there are: files are as
private as the data, and are deleted when the release is done.

Whoever reads a file afterwards compares its hash first: a pass that is repeated must see what the first saw (noise/streams.py).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.errors import DataError, told
from oboro.tables.cells import Cells, sort_cells

_RECORDS = 1 << 22  # in a run
_PIECE = 1 << 22  # bytes hashed at a time
_NAME = "oboro-cells-"
_TRIES = 1000


class Changed(Exception):
    """What was written down is not there any more, or is something else."""


class NoRoom(DataError):
    """Cells cannot be written down: a disk is full, or a folder is not to be written to."""

    def __init__(self, given: str = "a disk that is full, or a folder that cannot be written to") -> None:
        super().__init__(
            "the cells cannot be written down",
            given=given,
            needed="a folder with room for 16 bytes a record, twice, that nobody else can read",
            fix="TMPDIR=/path/of/a/larger/disk",
        )


@dataclass(frozen=True, slots=True)
class File:
    """Cells of the prefixes from `first` to before `end`."""

    path: str
    first: int
    end: int
    sha256: str


class Private:
    """A folder that its owner alone can read, for as long as a run lasts.

    It is locked by the process that made it. A process that was killed leaves its folder, and no lock: the next one on
    this machine deletes that. `within` is a folder that several machines share: others' locks may not be seen there, so nothing
    of it is deleted.
    """

    sealed = False  # somebody who makes folders that are missing may still want to write there

    def __init__(self, within: str | None = None) -> None:
        try:
            if within is None:
                _check_wanted()
                delete_left_behind()
            while True:
                self.path = tempfile.mkdtemp(prefix=_NAME, dir=within)
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                _locked(self._lock, wait=True)  # for whoever is about to delete it
                if os.path.isdir(self.path):  # not deleted by another before it was locked
                    return
                os.close(self._lock)  # pragma: no cover
        except OSError:
            raise NoRoom from None

    def remove(self) -> None:
        replaced(self.path) if self.sealed else removed(self.path)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def delete_left_behind() -> None:
    """Deletes the folders of processes that are gone, and of this user. What another process holds is left alone."""
    try:
        with os.scandir(tempfile.gettempdir()) as found:
            folders = [one.path for one in found if one.name.startswith(_NAME)]
    except PermissionError:  # a folder that all may write to, and nobody may list
        return
    for folder in folders:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(handle).st_uid == os.getuid() and _locked(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _check_wanted() -> None:
    """Refuses another place than the one that was asked for, which may be the only disk that is encrypted."""
    wanted = os.environ.get("TMPDIR")
    if wanted and not os.access(wanted, os.W_OK | os.X_OK):
        raise NoRoom(told(TMPDIR=wanted))


def _locked(handle: int, wait: bool = False) -> bool:
    import fcntl  # not on Windows, where published tables are read

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or this kind of disk knows no locks of folders
        return False
    return True


def removed(folder: str) -> None:
    """Deletes a folder, also while somebody still writes to it: once it is gone nobody can."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return


def replaced(folder: str) -> None:
    """Deletes a folder, and leaves an empty file of its name: then no folder can be made there any more."""
    for _ in range(_TRIES):
        with suppress(OSError):
            gone = f"{folder}-{secrets.token_hex(8)}"
            os.rename(folder, gone)
            removed(gone)
        with suppress(OSError):
            os.close(os.open(folder, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return


def written(folder: str, kind: str, columns: dict[str, Integers]) -> str:
    """Whole numbers as a file of Arrow under a name of its own: two attempts at once do not meet."""
    import pyarrow as pa

    path = Path(folder) / f"{kind}-{secrets.token_hex(8)}.arrow"
    arrays = [
        pa.Array.from_buffers(pa.int64(), each.size, [None, pa.py_buffer(np.ascontiguousarray(each))])
        for each in columns.values()
    ]
    table = pa.table(arrays, names=list(columns))
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError:
        raise NoRoom from None
    return str(path)


def read(path: str) -> list[Integers]:
    """The columns of such a file, mapped into memory."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(path)).read_all()
    return [_numbers(column) for column in table.columns]


def _numbers(column: Any) -> Integers:
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), 8 * chunk.offset)
        for chunk in column.chunks
        if len(chunk)
    ]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate([np.empty(0, np.int64), *chunks])


def digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as handle:
        while piece := handle.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def write_runs(
    folder: str, batches: Iterator[tuple[Integers, Integers]], bits: int, prefix_bits: int, most: int
) -> tuple[Integers, list[str]]:
    """Records as sorted runs, and how many there are below each prefix."""
    weights, runs = np.zeros(1 << prefix_bits, np.int64), []
    for keys, counts in _gathered(batches):
        weights += np.bincount(keys >> (bits - prefix_bits), minlength=weights.size)
        runs.append(write_run(folder, keys, counts, bits, most))
    return weights, runs


def _gathered(batches: Iterator[tuple[Integers, Integers]]) -> Iterator[tuple[Integers, Integers]]:
    """Batches of about as many records as a run has."""
    held: list[tuple[Integers, Integers]] = []
    size = 0
    for batch in batches:
        for start in range(0, batch[0].size, _RECORDS):
            piece = (batch[0][start : start + _RECORDS], batch[1][start : start + _RECORDS])
            held.append(piece)
            size += piece[0].size
            if size >= _RECORDS:
                yield _together(held)
                held, size = [], 0
    if size:
        yield _together(held)


def _together(held: list[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    keys, counts = (np.concatenate([each[i] for each in held]).astype(np.int64) for i in (0, 1))
    return keys, counts


def write_run(folder: str, keys: Integers, counts: Integers, bits: int, most: int) -> str:
    """Some records, sorted; both arrays are overwritten. Sums that stop at `most` are the same in any order."""
    cells = sort_cells(keys, counts, bits, most)
    return written(folder, "run", {"key": cells.keys, "count": cells.counts})


def write_file(
    folder: str, runs: Sequence[str], first: int, end: int, below: int, bits: int, most: int
) -> tuple[File, Cells]:
    """The cells of a range of prefixes, from all runs; `below` bits come after a prefix."""
    found = []
    for run in runs:
        keys, counts = read(run)
        start, stop = np.searchsorted(keys, [first << below, end << below])
        found.append((keys[start:stop], counts[start:stop]))
    keys, counts = (np.concatenate([np.empty(0, np.int64), *(each[i] for each in found)]) for i in (0, 1))
    cells = sort_cells(keys, counts, bits, most)
    path = written(folder, "cells", {"key": cells.keys, "count": cells.counts})
    return File(path, first, end, digest(path)), cells


def cells_of(files: Sequence[File], first: int, end: int, below: int) -> Cells:
    """The cells of a range of prefixes, from files that are still what they were."""
    found = []
    for file in files:
        if file.first < end and first < file.end:
            keys, counts = _verified(file)
            start, stop = np.searchsorted(keys, [first << below, end << below])
            found.append((keys[start:stop], counts[start:stop]))
    if len(found) == 1:
        return Cells(*found[0])
    keys, counts = (np.concatenate([np.empty(0, np.int64), *(each[i] for each in found)]) for i in (0, 1))
    return Cells(keys, counts)


def _verified(file: File) -> list[Integers]:
    """What is hashed is what is used: the file is read once."""
    import pyarrow as pa

    try:
        content = Path(file.path).read_bytes()
    except OSError:
        raise Changed from None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise Changed
    return [_numbers(column) for column in pa.ipc.open_file(pa.py_buffer(content)).read_all().columns]


def ranges(weights: Integers, number: int) -> list[tuple[int, int]]:
    """All places, cut into at most so many ranges of about the same weight, none of them empty."""
    reached = np.cumsum(weights)
    wanted = np.arange(1, number) * (int(reached[-1]) / number if reached.size else 0)
    cuts = np.unique(np.searchsorted(reached, wanted, side="left") + 1)
    bounds = [0, *cuts[cuts < weights.size].tolist(), weights.size]
    return [(a, b) for a, b in pairwise(bounds) if a < b]
