"""Tables: the wavelet against OpenDP's tree on one city; huge sparse domains; Parquet to Parquet by command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import opendp.prelude as dp

from bench.measure import Row, seconds
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables import city, plan
from oboro.tables.cells import Cells, Layout
from oboro.tables.wavelet import Wavelet

SPARSE = Domain([Grid("row", "col", shape=(2**18, 2**19))])  # 2^37 cells
SIZES = (100_000, 1_000_000, 10_000_000)


def rows() -> Iterator[Row]:
    yield against_opendp()
    for size in SIZES:
        for eps in ("0.1", "1"):
            yield sparse_memory(size, eps)
    for eps in ("0.1", "1"):
        yield end_to_end(SIZES[-1], eps)


def against_opendp() -> Row:
    """2^18 cells at eps 0.1: measured and made consistent, from counts to published counts."""
    grid = Domain([Grid("row", "col", shape=(512, 512))])
    layout = Layout(grid)
    row, col = np.nonzero(city())
    keys = layout.keys([row, col])
    order = np.argsort(keys)
    cells = Cells(keys[order], city()[row, col][order])
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    tree = (
        space >> dp.t.then_b_ary_tree(leaf_count=2**18, branching_factor=2) >> dp.m.then_laplace(scale=190.0)
    )
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=2)
    counts = cells.dense(layout.bits).tolist()
    wavelet, bits = Wavelet(layout, Pure("0.1"), Unit.cells()), system_bits()
    ours = seconds(lambda: wavelet.measure(cells, bits))
    theirs = seconds(lambda: consistent(tree(counts)), repeat=1)
    return Row("wavelet, 2^18 cells", ours, "OpenDP b-ary tree, consistent", theirs, "s", theirs / ours, 40)


def sparse_memory(size: int, eps: str) -> Row:
    """Peak memory of one measurement of 2^37 cells in a process of its own, against the 1.5 GB that it may take."""
    cells = clustered(size, Layout(SPARSE))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/cells.npy", np.stack([cells.keys, cells.counts]))
        script = _RUN.format(folder=folder, eps=eps)
        output = subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        ).stdout
    spent, megabytes, published = map(float, output.split())
    what = f"2^37 cells, {size:,} full, eps {eps}"
    print(f"  {what}: {published:,.0f} published in {spent:.2f} s", file=sys.stderr)
    return Row(what, megabytes, "what it may take", 1536.0, "MB", 1536 / megabytes, 1)


_RUN = """
import re, time
from fractions import Fraction
import numpy as np
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import Cells
from oboro.tables.cells import Layout
from oboro.tables.wavelet import Wavelet

layout, bits = Layout(Domain([Grid("row", "col", shape=(2**18, 2**19))])), system_bits()
keys, counts = np.load("{folder}/cells.npy")
measure = lambda cells: Wavelet(layout, Pure("{eps}"), Unit.cells()).measure(cells, bits)[0]
measure(Cells(keys[:1], counts[:1]))
start = time.perf_counter()
published = measure(Cells(keys, counts))
spent = time.perf_counter() - start
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]  # ru_maxrss would be the parent's
print(spent, int(peak) / 1024, published.keys.size)
"""


def end_to_end(size: int, eps: str) -> Row:
    """The command line, from a Parquet file to a Parquet file and its certificate.

    Against the computation alone: the same cells, in memory, to the published table in memory. In turns, each at
    its best.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout = Layout(SPARSE)
    cells = clustered(size, layout)
    shuffled = np.random.default_rng(1).permutation(cells.keys.size)
    row, col = (axis[shuffled].astype(np.int32) for axis in layout.places(cells.keys))
    table = pa.table({"row": row, "col": col, "people": cells.counts[shuffled]})
    made = plan(SPARSE, unit=Unit.cells(), eps=eps, count="people", strategy="wavelet")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pq.write_table(table, place / "cells.parquet")
        SPARSE.to_toml(place / "wide.toml")
        oboro = [str(Path(sys.executable).with_name("oboro"))]
        create = ["ledger", "create", "wide.ledger", "--dataset", "bench", "--unit", "cells", "--eps", "100"]
        subprocess.run([*oboro, *create], check=True, cwd=place, capture_output=True)
        release = ["table", "release", "cells.parquet", "--domain", "wide.toml", "--count", "people"]
        paid = [
            "--strategy",
            "wavelet",
            "--eps",
            eps,
            "--ledger",
            "wide.ledger",
            "-o",
            "out.parquet",
            "--force",
        ]
        computing, running = [], []
        for _ in range(4):
            computing.append(
                seconds(lambda: made.publish(made.measure(made.prepare(table), system_bits())), repeat=1)
            )
            start = time.perf_counter()
            subprocess.run([*oboro, *release, *paid], check=True, cwd=place, capture_output=True)
            running.append(time.perf_counter() - start)
    alone, whole = min(computing), min(running)
    what = f"Parquet to Parquet, {size:,} cells, eps {eps}"
    return Row(what, whole, "the computation alone, in memory", alone, "s", alone / whole, 1 / 3)


def clustered(size: int, layout: Layout) -> Cells:
    """So many cells around centres of very different sizes, with heavy-tailed counts. Data, not noise."""
    rng = np.random.default_rng(7)
    rows, cols = layout.sizes
    centres = rng.uniform(0, 1, (max(20, size // 5000), 2)) * (rows, cols)
    weights = rng.pareto(1.2, len(centres)) + 0.05
    keys = np.empty(0, np.int64)
    while keys.size < size:
        of = rng.choice(len(centres), size + size // 4, p=weights / weights.sum())
        spread = 6 * np.sqrt(weights[of] / weights.sum() * size)[:, None]
        places = centres[of] + spread * rng.standard_normal((of.size, 2))
        inside = ((places >= 0) & (places < (rows, cols))).all(axis=1)
        found = layout.keys(list(places[inside].astype(np.int64).T))
        keys = np.unique(np.concatenate([keys, found]))
    keys = np.sort(rng.choice(keys, size, replace=False))
    return Cells(keys, np.minimum(np.floor(rng.pareto(1.2, size) + 1), 50_000).astype(np.int64))
