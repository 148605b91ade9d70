"""Apache Spark gives the integers of DuckDB and of Python; nothing of it depends on a value but those integers.

Needs Java and the extra `spark`: `make test-spark` makes an environment of its own for it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from engine.conformance import AGE, COLUMNS, DOMAIN, answers, differences, expected, nasty, sorted_cells
from oboro.engine import add_up, cluster, count_cells, count_units, expressions, open_data, stream_codes
from oboro.engine.protocol import in_order
from oboro.errors import DataError, UnitError
from oboro.privacy import Unit
from oboro.release import Pair

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:.*pandas.*:FutureWarning"),
]
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "Asia/Tokyo",  # a cluster's own settings must not show
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.ansi.enabled": "false",
}
FEW = (
    Unit.row(),
    Unit.person("who", 3),
    Unit.person("nearly", 1),
    Unit.person("exact", 200),
    Unit.person("parted", 2),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config(
        "spark.sql.warehouse.dir", str(folder / "warehouse")
    )
    for name, value in QUIET.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    yield made
    made.stop()


def written(table: pa.Table, folder: Path, name: str = "nasty") -> str:
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=max(100, table.num_rows // 4))
    return str(path)


def test_spark_answers_a_session(session: Any, folder: Path) -> None:
    path = written(pa.table({"x": [1, 2, 300, None], "name": ["a", "a", "a", "b"]}), folder, "smoke")
    source = ob.engine.spark(session).parquet(path)
    assert add_up(source, [AGE], [(), (0,)], Unit.person("name", 2)) == add_up(
        open_data(path), [AGE], [(), (0,)], Unit.person("name", 2)
    )
    ledger = ob.Ledger.create(folder / "smoke.ledger", dataset="smoke", unit=Unit.row(), budget=ob.Pure(10))
    people = ob.Session(source, domain=ob.Domain([AGE]), ledger=ledger)
    release = people.sum("x", eps=5)
    assert source.engine in release.certificate.record["software"]
    assert source.engine.startswith("Spark 4")


@pytest.mark.long("Spark: conformance")
def test_spark_gives_the_integers_of_duckdb_and_of_python(session: Any, folder: Path) -> None:
    table = nasty(3000)
    found = dict(answers(ob.engine.spark(session).parquet(written(table, folder)), FEW))
    assert differences(iter(found.items()), expected(table, FEW)) == []
    assert differences(iter(found.items()), answers(open_data(table), FEW)) == []


@pytest.mark.long("Spark: conformance")
def test_a_million_rows_give_the_same_integers(session: Any, folder: Path) -> None:
    table, units = nasty(1_000_000, seed=2), (Unit.row(), Unit.person("named", 3))
    path = written(table, folder, "million")
    found = dict(answers(ob.engine.spark(session).parquet(path), units, check=False))
    assert differences(iter(found.items()), answers(open_data(path), units, check=False)) == []
    assert differences(iter(found.items()), expected(table, units[:1])) == []


@pytest.mark.long("Spark: conformance")
def test_days_that_python_has_not_are_clamped_alike(session: Any, folder: Path) -> None:
    """Years before 1 and after 9999, in dates and times, whatever calendar a cluster would rather read files by."""
    days = [-(10**6), -719163, -719162, -141428, -141427, -1, 0, 20484, 2932896, 2932897, 10**6 * 5, None]
    column = pa.array(days, pa.int32())
    times = pa.array([None if day is None else day * 86_400_000_000 - 1 for day in days], pa.int64())
    table = pa.table(
        {
            "day": column.cast(pa.date32()),
            "time": times.cast(pa.timestamp("us")),
            "zoned": times.cast(pa.timestamp("us", "UTC")),
        }
    )
    path = written(table, folder, "calendar")
    source = ob.engine.spark(session).parquet(path)
    for first, last in (
        ("0001-01-01", "9999-12-31"),
        ("1582-10-01", "1582-10-31"),
        ("1970-01-01", "2026-01-31"),
    ):
        start = (dt.date.fromisoformat(first) - dt.date(1970, 1, 1)).days
        for name, late in (("day", 0), ("time", 1), ("zoned", 1)):
            what = ob.Date(name, first, last)
            wanted = Counter(max(0, min(what.size - 1, d - late - start)) for d in days if d is not None)
            for engine in (source, open_data(path)):
                assert sorted_cells(count_cells(engine, [what], Unit.row())) == dict(
                    sorted(wanted.items())
                ), (
                    engine.engine,
                    what,
                )


@pytest.mark.long("Spark: conformance")
def test_a_collation_makes_no_two_texts_one(session: Any, folder: Path) -> None:
    """Persons, labels and numbers are compared byte by byte, whatever a column's collation calls the same."""
    from pyspark.sql import functions as f

    table = nasty(2000, seed=5).select(["named", "label", "number", "x"])
    path = written(table, folder, "collated")
    unit, columns = Unit.person("named", 2), [one for one in COLUMNS if one.name in ("label", "number")]
    for collation in ("UTF8_LCASE", "UNICODE_CI_AI", "UTF8_BINARY_RTRIM"):
        frame = session.read.parquet(path)
        for name in ("named", "label", "number"):
            frame = frame.withColumn(name, f.collate(name, collation))
        frame.write.saveAsTable("collated", mode="overwrite")
        source = ob.engine.spark(session).table("collated")
        assert "collate" in source.types["named"]
        for ask in (
            lambda s: count_units(s, unit),
            lambda s: add_up(s, [AGE], [(), (0,)], unit),
            lambda s: sorted_cells(count_cells(s, [DOMAIN["label"]], unit)),
            lambda s: sorted(np.concatenate(list(stream_codes(s, columns, Unit.row(), keep=True))).tolist()),
        ):
            assert ask(source) == ask(open_data(table)), collation


