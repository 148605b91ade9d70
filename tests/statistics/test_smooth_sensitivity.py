"""Smooth sensitivities are what their definition says: reference values, and brute force on small domains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro.errors import ParameterError
from oboro.statistics import sensitivity
from oboro.statistics.sensitivity import orders
from oboro.statistics.smooth_noise import Decaying, largest_terms
from support import steps

BETAS = [Fraction(1, 10), Fraction(2, 5), Fraction(3, 2)]


@pytest.mark.parametrize(
    ("beta", "expected"), [("1/6", 82.1087273144), ("0.5", 58.8334739921), ("1", 35.6843057936)]
)
def test_reference_values_of_the_median(beta: str, expected: float) -> None:
    found = sensitivity.smooth_order_statistic([1, 2, 3, 4, 100], 3, (0, 100), beta)
    assert round(found, 10) == expected


def test_the_median_at_a_jump_has_the_whole_range() -> None:
    for beta in BETAS:
        assert sensitivity.smooth_order_statistic([0, 0, 0, 0, 1, 1, 1], 4, (0, 1), beta) == 1


def test_reference_values_of_graphs() -> None:
    assert round(sensitivity.smooth_mst_cost([1, 2, 3, 4, 5, 6], 10, "0.2"), 10) == 6.0328804143
    assert sensitivity.smooth_mst_cost([1, 2, 3, 4, 5, 6], 10, 1) == 3
    ring = np.roll(np.eye(5), 1, axis=1)
    assert round(sensitivity.smooth_triangles(ring, "0.4"), 10) == 1.3479868924


# -- brute force: the definition, over every dataset ---------------------------------------------------------


def by_definition(
    x: Sequence[int], answer: Callable[[Sequence[int]], float], values: Sequence[int], beta: Fraction
) -> float:
    """max over x' of e^(-beta d(x, x')) max over neighbours of x' of |answer - answer|; records in a fixed order."""
    every = list(itertools.product(values, repeat=len(x)))
    answers = {data: answer(data) for data in every}
    best = 0.0
    for data in every:
        local = max(
            abs(answers[data] - answers[(*data[:i], value, *data[i + 1 :])])
            for i in range(len(x))
            for value in values
        )
        distance = sum(a != b for a, b in zip(data, x, strict=True))
        best = max(best, local * math.exp(-float(beta) * distance))
    return best


@pytest.mark.parametrize("beta", BETAS)
def test_order_statistics_equal_brute_force(beta: Fraction) -> None:
    values = range(5)
    for x in [
        (0, 0, 0, 0),
        (0, 1, 3, 4),
        (2, 2, 2, 2),
        (0, 4, 4, 4),
        (1, 1, 3, 3),
        (4, 4, 4, 4),
        (0, 2, 2, 3),
    ]:
        for rank in (1, 2, 3, 4):
            exact = by_definition(x, lambda data, r=rank: sorted(data)[r - 1], values, beta)
            assert sensitivity.smooth_order_statistic(list(x), rank, (0, 4), beta) == pytest.approx(
                exact, rel=1e-12
            )


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("trim", [0, 1, 2])
def test_trimmed_means_equal_brute_force(beta: Fraction, trim: int) -> None:
    for x in [(0, 0, 1, 3, 3), (1, 1, 1, 1, 1), (0, 1, 2, 2, 3), (0, 0, 0, 3, 3)]:
        exact = by_definition(
            x, lambda data: sum(sorted(data)[trim : 5 - trim]) / (5 - 2 * trim), range(4), beta
        )
        assert sensitivity.smooth_trimmed_mean(list(x), trim, (0, 3), beta) == pytest.approx(exact, rel=1e-12)


def tree_cost(weights: Sequence[int], edges: Sequence[tuple[int, int]], nodes: int) -> int:
    group = list(range(nodes))
    cost = 0
    for weight, (u, v) in sorted(zip(weights, edges, strict=True)):
        if group[u] != group[v]:
            cost += weight
            old = group[u]
            group = [group[v] if g == old else g for g in group]
    return cost


