"""Further questions: smooth sensitivity, any function, clusters, components, and an oracle to learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive
from oboro.privacy import Approx, Pure
from oboro.statistics.batch import as_pure
from oboro.statistics.blocks import sample_aggregate_plan
from oboro.statistics.clusters import clusters_plan
from oboro.statistics.components import components_plan
from oboro.statistics.decoding import Rows
from oboro.statistics.questions import Asked, Questions
from oboro.statistics.smooth import smooth_quantile_plan, trimmed_mean_plan
from oboro.statistics.smooth_noise import SmoothPromise
from oboro.statistics.terms import Promise

if TYPE_CHECKING:
    from oboro.noise.laws import Law

Result = TypeVar("Result")


class Learning(Questions[Result]):
    """Questions of a session, a forecast or a plan that go beyond sums and counts."""

    def quantile(
        self,
        column: str,
        quantiles: Number | Sequence[Number],
        *,
        method: str | None = None,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The values at one or more quantiles between 0 and 1.

        `method="smooth"` is for one quantile: noise in proportion to its smooth sensitivity, by default Cauchy for eps,
        Laplace for eps and delta, Laplace-log-normal for rho.
        """
        if method != "smooth":
            if delta is not None or noise is not None or beta is not None:
                raise ParameterError(
                    "delta, noise and beta are for smooth sensitivity",
                    given=told(method=repr(method)),
                    fix=setting(method="smooth"),
                )
            return super().quantile(column, quantiles, method=method, **asked)
        one = quantiles if not isinstance(quantiles, Sequence) or isinstance(quantiles, str) else None
        if one is None:
            raise ParameterError(
                "smooth sensitivity is for one quantile at a time",
                given=f"{quantiles}",
                fix='quantile("age", 0.5, ...)',
            )
        scope, of = self._scope(asked), self.domain[column]
        return self._answer(
            lambda promise: smooth_quantile_plan(
                scope, of, one, guarantee=_with_delta(promise, delta), noise=noise, beta=beta
            ),
            asked,
        )

    def median(
        self,
        column: str,
        *,
        method: str | None = None,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The value that half of the rows lie below."""
        half = Fraction(1, 2)
        return self.quantile(column, half, method=method, delta=delta, noise=noise, beta=beta, **asked)

    def trimmed_mean(
        self,
        column: str,
        trim: Number = "0.1",
        *,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The mean without the `trim` part of smallest and of largest values."""
        scope, of = self._scope(asked), self.domain[column]
        return self._answer(
            lambda promise: trimmed_mean_plan(
                scope, of, trim, guarantee=_with_delta(promise, delta), noise=noise, beta=beta
            ),
            asked,
        )

    def sample_and_aggregate(
        self,
        function: str | Callable[[Rows], Any],
        *,
        blocks: int,
        bounds: Sequence[Any],
        columns: Sequence[str] | None = None,
        step: Number | None = None,
        seconds: Number = 5,
        label: str | None = None,
        isolation: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The median over blocks of any function of the rows, given as a dictionary of arrays.

        The function is a `def` that needs nothing from around it, its text, or "module:function". Each block is computed
        in a sealed process that has its block and nothing else; with `isolation="none"`, and on systems that cannot seal,
        in a plain one, with a conditional guarantee.
        """
        scope, of = self._scope(asked), self._columns(self.domain.names if columns is None else columns)
        return self._answer(
            lambda promise: sample_aggregate_plan(
                scope,
                of,
                function,
                blocks=blocks,
                bounds=bounds,
                eps=as_pure(promise).eps,
                step=step,
                seconds=seconds,
                label=label,
                isolation=isolation,
            ),
            asked,
        )

    def kmeans(
        self, columns: Sequence[str], k: int, *, method: str | None = None, **asked: Unpack[Asked]
    ) -> Result:
        """The centres of k clusters: from a noisy grid, by noisy rounds, or as the slides have it."""
        scope, of = self._scope(asked), self._columns(columns)
        return self._answer(
            lambda promise: clusters_plan(scope, of, k, eps=as_pure(promise).eps, method=method), asked
        )

    def components(
        self,
        columns: Sequence[str],
        k: int,
        *,
        radius: Number,
        origin: Sequence[Number] | None = None,
        delta: Number | None = None,
        method: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The k principal components about a public origin: Gaussian noise for rho, or for eps and delta."""
        scope, of = self._scope(asked), self._columns(columns)
        return self._answer(
            lambda promise: components_plan(
                scope,
                of,
                k,
                radius=radius,
                origin=origin,
                guarantee=_with_delta(promise, delta),
                method=method,
            ),
            asked,
        )


def _with_delta(promise: Promise, delta: Number | None) -> SmoothPromise:
    if delta is None:
        return promise
    if not isinstance(promise, Pure):
        raise ParameterError("delta goes with eps", given="rho and delta", fix=setting(eps="1", delta="1e-6"))
    return Approx(promise.eps, positive("delta", delta))
