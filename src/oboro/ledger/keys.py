"""The private key of a ledger: one small file that only its owner can read.

A new key is written whole under the name `<path>.<its public key>` before it is put in its place, so a
crash leaves either no key or a complete one. The same name lets a rotation that was cut short be finished
later: the ledger says which public key is in force, and that says which file to look for. One key serves
one ledger.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from oboro.errors import LedgerError, setting
from oboro.files import reads
from oboro.ledger.file import identity, sync_folder


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signs entries after `position`, until the next one.

    >>> ledger.keys()[0].public_key == ledger.public_key
    True
    """

    position: int
    public_key: str


def verify_signature(public_key: str, message: bytes, signature: bytes) -> bool:
    """Whether `signature` on `message` was made with the private half of `public_key` (hex).

    >>> signature = ledger.sign(b"a page")
    >>> ob.ledger.verify_signature(ledger.public_key, b"a page", signature)
    True
    >>> ob.ledger.verify_signature(ledger.public_key, b"another page", signature)
    False
    """
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, message)
    except (InvalidSignature, ValueError, TypeError):  # also what is no key, message or signature at all
        return False
    return True


@lru_cache(maxsize=2)
def public_half(key: Ed25519PrivateKey) -> str:
    """The public key, raw, in hex."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def make(path: Path, *, alone: bool) -> Ed25519PrivateKey:
    """A new key for a new ledger, on disk but not yet in force: `promote` puts it at `path`, once the ledger is there.

    So a creation that is cut short leaves no key at `path`, and one that is there belongs to a ledger. `alone` says that
    nobody else can be making a key for this path: what was left of others goes.
    """
    refuse_used(path)
    path, fresh = _real(path), Ed25519PrivateKey.generate()
    with _in_words(path, "written"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if alone:
            discard_pending(path)
        write_pending(path, fresh)
        sync_folder(path)
    return fresh


def refuse_used(path: Path, *, pending: bool = False) -> None:
    """A key serves one ledger: it is not taken for a second one, when the first was removed perhaps.

    `pending`: nor is one that came into force and was not yet put at `path`. Where there is no ledger, that is how a
    process that was killed leaves the key of one that was moved away since.
    """
    used = [path] if os.path.lexists(path) and _real(path).exists() else []
    if pending:
        used += _all_pending(_real(path))
    if used:
        raise LedgerError(
            "there is a private key here already, of a ledger that was moved or removed",
            given=str(used[0]),
            needed="a place without a key: a key serves one ledger, and what that one has spent stays spent",
            fix=f"move the key to where its ledger is now: mv -n {shlex.quote(str(used[0]))} {_free(used[0])}",
        )


def _free(key: Path) -> str:
    """A name beside a key, for a shell, that no file has: nothing is ever moved over another key."""
    names = (f"{key}.{number}.kept" for number in itertools.count(1))
    return shlex.quote(next(name for name in names if not os.path.lexists(name)))


def write_pending(path: Path, key: Ed25519PrivateKey) -> Path:
    """Writes a key that is not yet in force beside `path`, and returns where."""
    pending = _pending(path, public_half(key))
    with _in_words(pending, "written"):
        descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.flush()
            os.fsync(file.fileno())
    return pending


def promote(path: Path, public_key: str) -> None:
    """Puts a pending key in force, over the old one. Does nothing if another process did so already."""
    path = _real(path)
    with _in_words(path, "written"):
        with suppress(FileNotFoundError):
            os.replace(_pending(path, public_key), path)
        sync_folder(path)
    forget()


def forget() -> None:
    """No key is kept in memory that may have been replaced."""
    _untouched.clear()
    _key_in.cache_clear()
    public_half.cache_clear()


def discard_pending(path: Path) -> None:
    """Removes keys that never came into force. Only for who holds the ledger's lock, and after `load_current`."""
    with _in_words(path, "written"):
        for file in _all_pending(path):
            file.unlink(missing_ok=True)


def _all_pending(path: Path) -> list[Path]:
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return [
        file
        for file in beside
        if file.name.startswith(f"{path.name}.") and re.fullmatch(r"\.[0-9a-f]{16}", file.suffix)
    ]


def load(path: Path) -> Ed25519PrivateKey:
    """Reads a private key, and refuses one that others can read too."""
    reads(path)
    with _in_words(path, "read"), open(path, "rb") as file:
        if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise LedgerError(
                "the private key can be read by others",
                given=str(path),
                needed="a file that its owner alone can read",
                fix=f"chmod 600 {shlex.quote(str(path))}",
            )
        text = file.read(10_000)
    key = _key_in(text)
    if key is None:
        raise LedgerError(
            "the file is not an Ed25519 private key", given=str(path), needed="an unencrypted PEM file"
        )
    return key


@lru_cache(maxsize=2)
def _key_in(text: bytes) -> Ed25519PrivateKey | None:
    """The key that the bytes of a file are: those of the file as it is now, so that one that was replaced is never used."""
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def load_current(path: Path, public_key: str) -> Ed25519PrivateKey:
    """The private half of the key that is in force; finishes a rotation that was cut short.

    A file that is untouched since it was last read is not read again. Whatever stands in it, nothing is signed by another key than
    the one in force, for that is compared each time; and one that was removed, or that others can read now, is touched.
    """
    given, before = path, _touched(path)
    if (
        before is not None
        and (known := _untouched.get(given)) is not None
        and known[:2] == (public_key, before)
    ):
        return known[2]
    path = _real(path)
    if path.exists() and public_half(key := load(path)) == public_key:
        if before is not None and before == _touched(given):
            _untouched[given] = public_key, before, key
        return key
    if _pending(path, public_key).exists():
        promote(path, public_key)
    if not path.exists():
        raise LedgerError(
            "the private key of the ledger is not here; without it the ledger can only be read",
            given=f"looked for {path}",
            needed="the key that was made with the ledger",
            fix="put the key back where it was",
            argument="key",
        )
    key = load(path)  # again: whoever changed the key may have put it in its place a moment ago
    if public_half(key) != public_key:
        raise LedgerError(
            "the private key is not the one that this ledger is signed with now",
            given=f"{path}, whose public key is {public_half(key)}",
            needed=f"the key of {public_key}",
            fix="put the key back where it was",
            argument="key",
        )
    return key


_Touched = tuple[int, ...]
_untouched: dict[Path, tuple[str, _Touched, Ed25519PrivateKey]] = {}


def _touched(path: Path) -> _Touched | None:
    """What changes when a file, or what leads to it, is replaced, written to, or shown to others."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    own = facts.st_dev, facts.st_ino, facts.st_mode, facts.st_uid
    return *own, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def replaceable(path: Path) -> Path:
    """Where a new key can take the place of the old one: the real file, not a link to it or a mount of it alone.

    Otherwise the new key would stay where it was written, in a container perhaps, and the old one in its other place.
    """
    real = _real(path)
    identity(real, str(path))
    return real


def _real(path: Path) -> Path:
    """What a symbolic link leads to, now: where secrets are handed out, it leads elsewhere from time to time."""
    return Path(os.path.realpath(path))


def _pending(path: Path, public_key: str) -> Path:
    return path.with_name(f"{path.name}.{public_key[:16]}")


@contextmanager
def _in_words(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"the private key cannot be {done}",
            given=f"{path}: {error.strerror or error}",
            needed="a place that you can write to and others cannot read",
            fix=setting(key="path of the key"),
        ) from None
