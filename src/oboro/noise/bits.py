"""Random bits: the only source of randomness in oboro.

AES-256 in counter mode under a key from the operating system, about ten times as fast as asking the
system for every word. After each refill the key is replaced by bytes of its own stream and what is
handed out is erased here, so that the state of this source, seen later, does not give back earlier words.
(What Python has freed without overwriting it, and what callers hold, is beyond its reach.) Fresh system
entropy comes in after a fork (a child never repeats its parent's stream) and after every 2 GiB.

What this promises
    The words are indistinguishable from uniform, independent words to anyone who cannot tell AES-256
    from a random permutation. All guarantees of oboro are computational in this sense: for each refill,
    |Pr[output] - Pr[ideal output]| grows by at most the advantage against AES plus q^2/2^129 for its q
    blocks, because the blocks of one stream never repeat: 2^-75 for 2 GiB at once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
import weakref
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from oboro.arrays import HalfWords, Words

_SEED_BYTES = 48  # a key of 32 bytes and a counter block of 16
_SMALLEST_REFILL = 4096  # words
_LARGEST_STEP = 1 << 17  # words encrypted at a time: 1 MiB stays in cache
_RESEED_AFTER = 1 << 28  # words
_ZEROS = bytes(8 * _LARGEST_STEP)


class Bits:
    """A stream of uniform, independent 64-bit words. Safe to share between threads, and across a fork.

    >>> bits = ob.noise.Bits()
    >>> bits.words(4).dtype, bits.integer(100) < 2**100
    (dtype('uint64'), True)
    """

    safe = True
    description = "AES-256-CTR under operating system entropy"

    _pool: Words
    _next: int

    def __init__(self) -> None:
        self._restart()
        _live.add(self)

    def words(self, count: int) -> Words:
        """The next `count` words, never handed out before or again."""
        with self._lock:
            if count > _SMALLEST_REFILL:
                return self._fresh(count)
            if count > self._pool.size - self._next:
                self._pool, self._next = self._fresh(_SMALLEST_REFILL), 0
            used = slice(self._next, self._next + count)
            words = self._pool[used].copy()
            self._pool[used] = 0
            self._next += count
            return words

    def halves(self, count: int) -> HalfWords:
        """The next `count` words of 32 bits."""
        return self.words((count + 1) // 2).view(np.uint32)[:count]

    def integer(self, bits: int) -> int:
        """A uniform integer of `bits` bits, of any width."""
        count = -(-bits // 64)
        return int.from_bytes(self.words(count).tobytes(), "little") >> (64 * count - bits)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._pool = np.empty(0, np.uint64)
        self._next = 0
        self._seed = self._entropy()
        self._until_reseed = _RESEED_AFTER

    def _entropy(self) -> bytes:
        return os.urandom(_SEED_BYTES)

    def _fresh(self, count: int) -> Words:
        """Encrypts zeros into `count` words; the first bytes of the stream become the next key."""
        if self._until_reseed <= 0:
            self._seed = self._entropy()
            self._until_reseed = _RESEED_AFTER
        self._until_reseed -= count
        stream = Cipher(algorithms.AES(self._seed[:32]), modes.CTR(self._seed[32:])).encryptor()
        self._seed = stream.update(bytes(_SEED_BYTES))
        words = np.empty(count, np.uint64)
        view = words.data.cast("B")
        zeros = memoryview(_ZEROS)
        for start in range(0, len(view), len(zeros)):
            part = view[start : start + len(zeros)]
            stream.update_into(zeros[: len(part)], part)
        return words

    def __getstate__(self) -> NoReturn:
        raise TypeError("random bits cannot be pickled or copied: two copies would draw the same noise")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description})"


class UnsafeBitsWarning(UserWarning):
    """Deterministic bits are in use: the noise can be subtracted by anyone who knows the seed."""


class UnsafeDeterministicBits(Bits):
    """A repeatable stream FOR TESTS ONLY. A release made with it protects nobody."""

    safe = False
    description = "UNSAFE deterministic bits: protects nobody"

    def __init__(self, seed: str) -> None:
        warnings.warn(
            f"noise from UnsafeDeterministicBits({seed!r}) protects nobody", UnsafeBitsWarning, stacklevel=2
        )
        self._text = seed
        super().__init__()

    def _entropy(self) -> bytes:
        return hashlib.shake_256(b"oboro unsafe test bits " + self._text.encode()).digest(_SEED_BYTES)


_live: weakref.WeakSet[Bits] = weakref.WeakSet()


def _forked() -> None:
    """In a child, before anything else runs: new keys, and new locks (the old may be held by lost threads)."""
    for bits in list(_live):
        bits._restart()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)

_system: Bits | None = None


def system_bits() -> Bits:
    """The default source, one for the process.

    >>> ob.noise.DiscreteLaplace(10).sample((2, 3), ob.noise.system_bits()).shape
    (2, 3)
    """
    global _system
    if _system is None:
        _system = Bits()
    return _system
