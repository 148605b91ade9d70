"""A table for as many people as there are: that is asked first, and decides how they are counted.

Where people are few for each cell a table that looks (`adaptive`, `pruned`) has half of a tree's errors; where they are many a tree is as good
or better, and its errors can be told beforehand. If nobody says how many people there are, a small share of eps asks
for their number, and the noisy answer, which is published with the table, picks one of several *ways*. Each is a strategy
as it is by itself, with what is left of eps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any

from oboro.arrays import Integers, Table
from oboro.domain import Category
from oboro.errors import ParameterError, setting, told
from oboro.exact import about, whole
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure
from oboro.records import check_fields
from oboro.release import Forecast, Part, part
from oboro.tables.cells import LARGEST_TOTAL, Cells
from oboro.tables.strategy import Noise, Strategy, cells_within, counts_move, forecast_of, zigzag
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.answers import Where
from oboro.tables.tree.intervals import Answer, may_lack_intervals, noisy_in, unreadable
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.outlook import Outlook
from oboro.tables.tree.partition import Blocks
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.tree.workload import DEFAULT, Design

ASKING = Fraction(1, 100)  # of eps, for how many people there are
_MOST_CROWD = 10**5  # rows that a pair of neighbours may have
_MOST_WAYS = 16  # more than there are fillings that are tried out; what a plan costs is looked at for each


@dataclass(frozen=True, slots=True)
class Way:
    """How people are counted where the noisy answer says that there are so many of them, or more: by a tree of a design, which may be one that
    `looks` (`Pruned`); without a design by `adaptive`.
    """

    people: int
    design: Design | None = None
    looks: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", whole("people", self.people, least=0, most=LARGEST_TOTAL))
        check_fields(self, "the way")
        if self.looks and self.design is None:
            raise ParameterError(
                "a way that looks at the levels of a design has one",
                given=told(looks="True", design="None"),
                needed="a plan as its function makes it",
                argument="by_people",
            )


@dataclass(frozen=True, eq=False)
class Sized(Strategy):
    """How many people there are, with noise; then a table by the way that is best for so many.

    Privacy
        One unit moves the number of all people by at most D = `counts_move(unit)`; discrete Laplace noise of scale
        D/(eps/100) makes asking for it cost eps/100 [Ghosh, Roughgarden, Sundararajan 2009]. Which way is gone is a function of that noisy number
        and of the plan: post-processing. Given the way, what follows is a strategy of its own at 99 eps/100, with noise that is
        drawn afterwards, and costs no more than that, whichever it is: see `Adaptive`, `Pruned` and `Design.laplace`. By adaptive
        sequential composition [Dwork, Rothblum, Vadhan 2010] both cost eps: for any number t and table o the likelihood
        ratio is that of t, at most e^(eps/100), times that of o by the way that t picks, at most e^(99 eps/100).

    Intervals
        They are those of the way, which hold for each way with whatever probability is asked for over the noise of that way. This noise is
        independent of the noisy number. So they hold given the number, given the way, and therefore altogether.
    """

    name = "sized"
    title = "how many people there are, then what is best for so many"
    carries = sized = True
    slowness = 100

    def needs(self) -> str | None:
        tree = PlannedTree(self.layout, self.guarantee, self.unit).needs()
        (column, *others) = self.layout.domain
        return "one column of places, numbers or dates" if others or isinstance(column, Category) else tree

    def check(self) -> None:
        from oboro.tables.tree import trial

        super().check()
        if any(part.kind not in trial.KINDS for part in (self.workload or DEFAULT).parts):
            raise ParameterError(
                "which way is best for these questions has not been tried out",
                given=told(workload=repr(str(self.workload)), strategy=repr(self.name)),
                needed="blocks, squares, rectangles or cells",
                fix=setting(strategy="tree"),
            )
        starts = [way.people for way in self.taken]
        if len(starts) > _MOST_WAYS:
            raise ParameterError(
                "a table has few ways",
                given=told(by_people=f"{len(starts)} ways"),
                needed=f"at most {_MOST_WAYS}",
                argument="by_people",
            )
        if starts[0] != 0 or any(one >= other for one, other in pairwise(starts)):
            raise ParameterError(
                "the ways of a table are for more and more people, from 0 on",
                given=", ".join(map(str, starts)),
                needed="a plan as its function makes it",
                argument="by_people",
            )
        for own in self.bound:
            own.check()

    @cached_property
    def taken(self) -> tuple[Way, ...]:
        """The ways, for more and more people."""
        if self.by_people:
            return self.by_people
        from oboro.tables.tree import trial

        return trial.ways(self.layout, self.eps, self.unit, self.workload or DEFAULT)

    @cached_property
    def bound(self) -> tuple[Strategy, ...]:
        """Each way as the strategy that it is, with what is left of eps."""
        facts = (self.layout, Pure(self.eps * (1 - ASKING)), self.unit)
        return tuple(
            Adaptive(*facts)
            if way.design is None
            else (Pruned if way.looks else PlannedTree)(*facts, workload=self.workload, design=way.design)
            for way in self.taken
        )

    def of(self, people: int) -> Strategy:
        """The way for so many people."""
        return [own for way, own in zip(self.taken, self.bound, strict=True) if way.people <= max(people, 0)][
            -1
        ]

    @property
    def asked(self) -> DiscreteLaplace:
        """The noise of the number of people. Privacy: see above."""
        return DiscreteLaplace(counts_move(self.unit) / (ASKING * self.eps))

    @property
    def noise(self) -> Noise:
        return self.bound[-1].noise

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        found = [part(self.asked, "all people", moves=counts_move(self.unit))]
        for name, own in zip(self._names, self.bound, strict=True):
            for case in dict.fromkeys(each.case for each in own.parts if each.case) or [""]:
                found += [
                    replace(each, case=f"{name}, {case}" if case else name)
                    for each in own.parts
                    if each.case in ("", case)
                ]
        return tuple(found)

    @property
    def _names(self) -> list[str]:
        """Of the ways: from how many people on, and to how many."""
        starts = [way.people for way in self.taken]
        if len(starts) == 1:
            return ["as many people as there are"]
        between = [f"{one:,} to {other - 1:,} people" for one, other in pairwise(starts)]
        return [f"up to {starts[1] - 1:,} people", *between[1:], f"{starts[-1]:,} people or more"]

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        numbers = int(cells.counts.sum()) + self.asked.sample(trials, bits)
        picked = [self.of(int(number)) for number in numbers]
        found: dict[int, Any] = {}
        for way in self.bound:
            places = [place for place, own in enumerate(picked) if own is way]
            if places:
                found |= dict(zip(places, way.measure(cells, bits, len(places)), strict=True))
        return [
            Measured(
                own.keys,
                own.counts,
                (numbers[place : place + 1], *own.noisy),
                own.counts if own.estimates is None else own.estimates,  # the same columns, whatever the way
            )
            for place, own in sorted(found.items(), key=itemgetter(0))
        ]

    @property
    def crowds(self) -> tuple[int, ...]:
        """So many that one more, if it could be seen, would have another way gone; and those of each way."""
        turns = [way.people - 1 for way in self.taken[1:] if way.people <= _MOST_CROWD]
        return tuple(dict.fromkeys([*turns, *(crowd for own in self.bound for crowd in own.crowds)]))

    # What the published file says: the way that was gone, and what that way carries.

    def _gone(self, noisy: tuple[Integers, ...]) -> tuple[Strategy, tuple[Integers, ...]]:
        """The way, and what it counted."""
        if not noisy or noisy[0].size != 1:
            raise unreadable()
        return self.of(int(noisy[0].reshape(-1)[0])), noisy[1:]

    def _of(self, published: Measured) -> tuple[Strategy, Measured]:
        way, noisy = self._gone(published.noisy)
        return way, Measured(published.keys, published.counts, noisy, published.estimates)

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        way, own = self._of(published)
        return way.intervals(own, level)

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        way, own = self._of(published)
        return way.answer(own, where, level)

    def of_blocks(
        self, published: Measured, side: int, questions: Sequence[Where], level: float
    ) -> Blocks | None:
        way, own = self._of(published)
        return way.of_blocks(own, side, questions, level)

    def part_alone(self, table: Table) -> bool:
        return self._gone(noisy_in(table))[0].part_alone(table)

    # What can be said beforehand.

    def variance(self, height: int) -> float:
        return max(own.variance(height) for own in self._cases)

    @cached_property
    def _cases(self) -> tuple[Strategy, ...]:
        """The ways; of a table that looks one for each order of magnitude of people: how deep its blocks lie follows from that."""
        ends = [*(way.people for way in self.taken[1:]), LARGEST_TOTAL + 1]
        found: list[Strategy] = []
        for way, own, end in zip(self.taken, self.bound, ends, strict=True):
            if isinstance(own, Adaptive) and way.design is None:
                powers = (2**power for power in range(LARGEST_TOTAL.bit_length()))
                numbers = [way.people, *(number for number in powers if way.people < number < end), end - 1]
                found += [replace(own, expected=number) for number in numbers]
            else:
                found.append(own)
        return tuple(found)

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """By block size, as the way for so many people has it; where nobody says how many, the largest error of all ways."""
        if expected_total is not None:
            own = self.of(expected_total).forecast(expected_total)
            return replace(own, notes=(*own.notes, *self.remarks(expected_total)))
        last = self.bound[-1]
        if not isinstance(last, PlannedTree):
            return forecast_of(self)
        own, rows, bits = last.forecast(), [], self.layout.bits
        for name, cells, error, *others in own.rows:
            height = next(at for at in range(bits + 1) if cells_within(self.layout, at) >= int(cells))
            by = max([1.0, *(math.sqrt(case.variance(height)) / float(error) for case in self._cases[:-1])])
            rows.append((name, cells, *(by * float(each) for each in (error, *others))))
        notes = [own.notes[0], *zigzag([float(row[2]) for row in rows]), *self.remarks(None)]
        return replace(
            own, title=own.title.replace(last.name, self.name), rows=tuple(rows), notes=tuple(notes)
        )

    def remarks(self, expected_total: int | None) -> list[str]:
        reach = self.asked.interval(0.95)[1]
        return [
            f"1% of eps asks how many people there are, within {about(reach, 2)}, and that decides how they are counted; "
            "whoever says how many are expected, when the plan is made, saves it",
            *(f"{name} are counted by {own.name}" for name, own in zip(self._names, self.bound, strict=True)),
            *(() if expected_total is not None else _notes_of(self.bound)),
            *self.lacking(expected_total),
        ]

    def lacking(self, people: int | None) -> list[str]:
        some = self.bound if people is None else [self.of(people)]
        found = list(dict.fromkeys(note for own in some for note in own.lacking(people)))
        if found and len(some) > 1 and isinstance(some[-1], PlannedTree):  # noise decides which way is gone
            tree = some[-1]
            return [may_lack_intervals(sum(math.prod(tree.lattice.nodes(at)) for at in tree.chosen.levels))]
        return found

    def outlook(self, total: int) -> Outlook | None:
        return self.of(total).outlook(total)

    def words(self) -> dict[str, object]:
        ways = [{"people": name, **own.words()} for name, own in zip(self._names, self.bound, strict=True)]
        asked = {} if self.workload is None else {"planned for": str(self.workload)}
        return {
            **self.asked.to_dict(),
            "strategy": self.name,
            "ways": ways,
            "sensitivity": str(counts_move(self.unit)),
            **asked,
        }


def _notes_of(ways: Sequence[Strategy]) -> list[str]:
    """What ways that look say of their figures."""
    return list(dict.fromkeys(note for own in ways if own.looks for note in own.notes))
