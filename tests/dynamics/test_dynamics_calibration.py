"""Calibrations: the numbers of the notes, two independent quadratures, and a proof by ball arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import acb, arb

from oboro.dynamics import calibrate, delta, pure_eps
from oboro.dynamics import calibration as module
from oboro.dynamics.calibration import gaussian
from oboro.dynamics.mixing_variable import nodes, size, tail
from oboro.dynamics.papers.ito import independent_cauchy
from oboro.dynamics.radial import radial
from oboro.errors import ParameterError
from oboro.noise.lazy import ball, precision

THEOREM1 = [
    ("0.5", "1", 0.28492616832, 0.067336836574, 0.0094789784002),
    ("1", "0.1", 0.090710040721, 0.032883600223, 0.010563783799),
    ("1", "1", 0.6356334046, 0.28487253664, 0.10075316525),
    ("1.5", "1", 0.80148885584, 0.4494453247, 0.21945014166),
    ("1.5", "3", 1.7984091225, 1.1533668681, 0.61861512744),
    ("1.8", "0.3", 0.29942900061, 0.16607638294, 0.086943694357),
    ("2", "1", 0.88663978111, 0.56021466678, 0.32294835925),
]


def somewhere(rng: np.random.Generator) -> tuple[float, float, float]:
    """alpha, eps and delta within the stated ranges, ends included."""
    alpha = float(rng.choice([rng.uniform(0.5, 2), 0.5, 1.0, 1.99]))
    eps = math.exp(rng.uniform(math.log(0.05), math.log(5)))
    return alpha, eps, math.exp(rng.uniform(math.log(1e-9), math.log(0.3)))


@pytest.mark.parametrize(("alpha", "eps", "tenth", "hundredth", "tiny"), THEOREM1)
def test_theorem_1_has_the_values_of_the_notes(
    alpha: str, eps: str, tenth: float, hundredth: float, tiny: float
) -> None:
    for small, wanted in (("0.1", tenth), ("0.01", hundredth), ("1e-5", tiny)):
        found = calibrate(alpha=alpha, eps=eps, delta=small, method="theorem1")
        assert found == pytest.approx(wanted, rel=6e-11)


def test_single_values_of_the_notes() -> None:
    assert delta(alpha=1, eps=1, z="0.5", method="theorem1") == pytest.approx(0.05862435148006574, rel=1e-13)
    assert delta(alpha=1.5, eps=1, z=0.5, method="mixture") == pytest.approx(0.003108649406369, rel=1e-12)
    assert calibrate(alpha=1.5, eps=1, delta=1e-5, method="mixture") == pytest.approx(
        0.26498131905, rel=1e-10
    )
    assert calibrate(alpha=1.5, eps=1, delta=1e-5, method="discrete") == pytest.approx(0.2408, abs=1e-4)
    assert delta(alpha=1, eps="0.3", z="0.6", method="mixture") == pytest.approx(0.107, abs=5e-4)


def test_pure_eps_has_the_values_of_the_notes() -> None:
    for alpha, wanted in (("0.5", 2.0054), ("1", 0.9624), ("1.5", 0.9941), ("1.9", 1.4555)):
        assert pure_eps(alpha=alpha, z=1) == pytest.approx(wanted, abs=6e-5)
    for dims in (1, 3, 40):
        assert radial(1.0, dims, 0.7).pure == pytest.approx(2 * math.sinh(0.7 / (dims + 1)), rel=1e-10)


@pytest.mark.parametrize(("dims", "ratio"), [(2, 3.67), (10, 2.00), (100, 1.32)])
def test_the_exact_delta_needs_less_noise_in_few_dimensions(dims: int, ratio: float) -> None:
    found = calibrate(alpha="1.5", eps=1, delta="1e-5", method="exact", dims=dims)
    assert found / 0.21945014166 == pytest.approx(ratio, abs=0.01)


def test_exact_in_one_dimension_is_the_integral_of_the_positive_part() -> None:
    """Cauchy, by a plain sum over a fine grid."""
    eps, z = 0.3, 0.6
    x = np.tan(np.pi * (np.arange(2_000_000) + 0.5) / 2_000_000 - np.pi / 2)
    ratio = (1 + x * x) / (1 + (x - z) ** 2)
    plain = np.maximum(1 - math.exp(eps) * ratio, 0).mean()
    assert delta(alpha=1, eps=eps, z=z, method="exact", dims=1) == pytest.approx(plain, rel=1e-5)


def proved(alpha: float, eps: float, z: float, method: str) -> arb:
    """The integral over the real line, enclosed in balls of 200 bits, with a bound of what is cut off.

    Beyond T the integrand is below (2/t) exp(-k (t^alpha - 1)), whose integral is below
    2/(alpha k T^alpha) exp(-k (T^alpha - 1)).
    """
    with precision(200):
        a, e = arb(alpha), arb(eps)
        k = (e / arb(z)) ** a

        def integrand(t: acb, analytic: bool) -> acb:
            square = 1 + t * t
            if analytic and not square.real > 0:
                return acb(arb("nan"), arb("nan"))
            wave = t * (t * e / 2).sin() if method == "mixture" else (t * e / 2).cos() + t * (t * e / 2).sin()
            return wave / square * (-k * ((square.log() * a / 2).exp() - 1)).exp()

        top = 1.0
        while float(k) * (top**alpha - 1) < 120:
            top *= 1.3
        cut = 2 / (a * k * arb(top) ** a) * (-k * (arb(top) ** a - 1)).exp()
        front = (e / 2 - k).exp() / arb.pi() * (2 if method == "mixture" else 1)
        return front * (acb.integral(integrand, 0, top).real + arb(0, 1) * cut)


@pytest.mark.long("proofs in balls")
def test_calibrations_are_right_to_1e_9_by_a_proof_in_ball_arithmetic() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        alpha, eps, small = somewhere(rng)
        alpha, small = max(alpha, 0.8), min(small, 0.05)  # where the real line is a good path
        for method in ("theorem1", "mixture"):
            z = calibrate(alpha=alpha, eps=eps, delta=small, method=method)
            with precision(200):
                assert proved(alpha, eps, z * (1 - 1e-9), method) < arb(small)
                assert proved(alpha, eps, z * (1 + 1e-9), method) > arb(small)


def moved(alpha: Fraction, eps: Fraction, z: float, method: str) -> arb:
    """The same along a line near the saddle point, t = sinh(w), w = x + i theta, x >= 0, where nothing cancels: for any delta.

    For x >= X >= 1 the exponent's real part is at most -phi(x), phi = (eps/2) sin(theta) cosh(x) + k cos(alpha theta) sinh(x)^alpha
    (|cosh w| >= sinh x, its argument at most theta); the factor is at most coth(x/2) < 3; phi' >= c phi, c = min(alpha, 3/4).
    So what is cut off is at most 3 e^-phi(X)/(c phi(X)).
    """
    a, e = ball(alpha), ball(eps)
    if alpha == 2:
        m = arb(z) / arb(2).sqrt()
        near, far = ((e / m + side * m / 2) / arb(2).sqrt() for side in (-1, 1))
        return near.erfc() / 2 - (e.exp() * far.erfc() / 2 if method == "mixture" else 0)
    k = (e / arb(z)) ** a
    angles = np.linspace(0.25, 1.0, 40) * min(1.25, 0.9 * math.pi / (2 * float(alpha)))
    sine, size = np.sin(angles), float(k) * (1 - np.cos(angles) ** float(alpha))
    theta, i = arb(float(angles[np.argmin(size - float(eps) * sine / 2 - np.log1p(-sine))])), acb(0, 1)

    def exponent(w: acb) -> acb:
        return i * e / 2 * w.sinh() - k * (w.cosh().log() * a).exp()

    def phi(x: float) -> arb:
        return e / 2 * theta.sin() * arb(x).cosh() + k * (a * theta).cos() * (a * arb(x).sinh().log()).exp()

    highest = max(float(exponent(acb(arb(x / 8), theta)).real.mid()) for x in range(24))
    end = 1.0
    while not phi(end) > 100.0 - highest:
        end += 0.25

    def integrand(w: acb, analytic: bool) -> acb:
        c = w.cosh()
        if analytic and not c.real > 0:
            return acb(arb("nan"), arb("nan"))
        value = (exponent(w) - highest).exp()
        return value * w.sinh() / c if method == "mixture" else value * c / (1 + i * w.sinh())

    found = acb.integral(integrand, acb(0, theta), acb(arb(end), theta))
    part = found.imag * 2 if method == "mixture" else found.real
    cut = (-phi(end) - highest).exp() * 3 / (phi(end) * ball(min(alpha, Fraction(3, 4))))
    return (part + arb(0, 1) * (2 * cut).upper()) * (e / 2 + highest).exp() / arb.pi()


def tight(alpha: str, eps: str, small: str, method: str) -> bool:
    """Whether the calibrated z is proved to keep delta, and 1e-6 more is proved not to; False if it is refused."""
    try:
        z = calibrate(alpha=alpha, eps=eps, delta=small, method=method)
    except ParameterError:
        return False
    with precision(256):
        exact = Fraction(alpha), Fraction(eps)
        assert moved(*exact, z * (1 - 1e-10), method) < ball(Fraction(small)), (alpha, eps, small, method)
        assert moved(*exact, z * (1 + 1e-6), method) > ball(Fraction(small)), (alpha, eps, small, method)
    return True


@pytest.mark.parametrize("method", ["theorem1", "mixture"])
def test_the_ends_of_the_range_are_proved_in_ball_arithmetic(method: str) -> None:
    for alpha, eps, small in product(("0.1", "1", "1.999", "2"), ("1e-3", "20"), ("0.3", "1e-50")):
        assert tight(alpha, eps, small, method)


@pytest.mark.long("calibrations proved over the whole range")
@pytest.mark.parametrize("method", ["theorem1", "mixture"])
def test_the_whole_range_is_proved_in_ball_arithmetic(method: str) -> None:
    eps, small = ("1e-3", "0.1", "1", "20", "100"), ("0.3", "1e-2", "1e-6", "1e-12", "1e-50")
    cases = list(product(("0.1", "0.3", "0.5", "1", "1.5", "1.9", "1.99", "1.999", "2"), eps, small))
    assert sum(tight(*case, method) for case in cases) > 205


def test_two_quadratures_agree_over_the_whole_range() -> None:
    """The contour integral against a mean over the mixing variable."""
    rng = np.random.default_rng(12)
    for _ in range(60):
        alpha, eps, small = somewhere(rng)
        z = calibrate(alpha=alpha, eps=eps, delta=small, method="mixture")
        rule = nodes(alpha)
        assert float(rule.weight @ gaussian(z * z / rule.value, eps)) == pytest.approx(small, rel=1e-10)


def test_the_laplace_transform_of_the_mixing_variable() -> None:
    for alpha in (0.5, 1.0, 1.5, 1.9, 1.99):
        rule = nodes(alpha)
        for s in (0.01, 1.0, 5.0):
            assert float(rule.weight @ np.exp(-s * rule.value)) == pytest.approx(
                math.exp(-((2 * s) ** (alpha / 2))), rel=1e-9
            )
    assert tail(1.0, 3.0) == pytest.approx(1 - 2 * math.atan(3) / math.pi, rel=1e-12)
    assert size(1.0, 0.5) == pytest.approx(1.0, rel=1e-12)


def test_given_every_a_less_can_be_proved_of_independent_noise() -> None:
    """The notes' example: alpha 1, eps 0.3, z 0.6 spread over 20 numbers. Given every A delta is .132; nobody sees A, and .0884 is proved."""
    rng = np.random.default_rng(14)
    normal = rng.standard_normal((200_000, 20))
    spread = (0.36 / 20) * (normal**2).sum(axis=1)  # alpha = 1: A = 1/N^2
    found = gaussian(spread, 0.3).mean()
    assert found == pytest.approx(0.132, abs=0.002)
    assert independent_cauchy(0.3, 0.6, 20) < delta(alpha=1, eps="0.3", z="0.6", method="independent") < found


