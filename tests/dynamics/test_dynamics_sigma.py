"""The paper's Theorem 1 with any Sigma: condition (10) is proved, and the noise has that shape exactly."""

from __future__ import annotations

import dataclasses
import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.dynamics import calibrate, design, estimate, plan, release
from oboro.dynamics.laws import EllipticalNoise, Record, Scale, Values
from oboro.dynamics.mixing_variable import size
from oboro.dynamics.sigma import distance_in, factor, response_square
from oboro.dynamics.system import Operator, system_from
from oboro.errors import GuaranteeError, ParameterError
from oboro.noise.bits import Bits, UnsafeDeterministicBits
from oboro.noise.laws import Normal
from oboro.noise.lazy import precision
from oboro.release import load_plan, plan_from, save_plan
from support import forged

SECOND = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])
TWO = ([["0.9"]], [["1"]], [["1"], ["2"]], [["0"], ["1"]])
UNIT = ob.Unit.signal(1)
SAID: dict[str, Any] = {"horizon": 5, "alpha": "1.5", "eps": 1, "delta": "1e-3"}


def some_sigma(count: int, times: float = 300.0) -> np.ndarray:
    half = np.random.default_rng(count).normal(size=(count, count))
    return np.round(times * (half @ half.T + np.eye(count)), 3)


@pytest.mark.parametrize("system", [SECOND, TWO], ids=["one output", "two outputs"])
@pytest.mark.parametrize("kind", ["scalar", "optimal"])
def test_a_designed_sigma_is_accepted_and_a_little_less_is_not(
    system: Any, kind: str, tmp_path: Path
) -> None:
    for method in ("theorem1", "mixture"):
        try:
            sigma = design(system, kind=kind, method=method, **SAID)
            made = plan(system, unit=UNIT, sigma=sigma, method=method, **SAID)
        except ParameterError:  # the least sigma of two outputs of one state is singular
            assert (system, kind) == (TWO, "optimal")
            return
        assert (made.where, made.noise, float(made.scale)) == ("output", "shared", 1.0)
        z = calibrate(alpha="1.5", eps=1, delta="1e-3", method=method)
        assert z * (1 - 2e-9) < float(made.sensitivity) < z * (1 - 4e-10)
        with pytest.raises(ParameterError, match="condition") as error:
            plan(system, unit=UNIT, sigma=sigma * (1 - 1e-8), method=method, **SAID)
        assert error.value.fix
        assert plan_from(made.to_dict()) == made
        save_plan(made, tmp_path / "plan.toml")
        assert load_plan(tmp_path / "plan.toml") == made
        weaker = {**made.to_dict(), "sigma": (sigma * 0.9).tolist()}
        with pytest.raises(GuaranteeError, match="does not keep its promise"):
            plan_from(weaker)


def test_the_distance_is_an_upper_bound_for_the_exact_system() -> None:
    system = system_from(SECOND)
    m = Operator(system, 5).dense()
    with precision(200):
        square = response_square(system, 5, ("x0", "u"))
        floats = np.array([[float(square[i, j].mid()) for j in range(6)] for i in range(6)])
    assert np.allclose(floats, m @ m.T, rtol=1e-12)
    sigma = some_sigma(6)
    exact = tuple(tuple(Fraction(str(x)) for x in row) for row in sigma.tolist())
    found = float(distance_in(system, 5, UNIT, ("x0", "u"), exact))
    truth = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(sigma), m), 2)
    assert truth * (1 - 1e-12) < found < truth * (1 + 1e-9)
    with precision(100):
        rows = factor(exact, 100)
        product = sum(rows[3][k] * rows[2][k] for k in range(3))
        assert (
            product.contains(Fraction(exact[3][2]).numerator / Fraction(exact[3][2]).denominator)
            or abs(float(product.mid()) - float(exact[3][2])) < 1e-12
        )


@pytest.mark.parametrize("alpha", ["1", "1.5", "2"])
def test_the_noise_has_the_shape_of_sigma(alpha: str, test_bits: Bits) -> None:
    sigma = some_sigma(3, 40.0)
    made = plan(
        SECOND, unit=UNIT, sigma=sigma, step="0.01", **{**SAID, "horizon": 2, "alpha": alpha, "delta": "0.1"}
    )
    trials = 120_000
    noise = made.measure(made.prepare({"u": [0, 0, 0]}), test_bits, trials) * 0.01
    for direction in (np.eye(3)[0], np.eye(3)[2], np.array([1.0, -2.0, 0.5]), np.array([1.0, 1.0, 1.0])):
        scale = math.sqrt(direction @ sigma @ direction)
        for level in (0.2, 0.5, 0.9):
            limit = 5.5 * math.sqrt(level * (1 - level) / trials)
            inside = (np.abs(noise @ direction) <= scale * size(float(alpha), level)).mean()
            assert abs(inside - level) < limit
            wrong = (np.abs(noise @ direction) <= 1.04 * scale * size(float(alpha), level)).mean()
            assert level != 0.5 or abs(wrong - level) > limit  # four percent off is seen
    assert np.allclose(made.band(0.5)[:, 0], np.sqrt(np.diag(sigma)) * size(float(alpha), 0.5))


