"""The bounds: reference values, and brute force over neighbours that never exceeds them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import oboro as ob
from oboro.errors import GuaranteeError, InputError, ParameterError
from oboro.synth import rdp_private_n, rdp_public_n, renyi_gaussians
from oboro.synth.curves import best_order, private_curve, public_curve, ridge_for
from oboro.synth.papers.miura import spread

SIZES = (10**4, 10**5, 10**6, 10**7)
REFERENCE = {  # n times the cost of one record, order 4, d = 6, smallest eigenvalue 0.01
    ("public", "paper"): (6806.716, 3263.220, 3205.814, 3200.577),
    ("public", "tight"): (3543.400654, 62.63759685, 5.811265961, 0.5769414945),
    ("private", "paper"): (3535.171915, 62.58586514, 5.806437094, 0.5764617486),
    ("private", "exact"): (1029.256349, 58.95966321, 5.720737535, 0.5704293653),
    ("private", "both"): (1029.580885, 58.960863, 5.720749, 0.5704295),
}


def cost(which: str, bound: str, **facts: object) -> float:
    if which == "public":
        return rdp_public_n(bound=bound, **facts)  # type: ignore[arg-type]
    both = bound == "both"
    return rdp_private_n(bound="exact" if both else bound, both=both, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("which", "bound"), list(REFERENCE))
def test_every_reference_value_to_its_digits(which: str, bound: str) -> None:
    for n, value in zip(SIZES, REFERENCE[which, bound], strict=True):
        ours = n * cost(which, bound, order=4, n=n, dims=6, min_eigenvalue="0.01")
        digits = len(str(value).replace(".", "").lstrip("0"))
        assert ours == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


def test_the_example_of_the_paper_as_eps_and_delta() -> None:
    for n, eps in ((10**6, 8.831133), (10**7, 2.344741)):
        best = best_order(private_curve(n, 6, "0.01", bound="paper"), n, "1e-5")
        assert best is not None
        assert float(best.approx.eps) == pytest.approx(eps, abs=1e-6)


def test_both_names_give_a_number_for_floats_texts_and_ridges() -> None:
    assert rdp_public_n(order=4, n=10**7, dims=6, min_eigenvalue=0.01) == rdp_public_n(
        order="4", n=10**7, dims=6, min_eigenvalue="1/100"
    )
    assert rdp_public_n(order=4, n=10**7, dims=6, ridge=0.01) == rdp_public_n(
        order=4, n=10**7, dims=6, min_eigenvalue=0.01
    )
    assert rdp_private_n(order=4, n=10**7, dims=6, ridge=0.01) > rdp_private_n(
        order=4, n=10**7, dims=6, min_eigenvalue=0.01
    )


def test_stable_up_to_a_million_million_rows() -> None:
    """The leading terms: a tau/(2 n^2) from the mean and a (k tau)^2/4 from the covariance."""
    n, tau, order = 10**12, 2400, 4
    leading = order / 2 * tau / n**2 + order * (tau / n) ** 2 / 4
    assert rdp_public_n(order=order, n=n, dims=6, min_eigenvalue="0.01") == pytest.approx(leading, rel=1e-8)
    for bound in ("exact", "paper"):
        assert rdp_private_n(order=order, n=n, dims=6, min_eigenvalue="0.01", bound=bound) == pytest.approx(
            leading, rel=0.02
        )


@pytest.mark.parametrize(
    ("n", "eps", "ridge"),
    [
        (24_420, 1, 0.531),
        (24_420, 3, 0.195),
        (24_420, 10, 0.069),
        (10**7, 1, 0.0254),
        (10**7, 3, 0.0094),
        (10**7, 10, 0.0033),
    ],
)
def test_the_ridge_that_the_notes_found(n: int, eps: int, ridge: float) -> None:
    found, order = ridge_for(lambda r: public_curve(n, 7, ridge=r), n, Fraction(eps), Fraction(1, 10**5))
    assert float(found) == pytest.approx(ridge, rel=0.015)
    one = public_curve(n, 7, ridge=found)(order)
    assert one is not None
    assert ob.Renyi(order, n * one).to_approx("1e-5").eps <= eps


def test_outside_their_conditions_bounds_are_refused() -> None:
    for wrong in (
        lambda: rdp_public_n(order=5, n=10**4, dims=6, min_eigenvalue="0.01"),
        lambda: rdp_public_n(order=5, n=10**4, dims=6, min_eigenvalue="0.01", bound="paper"),
        lambda: rdp_private_n(order=6, n=10**4, dims=6, min_eigenvalue="0.01"),
        lambda: rdp_private_n(order=6, n=10**4, dims=6, min_eigenvalue="0.01", bound="paper"),
        lambda: rdp_private_n(order=6, n=10**4, dims=6, ridge="0.01"),
        lambda: rdp_private_n(order=11, n=10, dims=1, ridge=100),
        lambda: rdp_private_n(order=11, n=10, dims=1, min_eigenvalue=1),
    ):
        with pytest.raises(GuaranteeError):
            wrong()
    for strange in (
        {"order": 1},
        {"n": 1},
        {"n": 2.5},
        {"dims": 0},
        {"min_eigenvalue": None},
        {"min_eigenvalue": 2},
        {"min_eigenvalue": 0},
        {"ridge": "0.1"},
        {"bound": "best"},
    ):
        with pytest.raises(InputError):
            rdp_public_n(**{"order": 4, "n": 10**7, "dims": 6, "min_eigenvalue": "0.01", **strange})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no ridge"):
        rdp_public_n(order=4, n=10**7, dims=6, ridge="0.1", bound="paper")


def test_the_divergence_of_gaussians_both_ways() -> None:
    assert renyi_gaussians(3, [0], [[1]], [1], [[1]]) == pytest.approx(1.5)
    one = renyi_gaussians(2, [0], [[1]], [0], [[4]])
    assert one == pytest.approx(math.log(4 / math.sqrt(7)))
    assert renyi_gaussians(2, [0], [[4]], [0], [[1]]) == math.inf  # 4 > 2 * 1: the integral diverges
    assert renyi_gaussians(2, [0], [[1]], [0], [[0]]) == math.inf
    x = np.linspace(-30, 30, 200_001)
    p, q = (
        np.exp(-((x - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v) for m, v in ((0.3, 0.8), (0.0, 1.0))
    )
    numeric = math.log(np.sum(p**2.5 * q**-1.5) * (x[1] - x[0])) / 1.5
    assert renyi_gaussians("2.5", [0.3], [[0.8]], [0.0], [[1.0]]) == pytest.approx(numeric, rel=1e-9)
    assert float(spread(4.0, 1e-9)) == pytest.approx(1e-18, rel=1e-6)  # a l^2/4: no cancellation


def law(data: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    return data.mean(axis=0), np.cov(data.T, bias=True).reshape(data.shape[1], -1) + ridge * np.eye(
        data.shape[1]
    )


def neighbours_hold(data: np.ndarray, other: np.ndarray, ridge: float, order: float, limit: float) -> None:
    one, two = law(data, ridge), law(other, ridge)
    for first, second in ((one, two), (two, one)):
        assert renyi_gaussians(order, *first, *second) <= limit * (1 + 1e-9) + 1e-15


def datasets(rng: np.random.Generator, n: int, dims: int) -> list[np.ndarray]:
    corner = np.where(rng.random((n, dims)) < 0.5, -1.0, 1.0)
    constant = np.tile(rng.choice([-1.0, 0.0, 1.0], dims), (n, 1))
    half = rng.uniform(-1, 1, (n, dims))
    half[:, 0] = -1.0
    return [corner, constant, half, rng.uniform(-1, 1, (n, dims)), np.full((n, dims), -1.0)]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("n", [5, 40])
def test_with_a_ridge_every_dataset_stays_within_the_bound(dims: int, n: int) -> None:
    """Replaced, added and removed; constant columns and corners included."""
    rng = np.random.default_rng(dims * 100 + n)
    for ridge in ("0.3", "2", "20"):
        for order in ("1.5", "2", "4"):
            found: dict[str, float] = {}
            for name, call in (("replace", rdp_public_n), ("add/remove", rdp_private_n)):
                try:
                    found[name] = call(order=order, n=n, dims=dims, ridge=ridge)  # type: ignore[operator]
                except GuaranteeError:
                    continue
            for data in datasets(rng, n, dims):
                for record in (
                    np.ones(dims),
                    -np.ones(dims),
                    np.zeros(dims),
                    *rng.choice([-1.0, 1.0], (4, dims)),
                ):
                    if "replace" in found:
                        other = data.copy()
                        other[0] = record
                        neighbours_hold(data, other, float(ridge), float(order), found["replace"])
                    if "add/remove" in found:
                        neighbours_hold(
                            data, np.vstack([data, record]), float(ridge), float(order), found["add/remove"]
                        )


def test_the_private_bound_with_another_letter_would_be_false() -> None:
    """d = 1, n = 100, order 4, ridge 0.5: constant data at -1 and a record at 1 exceed what the eigenvalue's formula says."""
    data, record = np.full((100, 1), -1.0), np.ones((1, 1))
    one, two = law(data, 0.5), law(np.vstack([data, record]), 0.5)
    true = max(renyi_gaussians(4, *one, *two), renyi_gaussians(4, *two, *one))
    assert (
        rdp_private_n(order=4, n=100, dims=1, min_eigenvalue="0.5")
        < true
        <= rdp_private_n(order=4, n=100, dims=1, ridge="0.5") * (1 + 1e-12)
    )


