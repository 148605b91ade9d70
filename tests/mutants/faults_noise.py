"""Faults in the noise itself: bits, exact samplers, certified rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted

INTEGERS = "tests/noise/test_integer_noise.py"
BITS = "tests/noise/test_bits.py"
DRAWS = "tests/noise/test_draws.py"
ROUNDING = "tests/noise/test_rounding.py"


@planted(
    "oboro.noise.laplace:DiscreteLaplace.sample", caught_by=f"{INTEGERS}::test_laplace_of_every_size[255]"
)
def laplace_scale_20_percent_short(original: Any, self: Any, size: Any = 1, bits: Any = None) -> Any:
    """Discrete Laplace noise has four fifths of its scale."""
    return original(type(self)(self.scale * Fraction(4, 5)), size, bits)


@planted(
    "oboro.noise.gaussian:DiscreteGaussian.sample", caught_by=f"{INTEGERS}::test_gaussian_of_every_size[100]"
)
def gaussian_sigma_in_place_of_variance(original: Any, self: Any, size: Any = 1, bits: Any = None) -> Any:
    """The standard deviation goes where the discrete Gaussian wants the variance."""
    return original(type(self)(math.isqrt(math.floor(self.sigma2))), size, bits)


@planted(
    "oboro.noise.gaussian:_Table.resolve",
    caught_by=f"{INTEGERS}::test_a_gaussian_draw_on_a_threshold_is_open_until_more_bits_come",
)
def gaussian_decided_by_31_bits(original: Any, self: Any, halves: Any, bits: Any) -> int:
    """A draw of the discrete Gaussian that 31 bits leave open is decided by them."""
    u = int(halves[0]) >> 1
    return int(np.count_nonzero(self.floors > u)) << self.low


@planted("oboro.noise.laplace:_Tables.resolve", caught_by=f"{INTEGERS}::test_minus_zero_is_thrown_away")
def zero_twice_as_likely(original: Any, self: Any, halves: Any, bits: Any) -> int:
    """Minus zero is kept as a zero, so that zero is drawn twice as often."""
    return original(self, halves, bits) or 0


@planted("oboro.noise.laplace:_Tables.resolve", caught_by=f"{INTEGERS}::test_no_tail_is_cut_off")
def tail_cut_off(original: Any, self: Any, halves: Any, bits: Any) -> int | None:
    """The noise ends where its table does: an answer beyond it shows for certain which world it is from."""
    drawn = original(self, halves, bits)
    reach = 256**self.digits - 1
    return drawn if drawn is None else max(-reach, min(reach, drawn))


@planted("oboro.noise.bits:Bits.words", caught_by=f"{BITS}::test_two_sources_and_two_calls_never_repeat")
def noise_reused(original: Any, self: Any, count: int) -> Any:
    """The same random words are handed out twice, so that two answers have the same noise."""
    kept = getattr(self, "kept_for_reuse", np.empty(0, np.uint64))
    if 0 < count <= kept.size:
        self.kept_for_reuse = np.empty(0, np.uint64)
        return kept[:count]
    self.kept_for_reuse = original(self, count)
    return self.kept_for_reuse.copy()


@planted("oboro.noise.bits:Bits._restart", caught_by=f"{BITS}::test_a_fork_never_repeats_the_stream")
def child_repeats_its_parent(original: Any, self: Any) -> None:
    """A process that forks goes on with its parent's stream of bits."""
    if not hasattr(self, "_seed"):
        original(self)


@planted(
    "oboro.noise.draws:uniform_integers",
    caught_by=f"{DRAWS}::test_uniform_integers_reject_rather_than_fold",
)
def remainder_in_place_of_rejection(original: Any, below: int, size: Any, bits: Any = None) -> Any:
    """Uniform numbers are a remainder of random words, so that small ones come up more often."""
    wide = 1 << (below - 1).bit_length()
    return original(wide, size, bits) % below


@planted(
    "oboro.noise.rounding:_cell",
    caught_by=f"{ROUNDING}::test_bits_at_an_edge_are_followed_by_more_of_the_same_uniform",
)
def float_noise(original: Any, law: Any, uniforms: Any, place: Any) -> int:
    """Continuous noise is computed in floating point, and what is near an edge is rounded as it happens to fall."""
    middle = place(law.ball(*(u.ball() for u in uniforms))).mid()
    return int(np.floor(float(middle) + 0.5))


@planted(
    "oboro.noise.rounding:_settle",
    caught_by=f"{ROUNDING}::test_fast_and_slow_agree[scale3-StudentT(nu=Fraction(3, 1))]",
)
def float_noise_without_a_margin(original: Any, mid: Any, rad: Any, *rest: Any) -> None:
    """The quick way trusts its floats: it rounds without asking how far off they may be."""
    original(mid, np.zeros_like(rad), *rest)


@planted(
    "oboro.noise.laws:PositiveStable.ball",
    caught_by=f"{ROUNDING}::test_the_slow_way_has_the_same_law[PositiveStable(alpha=Fraction(1, 2))]",
)
def stable_index_off(original: Any, self: Any, *u: Any) -> Any:
    """The heavy tail of the stable law has another index than was asked for."""
    return original(type(self)(self.alpha * Fraction(6, 5)), *u)