@pytest.mark.parametrize("beta", BETAS)
def test_tree_costs_equal_brute_force(beta: Fraction) -> None:
    square = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
    path = [(0, 1), (1, 2)]
    for edges, nodes, samples in (
        (square, 4, [(0, 1, 2, 3, 3), (3, 3, 3, 3, 3), (0, 0, 0, 0, 0), (1, 3, 0, 2, 2)]),
        (path, 3, [(0, 3), (1, 1), (2, 3)]),
    ):
        for x in samples:
            exact = by_definition(x, lambda w, e=edges, n=nodes: tree_cost(w, e, n), range(4), beta)
            found = sensitivity.smooth_mst_cost(dict(zip(edges, x, strict=True)), 3, beta)
            assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_triangles_equal_brute_force(beta: Fraction) -> None:
    pairs = list(itertools.combinations(range(5), 2))

    def matrix(bits: Sequence[int]) -> np.ndarray:
        graph = np.zeros((5, 5), bool)
        for bit, (u, v) in zip(bits, pairs, strict=True):
            graph[u, v] = graph[v, u] = bool(bit)
        return graph

    def count(bits: Sequence[int]) -> int:
        on = {pair for bit, pair in zip(bits, pairs, strict=True) if bit}
        return sum(
            (a, b) in on and (b, c) in on and (a, c) in on for a, b, c in itertools.combinations(range(5), 3)
        )

    every = {bits: count(bits) for bits in itertools.product((0, 1), repeat=10)}
    local = {
        bits: max(abs(every[bits] - every[(*bits[:i], 1 - bits[i], *bits[i + 1 :])]) for i in range(10))
        for bits in every
    }
    for x in [(0,) * 10, (1,) * 10, (1, 0, 0, 1, 1, 0, 0, 1, 0, 1), (1, 1, 1, 1, 0, 0, 0, 0, 0, 0)]:
        exact = max(
            size * math.exp(-float(beta) * sum(a != b for a, b in zip(bits, x, strict=True)))
            for bits, size in local.items()
        )
        assert sensitivity.smooth_triangles(matrix(x), beta) == pytest.approx(exact, rel=1e-12)


def test_local_sensitivities_of_graphs_equal_brute_force() -> None:
    square = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
    costs = sensitivity.of(lambda w: tree_cost(w, square, 4), range(4), 5)
    for x in [(0, 1, 2, 3, 3), (3, 3, 3, 3, 3), (0, 0, 0, 0, 0), (1, 3, 0, 2, 2), (3, 0, 3, 0, 1)]:
        assert sensitivity.local_mst_cost(dict(zip(square, x, strict=True)), 3) == costs.local(x)
    pairs = list(itertools.combinations(range(4), 2))

    def matrix(bits: Sequence[int]) -> np.ndarray:
        graph = np.zeros((4, 4))
        for bit, pair in zip(bits, pairs, strict=True):
            graph[pair] = bit
        return graph + graph.T

    counts = sensitivity.of(lambda bits: np.trace(np.linalg.matrix_power(matrix(bits), 3)) / 6, (0, 1), 6)
    for bits in itertools.product((0, 1), repeat=6):
        assert sensitivity.local_triangles(matrix(bits)) == counts.local(bits)
        assert sensitivity.smooth_triangles(matrix(bits), 1) == pytest.approx(counts.smooth(bits, 1))
    assert sensitivity.local_triangles(np.zeros((2, 2))) == 0


def test_a_list_of_triples_is_a_list_of_edges_and_not_a_matrix_of_three_nodes() -> None:
    named = {(0, 1): 4, (1, 2): 7, (0, 2): 9}
    listed = [(u, v, weight) for (u, v), weight in named.items()]
    assert sensitivity.local_mst_cost(listed, 10) == sensitivity.local_mst_cost(named, 10) == 7
    matrix = [[None, 4, 9], [4, None, 7], [9, 7, None]]
    assert sensitivity.smooth_mst_cost(listed, 10, "0.1") == sensitivity.smooth_mst_cost(matrix, 10, "0.1")
    for wrong in ([(0, 1, 4), (1, 0, 7)], [(0, 0, 4)], [(0, "a", 4)]):
        with pytest.raises(ParameterError, match="not a graph"):
            sensitivity.local_mst_cost(wrong, 10)


# -- any function ----------------------------------------------------------------------------------------------


