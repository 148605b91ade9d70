"""Runs in an environment of its own: AIM and MST of OpenDP, from codes to codes, and SDMetrics' score of anybody's codes.

AIM is as its authors run it: 16 rounds for each column, tables of up to three columns, a model of up to 80 MB.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def made_by(
    name: str, codes: Any, sizes: list[int], rho: float, rounds: int | None, method: str = "sample"
) -> Any:
    """Records of AIM or MST at rho-zCDP, one row added or removed; codes of the same grid.

    OpenDP splits rho in floats, and the parts can come out larger than the whole by their last digit, which it refuses: then a millionth less is asked for.
    """
    for tries in range(20):
        try:
            return _made_by(name, codes, sizes, rho * (1 - tries * 1e-6), rounds, method)
        except Exception as error:
            if "insufficient budget" not in str(error):
                raise
    raise RuntimeError(f"{name} finds no rho that it can split")


def _made_by(name: str, codes: Any, sizes: list[int], rho: float, rounds: int | None, method: str) -> Any:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{i}" for i in range(len(sizes))]
    frame = pl.DataFrame({column: codes[i] for i, column in enumerate(names)})
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    algorithm = {"AIM": lambda: dp.mbi.AIM(rounds=rounds), "MST": dp.mbi.MST}[name]()
    table = (
        context.query(rho=rho)
        .contingency_table(
            keys={column: list(range(size)) for column, size in zip(names, sizes, strict=True)},
            algorithm=algorithm,
        )
        .release()
    )
    drawn = table.synthesize(rows=codes.shape[1], method=method)
    # OpenDP adds a key for what is none of them; it is the grid's last, what is missing
    return np.array(
        [
            drawn[column].fill_null(size - 1).to_numpy().clip(0, size - 1)
            for column, size in zip(names, sizes, strict=True)
        ],
        np.int64,
    )


def _forget() -> None:
    """What was compiled for the shapes of one run is of no use to the next, and would pile up."""
    import jax

    jax.clear_caches()


def scored(real: Any, made: Any) -> float:
    """SDMetrics' quality report: the mean of how alike the columns and how alike the pairs are, 1 at best."""
    import pandas as pd
    from sdmetrics.reports.single_table import QualityReport

    names = [f"c{i}" for i in range(len(real))]
    tables = [pd.DataFrame({c: side[i].astype(str) for i, c in enumerate(names)}) for side in (real, made)]
    report = QualityReport()
    report.generate(*tables, {"columns": {c: {"sdtype": "categorical"} for c in names}}, verbose=False)
    return float(report.get_score())


def main() -> None:
    """Reads jobs, one a line, and answers each in a line: {"do": "AIM", "codes": FILE, ...} or {"do": "score", ...}."""
    for line in sys.stdin:
        job = json.loads(line)
        start = time.process_time()
        if job["do"] == "score":
            answer = {"score": scored(np.load(job["real"]), np.load(job["made"]))}
        else:
            codes = np.load(job["codes"])
            try:
                made = made_by(job["do"], codes, job["sizes"], job["rho"], job.get("rounds"), job["method"])
            except Exception as error:  # theirs: it is told, and the next run goes on
                print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:500]}), flush=True)
                continue
            np.save(Path(job["to"]), made)
            answer = {"seconds": time.process_time() - start}
            _forget()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
