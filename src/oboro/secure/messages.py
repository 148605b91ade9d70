"""What travels between the parties, over a connection or as files. One frame for all:

    "OBOROSEC"  version (2 bytes)  kind (2)  length of the body (8)  body  SHA-256 of all before (32)

The hash finds damage, not malice: over a connection TLS keeps others out, and files must travel by a way that both
parties trust. Numbers are big-endian. Bodies:

    PLAN     public key (32), noise plan as canonical JSON
    BEGIN    hash of the plan (32), bounds of the answer (8 + 8)
    URNS     name of the urns (32), hash of the plan (32), public key (32), entries of 64 bytes each
    ANSWER   public key (32), bounds (8 + 8), ciphertext (64)
    DRAWN    name of the urns (32), hash of the plan (32), public key (32), bounds (8 + 8), ciphertext (64) of each answer
    OPENED   name of the urns (32), number (8) of each answer
    REFUSED  why, in words
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from oboro.errors import DataError
from oboro.files import reads
from oboro.secure.group import PeerError

MAGIC = b"OBOROSEC"
VERSION = 1
PLAN, BEGIN, URNS, ANSWER, DRAWN, OPENED, REFUSED = range(1, 8)
NAMES = {
    PLAN: "plan",
    BEGIN: "beginning",
    URNS: "urns",
    ANSWER: "answer",
    DRAWN: "drawn answer",
    OPENED: "opening",
}
HEAD = struct.Struct(">8sHHQ")
BOUNDS = struct.Struct(">qq")
NUMBER = struct.Struct(">q")
DIGEST = 32
LARGEST_BODY = 1 << 20  # of all but urns, whose size the plan says

Read = Callable[[int], bytes]  # so many bytes, or fewer where there are no more


def pack(kind: int, body: bytes) -> bytes:
    """A whole message."""
    head = HEAD.pack(MAGIC, VERSION, kind, len(body))
    return head + body + hashlib.sha256(head + body).digest()


def pack_parts(kind: int, size: int, parts: Iterator[bytes]) -> Iterator[bytes]:
    """A message whose body is made while it is sent."""
    head = HEAD.pack(MAGIC, VERSION, kind, size)
    digest = hashlib.sha256(head)
    yield head
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def receive(read: Read, kind: int) -> bytes:
    """The body of the next message, which must be of this kind."""
    return b"".join(receive_parts(read, kind, None, LARGEST_BODY))


def receive_parts(read: Read, kind: int, size: int | None, part: int) -> Iterator[bytes]:
    """The body in parts; nothing in it is confirmed until the last part was taken. `size` is what it must be."""
    head = _exactly(read, HEAD.size)
    magic, version, found, length = HEAD.unpack(head)
    if magic != MAGIC:
        raise _damaged("it does not begin as a message of oboro")
    if version != VERSION:
        raise PeerError(
            "the message has another version",
            given=str(version),
            needed=str(VERSION),
            fix="the same version of oboro on both sides",
        )
    if found != kind and found != REFUSED:
        raise PeerError(
            "another message was expected",
            given=NAMES.get(found, f"kind {found}"),
            needed=NAMES.get(kind, f"kind {kind}"),
        )
    most = size if size is not None and found == kind else LARGEST_BODY
    if length > most or (size is not None and found == kind and length != size):
        raise _damaged(
            f"its length is {length:,} bytes" + ("" if size is None else f" and should be {size:,}")
        )
    digest = hashlib.sha256(head)
    refused = b""
    for start in range(0, length, part):
        piece = _exactly(read, min(part, length - start))
        digest.update(piece)
        if found == kind:
            yield piece
        else:
            refused += piece
    if _exactly(read, DIGEST) != digest.digest():
        raise _damaged("its hash does not fit")
    if found != kind:
        raise PeerError("the other party stopped", given=_printable(refused))


def unpack(kind: int, data: bytes) -> bytes:
    """The body of a message that is all there is."""
    view = memoryview(data)
    place = 0

    def read(count: int) -> bytes:
        nonlocal place
        piece = bytes(view[place : place + count])
        place += len(piece)
        return piece

    body = b"".join(receive_parts(read, kind, None, LARGEST_BODY))
    if place != len(data):
        raise _damaged(f"{len(data) - place} bytes follow its end")
    return body


def check_size(body: bytes, size: int, what: str) -> None:
    if len(body) != size:
        raise _damaged(f"{what} has {len(body)} bytes and should have {size}")


def read_file(path: str | Path, most: int = LARGEST_BODY) -> bytes:
    """A file from the other party, if it is not absurdly large."""
    reads(path)
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read", given=error.strerror or str(error), fix="the path of the file"
        ) from None
    if len(data) > most:
        raise _damaged("it is too long")
    return data


def _exactly(read: Read, count: int) -> bytes:
    parts, missing = [], count
    while missing:
        piece = read(missing)
        if not piece:
            raise _damaged("it ends too early")
        parts.append(piece)
        missing -= len(piece)
    return b"".join(parts)


def _damaged(why: str) -> PeerError:
    return PeerError(
        f"the message is damaged: {why}",
        needed="the bytes that the other party's oboro wrote",
        fix="send it again, from new urns",
    )


def _printable(text: bytes) -> str:
    """Someone else's words, made harmless."""
    return "".join(c if c.isprintable() else " " for c in text[:500].decode("utf-8", "replace"))
