"""The certified gain: never below the truth, hardly above it; and the operators themselves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.dynamics import Operator, System, gain, observability, plan, system_from, toeplitz
from oboro.dynamics.gains import _certain, _weights, gain_from
from oboro.errors import DomainError, ParameterError
from oboro.privacy import Unit
from support import steps

FIRST = ([["0.9"]], [["1"]], [["1"]], [["0"]])
SECOND = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])


def test_the_values_of_the_notes() -> None:
    for found, wanted in (
        (gain(FIRST, 1), 1.546585609973),
        (gain(FIRST, 100), 9.656653962752),
        (gain(FIRST, 10, protect=("u",)), 4.736007904195),
    ):
        assert wanted - 1e-12 <= found <= wanted + 1e-9


@pytest.mark.parametrize("protect", [("x0", "u"), ("u",), ("x0",)])
@pytest.mark.parametrize("horizon", [0, 1, 7, 60])
def test_it_is_the_norm_of_the_dense_matrix(horizon: int, protect: tuple[str, ...]) -> None:
    truth = np.linalg.norm(Operator(system_from(SECOND), horizon, protect).dense(), 2)
    found = gain(SECOND, horizon, protect)
    assert truth * (1 - 1e-14) <= found <= truth * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_systems_stable_or_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, q = rng.integers(1, 4, 3)
    a = rng.normal(size=(n, n))
    a *= rng.uniform(0.2, 1.1) / np.abs(np.linalg.eigvals(a)).max()
    system = (a, rng.normal(size=(n, m)), rng.normal(size=(q, n)), rng.normal(size=(q, m)))
    horizon = int(rng.integers(0, 25))
    truth = np.linalg.norm(Operator(system_from(system), horizon).dense(), 2)
    assert truth * (1 - 1e-13) <= gain(system, horizon) <= truth * (1 + 1e-9)


def test_a_gain_below_the_truth_is_never_proved() -> None:
    plant, parts = system_from(SECOND), ("x0", "u")
    truth = float(np.linalg.norm(Operator(plant, 30).dense(), 2))
    weights = _weights(plant, 30, parts, truth * (1 + 1e-8), 1e-8)
    assert weights is not None
    assert _certain(plant, parts, truth * (1 + 2e-8), weights)
    assert not _certain(plant, parts, truth * (1 - 1e-9), weights)
    assert not _certain(plant, parts, truth * 0.9, weights)


def test_a_long_record_takes_steps_in_proportion() -> None:
    assert steps(lambda: gain(SECOND, 1000)) < 150 * 1000
    assert steps(lambda: gain(SECOND, 2000)) < 150 * 2000


def test_the_gain_of_a_long_record() -> None:
    found = gain(SECOND, 10_000)
    vector = np.sin(0.4481965 * np.arange(10_001)) * np.sin(np.pi * np.arange(10_001) / 10_001)
    from_below = np.linalg.norm(Operator(system_from(SECOND), 10_000, ("u",)) @ vector) / np.linalg.norm(
        vector
    )
    assert from_below < found < from_below * (1 + 1e-5)


@pytest.mark.long("gains")
def test_all_times() -> None:
    assert 10 <= gain(FIRST, None) <= 10 * (1 + 1e-9)  # the notes' bound is 10.26
    a, b, c, d = (np.array(part, float) for part in SECOND)
    angles = np.linspace(0.447, 0.449, 4001)
    peak = max(abs((c @ np.linalg.solve(np.exp(1j * w) * np.eye(2) - a, b) + d)[0, 0]) for w in angles)
    assert peak <= gain(SECOND, None, protect="u") <= peak * (1 + 1e-8)
    assert gain(SECOND, None, protect="x0") == pytest.approx(gain(SECOND, 400, protect="x0"), rel=1e-8)
    with pytest.raises(ParameterError, match="unstable"):
        gain(([["1.01"]], [[1]], [[1]], [[0]]), None)
    assert gain(([["1.01"]], [[1]], [[1]], [[0]]), 50) > 1


def test_a_system_without_states_is_its_feedthrough() -> None:
    plain = System((), (), ((),), (tuple(system_from(FIRST).a[0]),))
    assert gain(plain, 5, protect="u") == pytest.approx(0.9, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_short_horizons_are_never_refused(seed: int) -> None:
    """Sparse systems whose parts differ by many powers of ten: some were refused, also at T = 0."""
    rng = np.random.default_rng(seed)
    n, m, q = rng.integers(1, 4, 3)
    a, b, c, d = (
        rng.normal(size=size) * 10.0 ** rng.integers(-6, 7) * (rng.random(size) < rng.choice([0.3, 1.0]))
        for size in ((n, n), (n, m), (q, n), (q, m))
    )
    for protect in (("x0", "u"), ("u",), ("x0",)):
        for horizon in (0, 1, 3):
            truth = np.linalg.norm(Operator(system_from((a, b, c, d)), horizon, protect).dense(), 2)
            found = gain((a, b, c, d), horizon, protect)
            assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-2)


def test_a_system_without_outputs_of_its_state() -> None:
    silent, plain = ([["0.5"]], [["1"]], [["0"]], [["0"]]), ([["0.5"]], [["1"]], [["0"]], [["3"]])
    for horizon in (0, 7, None):
        assert gain(silent, horizon) == 0
    for horizon in (0, 7, 1000):
        assert 3 <= gain(plain, horizon) <= 3 * (1 + 1e-9)
    shift = ([["0", "1"], ["0", "0"]], [["0"], ["1"]], [["1", "0"]], [["0"]])  # y(t) = u(t - 2)
    assert [gain(shift, horizon, protect="u") for horizon in (0, 1)] == [0, 0]
    assert 1 <= gain(shift, 2, protect="u") <= 1 + 1e-9
    for system in (silent, shift):
        with pytest.raises(DomainError, match="nothing that is protected reaches the output"):
            plan(system, unit=Unit.signal(1), horizon=1, eps=1, delta="1e-5", where="output", protect=("u",))


@pytest.mark.long("gains")
def test_all_times_are_never_below_a_long_time() -> None:
    for coupling, close in ((1, 1e-8), (100, 1e-8)):
        jordan = ([["0.5", str(coupling)], ["0", "0.5"]], [["0"], ["1"]], [["1", "0"]], [["0"]])
        truth = 4.0 * coupling  # at frequency 0
        assert truth * (1 - 1e-12) <= gain(jordan, None, protect="u") <= truth * (1 + close)
        assert gain(jordan, 300, protect="u") < truth


@pytest.mark.long("systems far from normal")
def test_all_times_are_never_below_a_long_time_also_far_from_normal() -> None:
    """Close where states are alike; where A is far from normal the bound may lie above, as the docstring says."""
    rng = np.random.default_rng(2)
    for n in (5, 8):
        a = np.triu(rng.normal(size=(n, n)) * 10, 1) + np.diag(rng.uniform(-0.9, 0.9, n))
        system = (a, rng.normal(size=(n, 1)), rng.normal(size=(1, n)), np.zeros((1, 1)))
        from_below = np.linalg.norm(Operator(system_from(system), 200).dense(), 2)
        assert from_below * (1 - 1e-9) <= gain(system, None) <= 2 * from_below


def test_operators_agree_with_each_other() -> None:
    plant = system_from(SECOND)
    operator = Operator(plant, 12)
    dense = operator.dense()
    rng = np.random.default_rng(1)
    v, y = rng.normal(size=operator.shape[1]), rng.normal(size=operator.shape[0])
    assert np.allclose(operator @ v, dense @ v, atol=1e-12)
    assert np.allclose(operator.adjoint(y), dense.T @ y, atol=1e-12)
    assert np.allclose(observability(plant, 3)[:, 0], [0.1, 0.21, 0.256, 0.2416])
    assert np.allclose(toeplitz(plant, 2), [[0.02, 0, 0], [0.1, 0.02, 0], [0.21, 0.1, 0.02]])
    assert Operator(plant, 100_000).shape == (100_001, 100_003)
    assert math.isfinite(float((Operator(plant, 100_000) @ np.ones(100_003)).sum()))
    with pytest.raises(ParameterError, match="too large"):
        toeplitz(plant, 100_000)


def test_systems_from_other_libraries() -> None:
    control = pytest.importorskip("control")
    from scipy import signal

    floats = [np.array(part, float) for part in SECOND]
    wanted = system_from(SECOND)
    assert system_from(control.ss(*floats, True)) == wanted
    assert system_from(signal.dlti(*floats)) == wanted
    assert system_from({"A": SECOND[0], "B": SECOND[1], "C": SECOND[2], "D": SECOND[3]}) == wanted
    assert system_from(control.tf([1], [1, -0.5], 0.1)).states == 1
    assert system_from(signal.dlti([1], [1, -0.5])).states == 1
    for continuous in (
        control.ss(*floats),
        control.ss(*floats, 0),
        control.tf([1], [1, 1]),
        signal.lti(*floats),
    ):
        with pytest.raises(DomainError, match="continuous"):
            system_from(continuous)


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        "system",
        ([[1]], [[1]], [[1]]),
        ([[1, 2]], [[1]], [[1]], [[0]]),
        ([[1]], [[1], [2]], [[1]], [[0]]),
        ([[1]], [[1]], [[1]], [[0, 1]]),
        {"A": [[1]]},
        ([["x"]], [[1]], [[1]], [[0]]),
        ([[float("nan")]], [[1]], [[1]], [[0]]),
    ],
)
def test_systems_that_do_not_fit_are_refused(wrong: object) -> None:
    with pytest.raises((DomainError, ParameterError)):
        system_from(wrong)


def test_protect_and_horizon_are_checked() -> None:
    for wrong in ((), "y", ("u", "y"), 3):
        with pytest.raises(ParameterError):
            gain(FIRST, 3, protect=wrong)
    for horizon in (-1, 2.5, "many"):
        with pytest.raises(ParameterError):
            gain(FIRST, horizon)  # type: ignore[arg-type]


@pytest.mark.parametrize("protect", [("x0", "u"), ("u",), ("x0",)])
def test_in_the_1_norm_the_gain_is_the_longest_column(protect: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        n, m, q, horizon = (int(x) for x in (*rng.integers(1, 4, 3), rng.integers(0, 9)))
        shapes = ((n, n), (n, m), (q, n), (q, m))
        system = system_from(tuple(np.round(rng.normal(size=shape), 3).tolist() for shape in shapes))
        dense = Operator(system, horizon, protect).dense()
        longest, full = float(np.linalg.norm(dense, axis=0).max()), float(np.linalg.norm(dense, 2))
        assert float(gain_from(system, horizon, Fraction(1), protect)) == pytest.approx(longest, rel=1e-13)
        between = float(gain_from(system, horizon, Fraction(3, 2), protect))
        x = rng.normal(size=(dense.shape[1], 20_000)) * rng.integers(0, 2, (dense.shape[1], 20_000))
        x[:, : dense.shape[1]] = np.eye(dense.shape[1])
        size = (np.abs(x) ** 1.5).sum(axis=0) ** (2 / 3)
        reached = (np.linalg.norm(dense @ x, axis=0)[size > 0] / size[size > 0]).max()
        assert reached <= between * (1 + 1e-12)
        assert longest * (1 - 1e-12) <= between <= full * (1 + 1e-9)


def test_a_unit_in_the_1_norm_needs_less_noise_on_the_output() -> None:
    """A change of all of it in one number is the worst; one percent less than the longest column is not enough."""
    second = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])
    one, two = (
        plan(second, unit=Unit.signal(1, norm), horizon=5, eps=1, delta="1e-3", where="output")
        for norm in (1, 2)
    )
    assert float(one.sensitivity) == pytest.approx(0.46963446306, rel=1e-9)
    assert float(two.sensitivity) == pytest.approx(0.89664884335, rel=1e-8)
    assert one.scale / two.scale == pytest.approx(float(one.sensitivity / two.sensitivity), rel=1e-9)
