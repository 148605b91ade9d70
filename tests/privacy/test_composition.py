from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.arrays import Floats
from oboro.errors import GuaranteeError, ParameterError, UnitError
from oboro.privacy import (
    ZCDP,
    Approx,
    Composed,
    Conditional,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    Renyi,
    Repeated,
    Spend,
    Unit,
    compose,
    convert,
    parallel,
    translate,
)
from oboro.privacy.unit import check_unit, protecting_both

HUNDRED = Repeated(LaplaceNoise(10, discrete=False), 100)


def test_ten_times_one_tenth_is_one() -> None:
    assert compose(*[Pure(0.1)] * 10) == Pure(1)
    assert compose() == Pure(0)


@pytest.mark.parametrize(
    ("method", "eps"), [("basic", 10), ("advanced", 6.31), ("zcdp", 5.76), ("renyi", 4.98), ("pld", 4.69267)]
)
def test_one_hundred_laplace_releases(method: str, eps: float) -> None:
    together = compose(HUNDRED, delta="1e-6", method=method)
    assert isinstance(together, Approx)
    assert float(together.eps) == pytest.approx(eps, abs=0.005 if eps < 4.69 or eps > 4.7 else 1e-5)


@pytest.mark.few(1, "statistical tests")
@pytest.mark.parametrize(("times", "eps"), [(10, 0.99898), (100, 4.69267), (1000, 18.95029)])
def test_pld_reference_values(times: int, eps: float) -> None:
    assert float(
        compose(Repeated(LaplaceNoise(10, discrete=False), times), delta="1e-6").eps
    ) == pytest.approx(eps, abs=1e-5)


def test_gaussian_pld_meets_the_analytic_calibration() -> None:
    event = GaussianNoise(Fraction("4.224679") ** 2, discrete=False)
    assert float(compose(event, delta="1e-6").eps) == pytest.approx(1, abs=2e-4)


def test_discrete_laplace_is_not_taken_for_continuous() -> None:
    discrete, continuous = (
        compose(Repeated(LaplaceNoise(10, discrete=d), 100), delta="1e-6") for d in (True, False)
    )
    assert discrete.eps > continuous.eps + Fraction(1, 20)


def test_tight_composition_of_guarantees_alone_is_the_worst_case() -> None:
    known = compose(HUNDRED, delta="1e-6")
    worst = compose(*[Pure("0.1")] * 100, delta="1e-6")
    assert known.eps < worst.eps < 10


def test_costs_of_different_kinds_are_added_in_the_weakest() -> None:
    assert compose(Pure(1), ZCDP("0.5")) == ZCDP(1)
    assert compose(Pure(1), Approx(1, "1e-6")) == Approx(2, "1e-6")
    assert compose(Pure("0.1"), ZCDP("0.01"), Renyi(4, 1)) == Renyi(
        4, 1 + Fraction(4, 100) + Fraction(4, 200)
    )
    assert compose(Renyi(4, 1), Renyi(8, 1)) == Renyi(4, 2)
    assert compose(Conditional(Pure(1), "A"), Pure(1), Conditional(Pure(1), "B")) == Conditional(
        Pure(3), ["A", "B"]
    )
    for refused in ((ZCDP(1), Approx(1, "1e-6")), (Renyi(2, 1), Approx(1, "1e-6"))):
        with pytest.raises(GuaranteeError):
            compose(*refused)


def test_events_add_up_exactly() -> None:
    event = Composed(Spend(Pure("0.5")), Repeated(LaplaceNoise(4), 2), Repeated(Composed(Spend(Pure(1))), 3))
    assert compose(event) == Pure(4)
    assert GaussianNoise(50, 10).guarantee == ZCDP(1)


def test_an_unknown_event_is_refused_everywhere() -> None:
    @dataclass(frozen=True)
    class Novelty(Event):
        pass

    @dataclass(frozen=True)
    class Disguise(Spend):
        """A subclass may mean something else; it is not taken for its parent."""

    for event in (Novelty(), Repeated(Novelty(), 2), Composed(Novelty()), Disguise(Pure(1))):
        for options in (
            {},
            {"delta": "1e-6"},
            {"delta": "1e-6", "method": "renyi"},
            {"delta": "1e-6", "method": "advanced"},
        ):
            with pytest.raises(GuaranteeError, match="does not know"):
                compose(event, **options)


def test_methods_and_delta_are_checked() -> None:
    with pytest.raises(ParameterError, match="needs delta"):
        compose(Pure(1), method="pld")
    with pytest.raises(ParameterError, match="unknown"):
        compose(Pure(1), delta="1e-6", method="best")
    with pytest.raises(GuaranteeError, match="pure"):
        compose(ZCDP(1), delta="1e-6", method="advanced")


