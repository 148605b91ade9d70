"""Tables that ask first how many people there are, and are counted as is best for so many."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import tables
from oboro.arrays import Integers
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.errors import DataError, DomainError, GuaranteeError, ParameterError
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells
from oboro.tables.tree import strategy as trees
from oboro.tables.tree import trial
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.sized import Sized, Way
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.tree.workload import DEFAULT, Design

SIDE = 32
TOWN = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
FEW, MANY = 3_000, 300_000


def made(eps: str = "0.1", **facts: Any) -> tables.TablePlan:
    return tables.plan(TOWN, eps=eps, count="n", strategy="sized", **{"unit": Unit.cells(), **facts})


def sized(plan: tables.TablePlan) -> Sized:
    assert isinstance(plan.mechanism, Sized)
    return plan.mechanism


def people(number: int) -> Integers:
    far = np.add.outer(np.arange(SIDE), np.arange(SIDE))
    density = np.exp(-far / 6) + 0.002
    return (
        np.random.default_rng(1)
        .multinomial(number, (density / density.sum()).reshape(-1))
        .reshape(SIDE, SIDE)
    )


def cells_of(plan: tables.TablePlan, table: Integers) -> Cells:
    places = np.nonzero(table)
    data = {"row": places[0].tolist(), "col": places[1].tolist(), "n": table[places].tolist()}
    return plan.prepare(data)  # type: ignore[no-any-return]


def test_it_is_what_a_plan_is_where_nobody_says_how_many_there_are_and_it_matters() -> None:
    plan = made()
    assert plan_from(plan.to_dict()) == plan
    assert tables.plan(TOWN, unit=Unit.cells(), eps="0.1", workload=tables.cells()).strategy == "sized"
    assert tables.plan(TOWN, unit=Unit.cells(), eps="0.1", count="n") == plan
    assert tables.plan(TOWN, unit=Unit.cells(), eps="0.1", strategy="tree").strategy == "tree"
    ages = Domain([Integer("age", 0, 99)])
    assert (
        tables.plan(ages, unit=Unit.cells(), eps=1).strategy == "tree"
    )  # whatever their number, from 1,000 on
    assert [type(own) for own in sized(plan).bound] == [Pruned, PlannedTree]
    assert type(sized(made(workload=tables.cells())).bound[0]) is Adaptive
    assert tables.plan(TOWN, unit=Unit.cells(), eps="0.1", expected_total=FEW).strategy == "adaptive"
    assert tables.plan(TOWN, unit=Unit.cells(), eps="0.1", expected_total=MANY).strategy == "tree"


@pytest.mark.parametrize("unit", [Unit.cells(), Unit.cells(2, 3, "replace")])
def test_whichever_way_is_gone_all_of_it_costs_eps(unit: Unit) -> None:
    plan = made(unit=unit)
    assert plan.cost == Pure("0.1")
    cases = {part.case for part in plan.parts} - {""}
    assert len(cases) == 2
    for case in cases:
        own = [part for part in plan.parts if part.case in ("", case)]
        assert sum(part.moves / part.noise.scale for part in own) == Fraction(1, 10)  # type: ignore[union-attr]


@pytest.mark.long("statistical tests")
def test_the_number_has_the_noise_that_the_parts_say_and_decides_the_way() -> None:
    """In tables just below and above the turn. A scale a tenth off is seen; a false alarm is five standard errors."""
    plan = made()
    strategy, runs = sized(plan), 400
    law, turn = plan.parts[0].noise, strategy.taken[1].people
    for number in (turn - 20, turn + 20, 3 * turn):
        cells = Cells(np.array([5], np.int64), np.array([number], np.int64))
        found = strategy.measure(cells, system_bits(), runs)
        asked = np.array([int(each.noisy[0][0]) for each in found])
        for each, told in zip(found, asked, strict=True):
            way = strategy.of(int(told))
            assert type(way) is (Pruned if told < turn else PlannedTree)
            if isinstance(way, PlannedTree):
                assert [own.size for own in each.noisy[1:]] == [
                    math.prod(way.lattice.nodes(level)) for level in way.chosen.levels
                ]
        spread = math.sqrt(5 / runs)
        assert np.mean((asked - number) ** 2.0) == pytest.approx(law.variance, rel=5 * spread)  # type: ignore[attr-defined]
    assert 0 < np.mean(asked < 3 * turn) < 1


@pytest.mark.long("statistical tests")
def test_one_person_hardly_changes_which_way_is_gone() -> None:
    """Just where one more would, if the true number decided. Asking costs eps/100: no way is e^(eps/100) times likelier."""
    plan = made("1")
    strategy, runs = sized(plan), 1000
    turn = strategy.taken[1].people
    assert turn - 1 in strategy.crowds
    gone = []
    for number in (turn - 1, turn):
        cells = Cells(np.array([0], np.int64), np.array([number], np.int64))
        found = strategy.measure(cells, system_bits(), runs)
        gone.append(np.mean([int(each.noisy[0][0]) >= turn for each in found]))
    for one, other in (gone, gone[::-1]):
        assert one <= math.exp(1 / 100) * other + 5 * math.sqrt(0.5 / runs)


@pytest.mark.parametrize("number", [FEW, MANY])
def test_a_file_is_read_by_the_way_that_was_gone(number: int, tmp_path: Path) -> None:
    plan = made("1")
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=Unit.cells(), budget=Pure(2))
    table = people(number)
    places = np.nonzero(table)
    data = {"row": places[0].tolist(), "col": places[1].tolist(), "n": table[places].tolist()}
    release = tables.release(data, plan, ledger=ledger)
    release.save(path := tmp_path / "out.parquet")
    assert release.to_arrow().column_names == ["row", "col", "n", "estimate"]  # whichever way
    answer = tables.ask(path, {"row": (0, 15)})
    assert answer.low <= answer.value <= answer.high
    assert answer == release.interval(row=(0, 15))
    low, high = plan.intervals(release.to_arrow(), 0.95)  # type: ignore[misc]
    assert (low <= release.to_arrow()["n"].to_numpy()).all()
    assert (high >= release.to_arrow()["n"].to_numpy()).all()
    measured = plan.measure(cells_of(plan, table), system_bits())
    with pytest.raises(DataError, match="cannot be read"):
        sized(plan).answer(dataclasses.replace(measured, noisy=measured.noisy[1:]), {}, 0.95)


def test_ways_that_make_no_sense_are_refused() -> None:
    plan = made()
    looks, tree = plan.by_people
    assert tree.design is not None
    for wrong in (
        (tree,),  # not from 0 on
        (looks, Way(0, tree.design)),
        (looks, tree, tree),
        (looks, Way(5, Design(((0,), (7,)), (Fraction(1, 2), Fraction(1, 2))))),
    ):
        with pytest.raises(ParameterError):
            dataclasses.replace(plan, by_people=wrong)
    gaussian = tables.plan(TOWN, unit=Unit.cells(), eps="0.1", delta="1e-6", strategy="tree").design
    with pytest.raises(GuaranteeError):
        dataclasses.replace(plan, by_people=(looks, Way(5, gaussian)))
    with pytest.raises(ParameterError, match="several ways"):
        dataclasses.replace(plan, strategy="adaptive", workload=None)
    with pytest.raises(GuaranteeError, match="delta"):
        made(delta="1e-6")
    with pytest.raises(ParameterError, match="empty cells"):
        made(publish="0.1")
    with pytest.raises(ParameterError, match="total"):
        made(unit=Unit.cells(adjacency="replace"), total=100)
    with pytest.raises(ParameterError, match="tried out"):
        made(workload=tables.never_worse())
    with pytest.raises(DomainError, match="cannot serve"):
        tables.plan(Domain([Category("a", ["x", "y"])]), unit=Unit.cells(), eps=1, strategy="sized")


def test_the_forecast_is_that_of_the_way_for_so_many_or_the_largest_of_all() -> None:
    plan = made()
    few, many = sized(plan).bound
    assert plan.forecast(FEW).rows == few.forecast(FEW).rows
    assert plan.forecast(MANY).rows == many.forecast(MANY).rows
    errors = {str(name): float(error) for name, _, error, *_ in plan.forecast().rows}
    for name, _, error, *_ in many.forecast().rows:
        assert errors[str(name)] >= float(error)
    turn = plan.by_people[1].people
    for number in (
        0,
        30,
        700,
        5000,
        90_000,
        turn - 1,
    ):  # whatever the number: no block is less certain than was said
        own = dataclasses.replace(few, total=number)
        for height in range(13):
            assert own.variance(height) <= sized(plan).variance(height) * (1 + 1e-12)
    assert any("spread evenly" in note for note in plan.forecast().notes)
    for forecast in (plan.forecast(), plan.forecast(FEW)):
        assert any(f"{turn:,} people or more are counted by tree" in note for note in forecast.notes)
    assert plan.outlook(MANY) is not None


def test_the_forecast_of_meshes_is_about_meshes() -> None:
    """A mesh of 10 km has 400 cells in a block of 1,024 keys: each size is compared with blocks as large as it is."""
    domain = Domain([Mesh("code", "500m", region=[5132, 5133])])
    facts: dict[str, Any] = {"unit": Unit.cells(), "eps": "0.5"}
    own, tree = (tables.plan(domain, **facts, strategy=name).forecast().rows for name in ("sized", "tree"))
    for (name, _, error, *_), (same, _, of_tree, *_) in zip(own, tree, strict=True):
        assert name == same
        assert float(error) < 1.05 * float(of_tree)


@pytest.mark.long("statistical tests")
def test_intervals_hold_whichever_way_is_gone() -> None:
    """Blocks and rows, with as many people as the turn lies at, so that both ways are gone. A false alarm: below 1e-6."""
    plan = made("0.5")
    strategy, runs = sized(plan), 120
    true = people(strategy.taken[1].people)
    cells = cells_of(plan, true)
    inside: dict[str, list[bool]] = {"looks": [], "tree": []}
    for found in strategy.measure(cells, system_bits(), runs):
        way = "looks" if isinstance(strategy.of(int(found.noisy[0][0])), Adaptive) else "tree"
        for row, col in ((0, 0), (8, 0), (16, 16)):
            answer = strategy.answer(found, {"row": (row, row + 7), "col": (col, col + 7)}, 0.9)
            inside[way].append(answer.low <= int(true[row : row + 8, col : col + 8].sum()) <= answer.high)
    assert min(map(len, inside.values())) > 60  # both were gone
    for own in inside.values():
        assert np.mean(own) > 0.9 - 5 * math.sqrt(0.09 * 3 / len(own))


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize(("axes", "bits"), [(2, 5), (2, 6), (1, 8), (1, 10), (1, 12)])
def test_where_the_default_tree_begins_is_where_it_is_nearly_as_good(axes: int, bits: int) -> None:
    """On made-up tables, at every filling: what `_USUAL_FROM` picks is within 1.12 of the better one. With 60 runs on each shape it is known to 2%."""
    steps = tuple(range(-6, 7, 2))
    found = trial._tried_out(axes, bits, DEFAULT, steps, 60)
    turn = trial._USUAL_FROM[axes][bits]
    for step, logs in zip(steps, found, strict=True):
        picked = logs[trial.DIVIDED if step < turn else trial.USUAL]
        assert picked <= min(logs.values()) + math.log(1.12)


def test_a_line_and_other_questions_have_ways_of_their_own() -> None:
    line = Domain([Integer("age", 0, 255)])
    for domain, workload in ((TOWN, tables.cells()), (TOWN, tables.squares()), (line, None)):
        strategy = "sized" if workload is None else None
        plan = tables.plan(domain, unit=Unit.cells(), eps="0.1", workload=workload, strategy=strategy)
        assert plan.strategy == "sized"
        assert plan_from(plan.to_dict()) == plan
        assert plan.cost == Pure("0.1")


def test_ways_are_whole_numbers_and_designs_and_few() -> None:
    plan = made()
    looks, tree = plan.by_people
    assert Way("5", tree.design) == Way(5, tree.design)  # type: ignore[arg-type]
    exact = dataclasses.replace(plan, by_people=(looks, Way(5.0, tree.design)))  # type: ignore[arg-type]
    assert plan_from(exact.to_dict()) == exact
    with pytest.raises(ParameterError, match="wrong kind"):
        Way(5, "tree")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="at most 16"):
        dataclasses.replace(plan, by_people=tuple(map(Way, range(17))))


@pytest.mark.parametrize("eps", ["1e400", "1e-400"])
def test_an_eps_beyond_any_float_is_no_accident(eps: str) -> None:
    if eps == "1e400":
        assert made(eps).cost == Pure(eps)
        assert tables.plan(TOWN, unit=Unit.cells(), eps=eps).strategy == "tree"
        assert tables.plan(TOWN, unit=Unit.cells(), eps=eps, expected_total=5).strategy == "tree"
    else:
        with pytest.raises(ParameterError, match="scale is too large"):
            made(eps)


def test_another_table_that_is_asked_meanwhile_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread does it: just when the first one has found what it keeps."""
    plan = made("1")
    strategy, bits = sized(plan), system_bits()
    one, other = (strategy.measure(cells_of(plan, people(number)), bits)[0] for number in (FEW, 100 * MANY))
    where = {"row": (0, 15)}
    expected, found_by = strategy.answer(one, where, 0.95), Sized.of
    strategy.answer(other, where, 0.95)

    def of(self: Sized, number: int) -> Any:
        monkeypatch.setattr(Sized, "of", found_by)
        strategy.answer(other, where, 0.95)
        return found_by(self, number)

    monkeypatch.setattr(Sized, "of", of)
    assert strategy.answer(one, where, 0.95) == expected