@pytest.mark.long("proofs in balls")
def test_independent_noise_truly_hides_better_than_shared_noise() -> None:
    """The same example without a bound: nobody sees A."""
    for z in (0.2, 0.6, 2.0):
        alone = delta(alpha=1, eps="0.3", z=z, method="exact", dims=1)
        assert independent_cauchy(0.3, z, 1) == pytest.approx(alone, rel=1e-6, abs=1e-12)
    shared = delta(alpha=1, eps="0.3", z="0.6", method="exact", dims=20)
    own = independent_cauchy(0.3, 0.6, 20)
    assert (own, shared) == pytest.approx((0.0688, 0.1044), abs=5e-5)
    rng = np.random.default_rng(15)
    x, shift = rng.standard_cauchy((400_000, 20)), 0.6 / math.sqrt(20)
    ratio = (np.log1p((x - shift) ** 2) - np.log1p(x * x)).sum(axis=1)
    part = np.maximum(-np.expm1(0.3 - ratio), 0.0)
    assert abs(part.mean() - own) < 6 * part.std() / math.sqrt(
        part.size
    )  # false alarm 2e-9; the shared one is 80 away
    assert shared - own > 60 * part.std() / math.sqrt(part.size)


def plain_discrete(alpha: float, eps: float, z: float) -> float:
    """The mean over A of zCDP's delta in another way: a double exponential rule for U, and Gauss's for E."""
    b, power = alpha / 2, (2 - alpha) / alpha
    half_odds = np.pi / 2 * np.sinh(np.linspace(-4.0, 4.0, 321))
    u, rest = 1 / (1 + np.exp(-2 * half_odds)), 1 / (1 + np.exp(2 * half_odds))
    weight = 0.025 * np.hypot(np.pi, 2 * half_odds) * u * rest
    y = np.pi * np.where(u < 0.5, b * u, (1 - b) + b * rest)
    log_a = np.log(np.sin((1 - b) * np.pi * u))
    log_a += (b * np.log(np.sin(y)) - np.log(np.sin(np.pi * np.minimum(u, rest)))) / (1 - b)
    x, w = np.polynomial.legendre.leggauss(16)
    log_rho = np.arange(math.log(eps * eps / (2900 + 2 * eps)), math.log(eps + 50), 0.2 / math.sqrt(1 + eps))
    total = 0.0
    for level, share in zip(log_a.tolist(), weight.tolist(), strict=True):
        cuts = level + (log_rho + math.log(4 / z**2)) / power
        edges = np.unique(np.clip(np.concatenate([cuts, 6.7 - np.arange(0, 60, 0.5)]), cuts[0], 6.7))
        half = np.diff(edges)[:, None] / 2
        log_e = edges[:-1, None] + half * (x + 1)
        rho = np.exp(np.minimum(math.log(z**2 / 4) + power * (log_e - level), 300.0))
        value = np.where(rho < eps + 50, module._concentrated(np.minimum(rho, eps + 50), eps), 1.0)
        total += share * float((value * np.exp(log_e - np.exp(log_e)) * half @ w).sum())
    return total


