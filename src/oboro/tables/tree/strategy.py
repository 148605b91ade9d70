"""The tree as a strategy: counts at a few levels of a product lattice, least squares, top-down projection."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice

import numpy as np

from oboro.domain import Domain
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.tables import wavelet
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.design import Design, Noise, precision
from oboro.tables.tree.forecast import tree_forecast
from oboro.tables.tree.lattice import Floats, Lattice, Tree, lattice_of
from oboro.tables.tree.measure import Measured, measure
from oboro.tables.tree.planner import plan_shares
from oboro.tables.tree.solve import moments
from oboro.tables.tree.workload import DEFAULT, Part, Workload, block, chosen, profiles

LARGEST = 2**26  # leaves: half a gigabyte for each array of 64 bits
_NOTES = ("least squares over all measured levels, then counts are kept at 0 or more",)


def preferred(layout: Layout, total: int | None) -> str:
    """The strategy where none is asked for: the tree, or for more cells than can be listed its filtered variant.

    That one cannot start from a public total; the wavelet can.
    """
    if _fits(layout) is None:
        return "tree"
    return "filtered" if total is None else "wavelet"


def planned(layout: Layout, unit: Unit, workload: Workload = DEFAULT, rho: Fraction | None = None) -> Design:
    """Levels and shares for a workload. From public facts, without data."""
    lattice = lattice_of(layout.domain)
    if workload.minimax:
        workload = Workload((Part("never_worse"),))
    if workload.minimax and rho is None:
        every = [_sizes(layout, lattice, height) for height in range(layout.bits + 1)]
        blocks = [h for h, own in enumerate(every) if all(map(_is_block, lattice.trees, own))]
        errors = _wavelet_errors(layout, unit)
        reference, sizes = tuple(errors[h] for h in blocks), tuple(every[h] for h in blocks)
        levels, shares = plan_shares(lattice, workload, 2, reference, sizes)
    else:
        levels, shares = plan_shares(lattice, workload, 2 if rho is None else 1)
    return Design(levels, shares, rho)


def _wavelet_errors(layout: Layout, unit: Unit) -> tuple[float, ...]:
    """The wavelet's variance for blocks of every height, as the planner counts: at eps 1 and D = 1, halved.

    Blocks of the wavelet are those of the first columns, summed over all of the later ones. Of others it says
    nothing as such; they may have any error.
    """
    noise = DiscreteLaplace(Fraction(1000 * wavelet.sensitivity(unit, layout.bits, layout.distinct)))
    moved = 2e6 * counts_move(unit) ** 2
    return tuple(
        wavelet.block_variance(noise, layout.bits, height) / moved for height in range(layout.bits + 1)
    )


def _sizes(layout: Layout, lattice: Lattice, height: int) -> tuple[int, ...]:
    """How many places of each column a block of keys covers."""
    found: list[int] = []
    axes = iter(zip(layout.sizes, layout.pattern, strict=True))
    for tree in lattice.trees:
        sides = [
            min(size, 1 << sum(place < height for place in places))
            for size, places in islice(axes, len(tree.sizes))
        ]
        found.append(math.prod(sides))
    return tuple(found)


def _is_block(tree: Tree, size: int) -> bool:
    """Whether so many places are a block that people ask for: not the first 8 x 8 meshes of 10 x 10."""
    halves = not tree.filled_up and all(arity & (arity - 1) == 0 for arity in tree.arities)
    nodes = {tree.under(level) for level in range(tree.depth + 1)} | {math.prod(tree.sizes)}
    return halves or tree.depth <= 1 or size in nodes


def variance(layout: Layout, design: Design, noises: list[Noise], profile: Floats) -> float:
    """The variance of a question from its profile over all levels, before negative counts become 0."""
    lattice = lattice_of(layout.domain)
    mu = moments(lattice, design.levels, [precision(noise) for noise in noises])
    return float((profile.reshape(lattice.shape) / mu).sum())


def block_profile(layout: Layout, height: int) -> Floats:
    """The profile of the cells that share all but the last `height` bits of their keys."""
    found, below = np.ones(()), height
    own_profiles = []
    for tree, column in reversed(list(zip(lattice_of(layout.domain).trees, layout.domain, strict=True))):
        own = Layout(Domain([column]))
        covered = min(below, own.bits)
        below -= covered
        sides = [1 << sum(place < covered for place in places) for places in own.pattern]
        fits = [
            level
            for level in range(tree.depth + 1)
            if all(
                tree.side(axis, level) == side or (side >= size and tree.side(axis, level) >= size)
                for axis, (side, size) in enumerate(zip(sides, tree.sizes, strict=True))
            )
        ]
        if fits:
            own_profiles.append(block(tree, fits[0]))
        else:
            places = tree.places(np.arange(tree.leaves))
            inside = [place < side for place, side in zip(places, sides, strict=True)]
            own_profiles.append(chosen(tree, np.logical_and.reduce(inside).astype(float)))
    for profile in reversed(own_profiles):
        found = np.multiply.outer(found, profile)
    return found


def tree_strategy(design: Design | None = None) -> Strategy:
    """The strategy of a design; without one, of the default workload on whatever domain is brought."""

    def of(layout: Layout, unit: Unit) -> Design:
        return design or planned(layout, unit)

    def noise(layout: Layout, eps: Fraction, unit: Unit) -> Noise:
        found = of(layout, unit)
        return found.noises(eps, unit)[found.levels.index(lattice_of(layout.domain).finest)]

    def run(
        cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits, total: int | None, trials: int
    ) -> list[Measured]:
        found = of(layout, unit)
        return measure(cells, layout, found, found.noises(eps, unit), bits, total, trials)

    def block_variance(layout: Layout, eps: Fraction, unit: Unit, height: int) -> float:
        found = of(layout, unit)
        return variance(layout, found, list(found.noises(eps, unit)), block_profile(layout, height))

    def forecast(layout: Layout, eps: Fraction, unit: Unit, expected_total: int | None) -> Forecast:
        found = of(layout, unit)
        notes = _NOTES if found.rho is None else (*_NOTES, _against_laplace(layout, found, eps, unit))
        return tree_forecast(layout, found, eps, unit, expected_total, notes)

    return Strategy(
        name="tree",
        title="counts at planned levels, least squares, projection",
        noise=noise,
        measure=run,
        variance=block_variance,
        fits=_fits,
        forecast=forecast,
        takes_total=True,
        notes=_NOTES,
    )


def _against_laplace(layout: Layout, design: Design, eps: Fraction, unit: Unit) -> str:
    """Whether the delta helps: Gaussian noise against Laplace noise, both planned for the default workload."""
    rho = design.rho
    profile = [
        np.log(_errors(layout, planned(layout, unit, DEFAULT, own), eps, unit)).mean() for own in (rho, None)
    ]
    ratio = math.exp(profile[0] - profile[1])
    if ratio < 1:
        return f"the delta helps: errors are {ratio:.2f} of those of Laplace noise at the same eps without it"
    return f"the delta does not help: errors are {ratio:.2f} times those of Laplace noise at the same eps without it"


def _errors(layout: Layout, design: Design, eps: Fraction, unit: Unit) -> Floats:
    """The standard errors of the questions of the default workload."""
    lattice = lattice_of(layout.domain)
    mu = moments(lattice, design.levels, [precision(noise) for noise in design.noises(eps, unit)])
    return np.sqrt(profiles(DEFAULT, lattice)[0] @ (1 / mu.reshape(-1)))


def _fits(layout: Layout) -> str | None:
    if lattice_of(layout.domain).leaves <= LARGEST:
        return None
    return f"at most 2^{LARGEST.bit_length() - 1} cells: every one is listed"


TREE = tree_strategy()
