"""Series of tables: the algebra over time, what one unit moves, ticks that are drawn once, and what is published of them."""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import kills
import oboro as ob
from oboro.audit.enumeration import computed
from oboro.errors import LedgerError, NameTakenError, ParameterError, TamperError, UnitError
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.tables.series import shrinkage
from oboro.tables.series.clock import Clock
from oboro.tables.series.estimates import Estimates, regrid
from oboro.tables.series.plan import Counted
from oboro.tables.series.planner import plan_levels
from oboro.tables.series.shrinkage import shrunk
from oboro.tables.tree.lattice import Lattice, lattice_of
from oboro.tables.tree.workload import Design

GRID = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
CROSSED = ob.Domain([ob.Grid("row", "col", shape=(2, 2)), ob.Category("sex", ["f", "m"])])
PERSON = ob.Unit.person("who", 24)


def trips(persons: int = 300, ticks: int = 4, side: int = 4, seed: int = 0) -> pa.Table:
    """Everybody somewhere at each tick, now and then twice."""
    draw = np.random.default_rng(seed)
    who, tick = np.repeat(np.arange(persons), ticks), np.tile(np.arange(ticks), persons)
    again = draw.random(who.size) < 0.2
    who, tick = np.concatenate([who, who[again]]), np.concatenate([tick, tick[again]])
    keep = draw.random(who.size) < 0.8
    who, tick = who[keep], tick[keep]
    row, col = draw.integers(0, side, (2, who.size))
    return pa.table({"who": who, "tick": tick, "row": row, "col": col})


def a_plan(ticks: int = 4, max_ticks: int = 4, domain: ob.Domain = GRID, **more: Any) -> Any:
    return ob.tables.plan(
        domain, **{"unit": PERSON, "eps": 1, "ticks": ticks, "max_ticks": max_ticks, **more}
    )


@pytest.fixture
def ledger(tmp_path: Path) -> ob.Ledger:
    return ob.Ledger.create(tmp_path / "a.ledger", dataset="x", unit=PERSON, budget=ob.Pure(2))


@pytest.fixture
def bits() -> Iterator[Bits]:
    with pytest.warns(UnsafeBitsWarning):
        yield UnsafeDeterministicBits("series")


# The algebra


def dense(estimates: Estimates, counts: Any, at: Any, level: Any) -> tuple[Any, float]:
    """The same by matrices that know nothing of trees: the answers for all nodes, and the variance of the first; None where nothing tells."""
    clock, places = estimates.clock, estimates.places
    n, ticks = places.leaves, clock.ticks

    def covered(time: int, node: int, own: Any, number: int) -> Any:
        one = np.zeros(places.nodes(own))
        one.reshape(-1)[number] = 1
        found = np.zeros((ticks, n))
        found[list(clock.span(time, node))] = regrid(one, own, places.finest, places).reshape(-1)
        return found.reshape(-1)

    rows, right = [np.zeros(ticks * n)], [0.0]
    for i, (time, *own) in enumerate(estimates.design.levels):
        weight = math.sqrt(estimates.precisions[i])
        for node in range(clock.tree.nodes(time)):
            if estimates.counted(time, node):
                for number in range(math.prod(places.nodes(tuple(own)))):
                    rows.append(weight * covered(time, node, tuple(own), number))
                    right.append(weight * counts[i, node].reshape(-1)[number])
    matrix = np.array(rows)
    normal = matrix.T @ matrix
    inverse = np.linalg.pinv(normal, rcond=1e-11)
    asked = np.array([covered(*at, level, number) for number in range(math.prod(places.nodes(level)))])
    if np.abs(asked @ inverse @ normal - asked).max() > 1e-6:
        return None, math.inf
    return asked @ inverse @ matrix.T @ np.array(right), float(asked[0] @ inverse @ asked[0])


