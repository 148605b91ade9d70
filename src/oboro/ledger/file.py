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
import shlex
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from oboro.errors import LedgerError, ParameterError
from oboro.kinds import path_of
from oboro.language import opened
from oboro.payment import NOTHING_RECORDED, PERHAPS_RECORDED

if TYPE_CHECKING:
    from sqlalchemy import URL

# What several machines may share. Linux names a file system in user space fuse.<its program>.
NETWORK = re.compile(
    r"nfs4?|cifs|smb3?|smbfs|ncpfs?|afs|coda|ceph|lustre|gpfs|glusterfs|beegfs|pvfs2|davfs2?"
    r"|fuse\.(sshfs|glusterfs|ceph(-fuse)?|davfs2?|s3fs|goofys|mount-s3|gcsfuse|blobfuse2?|rclone|juicefs|mfs|smbnetfs|curlftpfs)"
)
_BESIDE = ("-journal", "-wal", "-shm")  # SQLite's own files
_LINUX = hasattr(os, "O_PATH")
_MOUNT = re.compile(rb"^mnt_id:\s*(\d+)", re.MULTILINE)

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
            fix=f"docker run -v FOLDER:{shlex.quote(str(path.parent))} in place of -v FOLDER/{shlex.quote(path.name)}:{shlex.quote(str(path))}",
        )
    if facts.st_nlink > 1:
        raise LedgerError(
            "the file has a second name." + outcome,
            given=f"{shown}: {facts.st_nlink} hard links",
            needed="one name: what belongs to the file is kept beside a name, and is not seen by the other",
            fix=f"find / -xdev -samefile {shlex.quote(str(path))}; keep the name that has a -journal or -wal beside it, if one has",
        )
    return facts.st_dev, facts.st_ino


def stands(path: Path, known: Identity) -> bool:
    """Whether the file that was opened still stands at its real path, by that one name: one call of the system.

    `identity` was asked when it was opened. What it refuses can be seen of an open file in what is looked at here: a file that was
    moved, removed or replaced, or over which another is mounted, has another number or device at this path; a second name
    is a second link. The one thing more that `identity` looks at is whether a file is mounted by itself. Over an open file
    that can only be the file itself (another has another number), whose journal stays in the folder where it is, beside the same
    name; whoever opens it by its other name looks with `identity`.
    """
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return (facts.st_dev, facts.st_ino) == known and facts.st_nlink == 1 and stat.S_ISREG(facts.st_mode)


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
        facts = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # no /proc: it cannot be told
        return None
    try:
        found = _MOUNT.search(os.read(facts, 1 << 16))
    finally:
        os.close(facts)
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


# Where a ledger lives: a path means SQLite, a URL means PostgreSQL.


@dataclass(frozen=True, slots=True)
class Place:
    """One of `path` and `url` is set. `path` is the real one; `shown` may be printed: it has no password."""

    shown: str
    path: Path | None = None
    url: URL | None = field(default=None, repr=False)
    schema: str | None = None  # of a server's database: one for each ledger

    @classmethod
    def of(cls, where: str | os.PathLike[str]) -> Place:
        text = os.fspath(where) if isinstance(where, str | os.PathLike) else ""
        if not is_address(text):
            return cls(shown=text, path=real_path(path_of("where", text)))
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            url = make_url(text).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            raise _no_address("an address that cannot be read") from None
        _refuse_hidden_password(text, url)
        named = url.query.get("schema", "" if re.search(r"[?&]schema\b", text) else None)
        if named is not None and not (isinstance(named, str) and _SCHEMA.fullmatch(named)):
            raise _no_address("a schema that is none: a small letter first, then letters, digits and _")
        shown = _without_secrets(url)
        if named is not None:
            shown += f"{'&' if '?' in shown else '?'}schema={named}"
        return cls(shown=shown, url=url.difference_update_query(["schema"]), schema=named)

    def key_path(self, ledger_id: str, key: str | os.PathLike[str] | None) -> Path:
        """Where the private key is kept: beside a file, or in the user's own folder for a server."""
        if key is not None:
            return path_of("key", key).absolute()
        if self.path is not None:
            beside = self.path.with_name(self.path.name + ".key")
            named = Path(self.shown + ".key").absolute()  # where 0.1 kept it, beside a symbolic link
            return named if named.exists() and not beside.exists() else beside
        folder = os.environ.get("OBORO_KEYS") or os.path.expanduser("~/.config/oboro/keys")
        return Path(folder, f"{ledger_id}.key").absolute()


