"""What Ito, Kawano and Kashima's paper says, in numbers: `oboro reproduce ito-calibration`, for one.

The paper proves and prints no table. These are its quantities, computed by two independent ways, with what
can be proved beyond it.
"""

from __future__ import annotations

import numpy as np

from oboro.dynamics import mixing_variable
from oboro.dynamics.calibration import calibrate, delta, gaussian, pure_eps
from oboro.dynamics.outliers import detections, ruined
from oboro.dynamics.sigma import design
from oboro.dynamics.system import Operator, system_from
from oboro.records import Record
from oboro.release.reproduction import Bars, Reproducible, Reproduction, Row, bars_of, curves_of

_CASES = (("0.5", "1"), ("1", "0.1"), ("1", "1"), ("1.5", "1"), ("1.5", "3"), ("1.8", "0.3"), ("2", "1"))
_ERRORS = (
    "(6) prints O_T as a row; for (5) to hold C, CA, ..., CA^T must be stacked.",
    "Theorem 1 says W_t where it means W_T: one A for the whole record. Independent noise at each time is outside it, and needs a proof "
    "of its own.",
    "Corollary 1 asks for a square, invertible [O_T N_T]. It needs neither: the output is post-processing of the noisy input.",
)
_SECOND_ORDER = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])


def calibration() -> Reproduction:
    """Q^-1 of Theorem 1, and the tighter calibrations, for several alpha and eps."""
    rows: list[Row] = []
    worst = 0.0
    for alpha, eps in _CASES:
        q = [
            calibrate(alpha=alpha, eps=eps, delta=small, method="theorem1")
            for small in ("0.1", "0.01", "1e-5")
        ]
        tight = {
            method: calibrate(alpha=alpha, eps=eps, delta="1e-5", method=method, dims=10)
            for method in ("mixture", "independent", "discrete", "exact")
        }
        rule = mixing_variable.nodes(float(alpha))
        again = float(rule.weight @ gaussian(tight["mixture"] ** 2 / rule.value, float(eps)))
        worst = max(worst, abs(again / 1e-5 - 1))
        rows.append(
            (
                f"{alpha}, eps {eps}",
                *q,
                *(tight[method] / q[2] for method in ("mixture", "independent", "discrete", "exact")),
            )
        )
    columns = (
        "alpha",
        "Q^-1(0.1)",
        "Q^-1(0.01)",
        "Q^-1(1e-5)",
        "mixture",
        "independent",
        "discrete",
        "exact, d = 10",
    )
    pure = ", ".join(
        f"{pure_eps(alpha=alpha, z=1):.4f} at alpha {alpha}" for alpha in ("0.5", "1", "1.5", "1.9")
    )
    spread = _spread()
    return Reproduction(
        "ito-calibration",
        "Theorem 1's Q^-1, and how many times less noise is enough at delta = 1e-5",
        columns,
        tuple(rows),
        errors=_ERRORS,
        notes=(
            "the paper prints no table: these are its formulas, by a contour integral; ratios are z over Theorem 1's z",
            f"mixture computed again as a mean over A, by another quadrature: within {worst:.0e}",
            "alpha = 2 has A = 2: Gaussian noise of covariance 2 Sigma",
            f"without any delta, in one dimension at z = 1, eps is {pure}",
            f"alpha 1, eps 0.3, z 0.6 spread over 20 numbers: delta is {spread['true'][0]:.4f} with one A (the mixture proves "
            f"{spread['proved'][0]:.4f}), and {spread['true'][1]:.4f} with independent noise, which hides better "
            f"({spread['proved'][1]:.4f} is proved)",
        ),
        figures=(
            Bars(
                "delta of a change spread over 20 numbers: alpha = 1, eps = 0.3, z = 0.6",
                ("one A for the whole record", "independent noise"),
                tuple(spread.items()),
                "delta",
            ),
            bars_of(
                "z that is allowed, over Theorem 1's: delta = 1e-5",
                [(f"alpha = {row[0]}", 1.0, *row[4:]) for row in rows],
                ("Theorem 1", *columns[4:]),
                below="times less noise",
                log_x=True,
                printed=("Theorem 1",),
            ),
        ),
    )


def _spread() -> dict[str, tuple[float, float]]:
    """Truths and bounds for a change that is spread over 20 numbers: with one A, and with independent noise."""
    shared, bound, own = (
        delta(alpha=1, eps="0.3", z="0.6", method=method, dims=20)
        for method in ("exact", "mixture", "independent")
    )
    return {"true": (shared, independent_cauchy(0.3, 0.6, 20)), "proved": (bound, own)}


