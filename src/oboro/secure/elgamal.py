"""EC-ElGamal on ed25519: numbers in the exponent, so that ciphertexts can be added.

    public key  H = x G
    encrypt     (r G, r H + m G) for a fresh random r
    add         point by point: the sum of two ciphertexts encrypts the sum
    renew       add a fresh encryption of 0: r is then uniform and independent of everything before
    decrypt     m G = second - x first, and m by search in a range that is public (see `logarithm`)

Privacy
    Without x a ciphertext shows nothing of m, if decisional Diffie-Hellman is hard on ed25519. With x, and even with
    the randomness of every ciphertext that went into a sum, a renewed sum shows m alone: (r G, r H) is uniform on
    the encryptions of 0. Not secure against quantum computers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oboro.noise.bits import Bits
from oboro.secure import group

CIPHERTEXT = 2 * group.POINT  # bytes
Ciphertext = bytes


@dataclass(frozen=True, slots=True)
class SecretKey:
    """The scalar x. Whoever has it can open every ciphertext under its public key."""

    scalar: bytes = field(repr=False)

    @classmethod
    def generate(cls, bits: Bits) -> SecretKey:
        return cls(group.random_scalar(bits))

    @property
    def public(self) -> bytes:
        """The public key, a point."""
        return group.base(self.scalar)


def encrypt(public: bytes, number: int, bits: Bits) -> Ciphertext:
    """Anyone's way to encrypt."""
    r = group.random_scalar(bits)
    return group.base(r) + group.add(group.times(r, public), group.base(group.scalar_of(number)))


def encrypt_own(secret: SecretKey, scalar: bytes, bits: Bits) -> Ciphertext:
    """The same, by the holder of the key: (r x + m) G is one multiplication of the base point, which is fast."""
    r = group.random_scalar(bits)
    return group.base(r) + group.base(group.multiply_add(r, secret.scalar, scalar))


def add(a: Ciphertext, b: Ciphertext) -> Ciphertext:
    """A ciphertext of the sum."""
    half = group.POINT
    return group.add(a[:half], b[:half]) + group.add(a[half:], b[half:])


def renew(public: bytes, ciphertext: Ciphertext, bits: Bits) -> Ciphertext:
    """The same number under fresh randomness: nobody can tell what it was computed from."""
    r = group.random_scalar(bits)
    return add(ciphertext, group.base(r) + group.times(r, public))


def number_point(secret: SecretKey, ciphertext: Ciphertext) -> bytes:
    """m G."""
    half = group.POINT
    return group.subtract(ciphertext[half:], group.times(secret.scalar, ciphertext[:half]))


def checked_ciphertext(data: bytes, what: str) -> Ciphertext:
    """A ciphertext from outside: two points of the prime-order group."""
    half = group.POINT
    return group.checked_point(data[:half], what) + group.checked_point(data[half:], what)
