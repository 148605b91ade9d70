"""What is known of records holds in the model itself: what is impossible has no share, totals are met, sums are added up.

The rules are public (domain/rules.py), and nothing that touches data knows of them: real records are read and counted as if there were none, also
those that break a rule. Then bins, which follow from noisy counts, are cut where a condition begins or ends, so that each is in it or not; the law
is fitted without the cells that are ruled out; and records are drawn from it. So none is thrown away, and the privacy of a plan does not depend on its rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Column, Domain
from oboro.domain.rules import Range
from oboro.errors import DomainError, told
from oboro.synth.codes import code_count
from oboro.synth.junction import Clique, Mask, Zeros, junction_tree
from oboro.synth.measured import Binned, most_bins_of
from oboro.synth.shape import Shape

MOST_CELLS = 1 << 22  # of combinations that one rule speaks of, in bins
MOST_TIED = (
    1 << 24
)  # of all that rules tie together, so that a model takes no more than a gigabyte or two: after payment it is too late to say so


def modelled(domain: Domain) -> Domain:
    """The columns that are learned: not those that are the sum of others."""
    totals = {total for total, _ in domain.rules.sums}
    return domain.only(*(name for name in domain.names if name not in totals)) if totals else domain


def with_sums(domain: Domain, codes: Sequence[Integers]) -> list[Integers]:
    """The codes of all columns, from those that were learned. A sum is missing where one of its parts is."""
    if not domain.rules.sums:
        return list(codes)
    known = dict(zip(modelled(domain).names, codes, strict=True))
    for name, parts in domain.rules.sums:
        total: Any = domain[name]
        summed = np.zeros(codes[0].size, np.int64)
        offset, missing = Fraction(-total.low), np.zeros(codes[0].size, np.bool_)
        for part in (domain[one] for one in parts):
            column: Any = part
            missing |= known[part.name] >= part.size
            summed += known[part.name] * int(Fraction(column.step) / Fraction(total.step))
            offset += Fraction(column.low)
        known[name] = np.where(missing, total.size, summed + int(offset / Fraction(total.step)))
    return [known[name] for name in domain.names]


# Bins


def cut(bins: Binned, column: Column, domain: Domain) -> Binned:
    """The same bins, cut where a rule begins or ends: all codes of one are alike to every rule.

    What is missing meets none: where nothing is believed to be missing it shares a bin with values that meet none either, or has one for itself.
    """
    conditions = _conditions_on(column, domain)
    if not conditions:
        return bins
    edges = np.unique([edge for ranges in conditions for one in ranges for edge in one])
    shape = _split(bins.shape, edges[(edges > 0) & (edges < column.size)])
    old = bins.bin[bins.shape.block_of(shape.start)]
    known = shape.start < column.size
    firsts = np.union1d(
        edges, [0]
    )  # from one edge to the next all codes are alike: so few, however many there are
    kind = _kinds(firsts, conditions)
    kinds = kind[np.searchsorted(firsts, shape.start, side="right") - 1]
    new = np.empty(old.size, np.int64)
    _, new[known] = np.unique(old[known] * (int(kinds.max()) + 1) + kinds[known], return_inverse=True)
    free = np.flatnonzero(known & (kinds == 0))
    for block in np.flatnonzero(~known):
        shares = free.size > 0 and bool((known & (old == old[block])).any())
        new[block] = new[free[-1]] if shares else new[known].max() + 1
    return Binned(shape, new)


def _kinds(firsts: Integers, conditions: Sequence[Sequence[Range]]) -> Integers:
    """A number for each stretch of codes, the same where all conditions are, 0 where none is met.

    Each condition sets apart what it picks of every kind so far: so the work is that of what conditions pick, also where there are many of one code each.
    """
    kind = np.zeros(firsts.size, np.int64)
    kinds = 1
    for ranges in conditions:
        ends = np.searchsorted(firsts, ranges)
        picked = np.unique(np.concatenate([np.arange(0), *(np.arange(start, stop) for start, stop in ends)]))
        among, apart = np.unique(kind[picked], return_inverse=True)
        kind[picked] = kinds + apart
        kinds += among.size
    return kind


def _split(shape: Shape, edges: Integers) -> Shape:
    """Blocks cut at these codes; the parts of a block share its mass by their width."""
    start = np.unique(np.concatenate([shape.start, edges]))
    block = shape.block_of(start)
    stop = np.minimum(np.append(start[1:], shape.stop[-1]), shape.stop[block])
    part = (stop - start) / (shape.stop[block] - shape.start[block])
    return Shape(start, stop, shape.mass[block] * part, shape.values)


def _conditions_on(column: Column, domain: Domain) -> list[tuple[Range, ...]]:
    found = [ranges for one in domain.rules.impossible for name, ranges in one if name == column.name]
    for name, totals in domain.rules.known:
        found += [((code, code + 1),) for code, _ in totals if name == column.name]
    return list(dict.fromkeys(found))


# Structural zeros


def zeros_of(domain: Domain, bins: Sequence[Binned]) -> list[Zeros]:
    """What is ruled out, in bins that were cut: one table for all rules that speak of the same columns."""
    starts = []
    for column in bins:
        first = np.full(column.size, np.iinfo(np.int64).max)
        np.minimum.at(first, column.bin, column.shape.start)
        starts.append(first)
    return _zeros(domain, starts)


def _zeros(domain: Domain, codes: Sequence[Integers]) -> list[Zeros]:
    """By one code for each class of codes that rules do not tell apart.

    Each condition writes the cells that it picks, and no others: a file may hold a condition for each of very many cells. In the order of codes
    those of one range lie side by side.
    """
    orders = [np.argsort(one) for one in codes]
    in_order = [one[order].tolist() for one, order in zip(codes, orders, strict=True)]
    found: dict[Clique, Mask] = {}
    for columns, one in zip(tied_by(domain), domain.rules.impossible, strict=True):
        if columns not in found:
            found[columns] = np.ones([codes[i].size for i in columns], np.bool_)
        picked = [_stretches(in_order[i], ranges) for i, (_, ranges) in zip(columns, one, strict=True)]
        if all(len(stretches) == 1 for stretches in picked):
            found[columns][tuple(stretches[0] for stretches in picked)] = False
        else:
            at = [
                np.concatenate([np.arange(0), *(np.arange(s.start, s.stop) for s in each)]) for each in picked
            ]
            found[columns][np.ix_(*at)] = False
    ranks = [np.argsort(order) for order in orders]
    return [Zeros(columns, table[np.ix_(*(ranks[i] for i in columns))]) for columns, table in found.items()]


def _stretches(in_order: Sequence[int], ranges: Sequence[Range]) -> list[slice]:
    """Where the codes of each range lie among codes in order."""
    return [slice(bisect_left(in_order, start), bisect_left(in_order, stop)) for start, stop in ranges]


def most_bins_in(domain: Domain, most: int, categories: int) -> list[int]:
    """How many bins each column that is learned has at most, cut by the rules. By public facts alone."""
    return [
        min(code_count(column), most_bins_of(column, most, categories) + len(_edges(column, domain)))
        for column in modelled(domain)
    ]


def tied_by(domain: Domain) -> list[Clique]:
    """The columns that each condition ties together."""
    place = {name: i for i, name in enumerate(modelled(domain).names)}
    return [tuple(place[name] for name, _ in one) for one in domain.rules.impossible]


def _edges(column: Column, domain: Domain) -> set[int]:
    """Codes at which a rule begins or ends."""
    edges = {edge for ranges in _conditions_on(column, domain) for one in ranges for edge in one}
    return {edge for edge in edges if 0 < edge < column.size}


def _one_of_each(column: Column, domain: Domain) -> Integers:
    """A code of each class of codes that rules do not tell apart. What is missing is one where it may be: it meets no condition."""
    missing = [column.size] if code_count(column) > column.size else []
    return np.array([0, *sorted(_edges(column, domain)), *missing])


def check_rules(domain: Domain, n: int | None, most_bins: int, categories: int) -> None:
    """Refuses rules that cannot hold together, and those that no model can hold. By public facts alone."""
    if len(domain.rules.known) > 1:
        raise DomainError(
            "totals can be kept of one column only",
            given=", ".join(name for name, _ in domain.rules.known),
            needed="the known totals of one column",
            argument="known",
        )
    learned = modelled(domain)
    codes = [_one_of_each(column, domain) for column in learned]
    cliques, widest = tied_by(domain), most_bins_in(domain, most_bins, categories)
    tree = junction_tree(widest, cliques)
    if cliques and max(prod(widest[i] for i in clique) for clique in tree.cliques) > MOST_CELLS:
        raise DomainError(
            "what is impossible ties too many columns together",
            given=" × ".join(
                learned.names[i] for i in max(tree.cliques, key=lambda one: prod(widest[i] for i in one))
            ),
            needed=f"at most {MOST_CELLS:,} combinations of values or bins",
            fix="conditions on fewer columns, or broader values",
            argument="impossible",
        )
    tied = [clique for clique in tree.cliques if len(clique) > 1]
    if (cells := sum(prod(widest[i] for i in clique) for clique in tied)) > MOST_TIED:
        raise DomainError(
            "what is impossible ties columns together in too many places",
            given=f"{cells:,} combinations of values or bins, in {len(tied)} groups of columns",
            needed=f"at most {MOST_TIED:,} in all",
            fix="conditions on fewer columns, or broader values",
            argument="impossible",
        )
    junction = junction_tree([one.size for one in codes], cliques)
    there = junction.support(_zeros(learned, codes))
    if not there[0].any():
        raise DomainError(
            "no record is possible",
            given=told(impossible="..."),
            needed="conditions that leave some combination of values",
            argument="impossible",
        )
    for name, totals in domain.rules.known:
        i = learned.names.index(name)
        k = junction.home((i,))
        axes = tuple(place for place, axis in enumerate(junction.cliques[k]) if axis != i)
        lives = np.asarray(there[k].any(axis=axes))
        dead = [
            code
            for code, count in totals
            if count > 0 and not lives[int(np.searchsorted(codes[i], code, side="right")) - 1]
        ]
        column, said = learned[name], dict(totals)
        others = any(
            lives[int(np.searchsorted(codes[i], code, side="right")) - 1]
            for code in range(code_count(column))
            if code not in said
        )
        _check_known(column, totals, dead, n, others and len(totals) < column.size)


def _check_known(
    column: Column, totals: Sequence[tuple[int, int]], dead: Sequence[int], n: int | None, others: bool
) -> None:
    held = sum(count for _, count in totals)
    if dead:
        raise DomainError(
            f"{column.value(dead[0])} of column {column.name!r} is impossible, and known to occur",
            given=told(known=f"{{{column.name!r}: ...}}"),
            needed="a total of 0, or a condition that leaves it possible",
            argument="known",
        )
    if n is not None and (held > n or (held < n and not others)):
        raise DomainError(
            f"the known totals of {column.name!r} do not fit the number of records",
            given=f"{held:,} records in all, n = {n:,}",
            needed="totals of all values that add up to n, or of some that add up to less",
            argument="known",
        )


# Known totals


def totals_of(domain: Domain, total: float, others: bool) -> Integers:
    """How many of all records, of which there are about `total`, have each value whose total is known; last, how many have another, if others can occur."""
    ((_, totals),) = domain.rules.known
    held = sum(count for _, count in totals)
    rest = max(0, round(total) - held) if others else 0
    return np.array([*(count for _, count in totals), rest], np.int64)


def shared_out(weights: Sequence[int], n: int, rng: np.random.Generator) -> list[int]:
    """n as whole numbers in proportion to the weights, each rounded up or down so that on average it is its share. What has no weight has none.

    Shares that are whole numbers stay what they are, for all is counted in integers; and of one record each value is as likely as it is frequent.
    """
    ends = list(accumulate(weights))
    start = int(rng.integers(ends[-1]))
    upto = [(end * n + start) // ends[-1] for end in ends]
    return [after - before for before, after in pairwise([0, *upto])]


def in_whole_numbers(weights: Floats) -> list[int]:
    """Weights as integers, to fifteen digits of the largest."""
    return [int(weight) for weight in weights / weights.max() * 2.0**50]
