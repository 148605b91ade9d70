"""Sub-trees measured by the workers of a Spark: a cluster of processes, on two addresses of this machine.

Needs Java and the extra `spark`: `make test-spark` makes an environment of its own for it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oboro as ob
from oboro.errors import DataError, ParameterError
from oboro.noise import streams
from oboro.noise.bits import Bits
from oboro.tables.plan import TablePlan
from oboro.tables.subtrees import store
from oboro.tables.subtrees.executors import Executors
from oboro.tables.subtrees.spread import Spread
from oboro.tables.subtrees.workers import Task
from support import repeatable
from tables.attempts import Dies, Faulty, Twice
from tables.test_subtrees import UNIT, measured, planned, same, scattered

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:.*pandas.*:FutureWarning"),
    pytest.mark.long("Spark: sub-trees"),
]
HOSTS = ("127.0.0.1", "127.0.0.2")  # Spark does not do a task twice at once on the same one
TESTS = str(Path(__file__).parents[1])


@dataclass
class Around:
    """A cluster, the folder in which all its processes write, and one for cells that its workers share."""

    session: Any
    folder: Path
    shared: Path

    def table(self, data: dict[str, Any], name: str) -> Any:
        path = self.folder / f"{name}.parquet"
        pq.write_table(pa.table(data), path, row_group_size=1000)
        return ob.engine.spark(self.session).parquet(str(path))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("events", "shared", "local"):
        (folder / name).mkdir()
    with processes(folder) as address:
        session = connected(address, folder)
        try:
            yield Around(session, folder, folder / "shared")
        finally:
            session.stop()


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind((HOSTS[0], 0))
        port = free.getsockname()[1]
    address = f"spark://{HOSTS[0]}:{port}"
    home = Path(pyspark.__file__).parent
    spark = [str(home / "bin" / "spark-class")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    master = [*spark, "org.apache.spark.deploy.master.Master"]
    master += ["--host", HOSTS[0], "--port", str(port), "--webui-port", "0"]
    worker = [
        *spark,
        "org.apache.spark.deploy.worker.Worker",
        "--webui-port",
        "0",
        "--cores",
        "1",
        "--memory",
        "1g",
    ]
    workers = [
        [*worker, "--host", host, "--work-dir", str(folder / f"work {host}"), address] for host in HOSTS
    ]
    log = (folder / "processes.log").open("wb")
    started = [
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        for command in (master, *workers)
    ]
    try:
        yield address
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
        log.close()


def connected(address: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "true",  # whatever another session of this process said
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": HOSTS[0],
        "spark.driver.host": HOSTS[0],
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # it is searched
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.PYTHONPATH": TESTS,
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.interval": "100ms",
    }
    builder = SparkSession.builder.master(address)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        return builder.getOrCreate()


class Watched:
    """The workers of the Spark, with tasks as `made` gives them: the pass, the number of the task, and the task."""

    def __init__(self, table: Any, made: Callable[[int, int, Task], Task]) -> None:
        self.workers = Executors(table)
        self.made = made
        self.passes = 0
        self.keys: list[bytes] = []

    def run(self, some: Sequence[Task]) -> list[Any]:
        self.passes += 1
        for task in some:
            self.keys += getattr(getattr(task, "of", None), "keys", ())
        return self.workers.run([self.made(self.passes, i, task) for i, task in enumerate(some)])

    def close(self) -> None:
        pass


def by_workers(
    around: Around,
    plan: TablePlan,
    table: Any,
    partitions: int,
    made: Callable[[int, int, Task], Task] = lambda _, __, task: task,
    bits: Bits | None = None,
    between: Callable[[Any], None] = lambda prepared: None,
) -> tuple[Any, Watched]:
    pool = Watched(table, made)
    with Spread(table, 2, partitions=partitions, pool=pool, shared=around.shared) as spread:
        prepared = plan.prepare(plan.open(spread))
        between(prepared)
        found = plan.measure(prepared, bits or repeatable("cut"))
    assert not list(around.shared.iterdir())
    return found, pool


@pytest.mark.parametrize("strategy", ["wavelet", "filtered", "tree"])
def test_a_cluster_gives_the_table_of_one_machine_whatever_happens_to_its_workers(
    cluster: Around, strategy: str
) -> None:
    plan, data = planned(strategy, 64), scattered(64)
    table = cluster.table(data, "cells")
    wanted = measured(plan, data, 3, repeatable("cut"))
    assert wanted.keys.size > 100
    marks = str(cluster.folder / f"mark {strategy}")

    def hostile(number: int, i: int, task: Task) -> Task:
        marker = f"{marks} {number} {i}"
        if i == 1:  # in every pass two attempts of one task at the same time
            return Twice(task, marker)
        if i == 2:  # and one that dies: in the third with all that is around it
            return Dies(task, marker, all=number == 3)
        return task

    assert same(wanted, by_workers(cluster, plan, table, 1)[0])
    assert same(wanted, by_workers(cluster, plan, table, 3)[0])
    found, pool = by_workers(cluster, plan, table, 7, hostile)
    assert same(wanted, found)
    last = pool.passes
    assert Path(f"{marks} {last} 1-1").exists()  # two attempts were made
    assert Path(f"{marks} {last} 2-1").exists()
    assert len(set(pool.keys)) == len(pool.keys) > 20
    assert not same(wanted, by_workers(cluster, plan, table, 3, bits=repeatable("other"))[0])


def test_persons_are_bounded_by_the_cluster(cluster: Around) -> None:
    plan = ob.tables.plan(
        ob.Domain([ob.Grid("row", "col", shape=(16, 16))]),
        unit=ob.Unit.person("who", 2),
        eps=1,
        strategy="wavelet",
    )
    data = {"who": ["a"] * 9 + ["b"], "row": [3] * 10, "col": [*range(9), 1]}
    wanted = measured(plan, data, 1, repeatable("cut"))
    assert same(wanted, by_workers(cluster, plan, cluster.table(data, "persons"), 1)[0])


def test_faults_that_are_planted_on_workers_or_in_the_driver_are_seen(
    cluster: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests of this file compare shows each of them: system bits, one label, cells that are not those written down."""
    plan, data = planned("wavelet", 64), scattered(64)
    table = cluster.table(data, "faulty")
    wanted = measured(plan, data, 3, repeatable("cut"))
    bits = by_workers(cluster, plan, table, 3, lambda _, __, task: Faulty(task, "system bits"))[0]
    assert not same(wanted, bits)

    def changed(prepared: Any) -> None:
        path = Path(prepared.files[0].path)
        keys, counts = (each.copy() for each in store.read(str(path)))
        counts[0] += 100_000
        path.unlink()
        Path(store.written(str(path.parent), "cells", {"key": keys, "count": counts})).rename(path)

    with pytest.raises(DataError, match="not what they were"):
        by_workers(cluster, plan, table, 3, between=changed)
    by_workers(cluster, plan, table, 3, lambda _, __, task: Faulty(task, "no hash"), between=changed)

    original = streams.Streams.key
    with monkeypatch.context() as patch:
        patch.setattr(streams.Streams, "key", lambda self, bits, prefix, epoch: original(self, bits, 0, 0))
        keys = by_workers(cluster, plan, table, 3)[1].keys
    assert len(set(keys)) < len(keys)


