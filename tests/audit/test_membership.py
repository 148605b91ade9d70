"""The membership attack finds leaky generators, and finds nothing against sound ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.arrays import Floats
from oboro.audit import membership
from oboro.noise.bits import Bits

CROWD = np.tile([10.0, 10.0], (60, 1))
TARGET = [90.0, 90.0]
WITH, WITHOUT = np.concatenate([CROWD, [TARGET]]), CROWD


def test_a_model_that_copies_rows_is_found_out() -> None:
    rng = np.random.default_rng(1)

    def copied(data: Floats) -> Floats:
        return data[rng.integers(0, len(data), 20)]

    found = membership(copied, WITH, WITHOUT, TARGET, ob.Approx(1, "1e-3"), trials=1000)
    assert found.verdict == "broken"
    assert found.eps_lower > 1.2


def test_a_model_with_too_little_noise_is_found_out_and_one_with_enough_is_not() -> None:
    """The mean of 61 rows in [0, 100]^2 with Laplace noise: eps 1 asks for a scale of 200/61 each; a tenth of it is not enough."""
    rng = np.random.default_rng(2)

    def centre(scale: float) -> Callable[[Floats], Floats]:
        return lambda data: np.clip(data.sum(axis=0) / 61, 0, 100) + rng.laplace(scale=scale, size=(1, 2))

    assert membership(centre(200 / 61), WITH, WITHOUT, TARGET, ob.Pure(1), trials=4000).verdict == "holds"
    assert membership(centre(10 / 61), WITH, WITHOUT, TARGET, ob.Pure(1), trials=4000).verdict == "broken"


def test_the_gaussian_method_withstands_it(test_bits: Bits) -> None:
    domain = ob.Domain([ob.Integer("a", 0, 100), ob.Integer("b", 0, 100)])
    plan = ob.synth.plan(
        domain, unit=ob.Unit.row("replace"), n=61, eps=1, delta="1e-3", method="gaussian", records=4
    )
    elsewhere = np.concatenate([CROWD, [[10.0, 10.0]]])

    prepared = {
        len({*map(tuple, data)}): plan.prepare({"a": data[:, 0].astype(int), "b": data[:, 1].astype(int)})
        for data in (WITH, elsewhere)
    }

    def drawn(data: Floats) -> Floats:
        return np.asarray(plan.measure(prepared[len({*map(tuple, data)})], test_bits), float)

    assert membership(drawn, WITH, elsewhere, TARGET, plan.guarantee, trials=200).verdict == "holds"


def test_a_model_that_gives_away_how_many_rows_there_are_is_found_out() -> None:
    def as_many(data: Floats) -> Floats:
        return np.zeros((len(data), 2))

    assert membership(as_many, WITH, WITHOUT, TARGET, ob.Pure(1), trials=500).verdict == "broken"
    assert membership(lambda data: data[:0], WITH, WITHOUT, TARGET, ob.Pure(1), trials=500).verdict == "holds"


def test_what_does_not_fit_is_refused() -> None:
    good: dict[str, Any] = {"draw": lambda data: data, "one": WITH, "other": WITHOUT, "target": TARGET}
    for wrong in (
        {"target": [1.0]},
        {"other": WITH},
        {"other": WITHOUT[:, :1]},
        {"draw": 5},
        {"draw": lambda data: None},
        {"draw": lambda data: "x"},
        {"draw": lambda data: [[1, 2, 3]]},
        {"alarm": 0},
        {"alarm": "x"},
    ):
        with pytest.raises(ob.OboroError):
            membership(guarantee=ob.Pure(1), trials=100, **{**good, **wrong})