@pytest.mark.parametrize(("ticks", "domain"), [(6, GRID), (8, CROSSED), (37, CROSSED)])
@pytest.mark.long("least squares against dense ones")
def test_least_squares_over_whatever_is_there_is_that_of_plain_matrices(
    ticks: int, domain: ob.Domain
) -> None:
    draw, places, clock = np.random.default_rng(ticks), lattice_of(domain), Clock(ticks)
    every = [(time, *level) for time in range(clock.depth + 1) for level in places.levels]
    for _ in range(3 if ticks < 37 else 1):
        levels = [every[i] for i in sorted(draw.choice(len(every), 3, replace=False))]
        noises = tuple(DiscreteLaplace(int(draw.integers(1, 9))) for _ in levels)
        design = Design(tuple(levels), (Fraction(1, 3),) * 3)
        done = frozenset(tick for tick in range(ticks) if draw.random() < 0.8)
        estimates = Estimates(clock, places, design, noises, done)
        counts = {
            (i, node): draw.integers(-20, 50, places.nodes(level[1:]))
            for i, level in enumerate(levels)
            for node in range(clock.tree.nodes(level[0]))
        }
        for time, level in itertools.product(range(clock.depth + 1), places.levels):
            at = (time, int(draw.integers(clock.tree.nodes(time))))
            if not clock.span(*at):
                continue
            answers, variance = dense(estimates, counts, at, level)
            assert estimates.variance(at, level) == pytest.approx(variance, rel=1e-6)
            error = estimates.error(at, level)
            assert (error is None) == (variance == math.inf)
            if error is not None:
                assert error.variance == pytest.approx(variance, rel=1e-6)
                values = estimates.values(counts, [at], level, None)[at]
                assert values.reshape(-1) == pytest.approx(answers, abs=1e-6)


def test_blocks_of_time_end_once_and_cover_all_ticks() -> None:
    for ticks in (2, 7, 24, 30, 37, 288):
        clock = Clock(ticks)
        ended = [at for tick in range(ticks) for at in clock.closing(tick)]
        assert len(ended) == len(set(ended))
        for level in range(clock.depth + 1):
            spans = [tick for own, node in ended if own == level for tick in clock.span(own, node)]
            assert sorted(spans) == list(range(ticks))


# What one unit moves


