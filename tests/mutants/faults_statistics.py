"""Faults in counts, sums, means, quantiles, clusters, components, and releases with a smooth sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted
from oboro.privacy import Pure

POWER = "tests/statistics/test_statistics_power.py"
PRIVACY = "tests/statistics/test_plan_privacy.py"
SMOOTH = "tests/statistics/test_smooth_releases.py"
CLUSTERS = "tests/statistics/test_clusters_and_components.py"
QUANTILES = "tests/statistics/test_quantiles.py"
ISOLATION = "tests/statistics/test_isolation.py"


@planted(
    "oboro.statistics.histogram:HistogramPlan.noise",
    caught_by="tests/statistics/test_histogram.py::test_the_sensitivity_is_that_of_the_worst_neighbours[unit1-2]",
)
def histogram_sensitivity_halved(original: Any, self: Any) -> Any:
    """A row that is replaced is taken to move a histogram by one, though it leaves one bin and enters another."""
    from oboro.statistics.terms import noise_for

    return noise_for(self.unit.contributions, self.guarantee)


@planted(
    "oboro.statistics.histogram:HistogramPlan.noise",
    caught_by="tests/statistics/test_histogram.py::test_the_sensitivity_is_that_of_the_worst_neighbours[unit0-1]",
)
def gaussian_noise_under_the_proof_of_laplace(original: Any, self: Any) -> Any:
    """Pure eps is promised, and the noise is Gaussian of the same spread."""
    from oboro.noise import DiscreteGaussian, DiscreteLaplace

    noise = original(self)
    return DiscreteGaussian(2 * noise.scale**2) if isinstance(noise, DiscreteLaplace) else noise


@planted(
    "oboro.statistics.histogram:HistogramPlan.measure",
    caught_by=f"{POWER}::test_every_bin_takes_noise_of_its_own[row]",
)
def empty_bins_without_noise(original: Any, self: Any, prepared: Any, bits: Any, trials: Any = None) -> Any:
    """A bin in which nobody is stays at zero."""
    return np.where(prepared > 0, original(self, prepared, bits, trials), 0)


@planted(
    "oboro.statistics.histogram:HistogramPlan.measure",
    caught_by=f"{POWER}::test_every_bin_takes_noise_of_its_own[row]",
)
def branch_on_private_data(original: Any, self: Any, prepared: Any, bits: Any, trials: Any = None) -> Any:
    """A table with nobody in it takes a short cut, and comes out as it is."""
    if prepared.any():
        return original(self, prepared, bits, trials)
    return np.zeros(prepared.shape if trials is None else (trials, *prepared.shape), np.int64)


@planted(
    "oboro.statistics.histogram:HistogramPlan.measure",
    caught_by=f"{POWER}::test_every_bin_takes_noise_of_its_own[row swap]",
)
def noise_shared_by_all_bins(original: Any, self: Any, prepared: Any, bits: Any, trials: Any = None) -> Any:
    """All bins share one draw of noise, which their differences take off again."""
    return prepared + self.noise.sample((1,) if trials is None else (trials, 1), bits)


@planted(
    "oboro.statistics.terms:measured",
    caught_by=f"{POWER}::test_the_sums_of_a_mean_take_noise_of_their_own[row]",
)
def noise_shared_by_sum_and_count(original: Any, terms: Any, prepared: Any, bits: Any, trials: Any) -> Any:
    """The two sums behind a mean have the same noise."""
    shape = prepared.shape[:1] if trials is None else (trials, *prepared.shape[:1])
    return prepared + terms[0].noise.sample(shape, bits)[..., None]


@planted(
    "oboro.statistics.means:MeanPlan.vectors",
    caught_by=f"{PRIVACY}::test_random_neighbours_cost_no_more_than_the_plan_promises[row swap]",
)
def two_shares_of_the_budget_swapped(original: Any, self: Any) -> Any:
    """The sum of a mean gets the share of rho that is meant for its count, and the count that of the sum."""
    vectors = original(self)
    if self.form != "centred" or isinstance(self.guarantee, Pure):
        return vectors
    for_sums, for_count = self.split
    ratios = [for_sums / for_count] * (len(vectors) - 1) + [for_count / for_sums]
    return tuple(
        replace(
            vector,
            terms=tuple(
                replace(term, noise=type(term.noise)(term.noise.sigma2 * ratio)) for term in vector.terms
            ),
        )
        for vector, ratio in zip(vectors, ratios, strict=True)
    )


@planted(
    "oboro.statistics.moments:Box.across",
    caught_by="tests/statistics/test_sums_and_means.py::test_about_an_origin_no_row_moves_the_sum_further_than_the_noise_is_made_for[0.4-eps]",
)
def an_origin_that_is_taken_for_an_end(original: Any, self: Any, i: int) -> Any:
    """A row that is replaced is taken to move a sum about an origin no further than one that comes."""
    return Fraction(1)


@planted(
    "oboro.statistics.terms:in_groups",
    caught_by=f"{PRIVACY}::test_sensitivities_of_sums[sum by-unit3-200]",
)
def groups_under_replace_as_one(original: Any, promise: Any, adjacency: str, groups: int, inside: Any) -> Any:
    """A row that is replaced is taken to stay in its group."""
    return original(promise, adjacency, 1, min(inside, 1))


@planted(
    "oboro.statistics.smooth_noise:calibrate",
    caught_by=f"{SMOOTH}::test_the_claim_of_the_slides_is_refused_with_its_counterexample",
)
def laplace_of_smooth_sensitivity_over_eps(original: Any, law: Any, guarantee: Any, **more: Any) -> Any:
    """Lap(S*/eps), said in the slides to be eps-DP; between eleven zeros and ten it misses by delta = 0.197."""
    from oboro.noise import Laplace
    from oboro.statistics.smooth_noise import SmoothNoise

    if isinstance(law, Laplace) and isinstance(guarantee, Pure):
        return SmoothNoise(law, guarantee.eps, guarantee.eps)
    return original(law, guarantee, **more)


@planted(
    "oboro.statistics.smooth_noise:calibrate",
    caught_by=f"{SMOOTH}::test_pure_noise_costs_eps_at_the_worst_slide_and_dilation_and_no_less[0.1-law0]",
)
def smoothness_for_free(original: Any, law: Any, guarantee: Any, **more: Any) -> Any:
    """All of eps goes to the noise, and what the changing scale costs is forgotten."""
    found = original(law, guarantee, **more)
    return type(found)(found.law, found.s + found.beta, found.beta)


@planted(
    "oboro.statistics.sensitivity.orders:order_statistic",
    caught_by="tests/statistics/test_smooth_sensitivity.py::test_order_statistics_equal_brute_force[beta0]",
)
def local_sensitivity_for_the_smooth_one(original: Any, data: Any, rank: int, beta: Any) -> Any:
    """Noise follows the local sensitivity, which itself tells where the data lie."""
    from oboro.statistics.smooth_noise import Decaying

    gap = max(data.at(rank + 1) - data.at(rank), data.at(rank) - data.at(rank - 1))
    return Decaying([(gap, 0)], original(data, rank, beta).beta)


@planted(
    "oboro.statistics.quantiles:QuantilePlan.eta",
    caught_by=f"{QUANTILES}::test_neighbours_differ_by_no_more_than_promised[add/remove]",
)
def quantile_at_twice_its_price(original: Any, self: Any, q: Any) -> Any:
    """The exponential mechanism is taken to cost eta, though its normaliser moves too and it costs twice that."""
    return 2 * original(self, q)


@planted(
    "oboro.statistics.clusters:LloydPlan.sum_noise",
    "oboro.statistics.clusters:LloydPlan.count_noise",
    caught_by=f"{CLUSTERS}::test_a_round_of_lloyd_moves_by_what_the_noise_is_made_for[one row, replaced]",
)
def clusters_pay_for_one_round(original: Any, self: Any) -> Any:
    """The slides' eps/2 for counts and sums, paid once and used in every round."""
    noise = original(self)
    return type(noise)(noise.scale / self.rounds)