def is_address(text: str) -> bool:
    """Whether this is the URL of a server. It is a path if not: what may be neither is refused, and none of it is shown.

    A mistyped address holds a password where nobody looks for one. So nothing is a path that has the signs of an address, or of the
    options of a connection (`host=h password=...`): it would be printed, and made into the name of a file.
    """
    if not isinstance(text, str) or not text.strip():
        raise ParameterError(
            "no place is named for the ledger",
            given="nothing that can be read",
            needed=_NEEDED,
            fix='"city.ledger"',
        )
    if not text.isprintable():
        raise ParameterError(
            "the place of the ledger has a sign in it that cannot be printed, such as the end of a line",
            given="not shown: it may hold a password",
            needed=_NEEDED,
            fix="the place without it, such as city.ledger",
        )
    if _SERVER.match(text):
        return True
    open_text = opened(text).casefold()  # full-width signs, too: with a Japanese keyboard they are soon typed
    like = open_text.lstrip().startswith("postgres") and "@" in open_text
    if like or _SCHEME.match(text) or _SCHEME.match(open_text) or "://" in open_text:
        raise _no_address("an address of another kind, or a mistyped one")
    if -1 < open_text.find(":") < open_text.rfind("@"):
        raise _no_address("a name and a password before an @")
    if "=" in open_text and (
        "pass" in open_text or not (Path(text).is_absolute() or text.startswith(("./", "../")))
    ):
        raise _no_address("options of a connection, NAME=VALUE")
    return False


_NEEDED = "a path (SQLite) or a URL that begins with postgresql://"
_SERVER = re.compile(r"(postgresql|postgres|postgresql\+psycopg)://")
# On Windows a single letter is a disk
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]%s:" % ("+" if os.name == "nt" else "*"))
_HOST = re.compile(r"[\w./,:%-]*")  # a folder with a socket has slashes
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_DATABASE = re.compile(r"[\w.$~+-]*")


def _no_address(kind: str) -> ParameterError:
    """Says what kind of text was given, and nothing of the text."""
    return ParameterError(
        "the place of the ledger is neither a path nor the URL of a server",
        given=f"{kind}; not shown, for it may hold a password",
        needed=_NEEDED,
        fix='"postgresql://user@host/database", with %40 for an @ in the password; "./a=b.ledger" is a path',
    )


def _refuse_hidden_password(text: str, url: URL) -> None:
    """Refuses a URL of which a part that may be shown could hold a piece of the password."""
    rest = text.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    users = [url.username or "", *_all(url.query.get("user", ""))]
    hosts = [url.host or "", *_all(url.query.get("host", ""))]
    sound = (
        not re.search(r"\s", text)
        and rest.count("@") == authority.count("@") <= 1
        and not any(":" in unquote(user) for user in users)
        and all(_HOST.fullmatch(host) for host in hosts)
        and _DATABASE.fullmatch(url.database or "")
    )
    if not sound:
        raise _no_address("a URL with a sign in it that must be escaped")


