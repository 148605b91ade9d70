"""Files: what a command has opened to read is never written over, and what is written is there whole or not at all.

An input is noted where it is opened, whatever option or file named it; an output is compared with all of them where
it is written. So no spelling of an option, no link and no other name of the same file gets past.

A release that was paid for is not written over either: a file with a certificate beside it, or inside. What can be made again at
no cost, such as a page, is.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from oboro.errors import DataError, ParameterError, told
from oboro.kinds import path_of

BESIDE_SQLITE = ("-journal", "-wal", "-shm")  # what SQLite may keep beside a file, now or later


Identity = tuple[int, int]  # device and inode
Place = tuple[Identity | str, str]  # a folder, and the name in it
SYSTEM = (
    "/dev",
    "/proc",
    "/sys",
)  # what stands there belongs to the machine; but /dev/shm is a folder like others


@dataclass(frozen=True, slots=True)
class _Input:
    """A file that was opened to be read: the places that lead to it, and which file it was then."""

    places: frozenset[Place]
    identity: Identity | None
    names: frozenset[str]


_noted: list[_Input] | None = None  # None outside of a command: a program may write what it has read
_replacing = False  # whether the command may write over a release: it was told to, or gives it again
CERTIFICATE = ".certificate.json"  # is appended to the name of what it certifies
MANIFEST = "manifest.parquet"  # the list of parts in a folder of them
_HOLDS_ITS_OWN = ".oboro"


@contextmanager
def sparing() -> Iterator[None]:
    """What is read while this lasts cannot be written over. A command is one such time."""
    global _noted, _replacing
    before, _noted, _replacing = (_noted, _replacing), [], False
    try:
        yield
    finally:
        _noted, _replacing = before


def replaces_releases() -> None:
    """Says that the command may write over a release."""
    global _replacing
    _replacing = True


def reads(path: str | os.PathLike[str], *beside: str) -> None:
    """Notes a file that is, or is about to be, opened; `beside` are endings of files that belong to it."""
    if _noted is not None:
        # a database that is reached through a link keeps what belongs to it beside the link's target
        names = {os.fspath(path), os.path.realpath(path)}
        _noted.extend(_input(f"{name}{ending}") for name in names for ending in ("", *beside))


def content_of(path: str | os.PathLike[str], *, needed: str, fix: str | None = None) -> bytes:
    """All of a file that is read; in words where there is none: a folder, or a pipe, which may never end."""
    reads(path)
    given = os.fspath(path)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise DataError(f"no such file: {given}", given=given, needed=needed, fix=fix) from None
    except OSError as error:
        if os.path.isdir(path):  # some systems do not open one
            raise _not_regular(given, needed, fix) from None
        raise DataError(
            f"{given} cannot be read", given=error.strerror or str(error), needed=needed, fix=fix
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_regular(given, needed, fix)
    with os.fdopen(handle, "rb") as file:
        return file.read()


def _not_regular(given: str, needed: str, fix: str | None) -> DataError:
    return DataError(f"not a regular file: {given}", given=given, needed=needed, fix=fix)


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
        same = identity is not None and identity in (one.identity, *map(_identity, one.names))
        if same or place in one.places:
            raise ParameterError(
                "the output would overwrite an input",
                given=told(output=f"{path}"),
                needed="a name that is none of the files that are read, nor one beside a ledger",
                fix=f"-o {shlex.quote(f'published-{path.name}')}",
            )


def refuse_release(path: Path, content: bytes | None = None) -> None:
    """Refuses a path at which another release stands, with its certificate; the same bytes may be written again."""
    if _noted is None or _replacing:
        return
    with suppress(OSError):
        certified = path.with_name(path.name + CERTIFICATE).is_file() or path.suffix == _HOLDS_ITS_OWN
        if certified and path.is_file() and (content is None or path.read_bytes() != content):
            raise ParameterError(
                "the output would replace a release and its certificate",
                given=told(output=f"{path}"),
                needed="a new name; or --force, with a command that has it",
                fix=f"-o {shlex.quote(next_to(path))}",
            )


def next_to(path: Path) -> str:
    """A name beside this one that nothing has."""
    names = (f"{path.stem}-{number}{path.suffix}" for number in count(2))
    name = next(name for name in names if not os.path.lexists(path.with_name(name)))
    return str(path.with_name(name))


def write_whole(path: Path, content: bytes, *, spare: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Writes a file so that it is there whole or not at all, also after a crash. Never over an input, nor over `spare`.

    A link is replaced by the file; what it led to stays.
    """
    write_together({path: content}, spare=spare)


