"""Faults in synthetic records and in what they are said to cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted
from oboro.noise import DiscreteLaplace
from oboro.privacy import ZCDP, Pure, Unit

BOUNDS = "tests/synth/test_synth_bounds.py"
RECORDS = "tests/synth/test_synth_records.py"
PLANS = "tests/synth/test_synth_plans.py"


@planted(
    "oboro.synth.curves:private_ridge",
    caught_by=f"{BOUNDS}::test_the_private_bound_with_another_letter_would_be_false",
)
def ridge_in_the_wrong_formula(original: Any, order: Fraction, n: int, tau: Fraction, dims: int) -> Any:
    """The ridge stands where the formula for private n has the smallest eigenvalue."""
    from oboro.synth.curves import private_exact

    return private_exact(order, n, min(4 * dims / tau, Fraction(1)), dims)


@planted(
    "oboro.synth.records:draw_records",
    caught_by=f"{RECORDS}::test_records_have_the_mean_and_spread_that_the_method_says",
)
def eigenvalue_measured_instead_of_promised(
    original: Any, moments: Any, sizes: Any, ridge: Fraction, count: int, bits: Any
) -> Any:
    """The smallest eigenvalue is measured on the data, and the ridge lowered by it: a private number sets the noise."""
    half = np.array([2 / (size - 1) for size in sizes])
    mean = np.array(moments.sums) / moments.count
    covariance = np.array(moments.products, float) / moments.count - np.outer(mean, mean)
    least = float(np.linalg.eigvalsh(covariance * np.outer(half, half))[0])
    return original(moments, sizes, max(ridge - Fraction(max(least, 0.0)), Fraction(0)), count, bits)


@planted("oboro.synth.records:draw_records", caught_by=f"{RECORDS}::test_records_are_the_ideal_ones")
def records_redrawn_until_inside(
    original: Any, moments: Any, sizes: Any, ridge: Fraction, count: int, bits: Any
) -> Any:
    """A record beyond the box is drawn again, where only clipping is covered by the proof."""
    drawn = original(moments, sizes, ridge, count, bits)
    most = np.asarray(sizes) - 1
    while (outside := ((drawn == 0) | (drawn == most)).any(axis=1)).any():
        drawn[outside] = original(moments, sizes, ridge, int(outside.sum()), bits)
    return drawn


@planted(
    "oboro.synth.records:record_curve",
    caught_by="tests/synth/test_synth_power.py::test_a_hundred_records_cost_a_hundred_times_one[n public]",
)
def records_cost_as_one(
    original: Any, unit: Any, dims: int, n: Any, n_min: Any, ridge: Any, least: Any
) -> Any:
    """A hundred records are charged as one."""
    curve = original(unit, dims, n, n_min, ridge, least)

    def cheap(order: Fraction) -> Fraction | None:
        cost = curve(order)
        return None if cost is None else cost / 100

    return cheap


@planted(
    "oboro.synth.records:GaussianPlan.prepare", caught_by=f"{RECORDS}::test_private_n_needs_a_public_least"
)
def small_data_not_filled_up(original: Any, self: Any, data: Any) -> Any:
    """A dataset below the public least size is used as it is, beyond what was charged."""
    import copy

    careless = copy.copy(self)
    object.__setattr__(careless, "n_min", None)  # behind the plan's back: it would refuse
    return original(careless, data)


@planted(
    "oboro.synth.plan:squared_sensitivity",
    caught_by=f"{PLANS}::test_a_unit_moves_a_table_by_no_more_than_its_sensitivity",
)
def rows_of_a_person_not_squared(original: Any, unit: Any) -> int:
    """Three rows of one person are taken to move a table by sqrt 3, as if they were three persons."""
    return unit.contributions * (2 if unit.adjacency == "replace" else 1)


@planted(
    "oboro.synth.plan:choice_eps",
    caught_by=f"{PLANS}::test_a_choice_costs_at_most_its_share",
)
def choice_of_a_table_underpaid(original: Any, price: Any) -> Fraction:
    """The exponential mechanism that chooses tables has twice the eps that its share of rho buys."""
    return 2 * original(price)


@planted(
    "oboro.synth.plan:Ones.noises",
    caught_by=f"{PLANS}::test_all_steps_together_cost_what_was_promised_and_no_more[one row, added or removed-marginals]",
)
def every_column_at_the_whole_share(original: Any, self: Any) -> Any:
    """Each column is measured with the rho that is meant for all of them together."""
    return [[type(noise)(noise.sigma2 / len(self.domain)) for noise in noises] for noises in original(self)]


@planted(
    "oboro.synth.plan:choose_table",
    caught_by=f"{PLANS}::test_the_worst_table_is_chosen_with_the_chances_that_the_proof_speaks_of",
)
def best_table_taken_outright(
    original: Any, true: Any, expected: Any, sd: float, unit: Any, price: Any, bits: Any, **how: Any
) -> int:
    """The worst fitting table is looked up in the data, without a draw."""
    return original(true, expected, sd, Unit.row(), ZCDP(10**6), bits, **how)


@planted(
    "oboro.synth.plan:noise_for",
    caught_by=f"{PLANS}::test_eps_alone_is_spent_to_the_last_bit[one row, replaced-marginals]",
)
def replaced_rows_counted_once(original: Any, unit: Any, price: Any) -> Any:
    """Under replace, a table paid with eps alone has the noise of a row that is added: half the scale."""
    return (
        DiscreteLaplace(unit.contributions / price.eps) if isinstance(price, Pure) else original(unit, price)
    )