@pytest.mark.parametrize("adjacency", ["add/remove", "replace"])
def test_what_a_unit_moves_is_the_worst_of_all_ways_to_spend_its_ticks(adjacency: str) -> None:
    for ticks, most in [(6, 6), (6, 4), (8, 3), (7, 5)]:
        unit = ob.Unit.person("who", 24, adjacency)
        plan = a_plan(ticks, most, unit=unit, eps=1, delta="1e-6")
        twice = 2 if adjacency == "replace" else 1
        for level in range(plan.clock.depth + 1):
            under = plan.clock.tree.under(level)
            worst = max(
                sum(n**2 for n in np.bincount(np.array(chosen) // under))
                for chosen in itertools.combinations(range(ticks), most)
            )
            assert plan.moves_squared(level) == twice * worst
    assert {part.moves for part in a_plan(6, 4).parts} == {Fraction(4)}


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_the_noise_that_is_drawn_is_that_of_the_parts(delta: str | None) -> None:
    plan = a_plan(6, 4, delta=delta)
    drawn = {plan.levels[piece.of]: piece.noise for tick in range(6) for piece in plan.pieces(tick)}
    assert drawn == {part.of: part.noise for part in plan.parts}
    assert plan.guarantee.covers(plan.cost)
    law = DiscreteLaplace if delta is None else DiscreteGaussian
    assert all(isinstance(noise, law) for noise in drawn.values())


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ns", "Asia/Tokyo"), pa.date32()])
def test_ticks_that_are_times_are_refused_before_a_tick_is_begun(
    kind: pa.DataType, ledger: ob.Ledger
) -> None:
    series = ob.tables.series(a_plan(), ledger=ledger, name="day")
    data = trips()
    whole = data["tick"].cast(pa.int32() if kind == pa.date32() else pa.int64())
    timed = data.set_column(data.column_names.index("tick"), "tick", whole.cast(kind))
    with pytest.raises(ob.errors.DataError, match="a tick is a whole number"):
        series.publish(timed, tick=0)
    series.publish(data, tick=0)


def test_a_text_file_has_no_types_so_check_counts_ticks_that_are_times(tmp_path: Path) -> None:
    timed, told = tmp_path / "timed.csv", "tick: no whole number below 4"
    timed.write_text("who,tick,row,col\n1,2026-03-01 00:00,0,0\n2,1,0,0\n3,4,0,0\n4,2,0,0\n4,2,0,0\n")
    found = {row["problem"]: row["records"] for row in ob.tables.check(timed, GRID, ticks=4)}
    assert (found["records"], found[told], found["tick: missing"]) == (5, 2, 0)
    plain = {row["problem"]: row["records"] for row in ob.tables.check(timed, GRID)}
    assert not any(name.startswith("tick") for name in plain)
    counted = pa.table({"tick": [0, 0, 1], "row": [0, 0, 0], "col": [0, 0, 0], "n": [1, 1, 1]})
    again = {row["problem"]: row["records"] for row in ob.tables.check(counted, GRID, "n", ticks=4)}
    assert again["records of a cell that has an earlier one"] == 1  # at one tick, not at two


def test_which_ticks_of_a_person_count_follows_from_the_past_alone() -> None:
    table, plan = trips(ticks=8), a_plan(8, 3)
    whole = plan.read(table)
    for tick in range(8):
        past = plan.read(table.filter(pa.compute.less_equal(table["tick"], tick)))
        for one, other in zip(plan.counted(past, tick), plan.counted(whole, tick), strict=True):
            assert (one == other).all()
    persons = table.group_by(["who", "tick"]).aggregate([])
    ticks_of = {}
    for who in persons["who"].to_pylist():
        ticks_of[who] = ticks_of.get(who, 0) + 1
    assert whole.counts.sum() == sum(min(3, number) for number in ticks_of.values())


def test_a_person_who_is_in_many_cells_moves_every_level_by_no_more_than_max_ticks() -> None:
    plan = a_plan(4, 2)
    one = {
        "who": [7] * 40,
        "tick": [i % 4 for i in range(40)],
        "row": [i % 3 for i in range(40)],
        "col": [0] * 40,
    }
    moved: dict[int, int] = {}
    for piece, counts in zip(plan.every, plan.prepare(pa.table(one)), strict=True):
        moved[piece.of] = moved.get(piece.of, 0) + int(np.abs(counts).sum())
    assert set(moved.values()) == {2}


def test_event_level_is_asked_for_by_name_and_counted_cells_are_declared() -> None:
    with pytest.raises(UnitError, match="by name"):
        a_plan(unit=ob.Unit.row())
    event = a_plan(unit=ob.Unit.row(), event=True, max_ticks=None)
    assert event.max_ticks == 1
    assert "not a person" in event.bounded
    counted = a_plan(unit=ob.Unit.cells(max_per_cell=3), count="n")
    assert counted.unit == ob.Unit.cells(4, 3)
    assert "declared" in counted.bounded
    assert {part.moves for part in counted.parts} == {Fraction(12)}


# Planning


def test_laplace_noise_counts_cells_by_the_day_and_gaussian_noise_by_the_hour() -> None:
    domain = ob.Domain([ob.Grid("row", "col", shape=(64, 64))])
    asked = ob.tables.each_tick("8x8") + ob.tables.mean_over_ticks("cells")
    laplace = a_plan(24, 24, domain, workload=asked)
    assert laplace.levels == ("all of tick; 1 x 1 of row,col", "each tick; 8 x 8 of row,col")
    gaussian = a_plan(24, 24, domain, workload=asked, delta="1e-6")
    assert gaussian.levels == ("each tick; 8 x 8 of row,col", "each tick; 1 x 1 of row,col")
    alone = a_plan(24, 24, domain, workload=ob.tables.each_tick("8x8"))
    assert alone.shares == (Fraction(5, 100), Fraction(95, 100))


def test_the_planned_shares_are_near_the_best_of_all_pairs_of_levels() -> None:
    places, clock = lattice_of(GRID), Clock(6)
    asked = ob.tables.each_tick("2x2") + ob.tables.mean_over_ticks("cells")

    def score(levels: Any, shares: Any) -> float:
        design = Design(tuple(levels), tuple(shares))
        noises = tuple(DiscreteLaplace(100 / share) for share in shares)
        total = 0.0
        for tick in range(6):
            there = frozenset(clock.span(*clock.closing(tick)[0]))
            total += (
                math.log(Estimates(clock, places, design, noises, there).variance((clock.depth, tick), (1,)))
                / 6
            )
        final = Estimates(clock, places, design, noises, frozenset(range(6)))
        each = (total + math.log(final.variance((clock.depth, 0), (1,)))) / 2
        return each + math.log(final.variance((0, 0), (2,)))

    planned = score(*plan_levels(clock, places, asked, None))
    lattice = Lattice((clock.tree, *places.trees))
    rivals = [
        score(pair, (Fraction(part, 12), Fraction(12 - part, 12)))
        for pair in itertools.combinations(lattice.levels, 2)
        if any(level[1] == 2 for level in pair)
        for part in (3, 4, 6, 8, 9)
    ]
    assert planned <= min(rivals) + 0.01


def test_what_a_series_cannot_do_is_said() -> None:
    for wrong in (
        {"ticks": 1},
        {"max_ticks": 9},
        {"max_ticks": None},
        {"workload": ob.tables.blocks()},
        {"workload": ob.tables.each_tick("3x3")},
        {"strategy": "tree"},
        {"unit": ob.Unit.cells(9)},
        {"domain": ob.Domain([ob.Integer("tick", 0, 3)])},
    ):
        with pytest.raises(ob.errors.InputError):
            a_plan(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="ticks"):
        ob.tables.plan(GRID, unit=PERSON, eps=1, workload=ob.tables.each_tick("2x2"))
    with pytest.raises(ParameterError, match="series"):
        ob.tables.plan(GRID, unit=PERSON, eps=1, max_ticks=4)


# What is published of cells


BLOCKS = lattice_of(ob.Domain([ob.Grid("row", "col", shape=(64, 64))])).trees[
    0
]  # blocks of 8 x 8 are its level 3


def in_blocks(true: Any) -> tuple[Any, Any]:
    """Counts [row, col] in the order of the tree, and what blocks hold of them."""
    cells = true[tuple(BLOCKS.places(np.arange(BLOCKS.leaves)))].astype(float)[:, None]
    return cells, np.rint(cells.reshape(64, -1).sum(axis=1, keepdims=True)).astype(np.int64)


def test_differences_among_cells_are_kept_as_far_as_they_are_no_noise() -> None:
    draw = np.random.default_rng(0)
    true = np.repeat(draw.gamma(0.5, 800, (64, 1)), 64, axis=1) * draw.gamma(2, 0.5, (64, 64))
    held = np.rint(true.sum(axis=1, keepdims=True)).astype(np.int64)
    for sd, least in ((0.0, 1.0), (100.0, 1.25), (2000.0, 4.0)):
        noisy = true + draw.normal(0, 1, true.shape) * sd
        found = shrunk(noisy.reshape(-1, 1), held, BLOCKS, 3, [sd**2] * 3, None).reshape(true.shape)
        assert found.sum(axis=1) == pytest.approx(held[:, 0])
        off, before = (float(np.sqrt(((one - true) ** 2).mean())) for one in (found, noisy))
        assert off * least <= before + 0.1
    even = shrunk(noisy.reshape(-1, 1), held, BLOCKS, 3, [1e12] * 3, None).reshape(true.shape)
    assert even == pytest.approx(np.repeat(held / 64, 64, axis=1), rel=0.01)


def test_one_block_that_holds_nearly_everybody_does_not_make_the_scale_alternate() -> None:
    noise, usual = np.ones((401, 1)), np.full((401, 1), 1e-3)
    energy = np.ones((401, 1))
    usual[0], energy[0] = 14.0, 117.0
    energy[1:201] = 0.1
    c = shrinkage._scale(energy, noise, usual)
    weight = usual / (noise + c * usual) ** 2
    assert c == pytest.approx(float((weight * (energy - noise)).sum() / (weight * usual).sum()), rel=1e-6)
    assert 4 < c < 5  # put in again and again: 0, 8.3, 0, 8.3
    assert shrinkage._scale(noise / 2, noise, usual) < 1e-9


def test_cells_follow_the_blocks_around_where_that_helps_and_never_lose_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(0)
    row, col = np.indices((64, 64))
    town = np.exp(-((row - 30.0) ** 2 + (col - 41.0) ** 2) / 300)
    road = (abs(row - col // 3 - 7) < 1) + (col == 13) + 0.001
    spots = np.zeros((64, 64))
    spots[draw.integers(0, 64, 9), draw.integers(0, 64, 9)] = draw.gamma(1, 1, 9)
    kinds = {"town": town, "uniform": town**0, "road": road, "spots": spots, "yards": (row % 3) * (col % 4)}
    for name, shape in kinds.items():
        for people in (50_000, 2_000_000):
            true, held = in_blocks(draw.poisson(people * shape / shape.sum()))
            off = np.zeros(2)
            for _ in range(6):
                noisy = true + draw.normal(0, 80, true.shape)
                for i, most in enumerate((1.5, 0.0)):  # 0: towards the mean of the block alone
                    monkeypatch.setattr(shrinkage, "_MOST", most)
                    found = shrunk(noisy, held, BLOCKS, 3, [80.0**2] * 3, None)
                    off[i] += ((np.maximum(found, 0) - true) ** 2).mean()
            assert off[0] <= (0.75 if name == "town" else 1.04) * off[1], (
                name
            )  # of squares: half as much of errors


def test_cells_that_hold_nobody_for_certain_get_nothing() -> None:
    draw = np.random.default_rng(0)
    good = draw.random((64 * 64, 2)) < 0.6
    good[:64, 1] = False  # a block without any
    held = np.array([[100 * (i + 1), 40 * i] for i in range(64)])
    found = shrunk(draw.normal(0, 100, good.shape), held, BLOCKS, 3, [1e4] * 3, good)
    assert not found[~good].any()
    assert found.reshape(64, 64, 2).sum(axis=1) == pytest.approx(held)


@pytest.mark.parametrize(
    ("column", "level"),
    [
        (ob.Grid("row", "col", shape=(48, 40)), 2),
        (ob.Integer("age", 0, 99), 3),
        (ob.Mesh("mesh", "1km", region=["5339", "5340", "5440"]), 3),
    ],
)
def test_a_surface_is_smooth_across_neighbours_of_any_tree(column: Any, level: int) -> None:
    tree = lattice_of(ob.Domain([column])).trees[0]
    # a plane, along every direction: what is said of it is the plane again, but at its edges
    where = tree.places(np.arange(tree.leaves))
    along = [
        np.ravel_multi_index(tuple(where[axis] for axis in axes), tuple(tree.side(axis, 0) for axis in axes))
        for axes in tree.directions
    ]
    plane = 1000.0 + sum(along)
    nodes = tree.nodes(level + 1)
    many = np.full((nodes, 1), float(tree.under(level + 1)))
    held = plane.reshape(tree.nodes(level), -1).sum(axis=1, keepdims=True)
    found = shrinkage._surface(tree, level, held, many)
    assert (found * many).reshape(tree.nodes(level), -1).sum(axis=1) == pytest.approx(held[:, 0])
    means = plane.reshape(nodes, -1).mean(axis=1)
    mean = np.repeat(held[:, 0] / tree.under(level), tree.arities[level])
    assert ((found[:, 0] - means) ** 2).mean() < 0.25 * ((mean - means) ** 2).mean()


# Publishing


def test_the_final_table_is_that_of_one_release_of_the_whole_horizon(ledger: ob.Ledger, bits: Bits) -> None:
    plan, data = a_plan(), trips()
    series = ob.tables.series(plan, ledger=ledger, name="day")
    assert ledger.remaining == ob.Pure(1)
    for tick in (1, 0, 3, 2):  # in any order
        series.publish(data, tick=tick, bits=bits)
    ticks = series._ticks()
    measured = [one for tick in range(4) for one in series._counts(ticks[tick], tick)]
    assert [one.piece for one in measured] == plan.every
    final = series.final().to_arrow()
    assert final.equals(plan.publish([one.counts for one in measured]))
    assert ledger.remaining == ob.Pure(1)
    hours, day = (final.filter(pa.compute.equal(final["ticks"], many)) for many in (1, 4))
    assert pa.compute.sum(hours["count"]) == pa.compute.sum(day["count"])
    assert series.final().to_arrow().equals(final)
    assert series.final().certificate.record["bits"].startswith("UNSAFE")


def test_a_tick_rests_on_the_longest_block_that_is_over_with_it(ledger: ob.Ledger, bits: Bits) -> None:
    plan = a_plan(workload=ob.tables.each_tick("2x2") + ob.tables.mean_over_ticks("cells"))
    series = ob.tables.series(plan, ledger=ledger, name="day")
    rests, told = [], []
    for tick in range(4):
        table = series.publish(trips(), tick=tick, bits=bits).to_arrow()
        rests.append(json.loads(table.schema.metadata[b"oboro.series"])["done"])
        told.append(sorted(set(zip(table["tick"].to_pylist(), table["ticks"].to_pylist(), strict=True))))
        assert set(table["state"].to_pylist()) == {"provisional"}
    assert rests == [[0], [0, 1], [2], [0, 1, 2, 3]]
    assert told == [[(0, 1)], [(1, 1)], [(2, 1)], [(3, 1), (3, 4)]]


def test_a_tick_is_published_once_and_a_series_is_taken_up_again(ledger: ob.Ledger, tmp_path: Path) -> None:
    plan, data = a_plan(), trips()
    series = ob.tables.series(plan, ledger=ledger, name="day")
    first = series.publish(data, tick=2)
    series.save(tmp_path / "series.toml")
    again = ob.tables.open_series(tmp_path / "series.toml")
    assert again.publish({"who": []}, tick=2).to_arrow().equals(first.to_arrow())  # no data is looked at
    assert (again.published, again.lost, again.missing) == ([2], [], [0, 1, 3])
    with pytest.raises(NameTakenError):
        ob.tables.series(a_plan(max_ticks=3), ledger=ledger, name="day")
    with pytest.raises(ParameterError, match="not published"):
        series.final()
    with pytest.raises(ParameterError):
        series.publish(data, tick=4)
    assert ledger.verify().commits == 1


def test_what_died_is_lost_and_never_drawn_again_and_the_final_table_says_so(ledger: ob.Ledger) -> None:
    plan, data = a_plan(workload=ob.tables.each_tick("2x2")), trips()
    series = ob.tables.series(plan, ledger=ledger, name="day")
    series.ledger.begin(series._reservation, 1)  # as a process that died here leaves it
    for tick in (0, 2, 3):
        series.publish(data, tick=tick)
    assert series.lost == [1]
    with pytest.raises(LedgerError, match="never drawn again"):
        series.publish(data, tick=1)
    with pytest.raises(LedgerError, match="never drawn again"):
        ledger.begin(series._reservation, 1)
    final = series.final()
    assert "without tick 1" in final.certificate.record["released"]
    table = final.to_arrow()
    states = set(
        zip(table["tick"].to_pylist(), table["ticks"].to_pylist(), table["state"].to_pylist(), strict=True)
    )
    # the cells of the whole horizon tell what tick 1 held, badly
    assert states == {(0, 1, "final"), (1, 1, "lost"), (2, 1, "final"), (3, 1, "final"), (3, 4, "final")}
    with pytest.raises(LedgerError, match="over"):
        ledger.begin(series._reservation, 1)
    assert ledger.verify().spent == ob.Pure(1)


def test_ticks_that_the_final_table_gave_up_are_lost_and_not_missing(ledger: ob.Ledger) -> None:
    series = ob.tables.series(a_plan(), ledger=ledger, name="day")
    series.publish(trips(), tick=1)
    assert (series.lost, series.missing) == ([], [0, 2, 3])
    series.final(incomplete=True)
    assert (series.published, series.lost, series.missing) == ([1], [0, 2, 3], [])
    whole = ob.run(a_plan(), trips(), ledger, name="all at once")
    again = ob.tables.series(a_plan(), ledger=ledger, name=whole.name)
    assert (again.over, again.lost, again.missing) == (True, [], [])


def test_a_lost_tick_is_told_by_the_block_of_time_around_it() -> None:
    plan = a_plan(unit=ob.Unit.row(), event=True, max_ticks=1)
    levels = ((2, 2), (1, 2), (0, 2))
    plan = ob.tables.SeriesPlan(
        GRID,
        ob.Unit.row(),
        ob.Pure(1),
        4,
        1,
        None,
        None,
        plan.workload,
        Design(levels, (Fraction(1, 3),) * 3),
    )
    data = trips(3000)
    measured = zip(plan.every, plan.measure(plan.prepare(data), Bits()), strict=True)
    there = [Counted(piece, counts) for piece, counts in measured if piece.span[-1] != 0]
    table = plan.final(there, [1, 2, 3])
    rows = table.filter(pa.compute.equal(table["tick"], 0))
    assert set(rows["state"].to_pylist()) == {"lost"}
    true = plan.read(data).within(range(1), plan.places, (2,))
    assert abs(int(pa.compute.sum(rows["estimate"]).as_py()) - int(true.sum())) < 400
    low, high = plan.intervals(rows, 0.95)
    other = table.filter(pa.compute.equal(table["tick"], 1))
    assert (high - low).max() > (np.subtract(*plan.intervals(other, 0.95)[::-1])).max()


def test_intervals_hold_the_true_count_as_often_as_they_say_and_hardly_more_often(bits: Bits) -> None:
    plan, data = a_plan(eps="0.2"), trips(3000)
    visits = plan.read(data)
    prepared = plan.prepare(data)
    held = tried = 0
    for _ in range(25):
        table = plan.publish(plan.measure(prepared, bits))
        hours = table.filter(pa.compute.equal(table["ticks"], 1))
        low, high = plan.intervals(hours, 0.8)
        nodes = np.asarray(hours["row"]) // 1, np.asarray(hours["col"]) // 1
        leaves = plan.places.leaf(plan.layout, plan.layout.keys([*nodes]))
        for tick in range(4):
            true = visits.within(range(tick, tick + 1), plan.places, plan.shown).reshape(-1)
            rows = np.asarray(hours["tick"]) == tick
            inside = (low[rows] <= true[leaves[rows]]) & (true[leaves[rows]] <= high[rows])
            held, tried = held + int(inside.sum()), tried + int(inside.size)
    assert tried == 1600
    assert 0.76 < held / tried < 0.86  # a z of 4 for 0.8, with the same noise every time


@pytest.mark.parametrize("eps", ["0.1", "1", "3"])
def test_no_number_of_a_row_lies_outside_its_interval(eps: str, bits: Bits) -> None:
    plan = a_plan(eps=eps)
    nobody = plan.prepare({"who": ["a"], "tick": [0], "row": [0], "col": [0]})
    table = plan.publish(plan.measure(nobody, bits))
    estimate, count = (np.asarray(table[name], np.int64) for name in ("estimate", "count"))
    assert estimate.min() < 0
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = plan.intervals(table, level)
        assert (low <= np.minimum(estimate, count)).all()
        assert (np.maximum(estimate, count) <= high).all()


def test_structural_zeros_hold_nobody_and_rows_outside_are_dropped(ledger: ob.Ledger) -> None:
    sea = {"row": [0, 0, 1], "col": [0, 1, 0]}
    plan = a_plan(impossible=sea)
    odd = {"who": ["a", None, "b", "c"], "tick": [0, 1, 99, None], "row": [0, 1, 2, 3], "col": [0, 1, 2, 3]}
    table = ob.run(plan, pa.table(odd), ledger).to_arrow()
    cells = table.filter(pa.compute.equal(table["ticks"], 4))
    assert (0, 0) not in set(zip(cells["row"].to_pylist(), cells["col"].to_pylist(), strict=True))
    assert cells.num_rows == 13
    assert pa.compute.min(table["count"]).as_py() >= 0


def test_the_audit_computes_what_is_promised_and_no_more() -> None:
    plan = a_plan(3, 2, ob.Domain([ob.Category("sex", ["f", "m"])]))
    assert all(
        computed(plan, pair) for pair in plan.neighbours()
    )  # what is drawn is what the plan says of itself
    report = ob.audit.exact(plan)
    assert len(report.findings) == 4
    assert report.verdict == "holds"
    assert 0.8 < report.eps_lower <= 1


def test_a_tick_is_written_down_before_its_noise_is_drawn(ledger: ob.Ledger) -> None:
    class Looking(Bits):
        seen: tuple[str, ...] = ()

        def words(self, count: int) -> Any:
            self.seen = self.seen or tuple(entry.kind for entry in ledger.history())
            return super().words(count)

    looking = Looking()
    try:
        ob.tables.series(a_plan(), ledger=ledger, name="day").publish(trips(), tick=1, bits=looking)
    finally:  # also if what was drawn cannot be stored then
        assert looking.seen == ("create", "reserve", "tick")
    assert [entry.kind for entry in ledger.history()][-1] == "commit"


def test_a_run_of_the_whole_and_its_ticks_are_never_both_shown(ledger: ob.Ledger) -> None:
    plan, data = a_plan(), trips()

    class Between(Bits):
        refused: NameTakenError | None = None

        def words(
            self, count: int
        ) -> Any:  # the run has paid, and draws: another wants to take its name up as a series
            if self.refused is None:
                with pytest.raises(NameTakenError) as found:
                    ob.tables.series(plan, ledger=ledger, name="day")
                self.refused = found.value
            return super().words(count)

    between = Between()
    whole = ob.run(plan, data, ledger, name="day", bits=between)
    assert "not done yet" in str(between.refused)
    series = ob.tables.series(plan, ledger=ledger, name="day")  # it is done: there is its final table
    assert (series.published, series.over, ledger.verify().commits) == ([], True, 1)
    assert series.final().to_arrow().equals(whole.to_arrow())
    with pytest.raises(LedgerError):
        series.publish(data, tick=1)


def test_verifying_finds_a_tick_that_was_begun_twice_or_of_no_series(ledger: ob.Ledger) -> None:
    series = ob.tables.series(a_plan(), ledger=ledger, name="day")
    own = series._reservation
    for tick, at in ((1, own.position), (9, own.position), (0, 0)):
        copy = ob.Ledger.create(
            Path(ledger.where).with_name(f"{tick}{at}.ledger"), dataset="x", unit=PERSON, budget=ob.Pure(2)
        )
        again = ob.tables.series(a_plan(), ledger=copy, name="day")
        copy.begin(again._reservation, 1)
        copy.verify()
        digest = copy.history()[at].hash
        copy._write(
            "tick",
            lambda *_, at=at, digest=digest, tick=tick: {"series": at, "series_hash": digest, "tick": tick},
        )
        with pytest.raises(TamperError):
            copy.verify()


# kill -9


class Watched(Bits):
    """Says through a pipe that it was asked for noise."""

    def __init__(self, pipe: int, tick: int) -> None:
        self.told = (pipe, tick)
        super().__init__()

    def words(self, count: int) -> Any:
        os.write(self.told[0], f"{self.told[1]};".encode())
        return super().words(count)


def murdered(folder: Path, number: int, ticks: int, count: int) -> tuple[dict[int, int], ob.tables.Series]:
    """A series whose process is killed so many times; how many processes drew noise for each tick."""
    path = folder / f"{number}.ledger"
    plan, data = a_plan(ticks, ticks), trips(20, ticks)
    ob.Ledger.create(path, dataset="x", unit=PERSON, budget=ob.Pure(2)).close()

    def work(pipe: int) -> None:
        os.write(pipe, b"!")
        series = ob.tables.series(plan, ledger=ob.Ledger.open(path), name="day")
        for tick in series.missing:
            series.publish(data, tick=tick, bits=Watched(pipe, tick))

    trial = folder / "trial.ledger"
    if not trial.exists():
        ob.Ledger.create(trial, dataset="x", unit=PERSON, budget=ob.Pure(10**6)).close()
    rounds = itertools.count(number * 1000)

    def once() -> None:
        series = ob.tables.series(plan, ledger=ob.Ledger.open(trial), name=f"{next(rounds)}")
        series.publish(data, tick=0)

    drew: dict[int, int] = {}
    for kill in kills.kills(
        count, once, 2, seed=number
    ):  # each within two ticks of where the last one stopped
        for tick in {int(one) for one in kill(work).decode().replace("!", "").split(";") if one}:
            drew[tick] = drew.get(tick, 0) + 1
    return drew, ob.tables.series(plan, ledger=ob.Ledger.open(path), name="day")


KILLED = int(os.environ.get("OBORO_KILLS", "8"))


@pytest.mark.long("killed processes")
def test_kill_9_at_random_moments_never_draws_a_part_twice(tmp_path: Path) -> None:
    """`OBORO_KILLS=500 pytest tests/tables/test_series.py -k kill_9` kills as many as the issue asks for."""
    for number in range(1, 1 + -(-KILLED // 20)):
        ticks = 24 if KILLED > 20 else 6
        drew, series = murdered(tmp_path, number, ticks, min(KILLED, 20))
        assert drew
        assert max(drew.values()) == 1
        begun = {*series.published, *series.lost}
        assert set(drew) <= begun  # what was drawn was written down before
        lost = series.lost
        for tick in series.missing:
            series.publish(trips(20, ticks), tick=tick)
        final = series.final()
        assert all(f"{tick}" in final.certificate.record["released"] for tick in lost[:8])
        assert series.ledger.verify().spent == ob.Pure(1)


# The command line


def test_the_commands_of_a_day(tmp_path: Path) -> None:
    from doors.doors_world import GRID as DECLARED
    from doors.doors_world import typed

    (tmp_path / "mesh.toml").write_text(DECLARED)
    pa.parquet.write_table(trips(40, 2, 8), tmp_path / "day.parquet")

    def run(line: str, code: int = 0) -> str:
        result = typed(tmp_path, shlex.split(line))
        assert result.code == code, result.text
        return result.text

    run("ledger create mesh.ledger --dataset city --unit person:who:24 --eps 12 --per month --instalment 1")
    asked = "--domain mesh.toml --ticks 2 --max-ticks 2 --eps 1"
    assert "mean over ticks" in run(f"table forecast --unit person:who:24 {asked}")
    opening = f'table series {asked} --ledger mesh.ledger --name "1 March" -o series.toml'
    assert "eps = 11" in run(opening)
    assert "open already" in run(opening)
    run("table final --series series.toml -o day.csv", code=4)
    assert "provisional" in run("table tick day.parquet --series series.toml --tick 1 -o 01.parquet")
    assert "given again" in run("table tick day.parquet --series series.toml --tick 1 -o 01.csv")
    assert "open, 1 of 2 ticks" in run("ledger show mesh.ledger")
    run("table tick day.parquet --series series.toml --tick 2", code=4)
    run("table tick day.parquet --series series.toml --tick 0 -o 00.parquet")
    assert "2 March" not in run("table final --series series.toml -o final.parquet")
    assert "tick 1" in run("ledger fetch mesh.ledger --entry 2")
    run("certificate verify final.parquet.certificate.json")
    run("table play 00.parquet 01.parquet -o half.html")
    run("table play final.parquet 01.parquet -o day.html")
    half, whole = ((tmp_path / name).read_text() for name in ("half.html", "day.html"))
    assert '"states":["provisional","provisional"]' in half
    assert '"states":["final","final"]' in whole
    run(f'table series {asked} --ledger mesh.ledger --name "2 March" -o other.toml', code=3)
