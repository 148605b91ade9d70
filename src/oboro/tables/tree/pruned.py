"""A tree that looks, privately: at every level a place is divided only as far as the people found in it allow.

Its levels and shares are those of a tree, planned for what readers ask. The first two are counted as a whole. From then on every
level is a round: a place is divided into 1, 2, 4, ... parts (of a table of two dimensions 1, 4, 16, ...), one for every 1.8/eps' of the people that
were found in it, eps' being what this level is given of eps, and no further than to the level. A place where nobody was found is counted again as it
is. Then least squares over all of it, and whole numbers of 0 or more (division.py). A part's people are spread evenly.

Where many people live this is the tree, with the tree's errors for blocks of every size. Where few do, noise is on few and large places, and
what is lost by spreading people evenly is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Integers
from oboro.exact import show
from oboro.noise import Bits
from oboro.progress import progress
from oboro.release import Forecast, Part, part
from oboro.tables.cells import Cells, Layout
from oboro.tables.strategy import (
    Noise,
    Strategy,
    block_name,
    counts_move,
    counts_move_squared,
    few_people,
    forecast_of,
)
from oboro.tables.tree.adaptive import PEOPLE_PER_PART, Adaptive, parts_in
from oboro.tables.tree.answers import Round
from oboro.tables.tree.division import Counted, Nodes, count, spread
from oboro.tables.tree.intervals import MOST, in_shapes, may_lack_intervals, unreadable
from oboro.tables.tree.lattice import Lattice, Level, Tree, lattice_of
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.planner import moments
from oboro.tables.tree.strategy import PlannedTree, fits_memory, places_of
from oboro.tables.tree.workload import Design, block, precision

_WHOLE = 2  # levels that are counted as a whole


def heights_of(layout: Layout, design: Design, step: int) -> list[int]:
    """How many bits of the keys lie below each level of a design, the coarsest first: those nearest to its places."""
    lattice = lattice_of(layout.domain)
    (tree,) = lattice.trees
    known = [layout.bits, *range((layout.bits - 1) // step * step, 0, -step)]
    found = []
    for (at,) in design.levels:
        off = [abs(math.log(places_of(layout, lattice, height)[0] / tree.under(at))) for height in known]
        found.append(0 if at == tree.depth else known[int(np.argmin(off))])
    return found


@dataclass(frozen=True, eq=False)
class Pruned(Adaptive):
    """Counts at the levels of a design, each divided from the level before as far as the noisy counts so far allow.

    Privacy
        Rounds follow one another, one for each level of the design, the coarsest first. The first two count all nodes of their level,
        which are public. What a later round counts, its *partition*, divides the nodes of the round before, or counts them again as they are: how
        finely each is divided is a function of public facts and of the noisy counts of earlier rounds, and of nothing else (post-processing). Given
        these, the nodes of a round are fixed and do not overlap. So one unit moves the counts of a round by at most
        D = `counts_move(unit)` in all (parallel composition), and a round whose level has share w of eps has discrete
        Laplace noise of scale D/(w eps) on every node that can hold somebody, empty or not, and costs w eps. Rounds add up by
        adaptive sequential composition [Dwork, Rothblum, Vadhan 2010; under zCDP, Bun, Steinke 2016, Lemma 2.3]; the shares of a design
        add up to 1, so that all of it costs eps, however it is divided. Levels that lie at the same nodes are rounds of their own.

        With delta the noise is that of `Design.gaussian`, and rounds add up in zCDP.

        A public `total` is not measured; it is allowed under replace. Least squares, whole numbers and the spreading of
        people over the cells of a part look at noisy counts, public facts and coins.
    """

    planned = True
    notes = (
        "where people are few, fewer and larger places are counted, and people spread evenly in them: "
        "on made-up tables blocks of every size then have smaller errors than these, on the whole",
    )

    def needs(self) -> str | None:
        several = len(self.layout.domain) > 1
        return "one column of places, numbers or dates" if several else fits_memory(self.layout)

    def check(self) -> None:
        Strategy.check(self)
        if self.workload is not None:
            self.workload.check(self.layout.domain.names)
        self.chosen.check(lattice_of(self.layout.domain))

    @cached_property
    def chosen(self) -> Design:
        """The levels of the tree that this one is, where many people live."""
        facts = (self.layout, self.guarantee, self.unit, self.total, self.workload, self.design)
        return PlannedTree(*facts).chosen

    @property
    def _step(self) -> int:  # type: ignore[override]
        """Of a line every division is into two parts, or two of two, and so on; of other tables into four."""
        return 1 if len(self.layout.sizes) == 1 else 2

    @cached_property
    def _shared(self) -> list[tuple[int, Fraction, Noise]]:
        """Heights, shares and noises of the levels, the coarsest first. Privacy: see above."""
        heights = heights_of(self.layout, self.chosen, self._step)
        noises = self.chosen.noises(self.eps, self.unit)
        return sorted(zip(heights, self.chosen.shares, noises, strict=True), key=lambda own: -own[0])

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return tuple(share for _, share, _ in self._shared)

    @cached_property
    def _levels(self) -> list[tuple[int, Noise]]:
        return [(height, noise) for height, _, noise in self._shared]

    @property
    def _whole(self) -> list[tuple[int, Noise]]:
        """Those that are counted as a whole: one at least, and of several never the last."""
        return self._levels[: max(min(_WHOLE, len(self._levels) - 1), 1)]

    @property
    def _rounds(self) -> list[tuple[int, Noise]]:
        return self._levels[len(self._whole) :]

    @property
    def noise(self) -> Noise:
        return self._levels[-1][1]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        moves = counts_move(self.unit) if self.chosen.rho is None else counts_move_squared(self.unit)
        whole = len(self._whole)
        return tuple(
            part(noise, block_name(self.layout, height) + (", or larger" if at >= whole else ""), moves=moves)
            for at, (height, noise) in enumerate(self._levels)
        )

    def _measured(self, cells: Cells, bits: Bits) -> Measured:
        layout = self.layout
        progress("counting", 0.0)
        counted = []
        for height, noise in self._whole:
            nodes = Nodes.of_depth(layout, layout.bits - height)
            counted.append(count(nodes, cells, layout, noise, bits))
        carried = [own.noisy for own in counted]
        for at, (height, noise) in enumerate(self._rounds):
            steps = self._steps(nodes, counted, noise, height)
            nodes = nodes.divided(steps)
            counted.append(count(nodes, cells, layout, noise, bits))
            carried += [steps, counted[-1].noisy]
            progress("counting", (at + 1) / len(self._rounds))
        found = self._division(nodes, counted)
        published = spread(nodes, found.of_parts(found.held), layout, bits)
        estimates = self._estimates(published, counted[-1])
        return Measured(published.keys, published.counts, tuple(carried), estimates)

    def _estimates(self, published: Cells, last: Counted) -> Integers:
        """Of a cell that is a part by itself its own noisy count, of others what is published."""
        place = last.nodes.place(published.keys)
        alone = last.nodes.heights[place] == 0
        return np.where(alone, np.maximum(last.noisy[place], 0), published.counts)

    @property
    def crowds(self) -> tuple[int, ...]:
        """So many that one more, if it could be seen, would have a place divided: where parts should be 2, or 1.4."""
        by = 2 ** (self._step / 2)
        sds = [noise.sd for _, noise in self._rounds]
        return tuple(dict.fromkeys(math.floor(by * PEOPLE_PER_PART * sd / math.sqrt(2)) for sd in sds))

    # What the published file says: see `Adaptive.intervals` and `answer`.

    def _read(self, published: Measured) -> tuple[list[Counted], list[Round]]:
        whole, later = len(self._whole), self._rounds
        if len(published.noisy) != whole + 2 * len(later):
            raise unreadable()
        every = [Nodes.of_depth(self.layout, self.layout.bits - height) for height, _ in self._whole]
        noisy = in_shapes(published.noisy[:whole], [(nodes.size,) for nodes in every])
        counted = [
            Counted(nodes, own, noise)
            for nodes, own, (_, noise) in zip(every, noisy, self._whole, strict=True)
        ]
        nodes, rounds, rest = every[-1], [], published.noisy[whole:]
        for (height, noise), steps, own in zip(later, rest[::2], rest[1::2], strict=True):
            (steps,) = in_shapes([steps], [(nodes.size,)])
            odd = (steps > 0) & ((nodes.heights - steps) % self._step != 0)
            if ((steps < 0) | (steps > nodes.heights - height) | odd).any():
                raise unreadable()
            (own,) = in_shapes([own], [(parts_in(steps),)])
            finer = nodes.divided(steps)
            rounds.append(Round(nodes.starts, nodes.heights - steps, np.left_shift(1, steps), own, noise))
            nodes = finer
            counted.append(Counted(nodes, own, noise))
        return counted, rounds

    def _heights(self, rounds: int) -> tuple[int, ...]:
        return tuple(height for height, _ in self._rounds)

    def _lattice(self, first: Sequence[Counted]) -> tuple[Lattice, list[Level]]:
        return _of_keys([self.layout.bits - height for height, _ in self._whole])

    # What can be said beforehand: the errors of a tree at these levels, which this is where people are many.

    def variance(self, height: int) -> float:
        bits = self.layout.bits
        lattice, levels = _of_keys([bits - own for own, _ in self._levels])
        mu = moments(lattice, levels, [precision(noise) for _, noise in self._levels], self.total)
        return float((block(lattice.trees[0], bits - height) / mu).sum())

    def forecast(self, expected_total: int | None = None) -> Forecast:
        return forecast_of(self, expected_total)

    def remarks(self, expected_total: int | None) -> list[str]:
        return [
            *([] if expected_total is None else few_people(self, expected_total)),
            *self.lacking(expected_total),
        ]

    def lacking(self, people: int | None) -> list[str]:
        counts = sum(2.0 ** (self.layout.bits - height) for height, _ in self._whole)
        most = counts if self._rounds else 0.0
        for height, noise in self._rounds:
            found = math.inf if people is None else 2 * people / (PEOPLE_PER_PART * noise.sd / math.sqrt(2))
            most = min(2.0 ** (self.layout.bits - height), most + found)
            counts += 2 * most
        return [may_lack_intervals(int(counts))] if counts > MOST else []

    def words(self) -> dict[str, object]:
        """As those of a tree: every level, its share and its noise."""
        levels = [
            {"level": own.of, "share": show(share), **own.noise.to_dict()}
            for own, share in zip(self.parts, self.shares, strict=True)
        ]
        asked = {} if self.workload is None else {"planned for": str(self.workload)}
        sensitivity = {"sensitivity": str(counts_move(self.unit))}
        return {**self.noise.to_dict(), "strategy": self.name, "levels": levels, **sensitivity, **asked}


def _of_keys(depths: list[int]) -> tuple[Lattice, list[Level]]:
    """The tree of halves down to the deepest of some levels, and these levels."""
    deepest = max(depths)
    tree = Tree("block", (1 << deepest,), (((0, 2),),) * deepest, ((0,),))
    return Lattice((tree,)), [(depth,) for depth in depths]
