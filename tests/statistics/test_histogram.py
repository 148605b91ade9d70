from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import oboro as ob
from oboro.domain import Category, Date, Domain, Integer, Real
from oboro.errors import DomainError, InputError, ParameterError, UnitError
from oboro.noise import DiscreteLaplace
from oboro.privacy import Unit
from oboro.release import load_plan, save_plan
from oboro.statistics import Bins, histogram_plan

DOMAIN = Domain(
    [
        Integer("age", 0, 120),
        Category("region", ["north", "south"]),
        Real("score", 0, 1, "0.25"),
        Date("day", "2026-01-01", "2026-01-31"),
    ]
)
PEOPLE = {
    "age": [5, 15, 15, 119, 120, 300, None],
    "region": ["north", "south", "south", "north", "east", "south", "north"],
}


def test_true_counts_are_right() -> None:
    plan = histogram_plan(DOMAIN, ["region", "age"], unit=Unit.row(), eps=1, edges={"age": [0, 10, 100, 120]})
    assert plan.prepare(PEOPLE).tolist() == [1, 0, 1, 0, 2, 1]
    assert plan.publish(plan.prepare(PEOPLE)).to_pylist()[4] == {
        "region": "south",
        "age": "10 to 99",
        "count": 2,
    }


def test_bins_fold_and_label() -> None:
    ages = Bins(DOMAIN["age"], range(0, 121, 40))
    assert ages.labels == ["0 to 39", "40 to 79", "80 to 120"]
    assert ages.fold(np.asarray([0, 39, 40, 120])).tolist() == [0, 0, 1, 2]
    assert Bins(DOMAIN["age"], range(0, 122, 11)).size == 11  # one beyond the last value is fine too
    assert Bins(DOMAIN["score"], ["0", "0.5", "1"]).labels == ["[0, 0.5)", "[0.5, 1]"]
    assert Bins(DOMAIN["day"], ["2026-01-01", "2026-01-15", "2026-01-31"]).labels == [
        "2026-01-01 to 2026-01-14",
        "2026-01-15 to 2026-01-31",
    ]
    assert Bins(DOMAIN["day"]).labels[0] == date(2026, 1, 1)
    assert Bins(DOMAIN["region"]).labels == ["north", "south"]


@pytest.mark.parametrize(
    "edges",
    [[], [-1, 50], [0, 60, 60, 120], [0, 0.5, 120], [0, 60, 30, 120], [0, 500], ["a", "b"]],
)
def test_edges_that_are_no_edges_are_refused(edges: list[object]) -> None:
    with pytest.raises(InputError):
        histogram_plan(DOMAIN, "age", unit=Unit.row(), eps=1, edges=edges)


@pytest.mark.parametrize(
    ("unit", "sensitivity"),
    [
        (Unit.row(), 1),
        (Unit.row("replace"), 2),
        (Unit.person("who", 7), 7),
        (Unit.person("who", 7, "replace"), 14),
    ],
)
def test_the_sensitivity_is_that_of_the_worst_neighbours(unit: Unit, sensitivity: int) -> None:
    """Ties the proof to the code: no neighbours move the counts more, and the plan's own pair moves them so far."""
    plan = histogram_plan(DOMAIN, "age", unit=unit, eps="0.5", edges=[0, 60, 120])
    assert plan.sensitivity == sensitivity
    assert plan.noise == DiscreteLaplace(2 * sensitivity)
    for pair in plan.neighbours():
        moved = np.abs(plan.prepare(pair.one) - plan.prepare(pair.other)).sum()
        assert moved == sensitivity


@pytest.mark.long("hostile neighbours")
def test_random_neighbours_never_move_the_counts_more() -> None:
    rng = np.random.default_rng(7)
    plan = histogram_plan(DOMAIN, "age", unit=Unit.person("who", 3), eps=1)
    for _ in range(25):
        rows = {"who": rng.integers(0, 4, 40).tolist(), "age": rng.integers(-10, 140, 40).tolist()}
        without = {
            name: [v for v, who in zip(values, rows["who"], strict=True) if who != 2]
            for name, values in rows.items()
        }
        assert np.abs(plan.prepare(rows) - plan.prepare(without)).sum() <= 3


def test_measure_draws_only_from_the_bits_it_is_handed(test_bits) -> None:
    plan = histogram_plan(DOMAIN, "region", unit=Unit.row(), eps="0.1")
    counts = plan.prepare(PEOPLE)
    many = plan.measure(counts, test_bits, trials=200_000)
    assert many.shape == (200_000, 2)
    noise = (many - counts).ravel()
    assert abs(noise.mean()) < 6.5 * plan.noise.sd / math.sqrt(noise.size)
    assert abs(noise.std() / plan.noise.sd - 1) < 0.02
    assert abs(noise.std() / DiscreteLaplace(11).sd - 1) > 0.02  # ten percent off is seen


