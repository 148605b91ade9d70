"""Sums and products of data in a fixed width, each at the edge of its bound: docs/architecture.md lists them.

What is computed in 64 bits, in doubles or in DuckDB is compared with whole numbers of any width.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.engine import add_up, open_data
from oboro.engine.arrays import held
from oboro.engine.protocol import MOST_ROWS
from oboro.errors import OboroError
from oboro.noise.bits import system_bits
from oboro.privacy import ZCDP, Approx, Pure
from oboro.release import plan_from
from oboro.statistics import ranks as by_rank
from oboro.statistics.balls import CHUNK, MOST_COLUMNS, Ball, InBall, clipped, shifted
from oboro.statistics.clusters import clusters_plan
from oboro.statistics.components import RADIUS, components_plan, in_ball, second_moments
from oboro.statistics.graphs import mst_cost_plan
from oboro.statistics.histogram import histogram_plan
from oboro.statistics.means import mean_plan
from oboro.statistics.moments import covariance_plan
from oboro.statistics.points import REACH, scaled
from oboro.statistics.quantiles import quantile_plan
from oboro.statistics.ranks import Ranks, _grid, _Part, _split, fineness, rows_below
from oboro.statistics.scope import Scope
from oboro.statistics.sensitivity.orders import Sorted
from oboro.statistics.smooth import FINER, smooth_quantile_plan, sum_between, trimmed_mean_plan
from oboro.statistics.sums import SumPlan, SumsPlan, sums_plan
from oboro.statistics.terms import counted, term
from oboro.synth.copula import STEPS
from oboro.synth.records import LARGEST as LARGEST_CODE
from oboro.synth.records import moments_of
from oboro.tables.cells import LARGEST_TOTAL, cap, sort_cells
from oboro.tables.plan import layout_of

ROWS = MOST_ROWS - 1
WIDE = 2**62


@pytest.fixture(autouse=True)
def every_warning_is_an_error() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of what other tests left open
        yield


# -- scores of quantiles ---------------------------------------------------------------------------------------


def awkward_shares() -> list[Fraction]:
    """Shares of shares, whose denominators have up to 60 bits."""
    a, b, c = Fraction(166649, 499979), Fraction(333299, 499957), Fraction(333311, 499943)
    return [(b - a) / (c - a), (a - Fraction(1, 999983)) / (b - Fraction(1, 999983)), Fraction(1, 3)]


@pytest.mark.parametrize("share", awkward_shares(), ids=["far", "near", "plain"])
@pytest.mark.parametrize(
    ("rows", "eps"), [(0, "1"), (1, "1e-12"), (2000, "1e-12"), (10**6, "10"), (ROWS, "0.1"), (ROWS, "10")]
)
def test_scores_of_splitting_fit_and_move_by_what_their_noise_is_made_for(
    share: Fraction, rows: int, eps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is narrow, so that a table of 2^38 rows takes no room."""
    seen: list[tuple[Any, Fraction]] = []

    def watched(scores: Any, eta: Any, counts: Any, bits: Any) -> int:
        seen.append((np.asarray(scores), eta))
        return int(np.argmax(np.asarray(counts) > 0))

    monkeypatch.setattr(by_rank, "exponential_mechanism", watched)
    monkeypatch.setattr(by_rank, "_block", lambda rate: 1)
    size = 2**37
    for n in (rows, rows + 1):
        parts = [n // 3, n // 3, n - 2 * (n // 3)]
        ranks = Ranks.of(np.asarray([0, size // 2, size - 1]), np.asarray(parts, np.int64))
        part = _Part(0, n, 0, size << fineness(size), Fraction(0), Fraction(1))
        _split(ranks, fineness(size), part, share, Fraction(eps), system_bits())
    grain = min(share.denominator, 2**24)
    for (scores, eta), n in zip(seen, (rows, rows + 1), strict=True):
        highest, middle = int(scores[-1]), math.floor(grain * share * n)
        start = max(0, middle // grain + highest // -grain)
        places = range(start, start + scores.size - 2)
        wanted = [min(abs(grain * a - middle), highest) for a in places]
        assert scores[:-2].tolist() == wanted
        assert scores.min() >= 0
        assert scores.max() <= 2**62
        assert 2 * eta * math.ceil(grain * max(share, 1 - share)) == Fraction(eps)


@pytest.mark.parametrize("eps", ["0.1", "1e-9", "1e-12"])
def test_splitting_takes_no_room_however_many_rows_there_are(eps: str) -> None:
    """At a tiny eps nearly all rows are near a quantile: they are drawn in blocks, of which there are few."""
    size = 2**37
    ranks = Ranks.of(np.asarray([0, size // 2, size - 1]), np.asarray([ROWS // 3] * 3, np.int64))
    for share in awkward_shares():
        part = _Part(0, ranks.rows, 0, size << fineness(size), Fraction(0), Fraction(1))
        place, row = _split(ranks, fineness(size), part, share, Fraction(eps), system_bits())
        assert 0 <= place < part.high
        assert row == rows_below(ranks, fineness(size), place)


def test_one_row_more_never_decides_whether_splitting_raises() -> None:
    """Fractions with unlike denominators, and as many rows as once made 64 bits run over."""
    c, middle, n = 60, 130, 250
    q2, q3, q4 = (
        Fraction(round(b * at / n), b)
        for b, at in ((499979, c), (499957, c + Fraction(9, 10) * middle), (499943, c + middle))
    )
    column = ob.Integer("x", 0, 2**37 - 1)
    plan = quantile_plan(
        column, [Fraction(1, 1000), Fraction(2, 1000), q2, q3, q4], Scope(ob.Unit.row()), Pure(10)
    )
    share = (q3 - q2) / (q4 - q2)
    edge = (2**63 - 1) // share.numerator
    assert edge < 1000  # then 64 bits did run over
    for rows in range(edge - 2, edge + 3):
        values = np.repeat([0, column.size // 2, column.size - 1], [c, rows, c])
        prepared = plan.prepare(pa.table({"x": values}))
        for _ in range(5):
            assert plan.measure(prepared, system_bits()).shape == (1, 5)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(999982, 999983), Fraction(1, 10**6)])
def test_scores_of_one_quantile_fit(q: Fraction) -> None:
    ranks = Ranks.of(np.asarray([0, WIDE - 1]), np.asarray([ROWS // 2, ROWS - ROWS // 2], np.int64))
    scores, starts, counts = _grid(ranks, WIDE, q)
    below = [0, 0, ROWS // 2, ROWS // 2, ROWS]
    upto = [0, ROWS // 2, ROWS // 2, ROWS, ROWS]
    exact = [q.denominator * max(a - q * ROWS, q * ROWS - b) for a, b in zip(below, upto, strict=True)]
    assert scores.tolist() == exact
    assert sum(counts.tolist()) == WIDE
    assert starts[-1] == WIDE


@pytest.mark.parametrize("size", [1, 2, 2**37, 2**45])
def test_places_of_tied_rows_fit(size: int) -> None:
    fine = fineness(size)
    ranks = Ranks.of(np.asarray([size - 1]), np.asarray([ROWS], np.int64))
    first, last = ranks.places(np.asarray([0, ROWS - 1]), fine).tolist()
    assert (size - 1) << fine <= first <= last < size << fine <= 2**61


# -- sums --------------------------------------------------------------------------------------------------------


def test_sums_are_clamped_not_wrapped_and_never_raise() -> None:
    one = term("sum", 1, 1, Pure(1))
    for true, kept in ((WIDE, WIDE), (WIDE + 1, WIDE), (10**40, WIDE), (-(10**40), -WIDE), (-7, -7)):
        assert counted([one], 1, {0: [true]}).tolist() == [[kept]]


def test_products_in_duckdb_fit_up_to_their_bound() -> None:
    last = 2**44 - 1
    columns = [ob.Integer("x", 0, last), ob.Integer("y", 0, last)]
    source = open_data(pa.table({"x": [last] * 5, "y": [last] * 5}))
    found = add_up(source, columns, [(), (0,), (0, 1), (0, 0)], ob.Unit.row())
    assert found == {0: [5, 5 * last, 5 * last**2, 5 * last**2]}
    assert (last + 1) ** 2 * MOST_ROWS <= 2**127 - (last + 1)
    with pytest.raises(OboroError, match="too large to add up"):
        covariance_plan([ob.Integer("x", 0, 2**45)], Scope(ob.Unit.row()), Pure(1))


def test_stored_numbers_are_added_up_in_blocks_that_fit() -> None:
    last = 2**45 - 1
    column = ob.Integer("x", -(2**60), -(2**60) + last)
    values = np.full(2**17 + 3, -(2**60) + last)
    stored = held(open_data(pa.table({"x": values})), column)
    assert stored is not None
    assert stored.add_up() == (values.size, values.size * last)


def test_exact_sums_between_places_fit() -> None:
    values = np.asarray([0, 2**21 - 1, 2**42 - 1, WIDE - 1])
    data = Sorted.of(values, 0, WIDE - 1, np.full(4, ROWS // 4))
    count = ROWS // 4
    assert sum_between(data, 0, 4 * count) == count * sum(values.tolist())


# -- vectors in a ball --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("columns", [1, 64, 1000])
def test_vectors_lie_in_their_ball_however_far_out_their_row_is(norm: str, columns: int) -> None:
    far = WIDE - 1
    for radius in (1, 2**20, 2**21 - 1):
        for shift in (-20, 0, 41):
            rows = np.zeros((4, columns), np.int64)
            rows[0], rows[1], rows[2, 0], rows[3] = far, -far, far, radius // columns
            t = shifted(rows, shift)
            size = np.abs(t).astype(object)
            assert (size**2).sum(axis=1).max() < 2**63
            inside = clipped(t, radius, norm).astype(object)
            length = (inside**2).sum(axis=1) if norm == "l2" else np.abs(inside).sum(axis=1)
            assert max(length) <= (radius**2 if norm == "l2" else radius)
            assert all(inside[2, 1:] == 0)


@pytest.mark.long("widths")
def test_the_widest_grid_of_a_ball_is_exact() -> None:
    column = ob.Integer("x", -(WIDE - 1), WIDE - 1, step=2)
    frame = InBall((column,), Ball("l2", WIDE - 1))
    frame.check()
    codes = np.asarray([[0], [column.size // 2], [column.size - 1]])
    assert frame.vectors(codes).tolist()[0][0] == -frame.vectors(codes).tolist()[2][0] == -frame.radius
    with pytest.raises(OboroError, match="too many steps"):
        InBall((ob.Integer("x", -WIDE, WIDE, step=4),), Ball("l2", 1)).check()
    with pytest.raises(OboroError, match="too many columns"):
        InBall(tuple(ob.Integer(f"x{i}", 0, 1) for i in range(MOST_COLUMNS + 1)), Ball("l2", 1)).check()


def test_products_of_a_chunk_of_rows_fit() -> None:
    column = ob.Integer("x", -(2**21 - 1), 2**21 - 1)
    frame = InBall((column,), Ball("l2", 2**21 - 1))
    rows = pa.table({"x": np.full(CHUNK + 5, 2**21 - 1)})
    count, sums, products = frame.totals(Scope(ob.Unit.row()), rows, products=True)[0]
    assert (count, sums, products) == (
        CHUNK + 5,
        [(CHUNK + 5) * frame.radius],
        [(CHUNK + 5) * frame.radius**2],
    )


def test_second_moments_of_a_chunk_are_exact() -> None:
    column = ob.Integer("x", -(WIDE - 1), WIDE - 1, step=2)
    frame = InBall((column, ob.Integer("y", 0, 1)), Ball("l2", WIDE - 1))
    rows = in_ball(frame, np.asarray([[column.size - 1, 0], [0, 1]]))
    assert rows.tolist() == [[RADIUS, 0], [-RADIUS, 0]]
    assert second_moments(np.full((CHUNK, 2), RADIUS)).tolist() == [[CHUNK * RADIUS**2] * 2] * 2
    assert CHUNK * RADIUS**2 < 2**53


@pytest.mark.parametrize("last", [1, 2**31, 2**50 - 1, 2**50, WIDE - 1])
def test_points_fit(last: int) -> None:
    found = scaled([ob.Integer("x", 0, last)], np.asarray([[0], [last // 2], [last]]))
    assert found[[0, 2], 0].tolist() == [-REACH, REACH]
    assert abs(int(found[1, 0])) <= (1 if last > 1 else REACH)


# -- what is published ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1])
def test_a_trimmed_mean_of_the_widest_column_is_published(value: int) -> None:
    scope = Scope(ob.Unit.row("replace"), n=5)
    widest = ob.Integer("x", 0, WIDE // FINER - 1)
    plan = trimmed_mean_plan(scope, widest, "0.1", guarantee=Pure(100))
    rows = pa.table({"x": [value * widest.high] * 5})
    for trials in (None, 20):
        found = plan.measure(plan.prepare(rows), system_bits(), trials)
        assert 0 <= found.min() <= found.max() < 2**63 - 1
    with pytest.raises(OboroError, match="too many values"):
        trimmed_mean_plan(scope, ob.Integer("x", 0, WIDE // FINER), "0.1", guarantee=Pure(100))


@pytest.mark.parametrize("value", [0, 1])
def test_the_cost_of_the_widest_tree_is_published(value: int) -> None:
    edges, cap = [(0, 1), (1, 2), (2, 3)], 2**60 - 1
    plan = mst_cost_plan(dict.fromkeys(edges, 0), cap=cap, guarantee=Pure(100))
    for trials in (None, 20):
        found = plan.measure(plan.prepare(dict.fromkeys(edges, value * cap)), system_bits(), trials)
        assert 0 <= found.min() <= found.max() <= 3 * cap
    record = plan.to_dict()
    assert plan_from(record) == plan
    for wider in (cap + 1, WIDE - 1):
        with pytest.raises(OboroError, match="cap is out of range"):
            plan_from({**record, "cap": str(wider)})


def test_a_histogram_numbers_no_more_cells_than_64_bits_can_tell() -> None:
    def plan(bits: int) -> Any:
        domain = ob.Domain([ob.Integer(name, 0, 2**bits - 1) for name in "ab"])
        edges = {name: [0, 5, 2**bits - 1] for name in "ab"}
        return histogram_plan(domain, ["a", "b"], unit=ob.Unit.row(), eps=1, edges=edges)

    widest = plan(31)
    last = [2**31 - 1]
    assert widest.prepare(pa.table({"a": last, "b": last})).tolist() == [0, 0, 0, 1]
    with pytest.raises(OboroError, match="too many cells"):
        plan(32)


# -- synthetic data and tables -----------------------------------------------------------------------------------


def test_moments_of_the_largest_codes_are_exact() -> None:
    n = 2**20 + 3
    codes = np.full((2, n), LARGEST_CODE - 1)
    codes[1, ::2] = 0
    found = moments_of(codes)
    top, few = LARGEST_CODE - 1, n // 2
    assert found.sums == (n * top, few * top)
    assert found.products == ((n * top**2, few * top**2), (few * top**2, few * top**2))


def test_products_of_scores_fit() -> None:
    assert STEPS**2 * MOST_ROWS < 2**63


@pytest.mark.parametrize("size", [1, 2**10, 2**31])
def test_counts_of_cells_are_capped_so_that_no_sum_runs_over(size: int) -> None:
    layout = layout_of(ob.Domain([ob.Integer("x", 0, size - 1)]))
    most = cap(layout)
    assert most * min(size, 2**31) <= LARGEST_TOTAL
    for copies in (3, 5000):  # by Python, and by the compiled loop
        keys = np.full(copies, size - 1, np.int64)
        cells = sort_cells(keys, np.full(copies, most, np.int64), layout.bits, most)
        assert (cells.keys.tolist(), cells.counts.tolist()) == ([size - 1], [most])


# -- every question, on columns as wide as they may be ----------------------------------------------------------

COLUMNS = {
    "whole": ob.Integer("x", 0, WIDE - 1, missing=0),
    "far": ob.Integer("x", -WIDE, WIDE, step=8),
    "real": ob.Real("x", "-1e150", "1e150", "1e140"),
    "fine": ob.Real("x", 0, "1e-140", "1e-150", missing=0),
    "day": ob.Date("x", "0001-01-01", "9999-12-31"),
}
HOSTILE = [
    *(pa.array([0] * 5 + [value], pa.int64()) for value in (2**63 - 1, -(2**63), None)),
    *(pa.array([0.0] * 5 + [float(value)]) for value in ("1e308", "-1e308", "5e-324", "-inf", "nan")),
    *(pa.array(["0"] * 5 + [value]) for value in ("inf", "9" * 400)),
]
Make = Callable[[Any, Scope], Any]
QUESTIONS: dict[str, Make] = {
    "sum": lambda c, s: SumPlan(c, s, Pure(1)),
    "sum, Gaussian": lambda c, s: SumPlan(c, s, ZCDP(1)),
    "sums": lambda c, s: SumsPlan((c,), s, Pure(1)),
    "sum in a ball": lambda c, s: sums_plan([c], s, ZCDP(1), Ball("l1", 2**40)),
    "mean": lambda c, s: mean_plan([c], s, Pure(1)),
    "variance": lambda c, s: covariance_plan([c], s, Pure(1)),
    "mean in a ball": lambda c, s: mean_plan([c], s, Pure(1), Ball("l1", 2**40)),
    "variance in a ball": lambda c, s: covariance_plan([c], s, ZCDP(1), Ball("l2", 1)),
    "components": lambda c, s: components_plan(s, [c], 1, radius=1, guarantee=Approx(1, "1e-6")),
    "components, wide": lambda c, s: components_plan(s, [c], 1, radius="1e140", guarantee=Pure(1)),
    "median": lambda c, s: quantile_plan(c, "0.5", s, Pure(1)),
    "quantiles": lambda c, s: quantile_plan(
        c, ["0.123457", "0.499979", "0.9"], s, Pure(1), method="splitting"
    ),
    "joint": lambda c, s: quantile_plan(c, ["0.123457", "0.9"], s, Pure(1), method="joint"),
    "smooth": lambda c, s: smooth_quantile_plan(s, c, "0.5", guarantee=Pure(1)),
    "trimmed": lambda c, s: trimmed_mean_plan(s, c, "0.1", guarantee=Pure(1)),
    "clusters": lambda c, s: clusters_plan(s, [c], 2, eps=1, method="lloyd"),
    "cells": lambda c, s: clusters_plan(s, [c], 2, eps=1, method="grid"),
}


@pytest.mark.parametrize("unit", [ob.Unit.row(), ob.Unit.row("replace")], ids=str)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.long("values at the ends of widths")
def test_no_value_raises_or_warns_in_any_question_that_is_not_refused(column: str, unit: ob.Unit) -> None:
    scope = Scope(unit, n=6) if unit.adjacency == "replace" else Scope(unit, expected_n=6)
    asked = 0
    for make in QUESTIONS.values():
        try:
            plan = make(COLUMNS[column], scope)
        except OboroError:
            continue
        asked += 1
        for values in HOSTILE:
            plan.publish(plan.measure(plan.prepare(pa.table({"x": values})), system_bits()))
    assert asked >= 4


@pytest.mark.parametrize("wide", [{"high": "1e151", "step": "1e141"}, {"high": "1e-150", "step": "1e-151"}])
def test_reals_that_doubles_cannot_hold_are_refused(wide: dict[str, str]) -> None:
    with pytest.raises(OboroError, match="beyond use"):
        ob.Real("x", 0, **wide)


@pytest.mark.parametrize("radius", ["1e-151", "1e-310", "1e151", "1e-140"])
def test_a_radius_that_doubles_cannot_hold_or_no_grid_can_is_refused_on_loading_too(radius: str) -> None:
    scope, column = Scope(ob.Unit.row()), ob.Integer("x", 0, 1)
    for plan in (
        components_plan(scope, [column], 1, radius=1, guarantee=ZCDP(1)),
        mean_plan([column], scope, Pure(1), Ball("l2", 1)),
        covariance_plan([column], scope, Pure(1), Ball("l1", 1)),
    ):
        record = plan.to_dict()
        assert plan_from(record) == plan
        ball = {"ball": {**record["ball"], "radius": radius}} if "ball" in record else {"radius": radius}
        with pytest.raises(OboroError):
            plan_from({**record, **ball})
