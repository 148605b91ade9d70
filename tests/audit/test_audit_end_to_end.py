"""Real releases of neighbouring data through the runner and a ledger; the command line; the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import oboro as ob
from oboro import audit
from oboro.cli.main import app
from oboro.noise import DiscreteLaplace
from oboro.release import Plan
from oboro.report.audit import write_audit
from oboro.statistics.histogram import HistogramPlan
from support import audited

SAMPLES = audited()
MAIN = ["histogram", "sum by region, zCDP", "table, wavelet", "secure draw"]


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.few(1, "audits of sound plans")
def test_releases_hold_and_the_ledger_adds_up(name: str, tmp_path: Path) -> None:
    found = audit.end_to_end(SAMPLES[name], 60, folder=tmp_path)
    assert found.verdict == "holds", str(found.report)
    assert found.releases == 120
    assert found.spent == found.owed
    assert not list(tmp_path.iterdir())


@pytest.mark.long("statistical tests")
def test_raw_data_in_a_release_is_caught_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: the runner hands out what was prepared."""
    monkeypatch.setattr(HistogramPlan, "measure", lambda plan, prepared, bits, trials=None: prepared)
    found = audit.end_to_end(SAMPLES["histogram"], 160, folder=tmp_path)
    assert found.report.verdict == "broken", str(found.report)


def test_more_releases_than_there_is_delta_for_are_refused() -> None:
    with pytest.raises(ob.OboroError, match="no delta left"):
        audit.end_to_end(SAMPLES["synthetic, gaussian"], 100)


def saved(path: Path) -> Path:
    ob.save_plan(SAMPLES["histogram"], path)
    return path


def test_the_command_audits_a_plan_file(tmp_path: Path) -> None:
    path, page = saved(tmp_path / "my_plan.toml"), tmp_path / "audit.html"
    said = CliRunner().invoke(app, ["audit", str(path), "--trials", "2000", "-o", str(page)])
    assert said.exit_code == 0, said.output
    assert "holds: my_plan: statistics.histogram" in said.output
    assert "computed eps = 1 <= 1 promised" in said.output
    assert "my_plan" in page.read_text()
    as_json = CliRunner().invoke(app, ["audit", str(path), "--trials", "2000", "--json"])
    (record,) = json.loads(as_json.output)
    assert (record["verdict"], record["how"], record["name"]) == ("holds", "computed", "my_plan")


def test_a_broken_promise_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = HistogramPlan.noise.func  # type: ignore[attr-defined]
    path = saved(tmp_path / "plan.toml")
    monkeypatch.setattr(
        HistogramPlan, "noise", property(lambda plan: DiscreteLaplace(honest(plan).scale / 2))
    )
    monkeypatch.setattr(Plan, "__post_init__", lambda plan: None)  # which would refuse it
    said = CliRunner().invoke(app, ["audit", str(path), "--trials", "2000"])
    assert said.exit_code != 0
    assert "broken" in said.output


def test_nothing_to_audit_is_said(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["audit"])
    assert said.exit_code != 0


def test_the_page_shows_a_bar_for_each_plan_and_marks_what_is_broken(tmp_path: Path) -> None:
    holds = audit.run(SAMPLES["histogram"], 2000)

    class Lying:
        plan: Any = SAMPLES["histogram"]
        kind, unit, guarantee = plan.kind, plan.unit, ob.Pure("0.5")
        prepare, measure, noise, neighbours = plan.prepare, plan.measure, plan.noise, plan.neighbours

    broken = audit.run(Lying(), 2000, search=0)  # type: ignore[arg-type]
    text = write_audit([holds, broken], tmp_path / "audit.html").read_text()
    assert text.count('<svg class="bar"') == 3  # the broken one stands on top as well
    assert 'class="computed" x="0" y="4" width="76.00"' in text  # as long as the promise allows
    assert 'class="beyond"' in text
    assert "BROKEN" in text
    assert not re.search(r"(src|href)=\"https?:", text)
