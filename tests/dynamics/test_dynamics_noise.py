"""Stable noise by certified rounding: the law, its power, the shared A, and what the slow path says."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro.dynamics import EllipticalStable, Stable, SymmetricStable
from oboro.dynamics import laws as noising
from oboro.dynamics.laws import FURTHEST, Scale, StableNoise, Values, add_discrete, on_grid, rounded_mixing
from oboro.dynamics.mixing_variable import nodes
from oboro.errors import ParameterError
from oboro.noise.bits import Bits, UnsafeDeterministicBits
from oboro.noise.lazy import precision
from oboro.noise.rounding import sample_rounded
from support import steps

HALF = Fraction(1, 2)
LAW = StableNoise(Fraction(3, 2), Fraction(4), Fraction(1, 100), shared=False)


@pytest.fixture(autouse=True)
def compiled_however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers are settled without the compiled loops; here those are what is tried."""
    monkeypatch.setattr(noising, "_FEW", 0)


def cells(alpha: float, scale: float, draws: np.ndarray, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Counts in cells of equal probability, and what is expected there."""
    law = SymmetricStable(Fraction(str(alpha)))
    edges = np.array([law.quantile(p) for p in np.arange(1, count) / count]) * scale
    return np.bincount(np.searchsorted(edges, draws), minlength=count), np.full(count, draws.size / count)


def fits(alpha: float, scale: float, draws: np.ndarray) -> bool:
    from scipy.special import chdtrc

    seen, expected = cells(alpha, scale, draws)
    return bool(chdtrc(seen.size - 1, float(((seen - expected) ** 2 / expected).sum())) > 1e-7)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 1.9, 2.0])
def test_the_law_is_right_and_a_scale_off_by_a_few_percent_is_seen(alpha: float, test_bits: Bits) -> None:
    noise = StableNoise(Fraction(str(alpha)), Fraction(4), Fraction(1, 1000), shared=False)
    draws = noise.add(Values.of(np.full(400_000, 7.25)), test_bits)[0] / 1000 - 7.25
    assert fits(alpha, 4.0, draws)
    assert not fits(alpha, 4.08 if alpha >= 1 else 4.2, draws)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_each_number_under_a_shared_a_has_the_same_law(alpha: float, test_bits: Bits) -> None:
    noise = StableNoise(Fraction(str(alpha)), Fraction(4), Fraction(1, 1000), shared=True)
    draws = noise.add(Values.of(np.array([1.5, -2.0])), test_bits, 400_000) / 1000 - [1.5, -2.0]
    assert fits(alpha, 4.0, draws[:, 0])
    assert fits(alpha, 4.0, draws[:, 1])
    assert not fits(alpha, 4.08, draws[:, 1])


def test_a_shared_a_ties_the_numbers_of_a_record_together(test_bits: Bits) -> None:
    noise = StableNoise(Fraction(3, 2), Fraction(4), Fraction(1, 100), shared=True)
    draws = np.abs(noise.add(Values.of(np.zeros(2)), test_bits, 300_000) / 400)
    level = 5.0
    from scipy.special import erfc

    rule = nodes(1.5)
    both = float(rule.weight @ erfc(level / np.sqrt(2 * rule.value)) ** 2)
    alone = float(rule.weight @ erfc(level / np.sqrt(2 * rule.value)))
    seen = float((draws > level).all(axis=1).mean())
    assert seen == pytest.approx(both, abs=5 * math.sqrt(both / 300_000))
    assert both > 5 * alone**2
    apart = np.abs(LAW.add(Values.of(np.zeros(2)), test_bits, 300_000) / 400)
    assert float((apart > level).all(axis=1).mean()) < 1.5 * alone**2 + 1e-3


def unsure(monkeypatch: pytest.MonkeyPatch, *laws: type) -> None:
    """Float balls that never know: everything goes the slow way."""
    for law in laws:
        monkeypatch.setattr(
            law, "enclose", lambda self, words: (np.zeros(words.shape[1]), np.full(words.shape[1], math.inf))
        )


def deterministic(seed: str) -> Bits:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return UnsafeDeterministicBits(seed)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("alpha", ["0.7", "1", "1.5", "2"])
def test_float_balls_and_ball_arithmetic_give_the_same_cells(
    alpha: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro.noise.laws import Normal

    noise = StableNoise(Fraction(alpha), Fraction(7, 3), Fraction(1, 100), shared)
    values = Values.of(np.linspace(-3, 5, 400))
    fast = noise.add(values, deterministic("same"), 2)
    with monkeypatch.context() as patch:
        patch.setattr(noising, "_FEW", 800)
        assert np.array_equal(noise.add(values, deterministic("same"), 2), fast)
    unsure(monkeypatch, Normal, SymmetricStable)
    assert np.array_equal(noise.add(values, deterministic("same"), 2), fast)


def test_values_of_every_size_are_taken(test_bits: Bits) -> None:
    values = np.array([0.0, 1e-300, 1e15, -1e15, 1e300, -1e300])
    out = LAW.add(Values.of(values), test_bits)[0]
    assert out[4] == FURTHEST
    assert out[5] == -FURTHEST
    assert abs(out[2] / 1e17 - 1) < 0.01


def test_the_centre_is_the_real_number_and_not_its_neighbour_on_the_grid(test_bits: Bits) -> None:
    """With next to no noise the rounded value is that of the exact float."""
    tiny = StableNoise(Fraction(2), Fraction(1, 10**30), Fraction(1, 10), shared=False)
    values = np.array([0.05, -0.05, 0.15, 0.25, 1 / 3])
    wanted = [math.floor(Fraction(v) * 10 + HALF) for v in values.tolist()]
    assert tiny.add(Values.of(values), test_bits)[0].tolist() == wanted


def test_the_symmetric_law_encloses_itself() -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, (2, 300), dtype=np.uint64)
    words[0, :4] = [0, 1, 2**64 - 1, 2**63]
    words[1, 4:8] = [0, 1, 2**64 - 1, 2**63]
    from flint import arb

    from oboro.noise.lazy import Uniform

    for alpha in ("0.3", "1", "1.5", "1.99", "2"):
        law = SymmetricStable(Fraction(alpha))
        mid, rad = law.enclose(words)
        assert np.isfinite(rad).mean() > 0.9
        with precision(256):
            for i in range(300):
                u, v = (Uniform(Bits(), int(word) << 192, 256) for word in words[:, i])
                if math.isfinite(rad[i]) and rad[i] < 1e300:
                    assert arb(float(mid[i]), float(rad[i])).overlaps(law.ball(u.ball(), v.ball()))


def test_a_scale_is_for_one_record(test_bits: Bits) -> None:
    scale = Scale(Fraction(3, 2), test_bits)
    root = scale.take()
    with precision(64):
        first = root()
    with precision(300):
        assert first.contains(root())  # one real number, known better
    for again in (
        scale.take,
        lambda: copy.copy(scale),
        lambda: copy.deepcopy(scale),
        lambda: pickle.dumps(scale),
    ):
        with pytest.raises(ParameterError, match="second record"):
            again()


def test_a_forked_process_may_not_use_the_scale(test_bits: Bits) -> None:
    scale = Scale(Fraction(3, 2), test_bits)
    root = scale.take()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            root()
        except ParameterError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_discrete_variant(test_bits: Bits) -> None:
    assert on_grid(np.array([0.05, -0.05, 0.26, 1e300]), Fraction(1, 10)).tolist() == [1, -1, 3, FURTHEST]
    noise = StableNoise(Fraction(3, 2), Fraction(4), Fraction(1), shared=True)
    drawn = [rounded_mixing(Scale(Fraction(3, 2), test_bits)) for _ in range(2000)]
    rule = nodes(1.5)
    below = float(rule.weight[rule.value < 1.7].sum())
    assert np.mean([a <= 1.7 for a in drawn]) == pytest.approx(below, abs=0.06)
    draws = add_discrete(noise, np.zeros(200), test_bits, 20)
    assert draws.shape == (20, 200)
    assert 1 < np.median(np.abs(draws)) < 12
    from oboro.dynamics.laws import LARGEST_VARIANCE

    huge = StableNoise(Fraction(3, 2), Fraction(LARGEST_VARIANCE), Fraction(1), shared=True)
    assert not add_discrete(
        huge, np.ones(3), test_bits, 2
    ).any()  # beyond the sampler's reach: nothing is said


@pytest.mark.long("statistical tests")
def test_the_paper_s_definitions(test_bits: Bits) -> None:
    shape = np.array([[2.0, 0.5], [0.5, 1.0]])
    for alpha in ("0.8", "1.5", "2"):
        law = EllipticalStable(alpha, shape)
        x = law.sample(400_000, test_bits)
        for t in ([0.3, 0.0], [0.2, -0.7]):
            assert np.exp(1j * (x @ np.array(t))).mean() == pytest.approx(
                complex(law.characteristic(t)), abs=0.01
            )
    heavy = EllipticalStable("1.5", shape)
    x = heavy.sample(2_000_000, test_bits)[:, 0]
    assert (x > 60).mean() * 60**1.5 == pytest.approx(heavy.tail(0), rel=0.15)
    assert EllipticalStable(1, shape).tail(0) == pytest.approx(math.sqrt(2) / math.pi)
    assert heavy.tail(0) == pytest.approx(
        (1 - 1.5) / (2 * math.gamma(0.5) * math.cos(0.75 * math.pi)) * 2**0.75
    )
    skewed = Stable(
        "0.75", 2 * math.cos(math.pi * 1.5 / 4) ** (2 / 1.5), 1
    )  # the paper's (3): A for alpha 1.5
    a = skewed.sample(400_000, test_bits)
    assert a.min() > 0
    for s in (0.2, 1.0):
        assert np.exp(-s * a).mean() == pytest.approx(math.exp(-((2 * s) ** 0.75)), abs=0.005)
    t = np.array([-0.4, 0.0, 0.3])
    for value, at in zip(skewed.characteristic(t), t, strict=True):
        assert np.exp(1j * at * a).mean() == pytest.approx(value, abs=0.01)


def test_bad_laws_are_refused() -> None:
    wrong: Iterator[Any] = iter(
        [
            lambda: EllipticalStable(2.5, np.eye(2)),
            lambda: EllipticalStable(1.5, [[1.0, 2.0], [2.0, 1.0]]),
            lambda: EllipticalStable(1.5, np.zeros((2, 2))),
            lambda: EllipticalStable(1.5, np.eye(2)).map(np.eye(3)),
            lambda: EllipticalStable(1.5, np.eye(2)).map([[0.0, 0.0]]),
            lambda: EllipticalStable(1.5, np.eye(2)).map([[1e200, 0.0]]),
            lambda: EllipticalStable(1.5, np.eye(2)).map([[1j, 0.0]]),
            lambda: EllipticalStable(1.5, np.eye(2)).characteristic([1.0]),
            lambda: EllipticalStable(1.5, np.eye(2)).characteristic("t"),
            lambda: EllipticalStable(1.5, np.eye(2)).tail(2),
            lambda: EllipticalStable(1.5, np.eye(2)).sample(-1),
            lambda: Stable(1.5, 1).sample("a"),  # type: ignore[arg-type]
            lambda: Stable(1.5, 1).characteristic("t"),
            lambda: EllipticalStable(2, np.eye(2)).tail(0),
            lambda: Stable(1.5, 0),
            lambda: Stable(1.5, 1, 2),
            lambda: Stable(1, 1, 0.5),
            lambda: SymmetricStable(Fraction(3)),
        ]
    )
    for make in wrong:
        with pytest.raises(ParameterError):
            make()


def test_a_million_samples_are_drawn_in_compiled_code(test_bits: Bits) -> None:
    values = Values.of(np.linspace(-1, 1, 1_000_000))
    for noise in (LAW, StableNoise(Fraction(3, 2), Fraction(4), Fraction(1, 100), shared=True)):
        assert steps(lambda: noise.add(values, test_bits)) < 20_000  # noqa: B023


def test_the_symmetric_law_is_a_law_of_the_noise_layer(test_bits: Bits) -> None:
    draws = (
        sample_rounded(SymmetricStable(Fraction(3, 2)), 100_000, scale=4, step="0.001", bits=test_bits) / 1000
    )
    assert fits(1.5, 4.0, draws)


def test_a_linear_map_of_a_stable_law_is_one_also_where_it_is_singular(test_bits: Bits) -> None:
    law = EllipticalStable("1.3", [[2.0, 0.5], [0.5, 1.0]])
    by = np.array([[1.0, -1.0], [2.0, -2.0], [0.0, 3.0]])
    mapped = law.map(by)
    t = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(mapped.characteristic(t), law.characteristic(t @ by), rtol=1e-12)
    assert abs(np.linalg.eigvalsh(mapped.shape)[0]) < 1e-12
    drawn = mapped.sample(200_000, test_bits)
    scale = np.abs(drawn).max(axis=1) + 1e-300
    assert (np.abs(2 * drawn[:, 0] - drawn[:, 1]) / scale).max() < 1e-6  # it lies in the plane that M reaches
    at = 0.3 * t[:5]
    found = np.cos(drawn @ at.T).mean(axis=0)
    assert np.abs(found - mapped.characteristic(at)).max() < 6 / np.sqrt(2 * 200_000)
    assert np.abs(
        found - EllipticalStable("1.3", 1.1 * mapped.shape).characteristic(at)
    ).max() > 12 / np.sqrt(2 * 200_000)


def test_where_a_singular_law_does_not_reach_its_characteristic_function_is_one_and_its_map_a_point() -> None:
    along = np.array([1.0, math.sqrt(2), math.pi])
    law = EllipticalStable("1.5", np.outer(along, along))
    rng = np.random.default_rng(1)
    across = rng.normal(size=(200, 3))
    across -= np.outer(across @ along / (along @ along), along)
    assert law.characteristic(across) == pytest.approx(
        np.ones(200), abs=1e-9
    )  # rounding made some of them NaN
    for rows in (across[:1], across[:2]):
        with pytest.raises(ParameterError, match="single point"):
            law.map(rows)
    assert np.linalg.matrix_rank(law.map(rng.normal(size=(5, 3))).shape) == 1
