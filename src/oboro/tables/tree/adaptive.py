"""A table that looks, privately: it is divided as finely as the people in each place allow.

What is counted, one after the other; every time the nodes cover the whole table and do not overlap
    1. quarters. Their sum, or a public total, says about how many people there are: N
    2. blocks, about (N eps)^0.6 of them
    3. parts of blocks. A block is divided into 1, 4, 16, ... parts: one for every 1.8/eps' of the people that were found in
       it, eps' being what these counts are given of eps. A block where nobody was found is counted again as it is
    4. where people are few, N eps / cells below 0.2: parts of these parts, by what was found in them
Then least squares over all of it, and whole numbers of 0 or more (division.py). A part's people are spread evenly.

This pays because noise on a part does not grow with its size, while what is lost by spreading people evenly is small
where there are few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Grid, Mesh
from oboro.exact import about
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.noise.laplace import as_float, check_level
from oboro.privacy import Approx
from oboro.progress import progress
from oboro.release import Forecast, Part, part
from oboro.tables.cells import LARGEST_TOTAL, Cells
from oboro.tables.strategy import Noise, Strategy, counts_move, counts_move_squared, forecast_of
from oboro.tables.tree.answers import Region, Round, Top, Where, least_squares_top, region_of
from oboro.tables.tree.division import Counted, Division, Nodes, count, spread
from oboro.tables.tree.edges import bounds_across
from oboro.tables.tree.intervals import MOST, Answer, hull, in_shapes, may_lack_intervals, unreadable
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.planner import moments
from oboro.tables.tree.rows import COARSE, TURNS, Coins, Others, from_threshold
from oboro.tables.tree.strategy import are, rho_of
from oboro.tables.tree.workload import block, precision

QUARTERS = Fraction(10, 100)
MANY = (Fraction(30, 100), Fraction(60, 100))  # blocks, parts
FEW = (Fraction(25, 100), Fraction(15, 100), Fraction(50, 100))  # blocks, parts, parts of parts
_FEW_PEOPLE = 0.2  # N eps / cells
_MANY_PEOPLE = 1.0  # from there on most blocks on the edge of a question are divided
_GROWTH = 0.6  # blocks are (N eps) to this power
_DEEPEST = 18  # bits: no more than 2^18 blocks
_CELLS_BITS = 6  # a block has 2^6 cells, or more
PEOPLE_PER_PART = 1.8  # times the scale of the noise
_MOST_PARTS = 1 << 24


def depth_of_blocks(people: float, bits: int) -> int:
    """How many first bits the keys of a block share, if so many people, times eps, live in a table of 2^bits cells."""
    first = 2 + bits % 2
    wanted = first + 2 * round((_GROWTH * math.log2(max(people, 1.0)) - first) / 2)
    return min(max(wanted, first), max(bits - _CELLS_BITS, first), _DEEPEST + bits % 2, bits)


def steps_of(people: Floats, heights: Integers, noise: Noise, step: int = 2) -> Integers:
    """Into how many parts each node is divided, in halvings, so many at a time: from noisy counts and public facts alone.

    `heights` are the halvings that there are. Where their number is odd and a step is two, the first is into two parts.
    """
    parts = np.maximum(people / (PEOPLE_PER_PART * noise.sd / math.sqrt(2)), 1.0)
    wanted, first = np.log(parts) / np.log(1 << step), heights % step
    steps = first + step * np.maximum(np.rint(wanted - first / step), 0).astype(np.int64)
    steps = np.where(2 * step * wanted < first, 0, np.minimum(steps, heights))
    while int(np.left_shift(1, steps).sum()) > max(_MOST_PARTS, heights.size):
        steps = np.maximum(steps - step, 0)
    return np.asarray(steps)


def parts_in(steps: Integers) -> int:
    """How many parts nodes are divided into, before they are made: a file that was tampered with may say any number."""
    known, times = np.unique(steps, return_counts=True)
    return sum(int(several) << int(step) for step, several in zip(known, times, strict=True))


@dataclass(frozen=True, eq=False)
class Adaptive(Strategy):
    """Counts of quarters, of blocks, and of parts that are chosen from the noisy counts before.

    Privacy
        Rounds follow one another: quarters, blocks, parts, and perhaps parts of parts. What a round counts, its
        *partition*, is chosen from public facts and the noisy counts of earlier rounds, and from nothing else: the
        number of people, the depth of the blocks and how finely each node is divided are functions of these
        (post-processing). Given them, the nodes of a round are fixed and do not overlap. So one unit moves the counts of
        a round by at most D = `counts_move(unit)` in all, wherever it is (parallel composition); a round with share w of
        eps has discrete Laplace noise of scale D/(w eps) on every node that can hold somebody, empty or not, and costs
        w eps. Rounds add up by adaptive sequential composition [Dwork, Rothblum, Vadhan 2010; under zCDP, Bun, Steinke
        2016, Lemma 2.3]: for any outputs o_1 ... o_k the likelihood ratio is the product over rounds of those of o_i
        given o_1 ... o_(i-1), each at most e^(w_i eps).

        Quarters have 0.1 of eps. Then there are two ways on, *many people* and *few people*, of which the noisy quarters
        (or a public total) choose one: shares of 0.3 and 0.6, or of 0.25, 0.15 and 0.5. Either way the shares add up to 1,
        so that the worse of both costs eps.

        With delta the noise is discrete Gaussian, of variance D2/(2 w rho) with D2 = `counts_move_squared(unit)`; a round
        costs w rho [Canonne, Kamath, Steinke 2020, Theorem 14], and rho-zCDP keeps (eps, delta) by `rho_of`.

        A public `total` is not measured; it is allowed under replace. Least squares, whole numbers and the spreading of
        people over the cells of a part look at noisy counts, public facts and coins.
    """

    name = "adaptive"
    title = "counts as fine as the people in each place allow"
    takes_total = takes_delta = carries = looks = True
    slowness = 100
    notes = (
        "people are spread evenly within parts of blocks: what that adds to the error of small blocks is not in the figures",
    )

    expected: int | None = None  # a guess at how many people there are, for what is said beforehand alone

    _step: ClassVar[int] = 2  # bits of a division: into four parts

    @cached_property
    def _rho(self) -> Fraction | None:
        return rho_of(self.guarantee) if isinstance(self.guarantee, Approx) else None

    def noise_of(self, share: Fraction) -> Noise:
        """The noise of a round with this share. Privacy: see above."""
        if self._rho is None:
            return DiscreteLaplace(counts_move(self.unit) / (share * self.eps))
        return DiscreteGaussian(counts_move_squared(self.unit) / (2 * share * self._rho))

    @property
    def noise(self) -> Noise:
        """Of what is counted last: with few people, unless a public total says that they are many."""
        shares = FEW if self.total is None else self._way(float(self.total))[1]
        return self.noise_of(shares[-1])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        moves = counts_move(self.unit) if self._rho is None else counts_move_squared(self.unit)

        def of(share: Fraction, what: str, case: str = "") -> Part:
            return part(self.noise_of(share), what, moves=moves, case=case)

        names = ("blocks", "parts of blocks", "parts of parts")
        if self.total is not None:  # it is public which way is gone
            shares = self._way(float(self.total))[1]
            own = [of(share, what) for share, what in zip(shares, names, strict=False)]
            return (of(QUARTERS, "quarters of the table"), *own)
        many = [of(share, what, "many people") for share, what in zip(MANY, names, strict=False)]
        few = [of(share, what, "few people") for share, what in zip(FEW, names, strict=True)]
        return (of(QUARTERS, "quarters of the table"), *many, *few)

    @property
    def _rate(self) -> float:
        """What people are multiplied with to compare them with noise: eps/D, with Laplace noise."""
        law = self.noise_of(Fraction(1))
        return 1 / as_float(law.scale) if isinstance(law, DiscreteLaplace) else math.sqrt(2) / law.sd

    def _way(self, people: float) -> tuple[int, tuple[Fraction, ...]]:
        """How deep blocks lie, and the shares of blocks and what follows, for so many people."""
        found = max(people, 0.0) * self._rate
        few = found < _FEW_PEOPLE * self.layout.cells
        return depth_of_blocks(found, self.layout.bits), FEW if few else MANY

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        return [self._measured(cells, bits) for _ in range(trials)]

    def _measured(self, cells: Cells, bits: Bits) -> Measured:
        layout = self.layout
        progress("counting", 0.0)
        quarters = Nodes.of_depth(layout, min(2 + layout.bits % 2, layout.bits))
        counted = [count(quarters, cells, layout, self.noise_of(QUARTERS), bits)]
        people = float(counted[0].noisy.sum()) if self.total is None else float(self.total)
        depth, (of_blocks, *shares) = self._way(people)
        nodes = Nodes.of_depth(layout, depth)
        counted.append(count(nodes, cells, layout, self.noise_of(of_blocks), bits))
        carried = [own.noisy for own in counted]
        for at, share in enumerate(shares):
            noise = self.noise_of(share)
            steps = self._steps(nodes, counted, noise)
            nodes = nodes.divided(steps)
            counted.append(count(nodes, cells, layout, noise, bits))
            carried += [steps, counted[-1].noisy]
            progress("counting", (at + 1) / len(shares))
        found = self._division(nodes, counted)
        published = spread(nodes, found.of_parts(found.held), layout, bits)
        return Measured(published.keys, published.counts, tuple(carried))

    @property
    def crowds(self) -> tuple[int, ...]:
        """So many that one more, if it could be seen, would have a block divided in four: where parts should be 2."""
        return tuple(
            math.floor(2 * PEOPLE_PER_PART * self.noise_of(share).sd / math.sqrt(2))
            for share in (MANY[-1], FEW[-1])
        )

    def _division(self, nodes: Nodes, counted: Sequence[Counted]) -> Division:
        return Division(self.layout, nodes, counted, self.total, self._step)

    def _steps(self, nodes: Nodes, counted: Sequence[Counted], noise: Noise, height: int = 0) -> Integers:
        """How finely each node is divided next, down to a height. It sees noisy counts, and no cells."""
        found = self._division(nodes, counted)
        people = found.of_parts(found.held).astype(float)
        return steps_of(people, nodes.heights - height, noise, self._step)

    # What the published file says: intervals, and answers.

    def _read(self, published: Measured) -> tuple[list[Counted], list[Round]]:
        """All that was counted, and how blocks were divided, from what the file carries."""
        shares = {4: MANY, 6: FEW}.get(len(published.noisy))
        if shares is None:
            raise unreadable()
        quarters, blocks, *rest = published.noisy
        depth = blocks.size.bit_length() - 1
        if blocks.size != 1 << max(depth, 0) or depth > self.layout.bits:
            raise unreadable()
        first = Nodes.of_depth(self.layout, min(2 + self.layout.bits % 2, self.layout.bits))
        nodes = Nodes.of_depth(self.layout, depth)
        (quarters,) = in_shapes([quarters], [(first.size,)])
        counted = [
            Counted(first, quarters, self.noise_of(QUARTERS)),
            Counted(nodes, blocks, self.noise_of(shares[0])),
        ]
        rounds = []
        for share, steps, noisy in zip(shares[1:], rest[::2], rest[1::2], strict=True):
            (steps,) = in_shapes([steps], [(nodes.size,)])
            if ((steps < 0) | (steps > nodes.heights)).any():
                raise unreadable()
            (noisy,) = in_shapes([noisy], [(parts_in(steps),)])
            finer, noise = nodes.divided(steps), self.noise_of(share)
            rounds.append(Round(nodes.starts, nodes.heights - steps, np.left_shift(1, steps), noisy, noise))
            nodes = finer
            counted.append(Counted(nodes, noisy, noise))
        return counted, rounds

    def _solved(self, published: Measured) -> _Solved:
        """The last one is kept: a file that is asked again has the very same arrays (`noisy_in`)."""
        kept = _last[0] if _last else None  # taken once: another thread may ask another table meanwhile
        if kept is None or kept.strategy is not self or not are(kept.noisy, published.noisy):
            kept = _Solved(self, published.noisy, *self._read(published))
            _last[:] = [kept]
        return kept

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        """Intervals for the rows of a published table, given that they are published."""
        shown = np.ones(published.keys.size, np.bool_)
        low, high = self._ends(self._solved(published), published.keys, shown, level)
        return np.minimum(low, published.counts), np.maximum(high, published.counts)

    def _ends(self, solved: _Solved, keys: Integers, shown: Bools, level: float) -> tuple[Integers, Integers]:
        """Intervals for single cells that are published, given that they are, and for those that are not.

        The count y of a part has noise that was drawn after the table was divided, and is independent of all other noise.
        If the part is the cell, there is a least y with which it is published, and a rule that needs no more than that
        (`rows`, from a threshold on). Other cells hold no more than their part does. All else fixed, a part with a larger y is as likely to
        publish the cell, or likelier; so given that it is published y is no likelier to be too low: the cell holds at most y + w,
        where noise is below -w no more often than the interval may miss.
        """
        last, level = solved.counted[-1], check_level(level)
        place = last.nodes.place(keys)
        y = last.noisy[place]
        rule, most = from_threshold(last.noise, level), _one_sided(last.noise, level)
        alone = last.nodes.heights[place] == 0
        low, high = np.zeros(keys.size, np.int64), np.maximum(y + np.where(alone, rule.hidden, most), 0)
        some = np.flatnonzero(alone & shown)
        if some.size == 0:
            return low, high
        coins = solved.coins
        far = rule.far if coins is None else math.ceil(64 * last.noise.sd)
        above = np.maximum(solved.division.above(place[some], last.noise, far), 0)
        if coins is None:
            low[some], high[some] = rule.ends(y[some], above)
        else:
            turns = (coins.of_cells(keys[some]) * TURNS).astype(np.int64)
            others = Others(last.noise, math.inf)
            low[some], high[some] = others.ends(y[some], above, np.zeros(some.size), level, turns)
        return low, high

    def part_alone(self, table: Table) -> bool:
        return True

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        """The sum of the published counts of some cells, and an interval for the true sum."""
        region: Region = region_of(self.layout, where)
        asked = region.hold(published.keys)
        value = int(published.counts[asked].sum())
        solved = self._solved(published)
        if region.size == 1:
            return self._of_cell(solved, region.first, bool(asked.any()), value, level)
        found = bounds_across(solved.top, solved.rounds, region, level, solved.many)
        if found.estimate is not None:
            estimate, lowest, highest = hull(found.estimate, found.error.reach(level), value)
            return Answer(value, int(lowest), int(highest), found.error.sd, level, estimate=int(estimate))
        lower, upper = max(math.ceil(found.low), 0), max(math.floor(found.high), 0)
        return Answer(value, min(lower, value), max(upper, value), found.error.sd, level)

    def _of_cell(self, solved: _Solved, key: Integers, shown: bool, value: int, level: float) -> Answer:
        low, high = self._ends(solved, key, np.array([shown]), level)
        last = solved.counted[-1]
        beside = self._estimates(Cells(key, np.array([value])), last)
        lowest, highest = min(int(low[0]), value), max(int(high[0]), value)
        other = None if beside is None else int(beside[0])
        return Answer(value, lowest, highest, last.noise.sd, level, estimate=other)

    def _estimates(self, published: Cells, last: Counted) -> Integers | None:
        """What stands beside the counts of rows, where a row has two numbers."""
        return None

    def _heights(self, rounds: int) -> tuple[int, ...]:
        """To which each round divides places at most."""
        return (0,) * rounds

    def _lattice(self, first: Sequence[Counted]) -> tuple[Lattice, list[Level]]:
        """The even tree of what was counted first, and its levels."""
        return _of_blocks(self.layout.bits, first[-1].nodes.size.bit_length() - 1)

    # What can be said beforehand.

    def variance(self, height: int) -> float:
        """Of blocks by least squares over quarters and blocks, of smaller ones that of a part."""
        bits = self.layout.bits
        depth, (of_blocks, *_, of_parts) = self._way(self._people)
        if height < bits - depth:
            return self.noise_of(of_parts).variance
        lattice, levels = _of_blocks(bits, depth)
        precisions = [precision(self.noise_of(share)) for share in (QUARTERS, of_blocks)]
        mu = moments(lattice, levels, precisions, self.total)
        tree = lattice.trees[0]
        level = next(at for at in range(tree.depth + 1) if tree.under(at) << (bits - depth) <= 1 << height)
        profile: Floats = block(tree, level)
        return float((profile / mu).sum())

    @property
    def _people(self) -> int:
        """How many people there are, or are expected; if nobody says it, so many that both ways are as good."""
        if self.total is not None:
            return self.total
        if self.expected is not None:
            return self.expected
        return min(math.ceil(_FEW_PEOPLE * self.layout.cells / self._rate), LARGEST_TOTAL)

    def forecast(self, expected_total: int | None = None) -> Forecast:
        told = expected_total if self.total is None else self.total
        return forecast_of(replace(self, expected=told), told)

    def _helps(self, people: int) -> str:
        """When it is likely to help, as generated shapes say (`make bench PART=accuracy`)."""
        if len(self.layout.domain) > 1 or not isinstance(self.layout.domain.columns[0], Grid | Mesh):
            return "where categories matter a tree is likely to be better"
        if people * self._rate < _ALL_KINDS * self.layout.cells:
            return "for so few people in so many cells this is likely to be better than a tree"
        return (
            "for so many people this is likely to be better than a tree for rectangles, not for single cells"
        )

    def remarks(self, expected_total: int | None) -> list[str]:
        depth, _ = self._way(self._people)
        return [
            f"the figures are for about {about(self._people, 2)} people, in {1 << depth:,} blocks: noisy counts decide how many there will be",
            *([] if expected_total is None else [self._helps(expected_total)]),
            *super().remarks(expected_total),
            *self.lacking(expected_total),
        ]

    def lacking(self, people: int | None) -> list[str]:
        expected = self._people if people is None else people
        depth, (*_, of_parts) = self._way(expected)
        counts = min(
            2 * self.layout.cells, (1 << depth) + math.ceil(2 * expected * self._rate * float(of_parts))
        )
        return [may_lack_intervals(counts)] if counts > MOST else []


@dataclass(frozen=True, eq=False)
class _Solved:
    """All that was counted, as the file carries it, and what is worked out from it."""

    strategy: Adaptive
    noisy: tuple[Integers, ...]
    counted: list[Counted]
    rounds: list[Round]

    @cached_property
    def top(self) -> Top:
        """What was counted as a whole, by least squares."""
        first = self.counted[: len(self.counted) - len(self.rounds)]
        lattice, levels = self.strategy._lattice(first)
        noises, noisy = [own.noise for own in first], [own.noisy for own in first]
        height = int(first[-1].nodes.heights[0])
        layout, total = self.strategy.layout, self.strategy.total
        return least_squares_top(layout, height, lattice, levels, noises, noisy, total)

    @cached_property
    def many(self) -> tuple[int, ...] | None:
        """The heights of all rounds, if there are many people for each cell, by the first noisy counts."""
        people = float(self.counted[0].noisy.sum()) if self.strategy.total is None else self.strategy.total
        heights = self.strategy._heights(len(self.rounds))
        return heights if people * self.strategy._rate >= _MANY_PEOPLE * self.strategy.layout.cells else None

    @cached_property
    def coins(self) -> Coins | None:
        """Where one person matters: of what was counted last and can hold somebody."""
        last = self.counted[-1]
        some = last.noisy[last.nodes.possible(self.strategy.layout)]
        return Coins.of(some, last.noise) if last.noise.sd <= COARSE else None

    @cached_property
    def division(self) -> Division:
        return self.strategy._division(self.counted[-1].nodes, self.counted)


_last: list[_Solved] = []

_ALL_KINDS = (
    0.6  # N eps / cells up to which, on generated shapes, cells and blocks too were better than by a tree
)


def _one_sided(noise: Noise, level: float) -> int:
    """The least w, from 0 on, so that noise is below -w with at most what an interval may miss."""
    reach = noise.interval(level)[1]
    while reach > 0 and float(noise.cdf(-reach)) <= 1 - level:
        reach -= 1
    return reach


def _of_blocks(bits: int, depth: int) -> tuple[Lattice, list[Level]]:
    """The even tree down to the blocks, and the levels of it that are counted."""
    first = min(2 + bits % 2, bits)
    widths = [first] * (first > 0) + [2] * ((depth - first) // 2)
    tree = Tree("block", (1 << depth,), tuple(((0, 1 << width),) for width in widths), ((0,),))
    return Lattice((tree,)), [(min(1, tree.depth),), (tree.depth,)]
