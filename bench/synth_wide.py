"""A million rows of forty columns: fit in under 3 minutes and 3 GB, draw a million records in under 20 seconds.

Seconds are of the processor, all threads together. Ratios are of these limits. ROWS=1e5 takes fewer.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import oboro as ob
from bench.measure import Row
from oboro.noise import system_bits
from oboro.synth.model import TreeSampler


def rows() -> Iterator[Row]:
    n = int(float(os.environ.get("ROWS", "1e6")))
    draw = np.random.default_rng(1)
    hidden = draw.normal(size=(4, n))
    data, columns = {}, []
    for i in range(40):
        value = hidden[i % 4] + draw.normal(size=n) * (1 + i / 20)
        top = 100 if i % 2 else 4
        data[f"c{i}"] = np.clip((value + 3) * top / 6, 0, top).astype(np.int64)
        columns.append(ob.Integer(f"c{i}", 0, top))
    plan: Any = ob.synth.plan(ob.Domain(columns), unit=ob.Unit.row(), eps=1, delta="1e-6")
    start = time.process_time()
    measured = plan.measure(plan.prepare(data), system_bits())
    law = plan.law(measured)
    fitted = time.process_time()
    TreeSampler(law, measured.bins).draw(n, {}, np.random.default_rng(0))
    drawn = time.process_time() - fitted
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = f"{n:.0e} rows, 40 columns"
    yield Row(f"fit, {size}", fitted - start, "limit", 180, "s of processor", 180 / (fitted - start), 1)
    yield Row(f"memory, {size}", most, "limit", 3, "GB", 3 / most, 1)
    yield Row(f"draw, {size}", drawn, "limit", 20, "s of processor", 20 / drawn, 1)