@pytest.mark.parametrize("strategy", ["adaptive", "sized", "filtered"])
@pytest.mark.parametrize("lengths", [(), (0,), (1,), (1, 4), (1, 1, 1), (1, 4, 4, 4), (0, 0, 0, 0)])
def test_a_file_with_other_noisy_counts_is_refused(strategy: str, lengths: tuple[int, ...]) -> None:
    plan = tables.plan(TOWN, unit=Unit.cells(), eps=1, count="n", strategy=strategy)
    cells = cells_of(plan, people(FEW))
    found = plan.mechanism.measure(cells, system_bits())[0]
    wrong = dataclasses.replace(found, noisy=tuple(np.zeros(size, np.int64) for size in lengths))  # type: ignore[type-var]
    for read in (
        lambda: plan.mechanism.answer(wrong, {"row": (0, 3)}, 0.95),  # type: ignore[arg-type]
        lambda: plan.mechanism.intervals(wrong, 0.95),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match="cannot be read"):
            read()


def test_words_say_how_far_one_unit_moves_what_is_counted() -> None:
    """And not that divided by a share of eps."""
    for strategy in ("adaptive", "filtered", "sized", "tree", "laplace"):
        plan = tables.plan(TOWN, unit=Unit.cells(2, 3), eps=1, strategy=strategy)
        assert plan.mechanism.words()["sensitivity"] == "6"


def test_workers_are_refused_with_what_has_them(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=Unit.cells(), budget=Pure(2))
    with pytest.raises(ParameterError, match=r'fix +strategy="tree"'):
        tables.release({"row": [1], "col": [1], "n": [1]}, made(), ledger=ledger, workers=2)
    assert ledger.spent == Pure(0)


def test_a_file_that_is_asked_again_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = ob.Domain([ob.Grid("row", "col", shape=(16, 16))])
    plan = ob.tables.plan(
        domain, unit=ob.Unit.cells(), eps=1, count="n", strategy="sized", workload=ob.tables.cells()
    )
    places = np.arange(256)
    data = {"row": places // 16, "col": places % 16, "n": np.full(256, 10**6)}
    table = plan.publish(plan.measure(plan.prepare(data), system_bits()))
    solved, original = [], trees.estimates

    def counted(*given: Any) -> Any:
        solved.append(1)
        return original(*given)

    monkeypatch.setattr(trees, "estimates", counted)
    answers = [plan.ask(table, {"row": (0, 3)}) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert len(solved) == 1