@planted(
    "oboro.statistics.components:ComponentsPlan.laplace_scale",
    caught_by=f"{POWER}::test_the_noise_of_components_grows_as_the_guarantee_tightens",
)
def components_without_eps(original: Any, self: Any) -> Any:
    """The noise of the slides' components, in which eps is missing."""
    return original(self) * self.guarantee.eps


@planted(
    "oboro.statistics.components:in_ball", caught_by=f"{CLUSTERS}::test_rows_lie_in_the_ball_in_whole_numbers"
)
def long_rows_not_shortened(original: Any, frame: Any, codes: Any) -> Any:
    """Rows beyond the promised radius are used as they come."""
    from oboro.statistics.components import RADIUS

    away = np.stack([first + step * codes[:, i] for i, (first, step) in enumerate(frame._whole)], axis=1)
    return (away / float(frame.ball.radius / frame._step) * RADIUS).astype(np.int64)


@planted(
    "oboro.statistics.blocks:SampleAggregatePlan._places",
    caught_by=f"{POWER}::test_where_n_is_private_blocks_are_drawn_and_not_dealt",
)
def blocks_dealt_in_turn(original: Any, self: Any, units: Any, bits: Any) -> Any:
    """Where n is private, units are dealt to blocks in turn: one that comes or goes moves all that follow it."""
    return units % self.blocks


