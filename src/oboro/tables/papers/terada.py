"""The measurements of Terada et al., made again: `oboro reproduce terada-table2`, for one.

The paper's census mesh (512 x 512 cells of 500 m around Tokyo, 2010) is not ours to ship. A generated city of the
same shape stands in for it. Errors of Laplace and both Privelets do not depend on the data: their rows test the
paper. Those of the proposed method do, and the constants of the city were chosen to bring them close to what
is printed: that row shows that such data exist, and is no independent confirmation. Every page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from oboro.noise.bits import system_bits
from oboro.release.reproduction import Reproducible, Reproduction, Row
from oboro.tables.cells import Cells
from oboro.tables.papers.scoreboard import (
    COARSE,
    COARSE_TRIALS,
    EPS,
    LEVELS,
    METHODS,
    SYSTEMS,
    TRIALS,
    K,
    Method,
    mesh,
    middle,
    score,
    series,
    window,
)

_DATA = "data: a generated city, 512 x 512 cells, of the density of the paper's census mesh; fresh random bits each time"
_FITTED = (
    "Proposed depends on the data, and the city's constants were chosen so that its RMSE up to 2^12 and its 27.5% of "
    "published cells come close to the paper: agreement there is fitted, not found. An earlier draft of the city, "
    "of the same density and total, was up to 13% away"
)


def table2() -> Reproduction:
    """Errors of sums by area, as the paper lays them out."""
    rows: list[Row] = []
    from_theory, from_printed = 0.0, 0.0
    for method in METHODS:
        mae, rmse = series(method)
        theory = [method.variance(K, EPS, level) ** 0.5 for level in LEVELS]
        proposed = method.name == "Proposed"
        rows += [
            (f"{method.name}, RMSE printed", *method.rmse),
            ("  ours", *rmse),
            ("  ours / printed", *_ratios(rmse, method.rmse)),
            ("  theory, before clamping" if proposed else "  theory", *theory),
            ("  ours / theory", *_ratios(rmse, theory)),
            ("  MAE printed", *method.mae),
            ("  ours", *mae),
            ("  ours / printed", *_ratios(mae, method.mae)),
        ]
        if proposed:
            from_printed = _furthest(rmse, method.rmse)
        else:
            from_theory = max(from_theory, _furthest(rmse, theory))
    return Reproduction(
        "terada-table2",
        "Table 2: error of sums by area size, eps = 0.1, n = 2^18",
        ("system", *[f"2^{level}" for level in LEVELS]),
        tuple(rows),
        errors=(
            "eqs. 38-39: Lap(λ/2^i) must be Lap(λ/2^(i-1)); as printed the cost is 1.89 eps at n = 2^18.",
            "Theorem 3 is false: clamping correlates and biases. For n = 2, (c, 0), the variance is 1.36 λ² against λ².",
            "eq. 51: 2^l σ² must be 2^(2l) σ²; section 5's 2^l/q² must be 2/q²; eq. 45's exponent is -(k - ⌈log2 i⌉ + 1).",
            "section 6.4: the root of 2/3 · 19² · 10² = 24,067 is 155.1, not 153.13.",
            "section 5.3, 'always better than Privelet': Table 2 itself has 158.95 against 155.93 at 2^14.",
            "section 6.4 quotes 66.23 for the proposed method at 2^0; Table 2 has 66.20.",
        ),
        notes=(
            _DATA,
            f"sums of 2^{COARSE} cells and more: {COARSE_TRIALS} trials of the nodes that they depend on; the rest: "
            f"{TRIALS} trials, as in the paper (Laplace: {5 * TRIALS})",
            "squares of all trials are pooled before the root is taken; the paper's MAE and RMSE at 2^18 differ, so it did too",
            f"up to 2^12: Laplace and Privelet within {100 * from_theory:.1f}% of theory, "
            f"Proposed within {100 * from_printed:.1f}% of what is printed",
            _FITTED,
            "above 2^12 the paper's 100 trials hold few blocks. Proposed at 2^18: the total has Lap(190) noise, "
            "of mean size 190; a mean as small as 139.32 comes up once in 560 times",
            "footnote 11 halves Privelet's noise: right where a record is added or removed, as here; where one is replaced, "
            "two cells move, and the coefficients by up to 2 log2 n in all",
        ),
    )


def table1() -> Reproduction:
    """What the paper ticks, measured."""
    cells = Cells.from_dense(mesh())
    rows: list[Row] = []
    for system in SYSTEMS:
        head, last = (system.name, system.printed), (0, 0.0)
        for k in system.exponents:
            found = score(system, window(cells, k, K), k, EPS, within=min(k, K))
            growth = np.log2(found.seconds / last[1]) / (k - last[0]) if last[0] else None
            size: Row = (
                f"2^{k}",
                100 * found.negative,
                *found.rmse[:2],
                f"2^{middle(min(k, K))}",
                found.rmse[2],
            )
            rows.append((*head, *size, 1e3 * found.seconds, growth, found.megabytes))
            head, last = ("", ""), (k, found.seconds)
    columns = (
        *("system", "printed", "n", "negative %", "RMSE cell", "RMSE block", "of cells", "RMSE all"),
        *("ms", "grows as n^", "peak MB"),
    )
    return Reproduction(
        "terada-table1",
        "Table 1: what each system does, measured at eps = 0.1",
        columns,
        tuple(rows),
        errors=(
            "Barak et al. is marked as negative: section 3.3 says itself that its linear program ends with no negative cell.",
            "Barak et al. is ticked for sums: that holds for marginals of low order. For a whole table every coefficient is "
            "needed, and sums of every size are √n times worse than Laplace.",
            "Li et al. is given O(n²): that is one product with a strategy. Finding it takes n³ a step, and least squares n³.",
            "T2 is given O(m+ log n): it is O((m + m+) log n), as the input must be read.",
        ),
        notes=(
            "printed: no negative cells, accurate sums, cost (Laplace and T1, T2 from the text)",
            _DATA,
            "n below 2^18: the window with the city's density; above: the city in the corner of an empty domain, "
            "with the errors of cells and blocks taken in the city",
            "ms of the fastest trial of up to 12; Li's include the search for a strategy; memory as Python allocates it",
        ),
    )


def figure1() -> Reproduction:
    """The data."""
    counts = mesh()
    occupied = int(np.count_nonzero(counts))
    rows = (
        ("cells", 2**K, counts.size),
        ("occupied", 95_317, occupied),
        ("occupied %", 36.3, 100 * occupied / counts.size),
        ("people", None, int(counts.sum())),
        ("median of the occupied", None, float(np.median(counts[counts > 0]))),
        ("99% of the occupied are below", None, float(np.quantile(counts[counts > 0], 0.99))),
        ("largest cell", None, int(counts.max())),
    )
    return Reproduction("terada-fig1", "Figure 1: the data", ("", "printed", "ours"), rows, notes=(_DATA,))


def figure_map(number: int, method: Method) -> Reproduction:
    """Figures 2 to 5 are maps with negative cells in red: how many there are."""
    released = method.release(mesh(), system_bits())
    negative, empty = np.count_nonzero(released < 0), np.count_nonzero(released == 0)
    density = 27.5 if method.name == "Proposed" else 100.0
    rows = (
        ("negative cells", method.negative, int(negative)),
        ("negative %", 100 * method.negative / 2**K, 100 * negative / 2**K),
        ("not empty %", density, 100 - 100 * empty / 2**K),
        ("smallest cell", None, float(released.min())),
        ("largest cell", None, float(released.max())),
        ("sum of all", None, float(released.sum())),
        ("true sum", None, int(mesh().sum())),
    )
    whole = "noise is whole here: where the paper's is spread around 0, some of ours is exactly 0"
    return Reproduction(
        f"terada-fig{number}",
        f"Figure {number}: the output of {method.name}, eps = 0.1",
        ("", "printed", "ours"),
        rows,
        notes=(_DATA, *{"Laplace": (whole,), "Proposed": (_FITTED,)}.get(method.name, ())),
    )


def figure_curves(number: int, highest: float) -> Reproduction:
    """Figures 6 and 7: the errors of Table 2 against the area, the second up to 800 only."""

    def point(value: float) -> float | None:
        return value if value <= highest else None

    rows = []
    for method in METHODS:
        mae, rmse = series(method)
        for kind, ours, printed in (("MAE", mae, method.mae), ("RMSE", rmse, method.rmse)):
            rows.append((f"{method.name} {kind}", *map(point, ours)))
            rows.append(("  printed", *map(point, printed)))
    return Reproduction(
        f"terada-fig{number}",
        f"Figure {number}: error against area" + ("" if highest == np.inf else f", up to {highest:g}"),
        ("log2 of area", *map(str, LEVELS)),
        tuple(rows),
        notes=(_DATA, _FITTED),
    )


REPRODUCTIONS = (
    Reproducible("terada-table1", "every system on one city: negative cells, error, time, memory", table1),
    Reproducible("terada-table2", "error of sums by area size, for four systems", table2),
    Reproducible("terada-fig1", "the data: a city of the paper's shape", figure1),
    *[
        Reproducible(
            f"terada-fig{number}", f"negative cells of {method.name}", partial(figure_map, number, method)
        )
        for number, method in enumerate(METHODS, start=2)
    ],
    Reproducible("terada-fig6", "error against area", partial(figure_curves, 6, np.inf)),
    Reproducible("terada-fig7", "error against area, up to 800", partial(figure_curves, 7, 800.0)),
)


def _ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ours, reference, strict=True)]


def _furthest(ours: Sequence[float], reference: Sequence[float]) -> float:
    """The largest relative difference up to 2^12."""
    return max(abs(ratio - 1) for ratio in _ratios(ours, reference)[: LEVELS.index(12) + 1])
