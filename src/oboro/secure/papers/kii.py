"""The tables and figures of Kii, made again: `oboro reproduce kii-table1`, for one. All exact integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from oboro.release.reproduction import Reproducible, Reproduction
from oboro.secure.kii import algorithm2
from oboro.secure.law import Law, Urn, law_of
from oboro.secure.prior import rounded_laplace, rounded_root
from oboro.secure.promise import drawer_delta, exact_delta

DRAWS = (1, 2, 3, 4)
DELTAS = tuple(Fraction(1, 10**power) for power in (4, 6, 8, 10))
EPSES = tuple(Fraction(text) for text in ("1", "0.5", "0.25", "0.1"))
TABLE1 = (
    (30_641, 149, 146, 42),
    (1_662_884, 2_454, 357, 97),
    (246_792_753, 16_505, 2_256, 583),
    (36_627_290_627, 295_384, 14_731, 1_466),
)
TABLE2 = (
    (1_662_884, 2_454, 357, 97),
    (3_278_624, 6_218, 963, 365),
    (8_224_233, 15_452, 1_983, 891),
    (20_537_623, 39_740, 5_483, 2_391),
)
TABLE3 = (
    ("0.852", "1.482", "2.119", "2.923"),
    ("1.919", "3.197", "4.456", "5.953"),
    ("3.959", "6.454", "9.268", "12.187"),
    ("9.986", "16.648", "23.816", "31.365"),
)
_HOW = (
    "solutions rounded down; init the smallest I such that every init >= I satisfies (4); the count of 0 is the last of D; "
    "stopped by the sum of D, not of the symmetric D (the rule that the paper does not print)"
)


def table1() -> Reproduction:
    """Entries by delta and number of draws."""
    rows: list[tuple[Any, ...]] = []
    for delta, printed in zip(DELTAS, TABLE1, strict=True):
        ours = [algorithm2(Fraction(1), delta, 1, n).size for n in DRAWS]
        proof = [algorithm2(Fraction(1), delta, 1, n, stop="proof").size for n in DRAWS]
        rows += [
            (f"delta {float(delta):.0e}, printed", *printed),
            ("  ours", *ours),
            ("  stopped as the proof needs", *proof),
        ]
    seen = drawer_delta(algorithm2(Fraction(1), DELTAS[3], 1, 2), 2, Fraction(1), 1)
    return Reproduction(
        "kii-table1",
        "Table 1: entries of the urn, eps = 1, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS]),
        tuple(rows),
        errors=(
            "delta = 1e-4, n = 1: 30641 is a misprint of 30461.",
            "Algorithm 2, line 16: the count of 0 is D[L], not D[i].",
            "Conjecture 4.2.1 is false: n = 2, eps = 0.1, init = 19 gives D = [19, 10] and a step up of 822/380 > e^0.1; with "
            "delta = 0.01 and the stop rule of line 10 the exact delta is 0.017885.",
            "Proposition 4.3 is false: 295,384 entries exceed its bound of (1/delta)^(1/2) init = 100,000.",
            f"Section 3.1 overlooks that P2 knows its indices: for n = 2, delta = 1e-10 its own delta is {float(seen.high):.3g}.",
            "Section 3.1 covers a P1 that receives nothing. One that opens the result recognises its own ciphertexts in the sum, "
            "unless P2 re-randomises.",
        ),
        notes=(_HOW,),
    )


def table2() -> Reproduction:
    """Entries by eps and number of draws."""
    rows: list[tuple[Any, ...]] = []
    for eps, printed in zip(EPSES, TABLE2, strict=True):
        ours = [algorithm2(eps, DELTAS[1], 1, n).size for n in DRAWS]
        rows += [(f"eps {float(eps):g}, printed", *printed), ("  ours", *ours)]
    return Reproduction(
        "kii-table2",
        "Table 2: entries of the urn, delta = 1e-6, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS]),
        tuple(rows),
        notes=(_HOW,),
    )


def table3() -> Reproduction:
    """E|Z| by eps and number of draws."""
    rows: list[tuple[Any, ...]] = []
    for eps, printed in zip(EPSES, TABLE3, strict=True):
        ours = [law_of([algorithm2(eps, DELTAS[1], 1, n)], n).mean_abs for n in DRAWS]
        rows.append((f"eps {float(eps):g}, printed", *printed, ""))
        rows.append(("  ours", *[f"{float(mean):.4f}" for mean in ours], f"{1 / math.sinh(float(eps)):.4f}"))
    return Reproduction(
        "kii-table3",
        "Table 3: E|Z|, delta = 1e-6, sensitivity 1",
        ("", *[f"n = {n}" for n in DRAWS], "discrete Laplace"),
        tuple(rows),
        errors=(
            "eps = 1, n = 1: 0.8509, not 0.852.",
            "E|Z| of the discrete Laplace law is 1/sinh(eps/sensitivity), not sensitivity/eps.",
        ),
        notes=(_HOW,),
    )


def ratios(law: Law) -> list[tuple[int, float]]:
    """k and ln P(k + 1) - ln P(k), the function that the paper's figures show."""
    pairs = zip(law.weights, law.weights[1:], strict=False)
    return [(k, math.log(b) - math.log(a)) for k, (a, b) in enumerate(pairs, law.lowest)]


