"""What DuckDB can reach: the file that was named, and nothing else."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from oboro.domain import Column, Integer, Real
from oboro.engine import open_data
from oboro.engine.codes import code_sql
from oboro.errors import DataError

NAMES = [
    "plain",
    "a*",
    "b?",
    "c[1]",
    "c[*]",
    "it's",
    "e,f",
    '"',
    "{g,h}",
    "m n",
    "朧",
    "n\\o",
    "%41",
    "~",
    "#?=",
    "-",
]


def write(path: Path, value: int) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"x": [value]}), path)
    elif path.suffix == ".arrow":
        feather.write_feather(pa.table({"x": [value]}), str(path))
    else:
        text = f"x\n{value}\n".encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def values(data: Any) -> list[int]:
    source = open_data(data)
    return [int(row[0]) for row in source.connection.execute(f"SELECT x FROM {source.relation}").fetchall()]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".arrow"])
@pytest.mark.few(2, "names of files")
def test_a_name_with_signs_of_a_pattern_is_that_file(tmp_path: Path, ending: str) -> None:
    files = {name: write(tmp_path / f"{name}{ending}", i) for i, name in enumerate(NAMES)}
    for other in ("aa", "bb", "c1", "g"):  # what the patterns would find
        write(tmp_path / f"{other}{ending}", 99)
    assert {name: values(file) for name, file in files.items()} == {name: [i] for i, name in enumerate(NAMES)}


@pytest.mark.parametrize("folder", ["d*", "s3:", "http:", "file:", "a=1"])
def test_so_is_a_folder(tmp_path: Path, monkeypatch: Any, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / "dd").mkdir()
    write(tmp_path / "dd" / "x.csv", 99)
    write(tmp_path / folder / "x.csv", 1)
    monkeypatch.chdir(tmp_path)
    assert values(f"{folder}/x.csv") == [1]
    assert open_data(f"{folder}//x.csv").types == {
        "x": "VARCHAR"
    }  # a file beside us, even if it looks like an address


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/x.parquet",
        "http://127.0.0.1:9/x.csv",
        "https://example.org/x.parquet",
        "file:///etc/passwd.csv",
        "hf://a.csv",
    ],
)
def test_addresses_are_not_files(address: str) -> None:
    with pytest.raises(DataError, match="no such file"):
        open_data(address)


def outside(tmp_path: Path) -> list[str]:
    """Queries that reach for something else."""
    other = write(tmp_path / "other.csv", 7)
    return [
        f"SELECT * FROM read_csv('{other}')",
        f"SELECT * FROM '{other}'",
        f"SELECT * FROM read_csv(['{tmp_path}/mine.csv', '{other}'])",
        f"SELECT * FROM read_csv('{tmp_path}/*.csv')",
        f"SELECT content FROM read_text('{other}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        "SELECT * FROM 'http://127.0.0.1:9/x.csv'",
        f"COPY (SELECT 1) TO '{tmp_path}/written.csv'",
        f"EXPORT DATABASE '{tmp_path}/written'",
        f"ATTACH '{tmp_path}/written.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT INET '127.0.0.1'",
        "SELECT * FROM hidden",  # a variable of this program
        "SET enable_external_access = true",
        f"SET allowed_paths = ['{other}']",
        f"SET allowed_directories = ['{tmp_path}']",
        "SET autoload_known_extensions = true",
        "SET python_enable_replacements = true",
        f"SET temp_directory = '{tmp_path}'",
        f"SET log_query_path = '{tmp_path}/written.log'",
        "SET lock_configuration = false",
        "SET allowed_configs = ['threads']",
        "CREATE PERSISTENT SECRET one (TYPE http)",
    ]


@pytest.mark.parametrize("kind", ["mine.csv", "mine.parquet", "mine.arrow", "table"])
def test_nothing_else_is_open(tmp_path: Path, kind: str) -> None:
    hidden = pa.table({"x": [1]})
    data = hidden if kind == "table" else write(tmp_path / kind, 5)
    source = open_data(data)
    before = sorted(os.listdir(tmp_path / ".."))
    for query in outside(tmp_path):
        with pytest.raises(DataError):
            source.connection.execute(query).fetchall()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("written")]
    assert sorted(os.listdir(tmp_path / "..")) == before
    assert len(source.connection.execute(f"SELECT x FROM {source.relation}").fetchall()) == 1


def test_those_queries_work_where_nothing_is_closed(tmp_path: Path) -> None:
    """So that the test above would see an open door."""
    connection, hidden = duckdb.connect(), pa.table({"x": [1]})
    write(tmp_path / "mine.csv", 5)
    connection.execute(f"SET home_directory = '{tmp_path}'")
    local = [q for q in outside(tmp_path) if not any(word in q for word in ("http", "INET", "SET"))]
    for query in local:
        connection.execute(query).fetchall()
    assert hidden.num_rows == 1
    assert len(local) == 10


def test_the_home_folder_is_not_looked_at(tmp_path: Path) -> None:
    secrets = tmp_path / ".duckdb" / "stored_secrets"
    secrets.mkdir(parents=True)
    (secrets / "one.duckdb_secret").write_bytes(b"not a secret")
    (tmp_path / ".duckdbrc").write_text("SELECT * FROM nowhere;")
    file = write(tmp_path / "mine.csv", 5)
    code = (
        "import sys; from oboro.engine import open_data; s = open_data(sys.argv[1]);"
        "print(s.connection.execute('SELECT * FROM duckdb_secrets()').fetchall())"
    )
    made = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == "[]"
    assert sorted(os.listdir(tmp_path / ".duckdb")) == ["stored_secrets"]


def test_what_does_not_fit_into_memory_still_goes_to_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = open_data(pa.table({"x": [1]}))
    (folder,) = tmp_path.iterdir()
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    source.connection.execute("CREATE TEMP TABLE big AS SELECT md5(i::VARCHAR) AS s FROM range(1000) t(i)")
    setting = source.connection.execute("SELECT current_setting('temp_directory')").fetchone()[0]
    assert setting == str(folder)
    del source
    assert list(tmp_path.iterdir()) == []


def test_a_relation_of_ones_own_connection_is_taken_over_as_it_stands(tmp_path: Path) -> None:
    own = duckdb.connect()
    write(tmp_path / "one.csv", 1)
    own.execute(f"CREATE VIEW both_files AS SELECT * FROM read_csv('{tmp_path}/*.csv')")
    source = open_data(own.sql("SELECT * FROM both_files"))
    write(tmp_path / "two.csv", 2)  # comes too late
    assert source.connection.execute(f"SELECT x FROM {source.relation}").fetchall() == [(1,)]
    with pytest.raises(DataError):
        source.connection.execute("SELECT * FROM both_files")


def test_order_can_still_be_asked_for() -> None:
    source = open_data(pa.table({"x": list(range(10))}))
    source.connection.execute("SET preserve_insertion_order = true")
    assert [row[0] for row in source.connection.execute("SELECT x FROM given").fetchall()] == list(range(10))


def coded(data: Any, column: Column, condition: str = "TRUE") -> list[int | None]:
    source = open_data(data)
    found = source.connection.execute(
        f"SELECT {code_sql(column, source.types['x'])} AS code FROM {source.relation} WHERE {condition} ORDER BY code"
    )
    return [row[0] for row in found.fetchall()]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("column", [Real("x", 0, 20, "0.5"), Integer("x", 0, 20)])
@pytest.mark.parametrize(
    "others", [[0.5, 0.6], [5.0], [25.0, 5.0], [-3.0, 0.5], [float("inf"), 1.0], [-0.0, 0.0]]
)
@pytest.mark.few(8, "files that state their values")
def test_what_a_file_states_of_its_values_decides_nothing(
    tmp_path: Path, column: Column, others: list[float], kind: Any
) -> None:
    """The least and largest values of a Parquet file leave NaN out. DuckDB took them for those of all rows."""
    rows = pa.table({"x": pa.array(np.array([*others, float("nan"), 1.0], np.float64)).cast(kind)})
    path = tmp_path / "x.parquet"
    pq.write_table(rows, path, row_group_size=2)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).is_stats_set
    code = code_sql(column, open_data(path).types["x"])
    for condition in ("TRUE", f"{code} > 3"):
        assert coded(path, column, condition) == coded(rows, column, condition)