def deterministic(seed: str) -> Bits:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return UnsafeDeterministicBits(seed)


def test_float_balls_and_ball_arithmetic_give_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma = tuple(tuple(Fraction(str(x)) for x in row) for row in some_sigma(5).tolist())
    noise = EllipticalNoise(Fraction(3, 2), sigma, Fraction(1, 100))
    values = Values.of(np.linspace(-3, 5, 5))
    fast = noise.add(values, deterministic("same"), 40)

    def unsure(self: Any, words: Any) -> Any:
        return np.zeros(words.shape[1]), np.full(words.shape[1], math.inf)

    monkeypatch.setattr(Normal, "enclose", unsure)
    assert np.array_equal(noise.add(values, deterministic("same"), 40), fast)


def test_all_outputs_of_a_record_see_the_same_real_numbers(test_bits: Bits) -> None:
    """Two outputs with almost the same noise, on a grid so fine that 64 bits often do not settle the first."""
    tiny = Fraction(1, 10**60)
    noise = EllipticalNoise(
        Fraction(2), ((Fraction(1), Fraction(1)), (Fraction(1), 1 + tiny)), Fraction(1, 10**18)
    )
    far = 0
    for _ in range(40):
        record = Record(noise, Scale(Fraction(2), test_bits).take(), test_bits)
        first, second = record.add(Fraction(0)), record.add(Fraction(0))
        assert abs(first - second) <= 1
        far += any(u.known > 64 for pair in record._drawn for u in pair)
    assert far > 0


def test_a_release_with_sigma(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="load", unit=UNIT, budget=ob.Approx(10, "0.5"))
    made = plan(SECOND, unit=UNIT, sigma=some_sigma(6), **SAID)
    done = release([1.0, 2.0, 3.0], made, x0=[0, 1], ledger=ledger)  # shorter than the horizon
    assert done.to_arrow().num_rows == 3
    assert done.interval(0.9).num_rows == 3
    assert done.certificate.record["noise"]["law"].startswith("elliptical stable")
    assert "of shape sigma" in str(made.forecast())
    with pytest.raises(ParameterError, match="correlated"):
        estimate(done, made, sd=1)


def test_the_audit_holds_and_catches_half_of_sigma(test_bits: Bits) -> None:
    said: dict[str, Any] = {"horizon": 1, "alpha": "1.5", "eps": "0.5", "delta": "0.05"}
    system = ([["0.9"]], [["1"]], [["1"]], [["1"]])
    sigma = design(system, kind="scalar", method="exact", **said)
    made = plan(system, unit=UNIT, sigma=sigma, method="exact", **said)
    assert ob.audit.run(made, 60_000, bits=test_bits).verdict == "holds"
    weaker = tuple(tuple(x / 8 for x in row) for row in made.sigma)
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        dataclasses.replace(made, sigma=weaker)
    weak = forged(made, sigma=weaker)
    assert ob.audit.run(weak, 60_000, bits=test_bits).verdict == "broken"


@pytest.mark.parametrize(
    "wrong",
    [
        {"sigma": np.eye(5)},
        {"sigma": 5},
        {"sigma": [1, 2, 3]},
        {"sigma": -300 * np.eye(6)},
        {"sigma": np.diag([300.0] * 5 + [0])},
        {"sigma": 300 * np.eye(6) + np.eye(6, k=1)},
        {"sigma": 300 * np.eye(6), "where": "input"},
        {"sigma": 300 * np.eye(6), "noise": "independent"},
        {"sigma": [["x"] * 6] * 6},
        {"sigma": np.full((6, 6), np.nan)},
        {"sigma": 300 * np.eye(6), "method": "independent"},
    ],
    ids=lambda said: ", ".join(said),
)
def test_a_sigma_that_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ob.errors.InputError) as error:
        plan(SECOND, unit=UNIT, **{**SAID, **wrong})
    assert error.value.fix
