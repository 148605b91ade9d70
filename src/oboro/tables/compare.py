"""Every strategy side by side, on PUBLIC data: nothing of this is private, and nothing is spent."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from oboro.domain import Domain
from oboro.errors import DomainError
from oboro.exact import Number, about, positive, whole
from oboro.kinds import names_of, takes
from oboro.language import Lines, aligned
from oboro.noise import Bits, system_bits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import BlockError, Cells, Layout, block_errors, dense_block_errors
from oboro.tables.input import read_cells
from oboro.tables.papers.dense import Listing
from oboro.tables.plan import STRATEGIES, strategy_called
from oboro.tables.strategy import Strategy

if TYPE_CHECKING:
    from oboro.arrays import Data


@dataclass(frozen=True, slots=True)
class Row:
    """How one strategy did; or why it could not."""

    strategy: str
    errors: tuple[BlockError, ...] = ()
    published: int = 0  # cells that are not 0
    real: int = 0  # those of them that are not 0 in truth
    seconds: float = 0.0
    megabytes: float = 0.0
    raw: tuple[BlockError, ...] = ()  # of the estimates as they come, negative ones and all
    negative: float = 0.0  # share of cells that these put below 0
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Root mean square error by size of block, for each strategy.

    >>> found = ob.tables.compare(cells, mesh, eps=1, count="people", strategies=["laplace"])
    >>> found.cells, found.people
    (4096, 150)
    """

    cells: int
    people: int
    eps: Fraction
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, object]:
        rows = []
        for row in self.rows:
            record: dict[str, object] = {"strategy": row.strategy, "refused": row.refused}
            if row.refused is None:
                record |= {
                    "published": row.published,
                    "real": row.real,
                    "seconds": row.seconds,
                    "megabytes": row.megabytes,
                }
                record |= {"rmse": {f"2^{error.height}": error.rmse for error in row.errors}}
                record |= {"negative": row.negative} if row.raw else {}
                record |= (
                    {"rmse_with_negatives": {f"2^{error.height}": error.rmse for error in row.raw}}
                    if row.raw
                    else {}
                )
            rows.append(record)
        return {"cells": self.cells, "people": self.people, "eps": str(self.eps), "strategies": rows}

    def __str__(self) -> str:
        heights = next((row.errors for row in self.rows if row.errors), ())
        head = ["RMSE by cells", *(f"2^{error.height}" for error in heights), "shown", "real", "s", "MB"]
        lines, refused = [head], []
        for row in self.rows:
            if row.refused is not None:
                refused.append(f"  {row.strategy}: {row.refused}")
                continue
            real = f"{100 * row.real / row.published:.0f}%" if row.published else "-"
            facts = [f"{row.published:,}", real, f"{row.seconds:.2f}", f"{row.megabytes:.0f}"]
            lines.append([row.strategy, *(about(error.rmse, 3) for error in row.errors), *facts])
            if row.raw:
                negative = f"with {100 * row.negative:.0f}% negative"
                lines.append(
                    [Lines(f"  {negative}"), *(about(error.rmse, 3) for error in row.raw), "", "", "", ""]
                )
        return "\n".join([*aligned(lines, indent=0), *refused])


@takes(domain=Domain, unit=Unit, strategies=names_of)
def compare(
    data: Data,
    domain: Domain,
    *,
    eps: Number,
    count: str | None = None,
    unit: Unit | None = None,
    strategies: Sequence[str] | None = None,
    trials: int = 1,
    bits: Bits | None = None,
) -> Comparison:
    """Runs strategies on PUBLIC data and says how far off each is. Not for data that must be protected.

    >>> found = ob.tables.compare(cells, mesh, eps=1, count="people", strategies=["laplace", "wavelet"])
    >>> found.people, [row.strategy for row in found.rows]
    (150, ['laplace', 'wavelet'])
    """
    layout, unit, exact = Layout(domain), unit or Unit.cells(), positive("eps", eps)
    trials = whole("trials", trials, least=1, most=10**6)
    truth = read_cells(data, layout, unit, count)
    chosen = [strategy_called(name)(layout, Pure(exact), unit) for name in strategies or STRATEGIES]
    rows = tuple(_row(strategy, truth, trials, bits or system_bits()) for strategy in chosen)
    return Comparison(layout.cells, int(truth.counts.sum()), exact, rows)


def _row(strategy: Strategy, truth: Cells, trials: int, bits: Bits) -> Row:
    try:
        strategy.check_domain()
    except DomainError as error:
        return Row(strategy.name, refused=f"{error.message} ({error.needed})")
    none = Cells(truth.keys[:0], truth.counts[:0])
    strategy.measure(none, bits)  # compiles, and finds the strategy that `matrix` looks for
    results, seconds, peak = [], 0.0, 0
    for trial in range(trials):
        started = time.perf_counter()
        results.append(strategy.measure(truth, bits)[0])
        seconds += time.perf_counter() - started
        if trial == 0:
            peak = _memory(strategy, truth, bits)
    errors = [block_errors(truth, published, strategy.layout) for published in results]
    mean = tuple(_mean([each[i] for each in errors]) for i in range(len(errors[0])))
    last = results[-1]
    raw, negative = _raw(strategy, truth, bits)
    return Row(
        strategy.name,
        mean,
        last.keys.size,
        _shared(truth, last),
        seconds / trials,
        peak / 2**20,
        raw,
        negative,
    )


def _raw(strategy: Strategy, truth: Cells, bits: Bits) -> tuple[tuple[BlockError, ...], float]:
    """What a rival estimates before negative counts become 0."""
    if not isinstance(strategy, Listing):
        return (), 0.0
    estimates = next(strategy.estimates(truth, bits, 1))
    everywhere = truth.dense(strategy.layout.bits)
    return tuple(dense_block_errors(everywhere, estimates)), float((estimates < 0).mean())


def _mean(errors: list[BlockError]) -> BlockError:
    """Over trials: squares are averaged before the root is taken."""
    squares = sum(error.rmse**2 for error in errors) / len(errors)
    return BlockError(
        errors[0].height, errors[0].blocks, squares**0.5, sum(error.mae for error in errors) / len(errors)
    )


def _memory(strategy: Strategy, truth: Cells, bits: Bits) -> int:
    """Bytes at the peak of one more run; tracing slows it down, so that this run is not timed."""
    tracemalloc.start()
    try:
        strategy.measure(truth, bits)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _shared(truth: Cells, published: Cells) -> int:
    return int(np.isin(published.keys, truth.keys, assume_unique=True).sum())