def test_what_cannot_be_measured_there_is_refused_before_anything_is_spent(
    cluster: Around, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scattered(64)
    table = cluster.table(data, "refused")
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))

    def asked(source: Any, shared: Any, plan: TablePlan) -> None:
        ob.tables.release(source, plan, ledger=ledger, shared=shared)

    plan = planned("wavelet", 64)
    with pytest.raises(ParameterError, match="no table of a Spark"):
        asked(data, cluster.shared, plan)
    for wrong in ("shared", tmp_path / "nowhere"):
        with pytest.raises(ParameterError, match="no folder that workers could share"):
            asked(table, wrong, plan)
    with pytest.raises(ParameterError, match="in one piece"):
        asked(table, cluster.shared, planned("adaptive", 64))
    for parts in (cluster.shared, cluster.shared / "published", cluster.folder):
        with pytest.raises(ParameterError, match="beside published parts"):
            ob.tables.release(table, plan, ledger=ledger, shared=cluster.shared, parts=parts)
    with monkeypatch.context() as patch:
        patch.setattr(cluster.session.sparkContext, "pythonExec", str(tmp_path / "no python"))
        with pytest.raises(DataError, match="cannot load oboro"):
            asked(table, cluster.shared, plan)
    assert ledger.spent == ob.Pure(0)
    assert not list(cluster.shared.iterdir())


