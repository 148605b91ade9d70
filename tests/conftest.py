"""Fixtures for all tests."""

from __future__ import annotations

import warnings

import pytest

from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits


@pytest.fixture
def test_bits() -> UnsafeDeterministicBits:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        return UnsafeDeterministicBits("tests")