@pytest.mark.parametrize(
    ("which", "bound"), [("public", "tight"), ("public", "paper"), ("private", "exact"), ("private", "paper")]
)
def test_under_the_assumption_no_neighbour_exceeds_the_bound(which: str, bound: str) -> None:
    rng = np.random.default_rng(7)
    checked = 0
    for _ in range(400):
        dims, n = int(rng.integers(1, 4)), int(rng.integers(60, 400))
        data = np.where(rng.random((n, dims)) < 0.5, -1.0, 1.0) * rng.uniform(0.3, 1.0, dims)
        data[0] = rng.choice([-1.0, 1.0], dims)
        record = rng.choice([-1.0, 1.0], dims)
        other = np.vstack([data, record]) if which == "private" else np.vstack([record, data[1:]])
        smallest = [float(np.linalg.eigvalsh(law(d, 0)[1])[0]) for d in (data, other)]
        least = smallest[0] if which == "private" else min(smallest)
        order = float(rng.choice([1.5, 2, 4, 8]))
        try:
            limit = cost(
                which,
                bound,
                order=order,
                n=n,
                dims=dims,
                min_eigenvalue=Fraction(min(least, 1.0)) * Fraction(999999, 10**6),
            )
        except GuaranteeError:
            continue
        neighbours_hold(data, other, 0.0, order, limit)
        checked += 1
    assert checked > 200


