"""Compiles the loops and the tests, once, before several workers would each do it: `python tests/warm.py`.

Every kind of plan that can be released has a small sample for the audit, and is measured here as there. What no sample
needs is named below; whatever is missing is compiled by the test that needs it.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.audit import samples
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.noise.laws import Cauchy, Laplace, StudentT
from oboro.noise.rounding import sample_rounded
from oboro.statistics.sensitivity import smooth_order_statistic


def main() -> None:
    warnings.simplefilter("ignore", UnsafeBitsWarning)
    bits = UnsafeDeterministicBits("warm")
    for plan in samples().values():
        plan.measure(plan.prepare(next(iter(plan.neighbours())).one), bits, trials=50)
    for law in (Cauchy(), Laplace(), StudentT(3)):
        sample_rounded(law, 5000, scale=1, step="0.01", bits=bits)
    smooth_order_statistic(np.arange(5000), 2500, (0, 5000), "0.001")
    ob.secure.plan(eps=1, delta="0.01", urns=2, seconds=600)
    with tempfile.TemporaryDirectory() as folder:
        rows_with_intervals(Path(folder))
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-p", "no:cacheprovider"])  # keeps the bytecode of the tests


def rows_with_intervals(folder: Path) -> None:
    """Tables of places and of areas, by themselves and by another column, with the interval of each row."""
    places, sex = ob.Grid("row", "col", shape=(8, 8)), ob.Category("sex", ["F", "M"])
    many_levels = ob.Domain([ob.Grid("row", "col", shape=(256, 256)), sex])
    ob.tables.plan(many_levels, unit=ob.Unit.cells(), eps=1)  # the search of few is not compiled
    row, col = (part.reshape(-1) for part in np.mgrid[:8, :8])
    table = pa.table({"town": [f"{part // 3}" for part in row], "row": row, "col": col})
    areas = ob.Areas("row,col", levels=["town", "row,col"], table=table, of=places)
    data = table.append_column("sex", pa.array(["F", "M"] * 32)).append_column("people", pa.array(row + col))
    unit = ob.Unit.cells()
    ledger = ob.Ledger.create(folder / "warm.ledger", dataset="warm", unit=unit, budget=ob.Pure(100))
    for columns, known in (
        ([places], None),
        ([places, sex], None),
        ([areas], None),
        ([areas, sex], None),
        ([areas, sex], {"town": {"0": 50}, "sex": {"F": 200, "M": 200}}),
    ):
        plan = ob.tables.plan(ob.Domain(columns), unit=unit, eps=1, count="people", known=known)
        ob.tables.release(data, plan, ledger=ledger).interval()


if __name__ == "__main__":
    main()
