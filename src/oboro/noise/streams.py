"""Streams of bits for the sub-trees of one table: each its own, whoever computes it and however often.

A table that is too large for one process is cut at public prefixes of its keys. What lies below a prefix draws from a stream of
its own, AES-256-CTR under a key that is derived here:

    master       32 bytes of the bits that `run` hands in: drawn after the reservation, kept in the driver's memory alone
    key(p, e)    HKDF-Expand-SHA-256(master, label | digest of the plan | bits of p | p | epoch e), 48 bytes

A worker is handed keys, never the master. The epoch says for which pass over the sub-tree the key is: what is drawn in one pass
is added to other numbers than what is drawn in another, so that each has a key of its own.

Privacy
    1. Different streams. The fields of the label have fixed lengths, so that different (plan, bits, p, e) are different inputs.
       HMAC-SHA-256 under a uniform key is a pseudorandom function, and HKDF-Expand gives it each input twice, with a counter
       [Krawczyk 2010; RFC 5869]. So keys of different (p, e) cannot be told from uniform, independent ones, and by the proof of
       `noise.bits` neither can their streams. No two runs share a master but by chance, 2^-256.
    2. A pass that is run twice. A stream begins anew for each attempt, and is a function of its key. If the input is the same,
       so is all that the attempt computes: it shows nothing that the first did not. That it *is* the same does not follow from
       here: with other counts under the same key the difference of two answers would be the difference of the counts, without
       noise. So the cells are written down and hashed before the master is drawn, and each attempt reads what was written and
       compares the hash before it begins a stream (tables/subtrees).
    3. A fork, and two GiB. `Bits` asks the system for a new key then. Here that would be a second law for a repeated pass; and to
       begin anew under the same key would repeat noise. So after a fork a stream is over, in the child, and so is the master: what
       the child's own bits gave the top of the tree would be another input. A reseed derives the next key under a number that
       never comes twice.
"""

from __future__ import annotations

import hashlib
import os
from typing import NoReturn

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from oboro.arrays import Integers, Words
from oboro.noise.bits import Bits

_LABEL = b"oboro sub-tree, stream 1"
_NEXT = b"oboro sub-tree, reseed 1"
KEY_BYTES = 48  # an AES key of 32 and a counter block of 16


class Streams:
    """The keys of all streams of one measurement. Made in the driver, after the reservation; it stays there."""

    def __init__(self, bits: Bits, plan: bytes) -> None:
        self.__master = bits.words(4).tobytes()
        self.__plan = hashlib.sha256(plan).digest()
        self.__process = os.getpid()

    def key(self, prefix_bits: int, prefix: int, epoch: int) -> bytes:
        """The key of the sub-tree below a prefix of so many bits, for one pass over it. Over in a child process after a fork."""
        if os.getpid() != self.__process:
            raise RuntimeError(
                "a master key does not go on after a fork: parent and child would draw the same"
            )
        info = b"".join(
            [
                _LABEL,
                self.__plan,
                prefix_bits.to_bytes(1, "big"),
                prefix.to_bytes(8, "big"),
                epoch.to_bytes(4, "big"),
            ]
        )
        return HKDFExpand(SHA256(), KEY_BYTES, info).derive(self.__master)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a master key is neither pickled nor copied: workers get the keys of their sub-trees")

    def __repr__(self) -> str:
        return "Streams(a master key that is not shown)"


class SubtreeBits(Bits):
    """The stream of one key, from its beginning. Over in a child process after a fork."""

    description = (
        "AES-256-CTR under a key of its own for each sub-tree, derived from operating system entropy"
    )

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._key = key
        self._seeds = 0
        self._over = False
        super().__init__()

    def _restart(self) -> None:
        if self._seeds:  # a fork: parent and child would draw the same
            self._over = True
        super()._restart()

    def _entropy(self) -> bytes:
        self._seeds += 1
        info = _NEXT + self._seeds.to_bytes(8, "big")
        # the counter block is hashed in: the whole key counts
        return HKDFExpand(SHA256(), KEY_BYTES, info + self._key[32:]).derive(self._key[:32])

    def _fresh(self, count: int) -> Words:
        if self._over:
            raise RuntimeError("a sub-tree's stream does not go on after a fork: begin it from its key")
        words: Words = super()._fresh(count)
        return words


def keys_of(streams: Streams, prefix_bits: int, prefixes: Integers, epoch: int) -> list[bytes]:
    """The keys of several sub-trees for one pass."""
    return [streams.key(prefix_bits, prefix, epoch) for prefix in prefixes.tolist()]