def test_intervals_cover_as_stated_and_are_never_negative(test_bits) -> None:
    plan = histogram_plan(DOMAIN, "age", unit=Unit.row(), eps=1)
    truth = plan.prepare(PEOPLE)
    covered = []
    for _ in range(200):
        table = plan.publish(plan.measure(truth, test_bits))
        low, high = plan.intervals(table, 0.95)
        assert low.min() >= 0
        covered.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(covered) > 0.95 - 0.01


def test_a_plan_reads_back_from_toml(tmp_path: Path) -> None:
    plan = histogram_plan(
        DOMAIN,
        ["region", "age", "day"],
        unit=Unit.person("who", 2, "replace"),
        eps="1/3",
        edges={"age": range(0, 121, 10)},
    )
    save_plan(plan, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == plan


def test_bad_plans_are_refused_before_anything_happens(tmp_path: Path) -> None:
    for wrong in (
        lambda: histogram_plan(DOMAIN, "age", unit=Unit.row(), eps=0),
        lambda: histogram_plan(DOMAIN, "age", unit=Unit.row(), eps="1e-300"),
        lambda: histogram_plan(DOMAIN, [], unit=Unit.row(), eps=1),
        lambda: histogram_plan(DOMAIN, ["age", "age"], unit=Unit.row(), eps=1),
        lambda: histogram_plan(DOMAIN, "salary", unit=Unit.row(), eps=1),
        lambda: histogram_plan(DOMAIN, "region", unit=Unit.row(), eps=1, edges=[0, 1]),
        lambda: histogram_plan(DOMAIN, "age", unit=Unit.cells(), eps=1),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(DomainError, match="too many bins"):
        histogram_plan(Domain([Integer("x", 0, 2**30)]), "x", unit=Unit.row(), eps=1)
    with pytest.raises(UnitError):
        histogram_plan(DOMAIN, "age", unit=Unit.signal(1), eps=1)
    good = histogram_plan(DOMAIN, "age", unit=Unit.row(), eps=1)
    for change in (
        {"kind": "statistics.nothing"},
        {"kind": "os.path"},
        {"kind": 3},
        {"bins": []},
        {"bins": 3},
        {"unit": {}},
        {"guarantee": {"kind": "approx", "eps": "1", "delta": "0.1"}},
    ):
        import tomli_w

        (tmp_path / "plan.toml").write_text(tomli_w.dumps({**good.to_dict(), **change}))
        with pytest.raises(InputError):
            load_plan(tmp_path / "plan.toml")


def test_counts_are_given_raw_and_at_zero_or_more_with_an_interval_for_each(tmp_path: Path) -> None:
    domain, unit = ob.Domain([ob.Integer("age", 0, 199)]), ob.Unit.row()
    ledger = ob.Ledger.create(tmp_path / "x.ledger", dataset="x", unit=unit, budget=ob.Pure(9))
    release = ob.histogram({"age": [3] * 50}, domain, "age", eps="0.5", ledger=ledger)
    table = release.not_negative()
    count, low, high, cut, cut_low, cut_high = (
        table.column(name).to_numpy()
        for name in ("count", "low", "high", "at 0 or more", "at 0 or more low", "at 0 or more high")
    )
    assert count.min() < 0  # of 200 bins, but for 1 in 10^60
    assert (cut == np.maximum(count, 0)).all()
    assert (low < count).all()
    assert (cut_low == np.maximum(low, 0)).all()
    assert (cut_high == np.maximum(high, 0)).all()
    assert np.abs(cut[4:]).sum() < np.abs(count[4:]).sum()
    people = ob.Session({"age": [3] * 50}, domain=domain, ledger=ledger)
    assert people.where("age >= 100").count(eps=1).not_negative().num_columns == 6
    with pytest.raises(ParameterError, match="no counts"):
        people.sum("age", eps=1).not_negative()


def test_files_and_batches_have_counts_raw_and_at_zero_or_more(tmp_path: Path) -> None:
    domain, unit = ob.Domain([ob.Integer("age", 0, 59)]), ob.Unit.row()
    ledger = ob.Ledger.create(tmp_path / "x.ledger", dataset="x", unit=unit, budget=ob.Pure(9))
    people = ob.Session({"age": [3] * 50}, domain=domain, ledger=ledger)
    release = people.histogram("age", eps="0.5")
    certificate = release.save(tmp_path / "ages.csv", not_negative=True)
    lines = (tmp_path / "ages.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "age,count,low,high,at 0 or more,at 0 or more low,at 0 or more high"
    ob.verify_certificate(certificate)  # and the file beside it
    with people.batch(eps=1) as batch:
        batch.where("age < 9").count()
        batch.histogram("age")
        batch.mean("age")
    table = batch.release.not_negative(0.9)
    assert table.num_rows == 61  # and no row of the mean
    value, low, cut = (table.column(name).to_numpy() for name in ("value", "low", "at 0 or more"))
    assert (cut == np.maximum(value, 0)).all()
    assert (low < value).all()
    assert (table.column("at 0 or more low").to_numpy() == np.maximum(low, 0)).all()
    with pytest.raises(ParameterError, match="no counts"):
        people.mean("age", eps="0.1").save(tmp_path / "mean.csv", not_negative=True)
