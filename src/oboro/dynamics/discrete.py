"""The discrete variant: values on the grid, one A for the record, exact discrete Gaussian noise given A.

Given A, discrete Gaussian noise of variance A scale^2 is rho-zCDP with rho = z^2/(2A) in any dimension
[Canonne, Kamath, Steinke 2020]; delta is the mean over A of what that implies (calibration.py, "discrete"). A
is rounded up to a rational, which only adds noise. The continuous Gaussian's profile does not bound the
discrete one; this calibration is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb

from oboro.arrays import Floats, Integers
from oboro.dynamics.laws import FURTHEST, Scale, StableNoise
from oboro.noise import Bits, DiscreteGaussian
from oboro.noise.gaussian import LARGEST_VARIANCE
from oboro.noise.lazy import Real, precision

_KEPT = 6  # bits of A after the first: rounding up adds 1/64 to the variance at most


def on_grid(values: Floats, step: Fraction) -> Integers:
    """The nearest multiples of `step`, exactly; halves go up."""
    nearest = [math.floor(Fraction(v) / step + Fraction(1, 2)) for v in values.tolist()]
    return np.array([max(-FURTHEST, min(FURTHEST, index)) for index in nearest], np.int64)


def add_discrete(noise: StableNoise, values: Floats, bits: Bits, trials: int) -> Integers:
    """Grid indices with noise, shape (trials, values). Records of the same rounded A are drawn together."""
    indices = on_grid(values, noise.step)
    out = np.zeros((trials, indices.size), np.int64)
    mixing = [rounded_mixing(Scale(noise.alpha, bits)) for _ in range(trials)]
    for value in set(mixing):
        variance = value * (noise.scale / noise.step) ** 2
        if variance > LARGEST_VARIANCE:  # as likely for everybody; then nothing of the data is published
            continue
        rows = [trial for trial, one in enumerate(mixing) if one == value]
        out[rows] = indices + DiscreteGaussian(variance).sample((len(rows), indices.size), bits)
    return out


def one_by_one(noise: StableNoise, scale: Scale, bits: Bits) -> Callable[[Fraction | Real], int]:
    """The same for a stream: A is drawn now, and every number that comes gets its noise."""
    variance = rounded_mixing(scale) * (noise.scale / noise.step) ** 2
    law = DiscreteGaussian(variance) if variance <= LARGEST_VARIANCE else None

    def add(value: Fraction | Real) -> int:
        assert isinstance(value, Fraction)  # discrete noise is for the input, which is given in floats
        if law is None:
            return 0
        return int(on_grid(np.array([float(value)]), noise.step)[0]) + int(law.sample(1, bits)[0])

    return add


def rounded_mixing(scale: Scale) -> Fraction:
    """A, rounded up to seven significant bits, beyond doubt. (Any grid would do, as long as it is up.)"""
    root = scale.take()
    digits = 128
    while True:
        with precision(digits):
            value = root() ** 2
            if value > 0 and value.is_finite():
                shift = _KEPT - math.floor(math.log2(float(value.mid())))
                index = (value * arb(2) ** shift).ceil().unique_fmpz()
                if index is not None:
                    return Fraction(int(index)) / Fraction(2) ** shift
        digits *= 2
