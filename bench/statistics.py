"""Statistics of 10^7 rows in a Parquet file: against DuckDB without privacy, diffprivlib and OpenDP.

From the file to the answer, for everybody. Ours also reserves, draws, stores and signs. The peers want an array: reading
the one column into it with pyarrow is part of their time. OpenDP's quantile chooses among the same values as ours,
the public grid. Against DuckDB the targets are 1/3 and 1/15: how many times as long ours may take.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oboro as ob
from bench.measure import Row, seconds

ROWS = 10_000_000
HIGH = 1_000_000
DOMAIN = ob.Domain(
    [ob.Integer("age", 0, 120), ob.Integer("income", 0, HIGH), ob.Category("region", ["north", "south"])]
)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _rows(Path(folder))


def _rows(folder: Path) -> Iterator[Row]:
    path = folder / "people.parquet"
    pq.write_table(_generated(), path)

    def read(name: str) -> Any:
        return pq.read_table(path, columns=[name]).column(name).to_numpy().astype(float)

    ask = {
        "mean": lambda session: session.mean("income", eps="0.001"),
        "histogram": lambda session: session.histogram("age", edges=range(0, 121, 10), eps="0.001"),
        "quantile": lambda session: session.median("income", eps="0.001"),
    }
    plain = _plain(path)
    units = {"a row": ob.Unit.row(), "a person": ob.Unit.person("user_id", max_rows=20)}
    ours: dict[str, float] = {}
    for who, unit in units.items():
        ledger = ob.Ledger.create(folder / f"{who}.ledger", dataset="bench", unit=unit, budget=ob.Pure(10))
        for name, question in ask.items():
            session = ob.Session(path, domain=DOMAIN, ledger=ledger)
            mine = seconds(lambda question=question, session=session: question(session), repeat=5)
            theirs = seconds(plain[name], repeat=5)
            target = 1 / 3 if who == "a row" else 1 / 15
            yield Row(
                f"{name}, a unit is {who}", mine, "DuckDB without privacy", theirs, "s", theirs / mine, target
            )
            ours.setdefault(name, mine)
    yield from _in_memory(path, read, ask)
    for peer, questions in (("diffprivlib", _diffprivlib(read)), ("OpenDP", _opendp(read))):
        for name, (work, target) in questions.items():
            theirs = seconds(work, repeat=3) if name != "quantile" else _once(work)
            yield Row(f"{name} of 10^7 rows", ours[name], peer, theirs, "s", theirs / ours[name], target)


def _in_memory(path: Path, read: Callable[[str], Any], ask: dict[str, Any]) -> Iterator[Row]:
    """The kindest case for the peers: the column is an array already, and OpenDP has 1001 candidates. No target."""
    ledger = ob.Ledger.create(
        path.with_name("m.ledger"), dataset="bench", unit=ob.Unit.row(), budget=ob.Pure(10)
    )
    session = ob.Session(pq.read_table(path), domain=DOMAIN, ledger=ledger)
    arrays = {name: read(name) for name in ("income", "age")}
    coarse = np.linspace(0.0, float(HIGH), 1001)
    for peer, questions in (
        ("diffprivlib", _diffprivlib(arrays.get)),
        ("OpenDP", _opendp(arrays.get, coarse)),
    ):
        for name, (work, _) in questions.items():
            if (peer, name) != ("diffprivlib", "quantile"):  # half a minute either way: see below
                mine = seconds(lambda name=name: ask[name](session), repeat=3)
                theirs = seconds(work, repeat=3)
                yield Row(f"{name}, all in memory", mine, peer, theirs, "s", theirs / mine)


def _generated() -> pa.Table:
    draw = np.random.default_rng(1)
    region = pa.DictionaryArray.from_arrays(
        pa.array(draw.integers(0, 2, ROWS).astype(np.int8)), ["north", "south"]
    )
    return pa.table(
        {
            "user_id": draw.integers(0, ROWS // 10, ROWS).astype(np.int32),
            "age": draw.integers(0, 121, ROWS).astype(np.int16),
            "income": np.clip(np.round(draw.lognormal(10.8, 0.8, ROWS)), 0, HIGH).astype(np.int32),
            "region": region,
        }
    )


def _plain(path: Path) -> dict[str, Callable[[], Any]]:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    source = f"read_parquet('{path}')"
    queries = {
        "mean": f"SELECT avg(income) FROM {source}",
        "histogram": f"SELECT age // 10, count(*) FROM {source} GROUP BY 1",
        "quantile": f"SELECT quantile_disc(income, 0.5) FROM {source}",
    }
    return {name: lambda query=query: connection.execute(query).fetchall() for name, query in queries.items()}


def _diffprivlib(read: Callable[[str], Any]) -> dict[str, tuple[Callable[[], Any], float]]:
    from diffprivlib import tools

    warnings.simplefilter("ignore")
    return {
        "mean": (lambda: tools.mean(read("income"), epsilon=1, bounds=(0, HIGH)), 1),
        "histogram": (lambda: tools.histogram(read("age"), epsilon=1, bins=12, range=(0, 120)), 1),
        "quantile": (lambda: tools.quantile(read("income"), 0.5, epsilon=1, bounds=(0, HIGH)), 10),
    }


def _opendp(read: Callable[[str], Any], grid: Any = None) -> dict[str, tuple[Callable[[], Any], float]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    mean = (
        space >> dp.t.then_clamp((0.0, float(HIGH))) >> dp.t.then_resize(ROWS, HIGH / 2) >> dp.t.then_mean()
    ) >> dp.m.then_laplace(scale=HIGH / ROWS)
    edges = [float(edge) for edge in range(10, 120, 10)]
    bins = (
        space >> dp.t.then_find_bin(edges=edges) >> dp.t.then_count_by_categories(list(range(11)))
    ) >> dp.m.then_laplace(scale=1.0)
    candidates = (np.arange(HIGH + 1, dtype=float) if grid is None else grid).tolist()
    quantile = (space >> dp.t.then_quantile_score_candidates(candidates, alpha=0.5)) >> dp.m.then_noisy_max(
        dp.max_divergence(), scale=1.0, negate=True
    )
    return {
        "mean": (lambda: mean(read("income")), 1),
        "histogram": (lambda: bins(read("age")), 1),
        "quantile": (lambda: quantile(read("income")), 10),
    }


def _once(work: Callable[[], Any]) -> float:
    """Timed once: some peers need half a minute."""
    import time

    start = time.perf_counter()
    work()
    return time.perf_counter() - start
