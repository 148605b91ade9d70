"""Tables over areas: least squares, projection, known totals, intervals, and the examples of the guide."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import oboro as ob
from oboro.cli.main import app
from oboro.tables.nested.known import known_by_level, known_totals
from oboro.tables.nested.lattice import AreaLattice, least_squares, passes
from oboro.tables.nested.planner import Forms, Problem, plan_shares, questions
from oboro.tables.nested.strategy import AreaTree
from oboro.tables.tree.workload import block
from support import repeatable

SIDE = 12
LEVELS = ["prefecture", "municipality", "row,col"]


def geography(side: int = SIDE, seed: int = 3) -> pa.Table:
    """Land in two prefectures with six municipalities of different sizes."""
    random = np.random.default_rng(seed)
    row, col = (part.reshape(-1) for part in np.mgrid[:side, :side])
    centres = random.random((6, 2)) * side
    near = ((row[:, None] - centres[:, 0]) ** 2 + (col[:, None] - centres[:, 1]) ** 2).argmin(axis=1)
    land = random.random(row.size) < 0.8
    names = [f"3{town % 2}{town}" for town in near[land]]
    return pa.table(
        {
            "prefecture": [name[:2] for name in names],
            "municipality": names,
            "row": row[land],
            "col": col[land],
        }
    )


def areas(table: pa.Table | None = None, side: int = SIDE) -> ob.Areas:
    own = geography() if table is None else table
    return ob.Areas("row,col", levels=LEVELS, table=own, of=ob.Grid("row", "col", shape=(side, side)))


SEX, AGE = ob.Category("sex", ["F", "M"]), ob.Category("age", ["a", "b", "c"])


def people(table: pa.Table, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    size = table.num_rows
    return pa.table(
        {
            "row": np.repeat(np.asarray(table["row"]), 2),
            "col": np.repeat(np.asarray(table["col"]), 2),
            "sex": ["F", "M"] * size,
            "people": random.poisson(random.gamma(0.4, 30, 2 * size)),
        }
    )


@pytest.mark.parametrize(
    "known",
    [
        {"prefecture": {"30": 100}, "sex": {"F": 70, "M": 90}, "age": {"a": 50, "b": 60, "c": 50}},
        None,
        {"prefecture": {"30": 100}},
        {("prefecture", "sex"): {"31": {"F": 60, "M": 40}}, "municipality": {"300": 20, "311": 30}},
    ],
    ids=["crossed", "free", "known", "areas crossed"],
)
@pytest.mark.long("least squares against dense ones")
def test_least_squares_and_variances_are_exact(known: dict[Any, Any] | None) -> None:
    domain = ob.Domain([SEX, areas(), AGE])
    lattice = AreaLattice.of(domain)
    fixed = known_by_level(lattice, known_totals(known, domain), None)
    depth, random = lattice.branches.depth, np.random.default_rng(2)
    levels = [(0, 0, 0), (1, 1, 0), (0, 2, 1), (1, 3, 1), (0, depth, 0), (1, depth, 1)]
    precisions = [0.3, 1.0, 0.5, 0.2, 0.7, 1.1]
    form = (lattice.branches.leaves, *lattice.groups)
    noisy = [random.integers(0, 99, lattice.nodes(level)) for level in levels]
    every = np.eye(lattice.leaves).reshape(-1, *form)

    def matrix(level: tuple[int, ...]) -> np.ndarray:
        return np.stack([lattice.sums(one, level).reshape(-1) for one in every], axis=1)

    rows = [matrix(level) for level in levels]
    weights = np.concatenate([np.full(a.shape[0], p) for a, p in zip(rows, precisions, strict=True)])
    values = np.concatenate([y.reshape(-1) for y in noisy]).astype(float)
    for (at, way), own in {} if fixed is None else fixed.totals.items():
        some = np.repeat(own.known, own.least.shape[1])
        rows.append(matrix(lattice.joined(at, way))[some])
        weights = np.append(weights, np.full(some.sum(), 1e7))
        values = np.append(values, own.least.reshape(-1)[some])
    stacked = np.concatenate(rows)
    normal = stacked.T @ (weights[:, None] * stacked)
    dense = np.linalg.solve(normal, stacked.T @ (weights * values))
    found = least_squares(lattice, levels, precisions, noisy, fixed)
    assert np.abs(found.reshape(-1) - dense).max() < (1e-8 if known is None else 1e-3)
    ways, covariance = passes(lattice, levels, precisions, fixed), np.linalg.inv(normal)
    for own in range(depth + 1):
        for others in lattice.parts:
            asked = matrix(lattice.joined(own, others))
            true = np.einsum("ij,jk,ik->i", asked, covariance, asked).reshape(lattice.branches.nodes(own), -1)
            mine = np.zeros(lattice.branches.nodes(own))
            for part in lattice.parts:
                seen = [block(tree, at)[j] for tree, at, j in zip(lattice.beside, others, part, strict=True)]
                mine += np.prod(seen) * ways[part].variances[own]
            assert np.abs(true - mine[:, None]).max() < 1e-5


def test_the_tree_goes_on_through_blocks_within_areas() -> None:
    table = geography(32)
    lattice = AreaLattice.of(ob.Domain([areas(table, 32)]))
    names = lattice.branches.names
    assert names[:3] == ("all of row,col", "each prefecture", "each municipality")
    assert "each municipality by 4 x 4 of row,col" in names
    assert names[-1] == "1 x 1 of row,col"
    for coarse, fine in zip(lattice.branches.bounds, lattice.branches.bounds[1:], strict=False):
        assert np.isin(coarse, fine).all()  # every node lies in one above it


def released(
    tmp_path: Path, known: Any = None, labels: dict[str, str] | None = None
) -> tuple[ob.Release, pa.Table]:
    table = geography()
    pq.write_table(table, tmp_path / "areas.parquet")
    own = ob.Areas(
        "row,col",
        levels=LEVELS,
        table=tmp_path / "areas.parquet",
        of=ob.Grid("row", "col", shape=(SIDE, SIDE)),
    )
    unit = ob.Unit.cells()
    domain = ob.Domain([own, SEX], labels=labels)
    plan = ob.tables.plan(domain, unit=unit, eps="0.5", count="people", known=known)
    ledger = ob.Ledger.create(tmp_path / "x.ledger", dataset="x", unit=unit, budget=ob.Pure(1))
    return ob.tables.release(people(table), plan, ledger=ledger), table


def test_published_tables_add_up_at_every_level_and_are_asked_by_area(tmp_path: Path) -> None:
    release, table = released(tmp_path)
    release.save(tmp_path / "published.parquet")
    release.save(tmp_path / "municipalities.csv", by="municipality")
    release.save(tmp_path / "crossed.csv", by=["municipality", "sex"])
    with (tmp_path / "municipalities.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "crossed.csv").open() as file:
        crossed = list(csv.DictReader(file))
    assert len(rows) == 6
    assert len(crossed) == 12
    place = dict(
        zip(
            zip(table["row"].to_pylist(), table["col"].to_pylist(), strict=True),
            table["municipality"].to_pylist(),
            strict=True,
        )
    )
    held: dict[str, int] = {}
    for cell in release.to_arrow().to_pylist():
        town = place[cell["row"], cell["col"]]
        held[town] = held.get(town, 0) + cell["people"]
    for row in rows:
        name = row["municipality"]
        assert int(row["people"]) == held[name]
        assert sum(int(one["people"]) for one in crossed if one["municipality"] == name) == held[name]
        answer = release.interval(municipality=name)
        assert (answer.value, answer.low, answer.high) == tuple(
            int(row[part]) for part in ("people", "low", "high")
        )
    asked = ob.tables.ask(tmp_path / "published.parquet", {"prefecture": "30"})
    assert asked.value == sum(int(row["people"]) for row in rows if row["prefecture"] == "30")
    both = [
        ob.tables.ask(tmp_path / "published.parquet", {"prefecture": "30", "sex": sex}).value for sex in "FM"
    ]
    assert sum(both) == asked.value
    assert ob.tables.ask(tmp_path / "published.parquet", {"row": (0, 3)}).value > 0
    with pytest.raises(ob.OboroError, match="no such value"):
        release.interval(municipality="99")
    with pytest.raises(ob.OboroError, match="by areas and by other columns"):
        release.save(tmp_path / "x.csv", by="town")
    assert ob.verify_certificate(
        tmp_path / "municipalities.csv.certificate.json", data=tmp_path / "municipalities.csv"
    )


def test_a_plan_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    plan = ob.tables.plan(ob.Domain([areas()]), unit=ob.Unit.cells(), eps=1, known={"prefecture": {"30": 5}})
    ob.save_plan(plan, tmp_path / "plan.toml")
    assert ob.load_plan(tmp_path / "plan.toml") == plan


def test_known_totals_hold_exactly(tmp_path: Path) -> None:
    release, _ = released(tmp_path, known={"prefecture": {"30": 5000}, "municipality": {"311": 123}})
    assert release.interval(prefecture="30").value == 5000
    assert (release.interval(prefecture="30").low, release.interval(prefecture="30").high) == (5000, 5000)
    assert release.interval(municipality="311").value == 123
    assert "not protected" in release.certificate.record["noise"]["known"]


def test_a_public_total_is_one_of_the_known_ones() -> None:
    unit = ob.Unit.cells(adjacency="replace")
    own = ob.Domain([areas(), SEX])
    cells = people(geography())
    for plan in (
        ob.tables.plan(own, unit=unit, eps="0.1", count="people", total=777),
        ob.tables.plan(own, unit=unit, eps="0.1", count="people", known={"total": 777}),
    ):
        assert plan.measure(plan.prepare(cells), repeatable("areas")).counts.sum() == 777


def test_known_totals_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "totals.csv").write_text("prefecture,total\n30,5000\n")
    own = ob.Domain([areas()])
    plan = ob.tables.plan(own, unit=ob.Unit.cells(), eps=1, known={"prefecture": tmp_path / "totals.csv"})
    assert plan == ob.tables.plan(own, unit=ob.Unit.cells(), eps=1, known={"prefecture": {"30": 5000}})


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"prefecture": {"30": 3}, "municipality": {"300": 4}}, "contradict"),
        ({"total": 10, "prefecture": {"30": 3, "31": 4}}, "contradict"),
        ({"prefecture": {"99": 3}}, "no prefecture of this name"),
        ({"town": {"30": 3}}, "of areas of a level"),
        ({"prefecture": {"30": -1}}, "known total of 30"),
        (3, "no table of levels"),
        ({"sex": {"F": 3}}, "of all its values"),
        ({"sex": {"F": 3, "N": 4}}, "no sex of this name"),
        ({("prefecture", "sex"): {"30": 7}}, "do not name what they are of"),
        ({"total": 9, "sex": {"F": 3, "M": 4}}, "contradict"),
        ({"sex": {"F": 3, "M": 4}, "age": {"a": 1, "b": 2, "c": 3}}, "contradict"),
        ({"sex": {"F": 3, "M": 4}, ("prefecture", "sex"): {"30": {"F": 4, "M": 1}}}, "contradict"),
        ({"prefecture": {"30": 5}, "prefecture,sex": {"30": {"F": 3, "M": 3}}}, "contradict"),
        ({"sex": {"F": 3, "M": 4}, "municipality": {"300": 9}}, "contradict"),
        (  # the margins of a table of three sides, two by two: each pair agrees, and no table has all of them
            {
                "sex,age": {"F": {"a": 1, "b": 1, "c": 1}, "M": {"a": 1, "b": 1, "c": 1}},
                "prefecture,sex": {"30": {"F": 1, "M": 2}, "31": {"F": 2, "M": 1}},
                "prefecture,age": {"30": {"a": 1, "b": 1, "c": 1}, "31": {"a": 1, "b": 1, "c": 1}},
            },
            "more than two ways",
        ),
    ],
)
def test_totals_that_cannot_be_are_refused(known: Any, said: str) -> None:
    with pytest.raises(ob.OboroError, match=said):
        ob.tables.plan(ob.Domain([areas(), SEX, AGE]), unit=ob.Unit.cells(), eps=1, known=known)


CROSSED: dict[str, Any] = {
    "areas and sex": {"prefecture": {"30": 500, "31": 400}, "sex": {"F": 520, "M": 380}},
    "municipalities, sex and age": {
        "municipality": {"300": 90, "311": 123},
        "sex": {"F": 520, "M": 380},
        "age": {"a": 0, "b": 850, "c": 50},
    },
    "areas by sex, areas within": {
        "prefecture,sex": {"30": {"F": 300, "M": 200}},
        "municipality": {"300": 90, "311": 123},
    },
    "areas by sex, and by age": {
        ("prefecture", "sex"): {"30": {"F": 300, "M": 200}, "31": {"F": 1, "M": 3}},
        ("prefecture", "age"): {"30": {"a": 5, "b": 490, "c": 5}},
    },
    "both, and each": {
        "sex": {"F": 520, "M": 380},
        "age": {"a": 20, "b": 850, "c": 30},
        "municipality,sex,age": {"311": {s: {"a": 3, "b": 4, "c": 0} for s in "FM"}},
    },
}


@pytest.mark.few(2, "known totals")
@pytest.mark.parametrize("known", CROSSED.values(), ids=CROSSED)
def test_known_totals_by_other_columns_hold_exactly(known: dict[Any, Any]) -> None:
    own = ob.Domain([areas(), SEX, AGE])
    plan = ob.tables.plan(own, unit=ob.Unit.cells(), eps="0.3", count="people", known=known)
    table = geography()
    random = np.random.default_rng(4)
    cells = {"row": table["row"], "col": table["col"], "people": random.poisson(9, table.num_rows)}
    cells |= {one.name: random.choice(one.values, table.num_rows) for one in (SEX, AGE)}
    found = plan.publish(plan.measure(plan.prepare(pa.table(cells)), repeatable("crossed")))
    asked = 0
    for one in plan.known:
        sizes = [own[name].size for name in one.by]
        numbers = np.array(one.totals).reshape(len(one.areas), *sizes)
        for place in np.ndindex(numbers.shape):
            where = {name: own[name].value(code) for name, code in zip(one.by, place[1:], strict=True)}
            where |= {} if one.level == "total" else {one.level: one.areas[place[0]]}
            answer, true = plan.ask(found, where), int(numbers[place])
            assert (answer.value, answer.low, answer.high) == (true, true, true)
            asked += 1
    assert asked >= 4
    assert ob.Domain.from_dict(own.to_dict()) == own


@pytest.mark.long("known totals by chance")
@pytest.mark.parametrize("seed", range(4))
def test_known_totals_are_refused_just_where_no_table_has_them(seed: int) -> None:
    """Against linear programming: what is planned can be, what is said to contradict cannot, and what is published holds it."""
    from scipy.optimize import linprog

    table, random = geography(8, 5), np.random.default_rng(seed)
    own = ob.Areas("row,col", levels=LEVELS, table=table, of=ob.Grid("row", "col", shape=(8, 8)))
    domain, towns = ob.Domain([own, SEX, AGE]), own.labels("municipality")
    inside = {"total": {"total": towns}, "municipality": {town: (town,) for town in towns}}
    inside["prefecture"] = {p: tuple(t for t in towns if t[:2] == p) for p in own.labels("prefecture")}
    planned = refused = 0
    for trial in range(60):
        true = random.poisson(random.gamma(0.5, 8, (len(towns), 2, 3)))
        odd, known, rows, numbers = random.random() < 0.4, {}, [], []
        for _ in range(random.integers(1, 4)):
            level, by = random.choice(list(inside)), [i for i in (0, 1) if random.random() < 0.5]
            names = [*([] if level == "total" else [level]), *(("sex", "age")[i] for i in by)]
            if not names or tuple(names) in known:
                continue
            totals = {}
            for area, held in inside[level].items():
                if level != "total" and random.random() < 0.4:
                    continue
                for place in np.ndindex(*(domain[("sex", "age")[i]].size for i in by)):
                    chosen = [slice(None), slice(None)]
                    for i, code in zip(by, place, strict=True):
                        chosen[i] = slice(code, code + 1)
                    row = np.zeros(true.shape)
                    row[[towns.index(town) for town in held], *chosen] = 1
                    number = int((row * true).sum())
                    if odd and random.random() < 0.15:
                        number = max(0, number + int(random.integers(-3, 4)))
                    values = [
                        domain[("sex", "age")[i]].value(code) for i, code in zip(by, place, strict=True)
                    ]
                    totals[(*([] if level == "total" else [area]), *values)] = number
                    rows.append(row.reshape(-1))
                    numbers.append(number)
            known |= {tuple(names): totals} if totals else {}
        if not rows:
            continue
        can = linprog(np.zeros(true.size), A_eq=np.stack(rows), b_eq=numbers, bounds=(0, None)).status == 0
        said, plan = "", None
        try:
            plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps="0.3", known=known)
        except ob.OboroError as error:
            said = str(error)
        assert can or plan is None
        assert not can or "contradict" not in said
        refused += plan is None
        if plan is None:
            continue
        planned += 1
        strategy = plan.mechanism
        assert isinstance(strategy, AreaTree)
        assert strategy.fixed is not None
        measured = strategy.measure(
            plan.prepare({"row": [0], "col": [0], "sex": ["F"], "age": ["a"]}), repeatable(f"{trial}")
        )[0]
        lattice, counts = strategy.lattice, np.zeros((own.size, 2, 3), np.int64)
        counts.reshape(-1)[strategy.answers(measured).leaves] = measured.counts
        for (at, way), each in strategy.fixed.totals.items():
            sums = np.asarray(lattice.sums(counts, lattice.joined(at, way))).reshape(each.known.size, -1)
            assert (sums >= each.least).all()
            assert (sums[each.known] == each.least[each.known]).all()
    assert planned > 20
    assert refused > 2


def test_what_areas_cannot_do_is_refused() -> None:
    unit = ob.Unit.cells()
    towns = ob.Areas("cell", levels=["town", "cell"], table={"town": ["a", "b"], "cell": ["x", "y"]})
    with pytest.raises(ob.OboroError, match="one column of areas"):
        ob.tables.plan(ob.Domain([areas(), towns]), unit=unit, eps=1)
    with pytest.raises(ob.OboroError, match="cannot serve this domain"):
        ob.tables.plan(ob.Domain([areas()]), unit=unit, eps=1, strategy="wavelet")
    with pytest.raises(ob.OboroError, match="not limited for areas"):
        ob.tables.plan(ob.Domain([areas()]), unit=unit, eps=1, publish="0.1")
    with pytest.raises(ob.OboroError, match="level that the areas do not have"):
        ob.tables.plan(ob.Domain([areas()]), unit=unit, eps=1, workload=ob.tables.areas("row,col", "sex"))
    with pytest.raises(ob.OboroError, match="only a tree over areas"):
        ob.tables.plan(ob.Domain([SEX]), unit=unit, eps=1, known={"total": 3})


def test_cells_that_are_names_have_areas_too() -> None:
    table = {"town": ["a", "a", "b"], "cell": ["x", "y", "z"]}
    own = ob.Domain([ob.Areas("cell", levels=["town", "cell"], table=table)])
    plan = ob.tables.plan(own, unit=ob.Unit.cells(), eps=50, count="n")
    cells = plan.prepare({"cell": ["z", "x", "nowhere", None], "n": [500, 300, 9, 9]})
    found = plan.publish(plan.measure(cells, repeatable("names")))
    assert found["cell"].to_pylist()[0] == "x"
    assert abs(plan.ask(found, {"town": "b"}).value - 500) < 5
    plan = ob.tables.plan(own, unit=ob.Unit.cells(), eps=1, count="n", known={"town": {"b": 490}})
    answer = plan.ask(plan.publish(plan.measure(cells, repeatable("names"))), {"cell": "z"})
    assert (answer.value, answer.low, answer.high) == (490, 490, 490)  # an area of one cell


@pytest.mark.long("exhaustive searches")
@pytest.mark.parametrize("seed", range(3))
def test_shares_are_near_the_best_of_an_exhaustive_search(seed: int) -> None:
    """Of a tree of four levels, every multiple of 1/40; no share is more than 2% in error from the best."""
    random = np.random.default_rng(seed)
    towns = random.integers(0, 7, 60)
    table = {
        "region": [f"r{t % 3}" for t in towns],
        "town": [f"t{t}" for t in towns],
        "cell": [f"c{i}" for i in range(60)],
    }
    own = ob.Domain([ob.Areas("cell", levels=["region", "town", "cell"], table=table)])
    lattice = AreaLattice.of(own)
    workload = ob.tables.areas("region", "town") + ob.tables.cells()
    rows, weights = questions(lattice, workload)
    problem = Problem(lattice, Forms.of(lattice.branches), rows, weights, 2)
    levels, shares = plan_shares(own, workload)
    mine = np.zeros(4)
    for level, share in zip(levels, shares, strict=True):
        mine[lattice.levels.index(level)] = float(share)
    steps = 40
    every = [
        problem.value(np.array([a, b, c, steps - a - b - c]) / steps)[0]
        for a in range(steps)
        for b in range(steps - a)
        for c in range(steps - a - b)
    ]
    assert problem.value(mine)[0] <= min(every) + 2 * np.log(1.02)


def test_the_gradient_of_the_errors_is_theirs() -> None:
    lattice = AreaLattice.of(ob.Domain([areas(), SEX]))
    rows, weights = questions(lattice, ob.tables.blocks() + ob.tables.areas())
    problem = Problem(lattice, Forms.of(lattice.branches), rows, weights, 2)
    shares = np.full(problem.size, 1 / problem.size)
    _, slope = problem.value(shares)
    for i in range(problem.size):
        step = np.zeros(problem.size)
        step[i] = 1e-6
        numeric = (problem.value(shares + step)[0] - problem.value(shares - step)[0]) / 2e-6
        assert abs(numeric - slope[i]) < 1e-5 * max(1, abs(slope[i]))
    levels, precisions = lattice.levels, np.full(problem.size, 1 / problem.size**2)
    ways = passes(lattice, levels, precisions.tolist())
    assert rows[0] == (0, 0)
    assert np.allclose(problem.variances(shares)[0], 2 * ways[lattice.parts[0]].variances[0].mean())


@pytest.mark.long("coverage of areas")
def test_intervals_of_areas_and_rows_hold() -> None:
    """6 municipalities and 230 rows, 400 releases. At 95% fewer than 93.5% of areas would be 5 standard errors too few; of rows that
    are published, in 60 of them, 1% fewer."""
    table = geography()
    cells = people(table)
    plan = ob.tables.plan(ob.Domain([areas(table), SEX]), unit=ob.Unit.cells(), eps="0.5", count="people")
    assert isinstance(plan.mechanism, AreaTree)
    truth: dict[Any, int] = {}
    rows: dict[Any, int] = {}
    place = dict(
        zip(
            zip(table["row"].to_pylist(), table["col"].to_pylist(), strict=True),
            table["municipality"].to_pylist(),
            strict=True,
        )
    )
    for one in cells.to_pylist():
        town = place[one["row"], one["col"]]
        truth[town] = truth.get(town, 0) + one["people"]
        rows[one["row"], one["col"], one["sex"]] = one["people"]
    prepared, bits = plan.prepare(cells), repeatable("coverage")
    held: list[bool] = []
    shown: dict[float, list[bool]] = {0.5: [], 0.8: [], 0.95: [], 0.99: []}
    for trial, measured in enumerate(plan.mechanism.measure(prepared, bits, 400)):
        found = plan.publish(measured)
        for area in plan.table_by(found, ["municipality"]).to_pylist():
            held.append(area["low"] <= truth[area["municipality"]] <= area["high"])
        if trial >= 60:
            continue
        true = [rows[row["row"], row["col"], row["sex"]] for row in found.to_pylist()]
        for level, all_ in shown.items():
            low, high = plan.intervals(found, level)  # type: ignore[misc]
            all_ += ((low <= true) & (true <= high)).tolist()
    assert np.mean(held) > 0.935
    for level, all_ in shown.items():
        assert np.mean(all_) > level - 0.01


@pytest.mark.few(3, "rows of areas")
@pytest.mark.parametrize(
    ("beside", "more"),
    [
        ([], {}),
        ([SEX], {}),
        ([SEX, AGE], {}),
        ([AGE], {"impossible": {"row": [3, 3, 4], "col": [2, 3, 7], "age": ["a", "b", "c"]}}),
        ([SEX], {"known": {"prefecture": {"30": 700}, "municipality": {"311": 123}}}),
        ([SEX, AGE], {"known": CROSSED["areas by sex, and by age"]}),
        ([ob.Integer("year", 0, 40)], {"known": {"prefecture": {"30": 700}}}),
        ([SEX], {"unit": ob.Unit.cells(adjacency="replace"), "total": 2000}),
        ([SEX], {"delta": "1e-6"}),
    ],
    ids=["areas", "sex", "sex and age", "ruled out", "known", "crossed", "filled up", "total", "gaussian"],
)
def test_what_a_row_would_be_with_another_noisy_count_is_what_the_release_makes_of_it(
    beside: list[Any], more: dict[str, Any]
) -> None:
    """The noisy count of one cell changed, and the whole table made again."""
    table, random = geography(), np.random.default_rng(5)
    given = {"unit": ob.Unit.cells(), "eps": "0.2", "count": "people", **more}
    plan = ob.tables.plan(ob.Domain([areas(table), *beside]), **given)
    size = table.num_rows
    cells = {"row": table["row"], "col": table["col"], "people": random.poisson(random.gamma(0.3, 20, size))}
    cells |= {one.name: random.choice([one.value(i) for i in range(one.size)], size) for one in beside}
    own = plan.mechanism
    assert isinstance(own, AreaTree)
    measured = own.measure(plan.prepare(pa.table(cells)), repeatable("rows"))[0]
    answers = own.answers(measured)
    finest = own.chosen.levels.index(own.lattice.finest)
    changed = 0
    for leaf in random.choice(answers.leaves, 12, replace=False).tolist():
        for step in (-60, -25, -9, -3, 4, 30):
            noisy = [np.array(each) for each in measured.noisy]
            noisy[finest].reshape(-1)[leaf] += step
            again = own._published(noisy)
            expected = leaf in own.answers(again).leaves
            assert answers.paths.published(np.array([leaf]), step)[0] == expected
            changed += not expected
    assert changed
    leaves = answers.leaves
    together = answers.paths.published(leaves, -9)
    assert together.tolist() == [bool(answers.paths.published(leaf[None], -9)[0]) for leaf in leaves]


@pytest.mark.parametrize("eps", ["0.3", "3"], ids=["wide noise", "narrow noise"])
def test_areas_of_one_cell_say_what_the_row_says(eps: str) -> None:
    """Such an area by one value of every other column is a row: tables by area, blocks of a map and `ask` have its interval."""
    table = geography()
    names = table["municipality"].to_pylist()
    names[5], names[40] = "309", "319"  # a municipality each
    row, col = (table[name].to_pylist() for name in ("row", "col"))
    towns = pa.table({"prefecture": [n[:2] for n in names], "municipality": names, "row": row, "col": col})
    plan = ob.tables.plan(ob.Domain([areas(towns), SEX]), unit=ob.Unit.cells(), eps=eps, count="people")
    found = plan.publish(plan.measure(plan.prepare(people(table)), repeatable("one cell")))
    low, high = plan.intervals(found, 0.95)  # type: ignore[misc]
    rows = {
        (one["row"], one["col"], one["sex"]): (one["people"], a, b)
        for one, a, b in zip(found.to_pylist(), low.tolist(), high.tolist(), strict=True)
    }
    published, seen = plan.mechanism.published(found), 0
    for one in plan.table_by(found, ["municipality", "sex"]).to_pylist():
        answer = plan.mechanism.answer(
            published, {"municipality": one["municipality"], "sex": one["sex"]}, 0.95
        )
        mine = one["people"], one["low"], one["high"]
        assert mine == (answer.value, answer.low, answer.high)
        if one["municipality"] in ("309", "319"):
            at = 5 if one["municipality"] == "309" else 40
            seen += (row[at], col[at], one["sex"]) in rows
            assert rows.get((row[at], col[at], one["sex"]), mine) == mine
    assert seen
    for side in (1, 5):
        blocks = plan.mechanism.of_blocks(published, side, [{"sex": ["F"]}, {}], 0.95)
        if blocks is None:
            assert eps == "3"
            continue
        for i in range(0, blocks.row.size, 7):
            place = {
                "row": (int(blocks.row[i]) * side, min(int(blocks.row[i]) * side + side, SIDE) - 1),
                "col": (int(blocks.col[i]) * side, min(int(blocks.col[i]) * side + side, SIDE) - 1),
            }
            for beside, ends in zip(({"sex": ["F"]}, {}), blocks.answers, strict=True):
                answer = plan.mechanism.answer(published, {**place, **beside}, 0.95)
                assert (answer.value, answer.low, answer.high) == tuple(int(end[i]) for end in ends)


def test_areas_in_a_domain_file_are_released_from_the_command_line_to_a_file_that_gis_reads(
    tmp_path: Path,
) -> None:
    """As docs/tables.md has it: the table of areas as CSV beside the domain, labels, cells as polygons."""
    geopandas = pytest.importorskip("geopandas")
    (tmp_path / "areas.csv").write_text(
        "prefecture,municipality,mesh\n34,34101,51323359\n34,34101,51323358\n34,34102,51323368\n35,35201,51310764\n"
    )
    (tmp_path / "people.csv").write_text(
        "mesh,sex,T001101001\n51323359,F,120\n51323368,M,80\n51310764,F,60\n"
    )
    (tmp_path / "domain.toml").write_text(
        'labels = {T001101001 = "人口総数"}\n\n[[columns]]\nkind = "areas"\nname = "mesh"\n'
        'levels = ["prefecture", "municipality", "mesh"]\ntable = "areas.csv"\n\n'
        '[[columns]]\nkind = "category"\nname = "sex"\nvalues = ["F", "M"]\n'
    )
    ledger, written = str(tmp_path / "l.ledger"), tmp_path / "x.gpkg"
    made = ["ledger", "create", ledger, "--dataset", "towns", "--eps", "400", "--unit", "cells"]
    words = ["table", "release", str(tmp_path / "people.csv"), "--domain", str(tmp_path / "domain.toml")]
    words += ["--count", "T001101001", "--eps", "100", "--ledger", ledger, "-o", str(written)]
    assert CliRunner().invoke(app, made).exit_code == 0
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "table of 人口総数 by mesh by sex" in done.output
    found = geopandas.read_file(written)
    assert found.crs.to_epsg() == 6668
    assert sorted(found["mesh"].astype(int)) == [51310764, 51323359, 51323368]
    assert abs(int(found["T001101001"].sum()) - 260) < 5


@pytest.mark.long("files for GIS")
def test_areas_are_polygons_where_their_outlines_are_given_and_labels_go_along(tmp_path: Path) -> None:
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    release, _ = released(tmp_path, labels={"people": "人口総数", "sex": "性別"})
    names = ["300", "311", "311"]
    boxes = [shapely.box(east, 34, east + 1, 35) for east in (131, 133, 134)]
    shapes = geopandas.GeoDataFrame({"municipality": names}, geometry=boxes, crs="EPSG:4326")
    shapes.to_file(tmp_path / "outlines.geojson")
    release.save(tmp_path / "municipalities.csv", by="municipality")
    totals = (tmp_path / "municipalities.csv").read_text().splitlines()
    for ending in (".gpkg", ".gpkg", ".geojson", ".fgb", ".geoparquet"):
        written = tmp_path / f"municipalities{ending}"
        release.save(written, by="municipality", outlines=tmp_path / "outlines.geojson")
        read = geopandas.read_parquet if ending == ".geoparquet" else geopandas.read_file
        found = read(written).set_index("municipality")
        assert len(found) == len(totals) - 1 == 6
        assert found.loc["311"].geometry.equals(shapely.box(133, 34, 135, 35))
        assert found.geometry.notna().sum() == 2
        answer = release.interval(municipality="300")
        own = found.loc["300"]
        assert (own["people"], own["low"], own["high"]) == (answer.value, answer.low, answer.high)
    release.save(tmp_path / "cells.parquet")
    for file in ("municipalities.geoparquet", "cells.parquet"):
        assert pq.read_schema(tmp_path / file).field("people").metadata == {b"label": "人口総数".encode()}
    with pytest.raises(ob.OboroError, match="outlines are given"):
        release.save(tmp_path / "x.gpkg", by="municipality")
    with pytest.raises(ob.OboroError, match="files that GIS reads"):
        release.save(tmp_path / "x.csv", by="municipality", outlines=tmp_path / "outlines.geojson")
    with pytest.raises(ob.OboroError, match="which area each is of"):
        release.save(tmp_path / "x.gpkg", by="prefecture", outlines=tmp_path / "outlines.geojson")
    shutil.copy(tmp_path / "x.ledger", tmp_path / "ledger.gpkg")  # a database too, and no GeoPackage
    with pytest.raises(ob.OboroError, match="a ledger or a secret key"):
        release.save(tmp_path / "ledger.gpkg", by="municipality", outlines=tmp_path / "outlines.geojson")


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_a_number_that_is_missing_is_no_area(missing: float | None) -> None:
    """pandas has NaN where a code is missing: there was an area called nan."""
    table = {"town": [1101.0, missing], "row": [0, 1], "col": [0, 1]}
    with pytest.raises(ob.OboroError, match="a cell lies in no area") as error:
        ob.Areas("row,col", levels=["town", "row,col"], table=table, of=ob.Grid("row", "col", shape=(2, 2)))
    assert "row 1, col 1" in str(error.value)
