"""Rows as codes, and whose they are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.statistics.points import all_codes
from oboro.statistics.scope import Scope

AGE = ob.Integer("age", 0, 100)


@pytest.mark.parametrize("odd", [b"z" * 1_500_000, b"\xff\xfe", b"\x00", b""])
def test_one_persons_id_costs_no_more_than_it_is_long(odd: bytes) -> None:
    ids = pa.array([b"u%d" % i for i in range(3000)] * 2 + [odd] * 3 + [None], pa.binary()).view(pa.string())
    data = pa.table({"who": ids, "age": np.ones(len(ids), np.int64)})
    tracemalloc.start()
    codes, units = all_codes(Scope(ob.Unit.person("who", 2)), [AGE], data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000  # 6,000 times the longest would be 36 GB
    assert codes[:, 0].tolist() == [1] * 6003 + [-1]
    assert units[:3000].tolist() == units[3000:6000].tolist()
    assert len(set(units[:6003].tolist())) == 3001
