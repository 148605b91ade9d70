"""Clusters and components as scikit-learn estimators: `pip install oboro[sklearn]`.

`bounds` and `radius` must be known without looking at the data. With a `ledger`, `fit` is paid from it as any
other release. Without one, the noise is the same but nobody keeps account, and a warning says so. What a fitted
estimator holds may be published: nothing in it but noisy answers. So there is no `labels_`: a list of what cluster
each row of the data is in would say something about every row. Ask `predict`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from oboro.arrays import Floats
from oboro.domain import Real
from oboro.engine import open_data
from oboro.engine.memory import to_arrow
from oboro.engine.protocol import in_order
from oboro.errors import BoundsError, DataError, setting, told
from oboro.exact import Number, rational
from oboro.ledger import Ledger
from oboro.noise.bits import system_bits
from oboro.privacy import Unit
from oboro.release import Plan, run
from oboro.statistics.clusters import clusters_plan
from oboro.statistics.components import components_plan
from oboro.statistics.scope import Scope
from oboro.statistics.smooth_noise import smooth_guarantee

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from sklearn.utils import Tags

Table = dict[str, object]
Rows: TypeAlias = (
    "npt.NDArray[np.generic] | Sequence[Sequence[object]] | pd.DataFrame | pl.DataFrame | pa.Table"
)
Pair: TypeAlias = Sequence[Number]  # low, high
Bounds: TypeAlias = Pair | Sequence[Pair]
_STEPS = 2**12  # of the grid that each column is put on


class UnaccountedWarning(UserWarning):
    """A private fit without a ledger: its cost is in `guarantee_`, and nobody adds it up."""


class _Private(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: reading data, and running a plan."""

    ledger: Ledger | None
    name: str | None
    expected_n: int | None

    def _read(self, X: Rows, public: object = None, *, reset: bool = True) -> tuple[Table, int]:  # noqa: N803
        """The columns x0, x1, ... of X as they are, and how many rows they have.

        A list has no columns but those of its rows, which are private, and there may be none: to `fit` it the width must be
        `public`, that of the bounds or the origin.

        scikit-learn sees the width alone, with zeros in place of values: it would quote a value that it does not like. A
        value that is no number is missing, alike for every row. What is no table is refused by its kind and its dimensions.
        """
        width = len(public) if isinstance(public, list | tuple | np.ndarray) else None
        if not reset:
            width = self.n_features_in_
        if isinstance(X, list | tuple) and width is None:
            raise DataError(
                "a list does not say how many columns there are",
                given=f"a {type(X).__name__} of rows",
                needed="an array, a data frame, or a pair of bounds (for PCA an origin) for each column",
                fix="fit(np.array(X))",
            )
        data = table_of(X, width or 0)
        rows = len(data[0]) if data else len(X)
        public_rows = rows if self._unit.adjacency == "replace" else 1  # else how many there are is private
        shape = np.broadcast_to(np.float64(0), (public_rows, len(data)))
        check_array(shape, estimator=self)
        validate_data(self, X if hasattr(X, "columns") else shape, reset=reset, skip_check_array=True)
        return {f"x{i}": column for i, column in enumerate(data)}, rows

    def _points(self, X: Rows) -> Floats:  # noqa: N803
        """Rows to predict or transform, as numbers; nan for what is none."""
        check_is_fitted(self)
        data, _ = self._read(X, reset=False)
        return in_order(open_data(data)).doubles(list(data))

    @property
    def _unit(self) -> Unit:
        return self.ledger.unit if self.ledger is not None else Unit.row("replace")

    def _scope(self, rows: int) -> Scope:
        """Under replace the number of rows is public; under add/remove it is not, and only a guess is used."""
        if self._unit.adjacency == "replace":
            return Scope(self._unit, n=rows)
        return Scope(self._unit, expected_n=self.expected_n)

    def _released(self, plan: Plan, data: Table) -> pa.Table:
        self.guarantee_ = plan.guarantee
        if self.ledger is not None:
            return run(plan, data, self.ledger, self.name).to_arrow()
        warnings.warn(
            f"this fit costs {plan.guarantee}, and no ledger keeps account of it",
            UnaccountedWarning,
            stacklevel=3,
        )
        return plan.publish(plan.measure(plan.prepare(data), system_bits()))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # the noise
        tags.input_tags.allow_nan = True  # a row with a missing number is left out, alike for every row
        return tags


