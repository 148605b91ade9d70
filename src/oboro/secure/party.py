"""A party's files: its ElGamal key, and who it is in a connection.

    NAME.secret   the secret key, for its owner alone
    NAME.public   the public key, to encrypt answers with
    NAME.pem      TLS key and certificate, for its owner alone
    NAME.crt      the certificate, for the other party to recognise this one by

The TLS key is made by OpenSSL with its own randomness: it protects the connection, not a noise.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from oboro.errors import DataError, LedgerError
from oboro.files import BESIDE_SQLITE, reads
from oboro.kinds import path_of, takes
from oboro.ledger.file import identity, real_path, refuse_network
from oboro.noise.bits import Bits, system_bits
from oboro.secure import group
from oboro.secure.elgamal import SecretKey
from oboro.secure.group import UsedError

_SECRET, _PUBLIC = "oboro secret key 1", "oboro public key 1"
_YEARS = 10


@takes(name=path_of)
def create(name: str | Path, bits: Bits | None = None) -> dict[str, Path]:
    """Makes all four files of a party. Nothing is ever overwritten.

    >>> sorted(ob.secure.create("city"))
    ['crt', 'pem', 'public', 'secret']
    """
    paths = {kind: path_of("name", f"{name}.{kind}") for kind in ("secret", "public", "pem", "crt")}
    for path in paths.values():
        if path.exists():
            raise DataError(f"{path} exists already", needed="a name that is not taken", fix="another name")
    secret = SecretKey.generate(bits or system_bits())
    key, certificate = _identity(Path(name).name)
    _write(paths["secret"], f"{_SECRET}\n{secret.scalar.hex()}\n".encode(), 0o600)
    _write(paths["public"], f"{_PUBLIC}\n{secret.public.hex()}\n".encode(), 0o644)
    _write(paths["pem"], key + certificate, 0o600)
    _write(paths["crt"], certificate, 0o644)
    return paths


@takes(path=path_of)
def load_secret(path: str | Path) -> SecretKey:
    """Reads a secret key, and refuses one that others can read too.

    >>> ob.secure.load_secret("carrier.secret").public == public
    True
    """
    scalar = _read(Path(path), _SECRET, private=True)
    number = int.from_bytes(scalar, "little")
    if not 0 < number < group.ORDER:
        raise _not_a_key(path, _SECRET)
    return SecretKey(scalar)


@takes(path=path_of)
def load_public(path: str | Path) -> bytes:
    """Reads a public key.

    >>> len(ob.secure.load_public("carrier.public"))
    32
    """
    point = _read(Path(path), _PUBLIC, private=False)
    if not group.is_point(point):
        raise _not_a_key(path, _PUBLIC)
    return point


def check_private(path: Path) -> None:
    """Refuses a private file that others can read."""
    try:
        mode = path.stat().st_mode
    except OSError:  # whoever opens it will say what is wrong
        return
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise DataError(
            "a private file can be read by others",
            given=str(path),
            needed="a file that its owner alone can read",
            fix=f"chmod 600 {shlex.quote(str(path))}",
        )


def _read(path: Path, title: str, *, private: bool) -> bytes:
    if private:
        check_private(path)
    reads(path)
    try:
        with path.open("rb") as file:
            lines = file.read(1000).split(b"\n")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read", given=error.strerror or str(error), fix="oboro secure keys NAME"
        ) from None
    try:
        value = bytes.fromhex(lines[1].decode("ascii")) if lines[0].decode("ascii") == title else b""
    except (ValueError, IndexError):
        value = b""
    if len(value) != 32:
        raise _not_a_key(path, title)
    return value


def _not_a_key(path: str | Path, title: str) -> DataError:
    return DataError(
        f"{path} is not a key", needed=f"a file that begins with {title!r}", fix="oboro secure keys NAME"
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(
            f"{path} cannot be written",
            given=error.strerror or str(error),
            fix="a folder that may be written",
        ) from None


def _identity(name: str) -> tuple[bytes, bytes]:
    """A key and a certificate that it signs itself: the other party keeps a copy and accepts nothing else."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:60] or "oboro")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, None)
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, certificate.public_bytes(Encoding.PEM)


# The shelf: which urns were made and which were used, on disk, so that none is ever used twice.
#
# One small SQLite file for each party. A change is on disk before the call returns (a full sync), so a process that is
# killed a moment later leaves the urns used. An older copy of the file that is put back would forget; keep it in place.

_TABLE = """CREATE TABLE IF NOT EXISTS urns (
    name BLOB PRIMARY KEY, plan TEXT NOT NULL, made TEXT NOT NULL, used TEXT) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The record of one party's urns.

    >>> shelf = ob.secure.Shelf(Path("carrier.urns"))
    >>> shelf.put(b"the first urns", "a plan")
    >>> shelf.use(b"the first urns", "a plan")
    >>> try:
    ...     shelf.use(b"the first urns", "a plan")
    ... except ob.secure.UsedError as error:
    ...     print(error.message)
    these urns were used before
    """

    path: Path

    def put(self, name: bytes, plan: str, *, used: bool = False) -> None:
        """Writes down new urns, before anyone sees them."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO urns VALUES (?, ?, ?, ?)", (name, plan, _now(), _now() if used else None)
            )

    def use(self, name: bytes, plan: str) -> None:
        """Marks urns of ours as used, once; whoever comes second is refused."""
        with self._writing() as connection:
            found = connection.execute("SELECT plan, used FROM urns WHERE name = ?", (name,)).fetchone()
            if found is None or found[0] != plan:
                raise UsedError(
                    "these urns were not made here for this plan",
                    given=f"urns {name.hex()[:16]}",
                    needed=f"urns that are written down in {self.path}",
                    fix="oboro secure urns",
                )
            if found[1] is not None:
                raise _used(name, found[1])
            connection.execute("UPDATE urns SET used = ? WHERE name = ?", (_now(), name))

    def claim(self, name: bytes, plan: str) -> None:
        """Marks urns of the other party as used, once."""
        with self._writing() as connection:
            found = connection.execute("SELECT used FROM urns WHERE name = ?", (name,)).fetchone()
            if found is not None:
                raise _used(name, found[0])
            connection.execute("INSERT INTO urns VALUES (?, ?, ?, ?)", (name, plan, _now(), _now()))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else can come between, in a file that has one name, as a ledger has."""
        path = real_path(self.path)
        reads(path, *BESIDE_SQLITE)
        refuse_network(path, str(self.path))
        if path.exists():
            identity(path, str(self.path))
        try:
            with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")  # a log beside it would be of another name
                connection.execute("PRAGMA synchronous = EXTRA")  # also after a loss of power
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            identity(path, str(self.path))
        except sqlite3.Error as error:
            raise LedgerError(
                "the record of used urns cannot be written",
                given=f"{self.path}: {error}",
                needed="a place that can be written; without it no urn may be used",
                fix="--state urns.state",
            ) from None


def _used(name: bytes, when: str) -> UsedError:
    return UsedError(
        "these urns were used before",
        given=f"urns {name.hex()[:16]}, used {when}",
        needed="fresh urns for every answer: a second draw would show part of the noise",
        fix="oboro secure urns",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
