"""The discrete variant: values on the grid, one A for the record, exact discrete Gaussian noise given A.

Given A, discrete Gaussian noise of variance A scale^2 is rho-zCDP with rho = z^2/(2A) in any dimension [Canonne, Kamath,
Steinke 2020]; delta is the mean over A of what that implies (calibration.py, "discrete"). A is rounded up to a rational,
which only adds noise. The continuous Gaussian's profile does not bound the discrete one; this calibration is its own.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from oboro.dynamics.noising import FURTHEST, Scale, StableNoise
from oboro.noise import Bits, DiscreteGaussian
from oboro.noise.gaussian import LARGEST_VARIANCE
from oboro.noise.lazy import precision

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_FINE = 1 << 20  # A is rounded up to a multiple of 2^-20


def on_grid(values: Floats, step: Fraction) -> Integers:
    """The nearest multiples of `step`, exactly; halves go up."""
    return np.array([max(-FURTHEST, min(FURTHEST, math.floor(Fraction(v) / step + Fraction(1, 2)))) for v in values.tolist()], np.int64)


def add_discrete(noise: StableNoise, values: Floats, bits: Bits, trials: int) -> Integers:
    """Grid indices with noise, shape (trials, values)."""
    indices = on_grid(values, noise.step)
    out = np.empty((trials, indices.size), np.int64)
    for trial in range(trials):
        variance = rounded_mixing(Scale(noise.alpha, bits)) * (noise.scale / noise.step) ** 2
        # an A beyond the sampler's reach is as likely for everybody, and then nothing of the data is published
        out[trial] = 0 if variance > LARGEST_VARIANCE else indices + DiscreteGaussian(variance).sample(indices.size, bits)
    return out


def rounded_mixing(scale: Scale) -> Fraction:
    """A, rounded up to a multiple of 2^-20, beyond doubt."""
    root = scale.take()
    digits = 128
    while True:
        with precision(digits):
            index = (root() ** 2 * _FINE).ceil().unique_fmpz()
        if index is not None:
            return Fraction(int(index), _FINE)
        digits *= 2