class KMeans(ClusterMixin, TransformerMixin, _Private):  # type: ignore[misc]
    """k-means with a privacy guarantee: `cluster_centers_`, `predict`, `transform`.

    `bounds` is (low, high) for all columns, or a pair for each. `method` is "grid", "lloyd" or "slides"; without one
    the better of the first two is taken. Columns weigh the same whatever their width.

    >>> import numpy as np
    >>> from oboro.statistics.estimators import KMeans
    >>> rows = np.array([[1, 2], [1, 3], [8, 9], [9, 9]] * 500)
    >>> ledger = ob.Ledger.create("rows.ledger", dataset="rows", unit=ob.Unit.row(), budget=ob.Pure(1))
    >>> found = KMeans(2, bounds=(0, 10), eps=1, ledger=ledger).fit(rows)
    >>> found.cluster_centers_.shape, ledger.remaining
    ((2, 2), Pure(0))
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        bounds: Bounds | None = None,
        eps: Number = 1,
        method: str | None = None,
        ledger: Ledger | None = None,
        name: str | None = None,
        expected_n: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.bounds = bounds
        self.eps = eps
        self.method = method
        self.ledger = ledger
        self.name = name
        self.expected_n = expected_n

    def fit(self, X: Rows, y: object = None) -> KMeans:  # noqa: N803
        """Finds the centres. Costs eps."""
        data, rows = self._read(X, self.bounds if _is_pairs(self.bounds) else None)
        columns = _bounded(self.bounds, len(data))
        plan = clusters_plan(self._scope(rows), columns, self.n_clusters, eps=self.eps, method=self.method)
        table = self._released(cast(Plan, plan), data)
        self.cluster_centers_ = np.stack([table.column(column.name).to_numpy() for column in columns], axis=1)
        self._width = np.asarray([float(column.high - column.low) for column in columns])
        return self

    def predict(self, X: Rows) -> npt.NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each row, columns weighed alike. Says nothing about the data of `fit`."""
        return np.asarray(self._distances(X).argmin(axis=1), np.int64)

    def fit_predict(self, X: Rows, y: object = None) -> npt.NDArray[np.int64]:  # noqa: N803
        return self.fit(X).predict(X)

    def transform(self, X: Rows) -> Floats:  # noqa: N803
        """The distance of each row to each centre, in halves of each column's width."""
        return self._distances(X)

    def score(self, X: Rows, y: object = None) -> float:  # noqa: N803
        """Minus the sum of squared distances to the nearest centre. Not private about these rows."""
        return float(-(self._distances(X).min(axis=1) ** 2).sum())

    def _distances(self, X: Rows) -> Floats:  # noqa: N803
        points = self._points(X)
        with np.errstate(all="ignore"):  # a number may be infinite
            away = np.nan_to_num(points[:, None] - self.cluster_centers_) / (self._width / 2)
            return np.asarray(np.sqrt((away**2).sum(axis=2)))


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Private):  # type: ignore[misc]
    """Principal components about a public origin, with a privacy guarantee: `components_`, `transform`.

    Rows further than `radius` from the origin are moved to that distance. Say eps and delta, or rho, for Gaussian
    noise; eps with `delta=None` for a pure guarantee, at far more noise. `method="slides"` is the slides' way.

    >>> import numpy as np
    >>> from oboro.statistics.estimators import PCA
    >>> rows = np.array([[1, 2], [1, 3], [8, 9], [9, 9]] * 500)
    >>> ledger = ob.Ledger.create("rows.ledger", dataset="rows", unit=ob.Unit.row(), budget=ob.ZCDP(1))
    >>> found = PCA(1, radius=15, rho="0.5", ledger=ledger).fit(rows)
    >>> found.components_.shape, ledger.remaining
    ((1, 2), ZCDP('0.5'))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        radius: Number | None = None,
        origin: Sequence[Number] | None = None,
        eps: Number = 1,
        delta: Number | None = "1e-6",
        rho: Number | None = None,
        method: str | None = None,
        ledger: Ledger | None = None,
        name: str | None = None,
        expected_n: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.radius = radius
        self.origin = origin
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.method = method
        self.ledger = ledger
        self.name = name
        self.expected_n = expected_n

    def fit(self, X: Rows, y: object = None) -> PCA:  # noqa: N803
        """Finds the components. Costs what `guarantee_` says."""
        data, rows = self._read(X, self.origin)
        if self.radius is None:
            raise _no_bounds("radius", "PCA(5, radius=1)")
        radius = rational("radius", self.radius)
        at = (
            [Fraction(0)] * len(data) if self.origin is None else [rational("origin", x) for x in self.origin]
        )
        columns = _bounded([(x - radius, x + radius) for x in at], len(data))
        guarantee = smooth_guarantee(
            None if self.rho is not None else self.eps, None if self.rho is not None else self.delta, self.rho
        )
        plan = components_plan(
            self._scope(rows),
            columns,
            min(self.n_components, len(data)),
            radius=radius,
            origin=at,
            guarantee=guarantee,
            method=self.method,
        )
        table = self._released(cast(Plan, plan), data)
        self.components_ = np.stack([table.column(column.name).to_numpy() for column in columns], axis=1)
        self.squared_lengths_ = table.column("squared length").to_numpy()
        self.origin_ = np.asarray([float(x) for x in at])
        return self

    def transform(self, X: Rows) -> Floats:  # noqa: N803
        """Rows along the components, about the origin."""
        points = self._points(X)
        with np.errstate(all="ignore"):  # a number may be infinite
            return np.asarray((points - self.origin_) @ self.components_.T)

    def inverse_transform(self, X: Rows) -> Floats:  # noqa: N803
        """Rows back from the components."""
        check_is_fitted(self)
        columns = table_of(X, len(self.components_))
        if len(columns) != len(self.components_):
            raise DataError(
                "this is not a table of numbers",
                given=f"{len(columns)} columns",
                needed=f"{len(self.components_)} columns",
            )
        data = {f"x{i}": column for i, column in enumerate(columns)}
        with np.errstate(all="ignore"):  # a number may be infinite
            return np.asarray(in_order(open_data(data)).doubles(list(data)) @ self.components_ + self.origin_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


def table_of(X: Rows, width: int) -> list[Any]:  # noqa: N803
    """The columns of a table, an array or a list of rows, whatever they hold. A row of a list that has not this width is missing."""
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or X.dtype.kind == "c":
            raise _no_table(X)
        X = np.asarray(X) if isinstance(X, np.matrix) else X  # its columns are no columns  # noqa: N806
        plain = X.dtype.kind in "biuf"
        return [X[:, i] if plain else X[:, i].tolist() for i in range(X.shape[1])]
    if hasattr(X, "columns"):
        table = to_arrow(X)
        return [table.column(i) for i in range(table.num_columns)]
    if isinstance(X, list | tuple):
        right = [_size(row) == width for row in X]
        return [
            [row[i] if whole else None for row, whole in zip(X, right, strict=True)] for i in range(width)
        ]
    if not hasattr(X, "__array__"):
        raise _no_table(X)
    return table_of(np.asarray(X), width)


def _size(row: object) -> int | None:
    if isinstance(row, np.ndarray):
        return len(row) if row.ndim == 1 else None
    return len(row) if isinstance(row, list | tuple) else None


def _no_table(given: object) -> DataError:
    """By what it is, never by what it holds. The words are those that scikit-learn's own checks look for."""
    message, kind, fix = "this is not a table of numbers", f"a {type(given).__name__}", None
    if isinstance(given, np.ndarray):
        kind = f"an array of {given.ndim} dimensions"
        if given.dtype.kind == "c":
            message = "Complex data not supported"
        else:
            fix = "Reshape your data: X.reshape(-1, 1)"
    elif type(given).__module__.startswith("scipy.sparse"):
        message = "sparse data is not supported"
    return DataError(
        message, given=kind, needed="rows and columns: an array, a data frame or a list of rows", fix=fix
    )