def test_parallel_is_the_maximum_under_add_remove_and_more_under_replace() -> None:
    parts = (Pure(1), Pure(2), Pure(3))
    assert parallel(*parts, unit=Unit.row()) == Pure(3)
    assert parallel(*parts, unit=Unit.row("replace")) == Pure(6)
    assert parallel(ZCDP(1), ZCDP(2), unit=Unit.row("replace")) == ZCDP(8)
    # with what a replacement costs inside a group: the worst of those, or a row that moves
    assert parallel(*parts, unit=Unit.row("replace"), inside=parts) == Pure(5)
    assert parallel(*parts, unit=Unit.row("replace"), inside=[Pure(1), Pure(2), Pure(6)]) == Pure(6)


def test_parallel_counts_every_group_that_a_person_can_touch() -> None:
    parts = (Pure(1), Pure(2), Pure(3))
    assert parallel(*parts, unit=Unit.person("user", max_rows=2)) == Pure(5)
    assert parallel(*parts, unit=Unit.person("user", max_rows=9)) == Pure(6)
    assert parallel(*parts, unit=Unit.person("user", max_rows=2, adjacency="replace")) == Pure(10)
    assert parallel(Pure(1), Pure(1), unit=Unit.cells(max_cells=2)) == Pure(2)
    with pytest.raises(UnitError, match="signal"):
        parallel(Pure(1), unit=Unit.signal(1))


@given(
    st.lists(st.fractions(min_value=0, max_value=5, max_denominator=50), min_size=1, max_size=6),
    st.integers(1, 8),
)
def test_parallel_lies_between_the_maximum_and_the_sum(eps: list[Fraction], rows: int) -> None:
    total = parallel(*map(Pure, eps), unit=Unit.person("user", max_rows=rows))
    assert isinstance(total, Pure)
    assert max(eps) <= total.eps <= sum(eps)


def test_convert_pays_only_by_proved_rules() -> None:
    assert convert(Pure(1), ZCDP(9)) == ZCDP("0.5")
    assert convert(Pure(1), Approx(9, "0.1")) == Approx(1, 0)
    assert convert(Renyi(8, 1), Renyi(4, 9)) == Renyi(4, 1)
    assert convert(Conditional(Pure(1), "A"), ZCDP(9)) == Conditional(ZCDP("0.5"), "A")
    for cost, currency in (
        (ZCDP(1), Pure(9)),
        (Approx(1, "1e-6"), Pure(9)),
        (Approx(1, "1e-6"), ZCDP(9)),
        (Renyi(4, 1), ZCDP(9)),
        (ZCDP(1), Approx(9, "0.1")),
    ):
        with pytest.raises(GuaranteeError, match="cannot be paid") as caught:
            convert(cost, currency)
        assert caught.value.fix


def test_units_translate_only_where_it_is_proved() -> None:
    row, other = Unit.row(), Unit.row("replace")
    assert translate(Pure(1), row, row) == Pure(1)
    assert translate(Pure(1), row, other) == Pure(2)
    assert translate(ZCDP(1), row, other) == ZCDP(4)
    two = translate(Approx(1, "1e-6"), row, other)
    assert isinstance(two, Approx)
    assert float(two.delta) == pytest.approx((1 + 2.718281828459045) * 1e-6, rel=1e-12)
    assert translate(Conditional(Pure(1), "A"), row, other) == Conditional(Pure(2), "A")
    assert translate(Pure(1), Unit.person("u", 5), Unit.person("u", 20)) == Pure(1)
    assert translate(Pure(1), Unit.cells(3, 2), Unit.cells(2, 2)) == Pure(1)
    refused = [
        (other, row),
        (row, Unit.person("u", 1)),
        (Unit.person("u", 1), Unit.person("v", 1)),
        (Unit.cells(1), Unit.cells(2)),
        (Unit.signal(1), Unit.signal(2)),
    ]
    for made_for, wanted in refused:
        with pytest.raises(UnitError):
            translate(Pure(1), made_for, wanted)
    assert translate(Renyi(2, 1), row, other) == Renyi("4/3", 3)
    for eps, delta in ((5, "0.1"), (10**9, "1e-6")):
        with pytest.raises(ParameterError, match="below 1"):  # (1 + e^eps) delta may be no promise at all
            translate(Approx(eps, delta), row, other)
    assert translate(Approx(10**9, 0), row, other) == Approx(2 * 10**9, 0)


ADJACENCIES = ("add/remove", "replace")
SMALL = [
    *(Unit.row(adjacency) for adjacency in ADJACENCIES),
    *(Unit.person(column, rows, a) for column in ("who", "house") for rows in (1, 3) for a in ADJACENCIES),
    *(Unit.cells(most, each, a) for most in (1, 3) for each in (1, 2) for a in ADJACENCIES),
    *(Unit.signal(distance, norm) for distance in (1, 2) for norm in (1, 2, "inf")),
]