def write_together(files: Mapping[Path, bytes], *, spare: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Writes files that belong together: all are there or none, as far as a system can have it.

    All are written before any has its name. The last is what the others speak of: it never stands beside old ones, nor without them. What a crash between
    may leave is that it is not there yet; whatever else fails puts back what there was.
    """
    names = [path_of("path", path) for path in files]
    for path, content in zip(names, files.values(), strict=True):
        refuse_input(path, spare)
        _refuse_other_than_file(path)
        refuse_release(path, content)
    pending: list[Path] = []
    aside: list[tuple[Path, Path]] = []
    placed: list[Path] = []
    at = names[0]
    try:
        for at, content in zip(names, files.values(), strict=True):
            handle, new = _fresh(at)
            pending.append(new)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for at in reversed(names) if len(names) > 1 else ():
            if os.path.lexists(at):
                old = _pending(at)
                aside.append((old, at))  # before: it may fail between
                os.replace(at, old)
        for at, new in zip(names, pending, strict=True):
            placed.append(at)
            os.replace(new, at)
    except BaseException as error:
        waiting = [path for path, new in zip(names, pending, strict=False) if os.path.lexists(new)]
        if waiting or len(pending) < len(names):  # not all have their names
            for path in (path for path in placed if path not in waiting):
                _removed(path)
            for old, path in reversed(aside):
                with suppress(OSError):
                    os.replace(old, path)
        for new in (*pending, *(old for old, _ in aside)):
            _removed(new)
        if isinstance(error, OSError):
            raise _unwritable(at, error) from None
        raise
    for old, _ in aside:
        _removed(old)


def _removed(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _pending(path: Path) -> Path:
    """A name in the same folder that nobody could foresee."""
    return path.parent / f".oboro-{secrets.token_hex(8)}.part"


def _fresh(path: Path) -> tuple[int, Path]:
    """A new file in the same folder, under a name that nobody could foresee, or lay a link at."""
    pending = _pending(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(pending, flags, 0o666), pending
    except OSError as error:
        raise _unwritable(path, error) from None


def _refuse_other_than_file(path: Path) -> None:
    """A folder cannot be replaced by a file; whoever may replace a device should not; and some files cannot be had again."""
    if _is_of_the_system(path):
        raise DataError(
            f"{path} cannot be written",
            given="a place of the system",
            needed=f"a file outside of {', '.join(SYSTEM)}",
            fix="the path of a file",
        )
    with suppress(OSError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DataError(f"{path} cannot be written", given="not a file", fix="the path of a file")
        if _is_precious(path):
            raise ParameterError(
                "the output would overwrite a ledger or a secret key",
                given=told(output=f"{path}"),
                needed="a new name; a ledger or a key that is not needed any more is removed by hand",
                fix=f"-o {shlex.quote(f'published-{path.name}')}",
            )


def _is_of_the_system(path: Path) -> bool:
    """Whether the path, or a link on its way, lies where the machine keeps devices: /dev/stdout leads to any file."""
    at = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        folder, name = os.path.split(at)
        for one in (at, os.path.join(os.path.realpath(folder), name)):
            top = "/".join(one.split("/")[:2])
            if top in SYSTEM and not one.startswith("/dev/shm/"):
                return True
        try:
            at = os.path.abspath(os.path.join(os.path.realpath(folder), os.readlink(at)))
        except OSError:  # no link
            return False
    return False


def _is_precious(path: Path) -> bool:
    """Whether a database of SQLite (a ledger, a shelf of urns; no GeoPackage) or a private key stands there, by how it begins."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    head = os.read(handle, 100)
    if head.startswith(b"SQLite format 3\0") and head[68:72] != b"GPKG":
        return (
            True  # it stays open: to close it would drop the locks that SQLite may hold on it in this process
        )
    os.close(handle)
    return head.startswith(b"oboro secret key") or (
        head.startswith(b"-----BEGIN ") and b"PRIVATE KEY" in head
    )


def _input(path: str) -> _Input:
    names = frozenset({os.path.abspath(path), os.path.realpath(path)})
    return _Input(frozenset(map(_place, names)), _identity(path), names)


def _place(path: str | os.PathLike[str]) -> Place:
    """The name in its folder, whatever links and mounts lead to the folder. Defined also where there is no file yet."""
    folder, name = os.path.split(os.path.abspath(path))
    return _identity(folder) or os.path.realpath(folder), name


def _identity(path: str | os.PathLike[str]) -> Identity | None:
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


def in_utf8(path: Path, line: bytes = b"") -> str:
    """The command that writes a text file anew in UTF-8, for how its first line reads: Shift_JIS, mostly, and CP1252 with semicolons."""
    unicode = line.startswith((b"\xff\xfe", b"\xfe\xff"))
    written, packed = path.with_name(f"utf8-{path.name}"), path.suffix.lower() == ".gz"
    european = line.count(b";") > line.count(b",")  # as Excel separates where numbers have a decimal comma
    convert = f"iconv -f {'UTF-16' if unicode else 'CP1252' if european else 'CP932'} -t UTF-8"
    file, into = shlex.quote(str(path)), shlex.quote(str(written))
    return f"gzip -dc {file} | {convert} | gzip > {into}" if packed else f"{convert} {file} > {into}"