def _is_pairs(bounds: Bounds | None) -> bool:
    """Whether there is a pair of bounds for each column, and not one for all."""
    if bounds is None:
        return False
    each = list(bounds)
    return len(each) != 2 or isinstance(each[0], tuple | list | np.ndarray)


def _bounded(bounds: Any, width: int) -> list[Real]:
    """A column for each feature, from one pair of bounds or from a pair for each."""
    if bounds is None:
        raise _no_bounds("bounds", "KMeans(3, bounds=(0, 10))")
    pairs = list(bounds) if _is_pairs(bounds) else [tuple(bounds)] * width
    if len(pairs) != width:
        raise BoundsError(
            "bounds do not fit the columns",
            given=f"{len(pairs)} pairs for {width} columns",
            needed="one pair for all columns, or a pair for each",
            fix=setting(bounds=(0, 10)),
        )
    columns = []
    for i, (low, high) in enumerate(pairs):
        first, last = rational("bounds", low), rational("bounds", high)
        columns.append(Real(f"x{i}", first, last, (last - first) / _STEPS))
    return columns


def _no_bounds(which: str, fix: str) -> BoundsError:
    return BoundsError(
        f"{which} must be given",
        given=told(**{which: "None"}),
        needed="what is known without looking at the data",
        fix=fix,
    )