def independent_cauchy(eps: float, z: float, count: int) -> float:
    """The true delta of independent Cauchy noise for a change spread evenly over `count` numbers, to some 1e-6.

    The log-ratio of one number, log((1 + (x-s)^2)/(1 + x^2)), on a fine grid, each value split between its neighbours; its
    sum over all numbers by a Fourier transform.
    """
    shift, cells, points = z / np.sqrt(count), 1 << 16, 1 << 20
    x = np.tan(np.pi * ((np.arange(points) + 0.5) / points - 0.5))
    ratio = np.log1p((x - shift) ** 2) - np.log1p(x * x)
    step = 2.5 * count * 2 * np.arcsinh(shift / 2) / cells
    low = np.floor(ratio / step)
    high = ratio / step - low
    at = low.astype(np.int64) % cells
    law = np.bincount(at, 1 - high, cells) + np.bincount((at + 1) % cells, high, cells)
    total = np.fft.irfft(np.fft.rfft(law / points) ** count, cells)
    value = step * (np.fft.fftfreq(cells) * cells)
    return float(total @ np.maximum(-np.expm1(eps - np.maximum(value, eps)), 0.0))


def outliers() -> Reproduction:
    """What each kind of noise hides: the claim of section 1, measured."""
    sizes = (5, 10, 20, 50)
    rows: list[Row] = []
    for title, median in (("equal (eps, delta)", None), ("equal median", 1.74)):
        for one in detections(eps=1, delta="1e-3", sizes=sizes, median=median):
            rows.append((f"{one.noise}, {title}", one.median, *one.rates))
    spoiled = ", ".join(f"{100 * ruined(alpha):.2g}% at alpha {alpha}" for alpha in ("1", "1.5", "1.8"))
    return Reproduction(
        "ito-outliers",
        "How often an outlier is found at 1% false alarms; eps = 1, delta = 1e-3, distance 1",
        ("noise", "median |noise|", *[f"size {size}" for size in sizes]),
        tuple(rows),
        errors=(
            "The noise of Theorem 1 has one A for the whole record. Over a long record A is known, and an outlier hides far less well.",
        ),
        notes=(
            "the most powerful test for an outlier of known size in one number",
            f"a shared A also spoils whole records: sqrt(A) is above 10 medians in {spoiled}",
        ),
        figures=tuple(
            curves_of(
                title,
                sizes,
                [(str(row[0]).removesuffix(f", {title}"), *row[2:]) for row in own],
                below="size",
                beside="share found",
            )
            for title, own in (
                ("equal (eps, delta)", rows[: len(rows) // 2]),
                ("equal median", rows[len(rows) // 2 :]),
            )
        ),
    )


def placement() -> Reproduction:
    """Noise on the output against noise on the input: the trace of Sigma that condition (10) asks for."""
    rows: list[Row] = []
    horizons = (10, 50, 200)
    for horizon in horizons:
        kwargs: Record = {"horizon": horizon, "alpha": "1.5", "eps": 1, "delta": "1e-5"}
        scalar, best = (design(_SECOND_ORDER, kind=kind, **kwargs) for kind in ("scalar", "optimal"))
        size = float(np.linalg.norm(Operator(system_from(_SECOND_ORDER), horizon).dense(), 2))
        rows.append(
            (
                f"T = {horizon}",
                size,
                float(np.trace(scalar)),
                float(np.trace(best)),
                float(np.trace(scalar) / np.trace(best)),
            )
        )
    return Reproduction(
        "ito-placement",
        "Sigma on the output: scalar against the least one, which is noise on the input",
        ("", "||[O N]||", "trace, scalar", "trace, least", "ratio"),
        tuple(rows),
        errors=_ERRORS[2:],
        notes=(
            "a second-order system with poles 0.8 ± 0.4i; alpha = 1.5, eps = 1, delta = 1e-5, distance 1",
        ),
        figures=(
            curves_of(
                "trace of Sigma",
                horizons,
                [("scalar", *(row[2] for row in rows)), ("least", *(row[3] for row in rows))],
                below="T",
                beside="trace of Sigma",
                log_x=True,
                log_y=True,
            ),
        ),
    )


REPRODUCTIONS = (
    Reproducible("ito-calibration", "Theorem 1's Q^-1, and tighter calibrations", calibration),
    Reproducible("ito-outliers", "how well outliers hide: Gaussian, Laplace, stable", outliers),
    Reproducible("ito-placement", "noise on the output against noise on the input", placement),
)
