"""The file of a SQLite ledger: one file, one name, one journal.

SQLite keeps a journal beside the *name* by which a file was opened. A process that is killed in the middle of a write
leaves it there, and whoever comes next by another name misses it: the file is torn, or what was spent is rolled back
later. So a ledger is used by one name alone.

    symbolic links, `..`              the real path is taken, for the file, its journal and its key
    a mounted folder                  is fine: by all its names it is one folder, with one journal in it
    a file mounted by itself          refused; its folder can be mounted instead
    two hard links                    refused
    a network file system             refused where Linux says that it is one: its locks cannot be relied on
    moved, removed or replaced        refused by those who have it open, before they write and after
    upper and lower case              is one name where the folder says so, for the file and for its journal

A copy is another file and cannot be told from the first: docs/promise.md says what follows.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from oboro.errors import LedgerError

# What several machines may share. Linux names a file system in user space fuse.<its program>.
NETWORK = re.compile(
    r"nfs4?|cifs|smb3?|smbfs|ncpfs?|afs|coda|ceph|lustre|gpfs|glusterfs|beegfs|pvfs2|davfs2?"
    r"|fuse\.(sshfs|glusterfs|ceph(-fuse)?|davfs2?|s3fs|goofys|mount-s3|gcsfuse|blobfuse2?|rclone|juicefs|mfs|smbnetfs|curlftpfs)"
)
_BESIDE = ("-journal", "-wal", "-shm")  # SQLite's own files
_LINUX = hasattr(os, "O_PATH")

Identity = tuple[int, int]  # device and inode


def real_path(given: str | os.PathLike[str]) -> Path:
    """Where a file really lies, or will. Unlike `abspath`, `..` after a symbolic link is where the system says."""
    try:
        path = Path(os.path.realpath(given))
    except OSError as error:  # the working folder was removed
        raise _unresolved(given, error.strerror or str(error)) from None
    if _seen(given) != _seen(path):  # such as by way of another process's root, /proc/1/root
        raise _unresolved(given, f"by its real path, {path}, it is another file")
    if path.name.endswith(_BESIDE):
        raise LedgerError(
            "the file has a name of SQLite's own",
            given=str(given),
            needed=f"a name that does not end in {', '.join(_BESIDE)}",
            fix='"city.ledger"',
        )
    return path


def refuse_network(path: Path, shown: str) -> None:
    """Refuses a folder whose locks and writes are those of another machine, where that can be told."""
    try:
        _, mount = _looked_at(path.parent)
    except OSError:
        return  # there is nothing here yet: SQLite will say so
    kind = _file_system(path.parent, mount)
    if NETWORK.fullmatch(kind):
        raise LedgerError(
            "the file lies on a network file system",
            given=f"{shown}: {kind}",
            needed="a disk of this machine: over a network, locks and writes cannot be relied on",
            fix="a local folder, or for several machines a ledger on postgresql://",
        )


def identity(path: Path, shown: str, outcome: str = "") -> Identity:
    """Which file stands at a real path now. Refuses one that has, or may have, a second name.

    `outcome` says what became of a write that went on meanwhile.
    """
    try:
        (facts, mount), (folder, above) = _looked_at(path), _looked_at(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        raise moved(shown, outcome) from None
    except OSError as error:
        raise LedgerError(
            "the file cannot be looked at." + outcome, given=f"{shown}: {error.strerror or error}"
        ) from None
    if not stat.S_ISREG(facts.st_mode):
        raise LedgerError("this is not a file", given=shown, fix='"city.ledger"')
    # An overlay has files of several devices in one folder, so devices are compared only where mounts are unknown.
    if mount != above or (mount is None and _is_mount_point(path, facts, folder)):
        raise LedgerError(
            "the file is mounted by itself." + outcome,
            given=f"{shown} is a mount point",
            needed="its folder as the mount: what belongs to the file is kept beside it, and would be left behind",
            fix=f"docker run -v FOLDER:{path.parent} in place of -v FOLDER/{path.name}:{path}",
        )
    if facts.st_nlink > 1:
        raise LedgerError(
            "the file has a second name." + outcome,
            given=f"{shown}: {facts.st_nlink} hard links",
            needed="one name: what belongs to the file is kept beside a name, and is not seen by the other",
            fix=f"find / -xdev -samefile {path}; keep the name that has a -journal or -wal beside it, if one has",
        )
    return facts.st_dev, facts.st_ino


def moved(shown: str, outcome: str) -> LedgerError:
    """What is said to those who have a file open that no longer stands under its name."""
    return LedgerError(
        "the file was moved, removed or replaced while it was open." + outcome,
        given=shown,
        needed="the file that was opened, in its place",
        fix="put it back, or open it anew; if a copy took its place, `verify` it against a head that was kept",
    )


def sync_folder(path: Path) -> None:
    """A name is durable only when its folder is."""
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _looked_at(path: Path) -> tuple[os.stat_result, int | None]:
    """A file or folder itself, not what a link leads to, and the mount that it is reached by, where Linux tells.

    O_PATH: to close any other handle of a file would drop the locks that SQLite holds on it in this process.
    """
    if not _LINUX:
        return os.lstat(path), None
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.fstat(handle), _mount_of(handle)
    finally:
        os.close(handle)


def _mount_of(handle: int) -> int | None:
    try:
        with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as facts:
            found = re.search(r"^mnt_id:\s*(\d+)", facts.read(), re.MULTILINE)
    except (FileNotFoundError, PermissionError):  # no /proc: it cannot be told
        return None
    return None if found is None else int(found[1])


def _is_mount_point(path: Path, facts: os.stat_result, folder: os.stat_result) -> bool:
    if not _LINUX:
        return facts.st_dev != folder.st_dev
    return any(point == os.fsencode(path) for _, point, _ in _mounts())


def _file_system(folder: Path, mount: int | None) -> str:
    """What kind of file system a folder lies on, or nothing if that cannot be told."""
    found, longest = "", -1
    for number, point, kind in _mounts():
        if number == mount:
            return kind
        if os.fsencode(folder / "x").startswith(point.rstrip(b"/") + b"/") and len(point) >= longest:
            found, longest = kind, len(point)
    return found if mount is None else ""


def _mounts() -> list[tuple[int, bytes, str]]:
    """Number, place and kind of each mount, as Linux tells this process."""
    try:
        with open("/proc/self/mountinfo", "rb") as lines:
            parts = [line.split(b" ") for line in lines]
    except (FileNotFoundError, PermissionError):
        return []
    unquoted = re.compile(rb"\\([0-7]{3})")
    return [
        (
            int(part[0]),
            unquoted.sub(lambda sign: bytes([int(sign[1], 8)]), part[4]),
            part[part.index(b"-") + 1].decode(),
        )
        for part in parts
    ]


def _seen(path: str | os.PathLike[str]) -> Identity | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _unresolved(given: str | os.PathLike[str], why: str) -> LedgerError:
    return LedgerError(
        "the file has no name that can be relied on",
        given=f"{os.fspath(given)}: {why}",
        needed="a plain path",
    )
