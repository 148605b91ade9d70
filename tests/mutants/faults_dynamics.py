"""Faults in heavy-tailed noise for linear systems."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted

NOISE = "tests/dynamics/test_dynamics_noise.py"
PLAN = "tests/dynamics/test_dynamics_plan.py"
GAIN = "tests/dynamics/test_dynamics_gain.py"


@planted(
    "oboro.dynamics.laws:StableNoise.add",
    caught_by=f"{NOISE}::test_the_law_is_right_and_a_scale_off_by_a_few_percent_is_seen[1.5]",
)
def stable_scale_20_percent_short(original: Any, self: Any, values: Any, bits: Any, trials: int = 1) -> Any:
    """Stable noise has four fifths of its scale."""
    return original(replace(self, scale=self.scale * Fraction(4, 5)), values, bits, trials)


@planted("oboro.dynamics.laws:Scale.take", caught_by=f"{NOISE}::test_a_scale_is_for_one_record")
def one_scale_for_two_records(original: Any, self: Any) -> Any:
    """The heavy-tailed scale of a record may be used for a second one."""
    return self.ball


@planted(
    "oboro.dynamics.laws:StableNoise._ratios",
    caught_by=f"{NOISE}::test_each_number_under_a_shared_a_has_the_same_law[1.5]",
)
def one_scale_for_all_records(original: Any, self: Any, mixing: Any) -> Any:
    """One A is drawn for all records of a run, which whoever sees several of them can take off."""
    return tuple(np.full_like(part, part[0]) for part in original(self, mixing))


@planted(
    "oboro.dynamics.plan:SignalPlan.mechanism",
    caught_by=PLAN + "::test_the_promise_is_tied_to_the_noise_that_is_drawn[{'noise': 'shared'}]",
)
def independent_noise_under_the_shared_calibration(original: Any, self: Any) -> Any:
    """Every number has its own A, with the scale that is proved for one A alone."""
    return replace(original(self), shared=False)


@planted(
    "oboro.dynamics.calibration:steepest",
    caught_by="tests/dynamics/test_dynamics_score.py::test_true_deltas_of_every_spread_are_within_the_bound[1.0]",
)
def fisher_information_in_place_of_the_steepest_rate(original: Any, alpha: float) -> float:
    """Independent noise is calibrated as if the change were spread over very many numbers, as Gaussian noise of its Fisher information."""
    return original(alpha) * math.sqrt(math.pi) / 2


@planted("oboro.dynamics.gains:gain", caught_by=f"{GAIN}::test_the_values_of_the_notes")
def gain_from_below(original: Any, *given: Any, **more: Any) -> float:
    """The gain of the system is an iteration that comes from below, and stops short of the truth."""
    return original(*given, **more) * (1 - 1e-6)


@planted(
    "oboro.dynamics.gains:gain", caught_by=f"{GAIN}::test_it_is_the_norm_of_the_dense_matrix[7-protect0]"
)
def start_forgotten_in_the_gain(
    original: Any, system: Any, horizon: Any, protect: Any = ("x0", "u")
) -> float:
    """The private start of the system is left out of its gain."""
    return original(system, horizon, ("u",))


@planted("oboro.dynamics.sigma:euclidean", caught_by=f"{PLAN}::test_the_p_norm_is_turned_into_the_euclidean")
def p_norm_taken_as_euclidean(original: Any, unit: Any, count: int) -> Fraction:
    """A distance in the largest sample is taken as a Euclidean one, short by the root of the record's length."""
    return unit.distance


@planted(
    "oboro.dynamics.sigma:sensitivity",
    caught_by="tests/dynamics/test_dynamics_power.py::test_rounding_to_the_grid_first_is_paid_for",
)
def rounding_first_for_free(
    original: Any, system: Any, horizon: int, unit: Any, where: str, protect: Any, noise: str, step: Any
) -> Fraction:
    """Discrete noise is calibrated as if putting values on the grid did not move neighbours apart."""
    return original(system, horizon, unit, where, protect, "shared" if noise == "discrete" else noise, step)


@planted(
    "oboro.dynamics.calibration:_delta",
    caught_by="tests/dynamics/test_dynamics_calibration.py::test_methods_come_in_order",
)
def continuous_profile_for_discrete_noise(
    original: Any, alpha: float, eps: float, z: float, method: str, dims: int
) -> float:
    """Discrete Gaussian noise is calibrated by the continuous profile, which does not bound it."""
    return original(alpha, eps, z, "mixture" if method == "discrete" else method, dims)


@planted("oboro.dynamics.signal:cleaned", caught_by=f"{PLAN}::test_samples_follow_one_rule")
def samples_beyond_the_limit(original: Any, values: Any, limit: float) -> Any:
    """Samples are used as they come, however far they lie beyond the public limit."""
    return np.nan_to_num(values)
