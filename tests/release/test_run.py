"""The runner: what is spent when, what is stored, and what a crash leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import oboro as ob
from oboro.engine import open_data
from oboro.errors import BudgetError, DataError, NameTakenError, PaidError, ParameterError, UnitError
from oboro.ledger.chain import laid_out
from oboro.release import register, verify_certificate
from oboro.statistics import HistogramPlan
from oboro.synth.marks import write_records

DOMAIN = ob.Domain([ob.Integer("age", 0, 120), ob.Category("region", ["north", "south"])])
PEOPLE = {"age": [5, 15, 15, 119], "region": ["north", "south", "south", "north"]}


@pytest.fixture
def ledger(tmp_path: Path) -> ob.Ledger:
    return ob.Ledger.create(
        tmp_path / "people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1)
    )


def plan_of(eps: str = "0.25", unit: ob.Unit | None = None) -> Any:
    return ob.histogram_plan(DOMAIN, "region", unit=unit or ob.Unit.row(), eps=eps)


def test_csv_has_a_mark_if_and_only_if_it_is_more_than_ascii(ledger: ob.Ledger, tmp_path: Path) -> None:
    for name, marked in (("region", False), ("地域", True)):
        domain = ob.Domain([ob.Category(name, ["north", "south"])])
        plan = ob.histogram_plan(domain, name, unit=ob.Unit.row(), eps="0.1")
        path = tmp_path / "x.csv"
        ob.run(plan, {name: ["north"]}, ledger).save(path)
        assert path.read_bytes().startswith(b"\xef\xbb\xbf") is marked
        assert path.read_text(encoding="utf-8-sig").startswith(f'"{name}",')
        assert verify_certificate(tmp_path / "x.csv.certificate.json")["file"]["name"] == "x.csv"
        made = tmp_path / f"{name}.csv"
        write_records(pa.table({name: ["north"]}), made)  # synthetic records, by the same rule
        assert made.read_bytes().startswith(b"\xef\xbb\xbf") is marked
        assert open_data(made).types.keys() == {name}


def test_a_run_spends_exactly_once(ledger: ob.Ledger) -> None:
    release = ob.run(plan_of(), PEOPLE, ledger)
    assert ledger.spent == ob.Pure("0.25")
    assert release.guarantee == ob.Pure("0.25")
    assert release.cost == ob.Pure("0.25")
    assert [entry.kind for entry in ledger.history()] == ["create", "reserve", "commit"]
    assert release.to_arrow().num_rows == 2


def test_what_a_run_hands_out_decides_nothing_of_the_next(ledger: ob.Ledger) -> None:
    """A plan of a moment ago may be kept: whoever alters by force what the run gave them alters nothing that is kept."""
    told: list[Any] = []
    plan = plan_of("0.2")
    first = ob.run(plan, PEOPLE, ledger, tell=told.append)
    record, noise = (json.dumps(first.certificate.record[part]) for part in ("plan", "noise"))
    for given in (plan, first.plan):
        for amount in (given.guarantee, first.cost, given.parts[0].costs):
            amount.eps._numerator = 10**6
            object.__setattr__(amount, "eps", Fraction(10**6))
        object.__setattr__(given.parts[0], "noise", ob.noise.DiscreteLaplace("1/1000"))
        vars(given)["noise"] = ob.noise.DiscreteLaplace("1/1000")
    object.__setattr__(first.plan.bins[0].column, "values", ("north",))
    object.__setattr__(told[0], "notes", ("forged",))
    for part in ("plan", "noise", "domain", "forecast", "guarantee"):
        first.certificate.record[part].clear()
    second = ob.run(plan_of("0.2"), PEOPLE, ledger)
    assert (ledger.spent, second.cost, second.guarantee) == (ob.Pure("0.4"), ob.Pure("0.2"), ob.Pure("0.2"))
    assert json.dumps(second.certificate.record["plan"]) == record
    assert json.dumps(second.certificate.record["noise"]) == noise
    assert "forged" not in second.certificate.record["forecast"]["notes"]
    assert second.plan == plan_of("0.2")
    assert second.plan is second.plan
    assert second.to_arrow().num_rows == 2


def test_price_and_forecast_spend_nothing(ledger: ob.Ledger) -> None:
    assert ob.price(plan_of(), ledger) == ob.Pure("0.25")
    plan_of().forecast()
    with pytest.raises(BudgetError):
        ob.price(plan_of("1.01"), ledger)
    assert ledger.spent == ob.Pure(0)


def test_what_fails_before_the_reservation_spends_nothing(ledger: ob.Ledger) -> None:
    for data, plan, error in (
        ("absent.parquet", plan_of(), DataError),
        ({"age": [1]}, plan_of(), DataError),
        (PEOPLE, plan_of("2"), BudgetError),
        (PEOPLE, plan_of(unit=ob.Unit.row("replace")), UnitError),
    ):
        with pytest.raises(error):
            ob.run(plan, data, ledger)
    assert ledger.spent == ob.Pure(0)
    assert len(ledger.history()) == 1


CALLS: list[str] = []


@register
@dataclass(frozen=True)
class Dying(HistogramPlan):
    """A plan that dies where it is told to."""

    at: str = ""
    kind = "test.dying"

    def _call(self, name: str) -> None:
        CALLS.append(name)
        if name == self.at:
            raise RuntimeError("died")

    def forecast(self) -> Any:
        self._call("forecast")
        return super().forecast()

    def prepare(self, data: Any) -> Any:
        self._call("prepare")
        return super().prepare(data)

    def measure(self, prepared: Any, bits: Any, trials: Any = None) -> Any:
        self._call("measure")
        return super().measure(prepared, bits, trials)

    def describe(self) -> Any:
        self._call("describe")
        return super().describe()


class Assuming(HistogramPlan):
    """A plan whose promise rests on an assumption."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "guarantee", ob.Conditional(self.guarantee, "A"))


