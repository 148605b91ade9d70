"""What the audit, a histogram and the command line said that was not so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.audit import run as attack
from oboro.cli.main import main
from oboro.errors import DomainError
from oboro.release import Pair, Release

DOMAIN = ob.Domain([ob.Integer("age", 0, 3)])


class Telling:
    """Publishes as many zeros as there are rows."""

    kind = "review.telling"
    unit = ob.Unit.row()
    guarantee = ob.Pure(1)

    def prepare(self, data: list[int]) -> list[int]:
        return data

    def measure(self, prepared: list[int], bits: Any, trials: int | None = None) -> Any:
        return np.zeros((trials or 1, len(prepared)), int)

    def neighbours(self) -> Iterator[Pair]:
        yield Pair([1], [1, 2], "one row more")


def test_an_output_whose_size_depends_on_data_breaks_a_promise() -> None:
    assert attack(Telling(), 1000).verdict == "broken"  # type: ignore[arg-type]


def test_counts_have_a_column_of_their_own() -> None:
    names = ["noisy count", "count"]
    domain = ob.Domain(ob.Category(name, ["x", "y"]) for name in names)
    plan = ob.histogram_plan(domain, names, unit=ob.Unit.row(), eps=1)
    assert plan.publish(np.arange(4)).column_names == [*names, "noisy noisy count"]


def test_edges_of_a_column_that_is_not_counted_are_refused() -> None:
    with pytest.raises(DomainError):
        ob.histogram_plan(DOMAIN, "age", unit=ob.Unit.row(), eps=1, edges={"aeg": [0, 3]})


def test_a_release_that_cannot_be_written_is_not_reported_as_unspent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Release, path: Path) -> Path:
        raise ob.errors.DataError(f"{path} cannot be written", given="no space left")

    monkeypatch.setattr(Release, "save", full)
    DOMAIN.to_toml(tmp_path / "d.toml")
    (tmp_path / "p.csv").write_text("age\n1\n2\n")
    where = str(tmp_path / "a.ledger")
    ledger = ob.Ledger.create(where, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1))
    options = ["--domain", str(tmp_path / "d.toml"), "--column", "age", "--eps", "0.5", "--ledger", where]
    command = ["histogram", "release", str(tmp_path / "p.csv"), *options, "-o", str(tmp_path / "o.csv")]
    monkeypatch.setattr("sys.argv", ["oboro", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5  # paid for and stored
    assert f"oboro ledger fetch {where} --entry 1" in capsys.readouterr().err
    assert ledger.spent == ob.Pure("0.5")
