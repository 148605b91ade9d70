"""Persons counted once, the most frequent values, and groups by intervals, years and months."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.errors import InputError
from oboro.noise import Bits, system_bits
from oboro.statistics.scope import Bins, even_bins, group_of
from oboro.statistics.session import Plans

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Category("region", ["north", "south"]),
        ob.Date("day", "2025-11-15", "2027-02-10"),
    ]
)
VISITS = {
    "who": ["a", "a", "a", "b", "b", "c", None],
    "age": [31, 31, 33, 54, 55, 70, 20],
    "region": ["north", "south", "north", "north", "north", "east", "north"],
    "day": ["2025-12-01", "2025-12-31", "2026-01-01", "2026-12-05", "2027-02-10", "2026-06-01", "2026-06-01"],
}


def asked(rows: int = 20, adjacency: str = "add/remove", n: int | None = None) -> Plans:
    return Plans(DOMAIN, ob.Unit.person("who", rows, adjacency), n)


def test_each_person_counts_once() -> None:
    assert asked().persons(eps=1).prepare(VISITS).tolist() == [[3]]
    assert asked().where("age < 54").persons(eps=1).prepare(VISITS).tolist() == [[1]]
    assert asked().by("region").persons(eps=1).prepare(VISITS).tolist() == [[2], [1]]
    assert asked().by("bins(age, 10)").persons(eps=1).prepare(VISITS).ravel().tolist() == [
        *(0, 0, 0, 1, 0, 1, 0, 1),
        *(0, 0, 0, 0, 0),
    ]
    assert asked().by("year(day)").persons(eps=1).prepare(VISITS).ravel().tolist() == [1, 3, 1]


def test_a_person_counts_in_as_many_groups_as_its_rows_may_be() -> None:
    one = asked(1).by("region").persons(eps=1)
    assert one.prepare(VISITS).sum() == 2  # of a and b; c is in no known region
    assert one.parts[0].moves == 1
    assert asked(5).by("region").persons(eps=1).parts[0].moves == 2  # there are no more groups


def test_the_noise_of_persons_does_not_grow_with_their_rows() -> None:
    assert asked(1000).persons(eps=1).term.noise == ob.noise.DiscreteLaplace(1)
    assert asked(1000, "replace", 9).where("age < 54").persons(eps=1).term.noise == ob.noise.DiscreteLaplace(
        1
    )
    assert asked(4).by("age").persons(rho="0.5").term.noise == ob.noise.DiscreteGaussian(4)


def test_the_number_of_all_persons_under_replace_is_public_and_costs_nothing(tmp_path: Path) -> None:
    unit = ob.Unit.person("who", 20, "replace")
    ledger = ob.Ledger.create(tmp_path / "r", dataset="r", unit=unit, budget=ob.Pure(10))
    session = ob.Session(VISITS, domain=DOMAIN, ledger=ledger)
    with pytest.raises(InputError, match="the public n, which is 3"):
        session.persons(eps=1)
    with session.batch(eps=1) as batch:
        everybody, mean = batch.persons(), batch.mean("age")
    assert everybody.value == 3
    assert mean.value is not None
    assert ledger.remaining == ob.Pure(9)
    plan = asked(20, "replace", 3).persons(eps=1)
    assert (plan.guarantee, plan.parts) == (ob.Pure(0), ())
    with pytest.raises(InputError, match="costs something where it is not public"):
        type(plan)(asked(20, "replace", 3).where("age < 54").persons(eps=1).scope, ob.Pure(0))


def test_a_number_of_persons_lies_in_its_interval_where_n_is_public() -> None:
    plan = asked(20, "replace", 3).where("age < 99").persons(eps="0.1")
    table = plan.publish(np.asarray([[40]]))
    assert table["value"].to_pylist() == [3]
    low, high = plan.intervals(table, 0.95)
    assert low[0] <= 3 <= high[0] == 3


def test_persons_need_a_unit_of_persons() -> None:
    with pytest.raises(InputError, match="persons are counted where a person is protected"):
        Plans(DOMAIN, ob.Unit.row(), None).persons(eps=1)


def test_the_most_frequent_values_come_in_order() -> None:
    data = {"age": [30] * 500 + [40] * 300 + [20] * 100, "region": ["north"] * 900}
    plan = Plans(DOMAIN, ob.Unit.row(), None).top("age", 3, eps=5)
    table = plan.publish(plan.measure(plan.prepare(data), Bits()))
    assert table.to_pydict() == {"place": [1, 2, 3], "value": [30, 40, 20]}
    mode = Plans(DOMAIN, ob.Unit.row(), None).by("region").mode("age", eps=5)
    assert mode.publish(mode.measure(mode.prepare(data), Bits()))["value"][0].as_py() == 30


def test_many_trials_are_many_draws() -> None:
    plan = Plans(DOMAIN, ob.Unit.row(), None).top("region", 2, eps="0.5")
    prepared = plan.prepare({"region": ["north"] * 3 + ["south"]})
    drawn = plan.measure(prepared, Bits(), 20_000)
    assert drawn.shape == (20_000, 1, 2)
    assert (drawn.sum(axis=2) == 1).all()  # no value twice
    # eta = eps/2 = 1/4, and the coin of the second shows heads with probability e^(-1/2)
    second = np.exp(-0.5) / 2
    assert abs((drawn[:, 0, 0] == 1).mean() - second) < 6 * np.sqrt(second * (1 - second) / 20_000)


def test_edges_are_open_at_both_ends() -> None:
    assert Bins(DOMAIN["age"], [18, 65]).labels == ["0 to 17", "18 to 64", "65 to 120"]
    assert Bins(DOMAIN["age"], [18, 120]).labels == ["0 to 17", "18 to 120"]
    assert Bins(DOMAIN["age"], [65]).labels == ["0 to 64", "65 to 120"]


def test_years_and_months_are_those_of_the_calendar() -> None:
    day = DOMAIN["day"]
    assert isinstance(day, ob.Date)
    assert Bins(day, period="year").labels == [2025, 2026, 2027]
    assert Bins(day, period="month").labels == list(range(1, 13))
    assert Bins(day, period="year-month").labels[:3] == ["2025-11", "2025-12", "2026-01"]
    for period, label in (("year", "%Y"), ("month", "%m"), ("year-month", "%Y-%m")):
        bins = Bins(day, period=period)
        codes = np.arange(day.size)
        found = [bins.labels[place] for place in bins.fold(codes)]
        wanted: list[Any] = [day.value(code).strftime(label) for code in codes.tolist()]  # type: ignore[attr-defined]
        assert found == (wanted if period == "year-month" else [int(one) for one in wanted])
        assert bins.fold(np.array([0, bins.far])).tolist()[0] != bins.fold(np.array([bins.far])).tolist()[0]


def test_bins_begin_at_multiples_of_their_width() -> None:
    assert even_bins(ob.Integer("age", 18, 45), 10).labels == ["18 to 19", "20 to 29", "30 to 39", "40 to 45"]
    assert even_bins(ob.Real("score", -1, 1, "0.25"), "0.5").labels == [
        *("[-1, -0.5)", "[-0.5, 0)"),
        *("[0, 0.5)", "[0.5, 1)", "[1, 1]"),
    ]
    with pytest.raises(InputError, match="do not fit the steps"):
        even_bins(ob.Integer("income", 0, 1000, step=100), 150)


@pytest.mark.parametrize(
    "text", ["bins(day, 10)", "year(age)", "bins(age)", "age=year", "week(day)", "day=week"]
)
def test_groups_that_no_column_has_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        group_of(DOMAIN, text)


def test_sums_means_and_quantiles_by_intervals_are_those_of_the_rows() -> None:
    ask = asked().by("year(day)", "month(day)")
    counts = ask.count(eps=1).prepare(VISITS).reshape(3, 12)
    assert counts[0, 11] == 2
    assert counts[1, 0] == counts[1, 5] == counts[1, 11] == counts[2, 1] == 1
    sums = asked().by("day=year").sum("age", eps=1).prepare(VISITS).ravel().tolist()
    assert sums == [62, 33 + 54 + 70, 55]
    # without the row of nobody, which has no person
    median = asked().by("day=month").median("age", eps=1)
    ranks = median.prepare(VISITS)
    assert [one.rows for one in ranks] == [0, 2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1]
    labels = median.scope.labels()
    assert list(labels) == ["day"]
    assert labels["day"][0].as_py() == "2025-11"


def test_groups_are_part_of_the_record() -> None:
    for plan in (
        asked().by("year(day)", "bins(age, 10)").persons(eps=1),
        asked().by("day=month").mean("age", eps=1),
        asked().by("month(day)").top("age", 2, eps=1),
        asked().by("month(day)").count(eps=1),
    ):
        assert ob.release.plan_from(plan.to_dict()) == plan
    assert Bins(DOMAIN["day"]).labels[0] == date(2025, 11, 15)


def test_a_batch_gives_texts_and_days_as_they_are(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "batch.ledger", dataset="visits", unit=ob.Unit.person("who", 20), budget=ob.Pure(9)
    )
    session = ob.Session(VISITS, domain=DOMAIN, ledger=ledger)
    with session.batch(eps=3) as batch:
        region, day, persons = batch.mode("region"), batch.mode("day"), batch.persons()
    assert region.value in ("north", "south")
    assert isinstance(day.value, date)
    assert isinstance(persons.value, float)


def test_the_interval_of_persons_covers_as_often_as_it_says() -> None:
    plan = asked(5).by("region").persons(eps="0.5")
    noisy = plan.measure(plan.prepare(VISITS), system_bits(), trials=4_000)
    truth = plan.prepare(VISITS).ravel()
    assert plan.intervals is not None
    ends = [plan.intervals(plan.publish(one), 0.8) for one in noisy]
    covered = np.mean([(low <= truth) & (truth <= high) for low, high in ends])
    assert (
        0.77 < covered < 0.92
    )  # 80% of 8,000 but for 6.7 standard errors; a discrete law covers a little more