def dying(at: str) -> Dying:
    made = plan_of()
    return Dying(made.bins, made.unit, made.guarantee, at=at)


def test_after_the_reservation_nothing_is_refunded(ledger: ob.Ledger) -> None:
    with pytest.raises((PaidError, RuntimeError)) as died:
        ob.run(dying("measure"), PEOPLE, ledger, name="doomed")
    assert ledger.spent == ob.Pure("0.25")
    assert "did not finish" in str(died.value)
    CALLS.clear()
    with pytest.raises(NameTakenError, match="died"):
        ob.run(dying("measure"), object(), ledger, name="doomed")  # which could not even be opened
    assert CALLS == ["describe", "forecast"]  # public facts alone, for a name that cannot be had
    assert ledger.spent == ob.Pure("0.25")


@pytest.mark.parametrize("at", ["prepare", "forecast", "describe"])
def test_a_plan_that_dies_before_it_measures_spends_nothing(ledger: ob.Ledger, at: str) -> None:
    with pytest.raises(RuntimeError):
        ob.run(dying(at), PEOPLE, ledger)
    assert ledger.spent == ob.Pure(0)


def test_noise_is_drawn_only_after_the_reservation_is_on_disk(ledger: ob.Ledger, tmp_path: Path) -> None:
    from oboro.noise.bits import Bits

    class Watching(Bits):
        seen: ClassVar[list[int]] = []

        def words(self, count: int) -> Any:
            self.seen.append(len(ob.Ledger.open(tmp_path / "people.ledger").history()))
            return super().words(count)

    ob.run(plan_of(), PEOPLE, ledger, bits=Watching())
    assert Watching.seen
    assert min(Watching.seen) == 2  # create and reserve


def test_a_named_release_is_given_back_without_looking_at_data(ledger: ob.Ledger) -> None:
    first = ob.run(plan_of(), PEOPLE, ledger, name="regions")
    again = ob.run(plan_of(), "no such file", ledger, name="regions")
    assert again.to_arrow() == first.to_arrow()
    assert again.certificate.record == first.certificate.record
    assert ledger.spent == ob.Pure("0.25")
    with pytest.raises(NameTakenError, match="another plan"):
        ob.run(plan_of("0.5"), PEOPLE, ledger, name="regions")


def test_a_unit_is_converted_where_that_is_proved(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "r.ledger", dataset="people", unit=ob.Unit.row("replace"), budget=ob.Pure(1)
    )
    ob.run(plan_of(), PEOPLE, ledger)
    assert ledger.spent == ob.Pure("0.5")


