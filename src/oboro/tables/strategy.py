"""What a strategy is: how a table is measured at a pure guarantee, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from oboro.errors import DomainError
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.tables.cells import Cells
from oboro.tables.layout import MOST_BITS, Layout

Noise = Callable[[Layout, Fraction, Unit], DiscreteLaplace | DiscreteGaussian]
Measure = Callable[[Cells, Layout, Fraction, Unit, Bits, int | None, int], Sequence[Cells]]
Variance = Callable[[Layout, Fraction, Unit, int], float]


def _fits(layout: Layout) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Takes sorted cells and gives sorted cells, with counts that are whole and above 0."""

    name: str
    title: str
    noise: Noise
    measure: (
        Measure  # the cells, where they lie, eps, unit, bits, a public total, and how often: one result each
    )
    variance: Variance  # of the sum of an aligned block of 2^height cells, before negative counts become 0
    largest_bits: int = MOST_BITS
    why: str = "a cell is named by a number of 62 bits"
    fits: Callable[[Layout], str | None] = _fits  # what it needs, if the domain is not of the right form
    forecast: Callable[[Layout, Fraction, Unit, int | None], Forecast] | None = (
        None  # if it has one of its own
    )
    takes_total: bool = False  # can start from a public total
    notes: tuple[str, ...] = ()

    def check(self, layout: Layout) -> None:
        """Refuses a domain that this strategy cannot serve."""
        if layout.bits > self.largest_bits:
            raise DomainError(
                f"the domain is too large for strategy {self.name!r}",
                given=f"2^{layout.bits} cells",
                needed=f"at most 2^{self.largest_bits}: {self.why}",
                fix='strategy="wavelet"',
            )
        needed = self.fits(layout)
        if needed is not None:
            raise DomainError(
                f"strategy {self.name!r} cannot serve this domain",
                given=", ".join(layout.domain.names),
                needed=needed,
                fix='strategy="wavelet"',
            )


def counts_move(unit: Unit) -> int:
    """How far one unit moves all counts together, which is what the rivals start from.

    Privacy
        A unit adds at most `max_per_cell` to each of at most `max_cells` cells, or 1 for each of at most
        `max_rows` rows. Under replace it takes that away in one place and adds it in another.
    """
    return unit.contributions * (unit.max_per_cell or 1) * (2 if unit.adjacency == "replace" else 1)