@pytest.mark.long("proofs in balls")
@pytest.mark.parametrize(
    ("alpha", "eps", "small"),
    [(0.5, 20.0, "0.3"), (0.5, 20.0, "0.01"), (0.3, 1.0, "0.3"), (1.0, 20.0, "0.3"), (1.0, 100.0, "0.01"), (0.1, 100.0, "1e-50"),
     (1.5, 1.0, "1e-5"), (1.99, 0.001, "1e-12")],
)  # fmt: skip
def test_discrete_noise_keeps_its_promise_where_its_delta_bends(alpha: float, eps: float, small: str) -> None:
    """Too few values of A were summed over: at alpha 0.5, eps 20, delta 0.3 the noise was 5e-4 too small."""
    z = calibrate(alpha=alpha, eps=eps, delta=small, method="discrete")
    assert plain_discrete(alpha, eps, z * (1 - 1e-9)) <= float(small)
    assert plain_discrete(alpha, eps, z * (1 + 1e-9)) > float(small)


@pytest.mark.long("discrete noise over the whole range")
def test_discrete_noise_keeps_its_promise_everywhere() -> None:
    tried = 0
    for alpha, eps, small in product(
        (0.1, 0.5, 1.0, 1.5, 1.9, 1.999), (1e-3, 1.0, 20.0, 100.0), ("0.3", "1e-6", "1e-50")
    ):
        try:
            z = calibrate(alpha=alpha, eps=eps, delta=small, method="discrete")
        except ParameterError:
            continue
        tried += 1
        assert plain_discrete(alpha, eps, z) <= float(small), (alpha, eps, small)
        assert plain_discrete(alpha, eps, z * (1 + 1e-6)) > float(small), (alpha, eps, small)
    assert tried >= 66


