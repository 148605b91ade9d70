"""Rényi divergence of two Gaussians: what one synthetic record tells about the data it was drawn from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, rational
from oboro.kinds import numbers_of, takes

MOST_ORDER = 10**12


@takes(mean=numbers_of, covariance=numbers_of, other_mean=numbers_of, other_covariance=numbers_of)
def renyi_gaussians(
    order: Number,
    mean: npt.ArrayLike,
    covariance: npt.ArrayLike,
    other_mean: npt.ArrayLike,
    other_covariance: npt.ArrayLike,
) -> float:
    """D_order(N(mean, covariance) || N(other_mean, other_covariance)), in floats. For the other direction, swap them.

    With a = order, S_a = (1-a) S_1 + a S_2 and m = mu_1 - mu_2 [Gil, Alajaji, Linder 2013]:

        D = a/2 m' S_a^-1 m - (ln|S_a| - (1-a) ln|S_1| - a ln|S_2|) / (2(a-1))

    It is finite if and only if S_a is positive definite, for S_1 and S_2 that are; otherwise the integral
    diverges and the answer is inf. Two singular laws on different subspaces give inf too.

    Computed from the eigenvalues l of S_1^-1/2 (S_2 - S_1) S_1^-1/2: the determinants become the sum of
    h(l) = (a ln(1+l) - ln(1+a l)) / (2(a-1)), which does not cancel when the two laws are close.
    """
    if not np.ndim(mean) == np.ndim(other_mean) == 1 or not np.shape(covariance) == np.shape(
        other_covariance
    ) == (
        np.size(mean),
        np.size(other_mean),
    ):
        raise ParameterError(
            "the two laws do not fit",
            given=f"means of shape {np.shape(mean)} and {np.shape(other_mean)}",
            needed="two means of length d and two covariances of d x d",
        )
    exact = rational("order", order)
    if not 0 < exact <= MOST_ORDER:
        raise ParameterError(
            "order is out of range",
            given=told(order=f"{order}"),
            needed=f"above 0 and at most {MOST_ORDER:,}",
            fix=setting(order=2),
        )
    a = float(exact)
    one, two = (
        np.atleast_2d(np.asarray(covariance, float)),
        np.atleast_2d(np.asarray(other_covariance, float)),
    )
    values, vectors = np.linalg.eigh(one)
    if values[0] <= 0 or np.linalg.eigvalsh(two)[0] <= 0:
        return math.inf
    root = vectors / np.sqrt(values)
    change, axes = np.linalg.eigh(root.T @ (two - one) @ root)
    if 1 + a * change[0] <= 0 or 1 + change[0] <= 0:
        return math.inf
    away = axes.T @ root.T @ (np.atleast_1d(np.asarray(other_mean, float)) - np.asarray(mean, float))
    return float(a / 2 * np.sum(away**2 / (1 + a * change)) + np.sum(spread(a, change)))


def spread(order: float, change: Any) -> Any:
    """h(l) in floats, for 1 + l > 0 and 1 + order * l > 0; by its series where the logarithms would cancel."""
    at = np.asarray(change, float)
    if order == 1:  # the limit: the Kullback-Leibler divergence
        return (np.log1p(at) - at / (1 + at)) / 2
    exact = (order * np.log1p(at) - np.log1p(order * at)) / (2 * (order - 1))
    series = np.zeros_like(at)
    for power in range(12, 1, -1):  # sum of (-1)^k (a^k - a) l^k / (2k(a-1))
        series = series * at + (-1) ** power * (order**power - order) / (2 * power * (order - 1))
    return np.where(np.abs(order * at) < 1e-3, series * at * at, exact)
