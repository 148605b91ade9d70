"""Samplers: two million draws at scale 190. OpenDP is timed on fewer: it is slower by two orders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import opendp.prelude as dp

from bench.measure import Row, rate_row
from oboro.noise import DiscreteGaussian, DiscreteLaplace

COUNT = 2_000_000
FEW = 100_000


def rows() -> Iterator[Row]:
    dp.enable_features("contrib")
    generator = np.random.default_rng()
    laplace, gaussian = DiscreteLaplace(190), DiscreteGaussian(190**2)
    zeros = [0] * FEW
    vector = dp.vector_domain(dp.atom_domain(T=int))
    opendp_laplace = dp.m.make_laplace(vector, dp.l1_distance(T=int), scale=190.0)
    opendp_gaussian = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=190.0)

    yield rate_row(
        "discrete Laplace", lambda: laplace.sample(COUNT), COUNT,
        "numpy Generator.laplace (not exact, not secure)", lambda: generator.laplace(scale=190, size=COUNT), COUNT, 0.8,
    )  # fmt: skip
    yield rate_row(
        "discrete Laplace",
        lambda: laplace.sample(COUNT),
        COUNT,
        "OpenDP discrete Laplace",
        lambda: opendp_laplace(zeros),
        FEW,
        150,
    )
    yield rate_row(
        "discrete Gaussian",
        lambda: gaussian.sample(COUNT),
        COUNT,
        "OpenDP discrete Gaussian",
        lambda: opendp_gaussian(zeros),
        FEW,
        80,
    )
    yield rate_row(
        "discrete Gaussian", lambda: gaussian.sample(COUNT), COUNT,
        "numpy Generator.normal (not exact, not secure)", lambda: generator.normal(scale=190, size=COUNT), COUNT, 1,
    )  # fmt: skip