def curves(name: str) -> tuple[Urn, int, Law]:
    """The urn of a figure, how often it is drawn from, and the law of the sum."""
    if name == "kii-fig1":
        urn, draws = rounded_laplace(20), 1
    elif name == "kii-fig2":
        urn, draws = rounded_root(20), 2
    elif name == "kii-fig3":
        urn, draws = algorithm2(Fraction(1), DELTAS[3], 1, 2), 2
    else:
        urn, draws = algorithm2(Fraction(1, 10), DELTAS[2], 1, 4), 4
    return urn, draws, law_of([urn], draws)


def _figure(
    name: str, title: str, eps: Fraction, printed: dict[str, str], errors: tuple[str, ...]
) -> Reproduction:
    urn, _, law = curves(name)
    step = dict(ratios(law))
    own = dict(enumerate(urn.counts, urn.first))
    beyond = [k for k, slope in step.items() if abs(slope) > float(eps) * (1 + 1e-12)]
    ends = Fraction(law.weights[0], law.total)
    rows: list[tuple[Any, ...]] = [
        ("entries", printed.get("entries", "-"), f"{urn.size:,}", ""),
        ("memory at 64 bit", printed.get("memory", "-"), _memory(urn), ""),
        ("P(largest value)", printed.get("delta", "-"), f"{float(ends):.3g}", ""),
        ("exact delta", "-", f"{float(exact_delta(law, eps, 1).high):.3g}", ""),
        ("k with |ln ratio| > eps", "-", str(len(beyond)), ""),
        ("k", "entries of k", "P(k)", "ln P(k+1) - ln P(k)"),
    ]
    for k, weight in enumerate(law.weights, law.lowest):
        slope = f"{step[k]:+.5f}" if k in step else "-"
        rows.append((str(k), own.get(k, 0), f"{weight / law.total:.4e}", slope))
    note = f"`oboro secure figure {name} -o {name}.svg` draws it"
    return Reproduction(
        name, title, ("", "printed", "ours", ""), tuple(rows), errors=errors, notes=(note, _HOW)
    )


def _memory(urn: Urn) -> str:
    size = Fraction(8 * urn.size, 2**20)
    return f"{float(size / 1024):.2f} GiB" if size >= 1024 else f"{float(size):.2f} MiB"


def figure1() -> Reproduction:
    printed = {"entries": "1,049,874,877", "memory": "250 GiB", "delta": "9.52e-10"}
    errors = (
        "1,049,874,877 entries of 64 bit are 7.82 GiB, not 250 GiB: 32 times less.",
        "the factor is 1/(smallest value), not its ceiling: that would give one entry more.",
    )
    return _figure(
        "kii-fig1",
        "Figure 1: the rounded truncated discrete Laplace law, refuted",
        Fraction(1),
        printed,
        errors,
    )


def figure2() -> Reproduction:
    printed = {"entries": "184,540", "memory": "45 MiB", "delta": "2.94e-11"}
    errors = (
        "184,540 entries of 64 bit are 1.41 MiB, not 45 MiB: 32 times less.",
        "the factor is 1/(smallest value), not its ceiling: that would give two entries more.",
    )
    return _figure(
        "kii-fig2",
        "Figure 2: its rounded square root under convolution, refuted",
        Fraction(1),
        printed,
        errors,
    )


def figure3() -> Reproduction:
    printed = {"entries": "295,384", "memory": "2.25 MiB", "delta": "1.15e-11"}
    return _figure(
        "kii-fig3", "Figure 3: Algorithm 2, eps = 1, n = 2, delta = 1e-10", Fraction(1), printed, ()
    )


def figure4() -> Reproduction:
    printed = {"delta": "7.08e-10"}
    title = "Figure 4: Algorithm 2, eps = 0.1, n = 4, delta = 1e-8: the law of one draw is shaped like a W"
    return _figure("kii-fig4", title, Fraction(1, 10), printed, ())


REPRODUCTIONS = (
    Reproducible("kii-table1", "entries of the urn by delta and number of draws", table1),
    Reproducible("kii-table2", "entries of the urn by eps and number of draws", table2),
    Reproducible("kii-table3", "E|Z| by eps and number of draws", table3),
    Reproducible("kii-fig1", "a rounded Laplace law, refuted", figure1),
    Reproducible("kii-fig2", "its rounded square root, refuted", figure2),
    Reproducible("kii-fig3", "the law of Algorithm 2 at n = 2", figure3),
    Reproducible("kii-fig4", "the law of Algorithm 2 at n = 4, eps = 0.1", figure4),
)
