"""Columns from their canonical form: the `[[columns]]` tables of a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oboro.domain.columns import Category, Column, Date, Integer, Real
from oboro.domain.mesh import Grid, Mesh
from oboro.errors import BoundsError, DomainError, told
from oboro.language import Lines


def _grid(names: Sequence[str], shape: Sequence[int]) -> Grid:
    if not isinstance(names, list | tuple):
        raise DomainError(
            "a grid needs the names of its columns",
            given=told(names=repr(names)),
            fix='names = ["row", "col"]',
        )
    return Grid(*names, shape=shape)


KINDS: dict[str, tuple[Callable[..., Column], str]] = {  # what makes it, and what it needs
    "integer": (Integer, "name, low, high"),
    "real": (Real, "name, low, high, step"),
    "category": (Category, "name, values"),
    "date": (Date, "name, first, last"),
    "grid": (_grid, "names, shape"),
    "mesh": (Mesh, "name, level"),
}


def column_from(record: dict[str, Any]) -> Column:
    """The column that one `[[columns]]` table describes."""
    given = dict(record) if isinstance(record, dict) else {}
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DomainError(
            f"column {given.get('name', '?')!r} has an unknown kind",
            given=told(kind=repr(kind)),
            needed=", ".join(KINDS),
            fix=Lines('[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120'),
        )
    make, parts = KINDS[kind]
    try:
        return make(**given)
    except TypeError:
        raise BoundsError(
            f"column {given.get('name', '?')!r} of kind {kind!r} has wrong or missing parts",
            given=", ".join(given) or "nothing else",
            needed=parts,
            fix=Lines('[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120'),
        ) from None