def test_folders_of_a_column_are_texts(session: Any, folder: Path) -> None:
    """Spark by itself would read 01 and 02 as numbers, unless one folder says otherwise: one person's value for all others'."""
    code = ob.Category("code", ["01", "02"])
    for name, some in (("numbers", ("01", "02")), ("and a text", ("01", "02", "x"))):
        for one in some:
            (folder / name / f"code={one}").mkdir(parents=True)
            pq.write_table(pa.table({"x": [1, 2, 3]}), folder / name / f"code={one}" / "part.parquet")
        source = ob.engine.spark(session).parquet(str(folder / name))
        assert source.types["code"] == "string"
        assert sorted_cells(count_cells(source, [code], Unit.row())) == {0: 3, 1: 3}


def test_spark_is_silent_as_long_as_any_thread_asks() -> None:
    logger = logging.getLogger("pyspark.sql.connect.logging")
    before, both, first_done = logger.level, threading.Barrier(2), threading.Event()
    seen = []

    def first() -> None:
        with cluster.in_words():
            both.wait()
        first_done.set()

    thread = threading.Thread(target=first)
    thread.start()
    with cluster.in_words():
        both.wait()
        first_done.wait()
        seen.append(logger.isEnabledFor(logging.CRITICAL))
    thread.join()
    assert seen == [False]
    assert logger.level == before


def one_of_each_kind() -> dict[str, Any]:
    """A sample of every kind whose worlds are tables: graphs, lists of numbers, signals and shares are read by no engine."""
    found: dict[str, Any] = {}
    for name, plan in ob.audit.samples().items():
        pair = next(iter(plan.neighbours()), None)
        if pair is not None and is_table(pair.one) and is_table(pair.other):
            found.setdefault(plan.kind, (name, plan, pair))
    return found


@pytest.mark.long("Spark: audit")
def test_a_sample_of_every_kind_holds_under_attack_on_spark(session: Any, folder: Path) -> None:
    """The audit's own attack, with worlds that lie in Spark; what it prepares there is also what DuckDB prepares.

    Two worlds of a few rows each go through the same `prepare` as a release. False alarm of all together below 1e-6.
    """
    engine, kinds, unordered = ob.engine.spark(session), one_of_each_kind(), set()
    for kind, (name, plan, pair) in kinds.items():
        tables = [
            world if isinstance(world, pa.Table) else open_data(world).table
            for world in (pair.one, pair.other)
        ]
        worlds = [engine.parquet(written(table, folder, f"world {i}")) for i, table in enumerate(tables)]
        if prepared(plan, worlds[0]) is None:
            unordered.add(kind)
            continue
        for table, world in zip(tables, worlds, strict=True):
            assert same(plan.prepare(world), plan.prepare(open_data(table))), name
        pairs = [Pair(*worlds, pair.why)]
        report = ob.audit.run(plan, 3000, pairs=pairs, alarm=1e-6 / len(kinds))
        assert report.verdict == "holds", f"{name}: {report}"
    assert len(kinds) >= 27
    assert unordered == {"statistics.sample_and_aggregate"}


