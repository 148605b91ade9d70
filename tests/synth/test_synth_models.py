"""Models end to end: what comes out has the right columns, types, shapes and relations, under conditions too."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from synth_people import DOMAIN, ledger_in, people

import oboro as ob
from oboro.errors import CertificateError, DataError, InputError, ParameterError
from oboro.release.plan import bundled
from oboro.synth.copula import CopulaSampler
from oboro.synth.measured import Binned
from oboro.synth.shape import Shape
from support import repeatable

METHODS = ("marginals", "quality", "moments")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = ledger_in(tmp_path_factory.mktemp("models"))
    found = {}
    for method in METHODS:
        plan = ob.synth.plan(DOMAIN, unit=ob.Unit.row("replace"), n=4000, eps=8, delta="1e-6", method=method)
        found[method] = ob.synth.release(people(), plan, ledger=ledger, name=method)
    assert ledger.spent == ob.Approx(24, "3e-6")
    return found


@pytest.mark.long("whole models")
@pytest.mark.parametrize("method", METHODS)
def test_columns_types_and_order_survive(models: dict[str, Any], method: str) -> None:
    table = models[method].sample(3000)
    assert table.column_names == list(DOMAIN.names)
    kinds = [str(field.type) for field in table.schema]
    assert kinds == ["int64", "double", "string", "string", "date32[day]", "int64"]
    ages = table["age"].to_numpy()
    assert ages.min() >= 0
    assert ages.max() <= 120
    assert set(table["sex"].to_pylist()) <= {"F", "M", None}
    assert all(
        day is None or date(2020, 1, 1) <= day <= date(2025, 12, 31) for day in table["joined"].to_pylist()
    )
    assert all(score is None or score * 2 == int(score * 2) for score in table["score"].to_pylist())


@pytest.mark.parametrize("method", METHODS)
def test_what_is_learned_is_close(models: dict[str, Any], method: str) -> None:
    real, made = people(), models[method].sample(20_000, seed=1)
    assert abs(made["age"].to_numpy().mean() - real["age"].to_numpy().mean()) < 1.5
    assert abs(made["score"].null_count / 20_000 - 0.1) < 0.03  # what was missing is missing
    assert made["sex"].null_count == made["age"].null_count == 0  # and nothing else is
    zero = np.mean(made["amount"].to_numpy() == 0)
    assert abs(zero - 0.5) < 0.05  # a spike among 100,000 values is found


@pytest.mark.parametrize("method", METHODS)
def test_relations_survive(models: dict[str, Any], method: str) -> None:
    made = models[method].sample(20_000, seed=2).to_pandas()
    assert made[["age", "score"]].corr().iloc[0, 1] > (0.6 if method != "moments" else 0.5)
    if method != "moments":
        north = made[made.region == "north"].sex.eq("F").mean()
        assert abs(north - 0.8) < 0.08


def test_conditions_hold_and_change_what_depends_on_them(models: dict[str, Any]) -> None:
    model = models["marginals"]
    made = model.sample(4000, where={"sex": "F", "age": (30, 40)})
    assert made.num_rows == 4000
    assert set(made["sex"].to_pylist()) == {"F"}
    assert set(made["age"].to_pylist()) <= set(range(30, 41))
    old, young = (
        np.nanmean(model.sample(4000, where={"age": span})["score"].to_numpy())
        for span in ((70, 120), (0, 25))
    )
    assert old > young + 2
    assert set(model.sample(500, where={"region": ["north", "east"]})["region"].to_pylist()) == {
        "north",
        "east",
    }
    assert model.sample(50, where={"score": None})["score"].null_count == 50
    assert set(model.sample(50, where={"amount": 0})["amount"].to_pylist()) == {0}
    days = model.sample(200, where={"joined": ("2021-01-01", "2021-01-31")})["joined"].to_pylist()
    assert all(day.year == 2021 and day.month == 1 for day in days)
    copula = models["moments"].sample(300, where={"sex": "M"})
    assert set(copula["sex"].to_pylist()) == {"M"}
    assert copula.num_rows == 300


@pytest.mark.parametrize(
    "where",
    [
        {"sex": "X"},
        {"height": 3},
        {"age": "old"},
        {"age": (40, 30)},
        {"age": (1, 2, 3)},
        {"sex": []},
        {"region": None},
        {"sex": ("F", "X")},
    ],
    ids=str,
)
def test_conditions_on_values_that_are_not_there_are_refused(
    models: dict[str, Any], where: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        models["marginals"].sample(10, where=where)


def test_sampling_repeats_with_a_seed_and_any_number_is_fine(models: dict[str, Any]) -> None:
    model = models["marginals"]
    assert model.sample(100, seed=4) == model.sample(100, seed=4)
    assert model.sample(100) != model.sample(100)
    assert model.sample(0).num_rows == 0
    assert model.sample(1).num_rows == 1
    for n in (-1, 1.5, 10**12):
        with pytest.raises(ParameterError):
            model.sample(n)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_kept_in_a_file_and_says_what_it_promises(
    models: dict[str, Any], method: str, tmp_path: Path
) -> None:
    model = models[method]
    model.save(tmp_path / "model.oboro")
    again = ob.synth.load(tmp_path / "model.oboro")
    assert again.plan == model.plan
    assert again.guarantee == ob.Approx(8, "1e-6")
    assert "eps = 8" in str(again)
    assert again.to_arrow() == model.to_arrow()
    assert again.sample(50, seed=9) == model.sample(50, seed=9)
    again.save(tmp_path / "copy.oboro")
    assert (tmp_path / "copy.oboro").read_bytes() == (tmp_path / "model.oboro").read_bytes()


def test_a_model_file_that_was_changed_is_refused(models: dict[str, Any], tmp_path: Path) -> None:
    import zipfile

    models["marginals"].save(tmp_path / "model.oboro")
    with zipfile.ZipFile(tmp_path / "model.oboro") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(parts["measurements.parquet"]))
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(1), sink)
    other = parts | {"measurements.parquet": sink.getvalue().to_pybytes()}
    (tmp_path / "other.oboro").write_bytes(bundled(other))
    with pytest.raises(CertificateError):
        ob.synth.load(tmp_path / "other.oboro")
    (tmp_path / "nothing.oboro").write_bytes(b"not a model")
    for name in ("nothing.oboro", "absent.oboro"):
        with pytest.raises(DataError):
            ob.synth.load(tmp_path / name)
    with pytest.raises(ParameterError):
        models["marginals"].save(tmp_path / "model.zip")


STRANGE = {
    "one row": {
        "age": [3],
        "score": [1.0],
        "sex": ["F"],
        "region": ["north"],
        "joined": ["2020-02-02"],
        "amount": [5],
    },
    "nulls": {name: [None] * 5 for name in DOMAIN.names},
    "nothing": {name: [] for name in DOMAIN.names},
    "odd values": {
        "age": ["old", "-7", "1e300", "nan", "inf"],
        "score": [1e300, -1e300, float("nan"), None, 3.3],
        "sex": ["X", "", None, "F", "f"],
        "region": ["nowhere", None, "north", "NORTH", "west"],
        "joined": ["31.12.2020", "2020/12/31", "1066-10-14", "2999-01-01", "soon"],
        "amount": [-5, 10**15, 0, 1, 2],
    },
}


@pytest.mark.long("values by chance")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", list(STRANGE.values()), ids=list(STRANGE))
def test_nothing_raises_on_a_value(method: str, data: dict[str, Any], tmp_path: Path) -> None:
    """One row, nulls, nothing at all, dates in another form, numbers out of bounds: the same path for all."""
    plan = ob.synth.plan(DOMAIN, unit=ob.Unit.row(), eps=1, delta="1e-6", method=method)
    model = ob.synth.release(data, plan, ledger=ledger_in(tmp_path, ob.Unit.row()))
    table = model.sample(20)
    assert table.num_rows == 20
    assert table.column_names == list(DOMAIN.names)


@pytest.mark.long("whole models")
def test_a_named_model_is_given_back_without_data(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    plan = ob.synth.plan(DOMAIN, unit=ob.Unit.row("replace"), n=4000, eps=1, delta="1e-6")
    first = ob.synth.release(people(), plan, ledger=ledger, name="people")
    again = ob.synth.release(None, plan, ledger=ledger, name="people")
    assert again.to_arrow() == first.to_arrow()
    assert ledger.spent == ob.Approx(1, "1e-6")


def test_columns_with_times_in_their_names_and_one_column_alone(tmp_path: Path) -> None:
    domain = ob.Domain(
        [ob.Category("a", ["x", "y"]), ob.Category("a × b", ["x", "y"]), ob.Category("b", ["x", "y"])]
    )
    data = {name: ["x", "y"] * 20 for name in domain.names}
    ledger = ledger_in(tmp_path, ob.Unit.row())
    for method in METHODS:
        model = ob.synth.release(
            data, ob.synth.plan(domain, unit=ob.Unit.row(), eps=4, delta="1e-6", method=method), ledger=ledger
        )
        assert model.sample(5).column_names == ["a", "a × b", "b"]
        alone = ob.synth.plan(domain.only("a"), unit=ob.Unit.row(), eps=4, delta="1e-6", method=method)
        assert ob.synth.release(data, alone, ledger=ledger).sample(5).column_names == ["a"]


@pytest.mark.parametrize("method", METHODS)
def test_a_model_needs_its_ledger_no_more(method: str, tmp_path: Path) -> None:
    """Neither to draw nor to be saved: the ledger signs once, at the release."""
    domain = ob.Domain([ob.Category("a", ["x", "y"]), ob.Integer("b", 0, 9)])
    ledger = ledger_in(tmp_path, ob.Unit.row())
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=1, delta="1e-6", method=method)
    model = ob.synth.release({"a": ["x", "y"] * 20, "b": [3, 5] * 20}, plan, ledger=ledger)
    ledger.close()
    for path in tmp_path.iterdir():
        path.rename(path.with_name(f"{path.name}.moved"))
    made = model.sample(10, seed=1)
    assert made == ob.synth.load(model.save(tmp_path / "model.oboro")).sample(10, seed=1)


@pytest.mark.parametrize("method", METHODS)
def test_where_nobody_is_believed_to_be_a_model_draws_all_the_same(method: str, tmp_path: Path) -> None:
    """A record for 4,000 values is less than a thousandth for each, and what is published is thousandths."""
    domain = ob.Domain([ob.Category("code", [f"v{i}" for i in range(4000)])])
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=12, method=method)
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(12))
    model = ob.synth.release({"code": []}, plan, ledger=ledger, bits=repeatable("few"))
    made = model.sample(500, seed=1)["code"]
    assert made.null_count == 0
    assert len(made.unique()) > 1


def test_a_copula_of_nobody_draws_evenly_and_no_nulls() -> None:
    shape = Shape(np.array([0, 1, 10]), np.array([1, 10, 11]), np.zeros(3), 10)
    sampler = CopulaSampler(np.eye(1), (Binned(shape, np.arange(3)),))
    (codes,) = sampler.draw(20_000, {}, np.random.default_rng(1))
    assert codes.min() == 0
    assert codes.max() == 9
    assert np.abs(np.bincount(codes, minlength=10) - 2000).max() < 6 * 2000**0.5
