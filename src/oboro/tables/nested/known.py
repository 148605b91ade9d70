"""Totals that are public from elsewhere: constants, which what is published holds exactly.

A kind of totals is a level of the areas by some of the other columns, all values of them: each prefecture, the whole by sex, each
prefecture by sex. Which totals can hold together is decided here, by public facts, before anything is spent.

Ways of dividing that are finer and finer, none, by sex, by sex and age, are a chain. Totals of one chain, at whatever levels of the areas,
can be held from the top down if each is at least what those below and within it come to, and just that where all of these are
known: on the way down a node's counts by category are given, its children's totals are given or bounded from below, and each way of
dividing is a transport problem without upper bounds once these bounds are taken off, which has a solution in whole numbers if
both sides add up to the same. One more way of dividing may cross the chain, as age does by the side of sex. It and the chain are two nested
families, again a transport problem, at each node of one level of the areas by itself. So nothing may be known above that level but
what follows. Three families that cross have no such rule: the margins of a table with three sides may agree two by two, and no
table have them. They are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from oboro.arrays import Bools, Integers
from oboro.domain import Areas, Domain, Grid, Mesh
from oboro.domain.areas import open_table
from oboro.errors import DataError, ParameterError, setting, told
from oboro.exact import whole
from oboro.kinds import nearest, shown
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.nested.lattice import AreaLattice, PartKnown
from oboro.tables.tree.lattice import Level

KNOWN = (
    "known totals are constants fixed beforehand; eps bounds what this release adds to them. They are not protected by it, and "
    "if they count the same people, whoever knows all others learns the last one's area. Intervals assume that they are true"
)


@dataclass(frozen=True)
class KnownTotals:
    """Totals of areas of one level that are public from elsewhere: constants, fixed beforehand.

    With `by`, for each area those of all values of these columns, the last one changing fastest.
    """

    level: str
    areas: tuple[str, ...]
    totals: tuple[int, ...]
    by: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return ", ".join(([] if self.level == "total" and self.by else [self.level]) + list(self.by))


# What a caller hands in.


def known_totals(known: Any, domain: Domain) -> tuple[KnownTotals, ...]:
    """Known totals from what a caller hands in: for each kind its totals, or a table of them."""
    if known is None:
        return ()
    if not isinstance(known, Mapping) or not all(
        isinstance(name, str) for key in known for name in (key if isinstance(key, tuple) else (key,))
    ):
        raise ParameterError(
            "known is no table of levels",
            given=told(known=shown(known)),
            needed="for each level a total of each area",
            fix=setting(known={"prefecture": {"34": 2700000}}),
        )
    return tuple(_read(key, totals, domain) for key, totals in known.items())


def _read(key: str | tuple[str, ...], totals: Any, domain: Domain) -> KnownTotals:
    column = next((own for own in domain if isinstance(own, Areas)), None)
    beside = {own.name: own for own in domain if not isinstance(own, Areas | Grid | Mesh)}
    levels = ("total",) if column is None else ("total", *column.levels[:-1])
    names = _names(key, (*levels, *beside))
    if names == ("total",) and isinstance(totals, int):
        totals = {"total": totals}
    found = dict(_flat(totals, names)) if isinstance(totals, Mapping) else _totals_in(names, totals)
    own = [name for name in levels if name in names]
    by = tuple(name for name in beside if name in names)
    for name in names:
        if name not in own and name not in by:
            return KnownTotals(name, (), ())  # refused by name, where the plan is checked
    level = own[-1] if own else "total"
    places = [{str(beside[name].value(code)): code for code in range(beside[name].size)} for name in by]
    form = tuple(len(place) for place in places)
    areas: dict[str, list[int]] = {}
    for values, number in found.items():
        named = dict(zip(names, map(str, values), strict=True))
        area = named.get(level, "total")
        codes = [_code(name, named[name], place) for name, place in zip(by, places, strict=True)]
        row = areas.setdefault(area, [-1] * prod(form))
        at = int(np.ravel_multi_index(codes, form)) if by else 0
        row[at] = whole(f"known total of {', '.join(map(str, values))}", number, least=0)
    for area, row in areas.items():
        if -1 in row:
            at_fault = np.unravel_index(row.index(-1), form)
            lacks = ", ".join(
                str(beside[name].value(int(code))) for name, code in zip(by, at_fault, strict=True)
            )
            raise ParameterError(
                "known totals by a column are of all its values",
                given=f"{area}: no total of {lacks}",
                needed=f"each {' and '.join(by)} of every area that is named",
                argument="known",
            )
    return KnownTotals(level, tuple(areas), tuple(n for row in areas.values() for n in row), by)


def _names(key: str | tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    """The columns of a kind of totals: ("prefecture", "sex"), or "prefecture,sex"."""
    names = key if isinstance(key, tuple) else (key,) if key in known else tuple(key.split(","))
    return tuple(name.strip() for name in names)


def _code(name: str, value: str, place: Mapping[str, int]) -> int:
    if value in place:
        return place[value]
    close = nearest(value, place)
    raise ParameterError(
        f"there is no {name} of this name" + (f": did you mean {close!r}?" if close else ""),
        given=told(known=f"{name} {value}"),
        needed="values of the column",
        argument="known",
    )


def _flat(totals: Mapping[Any, Any], names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """One total for each key of as many values as there are names: a tuple, or one inside the other."""
    for key, value in totals.items():
        values = key if isinstance(key, tuple) else (key,)
        if isinstance(value, Mapping) and len(values) < len(names):
            for more, number in _flat(value, names[len(values) :]):
                yield (*values, *more), number
        elif len(values) == len(names):
            yield values, value
        else:
            raise ParameterError(
                "known totals do not name what they are of",
                given=shown(key),
                needed=f"a value of each of {', '.join(names)}",
                argument="known",
            )


def _totals_in(names: Sequence[str], table: Any) -> dict[tuple[Any, ...], object]:
    """Totals from a table with the columns of a kind and one of numbers beside them."""
    found = open_table(table, names, "known")
    for name in names:
        if name not in found.column_names:
            raise DataError(
                "the table of known totals lacks a column",
                given=", ".join(found.column_names),
                needed=name,
                argument="known",
            )
    beside = [name for name in found.column_names if name not in names]
    count = "total" if "total" in found.column_names else beside[0] if len(beside) == 1 else None
    if count is None:
        raise DataError(
            "the table of known totals does not say which column they are",
            given=", ".join(found.column_names),
            needed=", ".join((*names, "total")),
            argument="known",
        )
    keys = list(zip(*(found[name].to_pylist() for name in names), strict=True))
    if len({tuple(map(str, key)) for key in keys}) != len(keys):
        raise DataError(
            "the table of known totals names an area twice",
            needed=f"each {' and '.join(names)} once",
            argument="known",
        )
    return dict(zip(keys, found[count].to_pylist(), strict=True))


# All that follows from them.


@dataclass(frozen=True, eq=False)
class Totals:
    """Of one level of the areas by one way of dividing: of which nodes they are known, and what each holds at least."""

    known: Bools  # [node]
    least: Integers  # [node, value]: the total itself where it is known


@dataclass(frozen=True, eq=False)
class Fixed:
    """What is known, with all that follows. `chain` has no dividing first; `across` is the way of dividing that crosses it.

    From level `start` of the areas on nodes are shared out, each of this level by itself.
    """

    lattice: AreaLattice
    chain: tuple[Level, ...]
    across: Level | None
    start: int
    totals: Mapping[tuple[int, Level], Totals]

    def of_part(self, part: Level) -> PartKnown | None:
        """Of an orthogonal part of the other columns: level by level which nodes are known, and what the part sees of them."""
        found: dict[int, tuple[Bools, Any]] = {}
        for (at, way), own in self.totals.items():
            if not own.known.any() or not all(a >= j for a, j in zip(way, part, strict=True)):
                continue
            form = (own.known.size, *(t.nodes(a) for t, a in zip(self.lattice.beside, way, strict=True)))
            seen = self.lattice.detail(own.least.reshape(form).astype(float), way, part)
            seen = seen.reshape(own.known.size, -1) / self.lattice.under(way)
            flags, values = found.get(at, (np.zeros(own.known.size, np.bool_), np.zeros_like(seen)))
            found[at] = flags | own.known, np.where(own.known[:, None], seen, values)
        return found or None

    def level(self, at: int) -> tuple[Integers, Integers, Integers]:
        """Of the nodes of a level: the known totals, -1 where there is none; what each holds at least; and that by the further
        ways of the chain, one beside the other, without rows where nothing is known of it."""
        size = self.lattice.branches.nodes(at)
        own = self.totals.get((at, self.chain[0]))
        fixed = np.full(size, -1, np.int64) if own is None else np.where(own.known, own.least[:, 0], -1)
        low = np.zeros(size, np.int64) if own is None else own.least[:, 0].copy()
        low[fixed >= 0] = 0
        each = [self.totals[at, way].least for way in self.chain[1:] if (at, way) in self.totals]
        floor = np.concatenate(each, axis=1) if each else np.zeros((0, self.width), np.int64)
        if not floor.any():
            floor = floor[:0]
        return fixed, low, np.ascontiguousarray(floor)

    @property
    def crossed(self) -> bool:
        """Whether anything is known by another column."""
        return len(self.chain) > 1 or self.across is not None

    @property
    def width(self) -> int:
        return sum(self.values(way) for way in self.chain[1:])

    def values(self, way: Level) -> int:
        return prod(tree.nodes(at) for tree, at in zip(self.lattice.beside, way, strict=True))

    def value_of(self, way: Level) -> Integers:
        """Which value of a way of dividing each category is."""
        found = np.zeros((1,) * len(self.lattice.beside), np.int64)
        for axis, (tree, at) in enumerate(zip(self.lattice.beside, way, strict=True)):
            own = np.arange(tree.leaves) // tree.under(at)
            form = [-1 if a == axis else 1 for a in range(len(self.lattice.beside))]
            found = found * tree.nodes(at) + own.reshape(form)
        return np.ascontiguousarray(np.broadcast_to(found, self.lattice.groups).reshape(-1))

    @cached_property
    def stages(self) -> Integers:
        """The value of each category, by every way of the chain."""
        return np.stack([self.value_of(way) for way in self.chain])

    @property
    def cut(self) -> int:
        """How many ways of the chain come before what crosses it: the others divide that too."""
        return sum(self.across is None or not _finer(way, self.across) for way in self.chain)

    @cached_property
    def crossing(self) -> Integers:
        """The value of each category by the way that crosses the chain, and by what it shares with the last one that it crosses."""
        if self.across is None:
            return np.zeros((0, 0), np.int64)
        shared = tuple(min(a, b) for a, b in zip(self.across, self.chain[self.cut - 1], strict=True))
        return np.stack([self.value_of(self.across), self.value_of(shared)])

    @cached_property
    def margins(self) -> Integers:
        """Of the nodes of level `start`, what is known by the way that crosses the chain; -1 where nothing is."""
        if self.across is None:
            return np.zeros((self.lattice.branches.nodes(self.start), 0), np.int64)
        own = self.totals[self.start, self.across]
        return np.ascontiguousarray(np.where(own.known[:, None], own.least, -1))


def known_by_level(
    lattice: AreaLattice, known: Iterable[KnownTotals], total: int | None, good: Bools | None = None
) -> Fixed | None:
    """The known totals with all that follows from them; refuses what cannot be. `good` are the possible categories."""
    given = list(known)
    if total is not None:
        given.append(KnownTotals("total", ("total",), (total,)))
    if not given:
        return None
    nothing = (0,) * len(lattice.beside)
    table: dict[tuple[int, Level], tuple[Bools, Integers]] = {}
    kinds: dict[tuple[int, Level], str] = {}
    for one in given:
        _enter(lattice, one, table, kinds)
    ways = {nothing, *(way for _, way in table)}
    while more := {tuple(map(min, a, b)) for a, b in combinations(ways, 2)} - ways:
        ways |= more
    facts = Facts(lattice, table, sorted(ways, key=sum, reverse=True), good)
    totals = facts.closed()
    dropped = {
        (at, way)
        for at, way in table
        if any(
            (at, finer) in table
            and _finer(finer, way)
            and not (table[at, way][0] & ~table[at, finer][0]).any()
            for finer in ways
        )
    }
    return _arranged(lattice, totals, [kind for kind in table if kind not in dropped], kinds, good)


def _finer(way: Level, than: Level) -> bool:
    return way != than and all(a >= b for a, b in zip(way, than, strict=True))


def _comparable(one: Level, other: Level) -> bool:
    return one == other or _finer(one, other) or _finer(other, one)


def _arranged(
    lattice: AreaLattice,
    totals: dict[tuple[int, Level], Totals],
    given: Sequence[tuple[int, Level]],
    kinds: Mapping[tuple[int, Level], str],
    good: Bools | None,
) -> Fixed:
    """The chain, what crosses it, and where sharing out begins."""
    nothing = (0,) * len(lattice.beside)
    ways = {nothing, *(way for _, way in given)}
    for a, b in combinations(sorted(ways), 2):
        ways.add(tuple(map(min, a, b)))
    deepest = {way: max((at for at, own in given if own == way), default=0) for way in ways}

    def chain(some: Iterable[Level]) -> bool:
        return all(_comparable(a, b) for a, b in combinations(some, 2))

    across, start = None, 0
    if not chain(ways):
        own = [way for way in ways if chain(ways - {way})]
        # both may be able to: the one that goes less deep crosses, and the rest is held on the way down
        own.sort(key=lambda way: (deepest[way], way))
        if not own:
            raise _three(given, kinds)
        across = own[0]
        start = deepest[across]
    found = Fixed(lattice, tuple(sorted(ways - {across}, key=sum)), across, start, totals)
    if across is not None:
        for (at, way), one in totals.items():
            if at < start and bool((one.known & ~_below(lattice, totals, at, way)).any()):
                raise _three(given, kinds)
        if good is not None and not _all_meet(found, good):
            raise ParameterError(
                "known totals that cross one another, and combinations that are ruled out, cannot be used together",
                given="; ".join(kinds.values()),
                needed="known totals of a table in which every combination of these columns is possible",
                argument="known",
            )
    return found


def _all_meet(fixed: Fixed, good: Bools) -> bool:
    """Whether every value of the chain meets every value of what crosses it, if both are possible and share what they share."""
    own, (crossed, shared) = fixed.stages[fixed.cut - 1], fixed.crossing
    for value in np.unique(shared[good]):
        here = good & (shared == value)
        pairs = {*zip(own[here].tolist(), crossed[here].tolist(), strict=True)}
        if len(pairs) < np.unique(own[here]).size * np.unique(crossed[here]).size:
            return False
    return True


def _below(lattice: AreaLattice, totals: Mapping[tuple[int, Level], Totals], at: int, way: Level) -> Bools:
    return np.logical_and.reduceat(totals[at + 1, way].known, lattice.branches.firsts[at][:-1])


def _three(given: Sequence[tuple[int, Level]], kinds: Mapping[tuple[int, Level], str]) -> ParameterError:
    return ParameterError(
        "known totals cross one another in more than two ways",
        given="; ".join(kinds[kind] for kind in given),
        needed="totals by columns of which each kind divides the one before, and by one more; where both are known of areas, "
        "nothing above these that does not follow",
        argument="known",
    )


def _enter(
    lattice: AreaLattice,
    one: KnownTotals,
    table: dict[tuple[int, Level], tuple[Bools, Integers]],
    kinds: dict[tuple[int, Level], str],
) -> None:
    """Puts given totals into their table; what is no area of the domain is refused by name."""
    column = lattice.branches.column
    at, labels = _level(column, one.level)
    place = {label: i for i, label in enumerate(labels)}
    names = [tree.name for tree in lattice.beside]
    if any(name not in names for name in one.by) or len(set(one.by)) != len(one.by):
        raise _no_kind(column, names, ", ".join(one.by))
    way = tuple(tree.depth if tree.name in one.by else 0 for tree in lattice.beside)
    form = tuple(tree.sizes[0] if tree.name in one.by else 1 for tree in lattice.beside)
    if tuple(name for name in names if name in one.by) != one.by or any(
        len(tree.sizes) != 1 for tree in lattice.beside if tree.name in one.by
    ):
        raise _no_kind(column, names, ", ".join(one.by))
    if len(one.areas) * prod(form) != len(one.totals) or len(set(one.areas)) != len(one.areas):
        raise ParameterError("known totals need one total for each area", given=one.kind)
    size = lattice.branches.nodes(at)
    full = tuple(tree.nodes(own) for tree, own in zip(lattice.beside, way, strict=True))
    flags, totals = table.get((at, way), (np.zeros(size, np.bool_), np.zeros((size, prod(full)), np.int64)))
    rows = np.array(one.totals, object).reshape(len(one.areas), prod(form))
    inside = tuple(slice(0, n) for n in form)
    for label, row in zip(one.areas, rows, strict=True):
        if label not in place:
            close = nearest(label, place)
            raise ParameterError(
                f"there is no {one.level} of this name" + (f": did you mean {close!r}?" if close else ""),
                given=told(known=f"{one.level} {label}"),
                needed="areas of the domain",
                argument="known",
            )
        values = [whole(f"known total of {label}", n, least=0, most=LARGEST_TOTAL) for n in row]
        whole(f"known total of {label}", sum(values), least=0, most=LARGEST_TOTAL)
        held = np.zeros(full, np.int64)
        held[inside] = np.array(values, np.int64).reshape(form)
        node = place[label]
        if flags[node] and (totals[node] != held.reshape(-1)).any():
            raise _contradiction(column, at, node, int(totals[node].sum()), sum(values), True)
        flags[node], totals[node] = True, held.reshape(-1)
    table[at, way], kinds[at, way] = (flags, totals), one.kind


@dataclass(frozen=True, eq=False)
class Facts:
    """What was given, and what follows, from the cells up and from fine ways of dividing to coarse ones."""

    lattice: AreaLattice
    given: Mapping[tuple[int, Level], tuple[Bools, Integers]]
    ways: Sequence[Level]  # each before those that it divides
    good: Bools | None
    found: dict[tuple[int, Level], Totals] = field(default_factory=dict)

    def closed(self) -> dict[tuple[int, Level], Totals]:
        last = max(at for at, _ in self.given)
        for at, way in product(range(last, -1, -1), self.ways):
            self.found[at, way] = self._follows(at, way, at == last)
        return self.found

    def _follows(self, at: int, way: Level, last: bool) -> Totals:
        branches = self.lattice.branches
        size = branches.nodes(at)
        values = prod(tree.nodes(own) for tree, own in zip(self.lattice.beside, way, strict=True))
        known, least = np.zeros(size, np.bool_), np.zeros((size, values), np.int64)
        if not last:  # what the areas within hold; all of it, if all of them are known
            within, first = self.found[at + 1, way], branches.firsts[at][:-1]
            least = np.add.reduceat(within.least, first, axis=0)
            known = np.logical_and.reduceat(within.known, first)
        for finer in self.ways:
            if (at, finer) in self.found and _finer(finer, way):
                own = self.found[at, finer]
                added = self._joined(own.least, finer, way)
                self._agree(at, known, least, own.known, added)
                least = np.where(own.known[:, None], added, np.maximum(least, added))
                known = known | own.known
        if (at, way) in self.given:
            flags, totals = self.given[at, way]
            self._agree(at, known, least, flags, totals)
            least, known = np.where(flags[:, None], totals, least), known | flags
        if self.good is not None:
            self._possible(at, way, least)
        return Totals(known, least)

    def _joined(self, least: Integers, finer: Level, way: Level) -> Integers:
        """Totals by a finer way of dividing, added up."""
        form: list[int] = [least.shape[0]]
        for tree, own, other in zip(self.lattice.beside, finer, way, strict=True):
            form += [tree.nodes(other), tree.nodes(own) // tree.nodes(other)]
        added = least.reshape(form).sum(axis=tuple(range(2, len(form), 2)))
        return np.asarray(added.reshape(least.shape[0], -1))

    def _agree(self, at: int, known: Bools, least: Integers, flags: Bools, totals: Integers) -> None:
        """Refuses a total below what is held at least, or another one than what is held."""
        wrong = flags & ((totals < least).any(axis=1) | (known & (totals != least).any(axis=1)))
        wrong |= known & ~flags & (totals > least).any(axis=1)
        if wrong.any():
            node = int(np.flatnonzero(wrong)[0])
            value = int(np.flatnonzero(totals[node] != least[node])[0])
            column = self.lattice.branches.column
            raise _contradiction(
                column, at, node, int(totals[node, value]), int(least[node, value]), bool(known[node])
            )

    def _possible(self, at: int, way: Level, least: Integers) -> None:
        own = Fixed(self.lattice, (way,), None, 0, {}).stages[0]
        may = np.zeros(least.shape[1], np.bool_)
        may[own[self.good]] = True
        wrong = np.flatnonzero((least[:, ~may] > 0).any(axis=1))
        if wrong.size:
            raise ParameterError(
                "a known total is of what is ruled out",
                given=_named(self.lattice.branches.column, at, int(wrong[0])),
                needed="0 where no combination is possible",
                argument="known",
            )


def _contradiction(column: Areas, at: int, node: int, own: int, low: int, just: bool) -> ParameterError:
    return ParameterError(
        "known totals contradict one another",
        given=f"{_named(column, at, node)}: {own:,}, and {low:,} in areas within it"
        if not just
        else f"{_named(column, at, node)}: {own:,}, and {low:,} by the others",
        needed="as many as the areas within it hold" if just else "at least as many",
        argument="known",
    )


def _level(column: Areas, name: str) -> tuple[int, tuple[str, ...]]:
    if name == "total":
        return 0, ("total",)
    if name not in column.levels[:-1]:
        raise _no_kind(column, (), name)
    return 1 + column.levels.index(name), column.labels(name)


def _no_kind(column: Areas, beside: Sequence[str], name: str) -> ParameterError:
    close = nearest(name, (*column.levels, *beside))
    return ParameterError(
        "known totals are of areas of a level" + (f": did you mean {close!r}?" if close else ""),
        given=told(known=name),
        needed=", ".join(("total", *column.levels[:-1])) + ", perhaps by columns beside the areas",
        argument="known",
    )


def _named(column: Areas, at: int, node: int) -> str:
    return "all areas" if at == 0 else f"{column.levels[at - 1]} {column.labels(column.levels[at - 1])[node]}"
