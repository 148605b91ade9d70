"""Sums in 128 bits, bounded contributions, conditions, and streaming counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from oboro.domain import Category, Domain, Integer
from oboro.engine import add_up, count_cells, count_units, duck, open_data
from oboro.errors import DomainError, UnitError
from oboro.privacy import Unit
from oboro.statistics.where import parse

X, G = Integer("x", 0, 9), Category("g", ["a", "b"])


def test_sums_of_codes_and_products_by_group() -> None:
    source = open_data(pa.table({"x": [1, 2, 3, None, 99], "g": ["a", "a", "b", "a", "c"]}))
    assert add_up(source, [X], [(), (0,), (0, 0)], Unit.row(), by=[G]) == {0: [2, 3, 5], 1: [1, 3, 9]}
    assert add_up(source, [X], [(), (0,)], Unit.row()) == {0: [4, 15]}
    assert add_up(source, [X], [()], Unit.row(), condition=parse("x < 3", Domain([X]))) == {0: [2]}
    assert add_up(source, [], [()], Unit.row()) == {0: [5]}
    assert add_up(open_data({"x": pa.array([], pa.int64())}), [X], [(), (0,)], Unit.row()) == {0: [0, 0]}


def test_sums_do_not_overflow_64_bits() -> None:
    big = Integer("x", 0, 2**44 - 1)
    source = open_data({"x": [2**44 - 1] * 100})
    assert add_up(source, [big], [(0,), (0, 0)], Unit.row()) == {
        0: [100 * (2**44 - 1), 100 * (2**44 - 1) ** 2]
    }
    with pytest.raises(DomainError, match="too large"):
        add_up(source, [Integer("x", 0, 2**60)], [(0, 0)], Unit.row())


@pytest.mark.parametrize("who", [[1, 1, 1, 2, None], ["p", "p", "p", "q", None], [1.5, 1.5, 1.5, 2.5, None]])
def test_a_person_adds_at_most_max_rows(who: list[object]) -> None:
    source = open_data(pa.table({"x": [5, 5, 5, 5, 5], "who": who}))
    assert add_up(source, [X], [(), (0,)], Unit.person("who", 2)) == {0: [3, 15]}
    assert count_units(source, Unit.person("who", 2)) == 2
    assert count_units(source, Unit.row()) == 5
    with pytest.raises(UnitError):
        count_units(source, Unit.cells())


def test_rows_that_a_condition_leaves_out_do_not_use_up_the_limit() -> None:
    source = open_data(pa.table({"x": [1] * 10 + [7, 8], "who": [1] * 12}))
    found = add_up(source, [X], [(), (0,)], Unit.person("who", 2), condition=parse("x > 5", Domain([X])))
    assert found == {0: [2, 15]}


def test_streamed_counts_are_the_grouped_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    table = {"x": rng.integers(-2, 12, 500).tolist(), "who": rng.integers(0, 50, 500).tolist()}
    for unit in (Unit.row(), Unit.person("who", 3)):
        grouped = count_cells(open_data(table), [X], unit)
        with monkeypatch.context() as patch:
            patch.setattr(duck, "SMALL", 1)
            streamed = count_cells(open_data(table), [X], unit)
        order = np.argsort(grouped[0])
        assert grouped[0][order].tolist() == streamed[0].tolist()
        assert grouped[1][order].tolist() == streamed[1].tolist()
