"""Quality: the figures are right on tables where they are known, and the page says that it is internal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synth_people import ledger_in, people

import oboro as ob
from oboro.errors import CertificateError, DataError, ParameterError
from oboro.release.plan import encoded
from oboro.report.quality import write_quality
from oboro.synth.codes import read_both
from oboro.synth.marks import write_records


@pytest.mark.long("statistical tests")
def test_a_table_is_like_itself_and_unlike_another() -> None:
    real = people()
    same = ob.synth.quality(real, real)
    assert same.mean_one_way == same.mean_two_way == same.correlation_error == 0
    assert same.copied
    assert same.near.copies == 1
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
    assert found.columns[1].labels[:2] == ("2020-01-01", "below 2020-01-05")
    with pytest.raises(DataError):
        ob.synth.quality({"a": [1]}, {"b": [1]})
    with pytest.raises(ParameterError):
        ob.synth.quality(tmp_path / "real.csv", tmp_path / "made.csv", target="age")
    assert ob.synth.quality({"a": [1]}, {"a": [2]}).near.median >= 0  # one row is data too
    with pytest.raises(DataError, match="the real table has no rows"):
        ob.synth.quality({"a": [], "b": []}, {"a": [1], "b": [2]})


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


def test_rows_stay_whole_however_long_a_table_is(tmp_path: Path) -> None:
    """Columns are read one by one, by several threads: a row stands at the same place in each."""
    some = np.random.default_rng(0).integers(0, 1000, 400_000)
    table = pa.table({"a": some, "b": some, "c": np.where(some > 500, "x", "y")})
    pq.write_table(table, tmp_path / "long.parquet", row_group_size=20_000)
    for _ in range(3):
        first, second, third = read_both(tmp_path / "long.parquet", table.slice(0, 10)).columns
        assert np.array_equal(first.real, second.real)
        assert np.array_equal(first.real > 500, third.real == third.labels.index("x"))


def test_columns_that_are_not_compared_are_named() -> None:
    found = ob.synth.quality({"a": [1, 2], "b": [1, 2]}, {"a": [1, 2], "c": [1, 2]})
    assert (found.only_real, found.only_synthetic) == (("b",), ("c",))
    assert "Not compared, because the synthetic table lacks them: b" in str(found)
    assert "Not compared, because the real table lacks them: c" in str(found)
    assert "columns compared     a\n" in str(found)


def test_a_synthetic_table_without_rows_is_refused() -> None:
    with pytest.raises(DataError, match="no rows"):
        ob.synth.quality({"a": [1]}, {"a": pa.array([], pa.int64())})


@pytest.mark.parametrize(
    ("values", "numeric"),
    [
        (["01", "04", "13"], False),
        (["1", "4", "13.5"], True),
        (["2013-10-22", "2014-01-05"], True),
        (["2013/10/22", "2014/01/05"], False),  # a release does not read them either
        (["1_000", "2_000"], False),
        (["0", "0.5", "-0.25"], True),
    ],
)
def test_texts_are_numbers_where_a_release_reads_them_so(values: list[str], numeric: bool) -> None:
    assert read_both({"a": values}, {"a": values}).columns[0].numeric is numeric


def test_a_domain_says_which_columns_hold_labels() -> None:
    domain = ob.Domain([ob.Category("code", [1, 2, 13]), ob.Integer("n", 0, 9)])
    real = {"code": ["1.0", "2", "13", "99"], "n": ["1", "2", "x", "3"]}
    code, n = read_both(real, {"code": [1, 2, 13], "n": [1, 2, 3]}, domain).columns
    assert not code.numeric
    assert set(code.labels) == {"1", "2", "13", "99", "missing"}
    assert n.numeric
    assert np.isnan(n.real[2])


def test_records_say_under_which_condition_they_were_drawn_and_from_which_model(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Category("code", [1, 2, 13]), ob.Category("sex", ["F", "M"])])
    real = {"code": [1, 2, 13, 13] * 50, "sex": ["F", "M"] * 100}
    ledger = ledger_in(tmp_path)
    models = []
    for eps in (1, 2):
        plan = ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=200, eps=eps, method="marginals")
        models.append(ob.synth.release(real, plan, ledger=ledger))
    table = models[0].sample(100, {"sex": "F"})
    write_records(table, tmp_path / "f.csv")
    pq.write_table(table, tmp_path / "f.parquet")
    write_records(table, tmp_path / "f.arrow")
    for made in (table, *(tmp_path / f"f.{ending}" for ending in ("csv", "parquet", "arrow"))):
        found = ob.synth.quality(real, made)
        assert found.where == {"sex": ["F"]}
        assert "Drawn under a condition, and compared with all real rows: sex = F" in str(found)
        assert not found.columns[0].numeric  # by the domain that the mark tells
        assert ob.synth.quality(real, made, model=models[0]).unmarked is False
        with pytest.raises(CertificateError, match="drawn from another model"):
            ob.synth.quality(real, made, model=models[1].save(tmp_path / "other.oboro"))
    bare = table.replace_schema_metadata(None)
    assert ob.synth.quality(real, bare).columns[0].numeric
    told = ob.synth.quality(real, bare, model=models[0])
    assert not told.columns[0].numeric
    assert told.correlated == ("sex",)
    assert "Nothing in these records says that they were drawn from the model" in told.cautions


@pytest.mark.long("reports of marked records")
def test_real_rows_beside_the_mark_of_drawn_ones_are_not_said_to_be_drawn(tmp_path: Path) -> None:
    domain = ob.Domain([ob.Integer("n", 0, 9), ob.Category("sex", ["F", "M"])])
    real = pa.table({"n": [*range(10)] * 20, "sex": ["F", "M"] * 100})
    plan = ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=200, eps=1, method="marginals")
    model = ob.synth.release(real, plan, ledger=ledger_in(tmp_path))
    drawn = model.sample(200)
    caution = "These records are not those that their mark was written for"
    forged: list[pa.Table | Path] = []
    for ending in (".parquet", ".arrow", ".csv"):
        path, other = tmp_path / f"made{ending}", real
        write_records(drawn, path)
        assert not ob.synth.quality(real, path, model=model).changed
        if ending != ".csv":  # their mark is within
            schema = pq.read_schema(path) if ending == ".parquet" else pa.ipc.open_file(path).schema
            other = real.replace_schema_metadata(schema.metadata)
            forged.append(other)
        path.write_bytes(encoded(other, ending))
        forged.append(path)
    for made in forged:
        for given in (model, None):
            found = ob.synth.quality(real, made, model=given)
            assert found.changed
            assert any(one.startswith(caution) for one in found.cautions)
            assert found.certificate is None
    # of a mark without a hash the model tells
    assert not ob.synth.quality(real, drawn, model=model).changed
    assert ob.synth.quality(real, real.replace_schema_metadata(drawn.schema.metadata), model=model).changed
    assert ob.synth.quality(real, drawn.slice(0, 100)).changed


def test_the_promise_is_that_of_the_release_which_records_name_and_their_place_is_the_second(
    tmp_path: Path,
) -> None:
    domain = ob.Domain([ob.Integer("n", 0, 9), ob.Category("sex", ["F", "M"])])
    pq.write_table(pa.table({"n": [*range(10)] * 20, "sex": ["F", "M"] * 100}), tmp_path / "real.parquet")
    real = tmp_path / "real.parquet"
    ledger = ledger_in(tmp_path)
    plan = ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=200, eps=1, method="marginals")
    table = ob.synth.release(real, plan, ledger=ledger).sample(100)
    for ending in ("parquet", "arrow", "csv"):
        made = tmp_path / f"made.{ending}"
        write_records(table, made)
        found = ob.synth.quality(real, made)
        assert found.certificate is not None
        write_quality(found, tmp_path / "q.html")
        page = (tmp_path / "q.html").read_text(encoding="utf-8")
        assert f"<h1>{ledger.dataset}</h1>" in page
        assert "makes no promise" not in page
        assert "The promise" in page
        assert "is proved by oboro synth check" in page
        with pytest.raises(ParameterError, match="the real table comes first") as refused:
            ob.synth.quality(made, real)
        assert refused.value.fix == f'data="{real}", synthetic="{made}"'
        assert ob.synth.quality(made, made).rows == 100  # as for whoever learns from synthetic records
    with pytest.raises(ParameterError, match="the real table comes first"):
        ob.synth.quality(table, real)
    forged = table.replace_schema_metadata(
        {
            key: value.replace(b'"dataset": "', b'"dataset": "not ')
            for key, value in table.schema.metadata.items()
        }
    )
    assert ob.synth.quality(real, forged).certificate is None


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.null()])
def test_a_column_with_no_values_is_compared(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3, 4], "b": pa.array([None] * 4, kind), "c": ["x", "y", "x", "y"]})
    found = ob.synth.quality(table, table)
    assert found.one_way == (0.0, 0.0, 0.0)
    assert np.isnan(found.columns[1].real).all()
    (tmp_path / "n.csv").write_text("a,b,c\n1,,x\n2,,y\n3,,x\n4,,y\n")
    found = ob.synth.quality(tmp_path / "n.csv", table)
    assert found.one_way == (0.0, 0.0, 0.0)
    write_quality(found, tmp_path / "n.html")
    some = table.set_column(1, "b", pa.array(["p", None, "q", None]))
    assert ob.synth.quality(table, some).one_way == (0.0, 0.5, 0.0)


def test_bins_of_numbers_hold_equally_many_real_rows_but_for_what_fills_one_or_lies_beyond() -> None:
    real = [0] * 100 + list(range(1, 101))
    column = read_both({"a": real}, {"a": [-5, 0.5, 100, 101, 3, None]}).columns[0]
    assert column.labels[:2] == ("below 0", "0")
    assert column.labels[-3:] == ("up to 100", "above 100", "missing")
    counts = np.bincount(column.real_bins).tolist()
    assert counts[:2] == [0, 100]
    assert all(9 <= count <= 11 for count in counts[2:])
    first = column.labels[2]
    assert [column.labels[place] for place in column.synthetic_bins] == [
        "below 0",
        first,
        "up to 100",
        "above 100",
        first,
        "missing",
    ]
    same = read_both({"a": real}, {"a": real}).columns[0]
    assert same.labels[0] == "0"  # what is empty in both is left out
    assert same.labels[-2:] == ("up to 100", "missing")


@pytest.mark.few(1, "numbers of any size")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 1e308, -1e308, 1.7e308, 5e-324])
def test_numbers_of_any_size_are_compared_in_silence(odd: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    one = rng.normal(size=200)
    two = one + rng.normal(size=200)
    label = np.where(two > 0, "y", "n")
    usual = pa.table({"one": one, "two": two, "label": label})
    some = np.where(np.arange(200) % 50 == 0, odd, one)
    both = np.where(np.arange(200) % 50 == 1, -1.7e308, some)
    tables = [usual] + [pa.table({"one": values, "two": two, "label": label}) for values in (some, both)]
    for real in tables:
        for made in tables:
            found = ob.synth.quality(real, made)
            assert np.isfinite(found.correlation).all()
            assert np.isfinite(found.near.distances).all()
            moved = found.worst_mean
            assert moved is None or np.isfinite([moved.real, moved.synthetic, moved.beyond]).all()
            write_quality(found, tmp_path / "q.html")
    if not np.isfinite(odd):  # is missing
        known = np.arange(200) % 50 != 0
        expected = np.corrcoef(one[known], two[known])[0, 1]
        assert ob.synth.quality(tables[1], usual).correlation[0, 1] == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_correlation_does_not_depend_on_the_scale(scale: float) -> None:
    rng = np.random.default_rng(3)
    one = rng.normal(size=300)
    two = one + rng.normal(size=300)
    found = ob.synth.quality(table := pa.table({"one": one * scale, "two": two * scale}), table)
    assert found.correlation[0, 1] == pytest.approx(np.corrcoef(one, two)[0, 1])


@pytest.mark.filterwarnings("error")
def test_a_correlation_that_cannot_be_computed_is_left_out(tmp_path: Path) -> None:
    x, gaps = list(range(20)), [None] * 10
    made = pa.table({"x": x, "y": x, "same": x, "first": [*x[:10], *gaps], "last": [*gaps, *x[:10]]})
    real = made.set_column(2, "same", pa.array([0.1] * 20))
    found = ob.synth.quality(real, made)
    assert found.correlated == ("x", "y", "first", "last")
    assert np.isnan(found.correlation[2, 3])
    assert np.isnan(found.synthetic_correlation[2, 3])
    assert found.correlation_error == 0
    assert "same" not in str(found.worst_correlation)
    write_quality(found, tmp_path / "q.html")
    assert "nan" not in (tmp_path / "q.html").read_text(encoding="utf-8").partition("<main")[2].lower()
    # real columns that belong together, and one that no longer varies: that is lost
    changed = ob.synth.quality(made.select(["x", "y"]), real.select(["x"]).append_column("y", real["same"]))
    assert changed.worst_correlation is not None
    assert changed.worst_correlation.distance == pytest.approx(1)
    alone = ob.synth.quality(real.select(["x", "same"]), made.select(["x", "same"]))
    assert alone.worst_correlation is None
    assert alone.to_dict()["worst_correlation"] is None


@pytest.mark.parametrize("known", ["neither", "real", "synthetic"])
def test_a_column_of_which_nothing_is_known_teaches_nothing(known: str) -> None:
    rng = np.random.default_rng(3)
    tables = [
        {
            "a": rng.normal(size=200),
            "empty": np.full(200, np.nan) if known != which else rng.normal(size=200),
            "endless": np.full(200, np.inf),
            "g": np.where(rng.random(200) < 0.5, "f", "m"),
        }
        for which in ("real", "synthetic")
    ]
    found = ob.synth.quality(*tables)
    assert found.useful is not None
    assert str(found)
