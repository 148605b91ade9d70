"""Quality: the figures are right on tables where they are known, and the page says that it is internal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from synth_people import people

import oboro as ob
from oboro.errors import DataError, ParameterError
from oboro.report.quality import write_quality


@pytest.mark.long("statistical tests")
def test_a_table_is_like_itself_and_unlike_another() -> None:
    real = people()
    same = ob.synth.quality(real, real)
    assert same.mean_one_way == same.mean_two_way == same.correlation_error == 0
    assert "behaves like the real one" in same.verdict
    assert same.near.copies > 0.4  # half of the rows are in both halves
    shuffled = pa.table(
        {name: np.random.default_rng(i).permutation(real[name]) for i, name in enumerate(real.column_names)}
    )
    mixed = ob.synth.quality(real, shuffled)
    assert mixed.mean_one_way == 0
    assert mixed.two_way[0, 1] > 0.3
    assert mixed.near.copies == 0
    assert same.useful is not None
    assert mixed.useful is not None
    assert mixed.useful.synthetic < same.useful.real - 0.1
    assert "steward" in str(same)
    assert same.to_dict()["private"] is True


def test_distances_are_total_variation() -> None:
    real = pa.table({"a": ["x"] * 80 + ["y"] * 20, "b": [None] * 10 + [1.0] * 90})
    made = pa.table({"a": ["x"] * 50 + ["y"] * 40 + ["z"] * 10, "b": [1.0] * 100})
    found = ob.synth.quality(real, made)
    assert found.one_way == pytest.approx((0.3, 0.1))
    assert found.useful is None


@pytest.mark.long("whole models")
def test_files_are_read_and_tables_that_share_nothing_refused(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("age,day,sex\n" + "30,2020-01-01,F\n40,2020-01-05,M\n" * 30)
    (tmp_path / "made.csv").write_text("age,day,sex\n" + "31,2020-01-02,F\n,2020-01-05,M\n" * 20)
    found = ob.synth.quality(tmp_path / "real.csv", tmp_path / "made.csv", target="sex")
    assert [column.numeric for column in found.columns] == [True, True, False]
    assert found.columns[1].labels[0] == "up to 2020-01-01"
    with pytest.raises(DataError):
        ob.synth.quality({"a": [1]}, {"b": [1]})
    with pytest.raises(ParameterError):
        ob.synth.quality(tmp_path / "real.csv", tmp_path / "made.csv", target="age")
    assert ob.synth.quality({"a": [1]}, {"a": [2]}).near.median >= 0  # one row is data too
    assert ob.synth.quality({"a": [], "b": []}, {"a": [1], "b": [2]}).rows == 0


@pytest.mark.long("whole pages")
def test_the_page_is_internal_whole_and_safe(tmp_path: Path) -> None:
    real = people(300)
    strange = real.rename_columns(["<script>alert(1)</script>", *real.column_names[1:]])
    write_quality(ob.synth.quality(strange, strange), tmp_path / "quality.html")
    page = (tmp_path / "quality.html").read_text(encoding="utf-8")
    assert "INTERNAL" in page
    assert "Content-Security-Policy" in page
    assert "<script>alert" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "makes no promise" in page
    write_quality(ob.synth.quality(real, real), tmp_path / "ja.html", language="ja")
    assert "合成データの品質" in (tmp_path / "ja.html").read_text(encoding="utf-8")
