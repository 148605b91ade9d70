"""The command line as the guide types it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from synth_people import people

import oboro as ob
from oboro.cli import main
from oboro.domain import Category, Date, Domain

Command = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(people(1500), tmp_path / "data.csv")

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    return command


def test_a_draft_marks_what_few_rows_hold(oboro: Command, tmp_path: Path) -> None:
    rows = ["north,2020-03-05"] * 30 + ['"say ""hm""",2021-07-09'] * 9 + ["east,2020-03-05"] * 10
    (tmp_path / "few.csv").write_text("region,day\n" + "\n".join(rows) + "\n")
    code, out, _ = oboro("synth draft few.csv -o few.toml")
    text = (tmp_path / "few.toml").read_text()
    assert code == 0
    assert "NOT PRIVATE" in out
    assert "marked RARE, held by fewer than 10 rows: 1 in all" in out
    assert "# NOT PRIVATE" in text
    assert next(line for line in text.splitlines() if "# RARE" in line).startswith('    "say \\"hm\\"",  #')
    assert text.count("# RARE") == 1
    drafted = Domain.from_toml(tmp_path / "few.toml")
    assert drafted.columns[0] == Category("region", ["east", "north", 'say "hm"'])
    assert drafted.columns[1] == Date("day", "2020-01-01", "2021-12-31")  # not the days themselves


def test_the_whole_way(oboro: Command, tmp_path: Path) -> None:
    code, out, _ = oboro("synth draft data.csv -o domain.toml")
    assert code == 0
    assert "not private" in out
    assert (tmp_path / "domain.toml").read_text().startswith("# A draft")
    assert oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")[0] == 0
    spend = (
        "synth release data.csv --domain domain.toml --eps 4 --delta 1e-6 --ledger l.ledger -o model.oboro"
    )
    code, out, err = oboro(spend)
    assert code == 0, err
    assert "n = 1,500 rows, counted" in err
    assert "remaining  eps = 5" in out
    assert oboro("synth sample model.oboro -n 1000 -o synthetic.parquet")[0] == 0
    made = pq.read_table(tmp_path / "synthetic.parquet")
    assert made.num_rows == 1000
    assert made.column_names == people(1).column_names
    code, out, err = oboro(
        "synth sample model.oboro -n 50 --where sex=F --where age=30:40 --where region=north,east -o some.csv"
    )
    assert code == 0, err
    raw = (tmp_path / "some.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")  # Excel reads it as UTF-8
    assert set(csv.read_csv(tmp_path / "some.csv")["sex"].to_pylist()) == {"F"}
    code, out, err = oboro("synth report data.csv synthetic.parquet -o quality.html --model model.oboro")
    assert code == 0, err
    assert "INTERNAL" in out
    assert "eps = 4" in (tmp_path / "quality.html").read_text(encoding="utf-8")
    code, out, _ = oboro(f"{spend.replace('model.oboro', 'again.oboro')} --dry-run --n 1500")
    assert code == 0
    assert "nothing was spent" in out
    code, out, err = oboro(f"{spend.replace('model.oboro', 'second.oboro')} --json")
    assert json.loads(out)["remaining"]["eps"] == "1", err
    assert oboro(spend)[0] == 3


def test_records_forecasts_and_accounts(oboro: Command, tmp_path: Path) -> None:
    ob.Domain([ob.Integer("age", 0, 120), ob.Integer("amount", 0, 99_999)]).to_toml(tmp_path / "d.toml")
    assert oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")[0] == 0
    code, out, err = oboro(
        "synth release data.csv --domain d.toml --eps 3 --delta 1e-5 --method gaussian --records 100 --ledger l.ledger -o r.csv"
    )
    assert code == 0, err
    assert csv.read_csv(tmp_path / "r.csv").num_rows == 100
    assert oboro("certificate verify r.csv.certificate.json")[1].startswith("valid")
    code, out, _ = oboro("synth forecast --domain d.toml --eps 1 --delta 1e-6 --unit row --save-plan p.toml")
    assert code == 0
    assert "95% within" in out
    code, out, _ = oboro("synth account --n 1e7 --dims 6 --min-eigenvalue 0.01 --records 1e7 --delta 1e-5")
    assert code == 0
    assert "2.344741" in out
    assert (
        json.loads(oboro("synth account --n 1e7 --dims 6 --ridge 0.01 --records 1e7 --delta 1e-5 --json")[1])[
            "assumption"
        ]
        is None
    )
    for name in ("miura-table1", "miura-table2", "miura-fig2"):
        code, out, _ = oboro(f"reproduce {name}")
        assert code == 0
        assert "the paper errs" in out


@pytest.mark.parametrize(
    "line",
    [
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.zip",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o nowhere/model.oboro",
        "synth release data.csv --domain d.toml --eps 1 --ledger l.ledger -o model.oboro",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro --dry-run",
        "synth release data.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro --method best",
        "synth release absent.csv --domain d.toml --eps 1 --delta 1e-6 --ledger l.ledger -o model.oboro",
        "synth sample absent.oboro -n 10 -o s.parquet",
        "synth sample absent.oboro -n 10 -o s.xlsx",
        "synth account --n 1e7 --dims 6 --records 1e7 --delta 1e-5",
        "synth account --n 1e7 --dims 6 --records 1e7 --delta 0 --ridge 0.1",
    ],
)
def test_what_public_facts_rule_out_is_refused_in_a_few_lines(
    oboro: Command, tmp_path: Path, line: str
) -> None:
    ob.Domain([ob.Integer("age", 0, 120)]).to_toml(tmp_path / "d.toml")
    oboro("ledger create l.ledger --dataset people --unit row,replace --eps 9 --delta 1e-4")
    code, out, err = oboro(line)
    assert code == 4, out
    assert "Traceback" not in err
    assert "eps = 9" in oboro("ledger show l.ledger")[1].split("remaining")[1].splitlines()[0]