@planted(
    "oboro.statistics.terms:counted",
    caught_by="tests/test_widths.py::test_sums_are_clamped_not_wrapped_and_never_raise",
)
def sums_wrapped_by_the_data(original: Any, terms: Any, groups: int, found: Any) -> Any:
    """A sum of more than 64 bits is cut to its lowest 64."""
    cut = {group: [(value + 2**63) % 2**64 - 2**63 for value in sums] for group, sums in found.items()}
    return original(terms, groups, cut)


@planted(
    "oboro.statistics.balls:shifted",
    caught_by="tests/test_widths.py::test_vectors_lie_in_their_ball_however_far_out_their_row_is",
)
def squares_that_run_over(original: Any, away: Any, shift: int) -> Any:
    """Rows far outside a ball are not shortened before their squares are added up."""
    return np.sign(away) * (np.abs(away) >> shift if shift > 0 else np.abs(away) << -shift)


@planted(
    "oboro.statistics.isolation:check_isolation",
    caught_by=f"{ISOLATION}::test_a_sealed_plan_is_not_run_where_nothing_can_be_sealed",
)
def sealed_plan_run_without_a_seal(original: Any, isolation: str) -> Any:
    """A plan that says it is sealed is run on a system that cannot seal."""


@planted(
    "oboro.statistics.blocks:SampleAggregatePlan.__post_init__",
    caught_by="tests/statistics/test_sample_and_aggregate.py::test_a_record_that_no_function_makes_is_refused",
)
def unsealed_function_promised_as_if_sealed(original: Any, self: Any) -> Any:
    """A plan file says that nothing holds the function back, and promises without conditions."""


@planted(
    "oboro.statistics.isolation:_import_of",
    caught_by="tests/statistics/test_functions.py::test_whatever_needs_its_surroundings_is_refused[with_a_global-DATA]",
)
def variables_of_the_program_let_through(original: Any, name: str, function: Any) -> Any:
    """A function that uses a variable of the program, which may be data, is taken for whole."""
    return ""


@planted(
    "oboro.statistics.subjects:Frame.moves",
    caught_by="tests/statistics/test_marginals.py::test_a_shared_table_moves_as_far_as_its_worst_neighbours[replace]",
)
def shared_table_moved_once(original: Any, self: Any, axes: Any, what: Any, value: Any, pure: bool) -> Any:
    """A row that is replaced is taken to move a shared table as far as one that comes."""
    power = 1 if pure else 2
    return Fraction(self.unit.contributions * self.reach(what, value)) ** power


@planted(
    "oboro.statistics.marginals:Shared.measure",
    caught_by="tests/statistics/test_marginals.py::test_every_cell_of_every_shared_table_takes_noise_of_its_own",
)
def shared_tables_with_one_noise(original: Any, self: Any, prepared: Any, bits: Any, trials: Any) -> Any:
    """All cells of a shared table take the same draw."""
    found = []
    for table, noisy in zip(prepared, original(self, prepared, bits, trials), strict=True):
        drawn = (noisy - table)[..., :1, :]
        found.append(table + drawn)
    return found
