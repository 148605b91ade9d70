"""A person's rows in many groups: every group that is touched rounds, and the noise must cover all of it."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import oboro as ob
from oboro.statistics.balls import Ball
from oboro.statistics.moments import covariance_plan
from oboro.statistics.scope import Bins, Scope
from oboro.statistics.terms import promised

RADIUS = 2**20


@pytest.mark.parametrize(("rows", "d"), [(64, 8), (1024, 16)])
def test_one_row_in_each_group_costs_no_more_than_promised(rows: int, d: int) -> None:
    columns = [ob.Integer(f"x{i}", -RADIUS, RADIUS) for i in range(d)]
    scope = Scope(ob.Unit.person("p", max_rows=rows), by=(Bins(ob.Integer("g", 0, rows - 1)),))
    plan = covariance_plan(columns, scope, promised("1", None), Ball("l1", RADIUS))
    row = [RADIUS - (d - 1), *[-1] * (d // 2), *[1] * (d - 1 - d // 2)]  # |row|_1 is the radius
    table = pa.table(
        {f"x{i}": pa.array([value] * rows, pa.int64()) for i, value in enumerate(row)}
        | {"g": pa.array(range(rows), pa.int64()), "p": pa.array([1] * rows, pa.int64())}
    )
    moved = plan.prepare(table).astype(object) - plan.prepare(table.slice(0, 0)).astype(object)
    loss = sum(
        (Fraction(abs(int(x))) / term.noise.scale for i, term in enumerate(plan.terms) for x in moved[:, i]),
        Fraction(0),
    )
    assert loss <= 1, float(loss)