def holds(unit: Unit, other: Unit) -> bool:
    """Whether neighbours for `other` are few steps apart for `unit`, written down apart from the sources."""
    if unit.kind == "signal" or other.kind == "signal":
        same = (unit.kind, unit.norm) == (other.kind, other.norm)
        return same and (unit.distance or 0) >= (other.distance or 0)
    if unit.adjacency == "replace" and other.adjacency != "replace":
        return False
    if unit.kind == "cells" or other.kind == "cells":
        limits = [((one.max_cells or 0), (one.max_per_cell or 0)) for one in (unit, other)]
        return unit.kind == other.kind and all(a >= b for a, b in zip(*limits, strict=True))
    rows = (
        other.kind == "row" and unit.adjacency != "replace"
    )  # a row may be replaced by that of another person
    return rows or (unit.kind, unit.column) == (other.kind, other.column)


@pytest.mark.parametrize("wanted", SMALL, ids=str)
def test_what_is_proposed_for_two_units_protects_all_that_either_protects(wanted: Unit) -> None:
    """And a ledger for it, or that there is, then takes the plan. Nothing is proposed only where no unit does."""
    for made_for in SMALL:
        try:
            check_unit(made_for, wanted, Pure(3))
        except UnitError as refused:
            error = refused
        else:
            assert holds(made_for, wanted)
            continue
        settings = {name: value for _, name, value in getattr(error.fix, "settings", ())}
        if not settings:
            assert not any(holds(unit, made_for) and holds(unit, wanted) for unit in SMALL), (
                made_for,
                wanted,
            )
            assert "ledger create" not in str(error.fix)
            continue
        both = settings["unit"]
        assert isinstance(both, Unit)
        assert holds(both, made_for), (made_for, wanted, both)
        assert holds(both, wanted), (made_for, wanted, both)
        ledger = (
            both if "budget" in settings else wanted
        )  # a second ledger only where this one takes no such plan
        assert settings.get("budget", Pure(3)) == Pure(3)
        assert translate(Pure(1), both, ledger).eps in (1, 2)  # type: ignore[union-attr]
        if "budget" in settings:
            with pytest.raises(UnitError):
                translate(Pure(1), both, wanted)


def test_what_is_proposed_for_two_units_is_the_least() -> None:
    row, replaced = Unit.row(), Unit.person("who", 10, "replace")
    who = Unit.person("who", 10)
    assert protecting_both(row, replaced) == protecting_both(replaced, row) == who
    assert (
        protecting_both(Unit.row("replace"), replaced) == who
    )  # a row may be replaced by that of another person
    assert protecting_both(Unit.person("who", 5, "replace"), who) == Unit.person("who", 5)
    assert protecting_both(Unit.cells(3, 2), Unit.cells(9, 1)) == Unit.cells(9, 2)
    assert protecting_both(Unit.cells(3, 2, "replace"), Unit.cells(9, 1)) == Unit.cells(9, 2)
    assert protecting_both(Unit.signal(3), Unit.signal(1)) == Unit.signal(3)
    for one, other in (
        (who, Unit.person("house", 10)),
        (Unit.signal(1), Unit.signal(1, 1)),
        (row, Unit.cells()),
    ):
        assert protecting_both(one, other) is None


def test_two_steps_of_renyi_cover_every_pair_of_steps_and_the_printed_factor_does_not() -> None:
    """Coins P, R, Q at random with both steps within eps at order b, either way round; the factor of Lemma A.1.2 of Miura et al., upside down, fails."""
    random = np.random.default_rng(4)

    def divergence(order: float, one: Floats, two: Floats) -> float:
        return float(np.log((one**order * two ** (1 - order)).sum()) / (order - 1))

    closest, broken = 0.0, 0
    for _ in range(4000):
        order = Fraction(str(round(1 + 10 ** random.uniform(-1, 1.5), 2)))
        p, r, q = (np.array([x, 1 - x]) for x in random.uniform(0.01, 0.99, 3))
        eps = max(divergence(float(order), p, r), divergence(float(order), r, q))
        two = translate(Renyi(order, Fraction(eps)), Unit.row(), Unit.row("replace"))
        assert isinstance(two, Renyi)
        true = divergence(float(two.order), p, q)
        assert true <= float(two.eps) * (1 + 1e-12)
        closest = max(closest, true / float(two.eps))
        broken += true > eps * ((float(order) - 1) / float(order) + 1)
    assert closest > 0.95
    assert broken > 100


def test_units_read_back_and_are_checked() -> None:
    from oboro.privacy import unit_from

    for unit in (
        Unit.row(),
        Unit.row("replace"),
        Unit.person("user", 20),
        Unit.cells(2, 3, "replace"),
        Unit.signal("0.5"),
        Unit.signal(1, "inf"),
    ):
        assert unit_from(unit.to_dict()) == unit
        assert eval(f"Unit.{repr(unit).removeprefix('Unit.')}") == unit
        assert str(unit)
    for wrong in (
        lambda: Unit.row("swap"),
        lambda: Unit.person("", 1),
        lambda: Unit.person("u", 0),
        lambda: Unit.cells(0),
        lambda: Unit.signal(0),
        lambda: Unit.signal(1, "1/2"),
        lambda: unit_from({"kind": "house"}),
        lambda: unit_from({"kind": "person"}),
        lambda: unit_from({"kind": "row", "rows": 3}),
    ):
        with pytest.raises((UnitError, ParameterError)):
            wrong()
