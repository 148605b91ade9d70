"""Statistics of rows: counts, sums, means, covariances, quantiles, histograms; asked in a session.

And smooth sensitivity, graphs, any function on blocks, clusters, components and statistical queries. `estimators`,
for scikit-learn, is imported by itself.

Its examples begin with:

>>> import oboro as ob
>>> unit = ob.Unit.row("replace")
>>> domain = ob.Domain([ob.Integer("age", 0, 99), ob.Integer("income", 0, 10_000, step=100)])
>>> data = {"age": [31, 54, 18, 70] * 250, "income": [2_000, 4_100, 0, 1_500] * 250}
>>> ledger = ob.Ledger.create("people.ledger", dataset="people", unit=unit, budget=ob.Approx(2, "1e-5"))
>>> people = ob.Session(data, domain=domain, ledger=ledger)
"""

from oboro.statistics import sensitivity
from oboro.statistics.balls import Ball
from oboro.statistics.blocks import SampleAggregatePlan
from oboro.statistics.clusters import GridClustersPlan, LloydPlan, clusters_plan
from oboro.statistics.components import ComponentsPlan, components_plan
from oboro.statistics.graphs import (
    MstCostPlan,
    TrianglesPlan,
    mst_cost,
    mst_cost_plan,
    triangles,
    triangles_plan,
)
from oboro.statistics.histogram import HistogramPlan, histogram, histogram_plan
from oboro.statistics.means import MeanPlan
from oboro.statistics.moments import CovariancePlan
from oboro.statistics.oracle import Oracle, QueryPlan
from oboro.statistics.own import OwnFunctionPlan, own_function_plan
from oboro.statistics.person_tables import PersonTables
from oboro.statistics.persons import PersonsPlan
from oboro.statistics.quantiles import QuantilePlan
from oboro.statistics.questions import BatchPlan
from oboro.statistics.row_function import RowFunctionPlan
from oboro.statistics.scope import Bins
from oboro.statistics.selections import TopPlan
from oboro.statistics.session import Batch, Session
from oboro.statistics.smooth import SmoothQuantilePlan, TrimmedMeanPlan
from oboro.statistics.statement import StatementPlan
from oboro.statistics.sums import CountPlan, SumPlan, SumsPlan

__all__ = [
    "Ball",
    "Batch",
    "BatchPlan",
    "Bins",
    "ComponentsPlan",
    "CountPlan",
    "CovariancePlan",
    "GridClustersPlan",
    "HistogramPlan",
    "LloydPlan",
    "MeanPlan",
    "MstCostPlan",
    "Oracle",
    "OwnFunctionPlan",
    "PersonTables",
    "PersonsPlan",
    "QuantilePlan",
    "QueryPlan",
    "RowFunctionPlan",
    "SampleAggregatePlan",
    "Session",
    "SmoothQuantilePlan",
    "StatementPlan",
    "SumPlan",
    "SumsPlan",
    "TopPlan",
    "TrianglesPlan",
    "TrimmedMeanPlan",
    "clusters_plan",
    "components_plan",
    "histogram",
    "histogram_plan",
    "mst_cost",
    "mst_cost_plan",
    "own_function_plan",
    "sensitivity",
    "triangles",
    "triangles_plan",
]


def __dir__() -> list[str]:
    return __all__
