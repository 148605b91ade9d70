"""What a tree plan has decided: the levels to count, their shares of the budget, and their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from oboro.errors import ParameterError
from oboro.exact import positive, rational, show, whole
from oboro.kinds import list_of
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Unit
from oboro.tables.strategy import Noise, counts_move, counts_move_squared
from oboro.tables.tree.lattice import Lattice, Level


@dataclass(frozen=True, slots=True)
class Design:
    """Levels and shares; the shares are rationals that add up to exactly 1. With `rho` the noise is Gaussian."""

    levels: tuple[Level, ...]
    shares: tuple[Fraction, ...]
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        levels = tuple(tuple(whole("level", at) for at in list_of("level", level)) for level in self.levels)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "shares", tuple(rational("share", share) for share in self.shares))
        if len(self.levels) != len(self.shares) or len(set(self.levels)) != len(self.levels):
            raise _wrong(f"{len(self.levels)} levels and {len(self.shares)} shares")
        if any(share <= 0 for share in self.shares) or sum(self.shares) != 1:
            raise _wrong(f"shares {', '.join(show(share) for share in self.shares)}")
        if self.rho is not None:
            object.__setattr__(self, "rho", positive("rho", self.rho))

    def check(self, lattice: Lattice) -> None:
        """Refuses levels that the domain does not have, and a design that does not count cells."""
        known = all(
            len(level) == len(lattice.shape)
            and all(0 <= at < size for at, size in zip(level, lattice.shape, strict=True))
            for level in self.levels
        )
        if not known or lattice.finest not in self.levels:
            raise _wrong(f"levels {[list(level) for level in self.levels]}")

    def noises(self, eps: Fraction, unit: Unit) -> Sequence[Noise]:
        """The noise of each level."""
        return self.laplace(eps, unit) if self.rho is None else self.gaussian(self.rho, unit)

    def laplace(self, eps: Fraction, unit: Unit) -> list[DiscreteLaplace]:
        """The noise of each level under pure eps.

        Privacy
            The nodes of a level do not overlap, so that one unit moves their counts by no more, in all, than it
            moves the counts of cells: `counts_move(unit)`, D. Level l has discrete Laplace noise of scale
            D / (share_l eps) and costs share_l eps [Ghosh, Roughgarden, Sundararajan 2009]. Costs add up, and the
            shares add up to 1: eps in all.
        """
        return [DiscreteLaplace(counts_move(unit) / (share * eps)) for share in self.shares]

    def gaussian(self, rho: Fraction, unit: Unit) -> list[DiscreteGaussian]:
        """The noise of each level under zCDP.

        Privacy
            One unit adds at most m = max_cells max_per_cell (or max_rows) to the counts of a level, all of it to one
            node at worst: m in 2-norm. Under replace it also takes away as much elsewhere: m sqrt 2. Discrete
            Gaussian noise of variance D^2 / (2 share_l rho) costs share_l rho [Canonne, Kamath, Steinke 2020,
            Theorem 14]; costs add up to rho.
        """
        moved = counts_move_squared(unit)
        return [DiscreteGaussian(moved / (2 * share * rho)) for share in self.shares]


def precision(noise: Noise) -> float:
    """One over the variance; noise that is all but never anything else than 0 still has one."""
    return 1 / max(noise.variance, 1e-12)


def _wrong(given: str) -> ParameterError:
    return ParameterError(
        "the levels and shares of the plan cannot be used",
        given=given,
        needed="different levels of the domain, that of cells among them, with positive shares that add up to 1",
        fix="a plan as its function makes it",
    )
