"""k-means on points that are public already, and the whole-number steps of a private one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.statistics.points import REACH


def nearest(points: Integers, centres: Integers) -> Integers:
    """The index of the nearest centre, in whole numbers; of equally near ones the first."""
    square = (centres * centres).sum(axis=1)
    return np.asarray(np.argmin(square - 2 * (points @ centres.T), axis=1), np.int64)


@lru_cache(maxsize=64)
def starting_centres(k: int, dimension: int) -> Integers:
    """k centres far from one another and from the walls, the same for all data: greedily, from fixed candidates."""
    rng = np.random.default_rng(dimension * 1000 + k)  # public: it decides nothing about anyone
    candidates = rng.uniform(-0.6, 0.6, (max(200, 20 * k), dimension))
    chosen = [0]
    away = np.linalg.norm(candidates - candidates[0], axis=1)
    for _ in range(k - 1):
        chosen.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(candidates - candidates[chosen[-1]], axis=1))
    centres = np.rint(candidates[chosen] * REACH).astype(np.int64)
    centres.setflags(write=False)
    return centres


def weighted_kmeans(points: Floats, weights: Floats, k: int, starts: int = 6) -> Floats:
    """k-means++ and Lloyd's steps, the best of some starts with fixed seeds. For public points."""
    best, best_cost = points[:k], np.inf
    for seed in range(starts):
        rng = np.random.default_rng(seed)
        centres = _seeds(points, weights, k, rng)
        cost = np.inf
        for _ in range(100):
            distance = _distances(points, centres)
            label = distance.argmin(axis=1)
            before, cost = cost, float(weights @ distance[np.arange(len(points)), label])
            if before - cost <= 1e-9 * abs(cost):
                break
            total = np.bincount(label, weights, minlength=k)
            for axis in range(points.shape[1]):
                sums = np.bincount(label, weights * points[:, axis], minlength=k)
                centres[:, axis] = np.where(total > 0, sums / np.maximum(total, 1e-12), centres[:, axis])
        if cost < best_cost:
            best, best_cost = centres, cost
    return best


def _seeds(points: Floats, weights: Floats, k: int, rng: np.random.Generator) -> Floats:
    centres = points[[rng.choice(len(points), p=weights / weights.sum())]]
    for _ in range(k - 1):
        mass = weights * _distances(points, centres).min(axis=1)
        chance = mass / mass.sum() if mass.sum() > 0 else weights / weights.sum()
        centres = np.concatenate([centres, points[[rng.choice(len(points), p=chance)]]])
    return centres


def _distances(points: Floats, centres: Floats) -> Floats:
    square = (points * points).sum(axis=1)[:, None] + (centres * centres).sum(axis=1)
    return np.asarray(np.maximum(square - 2 * points @ centres.T, 0))
