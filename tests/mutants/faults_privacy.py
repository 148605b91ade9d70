"""Faults in what a release is said to cost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from mutants.planting import planted
from oboro.privacy import ZCDP, Approx, Conditional, Unit
from oboro.privacy.losses import Slope

COMPOSITION = "tests/privacy/test_composition.py"
GUARANTEES = "tests/privacy/test_guarantees.py"


@planted(
    "oboro.privacy.unit:two_steps", caught_by=f"{COMPOSITION}::test_units_translate_only_where_it_is_proved"
)
def one_step_for_a_replacement(original: Any, guarantee: Any) -> Any:
    """A promise about adding or removing a unit is taken as one about replacing it: a factor of two is lost."""
    return guarantee


@planted(
    "oboro.privacy.unit:two_steps", caught_by=f"{COMPOSITION}::test_units_translate_only_where_it_is_proved"
)
def rho_doubled_where_it_quadruples(original: Any, guarantee: Any) -> Any:
    """Two steps cost twice the rho, as if rho grew like eps."""
    return ZCDP(2 * guarantee.rho) if isinstance(guarantee, ZCDP) else original(guarantee)


@planted(
    "oboro.privacy.events:_largest",
    caught_by=f"{COMPOSITION}::test_parallel_counts_every_group_that_a_person_can_touch",
)
def parallel_for_one_group_only(original: Any, costs: Any, count: int) -> Any:
    """Disjoint groups cost their maximum, though a person may be in several of them."""
    return original(costs, 1)


@planted(
    "oboro.privacy.events:parallel",
    caught_by=f"{COMPOSITION}::test_parallel_is_the_maximum_under_add_remove_and_more_under_replace",
)
def moved_row_touches_one_group(original: Any, *guarantees: Any, unit: Any, inside: Any = None) -> Any:
    """Under replace, disjoint groups cost their maximum: a row that moves between two of them is forgotten."""
    return original(*guarantees, unit=Unit.row() if unit.kind == "row" else unit)


@planted(
    "oboro.privacy.losses:Steps",
    caught_by=f"{COMPOSITION}::test_discrete_laplace_is_not_taken_for_continuous",
)
def discrete_noise_accounted_as_continuous(original: Any, scale: Any, moves: int = 1) -> Any:
    """The privacy loss of discrete Laplace noise is taken from the continuous law."""
    return Slope(moves / scale)


@planted(
    "oboro.privacy.losses:_Lattice.coarser",
    caught_by="tests/privacy/test_losses.py::test_a_coarser_lattice_costs_more_never_less",
)
def losses_rounded_down(original: Any, self: Any, losses: Any) -> Any:
    """On a coarser lattice a loss goes to the point below it, instead of being split between two."""
    coarse = original(self, losses)
    even, odd = list(losses.masses[::2]), losses.masses[1::2]
    return replace(coarse, masses=[a + b for a, b in zip_longest(even, odd, fillvalue=0)])


@planted(
    "oboro.privacy.losses:_Lattice.product",
    caught_by="tests/privacy/test_losses.py::test_batches_of_different_noises_cost_the_truth",
)
def what_tells_all_forgotten_in_a_product(original: Any, self: Any, one: Any, two: Any) -> Any:
    """The deltas of the parts of a batch do not add up: only the last one counts."""
    return replace(original(self, one, two), lost=two.lost)


@planted(
    "oboro.privacy.guarantee:Pure.to_zcdp",
    caught_by=f"{GUARANTEES}::test_pure_implies_the_others_and_never_the_reverse",
)
def pure_to_zcdp_by_an_eighth(original: Any, self: Any) -> Any:
    """Pure eps is entered as eps^2/8, the bounded range rule, which holds for one kind of mechanism alone."""
    return ZCDP(self.eps**2 / 8)


@planted(
    "oboro.privacy.guarantee:Renyi.to_approx",
    caught_by=f"{GUARANTEES}::test_reference_conversions",
)
def renyi_to_approx_without_its_price(original: Any, self: Any, delta: Any, **rule: Any) -> Any:
    """From Rényi to (eps, delta) the logarithm of delta is divided by the order, not by the order less one."""
    given = original(self, delta, **rule)
    return Approx(self.eps + (given.eps - self.eps) * (self.order - 1) / self.order, given.delta)


@planted(
    "oboro.privacy.guarantee:Pure.covers",
    caught_by=f"{GUARANTEES}::test_conditional_never_becomes_unconditional",
)
def assumption_forgotten(original: Any, self: Any, other: Any) -> bool:
    """A promise that rests on an assumption is taken as a promise without one."""
    return original(self, other.guarantee if isinstance(other, Conditional) else other)


@planted("oboro.exact:rational", caught_by=f"{COMPOSITION}::test_ten_times_one_tenth_is_one")
def budgets_in_floating_point(original: Any, name: str, value: Any) -> Fraction:
    """A float is read bit by bit, so that ten tenths are a little more than one."""
    return Fraction(value) if isinstance(value, float) else original(name, value)
