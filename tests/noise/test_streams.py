"""Each sub-tree has a stream of its own: the same whenever it is begun, and no other's."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from oboro.noise import bits as module
from oboro.noise.bits import Bits, UnsafeDeterministicBits
from oboro.noise.streams import KEY_BYTES, Streams, SubtreeBits


@pytest.fixture
def streams() -> Streams:
    return Streams(Bits(), b"a plan")


def test_no_two_sub_trees_passes_plans_or_runs_share_a_key_or_a_word(streams: Streams) -> None:
    keys = [
        streams.key(bits, prefix, epoch) for bits in (0, 8, 12) for prefix in range(256) for epoch in range(3)
    ]
    keys += [Streams(Bits(), b"a plan").key(8, 5, 1)]
    with pytest.warns(module.UnsafeBitsWarning):
        one, other = (
            Streams(UnsafeDeterministicBits("same"), plan).key(8, 5, 1) for plan in (b"one", b"other")
        )
    assert len(set(keys) | {one, other}) == len(keys) + 2
    words = np.concatenate([SubtreeBits(key).words(8) for key in keys])
    assert np.unique(words).size == words.size
    assert {len(key) for key in keys} == {KEY_BYTES}


def test_every_byte_of_a_key_counts(streams: Streams) -> None:
    key = streams.key(8, 5, 1)
    for place in range(KEY_BYTES):
        other = bytes(byte ^ (at == place) for at, byte in enumerate(key))
        assert (SubtreeBits(other).words(4) != SubtreeBits(key).words(4)).all()


def test_an_attempt_that_is_repeated_draws_the_same(streams: Streams) -> None:
    key = streams.key(8, 5, 1)
    first, second = SubtreeBits(key), SubtreeBits(key)
    for count in (1, 5000, 3, 4096, 70_000):
        assert (first.words(count) == second.words(count)).all()


def test_a_stream_never_repeats_itself_after_a_reseed(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RESEED_AFTER", 10_000)
    bits = SubtreeBits(streams.key(8, 5, 1))
    drawn = np.concatenate([bits.words(6000) for _ in range(12)])
    assert np.unique(drawn).size == drawn.size
    assert bits._seeds > 3


def test_a_stream_is_over_after_a_fork(streams: Streams) -> None:
    bits = SubtreeBits(streams.key(8, 5, 1))
    before = bits.words(10)
    child = os.fork()
    if child == 0:
        try:
            bits.words(1)
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not np.isin(bits.words(10), before).any()


def test_a_master_key_is_not_shown_pickled_or_copied(streams: Streams) -> None:
    secret = streams._Streams__master  # type: ignore[attr-defined]
    assert secret.hex() not in repr(streams)
    assert repr(secret) not in repr(streams)
    for keep in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="master key"):
            keep(streams)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(SubtreeBits(streams.key(8, 5, 1)))
