"""Fixtures for all tests.

Statistical tests draw the same noise every time: each module and each test has a stream of its own. So a run that
passes passes again, and a change that breaks a law is seen as a change. Tests of the bits themselves, of the runner and of
the ledger use real ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from oboro.noise import bits
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits

# A busy machine makes no property false: how long an example takes is never a failure.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

REPEATED = ("audit", "dynamics", "noise", "secure", "statistics", "synth", "tables")


def repeatable(seed: str) -> UnsafeDeterministicBits:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        return UnsafeDeterministicBits(seed)


@pytest.fixture
def test_bits() -> UnsafeDeterministicBits:
    return repeatable("tests")


@pytest.fixture(scope="module", autouse=True)
def same_noise_for_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in REPEATED and request.path.name != "test_bits.py":
            patch.setattr(bits, "_system", repeatable(request.path.name))
        yield


@pytest.fixture(autouse=True)
def same_noise_for_a_test(
    request: pytest.FixtureRequest, same_noise_for_a_module: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.path.parent.name in REPEATED and request.path.name != "test_bits.py":
        monkeypatch.setattr(bits, "_system", repeatable(request.node.name))
