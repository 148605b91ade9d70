"""What a plan means for cells: how many can be trusted, and how many show people though nobody is there.

That depends on how people live. So the method is tried out on the generated city (below), thinned or filled to the
number of people that is expected, and on other shapes of which it makes a range: a metropolis that ends at mountains and
sea, a region of which the sea takes a part, a country of towns with next to nobody between them, and countryside where
farms lie beside empty fields. In the city and the first two of these all values of the other columns are as likely; in the
last two few of them hold most people, as hours of work do. Made-up data, and made-up noise from a fixed seed. No data is
looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.exact import about, percent, remembered
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.tables.cells import Cells, Layout
from oboro.tables.strategy import Noise
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.measure import cut_of_cells, project, spine_of
from oboro.tables.tree.planner import least_squares
from oboro.tables.tree.workload import Design, precision

if TYPE_CHECKING:
    from oboro.tables.tree.filtered import Filtered


_TRUSTED = 0.2
_TRIED = 2**18  # leaves of the made-up table
_MOST_PEOPLE = 1_000_000  # in a made-up sparse table
_PLACES = 18  # bits that say where in the city a cell of a sparse table is


@dataclass(frozen=True, slots=True)
class Outlook:
    """Shares are of 1."""

    total: int  # people
    trusted: float  # share of inhabited cells that come out within 20% of the truth
    people: float  # share of people in those
    published: float  # how many cells
    cells: int  # of so many
    empty: float  # share of published cells that hold nobody in truth

    @property
    def notes(self) -> tuple[str, str]:
        shown = f"{percent(self.published / self.cells)} of all cells"
        if self.published < 0.001 * self.cells:
            shown = f"about {about(self.published, 2)} cells"
        return (
            f"if {self.total:,} people lived as in the generated city, {percent(self.trusted)} of the inhabited cells, with "
            f"{percent(self.people)} of the people, would be within 20% of the truth",
            f"and {shown} would be published, {percent(self.empty)} of which hold nobody in truth",
        )


@remembered(16)
def tree_outlook(
    lattice: Lattice,
    cells: int,
    design: Design,
    noises: tuple[Noise, ...],
    total: int,
    share: Fraction | None = None,
    shape: str = "city",
) -> Outlook:
    """A planned tree: a piece of the table of a size that is quick."""
    small, levels, kept = _smaller(lattice, design, noises)
    rng = np.random.default_rng(4)
    truth = _people(small, total / cells * small.leaves, rng, shape)
    noisy = [
        np.asarray(small.sums(truth, level), np.int64)
        + np.rint(rng.laplace(0, noise.sd / math.sqrt(2), small.nodes(level))).astype(np.int64)
        for level, noise in zip(levels, kept, strict=True)
    ]
    found = least_squares(small, levels, [precision(noise) for noise in kept], noisy)
    published = project(small, found, None)
    if share is not None:
        finest = levels.index(small.finest)
        published[noisy[finest] < cut_of_cells(noisy[finest].reshape(-1), None, kept[finest], share)] = 0
    shown, lived = published > 0, truth > 0
    empty = int((shown & ~lived).sum()) / max(int(shown.sum()), 1)
    near = np.abs(published - truth) <= _TRUSTED * truth
    trusted = int((near & lived).sum()) / max(int(lived.sum()), 1)
    people = int(truth[near & lived].sum()) / max(int(truth.sum()), 1)
    return Outlook(total, trusted, people, int(shown.sum()) / shown.size * cells, cells, empty)


def _smaller(
    lattice: Lattice, design: Design, noises: Sequence[Noise]
) -> tuple[Lattice, list[Level], list[Noise]]:
    """The same lattice without the first divisions of its places: a piece of the table, of a size that is quick."""
    spine = spine_of(lattice)
    tree, cut = lattice.trees[spine], 0
    others = lattice.leaves // tree.leaves
    while cut < tree.depth and others * tree.under(cut) > _TRIED:
        cut += 1
    piece = replace(tree, steps=tree.steps[cut:], labels=())
    small = Lattice((*lattice.trees[:spine], piece, *lattice.trees[spine + 1 :]))
    levels, kept = [], []
    for level, noise in zip(design.levels, noises, strict=True):
        if level[spine] >= cut:
            levels.append((*level[:spine], level[spine] - cut, *level[spine + 1 :]))
            kept.append(noise)
    return small, levels, kept


SHAPES = ("city", "metropolis", "region", "country", "countryside")
_UNEVEN = ("country", "countryside")  # in the other columns too: the values by rank to this power
_FALLS = 1.5


def range_of(found: Sequence[Outlook]) -> str:
    """What is published, and how much of it is empty, over several shapes."""
    shown = [one.published / one.cells for one in found]
    empty = [one.empty for one in found]
    return (
        "in a metropolis, a city, a region by the sea, a country of towns or open countryside: "
        f"{percent(min(shown))} to {percent(max(shown))} of all cells published, "
        f"{percent(min(empty))} to {percent(max(empty))} of which hold nobody"
    )


def shape_of(shape: str) -> Floats:
    """How people live, on 512 x 512 places."""

    found = city().astype(float)
    row, col = np.mgrid[0:512, 0:512]
    if shape == "region":  # the sea takes a bay
        found[(row - 200) ** 2 / 3 + (col - 330) ** 2 < 110**2] = 0
    elif shape == "metropolis":  # full as far as it goes: a third is sea and mountains, where nobody lives
        found = np.random.default_rng(8).lognormal(0, 1, found.shape)
        found[(row + col < 400) | (row + col > 624 + 0.2 * col)] = 0
    elif shape == "country":
        rng = np.random.default_rng(9)
        weights = rng.pareto(1.1, 150) + 0.1
        found = np.zeros((512, 512))
        for weight, (y, x) in zip(weights, rng.uniform(0, 512, (150, 2)), strict=True):
            wide = 1 + 1.5 * weight**0.4
            found += weight / wide**2 * np.exp(-((row - y) ** 2 + (col - x) ** 2) / (2 * wide**2))
        found *= rng.lognormal(0, 1.5, found.shape) * (
            rng.random(found.shape) < 0.35
        )  # beside fields and woods
    elif shape == "countryside":
        rng = np.random.default_rng(10)
        found = rng.lognormal(0, 2, found.shape) * (rng.random(found.shape) < 0.6)
    return found


def _people(lattice: Lattice, total: float, rng: np.random.Generator, shape: str = "city") -> Integers:
    """So many people, living in such a place, by chance in one of the values of the other columns: see above."""
    spine = spine_of(lattice)
    density = _city_in(lattice.trees[spine], shape_of(shape))
    along = [1] * len(lattice.trees)
    along[spine] = -1
    everywhere = np.broadcast_to(density.reshape(along), tuple(tree.leaves for tree in lattice.trees))
    mixed = np.random.default_rng(6)
    for axis, tree in enumerate(lattice.trees):
        if axis != spine and shape in _UNEVEN:
            along = [1] * len(lattice.trees)
            along[axis] = -1
            everywhere = everywhere * ((1 + mixed.permutation(tree.leaves)) ** -_FALLS).reshape(along)
    return np.asarray(rng.poisson(everywhere * (total / everywhere.sum())), np.int64)


def _city_in(tree: Tree, city: Floats) -> Floats:
    """The city's density at the places of a column: its middle, along the first two directions."""
    lengths = [max(math.prod(tree.side(axis, 0) for axis in axes), 1) for axes in tree.directions] or [1]
    row, col = (
        np.linspace(0.5 - min(n / 1024, 0.5), 0.5 + min(n / 1024, 0.5), n, endpoint=False)
        for n in (*lengths, 1)[:2]
    )
    middle = city[(row * 512).astype(int)][:, (col * 512).astype(int)].reshape(-1)
    middle += 1e-6 * float(middle.mean()) + 1e-9  # nowhere is nobody for sure
    return np.resize(middle, tree.leaves)


