"""What a forecast calls "cells" are cells of the domain, however the strategy fills its keys up."""

from __future__ import annotations

import math

import pytest

import oboro as ob
from oboro.report.cells import Place


def cells_of(domain: ob.Domain, strategy: str) -> list[str]:
    plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps=1, strategy=strategy)
    return [str(row[1]) for row in plan.forecast().rows]


@pytest.mark.parametrize("strategy", ["tree", "filtered", "wavelet"])
@pytest.mark.parametrize(
    "column",
    [
        ob.Grid("row", "col", shape=(57, 55)),
        ob.Grid("row", "col", shape=(480, 320)),
        ob.Mesh("mesh", "1km", region=[5130, 5131, 5231]),
        ob.Integer("age", 0, 99),
    ],
    ids=str,
)
def test_all_of_a_domain_has_as_many_cells_as_were_declared(column: ob.domain.Column, strategy: str) -> None:
    sides = {"grid": lambda: math.prod(column.shape), "mesh": lambda: column.places}  # type: ignore[attr-defined]
    declared = sides.get(column.kind, lambda: column.size)()
    assert cells_of(ob.Domain([column]), strategy)[-1].replace(",", "") == str(declared)


def test_a_block_at_the_border_is_named_by_what_it_covers() -> None:
    plan = ob.tables.plan(ob.Domain([ob.Grid("row", "col", shape=(480, 300))]), unit=ob.Unit.cells(), eps=1)
    named = {str(name): cells for name, cells, *_ in plan.forecast().rows}
    assert named["128 x 300 of row,col"] == 128 * 300


def test_a_map_counts_the_blocks_of_the_domain_not_of_what_it_shows() -> None:
    meshes = ob.Domain([ob.Mesh("mesh", "1km", region=[5130, 5131, 5231])])
    place = Place.of(meshes)
    assert [place.blocks(side) for side in place.sides] == [3 * 6400, 3 * 256, 3 * 64, 3]
    place = Place.of(ob.Domain([ob.Grid("row", "col", shape=(480, 300))]))
    assert place.blocks(1) == 480 * 300
    assert place.blocks(128) == 4 * 3
    table = {"town": ["a", "a", "b"], "mesh": [51300702, 51300703, 51310764]}
    areas = ob.Areas("mesh", levels=["town", "mesh"], table=table)
    place = Place.of(ob.Domain([areas]))
    assert [place.blocks(side) for side in place.sides] == [3, 2, 2, 2]
