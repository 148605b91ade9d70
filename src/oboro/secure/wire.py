"""What travels between two parties, and how: over TCP, with TLS 1.3 and a certificate on each side that the other one knows beforehand."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError, ParameterError
from oboro.files import reads
from oboro.secure.group import PeerError
from oboro.secure.party import check_private

# What travels between the parties, over a connection or as files. One frame for all:
#
#     "OBOROSEC"  version (2 bytes)  kind (2)  length of the body (8)  body  SHA-256 of all before (32)
#
# The hash finds damage, not malice: over a connection TLS keeps others out, and files must travel by a way that both
# parties trust. Numbers are big-endian. Bodies:
#
#     PLAN     public key (32), noise plan as canonical JSON
#     BEGIN    hash of the plan (32), bounds of the answer (8 + 8)
#     URNS     name of the urns (32), hash of the plan (32), public key (32), entries of 64 bytes each
#     ANSWER   public key (32), bounds (8 + 8), ciphertext (64)
#     DRAWN    name of the urns (32), hash of the plan (32), public key (32), bounds (8 + 8), ciphertext (64) of each answer
#     OPENED   name of the urns (32), number (8) of each answer
#     REFUSED  why, in words

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


SECONDS = 60.0  # without a byte from the other party


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are (NAME.pem) and the one whom we talk to (the certificate that it gave us, NAME.crt).

    >>> _ = ob.secure.create("city")
    >>> city = ob.secure.Identity(Path("city.pem"), peer=Path("carrier.crt"))
    """

    own: Path
    peer: Path

    def context(self, *, server: bool) -> ssl.SSLContext:
        reads(self.own)
        reads(self.peer)
        check_private(self.own)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is known, which says more than a host's name
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            context.num_tickets = 0  # no resumption: every connection shows its certificate
        try:
            context.load_cert_chain(self.own)
            context.load_verify_locations(self.peer)
        except (OSError, ssl.SSLError) as error:
            raise DataError(
                "the certificates cannot be read",
                given=f"{self.own}, {self.peer}: {error}"[:200],
                needed="our NAME.pem, and the other party's NAME.crt",
                fix="oboro secure keys NAME",
            ) from None
        return context

    def check(self, connection: ssl.SSLSocket) -> None:
        """Only the very certificate that we were given will do."""
        with _in_words(f"{self.peer}"):
            known = ssl.PEM_cert_to_DER_cert(self.peer.read_text(encoding="ascii"))
        if connection.getpeercert(binary_form=True) != known:
            raise PeerError("the other party shows another certificate", needed=str(self.peer))


@dataclass(frozen=True, slots=True)
class Channel:
    """A connection: messages out, bytes in. Every failure is a PeerError."""

    _socket: ssl.SSLSocket

    def send(self, *parts: bytes) -> None:
        with _in_words():
            for part in parts:
                self._socket.sendall(part)

    def send_all(self, parts: Iterator[bytes]) -> None:
        for part in parts:
            self.send(part)

    def read(self, count: int) -> bytes:
        with _in_words():
            data = self._socket.recv(min(count, 1 << 16))
        if not data:
            raise PeerError(
                "the other party went away in the middle",
                needed="a peer that stays until the answer is opened",
                fix="begin again: these urns count as used",
            )
        return data

    def refuse(self, why: str) -> None:
        """Tells the other party that we stop. If it is gone already, there is nobody to tell."""
        with contextlib.suppress(PeerError):
            self.send(pack(REFUSED, why.encode()[:500]))


def address(text: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ParameterError(
            "the address is not understood", given=text, needed="HOST:PORT", fix="127.0.0.1:9000"
        )
    return host.strip("[]"), int(port)


@contextmanager
def connected(where: str, identity: Identity, seconds: float = SECONDS) -> Iterator[Channel]:
    """P2's side of a connection."""
    context = identity.context(server=False)
    with contextlib.ExitStack() as stack:
        with _in_words(where):
            plain = stack.enter_context(socket.create_connection(address(where), timeout=seconds))
            secured = stack.enter_context(context.wrap_socket(plain, server_hostname=None))
        identity.check(secured)
        yield Channel(secured)


def listening(where: str) -> socket.socket:
    """A socket that waits for P2."""
    with _in_words(where):
        return socket.create_server(address(where), backlog=8)


@contextmanager
def accepted(plain: socket.socket, identity: Identity, seconds: float = SECONDS) -> Iterator[Channel]:
    """P1's side of a connection."""
    context = identity.context(server=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain)
        plain.settimeout(seconds)
        with _in_words():
            secured = stack.enter_context(context.wrap_socket(plain, server_side=True))
        identity.check(secured)
        yield Channel(secured)


@contextmanager
def _in_words(where: str = "the connection") -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError and timeouts are OSErrors
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise PeerError(
            "the connection to the other party failed",
            given=f"{where}: {reason}"[:200],
            needed="a peer that listens there, and certificates that were exchanged",
            fix="oboro secure serve ... --peer THEIR.crt",
        ) from None
