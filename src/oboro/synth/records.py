"""The paper's method: records drawn from a Gaussian with the data's mean and covariance. The records are the release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Domain
from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, about, positive, show, whole
from oboro.noise import Bits
from oboro.privacy import Approx, Conditional, Renyi, Unit
from oboro.privacy.parameters import renyi_order
from oboro.release import Forecast, Pair, Part, Plan, register
from oboro.synth.account import eigenvalue_assumption
from oboro.synth.accounting import Curve, best_order, ridge_for
from oboro.synth.coding import read_codes, to_table
from oboro.synth.drawing import draw_records
from oboro.synth.moments import Moments, moments_of
from oboro.synth.promising import check_facts, record_curve


@dataclass(frozen=True, slots=True)
class GaussianRecords:
    """The law of a record: what widens it, or what is assumed instead; `order` is where its divergence is bounded."""

    ridge: Fraction | None
    min_eigenvalue: Fraction | None
    order: Fraction

    def to_dict(self) -> dict[str, str]:
        how = (
            {"ridge": show(self.ridge)}
            if self.ridge is not None
            else {"assumed smallest eigenvalue": show(self.min_eigenvalue or 0)}
        )
        return {"law": "Gaussian records, by certified rounding", **how, "order": show(self.order)}


@register
@dataclass(frozen=True)
class GaussianPlan(Plan):
    """`records` independent draws from N(mean, covariance + ridge) of the data in [-1, 1]^d, clipped, on the public grid [Miura et al. 2022].

    Privacy
        No noise is added to anything: the draws themselves are the noise. Under replace, n is public, and one record has a Rényi divergence
        of at most a/2 tau/(n^2 (1 - a k tau)) + h(-k tau), tau = 4d/ridge, k = (n-1)/n^2, for every pair of datasets (`bounds.public_tight`).
        Under add/remove it is the larger of that and of `bounds.private_ridge`, both at a public n_min; a dataset with fewer rows is filled up
        with a public record. Independent records add up: `records` times that, at the plan's order, is converted to (eps, delta) by the tight
        rule [Canonne, Kamath, Steinke 2020]. The number of records is public. Clipping and rounding are post-processing, and certified
        rounding makes the ideal draw the one that happens. With an assumed smallest eigenvalue there is no ridge, tau = 4d/eigenvalue, and
        the promise holds under that assumption alone.
    """

    domain: Domain
    unit: Unit
    guarantee: Approx | Conditional
    records: int
    order: Fraction
    n: int | None = None
    n_min: int | None = None
    ridge: Fraction | None = None
    min_eigenvalue: Fraction | None = None
    kind = "synth.gaussian"

    def check(self) -> None:
        check_facts(self.domain, self.unit, self.n, self.n_min)
        whole("records", self.records, least=1, most=10**9)
        renyi_order(self.order)
        for name, width in (("ridge", self.ridge), ("min_eigenvalue", self.min_eigenvalue)):
            if width is not None:
                positive(name, width)
        promised = self.guarantee.unconditional
        assumed = () if self.min_eigenvalue is None else (eigenvalue_assumption(self.min_eigenvalue),)
        if (self.ridge is None) == (self.min_eigenvalue is None) or self.guarantee.assumptions != assumed:
            raise ParameterError(
                "a Gaussian plan has a ridge, or an assumption and a conditional promise",
                given=str(self.guarantee),
            )
        if not isinstance(promised, Approx) or promised.delta == 0:
            raise GuaranteeError(
                "a Gaussian plan promises (eps, delta)", given=repr(promised), fix='kind = "approx"'
            )
        if self.curve(self.order) is None:
            raise GuaranteeError(
                "the plan does not keep its promise",
                given=f"order {show(self.order)}, at which nothing is shown",
                needed="a larger ridge, fewer records or a larger eps",
            )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The records themselves, at the plan's order."""
        one = self.curve(self.order)
        assert one is not None
        law = GaussianRecords(self.ridge, self.min_eigenvalue, self.order)
        return (Part(law, "records", Fraction(1), Renyi(self.order, self.records * one)),)

    @cached_property
    def curve(self) -> Curve:
        """What one record costs, by order."""
        return record_curve(self.unit, len(self.domain), self.n, self.n_min, self.ridge, self.min_eigenvalue)

    def forecast(self) -> Forecast:
        rows = []
        for column in self.domain:
            added = float(self.ridge or 0) ** 0.5 * (column.size - 1) / 2
            step = float(getattr(column, "step", 1))
            rows.append((column.name, added * step, (column.size - 1) * step))
        found = (
            f"ridge {about(self.ridge)}"
            if self.ridge is not None
            else "no ridge: the promise rests on an assumption"
        )
        return Forecast(
            "what the ridge adds to the spread of each column",
            ("of each", "added standard deviation", "range"),
            tuple(rows),
            (
                f"{found}, order {about(self.order)}",
                "a Gaussian keeps mean and covariance, not the shape of a column; method='marginals' keeps both",
            ),
        )

    def prepare(self, data: Any) -> Moments:
        """Exact moments. What is missing counts as the middle of its column."""
        codes = read_codes(data, self.domain, self.unit, self.n)
        middle = np.array([(column.size - 1) // 2 for column in self.domain])[:, None]
        codes = np.where(codes >= np.array([column.size for column in self.domain])[:, None], middle, codes)
        short = (self.n_min or 0) - codes.shape[1]
        if short > 0:
            codes = np.concatenate([codes, np.repeat(middle, short, axis=1)], axis=1)
        return moments_of(codes)

    def measure(self, prepared: Moments, bits: Bits, trials: int | None = None) -> Integers:
        sizes = [column.size for column in self.domain]
        drawn = draw_records(prepared, sizes, self.ridge or Fraction(0), self.records * (trials or 1), bits)
        return drawn if trials is None else drawn.reshape(trials, self.records, len(sizes))

    def publish(self, measured: Integers) -> Any:
        return to_table(self.domain, [np.ascontiguousarray(column) for column in measured.T])

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"{self.records:,} synthetic records",
            "noise": GaussianRecords(self.ridge, self.min_eigenvalue, self.order).to_dict(),
            "domain": self.domain.to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """A crowd in one corner, and one record that goes to the other corner, or leaves."""
        first = {column.name: column.value(0) for column in self.domain}
        last = {column.name: column.value(column.size - 1) for column in self.domain}
        crowd = (self.n or (self.n_min or 2) + 1) - 1
        rows = {name: [value] * crowd for name, value in first.items()}
        there = {name: [*values, last[name]] for name, values in rows.items()}
        if self.unit.adjacency == "replace":
            yield Pair(
                {name: [*values, first[name]] for name, values in rows.items()},
                there,
                "one record moves from the crowd to the other corner",
            )
        else:
            yield Pair(there, rows, "one record in the corner away from the crowd, or nobody")


def gaussian_plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number,
    delta: Number,
    records: int,
    n: int | None = None,
    n_min: int | None = None,
    assume_min_eigenvalue: Number | None = None,
) -> GaussianPlan:
    """Finds the smallest ridge that keeps (eps, delta), or, with an assumed eigenvalue, checks that none is needed."""
    check_facts(domain, unit, n, n_min)
    count = whole("records", records, least=1, most=10**9)
    wanted = Approx(positive("eps", eps), positive("delta", delta))
    if assume_min_eigenvalue is None:

        def curve_of(ridge: Fraction) -> Curve:
            return record_curve(unit, len(domain), n, n_min, ridge, None)

        ridge, order = ridge_for(curve_of, count, wanted.eps, wanted.delta)
        return GaussianPlan(domain, unit, wanted, count, order, n, n_min, ridge)
    least = positive("assume_min_eigenvalue", assume_min_eigenvalue)
    if least > 1:
        raise ParameterError(
            "assume_min_eigenvalue is too large",
            given=told(assume_min_eigenvalue=show(least)),
            needed="at most 1, the largest variance of a column in [-1, 1]",
            fix=setting(assume_min_eigenvalue="0.01"),
        )
    best = best_order(record_curve(unit, len(domain), n, n_min, None, least), count, wanted.delta)
    if best is None or best.approx.eps > wanted.eps:
        raise GuaranteeError(
            "so many records cost more than eps under this assumption",
            given=told(records=f"{count}", assume_min_eigenvalue=show(least), eps=show(wanted.eps)),
            needed="no order shows it" if best is None else f"eps of at least {about(best.approx.eps, 6)}",
            fix="without assume_min_eigenvalue, a ridge is found for the asked eps",
        )
    return GaussianPlan(
        domain,
        unit,
        Conditional(wanted, eigenvalue_assumption(least)),
        count,
        best.order,
        n,
        n_min,
        None,
        least,
    )
