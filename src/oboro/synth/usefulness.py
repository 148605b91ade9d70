"""Train on synthetic rows, test on real ones: what a model learned from the synthetic table is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.kinds import nearest
from oboro.synth.codes import Compared

MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Usefulness:
    """Area under the ROC curve on a quarter of the real rows: trained on synthetic rows, and on the other real rows."""

    target: str
    label: str
    synthetic: float
    real: float
    error: float = 0.0  # the standard error that the few real rows of the test leave

    def to_dict(self) -> dict[str, object]:
        return {
            "target": self.target,
            "label": self.label,
            "auc_synthetic": round(self.synthetic, 6),
            "auc_real": round(self.real, 6),
        }


def usefulness(
    columns: Sequence[Compared], target: str | None, rng: np.random.Generator
) -> Usefulness | None:
    """Gradient boosting for a column of two labels; None where there is none, or scikit-learn is not installed."""
    fitting = [column for column in columns if not column.numeric and column.size == 3]
    if target is not None:
        able = [column.name for column in fitting]
        fitting = [column for column in fitting if column.name == target]
        if not fitting:
            close = nearest(target, able)
            raise ParameterError(
                "target is not a column of two labels" + (f": did you mean {close!r}?" if close else ""),
                given=told(target=repr(target)),
                needed="a column of both tables with two labels",
                fix=setting(target=close),
            )
    if not fitting or len(columns) < 2:
        return None
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score
        from threadpoolctl import threadpool_limits
    except ImportError:
        if target is None:
            return None
        raise ParameterError(
            "target needs scikit-learn",
            given=told(target=repr(target)),
            needed="scikit-learn",
            fix="pip install 'oboro[sklearn]'",
        ) from None
    chosen = fitting[-1]
    others = [column for column in columns if column is not chosen]

    def table(real: bool, rows: Integers) -> tuple[Floats, Bools]:
        answer = (chosen.real if real else chosen.synthetic)[rows]
        known = ~np.isnan(answer)
        facts = np.stack(
            [(column.real if real else column.synthetic)[rows] / _huge(column) for column in others], axis=1
        )
        return facts[known], answer[known] == 1

    order = rng.permutation(chosen.real.size)[:MOST_ROWS]
    test, train = order[: order.size // 4], order[order.size // 4 :]
    made = rng.permutation(chosen.synthetic.size)[:MOST_ROWS]
    facts, answers = table(True, test)
    scores = []
    for real, rows in ((False, made), (True, train)):
        seen, labels = table(real, rows)
        if labels.all() or not labels.any() or answers.all() or not answers.any():
            scores.append(0.5)  # nothing to tell apart
            continue
        held = ~np.isnan(seen).all(axis=0)  # a column of which nothing is known teaches nothing
        if not held.any():
            scores.append(0.5)
            continue
        with threadpool_limits(
            1
        ):  # its threads wait by spinning, which on a busy machine takes longer than the work
            learner = HistGradientBoostingClassifier(random_state=0).fit(seen[:, held], labels)
        scores.append(float(roc_auc_score(answers, learner.predict_proba(facts[:, held])[:, 1])))
    return Usefulness(chosen.name, chosen.labels[1], scores[0], scores[1], _area_error(scores[1], answers))


def _area_error(area: float, answers: Bools) -> float:
    """Of an area under the curve [Hanley and McNeil 1982]."""
    ones, zeros = float(answers.sum()), float((~answers).sum())
    if not ones or not zeros:
        return 0.0
    one, two = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    variance = (area * (1 - area) + (ones - 1) * one + (zeros - 1) * two) / (ones * zeros)
    return float(max(variance, 0.0) ** 0.5)


def _huge(column: Compared) -> float:
    """By what to divide numbers so large that sums of them would overflow; 1 for all others."""
    most = max(float(np.nanmax(np.abs(part), initial=0)) for part in (column.real, column.synthetic))
    return most if most > 1e150 else 1.0
