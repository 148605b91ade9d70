from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest

from oboro.noise.bits import Bits, UnsafeBitsWarning, UnsafeDeterministicBits, system_bits


def test_words_are_uint64_and_as_many_as_asked() -> None:
    bits = Bits()
    for count in (0, 1, 5, 4096, 4097, 300_000):
        words = bits.words(count)
        assert words.dtype == np.uint64
        assert words.shape == (count,)


def test_every_bit_is_fair() -> None:
    words = Bits().words(1 << 20)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    # each is binomial(2^20, 1/2): 6.5 standard deviations have a false alarm of 64 * 8e-11
    assert np.all(np.abs(ones - (1 << 19)) < 6.5 * 512)


def test_two_sources_and_two_calls_never_repeat() -> None:
    one, two = Bits(), Bits()
    seen = np.concatenate([one.words(5000), one.words(100), one.words(100), two.words(5000)])
    assert np.unique(seen).size == seen.size


def test_small_requests_never_overlap() -> None:
    bits = Bits()
    seen = np.concatenate([bits.words(n % 7) for n in range(5000)])
    assert np.unique(seen).size == seen.size


def test_handed_out_words_are_erased_from_the_pool() -> None:
    bits = Bits()
    words = bits.words(10)
    assert not np.isin(words, bits._pool).any()


def test_integer_has_the_width_asked_for() -> None:
    bits = Bits()
    assert all(bits.integer(k) < 1 << k for k in (1, 31, 63, 64, 65, 200) for _ in range(50))
    assert max(bits.integer(200) for _ in range(50)) >> 190


def test_a_fork_never_repeats_the_stream() -> None:
    bits = Bits()
    bits.words(3)  # a pool that a child could repeat
    children = []
    for _ in range(3):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, bits.words(64).tobytes())
            os._exit(0)
        os.waitpid(pid, 0)
        children.append(np.frombuffer(os.read(read, 512), np.uint64))
    seen = np.concatenate([bits.words(64), *children])
    assert np.unique(seen).size == seen.size == 256


@pytest.mark.long("kills")
def test_a_fork_while_another_thread_draws_does_not_hang() -> None:
    bits = Bits()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            bits.words(100_000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                bits.words(10)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_threads_share_one_source_without_repeats() -> None:
    bits = Bits()
    parts: list[np.ndarray] = []

    def work() -> None:
        parts.extend(bits.words(37) for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = np.concatenate(parts)
    assert seen.size == 8 * 500 * 37
    assert np.unique(seen).size == seen.size


def test_fresh_entropy_comes_in_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = Bits()
    asked = []
    monkeypatch.setattr(bits, "_entropy", lambda: asked.append(1) or os.urandom(48))
    bits._until_reseed = 10_000
    for _ in range(4):
        bits.words(5000)
    assert asked


def test_bits_cannot_be_copied_or_pickled() -> None:
    with pytest.raises(TypeError, match="same noise"):
        pickle.dumps(Bits())
    with pytest.raises(TypeError, match="same noise"):
        copy.deepcopy(Bits())


def test_deterministic_bits_are_loud_and_repeatable() -> None:
    with pytest.warns(UnsafeBitsWarning, match="protects nobody"):
        one = UnsafeDeterministicBits("seed")
    with pytest.warns(UnsafeBitsWarning):
        two = UnsafeDeterministicBits("seed")
    assert not one.safe
    assert "UNSAFE" in one.description
    assert np.array_equal(one.words(5000), two.words(5000))


def test_the_default_source_is_one_and_safe() -> None:
    assert system_bits() is system_bits()
    assert system_bits().safe
