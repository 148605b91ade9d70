"""Two parties over TCP, with TLS 1.3 and a certificate on each side that the other one knows beforehand."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError, ParameterError
from oboro.files import reads
from oboro.secure import messages
from oboro.secure.group import PeerError
from oboro.secure.party import check_private

SECONDS = 60.0  # without a byte from the other party


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are (NAME.pem) and the one whom we talk to (the certificate that it gave us, NAME.crt).

    >>> from pathlib import Path
    >>> _ = ob.secure.create("carrier"), ob.secure.create("city")
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
            self.send(messages.pack(messages.REFUSED, why.encode()[:500]))


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