def middle(rows: Sequence[int]) -> int:
    return sorted(rows)[len(rows) // 2] if rows else 0


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("beta", BETAS)
def test_any_function_has_the_sensitivities_of_the_definition(beta: Fraction, ordered: bool) -> None:
    found = sensitivity.of(middle, range(4), 4, ordered=ordered)
    assert found.largest == 3
    for x in [(0, 0, 0, 0), (0, 1, 3, 3), (2, 2, 2, 2), (0, 3, 3, 3), (1, 1, 3, 3)]:
        assert found.smooth(x, beta) == pytest.approx(by_definition(x, middle, range(4), beta), rel=1e-12)
        assert found.local(x) == sensitivity.local_order_statistic(list(x), 3, (0, 3))


def test_a_function_that_looks_at_the_order_is_seen_to() -> None:
    assert sensitivity.of(lambda rows: 3 * rows[0] + rows[1], (0, 1), 2).largest == 3
    first = sensitivity.of(lambda rows: 3 * rows[0] + rows[1], (0, 1), 2)
    assert first.local([0, 0]) == 3
    assert first.worst == ((0, 0), (1, 0))


@pytest.mark.parametrize("beta", BETAS)
def test_a_row_that_comes_or_goes(beta: Fraction) -> None:
    """By another way: a breadth-first walk over multisets."""
    values, most = range(3), 4
    found = sensitivity.of(middle, values, most, adjacency="add/remove")
    every = [
        rows for size in range(most + 1) for rows in itertools.combinations_with_replacement(values, size)
    ]

    def near(rows: tuple[int, ...]) -> set[tuple[int, ...]]:
        fewer = {rows[:i] + rows[i + 1 :] for i in range(len(rows))}
        return fewer | ({tuple(sorted((*rows, v))) for v in values} if len(rows) < most else set())

    local = {rows: max(abs(middle(rows) - middle(other)) for other in near(rows)) for rows in every}
    assert found.largest == max(local.values()) == 2
    for x in every:
        away, edge, distance = {x: 0}, {x}, 0
        while edge:
            distance += 1
            edge = {other for rows in edge for other in near(rows)} - away.keys()
            away |= dict.fromkeys(edge, distance)
        assert found.local(x) == local[x]
        exact = max(size * math.exp(-float(beta) * away[rows]) for rows, size in local.items())
        assert found.smooth(x, beta) == pytest.approx(exact, rel=1e-12)


def test_vectors_are_measured_in_the_norm_that_is_asked_for() -> None:
    def counts(rows: Sequence[str]) -> list[int]:
        return [rows.count("a"), rows.count("b")]

    found = {norm: sensitivity.of(counts, ["a", "b"], 3, norm=norm).largest for norm in ("l1", "l2", "max")}
    assert found == {"l1": 2, "l2": math.sqrt(2), "max": 1}
    assert sensitivity.of(sum, [1], 4).worst is None
    points = sensitivity.of(lambda rows: np.mean(rows, axis=0), [(0, 1), (1, 0)], 2)
    assert points.largest == 1
    assert points.local([(0, 1), (1, 0)]) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sensitivity.of(sum, range(10), 10), "too many datasets"),
        (lambda: sensitivity.of(sum, range(400), 2, ordered=False), "too many datasets"),
        (lambda: sensitivity.of(sum, [1, 1], 2), "each once"),
        (lambda: sensitivity.of(sum, [], 2), "each once"),
        (lambda: sensitivity.of(sum, 5, 2), "not a list"),
        (lambda: sensitivity.of(7, [0], 2), "not a function"),
        (lambda: sensitivity.of(sum, [0], 0), "n "),
        (lambda: sensitivity.of(sum, [0, 1], 2, adjacency="swap"), "adjacency is unknown"),
        (lambda: sensitivity.of(sum, [0, 1], 2, norm="l3"), "norm is unknown"),
        (lambda: sensitivity.of(max, [0, 1], 2, adjacency="add/remove"), "fails on made-up rows"),
        (lambda: sensitivity.of(lambda rows: list(rows), [0], 2, adjacency="add/remove"), "finite numbers"),
        (lambda: sensitivity.of(lambda rows: [1] * (1 + rows[0]), [0, 1], 2), "as many numbers"),
        (lambda: sensitivity.of(lambda rows: math.nan, [0, 1], 2), "finite numbers"),
        (lambda: sensitivity.of(sum, [0, 1], 2).local([0, 2]), "none of the values"),
        (lambda: sensitivity.of(sum, [0, 1], 2).smooth([0], 1), "another number of rows"),
        (lambda: sensitivity.of(sum, [0, 1], 2).smooth([0, 1], 0), "beta"),
    ],
)
def test_what_cannot_be_enumerated_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call()


# -- properties ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=40),
    st.fractions(Fraction(1, 100), Fraction(3)),
    st.data(),
)
def test_the_sensitivity_is_smooth_and_not_below_the_local_one(
    x: list[int], beta: Fraction, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, len(x)))
    place = data.draw(st.integers(0, len(x) - 1))
    other = [*x[:place], data.draw(st.integers(0, 50)), *x[place + 1 :]]
    one, two = (sensitivity.smooth_order_statistic(v, rank, (0, 50), beta) for v in (x, other))
    assert max(one, two) <= min(one, two) * math.exp(float(beta)) * (1 + 1e-12)
    assert one >= sensitivity.local_order_statistic(x, rank, (0, 50)) * (1 - 1e-12)
    assert one >= abs(sorted(x)[rank - 1] - sorted(other)[rank - 1]) * (1 - 1e-12)