@pytest.mark.long("Spark: audit")
def test_the_audit_on_spark_finds_what_is_not_bounded(
    session: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: all rows of a person are kept. A person with three rows, where one counts, is then told from nobody."""
    plan = ob.histogram_plan(ob.Domain([AGE]), "x", unit=Unit.person("who", 1), eps="0.5")
    tables = [pa.table({"x": [20] * n, "who": [7] * n}) for n in (3, 0)]
    tables = [table.cast(pa.schema([("x", pa.int64()), ("who", pa.int64())])) for table in tables]
    worlds = [
        ob.engine.spark(session).parquet(written(table, folder, f"unbounded {i}"))
        for i, table in enumerate(tables)
    ]
    pairs = [Pair(*worlds, "a person with three rows")]
    assert ob.audit.run(plan, 3000, pairs=pairs).verdict == "holds"
    monkeypatch.setattr(cluster, "_kept", lambda codes, rows, names, column, most: rows.select(*names))
    assert ob.audit.run(plan, 3000, pairs=pairs).verdict == "broken"


def is_table(world: Any) -> bool:
    columns = world.values() if isinstance(world, dict) else [world]
    return isinstance(world, pa.Table) or (
        isinstance(world, dict)
        and all(isinstance(name, str) for name in world)
        and all(isinstance(c, list) for c in columns)
    )


def prepared(plan: Any, source: Any) -> Any:
    """What reaches the noise; None where the rows need an order, which those of a cluster have not: a public fact."""
    try:
        return plan.prepare(source)
    except DataError as error:
        if "no order" in str(error):
            return None
        raise


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(np.sort(one, axis=0), np.sort(other, axis=0))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, part), getattr(other, part)) for part in one.__dataclass_fields__)
    return bool(one == other)


def test_nothing_of_spark_reaches_the_user_or_a_log(
    session: Any, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path(written(pa.table({"x": [4711], "name": ["secret"]}), folder, "gone"))
    source = ob.engine.spark(session).parquet(str(path))
    path.unlink()
    with caplog.at_level(logging.DEBUG), pytest.raises(DataError, match="could not answer") as raised:
        count_cells(source, [AGE], Unit.row())
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert "gone.parquet" not in str(raised.value) + caplog.text
    assert "Exception" not in "".join(capfd.readouterr())
    with pytest.raises(DataError, match="no such table: nowhere"):
        ob.engine.spark(session).table("nowhere")


def test_a_cluster_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"sc://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(DataError, match="does not answer"):
        ob.engine.spark(f"{address}/;token=secret")


def test_a_server_of_something_else_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection, but speaks neither TLS nor gRPC: Spark's client alone would try again for ten minutes."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    caller, _ = server.accept()
                    with caller, contextlib.suppress(OSError):  # gone already
                        caller.sendall(b"220 ready\r\n")

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DataError, match="does not answer\n"):
            ob.engine.spark(address)
        with pytest.raises(DataError, match="does not answer by TLS\n"):
            ob.engine.spark(f"{address}/;use_ssl=true")


def test_public_facts_are_refused_before_a_job_runs(session: Any, folder: Path) -> None:
    path = written(pa.table({"x": [1], "who": [1], "raw": pa.array([b"1"])}), folder, "public")
    source = ob.engine.spark(session).parquet(path)
    with pytest.raises(DataError, match="no column 'y'"):
        source.need("y")
    with pytest.raises(DataError, match="cannot be read safely"):
        source.need("raw")
    with pytest.raises(UnitError, match="at most 100,000"):
        count_units(source, Unit.person("who", 100_001))
    with pytest.raises(DataError, match="no order"):
        in_order(source)


@pytest.mark.long("Spark: planted faults")
def test_an_ansi_cast_is_caught(session: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: text is cast as Spark does by itself. A value then fails the job, and the answer depends on it."""
    source = ob.engine.spark(session).parquet(written(nasty(300), folder, "planted"))
    column = next(one for one in COLUMNS if one.name == "number" and isinstance(one, ob.Integer))
    assert count_cells(source, [column], Unit.row())[0].size
    monkeypatch.setattr(expressions.Codes, "number", lambda self, name: self.field(name).cast("double"))
    with pytest.raises(DataError):
        count_cells(source, [column], Unit.row())


@pytest.mark.long("Spark: planted faults")
def test_bounding_at_random_is_caught(session: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: which rows of a person are kept is drawn by rand()."""
    table, unit = nasty(2000), Unit.person("who", 3)
    source = ob.engine.spark(session).parquet(written(table, folder, "random"))
    wanted = add_up(open_data(table), [AGE], [(0,)], unit)
    assert add_up(source, [AGE], [(0,)], unit) == wanted
    drawn = lambda codes, rows, names, column: rows.withColumn("place", codes.functions.rand())  # noqa: E731
    monkeypatch.setattr(cluster, "_placed", drawn)
    assert add_up(source, [AGE], [(0,)], unit) != wanted


ELSEWHERE = """
import json, sys
import oboro as ob
from engine.conformance import AGE, answers, differences
from oboro.engine import open_data
address, path = sys.argv[1:]
if address.startswith("local"):
    from pyspark.sql import SparkSession
    builder = SparkSession.builder.master(address)
    for name, value in json.loads(sys.stdin.read()).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
else:
    session = address
units = [ob.Unit.person("named", 3)]
source = ob.engine.spark(session).parquet(path)
print(json.dumps(differences(answers(source, units), answers(open_data(path), units))), flush=True)
if not address.startswith("local"):
    source.frame.write.saveAsTable("people")
    from oboro.engine.cluster import ADDRESS
    source.frame.sparkSession.sql("CREATE VIEW failing AS SELECT cast(concat('4711-', x) AS int) AS x FROM people")
    for ask in (lambda s: s.count_cells([AGE], ob.Unit.row()), lambda s: s.check([AGE])):
        try:
            ask(ob.engine.spark(address).table("failing"))
        except ob.OboroError as error:
            assert "4711" not in str(error) and error.__cause__ is None
    print("failed in words", flush=True)
    plan = ob.tables.plan(ob.Domain([AGE]), unit=ob.Unit.row(), eps=1, strategy="wavelet")
    ledger = ob.Ledger.create("rows.ledger", dataset="rows", unit=ob.Unit.row(), budget=ob.Pure(1))
    try:
        ob.tables.release(source, plan, ledger=ledger, shared="/")
    except ob.OboroError as error:
        print("no tasks" if "no tasks are handed out" in str(error) else error, flush=True)
        settings = eval(f"dict({error.fix})")
    print(ob.tables.release(source, plan, ledger=ledger, **settings).to_arrow().column_names, flush=True)
    people = f"{ADDRESS}{address[5:]}/people"
    print(open_data(people).count_units(ob.Unit.row()), flush=True)
    ob.Ledger.create("people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1))
    lines = [f'data = "{people}"', 'ledger = "people.ledger"', "[[columns]]", 'name = "x"', 'kind = "integer"', "low = 0", "high = 50"]
    open("people.toml", "w").write("\\n".join(lines))
    from oboro.cli import main
    sys.argv = ["oboro", "query", "people.toml", "mean x", "--eps", "0.5"]
    main()
"""


def elsewhere(address: str, path: str) -> list[str]:
    """What a Spark of other processes answers otherwise than DuckDB, and what it prints besides."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE, address, path],
        input=json.dumps(QUIET),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(path).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "4711-" not in done.stdout + done.stderr  # nor does what Spark logs reach a screen
    return done.stdout.split("\n")


@pytest.mark.long("Spark: processes of its own")
def test_a_cluster_of_processes_gives_the_same_integers(folder: Path) -> None:
    path = written(nasty(2000, seed=3), folder, "processes")
    assert elsewhere("local-cluster[2,1,1024]", path)[0] == "[]"


@pytest.mark.long("Spark: processes of its own")
def test_connect_gives_the_same_integers(folder: Path) -> None:
    path = written(nasty(2000, seed=4), folder, "connect")
    with connect_server(folder) as address:
        for told in ("use_ssl=true", "token=secret"):
            with pytest.raises(DataError, match=r"not answer by TLS(?s:.)*without TLS: sc://127") as raised:
                ob.engine.spark(f"{address}/;{told}")
            assert "secret" not in str(raised.value)
        waits = ob.engine.spark(address).session.client.get_retry_policies()
        assert [policy.max_retries for policy in waits] == [6]  # 50 ms, and four times as long each time
        first, failed, refused, released, second, *said = elsewhere(address, path)
    assert (first, failed, refused, second) == ("[]", "failed in words", "no tasks", "2000")
    assert released == "['x', 'count']"  # by processes of this machine, as the refusal says
    assert any("mean of x" in line for line in said)


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        **QUIET,
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "served"),
    }
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    server = subprocess.Popen(
        [*command, "spark-internal"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:  # however busy the machine is
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert server.poll() is None, "the server did not start"
            threading.Event().wait(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)
