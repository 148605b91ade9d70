"""The two calls that a user makes: a plan for synthetic data, and its release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oboro.domain import Domain
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number
from oboro.kinds import takes, text_of, unknown
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.privacy import Unit
from oboro.release import Release, run
from oboro.synth.adaptive import QualityPlan
from oboro.synth.copula import MomentsPlan
from oboro.synth.marginals import MarginalsPlan
from oboro.synth.model import Model, model_of
from oboro.synth.plan import ModelPlan, promised
from oboro.synth.records import GaussianPlan, gaussian_plan

if TYPE_CHECKING:
    from oboro.arrays import Data

METHODS = ("marginals", "quality", "moments", "gaussian")
SynthPlan = ModelPlan | GaussianPlan


@takes(domain=Domain, unit=Unit)
def plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    n: int | None = None,
    method: str = "marginals",
    records: int | None = None,
    n_min: int | None = None,
    assume_min_eigenvalue: Number | None = None,
) -> SynthPlan:
    """A plan for synthetic data about every column of the domain.

    method         what is released                                                          records
    "marginals"    a model: each column, and a tree of pairs                                 as many as you like
    "quality"      a model: each column, and tables of two or three, chosen by their error   as many as you like
    "moments"      a model: each column, and noisy correlations                              as many as you like
    "gaussian"     the records of a Gaussian, by the paper's method                          `records`, fixed now

    `n` is the number of rows: needed for `Unit.row("replace")`, where it is public, and refused where it is private. `rho` instead of eps and
    delta is for a ledger of zCDP. `n_min` and `assume_min_eigenvalue` belong to the Gaussian method.

    >>> plan = ob.synth.plan(domain, unit=unit, eps=1, delta="1e-6")
    >>> print(plan.forecast())
    expected error of each count that the model is made of
      of each          standard error  95% within ±
      count of age               11.7            23
      count of sex               11.7            23
      count of a pair           5.849            11
      note: the noise alone: what a tree of pairs leaves out comes on top; oboro synth report measures both
    """
    if text_of("method", method) not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "gaussian":
        if records is None or eps is None or delta is None or rho is not None:
            raise ParameterError(
                "the Gaussian method needs eps, delta and the number of records",
                given=told(eps=f"{eps}", delta=f"{delta}", rho=f"{rho}", records=f"{records}"),
                needed="records: each one costs, so their number is part of the plan",
                fix=setting(eps=3, delta="1e-5", records=10**5),
            )
        return gaussian_plan(
            domain,
            unit=unit,
            eps=eps,
            delta=delta,
            records=records,
            n=n,
            n_min=n_min,
            assume_min_eigenvalue=assume_min_eigenvalue,
        )
    extra = {"records": records, "n_min": n_min, "assume_min_eigenvalue": assume_min_eigenvalue}
    if any(value is not None for value in extra.values()):
        raise ParameterError(
            f"method {method!r} gives a model, not a fixed number of records",
            given=told(**{name: str(value) for name, value in extra.items() if value is not None}),
            needed="none of these",
            fix="as many records as you like, drawn from the model after the release",
        )
    kinds: dict[str, type[ModelPlan]] = {
        "marginals": MarginalsPlan,
        "quality": QualityPlan,
        "moments": MomentsPlan,
    }
    return kinds[method](domain, unit, promised(eps, delta, rho), n)


def release(
    data: Data, plan: SynthPlan, *, ledger: Ledger, name: str | None = None, bits: Bits | None = None
) -> Any:
    """Runs a plan, once, and pays for it. Gives a `Model`; for the Gaussian method a `Release` whose table is the records.

    >>> model = ob.synth.release(data, ob.synth.plan(domain, unit=unit, rho="0.5"), ledger=ledger)
    >>> model.sample(3).column_names, ledger.remaining
    (['age', 'sex'], ZCDP('0.5'))
    """
    released: Release = run(plan, data, ledger, name, bits=bits)
    return released if isinstance(plan, GaussianPlan) else model_of(released)


__all__ = ["METHODS", "Model", "SynthPlan", "plan", "release"]
