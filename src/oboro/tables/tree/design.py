"""What a tree plan has decided: the levels to count, their shares of the budget, and their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from oboro.errors import ParameterError
from oboro.exact import positive, rational, show
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Unit
from oboro.tables.strategy import counts_move
from oboro.tables.tree.lattice import Lattice, Level

Noise = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class Design:
    """Levels and shares; the shares are rationals that add up to exactly 1. With `rho` the noise is Gaussian."""

    levels: tuple[Level, ...]
    shares: tuple[Fraction, ...]
    rho: Fraction | None = None

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
        moved = Fraction(unit.contributions * (unit.max_per_cell or 1)) ** 2
        moved *= 2 if unit.adjacency == "replace" else 1
        return [DiscreteGaussian(moved / (2 * share * rho)) for share in self.shares]

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"levels": [list(level) for level in self.levels]}
        record |= {"shares": [show(share) for share in self.shares]}
        return record | ({} if self.rho is None else {"rho": show(self.rho)})


def precision(noise: Noise) -> float:
    """One over the variance; noise that is all but never anything else than 0 still has one."""
    return 1 / max(noise.variance, 1e-12)


def described(design: Design, names: Sequence[str], eps: Fraction, unit: Unit) -> list[dict[str, str]]:
    """For the certificate: what each level is, its share, and its noise."""
    return [
        {"level": name, "share": show(share), **noise.to_dict()}
        for name, share, noise in zip(names, design.shares, design.noises(eps, unit), strict=True)
    ]


def design_from(record: Any, lattice: Lattice) -> Design:
    """Reads a design back, and refuses what is not a division of the budget."""
    try:
        found = Design(
            tuple(tuple(int(at) for at in level) for level in record["levels"]),
            tuple(rational("share", share) for share in record["shares"]),
            positive("rho", record["rho"]) if "rho" in record else None,
        )
    except (TypeError, KeyError):
        raise _wrong("no lists of levels and shares") from None
    known = set(lattice.levels)
    if len(found.levels) != len(found.shares) or len(set(found.levels)) != len(found.levels):
        raise _wrong(f"{len(found.levels)} levels and {len(found.shares)} shares")
    if any(level not in known for level in found.levels) or lattice.finest not in found.levels:
        raise _wrong(f"levels {[list(level) for level in found.levels]}")
    if any(share <= 0 for share in found.shares) or sum(found.shares) != 1:
        raise _wrong(f"shares {', '.join(show(share) for share in found.shares)}")
    return found


def _wrong(given: str) -> ParameterError:
    return ParameterError(
        "the levels and shares of the plan cannot be used",
        given=given,
        needed="different levels of the domain, that of cells among them, with positive shares that add up to 1",
        fix="a plan as ob.tables.plan makes it",
    )
