"""More budget does not make a model worse: what goes together is chosen, and not what falls together by chance."""

from __future__ import annotations

import numpy as np
import pytest

import oboro as ob
from oboro.synth.plan import by_chance


@pytest.mark.parametrize("eps", [1, 3, 10, 30])
def test_the_tree_holds_what_goes_together_at_every_budget(test_bits, eps: int) -> None:
    """a and b go together a little, in few cells; two other columns do not, in so many that chance alone adds up to more."""
    n, rng = 20_000, np.random.default_rng(3)
    a = np.arange(n) < n // 2
    b = np.where(a, np.arange(n) < n * 0.25625, np.arange(n) < n * 0.74375)  # 51% and 49%
    data = {
        "f": rng.integers(0, 1000, n),
        "a": a.astype(int),
        "g": rng.integers(0, 1000, n),
        "b": b.astype(int),
    }
    sizes = {"f": 999, "a": 1, "g": 999, "b": 1}
    domain = ob.Domain([ob.Integer(name, 0, top) for name, top in sizes.items()])
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=eps, delta="1e-6", method="marginals")
    tree = [columns for columns, _ in plan.measure_once(plan.prepare(data), test_bits).tables]  # type: ignore[union-attr]
    assert (1, 3) in tree


def test_what_chance_adds_is_what_it_adds() -> None:
    """Of two columns that are independent: many cells and few, with few rows in them and with many."""
    rng = np.random.default_rng(1)
    for shape, n in (((2, 2), 4000), ((2, 30), 3000), ((30, 30), 200), ((30, 30), 40_000)):
        found = []
        for _ in range(300):
            table = np.zeros(shape)
            np.add.at(table, tuple(rng.integers(0, size, n) for size in shape), 1)
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
            found.append(np.abs(table - np.rint(expected)).sum() / by_chance(expected))
        assert np.mean(found) == pytest.approx(1, abs=0.15)
    assert by_chance(np.array([[-1.0], [0.0]])) == 0
