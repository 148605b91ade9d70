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
    assert (tmp_path / "published.csv").read_text().startswith('"t","y","low","high"')
    assert oboro("certificate verify published.csv.certificate.json")[0] == 0
    code, _, err = oboro("dynamics band published.csv -o band.html")
    assert code == 0, err
    assert 'id="detail"' in (tmp_path / "band.html").read_text()
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


def test_a_load_itself_is_published_by_a_word_with_its_interval(oboro: Command, tmp_path: Path) -> None:
    oboro("ledger create l.ledger --dataset load --unit signal:1 --eps 3 --delta 1e-2")
    code, out, err = oboro(
        "dynamics forecast --system identity --horizon 335 --eps 1 --delta 1e-3 --unit signal:1 --expected-sd 0.5"
    )
    assert code == 0, err
    assert "rank correlation of 0.16: too little to read them one by one" in out
    code, out, err = oboro(
        "dynamics release load.csv --system identity --column load --eps 1 --delta 1e-3 --ledger l.ledger -o p.csv"
    )
    assert code == 0, err
    rows = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    assert all(float(low) < float(y) < float(high) for _, y, low, high in rows)
    (tmp_path / "itself.toml").write_text('system = "identity"\nhorizon = 335\n')
    again = (
        "dynamics release load.csv --system itself.toml --column load --eps 1 --delta 1e-3 --ledger l.ledger"
    )
    assert oboro(again)[0] == 0
    dated = "--start 2026-04-01T00:30 --every 30min --measured-in kWh --language ja"
    assert oboro(f"dynamics band p.csv {dated} -o band.html")[0] == 0
    page = (tmp_path / "band.html").read_text()
    assert '"start":1775003400.0,"step":1800,"unit":"kWh"' in page.replace(", ", ",").replace(": ", ":")
    for wrong in ("--every 30min", "--start yesterday", "--start 2026-04-01 --every 0h"):
        code, _, err = oboro(f"dynamics band p.csv {wrong} -o band.html")
        assert code == 4
        fix = next(line for line in err.splitlines() if line.startswith("  fix"))[10:]
        assert oboro(f"dynamics band p.csv {fix} -o band.html")[0] == 0, fix


def test_every_sample_of_a_year_is_on_the_page(tmp_path: Path) -> None:
    import pyarrow as pa

    made = ob.dynamics.plan("identity", unit=ob.Unit.signal(1), horizon=17519, eps=1, delta="1e-3")
    table = pa.table({"t": list(range(17520)), "y": [float(t % 48) for t in range(17520)]})
    write_band(tmp_path / "a.html", made, table, start="2026-01-01", every="30min")
    page = (tmp_path / "a.html").read_text()
    found = page[page.index('"y":') :]
    assert len(found[: found.index("]")].split(",")) == 17520


def test_what_samples_are_good_for_is_what_they_turn_out_to_be_good_for() -> None:
    """The rank correlation that a forecast names is that of a long record with the noise that is really drawn."""
    import numpy as np

    from oboro.dynamics.signal import mean_scale, rank_correlation
    from oboro.noise import Bits

    made = ob.dynamics.plan("identity", unit=ob.Unit.signal("0.2"), horizon=19_999, eps=1, delta="1e-3")
    truth = np.random.default_rng(7).normal(size=20_000)
    drawn = made.outputs(made.measure(made.prepare(truth), Bits()))[:, 0]
    ranks = [np.argsort(np.argsort(values)) for values in (truth, drawn)]
    told = rank_correlation(1.5, float(made.scale))
    assert abs(float(np.corrcoef(*ranks)[0, 1]) - told) < 0.03  # five standard errors
    means = np.abs((drawn - truth).reshape(-1, 100).mean(axis=1))
    size = float(np.median(means)) / mean_scale(made, 100)
    assert 0.7 < size / 0.9690 < 1.4  # the median of |stable 1.5|
