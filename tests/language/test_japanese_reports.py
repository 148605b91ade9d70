"""What is printed line by line is Japanese in every line: reports, forecasts, sentences with names in them."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import oboro as ob
from oboro.audit import run
from oboro.audit.samples import samples
from oboro.language import filled, phrase, said
from oboro.release.forecast import Forecast
from oboro.report.promise import in_line

ENGLISH = re.compile(r"\b(?:of|rows|trials|average|world|distance|holds)\b")


@pytest.fixture(autouse=True)
def japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")


@pytest.mark.long("words in Japanese")
def test_a_report_of_quality_is_japanese_in_every_line() -> None:
    real = pa.table({"a": list(range(60)) * 2, "b": ["x", "y"] * 60, "c": [0.5, 1.5, 2.5, 3.5] * 30})
    told = str(ob.synth.quality(real, real.slice(0, 90), target="b"))
    assert "実データの行の写し" in told
    assert not ENGLISH.search(told), told


def test_an_audit_says_its_promise_and_its_trials_apart() -> None:
    found = samples()["count"]
    head = said(str(run(found, 500))).splitlines()[0]
    assert not ENGLISH.search(head)
    assert str(found.guarantee) in head
    for promise in ("eps = 1", "eps = 1, delta = 1e-6", "rho = 1/2"):
        told = said(f"holds: plan: tables.table, {promise}, 20,000 trials a world")
        assert told == f"守られた：計画：tables.table、{promise}、各世界で 20,000 回の試行"


def test_a_notebook_shows_interval_and_price_in_japanese(tmp_path: Path) -> None:
    unit = ob.Unit.row()
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="住民", unit=unit, budget=ob.Pure(3))
    domain = ob.Domain([ob.Integer("age", 0, 99)])
    people = ob.Session({"age": [20, 30, 40] * 9}, domain=domain, unit=unit, ledger=ledger)
    shown = people.mean("age", eps=1)._repr_html_()
    assert "<th>合計</th><th>件数</th><th>95% 区間</th>" in shown
    assert "費用：<b>eps = 1</b><br>支出の合計：<b>eps = 1</b><br>予算：<b>eps = 3</b>" in shown


def test_a_name_stands_without_a_space_where_both_sides_are_japanese() -> None:
    assert filled("{dataset} への質問", {"dataset": "人口"}) == "人口への質問"
    assert filled("{dataset} への質問", {"dataset": "people"}) == "people への質問"
    assert filled("{side} ごとの {what}", {"side": "500 m", "what": "人口 総数"}) == "500 m ごとの人口 総数"
    assert filled("{what} in each cell", {"what": "people"}) == "people in each cell"


SIGNS = {"eps", "rho", "eta", "sigma^2", "s", "alpha", "beta", "ridge"}  # the same in every language


def test_every_parameter_of_a_noise_is_named_in_japanese() -> None:
    """On pages: as the line on noise in the promise says the certificates of all kinds of plans."""
    named = 0
    for name, plan in samples().items():
        noise = plan.describe()["noise"]
        assert isinstance(noise, dict)
        for told in in_line(noise).ja.split("、"):
            first = told.split(" ")[0].split("（")[0]
            assert first in SIGNS or not re.match(r"[a-z]{2,}( |$)", told), f"{name}: {told}"
            assert not re.search(r"\b[a-z]{2,} [a-z]{2,}\b", told), f"{name}: {told}"
            named += 1
    assert named > 200


def test_a_condition_stays_as_it_was_written() -> None:
    told = "mean of income by region, where age >= 65 and region in ('north', 'south') or x = 1"
    assert (
        phrase(told)
        == "region 別の income の平均（条件：age >= 65 and region in ('north', 'south') or x = 1）"
    )


def test_times_that_are_all_alike_are_one_line() -> None:
    columns = ("time", "median |error|")
    alike = Forecast("expected error of the output over time", columns, (("0", 0.5), ("1", 0.5), ("9", 0.5)))
    assert str(alike).splitlines()[2].split() == ["0", "～", "9", "0.5"]
    differ = Forecast("expected error of the output over time", columns, (("0", 0.5), ("9", 0.4)))
    assert len(str(differ).splitlines()) == 4
