"""Structural zeros: cells that cannot hold anyone, known without looking at the data. The sea; married infants.

A mask is public, a part of the plan, and stored in it. It speaks of the first columns of the domain, as many as
it needs, because a block of keys is a block of the first columns. Records in cells that it rules out are
dropped without a word.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Domain
from oboro.engine import open_data
from oboro.errors import DataError, DomainError
from oboro.exact import whole
from oboro.privacy import Unit
from oboro.tables.cells import Layout, column_groups
from oboro.tables.input import read_cells

LARGEST = 2**26  # combinations of the masked columns; each takes a few bytes while the mask is made
_AT_ONCE = 1 << 20  # of them


@dataclass(frozen=True)
class Mask:
    """The possible combinations of the first `columns` columns: differences of sorted keys, compressed, in base64."""

    columns: int
    possible: str

    @classmethod
    def of(cls, columns: int, heads: Integers) -> Mask:
        if heads.size == 0:
            raise DomainError("the mask rules out every cell", needed="at least one possible cell")
        packed = zlib.compress(np.diff(heads, prepend=0).astype("<i8").tobytes(), 9)
        return cls(columns, base64.b64encode(packed).decode())

    def __post_init__(self) -> None:
        try:
            whole("columns", self.columns, least=1)
            heads = self.heads
        except (TypeError, ValueError, zlib.error):
            raise DomainError(
                "the mask cannot be read", needed="columns and possible, as oboro writes them"
            ) from None
        if heads.size == 0 or heads[0] < 0 or not bool((np.diff(heads) > 0).all()):
            raise _misfit(heads)

    @cached_property
    def heads(self) -> Integers:
        """The possible combinations as keys of the first columns, in increasing order."""
        inflating = zlib.decompressobj()
        differences = inflating.decompress(base64.b64decode(self.possible, validate=True), 8 * LARGEST)
        if not inflating.eof or inflating.unused_data:
            raise ValueError("not a whole stream, or a longer one than a mask is")
        heads = np.cumsum(np.frombuffer(differences, "<i8").astype(np.int64))
        heads.setflags(write=False)
        return heads


def _misfit(heads: Integers) -> DomainError:
    return DomainError(
        "the mask does not fit the domain",
        given=f"{heads.size} combinations",
        fix="a mask made for this domain",
    )


def layout_of(domain: Domain, mask: Mask | None = None) -> Layout:
    """Where the cells of a domain lie, less those that the mask rules out; refuses a mask of another domain."""
    if mask is None:
        return Layout(domain)
    heads = mask.heads
    if mask.columns > len(domain):
        raise _misfit(heads)
    leading = Layout(Domain(domain.columns[: mask.columns]))
    if heads[-1] >> leading.bits or not bool(leading.possible(heads).all()):
        raise _misfit(heads)
    return Layout(domain, (leading.bits, heads))


def possible_cells(domain: Domain, cells: Any) -> Mask:
    """A mask that allows only the listed combinations of some columns."""
    columns, heads = _listed(domain, cells, "possible")
    return Mask.of(columns, heads)


def impossible_cells(domain: Domain, cells: Any) -> Mask:
    """A mask that rules out the listed combinations of some columns."""
    columns, heads = _listed(domain, cells, "impossible")
    leading = Layout(Domain(domain.columns[:columns]))
    possible = leading.all_possible()
    possible[heads] = False
    return Mask.of(columns, np.flatnonzero(possible).astype(np.int64))


def ruled_out(domain: Domain) -> Mask | None:
    """The mask of what the domain declares impossible; none where it declares nothing."""
    conditions = domain.rules.impossible
    if not conditions:
        return None
    columns = 1 + max(domain.names.index(name) for one in conditions for name, _ in one)
    leading = _leading(domain, columns, "domain.ruled(impossible=[]), for a table without a mask")
    axes = [column.name for column in leading.domain for group in column_groups(column) for _ in group]
    heads = []
    for first in range(0, 1 << leading.bits, _AT_ONCE):
        keys = np.arange(first, min(first + _AT_ONCE, 1 << leading.bits), dtype=np.int64)
        keys = keys[leading.possible(keys)]
        codes = dict(zip(axes, leading.places(keys), strict=True))  # what rules name has one axis: its codes
        possible = np.ones(keys.size, np.bool_)
        for condition in conditions:
            met = np.ones(keys.size, np.bool_)
            for name, ranges in condition:
                low, high = np.array(
                    ranges, np.int64
                ).T  # in order: only the last that begins before can hold it
                at = np.searchsorted(low, codes[name], side="right") - 1
                met &= (at >= 0) & (codes[name] < high[at])
            possible &= ~met
        heads.append(keys[possible])
    return Mask.of(columns, np.concatenate(heads))


def _leading(domain: Domain, columns: int, other: str | None = None) -> Layout:
    """The layout of the first columns, all combinations of which a mask has to list."""
    leading = Layout(Domain(domain.columns[:columns]))
    if leading.bits >= LARGEST.bit_length():
        fix = "the masked columns first in the domain"
        raise DomainError(
            "the mask would be too large",
            given=f"2^{leading.bits} combinations of {', '.join(leading.domain.names)}",
            needed=f"at most 2^{LARGEST.bit_length() - 1}",
            fix=fix if other is None else f"{fix}; or {other}",
        )
    return leading


def _listed(domain: Domain, cells: Any, argument: str) -> tuple[int, Integers]:
    """The listed combinations as keys of the first columns, with every value of those that the list leaves out."""
    source = open_data(cells, argument)
    source.check_separator([name for column in domain for name in column.sources], argument)
    named = [column for column in domain if all(name in source.types for name in column.sources)]
    if not named:
        raise DataError(
            "the mask names no column of the domain",
            given=", ".join(source.types),
            needed=" or ".join(domain.names),
        )
    columns = 1 + domain.columns.index(named[-1])
    leading = _leading(domain, columns)
    listed = read_cells(source, Layout(Domain(named)), Unit.row(), None).keys
    # each column adds its bits below those before it; a column that is not listed takes all its values
    of_column = {column.name: Layout(Domain([column])) for column in leading.domain}
    below = sum(of_column[column.name].bits for column in named)
    heads = np.zeros(listed.size, np.int64)
    for column in leading.domain:
        own = of_column[column.name]
        if column in named:
            below -= own.bits
            heads = (heads << own.bits) | ((listed >> below) & ((1 << own.bits) - 1))
        else:
            values = np.flatnonzero(own.all_possible())
            heads = ((heads << own.bits)[:, None] | values).reshape(-1)
            listed = np.repeat(listed, values.size)
    return columns, np.unique(heads)
