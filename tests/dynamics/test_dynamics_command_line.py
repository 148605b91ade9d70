"""`oboro dynamics` as a user types it, and its pages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import oboro as ob
from oboro.cli import main
from oboro.dynamics.system import FEEDER, household_load
from oboro.report.band import write_band

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "feeder.toml").write_text(FEEDER)
    (tmp_path / "load.csv").write_text("load\n" + "".join(f"{x}\n" for x in household_load(336)))

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        out = capsys.readouterr()
        return int(stop.value.code or 0), out.out, out.err

    return command


RELEASE = (
    "dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-3 --ledger l.ledger"
)


def test_the_lines_of_the_guide(oboro: Command, tmp_path: Path) -> None:
    code, out, _ = oboro("dynamics plan feeder.toml --eps 1 --delta 1e-3 --alpha 1.5 --save-plan plan.toml")
    assert code == 0
    assert "median |error|" in out
    assert oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 2 --delta 1e-2")[0] == 0
    code, out, err = oboro(f"{RELEASE} -o published.csv")
    assert code == 0, err
    assert "remaining  eps = 1, delta = 0.009" in out
    assert (tmp_path / "published.csv").read_text().startswith('"t","y"')
    assert oboro("certificate verify published.csv.certificate.json")[0] == 0
    code, _, err = oboro("dynamics band published.csv -o band.html")
    assert code == 0, err
    assert "<polygon" in (tmp_path / "band.html").read_text()
    code, out, _ = oboro("dynamics outliers --eps 1 --delta 1e-3 -o outliers.html")
    assert code == 0
    assert "stable 1.5, independent" in out
    page = (tmp_path / "outliers.html").read_text()
    assert page.count("<polyline") == 12
    assert "外れ値" in page
    plan = ob.load_plan(tmp_path / "plan.toml")
    assert plan.horizon == 335


def test_the_generic_commands_run_a_saved_plan(oboro: Command) -> None:
    oboro("dynamics plan feeder.toml --eps 1 --delta 1e-3 --column load --save-plan plan.toml")
    oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 2 --delta 1e-2")
    code, _, err = oboro("run plan.toml load.csv --ledger l.ledger -o out.parquet")
    assert code == 0, err


def test_json_dry_runs_and_refusals(oboro: Command) -> None:
    oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 1 --delta 1e-2")
    for line in (
        "dynamics plan feeder.toml --eps 1 --delta 1e-3 --json",
        f"{RELEASE} --dry-run --json",
        f"{RELEASE} --json --x0 0.5 --noise shared",
        "dynamics outliers --eps 1 --delta 1e-3 --json",
        "reproduce ito-outliers --json",
    ):
        code, out, err = oboro(line)
        assert code == 0, (line, err)
        json.loads(out)
    for line, exit_code, says in (
        (RELEASE, 3, "budget"),
        (RELEASE.replace("--column load", "--column lode"), 3, "budget"),
        (RELEASE.replace("--eps 1", "--eps 0"), 4, "eps"),
        ("dynamics plan feeder.toml --eps 1 --delta 1e-3 --alpha 3", 4, "alpha"),
        ("dynamics plan nothing.toml --eps 1 --delta 1e-3", 4, "nothing.toml"),
        ("dynamics plan feeder.toml --eps 1", 4, "shared"),
    ):
        code, _, err = oboro(line)
        assert code == exit_code, (line, err)
        assert says in err


def test_the_horizon_is_that_of_the_signal_if_nobody_says(oboro: Command, tmp_path: Path) -> None:
    (tmp_path / "feeder.toml").write_text(FEEDER.replace("horizon = 335\n", ""))
    oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 1 --delta 1e-2")
    assert oboro("dynamics plan feeder.toml --eps 1 --delta 1e-3")[0] == 4
    code, out, err = oboro(f"{RELEASE} -o published.parquet")
    assert code == 0, err
    assert "times 0 to 335" in out


def test_a_sigma_in_the_file(oboro: Command, tmp_path: Path) -> None:
    shaped = FEEDER.replace("horizon = 335\n", 'horizon = 1\nsigma = [["90", "9"], ["9", "90"]]\n')
    (tmp_path / "feeder.toml").write_text(shaped)
    (tmp_path / "load.csv").write_text("load\n0.5\n0.7\n")
    oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 1 --delta 1e-2")
    code, out, err = oboro("dynamics plan feeder.toml --eps 1 --delta 1e-3")
    assert code == 0, err
    assert "of shape sigma" in out
    code, out, err = oboro(f"{RELEASE} -o published.csv")
    assert code == 0, err
    assert oboro("dynamics band published.csv -o band.html")[0] == 0
    (tmp_path / "feeder.toml").write_text(shaped.replace("90", "9.1"))
    code, _, err = oboro("dynamics plan feeder.toml --eps 0.1 --delta 1e-6")
    assert code == 4
    assert "condition (10)" in err


def test_the_demo(oboro: Command, tmp_path: Path) -> None:
    assert oboro("dynamics demo -o shown")[0] == 0
    for name in ("published.csv", "band.html", "band-with-truth.html", "outliers.html"):
        assert (tmp_path / "shown" / name).stat().st_size > 1000
    assert "internal-band" not in (tmp_path / "shown" / "band.html").read_text().split("<body>")[1]
    shown = (tmp_path / "shown" / "band-with-truth.html").read_text().split("<body>")[1]
    assert "INTERNAL: shows the true signal (here made up)." in shown
    assert "true counts" not in shown
    assert ">household load</h1>" in shown
    assert oboro("dynamics demo -o shown")[0] == 1
    code, _, err = oboro("dynamics demo -o other --data load.csv --column load")
    assert code == 0, err
    assert "internal-band" in (tmp_path / "other" / "band-with-truth.html").read_text().split("<body>")[1]


def test_a_page_with_a_private_truth_says_so(tmp_path: Path) -> None:
    import pyarrow as pa

    made = ob.dynamics.plan(
        ([["0.9"]], [["1"]], [["1"]], [["0"]]), unit=ob.Unit.signal(1), horizon=9, eps=1, delta="1e-3"
    )
    table = pa.table({"t": list(range(10)), "y": [float(t) for t in range(10)]})
    write_band(tmp_path / "a.html", made, table, truth=[0.0] * 10)
    assert "INTERNAL" in (tmp_path / "a.html").read_text().split("<body>")[1]
    write_band(tmp_path / "b.html", made, table)
    assert "INTERNAL" not in (tmp_path / "b.html").read_text().split("<body>")[1]


def test_an_entry_of_a_system_that_nobody_reads_is_refused(oboro: Command, tmp_path: Path) -> None:
    from oboro.dynamics.system import FEEDER

    for text in (
        FEEDER.replace("horizon", "horizn"),
        FEEDER + "x = 1",
        FEEDER.replace("[unit]", "dt = 1\n[unit]"),
    ):
        (tmp_path / "typo.toml").write_text(text)
        code, _, err = oboro("dynamics plan typo.toml --eps 1 --delta 1e-3")
        assert code == 4, text
        assert "nobody reads" in err or "wrong or missing parts" in err