def test_the_best_order_of_zcdp_is_found_for_every_rho() -> None:
    """Every order holds, so a poor one is safe; for an eps of 100 and a small rho it made delta 1."""
    for eps in (1e-3, 1.0, 100.0):
        rho = np.geomspace(eps * eps / (2900 + 2 * eps), eps + 50, 200)
        less = np.geomspace(1e-25, 1e8, 20_000)[:, None]
        every = less * ((1 + less) * rho - eps + np.log(less)) - (1 + less) * np.log1p(less)
        found = module._concentrated(rho, eps)
        assert (found <= np.exp(np.minimum(every.min(axis=0), 0.0)) * (1 + 1e-9)).all()


def test_methods_come_in_order() -> None:
    for alpha in ("0.7", "1.3", "1.9"):
        z = {
            method: calibrate(alpha=alpha, eps="0.5", delta="1e-3", method=method, dims=4)
            for method in ("theorem1", "discrete", "independent", "mixture", "exact")
        }
        assert z["theorem1"] < z["discrete"] < z["mixture"] < z["exact"]
        assert z["mixture"] < z["independent"]
        assert calibrate(alpha=alpha, eps="0.5", method="pure", dims=4) < z["exact"]


def test_alpha_towards_2_is_gaussian() -> None:
    for method in ("theorem1", "mixture"):
        near, at = (
            calibrate(alpha=alpha, eps=1, delta="1e-3", method=method, dims=3) for alpha in ("1.999999", "2")
        )
        assert near == pytest.approx(at, rel=1e-5)
    assert calibrate(alpha=2, eps=1, delta="1e-3", method="exact", dims=9) == calibrate(
        alpha=2, eps=1, delta="1e-3"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"alpha": 2.1},
        {"alpha": -1},
        {"alpha": "nan"},
        {"eps": 0},
        {"delta": 0},
        {"delta": 1},
        {"delta": None},
        {"method": "best"},
        {"method": "exact"},
        {"method": "exact", "dims": 0},
        {"method": "pure", "dims": 1},
        {"method": "pure", "delta": None, "alpha": 2, "dims": 1},
    ],
)
def test_bad_parameters_are_refused(wrong: dict[str, object]) -> None:
    given = {"alpha": 1.5, "eps": 1, "delta": 1e-5, "method": "mixture", **wrong}
    with pytest.raises(ParameterError) as error:
        calibrate(**given)  # type: ignore[arg-type]
    assert error.value.fix


def test_the_margin_covers_the_error_of_a_calibration() -> None:
    assert module.MARGIN >= 1e-9