STOPPED = """
import os, pathlib, signal, threading
from pyspark.sql import SparkSession
import oboro as ob
settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "400",
            "spark.sql.adaptive.enabled": "false"}
session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
unit, shared = ob.Unit.cells(), pathlib.Path("shared").absolute()
domain = ob.Domain([ob.Grid("row", "col", shape=(64, 61))])
plan = ob.tables.plan(domain, unit=unit, eps=1, count="people", strategy="wavelet")
ledger = ob.Ledger.create("a.ledger", dataset="city", unit=unit, budget=ob.Pure(1))
def strike():
    while not list(shared.glob("*/records/_temporary/0/task*")):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=strike, daemon=True).start()
try:
    ob.tables.release(ob.engine.spark(session).parquet("cells.parquet"), plan, ledger=ledger, shared=shared)
except SystemExit:
    pass
tracker = session.sparkContext.statusTracker()
while tracker.getActiveJobsIds():
    pass
print(ledger.spent, [(path.is_file(), path.stat().st_size) for path in shared.rglob("*")])
"""


def test_a_job_that_is_not_waited_for_any_more_writes_no_cells(tmp_path: Path) -> None:
    """Tasks of a Spark make folders that are missing: one that is deleted while they write would come again, for all to read."""
    (tmp_path / "shared").mkdir()
    pq.write_table(pa.table(scattered(64)), tmp_path / "cells.parquet")
    done = subprocess.run(
        [sys.executable, "-c", STOPPED],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "eps = 0 [(True, 0)]\n", done.stderr[-2000:]


def forms(secret: bytes) -> list[bytes]:
    """How a secret may stand in a file."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode(), repr(secret)[2:-1].encode()]
    found.append(", ".join(map(str, secret)).encode())
    for shift in range(3):  # within a longer text in base64
        found.append(base64.b64encode(bytes(shift) + secret)[4:-4])
    return found


def test_no_key_is_in_a_log_an_event_a_page_a_record_or_a_certificate(
    cluster: Around, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A release as a user asks for one; then everything that any process has written is searched, and Spark's own pages."""
    from pyspark.core import context as module

    secrets: list[bytes] = []
    key, words = streams.Streams.key, Bits.words

    def seen(self: Any, prefix_bits: int, prefix: int, epoch: int) -> bytes:
        secrets.append(key(self, prefix_bits, prefix, epoch))
        return secrets[-1]

    def drawn(self: Any, count: int) -> Any:
        found = words(self, count)
        if count == 4 and len(secrets) == 0:
            secrets.append(found.tobytes())  # the master key
        return found

    def by_file(*_: Any, **__: Any) -> None:
        raise AssertionError("what is handed to workers was written to a file")

    plan, data, out = planned("filtered", 64), scattered(64), cluster.folder / "published"
    table = cluster.table(data, "released")
    ledger = ob.Ledger.create(cluster.folder / "a.ledger", dataset="city", unit=UNIT, budget=ob.Pure(1))
    with monkeypatch.context() as patch:
        patch.setattr(streams.Streams, "key", seen)
        patch.setattr(Bits, "words", drawn)
        patch.setattr(module, "NamedTemporaryFile", by_file)
        released = ob.tables.release(
            table, plan, ledger=ledger, parts=out, shared=cluster.shared, name="mesh"
        )
    assert len(set(secrets)) > 50
    assert "Spark" in str(released.certificate.record["software"])
    assert ob.verify_certificate(out, public_key=ledger.public_key)["dataset"] == "city"
    assert not list(cluster.shared.iterdir())
    rows = sum(pq.read_table(path).num_rows for path in out.glob("part-*.parquet"))
    assert rows == sum(released.to_arrow()["rows"].to_pylist()) > 100
    # a key that is said on purpose is found: what is searched is what Spark tells of its jobs
    said = np.random.default_rng(1).bytes(48)
    spark = cluster.session.sparkContext
    spark.setJobDescription(said.hex())
    spark.parallelize([1], 1).count()
    pages = [json.dumps(page).encode() for page in told(spark)]
    cluster.session.stop()
    written = [path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()]
    written += [*pages, "".join(capfd.readouterr()).encode()]
    assert sum(map(len, written)) > 10**5

    def found(secret: bytes) -> bool:
        return any(form in content for content in written for form in forms(secret))

    assert found(said)
    assert any(said.hex().encode() in page for page in pages)
    assert any(
        said.hex().encode() in path.read_bytes()
        for path in (cluster.folder / "events").rglob("*")
        if path.is_file()
    )
    assert not any(map(found, secrets))


def told(context: Any) -> Iterator[Any]:
    """What Spark's own pages are made from."""
    base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    for page in (
        "jobs",
        "stages?details=true",
        "sql?details=true",
        "environment",
        "executors",
        "storage/rdd",
    ):
        with urllib.request.urlopen(f"{base}/{page}") as answer:
            yield json.load(answer)
