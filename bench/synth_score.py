"""How far synthetic records are from real ones, on one grid for whoever made them: distances, and what a booster learns from them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

TRIPLES = 100  # of all, the same for everybody


def distances(real: Any, made: Any, sizes: list[int]) -> dict[str, float]:
    """Total variation of one, two and three columns, averaged over all columns, all pairs, and a hundred triples."""
    places = range(len(sizes))
    triples = list(combinations(places, 3))
    if len(triples) > TRIPLES:
        picked = np.random.default_rng(0).choice(len(triples), TRIPLES, replace=False)
        triples = [triples[i] for i in picked]
    sets = {"1-way": [(i,) for i in places], "2-way": list(combinations(places, 2)), "3-way": triples}
    return {
        name: float(np.mean([_distance(real, made, sizes, columns) for columns in every]))
        for name, every in sets.items()
    }


def _distance(real: Any, made: Any, sizes: list[int], columns: tuple[int, ...]) -> float:
    shape = [sizes[i] for i in columns]
    one, other = (
        np.bincount(np.ravel_multi_index([side[i] for i in columns], shape), minlength=int(np.prod(shape)))
        / side.shape[1]
        for side in (real, made)
    )
    return float(np.abs(one - other).sum() / 2)


def auc(made: Any, test: Any, target: int) -> float:
    """Of a booster that learned from `made`, on `test`: codes of the grid, to be taken as numbers. Half if there is but one label."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [i for i in range(made.shape[0]) if i != target]
    labels = made[target] == 1
    if labels.all() or not labels.any():
        return 0.5
    learner = HistGradientBoostingClassifier(max_iter=100, random_state=0)
    learner.fit(made[others].T, labels)
    return float(roc_auc_score(test[target] == 1, learner.predict_proba(test[others].T)[:, 1]))
