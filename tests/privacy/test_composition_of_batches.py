"""Promises that were too good, and batches that broke."""

from __future__ import annotations

import pytest

from oboro.errors import GuaranteeError, ParameterError
from oboro.privacy import (
    ZCDP,
    Approx,
    LaplaceNoise,
    Pure,
    Renyi,
    Repeated,
    Unit,
    compose,
    parallel,
    translate,
)

REPLACE = Unit.row("replace")


def test_parallel_does_not_forget_costs_of_another_kind() -> None:
    inside = [Pure("0.1"), Pure("0.1")]
    assert parallel(ZCDP(1), ZCDP(1), unit=REPLACE, inside=inside) == ZCDP(2)


def test_parallel_does_not_raise_a_renyi_order() -> None:
    inside = [Renyi(2, "0.5"), Renyi(2, 3)]
    assert parallel(Renyi(8, 1), Renyi(8, 1), unit=REPLACE, inside=inside) == Renyi(2, 3)


@pytest.mark.parametrize("inside", [[], [Pure("0.1")]])
def test_parallel_needs_the_cost_inside_every_group(inside: list[Pure]) -> None:
    with pytest.raises(ParameterError):
        parallel(Pure(1), Pure(1), unit=REPLACE, inside=inside)


def test_a_batch_that_keeps_no_promise_at_this_delta_is_refused() -> None:
    with pytest.raises(GuaranteeError):
        compose(Approx(1, "1e-5"), delta="1e-6")


@pytest.mark.parametrize("method", ["zcdp", "advanced"])
def test_a_batch_is_counted_not_listed(method: str) -> None:
    compose(Repeated(Repeated(LaplaceNoise(10**9), 10**6), 10**6), delta="1e-6", method=method)


def test_extreme_numbers_convert() -> None:
    assert ZCDP("1e-400").to_approx("1e-6").eps < 1
    assert ZCDP("1e400").to_approx("1e-6").eps > 10**400
    assert ZCDP(1).to_approx("1e-400").eps > 50
    assert ZCDP(1).to_approx("0." + "9" * 30).eps == 0
    assert Renyi(2, "1e400").to_approx("1e-6").eps > 10**400
    with pytest.raises(ParameterError, match="delta must be below 1"):
        translate(Approx(800, "1e-6"), Unit.row(), REPLACE)