def _all(values: str | Sequence[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _without_secrets(url: URL) -> str:
    """User, host, port and database, as an address again; other options are left out, for a password may be among them."""
    host = url.host or ",".join(_all(url.query.get("host", ""))) or "localhost"
    user = f"{quote(url.username, safe='')}@" if url.username else ""
    number = url.port or next((one for one in _all(url.query.get("port", "")) if one.isdigit()), "")
    port = f":{number}" if number else ""
    if "/" in host:  # a folder with a socket: as it can be typed again
        return f"postgresql://{user}{port}/{url.database or ''}?host={host}"
    if ":" in host and "," not in host:  # an address of IPv6
        host = f"[{host}]"
    return f"postgresql://{user}{host}{port}/{url.database or ''}"


# What a database says when something goes wrong, in words that help. No foreign exception leaves the ledger.


@dataclass(slots=True)
class Progress:
    """How far a transaction has come: only a failure of its very last step leaves a doubt."""

    writing: bool = False
    committing: bool = False

    @property
    def outcome(self) -> str:
        if not self.writing:
            return ""
        return " " + (PERHAPS_RECORDED if self.committing else NOTHING_RECORDED)


@contextmanager
def in_words(place: Place, progress: Progress, foreign: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turns database errors into LedgerError. The cause is not chained: it would show statements and URLs."""
    said: tuple[type[Exception], ...] = (UnicodeDecodeError, *foreign)
    try:
        yield
    except said as error:
        raise worded(place, progress, error) from None


def worded(place: Place, progress: Progress, error: Exception) -> LedgerError:
    """What a database said, in words that help."""
    if isinstance(error, UnicodeDecodeError):  # SQLite quotes the damaged part of a schema in its message
        return _damaged(place, "it holds what is no text")
    raw = getattr(error, "orig", None) or error  # what SQLAlchemy says of another's error
    if isinstance(raw, sqlite3.Error):
        return _sqlite(place, raw, progress)
    return _postgres(place, raw, progress, lost=bool(getattr(error, "connection_invalidated", False)))


def _sqlite(place: Place, error: sqlite3.Error, progress: Progress) -> LedgerError:
    code = getattr(error, "sqlite_errorname", None) or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy(place, progress)
    if code == "SQLITE_FULL":
        return LedgerError(
            "the disk is full." + progress.outcome,
            given=place.shown,
            needed="free space",
            fix="make room and try again",
        )
    if code.startswith("SQLITE_IOERR"):
        return LedgerError(
            "the disk could not be read or written." + progress.outcome,
            given=f"{place.shown}: {error} ({code})",
            needed="a healthy disk with free space",
            fix="make room, or look at the disk, and try again",
        )
    if code == "SQLITE_NOTADB":
        return LedgerError(
            "the file is not a ledger", given=place.shown, fix="a ledger of its own, in a new file"
        )
    if code.startswith("SQLITE_CORRUPT"):
        return _damaged(place, error)
    if code == "SQLITE_READONLY_DBMOVED":
        return moved(place.shown, progress.outcome)
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return LedgerError(
            "the ledger cannot be opened for this: permission denied, or its folder does not exist."
            + progress.outcome,
            given=f"{place.shown}: {error}",
            needed="the right to read and write the file and its folder",
            fix=f"to read it: cp -p {_without_key(place.shown)} FOLDER, and open the copy in that folder"
            if os.path.isfile(place.shown)
            else None,
        )
    return LedgerError("the ledger cannot be used." + progress.outcome, given=f"{place.shown}: {error}")


def _postgres(place: Place, error: BaseException, progress: Progress, *, lost: bool) -> LedgerError:
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    state = getattr(error, "sqlstate", None)
    if isinstance(error, PoolTimeout) or state in ("55P03", "40001", "40P01"):
        return _busy(place, progress)
    if state in ("53100", "53200"):
        return LedgerError(
            "the disk of the server is full." + progress.outcome, given=place.shown, needed="free space"
        )
    if state is not None and state.startswith("42501"):
        return LedgerError(
            "permission denied by the server", given=f"{place.shown}: {_first_line(error, place)}"
        )
    if lost or (state or "").startswith(("08", "57P", "25P03")):
        return LedgerError(
            "the connection to the ledger was lost." + progress.outcome,
            given=place.shown,
            needed="a reachable server",
            fix=f"oboro ledger show {shlex.quote(place.shown)}, once the server is back",
        )
    if state is None and not progress.writing and not progress.committing:
        return LedgerError(
            "cannot connect to the ledger", given=f"{place.shown}: {_first_line(error, place)}"
        )
    return LedgerError(
        "the ledger cannot be used." + progress.outcome, given=f"{place.shown}: {_first_line(error, place)}"
    )


def _damaged(place: Place, why: object) -> LedgerError:
    return LedgerError(
        "the file is damaged", given=f"{place.shown}: {why}", fix="restore a backup, then `verify` it"
    )


def _busy(place: Place, progress: Progress) -> LedgerError:
    return LedgerError(
        "the ledger is busy: others have kept it locked for a minute." + progress.outcome,
        given=place.shown,
        fix="try again, or look for a process that hangs",
    )


def _first_line(error: BaseException, place: Place) -> str:
    """The server's own words, without a password that they might repeat."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if place.url is None:
        return text
    options = [one for name, given in place.url.query.items() if name not in _OPEN for one in _all(given)]
    for secret in sorted({place.url.password or "", *options} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***").replace(quote(secret), "***")
    return text


_OPEN = (
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "sslmode",
    "connect_timeout",
)  # options without a secret


def _without_key(shown: str) -> str:
    """The files of a ledger, for a shell, without its key: a copy that can pay would pay a second time."""
    beside = [shown, *(f"{shown}{ending}" for ending in ("-wal", "-shm", "-journal"))]
    return " ".join(shlex.quote(name) for name in beside if os.path.isfile(name))