@pytest.mark.parametrize("kind", ["random", "even", "two values", "constant", "heavy"])
def test_the_compiled_search_equals_looking_at_every_window(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    n = 900
    x = {
        "random": rng.integers(0, 10**6, n),
        "even": np.arange(n) * 1000,
        "two values": np.where(rng.random(n) < 0.6, 100, 900_000),
        "constant": np.full(n, 500_000),
        "heavy": np.minimum(np.rint(rng.lognormal(10, 2, n)), 10**6),
    }[kind].astype(np.int64)
    for beta in ("0.0001", "0.003", "0.5"):
        every = sensitivity.smooth_order_statistic(x, 450, (0, 10**6), beta)
        whole = sensitivity.smooth_trimmed_mean(x, 90, (0, 10**6), beta)
        with monkeypatch.context() as patch:
            patch.setattr(orders, "_OUTER", 0)
            assert sensitivity.smooth_order_statistic(x, 450, (0, 10**6), beta) == every
            assert sensitivity.smooth_trimmed_mean(x, 90, (0, 10**6), beta) == whole


def test_a_million_values_are_searched_in_compiled_code() -> None:
    """At the smallest beta, where nothing can be left out. `make bench` says how many seconds that is."""
    x = np.random.default_rng(0).integers(0, 2**50, 10**6)
    few, many = (
        steps(lambda: sensitivity.smooth_order_statistic(x[:n], n // 2, (0, 2**50), "1e-6"))  # noqa: B023
        for n in (5000, 10**6)
    )
    assert many < few + 100 < 1000


def test_floats_are_the_decimals_that_they_print() -> None:
    tenths = sensitivity.smooth_order_statistic([0.1, 0.2, 0.3, 0.4, 10.0], 3, (0, 10), 1)
    assert tenths == pytest.approx(
        sensitivity.smooth_order_statistic([1, 2, 3, 4, 100], 3, (0, 100), 1) / 10, rel=1e-15
    )
    assert sensitivity.local_order_statistic([0.1, 0.2, 0.7], 2, (0, 1)) == 0.5
    assert sensitivity.local_order_statistic([-5, 0, 99], 2, (0, 1)) == 1  # values are clamped to the bounds


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: sensitivity.smooth_order_statistic([], 1, (0, 1), 1),
        lambda: sensitivity.smooth_order_statistic([[1]], 1, (0, 1), 1),
        lambda: sensitivity.smooth_order_statistic([1], 2, (0, 1), 1),
        lambda: sensitivity.smooth_order_statistic([1], 1, (1, 0), 1),
        lambda: sensitivity.smooth_order_statistic([1], 1, (0, 1), 0),
        lambda: sensitivity.smooth_order_statistic([math.nan], 1, (0, 1), 1),
        lambda: sensitivity.smooth_order_statistic([math.pi], 1, (0, 10**9), 1),
        lambda: sensitivity.smooth_trimmed_mean([1, 2], 1, (0, 1), 1),
        lambda: sensitivity.smooth_mst_cost({(0, 0): 1}, 1, 1),
        lambda: sensitivity.smooth_mst_cost([1, 2], 1, 1),
        lambda: sensitivity.smooth_triangles([[1, 0]], 1),
    ],
)
def test_what_is_no_data_is_refused(wrong: Callable[[], float]) -> None:
    with pytest.raises(ParameterError):
        wrong()


# -- the exact maximum -----------------------------------------------------------------------------------------


def test_terms_that_floats_cannot_tell_apart_are_all_kept() -> None:
    """e^-1 is enclosed by 367879441171442321 and ...322 over 10^18: as floats, the three terms are equal."""
    w, k = np.asarray([367879441171442321, 10**18, 367879441171442322, 5]), np.asarray([0, 1, 0, 0])
    kept = largest_terms(w, k, Fraction(1))
    assert kept == [(367879441171442321, 0), (367879441171442322, 0), (10**18, 1)]
    largest = Decaying(kept, 1)
    from oboro.noise.lazy import ball, precision

    with precision(256):
        assert largest() - ball(367879441171442322) >= 0  # e^-1 is nearer to 0.367879441171442321595


def test_a_sensitivity_of_zero_is_exactly_zero() -> None:
    assert Decaying((), 1)().is_zero()
    assert sensitivity.smooth_order_statistic([3, 3], 1, (3, 3), 1) == 0