def test_the_exact_private_bound_is_attained() -> None:
    """All records at -v and v in one dimension, and one at the far corner: the bound's own worst case, nearly."""
    n, least = 1000, 0.25
    shift = math.sqrt(1 - least)  # mean at -shift, variance 1 - shift^2
    low = round(n * (1 + shift) / 2)
    data = np.concatenate([np.full(low, -1.0), np.ones(n - low)])[:, None]
    true_least = float(law(data, 0)[1][0, 0])
    one, two = law(data, 0.0), law(np.vstack([data, [[1.0]]]), 0.0)
    true = max(renyi_gaussians(4, *one, *two), renyi_gaussians(4, *two, *one))
    assert true == pytest.approx(
        rdp_private_n(order=4, n=n, dims=1, min_eigenvalue=Fraction(true_least)), rel=1e-9
    )


def test_the_maximum_at_the_mean_is_not_missed() -> None:
    """At n = 10 and order 8 adding a record at the mean costs more than adding one far away."""
    found = rdp_private_n(order=8, n=10, dims=1, min_eigenvalue=1)
    data = np.array([[-1.0]] * 5 + [[1.0]] * 5)
    one, two = law(data, 0.0), law(np.vstack([data, [[0.0]]]), 0.0)
    assert renyi_gaussians(8, *one, *two) == pytest.approx(found, rel=1e-9)


def test_an_account_tells_both_adjacencies_and_both_rules() -> None:
    found = ob.synth.account(n="1e7", dims=6, min_eigenvalue="0.01", records="1e7", delta="1e-5")
    shown = str(found)
    assert "2.344741" in shown
    assert "provided that" in shown
    guarantee = found.guarantee("replace")
    assert isinstance(guarantee, ob.Conditional)
    ridge = ob.synth.account(n="1e7", dims=7, ridge="0.0254", records="1e7", delta="1e-5")
    assert ridge.assumption is None
    assert float(ridge.guarantee("replace").eps) == pytest.approx(1, abs=0.01)  # type: ignore[attr-defined]


def test_at_order_infinity_directions_in_which_two_laws_agree_cost_nothing() -> None:
    one, wider = [[1, 0], [0, 1]], [[1, 0], [0, 2]]
    assert renyi_gaussians("inf", [0, 1], one, [0, 1], one) == 0
    assert renyi_gaussians("inf", [0, 1], one, [0, 0], wider) == pytest.approx(
        renyi_gaussians("inf", [1], [[1]], [0], [[2]])
    )
    assert (
        renyi_gaussians("inf", [1, 0], one, [0, 0], wider) == math.inf
    )  # the means differ where the variances agree
    assert renyi_gaussians("inf", [0, 0], wider, [0, 0], one) == math.inf
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert renyi_gaussians(
        "inf", turn @ [0, 1], turn @ one @ turn.T, [0, 0], turn @ wider @ turn.T
    ) == pytest.approx(0.5 + math.log(2) / 2)
