"""Files: what a command has opened to read is never written over, and what is written is there whole or not at all.

An input is noted where it is opened, whatever option or file named it; an output is compared with all of them where
it is written. So no spelling of an option, no link and no other name of the same file gets past.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError, ParameterError, told
from oboro.kinds import path_of

BESIDE_SQLITE = ("-journal", "-wal", "-shm")  # what SQLite may keep beside a file, now or later


@dataclass(frozen=True, slots=True)
class _Input:
    """A file that was opened to be read: the places that lead to it, and which file it was then."""

    places: frozenset[str]
    identity: tuple[int, int] | None


_noted: list[_Input] | None = None  # None outside of a command: a program may write what it has read


@contextmanager
def sparing() -> Iterator[None]:
    """What is read while this lasts cannot be written over. A command is one such time."""
    global _noted
    before, _noted = _noted, []
    try:
        yield
    finally:
        _noted = before


def reads(path: str | os.PathLike[str], *beside: str) -> None:
    """Notes a file that is, or is about to be, opened; `beside` are endings of files that belong to it."""
    if _noted is not None:
        # a database that is reached through a link keeps what belongs to it beside the link's target
        names = {os.fspath(path), os.path.realpath(path)}
        _noted.extend(_input(f"{name}{ending}") for name in names for ending in ("", *beside))


def check_output(path: Path, *beside: str) -> None:
    """Refuses, before anything is paid for, what could not be written afterwards; `beside` goes out with it."""
    for one in (path, *(path.with_name(path.name + ending) for ending in beside)):
        target = path_of("output", one)
        refuse_input(target)
        _refuse_other_than_file(target)
    handle, probe = _fresh(path)
    os.close(handle)
    with suppress(OSError):
        os.unlink(probe)


def refuse_input(path: Path, spare: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuses a path that leads to an input, or to one of `spare`, or to where something of them may yet come to stand."""
    place, identity = _place(path), _identity(path)
    for one in [*(_noted or ()), *(_input(os.fspath(name)) for name in spare)]:
        same = identity is not None and identity in (one.identity, *map(_identity, one.places))
        if same or place in one.places:
            raise ParameterError(
                "the output would overwrite an input",
                given=told(output=f"{path}"),
                needed="a name that is none of the files that are read, nor one beside a ledger",
                fix=f"-o published-{path.name}",
            )


def write_whole(path: Path, content: bytes, *, spare: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Writes a file so that it is there whole or not at all, also after a crash. Never over an input, nor over `spare`.

    A link is replaced by the file; what it led to stays.
    """
    path = path_of("path", path)
    refuse_input(path, spare)
    _refuse_other_than_file(path)
    handle, pending = _fresh(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(pending, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(pending)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from None
        raise


def _fresh(path: Path) -> tuple[int, Path]:
    """A new file in the same folder, under a name that nobody could foresee, or lay a link at."""
    pending = path.parent / f".oboro-{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(pending, flags, 0o666), pending
    except OSError as error:
        raise _unwritable(path, error) from None


def _refuse_other_than_file(path: Path) -> None:
    """A folder cannot be replaced by a file; and whoever may replace a device should not."""
    with suppress(OSError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DataError(f"{path} cannot be written", given="not a file", fix="the path of a file")


def _input(path: str) -> _Input:
    return _Input(frozenset({_place(path), os.path.realpath(path)}), _identity(path))


def _place(path: str | os.PathLike[str]) -> str:
    """The name in its folder, whatever links lead to the folder. Defined also where there is no file yet."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be written",
        given=error.strerror or str(error),
        fix="a folder that exists and may be written",
    )