def filtered_outlook(strategy: Filtered, total: int) -> Outlook:
    """A filtered table: places as in the city, people there in cells that hold five of them on average, few many.

    Shares hardly depend on how many people there are, so that no more than a million are tried out.
    """
    people, layout = min(total, _MOST_PEOPLE), strategy.layout
    truth = _scattered(layout, people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        (found,) = strategy.measure(truth, UnsafeDeterministicBits("forecast"))
    place = np.minimum(np.searchsorted(truth.keys, found.keys), max(truth.keys.size - 1, 0))
    real = truth.keys[place] == found.keys if truth.keys.size else np.zeros(found.keys.size, np.bool_)
    true = truth.counts[place[real]]
    near = np.abs(found.counts[real] - true) <= _TRUSTED * true
    empty = 1 - int(real.sum()) / max(real.size, 1) if real.size else 0.0
    trusted = int(near.sum()) / max(truth.keys.size, 1)
    share = int(true[near].sum()) / max(int(truth.counts.sum()), 1)
    return Outlook(people, trusted, share, float(found.keys.size), layout.cells, empty)


def _scattered(layout: Layout, people: int) -> Cells:
    """Cells that hold so many people in all, about five each, in places of the city."""

    rng = np.random.default_rng(4)
    full = max(people // 5, 1)
    row, col = (np.arange(512) for _ in range(2))
    order = np.argsort(_morton(row[:, None], col[None, :]), axis=None)
    density = city().reshape(-1)[order].astype(float)
    bits = min(_PLACES, layout.bits)
    density = density.reshape(1 << bits, -1).sum(axis=1)
    places = rng.choice(density.size, full, p=density / density.sum())
    below = layout.bits - bits
    keys = np.unique((places << below) | rng.integers(0, 1 << below, full))
    keys = keys[layout.possible(keys)]
    sizes = np.minimum(np.floor(rng.pareto(1.2, keys.size) + 1), 50_000)
    return Cells(
        keys, np.maximum(np.rint(sizes * (people / max(float(sizes.sum()), 1.0))), 1).astype(np.int64)
    )


def _morton(row: Integers, col: Integers) -> Integers:
    from oboro.domain.mesh import morton_pattern, weave

    return weave([row, col], morton_pattern([9, 9]))


# A city that does not exist: test data in the shape of the mesh that Terada et al. publish.
#
# 512 x 512 cells of 500 m, 36% of them inhabited, 40 million people: one metropolis on a bay, towns along lines,
# villages in valleys, and mountains and sea where nobody lives. Counts are heavy-tailed, as in a census.
#
# How it is made
#     1. Two fields of smooth noise: `ground`, which says where one can live at all (with the sea cut out of the
#        south-east), and `grain`, which makes neighbouring cells differ.
#     2. Density falls off from a few hundred centres, whose sizes follow a Pareto law; the largest is the
#        metropolis on the bay.
#     3. The 36% of cells that are habitable most clearly are inhabited. Densities are scaled to 40 million and
#        rounded by chance, at least 1 in each inhabited cell.
#
# The constants were chosen so that the wavelet method has the errors that the paper reports, within a few percent
# for blocks of up to 2^12 cells, and publishes about as many cells (26.7%; the paper's mesh 27.5%).
#
# The generator is seeded: this is data, not noise, and it is the same every time.

SIDE = 512
PEOPLE = 40_000_000
INHABITED = 0.363
_SEED = 20150915


@lru_cache(maxsize=1)
def city() -> Integers:
    """People in each cell, rows from the north and columns from the west. The array is not to be written to.

    >>> people = ob.tables.city()
    >>> people.shape, int(people.sum())
    ((512, 512), 39999967)
    """
    rng = np.random.default_rng(_SEED)
    row, col = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    ground = sum((_smooth(rng, size) * size**-0.4 for size in (8, 16, 32, 64)), np.zeros((SIDE, SIDE)))
    coast = 0.16 * _smooth(rng, 6) + 0.05 * _smooth(rng, 20)
    bay = np.hypot((row - 385) / 130, (col - 330 - (row - 385) / 3) / 58)
    ocean = (905 - row - 0.82 * col) / 100  # the bay opens to it in the south-east
    sea = np.minimum(bay, ocean) + coast
    density = np.full((SIDE, SIDE), 0.004)
    for rank, size in enumerate(np.sort(rng.pareto(0.95, 420) + 0.1)[::-1]):
        centre = (250.0, 265.0) if rank == 0 else rng.uniform(0, SIDE, 2)
        reach = 20.0 if rank == 0 else 0.8 * size**0.4
        near = tuple(
            slice(max(0, int(at - 60 * reach)), int(at + 60 * reach) + 1) for at in centre
        )  # e^-26 beyond
        away = np.hypot(row[near] - centre[0], col[near] - centre[1]) / reach
        density[near] += size**0.5 * np.exp(-(away**0.8))
    grain = np.exp(0.5 * rng.standard_normal((SIDE, SIDE)) + _smooth(rng, 90))
    habitable = 0.9 * _ranks(ground) + 0.6 * _ranks(density) + 0.05 * rng.random((SIDE, SIDE))
    habitable = np.where(sea > 1, habitable, 0)
    inhabited = habitable >= np.quantile(habitable, 1 - INHABITED)
    people = _scaled(np.where(inhabited, density * grain, 0))
    people = _scaled(people / (1 + people / 30_000))  # no cell of 500 m houses many more than that
    counts = np.where(inhabited, np.maximum(np.floor(people + rng.random(people.shape)), 1), 0).astype(
        np.int64
    )
    counts.setflags(write=False)
    return counts


def _scaled(people: Floats) -> Floats:
    return np.asarray(people * (PEOPLE / people.sum()))


def _smooth(rng: np.random.Generator, size: int) -> Floats:
    """Noise without waves much shorter than SIDE / size, of variance 1."""
    waves = np.fft.rfft2(rng.standard_normal((SIDE, SIDE)))
    across = np.hypot(np.fft.fftfreq(SIDE, 1 / SIDE)[:, None], np.fft.rfftfreq(SIDE, 1 / SIDE))
    field = np.fft.irfft2(waves * np.exp(-((across / size) ** 2)), (SIDE, SIDE))
    return np.asarray(field / field.std())


def _ranks(field: Floats) -> Floats:
    """Values replaced by their ranks, 0 to 1."""
    return np.asarray(np.argsort(np.argsort(field, axis=None)).reshape(field.shape) / field.size)
