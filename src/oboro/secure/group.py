"""The prime-order group of ed25519, through libsodium: points and scalars are 32 bytes each.

Scalars come from `oboro.noise.bits`, 512 bits reduced modulo the order: uniform within 2^-259. Arithmetic on secret
scalars is libsodium's, in constant time. Every point from outside passes `checked_point`: it must be on the curve,
in its canonical form and in the subgroup of prime order. A point with a torsion part would keep it through
re-randomisation, and mark an entry.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from nacl import bindings

from oboro.errors import OboroError, ParameterError
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


# From m G back to m: baby steps and giant steps over a public range.
#
# A point and its negative differ in one bit of their 32 bytes, so a table of B multiples of the base point recognises
# 2 B + 1 numbers. The table of sqrt(8 R) multiples for a range of R is made once, by `make_ready` while there is time;
# then an opening takes at most a sixteenth as many steps.
# The time depends on the number found, which is the noisy answer: public.

LARGEST_RANGE = 2**34
_LARGEST_TABLE = 2**17
_SIGN = 0x80


def check_range(low: int, high: int) -> None:
    """Refuses a range that could not be searched."""
    if high < low or high - low >= LARGEST_RANGE:
        raise ParameterError(
            "the range of the noisy answer cannot be searched",
            given=f"{low} to {high}",
            needed=f"at most {LARGEST_RANGE:,} values, the noise included",
            fix="narrower bounds, or a coarser step of the answer",
        )


def make_ready(low: int, high: int) -> None:
    """Makes the table for a range before it is needed."""
    check_range(low, high)
    _multiples(_reach(low, high))


def find(point: bytes, low: int, high: int) -> int | None:
    """The m in [low, high] with m G = point, or None."""
    check_range(low, high)
    reach = _reach(low, high)
    table = _multiples(reach)
    stride = base(scalar_of(2 * reach + 1))
    centre = low + reach
    rest = subtract(point, base(scalar_of(centre)))
    while centre - reach <= high:
        j = table.get(_unsigned(rest))
        if j is not None:
            found = centre + j if rest == base(scalar_of(j)) else centre - j
            return found if low <= found <= high else None
        rest = subtract(rest, stride)
        centre += 2 * reach + 1
    return None


def _reach(low: int, high: int) -> int:
    return min(_LARGEST_TABLE, high - low + 1, isqrt(8 * (high - low + 1)) + 1)


@lru_cache(maxsize=4)
def _multiples(reach: int) -> dict[bytes, int]:
    """0, 1, ..., reach times the base point, without their signs."""
    table, one, point = {IDENTITY: 0}, base(scalar_of(1)), IDENTITY
    for j in range(1, reach + 1):
        point = add(point, one)
        table[_unsigned(point)] = j
    return table


def _unsigned(point: bytes) -> bytes:
    return point[:31] + bytes([point[31] & ~_SIGN])
