"""Statistics of rows: counts, sums, means, covariances, quantiles, histograms; asked in a session."""

from oboro.statistics.batch import BatchPlan
from oboro.statistics.bins import Bins
from oboro.statistics.counts import CountPlan
from oboro.statistics.covariances import CovariancePlan
from oboro.statistics.histogram import HistogramPlan, histogram, histogram_plan
from oboro.statistics.means import MeanPlan
from oboro.statistics.quantiles import QuantilePlan
from oboro.statistics.session import Batch, Session
from oboro.statistics.sums import SumPlan

__all__ = [
    "Batch",
    "BatchPlan",
    "Bins",
    "CountPlan",
    "CovariancePlan",
    "HistogramPlan",
    "MeanPlan",
    "QuantilePlan",
    "Session",
    "SumPlan",
    "histogram",
    "histogram_plan",
]
