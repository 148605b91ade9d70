"""`oboro table` as a user types it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from oboro.cli import main

Command = Callable[[str], tuple[int, str, str]]

RELEASE = "table release cells.parquet --domain city.toml --count people --eps 0.5 --ledger city.ledger"


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with a small city and a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    rng = np.random.default_rng(4)
    row, col = np.divmod(rng.permutation(1024)[:300], 32)
    pq.write_table(
        pa.table({"row": row, "col": col, "people": rng.integers(1, 900, 300)}), tmp_path / "cells.parquet"
    )
    ob.Domain([ob.Grid("row", "col", shape=(32, 32))]).to_toml(tmp_path / "city.toml")
    ob.Ledger.create(tmp_path / "city.ledger", dataset="city", unit=ob.Unit.cells(), budget=ob.Pure(1))

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    return command


def test_the_whole_way(oboro: Command, tmp_path: Path) -> None:
    code, out, _ = oboro("table check cells.parquet --domain city.toml --count people")
    assert code == 0
    assert "steward" in out
    code, out, _ = oboro(
        "table forecast --domain city.toml --eps 0.5 --strategy tree --expected-total 100000"
    )
    assert code == 0
    assert "4 x 4 of row,col" in out
    assert "generated city" in out
    code, out, _ = oboro("table forecast --domain city.toml --eps 0.5 --strategy adaptive --expected-n 70000")
    assert out.count("the figures are for about") == out.count("for about 70,000 people") == 1
    code, out, _ = oboro(f"{RELEASE} --name first -o published.parquet")
    assert code == 0
    assert "remaining  eps = 0.5" in out
    published = pq.read_table(tmp_path / "published.parquet")
    assert published.column_names == ["row", "col", "people", "estimate"]
    assert min(published.column("people").to_pylist()) > 0
    assert oboro("certificate verify published.parquet.certificate.json")[0] == 0
    code, out, _ = oboro("table map published.parquet --domain city.toml -o map.html")
    assert code == 0
    assert (tmp_path / "map.html").stat().st_size > 10_000


def test_a_dry_run_spends_nothing_and_json_is_json(oboro: Command) -> None:
    code, out, _ = oboro(f"{RELEASE} --dry-run --json")
    assert code == 0
    assert json.loads(out)["dry_run"] is True
    code, out, _ = oboro("table check cells.parquet --domain city.toml --count people --json")
    assert json.loads(out)["problems"][0] == {"problem": "records", "records": 300}
    code, out, _ = oboro("table forecast --domain city.toml --eps 1 --expected-total 5 --json")
    assert json.loads(out)["forecast"]["columns"][0] == "block size"
    assert ob.Ledger.open("city.ledger").remaining == ob.Pure(1)


def test_compare_is_for_public_data(oboro: Command) -> None:
    code, out, _ = oboro(
        "table compare cells.parquet --domain city.toml --count people --eps 0.5 --strategy wavelet --strategy laplace"
    )
    assert code == 0
    assert "public data only" in out
    assert "negative" in out


def test_an_internal_page_says_so(oboro: Command, tmp_path: Path) -> None:
    assert oboro(f"{RELEASE} -o published.csv")[0] == 0
    line = "table map published.csv --domain city.toml -o inside.html --internal cells.parquet --count people --eps 0.1 --eps 1"
    code, out, _ = oboro(line)
    assert code == 0
    assert "NEVER PUBLISH" in out
    assert ob.Ledger.open("city.ledger").remaining == ob.Pure("0.5")
    assert oboro("table map published.csv --domain city.toml -o map.html --eps 1")[0] == 4


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (RELEASE.replace("0.5", "0"), 4, "positive"),
        (RELEASE.replace("0.5", "x"), 4, "number"),
        (RELEASE.replace("0.5", "3"), 3, "budget"),
        (RELEASE.replace("people", "nobody"), 4, "no column"),
        (RELEASE.replace("cells.parquet", "nowhere.parquet"), 4, "no such file"),
        (RELEASE.replace("city.toml", "nowhere.toml"), 4, "no such file"),
        (f"{RELEASE} --strategy magic", 4, "strategy"),
        (f"{RELEASE} --strategy matrix", 4, "too large"),
        (f"{RELEASE} --possible nowhere.csv", 4, "no such file"),
        (f"{RELEASE} --total 5", 4, "total"),
        (f"{RELEASE} -o out.docx", 4, "type"),
        ("table map city.toml --domain city.toml -o map.html", 4, "type"),
    ],
)
def test_what_is_refused_spends_nothing_and_shows_no_traceback(
    oboro: Command, line: str, code: int, words: str
) -> None:
    found, out, err = oboro(line)
    assert found == code
    assert words in err
    assert "Traceback" not in out + err
    assert ob.Ledger.open("city.ledger").remaining == ob.Pure(1)


def test_a_mask_file_keeps_the_sea_empty(oboro: Command, tmp_path: Path) -> None:
    (tmp_path / "land.csv").write_text(
        "row,col\n" + "".join(f"{r},{c}\n" for r in range(16) for c in range(32))
    )
    assert oboro(f"{RELEASE} --possible land.csv -o published.parquet")[0] == 0
    assert max(pq.read_table(tmp_path / "published.parquet").column("row").to_pylist()) < 16


@pytest.mark.parametrize("also", ["", " --json", " --dry-run", " --dry-run --json", " -o mesh.parquet"])
def test_a_release_forecasts_and_prices_once(
    oboro: Command, monkeypatch: pytest.MonkeyPatch, also: str
) -> None:
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(ob.tables.TablePlan, "forecast")
    count(sys.modules["oboro.release.run"], "price")
    code, out, err = oboro(RELEASE + also)
    assert code == 0
    assert calls == {"forecast": 1, "price": 1}
    shown = out if "--dry-run" in also else err
    assert ("expected error" in shown) == ("--dry-run" in also or "--json" not in also)