def test_a_release_prints_and_converts(ledger: ob.Ledger) -> None:
    release = ob.run(plan_of("0.5"), PEOPLE, ledger)
    text = str(release)
    for part in (
        "histogram of region",
        "95% interval",
        "guarantee  eps = 0.5",
        "one row, added or removed",
        "covers the noise",
    ):
        assert part in text
    assert "<table>" in release._repr_html_()
    assert release.to_pandas().shape == release.to_polars().shape == (2, 2)
    assert release.interval(0.9).column_names == ["region", "count", "low", "high"]


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.arrow", "out.json"])
def test_saved_files_verify_and_altered_ones_do_not(ledger: ob.Ledger, tmp_path: Path, name: str) -> None:
    release = ob.run(plan_of(), PEOPLE, ledger)
    certificate = release.save(tmp_path / name)
    record = verify_certificate(certificate, public_key=ledger.public_key)
    assert record["file"]["name"] == name
    content = bytearray((tmp_path / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ob.errors.CertificateError, match="not the file"):
        verify_certificate(certificate)


def test_any_change_of_a_certificate_is_found(ledger: ob.Ledger, tmp_path: Path) -> None:
    path = ob.run(plan_of(), PEOPLE, ledger).save(tmp_path / "out.csv")
    original = json.loads(path.read_text())

    def leaves(record: Any, trail: tuple[Any, ...] = ()) -> Any:
        items = (
            record.items()
            if isinstance(record, dict)
            else enumerate(record)
            if isinstance(record, list)
            else ()
        )
        for key, value in items:
            yield from leaves(value, (*trail, key)) if isinstance(value, dict | list) else [(*trail, key)]

    for trail in leaves(original):
        changed = json.loads(path.read_text())
        place = changed
        for key in trail[:-1]:
            place = place[key]
        old = place[trail[-1]]
        place[trail[-1]] = 7 if old is None else (f"{old}0" if isinstance(old, str) else old + 1)
        (tmp_path / "forged.json").write_bytes(laid_out(changed, 2))
        with pytest.raises(ob.errors.CertificateError):
            verify_certificate(tmp_path / "forged.json", data=tmp_path / "out.csv")


def test_a_certificate_holds_what_it_should_and_nothing_private(ledger: ob.Ledger, tmp_path: Path) -> None:
    release = ob.run(plan_of(), PEOPLE, ledger)
    record = json.loads(release.save(tmp_path / "out.csv").read_text())
    for field in (
        "format",
        "released",
        "dataset",
        "unit",
        "domain",
        "guarantee",
        "noise",
        "plan",
        "forecast",
        "content",
        "ledger",
        "software",
        "bits",
        "time",
        "file",
        "public_key",
        "signature",
    ):
        assert field in record
    other = ob.run(plan_of(), {"age": [1] * 9999, "region": ["north"] * 9999}, ledger)
    same = {
        key: value
        for key, value in other.certificate.record.items()
        if key not in ("content", "ledger", "time")
    }
    assert same == {key: release.certificate.record[key] for key in same}  # nothing else depends on the data


def test_a_certificate_after_key_rotation_names_its_own_key(ledger: ob.Ledger, tmp_path: Path) -> None:
    before = ob.run(plan_of(), PEOPLE, ledger).save(tmp_path / "a.csv")
    old = ledger.public_key
    ledger.rotate_key()
    after = ob.run(plan_of(), PEOPLE, ledger).save(tmp_path / "b.csv")
    verify_certificate(before, public_key=old)
    verify_certificate(after, public_key=ledger.public_key)
    with pytest.raises(ob.errors.CertificateError, match="another key"):
        verify_certificate(after, public_key=old)


def test_unsafe_bits_are_named_in_the_certificate(ledger: ob.Ledger, test_bits: Any) -> None:
    release = ob.run(plan_of(), PEOPLE, ledger, bits=test_bits)
    assert "UNSAFE" in release.certificate.record["bits"]


def test_a_save_that_fails_leaves_no_half_written_file(ledger: ob.Ledger, tmp_path: Path) -> None:
    release = ob.run(plan_of(), PEOPLE, ledger)
    with pytest.raises(ParameterError, match="file type"):
        release.save(tmp_path / "out.docx")
    with pytest.raises(DataError, match="cannot be written"):
        release.save(tmp_path / "absent" / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".csv", ".docx")) == []


def test_a_conditional_plan_needs_a_conditional_ledger(ledger: ob.Ledger, tmp_path: Path) -> None:
    plan = Assuming(*(getattr(plan_of("0.5"), name) for name in ("bins", "unit", "guarantee")))
    with pytest.raises(ob.OboroError):
        ob.price(plan, ledger)
    assuming = ob.Ledger.create(
        tmp_path / "c.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Conditional(ob.Pure(1), "A")
    )
    assert ob.price(plan, assuming).assumptions == ("A",)


def test_a_certificate_does_not_overwrite_its_release(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "l", dataset="d", unit=ob.privacy.Unit.row(), budget=ob.privacy.Pure(1)
    )
    domain = ob.Domain([ob.Category("a", ["x", "y"])])
    session = ob.Session({"a": ["x", "y"]}, domain=domain, ledger=ledger)
    released = session.count(eps="0.1")
    with pytest.raises(ParameterError, match="overwrite the release"):
        released.save(tmp_path / "x.csv", certificate=tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()
