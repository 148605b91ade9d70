"""The prime-order group of ed25519, through libsodium: points and scalars are 32 bytes each.

Scalars come from `oboro.noise.bits`, 512 bits reduced modulo the order: uniform within 2^-259. Arithmetic on secret
scalars is libsodium's, in constant time. Every point from outside passes `checked_point`: it must be on the curve,
in its canonical form and in the subgroup of prime order. A point with a torsion part would keep it through
re-randomisation, and mark an entry.
"""

from __future__ import annotations

from nacl import bindings

from oboro.errors import OboroError
from oboro.noise.bits import Bits

# What goes wrong between two parties.
#
#     OboroError
#     └── PeerError          the other party, or a file from it, sent something that cannot be used, or went away
#         └── UsedError      urns that were used before
#
# No text of these errors depends on an answer, an index or an entry.


class PeerError(OboroError):
    """The other party sent something that cannot be used, or went away."""


class UsedError(PeerError):
    """Urns are used once. These were used before, or may have been."""


ORDER = 2**252 + 27742317777372353535851937790883648493
POINT = 32  # bytes
IDENTITY = bytes([1]) + bytes(31)


def random_scalar(bits: Bits) -> bytes:
    """A uniform scalar that is not 0."""
    while True:
        scalar: bytes = bindings.crypto_core_ed25519_scalar_reduce(bits.words(8).tobytes())
        if any(scalar):
            return scalar


def scalar_of(number: int) -> bytes:
    """A whole number, of either sign, as a scalar."""
    return (number % ORDER).to_bytes(32, "little")


def multiply_add(a: bytes, b: bytes, c: bytes) -> bytes:
    """a b + c of scalars."""
    product: bytes = bindings.crypto_core_ed25519_scalar_mul(a, b)
    total: bytes = bindings.crypto_core_ed25519_scalar_add(product, c)
    return total


def base(scalar: bytes) -> bytes:
    """The scalar times the base point."""
    if not any(scalar):  # libsodium refuses to return the identity
        return IDENTITY
    point: bytes = bindings.crypto_scalarmult_ed25519_base_noclamp(scalar)
    return point


def times(scalar: bytes, point: bytes) -> bytes:
    """The scalar times a checked point."""
    product: bytes = bindings.crypto_scalarmult_ed25519_noclamp(scalar, point)
    return product


def add(a: bytes, b: bytes) -> bytes:
    total: bytes = bindings.crypto_core_ed25519_add(a, b)
    return total


def subtract(a: bytes, b: bytes) -> bytes:
    difference: bytes = bindings.crypto_core_ed25519_sub(a, b)
    return difference


def is_point(data: bytes) -> bool:
    """Whether these bytes are a point of the prime-order group, other than the identity."""
    return len(data) == POINT and bool(bindings.crypto_core_ed25519_is_valid_point(data))


def checked_point(data: bytes, what: str) -> bytes:
    """A point from outside; `what` is how an error calls it."""
    if not is_point(data):
        raise PeerError(
            f"{what} is not a point of the prime-order group of ed25519",
            needed="32 bytes as the other party's oboro wrote them",
            fix="send it again; if it comes again, do not trust the sender",
        )
    return data
