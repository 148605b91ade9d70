"""Questions to a published table: a value, a list or a range for any of its columns; all of the others.

row=100..131   col=7   sex=F   code=5339,5340   age=20..64
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Grid, Mesh
from oboro.errors import ParameterError, setting, told
from oboro.kinds import nearest
from oboro.tables.layout import Layout
from oboro.tables.tree.intervals import Choice
from oboro.tables.tree.lattice import Lattice, Tree

Where = Mapping[str, Any]


def check_names(layout: Layout, where: Where) -> None:
    """Refuses a question about columns that the table does not have."""
    known = [name for column in layout.domain for name in column.sources]
    for name in where:
        if name not in known:
            raise ParameterError(
                "the question names a column that the table does not have",
                given=str(name),
                needed=", ".join(known),
                fix=setting(**{nearest(name, known) or known[0]: 0}),
            )


def choices(layout: Layout, lattice: Lattice, where: Where) -> list[Choice]:
    """The leaves that a question chooses in each column."""
    check_names(layout, where)
    return [_chosen(tree, column, where) for tree, column in zip(lattice.trees, layout.domain, strict=True)]


def read_question(words: list[str]) -> dict[str, Any]:
    """A question from the command line: COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH."""
    where: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name or not text:
            raise ParameterError(
                "the question is not understood",
                given=word,
                needed="COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH",
                fix=told(row="100..131"),
            )
        low, dots, high = text.partition("..")
        where[name] = (low, high) if dots else text.split(",")
    return where


def _chosen(tree: Tree, column: Column, where: Where) -> Choice:
    places = tree.places(np.arange(tree.leaves))
    inside = np.ones(tree.leaves, np.bool_)
    for place, size in zip(places, tree.sizes, strict=True):
        inside &= place < size
    asked = [(name, where[name]) for name in column.sources if name in where]
    if isinstance(column, Grid):
        for name, values in asked:
            place = places[column.names.index(name)]
            side = column.shape[column.names.index(name)]
            inside &= np.isin(place, _numbers(name, values, side))
    elif isinstance(column, Mesh):
        for _, values in asked:
            inside &= _meshes(column, places, listed(values))
    else:
        for name, values in asked:
            inside &= np.isin(places[0], _codes(column, name, values))
    return inside


def _numbers(name: str, values: Any, side: int) -> Integers:
    """Places along one side of a grid."""
    try:
        if isinstance(values, tuple) and len(values) == 2:
            found = np.arange(max(int(values[0]), 0), min(int(values[1]), side - 1) + 1)
        else:
            found = np.array([int(value) for value in listed(values)], np.int64)
    except (TypeError, ValueError, OverflowError):
        raise no_value(name, values) from None
    if found.size == 0 or found.min() < 0 or found.max() >= side:
        raise no_value(name, values)
    return found


def _meshes(column: Mesh, places: list[Integers], values: list[Any]) -> Choice:
    """Codes of this mesh or of any coarser one."""
    codes = column.from_axes([np.minimum(p, s - 1) for p, s in zip(places, _sizes(column), strict=True)])
    chosen = np.zeros(codes.shape, np.bool_)
    for value in values:
        text = str(value)
        if not text.isdigit() or not 4 <= len(text) <= column.digits:
            raise no_value(column.name, value)
        chosen |= codes // 10 ** (column.digits - len(text)) == int(text)
    return chosen


def _sizes(column: Mesh) -> list[int]:
    return [size for group in column.groups for size in group]


def _codes(column: Column, name: str, values: Any) -> Integers:
    if isinstance(values, tuple) and len(values) == 2:
        low, high = (code_of(column, name, value) for value in values)
        return np.arange(low, high + 1)
    return np.array([code_of(column, name, value) for value in listed(values)], np.int64)


def code_of(column: Column, name: str, value: Any) -> int:
    """The code of a value; on the command line numbers come as texts."""
    known = getattr(column, "values", None)
    if known is not None:
        by_text = {str(each): i for i, each in enumerate(known)}
        if str(value) not in by_text:
            raise no_value(name, value)
        return by_text[str(value)]
    found = column.code(value)
    if found is None:
        raise no_value(name, value)
    return found


def listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | set | range) else [values]


def no_value(name: str, value: Any) -> ParameterError:
    return ParameterError(
        f"column {name!r} has no such value",
        given=told(**{name: repr(value)}),
        needed="values of the domain: one, several, or a range from low to high",
        fix=f"{name}=0..9",
    )
